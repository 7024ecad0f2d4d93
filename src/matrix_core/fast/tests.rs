//! Every fast path against the naive rules, on data made to hurt.

use super::super::{Model, naive};
use super::*;
use crate::dtype::{DType, Overflow, Rounding};

/// A fixed pseudo-random sequence (splitmix64).
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, n: u64) -> u64 {
        self.roll() % n
    }
}

fn decode(dtype: DType, bits: u64) -> f32 {
    dtype.decode(bits & (u64::MAX >> (64 - dtype.bits()))) as f32
}

fn nearest(dtype: DType, x: f64) -> f32 {
    decode(dtype, dtype.encode(x, Rounding::NearestEven, Overflow::Saturate))
}

type Make = fn(&mut Dice, DType) -> f32;

/// The kinds of inputs; every one is a number of the format.
const KINDS: [(&str, Make); 7] = [
    ("any pattern, with infinities and NaN", |d, t| decode(t, d.roll())),
    ("any finite pattern", |d, t| {
        let x = decode(t, d.roll());
        if x.is_finite() { x } else { 1.0 }
    }),
    ("uniform in [-1, 1]", |d, t| nearest(t, d.below(1 << 20) as f64 / (1 << 19) as f64 - 1.0)),
    ("small integers", |d, t| nearest(t, d.below(9) as f64 - 4.0)),
    ("powers of two, near ties", |d, t| nearest(t, [1.0, -1.0][d.below(2) as usize] * 2f64.powi(d.below(27) as i32 - 13))),
    ("subnormal or barely normal", |d, t| {
        let f = t.float_format().unwrap();
        let x = f.min_positive() * d.below(4 << f.mantissa_bits) as f64;
        nearest(t, if d.below(2) == 0 { x } else { -x })
    }),
    ("cancelling giants and dwarfs", |d, t| {
        let f = t.float_format().unwrap();
        nearest(t, [f.max_finite(), -f.max_finite(), f.min_positive(), -f.min_normal(), 0.0, -0.0, 1.0, -1.0][d.below(8) as usize])
    }),
];

/// Accumulators to start from.
fn accumulator(d: &mut Dice) -> f32 {
    match d.below(6) {
        0 => 0.0,
        1 => -0.0,
        2 => f32::from_bits(d.roll() as u32),
        3 => f32::from_bits(d.roll() as u32 & 0x807f_ffff),
        4 => d.below(1 << 24) as f32 - (1 << 23) as f32,
        _ => [1.0, -1.0][d.below(2) as usize] * 2f32.powi(d.below(80) as i32 - 40),
    }
}

#[test]
fn every_instruction_set_gives_the_naive_bits() {
    let mut d = Dice(1);
    for model in Model::all() {
        let (ta, tb) = model.input().dtypes();
        for ((ka, make_a), (kb, make_b)) in KINDS.into_iter().flat_map(|a| KINDS.map(|b| (a, b))) {
            let (m, n, k) = (5, 19, [1, 3, 16, 37, 150][d.below(5) as usize]);
            let (lda, ldb, ldc) = (k + 2, n + 1, n + 3);
            let a: Vec<f32> = (0..m * lda).map(|_| make_a(&mut d, ta)).collect();
            let b: Vec<f32> = (0..k * ldb).map(|_| make_b(&mut d, tb)).collect();
            let c: Vec<f32> = (0..m * ldc).map(|_| accumulator(&mut d)).collect();
            let mut expected = c.clone();
            naive::gemm(model, m, n, k, &a, lda, &b, ldb, &mut expected, ldc);
            for set in InstructionSet::all() {
                let mut found = c.clone();
                gemm(model, &mut Problem { m, n, k, a: &a, lda, b: &b, ldb, c: &mut found, ldc, first: true }, *set);
                for (i, (f, e)) in found.iter().zip(&expected).enumerate() {
                    let (row, column) = (i / ldc, i % ldc);
                    let same = f.to_bits() == e.to_bits();
                    assert!(same, "{model}, {set:?}, A {ka}, B {kb}, k {k}, [{row}, {column}]: {f:e}, naive {e:e}");
                }
            }
        }
    }
}

#[test]
fn preparing_first_changes_nothing() {
    let mut d = Dice(2);
    for model in Model::all() {
        let (ta, tb) = model.input().dtypes();
        let (m, n, k) = (4, 16, 32);
        let mut a: Vec<f32> = (0..m * k).map(|_| KINDS[1].1(&mut d, ta)).collect();
        let mut b: Vec<f32> = (0..k * n).map(|_| KINDS[5].1(&mut d, tb)).collect();
        let mut once = vec![0.0; m * n];
        let mut twice = once.clone();
        super::super::gemm_tile(model, m, n, k, &a, k, &b, n, &mut once, n);
        model.prepare(&mut a);
        model.prepare(&mut b);
        super::super::gemm_tile(model, m, n, k, &a, k, &b, n, &mut twice, n);
        assert_eq!(once, twice, "{model}");
    }
}
