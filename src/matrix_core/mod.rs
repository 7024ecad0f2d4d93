//! Models of the arithmetic of AMD's matrix cores and NVIDIA's tensor cores, bit for bit where measurements or publications
//! determine it.
//!
//! A [`Model`] names an arithmetic: an [`Arch`], an [`Input`] format and a [`Rule`] by which a group of products joins the
//! accumulator. [`gemm_tile`] applies it to matrices; [`naive`] holds the same arithmetic written to be read, one
//! element at a time, and is what the fast paths are compared with.
//!
//! [`Mfma`] is an instruction of AMD's: its name, shape, formats and register layout, and [`Mfma::run`], which gives what the
//! hardware delivers for given matrices. [`Mma`] is one of NVIDIA's.
//!
//! What holds for every model:
//!
//! * Output elements are independent. For one element, K is walked upward in groups of [`Model::group`]; the result of a
//!   group is the accumulator of the next. The last group is padded with zeros (+0 times +0).
//! * A NaN result is one value, [`Model::nan`].
//! * A fused sum ([`Rule::Exact`], [`Rule::Fused`], [`Rule::FusedHalves`]) that is exactly zero is +0, and so is one of tensor
//!   cores ([`Rule::Truncated`], [`Rule::Emulated`]) that is rounded to zero; [`Rule::Fma`] and [`Rule::Tree`] have the signs of
//!   IEEE 754.
//!
//! Everything here is pure: no device, no I/O.

mod arch;
mod fast;
mod input;
mod instruction;
mod layout;
mod mma;
mod model;
pub mod naive;
mod rule;
mod run;
mod tile;
mod truncated;

pub use arch::{Arch, Vendor};
pub use input::Input;
pub use instruction::{Arithmetic, Mfma};
pub use layout::{Coordinate, Modifiers, Operand, Slot};
pub use mma::Mma;
pub(crate) use model::KEEP;
pub use model::Model;
pub use rule::{Accumulator, Rule};
pub use tile::gemm_tile;
pub(crate) use tile::gemm_tile_onward;
