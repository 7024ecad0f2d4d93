//! Every device kernel: its parameters, its grid and its launch. Private; whoever has data calls from here what runs on them.
//!
//! A kernel takes one struct of `hip/abi.h` by value:
//!
//! ```ignore
//! // SAFETY: hip/hash.hip: `extern "C" __global__ void hash_bytes(Hash p)`, for blocks of 256 threads.
//! const HASH_BYTES: Kernel<Hash> = unsafe { Kernel::new("hash.hip", "hash_bytes", 256) };
//!
//! device.blocking(|queue| {
//!     let grid = HASH_BYTES.grid_for(device, bytes.div_ceil(16))?;
//!     // SAFETY: `block` has `bytes` bytes and `sum` eight; both are borrowed until `blocking` has waited.
//!     unsafe { HASH_BYTES.launch(queue, grid, &params) }
//! })?;
//! ```
//!
//! With a stream of the caller's, [`Stream::hip`](crate::device::Stream::hip) takes the place of the queue and nothing waits. The host's
//! version of a kernel lies in the layer that defines what it computes; small ones (`hash`, `set_value`) are methods written here.

pub(crate) mod bandwidth;
pub(crate) mod fill;
mod hash;
pub(crate) mod mfma;
pub(crate) mod model_gemm;
pub(crate) mod reference;
mod set_value;

use crate::device::Layout;
use crate::dtype::DType;
use crate::error::{Error, Result};
use bytemuck::Zeroable;
use hipverify_sys::abi::{self, AnyTensor};

/// Dimensions of a layout that the device code takes, after merging.
const RANK: usize = abi::MAX_RANK as usize;

/// A tensor for kernels that take any.
fn any_tensor(dtype: DType, layout: &Layout) -> Result<AnyTensor> {
    let dims = layout.collapsed();
    if dims.len() > RANK {
        return Err(Error::InvalidArgument {
            what: "dimensions of a tensor",
            value: dims.len().to_string(),
            limit: format!("at most {RANK} that do not continue each other, on a GPU"),
        });
    }
    let mut any = AnyTensor { offset: layout.offset() as i64, rank: dims.len() as u32, dtype: dtype as u32, ..Zeroable::zeroed() };
    for (i, (extent, stride)) in dims.into_iter().enumerate() {
        (any.extents[i], any.strides[i]) = (extent as u64, stride as i64);
    }
    Ok(any)
}

/// `n` for the device code, whose positions are 32-bit.
pub(crate) fn extent(what: &'static str, n: usize) -> Result<u32> {
    i32::try_from(n).map(|n| n as u32).map_err(|_| Error::InvalidArgument {
        what,
        value: n.to_string(),
        limit: "less than 2^31 on a GPU".to_owned(),
    })
}
