//! The rule of each profile: a name, a source, and a function that makes limits and says how.

use super::tables::{CK, JAX, KERNELBENCH, MIOPEN_RMS, ROCBLAS, ROCMLIR, ROCMLIR_PER_TERM, TORCH, Table};
use super::{Computation, Limits, Profile, paddle};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::verify::render::short;
use crate::verify::{AllowedMismatches, Judge, NonFinite, Scale, Thresholds, Tolerance};

/// A profile's rule.
pub(super) struct Entry {
    pub name: &'static str,
    pub source: &'static str,
    pub rule: fn(&Question<'_>) -> Result<Limits>,
}

/// What a profile is asked.
pub(super) struct Question<'a> {
    pub profile: Profile,
    /// The format that decides.
    pub dtype: DType,
    pub result: DType,
    pub reference: DType,
    pub computation: &'a Computation,
}

/// In the order of [`Profile`].
pub(super) const ENTRIES: [Entry; Profile::ALL.len()] = [
    Entry { name: "ck", source: "Composable Kernel, check_err.hpp and gpu_verification.hpp (2024)", rule: ck },
    Entry { name: "ck-2026", source: "Composable Kernel, check_err.hpp (498ed36, 2026)", rule: ck_2026 },
    Entry { name: "torch", source: "PyTorch, torch/testing/_comparison.py", rule: |q| q.table(&TORCH) },
    Entry { name: "numpy", source: "NumPy 2.4, numpy.testing.assert_allclose", rule: numpy },
    Entry { name: "jax", source: "JAX 0.10, jax/_src/public_test_util.py", rule: |q| q.table(&JAX) },
    Entry { name: "rocblas", source: "rocBLAS b520bc8, near.hpp", rule: rocblas },
    Entry { name: "hipdnn", source: "hipDNN, DynamicTolerances (rocm-libraries 4069, 013469f)", rule: hipdnn },
    Entry { name: "rocmlir", source: "rocMLIR, allclose comparator", rule: rocmlir },
    Entry { name: "rocmlir-legacy", source: "rocMLIR, conv-validation-wrappers.cpp (2022)", rule: rocmlir_legacy },
    Entry { name: "miopen", source: "MIOpen 2d1fd99, MIOpenDriver", rule: miopen },
    Entry { name: "paddle", source: "Paddle, test/legacy_test/op_test.py and its rules for low-precision tests", rule: paddle::limits },
    Entry { name: "benchdnn", source: "oneDNN 515bfba, tests/benchdnn", rule: benchdnn },
    Entry { name: "flash-attention", source: "FlashAttention, tests/test_flash_attn.py", rule: flash_attention },
    Entry { name: "triton", source: "triton_kernels, testing.py", rule: triton },
    Entry { name: "deepgemm", source: "DeepGEMM, calc_diff", rule: deepgemm },
    Entry { name: "llama-cpp", source: "llama.cpp, tests/test-backend-ops.cpp", rule: llama_cpp },
    Entry { name: "inductor", source: "PyTorch, torch/_dynamo/utils.py, same", rule: inductor },
    Entry { name: "kernelbench", source: "KernelBench 423217d, src/kernelbench/eval.py", rule: kernelbench },
    Entry { name: "geak", source: "GEAK-eval, branch GEAK-v2, TB_eval/correctness.py", rule: |q| q.given(1e-1, 1e-3, "for every format") },
    Entry { name: "aiter", source: "AITER e404860, checkAllclose", rule: aiter },
    Entry { name: "flashinfer", source: "FlashInfer-Bench 40e6ca78", rule: flashinfer },
];

impl Question<'_> {
    /// Terms of a sum; 1 where that is not known.
    fn terms(&self) -> usize {
        self.computation.accumulations.unwrap_or(1)
    }

    /// 2^-m, the spacing at 1 of the format that decides; 0 for integers.
    fn epsilon(&self) -> f64 {
        2.0 * self.dtype.unit_roundoff()
    }

    /// The accumulator's format.
    fn accumulator(&self) -> DType {
        if self.dtype == DType::F64 { DType::F64 } else { DType::F32 }
    }

    pub(super) fn lacks(&self) -> Error {
        Error::Unsupported { what: format!("dtype {}", self.dtype), by: format!("profile {}", self.profile.name()) }
    }

    pub(super) fn given(&self, rtol: f64, atol: f64, derivation: &str) -> Result<Limits> {
        Ok(Limits::elements(Tolerance::new(rtol, atol)?, derivation))
    }

    fn row(&self, table: &Table) -> Result<(f64, f64)> {
        table.of(self.dtype).ok_or_else(|| self.lacks())
    }

    fn table(&self, table: &Table) -> Result<Limits> {
        let (rtol, atol) = self.row(table)?;
        self.given(rtol, atol, &format!("the row of {}", self.dtype))
    }

    /// A relative L2 norm; elements are counted at one epsilon and decide nothing.
    fn relative_l2(&self, threshold: f64, derivation: String) -> Result<Limits> {
        let limits = Limits::elements(Tolerance::new(self.epsilon(), 0.0)?, derivation);
        Ok(limits.with_thresholds(Thresholds { relative_l2: threshold, ..Thresholds::OFF }, Judge::Thresholds))
    }
}

fn numpy(q: &Question<'_>) -> Result<Limits> {
    let limits = q.given(1e-7, 0.0, "for every format; NaN equals NaN, and an infinity itself")?;
    Ok(Limits { nonfinite: NonFinite::EqualWhenSame, ..limits })
}

fn ck(q: &Question<'_>) -> Result<Limits> {
    let Some(n) = q.computation.accumulations else { return q.table(&CK) };
    if [q.reference, q.result].into_iter().any(|d| d.bits() <= 8 && d.float_format().is_some()) {
        return q.given(0.1, 0.0, "`gpu_verify` derives tolerances for f32, f16 and bf16 alone; what it takes for fp8");
    }
    let text = format!("rtol = max(u({}), u({}), N u({})), N = {n}; atol = rtol max|r|", q.reference, q.result, q.accumulator());
    Ok(Limits::elements(Tolerance::derived(q.reference, q.result, q.accumulator(), n), text))
}

fn ck_2026(q: &Question<'_>) -> Result<Limits> {
    let tolerance = Tolerance::derived(q.reference, q.result, q.accumulator(), q.terms());
    // A conversion in hardware and one in software may differ by an ulp.
    let ulp = 2.0 * q.result.unit_roundoff();
    let rtol = tolerance.rtol();
    let atol = if rtol == 0.0 { 0.0 } else { rtol.max(ulp) };
    let text = format!(
        "rtol = max(u({0}), u({1}), N u({2})), N = {3}; atol = max(u({0}), 2 u({1}), N u({2})) 2^floor(log2 max|r|)",
        q.reference,
        q.result,
        q.accumulator(),
        q.terms()
    );
    Ok(Limits::elements(Tolerance::scaled(rtol, atol, Scale::LargestBinade)?, text))
}

fn rocblas(q: &Question<'_>) -> Result<Limits> {
    let (_, s) = q.row(&ROCBLAS)?;
    q.given(0.0, q.terms() as f64 * s, &format!("atol = K s({}), K = {}, s = {}", q.dtype, q.terms(), short(s, 4)))
}

fn hipdnn(q: &Question<'_>) -> Result<Limits> {
    let Some(format) = q.result.float_format() else { return q.given(0.0, 0.0, "integers are exact") };
    let n = q.terms() as f64;
    let [least, most] = q.computation.range.unwrap_or([-1.0, 1.0]);
    let largest = least.abs().max(most.abs());
    let u = 2.0 * q.accumulator().unit_roundoff();
    let k = 2.0 * n * u;
    let gamma = if k < 0.01 { k / (1.0 - k) } else { 6.0 * (2.0 * n).sqrt() * u };
    let epsilon = 2.0 * format.unit_roundoff();
    let text = format!(
        "atol = n max|x| max|w| (gamma + eps), n = {n}, gamma = {}, eps({}) = {}, max|x| = max|w| = {largest}",
        short(gamma, 4),
        q.result,
        short(epsilon, 4)
    );
    q.given(0.0, n * largest * largest * (gamma + epsilon), &text)
}

fn rocmlir(q: &Question<'_>) -> Result<Limits> {
    let (rtol, atol) = q.row(&ROCMLIR)?;
    let (_, s) = q.row(&ROCMLIR_PER_TERM)?;
    let k = q.computation.accumulations.unwrap_or(0);
    let text = format!("atol = {atol:e} + K s({}), K = {k}, s = {}", q.dtype, short(s, 4));
    q.given(rtol, atol + k as f64 * s, &text)
}

fn rocmlir_legacy(q: &Question<'_>) -> Result<Limits> {
    let limits = q.given(80.0 * q.epsilon(), 0.0, "thresholds of 2022; elements are counted at 80 epsilons and decide nothing")?;
    Ok(limits.with_thresholds(Thresholds::rocmlir(q.dtype), Judge::Thresholds))
}

fn miopen(q: &Question<'_>) -> Result<Limits> {
    let (_, rms) = q.row(&MIOPEN_RMS)?;
    let limits = q.given(80.0 * q.epsilon(), 0.0, "RMS by format; elements are counted at 80 epsilons and decide nothing")?;
    Ok(limits.with_thresholds(Thresholds { rms, ..Thresholds::OFF }, Judge::Thresholds))
}

fn benchdnn(q: &Question<'_>) -> Result<Limits> {
    let rtol = q.terms() as f64 * q.epsilon();
    q.given(rtol, rtol * 1e-5, &format!("rtol = n eps({}), n = {}; atol = 1e-5 rtol", q.dtype, q.terms()))
}

fn flash_attention(q: &Question<'_>) -> Result<Limits> {
    let baseline = q.computation.baseline_error.ok_or_else(|| Error::InvalidArgument {
        what: "baseline error",
        value: "none".to_owned(),
        limit: "profile flash-attention needs the largest error of a baseline in the same format (`--baseline FILE`, `Computation::baseline_error`)".to_owned(),
    })?;
    // Adding 0.3 and taking it away again loses up to half the spacing of [1/4, 1/2) next to 0, more for larger numbers.
    let rounding = q.epsilon() / 8.0;
    let absolute = 2.0 * baseline + 2.0 * rounding;
    let text = format!("max|a - r| <= 2 E + 2 max|(r + 0.3 - 0.3) - r|, E = {}, the latter {}", short(baseline, 4), short(rounding, 4));
    let thresholds = Thresholds { absolute, ..Thresholds::OFF };
    Ok(Limits::elements(Tolerance::new(0.0, absolute)?, text).with_thresholds(thresholds, Judge::Thresholds))
}

fn triton(q: &Question<'_>) -> Result<Limits> {
    if q.dtype.is_int() {
        return Err(q.lacks());
    }
    // max(x, y) >= (x + y) / 2, and a root mean square over max(rms, |r|) is at most one over rms.
    let text = "max |a-r| / max(rms r, |r|) <= 2e-2 and its root mean square <= 4e-3: rtol = 1e-2, atol = 1e-2 rms r, relative L2 <= 4e-3";
    let thresholds = Thresholds { relative_l2: 4e-3, ..Thresholds::OFF };
    Ok(Limits::elements(Tolerance::scaled(1e-2, 1e-2, Scale::Rms)?, text).with_thresholds(thresholds, Judge::Both))
}

fn deepgemm(q: &Question<'_>) -> Result<Limits> {
    // |a-r|² / (|a|²+|r|²) <= t for every |a| >= (1-x) |r|, x the relative L2 norm: x² (1-t) + 2tx - 2t <= 0.
    let t: f64 = 1e-3;
    let x = ((t * t + 2.0 * t * (1.0 - t)).sqrt() - t) / (1.0 - t);
    q.relative_l2(x, format!("1 - 2<a,r> / (|a|²+|r|²) <= 1e-3 holds for every a with relative L2 <= {}", short(x, 4)))
}

fn llama_cpp(q: &Question<'_>) -> Result<Limits> {
    let (nmse, what) = if q.computation.accumulations.is_some() { (5e-4, "products of matrices") } else { (1e-7, "other operations") };
    q.relative_l2(f64::sqrt(nmse), format!("NMSE = Σ(a-r)² / Σr² <= {nmse:e} for {what}; relative L2 is its root"))
}

fn inductor(q: &Question<'_>) -> Result<Limits> {
    // The angle between a and r is at most asin(relative L2).
    let cosine: f64 = 0.99;
    let x = (1.0 - cosine * cosine).sqrt();
    q.relative_l2(x, format!("cosine similarity >= 0.99 holds for every a with relative L2 <= sqrt(1 - 0.99²) = {}", short(x, 4)))
}

fn kernelbench(q: &Question<'_>) -> Result<Limits> {
    // d <= atol + rtol |a| follows from d (1 + rtol) <= atol + rtol |r|, since |a| >= |r| - d.
    let (rtol, atol) = q.row(&KERNELBENCH)?;
    let text = format!("|a-r| <= {atol:e} + {rtol:e} |a| holds where |a-r| <= ({atol:e} + {rtol:e} |r|) / (1 + {rtol:e})");
    q.given(rtol / (1.0 + rtol), atol / (1.0 + rtol), &text)
}

fn aiter(q: &Question<'_>) -> Result<Limits> {
    let limits = q.given(1e-2, 1e-2, "5 % of the elements may be beyond 1e-2 + 1e-2 |r|")?;
    Ok(Limits { allowed: AllowedMismatches::new(0.05, 0)?, ..limits })
}

fn flashinfer(q: &Question<'_>) -> Result<Limits> {
    // max(x, y) >= (x + y) / 2.
    let limits = q.given(5e-3, 5e-3, "an element fails beyond 1e-2 and 1e-2 |r|; below 16 bits 5 % of them may")?;
    let share = if q.dtype.bits() < 16 { 0.05 } else { 0.0 };
    Ok(Limits { allowed: AllowedMismatches::new(share, 0)?, ..limits })
}
