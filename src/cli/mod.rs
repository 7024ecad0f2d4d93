//! The `hipverify` program: commands and tensor files.
//!
//! One file a command. A command is a struct of flags with `run`, which prints and says pass or mismatch; whatever keeps it
//! from a verdict is an error. To add one: a file, a line in `Command`, a line in `Command::run`.

mod apart;
mod check;
mod compare;
mod convert;
mod demo;
mod devices;
mod fill;
mod golden;
mod input;
mod inspect;
mod junit;
mod manual;
mod mfma;
mod output;
mod pattern;
mod problem;
mod reference;
mod replay;
mod scales;
mod screen;
mod signals;
mod stats;
mod study;
mod suite;
mod tolerance;

use anyhow::Context;
use clap::{CommandFactory, FromArgMatches, Parser};
use std::process::ExitCode;

/// Tells whether a low-precision GPU kernel is right.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100, after_help = after())]
struct Program {
    #[command(subcommand)]
    command: Command,
}

/// What commands that judge end with.
const EXIT_CODES: &str =
    "Exit codes: 0 pass, 1 mismatch, 2 no verdict (bad input or usage, a device that failed), 3 a pass that is not to be trusted.";

/// What follows the flags in the program's help.
fn after() -> String {
    format!(
        "{EXIT_CODES}\nFiles must not change while the program reads them. NO_COLOR and CLICOLOR_FORCE are respected.\n\nExample: hipverify demo"
    )
}

/// The end of every help: where more is to be read about a command.
fn foot(command: &str) -> &'static str {
    match command {
        "fill" => "Documentation: docs/fill.md",
        "golden" => "Documentation: docs/golden.md",
        "mfma" => "Documentation: docs/matrix-cores.md",
        "replay" | "study" => "Documentation: docs/replay.md",
        "suite" => "Documentation: docs/suites.md",
        _ => "Documentation: docs/program.md, and docs/reading-a-report.md for what a verdict says",
    }
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Compares a result with a reference: two tensors, or all tensors of two files
    Compare(Box<compare::Args>),
    /// Judges the result of a GEMM or a convolution from its operands, without a reference
    Check(check::Args),
    /// Shows what a tensor file holds: shapes, dtypes, ranges, classes of values
    Inspect(inspect::Args),
    /// Records hashes and statistics of results, and tells whether results are still the same
    Golden(golden::Args),
    /// Writes a tensor file from a generator
    Fill(fill::Args),
    /// Writes tensors in another format or container, into MX blocks or out of them
    Convert(convert::Args),
    /// Computes a reference for a GEMM or a convolution with a stated arithmetic
    Reference(reference::Args),
    /// Computes what a matrix instruction of an AMD or NVIDIA chip delivers, bit for bit
    Mfma(mfma::Args),
    /// Lists the devices that open, and why others do not
    Devices(devices::Args),
    /// Makes three small files and compares them, to show what a verdict looks like
    Demo(demo::Args),
    /// Shows the numbers of a tolerance profile, their derivation and source
    Tolerance(tolerance::Args),
    /// Computes what the fp16 study of 2022 measured on MI100 and MI200
    Replay(replay::Args),
    /// Prints the tables of the fp16 study of 2022 beside the published figures
    Study(study::Args),
    /// Runs suites of cases and reports on them: kernels against references, over sizes, types and data
    Suite(suite::Args),
    /// Prints what a shell needs to complete commands and flags
    Completions(manual::Completions),
    /// Writes man pages
    Man(manual::Man),
}

impl Command {
    fn run(&self) -> anyhow::Result<Outcome> {
        match self {
            Command::Compare(args) => args.run(),
            Command::Check(args) => args.run(),
            Command::Inspect(args) => args.run(),
            Command::Golden(args) => args.run(),
            Command::Fill(args) => args.run(),
            Command::Convert(args) => args.run(),
            Command::Reference(args) => args.run(),
            Command::Mfma(args) => args.run(),
            Command::Devices(args) => args.run(),
            Command::Demo(args) => args.run(),
            Command::Tolerance(args) => args.run(),
            Command::Replay(args) => args.run(),
            Command::Study(args) => args.run(),
            Command::Suite(args) => args.run(),
            Command::Completions(args) => args.run(),
            Command::Man(args) => args.run(),
        }
    }
}

/// What a command that ran through found, in ascending order of what it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    /// Everything is as it should be.
    Pass,
    /// A pass that could hardly have been a failure.
    Untrusted,
    /// A mismatch.
    Mismatch,
    /// Something could not be judged, and was told on the way.
    NoVerdict,
}

/// The program's flags. Each takes negative numbers, to accept them or to refuse them for what they are. Every help ends with where more is to be
/// read.
fn command() -> clap::Command {
    let numbers = |arg: clap::Arg| {
        let takes_values = arg.get_action().takes_values() && !arg.is_positional();
        if takes_values { arg.allow_negative_numbers(true) } else { arg }
    };
    let ended = |command: clap::Command, foot: &str| {
        let after = command.get_after_help().map_or(String::new(), |text| format!("{text}\n\n"));
        command.after_help(after + foot)
    };
    let program = Program::command().mut_subcommands(|command| {
        let foot = foot(command.get_name());
        ended(command.mut_args(numbers).mut_subcommands(|part| ended(part.mut_args(numbers), foot)), foot)
    });
    ended(program, foot(""))
}

/// How many rules the text of a file for `compare --rules` has. For the fuzzer, which mutates such files.
///
/// # Errors
/// What is wrong with the text, with its line.
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub fn count_rules(text: &str) -> Result<usize, String> {
    compare::count_rules(text)
}

/// How many results the text of a file of golden results has, which are the same when they are written and read again. For the fuzzer, as [`count_rules`].
///
/// # Errors
/// What is wrong with the text.
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub fn count_golden(text: &str) -> Result<usize, String> {
    golden::count(text)
}

/// Runs the program with the arguments of this process.
pub fn main() -> ExitCode {
    let program = match command().try_get_matches().and_then(|matches| Program::from_arg_matches(&matches)) {
        Ok(program) => program,
        Err(e) => {
            // Help and version are no errors and go to stdout. A closed pipe is nobody's loss.
            let code = if e.use_stderr() { 2 } else { 0 };
            let _ = e.print();
            return ExitCode::from(code);
        }
    };
    signals::handle();
    match run(program.command) {
        Ok(Outcome::Pass) => ExitCode::SUCCESS,
        Ok(Outcome::Mismatch) => ExitCode::from(1),
        Ok(Outcome::NoVerdict) => ExitCode::from(2),
        Ok(Outcome::Untrusted) => ExitCode::from(3),
        Err(e) => {
            let chain = e.chain().map(ToString::to_string).collect::<Vec<_>>().join(": ");
            let line = chain.split_whitespace().collect::<Vec<_>>().join(" ");
            let style = screen::BAD;
            screen::note(&format!("{style}error:{style:#} {}", screen::plain(&line)));
            ExitCode::from(2)
        }
    }
}

/// Runs a command. An input that changed meanwhile is an error, whatever the command found.
fn run(command: Command) -> anyhow::Result<Outcome> {
    // Rayon's own start of its threads panics where the system gives none.
    rayon::ThreadPoolBuilder::new()
        .build_global()
        .context("the threads of the host device do not start; RAYON_NUM_THREADS sets their number")?;
    let outcome = command.run()?;
    match crate::files::changed() {
        Some(path) => anyhow::bail!("{}: changed while it was read; nothing that was said about it holds", path.display()),
        None => Ok(outcome),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_help_names_a_page_that_is_there() {
        let pages = ["", "compare", "fill", "golden", "mfma", "replay", "study", "suite"].map(foot);
        for page in pages.iter().flat_map(|foot| foot.split([' ', ',']).filter(|word| word.starts_with("docs/"))) {
            assert!(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(page).exists(), "{page}");
        }
    }

    #[test]
    fn the_page_of_the_program_lists_its_commands() {
        let page = include_str!("../../docs/program.md");
        let listed: Vec<&str> =
            page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | ").map(|(name, _)| name)).collect();
        let program = Program::command();
        let commands: Vec<&str> = program.get_subcommands().map(clap::Command::get_name).collect();
        assert_eq!(listed[..commands.len().min(listed.len())], commands, "in the order of the help");
    }

    #[test]
    fn every_help_has_an_example_and_says_where_more_is() {
        let program = command();
        program.clone().debug_assert();
        let help = |command: &clap::Command| command.get_after_help().map_or(String::new(), ToString::to_string);
        for command in program.get_subcommands().filter(|command| command.get_name() != "help") {
            let example = command.get_subcommands().chain([command]).any(|command| help(command).contains("Example"));
            let foot = foot(command.get_name());
            let said = command.get_subcommands().chain([command]).all(|command| help(command).ends_with(foot));
            assert!(example && said, "{}: {}", command.get_name(), help(command));
        }
        assert!(help(&program).contains("Example") && help(&program).ends_with(foot("")), "{}", help(&program));
    }
}
