//! Borrowed tensors: what operations read and write.

use super::mem::whole;
use super::{Address, Device, DeviceBytes, DeviceMem, Layout};
use crate::dtype::{DType, Element};
use crate::error::{Error, Result};
use std::marker::PhantomData;
use std::ptr::NonNull;

/// A borrowed tensor on a device: memory, format and layout.
#[derive(Clone, Debug)]
pub struct TensorRef<'a> {
    device: Device,
    ptr: Address<u8>,
    bytes: usize,
    dtype: DType,
    layout: Layout,
    borrow: PhantomData<&'a [u8]>,
}

/// A borrowed tensor on a device, to be written.
#[derive(Debug)]
pub struct TensorMut<'a> {
    tensor: TensorRef<'a>,
    borrow: PhantomData<&'a mut [u8]>,
}

impl<'a> TensorRef<'a> {
    /// A tensor over memory that other code owns. An empty memory may have any address, also null.
    ///
    /// # Errors
    /// When the layout reaches beyond `bytes`, or a null pointer is said to have bytes.
    ///
    /// # Safety
    /// * `ptr` is valid for reads of `bytes` bytes by `device`, for the lifetime `'a`, and until work that was enqueued on it is done;
    /// * nothing writes that memory during `'a`, nor before that work is done;
    /// * on the host device the bytes are initialised.
    pub unsafe fn from_raw(device: &Device, ptr: *const u8, bytes: usize, dtype: DType, layout: Layout) -> Result<TensorRef<'a>> {
        expect_inside(bytes, dtype, &layout)?;
        if ptr.is_null() && bytes > 0 {
            let limit = "a null pointer has no bytes".to_owned();
            return Err(Error::InvalidArgument { what: "pointer", value: format!("null for {bytes} bytes"), limit });
        }
        Ok(TensorRef { device: device.clone(), ptr: Address::new(ptr.cast_mut()), bytes, dtype, layout, borrow: PhantomData })
    }

    /// A block as a tensor of any format and layout that stay inside it. It owns its bytes, which on the host are initialised.
    pub(super) fn of_block(block: &'a DeviceBytes, dtype: DType, layout: Layout) -> Result<TensorRef<'a>> {
        expect_inside(block.byte_size(), dtype, &layout)?;
        Ok(TensorRef { dtype, layout, ..TensorRef::of_units::<u8>(block) })
    }

    /// A block of units of a type, in one dimension.
    pub(super) fn of_units<T: Element>(block: &'a DeviceBytes) -> TensorRef<'a> {
        let (device, ptr, bytes) = (block.device().clone(), Address::new(block.as_ptr().cast_mut()), block.byte_size());
        let layout = Layout::flat(bytes / size_of::<T>() * T::PER_UNIT);
        TensorRef { device, ptr, bytes, dtype: T::DTYPE, layout, borrow: PhantomData }
    }

    /// A tensor over host bytes (a mapped file, say), on the host device. Any alignment will do.
    ///
    /// # Errors
    /// When the layout reaches beyond `bytes`.
    pub fn from_host_bytes(bytes: &'a [u8], dtype: DType, layout: Layout) -> Result<TensorRef<'a>> {
        TensorRef::from_bytes_on(&Device::host(), bytes, dtype, layout)
    }

    /// As [`from_host_bytes`](Self::from_host_bytes), on a host device that says why it was chosen.
    pub(crate) fn from_bytes_on(host: &Device, bytes: &'a [u8], dtype: DType, layout: Layout) -> Result<TensorRef<'a>> {
        Device::host().expect_same(host, "a tensor of host bytes")?;
        expect_inside(bytes.len(), dtype, &layout)?;
        Ok(TensorRef::inside(host.clone(), bytes, dtype, layout))
    }

    /// Host bytes under a layout that stays inside them.
    fn inside(host: Device, bytes: &'a [u8], dtype: DType, layout: Layout) -> TensorRef<'a> {
        let ptr = Address::new(bytes.as_ptr().cast_mut());
        TensorRef { device: host, ptr, bytes: bytes.len(), dtype, layout, borrow: PhantomData }
    }

    /// A dense row-major tensor over values in host memory, on the host device; nothing is copied.
    ///
    /// ```
    /// use hipverify::TensorRef;
    /// use hipverify::verify::{Tolerance, gpu_verify};
    /// let (result, reference) = ([1.0f32, 2.0, 3.0, 4.0], [1.0f32, 2.0, 3.0, 4.5]);
    /// let (result, reference) = (TensorRef::from_slice(&result, &[2, 2])?, TensorRef::from_slice(&reference, &[2, 2])?);
    /// assert!(!gpu_verify(&result, &reference, &Tolerance::exact())?.passed());
    /// # Ok::<(), hipverify::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the shape has another number of elements than the slice (packed formats: one less is fine).
    pub fn from_slice<T: Element>(values: &'a [T], shape: &[usize]) -> Result<TensorRef<'a>> {
        TensorRef::from_host_bytes(bytemuck::cast_slice(values), T::DTYPE, whole::<T>(values.len(), shape)?)
    }

    /// Another tensor in the same memory: a part, rows in another order, dimensions exchanged. The layout counts from the memory's beginning.
    ///
    /// ```
    /// use hipverify::device::{Device, DeviceMem, Layout};
    /// let memory = DeviceMem::from_slice(&Device::host(), &[1.0f32, 2.0, 3.0, 4.0])?;
    /// let matrix = memory.tensor(&[2, 2])?;
    /// let second_column = matrix.view(Layout::strided(&[2], &[2], 1)?)?;
    /// assert_eq!(second_column.shape(), [2]);
    /// assert!(matrix.view(Layout::strided(&[2], &[2], 2)?).is_err());
    /// # Ok::<(), hipverify::Error>(())
    /// ```
    ///
    /// # Errors
    /// When the layout reaches beyond the memory.
    pub fn view(&self, layout: Layout) -> Result<TensorRef<'a>> {
        expect_inside(self.bytes, self.dtype, &layout)?;
        Ok(TensorRef { device: self.device.clone(), layout, ..*self })
    }

    /// The device that holds the tensor.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The format of the elements.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The layout.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The extents.
    pub fn shape(&self) -> &[usize] {
        self.layout.shape()
    }

    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.layout.elements()
    }

    /// The address of the memory, for kernels.
    pub fn as_ptr(&self) -> *const u8 {
        self.ptr.get()
    }

    /// Size of the memory that the tensor may touch, in bytes.
    pub fn byte_size(&self) -> usize {
        self.bytes
    }

    /// The memory of a tensor on the host device.
    pub(crate) fn host_bytes(&self) -> &'a [u8] {
        debug_assert!(matches!(self.device.backend(), super::Backend::Host));
        // SAFETY: `from_raw` was promised `bytes` initialised bytes for 'a on the host device.
        unsafe { std::slice::from_raw_parts(self.slice_start().as_ptr(), self.bytes) }
    }

    /// Where a slice of the memory begins: an empty memory may have a null pointer, which a slice may not have.
    fn slice_start(&self) -> NonNull<u8> {
        NonNull::new(self.ptr.get()).unwrap_or(NonNull::dangling())
    }
}

impl<'a> TensorMut<'a> {
    /// A tensor to be written, over memory that other code owns. An empty memory may have any address, also null.
    ///
    /// # Errors
    /// When the layout reaches beyond `bytes`, or a null pointer is said to have bytes.
    ///
    /// # Safety
    /// * `ptr` is valid for reads and writes of `bytes` bytes by `device`, for the lifetime `'a`;
    /// * nothing else reads or writes that memory during `'a`;
    /// * on the host device the bytes are initialised.
    pub unsafe fn from_raw(device: &Device, ptr: *mut u8, bytes: usize, dtype: DType, layout: Layout) -> Result<TensorMut<'a>> {
        // SAFETY: the caller promises more than what is needed for reading.
        let tensor = unsafe { TensorRef::from_raw(device, ptr, bytes, dtype, layout)? };
        Ok(TensorMut { tensor, borrow: PhantomData })
    }

    /// As [`TensorRef::of_block`], to be written.
    pub(super) fn of_block(block: &'a mut DeviceBytes, dtype: DType, layout: Layout) -> Result<TensorMut<'a>> {
        expect_inside(block.byte_size(), dtype, &layout)?;
        let (device, bytes) = (block.device().clone(), block.byte_size());
        let ptr = Address::new(block.as_mut_ptr());
        Ok(TensorMut { tensor: TensorRef { device, ptr, bytes, dtype, layout, borrow: PhantomData }, borrow: PhantomData })
    }

    /// A tensor to be written over host bytes, on the host device.
    ///
    /// # Errors
    /// When the layout reaches beyond `bytes`.
    pub fn from_host_bytes(bytes: &'a mut [u8], dtype: DType, layout: Layout) -> Result<TensorMut<'a>> {
        expect_inside(bytes.len(), dtype, &layout)?;
        let (device, ptr) = (Device::host(), Address::new(bytes.as_mut_ptr()));
        Ok(TensorMut { tensor: TensorRef { device, ptr, bytes: bytes.len(), dtype, layout, borrow: PhantomData }, borrow: PhantomData })
    }

    /// A dense row-major tensor to be written, over values in host memory, on the host device.
    ///
    /// # Errors
    /// As [`TensorRef::from_slice`].
    pub fn from_slice<T: Element>(values: &'a mut [T], shape: &[usize]) -> Result<TensorMut<'a>> {
        let layout = whole::<T>(values.len(), shape)?;
        TensorMut::from_host_bytes(bytemuck::cast_slice_mut(values), T::DTYPE, layout)
    }

    /// The tensor for reading, as long as nothing writes it: a clone of what this gives keeps the borrow of `self`.
    #[allow(clippy::should_implement_trait, reason = "the trait would leave the lifetime to inference")]
    pub fn as_ref(&self) -> &TensorRef<'_> {
        &self.tensor
    }

    /// The address of the memory, for kernels.
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.tensor.ptr.get()
    }

    /// The memory of a tensor on the host device.
    pub(crate) fn host_bytes_mut(&mut self) -> &mut [u8] {
        debug_assert!(matches!(self.tensor.device.backend(), super::Backend::Host));
        // SAFETY: `from_raw` was promised exclusive access to `bytes` initialised bytes; &mut self keeps it exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.tensor.slice_start().as_ptr(), self.tensor.bytes) }
    }
}

/// That a layout stays inside a memory of so many bytes.
fn expect_inside(bytes: usize, dtype: DType, layout: &Layout) -> Result<()> {
    let needed = dtype.bytes_for(layout.end()).unwrap_or(usize::MAX);
    if needed > bytes {
        return Err(Error::Length { what: "bytes that the layout spans", expected: bytes, found: needed });
    }
    Ok(())
}

/// What can be read as a tensor: a [`DeviceMem`] (one dimension) or a [`TensorRef`]; on the host device also a slice, an array or a `Vec` of elements (one dimension).
///
/// ```
/// use hipverify::verify::{Tolerance, gpu_verify};
/// let (result, reference) = (vec![1.0f32, 2.0, 3.0], [1.0f32, 2.0, 3.5]);
/// assert_eq!(gpu_verify(&result, &reference, &Tolerance::exact())?.mismatches, 1);
/// # Ok::<(), hipverify::Error>(())
/// ```
pub trait AsTensor {
    /// The tensor.
    fn as_tensor(&self) -> TensorRef<'_>;
}

impl AsTensor for TensorRef<'_> {
    fn as_tensor(&self) -> TensorRef<'_> {
        self.clone()
    }
}

impl<T: Element> AsTensor for DeviceMem<T> {
    fn as_tensor(&self) -> TensorRef<'_> {
        self.flat()
    }
}

impl<T: Element> AsTensor for [T] {
    fn as_tensor(&self) -> TensorRef<'_> {
        TensorRef::inside(Device::host(), bytemuck::cast_slice(self), T::DTYPE, Layout::flat(self.len() * T::PER_UNIT))
    }
}

impl<T: Element, const N: usize> AsTensor for [T; N] {
    fn as_tensor(&self) -> TensorRef<'_> {
        self.as_slice().as_tensor()
    }
}

impl<T: Element> AsTensor for Vec<T> {
    fn as_tensor(&self) -> TensorRef<'_> {
        self.as_slice().as_tensor()
    }
}

impl AsTensor for TensorMut<'_> {
    fn as_tensor(&self) -> TensorRef<'_> {
        self.tensor.clone()
    }
}

impl<T: AsTensor + ?Sized> AsTensor for &T {
    fn as_tensor(&self) -> TensorRef<'_> {
        (**self).as_tensor()
    }
}

impl<T: AsTensor + ?Sized> AsTensor for Box<T> {
    fn as_tensor(&self) -> TensorRef<'_> {
        (**self).as_tensor()
    }
}

/// What builders that keep their tensors take: a reference to something that can be read as a tensor, or a [`TensorRef`]. The latter lives as long as the borrow of
/// its memory, not only as long as the borrow of a variable that holds it.
///
/// ```
/// use hipverify::check::Check;
/// use hipverify::dtype::F16;
/// use hipverify::{Device, DeviceMem, Result};
///
/// /// The operands and the result of a product of square matrices.
/// struct Product([DeviceMem<F16>; 3]);
///
/// impl Product {
///     fn check(&self, n: usize) -> Result<Check<'_>> {
///         let [a, b, d] = &self.0;
///         Ok(Check::gemm(a.tensor(&[n, n])?, b.tensor(&[n, n])?, d.tensor(&[n, n])?))
///     }
/// }
///
/// let ones = || DeviceMem::from_slice(&Device::host(), &[F16::ONE; 4]);
/// let product = Product([ones()?, ones()?, ones()?]);
/// assert!(!product.check(2)?.run()?.report.passed());
/// # Ok::<(), hipverify::Error>(())
/// ```
pub trait IntoTensor<'a> {
    /// The tensor.
    fn into_tensor(self) -> TensorRef<'a>;
}

impl<'a> IntoTensor<'a> for TensorRef<'a> {
    fn into_tensor(self) -> TensorRef<'a> {
        self
    }
}

impl<'a, T: AsTensor + ?Sized> IntoTensor<'a> for &'a T {
    fn into_tensor(self) -> TensorRef<'a> {
        self.as_tensor()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::DeviceSlice;
    use crate::dtype::F4x2;

    /// Tensors of any kind, by reference, in a box, and by value for longer than the variable that held them.
    #[test]
    fn tensors_are_taken_in_every_form() {
        fn kept<'a>(tensor: impl IntoTensor<'a>) -> TensorRef<'a> {
            tensor.into_tensor()
        }
        let mut memory = DeviceMem::from_slice(&Device::host(), &[1.0f32, 2.0, 3.0, 4.0]).unwrap();
        let of_a_temporary = {
            let shaped = memory.tensor(&[2, 2]).unwrap();
            kept(shaped)
        };
        assert_eq!((of_a_temporary.shape(), of_a_temporary.host_bytes().len()), ([2, 2].as_slice(), 16));
        let boxes: [Box<dyn AsTensor + '_>; 2] = [Box::new(&memory), Box::new(memory.tensor(&[4, 1]).unwrap())];
        assert_eq!(boxes.each_ref().map(|b| kept(b).shape().to_vec()), [vec![4], vec![4, 1]]);
        assert_eq!(boxes.each_ref().map(|b| kept(b.as_ref()).elements()), [4, 4]);
        drop(boxes);
        let written = memory.tensor_mut(&[2, 2]).unwrap();
        assert_eq!(kept(&written).shape(), [2, 2]);
    }

    /// Packed formats have two elements in each of a slice's.
    #[test]
    fn elements_in_host_memory_are_tensors() {
        let packed = [F4x2(0x21), F4x2(0x43)];
        let flat = |tensor: &dyn AsTensor| {
            let tensor = tensor.as_tensor();
            assert_eq!(tensor.device().kind().to_string(), "host");
            (tensor.dtype(), tensor.shape().to_vec(), tensor.host_bytes().to_vec())
        };
        assert_eq!(flat(&packed), (DType::F4E2M1, vec![4], vec![0x21, 0x43]));
        assert_eq!(flat(&&packed[1..]), (DType::F4E2M1, vec![2], vec![0x43]));
        assert_eq!(flat(&vec![1u16, 0x203]), (DType::U16, vec![2], vec![1, 0, 3, 2]));
        assert_eq!(flat(&Vec::<f32>::new()), (DType::F32, vec![0], vec![]));
    }

    /// What C libraries use for an empty buffer, and a slice may not have.
    #[test]
    fn null_pointers_have_no_bytes() {
        let (device, flat) = (Device::host(), || Layout::flat(0));
        // SAFETY: no bytes are read or written, at whatever address.
        unsafe {
            let read = TensorRef::from_raw(&device, std::ptr::null(), 0, DType::F32, flat()).unwrap();
            let mut written = TensorMut::from_raw(&device, std::ptr::null_mut(), 0, DType::F32, flat()).unwrap();
            let slice = DeviceSlice::<f32>::from_raw(std::ptr::null(), 0, &device).unwrap();
            // Of a null reference the compiler may assume that it is none, also where nothing is read: its address is what can be checked.
            for bytes in [read.host_bytes(), written.host_bytes_mut(), slice.as_tensor().host_bytes()] {
                assert!(bytes.is_empty() && std::hint::black_box(bytes.as_ptr() as usize) != 0);
            }
            assert!(read.as_ptr().is_null(), "the address is the caller's");
            for error in [
                TensorRef::from_raw(&device, std::ptr::null(), 4, DType::F32, flat()).unwrap_err(),
                TensorMut::from_raw(&device, std::ptr::null_mut(), 4, DType::F32, flat()).unwrap_err(),
                DeviceSlice::<f32>::from_raw(std::ptr::null(), 1, &device).unwrap_err(),
            ] {
                assert_eq!(error.to_string(), "pointer cannot be null for 4 bytes: a null pointer has no bytes");
            }
        }
    }
}
