//! The queues that blocking work has to wait for.
//!
//! A queue is listed from its creation until its work is done: dropping its handle waits first and takes it from the list afterwards. So
//! whoever reads the list finds each queue that may still have work, also one whose handle is being dropped by another thread. What the
//! list gave stays alive as long as it is used; the last owner destroys the queue.

use crate::device::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::ops::Deref;

/// What can be listed.
pub(crate) trait Queue: Sized {
    /// Where it is listed.
    fn registry(&self) -> &Registry<Self>;

    /// Waits for the work of a queue whose handle is being dropped.
    fn drain(&self);
}

/// Queues that may have work.
#[derive(Debug)]
pub(crate) struct Registry<Q> {
    queues: Mutex<Vec<Arc<Q>>>,
}

/// The handle of a queue, which is listed as long as the handle lives.
#[derive(Debug)]
pub(crate) struct Listed<Q: Queue> {
    queue: Arc<Q>,
}

impl<Q> Registry<Q> {
    pub(crate) fn new() -> Registry<Q> {
        Registry { queues: Mutex::new(Vec::new()) }
    }

    /// The queues listed now for which `chosen` holds.
    pub(crate) fn queues(&self, chosen: impl Fn(&Q) -> bool) -> Vec<Arc<Q>> {
        self.list().iter().filter(|queue| chosen(queue)).cloned().collect()
    }

    fn list(&self) -> MutexGuard<'_, Vec<Arc<Q>>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<Q: Queue> Listed<Q> {
    pub(crate) fn of(queue: Q) -> Listed<Q> {
        let queue = Arc::new(queue);
        queue.registry().list().push(Arc::clone(&queue));
        Listed { queue }
    }
}

impl<Q: Queue> Deref for Listed<Q> {
    type Target = Q;

    fn deref(&self) -> &Q {
        &self.queue
    }
}

impl<Q: Queue> Drop for Listed<Q> {
    fn drop(&mut self) {
        self.queue.drain();
        // This handle still owns the queue: it is not destroyed under the lock.
        self.queue.registry().list().retain(|other| !Arc::ptr_eq(other, &self.queue));
    }
}
