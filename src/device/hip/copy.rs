//! Copies, told by what they read and write.

use super::{HipAlloc, HipDevice, HipStream};
use crate::device::{Alloc, Backend, DeviceBytes, TensorMut, TensorRef};
use crate::error::{Error, Result};
use hipverify_sys::bindings::hipMemcpyKind;
use std::ffi::c_void;
use std::marker::PhantomData;
use std::ops::Range;
use std::ptr;
use std::sync::Arc;

/// Bytes for a copy to read, which the borrow keeps valid: a GPU's, or without one the host's.
pub(crate) struct Source<'a> {
    gpu: Option<&'static HipDevice>,
    address: *const c_void,
    bytes: usize,
    borrow: PhantomData<&'a [u8]>,
}

/// Bytes for a copy to write, which the borrow keeps valid and from all others.
pub(crate) struct Target<'a> {
    gpu: Option<&'static HipDevice>,
    address: *mut c_void,
    bytes: usize,
    borrow: PhantomData<&'a mut [u8]>,
}

fn gpu_of(tensor: &TensorRef<'_>) -> Option<&'static HipDevice> {
    match *tensor.device().backend() {
        Backend::Host => None,
        Backend::Hip(gpu) => Some(gpu),
    }
}

impl<'a> Source<'a> {
    pub(crate) fn host(bytes: &'a [u8]) -> Source<'a> {
        Source { gpu: None, address: bytes.as_ptr().cast(), bytes: bytes.len(), borrow: PhantomData }
    }

    pub(crate) fn block(block: &'a HipAlloc) -> Source<'a> {
        Source { gpu: Some(block.device()), address: block.ptr().cast(), bytes: block.bytes(), borrow: PhantomData }
    }

    pub(crate) fn memory(memory: &'a DeviceBytes) -> Source<'a> {
        match memory.alloc() {
            Alloc::Host(block) => Source::host(block.as_slice()),
            Alloc::Hip(block) => Source::block(block),
        }
    }

    /// These bytes of a tensor's memory.
    ///
    /// # Panics
    /// When they are not all in the memory.
    pub(crate) fn tensor(tensor: &TensorRef<'a>, bytes: Range<usize>) -> Source<'a> {
        assert!(bytes.start <= bytes.end && bytes.end <= tensor.byte_size(), "bytes {bytes:?} of {}", tensor.byte_size());
        let address = tensor.as_ptr().wrapping_add(bytes.start).cast();
        Source { gpu: gpu_of(tensor), address, bytes: bytes.len(), borrow: PhantomData }
    }
}

impl<'a> Target<'a> {
    pub(crate) fn host(bytes: &'a mut [u8]) -> Target<'a> {
        Target { gpu: None, address: bytes.as_mut_ptr().cast(), bytes: bytes.len(), borrow: PhantomData }
    }

    pub(crate) fn block(block: &'a mut HipAlloc) -> Target<'a> {
        Target { gpu: Some(block.device()), address: block.ptr().cast(), bytes: block.bytes(), borrow: PhantomData }
    }

    pub(crate) fn memory(memory: &'a mut DeviceBytes) -> Target<'a> {
        match memory.alloc_mut() {
            Alloc::Host(block) => Target::host(block.as_mut_slice()),
            Alloc::Hip(block) => Target::block(block),
        }
    }

    /// The memory of a tensor.
    pub(crate) fn tensor(tensor: &'a mut TensorMut<'_>) -> Target<'a> {
        let (gpu, bytes) = (gpu_of(tensor.as_ref()), tensor.as_ref().byte_size());
        Target { gpu, address: tensor.as_mut_ptr().cast(), bytes, borrow: PhantomData }
    }
}

impl HipStream {
    /// Enqueues a copy to the beginning of `to`. Zero bytes are no copy.
    ///
    /// # Safety
    /// Both ends stay valid until the stream has been waited for, as if they were borrowed so long.
    pub(crate) unsafe fn copy(self: &Arc<Self>, to: &Target<'_>, from: &Source<'_>) -> Result<()> {
        let device = self.device();
        if let Some(other) = [to.gpu, from.gpu].into_iter().flatten().find(|gpu| !ptr::eq(*gpu, device)) {
            return Err(Error::WrongDevice { what: "what is copied", expected: device.name(), found: other.name() });
        }
        if from.bytes > to.bytes {
            return Err(Error::Length { what: "bytes copied", expected: to.bytes, found: from.bytes });
        }
        if from.bytes == 0 {
            return Ok(());
        }
        let kind = match (from.gpu, to.gpu) {
            (None, None) => hipMemcpyKind::hipMemcpyHostToHost,
            (None, Some(_)) => hipMemcpyKind::hipMemcpyHostToDevice,
            (Some(_), None) => hipMemcpyKind::hipMemcpyDeviceToHost,
            (Some(_), Some(_)) => hipMemcpyKind::hipMemcpyDeviceToDevice,
        };
        let _open = self.not_recording("a copy")?;
        device.wait_for_allocations(self)?;
        let copy = device.api().hipMemcpyAsync;
        // SAFETY: both ends are of this kind, on this device, and have so many bytes; that they stay valid is the caller's promise.
        let error = self.enqueue(|stream| unsafe { copy(to.address, from.address, from.bytes, kind, stream) });
        device.check("hipMemcpyAsync", error)
    }
}

impl HipDevice {
    /// Copies to the beginning of `to`, and waits.
    pub(crate) fn copy(&'static self, to: &Target<'_>, from: &Source<'_>) -> Result<()> {
        // SAFETY: both are borrowed until `blocking` has waited.
        self.blocking(|queue| unsafe { queue.copy(to, from) })
    }
}
