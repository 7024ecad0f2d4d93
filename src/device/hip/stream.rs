//! Streams and events of the runtime.

use super::HipDevice;
use crate::error::{Error, Result};
use hipverify_sys::bindings::{hipError_t, hipEvent_t, hipEventDefault, hipStream_t, hipStreamCaptureStatus, hipStreamNonBlocking};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::{Duration, Instant};

/// A stream, ours or borrowed.
#[derive(Debug)]
pub(crate) struct HipStream {
    device: &'static HipDevice,
    handle: hipStream_t,
    owned: bool,
    progress: Progress,
    /// The last operation that allocated memory, as counted by `progress`.
    allocated: AtomicU64,
    /// How many operations the runtime has taken: so many must a recording hold.
    accepted: AtomicU64,
    /// Whether [`Stream::capture`](crate::Stream::capture) records this stream: nothing else may enqueue here meanwhile.
    pub(super) recording: RwLock<bool>,
}

// SAFETY: the runtime's stream functions may be called from any thread.
unsafe impl Send for HipStream {}
// SAFETY: as above; enqueueing from several threads at once is allowed.
unsafe impl Sync for HipStream {}

impl HipStream {
    /// A new stream that does not wait for the null stream.
    pub(crate) fn new(device: &'static HipDevice) -> Result<Arc<HipStream>> {
        device.enter()?;
        let mut handle = ptr::null_mut();
        // SAFETY: the pointer is valid for a write.
        let error = unsafe { (device.api().hipStreamCreateWithFlags)(&mut handle, hipStreamNonBlocking) };
        device.check("hipStreamCreateWithFlags", error)?;
        Ok(HipStream::wrap(device, handle, true))
    }

    /// A stream of somebody else's; null is the null stream.
    ///
    /// # Safety
    /// The stream belongs to this device and outlives the value.
    pub(crate) unsafe fn borrowed(device: &'static HipDevice, handle: hipStream_t) -> Arc<HipStream> {
        HipStream::wrap(device, handle, false)
    }

    fn wrap(device: &'static HipDevice, handle: hipStream_t, owned: bool) -> Arc<HipStream> {
        let stream = Arc::new(HipStream {
            device,
            handle,
            owned,
            progress: Progress::default(),
            allocated: AtomicU64::new(0),
            accepted: AtomicU64::new(0),
            recording: RwLock::new(false),
        });
        device.register(&stream);
        stream
    }

    pub(crate) fn device(&self) -> &'static HipDevice {
        self.device
    }

    /// The handle, to look at the stream.
    pub(crate) fn handle(&self) -> hipStream_t {
        self.handle
    }

    /// Runs a call that enqueues work: the stream counts as busy until the next wait.
    pub(crate) fn enqueue(&self, call: impl FnOnce(hipStream_t) -> hipError_t) -> hipError_t {
        let error = self.progress.during(|| call(self.handle));
        if error == hipError_t::hipSuccess {
            self.accepted.fetch_add(1, Ordering::AcqRel);
        }
        error
    }

    /// Operations that the runtime has taken so far.
    pub(super) fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Acquire)
    }

    /// Runs a call that [enqueues](Self::enqueue) one operation, and says how far the stream has come when that operation is done: `None` if
    /// other threads enqueued at the same time, so that it cannot be told.
    pub(crate) fn enqueue_last<R>(&self, call: impl FnOnce() -> R) -> (R, Option<LastOf>) {
        self.progress.last(call)
    }

    /// As [`enqueue`](Self::enqueue), for an allocation: other streams may use the memory only when this one has come so far.
    pub(super) fn allocate(&self, call: impl FnOnce(hipStream_t) -> hipError_t) -> hipError_t {
        let error = self.enqueue(call);
        self.allocated.fetch_max(self.progress.enqueued(), Ordering::AcqRel);
        error
    }

    /// Whether memory was allocated here since the last wait.
    pub(super) fn has_fresh_memory(&self) -> bool {
        self.progress.finished.load(Ordering::Acquire) < self.allocated.load(Ordering::Acquire)
    }

    pub(super) fn is_busy(&self) -> bool {
        self.progress.is_busy()
    }

    /// For operations that a graph must not hold, because nothing keeps what they touch alive as long as the graph: fails while one
    /// is being recorded, and keeps the recording from beginning as long as the guard lives.
    pub(crate) fn not_recording(&self, operation: &'static str) -> Result<RwLockReadGuard<'_, bool>> {
        let recording = self.recording.read().unwrap_or_else(PoisonError::into_inner);
        if *recording {
            let by = "a stream that is being captured".to_owned();
            return Err(Error::Unsupported { what: operation.to_owned(), by });
        }
        Ok(recording)
    }

    /// Whether a graph is being recorded, by us or by others: waiting would spoil it.
    pub(crate) fn is_capturing(&self) -> bool {
        *self.recording.read().unwrap_or_else(PoisonError::into_inner) || self.is_captured_by_others()
    }

    /// What the runtime says, which others may have told to record.
    pub(crate) fn is_captured_by_others(&self) -> bool {
        let Some(ask) = self.device.api().hipStreamIsCapturing else { return false };
        let mut status = hipStreamCaptureStatus::hipStreamCaptureStatusNone;
        // SAFETY: the stream is alive and the pointer valid for a write.
        let error = unsafe { ask(self.handle, &mut status) };
        if error != hipError_t::hipSuccess {
            self.device.clear_last_error();
            return false;
        }
        status != hipStreamCaptureStatus::hipStreamCaptureStatusNone
    }

    /// Waits for everything enqueued so far; an error of that work is the result.
    pub(crate) fn synchronize(&self) -> Result<()> {
        let _open = self.not_recording("a wait")?;
        self.device.enter()?;
        self.finish()
    }

    /// Waits whatever went wrong before, for memory that is about to be freed or given back.
    pub(crate) fn fence(&self) -> Result<()> {
        if *self.recording.read().unwrap_or_else(PoisonError::into_inner) {
            // What was enqueued before the recording was waited for then.
            return Ok(());
        }
        let current = self.device.make_current();
        let finished = self.finish();
        current.and(finished)
    }

    /// As [`synchronize`](HipStream::synchronize), on a device that was entered.
    pub(super) fn finish(&self) -> Result<()> {
        // Asked first: what another thread enqueues meanwhile is not waited for.
        let enqueued = self.progress.enqueued();
        // SAFETY: the stream is alive.
        let error = unsafe { (self.device.api().hipStreamSynchronize)(self.handle) };
        // Also after a fault, which is told once.
        self.progress.reach(enqueued);
        self.device.check("hipStreamSynchronize", error)
    }

    /// As [`finish`](HipStream::finish), for work whose last operation touches no memory once `ready` says so. Runtimes take microseconds to
    /// notice the end of short work; it is looked for here as long as short work takes. Faults, and what takes longer, are the runtime's
    /// to tell.
    pub(super) fn finish_when(&self, last: &LastOf, ready: impl Fn() -> bool) -> Result<()> {
        const SHORT: Duration = Duration::from_micros(100);
        /// How often it is asked for what costs little before the clock is.
        const EAGER: usize = 64;
        let start = Instant::now();
        while start.elapsed() < SHORT {
            for _ in 0..EAGER {
                if ready() {
                    // No further: other threads may have enqueued since.
                    self.progress.reach(last.0);
                    return Ok(());
                }
                std::hint::spin_loop();
            }
        }
        self.finish()
    }

    /// Work enqueued from now on waits for `event`.
    pub(crate) fn wait(&self, event: &HipEvent) -> Result<()> {
        let _open = self.not_recording("waiting for an event")?;
        self.device.enter()?;
        // SAFETY: both are alive and of the same device.
        let error = self.enqueue(|stream| unsafe { (self.device.api().hipStreamWaitEvent)(stream, event.handle, 0) });
        self.device.check("hipStreamWaitEvent", error)
    }
}

impl Drop for HipStream {
    fn drop(&mut self) {
        self.device.defer(|| {
            let waited = if self.is_busy() && !self.is_capturing() { self.finish() } else { Ok(()) };
            if !self.owned {
                return waited;
            }
            // SAFETY: ours, and destroyed only here.
            waited.and(self.device.check("hipStreamDestroy", unsafe { (self.device.api().hipStreamDestroy)(self.handle) }))
        });
    }
}

/// Operations that were enqueued, and how many of them a wait has seen the end of. Two numbers and not a flag: while one thread waits, the
/// stream must look busy to the others.
#[derive(Debug, Default)]
struct Progress {
    enqueued: AtomicU64,
    finished: AtomicU64,
}

/// An operation that is the last of those that its stream had counted then.
#[derive(Debug)]
pub(crate) struct LastOf(u64);

impl Progress {
    /// Counts the operation that `call` enqueues: before and after, so that a wait of another thread that begins before the call returns
    /// does not end this work's business.
    fn during<R>(&self, call: impl FnOnce() -> R) -> R {
        self.enqueued.fetch_add(1, Ordering::AcqRel);
        let result = call();
        self.enqueued.fetch_add(1, Ordering::AcqRel);
        result
    }

    fn last<R>(&self, call: impl FnOnce() -> R) -> (R, Option<LastOf>) {
        let before = self.enqueued();
        let result = call();
        let after = self.enqueued();
        // Both counts are the operation's own. What was counted before it came before it, or is counted once more.
        (result, (after == before + 2).then_some(LastOf(after)))
    }

    fn enqueued(&self) -> u64 {
        self.enqueued.load(Ordering::Acquire)
    }

    /// All that was counted up to `enqueued` is done.
    fn reach(&self, enqueued: u64) {
        self.finished.fetch_max(enqueued, Ordering::AcqRel);
    }

    fn is_busy(&self) -> bool {
        self.finished.load(Ordering::Acquire) < self.enqueued()
    }
}

/// An event with timing.
#[derive(Debug)]
pub(crate) struct HipEvent {
    device: &'static HipDevice,
    handle: hipEvent_t,
}

// SAFETY: the runtime's event functions may be called from any thread.
unsafe impl Send for HipEvent {}
// SAFETY: as above.
unsafe impl Sync for HipEvent {}

impl HipEvent {
    pub(crate) fn new(device: &'static HipDevice) -> Result<HipEvent> {
        device.enter()?;
        let mut handle = ptr::null_mut();
        // SAFETY: the pointer is valid for a write.
        let error = unsafe { (device.api().hipEventCreateWithFlags)(&mut handle, hipEventDefault) };
        device.check("hipEventCreateWithFlags", error)?;
        Ok(HipEvent { device, handle })
    }

    pub(crate) fn record(&self, stream: &HipStream) -> Result<()> {
        // Another stream that waits for the event would become part of the graph.
        let _open = stream.not_recording("an event")?;
        self.device.enter()?;
        // SAFETY: both are alive and of the same device.
        self.device.check("hipEventRecord", unsafe { (self.device.api().hipEventRecord)(self.handle, stream.handle) })
    }

    pub(crate) fn synchronize(&self) -> Result<()> {
        self.device.enter()?;
        // SAFETY: the event is alive.
        self.device.check("hipEventSynchronize", unsafe { (self.device.api().hipEventSynchronize)(self.handle) })
    }

    /// Whether the work before the event is done.
    pub(crate) fn is_done(&self) -> Result<bool> {
        self.device.enter()?;
        // SAFETY: the event is alive.
        match unsafe { (self.device.api().hipEventQuery)(self.handle) } {
            hipError_t::hipErrorNotReady => Ok(false),
            error => self.device.check("hipEventQuery", error).map(|()| true),
        }
    }

    /// The time since `start`; both have been recorded and waited for.
    pub(crate) fn elapsed_since(&self, start: &HipEvent) -> Result<Duration> {
        let mut ms = 0f32;
        // SAFETY: both are alive and the pointer valid for a write.
        let error = unsafe { (self.device.api().hipEventElapsedTime)(&mut ms, start.handle, self.handle) };
        self.device.check("hipEventElapsedTime", error)?;
        Duration::try_from_secs_f64(f64::from(ms) / 1e3).map_err(|_| Error::InvalidArgument {
            what: "elapsed time",
            value: format!("{ms} ms"),
            limit: "the start was recorded after the end".to_owned(),
        })
    }
}

impl Drop for HipEvent {
    fn drop(&mut self) {
        self.device.defer(|| {
            // SAFETY: ours, and destroyed only here; the runtime keeps what a stream still needs of it.
            self.device.check("hipEventDestroy", unsafe { (self.device.api().hipEventDestroy)(self.handle) })
        });
    }
}

#[cfg(test)]
mod tests {
    use super::Progress;

    /// The end of an operation is the end of what came before it on its stream, and of nothing else.
    #[test]
    fn the_last_operation_speaks_for_those_before_it() {
        let progress = Progress::default();
        progress.during(|| ());
        let last = progress.last(|| progress.during(|| ())).1.expect("nobody else enqueued");
        progress.reach(last.0);
        assert!(!progress.is_busy());

        // Another operation after it, while its end is waited for.
        let last = progress.last(|| progress.during(|| ())).1.expect("nobody else enqueued");
        progress.during(|| ());
        progress.reach(last.0);
        assert!(progress.is_busy());
        progress.reach(progress.enqueued());

        // One that is being enqueued all the while: it was counted once.
        let last = progress.during(|| progress.last(|| progress.during(|| ())).1.expect("the other is counted once more"));
        progress.reach(last.0);
        assert!(progress.is_busy());

        // One that comes between, on either side of it or all within; and a call that enqueues nothing.
        assert!(progress.last(|| progress.during(|| progress.during(|| ()))).1.is_none());
        assert!(progress.last(|| ()).1.is_none());
    }
}
