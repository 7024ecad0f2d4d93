//! Runs a convolution through a chain: the products of [`lattice`](super::lattice) in the tiles of [`tiles`](super::tiles).

use super::accumulate::Accumulate;
use super::chain::{Chain, F32, F32Fma, F64, Four, FourApart, MatrixCore, Rounded, Vectorised};
use super::gpu;
use super::lanes::Number;
use super::lattice::{Direction, KOrder, Lattice};
use super::tiles::{self, Tile};
use crate::device::{AsTensor, Backend, Device, DeviceMem};
use crate::error::Result;
use rayon::prelude::*;

/// Results of one task.
const CHUNK: usize = 1 << 16;

/// What to compute, and in which order.
#[derive(Clone, Copy)]
pub(crate) struct Convolution<'a> {
    pub lattice: &'a Lattice,
    pub direction: Direction,
    pub order: KOrder,
    /// Backward weight only: leave products with padding out of the sequence instead of adding them as zeros.
    /// The sum is the same; a chain that counts products tells the difference.
    pub inside: bool,
}

/// Convolves; every element of `to` that the result has is written.
///
/// The operands are (input, filter) forward, (output, filter) for backward data, (input, output) for backward weight.
pub(crate) fn convolve<S, C, O>(
    what: Convolution<'_>,
    chain: C,
    operands: (&[S], &[S]),
    finish: impl Fn(&[C::Element]) -> Vec<O> + Sync,
    to: &mut [O],
) where
    S: Number + Into<C::Element>,
    C: Chain,
    O: Copy + Send,
{
    let (lattice, (a, b)) = (what.lattice, operands);
    match what.direction {
        Direction::Forward => {
            let products = lattice.forward(a, b, what.order);
            let step = lattice.output_at.space[2];
            tiles::run(&products, chain, finish, |tile| {
                scatter(&tile, lattice.output[2], step, |r, c| lattice.output_index(tile.member, r, c), to);
            });
        }
        Direction::BackwardData => {
            let products = lattice.backward_data(a, b, what.order);
            let step = lattice.input_at.space[2];
            tiles::run(&products, chain, finish, |tile| {
                scatter(&tile, lattice.input[2], step, |r, c| lattice.input_index(tile.member, r, c), to);
            });
        }
        Direction::BackwardWeight => {
            let products = lattice.backward_weight(a, b, what.inside);
            tiles::run(&products, chain, finish, |tile| {
                scatter(&tile, 1, 1, |r, c| products.filter_index(tile.member, r, c), to);
            });
        }
    }
}

/// Convolves f32 operands on a device: the accumulators, as f64, pass through `finish` and come out in memory order.
pub(crate) fn convolve_on<O: Copy + Send>(
    device: &Device,
    what: Convolution<'_>,
    accumulate: Accumulate,
    operands: (&[f32], &[f32]),
    finish: impl Fn(&[f64]) -> Vec<O> + Sync,
    to: &mut [O],
) -> Result<()> {
    if let Backend::Hip(gpu) = device.backend() {
        let (a, b) = (DeviceMem::from_slice(device, operands.0)?, DeviceMem::from_slice(device, operands.1)?);
        let sums = gpu::convolution(gpu, what, accumulate.into(), [&a.as_tensor(), &b.as_tensor()], to.len())?;
        let sums = gpu::fetch(&sums)?;
        to.par_chunks_mut(CHUNK).zip(sums.par_chunks(CHUNK)).for_each(|(to, sums)| to.copy_from_slice(&finish(sums)));
        return Ok(());
    }
    let finish32 = |sums: &[f32]| finish(&sums.iter().map(|&v| f64::from(v)).collect::<Vec<_>>());
    match accumulate {
        Accumulate::F64 => convolve(what, Vectorised(F64), operands, finish, to),
        Accumulate::F64Rounded => convolve(what, Vectorised(Rounded), operands, finish, to),
        Accumulate::Every4 => convolve(what, Vectorised(Four), operands, finish, to),
        Accumulate::Groups4 => convolve(what, Vectorised(FourApart), operands, finish, to),
        Accumulate::F32 => convolve(what, Vectorised(F32), operands, finish32, to),
        Accumulate::F32Fma => convolve(what, Vectorised(F32Fma), operands, finish32, to),
        Accumulate::MatrixCore(model) => convolve(what, MatrixCore(model), operands, finish32, to),
    }
    Ok(())
}

/// Writes a tile whose columns come in lines of `line` elements, `step` apart in memory.
fn scatter<O: Copy>(tile: &Tile<O>, line: usize, step: usize, place: impl Fn(usize, usize) -> usize, to: &mut [O]) {
    for (row, values) in tile.rows.clone().zip(tile.values.chunks_exact(tile.columns.len())) {
        let mut done = 0;
        while done < values.len() {
            let column = tile.columns.start + done;
            let len = (line - column % line).min(values.len() - done);
            let start = place(row, column);
            let part = &values[done..done + len];
            if step == 1 {
                to[start..start + len].copy_from_slice(part);
            } else {
                to[start..].iter_mut().step_by(step).zip(part).for_each(|(t, &v)| *t = v);
            }
            done += len;
        }
    }
}
