//! What a check found.

use super::{CheckCause, Exactness};
use crate::verify::bound::{BoundReport, Confidence};
use crate::verify::{LABEL, Verdict, grouped, report_as_error};
use std::fmt;

/// What a check found. `Display` draws it on one screen.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct CheckReport {
    /// What was computed.
    pub problem: String,
    /// What was taken for granted of the kernel.
    pub arithmetic: String,
    /// How sure the bound is: as asked for, or the worst case where [`beyond_probable`](CheckReport::beyond_probable) says so.
    #[cfg_attr(feature = "serde", serde(serialize_with = "words"))]
    pub confidence: Confidence,
    /// The comparison with the exact result, each element by its bound.
    pub report: BoundReport,
    /// After a failure by a bound that holds with a confidence: whether the worst case explains it.
    pub within_worst_case: Option<bool>,
    /// Elements beyond the bound with the confidence that was asked for, of a result that is bit-exact for the chip and within the worst case: it is judged by the worst case.
    pub beyond_probable: Option<u64>,
    /// After a failure, where an earlier output was given: how many of the elements beyond their bounds hold it.
    pub stale: Option<u64>,
    /// After a failure: what is likely to have gone wrong; `None` where it was not looked for, see [`Check::cause`](super::Check::cause).
    pub cause: Option<CheckCause>,
    /// For a chip: whether the result is bit-exact.
    pub exactness: Option<Exactness>,
}

#[cfg(feature = "serde")]
fn words<S: serde::Serializer>(confidence: &Confidence, s: S) -> Result<S::Ok, S::Error> {
    s.collect_str(confidence)
}

impl CheckReport {
    /// The verdict.
    pub fn verdict(&self) -> Verdict {
        self.report.verdict
    }

    /// Whether every element is within its bound; also where that could hardly have been otherwise.
    pub fn passed(&self) -> bool {
        self.report.passed()
    }

    /// The report when it passes and that means something, else an error that prints as the report.
    ///
    /// # Errors
    /// [`CheckFailed`].
    pub fn into_result(self) -> Result<CheckReport, CheckFailed> {
        if self.verdict() == Verdict::Pass { Ok(self) } else { Err(CheckFailed(Box::new(self))) }
    }
}

report_as_error! {
    /// The report of a check that failed, or whose pass is not to be trusted. `Debug` prints the report as well: a `main` or a `#[test]` prints an error by it.
    CheckFailed, CheckReport
}

impl fmt::Display for CheckReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.report)?;
        write!(f, "\n  {:<LABEL$}{}; {}", "checked", self.problem, self.arithmetic)?;
        write!(f, "\n  {:<LABEL$}{}", "bound is", self.confidence)?;
        match self.within_worst_case {
            Some(true) => {
                write!(f, "; the result is within the worst case: ")?;
                write!(f, "constant operands do this, and sums of one sign after a large product, ")?;
                write!(f, "and products of few distinct values (--worst-case allows it)")?;
            }
            Some(false) => write!(f, "; the worst case does not explain this result either")?,
            None => {}
        }
        if let Some(beyond) = self.beyond_probable {
            let elements = if beyond == 1 { "1 element is".to_owned() } else { format!("{} elements are", grouped(beyond)) };
            write!(f, ", since the result is bit-exact: {elements} beyond the probable bound, ")?;
            write!(f, "as constant operands give, and sums of one sign after a large product, and products of few distinct values")?;
        }
        if let Some(stale) = self.stale {
            let (stale, all) = (grouped(stale), grouped(self.report.mismatches));
            write!(f, "\n  {:<LABEL$}{stale} of {all} elements beyond their bounds hold the earlier output", "earlier")?;
        }
        if let Some(cause) = &self.cause {
            write!(f, "\n  {:<LABEL$}{}", "cause", cause.evidence)?;
        }
        match &self.exactness {
            Some(exactness) => write!(f, "\n  {:<LABEL$}{exactness}", "bit-exact"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Exactness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Some(model), Some(order)) = (&self.model, &self.order) else {
            return write!(f, "not tried: {}", self.not_tried.as_deref().unwrap_or("no model of this chip could run"));
        };
        if self.is_exact() {
            return write!(f, "yes: {model}, {order}");
        }
        let (tried, differing) = (self.tried, grouped(self.differing as u64));
        write!(f, "no, of {tried} models and orders; {model}, {order} comes nearest: {differing} elements differ")?;
        match &self.first {
            Some(first) => write!(f, ", the first at {first:?}"),
            None => Ok(()),
        }
    }
}
