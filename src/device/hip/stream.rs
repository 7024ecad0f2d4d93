//! Streams and events of the runtime.

use super::HipDevice;
use super::progress::{LastOf, Progress};
use super::registry::{Listed, Queue, Registry};
use crate::device::Address;
use crate::device::recording::{Operation, RecordingLock};
use crate::device::stream::captured;
use crate::error::{Error, Result};
use hipverify_sys::bindings::{
    hipError_t, hipEventDefault, hipStream_t, hipStreamCaptureStatus, hipStreamNonBlocking, ihipEvent_t, ihipStream_t,
};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// A stream, which blocking work finds as long as it may have work of its own.
pub(crate) type HipStream = Listed<RawStream>;

/// The runtime's stream, ours or borrowed.
#[derive(Debug)]
pub(crate) struct RawStream {
    device: &'static HipDevice,
    handle: Address<ihipStream_t>,
    owned: bool,
    progress: Progress,
    /// How many operations the runtime has accepted: a recording must hold that many.
    accepted: AtomicU64,
    /// How often the end of work was seen without the runtime.
    unasked: AtomicU32,
    /// Whether [`Stream::capture`](crate::Stream::capture) records this stream: nothing else may enqueue here meanwhile.
    pub(super) recording: RecordingLock,
}

impl HipStream {
    /// A new stream that does not wait for the null stream.
    pub(crate) fn new(device: &'static HipDevice) -> Result<Arc<HipStream>> {
        device.enter()?;
        let mut handle = ptr::null_mut();
        let error = (device.api().hipStreamCreateWithFlags)(&mut handle, hipStreamNonBlocking);
        device.check("hipStreamCreateWithFlags", error)?;
        Ok(HipStream::wrap(device, handle, true))
    }

    /// A stream that the caller owns; null is the null stream.
    ///
    /// # Safety
    /// The stream belongs to this device and outlives the value.
    pub(crate) unsafe fn borrowed(device: &'static HipDevice, handle: hipStream_t) -> Arc<HipStream> {
        HipStream::wrap(device, handle, false)
    }

    fn wrap(device: &'static HipDevice, handle: hipStream_t, owned: bool) -> Arc<HipStream> {
        let stream = RawStream {
            device,
            handle: Address::new(handle),
            owned,
            progress: Progress::default(),
            accepted: AtomicU64::new(0),
            unasked: AtomicU32::new(0),
            recording: RecordingLock::default(),
        };
        Arc::new(Listed::of(stream))
    }
}

impl RawStream {
    pub(crate) fn device(&self) -> &'static HipDevice {
        self.device
    }

    /// The handle, to look at the stream.
    pub(crate) fn handle(&self) -> hipStream_t {
        self.handle.get()
    }

    /// Runs a call that enqueues work: the stream counts as busy until the next wait.
    pub(crate) fn enqueue(&self, call: impl FnOnce(hipStream_t) -> hipError_t) -> hipError_t {
        self.accept(self.progress.during(|| call(self.handle())))
    }

    fn accept(&self, error: hipError_t) -> hipError_t {
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

    /// As [`enqueue`](Self::enqueue), for an allocation: other streams may use the memory only when this stream has completed it.
    pub(super) fn allocate(&self, call: impl FnOnce(hipStream_t) -> hipError_t) -> hipError_t {
        self.accept(self.progress.allocating(|| call(self.handle())))
    }

    /// Whether memory was allocated here since the last wait.
    pub(super) fn has_fresh_memory(&self) -> bool {
        self.progress.has_fresh_memory()
    }

    pub(super) fn is_busy(&self) -> bool {
        self.progress.is_busy()
    }

    /// For operations that a graph must not hold, because nothing keeps what they touch alive as long as the graph: fails while one
    /// is being recorded, and keeps the recording from beginning as long as the guard lives.
    pub(crate) fn not_recording(&self, operation: &'static str) -> Result<Operation<'_>> {
        self.recording.operation().ok_or_else(|| captured(operation))
    }

    /// As [`not_recording`](Self::not_recording), for what goes another way on a stream that is being recorded, by us or by others.
    pub(super) fn unless_captured(&self) -> Option<Operation<'_>> {
        self.recording.operation().filter(|_| !self.is_captured_by_others())
    }

    /// What the runtime says: other code may have started a recording.
    pub(crate) fn is_captured_by_others(&self) -> bool {
        let Some(ask) = self.device.api().hipStreamIsCapturing else { return false };
        let mut status = hipStreamCaptureStatus::hipStreamCaptureStatusNone;
        // SAFETY: the stream is alive and the pointer valid for a write.
        let error = unsafe { ask(self.handle(), &mut status) };
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
        self.synchronize_entered()
    }

    /// Waits regardless of earlier errors, for memory that is about to be freed or returned.
    pub(crate) fn fence(&self) -> Result<()> {
        let Some(_operation) = self.recording.operation() else {
            // What was enqueued before the recording was waited for then.
            return Ok(());
        };
        let current = self.device.make_current();
        let waited = self.synchronize_entered();
        current.and(waited)
    }

    /// Waits on a device that was entered; not for a stream that is being recorded, which a wait would spoil.
    pub(super) fn synchronize_unless_captured(&self) -> Result<()> {
        self.unless_captured().map_or(Ok(()), |_operation| self.synchronize_entered())
    }

    /// As [`synchronize`](Self::synchronize), on a device that was entered.
    pub(super) fn synchronize_entered(&self) -> Result<()> {
        self.progress.waiting(|| {
            // SAFETY: the stream is alive as long as this value is.
            self.device.check("hipStreamSynchronize", unsafe { (self.device.api().hipStreamSynchronize)(self.handle()) })
        })
    }

    /// Notes that `last`, and with it all before it, touches no memory any more, which was seen without the runtime. From time to time the runtime is asked anyway, which waits: until
    /// then it keeps its records of finished work (ROCm a batch of commands for each stream, a signal for each).
    pub(super) fn end_seen(&self, last: &LastOf) -> Result<()> {
        /// At the latest after this many ends about which the runtime was not asked.
        const UNASKED: u32 = 256;
        // No further: other threads may have enqueued since.
        self.progress.reach_last(last);
        let unasked = self.unasked.fetch_add(1, Ordering::Relaxed);
        if unasked % UNASKED == UNASKED - 1 { self.synchronize_entered() } else { Ok(()) }
    }

    /// Work enqueued from now on waits for `event`.
    pub(crate) fn wait(&self, event: &HipEvent) -> Result<()> {
        let _open = self.not_recording("waiting for an event")?;
        self.device.enter()?;
        // SAFETY: both are alive and of the same device.
        let error = self.enqueue(|stream| unsafe { (self.device.api().hipStreamWaitEvent)(stream, event.handle.get(), 0) });
        self.device.check("hipStreamWaitEvent", error)
    }
}

impl Queue for RawStream {
    fn registry(&self) -> &Registry<RawStream> {
        &self.device.streams
    }

    fn drain(&self) {
        if self.is_busy() {
            self.device.defer(|| self.synchronize_unless_captured());
        }
    }
}

impl Drop for RawStream {
    fn drop(&mut self) {
        if self.owned {
            self.device.defer(|| {
                // SAFETY: ours, and destroyed only here; its last owner drops it.
                self.device.check("hipStreamDestroy", unsafe { (self.device.api().hipStreamDestroy)(self.handle()) })
            });
        }
    }
}

/// An event with timing.
#[derive(Debug)]
pub(crate) struct HipEvent {
    device: &'static HipDevice,
    handle: Address<ihipEvent_t>,
}

impl HipEvent {
    pub(crate) fn new(device: &'static HipDevice) -> Result<HipEvent> {
        device.enter()?;
        let mut handle = ptr::null_mut();
        let error = (device.api().hipEventCreateWithFlags)(&mut handle, hipEventDefault);
        device.check("hipEventCreateWithFlags", error)?;
        Ok(HipEvent { device, handle: Address::new(handle) })
    }

    pub(crate) fn record(&self, stream: &RawStream) -> Result<()> {
        // Another stream that waits for the event would become part of the graph.
        let _open = stream.not_recording("an event")?;
        self.device.enter()?;
        // SAFETY: both are alive and of the same device.
        self.device.check("hipEventRecord", unsafe { (self.device.api().hipEventRecord)(self.handle.get(), stream.handle()) })
    }

    pub(crate) fn synchronize(&self) -> Result<()> {
        self.device.enter()?;
        // SAFETY: the event is alive.
        self.device.check("hipEventSynchronize", unsafe { (self.device.api().hipEventSynchronize)(self.handle.get()) })
    }

    /// Whether the work before the event is done.
    pub(crate) fn is_done(&self) -> Result<bool> {
        self.device.enter()?;
        // SAFETY: the event is alive.
        match unsafe { (self.device.api().hipEventQuery)(self.handle.get()) } {
            hipError_t::hipErrorNotReady => Ok(false),
            error => self.device.check("hipEventQuery", error).map(|()| true),
        }
    }

    /// The time since `start`; both have been recorded and waited for.
    pub(crate) fn elapsed_since(&self, start: &HipEvent) -> Result<Duration> {
        let mut ms = 0f32;
        // SAFETY: both are alive and the pointer valid for a write.
        let error = unsafe { (self.device.api().hipEventElapsedTime)(&mut ms, start.handle.get(), self.handle.get()) };
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
            self.device.check("hipEventDestroy", unsafe { (self.device.api().hipEventDestroy)(self.handle.get()) })
        });
    }
}
