//! What a backend returns. A first pass over both tensors makes [`Values`]; a second one, when it is wanted, an [`Explanation`].
//!
//! Everything here is independent of the order in which elements are read, except the sums, whose order [`sums`](super::sums) fixes. So
//! host threads and GPU blocks may take elements in any order.

use super::histogram::{BINS, Counters};
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

/// Maxima, or the metrics of one element, by [`Metric`].
pub(crate) type Maxima = [f64; Metric::MAXIMA];

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
    /// Zeros of the reference among these.
    pub nonfinite_zeros: u64,
    /// Mismatches among these.
    pub nonfinite_mismatches: u64,
    /// Largest finite magnitude, [result, reference].
    pub max_magnitude: [f64; 2],
    /// Maxima by [`Metric`]; 0 when no finite pair differs.
    pub maxima: Maxima,
    pub sums: Sums,
    /// When histograms were asked for, the pairs that differ.
    pub histograms: Option<Counters>,
}

impl Values {
    pub(crate) const EMPTY: Values = Values {
        mismatches: 0,
        zero_passes: 0,
        zeros: [0; 2],
        nans: [0; 2],
        positive_infinities: [0; 2],
        negative_infinities: [0; 2],
        nonfinite_pairs: 0,
        nonfinite_zeros: 0,
        nonfinite_mismatches: 0,
        max_magnitude: [0.0; 2],
        maxima: [0.0; Metric::MAXIMA],
        sums: [0.0; 4],
        histograms: None,
    };

    /// Adds what was found in other elements; not the sums, which have an order.
    pub(crate) fn join(&mut self, other: &Values) {
        self.mismatches += other.mismatches;
        self.zero_passes += other.zero_passes;
        self.nonfinite_pairs += other.nonfinite_pairs;
        self.nonfinite_zeros += other.nonfinite_zeros;
        self.nonfinite_mismatches += other.nonfinite_mismatches;
        for side in 0..2 {
            self.zeros[side] += other.zeros[side];
            self.nans[side] += other.nans[side];
            self.positive_infinities[side] += other.positive_infinities[side];
            self.negative_infinities[side] += other.negative_infinities[side];
            self.max_magnitude[side] = self.max_magnitude[side].max(other.max_magnitude[side]);
        }
        self.join_maxima(other.maxima);
        if let Some(theirs) = other.histograms {
            let mine = self.histograms.get_or_insert([0; BINS]);
            mine.iter_mut().zip(theirs).for_each(|(mine, theirs)| *mine += theirs);
        }
    }
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

impl Explanation {
    pub(crate) const EMPTY: Explanation =
        Explanation { worst: [None; Metric::ALL.len()], ulps: 0.0, passing_rtol: 0.0, passing_atol: 0.0, first: Vec::new() };

    /// Takes an element with these metrics, this distance in ulps, and these smallest rtol and atol that pass it. `maxima` are those of the
    /// first pass. Elements may come in any order.
    pub(crate) fn observe(&mut self, found: Found, maxima: &Maxima, metrics: &Maxima, ulps: f64, [rtol, atol]: [f64; 2]) {
        for (worst, (x, maximum)) in self.worst.iter_mut().zip(metrics.iter().zip(maxima)) {
            if *x > 0.0 && x == maximum {
                take_lower(worst, Some(found));
            }
        }
        self.take_ulps(ulps, Some(found));
        self.passing_rtol = self.passing_rtol.max(rtol);
        self.passing_atol = self.passing_atol.max(atol);
    }

    fn take_ulps(&mut self, ulps: f64, found: Option<Found>) {
        let worst = &mut self.worst[Metric::Ulp as usize];
        if ulps > self.ulps {
            (self.ulps, *worst) = (ulps, found);
        } else if ulps == self.ulps && ulps > 0.0 {
            take_lower(worst, found);
        }
    }

    /// Adds what was found in other elements, but for the first mismatches.
    pub(crate) fn join(&mut self, other: &Explanation) {
        for (mine, theirs) in self.worst.iter_mut().zip(other.worst).take(Metric::MAXIMA) {
            take_lower(mine, theirs);
        }
        self.take_ulps(other.ulps, other.worst[Metric::Ulp as usize]);
        self.passing_rtol = self.passing_rtol.max(other.passing_rtol);
        self.passing_atol = self.passing_atol.max(other.passing_atol);
    }
}

fn take_lower(mine: &mut Option<Found>, theirs: Option<Found>) {
    if let Some(theirs) = theirs
        && mine.is_none_or(|mine| theirs.index < mine.index)
    {
        *mine = Some(theirs);
    }
}

/// What a backend returns from a comparison.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Outcome {
    pub values: Values,
    pub explanation: Option<Explanation>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_values_are_those_of_all_elements() {
        let bins = |of: &dyn Fn(usize) -> u64| Some(std::array::from_fn(of));
        let one = Values {
            mismatches: 1,
            zero_passes: 2,
            zeros: [3, 4],
            nans: [5, 6],
            positive_infinities: [7, 8],
            negative_infinities: [9, 10],
            nonfinite_pairs: 11,
            max_magnitude: [1.5, 2.5],
            maxima: [1.0, 5.0, 0.0, 4.0, 2.0],
            histograms: bins(&|k| k as u64),
            ..Values::EMPTY
        };
        let two = Values {
            mismatches: 100,
            zero_passes: 200,
            zeros: [300, 400],
            nans: [500, 600],
            positive_infinities: [700, 800],
            negative_infinities: [900, 1000],
            nonfinite_pairs: 1100,
            max_magnitude: [3.0, 1.0],
            maxima: [2.0, 1.0, 0.0, 4.0, 3.0],
            histograms: bins(&|k| 1000 * k as u64),
            ..Values::EMPTY
        };
        let both = Values {
            mismatches: 101,
            zero_passes: 202,
            zeros: [303, 404],
            nans: [505, 606],
            positive_infinities: [707, 808],
            negative_infinities: [909, 1010],
            nonfinite_pairs: 1111,
            max_magnitude: [3.0, 2.5],
            maxima: [2.0, 5.0, 0.0, 4.0, 3.0],
            histograms: bins(&|k| 1001 * k as u64),
            ..Values::EMPTY
        };
        for (mut a, b, expected, reason) in [
            (one, two, both, "all elements"),
            (two, one, both, "in the other order"),
            (Values::EMPTY, two, two, "nothing was read before"),
            (two, Values::EMPTY, two, "nothing was read after"),
        ] {
            a.join(&b);
            assert_eq!(a, expected, "{reason}");
        }
    }

    #[test]
    fn of_elements_that_share_a_maximum_the_first_is_named() {
        let found = |index| Found { index, bits: [index, 100 + index] };
        let maxima = [4.0, 2.0, 0.0, 1.0, 3.0];
        // Index, metrics, ulps, smallest rtol and atol.
        let elements = [
            (7, [4.0, 1.0, 0.0, 1.0, 3.0], 5.0, [0.25, 8.0]),
            (3, [4.0, 1.0, 0.0, 0.5, 3.0], 5.0, [0.5, 2.0]),
            (5, [1.0, 2.0, 0.0, 0.5, 1.0], 6.0, [0.125, 1.0]),
            (9, [4.0, 2.0, 0.0, 1.0, 3.0], 6.0, [0.0, 0.0]),
            (1, [0.0; Metric::MAXIMA], 0.0, [0.0, 0.0]),
        ];
        let of = |part: &[(u64, Maxima, f64, [f64; 2])]| {
            let mut explanation = Explanation::EMPTY;
            part.iter().for_each(|&(index, metrics, ulps, passing)| explanation.observe(found(index), &maxima, &metrics, ulps, passing));
            explanation
        };
        let expected = Explanation {
            // Of RelativeOld no element has a maximum above 0.
            worst: [Some(3), Some(5), None, Some(7), Some(3), Some(5)].map(|index: Option<u64>| index.map(found)),
            ulps: 6.0,
            passing_rtol: 0.5,
            passing_atol: 8.0,
            first: Vec::new(),
        };
        let mut backwards = elements;
        backwards.reverse();
        for order in [elements, backwards] {
            for k in 0..=order.len() {
                let mut joined = of(&order[..k]);
                joined.join(&of(&order[k..]));
                assert_eq!(joined, expected, "{k} elements, then the others, of {order:?}");
            }
        }
        assert_eq!(of(&elements[4..]), Explanation::EMPTY, "an element that does not differ is nobody's worst");
    }
}
