//! GEMM and convolution on GPUs give the host's bits, in memory: formats, layouts, arithmetics and what follows the sums.

use crate::compare::same_bytes;
use crate::suite::tests;
use crate::target::Target;
use crate::tensors::{Owned, encode, numbers};
use anyhow::{Context, Result, ensure};
use hipverify::device::{Device, Layout, TensorMut};
use hipverify::dtype::DType;
use hipverify::matrix_core::{self, Arch, Input, Model, Rule};
use hipverify::reference::{Accumulate, Arithmetic, Conv, ConvParam, Direction, Epilogue, Gemm, KOrder};
use hipverify::{DeviceMem, Error};

tests! {
    Gpus: operands_of_every_format, results_of_every_format_after_alpha_beta_bias_and_epilogue, gemm_of_every_shape_and_transposition, batches_of_two_dimensions,
        strided_operands_and_enough_results_for_several_a_thread, every_direction_order_and_arithmetic, every_matrix_core_on_every_format_it_takes, magnitudes_of_every_matrix_core,
        arithmetics_that_the_device_code_lacks_are_refused;
    Host: a_convolution_gives_each_operand_its_own_format;
}

fn dense(shape: &[usize]) -> Layout {
    Layout::contiguous(shape).unwrap()
}

/// Runs `compute` on the host and on the target, into a result of this format and layout, and compares memory: what lies between the elements of
/// the result must stay as well.
fn same(
    target: &Target,
    what: &str,
    (dtype, layout): (DType, &Layout),
    compute: impl Fn(&Device, &mut TensorMut<'_>) -> Result<()>,
) -> Result<()> {
    let before = numbers(dtype, layout.end(), 99, false);
    let on = |device: &Device| -> Result<Vec<u8>> {
        let mut to = Owned::new(device, dtype, layout, &before)?;
        compute(device, &mut to.view_mut())?;
        Ok(to.memory.to_vec()?)
    };
    let expected = on(&Device::host())?;
    ensure!(expected != before, "{what}: nothing was written");
    let found = on(&target.device).and_then(|found| same_bytes(&found, &expected));
    found.with_context(|| format!("{what}, result {dtype}{:?}", layout.shape()))
}

/// The models that the device code has: all but the variants of gfx942 that keep another number of bits.
fn models() -> impl Iterator<Item = Model> {
    Model::all().filter(|model| !matches!(model.rule(), Rule::Fused { keep: 31 | 52, .. } | Rule::FusedHalves { keep: 31 | 52 }))
}

/// The plain arithmetics, and matrix cores that take f16.
fn arithmetics_of_f16() -> impl Iterator<Item = Accumulate> {
    Accumulate::PLAIN.into_iter().chain(models().filter(|m| m.input() == Input::F16).map(Accumulate::MatrixCore))
}

fn operands_of_every_format(target: &Target) -> Result<()> {
    use DType::*;
    let others = [F64, F32, F16, Bf16, F8E4M3, F8E5M2Fnuz, F6E3M2, F4E2M1];
    for (x, dtype) in DType::ALL.into_iter().filter(|d| ![I64, DType::U64].contains(d)).enumerate() {
        let other = others[x % others.len()];
        for accumulate in Accumulate::PLAIN {
            let arithmetic = Arithmetic { accumulate, flush_subnormals: x % 2 == 0 };
            let product = |device: &Device, to: &mut TensorMut<'_>| -> Result<()> {
                let a = Owned::numbers(device, dtype, &dense(&[3, 7]), 1, true)?;
                let b = Owned::numbers(device, other, &dense(&[7, 5]), 2, true)?;
                match Gemm::new(arithmetic).run(&a.view(), &b.view(), to) {
                    // Sums in f32 cannot take every format.
                    Err(Error::WrongDType { .. }) => Ok(Gemm::new(Accumulate::F64).magnitudes(&a.view(), &b.view(), to)?),
                    done => Ok(done?),
                }
            };
            same(target, &format!("{dtype} x {other}, {arithmetic}"), (F64, &dense(&[3, 5])), product)?;
        }
    }
    Ok(())
}

fn results_of_every_format_after_alpha_beta_bias_and_epilogue(target: &Target) -> Result<()> {
    let shape = [2, 9, 6];
    let forms = [
        (Epilogue::None, dense(&shape)),
        (Epilogue::Relu, Layout::strided(&shape, &[80, 8, 1], 2)?),
        (Epilogue::Clamp { low: -3.5, high: 7.25 }, Layout::strided(&shape, &[1, 16, -2], 11)?),
    ];
    for dtype in DType::ALL {
        for (x, (epilogue, layout)) in forms.iter().enumerate() {
            same(target, &format!("{epilogue:?}"), (dtype, layout), |device, to| {
                let a = Owned::numbers(device, DType::F16, &dense(&[2, 9, 20]), 1, false)?;
                let b = Owned::numbers(device, DType::F16, &dense(&[20, 6]), 2, false)?;
                // A C and a bias that a batch shares, and a C of its own.
                let c = Owned::numbers(device, DType::Bf16, &if x == 1 { dense(&[9, 6]) } else { dense(&shape) }, 3, false)?;
                let bias = Owned::numbers(device, DType::F32, &dense(&[6]), 4, false)?;
                let (c, bias) = (c.view(), bias.view());
                let gemm = Gemm::new(Accumulate::F32Fma).alpha(1.0 + x as f64 / 3.0).beta(0.7, &c).bias(&bias).epilogue(*epilogue);
                Ok(gemm.run(&a.view(), &b.view(), to)?)
            })?;
        }
    }
    Ok(())
}

fn gemm_of_every_shape_and_transposition(target: &Target) -> Result<()> {
    for (batch, m, n, k) in [(1, 1, 1, 1), (2, 3, 5, 7), (1, 31, 50, 21), (3, 2, 3, 300), (1, 2, 3, 0)] {
        for mode in arithmetics_of_f16() {
            for (ta, tb) in [(false, false), (true, false), (false, true), (true, true)] {
                let of = |transposed: bool, rows, columns| if transposed { [batch, columns, rows] } else { [batch, rows, columns] };
                let what = format!("{batch}x{m}x{n}x{k}, {mode}, transposed {ta} {tb}");
                same(target, &what, (DType::F64, &dense(&[batch, m, n])), |device, to| {
                    let a = Owned::numbers(device, DType::F16, &dense(&of(ta, m, k)), 3, false)?;
                    let b = Owned::numbers(device, DType::F16, &dense(&of(tb, k, n)), 4, false)?;
                    Ok(Gemm::new(mode).transpose_a(ta).transpose_b(tb).run(&a.view(), &b.view(), to)?)
                })?;
            }
        }
    }
    Ok(())
}

fn batches_of_two_dimensions(target: &Target) -> Result<()> {
    let layout = Layout::strided(&[2, 3, 9, 6], &[300, 90, 8, 1], 2)?;
    for (b_shape, c_shape) in [(&[2, 3, 20, 6][..], &[9, 6][..]), (&[20, 6], &[2, 3, 9, 6]), (&[1, 1, 20, 6], &[1, 1, 9, 6])] {
        same(target, &format!("{b_shape:?}, {c_shape:?}"), (DType::F32, &layout), |device, to| {
            let a = Owned::numbers(device, DType::F16, &dense(&[2, 3, 9, 20]), 1, false)?;
            let b = Owned::numbers(device, DType::F16, &dense(b_shape), 2, false)?;
            let c = Owned::numbers(device, DType::Bf16, &dense(c_shape), 3, false)?;
            Ok(Gemm::new(Accumulate::F32).beta(0.7, c.view()).run(&a.view(), &b.view(), to)?)
        })?;
    }
    Ok(())
}

/// Those that bounds need, with numbers that are flushed or count as the least normal one, alpha, beta, C and bias.
fn magnitudes_of_every_matrix_core(target: &Target) -> Result<()> {
    let plain = [(Accumulate::F32, (DType::F16, DType::Bf16))];
    let all = models().map(|m| (Accumulate::MatrixCore(m), m.input().dtypes())).chain(plain);
    for (mode, (da, db)) in all {
        same(target, &format!("magnitudes for {mode}"), (DType::F64, &dense(&[9, 6])), |device, to| {
            let a = Owned::numbers(device, da, &dense(&[9, 20]), 1, false)?;
            let b = Owned::numbers(device, db, &dense(&[20, 6]), 2, false)?;
            let c = Owned::numbers(device, DType::Bf16, &dense(&[9, 6]), 3, false)?;
            let bias = Owned::numbers(device, DType::F32, &dense(&[6]), 4, false)?;
            let (c, bias) = (c.view(), bias.view());
            Ok(Gemm::new(mode).alpha(-1.5).beta(-0.7, &c).bias(&bias).epilogue(Epilogue::Relu).magnitudes(&a.view(), &b.view(), to)?)
        })?;
        if da == db {
            let conv = Conv::new("1 1 2 3 4 3 9 2 1 1 0".parse()?, Direction::Forward, mode);
            let [first, second, result] = conv.roles().map(|role| dense(&[conv.param().elements(role)]));
            same(target, &format!("magnitudes for {mode}"), (DType::F64, &result), |device, to| {
                let a = Owned::numbers(device, da, &first, 1, false)?;
                let b = Owned::numbers(device, db, &second, 2, false)?;
                Ok(conv.magnitudes(&a.view(), &b.view(), to)?)
            })?;
        }
    }
    Ok(())
}

/// So many rows that a thread computes several: 4 or 8, of which the last are cut off. Operands with gaps, one of them upside down.
fn strided_operands_and_enough_results_for_several_a_thread(target: &Target) -> Result<()> {
    let (m, k) = (203usize, target.size(5, 19));
    let shared = |rows: usize| (target.device.multiprocessors() * 1024).div_ceil(m.div_ceil(rows)) + 1;
    let models = models().map(|m| (Accumulate::MatrixCore(m), m.input().dtypes(), 4));
    let plain = Accumulate::PLAIN.into_iter().map(|mode| (mode, (DType::F16, DType::F16), 8));
    for (mode, (da, db), rows) in plain.chain(models) {
        let n = shared(rows);
        same(target, &format!("{mode}"), (DType::F32, &dense(&[m, n])), |device, to| {
            let a = Owned::numbers(device, da, &Layout::strided(&[m, k], &[-24, 1], 24 * (m - 1))?, 5, false)?;
            let b = Owned::numbers(device, db, &Layout::strided(&[k, n], &[1, 20], 3)?, 6, false)?;
            Ok(Gemm::new(mode).run(&a.view(), &b.view(), to)?)
        })?;
    }
    Ok(())
}

fn every_direction_order_and_arithmetic(target: &Target) -> Result<()> {
    // Groups, strides, dilations, padding that differs on both sides; layouts of the study and of Composable Kernel.
    let cases = [
        ("2 2 2 5 3 3 2 7 6 2 1 1 2 2 1 0 2", ["ngchw", "gkcyx", "ngkhw"]),
        ("2 1 3 4 5 3 3 5 5 1 1 1 1 1 1 1 1", ["nhwgc", "gkyxc", "nhwgk"]),
        ("2 3 2 2 2 2 3 6 9 2 3 2 1 0 1 1 0", ["nhwgc", "gyxck", "nhwgk"]),
        ("1 2 3 4 3 3 9 2 2 1 2", ["ngcw", "gkcx", "ngkw"]),
        ("3 1 2 3 2 2 1 3 4 3 5 1 2 1 2 1 1 1 0 2 0 0 1", ["ndhwgc", "kzyxgc", "gnkdhw"]),
    ];
    for (text, [input, filter, output]) in cases {
        let param = text.parse::<ConvParam>()?.with_layouts(input, filter, output)?;
        for direction in Direction::ALL {
            for (order, mode) in
                [KOrder::ChannelsFirst, KOrder::ChannelsLast].into_iter().flat_map(|o| arithmetics_of_f16().map(move |m| (o, m)))
            {
                let conv = Conv::new(param.clone(), direction, mode).order(order);
                same_convolution(
                    target,
                    &conv,
                    DType::F64,
                    (DType::F16, DType::F16),
                    false,
                    &format!("{param} {direction:?} {order:?} {mode}"),
                )?;
            }
        }
    }
    Ok(())
}

fn every_matrix_core_on_every_format_it_takes(target: &Target) -> Result<()> {
    let param: ConvParam = "2 1 2 3 5 3 2 7 6 2 1 1 2 2 1 0 2".parse()?;
    for model in models() {
        for direction in Direction::ALL {
            for wild in [false, true] {
                let conv = Conv::new(param.clone(), direction, model);
                let what = format!("{model} {direction:?}, wild {wild}");
                same_convolution(target, &conv, DType::F32, model.input().dtypes(), wild, &what)?;
            }
        }
    }
    Ok(())
}

fn same_convolution(target: &Target, conv: &Conv, result: DType, (ta, tb): (DType, DType), wild: bool, what: &str) -> Result<()> {
    let [first, second, to] = conv.roles().map(|role| dense(&[conv.param().elements(role)]));
    same(target, what, (result, &to), |device, to| {
        let (a, b) = (Owned::numbers(device, ta, &first, 8, wild)?, Owned::numbers(device, tb, &second, 9, wild)?);
        Ok(conv.run(&a.view(), &b.view(), to)?)
    })
}

fn arithmetics_that_the_device_code_lacks_are_refused(Target { device, .. }: &Target) -> Result<()> {
    let lacking: Vec<Model> = Model::all().filter(|model| models().all(|m| m != *model)).collect();
    // Two variants of each input of gfx942 but f32.
    ensure!(lacking.len() == 2 * 7, "{} models", lacking.len());
    for model in lacking {
        let (ta, tb) = model.input().dtypes();
        let (a, b) = (Owned::numbers(device, ta, &dense(&[2, 2]), 1, false)?, Owned::numbers(device, tb, &dense(&[2, 2]), 2, false)?);
        let mut to = DeviceMem::<f32>::new(device, 4)?;
        let refused = Gemm::new(model).run(&a.view(), &b.view(), &mut to.tensor_mut(&[2, 2])?);
        ensure!(matches!(refused, Err(Error::Unsupported { .. })), "{model}: {refused:?}");
    }
    Ok(())
}

/// A product of a bf8 number that fp8 could only hold as a subnormal, beside one that is cut where that would show.
fn a_convolution_gives_each_operand_its_own_format(Target { device, .. }: &Target) -> Result<()> {
    let param: ConvParam = "1 1 1 1 2 1 1 1 1 0 0".parse()?;
    let model = Model::new(Arch::Gfx942, Input::Fp8Bf8)?;
    let (x, w) = ([1.75, 224.0], [2f64.powi(-13) * 1.75, 1.75]);
    let operand = |dtype, values: [f64; 2]| {
        let bytes: Vec<u8> = values.iter().map(|&v| encode(dtype, v) as u8).collect();
        Owned::new(device, dtype, &dense(&[2]), &bytes)
    };
    let (a, b) = (operand(DType::F8E4M3Fnuz, x)?, operand(DType::F8E5M2Fnuz, w)?);
    let mut to = DeviceMem::<f32>::new(device, 1)?;
    Conv::new(param, Direction::Forward, model).run(&a.view(), &b.view(), &mut to.tensor_mut(&[1])?)?;
    let expected = matrix_core::naive::dot(model, 0.0, &x.map(|v| v as f32), &w.map(|v| v as f32));
    ensure!(to.to_vec()? == [expected]);
    Ok(())
}
