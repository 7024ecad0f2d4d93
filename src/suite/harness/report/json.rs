//! The reports as JSON; `docs/suite-report.schema.json` describes them.

use super::comparison::{Change, Comparison, Difference};
use super::loosened::Loosened;
use super::numbers::{Json, numbers};
use super::run::{Run, Summary};
use super::trend;
use crate::suite::record::CaseResult;
use serde::Serialize;
use std::collections::BTreeMap;

/// Of the document.
const SCHEMA: u32 = 1;

#[derive(Serialize)]
pub(super) struct Document<'a> {
    schema: u32,
    tool: &'static str,
    #[serde(flatten)]
    content: Content<'a>,
}

#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Content<'a> {
    Run { runs: [Summary<'a>; 1], cases: &'a [CaseResult] },
    Comparison { runs: [Summary<'a>; 2], changes: Vec<(Change, usize)>, cases: Vec<Compared<'a>> },
    Trend { runs: Vec<Summary<'a>>, cases: Vec<Row<'a>> },
}

#[derive(Serialize)]
struct Compared<'a> {
    case: &'a str,
    change: Change,
    old: Option<Side>,
    new: Option<Side>,
    differences: &'a [Difference<'a>],
    loosened: &'a [Loosened],
}

#[derive(Serialize)]
struct Side {
    outcome: &'static str,
    ok: bool,
    seconds: f64,
}

#[derive(Serialize)]
struct Row<'a> {
    case: &'a str,
    /// One a run, as the rest.
    results: Vec<Option<Side>>,
    numbers: BTreeMap<&'a str, Vec<Option<Json>>>,
}

fn side(case: &CaseResult) -> Side {
    Side { outcome: case.outcome.word(), ok: case.ok, seconds: case.seconds }
}

fn document(content: Content<'_>) -> Document<'_> {
    Document { schema: SCHEMA, tool: concat!("hipverify ", env!("CARGO_PKG_VERSION")), content }
}

pub(super) fn run(run: &Run) -> Document<'_> {
    document(Content::Run { runs: [run.summary()], cases: &run.cases })
}

pub(super) fn comparison<'a>(comparison: &'a Comparison<'a>) -> Document<'a> {
    let cases = comparison.cases.iter().map(|case| Compared {
        case: case.name,
        change: case.change,
        old: case.old.map(side),
        new: case.new.map(side),
        differences: &case.differences,
        loosened: &case.loosened,
    });
    let runs = [comparison.old.summary(), comparison.new.summary()];
    document(Content::Comparison { runs, changes: comparison.counts(), cases: cases.collect() })
}

pub(super) fn trend(runs: &[Run]) -> Document<'_> {
    let cases = trend::rows(runs).into_iter().map(|row| {
        let names = row.results.iter().flatten().copied().flat_map(numbers);
        let names: BTreeMap<&str, ()> = names.map(|number| (number.name, ())).collect();
        let numbers = names.into_keys().map(|name| (name, row.values(name))).collect();
        Row { case: row.name, results: row.results.iter().map(|result| result.map(side)).collect(), numbers }
    });
    document(Content::Trend { runs: runs.iter().map(Run::summary).collect(), cases: cases.collect() })
}
