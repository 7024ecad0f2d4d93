//! The fused sums of gfx942, in 64-bit integers. Branches on data prevent vector code.

use super::super::{Model, naive};
use super::Lane;
use crate::dtype::{DType, FloatFormat};
use crate::simd::array;

/// Fraction bits of products and of c below their exponents.
const F: i32 = 24;
/// Fraction bits of the sum before the last rounding.
const F2: u32 = 31;

/// The parameters of their model that both rules need.
struct Shape {
    model: Model,
    keep: i32,
    least_a: i32,
    least_b: i32,
}

impl Shape {
    fn new(model: Model, keep: u32) -> Shape {
        let (a, b) = model.input().dtypes();
        let least = |d: DType| d.float_format().map_or(-126, FloatFormat::min_exponent);
        Shape { model, keep: keep as i32, least_a: least(a), least_b: least(b) }
    }

    /// Products k = first, first + stride ... truncated at F bits below the largest exponent: (units, exponent), or units of 0
    /// and the least exponent without a non-zero product.
    #[inline(always)]
    fn truncated<const GROUP: usize>(&self, p: &[f64; GROUP], e: &[i32; GROUP], first: usize, stride: usize) -> (i64, i32) {
        let mut top = NOTHING;
        for k in (first..GROUP).step_by(stride) {
            top = top.max(if p[k] == 0.0 { NOTHING } else { e[k] });
        }
        let scale = power(F - top);
        let mut units = 0;
        for k in (first..GROUP).step_by(stride) {
            units += (p[k] * scale) as i64;
        }
        (units, top)
    }

    /// The sum of products plus c: aligned, rounded down, added, normalised, rounded down, rounded to f32.
    #[inline(always)]
    fn add(&self, (units, e_dot): (i64, i32), c: f32, drop_low: bool) -> f32 {
        if e_dot == NOTHING {
            return c + 0.0;
        }
        let e_c = exponent(f64::from(c), -126);
        let e = e_dot.max(e_c);
        let c = if drop_low && e_c < e - F - 1 { 0.0 } else { f64::from(c) };
        let spare = self.keep - F;
        let aligned = (units << spare) >> (e - e_dot).min(63);
        let total = aligned + (((c * power(F - e)).floor() as i64) << spare);
        let excess = (63 - F2).saturating_sub(total.unsigned_abs().leading_zeros());
        ((total >> excess) as f64 * power(excess as i32 + e - self.keep)) as f32
    }

    /// The same group by the naive rule, for infinities and NaN.
    #[cold]
    fn special<const GROUP: usize>(&self, c: f32, a: &[f64], b: &[f64; GROUP]) -> f32 {
        let a: Vec<f32> = a.iter().map(|x| *x as f32).collect();
        let b: Vec<f32> = b.iter().map(|x| *x as f32).collect();
        naive::step(self.model, c, &a, &b)
    }

    #[inline(always)]
    fn group<const GROUP: usize>(&self, c: f32, a: &[f64], b: impl Fn(usize) -> f64, halves: bool) -> f32 {
        let b: [f64; GROUP] = array(b);
        let p: [f64; GROUP] = array(|k| a[k] * b[k]);
        let finite = |x: f64| x.abs() < (1u128 << 127) as f64 * 2.0;
        if !(p.iter().all(|p| finite(*p)) && c.is_finite()) {
            return self.special(c, a, &b);
        }
        let e: [i32; GROUP] = array(|k| exponent(a[k], self.least_a) + exponent(b[k], self.least_b));
        if !halves {
            return self.add(self.truncated(&p, &e, 0, 1), c, false);
        }
        let (even, odd) = (self.truncated(&p, &e, 0, 2), self.truncated(&p, &e, 1, 2));
        let top = even.1.max(odd.1);
        let align = |s: (i64, i32)| s.0 >> (top - s.1).min(63);
        self.add((align(even) + align(odd), top), c, true)
    }
}

/// Less than every exponent.
const NOTHING: i32 = -512;

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

/// [`Rule::Fused`](super::Rule::Fused) of four or eight.
pub(super) struct Fused<const GROUP: usize>(Shape);

impl<const GROUP: usize> Fused<GROUP> {
    pub(super) fn new(model: Model, keep: u32) -> Self {
        Fused(Shape::new(model, keep))
    }
}

impl<const GROUP: usize> Lane for Fused<GROUP> {
    const GROUP: usize = GROUP;
    type Wide = f64;

    #[inline(always)]
    fn step<const FMA: bool, const TAME: bool>(&self, c: f32, a: &[f64], b: impl Fn(usize) -> f64) -> f32 {
        self.0.group::<GROUP>(c, a, b, false)
    }
}

/// [`Rule::FusedHalves`](super::Rule::FusedHalves).
pub(super) struct Halves(Shape);

impl Halves {
    pub(super) fn new(model: Model, keep: u32) -> Self {
        Halves(Shape::new(model, keep))
    }
}

impl Lane for Halves {
    const GROUP: usize = 16;
    type Wide = f64;

    #[inline(always)]
    fn step<const FMA: bool, const TAME: bool>(&self, c: f32, a: &[f64], b: impl Fn(usize) -> f64) -> f32 {
        self.0.group::<16>(c, a, b, true)
    }
}
