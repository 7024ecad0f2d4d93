//! What `golden` tells: a screen, one object of JSON, a JUnit file. Machines are told as well where there is no verdict.

use super::super::screen::{self, BAD, GOOD};
use super::super::{Outcome, junit};
use super::Found;
use super::check::State;
use super::file::{Entry, Recorded};
use anyhow::Result;
use quick_junit::{NonSuccessKind, TestCase, TestCaseStatus, TestSuite};
use serde::Serialize;
use std::path::Path;

/// What became of each tensor.
pub(super) struct Findings {
    pub found: Found,
    /// What was recorded before, of what was asked for.
    pub recorded: Recorded,
    pub states: Vec<(String, State)>,
}

impl Findings {
    pub(super) fn outcome(&self) -> Outcome {
        if self.states.iter().all(|(_, state)| state.agrees()) { Outcome::Pass } else { Outcome::Mismatch }
    }

    /// How many tensors are in such a state.
    pub(super) fn count(&self, is: impl Fn(&State) -> bool) -> usize {
        self.states.iter().filter(|(_, state)| is(state)).count()
    }

    /// Format and shape of a tensor, those that were recorded first.
    fn kind(&self, name: &str) -> String {
        self.recorded.tensors.get(name).or(self.found.tensors.get(name)).map_or(String::new(), Entry::kind)
    }

    /// The name that is missing and the one that is new, where a file's name alone may have changed.
    fn renamed(&self) -> Option<(&str, &str)> {
        let names = |wanted: State| self.states.iter().filter(move |(_, state)| *state == wanted).map(|(name, _)| name.as_str());
        let (missing, new) = (names(State::Missing).collect::<Vec<_>>(), names(State::New).collect::<Vec<_>>());
        match (missing.as_slice(), new.as_slice()) {
            ([was], [is]) if self.found.named_by_file => Some((was, is)),
            _ => None,
        }
    }

    /// A row for each tensor that does not agree, and one for all.
    pub(super) fn shown(&self, golden: &Path) -> String {
        let mut table = screen::Table::new(&["", "", "", ""]);
        for (name, state) in self.states.iter().filter(|(_, state)| !state.agrees()).take(screen::MOST_ROWS) {
            table.row(vec!["FAIL".to_owned(), name.clone(), self.kind(name), state.reason().unwrap_or_default().to_owned()]);
        }
        let mut text: String = table.lines().iter().skip(1).map(|line| format!("  {BAD}{line}{BAD:#}\n")).collect();
        if let Some((was, is)) = self.renamed() {
            let [was, is] = [was, is].map(screen::plain);
            text += &format!("  note: a tensor without a name has that of its file: `{was}` may be `{is}`, from a file of another name\n");
        }
        let (all, agree, same) = (self.states.len(), self.count(State::agrees), self.count(|state| *state == State::Same));
        let hidden = (all - agree).saturating_sub(screen::MOST_ROWS);
        if hidden > 0 {
            text += &format!("  and {} more that do not agree; --include chooses some, --json has all\n", screen::count(hidden as u64));
        }
        let (style, word, of) = if agree == all { (GOOD, "PASS", String::new()) } else { (BAD, "FAIL", format!("{agree} of ")) };
        let verb = if agree == all && all == 1 { "agrees" } else { "agree" };
        let tensors = screen::counted(all as u64, "tensor");
        text += &format!("{style}{word}{style:#}  {of}{tensors} {verb} with {} of {}", screen::plain(&self.found.arch), golden.display());
        text + &format!("   {} bit for bit, {} within their tolerance\n", screen::count(same as u64), screen::count((agree - same) as u64))
    }
}

/// Of the JSON document; `docs/golden.schema.json` describes it.
const SCHEMA: u32 = 1;

/// The JSON document.
#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    tool: &'static str,
    /// record, check.
    command: &'static str,
    /// pass, fail, error; `record` knows no `fail`.
    verdict: &'static str,
    passed: bool,
    golden: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    arch: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<&'a str>,
    /// Why there is no verdict at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    tensors: Vec<Tensor<'a>>,
}

#[derive(Serialize)]
struct Tensor<'a> {
    name: &'a str,
    /// same, within, differs, missing, new.
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    recorded: Option<&'a Entry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    found: Option<&'a Entry>,
}

/// A command, the file that it is about, and where machines are told.
pub(super) struct Machines<'a> {
    pub command: &'static str,
    pub golden: &'a Path,
    pub json: bool,
    pub junit: Option<&'a Path>,
}

/// The class of tests in a JUnit file.
const CLASS: &str = "hipverify.golden";

impl Machines<'_> {
    /// Has no JUnit file of an earlier run be taken for this one's, however this one ends.
    pub(super) fn begin(&self) -> Result<()> {
        self.junit.map_or(Ok(()), |path| junit::begin(path, &self.golden.display().to_string(), [self.command, CLASS]))
    }

    /// Tells what was found; `shown` is for people.
    pub(super) fn tell(&self, findings: &Findings, outcome: Outcome, shown: &str) -> Result<()> {
        self.write_junit(findings.states.iter().map(|(name, state)| {
            let Some(reason) = state.reason() else { return (name.as_str(), TestCaseStatus::success()) };
            let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
            status.set_message(junit::text(&format!("{} {reason}", findings.kind(name)))).set_type(state.word());
            (name.as_str(), status)
        }))?;
        if !self.json {
            return Ok(screen::print(shown)?);
        }
        let tensors = findings.states.iter().map(|(name, state)| Tensor {
            name,
            state: state.word(),
            reason: state.reason(),
            recorded: findings.recorded.tensors.get(name),
            found: findings.found.tensors.get(name),
        });
        screen::print_json(&Document {
            verdict: if outcome == Outcome::Pass { "pass" } else { "fail" },
            passed: outcome == Outcome::Pass,
            arch: Some(&findings.found.arch),
            device: findings.found.device.as_deref(),
            tensors: tensors.collect(),
            ..self.document()
        })
    }

    /// Tells that there is no verdict: an old JUnit file would be taken for this run's.
    pub(super) fn failure(&self, error: &anyhow::Error) -> Result<()> {
        let reason = format!("{error:#}");
        if let Some(path) = self.junit {
            junit::failure(path, &self.golden.display().to_string(), [self.command, CLASS], &reason)?;
        }
        if self.json { screen::print_json(&Document { error: Some(reason), ..self.document() }) } else { Ok(()) }
    }

    /// One without a verdict.
    fn document(&self) -> Document<'_> {
        Document {
            schema: SCHEMA,
            tool: concat!("hipverify ", env!("CARGO_PKG_VERSION")),
            command: self.command,
            verdict: "error",
            passed: false,
            golden: self.golden.display().to_string(),
            arch: None,
            device: None,
            error: None,
            tensors: Vec::new(),
        }
    }

    /// Writes the file, where one is asked for: a test case a tensor.
    fn write_junit<'n>(&self, cases: impl Iterator<Item = (&'n str, TestCaseStatus)>) -> Result<()> {
        let Some(path) = self.junit else { return Ok(()) };
        let mut suite = TestSuite::new(junit::name(&self.golden.display().to_string()));
        suite.add_test_cases(cases.map(|(name, status)| {
            let mut case = TestCase::new(junit::name(name), status);
            case.set_classname(CLASS);
            case
        }));
        junit::write(path, suite)
    }
}
