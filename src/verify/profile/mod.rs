//! Named profiles: the rules by which other projects judge, as data.
//!
//! A profile is chosen to reproduce somebody's verdict, or because a team already trusts it. Each is a pure function of the formats and of
//! what is known of the [`Computation`]. Its [`Limits`] are the forms of a verdict that a comparison has: a tolerance for each element, a number of
//! elements that may fail, thresholds on metrics. Where a project's rule has another form, the profile is the nearest one that is nowhere
//! looser, and its row says so ("stricter"). [`Limits::derivation`] has the formula with its numbers, [`Profile::source`] where it stands.
//!
//! | profile | what it reproduces |
//! |---|---|
//! | `ck` | Composable Kernel: the defaults of `check_err` by its README (1e-3, 1e-3 for bf16 in 2024); with accumulations, `gpu_verify`'s derived tolerances |
//! | `ck-2026` | `check_err` of 2026: a whole ulp for the output's term, absolute tolerance from the binade of the largest reference |
//! | `torch` | `torch.testing.assert_close` |
//! | `numpy` | `numpy.testing.assert_allclose`: 1e-7, 0; NaN equals NaN, an infinity itself |
//! | `jax` | JAX's test tolerances: one number, relative and absolute |
//! | `rocblas` | rocBLAS `near_check`: absolute K·s for K accumulations, s by format |
//! | `hipdnn` | hipDNN's dynamic tolerance of a convolution, from the largest magnitude of the inputs |
//! | `rocmlir` | rocMLIR's allclose comparator: baseline by format, plus K·s absolute |
//! | `rocmlir-legacy` | rocMLIR's verdict of 2022: RMS, absolute and relative maxima against thresholds |
//! | `miopen` | MIOpenDriver: RMS against a threshold by format; elements are counted at its tests' 80 epsilons |
//! | `paddle` | Paddle's OpTest: floors by format, 2^(floor(log2 E) - 10) for sums, classes of operations forward and backward (gradients stricter by up to 4/3, and next to zero, where Paddle's rule is absolute, by more) |
//! | `benchdnn` | oneDNN's benchdnn: n epsilons of the result's format, relative (its absolute rule below 1e-5 is scaled down: stricter) |
//! | `flash-attention` | at most twice the error of a baseline, which is [given](Computation::baseline_error) |
//! | `triton` | triton_kernels: |a-r| / max(rms r, |r|) at most 2e-2 at its maximum, 4e-3 in root mean square (stricter by up to 2) |
//! | `deepgemm` | 1 - 2<a,r> / (|a|²+|r|²) below 1e-3, as a relative L2 norm (stricter: the worst |a|) |
//! | `llama-cpp` | test-backend-ops: Σ(a-r)² / Σr², 5e-4 for products of matrices, else 1e-7 |
//! | `inductor` | `same` with cosine similarity of 0.99, as a relative L2 norm (stricter: a scaled result does not pass) |
//! | `kernelbench` | `torch.allclose` relative to the result (stricter: relative to the reference) |
//! | `geak` | GEAK-eval: 1e-1, 1e-3 for every format |
//! | `aiter` | `checkAllclose`: 1e-2, 1e-2, and 5 % of the elements may fail |
//! | `flashinfer` | an element fails when its absolute and its relative difference exceed 1e-2 (stricter by up to 2); below 16 bits 5 % may |

mod paddle;
mod rules;
mod tables;
#[cfg(test)]
mod tests;

pub use paddle::Operation;

use super::{AllowedMismatches, Judge, NonFinite, Options, Thresholds, Tolerance};
use crate::dtype::DType;
use crate::error::{Error, Result};

/// A named rule; see the [module](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Profile {
    /// Composable Kernel.
    Ck,
    /// Composable Kernel, the rule of 2026.
    Ck2026,
    /// PyTorch.
    Torch,
    /// NumPy.
    Numpy,
    /// JAX.
    Jax,
    /// rocBLAS.
    RocBlas,
    /// hipDNN.
    HipDnn,
    /// rocMLIR, its allclose comparator.
    RocMlir,
    /// rocMLIR, its three metrics of 2022.
    RocMlirLegacy,
    /// MIOpen.
    Miopen,
    /// Paddle.
    Paddle,
    /// oneDNN's benchdnn.
    BenchDnn,
    /// FlashAttention.
    FlashAttention,
    /// Triton's kernels.
    Triton,
    /// DeepGEMM.
    DeepGemm,
    /// llama.cpp.
    LlamaCpp,
    /// PyTorch's inductor.
    Inductor,
    /// KernelBench.
    KernelBench,
    /// GEAK-eval.
    Geak,
    /// AITER.
    Aiter,
    /// FlashInfer-Bench.
    FlashInfer,
}

/// What is known of the computation behind a result, for profiles that ask.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Computation {
    /// The length of the sums behind an element: K of a GEMM, C·Y·X of a convolution.
    pub accumulations: Option<usize>,
    /// The range [min, max) that the inputs are from.
    pub range: Option<[f64; 2]>,
    /// The kind of operation.
    pub operation: Option<Operation>,
    /// Whether the result is a gradient.
    pub gradient: bool,
    /// The largest absolute error of a baseline in the same format, against the same reference.
    pub baseline_error: Option<f64>,
}

/// What a profile demands.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Limits {
    /// For each element.
    pub tolerance: Tolerance,
    /// How many elements may be beyond it.
    pub allowed: AllowedMismatches,
    /// For the metrics, where the profile judges by them.
    pub thresholds: Option<Thresholds>,
    /// What the verdict rests on.
    pub judge: Judge,
    /// What happens to pairs that are not finite.
    pub nonfinite: NonFinite,
    /// The formula behind the numbers, with its values.
    pub derivation: String,
}

impl Limits {
    /// Every element within a tolerance.
    pub fn elements(tolerance: Tolerance, derivation: impl Into<String>) -> Limits {
        let (allowed, judge) = (AllowedMismatches::NONE, Judge::Elements);
        Limits { tolerance, allowed, thresholds: None, judge, nonfinite: NonFinite::Fail, derivation: derivation.into() }
    }

    /// The same limits with thresholds on metrics.
    pub fn with_thresholds(self, thresholds: Thresholds, judge: Judge) -> Limits {
        Limits { thresholds: Some(thresholds), judge, ..self }
    }

    /// Options under which a comparison with [`tolerance`](Limits::tolerance) judges by these limits.
    pub fn options(&self, options: Options) -> Options {
        let mut options = options.allow_mismatches(self.allowed);
        if self.nonfinite == NonFinite::EqualWhenSame {
            options = options.nonfinite(self.nonfinite);
        }
        match self.thresholds {
            Some(thresholds) => options.thresholds(thresholds, self.judge),
            None => options,
        }
    }
}

impl Profile {
    /// Every profile, in the order of the documentation.
    pub const ALL: [Profile; 21] = [
        Profile::Ck,
        Profile::Ck2026,
        Profile::Torch,
        Profile::Numpy,
        Profile::Jax,
        Profile::RocBlas,
        Profile::HipDnn,
        Profile::RocMlir,
        Profile::RocMlirLegacy,
        Profile::Miopen,
        Profile::Paddle,
        Profile::BenchDnn,
        Profile::FlashAttention,
        Profile::Triton,
        Profile::DeepGemm,
        Profile::LlamaCpp,
        Profile::Inductor,
        Profile::KernelBench,
        Profile::Geak,
        Profile::Aiter,
        Profile::FlashInfer,
    ];

    /// The name that flags and reports use.
    pub const fn name(self) -> &'static str {
        self.entry().name
    }

    /// Where the rule stands.
    pub const fn source(self) -> &'static str {
        self.entry().source
    }

    /// [`limits_for`](Profile::limits_for) a computation of which at most the length of its sums is known.
    ///
    /// ```
    /// use hipverify::{DType, verify::Profile};
    /// let limits = Profile::Torch.limits(DType::F16, DType::F32, None)?;
    /// assert_eq!((limits.tolerance.rtol(), limits.tolerance.atol(0.0)), (1e-3, 1e-5));
    /// # Ok::<(), hipverify::Error>(())
    /// ```
    ///
    /// # Errors
    /// As there.
    pub fn limits(self, result: DType, reference: DType, accumulations: Option<usize>) -> Result<Limits> {
        self.limits_for(result, reference, &Computation { accumulations, ..Computation::default() })
    }

    /// The limits for a result against a reference. Of two floating-point formats the one with fewer fraction bits counts (of equals the
    /// result's), of an integer and a floating-point format the latter.
    ///
    /// # Errors
    /// [`Error::Unsupported`] when the profile's source has no tolerance for the format, [`Error::InvalidArgument`] when the computation lacks
    /// what the profile needs, or what it has makes no tolerance.
    pub fn limits_for(self, result: DType, reference: DType, computation: &Computation) -> Result<Limits> {
        let dtype = coarser(result, reference);
        let question = rules::Question { profile: self, dtype, result, reference, computation };
        (self.entry().rule)(&question)
    }

    const fn entry(self) -> &'static rules::Entry {
        &rules::ENTRIES[self as usize]
    }
}

/// The format that decides: the coarser of two floats, the float of a mixed pair.
fn coarser(a: DType, b: DType) -> DType {
    match (a.float_format(), b.float_format()) {
        (Some(fa), Some(fb)) if fb.mantissa_bits < fa.mantissa_bits => b,
        (None, Some(_)) => b,
        _ => a,
    }
}

impl std::fmt::Display for Profile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

impl std::str::FromStr for Profile {
    type Err = Error;

    /// Reads a name as [`Profile::name`] prints it.
    fn from_str(s: &str) -> Result<Profile> {
        Profile::ALL.into_iter().find(|p| p.name() == s).ok_or_else(|| Error::InvalidArgument {
            what: "profile",
            value: s.to_owned(),
            limit: format!("known: {}", Profile::ALL.map(Profile::name).join(" ")),
        })
    }
}
