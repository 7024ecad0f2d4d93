//! The models of tensor cores against sums that a program made of exact fractions (`tests/data/make_tensor_core_sums.py`).
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use half::f16;
use hipverify::dtype::DType;
use hipverify::matrix_core::{Model, Vendor, gemm_tile, naive};
use hipverify::reference::{Accumulate, Arithmetic};
use std::collections::HashSet;

/// A sum of the table.
struct Sum {
    model: Model,
    c: f32,
    a: Vec<f32>,
    b: Vec<f32>,
    expected: u32,
}

fn number(text: &str) -> u32 {
    u32::from_str_radix(text, 16).unwrap()
}

/// A value as operands have it, in f32.
fn widened(dtype: DType, bits: u32) -> f32 {
    if dtype.bits() == 32 { f32::from_bits(bits) } else { dtype.decode(u64::from(bits)) as f32 }
}

fn sums() -> Vec<Sum> {
    let sum = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let [name, c, pairs @ .., "=", expected] = &*words else { panic!("{line}") };
        let Accumulate::MatrixCore(model) = name.parse::<Arithmetic>().unwrap().accumulate else { panic!("{name}") };
        let (ta, tb) = model.input().dtypes();
        let (a, b) =
            pairs.iter().map(|pair| pair.split_once(',').unwrap()).map(|(a, b)| (widened(ta, number(a)), widened(tb, number(b)))).unzip();
        Sum { model, c: widened(model.accumulator(), number(c)), a, b, expected: number(expected) }
    };
    include_str!("data/tensor_core_sums.txt").lines().filter(|line| !line.starts_with('#')).map(sum).collect()
}

fn check(sum: &Sum, found: f32, how: &str) {
    let Sum { model, c, a, b, expected } = sum;
    let bits = match model.accumulator() {
        DType::F16 if found.is_nan() => found.to_bits() >> 16,
        DType::F16 => {
            assert_eq!(f16::from_f32(found).to_f32(), found, "{model}: a result that f16 has not");
            u32::from(f16::from_f32(found).to_bits())
        }
        _ => found.to_bits(),
    };
    assert_eq!(bits, *expected, "{model} {how}: {bits:x}, fractions {expected:x}: {c:e} + {a:?} · {b:?}");
}

#[test]
fn naive_sums_are_those_of_exact_fractions() {
    for sum in sums() {
        check(&sum, naive::dot(sum.model, sum.c, &sum.a, &sum.b), "naive");
    }
}

#[test]
fn tiles_are_those_of_exact_fractions() {
    for sum in sums() {
        // Several columns, of which the vector code takes more than one at once.
        let (k, n) = (sum.a.len(), 19);
        let b: Vec<f32> = sum.b.iter().flat_map(|b| vec![*b; n]).collect();
        let mut c = vec![sum.c; n];
        gemm_tile(sum.model, 1, n, k, &sum.a, k, &b, n, &mut c, n);
        c.into_iter().for_each(|c| check(&sum, c, "tile"));
    }
}

#[test]
fn the_table_has_every_model_of_tensor_cores() {
    let found: HashSet<Model> = sums().into_iter().map(|sum| sum.model).collect();
    let missing = |m: &Model| m.arch().vendor() == Vendor::Nvidia && !found.contains(m);
    assert_eq!(Model::all().filter(missing).map(|m| m.to_string()).collect::<Vec<_>>(), [""; 0]);
}
