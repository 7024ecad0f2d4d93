//! Asks the matrix cores of this machine how they add, and says which model they match.
//!
//! ```sh
//! cargo run --release --example probe_mfma
//! ```
//!
//! Then it runs a whole GEMM on them and holds it against the model's. On an NVIDIA GPU it runs random tiles of many kinds through
//! every `mma.sync` instruction. Without a GPU of a known architecture it shows what the models answer.

use hipverify::device::{Device, DeviceKind, DeviceMem};
use hipverify::dtype::{Bf16, F16, Scalar};
use hipverify::fill::FillUniformRand;
use hipverify::matrix_core::{Arch, InstructionKind, Mfma, Mma};
use hipverify::reference::{mfma_gemm, mfma_gemm_instruction, model_gemm};
use hipverify::suite::{MfmaProbe, MmaProbe, ProbeAnswer};

fn main() -> anyhow::Result<()> {
    let mut asked = false;
    for device in Device::all().into_iter().filter(|d| d.kind() != DeviceKind::Host) {
        let Some(arch) = device.arch().and_then(|a| a.parse::<Arch>().ok()) else {
            println!("{}: no model of its matrix cores here", device.name());
            continue;
        };
        asked = true;
        println!("{}  {}", device.name(), arch.product());
        if device.kind() == DeviceKind::Nvidia {
            tiles(&device, arch)?;
            continue;
        }
        for mfma in Mfma::all(arch) {
            ask(&device, mfma)?;
        }
        gemm::<F16>(&device, arch)?;
        gemm::<Bf16>(&device, arch)?;
    }
    if !asked {
        println!("No GPU with known matrix cores here: {}.", Device::best()?.why());
        println!("What the models answer:");
        show(Mfma::f32_32x32x8f16(Arch::Gfx90a))?;
        show(Mfma::f32_32x32x8bf16_1k(Arch::Gfx90a))?;
        show(Mfma::f32_32x32x16_bf8_bf8(Arch::Gfx942))?;
    }
    Ok(())
}

/// A GEMM by chains of one instruction, on the hardware and through its model.
fn gemm<T: Scalar>(device: &Device, arch: Arch) -> anyhow::Result<()> {
    let (m, n, k) = (500, 300, 2000);
    let mfma = mfma_gemm_instruction(arch, T::DTYPE)?;
    let Some(model) = mfma.model() else { return Ok(()) };
    let mut a = DeviceMem::<T>::new(device, m * k)?;
    let mut b = DeviceMem::<T>::new(device, k * n)?;
    a.fill(&FillUniformRand::new(-1.0, 1.0).seed(1))?;
    b.fill(&FillUniformRand::new(-1.0, 1.0).seed(2))?;
    let zeros = vec![0.0f32; m * n];
    let (mut found, mut expected) = (DeviceMem::from_slice(device, &zeros)?, DeviceMem::from_slice(device, &zeros)?);
    mfma_gemm((m, n, k), &a, &b, &mut found)?;
    model_gemm(model, (m, n, k), &a, &b, &mut expected)?;
    // As numbers: where a chain is cut may decide on the sign of a zero.
    let (found, expected) = (found.to_vec()?, expected.to_vec()?);
    let differ = found.iter().zip(&expected).filter(|(x, y)| x != y).count();
    println!("  GEMM {m} x {n} x {k} by {mfma}: {differ} of {} elements differ from the model {model}", m * n);
    Ok(())
}

/// Every instruction of tensor cores on the hardware, on tiles of many kinds.
fn tiles(device: &Device, arch: Arch) -> anyhow::Result<()> {
    for mma in Mma::all(arch) {
        let probe = MmaProbe::new(mma, 2, 64);
        println!("  {}", probe.differences(&probe.measure(device)?)?);
    }
    Ok(())
}

/// One instruction on the hardware.
fn ask(device: &Device, mfma: Mfma) -> anyhow::Result<()> {
    let probe = MfmaProbe::new(mfma)?;
    let found = probe.measure(device)?;
    let models = probe.models()?;
    let matches: Vec<&str> = models.iter().filter(|m| probe.differences(m, &found) == 0).map(|m| m.name.as_str()).collect();
    let flushed = |x: usize| if probe.value(&found, x) == 0.0 { "flushed" } else { "kept" };
    let subnormals = probe.cases().iter().enumerate().filter(|c| c.1.flush);
    let subnormals = subnormals.map(|(x, case)| format!("{}: {}", case.why, flushed(x))).collect::<Vec<_>>().join("; ");
    if matches.is_empty() {
        println!("  {mfma}: NO MODEL MATCHES; the nearest differs in {} elements", nearest(&probe, &models, &found));
        for (x, case) in probe.cases().iter().enumerate() {
            println!("    {:<60} {:e}", case.why, probe.value(&found, x));
        }
    } else {
        println!("  {mfma}: {}", matches.join(" = "));
    }
    if matches!(mfma.arithmetic(), InstructionKind::F32(_) | InstructionKind::F64) {
        println!("    {subnormals}");
    }
    Ok(())
}

fn nearest(probe: &MfmaProbe, models: &[ProbeAnswer], found: &ProbeAnswer) -> String {
    let best = models.iter().min_by_key(|m| probe.differences(m, found));
    best.map_or_else(|| "all".to_owned(), |m| format!("{} ({})", probe.differences(m, found), m.name))
}

/// The answers of the models, side by side.
fn show(mfma: Mfma) -> anyhow::Result<()> {
    let probe = MfmaProbe::new(mfma)?;
    let models = probe.models()?;
    println!("\n{mfma}");
    for (x, model) in models.iter().enumerate() {
        println!("  [{x}] {}", model.name);
    }
    print!("  {:<60}", "");
    (0..models.len()).for_each(|x| print!(" {:>12}", format!("[{x}]")));
    println!();
    for (x, case) in probe.cases().iter().enumerate() {
        print!("  {:<60}", case.why);
        models.iter().for_each(|m| print!(" {:>12}", short(probe.value(m, x))));
        println!();
    }
    Ok(())
}

/// The shortest digits that name the f32.
fn short(x: f64) -> String {
    let x = x as f32;
    if x == 0.0 || !x.is_finite() || (0.01..1e8).contains(&x.abs()) { format!("{x}") } else { format!("{x:.4e}") }
}
