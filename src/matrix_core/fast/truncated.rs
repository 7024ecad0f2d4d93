//! The sums of tensor cores, in f64 without branches, so that the columns of a panel become the lanes of vectors.
//!
//! A product is exact in f64, and so is one scaled by a power of two. Truncated terms are whole numbers of units, at most 33 of them, each below 2^28:
//! their sum is exact as well. An infinity or NaN passes through all of this as IEEE 754 defines it, since scaling and truncation do not change it.

use super::super::Accumulator;
use super::{COLUMNS, Lane, Model};
use crate::dtype::{DType, FloatFormat};
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
    bits: i32,
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
        let least = |d: DType| d.float_format().map_or(-126, FloatFormat::min_exponent);
        Truncated(Sum::new([least(a), least(b)], bits, zero, accumulator))
    }
}

impl Emulated {
    pub(super) fn new(accumulator: Accumulator) -> Self {
        let f16 = accumulator == Accumulator::F16;
        Emulated { sum: Sum::new([-14; 2], 25, if f16 { -21 } else { -133 }, accumulator), f16 }
    }
}

impl Sum {
    fn new([a, b]: [i32; 2], bits: u32, zero: i32, accumulator: Accumulator) -> Sum {
        let f16 = accumulator == Accumulator::F16;
        let (fraction, c) = (accumulator.fraction(), accumulator.least_exponent());
        Sum { least: [a, b, c], bits: bits as i32, zero, fraction, nearest: f16, beyond: power(if f16 { 16 } else { 128 }) }
    }

    /// The sums of `c` and the products `a[k] * b(k, j)` with these k, of N columns.
    #[inline(always)]
    fn columns<const N: usize>(
        &self,
        c: &mut [f32; N],
        a: &[f64],
        b: impl Fn(usize, usize) -> f64,
        ks: impl Iterator<Item = usize> + Clone,
    ) {
        let mut top = [0i32; N];
        each(&mut top, c, |top, c| {
            let c = f64::from(*c);
            *top = self.or_zero(c, exponent(c, self.least[2])).max(self.zero);
        });
        for k in ks.clone() {
            let e_a = exponent(a[k], self.least[0]);
            for (j, top) in top.iter_mut().enumerate() {
                let b = b(k, j);
                *top = (*top).max(self.or_zero(a[k] * b, e_a + exponent(b, self.least[1])));
            }
        }
        let (mut scale, mut sum) = ([0.0; N], [0.0; N]);
        for (j, c) in c.iter().enumerate() {
            // Exponents above 254 are those of infinities and NaN.
            top[j] = top[j].min(512);
            scale[j] = power(self.bits - top[j]);
            sum[j] = (f64::from(*c) * scale[j]).trunc();
        }
        for k in ks {
            for j in 0..N {
                sum[j] += (a[k] * b(k, j) * scale[j]).trunc();
            }
        }
        for (j, c) in c.iter_mut().enumerate() {
            *c = self.rounded(sum[j] * power(top[j] - self.bits));
        }
    }

    #[inline(always)]
    fn or_zero(&self, x: f64, e: i32) -> i32 {
        if x == 0.0 { self.zero } else { e }
    }

    /// A sum rounded to the accumulator, zeros +0.
    #[inline(always)]
    fn rounded(&self, x: f64) -> f32 {
        let last = exponent(x, self.least[2]).min(512) - self.fraction;
        let digits = x * power(-last);
        // Below 2^52, adding and subtracting 1.5 * 2^52 rounds to a whole number.
        const SHIFT: f64 = 6755399441055744.0;
        let digits = if self.nearest { (digits + SHIFT) - SHIFT } else { digits.trunc() };
        let x = digits * power(last);
        let x = if x.abs() >= self.beyond { f64::INFINITY.copysign(x) } else { x };
        x as f32 + 0.0
    }
}

impl<const GROUP: usize> Lane for Truncated<GROUP> {
    const GROUP: usize = GROUP;
    type Wide = f64;

    #[inline(always)]
    fn step<const FMA: bool, const TAME: bool>(&self, c: f32, a: &[f64], b: impl Fn(usize) -> f64) -> f32 {
        let mut one = [c];
        self.0.columns(&mut one, a, |k, _| b(k), 0..GROUP);
        one[0]
    }

    #[inline(always)]
    fn row<const FMA: bool, const TAME: bool>(&self, c: &mut [f32; COLUMNS], a: &[f64], b: &[[f64; COLUMNS]], _most: f64) {
        self.0.columns(c, a, |k, j| b[k][j], 0..GROUP);
    }
}

impl Emulated {
    #[inline(always)]
    fn columns<const N: usize>(&self, c: &mut [f32; N], a: &[f64], b: impl Fn(usize, usize) -> f64) {
        let mut products = [0.0f32; N];
        self.sum.columns(&mut products, a, &b, (0..16).map(|i| i / 2 * 4 + i % 2));
        self.sum.columns(&mut products, a, &b, (0..16).map(|i| i / 2 * 4 + i % 2 + 2));
        each(c, &products, |c, products| {
            let sum = products + *c;
            // Twice rounded, which changes nothing: f32 has more than twice the digits of f16.
            *c = if self.f16 { half::f16::from_f32(sum).to_f32() } else { sum };
        });
    }
}

impl Lane for Emulated {
    const GROUP: usize = 32;
    type Wide = f64;

    #[inline(always)]
    fn step<const FMA: bool, const TAME: bool>(&self, c: f32, a: &[f64], b: impl Fn(usize) -> f64) -> f32 {
        let mut one = [c];
        self.columns(&mut one, a, |k, _| b(k));
        one[0]
    }

    #[inline(always)]
    fn row<const FMA: bool, const TAME: bool>(&self, c: &mut [f32; COLUMNS], a: &[f64], b: &[[f64; COLUMNS]], _most: f64) {
        self.columns(c, a, |k, j| b[k][j]);
    }
}

/// 2^e for a normal power, -1022 <= e <= 1023.
#[inline(always)]
fn power(e: i32) -> f64 {
    f64::from_bits(((e + 1023) as u64) << 52)
}

/// floor(log2 |x|), not below `least`.
#[inline(always)]
fn exponent(x: f64, least: i32) -> i32 {
    ((x.to_bits() >> 52 & 0x7ff) as i32 - 1023).max(least)
}
