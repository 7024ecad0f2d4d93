//! `hipverify golden`: results that were right once, as a small file of hashes and statistics, and whether results are still the same.

mod check;
mod file;
#[cfg(feature = "fuzzing")]
mod fuzzing;
mod output;

#[cfg(feature = "fuzzing")]
pub(super) use fuzzing::count;

use super::apart::expect_apart;
use super::compare::rules::{self, NamedRule};
use super::input::InputArgs;
use super::screen;
use super::{Outcome, suite};
use crate::device::{Device, Layout, TensorRef};
use crate::dtype::DType;
use crate::error::Error;
use crate::suite::{Guard, Selection, Suite};
use crate::verify::{AllowedMismatches, Judge, Limits};
use anyhow::{Context, Result, bail, ensure};
use check::State;
use file::{Entry, Golden, Recorded};
use output::{Findings, Machines};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The flags of `golden`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: hipverify golden record golden.toml outputs/ && hipverify golden check golden.toml outputs/")]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Records hashes and statistics of tensors, in place of those of the same architecture
    Record(Record),
    /// Holds tensors against what was recorded: bit for bit, or by statistics within a tolerance
    Check(Check),
}

/// Which tensors.
#[derive(Debug, clap::Args)]
struct Source {
    /// The file of golden results
    #[arg(value_name = "GOLDEN.toml")]
    golden: PathBuf,
    /// A tensor file, an index of shards, or a folder of these
    #[arg(value_name = "TENSORS", required_unless_present = "suite", conflicts_with = "suite")]
    tensors: Option<PathBuf>,
    /// The results of a suite's kernels instead, which are computed: a suite file, or the name of a suite that comes with hipverify
    #[arg(long, value_name = "SUITE")]
    suite: Option<String>,
    #[command(flatten)]
    sets: suite::Sets,
    /// Only cases whose name has this part, or is it after `=`; may be given several times
    #[arg(long, value_name = "PART", conflicts_with = "tensors")]
    filter: Vec<String>,
    /// Only cases of this group, or whose axis has this value, such as type=f16; may be given several times
    #[arg(long, value_name = "GROUP", conflicts_with = "tensors")]
    group: Vec<String>,
    /// Where the suite's kernels run: best (the first GPU, else the host), host, gpu, gpu:N
    #[arg(long, value_name = "DEVICE", default_value = "best", conflicts_with = "tensors")]
    device: String,
    /// The architecture that the tensors are of; that of the device, or `any` for tensor files, if not given
    #[arg(long, value_name = "NAME")]
    arch: Option<String>,
    #[command(flatten)]
    input: InputArgs,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Example: hipverify golden record golden.toml outputs/ --arch gfx90a")]
struct Record {
    #[command(flatten)]
    source: Source,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Example: hipverify golden check golden.toml outputs/ --arch gfx90a --rule '*.bias:rtol=1e-3,atol=1e-5'")]
struct Check {
    #[command(flatten)]
    source: Source,
    /// Tensors of these names by their statistics, within this tolerance, instead of bit for bit; the first that matches counts. KEY is rtol, atol, accumulations, profile, or
    /// another one of `compare --rules` that makes a tolerance
    #[arg(long, value_name = "GLOB:KEY=VALUE,...", value_parser = rules::named)]
    rule: Vec<NamedRule>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Also write a JUnit file, one test case a tensor
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
}

impl Args {
    /// Runs the command.
    pub(super) fn run(&self) -> Result<Outcome> {
        match &self.command {
            Command::Record(args) => args.run(),
            Command::Check(args) => args.run(),
        }
    }
}

/// Tensors that were read or computed.
struct Found {
    arch: String,
    device: Option<String>,
    tensors: BTreeMap<String, Entry>,
    /// Names that there are, and that were not asked for.
    left_out: BTreeSet<String>,
    /// Whether the one tensor has the name of its file, for lack of its own.
    named_by_file: bool,
}

impl Source {
    /// The files that tensors come from: their own, or all that the suite reads.
    fn reads(&self) -> Vec<PathBuf> {
        let of_suite = self.suite.iter().flat_map(|suite| self.sets.reads(suite));
        self.tensors.iter().cloned().chain(of_suite).collect()
    }

    fn found(&self) -> Result<Found> {
        let mut found = match (&self.suite, &self.tensors) {
            (Some(name), _) => self.of_suite(&self.sets.open(name)?)?,
            (None, Some(_)) if !self.sets.is_empty() => bail!("--set: tensor files have no keys; it is for --suite"),
            (None, Some(path)) => self.of_files(path)?,
            (None, None) => bail!("TENSORS or --suite is wanted"),
        };
        if let Some(arch) = &self.arch {
            found.arch.clone_from(arch);
        }
        match found.arch.as_str() {
            "" => bail!("--arch: an empty name is none of an architecture"),
            file::VERSION_KEY => bail!("--arch {}: the file has its version by that name", found.arch),
            _ => {}
        }
        if found.tensors.is_empty() {
            bail!("there is no tensor to record or to check");
        }
        Ok(found)
    }

    /// Whether a tensor of this name is one of those that were asked for.
    fn asks_for(&self, name: &str, found: &Found) -> bool {
        let one = self.input.tensor.as_deref();
        !found.left_out.contains(name) && self.input.wants(name) && one.is_none_or(|one| one == name)
    }

    fn of_files(&self, path: &Path) -> Result<Found> {
        let file = self.input.open(path, 0, 1)?;
        self.input.check_used(&[&file])?;
        let stem = || path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let mut tensors = BTreeMap::new();
        for tensor in file.tensors() {
            let name = if file.nameless() { stem() } else { tensor.name().to_owned() };
            let entry = Entry::of(&tensor.load()?.view()?, self.input.max_memory);
            tensors.insert(name, entry.map_err(|reason| Error::File { path: tensor.label(), reason })?);
        }
        Ok(Found { arch: "any".to_owned(), device: None, tensors, left_out: BTreeSet::new(), named_by_file: file.nameless() })
    }

    fn of_suite(&self, suite: &Suite) -> Result<Found> {
        let selection = Selection { filters: self.filter.clone(), groups: self.group.clone(), shard: None };
        let cases = selection.of(suite)?;
        let device = Device::open(&self.device)?;
        let progress = screen::Progress::new(cases.len() as u64, "cases");
        let (mut tensors, mut without) = (BTreeMap::new(), 0);
        for case in &cases {
            let output = suite.output(case, &device).map_err(|e| anyhow::anyhow!("case `{}`: {e}", case.name))?;
            match output {
                Some(guard) => drop(tensors.insert(case.name.clone(), entry(&guard)?)),
                None => without += 1,
            }
            progress.add(1);
        }
        progress.end();
        if without > 0 {
            screen::note(&format!("{without} cases are runs of the study, which have no tensor, and are left out"));
        }
        let selected: BTreeSet<&str> = cases.iter().map(|case| case.name.as_str()).collect();
        let left_out = suite.cases.iter().filter(|case| !selected.contains(case.name.as_str())).map(|case| case.name.clone()).collect();
        // `gfx90a:sramecc+:xnack-`: the features do not change what is computed.
        let arch = device.arch().map_or("host", |arch| arch.split(':').next().unwrap_or(arch)).to_owned();
        Ok(Found { arch, device: Some(device.name()), tensors, left_out, named_by_file: false })
    }
}

/// Of a result, which is copied to the host.
fn entry(guard: &Guard) -> Result<Entry> {
    let bytes = guard.to_bytes()?;
    let tensor = TensorRef::from_host_bytes(&bytes, guard.dtype(), Layout::contiguous(guard.shape())?)?;
    Entry::of(&tensor, bytes.len() as u64).map_err(anyhow::Error::msg)
}

impl Record {
    fn run(&self) -> Result<Outcome> {
        let machines = Machines { command: "record", golden: &self.source.golden, json: self.json, junit: None };
        told(&machines, || {
            let findings = self.record()?;
            let [same, changed, new, gone] = [State::Same.word(), "differs", State::New.word(), State::Missing.word()]
                .map(|word| findings.count(|state| state.word() == word));
            let (golden, arch) = (self.source.golden.display(), screen::plain(&findings.found.arch));
            let count = screen::counted(findings.found.tensors.len() as u64, "tensor");
            let shown = format!("{golden}  {arch}: {count} recorded   {same} as before, {changed} changed, {new} new, {gone} gone\n");
            Ok((findings, Outcome::Pass, shown))
        })
    }

    /// Writes the file.
    fn record(&self) -> Result<Findings> {
        let (path, read) = (&self.source.golden, self.source.reads());
        expect_apart([("GOLDEN.toml", path.as_path())], read.iter().map(PathBuf::as_path))?;
        let mut golden = Golden::read_or_empty(path)?;
        let found = self.source.found()?;
        let mut recorded = golden.0.remove(&found.arch).unwrap_or_default();
        let (asked, others) = recorded.tensors.into_iter().partition(|(name, _)| self.source.asks_for(name, &found));
        recorded.tensors = asked;
        let states = check::compare(&recorded, &found.tensors, &|_, _| Ok(None))?;
        let tensors = found.tensors.clone().into_iter().chain(others).collect();
        golden.0.insert(found.arch.clone(), Recorded { device: found.device.clone(), tensors });
        crate::files::replace(path, |out| out.write_all(golden.text().as_bytes()))?;
        Ok(Findings { found, recorded, states })
    }
}

/// Tells people or machines what a command finds: what became of tensors, its outcome, and the screen.
fn told(machines: &Machines<'_>, find: impl FnOnce() -> Result<(Findings, Outcome, String)>) -> Result<Outcome> {
    match find() {
        Ok((findings, outcome, shown)) => {
            machines.tell(&findings, outcome, &shown)?;
            Ok(outcome)
        }
        Err(e) => {
            machines.failure(&e)?;
            Err(e)
        }
    }
}

impl Check {
    fn run(&self) -> Result<Outcome> {
        let path = self.source.golden.as_path();
        let machines = Machines { command: "check", golden: path, json: self.json, junit: self.junit.as_deref() };
        if let Some(junit) = &self.junit {
            let read = self.source.reads();
            expect_apart([("--junit", junit.as_path())], read.iter().map(PathBuf::as_path).chain([path]))?;
        }
        machines.begin()?;
        told(&machines, || {
            let findings = self.check()?;
            let (outcome, shown) = (findings.outcome(), findings.shown(path));
            Ok((findings, outcome, shown))
        })
    }

    fn check(&self) -> Result<Findings> {
        let path = &self.source.golden;
        let mut golden = Golden::read(path)?;
        let found = self.source.found()?;
        let there = golden.0.keys().map(|arch| screen::plain(arch)).collect::<Vec<_>>().join(" ");
        let Some(mut recorded) = golden.0.remove(&found.arch) else {
            let (path, arch) = (path.display(), screen::plain(&found.arch));
            ensure!(!there.is_empty(), "{path} has no results (`golden record` adds some)");
            bail!("{path} has no results of {arch}; it has {there} (--arch chooses, `golden record` adds)");
        };
        recorded.tensors.retain(|name, _| self.source.asks_for(name, &found));
        let states = check::compare(&recorded, &found.tensors, &|name, entry| self.limits(name, entry))?;
        rules::unused(&self.rule, states.iter().map(|(name, _)| name.as_str()));
        Ok(Findings { found, recorded, states })
    }

    /// The limits of a tensor; none for one that is compared bit for bit.
    fn limits(&self, name: &str, entry: &Entry) -> Result<Option<Limits>> {
        let dtype: DType = entry.dtype.parse()?;
        let Some(rule) = self.rule.iter().find(|rule| rule.is_for(name, dtype)) else { return Ok(None) };
        let limits = rule.limits(dtype, dtype, None).with_context(|| format!("the rule for {}", screen::plain(name)))?;
        if limits.judge != Judge::Elements || limits.allowed != AllowedMismatches::NONE || limits.tolerance.rtol() >= 1.0 {
            bail!(
                "the rule for {}: golden results have a tolerance with rtol < 1, no metrics and no allowed mismatches",
                screen::plain(name)
            );
        }
        Ok(Some(limits))
    }
}
