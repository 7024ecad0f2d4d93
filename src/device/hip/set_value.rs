//! One value over a whole block.

use super::{HipAlloc, Kernel};
use crate::error::Result;
use hipverify_sys::abi::SetValue;

// SAFETY: `extern "C" __global__ void set_value(SetValue p)`, for blocks of 256 threads.
const SET_VALUE: Kernel<SetValue> = unsafe { Kernel::new("set_value.hip", "set_value", 256) };

/// Repeats `value` (1, 2, 4 or 8 bytes) over `block`, whose size is a multiple of it.
pub(crate) fn set_value(block: &mut HipAlloc, value: &[u8]) -> Result<()> {
    let bytes = block.bytes();
    let mut pattern = [0u8; 16];
    for (to, from) in pattern.iter_mut().zip(value.iter().cycle()) {
        *to = *from;
    }
    let params = SetValue { target: block.ptr(), bytes: bytes as u64, pattern: bytemuck::cast(pattern) };
    let device = block.device();
    device.blocking(|queue| {
        let grid = SET_VALUE.grid_for(device, (bytes as u64).div_ceil(16))?;
        // SAFETY: the block has `bytes` bytes, is borrowed until `blocking` has waited, and hipMalloc aligns to 256.
        unsafe { SET_VALUE.launch(queue, grid, &params) }
    })
}
