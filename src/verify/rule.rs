//! The rule for one element, written to be read: the definition that host loops and kernels are tested against.
//!
//! Finite pairs are measured in the arithmetic of the pair ([`PairArithmetic`](crate::dtype::PairArithmetic)): f32 where both formats are
//! exact in f32, f64 where either is f64 or a wide integer meets a float, exact integers where both are integers and one is wide. Integers up to
//! 16 bits and their differences are exact in f32, so the first rule is exact for them as well.

use super::options::Request;
use super::report::Value;
use super::values::{Maxima, Metric, Values};
use crate::dtype::{DType, FloatFormat, PairArithmetic, exp2};

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

    /// That of a comparison: of the format whose spacings were asked for, else the result's, in this arithmetic.
    pub(crate) fn asked(request: &Request, result: DType, narrow: bool) -> Grid {
        let grid = Grid::of(request.spacing.unwrap_or(result));
        // f64's spacings, of numbers that f32 holds. f8e8m0 has 2^-127 as well, whose exponent is that of f32's zero.
        if narrow { Grid { min_exponent: grid.min_exponent.max(-127), max_exponent: grid.max_exponent.min(127), ..grid } } else { grid }
    }

    /// The ends of the binades, as numbers.
    pub(crate) fn binades<T: Real>(&self) -> [T; 2] {
        [self.min_exponent, self.max_exponent].map(|e| T::from_f64(exp2(e)))
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
    /// The ends of the binades that rtol multiplies, where it does not multiply |r|.
    pub base: Option<[T; 2]>,
    pub nonfinite: NonFinite,
    pub grid: Grid,
    /// Whether more than counts, largest magnitudes and the largest absolute difference are wanted.
    pub all: bool,
}

/// A real arithmetic: what the rule, and loops over many elements, need of f32 and f64.
pub(crate) trait Real:
    Copy + Default + Send + Sync + PartialOrd + std::ops::Sub<Output = Self> + std::ops::Div<Output = Self>
{
    /// The integer of the same width: bit patterns, and counters of vector loops.
    type Bits: Copy
        + Default
        + Ord
        + From<bool>
        + Into<u64>
        + std::ops::AddAssign
        + std::ops::BitOrAssign
        + std::ops::Shr<u32, Output = Self::Bits>;
    const ZERO: Self;
    const MAX: Self;
    /// The denominators that the study's relative difference ignores, inclusive.
    const SMALL: Self;
    /// Whether squares of this arithmetic's numbers may leave its range for good, and f64 would hold them.
    const NARROW: bool;
    /// The bit pattern of infinity; magnitudes of finite numbers have smaller patterns, in the order of the numbers.
    const INFINITE: Self::Bits;
    fn magnitude(self) -> Self;
    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    fn fused(self, by: Self, plus: Self) -> Self;
    fn negated(self) -> Self;
    fn finite(self) -> bool;
    fn wide(self) -> f64;
    fn from_f64(x: f64) -> Self;
    fn next_up(self) -> Self;
    fn next_down(self) -> Self;
    fn bits(self) -> Self::Bits;
    fn from_bits(bits: Self::Bits) -> Self;
    /// The number with a given index among the non-negative ones: 0 has index 0, infinity that of its pattern.
    fn at(index: u64) -> Self;
    /// The larger number; `other` when this is NaN.
    fn larger(self, other: Self) -> Self;
    /// The smaller number; `other` when this is NaN.
    fn smaller(self, other: Self) -> Self;
    /// 2^floor(log2 x), 0 for zeros and subnormals. `x` is finite and not negative.
    fn binade(self) -> Self;
}

macro_rules! real {
    ($t:ty, $bits:ty) => {
        impl Real for $t {
            type Bits = $bits;
            const ZERO: $t = 0.0;
            const MAX: $t = <$t>::MAX;
            const SMALL: $t = 1e-3;
            const NARROW: bool = size_of::<$t>() == 4;
            const INFINITE: $bits = <$t>::INFINITY.to_bits();
            #[inline(always)]
            fn magnitude(self) -> $t {
                self.abs()
            }
            #[inline(always)]
            fn plus(self, other: $t) -> $t {
                self + other
            }
            #[inline(always)]
            fn times(self, other: $t) -> $t {
                self * other
            }
            #[inline(always)]
            fn fused(self, by: $t, plus: $t) -> $t {
                self.mul_add(by, plus)
            }
            #[inline(always)]
            fn negated(self) -> $t {
                -self
            }
            #[inline(always)]
            fn finite(self) -> bool {
                self.is_finite()
            }
            #[inline(always)]
            fn wide(self) -> f64 {
                f64::from(self)
            }
            #[inline(always)]
            fn from_f64(x: f64) -> $t {
                x as $t
            }
            fn next_up(self) -> $t {
                <$t>::next_up(self)
            }
            fn next_down(self) -> $t {
                <$t>::next_down(self)
            }
            #[inline(always)]
            fn bits(self) -> $bits {
                self.to_bits()
            }
            #[inline(always)]
            fn from_bits(bits: $bits) -> $t {
                <$t>::from_bits(bits)
            }
            fn at(index: u64) -> $t {
                // Non-negative numbers are ordered as their patterns.
                <$t>::from_bits(index as $bits)
            }
            #[inline(always)]
            fn larger(self, other: $t) -> $t {
                if self > other { self } else { other }
            }
            #[inline(always)]
            fn smaller(self, other: $t) -> $t {
                if self < other { self } else { other }
            }
            #[inline(always)]
            fn binade(self) -> $t {
                <$t>::from_bits(self.to_bits() & Self::INFINITE)
            }
        }
    };
}
real!(f32, u32);
real!(f64, u64);

impl<T: Real> Rule<T> {
    /// The rule of a request for results of this format.
    pub(crate) fn new(request: &Request, result: DType) -> Rule<T> {
        // Infinity times a reference of 0 would be NaN, and its bound the largest number.
        let [rtol, atol] = [request.rtol, request.atol].map(|x| T::from_f64(x).smaller(T::MAX));
        let grid = Grid::asked(request, result, T::NARROW);
        Rule { rtol, atol, base: request.by_binade.then(|| grid.binades()), nonfinite: request.nonfinite, grid, all: request.all }
    }

    /// What rtol multiplies: |r|, or its binade.
    #[inline(always)]
    pub(crate) fn base(&self, magnitude: T) -> T {
        match self.base {
            None => magnitude,
            Some(binades) => self.clamped_binade(magnitude, binades),
        }
    }

    /// min(fma(rtol, |r|, atol), MAX), or with the binade of |r|: a bound that overflows admits finite differences only.
    #[inline(always)]
    pub(crate) fn bound(&self, rtol: T, magnitude: T, atol: T) -> T {
        let b = rtol.fused(self.base(magnitude), atol);
        if b < T::MAX { b } else { T::MAX }
    }

    /// Whether a pair is a mismatch.
    pub(crate) fn fails(&self, a: T, r: T) -> bool {
        if a.finite() && r.finite() {
            return (a - r).magnitude() > self.bound(self.rtol, r.magnitude(), self.atol);
        }
        // An infinity equals itself; a NaN, nothing.
        let same = a == r || (a.wide().is_nan() && r.wide().is_nan());
        self.nonfinite == NonFinite::Fail || !same
    }

    /// The ends of the binades that spacings are taken from.
    pub(crate) fn binades(&self) -> [T; 2] {
        self.grid.binades()
    }

    /// 2^e, the binade of m held within [`binades`](Rule::binades).
    #[inline(always)]
    pub(crate) fn clamped_binade(&self, m: T, [least, most]: [T; 2]) -> T {
        if T::NARROW {
            // The least binade of f8e8m0 is no normal f32.
            return T::from_bits(m.binade().bits().max(least.bits()).min(most.bits()));
        }
        // Both ends are normal powers of two, so that it does not matter what comes first; AVX2 has instructions for numbers only.
        most.smaller(least.larger(m)).binade()
    }

    /// d / 2^e; exact, or in f64 rounded. The epsilon difference is that times 2^p.
    #[inline(always)]
    pub(crate) fn binades_apart(&self, d: T, m: T, binades: [T; 2]) -> f64 {
        d.wide() / self.clamped_binade(m, binades).wide()
    }

    /// The epsilon difference, of [`binades_apart`](Rule::binades_apart) or of their maximum.
    pub(crate) fn epsilons(&self, binades_apart: f64) -> f64 {
        binades_apart * exp2(self.grid.mantissa_bits)
    }

    /// The error metrics of a finite pair, d = |a - r| and m = |r|; 0 where one is undefined or was not asked for.
    pub(crate) fn metrics(&self, d: T, m: T) -> Maxima {
        if !(self.all && d > T::ZERO) {
            return [d.wide(), 0.0, 0.0, 0.0, 0.0];
        }
        let relative = (d / m).wide();
        [
            d.wide(),
            if m > T::ZERO { relative } else { 0.0 },
            if m > T::SMALL { relative } else { 0.0 },
            self.epsilons(self.binades_apart(d, m, self.binades())),
            (d / self.bound(self.rtol, m, self.atol)).wide(),
        ]
    }

    /// The least rtol and the least atol, the other unchanged, with which a difference of `d` passes; infinite when none does.
    pub(crate) fn passing(&self, d: T, m: T) -> [f64; 2] {
        let (infinity, base) = (Self::infinity(), self.base(m));
        let near = |x: T| x.larger(T::ZERO).bits().into();
        let rtol = least_near(0, infinity, near((d - self.atol) / base), |index| d <= self.bound(T::at(index), m, self.atol));
        let atol = least_near(0, infinity, near(d - self.rtol.times(base)), |index| d <= self.bound(self.rtol, m, T::at(index)));
        [rtol, atol].map(|index| T::at(index).wide())
    }

    fn infinity() -> u64 {
        T::INFINITE.into()
    }
}

/// The least number from `low` to `high` that passes, by bisection; `high` when none before it does. `passes` is monotone.
pub(super) fn least(mut low: u64, mut high: u64, passes: impl Fn(u64) -> bool) -> u64 {
    while low < high {
        let middle = low + (high - low) / 2;
        if passes(middle) { high = middle } else { low = middle + 1 }
    }
    low
}

/// As [`least`], for a number that is expected near `near`: by growing steps from there, then by bisection.
pub(super) fn least_near(mut low: u64, mut high: u64, near: u64, passes: impl Fn(u64) -> bool) -> u64 {
    let (mut at, mut step) = (near, 1u64);
    while low < high && step < high - low {
        at = at.clamp(low, high - 1);
        if passes(at) {
            high = at;
            at = high.saturating_sub(step);
        } else {
            low = at + 1;
            at = low.saturating_add(step);
        }
        step = step.saturating_mul(4);
    }
    least(low, high, passes)
}

/// The rule for exact integers: the bound is floor(fma(rtol, |r|, atol)) in f64, saturated to u64; by binade with 1 for |r|.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IntRule {
    pub rtol: f64,
    pub atol: f64,
    pub by_binade: bool,
    pub all: bool,
}

/// |a - r| of two numbers of integer formats. Between u64 and a negative number it may be beyond u64, and is 2^64 - 1 then.
pub(crate) fn distance(a: i128, r: i128) -> u64 {
    u64::try_from(a.abs_diff(r)).unwrap_or(u64::MAX)
}

/// |x| of a number of an integer format: at most 2^64 - 1.
pub(crate) fn magnitude(x: i128) -> u64 {
    x.unsigned_abs() as u64
}

impl IntRule {
    pub(crate) fn new(request: &Request) -> IntRule {
        let &Request { rtol, atol, by_binade, all, .. } = request;
        IntRule { rtol, atol, by_binade, all }
    }

    /// The bound before it is rounded down; at most the largest f64, as for other numbers.
    pub(crate) fn bound(&self, magnitude: f64) -> f64 {
        self.rtol.mul_add(if self.by_binade { 1.0 } else { magnitude }, self.atol).min(f64::MAX)
    }

    /// Exact: `d` may exceed 2^53, where f64 has no odd numbers; `as` rounds down and saturates.
    pub(crate) fn passes(&self, d: u64, magnitude: f64) -> bool {
        d <= self.bound(magnitude) as u64
    }

    /// As [`Rule::metrics`], for whole numbers.
    pub(crate) fn metrics(&self, d: u64, m: u64) -> Maxima {
        let (d, m) = (d as f64, m as f64);
        if !(self.all && d > 0.0) {
            return [d, 0.0, 0.0, 0.0, 0.0];
        }
        // Every whole number but 0 is above 1e-3.
        let relative = if m > 0.0 { d / m } else { 0.0 };
        [d, relative, relative, d, d / self.bound(m)]
    }

    /// As [`Rule::passing`], for whole numbers.
    pub(crate) fn passing(&self, d: u64, m: u64) -> [f64; 2] {
        let (m, infinity) = (m as f64, f64::INFINITY.to_bits());
        let (difference, base) = (d as f64, if self.by_binade { 1.0 } else { m });
        let near = |x: f64| x.max(0.0).to_bits();
        let rtol = least_near(0, infinity, near((difference - self.atol) / base), |index| {
            IntRule { rtol: f64::from_bits(index), ..*self }.passes(d, m)
        });
        let atol = least_near(0, infinity, near(difference - self.rtol * base), |index| {
            IntRule { atol: f64::from_bits(index), ..*self }.passes(d, m)
        });
        [rtol, atol].map(f64::from_bits)
    }
}

/// The rule in the arithmetic of a pair.
pub(super) enum AnyRule {
    F32(Rule<f32>),
    F64(Rule<f64>),
    Int(IntRule),
}

impl AnyRule {
    pub(super) fn new([result, reference]: [DType; 2], request: &Request) -> AnyRule {
        match PairArithmetic::of(result, reference) {
            PairArithmetic::F32 => AnyRule::F32(Rule::new(request, result)),
            PairArithmetic::F64 => AnyRule::F64(Rule::new(request, result)),
            PairArithmetic::I64 => AnyRule::Int(IntRule::new(request)),
        }
    }

    /// The error metrics of a finite pair.
    fn metrics(&self, a: Value, r: Value) -> Maxima {
        match (self, a, r) {
            (AnyRule::F32(rule), ..) => {
                let [a, r] = [a, r].map(|x| x.to_f64() as f32);
                rule.metrics((a - r).magnitude(), r.magnitude())
            }
            (AnyRule::Int(rule), Value::Int(a), Value::Int(r)) => rule.metrics(distance(a, r), magnitude(r)),
            (AnyRule::F64(rule), ..) => rule.metrics((a.to_f64() - r.to_f64()).magnitude(), r.to_f64().magnitude()),
            // Only two integers have the integers' rule.
            (AnyRule::Int(_), ..) => [f64::NAN; Metric::MAXIMA],
        }
    }

    /// Difference, ratio, and whether the pair is a mismatch.
    pub(super) fn judge(&self, a: Value, r: Value) -> (f64, f64, bool) {
        match (self, a, r) {
            (AnyRule::F32(rule), ..) => judge(rule, a.to_f64() as f32, r.to_f64() as f32),
            (AnyRule::Int(rule), Value::Int(a), Value::Int(r)) => {
                let (d, m) = (distance(a, r), magnitude(r));
                let difference = if a < r { -(d as f64) } else { d as f64 };
                (difference, rule.metrics(d, m)[Metric::Ratio as usize], !rule.passes(d, m as f64))
            }
            (AnyRule::F64(rule), ..) => judge(rule, a.to_f64(), r.to_f64()),
            // Only two integers have the integers' rule.
            (AnyRule::Int(_), ..) => (f64::NAN, f64::INFINITY, true),
        }
    }
}

fn judge<T: Real>(rule: &Rule<T>, a: T, r: T) -> (f64, f64, bool) {
    let (difference, mismatch) = (a - r, rule.fails(a, r));
    let ratio = match (a.finite() && r.finite(), mismatch) {
        (true, _) => rule.metrics(difference.magnitude(), r.magnitude())[Metric::Ratio as usize],
        (false, true) => f64::INFINITY,
        (false, false) => 0.0,
    };
    (difference.wide(), ratio, mismatch)
}

/// Says of a pair of patterns whether it is a mismatch.
pub(super) fn mismatches([result, reference]: [DType; 2], request: &Request) -> impl Fn([u64; 2]) -> bool {
    // Ratios are not wanted.
    let rule = AnyRule::new([result, reference], &Request { all: false, ..*request });
    move |[a, r]| rule.judge(Value::of(result, a), Value::of(reference, r)).2
}

/// Gives the error metrics of a pair of patterns of finite numbers.
pub(super) fn metrics([result, reference]: [DType; 2], request: &Request) -> impl Fn([u64; 2]) -> Maxima {
    let rule = AnyRule::new([result, reference], &Request { all: true, ..*request });
    move |[a, r]| rule.metrics(Value::of(result, a), Value::of(reference, r))
}

impl Values {
    /// Takes one element, whose result is `a` and whose reference is `r`. Returns |a - r| and |r| for the sums, or zeros when a side is not
    /// finite.
    pub(crate) fn observe<T: Real>(&mut self, rule: &Rule<T>, a: T, r: T) -> (T, T) {
        for (side, x) in [a, r].into_iter().enumerate() {
            self.observe_class(rule.all, side, x);
        }
        let mismatch = u64::from(rule.fails(a, r));
        self.mismatches += mismatch;
        if !(a.finite() && r.finite()) {
            self.nonfinite_pairs += 1;
            self.nonfinite_mismatches += mismatch;
            self.nonfinite_zeros += u64::from(rule.all && r == T::ZERO);
            return (T::ZERO, T::ZERO);
        }
        let (d, m) = ((a - r).magnitude(), r.magnitude());
        let bound = rule.bound(rule.rtol, m, rule.atol);
        self.zero_passes += u64::from(rule.all && m <= bound);
        self.join_maxima(rule.metrics(d, m));
        (d, m)
    }

    fn observe_class<T: Real>(&mut self, all: bool, side: usize, x: T) {
        self.zeros[side] += u64::from(all && x == T::ZERO);
        match x.wide() {
            x if x.is_nan() => self.nans[side] += 1,
            f64::INFINITY => self.positive_infinities[side] += 1,
            f64::NEG_INFINITY => self.negative_infinities[side] += 1,
            x => self.max_magnitude[side] = self.max_magnitude[side].max(x.abs()),
        }
    }

    /// As [`observe`](Values::observe), for integers.
    pub(crate) fn observe_int(&mut self, rule: &IntRule, a: i128, r: i128) -> (f64, f64) {
        let (d, m) = (distance(a, r), magnitude(r));
        for (side, x) in [a, r].into_iter().enumerate() {
            self.zeros[side] += u64::from(rule.all && x == 0);
            self.max_magnitude[side] = self.max_magnitude[side].max(magnitude(x) as f64);
        }
        self.mismatches += u64::from(!rule.passes(d, m as f64));
        self.zero_passes += u64::from(rule.all && rule.passes(m, m as f64));
        self.join_maxima(rule.metrics(d, m));
        (d as f64, m as f64)
    }

    /// Takes the larger of each maximum and each of these.
    pub(crate) fn join_maxima(&mut self, metrics: Maxima) {
        self.maxima.iter_mut().zip(metrics).for_each(|(maximum, x)| *maximum = maximum.max(x));
    }
}

#[cfg(test)]
mod tests {
    use super::{least, least_near};

    #[test]
    fn what_is_expected_changes_no_answer() {
        let (all, some) = ([0, 1, 2, 3, 4, 5, 6, 7, 8, 9], [0, 1, 1 << 20, u64::MAX / 3, u64::MAX - 1, u64::MAX]);
        for (low, high, answer, near) in [&all[..], &some].into_iter().flat_map(four_of) {
            let passes = |x| x >= answer;
            assert_eq!(
                least_near(low, high, near, passes),
                least(low, high, passes),
                "{low} to {high}, from {answer} on, expected at {near}"
            );
        }
        let asked = std::cell::Cell::new(0);
        least_near(0, u64::MAX, 1 << 40, |x| {
            asked.set(asked.get() + 1);
            x > 1 << 40
        });
        assert!(asked.get() <= 4, "{} questions, where 64 would do without an expectation", asked.get());
    }

    fn four_of(numbers: &[u64]) -> impl Iterator<Item = (u64, u64, u64, u64)> {
        let n = numbers.len();
        (0..n.pow(4)).map(move |i| (numbers[i % n], numbers[i / n % n], numbers[i / n / n % n], numbers[i / n / n / n]))
    }
}
