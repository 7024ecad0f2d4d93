//! Launches of the instructions in hip/mfma.hip and hip/mma.hip.

use super::{blocks, extent};
use crate::device::hip::Kernel;
use crate::device::{Backend, DeviceBytes};
use crate::error::{Error, Result};
use hipverify_sys::abi::MfmaIssue;

/// Where the kernels of a vendor's instructions are, and how many lanes issue one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Instructions {
    file: &'static str,
    lanes: u32,
}

pub(crate) const MFMA: Instructions = Instructions { file: "mfma.hip", lanes: 64 };
pub(crate) const MMA: Instructions = Instructions { file: "mma.hip", lanes: 32 };

/// Issues the kernel `name` on `subgroups` wavefronts or warps: `steps` register images of A and of B for each, one of C and of D.
///
/// # Safety
/// * `name` is a kernel of these instructions;
/// * `a` and `b` hold `subgroups` times `steps` register images of its operands, `c` and `d` `subgroups` of its result, all on the device of `d`.
pub(crate) unsafe fn issue(
    Instructions { file, lanes }: Instructions,
    name: &str,
    [subgroups, steps]: [usize; 2],
    [a, b, c]: [&DeviceBytes; 3],
    d: &mut DeviceBytes,
) -> Result<()> {
    let device = d.device().clone();
    let Backend::Hip(gpu) = device.backend() else {
        return Err(Error::Unsupported { what: format!("the instruction of {name}"), by: device.name() });
    };
    let grid = blocks("tiles", subgroups, lanes)?;
    // The number of an image is 32 bits.
    extent("tiles times steps", subgroups.saturating_mul(steps), 0)?;
    let steps = extent("steps", steps, 0)?;
    let kernel = Kernel::<MfmaIssue>::new(file, name, lanes).load(gpu)?;
    let issue = MfmaIssue { a: a.as_ptr().cast(), b: b.as_ptr().cast(), c: c.as_ptr().cast(), d: d.as_mut_ptr().cast(), steps, unused: 0 };
    gpu.blocking(|queue| {
        // SAFETY: the caller promises images of the sizes that the instruction reads and writes, and they stay borrowed until `blocking` has waited.
        unsafe { kernel.launch(queue, grid, &issue) }
    })
}
