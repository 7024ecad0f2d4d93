//! GEMM through a model.

use super::{Model, fast, naive};
use crate::simd::InstructionSet;

/// C (m x n) += A (m x k) * B (k x n) by the arithmetic of `model`, row-major with leading dimensions `lda`, `ldb`, `ldc`.
///
/// A and B hold exact values of the model's input formats, widened to f32. They may have gone through [`Model::prepare`]
/// (faster) or not. C is the input of the first instruction of a chain and receives the result of the last one: the products are
/// taken in groups of [`Model::group`], in ascending k, and the last group is padded with zeros. If `k` is zero, C is changed as by
/// an instruction that multiplies zeros.
///
/// Runs on the calling thread. [`naive::gemm`] gives the same bits.
///
/// # Panics
/// When a slice is too short for its shape and leading dimension, or a leading dimension is smaller than its row.
#[allow(clippy::too_many_arguments)] // The shape of a GEMM.
pub fn gemm_tile(model: Model, m: usize, n: usize, k: usize, a: &[f32], lda: usize, b: &[f32], ldb: usize, c: &mut [f32], ldc: usize) {
    assert!(lda >= k && ldb >= n && ldc >= n, "leading dimensions {lda}, {ldb}, {ldc} of rows of {k}, {n}, {n}");
    if k == 0 {
        return naive::gemm(model, m, n, k, a, lda, b, ldb, c, ldc);
    }
    fast::gemm(model, &mut fast::Problem { m, n, k, a, lda, b, ldb, c, ldc, first: true }, InstructionSet::best());
}

/// Continues a [`gemm_tile`] after an earlier call, whose k was a multiple of the group: gives the bits of one call for all products. What an instruction does to its input C is
/// not done again.
#[allow(clippy::too_many_arguments)] // The shape of a GEMM.
pub(crate) fn gemm_tile_onward(
    model: Model,
    m: usize,
    n: usize,
    k: usize,
    a: &[f32],
    lda: usize,
    b: &[f32],
    ldb: usize,
    c: &mut [f32],
    ldc: usize,
) {
    fast::gemm(model, &mut fast::Problem { m, n, k, a, lda, b, ldb, c, ldc, first: false }, InstructionSet::best());
}
