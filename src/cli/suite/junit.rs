//! A run of a suite as a JUnit file, for CI systems.

use super::super::junit;
use super::screen::share;
use crate::suite::Case;
use crate::suite::record::{CaseOutcome, CaseResult, RunHeader};
use anyhow::Result;
use quick_junit::{NonSuccessKind, TestCase, TestCaseStatus, TestSuite};
use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

/// The command's name in the file, and the class of its tests.
const COMMAND: [&str; 2] = ["suite run", "hipverify.suite"];

/// Writes the file: what came of the cases that were chosen, those that were not run among them.
pub(super) fn write(path: &Path, header: &RunHeader, chosen: &[&Case], results: &[CaseResult]) -> Result<()> {
    let ended: HashSet<&str> = results.iter().map(|result| result.case.as_str()).collect();
    let left = chosen.iter().filter(|case| !ended.contains(case.name.as_str()));
    let name = share(header).map_or_else(|| header.suite.clone(), |share| format!("{} ({share})", header.suite));
    let mut tests = TestSuite::new(junit::name(&name));
    tests.add_test_cases(results.iter().map(case));
    tests.add_test_cases(left.map(|case| entry(&case.name, not_run())));
    junit::write(path, tests)
}

/// Has no file of an earlier run be taken for this one's, however this one ends.
pub(super) fn begin(path: &Path, suite: &str) -> Result<()> {
    junit::begin(path, suite, COMMAND)
}

/// Writes a file that says that there was no run.
pub(super) fn failure(path: &Path, suite: &str, error: &anyhow::Error) -> Result<()> {
    junit::failure(path, suite, COMMAND, &format!("{error:#}"))
}

fn case(result: &CaseResult) -> TestCase {
    let mut entry = entry(&result.case, status(result));
    entry.set_time(Duration::try_from_secs_f64(result.seconds).unwrap_or_default());
    entry
}

fn entry(name: &str, status: TestCaseStatus) -> TestCase {
    let mut entry = TestCase::new(junit::name(name), status);
    let table = name.split('/').next().unwrap_or_default();
    entry.set_classname(junit::name(&format!("{}.{table}", COMMAND[1])));
    entry
}

fn not_run() -> TestCaseStatus {
    let mut status = TestCaseStatus::skipped();
    status.set_message("not run: an earlier case did not end as expected (--fail-fast)");
    status
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
