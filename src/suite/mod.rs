//! What people run: suites of cases (feature `suite`), the replay of published measurements, and probes of matrix instructions.

#[cfg(feature = "suite")]
mod cases;
#[cfg(feature = "suite")]
mod command;
#[cfg(feature = "suite")]
mod details;
#[cfg(feature = "suite")]
mod embedded;
#[cfg(feature = "suite")]
mod execute;
#[cfg(feature = "suite")]
mod file;
#[cfg(feature = "suite")]
mod guard;
#[cfg(feature = "suite")]
mod kernel;
#[cfg(feature = "suite")]
mod keys;
#[cfg(feature = "suite")]
mod metrics;
mod mfma_probe;
#[cfg(feature = "suite")]
mod problem;
#[cfg(feature = "suite")]
pub mod record;
pub mod replay;
#[cfg(feature = "suite")]
pub mod report;
#[cfg(feature = "suite")]
mod results;
#[cfg(feature = "suite")]
mod rule;
#[cfg(feature = "suite")]
mod run;
#[cfg(feature = "suite")]
mod select;
#[cfg(feature = "suite")]
mod study;
#[cfg(feature = "suite")]
pub mod study_tables;
#[cfg(all(test, feature = "suite"))]
#[allow(clippy::unwrap_used)]
mod tests;
#[cfg(feature = "suite")]
mod worker;

#[cfg(feature = "suite")]
pub use {
    cases::{Case, Suite},
    file::{KernelEntry, Line, Setting, SuiteFile, Table, Value, schema},
    guard::{Guard, Poison, RedZone, Unwritten},
    kernel::{KernelError, Kernels, Launch},
    keys::{Key, Kind, Takes},
    results::{ResultFile, write_results},
    run::Runner,
    select::{Selection, Shard},
};

pub use mfma_probe::{MfmaProbe, ProbeAnswer, ProbeCase};
