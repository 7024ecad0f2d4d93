//! The verdict: compare a result with a reference where they live, and say where, how much and why they differ.
//!
//! [`gpu_verify`] compares two tensors of one shape on their device; only statistics leave it. One pass makes the verdict and all values:
//! counts, sums, maxima of the metrics. A second pass explains a failure (or every verdict, see [`Options::explain`]): where the maxima are,
//! the first mismatches, what tolerance would have passed. The definition of every number in the [`Report`] is in `docs/numerics.md`, and
//! the rule for one element in one place (`rule.rs`); host loops and device kernels are two implementations of it that give the same bits.
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

pub mod bound;
mod budget;
mod cause;
mod hip;
mod histogram;
pub(crate) mod host;
mod mismatch;
mod options;
mod pairs;
mod plan;
mod power;
pub mod profile;
mod progress;
pub(crate) mod render;
mod report;
mod rule;
mod similarity;
mod sums;
mod tolerance;
mod values;
mod workspaces;

#[cfg(test)]
mod tests;

pub use budget::Budget;
pub(crate) use cause::diagnose_by_bound;
pub use cause::{Cause, Diagnosis, Region};
pub use histogram::{Histogram, Histograms};
pub use mismatch::Mismatch;
pub(crate) use mismatch::report_as_error;
pub use options::{AllowedMismatches, Explain, Judge, Level, Options, Strict, Thresholds};
pub use pairs::{Pair, each_pair, fold_pairs};
pub use plan::{Pending, Recorded, VerifyPlan};
pub use power::{Mutation, Power};
pub use profile::{Computation, Limits, Profile};
pub use progress::Progress;
pub(crate) use render::LABEL;
#[cfg(feature = "cli")]
pub(crate) use render::percent;
pub use render::{apart, grouped, short};
pub use report::{Classes, Location, Metrics, Report, Value, Verdict, Warning, Worst};
pub use rule::NonFinite;
pub use similarity::Similarity;
pub use tolerance::{Scale, Tolerance, absolute_threshold, relative_threshold};
pub use values::Metric;

use crate::device::{AsTensor, Backend, Device, TensorRef};
use crate::error::{Error, Result};
use crate::simd::InstructionSet;
use options::{Judged, Request, quotient};
use power::{Displaced, Effect};
use progress::Meter;
use values::{Outcome, Values};

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
    fn observe(&mut self, x: f64) {
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

/// [`gpu_verify_with`] for a kernel of which an `earlier` output is at hand, in the result's format: of other inputs, or what lay in its memory. A pass is
/// untrusted where that output would pass as well, and a failure may have it for its [cause](Cause::Stale).
///
/// # Errors
/// As there; also [`Error::WrongDType`] when the earlier output has another format.
pub fn gpu_verify_with_earlier(
    result: &impl AsTensor,
    reference: &impl AsTensor,
    earlier: &impl AsTensor,
    tolerance: &Tolerance,
    options: &Options,
) -> Result<Report> {
    let (result, earlier) = (result.as_tensor(), earlier.as_tensor());
    expect_earlier(&result, &earlier)?;
    verify_pairs(&[(result, reference.as_tensor(), *tolerance)], Some(&earlier), options).map(|mut reports| reports.remove(0))
}

/// Checks that an earlier output has device, shape and format of the result.
pub(crate) fn expect_earlier(result: &TensorRef<'_>, earlier: &TensorRef<'_>) -> Result<()> {
    let what = "the earlier output";
    result.device().expect_same(earlier.device(), what)?;
    expect_shape(result, earlier, what)?;
    if earlier.dtype() != result.dtype() {
        let [expected, found] = [result, earlier].map(|tensor| tensor.dtype().to_string());
        return Err(Error::WrongDType { what: what.to_owned(), expected, found });
    }
    Ok(())
}

/// Checks that a tensor has the shape of another.
fn expect_shape(expected: &TensorRef<'_>, found: &TensorRef<'_>, what: &str) -> Result<()> {
    let [expected, found] = [expected, found].map(TensorRef::shape);
    if expected == found {
        return Ok(());
    }
    Err(Error::Shape { what: what.to_owned(), expected: expected.to_vec(), found: found.to_vec() })
}

/// Checks that there is something to compare.
fn expect_elements(tensor: &TensorRef<'_>) -> Result<()> {
    if tensor.elements() > 0 {
        return Ok(());
    }
    let limit = "a comparison of nothing is not a pass; give tensors with at least one element".to_owned();
    Err(Error::InvalidArgument { what: "elements", value: "0".to_owned(), limit })
}

/// Compares many pairs (result, reference, tolerance), all on one device: everything is enqueued, then waited for once. The reports
/// come in the order of the pairs. On a GPU, neighbours run on two streams, so that the end of one comparison overlaps the beginning of the next.
///
/// # Errors
/// As [`gpu_verify_with`], for the first pair that has one; then nothing was compared. No pairs give no reports.
pub fn gpu_verify_many(pairs: &[(TensorRef<'_>, TensorRef<'_>, Tolerance)], options: &Options) -> Result<Vec<Report>> {
    verify_pairs(pairs, None, options)
}

/// Compares pairs; `earlier` is a tensor of the shape, format and device of each result.
fn verify_pairs(
    pairs: &[(TensorRef<'_>, TensorRef<'_>, Tolerance)],
    earlier: Option<&TensorRef<'_>>,
    options: &Options,
) -> Result<Vec<Report>> {
    let Some((first, ..)) = pairs.first() else { return Ok(Vec::new()) };
    let progress = options.progress.as_ref();
    let checked = |(result, reference, tolerance): &(TensorRef<'_>, TensorRef<'_>, Tolerance)| {
        first.device().expect_same(result.device(), "a result")?;
        request(result, reference, tolerance, options, |scale| magnitude(reference, scale, progress))
    };
    let meter = |result: &TensorRef<'_>, reference: &TensorRef<'_>| Meter::new(progress, &[result, reference]);
    pairs.iter().for_each(|pair| plan(pair, options));
    let requests: Vec<Request> = pairs.iter().map(checked).collect::<Result<_>>()?;
    let both = pairs.iter().zip(&requests).map(|((result, reference, _), request)| (result, reference, request));
    let outcomes = outcomes(first.device(), both.clone(), meter)?;
    let exchanged: Vec<Option<Outcome>> = if options.cosine {
        let requests: Vec<Request> = requests.iter().map(Request::sums).collect();
        let exchanged = both.clone().zip(&requests).map(|((result, reference, _), request)| (reference, result, request));
        self::outcomes(first.device(), exchanged, meter)?.into_iter().map(Some).collect()
    } else {
        vec![None; pairs.len()]
    };
    let reports = both.zip(outcomes).zip(exchanged).map(|(((result, reference, request), outcome), exchanged)| {
        let values = outcome.values;
        let error = sums::squares_error(result.dtype(), reference.dtype(), result.elements());
        let similarity = exchanged.map(|exchanged| Similarity::of(values.sums, exchanged.values.sums, error));
        let report = Report::new(result, reference, request, outcome, similarity);
        let cause = cause::diagnose([result, reference], earlier, request, &report)?;
        let report = with_earlier(Report { cause, ..report }, earlier, reference, request)?;
        // Where zeros would pass, displacements say nothing new, and would cost most.
        if request.power && report.verdict == Verdict::Pass { with_displacements(report, reference, request, &values) } else { Ok(report) }
    });
    reports.collect()
}

/// Compares pairs of tensors, and counts by the meter of each pair. The tensors of each pair lie on `device` and have one shape, with at least one element;
/// its request lists at most [`Options::MAX_FIRST`] mismatches.
fn outcomes<'a, 'm>(
    device: &Device,
    pairs: impl ExactSizeIterator<Item = (&'a TensorRef<'a>, &'a TensorRef<'a>, &'a Request)> + Clone,
    meter: impl Fn(&TensorRef<'_>, &TensorRef<'_>) -> Meter<'m>,
) -> Result<Vec<Outcome>> {
    match device.backend() {
        Backend::Host => {
            let compare = |(a, r, request): (_, _, _)| host::compare_by(InstructionSet::best(), a, r, request, meter(a, r));
            Ok(pairs.map(compare).collect())
        }
        Backend::Hip(gpu) => {
            let outcomes = hip::compare(gpu, pairs.clone())?;
            for ((result, reference, request), outcome) in pairs.zip(&outcomes) {
                let (meter, explained) = (meter(result, reference), outcome.explanation.is_some());
                if explained && request.explain == Explain::OnFailure {
                    meter.plan(result.elements());
                }
                meter.add(result.elements() * (1 + usize::from(explained)));
            }
            Ok(outcomes)
        }
    }
}

/// Plans the passes that a comparison makes whatever comes out.
fn plan((result, reference, tolerance): &(TensorRef<'_>, TensorRef<'_>, Tolerance), options: &Options) {
    let progress = options.progress.as_ref();
    let passes = 1 + usize::from(options.explain == Explain::Always) + usize::from(options.cosine);
    Meter::new(progress, &[result, reference]).plan(passes * reference.elements());
    Meter::new(progress, &[reference]).plan(tolerance.scale().map_or(0, |_| reference.elements()));
}

/// Adds to the report of a pass whether the earlier output would pass as well.
fn with_earlier(report: Report, earlier: Option<&TensorRef<'_>>, reference: &TensorRef<'_>, request: &Request) -> Result<Report> {
    let Some(earlier) = earlier.filter(|_| report.passed()) else { return Ok(report) };
    let request = Displaced::request(request, earlier.dtype());
    let outcomes = outcomes(reference.device(), [(earlier, reference, &request)].into_iter(), |_, _| Meter::OFF)?;
    let passes = outcomes.first().map(|outcome| Judged::of(&outcome.values, &request, earlier.elements()).passed);
    Ok(report.with_displacements(passes.map(|passes| (Mutation::Earlier, Effect::of_pass(passes)))))
}

/// Adds to the report of a pass which displacements of the reference would pass as well. `whole` are the values of the comparison that passed.
fn with_displacements(report: Report, reference: &TensorRef<'_>, request: &Request, whole: &Values) -> Result<Report> {
    let request = Displaced::request(request, report.result_dtype);
    let values = |displaced: &[Displaced<'_>]| -> Result<Vec<Values>> {
        let pairs = displaced.iter().map(|Displaced { result, reference, .. }| (result, reference, &request));
        let outcomes = outcomes(reference.device(), pairs, |_, _| Meter::OFF)?;
        Ok(outcomes.into_iter().map(|outcome| outcome.values).collect())
    };
    let displacements = power::displacements(reference, report.result_dtype)?;
    // A part of each, all at once: a device is waited for once.
    let samples: Vec<Displaced<'_>> = displacements.iter().map(Displaced::sample).collect::<Result<_>>()?;
    let parts = values(&samples)?;
    // First those of which something is known to change: one that passes is enough to trust the verdict no longer, and the others would cost as much again.
    let mut order: Vec<usize> = (0..displacements.len()).collect();
    order.sort_by_key(|&i| !power::changes(&parts[i]));
    let (mut tried, mut one_passed) = (vec![None; displacements.len()], false);
    for i in order {
        let (displaced, elements) = (&displacements[i], displacements[i].result.elements());
        tried[i] = if samples[i].result.elements() == elements {
            Some(power::effect(&parts[i], &request, elements))
        } else if power::fails_in_part(&parts[i], whole, &request, elements) {
            Some(Effect::Fails)
        } else if one_passed {
            None
        } else {
            values(std::slice::from_ref(displaced))?.first().map(|values| power::effect(values, &request, elements))
        };
        one_passed |= tried[i] == Some(Effect::Passes);
    }
    let tried = displacements.iter().zip(tried).filter_map(|(displaced, effect)| Some((displaced.mutation, effect?)));
    Ok(report.with_displacements(tried))
}

/// Checks a pair and turns its options into what backends are asked. `magnitude` measures the reference, for a tolerance that needs it.
fn request(
    result: &TensorRef<'_>,
    reference: &TensorRef<'_>,
    tolerance: &Tolerance,
    options: &Options,
    magnitude: impl FnOnce(Scale) -> Result<f64>,
) -> Result<Request> {
    result.device().expect_same(reference.device(), "the reference")?;
    expect_shape(reference, result, "the result")?;
    expect_elements(result)?;
    options.check()?;
    let magnitude = tolerance.scale().map_or(Ok(0.0), magnitude)?;
    Ok(Request::new(options, result.dtype(), tolerance, magnitude))
}

/// A magnitude of a tensor's finite elements; 0 when there are none. An error where f64 does not hold its sum.
fn magnitude(tensor: &TensorRef<'_>, scale: Scale, progress: Option<&Progress>) -> Result<f64> {
    let meter = Meter::new(progress, &[tensor]);
    if matches!(scale, Scale::Largest | Scale::LargestBinade) {
        let largest = gpu_reduce_max(tensor)?.value;
        meter.add(tensor.elements());
        return Ok(largest);
    }
    // The sums of a comparison with itself: their order is fixed, so every device gives the same bits.
    let request = Request::new(&Options::default().explain(Explain::Never), tensor.dtype(), &Tolerance::exact(), 0.0);
    let values = outcomes(tensor.device(), [(tensor, tensor, &request)].into_iter(), |_, _| meter)?.remove(0).values;
    let [.., sum, sum_of_squares] = values.sums;
    let finite = tensor.elements() as f64 - values.nonfinite_pairs as f64;
    let magnitude = if scale == Scale::Mean { quotient(sum, finite) } else { quotient(sum_of_squares, finite).sqrt() };
    if magnitude < f64::INFINITY {
        return Ok(magnitude);
    }
    // Saturated it would pass whatever is finite.
    let limit = "its sum is beyond the largest f64; give atol as a number".to_owned();
    Err(Error::InvalidArgument { what: "scale of the reference", value: magnitude.to_string(), limit })
}

/// The largest finite magnitude of a tensor, on its device, with counts of what is not finite.
///
/// # Errors
/// Whatever the device reports. No elements are no error: the maximum is 0.
pub fn gpu_reduce_max(tensor: &impl AsTensor) -> Result<MaxAbs> {
    let tensor = tensor.as_tensor();
    match tensor.device().backend() {
        Backend::Host => Ok(host::reduce_max(&tensor)),
        Backend::Hip(gpu) => hip::reduce_max(gpu, &tensor),
    }
}
