//! Freivalds' check of convolutions and of batches: of what right and broken kernels give.

use super::*;
use crate::check::contraction::{Contraction, Vectors};
use crate::device::Layout;
use crate::reference::{ConvSizes, Role};

/// Numbers that look random, the same ones in every run.
struct Draw(u64);

impl Draw {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n
    }

    fn within(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low + 1)
    }

    fn shuffled(&mut self, letters: &str) -> String {
        let mut letters: Vec<char> = letters.chars().collect();
        (1..letters.len()).rev().for_each(|i| letters.swap(i, self.below(i + 1)));
        letters.into_iter().collect()
    }

    /// A convolution of any number of dimensions, with groups, strides, dilations, paddings that differ, and axes in any order.
    fn convolution(&mut self) -> ConvParam {
        loop {
            let dims = self.within(1, 3);
            let vector = |draw: &mut Draw, low: usize, high: usize| (0..dims).map(|_| draw.within(low, high)).collect::<Vec<_>>();
            let sizes = ConvSizes {
                groups: self.within(1, 3),
                batch: self.within(1, 9),
                out_channels: self.within(1, 12),
                in_channels: self.within(1, 12),
                filter: vector(self, 1, 3),
                input: vector(self, 2, 6),
                strides: vector(self, 1, 2),
                dilations: vector(self, 1, 2),
                left_pads: vector(self, 0, 2),
                right_pads: vector(self, 0, 1),
            };
            let Ok(param) = ConvParam::new(sizes) else { continue };
            let [space, window] = ["dhw", "zyx"].map(|s| &s[3 - dims..]);
            let [input, filter, output] = [("ngc", space), ("gkc", window), ("ngk", space)].map(|(a, b)| self.shuffled(&format!("{a}{b}")));
            return param.with_layouts(&input, &filter, &output).unwrap();
        }
    }
}

/// Elements of a convolution's tensors.
fn elements(param: &ConvParam, direction: Direction) -> [usize; 3] {
    direction.roles().map(|role| param.elements(role))
}

fn result<T: Scalar>(param: &ConvParam, direction: Direction, how: Accumulate, x: &DeviceMem<F16>, y: &DeviceMem<F16>) -> Vec<T> {
    let n = elements(param, direction)[2];
    let mut d = DeviceMem::<T>::new(&Device::host(), n).unwrap();
    Conv::new(param.clone(), direction, how).run(x, y, &mut d.tensor_mut(&[n]).unwrap()).unwrap();
    d.to_vec().unwrap()
}

/// The row of an element, by coordinates: those of the layout without the axis that vectors run over.
fn row_of(param: &ConvParam, direction: Direction, axis: char, index: usize) -> usize {
    let role = direction.roles()[2];
    let (names, shape) = (param.layout(role).to_string(), param.shape(role));
    let at = Layout::contiguous(&shape).unwrap().coordinates(index);
    let rest = names.chars().zip(at).zip(shape).filter(|((name, _), _)| *name != axis);
    rest.fold(0, |row, ((_, at), extent)| row * extent + at)
}

#[test]
fn right_convolutions_of_every_kind_pass_and_broken_ones_do_not() {
    let mut draw = Draw(14);
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..60 {
        let param = draw.convolution();
        for direction in Direction::ALL {
            let [first, second, n] = elements(&param, direction);
            let (x, y) = (numbers::<F16>(first, [-1.0, 1.0], 1), numbers::<F16>(second, [-1.0, 1.0], 2));
            let of = |d: &[f32]| {
                let d = DeviceMem::from_slice(&Device::host(), d).unwrap();
                Check::conv(param.clone(), direction, &x, &y, &d).freivalds(8).unwrap()
            };
            let right = result::<f32>(&param, direction, Accumulate::F32Fma, &x, &y);
            let layouts = [Role::Input, Role::Filter, Role::Output].map(|role| param.layout(role).to_string());
            let name = format!("{param} {layouts:?} {direction:?}");
            let report = of(&right);
            seen.insert((format!("{direction:?}"), report.of));
            if right.iter().all(|x| *x == 0.0) {
                continue;
            }
            assert_eq!((report.verdict, report.rows * report.extent), (Verdict::Pass, n), "{name}\n{report}");
            assert!(report.threshold < 1e-3 * (1.0 + report.norm), "a threshold that means something: {name}\n{report}");
            // The same in f16, and the bound of f16 accumulators where there are such.
            let narrow = DeviceMem::from_slice(&Device::host(), &result::<F16>(&param, direction, Accumulate::F32, &x, &y)).unwrap();
            let narrow = Check::conv(param.clone(), direction, &x, &y, &narrow).freivalds(8).unwrap();
            assert!(narrow.passed(), "{name}\n{narrow}");

            let axis = match report.of {
                "output channels" => 'k',
                "input channels" => 'c',
                _ => 'n',
            };
            let wrong = draw.below(n);
            let mut one = right.clone();
            one[wrong] += 0.5;
            let found = of(&one);
            assert_eq!(
                (found.verdict, found.failing, found.worst_row),
                (Verdict::Fail, 1, row_of(&param, direction, axis, wrong)),
                "one element, {wrong}: {name}\n{found}"
            );
            one[wrong] = f32::NAN;
            assert_eq!((of(&one).verdict, of(&one).failing), (Verdict::Fail, 1), "{name}");
            for (factor, reason) in [(0.0, "zeros"), (1.01, "a factor")] {
                let wrong: Vec<f32> = right.iter().map(|x| x * factor).collect();
                assert_eq!(of(&wrong).verdict, Verdict::Fail, "{reason}: {name}");
            }
        }
    }
    assert_eq!(seen.len(), 6, "both axes of each direction: {seen:?}");
}

/// What a kernel does that takes other parameters than it was told.
#[test]
fn other_parameters_give_another_convolution() {
    let right: ConvParam = "2 2 3 8 4 3 3 7 6 1 1 1 1 1 1 1 1".parse().unwrap();
    let right = right.with_layouts("nhwgc", "gkyxc", "nhwgk").unwrap();
    for direction in Direction::ALL {
        let [first, second, _] = elements(&right, direction);
        let (x, y) = (numbers::<F16>(first, [-1.0, 1.0], 1), numbers::<F16>(second, [-1.0, 1.0], 2));
        for (other, reason) in [
            ("2 2 3 8 4 3 3 7 6 1 1 1 1 0 1 2 1", "the padding on one side"),
            ("2 2 3 8 4 3 3 7 6 1 1 1 1 1 1 1 1", "nothing"),
            ("2 2 3 8 4 3 3 7 6 1 1 2 1 2 1 2 1", "another dilation"),
        ] {
            let other: ConvParam = other.parse().unwrap();
            let other = other.with_layouts("nhwgc", "gkyxc", "nhwgk").unwrap();
            let d = DeviceMem::from_slice(&Device::host(), &result::<f32>(&other, direction, Accumulate::F32, &x, &y)).unwrap();
            let report = Check::conv(right.clone(), direction, &x, &y, &d).freivalds(4).unwrap();
            assert_eq!(
                report.verdict,
                if reason == "nothing" { Verdict::Pass } else { Verdict::Fail },
                "{direction:?}, {reason}\n{report}"
            );
        }
    }
}

/// The norm of a row of magnitudes is at most what thresholds are made of, and not far below.
#[test]
fn norms_of_rows_are_bounded_tightly() {
    let mut draw = Draw(3);
    for _ in 0..20 {
        let param = draw.convolution();
        for (direction, arithmetic) in Direction::ALL
            .into_iter()
            .zip([Arithmetic::from(Accumulate::F64), Model::new(Arch::Gfx942, Input::F16).unwrap().into()].repeat(2))
        {
            let [first, second, n] = elements(&param, direction);
            let (x, y) = (numbers::<F16>(first, [-1.0, 1.0], 1), numbers::<F16>(second, [-1e-6, 1e-6], 2));
            let d = DeviceMem::<f32>::new(&Device::host(), n).unwrap();
            let check = Check::conv(param.clone(), direction, &x, &y, &d);
            let contraction = Contraction::of(&check.problem, &check.result).unwrap();
            let axis = if contraction.vectors() == Vectors::Images {
                'n'
            } else if contraction.vectors() == Vectors::InChannels {
                'c'
            } else {
                'k'
            };
            let mut squares = vec![0.0; contraction.rows()];
            let magnitudes = check.problem.magnitudes(arithmetic, &[n]).unwrap().to_vec().unwrap();
            magnitudes.iter().enumerate().for_each(|(i, s)| squares[row_of(&param, direction, axis, i)] += s * s);
            for (row, (bound, squares)) in contraction.magnitudes(arithmetic).unwrap().into_iter().zip(squares).enumerate() {
                let norm = squares.sqrt();
                assert!(bound >= norm * (1.0 - 1e-12) && bound <= 2.0 * norm, "{param} {direction:?} row {row}: {bound} for {norm}");
            }
        }
    }
}

/// Elements that are exactly as far off as they may be, each to either side: the share of rows that fail is that of a normal distribution beyond λ, and below what is stated.
#[test]
fn false_alarms_are_as_rare_as_stated() {
    let (n, trials) = (1024usize, 400);
    let param: ConvParam = format!("1 1 1 {n} 1 1 1 1 1 0 0").parse().unwrap();
    let host = Device::host();
    // One row and one vector: λ = sqrt(2 ln(2 / 0.5)).
    let confidence = Confidence::new(0.5).unwrap();
    let (expected, stated) = (libm::erfc((2.0 * 4f64.ln()).sqrt() / std::f64::consts::SQRT_2), 0.5);
    let mut draw = Draw(5);
    for convolution in [false, true] {
        let mut alarms = 0;
        for trial in 0..trials {
            let (x, w) = (numbers::<F16>(1, [0.5, 1.0], trial), numbers::<F16>(n, [0.5, 1.0], trial + 10_000));
            let exact: Vec<f64> = w.to_vec().unwrap().iter().map(|w| w.to_f64() * x.to_vec().unwrap()[0].to_f64()).collect();
            let (left, right) = (x.tensor(&[1, 1]).unwrap(), w.tensor(&[1, n]).unwrap());
            let check = |d: &DeviceMem<f64>| {
                let flat = d.tensor(&[1, n]).unwrap();
                if convolution {
                    let check = Check::conv(param.clone(), Direction::Forward, &x, &w, d).confidence(confidence);
                    (check.bound().unwrap(), check.freivalds(1).unwrap())
                } else {
                    let check = Check::gemm(&left, &right, &flat).confidence(confidence);
                    (check.bound().unwrap(), check.freivalds(1).unwrap())
                }
            };
            let (bound, report) = check(&DeviceMem::from_slice(&host, &exact).unwrap());
            assert!(report.failing == 0 && bound.relative < 1e-15 && report.false_alarm == stated + 0.5, "{report}");
            let off: Vec<f64> = exact.iter().map(|s| s + [-1.0, 1.0][draw.below(2)] * (bound.gamma * s.abs() + bound.floor)).collect();
            alarms += check(&DeviceMem::from_slice(&host, &off).unwrap()).1.failing;
        }
        let rate = alarms as f64 / f64::from(trials);
        // The deviation of the count is 0.015 of the trials.
        assert!((rate - expected).abs() < 0.05 && rate < stated, "{rate} of {expected}, convolution: {convolution}");
    }
}

#[test]
fn batches_and_layouts_of_products() {
    let host = Device::host();
    let [batch, m, n, k] = [3, 10, 14, 40];
    let (a, b) = (numbers::<F16>(batch * m * k, [-1.0, 1.0], 1), numbers::<F16>(n * k, [-1.0, 1.0], 2));
    let (c, bias) = (numbers::<F16>(m * n, [-1.0, 1.0], 3), numbers::<f32>(n, [-1.0, 1.0], 4));
    let (left, right, c) = (a.tensor(&[batch, m, k]).unwrap(), b.tensor(&[n, k]).unwrap(), c.tensor(&[m, n]).unwrap());
    let mut d = DeviceMem::<f32>::new(&host, batch * m * n).unwrap();
    let gemm = Gemm::new(Accumulate::F32).transpose_b(true).alpha(0.5).beta(3.0, &c).bias(&bias);
    gemm.run(&left, &right, &mut d.tensor_mut(&[batch, m, n]).unwrap()).unwrap();
    let check = |d: &DeviceMem<f32>| {
        let d = d.tensor(&[batch, m, n]).unwrap();
        Check::gemm(&left, &right, &d).transpose_b(true).alpha(0.5).beta(3.0, &c).bias(&bias).freivalds(8).unwrap()
    };
    let report = check(&d);
    assert_eq!((report.verdict, report.rows, report.of), (Verdict::Pass, batch * m, "columns"), "{report}");
    let mut wrong = d.to_vec().unwrap();
    wrong[(m + 4) * n + 2] += 0.25;
    let found = check(&DeviceMem::from_slice(&host, &wrong).unwrap());
    assert_eq!((found.failing, &*found.worst_place), (1, "matrix 1, row 4"), "{found}");

    // Of two dimensions, and in full as well.
    let wrong = DeviceMem::from_slice(&host, &wrong).unwrap();
    let (left, wrong) = (a.tensor(&[batch, 1, m, k]).unwrap(), wrong.tensor(&[batch, 1, m, n]).unwrap());
    let check = Check::gemm(&left, &right, &wrong).transpose_b(true).alpha(0.5).beta(3.0, &c).bias(&bias).arch(Arch::Gfx90a);
    assert_eq!(check.freivalds(8).unwrap().worst_place, "matrix 1, 0, row 4");
    let report = check.run().unwrap();
    assert_eq!((report.report.mismatches, &*report.report.first[0].coordinates), (1, &[1, 0, 4, 2][..]), "{report}");

    // The matrix's columns lie behind each other, and there are gaps.
    let values = d.to_vec().unwrap();
    let mut memory = vec![f32::NAN; 2 * (m + 1) * n];
    (0..m * n).for_each(|i| memory[i / n + i % n * (m + 1)] = values[i]);
    let memory = DeviceMem::from_slice(&host, &memory).unwrap();
    let strided = memory.tensor(&[memory.len()]).unwrap().view(Layout::strided(&[m, n], &[1, m as isize + 1], 0).unwrap()).unwrap();
    let first = left.view(Layout::strided(&[m, k], &[k as isize, 1], 0).unwrap()).unwrap();
    let known = Check::gemm(&first, &right, &strided).transpose_b(true).alpha(0.5).bias(&bias);
    assert_eq!(known.clone().beta(3.0, &c).freivalds(8).unwrap().verdict, Verdict::Pass);
    assert_eq!(known.clone().freivalds(8).unwrap().verdict, Verdict::Fail, "without C");
    // What is multiplied by 0 is not read.
    let poison = DeviceMem::from_slice(&host, &vec![f32::NAN; m * n]).unwrap();
    let poison = poison.tensor(&[m, n]).unwrap();
    let plain = DeviceMem::from_slice(&host, &vec![0.0f32; m * n]).unwrap();
    let mut plain = plain;
    Gemm::new(Accumulate::F32).transpose_b(true).run(&first, &right, &mut plain.tensor_mut(&[m, n]).unwrap()).unwrap();
    let plain = plain.tensor(&[m, n]).unwrap();
    let unread = Check::gemm(&first, &right, &plain).transpose_b(true).beta(0.0, &poison);
    assert_eq!((unread.freivalds(8).unwrap().verdict, unread.run().unwrap().verdict()), (Verdict::Pass, Verdict::Pass));
}

#[test]
fn what_random_vectors_cannot_check_is_an_error() {
    let x = DeviceMem::from_slice(&Device::host(), &[1.0f32; 6]).unwrap();
    let (a, b, d) = (x.tensor(&[2, 3]).unwrap(), x.tensor(&[3, 2]).unwrap(), x.tensor(&[2, 3]).unwrap());
    let param: ConvParam = "1 1 1 1 1 3 8 1 1 0 0".parse().unwrap();
    for (check, words) in [
        (Check::gemm(&a, &a, &d), "operand B"),
        (Check::gemm(&a, &b, &d), "the result of A, [2, 3], by B, [3, 2]: shape [2, 3] does not match [2, 2]"),
        (Check::gemm(&a, &b, &x), "a matrix has two dimensions"),
        (Check::conv(param, Direction::Forward, &x, &x, &x), "Input in layout"),
        (Check::gemm(&a, &d, &d).transpose_b(true).epilogue(Epilogue::Relu), "the result of A, [2, 3], by B, transposed [2, 3]"),
    ] {
        let error = check.freivalds(2).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
        assert!(check.sampled_work(2).is_none());
    }
}

/// The rows of A times larger, so that some of each row of the product overflow.
fn product_that_overflows<T: Scalar>(factor: f32) -> (DeviceMem<F16>, DeviceMem<F16>, Vec<T>, Vec<f64>) {
    let [m, n, k] = OVERFLOWING;
    let (a, b) = (numbers::<F16>(m * k, [-factor, factor], 1), numbers::<F16>(k * n, [-1.0, 1.0], 2));
    let exact =
        product::<f64>(&Gemm::new(Accumulate::F64), &a.tensor(&[m, k]).unwrap(), &b.tensor(&[k, n]).unwrap(), [m, n]).to_vec().unwrap();
    let overflow =
        if T::DTYPE.float_format().unwrap().specials == crate::dtype::Specials::Ieee { Overflow::Ieee } else { Overflow::Saturate };
    let result = exact.iter().map(|x| T::from_bits64(T::DTYPE.encode(*x, Rounding::NearestEven, overflow))).collect();
    (a, b, result, exact)
}

const OVERFLOWING: [usize; 3] = [24, 40, 64];

/// Right results that saturate or overflow pass as they do element by element; wrong ones of the same rows do not.
fn overflow_is_judged_by_element<T: Scalar>(factor: f32) {
    let [m, n, k] = OVERFLOWING;
    let (a, b, right, exact) = product_that_overflows::<T>(factor);
    let (a, b) = (a.tensor(&[m, k]).unwrap(), b.tensor(&[k, n]).unwrap());
    let largest = T::DTYPE.float_format().unwrap().max_finite();
    let of = |d: &[T], products: usize| {
        let d = DeviceMem::from_slice(&Device::host(), d).unwrap();
        let d = d.tensor(&[m, n]).unwrap();
        let check = Check::gemm(&a, &b, &d).cause(false);
        (check.run().unwrap().verdict(), check.freivalds_within(8, products).unwrap())
    };
    let whole = m * n * k;
    let (by_element, report) = of(&right, whole);
    assert_eq!((by_element, report.verdict), (Verdict::Pass, Verdict::Pass), "{report}");
    let format = T::DTYPE.float_format().unwrap();
    let half_step = crate::dtype::exp2(format.max_exponent()) * format.unit_roundoff();
    let [beyond, overflowing] = [0.0, half_step].map(|more| exact.iter().filter(|x| x.abs() >= largest + more).count() as u64);
    assert!(overflowing > m as u64 && report.undecided >= overflowing && report.left_out == 0, "{overflowing}\n{report}");
    assert!(report.one_by_one >= beyond, "{beyond}\n{report}");
    assert!(report.to_string().contains("elements judged by their own bounds"), "{report}");

    // The largest finite element and the smallest one, in a row that has others beyond the format.
    let finite = (0..n).filter(|&i| exact[i].abs() < largest / 2.0).max_by(|&i, &j| exact[i].abs().total_cmp(&exact[j].abs())).unwrap();
    let small = (0..n).min_by(|&i, &j| exact[i].abs().total_cmp(&exact[j].abs())).unwrap();
    let over = (0..n).find(|&i| exact[i].abs() > 1.1 * largest).unwrap();
    let negated = T::from_bits64(T::DTYPE.encode(-right[over].to_f64(), Rounding::NearestEven, Overflow::Ieee));
    let zero = T::from_bits64(T::DTYPE.encode(0.0, Rounding::NearestEven, Overflow::Ieee));
    // Sums of a row tell less of one element in few bits.
    let fine = T::DTYPE.float_format().unwrap().mantissa_bits > 8;
    for (at, value, told, reason) in [
        (finite, zero, fine, "a number lost"),
        (small, right[over], true, "overflow that should not be"),
        (over, zero, fine, "no overflow"),
        (over, negated, true, "the other sign"),
    ] {
        if !told {
            continue;
        }
        let mut wrong = right.clone();
        wrong[at] = value;
        let (by_element, report) = of(&wrong, whole);
        assert_eq!(
            (by_element, report.verdict, report.failing, report.worst_row),
            (Verdict::Fail, Verdict::Fail, 1, 0),
            "{reason}\n{report}"
        );
    }

    // Too many to be judged: nothing is said of their rows, but other rows are judged.
    let (_, report) = of(&right, n * k);
    assert!(report.verdict == Verdict::Untrusted && (1..m as u64).contains(&report.left_out) && report.failing == 0, "{report}");
    let text = report.to_string();
    assert!(text.contains("are not judged") && text.contains("too many infinities, NaN or saturated elements"), "{text}");
    assert!(report.one_by_one * k as u64 <= (n * k) as u64, "{report}");
}

#[test]
fn results_that_overflow_are_judged_by_element() {
    overflow_is_judged_by_element::<crate::dtype::F8E4M3>(130.0);
    overflow_is_judged_by_element::<F16>(25000.0);
}

/// Of convolutions, of batches with C and bias, and with transposed operands.
#[test]
fn every_problem_may_overflow() {
    let host = Device::host();
    let [batch, m, n, k] = [2, 6, 20, 48];
    let (a, b) = (numbers::<F16>(batch * k * m, [-40000.0, 40000.0], 1), numbers::<F16>(n * k, [-1.0, 1.0], 2));
    let (c, bias) = (numbers::<F16>(m * n, [-9000.0, 9000.0], 3), numbers::<f32>(n, [-9000.0, 9000.0], 4));
    let (left, right, c) = (a.tensor(&[batch, k, m]).unwrap(), b.tensor(&[n, k]).unwrap(), c.tensor(&[m, n]).unwrap());
    let mut d = DeviceMem::<F16>::new(&host, batch * m * n).unwrap();
    let gemm = Gemm::new(Accumulate::F32).transpose_a(true).transpose_b(true).alpha(0.5).beta(3.0, &c).bias(&bias);
    gemm.run(&left, &right, &mut d.tensor_mut(&[batch, m, n]).unwrap()).unwrap();
    let d = d.tensor(&[batch, m, n]).unwrap();
    let check = Check::gemm(&left, &right, &d).transpose_a(true).transpose_b(true).alpha(0.5).beta(3.0, &c);
    let report = check.clone().bias(&bias).freivalds(8).unwrap();
    assert!(report.verdict == Verdict::Pass && report.one_by_one > 0, "{report}");
    assert_eq!(check.freivalds(8).unwrap().verdict, Verdict::Fail, "without the bias");

    let mut draw = Draw(8);
    let mut seen = 0;
    for direction in Direction::ALL.repeat(8) {
        let param = draw.convolution();
        let [first, second, n] = elements(&param, direction);
        let (x, y) = (numbers::<F16>(first, [-30000.0, 30000.0], 1), numbers::<F16>(second, [-1.5, 1.5], 2));
        let mut d = result::<F16>(&param, direction, Accumulate::F32, &x, &y);
        let of = |d: &[F16]| {
            let d = DeviceMem::from_slice(&host, d).unwrap();
            Check::conv(param.clone(), direction, &x, &y, &d).freivalds(8).unwrap()
        };
        let report = of(&d);
        assert!(report.passed() && report.left_out == 0, "{param} {direction:?}\n{report}");
        seen += report.undecided;
        let wrong = draw.below(n);
        if d[wrong].is_finite() && d[wrong].to_f32().abs() < 30000.0 {
            d[wrong] = F16::INFINITY;
            assert_eq!((of(&d).verdict, of(&d).failing), (Verdict::Fail, 1), "{param} {direction:?}");
        }
    }
    assert!(seen > 50, "{seen}");
}

/// Operands that are not finite leave no sums: all of their rows are judged by element.
#[test]
fn operands_that_are_not_finite() {
    let [m, n, k] = [8, 12, 32];
    let (a, b) = (numbers::<F16>(m * k, [-1.0, 1.0], 1), numbers::<F16>(k * n, [-1.0, 1.0], 2));
    let (mut left, mut right) = (a.to_vec().unwrap(), b.to_vec().unwrap());
    for (in_a, in_b, alone, reason) in [(true, false, n, "one row of A"), (true, true, m * n, "a column of B too, which is in all sums")] {
        left[3 * k + 1] = if in_a { F16::INFINITY } else { left[3 * k + 1] };
        right[5] = if in_b { F16::NAN } else { right[5] };
        let (a, b) = (DeviceMem::from_slice(&Device::host(), &left).unwrap(), DeviceMem::from_slice(&Device::host(), &right).unwrap());
        let (a, b) = (a.tensor(&[m, k]).unwrap(), b.tensor(&[k, n]).unwrap());
        let d = product::<f32>(&Gemm::new(Accumulate::F32), &a, &b, [m, n]).to_vec().unwrap();
        let of = |d: &[f32]| {
            let d = DeviceMem::from_slice(&Device::host(), d).unwrap();
            Check::gemm(&a, &b, d.tensor(&[m, n]).unwrap()).freivalds(4).unwrap()
        };
        let report = of(&d);
        assert_eq!((report.verdict, report.one_by_one), (Verdict::Pass, alone as u64), "{reason}\n{report}");
        let mut wrong = d.clone();
        wrong[3 * n] = 1.0;
        assert_eq!((of(&wrong).verdict, of(&wrong).failing), (Verdict::Fail, 1), "{reason}");
    }
}

/// Where half of the exact result is no number a pass shows too little, with vectors and without them.
#[test]
fn exact_results_that_are_not_finite() {
    let [m, n, k] = [8, 12, 32];
    let (a, b) = (numbers::<F16>(m * k, [-1.0, 1.0], 1), numbers::<F16>(k * n, [-1.0, 1.0], 2));
    for (columns, verdict) in [(1, Verdict::Pass), (n / 2 - 1, Verdict::Pass), (n / 2, Verdict::Untrusted), (n - 1, Verdict::Untrusted)] {
        let mut right = b.to_vec().unwrap();
        right[n - columns..n].fill(F16::NAN);
        let b = DeviceMem::from_slice(&Device::host(), &right).unwrap();
        let (a, b) = (a.tensor(&[m, k]).unwrap(), b.tensor(&[k, n]).unwrap());
        let d = product::<f32>(&Gemm::new(Accumulate::F32), &a, &b, [m, n]);
        let d = d.tensor(&[m, n]).unwrap();
        let check = Check::gemm(&a, &b, &d);
        let (all, sampled) = (check.run().unwrap(), check.freivalds(4).unwrap());
        assert_eq!((all.verdict(), sampled.verdict), (verdict, verdict), "{columns} columns\n{all}\n{sampled}");
        assert_eq!(sampled.not_finite, (m * columns) as u64, "{sampled}");
        let text = sampled.to_string();
        assert!(!text.contains("NaN   norm") && text.contains("x bound, by element: operands of this row are not finite"), "{text}");
        let words = format!("\n  warning    {} elements are NaN or infinite in the exact result", m * columns);
        assert_eq!(text.contains(&words), verdict == Verdict::Untrusted, "{text}");
    }
}

/// Where there is no bound everything passes, and nothing is shown.
#[test]
fn sums_too_long_for_a_bound() {
    let k = 4096;
    let (a, b) = (numbers::<F16>(2 * k, [0.5, 1.0], 1), numbers::<F16>(k * 3, [0.5, 1.0], 2));
    let (a, b) = (a.tensor(&[2, k]).unwrap(), b.tensor(&[k, 3]).unwrap());
    let d = product::<F16>(&Gemm::new(Accumulate::F32), &a, &b, [2, 3]);
    let d = d.tensor(&[2, 3]).unwrap();
    let check = Check::gemm(&a, &b, &d).accumulator(DType::F16);
    let report = check.freivalds(4).unwrap();
    assert_eq!(
        (check.run().unwrap().verdict(), report.verdict, report.worst_ratio),
        (Verdict::Untrusted, Verdict::Untrusted, 0.0),
        "{report}"
    );
    let error = report.clone().into_result().unwrap_err();
    assert_eq!((error.report(), format!("{error:?}")), (&report, report.to_string()));
}

#[test]
fn numbers_of_vectors_at_their_limits() {
    let x = DeviceMem::from_slice(&Device::host(), &[1.0f32, 2.0, 3.0, 4.0]).unwrap();
    let d = DeviceMem::from_slice(&Device::host(), &[7.0f32, 10.0, 15.0, 22.0]).unwrap();
    let (x, d) = (x.tensor(&[2, 2]).unwrap(), d.tensor(&[2, 2]).unwrap());
    let check = Check::gemm(&x, &x, &d);
    assert_eq!(check.freivalds(0).unwrap(), check.freivalds(1).unwrap());
    for many in [usize::MAX, usize::MAX / 2, usize::MAX / 16 + 1] {
        assert!(matches!(check.freivalds(many), Err(Error::SizeOverflow { .. })), "{many}");
        assert!(check.sampled_work(many).is_some());
    }
}

/// What an element shows that was judged by itself is not shown of the others of its row.
#[test]
fn overflow_is_no_evidence_for_other_elements() {
    let [m, n, k] = OVERFLOWING;
    let (a, b, right, exact) = product_that_overflows::<F16>(25000.0);
    let (a, b) = (a.tensor(&[m, k]).unwrap(), b.tensor(&[k, n]).unwrap());
    let of = |a: &TensorRef<'_>, d: &[F16]| {
        let d = DeviceMem::from_slice(&Device::host(), d).unwrap();
        let d = d.tensor(&[m, n]).unwrap();
        Check::gemm(a, &b, &d).cause(false).freivalds_within(8, m * n * k).unwrap()
    };
    assert_eq!(of(&a, &right).into_result().unwrap().verdict, Verdict::Pass);
    // All that does not overflow is lost: of rows whose sums are small against their magnitudes nobody can tell.
    let only: Vec<F16> = right.iter().map(|x| if x.to_f64().is_finite() { F16::ZERO } else { *x }).collect();
    assert_ne!(of(&a, &only).verdict, Verdict::Pass, "{}", of(&a, &only));
    // No number at all.
    let nan = DeviceMem::from_slice(&Device::host(), &vec![F16::from_f32(f32::NAN); m * k]).unwrap();
    let report = of(&nan.tensor(&[m, k]).unwrap(), &vec![F16::from_f32(f32::NAN); m * n]);
    assert_eq!((report.verdict, exact.len()), (Verdict::Untrusted, m * n), "{report}");
}

/// As in BLAS an alpha of 0 takes nothing of A and B.
#[test]
fn operands_that_are_not_read_may_be_infinite() {
    let device = Device::host();
    let of = |x: &[f32]| DeviceMem::from_slice(&device, x).unwrap();
    let (a, b, c) = (of(&[f32::INFINITY, f32::NAN, 1.0, 2.0]), of(&[1.0, 2.0, 3.0, 4.0]), of(&[5.0, 6.0, 7.0, 8.0]));
    let shape = [2, 2];
    let [a, b, c] = [&a, &b, &c].map(|x| x.tensor(&shape).unwrap());
    let mut made = DeviceMem::<f32>::new(&device, 4).unwrap();
    Gemm::new(Accumulate::F64).alpha(0.0).beta(2.0, &c).run(&a, &b, &mut made.tensor_mut(&shape).unwrap()).unwrap();
    assert_eq!(made.to_vec().unwrap(), [10.0, 12.0, 14.0, 16.0]);
    let d = made.tensor(&shape).unwrap();
    let check = Check::gemm(&a, &b, &d).alpha(0.0).beta(2.0, &c);
    assert_eq!((check.run().unwrap().verdict(), check.freivalds(8).unwrap().verdict), (Verdict::Pass, Verdict::Pass));
}

/// Where zeros would pass beside the exact result, twice that result earns no trust either, though its own norm is beyond the threshold.
#[test]
fn a_result_of_twice_the_size_is_not_trusted_where_the_right_one_is_not() {
    let (k, n) = (160, 256);
    let mut telling = 0;
    for stream in 0..8 {
        let (a, b) = (numbers::<F8E4M3>(k, [-1.0, 1.0], 2 * stream), numbers::<F8E4M3>(k * n, [-1.0, 1.0], 2 * stream + 1));
        let (a, b) = (a.tensor(&[1, k]).unwrap(), b.tensor(&[k, n]).unwrap());
        let right: DeviceMem<f32> = product(&Gemm::new(Accumulate::F64), &a, &b, [1, n]);
        let twice = DeviceMem::from_slice(&Device::host(), &right.to_vec().unwrap().iter().map(|x| 2.0 * x).collect::<Vec<_>>()).unwrap();
        let [right, twice] = [&right, &twice].map(|d| {
            let d = d.tensor(&[1, n]).unwrap();
            Check::gemm(&a, &b, &d).arch(Arch::Sm90).freivalds(8).unwrap()
        });
        assert_ne!(right.verdict, Verdict::Fail);
        assert!(right.verdict == Verdict::Pass || twice.verdict != Verdict::Pass, "stream {stream}: {twice}");
        telling += usize::from(right.verdict == Verdict::Untrusted && twice.norm > twice.threshold);
    }
    assert!(telling > 0, "thresholds of this hardware lie between both norms");
}
