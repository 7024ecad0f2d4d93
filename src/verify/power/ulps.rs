//! One element that is wrong: how far off it has to be to fail.

use crate::dtype::{DType, Overflow, Rounding, from_ordinal, ordinal};
use crate::verify::options::{Judged, Request};
use crate::verify::rule::{NonFinite, least_near, metrics, mismatches};
use crate::verify::values::{Maxima, Values};

/// By how many numbers the largest element has to be off to fail: the result's pattern is made and judged by the rule, everything else agrees.
pub(super) fn smallest(values: &Values, request: &Request, [result, reference]: [DType; 2], elements: usize) -> Option<u64> {
    let max = values.max_magnitude[1];
    // Of -128 in i8 there is no other sign.
    let encoded = |x: f64| reference.encode(x, Rounding::NearestEven, Overflow::Saturate);
    let right = [max, -max].map(encoded).into_iter().find(|&bits| reference.decode(bits).abs() == max)?;
    let start = ordinal(result, result.encode(reference.decode(right), Rounding::NearestEven, Overflow::Saturate))?;
    let (mismatch, metrics) = (mismatches([result, reference], request), metrics([result, reference], request));
    let at = |steps: u64| {
        let steps = i128::from(steps);
        from_ordinal(result, if start < 0 { start - steps } else { start + steps })
    };
    // There is no result beyond the last number of the format; that counts as a failure, so that the search ends.
    let fails = |steps: u64| {
        let Some(bits) = at(steps) else { return true };
        let numbers = [result.decode(bits), reference.decode(right)];
        let values = one_off(numbers, mismatch([bits, right]), || metrics([bits, right]), values, request);
        !Judged::of(&values, request, elements).passed
    };
    // If all elements are off, this one is expected to be so far off.
    let wrong = max + max * super::expected_error(values, request, result, elements);
    let near = ordinal(result, result.encode(wrong, Rounding::NearestEven, Overflow::Saturate)).map_or(start, i128::abs);
    let steps = least_near(1, u64::MAX, near.abs_diff(start.abs()) as u64, fails);
    at(steps).map(|_| steps)
}

/// The values of a comparison in which all elements agree but the largest one, which is `a` for `r`; what is not finite in the reference is the same in the result.
fn one_off([a, r]: [f64; 2], mismatch: bool, metrics: impl Fn() -> Maxima, values: &Values, request: &Request) -> Values {
    let (d, max) = ((a - r).abs(), r.abs());
    let [.., sum_r, sum_rr] = values.sums;
    let nonfinite = super::nonfinite(values);
    let others = if request.nonfinite == NonFinite::Fail { nonfinite } else { 0 };
    if !d.is_finite() {
        let [mismatches, nonfinite_mismatches] = [others + 1; 2];
        return Values { mismatches, nonfinite_pairs: nonfinite + 1, nonfinite_mismatches, max_magnitude: [max, max], ..Values::EMPTY };
    }
    Values {
        mismatches: others + u64::from(mismatch),
        nonfinite_pairs: nonfinite,
        nonfinite_mismatches: others,
        max_magnitude: [a.abs().max(max), max],
        maxima: metrics(),
        sums: [d, d * d, sum_r, sum_rr],
        ..Values::EMPTY
    }
}
