//! Reference results: GEMM and convolution with a stated arithmetic.
//!
//! [`Gemm`] and [`Conv`] compute each element by an [`Arithmetic`]: an accumulator (f64, f32, the compromises of published
//! validators, or the matrix or tensor core of an architecture) that takes the products in a documented order. Tensors may have any
//! format and any strides; sums of |a||b| are available on request. Work is cut into tiles and spread over all cores and SIMD lanes, but
//! every element keeps its own sequence, so results are the same bits on every machine and for any number of threads.
//! [`naive`] holds the same definitions element by element.
//!
//! On a GPU operands are widened, summed and rounded where they live, each element by one thread; the bits are the same. The
//! device code has every mode except the variants of gfx942 that keep 52 or 31 bits. Limits: operands are widened to f32 or f64 in memory first, and sums
//! take 8 bytes per element until they are rounded.

mod accumulate;
mod chain;
mod conv;
mod conv_layout;
mod conv_param;
mod engine;
mod gemm;
mod gpu;
mod lattice;
mod mfma_gemm;
mod mfma_issue;
mod mma_issue;
mod model_gemm;
pub mod naive;
mod operand;
mod plan;
#[cfg(test)]
mod tests;
mod tiles;

pub use accumulate::{Accumulate, Arithmetic};
pub use conv::Conv;
pub use conv_layout::{ConvLayout, Role};
pub use conv_param::{ConvParam, ConvSizes};
pub use gemm::{Epilogue, Gemm};
pub use lattice::{Direction, KOrder};
pub(crate) use lattice::{Lattice, Strides};
pub use mfma_gemm::{mfma_gemm, mfma_gemm_instruction};
pub use mfma_issue::mfma_issue;
pub use mma_issue::mma_issue;
pub use model_gemm::model_gemm;
pub(crate) use plan::has_device_code;
