//! Launches of hip/reduce_max.hip.

use super::{any_tensor, dense_address, expect_on};
use crate::device::TensorRef;
use crate::device::hip::{CoherentAlloc, HipAlloc, HipDevice, Kernel};
use crate::error::Result;
use hipverify_sys::abi::{MaxParams, MaxResult, MaxWorkspace};

/// The workspace and the result of the kernels.
struct Workspace {
    /// Zeroed before the first launch; each launch leaves it zeroed.
    scratch: HipAlloc,
    result: CoherentAlloc,
}

impl Workspace {
    fn new(gpu: &'static HipDevice) -> Result<Workspace> {
        let mut scratch = HipAlloc::new(gpu, size_of::<MaxWorkspace>())?;
        scratch.set_zero()?;
        Ok(Workspace { scratch, result: CoherentAlloc::new(gpu, size_of::<MaxResult>())? })
    }
}

/// The largest finite magnitude of a tensor on `gpu`, which must have elements, and how many of them are not finite.
///
/// # Panics
/// When the tensor does not lie there.
pub(crate) fn reduce_max(gpu: &'static HipDevice, tensor: &TensorRef<'_>) -> Result<MaxResult> {
    expect_on(gpu, &[tensor]);
    let bits = tensor.dtype().bits();
    // The kernel for any layout adds the offset itself.
    let dense = dense_address(tensor).filter(|_| bits >= 8);
    let name = match (dense, bits) {
        (Some(_), 8) => "reduce_max_8",
        (Some(_), 16) => "reduce_max_16",
        (Some(_), 32) => "reduce_max_32",
        (Some(_), 64) => "reduce_max_64",
        _ => "reduce_max_any",
    };
    let kernel: Kernel<MaxParams> = Kernel::new("reduce_max.hip", name, 512);
    let workspace: Workspace = gpu.workspaces().take().map_or_else(|| Workspace::new(gpu), Ok)?;
    let params = MaxParams {
        tensor: any_tensor(tensor.dtype(), tensor.layout())?,
        x: dense.unwrap_or(tensor.as_ptr()),
        n: tensor.elements() as u64,
        workspace: workspace.scratch.ptr().cast(),
        result: workspace.result.ptr().cast(),
    };
    // A thread takes four vectors of 16 bytes at a time, or one element.
    let per_thread = if dense.is_some() { 4 * 128 / bits as u64 } else { 1 };
    gpu.blocking(|queue| {
        // SAFETY: the layout lies within the tensor's memory, which is borrowed until `blocking` has waited; nobody else uses the
        // workspace.
        unsafe { kernel.launch_for(queue, params.n.div_ceil(per_thread), &params) }
    })?;
    let words: [u64; size_of::<MaxResult>() / 8] = std::array::from_fn(|i| workspace.result.word(8 * i));
    gpu.workspaces().put(workspace);
    Ok(bytemuck::cast(words))
}
