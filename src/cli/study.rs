//! `hipverify study`: the tables of the fp16 study of 2022.

use super::{Outcome, screen, suite};
use crate::device::Device;
use crate::suite::report::Run;
use crate::suite::study_tables::{histograms, tables};
use anyhow::Result;
use std::path::PathBuf;

/// The flags of `study`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: hipverify study tables results")]
pub(super) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Prints the study's tables beside the published figures
    Tables(Tables),
}

/// The flags of `study tables`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: hipverify study tables results\n\nThe histograms of section 3 are computed; they need no run.")]
struct Tables {
    /// Runs of the study's tests, for the tables of sections 2.1 to 2.4: files of results, or folders with some, which together are one run
    #[arg(value_name = "RESULTS")]
    results: Vec<PathBuf>,
    /// Compute section 2.5 as well: 205,520,896 elements, which takes minutes on a host
    #[arg(long)]
    worst: bool,
    /// Where to compute: host, best, gpu or gpu:N; the figures are the same everywhere
    #[arg(long, default_value = "host")]
    device: String,
}

impl Args {
    /// Runs the command.
    pub(super) fn run(&self) -> Result<Outcome> {
        let What::Tables(args) = &self.what;
        let device = Device::open(&args.device)?;
        if !args.results.is_empty() {
            let runs = suite::files_of_results(&args.results)?.iter().map(|path| Run::read(path)).collect::<crate::Result<Vec<_>>>()?;
            screen::print(&tables(&Run::join(&runs)?)?)?;
        }
        screen::print(&histograms(&device, args.worst)?)?;
        Ok(Outcome::Pass)
    }
}
