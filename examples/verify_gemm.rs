//! The whole of a kernel test: fill, run the kernel under test, run a reference, verify, all on the best device there is.
//!
//! `cargo run --release --example verify_gemm [broken]`
//!
//! The kernel under test is a GEMM with the arithmetic of MI200's matrix cores, the reference one with MI100's, which rounds
//! once for four products. With `broken`, the kernel "forgets" the last row of tiles.

use anyhow::Result;
use hipverify::device::Layout;
use hipverify::dtype::F16;
use hipverify::fill::FillUniformRand;
use hipverify::matrix_core::{Arch, Input, Model};
use hipverify::reference::model_gemm;
use hipverify::verify::{Tolerance, gpu_verify};
use hipverify::{Device, DeviceMem};

const M: usize = 256;
const N: usize = 256;
const K: usize = 512;

fn main() -> Result<()> {
    let broken = std::env::args().any(|a| a == "broken");
    let device = Device::best()?;
    let uniform = FillUniformRand::new(-1.0, 1.0).seed(1);
    let mut a = DeviceMem::<F16>::new(&device, M * K)?;
    let mut b = DeviceMem::<F16>::new(&device, K * N)?;
    // Operands of different streams: equal operands hide transposed indices.
    a.fill(&uniform.clone().stream(0))?;
    b.fill(&uniform.stream(1))?;

    let mut result = DeviceMem::<f32>::new(&device, M * N)?;
    let rows = if broken { M - 32 } else { M };
    if broken {
        let mut part_a = DeviceMem::<F16>::new(&device, rows * K)?;
        part_a.copy_from_slice(&a.to_vec()?[..rows * K])?;
        let mut part = DeviceMem::<f32>::new(&device, rows * N)?;
        part.set_zero()?;
        model_gemm(Model::new(Arch::Gfx90a, Input::F16)?, (rows, N, K), &part_a, &b, &mut part)?;
        let mut whole = part.to_vec()?;
        whole.resize(M * N, 0.0);
        result.copy_from_slice(&whole)?;
    } else {
        result.set_zero()?;
        model_gemm(Model::new(Arch::Gfx90a, Input::F16)?, (M, N, K), &a, &b, &mut result)?;
    }

    let mut reference = DeviceMem::<f32>::new(&device, M * N)?;
    reference.set_zero()?;
    model_gemm(Model::new(Arch::Gfx908, Input::F16)?, (M, N, K), &a, &b, &mut reference)?;

    let shape = Layout::contiguous(&[M, N])?;
    let report = gpu_verify(&result.strided(shape.clone())?, &reference.strided(shape)?, &Tolerance::gemm::<F16, f32, f32>(K))?;
    // A mismatch ends `main`, which prints the same screen.
    println!("{}", report.into_result()?);
    Ok(())
}
