//! Launches of hip/reference.hip.

use super::{HipAlloc, HipDevice, Kernel};
use crate::error::{Error, Result};
use bytemuck::{Pod, Zeroable};
use hipverify_sys::bindings::hipMemcpyKind;

/// `struct Reference` of hip/reference.hip: which products make which sums. [`reference`] fills the addresses and the count in.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, Pod, Zeroable)]
pub(crate) struct Reference {
    pub source: u64,
    pub other: u64,
    pub to: u64,
    pub count: u64,
    pub to_at: [u64; 6],
    pub source_at: [u64; 6],
    pub other_at: [u64; 6],
    pub source_space: [u64; 3],
    pub other_space: [u64; 3],
    pub source_channel: u64,
    pub other_channel: u64,
    pub extent: [u32; 6],
    pub base_step: [i32; 3],
    pub base_add: [i32; 3],
    pub window: [u32; 3],
    pub step: [i32; 3],
    pub divide: [u32; 3],
    pub positions: [u32; 3],
    pub channels: u32,
    pub channels_last: u32,
    pub inside: u32,
    pub unused: u32,
}

/// Runs kernel `name`; `source` and `other` are the operands' bytes, f32 or f64 as the kernel's name says.
///
/// # Safety
/// * `name` is a kernel of hip/reference.hip, and the operands have its element type;
/// * every index that the plan gives an element of the result lies inside its operand, and inside `to` for the result itself.
pub(crate) unsafe fn reference(
    device: &'static HipDevice,
    name: &'static str,
    plan: &Reference,
    source: &[u8],
    other: &[u8],
    to: &mut [f64],
) -> Result<()> {
    // SAFETY: `extern "C" __global__ void NAME(Reference p)` for blocks of 256 threads.
    let code: Kernel<(Reference,)> = unsafe { Kernel::new("reference.hip", name, 256) };
    let count: u64 = plan.extent.iter().map(|&n| u64::from(n)).product();
    if count == 0 {
        return Ok(());
    }
    let upload = |bytes: &[u8]| -> Result<HipAlloc> {
        let mut block = HipAlloc::new(device, bytes.len())?;
        block.write(bytes)?;
        Ok(block)
    };
    let (source, other) = (upload(source)?, upload(other)?);
    let result = HipAlloc::new(device, size_of_val(to))?;
    let arguments = (Reference { source: source.ptr() as u64, other: other.ptr() as u64, to: result.ptr() as u64, count, ..*plan },);
    device.blocking(|queue| {
        let grid = code.grid_for(device, count)?;
        // SAFETY: the caller promises that the plan stays inside the three blocks, which live until `blocking` has waited.
        unsafe { code.launch(queue, grid, &arguments) }
    })?;
    result.read(bytemuck::cast_slice_mut(to))
}

/// `n` for the device code, whose positions are 32-bit.
pub(crate) fn extent(what: &'static str, n: usize) -> Result<u32> {
    i32::try_from(n).map(|n| n as u32).map_err(|_| Error::InvalidArgument {
        what,
        value: n.to_string(),
        limit: "less than 2^31 on a GPU".to_owned(),
    })
}

/// Copies `to.len()` bytes at `from` to the host, and waits.
///
/// # Safety
/// `from` is valid on `device` for reads of that many bytes.
pub(crate) unsafe fn download(device: &'static HipDevice, from: *const u8, to: &mut [u8]) -> Result<()> {
    let kind = hipMemcpyKind::hipMemcpyDeviceToHost;
    // SAFETY: the source is the caller's promise; the target is borrowed until `blocking` has waited.
    device.blocking(|queue| unsafe { queue.copy(to.as_mut_ptr().cast(), from.cast_mut().cast(), to.len(), kind) })
}

/// Copies `from` to `to` on the device, and waits.
///
/// # Safety
/// `to` is valid on `device` for writes of `from.len()` bytes, and nothing else uses those bytes.
pub(crate) unsafe fn upload(device: &'static HipDevice, from: &[u8], to: *mut u8) -> Result<()> {
    let kind = hipMemcpyKind::hipMemcpyHostToDevice;
    // SAFETY: the target is the caller's promise; the source is borrowed until `blocking` has waited.
    device.blocking(|queue| unsafe { queue.copy(to.cast(), from.as_ptr().cast(), from.len(), kind) })
}
