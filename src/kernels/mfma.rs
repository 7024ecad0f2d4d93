//! Launches of the GEMM that is made of the instructions in hip/mfma.hip.

use super::{blocks, extent};
use crate::device::hip::Kernel;
use crate::device::{Backend, DeviceBytes};
use crate::error::{Error, Result};
use hipverify_sys::abi::MfmaGemm;

/// Rows and columns of the tile that one wavefront computes.
const TILE: usize = 32;

/// C += A * B with C m x n of f32; A is m x k and B k x n, of bf16 or of f16.
///
/// # Panics
/// When a block has another size, or lies on another device than `c`: callers have turned such blocks away.
pub(crate) fn gemm(bf16: bool, [m, n, k]: [usize; 3], a: &DeviceBytes, b: &DeviceBytes, c: &mut DeviceBytes) -> Result<()> {
    let (name, device) = (if bf16 { "mfma_gemm_bf16" } else { "mfma_gemm_f16" }, c.device().clone());
    for (block, rows, columns, width) in [(a, m, k, 2), (b, k, n, 2), (&*c, m, n, 4)] {
        let bytes = rows.checked_mul(columns).and_then(|elements| elements.checked_mul(width));
        assert!(bytes == Some(block.byte_size()) && block.device().same_as(&device), "{rows} x {columns} elements of {width} bytes");
    }
    let Backend::Hip(gpu) = device.backend() else {
        return Err(Error::Unsupported { what: name.to_owned(), by: device.name() });
    };
    let (tiles_m, tiles_n) = (m.div_ceil(TILE), n.div_ceil(TILE));
    let grid = blocks("tiles of C", tiles_m.saturating_mul(tiles_n), 64)?;
    let (m, n, k) = (extent("m", m, TILE as u32)?, extent("n", n, TILE as u32)?, extent("k", k, TILE as u32)?);
    let params = MfmaGemm { a: a.as_ptr().cast(), b: b.as_ptr().cast(), c: c.as_mut_ptr().cast(), m, n, k, tiles_n: tiles_n as u32 };
    gpu.blocking(|queue| {
        let code = Kernel::<MfmaGemm>::new("mfma.hip", name, 64).load(gpu)?;
        // SAFETY: the blocks have m x k, k x n and m x n elements on this device, inside which the kernel reads and writes; the buffers stay borrowed
        // until `blocking` has waited.
        unsafe { code.launch(queue, grid, &params) }
    })
}
