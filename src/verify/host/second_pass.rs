//! The second pass: where the maxima are, and what depends on single elements. Both tensors are read again, in logical order.
//!
//! A block is taken element by element, by the rule, only if a loop finds that one of its elements may matter:
//!
//! * its quotient may be the maximum: round(d / m) = M means that d / m is not below the number before M, call it L, so that
//!   fma(-L, m, d) >= 0. Once a worker has the first such element it asks no more;
//! * it does not pass with the largest of the smallest tolerances so far;
//! * its distance in ulps exceeds the largest so far.

use super::filter::floor;
use super::integers::Pairs;
use super::number::{Number, ordinals};
use super::side::{BLOCK, Side};
use crate::device::TensorRef;
use crate::dtype::{DType, exp2};
use crate::simd::{InstructionSet, Task};
use crate::verify::options::Request;
use crate::verify::rule::{IntRule, Rule, distance, magnitude};
use crate::verify::values::{Explanation, Found, Maxima, Metric, Values};

/// What one worker of the second pass does, and what it found. Blocks come in ascending order.
pub(super) trait Worker {
    /// Takes a block of elements.
    fn block(&mut self, start: usize, count: usize);
    /// The elements of a block that do not pass.
    fn mismatches(&mut self, start: usize, count: usize) -> Vec<usize>;
    fn explanation(self) -> Explanation;
}

/// Element `index` of both tensors.
pub(super) fn found(tensors: &[TensorRef<'_>; 2], index: usize) -> Found {
    let bits = tensors.each_ref().map(|t| t.dtype().load_bits(t.host_bytes(), t.layout().index(index)));
    Found { index: index as u64, bits }
}

/// The worker of f32 and f64.
pub(super) struct Floats<'a, T: Number> {
    tensors: [TensorRef<'a>; 2],
    result: Side<'a, T>,
    reference: Side<'a, T>,
    set: InstructionSet,
    rule: Rule<T>,
    maxima: Maxima,
    explanation: Explanation,
    ordinals: [Box<[T::Ordinal; BLOCK]>; 2],
}

impl<'a, T: Number> Floats<'a, T> {
    pub(super) fn new(tensors: [TensorRef<'a>; 2], request: &Request, values: &Values, set: InstructionSet) -> Floats<'a, T> {
        let [result, reference] = tensors.each_ref().map(|t| Side::new(t));
        let rule = Rule::new(request, tensors[0].dtype());
        let ordinals = std::array::from_fn(|_| Box::new([T::Ordinal::default(); BLOCK]));
        Floats { tensors, result, reference, set, rule, maxima: values.maxima, explanation: Explanation::EMPTY, ordinals }
    }

    fn search(&self) -> Search<T> {
        let e = &self.explanation;
        let low = |metric: Metric, scale: f64| {
            let maximum = self.maxima[metric as usize];
            match () {
                _ if maximum == 0.0 || e.worst[metric as usize].is_some() => T::from_f64(f64::INFINITY),
                // Not what overflowed on the way.
                _ if maximum == f64::INFINITY => T::ZERO,
                _ => floor::<T>(maximum * scale).next_down(),
            }
        };
        let cap = |passing: f64| if passing == f64::INFINITY { T::from_f64(passing) } else { T::MAX };
        Search {
            rule: self.rule,
            binades: self.rule.binades(),
            absolute: low(Metric::Absolute, 1.0),
            relative: low(Metric::Relative, 1.0),
            relative_old: low(Metric::RelativeOld, 1.0),
            epsilon: low(Metric::Epsilon, exp2(-self.rule.grid.mantissa_bits)),
            ratio: low(Metric::Ratio, 1.0),
            rtol: T::from_f64(e.passing_rtol),
            atol: T::from_f64(e.passing_atol),
            caps: [cap(e.passing_rtol), cap(e.passing_atol)],
        }
    }

    /// The formats by which ordinals are counted. Of two integer formats with f64 the numbers themselves are the ordinals, as in i32: one of the formats has 32 bits, or more and small numbers.
    fn counted(&self) -> [DType; 2] {
        let dtypes = self.tensors.each_ref().map(TensorRef::dtype);
        let whole = T::DTYPE == DType::F64 && dtypes.iter().all(|dtype| dtype.is_int());
        if whole { [DType::I32; 2] } else { dtypes }
    }

    /// The distance of the ordinals of element `i` of the block.
    fn ulps(&self, i: usize) -> f64 {
        let ulps: u64 = T::ulps(self.ordinals[0][i], self.ordinals[1][i]).into();
        ulps as f64
    }

    /// Takes element `i` of a block, which differs.
    fn observe(&mut self, index: usize, i: usize, d: T, m: T, exceeds: bool) {
        let found = found(&self.tensors, index);
        let ulps = if self.rule.all { self.ulps(i) } else { 0.0 };
        let passing = if exceeds { self.rule.passing(d, m) } else { [0.0; 2] };
        self.explanation.observe(found, &self.maxima, &self.rule.metrics(d, m), ulps, passing);
    }

    /// Takes the elements of a block one by one, if they may matter.
    fn scan(&mut self, start: usize, count: usize) {
        // Copied: a block may lie in memory of the sides.
        let (a, r) = (*self.result.block(start, count), *self.reference.block(start, count));
        let all = self.rule.all;
        let mut search = self.search();
        for i in (0..count).filter(|&i| a[i] != r[i] && a[i].finite() && r[i].finite()) {
            let (d, m) = ((a[i] - r[i]).magnitude(), r[i].magnitude());
            let exceeds = all && search.exceeds(d, m);
            let farther = all && self.ulps(i) > self.explanation.ulps;
            if exceeds || farther || d > search.absolute || all && search.may_have_a_maximum(d, m) {
                self.observe(start + i, i, d, m, exceeds);
                search = self.search();
            }
        }
    }
}

impl<T: Number> Worker for Floats<'_, T> {
    fn block(&mut self, start: usize, count: usize) {
        let search = self.search();
        let [da, dr] = self.counted();
        let all = self.rule.all;
        let [of_a, of_r] = &mut self.ordinals;
        let words = [DType::I64, DType::U64].contains(&da);
        if all && words {
            self.result.word_ordinals(start, count, of_a);
        }
        let (a, r) = (self.result.block(start, count), self.reference.block(start, count));
        let mut matters = self.set.run(Matters { result: a, reference: r, search, all });
        if all {
            if !words {
                ordinals(self.set, da, da, a, of_a);
            }
            ordinals(self.set, da, dr, r, of_r);
            let farthest: u64 = self.set.run(Farthest { result: a, reference: r, ordinals: [of_a, of_r] }).into();
            matters |= farthest as f64 > self.explanation.ulps;
        }
        if matters {
            self.scan(start, count);
        }
    }

    fn mismatches(&mut self, start: usize, count: usize) -> Vec<usize> {
        let (a, r) = (self.result.block(start, count), self.reference.block(start, count));
        let rule = &self.rule;
        (0..count).filter(|&i| rule.fails(a[i], r[i])).map(|i| start + i).collect()
    }

    fn explanation(self) -> Explanation {
        self.explanation
    }
}

/// What elements are searched for. A number before a maximum is infinite when nobody searches for it any more.
#[derive(Clone, Copy)]
struct Search<T> {
    rule: Rule<T>,
    binades: [T; 2],
    absolute: T,
    relative: T,
    relative_old: T,
    epsilon: T,
    ratio: T,
    /// The largest of the smallest tolerances so far.
    rtol: T,
    atol: T,
    /// The largest bound with these: infinite when nothing passes, so that nothing is asked about again.
    caps: [T; 2],
}

impl<T: Number> Search<T> {
    /// Whether an element needs a larger tolerance than those so far.
    #[inline(always)]
    fn exceeds(&self, d: T, m: T) -> bool {
        let base = self.rule.base(m);
        let by_rtol = self.rtol.fused(base, self.rule.atol);
        let by_atol = self.rule.rtol.fused(base, self.atol);
        let [most_rtol, most_atol] = self.caps;
        let by_rtol = if by_rtol < most_rtol { by_rtol } else { most_rtol };
        let by_atol = if by_atol < most_atol { by_atol } else { most_atol };
        (d > by_rtol) | (d > by_atol)
    }

    #[inline(always)]
    fn may_have_a_maximum(&self, d: T, m: T) -> bool {
        let near = |low: T, m: T| low.negated().fused(m, d) >= T::ZERO;
        // Where nothing differs, the least one would make products that processors are slow with.
        let e = if d > T::ZERO { self.rule.clamped_binade(m, self.binades) } else { T::MAX };
        let bound = self.rule.bound(self.rule.rtol, m, self.rule.atol);
        let relative = (m > T::ZERO) & near(self.relative, m) | (m > T::SMALL) & near(self.relative_old, m);
        relative | near(self.ratio, bound) | near(self.epsilon, e)
    }
}

/// Whether a block has an element that is searched for.
struct Matters<'a, T> {
    result: &'a [T; BLOCK],
    reference: &'a [T; BLOCK],
    search: Search<T>,
    all: bool,
}

impl<T: Number> Task for Matters<'_, T> {
    type Output = bool;
    #[inline(always)]
    fn run(self) -> bool {
        let mut found = T::Bits::default();
        for i in 0..BLOCK {
            let (a, r) = (self.result[i], self.reference[i]);
            let finite = a.magnitude().bits().max(r.magnitude().bits()) < T::INFINITE;
            let (d, m) = ((a - r).magnitude(), r.magnitude());
            let metric = self.all & (self.search.may_have_a_maximum(d, m) | self.search.exceeds(d, m));
            found |= T::Bits::from(finite & (d > T::ZERO) & (metric | (d > self.search.absolute)));
        }
        found > T::Bits::default()
    }
}

/// The largest distance of ordinals in a block, over finite pairs that differ: f64 does not tell all integers of 64 bits apart.
struct Farthest<'a, T: Number> {
    result: &'a [T; BLOCK],
    reference: &'a [T; BLOCK],
    ordinals: [&'a [T::Ordinal; BLOCK]; 2],
}

impl<T: Number> Task for Farthest<'_, T> {
    type Output = T::Bits;
    #[inline(always)]
    fn run(self) -> T::Bits {
        let [x, y] = self.ordinals;
        let mut farthest = T::Bits::default();
        for i in 0..BLOCK {
            let (a, r) = (self.result[i], self.reference[i]);
            let finite = a.magnitude().bits().max(r.magnitude().bits()) < T::INFINITE;
            farthest = farthest.max(if finite & (a != r) { T::ulps(x[i], y[i]) } else { T::Bits::default() });
        }
        farthest
    }
}

/// The worker of integers where one format has 64 bits; blocks of small numbers are left to the one of f64.
pub(super) struct Integers<'a> {
    tensors: [TensorRef<'a>; 2],
    pairs: Pairs<'a>,
    floats: Floats<'a, f64>,
    rule: IntRule,
    maxima: Maxima,
    explanation: Explanation,
}

impl<'a> Integers<'a> {
    pub(super) fn new(tensors: [TensorRef<'a>; 2], request: &Request, values: &Values, set: InstructionSet) -> Integers<'a> {
        Integers {
            pairs: Pairs::new(&tensors[0], &tensors[1]),
            floats: Floats::new(tensors.clone(), request, values, set),
            tensors,
            rule: IntRule::new(request),
            maxima: values.maxima,
            explanation: Explanation::EMPTY,
        }
    }
}

impl Worker for Integers<'_> {
    fn block(&mut self, start: usize, count: usize) {
        if self.pairs.are_small(start, count) {
            return self.floats.block(start, count);
        }
        for (i, (a, r)) in self.pairs.read(start, count).enumerate().filter(|(_, (a, r))| a != r) {
            let (d, m) = (distance(a, r), magnitude(r));
            let metrics = self.rule.metrics(d, m);
            let e = &mut self.explanation;
            let (mut ulps, mut passing) = (0.0, [0.0; 2]);
            let mut matters = metrics.iter().zip(&self.maxima).zip(&e.worst).any(|((x, most), worst)| x == most && worst.is_none());
            if self.rule.all {
                ulps = d as f64;
                let [rtol, atol] = [e.passing_rtol, e.passing_atol];
                let needs_more = |passing: f64, rule: IntRule| passing < f64::INFINITY && !rule.passes(d, m as f64);
                let exceeds = needs_more(rtol, IntRule { rtol, ..self.rule }) || needs_more(atol, IntRule { atol, ..self.rule });
                if exceeds {
                    passing = self.rule.passing(d, m);
                }
                matters |= exceeds || ulps > e.ulps;
            }
            if matters {
                e.observe(found(&self.tensors, start + i), &self.maxima, &metrics, ulps, passing);
            }
        }
    }

    fn mismatches(&mut self, start: usize, count: usize) -> Vec<usize> {
        let rule = self.rule;
        let fails = |(_, (a, r)): &(usize, (i128, i128))| !rule.passes(distance(*a, *r), magnitude(*r) as f64);
        self.pairs.read(start, count).enumerate().filter(fails).map(|(i, _)| start + i).collect()
    }

    fn explanation(self) -> Explanation {
        let mut explanation = self.explanation;
        explanation.join(&self.floats.explanation());
        explanation
    }
}
