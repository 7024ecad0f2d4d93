//! One case, computed in this process.
//!
//! A kernel runs twice, each time into a block of its own ([`Guard`]) that holds another [`Poison`], so that no result of an earlier run can pass; its
//! workspaces likewise. What it did to its inputs, beside its buffers and from run to run becomes findings; the first result is held against the case's [`Standard`],
//! and where the second one differs, or may, that one too.
//! A kernel that adds to its result begins with zeros in both runs: no poison tells what it did not write, and everything else is checked as ever.

use super::case_report::CaseReport;
use super::case_text;
use super::cases::{Case, Suite, Tensors, Work};
use super::guard::{Guard, Poison, RedZone, Unwritten};
use super::kernel::{KernelError, Launch, Used};
use super::record::{CaseOutcome, CaseResult, Details, Finding, FindingKind, MetricValue, Side};
use super::saving::CaseTensors;
use super::standard::{Judged, Standard};
use super::{metrics, study};
use crate::device::{Device, Stream};
use crate::error::Result;
use crate::fill::fill;
use crate::verify::{NonFinite, Options, Tolerance, Verdict, gpu_verify_with, grouped};
use std::time::Instant;

/// What a case comes to, before it has a name and a device.
#[derive(Debug, Default)]
struct Found {
    verdict: Option<Verdict>,
    reasons: Vec<String>,
    findings: Vec<Finding>,
    metrics: Vec<MetricValue>,
    report: Option<CaseReport>,
    /// What the report cannot know.
    warnings: Vec<String>,
    details: Option<Details>,
    /// Where failed cases are kept.
    tensors: Option<CaseTensors>,
}

/// A case that was computed in this process.
pub(crate) struct Computed {
    pub(crate) result: CaseResult,
    pub(crate) report: Option<CaseReport>,
    /// Where failed cases are kept.
    tensors: Option<CaseTensors>,
}

/// What two runs of a kernel left.
struct Ran {
    inputs: Vec<(&'static str, Guard)>,
    outputs: [Guard; 2],
    /// Whether the results began as zeros.
    zeroed: bool,
    findings: Vec<Finding>,
}

impl Suite {
    /// Runs a case in this process. What keeps it from a verdict is part of the result.
    #[must_use]
    pub fn execute(&self, case: &Case, device: &Device) -> CaseResult {
        let mut computed = self.compute(case, device);
        computed.result.reasons.extend(self.keep(case, &computed));
        computed.result
    }

    /// As [`execute`](Suite::execute), but that nothing is [kept](Suite::keep).
    pub(crate) fn compute(&self, case: &Case, device: &Device) -> Computed {
        let started = Instant::now();
        let found = match &case.work {
            Work::Tensors(tensors) => self.compare(case, tensors, device),
            Work::Study(study) => study.run(device, &self.shared).map_err(KernelError::from).map(|outcome| Found {
                verdict: Some(Verdict::Pass),
                ..Found::of_metrics(study::metrics(&outcome, &case.limits), &case.limits)
            }),
        };
        let mut result = self.ended(case, &device.name(), CaseOutcome::Error, Vec::new());
        let (report, tensors) = match found {
            Ok(found) => judge(&mut result, found),
            Err(e) => {
                result.reasons = vec![e.to_string()];
                (None, None)
            }
        };
        result.ok = case.expected.accepts(result.outcome) && result.findings.is_empty();
        result.seconds = started.elapsed().as_secs_f64();
        Computed { result, report, tensors }
    }

    /// Keeps the files of a case that did not end as expected, where the suite does. A sentence about what could not be kept.
    pub(crate) fn keep(&self, case: &Case, computed: &Computed) -> Option<String> {
        let Computed { result, report, tensors } = computed;
        let saving = self.saving.as_ref().filter(|_| !result.ok)?;
        saving.keep(case, result, &case_text::text(result, report.as_ref(), &result.command), tensors.as_ref())
    }

    /// The result of a case that ended in this way, without anything that a computation would have found.
    pub(crate) fn ended(&self, case: &Case, device: &str, outcome: CaseOutcome, reasons: Vec<String>) -> CaseResult {
        CaseResult {
            case: case.name.clone(),
            groups: case.groups.clone(),
            axes: case.axes.clone(),
            command: self.command(case),
            device: device.to_owned(),
            expected: case.expected,
            outcome,
            ok: false,
            reasons,
            findings: Vec::new(),
            metrics: Vec::new(),
            report: None,
            warnings: Vec::new(),
            details: None,
            repeatable: case.repeatable(),
            equal_nonfinite: case.passes_equal_nonfinite(),
            seconds: 0.0,
        }
    }

    /// Runs the kernel of a case, twice as any other time, and gives its result; nothing for a case that has no tensor.
    ///
    /// # Errors
    /// When the kernel fails, or does something beside its result.
    pub fn output(&self, case: &Case, device: &Device) -> Result<Option<Guard>, KernelError> {
        let Work::Tensors(tensors) = &case.work else { return Ok(None) };
        let Ran { outputs: [first, _], findings, .. } = self.run_kernel(case, tensors, device)?;
        match findings.first() {
            Some(finding) => Err(finding.message.clone().into()),
            None => Ok(Some(first)),
        }
    }

    fn run_kernel(&self, case: &Case, tensors: &Tensors, device: &Device) -> Result<Ran, KernelError> {
        let mut inputs = inputs(tensors, device)?;
        let hashes = inputs.iter().map(|(_, guard)| guard.hash()).collect::<Result<Vec<u64>>>()?;
        let stream = Stream::new(device)?;
        let run = |inputs: &[(&'static str, Guard)], poison| -> Result<(Guard, Used), KernelError> {
            let mut output = Guard::new(device, tensors.formats.output, &tensors.problem.output())?.named("result");
            output.poison(poison)?;
            let mut launch = Launch::new(case, inputs, &mut output, poison);
            let ended = tensors.kernel.run(&tensors.problem, &mut launch, &self.kernels, &stream);
            // Whatever was enqueued before a failure uses the buffers too.
            let synchronized = stream.synchronize();
            let used = launch.used();
            ended?;
            synchronized?;
            Ok((output, used))
        };
        let first = run(&inputs, Poison::Finite)?;
        let mut changed = restore(&mut inputs, tensors, &hashes)?;
        let second = run(&inputs, Poison::Nan)?;
        changed.extend(restore(&mut inputs, tensors, &hashes)?);
        let runs = [first, second];
        let findings = findings(&inputs, &changed, &runs, tensors.repeatable)?;
        let zeroed = runs.iter().any(|(_, used)| used.zeroed);
        Ok(Ran { inputs, outputs: runs.map(|(output, _)| output), zeroed, findings })
    }

    fn compare(&self, case: &Case, tensors: &Tensors, device: &Device) -> Result<Found, KernelError> {
        let Ran { inputs, outputs, zeroed, findings } = self.run_kernel(case, tensors, device)?;
        let standard = Standard::new(tensors, &inputs, device)?;
        let judged = |result: &Guard| standard.judge(tensors, &inputs, result, &case.limits);
        let first = judged(&outputs[0])?;
        // What may differ from run to run, or does, has to pass in each.
        let differs = findings.iter().any(|finding| finding.kind == FindingKind::NotRepeatable);
        let second = (differs || !tensors.repeatable).then(|| judged(&outputs[1])).transpose()?;
        let of_second = |second: &Judged| second.wrong.iter().map(|reason| format!("the second run: {reason}")).collect::<Vec<_>>();
        let [one, two] = outputs;
        // The run that is reported on and kept: the second where only that one fails.
        let (told, result, mut reasons, more) = match second {
            Some(second) if second.badness() > first.badness() => {
                let reasons = of_second(&second);
                (second, two, reasons, Vec::new())
            }
            second => {
                let reasons = first.wrong.clone();
                (first, one, reasons, second.as_ref().map_or(Vec::new(), of_second))
            }
        };
        reasons.extend(told.report.causes());
        let verdict = told.report.verdict();
        let (failed, saved) = (verdict == Verdict::Fail, self.saving.is_some());
        let reference = match standard.into_reference() {
            None if failed || saved => told.report.exact(&result)?,
            reference => reference,
        };
        let failed = reference.as_ref().filter(|_| failed);
        reasons.extend(failed.filter(|_| zeroed).map(|reference| still_zero(&result, reference)).transpose()?.flatten());
        let details = failed.map(|reference| told.report.details(&result, reference)).transpose()?;
        reasons.extend(more);
        let begun =
            zeroed.then(|| "the result began as zeros: elements that the kernel did not write cannot be told from zeros".to_owned());
        let warnings = begun.into_iter().collect();
        let tensors = reference.filter(|_| saved).map(|reference| CaseTensors { inputs, result, reference });
        Ok(Found {
            verdict: Some(verdict),
            reasons,
            findings,
            metrics: told.metrics,
            report: Some(told.report),
            warnings,
            details,
            tensors,
        })
    }
}

impl Found {
    /// Metrics without a comparison.
    fn of_metrics(metrics: Vec<MetricValue>, limits: &[(String, f64)]) -> Found {
        Found { reasons: metrics::beyond(&metrics, limits), metrics, ..Found::default() }
    }
}

/// The outcome of what was found. What the result does not hold comes back.
fn judge(result: &mut CaseResult, found: Found) -> (Option<CaseReport>, Option<CaseTensors>) {
    result.reasons.extend(found.reasons);
    result.reasons.extend(found.findings.iter().map(|finding| finding.message.clone()));
    result.outcome = match found.verdict {
        _ if !result.reasons.is_empty() => CaseOutcome::Fail,
        Some(Verdict::Pass) => CaseOutcome::Pass,
        Some(Verdict::Untrusted) => CaseOutcome::Untrusted,
        Some(Verdict::Fail) | None => CaseOutcome::Fail,
    };
    result.findings = found.findings;
    result.metrics = found.metrics;
    result.details = found.details;
    if let Some(report) = &found.report {
        result.warnings = report.warnings().into_iter().chain(found.warnings).collect();
        result.report = report.value();
    }
    (found.report, found.tensors)
}

/// The inputs, filled.
fn inputs(tensors: &Tensors, device: &Device) -> Result<Vec<(&'static str, Guard)>> {
    let shapes = tensors.problem.inputs();
    let filled = |((name, shape), spec): ((&'static str, Vec<usize>), _)| {
        let mut guard = Guard::new(device, tensors.problem.input_dtype(name, tensors.formats), &shape)?.named(name);
        fill(&mut guard.tensor_mut()?, spec)?;
        Ok((name, guard))
    };
    shapes.into_iter().zip(&tensors.data).map(filled).collect()
}

/// Fills the inputs that a run has changed again, so that the second run, the reference and what is saved have the data of the case. Returns their names.
fn restore(inputs: &mut [(&'static str, Guard)], tensors: &Tensors, hashes: &[u64]) -> Result<Vec<&'static str>> {
    let mut changed = Vec::new();
    for (((name, guard), spec), before) in inputs.iter_mut().zip(&tensors.data).zip(hashes) {
        let after = guard.hash()?;
        if after == *before {
            continue;
        }
        fill(&mut guard.tensor_mut()?, spec)?;
        // Otherwise its zones were written.
        if guard.hash()? != after || guard.check()?.is_none() {
            changed.push(*name);
        }
    }
    Ok(changed)
}

/// What the kernel did beside its result.
fn findings(inputs: &[(&'static str, Guard)], changed: &[&str], runs: &[(Guard, Used); 2], repeatable: bool) -> Result<Vec<Finding>> {
    let mut out = Vec::new();
    // Both runs have the same inputs, and each a result and workspaces of its own.
    let in_runs = || runs.iter().zip([" in the first run", " in the second run"]);
    let results = in_runs().map(|((output, _), run)| ("result", output, run));
    let workspaces = in_runs().flat_map(|((_, used), run)| used.workspaces.iter().map(move |guard| ("workspace", guard, run)));
    for (name, guard, run) in inputs.iter().map(|(name, guard)| (*name, guard, "")).chain(results).chain(workspaces) {
        out.extend(guard.written()?.into_iter().map(|red| red_zone(name, red, run)));
    }
    for (name, _) in inputs.iter().filter(|(name, _)| changed.contains(name)) {
        out.push(finding(FindingKind::InputChanged, name, None, format!("the input `{name}` was changed")));
    }
    let [(first, used), (second, _)] = runs;
    // Results that are the same bits cannot hold two poisons.
    let Some(difference) = first.first_difference(second)? else { return Ok(out) };
    // What began as zeros holds no poison but what the kernel computed.
    let unwritten = if used.zeroed { None } else { first.unwritten(second)? };
    if let Some(Unwritten { elements, first: index }) = unwritten {
        let offset = first.dtype().bytes_for(index).map(|bytes| bytes as i64);
        // Small numbers added to a poison leave it as it is.
        let all = first.shape().iter().product::<usize>() as u64 == elements;
        let hint = if all { "; a kernel that adds to its result needs initial = \"zero\"" } else { "" };
        let message = format!("{} elements of the result were not written, the first at index {index}{hint}", grouped(elements));
        out.push(finding(FindingKind::Unwritten, "result", offset, message));
    } else if repeatable && !out.iter().any(|f| f.buffer == "result") {
        let workspace = if used.workspaces.is_empty() { "" } else { "; its workspace held other bytes before" };
        let message = other_bits(first, second, difference)? + workspace;
        out.push(finding(FindingKind::NotRepeatable, "result", Some(difference as i64), message));
    }
    Ok(out)
}

/// How many elements of a result that began as zeros are zero where they should not be.
fn still_zero(result: &Guard, reference: &Guard) -> Result<Option<String>> {
    let (bytes, expected) = (result.to_bytes()?, reference.to_bytes()?);
    let (dtype, reference_type) = (result.dtype(), reference.dtype());
    let elements = result.shape().iter().product();
    let missing = |&i: &usize| dtype.load_bits(&bytes, i) == 0 && reference_type.decode(reference_type.load_bits(&expected, i)) != 0.0;
    let mut found = (0..elements).filter(missing);
    let Some(first) = found.next() else { return Ok(None) };
    let count = grouped(1 + found.count() as u64);
    Ok(Some(format!("{count} elements are the zero that they began with where the reference is not 0, the first at index {first}")))
}

/// By how much two runs differ, the first time at a byte of the result.
fn other_bits(first: &Guard, second: &Guard, byte: usize) -> Result<String> {
    let options = Options::counts().cause(false).nonfinite(NonFinite::EqualWhenSame);
    let report = gpu_verify_with(&second.tensor()?, &first.tensor()?, &Tolerance::exact(), &options)?;
    let index = byte.saturating_mul(8) / first.dtype().bits();
    let [mismatches, elements] = [report.mismatches, report.elements as u64].map(grouped);
    let by = match report.worst_absolute {
        _ if report.mismatches == 0 => ", of the same values".to_owned(),
        Some(worst) => format!("; {mismatches} of {elements} elements differ, finite ones by at most {:e}", worst.value),
        None => format!("; {mismatches} of {elements} elements differ, in what is not finite"),
    };
    Ok(format!("a second run gave other bits, the first at index {index}{by}"))
}

fn finding(kind: FindingKind, buffer: &str, offset: Option<i64>, message: String) -> Finding {
    Finding { kind, buffer: buffer.to_owned(), side: None, offset, message }
}

fn red_zone(name: &str, RedZone { side, offset, bytes }: RedZone, run: &str) -> Finding {
    let place = if side == Side::Before { "before" } else { "after" };
    let message = format!("{} bytes {place} `{name}` were written{run}, the first at byte {offset} of it", grouped(bytes));
    Finding { side: Some(side), ..finding(FindingKind::RedZone, name, Some(offset), message) }
}
