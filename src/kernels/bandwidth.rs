//! Launches of hip/bandwidth.hip, timed: the ceilings to which the speeds of other kernels are compared.

use crate::device::hip::{HipAlloc, HipDevice, HipEvent, HipStream, Kernel};
use crate::error::Result;
use hipverify_sys::abi::{Nothing, ReadTwo, WriteOne};
use std::ptr;
use std::time::Duration;

const READ_TWO: Kernel<ReadTwo> = Kernel::new("bandwidth.hip", "read_two", 512);
const WRITE_ONE: Kernel<WriteOne> = Kernel::new("bandwidth.hip", "write_one", 512);
const NOTHING: Kernel<Nothing> = Kernel::new("bandwidth.hip", "nothing", 64);

/// Runs of which the best counts.
const ROUNDS: usize = 7;
/// Launches between two events.
const BATCH: usize = 8;

/// The time to read two blocks of `bytes` bytes each.
pub(crate) fn read_two(gpu: &'static HipDevice, bytes: usize) -> Result<Duration> {
    let (mut a, mut b) = (HipAlloc::new(gpu, bytes)?, HipAlloc::new(gpu, bytes)?);
    a.set_zero()?;
    b.set_zero()?;
    let params = ReadTwo { a: a.ptr(), b: b.ptr(), bytes: bytes as u64, never: ptr::null_mut() };
    // SAFETY: both blocks have `bytes` bytes, all zeros, so that `never` is not written, and outlive `timed`, which waits.
    timed(gpu, |stream| unsafe { READ_TWO.launch_for(stream, params.bytes / 16, &params) })
}

/// The time to write a block of `bytes` bytes.
pub(crate) fn write_one(gpu: &'static HipDevice, bytes: usize) -> Result<Duration> {
    let block = HipAlloc::new(gpu, bytes)?;
    let params = WriteOne { a: block.ptr(), bytes: bytes as u64, value: 1, unused: 0 };
    // SAFETY: the block has `bytes` bytes, is ours alone and outlives `timed`, which waits.
    timed(gpu, |stream| unsafe { WRITE_ONE.launch_for(stream, params.bytes / 16, &params) })
}

/// The best time of one launch, between events.
fn timed(gpu: &'static HipDevice, launch: impl Fn(&HipStream) -> Result<()>) -> Result<Duration> {
    let stream = HipStream::new(gpu)?;
    let (from, to) = (HipEvent::new(gpu)?, HipEvent::new(gpu)?);
    let mut least = Duration::MAX;
    for _ in 0..ROUNDS {
        from.record(&stream)?;
        (0..BATCH).try_for_each(|_| launch(&stream))?;
        to.record(&stream)?;
        stream.synchronize()?;
        from.synchronize()?;
        to.synchronize()?;
        least = least.min(to.elapsed_since(&from)? / BATCH as u32);
    }
    Ok(least)
}

/// A launch that does nothing.
pub(crate) fn nothing(stream: &HipStream) -> Result<()> {
    // SAFETY: with a null address the kernel touches nothing.
    unsafe { NOTHING.launch_for(stream, 1, &Nothing { never: ptr::null_mut() }) }
}
