//! Correct kernels: the exact results, and results in legal orders and arithmetics, before they are rounded to the output's format.

use super::problem::{Input, Operation, Problem};
use hipverify::Result;
use hipverify::matrix_core::{Arch, Input as Operands, Model, gemm_tile};

/// The epsilon of layer normalization.
pub const EPSILON: f32 = 1e-5;

/// In f64.
pub fn exact(p: &Problem) -> Vec<f64> {
    if p.operation.is_product() {
        let scale = mean_factor(p);
        return each(p, |a, b| scale * a.iter().zip(b).map(|(&x, &y)| f64::from(x) * f64::from(y)).sum::<f64>());
    }
    p.a.chunks(p.columns).zip(p.b.chunks(p.columns)).flat_map(|(x, y)| exact_row(p, x, y)).collect()
}

fn exact_row(p: &Problem, x: &[f32], y: &[f32]) -> Vec<f64> {
    let x: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
    let n = x.len() as f64;
    match p.operation {
        Operation::Softmax => {
            let largest = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let exp: Vec<f64> = x.iter().map(|x| (x - largest).exp()).collect();
            let sum: f64 = exp.iter().sum();
            exp.iter().map(|e| e / sum).collect()
        }
        Operation::Norm => {
            let mean = x.iter().sum::<f64>() / n;
            let variance = x.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n;
            x.iter().map(|x| (x - mean) / (variance + f64::from(EPSILON)).sqrt()).collect()
        }
        _ => x.iter().zip(y).map(|(&x, &y)| gelu(x) * f64::from(y)).collect(),
    }
}

pub fn gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x)).tanh())
}

/// A mean is a sum of products with 1, over k.
pub fn mean_factor(p: &Problem) -> f64 {
    if p.operation == Operation::Reduction { 1.0 / p.k as f64 } else { 1.0 }
}

/// One number for each pair of a row of A and a row of B.
pub fn each<T>(p: &Problem, dot: impl Fn(&[f32], &[f32]) -> T) -> Vec<T> {
    p.a.chunks(p.k).flat_map(|a| p.b.chunks(p.k).map(|b| dot(a, b)).collect::<Vec<T>>()).collect()
}

/// Sums in f32, in a legal order.
#[derive(Clone, Copy, Debug)]
pub enum Order {
    Sequential,
    /// Products rounded before they are added.
    Unfused,
    Reversed,
    /// Partial sums of so many neighbours, then their sum.
    Blocked(usize),
    /// So many partial sums of interleaved terms, as threads make them.
    Strided(usize),
    Pairwise,
    /// As many parts of k.
    Split(usize),
    Wide,
}

impl Order {
    pub const ALL: [Order; 11] = [
        Order::Sequential,
        Order::Unfused,
        Order::Reversed,
        Order::Blocked(16),
        Order::Blocked(32),
        Order::Strided(64),
        Order::Pairwise,
        Order::Split(2),
        Order::Split(4),
        Order::Split(8),
        Order::Wide,
    ];

    pub fn dot(self, a: &[f32], b: &[f32]) -> f32 {
        let chain = |a: &[f32], b: &[f32]| a.iter().zip(b).fold(0.0f32, |s, (&x, &y)| x.mul_add(y, s));
        match self {
            Order::Sequential => chain(a, b),
            Order::Unfused => a.iter().zip(b).fold(0.0, |s, (x, y)| s + x * y),
            Order::Reversed => a.iter().zip(b).rev().fold(0.0f32, |s, (&x, &y)| x.mul_add(y, s)),
            Order::Blocked(n) => a.chunks(n).zip(b.chunks(n)).fold(0.0, |s, (a, b)| s + chain(a, b)),
            Order::Strided(n) => {
                let mut sums = vec![0.0f32; n];
                a.iter().zip(b).enumerate().for_each(|(i, (&x, &y))| sums[i % n] = x.mul_add(y, sums[i % n]));
                sums.into_iter().fold(0.0, |s, x| s + x)
            }
            Order::Pairwise if a.len() <= 2 => chain(a, b),
            Order::Pairwise => {
                let half = a.len() / 2;
                self.dot(&a[..half], &b[..half]) + self.dot(&a[half..], &b[half..])
            }
            Order::Split(n) => Order::Blocked(a.len().div_ceil(n)).dot(a, b),
            Order::Wide => a.iter().zip(b).map(|(&x, &y)| f64::from(x) * f64::from(y)).sum::<f64>() as f32,
        }
    }

    pub fn sum(self, x: &[f32]) -> f32 {
        self.dot(x, &vec![1.0; x.len()])
    }
}

/// Every correct result.
pub fn all(p: &Problem) -> Result<Vec<Vec<f32>>> {
    let mut results: Vec<Vec<f32>> = Order::ALL.iter().map(|&order| in_order(p, order)).collect();
    if p.operation.is_product() {
        for arch in Arch::AMD {
            // The matrix cores of gfx90a take subnormal numbers as zeros: where inputs hold many, that is a defect of the zoo.
            if arch != Arch::Gfx90a || !matches!(p.input, Input::Subnormal | Input::Small) {
                results.push(on_matrix_cores(p, arch)?);
            }
        }
    }
    // Legal while no exponential overflows.
    if p.operation == Operation::Softmax && p.input != Input::Large {
        results.push(p.a.chunks(p.columns).flat_map(|x| softmax(x, 0.0, Order::Sequential)).collect());
    }
    Ok(results)
}

/// With all sums in one order.
pub fn in_order(p: &Problem, order: Order) -> Vec<f32> {
    if p.operation.is_product() {
        let scale = mean_factor(p) as f32;
        return each(p, |a, b| order.dot(a, b) * scale);
    }
    p.a.chunks(p.columns).zip(p.b.chunks(p.columns)).flat_map(|(x, y)| row(p, x, y, order)).collect()
}

fn row(p: &Problem, x: &[f32], y: &[f32], order: Order) -> Vec<f32> {
    match p.operation {
        Operation::Softmax => softmax(x, x.iter().copied().fold(f32::NEG_INFINITY, f32::max), order),
        Operation::Norm => {
            let mean = order.sum(x) / x.len() as f32;
            let centred: Vec<f32> = x.iter().map(|x| x - mean).collect();
            let variance = order.dot(&centred, &centred) / x.len() as f32;
            let scale = 1.0 / (variance + EPSILON).sqrt();
            centred.iter().map(|x| x * scale).collect()
        }
        _ => x.iter().zip(y).map(|(&x, &y)| (gelu(f64::from(x)) as f32) * y).collect(),
    }
}

/// Exponentials less `shift`, over their sum.
fn softmax(x: &[f32], shift: f32, order: Order) -> Vec<f32> {
    let exp: Vec<f32> = x.iter().map(|x| f64::from(x - shift).exp() as f32).collect();
    let sum = order.sum(&exp);
    exp.iter().map(|e| e / sum).collect()
}

/// By the arithmetic of a chip: of its matrix cores, or one product after the other where these have no such operands.
pub fn on_matrix_cores(p: &Problem, arch: Arch) -> Result<Vec<f32>> {
    let operands = (p.formats.input, p.formats.input);
    let of_chip = |model: &Model| model.arch() == arch && model.input().dtypes() == operands;
    let Some(model) =
        Model::all().filter(of_chip).find(|model| !matches!(model.input(), Operands::F16AsBf16 | Operands::F16AsBf16Truncated))
    else {
        return Ok(in_order(p, Order::Sequential));
    };
    let mut across = vec![0.0; p.b.len()];
    for (column, b) in p.b.chunks(p.k).enumerate() {
        b.iter().enumerate().for_each(|(k, &y)| across[k * p.columns + column] = y);
    }
    let mut c = vec![0.0; p.rows * p.columns];
    gemm_tile(model, p.rows, p.columns, p.k, &p.a, p.k, &across, p.columns, &mut c, p.columns);
    let scale = mean_factor(p) as f32;
    Ok(c.into_iter().map(|x| x * scale).collect())
}
