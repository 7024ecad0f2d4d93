//! The first pass: values only, each block read once.

use super::bins::{Bins, Ends};
use super::filter::Filter;
use super::measure::{Add, AddTurns, Classified, Classify, Quotients, TileSums};
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

/// Blocks in which non-finite pairs are left out after one that has some: they rarely come alone.
const CAREFUL: usize = 64;

/// Both sides of a block, and what sums, quotients and histograms are made of.
struct Blocks<'a, T> {
    result: Side<'a, T>,
    reference: Side<'a, T>,
    set: InstructionSet,
    rule: Rule<T>,
    /// The next blocks for which non-finite pairs are left out at once.
    careful: usize,
    /// |a - r| and |r|, when all metrics are wanted; zeros where a side is not finite.
    d: Box<[T; BLOCK]>,
    m: Box<[T; BLOCK]>,
    /// Indices, empty between blocks.
    left_out: Vec<usize>,
}

impl<T: Number> Blocks<'_, T> {
    /// Reads a block. Returns what was found of the pairs whose difference is finite, and how many they are; `values` takes the others.
    fn read<const ALL: bool>(&mut self, start: usize, count: usize, filter: Filter<T>, values: &mut Values) -> (Classified<T>, u64) {
        let (set, rule, d, m, left_out) = (self.set, self.rule, &mut *self.d, &mut *self.m, &mut self.left_out);
        let (result, reference) = (self.result.source(set, start, count), self.reference.source(set, start, count));
        if self.careful == 0 {
            let found = Classify::<T, ALL, false> { result, reference, rule, filter, d, m, left_out }.by(set);
            if found.difference.finite() {
                return (found, count as u64);
            }
        }
        let found = Classify::<T, ALL, true> { result, reference, rule, filter, d, m, left_out }.by(set);
        let others = left_out.len();
        self.careful = if others > 0 { CAREFUL } else { self.careful.saturating_sub(1) };
        for i in left_out.drain(..) {
            (d[i], m[i]) = values.observe(&rule, result.at(i), reference.at(i));
        }
        (found, (count - others) as u64)
    }

    /// Adds the block to the accumulators of its tile.
    fn add(&self, to: &mut Accumulators<T>, vector: usize) {
        if vector > ACCUMULATORS && !self.set.is_plain() {
            self.set.run_lanes(AddTurns { to, d: &self.d, m: &self.m, vector });
        } else {
            self.add_wide(to, vector);
        }
    }

    /// The same for any accumulators.
    fn add_wide<W: Number>(&self, to: &mut Accumulators<W>, vector: usize) {
        self.set.run(Add { to, d: &self.d, m: &self.m, vector });
    }
}

/// The worker of f32 and f64.
pub(super) struct Floats<'a, T> {
    blocks: Blocks<'a, T>,
    /// V of the sums.
    vector: usize,
    /// The maximum of the epsilon difference is d / 2^e here.
    values: Values,
    filter: Filter<T>,
    /// Of histograms, if they are wanted.
    ends: Option<Ends<T>>,
}

impl<'a, T: Number> Floats<'a, T> {
    pub(super) fn new(result: &TensorRef<'a>, reference: &TensorRef<'a>, request: &Request, set: InstructionSet) -> Floats<'a, T> {
        let rule = Rule::new(request, result.dtype());
        let values = Values { histograms: request.histograms.then_some([0; BINS]), ..Values::EMPTY };
        let zeros = || Box::new([T::ZERO; BLOCK]);
        Floats {
            blocks: Blocks {
                result: Side::new(result),
                reference: Side::new(reference),
                set,
                rule,
                careful: 0,
                d: zeros(),
                m: zeros(),
                left_out: Vec::new(),
            },
            vector: sums::vector_width(result.dtype(), reference.dtype()),
            filter: Filter::new(&rule, &values.maxima),
            values,
            ends: request.histograms.then(|| Ends::new(&rule)),
        }
    }

    /// Measures a block: counts, maxima, histograms.
    fn measure<const ALL: bool>(&mut self, start: usize, count: usize) {
        let Floats { blocks, values, filter, ends, .. } = self;
        let (found, pairs) = blocks.read::<ALL>(start, count, *filter, values);
        let (set, rule, d, m) = (blocks.set, blocks.rule, &*blocks.d, &*blocks.m);
        values.mismatches += found.mismatches;
        for side in 0..2 {
            values.max_magnitude[side] = values.max_magnitude[side].max(found.largest[side].wide());
        }
        values.maxima[Metric::Absolute as usize] = values.maxima[Metric::Absolute as usize].max(found.difference.wide());
        if !ALL {
            return;
        }
        values.zero_passes += pairs - found.zeros_fail;
        for side in 0..2 {
            values.zeros[side] += pairs - found.nonzero[side];
        }
        if filter.fired(found.signs) {
            values.join_maxima(set.run(Quotients { d, m, rule }));
            *filter = Filter::new(&rule, &values.maxima);
        }
        if let (Some(to), Some(ends)) = (&mut values.histograms, ends) {
            set.run_lanes(Bins { to, d, m, rule, ends });
        }
    }

    /// The sums of a tile for which T has no range: |a - r| and |r| again, added in f64.
    fn wide_sums(&mut self, start: usize, count: usize) -> Sums {
        let (mut acc, mut counted) = (empty::<f64>(), Values::EMPTY);
        for (at, count) in blocks_of(start, count) {
            self.blocks.read::<true>(at, count, self.filter, &mut counted);
            self.blocks.add_wide(&mut acc, self.vector);
        }
        self.tile_sums(&acc).unwrap_or_default()
    }

    fn tile_sums<W: Number>(&self, of: &Accumulators<W>) -> Option<Sums> {
        self.blocks.set.run(TileSums { of, accumulators: ACCUMULATORS.min(self.vector) })
    }
}

impl<T: Number> Worker for Floats<'_, T> {
    fn tile(&mut self, start: usize, count: usize) -> Sums {
        if !self.blocks.rule.all {
            blocks_of(start, count).for_each(|(at, count)| self.measure::<false>(at, count));
            return [0.0; SUMS];
        }
        let mut acc = empty::<T>();
        for (at, count) in blocks_of(start, count) {
            self.measure::<true>(at, count);
            self.blocks.add(&mut acc, self.vector);
        }
        self.tile_sums(&acc).unwrap_or_else(|| self.wide_sums(start, count))
    }

    fn values(&self) -> Values {
        let mut values = self.values;
        let epsilon = &mut values.maxima[Metric::Epsilon as usize];
        *epsilon = self.blocks.rule.epsilons(*epsilon);
        values
    }
}

/// Begin and size of the blocks of a tile.
fn blocks_of(start: usize, count: usize) -> impl Iterator<Item = (usize, usize)> {
    let end = start + count;
    (start..end).step_by(BLOCK).map(move |at| (at, BLOCK.min(end - at)))
}

fn empty<T: Number>() -> Accumulators<T> {
    [[T::ZERO; sums::LINE]; SUMS]
}
