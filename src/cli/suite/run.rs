//! `hipverify suite run`, and the processes that compute for it.

use super::super::apart::expect_apart;
use super::super::input::size;
use super::super::{Outcome, screen};
use super::paths::is_of_a_shard;
use super::scratch::Scratch;
use super::{Source, Which, junit};
use crate::device::Device;
use crate::suite::record::{CaseOutcome, CaseResult, RunHeader, SCHEMA};
use crate::suite::{Case, ResultFile, Runner, Saving, Selection, Suite, SuiteFile};
use anyhow::{Context, Result, bail, ensure};
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

/// The flags of `suite run`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub(super) struct Args {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    which: Which,
    /// Where to compute: best (the first GPU, else the host), host, gpu, gpu:N; several, separated by commas, share the cases
    #[arg(long, value_name = "DEVICE,...", value_delimiter = ',', default_value = "best")]
    device: Vec<String>,
    /// How many cases at a time, each in a process of its own; one a device if not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Seconds after which a case has failed and its process is ended; to save its files takes none of them
    #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = seconds)]
    timeout: Duration,
    /// Write the results, a line of JSON as soon as a case has ended: to a file (.jsonl), or into a folder, a file for each shard
    #[arg(long, value_name = "PATH", conflicts_with = "resume")]
    results: Option<PathBuf>,
    /// The same, going on where an earlier run of the same cases stopped
    #[arg(long, value_name = "PATH")]
    resume: Option<PathBuf>,
    /// Keep each case that does not end as expected in a folder of its own in DIR, which must be empty: tensors, case.json, report.txt, command.txt
    #[arg(long, value_name = "DIR")]
    save_on_failure: Option<PathBuf>,
    /// The most bytes of all tensors in that folder; with K, M, G or T in KiB ... TiB
    #[arg(long, value_name = "BYTES", default_value = "1G", value_parser = size)]
    save_limit: u64,
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
    #[command(flatten)]
    source: Source,
    /// Where to compute
    #[arg(long, value_name = "DEVICE", default_value = "best")]
    device: String,
    /// The folder of cases that fail
    #[arg(long, value_name = "DIR")]
    save_on_failure: Option<PathBuf>,
    /// The most bytes of all tensors there
    #[arg(long, value_name = "BYTES", default_value = "1G", value_parser = size)]
    save_limit: u64,
    /// Take the suite of that name that comes with hipverify, whatever files there are
    #[arg(long)]
    embedded: bool,
}

/// What processes that compute are started with: the suite, the folder for their files, and how many threads each may take.
pub(super) struct Workers<'a> {
    pub(super) source: &'a Source,
    /// Whether that is a suite that comes with hipverify. What is called like it may have been made since.
    pub(super) embedded: bool,
    pub(super) sets: &'a [String],
    pub(super) saving: Option<&'a Saving>,
    pub(super) scratch: &'a Path,
    pub(super) jobs: usize,
}

impl Workers<'_> {
    /// The command line of one for a device.
    pub(super) fn command(&self, program: &Path, device: &str) -> Command {
        let mut command = Command::new(program);
        command.args(["suite", "worker", &self.source.suite, "--device", device]).env("TMPDIR", self.scratch);
        command.args(self.sets.iter().flat_map(|set| ["--set", set.as_str()])).args(self.embedded.then_some("--embedded"));
        if let Some(saving) = self.saving {
            command.arg("--save-on-failure").arg(saving.folder()).args(["--save-limit", &saving.limit().to_string()]);
        }
        // Processes that each took every core would be in each other's way.
        if self.jobs > 1 && std::env::var_os("RAYON_NUM_THREADS").is_none() {
            let threads = std::thread::available_parallelism().map_or(1, usize::from).div_ceil(self.jobs);
            command.env("RAYON_NUM_THREADS", threads.to_string());
        }
        command
    }
}

pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|s| Duration::try_from_secs_f64(s).ok()).filter(|d| !d.is_zero());
    seconds.ok_or_else(|| "seconds, more than 0 and less than 2^64, are wanted".to_owned())
}

impl WorkerArgs {
    /// Runs the command.
    pub(super) fn run(&self) -> Result<Outcome> {
        let source = &self.source;
        let file = if self.embedded { source.sets.embedded(&source.suite) } else { source.file() }?;
        let (suite, device) = (source.suite_of(&file)?.on(&self.device), Device::open(&self.device)?);
        let suite = match &self.save_on_failure {
            Some(folder) => suite.saving(Saving::within(folder, self.save_limit)),
            None => suite,
        };
        suite.serve(&device, std::io::stdin().lock(), std::io::stdout().lock())?;
        Ok(Outcome::Pass)
    }
}

impl Args {
    /// Runs the command.
    pub(super) fn run(&self) -> Result<Outcome> {
        ensure!(
            self.junit.as_deref() != Some(Path::new("-")),
            "--junit -: JUnit goes to a file, not to standard output, which has the verdict"
        );
        // Before anything is written, so that an output which is called like the suite is not taken for it.
        let suite = self.source.file();
        let results = self.which.selection().and_then(|selection| Ok((self.file_of_results(&selection)?, selection)));
        self.expect_apart(results.as_ref().ok().and_then(|(file, _)| file.as_deref()), &suite)?;
        // Where the suite cannot be read, nobody knows which files are part of it.
        let junit = self.junit.as_deref().filter(|path| path.extension().is_none_or(|e| e != "toml"));
        junit.map_or(Ok(()), |path| junit::begin(path, &self.source.suite))?;
        let ended = results.and_then(|(file, selection)| self.run_suite(&suite?, &selection, file.as_deref()));
        match junit {
            Some(path) => ended.or_else(|e| junit::failure(path, &self.source.suite, &e).and(Err(e))),
            None => ended,
        }
    }

    /// Refuses files that would be written over others.
    fn expect_apart(&self, results: Option<&Path>, suite: &Result<SuiteFile>) -> Result<()> {
        let read = super::reads(&self.source.suite, suite);
        let flag = if self.resume.is_some() { "--resume" } else { "--results" };
        let written = [(flag, results), ("--junit", self.junit.as_deref())];
        expect_apart(written.into_iter().filter_map(|(flag, path)| Some((flag, path?))), read.iter().map(PathBuf::as_path))
    }

    fn run_suite(&self, suite_file: &SuiteFile, selection: &Selection, file: Option<&Path>) -> Result<Outcome> {
        // A case whose process died is told by this one, which does not know on which of several devices.
        let suite = self.source.suite_of(suite_file)?;
        let suite = if let [device] = self.device.as_slice() { suite.on(device) } else { suite };
        if let (Some(path), None) = (file, &self.resume) {
            ResultFile::discard(path)?;
        }
        let mut devices = self.device.iter().map(|name| Ok((Device::open(name)?.name(), name.clone()))).collect::<Result<Vec<_>>>()?;
        let cases = selection.of(&suite)?;
        let jobs = self.jobs.map_or(devices.len(), usize::from);
        // Without a process it computes nothing.
        devices.truncate(jobs);
        let before_shard = Selection { shard: None, ..selection.clone() }.of(&suite)?.len();
        let header = header(&suite, selection, [cases.len(), before_shard], &devices);
        let started = Instant::now();
        let saving = self.saving(&suite, selection)?;
        let (file, mut results) = self.file(file, &suite, &header)?;
        let resumed = results.len();
        expect_chosen(&results, &cases)?;
        let done: HashSet<&str> = results.iter().map(|result| result.case.as_str()).collect();
        let left: Vec<&Case> = cases.iter().copied().filter(|case| !done.contains(case.name.as_str())).collect();
        let embedded = suite_file.is_of_no_file();
        self.run_cases((&suite, embedded), &left, (&devices, jobs), (file, saving), &mut results)?;
        screen::print(&super::screen::summary(&suite, [cases.len(), resumed], &results, &header, started.elapsed()))?;
        if let Some(path) = &self.junit {
            junit::write(path, &header, &cases, &results)?;
        }
        Ok(results.iter().map(outcome).max().unwrap_or(Outcome::Pass))
    }

    /// The file of results: the path that was given, or one of this shard's own in a folder, which is made.
    fn file_of_results(&self, selection: &Selection) -> Result<Option<PathBuf>> {
        let Some(path) = self.results.as_ref().or(self.resume.as_ref()) else { return Ok(None) };
        ensure!(path != Path::new("-"), "--results -: results go to a file (.jsonl) or a folder, not to standard output");
        if path.extension().is_some_and(|e| e == "jsonl") {
            return Ok(Some(path.clone()));
        }
        // A folder may be called like a file, but not by accident.
        let flag = if self.resume.is_some() { "--resume" } else { "--results" };
        ensure!(
            path.extension().is_none() || path.is_dir() || path.as_os_str().to_string_lossy().ends_with(std::path::is_separator),
            "{flag} {0}: results go to a file whose name ends in .jsonl, or into a folder; for a new folder of that name give {0}/",
            path.display()
        );
        std::fs::create_dir_all(path).with_context(|| path.display().to_string())?;
        if let Some(shard) = selection.shard {
            let whole = path.join("results.jsonl");
            if whole.exists() {
                bail!("{} has results of all cases, {}: name another folder for shards", path.display(), whole.display());
            }
            return Ok(Some(path.join(format!("results-{}.jsonl", shard.to_string().replace('/', "-of-")))));
        }
        let entries = std::fs::read_dir(path).with_context(|| path.display().to_string())?;
        // A file of all cases beside them would have each case twice.
        if let Some(shard) = entries.filter_map(|entry| Some(entry.ok()?.path())).find(|path| is_of_a_shard(path)) {
            bail!("{} has results of shards, such as {}: give --shard, or name another folder", path.display(), shard.display());
        }
        Ok(Some(path.join("results.jsonl")))
    }

    /// The file of results, begun or gone on with, and what it holds of an earlier run.
    fn file(&self, path: Option<&Path>, suite: &Suite, header: &RunHeader) -> Result<(Option<ResultFile>, Vec<CaseResult>)> {
        let Some(path) = path else { return Ok((None, Vec::new())) };
        if self.resume.is_some() {
            let (file, results) = ResultFile::resume(path, suite, header)?;
            return Ok((Some(file), results));
        }
        Ok((Some(ResultFile::create(path, header)?), Vec::new()))
    }

    /// The folder of failed cases: the one that was named, or one of this shard's own in it.
    fn saving(&self, suite: &Suite, selection: &Selection) -> Result<Option<Saving>> {
        let Some(folder) = &self.save_on_failure else { return Ok(None) };
        let folder = match selection.shard {
            Some(shard) => folder.join(format!("shard-{}", shard.to_string().replace('/', "-of-"))),
            None => folder.clone(),
        };
        Ok(Some(Saving::begin(&folder, self.save_limit, suite, self.resume.is_some())?))
    }

    fn run_cases(
        &self,
        (suite, embedded): (&Suite, bool),
        cases: &[&Case],
        (devices, jobs): (&[(String, String)], usize),
        (mut file, saving): (Option<ResultFile>, Option<Saving>),
        results: &mut Vec<CaseResult>,
    ) -> Result<()> {
        if cases.is_empty() {
            return Ok(());
        }
        let program = std::env::current_exe().context("the path of this program")?;
        // A process that is ended leaves its files behind: they go with this folder.
        let scratch = Scratch::new()?;
        let sets = &self.source.sets.set;
        let workers = Workers { source: &self.source, embedded, sets, saving: saving.as_ref(), scratch: scratch.path(), jobs };
        let worker = |device: &str| workers.command(&program, device);
        let runner = Runner { suite, devices, jobs, timeout: self.timeout, fail_fast: self.fail_fast, worker: &worker };
        let cost = |case: &Case| u64::try_from(case.cost()).unwrap_or(u64::MAX);
        let by_name: HashMap<&str, &Case> = cases.iter().map(|case| (case.name.as_str(), *case)).collect();
        let progress = screen::Progress::new(cases.iter().map(|case| cost(case)).fold(0, u64::saturating_add), "cases");
        runner.run(cases, &mut |mut result| {
            let _held = super::scratch::hold();
            let case = by_name.get(result.case.as_str()).copied();
            if let (Some(saving), Some(case)) = (&saving, case) {
                keep_what_ended(saving, case, &mut result);
            }
            if let Some(file) = &mut file {
                file.add(&result)?;
            }
            progress.add(case.map_or(0, cost));
            results.push(result);
            Ok(())
        })?;
        progress.end();
        Ok(())
    }
}

/// Refuses results of an earlier run that are of none of the cases that are to run.
fn expect_chosen(results: &[CaseResult], cases: &[&Case]) -> Result<()> {
    let chosen: HashSet<&str> = cases.iter().map(|case| case.name.as_str()).collect();
    match results.iter().find(|result| !chosen.contains(result.case.as_str())) {
        Some(result) => bail!("the results to go on with have case `{}`, which is none of those that are to run", result.case),
        None => Ok(()),
    }
}

/// Keeps a case whose process was not there any more to do it.
fn keep_what_ended(saving: &Saving, case: &Case, result: &mut CaseResult) {
    let (CaseOutcome::Crash | CaseOutcome::Timeout) = result.outcome else { return };
    if let Err(e) = saving.save(case, result) {
        result.reasons.push(format!("its files were not saved: {e}"));
    }
}

fn header(suite: &Suite, selection: &Selection, [selected, before_shard]: [usize; 2], devices: &[(String, String)]) -> RunHeader {
    RunHeader {
        schema: SCHEMA,
        tool: concat!("hipverify ", env!("CARGO_PKG_VERSION")).to_owned(),
        suite: suite.name.clone(),
        fingerprint: suite.fingerprint.clone(),
        code: suite.code(),
        cases: suite.cases.len() as u64,
        selection: selection.to_string(),
        selected: selected as u64,
        before_shard: before_shard as u64,
        devices: devices.iter().map(|(shown, _)| shown.clone()).collect(),
        started: SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_secs()),
    }
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
