//! Many cases, in processes of their own: a crash or a hang is the failure of the case that was running, and of no other.
//!
//! Invariant: each case has exactly one result, whatever its worker did. A worker that died or was late is replaced.

use super::cases::{Case, Suite};
use super::record::{CaseOutcome, CaseResult};
use super::worker::{Silence, Worker};
use crate::error::{Error, Result};
use std::io::ErrorKind;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

/// How cases are run.
pub struct Runner<'a> {
    /// The suite that the cases are of.
    pub suite: &'a Suite,
    /// Where to compute: name of each device for people, and for [`Device::open`](crate::device::Device::open). Workers take them in turn.
    pub devices: &'a [(String, String)],
    /// Workers.
    pub jobs: usize,
    /// How long a case may take whose table does not say.
    pub timeout: Duration,
    /// Whether to stop at the first case that does not end as expected; those that are running end.
    pub fail_fast: bool,
    /// The command line of a worker on a device, which has to end in [`Suite::serve`].
    pub worker: &'a (dyn Fn(&str) -> Command + Sync),
}

/// How long a worker may take to start: it may have to compile kernels.
const START: Duration = Duration::from_secs(120);

impl Runner<'_> {
    /// Runs the cases; `each` gets every result as soon as it is there.
    ///
    /// # Errors
    /// When there is no device, a worker does not start, or `each` fails.
    pub fn run(&self, cases: &[&Case], each: &mut dyn FnMut(CaseResult) -> Result<()>) -> Result<()> {
        if self.devices.is_empty() {
            return Err(Error::Length { what: "devices of a run, at least", expected: 1, found: 0 });
        }
        // Cases that share work go to one worker.
        let queue = Mutex::new(cases.chunk_by(|a, b| a.shares_with(b)));
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (sender, results) = channel();
            for number in 0..self.jobs.clamp(1, cases.len().max(1)) {
                let (sender, queue, stop) = (sender.clone(), &queue, &stop);
                match std::thread::Builder::new().spawn_scoped(scope, move || self.work(number, queue, stop, &sender)) {
                    Ok(_) => {}
                    // Those that run do all the work.
                    Err(_) if number > 0 => break,
                    Err(e) => return Err(Error::Unsupported { what: "a thread for cases".to_owned(), by: format!("this machine: {e}") }),
                }
            }
            drop(sender);
            for result in results {
                if let Err(e) = result.and_then(&mut *each) {
                    stop.store(true, Ordering::Relaxed);
                    return Err(e);
                }
            }
            Ok(())
        })
    }

    /// Takes cases from the queue until it is empty.
    fn work<'c>(
        &self,
        number: usize,
        queue: &Mutex<impl Iterator<Item = &'c [&'c Case]>>,
        stop: &AtomicBool,
        results: &Sender<Result<CaseResult>>,
    ) {
        let (shown, device) = &self.devices[number % self.devices.len()];
        let (mut worker, mut cases) = (None, [].iter());
        while !stop.load(Ordering::Relaxed) {
            let next = cases.next().or_else(|| {
                cases = queue.lock().unwrap_or_else(std::sync::PoisonError::into_inner).next()?.iter();
                cases.next()
            });
            let Some(case) = next else { return };
            let running = match worker.take().map_or_else(|| Worker::start((self.worker)(device), START, &self.suite.fingerprint), Ok) {
                Ok(running) => running,
                Err(e) => {
                    let failed = match e.kind() {
                        ErrorKind::InvalidData => Error::File { path: self.suite.source.clone(), reason: e.to_string() },
                        _ => Error::Unsupported { what: format!("a process for cases on {shown}"), by: format!("this machine: {e}") },
                    };
                    // Nobody listens any more after an earlier error.
                    let _ = results.send(Err(failed));
                    return;
                }
            };
            let (result, kept) = self.ask(running, case, shown);
            worker = kept;
            if self.fail_fast && !result.ok {
                stop.store(true, Ordering::Relaxed);
            }
            if results.send(Ok(result)).is_err() {
                return;
            }
        }
    }

    /// One case; the worker, if it can go on.
    fn ask(&self, mut worker: Worker, case: &Case, device: &str) -> (CaseResult, Option<Worker>) {
        let (started, timeout) = (Instant::now(), case.timeout.unwrap_or(self.timeout));
        let (outcome, reason) = match worker.ask(&case.name, timeout) {
            Ok((result, able)) => {
                // After an error a GPU may refuse everything else of that process.
                let goes_on = able && result.outcome != CaseOutcome::Error;
                return (result, goes_on.then_some(worker));
            }
            Err(Silence::Died(how)) => (CaseOutcome::Crash, how),
            Err(Silence::Late) => (CaseOutcome::Timeout, format!("it did not end within {} s", timeout.as_secs_f64())),
        };
        let result = self.suite.ended(case, device, outcome, vec![reason]);
        (CaseResult { seconds: started.elapsed().as_secs_f64(), ..result }, None)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::{Kernels, Suite, SuiteFile};
    use super::Runner;

    #[test]
    fn runs_without_a_device_are_refused() {
        let suite = Suite::new(&SuiteFile::parse("s.toml", "[[gemm]]\nsize = '1x1x1'").unwrap(), "s.toml", Kernels::default()).unwrap();
        let worker = |_: &str| std::process::Command::new("none");
        let timeout = std::time::Duration::from_secs(1);
        let runner = Runner { suite: &suite, devices: &[], jobs: 1, timeout, fail_fast: false, worker: &worker };
        let error = runner.run(&[&suite.cases[0]], &mut |_| Ok(())).unwrap_err().to_string();
        assert_eq!(error, "devices of a run, at least: expected 1, found 0");
    }
}
