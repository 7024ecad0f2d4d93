//! The data of a tensor: where they lie in the file, and a copy in our order where theirs is another.

use super::source::Source;
use super::{npz, safetensors};
use crate::device::reader::{BLOCK, Reader};
use crate::device::{Layout, TensorRef};
use crate::dtype::DType;
use crate::error::Result;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// What the data of a tensor mean: format, shape, order.
#[derive(Debug)]
pub(super) struct Numbers {
    pub(super) dtype: DType,
    pub(super) layout: Layout,
    pub(super) order: Order,
}

/// How the bytes of a file become ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// As they are.
    Ours,
    /// Numbers of so many bytes, the most significant byte first.
    BigEndian(usize),
    /// 4-bit elements, one a byte (as ml_dtypes writes them).
    OneAByte,
    /// 6-bit elements, four in three bytes.
    Packed6,
}

/// Where data lie.
#[derive(Debug)]
pub(super) enum DataRange {
    /// In the file, as they are.
    File(Source, Range<usize>),
    /// In an archive's member, which may be the memory of other tensors, too.
    Member(Arc<npz::Member>, Range<usize>),
}

/// A tensor's data, read: those of the file, or a copy.
#[derive(Debug)]
pub struct Loaded<'a> {
    bytes: Cow<'a, [u8]>,
    dtype: DType,
    layout: &'a Layout,
}

impl Loaded<'_> {
    /// The memory, which the layout indexes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The format of the elements.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Shape and strides.
    pub fn layout(&self) -> &Layout {
        self.layout
    }

    /// These elements, numbered in row-major order, one after the other in whole storage units from the first on. They are a part of [`bytes`](Loaded::bytes) where
    /// they lie there so, else a copy; bits of the last unit that no element of the range has are 0.
    ///
    /// # Panics
    /// As a slice does, for a range that is not within the tensor's elements.
    pub fn dense(&self, range: Range<usize>) -> Cow<'_, [u8]> {
        let (dtype, layout, elements) = (self.dtype, self.layout, range.len());
        assert!(range.start <= range.end && range.end <= layout.elements(), "range {range:?} of {} elements", layout.elements());
        let length = dtype.bytes_for(elements).unwrap_or(usize::MAX);
        // A view that is contiguous may begin anywhere in its storage.
        let at = layout.offset() + range.start;
        if layout.is_contiguous() && at.is_multiple_of(dtype.per_unit()) && elements.is_multiple_of(dtype.per_unit()) {
            return Cow::Borrowed(&self.bytes[at / dtype.per_unit() * dtype.unit_bytes()..][..length]);
        }
        let (mut out, mut reader) = (Vec::with_capacity(length), Reader::of(&self.bytes, dtype, layout));
        for start in range.clone().step_by(BLOCK) {
            out.extend_from_slice(reader.read(start, BLOCK.min(range.end - start)));
        }
        if !elements.is_multiple_of(dtype.per_unit())
            && let Some(last) = out.last_mut()
        {
            *last &= 0x0f;
        }
        Cow::Owned(out)
    }

    /// The tensor, on the host device.
    pub fn view(&self) -> Result<TensorRef<'_>> {
        TensorRef::from_host_bytes(&self.bytes, self.dtype, self.layout.clone())
    }
}

impl Numbers {
    /// Reads the data; a copy takes at most `max_memory` bytes. `checksums` says whether those of an archive are verified.
    pub(super) fn load<'a>(&'a self, data: &'a DataRange, max_memory: u64, checksums: bool) -> Result<Loaded<'a>, String> {
        let bytes = match data {
            DataRange::File(source, range) => Cow::Borrowed(&source.as_ref()[range.clone()]),
            DataRange::Member(member, part) => member.load(part.clone(), max_memory, checksums)?,
        };
        let copied = if self.order == Order::Packed6 { bytes.len() / 3 * 4 } else { bytes.len() };
        let bytes = match self.order {
            Order::Ours => bytes,
            _ if copied as u64 > max_memory => {
                return Err(format!(
                    "{copied} bytes in another order than ours need a copy, more than {max_memory}, the limit of --max-memory"
                ));
            }
            Order::BigEndian(width) => Cow::Owned(swap_bytes(bytes, width)?),
            Order::OneAByte => Cow::Owned(pack4(&bytes, self.dtype)?),
            Order::Packed6 => Cow::Owned(safetensors::unpack6(&bytes)),
        };
        Ok(Loaded { bytes, dtype: self.dtype, layout: &self.layout })
    }
}

/// Reverses the bytes of each number.
fn swap_bytes(data: Cow<'_, [u8]>, width: usize) -> Result<Vec<u8>, String> {
    let mut out = match data {
        Cow::Owned(bytes) => bytes,
        Cow::Borrowed(bytes) => {
            let mut copy = Vec::new();
            copy.try_reserve_exact(bytes.len()).map_err(|e| format!("{} bytes to reorder: {e}", bytes.len()))?;
            copy.extend_from_slice(bytes);
            copy
        }
    };
    for number in out.chunks_exact_mut(width) {
        number.reverse();
    }
    Ok(out)
}

/// Packs 4-bit elements that lie one a byte, two a byte.
fn pack4(data: &[u8], dtype: DType) -> Result<Vec<u8>, String> {
    let signed = dtype == DType::I4;
    let single = |b: u8| b < 16 || signed && b >= 0xf8;
    if let Some(at) = data.iter().position(|&b| !single(b)) {
        let byte = data[at];
        return Err(format!(
            "element {at} is {byte:#04x}, not one {dtype} a byte; packed data can be read as raw with --dtype and --shape"
        ));
    }
    Ok(data.chunks(2).map(|pair| pair[0] & 0xf | pair.get(1).map_or(0, |b| b << 4)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Elements of a range in row-major order, whatever the layout, from bytes 0x10, 0x32, ... of which the i-th 4-bit element is i modulo 16.
    #[test]
    fn elements_lie_one_after_the_other() {
        let storage: Vec<u8> = (0..16).map(|i| (2 * i % 16) + 16 * ((2 * i + 1) % 16)).collect();
        let strided = |shape: &[usize], strides: &[isize], offset| Layout::strided(shape, strides, offset).unwrap();
        type Case<'a> = (DType, Layout, Range<usize>, &'a [u8], bool, &'a str);
        let cases: [Case<'_>; 12] = [
            (DType::U8, strided(&[16], &[1], 0), 0..16, &storage, true, "all of the storage"),
            (DType::U8, strided(&[4], &[1], 3), 0..4, &storage[3..7], true, "a view at an offset, and no more of the storage"),
            (DType::U8, strided(&[2, 2], &[2, 1], 3), 1..3, &storage[4..6], true, "a part of one"),
            (DType::F16, strided(&[2], &[1], 3), 0..2, &storage[6..10], true, "an offset in elements of two bytes"),
            (DType::F16, strided(&[2, 2], &[1, 2], 1), 0..4, &[0x54, 0x76, 0xdc, 0xfe, 0x98, 0xba, 0x10, 0x32], false, "transposed"),
            (DType::U8, strided(&[3], &[0], 2), 0..3, &[0x54; 3], false, "one element, thrice"),
            (DType::F4E2M1, strided(&[8], &[1], 4), 0..8, &storage[2..6], true, "4-bit elements from a whole byte on"),
            (DType::F4E2M1, strided(&[4], &[1], 3), 0..4, &[0x43, 0x65], false, "from the middle of a byte on"),
            (DType::F4E2M1, strided(&[6], &[1], 2), 1..5, &[0x43, 0x65], false, "a part that begins in the middle of one"),
            (
                DType::F4E2M1,
                strided(&[3], &[1], 2),
                0..3,
                &[0x32, 0x04],
                false,
                "an odd number: the next element of the storage is no part of it",
            ),
            (DType::F4E2M1, strided(&[2, 3], &[1, 2], 1), 0..6, &[0x31, 0x25, 0x64], false, "4-bit elements, transposed"),
            (DType::U8, strided(&[0], &[1], 0), 0..0, &[], true, "nothing"),
        ];
        for (dtype, layout, range, expected, borrowed, reason) in cases {
            let loaded = Loaded { bytes: Cow::Borrowed(&storage), dtype, layout: &layout };
            let found = loaded.dense(range);
            assert_eq!((&*found, matches!(found, Cow::Borrowed(_))), (expected, borrowed), "{dtype} {layout:?}: {reason}");
        }
    }

    /// Layouts that are read in blocks and in panels give the elements that the definition gives, one by one.
    #[test]
    fn blocks_are_the_elements_by_definition() {
        for dtype in [DType::F4E2M1, DType::U8, DType::F16, DType::F32, DType::F64] {
            let storage: Vec<u8> = (0..dtype.bytes_for(70_000).unwrap_or(0)).map(|i| (i * 37 % 251) as u8).collect();
            for (shape, strides, offset, reason) in [
                (&[211, 301][..], &[1, 211][..], 0, "transposed"),
                (&[301, 211], &[220, 1], 13, "rows with gaps"),
                (&[7, 5, 1801], &[5, 1, 35], 2, "three dimensions"),
                (&[3, 20_011], &[20_011, -1], 20_010, "backwards"),
                (&[40, 900], &[0, 3], 1, "a row that is repeated"),
            ] {
                let layout = Layout::strided(shape, strides, offset).unwrap();
                let loaded = Loaded { bytes: Cow::Borrowed(&storage), dtype, layout: &layout };
                let elements = layout.elements();
                for range in [0..elements, 1..elements, 16_383..33_000, elements - 1..elements, 5..5] {
                    let mut expected = vec![0; dtype.bytes_for(range.len()).unwrap_or(0)];
                    for (i, index) in range.clone().enumerate() {
                        dtype.store_bits(&mut expected, i, dtype.load_bits(&storage, layout.index(index)));
                    }
                    assert!(*loaded.dense(range.clone()) == expected, "{dtype}, {reason}: {range:?}");
                }
            }
        }
    }
}
