//! What a comparison is asked for: [`Options`] by the caller, a [`Request`] by a backend.

use super::rule::NonFinite;
use super::values::Values;
use crate::device::TensorRef;
use crate::dtype::DType;
use crate::error::{Error, Result};

/// Options of a comparison.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Options {
    /// How much is measured.
    pub level: Level,
    /// When the tensors are read a second time, for what explains the verdict.
    pub explain: Explain,
    /// Whether histograms are made (they imply [`Level::All`]).
    pub histograms: bool,
    /// Whether cosine similarity is measured, by one more pass over both tensors (implies [`Level::All`]); see [`Similarity`](super::Similarity).
    pub cosine: bool,
    /// How many of the first mismatches an explanation lists; at most [`Options::MAX_FIRST`].
    pub first: usize,
    /// What happens to pairs that are not finite.
    pub nonfinite: NonFinite,
    /// Thresholds of the study's metrics; `None` takes [`Thresholds::rocmlir`].
    pub thresholds: Option<Thresholds>,
    /// What the verdict rests on.
    pub judge: Judge,
}

/// How much a comparison measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Level {
    /// Mismatches, non-finite values by class, largest magnitudes, the largest absolute difference.
    Counts,
    /// Every metric, in the same single pass.
    #[default]
    All,
}

/// When a comparison reads its tensors a second time to explain the verdict: *where* each metric has its maximum, the first mismatches,
/// the largest distance in ulps, and the smallest tolerances that pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Explain {
    /// When the verdict is a failure.
    #[default]
    OnFailure,
    /// After every comparison.
    Always,
    /// Never: the cost is one pass over the tensors whatever the verdict.
    Never,
}

impl Options {
    /// The most mismatches that a report lists.
    pub const MAX_FIRST: usize = 64;

    /// [`Level::Counts`], nothing else changed.
    pub fn counts() -> Options {
        Options { level: Level::Counts, ..Options::default() }
    }

    /// Sets the level.
    pub fn level(mut self, level: Level) -> Options {
        self.level = level;
        self
    }

    /// Sets when the verdict is explained.
    pub fn explain(mut self, explain: Explain) -> Options {
        self.explain = explain;
        self
    }

    /// Asks for histograms.
    pub fn histograms(mut self, on: bool) -> Options {
        self.histograms = on;
        self
    }

    /// Asks for cosine similarity.
    pub fn cosine(mut self, on: bool) -> Options {
        self.cosine = on;
        self
    }

    /// Sets how many of the first mismatches are listed.
    pub fn first(mut self, first: usize) -> Options {
        self.first = first;
        self
    }

    /// Sets what happens to pairs that are not finite.
    pub fn nonfinite(mut self, policy: NonFinite) -> Options {
        self.nonfinite = policy;
        self
    }

    /// Sets thresholds and what the verdict rests on.
    pub fn thresholds(mut self, thresholds: Thresholds, judge: Judge) -> Options {
        self.thresholds = Some(thresholds);
        self.judge = judge;
        self
    }

    /// Options that can be carried out.
    pub(crate) fn check(&self) -> Result<()> {
        if self.first > Options::MAX_FIRST {
            let limit = format!("at most {} mismatches are listed", Options::MAX_FIRST);
            return Err(Error::InvalidArgument { what: "first", value: self.first.to_string(), limit });
        }
        Ok(())
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            level: Level::All,
            explain: Explain::OnFailure,
            histograms: false,
            cosine: false,
            first: 8,
            nonfinite: NonFinite::Fail,
            thresholds: None,
            judge: Judge::Elements,
        }
    }
}

/// Thresholds of the study's three metrics.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Thresholds {
    /// Largest RMS.
    pub rms: f64,
    /// Largest absolute difference.
    pub absolute: f64,
    /// Largest relative difference.
    pub relative: f64,
}

impl Thresholds {
    /// Thresholds given one by one.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when one is negative or NaN; infinity switches a metric off.
    pub fn new(rms: f64, absolute: f64, relative: f64) -> Result<Thresholds> {
        for (what, value) in [("RMS threshold", rms), ("absolute threshold", absolute), ("relative threshold", relative)] {
            if value.is_nan() || value < 0.0 {
                let limit = "a threshold is 0 or larger".to_owned();
                return Err(Error::InvalidArgument { what, value: value.to_string(), limit });
            }
        }
        Ok(Thresholds { rms, absolute, relative })
    }

    /// rocMLIR's defaults of 2022: RMS 3e-5, absolute 100, relative 1e-6 (100, that is off, for 16-bit and smaller floats).
    pub fn rocmlir(dtype: DType) -> Thresholds {
        let small_float = dtype.float_format().is_some_and(|f| f.mantissa_bits < 23);
        Thresholds { rms: 3e-5, absolute: 100.0, relative: if small_float { 100.0 } else { 1e-6 } }
    }
}

/// What a verdict rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub enum Judge {
    /// Every element within the tolerance.
    #[default]
    Elements,
    /// Every metric within its threshold; where pairs are not finite, also no mismatch, and [`NonFinite::EqualWhenSame`].
    Thresholds,
    /// Both.
    Both,
}

/// What a backend is asked: checked options, with everything that the formats decide filled in. rtol and atol are in f64.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub rtol: f64,
    pub atol: f64,
    pub nonfinite: NonFinite,
    /// Whether more than counts, largest magnitudes and the largest absolute difference are wanted.
    pub all: bool,
    pub histograms: bool,
    pub first: usize,
    pub explain: Explain,
    pub thresholds: Thresholds,
    pub judge: Judge,
}

impl Request {
    /// For a result of format `dtype`.
    pub(crate) fn new(options: &Options, dtype: DType, rtol: f64, atol: f64) -> Request {
        Request {
            rtol,
            atol,
            nonfinite: options.nonfinite,
            all: options.level == Level::All || options.histograms || options.cosine,
            histograms: options.histograms,
            first: options.first,
            explain: options.explain,
            thresholds: options.thresholds.unwrap_or_else(|| Thresholds::rocmlir(dtype)),
            judge: options.judge,
        }
    }

    /// The same comparison for its sums alone.
    pub(crate) fn sums(&self) -> Request {
        Request { all: true, histograms: false, explain: Explain::Never, ..*self }
    }

    /// Whether these values of tensors like `result` are to be explained.
    pub(crate) fn explains(&self, values: &Values, result: &TensorRef<'_>) -> bool {
        match self.explain {
            Explain::Always => true,
            Explain::Never => false,
            Explain::OnFailure => !Verdict::of(values, self, result.elements()).passed,
        }
    }
}

/// The verdict that values amount to, with the metrics that it may rest on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Verdict {
    pub rms: f64,
    /// Whether RMS, absolute and relative difference are within their thresholds.
    pub vector: [bool; 3],
    pub passed: bool,
}

impl Verdict {
    pub(crate) fn of(values: &Values, request: &Request, elements: usize) -> Verdict {
        let [_, sum_dd, ..] = values.sums;
        let [result_max, reference_max] = values.max_magnitude;
        let [absolute, relative, ..] = values.maxima;
        let rms = quotient(sum_dd.sqrt(), (elements as f64).sqrt() * result_max.max(reference_max));
        let limits = request.thresholds;
        let vector = [rms <= limits.rms, absolute <= limits.absolute, relative <= limits.relative];
        let by_elements = values.mismatches == 0;
        let sound = values.nonfinite_pairs == 0 || request.nonfinite == NonFinite::EqualWhenSame && by_elements;
        // Metrics that were not measured are within no threshold.
        let by_thresholds = sound && request.all && vector == [true; 3];
        let passed = match request.judge {
            Judge::Elements => by_elements,
            Judge::Thresholds => by_thresholds,
            Judge::Both => by_elements && by_thresholds,
        };
        Verdict { rms, vector, passed }
    }
}

/// x / y, where nothing over nothing is nothing.
pub(crate) fn quotient(x: f64, y: f64) -> f64 {
    if x == 0.0 { 0.0 } else { x / y }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four elements: RMS 0.25, absolute 3, relative 0.5, each of which is at its threshold in [`request`].
    const VALUES: Values =
        Values { max_magnitude: [8.0, 4.0], maxima: [3.0, 0.5, 0.0, 0.0, 0.0], sums: [0.0, 16.0, 0.0, 0.0], ..Values::EMPTY };

    fn request(judge: Judge, nonfinite: NonFinite, level: Level) -> Request {
        let thresholds = Thresholds { rms: 0.25, absolute: 3.0, relative: 0.5 };
        let options = Options::default().thresholds(thresholds, judge).nonfinite(nonfinite).level(level);
        Request::new(&options, DType::F32, 0.0, 0.0)
    }

    #[test]
    fn metrics_are_within_their_thresholds_up_to_equality() {
        let request = request(Judge::Thresholds, NonFinite::Fail, Level::All);
        for (values, vector, reason) in [
            (VALUES, [true; 3], "each at its threshold"),
            (Values { max_magnitude: [4.0, 8.0], ..VALUES }, [true; 3], "the larger side divides"),
            (Values { max_magnitude: [7.0, 7.0], ..VALUES }, [false, true, true], "RMS above"),
            (Values { sums: [0.0, 17.0, 0.0, 0.0], ..VALUES }, [false, true, true], "RMS above"),
            (Values { maxima: [3f64.next_up(), 0.5, 9.0, 9.0, 9.0], ..VALUES }, [true, false, true], "absolute above"),
            (Values { maxima: [3.0, 0.5f64.next_up(), 9.0, 9.0, 9.0], ..VALUES }, [true, true, false], "relative above"),
        ] {
            let verdict = Verdict::of(&values, &request, 4);
            assert_eq!((verdict.vector, verdict.passed), (vector, vector == [true; 3]), "{reason}");
        }
        assert_eq!(Verdict::of(&VALUES, &request, 4).rms, 0.25);
        assert_eq!(Verdict::of(&VALUES, &request, 1).rms, 0.5);
    }

    #[test]
    fn a_verdict_rests_on_what_was_chosen() {
        use Judge::{Both, Elements, Thresholds};
        use NonFinite::{EqualWhenSame, Fail};
        for (judge, policy, mismatches, nonfinite_pairs, within, passed, reason) in [
            (Elements, Fail, 0, 0, true, true, "no mismatch"),
            (Elements, Fail, 0, 0, false, true, "the metrics do not decide"),
            (Elements, Fail, 1, 0, true, false, "a mismatch"),
            (Elements, EqualWhenSame, 0, 1, true, true, "the same NaN on both sides"),
            (Thresholds, Fail, 0, 0, true, true, "all metrics within their thresholds"),
            (Thresholds, Fail, 0, 0, false, false, "a metric above its threshold"),
            (Thresholds, Fail, 4, 0, true, true, "finite mismatches do not decide"),
            (Thresholds, Fail, 1, 1, true, false, "no metric sees a pair that is not finite"),
            (Thresholds, EqualWhenSame, 0, 1, true, true, "the same NaN on both sides"),
            (Thresholds, EqualWhenSame, 0, 1, false, false, "the same NaN, and a metric above its threshold"),
            (Thresholds, EqualWhenSame, 1, 1, true, false, "the mismatch may be the pair that is not finite"),
            (Thresholds, EqualWhenSame, 4, 0, true, true, "all pairs are finite: the policy does not matter"),
            (Both, Fail, 0, 0, true, true, "neither objects"),
            (Both, Fail, 1, 0, true, false, "a mismatch"),
            (Both, Fail, 0, 0, false, false, "a metric above its threshold"),
            (Both, EqualWhenSame, 0, 1, true, true, "the same NaN on both sides"),
        ] {
            let maxima = [if within { 3.0 } else { 4.0 }, 0.5, 0.0, 0.0, 0.0];
            let values = Values { mismatches, nonfinite_pairs, maxima, ..VALUES };
            let of = |level| Verdict::of(&values, &request(judge, policy, level), 4).passed;
            assert_eq!(of(Level::All), passed, "{judge:?}, {policy:?}: {reason}");
            assert_eq!(of(Level::Counts), judge == Elements && passed, "{judge:?}, {policy:?}: metrics that were not measured");
        }
    }

    #[test]
    fn thresholds_are_zero_or_larger() {
        for (good, reason) in [(0.0, "equality"), (1e-9, "an ordinary one"), (f64::INFINITY, "a metric switched off")] {
            let thresholds = Thresholds { rms: good, absolute: good, relative: good };
            assert_eq!(Thresholds::new(good, good, good).unwrap(), thresholds, "{reason}");
        }
        for bad in [-1e-300, f64::NEG_INFINITY, f64::NAN] {
            for (rms, absolute, relative, name) in
                [(bad, 0.0, 0.0, "RMS threshold"), (0.0, bad, 0.0, "absolute threshold"), (0.0, 0.0, bad, "relative threshold")]
            {
                let message = Thresholds::new(rms, absolute, relative).unwrap_err().to_string();
                assert!(message.contains(name) && message.contains(&bad.to_string()), "{message}");
            }
        }
    }

    #[test]
    fn nothing_over_nothing_is_nothing() {
        assert_eq!((quotient(0.0, 0.0), quotient(0.0, 2.0), quotient(3.0, 2.0)), (0.0, 0.0, 1.5));
        assert_eq!(quotient(3.0, 0.0), f64::INFINITY);
    }
}
