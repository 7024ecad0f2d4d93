//! The first pass: values only, each block read once.

use super::bins::Bins;
use super::filter::Filter;
use super::measure::{Add, Classified, Classify, Nonfinite, Quotients, RUN, TileSums};
use super::number::Number;
use super::side::{BLOCK, Side};
use crate::device::TensorRef;
use crate::simd::InstructionSet;
use crate::verify::histogram::BINS;
use crate::verify::options::Request;
use crate::verify::rule::Rule;
use crate::verify::sums::{self, ACCUMULATORS, Accumulators, SUMS, Sums};
use crate::verify::values::{Metric, Values};

/// What one worker of the first pass does, and what it found.
pub(super) trait Worker {
    /// Takes `count` elements from `start`, all of one tile; returns its sums.
    fn tile(&mut self, start: usize, count: usize) -> Sums;
    /// What was found so far, but for the sums.
    fn values(&self) -> Values;
}

/// Blocks that are measured with checks for non-finite pairs after one that has some: they rarely come alone.
const CAREFUL: usize = 64;

/// The worker of f32 and f64.
pub(super) struct Floats<'a, T> {
    result: Side<'a, T>,
    reference: Side<'a, T>,
    set: InstructionSet,
    rule: Rule<T>,
    /// V of the sums.
    vector: usize,
    /// The maximum of the epsilon difference is d / 2^e here.
    values: Values,
    filter: Filter<T>,
    careful: usize,
    /// The pairs of a block with zeros for those that are not finite.
    finite: [Box<[T; BLOCK]>; 2],
    d: Box<[T; BLOCK]>,
    m: Box<[T; BLOCK]>,
}

impl<'a, T: Number> Floats<'a, T> {
    pub(super) fn new(result: &TensorRef<'a>, reference: &TensorRef<'a>, request: &Request, set: InstructionSet) -> Floats<'a, T> {
        let vector = sums::vector_width(result.dtype(), reference.dtype());
        let rule = Rule::new(request, result.dtype());
        let values = Values { histograms: request.histograms.then_some([0; BINS]), ..Values::EMPTY };
        Floats {
            result: Side::new(result),
            reference: Side::new(reference),
            set,
            rule,
            vector,
            filter: Filter::new(&rule, &values.maxima),
            values,
            careful: 0,
            finite: std::array::from_fn(|_| Box::new([T::ZERO; BLOCK])),
            d: Box::new([T::ZERO; BLOCK]),
            m: Box::new([T::ZERO; BLOCK]),
        }
    }

    /// Measures a block; `d` and `m` hold |a - r| and |r| then, when all metrics are wanted.
    fn block(&mut self, start: usize, count: usize) {
        if self.rule.all { self.measure::<true>(start, count) } else { self.measure::<false>(start, count) }
    }

    fn measure<const ALL: bool>(&mut self, start: usize, count: usize) {
        if self.careful > 0 {
            self.result.prefetch_in_place(start);
            self.reference.prefetch_in_place(start);
        }
        let [result, reference] = [self.result.block(start, count), self.reference.block(start, count)];
        let (set, rule, filter, d, m) = (self.set, self.rule, self.filter, &mut *self.d, &mut *self.m);
        let mut classify = |result, reference| set.run(Classify::<T, ALL> { result, reference, rule, filter, d, m });
        if self.careful == 0 {
            let found = classify(result, reference);
            if found.difference < T::INFINITE {
                return self.take::<ALL>(found, count as u64);
            }
            self.careful = CAREFUL;
        }
        self.careful -= 1;
        let runs = set.run(Nonfinite { pairs: [result, reference], finite: self.finite.each_mut().map(|x| &mut **x) });
        let found = classify(&self.finite[0], &self.finite[1]);
        if runs != 0 {
            self.careful = CAREFUL;
        }
        let nonfinite = observe_nonfinite(runs, &rule, result, reference, &mut self.values);
        self.take::<ALL>(found, count as u64 - nonfinite);
    }

    /// Takes the counts of a block of `finite` pairs, and its maxima if they may exceed those so far.
    fn take<const ALL: bool>(&mut self, found: Classified<T::Bits>, finite: u64) {
        let values = &mut self.values;
        let wide = |bits: T::Bits| T::from_bits(bits).wide();
        values.mismatches += found.mismatches.into();
        for side in 0..2 {
            values.max_magnitude[side] = values.max_magnitude[side].max(wide(found.largest[side]));
        }
        values.maxima[Metric::Absolute as usize] = values.maxima[Metric::Absolute as usize].max(wide(found.difference));
        if !ALL {
            return;
        }
        values.zero_passes += finite - found.zeros_fail.into();
        for side in 0..2 {
            values.zeros[side] += finite - found.nonzero[side].into();
        }
        if self.filter.fired(found.signs) {
            values.join_maxima(self.set.run(Quotients { d: &self.d, m: &self.m, rule: self.rule }));
            self.filter = Filter::new(&self.rule, &values.maxima);
        }
        if let Some(to) = &mut values.histograms {
            self.set.run(Bins { to, d: &self.d, m: &self.m, rule: self.rule });
        }
    }

    /// The sums of a tile for which T has no range: |a - r| and |r| again, added in f64.
    fn wide_sums(&mut self, start: usize, count: usize) -> Sums {
        let mut acc = empty::<f64>();
        for at in (start..start + count).step_by(BLOCK) {
            let count = BLOCK.min(start + count - at);
            let pairs = [self.result.block(at, count), self.reference.block(at, count)];
            self.set.run(Nonfinite { pairs, finite: self.finite.each_mut().map(|x| &mut **x) });
            let ([result, reference], d, m) = (&self.finite, &mut *self.d, &mut *self.m);
            self.set.run(Classify::<T, true> { result, reference, rule: self.rule, filter: self.filter, d, m });
            self.set.run(Add { to: &mut acc, d, m, vector: self.vector });
        }
        self.set.run(TileSums { of: &acc, accumulators: ACCUMULATORS.min(self.vector) }).unwrap_or_default()
    }
}

impl<T: Number> Worker for Floats<'_, T> {
    fn tile(&mut self, start: usize, count: usize) -> Sums {
        let mut acc = empty::<T>();
        for at in (start..start + count).step_by(BLOCK) {
            self.block(at, BLOCK.min(start + count - at));
            if self.rule.all {
                self.set.run(Add { to: &mut acc, d: &self.d, m: &self.m, vector: self.vector });
            }
        }
        if !self.rule.all {
            return [0.0; SUMS];
        }
        self.set.run(TileSums { of: &acc, accumulators: ACCUMULATORS.min(self.vector) }).unwrap_or_else(|| self.wide_sums(start, count))
    }

    fn values(&self) -> Values {
        let mut values = self.values;
        let epsilon = &mut values.maxima[Metric::Epsilon as usize];
        *epsilon = self.rule.epsilons(*epsilon);
        values
    }
}

fn empty<T: Number>() -> Accumulators<T> {
    [[T::ZERO; sums::LINE]; SUMS]
}

/// Takes the pairs of a block that are not finite, one by one, from the runs that have some; tells how many there are.
fn observe_nonfinite<T: Number>(mut runs: u32, rule: &Rule<T>, a: &[T; BLOCK], r: &[T; BLOCK], values: &mut Values) -> u64 {
    let mut pairs = 0;
    while runs != 0 {
        let run = runs.trailing_zeros() as usize * RUN;
        for i in (run..run + RUN).filter(|&i| !(a[i].finite() && r[i].finite())) {
            values.observe(rule, a[i], r[i]);
            pairs += 1;
        }
        runs &= runs - 1;
    }
    pairs
}
