//! `hipverify suite merge`: the results of several runs as those of one.

use super::super::apart::expect_apart;
use super::super::{Outcome, screen};
use super::Source;
use crate::suite::report::Run;
use crate::suite::write_results;
use anyhow::{Result, bail};
use std::collections::HashSet;
use std::path::{Path, PathBuf};

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
        let (suite, named) = (self.source.open()?, self.results.iter().filter(|path| path.is_file()).cloned());
        let read = [self.source.file()?.inputs(), named.collect()].concat();
        expect_apart([("--output", &*self.output)], read.iter().map(PathBuf::as_path))?;
        // What an earlier merge has written into a folder is no part of this one.
        let written = self.output.canonicalize().ok();
        let (earlier, files): (Vec<PathBuf>, Vec<PathBuf>) =
            super::files_of_results(&self.results)?.into_iter().partition(|path| written.is_some() && path.canonicalize().ok() == written);
        if files.is_empty() {
            bail!("--output {}: the only file of results is the output itself", self.output.display());
        }
        let parts = files.iter().map(|path| Run::read(path)).collect::<crate::Result<Vec<_>>>()?;
        let all = suite.join(&parts)?;
        earlier.first().map_or(Ok(()), |path| expect_nothing_is_lost(path, &all))?;
        write_results(&self.output, &all)?;
        let (found, of) = (all.cases.len() as u64, suite.cases.len() as u64);
        let [found, of] = [found, of].map(screen::count);
        let files = format!("{} file{}", screen::count(parts.len() as u64), if parts.len() == 1 { "" } else { "s" });
        screen::print(&format!("{files}, {found} of the {of} cases of {}: {}\n", suite.name, self.output.display()))?;
        Ok(Outcome::Pass)
    }
}

/// Refuses to write over a file of results with cases that the joined run has not.
fn expect_nothing_is_lost(path: &Path, all: &Run) -> Result<()> {
    let joined: HashSet<&str> = all.cases.iter().map(|case| case.case.as_str()).collect();
    match Run::read(path)?.cases.iter().find(|case| !joined.contains(case.case.as_str())) {
        Some(case) => bail!("--output {}: that file has case `{}`, which no other one has; name another output", path.display(), case.case),
        None => Ok(()),
    }
}
