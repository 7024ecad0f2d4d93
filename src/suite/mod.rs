//! What people run: suites of cases (feature `suite`), the replay of published measurements, and probes of matrix instructions.

#[cfg(feature = "suite")]
mod harness;
mod mfma_probe;
mod mma_probe;
pub mod replay;

#[cfg(feature = "suite")]
pub use harness::*;
pub use mfma_probe::{MfmaProbe, ProbeAnswer, ProbeCase};
pub use mma_probe::{MmaDifference, MmaDifferences, MmaProbe};
