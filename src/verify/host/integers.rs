//! Pairs of integer formats of which one has 64 bits: exact, one element after the other; or by the loops of f64 where the numbers are so small that these are exact as well.

use super::first_pass::{Floats, Worker};
use super::side::BLOCK;
use crate::device::TensorRef;
use crate::device::reader::Reader;
use crate::dtype::{DType, convert};
use crate::simd::InstructionSet;
use crate::verify::histogram::{self, BINS};
use crate::verify::options::Request;
use crate::verify::rule::{IntRule, distance, magnitude};
use crate::verify::sums::{self, ACCUMULATORS, LANES, LINE, SUMS, Sums};
use crate::verify::values::Values;

/// The elements of both tensors as integers, block by block.
pub(super) struct Pairs<'a> {
    readers: [Reader<'a>; 2],
    dtypes: [DType; 2],
    numbers: [Vec<i128>; 2],
}

impl<'a> Pairs<'a> {
    pub(super) fn new(result: &TensorRef<'a>, reference: &TensorRef<'a>) -> Pairs<'a> {
        let tensors = [result, reference];
        Pairs { readers: tensors.map(Reader::new), dtypes: tensors.map(TensorRef::dtype), numbers: [vec![0; BLOCK], vec![0; BLOCK]] }
    }

    /// Whether the magnitudes of `count` elements from `start` are below 2^[`SMALL`].
    pub(super) fn are_small(&mut self, start: usize, count: usize) -> bool {
        let mut beyond = 0;
        for (reader, dtype) in self.readers.iter_mut().zip(self.dtypes) {
            // Added to a signed number it makes one without sign.
            let (shift, bits) = match dtype {
                DType::I64 => (1 << SMALL, SMALL + 1),
                DType::U64 => (0, SMALL),
                _ => continue,
            };
            let words = reader.read(start, count).as_chunks().0;
            beyond |= words.iter().fold(0, |beyond, word| beyond | u64::from_le_bytes(*word).wrapping_add(shift)) >> bits;
        }
        beyond == 0
    }

    /// `count` elements from `start`, at most a block of them.
    pub(super) fn read(&mut self, start: usize, count: usize) -> impl Iterator<Item = (i128, i128)> + '_ {
        for ((reader, dtype), numbers) in self.readers.iter_mut().zip(self.dtypes).zip(&mut self.numbers) {
            convert::decode_whole(dtype, reader.read(start, count), &mut numbers[..count]);
        }
        let [a, r] = &self.numbers;
        a[..count].iter().copied().zip(r[..count].iter().copied())
    }
}

/// Numbers below it, their differences and distances are exact in f64, as are the ordinals that the second pass makes of them.
const SMALL: u32 = 51;

/// The worker of the first pass.
pub(super) struct Integers<'a> {
    pairs: Pairs<'a>,
    floats: Floats<'a, f64>,
    rule: IntRule,
    vector: usize,
    values: Values,
}

impl<'a> Integers<'a> {
    pub(super) fn new(result: &TensorRef<'a>, reference: &TensorRef<'a>, request: &Request, set: InstructionSet) -> Integers<'a> {
        Integers {
            pairs: Pairs::new(result, reference),
            floats: Floats::new(result, reference, request, set),
            rule: IntRule::new(request),
            vector: sums::vector_width(result.dtype(), reference.dtype()),
            values: Values { histograms: request.histograms.then_some([0; BINS]), ..Values::EMPTY },
        }
    }
}

impl Worker for Integers<'_> {
    fn tile(&mut self, start: usize, count: usize) -> Sums {
        if self.pairs.are_small(start, count) {
            return self.floats.tile(start, count);
        }
        let mut acc = [[0.0; LINE]; SUMS];
        let accumulators = ACCUMULATORS.min(self.vector);
        for at in (start..start + count).step_by(BLOCK) {
            for (i, (a, r)) in self.pairs.read(at, BLOCK.min(start + count - at)).enumerate() {
                let (d, m) = self.values.observe_int(&self.rule, a, r);
                if let Some(to) = &mut self.values.histograms
                    && d > 0.0
                {
                    let [_, relative, _, epsilon, ratio] = self.rule.metrics(distance(a, r), magnitude(r));
                    histogram::count(to, (m > 0.0).then_some(relative), epsilon, ratio);
                }
                let accumulator = (at + i) / self.vector % LANES * accumulators + (at + i) % self.vector % accumulators;
                for (k, x) in [d, m].into_iter().enumerate() {
                    acc[2 * k][accumulator] += x;
                    acc[2 * k + 1][accumulator] = x.mul_add(x, acc[2 * k + 1][accumulator]);
                }
            }
        }
        if self.rule.all { sums::tile_sums(&acc, accumulators).unwrap_or_default() } else { [0.0; SUMS] }
    }

    fn values(&self) -> Values {
        let mut values = self.values;
        values.join(&self.floats.values());
        values
    }
}
