//! Who may use the scratch memory of a plan: one comparison at a time.
//!
//! Kernels use that memory after the call that launched them has returned, so that a lock held during the call does not do. Invariant:
//! between a `take` that gave a workspace and its `give_back`, or the drop of what `hold` gave, no other `take` gives it, and the next `take`
//! sees what was written before it was given back.

use crate::device::sync::atomic::{AtomicBool, Ordering};
use crate::device::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A workspace that belongs to a plan.
#[derive(Debug)]
pub(crate) struct Reserved<W> {
    taken: Arc<AtomicBool>,
    workspace: Mutex<W>,
}

/// A workspace that was taken, and comes back when this is dropped. It borrows nothing, so that a graph can keep it.
#[derive(Debug)]
pub(crate) struct Held {
    taken: Arc<AtomicBool>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.taken.store(false, Ordering::Release);
    }
}

impl<W> Reserved<W> {
    pub(crate) fn new(workspace: W) -> Reserved<W> {
        Reserved { taken: Arc::new(AtomicBool::new(false)), workspace: Mutex::new(workspace) }
    }

    /// Takes the workspace, unless it is taken.
    pub(crate) fn take(&self) -> bool {
        self.taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Gives the workspace back, when nothing uses it any more.
    pub(crate) fn give_back(&self) {
        self.taken.store(false, Ordering::Release);
    }

    /// What gives the workspace back when it is dropped, for the caller that has taken it and does not [`give_back`](Reserved::give_back) itself.
    pub(crate) fn hold(&self) -> Held {
        Held { taken: Arc::clone(&self.taken) }
    }

    /// The workspace, for the caller that has taken it.
    pub(crate) fn lock(&self) -> MutexGuard<'_, W> {
        self.workspace.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
