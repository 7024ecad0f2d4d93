//! The streams of work that blocks its caller.

use super::progress::LastOf;
use super::{HipDevice, HipStream};
use crate::error::Result;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How many streams blocking work has: with two, the last blocks of an operation run beside the first ones of the next.
pub(super) const QUEUES: usize = 2;

/// What blocking work enqueues. Operations of the same stream run one after the other, those of different ones in any order or at the same time.
pub(crate) struct Queues {
    device: &'static HipDevice,
    last: [Last; QUEUES],
}

/// The last operation that was enqueued on a stream.
enum Last {
    /// There is none.
    Unused,
    /// It cannot be told, because other threads have enqueued at the same time, or because it has failed.
    Unknown(&'static Arc<HipStream>),
    Known(&'static Arc<HipStream>, LastOf),
}

impl Queues {
    /// Nothing is enqueued yet, on a device that was entered.
    pub(super) fn new(device: &'static HipDevice) -> Queues {
        Queues { device, last: [const { Last::Unused }; QUEUES] }
    }

    /// Enqueues one operation, which `call` does, on the stream of this number modulo their number.
    pub(crate) fn enqueue(&mut self, number: usize, call: impl FnOnce(&HipStream) -> Result<()>) -> Result<()> {
        let number = number % QUEUES;
        let stream = self.device.queue(number)?;
        let (enqueued, last) = stream.enqueue_last(|| call(stream));
        self.last[number] = last.map_or(Last::Unknown(stream), |last| Last::Known(stream, last));
        enqueued
    }

    /// Waits for all operations: until `ready` says that the last ones touch no memory any more, or as long as the runtime says. Runtimes take microseconds to notice the end of short
    /// work, so it is polled here for as long as short work takes. Faults, and work that takes longer, are left to the runtime to tell.
    pub(super) fn wait(&self, ready: impl Fn() -> bool) -> Result<()> {
        let known = self.last.iter().all(|last| !matches!(last, Last::Unknown(_)));
        let ended = known && becomes_ready(ready);
        let wait = |last: &Last| match last {
            Last::Unused => Ok(()),
            Last::Known(stream, last) if ended => stream.end_seen(last),
            Last::Known(stream, _) | Last::Unknown(stream) => stream.synchronize_entered(),
        };
        // All of them, even if one has an error.
        let waits = self.last.each_ref().map(wait);
        waits.into_iter().collect()
    }
}

/// Whether `ready` holds after a short time at most.
fn becomes_ready(ready: impl Fn() -> bool) -> bool {
    const SHORT: Duration = Duration::from_micros(100);
    /// How often the cheap test is made before the clock is read.
    const EAGER: usize = 64;
    let start = Instant::now();
    while start.elapsed() < SHORT {
        for _ in 0..EAGER {
            if ready() {
                return true;
            }
            std::hint::spin_loop();
        }
    }
    false
}
