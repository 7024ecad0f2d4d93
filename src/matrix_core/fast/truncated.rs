//! The sums of tensor cores.
//!
//! Truncated terms are whole numbers of units, at most 33 of them, each below 2^28: they are exact in f64, and so are their sums.
//! An infinity or NaN passes through all of this as IEEE 754 defines it, since scaling and truncation do not change it.

use super::super::Accumulator;
use super::scaled::{self, One, Row, exponent, larger, power, reciprocal, two_to};
use super::{COLUMNS, Lane, Model};
use crate::dtype::DType;
use crate::simd::each;

/// [`Rule::Truncated`](super::Rule::Truncated) with groups of `GROUP`.
pub(super) struct Truncated<const GROUP: usize>(Sum);

/// [`Rule::Emulated`](super::Rule::Emulated).
pub(super) struct Emulated {
    sum: Sum,
    f16: bool,
}

/// A fused sum.
#[derive(Clone, Copy)]
struct Sum {
    /// The least exponents of A's and B's numbers, and of c.
    least: [i32; 3],
    /// Fraction bits of terms.
    bits: i32,
    /// The exponent of zeros.
    zero: i32,
    /// Fraction bits of the result.
    fraction: i32,
    /// Rounds to nearest.
    nearest: bool,
    /// The magnitude from which on a result is infinite.
    beyond: f64,
}

impl<const GROUP: usize> Truncated<GROUP> {
    pub(super) fn new(model: Model, bits: u32, zero: i32, accumulator: Accumulator) -> Self {
        let (a, b) = model.input().dtypes();
        Truncated(Sum::new([a, b], bits, zero, accumulator))
    }
}

impl Emulated {
    pub(super) fn new(accumulator: Accumulator) -> Self {
        let f16 = accumulator == Accumulator::F16;
        Emulated { sum: Sum::new([DType::F16; 2], 25, if f16 { -21 } else { -133 }, accumulator), f16 }
    }
}

impl Sum {
    fn new([a, b]: [DType; 2], bits: u32, zero: i32, accumulator: Accumulator) -> Sum {
        let f16 = accumulator == Accumulator::F16;
        let least = [scaled::least(a), scaled::least(b), accumulator.least_exponent()];
        let beyond = two_to(if f16 { 16 } else { 128 });
        Sum { least, bits: bits as i32, zero, fraction: accumulator.fraction(), nearest: f16, beyond }
    }

    /// Adds the N products `a[k] * b[k]` with `k = index(0), index(1)` and so on to `c`.
    #[inline(always)]
    fn add<const N: usize>(&self, c: &mut [f32; COLUMNS], a: &[One], b: &[Row], index: impl Fn(usize) -> usize + Copy) {
        let (mut top, mut scale, mut sum) = ([0; COLUMNS], [0.0; COLUMNS], [0.0; COLUMNS]);
        each(&mut top, c, |top, c| {
            let e = exponent(*c, self.least[2]);
            *top = self.zero.max(if *c == 0.0 { self.zero } else { e });
        });
        scaled::raise::<N>(&mut top, a, b, index);
        for j in 0..COLUMNS {
            // Larger exponents are those of infinities and NaN.
            top[j] = top[j].min(512);
            scale[j] = two_to(self.bits - top[j]);
            sum[j] = (f64::from(c[j]) * scale[j]).trunc();
        }
        scaled::add::<N>(&mut sum, &scale, a, b, index);
        for j in 0..COLUMNS {
            c[j] = self.rounded(sum[j] * two_to(top[j] - self.bits));
        }
    }

    /// A sum rounded to the accumulator, zeros +0.
    #[inline(always)]
    fn rounded(&self, x: f64) -> f32 {
        let power = larger(power(x), two_to(self.least[2]));
        let last = (if power < two_to(512) { power } else { two_to(512) }) * two_to(-self.fraction);
        let digits = x * reciprocal(last);
        // Below 2^52, adding and subtracting 1.5 * 2^52 rounds to a whole number.
        const SHIFT: f64 = 6755399441055744.0;
        let digits = if self.nearest { (digits + SHIFT) - SHIFT } else { digits.trunc() };
        let x = digits * last;
        let x = if x.abs() >= self.beyond { f64::INFINITY.copysign(x) } else { x };
        x as f32 + 0.0
    }
}

impl<const GROUP: usize> Lane for Truncated<GROUP> {
    const GROUP: usize = GROUP;
    const LONG: bool = true;
    type A = One;
    type B = Row;

    #[inline(always)]
    fn a(&self, x: f32) -> Self::A {
        One::new(x, self.0.least[0])
    }

    #[inline(always)]
    fn b(&self, x: &[f32; COLUMNS]) -> Self::B {
        Row::new(x, self.0.least[1])
    }

    #[inline(always)]
    fn row<const FMA: bool, const TAME: bool>(&self, c: &mut [f32; COLUMNS], a: &[Self::A], b: &[Self::B], _most: f64) {
        self.0.add::<GROUP>(c, a, b, |i| i);
    }
}

impl Lane for Emulated {
    const GROUP: usize = 32;
    const LONG: bool = true;
    type A = One;
    type B = Row;

    #[inline(always)]
    fn a(&self, x: f32) -> Self::A {
        One::new(x, self.sum.least[0])
    }

    #[inline(always)]
    fn b(&self, x: &[f32; COLUMNS]) -> Self::B {
        Row::new(x, self.sum.least[1])
    }

    #[inline(always)]
    fn row<const FMA: bool, const TAME: bool>(&self, c: &mut [f32; COLUMNS], a: &[Self::A], b: &[Self::B], _most: f64) {
        let mut products = [0.0f32; COLUMNS];
        self.sum.add::<16>(&mut products, a, b, |i| i / 2 * 4 + i % 2);
        self.sum.add::<16>(&mut products, a, b, |i| i / 2 * 4 + i % 2 + 2);
        each(c, &products, |c, products| {
            let sum = products + *c;
            // Twice rounded, which changes nothing: f32 has more than twice the digits of f16.
            *c = if self.f16 { half::f16::from_f32(sum).to_f32() } else { sum };
        });
    }
}
