//! Fill on the host device: all cores, tasks of a fixed size.
//!
//! Contiguous data are made by `avx512.rs` as far as it can, and the rest by `blocks.rs`. Data with strides are made by `blocks.rs`, and each
//! element is written to its address.

#[cfg(target_arch = "x86_64")]
use super::avx512::Stream;
use super::blocks::{Blocks, WINDOW, rows};
use super::element::element;
use super::params::{FillParams, flag, passes};
use crate::device::Address;
use crate::dtype::DType;
use crate::parallel;
use crate::simd::InstructionSet;
use std::ops::Range;

/// Elements of one task. A multiple of what one turn of the vector loop makes, so that every task begins with a whole turn.
const TASK: usize = 1 << 16;

/// Tensors of at least this many bytes are written past the caches: when they are read again from the start, they would not be in the caches anyway.
const PAST_CACHES: usize = 1 << 23;

/// How a contiguous fill is computed.
struct Plan<'a> {
    set: InstructionSet,
    p: &'a FillParams,
    dtype: DType,
    #[cfg(target_arch = "x86_64")]
    stream: Option<Stream>,
}

/// Fills a tensor in `memory`.
pub(super) fn fill(p: &FillParams, dtype: DType, memory: &mut [u8]) {
    fill_with(InstructionSet::best(), p, dtype, memory);
}

/// [`fill`] with the instruction set given.
pub(super) fn fill_with(set: InstructionSet, p: &FillParams, dtype: DType, memory: &mut [u8]) {
    if p.count == 0 {
        return;
    }
    if p.flags & flag::CONTIGUOUS == 0 {
        return strided(set, p, dtype, memory);
    }
    let plan = Plan::new(set, p, dtype);
    let (offset, count) = (p.offset as usize, p.count as usize);
    let per_unit = dtype.per_unit();
    // Packed: the first element may be the second of its byte, and the last the first.
    let head = offset % per_unit;
    let units = (count - head) / per_unit;
    let mut one = |index: usize| dtype.store_bits(memory, offset + index, element(p, dtype, index as u64));
    if head > 0 {
        one(0);
    }
    if !(count - head).is_multiple_of(per_unit) {
        one(count - 1);
    }
    let start = (offset + head) / per_unit * dtype.unit_bytes();
    let body = &mut memory[start..start + units * dtype.unit_bytes()];
    let past_caches = body.len() >= PAST_CACHES;
    parallel::chunks_mut(body, TASK / per_unit * dtype.unit_bytes(), |task, out| {
        plan.run((head + task * TASK) as u64, out, past_caches);
    });
}

impl Plan<'_> {
    fn new(set: InstructionSet, p: &FillParams, dtype: DType) -> Plan<'_> {
        Plan {
            set,
            p,
            dtype,
            #[cfg(target_arch = "x86_64")]
            stream: Stream::new(set, p, dtype),
        }
    }

    /// Fills whole units with the elements from `first` on.
    fn run(&self, first: u64, out: &mut [u8], past_caches: bool) {
        let unit = self.dtype.unit_bytes();
        let done = self.streamed(first, out, past_caches);
        if done < out.len() {
            let done_elements = (done / unit * self.dtype.per_unit()) as u64;
            Blocks::new(self.set, self.p, self.dtype).fill(first + done_elements, &mut out[done..]);
        }
    }

    /// Fills as much as `avx512.rs` does, and returns how many bytes that were.
    #[cfg(target_arch = "x86_64")]
    fn streamed(&self, first: u64, out: &mut [u8], past_caches: bool) -> usize {
        let Some(stream) = &self.stream else { return 0 };
        let unit = self.dtype.unit_bytes();
        stream.fill(self.p, first * unit as u64 / 16, out, past_caches, |byte, target| {
            let bits = element(self.p, self.dtype, first + (byte / unit) as u64);
            target.copy_from_slice(&bits.to_le_bytes()[..unit]);
        })
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn streamed(&self, _first: u64, _out: &mut [u8], _past_caches: bool) -> usize {
        0
    }
}

/// Memory that several threads write, each thread its own elements.
#[derive(Clone, Copy)]
struct Shared(Address<u8>);

/// Elements of a window that lie `step` apart in memory, from index `at` on.
struct Run<'b> {
    /// The window, and which of its elements.
    bytes: &'b [u8],
    elements: Range<usize>,
    at: i64,
    step: i64,
}

impl Shared {
    fn at(self, byte: usize) -> *mut u8 {
        self.0.get().wrapping_add(byte)
    }

    /// Writes the elements of a run that belong to a pass.
    ///
    /// # Safety
    /// * the elements lie within the memory, which is borrowed exclusively;
    /// * no other thread writes them, nor, in this pass, other elements in bytes that they share.
    unsafe fn write(self, run: Run<'_>, dtype: DType, pass: u32) {
        let unit = dtype.unit_bytes();
        let Run { bytes, elements, at, step } = run;
        if pass == 0 {
            // Elements that follow each other are copied at once.
            let together = if step == 1 { elements.len().max(1) } else { 1 };
            for (i, from) in bytes[elements.start * unit..elements.end * unit].chunks(together * unit).enumerate() {
                let to = self.at((at + i as i64 * step) as usize * unit);
                // SAFETY: the elements lie within the memory, and no other thread writes their bytes, as the caller promises.
                unsafe { to.copy_from_nonoverlapping(from.as_ptr(), from.len()) };
            }
            return;
        }
        for (i, element) in elements.enumerate() {
            let at = (at + i as i64 * step) as usize;
            if (pass == flag::EVEN) == at.is_multiple_of(2) {
                // SAFETY: the byte lies within the memory, as its element does; of its two elements only one belongs to this pass, which no
                // other thread writes, as the caller promises.
                let byte = unsafe { std::slice::from_raw_parts_mut(self.at(at / 2), 1) };
                dtype.store_bits(byte, at % 2, dtype.load_bits(bytes, element));
            }
        }
    }
}

/// Fills the elements wherever the strides lead.
fn strided(set: InstructionSet, p: &FillParams, dtype: DType, memory: &mut [u8]) {
    let shared = Shared(Address::new(memory.as_mut_ptr()));
    let rank = p.rank as usize;
    let step = if rank == 0 { 1 } else { p.strides[rank - 1] };
    for &pass in passes(p, dtype) {
        parallel::for_each(p.count.div_ceil(TASK as u64) as usize, &|task| {
            let mut blocks = Blocks::new(set, p, dtype);
            let first = (task * TASK) as u64;
            for start in (first..p.count.min(first + TASK as u64)).step_by(WINDOW) {
                let bytes = blocks.window(start);
                let count = WINDOW.min((p.count - start) as usize);
                rows(p, start, |range, coordinates| {
                    let range = range.start..range.end.min(count);
                    if range.is_empty() {
                        return;
                    }
                    let at = coordinates.iter().zip(&p.strides).fold(p.offset as i64, |at, (c, s)| at + *c as i64 * s);
                    // SAFETY: the tensor's layout was checked to lie within `memory`, which is borrowed exclusively, and not to let two elements
                    // overlap; every run is visited by one thread, and of two elements in a byte one pass visits one.
                    unsafe { shared.write(Run { bytes, elements: range, at, step }, dtype, pass) };
                });
            }
        });
    }
}
