//! What people run: suites of cases (feature `suite`), the replay of published measurements, and probes of matrix instructions.

#[cfg(feature = "suite")]
mod details;
mod mfma_probe;
#[cfg(feature = "suite")]
pub mod record;
pub mod replay;
#[cfg(feature = "suite")]
pub mod report;
#[cfg(feature = "suite")]
pub mod study_tables;

pub use mfma_probe::{MfmaProbe, ProbeAnswer, ProbeCase};
