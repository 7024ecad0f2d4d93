//! Defects of sums of products: which terms are added, and in which arithmetic.

use super::{Defect, MUTATION, defect};
use crate::correct::{Order, each, mean_factor, on_matrix_cores};
use crate::problem::{Operation, Problem};
use hipverify::matrix_core::Arch;
use hipverify::{DType, Result};

const PRODUCTS: &[Operation] = &[Operation::Gemm, Operation::Convolution, Operation::Reduction];
const GEMM: &[Operation] = &[Operation::Gemm];
const CONVOLUTION: &[Operation] = &[Operation::Convolution];
const REDUCTION: &[Operation] = &[Operation::Reduction];

/// Depth of a tile of K.
const TILE: usize = 32;

pub const DEFECTS: &[Defect] = &[
    defect("last tile of K missing", MUTATION, PRODUCTS, |p| sums(p, |a, b| up_to(a, b, (a.len() - 1) / TILE * TILE))),
    defect("last tile of K only", "gpuemu, matmul_triton_buggy: acc = for acc +=", PRODUCTS, |p| {
        sums(p, |a, b| {
            let first = (a.len() - 1) / TILE * TILE;
            add(&a[first..], &b[first..])
        })
    }),
    defect("last term missing", MUTATION, PRODUCTS, |p| sums(p, |a, b| up_to(a, b, a.len() - 1))),
    defect("tail of K missing", "rocMLIR, padding of gemmK in the fp16 study", PRODUCTS, |p| {
        sums(p, |a, b| up_to(a, b, a.len() / TILE * TILE))
    }),
    defect("first term twice", MUTATION, PRODUCTS, |p| sums(p, |a, b| add(a, b) + a[0] * b[0])),
    defect("a part of split-k dropped", "Composable Kernel #3673", PRODUCTS, |p| sums(p, |a, b| up_to(a, b, a.len() - a.len() / 4))),
    defect("a part of split-k added twice", "Composable Kernel #3673", PRODUCTS, |p| sums(p, |a, b| add(a, b) + up_to(a, b, a.len() / 4))),
    defect("accumulated in f16", "hipBLASLt fp16_accumulator_probe", PRODUCTS, |p| accumulated_in(p, DType::F16)),
    defect("accumulated in bf16", "low-precision accumulators, Composable Kernel #3673", PRODUCTS, |p| accumulated_in(p, DType::Bf16)),
    defect("subnormal inputs flushed", "the fp16 study of 2022, MI200", PRODUCTS, |p| on_matrix_cores(p, Arch::Gfx90a)),
    defect("inputs through bf16", "f16 by bf16 instructions, MIOpen and PyTorch on MI200", PRODUCTS, |p| sums_of(p, DType::Bf16)),
    defect("inputs through fp8", "inputs of another precision, FTTN, arXiv 2403.00232", PRODUCTS, |p| sums_of(p, DType::F8E4M3)),
    defect("first tile of A read again for the last", "a barrier removed, ICST 2020", PRODUCTS, |p| {
        sums(p, |a, b| {
            let kept = a.len() - TILE;
            up_to(a, b, kept) + add(&a[..TILE], &b[kept..])
        })
    }),
    defect("B read as transposed", MUTATION, GEMM, |p| {
        let b = (0..p.b.len()).map(|i| p.b[i % p.columns * p.k + i / p.columns]).collect();
        sums(&Problem { b, ..p.clone() }, add)
    }),
    defect("filter flipped", MUTATION, CONVOLUTION, |p| {
        let a = p.a.chunks(9).flat_map(|taps| taps.iter().rev().copied()).collect();
        sums(&Problem { a, ..p.clone() }, add)
    }),
    defect("last tap of the filter missing", MUTATION, CONVOLUTION, |p| {
        let a = p.a.iter().enumerate().map(|(i, &x)| if i % 9 == 8 { 0.0 } else { x }).collect();
        sums(&Problem { a, ..p.clone() }, add)
    }),
    defect("last channel missing", MUTATION, CONVOLUTION, |p| sums(p, |a, b| up_to(a, b, a.len() - 9))),
    defect("mean over one too many", MUTATION, REDUCTION, |p| Ok(each(p, |a, b| add(a, b) / (a.len() + 1) as f32))),
    defect("mean over the padded count", "padding counted, as gpuemu's softmax_triton_buggy", REDUCTION, |p| {
        Ok(each(p, |a, b| add(a, b) / a.len().next_multiple_of(TILE) as f32))
    }),
    defect("first 256 terms only", MUTATION, REDUCTION, |p| sums(p, |a, b| up_to(a, b, 256))),
    defect("accumulator starts at 1", "memory that is not initialised, onnxruntime #32036", REDUCTION, |p| sums(p, |a, b| 1.0 + add(a, b))),
];

fn sums(p: &Problem, dot: impl Fn(&[f32], &[f32]) -> f32) -> Result<Vec<f32>> {
    let scale = mean_factor(p) as f32;
    Ok(each(p, |a, b| dot(a, b) * scale))
}

fn add(a: &[f32], b: &[f32]) -> f32 {
    Order::Sequential.dot(a, b)
}

fn up_to(a: &[f32], b: &[f32], k: usize) -> f32 {
    add(&a[..k], &b[..k])
}

fn round(x: f32, format: DType) -> f32 {
    format.rounded(f64::from(x)) as f32
}

/// With an accumulator of this format.
pub fn accumulated_in(p: &Problem, format: DType) -> Result<Vec<f32>> {
    sums(p, |a, b| rounded_at_each_step(a, b, format))
}

fn rounded_at_each_step(a: &[f32], b: &[f32], format: DType) -> f32 {
    a.iter().zip(b).fold(0.0, |s, (&x, &y)| round(x.mul_add(y, s), format))
}

/// With operands in a coarser format.
fn sums_of(p: &Problem, format: DType) -> Result<Vec<f32>> {
    let rounded = |values: &[f32]| values.iter().map(|&x| round(x, format)).collect();
    sums(&Problem { a: rounded(&p.a), b: rounded(&p.b), ..p.clone() }, add)
}
