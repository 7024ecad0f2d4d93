//! The instructions of matrix cores, and the GEMM made of them, give the bits of their models. The stand-in's instructions are computed by
//! `matrix_core`: there this tests which register of which lane the kernels load, store and hand over.

use crate::suite::tests;
use crate::target::Target;
use crate::tensors::encode;
use anyhow::{Context, Result, ensure};
use hipverify::DeviceMem;
use hipverify::dtype::{Bf16, F16, Scalar};
use hipverify::matrix_core::{Arch, Mfma};
use hipverify::reference::{mfma_gemm, mfma_gemm_instruction, model_gemm};
use hipverify::suite::MfmaProbe;

tests! {
    MatrixCores: every_instruction_gives_its_models_bits, gemm_gives_the_models_bits;
    NoMatrixCores: devices_without_matrix_cores_say_what_would_fit;
}

fn every_instruction_gives_its_models_bits(target: &Target) -> Result<()> {
    let arch = target.matrix_cores().context("matrix cores")?;
    for mfma in Mfma::all(arch) {
        let probe = MfmaProbe::new(mfma)?;
        let model = probe.models()?.swap_remove(0);
        let found = probe.measure(&target.device).with_context(|| mfma.to_string())?;
        let differences = probe.differences(&found, &model);
        ensure!(differences == 0, "{mfma}: {differences} elements differ from {}", model.name);
    }
    Ok(())
}

/// Numbers around one, without zeros among their sums.
fn numbers<T: Scalar>(count: usize) -> Vec<T> {
    (0..count).map(|i| T::from_bits64(encode(T::DTYPE, (i * 37 % 101) as f64 / 64.0 - 0.7))).collect()
}

fn check<T: Scalar>(target: &Target, arch: Arch) -> Result<()> {
    let device = &target.device;
    // Tiles are 32 x 32, steps of k 4 or 8.
    for (m, n, k) in [(32, 32, 8), (33, 70, 24), (5, 3, 64), (31, 65, 5)] {
        let a = DeviceMem::from_slice(device, &numbers::<T>(m * k))?;
        let b = DeviceMem::from_slice(device, &numbers::<T>(k * n))?;
        let start: Vec<f32> = (0..m * n).map(|i| i as f32 / 7.0).collect();
        let (mut found, mut expected) = (DeviceMem::from_slice(device, &start)?, DeviceMem::from_slice(device, &start)?);
        mfma_gemm((m, n, k), &a, &b, &mut found)?;
        let model = mfma_gemm_instruction(arch, T::DTYPE)?.model().context("a model")?;
        model_gemm(model, (m, n, k), &a, &b, &mut expected)?;
        let (found, expected) = (found.to_vec()?, expected.to_vec()?);
        if let Some(i) = (0..m * n).find(|&i| found[i] != expected[i]) {
            anyhow::bail!("{model}, {m}x{n}x{k}: element [{}, {}] is {}, the model gives {}", i / n, i % n, found[i], expected[i]);
        }
    }
    Ok(())
}

fn gemm_gives_the_models_bits(target: &Target) -> Result<()> {
    let arch = target.matrix_cores().context("matrix cores")?;
    check::<F16>(target, arch)?;
    check::<Bf16>(target, arch)
}

fn devices_without_matrix_cores_say_what_would_fit(target: &Target) -> Result<()> {
    let a = DeviceMem::from_slice(&target.device, &[F16::ONE; 64])?;
    let mut c = DeviceMem::from_slice(&target.device, &[0.0f32; 64])?;
    let error = mfma_gemm((8, 8, 8), &a, &a, &mut c).map_err(|e| e.to_string()).err().unwrap_or_default();
    ensure!(error.contains("gfx908, gfx90a, gfx942") && error.contains("model_gemm"), "{error}");
    Ok(())
}
