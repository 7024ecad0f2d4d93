//! Runs a harness on mutated inputs.
//!
//! An input whose outcome is of a new kind joins the inputs that are mutated: a kind is what the harness returns, for parsers a hash of the error without
//! its numbers. That leads into a parser, error by error, without the coverage that only nightly compilers measure.

use crate::harness::Harness;
use crate::{memory, mutate};
use anyhow::Result;
use fastrand::Rng;
use std::cell::Cell;
use std::collections::HashSet;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::{Duration, Instant};

/// An execution that takes longer is a finding. On a machine that does other things as well each is given this time twice.
pub(crate) const SLOW: Duration = Duration::from_millis(500);
/// An execution that takes longer may never end: it is told, and the program ends.
const ENDLESS: Duration = Duration::from_secs(20);
/// Inputs that a thread keeps to mutate.
const MOST: usize = 4096;

/// An input that something is wrong with.
pub(crate) struct Finding {
    pub(crate) input: Vec<u8>,
    pub(crate) what: String,
}

#[derive(Default)]
pub(crate) struct Outcome {
    pub(crate) executions: u64,
    pub(crate) kinds: usize,
    pub(crate) findings: Vec<Finding>,
}

thread_local! {
    /// Whether an input is being run: a panic is a finding then, and nothing to print.
    static RUNS: Cell<bool> = const { Cell::new(false) };
}

fn silence_findings() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let print = take_hook();
        set_hook(Box::new(move |panic| {
            if !RUNS.get() {
                print(panic);
            }
        }));
    });
}

/// The same in each run.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(bytes)
}

/// The inputs of a folder, in the order of their names.
pub(crate) fn read(folder: &Path) -> Result<Vec<Vec<u8>>> {
    let mut paths: Vec<_> = std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    paths.sort();
    paths.iter().map(|path| Ok(std::fs::read(path)?)).collect()
}

/// Runs one harness on so many threads for so long.
pub(crate) fn run_for(harness: &Harness, corpus: &[Vec<u8>], seed: u64, threads: usize, time: Duration) -> Outcome {
    let slots: Vec<Slot> = (0..threads).map(|_| Slot::default()).collect();
    let end = Instant::now() + time;
    std::thread::scope(|scope| {
        let workers: Vec<_> = slots
            .iter()
            .enumerate()
            .map(|(i, slot)| scope.spawn(move || Worker::new(harness, corpus, seed, i as u64).run(slot, |_| Instant::now() < end)))
            .collect();
        while workers.iter().any(|w| !w.is_finished()) {
            slots.iter().for_each(|slot| slot.expect_end(harness));
            std::thread::sleep(Duration::from_millis(50));
        }
        let outcomes = workers.into_iter().filter_map(|worker| worker.join().ok());
        outcomes.fold(Outcome::default(), |mut all, one| {
            all.executions += one.executions;
            all.kinds = all.kinds.max(one.kinds);
            all.findings.extend(one.findings);
            all
        })
    })
}

/// Runs one harness on its corpus, and `mutations` times on changed inputs.
pub(crate) fn run_times(harness: &Harness, corpus: &[Vec<u8>], seed: u64, mutations: u64) -> Outcome {
    Worker::new(harness, corpus, seed, 0).run(&Slot::default(), |executions| executions < mutations + corpus.len() as u64)
}

/// What a thread does at the moment.
#[derive(Default)]
struct Slot(Mutex<Option<(Instant, Vec<u8>)>>);

impl Slot {
    fn lock(&self) -> MutexGuard<'_, Option<(Instant, Vec<u8>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn expect_end(&self, harness: &Harness) {
        let slot = self.lock();
        if let Some((_, input)) = slot.as_ref().filter(|(since, _)| since.elapsed() > ENDLESS) {
            eprintln!("{}: no end within {ENDLESS:?}: {}", harness.name, input.escape_ascii());
            std::process::exit(1);
        }
    }
}

struct Worker<'a> {
    harness: &'a Harness,
    rng: Rng,
    inputs: Vec<Vec<u8>>,
    kinds: HashSet<u64>,
    found: HashSet<String>,
}

impl<'a> Worker<'a> {
    fn new(harness: &'a Harness, corpus: &[Vec<u8>], seed: u64, thread: u64) -> Worker<'a> {
        silence_findings();
        let rng = Rng::with_seed(hash(harness.name.as_bytes()) ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ thread << 48);
        Worker { harness, rng, inputs: corpus.to_vec(), kinds: HashSet::new(), found: HashSet::new() }
    }

    /// First the corpus as it is, then mutations.
    fn run(mut self, slot: &Slot, go_on: impl Fn(u64) -> bool) -> Outcome {
        let (mut outcome, corpus) = (Outcome::default(), self.inputs.len() as u64);
        while go_on(outcome.executions) {
            let input = if outcome.executions < corpus { self.inputs[outcome.executions as usize].clone() } else { self.mutation() };
            *slot.lock() = Some((Instant::now(), input.clone()));
            let ended = execute(self.harness, &input);
            *slot.lock() = None;
            outcome.executions += 1;
            match ended {
                Ok(kind) => {
                    if self.kinds.insert(kind) && outcome.executions > corpus && self.inputs.len() < MOST {
                        self.inputs.push(input);
                    }
                }
                Err(what) => {
                    if self.found.insert(class(&what)) {
                        outcome.findings.push(minimised(self.harness, input, &what));
                    }
                }
            }
        }
        outcome.kinds = self.kinds.len();
        outcome
    }

    fn mutation(&mut self) -> Vec<u8> {
        let mut input = self.inputs[self.rng.usize(..self.inputs.len())].clone();
        let other = self.rng.usize(..self.inputs.len());
        mutate::mutate(&mut input, &self.inputs[other], self.harness.tokens, &mut self.rng);
        input
    }
}

/// The kind of the outcome, or what is wrong.
fn execute(harness: &Harness, input: &[u8]) -> Result<u64, String> {
    let ended = timed(harness, input);
    match &ended {
        // A machine that was busy is no finding.
        Err(what) if what.starts_with("took") => timed(harness, input),
        _ => ended,
    }
}

fn timed(harness: &Harness, input: &[u8]) -> Result<u64, String> {
    let start = Instant::now();
    RUNS.set(true);
    let (ended, peak) = memory::peak_of(|| catch_unwind(AssertUnwindSafe(|| (harness.run)(input))));
    RUNS.set(false);
    let kind = ended.map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned().or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
        format!("panic: {}", text.unwrap_or_default())
    })?;
    if start.elapsed() > SLOW {
        return Err(format!("took {:?}", start.elapsed()));
    }
    if peak > memory::allowed(input.len()) {
        return Err(format!("held {peak} bytes for an input of {}", input.len()));
    }
    Ok(kind)
}

/// A finding without its numbers: one of each class is enough.
fn class(what: &str) -> String {
    what.chars().filter(|c| !c.is_ascii_digit()).take(60).collect()
}

/// Leaves out as much as can be left out.
fn minimised(harness: &Harness, mut input: Vec<u8>, what: &str) -> Finding {
    let same = |input: &[u8]| execute(harness, input).is_err_and(|w| class(&w) == class(what));
    let mut step = input.len() / 2;
    while step > 0 {
        let mut at = 0;
        while at < input.len() {
            let mut shorter = input.clone();
            shorter.drain(at..(at + step).min(input.len()));
            if same(&shorter) { input = shorter } else { at += step }
        }
        step /= 2;
    }
    let what = execute(harness, &input).err().unwrap_or_else(|| what.to_owned());
    Finding { input, what }
}
