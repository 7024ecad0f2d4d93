mod bounds;
mod causes;
mod epilogue;
mod freivalds;
mod integer;
mod piece;
mod saturation;
mod scales;

use super::worth::TILE;
use super::*;
use crate::device::{Device, DeviceMem, Layout};
use crate::dtype::{Bf16, F8E4M3, F8E4M3Fnuz, F8E5M2, F16, Overflow, Rounding, Scalar, Tf32};
use crate::fill::FillUniformRand;
use crate::matrix_core::{Input, Rule, gemm_tile};
use crate::reference::{Conv, Gemm, KOrder};
use crate::verify::Mutation;

/// Uniform numbers of a format.
fn numbers<T: Scalar>(n: usize, [low, high]: [f32; 2], stream: u32) -> DeviceMem<T> {
    let host = Device::host();
    let mut wide = DeviceMem::<f32>::new(&host, n).unwrap();
    wide.fill(&FillUniformRand::new(low.into(), high.into()).seed(7).stream(stream)).unwrap();
    let encode = |x: f32| T::from_bits64(T::DTYPE.encode(f64::from(x), Rounding::NearestEven, Overflow::Saturate));
    DeviceMem::from_slice(&host, &wide.to_vec().unwrap().into_iter().map(encode).collect::<Vec<_>>()).unwrap()
}

/// The result of an arithmetic, in a format.
fn product<T: Scalar>(gemm: &Gemm<'_>, a: &TensorRef<'_>, b: &TensorRef<'_>, [m, n]: [usize; 2]) -> DeviceMem<T> {
    let mut d = DeviceMem::<T>::new(&Device::host(), m * n).unwrap();
    gemm.run(a, b, &mut d.tensor_mut(&[m, n]).unwrap()).unwrap();
    d
}

const SHAPE: [usize; 3] = [13, 21, 96];

/// Every model of operands `A` and `B`: its result passes the bound of its chip, tightly enough to mean something, and is found to be bit-exact.
fn of_every_model<A: Scalar, B: Scalar, D: Scalar>(ranges: &[[f32; 2]]) {
    let [m, n, k] = SHAPE;
    for (model, (i, &range)) in
        Model::all().filter(|m| m.input().dtypes() == (A::DTYPE, B::DTYPE)).flat_map(|m| ranges.iter().enumerate().map(move |r| (m, r)))
    {
        let (a, b) = (numbers::<A>(m * k, range, 1), numbers::<B>(k * n, range, 2));
        let (a, b) = (a.tensor(&[m, k]).unwrap(), b.tensor(&[k, n]).unwrap());
        let d = product::<D>(&Gemm::new(model), &a, &b, [m, n]);
        let d = d.tensor(&[m, n]).unwrap();
        // The worst case is asked of one range, the last.
        for confidence in [Confidence::default(), Confidence::WorstCase].into_iter().take(if i + 1 == ranges.len() { 2 } else { 1 }) {
            let check = Check::gemm(&a, &b, &d).arch(model.arch()).confidence(confidence);
            let check = if model.accumulator() == DType::F16 { check.accumulator(DType::F16) } else { check };
            let report = check.run().unwrap();
            let exactness = report.exactness.clone().unwrap();
            assert_eq!(exactness.differing, 0, "{model} {range:?}\n{report}");
            assert!(exactness.order.unwrap() == "k ascending", "{report}");
            let converted = matches!(model.input(), Input::F16AsBf16 | Input::F16AsBf16Truncated);
            // f16 cannot hold sums of the smallest products: a result of zeros is right then.
            let vanishes = model.accumulator() == DType::F16 && range[1] < 0.001;
            assert!(report.verdict() == Verdict::Pass || converted || vanishes, "{model} {range:?}\n{report}");
        }
    }
}

#[test]
fn models_of_every_chip_are_within_their_bounds_and_bit_exact() {
    let ranges = [[-1.0, 1.0], [0.0, 1.0], [-64.0, 64.0]];
    let subnormal = [2f32.powi(-16), 2f32.powi(-13)];
    of_every_model::<F16, F16, F16>(&[ranges[0], ranges[1], subnormal]);
    of_every_model::<F16, F16, f32>(&ranges);
    of_every_model::<Bf16, Bf16, Bf16>(&ranges);
    of_every_model::<F8E4M3Fnuz, F8E4M3Fnuz, f32>(&ranges);
    of_every_model::<Tf32, Tf32, f32>(&ranges);
    of_every_model::<F8E4M3, F8E4M3, F16>(&ranges[..2]);
    of_every_model::<F8E4M3, F8E5M2, f32>(&ranges);
    of_every_model::<f32, f32, f32>(&ranges);
}

/// Whether a result without the last products of its sums would pass is part of the report of a pass.
#[test]
fn the_last_products_are_missed_where_they_add_less_than_the_bound() {
    let [m, n] = [16, 32];
    for (k, last, by, found, reason) in [
        (64, [-1.0, 1.0], 16, Some(true), "a quarter of the products"),
        (72, [-1.0, 1.0], 8, Some(true), "what the last tile holds"),
        (64, [1e-4, 1e-4], 16, Some(true), "products that change which of two f16 is the nearer one, here and there"),
        (64, [1e-7, 1e-7], 16, Some(false), "products that f32 may lose"),
        (64, [0.0, 0.0], 16, None, "products with zeros: nothing is left out"),
        (16, [-1.0, 1.0], 16, None, "one tile"),
    ] {
        let a: Vec<F16> = numbers::<F16>(m * k, [0.5, 1.0], 1).to_vec().unwrap();
        let last = numbers::<F16>(m * k, last, 3).to_vec().unwrap();
        let a: Vec<F16> = (0..m * k).map(|i| if i % k < k - by { a[i] } else { last[i] }).collect();
        let a = DeviceMem::from_slice(&Device::host(), &a).unwrap();
        let b = numbers::<F16>(k * n, [0.5, 1.0], 2);
        let (a, right) = (a.tensor(&[m, k]).unwrap(), b.tensor(&[k, n]).unwrap());
        let d = product::<F16>(&Gemm::new(Accumulate::F64), &a, &right, [m, n]);
        let d = d.tensor(&[m, n]).unwrap();
        let report = Check::gemm(&a, &right, &d).run().unwrap().report;
        let of = |yes: bool| if found == Some(yes) { vec![Mutation::Shortened(by)] } else { Vec::new() };
        assert_eq!((report.verdict, &report.found, &report.missed), (Verdict::Pass, &of(true), &of(false)), "{reason}");
        // B given as [n, k], which has k as its last axis.
        let values = b.to_vec().unwrap();
        let turned: Vec<F16> = (0..n * k).map(|i| values[i % k * n + i / k]).collect();
        let turned = DeviceMem::from_slice(&Device::host(), &turned).unwrap();
        let turned = turned.tensor(&[n, k]).unwrap();
        assert_eq!(Check::gemm(&a, &turned, &d).transpose_b(true).run().unwrap().report, report, "{reason}, transposed");
    }
}

/// Results that overflow are all infinite, also those of a kernel that leaves out products.
#[test]
fn the_last_products_are_missed_where_results_overflow() {
    let [m, n, k] = [8, 8, 64];
    let a = numbers::<F16>(m * k, [60.0, 80.0], 1);
    let b = numbers::<F16>(k * n, [60.0, 80.0], 2);
    let d = DeviceMem::from_slice(&Device::host(), &vec![F16::from_f32(f32::INFINITY); m * n]).unwrap();
    let report = Check::gemm(a.tensor(&[m, k]).unwrap(), b.tensor(&[k, n]).unwrap(), d.tensor(&[m, n]).unwrap()).run().unwrap();
    assert_eq!((report.verdict(), report.report.overflows), (Verdict::Untrusted, 64), "{report}");
    // A third of the rows overflows, with 16 products less as well; in the others these are 2^-14, lost in rounding.
    let rows = |i: usize| {
        if i / k < 2 {
            64.0
        } else if i % k < 48 {
            1.0
        } else {
            1.0 / 16384.0
        }
    };
    let a = DeviceMem::from_slice(&Device::host(), &(0..m * k).map(|i| F16::from_f32(rows(i))).collect::<Vec<_>>()).unwrap();
    let b = DeviceMem::from_slice(&Device::host(), &vec![F16::from_f32(64.0); k * n]).unwrap();
    let right: Vec<F16> = (0..m * n).map(|i| F16::from_f32(if i / n < 2 { f32::INFINITY } else { 48.0 * 64.0 })).collect();
    let d = DeviceMem::from_slice(&Device::host(), &right).unwrap();
    let report = Check::gemm(a.tensor(&[m, k]).unwrap(), b.tensor(&[k, n]).unwrap(), d.tensor(&[m, n]).unwrap()).run().unwrap();
    assert_eq!((report.verdict(), report.report.missed), (Verdict::Pass, vec![Mutation::Shortened(16)]));
}

/// The result of a model, k taken in another order, made by hand.
#[test]
fn other_orders_are_recognised() {
    let [m, n, k] = [13, 70, 64];
    let model = Model::new(Arch::Gfx908, Input::F16).unwrap();
    let (a, b) = (numbers::<F16>(m * k, [-1.0, 1.0], 1), numbers::<F16>(k * n, [-1.0, 1.0], 2));
    let wide = |x: &DeviceMem<F16>| x.to_vec().unwrap().iter().map(|x| x.to_f32()).collect::<Vec<_>>();
    let (wide_a, wide_b) = (wide(&a), wide(&b));
    let part = |ks: &[usize]| {
        let left: Vec<f32> = (0..m).flat_map(|i| ks.iter().map(move |&x| (i, x))).map(|(i, x)| wide_a[i * k + x]).collect();
        let right: Vec<f32> = ks.iter().flat_map(|&x| wide_b[x * n..][..n].to_vec()).collect();
        let mut c = vec![0.0; m * n];
        gemm_tile(model, m, n, ks.len(), &left, ks.len(), &right, n, &mut c, n);
        c
    };
    let packed: Vec<usize> = (0..k).map(|i| i / 16 * 16 + i / 4 % 2 * 8 + i / 8 % 2 * 4 + i % 4).collect();
    let halves = part(&(0..32).collect::<Vec<_>>()).into_iter().zip(part(&(32..64).collect::<Vec<_>>())).map(|(x, y)| x + y).collect();
    let wave = |which: usize| part(&(0..k).filter(|i| i / 16 % 2 == which).collect::<Vec<_>>());
    let waves = wave(0).into_iter().zip(wave(1)).map(|(x, y)| x + y).collect();
    let (a, b) = (a.tensor(&[m, k]).unwrap(), b.tensor(&[k, n]).unwrap());
    for (result, split, words) in [
        (halves, 1, "yes: gfx908 f16, k in 2 parts, their sums added in f32"),
        (part(&packed), 1, "yes: gfx908 f16, k in packs of 8 for 2 rows of lanes"),
        (part(&(0..k).rev().collect::<Vec<_>>()), 1, "yes: gfx908 f16, k descending"),
        (part(&(0..k).map(|i| (3 - i / 16) * 16 + i % 16).collect::<Vec<_>>()), 1, "yes: gfx908 f16, k in tiles of 16, the last one first"),
        (waves, 1, "yes: gfx908 f16, k in tiles of 16 for 2 wavefronts in turn, their sums added in f32"),
        (part(&(0..k).map(|i| i * 5 % k).collect::<Vec<_>>()), 1, "no, of "),
        (part(&(0..k).collect::<Vec<_>>()), 4, "no, of 1 models"),
    ] {
        let d = DeviceMem::from_slice(&Device::host(), &result).unwrap();
        let d = d.tensor(&[m, n]).unwrap();
        let report = Check::gemm(&a, &b, &d).arch(Arch::Gfx908).split_k(split, None).run().unwrap();
        assert!(report.passed() && report.to_string().contains(&format!("\n  bit-exact  {words}")), "{words}\n{report}");
    }
}

/// Results whose epilogue is written by hand, in f32.
#[test]
fn what_follows_the_sum_is_recognised() {
    let [m, n, k] = [19, 70, 64];
    let model = Model::new(Arch::Gfx90a, Input::F16).unwrap();
    let (a, b) = (numbers::<F16>(m * k, [-1.0, 1.0], 1), numbers::<F16>(k * n, [-1.0, 1.0], 2));
    let (c, bias) = (numbers::<f32>(m * n, [-1.0, 1.0], 3), numbers::<f32>(n, [-1.0, 1.0], 4));
    let (a, b) = (a.tensor(&[m, k]).unwrap(), b.tensor(&[k, n]).unwrap());
    let sums = product::<f32>(&Gemm::new(model), &a, &b, [m, n]).to_vec().unwrap();
    let (cs, biases) = (c.to_vec().unwrap(), bias.to_vec().unwrap());
    let c = c.tensor(&[m, n]).unwrap();
    let (alpha, beta) = (1.1f32, 0.7f32);
    type Last<'a> = &'a dyn Fn(f32, f32, f32) -> f32;
    let rows: [(Last<'_>, [bool; 3], &str); 8] = [
        (&|s, c, y| alpha * s + beta * c + y, [true; 3], "yes: gfx90a f16, k ascending, then alpha, C and bias with a rounding each"),
        (&|s, c, y| alpha.mul_add(s, beta * c) + y, [true; 3], "yes: gfx90a f16, k ascending, then alpha in an fma, C and bias"),
        (&|s, c, y| beta.mul_add(c, alpha * s) + y, [true; 3], "yes: gfx90a f16, k ascending, then alpha, beta C in an fma, and bias"),
        (&|s, c, _| alpha * s + beta * c, [true, true, false], "yes: gfx90a f16, k ascending, then alpha, C and bias with a rounding each"),
        (&|s, _, y| alpha.mul_add(s, y), [true, false, true], "yes: gfx90a f16, k ascending, then alpha in an fma, C and bias"),
        (&|s, _, y| s + y, [false, false, true], "yes: gfx90a f16, k ascending, then alpha, C and bias with a rounding each"),
        (&|s, _, _| alpha * s, [true, false, false], "yes: gfx90a f16, k ascending, then alpha, C and bias with a rounding each"),
        (&|s, c, y| alpha * (s + y) + beta * c, [true; 3], "no, of "),
    ];
    for (last, [scaled, with_c, with_bias], words) in rows {
        for relu in [false, true] {
            let value = |i: usize| last(sums[i], cs[i], biases[i % n]);
            let d: Vec<f32> = (0..m * n).map(|i| if relu { value(i).max(0.0) } else { value(i) }).collect();
            let d = DeviceMem::from_slice(&Device::host(), &d).unwrap();
            let d = d.tensor(&[m, n]).unwrap();
            let mut check = Check::gemm(&a, &b, &d).arch(Arch::Gfx90a).alpha(if scaled { alpha.into() } else { 1.0 });
            check = if with_c { check.beta(beta.into(), &c) } else { check };
            check = if with_bias { check.bias(&bias) } else { check };
            let report = check.epilogue(if relu { Epilogue::Relu } else { Epilogue::None }).run().unwrap();
            assert!(report.to_string().contains(&format!("\n  bit-exact  {words}")), "{words}, relu {relu}\n{report}");
        }
    }
}

/// Accumulators that start with beta C, by chains of instructions written by hand; also with k in parts, of which the first starts so.
#[test]
fn accumulators_that_start_with_c_are_recognised() {
    let [m, n, k] = [19, 70, 64];
    let (a, b) = (numbers::<F16>(m * k, [-1.0, 1.0], 1), numbers::<F16>(k * n, [-1.0, 1.0], 2));
    let (c, bias) = (numbers::<f32>(m * n, [-1.0, 1.0], 3), numbers::<f32>(n, [-1.0, 1.0], 4));
    let wide = |x: &DeviceMem<F16>| x.to_vec().unwrap().iter().map(|x| x.to_f32()).collect::<Vec<_>>();
    let (left, right, cs, biases) = (wide(&a), wide(&b), c.to_vec().unwrap(), bias.to_vec().unwrap());
    let (a, b, c) = (a.tensor(&[m, k]).unwrap(), b.tensor(&[k, n]).unwrap(), c.tensor(&[m, n]).unwrap());
    let columns = |from: usize, to: usize| (0..m).flat_map(|i| left[i * k + from..i * k + to].to_vec()).collect::<Vec<f32>>();
    for arch in [Arch::Gfx908, Arch::Gfx90a, Arch::Gfx942] {
        let model = Model::new(arch, Input::F16).unwrap();
        let chain = |start: &[f32], from: usize, to: usize| {
            let mut sums = start.to_vec();
            gemm_tile(model, m, n, to - from, &columns(from, to), to - from, &right[from * n..], n, &mut sums, n);
            sums
        };
        let zeros = vec![0.0; m * n];
        for (beta, parts, with_bias, words) in [
            (1.0f32, 1, false, "k ascending, in accumulators that start with beta C, then bias"),
            (0.7, 1, true, "k ascending, in accumulators that start with beta C, then bias"),
            (0.7, 2, true, "k in 2 parts, their sums added in f32, in accumulators that start with beta C, then bias"),
        ] {
            let start: Vec<f32> = cs.iter().map(|c| beta * c).collect();
            let length = k / parts;
            let mut d = chain(&start, 0, length);
            for part in 1..parts {
                d.iter_mut().zip(chain(&zeros, part * length, (part + 1) * length)).for_each(|(d, x)| *d += x);
            }
            if with_bias {
                d.iter_mut().enumerate().for_each(|(i, d)| *d += biases[i % n]);
            }
            let d = DeviceMem::from_slice(&Device::host(), &d).unwrap();
            let d = d.tensor(&[m, n]).unwrap();
            let check = || Check::gemm(&a, &b, &d).arch(arch).beta(beta.into(), &c);
            let check = || if with_bias { check().bias(&bias) } else { check() };
            let report = check().run().unwrap();
            assert!(report.passed() && report.to_string().contains(&format!("\n  bit-exact  yes: {model}, {words}")), "{words}\n{report}");
            // With another factor of A·B nothing gives that.
            assert!(check().alpha(2.0).run().unwrap().exactness.unwrap().differing > 0, "{arch}");
        }
    }
}

/// The matrices of a batch are summed apart, and one C serves them all.
#[test]
fn accumulators_of_a_batch_start_with_its_c() {
    let [batch, m, n, k] = [2, 5, 9, 32];
    let model = Model::new(Arch::Gfx908, Input::F16).unwrap();
    let (a, b) = (numbers::<F16>(batch * m * k, [-1.0, 1.0], 1), numbers::<F16>(n * k, [-1.0, 1.0], 2));
    let c = numbers::<f32>(m * n, [-1.0, 1.0], 3);
    let wide = |x: &DeviceMem<F16>| x.to_vec().unwrap().iter().map(|x| x.to_f32()).collect::<Vec<_>>();
    let (left, turned, cs) = (wide(&a), wide(&b), c.to_vec().unwrap());
    let right: Vec<f32> = (0..k * n).map(|i| turned[i % n * k + i / n]).collect();
    let mut d = [cs.clone(), cs].concat();
    for (number, d) in d.chunks_mut(m * n).enumerate() {
        gemm_tile(model, m, n, k, &left[number * m * k..][..m * k], k, &right, n, d, n);
    }
    let d = DeviceMem::from_slice(&Device::host(), &d).unwrap();
    let (a, b) = (a.tensor(&[batch, m, k]).unwrap(), b.tensor(&[n, k]).unwrap());
    let (c, d) = (c.tensor(&[m, n]).unwrap(), d.tensor(&[batch, m, n]).unwrap());
    let report = Check::gemm(&a, &b, &d).transpose_b(true).beta(1.0, &c).arch(Arch::Gfx908).run().unwrap();
    assert!(report.to_string().contains("yes: gfx908 f16, k ascending, in accumulators that start with beta C"), "{report}");
}

/// An earlier output: a pass that it would share says nothing, and a failure may hold it.
#[test]
fn an_earlier_output_is_held_against_the_bounds() {
    let [m, n, k] = [16, 24, 64];
    let (a, b) = (numbers::<F16>(m * k, [-1.0, 1.0], 1), numbers::<F16>(k * n, [-1.0, 1.0], 2));
    let (a, b) = (a.tensor(&[m, k]).unwrap(), b.tensor(&[k, n]).unwrap());
    let right = product::<F16>(&Gemm::new(Accumulate::F32), &a, &b, [m, n]).to_vec().unwrap();
    let old = numbers::<F16>(m * n, [-4.0, 4.0], 3).to_vec().unwrap();
    let mut partly = right.clone();
    partly[5 * n..6 * n].copy_from_slice(&old[5 * n..6 * n]);
    let mut other = partly.clone();
    other[0] = F16::from_f32(99.0);
    for (result, earlier, verdict, stale, reason) in [
        (&right, &old, Verdict::Pass, None, "an output of other operands"),
        (&right, &right, Verdict::Untrusted, None, "the same output: a kernel that writes nothing would pass"),
        (&partly, &old, Verdict::Fail, Some((24, 24)), "a row that was not written"),
        (&other, &old, Verdict::Fail, Some((24, 25)), "and an element that is wrong otherwise"),
        (&partly, &right, Verdict::Fail, Some((0, 24)), "nothing of the earlier output"),
    ] {
        let [d, earlier] = [result, earlier].map(|x| DeviceMem::from_slice(&Device::host(), x).unwrap());
        let (d, earlier) = (d.tensor(&[m, n]).unwrap(), earlier.tensor(&[m, n]).unwrap());
        let report = Check::gemm(&a, &b, &d).earlier(&earlier).run().unwrap();
        assert_eq!((report.verdict(), report.stale), (verdict, stale.map(|(stale, _)| stale)), "{reason}\n{report}");
        let text = report.to_string();
        let line = stale.map(|(stale, all)| format!("earlier    {stale} of {all} elements beyond their bounds hold the earlier output"));
        assert!(line.is_none_or(|line| text.contains(&line)), "{reason}\n{text}");
        assert_eq!(text.contains("the earlier output would have passed"), verdict == Verdict::Untrusted, "{reason}\n{text}");
        assert!(!text.contains("zeros would have passed"), "{reason}\n{text}");
        let sampled = Check::gemm(&a, &b, &d).earlier(&earlier).freivalds(8).unwrap();
        assert_eq!(sampled.verdict, verdict, "{reason}\n{sampled}");
    }
    let host = Device::host();
    let d = DeviceMem::from_slice(&host, &right).unwrap();
    let (narrow, wide) =
        (DeviceMem::from_slice(&host, &[F16::ZERO; 4]).unwrap(), DeviceMem::from_slice(&host, &vec![0f32; m * n]).unwrap());
    let d = d.tensor(&[m, n]).unwrap();
    let error = |check: Check<'_>| [check.run().unwrap_err().to_string(), check.freivalds(2).unwrap_err().to_string()];
    for text in error(Check::gemm(&a, &b, &d).earlier(&narrow)) {
        assert!(text.contains("the earlier output") && text.contains("[4]"), "{text}");
    }
    // Also where the result fails.
    for text in error(Check::gemm(&a, &b, &d).alpha(2.0).earlier(&narrow)) {
        assert!(text.contains("the earlier output") && text.contains("[4]"), "{text}");
    }
    for text in error(Check::gemm(&a, &b, &d).earlier(wide.tensor(&[m, n]).unwrap())) {
        assert!(text.contains("the earlier output") && text.contains("f32"), "{text}");
    }
}

#[test]
fn where_a_result_departs_is_named() {
    let [m, n, k] = [20, 80, 32];
    let (a, b) = (numbers::<F16>(m * k, [-1.0, 1.0], 1), numbers::<F16>(k * n, [-1.0, 1.0], 2));
    let (a, b) = (a.tensor(&[m, k]).unwrap(), b.tensor(&[k, n]).unwrap());
    let mut d = product::<F16>(&Gemm::new(Model::new(Arch::Gfx90a, Input::F16).unwrap()), &a, &b, [m, n]).to_vec().unwrap();
    // Outside the piece that is tried first; and one ulp.
    d[18 * n + 70] = F16::from_bits(d[18 * n + 70].to_bits() ^ 1);
    let at = |d: &[F16]| {
        let d = DeviceMem::from_slice(&Device::host(), d).unwrap();
        Check::gemm(&a, &b, d.tensor(&[m, n]).unwrap()).arch(Arch::Gfx90a).run().unwrap()
    };
    let report = at(&d);
    let exactness = report.exactness.clone().unwrap();
    assert_eq!((exactness.differing, exactness.first), (1, Some(vec![18, 70])), "{report}");
    d[3 * n + 1] = F16::from_f32(d[3 * n + 1].to_f32() + 0.25);
    let report = at(&d);
    assert_eq!((report.verdict(), report.report.mismatches), (Verdict::Fail, 2), "{report}");
    assert_eq!((report.within_worst_case, &report.report.first[0].coordinates), (Some(false), &vec![3, 1]));
    let error = report.clone().into_result().unwrap_err();
    assert_eq!(format!("{error:?}"), report.to_string());
}

#[test]
fn what_is_known_of_the_kernel_decides() {
    let host = Device::host();
    let k = 1 << 16;
    let (a, b) = (DeviceMem::from_slice(&host, &vec![0.1f32; k]).unwrap(), DeviceMem::from_slice(&host, &vec![1.0f32; k]).unwrap());
    let (a, b) = (a.tensor(&[1, k]).unwrap(), b.tensor(&[k, 1]).unwrap());
    let d = product::<f32>(&Gemm::new(Accumulate::F32Fma), &a, &b, [1, 1]);
    let d = d.tensor(&[1, 1]).unwrap();
    let report = Check::gemm(&a, &b, &d).run().unwrap();
    assert_eq!(
        (report.verdict(), report.within_worst_case),
        (Verdict::Fail, Some(true)),
        "constant operands: errors point one way\n{report}"
    );
    assert!(Check::gemm(&a, &b, &d).confidence(Confidence::WorstCase).run().unwrap().into_result().is_ok());

    // Sums in f16, one product at a time.
    let (a, b) = (numbers::<F16>(512, [0.0, 1.0], 1), numbers::<F16>(512, [0.0, 1.0], 2));
    let narrow = a
        .to_vec()
        .unwrap()
        .iter()
        .zip(b.to_vec().unwrap())
        .fold(F16::ZERO, |s, (x, y)| F16::from_f32(s.to_f32() + x.to_f32() * y.to_f32()));
    let (a, b) = (a.tensor(&[1, 512]).unwrap(), b.tensor(&[512, 1]).unwrap());
    let d = DeviceMem::from_slice(&host, &[narrow]).unwrap();
    let d = d.tensor(&[1, 1]).unwrap();
    assert_eq!(Check::gemm(&a, &b, &d).run().unwrap().verdict(), Verdict::Fail, "not by f32");
    assert_eq!(Check::gemm(&a, &b, &d).accumulator(DType::F16).run().unwrap().verdict(), Verdict::Pass);

    // Inputs that MI200 flushes.
    let tiny = numbers::<F16>(64 * 16, [2f32.powi(-20), 2f32.powi(-15)], 3);
    let one = numbers::<F16>(64 * 16, [0.5, 1.0], 4);
    let (a, b) = (tiny.tensor(&[16, 64]).unwrap(), one.tensor(&[64, 16]).unwrap());
    let d = product::<f32>(&Gemm::new(Model::new(Arch::Gfx90a, Input::F16).unwrap()), &a, &b, [16, 16]);
    let d = d.tensor(&[16, 16]).unwrap();
    assert_eq!(Check::gemm(&a, &b, &d).run().unwrap().verdict(), Verdict::Fail, "all is lost");
    let report = Check::gemm(&a, &b, &d).arch(Arch::Gfx90a).run().unwrap();
    assert_eq!(report.verdict(), Verdict::Untrusted, "as it should be, but nothing is shown\n{report}");
}

#[test]
fn alpha_c_bias_and_epilogue_belong_to_the_bound() {
    let host = Device::host();
    let [m, n, k] = SHAPE;
    let (a, b) = (numbers::<F16>(m * k, [-1.0, 1.0], 1), numbers::<F16>(k * n, [-1.0, 1.0], 2));
    let (c, bias) = (numbers::<F16>(m * n, [-64.0, 64.0], 3), numbers::<f32>(n, [-64.0, 64.0], 4));
    let sums: Vec<f32> = product(
        &Gemm::new(Accumulate::F32).transpose_a(true).transpose_b(true),
        &a.tensor(&[k, m]).unwrap(),
        &b.tensor(&[n, k]).unwrap(),
        [m, n],
    )
    .to_vec()
    .unwrap();
    // As a kernel may do it, in f32.
    let epilogue = |(i, x): (usize, f32)| (1.5 * x + 0.5 * c.to_vec().unwrap()[i].to_f32() + bias.to_vec().unwrap()[i % n]).max(0.0);
    let result: Vec<f32> = sums.into_iter().enumerate().map(epilogue).collect();
    let d = DeviceMem::from_slice(&host, &result).unwrap();
    let (at, bt, ct, d) = (a.tensor(&[k, m]).unwrap(), b.tensor(&[n, k]).unwrap(), c.tensor(&[m, n]).unwrap(), d.tensor(&[m, n]).unwrap());
    let check = || Check::gemm(&at, &bt, &d).transpose_a(true).transpose_b(true).alpha(1.5).beta(0.5, &ct).epilogue(Epilogue::Relu);
    let report = check().bias(&bias).arch(Arch::Gfx908).run().unwrap();
    assert!(report.clone().into_result().is_ok() && report.exactness.is_some_and(|exactness| exactness.tried > 0));
    assert_eq!(check().run().unwrap().verdict(), Verdict::Fail, "without the bias");
}

#[test]
fn convolutions_of_every_direction() {
    let host = Device::host();
    let param: ConvParam = "2 2 2 5 3 3 2 7 6 2 1 1 2 2 1 0 2".parse().unwrap();
    let model = Model::new(Arch::Gfx942, Input::F16).unwrap();
    for (direction, order, words) in [
        (Direction::Forward, KOrder::ChannelsFirst, "channels first"),
        (Direction::Forward, KOrder::ChannelsLast, "channels last"),
        (Direction::BackwardData, KOrder::ChannelsLast, "channels last"),
        (Direction::BackwardWeight, KOrder::ChannelsFirst, "channels first"),
    ] {
        let conv = Conv::new(param.clone(), direction, model).order(order);
        let [first, second, result] = conv.roles().map(|role| param.elements(role));
        let (x, y) = (numbers::<F16>(first, [-1.0, 1.0], 1), numbers::<F16>(second, [-1.0, 1.0], 2));
        let mut d = DeviceMem::<f32>::new(&host, result).unwrap();
        conv.run(&x, &y, &mut d.tensor_mut(&[result]).unwrap()).unwrap();
        let report = Check::conv(param.clone(), direction, &x, &y, &d).arch(Arch::Gfx942).run().unwrap();
        assert!(report.clone().into_result().is_ok(), "{report}");
        assert!(report.to_string().contains(&format!("bit-exact  yes: gfx942 f16, {words}")), "{report}");
    }
}

/// A convolution without its last products is one whose filter (gradient of the filter: gradient of the output) ends with zeros, made by hand in a layout of channels first.
#[test]
fn the_last_products_of_convolutions_are_left_out() {
    let host = Device::host();
    let plain: ConvParam = "2 1 2 8 4 3 3 6 6 1 1 1 1 1 1 1 1".parse().unwrap();
    let plain = plain.with_layouts("ngchw", "gkcyx", "ngkhw").unwrap();
    let moved = plain.clone().with_layouts("nhwgc", "kyxgc", "nhwgk").unwrap();
    for (direction, terms) in [(Direction::Forward, 36), (Direction::BackwardData, 72), (Direction::BackwardWeight, 72)] {
        let conv = |param: &ConvParam| Conv::new(param.clone(), direction, Arithmetic::from(Accumulate::F64));
        let [first, second, result] = conv(&plain).roles().map(|role| plain.elements(role));
        let (x, y) = (numbers::<f32>(first, [0.5, 1.0], 1), numbers::<f32>(second, [0.5, 1.0], 2));
        let run = |param: &ConvParam, y: &DeviceMem<f32>| {
            let mut d = DeviceMem::<f64>::new(&host, result).unwrap();
            conv(param).run(&x, y, &mut d.tensor_mut(&[result]).unwrap()).unwrap();
            d.to_vec().unwrap()
        };
        let d = DeviceMem::from_slice(&host, &run(&plain, &y)).unwrap();
        let by = if terms % TILE == 0 { TILE } else { terms % TILE };
        let check = Check::conv(plain.clone(), direction, &x, &y, &d);
        let shortened = shortened::exact(&check.problem, by, Accumulate::F64.into(), &[result]).unwrap().unwrap().to_vec().unwrap();
        // In these layouts an element's place within its sum is its index without what the sum does not run over.
        let (per, k) = (9, 8);
        let cut: Vec<f32> = y
            .to_vec()
            .unwrap()
            .into_iter()
            .enumerate()
            .map(|(i, y)| {
                let place = match direction {
                    Direction::Forward => i % terms,
                    Direction::BackwardData => i / 36 * per + i % per,
                    Direction::BackwardWeight => i / (k * 36) * 36 + i % 36,
                };
                if place >= terms - by { 0.0 } else { y }
            })
            .collect();
        assert_eq!(shortened, run(&plain, &DeviceMem::from_slice(&host, &cut).unwrap()), "{direction:?}");
        let report = check.run().unwrap().report;
        assert_eq!((report.verdict, report.found), (Verdict::Pass, vec![Mutation::Shortened(by)]), "{direction:?}");

        // Another layout has the same products in its sums: as many elements differ, if others.
        let d = DeviceMem::from_slice(&host, &run(&moved, &y)).unwrap();
        let check = Check::conv(moved.clone(), direction, &x, &y, &d);
        let other = shortened::exact(&check.problem, by, Accumulate::F64.into(), &[result]).unwrap().unwrap().to_vec().unwrap();
        let whole = d.to_vec().unwrap();
        assert!(other.iter().zip(&whole).all(|(s, w)| s <= w) && other != whole, "{direction:?}");
        assert!(shortened::exact(&check.problem, terms, Accumulate::F64.into(), &[result]).unwrap().is_none());
    }
}

/// What a GEMM may have and a convolution has not, and numbers that are no probabilities.
#[test]
fn settings_that_would_be_ignored_are_refused() {
    let host = Device::host();
    let param: ConvParam = "1 1 1 1 1 3 8 1 1 0 0".parse().unwrap();
    let (x, w, y) = (
        DeviceMem::from_slice(&host, &[1.0f32; 8]),
        DeviceMem::from_slice(&host, &[1.0f32; 3]),
        DeviceMem::from_slice(&host, &[3.0f32; 6]),
    );
    let (x, w, y) = (x.unwrap(), w.unwrap(), y.unwrap());
    let conv = || Check::conv(param.clone(), Direction::Forward, &x, &w, &y);
    let neutral = conv().alpha(1.0).beta(0.0, &y).epilogue(Epilogue::None).transpose_a(false).transpose_b(false);
    assert!(neutral.run().unwrap().passed() && neutral.freivalds(2).unwrap().passed());
    for (check, what) in [
        (conv().alpha(2.0), "alpha"),
        (conv().alpha(f64::NAN), "alpha"),
        (conv().beta(1.0, &y), "beta and C"),
        (conv().bias(&w), "a bias"),
        (conv().epilogue(Epilogue::Relu), "an epilogue"),
        (conv().transpose_a(true), "a transposed operand"),
        (conv().transpose_b(true).alpha(2.0), "a transposed operand"),
    ] {
        for error in [check.run().unwrap_err(), check.freivalds(2).unwrap_err(), check.bound().unwrap_err()] {
            assert!(matches!(error, Error::Unsupported { .. }), "{error}");
            assert!(error.to_string().starts_with(what) && error.to_string().contains("the check of a convolution"), "{error}");
        }
    }
    for p in [0.0, -0.5, 1.0, 7.0, f64::NAN, f64::INFINITY] {
        let check = conv().confidence(Confidence::Exceeded(p));
        for error in [check.run().unwrap_err(), check.freivalds(2).unwrap_err(), check.bound().unwrap_err()] {
            assert!(
                error.to_string().contains("probability that a bound is exceeded cannot be")
                    && error.to_string().contains("between 0 and 1"),
                "{error}"
            );
        }
    }
    assert!(conv().split_k(0, None).run().unwrap().passed(), "0 parts count as one");
}

#[test]
fn what_cannot_be_checked_is_an_error() {
    let host = Device::host();
    let x = DeviceMem::from_slice(&host, &[1.0f32; 4]).unwrap();
    let integers = DeviceMem::from_slice(&host, &[1i32; 4]).unwrap();
    let nothing = x.strided(Layout::strided(&[1 << 32, 1 << 32, 0, 2], &[0, 0, 2, 1], 0).unwrap()).unwrap();
    let (x, integers) = (x.tensor(&[2, 2]).unwrap(), integers.tensor(&[2, 2]).unwrap());
    for (check, words) in [
        (Check::gemm(&nothing, &x, &nothing), "elements cannot be 0: a check of nothing is not a pass"),
        (Check::gemm(&x, &x, &integers), "floating-point format, found i32"),
        (Check::gemm(&x, &x, &x).accumulator(DType::I32), "an accumulator whose error is bounded"),
        (Check::gemm(&x, &x, &x).accumulator(DType::F8E8M0), "a floating-point format with a sign"),
        (Check::gemm(&x, &x, &x).split_k(2, Some(DType::F8E8M0)), "a floating-point format with a sign"),
        (
            Check::gemm(&integers, &x, &x).arch(Arch::Gfx908),
            "a check of i32 by f32 on the matrix cores of gfx908 is not supported by the models here, which take f32, f16, bf16; ",
        ),
        (
            Check::gemm(&x, &x, &x).arch(Arch::Sm75),
            "a check of f32 by f32 on the tensor cores of sm_75 is not supported by the models here, which take f16; without a chip",
        ),
    ] {
        let error = check.run().unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}

/// Operands that have more elements than any memory holds, of which one is stored.
#[test]
fn what_no_memory_holds_is_an_error() {
    let host = Device::host();
    let (x, d) = (DeviceMem::from_slice(&host, &[1.0f32]).unwrap(), DeviceMem::<f32>::new(&host, 1).unwrap());
    let of = |shape: &[usize]| x.strided(Layout::strided(shape, &[0, 0], 0).unwrap()).unwrap();
    let (a, b, d) = (of(&[1, 1 << 50]), of(&[1 << 50, 1]), d.tensor(&[1, 1]).unwrap());
    let check = Check::gemm(&a, &b, &d);
    for (error, at_least) in [(check.run().unwrap_err(), 1usize << 52), (check.freivalds(2).unwrap_err(), 1 << 52)] {
        assert!(matches!(error, Error::OutOfMemory { bytes, .. } if bytes >= at_least), "{error}");
    }
}

#[test]
fn the_limits_of_a_clamp_are_numbers_in_their_order() {
    let host = Device::host();
    let x = DeviceMem::from_slice(&host, &[1.0f32; 4]).unwrap();
    let x = x.tensor(&[2, 2]).unwrap();
    let clamped = |low, high| Check::gemm(&x, &x, &x).epilogue(Epilogue::Clamp { low, high });
    for (low, high, words) in [
        (5.0, 1.0, "clamp cannot be from 5 to 1: its limits are numbers, the lower one first"),
        (f64::NAN, 1.0, "clamp cannot be from NaN to 1"),
        (0.0, f64::NAN, "clamp cannot be from 0 to NaN"),
        (f64::INFINITY, f64::NEG_INFINITY, "clamp cannot be from inf to -inf"),
    ] {
        for error in [clamped(low, high).run().unwrap_err(), clamped(low, high).bound().unwrap_err()] {
            assert!(error.to_string().starts_with(words), "{error}");
        }
    }
    for (low, high, reason) in [(0.0, 1.0, "1 of 2"), (1.0, 1.0, "one number"), (f64::NEG_INFINITY, 1.0, "no lower limit")] {
        assert!(clamped(low, high).run().unwrap().passed(), "{reason}");
    }
}

/// Whatever the sums are, they are beyond: a kernel that stops its loop over k too early gives the same.
#[test]
fn a_clamp_that_hides_all_sums_shows_nothing() {
    let [m, n, k] = [8, 8, 64];
    let (a, b) = (numbers::<F16>(m * k, [0.5, 1.0], 1), numbers::<F16>(k * n, [0.5, 1.0], 2));
    let (a, b) = (a.tensor(&[m, k]).unwrap(), b.tensor(&[k, n]).unwrap());
    // Sums are about 36, most of them below 37.
    for (high, verdict) in [(6.0, Verdict::Untrusted), (37.0, Verdict::Pass), (1e3, Verdict::Pass)] {
        let epilogue = Epilogue::Clamp { low: 1.0, high };
        let d = product::<f32>(&Gemm::new(Accumulate::F32).epilogue(epilogue), &a, &b, [m, n]);
        let d = d.tensor(&[m, n]).unwrap();
        let report = Check::gemm(&a, &b, &d).epilogue(epilogue).run().unwrap();
        assert_eq!(report.verdict(), verdict, "{high}\n{report}");
        assert_eq!((report.report.clamped == 64, report.report.clamped == 0), (high == 6.0, high == 1e3), "{report}");
        let words = "64 of 64 elements that are not zero are limits of the clamp: their sums are not checked";
        assert_eq!(report.report.warnings(), if high == 6.0 { vec![words] } else { Vec::new() });
    }
}

/// One product of 1, then small ones of one sign, each too small to change an f32 sum: what a chip gives, and a plain loop, bit for bit.
#[test]
fn sums_of_one_sign_after_a_large_product() {
    let [m, n, k] = [16, 16, 2048];
    let small = |n: usize, stream: u32, first: &dyn Fn(usize) -> bool| {
        let values = numbers::<F16>(n, [2f32.powi(-14), 2f32.powi(-13)], stream).to_vec().unwrap();
        let values: Vec<F16> = (0..n).map(|i| if first(i) { F16::from_f32(1.0) } else { values[i] }).collect();
        DeviceMem::from_slice(&Device::host(), &values).unwrap()
    };
    let (a, b) = (small(m * k, 1, &|i| i % k == 0), small(k * n, 2, &|i| i < n));
    let (a, b) = (a.tensor(&[m, k]).unwrap(), b.tensor(&[k, n]).unwrap());
    let d = product::<f32>(&Gemm::new(Model::new(Arch::Gfx90a, Input::F16).unwrap()), &a, &b, [m, n]);
    let d = d.tensor(&[m, n]).unwrap();
    let report = Check::gemm(&a, &b, &d).arch(Arch::Gfx90a).run().unwrap();
    assert_eq!(
        (report.verdict(), report.beyond_probable, report.confidence),
        (Verdict::Pass, Some(256), Confidence::WorstCase),
        "{report}"
    );
    assert!(report.cause.is_none() && report.within_worst_case.is_none() && report.exactness.as_ref().unwrap().is_exact(), "{report}");
    let words = "bound is   worst case, since the result is bit-exact: 256 elements are beyond the probable bound";
    assert!(report.to_string().contains(words), "{report}");

    // Of a kernel of which nothing is known that is no pass, but no mistake is named either.
    for check in [Check::gemm(&a, &b, &d), Check::gemm(&a, &b, &d).arch(Arch::Gfx90a).bit_exact(false)] {
        let report = check.run().unwrap();
        assert_eq!((report.verdict(), report.within_worst_case, &report.cause), (Verdict::Fail, Some(true), &None), "{report}");
        assert!(report.to_string().contains("within the worst case: constant operands do this, and sums of one sign after"), "{report}");
        assert!(check.confidence(Confidence::WorstCase).run().unwrap().passed());
    }
    // Products of few distinct values: roundings repeat with them, and their errors add up.
    let k = 4096;
    let periodic = DeviceMem::from_slice(&Device::host(), &(0..k).map(|i| [0.1f32, 0.2, 0.3][i % 3]).collect::<Vec<_>>()).unwrap();
    let (row, column) = (periodic.tensor(&[1, k]).unwrap(), periodic.tensor(&[k, 1]).unwrap());
    let sum = product::<f32>(&Gemm::new(Accumulate::F32), &row, &column, [1, 1]);
    let report = Check::gemm(&row, &column, sum.tensor(&[1, 1]).unwrap()).run().unwrap();
    assert_eq!((report.verdict(), report.within_worst_case, &report.cause), (Verdict::Fail, Some(true), &None), "{report}");
    assert!(report.to_string().contains("and products of few distinct values (--worst-case allows it)"), "{report}");

    // What is beyond the worst case as well has a cause.
    let halves = DeviceMem::from_slice(&Device::host(), &vec![0.5f32; m * n]).unwrap();
    let report = Check::gemm(&a, &b, halves.tensor(&[m, n]).unwrap()).run().unwrap();
    assert!(report.within_worst_case == Some(false) && report.cause.is_some(), "{report}");
}

#[test]
fn random_vectors_find_what_is_wrong() {
    let host = Device::host();
    let [m, n, k] = [40, 50, 128];
    let (a, b) = (numbers::<F16>(m * k, [-1.0, 1.0], 1), numbers::<F16>(k * n, [-1.0, 1.0], 2));
    let (c, bias) = (numbers::<F16>(m * n, [-1.0, 1.0], 3), numbers::<f32>(n, [-1.0, 1.0], 4));
    let (a, b, c) = (a.tensor(&[k, m]).unwrap(), b.tensor(&[n, k]).unwrap(), c.tensor(&[m, n]).unwrap());
    let gemm = || Gemm::new(Accumulate::F32Fma).transpose_a(true).transpose_b(true).alpha(-1.5).beta(2.0, &c);
    let right = product::<f32>(&gemm().bias(&bias), &a, &b, [m, n]).to_vec().unwrap();
    let check = |d: &[f32], confidence| {
        let d = DeviceMem::from_slice(&host, d).unwrap();
        let d = d.tensor(&[m, n]).unwrap();
        let known = Check::gemm(&a, &b, &d).transpose_a(true).transpose_b(true).alpha(-1.5).beta(2.0, &c).bias(&bias);
        known.confidence(confidence).freivalds(8).unwrap()
    };
    for confidence in [Confidence::default(), Confidence::WorstCase] {
        let report = check(&right, confidence);
        assert!(report.verdict == Verdict::Pass && report.failing == 0, "{report}");
        assert!(report.worst_ratio > 1e-4 && report.threshold < report.norm / 10.0, "a threshold that means something\n{report}");
    }
    let of = |change: fn(&mut Vec<f32>)| {
        let mut d = right.clone();
        change(&mut d);
        check(&d, Confidence::default())
    };
    for (report, failing, reason) in [
        (of(|d| d[7 * 50 + 3] += 0.5), 1, "one element"),
        (of(|d| d[7 * 50 + 3] = f32::NAN), 1, "not a number"),
        (of(|d| d[7 * 50 + 3] = f32::INFINITY), 1, "infinite"),
        (of(|d| d[7 * 50..8 * 50].fill(0.0)), 1, "a row that was not written"),
        (of(|d| d.swap(7 * 50, 7 * 50 + 1)), 1, "two elements exchanged"),
        (of(|d| d.fill(0.0)), 40, "zeros"),
        (of(|d| d.iter_mut().for_each(|x| *x *= 1.01)), 40, "times 1.01"),
    ] {
        assert_eq!((report.verdict, report.failing), (Verdict::Fail, failing), "{reason}\n{report}");
        assert!(failing > 1 || report.worst_row == 7, "{reason}\n{report}");
    }
    let report = check(&right, Confidence::default());
    assert!((report.missed(4.0) - 0.197_412f64.powi(8)).abs() < 1e-10, "erf(1 / (4 √2))^8: {}", report.missed(4.0));
    assert!(report.to_string().starts_with("PASS  40 rows agree   by Freivalds' check with 8 vectors\n"), "{report}");

    // Sums in bf16: zeros pass as well.
    let d = DeviceMem::from_slice(&host, &right).unwrap();
    let d = d.tensor(&[m, n]).unwrap();
    let loose = Check::gemm(&a, &b, &d).transpose_a(true).transpose_b(true).alpha(-1.5).beta(2.0, &c).bias(&bias).accumulator(DType::Bf16);
    assert_eq!(loose.freivalds(8).unwrap().verdict, Verdict::Untrusted);
    let error = Check::gemm(&a, &b, &d).transpose_a(true).transpose_b(true).epilogue(Epilogue::Relu).freivalds(1).unwrap_err().to_string();
    assert!(error.contains("with an epilogue"), "{error}");
}
