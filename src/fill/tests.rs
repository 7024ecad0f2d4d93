//! Properties that every generator has in every format, and those of single generators.

use super::element::element;
use super::params::kernel_params;
use super::*;
use crate::device::Layout;
use crate::dtype::{Class, DType, Scalar};
use crate::simd::InstructionSet;

mod places;

/// A buffer of `elements` elements filled on the host, as raw bits.
fn filled(spec: &FillSpec, dtype: DType, shape: &[usize]) -> Result<Vec<u64>> {
    let elements: usize = shape.iter().product();
    let mut bytes = vec![0; dtype.bytes_for(elements).unwrap()];
    fill(&mut TensorMut::from_host_bytes(&mut bytes, dtype, Layout::contiguous(shape)?)?, spec)?;
    Ok((0..elements).map(|i| dtype.load_bits(&bytes, i)).collect())
}

fn values(text: &str, dtype: DType, shape: &[usize]) -> Vec<f64> {
    let bits = filled(&text.parse().unwrap(), dtype, shape).unwrap();
    bits.into_iter().map(|b| dtype.decode(b)).collect()
}

/// Every pattern, with parameters that most formats take.
const SPECS: [&str; 22] = [
    "uniform:1,4/seed=5",
    "uniform:-1,1/seed=5",
    "int:1,2/stream=3",
    "int:-3,3",
    "int:-3000000000,4294967000/seed=2",
    "normal:0,0.5/seed=1",
    "constant:1",
    "constant:2/sparse24/seed=4",
    "sequential:1",
    "diagonal:2",
    "checkerboard:1",
    "monotonic:1,0.125",
    "sin",
    "cos",
    "hpl/seed=2",
    "bounce:1,3",
    "subnormal",
    "exact:5000,2,1,f16,a",
    "crand:-1,1/seed=1",
    "crand:r4/sparse24",
    "uniform:-1,1/special=0.3",
    "normal:1,0.25/special=0.5/sparse24/seed=77/stream=1",
];

#[test]
fn fast_paths_agree_with_the_definition_in_every_format() {
    let mut refused = 0;
    for dtype in DType::ALL {
        // Tasks are 2^16 elements: one that ends in mid-task, and one below a batch.
        for shape in [[3, 5, 68], [1, 515, 256]] {
            for text in SPECS {
                let spec: FillSpec = text.parse().unwrap();
                let layout = Layout::contiguous(&shape).unwrap();
                let Ok(p) = kernel_params(&spec, dtype, &layout) else {
                    refused += 1;
                    continue;
                };
                let bits = filled(&spec, dtype, &shape).unwrap();
                // A jump in the C library's sequence takes a while.
                let step = if text.starts_with("crand") {
                    4001
                } else if shape[1] == 5 {
                    1
                } else {
                    331
                };
                let tail = if text.starts_with("crand") { 3 } else { 70 };
                for (i, b) in bits.iter().enumerate().step_by(step).chain(bits.iter().enumerate().skip(bits.len() - tail)) {
                    assert_eq!(*b, element(&p, dtype, i as u64), "{text} {dtype} {shape:?} element {i}");
                }
            }
        }
    }
    assert_eq!(refused, 2 * REFUSED, "patterns that some format cannot hold");
}

/// How many of the patterns above some format refuses: integers have no subnormal or special numbers, unsigned ones and e8m0 no negative
/// ones, e8m0 no zero, bool nothing above 1; all whole numbers of 33 bits of either sign are in f64 and i64 alone.
const REFUSED: usize = 10 * 3 + 5 * 9 + 15 + 6 + 2 + 21;

#[test]
fn instruction_sets_do_not_matter() {
    let more =
        ["int:0,1000000", "int:-5,4294967000", "int:-9000000000000000000,9000000000000000000", "normal:0,1/seed=1", "bounce:0.01,0.5"];
    let (plain, _) = InstructionSet::all().split_last().unwrap();
    // Whole tasks and a part; one element less, so that nothing is aligned; and enough to go past the caches.
    for (elements, offset, large) in [(70_001, 0, false), (70_000, 1, false), (0, 0, true)] {
        // Of widths alone it depends whether stores go past the caches.
        let one_of_each_width = [DType::F64, DType::F32, DType::F16, DType::F8E4M3, DType::F4E2M1];
        for &dtype in if large { &one_of_each_width[..] } else { &DType::ALL[..] } {
            let elements = if large { (8 << 23) / dtype.bits() + 1 } else { elements };
            let layout = Layout::strided(&[1, elements], &[elements as isize, 1], offset).unwrap();
            let specs = SPECS.into_iter().chain(more).filter(|text| !large || text.starts_with("uniform:1") || text.starts_with("int:0"));
            for text in specs {
                let Ok(p) = kernel_params(&text.parse().unwrap(), dtype, &layout) else { continue };
                if large && !(p.flags == params::flag::CONTIGUOUS && dtype.bits() * elements >= 8 << 23) {
                    continue;
                }
                let mut expected = vec![0xa5; dtype.bytes_for(layout.end() + 3).unwrap()];
                host::fill_with(*plain, &p, dtype, &mut expected);
                for &set in InstructionSet::all() {
                    // Aligned to a cache line, as stores past the caches must be.
                    let mut buffer = vec![0xa5; expected.len() + 64];
                    let at = buffer.as_ptr().align_offset(64);
                    let memory = &mut buffer[at..at + expected.len()];
                    host::fill_with(set, &p, dtype, memory);
                    assert!(*memory == expected, "{text} {dtype} {elements} from {offset}, {set:?}");
                }
            }
        }
    }
}

#[test]
fn threads_and_strides_do_not_matter() {
    let specs = ["uniform:-1,1/seed=9", "normal:0,1", "int:-4,4/sparse24", "sequential:0", "checkerboard:1", "crand:-1,1/seed=3"];
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let five = rayon::ThreadPoolBuilder::new().num_threads(5).build().unwrap();
    let shape = [7, 120, 84];
    for dtype in [DType::F32, DType::F16, DType::F64, DType::F8E4M3, DType::F4E2M1, DType::I4, DType::I64] {
        for text in specs {
            let spec: FillSpec = text.parse().unwrap();
            let dense = one.install(|| filled(&spec, dtype, &shape)).unwrap();
            assert!(dense == five.install(|| filled(&spec, dtype, &shape)).unwrap(), "{text} {dtype} by 5 threads");
            // Rows of 91 (odd: packed rows start in mid-byte), planes backwards, dimensions swapped.
            let layout = Layout::strided(&shape, &[-91, 91 * 7, 1], 3 + 91 * 6).unwrap();
            let mut bytes = vec![0xa5; dtype.bytes_for(layout.end() + 5).unwrap()];
            let before = bytes.clone();
            fill(&mut TensorMut::from_host_bytes(&mut bytes, dtype, layout.clone()).unwrap(), &spec).unwrap();
            let mut touched = vec![false; layout.end() + 5];
            for (i, bits) in dense.iter().enumerate() {
                assert_eq!(dtype.load_bits(&bytes, layout.index(i)), *bits, "{text} {dtype} element {i}");
                touched[layout.index(i)] = true;
            }
            for at in (0..touched.len()).filter(|&at| !touched[at]) {
                assert_eq!(dtype.load_bits(&bytes, at), dtype.load_bits(&before, at), "{text} {dtype}: padding at {at}");
            }
        }
    }
}

#[test]
fn offsets_do_not_matter() {
    for dtype in DType::ALL {
        let spec: FillSpec = if dtype == DType::Bool { "uniform:0,1/seed=9" } else { "uniform:1,4/seed=9" }.parse().unwrap();
        for (elements, offset) in [(1, 0), (1, 1), (2, 1), (1000, 3), (1001, 1), (70_000, 1), (0, 1)] {
            let dense = filled(&spec, dtype, &[elements]).unwrap();
            let layout = Layout::strided(&[elements], &[1], offset).unwrap();
            let mut bytes = vec![0xff; dtype.bytes_for(offset + elements + 3).unwrap()];
            let before = bytes.clone();
            fill(&mut TensorMut::from_host_bytes(&mut bytes, dtype, layout).unwrap(), &spec).unwrap();
            for at in 0..offset + elements + 3 {
                let expected = if at >= offset && at < offset + elements { dense[at - offset] } else { dtype.load_bits(&before, at) };
                assert_eq!(dtype.load_bits(&bytes, at), expected, "{dtype} {elements} elements from {offset}: {at}");
            }
        }
    }
}

#[test]
fn uniform_stays_in_its_range_and_reaches_its_ends() {
    let n = 20_000;
    for dtype in DType::ALL {
        for (min, max) in [(1.0, 4.0), (1.1, 3.9), (-1.0, 1.0), (-5.3, 5.9), (0.0, 1.0), (3.0, 3.0), (-6.0, -2.5)] {
            let spec = FillUniformRand::new(min, max).seed(4).spec();
            let Ok(bits) = filled(&spec, dtype, &[n]) else {
                let unsigned = dtype.int_format().is_some_and(|int| !int.signed);
                assert!(unsigned || matches!(dtype, DType::F8E8M0 | DType::F4E2M1), "{dtype} [{min}, {max}]");
                continue;
            };
            let v: Vec<f64> = bits.iter().map(|&b| dtype.decode(b)).collect();
            let (low, high) = v.iter().fold((f64::MAX, f64::MIN), |(l, h), &x| (l.min(x), h.max(x)));
            assert!(low >= min && high <= max, "{dtype} [{min}, {max}] gave [{low}, {high}]");
            // The outermost numbers of a coarse format all appear; only to 0 no draw comes close enough.
            if dtype.bits() <= 8 && (dtype.is_int() || min != 0.0) {
                let all = (0..1u64 << dtype.bits()).map(|b| dtype.decode(b)).filter(|&x| x >= min && x <= max);
                let (first, last) = all.fold((f64::MAX, f64::MIN), |(l, h), x| (l.min(x), h.max(x)));
                assert_eq!((low, high), (first, last), "{dtype} [{min}, {max}]");
            }
        }
    }
}

/// Pearson's chi-square over `bins` equally likely bins.
fn chi_square(counts: &[usize]) -> f64 {
    let expected = counts.iter().sum::<usize>() as f64 / counts.len() as f64;
    counts.iter().map(|&c| (c as f64 - expected).powi(2) / expected).sum()
}

#[test]
fn distributions_are_flat_or_normal() {
    let n = 200_000;
    for (dtype, text) in [(DType::F32, "uniform:0,1/seed=1"), (DType::F64, "uniform:0,1/seed=2"), (DType::F16, "uniform:0,1/seed=3")] {
        let mut bins = [0; 64];
        values(text, dtype, &[n]).iter().for_each(|v| bins[((v * 64.0) as usize).min(63)] += 1);
        // 63 degrees of freedom: 99.9 % of samples lie below 103.
        assert!(chi_square(&bins) < 103.0, "{text} {dtype}: {bins:?}");
    }
    for (dtype, text, low, count) in [
        (DType::I8, "int:-100,100", -100, 201),
        (DType::I64, "int:-7,6", -7, 14),
        (DType::I4, "int:-8,7", -8, 16),
        (DType::F16, "int:-3,3", -3, 7),
    ] {
        let mut bins = vec![0; count];
        values(text, dtype, &[n]).iter().for_each(|&v| bins[(v as i64 - low) as usize] += 1);
        // Mean plus 4 standard deviations.
        let freedom = count as f64 - 1.0;
        assert!(chi_square(&bins) < freedom + 4.0 * (2.0 * freedom).sqrt(), "{text} {dtype}: {bins:?}");
    }
    for dtype in [DType::F32, DType::F64, DType::F16] {
        let v = values("normal:3,2/seed=8", dtype, &[n]);
        let mean = v.iter().sum::<f64>() / n as f64;
        let moment = |k: i32| v.iter().map(|x| ((x - 3.0) / 2.0).powi(k)).sum::<f64>() / n as f64;
        assert!((mean - 3.0).abs() < 0.02, "{dtype}: mean {mean}");
        assert!((moment(2) - 1.0).abs() < 0.02 && moment(3).abs() < 0.04 && (moment(4) - 3.0).abs() < 0.1, "{dtype}");
        let neighbours = v.windows(2).map(|w| (w[0] - 3.0) * (w[1] - 3.0) / 4.0).sum::<f64>() / n as f64;
        assert!(neighbours.abs() < 0.02, "{dtype}: neighbours correlate, {neighbours}");
    }
}

#[test]
fn wide_integers_have_no_bias_and_reach_their_ends() {
    // Three quarters of 2^32: multiplying without rejection would give every third number double weight.
    let count = 3i64 << 30;
    let v = values(&format!("int:0,{}", count - 1), DType::I64, &[300_000]);
    let mut thirds = [0; 3];
    v.iter().for_each(|&x| thirds[x as usize % 3] += 1);
    assert!(chi_square(&thirds) < 13.8, "{thirds:?}");
    // As much of 2^64: 64 random bits.
    let least = -3i64 << 60;
    let wide = filled(&format!("int:{least},{}", -least - 1).parse().unwrap(), DType::I64, &[300_000]).unwrap();
    let mut thirds = [0; 3];
    wide.iter().for_each(|&x| thirds[(x.wrapping_sub(least as u64) % 3) as usize] += 1);
    assert!(chi_square(&thirds) < 13.8, "{thirds:?}");
    // A quarter is drawn again, of 64 bits as well.
    let near = wide.iter().filter(|&&x| x.wrapping_sub(least as u64) < 1 << 40).count();
    assert!(near < 5, "{near} of 300,000 are in the first 2^40 of 2^62.6");
    for (text, low, high) in [
        ("int:-9223372036854775808,9223372036854775807", i64::MIN, i64::MAX),
        ("int:0,4294967295", 0, u32::MAX.into()),
        ("int:-1,9223372036854775807", -1, i64::MAX),
    ] {
        let bits = filled(&text.parse().unwrap(), DType::I64, &[100_000]).unwrap();
        let (least, most) = bits.iter().fold((i64::MAX, i64::MIN), |(l, m), &b| (l.min(b as i64), m.max(b as i64)));
        let near = ((high as i128 - low as i128) / 10_000) as i64;
        assert!(least >= low && least <= low.saturating_add(near) && most <= high && most >= high - near, "{text}: {least} to {most}");
    }
}

#[test]
fn seeds_and_streams_differ() {
    let a = values("uniform:0,1/seed=1", DType::F32, &[1000]);
    for other in ["uniform:0,1/seed=2", "uniform:0,1/seed=1/stream=1", "uniform:0,1/seed=4294967297"] {
        let b = values(other, DType::F32, &[1000]);
        assert!(a.iter().zip(&b).filter(|(x, y)| x == y).count() < 3, "{other}");
    }
}

#[test]
fn fixed_patterns() {
    let cases: [(&str, &[usize], &[f64]); 8] = [
        ("sequential:0", &[2, 3], &[0.0, 0.0, 0.0, 1.0, 1.0, 1.0]),
        ("sequential:1", &[2, 3], &[0.0, 1.0, 2.0, 0.0, 1.0, 2.0]),
        ("diagonal:5", &[2, 2, 2], &[5.0, 0.0, 0.0, 5.0, 5.0, 0.0, 0.0, 5.0]),
        ("checkerboard:2", &[2, 3], &[2.0, -2.0, 2.0, -2.0, 2.0, -2.0]),
        ("monotonic:-1,0.5", &[4], &[-1.0, -0.5, 0.0, 0.5]),
        ("monotonic:6,1", &[4], &[6.0, 7.0, 7.5, 7.5]),
        ("constant:-0", &[2], &[-0.0, -0.0]),
        ("values:0.5,-0,0.8", &[2, 2], &[0.5, -0.0, 0.75, 0.5]),
    ];
    for (text, shape, expected) in cases {
        let v = values(text, DType::F6E2M3, shape);
        assert!(v.iter().zip(expected).all(|(a, b)| a.to_bits() == b.to_bits()), "{text}: {v:?}");
    }
    let (sin, cos) = (values("sin", DType::F64, &[1000]), values("cos", DType::F64, &[1000]));
    for (i, (s, c)) in sin.iter().zip(&cos).enumerate() {
        assert!((s - (i as f64).sin()).abs() < 3e-16 && (c - (i as f64).cos()).abs() < 3e-16, "{i}");
    }
}

#[test]
fn infinities_that_were_asked_for_stay() {
    let inf = f64::INFINITY;
    for dtype in [DType::F16, DType::Bf16, DType::F32, DType::F64, DType::F8E5M2] {
        for (text, expected) in [
            ("constant:-inf", [-inf, -inf, -inf, -inf]),
            ("diagonal:inf", [inf, 0.0, 0.0, inf]),
            ("checkerboard:inf", [inf, -inf, -inf, inf]),
            ("values:inf,1,-inf", [inf, 1.0, -inf, inf]),
        ] {
            assert_eq!(values(text, dtype, &[2, 2]), expected, "{dtype} {text}");
        }
        // Those that arise do not.
        assert!(values("monotonic:0,1e308", dtype, &[4]).iter().all(|v| v.is_finite()), "{dtype}");
    }
}

#[test]
fn lists_of_values_repeat_under_what_lies_over_them() {
    let bits = filled(&"values:1,inf,nan".parse().unwrap(), DType::F16, &[5]).unwrap();
    assert_eq!(bits, [0x3c00, 0x7c00, 0x7e00, 0x3c00, 0x7c00]);
    // Of one value: the constant.
    for dtype in DType::ALL.into_iter().filter(|d| *d != DType::F8E8M0) {
        for rest in ["", "/sparse24/seed=4", "/special=0.3/seed=5"] {
            let [list, one] =
                ["values:1", "constant:1"].map(|text| filled(&format!("{text}{rest}").parse().unwrap(), dtype, &[40, 20]).ok());
            assert_eq!(list, one, "{dtype} {rest}");
        }
    }
    assert_eq!(FillValues::new(vec![2.0, 3.0]).spec(), "values:2,3".parse().unwrap());
    let empty = filled(&FillValues::new(Vec::new()).spec(), DType::F32, &[2]).unwrap_err().to_string();
    assert!(empty.contains("values cannot be an empty list"), "{empty}");
    // More than one task, and elements with gaps between them.
    let dense = filled(&"values:1,2,3".parse().unwrap(), DType::I16, &[70_000]).unwrap();
    assert!(dense.iter().enumerate().all(|(i, bits)| *bits == i as u64 % 3 + 1));
    let mut memory = [9u8; 12];
    let layout = Layout::strided(&[2, 2], &[6, 2], 1).unwrap();
    fill(&mut TensorMut::from_host_bytes(&mut memory, DType::U8, layout).unwrap(), &FillValues::new(vec![1.0, 2.0, 3.0])).unwrap();
    assert_eq!(memory, [9, 1, 9, 2, 9, 9, 9, 3, 9, 1, 9, 9]);
}

#[test]
fn bounce_keeps_away_from_zero() {
    for dtype in [DType::F32, DType::F64, DType::F16, DType::F8E4M3Fnuz, DType::I8, DType::I4] {
        let v = values("bounce:1,3/seed=3", dtype, &[20_000]);
        assert!(v.iter().all(|x| (1.0..=3.0).contains(&x.abs())), "{dtype}");
        let negative = v.iter().filter(|x| **x < 0.0).count();
        assert!((9_600..10_400).contains(&negative), "{dtype}: {negative} of 20000 are negative");
    }
}

#[test]
fn subnormals_are_subnormal() {
    for dtype in DType::ALL.into_iter().filter(|d| !d.is_int() && *d != DType::F8E8M0) {
        let bits = filled(&FillSubnormal::new().spec(), dtype, &[50_000]).unwrap();
        assert!(bits.iter().all(|&b| dtype.classify(b) == Class::Subnormal), "{dtype}");
        let mut seen = bits.clone();
        seen.sort_unstable();
        seen.dedup();
        let all = 2 * ((1u64 << dtype.float_format().unwrap().mantissa_bits) - 1);
        assert!(seen.len() as u64 == all || all > 2_000 && seen.len() > 40_000, "{dtype}: {} of {all}", seen.len());
    }
}

#[test]
fn special_values_come_at_their_rate_and_in_every_class() {
    let n = 40_000;
    for dtype in DType::ALL.into_iter().filter(|d| !d.is_int()) {
        let bits = filled(&FillConstant::new(1.0).with_specials(0.25), dtype, &[n]).unwrap();
        let special = bits.iter().filter(|&&b| dtype.decode(b) != 1.0).count();
        assert!((9_500..10_500).contains(&special), "{dtype}: {special} of {n}");
        let f = dtype.float_format().unwrap();
        let count = |class| bits.iter().filter(|&&b| dtype.classify(b) == class).count();
        assert_eq!(count(Class::Zero) > 0, dtype != DType::F8E8M0, "{dtype} zeros");
        assert_eq!(count(Class::Infinite) > 0, f.has_infinity(), "{dtype} infinities");
        assert_eq!(count(Class::Nan) > 0, f.has_nan(), "{dtype} NaN");
        let mut nans: Vec<u64> = bits.into_iter().filter(|&b| dtype.classify(b) == Class::Nan).collect();
        nans.sort_unstable();
        nans.dedup();
        if dtype == DType::F16 || dtype == DType::F32 {
            assert!(nans.len() > 900, "{dtype}: {} NaN payloads", nans.len());
        }
    }
}

#[test]
fn sparsity_keeps_two_of_four() {
    let text: FillSpec = "uniform:-1,1/seed=3/sparse24".parse().unwrap();
    assert_eq!(FillUniformRand::new(-1.0, 1.0).seed(3).sparse_2_4(), text);
    let v = values("bounce:1,2/sparse24/seed=2", DType::F16, &[50, 400]);
    let mut patterns = [0; 16];
    for four in v.chunks_exact(4) {
        patterns[four.iter().enumerate().map(|(i, x)| usize::from(*x != 0.0) << i).sum::<usize>()] += 1;
    }
    let used: Vec<usize> = patterns.iter().copied().filter(|&c| c > 0).collect();
    assert_eq!(used.len(), 6, "{patterns:?}");
    assert!(chi_square(&used) < 20.5, "{patterns:?}");
    assert!((0..16).all(|m: usize| patterns[m] == 0 || m.count_ones() == 2), "{patterns:?}");
}

#[test]
fn exact_products_have_no_rounding_error() {
    let (m, k, n) = (8, 5000, 6);
    for (accumulator, max_a, max_b) in [(DType::F16, 3, 3), (DType::F32, 8, 8), (DType::F16, 16, 1)] {
        let text = |operand| format!("exact:{k},{max_a},{max_b},{accumulator},{operand}/seed=6");
        let a = values(&text('a'), DType::F16, &[m, k]);
        let b = values(&format!("{}/stream=1", text('b')), DType::F16, &[k, n]);
        assert!(b.iter().all(|x| *x != 0.0));
        let mut zero_results = 0;
        for i in 0..m {
            for j in 0..n {
                let (mut exact, mut rounded, mut worst) = (0f64, 0f64, 0f64);
                for l in 0..k {
                    let product = a[i * k + l] * b[l * n + j];
                    worst += product.abs();
                    exact += product;
                    rounded = accumulator.rounded(rounded + product);
                }
                assert_eq!(exact, rounded, "{accumulator} [{i}, {j}]");
                // In any order: even the sum of magnitudes is counted exactly.
                assert!(worst <= 2f64.powi(accumulator.float_format().unwrap().mantissa_bits as i32 + 1), "{worst}");
                zero_results += usize::from(exact == 0.0);
            }
        }
        assert!(zero_results < m * n / 4, "{zero_results} results are zero and prove nothing");
    }
}

#[test]
fn crand_maps_as_the_published_experiments_did() {
    // srand(1): the first outputs of the C library are 1804289383, 846930886, 1681692777.
    let f32s = values("crand:-10,10/seed=1", DType::F32, &[3]);
    let expected = [1_804_289_383u32, 846_930_886, 1_681_692_777].map(|r| (20.0 * f64::from(r) / 2_147_483_647.0) as f32 + -10.0);
    assert_eq!(f32s, expected.map(f64::from));
    let f16s = values("crand:-10,10/seed=1", DType::F16, &[3]);
    for (half, single) in f16s.iter().zip(expected) {
        let cut = if half::f16::from_f32(single).to_f64().abs() > f64::from(single).abs() {
            half::f16::from_bits(half::f16::from_f32(single).to_bits() - 1)
        } else {
            half::f16::from_f32(single)
        };
        assert_eq!(*half, cut.to_f64());
    }
}

#[test]
fn parameters_that_do_not_fit_are_errors() {
    let cases = [
        ("uniform:1,-1", DType::F32, "must not exceed its second"),
        ("uniform:NaN,1", DType::F32, "must be finite"),
        ("uniform:0,inf", DType::F64, "must be finite"),
        ("uniform:0,70000", DType::F16, "f16 holds numbers from -65504 to 65504"),
        ("uniform:0,7", DType::F4E2M1, "f4e2m1 holds numbers from -6 to 6"),
        ("uniform:-1,1", DType::U8, "u8 holds numbers from 0 to 255"),
        ("uniform:-1,1", DType::U64, "u64 holds numbers from 0 to 18446744073709551615"),
        ("uniform:0,1e39", DType::F32, "f32 holds numbers from -3.4028234663852886e38 to 3.4028234663852886e38"),
        ("uniform:4.1,4.2", DType::F4E2M1, "must contain a number of f4e2m1"),
        ("uniform:0.2,0.8", DType::I32, "must contain a whole number"),
        ("uniform:-3e38,3e38", DType::F32, "max - min must not exceed"),
        ("int:0,3000", DType::F16, "only from -2048 to 2048"),
        ("int:0,2", DType::F8E8M0, "only from 1 to 2"),
        ("int:5,4", DType::I8, "must not exceed its second"),
        ("normal:0,-1", DType::F32, "must be finite and not negative"),
        ("constant:300", DType::I8, "i8 holds"),
        ("constant:inf", DType::F8E4M3, "f8e4m3 holds"),
        ("constant:nan", DType::F4E2M1, "f4e2m1 holds"),
        ("values:1,300", DType::I8, "value cannot be 300: i8 holds"),
        ("values:1/special=0.5", DType::I8, "no special values"),
        ("sequential:1", DType::F32, "1 dimensions, counted from 0"),
        ("diagonal:1", DType::F32, "at least 2 dimensions"),
        ("checkerboard:1", DType::U8, "negative"),
        ("bounce:0,1", DType::F32, "must be above 0"),
        ("subnormal", DType::I8, "subnormal numbers"),
        ("exact:0,1,1,f32,a", DType::F32, "at least 1"),
        ("exact:10,5000,5000,f32,a", DType::F32, "one product at most 16777216"),
        ("exact:10,100,1,f32,a", DType::F8E4M3, "only up to 16"),
        ("crand:0,1/seed=4294967296", DType::F32, "srand takes at most"),
        ("uniform:0,1/special=1.5", DType::F32, "between 0 and 1"),
        ("uniform:0,1/special=nan", DType::F32, "between 0 and 1"),
        ("uniform:0,1/special=0.5", DType::I8, "no special values"),
        ("uniform:1,2/sparse24", DType::F8E8M0, "has a zero"),
        ("uniform:1,2/sparse24", DType::F32, "a multiple of 4"),
    ];
    for (text, dtype, part) in cases {
        let message = filled(&text.parse().unwrap(), dtype, &[6]).unwrap_err().to_string();
        assert!(message.contains(part), "{text} {dtype}: {message}");
    }
    let mut bytes = [0; 64];
    for strides in [[0, 1], [1, 1], [2, 1]] {
        let layout = Layout::strided(&[2, 3], &strides, 0).unwrap();
        let result = fill(&mut TensorMut::from_host_bytes(&mut bytes, DType::F32, layout).unwrap(), &FillHpl::new());
        assert!(result.unwrap_err().to_string().contains("must not overlap"), "{strides:?}");
    }
}

#[test]
fn typed_buffers_fill() {
    let mut x = DeviceMem::<crate::dtype::F16>::new(&crate::Device::host(), 100).unwrap();
    x.fill(&FillUniformRand::new(5.0, 10.0).seed(1)).unwrap();
    assert!(x.to_vec().unwrap().iter().all(|v| (5.0..=10.0).contains(&Scalar::to_f64(*v))));
    let mut packed = DeviceMem::<crate::dtype::I4x2>::new(&crate::Device::host(), 3).unwrap();
    packed.fill(&FillMonotonic::new(-3.0, 1.0)).unwrap();
    assert_eq!(packed.to_vec().unwrap().map_unpacked(), [13, 14, 15, 0, 1, 2]);
}

trait MapUnpacked {
    fn map_unpacked(&self) -> Vec<u8>;
}

impl MapUnpacked for Vec<crate::dtype::I4x2> {
    fn map_unpacked(&self) -> Vec<u8> {
        self.iter().flat_map(|u| u.unpack()).collect()
    }
}
