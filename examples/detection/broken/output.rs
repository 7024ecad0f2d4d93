//! Defects that show in any operation: what is written, where, and in which format.

use super::{Defect, Kernel, MUTATION};
use crate::problem::{Operation, Problem};
use hipverify::DType;
use hipverify::dtype::{Overflow, Rounding};

const ALL: &[Operation] = &Operation::ALL;
/// Those whose results are rows of several elements.
const MATRICES: &[Operation] = &[Operation::Gemm, Operation::Convolution, Operation::Softmax, Operation::Norm, Operation::Elementwise];

/// Side of a tile of the output.
const TILE: usize = 16;

const fn on_result(name: &'static str, source: &'static str, kernel: fn(&Problem, &mut Vec<f32>)) -> Defect {
    Defect { name, source, operations: ALL, kernel: Kernel::Result(kernel) }
}

const fn on_matrix(name: &'static str, source: &'static str, kernel: fn(&Problem, &mut Vec<f32>)) -> Defect {
    Defect { name, source, operations: MATRICES, kernel: Kernel::Result(kernel) }
}

pub const DEFECTS: &[Defect] = &[
    on_result("zeros", "KernelBench #165, rocm-libraries #10988", |_, c| c.fill(0.0)),
    on_result("negated", "rocm-libraries #10988", |_, c| scale(c, -1.0)),
    on_result("times 1.05", "rocm-libraries #11003", |_, c| scale(c, 1.05)),
    on_result("times 0.72", "rocm-libraries #11003", |_, c| scale(c, 0.72)),
    on_result("fp8 scale of 240 for 224", "limits of e4m3, rocm-libraries #7927", |_, c| scale(c, 240.0 / 224.0)),
    on_result("fp8 scale of 448 for 240", "limits of e4m3, rocm-libraries #7927", |_, c| scale(c, 448.0 / 240.0)),
    on_result("fnuz read as OCP", "exponent bias of fnuz formats, docs/formats.md; rocm-libraries #9389", |_, c| scale(c, 2.0)),
    Defect { name: "truncated, not rounded", source: "Composable Kernel bd270fe", operations: ALL, kernel: Kernel::Truncated },
    on_result("through a coarser format", "f16 by bf16 instructions on MI200, rocBLAS and PyTorch", |p, c| coarser(p, c)),
    on_result("through fp8", "probabilities in fp8, rocm-libraries #11003", |_, c| through(c, DType::F8E4M3)),
    on_result("every 7th element doubled", "MIOpen #8029", |_, c| c.iter_mut().step_by(7).for_each(|x| *x *= 2.0)),
    on_result("one element with a flipped bit", "single-event upset, arXiv 2602.08043", |_, c| {
        let middle = c.len() / 2;
        c[middle] *= -4.0;
    }),
    on_result("one NaN", "blis #279, flashinfer #4365", |_, c| c[0] = f32::NAN),
    on_result("last row not written", MUTATION, |p, c| {
        let n = c.len();
        c[n - p.columns..].fill(0.0);
    }),
    on_result("added to what was there", "beta of 0 that reads C, which rocBLAS tests with NaN", |p, c| {
        c.iter_mut().zip(&p.stale).for_each(|(x, old)| *x += old);
    }),
    on_result("an earlier output", "KernelBench PR #82, robust-kbench", |p, c| c.copy_from_slice(&p.stale)),
    on_result("shifted by one row", MUTATION, |p, c| c.rotate_left(p.columns)),
    on_result("first row everywhere", MUTATION, |p, c| {
        let first = c[..p.columns].to_vec();
        c.chunks_mut(p.columns).for_each(|row| row.copy_from_slice(&first));
    }),
    on_matrix("last column not written", MUTATION, |p, c| {
        c.chunks_mut(p.columns).for_each(|row| row[p.columns - 1] = 0.0);
    }),
    on_matrix("last vector of a row not written", "outputs that are not written, HeCBench #80", |p, c| {
        c.chunks_mut(p.columns).for_each(|row| row[p.columns - p.columns % 8..].fill(0.0));
    }),
    on_matrix("one tile not written", "outputs that are not written, csarofeen #1956", |p, c| tile(p, c, |_, x| *x = 0.0)),
    on_matrix("one tile of an earlier output", "a barrier removed, ICST 2020", |p, c| tile(p, c, |i, x| *x = p.stale[i])),
    on_matrix("one tile from its neighbour", MUTATION, |p, c| {
        let copy = c.clone();
        tile(p, c, |i, x| *x = copy[i + TILE]);
    }),
    on_matrix("neighbouring columns exchanged", MUTATION, |_, c| {
        c.chunks_exact_mut(2).for_each(|pair| pair.swap(0, 1));
    }),
    on_matrix("transposed", MUTATION, transpose),
    on_matrix("shifted by one column", MUTATION, |_, c| c.rotate_left(1)),
    on_result("NaN over a row", "SGEMM_CUDA #20", |p, c| c[..p.columns].fill(f32::NAN)),
];

fn scale(values: &mut [f32], by: f32) {
    values.iter_mut().for_each(|x| *x *= by);
}

fn through(values: &mut [f32], format: DType) {
    for x in values {
        *x = format.decode(format.encode(f64::from(*x), Rounding::NearestEven, Overflow::Saturate)) as f32;
    }
}

/// The format of a lower precision that is mistaken for the output's.
fn coarser(p: &Problem, c: &mut [f32]) {
    through(c, if p.formats.output.bits() <= 8 || p.formats.output == DType::Bf16 { DType::F8E5M2 } else { DType::Bf16 });
}

/// Changes the second tile of the first rows.
fn tile(p: &Problem, c: &mut [f32], change: impl Fn(usize, &mut f32)) {
    for row in 0..TILE {
        let start = row * p.columns + if p.columns >= 2 * TILE { TILE / 2 } else { 0 };
        (start..start + TILE).for_each(|i| change(i, &mut c[i]));
    }
}

fn transpose(p: &Problem, c: &mut Vec<f32>) {
    let rows = p.rows;
    *c = (0..c.len()).map(|i| c[i % rows * p.columns + i / rows]).collect();
}
