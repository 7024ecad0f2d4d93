//! The host backend's memory: aligned, zeroed, and an error instead of an abort when there is none.

use crate::error::{Error, Result};
use std::alloc::Layout;
use std::ptr::NonNull;

/// Alignment of every allocation: a cache line, and more than any vector load needs.
pub(crate) const ALIGN: usize = 64;

/// An owned block of host memory. Zero bytes allocate nothing.
#[derive(Debug)]
pub(crate) struct HostAlloc {
    ptr: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the block is owned, and the allocator takes it back from any thread.
unsafe impl Send for HostAlloc {}
// SAFETY: all that a shared block gives is a slice for reading; it is written through an exclusive borrow only.
unsafe impl Sync for HostAlloc {}

impl HostAlloc {
    /// Allocates `bytes` zeroed bytes.
    pub(crate) fn new(bytes: usize) -> Result<HostAlloc> {
        let fail = |reason: &str| Error::OutOfMemory { device: name(), bytes, reason: reason.to_owned() };
        if bytes == 0 {
            return Ok(HostAlloc { ptr: NonNull::<Aligned>::dangling().cast(), bytes });
        }
        let layout = Layout::from_size_align(bytes, ALIGN).map_err(|_| fail("larger than the address space"))?;
        // SAFETY: the layout's size is not zero.
        let ptr = unsafe { std::alloc::alloc_zeroed(layout) };
        let ptr = NonNull::new(ptr).ok_or_else(|| fail("the allocator has no such block"))?;
        Ok(HostAlloc { ptr, bytes })
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        // SAFETY: `ptr` is valid for `bytes` initialised bytes (dangling and aligned when there are none).
        unsafe { std::slice::from_raw_parts(self.ptr.as_ptr(), self.bytes) }
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: `ptr` is valid for `bytes` initialised bytes (dangling and aligned when there are none), and they are borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.ptr.as_ptr(), self.bytes) }
    }
}

impl Drop for HostAlloc {
    fn drop(&mut self) {
        if self.bytes > 0 {
            // SAFETY: `new` checked this very layout and allocated with it.
            unsafe { std::alloc::dealloc(self.ptr.as_ptr(), Layout::from_size_align_unchecked(self.bytes, ALIGN)) }
        }
    }
}

/// Stands for the alignment of a zero-length allocation.
#[repr(align(64))]
struct Aligned;

pub(crate) fn name() -> String {
    let threads = rayon::current_num_threads();
    format!("host, {threads} thread{}", if threads == 1 { "" } else { "s" })
}

pub(crate) fn memory_info() -> Result<(usize, usize)> {
    let path = "/proc/meminfo";
    let file = |reason: String| Error::File { path: path.to_owned(), reason };
    let text = std::fs::read_to_string(path).map_err(|e| file(e.to_string()))?;
    let field = |name: &str| -> Result<usize> {
        let line = text.lines().find(|l| l.starts_with(name));
        let kib = line.and_then(|l| l.split_whitespace().nth(1)).and_then(|v| v.parse::<usize>().ok());
        kib.map(|k| k * 1024).ok_or_else(|| file(format!("no field {name}")))
    };
    Ok((field("MemAvailable:")?, field("MemTotal:")?))
}
