//! The progress of a stream, counted without asking the runtime.
//!
//! An operation is counted twice, before it is enqueued and after; a wait that began at a count `n` and has succeeded raises `finished` to `n`.
//! Invariant: once an operation has been enqueued, `finished < enqueued` until a wait that began after that has succeeded. With a single count, a
//! wait of another thread that begins between the count and the call would mark work as done that it has not seen.

use crate::device::sync::atomic::{AtomicU64, Ordering};

/// The numbers of operations that were enqueued, and that a wait has seen completed. Two numbers and not a flag: while one thread waits, the stream
/// must look busy to the others.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    enqueued: AtomicU64,
    finished: AtomicU64,
    /// The count after the last operation that allocated memory.
    allocated: AtomicU64,
}

/// An operation that is the last of those that its stream had counted then.
#[derive(Debug)]
pub(crate) struct LastOf(u64);

impl Progress {
    /// Counts the operation that `call` enqueues.
    pub(crate) fn during<R>(&self, call: impl FnOnce() -> R) -> R {
        self.enqueued.fetch_add(1, Ordering::AcqRel);
        let result = call();
        self.enqueued.fetch_add(1, Ordering::AcqRel);
        result
    }

    /// As [`during`](Self::during), for an operation that allocates memory.
    pub(crate) fn allocating<R>(&self, call: impl FnOnce() -> R) -> R {
        let result = self.during(call);
        self.allocated.fetch_max(self.enqueued(), Ordering::AcqRel);
        result
    }

    /// Runs a call that counts one operation by [`during`](Self::during), and says how far the stream has come when that operation is done:
    /// `None` if other threads counted at the same time, so that it cannot be told.
    pub(crate) fn last<R>(&self, call: impl FnOnce() -> R) -> (R, Option<LastOf>) {
        let before = self.enqueued();
        let result = call();
        let after = self.enqueued();
        // Both counts are the operation's own. What was counted before it came before it, or is counted once more.
        (result, (after == before + 2).then_some(LastOf(after)))
    }

    /// Runs a call that waits for the stream: when it has succeeded, what was enqueued before is done. What another thread enqueues meanwhile is
    /// not. A wait that fails may not have waited, as on a stream that is being captured.
    pub(crate) fn waiting<E>(&self, wait: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        let enqueued = self.enqueued();
        wait()?;
        self.reach(enqueued);
        Ok(())
    }

    /// The operation is done, and with it all that came before it.
    pub(crate) fn reach_last(&self, last: &LastOf) {
        self.reach(last.0);
    }

    /// Whether something was enqueued that no wait has seen completed.
    pub(crate) fn is_busy(&self) -> bool {
        self.finished.load(Ordering::Acquire) < self.enqueued()
    }

    /// Whether memory was allocated by an operation that no wait has seen completed.
    pub(crate) fn has_fresh_memory(&self) -> bool {
        self.finished.load(Ordering::Acquire) < self.allocated.load(Ordering::Acquire)
    }

    fn enqueued(&self) -> u64 {
        self.enqueued.load(Ordering::Acquire)
    }

    fn reach(&self, enqueued: u64) {
        self.finished.fetch_max(enqueued, Ordering::AcqRel);
    }
}
