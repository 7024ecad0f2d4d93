//! Owned device memory: [`DeviceMem`] by element type, [`DeviceBytes`] without one.

use super::hip::HipAlloc;
use super::host::HostAlloc;
use super::{Backend, Device, Layout, Stream, TensorMut, TensorRef};
use crate::dtype::{DType, Element};
use crate::error::{Error, Result};
use std::marker::PhantomData;

#[derive(Debug)]
pub(crate) enum Alloc {
    Host(HostAlloc),
    Hip(HipAlloc),
}

/// An untyped block of device memory: zeroed on the host device, with arbitrary contents on a GPU.
///
/// Copies to and from host slices are synchronous and check their lengths. Zero bytes are allowed and allocate nothing.
#[derive(Debug)]
pub struct DeviceBytes {
    device: Device,
    alloc: Alloc,
    bytes: usize,
}

impl DeviceBytes {
    /// Allocates `bytes` bytes.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn new(device: &Device, bytes: usize) -> Result<DeviceBytes> {
        let alloc = match device.backend() {
            Backend::Host => Alloc::Host(HostAlloc::new(bytes)?),
            Backend::Hip(gpu) => Alloc::Hip(HipAlloc::new(gpu, bytes)?),
        };
        Ok(DeviceBytes { device: device.clone(), alloc, bytes })
    }

    /// Allocates `bytes` bytes in the order of a stream's work, and frees them in that order too; neither waits for the GPU. If the runtime cannot
    /// do that, as [`new`](DeviceBytes::new).
    ///
    /// The block may be used like any other; another stream that uses it waits for this one first. Only your own kernels do not wait:
    /// launch them on this stream, or wait for it before.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; [`Error::Unsupported`] on a stream that is being captured.
    pub fn new_on(stream: &Stream, bytes: usize) -> Result<DeviceBytes> {
        let Some(hip) = stream.hip() else {
            let _open = stream.not_recording("an allocation")?;
            return DeviceBytes::new(stream.device(), bytes);
        };
        Ok(DeviceBytes { device: stream.device().clone(), alloc: Alloc::Hip(HipAlloc::new_on(hip, bytes)?), bytes })
    }

    /// Allocates a block and fills it from host memory.
    ///
    /// # Errors
    /// As [`DeviceBytes::new`], or a failed transfer.
    pub fn from_slice(device: &Device, source: &[u8]) -> Result<DeviceBytes> {
        let mut block = DeviceBytes::new(device, source.len())?;
        block.copy_from_slice(source)?;
        Ok(block)
    }

    /// The contents as a vector.
    ///
    /// # Errors
    /// A failed transfer.
    pub fn to_vec(&self) -> Result<Vec<u8>> {
        let mut out = vec![0; self.bytes];
        self.copy_to_slice(&mut out)?;
        Ok(out)
    }

    /// Replaces the block by one of `bytes` bytes; the contents are not kept. The old block is freed first, so that
    /// a buffer can grow to more than half of the memory; if the new one cannot be allocated, an empty block is left.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`].
    pub fn realloc(&mut self, bytes: usize) -> Result<()> {
        if bytes != self.bytes {
            *self = DeviceBytes::new(&self.device, 0)?;
            *self = DeviceBytes::new(&self.device, bytes)?;
        }
        Ok(())
    }

    /// The device that holds the block.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Size in bytes.
    pub fn byte_size(&self) -> usize {
        self.bytes
    }

    /// Fills the block from `source`, which must have its size.
    ///
    /// # Errors
    /// [`Error::Length`], or a failed transfer.
    pub fn copy_from_slice(&mut self, source: &[u8]) -> Result<()> {
        same_length("bytes copied to the device", self.bytes, source.len())?;
        match &mut self.alloc {
            Alloc::Host(a) => a.as_mut_slice().copy_from_slice(source),
            Alloc::Hip(a) => a.write(source)?,
        }
        Ok(())
    }

    /// Copies the block into `target`, which must have its size.
    ///
    /// # Errors
    /// [`Error::Length`], or a failed transfer.
    pub fn copy_to_slice(&self, target: &mut [u8]) -> Result<()> {
        same_length("bytes copied from the device", self.bytes, target.len())?;
        match &self.alloc {
            Alloc::Host(a) => target.copy_from_slice(a.as_slice()),
            Alloc::Hip(a) => a.read(target)?,
        }
        Ok(())
    }

    /// Fills the block from another one of the same size, on any device.
    ///
    /// # Errors
    /// [`Error::Length`], or a failed transfer.
    pub fn copy_from(&mut self, source: &DeviceBytes) -> Result<()> {
        same_length("bytes copied between buffers", self.bytes, source.bytes)?;
        match (&mut self.alloc, &source.alloc) {
            (Alloc::Host(to), Alloc::Host(from)) => to.as_mut_slice().copy_from_slice(from.as_slice()),
            (Alloc::Hip(to), Alloc::Host(from)) => to.write(from.as_slice())?,
            (Alloc::Host(to), Alloc::Hip(from)) => from.read(to.as_mut_slice())?,
            (Alloc::Hip(to), Alloc::Hip(from)) => to.copy_from(from)?,
        }
        Ok(())
    }

    /// Sets every byte to zero.
    ///
    /// # Errors
    /// A failed launch.
    pub fn set_zero(&mut self) -> Result<()> {
        match &mut self.alloc {
            Alloc::Host(a) => a.as_mut_slice().fill(0),
            Alloc::Hip(a) => a.set_zero()?,
        }
        Ok(())
    }

    pub(crate) fn alloc(&self) -> &Alloc {
        &self.alloc
    }

    pub(crate) fn alloc_mut(&mut self) -> &mut Alloc {
        &mut self.alloc
    }

    /// The block as a tensor of any format and layout that stay inside it. Its beginning is aligned for every format.
    ///
    /// ```
    /// use hipverify::device::{Device, DeviceBytes, Layout};
    /// use hipverify::verify::{Tolerance, gpu_verify};
    /// use hipverify::DType;
    /// let mut block = DeviceBytes::new(&Device::host(), 16)?;
    /// block.set_value(1.5f32)?;
    /// let [x, y] = [0, 2].map(|offset| Layout::strided(&[2], &[1], offset));
    /// let (x, y) = (block.tensor(DType::F32, x?)?, block.tensor(DType::F32, y?)?);
    /// assert!(gpu_verify(&x, &y, &Tolerance::exact())?.passed());
    /// assert!(block.tensor(DType::F64, Layout::contiguous(&[3])?).is_err());
    /// # Ok::<(), hipverify::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Length`] when an element would lie beyond the block.
    pub fn tensor(&self, dtype: DType, layout: Layout) -> Result<TensorRef<'_>> {
        TensorRef::of_block(self, dtype, layout)
    }

    /// As [`tensor`](DeviceBytes::tensor), to be written.
    ///
    /// # Errors
    /// As there.
    pub fn tensor_mut(&mut self, dtype: DType, layout: Layout) -> Result<TensorMut<'_>> {
        TensorMut::of_block(self, dtype, layout)
    }

    /// The block's address on its device, for kernels: that of a block without bytes may be null.
    pub fn as_ptr(&self) -> *const u8 {
        match &self.alloc {
            Alloc::Host(a) => a.as_slice().as_ptr(),
            Alloc::Hip(a) => a.ptr(),
        }
    }

    /// As [`as_ptr`](DeviceBytes::as_ptr), to be written.
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        match &mut self.alloc {
            Alloc::Host(a) => a.as_mut_slice().as_mut_ptr(),
            Alloc::Hip(a) => a.ptr(),
        }
    }
}

/// Device memory for `len` units of type `T` (for packed formats a unit is a byte with two elements).
///
/// ```
/// use hipverify::{Device, DeviceMem};
/// let device = Device::host();
/// let mut x = DeviceMem::<f32>::new(&device, 3)?;
/// x.copy_from_slice(&[1.0, 2.0, 3.0])?;
/// assert_eq!(x.to_vec()?, [1.0, 2.0, 3.0]);
/// # Ok::<(), hipverify::Error>(())
/// ```
#[derive(Debug)]
pub struct DeviceMem<T: Element> {
    raw: DeviceBytes,
    len: usize,
    unit: PhantomData<T>,
}

impl<T: Element> DeviceMem<T> {
    /// Allocates `len` units.
    ///
    /// # Errors
    /// [`Error::SizeOverflow`], [`Error::OutOfMemory`].
    pub fn new(device: &Device, len: usize) -> Result<DeviceMem<T>> {
        let raw = DeviceBytes::new(device, byte_size::<T>(len)?)?;
        Ok(DeviceMem { raw, len, unit: PhantomData })
    }

    /// Allocates `len` units in the order of a stream's work; see [`DeviceBytes::new_on`].
    ///
    /// # Errors
    /// As [`DeviceMem::new`]; [`Error::Unsupported`] on a stream that is being captured.
    pub fn new_on(stream: &Stream, len: usize) -> Result<DeviceMem<T>> {
        let raw = DeviceBytes::new_on(stream, byte_size::<T>(len)?)?;
        Ok(DeviceMem { raw, len, unit: PhantomData })
    }

    /// Allocates and fills a buffer from a host slice.
    ///
    /// # Errors
    /// As [`DeviceMem::new`], or a failed transfer.
    pub fn from_slice(device: &Device, source: &[T]) -> Result<DeviceMem<T>> {
        let mut mem = DeviceMem::new(device, source.len())?;
        mem.copy_from_slice(source)?;
        Ok(mem)
    }

    /// Replaces the buffer by one of `len` units; the contents are not kept. See [`DeviceBytes::realloc`].
    ///
    /// # Errors
    /// [`Error::SizeOverflow`], [`Error::OutOfMemory`] (an empty buffer is left).
    pub fn realloc(&mut self, len: usize) -> Result<()> {
        let bytes = byte_size::<T>(len)?;
        self.len = 0;
        self.raw.realloc(bytes)?;
        self.len = len;
        Ok(())
    }

    /// Units in the buffer.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the buffer has no units.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Elements in the buffer: two a unit for packed formats.
    pub fn elements(&self) -> usize {
        self.len * T::PER_UNIT
    }

    /// Size in bytes.
    pub fn byte_size(&self) -> usize {
        self.raw.byte_size()
    }

    /// The device that holds the buffer.
    pub fn device(&self) -> &Device {
        self.raw.device()
    }

    /// The format of the elements.
    pub fn dtype(&self) -> DType {
        T::DTYPE
    }

    /// Fills the buffer from a slice of its length.
    ///
    /// # Errors
    /// [`Error::Length`], or a failed transfer.
    pub fn copy_from_slice(&mut self, source: &[T]) -> Result<()> {
        same_length("units copied to the device", self.len, source.len())?;
        self.raw.copy_from_slice(bytemuck::cast_slice(source))
    }

    /// Copies the buffer into a slice of its length.
    ///
    /// # Errors
    /// [`Error::Length`], or a failed transfer.
    pub fn copy_to_slice(&self, target: &mut [T]) -> Result<()> {
        same_length("units copied from the device", self.len, target.len())?;
        self.raw.copy_to_slice(bytemuck::cast_slice_mut(target))
    }

    /// Fills the buffer from another one of the same length, on any device.
    ///
    /// # Errors
    /// [`Error::Length`], or a failed transfer.
    pub fn copy_from(&mut self, source: &DeviceMem<T>) -> Result<()> {
        same_length("units copied between buffers", self.len, source.len)?;
        self.raw.copy_from(&source.raw)
    }

    /// The contents as a vector.
    ///
    /// # Errors
    /// A failed transfer.
    pub fn to_vec(&self) -> Result<Vec<T>> {
        let mut out = vec![T::zeroed(); self.len];
        self.copy_to_slice(&mut out)?;
        Ok(out)
    }

    /// Sets every byte to zero.
    ///
    /// # Errors
    /// A failed launch.
    pub fn set_zero(&mut self) -> Result<()> {
        self.raw.set_zero()
    }

    pub(crate) fn bytes(&self) -> &DeviceBytes {
        &self.raw
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut DeviceBytes {
        &mut self.raw
    }

    /// The whole buffer as a tensor of one dimension.
    pub(crate) fn flat(&self) -> TensorRef<'_> {
        TensorRef::of_units::<T>(&self.raw)
    }

    /// The buffer as a dense row-major tensor of the given shape.
    ///
    /// # Errors
    /// When the shape has another number of elements than the buffer (packed formats: one less is fine).
    pub fn tensor(&self, shape: &[usize]) -> Result<TensorRef<'_>> {
        self.strided(whole::<T>(self.len, shape)?)
    }

    /// The buffer under any layout that stays inside it.
    ///
    /// # Errors
    /// When an element would lie beyond the buffer.
    pub fn strided(&self, layout: Layout) -> Result<TensorRef<'_>> {
        self.raw.tensor(T::DTYPE, layout)
    }

    /// As [`tensor`](DeviceMem::tensor), to be written.
    ///
    /// # Errors
    /// As there.
    pub fn tensor_mut(&mut self, shape: &[usize]) -> Result<TensorMut<'_>> {
        self.strided_mut(whole::<T>(self.len, shape)?)
    }

    /// As [`strided`](DeviceMem::strided), to be written.
    ///
    /// # Errors
    /// As there.
    pub fn strided_mut(&mut self, layout: Layout) -> Result<TensorMut<'_>> {
        self.raw.tensor_mut(T::DTYPE, layout)
    }
}

/// The dense layout of this shape, which has to take all of a buffer of `len` units.
pub(super) fn whole<T: Element>(len: usize, shape: &[usize]) -> Result<Layout> {
    let layout = Layout::contiguous(shape)?;
    if layout.elements().div_ceil(T::PER_UNIT) == len {
        return Ok(layout);
    }
    let elements = len * T::PER_UNIT;
    Err(Error::Shape { what: format!("a buffer of {elements} elements"), expected: vec![elements], found: shape.to_vec() })
}

pub(super) fn byte_size<T: Element>(len: usize) -> Result<usize> {
    let bytes = len.checked_mul(size_of::<T>()).filter(|&b| b <= isize::MAX as usize);
    bytes.ok_or(Error::SizeOverflow { what: "device buffer", elements: len, unit_bytes: size_of::<T>() })
}

pub(super) fn same_length(what: &'static str, expected: usize, found: usize) -> Result<()> {
    if expected == found { Ok(()) } else { Err(Error::Length { what, expected, found }) }
}

#[cfg(test)]
mod tests;
