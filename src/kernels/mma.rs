//! Launches of the instructions in hip/mma.hip.

use super::{blocks, extent};
use crate::device::hip::Kernel;
use crate::device::{Backend, DeviceBytes};
use crate::error::{Error, Result};
use hipverify_sys::abi::MfmaIssue;

/// Issues the kernel `name` on `warps` warps: `steps` register images of A and of B for each, one of C and of D.
///
/// # Safety
/// * `name` is a kernel of hip/mma.hip;
/// * `a` and `b` hold `warps` times `steps` register images of its operands, `c` and `d` `warps` of its result, all on the device of `d`.
pub(crate) unsafe fn issue(
    name: &str,
    [warps, steps]: [usize; 2],
    a: &DeviceBytes,
    b: &DeviceBytes,
    c: &DeviceBytes,
    d: &mut DeviceBytes,
) -> Result<()> {
    let device = d.device().clone();
    let Backend::Hip(gpu) = device.backend() else {
        return Err(Error::Unsupported { what: format!("the instruction of {name}"), by: device.name() });
    };
    let grid = blocks("tiles", warps, 32)?;
    // The number of an image is 32 bits.
    extent("tiles times steps", warps.saturating_mul(steps), 0)?;
    let steps = extent("steps", steps, 0)?;
    let kernel = Kernel::<MfmaIssue>::new("mma.hip", name, 32).load(gpu)?;
    let issue = MfmaIssue { a: a.as_ptr().cast(), b: b.as_ptr().cast(), c: c.as_ptr().cast(), d: d.as_mut_ptr().cast(), steps, unused: 0 };
    gpu.blocking(|queue| {
        // SAFETY: the caller promises images of the sizes that the instruction reads and writes, and they stay borrowed until `blocking` has waited.
        unsafe { kernel.launch(queue, grid, &issue) }
    })
}
