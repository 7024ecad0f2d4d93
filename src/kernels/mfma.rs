//! Launches of the instructions in hip/mfma.hip, and of the GEMM made of them.

use super::{blocks, extent};
use crate::device::hip::{Kernel, launch};
use crate::device::{Backend, DeviceBytes};
use crate::error::{Error, Result};
use hipverify_sys::abi::{MfmaGemm, MfmaIssue};
use std::ptr;

/// Issues the kernel `name` on one wavefront: `steps` register images of A and of B, one of C and of D.
///
/// # Safety
/// * `name` is a kernel of hip/mfma.hip that takes [`MfmaIssue`];
/// * `a` and `b` hold `steps` register images of its operands, `c` and `d` one of its result, all on the device of `d`.
pub(crate) unsafe fn issue(name: &str, steps: u32, a: &DeviceBytes, b: &DeviceBytes, c: &DeviceBytes, d: &mut DeviceBytes) -> Result<()> {
    let device = d.device().clone();
    let Backend::Hip(gpu) = device.backend() else {
        return Err(Error::Unsupported { what: format!("the instruction of {name}"), by: device.name() });
    };
    let code = gpu.code("mfma.hip")?;
    let function = code.function(name)?;
    let mut issue =
        MfmaIssue { a: a.as_ptr().cast(), b: b.as_ptr().cast(), c: c.as_ptr().cast(), d: d.as_mut_ptr().cast(), steps, unused: 0 };
    gpu.blocking(|queue| {
        // SAFETY: `extern "C" __global__ void NAME(MfmaIssue p)` for blocks of 64 threads; the caller promises images of the sizes that
        // the instruction reads and writes, and they stay borrowed until `blocking` has waited.
        unsafe { launch(&code, function, queue, [1; 3], [64, 1, 1], 0, &mut [ptr::from_mut(&mut issue).cast()]) }
    })
}

/// Rows and columns of the tile that one wavefront computes.
const TILE: usize = 32;

/// C += A * B with C m x n, of 16-bit A and B.
///
/// # Safety
/// * `name` is `mfma_gemm_f16` or `mfma_gemm_bf16`;
/// * `a` holds m x k and `b` k x n numbers of 16 bits, `c` m x n of f32, all on the device of `c`.
pub(crate) unsafe fn gemm(name: &'static str, [m, n, k]: [usize; 3], a: &DeviceBytes, b: &DeviceBytes, c: &mut DeviceBytes) -> Result<()> {
    let device = c.device().clone();
    let Backend::Hip(gpu) = device.backend() else {
        return Err(Error::Unsupported { what: name.to_owned(), by: device.name() });
    };
    let (tiles_m, tiles_n) = (m.div_ceil(TILE), n.div_ceil(TILE));
    let grid = blocks("tiles of C", tiles_m.saturating_mul(tiles_n), 64)?;
    let (m, n, k) = (extent("m", m, TILE as u32)?, extent("n", n, TILE as u32)?, extent("k", k, TILE as u32)?);
    let params = MfmaGemm { a: a.as_ptr().cast(), b: b.as_ptr().cast(), c: c.as_mut_ptr().cast(), m, n, k, tiles_n: tiles_n as u32 };
    // SAFETY: both are `extern "C" __global__ void NAME(MfmaGemm p)` for blocks of 64 threads.
    let code: Kernel<MfmaGemm> = unsafe { Kernel::new("mfma.hip", name, 64) };
    gpu.blocking(|queue| {
        // SAFETY: the caller promises m x k, k x n and m x n elements, inside which the kernel reads and writes; the buffers stay borrowed
        // until `blocking` has waited.
        unsafe { code.launch(queue, grid, &params) }
    })
}
