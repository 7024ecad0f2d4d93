//! The comparison on the host, a tile a task; `hip/bound.hip` does the same on a GPU.

use super::rule::{self, Limits};
use super::{BINS, Comparison, TILE};
use crate::device::TensorRef;
use crate::dtype::convert;
use crate::parallel;
use bytemuck::Zeroable;
use hipverify_sys::abi::{BoundCount, BoundRule, BoundTile};
use std::ops::Range;

/// What each tile holds, and the histogram of all.
pub(super) fn tiles(comparison: &Comparison<'_>) -> (Vec<BoundTile>, [u64; BINS]) {
    let elements = comparison.tensors[0].elements();
    let one = |tile: usize| tile_of(comparison, tile * TILE..elements.min((tile + 1) * TILE));
    let all: Vec<(BoundTile, [u32; BINS])> = parallel::map(elements.div_ceil(TILE), one);
    let mut bins = [0; BINS];
    for (_, some) in &all {
        bins.iter_mut().zip(some).for_each(|(all, &n)| *all += u64::from(n));
    }
    (all.into_iter().map(|(tile, _)| tile).collect(), bins)
}

/// Error over bound of some elements.
pub(super) fn ratios(comparison: &Comparison<'_>, range: Range<usize>) -> Vec<f64> {
    let [a, r, s] = comparison.tensors.map(|t| values(t, range.clone()));
    a.into_iter().zip(r).zip(s).map(|((a, r), s)| rule::ratio(&comparison.rule, a, r, s)).collect()
}

fn tile_of(comparison: &Comparison<'_>, range: Range<usize>) -> (BoundTile, [u32; BINS]) {
    let [a, r, s] = comparison.tensors.map(|t| values(t, range.clone()));
    let (mut tile, mut bins) = (BoundTile::zeroed(), [0; BINS]);
    for ((a, r), s) in a.into_iter().zip(r).zip(s) {
        let ratio = observe(&mut tile, &comparison.rule, [a, r, s]);
        bins[bin(ratio)] += 1;
    }
    (tile, bins)
}

/// Adds an element to its tile; its error over its bound.
fn observe(tile: &mut BoundTile, rule: &BoundRule, [a, r, s]: [f64; 3]) -> f64 {
    let ratio = rule::ratio(rule, a, r, s);
    let Limits { before, after } = rule::limits(rule, r, s);
    let mut count = |what: u32, yes: bool| tile.counts[what as usize] += u32::from(yes);
    count(BoundCount::BOUND_MISMATCHES, ratio > 1.0);
    count(BoundCount::BOUND_NANS_A, a.is_nan());
    count(BoundCount::BOUND_NANS_R, r.is_nan());
    count(BoundCount::BOUND_INFINITIES_A, a.is_infinite());
    count(BoundCount::BOUND_INFINITIES_R, r.is_infinite());
    let counts = r.is_finite() && r != 0.0;
    count(BoundCount::BOUND_NONZERO, counts);
    let zero_passes = counts && r.abs() <= after;
    count(BoundCount::BOUND_ZERO_PASSES, zero_passes);
    // An infinite result, or a saturated one, passes: nothing is known of its size.
    let overflows = counts && r.abs() + before >= rule.overflow;
    count(BoundCount::BOUND_OVERFLOWS, overflows && !zero_passes);
    if counts && !overflows {
        // Infinite where nothing but equality passes.
        let power = r.abs() / after;
        tile.power = if power > tile.power { power } else { tile.power };
    }
    tile.ratio = if ratio > tile.ratio { ratio } else { tile.ratio };
    ratio
}

/// The bin of a ratio: 0 for 0, then (2^(i - 33), 2^(i - 32)] with all that is smaller or larger in the outermost.
pub(super) fn bin(ratio: f64) -> usize {
    if ratio == 0.0 {
        return 0;
    }
    let exponent = ((ratio.to_bits() - 1) >> 52) as i32 - 1023;
    (exponent + 33).clamp(1, BINS as i32 - 1) as usize
}

/// Some elements in logical order, as f64.
fn values(t: &TensorRef<'_>, range: Range<usize>) -> Vec<f64> {
    let (bytes, dtype, layout) = (t.host_bytes(), t.dtype(), t.layout());
    let first = layout.offset() + range.start;
    if layout.is_contiguous() && first.is_multiple_of(dtype.per_unit()) {
        let mut values = vec![0.0; range.len()];
        let start = first / dtype.per_unit() * dtype.unit_bytes();
        convert::decode_f64(dtype, &bytes[start..], &mut values);
        return values;
    }
    range.map(|i| dtype.decode(dtype.load_bits(bytes, layout.index(i)))).collect()
}
