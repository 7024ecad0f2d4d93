//! What results of a case are held against: a reference, by a tolerance or metrics, or the bounds of a check, which are made from the operands.

use super::case_report::CaseReport;
use super::cases::Tensors;
use super::guard::Guard;
use super::metrics;
use super::problem::{Input, Party};
use super::record::MetricValue;
use super::rule::{CaseRule, CheckRule, Checkable, Rule};
use crate::device::{Device, TensorRef};
use crate::error::Result;
use crate::verify::{Explain, Judge, Limits, NonFinite, Options, Report, Thresholds, Tolerance, Verdict, gpu_verify_with};

/// What results are held against.
#[derive(Debug)]
pub(crate) enum Standard {
    /// A reference, and what is demanded against it.
    Reference { reference: Box<Guard>, limits: Box<Limits> },
    /// Bounds. They come with each result that is checked.
    Check(CheckRule),
}

/// The result of one run, held against the standard.
#[derive(Debug)]
pub(crate) struct Judged {
    pub(crate) report: CaseReport,
    pub(crate) metrics: Vec<MetricValue>,
    /// What is wrong with it, in sentences.
    pub(crate) wrong: Vec<String>,
}

impl Standard {
    pub(crate) fn new(tensors: &Tensors, inputs: &[Input], device: &Device) -> Result<Standard> {
        let rule = match &tensors.rule {
            CaseRule::Check(rule) => return Ok(Standard::Check(*rule)),
            CaseRule::Reference(rule) => rule,
        };
        let mut reference = Guard::new(device, tensors.reference_type, &tensors.problem.output())?;
        tensors.problem.compute(tensors.reference, Party::Reference, inputs, &mut reference)?;
        Ok(Standard::Reference { reference: Box::new(reference), limits: Box::new(limits(tensors, rule, inputs)?) })
    }

    pub(crate) fn judge(&self, tensors: &Tensors, inputs: &[Input], result: &Guard, bounds: &[(String, f64)]) -> Result<Judged> {
        match self {
            Standard::Reference { reference, limits } => Judged::by_reference(result, reference, limits, bounds),
            Standard::Check(rule) => Judged::by_check(rule, tensors, inputs, result, bounds),
        }
    }

    /// What results should have been, where it was made before them.
    pub(crate) fn into_reference(self) -> Option<Guard> {
        match self {
            Standard::Reference { reference, .. } => Some(*reference),
            Standard::Check(_) => None,
        }
    }
}

impl Judged {
    fn by_reference(result: &Guard, reference: &Guard, limits: &Limits, bounds: &[(String, f64)]) -> Result<Judged> {
        let options = limits.options(Options::default().power(true).explain(explain(bounds)));
        let report = gpu_verify_with(&result.tensor()?, &reference.tensor()?, &limits.tolerance, &options)?;
        let metrics = metrics::of(&report, bounds);
        let differ = (report.verdict == Verdict::Fail).then(|| metrics::differ(&report)).flatten();
        let unseen = metrics::see_finite_pairs_only(bounds) && differ.is_none() && nonfinite_differ(result, reference, limits, &report)?;
        let unseen = unseen.then(|| metrics::not_finite(&report));
        let wrong = differ.into_iter().chain(unseen).chain(metrics::beyond(&metrics, bounds)).collect();
        Ok(Judged { report: CaseReport::Reference(Box::new(report), limits.nonfinite), metrics, wrong })
    }

    fn by_check(rule: &CheckRule, tensors: &Tensors, inputs: &[Input], result: &Guard, bounds: &[(String, f64)]) -> Result<Judged> {
        let of_inputs: Vec<(&'static str, TensorRef<'_>)> =
            inputs.iter().map(|(name, guard)| Ok((*name, guard.tensor()?))).collect::<Result<_>>()?;
        let result = result.tensor()?;
        let checked = rule.checked(&tensors.problem, &Checkable { inputs: &of_inputs, result: &result })?;
        let options = Options::default().cause(false).explain(explain(bounds));
        let errors = gpu_verify_with(&result, &checked.exact().tensor(result.shape())?, &Tolerance::exact(), &options)?;
        let metrics = metrics::of_check(&checked.report.report, &errors, bounds);
        let wrong = metrics::beyond_bounds(&checked.report.report).into_iter().chain(metrics::beyond(&metrics, bounds)).collect();
        Ok(Judged { report: CaseReport::Check { checked: Box::new(checked), errors: Box::new(errors) }, metrics, wrong })
    }

    /// 2 for a failure, 1 for a pass that is not to be trusted, 0 for another one.
    pub(crate) fn badness(&self) -> u8 {
        if self.wrong.is_empty() { u8::from(self.report.verdict() == Verdict::Untrusted) } else { 2 }
    }
}

/// Whether a pair that is not finite is a mismatch, as a rule may allow some: no metric sees it.
fn nonfinite_differ(result: &Guard, reference: &Guard, limits: &Limits, report: &Report) -> Result<bool> {
    if report.nonfinite_pairs == 0 || limits.nonfinite == NonFinite::Fail {
        return Ok(report.nonfinite_pairs > 0);
    }
    // By thresholds that any finite pair is within, nothing else fails.
    let options = Options::counts().cause(false).nonfinite(limits.nonfinite).thresholds(Thresholds::OFF, Judge::Thresholds);
    let report = gpu_verify_with(&result.tensor()?, &reference.tensor()?, &Tolerance::exact(), &options)?;
    Ok(report.verdict == Verdict::Fail)
}

/// Whether a verdict has to be explained for the metrics that have limits.
fn explain(bounds: &[(String, f64)]) -> Explain {
    if metrics::ask_explanation(bounds) { Explain::Always } else { Explain::OnFailure }
}

/// What the rule of a case demands of its result.
fn limits(tensors: &Tensors, rule: &Rule, inputs: &[Input]) -> Result<Limits> {
    let mut limits = tensors.limits(rule)?;
    // Of integers nothing but equality passes, whatever their scale.
    if rule.is_rounding()
        && limits.tolerance.scale().is_some()
        && let Some(scale) = tensors.problem.rounding_scale(tensors.reference, inputs)?
    {
        limits.tolerance = limits.tolerance.at(scale);
    }
    Ok(limits)
}
