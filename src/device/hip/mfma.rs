//! Launches of the instructions in hip/mfma.hip.

use super::launch;
use crate::device::{Backend, DeviceBytes};
use crate::error::{Error, Result};
use bytemuck::{Pod, Zeroable};
use std::ptr;

/// `struct Issue` of hip/mfma.hip.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
struct Issue {
    a: u64,
    b: u64,
    c: u64,
    d: u64,
    steps: u32,
    unused: u32,
}

/// Issues the kernel `name` on one wavefront: `steps` register images of A and of B, one of C and of D.
pub(crate) fn issue(name: &str, steps: u32, a: &DeviceBytes, b: &DeviceBytes, c: &DeviceBytes, d: &mut DeviceBytes) -> Result<()> {
    let device = d.device().clone();
    let Backend::Hip(gpu) = device.backend() else {
        return Err(Error::Unsupported { what: format!("the instruction of {name}"), by: device.name() });
    };
    let code = gpu.code("mfma.hip")?;
    let function = code.function(name)?;
    let mut issue = Issue { a: a.ptr() as u64, b: b.ptr() as u64, c: c.ptr() as u64, d: d.mut_ptr() as u64, steps, unused: 0 };
    gpu.blocking(|queue| {
        // SAFETY: `extern "C" __global__ void NAME(Issue p)` for blocks of 64 threads; the caller's images have the sizes that
        // the instruction reads and writes, and stay borrowed until `blocking` has waited.
        unsafe { launch(&code, function, queue, [1; 3], [64, 1, 1], 0, &mut [ptr::from_mut(&mut issue).cast()]) }
    })
}
