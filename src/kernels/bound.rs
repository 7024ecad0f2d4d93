//! Launches of hip/bound.hip.

use super::{any_tensor, expect_on};
use crate::device::TensorRef;
use crate::device::hip::{HipAlloc, HipDevice, Kernel};
use crate::error::Result;
use bytemuck::Zeroable;
use hipverify_sys::abi::{BOUND_BINS, BOUND_TILE, BoundParams, BoundRule, BoundTile};
use std::ops::Range;

const BINS: usize = BOUND_BINS as usize;

/// The parameters that do not depend on the kernel, for the elements of a range.
///
/// # Panics
/// When the tensors do not lie on `gpu` or differ in shape, or the range leads beyond them.
fn params(gpu: &HipDevice, tensors: [&TensorRef<'_>; 3], rule: &BoundRule, range: Range<usize>) -> Result<BoundParams> {
    expect_on(gpu, &tensors);
    let [a, r, s] = tensors;
    assert!(a.shape() == r.shape() && a.shape() == s.shape() && range.end <= a.elements(), "elements of tensors of one shape");
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
/// # Panics
/// When the tensors do not lie on `gpu` or differ in shape: callers have turned such tensors away.
pub(crate) fn tiles(gpu: &'static HipDevice, tensors: [&TensorRef<'_>; 3], rule: &BoundRule) -> Result<(Vec<BoundTile>, [u64; BINS])> {
    const TILES: Kernel<BoundParams> = Kernel::new("bound.hip", "bound_tiles", 256);
    let elements = tensors[0].elements();
    let count = elements.div_ceil(BOUND_TILE as usize);
    let tiles = HipAlloc::new(gpu, count * size_of::<BoundTile>())?;
    let mut bins = HipAlloc::new(gpu, size_of::<[u64; BINS]>())?;
    bins.set_zero()?;
    let params = BoundParams { tiles: tiles.ptr().cast(), bins: bins.ptr().cast(), ..params(gpu, tensors, rule, 0..elements)? };
    gpu.blocking(|queue| {
        // A block a tile.
        let threads = count as u64 * 256;
        // SAFETY: the layouts lie within the tensors' memory, which is borrowed until `blocking` has waited; there is memory for every tile and bin.
        unsafe { TILES.launch_for(queue, threads, &params) }
    })?;
    let (mut found, mut histogram) = (vec![BoundTile::zeroed(); count], [0; BINS]);
    tiles.read(bytemuck::cast_slice_mut(&mut found))?;
    bins.read(bytemuck::cast_slice_mut(&mut histogram))?;
    Ok((found, histogram))
}

/// Error over bound for a range of elements.
///
/// # Panics
/// As [`tiles`]; also when the range leads beyond the tensors.
pub(crate) fn ratios(gpu: &'static HipDevice, tensors: [&TensorRef<'_>; 3], rule: &BoundRule, range: Range<usize>) -> Result<Vec<f64>> {
    const RATIOS: Kernel<BoundParams> = Kernel::new("bound.hip", "bound_ratios", 256);
    let mut found = vec![0.0; range.len()];
    let ratios = HipAlloc::new(gpu, size_of_val(found.as_slice()))?;
    let params = BoundParams { ratios: ratios.ptr().cast(), ..params(gpu, tensors, rule, range.clone())? };
    gpu.blocking(|queue| {
        // SAFETY: the layouts lie within the tensors' memory, which is borrowed until `blocking` has waited; there is a number for each element of the range.
        unsafe { RATIOS.launch_for(queue, range.len() as u64, &params) }
    })?;
    ratios.read(bytemuck::cast_slice_mut(&mut found))?;
    Ok(found)
}
