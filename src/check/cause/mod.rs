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
//! Of [32](sample::LEAST_ROUNDED) mismatches what counts may also be that number rounded as the result is: the bound of a small format is mostly that rounding, which would hide an error of few bounds.
//! `docs/causes.md` lists the hypotheses.

mod fallback;
mod hypotheses;
pub(super) mod misscaled;
mod sample;

pub(super) use sample::SAMPLE;

use super::Exactness;
use super::problem::Problem;
use crate::device::TensorRef;
use crate::dtype::{DType, Overflow};
use crate::error::Result;
use crate::reference::Arithmetic;
use crate::verify::bound::Bound;
use crate::verify::{Diagnosis, grouped, short};
use sample::{Element, LEAST, Sample};

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
    let Some(s) = Sample::of(problem, shape, reads.exact().flush_subnormals, rule, (mismatches, LEAST), share)? else {
        return Ok(compared);
    };
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
    let Some(s) = Sample::of(problem, shape, reads.exact().flush_subnormals, rule, (mismatches, 1), 1.0)? else { return Ok(false) };
    let sum = |e: &Element, group: usize| {
        let groups = e.products.a.chunks(group).zip(e.products.b.chunks(group));
        groups.fold(0.0, |sum, (a, b)| accumulator.rounded(sum + a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>()))
    };
    Ok([1, 2, 4, 8, 16].into_iter().any(|group| s.left_by(|e| s.follows(e, sum(e, group))) <= 0.5))
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
fn of_scales(mistake: &str, explained: usize, sampled: usize) -> CheckCause {
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
