//! What was found of a result: the report of a comparison with a reference, or that of a check.

use super::guard::Guard;
use super::record::Details;
use crate::check::Checked;
use crate::device::Device;
use crate::dtype::DType;
use crate::error::Result;
use crate::verify::{NonFinite, Report, Verdict};
use std::fmt;

/// A report of either kind.
#[derive(Debug)]
pub(crate) enum CaseReport {
    /// Of a comparison with a reference, in which values that are not finite counted so.
    Reference(Box<Report>, NonFinite),
    /// Of a check without one, and of the errors against the exact result that it has made.
    Check { checked: Box<Checked>, errors: Box<Report> },
}

impl CaseReport {
    pub(crate) fn verdict(&self) -> Verdict {
        match self {
            CaseReport::Reference(report, _) => report.verdict,
            CaseReport::Check { checked, .. } => checked.report.verdict(),
        }
    }

    /// The likely cause of a failure, in words, or what else explains one.
    pub(crate) fn causes(&self) -> Vec<String> {
        match self {
            CaseReport::Reference(report, _) => report.cause.iter().map(ToString::to_string).collect(),
            CaseReport::Check { checked, .. } => {
                let (cause, within) = (&checked.report.cause, checked.report.within_worst_case == Some(true));
                let within = within.then(|| "rounding at its worst explains it, which worst_case = true allows".to_owned());
                cause.iter().map(|cause| cause.evidence.clone()).chain(within).collect()
            }
        }
    }

    pub(crate) fn warnings(&self) -> Vec<String> {
        match self {
            CaseReport::Reference(report, _) => report.warnings().iter().map(ToString::to_string).collect(),
            CaseReport::Check { checked, .. } => checked.report.report.warnings(),
        }
    }

    /// As files of results have it.
    pub(crate) fn value(&self) -> Option<serde_json::Value> {
        // Only a map with keys that are no text could not become a value.
        match self {
            CaseReport::Reference(report, _) => serde_json::to_value(report).ok(),
            CaseReport::Check { checked, .. } => serde_json::to_value(&checked.report).ok(),
        }
    }

    /// Of a check, what the result should have been.
    pub(crate) fn exact(&self, result: &Guard) -> Result<Option<Guard>> {
        let CaseReport::Check { checked, .. } = self else { return Ok(None) };
        let mut exact = Guard::new(result.device(), DType::F64, result.shape())?;
        exact.copy_from_slice(&checked.exact().to_vec()?)?;
        Ok(Some(exact))
    }

    /// Pictures of the errors of the result that it is of, which are made on the host.
    pub(crate) fn details(&self, result: &Guard, reference: &Guard) -> Result<Details> {
        let host = Device::host();
        let copies = (result.copy_to(&host)?, reference.copy_to(&host)?);
        let (copy, reference) = (copies.0.tensor()?, copies.1.tensor()?);
        match self {
            CaseReport::Reference(report, nonfinite) => Details::new(&copy, &reference, report, *nonfinite),
            CaseReport::Check { checked, errors } => Details::of_beyond(&copy, &reference, errors, &checked.beyond(&result.tensor()?)?),
        }
    }
}

impl fmt::Display for CaseReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CaseReport::Reference(report, _) => report.fmt(f),
            CaseReport::Check { checked, .. } => checked.report.fmt(f),
        }
    }
}
