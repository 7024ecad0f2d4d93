//! One run on one screen: how many cases ended how, those that did not end as expected, the slowest, those nearest to their limits.

use super::document::{Block, Entry};
use super::numbers::used;
use super::run::Run;
use crate::suite::record::{CaseOutcome, CaseResult};
use crate::verify::{grouped, short};
use chrono::DateTime;

/// Cases in the lists of the slowest and of those nearest to their limits.
const EXTREMES: usize = 5;

/// The document of a run, with at most so many unexpected cases.
pub(super) fn overview(run: &Run, most: usize) -> Vec<Block> {
    let unexpected: Vec<&CaseResult> = run.cases.iter().filter(|case| !case.ok).collect();
    let mut blocks = vec![headline(run), facts(run)];
    if !unexpected.is_empty() {
        let shown = unexpected.iter().take(most).map(|case| entry(case)).collect();
        blocks.push(Block::Entries("not as expected", shown, unexpected.len().saturating_sub(most)));
    }
    blocks.extend(nearest(run));
    blocks.extend(slowest(run));
    blocks
}

/// The word for a run: `FAIL` where a case did not end as expected, `INCOMPLETE` where cases are missing, `NO CASES` where a share has none.
pub(super) fn verdict(run: &Run) -> &'static str {
    match (run.ok(), run.complete()) {
        (false, _) => "FAIL",
        (true, false) => "INCOMPLETE",
        (true, true) if run.cases.is_empty() => "NO CASES",
        (true, true) => "PASS",
    }
}

fn headline(run: &Run) -> Block {
    let summary = run.summary();
    let outcomes: Vec<String> = summary.outcomes.iter().map(|(word, n)| format!("{} {word}", grouped(*n as u64))).collect();
    let (ended, bad) = (grouped(summary.ended as u64), grouped(summary.unexpected as u64));
    let expected =
        if summary.ok { format!("{ended} cases ended as expected") } else { format!("{bad} of {ended} cases did not end as expected") };
    Block::Headline(verdict(run), format!("suite {}: {expected}   {}", run.header.suite, outcomes.join("  ")).trim_end().to_owned())
}

fn facts(run: &Run) -> Block {
    let header = &run.header;
    let selection = if header.selection.is_empty() { "all cases".to_owned() } else { header.selection.clone() };
    let mut facts = vec![
        ("devices", header.devices.join(", ")),
        ("run", format!("{}   {} s of work   {}", moment(header.started), short(run.summary().seconds, 3), header.tool)),
        ("selection", format!("{selection}: {} of {}", grouped(header.selected), grouped(header.cases))),
    ];
    if !run.complete() {
        let cut = if run.truncated { "; the last line of the file is cut" } else { "" };
        facts.push(("incomplete", format!("{} of {} cases have ended{cut}", run.cases.len(), header.selected)));
    }
    Block::Facts(facts)
}

/// A moment in seconds since 1970.
pub(super) fn moment(seconds: u64) -> String {
    let time = i64::try_from(seconds).ok().and_then(|seconds| DateTime::from_timestamp(seconds, 0));
    time.map_or_else(|| format!("{seconds} s after 1970"), |time| time.format("%Y-%m-%d %H:%M UTC").to_string())
}

/// What is to be said about a case that did not end as expected.
pub(super) fn entry(case: &CaseResult) -> Entry {
    Entry { word: case.outcome.word(), name: case.case.clone(), why: why(case), command: case.command.clone() }
}

/// Why a case is not as expected; the likely cause is told as one.
pub(crate) fn why(case: &CaseResult) -> Vec<String> {
    let evidence = case.report.as_ref().and_then(|report| report.pointer("/cause/evidence")).and_then(|text| text.as_str());
    let labelled = |reason: String| if evidence == Some(&reason) { format!("cause: {reason}") } else { reason };
    case.why().into_iter().map(labelled).collect()
}

/// The passes that use most of what is allowed.
fn nearest(run: &Run) -> Option<Block> {
    let passes = run.cases.iter().filter(|case| case.outcome == CaseOutcome::Pass);
    let mut passes: Vec<(f64, &CaseResult)> = passes.filter_map(|case| used(case).map(|share| (share, case))).collect();
    passes.sort_by(|a, b| b.0.total_cmp(&a.0));
    let row = |(share, case): &(f64, &CaseResult)| vec![case.case.clone(), short(*share, 3)];
    table("passes that use most of what is allowed", ["case", ">share"], passes.iter().take(EXTREMES).map(row).collect())
}

fn slowest(run: &Run) -> Option<Block> {
    let mut cases: Vec<&CaseResult> = run.cases.iter().collect();
    cases.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    let row = |case: &&CaseResult| vec![case.case.clone(), short(case.seconds, 3)];
    table("slowest", ["case", ">seconds"], cases.iter().take(EXTREMES).map(row).collect())
}

fn table(title: &'static str, headings: [&str; 2], rows: Vec<Vec<String>>) -> Option<Block> {
    (!rows.is_empty()).then(|| Block::Table(title, headings.map(str::to_owned).to_vec(), rows, 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::record::{Expected, MetricValue};
    use crate::suite::report::{document, samples};

    #[test]
    fn a_run_is_one_screen() {
        let mut run = samples::run("results.jsonl", 40);
        let limited = |value| vec![MetricValue { name: "rms".to_owned(), value, limit: Some(4.0) }];
        (run.cases[0].metrics, run.cases[1].metrics) = (limited(1.0), limited(3.0));
        run.cases[1].seconds = 90.0;
        let text = document::text(&overview(&run, 3));
        assert!(text.lines().count() < 50, "{text}");
        let expected = "FAIL  suite samples: 13 of 40 cases did not end as expected   13 fail  27 pass\n  \
             devices    host, 2 threads\n  run        2026-11-22 20:00 UTC   99.8 s of work   hipverify 0.1.0\n  \
             selection  all cases: 40 of 40\n\n  not as expected\n    fail       gemm/f16/2\n               2 of 4,096 elements differ\n";
        assert!(text.starts_with(expected), "{text}");
        assert!(text.contains("    and 10 more\n"), "{text}");
        let tables = "  passes that use most of what is allowed\n    case        share\n    gemm/f16/1   0.75\n    gemm/f16/0   0.25\n\n  \
             slowest\n    case        seconds\n    gemm/f16/1       90\n";
        assert!(text.contains(tables), "{text}");
    }

    #[test]
    fn the_word_for_a_run() {
        let mut run = samples::run("a", 2);
        assert_eq!(verdict(&run), "PASS");
        run.truncated = true;
        assert_eq!(verdict(&run), "INCOMPLETE");
        assert!(document::text(&overview(&run, 3)).contains("2 of 2 cases have ended; the last line of the file is cut"));
        run.cases[0].ok = false;
        assert_eq!(verdict(&run), "FAIL");
    }

    #[test]
    fn why_a_case_is_not_as_expected() {
        let case = CaseResult { expected: Expected::Fail, ..samples::case("c", 0) };
        assert_eq!(why(&case), ["a failure was expected"]);
        let case = samples::case("c", 2);
        assert_eq!(
            why(&case),
            ["2 of 4,096 elements differ", "cause: zeros: not written", "byte 2 before `output` was written"],
            "each once"
        );
    }

    #[test]
    fn moments_are_those_of_utc() {
        for (seconds, text) in
            [(0, "1970-01-01 00:00 UTC"), (951_782_400, "2000-02-29 00:00 UTC"), (u64::MAX, "18446744073709551615 s after 1970")]
        {
            assert_eq!(moment(seconds), text);
        }
    }
}
