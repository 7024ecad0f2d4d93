//! Streams: ordered queues of work on a device.

use super::hip::HipStream;
use super::recording::{Operation, RecordingLock};
use super::{Backend, Device, Event};
use crate::error::{Error, Result};
use std::convert::Infallible;
use std::ffi::c_void;
use std::sync::Arc;

/// An ordered queue of work. On the host device work is done when the call returns; what a stream refuses while it is
/// [captured](Stream::capture) it refuses there, too.
///
/// Streams run concurrently; operations that take no stream first wait for the work of all streams.
#[derive(Clone, Debug)]
pub struct Stream {
    device: Device,
    queue: Queue,
}

#[derive(Clone, Debug)]
enum Queue {
    /// A stream of the host, which does all work immediately. Its clones share whether it is being recorded.
    Host(Arc<RecordingLock>),
    Hip(Arc<HipStream>),
}

/// The error of an operation that a stream refuses while it is recorded.
pub(crate) fn captured(operation: &str) -> Error {
    Error::Unsupported { what: operation.to_owned(), by: "a stream that is being captured".to_owned() }
}

impl Stream {
    /// A new stream on `device`.
    ///
    /// # Errors
    /// When the runtime has none to give.
    pub fn new(device: &Device) -> Result<Stream> {
        let queue = match device.backend() {
            Backend::Host => Queue::Host(Arc::default()),
            Backend::Hip(gpu) => Queue::Hip(HipStream::new(gpu)?),
        };
        Ok(Stream { device: device.clone(), queue })
    }

    /// A stream that other code owns: a `hipStream_t` (a `cudaStream_t` on NVIDIA), null for the null stream. It is not
    /// destroyed on drop.
    ///
    /// # Errors
    /// [`Error::Unsupported`] on the host device, which has no such streams.
    ///
    /// # Safety
    /// * `stream` is a live stream of `device`'s runtime on that GPU, or null;
    /// * it outlives the result and its clones;
    /// * it is not captured through another [`Stream`] of the same handle (see [`capture`](Stream::capture)), and a graph that other
    ///   code captures from it is launched only while everything that it recorded is alive.
    pub unsafe fn from_raw(device: &Device, stream: *mut c_void) -> Result<Stream> {
        match device.backend() {
            Backend::Host => Err(Error::Unsupported { what: "a foreign stream".to_owned(), by: device.name() }),
            Backend::Hip(gpu) => {
                // SAFETY: the caller's promise.
                let hip = unsafe { HipStream::borrowed(gpu, stream.cast()) };
                Ok(Stream { device: device.clone(), queue: Queue::Hip(hip) })
            }
        }
    }

    /// The `hipStream_t`, for other libraries; null on the host device.
    ///
    /// Work that they enqueue is not seen by operations without a stream: [`synchronize`](Stream::synchronize) first.
    pub fn as_raw(&self) -> *mut c_void {
        self.hip().map_or(std::ptr::null_mut(), |s| s.handle().cast())
    }

    /// The device that the stream belongs to.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Waits until all work of the stream is done.
    ///
    /// # Errors
    /// An error of that work; [`Error::Unsupported`] while the stream is being captured.
    pub fn synchronize(&self) -> Result<()> {
        match &self.queue {
            Queue::Host(_) => self.not_recording("a wait").map(drop),
            Queue::Hip(stream) => stream.synchronize(),
        }
    }

    /// Makes work enqueued from now on wait for what `event` marks, on the device; the caller does not wait.
    ///
    /// # Errors
    /// [`Error::WrongDevice`]; [`Error::Unsupported`] while the stream is being captured; a failed call.
    pub fn wait(&self, event: &Event) -> Result<()> {
        self.device.expect_same(event.device(), "the event")?;
        match (self.hip(), event.hip()) {
            (Some(stream), Some(event)) => stream.wait(event),
            _ => self.not_recording("waiting for an event").map(drop),
        }
    }

    /// For operations that a graph must not hold: fails while the stream is recorded, and keeps a recording from beginning as long as the guard
    /// lives.
    pub(crate) fn not_recording(&self, operation: &'static str) -> Result<Operation<'_>> {
        match &self.queue {
            Queue::Host(recording) => recording.operation().ok_or_else(|| captured(operation)),
            Queue::Hip(stream) => stream.not_recording(operation),
        }
    }

    /// Begins to record a stream of the host; `None` on a GPU.
    pub(super) fn record_on_host(&self) -> Result<Option<HostRecording<'_>>> {
        let Queue::Host(recording) = &self.queue else { return Ok(None) };
        match recording.begin(|| Ok::<(), Infallible>(())) {
            Some(_) => Ok(Some(HostRecording(recording))),
            None => Err(captured("capture")),
        }
    }

    /// The runtime's stream, on a GPU.
    pub(crate) fn hip(&self) -> Option<&Arc<HipStream>> {
        match &self.queue {
            Queue::Host(_) => None,
            Queue::Hip(stream) => Some(stream),
        }
    }
}

/// A recording of a host stream in progress, which ends when this is dropped.
pub(super) struct HostRecording<'a>(&'a RecordingLock);

impl Drop for HostRecording<'_> {
    fn drop(&mut self) {
        self.0.end(|| ());
    }
}
