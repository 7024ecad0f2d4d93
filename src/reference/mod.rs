//! Reference results: GEMM and convolution.

mod chain;
mod conv_layout;
mod conv_param;
mod engine;
mod lanes;
mod lattice;
mod model_gemm;
mod tiles;

pub use conv_layout::{ConvLayout, Role};
pub use conv_param::{ConvParam, ConvSizes};
pub use lattice::{Direction, KOrder};
pub use model_gemm::model_gemm;

pub(crate) use chain::{Chain, F32, F32Fma, F64, Four, FourApart, MatrixCore, Rounded, Vectorised};
pub(crate) use engine::{Convolution, convolve};
pub(crate) use lattice::Lattice;
