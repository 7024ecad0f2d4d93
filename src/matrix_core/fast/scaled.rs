//! Factors beside their exponents, for sums of terms that are truncated below the largest exponent.
//!
//! Values are f64, exact in every step: products, their multiples by powers of two, and sums of whole numbers. Exponents are i32, from which powers of two are made
//! by a shift. There are no branches, so that the columns of a panel become the lanes of vectors.

use super::COLUMNS;
use crate::dtype::{DType, FloatFormat};
use crate::simd::array;

/// A factor, or a row of factors.
#[derive(Clone, Copy)]
pub(super) struct Scaled<Value, Exponent> {
    value: Value,
    /// Of a zero less than those of numbers, by so much that no sum with another number's is one of a product.
    /// Of infinities and NaN larger, by so much that every sum with one, even a zero's, is at least [`LARGE`].
    exponent: Exponent,
}

/// A factor of A.
pub(super) type One = Scaled<f64, i32>;
/// Factors of B, one in each column.
pub(super) type Row = Scaled<[f64; COLUMNS], [i32; COLUMNS]>;

const ZERO: i32 = -2000;
const SPECIAL: i32 = 8000;
/// From this sum of exponents on, a product may be infinite in f32, or NaN.
pub(super) const LARGE: i32 = 127;

/// floor(log2 |x|), not below `least`.
#[inline(always)]
fn of(x: f32, least: i32) -> i32 {
    let magnitude = x.to_bits() << 1 >> 1;
    let exponent = exponent(x, least);
    let exponent = if magnitude >= f32::INFINITY.to_bits() { SPECIAL } else { exponent };
    if magnitude == 0 { ZERO } else { exponent }
}

/// floor(log2 |x|) of a finite number, not below `least`, which also is the one of zeros.
#[inline(always)]
pub(super) fn exponent(x: f32, least: i32) -> i32 {
    let e = (x.to_bits() << 1 >> 24) as i32 - 127;
    if e > least { e } else { least }
}

/// The exponent that those of a format are not below.
pub(super) fn least(dtype: DType) -> i32 {
    dtype.float_format().map_or(-126, FloatFormat::min_exponent)
}

/// 2^e, for -1022 <= e <= 1023.
#[inline(always)]
pub(super) const fn two_to(e: i32) -> f64 {
    f64::from_bits(((e + 1023) as u64) << 52)
}

/// 2^floor(log2 |x|) of a normal number, infinity of it and of NaN.
#[inline(always)]
pub(super) fn power(x: f64) -> f64 {
    f64::from_bits(x.to_bits() & 0x7ff0_0000_0000_0000)
}

/// 1 / x for a power of two from 2^-1022 to 2^1022.
#[inline(always)]
pub(super) fn reciprocal(x: f64) -> f64 {
    f64::from_bits((2046u64 << 52).wrapping_sub(x.to_bits()))
}

/// The larger one. `f64::max` takes more instructions, for NaN.
#[inline(always)]
pub(super) fn larger(x: f64, y: f64) -> f64 {
    if y > x { y } else { x }
}

impl One {
    #[inline(always)]
    pub(super) fn new(x: f32, least: i32) -> One {
        Scaled { value: f64::from(x), exponent: of(x, least) }
    }

    pub(super) fn value(&self) -> f32 {
        self.value as f32
    }
}

impl Row {
    #[inline(always)]
    pub(super) fn new(x: &[f32; COLUMNS], least: i32) -> Row {
        Scaled { value: array(|j| f64::from(x[j])), exponent: array(|j| of(x[j], least)) }
    }

    pub(super) fn value(&self, j: usize) -> f32 {
        self.value[j] as f32
    }
}

/// Raises `top` to the largest exponent among the N products `a[k] * b[k]` with `k = index(0), index(1)` and so on.
#[inline(always)]
pub(super) fn raise<const N: usize>(top: &mut [i32; COLUMNS], a: &[One], b: &[Row], index: impl Fn(usize) -> usize) {
    for (j, top) in top.iter_mut().enumerate() {
        for i in 0..N {
            let k = index(i);
            *top = (*top).max(a[k].exponent + b[k].exponent[j]);
        }
    }
}

/// Adds these products to `sum`, each of them times `scale` and truncated to a whole number.
#[inline(always)]
pub(super) fn add<const N: usize>(sum: &mut [f64; COLUMNS], scale: &[f64; COLUMNS], a: &[One], b: &[Row], index: impl Fn(usize) -> usize) {
    for (j, sum) in sum.iter_mut().enumerate() {
        for i in 0..N {
            let k = index(i);
            *sum += (a[k].value * b[k].value[j] * scale[j]).trunc();
        }
    }
}
