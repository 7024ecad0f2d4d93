//! What people run: the replay of published measurements, and probes of matrix instructions.

mod mfma_probe;
pub mod replay;

pub use mfma_probe::{MfmaProbe, ProbeAnswer, ProbeCase};
