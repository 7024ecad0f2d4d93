//! The report of a comparison: a function of the data and the options alone, but for the device's name.

use super::histogram::Histograms;
use super::rule::NonFinite;
use super::stats::Measure;
use crate::dtype::DType;
use crate::error::Error;

/// One element of both tensors.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Place {
    /// Logical row-major index.
    pub index: usize,
    /// Coordinates, outermost dimension first.
    pub coordinates: Vec<usize>,
    /// The result's value.
    pub result: Value,
    /// The reference's value.
    pub reference: Value,
}

/// A value of a tensor.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(untagged))]
pub enum Value {
    /// Of a floating-point format.
    Float(#[cfg_attr(feature = "serde", serde(serialize_with = "super::render::json_number"))] f64),
    /// Of an integer format.
    Int(i64),
}

impl Value {
    /// The value as f64; integers beyond 2^53 round.
    pub fn to_f64(self) -> f64 {
        match self {
            Value::Float(x) => x,
            Value::Int(x) => x as f64,
        }
    }
}

/// The worst element by a measure.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Worst {
    /// The measure's value there.
    #[cfg_attr(feature = "serde", serde(serialize_with = "super::render::json_number"))]
    pub value: f64,
    /// The element; of several with this value the first.
    pub place: Place,
}

/// Values of one tensor by class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Classes {
    /// Zeros of either sign (0 when only counts were asked for).
    pub zeros: u64,
    /// NaNs.
    pub nans: u64,
    /// Positive infinities.
    pub positive_infinities: u64,
    /// Negative infinities.
    pub negative_infinities: u64,
}

impl Classes {
    /// NaNs and infinities.
    pub fn nonfinite(&self) -> u64 {
        self.nans + self.positive_infinities + self.negative_infinities
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
    pub fn new(rms: f64, absolute: f64, relative: f64) -> crate::Result<Thresholds> {
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

/// What a comparison found. `Display` draws it on one screen.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Report {
    /// Shape of both tensors.
    pub shape: Vec<usize>,
    /// Format of the result.
    #[cfg_attr(feature = "serde", serde(serialize_with = "super::render::json_name"))]
    pub result_dtype: DType,
    /// Format of the reference.
    #[cfg_attr(feature = "serde", serde(serialize_with = "super::render::json_name"))]
    pub reference_dtype: DType,
    /// The relative tolerance.
    pub rtol: f64,
    /// The absolute tolerance.
    pub atol: f64,
    /// What the verdict rests on.
    pub judge: Judge,
    /// Whether the result passes.
    pub passed: bool,
    /// Elements compared.
    pub elements: usize,
    /// Elements that do not pass.
    pub mismatches: u64,
    /// Pairs in which a side is not finite.
    pub nonfinite_pairs: u64,
    /// Classes of the result's values.
    pub result: Classes,
    /// Classes of the reference's values.
    pub reference: Classes,
    /// Largest finite magnitude of the result.
    pub result_max: f64,
    /// Largest finite magnitude of the reference.
    pub reference_max: f64,
    /// The first mismatches, as many as were asked for.
    pub first: Vec<Place>,
    /// The largest absolute difference |a - r|; `None` when no finite pair differs.
    pub worst_absolute: Option<Worst>,
    /// Everything that costs more than counts and the largest difference; `None` when not asked for.
    pub metrics: Option<Metrics>,
    /// Histograms, when asked for.
    pub histograms: Option<Histograms>,
    /// The device that compared.
    pub device: String,
    /// Why that device.
    pub why: String,
}

/// The metrics of a report, over finite pairs. `None` stands for "no such element".
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Metrics {
    /// Largest |a - r| / |r| over r ≠ 0.
    pub worst_relative: Option<Worst>,
    /// Largest |a - r| / |r| over |r| > 1e-3.
    pub worst_relative_old: Option<Worst>,
    /// Largest |a - r| / spacing of the result's format at |r|.
    pub worst_epsilon: Option<Worst>,
    /// Largest distance in representable numbers of the result's format.
    pub worst_ulp: Option<Worst>,
    /// Largest |a - r| / (rtol·|r| + atol); up to 1 passes.
    pub worst_ratio: Option<Worst>,
    /// Mean of |a - r| over all elements.
    #[cfg_attr(feature = "serde", serde(serialize_with = "super::render::json_number"))]
    pub mean_absolute: f64,
    /// sqrt(Σ(a-r)²) / (sqrt(N) · max(max|a|, max|r|)), the study's root mean square difference.
    #[cfg_attr(feature = "serde", serde(serialize_with = "super::render::json_number"))]
    pub rms: f64,
    /// Σ|a-r| / Σ|r|.
    #[cfg_attr(feature = "serde", serde(serialize_with = "super::render::json_number"))]
    pub relative_l1: f64,
    /// sqrt(Σ(a-r)² / Σr²).
    #[cfg_attr(feature = "serde", serde(serialize_with = "super::render::json_number"))]
    pub relative_l2: f64,
    /// max|a-r| / max|r|.
    #[cfg_attr(feature = "serde", serde(serialize_with = "super::render::json_number"))]
    pub relative_linf: f64,
    /// The smallest rtol that would have passed every finite pair, with atol as it is; infinite when none would.
    #[cfg_attr(feature = "serde", serde(serialize_with = "super::render::json_number"))]
    pub passing_rtol: f64,
    /// The smallest atol that would have passed every finite pair, with rtol as it is; infinite when none would.
    #[cfg_attr(feature = "serde", serde(serialize_with = "super::render::json_number"))]
    pub passing_atol: f64,
    /// Elements at which a result of zero would pass: a comparison that zeros survive can hardly fail.
    pub zero_passes: u64,
    /// The thresholds that the verdict vector is made with.
    pub thresholds: Thresholds,
    /// The study's verdict vector [RMS, absolute, relative]: whether each metric is at most its threshold.
    pub vector: [bool; 3],
}

/// Something that a reader of a verdict should know, worst first.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// The result is zero everywhere, and the reference is not.
    ResultAllZero,
    /// Both tensors are zero everywhere: the comparison says nothing.
    BothAllZero,
    /// A result of zeros would have passed at this many elements.
    ZerosWouldPass(u64),
}

impl Report {
    /// Whether the result passes.
    pub fn passed(&self) -> bool {
        self.passed
    }

    /// Share of elements that do not pass, in percent.
    pub fn mismatch_percent(&self) -> f64 {
        100.0 * self.mismatches as f64 / self.elements as f64
    }

    /// The worst element by a measure; `None` when no finite pair differs, or the measure was not asked for.
    pub fn worst(&self, measure: Measure) -> Option<&Worst> {
        let metrics = self.metrics.as_ref();
        match measure {
            Measure::Absolute => self.worst_absolute.as_ref(),
            Measure::Relative => metrics?.worst_relative.as_ref(),
            Measure::RelativeOld => metrics?.worst_relative_old.as_ref(),
            Measure::Epsilon => metrics?.worst_epsilon.as_ref(),
            Measure::Ulp => metrics?.worst_ulp.as_ref(),
            Measure::Ratio => metrics?.worst_ratio.as_ref(),
        }
    }

    /// Whether every value of the result is zero.
    pub fn all_zero(&self) -> bool {
        self.result_max == 0.0 && self.result.nonfinite() == 0
    }

    /// What a reader should know before trusting the verdict.
    pub fn warnings(&self) -> Vec<Warning> {
        let mut out = Vec::new();
        let reference_zero = self.reference_max == 0.0 && self.reference.nonfinite() == 0;
        match (self.all_zero(), reference_zero) {
            (true, true) => out.push(Warning::BothAllZero),
            (true, false) => out.push(Warning::ResultAllZero),
            // When zeros pass almost everywhere, a kernel that wrote nothing would show a handful of mismatches at best.
            (false, _) => {
                if let Some(m) = &self.metrics
                    && m.zero_passes > 0
                    && m.zero_passes as f64 >= 0.5 * self.elements as f64
                {
                    out.push(Warning::ZerosWouldPass(m.zero_passes));
                }
            }
        }
        out
    }
}

/// Options of a comparison.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Options {
    /// How much is measured.
    pub level: Level,
    /// Whether histograms are made (they imply [`Level::All`]).
    pub histograms: bool,
    /// How many of the first mismatches are listed; at most [`Options::MAX_FIRST`].
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
    /// Mismatches, non-finite values by class, largest magnitudes, the worst absolute difference.
    Counts,
    /// Every metric, in the same single pass.
    #[default]
    All,
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
}

impl Default for Options {
    fn default() -> Options {
        Options { level: Level::All, histograms: false, first: 8, nonfinite: NonFinite::Fail, thresholds: None, judge: Judge::Elements }
    }
}
