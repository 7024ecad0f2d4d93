//! Launches of hip/model_gemm.hip.

use super::{blocks, extent};
use crate::device::hip::Kernel;
use crate::device::{Backend, DeviceBytes};
use crate::error::{Error, Result};
use hipverify_sys::abi::{ModelGemm, TensorCoreRule};

/// Threads of a block.
const THREADS: u32 = 256;

/// A kernel of hip/model_gemm.hip.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ModelKernel {
    pub name: &'static str,
    /// Rows and columns of C that a block computes: sixteen times EACH of the kernel's rule.
    pub tile: usize,
    /// The parameters that the kernels of tensor cores need.
    pub rule: TensorCoreRule,
}

/// C += A * B with C m x n; A and B have the formats of the kernel, whose numbers are `dtypes` if it serves several.
///
/// # Safety
/// * `kernel` is one of hip/model_gemm.hip, with its own tile;
/// * `a` holds m x k and `b` k x n elements of these formats, `c` m x n of f32, all on the device of `c`.
pub(crate) unsafe fn model_gemm(
    ModelKernel { name, tile, rule }: ModelKernel,
    (dtype_a, dtype_b): (u32, u32),
    [m, n, k]: [usize; 3],
    a: &DeviceBytes,
    b: &DeviceBytes,
    c: &mut DeviceBytes,
) -> Result<()> {
    let code: Kernel<ModelGemm> = Kernel::new("model_gemm.hip", name, THREADS);
    let (device, host) = (c.device().clone(), || Error::Unsupported { what: name.to_owned(), by: "the host device".to_owned() });
    let Backend::Hip(gpu) = device.backend() else { return Err(host()) };
    let (rows, columns) = (m.div_ceil(tile), n.div_ceil(tile));
    let grid = blocks("tiles of C", rows.saturating_mul(columns), THREADS)?;
    let [m, n, k] = [extent("m", m, 128)?, extent("n", n, 128)?, extent("k", k, 128)?];
    let (a, b, c) = (a.as_ptr().cast(), b.as_ptr().cast(), c.as_mut_ptr().cast());
    let params = ModelGemm { a, b, c, m, n, k, blocks_n: columns as u32, dtype_a, dtype_b, rule, unused: 0 };
    gpu.blocking(|queue| {
        let code = code.load(gpu)?;
        // SAFETY: the caller promises m x k, k x n and m x n elements, inside which the kernel reads and writes; the buffers stay borrowed
        // until `blocking` has waited.
        unsafe { code.launch(queue, grid, &params) }
    })
}
