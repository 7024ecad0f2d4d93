//! Maxima of quotients without a division for every element: the test of the device's kernels, whose proof is in `hip/verify/README.md`.
//!
//! Let M be the largest d / x so far, rounded, and h half of its distance to the next number. A pair needs the exact check, with a division,
//! if round(d / x) > M, which implies
//!
//! ```text
//! d - M x > h x,  tested as  fma(h, x, fma(M, x, -d)) < 0
//! ```
//!
//! d, M and h are scaled by a power of two first, so that no remainder underflows. Equal quotients do not fire: tensors in which every element
//! has the same error cost no more than others. For the epsilon difference x is a power of two, and one fma has the sign of M x - d.
//!
//! Only signs are read, and those of several tests are joined by `or`. An element that fires costs time, never a wrong bit: its block is
//! measured again by [`Quotients`](super::measure::Quotients).

use super::number::{BinadeLanes, Number};
use crate::simd::Lanes;
use crate::verify::rule::Rule;
use crate::verify::values::{Maxima, Metric};

/// The condition for one quotient: its scaled maximum, and half of the distance to the next number.
#[derive(Clone, Copy, Debug)]
struct Over<T> {
    maximum: T,
    half: T,
}

impl<T: Number> Over<T> {
    /// For a maximum that is not negative; an infinite one stays so.
    fn new(maximum: f64) -> Over<T> {
        if maximum == f64::INFINITY {
            return Over { maximum: T::from_f64(maximum), half: T::ZERO };
        }
        let scaled = floor::<T>(maximum).times(T::SCALE);
        let maximum = if scaled.finite() { scaled } else { T::MAX };
        // 0 where it would underflow: then the test fires more often.
        Over { maximum, half: T::from_f64(maximum.binade().wide() * T::HALF_SPACING) }
    }

    /// With the largest number for an infinite maximum, whose product with zero would have any sign.
    fn finite(self) -> Over<T> {
        Over { maximum: self.maximum.smaller(T::MAX), ..self }
    }
}

/// The conditions for all metrics that are quotients.
#[derive(Clone, Copy, Debug)]
pub(super) struct Filter<T> {
    relative: Over<T>,
    relative_old: Over<T>,
    ratio: Over<T>,
    /// Scaled, of d and the binade of |r|.
    epsilon: T,
    /// The ends of the binades; the first is higher where the scaled maximum would overflow.
    binades: [T; 2],
}

/// What tests have found: a sign where a pair may exceed a maximum.
#[derive(Clone, Copy, Debug)]
pub(super) struct Signs<T> {
    others: T,
    ratio: T,
}

impl<T: Number> Filter<T> {
    /// Given the current maxima, among them d / 2^e in the place of the epsilon difference.
    pub(super) fn new(rule: &Rule<T>, maxima: &Maxima) -> Filter<T> {
        let over = |metric: Metric| Over::new(maxima[metric as usize]);
        let mut binades = rule.binades();
        let mut epsilon = maxima[Metric::Epsilon as usize];
        // Scaled, it should not overflow. The least binade takes the rest: references in it fire when they exceed the maximum, others no later
        // than they should.
        let limit = T::MAX.binade().wide() / T::SCALE.wide();
        while epsilon >= limit && epsilon < f64::INFINITY {
            epsilon /= 2.0;
            binades[0] = binades[0].plus(binades[0]);
        }
        Filter {
            relative: over(Metric::Relative).finite(),
            relative_old: over(Metric::RelativeOld).finite(),
            ratio: over(Metric::Ratio),
            epsilon: floor(epsilon * T::SCALE.wide()),
            binades,
        }
    }

    /// Tests a finite pair with this bound: patterns whose signs [`Filter::signs`] reads, joined by `or` with those of other pairs. See [`FilterLanes::test`].
    #[inline(always)]
    pub(super) fn test(&self, rule: &Rule<T>, d: T, m: T, bound: T) -> [T::Bits; 2] {
        let scaled = d.times(T::SCALE).negated();
        let maximum = if m > T::SMALL { self.relative_old.maximum } else { self.relative.maximum };
        let numerator = if m > T::ZERO { scaled } else { T::ZERO };
        let mut others = self.relative_old.half.fused(m, maximum.fused(m, numerator)).bits();
        others |= self.epsilon.fused(rule.clamped_binade(m, self.binades), scaled).bits();
        [others, self.ratio.half.fused(bound, self.ratio.maximum.fused(bound, scaled)).bits()]
    }

    /// What the joined patterns of both tests say.
    pub(super) fn signs(others: T::Bits, ratio: T::Bits) -> Signs<T> {
        Signs { others: T::from_bits(others), ratio: T::from_bits(ratio) }
    }

    /// The filter for a loop over vectors.
    #[inline(always)]
    pub(super) fn lanes<L: Lanes<Number = T>>(&self, set: L::Set) -> FilterLanes<L> {
        let of = |x: T| L::splat(set, x);
        FilterLanes {
            relative: of(self.relative.maximum),
            relative_old: of(self.relative_old.maximum),
            half: of(self.relative_old.half),
            ratio: of(self.ratio.maximum),
            half_ratio: of(self.ratio.half),
            epsilon: of(self.epsilon),
            binades: BinadeLanes::new(set, self.binades),
            down: of(T::SCALE.negated()),
            small: of(T::SMALL),
            others: of(T::ZERO),
            of_ratio: of(T::ZERO),
        }
    }

    /// Whether a tested pair may exceed a maximum.
    pub(super) fn fired(&self, signs: Signs<T>) -> bool {
        // An infinite maximum times a bound of zero has any sign, and nothing exceeds it. With the largest number in its place every difference would
        // fire where bounds are zero.
        signs.others.bits() >= T::SIGN || signs.ratio.bits() >= T::SIGN && self.ratio.maximum.finite()
    }
}

/// [`Filter`], and the signs that its tests have found.
pub(super) struct FilterLanes<L> {
    relative: L,
    relative_old: L,
    half: L,
    ratio: L,
    half_ratio: L,
    epsilon: L,
    binades: BinadeLanes<L>,
    /// What differences are scaled by, negative.
    down: L,
    small: L,
    others: L,
    of_ratio: L,
}

impl<T: Number, L: Lanes<Number = T>> FilterLanes<L> {
    /// Tests finite pairs with these bounds; `nonzero` are the references that are not zero.
    #[inline(always)]
    pub(super) fn test(&mut self, d: L, m: L, bound: L, nonzero: L::Mask) {
        let scaled = L::mul(d, self.down);
        // A reference above 1e-3 is tested against the maximum of such references only, which is the smaller one; a zero has no relative
        // difference. With the smaller half the test fires more often.
        let maximum = L::select(L::less(self.small, m), self.relative_old, self.relative);
        let relative = L::fused(self.half, m, L::fused(maximum, m, L::keep(nonzero, scaled)));
        let epsilon = L::fused(self.epsilon, self.binades.of(m), scaled);
        self.others = L::or(self.others, L::or(relative, epsilon));
        self.of_ratio = L::or(self.of_ratio, L::fused(self.half_ratio, bound, L::fused(self.ratio, bound, scaled)));
    }

    #[inline(always)]
    pub(super) fn signs(&self) -> Signs<T> {
        Signs { others: L::joined(self.others), ratio: L::joined(self.of_ratio) }
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
    use crate::dtype::DType;
    use crate::simd::{InstructionSet, LanesTask};
    use crate::verify::options::Request;
    use crate::verify::rule::Real;
    use crate::verify::tests::REQUEST;

    /// Numbers of every kind: powers of two and their neighbours, subnormals, the largest, and some without pattern.
    fn numbers() -> Vec<f32> {
        let powers = [-149, -148, -126, -125, -100, -30, -1, 0, 1, 40, 126, 127].map(|e| 2f64.powi(e) as f32);
        let near = powers.iter().flat_map(|x| [x.next_down(), *x, x.next_up()]);
        let others = [f32::MAX, 1.0 / 3.0, 0.1, 3.0, 7.3e-41, 2.1e-45, 1.7e38];
        near.chain(others).filter(|x| *x > 0.0).chain([0.0]).collect()
    }

    /// One pair, in all lanes.
    struct Pair {
        filter: Filter<f32>,
        d: f32,
        m: f32,
        bound: f32,
    }

    impl LanesTask<f32> for Pair {
        type Output = Signs<f32>;
        #[inline(always)]
        fn run<L: Lanes<Number = f32>>(self, set: L::Set) -> Signs<f32> {
            let mut filter = self.filter.lanes::<L>(set);
            let m = L::splat(set, self.m);
            filter.test(L::splat(set, self.d), m, L::splat(set, self.bound), L::less(L::splat(set, 0.0), m));
            filter.signs()
        }
    }

    fn fires(rule: &Rule<f32>, maxima: &Maxima, d: f32, m: f32) -> bool {
        let filter = Filter::new(rule, maxima);
        let fires = |set: &InstructionSet| filter.fired(set.run_lanes(Pair { filter, d, m, bound: rule.bound(rule.rtol, m, rule.atol) }));
        let [others, ratio] = filter.test(rule, d, m, rule.bound(rule.rtol, m, rule.atol));
        let all: Vec<bool> = InstructionSet::all().iter().map(fires).chain([filter.fired(Filter::signs(others, ratio))]).collect();
        assert!(all.iter().all(|fires| *fires == all[0]), "{d:e} {m:e}: {all:?}");
        all[0]
    }

    /// The metrics of a pair as maxima, with one of them lower by anything, from the next value below on.
    fn lower_maxima(own: Maxima, metric: Metric, m: f32) -> impl Iterator<Item = Maxima> {
        let value = own[metric as usize];
        let below = if metric == Metric::Epsilon { value.next_down() } else { f64::from((value as f32).next_down()) };
        let lower = [below, 0.999 * value, value / 3.0, 0.0].into_iter().filter(move |lower| (0.0..value).contains(lower));
        lower.map(move |lower| {
            let mut maxima = own;
            maxima[metric as usize] = lower;
            if metric == Metric::Relative && m > f32::SMALL {
                // The maximum of larger references is not above that of all.
                maxima[Metric::RelativeOld as usize] = lower;
            }
            maxima
        })
    }

    /// Each metric of each pair, by formats with binades from 2^-126 and from 2^-6: fires when a maximum is lower by anything, and
    /// not when all maxima are those of the pair.
    #[test]
    fn no_larger_quotient_is_missed_and_equal_ones_do_not_fire() {
        let numbers = numbers();
        for (dtype, [rtol, atol]) in [(DType::F32, [1e-3, 1e-3]), (DType::F32, [1e-3, 0.0]), (DType::F8E4M3, [0.0, 0.1])] {
            let rule = Rule::<f32>::new(&Request { rtol, atol, ..REQUEST }, dtype);
            for (d, m) in numbers.iter().flat_map(|&d| numbers.iter().map(move |&m| (d, m))) {
                let mut own = rule.metrics(d, m);
                own[Metric::Epsilon as usize] = rule.binades_apart(d, m, rule.binades());
                for metric in [Metric::Relative, Metric::RelativeOld, Metric::Epsilon, Metric::Ratio] {
                    for maxima in lower_maxima(own, metric, m) {
                        let [value, lower] = [own, maxima].map(|metrics| metrics[metric as usize]);
                        assert!(
                            fires(&rule, &maxima, d, m),
                            "{dtype} {rtol} {atol}: {d:e} from {m:e} has {metric:?} {value:e}, more than {lower:e}"
                        );
                    }
                }
                // Of scaled numbers that overflow, and of the least ones, more fire.
                let plain = (1e-20..1e20).contains(&d) && (m == 0.0 || (2e-3..1e20).contains(&m));
                assert!(!(plain && fires(&rule, &own, d, m)), "{dtype} {rtol} {atol}: {d:e} from {m:e}, whose metrics are the maxima");
            }
        }
    }
}
