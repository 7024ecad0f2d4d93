//! f32 and f64 as the loops of the host need them.

use super::side::BLOCK;
use crate::dtype::{DType, Overflow, Rounding, convert, exp2};
use crate::simd::{InstructionSet, Task, each};
use crate::verify::rule::Real;
use std::hint::black_box;

/// What the loops need of f32 and f64 beyond the rule.
pub(super) trait Number: Real + bytemuck::Pod {
    /// The format whose memory is this type.
    const DTYPE: DType;
    /// The bit pattern of -0.
    const SIGN: Self::Bits;
    /// What differences and maxima of quotients are scaled by, so that the remainders of divisions do not underflow.
    const SCALE: Self;
    /// Half of the distance from 1 to the next number.
    const HALF_SPACING: f64;
    /// What a vector loop adds to a counter where a condition holds. AVX-512 adds a number under a mask, in one instruction; but of a number that the
    /// compiler knows to be 1 it makes two, so it is hidden there. AVX2 subtracts the condition itself, which it can if the number is known.
    #[inline(always)]
    fn one<const AVX512: bool>() -> Self::Bits {
        let one = Self::Bits::from(true);
        if AVX512 { black_box(one) } else { one }
    }
    fn decode(dtype: DType, bytes: &[u8], out: &mut [Self]);
    /// Ordinals of the formats whose numbers this type has.
    type Ordinal: Copy + Default;
    fn ordinal(magnitude: Self::Bits, negative: bool) -> Self::Ordinal;
    /// The ordinal of a whole number in a format of integers of up to 16 bits (f32) or 32 (f64); any for larger numbers.
    fn whole(self) -> Self::Ordinal;
    fn ulps(x: Self::Ordinal, y: Self::Ordinal) -> Self::Bits;
    /// Ordinals in `dtype` of numbers rounded to it; any for those that are not finite.
    fn rounded_ordinals(dtype: DType, values: &[Self; BLOCK], out: &mut [Self::Ordinal; BLOCK]);
}

/// Ordinals in `dtype` of numbers, those of format `of`; any for those that are not finite, and for i64 and u64.
pub(super) fn ordinals<T: Number>(set: InstructionSet, dtype: DType, of: DType, values: &[T; BLOCK], out: &mut [T::Ordinal; BLOCK]) {
    let (format, own) = (dtype.float_format(), T::DTYPE.float_format());
    match (format, own) {
        _ if dtype != of => T::rounded_ordinals(dtype, values, out),
        (None, _) => set.run(Whole { values, out }),
        (Some(f), Some(own)) if dtype != DType::F8E8M0 && f.exponent_bits <= own.exponent_bits => {
            // From the least normal number of the format to that of T.
            let scale = T::from_f64(exp2(own.min_exponent() - f.min_exponent()));
            set.run(Scaled { values, scale, shift: own.mantissa_bits - f.mantissa_bits, out });
        }
        _ => T::rounded_ordinals(dtype, values, out),
    }
}

/// Ordinals of numbers of a float format: times `scale` such a number has the pattern of its format, `shift` bits up.
struct Scaled<'a, T: Number> {
    values: &'a [T; BLOCK],
    scale: T,
    shift: u32,
    out: &'a mut [T::Ordinal; BLOCK],
}

impl<T: Number> Task for Scaled<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        each(self.out, self.values, |o, x| *o = T::ordinal(x.times(self.scale).magnitude().bits() >> self.shift, *x < T::ZERO));
    }
}

/// Ordinals of numbers of an integer format: their values.
struct Whole<'a, T: Number> {
    values: &'a [T; BLOCK],
    out: &'a mut [T::Ordinal; BLOCK],
}

impl<T: Number> Task for Whole<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        each(self.out, self.values, |o, x| *o = x.whole());
    }
}

macro_rules! ordinals {
    ($number:ty, $ordinal:ty) => {
        type Ordinal = $ordinal;
        #[inline(always)]
        fn ordinal(magnitude: Self::Bits, negative: bool) -> $ordinal {
            let magnitude = magnitude as $ordinal;
            if negative { -magnitude } else { magnitude }
        }
        #[inline(always)]
        fn whole(self) -> $ordinal {
            // The last places of the sum are the number. A cast, which saturates, would be no vector code.
            const SHIFTED: $number = 1.5 / <$number>::EPSILON;
            ((self + SHIFTED).to_bits() as $ordinal).wrapping_sub(SHIFTED.to_bits() as $ordinal)
        }
        #[inline(always)]
        fn ulps(x: $ordinal, y: $ordinal) -> Self::Bits {
            x.abs_diff(y)
        }
    };
}

impl Number for f32 {
    const DTYPE: DType = DType::F32;
    const SIGN: u32 = (-0.0f32).to_bits();
    const SCALE: f32 = (1u64 << 48) as f32;
    const HALF_SPACING: f64 = f32::EPSILON as f64 / 2.0;
    fn decode(dtype: DType, bytes: &[u8], out: &mut [f32]) {
        convert::decode_f32(dtype, bytes, out);
    }
    ordinals! { f32, i32 }
    fn rounded_ordinals(dtype: DType, values: &[f32; BLOCK], out: &mut [i32; BLOCK]) {
        convert::ordinals_from_f32(dtype, values, out);
    }
}

impl Number for f64 {
    const DTYPE: DType = DType::F64;
    const SIGN: u64 = (-0.0f64).to_bits();
    const SCALE: f64 = (1u128 << 110) as f64;
    const HALF_SPACING: f64 = f64::EPSILON / 2.0;
    fn decode(dtype: DType, bytes: &[u8], out: &mut [f64]) {
        convert::decode_f64(dtype, bytes, out);
    }
    ordinals! { f64, i64 }
    fn rounded_ordinals(dtype: DType, values: &[f64; BLOCK], out: &mut [i64; BLOCK]) {
        match (dtype, dtype.int_format()) {
            (DType::F64, _) => each(out, values, |o, x| *o = f64::ordinal(x.magnitude().to_bits(), *x < 0.0)),
            (_, Some(int)) if !dtype.fits_f32() => {
                // `as` saturates: 2^63 becomes the largest i64.
                let (least, most) = (int.min() as f64, int.max() as f64);
                each(out, values, |o, x| *o = x.round_ties_even().clamp(least, most) as i64);
            }
            _ => {
                let (mut bytes, mut rounded, mut ordinals) = ([0; 4 * BLOCK], [0.0; BLOCK], [0; BLOCK]);
                convert::encode_from_f64(dtype, values, Rounding::NearestEven, Overflow::Saturate, &mut bytes);
                convert::decode_f32(dtype, &bytes, &mut rounded);
                f32::rounded_ordinals(dtype, &rounded, &mut ordinals);
                each(out, &ordinals, |o, x| *o = i64::from(*x));
            }
        }
    }
}
