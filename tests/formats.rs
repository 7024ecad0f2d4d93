//! The number formats against independent oracles: `half`, `float8`, tables written by ml_dtypes (see `tests/data`), the
//! language's own casts, and a search through all numbers of a format.

use hipverify::dtype::mx::{BLOCK, MxFormat, ScaleRule};
use hipverify::dtype::{Class, DType, Overflow, Rounding, Specials, next_down, next_up, ordinal, spacing, ulp_distance};
use proptest::prelude::*;
use std::collections::HashMap;

/// Float formats whose patterns can all be visited.
const SMALL: [DType; 10] = [
    DType::F16,
    DType::Bf16,
    DType::F8E4M3,
    DType::F8E5M2,
    DType::F8E4M3Fnuz,
    DType::F8E5M2Fnuz,
    DType::F6E2M3,
    DType::F6E3M2,
    DType::F4E2M1,
    DType::F8E8M0,
];

fn same(a: f64, b: f64) -> bool {
    a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
}

fn nearest(dtype: DType, value: f64) -> u64 {
    dtype.encode(value, Rounding::NearestEven, Overflow::Ieee)
}

/// How many patterns the elements of a format have (fp6 lies in the low 6 bits of a byte).
fn codes(dtype: DType) -> u64 {
    match dtype {
        DType::F6E2M3 | DType::F6E3M2 => 64,
        _ => 1 << dtype.bits(),
    }
}

/// The tables of `format_tables.txt`: "decode f8e4m3" and so on to its words.
fn tables() -> HashMap<String, Vec<&'static str>> {
    let mut tables: HashMap<String, Vec<&str>> = HashMap::new();
    let mut current = String::new();
    for line in include_str!("data/format_tables.txt").lines().filter(|l| !l.starts_with('#')) {
        if ["decode ", "encode ", "mx "].iter().any(|kind| line.starts_with(kind)) {
            current = line.to_owned();
        } else {
            tables.entry(current.clone()).or_default().extend(line.split(' '));
        }
    }
    tables
}

fn hex(word: &str) -> u32 {
    u32::from_str_radix(word, 16).expect("hexadecimal")
}

fn hex_f32(word: &str) -> f64 {
    f64::from(f32::from_bits(hex(word)))
}

#[test]
fn f16_and_bf16_decode_and_encode_as_half_does() {
    for bits in 0..=u16::MAX {
        let (f16, bf16) = (half::f16::from_bits(bits), half::bf16::from_bits(bits));
        assert!(same(DType::F16.decode(bits.into()), f64::from(f16)), "f16 {bits:#x}");
        assert!(same(DType::Bf16.decode(bits.into()), f64::from(bf16)), "bf16 {bits:#x}");
        // The number, its f32 neighbours, and the same around the point halfway to the next.
        for (dtype, value, low) in [(DType::F16, f16.to_f32(), 0x1000), (DType::Bf16, bf16.to_f32(), 0x8000)] {
            if value.is_nan() {
                assert_eq!(dtype.classify(nearest(dtype, value.into())), Class::Nan);
                continue;
            }
            let next = value.to_bits().wrapping_add(low);
            for v in [value, value.next_up(), value.next_down()].into_iter().chain([next, next + 1, next - 1].map(f32::from_bits)) {
                let want = if dtype == DType::F16 { half::f16::from_f32(v).to_bits() } else { half::bf16::from_f32(v).to_bits() };
                if !v.is_nan() {
                    assert_eq!(nearest(dtype, v.into()), u64::from(want), "{dtype} of {v:e}");
                }
            }
        }
    }
}

#[test]
fn ocp_fp8_agrees_with_float8() {
    for bits in 0..=u8::MAX {
        let (e4m3, e5m2) = (float8::F8E4M3::from_bits(bits), float8::F8E5M2::from_bits(bits));
        assert!(same(DType::F8E4M3.decode(bits.into()), e4m3.to_f64()), "e4m3 {bits:#x}");
        assert!(same(DType::F8E5M2.decode(bits.into()), e5m2.to_f64()), "e5m2 {bits:#x}");
    }
    // float8 always saturates, infinities included, and keeps bits of a NaN: only numbers are compared.
    for bits in 0..=u16::MAX {
        for v in [f64::from(half::f16::from_bits(bits)), f64::from(half::bf16::from_bits(bits))] {
            if v.is_nan() {
                continue;
            }
            let ours = |d: DType| d.encode(v, Rounding::NearestEven, Overflow::Saturate);
            assert_eq!(ours(DType::F8E4M3), u64::from(float8::F8E4M3::from_f64(v).to_bits()), "e4m3 of {v:e}");
            assert_eq!(ours(DType::F8E5M2), u64::from(float8::F8E5M2::from_f64(v).to_bits()), "e5m2 of {v:e}");
        }
    }
}

#[test]
fn small_formats_decode_as_ml_dtypes_does() {
    let tables = tables();
    for dtype in SMALL.into_iter().skip(2).chain([DType::I4]) {
        let table = &tables[&format!("decode {dtype}")];
        assert_eq!(table.len() as u64, codes(dtype), "{dtype}");
        for (bits, word) in table.iter().enumerate() {
            let (got, want) = (dtype.decode(bits as u64), hex_f32(word));
            assert!(same(got, want), "{dtype} {bits:#x}: {got} is not {want}");
        }
    }
}

#[test]
fn small_formats_encode_as_ml_dtypes_does() {
    let tables = tables();
    for dtype in SMALL.into_iter().skip(2) {
        let table = &tables[&format!("encode {dtype}")];
        assert!(table.len() > 40, "{dtype}");
        for word in table {
            let (input, code) = word.split_once(':').expect("input:code");
            let (v, want) = (hex_f32(input), u64::from(hex(code)));
            let got = nearest(dtype, v);
            match dtype {
                // No NaN to give: we say zero, ml_dtypes minus zero.
                DType::F6E2M3 | DType::F6E3M2 | DType::F4E2M1 if v.is_nan() => assert_eq!(got, 0, "{dtype} of NaN"),
                // No zero to give: we say the least number, ml_dtypes NaN.
                DType::F8E8M0 if v == 0.0 => assert_eq!(got, 0, "e8m0 of 0"),
                // Just below 1.5 * 2^-127, so nearer to 2^-127, code 0; ml_dtypes rounds the f32 subnormal up.
                DType::F8E8M0 if input == "005fffff" => assert_eq!((got, want), (0, 1), "e8m0 of {v:e}"),
                _ => assert_eq!(got, want, "{dtype} of {v:e} ({input})"),
            }
        }
    }
}

#[test]
fn mx_blocks_quantise_as_a_twin_in_numpy_does() {
    let tables = tables();
    let inputs: Vec<f64> = tables["mx inputs"].iter().map(|w| hex_f32(w)).collect();
    for (format, rule) in MxFormat::ALL.iter().flat_map(|format| ScaleRule::ALL.map(|rule| (format, rule))) {
        let want = &tables[&format!("mx {rule} {}", format.element())];
        assert_eq!(want.len(), inputs.len() / BLOCK * (BLOCK + 1), "{format} {rule}");
        for (block, want) in inputs.chunks(BLOCK).zip(want.chunks(BLOCK + 1)) {
            let mut elements = vec![0; BLOCK * format.element().bits() / 8];
            let mut scale = [0];
            format.encode_by(rule, block, &mut elements, &mut scale).expect("whole blocks");
            assert_eq!(u32::from(scale[0]), hex(want[0]), "{format} {rule}: scale of {block:?}");
            for (i, word) in want[1..].iter().enumerate() {
                let got = format.element().load_bits(&elements, i);
                assert_eq!(got, u64::from(hex(word)), "{format} {rule}: element of {:e} at scale {}", block[i], scale[0]);
            }
            if rule == ScaleRule::Floor {
                let mut again = (vec![0; elements.len()], [0]);
                format.encode(block, &mut again.0, &mut again.1).expect("whole blocks");
                assert_eq!((elements, scale), again, "{format}: what is done if no rule is named");
            }
        }
    }
}

/// The finite numbers of a format that are not negative, ascending, with their patterns.
fn magnitudes(dtype: DType) -> Vec<(f64, u64)> {
    let mut all: Vec<(f64, u64)> =
        (0..codes(dtype)).map(|bits| (dtype.decode(bits), bits)).filter(|(v, _)| v.is_finite() && v.is_sign_positive()).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    all
}

/// What a value >= 0 must encode to, found by looking at the numbers on both sides of it.
fn searched(numbers: &[(f64, u64)], dtype: DType, v: f64, rounding: Rounding, overflow: Overflow) -> u64 {
    let (max, max_bits) = numbers[numbers.len() - 1];
    let format = dtype.float_format().expect("float");
    let beyond = match format.specials {
        _ if overflow == Overflow::Saturate => max_bits,
        Specials::Ieee => max_bits + 1,
        Specials::SingleNan | Specials::E8m0 => max_bits + 1,
        Specials::NegativeZeroNan => 0x80,
        Specials::None => max_bits,
    };
    if v == f64::INFINITY {
        return beyond;
    }
    let above = numbers.partition_point(|n| n.0 <= v);
    if above == 0 {
        return numbers[0].1; // e8m0 alone has a least number above 0
    }
    let (low, low_bits) = numbers[above - 1];
    if low == v || rounding == Rounding::TowardZero {
        return low_bits;
    }
    // Beyond the largest, the next number is where it would be if the exponent went on.
    let (high, high_bits) = numbers.get(above).copied().unwrap_or((max + spacing(dtype, max), beyond));
    // e8m0's numbers all have the odd significand 1: ties go up.
    let to_high = v - low > high - v || v - low == high - v && (low_bits % 2 == 1 || dtype == DType::F8E8M0);
    if to_high { high_bits } else { low_bits }
}

#[test]
fn encoding_finds_the_neighbour_that_a_search_finds() {
    for dtype in SMALL {
        let numbers = magnitudes(dtype);
        let (max, _) = numbers[numbers.len() - 1];
        let step = spacing(dtype, max);
        let mut values: Vec<f64> = numbers.iter().map(|n| n.0).collect();
        values.extend(numbers.windows(2).map(|w| w[0].0 / 2.0 + w[1].0 / 2.0));
        values.extend([max + step / 2.0, max + step, max * 4.0, f64::MAX, f64::MIN_POSITIVE, 5e-324]);
        let around: Vec<f64> = values.iter().flat_map(|v| [v.next_up(), v.next_down()]).filter(|v| *v >= 0.0).collect();
        values.extend(around);
        values.push(f64::INFINITY);
        let sign = if dtype == DType::F8E8M0 { 0 } else { codes(dtype) / 2 };
        for rounding in [Rounding::NearestEven, Rounding::TowardZero] {
            for overflow in [Overflow::Ieee, Overflow::Saturate] {
                for &v in &values {
                    let want = searched(&numbers, dtype, v, rounding, overflow);
                    let got = dtype.encode(v, rounding, overflow);
                    assert_eq!(got, want, "{dtype} {rounding:?} {overflow:?} of {v:e}");
                    let fnuz = matches!(dtype, DType::F8E4M3Fnuz | DType::F8E5M2Fnuz);
                    let want = if fnuz && (want == 0 || want == 0x80) { want } else { want | sign };
                    let got = dtype.encode(-v, rounding, overflow);
                    assert_eq!(got, want, "{dtype} {rounding:?} {overflow:?} of {:e}", -v);
                }
            }
        }
    }
}

#[test]
fn every_number_survives_a_round_trip() {
    for dtype in SMALL {
        for bits in 0..codes(dtype) {
            let v = dtype.decode(bits);
            for (rounding, overflow) in [(Rounding::NearestEven, Overflow::Ieee), (Rounding::TowardZero, Overflow::Saturate)] {
                let back = dtype.encode(v, rounding, overflow);
                let lost = v.is_infinite() && overflow == Overflow::Saturate;
                if lost {
                    assert_eq!(dtype.decode(back).abs(), dtype.float_format().expect("float").max_finite());
                } else if v.is_nan() {
                    assert_eq!(dtype.classify(back), Class::Nan, "{dtype} {bits:#x}");
                } else {
                    assert_eq!(back, bits, "{dtype} {v:e}");
                }
            }
        }
    }
}

#[test]
fn nan_encodes_as_documented() {
    // (dtype, +NaN, -NaN)
    for (dtype, positive, negative) in [
        (DType::F32, 0x7fc0_0000, 0xffc0_0000),
        (DType::Tf32, 0x7fc0_0000, 0xffc0_0000),
        (DType::F16, 0x7e00, 0xfe00),
        (DType::Bf16, 0x7fc0, 0xffc0),
        (DType::F8E4M3, 0x7f, 0xff),
        (DType::F8E5M2, 0x7e, 0xfe),
        (DType::F8E4M3Fnuz, 0x80, 0x80),
        (DType::F8E5M2Fnuz, 0x80, 0x80),
        (DType::F6E2M3, 0, 0),
        (DType::F6E3M2, 0, 0),
        (DType::F4E2M1, 0, 0),
        (DType::F8E8M0, 0xff, 0xff),
        (DType::I8, 0, 0),
        (DType::I64, 0, 0),
    ] {
        for overflow in [Overflow::Ieee, Overflow::Saturate] {
            for rounding in [Rounding::NearestEven, Rounding::TowardZero] {
                // With a payload, which only f64 keeps.
                let nan = f64::from_bits(0x7ff8_0000_dead_beef);
                assert_eq!(dtype.encode(nan, rounding, overflow), positive, "{dtype}");
                assert_eq!(dtype.encode(-nan, rounding, overflow), negative, "{dtype}");
                assert_eq!(DType::F64.encode(nan, rounding, overflow), nan.to_bits());
            }
        }
    }
}

#[test]
fn integers_round_saturate_and_sign_extend() {
    let nearest = Rounding::NearestEven;
    // (dtype, value, rounding, what it becomes)
    for (dtype, value, rounding, want) in [
        (DType::I8, 2.5, nearest, 2.0),
        (DType::I8, 3.5, nearest, 4.0),
        (DType::I8, -2.5, nearest, -2.0),
        (DType::I8, -2.9, Rounding::TowardZero, -2.0),
        (DType::I8, 127.5, nearest, 127.0),
        (DType::I8, -1e9, nearest, -128.0),
        (DType::U8, -0.6, nearest, 0.0),
        (DType::U8, 255.9, Rounding::TowardZero, 255.0),
        (DType::U8, f64::INFINITY, nearest, 255.0),
        (DType::I16, 40000.0, nearest, 32767.0),
        (DType::I32, -2147483648.0, nearest, -2147483648.0),
        (DType::I32, 3e9, nearest, 2147483647.0),
        (DType::I64, 1e30, nearest, 9223372036854775807.0),
        (DType::I64, f64::NEG_INFINITY, nearest, -9223372036854775808.0),
        (DType::U16, -1.0, nearest, 0.0),
        (DType::U16, 65535.5, nearest, 65535.0),
        (DType::U16, 40000.0, nearest, 40000.0),
        (DType::U32, 3e9, nearest, 3e9),
        (DType::U32, 5e9, nearest, 4294967295.0),
        (DType::U64, 1.5e19, nearest, 1.5e19),
        (DType::U64, 1e30, nearest, 18446744073709551615.0),
        (DType::U64, -0.6, nearest, 0.0),
        (DType::Bool, 0.5, nearest, 0.0),
        (DType::Bool, 0.75, nearest, 1.0),
        (DType::Bool, 200.0, nearest, 1.0),
        (DType::Bool, -1.0, nearest, 0.0),
        (DType::I4, -9.0, nearest, -8.0),
        (DType::I4, 7.5, nearest, 7.0),
        (DType::I4, -1.0, nearest, -1.0),
    ] {
        for overflow in [Overflow::Ieee, Overflow::Saturate] {
            assert_eq!(dtype.decode(dtype.encode(value, rounding, overflow)), want, "{dtype} of {value}");
        }
        if rounding == nearest {
            assert_eq!((dtype.rounded(value), dtype.unit_roundoff()), (want, 0.0), "{dtype} of {value}");
        }
    }
}

#[test]
fn every_byte_but_zero_is_true() {
    for bits in 0..256 {
        assert_eq!(DType::Bool.decode(bits), f64::from(u8::from(bits != 0)), "{bits:#x}");
    }
    assert_eq!(ulp_distance(DType::Bool, 0xff, 1), Some(0), "two ways to write true");
    assert_eq!((next_up(DType::Bool, 0), next_down(DType::Bool, 0x80), next_up(DType::Bool, 2)), (1, 0, 2));
}

/// `hip/formats_table.h` is the list of the device code; what it should be is what this prints.
#[test]
fn the_device_code_has_the_same_formats() {
    let specials = |s: Specials| match s {
        Specials::Ieee => "IEEE",
        Specials::SingleNan => "SINGLE_NAN",
        Specials::NegativeZeroNan => "NEGATIVE_ZERO_NAN",
        Specials::None => "FINITE",
        Specials::E8m0 => "E8M0",
    };
    let row = |d: DType| {
        let fields = match (d.float_format(), d.int_format()) {
            (Some(f), _) => format!("{}, {}, {}, {}, {}", f.exponent_bits, f.mantissa_bits, f.bias, specials(f.specials), f.pad_bits),
            (_, Some(int)) => format!("{}, {}, 0, INTEGER, 0", u8::from(int.truth), u8::from(int.signed)),
            _ => unreachable!("{d} is neither"),
        };
        format!("FORMAT({}, {}, {}, {fields})\n", d.name().to_uppercase(), d as u32, d.bits())
    };
    let rows: String =
        include_str!("../hip/formats_table.h").lines().filter(|line| !line.starts_with("//")).flat_map(|line| [line, "\n"]).collect();
    let expected: String = DType::ALL.into_iter().map(row).collect();
    assert!(rows == expected, "hip/formats_table.h should have these rows:\n{expected}");
}

#[test]
fn neighbours_follow_the_sorted_numbers() {
    for dtype in SMALL {
        let mut sorted: Vec<u64> = (0..codes(dtype)).filter(|&b| !dtype.decode(b).is_nan()).collect();
        sorted.sort_by(|a, b| dtype.decode(*a).total_cmp(&dtype.decode(*b)));
        // Both zeros are one number; the pattern of a neighbour is +0.
        let minus_zero = codes(dtype) / 2;
        let signed_zero = dtype != DType::F8E8M0 && dtype.classify(minus_zero) == Class::Zero;
        sorted.retain(|&b| !(signed_zero && b == minus_zero));
        for w in sorted.windows(2) {
            assert_eq!(next_up(dtype, w[0]), w[1], "{dtype} above {:#x}", w[0]);
            assert_eq!(next_down(dtype, w[1]), w[0], "{dtype} below {:#x}", w[1]);
            assert_eq!(ulp_distance(dtype, w[0], w[1]), Some(1), "{dtype} {w:x?}");
        }
        let (first, last) = (sorted[0], sorted[sorted.len() - 1]);
        assert_eq!((next_down(dtype, first), next_up(dtype, last)), (first, last), "{dtype}: the ends stay");
        assert_eq!(ulp_distance(dtype, last, first), Some(sorted.len() as u64 - 1), "{dtype}: end to end");
        if signed_zero {
            assert_eq!(ulp_distance(dtype, 0, minus_zero), Some(0), "{dtype}: zeros coincide");
            assert_eq!(next_up(dtype, minus_zero), 1, "{dtype}: above -0");
            assert_eq!(dtype.decode(next_down(dtype, minus_zero)), -dtype.decode(1), "{dtype}: below -0");
        }
        for nan in (0..codes(dtype)).filter(|&b| dtype.decode(b).is_nan()) {
            assert_eq!((next_up(dtype, nan), next_down(dtype, nan)), (nan, nan), "{dtype}: NaN stays");
            assert_eq!((ordinal(dtype, nan), ulp_distance(dtype, nan, 0)), (None, None), "{dtype}: NaN has no place");
        }
    }
    // Integers count by one and stop at their ends; the widest distance needs 64 bits.
    assert_eq!((next_up(DType::I4, 7), next_up(DType::I4, 15), next_down(DType::I4, 8)), (7, 0, 8));
    assert_eq!((next_down(DType::U8, 0), next_up(DType::U8, 255)), (0, 255));
    assert_eq!(next_up(DType::I64, i64::MAX as u64), i64::MAX as u64);
    assert_eq!(ulp_distance(DType::I64, i64::MAX as u64, i64::MIN as u64), Some(u64::MAX));
    assert_eq!(ulp_distance(DType::F64, 1f64.to_bits(), (-1f64).to_bits()), Some(2 * 1f64.to_bits()));
}

#[test]
fn spacing_is_the_distance_to_the_next_number() {
    for dtype in SMALL {
        for w in magnitudes(dtype).windows(2) {
            let (low, high) = (w[0].0, w[1].0);
            assert!(low == 0.0 || spacing(dtype, low) == high - low, "{dtype} at {low:e}: {:e}", spacing(dtype, low));
            assert_eq!(
                spacing(dtype, high.next_down().max(low)),
                if low == 0.0 { spacing(dtype, 0.0) } else { high - low },
                "{dtype} below {high:e}"
            );
            assert_eq!(spacing(dtype, -low), spacing(dtype, low), "{dtype} at {:e}", -low);
        }
        let f = dtype.float_format().expect("float");
        assert_eq!(spacing(dtype, 0.0), f.min_positive(), "{dtype} at 0");
        for huge in [f.max_finite(), f.max_finite() * 16.0, f64::INFINITY] {
            assert_eq!(spacing(dtype, huge), spacing(dtype, f.max_finite()), "{dtype} beyond its range");
        }
        assert!(spacing(dtype, f64::NAN).is_nan());
    }
    assert_eq!(spacing(DType::F64, 5e-324), 5e-324);
    assert_eq!(spacing(DType::F64, f64::MAX), f64::MAX - f64::MAX.next_down());
    assert_eq!(spacing(DType::F32, 1.0), f64::from(f32::EPSILON));
    assert_eq!(spacing(DType::I32, 1e6), 1.0);
}

#[test]
fn classes_count_as_the_fields_say() {
    // (dtype, zeros, subnormals, infinities, NaNs) among all patterns
    for (dtype, want) in [
        (DType::F16, [2, 2 * 1023, 2, 2 * 1023]),
        (DType::Bf16, [2, 2 * 127, 2, 2 * 127]),
        (DType::F8E4M3, [2, 14, 0, 2]),
        (DType::F8E5M2, [2, 6, 2, 6]),
        (DType::F8E4M3Fnuz, [1, 14, 0, 1]),
        (DType::F8E5M2Fnuz, [1, 6, 0, 1]),
        (DType::F6E2M3, [2, 14, 0, 0]),
        (DType::F6E3M2, [2, 6, 0, 0]),
        (DType::F4E2M1, [2, 2, 0, 0]),
        (DType::F8E8M0, [0, 0, 0, 1]),
        (DType::I4, [1, 0, 0, 0]),
        (DType::U8, [1, 0, 0, 0]),
    ] {
        let count = |class| (0..codes(dtype)).filter(|&b| dtype.classify(b) == class).count();
        let got = [Class::Zero, Class::Subnormal, Class::Infinite, Class::Nan].map(count);
        assert_eq!(got, want, "{dtype}: zeros, subnormals, infinities, NaNs");
    }
    assert_eq!(DType::F32.classify(0x007f_ffff), Class::Subnormal);
    assert_eq!(DType::F32.classify(0x0080_0000), Class::Normal);
    assert_eq!(DType::F64.classify(1), Class::Subnormal);
    assert_eq!(DType::I64.classify(1 << 63), Class::Normal);
}

#[test]
fn limits_are_the_published_ones() {
    // (dtype, largest, least normal, least positive)
    for (dtype, max, normal, least) in [
        (DType::F64, f64::MAX, f64::MIN_POSITIVE, 5e-324),
        (DType::F32, f64::from(f32::MAX), f64::from(f32::MIN_POSITIVE), f64::from(f32::from_bits(1))),
        (DType::Tf32, (2.0 - 2f64.powi(-10)) * 2f64.powi(127), 2f64.powi(-126), 2f64.powi(-136)),
        (DType::F16, 65504.0, 2f64.powi(-14), 2f64.powi(-24)),
        (DType::Bf16, (2.0 - 2f64.powi(-7)) * 2f64.powi(127), 2f64.powi(-126), 2f64.powi(-133)),
        (DType::F8E4M3, 448.0, 2f64.powi(-6), 2f64.powi(-9)),
        (DType::F8E5M2, 57344.0, 2f64.powi(-14), 2f64.powi(-16)),
        (DType::F8E4M3Fnuz, 240.0, 2f64.powi(-7), 2f64.powi(-10)),
        (DType::F8E5M2Fnuz, 57344.0, 2f64.powi(-15), 2f64.powi(-17)),
        (DType::F6E2M3, 7.5, 1.0, 0.125),
        (DType::F6E3M2, 28.0, 0.25, 0.0625),
        (DType::F4E2M1, 6.0, 1.0, 0.5),
        (DType::F8E8M0, 2f64.powi(127), 2f64.powi(-127), 2f64.powi(-127)),
    ] {
        let f = dtype.float_format().expect("float");
        assert_eq!((f.max_finite(), f.min_normal(), f.min_positive()), (max, normal, least), "{dtype}");
        assert_eq!(spacing(dtype, f.max_finite()), 2f64.powi(f.max_exponent() - f.mantissa_bits as i32), "{dtype}");
        assert_eq!([f.unit_roundoff(), dtype.unit_roundoff()], [spacing(dtype, 1.0) / 2.0; 2], "{dtype}");
    }
}

/// The value of `448`, `2^-9` or `(2 - 2^-10) × 2^127`.
fn written(cell: &str) -> f64 {
    let number = |word: &str| match word.split_once('^') {
        Some((_, exponent)) => match exponent.parse().expect("an exponent") {
            e @ -1074..-1022 => 2f64.powi(e + 60) * 2f64.powi(-60),
            e => 2f64.powi(e),
        },
        None => word.parse().expect("a number"),
    };
    match cell.trim_start_matches("(2 - ").split_once(") × ") {
        Some((below, power)) => (2.0 - number(below)) * number(power),
        None => number(cell),
    }
}

#[test]
fn the_documentation_has_the_right_numbers() {
    let rows: Vec<Vec<&str>> = include_str!("../docs/formats.md")
        .lines()
        .map(|line| line.split('|').map(|cell| cell.trim().trim_matches('`')).collect())
        .collect();
    for dtype in DType::ALL {
        let Some(f) = dtype.float_format() else { continue };
        let row = rows.iter().find(|r| r.len() == 11 && r[1] == dtype.name()).unwrap_or_else(|| panic!("no row for {dtype}"));
        let sign = u32::from(dtype != DType::F8E8M0);
        assert_eq!(row[2], format!("{sign}-{}-{}", f.exponent_bits, f.mantissa_bits), "{dtype}");
        assert_eq!(row[3], f.bias.to_string(), "{dtype}: bias");
        let got = [f.min_positive(), f.min_normal(), f.max_finite(), spacing(dtype, 1.0)];
        assert_eq!([4, 5, 6, 7].map(|i| written(row[i])), got, "{dtype}: least, least normal, largest, ulp at 1");
        assert_eq!(row[8] == "yes", f.has_infinity(), "{dtype}: infinities");
        assert_eq!(row[9] != "none", f.has_nan(), "{dtype}: NaN");
    }
    for format in MxFormat::ALL {
        let row = rows.iter().find(|r| r.len() == 5 && r[1] == format.to_string()).unwrap_or_else(|| panic!("no row for {format}"));
        assert_eq!(row[3], format.max_exponent().to_string(), "{format}");
    }
}

#[test]
fn names_and_aliases_parse() {
    for dtype in DType::ALL {
        assert_eq!(dtype.name().parse::<DType>().expect("own name"), dtype);
        assert_eq!(dtype.name().to_uppercase().parse::<DType>().expect("capitals"), dtype);
    }
    for (alias, dtype) in [
        ("half", DType::F16),
        ("float8_e4m3fn", DType::F8E4M3),
        ("F8_E5M2", DType::F8E5M2),
        ("F8_E4M3FNUZ", DType::F8E4M3Fnuz),
        ("float4_e2m1fn", DType::F4E2M1),
        ("F8_E8M0", DType::F8E8M0),
        ("int4", DType::I4),
        ("uint32", DType::U32),
        ("uint64", DType::U64),
        ("bool_", DType::Bool),
        ("xf32", DType::Tf32),
    ] {
        assert_eq!(alias.parse::<DType>().expect(alias), dtype);
    }
    assert!("f17".parse::<DType>().unwrap_err().to_string().starts_with("unknown dtype `f17`; known: f64 f32 "));
}

#[test]
fn packed_elements_share_a_byte() {
    let mut bytes = [0xffu8; 2];
    for (i, bits) in [0x1u64, 0xfa, 0x3].into_iter().enumerate() {
        DType::F4E2M1.store_bits(&mut bytes, i, bits);
    }
    assert_eq!(bytes, [0xa1, 0xf3], "the first element is the low nibble; a neighbour keeps its value");
    assert_eq!([0, 1, 2, 3].map(|i| DType::F4E2M1.load_bits(&bytes, i)), [1, 0xa, 3, 0xf]);
    assert_eq!((DType::I4.bytes_for(5), DType::I4.bytes_for(0), DType::F64.bytes_for(usize::MAX)), (Some(3), Some(0), None));
}

/// f64 to f32 by truncation, from the fields: shifts alone, no arithmetic of floats.
fn truncated(value: f64) -> f32 {
    let (bits, sign) = (value.to_bits() & (u64::MAX >> 1), if value.is_sign_negative() { 1u32 << 31 } else { 0 });
    let exponent = (bits >> 52) as i32 - 1023;
    let magnitude = match exponent {
        128..=1023 => f32::MAX.to_bits(),
        -126..=127 => ((exponent + 127) as u32) << 23 | (bits >> 29) as u32 & 0x7f_ffff,
        -149..=-127 => (((bits & ((1 << 52) - 1)) | 1 << 52) >> (52 - 149 - exponent)) as u32,
        _ => 0,
    };
    f32::from_bits(magnitude | sign)
}

/// Quantised by a rule: scale and values.
fn quantised(format: MxFormat, rule: ScaleRule, block: &[f64]) -> (f64, [f64; BLOCK]) {
    let (mut elements, mut scale, mut values) = (vec![0; BLOCK * format.element().bits() / 8], [0], [0.0; BLOCK]);
    format.encode_by(rule, block, &mut elements, &mut scale).expect("a whole block");
    format.decode(&elements, &scale, &mut values).expect("a whole block");
    (DType::F8E8M0.decode(u64::from(scale[0])), values)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// Half a step of the elements times the scale, beyond the largest element value the distance to it: and nothing is beyond it with `rceil`.
    #[test]
    fn mx_blocks_lose_at_most_half_a_step(bits: [u32; BLOCK], around in 40u32..210, spread in 1u32..30) {
        let block = bits.map(|b| f64::from(f32::from_bits(b & 0x807f_ffff | (around + (b >> 23) % spread) << 23)));
        for (format, rule) in MxFormat::ALL.iter().flat_map(|format| ScaleRule::ALL.map(|rule| (format, rule))) {
            let (scale, values) = quantised(*format, rule, &block);
            let largest = format.max_value() * scale;
            for (v, x) in block.into_iter().zip(values) {
                let step = if *format == MxFormat::INT8 { 1.0 / 64.0 } else { hipverify::dtype::spacing(format.element(), v / scale) };
                // Of a number of f32 and one of a few digits: exact.
                let error = (v - x).abs();
                if v.abs() <= largest {
                    prop_assert!(error <= step * scale / 2.0, "{} {}: {:e} became {:e}, scale {:e}", format, rule, v, x, scale);
                } else {
                    prop_assert!(rule != ScaleRule::Rceil && x == largest.copysign(v), "{} {}: {:e} became {:e}", format, rule, v, x);
                }
            }
        }
    }

    /// A block of such a format is one again: but for e4m3, which lacks 1.875 x 2^8.
    #[test]
    fn mx_blocks_survive_a_round_trip(bytes: [u8; BLOCK], scale in 20u8..230) {
        for (format, rule) in MxFormat::ALL.iter().flat_map(|format| ScaleRule::ALL.map(|rule| (format, rule))) {
            let dtype = format.element();
            let (mut elements, mut values) = (vec![0; BLOCK * dtype.bits() / 8], [0.0; BLOCK]);
            for (i, code) in bytes.into_iter().enumerate() {
                // -128 is no result of quantising.
                let code = if *format == MxFormat::INT8 && code == 0x80 { 0 } else { u64::from(code) };
                let number = dtype.decode(code % codes(dtype));
                dtype.store_bits(&mut elements, i, if number.is_finite() { code % codes(dtype) } else { 0 });
            }
            format.decode(&elements, &[scale], &mut values).expect("a whole block");
            let (again, found) = quantised(*format, rule, &values);
            let largest = values.iter().fold(0f64, |m, v| m.max(v.abs()));
            let lacks = rule != ScaleRule::Rceil && largest > format.max_value() * again;
            prop_assert!(!lacks || *format == MxFormat::FP8_E4M3 && largest == 480.0 * again, "{} {}: {:e}", format, rule, largest);
            for (v, x) in values.into_iter().zip(found) {
                prop_assert!(x == v || lacks && v.abs() == largest, "{} {}: {:e} became {:e}", format, rule, v, x);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn f32_rounds_as_the_cast_does(bits: u64, exponent in 860u64..1160, low in prop::sample::select(vec![0u64, 1, 0x0fff_ffff, 0x1000_0000, 0x1000_0001, 0x1fff_ffff])) {
        // Any value; a value in and around the range of f32; and one at, or next to, a halfway point.
        let near = bits & 0x800f_ffff_ffff_ffff | exponent << 52;
        for bits in [bits, near, near & !0x1fff_ffff | low] {
            let v = f64::from_bits(bits);
            if v.is_nan() {
                continue;
            }
            prop_assert_eq!(nearest(DType::F32, v), u64::from((v as f32).to_bits()), "{:e}", v);
            if v.is_finite() {
                let got = DType::F32.encode(v, Rounding::TowardZero, Overflow::Ieee);
                prop_assert_eq!(got, u64::from(truncated(v).to_bits()), "{:e} toward zero", v);
            }
            prop_assert_eq!(nearest(DType::F64, v), bits);
        }
    }

    #[test]
    fn f32_subnormals_round_as_the_cast_does(bits: u64, exponent in 865u64..900, tie: bool) {
        let mut bits = bits & 0x800f_ffff_ffff_ffff | exponent << 52;
        if tie {
            // The last place of f32 is 2^-149: keep the digits down to 2^-150, with that one set.
            let keep = 52 - (exponent as i64 - 1023 + 150).clamp(0, 52) as u32;
            bits = bits >> keep << keep | if keep < 52 { 1 << keep } else { 0 };
        }
        let v = f64::from_bits(bits);
        prop_assert_eq!(nearest(DType::F32, v), u64::from((v as f32).to_bits()), "{:e}", v);
        prop_assert_eq!(DType::F32.encode(v, Rounding::TowardZero, Overflow::Ieee), u64::from(truncated(v).to_bits()), "{:e}", v);
    }

    #[test]
    fn tf32_rounds_the_low_13_bits_of_f32(bits: u32, low in prop::sample::select(vec![0u32, 1, 0x0fff, 0x1000, 0x1001, 0x1fff])) {
        for bits in [bits, bits & !0x1fff | low] {
            let v = f32::from_bits(bits);
            if v.is_nan() {
                continue;
            }
            // Adding half of the dropped place, less one for even digits, and masking: what hardware does.
            let want = bits.wrapping_add(0x0fff + (bits >> 13 & 1)) & !0x1fff;
            prop_assert_eq!(nearest(DType::Tf32, v.into()), u64::from(want), "{:#x}", bits);
            if v.is_finite() {
                let got = DType::Tf32.encode(v.into(), Rounding::TowardZero, Overflow::Ieee);
                prop_assert_eq!(got, u64::from(bits & !0x1fff), "{:#x} toward zero", bits);
            }
            prop_assert_eq!(DType::Tf32.decode(bits.into()), f64::from(f32::from_bits(bits & !0x1fff)));
        }
    }

    #[test]
    fn f32_neighbours_and_spacing(bits: u32) {
        let v = f32::from_bits(bits);
        prop_assume!(v.is_finite());
        prop_assert_eq!(DType::F32.decode(next_up(DType::F32, bits.into())), f64::from(v.next_up()));
        prop_assert_eq!(DType::F32.decode(next_down(DType::F32, bits.into())), f64::from(v.next_down()));
        if v.abs() < f32::MAX {
            prop_assert_eq!(spacing(DType::F32, v.into()), f64::from(v.abs().next_up()) - f64::from(v.abs()));
        }
    }

    #[test]
    fn f64_neighbours(bits: u64) {
        let v = f64::from_bits(bits);
        prop_assume!(v.is_finite() && v != 0.0);
        prop_assert_eq!(f64::from_bits(next_up(DType::F64, bits)), v.next_up());
        prop_assert_eq!(f64::from_bits(next_down(DType::F64, bits)), v.next_down());
    }
}
