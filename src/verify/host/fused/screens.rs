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
use super::super::super::stats::{Measure, Stats};
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
            ulps: stats.worst[Measure::Ulp as usize].value as u64,
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
        let best = |m: Measure| T::from_f64(stats.worst[m as usize].value);
        let absolute = best(Measure::Absolute);
        Limits {
            // Finite, so that what is not finite always exceeds it.
            absolute: if absolute < T::MAX { absolute } else { T::MAX },
            relative: best(Measure::Relative),
            relative_old: best(Measure::RelativeOld),
            epsilon: stats.worst[Measure::Epsilon as usize].value * pow2(-rule.grid.mantissa_bits),
            ratio: best(Measure::Ratio),
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
        if !(self.ratio.times(bound) > T::TINY) {
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
