//! Elements have the same bits wherever they lie, in memory and in the sequence.

use super::*;
use crate::fill::blocks::{Blocks, WINDOW};
use std::str::FromStr;

/// Strides of the last dimension other than 1, among them such that two elements of a byte are filled at different times.
#[test]
fn elements_are_stored_where_the_strides_lead() {
    let shape = [6, 7, 100];
    for (strides, offset, reason) in [
        ([1400isize, 200, 2], 1, "every second element"),
        ([2100, 300, -3], 299, "backwards"),
        ([1, 6, 42], 0, "the last dimension is outermost"),
        ([707, -101, 1], 3 + 6 * 101, "rows of odd length, the last first"),
    ] {
        for dtype in DType::ALL {
            for text in ["uniform:1,4/seed=9", "sequential:0", "int:1,2/seed=3", "constant:2/sparse24/seed=4"] {
                let spec: FillSpec = text.parse().unwrap();
                let Ok(dense) = filled(&spec, dtype, &shape) else { continue };
                let layout = Layout::strided(&shape, &strides, offset).unwrap();
                let end = layout.end() + 5;
                let mut bytes = vec![0xa5; dtype.bytes_for(end).unwrap()];
                let mut expected = bytes.clone();
                (0..dense.len()).for_each(|i| dtype.store_bits(&mut expected, layout.index(i), dense[i]));
                fill(&mut TensorMut::from_host_bytes(&mut bytes, dtype, layout).unwrap(), &spec).unwrap();
                assert!(bytes == expected, "{text} {dtype}: {reason}");
            }
        }
    }
}

/// Numbers of blocks have more than 32 bits there, and the C library's sequence is left and taken up again.
#[test]
fn windows_come_in_any_order_and_from_far_on() {
    let layout = Layout::contiguous(&[1 << 16, 1 << 12, 1 << 12]).unwrap();
    for (dtype, text) in DType::ALL.into_iter().flat_map(|dtype| SPECS.map(|text| (dtype, text))) {
        let Ok(p) = kernel_params(&text.parse().unwrap(), dtype, &layout) else { continue };
        let step = if text.starts_with("crand") { 500 } else { 1 };
        for &set in InstructionSet::all() {
            let mut blocks = Blocks::new(set, &p, dtype);
            for start in [0, 5 << 36, (5 << 36) + WINDOW, WINDOW] {
                let bytes = blocks.window(start as u64);
                for i in (0..WINDOW).step_by(step) {
                    let expected = element(&p, dtype, (start + i) as u64);
                    assert_eq!(dtype.load_bits(bytes, i), expected, "{text} {dtype}, {set:?}: element {i} from {start}");
                }
            }
        }
    }
}

/// Memory past the caches is written by whole cache lines: only from the begin of one.
#[test]
fn much_memory_need_not_begin_with_a_cache_line() {
    let elements = (8 << 20) + 100;
    for shift in [0, 1, 16] {
        let mut buffer = vec![0xa5u8; elements + 128];
        let at = buffer.as_ptr().align_offset(64) + shift;
        let memory = &mut buffer[at..at + elements];
        let mut tensor = TensorMut::from_host_bytes(memory, DType::I8, Layout::flat(elements)).unwrap();
        fill(&mut tensor, &FillSpec::from_str("constant:7").unwrap()).unwrap();
        assert!(buffer[at..at + elements].iter().all(|&x| x == 7), "{shift} bytes after the begin of a cache line");
        assert!(buffer[..at].iter().chain(&buffer[at + elements..]).all(|&x| x == 0xa5), "{shift} bytes after the begin of a cache line");
    }
}

/// Shapes of few dimensions, which patterns by coordinates count from the last.
#[test]
fn patterns_by_coordinates_take_any_rank() {
    for (text, shape, expected) in [
        ("checkerboard:3", &[][..], &[3.0][..]),
        ("checkerboard:3", &[2], &[3.0, -3.0]),
        ("diagonal:2", &[2, 3], &[2.0, 0.0, 0.0, 0.0, 2.0, 0.0]),
        ("diagonal:2", &[1, 2, 2], &[2.0, 0.0, 0.0, 2.0]),
        ("diagonal:2", &[2, 1, 2, 1], &[2.0, 0.0, 2.0, 0.0]),
        ("sequential:0", &[2, 2], &[0.0, 0.0, 1.0, 1.0]),
    ] {
        assert_eq!(values(text, DType::F32, shape), expected, "{text} {shape:?}");
        let p = kernel_params(&text.parse().unwrap(), DType::F32, &Layout::contiguous(shape).unwrap()).unwrap();
        let defined: Vec<f64> = (0..expected.len()).map(|i| DType::F32.decode(element(&p, DType::F32, i as u64))).collect();
        assert_eq!(defined, expected, "{text} {shape:?} by the definition");
    }
}

/// A word just below the rate's limit makes an element special, one at the limit does not.
#[test]
fn special_values_end_at_the_rate() {
    let ordinary = kernel_params(&"constant:1/seed=3".parse().unwrap(), DType::F16, &Layout::flat(WINDOW)).unwrap();
    let one = element(&ordinary, DType::F16, 5);
    let mut words = [0; 4 * WINDOW];
    crate::fill::philox::words(InstructionSet::best(), &ordinary, 1 << 24, 0, &mut words);
    let word = u64::from(words[2 * 5]);
    for (special_below, special) in [(word, false), (word + 1, true)] {
        let p = params::FillParams { special_below, flags: ordinary.flags | params::flag::HAS_NAN, ..ordinary };
        assert_eq!(element(&p, DType::F16, 5) != one, special, "{word:x} below {special_below:x}");
        for &set in InstructionSet::all() {
            let mut blocks = Blocks::new(set, &p, DType::F16);
            assert_eq!(DType::F16.load_bits(blocks.window(0), 5) != one, special, "{word:x} below {special_below:x}, {set:?}");
        }
    }
}

/// Each of two elements of a byte is a whole task's.
#[test]
fn packed_elements_are_those_of_the_definition_in_every_task() {
    let elements = (4 << 16) + 5001;
    let spec: FillSpec = "uniform:1,4/seed=6".parse().unwrap();
    for dtype in [DType::F4E2M1, DType::I4] {
        let p = kernel_params(&spec, dtype, &Layout::flat(elements)).unwrap();
        for (i, bits) in filled(&spec, dtype, &[elements]).unwrap().into_iter().enumerate().step_by(97) {
            assert_eq!(bits, element(&p, dtype, i as u64), "{dtype} element {i}");
        }
    }
}

/// Draws that are one too many are drawn again: 39,204 of 2^32, and a quarter of 2^64.
#[test]
fn doubtful_draws_are_those_of_the_definition() {
    let quarter = 3i64 << 60;
    for (text, dtype, elements) in
        [("int:-20006,20005".to_owned(), DType::I16, 1 << 20), (format!("int:{},{}", -quarter, quarter - 1), DType::I64, 4096)]
    {
        let spec: FillSpec = text.parse().unwrap();
        let p = kernel_params(&spec, dtype, &Layout::flat(elements)).unwrap();
        for (i, bits) in filled(&spec, dtype, &[elements]).unwrap().into_iter().enumerate() {
            assert_eq!(bits, element(&p, dtype, i as u64), "{text} {dtype} element {i}");
        }
    }
}

/// The six pairs, in the order of their sixths of 2^32.
#[test]
fn a_word_keeps_the_pair_of_its_sixth() {
    let sixth = (1u64 << 32).div_ceil(6);
    for (i, pair) in [0b0011, 0b0101, 0b0110, 0b1001, 0b1010, 0b1100].into_iter().enumerate() {
        let (first, last) = (i as u64 * (1 << 32), (i as u64 + 1) * (1 << 32));
        for word in [first.div_ceil(6), first.div_ceil(6) + sixth / 2, last.div_ceil(6) - 1] {
            assert_eq!(crate::fill::element::kept(word as u32), pair, "{word:x}");
        }
    }
}
