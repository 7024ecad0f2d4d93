//! JUnit files, for CI systems.

use super::screen::plain;
use crate::files::replace;
use anyhow::{Context, Result};
use quick_junit::{Report, TestSuite};
use std::path::Path;

/// A name for a file: with escapes, as on the screen, for what breaks lines or cannot stand in XML.
pub(super) fn name(name: &str) -> String {
    text(&plain(name))
}

/// A text of several lines for a file, with escapes for what cannot stand in XML.
pub(super) fn text(text: &str) -> String {
    let stands = |c: char| !c.is_control() && !matches!(c, '\u{fffe}' | '\u{ffff}') || matches!(c, '\n' | '\t');
    text.chars().flat_map(|c| if stands(c) { vec![c] } else { c.escape_unicode().collect() }).collect()
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
            ("a.b[0] <ä>\u{202e}", "a.b[0] <ä>\\u{202e}", "a.b[0] <ä>\u{202e}"),
            ("a\u{1}b", "a\\u{1}b", "a\\u{1}b"),
            ("a\u{fffe}\u{ffff}", "a\\u{fffe}\\u{ffff}", "a\\u{fffe}\\u{ffff}"),
            ("a\nb\t", "a\\nb\\t", "a\nb\t"),
            ("\u{7f}\u{9b}\0", "\\u{7f}\\u{9b}\\0", "\\u{7f}\\u{9b}\\u{0}"),
        ] {
            assert_eq!((name(raw).as_str(), text(raw).as_str()), (as_name, as_text));
        }
    }
}
