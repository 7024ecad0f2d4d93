//! The HIP runtime, loaded at run time, and the device code of `hipverify`.
//!
//! Nothing here links ROCm: a program that uses this crate starts on any machine, and [`amd`] says whether a runtime is
//! there. The layers, from the bottom up:
//!
//! * [`bindings`]: types and declarations, generated from HIP 5.2.3's headers and checked in;
//! * [`Api`]: the table of functions, each row checked against the bindings by the compiler; functions that not every
//!   runtime from 5.x to 7.x has are `Option`s;
//! * [`Runtime`]: an opened library with its table ([`amd`], or [`nvidia`] with the feature of that name);
//! * [`DeviceProps`]: name and architecture, whatever layout the runtime uses;
//! * [`Rtc`]: hipRTC, from its own library or from the runtime;
//! * [`abi`]: the structs that kernels take and write;
//! * [`kernels`]: the device code, as sources and as images compiled ahead of time.
//!
//! The functions of the table are the C functions: everything HIP says about them holds, and calling them is `unsafe`, but for those that take only
//! numbers and addresses of values that they write.
//! The safe layer is the crate `hipverify`.

/// What crosses between Rust and the kernels, generated from `hip/abi.h` and checked in. Every struct is what the kernels lay it
/// out as: both sides assert sizes and offsets.
#[rustfmt::skip]
#[allow(missing_docs, non_camel_case_types, non_snake_case, non_upper_case_globals, clippy::all, rustdoc::all)]
pub mod abi;
#[rustfmt::skip]
#[allow(missing_docs, non_camel_case_types, non_snake_case, non_upper_case_globals, clippy::all)]
pub mod bindings;
pub mod kernels;
mod library;
mod load;
mod props;
mod rtc;
mod table;

pub use load::{Attempt, LoadError, Platform, Runtime, amd, no_device, nvidia};
pub use props::DeviceProps;
pub use rtc::{Rtc, RtcApi, RtcError};
pub use table::Api;
