//! Pinned host memory, which a GPU copies without staging.

use super::hip::PinnedAlloc;
use super::host::HostAlloc;
use super::mem::byte_size;
use super::{Backend, Device};
use crate::dtype::Element;
use crate::error::Result;
use std::marker::PhantomData;

/// Host memory for `len` units of type `T`, pinned for a device and zeroed. On the host device it is ordinary memory.
///
/// ```
/// use hipverify::device::{Device, DeviceMem, PinnedMem, Stream};
/// let device = Device::host();
/// let stream = Stream::new(&device)?;
/// let mut staging = PinnedMem::<f32>::new(&device, 2)?;
/// staging.as_mut_slice().copy_from_slice(&[1.0, 2.0]);
/// let transfer = staging.upload(DeviceMem::new(&device, 2)?, &stream)?;
/// // ... other work ...
/// let (staging, x) = transfer.wait()?;
/// assert_eq!(x.to_vec()?, staging.as_slice());
/// # Ok::<(), hipverify::Error>(())
/// ```
#[derive(Debug)]
pub struct PinnedMem<T: Element> {
    device: Device,
    alloc: Alloc,
    unit: PhantomData<T>,
}

#[derive(Debug)]
enum Alloc {
    Host(HostAlloc),
    Hip(PinnedAlloc),
}

impl<T: Element> PinnedMem<T> {
    /// Allocates `len` zeroed units.
    ///
    /// # Errors
    /// [`Error::SizeOverflow`](crate::Error::SizeOverflow), [`Error::OutOfMemory`](crate::Error::OutOfMemory).
    pub fn new(device: &Device, len: usize) -> Result<PinnedMem<T>> {
        let bytes = byte_size::<T>(len)?;
        let alloc = match device.backend() {
            Backend::Host => Alloc::Host(HostAlloc::new(bytes)?),
            Backend::Hip(gpu) => Alloc::Hip(PinnedAlloc::new(gpu, bytes)?),
        };
        Ok(PinnedMem { device: device.clone(), alloc, unit: PhantomData })
    }

    /// The device that the memory is pinned for.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Units in the buffer.
    pub fn len(&self) -> usize {
        self.as_slice().len()
    }

    /// Whether the buffer has no units.
    pub fn is_empty(&self) -> bool {
        self.as_slice().is_empty()
    }

    /// The contents.
    pub fn as_slice(&self) -> &[T] {
        bytemuck::cast_slice(match &self.alloc {
            Alloc::Host(a) => a.as_slice(),
            Alloc::Hip(a) => a.as_slice(),
        })
    }

    /// The contents, to be written.
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        bytemuck::cast_slice_mut(match &mut self.alloc {
            Alloc::Host(a) => a.as_mut_slice(),
            Alloc::Hip(a) => a.as_mut_slice(),
        })
    }
}
