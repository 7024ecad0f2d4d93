//! Events: marks in a stream that can be waited for and timed.

use super::{Backend, Device, Stream};
use crate::error::{Error, Result};
use std::time::{Duration, Instant};

/// A mark in a stream.
#[derive(Debug)]
pub struct Event {
    device: Device,
    at: Option<Instant>,
}

impl Event {
    /// A new event on `device`, not recorded yet.
    ///
    /// # Errors
    /// When the runtime has none to give.
    pub fn new(device: &Device) -> Result<Event> {
        match device.backend() {
            Backend::Host => Ok(Event { device: device.clone(), at: None }),
        }
    }

    /// Marks the work that `stream` holds so far.
    ///
    /// # Errors
    /// [`Error::WrongDevice`], or a failed call.
    pub fn record(&mut self, stream: &Stream) -> Result<()> {
        self.device.expect_same(stream.device(), "the stream")?;
        match self.device.backend() {
            Backend::Host => self.at = Some(Instant::now()),
        }
        Ok(())
    }

    /// Waits until the marked work is done.
    ///
    /// # Errors
    /// An error of that work.
    pub fn synchronize(&self) -> Result<()> {
        match self.device.backend() {
            Backend::Host => Ok(()),
        }
    }

    /// The time from `start` to this event. Waits for both.
    ///
    /// # Errors
    /// When either has not been recorded.
    pub fn elapsed_since(&self, start: &Event) -> Result<Duration> {
        match (start.at, self.at) {
            (Some(from), Some(to)) => Ok(to.saturating_duration_since(from)),
            _ => Err(Error::InvalidArgument {
                what: "event",
                value: "not recorded".to_owned(),
                limit: "record both events first".to_owned(),
            }),
        }
    }
}
