//! Shared state under the orders in which threads can come: `loom` runs each case once for each of them and finds deadlocks. What is
//! tested are the library's own files, compiled with `loom`'s primitives in place of the standard library's.

mod device {
    pub mod sync {
        pub use loom::sync::{Arc, Condvar, Mutex, MutexGuard, atomic};
        pub use std::sync::PoisonError;
    }
}

#[path = "../../src/device/hip/pool.rs"]
mod pool;
#[path = "../../src/device/hip/progress.rs"]
mod progress;
#[path = "../../src/device/recording.rs"]
mod recording;
#[path = "../../src/device/hip/registry.rs"]
mod registry;

#[path = "../../src/verify/workspaces.rs"]
mod workspaces;

mod plans;
mod streams;

use loom::sync::atomic::{AtomicU64, Ordering};
use std::convert::Infallible;

/// Runs a case once for every order of its threads in which at most three are interrupted where they need not wait: each way in which the
/// code was broken on purpose showed with two.
fn check(case: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(case);
}

/// A queue of the runtime's: it does work in order, and only when somebody waits.
#[derive(Debug, Default)]
struct RuntimeQueue {
    submitted: AtomicU64,
    done: AtomicU64,
}

impl RuntimeQueue {
    /// Enqueues an operation and gives its number, from 1.
    fn submit(&self) -> u64 {
        self.submitted.fetch_add(1, Ordering::SeqCst) + 1
    }

    fn synchronize(&self) -> Result<(), Infallible> {
        self.complete(self.submitted.load(Ordering::SeqCst));
        Ok(())
    }

    /// An operation ends, and with it all before it.
    fn complete(&self, operation: u64) {
        self.done.fetch_max(operation, Ordering::SeqCst);
    }

    fn has_done(&self, operation: u64) -> bool {
        self.done.load(Ordering::SeqCst) >= operation
    }

    fn has_done_all(&self) -> bool {
        self.has_done(self.submitted.load(Ordering::SeqCst))
    }
}
