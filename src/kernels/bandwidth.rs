//! Launches of hip/bandwidth.hip: the ceilings to which the speeds of other kernels are compared.

use crate::device::hip::{HipStream, Kernel};
use crate::error::Result;
use hipverify_sys::abi::{Nothing, ReadTwo, WriteOne};
use std::ptr;

const READ_TWO: Kernel<ReadTwo> = Kernel::new("bandwidth.hip", "read_two", 512);
const WRITE_ONE: Kernel<WriteOne> = Kernel::new("bandwidth.hip", "write_one", 512);
const NOTHING: Kernel<Nothing> = Kernel::new("bandwidth.hip", "nothing", 64);

/// Reads two blocks of `bytes` bytes each.
///
/// # Safety
/// Both are valid for reads on the stream's device, aligned to 16 bytes and filled with zeros, until the stream has been waited for.
pub(crate) unsafe fn read_two(stream: &HipStream, a: *const u8, b: *const u8, bytes: usize) -> Result<()> {
    // SAFETY: the blocks are the caller's promise; `never` is written only where something is not zero.
    unsafe { READ_TWO.launch_for(stream, bytes as u64 / 16, &ReadTwo { a, b, bytes: bytes as u64, never: ptr::null_mut() }) }
}

/// Writes a block of `bytes` bytes.
///
/// # Safety
/// It is valid for writes on the stream's device, aligned to 16 bytes and used by nothing else, until the stream has been waited for.
pub(crate) unsafe fn write_one(stream: &HipStream, a: *mut u8, bytes: usize) -> Result<()> {
    // SAFETY: the block is the caller's promise, and the kernel writes nothing else.
    unsafe { WRITE_ONE.launch_for(stream, bytes as u64 / 16, &WriteOne { a, bytes: bytes as u64, value: 1, unused: 0 }) }
}

/// A launch that does nothing.
pub(crate) fn nothing(stream: &HipStream) -> Result<()> {
    // SAFETY: with a null address the kernel touches nothing.
    unsafe { NOTHING.launch_for(stream, 1, &Nothing { never: ptr::null_mut() }) }
}
