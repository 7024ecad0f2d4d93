//! Launches of hip/verify/pack.hip. A tensor whose neighbours along the last dimension lie far apart, such as a transposed one, is
//! compared from packed copies, one range of elements after the other, so that scratch memory is bounded.

use super::{Merged, operand};
use crate::device::TensorRef;
use crate::device::hip::{HipAlloc, HipDevice, Kernel, Loaded};
use crate::error::Result;
use hipverify_sys::abi::{VerifyOperand, VerifyPack};
use std::ops::Range;

/// Bytes of a packed range for each multiprocessor, at most.
const RANGE: u64 = 1 << 20;
/// Tensors with fewer elements for each multiprocessor are compared in place: one launch takes less time than two.
const FEWEST: u64 = 1 << 12;
/// The smallest transfer of the memory, in bytes: neighbours that are closer share it.
const SECTOR: u64 = 32;
/// The smallest number of rows of a range: neighbours in them share a transfer of the memory.
const ROWS: u64 = 16;

/// How a tensor is packed; hip/verify/pack.hip has the words.
pub(super) struct Packing {
    kernel: Loaded<VerifyPack>,
    from: VerifyOperand,
    bits: u64,
    dimensions: Dimensions,
    /// Elements of a range, at most.
    most: u64,
}

/// The dimensions of a tensor as the kernel needs them.
#[derive(Clone, Copy)]
struct Dimensions {
    /// Elements of a row.
    row: u64,
    /// Extent of the last dimension.
    inner: u64,
    /// Elements that are read and written together, of one column and of one row.
    together: u64,
}

impl Packing {
    /// `None` if a tensor is compared in place.
    pub(super) fn of(gpu: &'static HipDevice, tensor: &TensorRef<'_>) -> Result<Option<Packing>> {
        let bits = tensor.dtype().bits() as u64;
        let most = u64::from(gpu.multiprocessors()) * RANGE * 8 / bits;
        if (tensor.elements() as u64) < u64::from(gpu.multiprocessors()) * FEWEST {
            return Ok(None);
        }
        let Some(dimensions) = dimensions(tensor)?.filter(|d| d.row * ROWS <= most) else { return Ok(None) };
        let name = match (bits, dimensions.together) {
            (4, _) => "pack_4",
            (8, 1) => "pack_8",
            (8, _) => "pack_words_8",
            (16, 1) => "pack_16",
            (16, _) => "pack_words_16",
            (32, _) => "pack_32",
            _ => "pack_64",
        };
        let kernel = Kernel::<VerifyPack>::new("verify/pack.hip", name, super::BLOCK).load(gpu)?;
        Ok(Some(Packing { kernel, from: operand(tensor)?, bits, dimensions, most }))
    }

    /// Elements of a range, at most.
    pub(super) fn most(&self) -> u64 {
        self.most
    }

    /// Bytes of so many packed elements.
    pub(super) fn bytes(&self, elements: u64) -> usize {
        (elements * self.bits).div_ceil(8) as usize
    }

    /// The kernel that packs a range of elements to `to`, its grid and its parameters.
    pub(super) fn launch(&self, range: &Range<u64>, to: *mut u8) -> (&Loaded<VerifyPack>, u32, VerifyPack) {
        let Dimensions { row, inner, together } = self.dimensions;
        let narrow = inner <= 32;
        let columns = match together {
            _ if narrow => 16,
            4 => 128,
            _ => 64,
        };
        // Each thread has 16 words of a tile, or 8 of 64 bits.
        let elements = u64::from(super::BLOCK) * together * if self.bits == 64 { 8 } else { 16 };
        let rows = elements / columns;
        let [first_row, last_row] = [range.start, range.end - 1].map(|element| element / row);
        let (middles, across) = (row / inner, inner.div_ceil(columns));
        let tiles = (last_row + 1 - first_row / together * together).div_ceil(rows) * middles * across;
        let params = VerifyPack {
            from: self.from,
            first: range.start,
            end: range.end,
            row,
            first_row,
            last_row,
            inner: inner as u32,
            middles: middles as u32,
            narrow: u32::from(narrow),
            across: across as u32,
            tiles: tiles as u32,
            unused: 0,
            to,
        };
        (&self.kernel, self.kernel.grid_for(tiles * u64::from(super::BLOCK)), params)
    }

    /// The whole tensor for kernels that read only the elements of a range, which were packed to `to`.
    pub(super) fn packed(&self, range: &Range<u64>, to: *mut u8) -> VerifyOperand {
        VerifyOperand {
            base: to,
            offset: -(range.start as i64),
            inner: 1,
            end: to.wrapping_add(self.bytes(range.end - range.start)),
            rank: 0,
            align: 16,
            ..self.from
        }
    }
}

/// `None` unless packing brings distant neighbours together.
fn dimensions(tensor: &TensorRef<'_>) -> Result<Option<Dimensions>> {
    let (layout, bits) = (tensor.layout(), tensor.dtype().bits() as u64);
    let Merged { rank, extents, strides } = Merged::of(layout)?;
    let Some(last) = (rank as usize).checked_sub(1) else { return Ok(None) };
    let apart = |d: &usize| strides[*d].unsigned_abs();
    let Some(nearest) = (0..last).filter(|d| strides[*d] != 0).min_by_key(apart) else { return Ok(None) };
    let inner = extents[last];
    let first = tensor.as_ptr().addr() as u64 + layout.offset() as u64 * bits / 8;
    let whole = if bits == 4 { inner.is_multiple_of(2) } else { first.is_multiple_of(bits / 8) };
    if !whole || apart(&last) * bits / 8 < SECTOR || apart(&nearest) >= apart(&last) {
        return Ok(None);
    }
    // Words that begin at whole words on both sides, wherever a row or a column begins.
    let of_a_word = match bits {
        8 => 4,
        16 => 2,
        _ => 1,
    };
    let others = (0..=last).filter(|d| *d != nearest).map(|d| apart(&d));
    let whole = others.chain([extents[nearest], inner]).all(|elements| elements.is_multiple_of(of_a_word));
    let together = if whole && strides[nearest] == 1 && first.is_multiple_of(4) { of_a_word } else { 1 };
    Ok(Some(Dimensions { row: extents[nearest + 1..=last].iter().product(), inner, together }))
}

/// Memory for packed ranges of both tensors: of one comparison at a time.
pub(super) struct Ranges([HipAlloc; 2]);

impl Ranges {
    pub(super) fn new(gpu: &'static HipDevice) -> Result<Ranges> {
        Ok(Ranges([HipAlloc::new(gpu, 0)?, HipAlloc::new(gpu, 0)?]))
    }

    /// Allocates this many bytes for each tensor, and a little more, so that slowly growing sizes need no new allocation.
    pub(super) fn reserve(&mut self, gpu: &'static HipDevice, bytes: [usize; 2]) -> Result<()> {
        self.0.iter_mut().zip(bytes).try_for_each(|(block, bytes)| super::workspace::grow(gpu, block, bytes.next_multiple_of(16 << 20)))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(|block| block.bytes() == 0)
    }

    pub(super) fn addresses(&self) -> [*mut u8; 2] {
        self.0.each_ref().map(HipAlloc::ptr)
    }
}
