//! Correct results at the edge of their bounds, each made by hand in the arithmetic that the check is told.

use super::*;

/// A number rounded to a format.
fn round(dtype: DType, x: f64) -> f64 {
    dtype.rounded(x)
}

/// Numbers of a format in logical order, as f64.
fn values<T: Scalar>(x: &DeviceMem<T>) -> Vec<f64> {
    x.to_vec().unwrap().into_iter().map(|x| T::DTYPE.decode(x.to_bits64())).collect()
}

/// Sums of some products of each element of an m x n product, one after the other, each rounded to `dtype`.
fn sums(dtype: DType, [a, b]: [&[f64]; 2], [m, n, k]: [usize; 3], range: std::ops::Range<usize>) -> Vec<f64> {
    let one = |i: usize, j: usize| range.clone().fold(0.0, |s, x| round(dtype, s + a[i * k + x] * b[x * n + j]));
    (0..m * n).map(|i| one(i / n, i % n)).collect()
}

fn tensor<T: Scalar>(values: &[f64]) -> DeviceMem<T> {
    let bits = |&x: &f64| T::from_bits64(T::DTYPE.encode(x, Rounding::NearestEven, Overflow::Ieee));
    DeviceMem::from_slice(&Device::host(), &values.iter().map(bits).collect::<Vec<_>>()).unwrap()
}

/// Sums in f16 below its normal numbers, then times 64: what underflow has lost is 64 times as large.
#[test]
fn alpha_multiplies_what_underflow_has_lost() {
    let [m, n, k] = [32, 32, 16];
    let range = [2f32.powf(-11.5), 2f32.powf(-10.5)];
    let (a, b) = (numbers::<F16>(m * k, range, 1), numbers::<F16>(k * n, range, 2));
    let found: Vec<f64> = sums(DType::F16, [&values(&a), &values(&b)], [m, n, k], 0..k).iter().map(|s| 64.0 * s).collect();
    let d = tensor::<F16>(&found);
    let (a, b, d) = (a.tensor(&[m, k]).unwrap(), b.tensor(&[k, n]).unwrap(), d.tensor(&[m, n]).unwrap());
    let check = || Check::gemm(&a, &b, &d).alpha(64.0).accumulator(DType::F16);
    for report in [check().run().unwrap(), check().confidence(Confidence::WorstCase).run().unwrap()] {
        assert!(report.passed(), "{report}");
    }
    // Of alpha below 1 the floor stays: what is rounded after it has the least number of f16 as well.
    let floor = |alpha| check().alpha(alpha).bound().unwrap().floor;
    assert!(floor(64.0) > 60.0 * floor(1.0) && floor(-64.0) == floor(64.0) && (floor(0.5) / floor(1.0) - 1.0).abs() < 1e-3);
}

/// Parts of k added in f16, below its normal numbers.
#[test]
fn parts_that_are_stored_may_underflow() {
    let ([m, n, k], parts) = ([16, 16, 1024], 16);
    let (a, b) = (numbers::<F16>(m * k, [0.0, 2f32.powi(-13)], 1), numbers::<F16>(k * n, [0.0, 2f32.powi(-13)], 2));
    let (left, right) = (values(&a), values(&b));
    let mut memory = vec![0.0; m * n];
    for part in 0..parts {
        let length = k / parts;
        let own = sums(DType::F32, [&left, &right], [m, n, k], part * length..(part + 1) * length);
        memory.iter_mut().zip(own).for_each(|(sum, x)| *sum = round(DType::F16, *sum + round(DType::F16, x)));
    }
    let d = tensor::<F16>(&memory);
    let (a, b, d) = (a.tensor(&[m, k]).unwrap(), b.tensor(&[k, n]).unwrap(), d.tensor(&[m, n]).unwrap());
    for confidence in [Confidence::default(), Confidence::WorstCase] {
        let report = Check::gemm(&a, &b, &d).split_k(parts, Some(DType::F16)).confidence(confidence).run().unwrap();
        assert!(report.passed(), "{report}");
    }
}

/// bf16 has numbers that f16 has not: an accumulator of the coarser format is rounded again.
#[test]
fn an_accumulator_with_smaller_numbers_than_the_result_is_rounded() {
    let [m, n, k] = [32, 32, 8];
    let range = [-(2f32.powi(-12)), 2f32.powi(-12)];
    let (a, b) = (numbers::<F16>(m * k, range, 1), numbers::<F16>(k * n, range, 2));
    let d = tensor::<F16>(&sums(DType::Bf16, [&values(&a), &values(&b)], [m, n, k], 0..k));
    let (a, b, d) = (a.tensor(&[m, k]).unwrap(), b.tensor(&[k, n]).unwrap(), d.tensor(&[m, n]).unwrap());
    let report = Check::gemm(&a, &b, &d).accumulator(DType::Bf16).confidence(Confidence::WorstCase).run().unwrap();
    assert!(report.passed() && report.report.bound.rounding == Some(DType::F16), "{report}");
    // The other way round f32 has every number of f16.
    let wide = tensor::<f32>(&sums(
        DType::F16,
        [&values(&numbers::<F16>(m * k, range, 1)), &values(&numbers::<F16>(k * n, range, 2))],
        [m, n, k],
        0..k,
    ));
    let wide = wide.tensor(&[m, n]).unwrap();
    let bound = Check::gemm(&a, &b, &wide).accumulator(DType::F16).bound().unwrap();
    assert!(bound.relative < 1e-12, "{bound:?}");
}

/// A kernel has alpha in its accumulator's format: 0.001 is off by a rounding there.
#[test]
fn alpha_may_be_rounded_itself() {
    let n = 64;
    let (a, b) = (numbers::<f32>(n, [1.0, 2.0], 1), numbers::<f32>(n, [1.0, 2.0], 2));
    let (left, right) = (values(&a), values(&b));
    let product = |i: usize| left[i / n] * right[i % n];
    let found: Vec<f64> = (0..n * n).map(|i| round(DType::F32, f64::from(0.001f32) * round(DType::F32, product(i)))).collect();
    let beyond = (0..n * n).filter(|&i| (found[i] / (0.001 * product(i)) - 1.0).abs() > 2.001 * 2f64.powi(-24)).count();
    assert!(beyond > 0, "more than two roundings");
    let d = tensor::<f32>(&found);
    let (a, b, d) = (a.tensor(&[n, 1]).unwrap(), b.tensor(&[1, n]).unwrap(), d.tensor(&[n, n]).unwrap());
    let check = |alpha| Check::gemm(&a, &b, &d).alpha(alpha).confidence(Confidence::WorstCase);
    let report = check(0.001).run().unwrap();
    assert!(report.passed(), "{report}");
    let gamma = |alpha| check(alpha).bound().unwrap().gamma / 2f64.powi(-24);
    for (alpha, roundings) in [(1.0, 1.0), (0.5, 2.0), (0.001f32.into(), 2.0), (0.001, 3.0), (-0.1, 3.0)] {
        assert!((gamma(alpha) - roundings).abs() < 1e-3, "alpha {alpha}: {}", gamma(alpha));
    }
}

/// 96 products in two parts, cut at a tile of 64: the first part has more than half.
#[test]
fn parts_are_cut_at_tiles() {
    let [m, n, k] = [2, 2, 96];
    // 1 and then numbers that are nearly all rounded up to its ulp.
    let row: Vec<f64> = (0..m * k).map(|i| if i % k == 0 { 1.0 } else { 2f64.powi(-24) * 1.001 }).collect();
    let (a, b) = (tensor::<f32>(&row), tensor::<f32>(&vec![1.0; k * n]));
    let (left, right) = (values(&a), values(&b));
    let parts = [0..64, 64..96].map(|range| sums(DType::F32, [&left, &right], [m, n, k], range));
    let d = tensor::<f32>(&(0..m * n).map(|i| parts[0][i] + parts[1][i]).collect::<Vec<_>>());
    let (a, b, d) = (a.tensor(&[m, k]).unwrap(), b.tensor(&[k, n]).unwrap(), d.tensor(&[m, n]).unwrap());
    let report = Check::gemm(&a, &b, &d).split_k(2, None).confidence(Confidence::WorstCase).run().unwrap();
    assert!(report.passed(), "{report}");
}

/// One channel, 49 positions of the filter: an instruction of four products takes one of them and three zeros.
#[test]
fn channels_may_be_filled_up_with_zeros() {
    let param: ConvParam = "2 1 1 1 1 7 7 7 7 1 1 1 1 0 0 0 0".parse().unwrap();
    // Each of the small ones is half an ulp of 1, and lost.
    let filter: Vec<f64> = (0..49).map(|i| if i == 0 { 1.0 } else { 2f64.powi(-24) }).collect();
    let (x, w, y) = (tensor::<F16>(&[1.0; 49]), tensor::<F16>(&filter), tensor::<f32>(&[1.0]));
    let report =
        Check::conv(param.clone(), Direction::Forward, &x, &w, &y).arch(Arch::Gfx908).confidence(Confidence::WorstCase).run().unwrap();
    assert!(report.passed(), "{report}");
    let roundings = |param: &str, direction: Direction, accumulator: Option<DType>| {
        let param: ConvParam = param.parse().unwrap();
        let [x, w, y] = direction.roles().map(|role| param.elements(role));
        let (x, w, y) = (tensor::<F16>(&vec![1.0; x]), tensor::<F16>(&vec![1.0; w]), tensor::<f32>(&vec![1.0; y]));
        let check = Check::conv(param, direction, &x, &w, &y).confidence(Confidence::WorstCase);
        let check = accumulator.map_or(check.clone().arch(Arch::Gfx908), |dtype| check.accumulator(dtype));
        (check.bound().unwrap().gamma * 2f64.powi(24)).round()
    };
    for (param, direction, accumulator, expected, reason) in [
        ("2 1 1 5 6 3 3 7 7 1 1 1 1 0 0 0 0", Direction::Forward, None, 18.0, "six channels in two groups of four, nine times"),
        ("2 1 1 5 6 3 3 7 7 1 1 1 1 0 0 0 0", Direction::BackwardData, None, 18.0, "five channels"),
        ("2 1 1 5 8 3 3 7 7 1 1 1 1 0 0 0 0", Direction::Forward, None, 18.0, "eight: none is filled up"),
        ("2 1 1 5 6 3 3 7 7 1 1 1 1 0 0 0 0", Direction::BackwardWeight, None, 7.0, "25 positions of the output"),
        ("2 1 1 5 6 3 3 7 7 1 1 1 1 0 0 0 0", Direction::Forward, Some(DType::F32), 54.0, "one product at a time"),
    ] {
        assert_eq!(roundings(param, direction, accumulator), expected, "{reason}");
    }
}

#[test]
fn what_is_taken_for_granted_names_chip_and_accumulator() {
    let a = tensor::<F16>(&[1.0; 16]);
    let a = a.tensor(&[4, 4]).unwrap();
    let d = tensor::<F16>(&[4.0; 16]);
    let d = d.tensor(&[4, 4]).unwrap();
    let report = Check::gemm(&a, &a, &d).arch(Arch::Gfx90a).accumulator(DType::F16).run().unwrap();
    assert_eq!(report.arithmetic, "f16 by f16, the matrix cores of gfx90a or sums in f16");
    let report = Check::gemm(&a, &a, &d).arch(Arch::Sm90).run().unwrap();
    assert_eq!(report.arithmetic, "f16 by f16, the tensor cores of sm_90");
}

/// A product of 1 in the first group, and then products of which tensor cores lose all: each lies just below what they keep beside a sum of 1. The bound is that of the
/// loosest instruction of the chip, of Turing the one with Volta's rule.
#[test]
fn what_tensor_cores_truncate_is_within_the_worst_case_and_not_far_below() {
    fn lost<T: Scalar>(arch: Arch) -> f64 {
        let model = Model::all().find(|m| m.arch() == arch && m.input().dtypes() == (T::DTYPE, T::DTYPE)).unwrap();
        let Rule::Truncated { group, bits, .. } = model.rule() else { panic!("{model}") };
        let k = 16 * group;
        // Half of the power in each factor, as far as 8-bit formats reach.
        let down = if T::DTYPE.bits() == 8 { 6 } else { 12 };
        let factor = |first: f64, rest: f64| (0..k).map(|i| if i == 0 { first } else { rest }).collect::<Vec<f64>>();
        let a = tensor::<T>(&factor(1.0, 1.75 * 2f64.powi(-down)));
        let b = tensor::<T>(&factor(1.0, 2f64.powi(down - 1 - bits as i32)));
        let (a, b) = (a.tensor(&[1, k]).unwrap(), b.tensor(&[k, 1]).unwrap());
        let mut d = DeviceMem::<f32>::new(&Device::host(), 1).unwrap();
        Gemm::new(model).run(&a, &b, &mut d.tensor_mut(&[1, 1]).unwrap()).unwrap();
        assert_eq!(d.to_vec().unwrap(), [1.0], "{model}");
        let report = Check::gemm(&a, &b, d.tensor(&[1, 1]).unwrap()).arch(arch).confidence(Confidence::WorstCase).run().unwrap();
        assert!(report.passed() && report.exactness.as_ref().unwrap().is_exact(), "{report}");
        report.report.worst.map_or(0.0, |worst| worst.ratio)
    }
    for (ratio, reason) in [
        (lost::<F16>(Arch::Sm70), "Volta"),
        (lost::<F16>(Arch::Sm75), "Turing"),
        (lost::<Bf16>(Arch::Sm80), "Ampere, bf16"),
        (lost::<Tf32>(Arch::Sm80), "Ampere, tf32"),
        (lost::<F8E5M2>(Arch::Sm89), "Ada, e5m2"),
        (lost::<F16>(Arch::Sm90), "Hopper"),
        (lost::<F8E4M3>(Arch::Sm90), "Hopper, e4m3"),
        (lost::<Bf16>(Arch::Sm100), "Blackwell"),
    ] {
        assert!((0.3..=1.0).contains(&ratio), "{reason}: {ratio}");
    }
}

/// Alpha below the normal numbers of the accumulator's format is off by more than a unit roundoff.
#[test]
fn an_alpha_that_the_accumulator_hardly_has() {
    let ([m, n, k], alpha) = ([16, 16, 16], 1e-6);
    let (a, b) = (numbers::<F16>(m * k, [0.5, 1.0], 1), numbers::<F16>(k * n, [0.5, 1.0], 2));
    let rounded = round(DType::F16, alpha);
    assert!((rounded / alpha - 1.0).abs() > 0.01, "f16 has no such number");
    let sums = sums(DType::F16, [&values(&a), &values(&b)], [m, n, k], 0..k);
    let d = tensor::<F16>(&sums.iter().map(|x| round(DType::F16, x * rounded)).collect::<Vec<_>>());
    let (a, b, d) = (a.tensor(&[m, k]).unwrap(), b.tensor(&[k, n]).unwrap(), d.tensor(&[m, n]).unwrap());
    for confidence in [Confidence::default(), Confidence::WorstCase] {
        let check = Check::gemm(&a, &b, &d).alpha(alpha).accumulator(DType::F16).confidence(confidence);
        let report = check.run().unwrap();
        assert_eq!(report.report.mismatches, 0, "{report}");
        assert!(check.alpha(2.0 * alpha).run().unwrap().report.mismatches > 0);
    }
}

/// Beside a chip that reads subnormal operands as zeros a kernel may add in f32 without its matrix cores: operands as they are.
#[test]
fn a_chip_or_an_accumulator() {
    let [m, n, k] = [32, 32, 64];
    let range = [-(2f32.powi(-14)), 2f32.powi(-14)];
    let (a, b) = (numbers::<F16>(m * k, range, 1), numbers::<F16>(k * n, range, 2));
    let whole = tensor::<f32>(&sums(DType::F32, [&values(&a), &values(&b)], [m, n, k], 0..k));
    let (a, b) = (a.tensor(&[m, k]).unwrap(), b.tensor(&[k, n]).unwrap());
    let flushed = product::<f32>(&Gemm::new(Model::new(Arch::Gfx90a, Input::F16).unwrap()), &a, &b, [m, n]);
    for (d, [arch, both, sums]) in [(whole, [false, true, true]), (flushed, [true, true, false])] {
        let d = d.tensor(&[m, n]).unwrap();
        let check = Check::gemm(&a, &b, &d);
        for (check, passes) in [
            (check.clone().arch(Arch::Gfx90a), arch),
            (check.clone().arch(Arch::Gfx90a).accumulator(DType::F32), both),
            (check.accumulator(DType::F32), sums),
        ] {
            let report = check.run().unwrap();
            assert_eq!(report.report.mismatches == 0, passes, "{report}");
            assert_eq!(check.freivalds(8).unwrap().passed(), passes, "{report}");
        }
    }
}
