//! The hash of a block of memory, computed on its device; [`device::hash`](crate::device::hash) has the definition.

use crate::device::hip::{HipAlloc, Kernel};
use crate::device::{Alloc, DeviceBytes, DeviceMem, hash};
use crate::dtype::Element;
use crate::error::Result;
use hipverify_sys::abi::Hash;

const HASH_BYTES: Kernel<Hash> = Kernel::new("hash.hip", "hash_bytes", 256);

impl DeviceBytes {
    /// A 64-bit hash of the contents: equal on every device for equal bytes.
    ///
    /// # Errors
    /// A failed launch.
    pub fn hash(&self) -> Result<u64> {
        let sum = match self.alloc() {
            Alloc::Host(block) => hash::sum(block.as_slice()),
            Alloc::Hip(block) => sum_on(block)?,
        };
        Ok(hash::finish(sum, self.byte_size()))
    }
}

impl<T: Element> DeviceMem<T> {
    /// A 64-bit hash of the contents; see [`DeviceBytes::hash`].
    ///
    /// ```
    /// use hipverify::{Device, DeviceMem};
    /// let a = DeviceMem::from_slice(&Device::host(), &[1.0f32, 2.0])?;
    /// let b = DeviceMem::from_slice(&Device::host(), &[2.0f32, 1.0])?;
    /// assert_ne!(a.hash()?, b.hash()?);
    /// # Ok::<(), hipverify::Error>(())
    /// ```
    ///
    /// # Errors
    /// A failed launch.
    pub fn hash(&self) -> Result<u64> {
        self.bytes().hash()
    }
}

/// The sum over the words of `block`.
fn sum_on(block: &HipAlloc) -> Result<u64> {
    let (device, bytes) = (block.device(), block.bytes() as u64);
    let mut sum = HipAlloc::new(device, 8)?;
    sum.set_zero()?;
    let params = Hash { source: block.ptr(), bytes, sum: sum.ptr().cast() };
    device.blocking(|queue| {
        // SAFETY: `block` has `bytes` bytes and `sum` eight; both are borrowed until `blocking` has waited.
        unsafe { HASH_BYTES.launch_for(queue, bytes.div_ceil(16), &params) }
    })?;
    let mut result = [0; 8];
    sum.read(&mut result)?;
    Ok(u64::from_le_bytes(result))
}
