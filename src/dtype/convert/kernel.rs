//! Branch-free conversions of one element, written so that the compiler turns loops over them into vector code.
//!
//! Each is generic over a [`Small`] format and is checked, pattern by pattern, against the definitions in
//! [`FloatFormat`](crate::dtype::FloatFormat).

use crate::dtype::{DType, FloatFormat, Specials};

/// A float format of at most 19 bits whose values are all f32 values, known at compile time.
pub(super) trait Small {
    /// Its description.
    const F: FloatFormat;
    /// The number of bytes of one storage unit.
    type Raw: Raw;
}

/// A little-endian storage unit, extended to 32 bits.
pub(super) trait Raw: Copy {
    /// The units of `bytes`.
    fn units(bytes: &[u8]) -> &[Self];
    /// The units of `bytes`, to be written.
    fn units_mut(bytes: &mut [u8]) -> &mut [Self];
    fn get(self) -> u32;
    fn put(bits: u32) -> Self;
}

macro_rules! raw {
    ($($bytes:literal = $int:ty;)*) => {$(
        impl Raw for [u8; $bytes] {
            #[inline(always)]
            fn units(bytes: &[u8]) -> &[Self] {
                bytes.as_chunks().0
            }
            #[inline(always)]
            fn units_mut(bytes: &mut [u8]) -> &mut [Self] {
                bytes.as_chunks_mut().0
            }
            #[inline(always)]
            fn get(self) -> u32 {
                u32::from(<$int>::from_le_bytes(self))
            }
            #[inline(always)]
            fn put(bits: u32) -> Self {
                (bits as $int).to_le_bytes()
            }
        }
    )*};
}
raw! { 1 = u8; 2 = u16; 4 = u32; }

macro_rules! small {
    ($($name:ident = $dtype:ident, $bytes:literal;)*) => {$(
        pub(super) struct $name;
        impl Small for $name {
            const F: FloatFormat = match DType::$dtype.float_format() {
                Some(f) => *f,
                None => panic!("not a float format"),
            };
            type Raw = [u8; $bytes];
        }
    )*};
}
small! {
    Tf32 = Tf32, 4;
    F16 = F16, 2;
    Bf16 = Bf16, 2;
    F8E4M3 = F8E4M3, 1;
    F8E5M2 = F8E5M2, 1;
    F8E4M3Fnuz = F8E4M3Fnuz, 1;
    F8E5M2Fnuz = F8E5M2Fnuz, 1;
    F6E2M3 = F6E2M3, 1;
    F6E3M2 = F6E3M2, 1;
    F4E2M1 = F4E2M1, 1;
    F8E8M0 = F8E8M0, 1;
}

const F32_INFINITY: u32 = 0x7f80_0000;
const F32_NAN: u32 = 0x7fc0_0000;

/// The unsigned bits below the sign.
const fn magnitude_mask(f: &FloatFormat) -> u32 {
    (1 << (f.exponent_bits + f.mantissa_bits)) - 1
}

/// The distance between the sign bit of the format (without its pad) and that of f32.
const fn sign_shift(f: &FloatFormat) -> u32 {
    31 - f.exponent_bits - f.mantissa_bits
}

/// Whether the exponents are those of f32, so that the subnormals of f32 are subnormals of this format as well.
const fn f32_exponents(f: &FloatFormat) -> bool {
    f.exponent_bits == 8 && f.bias == 127
}

/// The value of a bit pattern.
#[inline(always)]
pub(super) fn decode<S: Small>(raw: u32) -> f32 {
    let f = const { &S::F };
    let code = raw >> f.pad_bits;
    if matches!(f.specials, Specials::E8m0) {
        // Field 0 is 2^-127, an f32 subnormal.
        let bits = if code == 0 { 1 << 22 } else { code << 23 };
        return f32::from_bits(if code == f.nan_bits() as u32 { F32_NAN } else { bits });
    }
    if f32_exponents(f) {
        return f32::from_bits(code << sign_shift(f));
    }
    let magnitude = code & magnitude_mask(f);
    let shifted = magnitude << (23 - f.mantissa_bits);
    let normal = shifted + ((127 - f.bias) as u32 * (1 << 23));
    // A subnormal's fraction below 2^min_exponent: as f32 1.fraction * 2^min_exponent, less the 1; exact.
    let one = ((127 + f.min_exponent()) as u32) << 23;
    let subnormal = (f32::from_bits(shifted | one) - f32::from_bits(one)).to_bits();
    let mut bits = if magnitude < 1 << f.mantissa_bits { subnormal } else { normal };
    match f.specials {
        Specials::Ieee if magnitude >= f.infinity_bits() as u32 => bits = shifted | F32_INFINITY,
        Specials::SingleNan if magnitude == f.nan_bits() as u32 => bits = F32_NAN,
        Specials::NegativeZeroNan if code == f.nan_bits() as u32 => bits = F32_NAN,
        _ => {}
    }
    f32::from_bits(bits | (code & f.sign_bit() as u32) << sign_shift(f))
}

/// What [`f16_bits`] must be multiplied by.
pub(super) const fn f16_scale<S: Small>() -> f32 {
    let f = &S::F;
    let exponent = if f.bias > 15 { 0 } else { 15 - f.bias };
    f32::from_bits(((127 + exponent) as u32) << 23)
}

/// A format of at most 8 bits as binary16: the value divided by [`f16_scale`], for which the exponent fields coincide and
/// subnormals need no special treatment. Works on 16-bit lanes, twice as many at a time as [`decode`].
#[inline(always)]
pub(super) fn f16_bits<S: Small>(code: u8) -> u16 {
    let f = const { &S::F };
    let code = u16::from(code);
    let magnitude = code & magnitude_mask(f) as u16;
    let shift = 10 - f.mantissa_bits;
    let mut bits = magnitude << shift;
    if f.bias > 15 {
        // Bias 16: one exponent lower, and the least two binades are subnormal in binary16.
        bits = if magnitude < 2 << f.mantissa_bits { magnitude << (shift - 1) } else { bits.wrapping_sub(1 << 10) };
    }
    match f.specials {
        Specials::SingleNan if magnitude == f.nan_bits() as u16 => bits = 0x7e00,
        Specials::NegativeZeroNan if code == f.nan_bits() as u16 => bits = 0x7e00,
        _ => {}
    }
    bits | (code & f.sign_bit() as u16) << (15 - f.exponent_bits - f.mantissa_bits)
}

/// The bit pattern of `value`: to nearest even, or toward zero if `TRUNCATE`; IEEE overflow, or saturated if `SATURATE`.
#[inline(always)]
pub(super) fn encode<S: Small, const TRUNCATE: bool, const SATURATE: bool>(value: f32) -> u32 {
    let f = const { &S::F };
    let max = (f.max_bits() >> f.pad_bits) as u32;
    let beyond = match f.specials {
        _ if SATURATE => max,
        Specials::Ieee => f.infinity_bits() as u32,
        Specials::None => max,
        _ => f.nan_bits() as u32,
    };
    let a = value.to_bits() & 0x7fff_ffff;
    let mut bits = if matches!(f.specials, Specials::E8m0) { encode_e8m0::<TRUNCATE>(a) } else { round::<S, TRUNCATE>(a) };
    if bits > max {
        bits = if TRUNCATE && a < F32_INFINITY { max } else { beyond };
    }
    let nan = a > F32_INFINITY;
    if nan {
        bits = f.nan_bits() as u32;
    }
    let sign = (value.to_bits() >> sign_shift(f)) & f.sign_bit() as u32;
    let unsigned = match f.specials {
        Specials::NegativeZeroNan => bits == 0 || bits == f.nan_bits() as u32,
        Specials::None => nan,
        _ => false,
    };
    (if unsigned { bits } else { bits | sign }) << f.pad_bits
}

/// Rounds the magnitude of an f32; a result above the largest finite pattern means overflow.
#[inline(always)]
fn round<S: Small, const TRUNCATE: bool>(a: u32) -> u32 {
    let f = const { &S::F };
    let drop = 23 - f.mantissa_bits;
    let rounded = if TRUNCATE { a } else { a + ((1 << (drop - 1)) - 1) + (a >> drop & 1) };
    let normal = (rounded >> drop).wrapping_sub((127 - f.bias) as u32 * (1 << f.mantissa_bits));
    if f32_exponents(f) {
        return normal;
    }
    // Below the least normal: added to a power of two whose last place is the format's least positive number, the value is
    // rounded by the addition, and the last places are the pattern.
    let magic = ((127 + f.min_exponent() - f.mantissa_bits as i32 + 23) as u32) << 23;
    let sum = f32::from_bits(a) + f32::from_bits(magic);
    let above = TRUNCATE && sum - f32::from_bits(magic) > f32::from_bits(a);
    let subnormal = sum.to_bits().wrapping_sub(magic).wrapping_sub(u32::from(above));
    if a < ((127 + f.min_exponent()) as u32) << 23 { subnormal } else { normal }
}

/// The exponent field of the nearest power of two (a tie goes up), at least 0.
#[inline(always)]
fn encode_e8m0<const TRUNCATE: bool>(a: u32) -> u32 {
    // Between 2^-127 and 2^-126 f32 is subnormal, and half way is a quarter of its fraction's range away from 2^-126.
    let half = if a < 1 << 23 { 1 << 21 } else { 1 << 22 };
    if TRUNCATE { a >> 23 } else { (a + half) >> 23 }
}

/// The ordinal of a bit pattern, 0 for NaN.
#[inline(always)]
pub(super) fn ordinal<S: Small>(raw: u32) -> i32 {
    let f = const { &S::F };
    let code = raw >> f.pad_bits;
    let magnitude = code & magnitude_mask(f);
    let nan = match f.specials {
        Specials::Ieee => magnitude > f.infinity_bits() as u32,
        Specials::SingleNan | Specials::E8m0 => magnitude == f.nan_bits() as u32,
        // Minus zero: its magnitude is 0 anyway.
        Specials::NegativeZeroNan | Specials::None => false,
    };
    let magnitude = if nan { 0 } else { magnitude as i32 };
    if code & f.sign_bit() as u32 != 0 { -magnitude } else { magnitude }
}

/// The ordinal of an f32's bits, 0 for NaN.
#[inline(always)]
pub(super) fn ordinal_f32(bits: u32) -> i32 {
    let magnitude = bits & 0x7fff_ffff;
    let magnitude = if magnitude > F32_INFINITY { 0 } else { magnitude as i32 };
    if bits >> 31 != 0 { -magnitude } else { magnitude }
}

/// f32 as its own target: NaN canonical, infinity saturated if `SATURATE`.
#[inline(always)]
pub(super) fn encode_f32<const SATURATE: bool>(value: f32) -> u32 {
    let bits = value.to_bits();
    let a = bits & 0x7fff_ffff;
    let unsigned = match a {
        F32_INFINITY if SATURATE => F32_INFINITY - 1,
        _ if a > F32_INFINITY => F32_NAN,
        _ => a,
    };
    unsigned | bits & 0x8000_0000
}

/// f64 to f32 rounded toward zero; beyond the range, f32::MAX. Infinities and NaN stay.
#[inline(always)]
pub(super) fn truncate_f64(value: f64) -> f32 {
    let near = value as f32;
    let away = f64::from(near).abs() > value.abs();
    f32::from_bits(near.to_bits() - u32::from(away))
}

/// f64 to f32 rounded to odd: inexact results have their last bit set. A second rounding, to any format with at least two
/// bits less, then gives what a single rounding would (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums").
#[inline(always)]
pub(super) fn odd_f64(value: f64) -> f32 {
    let toward_zero = truncate_f64(value);
    let inexact = f64::from(toward_zero) != value;
    f32::from_bits(toward_zero.to_bits() | u32::from(inexact))
}
