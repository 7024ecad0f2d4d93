//! What is done to a result, and the cause that is named for it.

mod evidence;

use super::*;
use crate::device::Layout;
use crate::dtype::{Overflow, Rounding};
use crate::verify::{Budget, Options, Tolerance, gpu_verify_with, gpu_verify_with_earlier};

/// Numbers that look random, in [-1, 1).
fn numbers(n: usize, seed: u64) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f64 / (1u64 << 23) as f64 - 1.0
    };
    (0..64).for_each(|_| {
        next();
    });
    (0..n).map(|_| next()).collect()
}

fn round(x: f64, format: DType) -> f64 {
    format.rounded(x)
}

fn bytes(values: &[f64], dtype: DType) -> Vec<u8> {
    let mut bytes = vec![0; dtype.bytes_for(values.len()).unwrap()];
    values.iter().enumerate().for_each(|(i, &x)| dtype.store_bits(&mut bytes, i, dtype.encode(x, Rounding::NearestEven, Overflow::Ieee)));
    bytes
}

/// The cause for a result, given as bytes of its format, against a reference in f32.
fn cause_of_bytes(result: &[u8], dtype: DType, reference: &[f64], shape: &[usize], tolerance: &Tolerance) -> Option<Diagnosis> {
    let layout = || Layout::contiguous(shape).unwrap();
    let reference = bytes(reference, DType::F32);
    let result = TensorRef::from_host_bytes(result, dtype, layout()).unwrap();
    let reference = TensorRef::from_host_bytes(&reference, DType::F32, layout()).unwrap();
    gpu_verify_with(&result, &reference, tolerance, &Options::default()).unwrap().cause
}

fn cause(result: &[f64], dtype: DType, reference: &[f64], shape: &[usize]) -> Option<Diagnosis> {
    cause_of_bytes(&bytes(result, dtype), dtype, reference, shape, &Tolerance::rounding(dtype, DType::F32, 64))
}

fn kind(found: &Option<Diagnosis>) -> &'static str {
    found.as_ref().map_or("pass", Diagnosis::kind)
}

/// Of mismatches that rounding explains, and others, the others are looked at: the sentence says so. No rounding explains an infinity.
#[test]
fn mismatches_that_rounding_explains_are_told_apart() {
    let infinity = f64::INFINITY;
    let ulp = f64::from(f32::EPSILON);
    let reference = [1.0; 8];
    for (result, reference, words, reason) in [
        ([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, infinity, infinity], reference, ": 2 of 2 mismatches, all in", "all of them"),
        (
            [1.0, 1.0 + ulp, 1.0, 1.0, 1.0, 1.0, infinity, infinity],
            reference,
            ": 2 of 2 mismatches beyond rounding, all in",
            "one is rounding",
        ),
        ([1.0, 1.0 + ulp, 1.0, 1.0, 1.0, 1.0, 3.0, 1.0], reference, ": the only mismatch beyond rounding lies in element 6", "one is not"),
        (
            [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 7.0, infinity],
            [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, infinity, 1.0],
            ": all 2 mismatches lie in elements 6 to 7",
            "a number where the reference is infinite",
        ),
    ] {
        let found = cause_of_bytes(&bytes(&result, DType::F32), DType::F32, &reference, &[8], &Tolerance::exact()).unwrap().to_string();
        assert!(found.contains(words), "{reason}: {found}");
    }
}

/// Changes a right result: the values, and the columns of the tensor.
type Mutation = fn(&mut Vec<f64>, usize);

const MUTATIONS: &[(&str, Mutation, &str)] = &[
    ("right", |_, _| (), "pass"),
    ("zeros", |c, _| c.fill(0.0), "unwritten"),
    ("one value", |c, _| c.fill(0.375), "unwritten"),
    ("the last row is zero", |c, n| (c.len() - n..c.len()).for_each(|i| c[i] = 0.0), "unwritten"),
    ("NaN in one element", |c, _| c[5] = f64::NAN, "nan"),
    ("an infinity, and NaN beside", |c, _| (c[5], c[6]) = (f64::INFINITY, f64::NAN), "overflowed"),
    ("negated", |c, _| each(c, |x| -x), "negated"),
    ("a scale of fp8", |c, _| each(c, |x| x * 240.0 / 224.0), "scaled"),
    ("every seventh doubled", |c, _| c.iter_mut().step_by(7).for_each(|x| *x *= 2.0), "scaled"),
    ("a constant added", |c, _| each(c, |x| x + 0.75), "offset"),
    ("a zero point", |c, _| each(c, |x| 1.5 * x - 0.25), "affine"),
    ("clamped", |c, _| each(c, |x| x.clamp(-0.5, 0.5)), "saturated"),
    ("another factor for each row", |c, n| rows(c, n, |row, x| x * (1.5 + 0.1 * row as f64)), "by_slice"),
    ("a bias for each column", |c, n| c.iter_mut().enumerate().for_each(|(i, x)| *x += 0.3 + 0.01 * (i % n) as f64), "by_slice"),
    ("another mean for each row", |c, n| rows(c, n, |row, x| 0.5 * x + 0.1 * row as f64 + 0.2), "by_slice"),
    ("one row further", |c, n| c.rotate_left(n), "shifted"),
    ("three columns back", |c, n| c.chunks_mut(n).for_each(|row| row.rotate_right(3)), "shifted"),
    ("neighbours exchanged", |c, n| c.chunks_mut(n).for_each(|row| row.chunks_exact_mut(2).for_each(|p| p.swap(0, 1))), "exchanged"),
    ("backwards", |c, _| c.reverse(), "reversed"),
    ("rows backwards", |c, n| c.chunks_mut(n).for_each(<[f64]>::reverse), "reversed"),
    ("the first row everywhere", |c, n| (n..c.len()).for_each(|i| c[i] = c[i % n]), "repeated"),
    ("transposed", |c, n| transpose(c, n), "transposed"),
    ("another order", |c, _| *c = (0..c.len()).map(|i| c[i * 1001 % c.len()]).collect(), "permuted"),
    ("unrelated", |c, _| *c = numbers(c.len(), 99), "unknown"),
    ("one element", |c, _| c[17] += 3.0, "region"),
    ("a block", |c, n| (0..8).for_each(|i| (4..12).for_each(|j| c[i * n + j] = numbers(1, (i * n + j) as u64)[0] + 2.5)), "region"),
    ("lane 3 of 16", |c, _| c.iter_mut().skip(3).step_by(16).enumerate().for_each(|(k, x)| *x += 2.0 + numbers(1, k as u64)[0]), "region"),
];

fn each(c: &mut [f64], f: impl Fn(f64) -> f64) {
    c.iter_mut().for_each(|x| *x = f(*x));
}

fn rows(c: &mut [f64], n: usize, f: impl Fn(usize, f64) -> f64) {
    c.iter_mut().enumerate().for_each(|(i, x)| *x = f(i / n, *x));
}

fn transpose(c: &mut Vec<f64>, n: usize) {
    let rows = c.len() / n;
    *c = (0..c.len()).map(|i| c[i % rows * n + i / rows]).collect();
}

#[test]
fn each_mutation_has_its_cause() {
    for (shape, dtype) in [(&[48, 64][..], DType::F16), (&[40, 80], DType::F32), (&[2, 3, 8, 64], DType::F16), (&[50, 48], DType::Bf16)] {
        let n: usize = shape.iter().product();
        let columns = shape[shape.len() - 1];
        let reference: Vec<f64> = numbers(n, 7).iter().map(|x| round(2.0 * x, DType::F32)).collect();
        for (name, mutate, expected) in MUTATIONS {
            // A matrix whose rows are those of all dimensions is another one when there are more.
            // The numbers of bf16 are so few that any order fits.
            if shape.len() > 2 && matches!(*name, "transposed" | "the first row everywhere")
                || dtype == DType::Bf16 && *name == "another order"
            {
                continue;
            }
            let mut result = reference.clone();
            mutate(&mut result, columns);
            let found = cause(&result, dtype, &reference, shape);
            assert_eq!(kind(&found), *expected, "{name}, {dtype} {shape:?}: {found:?}");
        }
    }
}

#[test]
fn reversed_rows_are_told_from_a_reversed_tensor() {
    let reference: Vec<f64> = numbers(48 * 64, 7).iter().map(|x| round(2.0 * x, DType::F32)).collect();
    let evidence = |mutate: &dyn Fn(&mut [f64])| {
        let mut result = reference.clone();
        mutate(&mut result);
        cause(&result, DType::F32, &reference, &[48, 64]).unwrap().to_string()
    };
    let [all, rows] = [evidence(&|c| c.reverse()), evidence(&|c| c.chunks_mut(64).for_each(<[f64]>::reverse))];
    assert!(all.starts_with("the opposite order, of all elements"), "{all}");
    assert!(rows.starts_with("the opposite order, within each row"), "{rows}");
}

/// Mutations that need their own formats, or patterns.
#[test]
fn patterns_have_their_causes() {
    let n = 32 * 64;
    let values: Vec<f64> = numbers(n, 3).iter().map(|x| 4.0 * x).collect();
    let exact = Tolerance::new(1e-3, 1e-3).unwrap();
    let stored = |dtype: DType| (bytes(&values, dtype), values.iter().map(|&x| round(x, dtype)).collect::<Vec<f64>>());
    let (fnuz, of_fnuz) = stored(DType::F8E4M3Fnuz);
    let (ocp, of_ocp) = stored(DType::F8E4M3);
    let (bf16, of_bf16) = stored(DType::Bf16);
    let (f32s, of_f32) = stored(DType::F32);
    let swapped: Vec<u8> = f32s.chunks(4).flat_map(|x| [x[3], x[2], x[1], x[0]]).collect();
    let mut poisoned = bf16.clone();
    poisoned[1000..1400].fill(0xcd);
    for (result, dtype, reference, expected, reason) in [
        (&fnuz, DType::F8E4M3, &of_fnuz, Cause::ReadAs { format: DType::F8E4M3Fnuz }, "fnuz read as OCP"),
        (&ocp, DType::F8E4M3Fnuz, &of_ocp, Cause::ReadAs { format: DType::F8E4M3 }, "OCP read as fnuz"),
        (&bf16, DType::F16, &of_bf16, Cause::ReadAs { format: DType::Bf16 }, "bf16 read as f16"),
        (&swapped, DType::F32, &of_f32, Cause::BytesSwapped, "big-endian"),
        (&poisoned, DType::Bf16, &of_bf16, Cause::Unwritten { value: DType::Bf16.decode(0xcdcd), bits: 0xcdcd }, "poison"),
    ] {
        let found = cause_of_bytes(result, dtype, reference, &[32, 64], &exact).unwrap();
        assert_eq!(found.cause, expected, "{reason}");
    }
}

/// Rows of 64 products of uniform numbers, 40 x 48 of them.
fn product(term: impl Fn(usize, f64) -> f64, add: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    let (rows, columns, depth) = (40, 48, 64);
    let (a, b) = (numbers(rows * depth, 1), numbers(columns * depth, 2));
    let dot = |i: usize, j: usize| (0..depth).fold(0.0, |s, k| add(s, term(k, a[i * depth + k] * b[j * depth + k])));
    (0..rows * columns).map(|at| dot(at / columns, at % columns)).collect()
}

#[test]
fn sums_and_their_rounding_have_their_causes() {
    let plain = |s: f64, x: f64| s + x;
    let reference: Vec<f64> = product(|_, x| x, plain).into_iter().map(|x| round(x, DType::F32)).collect();
    let part = |from: usize, to: usize, factor: f64| product(move |k, x| if (from..to).contains(&k) { factor * x } else { x }, plain);
    let in_format = |format: DType| product(|_, x| x, move |s, x| round(s + x, format));
    let of_bf16 = {
        let (a, b) = (numbers(40 * 64, 1), numbers(48 * 64, 2));
        let round = |x: &f64| round(*x, DType::Bf16);
        let (a, b): (Vec<f64>, Vec<f64>) = (a.iter().map(round).collect(), b.iter().map(round).collect());
        (0..40 * 48).map(|at| (0..64).map(|k| a[at / 48 * 64 + k] * b[at % 48 * 64 + k]).sum()).collect()
    };
    let truncated: Vec<f64> = reference.iter().map(|&x| DType::F16.rounded_by(x, Rounding::TowardZero, Overflow::Ieee)).collect();
    let through = |format: DType| reference.iter().map(|&x| round(x, format)).collect::<Vec<f64>>();
    for (result, dtype, expected, reason) in [
        (part(63, 64, 0.0), DType::F16, "terms", "the last term missing"),
        (part(0, 8, 2.0), DType::F32, "terms", "a tile added twice"),
        (part(32, 64, 0.0), DType::F16, "share", "half of split-k dropped"),
        (part(0, 32, 2.0), DType::F16, "share", "half of split-k added twice"),
        (in_format(DType::F16), DType::F32, "accumulated_in", "sums in f16"),
        (in_format(DType::Bf16), DType::F16, "accumulated_in", "sums in bf16"),
        (of_bf16, DType::F32, "low_precision", "operands in bf16"),
        (through(DType::Bf16), DType::F16, "through", "f16 through bf16"),
        (through(DType::F16), DType::F32, "through", "f32 through f16"),
        (reference.iter().map(|x| round(x / 3.3, DType::Bf16) * 3.3).collect(), DType::F32, "intermediate_in", "a factor in bf16"),
        (truncated, DType::F16, "truncated", "toward zero"),
        (through(DType::F16), DType::F16, "pass", "right"),
    ] {
        let found = cause(&result, dtype, &reference, &[40, 48]);
        assert_eq!(kind(&found), expected, "{reason}: {found:?}");
    }
}

#[test]
fn limits_of_formats_have_their_causes() {
    let n = 1024;
    let wide: Vec<f64> = numbers(n, 5).iter().map(|x| 2e5 * x).collect();
    let saturated: Vec<f64> = wide.iter().map(|x| x.clamp(-65504.0, 65504.0)).collect();
    let small: Vec<f64> = numbers(n, 6).iter().map(|x| x * 2f64.powi(-13)).collect();
    let flushed: Vec<f64> = small.iter().map(|&x| if x.abs() < 2f64.powi(-14) { 0.0 } else { x }).collect();
    let halves: Vec<f64> = (0..n).map(|i| 1.0 + (2 * i + 1) as f64 / 2048.0).collect();
    let odd: Vec<f64> = halves
        .iter()
        .map(|&x| {
            let even = round(x, DType::F16);
            if even == x { x } else { 2.0 * x - even }
        })
        .collect();
    let infinite: Vec<f64> = (0..n).map(|i| if i % 3 == 0 { f64::INFINITY } else { i as f64 }).collect();
    let exact = Tolerance::exact();
    let given = Tolerance::new(1e-3, 0.0).unwrap();
    for (result, reference, tolerance, expected, reason) in [
        (&saturated, &wide, given, "saturated", "clamped to 65504"),
        (&wide, &wide, given, "overflowed", "infinity where the reference is beyond f16"),
        (&flushed, &small, given, "flushed", "no subnormal numbers"),
        (&odd, &halves, exact, "ties", "halves to the odd neighbour"),
        (&small, &infinite, given, "unknown", "a third of the references is infinite, the others are wrong as well"),
        (
            &infinite.iter().map(|x| if x.is_finite() { *x } else { 5.0 }).collect(),
            &infinite,
            given,
            "reference_not_finite",
            "only those are",
        ),
    ] {
        let found = cause_of_bytes(&bytes(result, DType::F16), DType::F16, reference, &[n], &tolerance);
        assert_eq!(kind(&found), expected, "{reason}: {found:?}");
    }
}

/// Integer formats have ends of different magnitude; and small float formats say nothing about integers.
#[test]
fn clamps_to_integer_formats_are_told() {
    let wide: Vec<f64> = numbers(1024, 5).iter().map(|x| (300.0 * x).round()).collect();
    let clamped = |low: f64, high: f64| -> Vec<f64> { wide.iter().map(|x| x.clamp(low, high)).collect() };
    let tail: Vec<f64> = (0..1024).map(|i| if i == 7 { 8.0 } else { 1.0 + (i % 2) as f64 }).collect();
    for (result, dtype, reference, expected) in [
        (clamped(-128.0, 127.0), DType::I8, &wide, "saturated at 127, the limit of i8"),
        (clamped(-128.0, 127.0), DType::I32, &wide, "saturated at 127, the limit of i8"),
        (clamped(-128.0, 127.0), DType::F32, &wide, "saturated at 127, the limit of i8"),
        (clamped(-128.0, 400.0), DType::I16, &wide, "saturated at -128, the limit of i8"),
        (clamped(-400.0, 127.0), DType::I16, &wide, "saturated at 127, the limit of i8"),
        (clamped(-127.0, 127.0), DType::I8, &wide, "saturated at 127, the limit of i8"),
        (clamped(0.0, 255.0), DType::U8, &wide, "saturated at 0, the limit of u8"),
        (clamped(-100.0, 100.0), DType::I32, &wide, "clamped at 100:"),
        (tail.iter().map(|x| x.min(6.0)).collect(), DType::U8, &tail, "unknown"),
    ] {
        let found = cause_of_bytes(&bytes(&result, dtype), dtype, reference, &[1024], &Tolerance::exact()).unwrap().to_string();
        assert!(found.starts_with(expected), "{expected}: {found}");
    }
}

#[test]
fn regions_are_told_in_words() {
    let n = 64 * 96;
    let reference = numbers(n, 8);
    let tail: Mutation = |c, n| c.chunks_mut(n).for_each(|row| row[80..].fill(0.0));
    let lanes: Mutation = |c, n| c.chunks_mut(n).for_each(|row| row.chunks_mut(32).for_each(|part| part[24..].fill(0.0)));
    let row: Mutation = |c, n| c[3 * n..4 * n].fill(f64::NAN);
    for (mutate, expected) in [
        (tail, "zeros: not written, or products with zeros: 1,024 of 1,024 mismatches, all in columns 80 to 95, the last 16 of 96"),
        (lanes, "zeros: not written, or products with zeros: 1,536 of 1,536 mismatches, all in columns 24 to 31 of each 32"),
        (row, "NaN: 0/0, inf - inf, or memory that was not written: 96 of 96 mismatches, all in row 3"),
        (|c, _| c[100] += 9.0, "unknown: the only mismatch lies in row 1, column 4"),
        (
            |c, _| (0..8).for_each(|i| c[2 * i + 40] += 2.0 + numbers(1, i as u64)[0]),
            "unknown: all 8 mismatches lie in row 0, columns 40 to 54",
        ),
        (|c, n| c.rotate_left(2 * n), "shifted by 2 rows: 6,144 of 6,144 mismatches"),
        (|c, _| each(c, |x| 2.0 * x), "scaled by 2 (fnuz patterns read as OCP, or a term added twice): 6,144 of 6,144 mismatches"),
    ] as [(Mutation, &str); 7]
    {
        let mut result = reference.clone();
        mutate(&mut result, 96);
        let found = cause_of_bytes(&bytes(&result, DType::F32), DType::F32, &reference, &[64, 96], &Tolerance::new(1e-6, 1e-6).unwrap());
        assert_eq!(found.unwrap().to_string(), expected);
    }
}

#[test]
fn lanes_are_told_in_words() {
    for (dimension, last, rank, expected) in [
        (Some(1), 5, 2, "columns 3 to 5 of each 16"),
        (Some(1), 3, 2, "one column in 16, from 3 on"),
        (Some(2), 5, 3, "dimension 2 at 3 to 5 of each 16"),
        (Some(2), 3, 3, "dimension 2 at 3 of each 16"),
        (None, 5, 3, "elements 3 to 5 of each 16"),
        (None, 3, 1, "one element in 16, from 3 on"),
    ] {
        assert_eq!(Region::Periodic { dimension, period: 16, first: 3, last, rank }.to_string(), expected);
    }
}

/// Correct results that a tolerance is too tight for.
#[test]
fn rounding_alone_has_no_cause() {
    let reference: Vec<f64> = numbers(4096, 4).iter().map(|x| round(3.0 * x, DType::F32)).collect();
    for dtype in [DType::F16, DType::Bf16, DType::F8E4M3] {
        let found = cause_of_bytes(&bytes(&reference, dtype), dtype, &reference, &[64, 64], &Tolerance::exact()).unwrap();
        assert_eq!(found.cause, Cause::Unknown, "{dtype}");
    }
    let noisy: Vec<f64> = reference.iter().zip(numbers(4096, 44)).map(|(x, e)| x + 1e-6 * e).collect();
    let found = cause_of_bytes(&bytes(&noisy, DType::F32), DType::F32, &reference, &[64, 64], &Tolerance::exact()).unwrap();
    assert_eq!(found.cause, Cause::Unknown, "noise of one size");
}

/// Every shape from none to eight dimensions, with data that arithmetic does not like.
#[test]
fn nothing_panics() {
    let shapes: [&[usize]; 10] = [&[], &[1], &[9], &[1, 9], &[9, 1], &[2, 3], &[1, 1, 1], &[3, 1, 17, 2], &[2; 8], &[300, 2]];
    let specials = [0.0, -0.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300, 1e-320, 1.0, -65504.0];
    for shape in shapes {
        let n = shape.iter().product::<usize>();
        for dtype in
            [DType::F64, DType::F32, DType::Bf16, DType::F8E4M3Fnuz, DType::F8E8M0, DType::F4E2M1, DType::I8, DType::I64, DType::Bool]
        {
            for (a, r) in specials.iter().flat_map(|a| specials.map(|r| (*a, r))).filter(|_| n < 10) {
                cause_of_bytes(&bytes(&vec![a; n], dtype), dtype, &vec![r; n], shape, &Tolerance::exact());
            }
            for (i, j) in [(5, 7), (1, 0), (0, 1), (2, 2), (4, 1)] {
                let [mixed, other] = [i, j].map(|step| (0..n).map(|k| specials[(k * step + step) % 9]).collect::<Vec<f64>>());
                cause_of_bytes(&bytes(&mixed, dtype), dtype, &other, shape, &Tolerance::exact());
            }
        }
    }
}

/// What an earlier output of other inputs explains, and what it does not.
#[test]
fn an_earlier_output_is_recognised() {
    let n = 64 * 64;
    let (reference, before) = (numbers(n, 1), numbers(n, 2));
    let few: Vec<f64> = before.iter().map(|x| x.signum()).collect();
    let mixed = |wrong: &dyn Fn(usize) -> f64| (0..n).map(|i| if i % 64 < 16 { wrong(i) } else { reference[i] }).collect::<Vec<f64>>();
    for (result, earlier, expected, reason) in [
        (before.clone(), &before, "stale", "nothing was written"),
        (mixed(&|i| before[i]), &before, "stale", "a quarter of the columns was not written"),
        (mixed(&|i| reference[i] + round(before[i], DType::F16)), &before, "added_to_earlier", "beta of 1 for 0"),
        (mixed(&|_| 0.0), &mixed(&|_| 0.0), "unwritten", "zeros there twice are zeros"),
        (numbers(n, 9), &before, "unknown", "another output"),
        (few.iter().map(|x| -x).collect(), &few, "unknown", "numbers so few that half are alike by chance"),
        (reference.clone(), &before, "pass", "right"),
    ] {
        let layout = || Layout::contiguous(&[64, 64]).unwrap();
        let [result, earlier] = [&result, earlier].map(|values| bytes(values, DType::F16));
        let expected_bytes = bytes(&reference, DType::F32);
        let tensor = |bytes, dtype| TensorRef::from_host_bytes(bytes, dtype, layout()).unwrap();
        let (result, earlier, r) = (tensor(&result, DType::F16), tensor(&earlier, DType::F16), tensor(&expected_bytes, DType::F32));
        let tolerance = Tolerance::rounding(DType::F16, DType::F32, 64);
        let found = gpu_verify_with_earlier(&result, &r, &earlier, &tolerance, &Options::default()).unwrap().cause;
        assert_eq!(kind(&found), expected, "{reason}: {found:?}");
    }
}

#[test]
fn causes_are_looked_for_where_failures_are_explained() {
    let reference = numbers(64, 1);
    let data = bytes(&reference, DType::F32);
    let zeros = vec![0; data.len()];
    let tensor = |bytes| TensorRef::from_host_bytes(bytes, DType::F32, Layout::contiguous(&[64]).unwrap()).unwrap();
    for (result, options, found, reason) in [
        (&zeros, Options::default(), true, "a failure"),
        (&data, Options::default().explain(Explain::Always), false, "a pass"),
        (&zeros, Options::default().explain(Explain::Never), false, "a failure that is not to be explained"),
        (&zeros, Options::default().cause(false), false, "not asked for"),
    ] {
        let report = gpu_verify_with(&tensor(result), &tensor(&data), &Tolerance::exact(), &options).unwrap();
        assert_eq!((report.cause.is_some(), report.to_string().contains("\n  cause ")), (found, found), "{reason}");
        assert!(Budget::of(&report).is_some());
    }
}

/// Right f32 sums of numbers around 100 with columns that add up to 0: their errors are those of the magnitudes, 256 times what is left. A tolerance made of what is left does not know that.
#[test]
fn sums_that_cancel_look_like_few_bits() {
    let (m, k, n) = (32, 1024, 32);
    let a: Vec<f64> = numbers(m * k, 1).iter().map(|x| round(100.0 + x, DType::F32)).collect();
    let b = numbers(k * n, 2);
    let mean = |j: usize| (0..k).map(|l| b[l * n + j]).sum::<f64>() / k as f64;
    let means: Vec<f64> = (0..n).map(mean).collect();
    let b: Vec<f64> = (0..k * n).map(|i| round(b[i] - means[i % n], DType::F32)).collect();
    let (a, b) = (&a, &b);
    let products = move |i: usize| (0..k).map(move |l| a[i / n * k + l] * b[l * n + i % n]);
    let exact: Vec<f64> = (0..m * n).map(|i| products(i).sum()).collect();
    // In 16 accumulators, which are added in the end, as vector units have them.
    let in_f32 = |i: usize| {
        let mut sums = [0f32; 16];
        products(i).enumerate().for_each(|(l, x)| sums[l % 16] += x as f32);
        f64::from(sums.iter().sum::<f32>())
    };
    let result: Vec<f64> = (0..m * n).map(in_f32).collect();
    let (exact, result) = (bytes(&exact, DType::F64), bytes(&result, DType::F32));
    let of = |tolerance: &Tolerance| {
        let layout = || Layout::contiguous(&[m, n]).unwrap();
        let reference = TensorRef::from_host_bytes(&exact, DType::F64, layout()).unwrap();
        let result = TensorRef::from_host_bytes(&result, DType::F32, layout()).unwrap();
        gpu_verify_with(&result, &reference, tolerance, &Options::default()).unwrap()
    };
    let report = of(&Tolerance::rounding(DType::F32, DType::F64, k));
    let found = report.cause.as_ref().unwrap();
    assert_eq!(found.kind(), "low_precision", "{report}");
    assert!(found.to_string().starts_with("sums or operands of few bits, or sums that cancel (`check`,"), "{found}");
    let given = of(&Tolerance::new(1e-6, 1e-6).unwrap()).cause.unwrap();
    assert!(given.to_string().starts_with("sums or operands of few bits: errors"), "{given}");
}

/// A few rows that are wrong altogether have a low rank, as any few rows have.
#[test]
fn a_rank_of_all_wrong_rows_is_no_cause() {
    let n = 64 * 64;
    let reference = numbers(n, 8);
    let garbage = numbers(n, 9);
    for by_rows in [true, false] {
        let wrong = |i: usize| if by_rows { (i / 64).is_multiple_of(4) } else { i.is_multiple_of(3) };
        let result: Vec<f64> = (0..n).map(|i| if wrong(i) { garbage[i] } else { reference[i] }).collect();
        let found = cause(&result, DType::F32, &reference, &[64, 64]);
        assert_ne!(kind(&found), "terms", "{}", found.unwrap());
    }
}

/// Large tensors are looked at in parts, of which alone the places are told.
#[test]
fn places_are_of_mismatches_that_were_sampled() {
    let n = 3 << 20;
    let reference = numbers(n, 8);
    let mut result = reference.clone();
    // The last one lies in no part: those are around the first mismatch, the worst, and both ends.
    [(5000, 9.0), (5001, 5.3), (5002, 7.1), (1_700_000, 2.4)].into_iter().for_each(|(i, by)| result[i] += by);
    let found = cause(&result, DType::F32, &reference, &[n / 1024, 1024]).unwrap();
    let words = "unknown: all 3 mismatches that were sampled lie in row 4, columns 904 to 906";
    assert_eq!((found.to_string().as_str(), found.sampled), (words, true));
}

/// Further than a row has columns.
#[test]
fn shifts_that_are_of_no_dimension_are_told_in_elements() {
    let reference = numbers(30 * 6, 8);
    let mut result = reference.clone();
    result.rotate_right(7);
    let found = cause(&result, DType::F32, &reference, &[30, 6]).unwrap().to_string();
    assert!(found.starts_with("shifted by 7 elements: "), "{found}");
}

/// Small patterns of f16 are next to 0 as bf16, where a reference is 0 whatever the mistake is.
#[test]
fn references_that_are_zero_tell_no_format() {
    let wide: Vec<f64> = numbers(64 * 64, 1).iter().map(|x| round(x / 8.0, DType::F16)).collect();
    let reference: Vec<f64> = wide.iter().map(|x| x.max(0.0)).collect();
    let leaky: Vec<f64> = wide.iter().map(|x| x.max(0.01 * x)).collect();
    for (result, reason) in [(&wide, "no ReLU"), (&leaky, "a leaky one")] {
        let found = cause(result, DType::F16, &reference, &[64, 64]);
        assert_ne!(kind(&found), "read_as", "{reason}: {found:?}");
    }
}

/// Zeros follow from an infinity, or NaN, along a row or a column of it.
#[test]
fn zeros_follow_from_what_is_not_finite_beside_them() {
    let reference = numbers(400, 1);
    let mut softmax = reference.clone();
    softmax[60..80].fill(0.0);
    softmax[63] = f64::NAN;
    let mut column = reference.clone();
    column.iter_mut().skip(4).step_by(20).for_each(|x| *x = 0.0);
    column[204] = f64::INFINITY;
    let mut one = vec![0.0; 400];
    one[64] = f64::NAN;
    let mut half = reference.clone();
    half[200..].fill(0.0);
    half[0] = f64::INFINITY;
    for (result, shape, expected, reason) in [
        (&softmax, &[20, 20][..], "nan", "a row"),
        (&column, &[20, 20], "overflowed", "a column"),
        (&one, &[20, 20], "unwritten", "one NaN among zeros"),
        (&one, &[400], "unwritten", "the same, in one dimension"),
        (&half, &[20, 20], "unwritten", "an infinity far from half a tensor of zeros"),
    ] {
        assert_eq!(kind(&cause(result, DType::F16, &reference, shape)), expected, "{reason}");
    }
}

/// A reference that was clamped to the limit of a format without infinities, whose result has NaN there.
#[test]
fn nan_where_the_reference_was_clamped_is_overflow() {
    let reference: Vec<f64> = numbers(1024, 5).iter().map(|x| (600.0 * x).clamp(-448.0, 448.0)).collect();
    let result: Vec<f64> = reference.iter().map(|&x| if x.abs() < 448.0 { round(x, DType::F8E4M3) } else { f64::NAN }).collect();
    assert_eq!(kind(&cause(&result, DType::F8E4M3, &reference, &[32, 32])), "overflowed");
}

/// One number may be the limit of anything.
#[test]
fn one_mismatch_tells_no_limit_of_another_format() {
    let exact = Tolerance::exact();
    for (result, reference, dtype, expected) in [
        (6.0, 8.0, DType::F8E5M2, "unknown"),
        (-128.0, -160.0, DType::F8E5M2, "unknown"),
        (65504.0, 7e4, DType::F16, "saturated"),
        (127.0, 200.0, DType::I8, "saturated"),
    ] {
        let found = cause_of_bytes(&bytes(&[result], dtype), dtype, &[reference], &[1, 1], &exact);
        assert_eq!(kind(&found), expected, "{result} for {reference} in {dtype}");
    }
}

/// What lies at the edge of a shift may be anything, but is the smaller part of it.
#[test]
fn exchanged_columns_are_no_shift() {
    for (columns, [p, q], expected) in [(4, [0, 3], "columns j and j ^ 3 exchanged"), (2, [0, 1], "the opposite order, within each row")] {
        let reference = numbers(64 * columns, 8);
        let mut result = reference.clone();
        result.chunks_mut(columns).for_each(|row| row.swap(p, q));
        let found = cause(&result, DType::F32, &reference, &[64, columns]).unwrap().to_string();
        assert!(found.starts_with(&format!("{expected}: 128 of 128 mismatches")), "{found}");
    }
}

/// A tile whose address is wrong by its own width holds, where its neighbour ends with the row, the beginning of the next row.
#[test]
fn a_tile_from_an_address_further_on_is_shifted() {
    let reference = numbers(32 * 32, 8);
    let inside = |i: usize| i / 32 < 16 && (8..24).contains(&(i % 32));
    let result: Vec<f64> = (0..32 * 32).map(|i| reference[if inside(i) { i + 16 } else { i }]).collect();
    let found = cause(&result, DType::F32, &reference, &[32, 32]).unwrap().to_string();
    assert_eq!(found, "shifted by 16 columns: 256 of 256 mismatches, all in rows 0 to 15, columns 8 to 23");
}

/// Of several hundred maps, one fits a few mismatches among few different numbers; a line fits any two, and a few are 0 by chance.
#[test]
fn few_mismatches_among_few_numbers_have_no_cause() {
    let exact = Tolerance::exact();
    for (seed, count) in (0..24).flat_map(|seed| [4, 8, 16].map(|count| (seed, count))) {
        let reference: Vec<f64> = numbers(512, seed).iter().map(|x| f64::from(u8::from(*x > 0.0))).collect();
        let mut result = reference.clone();
        let places = numbers(count, 100 + seed);
        places.iter().map(|x| ((x + 1.0) * 256.0) as usize).for_each(|i| result[i] = 1.0 - reference[i]);
        for dtype in [DType::U8, DType::F32] {
            let found = cause_of_bytes(&bytes(&result, dtype), dtype, &reference, &[8, 64], &exact);
            let in_region = found.as_ref().is_some_and(|found| found.region.is_some());
            assert!(matches!(kind(&found), "unknown" | "region") || in_region && kind(&found) == "unwritten", "{found:?}");
        }
    }
}

/// A factor next to 1 is told by its distance from 1, and a known one is named where it is that.
#[test]
fn factors_are_told_with_the_digits_that_they_differ_in() {
    let reference = numbers(1024, 8);
    for (dtype, factor, expected) in [
        (DType::F32, 1.0 + 1e-6, "scaled by 1 + "),
        (DType::F64, 1.0 - 1e-6, "scaled by 1 - 1e-6: "),
        (DType::F32, 1.00003, "scaled by 1 + 3e-5: "),
        (DType::F64, 2.00001, "scaled by 2 + 1e-5: "),
        (DType::F64, 2.0, "scaled by 2 (a term added twice): "),
        (DType::F32, 2.0, "scaled by 2 (fnuz patterns"),
        (DType::F64, 0.5, "scaled by 0.5 (a factor of 1/2 too many): "),
        (DType::F32, 1.05, "scaled by 1.05: "),
    ] {
        let exact: Vec<f64> = reference.iter().map(|&x| round(x, DType::F32)).collect();
        let result: Vec<f64> = exact.iter().map(|x| factor * x).collect();
        let found = cause_of_bytes(&bytes(&result, dtype), dtype, &exact, &[32, 32], &Tolerance::exact()).unwrap().to_string();
        assert!(found.starts_with(expected), "{expected}: {found}");
    }
}
