//! Streams: ordered queues of work on a device.

use super::hip::HipStream;
use super::{Backend, Device, Event};
use crate::error::{Error, Result};
use std::ffi::c_void;
use std::sync::Arc;

/// An ordered queue of work. On the host device work is done when the call returns.
///
/// Streams run beside each other; operations that take no stream wait for the work of all of them first.
#[derive(Clone, Debug)]
pub struct Stream {
    device: Device,
    hip: Option<Arc<HipStream>>,
}

impl Stream {
    /// A new stream on `device`.
    ///
    /// # Errors
    /// When the runtime has none to give.
    pub fn new(device: &Device) -> Result<Stream> {
        let hip = match device.backend() {
            Backend::Host => None,
            Backend::Hip(gpu) => Some(HipStream::new(gpu)?),
        };
        Ok(Stream { device: device.clone(), hip })
    }

    /// A stream that somebody else owns: a `hipStream_t` (a `cudaStream_t` on NVIDIA), null for the null stream. It is not
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
                Ok(Stream { device: device.clone(), hip: Some(hip) })
            }
        }
    }

    /// The `hipStream_t`, for other libraries; null on the host device.
    ///
    /// Work that they enqueue is not seen by operations without a stream: [`synchronize`](Stream::synchronize) first.
    pub fn as_raw(&self) -> *mut c_void {
        self.hip.as_ref().map_or(std::ptr::null_mut(), |s| s.handle().cast())
    }

    /// The device that the stream belongs to.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Waits until all work of the stream is done.
    ///
    /// # Errors
    /// An error of that work.
    pub fn synchronize(&self) -> Result<()> {
        self.hip.as_ref().map_or(Ok(()), |s| s.synchronize())
    }

    /// Makes work enqueued from now on wait for what `event` marks, on the device; the caller does not wait.
    ///
    /// # Errors
    /// [`Error::WrongDevice`], or a failed call.
    pub fn wait(&self, event: &Event) -> Result<()> {
        self.device.expect_same(event.device(), "the event")?;
        match (&self.hip, event.hip()) {
            (Some(stream), Some(event)) => stream.wait(event),
            _ => Ok(()),
        }
    }

    /// The runtime's stream, on a GPU.
    pub(crate) fn hip(&self) -> Option<&Arc<HipStream>> {
        self.hip.as_ref()
    }
}
