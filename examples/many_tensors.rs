//! Many tensors in one call: everything is enqueued, then waited for once.
//!
//! `cargo run --release --example many_tensors`

use anyhow::Result;
use hipverify::device::AsTensor;
use hipverify::dtype::F16;
use hipverify::fill::FillUniformRand;
use hipverify::verify::{Options, Tolerance, gpu_verify_many};
use hipverify::{Device, DeviceMem};

fn main() -> Result<()> {
    let device = Device::best()?;
    println!("{device}");
    // Layers of different sizes; the third one went wrong in the result.
    let sizes = [4096, 11_008, 65_536, 1 << 20];
    let layer = |i: usize, broken: bool| -> Result<DeviceMem<F16>> {
        let mut x = DeviceMem::new(&device, sizes[i])?;
        x.fill(&FillUniformRand::new(-1.0, 1.0).seed(7).stream(i as u32 + u32::from(broken && i == 2) * 100))?;
        Ok(x)
    };
    let results: Vec<_> = (0..sizes.len()).map(|i| layer(i, true)).collect::<Result<_>>()?;
    let references: Vec<_> = (0..sizes.len()).map(|i| layer(i, false)).collect::<Result<_>>()?;
    let tolerance = Tolerance::gemm::<F16, F16, f32>(1);
    let pairs: Vec<_> = results.iter().zip(&references).map(|(a, r)| (a.as_tensor(), r.as_tensor(), tolerance)).collect();
    for (i, report) in gpu_verify_many(&pairs, &Options::default())?.iter().enumerate() {
        let verdict = if report.passed() { "PASS" } else { "FAIL" };
        println!("layer {i}  {verdict}  {} of {} elements differ", report.mismatches, report.elements);
    }
    Ok(())
}
