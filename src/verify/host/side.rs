//! One tensor of a comparison, read block by block as numbers.

use super::gather::Reader;
use super::number::Number;
use crate::device::TensorRef;
use crate::dtype::DType;
use crate::simd::{InstructionSet, Task};
use crate::verify::sums::{ACCUMULATORS, LANES};

/// Elements that are decoded and measured at a time: whole rows of [`sums`](crate::verify::sums) for every format, and small enough that
/// everything made of them stays in the L1 cache.
pub(super) const BLOCK: usize = 1024;

/// The numbers of a block. Absent elements are +0, which changes no count but that of zeros, no maximum and no sum.
#[repr(align(64))]
pub(super) struct Block<T>(pub [T; BLOCK]);

/// In which order the numbers of a block stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// As they are in the tensor.
    Logical,
    /// As the accumulators of the sums take them: for each row first elements 0 to 3 of all lanes, then the next four, and so on. With V
    /// elements a lane there are V / 4 such lines a row.
    Lines { vector: usize },
}

impl Order {
    /// Quads of a lane, which are one line apart; 1 when lines are in logical order.
    fn quads(self) -> usize {
        match self {
            Order::Lines { vector } if vector > ACCUMULATORS => vector / ACCUMULATORS,
            _ => 1,
        }
    }

    /// Where element `i` of a block stands.
    fn position(self, i: usize) -> usize {
        let quads = self.quads();
        let (row, i) = (i / (LANES * ACCUMULATORS * quads), i % (LANES * ACCUMULATORS * quads));
        let (lane, quad, accumulator) = (i / (ACCUMULATORS * quads), i / ACCUMULATORS % quads, i % ACCUMULATORS);
        ((row * quads + quad) * LANES + lane) * ACCUMULATORS + accumulator
    }
}

pub(super) struct Side<'a, T> {
    reader: Reader<'a>,
    dtype: DType,
    order: Order,
    set: InstructionSet,
    bytes: Vec<u8>,
    numbers: Box<Block<T>>,
}

impl<'a, T: Number> Side<'a, T> {
    pub(super) fn new(tensor: &TensorRef<'a>, order: Order, set: InstructionSet) -> Side<'a, T> {
        let bytes = if order.quads() > 1 { vec![0; BLOCK * tensor.dtype().bits() / 8] } else { Vec::new() };
        let numbers = Box::new(Block([T::ZERO; BLOCK]));
        Side { reader: Reader::new(tensor), dtype: tensor.dtype(), order, set, bytes, numbers }
    }

    /// The numbers of `count` elements from element `start`: in place where they are numbers already.
    pub(super) fn block(&mut self, start: usize, count: usize) -> &[T; BLOCK] {
        let mut bytes = self.reader.read(start, count);
        let numbers = &mut self.numbers.0;
        if count < BLOCK {
            partial(self.dtype, bytes, self.order, count, numbers);
            return numbers;
        }
        if self.order.quads() > 1 {
            self.set.run(Arrange { from: bytes, to: &mut self.bytes, quad: self.dtype.bits() / 2, quads: self.order.quads() });
            bytes = &self.bytes;
        } else if self.dtype == T::DTYPE
            && let Ok(in_place) = bytemuck::try_cast_slice(bytes)
            && let Ok(in_place) = in_place.try_into()
        {
            return in_place;
        }
        T::decode(self.dtype, bytes, numbers);
        numbers
    }
}

fn partial<T: Number>(dtype: DType, bytes: &[u8], order: Order, count: usize, numbers: &mut [T; BLOCK]) {
    let mut logical = [T::ZERO; BLOCK];
    T::decode(dtype, bytes, &mut logical[..count]);
    numbers.fill(T::ZERO);
    for (i, x) in logical[..count].iter().enumerate() {
        numbers[order.position(i)] = *x;
    }
}

/// Puts quads of `quad` bytes into lines; `quads` of them are a lane.
struct Arrange<'a> {
    from: &'a [u8],
    to: &'a mut [u8],
    quad: usize,
    quads: usize,
}

impl Task for Arrange<'_> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        match (self.quad, self.quads) {
            (2, 8) => lines::<2, 8>(self.from, self.to),
            (4, 4) => lines::<4, 4>(self.from, self.to),
            (4, 8) => lines::<4, 8>(self.from, self.to),
            (8, 2) => lines::<8, 2>(self.from, self.to),
            (8, 4) => lines::<8, 4>(self.from, self.to),
            (8, 8) => lines::<8, 8>(self.from, self.to),
            (16, 2) => lines::<16, 2>(self.from, self.to),
            (16, 4) => lines::<16, 4>(self.from, self.to),
            (16, 8) => lines::<16, 8>(self.from, self.to),
            (_, 2) => lines::<32, 2>(self.from, self.to),
            (_, 4) => lines::<32, 4>(self.from, self.to),
            _ => lines::<32, 8>(self.from, self.to),
        }
    }
}

#[inline(always)]
fn lines<const QUAD: usize, const QUADS: usize>(from: &[u8], to: &mut [u8]) {
    let (from, to) = (from.as_chunks::<QUAD>().0, to.as_chunks_mut::<QUAD>().0);
    let rows = from.as_chunks::<LANES>().0.chunks_exact(QUADS).zip(to.as_chunks_mut::<LANES>().0.chunks_exact_mut(QUADS));
    for (from, to) in rows {
        let from = from.as_flattened();
        for (q, line) in to.iter_mut().enumerate() {
            for (c, quad) in line.iter_mut().enumerate() {
                *quad = from[c * QUADS + q];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Layout;

    /// Every format and V, against [`Order::position`]: whole blocks, partial ones, and blocks of unaligned memory.
    #[test]
    fn blocks_hold_the_elements_in_order() {
        for dtype in [DType::F4E2M1, DType::I8, DType::F16, DType::F32, DType::F64] {
            let bytes: Vec<u8> = (0..8 * BLOCK * dtype.bits() / 8).map(|i| (i * 37 % 101) as u8).collect();
            for vector in [2, 4, 8, 16, 32].into_iter().filter(|v| v * dtype.bits() >= 128) {
                for shift in [0, 1] {
                    let tensor = TensorRef::from_host_bytes(&bytes[shift..], dtype, Layout::flat(3 * BLOCK)).unwrap();
                    let order = Order::Lines { vector };
                    for set in InstructionSet::all() {
                        let mut side = Side::<f64>::new(&tensor, order, *set);
                        for (start, count) in [(BLOCK, BLOCK), (2 * BLOCK, 77)] {
                            let block = side.block(start, count);
                            for i in 0..BLOCK {
                                let expected = if i < count { dtype.decode(dtype.load_bits(&bytes[shift..], start + i)) } else { 0.0 };
                                let found = block[order.position(i)];
                                assert!(found.to_bits() == expected.to_bits(), "{dtype}, V = {vector}, {count} elements, {i}: {found}");
                            }
                        }
                    }
                }
            }
        }
    }
}
