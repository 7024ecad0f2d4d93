//! The program as people run it: exit codes, screens, files, and every bad input. A module for each command, and for what all of them share.
#![cfg(feature = "cli")]
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

mod check;
mod compare;
#[cfg(unix)]
mod failed_cases;
mod fill;
mod golden;
mod input;
mod inspect;
mod machines;
mod messages;
mod operands;
mod scales;
mod schema;
mod screen;
mod study;
mod suite;
mod support;
mod system;
mod tensors;
mod tolerances;
mod usage;
