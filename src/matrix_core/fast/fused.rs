//! The fused sums of gfx942.
//!
//! Terms are whole numbers: 16 truncated products at most, each below 2^26, then multiplied by 2^8 for the bits that the hardware keeps when it aligns their sum,
//! and c, below 2^33. They are exact in f64, and so are their sums. Infinities and NaN are found by their exponents, and left to the naive rule.

use super::super::{Model, naive};
use super::scaled::{self, LARGE, One, Row, exponent, larger, power, reciprocal, two_to};
use super::{COLUMNS, Lane};
use crate::simd::{array, each};

/// Fraction bits of products and of c below their exponents.
const F: i32 = 24;
/// Fraction bits of the sum before the last rounding.
const F2: i32 = 31;
/// The exponent of a sum without products: less than any other, and that of a power of two that f64 has.
const NOTHING: i32 = -512;

/// [`Rule::Fused`](super::Rule::Fused) of `EACH` products or, with two `PARTS` of as many, [`Rule::FusedHalves`](super::Rule::FusedHalves).
pub(super) struct Fused<const EACH: usize, const PARTS: usize> {
    model: Model,
    /// Fraction bits that the sum of products keeps when it is aligned to a larger c.
    keep: i32,
    /// The least exponents of A's and B's numbers.
    least: [i32; 2],
}

/// Sums in units of 2^(top - F), where `top` is the largest exponent of their products.
#[derive(Clone, Copy)]
struct Sums {
    units: [f64; COLUMNS],
    top: [i32; COLUMNS],
}

impl<const EACH: usize, const PARTS: usize> Fused<EACH, PARTS> {
    pub(super) fn new(model: Model, keep: u32) -> Self {
        let (a, b) = model.input().dtypes();
        Fused { model, keep: keep as i32, least: [scaled::least(a), scaled::least(b)] }
    }

    /// The sums of one part of the products, each truncated.
    #[inline(always)]
    fn part(a: &[One], b: &[Row], part: usize) -> Sums {
        let mut sums = Sums { units: [0.0; COLUMNS], top: [NOTHING; COLUMNS] };
        let index = |i: usize| i * PARTS + part;
        scaled::raise::<EACH>(&mut sums.top, a, b, index);
        let mut scale = [0.0; COLUMNS];
        // A larger exponent is one of numbers that the naive rule adds.
        each(&mut scale, &sums.top, |scale, top| *scale = two_to(F - (*top).min(LARGE)));
        scaled::add::<EACH>(&mut sums.units, &scale, a, b, index);
        sums
    }

    /// Both rounded down at the larger exponent, and added.
    #[inline(always)]
    fn joined(x: &Sums, y: &Sums) -> Sums {
        let mut sums = *x;
        for j in 0..COLUMNS {
            let top = x.top[j].max(y.top[j]).min(LARGE);
            sums.units[j] = (x.units[j] * two_to(x.top[j] - top)).floor() + (y.units[j] * two_to(y.top[j] - top)).floor();
            sums.top[j] = x.top[j].max(y.top[j]);
        }
        sums
    }

    /// The sum of products plus c: aligned, rounded down, added, normalised, rounded down, rounded to f32.
    #[inline(always)]
    fn plus<const FMA: bool>(&self, units: f64, top: i32, c: f32) -> f32 {
        let e_c = exponent(c, -126);
        let e = top.max(e_c);
        let c = if PARTS > 1 && e_c < e - F - 1 { 0.0 } else { f64::from(c) };
        let spare = self.keep - F;
        // A total of zero is +0; a total that is too small for f32 keeps its sign.
        let (units, c) = ((units * two_to(spare + top - e)).floor() + 0.0, (c * two_to(F - e)).floor());
        let total = if FMA { c.mul_add(two_to(spare), units) } else { c * two_to(spare) + units };
        let excess = larger(power(total) * two_to(-F2), 1.0);
        ((total * reciprocal(excess)).floor() * (excess * two_to(e - self.keep))) as f32
    }

    /// Column `j` by the naive rule.
    #[cold]
    fn naive(&self, c: f32, a: &[One], b: &[Row], j: usize) -> f32 {
        let a: [f32; 16] = array(|k| a.get(k).map_or(0.0, One::value));
        let b: [f32; 16] = array(|k| b.get(k).map_or(0.0, |b| b.value(j)));
        naive::step(self.model, c, &a[..Self::GROUP], &b[..Self::GROUP])
    }
}

impl<const EACH: usize, const PARTS: usize> Lane for Fused<EACH, PARTS> {
    const GROUP: usize = EACH * PARTS;
    const LONG: bool = true;
    type A = One;
    type B = Row;

    #[inline(always)]
    fn a(&self, x: f32) -> One {
        One::new(x, self.least[0])
    }

    #[inline(always)]
    fn b(&self, x: &[f32; COLUMNS]) -> Row {
        Row::new(x, self.least[1])
    }

    #[inline(always)]
    fn row<const FMA: bool, const TAME: bool>(&self, c: &mut [f32; COLUMNS], a: &[One], b: &[Row], _most: f64) {
        let mut sums = Self::part(a, b, 0);
        if PARTS > 1 {
            sums = Self::joined(&sums, &Self::part(a, b, 1));
        }
        let (before, mut large) = (*c, i32::MIN);
        for j in 0..COLUMNS {
            large = large.max(sums.top[j]).max(exponent_of_c(before[j]));
            c[j] = self.plus::<FMA>(sums.units[j], sums.top[j], before[j]);
        }
        if large >= LARGE {
            for j in 0..COLUMNS {
                if sums.top[j].max(exponent_of_c(before[j])) >= LARGE {
                    c[j] = self.naive(before[j], a, b, j);
                }
            }
        }
    }
}

/// [`LARGE`] or more for infinities and NaN alone.
#[inline(always)]
fn exponent_of_c(c: f32) -> i32 {
    exponent(c, 0) - 1
}
