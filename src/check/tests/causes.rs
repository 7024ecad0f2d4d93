//! Causes that operands tell: each mistake written by hand, and what a report then says.

mod convolutions;

use super::*;
use crate::dtype::{F8E4M3, F8E5M2Fnuz};
use crate::reference::naive;

/// Values of a tensor.
fn wide(x: &DeviceMem<F16>) -> Vec<f64> {
    x.to_vec().unwrap().iter().map(|x| x.to_f64()).collect()
}

fn through<T: Scalar>(x: f64) -> f64 {
    T::DTYPE.rounded_by(x, Rounding::NearestEven, Overflow::Saturate)
}

type Formula<'a> = &'a dyn Fn(usize, usize) -> f64;

/// Operands that are rounded to bf16 first, in results whose own rounding is a quarter of that: not one element shows it, all together do. Their size is that of sums in f16.
#[test]
fn rounded_operands_are_told_from_narrow_sums() {
    let [m, n, k] = [64, 64, 256];
    let (mut named, seeds) = (0, 4);
    for seed in 0..seeds {
        let (a, b) = (numbers::<F16>(m * k, [-1.0, 1.0], 10 + seed), numbers::<F16>(k * n, [-1.0, 1.0], 20 + seed));
        let (x, y) = (wide(&a), wide(&b));
        let (a, b) = (a.tensor(&[m, k]).unwrap(), b.tensor(&[k, n]).unwrap());
        let cause = |of: &dyn Fn(usize, usize) -> F16| {
            let d: Vec<F16> = (0..m * n).map(|i| of(i / n, i % n)).collect();
            let d = DeviceMem::from_slice(&Device::host(), &d).unwrap();
            Check::gemm(&a, &b, d.tensor(&[m, n]).unwrap()).run().unwrap().cause.unwrap()
        };
        let found = cause(&|i, j| F16::from_f64((0..k).map(|l| through::<Bf16>(x[i * k + l]) * y[l * n + j]).sum()));
        assert_eq!(found.kind, "operands_in", "{found:?}");
        named += u32::from(found.evidence.starts_with("A is rounded to bf16 first"));
        let found = cause(&|i, j| {
            // In descending k, so that the size of the errors alone tells.
            let sum = (0..k).rev().fold(0.0, |sum, l| through::<F16>(sum + x[i * k + l] * y[l * n + j]));
            F16::from_f64(sum)
        });
        assert_eq!(found.kind, "accumulated_in", "{found:?}");
    }
    assert_eq!(named, seeds);
}

/// What a chip makes of operands by itself is no mistake of the kernel: sums that overflow on the way to a number, and NaN in an accumulator that counts as small.
#[test]
fn what_the_chip_gives_is_named_as_such() {
    const K: usize = 32;
    fn of<T: Scalar>(arch: Arch, input: Input, a: [f64; K], b: f64) -> [CheckReport; 2] {
        let host = Device::host();
        let operand = |x: [f64; K]| {
            let encode = |x| T::from_bits64(T::DTYPE.encode(x, Rounding::NearestEven, Overflow::Ieee));
            DeviceMem::from_slice(&host, &x.map(encode)).unwrap()
        };
        let (a, b) = (operand(a), operand([b; K]));
        let (a, b) = (a.tensor(&[1, K]).unwrap(), b.tensor(&[K, 1]).unwrap());
        let d = product::<f32>(&Gemm::new(Model::new(arch, input).unwrap()), &a, &b, [1, 1]);
        let d = d.tensor(&[1, 1]).unwrap();
        [Check::gemm(&a, &b, &d).arch(arch), Check::gemm(&a, &b, &d)].map(|check| check.run().unwrap())
    }
    let overflowing: [f64; K] = std::array::from_fn(|i| [3e38, 3e38, -3e38, -2.9e38][i % 4]);
    let mut with_nan = [57344.0; K];
    with_nan[3] = f64::NAN;
    for ([with_chip, without], other, reason) in [
        (of::<Bf16>(Arch::Gfx90a, Input::Bf16, overflowing, 1.0), "nan", "a sum that overflows on the way"),
        (
            of::<F8E5M2Fnuz>(Arch::Gfx942, Input::Bf8Bf8, with_nan, 57344.0),
            "reference_not_finite",
            "NaN of the first 16 products, which the next ones drop",
        ),
    ] {
        assert_eq!(with_chip.verdict(), Verdict::Fail, "{reason}\n{with_chip}");
        assert!(with_chip.exactness.as_ref().unwrap().is_exact(), "{reason}\n{with_chip}");
        let text = with_chip.to_string();
        assert!(text.contains("\n  cause      gfx9") && text.contains("'s own arithmetic: the result is bit for bit"), "{reason}\n{text}");
        assert_eq!(with_chip.cause.unwrap().kind, "chip", "{reason}");
        assert_eq!(without.cause.map(|cause| cause.kind), Some(other), "{reason}: nothing is known of a chip");
    }
}

/// A product with C, a bias and ReLU, of which kernels make something else.
struct Mistaken {
    operands: [DeviceMem<F16>; 4],
    x: Vec<f64>,
    y: Vec<f64>,
    z: Vec<f64>,
    v: Vec<f64>,
}

/// Its rows, columns and products of a sum.
const M: usize = 24;
const N: usize = 20;
const K: usize = 100;
const ALPHA: f64 = 1.5;
const BETA: f64 = 0.75;

impl Mistaken {
    fn new() -> Mistaken {
        let operands = [(M * K, 1), (K * N, 2), (M * N, 3), (N, 4)].map(|(elements, seed)| numbers::<F16>(elements, [-1.0, 1.0], seed));
        let [x, y, z, v] = operands.each_ref().map(wide);
        Mistaken { operands, x, y, z, v }
    }

    fn products(&self, i: usize, j: usize) -> Vec<f64> {
        (0..K).map(|l| self.x[i * K + l] * self.y[l * N + j]).collect()
    }

    fn sum(&self, i: usize, j: usize) -> f64 {
        self.products(i, j).iter().sum()
    }

    /// Some of the products.
    fn of(&self, i: usize, j: usize, from: usize, to: usize) -> f64 {
        self.products(i, j)[from..to].iter().sum()
    }

    /// With both operands changed.
    fn rounded(&self, i: usize, j: usize, f: fn(f64) -> f64) -> f64 {
        (0..K).map(|l| f(self.x[i * K + l]) * f(self.y[l * N + j])).sum()
    }

    /// What follows a sum.
    fn end(&self, i: usize, j: usize, sum: f64) -> f64 {
        (ALPHA * sum + BETA * self.z[i * N + j] + self.v[j]).max(0.0)
    }

    /// That each of these mistakes is named.
    fn names(&self, last: Epilogue, mistakes: &[(&str, Formula<'_>)]) {
        let [a, b, c, bias] = &self.operands;
        let (a, b, c) = (a.tensor(&[M, K]).unwrap(), b.tensor(&[K, N]).unwrap(), c.tensor(&[M, N]).unwrap());
        for (words, formula) in mistakes {
            let d: Vec<f32> = (0..M * N).map(|i| formula(i / N, i % N) as f32).collect();
            let d = DeviceMem::from_slice(&Device::host(), &d).unwrap();
            let d = d.tensor(&[M, N]).unwrap();
            let check = Check::gemm(&a, &b, &d).alpha(ALPHA).beta(BETA, &c).bias(bias).epilogue(last);
            let report = check.run().unwrap();
            assert!(report.to_string().contains(&format!("\n  cause      {words}")), "{words}\n{report}");
            assert_eq!(check.cause(false).run().unwrap().cause, None);
        }
    }
}

#[test]
fn mistakes_behind_sums_are_named() {
    let p = Mistaken::new();
    p.names(
        Epilogue::Relu,
        &[
            ("the bias is missing", &|i, j| (ALPHA * p.sum(i, j) + BETA * p.z[i * N + j]).max(0.0)),
            ("the bias is added twice", &|i, j| (ALPHA * p.sum(i, j) + BETA * p.z[i * N + j] + 2.0 * p.v[j]).max(0.0)),
            ("C is missing", &|i, j| (ALPHA * p.sum(i, j) + p.v[j]).max(0.0)),
            ("C is added without beta", &|i, j| (ALPHA * p.sum(i, j) + p.z[i * N + j] + p.v[j]).max(0.0)),
            ("alpha is missing", &|i, j| (p.sum(i, j) + BETA * p.z[i * N + j] + p.v[j]).max(0.0)),
            ("alpha is applied twice", &|i, j| (ALPHA * ALPHA * p.sum(i, j) + BETA * p.z[i * N + j] + p.v[j]).max(0.0)),
            ("alpha and beta are exchanged", &|i, j| (BETA * p.sum(i, j) + ALPHA * p.z[i * N + j] + p.v[j]).max(0.0)),
            ("alpha is applied to beta C as well", &|i, j| (ALPHA * (p.sum(i, j) + BETA * p.z[i * N + j]) + p.v[j]).max(0.0)),
            ("alpha is applied to the bias as well", &|i, j| (ALPHA * (p.sum(i, j) + p.v[j]) + BETA * p.z[i * N + j]).max(0.0)),
            ("the last function is missing", &|i, j| ALPHA * p.sum(i, j) + BETA * p.z[i * N + j] + p.v[j]),
            ("the last function comes before the bias", &|i, j| (ALPHA * p.sum(i, j) + BETA * p.z[i * N + j]).max(0.0) + p.v[j]),
            ("the last function comes before C", &|i, j| (ALPHA * p.sum(i, j)).max(0.0) + BETA * p.z[i * N + j] + p.v[j]),
        ],
    );
}

#[test]
fn mistakes_of_products_are_named() {
    let p = Mistaken::new();
    p.names(
        Epilogue::Relu,
        &[
            ("the last product of each sum is missing", &|i, j| p.end(i, j, p.of(i, j, 0, 99))),
            ("the last 4 products of each sum are missing", &|i, j| p.end(i, j, p.of(i, j, 0, 96))),
            ("the last 36 products of each sum are missing", &|i, j| p.end(i, j, p.of(i, j, 0, 64))),
            ("the first 16 products of each sum are missing", &|i, j| p.end(i, j, p.of(i, j, 16, K))),
            ("nothing but the last 4 products of each sum", &|i, j| p.end(i, j, p.of(i, j, 96, K))),
            ("nothing but the first 2 products of each sum", &|i, j| p.end(i, j, p.of(i, j, 0, 2))),
            ("the first product of each sum is added twice", &|i, j| p.end(i, j, p.sum(i, j) + p.of(i, j, 0, 1))),
            ("part 2 of 4 of k is missing", &|i, j| p.end(i, j, p.sum(i, j) - p.of(i, j, 25, 50))),
            ("part 2 of 2 of k is added twice", &|i, j| p.end(i, j, p.sum(i, j) + p.of(i, j, 50, K))),
            ("B is read as transposed", &|i, j| p.end(i, j, (0..K).map(|l| p.x[i * K + l] * p.y[j * K + l]).sum())),
            ("A is read as transposed", &|i, j| p.end(i, j, (0..K).map(|l| p.x[l * M + i] * p.y[l * N + j]).sum())),
            ("factors of A are one k further than those of B", &|i, j| {
                p.end(i, j, (1..K).map(|l| p.x[i * K + l] * p.y[(l - 1) * N + j]).sum())
            }),
            ("operands are rounded to bf16 first", &|i, j| p.end(i, j, p.rounded(i, j, through::<Bf16>))),
            ("operands are rounded to f8e4m3 first", &|i, j| p.end(i, j, p.rounded(i, j, through::<F8E4M3>))),
            ("A is rounded to bf16 first", &|i, j| p.end(i, j, (0..K).map(|l| through::<Bf16>(p.x[i * K + l]) * p.y[l * N + j]).sum())),
            ("the last 32 factors of A are those of the tile before it", &|i, j| {
                p.end(i, j, p.of(i, j, 0, 68) + (68..K).map(|l| p.x[i * K + l - 32] * p.y[l * N + j]).sum::<f64>())
            }),
            ("the last 16 factors of B are those of the first tile", &|i, j| {
                p.end(i, j, p.of(i, j, 0, 84) + (84..K).map(|l| p.x[i * K + l] * p.y[(l - 84) * N + j]).sum::<f64>())
            }),
            ("sums are in bf16, rounded at each of 100 steps", &|i, j| {
                p.end(i, j, p.products(i, j).iter().fold(0.0, |s, p| through::<Bf16>(s + p)))
            }),
        ],
    );
}

/// Products are taken in another order: the size of the errors is left.
#[test]
fn accumulators_are_named_by_the_size_of_errors() {
    let p = Mistaken::new();
    p.names(
        Epilogue::None,
        &[("errors as sums in bf16 make them", &|i, j| {
            ALPHA * p.products(i, j).iter().rev().fold(0.0, |s, p| through::<Bf16>(s + p)) + BETA * p.z[i * N + j] + p.v[j]
        })],
    );
}

/// What is missing is a few times as large as the rounding of the result, which hides it at most elements: it is named all the same.
#[test]
fn what_is_small_beside_the_last_rounding_is_named() {
    let [m, n, k] = [64, 96, 256];
    for seed in 0..3 {
        let (a, b) = (numbers::<Bf16>(m * k, [-1.0, 1.0], 10 + seed), numbers::<Bf16>(k * n, [-1.0, 1.0], 20 + seed));
        let (bias, c) = (numbers::<Bf16>(n, [-0.08, 0.08], 30 + seed), numbers::<Bf16>(m * n, [-0.08, 0.08], 40 + seed));
        let [x, y, v, z] = [&a, &b, &bias, &c].map(|of| of.to_vec().unwrap().iter().map(|x| x.to_f64()).collect::<Vec<f64>>());
        // In f32, as a kernel adds.
        let sum = |i: usize| (0..k).fold(0.0f32, |sum, l| sum + (x[i / n * k + l] * y[l * n + i % n]) as f32);
        let (a, b) = (a.tensor(&[m, k]).unwrap(), b.tensor(&[k, n]).unwrap());
        let of = |with: &dyn Fn(usize) -> f64| {
            let d: Vec<Bf16> = (0..m * n).map(|i| Bf16::from_f64(f64::from(sum(i)) + with(i))).collect();
            let d = DeviceMem::from_slice(&Device::host(), &d).unwrap();
            let check = Check::gemm(&a, &b, d.tensor(&[m, n]).unwrap()).bias(&bias).beta(1.0, c.tensor(&[m, n]).unwrap());
            check.run().unwrap().cause.unwrap().evidence
        };
        for (found, words) in [
            (of(&|i| z[i]), "the bias is missing: "),
            (of(&|i| v[i % n]), "C is missing: "),
            (of(&|i| z[i] + 2.0 * v[i % n]), "the bias is added twice: "),
        ] {
            assert!(found.starts_with(words), "{words}, {seed}: {found}");
        }
    }
}

/// Parts of k that begin and end anywhere, and factors that meet others than their own.
#[test]
fn cuts_and_exchanges_of_k_are_named() {
    let [m, n, k] = [24, 40, 1024];
    let (a, b) = (numbers::<F16>(m * k, [-1.0, 1.0], 1), numbers::<F16>(k * n, [-1.0, 1.0], 2));
    let (x, y) = (wide(&a), wide(&b));
    let (a, b) = (a.tensor(&[m, k]).unwrap(), b.tensor(&[k, n]).unwrap());
    let of = |i: usize, from: usize, to: usize, exchanged: usize| {
        (from..to).map(|l| x[i / n * k + l] * y[(l ^ exchanged) * n + i % n]).sum::<f64>()
    };
    type Made<'a> = &'a dyn Fn(usize) -> f64;
    let mistakes: [(&str, &str, Made<'_>); 8] = [
        ("products 640 to 1023 of each sum are missing", "terms", &|i| of(i, 0, 640, 0)),
        ("products 0 to 591 of each sum are missing", "terms", &|i| of(i, 592, k, 0)),
        ("products 144 to 207 of each sum are missing", "terms", &|i| of(i, 0, k, 0) - of(i, 144, 208, 0)),
        ("products 144 to 207 of each sum are added twice", "terms", &|i| of(i, 0, k, 0) + of(i, 144, 208, 0)),
        ("factors of one operand are exchanged with their neighbours along k, as halves of bytes", "operand", &|i| of(i, 0, k, 1)),
        ("runs of 2 factors of one operand are exchanged", "operand", &|i| of(i, 0, k, 2)),
        ("runs of 4 factors of one operand are exchanged", "operand", &|i| of(i, 0, k, 4)),
        ("runs of 8 factors of one operand are exchanged", "operand", &|i| of(i, 0, k, 8)),
    ];
    for (words, kind, made) in mistakes {
        // All of the result, and one tile of it.
        for rows in [m, 8] {
            let d: Vec<F16> = (0..m * n).map(|i| F16::from_f64(if i / n < rows { made(i) } else { of(i, 0, k, 0) })).collect();
            let d = DeviceMem::from_slice(&Device::host(), &d).unwrap();
            let found = Check::gemm(&a, &b, d.tensor(&[m, n]).unwrap()).run().unwrap().cause.unwrap();
            assert!(found.kind == kind && found.evidence.starts_with(words), "{words}, {rows} rows: {found:?}");
        }
    }
}

/// A kernel that keeps sums in the result's format is told what to say of itself, and passes if it does.
#[test]
fn sums_that_are_rounded_before_what_follows_are_named() {
    let [m, n, k] = [64, 96, 256];
    let (a, b) = (numbers::<Bf16>(m * k, [-1.0, 1.0], 1), numbers::<Bf16>(k * n, [-1.0, 1.0], 2));
    let (bias, c) = (numbers::<Bf16>(n, [-4.0, 4.0], 3), numbers::<Bf16>(m * n, [-4.0, 4.0], 4));
    let [x, y, v, z] = [&a, &b, &bias, &c].map(|of| of.to_vec().unwrap().iter().map(|x| x.to_f64()).collect::<Vec<f64>>());
    let sum = |i: usize| through::<Bf16>((0..k).map(|l| x[i / n * k + l] * y[l * n + i % n]).sum());
    let (a, b, c) = (a.tensor(&[m, k]).unwrap(), b.tensor(&[k, n]).unwrap(), c.tensor(&[m, n]).unwrap());
    type Made<'a> = &'a dyn Fn(usize) -> f64;
    let alpha = 0.088388;
    let rows: [(&str, Made<'_>); 3] = [("bias", &|i| sum(i) + v[i % n]), ("C", &|i| sum(i) + z[i]), ("alpha", &|i| alpha * sum(i))];
    for (what, made) in rows {
        let d: Vec<Bf16> = (0..m * n).map(|i| Bf16::from_f64(made(i))).collect();
        let d = DeviceMem::from_slice(&Device::host(), &d).unwrap();
        let check = Check::gemm(&a, &b, d.tensor(&[m, n]).unwrap());
        let check = match what {
            "bias" => check.bias(&bias),
            "C" => check.beta(1.0, &c),
            _ => check.alpha(alpha),
        };
        let found = check.run().unwrap().cause.unwrap();
        assert!(found.kind == "intermediate_in", "{what}: {found:?}");
        assert!(found.evidence.starts_with("the sum is rounded to bf16 before alpha, C, the bias"), "{what}: {found:?}");
        let declared = check.split_k(1, Some(DType::Bf16)).run().unwrap();
        assert!(declared.passed() && declared.arithmetic.ends_with("sums in f32, stored in bf16"), "{what}\n{declared}");
    }
}

#[test]
fn other_matrices_of_a_batch_are_named() {
    let [batch, m, n, k] = [4, 12, 20, 48];
    let (a, b) = (numbers::<F16>(batch * m * k, [-1.0, 1.0], 1), numbers::<F16>(batch * k * n, [-1.0, 1.0], 2));
    let (x, y) = (wide(&a), wide(&b));
    let (a, b) = (a.tensor(&[2, 2, m, k]).unwrap(), b.tensor(&[2, 2, k, n]).unwrap());
    let of = |from: [&dyn Fn(usize) -> usize; 2]| {
        let element = |i: usize| {
            let (number, row, column) = (i / (m * n), i / n % m, i % n);
            let [first, second] = [0, 1].map(|which| from[which](number) % batch);
            (0..k).map(|l| x[(first * m + row) * k + l] * y[(second * k + l) * n + column]).sum::<f64>()
        };
        let d: Vec<F16> = (0..batch * m * n).map(|i| F16::from_f64(element(i))).collect();
        let d = DeviceMem::from_slice(&Device::host(), &d).unwrap();
        Check::gemm(&a, &b, d.tensor(&[2, 2, m, n]).unwrap()).run().unwrap().cause.unwrap()
    };
    let own: &dyn Fn(usize) -> usize = &|number| number;
    for (found, words) in [
        (of([own, &|_| 0]), "all of the batch take the first matrix of B: "),
        (of([own, &|number| number + 1]), "each of the batch takes the next matrix of B: "),
        (of([own, &|number| number + batch - 1]), "each of the batch takes the matrix before its own of B: "),
        (of([&|_| 0, own]), "all of the batch take the first matrix of A: "),
    ] {
        assert!(found.kind == "operand" && found.evidence.starts_with(words), "{words}: {found:?}");
    }
}

/// What no operand is needed for is called as everywhere, and nothing is named without evidence.
#[test]
fn other_causes_are_those_of_a_comparison() {
    let host = Device::host();
    let [m, n, k] = [24, 20, 64];
    let (a, b) = (numbers::<F16>(m * k, [-1.0, 1.0], 1), numbers::<F16>(k * n, [-1.0, 1.0], 2));
    let (left, right) = (a.tensor(&[m, k]).unwrap(), b.tensor(&[k, n]).unwrap());
    let good = product::<f32>(&Gemm::new(Accumulate::F32), &left, &right, [m, n]).to_vec().unwrap();
    let other = numbers::<f32>(m * n, [-4.0, 4.0], 9).to_vec().unwrap();
    let of = |d: Vec<f32>| {
        let d = DeviceMem::from_slice(&host, &d).unwrap();
        Check::gemm(&left, &right, d.tensor(&[m, n]).unwrap()).run().unwrap()
    };
    let changed = |f: &dyn Fn(usize, f32) -> f32| good.iter().enumerate().map(|(i, &x)| f(i, x)).collect::<Vec<f32>>();
    for (d, kind) in [
        (changed(&|_, _| 0.0), "unwritten"),
        (changed(&|_, x| 1.05 * x), "scaled"),
        (changed(&|_, x| 2.0 * x), "scaled"),
        (changed(&|_, x| -x), "negated"),
        (changed(&|i, x| if i / n == 3 { f32::NAN } else { x }), "nan"),
        (changed(&|_, x| x + 0.5), "offset"),
        (changed(&|i, x| if i % n == 7 { other[i] } else { x }), "region"),
        (other.clone(), "unknown"),
        // Too few to tell one product from another.
        (changed(&|i, x| if i % 200 == 7 { x + 0.25 } else { x }), "offset"),
    ] {
        let report = of(d);
        let found = report.cause.as_ref().map(|cause| cause.kind);
        assert!(report.verdict() == Verdict::Fail && (found == Some(kind) || kind == "offset"), "{kind}\n{report}");
        assert!(found != Some("terms"), "{report}");
    }
    assert_eq!(of(good).cause, None, "a pass");
}

/// Operands refute what errors alone suggest.
#[test]
fn statistics_that_operands_refute_are_not_named() {
    let [m, n] = [64, 64];
    type OfOperands<'a> = &'a dyn Fn(&[f64], &[f64], usize, usize) -> f64;
    let of = |k: usize, range: [f32; 2], f: OfOperands<'_>| {
        let (a, b) = (numbers::<F16>(m * k, range, 1), numbers::<F16>(k * n, range, 2));
        let (x, y) = (wide(&a), wide(&b));
        let d: Vec<f32> = (0..m * n).map(|i| f(&x, &y, i / n, i % n) as f32).collect();
        let d = DeviceMem::from_slice(&Device::host(), &d).unwrap();
        let (a, b, d) = (a.tensor(&[m, k]).unwrap(), b.tensor(&[k, n]).unwrap(), d.tensor(&[m, n]).unwrap());
        Check::gemm(&a, &b, &d).run().unwrap().to_string()
    };
    let exchanged = of(192, [0.0, 1.0], &|x, y, i, j| {
        // The first two tiles of 16 rows of B are exchanged.
        let from = |l: usize| if l < 32 { l ^ 16 } else { l };
        (0..192).map(|l| x[i * 192 + l] * y[from(l) * n + j]).sum()
    });
    assert!(!exchanged.contains("sums in bf16"), "results have more digits than bf16\n{exchanged}");
    let doubled = of(1, [-1.0, 1.0], &|x, y, i, j| 2.0 * x[i] * y[j]);
    assert!(!doubled.contains("part 1 of 2"), "one product has no parts\n{doubled}");
    let of_rank_four =
        of(1, [-1.0, 1.0], &|x, y, i, j| x[i] * y[j] + (1..5).map(|l| (i * l) as f64 * ((j * j * l) as f64).sin()).sum::<f64>());
    assert!(!of_rank_four.contains("terms of the sums"), "a sum of one term\n{of_rank_four}");
}

/// A multiple of the product beside C: the share of the terms that would make as large errors is not missing.
#[test]
fn a_factor_beside_c_is_no_share_of_the_terms() {
    let [m, n, k] = [64, 48, 64];
    let (a, b, c) = (numbers::<F16>(m * k, [-1.0, 1.0], 1), numbers::<F16>(k * n, [-1.0, 1.0], 2), numbers::<F16>(m * n, [-8.0, 8.0], 3));
    let (x, y, z) = (wide(&a), wide(&b), wide(&c));
    let sum = |i: usize, j: usize| (0..k).map(|l| x[i * k + l] * y[l * n + j]).sum::<f64>();
    let (a, b, c) = (a.tensor(&[m, k]).unwrap(), b.tensor(&[k, n]).unwrap(), c.tensor(&[m, n]).unwrap());
    for factor in [0.0625, 0.125, 1.9375] {
        let d: Vec<f32> = (0..m * n).map(|i| (factor * sum(i / n, i % n) + z[i]) as f32).collect();
        let d = DeviceMem::from_slice(&Device::host(), &d).unwrap();
        let report = Check::gemm(&a, &b, d.tensor(&[m, n]).unwrap()).beta(1.0, &c).run().unwrap();
        assert_eq!(report.cause.as_ref().map(|cause| cause.kind), Some("unknown"), "{factor}\n{report}");
    }
}

/// Operands in f32, of which tensor cores keep the upper bits: f16 has as many digits as tf32, but not its range.
#[test]
fn operands_in_tf32_and_bf16_are_told_from_f16() {
    let [m, n, k] = [32, 48, 64];
    let cut = |mask: u32| move |x: f32| f32::from_bits(x.to_bits() & mask);
    let away = |x: f32| f32::from_bits((x.to_bits() + 0x1000) & 0xffff_e000);
    type Convert<'a> = &'a dyn Fn(f32) -> f32;
    let rows: [(f32, Convert<'_>, &str); 8] = [
        (1.0, &away, "operands are rounded to f16 or tf32 first: "),
        (1.0, &|x| through::<F16>(f64::from(x)) as f32, "operands are rounded to f16 or tf32 first: "),
        (1048576.0, &away, "operands are rounded to tf32 first: "),
        (1.0, &cut(0xffff_e000), "operands are truncated to tf32 first: "),
        (1048576.0, &cut(0xffff_e000), "operands are truncated to tf32 first: "),
        (1.0, &|x| through::<Bf16>(f64::from(x)) as f32, "operands are rounded to bf16 first: "),
        (1.0, &cut(0xffff_0000), "operands are truncated to bf16 first: "),
        (1.0, &|x| through::<F8E4M3>(f64::from(x)) as f32, "operands are rounded to f8e4m3 first: "),
    ];
    for (scale, convert, words) in rows {
        let (a, b) = (numbers::<f32>(m * k, [-scale, scale], 1), numbers::<f32>(k * n, [-1.0, 1.0], 2));
        let converted = |of: &DeviceMem<f32>| of.to_vec().unwrap().iter().map(|&x| f64::from(convert(x))).collect::<Vec<f64>>();
        let (x, y) = (converted(&a), converted(&b));
        let d: Vec<f32> = (0..m * n).map(|i| (0..k).map(|l| x[i / n * k + l] * y[l * n + i % n]).sum::<f64>() as f32).collect();
        let d = DeviceMem::from_slice(&Device::host(), &d).unwrap();
        let (a, b, d) = (a.tensor(&[m, k]).unwrap(), b.tensor(&[k, n]).unwrap(), d.tensor(&[m, n]).unwrap());
        let found = Check::gemm(&a, &b, &d).run().unwrap().cause.unwrap();
        assert!(found.evidence.starts_with(words), "{scale}: {words}\n{found:?}");
    }
}

/// OCP and fnuz formats have the same digits and other smallest numbers: where the result shows these, the right one is named, and else both.
#[test]
fn formats_with_the_same_digits_are_told_apart_or_both_named() {
    let [m, n, k] = [48, 64, 128];
    for seed in 0..4 {
        let (a, b) = (numbers::<F16>(m * k, [-0.25, 0.25], 10 + seed), numbers::<F16>(k * n, [-0.25, 0.25], 20 + seed));
        let (x, y) = (wide(&a), wide(&b));
        let (a, b) = (a.tensor(&[m, k]).unwrap(), b.tensor(&[k, n]).unwrap());
        let cause = |convert: fn(f64) -> f64| {
            let sum = |i: usize, j: usize| (0..k).map(|l| x[i * k + l] * convert(y[l * n + j])).sum::<f64>();
            let d: Vec<F16> = (0..m * n).map(|i| F16::from_f64(sum(i / n, i % n))).collect();
            let d = DeviceMem::from_slice(&Device::host(), &d).unwrap();
            Check::gemm(&a, &b, d.tensor(&[m, n]).unwrap()).run().unwrap().cause.unwrap().evidence
        };
        for (found, words) in [
            (cause(through::<F8E4M3>), "B is rounded to f8e4m3 first: "),
            (cause(through::<F8E4M3Fnuz>), "B is rounded to f8e4m3fnuz first: "),
            (cause(through::<F8E5M2>), "B is rounded to f8e5m2 or f8e5m2fnuz first: "),
            (cause(through::<F8E5M2Fnuz>), "B is rounded to f8e5m2 or f8e5m2fnuz first: "),
        ] {
            assert!(found.starts_with(words), "{words}, {seed}: {found}");
        }
    }
}

/// Sums in f16, stored as bf16, have errors of a few roundings to bf16: sums in bf16 have far larger ones.
#[test]
fn errors_that_are_too_small_refute_a_narrow_accumulator() {
    let [m, n, k] = [64, 96, 200];
    for seed in 0..3 {
        let (a, b) = (numbers::<Bf16>(m * k, [-1.0, 1.0], 10 + seed), numbers::<Bf16>(k * n, [-1.0, 1.0], 20 + seed));
        let [x, y] = [&a, &b].map(|of| of.to_vec().unwrap().iter().map(|x| x.to_f64()).collect::<Vec<f64>>());
        let sum = |i: usize, j: usize| (0..k).fold(0.0, |sum, l| through::<F16>(sum + x[i * k + l] * y[l * n + j]));
        let d: Vec<Bf16> = (0..m * n).map(|i| Bf16::from_f64(sum(i / n, i % n))).collect();
        let d = DeviceMem::from_slice(&Device::host(), &d).unwrap();
        let (a, b, d) = (a.tensor(&[m, k]).unwrap(), b.tensor(&[k, n]).unwrap(), d.tensor(&[m, n]).unwrap());
        let report = Check::gemm(&a, &b, &d).run().unwrap();
        let found = report.cause.as_ref().unwrap();
        assert!(!found.evidence.contains("bf16"), "{report}");
    }
}

/// A function that nobody asked for shows without the operands, in products and convolutions alike.
#[test]
fn a_relu_that_was_not_asked_for_is_named() {
    let host = Device::host();
    let words = "\n  cause      zeros where the reference is negative: a ReLU that the reference does not have: ";
    let [m, n, k] = [24, 20, 64];
    let (a, b) = (numbers::<F16>(m * k, [-1.0, 1.0], 1), numbers::<F16>(k * n, [-1.0, 1.0], 2));
    let (left, right) = (a.tensor(&[m, k]).unwrap(), b.tensor(&[k, n]).unwrap());
    let relu = |right: Vec<f32>| DeviceMem::from_slice(&host, &right.iter().map(|x| x.max(0.0)).collect::<Vec<f32>>()).unwrap();
    let d = relu(product::<f32>(&Gemm::new(Accumulate::F32), &left, &right, [m, n]).to_vec().unwrap());
    let report = Check::gemm(&left, &right, d.tensor(&[m, n]).unwrap()).run().unwrap();
    assert!(report.to_string().contains(words), "{report}");
    assert_eq!(report.cause.unwrap().kind, "epilogue");

    let param: ConvParam = "2 1 2 4 3 3 3 6 8 1 1 1 1 1 1 1 1".parse().unwrap();
    let (x, w) = (numbers::<F16>(2 * 3 * 6 * 8, [-1.0, 1.0], 1), numbers::<F16>(4 * 3 * 3 * 3, [-1.0, 1.0], 2));
    let mut y = DeviceMem::<f32>::new(&host, 2 * 4 * 6 * 8).unwrap();
    Conv::new(param.clone(), Direction::Forward, Accumulate::F64).run(&x, &w, &mut y.tensor_mut(&[2 * 4 * 6 * 8]).unwrap()).unwrap();
    let y = relu(y.to_vec().unwrap());
    let report = Check::conv(param, Direction::Forward, &x, &w, &y).run().unwrap();
    assert!(report.to_string().contains(words), "{report}");
}

/// A kernel that adds the bias by rows reads beyond it where there are more rows than columns: those rows hold what lies there, and the others tell.
#[test]
fn a_bias_of_rows_is_named_where_there_are_more_rows_than_columns() {
    let [n, k] = [16, 64];
    for (m, last) in [(64, Epilogue::None), (64, Epilogue::Relu), (256, Epilogue::None)] {
        let (a, b, memory) =
            (numbers::<F16>(m * k, [-1.0, 1.0], 1), numbers::<F16>(k * n, [-1.0, 1.0], 2), numbers::<F16>(m, [-4.0, 4.0], 3));
        let (x, y, v) = (wide(&a), wide(&b), wide(&memory));
        let function = |x: f64| if last == Epilogue::Relu { x.max(0.0) } else { x };
        let sum = |i: usize, j: usize| (0..k).map(|l| x[i * k + l] * y[l * n + j]).sum::<f64>();
        let d: Vec<f32> = (0..m * n).map(|i| function(sum(i / n, i % n) + v[i / n]) as f32).collect();
        let d = DeviceMem::from_slice(&Device::host(), &d).unwrap();
        let bias = DeviceMem::from_slice(&Device::host(), &memory.to_vec().unwrap()[..n]).unwrap();
        let (a, b, d) = (a.tensor(&[m, k]).unwrap(), b.tensor(&[k, n]).unwrap(), d.tensor(&[m, n]).unwrap());
        let found = Check::gemm(&a, &b, &d).bias(&bias).epilogue(last).run().unwrap().cause.unwrap();
        assert!(found.evidence.starts_with("the bias is that of rows, not of columns, in the first 16 rows: "), "{m}: {found:?}");
        assert_eq!((found.kind, found.mismatches), ("bias", found.explained), "{found:?}");
    }
}

/// Sums in f32 that are rounded to bf16 after each tile of 64 products have errors as large as sums in f16 that are rounded at each step. Their digits tell, where nothing follows.
#[test]
fn sums_rounded_by_tiles_are_not_those_of_a_finer_format() {
    let [m, n, k] = [64, 64, 1024];
    let (a, b) = (numbers::<F16>(m * k, [-1.0, 1.0], 1), numbers::<F16>(k * n, [-1.0, 1.0], 2));
    let (x, y) = (wide(&a), wide(&b));
    let (a, b) = (a.tensor(&[m, k]).unwrap(), b.tensor(&[k, n]).unwrap());
    let sum = |i: usize, exchanged: bool| {
        let tile = |t: usize| (64 * t..64 * t + 64).map(|l| x[i / n * k + l] * y[l * n + i % n]).sum::<f64>();
        (0..k / 64).fold(0.0, |sum, t| through::<Bf16>(sum + tile(t ^ usize::from(exchanged))))
    };
    let of = |alpha: f64, exchanged: bool| {
        let d: Vec<f32> = (0..m * n).map(|i| (alpha * sum(i, exchanged)) as f32).collect();
        let d = DeviceMem::from_slice(&Device::host(), &d).unwrap();
        Check::gemm(&a, &b, d.tensor(&[m, n]).unwrap()).alpha(alpha).run().unwrap().cause.unwrap()
    };
    for alpha in [1.0, 1.5] {
        let found = of(alpha, false);
        assert!(found.evidence.starts_with("sums are in bf16, rounded at each of 16 steps: "), "{alpha}: {found:?}");
    }
    let found = of(1.0, true);
    assert!(!found.evidence.contains("f16 make"), "digits that f16 has are all zero\n{found:?}");
    let found = of(1.5, true);
    assert!(found.evidence.starts_with("errors as sums in f16 make them, or in bf16 with fewer roundings: "), "{found:?}");
}

/// Low bits that are cut off make sums of positive products smaller by nearly the same. So does a constant, and a bias that is nearly one.
#[test]
fn a_constant_below_positive_sums_is_no_truncated_operand() {
    let [m, n, k] = [48, 64, 256];
    let (a, b, bias) = (numbers::<F16>(m * k, [0.0, 1.0], 1), numbers::<F16>(k * n, [0.0, 1.0], 2), numbers::<F16>(n, [0.15, 0.25], 3));
    let (x, y, v) = (wide(&a), wide(&b), wide(&bias));
    let (a, b) = (a.tensor(&[m, k]).unwrap(), b.tensor(&[k, n]).unwrap());
    let cut = |x: f64| f64::from(f32::from_bits((x as f32).to_bits() & 0xffff_0000));
    let sum = |i: usize, of: &dyn Fn(f64) -> f64| (0..k).map(|l| of(x[i / n * k + l]) * y[l * n + i % n]).sum::<f64>();
    let whole: Vec<f64> = (0..m * n).map(|i| sum(i, &|x| x)).collect();
    let truncated: Vec<f64> = (0..m * n).map(|i| sum(i, &cut)).collect();
    let loss = whole.iter().zip(&truncated).map(|(x, y)| x - y).sum::<f64>() / (m * n) as f64;
    type Made<'a> = &'a dyn Fn(usize) -> f64;
    fn of<T: Scalar>(made: Made<'_>, n: usize) -> DeviceMem<T> {
        let encode = |i: usize| T::from_bits64(T::DTYPE.encode(made(i), Rounding::NearestEven, Overflow::Ieee));
        DeviceMem::from_slice(&Device::host(), &(0..n).map(encode).collect::<Vec<T>>()).unwrap()
    }
    let missing: Made<'_> = &|i| whole[i] - loss;
    let factor: Made<'_> = &|i| whole[i] * (1.0 - loss / 64.0);
    for (made, kind, reason) in
        [(missing, "offset", "a constant"), (factor, "scaled", "a factor"), (&|i| truncated[i], "operands_in", "no constant")]
    {
        let d = of::<f32>(made, m * n);
        let found = Check::gemm(&a, &b, d.tensor(&[m, n]).unwrap()).run().unwrap().cause.unwrap();
        assert_eq!(found.kind, kind, "{reason}: {found:?}");
    }
    for (made, reason) in [(&(|i: usize| whole[i]) as Made<'_>, "missing"), (&|i| whole[i] + 2.0 * v[i % n], "added twice")] {
        let d = of::<F16>(made, m * n);
        let found = Check::gemm(&a, &b, d.tensor(&[m, n]).unwrap()).bias(&bias).run().unwrap().cause;
        assert_ne!(found.as_ref().map(|found| found.kind), Some("operands_in"), "{reason}: {found:?}");
    }
}

/// Rows of sizes from 1 to 2^-46: what one bound for all of them would take for right is told as well, and nothing else.
#[test]
fn causes_are_those_of_the_elements_beyond_their_bounds() {
    let [m, n, k] = [24, 32, 64];
    let scale = |i: usize| 2f32.powi(-2 * i as i32);
    let a: Vec<f32> = numbers::<f32>(m * k, [-1.0, 1.0], 1).to_vec().unwrap().iter().enumerate().map(|(i, x)| x * scale(i / k)).collect();
    let a = DeviceMem::from_slice(&Device::host(), &a).unwrap();
    let b = numbers::<f32>(k * n, [-1.0, 1.0], 2);
    let (a, b) = (a.tensor(&[m, k]).unwrap(), b.tensor(&[k, n]).unwrap());
    let right = product::<f32>(&Gemm::new(Accumulate::F64), &a, &b, [m, n]).to_vec().unwrap();
    let of = |wrong: &dyn Fn(usize, f32) -> f32| {
        let d: Vec<f32> = right.iter().enumerate().map(|(i, &x)| wrong(i, x)).collect();
        let d = DeviceMem::from_slice(&Device::host(), &d).unwrap();
        Check::gemm(&a, &b, d.tensor(&[m, n]).unwrap()).run().unwrap()
    };
    for (report, kind) in [(of(&|_, x| -x), "negated"), (of(&|i, x| if i / n < 2 || i / n == 20 { 0.0 } else { x }), "unwritten")] {
        let (found, all) = (report.cause.clone().unwrap(), report.report.mismatches as usize);
        assert_eq!((found.kind, found.mismatches, found.explained), (kind, all, all), "{report}");
        assert!(all >= if kind == "negated" { m * n - 8 } else { 3 * n }, "{report}");
    }
}
