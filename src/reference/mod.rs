//! Reference results: GEMM and convolution.
