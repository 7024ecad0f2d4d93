//! Integers: equality modulo 2^32, against sums made by hand.

use super::*;

const SHAPE: [usize; 3] = [6, 10, 40];

/// Whole numbers in a range that differ.
fn whole(n: usize, [low, high]: [i64; 2], seed: u64) -> Vec<i64> {
    (0..n as u64).map(|i| low + ((i + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) as i64 % (high - low + 1)).collect()
}

fn tensor<T: Scalar>(values: &[i64]) -> DeviceMem<T> {
    let bits = |&x: &i64| T::from_bits64(x as u64 & (u64::MAX >> (64 - T::DTYPE.bits())));
    DeviceMem::from_slice(&Device::host(), &values.iter().map(bits).collect::<Vec<_>>()).unwrap()
}

/// alpha A·B without the last products, plus beta C, modulo 2^32.
fn product([a, b, c]: [&[i64]; 3], [alpha, beta]: [i64; 2], without: usize) -> Vec<i64> {
    let [m, n, k] = SHAPE;
    let sum = |i: usize| (0..k - without).fold(0i64, |s, x| s.wrapping_add(a[i / n * k + x].wrapping_mul(b[x * n + i % n])));
    (0..m * n).map(|i| i64::from(alpha.wrapping_mul(sum(i)).wrapping_add(beta.wrapping_mul(c[i])) as i32)).collect()
}

/// What a check finds, of operands in these formats: the verdict, mismatches and cause.
fn found<A: Scalar, B: Scalar>([a, b, c]: [&[i64]; 3], [alpha, beta]: [i64; 2], d: &[i64]) -> CheckReport {
    let [m, n, k] = SHAPE;
    let (a, b, c, d) = (tensor::<A>(a), tensor::<B>(b), tensor::<i32>(c), tensor::<i32>(d));
    let (a, b) = (a.tensor(&[m, k]).unwrap(), b.tensor(&[k, n]).unwrap());
    let (c, d) = (c.tensor(&[m, n]).unwrap(), d.tensor(&[m, n]).unwrap());
    // Sums are exact whatever chip adds.
    Check::gemm(&a, &b, &d).alpha(alpha as f64).beta(beta as f64, &c).arch(Arch::Gfx90a).run().unwrap()
}

#[test]
fn products_of_integers_have_to_be_equal() {
    let [m, n, k] = SHAPE;
    let (a, b, c) = (whole(m * k, [-128, 127], 1), whole(k * n, [-128, 127], 2), whole(m * n, [-1000, 1000], 3));
    let unsigned = whole(m * k, [0, 255], 4);
    let right = product([&a, &b, &c], [1, 0], 0);
    let report = found::<i8, i8>([&a, &b, &c], [1, 0], &right);
    assert_eq!((report.verdict(), report.report.found.as_slice()), (Verdict::Pass, [Mutation::Shortened(8)].as_slice()), "{report}");
    assert!(report.to_string().contains("; i8 by i8, sums modulo 2^32"), "{report}");
    let scaled = [-3, 2];
    assert_eq!(found::<u8, i8>([&unsigned, &b, &c], scaled, &product([&unsigned, &b, &c], scaled, 0)).verdict(), Verdict::Pass);
    let mut one = right.clone();
    one[17] += 1;
    let report = found::<i8, i8>([&a, &b, &c], [1, 0], &one);
    assert_eq!((report.verdict(), report.report.mismatches, &report.report.first[0].coordinates), (Verdict::Fail, 1, &vec![1, 7]));
    let report = found::<i8, i8>([&a, &b, &c], [1, 0], &product([&a, &b, &c], [1, 0], 8));
    assert!(report.verdict() == Verdict::Fail && report.cause.as_ref().is_some_and(|cause| cause.kind == "terms"), "{report}");
}

#[test]
fn sums_beyond_32_bits_wrap_around() {
    let [m, n, k] = SHAPE;
    let (a, b, c) = (whole(m * k, [-99_999, 99_999], 1), whole(k * n, [-99_999, 99_999], 2), whole(m * n, [-9, 9], 3));
    let right = product([&a, &b, &c], [1, 1], 0);
    let exact = |i: usize| (0..k).map(|x| a[i / n * k + x] * b[x * n + i % n]).sum::<i64>() + c[i];
    let saturated: Vec<i64> = (0..m * n).map(|i| exact(i).clamp(i32::MIN.into(), i32::MAX.into())).collect();
    let beyond = (0..m * n).filter(|&i| saturated[i] != exact(i)).count();
    assert!(beyond > 10, "{beyond} sums beyond 32 bits");
    let report = found::<i32, i32>([&a, &b, &c], [1, 1], &right);
    assert_eq!((report.verdict(), report.report.found.len()), (Verdict::Pass, 0), "{report}");
    let report = found::<i32, i32>([&a, &b, &c], [1, 1], &saturated);
    assert_eq!((report.verdict(), report.report.mismatches), (Verdict::Fail, beyond as u64), "{report}");
}

/// An i32 bias could be beyond 32 bits with a sum; this one is not.
#[test]
fn values_that_cannot_wrap_around_may_have_an_epilogue() {
    let [m, n, k] = [8, 8, 64];
    let (a, b, bias) = (tensor::<i8>(&[-3; 8 * 64]), tensor::<i8>(&[5; 64 * 8]), tensor::<i32>(&[-100, 1000, 900, 2000, 0, 960, 961, -7]));
    let sums: Vec<i64> = (0..m * n).map(|i| (-15 * k as i64 + [-100, 1000, 900, 2000, 0, 960, 961, -7][i % n]).max(0)).collect();
    let (a, b) = (a.tensor(&[m, k]).unwrap(), b.tensor(&[k, n]).unwrap());
    let bias = bias.tensor(&[n]).unwrap();
    let run = |sums: &[i64]| {
        let result = tensor::<i32>(sums);
        Check::gemm(&a, &b, result.tensor(&[m, n]).unwrap()).bias(&bias).epilogue(Epilogue::Relu).run().unwrap()
    };
    assert_eq!(run(&sums).verdict(), Verdict::Pass);
    let without_last: Vec<i64> = sums.iter().map(|x| if *x > 0 { x + 15 } else { 0 }).collect();
    assert_eq!((run(&without_last).verdict(), run(&without_last).report.mismatches), (Verdict::Fail, 24));
}

#[test]
fn what_is_no_product_of_integers_in_32_bits_is_an_error() {
    let [m, n, k] = [2, 2, 2];
    let (small, large, real) = (tensor::<i8>(&[1; 4]), tensor::<i32>(&[i64::from(i32::MAX); 4]), numbers::<f32>(4, [0.0, 1.0], 1));
    let (small, large, real) = (small.tensor(&[m, k]).unwrap(), large.tensor(&[k, n]).unwrap(), real.tensor(&[m, n]).unwrap());
    for (check, words) in [
        (Check::gemm(&small, &small, &large).alpha(0.5), "alpha of integers cannot be 0.5: it has to be a whole number"),
        (Check::gemm(&small, &small, &large).beta(1.0, &real), "C of a product of integers"),
        (Check::gemm(&large, &large, &large), "add up to 2^53"),
        (Check::gemm(&large, &small, &large).epilogue(Epilogue::Relu), "an epilogue of integers that may be beyond 32 bits"),
        (Check::gemm(&small, &small, &small), "the result of a product of integers: expected dtype i32 or u32, found i8"),
        (Check::gemm(&small, &real, &large), "floating-point format, found i32"),
        (Check::gemm(&small, &small, &large).split_k(3, None), "split-k"),
    ] {
        let error = check.run().unwrap_err().to_string();
        assert!(error.contains(words), "{words}: {error}");
    }
    let check = Check::gemm(&small, &small, &large);
    assert_eq!(check.bound().unwrap(), Bound::EXACT);
    let error = check.freivalds(2).unwrap_err().to_string();
    assert!(error.contains("integers modulo 2^32 is not supported by Freivalds' check") && check.sampled_work(2).is_none(), "{error}");
}

/// BLAS does not read A and B where alpha is 0.
#[test]
fn without_alpha_operands_are_not_read() {
    let infinite = DeviceMem::from_slice(&Device::host(), &[f32::INFINITY, f32::NAN, 1.0, 2.0, 3.0, 4.0]).unwrap();
    let c = numbers::<f32>(4, [1.0, 2.0], 1);
    let d: Vec<f32> = c.to_vec().unwrap().iter().map(|x| 3.0 * x).collect();
    let d = DeviceMem::from_slice(&Device::host(), &d).unwrap();
    let (a, b) = (infinite.tensor(&[2, 3]).unwrap(), infinite.tensor(&[3, 2]).unwrap());
    let (c, d) = (c.tensor(&[2, 2]).unwrap(), d.tensor(&[2, 2]).unwrap());
    let check = |alpha| Check::gemm(&a, &b, &d).alpha(alpha).beta(3.0, &c).run().unwrap();
    assert_eq!((check(0.0).verdict(), check(1.0).verdict()), (Verdict::Pass, Verdict::Fail));
    let turned = Check::gemm(&b, &a, &d).transpose_a(true).transpose_b(true).alpha(0.0).beta(3.0, &c).run().unwrap();
    assert_eq!(turned.verdict(), Verdict::Pass, "{turned}");
}

/// A dequantised result: the sum in i32, one conversion, and what follows in f32.
#[test]
fn sums_in_i32_that_become_floats_are_exact() {
    let [m, n, k] = [6, 10, 4096];
    let (a, b) = (whole(m * k, [-127, 127], 1), whole(k * n, [-127, 127], 2));
    let sum = |i: usize| (0..k).map(|x| a[i / n * k + x] * b[x * n + i % n]).sum::<i64>();
    let (c, bias) = (numbers::<F16>(m * n, [-40.0, 40.0], 3), numbers::<f32>(n, [-40.0, 40.0], 4));
    let (c_values, bias_values) = (c.to_vec().unwrap(), bias.to_vec().unwrap());
    let (a, b) = (tensor::<i8>(&a), tensor::<i8>(&b));
    let (a, b) = (a.tensor(&[m, k]).unwrap(), b.tensor(&[k, n]).unwrap());
    let (c, bias) = (c.tensor(&[m, n]).unwrap(), bias.tensor(&[n]).unwrap());
    // alpha is no f32.
    let alpha = 0.0013;
    let dequantised = |off: i64| -> Vec<f32> {
        let of = |i: usize| (sum(i) + if i == 17 { off } else { 0 }) as f32 * alpha as f32 + c_values[i].to_f32() + bias_values[i % n];
        (0..m * n).map(of).collect()
    };
    let of = |d: &[f32], accumulator: Option<DType>| {
        let d = DeviceMem::from_slice(&Device::host(), d).unwrap();
        let d = d.tensor(&[m, n]).unwrap();
        let check = Check::gemm(&a, &b, &d).alpha(alpha).beta(1.0, &c).bias(&bias).arch(Arch::Gfx90a);
        accumulator.map_or(check.clone(), |dtype| Check { arch: None, ..check }.accumulator(dtype)).run().unwrap()
    };
    let report = of(&dequantised(0), None);
    assert_eq!(report.verdict(), Verdict::Pass, "{report}");
    assert!(report.to_string().contains("i8 by i8, sums in i32, exact, then f32"), "{report}");
    assert_eq!(of(&dequantised(0), Some(DType::I32)).report.bound, report.report.bound, "as if it were said");
    let off = of(&dequantised(1), None);
    assert_eq!((off.verdict(), off.report.mismatches), (Verdict::Fail, 1), "an integer off by one\n{off}");
    assert_eq!(of(&dequantised(60), Some(DType::F32)).verdict(), Verdict::Pass, "an accumulator that rounds may lose as much");
}

/// Large parts of opposite signs, each rounded as it becomes f32: of the sum that is left more is lost than its own rounding.
#[test]
fn parts_of_integers_that_are_stored_as_floats_may_be_larger_than_their_sum() {
    let (k, part) = (8192, 4096);
    let sign = |x: usize| if x < part { 1 } else { -1 };
    let a: Vec<i64> = (0..k).map(|x| sign(x) * if x % 2 == 0 { 127 } else { 125 }).collect();
    let b: Vec<i64> = (0..k).map(|x| if x == k - 1 { 124 } else { 127 }).collect();
    let sums = [0..part, part..k].map(|range| range.map(|x| a[x] * b[x]).sum::<i64>());
    let added = sums[0] as f32 + sums[1] as f32;
    assert!(sums[0] > 1 << 24 && f64::from(added) != (sums[0] + sums[1]) as f64, "a part is rounded: {sums:?}");
    let (a, b, d) = (tensor::<i8>(&a), tensor::<i8>(&b), DeviceMem::from_slice(&Device::host(), &[added]).unwrap());
    let (row, column, d) = (a.tensor(&[1, k]).unwrap(), b.tensor(&[k, 1]).unwrap(), d.tensor(&[1, 1]).unwrap());
    let check = Check::gemm(&row, &column, &d);
    assert!(check.clone().split_k(2, Some(DType::F32)).run().unwrap().passed());
    assert_eq!(check.split_k(2, None).run().unwrap().verdict(), Verdict::Fail, "parts in i32 lose nothing");
}

#[test]
fn sums_beyond_i32_do_not_become_floats() {
    let k = 140_000;
    let (a, d) = (tensor::<i8>(&vec![-128; k]), DeviceMem::from_slice(&Device::host(), &[2293760000.0f32]).unwrap());
    let (row, column, d) = (a.tensor(&[1, k]).unwrap(), a.tensor(&[k, 1]).unwrap(), d.tensor(&[1, 1]).unwrap());
    let error = Check::gemm(&row, &column, &d).run().unwrap_err().to_string();
    assert!(error.contains("a sum of 2293760000 in an accumulator of i32"), "{error}");
    assert_eq!(Check::gemm(&row, &column, &d).accumulator(DType::F32).run().unwrap().verdict(), Verdict::Pass, "in f32");
    let error = Check::gemm(&row, &column, &d).accumulator(DType::U32).run().unwrap_err().to_string();
    assert!(error.contains("an accumulator whose error is bounded"), "{error}");
}
