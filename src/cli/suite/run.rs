//! `hipverify suite run`, and the processes that compute for it.

use super::super::{Outcome, screen};
use super::{Which, junit, open};
use crate::device::Device;
use crate::suite::record::{CaseOutcome, CaseResult, RunHeader, SCHEMA};
use crate::suite::{Case, ResultFile, Runner, Selection, Suite};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

/// The flags of `suite run`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub(super) struct Args {
    /// A suite file, or the name of a suite that comes with hipverify
    suite: String,
    #[command(flatten)]
    which: Which,
    /// Where to compute: best (the first GPU, else the host), host, gpu, gpu:N; several, separated by commas, share the cases
    #[arg(long, value_name = "DEVICE,...", value_delimiter = ',', default_value = "best")]
    device: Vec<String>,
    /// How many cases at a time, each in a process of its own; one a device if not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Seconds after which a case has failed and its process is ended
    #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = seconds)]
    timeout: Duration,
    /// Write the results, a line of JSON as soon as a case has ended: to a file (.jsonl), or into a folder, a file for each shard
    #[arg(long, value_name = "PATH", conflicts_with = "resume")]
    results: Option<PathBuf>,
    /// The same, going on where an earlier run of the same cases stopped
    #[arg(long, value_name = "PATH")]
    resume: Option<PathBuf>,
    /// Also write a JUnit file
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Stop at the first case that does not end as expected
    #[arg(long)]
    fail_fast: bool,
}

const AFTER: &str = "\
Exit codes: 0 every case ended as expected, 1 one did not, 2 no verdict (bad input or usage, a case that could not be computed), 3 a pass that \
is not to be trusted.

Examples:
  hipverify suite run smoke
  hipverify suite run my-kernels.toml --group nightly --timeout 60 --resume results --junit junit.xml
  srun --ntasks 8 hipverify suite run my-kernels.toml --shard auto --resume results";

/// The flags of a process that computes cases for another one.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: echo exact/fma | hipverify suite worker smoke --device host")]
pub(super) struct WorkerArgs {
    /// The suite
    suite: String,
    /// Where to compute
    #[arg(long, value_name = "DEVICE", default_value = "best")]
    device: String,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|s| Duration::try_from_secs_f64(s).ok()).filter(|d| !d.is_zero());
    seconds.ok_or_else(|| "seconds, more than 0, are wanted".to_owned())
}

impl WorkerArgs {
    /// Runs the command.
    pub(super) fn run(&self) -> Result<Outcome> {
        let (suite, device) = (open(&self.suite)?, Device::open(&self.device)?);
        suite.serve(&device, std::io::stdin().lock(), std::io::stdout().lock())?;
        Ok(Outcome::Pass)
    }
}

impl Args {
    /// Runs the command.
    pub(super) fn run(&self) -> Result<Outcome> {
        let suite = open(&self.suite)?;
        let devices = self.device.iter().map(|name| Ok((Device::open(name)?.name(), name.clone()))).collect::<Result<Vec<_>>>()?;
        let selection = self.which.selection();
        let cases = selection.of(&suite)?;
        if cases.is_empty() && selection.shard.is_none() {
            bail!("{}: no case is in all filters and groups: nothing to run", suite.name);
        }
        let header = header(&suite, &selection, cases.len(), &devices);
        let started = Instant::now();
        let (file, mut results) = self.file(&suite, &selection, &header)?;
        let left: Vec<&Case> = cases.iter().copied().filter(|case| results.iter().all(|done| done.case != case.name)).collect();
        self.run_cases(&suite, &left, &devices, file, &mut results)?;
        screen::print(&super::screen::summary(&suite, cases.len(), &results, &header, started.elapsed()))?;
        if let Some(path) = &self.junit {
            junit::write(path, &suite, &results)?;
        }
        Ok(results.iter().map(outcome).max().unwrap_or(Outcome::Pass))
    }

    /// The file of results, and what it holds of an earlier run.
    fn file(&self, suite: &Suite, selection: &Selection, header: &RunHeader) -> Result<(Option<ResultFile>, Vec<CaseResult>)> {
        if let Some(path) = &self.resume {
            let (file, results) = ResultFile::resume(&file_of(path, selection)?, suite, header)?;
            return Ok((Some(file), results));
        }
        let Some(path) = &self.results else { return Ok((None, Vec::new())) };
        Ok((Some(ResultFile::create(&file_of(path, selection)?, header)?), Vec::new()))
    }

    fn run_cases(
        &self,
        suite: &Suite,
        cases: &[&Case],
        devices: &[(String, String)],
        mut file: Option<ResultFile>,
        results: &mut Vec<CaseResult>,
    ) -> Result<()> {
        if cases.is_empty() {
            return Ok(());
        }
        let program = std::env::current_exe().context("the path of this program")?;
        // A process that is ended leaves its files behind: they go with this folder.
        let scratch = tempfile::Builder::new().prefix("hipverify-suite-").tempdir()?;
        let jobs = self.jobs.map_or(devices.len(), usize::from);
        let threads = std::thread::available_parallelism().map_or(1, usize::from).div_ceil(jobs).to_string();
        let worker = |device: &str| {
            let mut command = Command::new(&program);
            command.args(["suite", "worker", &self.suite, "--device", device]).env("TMPDIR", scratch.path());
            // Processes that each took every core would be in each other's way.
            if jobs > 1 && std::env::var_os("RAYON_NUM_THREADS").is_none() {
                command.env("RAYON_NUM_THREADS", &threads);
            }
            command
        };
        let runner = Runner { suite, devices, jobs, timeout: self.timeout, fail_fast: self.fail_fast, worker: &worker };
        let cost = |case: &Case| u64::try_from(case.cost()).unwrap_or(u64::MAX);
        let progress = screen::Progress::new(cases.iter().map(|case| cost(case)).fold(0, u64::saturating_add), "cases");
        runner.run(cases, &mut |result| {
            if let Some(file) = &mut file {
                file.add(&result)?;
            }
            progress.add(suite.case(&result.case).map_or(0, cost));
            results.push(result);
            Ok(())
        })?;
        progress.end();
        Ok(())
    }
}

fn header(suite: &Suite, selection: &Selection, selected: usize, devices: &[(String, String)]) -> RunHeader {
    RunHeader {
        schema: SCHEMA,
        tool: concat!("hipverify ", env!("CARGO_PKG_VERSION")).to_owned(),
        suite: suite.name.clone(),
        fingerprint: suite.fingerprint.clone(),
        cases: suite.cases.len() as u64,
        selection: selection.to_string(),
        selected: selected as u64,
        devices: devices.iter().map(|(shown, _)| shown.clone()).collect(),
        started: SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_secs()),
    }
}

/// The file of results: the path itself, or one of this shard's own in a folder, which is made.
fn file_of(path: &Path, selection: &Selection) -> Result<PathBuf> {
    if path.extension().is_some_and(|e| e == "jsonl") {
        return Ok(path.to_owned());
    }
    std::fs::create_dir_all(path).with_context(|| path.display().to_string())?;
    Ok(path.join(match selection.shard {
        Some(shard) => format!("results-{}.jsonl", shard.to_string().replace('/', "-of-")),
        None => "results.jsonl".to_owned(),
    }))
}

/// What a case means for the exit code.
fn outcome(result: &CaseResult) -> Outcome {
    match result.outcome {
        _ if result.ok => Outcome::Pass,
        CaseOutcome::Error => Outcome::NoVerdict,
        CaseOutcome::Untrusted => Outcome::Untrusted,
        CaseOutcome::Pass | CaseOutcome::Fail | CaseOutcome::Crash | CaseOutcome::Timeout => Outcome::Mismatch,
    }
}
