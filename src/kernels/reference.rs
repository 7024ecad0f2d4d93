//! Launches of hip/reference.hip.

use super::{any_tensor, expect_on};
use crate::device::hip::{HipAlloc, HipDevice, Kernel};
use crate::device::{TensorMut, TensorRef};
use crate::error::{Error, Result};
use hipverify_sys::abi::{ReferenceFinish, ReferenceSums, ReferenceWiden};

/// How the elements of an operand are converted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Widening {
    /// f64, rather than 32-bit words.
    pub double: bool,
    /// Magnitudes below count as +0.
    pub least: f64,
    /// Without sign, and at least this much if it is not 0.
    pub magnitude: Option<f64>,
    /// What a matrix core does to an input; one of [`Prepare`](hipverify_sys::abi::Prepare).
    pub prepare: u32,
}

/// The elements of a tensor on `device` in logical order, as the sums take them.
///
/// # Panics
/// When the tensor does not lie there.
pub(crate) fn widen(device: &'static HipDevice, t: &TensorRef<'_>, how: Widening) -> Result<HipAlloc> {
    expect_on(device, &[t]);
    const WIDEN: Kernel<ReferenceWiden> = Kernel::new("reference.hip", "reference_widen", 256);
    let tensor = any_tensor(t.dtype(), t.layout())?;
    let count = t.elements();
    let unit = if how.double { 8 } else { 4 };
    let bytes = count.checked_mul(unit).ok_or(Error::SizeOverflow { what: "a widened operand", elements: count, unit_bytes: unit })?;
    let block = HipAlloc::new(device, bytes)?;
    let params = ReferenceWiden {
        tensor,
        from: t.as_ptr(),
        to: block.ptr().cast(),
        count: count as u64,
        least: how.least,
        to_double: u32::from(how.double),
        raised: how.magnitude.unwrap_or(0.0),
        magnitude: u32::from(how.magnitude.is_some()),
        prepare: how.prepare,
        unused: 0,
    };
    device.blocking(|queue| {
        // SAFETY: the layout stays inside the tensor's memory, which is borrowed until `blocking` has waited; the block has
        // memory for every element.
        unsafe { WIDEN.launch_for(queue, count as u64, &params) }
    })?;
    Ok(block)
}

/// The two kernels of a sum: one element per thread, or `several` along the dimension `rows`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SumKernels {
    pub one: &'static str,
    pub rows: &'static str,
    pub several: u64,
}

/// With fewer threads than this for a multiprocessor, a thread takes only one element.
const BUSY: u64 = 1024;

/// The sums of a plan, as f64. Fills in its addresses and the count.
///
/// # Safety
/// * the operands hold what the kernels compute with, as [`widen`] leaves it;
/// * every index that the plan gives an element of the result lies inside its operand, and below `elements` for the result itself.
pub(crate) unsafe fn sums(
    device: &'static HipDevice,
    kernels: SumKernels,
    plan: &ReferenceSums,
    [source, other]: [&HipAlloc; 2],
    elements: usize,
) -> Result<HipAlloc> {
    let result = HipAlloc::new(device, elements.checked_mul(8).ok_or(Error::SizeOverflow { what: "sums", elements, unit_bytes: 8 })?)?;
    let total: u64 = plan.extent.iter().map(|&n| u64::from(n)).product();
    if total == 0 {
        return Ok(result);
    }
    let rows = u64::from(plan.extent[plan.rows as usize]);
    let shared = total / rows * rows.div_ceil(kernels.several);
    let busy = shared >= BUSY * u64::from(device.multiprocessors());
    let (name, count) = if busy { (kernels.rows, shared) } else { (kernels.one, total) };
    let kernel: Kernel<ReferenceSums> = Kernel::new("reference.hip", name, 256);
    let params = ReferenceSums { source: source.ptr().cast(), other: other.ptr().cast(), to: result.ptr().cast(), count, ..*plan };
    device.blocking(|queue| {
        // SAFETY: the caller promises that the plan stays inside the three blocks, which live until `blocking` has waited.
        unsafe { kernel.launch_for(queue, count, &params) }
    })?;
    Ok(result)
}

/// The operations between sums and the result; see `Gemm`.
#[derive(Debug)]
pub(crate) struct Finishing {
    pub alpha: f64,
    pub beta: f64,
    /// f64 values; element i adds value i modulo their number.
    pub c: Option<HipAlloc>,
    /// f64 values, likewise.
    pub bias: Option<HipAlloc>,
    /// One of [`Epilogue`](hipverify_sys::abi::Epilogue), and its bounds.
    pub epilogue: (u32, f64, f64),
    /// Sums are rounded to f32 first.
    pub single: bool,
}

/// Rounds sums into a tensor on `device`. Returns false, and does nothing, for formats of less than a byte, in which neighbours share a byte.
///
/// # Panics
/// When the tensor does not lie there.
pub(crate) fn finish(device: &'static HipDevice, sums: &HipAlloc, what: &Finishing, to: &mut TensorMut<'_>) -> Result<bool> {
    expect_on(device, &[to.as_ref()]);
    const FINISH: Kernel<ReferenceFinish> = Kernel::new("reference.hip", "reference_finish", 256);
    let (dtype, count) = (to.as_ref().dtype(), to.as_ref().elements());
    if dtype.bits() < 8 {
        return Ok(false);
    }
    let tensor = any_tensor(dtype, to.as_ref().layout())?;
    if sums.bytes() / 8 != count {
        return Err(Error::Length { what: "elements of the result", expected: sums.bytes() / 8, found: count });
    }
    let address = |block: &Option<HipAlloc>| block.as_ref().map_or(std::ptr::null(), |b| b.ptr().cast_const().cast());
    let values = |block: &Option<HipAlloc>| block.as_ref().map_or(1, |b| b.bytes() as u64 / 8).max(1);
    let (epilogue, low, high) = what.epilogue;
    let params = ReferenceFinish {
        tensor,
        sums: sums.ptr().cast(),
        c: address(&what.c),
        bias: address(&what.bias),
        to: to.as_mut_ptr(),
        count: count as u64,
        area: values(&what.c),
        columns: values(&what.bias),
        alpha: what.alpha,
        beta: what.beta,
        low,
        high,
        epilogue,
        scaled: u32::from(what.alpha != 1.0),
        single: u32::from(what.single),
        unused: 0,
    };
    device.blocking(|queue| {
        // SAFETY: there are as many sums as elements, and C and bias are read modulo their lengths; the layout stays inside
        // the tensor, which is borrowed exclusively until `blocking` has waited.
        unsafe { FINISH.launch_for(queue, count as u64, &params) }
    })?;
    Ok(true)
}
