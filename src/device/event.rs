//! Events: marks in a stream that can be waited for and timed.

use super::hip::HipEvent;
use super::{Backend, Device, Stream};
use crate::error::{Error, Result};
use std::time::{Duration, Instant};

/// A mark in a stream.
#[derive(Debug)]
pub struct Event {
    device: Device,
    mark: Mark,
}

#[derive(Debug)]
enum Mark {
    Host(Option<Instant>),
    Hip { event: HipEvent, recorded: bool },
}

impl Event {
    /// A new event on `device`, not recorded yet.
    ///
    /// # Errors
    /// When the runtime has none to give.
    pub fn new(device: &Device) -> Result<Event> {
        let mark = match device.backend() {
            Backend::Host => Mark::Host(None),
            Backend::Hip(gpu) => Mark::Hip { event: HipEvent::new(gpu)?, recorded: false },
        };
        Ok(Event { device: device.clone(), mark })
    }

    /// The device that the event belongs to.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Marks the work that `stream` holds so far.
    ///
    /// # Errors
    /// [`Error::WrongDevice`]; [`Error::Unsupported`] while the stream is being captured; a failed call.
    pub fn record(&mut self, stream: &Stream) -> Result<()> {
        self.device.expect_same(stream.device(), "the stream")?;
        match (&mut self.mark, stream.hip()) {
            (Mark::Hip { event, recorded }, Some(stream)) => {
                event.record(stream)?;
                *recorded = true;
            }
            (Mark::Host(at), _) => {
                let _open = stream.not_recording("an event")?;
                *at = Some(Instant::now());
            }
            (Mark::Hip { .. }, None) => {}
        }
        Ok(())
    }

    /// Waits until the marked work is done; returns at once when nothing was recorded.
    ///
    /// # Errors
    /// An error of that work.
    pub fn synchronize(&self) -> Result<()> {
        self.hip().map_or(Ok(()), HipEvent::synchronize)
    }

    /// Whether the marked work is done; true when nothing was recorded.
    ///
    /// # Errors
    /// An error of that work.
    pub fn is_done(&self) -> Result<bool> {
        self.hip().map_or(Ok(true), HipEvent::is_done)
    }

    /// The time from `start` to this event. Waits for both.
    ///
    /// # Errors
    /// When either has not been recorded, or they are on different devices.
    pub fn elapsed_since(&self, start: &Event) -> Result<Duration> {
        self.device.expect_same(&start.device, "the start")?;
        match (&start.mark, &self.mark) {
            (Mark::Host(Some(from)), Mark::Host(Some(to))) => Ok(to.saturating_duration_since(*from)),
            (Mark::Hip { event: from, recorded: true }, Mark::Hip { event: to, recorded: true }) => {
                from.synchronize()?;
                to.synchronize()?;
                to.elapsed_since(from)
            }
            _ => Err(Error::InvalidArgument {
                what: "event",
                value: "not recorded".to_owned(),
                limit: "record both events first".to_owned(),
            }),
        }
    }

    /// The runtime's event, on a GPU.
    pub(super) fn hip(&self) -> Option<&HipEvent> {
        match &self.mark {
            Mark::Host(_) => None,
            Mark::Hip { event, .. } => Some(event),
        }
    }
}
