//! Histograms of a block. Each is a loop that counts, for every bin, the values in it or beyond it: comparisons only, whatever the data.

use super::filter::floor;
use super::number::Number;
use super::side::BLOCK;
use crate::dtype::exp2;
use crate::simd::{Task, array};
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
        self.add_all::<false>();
    }
    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn run_avx512(self, _set: crate::simd::Avx512) {
        self.add_all::<true>();
    }
}

impl<T: Number> Bins<'_, T> {
    #[inline(always)]
    fn add_all<const AVX512: bool>(self) {
        let (relative, rest) = self.to.split_at_mut(RELATIVE.len());
        let (epsilon, ratio) = rest.split_at_mut(EPSILON.len());
        add::<T>(relative, &relative_beyond::<T, AVX512>(self.d, self.m));
        add::<T>(epsilon, &epsilon_beyond::<T, AVX512>(self.d, self.m, &self.rule));
        add::<T>(ratio, &ratio_beyond::<T, AVX512>(self.d, self.m, &self.rule));
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
fn relative_beyond<T: Number, const AVX512: bool>(d: &[T; BLOCK], m: &[T; BLOCK]) -> [T::Bits; RELATIVE.len()] {
    let ends: [T; RELATIVE_ENDS.len()] = array(|k| ceiling(RELATIVE_ENDS[k]));
    let (none, one) = (T::Bits::default(), T::one::<AVX512>());
    let mut beyond = [none; RELATIVE.len()];
    for i in 0..BLOCK {
        let (d, m) = (d[i], m[i]);
        let binned = (d > T::ZERO) & (m > T::SMALL);
        let quotient = if binned { d / m } else { T::ZERO };
        beyond[0] += if binned { one } else { none };
        beyond[1] += if quotient > T::ZERO { one } else { none };
        for k in 0..ends.len() {
            beyond[k + 2] += if quotient >= ends[k] { one } else { none };
        }
    }
    beyond
}

#[inline(always)]
fn epsilon_beyond<T: Number, const AVX512: bool>(d: &[T; BLOCK], m: &[T; BLOCK], rule: &Rule<T>) -> [T::Bits; EPSILON.len()] {
    // d / s >= end means d - end 2^-p 2^e >= 0, of which one fused operation gives the sign: 0 only when it is 0, else -0.
    let [_, ends @ ..] = EPSILON_ENDS;
    let ends = ends.map(|end| T::from_f64(-end * exp2(-rule.grid.mantissa_bits)));
    let binades = rule.binades();
    let (none, one) = (T::Bits::default(), T::one::<AVX512>());
    let mut beyond = [none; EPSILON.len()];
    for i in 0..BLOCK {
        let (d, m) = (d[i], m[i]);
        let differs = d > T::ZERO;
        // Where nothing differs, the least one would make products that processors are slow with.
        let e = if differs { rule.clamped_binade(m, binades) } else { T::MAX };
        beyond[0] += if differs { one } else { none };
        for k in 0..ends.len() {
            beyond[k + 2] += if ends[k].fused(e, d).bits() < T::SIGN { one } else { none };
        }
    }
    // A pair that differs is at least in the bin of 1.
    beyond[1] = beyond[0];
    beyond
}

#[inline(always)]
fn ratio_beyond<T: Number, const AVX512: bool>(d: &[T; BLOCK], m: &[T; BLOCK], rule: &Rule<T>) -> [T::Bits; RATIO.len()] {
    let ends: [T; RATIO_ENDS.len()] = array(|k| floor(RATIO_ENDS[k]));
    let (none, one) = (T::Bits::default(), T::one::<AVX512>());
    let mut beyond = [none; RATIO.len()];
    for i in 0..BLOCK {
        let (d, m) = (d[i], m[i]);
        let differs = d > T::ZERO;
        let ratio = if differs { d / rule.bound(rule.rtol, m, rule.atol) } else { T::ZERO };
        beyond[0] += if differs { one } else { none };
        beyond[1] += if ratio > T::ZERO { one } else { none };
        for k in 0..ends.len() {
            beyond[k + 2] += if ratio > ends[k] { one } else { none };
        }
    }
    beyond
}
