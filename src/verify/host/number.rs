//! f32 and f64 as the loops of the host need them.

use super::side::BLOCK;
use crate::dtype::{DType, Overflow, Rounding, convert, exp2};
use crate::simd::{InLanes, InstructionSet, Lanes, Task, each};
use crate::verify::rule::{Real, Rule};

/// What the loops need of f32 and f64 beyond the rule.
pub(super) trait Number: Real + InLanes + bytemuck::Pod {
    /// The format whose memory is this type.
    const DTYPE: DType;
    /// The bit pattern of -0.
    const SIGN: Self::Bits;
    /// What differences and maxima of quotients are scaled by, so that the remainders of divisions do not underflow.
    const SCALE: Self;
    /// Bits of a pattern below the exponent.
    const FRACTION_BITS: u32;
    /// Half of the distance from 1 to the next number.
    const HALF_SPACING: f64;
    fn decode(dtype: DType, bytes: &[u8], out: &mut [Self]);
    /// Ordinals of the formats whose numbers this type has.
    type Ordinal: Copy + Default;
    fn ordinal(magnitude: Self::Bits, negative: bool) -> Self::Ordinal;
    /// The ordinal of a whole number in a format of integers of up to 16 bits (f32) or 32 (f64); any for larger numbers.
    fn whole(self) -> Self::Ordinal;
    fn ulps(x: Self::Ordinal, y: Self::Ordinal) -> Self::Bits;
    /// The ordinal that is this number, if the type holds it.
    fn cut(ordinal: i64) -> Self::Ordinal;
    /// Ordinals in `dtype`, a float or an integer of 64 bits, of numbers rounded to it; any for those that are not finite.
    fn rounded_ordinals(set: InstructionSet, dtype: DType, values: &[Self; BLOCK], out: &mut [Self::Ordinal; BLOCK]);
}

/// [`Rule::clamped_binade`] of vectors.
#[derive(Clone, Copy)]
pub(super) struct BinadeLanes<L> {
    least: L,
    most: L,
    exponent: L,
}

impl<T: Number, L: Lanes<Number = T>> BinadeLanes<L> {
    #[inline(always)]
    pub(super) fn new(set: L::Set, [least, most]: [T; 2]) -> BinadeLanes<L> {
        BinadeLanes { least: L::splat(set, least), most: L::splat(set, most), exponent: L::splat(set, T::from_bits(T::INFINITE)) }
    }

    #[inline(always)]
    pub(super) fn of(&self, m: L) -> L {
        L::smaller(L::larger(L::and(m, self.exponent), self.least), self.most)
    }
}

/// [`Rule::bound`] of vectors.
#[derive(Clone, Copy)]
pub(super) struct BoundLanes<L> {
    rtol: L,
    atol: L,
    max: L,
    base: Option<BinadeLanes<L>>,
}

impl<T: Number, L: Lanes<Number = T>> BoundLanes<L> {
    #[inline(always)]
    pub(super) fn new(set: L::Set, rule: &Rule<T>) -> BoundLanes<L> {
        let base = rule.base.map(|binades| BinadeLanes::new(set, binades));
        BoundLanes { rtol: L::splat(set, rule.rtol), atol: L::splat(set, rule.atol), max: L::splat(set, T::MAX), base }
    }

    #[inline(always)]
    pub(super) fn of(&self, m: L) -> L {
        let base = match &self.base {
            None => m,
            Some(binades) => binades.of(m),
        };
        L::smaller(L::fused(self.rtol, base, self.atol), self.max)
    }
}

/// The ordinal of a pattern of i64 or u64, in i64: those of u64 are 2^63 lower there, which changes no distance.
#[inline(always)]
pub(super) fn word_ordinal(dtype: DType, word: u64) -> i64 {
    if dtype == DType::U64 { (word ^ 1 << 63) as i64 } else { word as i64 }
}

/// Ordinals in `dtype` of numbers, those of format `of`; any for those that are not finite, and for those of i64 and u64 in their own format: of these
/// `T` does not hold all, and [`Side::word_ordinals`](super::side::Side::word_ordinals) has them.
pub(super) fn ordinals<T: Number>(set: InstructionSet, dtype: DType, of: DType, values: &[T; BLOCK], out: &mut [T::Ordinal; BLOCK]) {
    let (format, own) = (dtype.float_format(), T::DTYPE.float_format());
    match (format, own) {
        (None, _) if dtype == of => set.run(Whole { values, out }),
        (Some(f), Some(own)) if dtype == of && dtype != DType::F8E8M0 && f.exponent_bits <= own.exponent_bits => {
            // From the least normal number of the format to that of T.
            let scale = T::from_f64(exp2(own.min_exponent() - f.min_exponent()));
            set.run(Scaled { values, scale, shift: own.mantissa_bits - f.mantissa_bits, out });
        }
        _ => match dtype.int_format().filter(|int| int.bits <= 32) {
            Some(int) => set.run(Held { values, ends: [int.min() as f64, int.max() as f64].map(T::from_f64), out }),
            None => T::rounded_ordinals(set, dtype, values, out),
        },
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

/// Ordinals of numbers rounded to an integer format of up to 32 bits, of up to 16 where T is f32. They are held within its ends first: within them the
/// numbers are whole where T's spacing is 1 or more, and rounded to nearest even by [`Number::whole`].
struct Held<'a, T: Number> {
    values: &'a [T; BLOCK],
    ends: [T; 2],
    out: &'a mut [T::Ordinal; BLOCK],
}

impl<T: Number> Task for Held<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let [least, most] = self.ends;
        each(self.out, self.values, |o, x| *o = x.larger(least).smaller(most).whole());
    }
}

/// A function of each number, as a loop.
struct Map<'a, F> {
    values: &'a [f64; BLOCK],
    f: F,
    out: &'a mut [i64; BLOCK],
}

impl<F: Fn(f64) -> i64> Task for Map<'_, F> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        each(self.out, self.values, |o, x| *o = (self.f)(*x));
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
        fn cut(ordinal: i64) -> $ordinal {
            ordinal as $ordinal
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
    const FRACTION_BITS: u32 = f32::MANTISSA_DIGITS - 1;
    const HALF_SPACING: f64 = f32::EPSILON as f64 / 2.0;
    fn decode(dtype: DType, bytes: &[u8], out: &mut [f32]) {
        convert::decode_f32(dtype, bytes, out);
    }
    ordinals! { f32, i32 }
    fn rounded_ordinals(_: InstructionSet, dtype: DType, values: &[f32; BLOCK], out: &mut [i32; BLOCK]) {
        convert::ordinals_from_f32(dtype, values, out);
    }
}

impl Number for f64 {
    const DTYPE: DType = DType::F64;
    const SIGN: u64 = (-0.0f64).to_bits();
    const SCALE: f64 = (1u128 << 110) as f64;
    const FRACTION_BITS: u32 = f64::MANTISSA_DIGITS - 1;
    const HALF_SPACING: f64 = f64::EPSILON / 2.0;
    fn decode(dtype: DType, bytes: &[u8], out: &mut [f64]) {
        convert::decode_f64(dtype, bytes, out);
    }
    ordinals! { f64, i64 }
    fn rounded_ordinals(set: InstructionSet, dtype: DType, values: &[f64; BLOCK], out: &mut [i64; BLOCK]) {
        match dtype {
            DType::F64 => set.run(Map { values, f: |x: f64| f64::ordinal(x.magnitude().to_bits(), x < 0.0), out }),
            // `as` saturates: 2^63 becomes the largest i64.
            DType::I64 => set.run(Map { values, f: |x: f64| word_ordinal(DType::I64, x.round_ties_even() as i64 as u64), out }),
            DType::U64 => set.run(Map { values, f: |x: f64| word_ordinal(DType::U64, x.round_ties_even() as u64), out }),
            _ => {
                let (mut bytes, mut rounded, mut ordinals) = ([0; 4 * BLOCK], [0.0; BLOCK], [0; BLOCK]);
                convert::encode_from_f64(dtype, values, Rounding::NearestEven, Overflow::Saturate, &mut bytes);
                convert::decode_f32(dtype, &bytes, &mut rounded);
                f32::rounded_ordinals(set, dtype, &rounded, &mut ordinals);
                each(out, &ordinals, |o, x| *o = i64::from(*x));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::ordinal;

    /// The ordinals of numbers around every rounding and both ends of integer formats, by each instruction set.
    fn check<T: Number<Ordinal: Into<i64>>>(dtype: DType, numbers: &[T]) {
        for numbers in numbers.chunks(BLOCK) {
            let mut block = [T::ZERO; BLOCK];
            block[..numbers.len()].copy_from_slice(numbers);
            for set in InstructionSet::all() {
                let mut found = [T::Ordinal::default(); BLOCK];
                ordinals(*set, dtype, T::DTYPE, &block, &mut found);
                for (x, found) in block.iter().zip(found).filter(|(x, _)| x.finite()) {
                    let bits = dtype.encode(x.wide(), Rounding::NearestEven, Overflow::Saturate);
                    let expected = ordinal(dtype, bits).unwrap() - i128::from(dtype == DType::U64) * (1 << 63);
                    assert_eq!(i128::from(found.into()), expected, "{dtype} of {:e} in {}, {set:?}", x.wide(), T::DTYPE);
                }
            }
        }
    }

    #[test]
    fn integers_are_rounded_and_saturated_as_they_are_encoded() {
        for dtype in DType::ALL.into_iter().filter(|dtype| dtype.is_int()) {
            let int = dtype.int_format().unwrap();
            let ends = [int.min(), int.max()].map(|end| end as f64);
            let edges =
                ends.into_iter().chain([0.0, 1.0, 2f64.powi(22), 2f64.powi(23), 2f64.powi(31), 2f64.powi(51), 2f64.powi(53), f64::MAX]);
            // Every number of up to 16 bits, those between them, and those next to them.
            let near = edges.flat_map(|x| [x, -x]).chain((-70_000..70_000).map(f64::from).filter(|_| int.bits <= 16));
            let around = |x: f64| [x - 0.5, x, x + 0.5];
            let mut numbers: Vec<f64> = near.flat_map(around).flat_map(|x| [x.next_down(), x, x.next_up()]).collect();
            numbers.extend([f64::INFINITY, f64::NEG_INFINITY, f64::NAN]);
            check::<f64>(dtype, &numbers);
            if int.bits <= 16 {
                let narrow = numbers.iter().map(|&x| x as f32).flat_map(|x| [x.next_down(), x, x.next_up()]);
                check::<f32>(dtype, &narrow.collect::<Vec<_>>());
            }
        }
    }
}
