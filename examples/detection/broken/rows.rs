//! Defects of softmax, norms and elementwise kernels.

use super::{Defect, MUTATION, defect};
use crate::correct::{EPSILON, Order, gelu};
use crate::problem::{Operation, Problem};
use hipverify::{DType, Result};

const SOFTMAX: &[Operation] = &[Operation::Softmax];
const NORM: &[Operation] = &[Operation::Norm];
const ELEMENTWISE: &[Operation] = &[Operation::Elementwise];

pub const DEFECTS: &[Defect] = &[
    defect("softmax without the maximum", "overflow of exp, an operand removed, ICST 2020", SOFTMAX, |p| {
        rows(p, |x, _| softmax(x, 0.0, x, exp))
    }),
    defect("online softmax that is not rescaled", "gpuemu, flash_attention_triton_buggy", SOFTMAX, |p| {
        rows(p, |x, _| {
            let (half, rest) = x.split_at(x.len() / 2);
            let total = largest(x);
            let sum: f32 = half.iter().map(|x| exp(x - largest(half))).chain(rest.iter().map(|x| exp(x - total))).sum();
            x.iter().map(|x| exp(x - total) / sum).collect()
        })
    }),
    defect("softmax without its scale", "gpuemu, attention_triton_buggy: no 1/sqrt(D)", SOFTMAX, |p| {
        rows(p, |x, _| {
            let scaled: Vec<f32> = x.iter().map(|x| 8.0 * x).collect();
            softmax(&scaled, largest(&scaled), &scaled, exp)
        })
    }),
    defect("softmax sum with padding", "gpuemu, softmax_triton_buggy and softmax_llm_buggy: padding of 0", SOFTMAX, |p| {
        rows(p, |x, _| {
            let mut padded = x.to_vec();
            padded.resize(x.len().next_multiple_of(64) + 16, 0.0);
            softmax(x, largest(x), &padded, exp)
        })
    }),
    defect("softmax sum without the last element", MUTATION, SOFTMAX, |p| rows(p, |x, _| softmax(x, largest(x), &x[..x.len() - 1], exp))),
    defect("softmax with exp in bf16", "fast exponentials, rocm-libraries #11003", SOFTMAX, |p| {
        rows(p, |x, _| softmax(x, largest(x), x, |x| round(exp(x), DType::Bf16)))
    }),
    defect("norm without epsilon", MUTATION, NORM, |p| rows(p, |x, _| normed(x, x.len() as f32, |v| v.sqrt()))),
    defect("norm without the root", "gpuemu, rmsnorm_triton_buggy and l2norm_triton_buggy", NORM, |p| {
        rows(p, |x, _| normed(x, x.len() as f32, |v| v + EPSILON))
    }),
    defect("norm with epsilon outside the root", MUTATION, NORM, |p| rows(p, |x, _| normed(x, x.len() as f32, |v| v.sqrt() + EPSILON))),
    defect("norm over one too few", MUTATION, NORM, |p| rows(p, |x, _| normed(x, x.len() as f32 - 1.0, |v| (v + EPSILON).sqrt()))),
    defect("norm without the mean", MUTATION, NORM, |p| {
        rows(p, |x, _| {
            let scale = 1.0 / (Order::Sequential.dot(x, x) / x.len() as f32 + EPSILON).sqrt();
            x.iter().map(|x| x * scale).collect()
        })
    }),
    defect("norm by squares in bf16", "cancellation in E[x²] - E[x]², hipDNN's derivation for norms (rocm-libraries #6580)", NORM, |p| {
        rows(p, |x, _| cancelled(x))
    }),
    defect("GELU with 0.79 for its constant", MUTATION, ELEMENTWISE, |p| {
        pairs(p, |x, y| times(0.5 * x * (1.0 + (0.79 * (x + 0.044715 * x * x * x)).tanh()), y))
    }),
    defect("GELU without its half", "gpuemu, gelu_triton_buggy", ELEMENTWISE, |p| pairs(p, |x, y| times(2.0 * gelu(x), y))),
    defect("sigmoid of twice its argument", "gpuemu, silu_triton_buggy", ELEMENTWISE, |p| {
        pairs(p, |x, y| times(x / (1.0 + (-2.0 * 1.702 * x).exp()), y))
    }),
    defect("steeper where negative", "gpuemu, leaky_relu_triton_buggy", ELEMENTWISE, |p| {
        pairs(p, |x, y| times(if x < 0.0 { 0.1 * x } else { gelu(x) }, y))
    }),
    defect("GELU by a sigmoid", "quick GELU for GELU, llama.cpp", ELEMENTWISE, |p| {
        pairs(p, |x, y| times(x / (1.0 + (-1.702 * x).exp()), y))
    }),
    defect("first operand for both", MUTATION, ELEMENTWISE, |p| pairs(p, |x, _| times(gelu(x), x))),
    defect("sum for product", MUTATION, ELEMENTWISE, |p| pairs(p, |x, y| (gelu(x) + y) as f32)),
    defect("intermediate in bf16", "f16 by bf16 instructions on MI200, rocBLAS and PyTorch", ELEMENTWISE, |p| {
        pairs(p, |x, y| round(gelu(x) as f32, if p.formats.output == DType::Bf16 { DType::F8E5M2 } else { DType::Bf16 }) * y as f32)
    }),
];

fn rows(p: &Problem, row: impl Fn(&[f32], &[f32]) -> Vec<f32>) -> Result<Vec<f32>> {
    Ok(p.a.chunks(p.columns).zip(p.b.chunks(p.columns)).flat_map(|(x, y)| row(x, y)).collect())
}

fn pairs(p: &Problem, element: impl Fn(f64, f64) -> f32) -> Result<Vec<f32>> {
    Ok(p.a.iter().zip(&p.b).map(|(&x, &y)| element(f64::from(x), f64::from(y))).collect())
}

fn times(x: f64, y: f64) -> f32 {
    x as f32 * y as f32
}

fn largest(x: &[f32]) -> f32 {
    x.iter().copied().fold(f32::NEG_INFINITY, f32::max)
}

fn exp(x: f32) -> f32 {
    f64::from(x).exp() as f32
}

fn round(x: f32, format: DType) -> f32 {
    format.rounded(f64::from(x)) as f32
}

/// Exponentials less `shift`, over their sum in `summed`.
fn softmax(x: &[f32], shift: f32, summed: &[f32], exp: impl Fn(f32) -> f32) -> Vec<f32> {
    let sum: f32 = summed.iter().map(|x| exp(x - shift)).sum();
    x.iter().map(|x| exp(x - shift) / sum).collect()
}

fn normed(x: &[f32], count: f32, deviation: impl Fn(f32) -> f32) -> Vec<f32> {
    let mean = Order::Sequential.sum(x) / x.len() as f32;
    let centred: Vec<f32> = x.iter().map(|x| x - mean).collect();
    let scale = 1.0 / deviation(Order::Sequential.dot(&centred, &centred) / count);
    centred.iter().map(|x| x * scale).collect()
}

/// The variance as a difference of rounded sums.
fn cancelled(x: &[f32]) -> Vec<f32> {
    let n = x.len() as f32;
    let mean = round(Order::Sequential.sum(x) / n, DType::Bf16);
    let variance = round(Order::Sequential.dot(x, x) / n, DType::Bf16) - mean * mean;
    x.iter().map(|x| (x - mean) / (variance + EPSILON).sqrt()).collect()
}
