//! Streams: ordered queues of work on a device.

use super::{Backend, Device};
use crate::error::Result;

/// An ordered queue of work. On the host device work is done when the call returns.
#[derive(Debug)]
pub struct Stream {
    device: Device,
}

impl Stream {
    /// A new stream on `device`.
    ///
    /// # Errors
    /// When the runtime has none to give.
    pub fn new(device: &Device) -> Result<Stream> {
        match device.backend() {
            Backend::Host => Ok(Stream { device: device.clone() }),
        }
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
        match self.device.backend() {
            Backend::Host => Ok(()),
        }
    }
}
