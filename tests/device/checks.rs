//! Verdicts without a reference are the host's on every device: random vectors over products, batches and convolutions in any layout, and what a failure is said to come from.

use crate::suite::tests;
use crate::target::Target;
use crate::tensors::{Owned, elements, encode};
use anyhow::{Result, ensure};
use hipverify::check::Check;
use hipverify::device::{Device, Layout};
use hipverify::dtype::DType;
use hipverify::matrix_core::{Arch, Input, Model};
use hipverify::reference::{Accumulate, Conv, ConvParam, Direction, Gemm};

tests! {
    Gpus: random_vectors_over_products, random_vectors_over_convolutions, scales_of_operands, causes_of_failures, formats_of_results, corners_of_results,
        models_of_rarer_kinds;
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

/// Operands of packed and of whole bytes, in a batch and transposed, with scales of several formats; passes, and a failure by scales that are missing.
fn scales_of_operands(target: &Target) -> Result<()> {
    let [batch, m, n, k] = [2, 6, 10, 64];
    for (dtype, of_scales, [rows, columns], start) in [
        (DType::F8E4M3, DType::F32, [1, 64], "PASS  120 elements"),
        (DType::F4E2M1, DType::F8E8M0, [1, 16], "PASS  120 elements"),
        (DType::F4E2M1, DType::F8E4M3, [2, 32], "FAIL"),
    ] {
        same(target, start, |device| {
            let owned = |dtype, shape: &[usize], seed| Owned::numbers(device, dtype, &dense(shape)?, seed, false);
            let scales = |shape: &[usize], seed| match of_scales {
                DType::F32 => owned(DType::F32, shape, seed),
                // From 256 to 416 in e4m3, from 2^-7 to 2^-1 in e8m0.
                narrow => Owned::new(device, narrow, &dense(shape)?, &elements(narrow, shape.iter().product(), |i| 0x78 + i as u64 % 7)),
            };
            let (a, b) = (owned(dtype, &[batch, m, k], 1)?, owned(dtype, &[n, k], 2)?);
            let (sa, sb) = (scales(&[1, m / rows, k / columns], 3)?, scales(&[n / rows, k / columns], 4)?);
            let check = |d: &Owned| {
                let (a, b, sa, sb, d) = (a.view(), b.view(), sa.view(), sb.view(), d.view());
                let check = Check::gemm(&a, &b, &d).transpose_b(true).scale_a(&sa).scale_b(&sb);
                check.scale_block_a([rows, columns]).scale_block_b([rows, columns]).checked()
            };
            let mut d = owned(DType::F32, &[batch, m, n], 5)?;
            if start == "FAIL" {
                Gemm::new(Accumulate::F32).transpose_b(true).run(&a.view(), &b.view(), &mut d.view_mut())?;
            } else {
                let exact = check(&d)?.exact().to_vec()?;
                let bits = elements(DType::F32, exact.len(), |i| encode(DType::F32, exact[i]));
                d = Owned::new(device, DType::F32, &dense(&[batch, m, n])?, &bits)?;
            }
            Ok(text(&check(&d)?.report))
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
        for direction in Direction::ALL {
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

/// Results in narrow formats, of which some overflow, in packed ones, and in integers; also where alpha is 0 and operands are not finite.
fn formats_of_results(target: &Target) -> Result<()> {
    let [m, n, k] = [9, 14, 40];
    for (operands, result, alpha) in [
        (DType::F16, DType::F16, 2000.0),
        (DType::F16, DType::F8E4M3, 8.0),
        (DType::F8E5M2, DType::F4E2M1, 0.5),
        (DType::I8, DType::I32, 1.0),
        (DType::I32, DType::I32, -3.0),
        (DType::U8, DType::U32, 2.0),
        (DType::F16, DType::F32, 0.0),
    ] {
        let start = if operands.int_format().is_some() { "PASS" } else { "" };
        same(target, start, |device| {
            let owned = |dtype, shape: &[usize], seed, wild| Owned::numbers(device, dtype, &dense(shape)?, seed, wild);
            let (a, b) = (owned(operands, &[m, k], 1, alpha == 0.0)?, owned(operands, &[k, n], 2, false)?);
            let added = owned(if operands.int_format().is_some() { DType::I8 } else { DType::F16 }, &[m, n], 3, false)?;
            let (c, mut d) = (added.view(), owned(result, &[m, n], 4, false)?);
            let gemm = Gemm::new(Accumulate::F64).beta(2.0, &c);
            if alpha == 0.0 {
                let zeros = Owned::new(device, DType::F32, &dense(&[m, n])?, &vec![0; 4 * m * n])?;
                let one = zeros.view().view(Layout::strided(&[m, 1], &[1, 1], 0)?)?;
                gemm.run(&one, &zeros.view().view(Layout::strided(&[1, n], &[1, 1], 0)?)?, &mut d.view_mut())?;
            } else {
                gemm.alpha(alpha).run(&a.view(), &b.view(), &mut d.view_mut())?;
            }
            let (a, b, d) = (a.view(), b.view(), d.view());
            let report = Check::gemm(&a, &b, &d).alpha(alpha).beta(2.0, &c).run()?;
            ensure!(report.passed(), "{operands} to {result}\n{report}");
            Ok(text(&report))
        })?;
    }
    Ok(())
}

/// What is tried on a corner first: of a batch, and of a convolution whose tensors have no axis of groups.
fn corners_of_results(target: &Target) -> Result<()> {
    corners_of_results_on(target, Arch::Gfx908)?;
    corners_of_results_on(target, Arch::Sm90)
}

fn corners_of_results_on(target: &Target, arch: Arch) -> Result<()> {
    let model = Model::new(arch, Input::F16)?;
    same(target, "PASS", |device| {
        let owned = |dtype, shape: &[usize], seed| Owned::numbers(device, dtype, &dense(shape)?, seed, false);
        let (a, b) = (owned(DType::F16, &[2, 18, 32], 1)?, owned(DType::F16, &[70, 32], 2)?);
        let mut d = owned(DType::F32, &[2, 18, 70], 3)?;
        Gemm::new(model).transpose_b(true).run(&a.view(), &b.view(), &mut d.view_mut())?;
        let (a, b, d) = (a.view(), b.view(), d.view());
        let report = Check::gemm(&a, &b, &d).transpose_b(true).arch(arch).run()?;
        ensure!(report.exactness.as_ref().is_some_and(|exactness| exactness.differing == 0), "{report}");
        Ok(text(&report))
    })?;
    let param = "2 1 3 18 8 3 3 9 9 1 1 1 1 1 1 1 1".parse::<ConvParam>()?.with_layouts("nchw", "kcyx", "nhwk")?;
    same(target, "PASS", |device| {
        let owned = |dtype, shape: &[usize], seed| Owned::numbers(device, dtype, &dense(shape)?, seed, false);
        let (x, w) = (owned(DType::F16, &[3, 8, 9, 9], 1)?, owned(DType::F16, &[18, 8, 3, 3], 2)?);
        let mut y = owned(DType::F32, &[3, 9, 9, 18], 3)?;
        Conv::new(param.clone(), Direction::Forward, model).run(&x.view(), &w.view(), &mut y.view_mut())?;
        let (x, w, y) = (x.view(), w.view(), y.view());
        let report = Check::conv(param.clone(), Direction::Forward, &x, &w, &y).arch(arch).run()?;
        ensure!(report.exactness.as_ref().is_some_and(|exactness| exactness.differing == 0), "{report}");
        Ok(text(&report))
    })
}

/// Models of tensor cores that accumulate in f16, and those of gfx942 that GPUs have no code of, are tried on every device: a result that is none of a chip's says of how many.
fn models_of_rarer_kinds(target: &Target) -> Result<()> {
    let in_f16 = |arch, input| -> Result<Accumulate> { Ok(Accumulate::MatrixCore(Model::new(arch, input)?.with_f16_accumulator()?)) };
    for (arch, operands, accumulate, result, words) in [
        (
            Arch::Sm89,
            DType::F8E4M3,
            in_f16(Arch::Sm89, Input::E4m3E4m3)?,
            DType::F16,
            "yes: sm_89 e4m3_e4m3, accumulated in f16, k ascending",
        ),
        (Arch::Sm90, DType::F16, in_f16(Arch::Sm90, Input::F16)?, DType::F16, "yes: sm_90 f16, accumulated in f16, k ascending"),
        (Arch::Gfx942, DType::F16, Accumulate::F64, DType::F32, "no, of "),
    ] {
        same(target, "", |device| {
            let owned = |dtype, shape: &[usize], seed| Owned::numbers(device, dtype, &dense(shape)?, seed, false);
            let (a, b) = (owned(operands, &[18, 96], 1)?, owned(operands, &[70, 96], 2)?);
            let mut d = owned(result, &[18, 70], 3)?;
            Gemm::new(accumulate).transpose_b(true).run(&a.view(), &b.view(), &mut d.view_mut())?;
            let (a, b, d) = (a.view(), b.view(), d.view());
            let report = Check::gemm(&a, &b, &d).transpose_b(true).arch(arch).accumulator(DType::F16).run()?;
            let exactness = report.exactness.as_ref().map(ToString::to_string).unwrap_or_default();
            ensure!(exactness.starts_with(words), "{exactness}");
            Ok(text(&report))
        })?;
    }
    Ok(())
}
