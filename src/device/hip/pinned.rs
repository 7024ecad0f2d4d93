//! Pinned host memory.

use super::HipDevice;
use super::memory::check_alloc;
use crate::device::Address;
use crate::error::{Error, Result};
use hipverify_sys::bindings::{hipHostMallocCoherent, hipHostMallocMapped, hipHostMallocPortable};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

/// Pinned host memory, zeroed, which a GPU copies without staging. Zero bytes allocate nothing.
///
/// It is used as what its slices give: a copy by the GPU has to keep them borrowed, or to own the memory.
#[derive(Debug)]
pub(crate) struct PinnedAlloc {
    device: &'static HipDevice,
    /// Never null. No thread's in particular: the memory is pinned for every context (hipHostMallocPortable) and freed from any thread.
    ptr: Address<u8>,
    bytes: usize,
}

/// Stands for the alignment of a zero-length allocation.
#[repr(align(64))]
struct Aligned;

impl PinnedAlloc {
    /// Memory for copies. What the GPU wrote is there when the stream has been waited for.
    pub(crate) fn new(device: &'static HipDevice, bytes: usize) -> Result<PinnedAlloc> {
        PinnedAlloc::with_flags(device, bytes, hipHostMallocPortable)
    }

    fn with_flags(device: &'static HipDevice, bytes: usize, flags: u32) -> Result<PinnedAlloc> {
        device.enter()?;
        if bytes == 0 {
            return Ok(PinnedAlloc { device, ptr: Address::new(NonNull::<Aligned>::dangling().as_ptr().cast()), bytes });
        }
        let mut ptr = ptr::null_mut();
        let error = (device.api().hipHostMalloc)(&mut ptr, bytes, flags);
        check_alloc(device, "hipHostMalloc", bytes, error)?;
        let out_of_memory = || Error::OutOfMemory { device: device.name(), bytes, reason: "hipHostMalloc gave no address".to_owned() };
        let ptr = NonNull::new(ptr.cast::<u8>()).ok_or_else(out_of_memory)?.as_ptr();
        // SAFETY: the block has this size; zeroing makes it initialised for the slices below.
        unsafe { ptr.write_bytes(0, bytes) };
        Ok(PinnedAlloc { device, ptr: Address::new(ptr), bytes })
    }

    /// The block for reading.
    pub(crate) fn as_slice(&self) -> &[u8] {
        // SAFETY: `ptr` is valid for `bytes` initialised bytes (dangling and aligned when there are none), which the borrow of `self` keeps
        // from writes: a GPU gets the address only by the slice that it writes, which is borrowed exclusively until then.
        unsafe { std::slice::from_raw_parts(self.ptr.get(), self.bytes) }
    }

    /// The block for writing.
    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: `ptr` is valid for `bytes` initialised bytes (dangling and aligned when there are none), which are the borrower's alone: a GPU
        // gets the address only by a slice, which is borrowed as long as it uses it.
        unsafe { std::slice::from_raw_parts_mut(self.ptr.get(), self.bytes) }
    }
}

impl Drop for PinnedAlloc {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.device.defer(|| {
                // SAFETY: the block came from hipHostMalloc and is freed only here; a Transfer waits before it lets go.
                self.device.check("hipHostFree", unsafe { (self.device.api().hipHostFree)(self.ptr.get().cast()) })
            });
        }
    }
}

/// Pinned memory that kernels write while the host reads it, at the host's own address.
///
/// It is fine-grained: no cache of the GPU keeps a write back. A kernel writes its result, then orders these writes by a release fence of
/// system scope (`fence_system` of hip/platform.h), then writes the word that says so. The host loads that word by
/// [`word`](Self::word), an acquire: once it sees the new value, it sees the whole result, though the kernel may not have ended.
/// In coarse-grained memory, which AMD's runtime gives for `hipHostMallocPortable` alone, this holds only after the kernel's end.
#[derive(Debug)]
pub(crate) struct CoherentAlloc(PinnedAlloc);

impl CoherentAlloc {
    pub(crate) fn new(device: &'static HipDevice, bytes: usize) -> Result<CoherentAlloc> {
        PinnedAlloc::with_flags(device, bytes, hipHostMallocPortable | hipHostMallocMapped | hipHostMallocCoherent).map(CoherentAlloc)
    }

    /// The address, for kernels.
    pub(crate) fn ptr(&self) -> *mut u8 {
        self.0.ptr.get()
    }

    /// The block for reading.
    ///
    /// # Safety
    /// No GPU writes the block as long as the slice lives.
    pub(crate) unsafe fn as_slice(&self) -> &[u8] {
        self.0.as_slice()
    }

    /// The word at a byte, a multiple of 8, which a GPU may be writing: what it wrote before is seen then.
    ///
    /// # Panics
    /// When the word is not in the buffer.
    pub(crate) fn word(&self, at: usize) -> u64 {
        self.atomic(at).load(Ordering::Acquire)
    }

    /// Writes a word that a GPU may be reading or writing.
    ///
    /// # Panics
    /// As [`word`](Self::word).
    pub(crate) fn set_word(&mut self, at: usize, value: u64) {
        self.atomic(at).store(value, Ordering::Release);
    }

    fn atomic(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(8) && at + 8 <= self.0.bytes, "a word of the buffer");
        // SAFETY: eight aligned bytes of the buffer, which lives as long as the borrow; other writers are GPUs, and they write words.
        unsafe { AtomicU64::from_ptr(self.ptr().add(at).cast()) }
    }
}
