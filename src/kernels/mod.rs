//! Every device kernel: its parameters, its grid and its launch. Private; `verify`, `fill` and `reference` launch through it.
//!
//! A kernel takes one struct of `hip/abi.h` by value:
//!
//! ```ignore
//! const HASH_BYTES: Kernel<Hash> = Kernel::new("hash.hip", "hash_bytes", 256);
//!
//! device.blocking(|queue| {
//!     // SAFETY: `block` has `bytes` bytes and `sum` eight; both are borrowed until `blocking` has waited.
//!     unsafe { HASH_BYTES.launch_for(queue, bytes.div_ceil(16), &params) }
//! })?;
//! ```
//!
//! What a kernel takes is compared with its declaration in `hip/` when it is loaded; `params` lists the structs.
//!
//! With a stream of the caller, [`Stream::hip`](crate::device::Stream::hip) takes the place of the queue and nothing waits. The host's
//! version of a kernel is in the layer that defines what it computes; small ones (`hash`, `set_value`) are methods written here.

pub(crate) mod bandwidth;
pub(crate) mod bound;
pub(crate) mod fill;
mod hash;
pub(crate) mod issue;
pub(crate) mod mfma;
pub(crate) mod model_gemm;
mod params;
pub(crate) mod reduce_max;
pub(crate) mod reference;
mod set_value;
pub(crate) mod verify;

use crate::device::hip::HipDevice;
use crate::device::{Backend, Layout, TensorRef};
use crate::dtype::DType;
use crate::error::{Error, Result};
use hipverify_sys::abi::{self, AnyTensor};

/// Dimensions of a layout that the device code takes, after merging.
const RANK: usize = abi::MAX_RANK as usize;

/// The dimensions of a layout after merging dimensions that continue each other; none if it is dense.
struct Merged {
    rank: u32,
    extents: [u64; RANK],
    strides: [i64; RANK],
}

impl Merged {
    fn of(layout: &Layout) -> Result<Merged> {
        let mut merged = Merged { rank: 0, extents: [0; RANK], strides: [0; RANK] };
        if layout.is_contiguous() {
            return Ok(merged);
        }
        let dims = layout.collapsed();
        if let [(_, 1)] = dims[..] {
            return Ok(merged);
        }
        if dims.len() > RANK {
            let limit = format!("at most {RANK} dimensions that do not continue each other, on a GPU");
            return Err(Error::InvalidArgument { what: "strides", value: format!("{:?}", layout.strides()), limit });
        }
        merged.rank = dims.len() as u32;
        for (i, (extent, stride)) in dims.into_iter().enumerate() {
            (merged.extents[i], merged.strides[i]) = (extent as u64, stride as i64);
        }
        Ok(merged)
    }
}

/// A tensor for kernels that accept any format and layout.
fn any_tensor(dtype: DType, layout: &Layout) -> Result<AnyTensor> {
    let Merged { rank, extents, strides } = Merged::of(layout)?;
    Ok(AnyTensor { extents, strides, offset: layout.offset() as i64, rank, dtype: dtype as u32 })
}

/// That tensors lie on `gpu`, whose kernels are given their addresses.
fn expect_on(gpu: &HipDevice, tensors: &[&TensorRef<'_>]) {
    let here = |tensor: &&TensorRef<'_>| matches!(tensor.device().backend(), Backend::Hip(device) if std::ptr::eq(*device, gpu));
    assert!(tensors.iter().all(here), "the tensors lie on {}", gpu.name());
}

/// The address of a tensor, if it is contiguous and aligned to 16 bytes.
fn dense_address(tensor: &TensorRef<'_>) -> Option<*const u8> {
    let bits = tensor.layout().offset() * tensor.dtype().bits();
    let first = tensor.as_ptr().wrapping_add(bits / 8);
    (tensor.layout().is_contiguous() && bits.is_multiple_of(8) && first.addr().is_multiple_of(16)).then_some(first)
}

/// `n` for the device code, whose positions are 32-bit and may reach `margin` beyond it.
pub(crate) fn extent(what: &'static str, n: usize, margin: u32) -> Result<u32> {
    let less = if margin == 0 { String::new() } else { format!(" - {margin}") };
    let limit = || Error::InvalidArgument { what, value: n.to_string(), limit: format!("less than 2^31{less} on a GPU") };
    u32::try_from(n).ok().filter(|&n| n < (1 << 31) - margin).ok_or_else(limit)
}

/// A grid of `n` blocks of `threads` threads each. AMD's runtime launches less than 2^32 threads.
pub(crate) fn blocks(what: &'static str, n: usize, threads: u32) -> Result<u32> {
    let most = u32::MAX / threads;
    let limit = || Error::InvalidArgument { what, value: n.to_string(), limit: format!("at most {most} on a GPU") };
    u32::try_from(n).ok().filter(|&n| n <= most).ok_or_else(limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_have_less_than_2_to_32_threads() {
        assert_eq!(blocks("tiles", (1 << 24) - 1, 256).unwrap(), (1 << 24) - 1);
        let error = blocks("tiles", 1 << 24, 256).unwrap_err().to_string();
        assert!(error.contains("tiles") && error.contains("16777216") && error.contains("at most 16777215 on a GPU"), "{error}");
    }

    #[test]
    fn layouts_are_merged_up_to_eight_dimensions() {
        let thirds = [6561, 2187, 729, 243, 81, 27, 9, 3, 1];
        for (shape, strides, expected, reason) in [
            (&[2, 3][..], &[3, 1][..], Some(&[][..]), "dense"),
            (&[4, 1], &[1, 7], Some(&[]), "dense but for a stride that no element takes"),
            (&[2, 3], &[4, 1], Some(&[(2, 4), (3, 1)]), "padded rows"),
            (&[2, 3], &[1, 2], Some(&[(2, 1), (3, 2)]), "transposed"),
            (&[2, 2, 3], &[6, 3, 1], Some(&[]), "three dimensions that continue each other"),
            (&[2, 2, 3], &[12, 6, 2], Some(&[(12, 2)]), "the same, with gaps"),
            (&[2; 8], &thirds[1..], Some(&[(2, 2187), (2, 729), (2, 243), (2, 81), (2, 27), (2, 9), (2, 3), (2, 1)]), "eight"),
            (&[2; 9], &thirds, None, "nine"),
        ] {
            let merged = Merged::of(&Layout::strided(shape, strides, 0).unwrap());
            match (merged, expected) {
                (Ok(Merged { rank, extents, strides }), Some(expected)) => {
                    let dims: Vec<(u64, i64)> = extents.into_iter().zip(strides).take(rank as usize).collect();
                    assert_eq!(dims, expected, "{reason}");
                }
                (Err(error), None) => assert_eq!(
                    error.to_string(),
                    "strides cannot be [6561, 2187, 729, 243, 81, 27, 9, 3, 1]: at most 8 dimensions that do not continue each other, on a GPU",
                    "{reason}"
                ),
                (merged, _) => panic!("{reason}: {:?}", merged.map(|m| m.rank)),
            }
        }
    }
}
