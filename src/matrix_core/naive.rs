//! The rules in their most readable form: one output element, one group at a time.
//!
//! Slow, and the definition of every fast path: [`gemm_tile`](super::gemm_tile) gives the bits of [`gemm`].

use super::{Model, Rule, truncated};
use crate::dtype::{DType, FloatFormat};

/// C += A * B, row-major, as [`gemm_tile`](super::gemm_tile) defines it, element by element.
///
/// # Panics
/// When a slice is too short for its shape.
#[allow(clippy::too_many_arguments)] // The shape of a GEMM.
pub fn gemm(model: Model, m: usize, n: usize, k: usize, a: &[f32], lda: usize, b: &[f32], ldb: usize, c: &mut [f32], ldc: usize) {
    for i in 0..m {
        for j in 0..n {
            let row: Vec<f32> = (0..k).map(|x| a[i * lda + x]).collect();
            let column: Vec<f32> = (0..k).map(|x| b[x * ldb + j]).collect();
            c[i * ldc + j] = dot(model, c[i * ldc + j], &row, &column);
        }
    }
}

/// One element: C (as an instruction takes it) plus the products of `a` and `b`, group after group.
///
/// # Panics
/// When `a` and `b` differ in length.
pub fn dot(model: Model, c: f32, a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len(), "the two factors of a dot product");
    let mut acc = model.accept_c(c);
    for (a, b) in a.chunks(model.group()).zip(b.chunks(model.group())) {
        let padded = |x: &[f32]| {
            let mut x: Vec<f32> = x.iter().map(|x| model.prepare_one(*x)).collect();
            x.resize(model.group(), 0.0);
            x
        };
        acc = step(model, acc, &padded(a), &padded(b));
    }
    model.with_its_nan(acc)
}

/// One group: the accumulator after `c` and the products of prepared inputs.
pub(super) fn step(model: Model, c: f32, a: &[f32], b: &[f32]) -> f32 {
    let (fa, fb) = formats(model);
    match model.rule() {
        Rule::Fma => a[0].mul_add(b[0], c),
        Rule::Exact { .. } => {
            let mut terms = vec![f64::from(c)];
            terms.extend(a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)));
            exact_sum(&terms)
        }
        Rule::Tree { .. } => {
            // A product of two f16 or bf16 numbers is exact in f32 unless it is subnormal or overflows.
            let mut level: Vec<f32> = a.iter().zip(b).map(|(a, b)| flush(a * b)).collect();
            while level.len() > 1 {
                level = level.chunks(2).map(|pair| flush(pair[0] + pair[1])).collect();
            }
            flush(c + level[0])
        }
        Rule::Fused { keep, .. } => {
            let products = products(a, b, fa, fb);
            if let Some(special) = special_sum(&products, Some(c)) {
                return special;
            }
            let sum = truncated_sum(&products);
            add_rounding_down(sum, c, keep)
        }
        Rule::FusedHalves { keep } => {
            let products = products(a, b, fa, fb);
            if let Some(special) = special_sum(&products, None) {
                return special;
            }
            let (even, odd): (Vec<_>, Vec<_>) = products.iter().enumerate().partition(|(k, _)| k % 2 == 0);
            let half = |terms: Vec<(usize, &Product)>| truncated_sum(&terms.into_iter().map(|(_, p)| *p).collect::<Vec<_>>());
            let sum = join_rounding_down(half(even), half(odd));
            // A c that lies too low is dropped. An infinite or NaN c takes part in this test with the exponent -1.
            let e_c = if c.is_finite() { exponent(f64::from(c), -126) } else { -1 };
            let c = match sum {
                Some(t) if e_c < t.exponent.max(e_c) - F - 1 => 0.0,
                _ => c,
            };
            if !c.is_finite() {
                return c;
            }
            add_rounding_down(sum, c, keep)
        }
        rule @ (Rule::Truncated { .. } | Rule::Emulated { .. }) => truncated::step(rule, (fa, fb), c, a, b),
    }
}

/// f32-subnormal numbers become zeros of their sign.
fn flush(x: f32) -> f32 {
    if x.abs() < f32::MIN_POSITIVE { 0.0f32.copysign(x) } else { x }
}

/// The exact sum of `terms`, rounded once to f32, nearest even; an exact zero is +0. NaN and infinities add as IEEE 754 has it.
pub(super) fn exact_sum(terms: &[f64]) -> f32 {
    let plain: f64 = terms.iter().sum();
    if !plain.is_finite() {
        return plain as f32;
    }
    // An expansion: numbers whose exact sum is the sum of all terms so far, in ascending order of magnitude, no two of which
    // overlap. Adding a term to it by exact two-sums keeps that so (Shewchuk, "Adaptive precision floating-point arithmetic").
    let mut expansion: Vec<f64> = Vec::new();
    for &term in terms {
        let mut carry = term;
        for part in &mut expansion {
            let (sum, error) = two_sum(carry, *part);
            (*part, carry) = (error, sum);
        }
        expansion.push(carry);
    }
    // From the top: parts that f64 can hold join it exactly. The first that leaves an error decides on which side of the sum
    // the exact one lies; all parts below it are smaller than that error.
    let mut sum = 0.0;
    for part in expansion.iter().rev() {
        let (joined, error) = two_sum(sum, *part);
        sum = joined;
        if error != 0.0 {
            sum = round_to_odd(sum, error);
            break;
        }
    }
    (sum + 0.0) as f32
}

/// (s, e) with s = a + b rounded and s + e = a + b exactly.
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let b_part = sum - a;
    (sum, (a - (sum - b_part)) + (b - b_part))
}

/// `value + rest` with `rest` smaller than one spacing of `value`: itself if that is `value`, else the neighbour with an odd
/// last bit. Rounding that to a format with at least two bits fewer is the same as rounding the exact sum.
fn round_to_odd(value: f64, rest: f64) -> f64 {
    if rest == 0.0 || value.to_bits() & 1 == 1 {
        value
    } else if (rest > 0.0) == (value > 0.0) {
        f64::from_bits(value.to_bits() + 1)
    } else {
        f64::from_bits(value.to_bits() - 1)
    }
}

/// Fraction bits of the products below the largest product exponent, and of c below the larger exponent.
const F: i32 = 24;
/// Fraction bits of the sum before the last rounding.
const F2: i32 = 31;

/// A product with the exponent that the hardware sees: the sum of the factors' exponents, not normalised.
#[derive(Clone, Copy)]
struct Product {
    value: f64,
    exponent: i32,
}

/// `units * 2^(exponent - 24)`, the sum of products of a group; `exponent` is the largest of theirs.
#[derive(Clone, Copy)]
struct Sum {
    units: i128,
    exponent: i32,
}

fn formats(model: Model) -> (&'static FloatFormat, &'static FloatFormat) {
    let of = |d: DType| d.float_format().unwrap_or_else(|| unreachable!("matrix core inputs with f32 accumulators are floats"));
    let (a, b) = model.input().dtypes();
    (of(a), of(b))
}

/// floor(log2 |x|) of a finite number, but not below `least`; zero has `least`.
fn exponent(x: f64, least: i32) -> i32 {
    if x == 0.0 { least } else { ((x.to_bits() >> 52 & 0x7ff) as i32 - 1023).max(least) }
}

fn products(a: &[f32], b: &[f32], fa: &FloatFormat, fb: &FloatFormat) -> Vec<Product> {
    let one = |(a, b): (&f32, &f32)| {
        let (a, b) = (f64::from(*a), f64::from(*b));
        let value = a * b;
        let value = if value.abs() >= 2f64.powi(128) { f64::INFINITY.copysign(value) } else { value };
        Product { value, exponent: exponent(a, fa.min_exponent()) + exponent(b, fb.min_exponent()) }
    };
    a.iter().zip(b).map(one).collect()
}

/// The IEEE sum of the products and c, if one of them is infinite or NaN.
fn special_sum(products: &[Product], c: Option<f32>) -> Option<f32> {
    let terms = || products.iter().map(|p| p.value).chain(c.map(f64::from));
    terms().any(|t| !t.is_finite()).then(|| terms().filter(|t| !t.is_finite()).sum::<f64>() as f32)
}

/// The sum of the non-zero products, each truncated toward zero at F bits below the largest exponent; `None` without any.
fn truncated_sum(products: &[Product]) -> Option<Sum> {
    let nonzero = || products.iter().filter(|p| p.value != 0.0);
    let exponent = nonzero().map(|p| p.exponent).max()?;
    // Scaling by a power of two is exact here: products lie between 2^-298 and 2^128.
    let units = nonzero().map(|p| (p.value * 2f64.powi(F - exponent)).trunc() as i128).sum();
    Some(Sum { units, exponent })
}

/// Both sums rounded down at F bits below the larger exponent, and added.
fn join_rounding_down(x: Option<Sum>, y: Option<Sum>) -> Option<Sum> {
    let (Some(x), Some(y)) = (x, y) else { return x.or(y) };
    let exponent = x.exponent.max(y.exponent);
    let align = |s: Sum| s.units >> (exponent - s.exponent).min(127);
    Some(Sum { units: align(x) + align(y), exponent })
}

/// Sum plus c: aligned, rounded down, added, normalised, rounded down, rounded to f32.
fn add_rounding_down(sum: Option<Sum>, c: f32, keep: u32) -> f32 {
    let Some(sum) = sum else {
        // No non-zero product: c alone, which 24 fraction bits hold.
        return c + 0.0;
    };
    let e = sum.exponent.max(exponent(f64::from(c), -126));
    let c_units = (f64::from(c) * 2f64.powi(F - e)).floor() as i128;
    // The sum, from units of 2^(its exponent - F) to units of 2^(e - keep), rounding down: an arithmetic shift.
    let down = e - sum.exponent;
    let sum_units = (sum.units << (keep as i32 - F)) >> down.min(127);
    let total = sum_units + (c_units << (keep as i32 - F));
    if total == 0 {
        return 0.0;
    }
    // Normalised, then rounded down to F2 fraction bits.
    let top = 127 - total.unsigned_abs().leading_zeros() as i32;
    let excess = (top - F2).max(0);
    // At most 33 significant bits are left: exact in f64, and the conversion to f32 is the last rounding.
    ((total >> excess) as f64 * 2f64.powi(excess + e - keep as i32)) as f32
}

#[cfg(test)]
mod tests {
    use super::super::{Arch, Input};
    use super::*;

    #[test]
    fn the_published_example_gives_the_published_results() {
        // Xie et al., table 8: the exact value is -0.875.
        let a = [-8192.0, -0.5, -0.25, -0.125];
        let b = [1024.0, 1.0, 1.0, 1.0];
        let c = 8388608.0;
        for (arch, input, expected) in [
            (Arch::Gfx908, Input::Bf16, -0.875),
            (Arch::Gfx908, Input::F16, -0.875),
            (Arch::Gfx90a, Input::Bf16, -0.375),
            (Arch::Gfx90a, Input::Bf16K, 0.0),
            (Arch::Gfx90a, Input::F16, 0.0),
            (Arch::Gfx942, Input::F16, -0.5),
            (Arch::Gfx942, Input::Bf16, -0.5),
            (Arch::Gfx942, Input::Bf8Bf8, -1.0),
            (Arch::Gfx942, Input::F32, -0.875),
        ] {
            let model = Model::new(arch, input).unwrap();
            assert_eq!(dot(model, c, &a, &b), expected, "{model}");
        }
    }

    /// An exact accumulator that does no floating-point arithmetic: a two's complement integer in
    /// units of 2^-640.
    #[derive(Clone)]
    struct Wide([u64; 20]);

    impl Wide {
        fn add_shifted(&mut self, significand: u64, shift: usize, negative: bool) {
            let mut term = [0u64; 20];
            term[shift / 64] = significand << (shift % 64);
            if !shift.is_multiple_of(64) {
                term[shift / 64 + 1] = significand >> (64 - shift % 64);
            }
            let mut carry = u64::from(negative);
            for (limb, t) in self.0.iter_mut().zip(term) {
                let (x, c1) = limb.overflowing_add(if negative { !t } else { t });
                let (x, c2) = x.overflowing_add(carry);
                *limb = x;
                carry = u64::from(c1) + u64::from(c2);
            }
        }

        fn add(&mut self, x: f64) {
            let bits = x.to_bits();
            let field = (bits >> 52 & 0x7ff) as i32;
            let fraction = bits & ((1 << 52) - 1);
            let (significand, power) = if field == 0 { (fraction, -1074) } else { (fraction | 1 << 52, field - 1075) };
            if significand != 0 {
                self.add_shifted(significand, usize::try_from(power + 640).unwrap(), bits >> 63 == 1);
            }
        }

        /// Nearest even f32, from the bits.
        fn to_f32(&self) -> f32 {
            let negative = self.0[19] >> 63 == 1;
            let mut magnitude = self.clone();
            if negative {
                magnitude.0.iter_mut().for_each(|limb| *limb = !*limb);
                magnitude.add_shifted(1, 0, false);
            }
            let bit = |i: usize| magnitude.0[i / 64] >> (i % 64) & 1 == 1;
            let Some(top) = (0..1280).rev().find(|i| bit(*i)) else { return 0.0 };
            // The last bit kept: 23 below the top one, not below 2^-149.
            let last = (top.saturating_sub(23)).max(640 - 149);
            let mut kept: u64 = (last..=top.max(last)).rev().fold(0, |k, i| k << 1 | u64::from(bit(i)));
            let half = bit(last - 1);
            let sticky = (0..last - 1).any(bit);
            if half && (sticky || kept & 1 == 1) {
                kept += 1;
            }
            let magnitude = kept as f64 * 2f64.powi(last as i32 - 640);
            let rounded = if magnitude > f64::from(f32::MAX) { f32::INFINITY } else { magnitude as f32 };
            if negative { -rounded } else { rounded }
        }
    }

    #[test]
    fn exact_sums_agree_with_integers() {
        let mut state = 1u64;
        let mut roll = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            state >> 33
        };
        for round in 0..200_000 {
            let c = f32::from_bits((roll() << 1 | roll() & 1) as u32);
            let c = if c.is_finite() { c } else { 1.0 };
            // f16 and bf16 products, sometimes cancelling each other or c.
            let mut terms = vec![f64::from(c)];
            for k in 0..4 {
                let narrow = |x: u64, bf16: bool| {
                    let x = if bf16 { half::bf16::from_bits(x as u16).to_f64() } else { half::f16::from_bits(x as u16).to_f64() };
                    if x.is_finite() { x } else { 0.75 }
                };
                let product = narrow(roll() >> 8, round % 2 == 1) * narrow(roll() >> 8, round % 2 == 1);
                terms.push(match roll() % 8 {
                    0 => -terms[k],
                    1 => -terms[0],
                    2 => terms[k] / (1 << 24) as f64,
                    _ => product,
                });
            }
            let mut wide = Wide([0; 20]);
            terms.iter().for_each(|t| wide.add(*t));
            let (found, expected) = (exact_sum(&terms), wide.to_f32());
            assert_eq!(found.to_bits(), expected.to_bits(), "{terms:?}: {found:e}, integers {expected:e}");
        }
    }

    #[test]
    fn rules_keep_and_flush_what_they_should() {
        let tiny = f32::from_bits(1);
        let least = 2f32.powi(-24);
        for (arch, input, c, a, b, expected, why) in [
            (Arch::Gfx908, Input::F16, 0.0, least, 1.0, least, "f16 subnormals are kept"),
            (Arch::Gfx90a, Input::F16, 0.0, least, 1.0, 0.0, "f16 subnormals are flushed"),
            (Arch::Gfx90a, Input::F16, 0.0, 2f32.powi(-14), 1.0, 2f32.powi(-14), "the least normal f16 is kept"),
            (Arch::Gfx90a, Input::F16AsBf16, 0.0, least, 1.0, least, "bf16 represents f16 subnormals"),
            (Arch::Gfx90a, Input::F16AsBf16, 0.0, 1.0 + 1.0 / 256.0, 1.0, 1.0, "a tie to even in 8 bits"),
            (Arch::Gfx90a, Input::F16AsBf16, 0.0, 1.0 + 3.0 / 256.0, 1.0, 1.0 + 1.0 / 64.0, "a tie to even, upwards"),
            (Arch::Gfx90a, Input::F16AsBf16Truncated, 0.0, 1.0 + 3.0 / 256.0, 1.0, 1.0 + 1.0 / 128.0, "the same truncated"),
            (Arch::Gfx90a, Input::Bf16K, 0.0, 2f32.powi(-100), -2f32.powi(-27), 0.0, "a subnormal product becomes zero"),
            (Arch::Gfx90a, Input::F16, tiny, 0.0, 0.0, 0.0, "a subnormal C is flushed"),
            (Arch::Gfx908, Input::F16, tiny, 0.0, 0.0, tiny, "a subnormal C is kept"),
            (Arch::Gfx90a, Input::F32, 0.0, tiny, 1.0, tiny, "f32 is never flushed"),
            (Arch::Gfx942, Input::F16, tiny, 0.0, 0.0, tiny, "a subnormal C is kept"),
            (Arch::Gfx942, Input::Xf32, 0.0, 1.0 + 1.0 / 1024.0 + 1.0 / 2048.0, 1.0, 1.0 + 1.0 / 1024.0, "xf32 truncates its inputs"),
        ] {
            let model = Model::new(arch, input).unwrap();
            assert_eq!(dot(model, c, &[a], &[b]), expected, "{model}: {why}");
        }
    }

    /// With c = 0 the sum of products loses what lies below 2^-158 (the default), or keeps it and so rounds up from a tie.
    #[test]
    fn kept_bits_show_beside_a_subnormal_c() {
        let (large, small) = (2f32.powi(-75), 2f32.powi(-85));
        for input in [Input::Bf16, Input::Xf32] {
            let model = Model::new(Arch::Gfx942, input).unwrap();
            let result = |model| dot(model, 0.0, &[large, small], &[large, small]);
            assert_eq!(result(model), 0.0, "{model}");
            assert_eq!(result(model.with_kept_bits(52).unwrap()), f32::from_bits(1), "{model}, 52 bits kept");
            assert_eq!(model.with_kept_bits(32).unwrap(), model);
        }
    }
}
