//! JUnit files, for CI systems.

use crate::files::replace;
use anyhow::{Context, Result};
use quick_junit::{Report, TestSuite};
use std::path::Path;

/// Writes a file with one suite of tests.
pub(super) fn write(path: &Path, tests: TestSuite) -> Result<()> {
    let mut report = Report::new("hipverify");
    report.add_test_suite(tests);
    let text = report.to_string().with_context(|| format!("{}: JUnit", path.display()))?;
    Ok(replace(path, |out| out.write_all(text.as_bytes()))?)
}
