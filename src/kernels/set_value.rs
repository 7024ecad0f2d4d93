//! One value over a whole block.

use crate::device::hip::{HipAlloc, Kernel};
use crate::device::{Alloc, DeviceBytes, DeviceMem};
use crate::dtype::Element;
use crate::error::{Error, Result};
use hipverify_sys::abi::SetValue;

const SET_VALUE: Kernel<SetValue> = Kernel::new("set_value.hip", "set_value", 256);

impl DeviceBytes {
    /// Repeats the bytes of `value` over the whole block.
    ///
    /// # Errors
    /// [`Error::Length`] when the size is no multiple of the value's.
    pub fn set_value<T: Element>(&mut self, value: T) -> Result<()> {
        let (unit, bytes) = (size_of::<T>(), self.byte_size());
        if !bytes.is_multiple_of(unit) {
            return Err(Error::Length {
                what: "buffer size in bytes, rounded down to whole values",
                expected: bytes / unit * unit,
                found: bytes,
            });
        }
        match self.alloc_mut() {
            Alloc::Host(a) => {
                for element in a.as_mut_slice().chunks_exact_mut(unit) {
                    element.copy_from_slice(bytemuck::bytes_of(&value));
                }
            }
            Alloc::Hip(a) => set_on(a, bytemuck::bytes_of(&value))?,
        }
        Ok(())
    }
}

impl<T: Element> DeviceMem<T> {
    /// Sets every unit to `value`.
    ///
    /// # Errors
    /// A failed launch.
    pub fn set_value(&mut self, value: T) -> Result<()> {
        self.bytes_mut().set_value(value)
    }
}

/// Repeats `value` (1, 2, 4 or 8 bytes) over `block`, whose size is a multiple of it.
fn set_on(block: &mut HipAlloc, value: &[u8]) -> Result<()> {
    let mut pattern = [0u8; 16];
    for (to, from) in pattern.iter_mut().zip(value.iter().cycle()) {
        *to = *from;
    }
    let (device, bytes) = (block.device(), block.bytes() as u64);
    let params = SetValue { target: block.ptr(), bytes, pattern: bytemuck::cast(pattern) };
    device.blocking(|queue| {
        // SAFETY: the block has `bytes` bytes, is borrowed until `blocking` has waited, and hipMalloc aligns to 256.
        unsafe { SET_VALUE.launch_for(queue, bytes.div_ceil(16), &params) }
    })
}
