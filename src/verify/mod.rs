//! The verdict: compare a result with a reference where they live, and say where, how much and why they differ.
//!
//! [`gpu_verify`] compares two tensors of one shape on their device in a single pass; only statistics leave it. The
//! definition of every number in the [`Report`] is in `docs/numerics.md`, and the rule for one element in one place
//! (`rule.rs`); host loops and device kernels are two implementations of it that give the same bits.
//!
//! ```
//! use hipverify::verify::{Tolerance, gpu_verify};
//! use hipverify::{Device, DeviceMem};
//! let device = Device::host();
//! let reference = DeviceMem::<f32>::from_slice(&device, &[1.0, 2.0, 4.0])?;
//! let result = DeviceMem::<f32>::from_slice(&device, &[1.0, 2.5, 4.0])?;
//! let report = gpu_verify(&result, &reference, &Tolerance::new(1e-3, 1e-3)?)?;
//! assert_eq!((report.mismatches, report.first[0].index), (1, 1));
//! # Ok::<(), hipverify::Error>(())
//! ```
//!
//! Limits: a comparison of no elements is an error (nothing is no proof), both tensors must be on one device, and at most
//! [`Options::MAX_FIRST`] mismatches are listed.

mod hip;
mod histogram;
pub(crate) mod host;
mod mismatch;
mod plan;
pub mod profile;
mod render;
mod report;
mod rule;
mod stats;
mod sums;
mod tolerance;

#[cfg(test)]
mod tests;

pub use histogram::{Histogram, Histograms};
pub use mismatch::Mismatch;
pub use plan::{Pending, Recorded, VerifyPlan};
pub use profile::Profile;
pub use render::{grouped, short};
pub use report::{Classes, Judge, Level, Metrics, Options, Place, Report, Thresholds, Value, Warning, Worst};
pub use rule::NonFinite;
pub use stats::Measure;
pub use tolerance::{Tolerance, absolute_threshold, relative_threshold};

use crate::device::{AsTensor, TensorRef};
use crate::error::{Error, Result};
use host::Request;
use stats::{NOWHERE, Stats};
use sums::Sums;

/// What a backend brings home from a comparison.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Outcome {
    pub stats: Stats,
    /// Bit patterns of result and reference at each worst element.
    pub worst: [[u64; 2]; 6],
    pub sums: Sums,
    pub histograms: Option<histogram::Counters>,
    /// The first mismatches with their bit patterns.
    pub first: Vec<(u64, [u64; 2])>,
}

/// The largest magnitude of a tensor.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct MaxAbs {
    /// max |x| over the finite elements; 0 when there are none.
    pub value: f64,
    /// NaNs: reported, not swallowed.
    pub nans: u64,
    /// Infinities of either sign.
    pub infinities: u64,
}

impl MaxAbs {
    fn visit(&mut self, x: f64) {
        if x.is_nan() {
            self.nans += 1;
        } else if x.is_infinite() {
            self.infinities += 1;
        } else {
            self.value = self.value.max(x.abs());
        }
    }

    fn joined(self, other: MaxAbs) -> MaxAbs {
        MaxAbs { value: self.value.max(other.value), nans: self.nans + other.nans, infinities: self.infinities + other.infinities }
    }
}

/// Compares `result` with `reference` on their device, element by element and as a whole.
///
/// # Errors
/// [`Error::Shape`] when the shapes differ, [`Error::WrongDevice`] when the tensors are on different devices,
/// [`Error::InvalidArgument`] when they have no elements, and whatever the device reports.
pub fn gpu_verify(result: &impl AsTensor, reference: &impl AsTensor, tolerance: &Tolerance) -> Result<Report> {
    gpu_verify_with(result, reference, tolerance, &Options::default())
}

/// [`gpu_verify`] with options.
///
/// # Errors
/// As there; also [`Error::InvalidArgument`] when more mismatches are to be listed than [`Options::MAX_FIRST`].
pub fn gpu_verify_with(result: &impl AsTensor, reference: &impl AsTensor, tolerance: &Tolerance, options: &Options) -> Result<Report> {
    gpu_verify_many(&[(result.as_tensor(), reference.as_tensor(), *tolerance)], options).map(|mut reports| reports.remove(0))
}

/// Compares many pairs (result, reference, tolerance), all on one device: everything is enqueued, then waited for once. The reports
/// come in the order of the pairs.
///
/// # Errors
/// As [`gpu_verify_with`], for the first pair that has one; then nothing was compared. No pairs give no reports.
pub fn gpu_verify_many(pairs: &[(TensorRef<'_>, TensorRef<'_>, Tolerance)], options: &Options) -> Result<Vec<Report>> {
    let Some((first, ..)) = pairs.first() else { return Ok(Vec::new()) };
    let checked = |(result, reference, tolerance): &(TensorRef<'_>, TensorRef<'_>, Tolerance)| {
        first.device().expect_same(result.device(), "a result")?;
        request(result, reference, tolerance, options, || Ok(gpu_reduce_max(reference)?.value))
    };
    let requests: Vec<Request> = pairs.iter().map(checked).collect::<Result<_>>()?;
    let outcomes = match first.device().backend() {
        crate::device::Backend::Host => {
            pairs.iter().zip(&requests).map(|((result, reference, _), request)| host::compare(result, reference, request)).collect()
        }
        crate::device::Backend::Hip(gpu) => hip::compare(gpu, pairs.iter().map(|(a, r, _)| (a, r)).zip(&requests))?,
    };
    let reports = pairs.iter().zip(&requests).zip(outcomes);
    Ok(reports.map(|(((result, reference, _), request), outcome)| report(result, reference, request, options, outcome)).collect())
}

/// Checks a pair and turns its options into what backends are asked. `max` measures the reference, for a tolerance that needs it.
fn request(
    result: &TensorRef<'_>,
    reference: &TensorRef<'_>,
    tolerance: &Tolerance,
    options: &Options,
    max: impl FnOnce() -> Result<f64>,
) -> Result<Request> {
    result.device().expect_same(reference.device(), "the reference")?;
    if result.shape() != reference.shape() {
        return Err(Error::Shape { what: "the result".to_owned(), expected: reference.shape().to_vec(), found: result.shape().to_vec() });
    }
    if result.elements() == 0 {
        let limit = "a comparison of nothing is not a pass; give tensors with at least one element".to_owned();
        return Err(Error::InvalidArgument { what: "elements", value: "0".to_owned(), limit });
    }
    check(options)?;
    let max = if tolerance.needs_max() { max()? } else { 0.0 };
    Ok(request_with(options, tolerance.rtol(), tolerance.atol(max)))
}

fn check(options: &Options) -> Result<()> {
    if options.first > Options::MAX_FIRST {
        let limit = format!("at most {} mismatches are listed", Options::MAX_FIRST);
        return Err(Error::InvalidArgument { what: "first", value: options.first.to_string(), limit });
    }
    Ok(())
}

fn request_with(options: &Options, rtol: f64, atol: f64) -> Request {
    Request {
        rtol,
        atol,
        nonfinite: options.nonfinite,
        all: options.level == Level::All || options.histograms,
        histograms: options.histograms,
        first: options.first,
        vectors: None,
    }
}

/// The largest finite magnitude of a tensor, on its device, with counts of what is not finite.
///
/// # Errors
/// Whatever the device reports. No elements are no error: the maximum is 0.
pub fn gpu_reduce_max(tensor: &impl AsTensor) -> Result<MaxAbs> {
    let tensor = tensor.as_tensor();
    match tensor.device().backend() {
        crate::device::Backend::Host => Ok(host::reduce_max(&tensor)),
        crate::device::Backend::Hip(gpu) => hip::reduce_max(gpu, &tensor),
    }
}

/// Makes the report of an outcome: the same for every backend.
fn report(result: &TensorRef<'_>, reference: &TensorRef<'_>, request: &Request, options: &Options, outcome: Outcome) -> Report {
    let Outcome { stats, worst: worst_bits, sums: [sum_d, sum_dd, sum_r, sum_rr], histograms, first } = outcome;
    let elements = result.elements();
    let value = |tensor: &TensorRef<'_>, bits: u64| match tensor.dtype().int_format() {
        Some(int) => Value::Int(int.decode(bits)),
        None => Value::Float(tensor.dtype().decode(bits)),
    };
    let place = |index: u64, [a, r]: [u64; 2]| {
        let index = index as usize;
        Place { index, coordinates: result.layout().coordinates(index), result: value(result, a), reference: value(reference, r) }
    };
    let worst = |m: Measure| {
        let stats::Extreme { value, index } = stats.worst[m as usize];
        (index != NOWHERE).then(|| Worst { value, place: place(index, worst_bits[m as usize]) })
    };
    let classes = |side: usize| Classes {
        zeros: stats.zeros[side],
        nans: stats.nans[side],
        positive_infinities: stats.positive_infinities[side],
        negative_infinities: stats.negative_infinities[side],
    };
    let [result_max, reference_max] = stats.max_magnitude;
    let worst_absolute = worst(Measure::Absolute);
    let metrics = if request.all {
        let worst_relative = worst(Measure::Relative);
        let absolute = worst_absolute.as_ref().map_or(0.0, |w| w.value);
        let relative = worst_relative.as_ref().map_or(0.0, |w| w.value);
        let n = elements as f64;
        let rms = quotient(sum_dd.sqrt(), n.sqrt() * result_max.max(reference_max));
        let thresholds = options.thresholds.unwrap_or_else(|| Thresholds::rocmlir(result.dtype()));
        Some(Metrics {
            worst_relative,
            worst_relative_old: worst(Measure::RelativeOld),
            worst_epsilon: worst(Measure::Epsilon),
            worst_ulp: worst(Measure::Ulp),
            worst_ratio: worst(Measure::Ratio),
            mean_absolute: sum_d / n,
            rms,
            relative_l1: quotient(sum_d, sum_r),
            relative_l2: quotient(sum_dd, sum_rr).sqrt(),
            relative_linf: quotient(absolute, reference_max),
            passing_rtol: stats.passing_rtol,
            passing_atol: stats.passing_atol,
            zero_passes: stats.zero_passes,
            thresholds,
            vector: [rms <= thresholds.rms, absolute <= thresholds.absolute, relative <= thresholds.relative],
        })
    } else {
        None
    };
    let by_elements = stats.mismatches == 0;
    let sound = stats.nonfinite_pairs == 0 || options.nonfinite == NonFinite::EqualWhenSame && by_elements;
    let by_thresholds = sound && metrics.as_ref().is_some_and(|m| m.vector == [true; 3]);
    let passed = match options.judge {
        Judge::Elements => by_elements,
        Judge::Thresholds => by_thresholds,
        Judge::Both => by_elements && by_thresholds,
    };
    let mut histograms = histograms;
    if let Some(counters) = &mut histograms {
        let finite = elements as u64 - stats.nonfinite_pairs;
        histogram::count_equal(counters, finite);
    }
    Report {
        shape: result.shape().to_vec(),
        result_dtype: result.dtype(),
        reference_dtype: reference.dtype(),
        rtol: request.rtol,
        atol: request.atol,
        judge: options.judge,
        passed,
        elements,
        mismatches: stats.mismatches,
        nonfinite_pairs: stats.nonfinite_pairs,
        result: classes(0),
        reference: classes(1),
        result_max,
        reference_max,
        first: first.into_iter().map(|(index, bits)| place(index, bits)).collect(),
        worst_absolute,
        metrics,
        histograms: histograms.as_ref().map(Histograms::from_counters),
        device: result.device().name(),
        why: result.device().why().to_owned(),
    }
}

/// x / y, where nothing over nothing is nothing.
fn quotient(x: f64, y: f64) -> f64 {
    if x == 0.0 { 0.0 } else { x / y }
}
