//! Why a check failed: what [`Diagnosis`](crate::verify::Diagnosis) tells from the result and the reference alone, and more, since the operands are known.
//!
//! ```text
//! the diagnosis of result and reference, where values or places alone show it: zeros, NaN, the first row everywhere ...
//! otherwise
//!     sample = some of the mismatches, with all their products
//!     for each hypothesis: what would a kernel with this mistake give, exactly?
//!         if that explains at least 95 % of the sample: that is the cause
//! otherwise the diagnosis after all: a factor, missing terms by their rank, few bits ...
//! ```
//!
//! A mistake explains a mismatch that is within twice its bound of what the mistake gives, and at least four times closer to that than to the right result. Each hypothesis has a number of its own for each
//! element, so that chance explains next to none: four mismatches are enough. What gives zeros nearly everywhere is left to the diagnosis, which calls them so.
//! Of [32](LEAST_ROUNDED) mismatches what counts may also be that number rounded as the result is: the bound of a small format is mostly that rounding, which would hide an error of few bounds.
//! `docs/causes.md` lists the hypotheses.

mod fallback;
mod hypotheses;

use super::Exactness;
use super::problem::{Kind, Problem};
use super::products::{Products, Source};
use crate::device::TensorRef;
use crate::dtype::{DType, Overflow, Rounding};
use crate::error::Result;
use crate::reference::{Arithmetic, Direction, Epilogue};
use crate::verify::bound::Bound;
use crate::verify::{Diagnosis, grouped, short};

/// Mismatches that are looked at, at most.
pub(super) const SAMPLE: usize = 256;
/// Fewest of them.
const LEAST: usize = 4;
/// Fewest mismatches that are held against rounded numbers: these are right by chance at up to half of the elements that are off by one spacing.
const LEAST_ROUNDED: usize = 32;
/// Products of all of them together.
const PRODUCTS: usize = 1 << 22;

/// The likely cause of a failed check.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct CheckCause {
    /// The cause as a word for machines, such as `terms`: see `docs/causes.md`.
    pub kind: &'static str,
    /// The cause in words, with its evidence.
    pub evidence: String,
    /// Mismatches that were looked at.
    pub mismatches: usize,
    /// How many of them it explains; 0 where it is unknown, or a statement about all errors together.
    pub explained: usize,
    /// The comparison that says so, where one does.
    #[cfg_attr(feature = "serde", serde(skip))]
    compared: Option<Diagnosis>,
}

impl CheckCause {
    /// Whether values or places alone show it: of such causes operands could only tell less.
    pub(super) fn needs_no_operands(&self) -> bool {
        self.compared.as_ref().is_some_and(|found| found.cause.needs_no_operands())
    }
}

/// An element to be explained.
struct Element {
    index: usize,
    products: Products,
    /// The sums of the first products, from none to all.
    up_to: Vec<f64>,
    /// Σ|a||b|.
    magnitude: f64,
    c: f64,
    bias: f64,
    result: f64,
    reference: f64,
}

/// Elements, and what follows their sums.
struct Sample<'a> {
    problem: &'a Problem<'a>,
    source: Source<'a>,
    elements: Vec<Element>,
    /// Mismatches in all, of so many elements.
    share: f64,
    bound: Bound,
    overflow: Overflow,
    alpha: f64,
    beta: f64,
    last: Epilogue,
}

/// What operands tell of elements beyond their bound: their indices, and the result's values. `share` of all elements are. If they tell nothing, what a
/// comparison with the exact result said, unless they are against it.
pub(super) fn find(
    problem: &Problem<'_>,
    shape: &[usize],
    reads: Arithmetic,
    rule: (Bound, Overflow),
    (mismatches, share): (&[(usize, f64)], f64),
    compared: Option<CheckCause>,
) -> Result<Option<CheckCause>> {
    let Some(s) = sample(problem, shape, reads, rule, (mismatches, LEAST), share)? else { return Ok(compared) };
    Ok(hypotheses::first(&s).or_else(|| compared.map(|found| fallback::unless_refuted(&s, found))))
}

/// Whether an accumulator of this format that takes products one by one, or in groups, k upward, explains most of the errors of elements beyond their bound: rounding loses what they lack.
pub(super) fn lost_in_rounding(
    problem: &Problem<'_>,
    shape: &[usize],
    reads: Arithmetic,
    rule: (Bound, Overflow),
    mismatches: &[(usize, f64)],
    accumulator: DType,
) -> Result<bool> {
    let Some(s) = sample(problem, shape, reads, rule, (mismatches, 1), 1.0)? else { return Ok(false) };
    let sum = |e: &Element, group: usize| {
        let groups = e.products.a.chunks(group).zip(e.products.b.chunks(group));
        groups.fold(0.0, |sum, (a, b)| accumulator.rounded(sum + a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>()))
    };
    Ok([1, 2, 4, 8, 16].into_iter().any(|group| s.left_by(|e| s.follows(e, sum(e, group))) <= 0.5))
}

/// Some of the mismatches with all their products; `None` where they have none, or there are fewer than `least`, or products of fewer.
fn sample<'a>(
    problem: &'a Problem<'a>,
    shape: &'a [usize],
    reads: Arithmetic,
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
    let source = Source::of(problem, shape, reads.exact().flush_subnormals)?;
    let step = mismatches.len().div_ceil(most);
    let element = |&(index, result): &(usize, f64)| {
        let products = source.right(index);
        let mut sum = 0.0;
        let mut up_to = vec![0.0];
        up_to.extend(products.a.iter().zip(&products.b).map(|(a, b)| {
            sum += a * b;
            sum
        }));
        let magnitude = products.a.iter().zip(&products.b).map(|(a, b)| (a * b).abs()).sum();
        let (c, bias) = (source.c(index), source.bias(source.place(index).1));
        Element { index, products, up_to, magnitude, c, bias, result, reference: 0.0 }
    };
    let elements: Vec<Element> = mismatches.iter().step_by(step).map(element).collect();
    let mut sample = Sample { problem, source, elements, share, bound, overflow, alpha, beta, last };
    let references: Vec<f64> = sample.elements.iter().map(|e| sample.follows(e, e.total())).collect();
    sample.elements.iter_mut().zip(references).for_each(|(e, r)| e.reference = r);
    Ok(Some(sample))
}

impl Element {
    fn total(&self) -> f64 {
        self.up_to.last().copied().unwrap_or(0.0)
    }
}

impl Sample<'_> {
    /// What a sum becomes.
    fn follows(&self, e: &Element, sum: f64) -> f64 {
        self.last_of(self.alpha * sum + self.beta * e.c + e.bias)
    }

    /// What the last function is applied to, of a right element.
    fn before_last(&self, e: &Element) -> f64 {
        self.alpha * e.total() + self.beta * e.c + e.bias
    }

    /// What the last function makes of a value.
    fn last_of(&self, x: f64) -> f64 {
        self.last.apply(x)
    }

    /// Whether `expected`, or what it is rounded to where that `may_round`, explains an element, and much better than its reference does.
    fn explains(&self, e: &Element, expected: f64, may_round: bool) -> bool {
        let magnitude = self.alpha.abs() * e.magnitude + (self.beta * e.c).abs() + e.bias.abs();
        let explains = |x: f64| (e.result - x).abs() <= (e.result - e.reference).abs() / 4.0;
        (e.result - expected).abs() <= 2.0 * self.bound.of(magnitude, expected)
            && (explains(expected) || may_round && explains(self.rounded(expected)))
    }

    /// A number in the result's format, where results are rounded to it.
    fn rounded(&self, x: f64) -> f64 {
        self.bound.rounding.map_or(x, |dtype| dtype.rounded_by(x, Rounding::NearestEven, self.overflow))
    }

    /// The cause, if what a kernel with this mistake gives explains most of the elements.
    fn explained(&self, kind: &'static str, words: impl FnOnce() -> String, expected: impl Fn(&Element) -> f64) -> Option<CheckCause> {
        let found = self.explained_by(kind, |_, e| expected(e))?;
        Some(CheckCause { evidence: format!("{}: {}", words(), found.evidence), ..found })
    }

    /// The same without words for the mistake, of what it gives for the element of a number.
    fn explained_by(&self, kind: &'static str, expected: impl Fn(usize, &Element) -> f64) -> Option<CheckCause> {
        self.explained_in(kind, |_| true, expected)
    }

    /// The same of the elements that the mistake says something about.
    fn explained_in(
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
            let is_explained = self.explains(e, x, all >= LEAST_ROUNDED);
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
    fn left_by(&self, expected: impl Fn(&Element) -> f64) -> f64 {
        self.left_of(&self.elements.iter().map(expected).collect::<Vec<f64>>())
    }

    /// The same of numbers that are computed already, one for each element.
    fn left_of(&self, expected: &[f64]) -> f64 {
        let square = |x: f64| x * x;
        let left = self.elements.iter().zip(expected).map(|(e, x)| square(e.result - x)).sum::<f64>();
        let errors = self.elements.iter().map(|e| square(e.result - e.reference)).sum::<f64>();
        let left = (left / errors).sqrt();
        if left.is_finite() { left } else { f64::INFINITY }
    }

    /// The same share of what is left of the errors, and of what is expected of them, where a constant and a factor of the references are taken out of both.
    fn left_beside_line(&self, expected: &[f64]) -> f64 {
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
    fn window(&self) -> Option<usize> {
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

/// That all elements beyond their bounds are as they are where the kernel saturates.
pub(super) fn saturated(result: &TensorRef<'_>, mismatches: u64) -> CheckCause {
    let dtype = result.dtype();
    let largest = dtype.float_format().map_or(f64::INFINITY, |format| format.max_finite());
    let all = if mismatches == 1 { "the one mismatch".to_owned() } else { format!("all {} mismatches", grouped(mismatches)) };
    let evidence = format!(
        "saturated at {}, the limit of {dtype}: {all}, where the exact result overflows (--saturate, `Check::saturates`, or `saturate` in a suite's rule takes that for right)",
        short(largest, 7)
    );
    CheckCause { kind: "saturated", evidence, mismatches: mismatches as usize, explained: mismatches as usize, compared: None }
}

/// That the chip's own arithmetic gives the elements beyond their bounds, of a result that is bit-exact.
pub(super) fn of_chip(exactness: &Exactness, mismatches: u64) -> CheckCause {
    let arch = exactness.arch;
    let all = if mismatches == 1 { "1 mismatch".to_owned() } else { format!("{} mismatches", grouped(mismatches)) };
    let evidence = format!(
        "{arch}'s own arithmetic: the result is bit for bit what it gives, where sums overflow on the way or infinities and NaN are read otherwise: {all}"
    );
    CheckCause { kind: "chip", evidence, mismatches: mismatches as usize, explained: mismatches as usize, compared: None }
}

/// That a mistake with scales gives the elements beyond their bounds, so many of those that were sampled.
pub(super) fn of_scales(mistake: &str, explained: usize, sampled: usize) -> CheckCause {
    let evidence = format!("{mistake}: {explained} of {sampled} mismatches that were sampled");
    CheckCause { kind: "scale", evidence, mismatches: sampled, explained, compared: None }
}

/// What a comparison of result and reference tells, in a report's words.
pub(super) fn from(diagnosis: &Diagnosis) -> CheckCause {
    CheckCause {
        kind: diagnosis.kind(),
        evidence: diagnosis.to_string(),
        mismatches: diagnosis.mismatches,
        explained: diagnosis.explained,
        compared: Some(diagnosis.clone()),
    }
}
