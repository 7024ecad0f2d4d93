//! The replay.

mod config;
mod metrics;
mod run;
mod split;
mod table;

pub use config::{Configuration, Kernel, Range, Validator, Variant};
pub use metrics::{Histograms, Metrics};
pub use run::{Orders, Outcome, Replay};
pub use table::configurations;
