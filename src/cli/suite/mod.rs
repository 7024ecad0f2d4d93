//! `hipverify suite`: cases of a file, run, listed, shown; results joined and reported on.

mod junit;
mod merge;
mod paths;
mod report;
mod run;
pub(super) mod scratch;
mod screen;
mod shrink;

use super::Outcome;
use crate::suite::report::Run;
use crate::suite::{Case, Kernels, Selection, Shard, Suite, SuiteFile, schema};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};

/// The flags of `suite`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: hipverify suite run smoke")]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Runs the cases of a suite
    Run(run::Args),
    /// Lists the cases of a suite; without one, the suites that come with hipverify
    List(List),
    /// Shows everything that decides one case
    Show(Show),
    /// Shows a run, what changed since another one, or a row of runs
    Report(report::Args),
    /// Joins the results of several runs into those of one
    Merge(merge::Args),
    /// Searches the smallest size at which a case still fails in the same way
    Shrink(shrink::Args),
    /// Computes cases for `suite run`: their names come from standard input
    #[command(hide = true)]
    Worker(run::WorkerArgs),
    /// Prints the JSON schema of suite files, for editors
    Schema(Schema),
}

/// Keys of a suite, which the command's argument `suite` names, that have other values.
#[derive(Debug, clap::Args)]
pub(super) struct Sets {
    /// Give a key another value, in every table that knows it or in one: type=bf16, gemm.size=3x1x5; may be given several times
    #[arg(long, value_name = "[TABLE.]KEY=VALUE", requires = "suite")]
    set: Vec<String>,
}

impl Sets {
    fn file(&self, suite: &str) -> Result<SuiteFile> {
        self.applied(SuiteFile::find(suite)?)
    }

    /// A suite that comes with hipverify, whatever files there are.
    fn embedded(&self, suite: &str) -> Result<SuiteFile> {
        self.applied(SuiteFile::coming_with(suite).with_context(|| format!("{suite}: no suite that comes with hipverify"))??)
    }

    fn applied(&self, mut file: SuiteFile) -> Result<SuiteFile> {
        self.set.iter().try_for_each(|set| file.set(set))?;
        Ok(file)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.set.is_empty()
    }

    /// The files that a suite reads, as far as it names them; of one that cannot be read, its own.
    pub(super) fn reads(&self, suite: &str) -> Vec<PathBuf> {
        reads(suite, &self.file(suite))
    }

    /// Reads a suite.
    pub(super) fn open(&self, suite: &str) -> Result<Suite> {
        Ok(Suite::new(&self.file(suite)?, suite, Kernels::default())?)
    }
}

/// The files that a suite reads, as far as it names them; of one that could not be read, its own.
fn reads(suite: &str, file: &Result<SuiteFile>) -> Vec<PathBuf> {
    file.as_ref().map_or_else(|_| vec![PathBuf::from(suite)], SuiteFile::inputs)
}

/// A suite, with keys that have other values.
#[derive(Debug, clap::Args)]
struct Source {
    /// A suite file, or the name of a suite that comes with hipverify
    suite: String,
    #[command(flatten)]
    sets: Sets,
}

impl Source {
    fn file(&self) -> Result<SuiteFile> {
        self.sets.file(&self.suite)
    }

    /// The suite of its [`file`](Source::file).
    fn suite_of(&self, file: &SuiteFile) -> Result<Suite> {
        Ok(Suite::new(file, &self.suite, Kernels::default())?)
    }

    fn open(&self) -> Result<Suite> {
        self.sets.open(&self.suite)
    }
}

/// Which cases.
#[derive(Debug, clap::Args)]
struct Which {
    /// Only cases whose name has this part, or is it after `=`. Of several --filter one has to fit, and one of several --group as well
    #[arg(long, value_name = "PART", requires = "suite")]
    filter: Vec<String>,
    /// Only cases of this group, or whose axis has this value, such as type=f16. Of several --group one has to fit, and one of several --filter as well
    #[arg(long, value_name = "GROUP", requires = "suite")]
    group: Vec<String>,
    /// Only the I-th of N shares of about the same cost; auto takes both from Slurm, Open MPI, PMI or a CI's matrix
    #[arg(long, value_name = "I/N", requires = "suite")]
    shard: Option<String>,
}

impl Which {
    /// What was chosen. The share is read here and not with the other flags, so that machines are told where it is none.
    fn selection(&self) -> Result<Selection> {
        let shard = self.shard.as_deref().map(str::parse::<Shard>).transpose().context("--shard")?;
        Ok(Selection { filters: self.filter.clone(), groups: self.group.clone(), shard })
    }
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Example: hipverify suite list smoke --group type=f16")]
struct List {
    /// A suite file, or the name of a suite that comes with hipverify
    suite: Option<String>,
    #[command(flatten)]
    sets: Sets,
    #[command(flatten)]
    which: Which,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Example: hipverify suite show smoke chips/64x64x64/f16/gfx90a")]
struct Show {
    #[command(flatten)]
    source: Source,
    /// The case's name
    case: String,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Example: hipverify suite schema > suite.schema.json")]
struct Schema {}

/// Files of results: those that are given, and in folders those that are there, by name.
pub(super) fn files_of_results(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let entries = std::fs::read_dir(path).with_context(|| path.display().to_string())?;
        let mut inside: Vec<PathBuf> = entries.map(|entry| entry.map(|e| e.path())).collect::<Result<_, _>>()?;
        inside.retain(|path| path.extension().is_some_and(|e| e == "jsonl"));
        // What was merged into the folder of its shards is no part of them.
        if inside.iter().any(|path| paths::is_of_a_shard(path)) {
            inside.retain(|path| paths::is_of_a_shard(path));
        }
        inside.sort();
        if inside.is_empty() {
            bail!("{}: no file of results (.jsonl) is there", path.display());
        }
        files.extend(inside);
    }
    Ok(files)
}

/// The run of a file of results, or of all of a folder together.
fn run_of(path: &Path) -> Result<Run> {
    if !path.is_dir() {
        return Ok(Run::read(path)?);
    }
    let parts = files_of_results(&[path.to_owned()])?.iter().map(|file| Run::read(file)).collect::<crate::Result<Vec<_>>>()?;
    Ok(Run { source: path.display().to_string(), ..Run::join(&parts)? })
}

/// The case of that name.
fn named<'a>(suite: &'a Suite, name: &str) -> Result<&'a Case> {
    suite
        .case(name)
        .ok_or_else(|| anyhow::anyhow!("{} has no case `{name}`; `hipverify suite list {}` has their names", suite.name, suite.source))
}

impl Args {
    /// Runs the command.
    pub(super) fn run(&self) -> Result<Outcome> {
        match &self.command {
            Command::Run(args) => args.run(),
            Command::List(args) => args.run(),
            Command::Show(args) => args.run(),
            Command::Report(args) => args.run(),
            Command::Merge(args) => args.run(),
            Command::Shrink(args) => args.run(),
            Command::Worker(args) => args.run(),
            Command::Schema(Schema {}) => {
                super::screen::print_json(&schema())?;
                Ok(Outcome::Pass)
            }
        }
    }
}

impl List {
    fn run(&self) -> Result<Outcome> {
        let text = match &self.suite {
            Some(name) => {
                let suite = self.sets.open(name)?;
                let cases = self.which.selection()?.of(&suite)?;
                cases.iter().map(|case| format!("{}\n", super::screen::plain(&case.name))).collect()
            }
            None => SuiteFile::embedded().map(about).collect::<Result<String>>()?,
        };
        super::screen::print(&text)?;
        Ok(Outcome::Pass)
    }
}

/// A line about a suite that comes with hipverify.
fn about(name: &'static str) -> Result<String> {
    let suite = Suite::new(&SuiteFile::find(name)?, name, Kernels::default())?;
    Ok(format!("{name:<12} {:>6} cases  {}\n", super::screen::count(suite.cases.len() as u64), suite.description))
}

impl Show {
    fn run(&self) -> Result<Outcome> {
        let suite = self.source.open()?;
        super::screen::print(&shown(&suite, named(&suite, &self.case)?)?)?;
        Ok(Outcome::Pass)
    }
}

fn shown(suite: &Suite, case: &Case) -> Result<String> {
    let mut lines = Vec::new();
    for (label, text) in case.facts() {
        let rule = label == "rule";
        lines.push((label, text));
        // What the rule demands of this case stands below it.
        if let (true, Some(limits)) = (rule, case.rule()?) {
            let demands = match case.rounding_scale() {
                Some(scale) => super::tolerance::lines_with(&limits, scale),
                None => super::tolerance::lines(&limits),
            };
            lines.extend(demands.into_iter().map(|(label, text)| (format!("  {label}"), text)));
            lines.push(("  derived".to_owned(), limits.derivation));
        }
    }
    lines.push(("command".to_owned(), suite.command(case)));
    Ok(lines.into_iter().map(|(label, text)| format!("{label:<14} {text}\n")).collect())
}
