//! Some of the mismatches with all their products, which every hypothesis is held against.
//!
//! They are taken evenly from all mismatches: up to [256](SAMPLE), fewer where sums are so long that their products together were more than [4 million](PRODUCTS).
//! What counts as explained is [`Sample::explains`], for mistakes in the sum and in the scales alike.

use super::CheckCause;
use crate::check::problem::{Kind, Problem};
use crate::check::products::{Products, Source};
use crate::dtype::{Overflow, Rounding};
use crate::error::Result;
use crate::reference::{Direction, Epilogue};
use crate::verify::bound::Bound;

/// Mismatches of a sample, at most.
pub(in crate::check) const SAMPLE: usize = 256;
/// Fewest mismatches that tell a cause.
pub(super) const LEAST: usize = 4;
/// Fewest mismatches that are held against rounded numbers: these are right by chance at up to half of the elements that are off by one spacing.
pub(super) const LEAST_ROUNDED: usize = 32;
/// Products of all elements of a sample, at most.
const PRODUCTS: usize = 1 << 22;

/// An element to be explained.
pub(super) struct Element {
    pub index: usize,
    pub products: Products,
    /// The sums of the first products, from none to all.
    pub up_to: Vec<f64>,
    /// Σ|a||b|.
    pub magnitude: f64,
    pub c: f64,
    pub bias: f64,
    pub result: f64,
    /// What it should be.
    pub reference: f64,
}

/// Elements, and what follows their sums.
pub(super) struct Sample<'a> {
    pub problem: &'a Problem<'a>,
    pub source: Source<'a>,
    pub elements: Vec<Element>,
    /// Mismatches in all, of so many elements.
    pub share: f64,
    pub bound: Bound,
    pub alpha: f64,
    pub beta: f64,
    pub last: Epilogue,
    overflow: Overflow,
}

impl Element {
    /// An element of this result, as yet without a reference.
    fn of(source: &Source<'_>, index: usize, result: f64) -> Element {
        let products = source.right(index);
        let mut sum = 0.0;
        let mut up_to = vec![0.0];
        up_to.extend(products.a.iter().zip(&products.b).map(|(a, b)| {
            sum += a * b;
            sum
        }));
        let magnitude = products.a.iter().zip(&products.b).map(|(a, b)| (a * b).abs()).sum();
        let (c, bias) = (source.c(index), source.bias(source.row_and_column(index).1));
        Element { index, products, up_to, magnitude, c, bias, result, reference: 0.0 }
    }

    pub(super) fn total(&self) -> f64 {
        self.up_to.last().copied().unwrap_or(0.0)
    }
}

impl<'a> Sample<'a> {
    /// Some of these mismatches, which are their indices and the result's values; `None` where they have no products, or there are fewer than `least`, or products of fewer.
    /// Subnormal operands are zeros where a chip may `flush` them.
    pub(super) fn of(
        problem: &'a Problem<'a>,
        shape: &'a [usize],
        flush: bool,
        (bound, overflow): (Bound, Overflow),
        (mismatches, least): (&[(usize, f64)], usize),
        share: f64,
    ) -> Result<Option<Sample<'a>>> {
        let terms = problem.terms();
        let most = (PRODUCTS / terms.max(1)).min(SAMPLE);
        if terms == 0 || mismatches.len().min(most) < least {
            return Ok(None);
        }
        let (alpha, beta) = problem.scalars();
        let last = problem.product().map_or(Epilogue::None, |product| product.epilogue);
        let source = Source::of(problem, shape, flush)?;
        let step = mismatches.len().div_ceil(most);
        let elements = mismatches.iter().step_by(step).map(|&(index, result)| Element::of(&source, index, result)).collect();
        let mut sample = Sample { problem, source, elements, share, bound, alpha, beta, last, overflow };
        let references: Vec<f64> = sample.elements.iter().map(|e| sample.follows(e, e.total())).collect();
        sample.elements.iter_mut().zip(references).for_each(|(e, r)| e.reference = r);
        Ok(Some(sample))
    }

    /// What a sum becomes.
    pub(super) fn follows(&self, e: &Element, sum: f64) -> f64 {
        self.last_of(self.alpha * sum + self.beta * e.c + e.bias)
    }

    /// What the last function is applied to, of a right element.
    pub(super) fn before_last(&self, e: &Element) -> f64 {
        self.alpha * e.total() + self.beta * e.c + e.bias
    }

    /// What the last function makes of a value.
    pub(super) fn last_of(&self, x: f64) -> f64 {
        self.last.apply(x)
    }

    /// Whether `expected`, of products with this Σ|a||b|, explains an element: it is within twice its bound of that, and at least four times closer to that than to its reference, or, where
    /// that `may_round`, to what it is rounded to.
    pub(super) fn explains(&self, e: &Element, (expected, magnitude): (f64, f64), may_round: bool) -> bool {
        let magnitude = self.alpha.abs() * magnitude + (self.beta * e.c).abs() + e.bias.abs();
        let is_closer = |x: f64| (e.result - x).abs() <= (e.result - e.reference).abs() / 4.0;
        (e.result - expected).abs() <= 2.0 * self.bound.of(magnitude, expected)
            && (is_closer(expected) || may_round && is_closer(self.rounded(expected)))
    }

    /// A number in the result's format, where results are rounded to it.
    pub(super) fn rounded(&self, x: f64) -> f64 {
        self.bound.rounding.map_or(x, |dtype| dtype.rounded_by(x, Rounding::NearestEven, self.overflow))
    }

    /// The cause, if what a kernel with this mistake gives explains most of the elements.
    pub(super) fn explained(
        &self,
        kind: &'static str,
        words: impl FnOnce() -> String,
        expected: impl Fn(&Element) -> f64,
    ) -> Option<CheckCause> {
        let found = self.explained_by(kind, |_, e| expected(e))?;
        Some(CheckCause { evidence: format!("{}: {}", words(), found.evidence), ..found })
    }

    /// The same without words for the mistake, of what it gives for the element of a number.
    pub(super) fn explained_by(&self, kind: &'static str, expected: impl Fn(usize, &Element) -> f64) -> Option<CheckCause> {
        self.explained_in(kind, |_| true, expected)
    }

    /// The same of the elements that the mistake says something about.
    pub(super) fn explained_in(
        &self,
        kind: &'static str,
        is_judged: impl Fn(&Element) -> bool,
        expected: impl Fn(usize, &Element) -> f64,
    ) -> Option<CheckCause> {
        let all = self.elements.iter().filter(|e| is_judged(e)).count();
        let (mut explained, mut missed, mut zeros) = (0, 0, 0);
        for (i, e) in self.elements.iter().enumerate().filter(|(_, e)| is_judged(e)) {
            let x = expected(i, e);
            zeros += usize::from(x == 0.0);
            let is_explained = self.explains(e, (x, e.magnitude), all >= LEAST_ROUNDED);
            (explained, missed) = (explained + usize::from(is_explained), missed + usize::from(!is_explained));
            if 20 * missed > all {
                return None;
            }
        }
        (all >= LEAST && 20 * zeros < 19 * all).then(|| CheckCause {
            kind,
            evidence: format!("{explained} of {all} mismatches that were sampled"),
            mismatches: all,
            explained,
            compared: None,
        })
    }

    /// The share of the root mean square error that is left where `expected` is what the kernel gives; infinite where that is no number.
    pub(super) fn left_by(&self, expected: impl Fn(&Element) -> f64) -> f64 {
        self.left_of(&self.elements.iter().map(expected).collect::<Vec<f64>>())
    }

    /// The same of numbers that are computed already, one for each element.
    pub(super) fn left_of(&self, expected: &[f64]) -> f64 {
        let square = |x: f64| x * x;
        let left = self.elements.iter().zip(expected).map(|(e, x)| square(e.result - x)).sum::<f64>();
        let errors = self.elements.iter().map(|e| square(e.result - e.reference)).sum::<f64>();
        let left = (left / errors).sqrt();
        if left.is_finite() { left } else { f64::INFINITY }
    }

    /// The same share of what is left of the errors, and of what is expected of them, where a constant and a factor of the references are taken out of both.
    pub(super) fn left_beside_line(&self, expected: &[f64]) -> f64 {
        let beside = |value: &dyn Fn(usize, &Element) -> f64| {
            let of = |(i, e): (usize, &Element)| (e.reference, value(i, e) - e.reference);
            beside_line(&self.elements.iter().enumerate().map(of).collect::<Vec<(f64, f64)>>())
        };
        let (errors, predicted) = (beside(&|_, e| e.result), beside(&|i, _| expected[i]));
        let left = errors.iter().zip(&predicted).map(|(e, p)| (e - p) * (e - p)).sum::<f64>();
        let left = (left / errors.iter().map(|e| e * e).sum::<f64>()).sqrt();
        if left.is_finite() { left } else { f64::INFINITY }
    }

    /// Whether it is a convolution, and the positions of its window where its filter is an operand.
    pub(super) fn window(&self) -> Option<usize> {
        match &self.problem.kind {
            Kind::Conv(param, Direction::Forward | Direction::BackwardData) => Some(param.filter_space().iter().product()),
            _ => None,
        }
    }
}

/// What the straight line of least squares leaves of the second of each pair.
fn beside_line(pairs: &[(f64, f64)]) -> Vec<f64> {
    let n = pairs.len() as f64;
    let (x, y) = pairs.iter().fold((0.0, 0.0), |(x, y), pair| (x + pair.0 / n, y + pair.1 / n));
    let (common, square) = pairs.iter().fold((0.0, 0.0), |(c, q), pair| (c + (pair.0 - x) * (pair.1 - y), q + (pair.0 - x) * (pair.0 - x)));
    let factor = if square > 0.0 { common / square } else { 0.0 };
    pairs.iter().map(|pair| pair.1 - y - factor * (pair.0 - x)).collect()
}
