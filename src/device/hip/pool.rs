//! Memory that an operation leaves for the next one of its kind, so that repeated operations allocate nothing.
//!
//! Invariant: between a `take` that gave a workspace and its `put` no other `take` gives it, and the next `take` sees what was written
//! before it was put back.

use crate::device::sync::{Mutex, MutexGuard, PoisonError};
use std::any::Any;

/// Idle workspaces of a device, of any types; at most [`Pool::MOST`] in total.
#[derive(Debug)]
pub(crate) struct Pool {
    idle: Mutex<Vec<Box<dyn Any + Send>>>,
}

impl Pool {
    /// As many as one call usually compares at once. A program that needs more allocates the rest each time.
    pub(crate) const MOST: usize = 64;

    pub(crate) fn new() -> Pool {
        Pool { idle: Mutex::new(Vec::new()) }
    }

    /// The workspace of this type that was put back last.
    pub(crate) fn take<W: Any>(&self) -> Option<W> {
        let mut idle = self.lock();
        let at = idle.iter().rposition(|workspace| workspace.is::<W>())?;
        let workspace = idle.remove(at);
        drop(idle);
        workspace.downcast().ok().map(|workspace| *workspace)
    }

    /// Keeps a workspace that nothing uses any more for the next [`take`](Pool::take). A full pool drops the one that it has held longest.
    pub(crate) fn put<W: Any + Send>(&self, workspace: W) {
        let mut idle = self.lock();
        let oldest = (idle.len() >= Pool::MOST).then(|| idle.remove(0));
        idle.push(Box::new(workspace));
        // Freeing memory waits for the device: not under the lock.
        drop(idle);
        drop(oldest);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Box<dyn Any + Send>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
