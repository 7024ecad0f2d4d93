//! Fill on a GPU: chooses the kernel of `hip/fill.hip`, its grid and its parameters.

use crate::device::hip::{HipDevice, Kernel};
use crate::dtype::DType;
use crate::error::{Error, Result};
use hipverify_sys::abi::{CRAND_ORDER, Fill, FillCrand, FillFlag as flag, FillKind as kind, FillParams};

/// The inputs of a fill in addition to its parameters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passes<'a> {
    /// The format that the parameters number.
    pub dtype: DType,
    /// Flags to add, for each launch that the fill takes.
    pub flags: &'a [u32],
    /// For CRAND: the first numbers of the generator's recurrence.
    pub crand: Option<[u32; CRAND_ORDER as usize]>,
}

/// Fills a tensor at `target` on `gpu`, and waits.
///
/// # Errors
/// [`Error::InvalidArgument`] when the address is not aligned to an element; a failed launch.
///
/// # Safety
/// * `p` was checked for this format and a layout that lies within the memory at `target`, and `passes` belongs to it;
/// * that memory is valid for reads and writes on `gpu`, and nothing else uses it until this returns.
pub(crate) unsafe fn fill(gpu: &'static HipDevice, p: &FillParams, passes: Passes<'_>, target: *mut u8) -> Result<()> {
    let unit = passes.dtype.unit_bytes();
    if !(target as usize).is_multiple_of(unit) {
        let limit = format!("kernels need it aligned to the element, {unit} bytes");
        return Err(Error::InvalidArgument { what: "address", value: format!("{target:p}"), limit });
    }
    let Launch { kernel, threads, blocks } = Launch::of(p, passes);
    let (general, crand) = (Kernel::<Fill>::new("fill.hip", kernel, threads), Kernel::<FillCrand>::new("fill.hip", kernel, threads));
    let threads = blocks * u64::from(threads);
    gpu.blocking(|queue| {
        passes.flags.iter().try_for_each(|flags| {
            let params = FillParams { flags: p.flags | flags, ..*p };
            // SAFETY: the caller promises the parameters and the memory, which nothing else uses until `blocking` has waited.
            unsafe {
                match passes.crand {
                    Some(first) => crand.launch_for(queue, threads, &FillCrand { params, target, first, unused: 0 }),
                    None => general.launch_for(queue, threads, &Fill { params, target }),
                }
            }
        })
    })
}

/// One kernel and its grid.
struct Launch {
    /// The kernel's name.
    kernel: &'static str,
    /// Threads in a block.
    threads: u32,
    /// Blocks that have work. Kernels stride over the grid, so any smaller number from 1 on gives the same
    /// result; as many as the GPU holds at once are best.
    blocks: u64,
}

/// Elements that one block of `fill_crand` makes before it takes the next part.
const CRAND_RUN: u64 = 1 << 14;

impl Launch {
    /// The launch for checked parameters. With nothing to fill there are no blocks, and nothing must be launched.
    fn of(p: &FillParams, passes: Passes<'_>) -> Launch {
        let bits = passes.dtype.bits() as u64;
        let contiguous = p.flags & flag::CONTIGUOUS != 0;
        let plain = p.special_below == 0 && p.flags & flag::SPARSE == 0;
        if passes.crand.is_some() {
            return Launch { kernel: "fill_crand", threads: 64, blocks: p.count.div_ceil(CRAND_RUN) };
        }
        // One thread makes 16 bytes, or one element where elements lie apart.
        let units = if contiguous { p.count.div_ceil(128 / bits) } else { p.count };
        let whole_bytes = bits > 4 || p.offset.is_multiple_of(2);
        let fast = if plain && contiguous && whole_bytes { fast_kernel(p, passes.dtype) } else { None };
        let (kernel, threads) = fast.unwrap_or(("fill_general", 256));
        Launch { kernel, threads, blocks: units.div_ceil(u64::from(threads)) }
    }
}

/// The kernel for whole vectors of 16 bytes, if there is one, and the threads of its blocks.
fn fast_kernel(p: &FillParams, dtype: DType) -> Option<(&'static str, u32)> {
    match p.kind {
        kind::UNIFORM => Some((uniform_kernel(dtype)?, 512)),
        kind::INTEGERS | kind::SUBNORMAL => {
            let draws_of_32_bits = (1..1 << 32).contains(&p.int_count);
            if draws_of_32_bits && p.period <= 1 { Some((drawn_kernel(dtype)?, 256)) } else { None }
        }
        // i32 and u32 are computed in f64.
        kind::NORMAL if dtype.is_int() && dtype.bits() == 32 => None,
        kind::NORMAL => Some((drawn_kernel(dtype)?, 256)),
        _ => None,
    }
}

fn drawn_kernel(dtype: DType) -> Option<&'static str> {
    match dtype.bits() {
        32 => Some("fill_drawn_32"),
        16 => Some("fill_drawn_16"),
        8 => Some("fill_drawn_8"),
        4 => Some("fill_drawn_4"),
        _ => None,
    }
}

fn uniform_kernel(dtype: DType) -> Option<&'static str> {
    Some(match dtype {
        DType::F64 => "fill_uniform_f64",
        DType::F32 => "fill_uniform_f32",
        DType::Tf32 => "fill_uniform_tf32",
        DType::F16 => "fill_uniform_f16",
        DType::Bf16 => "fill_uniform_bf16",
        DType::F8E4M3 => "fill_uniform_f8e4m3",
        DType::F8E5M2 => "fill_uniform_f8e5m2",
        DType::F8E4M3Fnuz => "fill_uniform_f8e4m3fnuz",
        DType::F8E5M2Fnuz => "fill_uniform_f8e5m2fnuz",
        DType::F6E2M3 => "fill_uniform_f6e2m3",
        DType::F6E3M2 => "fill_uniform_f6e3m2",
        DType::F4E2M1 => "fill_uniform_f4e2m1",
        DType::F8E8M0 => "fill_uniform_f8e8m0",
        _ => return None,
    })
}
