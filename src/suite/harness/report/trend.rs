//! Many runs: a row a case, a column a run.

use super::document::Block;
use super::numbers::{Json, numbers, used};
use super::overview::{moment, verdict};
use super::run::Run;
use crate::suite::record::{CaseOutcome, CaseResult};
use crate::verify::short;
use std::collections::HashMap;

/// A case in all runs; `None` where a run does not have it.
#[derive(Debug)]
pub(super) struct Row<'a> {
    pub(super) name: &'a str,
    pub(super) results: Vec<Option<&'a CaseResult>>,
}

impl<'a> Row<'a> {
    /// Its result in the newest run that has it.
    pub(super) fn newest(&self) -> Option<&'a CaseResult> {
        self.results.iter().rev().find_map(|result| *result)
    }

    /// The values of a number in all runs.
    pub(super) fn values(&self, name: &str) -> Vec<Option<Json>> {
        let value = |case: &CaseResult| numbers(case).iter().find(|number| number.name == name).map(|number| Json(number.value));
        self.results.iter().map(|result| result.and_then(value)).collect()
    }

    /// Whether not all runs have the same outcome; a run without the case has none.
    fn unsteady(&self) -> bool {
        self.results.windows(2).any(|pair| pair[0].map(|case| case.outcome) != pair[1].map(|case| case.outcome))
    }

    /// A letter a run.
    fn letters(&self) -> String {
        self.results.iter().map(|result| result.map_or('-', |case| letter(case.outcome))).collect()
    }
}

/// The rows of runs, the oldest run first: cases in the order of the newest run, then those of the runs before it.
pub(super) fn rows(runs: &[Run]) -> Vec<Row<'_>> {
    let (mut rows, mut places) = (Vec::<Row<'_>>::new(), HashMap::new());
    for (column, run) in runs.iter().enumerate().rev() {
        for case in &run.cases {
            let place = *places.entry(case.case.as_str()).or_insert_with(|| {
                rows.push(Row { name: &case.case, results: vec![None; runs.len()] });
                rows.len() - 1
            });
            rows[place].results[column] = Some(case);
        }
    }
    rows
}

/// The letter of an outcome, for a column of text.
fn letter(outcome: CaseOutcome) -> char {
    match outcome {
        CaseOutcome::Pass => '.',
        CaseOutcome::Untrusted => 'u',
        CaseOutcome::Fail => 'F',
        CaseOutcome::Error => 'E',
        CaseOutcome::Crash => 'C',
        CaseOutcome::Timeout => 'T',
    }
}

/// The document: the runs, and at most so many cases that do not pass or did not always end alike.
pub(super) fn document(runs: &[Run], most: usize) -> Vec<Block> {
    let rows = rows(runs);
    let Some(newest) = runs.last() else { return Vec::new() };
    let unsteady: Vec<&Row<'_>> = rows.iter().filter(|row| row.unsteady() || row.newest().is_some_and(|case| !case.ok)).collect();
    let steady = rows.len() - unsteady.len();
    let title = format!(
        "suite {} over {} runs: {steady} of {} cases always ended alike and as expected",
        newest.header.suite,
        runs.len(),
        rows.len()
    );
    let letters: Vec<String> = CaseOutcome::ALL.iter().map(|&outcome| format!("{} {}", letter(outcome), outcome.word())).collect();
    let mut blocks = vec![
        Block::Headline(verdict(newest), title),
        Block::Facts(vec![("outcomes", format!("{}, - not run; the oldest run first", letters.join(", ")))]),
        of_runs(runs),
    ];
    if !unsteady.is_empty() {
        let row = |row: &&Row<'_>| vec![row.name.to_owned(), row.letters(), shares(row)];
        let headings = ["case", "outcomes", "share of what is allowed"].map(str::to_owned).to_vec();
        let more = unsteady.len().saturating_sub(most);
        blocks.push(Block::Table("cases that changed or fail", headings, unsteady.iter().take(most).map(row).collect(), more));
    }
    blocks
}

/// From the oldest to the newest share of what is allowed.
fn shares(row: &Row<'_>) -> String {
    let shares: Vec<f64> = row.results.iter().filter_map(|result| result.and_then(used)).collect();
    match shares.as_slice() {
        [] => String::new(),
        [one] => short(*one, 3),
        [first, .., last] => format!("{} to {}", short(*first, 3), short(*last, 3)),
    }
}

fn of_runs(runs: &[Run]) -> Block {
    let headings = ["run", "started", ">cases", ">unexpected", ">seconds"].map(str::to_owned).to_vec();
    let row = |run: &Run| {
        let summary = run.summary();
        let cells = [summary.ended.to_string(), summary.unexpected.to_string(), short(summary.seconds, 3)];
        [run.source.clone(), moment(run.header.started)].into_iter().chain(cells).collect()
    };
    Block::Table("runs", headings, runs.iter().map(row).collect(), 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::report::{document as draw, samples};

    #[test]
    fn rows_hold_a_case_of_every_run() {
        let mut runs = [samples::run("1", 2), samples::run("2", 3), samples::run("3", 3)];
        runs[2].cases[0].outcome = CaseOutcome::Crash;
        runs[2].cases.remove(1);
        let names: Vec<&str> = rows(&runs).iter().map(|row| row.name).collect();
        assert_eq!(names, ["gemm/f16/0", "gemm/f16/2", "gemm/f16/1"], "what only older runs have comes last");
        let letters: Vec<String> = rows(&runs).iter().map(Row::letters).collect();
        assert_eq!(letters, ["..C", "-FF", "..-"]);
        let values: Vec<Option<f64>> = rows(&runs)[1].values("mismatches").iter().map(|v| v.map(|v| v.0)).collect();
        assert_eq!(values, [None, Some(2.0), Some(2.0)]);
        let text = draw::text(&document(&runs, 2));
        assert!(text.starts_with("FAIL  suite samples over 3 runs: 0 of 3 cases always ended alike and as expected\n"), "{text}");
        assert!(text.contains("    gemm/f16/2  -FF       1.5 to 1.5\n    and 1 more\n"), "{text}");
    }
}
