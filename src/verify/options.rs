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
    /// Every metric below its threshold, and no mismatch among the pairs that are not finite.
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
            all: options.level == Level::All || options.histograms,
            histograms: options.histograms,
            first: options.first,
            explain: options.explain,
            thresholds: options.thresholds.unwrap_or_else(|| Thresholds::rocmlir(dtype)),
            judge: options.judge,
        }
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
