//! A run of a suite as a JUnit file, for CI systems.

use super::super::junit;
use crate::suite::Suite;
use crate::suite::record::{CaseOutcome, CaseResult};
use anyhow::Result;
use quick_junit::{NonSuccessKind, TestCase, TestCaseStatus, TestSuite};
use std::path::Path;
use std::time::Duration;

/// Writes the file.
pub(super) fn write(path: &Path, suite: &Suite, results: &[CaseResult]) -> Result<()> {
    let mut tests = TestSuite::new(junit::name(&suite.name));
    tests.add_test_cases(results.iter().map(case));
    junit::write(path, tests)
}

/// Writes a file that says that there was no run: an old one would be taken for this one's.
pub(super) fn failure(path: &Path, suite: &str, error: &anyhow::Error) -> Result<()> {
    let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
    status.set_message(junit::text(&format!("{error:#}")));
    let mut entry = TestCase::new("suite run", status);
    entry.set_classname("hipverify.suite");
    let mut tests = TestSuite::new(junit::name(suite));
    tests.add_test_case(entry);
    junit::write(path, tests)
}

fn case(result: &CaseResult) -> TestCase {
    let mut entry = TestCase::new(junit::name(&result.case), status(result));
    let table = result.case.split('/').next().unwrap_or_default();
    entry
        .set_classname(junit::name(&format!("hipverify.suite.{table}")))
        .set_time(Duration::try_from_secs_f64(result.seconds).unwrap_or_default());
    entry
}

fn status(result: &CaseResult) -> TestCaseStatus {
    if result.ok {
        return TestCaseStatus::success();
    }
    let kind = if result.outcome == CaseOutcome::Error { NonSuccessKind::Error } else { NonSuccessKind::Failure };
    let mut status = TestCaseStatus::non_success(kind);
    let word = result.outcome.word();
    let why = result.why();
    let message = why.first().map_or_else(|| word.to_owned(), |reason| format!("{word}: {reason}"));
    let description = format!("{}\n{}\n", why.join("\n"), result.command);
    status.set_message(junit::text(&message)).set_type(word).set_description(junit::text(&description));
    status
}
