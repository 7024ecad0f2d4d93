//! A bound for each element: how far a correct result may lie from the exact one, from what is known of the arithmetic and the operands.
//!
//! An element of a GEMM or a convolution is a sum of products. With S = Σ|a||b| (and what else is added, in magnitude) and the reference r,
//!
//! ```text
//! |a - r| <= E + h(|r| + E),  E = fma(gamma, S, fma(relative, |r|, floor))
//! ```
//!
//! where `gamma` is what the additions may lose ([`Sum::bound`]), `floor` what underflow loses, `relative` what the reference's own rounding adds, and h half of the spacing of the format that the result is
//! [rounded to](Bound::rounded_to).
//! [`gpu_verify_bound`] compares by it, on the device of the tensors; S lies in a tensor, which `reference::Gemm::magnitudes` makes. Where elements
//! of one tensor differ in size, no tolerance of two numbers is as sharp: S is what each element's error scales with.
//!
//! `docs/tolerances.md` derives the terms. Limits: floating-point results; overflow of an accumulator that the result does not show is not foreseen, and of a result that overflows nothing
//! but that is known: see [`BoundReport::overflows`].

mod coefficients;
mod host;
mod operations;
mod report;
mod rule;
mod sum;

#[cfg(test)]
mod tests;

pub use coefficients::Bound;
pub use report::{BoundExceeded, BoundReport, BoundedElement, NonFiniteCounts};
pub(crate) use rule::ElementRule;
pub use sum::{Confidence, Sum, Unit};

use crate::device::{AsTensor, Backend, TensorRef};
use crate::dtype::{DType, Overflow};
use crate::error::{Error, Result};
use crate::kernels::bound as kernels;
use hipverify_sys::abi::{BOUND_BINS, BOUND_TILE, BoundCount, BoundRule, BoundTile};

/// Elements of a tile.
const TILE: usize = BOUND_TILE as usize;
/// Bins of the histogram.
const BINS: usize = BOUND_BINS as usize;

/// Compares `result` with `reference` on their device, each element by its own bound; `magnitudes` has S for each.
///
/// The reference is exact up to what [`Bound::against`] was told. A result that is not finite passes where the reference is the same, or where the bound reaches
/// beyond the largest number of the result's format; formats without infinity may saturate there instead.
///
/// ```
/// use hipverify::verify::bound::{Bound, gpu_verify_bound};
/// use hipverify::{DType, Device, DeviceMem};
/// let device = Device::host();
/// let result = DeviceMem::from_slice(&device, &[1.0f32, 8.0])?;
/// let reference = DeviceMem::from_slice(&device, &[1.0f64, 8.5])?;
/// let magnitudes = DeviceMem::from_slice(&device, &[1.0f64, 100.0])?;
/// let bound = Bound { gamma: 0.01, ..Bound::EXACT };
/// assert!(gpu_verify_bound(&result, &reference, &magnitudes, &bound)?.passed());
/// # Ok::<(), hipverify::Error>(())
/// ```
///
/// # Errors
/// When shapes differ, there are no elements, tensors are on different devices, the result's format is one of 64-bit integers, a coefficient is negative or not a number, or the device reports an error.
pub fn gpu_verify_bound(
    result: &impl AsTensor,
    reference: &impl AsTensor,
    magnitudes: &impl AsTensor,
    bound: &Bound,
) -> Result<BoundReport> {
    gpu_verify_bound_with(result, reference, magnitudes, bound, Overflow::Ieee)
}

/// [`gpu_verify_bound`] of a result whose kernel does what is said where it overflows. One that saturates ([`Overflow::Saturate`]) gives the largest number of the result's format with the sign
/// of the reference; infinities and NaN fail there. For an infinite reference that number passes, and what passes without this.
///
/// ```
/// use hipverify::dtype::{F16, Overflow};
/// use hipverify::verify::bound::{Bound, gpu_verify_bound, gpu_verify_bound_with};
/// use hipverify::{Device, DeviceMem};
/// let device = Device::host();
/// let result = DeviceMem::from_slice(&device, &[1.0, 65504.0, 2.0].map(F16::from_f32))?;
/// let reference = DeviceMem::from_slice(&device, &[1.0, 1e6, 2.0])?;
/// assert!(!gpu_verify_bound(&result, &reference, &reference, &Bound::EXACT)?.passed());
/// assert!(gpu_verify_bound_with(&result, &reference, &reference, &Bound::EXACT, Overflow::Saturate)?.passed());
/// # Ok::<(), hipverify::Error>(())
/// ```
///
/// # Errors
/// As [`gpu_verify_bound`]; also where integers are to saturate.
pub fn gpu_verify_bound_with(
    result: &impl AsTensor,
    reference: &impl AsTensor,
    magnitudes: &impl AsTensor,
    bound: &Bound,
    overflow: Overflow,
) -> Result<BoundReport> {
    let (result, reference, magnitudes) = (result.as_tensor(), reference.as_tensor(), magnitudes.as_tensor());
    for (tensor, what) in [(&reference, "the reference"), (&magnitudes, "the magnitudes")] {
        result.device().expect_same(tensor.device(), what)?;
        super::expect_shape(&result, tensor, what)?;
    }
    super::expect_elements(&result)?;
    report::report(&Comparison::new([&result, &reference, &magnitudes], (bound, overflow))?, bound)
}

/// The index of every element of a result beyond its bound, in ascending order, shown to `take`: of tensors that [`gpu_verify_bound`] compares.
///
/// # Errors
/// As there.
pub(crate) fn each_mismatch(tensors: [&TensorRef<'_>; 3], rule: (&Bound, Overflow), mut take: impl FnMut(usize)) -> Result<()> {
    let comparison = Comparison::new(tensors, rule)?;
    for tile in failing(&comparison.tiles()?.0) {
        comparison.beyond(tile)?.for_each(&mut take);
    }
    Ok(())
}

/// Some of the elements beyond their bound, spread over the tensor, in ascending order: their indices, and the result's values. Of tensors that [`gpu_verify_bound`] compares.
///
/// # Errors
/// As there.
pub(crate) fn some_mismatches(tensors: [&TensorRef<'_>; 3], rule: (&Bound, Overflow), most: usize) -> Result<Vec<(usize, f64)>> {
    /// Tiles that are looked into, at most.
    const TILES: usize = 64;
    let comparison = Comparison::new(tensors, rule)?;
    if most == 0 {
        return Ok(Vec::new());
    }
    let failing: Vec<usize> = failing(&comparison.tiles()?.0).collect();
    let taken: Vec<usize> = failing.iter().copied().step_by(failing.len().div_ceil(TILES).max(1)).collect();
    let mut found = Vec::new();
    for &tile in &taken {
        let beyond: Vec<usize> = comparison.beyond(tile)?.collect();
        let step = beyond.len().div_ceil(most.div_ceil(taken.len())).max(1);
        for index in beyond.into_iter().step_by(step) {
            let [result, ..] = comparison.values(index)?;
            found.push((index, result));
        }
    }
    Ok(found)
}

/// Three tensors of one shape on one device, with elements, and the rule.
#[derive(Debug)]
struct Comparison<'a> {
    /// Result, reference, magnitudes.
    tensors: [&'a TensorRef<'a>; 3],
    rule: BoundRule,
    overflow: Overflow,
}

/// The tiles that have an element beyond its bound.
fn failing(tiles: &[BoundTile]) -> impl Iterator<Item = usize> {
    let fails = |tile: &BoundTile| tile.counts[BoundCount::BOUND_MISMATCHES as usize] > 0;
    tiles.iter().enumerate().filter(move |(_, tile)| fails(tile)).map(|(i, _)| i)
}

impl<'a> Comparison<'a> {
    fn new(tensors: [&'a TensorRef<'a>; 3], (bound, overflow): (&Bound, Overflow)) -> Result<Comparison<'a>> {
        Ok(Comparison { tensors, rule: rule::of(bound, tensors[0].dtype(), overflow)?, overflow })
    }

    /// What each tile of [`TILE`] elements holds, and the histogram of all.
    fn tiles(&self) -> Result<(Vec<BoundTile>, [u64; BINS])> {
        match self.tensors[0].device().backend() {
            Backend::Host => Ok(host::tiles(self)),
            Backend::Hip(gpu) => kernels::tiles(gpu, self.tensors, &self.rule),
        }
    }

    /// The elements of a tile, each with its error over its bound; up to 1 passes.
    fn ratios(&self, tile: usize) -> Result<impl Iterator<Item = (usize, f64)>> {
        let range = tile * TILE..self.tensors[0].elements().min((tile + 1) * TILE);
        let ratios = match self.tensors[0].device().backend() {
            Backend::Host => host::ratios(self, range.clone()),
            Backend::Hip(gpu) => kernels::ratios(gpu, self.tensors, &self.rule, range.clone())?,
        };
        Ok(range.zip(ratios))
    }

    /// The elements of a tile that are beyond their bounds.
    fn beyond(&self, tile: usize) -> Result<impl Iterator<Item = usize>> {
        Ok(self.ratios(tile)?.filter(|(_, ratio)| *ratio > 1.0).map(|(index, _)| index))
    }

    /// The values of one element in the three tensors.
    fn values(&self, index: usize) -> Result<[f64; 3]> {
        let mut values = [0.0; 3];
        for (value, tensor) in values.iter_mut().zip(self.tensors) {
            *value = tensor.dtype().decode(bits(tensor, index)?);
        }
        Ok(values)
    }
}

/// The bits of one element, wherever it lies.
fn bits(tensor: &TensorRef<'_>, index: usize) -> Result<u64> {
    let (dtype, at) = (tensor.dtype(), tensor.layout().index(index));
    let (first, within) = (at / dtype.per_unit() * dtype.unit_bytes(), at % dtype.per_unit());
    Ok(dtype.load_bits(&tensor.fetch_part(first..first + dtype.unit_bytes())?, within))
}

/// That a format has a bound at all.
fn expect_float(dtype: DType, what: &str) -> Result<crate::dtype::FloatFormat> {
    let fail = || Error::WrongDType { what: what.to_owned(), expected: "a floating-point format".to_owned(), found: dtype.to_string() };
    dtype.float_format().copied().ok_or_else(fail)
}
