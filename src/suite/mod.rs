//! What people run: suites of cases (feature `suite`), the replay of published measurements, and probes of matrix instructions.

mod mfma_probe;
#[cfg(feature = "suite")]
pub mod record;
pub mod replay;

pub use mfma_probe::{MfmaProbe, ProbeAnswer, ProbeCase};
