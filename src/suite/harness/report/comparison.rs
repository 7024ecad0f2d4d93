//! Two runs, case by case: what fails that did not, what no longer does, what is demanded less, what gives other numbers, what takes longer.

use super::document::{Block, Entry};
use super::loosened::{Loosened, loosened};
use super::numbers::{Json, Number, numbers};
use super::overview::{entry, moment};
use super::run::Run;
use crate::suite::record::{CaseOutcome, CaseResult};
use crate::verify::short;
use serde::Serialize;

/// A case is slower when it takes so many times as long, and at least [`SLOWER_BY`] longer: shorter times are noise.
const SLOWER: f64 = 1.5;
/// In seconds.
const SLOWER_BY: f64 = 0.1;

/// What became of a case between two runs. A case has the first of these that holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Change {
    /// It does not end as expected, and did, or was not there.
    NewFailure,
    /// It ends as expected, and less is demanded of it.
    Loosened,
    /// It ends as expected, and did not.
    Fixed,
    /// It does not end as expected, as before.
    StillFailing,
    /// Only the old run has it.
    Removed,
    /// Only the new run has it.
    Added,
    /// It has other numbers.
    Changed,
    /// It has the same numbers and takes longer.
    Slower,
    /// Nothing of that.
    Same,
}

impl Change {
    /// In the order of what needs attention first.
    pub(super) const ALL: [Change; 9] = [
        Change::NewFailure,
        Change::Loosened,
        Change::Fixed,
        Change::StillFailing,
        Change::Removed,
        Change::Added,
        Change::Changed,
        Change::Slower,
        Change::Same,
    ];

    pub(super) fn words(self) -> &'static str {
        match self {
            Change::NewFailure => "new failure",
            Change::Loosened => "loosened",
            Change::Fixed => "fixed",
            Change::StillFailing => "still failing",
            Change::Removed => "removed",
            Change::Added => "added",
            Change::Changed => "changed",
            Change::Slower => "slower",
            Change::Same => "same",
        }
    }

    /// So many of it, in words.
    fn counted(self, n: usize) -> String {
        format!("{n} {}{}", self.words(), if self == Change::NewFailure && n != 1 { "s" } else { "" })
    }
}

/// A number that two runs give differently.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Difference<'a> {
    name: &'a str,
    old: Json,
    new: Json,
}

/// A case of two runs.
#[derive(Debug, Clone)]
pub(super) struct Compared<'a> {
    pub(super) name: &'a str,
    pub(super) change: Change,
    pub(super) old: Option<&'a CaseResult>,
    pub(super) new: Option<&'a CaseResult>,
    /// Numbers that both have and that differ.
    pub(super) differences: Vec<Difference<'a>>,
    /// What is demanded less, whatever else changed.
    pub(super) loosened: Vec<Loosened>,
}

/// Two runs.
#[derive(Debug)]
pub(super) struct Comparison<'a> {
    pub(super) old: &'a Run,
    pub(super) new: &'a Run,
    /// The cases of the new run in its order, then those that only the old one has.
    pub(super) cases: Vec<Compared<'a>>,
}

impl<'a> Comparison<'a> {
    pub(super) fn new(old: &'a Run, new: &'a Run) -> Comparison<'a> {
        let (before, now) = (old.by_name(), new.by_name());
        let of_new = new.cases.iter().map(|case| compared(before.get(case.case.as_str()).copied(), Some(case), &case.case));
        let only_old = old.cases.iter().filter(|case| !now.contains_key(case.case.as_str()));
        let cases = of_new.chain(only_old.map(|case| compared(Some(case), None, &case.case))).collect();
        Comparison { old, new, cases }
    }

    pub(super) fn of(&self, change: Change) -> impl Iterator<Item = &Compared<'a>> {
        self.cases.iter().filter(move |case| case.change == change)
    }

    /// The cases of which less is demanded.
    pub(super) fn loosened(&self) -> impl Iterator<Item = &Compared<'a>> {
        self.cases.iter().filter(|case| !case.loosened.is_empty())
    }

    /// How many cases have each change; changes that do not occur are left out.
    pub(super) fn counts(&self) -> Vec<(Change, usize)> {
        Change::ALL.map(|change| (change, self.of(change).count())).into_iter().filter(|&(_, n)| n > 0).collect()
    }
}

fn compared<'a>(old: Option<&'a CaseResult>, new: Option<&'a CaseResult>, name: &'a str) -> Compared<'a> {
    let differences = old.zip(new).map_or(Vec::new(), |(old, new)| differences(old, new));
    let loosened = old.zip(new).map_or(Vec::new(), |(old, new)| loosened(old, new));
    let slower = old.zip(new).is_some_and(|(old, new)| new.seconds > SLOWER * old.seconds && new.seconds - old.seconds >= SLOWER_BY);
    let change = match (old.map(|case| case.ok), new.map(|case| case.ok)) {
        (Some(false), Some(false)) => Change::StillFailing,
        (_, Some(false)) => Change::NewFailure,
        (Some(_), Some(true)) if !loosened.is_empty() => Change::Loosened,
        (Some(false), Some(true)) => Change::Fixed,
        (_, None) => Change::Removed,
        (None, Some(true)) => Change::Added,
        _ if !differences.is_empty() || old.map(|case| case.outcome) != new.map(|case| case.outcome) => Change::Changed,
        _ if slower => Change::Slower,
        _ => Change::Same,
    };
    Compared { name, change, old, new, differences, loosened }
}

/// The numbers that both have under one name and that are not the same; NaN is the same as NaN.
fn differences<'a>(old: &'a CaseResult, new: &'a CaseResult) -> Vec<Difference<'a>> {
    let before = numbers(old);
    let changed = |number: &Number<'a>| {
        let old = before.iter().find(|old| old.name == number.name)?;
        let same = old.value == number.value || old.value.is_nan() && number.value.is_nan();
        (!same).then_some(Difference { name: number.name, old: Json(old.value), new: Json(number.value) })
    };
    numbers(new).iter().filter_map(changed).collect()
}

/// The document, with at most so many cases in each list.
pub(super) fn document(comparison: &Comparison<'_>, most: usize) -> Vec<Block> {
    let mut blocks = vec![headline(comparison), facts(comparison)];
    blocks.extend(list(comparison, Change::NewFailure, most));
    blocks.extend(demands(comparison, most));
    for change in [Change::Fixed, Change::StillFailing, Change::Removed] {
        blocks.extend(list(comparison, change, most));
    }
    blocks.extend(other_outcomes(comparison, most));
    blocks.extend(changed(comparison, most));
    blocks.extend(slower(comparison, most));
    blocks
}

fn headline(comparison: &Comparison<'_>) -> Block {
    let counts = comparison.counts();
    let text: Vec<String> = counts.iter().map(|(change, n)| change.counted(*n)).collect();
    let worse = counts.iter().any(|(change, _)| *change == Change::NewFailure);
    let same = counts.iter().all(|(change, _)| *change == Change::Same);
    let word = if worse {
        "WORSE"
    } else if comparison.loosened().next().is_some() {
        "LOOSENED"
    } else if comparison.new.cases.is_empty() {
        "NO CASES"
    } else if comparison.of(Change::Removed).next().is_some() {
        "FEWER CASES"
    } else if same {
        "SAME"
    } else {
        "NO WORSE"
    };
    Block::Headline(word, format!("suite {}: {}", comparison.new.header.suite, text.join("  ")))
}

fn facts(comparison: &Comparison<'_>) -> Block {
    let of = |run: &Run| format!("{}   {}   {}", run.source, moment(run.header.started), run.header.devices.join(", "));
    let mut facts = vec![("old", of(comparison.old)), ("new", of(comparison.new))];
    let [old, new] = [&comparison.old.header, &comparison.new.header];
    if old.fingerprint != new.fingerprint {
        facts.push(("note", "the suites differ: cases of one name may not be the same".to_owned()));
    }
    for (label, run) in [("old run", comparison.old), ("new run", comparison.new)] {
        if !run.complete() {
            facts.push((label, format!("incomplete: {} of {} cases have ended", run.cases.len(), run.header.selected)));
        }
    }
    Block::Facts(facts)
}

fn list(comparison: &Comparison<'_>, change: Change, most: usize) -> Option<Block> {
    let all: Vec<&Compared<'_>> = comparison.of(change).collect();
    let item = |case: &&Compared<'_>| match case.new {
        Some(new) if change == Change::NewFailure => entry(new),
        new => Entry {
            word: new.or(case.old).map_or("", |case| case.outcome.word()),
            name: case.name.to_owned(),
            why: Vec::new(),
            command: String::new(),
        },
    };
    let title = match change {
        Change::NewFailure => "new failures",
        Change::Fixed => "fixed",
        Change::Removed => "only in the old run",
        _ => "still failing",
    };
    (!all.is_empty()).then(|| Block::Entries(title, all.iter().take(most).map(item).collect(), all.len().saturating_sub(most)))
}

/// What is demanded less, of cases that still fail as well.
fn demands(comparison: &Comparison<'_>, most: usize) -> Option<Block> {
    let all: Vec<(&str, &Loosened)> =
        comparison.loosened().flat_map(|case| case.loosened.iter().map(|demand| (case.name, demand))).collect();
    let row =
        |(name, demand): &(&str, &Loosened)| vec![(*name).to_owned(), demand.name.clone(), demand.old.to_string(), demand.new.to_string()];
    let headings = ["case", "demand", ">old", ">new"].map(str::to_owned).to_vec();
    let more = all.len().saturating_sub(most);
    (!all.is_empty()).then(|| Block::Table("loosened", headings, all.iter().take(most).map(row).collect(), more))
}

/// The cases that end as expected, as before, and in another way.
fn other_outcomes(comparison: &Comparison<'_>, most: usize) -> Option<Block> {
    let outcomes = |case: &Compared<'_>| Some((case.old?.outcome, case.new?.outcome));
    let all: Vec<_> = comparison.of(Change::Changed).filter_map(|case| outcomes(case).map(|(old, new)| (case.name, old, new))).collect();
    let all: Vec<_> = all.into_iter().filter(|(_, old, new)| old != new).collect();
    let row = |(name, old, new): &(&str, CaseOutcome, CaseOutcome)| [*name, old.word(), new.word()].map(str::to_owned).to_vec();
    let headings = ["case", "old", "new"].map(str::to_owned).to_vec();
    let more = all.len().saturating_sub(most);
    (!all.is_empty()).then(|| Block::Table("other outcomes", headings, all.iter().take(most).map(row).collect(), more))
}

/// The numbers that changed most, by their quotient.
fn changed(comparison: &Comparison<'_>, most: usize) -> Option<Block> {
    let mut all: Vec<(f64, &str, &Difference<'_>)> =
        comparison.cases.iter().flat_map(|case| case.differences.iter().map(|d| (factor(d.old.0, d.new.0), case.name, d))).collect();
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    let row = |(factor, name, d): &(f64, &str, &Difference<'_>)| {
        vec![(*name).to_owned(), d.name.to_owned(), short(d.old.0, 4), short(d.new.0, 4), short(*factor, 3)]
    };
    let headings = ["case", "number", ">old", ">new", ">factor"].map(str::to_owned).to_vec();
    let more = all.len().saturating_sub(most);
    (!all.is_empty()).then(|| Block::Table("numbers that changed most", headings, all.iter().take(most).map(row).collect(), more))
}

/// How many times larger the larger magnitude is; infinite beside 0 and where a number is not finite.
fn factor(old: f64, new: f64) -> f64 {
    let [small, large] = [old.abs().min(new.abs()), old.abs().max(new.abs())];
    if !(old.is_finite() && new.is_finite()) || small == 0.0 { f64::INFINITY } else { large / small }
}

fn slower(comparison: &Comparison<'_>, most: usize) -> Option<Block> {
    let mut all: Vec<(&str, f64, f64)> =
        comparison.of(Change::Slower).filter_map(|case| Some((case.name, case.old?.seconds, case.new?.seconds))).collect();
    all.sort_by(|a, b| (b.2 - b.1).total_cmp(&(a.2 - a.1)));
    let row = |&(name, old, new): &(&str, f64, f64)| vec![name.to_owned(), short(old, 3), short(new, 3)];
    let headings = ["case", ">old s", ">new s"].map(str::to_owned).to_vec();
    let more = all.len().saturating_sub(most);
    (!all.is_empty()).then(|| Block::Table("slower", headings, all.iter().take(most).map(row).collect(), more))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::record::MetricValue;
    use crate::suite::report::{document as draw, samples};

    fn case(name: &str, ok: bool, seconds: f64, rms: f64) -> CaseResult {
        let metrics = vec![MetricValue { name: "rms".to_owned(), value: rms, limit: None }];
        let outcome = if ok { CaseOutcome::Pass } else { CaseOutcome::Fail };
        CaseResult { ok, outcome, seconds, metrics, report: None, ..samples::case(name, 0) }
    }

    fn run(source: &str, cases: Vec<CaseResult>) -> Run {
        Run { cases, ..samples::run(source, 1) }
    }

    #[test]
    fn every_case_has_one_change() {
        let nan = f64::NAN;
        for (old, new, change, reason) in [
            (Some((true, 1.0, 0.5)), Some((true, 1.0, 0.5)), Change::Same, "nothing"),
            (Some((true, 1.0, nan)), Some((true, 1.0, nan)), Change::Same, "NaN is the same as NaN"),
            (Some((true, 1.0, 0.5)), Some((false, 1.0, 0.5)), Change::NewFailure, "it passed"),
            (None, Some((false, 1.0, 0.5)), Change::NewFailure, "it was not there"),
            (Some((false, 1.0, 0.5)), Some((true, 1.0, 0.5)), Change::Fixed, "it failed"),
            (Some((false, 1.0, 0.5)), Some((false, 1.0, 9.0)), Change::StillFailing, "whatever its numbers"),
            (Some((false, 1.0, 0.5)), None, Change::Removed, "only the old run has it"),
            (None, Some((true, 1.0, 0.5)), Change::Added, "only the new run has it"),
            (Some((true, 1.0, 0.5)), Some((true, 9.0, 0.6)), Change::Changed, "numbers before times"),
            (Some((true, 1.0, 0.5)), Some((true, 1.6, 0.5)), Change::Slower, "1.6 times as long"),
            (Some((true, 1.0, 0.5)), Some((true, 1.4, 0.5)), Change::Same, "1.4 times as long"),
            (Some((true, 0.01, 0.5)), Some((true, 0.1, 0.5)), Change::Same, "90 ms are noise"),
        ] {
            let make = |x: Option<(bool, f64, f64)>| x.map(|(ok, seconds, rms)| case("c", ok, seconds, rms)).into_iter().collect();
            let (old, new) = (run("old", make(old)), run("new", make(new)));
            let comparison = Comparison::new(&old, &new);
            assert_eq!(comparison.counts(), [(change, 1)], "{reason}");
        }
    }

    /// Whatever else a case may be: `fixed` by a limit is no fix.
    #[test]
    fn looser_demands_are_told() {
        let limited = |name, ok, limit| {
            let mut case = case(name, ok, 1.0, 0.5);
            case.metrics[0].limit = limit;
            case
        };
        let old = run("old", vec![limited("a", false, Some(1e-3)), limited("b", true, Some(0.75)), limited("c", false, Some(1e-3))]);
        let new = run("new", vec![limited("a", true, Some(1.0)), limited("b", true, None), limited("c", false, Some(0.25))]);
        let comparison = Comparison::new(&old, &new);
        assert_eq!(comparison.counts(), [(Change::Loosened, 2), (Change::StillFailing, 1)]);
        let blocks = document(&comparison, 9);
        let text = draw::text(&blocks);
        for words in [
            "LOOSENED  suite samples: 2 loosened  1 still failing\n",
            "\n  loosened\n    case  demand          old   new\n    a     limit of rms  0.001     1\n    b     limit of rms   0.75  none\n    c     limit of rms  0.001  0.25\n",
        ] {
            assert!(text.contains(words), "{words}\n{text}");
        }
        assert!(draw::markdown(&blocks).contains("| a | limit of rms | 0.001 | 1 |"), "{}", draw::markdown(&blocks));
        let tightened = draw::text(&document(&Comparison::new(&new, &old), 9));
        assert!(tightened.starts_with("WORSE") && !tightened.contains("loosened"), "{tightened}");
    }

    #[test]
    fn several_failures_are_plural() {
        let [old, new] = [true, false].map(|good| run("of two", vec![case("a", good, 1.0, 0.5), case("b", good, 1.0, 0.5)]));
        let text = draw::text(&document(&Comparison::new(&old, &new), 9));
        assert!(text.starts_with("WORSE  suite samples: 2 new failures\n"), "{text}");
    }

    #[test]
    fn the_document_names_what_changed() {
        let old = run(
            "old",
            vec![case("a", true, 1.0, 0.5), case("b", false, 1.0, 0.0), case("c", true, 1.0, 0.5), case("gone", true, 1.0, 0.5)],
        );
        let mut new = run("new", vec![case("a", false, 1.0, 0.5), case("b", true, 1.0, 2.0), case("c", true, 3.0, 0.5)]);
        new.header.fingerprint = "other".to_owned();
        let text = draw::text(&document(&Comparison::new(&old, &new), 9));
        for words in [
            "WORSE  suite samples: 1 new failure  1 fixed  1 removed  1 slower\n",
            "  note       the suites differ",
            "  new failures\n    fail       a\n",
            "  fixed\n    pass       b\n",
            "  only in the old run\n    pass       gone\n",
            "    case  number  old  new  factor\n    b     rms       0    2     inf\n",
            "    case  old s  new s\n    c         1      3\n",
        ] {
            assert!(text.contains(words), "{words}\n{text}");
        }
        let mut any = run("any", vec![case("a", true, 1.0, 0.5), case("c", true, 1.0, 0.5)]);
        any.cases[1].outcome = CaseOutcome::Untrusted;
        let text = draw::text(&document(&Comparison::new(&old, &any), 9));
        assert!(text.contains("  other outcomes\n    case  old   new\n    c     pass  untrusted\n"), "{text}");
        let [some, none] = [run("some", vec![case("a", true, 1.0, 0.5)]), run("none", Vec::new())];
        for (new, start) in [(&some, "FEWER CASES  suite samples: 3 removed  1 same\n"), (&none, "NO CASES  suite samples: 4 removed\n")] {
            let text = draw::text(&document(&Comparison::new(&old, new), 9));
            assert!(text.starts_with(start), "{text}");
        }
        let nothing = draw::text(&document(&Comparison::new(&none, &none), 9));
        assert!(nothing.starts_with("NO CASES"), "{nothing}");
        let same = draw::text(&document(&Comparison::new(&old, &old), 9));
        assert!(same.starts_with("NO WORSE  suite samples: 1 still failing  3 same\n"), "{same}");
    }
}
