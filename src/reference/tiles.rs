//! Cuts a family of matrix products into tiles, packs their operands and runs them on all cores.
//!
//! A tile of C is computed by one thread from first to last K, in blocks of [`DEPTH`]; tiles share nothing, so the
//! bits depend neither on the tile size nor on the number of threads.

use super::chain::{Chain, Shape};
use crate::parallel;
use std::ops::Range;

/// Rows of a tile.
const ROWS: usize = 128;
/// Columns of a tile: a multiple of three vectors of any CPU. Not a power of two, so that the rows of B spread over the sets of the cache.
pub(crate) const COLUMNS: usize = 240;
/// Products of one packed block; a multiple of the group of every matrix core.
const DEPTH: usize = 256;

/// A family of products C[f] = A[f]·B[f] whose operands are gathered on the fly.
pub(crate) trait Products<T>: Sync {
    /// Members of the family.
    fn members(&self) -> usize;
    /// Rows and columns of every C.
    fn extent(&self) -> (usize, usize);
    /// Products that member `f` sums for each output.
    fn depth(&self, f: usize) -> usize;
    /// Writes A[f][rows, ks] row-major, `ld` elements a row.
    fn pack_a(&self, f: usize, rows: Range<usize>, ks: Range<usize>, to: &mut [T], ld: usize);
    /// Writes B[f][ks, columns] row-major, `ld` elements a row.
    fn pack_b(&self, f: usize, ks: Range<usize>, columns: Range<usize>, to: &mut [T], ld: usize);
}

/// A tile of the result, row-major without gaps.
pub(crate) struct Tile<O> {
    pub member: usize,
    pub rows: Range<usize>,
    pub columns: Range<usize>,
    pub values: Vec<O>,
}

/// Computes every tile; `finish` turns accumulators into results (in parallel), `sink` takes the tiles in a fixed order.
pub(crate) fn run<C: Chain, O: Send>(
    products: &impl Products<C::Element>,
    chain: C,
    finish: impl Fn(&[C::Element]) -> Vec<O> + Sync,
    mut sink: impl FnMut(Tile<O>),
) {
    let (m, n) = products.extent();
    let (row_tiles, column_tiles) = (m.div_ceil(ROWS), n.div_ceil(COLUMNS));
    let count = products.members() * row_tiles * column_tiles;
    let tile = |number: usize| {
        let (member, at) = (number / (row_tiles * column_tiles), number % (row_tiles * column_tiles));
        let (c, r) = (at / row_tiles * COLUMNS, at % row_tiles * ROWS);
        let (rows, columns) = (r..m.min(r + ROWS), c..n.min(c + COLUMNS));
        let values = finish(&accumulate(products, chain, member, rows.clone(), columns.clone()));
        Tile { member, rows, columns, values }
    };
    // A window bounds the memory for results that wait for their turn.
    let window = 16 * parallel::threads();
    for start in (0..count).step_by(window) {
        let tiles: Vec<_> = parallel::map(window.min(count - start), |i| tile(start + i));
        tiles.into_iter().for_each(&mut sink);
    }
}

fn accumulate<C: Chain>(
    products: &impl Products<C::Element>,
    chain: C,
    member: usize,
    rows: Range<usize>,
    columns: Range<usize>,
) -> Vec<C::Element> {
    let (m, n, depth) = (rows.len(), columns.len(), products.depth(member));
    let mut c = vec![C::Element::default(); m * n];
    let block = DEPTH.min(depth);
    let mut a = vec![C::Element::default(); m * block];
    let mut b = vec![C::Element::default(); block * n];
    for start in (0..depth).step_by(DEPTH) {
        let ks = start..depth.min(start + DEPTH);
        products.pack_a(member, rows.clone(), ks.clone(), &mut a, block);
        products.pack_b(member, ks.clone(), columns.clone(), &mut b, n);
        chain.tile(Shape { m, n, k: ks.len(), lda: block, ldb: n, ldc: n }, &a, &b, &mut c);
    }
    c
}
