//! Bounds of operations around sums: softmax, norms, attention. Each says what S is; worst case, but for attention's second product.

use super::sum::{both, quotient};
use super::{Bound, Confidence, Sum, Unit};
use crate::dtype::DType;
use crate::error::Result;

impl Bound {
    /// What a softmax of rows of so many elements may lose in a unit, with S = |x - max x| p and p the exact result: the difference's rounding is multiplied by its size when it is an exponent.
    /// `exponential` is the relative error of the exponential function.
    ///
    /// The sum's terms lose that too, in the mean Σ p_j |x_j - max x| <= ln n; an exponential that underflows is less than the least number.
    pub fn softmax(unit: Unit, terms: usize, exponential: f64) -> Bound {
        let u = unit.roundoff;
        // Exponential and its sum, the sum's roundings, the exponents', the quotient's.
        let relative = quotient(2.0 * exponential + u * (terms as f64 + libm::log(terms.max(1) as f64) + 1.0));
        Bound { gamma: u * (1.0 + relative), relative, floor: unit.underflow, rounding: None }
    }

    /// What a layer norm of rows of n elements may lose, (x - μ) / sqrt(v + ε) with the mean μ and the variance v = Σ (x - μ)² / n summed in any order, with S = (Σ|x| / n) / sqrt(v + ε), one
    /// number a row. `cancellation` is the largest S, `root` the relative error of the reciprocal root. An RMS norm has no mean: S and `cancellation` are 0.
    ///
    /// The mean is off by β, |β| <= γ_(n+1) Σ|x| / n. As Σ (x - μ) = 0, the variance becomes (v + β²)(1 + θ), |θ| <= γ_(n+5): differences, squares, n additions, division and ε. So v + ε is off by a
    /// factor within ρ = (1 + γ_(n+5))(1 + (γ_(n+1) S)²) - 1, its reciprocal root by (1 - ρ)^(-1/2) - 1. The rest is two roundings, and β / sqrt(v + ε) <= γ_(n+1) S.
    /// A variance made as `E[x²] - μ²` is no sum of squares, and loses more; that squares do not underflow is taken for granted.
    pub fn norm(unit: Unit, terms: usize, root: f64, cancellation: f64) -> Bound {
        let gamma = |roundings: usize| quotient(roundings as f64 * unit.roundoff);
        let mean = gamma(terms + 1);
        let variance = both(gamma(terms + 5), (mean * cancellation) * (mean * cancellation));
        if variance.is_nan() || variance >= 1.0 {
            return Bound { gamma: f64::INFINITY, ..Bound::EXACT };
        }
        let relative = both(both(1.0 / (1.0 - variance).sqrt() - 1.0, root), both(unit.roundoff, unit.roundoff));
        Bound { gamma: mean * (1.0 + relative), relative, floor: unit.underflow, rounding: None }
    }

    /// What the second product of attention may lose, Σ p_j v_j over the keys with p a softmax, with S = Σ p|v|. `product` is that sum, `probabilities` the format that p is rounded to,
    /// `scores` how far exponents are off at most (the first product's bound times its scale, and a rounding of the difference from the maximum), `exponential` as in [`softmax`](Bound::softmax),
    /// `largest` the largest |v|. Whether the quotient is taken before or after the product makes no difference.
    ///
    /// Exponents off by δ change exponentials and their sum by factors within exp(δ), so p by one within exp(2δ); 2 E and a rounding a key and for the quotient come from exponentials and sum. Rounding p
    /// multiplies by 1 + u_P, or below the normal numbers loses half the least number of each p: Composable Kernel's u_P max|v| (rocm-libraries #11003), by element, as Σ p|v| <= max|v|.
    ///
    /// # Errors
    /// When `probabilities` is an integer format.
    pub fn attention(
        product: &Sum,
        [scores, exponential, largest]: [f64; 3],
        probabilities: DType,
        confidence: Confidence,
        elements: usize,
    ) -> Result<Bound> {
        let format = super::expect_float(probabilities, "the probabilities of attention")?;
        let keys = product.terms as f64;
        let softmax = both(libm::expm1(2.0 * scores), quotient(2.0 * exponential + product.unit.roundoff * (keys + 1.0)));
        let sum = product.bound(confidence, elements);
        let gamma = both(both(softmax, format.unit_roundoff()), sum.gamma);
        let flushed = keys * format.min_positive() / 2.0 * largest;
        Ok(Bound { gamma, floor: sum.floor + flushed * (1.0 + sum.gamma), ..Bound::EXACT })
    }
}
