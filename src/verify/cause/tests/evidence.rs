//! What looks like a cause and is none, and what tells causes that look alike apart.

use super::*;

/// A factor of each row, or of each column, of a product to which something is added: neither sums in few bits nor a share of the terms has such errors.
#[test]
fn factors_of_lines_beside_an_addend_are_no_statistics_of_sums() {
    let sums = product(|_, x| x, |s, x| s + x);
    let addend: Vec<f64> = numbers(sums.len(), 5).iter().map(|x| 4.6 * x).collect();
    let made = |of: &dyn Fn(usize) -> f64| sums.iter().zip(&addend).enumerate().map(|(i, (x, c))| of(i) * x + c).collect::<Vec<f64>>();
    let reference: Vec<f64> = made(&|_| 1.0).into_iter().map(|x| round(x, DType::F32)).collect();
    for seed in 0..16 {
        let (rows, columns) = (numbers(40, 100 + seed), numbers(48, 200 + seed));
        for dtype in [DType::F16, DType::Bf16] {
            let found = cause(&made(&|i| 1.0 + 0.1 * rows[i / 48]), dtype, &reference, &[40, 48]);
            assert_eq!(kind(&found), "unknown", "{dtype}: {found:?}");
        }
        let found = cause(&made(&|i| 1.25 + 0.75 * columns[i % 48]), DType::F32, &reference, &[40, 48]);
        assert_eq!(kind(&found), "unknown", "{found:?}");
    }
}

/// Sums of 64 terms in f16 have errors of 2^-10 of the result, not of a twentieth.
#[test]
fn large_errors_are_not_those_of_narrow_sums() {
    let reference = product(|_, x| x, |s, x| s + x);
    let narrow = product(|_, x| x, |s, x| round(s + x, DType::F16));
    for (factor, expected) in [(1.0, "accumulated_in"), (30.0, "unknown")] {
        let result: Vec<f64> = reference.iter().zip(&narrow).map(|(r, x)| r + factor * (x - r)).collect();
        let found = cause(&result, DType::F16, &reference, &[40, 48]);
        assert_eq!(kind(&found), expected, "{factor}: {found:?}");
    }
}

/// Sums in f16 that are stored as bf16 have errors of a few roundings to bf16; sums in bf16 have those of many.
#[test]
fn errors_of_few_roundings_are_not_those_of_narrow_sums() {
    let [m, n, k] = [40, 48, 200];
    let (a, b) = (numbers(m * k, 1), numbers(n * k, 2));
    let sums = |format: DType| {
        let of = |i: usize| (0..k).fold(0.0, |s, l| round(s + a[i / n * k + l] * b[i % n * k + l], format));
        (0..m * n).map(of).collect::<Vec<f64>>()
    };
    let reference = sums(DType::F32);
    for (format, expected) in [(DType::F16, "unknown"), (DType::Bf16, "accumulated_in")] {
        let found = cause(&sums(format), DType::Bf16, &reference, &[m, n]);
        assert_eq!(kind(&found), expected, "{format}: {found:?}");
    }
}

/// Where a ReLU follows, errors have the variances of nothing.
#[test]
fn shares_of_terms_are_not_told_behind_a_function() {
    let sums = product(|_, x| x, |s, x| s + x);
    let relu = |factor: f64, of: &dyn Fn(f64) -> f64| sums.iter().map(|x| of(factor * x)).collect::<Vec<f64>>();
    let bias = numbers(48, 6);
    let biased = |factor: f64| sums.iter().enumerate().map(|(i, x)| (factor * x + 4.6 * bias[i % 48]).max(0.0)).collect::<Vec<f64>>();
    let gelu = |x: f64| 0.5 * x * (1.0 + libm::erf(x / std::f64::consts::SQRT_2));
    for (result, reference, reason) in [
        (biased(0.125), biased(1.0), "a product scaled by 1/8"),
        (relu(1.0 / 512.0, &gelu), relu(1.0 / 512.0, &|x| x.max(0.0)), "GELU for ReLU"),
    ] {
        let found = cause(&result, DType::F32, &reference, &[40, 48]);
        assert!(matches!(kind(&found), "unknown" | "by_slice"), "{reason}: {found:?}");
    }
}

/// A value that was rounded once has errors that are evenly spread; those of other operands are normal.
#[test]
fn normal_errors_are_of_no_rounding() {
    let reference: Vec<f64> = numbers(4096, 4).iter().map(|x| 3.0 + x).collect();
    let of_many = |i: usize| (0..12).map(|k| numbers(1, (12 * i + k) as u64)[0]).sum::<f64>() / 2.0;
    // Of a deviation of 0.3 of the unit roundoff of e4m3, 1/16.
    let result: Vec<f64> = reference.iter().enumerate().map(|(i, x)| x * (1.0 + 0.3 / 16.0 * of_many(i).clamp(-3.5, 3.5))).collect();
    let found = cause(&result, DType::F32, &reference, &[64, 64]);
    assert_ne!(kind(&found), "intermediate_in", "{found:?}");
}

/// Rows that are all the same, of references that hardly differ: one value for each column is no factor.
#[test]
fn a_value_for_each_column_is_no_line() {
    let noise = numbers(64 * 64, 8);
    let reference: Vec<f64> = (0..64 * 64).map(|i| 100.0 + (i % 64) as f64 + 2.0 * noise[i]).collect();
    let result: Vec<f64> = (0..64 * 64).map(|i| 90.0 + (i % 64) as f64).collect();
    let found = cause(&result, DType::Bf16, &reference, &[64, 64]);
    assert_eq!(kind(&found), "unknown", "{found:?}");
}

/// Behind a ReLU half of the numbers are 0: a few more tell something where they lie side by side.
#[test]
fn few_zeros_among_many_are_told_by_their_place() {
    let reference: Vec<f64> = numbers(64 * 64, 8).iter().map(|x| x.max(0.0)).collect();
    let scattered = [77, 1500, 2001, 3900].map(|from| (from..).find(|&i| reference[i] > 0.1).unwrap());
    let cleared = |wrong: &dyn Fn(usize) -> bool| (0..64 * 64).map(|i| if wrong(i) { 0.0 } else { reference[i] }).collect::<Vec<f64>>();
    for (result, expected) in [
        (cleared(&|i| (640..648).contains(&i)), "unwritten"),
        (cleared(&|i| scattered.contains(&i)), "unknown"),
        (cleared(&|i| i % 101 == 0), "unwritten"),
    ] {
        let found = cause(&result, DType::F32, &reference, &[64, 64]);
        assert_eq!(kind(&found), expected, "{found:?}");
    }
}

/// A few references beyond a clamp give errors of as low a rank as there are such, beside which those of all other elements look like rounding.
#[test]
fn a_few_large_errors_are_no_terms() {
    for (shape, outliers, seed) in [([64, 96], 8, 1), ([64, 96], 40, 2), ([128, 128], 3, 3), ([17, 33], 2, 4)] {
        let n = shape[0] * shape[1];
        let mut reference = numbers(n, seed);
        let large = numbers(2 * outliers, 50 + seed);
        for pair in large.chunks(2) {
            reference[((pair[0] + 1.0) / 2.0 * n as f64) as usize] = 1750.0 + 1250.0 * pair[1];
        }
        let noise = numbers(n, 90 + seed);
        for (dtype, size) in [(DType::F16, 0.02), (DType::F8E4M3, 0.2), (DType::F32, 0.02)] {
            let result: Vec<f64> = reference.iter().zip(&noise).map(|(r, e)| (r + size * e).clamp(-448.0, 448.0)).collect();
            let found = cause_of_bytes(&bytes(&result, dtype), dtype, &reference, &shape, &Tolerance::new(1e-3, 1e-5).unwrap());
            assert!(matches!(kind(&found), "unknown" | "saturated"), "{outliers} of {shape:?}, {dtype}: {found:?}");
        }
    }
}

/// The variance of heavy-tailed references, most of which a clamp takes away, is in their largest elements. So is what errors have in common with them.
#[test]
fn clamped_tails_are_no_share_of_the_terms() {
    let n = 64 * 96;
    for seed in 0..12 {
        let (x, y, noise) = (numbers(3 * n, 3 * seed), numbers(3 * n, 3 * seed + 1), numbers(n, 3 * seed + 2));
        let normal = |of: &[f64], i: usize| of[3 * i..3 * i + 3].iter().sum::<f64>();
        let reference: Vec<f64> = (0..n).map(|i| normal(&x, i) * (4.0 * normal(&y, i)).exp()).map(|x| round(x, DType::F32)).collect();
        let made = |of: &dyn Fn(usize) -> f64| (0..n).map(|i| (reference[i] + of(i)).clamp(-448.0, 448.0)).collect::<Vec<f64>>();
        for (result, reason) in [(made(&|i| 0.1 * noise[i].signum()), "two points"), (made(&|i| 0.1 * noise[i]), "uniform")] {
            let found =
                cause_of_bytes(&bytes(&result, DType::F8E4M3), DType::F8E4M3, &reference, &[64, 96], &Tolerance::new(1e-2, 1e-2).unwrap());
            assert_eq!(kind(&found), "unknown", "{reason}, {seed}: {found:?}");
        }
    }
}

/// What a function does that follows, which the reference does not have.
#[test]
fn functions_that_follow_are_told_by_the_sign() {
    let wide: Vec<f64> = numbers(48 * 64, 8).iter().map(|x| round(9.0 * x, DType::F16)).collect();
    let whole: Vec<f64> = wide.iter().map(|x| (20.0 * x).round()).collect();
    let below: Vec<f64> = wide.iter().map(|x| -x.abs() - 1.0).collect();
    let coarse: Vec<f64> = wide.iter().map(|&x| if x.abs() < 6.0 { round(x, DType::F4E2M1) } else { x }).collect();
    let of = |values: &[f64], f: &dyn Fn(usize, f64) -> f64| values.iter().enumerate().map(|(i, &x)| f(i, x)).collect::<Vec<f64>>();
    let relu = "zeros where the reference is negative: a ReLU that the reference does not have: ";
    let relu6 = "zeros where the reference is negative, and 6 where it is larger: a ReLU that";
    let zeros = "zeros: not written, or products with zeros: ";
    for (result, reference, dtype, expected) in [
        (of(&wide, &|_, x| x.max(0.0)), &wide, DType::F16, relu),
        (of(&wide, &|_, x| x.max(0.0)), &wide, DType::F32, relu),
        (of(&whole, &|_, x| x.max(0.0)), &whole, DType::I32, relu),
        (of(&wide, &|_, x| x.clamp(0.0, 6.0)), &wide, DType::F16, relu6),
        (of(&wide, &|_, x| x.max(0.01 * x)), &wide, DType::F16, "scaled by 0.01 (negative elements only, as by a leaky ReLU): "),
        (of(&wide, &|_, x| x.max(0.2 * x)), &wide, DType::F32, "scaled by 0.2 (negative elements only, as by a leaky ReLU): "),
        (of(&wide, &|_, x| x.clamp(-6.0, 6.0)), &wide, DType::F16, "clamped at 6: "),
        (of(&coarse, &|_, x| x.clamp(-6.0, 6.0)), &coarse, DType::F16, "saturated at 6, the limit of f4e2m1: "),
        // A tile of zeros has those of both signs, and negative numbers elsewhere.
        (of(&wide, &|i, x| if i < 1024 { 0.0 } else { x }), &wide, DType::F16, zeros),
        (of(&wide, &|i, x| if i < 1024 { x.max(0.0) } else { x }), &wide, DType::F16, zeros),
        (of(&below, &|_, _| 0.0), &below, DType::F16, zeros),
        (of(&wide, &|i, x| if i % 3 == 0 || x < 0.0 { 0.0 } else { x }), &wide, DType::F16, zeros),
    ] {
        let tolerance = Tolerance::new(1e-3, 1e-3).unwrap();
        let found = cause_of_bytes(&bytes(&result, dtype), dtype, reference, &[48, 64], &tolerance).unwrap();
        assert!(found.to_string().starts_with(expected), "{dtype}, {expected}: {found}");
        assert_eq!(found.kind() == "epilogue", expected.contains("a ReLU that"), "{found}");
    }
}

/// The low bits of whole numbers that a format is too narrow for.
#[test]
fn numbers_that_wrapped_around_are_told() {
    let wide: Vec<f64> = numbers(1024, 5).iter().map(|x| (900.0 * x).round()).collect();
    let wrapped = |low: f64| move |x: &f64| (x - low).rem_euclid(256.0) + low;
    let other: Vec<f64> = numbers(1024, 6).iter().map(|x| (127.0 * x).round()).collect();
    for (result, dtype, expected) in [
        (wide.iter().map(wrapped(-128.0)).collect(), DType::I8, "wrapped around in i8: the low 8 bits of"),
        (wide.iter().map(wrapped(0.0)).collect(), DType::U8, "wrapped around in u8: "),
        (wide.iter().map(wrapped(-128.0)).collect(), DType::I32, "wrapped around in i8: "),
        (wide.iter().map(wrapped(0.0)).collect(), DType::F32, "wrapped around in u8: "),
        (wide.iter().map(|x| x.clamp(-128.0, 127.0)).collect(), DType::I8, "saturated at "),
        (other, DType::I8, "unknown"),
    ] as [(Vec<f64>, DType, &str); 6]
    {
        let found = cause_of_bytes(&bytes(&result, dtype), dtype, &wide, &[32, 32], &Tolerance::exact()).unwrap();
        assert!(found.to_string().starts_with(expected), "{dtype}, {expected}: {found}");
        assert_eq!(found.kind() == "wrapped", expected.starts_with("wrapped"), "{found}");
    }
}

/// A constant is any factor times another one, and any constant beside it.
#[test]
fn nearly_constant_references_tell_no_factor() {
    let near: Vec<f64> = numbers(1024, 5).iter().map(|x| 1.0 + 1e-3 * x).collect();
    for (result, reference, dtype) in [
        (vec![2.5; 1024], vec![1.0; 1024], DType::F32),
        (vec![2.5; 1024], vec![1.0; 1024], DType::F16),
        (near.iter().map(|x| x + 0.01).collect(), near.clone(), DType::F16),
    ] {
        let found = cause_of_bytes(&bytes(&result, dtype), dtype, &reference, &[32, 32], &Tolerance::new(1e-3, 1e-3).unwrap());
        assert_eq!(kind(&found), "unknown", "{found:?}");
    }
}

/// Errors of one sign, of which the largest are beyond the tolerance: these are about as large as the tolerance is, and so alike. The elements that pass have no such constant, and no such factor.
#[test]
fn a_tail_of_errors_of_one_sign_is_no_constant() {
    let n = 64 * 512;
    let (reference, spread) = (numbers(n, 8), numbers(n, 9));
    let tail = |i: usize| 1.3e-2 * ((spread[i] + 1.0) / 2.0).powi(8);
    let of = |made: &dyn Fn(f64, usize) -> f64| (0..n).map(|i| made(reference[i], i)).collect::<Vec<f64>>();
    let [low, high] = [Tolerance::new(0.0, 1e-2).unwrap(), Tolerance::new(1e-2, 0.0).unwrap()];
    for (result, tolerance, reason) in [
        (of(&|r, i| r + tail(i)), low, "added"),
        (of(&|r, i| r * (1.0 + tail(i))), high, "multiplied"),
        (of(&|r, i| if r < 0.0 { r * (1.0 + tail(i)) } else { r }), high, "of negative numbers"),
    ] {
        for shape in [[512, 64], [8, 4096]] {
            let found = cause_of_bytes(&bytes(&result, DType::F32), DType::F32, &reference, &shape, &tolerance);
            assert_eq!(kind(&found), "unknown", "{reason}: {found:?}");
        }
    }
}

/// Numbers of one binade that are all rounded up: their errors are alike up to a unit in the last place, and a tenth of them is beyond 0.9 of it.
#[test]
fn roundings_of_one_sign_are_no_constant() {
    let ulp = f64::from(f32::EPSILON) * 8192.0;
    let reference: Vec<f64> = numbers(64 * 64, 8).iter().map(|x| round(1.5 + 0.49 * x, DType::F32)).collect();
    let result: Vec<f64> = reference.iter().map(|x| (x / ulp).ceil() * ulp).collect();
    let tolerance = Tolerance::new(0.0, 0.9 * ulp).unwrap();
    for shape in [[64, 64], [8, 512]] {
        let found = cause_of_bytes(&bytes(&result, DType::F16), DType::F16, &reference, &shape, &tolerance);
        assert_eq!(kind(&found), "unknown", "{found:?}");
    }
}

/// Constants and factors are those of all elements, or of a region, also where many pass by a tolerance that is as large as they are.
#[test]
fn constants_and_factors_of_a_part_are_named() {
    let (rows, columns) = (64, 96);
    let n = rows * columns;
    let reference: Vec<f64> = numbers(n, 8).iter().map(|x| round(4.0 * x, DType::F32)).collect();
    let noise = numbers(n, 9);
    let tolerance = Tolerance::new(1e-2, 1e-3).unwrap();
    let part = |inside: &dyn Fn(usize, usize) -> bool, f: &dyn Fn(f64) -> f64| {
        let of = |i: usize| if inside(i / columns, i % columns) { f(reference[i]) } else { reference[i] };
        (0..n).map(|i| of(i) * (1.0 + 1e-3 * noise[i])).collect::<Vec<f64>>()
    };
    for (result, expected) in [
        (part(&|_, _| true, &|x| x + 0.015), "offset"),
        (part(&|_, _| true, &|x| 1.02 * x), "scaled"),
        (part(&|_, _| true, &|x| 1.05 * x + 0.02), "affine"),
        (part(&|i, _| i < 20, &|x| x + 0.5), "offset"),
        (part(&|i, _| i < 50, &|x| x + 0.5), "offset"),
        (part(&|i, j| i > 10 && j < 90, &|x| 1.5 * x), "scaled"),
        (part(&|_, j| j % 16 == 3, &|x| x - 0.25), "offset"),
        (part(&|_, j| j % 16 < 12, &|x| 1.25 * x), "scaled"),
        (part(&|i, _| i < 50, &|x| 1.5 * x - 0.25), "affine"),
        (part(&|_, _| true, &|x| if x < 0.0 { 0.01 * x } else { x }), "scaled"),
    ] {
        let found = cause_of_bytes(&bytes(&result, DType::F32), DType::F32, &reference, &[rows, columns], &tolerance);
        assert_eq!(kind(&found), expected, "{found:?}");
    }
}
