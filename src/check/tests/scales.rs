//! Products of scaled operands: kernels made by hand in f32, which multiply by scales in every place where kernels do, right and broken.

use super::*;
use crate::device::DeviceBytes;

/// A tensor in a format, and its values.
struct Stored {
    bytes: DeviceBytes,
    dtype: DType,
    shape: Vec<usize>,
    values: Vec<f32>,
}

impl Stored {
    fn new(dtype: DType, shape: &[usize], values: &[f64]) -> Stored {
        let mut bytes = vec![0; dtype.bytes_for(values.len()).unwrap()];
        let codes: Vec<u64> = values.iter().map(|x| dtype.encode(*x, Rounding::NearestEven, Overflow::Ieee)).collect();
        codes.iter().enumerate().for_each(|(i, code)| dtype.store_bits(&mut bytes, i, *code));
        let values = codes.iter().map(|code| dtype.decode(*code) as f32).collect();
        Stored { bytes: DeviceBytes::from_slice(&Device::host(), &bytes).unwrap(), dtype, shape: shape.to_vec(), values }
    }

    /// Uniform numbers.
    fn uniform(dtype: DType, shape: &[usize], range: [f32; 2], stream: u32) -> Stored {
        let values: Vec<f64> = numbers::<f32>(shape.iter().product(), range, stream).to_vec().unwrap().into_iter().map(f64::from).collect();
        Stored::new(dtype, shape, &values)
    }

    fn tensor(&self) -> TensorRef<'_> {
        self.bytes.tensor(self.dtype, Layout::contiguous(&self.shape).unwrap()).unwrap()
    }
}

/// A problem: A, B and their scales by blocks.
struct Scaled {
    size: [usize; 3],
    a: Stored,
    b: Stored,
    scales: [Stored; 2],
    blocks: [[usize; 2]; 2],
}

/// What a kernel has in the place of the scales.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Scales {
    Right,
    NoneOfA,
    NoneOfB,
    OfAForBoth,
    NextBlock,
    Transposed,
    /// One block of A has another one.
    OneWrong,
    // Of B alone:
    Squared,
    Inverse,
    FirstBlock,
    BlockBefore,
    NextAround,
    BeforeAround,
    NextInMemory,
    BeforeInMemory,
    NextBeside,
    BeforeBeside,
    FirstBeside,
    StoredTransposed,
    // Of both:
    NoneAtAll,
    InverseOfBoth,
}

/// Where a kernel multiplies by scales.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Where {
    /// Operands, before products are added; in fused multiply-adds.
    Operands,
    /// Each product, rounded by itself.
    Products,
    /// The sum of each run of k, by the product of both scales.
    Runs,
    /// The same, in a fused multiply-add.
    RunsFused,
    /// The sum of each run of k, by one scale after the other, k downward.
    RunsTwice,
    /// Whole sums, for scales that are constant along k.
    Sums,
}

const PLACES: [Where; 6] = [Where::Operands, Where::Products, Where::Runs, Where::RunsFused, Where::RunsTwice, Where::Sums];

impl Scaled {
    fn new([a, b]: [DType; 2], of_scales: DType, size: [usize; 3], blocks: [[usize; 2]; 2], stream: u32) -> Scaled {
        let [m, n, k] = size;
        let of = |shape: [usize; 2], block: [usize; 2], stream| {
            let extents = [shape[0].div_ceil(block[0]), shape[1].div_ceil(block[1])];
            Stored::uniform(of_scales, &extents, [0.01, 2.0], stream)
        };
        let (a, b) = (Stored::uniform(a, &[m, k], [-4.0, 4.0], stream), Stored::uniform(b, &[k, n], [-4.0, 4.0], stream + 1));
        let scales = [of([m, k], blocks[0], stream + 2), of([k, n], blocks[1], stream + 3)];
        Scaled { size, a, b, scales, blocks }
    }

    /// The scale of an element of A (0) or B (1).
    fn scale(&self, which: usize, [row, column]: [usize; 2], taken: Scales) -> f32 {
        let Scaled { blocks, scales, .. } = self;
        let (mut at, [rows, columns]) =
            ([row / blocks[which][0], column / blocks[which][1]], [scales[which].shape[0], scales[which].shape[1]]);
        let k_axis = 1 - which;
        match taken {
            Scales::NoneOfA if which == 0 => return 1.0,
            Scales::NoneOfB if which == 1 => return 1.0,
            Scales::NextBlock => at[k_axis] = (at[k_axis] + 1).min([rows, columns][k_axis] - 1),
            Scales::OfAForBoth if which == 1 => return scales[0].values[(at[0] * columns + at[1]) % scales[0].values.len()],
            Scales::Transposed => {
                let flat = at[0] * columns + at[1];
                return scales[which].values[flat % columns * rows + flat / columns];
            }
            Scales::OneWrong if which == 0 && at == [0, 0] => return 1.25 * scales[0].values[0],
            Scales::NoneAtAll => return 1.0,
            Scales::FirstBlock if which == 1 => at[k_axis] = 0,
            Scales::BlockBefore if which == 1 => at[k_axis] = at[k_axis].saturating_sub(1),
            Scales::NextAround if which == 1 => at[0] = (at[0] + 1) % rows,
            Scales::BeforeAround if which == 1 => at[0] = (at[0] + rows - 1) % rows,
            Scales::NextBeside if which == 1 => at[1] = (at[1] + 1) % columns,
            Scales::BeforeBeside if which == 1 => at[1] = (at[1] + columns - 1) % columns,
            Scales::FirstBeside if which == 1 => at[1] = 0,
            Scales::NextInMemory | Scales::BeforeInMemory | Scales::StoredTransposed if which == 1 => {
                let (flat, all) = (at[0] * columns + at[1], rows * columns);
                return scales[1].values[match taken {
                    Scales::NextInMemory => (flat + 1) % all,
                    Scales::BeforeInMemory => (flat + all - 1) % all,
                    _ => flat % rows * columns + flat / rows,
                }];
            }
            _ => {}
        }
        let scale = scales[which].values[at[0] * columns + at[1]];
        match taken {
            Scales::Squared if which == 1 => scale * scale,
            Scales::Inverse if which == 1 => 1.0 / scale,
            Scales::InverseOfBoth => 1.0 / scale,
            _ => scale,
        }
    }

    /// Whether scales do not change along k.
    fn constant(&self) -> bool {
        self.scales[0].shape[1] == 1 && self.scales[1].shape[0] == 1
    }

    /// The result of a kernel in f32.
    fn kernel(&self, place: Where, taken: Scales) -> Vec<f32> {
        let [m, n, _] = self.size;
        (0..m * n).map(|i| self.element([i / n, i % n], place, taken)).collect()
    }

    fn element(&self, [i, j]: [usize; 2], place: Where, taken: Scales) -> f32 {
        let [_, n, k] = self.size;
        let factors = |x: usize| (self.a.values[i * k + x], self.b.values[x * n + j]);
        let scales = |x: usize| (self.scale(0, [i, x], taken), self.scale(1, [x, j], taken));
        // Runs of k in which no scale changes.
        let mut cuts: Vec<usize> = (0..=k).filter(|x| x % self.blocks[0][1] == 0 || x % self.blocks[1][0] == 0 || *x == k).collect();
        if place == Where::Sums {
            cuts = vec![0, k];
        }
        let sum = |from: usize, to: usize| (from..to).map(factors).fold(0.0f32, |sum, (a, b)| a.mul_add(b, sum));
        let runs = || cuts.windows(2).map(|cut| (sum(cut[0], cut[1]), scales(cut[0])));
        match place {
            Where::Operands => (0..k).map(|x| (factors(x), scales(x))).fold(0.0, |sum, ((a, b), (sa, sb))| (a * sa).mul_add(b * sb, sum)),
            Where::Products => (0..k).map(|x| (factors(x), scales(x))).fold(0.0, |sum, ((a, b), (sa, sb))| sum + a * b * (sa * sb)),
            Where::Runs => runs().fold(0.0, |all, (sum, (sa, sb))| all + sa * sb * sum),
            Where::RunsFused => runs().fold(0.0, |all, (sum, (sa, sb))| (sa * sb).mul_add(sum, all)),
            Where::RunsTwice | Where::Sums => runs().rev().fold(0.0, |all, (sum, (sa, sb))| all + sum * sa * sb),
        }
    }

    /// The check of a result, with scales and with the blocks that are said.
    fn check<'a>(&'a self, result: &'a Stored) -> Check<'a> {
        let check = Check::gemm(self.a.tensor(), self.b.tensor(), result.tensor());
        let check = check.scale_a(self.scales[0].tensor()).scale_b(self.scales[1].tensor());
        check.scale_block_a(self.blocks[0]).scale_block_b(self.blocks[1])
    }

    fn result(&self, dtype: DType, values: &[f32]) -> Stored {
        let [m, n, _] = self.size;
        Stored::new(dtype, &[m, n], &values.iter().map(|x| f64::from(*x)).collect::<Vec<_>>())
    }
}

/// Problems of the kinds that are in use: per tensor, by rows and columns, DeepSeek's blocks, MX, NVFP4, and odd ones.
fn problems() -> Vec<(&'static str, Scaled)> {
    let (e4m3, e5m2, e2m1) = (DType::F8E4M3, DType::F8E5M2, DType::F4E2M1);
    let (f32, e8m0) = (DType::F32, DType::F8E8M0);
    // Name, formats of A and B, format of their scales, m, n and k, blocks of A and of B.
    type Row = (&'static str, [DType; 2], DType, [usize; 3], [[usize; 2]; 2]);
    let rows: [Row; 10] = [
        ("per tensor", [e4m3, e4m3], f32, [9, 14, 300], [[9, 300], [300, 14]]),
        ("rows and columns", [e4m3, e5m2], f32, [17, 12, 256], [[1, 256], [256, 1]]),
        ("1x128 and 128x128", [e4m3, e4m3], f32, [6, 260, 512], [[1, 128], [128, 128]]),
        ("the same, of scales in bf16", [DType::Bf16, e4m3], DType::Bf16, [6, 140, 300], [[1, 128], [128, 128]]),
        ("MX", [e4m3, e4m3], e8m0, [8, 10, 256], [[1, 32], [32, 1]]),
        ("MX fp4", [e2m1, e2m1], e8m0, [8, 10, 128], [[1, 32], [32, 1]]),
        ("NVFP4", [e2m1, e2m1], e4m3, [8, 10, 128], [[1, 16], [16, 1]]),
        ("of A by 1x48, of B by 20x3", [DType::F16, DType::Bf16], f32, [5, 8, 100], [[1, 48], [20, 3]]),
        ("each element its own", [f32, f32], f32, [7, 6, 33], [[1, 1], [1, 1]]),
        ("one product", [f32, f32], f32, [20, 20, 1], [[1, 1], [1, 1]]),
    ];
    let problem = |(i, (name, formats, of_scales, size, blocks)): (usize, (&'static str, _, _, _, _))| {
        (name, Scaled::new(formats, of_scales, size, blocks, 100 + 10 * i as u32))
    };
    rows.into_iter().enumerate().map(problem).collect()
}

#[test]
fn right_results_pass_wherever_scales_are_multiplied() {
    for (name, problem) in problems() {
        for place in PLACES.into_iter().filter(|place| *place != Where::Sums || problem.constant()) {
            let values = problem.kernel(place, Scales::Right);
            for dtype in [DType::F32, DType::Bf16, DType::F16] {
                let result = problem.result(dtype, &values);
                for confidence in [Confidence::default(), Confidence::WorstCase] {
                    let report = problem.check(&result).confidence(confidence).run().unwrap();
                    assert_eq!(report.verdict(), Verdict::Pass, "{name}, {place:?}, {dtype}\n{report}");
                }
            }
        }
    }
}

#[test]
fn wrong_scales_fail_and_are_named() {
    let (mut named, mut all) = (0, 0);
    for (name, problem) in problems() {
        let many = |which: usize, axis: usize| problem.scales[which].shape[axis] > 1;
        let along_k = many(0, 1) || many(1, 0);
        let square = |which: usize| many(which, 0) && many(which, 1);
        for (taken, applies, words) in [
            (Scales::NoneOfA, true, "the scale of A is missing"),
            (Scales::NoneOfB, true, "the scale of B is missing"),
            (Scales::OfAForBoth, true, "B has the scales of the other operand"),
            (Scales::NextBlock, along_k, "each block of k has the scale of the next one, of "),
            (Scales::Transposed, square(0) || square(1), "rows and columns are exchanged of the scales of "),
            (Scales::OneWrong, true, ""),
        ] {
            if !applies {
                continue;
            }
            let result = problem.result(DType::Bf16, &problem.kernel(Where::Runs, taken));
            let report = problem.check(&result).run().unwrap();
            assert_eq!(report.verdict(), Verdict::Fail, "{name}, {taken:?}\n{report}");
            // Where both operands have scales along k, two mistakes are made at once: no hypothesis is that.
            if matches!(taken, Scales::NoneOfA | Scales::NoneOfB | Scales::OfAForBoth) {
                (named, all) = (named + usize::from(report.to_string().contains(words)), all + 1);
                let cause = report.cause.as_ref().unwrap();
                assert!(cause.kind == "scale" || taken == Scales::OfAForBoth, "{name}, {taken:?}\n{report}");
            }
        }
    }
    assert!(named + 5 >= all, "{named} of {all} causes");
}

#[test]
fn mistakes_of_one_operand_are_named() {
    let problem = Scaled::new([DType::F8E4M3; 2], DType::F32, [8, 256, 512], [[8, 512], [128, 32]], 7);
    for (taken, words) in [
        (Scales::NextBlock, "each block of k has the scale of the next one, of B"),
        (Scales::Transposed, "rows and columns are exchanged of the scales of B"),
        (Scales::NoneOfB, "the scale of B is missing"),
        (Scales::NoneAtAll, "the scales of A and B are missing"),
        (Scales::Squared, "the scale of B is applied twice"),
        (Scales::Inverse, "B is divided by its scale"),
        (Scales::InverseOfBoth, "A and B are divided by their scales"),
        (Scales::FirstBlock, "all of k is scaled by the first scale along k of B"),
        (Scales::BlockBefore, "each block of k has the scale of the one before, of B"),
        (Scales::NextAround, "each block of k has the scale of the next one, the last that of the first, of B"),
        (Scales::BeforeAround, "each block of k has the scale of the one before, the first that of the last, of B"),
        (Scales::NextInMemory, "each block has the scale that is the next in memory, of B"),
        (Scales::BeforeInMemory, "each block has the scale that is the one before in memory, of B"),
        (Scales::NextBeside, "each block has the scale of the next one beside k, of B"),
        (Scales::BeforeBeside, "each block has the scale of the one before beside k, of B"),
        (Scales::FirstBeside, "each block has the scale of the first one beside k, of B"),
        (Scales::StoredTransposed, "rows and columns are exchanged where the scales are stored, of B"),
    ] {
        let result = problem.result(DType::F32, &problem.kernel(Where::RunsFused, taken));
        let report = problem.check(&result).run().unwrap();
        assert!(report.to_string().contains(&format!("cause      {words}: ")), "{words}\n{report}");
        assert!(problem.check(&result).cause(false).run().unwrap().cause.is_none());
    }
}

/// fp4 with the halves of each byte of B exchanged: neighbours along k, if k is what lies along memory.
#[test]
fn exchanged_halves_of_bytes_are_named_beside_scales() {
    let right = Scaled::new([DType::F4E2M1; 2], DType::F8E8M0, [32, 48, 128], [[1, 32], [32, 1]], 5);
    let mut wrong = Scaled::new([DType::F4E2M1; 2], DType::F8E8M0, [32, 48, 128], [[1, 32], [32, 1]], 5);
    wrong.b.values = (0..128 * 48).map(|i| right.b.values[((i / 48) ^ 1) * 48 + i % 48]).collect();
    let result = right.result(DType::Bf16, &wrong.kernel(Where::Runs, Scales::Right));
    let report = right.check(&result).run().unwrap();
    let words = "cause      factors of one operand are exchanged with their neighbours along k, as halves of bytes or words may be: ";
    assert!(report.to_string().contains(words), "{report}");
}

/// Scales in the place of alpha: the same elements pass, and the bound is a rounding or two wider.
#[test]
fn a_scale_of_all_is_like_alpha() {
    let problem = Scaled::new([DType::F8E4M3; 2], DType::F32, [8, 8, 64], [[8, 64], [64, 8]], 3);
    let result = problem.result(DType::F32, &problem.kernel(Where::Sums, Scales::Right));
    let alpha = f64::from(problem.scales[0].values[0]) * f64::from(problem.scales[1].values[0]);
    let plain = Check::gemm(problem.a.tensor(), problem.b.tensor(), result.tensor()).alpha(alpha);
    let [one, other] = [plain.checked().unwrap(), problem.check(&result).checked().unwrap()];
    let close = |x: f64, y: f64| (x - y).abs() <= 1e-12 * y.abs();
    let [exact, same] = [&one, &other].map(|checked| checked.exact().to_vec().unwrap());
    assert!(exact.iter().zip(&same).all(|(x, y)| close(*x, *y)), "the exact results are equal");
    for confidence in [Confidence::default(), Confidence::WorstCase] {
        let [alpha, scaled] = [plain.clone(), problem.check(&result)].map(|c| c.confidence(confidence).bound().unwrap());
        let u = 2f64.powi(-24);
        assert!(scaled.gamma > alpha.gamma - 2.0 * u && scaled.gamma < alpha.gamma + 3.0 * u, "{scaled} {alpha}");
        // Powers of two round nothing.
        let powers = [1.0, 0.25].map(|x| Stored::new(DType::F8E8M0, &[1], &[x]));
        let check = Check::gemm(problem.a.tensor(), problem.b.tensor(), result.tensor()).confidence(confidence);
        let exact = check.clone().scale_a(powers[0].tensor()).scale_b(powers[1].tensor()).bound().unwrap();
        assert_eq!(exact.gamma, check.bound().unwrap().gamma);
    }
}

/// One product, so that all errors are those of scales: more than the bound without them, and within the one with them.
#[test]
fn roundings_of_scales_are_within_the_worst_case_and_needed() {
    let problem = Scaled::new([DType::F32; 2], DType::F32, [64, 64, 1], [[1, 1], [1, 1]], 11);
    let mut largest = 0f64;
    for place in [Where::Operands, Where::Products, Where::Runs, Where::RunsTwice] {
        let result = problem.result(DType::F32, &problem.kernel(place, Scales::Right));
        let report = problem.check(&result).confidence(Confidence::WorstCase).run().unwrap();
        assert!(report.passed(), "{place:?}\n{report}");
        largest = largest.max(report.report.worst.map_or(0.0, |worst| worst.ratio));
    }
    assert!((0.7..=1.0).contains(&largest), "{largest} of three roundings");
}

/// Scales whose product underflows in f32 beside large operands, and operands that do beside large scales.
#[test]
fn what_underflow_loses_is_multiplied_by_the_other_factors() {
    let [m, n, k] = [8, 8, 32];
    for (range, scale) in [([2f32.powi(60), 2f32.powi(61)], 2f64.powi(-70)), ([2f32.powi(-75), 2f32.powi(-74)], 2f64.powi(63))] {
        let (a, b) = (Stored::uniform(DType::Bf16, &[m, k], range, 1), Stored::uniform(DType::Bf16, &[k, n], range, 2));
        let scales = [1.1, 1.3].map(|x| Stored::new(DType::F32, &[1, 1], &[x * scale]));
        let problem = Scaled { size: [m, n, k], a, b, scales, blocks: [[m, k], [k, n]] };
        for place in PLACES {
            let result = problem.result(DType::F32, &problem.kernel(place, Scales::Right));
            for confidence in [Confidence::default(), Confidence::WorstCase] {
                let report = problem.check(&result).confidence(confidence).run().unwrap();
                assert!(report.passed(), "{place:?} {range:?}\n{report}");
            }
        }
    }
}

/// A NaN scale makes NaN of all that it has a part in, and a scale of zero nothing.
#[test]
fn scales_that_are_not_finite_or_zero() {
    let [m, n, k] = [4, 8, 64];
    let (a, b) = (Stored::uniform(DType::F8E4M3, &[m, k], [0.5, 4.0], 1), Stored::uniform(DType::F8E4M3, &[k, n], [0.5, 4.0], 2));
    let nan = Stored {
        values: vec![1.0, 1.0, f32::NAN, 1.0, 1.0, 1.0, 2.0, 0.5],
        ..Stored::new(DType::F8E8M0, &[4, 2], &[1.0, 1.0, f64::NAN, 1.0, 1.0, 1.0, 2.0, 0.5])
    };
    let zero = Stored::new(DType::F32, &[2, 1], &[0.0, 2.0]);
    let problem = Scaled { size: [m, n, k], a, b, scales: [nan, zero], blocks: [[1, 32], [32, n]] };
    for place in [Where::Operands, Where::Runs] {
        let values = problem.kernel(place, Scales::Right);
        assert!(values[n].is_nan() && values[0].is_finite());
        let result = problem.result(DType::F32, &values);
        let report = problem.check(&result).run().unwrap();
        assert!(report.passed(), "{place:?}\n{report}");
        let wrong: Vec<f32> = values.iter().map(|x| if x.is_nan() { 0.0 } else { *x }).collect();
        let report = problem.check(&problem.result(DType::F32, &wrong)).run().unwrap();
        assert_eq!((report.verdict(), report.report.mismatches), (Verdict::Fail, n as u64), "{report}");
    }
    let problem = Scaled {
        scales: [Stored::new(DType::F32, &[1, 1], &[f64::INFINITY]), Stored::new(DType::F32, &[1, 1], &[0.0])],
        blocks: [[m, k], [k, n]],
        ..problem
    };
    let report = problem.check(&problem.result(DType::F32, &[f32::NAN; 32])).run().unwrap();
    assert!(report.passed(), "infinity times zero\n{report}");
}

/// Operands as they are stored, transposed, in a batch; scales lie as they do.
#[test]
fn scales_lie_as_their_operand_does() {
    let problem = Scaled::new([DType::F8E4M3; 2], DType::F32, [48, 64, 256], [[16, 128], [64, 32]], 5);
    let result = problem.result(DType::F32, &problem.kernel(Where::Runs, Scales::Right));
    let expected = problem.check(&result).checked().unwrap();
    assert_eq!(expected.report.verdict(), Verdict::Pass);
    let turned = |t: &Stored| {
        let [rows, columns] = [t.shape[0], t.shape[1]];
        let values: Vec<f64> = (0..rows * columns).map(|i| f64::from(t.values[i % rows * columns + i / rows])).collect();
        Stored::new(t.dtype, &[columns, rows], &values)
    };
    let [a, b, sa, sb] = [&problem.a, &problem.b, &problem.scales[0], &problem.scales[1]].map(turned);
    let check = Check::gemm(a.tensor(), b.tensor(), result.tensor()).transpose_a(true).transpose_b(true);
    let checked = check.scale_a(sa.tensor()).scale_b(sb.tensor()).checked().unwrap();
    assert_eq!(checked.exact().to_vec().unwrap(), expected.exact().to_vec().unwrap());
    assert_eq!(checked.report.report, expected.report.report);
    // A batch of two, of which the second has twice the scales of A; B and its scales serve both.
    let twice = |t: &Stored, factor: f64| {
        let values = t.values.iter().map(|x| f64::from(*x));
        Stored::new(t.dtype, &[&[2], &*t.shape].concat(), &values.clone().chain(values.map(|x| factor * x)).collect::<Vec<_>>())
    };
    let (a, sa, d) = (twice(&problem.a, 1.0), twice(&problem.scales[0], 2.0), twice(&result, 2.0));
    for shared in [false, true] {
        let sa = if shared {
            twice(&problem.scales[0], 1.0)
        } else {
            Stored::new(sa.dtype, &sa.shape, &sa.values.iter().map(|x| f64::from(*x)).collect::<Vec<_>>())
        };
        let check = Check::gemm(a.tensor(), problem.b.tensor(), d.tensor()).scale_a(sa.tensor()).scale_b(problem.scales[1].tensor());
        let report = check.run().unwrap();
        assert_eq!(report.report.mismatches > 0, shared, "{report}");
    }
}

/// What tensor cores give for each run of k, scaled and added in f32, is within the bound of the chip, and beyond that of f32.
#[test]
fn sums_of_runs_on_matrix_cores() {
    for (arch, formats) in [(Arch::Sm90, [DType::F8E4M3; 2]), (Arch::Gfx942, [DType::F8E4M3Fnuz; 2]), (Arch::Gfx90a, [DType::F16; 2])] {
        let problem = Scaled::new(formats, DType::F32, [16, 32, 512], [[1, 128], [128, 128]], 9);
        let [m, n, k] = problem.size;
        let model = Model::all().find(|model| model.arch() == arch && model.input().dtypes() == (formats[0], formats[1])).unwrap();
        let mut values = vec![0f32; m * n];
        for run in 0..k / 128 {
            let columns: Vec<f32> = (0..m).flat_map(|i| problem.a.values[i * k + run * 128..][..128].to_vec()).collect();
            let mut sums = vec![0f32; m * n];
            gemm_tile(model, m, n, 128, &columns, 128, &problem.b.values[run * 128 * n..], n, &mut sums, n);
            let scale =
                |i: usize| problem.scale(0, [i / n, run * 128], Scales::Right) * problem.scale(1, [run * 128, i % n], Scales::Right);
            values.iter_mut().enumerate().for_each(|(i, value)| *value += scale(i) * sums[i]);
        }
        let result = problem.result(DType::F32, &values);
        let check = problem.check(&result);
        for check in [
            check.clone().arch(arch),
            check.clone().arch(arch).split_k(4, None),
            check.clone().arch(arch).confidence(Confidence::WorstCase),
        ] {
            let report = check.run().unwrap();
            assert!(report.passed(), "{arch}\n{report}");
            assert!(report.to_string().contains("bit-exact  not tried: the models here take no scales"), "{report}");
            assert!(report.arithmetic.contains("scales of A f32 1x128, of B f32 128x128, the "), "{report}");
        }
        let in_f32 = check.run().unwrap();
        assert_eq!(in_f32.passed(), arch != Arch::Sm90, "{arch}\n{in_f32}");
    }
}

/// Scales of 1 change neither the exact result nor what bounds scale with, also where a chip reads subnormal operands as zeros, or aligns them as normal ones.
#[test]
fn scales_of_one_change_nothing() {
    let [m, n, k] = [6, 10, 48];
    for (arch, dtype, range) in [
        (Some(Arch::Gfx90a), DType::F16, 2f32.powi(-13)),
        (Some(Arch::Gfx942), DType::F8E4M3Fnuz, 2f32.powi(-6)),
        (Some(Arch::Sm90), DType::F8E4M3, 2f32.powi(-5)),
        (Some(Arch::Gfx908), DType::F16, 2f32.powi(-13)),
        (None, DType::F16, 2f32.powi(-13)),
    ] {
        let (a, b) = (Stored::uniform(dtype, &[m, k], [-range, range], 1), Stored::uniform(dtype, &[k, n], [-range, range], 2));
        let (d, one) = (Stored::new(DType::F32, &[m, n], &vec![0.0; m * n]), Stored::new(DType::F8E8M0, &[1], &[1.0]));
        let check = Check::gemm(a.tensor(), b.tensor(), d.tensor()).cause(false).bit_exact(false);
        let check = arch.into_iter().fold(check, Check::arch);
        let [plain, scaled] = [check.clone(), check.scale_a(one.tensor())].map(|check| check.checked().unwrap());
        assert_eq!(plain.exact().to_vec().unwrap(), scaled.exact().to_vec().unwrap(), "{arch:?}");
        assert_eq!(plain.magnitudes.to_vec().unwrap(), scaled.magnitudes.to_vec().unwrap(), "{arch:?}");
        assert_eq!(plain.report.report.bound, scaled.report.report.bound, "{arch:?}");
    }
}

/// Runs of one product leave an instruction that takes 16 at once no groups: each is added by itself.
#[test]
fn runs_that_are_shorter_than_a_group_are_added_one_by_one() {
    let [m, n, k] = [4, 4, 256];
    let gamma = |length: usize, parts: usize| {
        let (a, b) =
            (Stored::new(DType::F8E4M3Fnuz, &[m, k], &vec![1.0; m * k]), Stored::new(DType::F8E4M3Fnuz, &[k, n], &vec![1.0; k * n]));
        let (d, scale) =
            (Stored::new(DType::F32, &[m, n], &[0.0; 16]), Stored::new(DType::F8E8M0, &[m, k / length], &vec![1.0; m * k / length]));
        let check = Check::gemm(a.tensor(), b.tensor(), d.tensor()).arch(Arch::Gfx942).split_k(parts, None);
        check.scale_a(scale.tensor()).scale_block_a([1, length]).confidence(Confidence::WorstCase).bound().unwrap().gamma
    };
    // In units of u, without what truncation loses: 16 of a group once, and 2^-7 a step.
    for (length, parts, roundings) in
        [(256, 1, 16.0), (32, 1, 16.0), (16, 1, 16.0), (8, 1, 32.0), (1, 1, 256.0), (64, 4, 7.0), (1, 4, 67.0)]
    {
        let found = gamma(length, parts) * 2f64.powi(24) - 16.0;
        assert!((found - roundings).abs() < 1.5 + 0.02 * roundings, "{found} roundings of runs of {length} in {parts} parts");
    }
}

/// A of [256, 512], B of [512, 384] and a result of zeros.
fn operands() -> [Stored; 3] {
    let [m, n, k] = [256, 384, 512];
    let of = |dtype, shape: [usize; 2], x| Stored::new(dtype, &shape, &vec![x; shape[0] * shape[1]]);
    [of(DType::F8E4M3, [m, k], 1.0), of(DType::F8E4M3, [k, n], 1.0), of(DType::F32, [m, n], 0.0)]
}

#[test]
fn shapes_of_scales_say_the_lengths_of_blocks() {
    let [a, b, d] = operands();
    for (shape, block, words) in [
        (vec![1], None, "of A f32 all"),
        (vec![1, 1, 1], None, "of A f32 all"),
        (vec![256, 1], None, "of A f32 1x512"),
        (vec![1, 512], Some([256, 1]), "of A f32 256x1"),
        (vec![256, 4], None, "of A f32 1x128"),
        (vec![2, 4], None, "of A f32 128x128"),
        (vec![256, 16], None, "of A f32 1x32"),
        (vec![256, 32], None, "of A f32 1x16"),
        (vec![256, 6], Some([1, 100]), "of A f32 1x100"),
        (vec![2, 1], Some([200, 512]), "of A f32 200x512"),
    ] {
        let scale = Stored::new(DType::F32, &shape, &vec![1.0; shape.iter().product()]);
        let check = Check::gemm(a.tensor(), b.tensor(), d.tensor()).scale_a(scale.tensor());
        let check = block.into_iter().fold(check, Check::scale_block_a);
        assert!(check.arithmetic().contains(words), "{words}: {}", check.arithmetic());
        assert!(check.bound().is_ok(), "{words}");
    }
}

#[test]
fn scales_that_do_not_fit_are_refused() {
    let [a, b, d] = operands();
    let check = || Check::gemm(a.tensor(), b.tensor(), d.tensor());
    let usual = "A of shape [256, 512] has scales of shape [1], [256, 1], [256, 4] (blocks of 1x128), [2, 4] (blocks of 128x128), [256, 16] (blocks of 1x32) or [256, 32] (blocks of 1x16)";
    let usual_of_b = "B of shape [512, 384] has scales of shape [1], [1, 384], [4, 384] (blocks of 128x1), [4, 3]";
    let [of_a, of_b] = [false, true];
    for (which, shape, block, words) in [
        (of_a, vec![256], None, usual),
        (of_a, vec![4, 256], None, "scale of A cannot be of shape [4, 256]: A of shape [256, 512] has scales of shape [1], [256, 1]"),
        (of_a, vec![256, 700], None, usual),
        (of_a, vec![256, 7], None, usual),
        (of_a, vec![1, 512], None, "512 scales along k, one for each of 512 elements of A, have to be said (--scale-block-a"),
        (of_b, vec![512, 384], None, "512 scales along k, one for each of 512 elements of B, have to be said (--scale-block-b"),
        (of_b, vec![512, 384, 1], None, usual_of_b),
        (of_b, vec![4, 2], None, "2 scales along 384 elements of B may be of blocks of 192 or of 256: say which (--scale-block-b"),
        (of_b, vec![4, 2], Some([128, 128]), "blocks of 128 along 384 elements of B have 3 scales, not 2"),
        (of_b, vec![4, 2], Some([0, 128]), "scale of B cannot be of shape [4, 2]"),
    ] {
        let scale = Stored::new(DType::F32, &shape, &vec![1.0; shape.iter().product()]);
        let check = if which == of_a { check().scale_a(scale.tensor()) } else { check().scale_b(scale.tensor()) };
        let check = block.into_iter().fold(check, if which == of_a { Check::scale_block_a } else { Check::scale_block_b });
        for text in [check.run().unwrap_err(), check.bound().unwrap_err(), check.freivalds(2).unwrap_err()].map(|e| e.to_string()) {
            assert!(text.contains(words), "{words}\n{text}");
        }
    }
    let text = check().scale_block_a([1, 128]).run().unwrap_err().to_string();
    assert!(text.contains("scale of A cannot be by blocks of 1x128: blocks are those of scales"), "{text}");
    let whole = Stored::new(DType::I32, &[1], &[1.0]);
    let text = check().scale_a(whole.tensor()).run().unwrap_err().to_string();
    assert_eq!(text, "scale of A: expected dtype a floating-point format, or u8 that holds the codes of f8e8m0, found i32");
}

#[test]
fn what_scales_cannot_be_combined_with() {
    let problem = Scaled::new([DType::F8E4M3; 2], DType::F32, [8, 8, 64], [[1, 64], [64, 1]], 3);
    let result = problem.result(DType::F32, &problem.kernel(Where::Sums, Scales::Right));
    let check = problem.check(&result);
    let text = check.freivalds(4).unwrap_err().to_string();
    assert!(text.contains("with scales of the operands is not supported by Freivalds' check"), "{text}");
    assert_eq!(check.sampled_work(1), None);
    // Integers: sums in i32 have no bound with scales, those in f32 have.
    let problem = Scaled::new([DType::I8; 2], DType::F32, [8, 8, 64], [[1, 64], [64, 1]], 3);
    let values = problem.kernel(Where::Sums, Scales::Right);
    for (dtype, accumulator, words) in [
        (DType::F32, None, "scales of operands that are summed in integers is not supported by a check; --accumulate f32"),
        (DType::I32, None, "scales of operands that are summed in integers"),
        (DType::I32, Some(DType::F32), "scales of operands that are summed in integers"),
        (DType::F32, Some(DType::F32), ""),
    ] {
        let result = problem.result(dtype, &values);
        let check = accumulator.into_iter().fold(problem.check(&result), Check::accumulator);
        match check.run() {
            Ok(report) => assert!(report.verdict() == Verdict::Pass && words.is_empty(), "{report}"),
            Err(e) => assert!(!words.is_empty() && e.to_string().contains(words), "{e}"),
        }
    }
    let param: ConvParam = "1 1 1 1 1 3 8 1 1 0 0".parse().unwrap();
    let [x, w, y] = [8, 3, 6].map(|n| Stored::new(DType::F32, &[n], &vec![1.0; n]));
    let check = Check::conv(param, Direction::Forward, x.tensor(), w.tensor(), y.tensor()).scale_a(w.tensor());
    assert_eq!(check.run().unwrap_err().to_string(), "scales is not supported by the check of a convolution");
}

/// What follows the sum, and codes of e8m0 in u8.
#[test]
fn scales_beside_alpha_c_and_bias() {
    let problem = Scaled::new([DType::F8E4M3; 2], DType::F8E8M0, [8, 16, 128], [[1, 32], [32, 1]], 3);
    let (c, bias) = (Stored::uniform(DType::F32, &[8, 16], [-9.0, 9.0], 1), Stored::uniform(DType::F32, &[16], [-9.0, 9.0], 2));
    let values: Vec<f32> = problem.kernel(Where::Runs, Scales::Right);
    let values: Vec<f32> = (0..128).map(|i| (0.5 * values[i] + 2.0 * c.values[i] + bias.values[i % 16]).max(0.0)).collect();
    let result = problem.result(DType::Bf16, &values);
    let codes = |t: &Stored| {
        let [rows, columns] = [t.shape[0], t.shape[1]];
        let codes = t.values.iter().map(|x| f64::from(x.log2() as i32 + 127)).collect::<Vec<_>>();
        Stored::new(DType::U8, &[rows, columns], &codes)
    };
    let [sa, sb] = [&problem.scales[0], &problem.scales[1]].map(codes);
    let check = |sa: &Stored| {
        let check =
            Check::gemm(problem.a.tensor(), problem.b.tensor(), result.tensor()).alpha(0.5).beta(2.0, c.tensor()).bias(bias.tensor());
        check.epilogue(Epilogue::Relu).scale_a(sa.tensor()).scale_b(sb.tensor()).run().unwrap()
    };
    let report = check(&sa);
    assert_eq!(report.verdict(), Verdict::Pass, "{report}");
    assert!(report.arithmetic.contains("scales of A f8e8m0 1x32, of B f8e8m0 32x1"), "{report}");
    let wrong = Stored::new(DType::F32, &[8, 4], &vec![1.0; 32]);
    let report = check(&wrong);
    assert_eq!(report.verdict(), Verdict::Fail, "{report}");
}

/// Random shapes, blocks and formats: right results pass by both bounds, and where a broken kernel changes an element by more than rounding can, it fails.
#[test]
fn random_problems() {
    // The constants of Numerical Recipes; its upper bits are as good as these shapes need.
    let mut state = 20_u64;
    let mut below = |n: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % n
    };
    let formats = [DType::F8E4M3, DType::F8E5M2, DType::F8E4M3Fnuz, DType::F4E2M1, DType::F6E3M2, DType::F16, DType::Bf16, DType::F32];
    let of_scales = [DType::F32, DType::F8E8M0, DType::F8E4M3, DType::Bf16, DType::F16];
    let broken = [Scales::NoneOfA, Scales::NoneOfB, Scales::OfAForBoth, Scales::NextBlock, Scales::Transposed, Scales::OneWrong];
    let (mut failed, mut trials) = (0, 0);
    for stream in 0..150 {
        // Two elements of fp4 lie in a byte.
        let size = [2 * (1 + below(12)), 2 * (1 + below(12)), 1 + below(300)];
        let [m, n, k] = size;
        let blocks = [[1 + below(m), 1 + below(k)], [1 + below(k), 1 + below(n)]];
        let dtypes = [formats[below(8)], formats[below(8)]];
        let problem = Scaled::new(dtypes, of_scales[below(5)], size, blocks, 1000 + 4 * stream);
        let place = PLACES[below(if problem.constant() { 6 } else { 5 })];
        let dtype = [DType::F32, DType::Bf16, DType::F16][below(3)];
        let right = problem.kernel(place, Scales::Right);
        let result = problem.result(dtype, &right);
        let worst = problem.check(&result).confidence(Confidence::WorstCase).run().unwrap();
        let checked = problem.check(&result).checked().unwrap();
        for report in [&worst, &checked.report] {
            assert!(report.passed(), "{size:?} {blocks:?} {dtypes:?} {place:?}\n{report}");
        }
        let taken = broken[below(6)];
        let wrong = problem.kernel(place, taken);
        let magnitudes = checked.magnitudes.to_vec().unwrap();
        let differs = |i: usize| f64::from((wrong[i] - right[i]).abs()) > 0.02 * magnitudes[i];
        if (0..m * n).any(differs) {
            let report = problem.check(&problem.result(dtype, &wrong)).cause(false).run().unwrap();
            assert_eq!(report.verdict(), Verdict::Fail, "{size:?} {blocks:?} {dtypes:?} {place:?} {taken:?}\n{report}");
            failed += 1;
        }
        trials += 1;
    }
    assert!(failed > trials / 2, "{failed} of {trials} broken results differ");
}
