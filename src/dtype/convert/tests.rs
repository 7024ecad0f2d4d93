//! Every fast conversion against the per-element definition: all patterns up to 16 bits, chosen and random ones above.

use super::*;
use crate::dtype::{Class, ordinal};
use proptest::prelude::*;

const RULES: [(Rounding, Overflow); 4] = [
    (Rounding::NearestEven, Overflow::Ieee),
    (Rounding::NearestEven, Overflow::Saturate),
    (Rounding::TowardZero, Overflow::Ieee),
    (Rounding::TowardZero, Overflow::Saturate),
];

/// All patterns of a format of at most 16 bits; for wider ones the edges of every exponent and a spread of the rest.
fn patterns(dtype: DType) -> Vec<u64> {
    match dtype.bits() {
        4 => (0..16).collect(),
        8 => (0..256).collect(),
        16 => (0..65536).collect(),
        bits => {
            let mut all: Vec<u64> = Vec::new();
            for top in 0..1u64 << 12 {
                let high = top << (bits - 12);
                all.extend([0, 1, 0x0fff, 0x1000, 0x1001, 0x1fff, 0x2000, (1 << (bits - 12)) - 1].map(|low| high | low));
            }
            let mask = u64::MAX >> (64 - bits);
            all.extend((0..20_000u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) & mask));
            all
        }
    }
}

fn stored(dtype: DType, patterns: &[u64]) -> Vec<u8> {
    let mut bytes = vec![0; dtype.bytes_for(patterns.len()).unwrap()];
    for (i, &p) in patterns.iter().enumerate() {
        dtype.store_bits(&mut bytes, i, p);
    }
    bytes
}

fn same(a: f64, b: f64) -> bool {
    a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
}

/// f32 values around every number of every small format and around every point halfway between two.
fn inputs() -> Vec<f32> {
    let mut all = vec![0.0, f32::INFINITY, f32::NAN, f32::from_bits(0x7f80_0001), f32::MAX, 1.0 / 3.0];
    for top in 0..=0x7f80u32 {
        let bits = top << 16;
        all.extend([bits, bits.wrapping_sub(1), bits + 1, bits | 0x7fff, bits | 0x8000, bits | 0x8001].map(f32::from_bits));
    }
    // Binary16's own grid and its halfway points lie 2^13 and 2^12 apart in f32.
    for step in (0x3300_0000u32 >> 12)..=(0x4780_0000 >> 12) {
        let bits = step << 12;
        all.extend([bits, bits - 1, bits + 1].map(f32::from_bits));
    }
    let negative: Vec<f32> = all.iter().step_by(5).map(|v| -v).collect();
    all.extend(negative);
    all
}

#[test]
fn decoding_matches_the_definition() {
    for dtype in DType::ALL {
        let patterns = patterns(dtype);
        // One byte in front: unaligned.
        let mut bytes = vec![0xa5];
        bytes.extend(stored(dtype, &patterns));
        let mut f32s = vec![0f32; patterns.len()];
        let mut f64s = vec![0f64; patterns.len()];
        let mut whole = vec![0i128; patterns.len()];
        decode_f32(dtype, &bytes[1..], &mut f32s);
        decode_f64(dtype, &bytes[1..], &mut f64s);
        decode_whole(dtype, &bytes[1..], &mut whole);
        for (i, &p) in patterns.iter().enumerate() {
            let want = dtype.decode(p);
            assert!(same(f64s[i], want), "{dtype} {p:#x}: f64 {} is not {want}", f64s[i]);
            let want32 = dtype.int_format().map_or(want as f32, |int| int.decode(p) as f32);
            assert!(same(f64::from(f32s[i]), f64::from(want32)), "{dtype} {p:#x}: f32 {} is not {want32}", f32s[i]);
            if !matches!(dtype, DType::F64 | DType::I32 | DType::U32 | DType::I64 | DType::U64) {
                assert!(same(f64::from(f32s[i]), want), "{dtype} {p:#x}: {want} is not exact in f32");
            }
            let want = dtype.int_format().map_or(0, |int| int.decode(p));
            assert_eq!(whole[i], want, "{dtype} {p:#x}: whole number");
        }
    }
}

#[test]
fn encoding_from_f32_matches_the_definition() {
    let inputs = inputs();
    for dtype in DType::ALL {
        let mut bytes = vec![0xffu8; dtype.bytes_for(inputs.len()).unwrap()];
        for (rounding, overflow) in RULES {
            encode_from_f32(dtype, &inputs, rounding, overflow, &mut bytes);
            for (i, &v) in inputs.iter().enumerate() {
                let want = dtype.encode(f64::from(v), rounding, overflow);
                let got = dtype.load_bits(&bytes, i);
                assert_eq!(got, want, "{dtype} {rounding:?} {overflow:?} of {v:e} ({:#x}): {got:#x}, not {want:#x}", v.to_bits());
            }
        }
        if dtype.is_int() || dtype == DType::F64 {
            continue;
        }
        let mut ordinals = vec![0i32; inputs.len()];
        ordinals_from_f32(dtype, &inputs, &mut ordinals);
        for (&got, &v) in ordinals.iter().zip(&inputs).filter(|(_, v)| v.is_finite()) {
            let bits = dtype.encode(f64::from(v), Rounding::NearestEven, Overflow::Saturate);
            assert_eq!(Some(i128::from(got)), ordinal(dtype, bits), "{dtype}: ordinal of {v:e}");
        }
    }
}

/// Values where two roundings, first to f32, would go wrong: the last place of f64 away from a halfway point.
#[test]
fn encoding_from_f64_rounds_once() {
    let mut inputs: Vec<f64> = inputs().into_iter().step_by(3).map(f64::from).collect();
    let near: Vec<f64> = inputs.iter().filter(|v| v.is_finite()).flat_map(|v| [v.next_up(), v.next_down()]).collect();
    inputs.extend(near);
    inputs.extend([f64::MAX, f64::MIN, f64::MIN_POSITIVE, 5e-324, -5e-324, 3.5e38, -3.5e38, f64::from(f32::MAX).next_up(), -f64::NAN]);
    for dtype in DType::ALL {
        let mut bytes = vec![0u8; dtype.bytes_for(inputs.len()).unwrap()];
        for (rounding, overflow) in RULES {
            encode_from_f64(dtype, &inputs, rounding, overflow, &mut bytes);
            for (i, &v) in inputs.iter().enumerate() {
                let want = dtype.encode(v, rounding, overflow);
                let got = dtype.load_bits(&bytes, i);
                assert_eq!(got, want, "{dtype} {rounding:?} {overflow:?} of {v:e}: {got:#x}, not {want:#x}");
            }
        }
    }
}

/// Lengths around the vector widths and the chunk; nothing outside the range is touched.
#[test]
fn any_length_works_and_stays_inside() {
    for dtype in DType::ALL {
        for n in [0, 1, 2, 3, 7, 8, 9, 15, 16, 17, 33, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 3] {
            let values: Vec<f32> = (0..n).map(|i| (i % 5) as f32).collect();
            let wide: Vec<f64> = values.iter().copied().map(f64::from).collect();
            let size = dtype.bytes_for(n).unwrap();
            for from_f64 in [false, true] {
                let mut bytes = vec![0xa0u8; size + 2];
                if from_f64 {
                    encode_from_f64(dtype, &wide, Rounding::NearestEven, Overflow::Ieee, &mut bytes);
                } else {
                    encode_from_f32(dtype, &values, Rounding::NearestEven, Overflow::Ieee, &mut bytes);
                }
                assert_eq!(bytes[size..], [0xa0, 0xa0], "{dtype}, {n} elements: written past the end");
                if dtype.bits() == 4 && n % 2 == 1 {
                    assert_eq!(bytes[size - 1] & 0xf0, 0xa0, "{dtype}, {n} elements: the spare nibble changed");
                }
                let mut back = vec![-1f32; n];
                decode_f32(dtype, &bytes, &mut back);
                // e8m0 has neither 0 nor 3: the nearest powers of two.
                let want = |v: f32| dtype.decode(dtype.encode(f64::from(v), Rounding::NearestEven, Overflow::Ieee)) as f32;
                assert!(back.iter().zip(&values).all(|(&b, &v)| b == want(v)), "{dtype}, {n} elements: {back:?}");
                let mut back = vec![-1f64; n];
                decode_f64(dtype, &bytes, &mut back);
                assert!(back.iter().zip(&values).all(|(&b, &v)| b as f32 == want(v)), "{dtype}, {n} elements: {back:?}");
            }
        }
    }
}

/// Both forms on one machine: by instruction, where there is one, and portable.
#[test]
fn portable_decoding_equals_the_instruction() {
    fn check<S: Small>(dtype: DType, halves: &[[u8; 2]], scale: f32) {
        let mut fast = vec![0f32; halves.len()];
        let done = simd::decode_f16(halves, &mut fast, scale);
        assert_eq!(done, if simd::has_f16c() { halves.len() } else { 0 });
        for (bits, &v) in fast[..done].iter().enumerate() {
            let portable = kernel::decode::<S>(bits as u32);
            assert!(same(f64::from(v), f64::from(portable)), "{dtype} {bits:#x}: {v} and {portable}");
        }
    }
    let all: Vec<[u8; 2]> = (0..=u16::MAX).map(u16::to_le_bytes).collect();
    check::<kernel::F16>(DType::F16, &all, 1.0);
    for dtype in DType::ALL.into_iter().filter(|d| d.bits() == 8 && !d.is_int() && *d != DType::F8E8M0) {
        with_small!(
            dtype,
            S => {
                let halves: Vec<[u8; 2]> = (0..=255).map(|code| kernel::f16_bits::<S>(code).to_le_bytes()).collect();
                check::<S>(dtype, &halves, kernel::f16_scale::<S>());
            },
            _ => panic!("{dtype} has no kernel")
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn random_f64_patterns_encode_alike(bits: u64, which in 0..DType::ALL.len(), rule in 0..4usize) {
        let (dtype, (rounding, overflow)) = (DType::ALL[which], RULES[rule]);
        // The whole range of f64, and the same digits near 1, where the small formats live.
        for v in [f64::from_bits(bits), f64::from_bits(bits & 0x800f_ffff_ffff_ffff | (0x3f0 + (bits >> 58)) << 52)] {
            let mut bytes = [0u8; 8];
            encode_from_f64(dtype, &[v], rounding, overflow, &mut bytes);
            prop_assert_eq!(dtype.load_bits(&bytes, 0), dtype.encode(v, rounding, overflow));
        }
    }

    #[test]
    fn random_f32_patterns_keep_their_class(bits: u32) {
        let mut out = [0f32];
        decode_f32(DType::F32, &bits.to_le_bytes(), &mut out);
        prop_assert_eq!(DType::F32.classify(u64::from(bits)) == Class::Nan, out[0].is_nan());
        prop_assert!(out[0].is_nan() || out[0].to_bits() == bits);
    }
}
