//! Device memory.

use super::copy::{Source, Target};
use super::{HipDevice, HipStream};
use crate::device::Address;
use crate::error::{Error, Result};
use hipverify_sys::bindings::hipError_t;
use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

/// An owned block of GPU memory, its contents arbitrary. Zero bytes allocate nothing and have a null address.
#[derive(Debug)]
pub(crate) struct HipAlloc {
    device: &'static HipDevice,
    ptr: Address<c_void>,
    bytes: usize,
    /// The stream in whose order it was allocated and will be freed; without one, hipMalloc and hipFree are used.
    stream: Option<Arc<HipStream>>,
}

/// Maps the runtime's out-of-memory code, which carries no size.
pub(super) fn check_alloc(device: &HipDevice, call: &'static str, bytes: usize, error: hipError_t) -> Result<()> {
    let failed = device.check(call, error);
    if error != hipError_t::hipErrorOutOfMemory {
        return failed;
    }
    let reason = device.memory_info().map_or_else(|_| call.to_owned(), |(free, total)| format!("{call}: {free} of {total} bytes are free"));
    Err(Error::OutOfMemory { device: device.name(), bytes, reason })
}

impl HipAlloc {
    pub(crate) fn new(device: &'static HipDevice, bytes: usize) -> Result<HipAlloc> {
        device.enter()?;
        let mut ptr = ptr::null_mut();
        if bytes > 0 {
            check_alloc(device, "hipMalloc", bytes, (device.api().hipMalloc)(&mut ptr, bytes))?;
        }
        Ok(HipAlloc { device, ptr: Address::new(ptr), bytes, stream: None })
    }

    /// A block that is allocated and freed in the order of a stream's work if the device can do that, otherwise as by [`new`](Self::new).
    ///
    /// The device says whether it can. The functions alone say nothing: HIP 5.2 has them and they succeed on devices without memory
    /// pools, but the stream that they were called on is never destroyed afterwards: hipStreamDestroy does not return.
    pub(crate) fn new_on(stream: &Arc<HipStream>, bytes: usize) -> Result<HipAlloc> {
        let _open = stream.not_recording("an allocation")?;
        let device = stream.device();
        let allocate = match (device.api().hipMallocAsync, device.api().hipFreeAsync) {
            (Some(allocate), Some(_)) if device.memory_pools && bytes > 0 => allocate,
            _ => return HipAlloc::new(device, bytes),
        };
        device.enter()?;
        let mut ptr = ptr::null_mut();
        // SAFETY: the pointer is valid for a write and the stream alive.
        let error = stream.allocate(|stream| unsafe { allocate(&mut ptr, bytes, stream) });
        if error == hipError_t::hipErrorNotSupported {
            device.clear_last_error();
            return HipAlloc::new(device, bytes);
        }
        check_alloc(device, "hipMallocAsync", bytes, error)?;
        Ok(HipAlloc { device, ptr: Address::new(ptr), bytes, stream: Some(Arc::clone(stream)) })
    }

    pub(crate) fn device(&self) -> &'static HipDevice {
        self.device
    }

    pub(crate) fn ptr(&self) -> *mut u8 {
        self.ptr.get().cast()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Copies from the host, and waits.
    pub(crate) fn write(&mut self, source: &[u8]) -> Result<()> {
        self.same_size(source.len())?;
        self.device.copy(&Target::block(self), &Source::host(source))
    }

    /// Copies to the host, and waits.
    pub(crate) fn read(&self, target: &mut [u8]) -> Result<()> {
        self.same_size(target.len())?;
        self.device.copy(&Target::host(target), &Source::block(self))
    }

    /// Copies from another block, on this GPU or on any other, also one of another runtime, and waits.
    pub(crate) fn copy_from(&mut self, source: &HipAlloc) -> Result<()> {
        self.same_size(source.bytes)?;
        let (from, to) = (source.device, self.device);
        if ptr::eq(from, to) {
            return to.copy(&Target::block(self), &Source::block(source));
        }
        if from.platform() != to.platform() {
            // No runtime knows both: by way of the host.
            let mut bounce = vec![0; self.bytes];
            source.read(&mut bounce)?;
            return self.write(&bounce);
        }
        from.blocking(|_| Ok(()))?;
        to.blocking(|queue| {
            if self.bytes == 0 {
                return Ok(());
            }
            let copy = to.api().hipMemcpyPeerAsync;
            // SAFETY: both blocks have this size and are borrowed until `blocking` has waited.
            let error =
                queue.enqueue(|stream| unsafe { copy(self.ptr.get(), to.ordinal, source.ptr.get(), from.ordinal, self.bytes, stream) });
            to.check("hipMemcpyPeerAsync", error)
        })
    }

    pub(crate) fn set_zero(&mut self) -> Result<()> {
        self.device.blocking(|queue| {
            if self.bytes == 0 {
                return Ok(());
            }
            // SAFETY: the block has this size.
            let error = queue.enqueue(|stream| unsafe { (self.device.api().hipMemsetAsync)(self.ptr.get(), 0, self.bytes, stream) });
            self.device.check("hipMemsetAsync", error)
        })
    }

    fn same_size(&self, found: usize) -> Result<()> {
        if found == self.bytes { Ok(()) } else { Err(Error::Length { what: "bytes copied", expected: self.bytes, found }) }
    }
}

impl Drop for HipAlloc {
    fn drop(&mut self) {
        if !self.ptr.get().is_null() {
            let in_order = self.stream.as_ref().and_then(|stream| Some((stream, stream.unless_captured()?)));
            self.device.defer(|| {
                if let (Some((stream, _operation)), Some(free)) = (&in_order, self.device.api().hipFreeAsync) {
                    // Work on its own stream comes before; only that of the others has to be waited for.
                    let waited = self.device.wait_for_other_streams(stream);
                    // SAFETY: the block came from hipMallocAsync and is freed only here.
                    let freed = self.device.check("hipFreeAsync", stream.enqueue(|stream| unsafe { free(self.ptr.get(), stream) }));
                    return waited.and(freed);
                }
                // Work that was enqueued on some stream may still use the block. Freed even when that work failed.
                let waited = self.device.wait_for_streams();
                // SAFETY: the block came from hipMalloc, or from hipMallocAsync, whose blocks hipFree takes too, and is freed only here.
                let freed = self.device.check("hipFree", unsafe { (self.device.api().hipFree)(self.ptr.get()) });
                waited.and(freed)
            });
        }
    }
}
