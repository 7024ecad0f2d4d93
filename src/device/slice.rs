//! Device memory that other code owns.

use super::{AsTensor, Device, Layout, TensorRef};
use crate::dtype::Element;
use crate::error::Result;
use std::marker::PhantomData;

/// A borrowed buffer of `len` units of type `T`: for projects that have a pointer and a length.
///
/// It reads as a tensor wherever a [`DeviceMem`](super::DeviceMem) does. To have such memory written, see
/// [`TensorMut::from_raw`](super::TensorMut::from_raw).
///
/// ```
/// use hipverify::device::{AsTensor, Device, DeviceMem, DeviceSlice};
/// let owner = DeviceMem::from_slice(&Device::host(), &[1.0f32, 2.0])?;
/// let address = owner.as_tensor().as_ptr().cast::<f32>();
/// // SAFETY: `owner` outlives the slice and has two elements, which nobody writes.
/// let x = unsafe { DeviceSlice::from_raw(address, 2, owner.device())? };
/// assert_eq!(x.as_tensor().elements(), 2);
/// # Ok::<(), hipverify::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct DeviceSlice<'a, T: Element> {
    whole: TensorRef<'a>,
    len: usize,
    unit: PhantomData<T>,
}

impl<'a, T: Element> DeviceSlice<'a, T> {
    /// Memory at `ptr`, on `device`.
    ///
    /// # Errors
    /// [`Error::SizeOverflow`](crate::Error::SizeOverflow); [`Error::InvalidArgument`](crate::Error::InvalidArgument) for a null pointer
    /// that is said to have units.
    ///
    /// # Safety
    /// * `ptr` is valid for reads of `len` units by `device`, for the lifetime `'a`, and until work that was enqueued on it is done;
    /// * nothing writes that memory during `'a`, nor before that work is done, and what wrote it before is done or on the stream that will read it;
    /// * on the host device the units are initialised.
    pub unsafe fn from_raw(ptr: *const T, len: usize, device: &Device) -> Result<DeviceSlice<'a, T>> {
        let bytes = super::mem::byte_size::<T>(len)?;
        let layout = Layout::flat(len * T::PER_UNIT);
        // SAFETY: `len` units are `bytes` bytes, for which the caller promises what is asked here.
        let whole = unsafe { TensorRef::from_raw(device, ptr.cast(), bytes, T::DTYPE, layout)? };
        Ok(DeviceSlice { whole, len, unit: PhantomData })
    }

    /// Units in the buffer.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the buffer has no units.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The device that holds the buffer.
    pub fn device(&self) -> &Device {
        self.whole.device()
    }

    /// The buffer as a dense row-major tensor of the given shape. A part of it is a [`strided`](DeviceSlice::strided) one.
    ///
    /// # Errors
    /// When the shape has another number of elements than the buffer (packed formats: one less is fine).
    pub fn tensor(&self, shape: &[usize]) -> Result<TensorRef<'a>> {
        self.strided(super::mem::whole::<T>(self.len, shape)?)
    }

    /// The buffer under any layout that stays inside it.
    ///
    /// # Errors
    /// When an element would lie beyond the buffer.
    pub fn strided(&self, layout: Layout) -> Result<TensorRef<'a>> {
        self.whole.view(layout)
    }
}

impl<T: Element> AsTensor for DeviceSlice<'_, T> {
    fn as_tensor(&self) -> TensorRef<'_> {
        self.whole.clone()
    }
}
