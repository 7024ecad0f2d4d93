//! Pairs of integer formats of which one has 64 bits: exact, one element after the other.

use super::first_pass::Worker;
use super::side::BLOCK;
use crate::device::TensorRef;
use crate::device::reader::Reader;
use crate::dtype::{DType, convert};
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

    /// `count` elements from `start`, at most a block of them.
    pub(super) fn read(&mut self, start: usize, count: usize) -> impl Iterator<Item = (i128, i128)> + '_ {
        for ((reader, dtype), numbers) in self.readers.iter_mut().zip(self.dtypes).zip(&mut self.numbers) {
            convert::decode_whole(dtype, reader.read(start, count), &mut numbers[..count]);
        }
        let [a, r] = &self.numbers;
        a[..count].iter().copied().zip(r[..count].iter().copied())
    }
}

/// The worker of the first pass.
pub(super) struct Integers<'a> {
    pairs: Pairs<'a>,
    rule: IntRule,
    vector: usize,
    values: Values,
}

impl<'a> Integers<'a> {
    pub(super) fn new(result: &TensorRef<'a>, reference: &TensorRef<'a>, request: &Request) -> Integers<'a> {
        Integers {
            pairs: Pairs::new(result, reference),
            rule: IntRule::new(request),
            vector: sums::vector_width(result.dtype(), reference.dtype()),
            values: Values { histograms: request.histograms.then_some([0; BINS]), ..Values::EMPTY },
        }
    }
}

impl Worker for Integers<'_> {
    fn tile(&mut self, start: usize, count: usize) -> Sums {
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
        self.values
    }
}
