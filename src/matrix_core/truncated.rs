//! The sums of tensor cores in their most readable form, in integers: [`Rule::Truncated`] and [`Rule::Emulated`].

use super::rule::{Accumulator, Rule};
use crate::dtype::{DType, FloatFormat};

/// One group of a tensor core: the accumulator after `c` and the products of prepared inputs.
pub(super) fn step(rule: Rule, formats: (&FloatFormat, &FloatFormat), c: f32, a: &[f32], b: &[f32]) -> f32 {
    match rule {
        Rule::Truncated { bits, zero, accumulator, .. } => {
            Sum { least: (formats.0.min_exponent(), formats.1.min_exponent()), bits, zero, accumulator }.of(c, a, b)
        }
        Rule::Emulated { accumulator } => emulated(accumulator, c, a, b),
        Rule::Fma | Rule::Exact { .. } | Rule::Tree { .. } | Rule::Fused { .. } | Rule::FusedHalves { .. } => {
            unreachable!("{rule:?} is not a rule of tensor cores")
        }
    }
}

/// Two sums of f16 products, the second of which begins with the result of the first; then c is added.
fn emulated(accumulator: Accumulator, c: f32, a: &[f32], b: &[f32]) -> f32 {
    let half = DType::F16.float_format().map_or(-14, FloatFormat::min_exponent);
    let zero = if accumulator == Accumulator::F16 { -21 } else { -133 };
    let sum = Sum { least: (half, half), bits: 25, zero, accumulator };
    let mut products = 0.0;
    for first in [true, false] {
        let of = |x: &[f32]| -> Vec<f32> { x.iter().enumerate().filter(|(k, _)| (k % 4 < 2) == first).map(|(_, x)| *x).collect() };
        products = sum.of(products, &of(a), &of(b));
    }
    // The sum of two f16 numbers is rounded twice here; f32 has more than twice the digits, so that this changes nothing.
    match accumulator {
        Accumulator::F16 => half::f16::from_f32(products + c).to_f32(),
        Accumulator::F32 | Accumulator::F32Bits13 => products + c,
    }
}

/// Fraction bits of the significands of numbers here; those of products are twice as many.
const FRACTION: i32 = 23;

/// The parameters of a fused sum of products and an accumulator.
struct Sum {
    /// The least exponents of A's and B's numbers.
    least: (i32, i32),
    bits: u32,
    zero: i32,
    accumulator: Accumulator,
}

/// `significand * 2^(exponent - 2 * FRACTION)`.
struct Term {
    significand: i128,
    exponent: i32,
}

impl Sum {
    fn of(&self, c: f32, a: &[f32], b: &[f32]) -> f32 {
        let products = || a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b));
        if !c.is_finite() || products().any(|p| !p.is_finite()) {
            return (f64::from(c) + products().filter(|p| !p.is_finite()).sum::<f64>()) as f32;
        }
        let mut terms: Vec<Term> = a.iter().zip(b).map(|(a, b)| self.product(*a, *b)).collect();
        let (significand, exponent) = unpack(c, self.accumulator.least_exponent());
        terms.push(self.term(significand << FRACTION, exponent));
        let top = terms.iter().map(|t| t.exponent).fold(self.zero, i32::max);
        // Units of 2^(top - bits). Magnitudes are shifted, so that what falls off is always toward zero.
        let units = |t: &Term| {
            let down = top - t.exponent + 2 * FRACTION - self.bits as i32;
            t.significand.signum() * (t.significand.abs() >> down.min(127))
        };
        self.rounded(terms.iter().map(units).sum(), top - self.bits as i32)
    }

    fn product(&self, a: f32, b: f32) -> Term {
        let ((a, ea), (b, eb)) = (unpack(a, self.least.0), unpack(b, self.least.1));
        self.term(a * b, ea + eb)
    }

    fn term(&self, significand: i128, exponent: i32) -> Term {
        Term { significand, exponent: if significand == 0 { self.zero } else { exponent } }
    }

    /// `units * 2^unit`, rounded to the accumulator; a zero is +0.
    fn rounded(&self, units: i128, unit: i32) -> f32 {
        let magnitude = units.unsigned_abs();
        if magnitude == 0 {
            return 0.0;
        }
        let exponent = (127 - magnitude.leading_zeros() as i32 + unit).max(self.accumulator.least_exponent());
        let last = exponent - self.accumulator.fraction();
        let down = (last - unit).max(0);
        let mut kept = magnitude.checked_shr(down as u32).unwrap_or(0);
        if self.accumulator == Accumulator::F16 && down > 0 {
            let (rest, tie) = (magnitude - (kept << down.min(126)), 1u128 << (down - 1).min(126));
            kept += u128::from(rest > tie || rest == tie && kept & 1 == 1);
        }
        let value = kept as f64 * 2f64.powi(unit + down);
        let beyond = if self.accumulator == Accumulator::F16 { 2f64.powi(16) } else { 2f64.powi(128) };
        let value = if value >= beyond { f32::INFINITY } else { value as f32 };
        // No negative zero: what is rounded to zero is +0.
        if value == 0.0 || units > 0 { value } else { -value }
    }
}

/// significand and exponent of a finite number: `significand * 2^(exponent - FRACTION)`, the exponent not below `least`.
fn unpack(x: f32, least: i32) -> (i128, i32) {
    let bits = x.to_bits();
    let (field, fraction) = ((bits >> FRACTION & 0xff) as i32, i128::from(bits & 0x7f_ffff));
    let (significand, exponent) = if field == 0 { (fraction, -126) } else { (fraction | 1 << FRACTION, field - 127) };
    // A number of the format is a multiple of its least one, so that nothing is shifted out; an exponent is not below `least`
    // with f32's subnormal numbers alone, which have the least exponent as it is.
    let up = least - exponent;
    let (significand, exponent) = if up > 0 { (significand >> up.min(127), least) } else { (significand, exponent) };
    (if bits >> 31 == 1 { -significand } else { significand }, exponent)
}
