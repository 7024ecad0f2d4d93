//! One tensor of a comparison, read block by block as numbers.

use super::gather::Reader;
use super::number::Number;
use crate::device::TensorRef;
use crate::dtype::DType;
use crate::simd::{InstructionSet, Task};
use crate::verify::sums::ACCUMULATORS;

/// Elements that are decoded and measured at a time: whole rows of [`sums`](crate::verify::sums) for every format, and small enough that
/// everything made of them stays in the L1 cache.
pub(super) const BLOCK: usize = 1024;

/// The numbers of a block. Absent elements are +0, which changes no count but that of zeros, no maximum and no sum.
#[repr(align(64))]
pub(super) struct Block<T>(pub [T; BLOCK]);

/// In which order the numbers of a block stand: the quads of a lane, its first four numbers, the next four and so on, may be put apart. All first quads come first,
/// then all second ones. So the accumulators of the sums take numbers that stand in lines, one line after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Order {
    /// Quads of a lane that are put apart; 1 leaves the numbers as they are in the tensor.
    pub quads: usize,
}

impl Order {
    pub(super) const LOGICAL: Order = Order { quads: 1 };

    /// For the sums of tensors with `vector` elements a lane.
    pub(super) fn of_sums(vector: usize) -> Order {
        Order { quads: (vector / ACCUMULATORS).max(1) }
    }

    /// Where element `i` of a block stands.
    fn position(self, i: usize) -> usize {
        let (lane, quad, accumulator) = (i / (ACCUMULATORS * self.quads), i / ACCUMULATORS % self.quads, i % ACCUMULATORS);
        quad * (BLOCK / self.quads) + lane * ACCUMULATORS + accumulator
    }

    /// Which line of a block an accumulator takes as its `n`th, of `lines` that a block has; `lines` is a power of two.
    #[inline(always)]
    pub(super) fn line(self, n: usize, lines: usize) -> usize {
        (n % self.quads * (lines / self.quads) + n / self.quads) % lines
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
        let bytes = if order.quads > 1 { vec![0; BLOCK * tensor.dtype().bits() / 8] } else { Vec::new() };
        let numbers = Box::new(Block([T::ZERO; BLOCK]));
        Side { reader: Reader::new(tensor), dtype: tensor.dtype(), order, set, bytes, numbers }
    }

    /// The numbers of `count` elements from element `start`: in place where they are numbers already.
    pub(super) fn block(&mut self, start: usize, count: usize) -> &[T; BLOCK] {
        // Memory that is not read where it lies is read in short bursts, with work in between that need not wait for the next.
        if self.order.quads > 1 || self.dtype != T::DTYPE {
            self.reader.prefetch(start + count, BLOCK);
        }
        let mut bytes = self.reader.read(start, count);
        let numbers = &mut self.numbers.0;
        if count < BLOCK {
            partial(self.dtype, bytes, self.order, count, numbers);
            return numbers;
        }
        if self.order.quads > 1 {
            self.set.run(Arrange { from: bytes, to: &mut self.bytes, quad: self.dtype.bits() / 2, quads: self.order.quads });
            bytes = &self.bytes;
        }
        if self.dtype == T::DTYPE
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

/// Puts quads of `quad` bytes apart, of which `quads` are a lane.
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
        match self.quads {
            2 => apart::<2>(self.from, self.to, self.quad),
            4 => apart::<4>(self.from, self.to, self.quad),
            _ => apart::<8>(self.from, self.to, self.quad),
        }
    }
}

#[inline(always)]
fn apart<const QUADS: usize>(from: &[u8], to: &mut [u8], quad: usize) {
    match quad {
        2 => units_apart::<2, 1, QUADS>(from, to),
        4 => units_apart::<4, 1, QUADS>(from, to),
        8 => units_apart::<8, 1, QUADS>(from, to),
        16 => units_apart::<8, 2, QUADS>(from, to),
        _ => units_apart::<8, 4, QUADS>(from, to),
    }
}

/// Quads of `UNITS` units of `UNIT` bytes. One loop over all lanes with everything of a lane inside: the compiler makes shuffles of it.
#[inline(always)]
fn units_apart<const UNIT: usize, const UNITS: usize, const QUADS: usize>(from: &[u8], to: &mut [u8]) {
    let (from, to) = (from.as_chunks::<UNIT>().0, to.as_chunks_mut::<UNIT>().0);
    let lanes = BLOCK / (ACCUMULATORS * QUADS);
    let (from, to) = (&from[..lanes * QUADS * UNITS], &mut to[..lanes * QUADS * UNITS]);
    for lane in 0..lanes {
        for quad in 0..QUADS {
            for unit in 0..UNITS {
                to[(quad * lanes + lane) * UNITS + unit] = from[(lane * QUADS + quad) * UNITS + unit];
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
                    let order = Order::of_sums(vector);
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
