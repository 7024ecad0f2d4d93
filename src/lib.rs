// The README is the first page. Its relative links lead to the packed crate's files: the first definition of a label counts.
//! [docs/README.md]: https://docs.rs/crate/hipverify/latest/source/docs/README.md
//! [docs/causes.md]: https://docs.rs/crate/hipverify/latest/source/docs/causes.md
//! [docs/fill.md]: https://docs.rs/crate/hipverify/latest/source/docs/fill.md
//! [docs/formats.md]: https://docs.rs/crate/hipverify/latest/source/docs/formats.md
//! [docs/golden.md]: https://docs.rs/crate/hipverify/latest/source/docs/golden.md
//! [docs/matrix-cores.md]: https://docs.rs/crate/hipverify/latest/source/docs/matrix-cores.md
//! [docs/numerics.md]: https://docs.rs/crate/hipverify/latest/source/docs/numerics.md
//! [docs/nvidia.md]: https://docs.rs/crate/hipverify/latest/source/docs/nvidia.md
//! [docs/operators.md]: https://docs.rs/crate/hipverify/latest/source/docs/operators.md
//! [docs/program.md]: https://docs.rs/crate/hipverify/latest/source/docs/program.md
//! [docs/program.md#scaled-operands]: https://docs.rs/crate/hipverify/latest/source/docs/program.md#scaled-operands
//! [docs/program.md#without-a-reference]: https://docs.rs/crate/hipverify/latest/source/docs/program.md#without-a-reference
//! [docs/reading-a-report.md]: https://docs.rs/crate/hipverify/latest/source/docs/reading-a-report.md
//! [docs/reference.md]: https://docs.rs/crate/hipverify/latest/source/docs/reference.md
//! [docs/reliability.md]: https://docs.rs/crate/hipverify/latest/source/docs/reliability.md
//! [docs/replay.md]: https://docs.rs/crate/hipverify/latest/source/docs/replay.md
//! [docs/rocm.md]: https://docs.rs/crate/hipverify/latest/source/docs/rocm.md
//! [docs/suite-reports.md]: https://docs.rs/crate/hipverify/latest/source/docs/suite-reports.md
//! [docs/suites.md]: https://docs.rs/crate/hipverify/latest/source/docs/suites.md
//! [docs/tolerances.md]: https://docs.rs/crate/hipverify/latest/source/docs/tolerances.md
//! [docs/verdict.svg]: https://docs.rs/crate/hipverify/latest/source/docs/verdict.svg
//!
#![doc = include_str!("../README.md")]
//!
//! ## The layers of this crate
//!
//! From the top down; each layer uses some of the layers below it and none above (CONTRIBUTING.md has the picture, and says which layer uses which):
//!
//! | layer | what it is |
//! |---|---|
//! | `cli` | the program, feature `cli` |
//! | [`suite`] | cases, their outcomes, and the replay of published measurements; uses only public items |
//! | [`check`] | judges the result of a GEMM or convolution from its operands |
//! | [`bandwidth`] | the memory bandwidth of a device |
//! | [`verify`] | the comparison, its metrics and its report |
//! | `files` | tensor files, feature `files` |
//! | [`fill`] | test data, a function of seed, stream and index alone |
//! | [`reference`](mod@reference) | GEMM and convolution with a stated arithmetic and order |
//! | `kernels`, private | every device kernel: its parameters and its launch |
//! | [`matrix_core`] | the arithmetic of AMD's matrix cores and NVIDIA's tensor cores, bit for bit; pure |
//! | [`device`] | where data live: [`Device`], [`DeviceMem`], [`Stream`], [`Event`]; backends host and HIP |
//! | [`dtype`] | number formats, pure |
//! | `simd`, private | instruction sets of the host |

pub mod bandwidth;
mod build_info;
pub mod check;
pub mod device;
pub mod dtype;
mod error;
#[cfg(feature = "files")]
pub mod files;
pub mod fill;
mod kernels;
pub mod matrix_core;
mod parallel;
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
