//! Ulps: spacing of a format, neighbours, and distances counted in representable values.
//!
//! "Ulp" here is the spacing of the format in the binade of a value (Muller's "ulp" at powers of two counts the upper
//! binade: 2^e <= |v| < 2^(e+1) has spacing 2^(e - mantissa_bits)); subnormals share the spacing of the least normal binade.

use super::DType;
use super::float_format::{exp2, split};

/// The spacing of `dtype` at |value|: the distance from |value|, rounded toward zero into the format, to the next larger
/// number. Beyond the largest finite number the last binade's spacing is given. Integers have spacing 1. NaN gives NaN.
pub fn spacing(dtype: DType, value: f64) -> f64 {
    let Some(f) = dtype.float_format() else { return 1.0 };
    if value.is_nan() {
        return f64::NAN;
    }
    let (_, exponent) = split(value.abs());
    exp2(exponent.clamp(f.min_exponent(), f.max_exponent()) - f.mantissa_bits as i32)
}

/// The ordinal of a bit pattern, its index in the order of its format: consecutive numbers have consecutive ordinals, both zeros have
/// ordinal 0, negative numbers negative ones, infinities follow the largest finite number. `None` for NaN.
///
/// The distance of two numbers in ulps is the difference of their ordinals.
pub fn ordinal(dtype: DType, bits: u64) -> Option<i128> {
    if let Some(int) = dtype.int_format() {
        return Some(int.decode(bits));
    }
    let f = dtype.float_format()?;
    if f.decode(bits).is_nan() {
        return None;
    }
    let bits = bits >> f.pad_bits;
    let magnitude = i128::from(bits & ((1 << (f.exponent_bits + f.mantissa_bits)) - 1));
    Some(if bits & f.sign_bit() != 0 { -magnitude } else { magnitude })
}

/// How many representable numbers `a` and `b` are apart; `None` when either is NaN.
/// Zeros of both signs coincide.
pub fn ulp_distance(dtype: DType, a: u64, b: u64) -> Option<u64> {
    // A format has at most 2^64 patterns.
    Some(ordinal(dtype, a)?.abs_diff(ordinal(dtype, b)?) as u64)
}

/// The pattern of the least number above `bits`; infinity (or the largest number, where there is none) and NaN stay.
pub fn next_up(dtype: DType, bits: u64) -> u64 {
    step(dtype, bits, 1)
}

/// The pattern of the largest number below `bits`; minus infinity (or the least number, where there is none) and NaN stay.
pub fn next_down(dtype: DType, bits: u64) -> u64 {
    step(dtype, bits, -1)
}

fn step(dtype: DType, bits: u64, by: i128) -> u64 {
    ordinal(dtype, bits).and_then(|here| from_ordinal(dtype, here + by)).unwrap_or(bits)
}

/// The pattern with a given ordinal, if the format has one (+0 for ordinal 0).
pub(crate) fn from_ordinal(dtype: DType, ordinal: i128) -> Option<u64> {
    if let Some(int) = dtype.int_format() {
        return (int.min()..=int.max()).contains(&ordinal).then(|| ordinal as u64 & (u64::MAX >> (64 - int.bits)));
    }
    let f = dtype.float_format()?;
    let width = f.exponent_bits + f.mantissa_bits;
    let magnitude = u64::try_from(ordinal.unsigned_abs()).ok()?;
    if magnitude >> width != 0 || f.sign_bit() == 0 && ordinal < 0 {
        return None;
    }
    let sign = if ordinal < 0 { f.sign_bit() } else { 0 };
    Some((magnitude | sign) << f.pad_bits).filter(|&bits| !f.decode(bits).is_nan())
}
