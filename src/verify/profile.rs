//! Named tolerance profiles: the tolerances that other projects compare with, as tables.
//!
//! A profile is chosen to reproduce somebody's verdict, or because a team already trusts it. Each is a pure function of the
//! formats and the number of accumulations. Where a project's rule has another form than `|a - r| <= rtol·|r| + atol`, the
//! profile is the nearest form that is nowhere looser, and its entry below says so.
//!
//! | profile | what it reproduces |
//! |---|---|
//! | `ck` | Composable Kernel: `check_err` defaults (`include/ck/.../check_err.hpp`, 2024); with accumulations, `gpu_verify`'s derived tolerances |
//! | `torch` | `torch.testing.assert_close` (`torch/testing/_comparison.py`) |
//! | `numpy` | `numpy.testing.assert_allclose`: 1e-7, 0 |
//! | `jax` | JAX's test tolerances (`jax/_src/public_test_util.py`): one number, relative and absolute |
//! | `rocblas` | rocBLAS `near_check`: absolute K·s for K accumulations, s by format |
//! | `rocmlir` | rocMLIR's allclose comparator: baseline by format, plus K·s absolute |
//! | `rocmlir-legacy` | rocMLIR's verdict of 2022: RMS, absolute and relative maxima against thresholds |
//! | `miopen` | MIOpenDriver: RMS against a threshold by format; elements are counted at its tests' 80 epsilons |
//! | `paddle` | Paddle's OpTest: floors by format |
//! | `benchdnn` | oneDNN's benchdnn: n epsilons of the result's format, relative (its absolute rule below 1e-5 is scaled down with the reference: stricter) |

use super::{Thresholds, Tolerance};
use crate::dtype::DType;
use crate::error::{Error, Result};

/// A named set of tolerances; see the [module](self) for their sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Profile {
    /// Composable Kernel.
    Ck,
    /// PyTorch.
    Torch,
    /// NumPy.
    Numpy,
    /// JAX.
    Jax,
    /// rocBLAS.
    RocBlas,
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
}

/// What a profile demands of one pair of formats.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// For each element.
    pub tolerance: Tolerance,
    /// For the metrics, where the profile judges by them and not by elements.
    pub thresholds: Option<Thresholds>,
}

impl Profile {
    /// Every profile, in the order of the documentation.
    pub const ALL: [Profile; 10] = [
        Profile::Ck,
        Profile::Torch,
        Profile::Numpy,
        Profile::Jax,
        Profile::RocBlas,
        Profile::RocMlir,
        Profile::RocMlirLegacy,
        Profile::Miopen,
        Profile::Paddle,
        Profile::BenchDnn,
    ];

    /// The name that flags and reports use.
    pub const fn name(self) -> &'static str {
        match self {
            Profile::Ck => "ck",
            Profile::Torch => "torch",
            Profile::Numpy => "numpy",
            Profile::Jax => "jax",
            Profile::RocBlas => "rocblas",
            Profile::RocMlir => "rocmlir",
            Profile::RocMlirLegacy => "rocmlir-legacy",
            Profile::Miopen => "miopen",
            Profile::Paddle => "paddle",
            Profile::BenchDnn => "benchdnn",
        }
    }

    /// The limits for a result against a reference. Of two floating-point formats the one with fewer fraction bits counts (of equals the
    /// result's), of an integer and a floating-point format the latter. `accumulations` is the length of the sums behind an element, if known.
    ///
    /// ```
    /// use hipverify::{DType, verify::Profile};
    /// let limits = Profile::Torch.limits(DType::F16, DType::F32, None)?;
    /// assert_eq!((limits.tolerance.rtol(), limits.tolerance.atol(0.0)), (1e-3, 1e-5));
    /// # Ok::<(), hipverify::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Unsupported`] when the profile's source has no tolerance for the format.
    pub fn limits(self, result: DType, reference: DType, accumulations: Option<usize>) -> Result<Limits> {
        let dtype = coarser(result, reference);
        let n = accumulations.unwrap_or(1) as f64;
        let epsilon = dtype.float_format().map_or(0.0, |f| 2.0 * f.unit_roundoff());
        if let (Profile::Ck, Some(n)) = (self, accumulations) {
            let accumulator = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
            return Ok(Limits { tolerance: Tolerance::derived(reference, result, accumulator, n), thresholds: None });
        }
        let (rtol, atol) = match self {
            Profile::Ck => CK.of(dtype),
            Profile::Torch => TORCH.of(dtype),
            Profile::Numpy => Some((1e-7, 0.0)),
            Profile::Jax => JAX.of(dtype),
            Profile::RocBlas => ROCBLAS.of(dtype).map(|(_, s)| (0.0, n * s)),
            Profile::RocMlir => {
                let k = accumulations.unwrap_or(0) as f64;
                ROCMLIR.of(dtype).zip(ROCMLIR_PER_TERM.of(dtype)).map(|((rtol, atol), (_, s))| (rtol, atol + k * s))
            }
            Profile::RocMlirLegacy | Profile::Miopen => Some((80.0 * epsilon, 0.0)),
            Profile::Paddle => PADDLE.of(dtype),
            Profile::BenchDnn => Some((n * epsilon, n * epsilon * 1e-5)),
        }
        .ok_or_else(|| self.lacks(dtype))?;
        let thresholds = match self {
            Profile::RocMlirLegacy => Some(Thresholds::rocmlir(dtype)),
            Profile::Miopen => {
                let (_, rms) = MIOPEN_RMS.of(dtype).ok_or_else(|| self.lacks(dtype))?;
                Some(Thresholds::new(rms, f64::INFINITY, f64::INFINITY)?)
            }
            _ => None,
        };
        Ok(Limits { tolerance: Tolerance::new(rtol, atol)?, thresholds })
    }

    fn lacks(self, dtype: DType) -> Error {
        Error::Unsupported { what: format!("dtype {dtype}"), by: format!("profile {}", self.name()) }
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

/// (rtol, atol) by format; formats that no row names have none.
struct Table {
    rows: &'static [(&'static [DType], f64, f64)],
    /// For integers; `None` where the source has no rule for them.
    integers: Option<(f64, f64)>,
}

impl Table {
    fn of(&self, dtype: DType) -> Option<(f64, f64)> {
        if dtype.is_int() {
            return self.integers;
        }
        self.rows.iter().find(|row| row.0.contains(&dtype)).map(|&(_, rtol, atol)| (rtol, atol))
    }
}

const E4M3: &[DType] = &[DType::F8E4M3, DType::F8E4M3Fnuz];
const E5M2: &[DType] = &[DType::F8E5M2, DType::F8E5M2Fnuz];
const FP8: &[DType] = &[DType::F8E4M3, DType::F8E4M3Fnuz, DType::F8E5M2, DType::F8E5M2Fnuz];
const EXACT: Option<(f64, f64)> = Some((0.0, 0.0));

const CK: Table = Table {
    rows: &[
        (&[DType::F32, DType::F64], 1e-5, 3e-6),
        (&[DType::Tf32], 5e-4, 5e-4),
        (&[DType::F16, DType::Bf16], 1e-3, 1e-3),
        (FP8, 1e-3, 1e-3),
        (&[DType::F4E2M1], 0.5, 0.5),
    ],
    integers: EXACT,
};

const TORCH: Table = Table {
    rows: &[
        (&[DType::F64], 1e-7, 1e-7),
        (&[DType::F32], 1.3e-6, 1e-5),
        (&[DType::F16], 1e-3, 1e-5),
        (&[DType::Bf16], 1.6e-2, 1e-5),
        (FP8, 0.0, 0.0),
    ],
    integers: EXACT,
};

const JAX: Table = Table {
    rows: &[
        (&[DType::F64], 1e-15, 1e-15),
        (&[DType::F32], 1e-6, 1e-6),
        (&[DType::F16], 1e-3, 1e-3),
        (&[DType::Bf16], 1e-2, 1e-2),
        (FP8, 0.1, 0.1),
        (&[DType::F4E2M1, DType::F8E8M0], 1.0, 1.0),
    ],
    integers: EXACT,
};

/// The absolute tolerance of one accumulation.
const ROCBLAS: Table = Table {
    rows: &[
        (&[DType::F64], 0.0, f64::EPSILON),
        (&[DType::F32], 0.0, f32::EPSILON as f64),
        (&[DType::F16], 0.0, 1.0 / 900.0),
        (&[DType::Bf16], 0.0, 1.0 / 100.0),
        (E4M3, 0.0, 1.0 / 16.0),
        (E5M2, 0.0, 1.0 / 8.0),
    ],
    integers: EXACT,
};

const ROCMLIR: Table = Table {
    rows: &[
        (&[DType::F64], 1e-7, 1e-7),
        (&[DType::F32], 1.3e-6, 1e-5),
        (&[DType::F16], 1e-3, 1e-5),
        (&[DType::Bf16], 1.6e-2, 1e-5),
        (E4M3, 0.125, 0.1),
        (E5M2, 0.25, 0.1),
        (&[DType::F4E2M1], 0.5, 1.0),
    ],
    integers: EXACT,
};

/// What each accumulation adds to the absolute tolerance, for random data.
const ROCMLIR_PER_TERM: Table = Table {
    rows: &[
        (&[DType::F64], 0.0, 1e-15),
        (&[DType::F32], 0.0, 1e-5),
        (&[DType::F16], 0.0, 1.0 / 900.0),
        (&[DType::Bf16], 0.0, 1.0 / 100.0),
        (E4M3, 0.0, 0.125),
        (E5M2, 0.0, 0.25),
        (&[DType::F4E2M1], 0.0, 0.5),
    ],
    integers: EXACT,
};

/// The largest RMS: 1.5e-6 for f32 and integers, 8.2e-3 for f16, 8 times that for bf16, 37 times for fp8.
const MIOPEN_RMS: Table = Table {
    rows: &[
        (&[DType::F32, DType::F64], 0.0, 1.5e-6),
        (&[DType::F16], 0.0, 8.2e-3),
        (&[DType::Bf16], 0.0, 8.0 * 8.2e-3),
        (FP8, 0.0, 37.0 * 8.2e-3),
    ],
    integers: Some((0.0, 1.5e-6)),
};

const PADDLE: Table = Table {
    rows: &[(&[DType::F64], 1e-5, 0.0), (&[DType::F32], 1e-5, 1e-5), (&[DType::F16], 1e-3, 1e-3), (&[DType::Bf16], 1e-2, 1e-2)],
    integers: Some((1e-5, 1e-5)),
};

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

#[cfg(test)]
mod tests {
    use super::*;
    use DType::*;

    #[test]
    fn the_tables_hold_the_published_numbers() {
        let (e16, e32, e64) = (2f64.powi(-10), 2f64.powi(-23), f64::EPSILON);
        for (profile, result, reference, n, rtol, atol, why) in [
            (Profile::Ck, F32, F32, None, 1e-5, 3e-6, "check_err"),
            (Profile::Ck, I8, I32, None, 0.0, 0.0, "integers are exact"),
            (Profile::Ck, F16, F32, Some(1), e16 / 2.0, e16 / 2.0 * 10.0, "derived: half an ulp of f16, of the largest reference (10)"),
            (Profile::Ck, F32, F32, Some(1 << 20), e32 / 2.0 * 1048576.0, e32 / 2.0 * 10485760.0, "derived: n times f32's"),
            (Profile::Ck, F64, F64, Some(4), e64 * 2.0, e64 * 20.0, "derived: f64 is summed in f64"),
            (Profile::Ck, Tf32, F32, None, 5e-4, 5e-4, ""),
            (Profile::Ck, Bf16, F32, None, 1e-3, 1e-3, ""),
            (Profile::Ck, F8E5M2, F16, None, 1e-3, 1e-3, ""),
            (Profile::Ck, F4E2M1, F32, None, 0.5, 0.5, ""),
            (Profile::Torch, F32, F32, None, 1.3e-6, 1e-5, "assert_close"),
            (Profile::Torch, F64, F64, None, 1e-7, 1e-7, ""),
            (Profile::Torch, F32, F64, None, 1.3e-6, 1e-5, "the coarser side decides"),
            (Profile::Torch, F16, Tf32, None, 1e-3, 1e-5, "of equally fine formats the result's decides"),
            (Profile::Torch, I8, I32, Some(7), 0.0, 0.0, "integers are exact"),
            (Profile::Torch, I32, F16, None, 1e-3, 1e-5, "the float of a mixed pair decides"),
            (Profile::Torch, F32, Bf16, None, 1.6e-2, 1e-5, "the coarser side decides"),
            (Profile::Torch, F16, I32, None, 1e-3, 1e-5, "the float of a mixed pair decides"),
            (Profile::Torch, F8E4M3, F8E4M3, None, 0.0, 0.0, "fp8 has no row there: exact"),
            (Profile::Numpy, F16, F16, None, 1e-7, 0.0, "the same for all"),
            (Profile::Jax, F8E5M2, F32, None, 0.1, 0.1, "one number for both"),
            (Profile::Jax, F64, F64, None, 1e-15, 1e-15, ""),
            (Profile::RocBlas, F16, F16, Some(90), 0.0, 0.1, "K/900"),
            (Profile::Jax, F32, F32, None, 1e-6, 1e-6, ""),
            (Profile::Jax, F16, F32, None, 1e-3, 1e-3, ""),
            (Profile::Jax, Bf16, F32, None, 1e-2, 1e-2, ""),
            (Profile::Jax, F4E2M1, F32, None, 1.0, 1.0, ""),
            (Profile::RocBlas, F32, F32, None, 0.0, e32, "K = 1"),
            (Profile::RocBlas, F64, F64, Some(3), 0.0, 3.0 * e64, "K epsilons"),
            (Profile::RocBlas, Bf16, Bf16, Some(7), 0.0, 0.07, "K/100"),
            (Profile::RocBlas, F8E4M3Fnuz, F32, Some(4), 0.0, 0.25, "K/16"),
            (Profile::RocBlas, F8E5M2, F32, Some(4), 0.0, 0.5, "K/8"),
            (Profile::RocMlir, F64, F64, Some(100), 1e-7, 1e-7 + 1e-13, "plus K 1e-15"),
            (Profile::RocMlir, F32, F32, Some(100), 1.3e-6, 1e-5 + 1e-3, "plus K 1e-5"),
            (Profile::RocMlir, F16, F32, Some(90), 1e-3, 1e-5 + 0.1, "plus K/900"),
            (Profile::RocMlir, F8E4M3, F32, Some(4), 0.125, 0.1 + 0.5, "plus K/8"),
            (Profile::RocMlir, F8E5M2Fnuz, F32, Some(4), 0.25, 0.1 + 1.0, "plus K/4"),
            (Profile::RocMlir, F4E2M1, F32, Some(4), 0.5, 1.0 + 2.0, "plus K/2"),
            (Profile::RocMlirLegacy, F32, F32, Some(9), 80.0 * e32, 0.0, "80 epsilons, whatever K is"),
            (Profile::Miopen, F16, F32, None, 80.0 * e16, 0.0, "80 epsilons of the coarser side"),
            (Profile::Paddle, F64, F64, None, 1e-5, 0.0, ""),
            (Profile::Paddle, F32, F32, None, 1e-5, 1e-5, ""),
            (Profile::Paddle, F16, F32, None, 1e-3, 1e-3, ""),
            (Profile::Paddle, I32, I32, None, 1e-5, 1e-5, "integers as f32"),
            (Profile::BenchDnn, F16, F32, None, e16, e16 * 1e-5, "one epsilon"),
            (Profile::RocMlir, F32, F32, None, 1.3e-6, 1e-5, "the baseline"),
            (Profile::RocMlir, Bf16, F32, Some(100), 1.6e-2, 1e-5 + 1.0, "plus K/100"),
            (Profile::Paddle, Bf16, Bf16, None, 1e-2, 1e-2, ""),
            (Profile::BenchDnn, F32, F32, Some(4), 4.0 * e32, 4.0 * e32 * 1e-5, "n epsilons"),
            (Profile::BenchDnn, I32, I32, Some(4), 0.0, 0.0, "integers are exact"),
        ] {
            let t = profile.limits(result, reference, n).unwrap().tolerance;
            let found = (t.rtol(), t.atol(10.0));
            assert!(
                (found.0 - rtol).abs() <= 1e-15 * rtol && (found.1 - atol).abs() <= 1e-15 * atol,
                "{profile} {result} {reference} {n:?}: {found:?} {why}"
            );
        }
    }

    #[test]
    fn profiles_that_judge_by_metrics_have_thresholds() {
        for (profile, dtype, rms, relative) in [
            (Profile::Miopen, F32, 1.5e-6, f64::INFINITY),
            (Profile::Miopen, F16, 8.2e-3, f64::INFINITY),
            (Profile::Miopen, Bf16, 6.56e-2, f64::INFINITY),
            (Profile::Miopen, F8E4M3, 0.3034, f64::INFINITY),
            (Profile::Miopen, I32, 1.5e-6, f64::INFINITY),
            (Profile::RocMlirLegacy, I32, 3e-5, 1e-6),
            (Profile::RocMlirLegacy, F32, 3e-5, 1e-6),
            (Profile::RocMlirLegacy, F16, 3e-5, 100.0),
        ] {
            let t = profile.limits(dtype, dtype, None).unwrap().thresholds.unwrap();
            assert!((t.rms - rms).abs() <= 1e-15 && t.relative == relative, "{profile} {dtype}: {t:?}");
        }
        assert_eq!(Profile::Torch.limits(F32, F32, None).unwrap().thresholds, None);
    }

    #[test]
    fn formats_that_a_source_does_not_know_are_errors() {
        let e = Profile::Torch.limits(F6E2M3, F6E2M3, None).unwrap_err().to_string();
        assert_eq!(e, "dtype f6e2m3 is not supported by profile torch");
        assert!(Profile::Miopen.limits(F4E2M1, F4E2M1, None).is_err());
        assert!("pytorch".parse::<Profile>().unwrap_err().to_string().contains("known: ck torch numpy"));
        for p in Profile::ALL {
            assert_eq!((p.name().parse::<Profile>().unwrap(), p.to_string()), (p, p.name().to_owned()));
            assert!(p.limits(F16, F32, Some(64)).is_ok() && p.limits(I32, I32, None).is_ok(), "{p}");
        }
    }
}
