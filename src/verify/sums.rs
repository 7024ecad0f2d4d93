//! The order of floating-point addition in every sum of a report, so that all backends give the same bits.
//!
//! Logical elements are cut into *segments*. A segment is [`ROWS`] rows of [`COLUMNS`] columns of `V` elements, where `V`
//! is how many elements of the narrower of the two formats fill 16 bytes (what one thread of a GPU loads at once). Within a
//! segment each column keeps [`LANES`] accumulators (2 when V is 2):
//!
//! 1. the V values of a row and column are folded to lanes: element v goes to lane v mod 4, and the elements of one lane are
//!    added as a balanced tree, neighbours first;
//! 2. the fold is added to the lane's accumulator, rows in ascending order;
//! 3. after the last row, (lane 0 + lane 1) + (lane 2 + lane 3) is the column's sum;
//! 4. columns are joined by halving: c with c + 16, then c + 8, 4, 2, 1.
//!
//! Then [`SEGMENTS_PER_ITEM`] consecutive segments are joined as a balanced tree, neighbours first, to an *item*; item i
//! goes to lane i mod [`FINAL_LANES`], where items are added in ascending order starting from 0; lanes are joined by halving
//! (128, 64 ... 1). Elements that are absent or not finite count as +0.
//!
//! Each summand is a non-negative f64; squares are rounded to f64 before they are added (for f32 differences they are exact).

use crate::dtype::DType;

/// Columns of a row: a number that divides every wavefront's size.
pub(crate) const COLUMNS: usize = 32;
/// Rows of a segment.
pub(crate) const ROWS: usize = 16;
/// Accumulators of a column.
pub(crate) const LANES: usize = 4;
/// Segments that are joined to an item.
pub(crate) const SEGMENTS_PER_ITEM: usize = 16;
/// Lanes of the last step.
pub(crate) const FINAL_LANES: usize = 256;
/// Sums that a comparison keeps: Σ|d|, Σd², Σ|r|, Σr².
pub(crate) const SUMS: usize = 4;

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

/// The accumulators of one segment: `[sum][column][lane]`.
pub(crate) type Accumulators = [[[f64; LANES]; COLUMNS]; SUMS];

/// Empty accumulators.
pub(crate) const fn empty() -> Accumulators {
    [[[0.0; LANES]; COLUMNS]; SUMS]
}

/// Steps 3 and 4.
pub(crate) fn segment_sums(acc: &Accumulators) -> Sums {
    std::array::from_fn(|s| {
        let mut columns: [f64; COLUMNS] = std::array::from_fn(|c| {
            let lane = &acc[s][c];
            (lane[0] + lane[1]) + (lane[2] + lane[3])
        });
        halve(&mut columns);
        columns[0]
    })
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
