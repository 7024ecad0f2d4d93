//! The map from registers to rows of a matrix, transposed in the GEMM on matrix cores.

use crate::suite::tests;
use crate::target::Target;
use crate::tensors::{Lcg, encode};
use anyhow::{Context, Result, ensure};
use hipverify::device::{AsTensor, Grid, Module, Stream};
use hipverify::dtype::{DType, F16, Scalar};
use hipverify::reference::mfma_gemm;
use hipverify::{Device, DeviceMem};
use hipverify_sys::{abi::MfmaGemm, kernels};

tests! {
    StandInMatrixCores: a_transposed_map_gives_another_product;
}

const ROWS: [&str; 2] = ["r / 4 * 8 + lane / 32 * 4 + r % 4", "r % 4 * 8 + lane / 32 * 4 + r / 4"];
/// The name tells its launches from those of the right one.
const KERNEL: [&str; 2] = ["mfma_gemm_f16(MfmaGemm p)", "net_mfma_gemm_f16(MfmaGemm p)"];
/// Edges of the matrices: one tile.
const EDGE: usize = 32;

fn a_transposed_map_gives_another_product(Target { device, .. }: &Target) -> Result<()> {
    let text = kernels::source("mfma.hip").context("mfma.hip")?.text;
    ensure!(
        [ROWS[0], KERNEL[0]].iter().all(|from| text.matches(from).count() == 1),
        "the text to be replaced is not there, or more than once"
    );
    let named = text.replace(KERNEL[0], KERNEL[1]);
    let mut rng = Lcg::new(1);
    let [a, b] = [0; 2].map(|_| (0..EDGE * EDGE).map(|_| F16::from_bits64(encode(DType::F16, rng.unit()))).collect::<Vec<_>>());
    let (a, b) = (DeviceMem::from_slice(device, &a)?, DeviceMem::from_slice(device, &b)?);
    let mut expected = DeviceMem::from_slice(device, &[0.0f32; EDGE * EDGE])?;
    mfma_gemm((EDGE, EDGE, EDGE), &a, &b, &mut expected)?;
    let expected = expected.to_vec()?;
    ensure!(product(device, &named, [&a, &b])? == expected, "the right kernel gives another product");
    ensure!(product(device, &named.replace(ROWS[0], ROWS[1]), [&a, &b])? != expected, "the broken kernel gives the same product");
    Ok(())
}

/// A times B by the kernel of this text.
fn product(device: &Device, text: &str, [a, b]: [&DeviceMem<F16>; 2]) -> Result<Vec<f32>> {
    let (module, stream) = (Module::compile(device, "mfma.hip", text)?, Stream::new(device)?);
    let mut c = DeviceMem::from_slice(device, &[0.0f32; EDGE * EDGE])?;
    let edge = EDGE as u32;
    let [a, b] = [a, b].map(|x| x.as_tensor().as_ptr().cast());
    let mut argument = MfmaGemm { a, b, c: c.tensor_mut(&[EDGE, EDGE])?.as_mut_ptr().cast(), m: edge, n: edge, k: edge, tiles_n: 1 };
    let grid = Grid { blocks: [1; 3], threads: [64, 1, 1], shared_bytes: 0 };
    // SAFETY: the kernel takes this struct; the matrices have 32 rows and columns and live until the copy below, which comes after the launch.
    unsafe { module.launch_raw(&stream, "net_mfma_gemm_f16", grid, &mut [(&raw mut argument).cast()])? };
    Ok(c.to_vec()?)
}
