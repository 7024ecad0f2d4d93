//! Rules whose every step is an f32 operation: fma chains and trees.

use super::{COLUMNS, Lane, Span};
use crate::simd::each;

/// [`Rule::Fma`](super::Rule::Fma).
pub(super) struct Chain;

impl Lane for Chain {
    const GROUP: usize = 1;
    type A = f32;
    type B = [f32; COLUMNS];

    #[inline(always)]
    fn a(&self, x: f32) -> f32 {
        x
    }

    #[inline(always)]
    fn b(&self, x: &[f32; COLUMNS]) -> [f32; COLUMNS] {
        *x
    }

    #[inline(always)]
    fn row<const FMA: bool, const TAME: bool>(&self, c: &mut [f32; COLUMNS], a: &[f32], b: &[[f32; COLUMNS]], _most: f64) {
        each(c, &b[0], |c, b| *c = a[0].mul_add(*b, *c));
    }
}

/// [`Rule::Tree`](super::Rule::Tree) of two or four.
///
/// Tame means that no product or sum can be subnormal and no product overflows.
pub(super) struct Tree<const GROUP: usize> {
    /// Whether the inputs are f16: always tame, once flushed. Their products are multiples of 2^-48.
    pub f16: bool,
}

impl<const GROUP: usize> Lane for Tree<GROUP> {
    const GROUP: usize = GROUP;
    type A = f32;
    type B = [f32; COLUMNS];

    #[inline(always)]
    fn a(&self, x: f32) -> f32 {
        x
    }

    #[inline(always)]
    fn b(&self, x: &[f32; COLUMNS]) -> [f32; COLUMNS] {
        *x
    }

    #[inline(always)]
    fn watches(&self) -> bool {
        !self.f16
    }

    /// With the factors' magnitudes multiplying to 2^-80 or more, products of bf16 numbers are multiples of 2^-96, and so are
    /// their rounded sums; a c that nearly cancels with such a sum is at least 2^-97, a multiple of 2^-120, and so is the
    /// difference.
    #[inline(always)]
    fn tame(&self, a: Span, b: Span, _acc: &[[f32; COLUMNS]]) -> bool {
        const LEAST: f64 = 1.0 / (1u128 << 80) as f64;
        const MOST: f64 = (1u128 << 126) as f64;
        self.f16 || f64::from(a.least) * f64::from(b.least) >= LEAST && f64::from(a.most) * f64::from(b.most) <= MOST
    }

    #[inline(always)]
    fn row<const FMA: bool, const TAME: bool>(&self, c: &mut [f32; COLUMNS], a: &[f32], b: &[[f32; COLUMNS]], _most: f64) {
        let f = flush::<TAME>;
        for (j, c) in c.iter_mut().enumerate() {
            let pair = |k: usize| {
                // Tame products are exact in f32, so that a fused multiply-add rounds the sum just as the addition does.
                if TAME && FMA { a[k].mul_add(b[k][j], a[k + 1] * b[k + 1][j]) } else { f(f(a[k] * b[k][j]) + f(a[k + 1] * b[k + 1][j])) }
            };
            *c = f(*c + if GROUP == 2 { pair(0) } else { f(pair(0) + pair(2)) });
        }
    }
}

/// f32-subnormal numbers become zeros of their sign; nothing to do for tame data.
#[inline(always)]
fn flush<const TAME: bool>(x: f32) -> f32 {
    if !TAME && x.abs() < f32::MIN_POSITIVE { 0.0f32.copysign(x) } else { x }
}
