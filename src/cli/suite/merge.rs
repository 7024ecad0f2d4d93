//! `hipverify suite merge`: the results of several runs as those of one.

use super::super::{Outcome, screen};
use super::Source;
use crate::suite::report::Run;
use crate::suite::write_results;
use anyhow::{Result, bail};
use std::path::PathBuf;

/// The flags of `suite merge`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: hipverify suite merge my-kernels.toml results --output all.jsonl")]
pub(super) struct Args {
    #[command(flatten)]
    source: Source,
    /// Files of results, or folders with some
    #[arg(required = true)]
    results: Vec<PathBuf>,
    /// Where the joined results go: what one run of all these cases would have written
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
}

impl Args {
    /// Runs the command.
    pub(super) fn run(&self) -> Result<Outcome> {
        let suite = self.source.open()?;
        let mut files = super::files_of_results(&self.results)?;
        // What was written by an earlier merge is no part of this one.
        files.retain(|path| path.canonicalize().ok() != self.output.canonicalize().ok() || !self.output.exists());
        if files.is_empty() {
            bail!("--output {}: the only file of results is the output itself", self.output.display());
        }
        let parts = files.iter().map(|path| Run::read(path)).collect::<crate::Result<Vec<_>>>()?;
        let all = suite.join(&parts)?;
        write_results(&self.output, &all)?;
        let (found, of) = (all.cases.len() as u64, suite.cases.len() as u64);
        let [found, of] = [found, of].map(screen::count);
        let files = format!("{} file{}", screen::count(parts.len() as u64), if parts.len() == 1 { "" } else { "s" });
        screen::print(&format!("{files}, {found} of the {of} cases of {}: {}\n", suite.name, self.output.display()))?;
        Ok(Outcome::Pass)
    }
}
