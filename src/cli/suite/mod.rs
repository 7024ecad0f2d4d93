//! `hipverify suite`: what came out of suites of cases.

mod report;

use super::Outcome;
use anyhow::Result;

/// The flags of `suite`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: hipverify suite report results.jsonl")]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Shows a run, what changed since another one, or a row of runs
    Report(report::Args),
}

impl Args {
    /// Runs the command.
    pub(super) fn run(&self) -> Result<Outcome> {
        match &self.command {
            Command::Report(args) => args.run(),
        }
    }
}
