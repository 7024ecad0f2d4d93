//! Who may use a stream: operations, any number at a time, or one recording.
//!
//! An operation never waits for a recording that has begun (it is refused), nor for one that is about to begin. A
//! read-write lock does not guarantee that: there a reader may wait behind a waiting writer. An operation on one stream may have to wait for
//! another stream; two such operations and two recordings about to begin would then deadlock.

use crate::device::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The recording of a stream, and what keeps it from beginning.
#[derive(Debug, Default)]
pub(crate) struct RecordingLock {
    state: Mutex<State>,
    /// Notified when the last operation is over.
    idle: Condvar,
}

#[derive(Debug, Default)]
struct State {
    operations: usize,
    recording: bool,
}

/// An operation in progress: no recording begins as long as it lives.
#[derive(Debug)]
#[must_use = "a recording may begin when it is dropped"]
pub(crate) struct Operation<'a> {
    lock: &'a RecordingLock,
}

impl RecordingLock {
    /// Begins an operation; `None` while a recording is under way.
    pub(crate) fn operation(&self) -> Option<Operation<'_>> {
        let mut state = self.state();
        if state.recording {
            return None;
        }
        state.operations += 1;
        Some(Operation { lock: self })
    }

    /// Begins a recording by `start` once all operations are over. `None` while a recording is under way. `start` must not wait for another
    /// stream's recording or operations.
    pub(crate) fn begin<E>(&self, start: impl FnOnce() -> Result<(), E>) -> Option<Result<(), E>> {
        let mut state = self.state();
        while state.operations > 0 {
            state = self.idle.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.recording {
            return None;
        }
        let started = start();
        state.recording = started.is_ok();
        Some(started)
    }

    /// Ends the recording by `stop`; nothing can use the stream before that.
    pub(crate) fn end<R>(&self, stop: impl FnOnce() -> R) -> R {
        let mut state = self.state();
        let stopped = stop();
        state.recording = false;
        stopped
    }

    /// The state, which is whole also after a panic elsewhere: each critical section changes it in one assignment.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Operation<'_> {
    fn drop(&mut self) {
        let mut state = self.lock.state();
        state.operations -= 1;
        if state.operations == 0 {
            self.lock.idle.notify_all();
        }
    }
}
