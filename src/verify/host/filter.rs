//! Maxima of quotients without a division for every element.
//!
//! Let M be the largest d / m so far, rounded. A pair (d, m) can raise it only if round(d / m) > M. [`Over::may_exceed`] says whether it may,
//! with two fused operations:
//!
//! ```text
//! e = fma(-M, m, d)            about d - M m
//! fma(-H, m, e) >= 0           H a little less than half of the distance g from M to the next number
//! ```
//!
//! Proof that no such pair is missed. round(d / m) > M means that d / m >= M + g / 2, so that d - M m >= (g / 2) m =: h. Rounding is monotone,
//! hence e >= round(h), which is at least (1 - 2^-24) h, or at most half of the least subnormal below h. H <= (1 - 2^-10) g / 2 makes the exact
//! e - H m positive, or at most that half below 0, and a number so small rounds to 0 or -0, both of which are >= 0. Where g is so small that H
//! might be rounded up, H is 0.
//!
//! Proof that equal data do not ask. If round(d / m) is M then |d / m - M| <= g / 2; only the 2^-10th part of such quotients next to g / 2 asks. So
//! tensors in which every element has the largest quotient cost no more than others. Limits: M below 2^-76 or so (f32) has H = 0 and asks more often.
//!
//! A pair that asks costs time, never a wrong bit: its block is measured again by [`Maxima`](super::measure), with divisions.

use super::number::Number;
use crate::verify::rule::Rule;
use crate::verify::values::{Maxima, Metric};

/// The condition for one quotient.
#[derive(Clone, Copy, Debug)]
pub(super) struct Over<T> {
    minus_maximum: T,
    minus_half: T,
}

impl<T: Number> Over<T> {
    /// For a maximum that is not negative. When it is infinite nothing exceeds it.
    pub(super) fn new(maximum: T) -> Over<T> {
        let up = maximum.next_up();
        let gap = if up.finite() { up - maximum } else { maximum - maximum.next_down() };
        let half = if gap.finite() && gap > T::LEAST_GAP { gap.times(T::from_f64(0.5 - 1.0 / 2048.0)) } else { T::ZERO };
        Over { minus_maximum: maximum.negated(), minus_half: half.negated() }
    }

    /// Whether round(d / m) may exceed the maximum. d > 0; m >= 0.
    #[inline(always)]
    pub(super) fn may_exceed(&self, d: T, m: T) -> bool {
        self.minus_half.fused(m, self.minus_maximum.fused(m, d)) >= T::ZERO
    }
}

/// The conditions for all metrics that are quotients.
#[derive(Clone, Copy, Debug)]
pub(super) struct Filter<T> {
    relative: Over<T>,
    relative_old: Over<T>,
    /// Of d and the binade of |r|.
    epsilon: Over<T>,
    ratio: Over<T>,
    rule: Rule<T>,
    binades: [T; 2],
}

impl<T: Number> Filter<T> {
    /// Given the current maxima, among them d / 2^e in the place of the epsilon difference.
    pub(super) fn new(rule: &Rule<T>, maxima: &Maxima) -> Filter<T> {
        let over = |metric: Metric| Over::new(floor::<T>(maxima[metric as usize]));
        Filter {
            relative: over(Metric::Relative),
            relative_old: over(Metric::RelativeOld),
            epsilon: over(Metric::Epsilon),
            ratio: over(Metric::Ratio),
            rule: *rule,
            binades: rule.binades(),
        }
    }

    /// Whether a finite pair with this bound may exceed a maximum.
    #[inline(always)]
    pub(super) fn may_exceed(&self, d: T, m: T, bound: T) -> bool {
        // Where nothing differs any denominator will do, and the least one would make products that processors are slow with.
        let e = if d > T::ZERO { self.rule.clamped_binade(m, self.binades) } else { T::MAX };
        let relative = (m > T::ZERO) & self.relative.may_exceed(d, m);
        let old = (m > T::SMALL) & self.relative_old.may_exceed(d, m);
        (d > T::ZERO) & (relative | old | self.ratio.may_exceed(d, bound) | self.epsilon.may_exceed(d, e))
    }
}

/// The largest number not above `x`; finite where `x` is a quotient that only f64 holds.
pub(super) fn floor<T: Number>(x: f64) -> T {
    let near = T::from_f64(x);
    if near.wide() > x { near.next_down() } else { near }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of every kind: powers of two and their neighbours, subnormals, the largest, and some without pattern.
    fn numbers() -> Vec<f32> {
        let powers = [-149, -148, -126, -125, -100, -30, -1, 0, 1, 40, 126, 127].map(|e| 2f64.powi(e) as f32);
        let near = powers.iter().flat_map(|x| [x.next_down(), *x, x.next_up()]);
        let others = [f32::MAX, 1.0 / 3.0, 0.1, 3.0, 7.3e-41, 2.1e-45, 1.7e38];
        near.chain(others).filter(|x| *x > 0.0).collect()
    }

    #[test]
    fn no_larger_quotient_is_missed_and_equal_ones_do_not_ask() {
        let numbers = numbers();
        for &d in &numbers {
            for &m in &numbers {
                let q = d / m;
                if q.is_finite() && q > 0.0 {
                    // The closest maximum that this pair raises, and smaller ones.
                    for maximum in [q.next_down(), q * 0.999, q / 3.0, 0.0] {
                        assert!(maximum >= q || Over::new(maximum).may_exceed(d, m), "{d:e} / {m:e} exceeds {maximum:e}");
                    }
                    assert!(q < 1e-20 || d < 1e-20 || !Over::new(q).may_exceed(d, m), "{d:e} / {m:e} is {q:e}, not more");
                }
            }
        }
        let infinite = Over::new(f32::INFINITY);
        assert!(!infinite.may_exceed(1.0, 0.0) && !infinite.may_exceed(f32::INFINITY, 1.0));
        assert!(Over::new(f32::MAX).may_exceed(1.0, 0.0) && Over::new(f32::MAX).may_exceed(f32::INFINITY, f32::MAX));
    }
}
