//! Launches of hip/bound.hip.

use super::any_tensor;
use crate::device::TensorRef;
use crate::device::hip::{HipAlloc, HipDevice, Kernel};
use crate::error::Result;
use bytemuck::Zeroable;
use hipverify_sys::abi::{BOUND_BINS, BOUND_TILE, BoundParams, BoundRule, BoundTile};
use std::ops::Range;

const BINS: usize = BOUND_BINS as usize;

/// The parameters that do not depend on the kernel, for the elements of a range.
fn params(tensors: [&TensorRef<'_>; 3], rule: &BoundRule, range: Range<usize>) -> Result<BoundParams> {
    let [a, r, s] = tensors;
    Ok(BoundParams {
        a: any_tensor(a.dtype(), a.layout())?,
        r: any_tensor(r.dtype(), r.layout())?,
        s: any_tensor(s.dtype(), s.layout())?,
        a_at: a.as_ptr(),
        r_at: r.as_ptr(),
        s_at: s.as_ptr(),
        rule: *rule,
        first: range.start as u64,
        end: range.end as u64,
        ..Zeroable::zeroed()
    })
}

/// The counts and maxima of each tile of result, reference and magnitudes, and the histogram of all tiles.
///
/// # Safety
/// The tensors lie on `gpu` and have the same shape.
pub(crate) unsafe fn tiles(
    gpu: &'static HipDevice,
    tensors: [&TensorRef<'_>; 3],
    rule: &BoundRule,
) -> Result<(Vec<BoundTile>, [u64; BINS])> {
    // SAFETY: `extern "C" __global__ void bound_tiles(BoundParams p)` for blocks of 256 threads.
    const TILES: Kernel<BoundParams> = unsafe { Kernel::new("bound.hip", "bound_tiles", 256) };
    let elements = tensors[0].elements();
    let count = elements.div_ceil(BOUND_TILE as usize);
    let tiles = HipAlloc::new(gpu, count * size_of::<BoundTile>())?;
    let mut bins = HipAlloc::new(gpu, size_of::<[u64; BINS]>())?;
    bins.set_zero()?;
    let params = BoundParams { tiles: tiles.ptr().cast(), bins: bins.ptr().cast(), ..params(tensors, rule, 0..elements)? };
    gpu.blocking(|queue| {
        // A block a tile.
        let grid = TILES.grid_for(gpu, count as u64 * 256)?;
        // SAFETY: the layouts lie within the tensors' memory, which is borrowed until `blocking` has waited; there is memory for every tile and bin.
        unsafe { TILES.launch(queue, grid, &params) }
    })?;
    let (mut found, mut histogram) = (vec![BoundTile::zeroed(); count], [0; BINS]);
    tiles.read(bytemuck::cast_slice_mut(&mut found))?;
    bins.read(bytemuck::cast_slice_mut(&mut histogram))?;
    Ok((found, histogram))
}

/// Error over bound for a range of elements.
///
/// # Safety
/// The tensors are on `gpu` and have the same shape; the range lies inside it and is not empty.
pub(crate) unsafe fn ratios(
    gpu: &'static HipDevice,
    tensors: [&TensorRef<'_>; 3],
    rule: &BoundRule,
    range: Range<usize>,
) -> Result<Vec<f64>> {
    // SAFETY: `extern "C" __global__ void bound_ratios(BoundParams p)` for blocks of 256 threads.
    const RATIOS: Kernel<BoundParams> = unsafe { Kernel::new("bound.hip", "bound_ratios", 256) };
    let mut found = vec![0.0; range.len()];
    let ratios = HipAlloc::new(gpu, size_of_val(found.as_slice()))?;
    let params = BoundParams { ratios: ratios.ptr().cast(), ..params(tensors, rule, range.clone())? };
    gpu.blocking(|queue| {
        let grid = RATIOS.grid_for(gpu, range.len() as u64)?;
        // SAFETY: the layouts lie within the tensors' memory, which is borrowed until `blocking` has waited; there is a number for each element of the range.
        unsafe { RATIOS.launch(queue, grid, &params) }
    })?;
    ratios.read(bytemuck::cast_slice_mut(&mut found))?;
    Ok(found)
}
