//! Which elements the fused loop must stop at: those that could change an extreme, told from |a - r| and |r| by one comparison.
//!
//! Every measure grows with d = |a - r|, and none grows with m = |r| within a binade. So for each measure there is a largest d at the
//! lower end of a binade that changes nothing, and it changes nothing anywhere in that binade: the least of them over all measures is
//! the binade's *base*. That alone would stop at most elements whose differences are proportional to m. But each measure's limit is
//! also, within a binade, a straight line in m of non-negative slope; the least of several lines is concave, so it lies above the
//! chord between the ends of the binade, and the chord, lowered by more than all roundings, is a second valid screen. It is taken
//! where the ends differ. Where they don't, the base is exact, so that errors of one spacing, by far the most frequent, never stop the loop twice.
//!
//! The ratio to the tolerance is screened apart, exactly: with rtol = atol it has the same worst value all along a line (any result of -1
//! against a reference between 0 and 1), which would stop the loop again and again.

use super::super::super::rule::{Rule, pow2};
use super::super::super::stats::Stats;
use super::super::super::values::Metric;
use super::super::block::Bits;
use super::vectors::BINS;

/// The binade of 1e-3, below which references have no part in one of the measures.
const SMALL_EXPONENT: i32 = -10;

/// The screens of one state of the extremes.
pub(in super::super) struct Screens<T> {
    pub rtol: T,
    pub atol: T,
    /// The largest |a - r| that changes nothing.
    pub absolute: T,
    /// The most patterns that a and r may be apart.
    pub ulps: u64,
    /// References below this are in bin 0, with zero.
    pub floor: T,
    /// An element of bin b is harmless when d - slope[b]·m <= base[b]; bins are found by the exponent's lowest bits.
    pub base: [T; BINS],
    pub slope: [T; BINS],
    /// An element is harmless for the ratio when (d - ratio·bound) - half_step·bound <= ratio_limit.
    pub ratio: T,
    pub half_step: T,
    pub ratio_limit: T,
    /// The exponent from which bins do not reach, and from which differences may overflow.
    pub top: i32,
}

impl<T: Bits> Screens<T> {
    /// `least` is the exponent of the format's least positive number; without `chords` all slopes are 0.
    pub(super) fn new(stats: &Stats, rule: &Rule<T>, least: i32, chords: bool) -> Screens<T> {
        let limits = Limits::of(stats, rule);
        // One binade of air above the largest reference so far.
        let largest = exponent(stats.max_magnitude[1]);
        let first = (largest - (BINS as i32 - 2)).max(least - 1).max(T::MIN_EXPONENT);
        let mut screens = Screens {
            rtol: rule.rtol,
            atol: rule.atol,
            absolute: limits.absolute,
            ulps: stats.worst[Metric::Ulp as usize].value as u64,
            floor: T::from_f64(pow2(first)),
            base: [T::ZERO; BINS],
            slope: [T::ZERO; BINS],
            ratio: T::ZERO,
            half_step: T::ZERO,
            ratio_limit: T::from_f64(f64::INFINITY),
            top: (first + BINS as i32).min(T::MAX_EXPONENT),
        };
        if rule.all {
            if limits.ratio.finite() {
                // A larger ratio is rounded up to above this one: it is half a step above it, at least.
                let step = limits.ratio.above() - limits.ratio;
                let half_step = if step.finite() { T::floor_of(step.wide() * 0.5 * (1.0 - T::AIR)) } else { T::ZERO };
                screens = Screens { ratio: limits.ratio, half_step, ratio_limit: T::ZERO, ..screens };
            }
            let place = |e: i32| (e + T::MAX_EXPONENT) as usize % BINS;
            // Bin 0 has zero and, unless it is alone, numbers so small that their relative differences have no useful limit.
            if least > first {
                screens.base[place(first)] = limits.quiet(rule, T::ZERO, rule.grid.min_exponent);
            }
            for e in first + 1..screens.top {
                let low = limits.quiet(rule, T::from_f64(pow2(e)), e);
                let high = limits.quiet(rule, T::from_f64(pow2(e + 1)), e);
                let ends = (low.wide(), high.wide());
                if chords && ends.0 < ends.1 && ends.0 > T::TINY.wide() && ends.1 < T::MAX.wide() {
                    let (low, high) = (ends.0 * (1.0 - T::AIR), ends.1 * (1.0 - T::AIR));
                    screens.slope[place(e)] = T::floor_of((high - low) * pow2(-e));
                    screens.base[place(e)] = T::floor_of(low - (high - low));
                } else {
                    screens.base[place(e)] = low;
                }
            }
        }
        screens
    }
}

/// The binade of a non-negative f64; that of zero is the lowest.
fn exponent(x: f64) -> i32 {
    (x.to_bits() >> 52) as i32 - 1023
}

/// The extremes as numbers of the arithmetic; infinite where nothing can exceed them.
struct Limits<T> {
    absolute: T,
    relative: T,
    relative_old: T,
    epsilon: f64,
    ratio: T,
    rtol: T,
    atol: T,
}

impl<T: Bits> Limits<T> {
    fn of(stats: &Stats, rule: &Rule<T>) -> Limits<T> {
        let best = |m: Metric| T::from_f64(stats.worst[m as usize].value);
        let absolute = best(Metric::Absolute);
        Limits {
            // Finite, so that what is not finite always exceeds it.
            absolute: if absolute < T::MAX { absolute } else { T::MAX },
            relative: best(Metric::Relative),
            relative_old: best(Metric::RelativeOld),
            epsilon: stats.worst[Metric::Epsilon as usize].value * pow2(-rule.grid.mantissa_bits),
            ratio: best(Metric::Ratio),
            rtol: T::from_f64(stats.passing_rtol),
            atol: T::from_f64(stats.passing_atol),
        }
    }

    /// The largest difference, or one a little less, that changes nothing at a reference of magnitude `m`, as the limits of
    /// binade `e` continue to there.
    fn quiet(&self, rule: &Rule<T>, m: T, e: i32) -> T {
        let mut quiet = self.absolute;
        let mut at_most = |x: T| quiet = if x < quiet { x } else { quiet };
        if m > T::ZERO {
            at_most(quotient_within(self.relative, m));
            // The binade of 1e-3 counts as a whole.
            if e >= SMALL_EXPONENT {
                at_most(quotient_within(self.relative_old, m));
            }
        }
        let epsilon = self.epsilon * pow2(e.clamp(rule.grid.min_exponent, rule.grid.max_exponent));
        if epsilon < T::MAX.wide() {
            at_most(T::floor_of(epsilon));
        }
        // Where the exact screen of the ratio would underflow.
        let bound = rule.bound(rule.rtol, m, rule.atol);
        let in_range = self.ratio.times(bound) > T::TINY;
        if !in_range {
            at_most(quotient_within(self.ratio, bound));
        }
        if self.rtol.finite() {
            at_most(rule.bound(self.rtol, m, rule.atol));
        }
        if self.atol.finite() {
            at_most(rule.bound(rule.rtol, m, self.atol));
        }
        quiet
    }
}

/// A number x, the largest or close to it, with x / y <= limit.
fn quotient_within<T: Bits>(limit: T, y: T) -> T {
    if !limit.finite() {
        return T::MAX;
    }
    let product = limit.times(y);
    let near = if product < T::MAX { product } else { T::MAX };
    let steps = [near.above(), near, near.below(), near.below().below()];
    steps.into_iter().find(|&x| x.finite() && x / y <= limit).unwrap_or(T::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;
    use crate::verify::NonFinite;
    use crate::verify::rule::Grid;

    /// What the loop asks of one element.
    fn harmless<T: Bits>(s: &Screens<T>, rule: &Rule<T>, d: T, m: T) -> bool {
        let bin = (exponent(m.wide()).max(exponent(s.floor.wide())) + T::MAX_EXPONENT) as usize % BINS;
        let minus = |x: T, y: T, z: T| T::from_f64(-1.0).times(x).fused(y, z);
        let bound = rule.rtol.fused(m, rule.atol);
        minus(s.slope[bin], m, d) <= s.base[bin] && minus(s.half_step, bound, minus(s.ratio, bound, d)) <= s.ratio_limit
    }

    /// From many states, elements around every limit: what changes an extreme is never harmless.
    fn never_lose_an_extreme<T: Bits>(dtype: DType, least: i32, chords: bool) {
        let mut random = 1u64;
        let mut draw = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 40) as f64 / (1u64 << 24) as f64
        };
        let mut stopped = 0;
        for (rtol, atol) in [(1e-3, 1e-3), (0.0, 0.0), (0.0, 1e-5), (0.5, 0.0), (1e-7, 1e-30)] {
            let (rtol, atol) = (T::from_f64(rtol), T::from_f64(atol));
            let rule = Rule { rtol, atol, nonfinite: NonFinite::Fail, grid: Grid::of(dtype), all: true };
            let mut stats = Stats::EMPTY;
            stats.max_magnitude[1] = 1.0;
            let mut last = (T::from_f64(0.5), T::from_f64(0.5));
            for i in 0..4000u64 {
                let screens = Screens::new(&stats, &rule, least, chords);
                // An element like the last that stopped, a step off or not, or one of any magnitude.
                let mut m = if i % 3 == 0 { last.1 } else { T::from_f64(draw() * pow2((draw() * -20.0) as i32)) };
                let mut d = if i % 2 == 0 { last.0 } else { T::from_f64(draw() * pow2((draw() * -20.0) as i32 - i as i32 % 9)) };
                (d, m) = match i % 5 {
                    0 => (d.above(), m),
                    1 => (d, m.below()),
                    _ => (d, m),
                };
                (d, m) = if m < T::ZERO { (d, T::ZERO) } else { (d, m) };
                let mut after = stats;
                // r = -m and a = d - m are d apart, when that difference is exact.
                let a = d - m;
                if (a - T::from_f64(-1.0).times(m)).magnitude() != d {
                    continue;
                }
                after.observe(&rule, i, a, T::from_f64(-1.0).times(m), || 0);
                let limits = |s: &Stats| (s.worst, s.passing_rtol, s.passing_atol);
                if limits(&after) != limits(&stats) {
                    assert!(!harmless(&screens, &rule, d, m), "{dtype}: {:e} at {:e}, {stats:?}", d.wide(), m.wide());
                    stopped += 1;
                    last = (d, m);
                    stats = Stats { worst: after.worst, passing_rtol: after.passing_rtol, passing_atol: after.passing_atol, ..stats };
                }
            }
        }
        assert!(stopped > 100, "{dtype}: {stopped}");
    }

    #[test]
    fn what_changes_an_extreme_is_never_harmless() {
        never_lose_an_extreme::<f32>(DType::F32, -149, true);
        never_lose_an_extreme::<f32>(DType::F16, -24, true);
        never_lose_an_extreme::<f32>(DType::F8E5M2, -16, false);
        never_lose_an_extreme::<f64>(DType::F64, -1074, true);
    }
}
