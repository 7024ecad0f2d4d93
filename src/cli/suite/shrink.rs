//! `hipverify suite shrink`: the smallest size at which a case still fails in the same way.

use super::super::{Outcome, screen};
use super::run::{Workers, seconds};
use super::scratch::Scratch;
use super::{Source, named};
use crate::device::Device;
use crate::suite::record::CaseResult;
use crate::suite::shrink::{Failure, Smallest, Trial, smallest, with_size};
use crate::suite::{Case, Runner, Suite};
use anyhow::{Context, Result, bail};
use std::path::PathBuf;
use std::time::Duration;

/// The flags of `suite shrink`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub(super) struct Args {
    #[command(flatten)]
    source: Source,
    /// The name of a case that fails
    case: String,
    /// Where to compute: best (the first GPU, else the host), host, gpu, gpu:N
    #[arg(long, value_name = "DEVICE", default_value = "best")]
    device: String,
    /// The most sizes that are tried
    #[arg(long, value_name = "N", default_value = "200", value_parser = clap::value_parser!(u32).range(1..))]
    trials: u32,
    /// Seconds after which a case has failed and its process is ended
    #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = seconds)]
    timeout: Duration,
}

const AFTER: &str = "\
Each number of the size is made smaller while the case fails as it did: the same outcome, the same findings. Everything else stays.

Exit codes: 0 the smallest size is shown, 2 the case does not fail or cannot be made smaller, bad input.

Example: hipverify suite shrink my-kernels.toml gemm/130x70x250/f16/mine";

impl Args {
    /// Runs the command.
    pub(super) fn run(&self) -> Result<Outcome> {
        let file = self.source.file()?;
        let suite = self.source.suite_of(&file)?.on(&self.device);
        let case = named(&suite, &self.case)?;
        let Some((_, size)) = case.size() else { bail!("`{}` has no size to be made smaller", case.name) };
        let trials = Trials::new(self, file.is_of_no_file())?;
        let first = trials.run(&suite, case)?;
        let Some(failure) = Failure::of(&first) else {
            bail!("`{}` does not fail: {} on {}", case.name, first.outcome.word(), first.device);
        };
        screen::note(&format!("{:>7}  {size}   {}", "", first.outcome.word()));
        let (mut number, mut last) = (0, first.clone());
        let found = smallest(size, self.trials as usize, &mut |size| {
            let Ok((smaller, case)) = with_size(&file, &self.source.suite, case, size) else { return Ok(Trial::NoSize) };
            let result = trials.run(&smaller.on(&self.device), &case)?;
            let same = Failure::of(&result).as_ref() == Some(&failure);
            number += 1;
            screen::note(&format!("{number:>4}/{:<4}{size}   {}", self.trials, result.outcome.word()));
            if same {
                last = result;
            }
            Ok(if same { Trial::Fails } else { Trial::Differs })
        })?;
        if found.size == size {
            screen::note("no smaller size fails in the same way");
        }
        screen::print(&shown(size, &found, &last))?;
        Ok(Outcome::Pass)
    }
}

/// What processes for single cases need.
struct Trials<'a> {
    args: &'a Args,
    /// Whether the suite comes with hipverify.
    embedded: bool,
    program: PathBuf,
    scratch: Scratch,
    devices: [(String, String); 1],
}

impl<'a> Trials<'a> {
    fn new(args: &'a Args, embedded: bool) -> Result<Trials<'a>> {
        let program = std::env::current_exe().context("the path of this program")?;
        let scratch = Scratch::new()?;
        Ok(Trials { args, embedded, program, scratch, devices: [(Device::open(&args.device)?.name(), args.device.clone())] })
    }

    /// Runs a case in a process of its own.
    fn run(&self, suite: &Suite, case: &Case) -> crate::Result<CaseResult> {
        let (source, embedded, scratch) = (&self.args.source, self.embedded, self.scratch.path());
        let workers = Workers { source, embedded, sets: suite.sets(), saving: None, scratch, jobs: 1 };
        let worker = |device: &str| workers.command(&self.program, device);
        let (devices, timeout) = (&self.devices, self.args.timeout);
        let runner = Runner { suite, devices, jobs: 1, timeout, fail_fast: false, worker: &worker };
        let mut found = None;
        runner.run(&[case], &mut |result| {
            found = Some(result);
            Ok(())
        })?;
        let lost =
            || crate::Error::Unsupported { what: format!("the case `{}`", case.name), by: "a process that gave no result".to_owned() };
        found.ok_or_else(lost)
    }
}

fn shown(size: &str, found: &Smallest, last: &CaseResult) -> String {
    let trials = screen::count(found.trials as u64);
    let end = if found.complete { "no number of it can be one less" } else { "the limit on trials ended the search" };
    let reason = last.reasons.first().map_or("", String::as_str);
    let lines = [
        ("size", format!("{} of {size}, after {trials} trials: {end}", found.size)),
        (last.outcome.word(), screen::plain(reason)),
        ("command", screen::plain(&last.command)),
    ];
    lines.into_iter().map(|(label, text)| format!("{label:<14} {text}\n")).collect()
}
