//! Verdicts without a reference are the host's on every device: random vectors over products, batches and convolutions in any layout, and what a failure is said to come from.

use crate::suite::tests;
use crate::target::Target;
use crate::tensors::Owned;
use anyhow::{Result, ensure};
use hipverify::check::Check;
use hipverify::device::{Device, Layout};
use hipverify::dtype::DType;
use hipverify::matrix_core::Arch;
use hipverify::reference::{Accumulate, Conv, ConvParam, Direction, Gemm};

tests! {
    Gpus: random_vectors_over_products, random_vectors_over_convolutions, causes_of_failures;
}

/// Text of a report without the line of the device.
fn text(report: &impl std::fmt::Display) -> String {
    report.to_string().lines().filter(|line| !line.trim_start().starts_with("device")).collect::<Vec<_>>().join("\n")
}

/// The same text from the target and from the host, which starts so.
fn same(target: &Target, start: &str, on: impl Fn(&Device) -> Result<String>) -> Result<()> {
    let (found, expected) = (on(&target.device)?, on(&Device::host())?);
    ensure!(found == expected && expected.starts_with(start), "{found}\nexpected\n{expected}");
    Ok(())
}

fn dense(shape: &[usize]) -> Result<Layout> {
    Ok(Layout::contiguous(shape)?)
}

fn random_vectors_over_products(target: &Target) -> Result<()> {
    let [batch, m, n, k] = [2, 9, 14, 30];
    for (transposed, dtype, alpha) in
        [(false, DType::F16, 1.0), (true, DType::F8E4M3Fnuz, 0.5), (true, DType::Bf16, -2.0), (false, DType::F4E2M1, 1.0)]
    {
        same(target, "PASS  18 rows agree", |device| {
            let owned = |dtype, shape: &[usize], seed| Owned::numbers(device, dtype, &dense(shape)?, seed, false);
            let a = owned(dtype, &[batch, m, k], 1)?;
            let stored = if transposed { [n, k] } else { [k, n] };
            let b = owned(dtype, &stored, 2)?;
            let (added, biases) = (owned(DType::F32, &[m, n], 3)?, owned(DType::F16, &[n], 4)?);
            let mut d = owned(DType::F32, &[batch, m, n], 5)?;
            let (c, bias) = (added.view(), biases.view());
            let gemm = Gemm::new(Accumulate::F32Fma).transpose_b(transposed).alpha(alpha).beta(0.5, &c).bias(&bias);
            gemm.run(&a.view(), &b.view(), &mut d.view_mut())?;
            let (a, b, d) = (a.view(), b.view(), d.view());
            Ok(text(&Check::gemm(&a, &b, &d).transpose_b(transposed).alpha(alpha).beta(0.5, &c).bias(&bias).freivalds(5)?))
        })?;
    }
    Ok(())
}

fn random_vectors_over_convolutions(target: &Target) -> Result<()> {
    let param: ConvParam = "2 2 3 7 5 3 2 7 6 2 1 1 2 2 1 0 2".parse()?;
    // Layouts in which what is contracted is first, last, and between other axes; more images than channels; a chip that flushes, and one that aligns.
    for (param, arch) in [
        (param.clone().with_layouts("nhwgc", "gkyxc", "nhwgk")?, None),
        (param.clone().with_layouts("gnchw", "kgcyx", "nkghw")?, Some(Arch::Gfx90a)),
        (param.with_batch(9)?.with_layouts("chnwg", "yckgx", "knhwg")?, Some(Arch::Gfx942)),
    ] {
        for direction in [Direction::Forward, Direction::BackwardData, Direction::BackwardWeight] {
            same(target, "PASS", |device| {
                let conv = Conv::new(param.clone(), direction, Accumulate::F32);
                let [first, second, to] = conv.roles().map(|role| dense(&[param.elements(role)]));
                let (x, y) =
                    (Owned::numbers(device, DType::F16, &first?, 1, false)?, Owned::numbers(device, DType::F16, &second?, 2, false)?);
                let mut d = Owned::numbers(device, DType::F32, &to?, 3, false)?;
                conv.run(&x.view(), &y.view(), &mut d.view_mut())?;
                let (x, y, d) = (x.view(), y.view(), d.view());
                let check = Check::conv(param.clone(), direction, &x, &y, &d);
                Ok(text(&arch.into_iter().fold(check, Check::arch).freivalds(4)?))
            })?;
        }
    }
    Ok(())
}

fn causes_of_failures(target: &Target) -> Result<()> {
    let [m, n, k] = [12, 10, 48];
    for short in [16, 0] {
        same(target, "FAIL", |device| {
            let owned = |dtype, shape: &[usize], seed| Owned::numbers(device, dtype, &dense(shape)?, seed, false);
            let (a, b) = (owned(DType::F16, &[m, k], 1)?, owned(DType::F16, &[k, n], 2)?);
            let mut d = owned(DType::F32, &[m, n], 3)?;
            if short > 0 {
                let (left, right) = (Layout::strided(&[m, k - short], &[k as isize, 1], 0)?, dense(&[k - short, n])?);
                Gemm::new(Accumulate::F64).run(&a.view().view(left)?, &b.view().view(right)?, &mut d.view_mut())?;
            }
            let (a, b, d) = (a.view(), b.view(), d.view());
            let report = Check::gemm(&a, &b, &d).run()?;
            let expected = if short > 0 { "the last 16 products of each sum are missing: 120 of 120" } else { "unknown" };
            let evidence = report.cause.as_ref().map(|cause| cause.evidence.clone()).unwrap_or_default();
            ensure!(evidence.starts_with(expected), "{report}");
            Ok(text(&report))
        })?;
    }
    Ok(())
}
