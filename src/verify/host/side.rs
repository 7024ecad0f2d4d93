//! One tensor of a comparison, read block by block as numbers.

use super::number::{Number, word_ordinal};
use crate::device::TensorRef;
use crate::device::reader::Reader;
use crate::dtype::DType;
use crate::simd::{InstructionSet, Lanes, each};

/// Elements that are decoded and measured at a time: whole rows of [`sums`](crate::verify::sums) for every format, and small enough that
/// everything made of them stays in the L1 cache.
pub(super) const BLOCK: usize = 1024;

/// How far ahead memory is asked for: while one block is measured the next is on its way.
const AHEAD: usize = 2 * BLOCK;

/// The numbers of a block. Absent elements are +0, which changes no count but that of zeros, no maximum and no sum.
#[repr(align(64))]
pub(super) struct Block<T>(pub [T; BLOCK]);

/// A block as vector loops read it: where it lies, in formats that they widen as they load, which is faster than to decode it first; or as numbers.
#[derive(Clone, Copy)]
pub(super) enum Source<'a, T> {
    Numbers(&'a [T; BLOCK]),
    F32(&'a [[u8; 4]; BLOCK]),
    F16(&'a [[u8; 2]; BLOCK]),
    Bf16(&'a [[u8; 2]; BLOCK]),
    I8(&'a [[u8; 1]; BLOCK]),
    U8(&'a [[u8; 1]; BLOCK]),
    I16(&'a [[u8; 2]; BLOCK]),
    U16(&'a [[u8; 2]; BLOCK]),
    /// In f64 only.
    I32(&'a [[u8; 4]; BLOCK]),
}

impl<T: Number> Source<'_, T> {
    /// The numbers from element `at` on.
    #[inline(always)]
    pub(super) fn lanes<L: Lanes<Number = T>>(self, set: L::Set, at: usize) -> L {
        match self {
            Source::Numbers(numbers) => L::load(set, &numbers[at..]),
            Source::F32(units) => L::from_f32(set, &units[at..]),
            Source::F16(units) => L::from_f16(set, &units[at..]),
            Source::Bf16(units) => L::from_bf16(set, &units[at..]),
            Source::I8(units) => L::from_i8(set, &units[at..]),
            Source::U8(units) => L::from_u8(set, &units[at..]),
            Source::I16(units) => L::from_i16(set, &units[at..]),
            Source::U16(units) => L::from_u16(set, &units[at..]),
            Source::I32(units) => L::from_i32(set, &units[at..]),
        }
    }

    /// One number.
    pub(super) fn at(self, i: usize) -> T {
        match self {
            Source::Numbers(numbers) => numbers[i],
            Source::F32(units) => T::from_f64(f32::from_le_bytes(units[i]).into()),
            Source::F16(units) => T::from_f64(half::f16::from_le_bytes(units[i]).into()),
            Source::Bf16(units) => T::from_f64(half::bf16::from_le_bytes(units[i]).into()),
            Source::I8(units) => T::from_f64(i8::from_le_bytes(units[i]).into()),
            Source::U8(units) => T::from_f64(u8::from_le_bytes(units[i]).into()),
            Source::I16(units) => T::from_f64(i16::from_le_bytes(units[i]).into()),
            Source::U16(units) => T::from_f64(u16::from_le_bytes(units[i]).into()),
            Source::I32(units) => T::from_f64(i32::from_le_bytes(units[i]).into()),
        }
    }
}

pub(super) struct Side<'a, T> {
    reader: Reader<'a>,
    dtype: DType,
    numbers: Box<Block<T>>,
}

impl<'a, T: Number> Side<'a, T> {
    pub(super) fn new(tensor: &TensorRef<'a>) -> Side<'a, T> {
        Side { reader: Reader::new(tensor), dtype: tensor.dtype(), numbers: Box::new(Block([T::ZERO; BLOCK])) }
    }

    /// The numbers of `count` elements from element `start`: in place where they are numbers already.
    pub(super) fn block(&mut self, start: usize, count: usize) -> &[T; BLOCK] {
        // What is decoded is read in short bursts, of which processors foresee little.
        if self.dtype != T::DTYPE {
            self.reader.prefetch(start + AHEAD, BLOCK);
        }
        let bytes = self.reader.read(start, count);
        if self.dtype == T::DTYPE
            && let Ok(in_place) = bytemuck::try_cast_slice(bytes)
            && let Ok(in_place) = in_place.try_into()
        {
            return in_place;
        }
        let numbers = &mut self.numbers.0;
        T::decode(self.dtype, bytes, &mut numbers[..count]);
        numbers[count..].fill(T::ZERO);
        numbers
    }

    /// The same for a loop over vectors; numbers for a loop of [`plain`](super::plain).
    pub(super) fn source(&mut self, set: InstructionSet, start: usize, count: usize) -> Source<'_, T> {
        if count < BLOCK || set.is_plain() {
            return Source::Numbers(self.block(start, count));
        }
        match self.dtype {
            DType::F32 => Source::F32(self.units(start)),
            DType::F16 => Source::F16(self.units(start)),
            DType::Bf16 => Source::Bf16(self.units(start)),
            DType::I8 => Source::I8(self.units(start)),
            DType::U8 => Source::U8(self.units(start)),
            DType::I16 => Source::I16(self.units(start)),
            DType::U16 => Source::U16(self.units(start)),
            DType::I32 => Source::I32(self.units(start)),
            _ => Source::Numbers(self.block(start, count)),
        }
    }

    /// The storage units of a whole block.
    fn units<U: bytemuck::AnyBitPattern>(&mut self, start: usize) -> &U {
        bytemuck::from_bytes(self.reader.read(start, BLOCK))
    }

    /// The ordinals of `count` elements from element `start`, of i64 or u64, and those of zeros after them: exact, where `T` is f64.
    pub(super) fn word_ordinals(&mut self, start: usize, count: usize, out: &mut [T::Ordinal; BLOCK]) {
        let words = self.reader.read(start, count).as_chunks().0;
        let dtype = self.dtype;
        each(&mut out[..count], words, |o, word| *o = T::cut(word_ordinal(dtype, u64::from_le_bytes(*word))));
        out[count..].fill(T::cut(word_ordinal(dtype, 0)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Layout;

    /// Whole blocks, partial ones, and blocks of unaligned memory.
    #[test]
    fn blocks_hold_the_elements_and_zeros_after_them() {
        for dtype in [DType::F4E2M1, DType::I8, DType::F16, DType::F32, DType::F64] {
            let bytes: Vec<u8> = (0..8 * BLOCK * dtype.bits() / 8).map(|i| (i * 37 % 101) as u8).collect();
            for shift in [0, 1] {
                let tensor = TensorRef::from_host_bytes(&bytes[shift..], dtype, Layout::flat(3 * BLOCK)).unwrap();
                let mut side = Side::<f64>::new(&tensor);
                for (start, count) in [(BLOCK, BLOCK), (2 * BLOCK, 77)] {
                    let block = side.block(start, count);
                    let expected = |i| if i < count { dtype.decode(dtype.load_bits(&bytes[shift..], start + i)) } else { 0.0 };
                    for (i, found) in block.iter().enumerate() {
                        let expected: f64 = expected(i);
                        assert_eq!(found.to_bits(), expected.to_bits(), "{dtype}, {count} elements, {i}: {found}");
                    }
                }
            }
        }
    }
}
