//! Kernels that give the largest number of a format for what is beyond it: right where that is said, and named where it is not.

use super::*;
use crate::dtype::F8E5M2;

const SHAPE: [usize; 3] = [16, 24, 64];

/// Operands whose every fourth row has sums around -160,000, the others around 1,600.
fn operands() -> [DeviceMem<F16>; 2] {
    let [m, n, k] = SHAPE;
    let [large, small] = [numbers::<F16>(m * k, [-60.0, -40.0], 1), numbers(m * k, [0.0, 1.0], 2)].map(|x| x.to_vec().unwrap());
    let a: Vec<F16> = (0..m * k).map(|i| if i / k % 4 == 0 { large[i] } else { small[i] }).collect();
    [DeviceMem::from_slice(&Device::host(), &a).unwrap(), numbers(k * n, [40.0, 60.0], 3)]
}

/// The sums of their products, in f64.
fn sums([a, b]: &[DeviceMem<F16>; 2]) -> Vec<f64> {
    let [m, n, k] = SHAPE;
    let [a, b] = [a, b].map(|x| x.to_vec().unwrap());
    (0..m * n).map(|i| (0..k).map(|x| a[i / n * k + x].to_f64() * b[x * n + i % n].to_f64()).sum()).collect()
}

/// The verdict on a result, and its likely cause; by the way the same verdict by Freivalds' check.
fn verdict<D: Scalar>(operands: &[DeviceMem<F16>; 2], result: &[D], saturates: bool) -> (Verdict, Option<CheckCause>, String) {
    let [m, n, k] = SHAPE;
    let d = DeviceMem::from_slice(&Device::host(), result).unwrap();
    let (a, b, d) = (operands[0].tensor(&[m, k]).unwrap(), operands[1].tensor(&[k, n]).unwrap(), d.tensor(&[m, n]).unwrap());
    let check = Check::gemm(&a, &b, &d).saturates(saturates);
    let report = check.run().unwrap();
    assert_eq!(report.report.saturates, saturates);
    let sampled = check.freivalds(8).unwrap();
    // Its thresholds are of rows: an element that is no infinity may be lost there.
    let shown = report.passed()
        || report.report.worst.as_ref().is_some_and(|worst| worst.ratio == f64::INFINITY || worst.result.abs() == largest::<D>());
    assert!(!shown || sampled.passed() == report.passed(), "{report}\n{sampled}");
    let named = report.cause.as_ref().is_some_and(|cause| cause.evidence.contains("takes that for right"));
    assert_eq!(sampled.would_saturate, named, "{report}\n{sampled}");
    assert_eq!(sampled.to_string().contains("would pass of a kernel that saturates"), named, "{sampled}");
    (report.verdict(), report.cause.clone(), report.to_string())
}

fn largest<D: Scalar>() -> f64 {
    D::DTYPE.float_format().unwrap().max_finite()
}

fn of_format<D: Scalar>(largest: f64) {
    let operands = operands();
    let exact = sums(&operands);
    let beyond = exact.iter().filter(|x| x.abs() > 2.0 * largest).count();
    assert_eq!(beyond, exact.len() / 4);
    let round = |x: f64| D::from_bits64(D::DTYPE.encode(x, Rounding::NearestEven, Overflow::Ieee));
    let [infinite, saturated] = [f64::INFINITY, largest]
        .map(|most| exact.iter().map(|&x| if x.abs() > 2.0 * largest { round(most.copysign(x)) } else { round(x) }).collect::<Vec<D>>());
    for (result, saturates, expected) in [
        (&infinite, false, Verdict::Pass),
        (&infinite, true, Verdict::Fail),
        (&saturated, true, Verdict::Pass),
        (&saturated, false, Verdict::Fail),
    ] {
        let (found, cause, text) = verdict(&operands, result, saturates);
        assert_eq!(found, expected, "{text}");
        assert_eq!(text.contains("sums in f32, saturating"), saturates, "{text}");
        if expected == Verdict::Fail && !saturates {
            let words =
                format!("saturated at {largest}, the limit of {}: all {beyond} mismatches, where the exact result overflows", D::DTYPE);
            let cause = cause.unwrap();
            assert!(cause.kind == "saturated" && cause.evidence.starts_with(&words), "{text}");
            assert_eq!((cause.mismatches, cause.explained), (beyond, beyond));
        }
    }
    // Another mistake beside it is not called so, nor is what has infinities as well; and where the kernel is known to saturate, that is no part of the cause.
    let n = SHAPE[1];
    for (wrong, with, saturates) in [(n, -largest, false), (0, f64::NEG_INFINITY, false), (0, largest, true)] {
        let mut result = saturated.clone();
        result[wrong] = round(with);
        let (found, cause, text) = verdict(&operands, &result, saturates);
        assert_eq!(found, Verdict::Fail, "{text}");
        assert!(!cause.is_some_and(|cause| cause.evidence.contains("takes that for right")), "{text}");
    }
    let doubled: Vec<D> = saturated.iter().map(|x| if x.to_f64().abs() == largest { *x } else { round(2.0 * x.to_f64()) }).collect();
    let (found, cause, text) = verdict(&operands, &doubled, true);
    assert!(found == Verdict::Fail && cause.is_some_and(|cause| cause.kind != "saturated"), "{text}");
}

#[test]
fn results_that_saturate_pass_where_that_is_said() {
    of_format::<F16>(65504.0);
    of_format::<F8E5M2>(57344.0);
}

/// What a matrix core gives is bit-exact after a conversion that saturates, where that is said.
#[test]
fn bits_are_those_of_a_conversion_that_saturates() {
    let [m, n, k] = SHAPE;
    let [a, b] = operands();
    let (a, b) = (a.tensor(&[m, k]).unwrap(), b.tensor(&[k, n]).unwrap());
    let model = Model::new(Arch::Gfx90a, Input::F16).unwrap();
    let sums: Vec<f32> = product::<f32>(&Gemm::new(model), &a, &b, [m, n]).to_vec().unwrap();
    let result: Vec<F16> = sums.iter().map(|x| F16::from_f32(x.clamp(-65504.0, 65504.0))).collect();
    let d = DeviceMem::from_slice(&Device::host(), &result).unwrap();
    let d = d.tensor(&[m, n]).unwrap();
    let check = Check::gemm(&a, &b, &d).arch(Arch::Gfx90a);
    for (saturates, differing) in [(true, 0), (false, m * n / 4)] {
        let report = check.clone().saturates(saturates).run().unwrap();
        assert_eq!(report.exactness.as_ref().unwrap().differing, differing, "{report}");
    }
    let integers = DeviceMem::from_slice(&Device::host(), &[1i32]).unwrap();
    let integers = integers.tensor(&[1, 1]).unwrap();
    let e = Check::gemm(&integers, &integers, &integers).saturates(true).run().unwrap_err().to_string();
    assert_eq!(e, "a product of integers that saturates is not supported by a check");
}

/// What overflows, and is infinite as it should be, is beside a mistake, and no part of it; so is what is NaN in formats without infinity.
#[test]
fn what_overflows_rightly_is_no_part_of_the_cause() {
    of_one_zero::<F16>();
    of_one_zero::<F8E4M3>();
}

fn of_one_zero<D: Scalar>() {
    let [m, n, k] = SHAPE;
    let root = largest::<D>().sqrt() as f32;
    let (a, b) = (numbers::<F16>(m * k, [-root, root], 1), numbers::<F16>(k * n, [-root / 4.0, root / 4.0], 2));
    let (a, b) = (a.tensor(&[m, k]).unwrap(), b.tensor(&[k, n]).unwrap());
    let mut d = product::<D>(&Gemm::new(Accumulate::F64), &a, &b, [m, n]).to_vec().unwrap();
    let overflowed = d.iter().filter(|x| !x.to_f64().is_finite()).count();
    assert!((20..m * n - 20).contains(&overflowed), "{overflowed}");
    let wrong = d.iter_mut().find(|x| x.to_f64().is_finite()).unwrap();
    *wrong = D::from_bits64(0);
    let d = DeviceMem::from_slice(&Device::host(), &d).unwrap();
    let report = Check::gemm(&a, &b, d.tensor(&[m, n]).unwrap()).run().unwrap();
    let cause = report.cause.as_ref().unwrap();
    assert_eq!((report.report.mismatches, cause.kind, cause.mismatches), (1, "unwritten", 1), "{report}");
}
