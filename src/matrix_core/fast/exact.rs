//! Exact sums, rounded once. Three ways, from fast to slow; all give the same bits:
//!
//! * tame data: every f64 sum is exact, so plain f64 arithmetic and one conversion suffice;
//! * otherwise plain f64 arithmetic with a bound on its error: if both ends of the interval round to the same f32, that is the result;
//! * otherwise error-free transformations in f64, and rounding to odd before the conversion to f32.

use super::{COLUMNS, DEPTH, Lane, Span};
use crate::simd::array;

/// [`Rule::Exact`](super::Rule::Exact) of four f16 or two bf16 products.
pub(super) struct Exact<const GROUP: usize>;

impl<const GROUP: usize> Lane for Exact<GROUP> {
    const GROUP: usize = GROUP;
    type A = f64;
    type B = [f64; COLUMNS];

    #[inline(always)]
    fn a(&self, x: f32) -> f64 {
        f64::from(x)
    }

    #[inline(always)]
    fn b(&self, x: &[f32; COLUMNS]) -> [f64; COLUMNS] {
        array(|j| f64::from(x[j]))
    }

    #[inline(always)]
    fn watches(&self) -> bool {
        true
    }

    /// Whether all sums of the pass are exact in f64: products and accumulators are multiples of a `unit`, and no sum can reach
    /// 2^53 of it. Rounding to f32 keeps a multiple a multiple.
    #[inline(always)]
    fn tame(&self, a: Span, b: Span, acc: &[[f32; COLUMNS]]) -> bool {
        let unit = unit::<GROUP>(a.least) * unit::<GROUP>(b.least);
        // Adding and taking away 1.5 * 2^52 units rounds to a multiple of the unit; what is too large fails, as NaN does.
        let magic = unit * (3u64 << 51) as f64;
        let (mut stray, mut most) = (0u32, 0u32);
        for c in acc.iter().flatten() {
            let wide = f64::from(*c);
            stray |= u32::from((wide + magic) - magic != wide);
            // Magnitudes order as their bits do.
            most = most.max(c.to_bits() & 0x7fff_ffff);
        }
        let most = f64::from(f32::from_bits(most));
        // A little more than the sum of all magnitudes, for what rounding to f32 adds.
        let reach = 1.01 * (most + DEPTH as f64 * f64::from(a.most) * f64::from(b.most));
        stray == 0 && reach < unit * (1u64 << 53) as f64
    }

    #[inline(always)]
    fn row<const FMA: bool, const TAME: bool>(&self, c: &mut [f32; COLUMNS], a: &[f64], b: &[[f64; COLUMNS]], most: f64) {
        if TAME {
            for (j, c) in c.iter_mut().enumerate() {
                *c = (plain::<GROUP, FMA>(*c, a, |k| b[k][j]) + 0.0) as f32;
            }
            return;
        }
        // Each of at most eight roundings errs by 2^-53 of a partial sum, which |c| and the products bound.
        const SLACK: f64 = 1.0 / (1u64 << 49) as f64;
        let slack = most * GROUP as f64 * SLACK;
        let mut rounded = [0.0f32; COLUMNS];
        let mut doubt = 0u32;
        for (j, c) in c.iter().enumerate() {
            let sum = plain::<GROUP, FMA>(*c, a, |k| b[k][j]);
            let bound = f64::from(*c).abs() * SLACK + slack;
            let (down, up) = ((sum - bound) as f32, (sum + bound) as f32);
            // By bits, for the two zeros; by value, for NaN.
            doubt |= u32::from(down.to_bits() != up.to_bits()) | u32::from(down != up);
            rounded[j] = down;
        }
        if doubt == 0 {
            *c = rounded;
        } else {
            for (j, c) in c.iter_mut().enumerate() {
                *c = Self::element(*c, a, |k| b[k][j]);
            }
        }
    }
}

impl<const GROUP: usize> Exact<GROUP> {
    /// Any element, by error-free transformations.
    #[inline(always)]
    fn element(c: f32, a: &[f64], b: impl Fn(usize) -> f64) -> f32 {
        if GROUP == 2 {
            let (sum, error) = two_sum(a[0] * b(0), a[1] * b(1));
            return finish(sum, error, f64::from(c), sum + f64::from(c));
        }
        // Products of f16 numbers are multiples of 2^-48 below 2^33. Cut at 2^-10, the upper parts of four of them add exactly
        // (below 2^35) and so do the lower ones (below 2^-8).
        const CUT: f64 = 1.5 * (1u64 << 42) as f64;
        let p = [a[0] * b(0), a[1] * b(1), a[2] * b(2), a[3] * b(3)];
        let high = [(p[0] + CUT) - CUT, (p[1] + CUT) - CUT, (p[2] + CUT) - CUT, (p[3] + CUT) - CUT];
        let low = [p[0] - high[0], p[1] - high[1], p[2] - high[2], p[3] - high[3]];
        let high = (high[0] + high[1]) + (high[2] + high[3]);
        let low = (low[0] + low[1]) + (low[2] + low[3]);
        // Where |high| < |low| the sum is exact, and the error zero, for both are small multiples of 2^-48.
        let sum = high + low;
        finish(sum, low - (sum - high), f64::from(c), ((p[0] + p[1]) + (p[2] + p[3])) + f64::from(c))
    }
}

/// A power of two of which f16 (GROUP 4) or bf16 (GROUP 2) numbers of at least this magnitude are multiples.
#[inline(always)]
fn unit<const GROUP: usize>(least: f32) -> f64 {
    let power = f64::from_bits(f64::from(least).to_bits() & 0x7ff0_0000_0000_0000);
    if GROUP == 4 { (power / 1024.0).max(1.0 / (1 << 24) as f64) } else { power / 128.0 }
}

/// c plus the products in f64, rounded at each step.
#[inline(always)]
fn plain<const GROUP: usize, const FMA: bool>(c: f32, a: &[f64], b: impl Fn(usize) -> f64) -> f64 {
    let mut sum = f64::from(c);
    for (k, a) in a[..GROUP].iter().enumerate() {
        sum = if FMA { a.mul_add(b(k), sum) } else { sum + a * b(k) };
    }
    sum
}

/// (s, e) with s = a + b rounded and s + e = a + b exactly.
#[inline(always)]
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let part = sum - a;
    (sum, (a - (sum - part)) + (b - part))
}

/// The exact sum of `sum`, `error` (at most half a spacing of `sum`) and `c`, rounded once to f32; an exact zero is +0.
/// `plain` is the same sum with any rounding, for the case that it is NaN or infinite.
#[inline(always)]
fn finish(sum: f64, error: f64, c: f64, plain: f64) -> f32 {
    let (high, l) = two_sum(sum, c);
    let (l, lowest) = two_sum(l, error);
    // |l| does not exceed |high|, or `high` is zero: `l` is at most a spacing of `sum`, of which `high` is a multiple where
    // they cancel.
    let top = high + l;
    // What is left is less than a spacing of `top`; its sign says on which side of `top` the exact sum lies.
    let rest = (l - (top - high)) + lowest;
    // Round to odd: with 53 bits for 24 wanted, the conversion then rounds as if from the exact sum.
    let bits = top.to_bits();
    let towards_zero = (rest.to_bits() ^ bits) >> 63;
    let odd = bits.wrapping_add(1).wrapping_sub(towards_zero << 1);
    let step = (rest != 0.0) & (bits & 1 == 0);
    let rounded = f64::from_bits(if step { odd } else { bits }) + 0.0;
    (if plain.is_finite() { rounded } else { plain }) as f32
}
