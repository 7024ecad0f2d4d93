//! Who may use the scratch memory of a comparison: one comparison at a time.
//!
//! Kernels use that memory after the call that launched them has returned, so that a lock held during the call does not do. Invariant:
//! between a `take` that gave a workspace and its `give_back` no other `take` gives it, and whoever takes it next sees what was written
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

    /// Takes the workspace, unless somebody has it.
    pub(crate) fn take(&self) -> bool {
        self.taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Gives the workspace back, when nothing uses it any more.
    pub(crate) fn give_back(&self) {
        self.taken.store(false, Ordering::Release);
    }

    /// The workspace, for a call of whoever has taken it.
    pub(crate) fn lock(&self) -> MutexGuard<'_, W> {
        self.workspace.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Workspaces that nothing uses, each with the number of its device.
#[derive(Debug)]
pub(crate) struct Idle<W>(Mutex<Vec<(usize, W)>>);

impl<W> Idle<W> {
    pub(crate) fn new() -> Idle<W> {
        Idle(Mutex::new(Vec::new()))
    }

    /// Takes a workspace of a device out, if there is one.
    pub(crate) fn take(&self, device: usize) -> Option<W> {
        let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = idle.iter().position(|(index, _)| *index == device)?;
        Some(idle.swap_remove(at).1)
    }

    /// Puts workspaces of a device in, when nothing uses them any more.
    pub(crate) fn give_back(&self, device: usize, workspaces: impl IntoIterator<Item = W>) {
        let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        idle.extend(workspaces.into_iter().map(|workspace| (device, workspace)));
    }
}
