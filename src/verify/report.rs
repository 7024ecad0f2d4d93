//! The report of a comparison: a function of the data and the options alone, but for the device's name.

use super::cause::Diagnosis;
use super::histogram::Histograms;
use super::options::{Judge, Judged, Request, Thresholds, quotient};
use super::power::{Effect, Mutation, Power};
use super::rule::NonFinite;
use super::similarity::Similarity;
use super::values::{Found, Metric, Outcome};
use crate::device::TensorRef;
use crate::dtype::DType;

/// Where an element is, and its values in both tensors.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Location {
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
    Int(i128),
}

impl Value {
    /// Of a bit pattern.
    pub(super) fn of(dtype: DType, bits: u64) -> Value {
        match dtype.int_format() {
            Some(int) => Value::Int(int.decode(bits)),
            None => Value::Float(dtype.decode(bits)),
        }
    }

    /// The value as f64; integers beyond 2^53 round.
    pub fn to_f64(self) -> f64 {
        match self {
            Value::Float(x) => x,
            Value::Int(x) => x as f64,
        }
    }
}

/// The maximum of an error metric.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Worst {
    /// The maximum.
    #[cfg_attr(feature = "serde", serde(serialize_with = "super::render::json_number"))]
    pub value: f64,
    /// The first element that has it; `None` when the verdict was not [explained](Report::explained).
    pub at: Option<Location>,
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

/// What a comparison amounts to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "lowercase"))]
pub enum Verdict {
    /// The result passes.
    Pass,
    /// The result passes, and so would one that is plainly wrong, or it is one: zeros at half of the elements of the reference that are not zero (where
    /// [these were counted](Report::counts_zeros)), or the reference with its elements in the opposite order, or an earlier output; or no pair is finite. [`Report::warnings`] says which.
    Untrusted,
    /// The result does not pass.
    Fail,
}

impl Verdict {
    /// `PASS`, `UNTRUSTED`, `FAIL`.
    pub const fn word(self) -> &'static str {
        match self {
            Verdict::Pass => "PASS",
            Verdict::Untrusted => "UNTRUSTED",
            Verdict::Fail => "FAIL",
        }
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.word())
    }
}

/// What a comparison found. `Display` draws it on one screen.
///
/// Reports are compared by `==` number by number: one that lists a NaN among its values is not equal to its own clone.
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
    #[cfg_attr(feature = "serde", serde(serialize_with = "super::render::json_number"))]
    pub rtol: f64,
    /// The absolute tolerance.
    #[cfg_attr(feature = "serde", serde(serialize_with = "super::render::json_number"))]
    pub atol: f64,
    /// Whether rtol multiplies the binade of |r|, as by [`Tolerance::by_binade`](super::Tolerance::by_binade), and not |r|.
    pub by_binade: bool,
    /// What the verdict rests on.
    pub judge: Judge,
    /// The verdict.
    pub verdict: Verdict,
    /// Whether an untrusted pass is an error for [`into_result`](Report::into_result), see [`Strict`](super::Strict).
    pub strict: bool,
    /// Elements compared.
    pub elements: usize,
    /// Elements that do not pass.
    pub mismatches: u64,
    /// Elements of which the verdict lets so many not pass.
    pub allowed_mismatches: u64,
    /// Pairs in which a side is not finite.
    pub nonfinite_pairs: u64,
    /// What became of them.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub(crate) nonfinite: NonFinite,
    /// Classes of the result's values.
    pub result: Classes,
    /// Classes of the reference's values.
    pub reference: Classes,
    /// Largest finite magnitude of the result.
    pub result_max: f64,
    /// Largest finite magnitude of the reference.
    pub reference_max: f64,
    /// Whether the verdict was explained, see [`Options::explain`](super::Options::explain). If not, there are no
    /// [`first`](Report::first), [`Worst::at`], [`Metrics::worst_ulp`], [`Metrics::passing_rtol`] and [`Metrics::passing_atol`].
    pub explained: bool,
    /// The first mismatches, as many as were asked for; none when the verdict was not explained.
    pub first: Vec<Location>,
    /// The largest absolute difference |a - r|; `None` when no finite pair differs.
    pub worst_absolute: Option<Worst>,
    /// Everything that costs more than counts and the largest difference; `None` when not asked for.
    pub metrics: Option<Metrics>,
    /// The likely cause of a failure; `None` after a pass, and where it was not looked for, see [`Options::cause`](super::Options::cause).
    pub cause: Option<Diagnosis>,
    /// What the comparison could tell from its reference.
    pub power: Power,
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
    /// Largest distance in representable numbers of the result's format; also `None` when the verdict was not explained.
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
    /// Signal-to-noise ratio in dB, 10 log10(Σr² / Σ(a-r)²); infinite when no finite pair differs.
    #[cfg_attr(feature = "serde", serde(serialize_with = "super::render::json_number"))]
    pub snr: f64,
    /// Cosine similarity, when [asked for](super::Options::cosine).
    pub similarity: Option<Similarity>,
    /// The smallest rtol that would have passed every finite pair, with atol as it is; infinite when none would,
    /// `None` when the verdict was not explained.
    #[cfg_attr(feature = "serde", serde(serialize_with = "super::render::json_optional_number"))]
    pub passing_rtol: Option<f64>,
    /// The smallest atol that would have passed every finite pair, with rtol as it is; infinite when none would,
    /// `None` when the verdict was not explained.
    #[cfg_attr(feature = "serde", serde(serialize_with = "super::render::json_optional_number"))]
    pub passing_atol: Option<f64>,
    /// Elements at which a result of zero would pass: a comparison that zeros survive can hardly fail.
    pub zero_passes: u64,
    /// The thresholds that the verdict vector is made with.
    pub thresholds: Thresholds,
    /// The study's verdict vector [RMS, absolute, relative]: whether each metric is at most its threshold.
    pub vector: [bool; 3],
}

impl Location {
    fn new(result: &TensorRef<'_>, reference: &TensorRef<'_>, found: &Found) -> Location {
        let (index, [a, r]) = (found.index as usize, found.bits);
        let [result_value, reference_value] = [Value::of(result.dtype(), a), Value::of(reference.dtype(), r)];
        Location { index, coordinates: result.layout().coordinates(index), result: result_value, reference: reference_value }
    }
}

impl Outcome {
    /// The maximum of a metric; `None` where no finite pair differs, or the metric was not asked for.
    fn worst(&self, metric: Metric, location: impl Fn(&Found) -> Location) -> Option<Worst> {
        let explanation = self.explanation.as_ref();
        let value = match metric {
            Metric::Ulp => explanation?.ulps,
            _ => self.values.maxima[metric as usize],
        };
        let found = explanation.and_then(|e| e.worst[metric as usize].as_ref());
        (value > 0.0).then(|| Worst { value, at: found.map(location) })
    }
}

impl Metrics {
    fn new(
        elements: usize,
        request: &Request,
        outcome: &Outcome,
        judged: &Judged,
        similarity: Option<Similarity>,
        location: impl Fn(&Found) -> Location,
    ) -> Metrics {
        let Outcome { values, explanation } = outcome;
        let worst = |metric: Metric| outcome.worst(metric, &location);
        let [sum_d, sum_dd, sum_r, sum_rr] = values.sums;
        Metrics {
            worst_relative: worst(Metric::Relative),
            worst_relative_old: worst(Metric::RelativeOld),
            worst_epsilon: worst(Metric::Epsilon),
            worst_ulp: worst(Metric::Ulp),
            worst_ratio: worst(Metric::Ratio),
            mean_absolute: sum_d / elements as f64,
            rms: judged.rms,
            relative_l1: quotient(sum_d, sum_r),
            relative_l2: quotient(sum_dd, sum_rr).sqrt(),
            relative_linf: quotient(values.maxima[Metric::Absolute as usize], values.max_magnitude[1]),
            snr: decibels(sum_rr, sum_dd),
            similarity,
            passing_rtol: explanation.as_ref().map(|e| e.passing_rtol),
            passing_atol: explanation.as_ref().map(|e| e.passing_atol),
            zero_passes: values.zero_passes,
            thresholds: request.thresholds,
            vector: judged.vector,
        }
    }
}

/// How much larger a sum of squares is than that of the noise, in dB. By `libm`: the C library's logarithm is another on each system.
fn decibels(signal: f64, noise: f64) -> f64 {
    match noise {
        0.0 => f64::INFINITY,
        f64::INFINITY => f64::NEG_INFINITY,
        _ => 10.0 * libm::log10(signal / noise),
    }
}

/// Something that a reader of a verdict should know. A pass with a warning is [untrusted](Verdict::Untrusted).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Warning {
    /// The result is zero everywhere, and the reference is not.
    ResultAllZero,
    /// Both tensors are zero everywhere: the comparison says nothing.
    BothAllZero,
    /// The reference is zero everywhere, and the result is not.
    ReferenceAllZero,
    /// A result of zeros would have passed at so many elements of so many whose reference is not zero; the numbers are 0 when only counts were asked
    /// for.
    ZerosWouldPass(u64, u64),
    /// The reference would have passed with its elements in the opposite order.
    ReversedWouldPass,
    /// An earlier output would have passed.
    EarlierWouldPass,
    /// No pair is finite: nothing was measured.
    NothingFinite,
}

impl Report {
    /// The report of an outcome: the same for every backend.
    pub(crate) fn new(
        result: &TensorRef<'_>,
        reference: &TensorRef<'_>,
        request: &Request,
        outcome: Outcome,
        similarity: Option<Similarity>,
    ) -> Report {
        let Outcome { values, explanation } = &outcome;
        let judged = Judged::of(values, request, result.elements());
        let location = |found: &Found| Location::new(result, reference, found);
        let classes = |side: usize| Classes {
            zeros: values.zeros[side],
            nans: values.nans[side],
            positive_infinities: values.positive_infinities[side],
            negative_infinities: values.negative_infinities[side],
        };
        let finite = result.elements() as u64 - values.nonfinite_pairs;
        Report {
            shape: result.shape().to_vec(),
            result_dtype: result.dtype(),
            reference_dtype: reference.dtype(),
            rtol: request.rtol,
            atol: request.atol,
            by_binade: request.by_binade,
            judge: request.judge,
            verdict: if judged.passed { Verdict::Pass } else { Verdict::Fail },
            strict: request.strict,
            elements: result.elements(),
            mismatches: values.mismatches,
            allowed_mismatches: request.allowed.of(result.elements()),
            nonfinite_pairs: values.nonfinite_pairs,
            nonfinite: request.nonfinite,
            result: classes(0),
            reference: classes(1),
            result_max: values.max_magnitude[0],
            reference_max: values.max_magnitude[1],
            explained: explanation.is_some(),
            first: explanation.iter().flat_map(|e| &e.first).map(location).collect(),
            worst_absolute: outcome.worst(Metric::Absolute, location),
            metrics: request.all.then(|| Metrics::new(result.elements(), request, &outcome, &judged, similarity, location)),
            cause: None,
            power: Power::of(values, request, [result.dtype(), reference.dtype()], result.elements()),
            histograms: values.histograms.map(|counters| Histograms::of(counters, finite)),
            device: result.device().name(),
            why: result.device().why().to_owned(),
        }
        .trusted()
    }

    /// Adds what became of displacements of the reference.
    pub(super) fn with_displacements(mut self, tried: impl IntoIterator<Item = (Mutation, Effect)>) -> Report {
        tried.into_iter().for_each(|(mutation, effect)| self.power.add(mutation, effect));
        self.trusted()
    }

    /// With the verdict that a pass deserves.
    fn trusted(mut self) -> Report {
        if self.verdict == Verdict::Pass && !self.warnings().is_empty() {
            self.verdict = Verdict::Untrusted;
        }
        self
    }

    /// Whether the result passes; also where that could hardly have been otherwise, see [`Verdict::Untrusted`].
    pub fn passed(&self) -> bool {
        self.verdict != Verdict::Fail
    }

    /// Share of elements that do not pass, in percent.
    pub fn mismatch_percent(&self) -> f64 {
        100.0 * self.mismatches as f64 / self.elements as f64
    }

    /// The maximum of a metric; `None` when no finite pair differs, or the metric was not asked for.
    pub fn worst(&self, metric: Metric) -> Option<&Worst> {
        let metrics = self.metrics.as_ref();
        match metric {
            Metric::Absolute => self.worst_absolute.as_ref(),
            Metric::Relative => metrics?.worst_relative.as_ref(),
            Metric::RelativeOld => metrics?.worst_relative_old.as_ref(),
            Metric::Epsilon => metrics?.worst_epsilon.as_ref(),
            Metric::Ulp => metrics?.worst_ulp.as_ref(),
            Metric::Ratio => metrics?.worst_ratio.as_ref(),
        }
    }

    /// Whether it is known at how many elements a result of zeros would pass, without which a pass that zeros would share at half of them is not told from others: always with
    /// [`Level::All`](super::Level::All); with [`Level::Counts`](super::Level::Counts) where the tolerance alone says that zeros pass at none.
    pub fn counts_zeros(&self) -> bool {
        // By binade rtol multiplies more than a subnormal |r|; from a half on, a product with the least number may be that number.
        let of_none = self.rtol == 0.0 || self.rtol < 0.5 && !self.by_binade;
        self.power.zero_passes.is_some() || self.atol == 0.0 && of_none
    }

    /// Whether every value of the result is zero.
    pub fn all_zero(&self) -> bool {
        self.result_max == 0.0 && self.result.nonfinite() == 0
    }

    /// What a reader should know before trusting the verdict.
    pub fn warnings(&self) -> Vec<Warning> {
        let mut out = Vec::new();
        if self.nonfinite_pairs == self.elements as u64 {
            out.push(Warning::NothingFinite);
        }
        let reference_zero = self.reference_max == 0.0 && self.reference.nonfinite() == 0;
        match (self.all_zero(), reference_zero) {
            (true, true) => out.push(Warning::BothAllZero),
            (true, false) => out.push(Warning::ResultAllZero),
            (false, true) => out.push(Warning::ReferenceAllZero),
            (false, false) => {
                let missed = |mutation| self.power.missed.contains(&mutation);
                let (passes, nonzero) = (self.power.zero_passes.unwrap_or(0), self.power.nonzero.unwrap_or(0));
                // When zeros pass almost everywhere, a kernel that wrote nothing would show a handful of mismatches at best.
                let at_half = self.judge != Judge::Thresholds && nonzero > 0 && 2 * passes >= nonzero;
                if missed(Mutation::Zeros) || at_half {
                    out.push(Warning::ZerosWouldPass(passes, nonzero));
                } else if missed(Mutation::Reversed) {
                    out.push(Warning::ReversedWouldPass);
                }
                if missed(Mutation::Earlier) {
                    out.push(Warning::EarlierWouldPass);
                }
            }
        }
        out
    }
}
