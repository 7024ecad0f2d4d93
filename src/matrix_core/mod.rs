//! Models of the arithmetic of AMD's matrix cores, bit for bit where measurements or publications determine it.
//!
//! A [`Model`] names an arithmetic: an [`Arch`], an [`Input`] format and a [`Rule`] by which a group of products joins the
//! f32 accumulator. [`gemm_tile`] applies it to matrices; [`naive`] holds the same arithmetic written to be read, one
//! element at a time, and is what the fast paths are compared with.
//!
//! [`Mfma`] is an instruction: its name, shape, formats and register layout, and [`Mfma::run`], which gives what the
//! hardware delivers for given matrices.
//!
//! What holds for every model:
//!
//! * Output elements are independent. For one element, K is walked upward in groups of [`Model::group`]; the result of a
//!   group is the accumulator of the next. The last group is padded with zeros (+0 times +0).
//! * A NaN result is the one quiet NaN `0x7fc00000`: no source says which payload the hardware gives.
//! * A fused sum ([`Rule::Exact`], [`Rule::Fused`], [`Rule::FusedHalves`]) that is exactly zero is +0; [`Rule::Fma`] and
//!   [`Rule::Tree`] have the signs of IEEE 754.
//!
//! Everything here is pure: no device, no I/O.

mod arch;
mod fast;
mod instruction;
mod layout;
mod model;
pub mod naive;
mod run;
mod tile;

pub use arch::Arch;
pub use instruction::{Arithmetic, Mfma};
pub use layout::{Coordinate, Modifiers, Operand, Slot};
pub(crate) use model::KEEP;
pub use model::{Input, Model, Rule};
pub use tile::gemm_tile;
