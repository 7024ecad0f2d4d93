//! Launches of hip/verify/pack.hip. A tensor whose neighbours along the last dimension lie far apart, as those of a transposed one, is
//! compared from packed copies, a range of elements after the other: scratch memory is bounded.

use super::{Merged, operand};
use crate::device::TensorRef;
use crate::device::hip::{HipAlloc, HipDevice, Kernel, Loaded};
use crate::error::Result;
use hipverify_sys::abi::{VerifyOperand, VerifyPack};
use std::ops::Range;

/// Bytes of a packed range for each multiprocessor, at most.
const RANGE: u64 = 1 << 20;
/// Fewer elements for each multiprocessor are compared where they lie: one launch takes less time than two.
const FEWEST: u64 = 1 << 12;
/// What the memory delivers at least, in bytes: neighbours that are nearer share it.
const SECTOR: u64 = 32;
/// Rows that a range has at least: neighbours in them share what the memory delivers.
const ROWS: u64 = 16;

/// How a tensor is packed; hip/verify/pack.hip has the words.
pub(super) struct Packing {
    kernel: Loaded<VerifyPack>,
    from: VerifyOperand,
    bits: u64,
    /// Elements of a range, at most.
    most: u64,
    /// Elements of a row.
    row: u64,
    /// Extent of the last dimension.
    inner: u64,
    columns_log: u32,
}

impl Packing {
    /// `None` where a tensor is compared where it lies.
    pub(super) fn of(gpu: &'static HipDevice, tensor: &TensorRef<'_>) -> Result<Option<Packing>> {
        let bits = tensor.dtype().bits() as u64;
        let most = u64::from(gpu.multiprocessors()) * RANGE * 8 / bits;
        if (tensor.elements() as u64) < u64::from(gpu.multiprocessors()) * FEWEST {
            return Ok(None);
        }
        let Some((row, inner)) = row(tensor)?.filter(|(row, _)| row * ROWS <= most) else { return Ok(None) };
        let name = match bits {
            4 => "pack_4",
            8 => "pack_8",
            16 => "pack_16",
            32 => "pack_32",
            _ => "pack_64",
        };
        // SAFETY: every kernel of hip/verify/pack.hip is `extern "C" __global__ void NAME(VerifyPack)`, for blocks of 256 threads.
        let kernel = unsafe { Kernel::<VerifyPack>::new("verify/pack.hip", name, super::BLOCK) }.load(gpu)?;
        let columns_log = if inner > 32 { 6 } else { 4 };
        Ok(Some(Packing { kernel, from: operand(tensor)?, bits, most, row, inner, columns_log }))
    }

    /// Elements of a range, at most.
    pub(super) fn most(&self) -> u64 {
        self.most
    }

    /// Rows of a tile, of which each thread has some elements.
    fn rows(&self) -> u64 {
        let each: u64 = if self.bits == 64 { 8 } else { 16 };
        (u64::from(super::BLOCK) * each) >> self.columns_log
    }

    /// Bytes of so many packed elements.
    pub(super) fn bytes(&self, elements: u64) -> usize {
        (elements * self.bits).div_ceil(8) as usize
    }

    /// The kernel that packs a range of elements to `to`, its grid and its parameters.
    pub(super) fn launch(&self, range: &Range<u64>, to: *mut u8) -> (&Loaded<VerifyPack>, u32, VerifyPack) {
        let [first_row, last_row] = [range.start, range.end - 1].map(|element| element / self.row);
        let (middles, across) = (self.row / self.inner, self.inner.div_ceil(1 << self.columns_log));
        let tiles = (last_row - first_row + 1).div_ceil(self.rows()) * middles * across;
        let params = VerifyPack {
            from: self.from,
            first: range.start,
            end: range.end,
            row: self.row,
            first_row,
            last_row,
            inner: self.inner as u32,
            middles: middles as u32,
            columns_log: self.columns_log,
            across: across as u32,
            tiles: tiles as u32,
            padding: 0,
            to,
        };
        (&self.kernel, self.kernel.grid_for(tiles * u64::from(super::BLOCK)), params)
    }

    /// The whole tensor as kernels see it that read no other elements than those that were packed to `to`, from `first` on.
    pub(super) fn packed(&self, first: u64, to: *mut u8) -> VerifyOperand {
        VerifyOperand {
            base: to,
            offset: -(first as i64),
            inner: 1,
            // They are read by vectors alone: nothing lies behind them.
            end: to,
            rank: 0,
            align: 16,
            ..self.from
        }
    }
}

/// The elements of a row and of the last dimension, if packing brings what lies far apart together.
fn row(tensor: &TensorRef<'_>) -> Result<Option<(u64, u64)>> {
    let (layout, bits) = (tensor.layout(), tensor.dtype().bits() as u64);
    let Merged { rank, extents, strides } = Merged::of(layout)?;
    let Some(last) = (rank as usize).checked_sub(1) else { return Ok(None) };
    let apart = |d: &usize| strides[*d].unsigned_abs();
    let Some(nearest) = (0..last).filter(|d| strides[*d] != 0).min_by_key(apart) else { return Ok(None) };
    let inner = extents[last];
    let first = tensor.as_ptr().addr() as u64 + layout.offset() as u64 * bits / 8;
    let whole = if bits == 4 { inner.is_multiple_of(2) } else { first.is_multiple_of(bits / 8) };
    let far = apart(&last) * bits / 8 >= SECTOR && apart(&nearest) < apart(&last);
    Ok((whole && far).then(|| (extents[nearest + 1..=last].iter().product(), inner)))
}

/// Memory for packed ranges of both tensors: of one comparison at a time.
pub(super) struct Ranges([HipAlloc; 2]);

impl Ranges {
    pub(super) fn new(gpu: &'static HipDevice) -> Result<Ranges> {
        Ok(Ranges([HipAlloc::new(gpu, 0)?, HipAlloc::new(gpu, 0)?]))
    }

    /// Allocates so many bytes for each, and a little more, so that sizes which grow slowly share it.
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
