//! Runs a convolution through a chain: the products of [`lattice`](super::lattice) in the tiles of [`tiles`](super::tiles).

use super::chain::Chain;
use super::chain::Number;
use super::lattice::{Direction, KOrder, Lattice};
use super::tiles::{self, Tile};

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

/// Convolves; writes every element of `to` that belongs to the result.
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

/// Writes a tile whose columns come in lines of `line` elements, `step` apart in memory.
fn scatter<O: Copy>(tile: &Tile<O>, line: usize, step: usize, index: impl Fn(usize, usize) -> usize, to: &mut [O]) {
    for (row, values) in tile.rows.clone().zip(tile.values.chunks_exact(tile.columns.len())) {
        let mut done = 0;
        while done < values.len() {
            let column = tile.columns.start + done;
            let len = (line - column % line).min(values.len() - done);
            let start = index(row, column);
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
