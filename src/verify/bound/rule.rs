//! The rule for one element; `hip/bound.hip` has the same.

use super::{Bound, expect_float};
use crate::dtype::{DType, FloatFormat, Overflow};
use crate::error::{Error, Result};
use bytemuck::Zeroable;
use hipverify_sys::abi::{BOUND_AS_INFINITY, BOUND_AS_LARGEST, BOUND_AS_NAN, BOUND_NAN_FOR_INFINITY, BoundRule};

/// The rule of a bound for results of this format, of a kernel that does this where they overflow.
///
/// # Errors
/// When that is one of 64-bit integers, or a coefficient is negative or not a number; for integers that are told to saturate.
pub(super) fn of(bound: &Bound, dtype: DType, overflow: Overflow) -> Result<BoundRule> {
    let Bound { gamma, relative, floor, .. } = *bound;
    let wrong = |x: f64| x.is_nan() || x < 0.0;
    if let Some((what, x)) = [("gamma", gamma), ("relative", relative), ("floor", floor)].into_iter().find(|&(_, x)| wrong(x)) {
        return Err(Error::InvalidArgument { what, value: x.to_string(), limit: "the coefficients of a bound are at least 0".to_owned() });
    }
    let (largest, overflow, beyond, nan) = match dtype.int_format() {
        Some(_) if overflow == Overflow::Saturate => {
            return Err(Error::Unsupported {
                what: format!("a result of {dtype} that saturates"),
                by: "comparisons by a bound".to_owned(),
            });
        }
        // Integers that f64 holds do not round, and have nothing that stands for what is beyond them.
        Some(format) if format.bits <= 32 => (f64::INFINITY, f64::INFINITY, BOUND_AS_INFINITY, true),
        _ => {
            let format = expect_float(dtype, "a result that is compared by a bound")?;
            // Half a step above the largest number: from there on rounding to nearest overflows. f64 has none that f64 could tell.
            let half_step = crate::dtype::exp2(format.max_exponent()) * format.unit_roundoff();
            (format.max_finite(), format.max_finite() + half_step, beyond(&format, overflow), format.has_nan())
        }
    };
    Ok(BoundRule { largest, overflow, beyond, nan: u32::from(nan), ..coefficients(bound) })
}

/// What a bound says of elements, whatever their format.
fn coefficients(bound: &Bound) -> BoundRule {
    let Bound { gamma, relative, floor, rounding } = *bound;
    let (half_step, [least, most]) = match rounding.and_then(DType::float_format) {
        Some(format) => (format.unit_roundoff(), [format.min_exponent(), format.max_exponent()].map(crate::dtype::exp2)),
        None => (0.0, [0.0; 2]),
    };
    let none = BoundRule::zeroed();
    // No bound at all, whatever S and the reference are.
    match [gamma, relative, floor].contains(&f64::INFINITY) {
        true => BoundRule { floor: f64::INFINITY, ..none },
        false => BoundRule { gamma, relative, floor, half_step, least, most, ..none },
    }
}

/// What may stand for a number beyond a format.
fn beyond(format: &FloatFormat, overflow: Overflow) -> u32 {
    match (format.has_infinity(), overflow) {
        (true, Overflow::Ieee) => BOUND_AS_INFINITY,
        (false, Overflow::Ieee) => BOUND_AS_LARGEST | BOUND_AS_NAN | BOUND_NAN_FOR_INFINITY,
        // Conversions that saturate differ in what they make of an infinity.
        (true, Overflow::Saturate) => BOUND_AS_LARGEST,
        (false, Overflow::Saturate) => BOUND_AS_LARGEST | BOUND_NAN_FOR_INFINITY,
    }
}

/// The rule for single values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ElementRule(BoundRule);

impl ElementRule {
    /// The rule of a bound for results of this format, of a kernel that does this where they overflow.
    pub(crate) fn new(bound: &Bound, dtype: DType, overflow: Overflow) -> Result<ElementRule> {
        Ok(ElementRule(of(bound, dtype, overflow)?))
    }

    /// Error over bound of a result `a` with the reference `r` and the magnitude `s`; up to 1 passes.
    pub(crate) fn ratio(&self, a: f64, r: f64, s: f64) -> f64 {
        ratio(&self.0, a, r, s)
    }

    /// How far a result may lie from the reference `r` with the magnitude `s`.
    pub(crate) fn bound(&self, r: f64, s: f64) -> f64 {
        limits(&self.0, r, s).after
    }

    /// Whether a result may stand for any number beyond its format: it is not finite, or the largest number where that does.
    pub(crate) fn overflowed(&self, a: f64) -> bool {
        !a.is_finite() || self.saturates() && a.abs() == self.0.largest
    }

    /// Whether a right result may overflow whose reference is the finite number `r`: then one that does tells nothing of its size.
    pub(crate) fn may_overflow(&self, r: f64, s: f64) -> bool {
        r.is_finite() && r.abs() + limits(&self.0, r, s).before >= self.0.overflow
    }

    /// Whether the largest number may stand for what is beyond it.
    pub(crate) fn saturates(&self) -> bool {
        self.0.beyond & BOUND_AS_LARGEST != 0
    }
}

/// The bound of an element, whatever its format.
pub(super) fn limit_of(bound: &Bound, r: f64, s: f64) -> f64 {
    limits(&coefficients(bound), r, s).after
}

/// How far an element may lie from the reference.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Before it is rounded to its format: E.
    pub(super) before: f64,
    /// After that: the bound.
    pub(super) after: f64,
}

/// E = fma(gamma, S, fma(relative, |r|, floor)), and E + half_step 2^e, 2^e the binade of |r| + E, held within those of the format. Both are 0, by which nothing but equality passes,
/// where E is negative or not a number.
pub(super) fn limits(rule: &BoundRule, r: f64, s: f64) -> Limits {
    let BoundRule { gamma, relative, floor, half_step, least, most, .. } = *rule;
    if floor == f64::INFINITY {
        return Limits { before: floor, after: floor };
    }
    let before = gamma.mul_add(s, relative.mul_add(r.abs(), floor));
    if before.is_nan() || before < 0.0 {
        return Limits { before: 0.0, after: 0.0 };
    }
    // Rounding is monotone, so that the exponent is none too small.
    let binade = f64::from_bits((r.abs() + before).to_bits() & f64::INFINITY.to_bits());
    let rounding = if half_step > 0.0 { half_step * binade.clamp(least, most) } else { 0.0 };
    // -0 neither: an error divided by it would be negative.
    Limits { before, after: before + rounding + 0.0 }
}

/// Error over bound of an element; up to 1 passes. What is not finite is 0 where it is right, and else infinite.
///
/// A quotient of two f64 is at most 1 exactly when the first is at most the second.
pub(super) fn ratio(rule: &BoundRule, a: f64, r: f64, s: f64) -> f64 {
    let Limits { before, after: limit } = limits(rule, r, s);
    let wrong = |right: bool| if right { 0.0 } else { f64::INFINITY };
    let may_be = |what: u32| rule.beyond & what != 0;
    let saturated = may_be(BOUND_AS_LARGEST) && a.abs() == rule.largest && (a < 0.0) == (r < 0.0);
    if r.is_nan() {
        return wrong(a.is_nan() || rule.nan == 0);
    }
    if r.is_infinite() {
        return wrong(a == r || saturated || a.is_nan() && may_be(BOUND_NAN_FOR_INFINITY));
    }
    let d = (a - r).abs();
    if d <= limit {
        return if limit < f64::INFINITY && d > 0.0 { d / limit } else { 0.0 };
    }
    // What is rounded may be `before` from the reference: the rounding itself is in the number that overflows.
    let beyond = (if a < 0.0 { -r } else { r }) + before >= rule.overflow || a.is_nan() && r.abs() + before >= rule.overflow;
    if beyond && (saturated || a.is_infinite() && may_be(BOUND_AS_INFINITY) || a.is_nan() && may_be(BOUND_AS_NAN)) {
        return 0.0;
    }
    let quotient = d / limit;
    // Not a number where the result is none.
    if quotient < f64::INFINITY { quotient } else { f64::INFINITY }
}
