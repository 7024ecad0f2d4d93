//! What a run of a suite says at its end: one screen.

use super::super::screen::{BAD, DIM, GOOD, Table, count, number, plain, shortened};
use crate::suite::Suite;
use crate::suite::record::{CaseOutcome, CaseResult, RunHeader};
use crate::suite::report::why;
use std::time::Duration;

/// Cases that did not end as expected and are shown; there may be thousands.
const SHOWN: usize = 8;

/// Reasons of a case that are shown below its first one, but for those that always are.
const REASONS: usize = 2;

/// The most characters of each of them.
const REASON: usize = 160;

/// The screen; `resumed` of the results come from the run that was resumed.
pub(super) fn summary(
    suite: &Suite,
    [selected, resumed]: [usize; 2],
    results: &[CaseResult],
    header: &RunHeader,
    time: Duration,
) -> String {
    let wrong: Vec<&CaseResult> = results.iter().filter(|r| !r.ok).collect();
    let (style, word) = match (results.len(), wrong.len()) {
        (0, _) => (DIM, "NO CASES"),
        (_, 0) => (GOOD, "PASS"),
        _ => (BAD, "FAIL"),
    };
    let as_expected = results.len() - wrong.len();
    let of = if results.len() == selected { String::new() } else { format!("; {} were not run", count((selected - results.len()) as u64)) };
    let mut out = format!(
        "{style}{word}{style:#}  {} of {} cases as expected{of}   {}   {} s\n",
        count(as_expected as u64),
        count(results.len() as u64),
        plain(&share(header).map_or_else(|| suite.name.clone(), |share| format!("{}: {share}", suite.name))),
        number(time.as_secs_f64(), 3)
    );
    out += &by_table(results);
    for result in wrong.iter().take(SHOWN) {
        out += &shown(result);
    }
    if wrong.len() > SHOWN {
        out += &format!("          and {} more\n", count((wrong.len() - SHOWN) as u64));
    }
    if resumed > 0 {
        let all = count(results.len() as u64);
        out += &format!("{DIM}resumed   {} of these {all} cases were computed by the run that was resumed{DIM:#}\n", count(resumed as u64));
    }
    out + &format!("{DIM}device    {}{DIM:#}\n", header.devices.join("; "))
}

/// A case that did not end as expected: its reasons, a line each, and the command that runs it again. Whatever else there is to say, the cause, what the kernel did beside
/// its result, and the last reason, which may tell of files that were not saved, are shown.
fn shown(result: &CaseResult) -> String {
    let why = why(result);
    let (first, others) = why.split_first().map_or(("", [].as_slice()), |(first, others)| (first.as_str(), others));
    let mut out = format!("{BAD}{:<9}{BAD:#} {}   {}\n", result.outcome.word(), plain(&result.case), plain(first));
    let mut line = |text: &str| out += &format!("          {}\n", plain(&shortened(text, REASON)));
    let (mut more, mut left) = (0, 0);
    for (i, reason) in others.iter().enumerate() {
        let found = result.findings.iter().any(|finding| finding.message == *reason);
        if found || reason.starts_with("cause: ") || i + 1 == others.len() {
            line(reason);
        } else if more < REASONS {
            more += 1;
            line(reason);
        } else {
            left += 1;
        }
    }
    if left > 0 {
        line(&format!("and {left} more"));
    }
    out + &format!("          {DIM}{}{DIM:#}\n", plain(&result.command))
}

/// Which part of the suite a run is of; nothing where it is the whole: `3 of 12, --shard 1/4`.
pub(super) fn share(header: &RunHeader) -> Option<String> {
    let text = || format!("{} of {}, {}", count(header.selected), count(header.cases), header.selection);
    (!header.selection.is_empty()).then(text)
}

/// A line a table of the suite: how its cases ended.
fn by_table(results: &[CaseResult]) -> String {
    let present: Vec<CaseOutcome> = CaseOutcome::ALL.into_iter().filter(|o| results.iter().any(|r| r.outcome == *o)).collect();
    let headings: Vec<String> = ["", ">cases"]
        .map(str::to_owned)
        .into_iter()
        .chain(present.iter().map(|o| format!(">{}", o.word())))
        .chain([">seconds".to_owned()])
        .collect();
    let mut table = Table::new(&headings.iter().map(String::as_str).collect::<Vec<_>>());
    let name = |r: &CaseResult| r.case.split('/').next().unwrap_or_default().to_owned();
    for table_name in each_once(results.iter().map(name)) {
        let own: Vec<&CaseResult> = results.iter().filter(|r| name(r) == table_name).collect();
        let with = |outcome: CaseOutcome| count(own.iter().filter(|r| r.outcome == outcome).count() as u64);
        let mut row = vec![table_name, count(own.len() as u64)];
        row.extend(present.iter().map(|o| with(*o)));
        row.push(number(own.iter().map(|r| r.seconds).sum(), 2));
        table.row(row);
    }
    table
        .lines()
        .iter()
        .enumerate()
        .map(|(i, line)| if i == 0 { format!("  {DIM}{line}{DIM:#}\n") } else { format!("  {line}\n") })
        .collect()
}

/// In the order in which they come first: cases of several tables may run by turns.
fn each_once(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen = Vec::new();
    for name in names {
        if !seen.contains(&name) {
            seen.push(name);
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_table_has_one_line() {
        assert_eq!(super::each_once(["conv", "gemm", "conv", "gemm"].map(str::to_owned).into_iter()), ["conv", "gemm"]);
    }
}
