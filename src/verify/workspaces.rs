//! Who may use the scratch memory of a plan: one comparison at a time.
//!
//! Kernels use that memory after the call that launched them has returned, so that a lock held during the call does not do. Invariant:
//! between a `take` that gave a workspace and its `give_back` no other `take` gives it, and the next `take` sees what was written
//! before it was given back.

use crate::device::sync::atomic::{AtomicBool, Ordering};
use crate::device::sync::{Mutex, MutexGuard, PoisonError};

/// A workspace that belongs to a plan.
#[derive(Debug)]
pub(crate) struct Reserved<W> {
    taken: AtomicBool,
    workspace: Mutex<W>,
}

impl<W> Reserved<W> {
    pub(crate) fn new(workspace: W) -> Reserved<W> {
        Reserved { taken: AtomicBool::new(false), workspace: Mutex::new(workspace) }
    }

    /// Takes the workspace, unless it is taken.
    pub(crate) fn take(&self) -> bool {
        self.taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Gives the workspace back, when nothing uses it any more.
    pub(crate) fn give_back(&self) {
        self.taken.store(false, Ordering::Release);
    }

    /// The workspace, for the caller that has taken it.
    pub(crate) fn lock(&self) -> MutexGuard<'_, W> {
        self.workspace.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
