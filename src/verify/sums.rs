//! The order of floating-point addition in every sum of a report, so that all backends give the same bits.
//!
//! Logical elements are cut into *segments*. A segment is [`ROWS`] rows of [`COLUMNS`] columns of `V` elements, where `V`
//! is how many elements of the narrower of the two formats fill 16 bytes (what one thread of a GPU loads at once). Within a
//! segment each column keeps [`LANES`] pairs of accumulators (2 when V is 2), in the arithmetic of the pair of formats:
//!
//! 1. lane j takes the elements v of its column with v mod 4 = j, in ascending order, row after row: s = s + x and
//!    q = fma(x, x, q), for x = |d| and for x = |r|;
//! 2. after the last row the lanes are converted to f64, and (lane 0 + lane 1) + (lane 2 + lane 3) is the column's sum;
//! 3. columns are joined by halving: c with c + 16, then c + 8, 4, 2, 1.
//!
//! In f32 arithmetic a lane adds at most 16·V/4 numbers, which bounds its relative error by 4·V·2^-24. Squares have twice the
//! exponents of their numbers: when any q of the segment is below [`LEAST`] or not finite although its s is not 0, all sums of the
//! segment are made again with accumulators of f64.
//!
//! Then [`SEGMENTS_PER_ITEM`] consecutive segments are joined as a balanced tree, neighbours first, to an *item*; item i
//! goes to lane i mod [`FINAL_LANES`], where items are added in ascending order starting from 0; lanes are joined by halving
//! (128, 64 ... 1). Elements that are absent or not finite count as +0.

use super::rule::Real;
use crate::dtype::DType;
use hipverify_sys::abi;

/// Columns of a row: a number that divides every wavefront's size.
pub(crate) const COLUMNS: usize = abi::TILE_LANES as usize;
/// Rows of a segment.
pub(crate) const ROWS: usize = abi::TILE_ROWS as usize;
/// Accumulators of a column.
pub(crate) const LANES: usize = 4;
/// Segments that are joined to an item.
pub(crate) const SEGMENTS_PER_ITEM: usize = abi::PARTIAL_TILES as usize;
/// Lanes of the last step.
pub(crate) const FINAL_LANES: usize = 256;
/// Sums that a comparison keeps: Σ|d|, Σd², Σ|r|, Σr².
pub(crate) const SUMS: usize = abi::SUMS as usize;

/// One set of sums, in the order Σ|d|, Σd², Σ|r|, Σr².
pub(crate) type Sums = [f64; SUMS];

/// Elements that one thread loads at once: 16 bytes of the narrower format.
pub(crate) const fn vector_width(result: DType, reference: DType) -> usize {
    let narrow = if result.bits() < reference.bits() { result.bits() } else { reference.bits() };
    128 / narrow
}

/// Elements of a segment.
pub(crate) const fn segment_elements(vector: usize) -> usize {
    ROWS * COLUMNS * vector
}

/// The least sum of squares in f32 that has lost nothing to speak of: terms below 2^-126 are off by 2^-150 at most.
pub(crate) const LEAST: f64 = 1.0 / (1u128 << 120) as f64;

/// Accumulators of a row, `[column][lane]`: one row of every column at a time. When V is 2, half of them.
pub(crate) const LINE: usize = COLUMNS * LANES;

/// The accumulators of one segment: `[sum][column][lane]`.
pub(crate) type Accumulators<T> = [[T; LINE]; SUMS];

/// Steps 2 and 3, with `lanes` accumulators a column; `None` when f32 has no range for the squares. Inlined, to be compiled with the
/// instructions of the loop around it.
#[inline(always)]
pub(crate) fn segment_sums<T: Real>(acc: &Accumulators<T>, lanes: usize) -> Option<Sums> {
    let least = T::from_f64(LEAST);
    let precise = |sums: &[T; LINE], squares: &[T; LINE]| {
        let pairs = sums.iter().zip(squares);
        pairs.fold(true, |all, (&s, &q)| all & ((s == T::ZERO) | ((q >= least) & (q <= T::MAX))))
    };
    if T::NARROW && !(precise(&acc[0], &acc[1]) && precise(&acc[2], &acc[3])) {
        return None;
    }
    let [d, dd, m, mm] = acc;
    Some(match lanes {
        2 => [columns::<T, 2>(d), columns::<T, 2>(dd), columns::<T, 2>(m), columns::<T, 2>(mm)],
        _ => [columns::<T, LANES>(d), columns::<T, LANES>(dd), columns::<T, LANES>(m), columns::<T, LANES>(mm)],
    })
}

/// The sum of all columns with L accumulators each. Sizes are constants, which makes this short work for vectors.
#[inline(always)]
fn columns<T: Real, const L: usize>(acc: &[T; LINE]) -> f64 {
    let mut columns = [0.0; COLUMNS];
    for (c, column) in columns.iter_mut().enumerate() {
        let lane = |j: usize| acc[c * L + j].wide();
        *column = if L == 2 { lane(0) + lane(1) } else { (lane(0) + lane(1)) + (lane(2) + lane(3)) };
    }
    let by_16: [f64; 16] = std::array::from_fn(|c| columns[c] + columns[c + 16]);
    let by_8: [f64; 8] = std::array::from_fn(|c| by_16[c] + by_16[c + 8]);
    let by_4: [f64; 4] = std::array::from_fn(|c| by_8[c] + by_8[c + 4]);
    (by_4[0] + by_4[2]) + (by_4[1] + by_4[3])
}

/// Joins the segments of an item; absent ones count as zeros.
pub(crate) fn item_sums(segments: &[Sums]) -> Sums {
    std::array::from_fn(|s| {
        let mut tree = [0.0; SEGMENTS_PER_ITEM];
        tree.iter_mut().zip(segments).for_each(|(t, segment)| *t = segment[s]);
        let mut width = SEGMENTS_PER_ITEM;
        while width > 1 {
            width /= 2;
            for i in 0..width {
                tree[i] = tree[2 * i] + tree[2 * i + 1];
            }
        }
        tree[0]
    })
}

/// Joins items to the final sums.
pub(crate) fn join_items(items: impl Iterator<Item = Sums>) -> Sums {
    let mut lanes = [[0.0; FINAL_LANES]; SUMS];
    for (i, item) in items.enumerate() {
        for (lane, x) in lanes.iter_mut().zip(item) {
            lane[i % FINAL_LANES] += x;
        }
    }
    std::array::from_fn(|s| {
        halve(&mut lanes[s]);
        lanes[s][0]
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
