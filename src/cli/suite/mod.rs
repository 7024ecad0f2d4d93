//! `hipverify suite`: cases of a file, run, listed, shown; results joined and reported on.

mod junit;
mod merge;
mod report;
mod run;
mod screen;
mod shrink;

use super::Outcome;
use crate::suite::{Case, Kernels, Selection, Shard, Suite, SuiteFile, schema};
use anyhow::Result;

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
    /// Shows what one case does
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

/// A suite, with keys that have other values.
#[derive(Debug, clap::Args)]
struct Source {
    /// A suite file, or the name of a suite that comes with hipverify
    suite: String,
    /// Give a key another value, in every table that knows it or in one: type=bf16, gemm.size=3x1x5; may be given several times
    #[arg(long, value_name = "[TABLE.]KEY=VALUE")]
    set: Vec<String>,
}

impl Source {
    fn file(&self) -> Result<SuiteFile> {
        let mut file = SuiteFile::find(&self.suite)?;
        self.set.iter().try_for_each(|set| file.set(set))?;
        Ok(file)
    }

    fn open(&self) -> Result<Suite> {
        Ok(Suite::new(&self.file()?, &self.suite, Kernels::default())?)
    }
}

/// Which cases.
#[derive(Debug, clap::Args)]
struct Which {
    /// Only cases whose name has this part, or is it after `=`; may be given several times
    #[arg(long, value_name = "PART")]
    filter: Vec<String>,
    /// Only cases of this group, or whose axis has this value, such as type=f16; may be given several times
    #[arg(long, value_name = "GROUP")]
    group: Vec<String>,
    /// Only the I-th of N shares of about the same cost; auto takes both from Slurm, Open MPI, PMI or a CI's matrix
    #[arg(long, value_name = "I/N")]
    shard: Option<Shard>,
}

impl Which {
    fn selection(&self) -> Selection {
        Selection { filters: self.filter.clone(), groups: self.group.clone(), shard: self.shard }
    }
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Example: hipverify suite list smoke --group type=f16")]
struct List {
    /// A suite file, or the name of a suite that comes with hipverify
    suite: Option<String>,
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

/// The case of that name.
fn named<'a>(suite: &'a Suite, name: &str) -> Result<&'a Case> {
    suite
        .case(name)
        .ok_or_else(|| anyhow::anyhow!("{} has no case `{name}`; `hipverify suite list {}` has their names", suite.name, suite.source))
}

/// Reads a suite.
pub(super) fn open(name: &str) -> Result<Suite> {
    Ok(Suite::new(&SuiteFile::find(name)?, name, Kernels::default())?)
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
                let suite = open(name)?;
                let cases = self.which.selection().of(&suite)?;
                cases.iter().map(|case| format!("{}\n", case.name)).collect()
            }
            None => SuiteFile::embedded().map(about).collect::<Result<String>>()?,
        };
        super::screen::print(&text)?;
        Ok(Outcome::Pass)
    }
}

/// A line about a suite that comes with hipverify.
fn about(name: &'static str) -> Result<String> {
    let suite = open(name)?;
    Ok(format!("{name:<12} {:>6} cases  {}\n", super::screen::count(suite.cases.len() as u64), suite.description))
}

impl Show {
    fn run(&self) -> Result<Outcome> {
        let suite = self.source.open()?;
        super::screen::print(&shown(&suite, named(&suite, &self.case)?))?;
        Ok(Outcome::Pass)
    }
}

fn shown(suite: &Suite, case: &Case) -> String {
    let mut lines = vec![("case", case.name.clone()), ("computes", case.about())];
    lines.extend(case.axes.iter().map(|(key, value)| (key.as_str(), value.clone())));
    lines.extend((!case.groups.is_empty()).then(|| ("groups", case.groups.join(" "))));
    lines.push(("expected", format!("{:?}", case.expected).to_lowercase()));
    lines.extend(case.limits.iter().map(|(name, limit)| ("limit", format!("{name} <= {limit:e}"))));
    lines.push(("command", suite.command(case)));
    lines.into_iter().map(|(label, text)| format!("{label:<14} {text}\n")).collect()
}
