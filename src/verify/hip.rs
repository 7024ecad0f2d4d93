//! The comparison on a GPU: what the kernels are asked, and what their results say.

use super::MaxAbs;
use super::options::{Explain, Judge, Options, Request};
use super::rule::{Grid, NonFinite};
use super::values::{Explanation, Found, Metric, Outcome, Values};
use crate::device::TensorRef;
use crate::device::hip::HipDevice;
use crate::dtype::PairArithmetic;
use crate::error::Result;
use crate::kernels;
use crate::kernels::verify::{Batch, FirstPass, Question, Workspace};
use bytemuck::Zeroable;
use hipverify_sys::abi::{
    self, MaxResult, VerifyElement, VerifyExplain, VerifyExplanation, VerifyJudge, VerifyParams, VerifyResult, VerifyValues,
};

/// Index of "no element".
const NOWHERE: u64 = u64::MAX;

const _: () = assert!(Options::MAX_FIRST == abi::MAX_LISTED as usize && Metric::MAXIMA == abi::VerifyMetric::MAXIMA as usize);

/// Compares pairs of tensors on one GPU.
///
/// # Panics
/// If the tensors of a pair do not lie on `gpu`, or have not one shape, with at least one element, or if its request lists more than [`Options::MAX_FIRST`]
/// mismatches: callers have turned such pairs away.
pub(super) fn compare<'a>(
    gpu: &'static HipDevice,
    pairs: impl ExactSizeIterator<Item = (&'a TensorRef<'a>, &'a TensorRef<'a>, &'a Request)> + Clone,
) -> Result<Vec<Outcome>> {
    let questions = pairs.clone().map(|(result, reference, request)| question(result, reference, request));
    let mut batch = Batch::values(gpu, questions)?;
    let values: Vec<Values> = pairs.clone().zip(batch.results()).map(|((.., request), found)| values(&found.values, request)).collect();
    let wanted: Vec<bool> = pairs.zip(&values).map(|((result, _, request), values)| request.explains(values, result)).collect();
    batch.explain(&wanted)?;
    let explanations = batch.results().zip(wanted).map(|(found, wanted)| wanted.then(|| explanation(&found.explanation)));
    let outcomes = values.into_iter().zip(explanations).map(|(values, explanation)| Outcome { values, explanation }).collect();
    batch.recycle();
    Ok(outcomes)
}

/// What the last comparison that was enqueued found, once the work is done; `None` if nothing ran since the last call.
pub(super) fn take_outcome(workspace: &mut Workspace, request: &Request, result: &TensorRef<'_>) -> Option<Outcome> {
    workspace.take_result(explain(request), |found: &VerifyResult| {
        let values = values(&found.values, request);
        // Where the kernel judges itself, what it explains is kept whatever the host thinks: a difference between them has to show.
        let wanted = found.explained == 1 && (request.is_of_the_study() || request.explains(&values, result));
        Outcome { values, explanation: wanted.then(|| explanation(&found.explanation)) }
    })
}

/// Which kernel makes the values.
pub(super) fn first_pass(request: &Request) -> FirstPass {
    match (request.histograms, request.all) {
        (true, _) => FirstPass::Histograms,
        (false, true) => FirstPass::All,
        (false, false) => FirstPass::Counts,
    }
}

/// What the kernels are asked.
pub(super) fn question<'a>(result: &'a TensorRef<'a>, reference: &'a TensorRef<'a>, request: &Request) -> Question<'a> {
    let arithmetic = PairArithmetic::of(result.dtype(), reference.dtype());
    let grid = Grid::asked(request, result.dtype(), arithmetic == PairArithmetic::F32);
    let thresholds = request.thresholds;
    let params = VerifyParams {
        rtol: request.rtol,
        atol: request.atol,
        rtol_f32: single(request.rtol),
        atol_f32: single(request.atol),
        thresholds: [thresholds.rms, thresholds.absolute, thresholds.relative],
        min_exponent: grid.min_exponent,
        max_exponent: grid.max_exponent,
        mantissa_bits: grid.mantissa_bits,
        by_binade: u32::from(request.by_binade),
        clamp: u32::from(may_overflow(arithmetic, request)),
        nonfinite_equal: u32::from(request.nonfinite == NonFinite::EqualWhenSame),
        judge: match request.judge {
            Judge::Elements => VerifyJudge::JUDGE_ELEMENTS,
            Judge::Thresholds => VerifyJudge::JUDGE_THRESHOLDS,
            Judge::Both => VerifyJudge::JUDGE_ELEMENTS | VerifyJudge::JUDGE_THRESHOLDS,
        },
        explain: explain(request),
        listed: request.first as u32,
        ..VerifyParams::zeroed()
    };
    Question { result, reference, first_pass: first_pass(request), params }
}

/// When the kernels explain. They know the study's metrics only: for other forms of a verdict they always explain, and
/// [`take_outcome`] leaves out what a pass does not need.
fn explain(request: &Request) -> u32 {
    match request.explain {
        Explain::Never => VerifyExplain::EXPLAIN_NEVER,
        Explain::OnFailure if request.is_of_the_study() => VerifyExplain::EXPLAIN_ON_FAILURE,
        Explain::OnFailure => VerifyExplain::EXPLAIN_ALWAYS,
        Explain::Always => VerifyExplain::EXPLAIN_ALWAYS,
    }
}

/// A tolerance in f32, as [`Rule::new`](super::rule::Rule::new) has it: at most the largest number.
fn single(x: f64) -> f32 {
    (x as f32).min(f32::MAX)
}

/// Whether a bound may exceed the largest finite number, in the arithmetic of a pair.
fn may_overflow(arithmetic: PairArithmetic, request: &Request) -> bool {
    match arithmetic {
        PairArithmetic::F32 => {
            f64::from(single(request.rtol)) * f64::from(f32::MAX) + f64::from(single(request.atol)) > f64::from(f32::MAX)
        }
        PairArithmetic::F64 | PairArithmetic::I64 => request.rtol.mul_add(f64::MAX, request.atol).is_infinite(),
    }
}

/// What the first pass wrote, as the host's loops would have it.
fn values(found: &VerifyValues, request: &Request) -> Values {
    let [mismatches, zero_passes, zeros_a, zeros_r, nans_a, nans_r, plus_a, plus_r, minus_a, minus_r, of_pairs @ ..] = found.counts;
    let [nonfinite_pairs, nonfinite_zeros, nonfinite_mismatches] = of_pairs;
    let some = |x: u64| if request.all { x } else { 0 };
    Values {
        mismatches,
        zero_passes: some(zero_passes),
        zeros: [some(zeros_a), some(zeros_r)],
        nans: [nans_a, nans_r],
        positive_infinities: [plus_a, plus_r],
        negative_infinities: [minus_a, minus_r],
        nonfinite_pairs,
        nonfinite_zeros: some(nonfinite_zeros),
        nonfinite_mismatches,
        max_magnitude: found.magnitudes,
        maxima: found.maxima,
        sums: found.sums,
        histograms: request.histograms.then_some(found.histograms),
    }
}

/// What the second pass wrote.
fn explanation(explanation: &VerifyExplanation) -> Explanation {
    let found = |e: &VerifyElement| (e.index != NOWHERE).then_some(Found { index: e.index, bits: [e.bits_a, e.bits_r] });
    let [passing_rtol, passing_atol] = explanation.passing;
    Explanation {
        worst: explanation.worst.each_ref().map(found),
        ulps: explanation.ulps,
        passing_rtol,
        passing_atol,
        first: explanation.first[..explanation.listed as usize].iter().filter_map(found).collect(),
    }
}

/// The largest magnitude of a tensor on a GPU.
pub(super) fn reduce_max(gpu: &'static HipDevice, tensor: &TensorRef<'_>) -> Result<MaxAbs> {
    if tensor.elements() == 0 {
        return Ok(MaxAbs::default());
    }
    let MaxResult { largest, nans, infinities } = kernels::reduce_max::reduce_max(gpu, tensor)?;
    Ok(MaxAbs { value: largest, nans, infinities })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{AsTensor, Device, DeviceMem};
    use crate::dtype::DType;
    use crate::verify::Tolerance;
    use crate::verify::rule::Rule;

    /// What kernels multiply by is what the host's rule multiplies by.
    #[test]
    fn kernels_get_the_tolerances_of_the_rule() {
        let x = DeviceMem::from_slice(&Device::host(), &[0.0f32]).unwrap();
        for (rtol, atol) in [(0.0, 0.0), (0.1, 1e-50), (3e38, 3.4e38), (1e39, 0.0), (0.0, 1e39), (f64::MAX, f64::MAX)] {
            let request = Request::new(&Options::default(), DType::F32, &Tolerance::new(rtol, atol).unwrap(), 0.0);
            let (rule, params) = (Rule::<f32>::new(&request, DType::F32), question(&x.as_tensor(), &x.as_tensor(), &request).params);
            assert_eq!([params.rtol_f32, params.atol_f32], [rule.rtol, rule.atol], "{rtol}, {atol}");
            assert!(rule.rtol.is_finite() && rule.atol.is_finite(), "{rtol}, {atol}");
        }
    }
}
