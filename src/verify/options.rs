//! What a comparison is asked for: [`Options`] by the caller, a [`Request`] by a backend.

use super::progress::Progress;
use super::rule::NonFinite;
use super::values::Values;
use crate::device::TensorRef;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::verify::Tolerance;

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
    /// How many elements may fail before the tensor does.
    pub allowed: AllowedMismatches,
    /// Whether displacements of the reference are tried after a pass that can be trusted so far, see [`Power`](super::Power). Each costs a comparison of a million elements,
    /// of all where these show nothing, which is done until one passes. Implies [`Level::All`].
    pub power: bool,
    /// Whether the likely [cause](super::Diagnosis) of a failure is looked for, where failures are explained. That reads up to a million elements on the host,
    /// of larger tensors some. Reports of [graphs](super::Recorded) have none: their tensors may have been written since.
    pub cause: bool,
    /// Whether an untrusted pass is an error for [`Report::into_result`](super::Report::into_result). [`Strict::Always`] implies [`Level::All`].
    pub strict: Strict,
    /// What counts how far the comparison is. Comparisons of a [plan](super::VerifyPlan) are not counted.
    pub progress: Option<Progress>,
}

/// When a pass that could hardly have been a failure ([`Verdict::Untrusted`](super::Verdict::Untrusted)) is an error for
/// [`Report::into_result`](super::Report::into_result).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Strict {
    /// Where the tolerance was derived from formats, not given, and decides, alone or beside thresholds.
    #[default]
    WhereDerived,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// How much a comparison measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Level {
    /// Mismatches, non-finite values by class, largest magnitudes, the largest absolute difference.
    ///
    /// At how many elements a result of zeros would pass is not counted: a pass with a tolerance that lets zeros pass at half of them is no
    /// [`Untrusted`](super::Verdict::Untrusted) one here, as it is with [`Level::All`], and [`Report::into_result`](super::Report::into_result) takes it; the report says so. What holds
    /// for all elements is known all the same: zeros that would pass as a whole, tensors of zeros, no finite pair.
    ///
    /// Everything is measured where [some elements may fail](Options::allow_mismatches), since that a result of zeros would not pass then takes counting at how many elements it would,
    /// where [metrics decide](Options::thresholds), and where it was asked whether a pass is to be trusted: with [`Strict::Always`] and [`Options::power`].
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

    /// [`Level::Counts`], nothing else changed: what that does not count is not part of the verdict either.
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

    /// Counts what is read.
    pub fn progress(mut self, progress: &Progress) -> Options {
        self.progress = Some(progress.clone());
        self
    }

    /// Lets so many elements fail.
    pub fn allow_mismatches(mut self, allowed: AllowedMismatches) -> Options {
        self.allowed = allowed;
        self
    }

    /// Sets whether displacements of the reference are tried after a pass.
    pub fn power(mut self, on: bool) -> Options {
        self.power = on;
        self
    }

    /// Sets whether the cause of a failure is looked for.
    pub fn cause(mut self, on: bool) -> Options {
        self.cause = on;
        self
    }

    /// Sets when an untrusted pass is an error.
    pub fn strict(mut self, strict: Strict) -> Options {
        self.strict = strict;
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
            allowed: AllowedMismatches::NONE,
            power: false,
            cause: true,
            strict: Strict::WhereDerived,
            progress: None,
        }
    }
}

/// How many elements may be beyond the tolerance: the largest number whose quotient by all elements is at most the share, and a count beside it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AllowedMismatches {
    share: f64,
    count: u64,
}

impl AllowedMismatches {
    /// Every element counts.
    pub const NONE: AllowedMismatches = AllowedMismatches { share: 0.0, count: 0 };

    /// A share of the elements, from 0 to 1, and a number of elements beside it.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when the share is not in [0, 1].
    pub fn new(share: f64, count: u64) -> Result<AllowedMismatches> {
        if !(0.0..=1.0).contains(&share) {
            let limit = "a share is between 0 and 1".to_owned();
            return Err(Error::InvalidArgument { what: "share of elements that may fail", value: share.to_string(), limit });
        }
        Ok(AllowedMismatches { share, count })
    }

    /// Of so many elements.
    pub fn of(self, elements: usize) -> u64 {
        // The product is rounded: 0.29 of 100 are 29. Of so many elements that f64 lacks a share, the largest number within the share is one of its neighbours.
        let near = (self.share * elements as f64) as u64;
        let within = |k: &u64| *k as f64 / elements as f64 <= self.share;
        let of_share = [near.saturating_add(1), near].into_iter().find(within).unwrap_or(near.saturating_sub(1));
        of_share.min(elements as u64).saturating_add(self.count)
    }
}

/// Thresholds of the metrics that a verdict may rest on: the three of the study's verdict vector, its two other differences, and two norms.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Thresholds {
    /// Largest RMS.
    #[cfg_attr(feature = "serde", serde(serialize_with = "super::render::json_number"))]
    pub rms: f64,
    /// Largest absolute difference.
    #[cfg_attr(feature = "serde", serde(serialize_with = "super::render::json_number"))]
    pub absolute: f64,
    /// Largest relative difference.
    #[cfg_attr(feature = "serde", serde(serialize_with = "super::render::json_number"))]
    pub relative: f64,
    /// Largest relative difference where |r| > 1e-3, by which the study judged: 0.25 for f16, 1e-6 for other formats.
    #[cfg_attr(feature = "serde", serde(serialize_with = "super::render::json_number"))]
    pub relative_old: f64,
    /// Largest difference in spacings of the result's format at |r|: the study's epsilon difference, of which it allowed 1.
    #[cfg_attr(feature = "serde", serde(serialize_with = "super::render::json_number"))]
    pub epsilon: f64,
    /// Largest Σ|a-r| / Σ|r|.
    #[cfg_attr(feature = "serde", serde(serialize_with = "super::render::json_number"))]
    pub relative_l1: f64,
    /// Largest sqrt(Σ(a-r)² / Σr²).
    #[cfg_attr(feature = "serde", serde(serialize_with = "super::render::json_number"))]
    pub relative_l2: f64,
}

impl Thresholds {
    /// Every metric switched off.
    pub const OFF: Thresholds = Thresholds {
        rms: f64::INFINITY,
        absolute: f64::INFINITY,
        relative: f64::INFINITY,
        relative_old: f64::INFINITY,
        epsilon: f64::INFINITY,
        relative_l1: f64::INFINITY,
        relative_l2: f64::INFINITY,
    };

    /// Thresholds of the study's metrics, given one by one.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when one is negative or NaN; infinity switches a metric off.
    pub fn new(rms: f64, absolute: f64, relative: f64) -> Result<Thresholds> {
        threshold("RMS threshold", rms)?;
        threshold("absolute threshold", absolute)?;
        threshold("relative threshold", relative)?;
        Ok(Thresholds { rms, absolute, relative, ..Thresholds::OFF })
    }

    /// The same with thresholds of the relative norms.
    ///
    /// # Errors
    /// As [`new`](Thresholds::new).
    pub fn with_norms(self, relative_l1: f64, relative_l2: f64) -> Result<Thresholds> {
        threshold("relative L1 threshold", relative_l1)?;
        threshold("relative L2 threshold", relative_l2)?;
        Ok(Thresholds { relative_l1, relative_l2, ..self })
    }

    /// The same with a threshold of the relative difference where |r| > 1e-3.
    ///
    /// # Errors
    /// As [`new`](Thresholds::new).
    pub fn with_relative_old(self, relative_old: f64) -> Result<Thresholds> {
        threshold("threshold of the relative difference where |r| > 1e-3", relative_old)?;
        Ok(Thresholds { relative_old, ..self })
    }

    /// The same with a threshold of the epsilon difference.
    ///
    /// # Errors
    /// As [`new`](Thresholds::new).
    pub fn with_epsilon(self, epsilon: f64) -> Result<Thresholds> {
        threshold("epsilon threshold", epsilon)?;
        Ok(Thresholds { epsilon, ..self })
    }

    /// rocMLIR's defaults of 2022: RMS 3e-5, absolute 100, relative 1e-6 (100, that is off, for 16-bit and smaller floats).
    pub fn rocmlir(dtype: DType) -> Thresholds {
        let small_float = dtype.float_format().is_some_and(|f| f.mantissa_bits < 23);
        Thresholds { rms: 3e-5, absolute: 100.0, relative: if small_float { 100.0 } else { 1e-6 }, ..Thresholds::OFF }
    }
}

/// That a number is a threshold.
fn threshold(what: &'static str, value: f64) -> Result<()> {
    if value >= 0.0 {
        return Ok(());
    }
    Err(Error::InvalidArgument { what, value: value.to_string(), limit: "a threshold is 0 or larger".to_owned() })
}

/// What a verdict rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub enum Judge {
    /// Every element within the tolerance.
    #[default]
    Elements,
    /// Every metric within its threshold, and no mismatch among pairs that are not finite, which no metric sees: see [`NonFinite`]. Makes all metrics, as [`Level::All`].
    Thresholds,
    /// Both.
    Both,
}

/// What a backend is asked: checked options, with everything that the formats decide filled in. rtol and atol are in f64.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub rtol: f64,
    pub atol: f64,
    /// Whether rtol multiplies the binade of |r|.
    pub by_binade: bool,
    pub nonfinite: NonFinite,
    /// Whether more than counts, largest magnitudes and the largest absolute difference are wanted.
    pub all: bool,
    pub histograms: bool,
    pub first: usize,
    pub explain: Explain,
    pub thresholds: Thresholds,
    pub judge: Judge,
    pub allowed: AllowedMismatches,
    pub power: bool,
    pub cause: bool,
    pub strict: bool,
    /// Whether the tolerance was derived from formats and the length of sums.
    pub derived: bool,
    /// The format whose spacing and binades count, where it is not the result's.
    pub spacing: Option<DType>,
}

impl Request {
    /// For a result of format `dtype` and a reference whose scale is `magnitude`, where the tolerance depends on one.
    pub(crate) fn new(options: &Options, dtype: DType, tolerance: &Tolerance, magnitude: f64) -> Request {
        Request {
            rtol: tolerance.rtol(),
            atol: tolerance.atol(magnitude),
            by_binade: tolerance.is_by_binade(),
            power: options.power,
            cause: options.cause,
            spacing: None,
            derived: tolerance.is_derived(),
            strict: match options.strict {
                // Thresholds are given: where they alone decide, the tolerance is only shown.
                Strict::WhereDerived => tolerance.is_derived() && options.judge != Judge::Thresholds,
                Strict::Always => true,
                Strict::Never => false,
            },
            nonfinite: options.nonfinite,
            all: options.level == Level::All
                || options.histograms
                || options.cosine
                || options.allowed != AllowedMismatches::NONE
                || options.judge != Judge::Elements
                // Whether a pass is to be trusted takes counting where zeros would pass.
                || options.power
                || options.strict == Strict::Always,
            histograms: options.histograms,
            first: options.first,
            explain: options.explain,
            thresholds: options.thresholds.unwrap_or_else(|| Thresholds::rocmlir(dtype)),
            judge: options.judge,
            allowed: options.allowed,
        }
    }

    /// The same comparison for its sums alone.
    pub(crate) fn sums(&self) -> Request {
        Request { all: true, histograms: false, explain: Explain::Never, ..*self }
    }

    /// Whether the verdict needs nothing but the metrics of the study's verdict vector and elements of which every one counts.
    pub(crate) fn is_of_the_study(&self) -> bool {
        let Thresholds { rms, absolute, relative, .. } = self.thresholds;
        self.allowed == AllowedMismatches::NONE && self.thresholds == Thresholds { rms, absolute, relative, ..Thresholds::OFF }
    }

    /// Whether these values of tensors like `result` are to be explained.
    pub(crate) fn explains(&self, values: &Values, result: &TensorRef<'_>) -> bool {
        match self.explain {
            Explain::Always => true,
            Explain::Never => false,
            Explain::OnFailure => !Judged::of(values, self, result.elements()).passed,
        }
    }
}

/// How values are judged, with the metrics that this may rest on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Judged {
    pub rms: f64,
    /// Whether RMS, absolute and relative difference are within their thresholds.
    pub vector: [bool; 3],
    pub passed: bool,
}

impl Judged {
    pub(crate) fn of(values: &Values, request: &Request, elements: usize) -> Judged {
        let [sum_d, sum_dd, sum_r, sum_rr] = values.sums;
        let [result_max, reference_max] = values.max_magnitude;
        let [absolute, relative, relative_old, epsilon, _] = values.maxima;
        let rms = quotient(sum_dd.sqrt(), (elements as f64).sqrt() * result_max.max(reference_max));
        let limits = request.thresholds;
        let vector = [rms <= limits.rms, absolute <= limits.absolute, relative <= limits.relative];
        let norms = quotient(sum_d, sum_r) <= limits.relative_l1 && quotient(sum_dd, sum_rr).sqrt() <= limits.relative_l2;
        let differences = relative_old <= limits.relative_old && epsilon <= limits.epsilon;
        let by_elements = values.mismatches <= request.allowed.of(elements);
        // No metric sees a pair that is not finite.
        let by_thresholds = values.nonfinite_mismatches == 0 && vector == [true; 3] && differences && norms;
        let passed = match request.judge {
            Judge::Elements => by_elements,
            Judge::Thresholds => by_thresholds,
            Judge::Both => by_elements && by_thresholds,
        };
        Judged { rms, vector, passed }
    }
}

/// x / y, where nothing over nothing is nothing, and what overflows is infinite, whatever it is divided by.
pub(crate) fn quotient(x: f64, y: f64) -> f64 {
    if x == 0.0 || x.is_infinite() { x } else { x / y }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Four elements: RMS 0.25, absolute 3, relative 0.5, relative L1 and L2 0.5, each of which is at its threshold in [`request`].
    const VALUES: Values =
        Values { max_magnitude: [8.0, 4.0], maxima: [3.0, 0.5, 0.0, 0.0, 0.0], sums: [6.0, 16.0, 12.0, 64.0], ..Values::EMPTY };

    fn request(judge: Judge, nonfinite: NonFinite) -> Request {
        let thresholds = Thresholds { rms: 0.25, absolute: 3.0, relative: 0.5, relative_l1: 0.5, relative_l2: 0.5, ..Thresholds::OFF };
        let options = Options::default().thresholds(thresholds, judge).nonfinite(nonfinite);
        Request::new(&options, DType::F32, &Tolerance::exact(), 0.0)
    }

    #[test]
    fn metrics_are_within_their_thresholds_up_to_equality() {
        let request = request(Judge::Thresholds, NonFinite::Fail);
        for (values, vector, reason) in [
            (VALUES, [true; 3], "each at its threshold"),
            (Values { max_magnitude: [4.0, 8.0], ..VALUES }, [true; 3], "the larger side divides"),
            (Values { max_magnitude: [7.0, 7.0], ..VALUES }, [false, true, true], "RMS above"),
            (Values { sums: [0.0, 17.0, 0.0, 0.0], ..VALUES }, [false, true, true], "RMS above"),
            (Values { maxima: [3f64.next_up(), 0.5, 9.0, 9.0, 9.0], ..VALUES }, [true, false, true], "absolute above"),
            (Values { maxima: [3.0, 0.5f64.next_up(), 9.0, 9.0, 9.0], ..VALUES }, [true, true, false], "relative above"),
        ] {
            let verdict = Judged::of(&values, &request, 4);
            assert_eq!((verdict.vector, verdict.passed), (vector, vector == [true; 3]), "{reason}");
        }
        assert_eq!(Judged::of(&VALUES, &request, 4).rms, 0.25);
        for (sums, passed, reason) in [
            ([6.0, 16.0, 12.0, 64.0], true, "both norms at their thresholds"),
            ([7.0, 16.0, 12.0, 64.0], false, "relative L1 above"),
            ([6.0, 16.0, 12.0, 63.0], false, "relative L2 above"),
            ([6.0, 16.0, 12.0, f64::NAN], false, "a norm that is no number"),
            ([0.0; 4], true, "nothing differs"),
        ] {
            let verdict = Judged::of(&Values { sums, ..VALUES }, &request, 4);
            assert_eq!((verdict.vector, verdict.passed), ([true; 3], passed), "{reason}");
        }
        assert_eq!(Judged::of(&VALUES, &request, 1).rms, 0.5);
    }

    #[test]
    fn differences_of_the_study_decide_where_they_have_thresholds() {
        let thresholds = Thresholds::OFF.with_relative_old(0.25).unwrap().with_epsilon(1.0).unwrap();
        let options = Options::default().thresholds(thresholds, Judge::Thresholds);
        let request = Request::new(&options, DType::F16, &Tolerance::exact(), 0.0);
        for (relative_old, epsilon, passed, reason) in [
            (0.25, 1.0, true, "both at their thresholds"),
            (0.25f64.next_up(), 1.0, false, "relative difference above"),
            (0.25, 1.0f64.next_up(), false, "epsilon difference above"),
            (f64::NAN, 1.0, false, "no number"),
        ] {
            let values = Values { maxima: [9.0, 9.0, relative_old, epsilon, 9.0], ..VALUES };
            assert_eq!(Judged::of(&values, &request, 4).passed, passed, "{reason}");
        }
        for (message, words) in [
            (Thresholds::OFF.with_relative_old(-1.0).unwrap_err(), "|r| > 1e-3 cannot be -1"),
            (Thresholds::OFF.with_epsilon(f64::NAN).unwrap_err(), "epsilon threshold cannot be NaN"),
        ] {
            assert!(message.to_string().contains(words), "{message}");
        }
    }

    #[test]
    fn a_verdict_rests_on_what_was_chosen() {
        use Judge::{Both, Elements, Thresholds};
        use NonFinite::{EqualWhenSame, Fail};
        for (judge, policy, mismatches, [nonfinite_pairs, nonfinite_mismatches], within, passed, reason) in [
            (Elements, Fail, 0, [0, 0], true, true, "no mismatch"),
            (Elements, Fail, 0, [0, 0], false, true, "the metrics do not decide"),
            (Elements, Fail, 1, [0, 0], true, false, "a mismatch"),
            (Elements, EqualWhenSame, 0, [1, 0], true, true, "the same NaN on both sides"),
            (Thresholds, Fail, 0, [0, 0], true, true, "all metrics within their thresholds"),
            (Thresholds, Fail, 0, [0, 0], false, false, "a metric above its threshold"),
            (Thresholds, Fail, 4, [0, 0], true, true, "finite mismatches do not decide"),
            (Thresholds, Fail, 1, [1, 1], true, false, "no metric sees a pair that is not finite"),
            (Thresholds, EqualWhenSame, 0, [1, 0], true, true, "the same NaN on both sides"),
            (Thresholds, EqualWhenSame, 0, [1, 0], false, false, "the same NaN, and a metric above its threshold"),
            (Thresholds, EqualWhenSame, 1, [1, 1], true, false, "the mismatch is the pair that is not finite"),
            (Thresholds, EqualWhenSame, 1, [1, 0], true, true, "the mismatch is another pair"),
            (Both, Fail, 0, [0, 0], true, true, "neither objects"),
            (Both, Fail, 1, [0, 0], true, false, "a mismatch"),
            (Both, Fail, 0, [0, 0], false, false, "a metric above its threshold"),
            (Both, EqualWhenSame, 0, [1, 0], true, true, "the same NaN on both sides"),
        ] {
            let maxima = [if within { 3.0 } else { 4.0 }, 0.5, 0.0, 0.0, 0.0];
            let values = Values { mismatches, nonfinite_pairs, nonfinite_mismatches, maxima, ..VALUES };
            assert_eq!(Judged::of(&values, &request(judge, policy), 4).passed, passed, "{judge:?}, {policy:?}: {reason}");
        }
    }

    #[test]
    fn everything_is_measured_where_the_verdict_takes_it() {
        let judged = |judge| Options::counts().thresholds(Thresholds::OFF, judge);
        for (options, all) in [
            (judged(Judge::Elements), false),
            (judged(Judge::Thresholds), true),
            (judged(Judge::Both), true),
            (Options::counts().power(true), true),
            (Options::counts().strict(Strict::Always), true),
            (Options::counts().strict(Strict::Never), false),
            (Options::counts().allow_mismatches(AllowedMismatches::new(0.0, 1).unwrap()), true),
        ] {
            assert_eq!(Request::new(&options, DType::F16, &Tolerance::exact(), 0.0).all, all, "{options:?}");
        }
    }

    #[test]
    fn so_many_elements_may_fail() {
        for (share, count, elements, mismatches, passed, reason) in [
            (0.0, 0, 100, 1, false, "none may"),
            (0.05, 0, 100, 5, true, "5 %"),
            (0.05, 0, 100, 6, false, "more than 5 %"),
            (0.05, 0, 19, 1, false, "5 % of 19 is less than one"),
            (0.29, 0, 100, 29, true, "the product is 28.999999999999996"),
            (0.29, 0, 100, 30, false, "above 29 %"),
            (0.57, 0, 100, 57, true, "the product is 56.99999999999999"),
            (0.1, 0, 10, 1, true, "the product is exact"),
            (1.0, 0, 7, 7, true, "all"),
            (0.0, 8, 100, 8, true, "a number"),
            (0.01, 8, 100, 9, true, "both together"),
            (0.01, 8, 100, 10, false, "more than both"),
            (1.0, u64::MAX, 100, u64::MAX, true, "no overflow"),
        ] {
            let options = Options::default().allow_mismatches(AllowedMismatches::new(share, count).unwrap());
            let request = Request::new(&options, DType::F32, &Tolerance::exact(), 0.0);
            assert_eq!(Judged::of(&Values { mismatches, ..VALUES }, &request, elements).passed, passed, "{reason}");
        }
        for share in [-0.1, 1.1, f64::NAN] {
            assert!(AllowedMismatches::new(share, 0).unwrap_err().to_string().contains("share"), "{share}");
        }
    }

    #[test]
    fn a_verdict_of_the_study_is_told_apart() {
        let thresholds = |thresholds| Options::default().thresholds(thresholds, Judge::Both);
        for (options, expected) in [
            (Options::default(), true),
            (thresholds(Thresholds { rms: 1.0, absolute: 1.0, relative: 1.0, ..Thresholds::OFF }), true),
            (thresholds(Thresholds { relative_l1: 1.0, ..Thresholds::OFF }), false),
            (thresholds(Thresholds { relative_l2: 1.0, ..Thresholds::OFF }), false),
            (thresholds(Thresholds { relative_old: 1.0, ..Thresholds::OFF }), false),
            (thresholds(Thresholds { epsilon: 1.0, ..Thresholds::OFF }), false),
            (Options::default().allow_mismatches(AllowedMismatches::new(0.0, 1).unwrap()), false),
        ] {
            assert_eq!(Request::new(&options, DType::F16, &Tolerance::exact(), 0.0).is_of_the_study(), expected, "{options:?}");
        }
    }

    #[test]
    fn thresholds_are_zero_or_larger() {
        for (good, reason) in [(0.0, "equality"), (1e-9, "an ordinary one"), (f64::INFINITY, "a metric switched off")] {
            let thresholds = Thresholds { rms: good, absolute: good, relative: good, ..Thresholds::OFF };
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
        assert_eq!([quotient(3.0, 0.0), quotient(f64::INFINITY, f64::INFINITY)], [f64::INFINITY; 2]);
        assert_eq!(quotient(3.0, f64::INFINITY), 0.0);
    }
}
