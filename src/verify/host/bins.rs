//! Histograms of a block. Each is a loop that counts, for every bin, the values in it or beyond it: comparisons only, whatever the data.

use super::filter::floor;
use super::number::Number;
use super::side::BLOCK;
use crate::dtype::exp2;
use crate::simd::{Task, array, pairs};
use crate::verify::histogram::{Counters, EPSILON, EPSILON_ENDS, RATIO, RATIO_ENDS, RELATIVE, RELATIVE_ENDS};
use crate::verify::rule::Rule;

/// Adds the pairs of a block that differ.
pub(super) struct Bins<'a, T> {
    pub to: &'a mut Counters,
    pub d: &'a [T; BLOCK],
    pub m: &'a [T; BLOCK],
    pub rule: Rule<T>,
}

impl<T: Number> Task for Bins<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let (relative, rest) = self.to.split_at_mut(RELATIVE.len());
        let (epsilon, ratio) = rest.split_at_mut(EPSILON.len());
        add::<T>(relative, &relative_beyond(self.d, self.m));
        add::<T>(epsilon, &epsilon_beyond(self.d, self.m, &self.rule));
        add::<T>(ratio, &ratio_beyond(self.d, self.m, &self.rule));
    }
}

/// `beyond[k]` values are in bin k or a later one.
fn add<T: Number>(counters: &mut [u64], beyond: &[T::Bits]) {
    let after = beyond.iter().skip(1).map(|n| (*n).into()).chain([0]);
    for ((counter, n), after) in counters.iter_mut().zip(beyond).zip(after) {
        *counter += (*n).into() - after;
    }
}

/// Quotients are numbers of the arithmetic: at least an f64 means at least the next of these.
fn ceiling<T: Number>(x: f64) -> T {
    let near = T::from_f64(x);
    if near.wide() < x { near.next_up() } else { near }
}

#[inline(always)]
fn relative_beyond<T: Number>(d: &[T; BLOCK], m: &[T; BLOCK]) -> [T::Bits; RELATIVE.len()] {
    let ends: [T; RELATIVE_ENDS.len()] = array(|k| ceiling(RELATIVE_ENDS[k]));
    let mut beyond = [T::Bits::default(); RELATIVE.len()];
    pairs(d, m, |d, m| {
        let binned = (d > T::ZERO) & (m > T::SMALL);
        let quotient = if binned { d / m } else { T::ZERO };
        beyond[0] += T::Bits::from(binned);
        beyond[1] += T::Bits::from(quotient > T::ZERO);
        for k in 0..ends.len() {
            beyond[k + 2] += T::Bits::from(quotient >= ends[k]);
        }
    });
    beyond
}

#[inline(always)]
fn epsilon_beyond<T: Number>(d: &[T; BLOCK], m: &[T; BLOCK], rule: &Rule<T>) -> [T::Bits; EPSILON.len()] {
    // d / s >= end means d - end 2^-p 2^e >= 0, of which one fused operation gives the sign: 0 only when it is 0, else -0.
    let [_, ends @ ..] = EPSILON_ENDS;
    let ends = ends.map(|end| T::from_f64(-end * exp2(-rule.grid.mantissa_bits)));
    let binades = rule.binades();
    let mut beyond = [T::Bits::default(); EPSILON.len()];
    pairs(d, m, |d, m| {
        let differs = d > T::ZERO;
        // Where nothing differs, the least one would make products that processors are slow with.
        let e = if differs { rule.clamped_binade(m, binades) } else { T::MAX };
        beyond[0] += T::Bits::from(differs);
        for k in 0..ends.len() {
            beyond[k + 2] += T::Bits::from(ends[k].fused(e, d).bits() < T::SIGN);
        }
    });
    // A pair that differs is at least in the bin of 1.
    beyond[1] = beyond[0];
    beyond
}

#[inline(always)]
fn ratio_beyond<T: Number>(d: &[T; BLOCK], m: &[T; BLOCK], rule: &Rule<T>) -> [T::Bits; RATIO.len()] {
    let ends: [T; RATIO_ENDS.len()] = array(|k| floor(RATIO_ENDS[k]));
    let mut beyond = [T::Bits::default(); RATIO.len()];
    pairs(d, m, |d, m| {
        let differs = d > T::ZERO;
        let ratio = if differs { d / rule.bound(rule.rtol, m, rule.atol) } else { T::ZERO };
        beyond[0] += T::Bits::from(differs);
        beyond[1] += T::Bits::from(ratio > T::ZERO);
        for k in 0..ends.len() {
            beyond[k + 2] += T::Bits::from(ratio > ends[k]);
        }
    });
    beyond
}
