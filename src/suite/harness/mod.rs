//! Suites of cases, their runs, and reports on them.
//!
//! A [`SuiteFile`] (TOML) becomes a [`Suite`] of [`Case`]s, a [`Selection`] chooses some, a [`Runner`] hands each to a kernel and judges what comes out.
//! A [`ResultFile`] holds one line of JSON a case ([`record`]), from which [`report`] and [`study_tables`] make everything else.

mod case_report;
mod case_text;
mod cases;
mod code;
mod command;
mod data;
mod details;
mod embedded;
mod entry;
mod epilogue;
mod execute;
mod facts;
mod file;
mod formats;
mod guard;
mod kernel;
mod keys;
mod metrics;
mod module;
mod operators;
mod overrides;
mod problem;
mod process;
pub mod record;
pub mod report;
mod results;
mod rule;
mod run;
mod saving;
mod scales;
mod select;
pub mod shrink;
mod standard;
mod study;
pub mod study_tables;
mod tail;
mod tensor_files;
#[cfg(test)]
mod tests;
#[cfg(feature = "suite-tests")]
mod trials;
mod worker;

#[cfg(feature = "cli")]
pub(crate) use {
    cases::quoted,
    rule::{Rule, pairs, unknown},
};
pub use {
    cases::{Case, Suite},
    entry::{Code, KernelEntry, ModuleEntry, ProgramEntry},
    epilogue::GemmEpilogue,
    file::{KeyValue, Line, Setting, SuiteFile, Table, schema},
    guard::{Guard, Poison, RedZone, Unwritten},
    kernel::{KernelError, Kernels, Launch},
    keys::{Key, TableKind, Takes},
    operators::{Operator, Pass},
    results::{ResultFile, write_results},
    run::Runner,
    saving::Saving,
    scales::BlockScales,
    select::{Selection, Shard},
};

#[cfg(feature = "suite-tests")]
pub use trials::run_tests;
