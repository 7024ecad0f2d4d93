//! The replay.

mod config;
mod metrics;
mod run;
mod shared;
mod split;
mod table;

pub use config::{Configuration, Kernel, Range, Validator, Variant};
pub use metrics::{StudyHistograms, StudyMetrics};
pub use run::{Orders, Outcome, Replay};
#[cfg(feature = "suite")]
pub(crate) use shared::Shared;
pub use table::configurations;
