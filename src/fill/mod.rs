//! Generators: data as a function of (seed, stream, index) alone.
//!
//! A [`Generator`] fills a [`DeviceMem`] ([`DeviceMem::fill`]) or any tensor ([`fill()`]). Element i depends on the seed, the
//! stream and its logical (row-major) index. It does not depend on the device, the number of threads, the strides or how a tensor is cut, and
//! has the same bits everywhere. Padding between strided elements keeps its contents.
//!
//! | for | use |
//! |---|---|
//! | ordinary random data | [`FillUniformRand`], [`FillUniformRandInteger`], [`FillNormalRand`], [`FillHpl`] |
//! | no cancellation, or none of the small numbers that make relative errors large | [`FillBounce`] |
//! | to detect an indexing mistake | [`FillSequential`], [`FillMonotonic`], [`FillDiagonal`], [`FillCheckerboard`] |
//! | results without rounding, hence without tolerance | [`FillExactProduct`] |
//! | difficult numbers | [`FillSubnormal`], [`Generator::with_specials`] |
//! | to repeat published experiments | [`FillSin`], [`FillCos`], [`FillCRand`], [`FillValues`], [`FillSpec::named_range`] |
//! | a sparse operand | [`Generator::sparse_2_4`] |
//!
//! The random numbers are those of Philox4x32-10, keyed by the seed; `docs/fill.md` has the mapping from index to bits.
//! They are for tests, not for cryptography.

#[cfg(target_arch = "x86_64")]
mod avx512;
mod blocks;
mod crand;
mod element;
mod generators;
mod host;
mod loops;
mod math;
mod params;
mod philox;
mod spec;
#[cfg(test)]
mod tests;
mod values;

pub use generators::{
    FillBounce, FillCRand, FillCheckerboard, FillConstant, FillCos, FillDiagonal, FillExactProduct, FillHpl, FillMonotonic, FillNormalRand,
    FillSequential, FillSin, FillSubnormal, FillUniformRand, FillUniformRandInteger, FillValues, Generator,
};
use spec::Pattern;
pub use spec::{FillSpec, ProductOperand};

use crate::device::{Backend, DeviceMem, TensorMut};
use crate::dtype::Element;
use crate::error::Result;
use crate::kernels::fill::{self as kernels, Passes};

/// Fills a tensor. Nothing outside its elements is written.
///
/// ```
/// use hipverify::device::{Device, DeviceMem};
/// use hipverify::fill::{FillSequential, fill};
/// let mut x = DeviceMem::<f32>::new(&Device::host(), 6)?;
/// fill(&mut x.tensor_mut(&[2, 3])?, &FillSequential::new(1))?;
/// assert_eq!(x.to_vec()?, [0.0, 1.0, 2.0, 0.0, 1.0, 2.0]);
/// # Ok::<(), hipverify::Error>(())
/// ```
///
/// # Errors
/// [`Error::InvalidArgument`](crate::Error::InvalidArgument) when the generator's parameters do not fit the format or the
/// shape, or elements overlap; a failed launch.
pub fn fill(tensor: &mut TensorMut<'_>, generator: &impl Generator) -> Result<()> {
    let dtype = tensor.as_ref().dtype();
    let spec = generator.spec();
    let params = params::kernel_params(&spec, dtype, tensor.as_ref().layout())?;
    if let Pattern::Values { values } = &spec.pattern {
        return values::fill(&params, values, tensor);
    }
    let crand = (params.kind == params::kind::CRAND).then(|| params::crand_state(&params).first);
    let passes = Passes { dtype, flags: params::passes(&params, dtype), crand };
    let device = tensor.as_ref().device().clone();
    match device.backend() {
        Backend::Host => host::fill(&params, dtype, tensor.host_bytes_mut()),
        // SAFETY: the layout was checked against the tensor's memory, which is borrowed exclusively.
        Backend::Hip(gpu) => unsafe { kernels::fill(gpu, &params, passes, tensor.as_mut_ptr())? },
    }
    Ok(())
}

impl<T: Element> DeviceMem<T> {
    /// Fills the buffer, as one dimension, from a generator.
    ///
    /// ```
    /// use hipverify::{Device, DeviceMem, fill::FillUniformRand};
    /// let mut x = DeviceMem::<f32>::new(&Device::host(), 1000)?;
    /// x.fill(&FillUniformRand::new(-1.0, 1.0).seed(1))?;
    /// assert!(x.to_vec()?.iter().all(|v| v.abs() <= 1.0));
    /// # Ok::<(), hipverify::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`fill()`].
    pub fn fill(&mut self, generator: &impl Generator) -> Result<()> {
        let elements = self.elements();
        fill(&mut self.tensor_mut(&[elements])?, generator)
    }
}
