//! GEMM through a matrix-core model gives the bits of the naive one.

use crate::suite::tests;
use crate::target::Target;
use crate::tensors::{Lcg, encode};
use anyhow::{Context, Result, ensure};
use hipverify::DeviceMem;
use hipverify::dtype::{Bf16, F8E4M3, F8E4M3Fnuz, F8E5M2, F8E5M2Fnuz, F16, Scalar};
use hipverify::matrix_core::{Arch, Input, Model, naive};
use hipverify::reference::model_gemm;

tests! {
    All: every_model_gives_the_naive_bits, every_model_of_tensor_cores_gives_the_naive_bits, low_bits_of_words_do_not_count;
}

/// What the elements of a matrix are like.
#[derive(Clone, Copy, Debug)]
enum Data {
    /// Numbers between -1 and 1, for which short forms are right.
    Tame,
    /// Zeros, ones and numbers of one or two bits, whose sums cancel and tie.
    Ties,
    /// Magnitudes over the whole range of the format.
    Wide,
    /// Any bits: subnormals, infinities, NaN.
    Any,
}

const KINDS: [Data; 4] = [Data::Tame, Data::Ties, Data::Wide, Data::Any];

fn elements<T: Scalar>(count: usize, seed: u64, data: Data) -> Vec<T> {
    let mut rng = Lcg::new(seed);
    let element = |_| {
        let (kind, choice, unit) = (rng.next() % 64, rng.next() % 8, rng.unit());
        let value = match (data, kind) {
            (Data::Tame, _) => unit,
            (_, 0) => 0.0,
            (Data::Ties, _) => [1.0, -1.0, 0.5, -2.0, 1.5, -0.0, 0.0078125, -0.75][choice as usize],
            (Data::Wide, _) => unit * 2f64.powi((rng.next() % 26) as i32 - 13),
            (Data::Any, 1..4) => return T::from_bits64(rng.pattern(T::DTYPE)),
            (Data::Any, _) => unit * 4.0,
        };
        T::from_bits64(encode(T::DTYPE, value))
    };
    (0..count).map(element).collect()
}

fn check<A: Scalar, B: Scalar>(target: &Target, model: Model, (m, n, k): (usize, usize, usize), data: Data) -> Result<()> {
    fn wide<T: Scalar>(x: &[T]) -> Vec<f32> {
        x.iter().map(|x| x.to_f64() as f32).collect()
    }
    let (a, b) = (elements::<A>(m * k, 1, data), elements::<B>(k * n, 2, data));
    let c: Vec<f32> = (0..m * n).map(|i| [0.0, -0.0, 1e-40, 16777216.0, -3.5][i % 5]).collect();
    let mut expected = c.clone();
    naive::gemm(model, m, n, k, &wide(&a), k, &wide(&b), n, &mut expected, n);
    let (a, b) = (DeviceMem::from_slice(&target.device, &a)?, DeviceMem::from_slice(&target.device, &b)?);
    let mut d = DeviceMem::from_slice(&target.device, &c)?;
    model_gemm(model, (m, n, k), &a, &b, &mut d).with_context(|| model.to_string())?;
    for (i, (found, expected)) in d.to_vec()?.iter().zip(&expected).enumerate() {
        let same = found.to_bits() == expected.to_bits();
        ensure!(same, "{model}, {m}x{n}x{k}, {data:?}: element [{}, {}] is {found:e}, naive {expected:e}", i / n, i % n);
    }
    Ok(())
}

fn every_model_gives_the_naive_bits(target: &Target) -> Result<()> {
    // One block computes 64 or 128 rows and columns, and takes k in steps of 32.
    let shapes = match target.is_standin() || !target.is_gpu() {
        true => [(1, 1, 1), (5, 7, 18), (66, 130, 5), (3, 129, 34)],
        false => [(1, 1, 1), (5, 7, 18), (130, 140, 37), (40, 129, 64)],
    };
    for (i, shape) in shapes.into_iter().enumerate() {
        for (_, data) in KINDS.into_iter().enumerate().filter(|(j, _)| target.takes(i + j)) {
            for arch in Arch::AMD {
                check::<F16, F16>(target, Model::new(arch, Input::F16)?, shape, data)?;
                check::<Bf16, Bf16>(target, Model::new(arch, Input::Bf16)?, shape, data)?;
                check::<f32, f32>(target, Model::new(arch, Input::F32)?, shape, data)?;
            }
            for converted in [Input::F16AsBf16, Input::F16AsBf16Truncated] {
                check::<F16, F16>(target, Model::new(Arch::Gfx90a, converted)?, shape, data)?;
            }
            check::<Bf16, Bf16>(target, Model::new(Arch::Gfx90a, Input::Bf16K)?, shape, data)?;
            let gfx942 = |input| Model::new(Arch::Gfx942, input);
            check::<f32, f32>(target, gfx942(Input::Xf32)?, shape, data)?;
            check::<F16, F16>(target, gfx942(Input::F16)?.for_k(4), shape, data)?;
            check::<F8E4M3Fnuz, F8E4M3Fnuz>(target, gfx942(Input::Fp8Fp8)?, shape, data)?;
            check::<F8E4M3Fnuz, F8E5M2Fnuz>(target, gfx942(Input::Fp8Bf8)?, shape, data)?;
            check::<F8E5M2Fnuz, F8E4M3Fnuz>(target, gfx942(Input::Bf8Fp8)?, shape, data)?;
            check::<F8E5M2Fnuz, F8E5M2Fnuz>(target, gfx942(Input::Bf8Bf8)?, shape, data)?;
        }
    }
    Ok(())
}

fn every_model_of_tensor_cores_gives_the_naive_bits(target: &Target) -> Result<()> {
    // One block computes 64 rows and columns, and takes k in steps of 16; or 32 rows, columns and k.
    let shapes = match target.is_standin() || !target.is_gpu() {
        true => [(5, 7, 18), (3, 66, 33)],
        false => [(5, 7, 18), (66, 130, 70)],
    };
    for (i, shape) in shapes.into_iter().enumerate() {
        for (_, data) in KINDS.into_iter().enumerate().filter(|(j, _)| target.takes(i + j)) {
            for arch in [Arch::Sm70, Arch::Sm75, Arch::Sm80, Arch::Sm90] {
                let model = Model::new(arch, Input::F16)?;
                check::<F16, F16>(target, model, shape, data)?;
                check::<F16, F16>(target, model.with_f16_accumulator()?, shape, data)?;
            }
            for arch in [Arch::Sm80, Arch::Sm90] {
                check::<Bf16, Bf16>(target, Model::new(arch, Input::Bf16)?, shape, data)?;
                check::<f32, f32>(target, Model::new(arch, Input::Tf32)?, shape, data)?;
            }
            let hopper = |input| Model::new(Arch::Sm90, input);
            check::<F16, F16>(target, hopper(Input::F16)?.for_k(8), shape, data)?;
            check::<F16, F16>(target, hopper(Input::F16)?.for_k(8).with_f16_accumulator()?, shape, data)?;
            check::<f32, f32>(target, hopper(Input::Tf32)?.for_k(4), shape, data)?;
            let in_f16 = |model: Model| model.by_mma_sync()?.with_f16_accumulator();
            for of in [|model: Model| Ok(model), Model::by_mma_sync, Model::with_f16_accumulator, in_f16] {
                check::<F8E4M3, F8E4M3>(target, of(hopper(Input::E4m3E4m3)?)?, shape, data)?;
                check::<F8E4M3, F8E5M2>(target, of(hopper(Input::E4m3E5m2)?)?, shape, data)?;
                check::<F8E5M2, F8E4M3>(target, of(hopper(Input::E5m2E4m3)?)?, shape, data)?;
                check::<F8E5M2, F8E5M2>(target, of(hopper(Input::E5m2E5m2)?)?, shape, data)?;
            }
            check::<F8E4M3, F8E5M2>(target, Model::new(Arch::Sm89, Input::E4m3E5m2)?, shape, data)?;
            check::<F8E5M2, F8E4M3>(target, Model::new(Arch::Sm89, Input::E5m2E4m3)?.with_f16_accumulator()?, shape, data)?;
        }
    }
    Ok(())
}

/// Of xf32 and tf32: neither those of numbers nor those that make a word a NaN, as an f32, which is an infinity without them.
fn low_bits_of_words_do_not_count(target: &Target) -> Result<()> {
    let kept = [0x7f80_0000, 0xff80_0000, 0x7f80_2000, 0x7fc0_0000, 0x3f80_0000, 0x8000_0000, 0x0000_2000u32];
    let words: Vec<f32> = kept.iter().flat_map(|word| [0, 1, 0x1000, 0x1fff].map(|low| f32::from_bits(word | low))).collect();
    let cut: Vec<f32> = words.iter().map(|word| f32::from_bits(word.to_bits() & !0x1fff)).collect();
    let n = words.len();
    for (arch, input) in [(Arch::Gfx942, Input::Xf32), (Arch::Sm80, Input::Tf32), (Arch::Sm90, Input::Tf32)] {
        let model = Model::new(arch, input)?;
        let mut expected = vec![0.0; n * n];
        naive::gemm(model, n, n, 1, &cut, 1, &cut, n, &mut expected, n);
        let a = DeviceMem::from_slice(&target.device, &words)?;
        let mut d = DeviceMem::from_slice(&target.device, &vec![0.0f32; n * n])?;
        model_gemm(model, (n, n, 1), &a, &a, &mut d)?;
        for (i, (found, expected)) in d.to_vec()?.iter().zip(&expected).enumerate() {
            let [a, b] = [i / n, i % n].map(|at| words[at].to_bits());
            ensure!(found.to_bits() == expected.to_bits(), "{model}: {a:#x} * {b:#x} is {found:e}, expected {expected:e}");
        }
    }
    Ok(())
}
