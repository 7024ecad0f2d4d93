//! The rule for one element, written to be read: the definition that host loops and kernels are tested against.
//!
//! Finite pairs are measured in the arithmetic of the pair ([`Arithmetic::of`]): f32 where both formats are exact in f32, f64 where
//! either is f64 or a wide integer meets a float, exact integers where both are integers and one is wide. Integers up to
//! 16 bits and their differences are exact in f32, so the first rule is exact for them as well.

use super::stats::{Extreme, Stats};
use super::values::Metric;
use crate::dtype::{DType, FloatFormat};

/// In which arithmetic a pair of formats is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    F32,
    F64,
    I64,
}

impl Arithmetic {
    pub(crate) fn of(result: DType, reference: DType) -> Arithmetic {
        let wide_int = |d: DType| matches!(d, DType::I32 | DType::I64);
        if !wide_int(result) && !wide_int(reference) {
            return if result == DType::F64 || reference == DType::F64 { Arithmetic::F64 } else { Arithmetic::F32 };
        }
        if result.is_int() && reference.is_int() { Arithmetic::I64 } else { Arithmetic::F64 }
    }
}

/// What happens to a pair in which a side is not finite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum NonFinite {
    /// Such a pair is a mismatch.
    #[default]
    Fail,
    /// Such a pair passes when both sides are NaN, or infinities of one sign.
    EqualWhenSame,
}

/// The binades of the result's format that spacings are taken from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grid {
    /// Exponent of the least normal number.
    pub min_exponent: i32,
    /// Exponent of the largest finite number.
    pub max_exponent: i32,
    /// Fraction bits.
    pub mantissa_bits: i32,
}

impl Grid {
    pub(crate) fn of(dtype: DType) -> Grid {
        match dtype.float_format() {
            Some(f) => Grid::of_float(f),
            // Spacing 1 everywhere.
            None => Grid { min_exponent: 0, max_exponent: 0, mantissa_bits: 0 },
        }
    }

    fn of_float(f: &FloatFormat) -> Grid {
        Grid { min_exponent: f.min_exponent(), max_exponent: f.max_exponent(), mantissa_bits: f.mantissa_bits as i32 }
    }
}

/// What a comparison is made with. `T` is the arithmetic.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule<T> {
    pub rtol: T,
    pub atol: T,
    pub nonfinite: NonFinite,
    pub grid: Grid,
    /// Whether more than counts, largest magnitudes and the worst absolute difference are wanted.
    pub all: bool,
}

/// A real arithmetic: what the rule needs of f32 and f64.
pub(crate) trait Real: Copy + PartialOrd + std::ops::Sub<Output = Self> + std::ops::Div<Output = Self> {
    const ZERO: Self;
    const MAX: Self;
    /// The denominators that the study's relative difference ignores, inclusive.
    const SMALL: Self;
    /// Whether squares of this arithmetic's numbers may leave its range for good, and f64 would hold them.
    const NARROW: bool;
    fn magnitude(self) -> Self;
    fn plus(self, other: Self) -> Self;
    fn fused(self, by: Self, plus: Self) -> Self;
    fn finite(self) -> bool;
    fn wide(self) -> f64;
    /// The number with a given place among the non-negative ones: 0 is place 0, infinity is [`Real::INFINITE`].
    fn at(place: u64) -> Self;
    /// The place of infinity.
    const INFINITE: u64;
    /// d / 2^(e - mantissa_bits), e the binade of |r| clamped to the grid.
    fn epsilons(self, r: Self, grid: &Grid) -> f64;
}

macro_rules! real {
    ($t:ty, $bias:expr, $fraction:expr, $r:ident, $d:ident, $e:ident, $grid:ident, $epsilons:expr) => {
        impl Real for $t {
            const ZERO: $t = 0.0;
            const MAX: $t = <$t>::MAX;
            const SMALL: $t = 1e-3;
            const NARROW: bool = size_of::<$t>() == 4;
            fn magnitude(self) -> $t {
                self.abs()
            }
            fn plus(self, other: $t) -> $t {
                self + other
            }
            fn fused(self, by: $t, plus: $t) -> $t {
                self.mul_add(by, plus)
            }
            fn finite(self) -> bool {
                self.is_finite()
            }
            fn wide(self) -> f64 {
                f64::from(self)
            }
            fn at(place: u64) -> $t {
                // Places are bit patterns: non-negative numbers are ordered as their patterns.
                <$t>::from_bits(place as _)
            }
            const INFINITE: u64 = <$t>::INFINITY.to_bits() as u64;
            fn epsilons(self, $r: $t, $grid: &Grid) -> f64 {
                // A zero or subnormal has field 0, hence an exponent below every format's least, which the clamp raises.
                let $e = (($r.to_bits() << 1 >> ($fraction + 1)) as i32 - $bias).clamp($grid.min_exponent, $grid.max_exponent);
                let $d = self;
                $epsilons
            }
        }
    };
}
// f64 holds the exact quotient of any f32.
real!(f32, 127, 23, r, d, e, grid, f64::from(d) * pow2(grid.mantissa_bits - e));
// Two steps, since 2^(mantissa_bits - e) may exceed f64.
real!(f64, 1023, 52, r, d, e, grid, d * pow2(-e) * pow2(grid.mantissa_bits));

/// 2^e for -1074 <= e <= 1023.
pub(crate) fn pow2(e: i32) -> f64 {
    crate::dtype::exp2(e)
}

impl Stats {
    /// Takes the worst of `metric` with the value of element `index`. Elements may come in any order.
    pub(crate) fn worst_at(&mut self, metric: Metric, value: f64, index: u64) {
        if value > 0.0 {
            self.worst[metric as usize].join(Extreme { value, index });
        }
    }

    /// Visits element `index`, whose result is `a`, whose reference is `r`, and whose ordinals in the result's format are
    /// `ulps` apart. Returns |a - r| and |r| for the sums, or zeros when a side is not finite.
    pub(crate) fn observe<T: Real>(&mut self, rule: &Rule<T>, index: u64, a: T, r: T, ulps: impl FnOnce() -> u64) -> (T, T) {
        let zero = |x: T| x == T::ZERO;
        self.zeros[0] += u64::from(rule.all && zero(a));
        self.zeros[1] += u64::from(rule.all && zero(r));
        for (side, x) in [a, r].into_iter().enumerate() {
            if x.finite() {
                self.max_magnitude[side] = self.max_magnitude[side].max(x.magnitude().wide());
            } else {
                self.count_class(side, x.wide());
            }
        }
        if !(a.finite() && r.finite()) {
            self.nonfinite_pairs += 1;
            // An infinity equals itself; a NaN, nothing.
            let same = a == r || (a.wide().is_nan() && r.wide().is_nan());
            self.mismatches += u64::from(rule.nonfinite == NonFinite::Fail || !same);
            return (T::ZERO, T::ZERO);
        }
        let (d, m) = ((a - r).magnitude(), r.magnitude());
        let bound = rule.bound(rule.rtol, m, rule.atol);
        self.mismatches += u64::from(d > bound);
        self.worst_at(Metric::Absolute, d.wide(), index);
        if !rule.all {
            return (d, m);
        }
        self.zero_passes += u64::from(m <= bound);
        if d > T::ZERO {
            if m > T::ZERO {
                self.worst_at(Metric::Relative, (d / m).wide(), index);
            }
            if m > T::SMALL {
                self.worst_at(Metric::RelativeOld, (d / m).wide(), index);
            }
            self.worst_at(Metric::Epsilon, d.epsilons(m, &rule.grid), index);
            self.worst_at(Metric::Ulp, ulps() as f64, index);
            self.worst_at(Metric::Ratio, (d / bound).wide(), index);
            self.passing_rtol = self.passing_rtol.max(rule.least_rtol(d, m).wide());
            self.passing_atol = self.passing_atol.max(rule.least_atol(d, m).wide());
        }
        (d, m)
    }
}

impl<T: Real> Rule<T> {
    /// min(fma(rtol, |r|, atol), MAX): a bound that overflows admits finite differences only.
    pub(crate) fn bound(&self, rtol: T, magnitude: T, atol: T) -> T {
        let b = rtol.fused(magnitude, atol);
        if b < T::MAX { b } else { T::MAX }
    }

    /// The least rtol with which a difference of `d` passes; infinite when none does.
    fn least_rtol(&self, d: T, magnitude: T) -> T {
        least(|rtol| d <= self.bound(rtol, magnitude, self.atol))
    }

    /// The least atol with which a difference of `d` passes; infinite when none does.
    fn least_atol(&self, d: T, magnitude: T) -> T {
        least(|atol| d <= self.bound(self.rtol, magnitude, atol))
    }
}

/// The least non-negative number that passes, by bisection; infinite when no finite one does. `passes` is monotone.
fn least<T: Real>(passes: impl Fn(T) -> bool) -> T {
    let (mut low, mut high) = (0, T::INFINITE);
    while low < high {
        let middle = low + (high - low) / 2;
        if passes(T::at(middle)) { high = middle } else { low = middle + 1 }
    }
    T::at(low)
}

/// The rule for exact integers: the bound is floor(fma(rtol, |r|, atol)) in f64, saturated to u64.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IntRule {
    pub rtol: f64,
    pub atol: f64,
    pub all: bool,
}

impl IntRule {
    fn bound(&self, rtol: f64, magnitude: f64, atol: f64) -> f64 {
        rtol.mul_add(magnitude, atol)
    }

    /// Exact: `d` may exceed 2^53, where f64 has no odd numbers; `as` floors and saturates.
    fn passes(&self, d: u64, rtol: f64, magnitude: f64, atol: f64) -> bool {
        d <= self.bound(rtol, magnitude, atol) as u64
    }
}

impl Stats {
    /// As [`observe`](Stats::observe), for integers.
    pub(crate) fn observe_int(&mut self, rule: &IntRule, index: u64, a: i64, r: i64) -> (f64, f64) {
        let (d, m) = (a.abs_diff(r), r.unsigned_abs());
        let (df, mf) = (d as f64, m as f64);
        for (side, x) in [a, r].into_iter().enumerate() {
            self.zeros[side] += u64::from(rule.all && x == 0);
            self.max_magnitude[side] = self.max_magnitude[side].max(x.unsigned_abs() as f64);
        }
        self.mismatches += u64::from(!rule.passes(d, rule.rtol, mf, rule.atol));
        self.worst_at(Metric::Absolute, df, index);
        if !rule.all {
            return (df, mf);
        }
        self.zero_passes += u64::from(rule.passes(m, rule.rtol, mf, rule.atol));
        if d > 0 {
            if m > 0 {
                self.worst_at(Metric::Relative, df / mf, index);
            }
            if mf > 1e-3 {
                self.worst_at(Metric::RelativeOld, df / mf, index);
            }
            self.worst_at(Metric::Epsilon, df, index);
            self.worst_at(Metric::Ulp, df, index);
            self.worst_at(Metric::Ratio, df / rule.bound(rule.rtol, mf, rule.atol), index);
            let rtol = least(|t| rule.passes(d, t, mf, rule.atol));
            let atol = least(|t| rule.passes(d, rule.rtol, mf, t));
            self.passing_rtol = self.passing_rtol.max(rtol);
            self.passing_atol = self.passing_atol.max(atol);
        }
        (df, mf)
    }
}
