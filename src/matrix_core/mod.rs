//! Models of the arithmetic of AMD's matrix cores and NVIDIA's tensor cores, bit for bit where measurements or publications
//! determine it.
//!
//! A [`Model`] names an arithmetic: an [`Arch`], an [`Input`] format and a [`Rule`] by which a group of products is added to the
//! accumulator. [`gemm_tile`] applies it to matrices. [`naive`] has the same arithmetic in its most readable form, one
//! element at a time; the fast paths are compared with it.
//!
//! [`Mfma`] is one of AMD's instructions: its name, shape, formats and register layout, and [`Mfma::run`], which gives the result of
//! the hardware for given matrices. [`Mma`] is one of NVIDIA's.
//!
//! For every model:
//!
//! * Output elements are independent. For one element, the products are taken in groups of [`Model::group`], in ascending k; the result of a
//!   group is the accumulator of the next. The last group is padded with zeros (+0 times +0).
//! * A NaN result is one value, [`Model::nan`].
//! * A fused sum ([`Rule::Exact`], [`Rule::Fused`], [`Rule::FusedHalves`]) that is exactly zero is +0, and so is one of tensor
//!   cores ([`Rule::Truncated`], [`Rule::Emulated`]) that is rounded to zero; [`Rule::Fma`] and [`Rule::Tree`] give the signs of
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
pub use instruction::{InstructionKind, Mfma};
pub use layout::{Coordinate, Modifiers, Operand, Slot};
pub use mma::Mma;
pub(crate) use model::KEEP;
pub use model::Model;
pub use rule::{Accumulator, Rule};
pub use tile::gemm_tile;
pub(crate) use tile::gemm_tile_onward;
