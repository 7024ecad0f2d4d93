//! JUnit files, for CI systems.

use super::screen::plain;
use crate::files::replace;
use crate::suite::report::is_format;
use anyhow::{Context, Result};
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};
use std::path::Path;

/// A name for a file: with escapes, as on the screen, for what breaks lines or cannot stand in XML.
pub(super) fn name(name: &str) -> String {
    text(&plain(name))
}

/// A text of several lines for a file, with escapes for what cannot stand in XML, is not seen or turns a line's direction.
pub(super) fn text(text: &str) -> String {
    let stands = |c: char| !c.is_control() && !matches!(c, '\u{fffe}' | '\u{ffff}') || matches!(c, '\n' | '\t');
    text.chars().flat_map(|c| if stands(c) && !is_format(c) { vec![c] } else { c.escape_unicode().collect() }).collect()
}

/// Writes a file that says that a command, whose tests have this class, gave no verdict: an old one would be taken for this one's.
pub(super) fn failure(path: &Path, suite: &str, [command, class]: [&str; 2], reason: &str) -> Result<()> {
    let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
    status.set_message(text(reason));
    let mut entry = TestCase::new(command, status);
    entry.set_classname(class);
    let mut tests = TestSuite::new(name(suite));
    tests.add_test_case(entry);
    write(path, tests)
}

/// Writes such a file before the command begins, for one that does not come to its end. What is written to standard output, a device or a pipe stays: nothing goes there.
pub(super) fn begin(path: &Path, suite: &str, command: [&str; 2]) -> Result<()> {
    if path == Path::new("-") || path.exists() && !path.is_file() {
        return Ok(());
    }
    failure(path, suite, command, "the command did not come to its end, where it writes this file anew")
}

/// Writes a file with one suite of tests.
pub(super) fn write(path: &Path, tests: TestSuite) -> Result<()> {
    let mut report = Report::new("hipverify");
    report.add_test_suite(tests);
    let text = report.to_string().with_context(|| format!("{}: JUnit", path.display()))?;
    Ok(replace(path, |out| out.write_all(text.as_bytes()))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_stand_in_xml_is_escaped() {
        for (raw, as_name, as_text) in [
            ("a.b[0] <ä>\u{202e}", "a.b[0] <ä>\\u{202e}", "a.b[0] <ä>\\u{202e}"),
            ("a\u{1}b", "a\\u{1}b", "a\\u{1}b"),
            ("a\u{fffe}\u{ffff}", "a\\u{fffe}\\u{ffff}", "a\\u{fffe}\\u{ffff}"),
            ("a\nb\t", "a\\nb\\t", "a\nb\t"),
            ("\u{7f}\u{9b}\0", "\\u{7f}\\u{9b}\\0", "\\u{7f}\\u{9b}\\u{0}"),
        ] {
            assert_eq!((name(raw).as_str(), text(raw).as_str()), (as_name, as_text));
        }
    }
}
