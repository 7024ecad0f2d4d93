//! Mutated inputs for every parser, and random comparisons against their definition, on stable Rust.
//!
//! ```sh
//! cargo run --release -p hipverify-fuzz -- --seconds 1200
//! ```
//!
//! divides the time among all harnesses and uses all cores; `--harness NAME` runs one, `--seed N` makes other choices, `--times N`
//! in place of a time is the same on every machine: N times what the test tries, on one thread. A choice is a function of seed, harness
//! and thread. What fails is made small, written to `--findings FOLDER` (by default the corpus, where the test replays it from then
//! on), and the program ends with code 1. A finding is a panic, an execution of more than [`engine::SLOW`], or one that holds more memory than [`memory::allowed`].

mod engine;
mod harness;
mod memory;
mod mutate;

use anyhow::{Result, bail};
use engine::Finding;
use harness::{HARNESSES, Harness};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

struct Args {
    seconds: u64,
    /// In place of a time: as many times what the test tries.
    times: Option<u64>,
    seed: u64,
    threads: usize,
    harness: Option<String>,
    corpus: PathBuf,
    findings: Option<PathBuf>,
}

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

fn args() -> Result<Args> {
    use lexopt::{Arg, ValueExt};
    let threads = std::thread::available_parallelism()?.get();
    let mut args = Args { seconds: 60, times: None, seed: 1, threads, harness: None, corpus: corpus(), findings: None };
    let mut parser = lexopt::Parser::from_env();
    while let Some(arg) = parser.next()? {
        match arg {
            Arg::Long("seconds") => args.seconds = parser.value()?.parse()?,
            Arg::Long("times") => args.times = Some(parser.value()?.parse()?),
            Arg::Long("seed") => args.seed = parser.value()?.parse()?,
            Arg::Long("threads") => args.threads = parser.value()?.parse()?,
            Arg::Long("harness") => args.harness = Some(parser.value()?.string()?),
            Arg::Long("corpus") => args.corpus = parser.value()?.into(),
            Arg::Long("findings") => args.findings = Some(parser.value()?.into()),
            other => return Err(other.unexpected().into()),
        }
    }
    Ok(args)
}

fn main() -> ExitCode {
    match args().and_then(|args| run(&args)) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(findings) => {
            eprintln!("{findings} findings");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Runs the harnesses that were asked for. Gives the number of findings.
fn run(args: &Args) -> Result<usize> {
    let chosen: Vec<&Harness> = HARNESSES.iter().filter(|h| args.harness.as_deref().is_none_or(|name| name == h.name)).collect();
    if chosen.is_empty() {
        bail!("no such harness; there are: {}", HARNESSES.iter().map(|h| h.name).collect::<Vec<_>>().join(", "));
    }
    let time = Duration::from_secs(args.seconds) / chosen.len() as u32;
    let (mut executions, mut findings) = (0, 0);
    for harness in chosen {
        let corpus = engine::read(&args.corpus.join(harness.name))?;
        let outcome = match args.times {
            Some(times) => engine::run_times(harness, &corpus, args.seed, times * harness.tried),
            None => engine::run_for(harness, &corpus, args.seed, args.threads.max(1), time),
        };
        println!(
            "{:<14} {:>14} executions, {:>5} kinds of outcome, {} findings",
            harness.name,
            outcome.executions,
            outcome.kinds,
            outcome.findings.len()
        );
        executions += outcome.executions;
        findings += outcome.findings.len();
        for finding in &outcome.findings {
            report(harness, finding, args.findings.as_ref().unwrap_or(&args.corpus))?;
        }
    }
    println!("{:<14} {executions:>14} executions", "all");
    Ok(findings)
}

fn report(harness: &Harness, finding: &Finding, folder: &Path) -> Result<()> {
    let folder = folder.join(harness.name);
    std::fs::create_dir_all(&folder)?;
    let path = folder.join(format!("finding-{:016x}", engine::hash(&finding.input)));
    std::fs::write(&path, &finding.input)?;
    println!("  {}: {}", path.display(), finding.what);
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by a panic")]
    use super::*;

    /// What was found once, examples of each kind of input, and a few mutations of them.
    #[test]
    fn the_corpus_and_some_mutations_find_nothing() {
        for harness in HARNESSES {
            let corpus = engine::read(&super::corpus().join(harness.name)).unwrap();
            assert!(!corpus.is_empty(), "{} has no corpus", harness.name);
            let outcome = engine::run_times(harness, &corpus, 1, harness.tried);
            let found: Vec<_> = outcome.findings.iter().map(|f| format!("{}: {}", f.what, f.input.escape_ascii())).collect();
            assert!(found.is_empty(), "{}: {found:?}", harness.name);
            assert!(outcome.kinds > 3, "{}: {} kinds of outcome: the inputs do not reach it", harness.name, outcome.kinds);
        }
    }

    #[test]
    fn what_is_wrong_is_found_and_made_small() {
        type Case = (&'static str, fn(&[u8]) -> u64, &'static str, &'static str);
        let cases: [Case; 3] = [
            (
                "panic",
                |input| input.windows(2).any(|w| w == b"XY").then(|| panic!("as planned")).map_or(0, |()| 1),
                "abcdefghXYabcdefgh",
                "as planned",
            ),
            (
                "memory",
                |input| u64::from(input.contains(&b'X') && Vec::<u8>::with_capacity(1 << 30).is_empty()),
                "abcdefghXYabcdefgh",
                "bytes",
            ),
            // Short, as each try takes its time.
            ("time", |input| input.contains(&b'X').then(|| std::thread::sleep(engine::SLOW)).map_or(0, |()| 1), "X", "took"),
        ];
        for (name, run, input, words) in cases {
            let harness = Harness { name, run, tokens: &["XY"], tried: 1 };
            let outcome = engine::run_times(&harness, &[input.into()], 1, 1);
            let Some(finding) = outcome.findings.first() else { panic!("{name}: nothing was found") };
            assert!(finding.what.contains(words), "{name}: {}", finding.what);
            assert!(finding.input.len() <= 2, "{name}: {}", finding.input.escape_ascii());
        }
    }
}
