//! `hipverify suite report`: runs as text, Markdown, CSV, JSON or a page of HTML.

use super::super::apart::expect_apart;
use super::{Outcome, files_of_results, run_of};
use crate::files::replace;
use crate::suite::report::{ReportFormat, Run, View};
use anyhow::{Context, Result, bail};
use std::path::PathBuf;

/// The flags of `suite report`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub(in crate::cli) struct Args {
    /// Files of results, as runs of suites write them, or folders, whose files together are one run; several are a trend, the oldest first
    #[arg(required = true, value_name = "RESULTS")]
    results: Vec<PathBuf>,
    /// The run that the other is compared with
    #[arg(long, value_name = "OLD")]
    against: Option<PathBuf>,
    /// With --against: exit with 1 too where a case of the old run is missing, or demands less: by a limit, its rule or what it expects
    #[arg(long, requires = "against")]
    strict: bool,
    /// How to draw it; without this by the name of --output, else text
    #[arg(long, value_enum)]
    format: Option<Drawn>,
    /// Where to write it; `-` is standard output
    #[arg(long, short, value_name = "FILE", default_value = "-")]
    output: PathBuf,
}

const AFTER: &str = "\
Exit codes: 0 every case ended as expected, 1 one did not, 2 cases are missing or a file cannot be read. With --against 1 stands for a new failure \
or a new run without a case, with --strict also for a case that is missing and for a limit or a rule that was loosened. \
Of several runs the newest counts. docs/suite-reports.md says what the reports show.

Examples:
  hipverify suite report results.jsonl
  hipverify suite report results.jsonl --output report.html
  hipverify suite report new.jsonl --against old.jsonl --format markdown";

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Drawn {
    /// A screen
    Text,
    /// For a pull request or the summary of a CI step; its length is bounded
    Markdown,
    /// A line a case
    Csv,
    /// Everything, see docs/suite-report.schema.json
    Json,
    /// One page that needs no network
    Html,
}

impl Args {
    /// Runs the command.
    pub(in crate::cli) fn run(&self) -> Result<Outcome> {
        let read: Vec<PathBuf> = self.results.iter().chain(&self.against).cloned().collect();
        expect_apart([("--output", &*self.output)], files_of_results(&read)?.iter().map(PathBuf::as_path))?;
        let runs: Vec<Run> = self.results.iter().map(|path| run_of(path)).collect::<Result<_>>()?;
        let old = self.against.as_deref().map(run_of).transpose()?;
        let view = match (old.as_ref(), runs.as_slice()) {
            (Some(old), [new]) => View::Comparison { old, new },
            (Some(_), _) => bail!("--against: one run is compared with another, and {} are given", runs.len()),
            (None, [run]) => View::Run(run),
            (None, runs) => View::Trend(runs),
        };
        replace(&self.output, |out| view.write(self.format(), out)).context("report")?;
        let ok = view.ok() && !(self.strict && (view.loosened() || view.removed()));
        Ok(match (view.complete(), ok) {
            (false, _) => Outcome::NoVerdict,
            (true, false) => Outcome::Mismatch,
            (true, true) => Outcome::Pass,
        })
    }

    fn format(&self) -> ReportFormat {
        let named = || match self.output.extension().and_then(std::ffi::OsStr::to_str) {
            Some("md") => Drawn::Markdown,
            Some("csv") => Drawn::Csv,
            Some("json") => Drawn::Json,
            Some("html" | "htm") => Drawn::Html,
            _ => Drawn::Text,
        };
        match self.format.unwrap_or_else(named) {
            Drawn::Text => ReportFormat::Text,
            Drawn::Markdown => ReportFormat::Markdown,
            Drawn::Csv => ReportFormat::Csv,
            Drawn::Json => ReportFormat::Json,
            Drawn::Html => ReportFormat::Html,
        }
    }
}
