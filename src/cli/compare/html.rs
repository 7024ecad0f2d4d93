//! `compare --html`: the page of a run whose cases are the tensors.

use super::{Args, Case, CaseVerdict};
use crate::files::replace;
use crate::suite::quoted;
use crate::suite::record::{CaseOutcome, CaseResult, Expected, RunHeader, SCHEMA};
use crate::suite::report::{ReportFormat, Run, View};
use crate::verify::{Report, Verdict, grouped};
use anyhow::Result;
use std::time::{SystemTime, UNIX_EPOCH};

/// Writes the page, where one is asked for.
pub(super) fn write(args: &Args, cases: &[Case]) -> Result<()> {
    let Some(path) = &args.html else { return Ok(()) };
    let devices = cases.iter().find_map(|case| report(case).map(|report| report.device.clone()));
    let header = RunHeader {
        schema: SCHEMA,
        tool: concat!("hipverify ", env!("CARGO_PKG_VERSION")).to_owned(),
        suite: args.title(),
        fingerprint: String::new(),
        code: String::new(),
        cases: cases.len() as u64,
        selection: String::new(),
        selected: cases.len() as u64,
        before_shard: cases.len() as u64,
        devices: devices.into_iter().collect(),
        started: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs()),
    };
    let results = cases.iter().map(|case| result(case, cases.len() > 1)).collect::<Result<_>>()?;
    let run = Run::new("compare", header, results)?;
    Ok(replace(path, |out| View::Run(&run).write(ReportFormat::Html, out))?)
}

fn report(case: &Case) -> Option<&Report> {
    if let CaseVerdict::Compared(report) = &case.verdict { Some(report) } else { None }
}

/// A tensor as a case.
fn result(case: &Case, many: bool) -> Result<CaseResult> {
    let report = report(case);
    let dtypes = |report: &Report| vec![("dtype".to_owned(), report.result_dtype.to_string())];
    let outcome = match &case.verdict {
        CaseVerdict::Failed(_) => CaseOutcome::Error,
        CaseVerdict::Only(..) => CaseOutcome::Fail,
        CaseVerdict::Empty => CaseOutcome::Pass,
        CaseVerdict::Compared(report) => match report.verdict {
            Verdict::Pass => CaseOutcome::Pass,
            Verdict::Untrusted => CaseOutcome::Untrusted,
            Verdict::Fail => CaseOutcome::Fail,
        },
    };
    let reason = match &case.verdict {
        CaseVerdict::Compared(report) if report.verdict != Verdict::Fail => None,
        CaseVerdict::Compared(r) => Some(format!("{} of {} elements differ", grouped(r.mismatches), grouped(r.elements as u64))),
        CaseVerdict::Empty => Some("no elements".to_owned()),
        CaseVerdict::Only(_, path) => Some(format!("only in {}", path.display())),
        CaseVerdict::Failed(reason) => Some(reason.clone()),
    };
    Ok(CaseResult {
        case: if case.name.is_empty() { "tensor".to_owned() } else { case.name.clone() },
        groups: Vec::new(),
        axes: report.map_or(Vec::new(), dtypes),
        command: command(many.then_some(case.name.as_str())),
        device: report.map_or(String::new(), |report| report.device.clone()),
        expected: Expected::Pass,
        outcome,
        ok: outcome == CaseOutcome::Pass,
        reasons: reason.into_iter().collect(),
        findings: Vec::new(),
        metrics: Vec::new(),
        report: report.map(serde_json::to_value).transpose()?,
        warnings: report.map_or(Vec::new(), |report| report.warnings().iter().map(ToString::to_string).collect()),
        details: case.details.clone(),
        repeatable: true,
        equal_nonfinite: case.nonfinite == crate::verify::NonFinite::EqualWhenSame,
        seconds: case.time.as_secs_f64(),
    })
}

/// The command line of this process, for one tensor of several.
fn command(tensor: Option<&str>) -> String {
    let words = std::env::args().skip(1).chain(tensor.into_iter().flat_map(|name| ["--tensor".to_owned(), name.to_owned()]));
    std::iter::once("hipverify".to_owned()).chain(words.map(|word| quoted(&word))).collect::<Vec<_>>().join(" ")
}
