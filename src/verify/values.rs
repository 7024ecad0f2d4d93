//! What a backend returns. A first pass over both tensors makes [`Values`]; a second one, when it is wanted, an [`Explanation`].
//!
//! Everything here is independent of the order in which elements are read, except the sums, whose order [`sums`](super::sums) fixes. So
//! host threads and GPU blocks may take elements in any order.

use super::histogram::Counters;
use super::sums::Sums;

/// The error metrics of which a comparison takes the maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[repr(usize)]
pub enum Metric {
    /// |a - r|.
    Absolute = 0,
    /// |a - r| / |r|, r ≠ 0.
    Relative = 1,
    /// |a - r| / |r|, |r| > 1e-3: the form of the 2022 study that ignores small denominators.
    RelativeOld = 2,
    /// |a - r| / spacing of the result's format at |r|.
    Epsilon = 3,
    /// |a - r| / fma(rtol, |r|, atol).
    Ratio = 4,
    /// Representable numbers of the result's format between a and r.
    Ulp = 5,
}

impl Metric {
    /// All metrics, in the order of their numbers.
    pub const ALL: [Metric; 6] = [Metric::Absolute, Metric::Relative, Metric::RelativeOld, Metric::Epsilon, Metric::Ratio, Metric::Ulp];
    /// The first so many have their maximum among the [`Values`]; the others are part of the [`Explanation`].
    pub(crate) const MAXIMA: usize = 5;
}

/// What the first pass finds: values only.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Values {
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
    /// Maxima by [`Metric`]; 0 when no finite pair differs.
    pub maxima: [f64; Metric::MAXIMA],
    pub sums: Sums,
    /// When histograms were asked for, the pairs that differ.
    pub histograms: Option<Counters>,
}

/// An element of both tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// Logical row-major index.
    pub index: u64,
    /// Bit patterns, [result, reference].
    pub bits: [u64; 2],
}

/// What the second pass finds, given the maxima of the first.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Explanation {
    /// By [`Metric`]: the first element that has the maximum.
    pub worst: [Option<Found>; Metric::ALL.len()],
    /// The largest distance in ulps, rounded to f64.
    pub ulps: f64,
    /// The smallest rtol that passes every finite pair, with atol as it is; infinite when none does.
    pub passing_rtol: f64,
    /// The smallest atol that passes every finite pair, with rtol as it is; infinite when none does.
    pub passing_atol: f64,
    /// The first mismatches.
    pub first: Vec<Found>,
}

/// What a backend returns from a comparison.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Outcome {
    pub values: Values,
    pub explanation: Option<Explanation>,
}
