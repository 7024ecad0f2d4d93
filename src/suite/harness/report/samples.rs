//! Runs for tests: cases by number, of which every third fails.

use super::Run;
use crate::suite::record::{CaseOutcome, CaseResult, Expected, Finding, FindingKind, RunHeader, SCHEMA, Side};
use serde_json::json;

/// Why a case fails, as a run has it: mismatches, the likely cause, findings.
const REASONS: [&str; 3] = ["2 of 4,096 elements differ", "zeros: not written", "byte 2 before `output` was written"];

/// A run with so many cases.
pub(super) fn run(source: &str, cases: usize) -> Run {
    let header = RunHeader {
        schema: SCHEMA,
        tool: "hipverify 0.1.0".to_owned(),
        suite: "samples".to_owned(),
        fingerprint: "0123456789abcdef".to_owned(),
        code: String::new(),
        cases: cases as u64,
        selection: String::new(),
        selected: cases as u64,
        before_shard: cases as u64,
        devices: vec!["host, 2 threads".to_owned()],
        started: 1_795_377_600,
    };
    let cases = (0..cases).map(|i| case(&format!("gemm/f16/{i}"), i)).collect();
    Run { source: source.to_owned(), header, cases, truncated: false }
}

/// A case; it fails where `i` is 2, 5, 8 ...
pub(super) fn case(name: &str, i: usize) -> CaseResult {
    let fails = i % 3 == 2;
    let finding = || Finding {
        kind: FindingKind::RedZone,
        buffer: "output".to_owned(),
        side: Some(Side::Before),
        offset: Some(-2),
        message: "byte 2 before `output` was written".to_owned(),
    };
    let report = || {
        json!({
            "judge": "Elements", "mismatches": 2, "worst_absolute": {"value": 0.5},
            "metrics": {"worst_ratio": {"value": 1.5}, "rms": 0.001},
            "cause": {"kind": "unwritten", "evidence": "zeros: not written"},
        })
    };
    CaseResult {
        case: name.to_owned(),
        groups: vec!["nightly".to_owned()],
        axes: vec![("type".to_owned(), "f16".to_owned()), ("size".to_owned(), i.to_string())],
        command: format!("hipverify suite run samples.toml --filter ={name}"),
        device: "host, 2 threads".to_owned(),
        expected: Expected::Pass,
        outcome: if fails { CaseOutcome::Fail } else { CaseOutcome::Pass },
        ok: !fails,
        reasons: if fails { REASONS.map(str::to_owned).to_vec() } else { Vec::new() },
        findings: if fails { vec![finding()] } else { Vec::new() },
        metrics: Vec::new(),
        report: fails.then(report),
        warnings: Vec::new(),
        details: None,
        repeatable: true,
        equal_nonfinite: false,
        seconds: 0.25,
    }
}

/// The file of a run.
pub(super) fn lines(run: &Run) -> String {
    let cases = run.cases.iter().map(|case| serde_json::to_string(case).unwrap_or_default());
    let header = serde_json::to_string(&run.header).unwrap_or_default();
    std::iter::once(header).chain(cases).map(|line| line + "\n").collect()
}
