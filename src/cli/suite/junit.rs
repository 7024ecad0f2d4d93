//! A run of a suite as a JUnit file, for CI systems.

use crate::files::replace;
use crate::suite::Suite;
use crate::suite::record::{CaseOutcome, CaseResult};
use anyhow::{Context, Result};
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};
use std::path::Path;
use std::time::Duration;

/// Writes the file.
pub(super) fn write(path: &Path, suite: &Suite, results: &[CaseResult]) -> Result<()> {
    let mut tests = TestSuite::new(suite.name.as_str());
    tests.add_test_cases(results.iter().map(case));
    let mut report = Report::new("hipverify");
    report.add_test_suite(tests);
    let text = report.to_string().with_context(|| format!("{}: JUnit", path.display()))?;
    Ok(replace(path, |out| out.write_all(text.as_bytes()))?)
}

fn case(result: &CaseResult) -> TestCase {
    let mut entry = TestCase::new(result.case.as_str(), status(result));
    let table = result.case.split('/').next().unwrap_or_default();
    entry.set_classname(format!("hipverify.suite.{table}")).set_time(Duration::try_from_secs_f64(result.seconds).unwrap_or_default());
    entry
}

fn status(result: &CaseResult) -> TestCaseStatus {
    if result.ok {
        return TestCaseStatus::success();
    }
    let kind = if result.outcome == CaseOutcome::Error { NonSuccessKind::Error } else { NonSuccessKind::Failure };
    let mut status = TestCaseStatus::non_success(kind);
    let word = result.outcome.word();
    let reasons = result.reasons.join("\n");
    let message = result.reasons.first().map_or_else(|| word.to_owned(), |reason| format!("{word}: {reason}"));
    status.set_message(message).set_type(word).set_description(format!("{reasons}\n{}\n", result.command));
    status
}
