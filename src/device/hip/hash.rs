//! The sum behind `DeviceBytes::hash`.

use super::{HipAlloc, Kernel};
use crate::error::Result;
use hipverify_sys::abi::Hash;

// SAFETY: `extern "C" __global__ void hash_bytes(Hash p)`, for blocks of 256 threads.
const HASH_BYTES: Kernel<Hash> = unsafe { Kernel::new("hash.hip", "hash_bytes", 256) };

/// The sum over the words of `block`.
pub(crate) fn hash_sum(block: &HipAlloc) -> Result<u64> {
    let (device, bytes) = (block.device(), block.bytes());
    let mut sum = HipAlloc::new(device, 8)?;
    sum.set_zero()?;
    let params = Hash { source: block.ptr(), bytes: bytes as u64, sum: sum.ptr().cast() };
    device.blocking(|queue| {
        let grid = HASH_BYTES.grid_for(device, (bytes as u64).div_ceil(16))?;
        // SAFETY: `block` has `bytes` bytes and `sum` eight; both are borrowed until `blocking` has waited.
        unsafe { HASH_BYTES.launch(queue, grid, &params) }
    })?;
    let mut result = [0; 8];
    sum.read(&mut result)?;
    Ok(u64::from_le_bytes(result))
}
