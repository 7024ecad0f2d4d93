//! How far a comparison is, on a terminal: share, rate, time left.
//!
//! The share counts the data of all tensors once, however often they are read: what the tensors that have ended hold, and of the one that is compared the part
//! of its planned reads that is done. A thread of its own draws ten times a second; without a terminal there is no such thread.

use crate::cli::screen;
use crate::files::Tensor;
use crate::verify::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long nothing is shown, and the time between two drawings.
const PATIENCE: Duration = Duration::from_millis(500);
const INTERVAL: Duration = Duration::from_millis(100);

/// Shows how far a command is, until it is dropped.
pub(super) struct Watch {
    state: Arc<Mutex<State>>,
    shown: Option<(Sender<()>, JoinHandle<()>)>,
}

/// What is shown.
#[derive(Debug, Default)]
struct State {
    /// Bytes of all tensors, of both sides, and of those that have ended.
    total: u64,
    ended: u64,
    /// The bytes of the tensor that is compared, and how far that is.
    current: u64,
    progress: Progress,
    /// Bytes that were read for the tensors that have ended.
    read: u64,
}

/// What a state amounts to.
#[derive(Debug, PartialEq)]
enum Shown {
    /// Files are read; nothing is compared yet.
    Reading,
    /// So many bytes of the total are done; so many were read.
    Comparing { done: u64, read: u64 },
    /// All planned reads of the last tensor are done: what is left is of unknown length.
    Explaining,
}

impl State {
    fn shown(&self) -> Shown {
        // Done first: what is planned meanwhile makes the share smaller, never larger.
        let (done, planned) = (self.progress.done(), self.progress.planned());
        if planned == 0 && self.ended == 0 {
            return Shown::Reading;
        }
        let part = if planned == 0 { 0 } else { (u128::from(self.current) * u128::from(done) / u128::from(planned)) as u64 };
        if planned > 0 && done == planned && self.ended + part == self.total {
            return Shown::Explaining;
        }
        Shown::Comparing { done: self.ended + part, read: self.read + done }
    }
}

impl Watch {
    /// Shows nothing before half a second has passed, and nothing at all where stderr is no terminal.
    pub(super) fn new(total: u64) -> Watch {
        let state = Arc::new(Mutex::new(State { total, ..State::default() }));
        let shown = std::io::stderr().is_terminal().then(channel).and_then(|(end, ended)| {
            let state = state.clone();
            // The thread ends when the channel's other side is dropped. Where none can start, nothing is shown.
            let draw = move || show(&state, |time| ended.recv_timeout(time) == Err(RecvTimeoutError::Timeout));
            Some((end, std::thread::Builder::new().spawn(draw).ok()?))
        });
        Watch { state, shown }
    }

    /// A comparison of these tensors begins; what it reads is to be counted by what is returned.
    pub(super) fn begin(&self, bytes: u64) -> Progress {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.read += state.progress.done();
        state.ended += state.current;
        state.current = bytes;
        state.progress = Progress::new();
        state.progress.clone()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.shown.take() {
            drop(end);
            // A display that failed is no failure of the comparison.
            let _ = thread.join();
        }
    }
}

/// Draws until `wait` says that the command has ended.
fn show(state: &Mutex<State>, wait: impl Fn(Duration) -> bool) {
    let started = Instant::now();
    if !wait(PATIENCE) {
        return;
    }
    let total = state.lock().unwrap_or_else(PoisonError::into_inner).total;
    let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr()).with_elapsed(started.elapsed());
    let style = |template: &str| ProgressStyle::with_template(template).map(|style| style.progress_chars("=> "));
    let (Ok(counted), Ok(waiting)) = (style("compare  [{bar:20}] {percent:>3} %  {msg}"), style("{spinner} {msg}  {elapsed}")) else {
        return;
    };
    loop {
        let shown = state.lock().unwrap_or_else(PoisonError::into_inner).shown();
        match shown {
            Shown::Comparing { done, read } => {
                bar.set_style(counted.clone());
                bar.set_message(format!("{}{}", rate(read, started.elapsed()), rest(done, total, started.elapsed())));
                bar.set_position(done);
            }
            other => {
                bar.set_style(waiting.clone());
                bar.set_message(if other == Shown::Reading { "read" } else { "compare: what the verdict means" });
                bar.tick();
            }
        }
        if !wait(INTERVAL) {
            return bar.finish_and_clear();
        }
    }
}

/// Bytes a second, since the beginning.
fn rate(bytes: u64, time: Duration) -> String {
    format!("{} GB/s", screen::number(bytes as f64 / time.as_secs_f64().max(1e-9) / 1e9, 3))
}

/// How long the rest takes if it goes on as it went; nothing before anything is done.
fn rest(done: u64, total: u64, time: Duration) -> String {
    let seconds = time.as_secs_f64() * total.saturating_sub(done) as f64 / done as f64;
    match seconds.ceil() {
        _ if done == 0 => String::new(),
        s if s < 120.0 => format!("  {s} s left"),
        s => format!("  {} min left", (s / 60.0).ceil()),
    }
}

/// Bytes of a tensor's elements, if it can be read.
pub(super) fn bytes(tensor: &Tensor) -> u64 {
    let size = tensor.dtype().zip(tensor.layout()).and_then(|(dtype, layout)| dtype.bytes_for(layout.elements()));
    size.unwrap_or(0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::{Explain, Options, Tolerance, gpu_verify_with};
    use crate::{Device, DeviceMem};

    #[test]
    fn the_share_is_that_of_all_tensors() {
        let x = DeviceMem::<f32>::from_slice(&Device::host(), &[1.0; 1000]).unwrap();
        let watch = Watch::new(20_000);
        let shown = || watch.state.lock().unwrap().shown();
        let compare = |progress: &Progress| {
            let options = Options::default().explain(Explain::Always).progress(progress);
            gpu_verify_with(&x, &x, &Tolerance::exact(), &options).unwrap()
        };
        assert_eq!(shown(), Shown::Reading);
        let first = watch.begin(8_000);
        assert_eq!(shown(), Shown::Reading, "nothing is planned yet");
        compare(&first);
        assert_eq!(shown(), Shown::Comparing { done: 8_000, read: 16_000 }, "two reads of the first tensors");
        let second = watch.begin(12_000);
        assert_eq!(shown(), Shown::Comparing { done: 8_000, read: 16_000 }, "the second is being read");
        compare(&second);
        assert_eq!(shown(), Shown::Explaining, "all planned reads of the last tensors are done");
        assert_eq!(rate(3_000_000_000, Duration::from_secs(2)), "1.5 GB/s");
        for (done, total, seconds, words) in [
            (0, 100, 9, ""),
            (1, 100, 1, "  99 s left"),
            (25, 100, 100, "  5 min left"),
            (60, 100, 3, "  2 s left"),
            (100, 100, 3, "  0 s left"),
        ] {
            assert_eq!(rest(done, total, Duration::from_secs(seconds)), words, "{done} of {total} after {seconds} s");
        }
    }

    #[test]
    fn a_display_ends_when_it_is_told() {
        let state = Mutex::new(State { total: 10, ..State::default() });
        let waits = std::cell::Cell::new(0);
        show(&state, |time| {
            waits.set(waits.get() + 1);
            assert_eq!(time, if waits.get() == 1 { PATIENCE } else { INTERVAL });
            waits.get() < 3
        });
        assert_eq!(waits.get(), 3);
        show(&state, |_| false);
    }
}
