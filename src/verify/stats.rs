//! What a scan collects: counts, maxima with their indices, and sums, with the rules by which two scans join.
//!
//! Everything here is independent of the order in which elements are visited, except the sums, whose order
//! [`sums`](super::sums) fixes. So host threads and GPU blocks may take elements in any order.

use super::histogram::Counters;
use super::sums::Sums;
use super::values::{Explanation, Found, Metric, Values};

/// Index of "no element".
pub(crate) const NOWHERE: u64 = u64::MAX;

/// The largest value of a metric and the first element that has it. The value is 0 and the index [`NOWHERE`]
/// as long as no element differs.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub(crate) struct Extreme {
    pub value: f64,
    pub index: u64,
}

impl Extreme {
    pub(crate) const NONE: Extreme = Extreme { value: 0.0, index: NOWHERE };

    /// Takes the larger value, of equal ones the lower index.
    pub(crate) fn join(&mut self, other: Extreme) {
        if other.index != NOWHERE && (other.value > self.value || (other.value == self.value && other.index < self.index)) {
            *self = other;
        }
    }
}

/// Counts, extremes and hints of the elements visited so far. Layout shared with device code (`hip/verify.hip`).
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub(crate) struct Stats {
    /// Elements that do not pass.
    pub mismatches: u64,
    /// Finite pairs where a result of zero would pass.
    pub zero_passes: u64,
    /// Zeros of either sign, [result, reference].
    pub zeros: [u64; 2],
    /// NaNs, [result, reference].
    pub nans: [u64; 2],
    /// Positive infinities, [result, reference].
    pub positive_infinities: [u64; 2],
    /// Negative infinities, [result, reference].
    pub negative_infinities: [u64; 2],
    /// Pairs in which at least one side is not finite.
    pub nonfinite_pairs: u64,
    /// Largest finite magnitude, [result, reference].
    pub max_magnitude: [f64; 2],
    /// The worst elements, by [`Metric`].
    pub worst: [Extreme; 6],
    /// The smallest rtol that would pass every finite pair, with atol as it is; infinite when none would.
    pub passing_rtol: f64,
    /// The smallest atol that would pass every finite pair, with rtol as it is; infinite when none would.
    pub passing_atol: f64,
}

impl Stats {
    pub(crate) const EMPTY: Stats = Stats {
        mismatches: 0,
        zero_passes: 0,
        zeros: [0; 2],
        nans: [0; 2],
        positive_infinities: [0; 2],
        negative_infinities: [0; 2],
        nonfinite_pairs: 0,
        max_magnitude: [0.0; 2],
        worst: [Extreme::NONE; 6],
        passing_rtol: 0.0,
        passing_atol: 0.0,
    };

    /// Adds what another scan of other elements found.
    pub(crate) fn join(&mut self, other: &Stats) {
        self.mismatches += other.mismatches;
        self.zero_passes += other.zero_passes;
        self.nonfinite_pairs += other.nonfinite_pairs;
        for side in 0..2 {
            self.zeros[side] += other.zeros[side];
            self.nans[side] += other.nans[side];
            self.positive_infinities[side] += other.positive_infinities[side];
            self.negative_infinities[side] += other.negative_infinities[side];
            self.max_magnitude[side] = self.max_magnitude[side].max(other.max_magnitude[side]);
        }
        for (mine, theirs) in self.worst.iter_mut().zip(other.worst) {
            mine.join(theirs);
        }
        self.passing_rtol = self.passing_rtol.max(other.passing_rtol);
        self.passing_atol = self.passing_atol.max(other.passing_atol);
    }

    /// Counts the class of a non-finite value of one side (0 result, 1 reference).
    pub(crate) fn count_class(&mut self, side: usize, value: f64) {
        if value.is_nan() {
            self.nans[side] += 1;
        } else if value == f64::INFINITY {
            self.positive_infinities[side] += 1;
        } else if value == f64::NEG_INFINITY {
            self.negative_infinities[side] += 1;
        }
    }

    /// The part that a first pass makes.
    pub(crate) fn values(&self, sums: Sums, histograms: Option<Counters>) -> Values {
        Values {
            mismatches: self.mismatches,
            zero_passes: self.zero_passes,
            zeros: self.zeros,
            nans: self.nans,
            positive_infinities: self.positive_infinities,
            negative_infinities: self.negative_infinities,
            nonfinite_pairs: self.nonfinite_pairs,
            max_magnitude: self.max_magnitude,
            maxima: std::array::from_fn(|k| self.worst[k].value),
            sums,
            histograms,
        }
    }

    /// The part that a second pass makes. `bits` reads both tensors at an index.
    pub(crate) fn explanation(&self, bits: impl Fn(u64) -> [u64; 2], first: Vec<Found>) -> Explanation {
        let found = |e: Extreme| (e.index != NOWHERE).then(|| Found { index: e.index, bits: bits(e.index) });
        Explanation {
            worst: self.worst.map(found),
            ulps: self.worst[Metric::Ulp as usize].value,
            passing_rtol: self.passing_rtol,
            passing_atol: self.passing_atol,
            first,
        }
    }
}
