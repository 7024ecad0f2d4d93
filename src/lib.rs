//! Tells whether a low-precision GPU kernel is right.
//!
//! See the README for a tour. The layers of this crate, from the bottom up:
//!
//! * [`dtype`]: number formats, pure.
//! * [`device`]: where data live: [`Device`], [`DeviceMem`], [`Stream`], [`Event`]; backends host and HIP.
//! * `kernels`, private: every device kernel and its launch.
//! * [`fill`]: generators, a function of (seed, stream, index) alone.
//! * [`verify`]: the comparison, its metrics and its report.
//! * [`matrix_core`]: models of the arithmetic of AMD's matrix cores, pure.
//! * [`reference`](mod@reference): reference results.
//! * [`bandwidth`]: what a device's memory can do.
//! * [`suite`]: the replay of published measurements.

pub mod bandwidth;
mod build_info;
pub mod device;
pub mod dtype;
mod error;
pub mod fill;
mod kernels;
pub mod matrix_core;
pub mod reference;
mod simd;
pub mod suite;
pub mod verify;

#[cfg(feature = "cli")]
pub mod cli;

pub use build_info::{BuildInfo, build_info};
pub use device::{Device, DeviceMem, Event, Stream, TensorRef};
pub use dtype::DType;
pub use error::{Error, Result};

/// Compiles and runs the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
