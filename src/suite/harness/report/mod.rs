//! Reports on runs: one run, two compared, many as a trend; each as text, Markdown, CSV, JSON or a page of HTML.
//!
//! A report is a function of the files of results alone ([`record`](super::record)). [`Run`] reads such a file; [`View`] chooses what is shown; [`View::write`] draws it.

mod comparison;
mod csv;
mod document;
mod html;
mod json;
mod loosened;
mod numbers;
mod overview;
mod run;
#[cfg(test)]
mod samples;
mod trend;

pub(crate) use document::plain;
pub use run::Run;
#[cfg(feature = "cli")]
pub(crate) use {
    document::{is_format, lined_up, shortened},
    overview::why,
};

use comparison::{Change, Comparison};
use std::io::{self, Write};

/// What a report shows.
#[derive(Debug, Clone, Copy)]
pub enum View<'a> {
    /// One run.
    Run(&'a Run),
    /// What changed from an old run to a new one.
    Comparison {
        /// The run that the other is held against.
        old: &'a Run,
        /// The run in question.
        new: &'a Run,
    },
    /// Runs in a row, the oldest first.
    Trend(&'a [Run]),
}

/// How a report is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportFormat {
    /// A screen of text.
    Text,
    /// Markdown of bounded length, for a pull request or the summary of a CI step.
    Markdown,
    /// A line a case.
    Csv,
    /// Everything; `docs/suite-report.schema.json` describes it.
    Json,
    /// One self-contained page that fetches nothing.
    Html,
}

/// Cases in a list of text.
const ON_A_SCREEN: usize = 8;

/// Cases in a list of Markdown: what GitHub takes as a comment has 65,536 characters.
const IN_MARKDOWN: usize = 20;

impl View<'_> {
    /// Writes the report.
    ///
    /// # Errors
    /// What `out` returns.
    pub fn write(&self, format: ReportFormat, out: &mut dyn Write) -> io::Result<()> {
        match format {
            ReportFormat::Text => out.write_all(document::text(&self.document(ON_A_SCREEN)).as_bytes()),
            ReportFormat::Markdown => out.write_all(document::markdown(&self.document(IN_MARKDOWN)).as_bytes()),
            ReportFormat::Csv => self.csv(out),
            ReportFormat::Json => self.json(out),
            ReportFormat::Html => html::write(self, out),
        }
    }

    /// Whether there is nothing to complain about: every case of the run, or of the newest one, ended as expected; in a comparison, no failure is new and the
    /// new run has a case.
    #[must_use]
    pub fn ok(&self) -> bool {
        match *self {
            View::Run(run) => run.ok(),
            View::Comparison { old, new } => !new.cases.is_empty() && Comparison::new(old, new).of(Change::NewFailure).next().is_none(),
            View::Trend(runs) => runs.last().is_none_or(Run::ok),
        }
    }

    /// Whether a case of a comparison demands less in the new run: of a limit, of its rule, or by what is expected.
    #[must_use]
    pub fn loosened(&self) -> bool {
        match *self {
            View::Comparison { old, new } => Comparison::new(old, new).loosened().next().is_some(),
            View::Run(_) | View::Trend(_) => false,
        }
    }

    /// Whether the old run of a comparison has a case that the new one lacks.
    #[must_use]
    pub fn removed(&self) -> bool {
        match *self {
            View::Comparison { old, new } => Comparison::new(old, new).of(Change::Removed).next().is_some(),
            View::Run(_) | View::Trend(_) => false,
        }
    }

    /// Whether every case that was to run has ended in the run, or in the newest one.
    #[must_use]
    pub fn complete(&self) -> bool {
        match *self {
            View::Run(run) | View::Comparison { new: run, .. } => run.complete(),
            View::Trend(runs) => runs.last().is_none_or(Run::complete),
        }
    }

    fn document(&self, most: usize) -> Vec<document::Block> {
        match *self {
            View::Run(run) => overview::overview(run, most),
            View::Comparison { old, new } => comparison::document(&Comparison::new(old, new), most),
            View::Trend(runs) => trend::document(runs, most),
        }
    }

    fn csv(&self, out: &mut dyn Write) -> io::Result<()> {
        match *self {
            View::Run(run) => csv::runs(out, &[run]),
            View::Comparison { old, new } => csv::comparison(out, &Comparison::new(old, new)),
            View::Trend(runs) => csv::runs(out, &runs.iter().collect::<Vec<_>>()),
        }
    }

    fn json(&self, out: &mut dyn Write) -> io::Result<()> {
        let done = match *self {
            View::Run(run) => serde_json::to_writer_pretty(&mut *out, &json::run(run)),
            View::Comparison { old, new } => serde_json::to_writer_pretty(&mut *out, &json::comparison(&Comparison::new(old, new))),
            View::Trend(runs) => serde_json::to_writer_pretty(&mut *out, &json::trend(runs)),
        };
        done.map_err(io::Error::from)?;
        out.write_all(b"\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Also where every name, reason and command is as long as it may be, and made of what Markdown escapes.
    #[test]
    fn markdown_is_no_longer_than_a_comment_may_be() {
        let mut old = samples::run("old", 400);
        for (i, case) in old.cases.iter_mut().enumerate() {
            case.case = format!("{i}{}", "|".repeat(5000));
            case.command = "`".repeat(5000);
            case.reasons = vec!["*".repeat(5000); 9];
            case.axes[0].1 = "<".repeat(5000);
        }
        let mut new = old.clone();
        new.cases.iter_mut().for_each(|case| (case.ok, case.outcome) = (!case.ok, crate::suite::record::CaseOutcome::Fail));
        let runs = [old.clone(), new.clone()];
        for view in [View::Run(&old), View::Comparison { old: &old, new: &new }, View::Trend(&runs)] {
            let mut out = Vec::new();
            view.write(ReportFormat::Markdown, &mut out).unwrap();
            let length = String::from_utf8(out).unwrap().chars().count();
            assert!(length < 65_536, "{length}");
        }
    }

    #[test]
    fn what_there_is_to_complain_about() {
        let (good, bad) = (samples::run("good", 2), samples::run("bad", 3));
        let mut cut = samples::run("cut", 2);
        cut.header.selected = 9;
        let none = samples::run("none", 0);
        for (view, ok, complete, reason) in [
            (View::Run(&good), true, true, "all as expected"),
            (View::Run(&bad), false, true, "one is not"),
            (View::Run(&cut), true, false, "some have not ended"),
            (View::Comparison { old: &good, new: &bad }, false, true, "a new failure"),
            (View::Comparison { old: &bad, new: &bad }, true, true, "an old failure is not new"),
            (View::Comparison { old: &good, new: &none }, false, true, "nothing was run"),
            (View::Trend(&[bad.clone(), good.clone()]), true, true, "the newest counts"),
            (View::Trend(&[good.clone(), bad.clone()]), false, true, "the newest counts"),
        ] {
            assert_eq!((view.ok(), view.complete()), (ok, complete), "{reason}");
        }
    }
}
