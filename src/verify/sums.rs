//! The order of floating-point addition in every sum of a report, so that all backends give the same bits.
//!
//! Logical elements are cut into *tiles*. A tile is [`ROWS`] rows of [`LANES`] lanes of `V` elements, where `V`
//! is how many elements of the narrower of the two formats fill 16 bytes (what one thread of a GPU loads at once). Within a
//! tile each lane keeps [`ACCUMULATORS`] pairs of accumulators (2 when V is 2), in the arithmetic of the pair of formats:
//!
//! 1. accumulator j takes the elements v of its lane with v mod 4 = j, in ascending order, row after row: s = s + x and
//!    q = fma(x, x, q), for x = |d| and for x = |r|;
//! 2. after the last row the accumulators are converted to f64, and (0 + 1) + (2 + 3) is the lane's sum;
//! 3. lanes are joined by halving: c with c + 16, then c + 8, 4, 2, 1.
//!
//! In f32 arithmetic an accumulator adds at most 16·V/4 numbers, which bounds its relative error by 4·V·2^-24. Squares have twice the
//! exponents of their numbers: when any q of the tile is below [`LEAST`] or not finite although its s is not 0, all sums of the
//! tile are made again with accumulators of f64.
//!
//! Then [`PARTIAL_TILES`] consecutive tiles are joined as a balanced tree, neighbours first, to a *partial sum*; partial sum i
//! is added to final accumulator i mod [`FINAL_ACCUMULATORS`], in ascending order starting from 0; final accumulators are joined by
//! halving (128, 64 ... 1). Elements that are absent or not finite count as +0.

use super::rule::Real;
use crate::dtype::{DType, PairArithmetic};
use crate::simd::{array, each, pairs};
use hipverify_sys::abi;

/// Lanes of a row: a number that divides every wavefront's size.
pub(crate) const LANES: usize = abi::TILE_LANES as usize;
/// Rows of a tile.
pub(crate) const ROWS: usize = abi::TILE_ROWS as usize;
/// Accumulators of a lane.
pub(crate) const ACCUMULATORS: usize = 4;
/// Tiles that are joined to a partial sum.
pub(crate) const PARTIAL_TILES: usize = abi::PARTIAL_TILES as usize;
/// Accumulators of the last step.
pub(crate) const FINAL_ACCUMULATORS: usize = 256;
/// Sums that a comparison keeps: Σ|d|, Σd², Σ|r|, Σr².
pub(crate) const SUMS: usize = abi::SUMS as usize;

/// One set of sums, in the order Σ|d|, Σd², Σ|r|, Σr².
pub(crate) type Sums = [f64; SUMS];

/// Elements that one thread loads at once: 16 bytes of the narrower format.
pub(crate) const fn vector_width(result: DType, reference: DType) -> usize {
    let narrow = if result.bits() < reference.bits() { result.bits() } else { reference.bits() };
    128 / narrow
}

/// Elements of a tile.
pub(crate) const fn tile_elements(vector: usize) -> usize {
    ROWS * LANES * vector
}

/// What Σd² and Σr² of a comparison are off by at most, as a factor: rounded differences, accumulators in the arithmetic of the pair, and the joins in f64.
pub(crate) fn squares_error(result: DType, reference: DType, elements: usize) -> f64 {
    let vector = vector_width(result, reference);
    let unit = if PairArithmetic::of(result, reference) == PairArithmetic::F32 { DType::F32 } else { DType::F64 }.unit_roundoff();
    let additions = ROWS * vector / ACCUMULATORS.min(vector);
    let finals = elements / (tile_elements(vector) * PARTIAL_TILES * FINAL_ACCUMULATORS);
    // Squares have twice the error of a difference. A sum has 2 joins in a lane, 5 of lanes, 4 of tiles and 8 of final accumulators; 13 more are for what is computed of the sums.
    (additions + 2) as f64 * unit + (finals + 32) as f64 * f64::EPSILON / 2.0
}

/// The least sum of squares in f32 that has lost nothing to speak of: terms below 2^-126 are off by 2^-150 at most.
pub(crate) const LEAST: f64 = 1.0 / (1u128 << 120) as f64;

/// Accumulators of a tile, `[lane][accumulator]`, of which each takes one number at a time. When V is 2, half of them.
pub(crate) const LINE: usize = LANES * ACCUMULATORS;

/// The accumulators of one tile: `[sum][lane][accumulator]`.
pub(crate) type Accumulators<T> = [[T; LINE]; SUMS];

/// Steps 2 and 3, with `accumulators` accumulators a lane; `None` when f32 has no range for the squares. Inlined, to be compiled with the
/// instructions of the loop around it.
#[inline(always)]
pub(crate) fn tile_sums<T: Real>(acc: &Accumulators<T>, accumulators: usize) -> Option<Sums> {
    let least = T::from_f64(LEAST);
    let precise = |sums: &[T; LINE], squares: &[T; LINE]| {
        let mut all = true;
        pairs(sums, squares, |s, q| all &= (s == T::ZERO) | ((q >= least) & (q <= T::MAX)));
        all
    };
    if T::NARROW && !(precise(&acc[0], &acc[1]) && precise(&acc[2], &acc[3])) {
        return None;
    }
    let [d, dd, m, mm] = acc;
    Some(match accumulators {
        2 => [lanes::<T, 2>(d), lanes::<T, 2>(dd), lanes::<T, 2>(m), lanes::<T, 2>(mm)],
        _ => [lanes::<T, ACCUMULATORS>(d), lanes::<T, ACCUMULATORS>(dd), lanes::<T, ACCUMULATORS>(m), lanes::<T, ACCUMULATORS>(mm)],
    })
}

/// The sum of all lanes with L accumulators each. Sizes are constants, which makes this short work for vectors.
#[inline(always)]
fn lanes<T: Real, const L: usize>(acc: &[T; LINE]) -> f64 {
    let mut lanes = [0.0; LANES];
    for (c, lane) in lanes.iter_mut().enumerate() {
        let at = |j: usize| acc[c * L + j].wide();
        *lane = if L == 2 { at(0) + at(1) } else { (at(0) + at(1)) + (at(2) + at(3)) };
    }
    let by_16: [f64; 16] = array(|c| lanes[c] + lanes[c + 16]);
    let by_8: [f64; 8] = array(|c| by_16[c] + by_16[c + 8]);
    let by_4: [f64; 4] = array(|c| by_8[c] + by_8[c + 4]);
    (by_4[0] + by_4[2]) + (by_4[1] + by_4[3])
}

/// Joins the tiles of a partial sum; absent ones count as zeros.
pub(crate) fn partial_sums(tiles: &[Sums]) -> Sums {
    array(|s| {
        let mut tree = [0.0; PARTIAL_TILES];
        each(&mut tree, tiles, |t, tile| *t = tile[s]);
        let mut width = PARTIAL_TILES;
        while width > 1 {
            width /= 2;
            for i in 0..width {
                tree[i] = tree[2 * i] + tree[2 * i + 1];
            }
        }
        tree[0]
    })
}

/// Joins partial sums to the final ones.
pub(crate) fn join_partials(partials: impl Iterator<Item = Sums>) -> Sums {
    let mut accumulators = [[0.0; FINAL_ACCUMULATORS]; SUMS];
    for (i, partial) in partials.enumerate() {
        for (accumulator, x) in accumulators.iter_mut().zip(partial) {
            accumulator[i % FINAL_ACCUMULATORS] += x;
        }
    }
    std::array::from_fn(|s| {
        halve(&mut accumulators[s]);
        accumulators[s][0]
    })
}

fn halve(values: &mut [f64]) {
    let mut half = values.len() / 2;
    while half > 0 {
        for i in 0..half {
            values[i] += values[i + half];
        }
        half /= 2;
    }
}
