//! What there is to say about one case that did not end as expected: the failure of a test, and the report beside saved tensors.

use super::case_report::CaseReport;
use super::record::CaseResult;
use super::report::plain;

/// A screen of text: how it ended and what was expected, the reasons, the report where there was one, and the command that repeats it.
pub(crate) fn text(result: &CaseResult, report: Option<&CaseReport>, command: &str) -> String {
    let expected = format!("{:?}", result.expected).to_lowercase();
    let mut out = format!("{}  {}   expected: {expected}\n", result.outcome.word(), plain(&result.case));
    out += &format!("  on {}\n", plain(&result.device));
    let report = report.map(ToString::to_string).unwrap_or_default();
    // What the report says is not said twice.
    for reason in result.why().iter().filter(|reason| !report.contains(reason.as_str())) {
        // A compiler says many lines.
        reason.lines().for_each(|line| out += &format!("  {}\n", plain(line)));
    }
    report.lines().for_each(|line| out += &format!("  {line}\n"));
    out + &format!("  to repeat it: {}\n", plain(command))
}
