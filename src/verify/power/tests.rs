//! Mutations against the reports that they make when they are made.

use super::*;
use crate::dtype::{F16, Overflow, Rounding};
use crate::verify::options::Judge;
use crate::verify::{
    AllowedMismatches, AsTensor, Level, Options, Report, Strict, Thresholds, Tolerance, Verdict, VerifyPlan, gpu_verify, gpu_verify_with,
    gpu_verify_with_earlier,
};
use crate::{Device, DeviceMem, Stream};

fn ramp(n: usize) -> Vec<f32> {
    (1..=n).map(|i| i as f32 / 64.0 * if i % 3 == 0 { -1.0 } else { 1.0 }).collect()
}

fn power(reference: &[f32], shape: &[usize], tolerance: [f64; 2], options: &Options) -> (Power, Verdict) {
    let device = Device::host();
    let r = DeviceMem::from_slice(&device, reference).unwrap();
    let view = r.tensor(shape).unwrap();
    let report = gpu_verify_with(&view, &view, &Tolerance::new(tolerance[0], tolerance[1]).unwrap(), options).unwrap();
    (report.power, report.verdict)
}

/// The definition: the mutated reference is made and compared.
#[test]
fn errors_of_one_size_are_judged_as_if_they_had_been_made() {
    let device = Device::host();
    let reference = ramp(100);
    let r = DeviceMem::from_slice(&device, &reference).unwrap();
    for (rtol, atol) in
        [(0.0, 0.0), (0.06, 0.0), (0.3, 0.0), (0.0, 0.5), (0.0, 1.6), (0.0, 3.2), (0.5, 0.8), (1.5, 0.0), (2.5, 0.0), (1e-3, 1e-3)]
    {
        for judge in [Judge::Elements, Judge::Thresholds, Judge::Both] {
            for limit in [1e-3, 0.1, 0.5, 3.0] {
                let options = Options::default().thresholds(Thresholds::new(limit, 4.0 * limit, limit).unwrap(), judge);
                let tolerance = Tolerance::new(rtol, atol).unwrap();
                let power = gpu_verify_with(&r, &r, &tolerance, &options).unwrap().power;
                for (mutation, error) in
                    [(Mutation::Zeros, -1.0f32), (Mutation::Negated, -2.0), (Mutation::Scaled(1.05), 0.05), (Mutation::Scaled(0.72), -0.28)]
                {
                    let made: Vec<f32> = reference.iter().map(|r| r + error * r).collect();
                    let made = DeviceMem::from_slice(&device, &made).unwrap();
                    let passed = gpu_verify_with(&made, &r, &tolerance, &options).unwrap().passed();
                    assert_eq!(
                        power.missed.contains(&mutation),
                        passed,
                        "{mutation} by {judge:?}, rtol {rtol} atol {atol}, thresholds {limit}"
                    );
                    assert_eq!(power.found.contains(&mutation), !passed, "{mutation}");
                }
            }
        }
    }
}

/// By binade the largest element decides where no other one can, and zeros are counted.
#[test]
fn errors_of_one_size_by_binade_are_those_of_the_largest_element() {
    let device = Device::host();
    for (data, rtol, missed, smallest, reason) in [
        ([1.9375f32, 0.5], 0.0625, &[][..], 0.0625 / 1.9375, "1.05 is off by 0.097, of which 0.0625 is allowed"),
        (
            [1.0, 0.96875],
            0.0625,
            &[],
            0.0625,
            "the largest is off by 0.05, of which 0.0625 is allowed; the other would fail, of which nobody knows",
        ),
        ([1.0, 1.0], 1.0, &[Mutation::Zeros, Mutation::Scaled(1.05), Mutation::Scaled(0.72)], 1.0, "zeros are off by what is allowed"),
        ([1.0, 0.9375], 1.0, &[Mutation::Scaled(1.05), Mutation::Scaled(0.72)], 1.0, "of the other element 0.5 is allowed"),
    ] {
        let r = DeviceMem::from_slice(&device, &data).unwrap();
        let tolerance = Tolerance::new(rtol, 0.0).unwrap().by_binade();
        let power = gpu_verify_with(&r, &r, &tolerance, &Options::default()).unwrap().power;
        let missed_of_one_size: Vec<Mutation> = power.missed.iter().copied().filter(|m| !matches!(m, Mutation::Rounded(_))).collect();
        assert_eq!(missed_of_one_size, missed, "{reason}");
        assert!((power.smallest_error.unwrap() - smallest).abs() < 1e-15, "{:?}: {reason}", power.smallest_error);
        let zeros = DeviceMem::from_slice(&device, &[0.0f32; 2]).unwrap();
        let passed = gpu_verify_with(&zeros, &r, &tolerance, &Options::default()).unwrap().passed();
        assert_eq!(power.missed.contains(&Mutation::Zeros), passed, "{reason}");
        let scaled = DeviceMem::from_slice(&device, &data.map(|x| x * 1.05)).unwrap();
        let passed = gpu_verify_with(&scaled, &r, &tolerance, &Options::default()).unwrap().passed();
        assert!(!power.missed.contains(&Mutation::Scaled(1.05)) || passed, "{reason}");
        assert!(!power.found.contains(&Mutation::Scaled(1.05)) || !passed, "{reason}");
    }
}

/// What a part says is what the whole would say: the part fails only where any continuation does.
/// Spacings of f64, of numbers and zeros that are compared in f32.
#[test]
fn displacements_of_zeros_are_judged_by_wider_spacings() {
    let device = Device::host();
    let relu: Vec<f32> = (0..64u16).map(|i| if i % 3 == 0 { f32::from(i * 37 % 64) + 0.5 } else { 0.0 }).collect();
    let wide: Vec<f64> = relu.iter().map(|x| f64::from(*x)).collect();
    let (result, reference) = (DeviceMem::from_slice(&device, &wide).unwrap(), DeviceMem::from_slice(&device, &relu).unwrap());
    for limit in [1.0, 41.0, 1e14] {
        let thresholds = Thresholds::OFF.with_epsilon(limit).unwrap();
        let options = Options::default().power(true).level(Level::All).thresholds(thresholds, Judge::Thresholds);
        let report =
            gpu_verify_with(&result.tensor(&[8, 8]).unwrap(), &reference.tensor(&[8, 8]).unwrap(), &Tolerance::exact(), &options).unwrap();
        assert_eq!((report.verdict, displaced(&report.power.found).len()), (Verdict::Pass, 4), "{limit}\n{report}");
    }
}

/// Numbers of which only the reference's format, or the result's, has the spacing that the rule goes by.
#[test]
fn displacements_are_judged_by_the_spacing_of_the_result() {
    let device = Device::host();
    let epsilons = |limit| {
        Options::default().power(true).level(Level::All).thresholds(Thresholds::OFF.with_epsilon(limit).unwrap(), Judge::Thresholds)
    };
    // From 1 to 1.9, in steps of f16: thousands of those of f32.
    let numbers: Vec<F16> = (0..64u16).map(|i| F16::from_bits(0x3c00 + 14 * (i * 37 % 64))).collect();
    let wide: Vec<f32> = numbers.iter().map(|x| x.to_f32()).collect();
    let (f16, f32s) = (DeviceMem::from_slice(&device, &numbers).unwrap(), DeviceMem::from_slice(&device, &wide).unwrap());
    let (f16, f32s) = (f16.tensor(&[8, 8]).unwrap(), f32s.tensor(&[8, 8]).unwrap());
    let none = Tolerance::exact();
    let of_f32 = gpu_verify_with(&f32s, &f16, &none, &epsilons(900.0)).unwrap().power;
    let of_f16 = gpu_verify_with(&f16, &f32s, &none, &epsilons(900.0)).unwrap().power;
    assert_eq!((displaced(&of_f32.missed).len(), displaced(&of_f16.missed).len()), (0, 4), "{of_f32:?} {of_f16:?}");
}

#[test]
fn a_part_of_a_displacement_fails_by_what_only_grows() {
    let whole = Values { max_magnitude: [4.0; 2], sums: [0.0, 0.0, 1000.0, 2500.0], ..Values::EMPTY };
    let part = Values {
        max_magnitude: [2.0; 2],
        maxima: [1.0, 0.5, 0.5, 0.0, 0.0],
        sums: [50.0, 100.0, 60.0, 150.0],
        mismatches: 2,
        ..Values::EMPTY
    };
    let metrics = |thresholds: Thresholds| Options::default().thresholds(thresholds, Judge::Thresholds);
    for (options, fails, reason) in [
        (Options::default(), true, "two mismatches, none is allowed"),
        (Options::default().allow_mismatches(AllowedMismatches::new(0.0, 2).unwrap()), false, "two are allowed"),
        (metrics(Thresholds { relative: 0.4, ..Thresholds::OFF }), true, "the largest relative difference is above"),
        (metrics(Thresholds { relative: 0.5, ..Thresholds::OFF }), false, "and here it is not"),
        (metrics(Thresholds { relative_l1: 0.04, ..Thresholds::OFF }), true, "50 of 1000 in all is above"),
        (metrics(Thresholds { relative_l1: 0.06, ..Thresholds::OFF }), false, "50 of 60 would be above, of 1000 it is not"),
        (metrics(Thresholds { relative_l2: 0.19, ..Thresholds::OFF }), true, "the root of 100 of 2500"),
        (metrics(Thresholds { relative_l2: 0.21, ..Thresholds::OFF }), false, "the root of 100 of 2500"),
        (metrics(Thresholds { rms: 0.078, ..Thresholds::OFF }), true, "10 of 4 times the root of 1024"),
        (metrics(Thresholds { rms: 0.079, ..Thresholds::OFF }), false, "of 2 times the root of the part's elements it would be above"),
    ] {
        let request = Request::new(&options, DType::F32, &Tolerance::exact(), 0.0);
        assert_eq!(fails_in_part(&part, &whole, &request, 1024), fails, "{reason}");
        let same = Values { maxima: [0.0; 5], mismatches: 0, ..part };
        assert!(!fails_in_part(&same, &whole, &request, 1024), "a part in which nothing differs says nothing");
    }
}

#[test]
fn the_smallest_error_that_fails() {
    for (tolerance, expected, reason) in [
        ([0.25, 0.0], 0.25f64.next_up(), "the relative tolerance"),
        ([0.0, 0.5], 0.5f64.next_up(), "the absolute one over the largest element, 1"),
        ([0.25, 0.5], 0.75f64.next_up(), "their sum"),
        ([0.0, 0.0], f64::from_bits(1), "any"),
    ] {
        assert_eq!(power(&ramp(64), &[64], tolerance, &Options::default()).0.smallest_error, Some(expected), "{reason}");
    }
    assert_eq!(power(&[0.0; 8], &[8], [0.0, 0.0], &Options::default()).0.smallest_error, Some(f64::INFINITY), "zeros stay zeros");
}

/// The definition: the largest element is moved on, one number of the format after the other, and compared.
#[test]
fn the_largest_element_fails_from_so_many_ulps_on() {
    use crate::device::{Layout, TensorRef};
    let layout = || Layout::contiguous(&[2]).unwrap();
    let compare = |dtype: DType, values: [u64; 2], reference: &[f64], tolerance: [f64; 2], options: &Options| {
        let mut bytes = vec![0; dtype.bytes_for(2).unwrap()];
        values.iter().enumerate().for_each(|(i, &bits)| dtype.store_bits(&mut bytes, i, bits));
        let result = TensorRef::from_host_bytes(&bytes, dtype, layout()).unwrap();
        let reference = TensorRef::from_host_bytes(bytemuck::cast_slice(reference), DType::F64, layout()).unwrap();
        gpu_verify_with(&result, &reference, &Tolerance::new(tolerance[0], tolerance[1]).unwrap(), options).unwrap()
    };
    let one_may = Options::default().allow_mismatches(AllowedMismatches::new(0.0, 1).unwrap());
    let by = |thresholds| Options::default().thresholds(thresholds, Judge::Thresholds);
    let rms = by(Thresholds { rms: 0.01, ..Thresholds::OFF });
    for (dtype, max, tolerance, options, expected, reason) in [
        (DType::F16, 1.0, [0.0, 0.0], Options::default(), Some(1), "any other number"),
        (DType::F16, 1.0, [0.0, 2.5 / 1024.0], Options::default(), Some(3), "two and a half steps are allowed"),
        (DType::F16, -1.0, [2.5 / 1024.0, 0.0], Options::default(), Some(3), "below zero"),
        (DType::Bf16, 1.75, [1.0, 0.0], Options::default(), Some(129), "32 steps to 2, then 96 twice as large"),
        (DType::F8E4M3, 448.0, [0.1, 0.0], Options::default(), None, "the largest number of the format"),
        (DType::F16, 65504.0, [0.1, 0.0], Options::default(), Some(1), "infinity comes next"),
        (DType::I8, -128.0, [0.0, 0.0], Options::default(), None, "the least integer"),
        (DType::I8, 100.0, [0.0, 3.0], Options::default(), Some(4), "integers"),
        (DType::F16, 1.0, [0.0, 0.0], one_may, None, "one may be anything"),
        (DType::F16, 1.0, [0.0, 0.0], rms, Some(15), "0.01 sqrt(2) (1 + 15 / 1024) steps of 1 / 1024"),
        (DType::F16, 1.75, [0.0, 0.0], by(Thresholds { epsilon: 2.0, ..Thresholds::OFF }), Some(3), "more than two spacings"),
        (DType::I8, 100.0, [0.0, 0.0], by(Thresholds { epsilon: 2.0, ..Thresholds::OFF }), Some(3), "of integers, too"),
        (DType::F16, 1.0, [0.0, 0.0], by(Thresholds { relative_old: 0.01, ..Thresholds::OFF }), Some(11), "10.24 steps of 1 / 1024"),
    ] {
        let reference = [max, 0.25];
        let start = [max, 0.25].map(|x| dtype.encode(x, Rounding::NearestEven, Overflow::Saturate));
        let power = compare(dtype, start, &reference, tolerance, &options).power;
        assert_eq!(power.smallest_ulps, expected, "{dtype}, {reason}");
        let Some(ulps) = expected else { continue };
        let away = |steps: u64| {
            let step = if max < 0.0 { crate::dtype::next_down } else { crate::dtype::next_up };
            (0..steps).fold(start[0], |bits, _| step(dtype, bits))
        };
        let verdicts = [ulps - 1, ulps].map(|steps| compare(dtype, [away(steps), start[1]], &reference, tolerance, &options).passed());
        assert_eq!(verdicts, [true, false], "{dtype}, {reason}: as if it had been made");
    }
}

#[test]
fn an_earlier_output_that_would_pass_makes_a_pass_untrusted() {
    let device = Device::host();
    let tensor = |values: &[f32]| DeviceMem::from_slice(&device, values).unwrap();
    let reference = tensor(&ramp(64));
    let near: Vec<f32> = ramp(64).iter().map(|x| x + 1.0 / 256.0).collect();
    let other: Vec<f32> = ramp(64).into_iter().rev().collect();
    let tolerance = Tolerance::new(0.0, 1.0 / 128.0).unwrap();
    for (earlier, verdict, missed, reason) in [
        (&near, Verdict::Untrusted, true, "within the tolerance"),
        (&ramp(64), Verdict::Untrusted, true, "the same output"),
        (&other, Verdict::Pass, false, "another output"),
    ] {
        let options = Options::default();
        let report = gpu_verify_with_earlier(&reference, &reference, &tensor(earlier), &tolerance, &options).unwrap();
        let Power { missed: m, found, .. } = &report.power;
        assert_eq!(
            (report.verdict, m.contains(&Mutation::Earlier), found.contains(&Mutation::Earlier)),
            (verdict, missed, !missed),
            "{reason}"
        );
    }
    let short = tensor(&[1.0]);
    let error = gpu_verify_with_earlier(&reference, &reference, &short, &tolerance, &Options::default());
    assert!(error.unwrap_err().to_string().contains("the earlier output"), "shapes differ");
}

/// Where a share may fail, zeros are judged by their number, and nothing is said of smaller errors, of which the largest element does not tell.
#[test]
fn shares_that_may_fail_hide_errors() {
    use Mutation::{Negated, Scaled, Zeros};
    for (share, atol, found, missed, reason) in [
        (0.4, 40.0, &[Zeros, Negated][..], &[Scaled(1.05), Scaled(0.72)][..], "zeros fail at 60 % of the elements"),
        (0.6, 40.0, &[], &[Zeros, Scaled(1.05), Scaled(0.72)], "and 60 % may fail; of the negated reference at least as many do"),
        (0.4, 1.0, &[Zeros, Negated], &[], "the largest element is off by 5 in 64, how many others are is not counted"),
    ] {
        let options = Options::default().allow_mismatches(AllowedMismatches::new(share, 0).unwrap());
        let (power, verdict) = power(&ramp(100), &[100], [0.0, atol / 64.0], &options);
        let of_zeros = |m: Vec<Mutation>| m.into_iter().filter(|m| !matches!(m, Mutation::Rounded(_))).collect::<Vec<_>>();
        assert_eq!((of_zeros(power.found), of_zeros(power.missed)), (found.to_vec(), missed.to_vec()), "{reason}");
        assert_eq!(power.smallest_error, None, "{reason}");
        assert_eq!(verdict == Verdict::Untrusted, found.is_empty(), "{reason}");
    }
}

/// A result that is not finite says nothing of what zeros would do in its place.
#[test]
fn zeros_in_the_place_of_what_is_not_finite_are_not_said_to_pass() {
    let device = Device::host();
    let reference: Vec<f32> = (0..100).map(|i| 1.0 + i as f32).collect();
    let result: Vec<f32> = reference.iter().enumerate().map(|(i, r)| if i < 60 { f32::NAN } else { *r }).collect();
    let of = |x: &[f32]| DeviceMem::from_slice(&device, x).unwrap();
    let options = Options::default().allow_mismatches(AllowedMismatches::new(0.6, 0).unwrap());
    let report = gpu_verify_with(&of(&result), &of(&reference), &Tolerance::new(1e-4, 0.0).unwrap(), &options).unwrap();
    assert_eq!((report.verdict, report.power.missed), (Verdict::Pass, vec![]));
    // They pass where they would even if they failed at all of these.
    let reference: Vec<f32> = (0..100).map(|i| if i < 45 { 1e-6 } else { i as f32 }).collect();
    let result: Vec<f32> = reference.iter().enumerate().map(|(i, r)| if i == 7 { f32::NAN } else { *r }).collect();
    let report = gpu_verify_with(&of(&result), &of(&reference), &Tolerance::new(1e-3, 1e-3).unwrap(), &options).unwrap();
    assert_eq!((report.verdict, report.power.missed.contains(&Mutation::Zeros)), (Verdict::Untrusted, true));
}

/// Without counting at how many elements zeros pass, zeros would be one mismatch.
#[test]
fn counts_alone_do_not_hide_zeros() {
    let options = Options::default().level(Level::Counts).allow_mismatches(AllowedMismatches::new(0.05, 0).unwrap());
    let (power, verdict) = power(&ramp(100), &[100], [0.0, 0.0], &options);
    assert_eq!((verdict, power.nonzero, power.zero_passes), (Verdict::Pass, Some(100), Some(0)));
    assert!(power.found.starts_with(&[Mutation::Zeros, Mutation::Negated]), "{power:?}");
}

/// Zeros in the place of what is not finite fail, and so does an infinity of the other sign.
#[test]
fn what_is_not_finite_in_the_reference_counts() {
    let options = Options::default().nonfinite(NonFinite::EqualWhenSame).thresholds(Thresholds::OFF, Judge::Thresholds);
    for (first, missed, verdict, reason) in [
        (f32::INFINITY, &[][..], Verdict::Pass, "an infinity"),
        (f32::NAN, &[Mutation::Negated], Verdict::Pass, "NaN has no sign"),
        (1e-9, &[Mutation::Zeros, Mutation::Negated], Verdict::Untrusted, "numbers within the tolerance"),
    ] {
        let (power, found) = power(&[first, 1e-9], &[2], [0.0, 1e-6], &options);
        let of: Vec<Mutation> = power.missed.into_iter().filter(|m| matches!(m, Mutation::Zeros | Mutation::Negated)).collect();
        assert_eq!(of, missed, "{reason}");
        assert_eq!(found, verdict, "{reason}");
    }
}

/// Where metrics decide, what is not finite in the reference fails by its policy, and takes no finite mismatch with it.
#[test]
fn one_element_off_is_judged_with_what_is_not_finite() {
    for (policy, first, smallest) in
        [(NonFinite::Fail, f32::INFINITY, Some(1)), (NonFinite::EqualWhenSame, f32::INFINITY, None), (NonFinite::Fail, 2.0, None)]
    {
        let options = Options::default().nonfinite(policy).thresholds(Thresholds::OFF, Judge::Thresholds);
        let (power, _) = power(&[first, 1.0, 1.0], &[3], [0.0, f64::from(f32::EPSILON)], &options);
        assert_eq!(power.smallest_ulps.filter(|&ulps| ulps < 100), smallest, "{policy:?}, {first}");
    }
}

/// Zeros of the reference beside a result that is not finite are no zeros that pass.
#[test]
fn zeros_are_those_of_finite_pairs() {
    let device = Device::host();
    let of = |x: &[f32]| DeviceMem::from_slice(&device, x).unwrap();
    let (result, reference) = (of(&[f32::NAN, 1.0, 2.0, 4e-4, 5e-4, 0.0]), of(&[0.0, 1.0, 2.0, 4e-4, 5e-4, 0.0]));
    let options = Options::default().allow_mismatches(AllowedMismatches::new(0.0, 1).unwrap());
    let report = gpu_verify_with(&result, &reference, &Tolerance::new(0.0, 1e-3).unwrap(), &options).unwrap();
    assert_eq!((report.power.nonzero, report.power.zero_passes, report.verdict), (Some(4), Some(2), Verdict::Untrusted));
}

/// A dimension of one element may have any stride.
#[test]
fn the_opposite_order_of_any_strides() {
    let memory = DeviceMem::from_slice(&Device::host(), &[1.0f32, 2.0, 3.0]).unwrap();
    let odd = memory.as_tensor().view(Layout::strided(&[1, 3], &[isize::MIN, 1], 0).unwrap()).unwrap();
    let report = gpu_verify_with(&odd, &odd, &Tolerance::exact(), &Options::default().power(true)).unwrap();
    assert!(report.power.found.contains(&Mutation::Reversed), "{:?}", report.power);
}

/// Those of them that move elements.
fn displaced(mutations: &[Mutation]) -> Vec<Mutation> {
    use Mutation::{ColumnsShifted, Reversed, RowsShifted, Transposed};
    mutations.iter().copied().filter(|m| matches!(m, RowsShifted | ColumnsShifted | Transposed | Reversed)).collect()
}

#[test]
fn displacements_are_tried_where_the_shape_has_them() {
    use Mutation::{ColumnsShifted, Reversed, RowsShifted, Transposed};
    let on = Options::default().power(true);
    let rows: Vec<f32> = (0..64).map(|i| (i / 8) as f32 + 1.0).collect();
    for (data, shape, atol, found, missed, reason) in [
        (&ramp(64), &[8, 8][..], 0.0, &[RowsShifted, ColumnsShifted, Transposed, Reversed][..], &[][..], "all differ"),
        (&ramp(64), &[4, 16], 0.0, &[RowsShifted, ColumnsShifted, Reversed], &[], "not square"),
        (&ramp(64), &[64], 0.0, &[ColumnsShifted, Reversed], &[], "a vector has no rows"),
        (&ramp(64), &[64, 1], 0.0, &[RowsShifted, Reversed], &[], "one column"),
        (&ramp(1), &[1], 0.0, &[], &[], "one element"),
        (&rows, &[8, 8], 0.0, &[RowsShifted, Transposed, Reversed], &[], "the columns are alike: their shift changes nothing"),
        (&rows, &[8, 8], 1.0, &[Transposed, Reversed], &[RowsShifted], "neighbouring rows are within the tolerance"),
        (&vec![1.0; 64], &[8, 8], 0.0, &[], &[], "a constant: nothing changes it"),
    ] {
        let (power, _) = power(data, shape, [0.0, atol], &on);
        assert_eq!((displaced(&power.found), displaced(&power.missed)), (found.to_vec(), missed.to_vec()), "{reason}");
    }
    assert!(displaced(&power(&ramp(64), &[8, 8], [0.0, 0.0], &Options::default()).0.found).is_empty(), "only when asked for");
}

/// What differs behind the sample only is found all the same.
/// A mistake that leaves the reference as it is cannot be found by these data, and the report says so.
#[test]
fn displacements_that_change_nothing_are_listed() {
    let symmetric: Vec<f32> = (0..16).map(|i| 1.0 + (i / 4 * (i % 4)) as f32).collect();
    let equal_rows: Vec<f32> = (0..16).map(|i| 1.0 + (i % 4) as f32).collect();
    let everywhere = [Mutation::RowsShifted, Mutation::ColumnsShifted, Mutation::Transposed, Mutation::Reversed];
    for (reference, unchanged) in [
        (&[0.5; 16][..], &everywhere[..]),
        (&symmetric, &[Mutation::Transposed]),
        (&equal_rows, &[Mutation::RowsShifted]),
        (&ramp(16), &[]),
    ] {
        let options = Options::default().power(true);
        let device = Device::host();
        let r = DeviceMem::from_slice(&device, reference).unwrap();
        let view = r.tensor(&[4, 4]).unwrap();
        let report = gpu_verify_with(&view, &view, &Tolerance::new(1e-3, 0.0).unwrap(), &options).unwrap();
        assert_eq!(report.power.unchanged, unchanged);
        assert_eq!(displaced(&report.power.found).len(), everywhere.len() - unchanged.len());
        let line = report.to_string().contains("these data cannot show, since the reference stays the same: ");
        assert_eq!(line, !unchanged.is_empty(), "{report}");
    }
}

#[test]
fn a_sample_that_shows_nothing_is_not_the_last_word() {
    // Larger than the tolerances: zeros pass nowhere.
    let mut data = vec![2.0f32; SAMPLE + 4096];
    data[SAMPLE + 2000] = 3.0;
    for (shape, mutation, passing) in [
        (&[SAMPLE + 4096][..], Mutation::ColumnsShifted, Mutation::Reversed),
        (&[SAMPLE / 4096 + 1, 4096], Mutation::RowsShifted, Mutation::RowsShifted),
    ] {
        let on = Options::counts().power(true);
        assert!(power(&data, shape, [0.0, 0.5], &on).0.found.contains(&mutation), "{mutation}");
        // One is enough, and costs a whole comparison: the first whose part differs.
        assert_eq!(displaced(&power(&data, shape, [0.0, 1.5], &on).0.missed), [passing]);
    }
    // By metrics: a part fails for the whole, or the whole is read.
    let mut data: Vec<f32> = (0..SAMPLE + 4096).map(|i| 1.0 + (i % 5) as f32).collect();
    data[SAMPLE + 2000] = 1000.0;
    for (absolute, found, missed, reason) in [
        (3.0, &[Mutation::ColumnsShifted, Mutation::Reversed][..], &[][..], "neighbours differ by 4"),
        (5.0, &[Mutation::ColumnsShifted, Mutation::Reversed], &[], "one behind the part by 999"),
        (999.5, &[], &[Mutation::ColumnsShifted], "nothing by more; one is enough"),
    ] {
        let on = Options::default().power(true).thresholds(Thresholds { absolute, ..Thresholds::OFF }, Judge::Thresholds);
        let power = power(&data, &[data.len()], [0.0, 0.0], &on).0;
        assert_eq!((displaced(&power.found), displaced(&power.missed)), (found.to_vec(), missed.to_vec()), "{reason}");
    }
}

/// What [`Level::Counts`] does not count is counted where it was asked whether a pass is to be trusted; where it is not, the report says so.
#[test]
fn strictness_counts_where_zeros_pass() {
    let device = Device::host();
    let mut numbers = vec![1e-9f32; 100];
    numbers[0] = 1.0;
    let mut halves = vec![F16::ZERO; 100];
    halves[0] = F16::from_f32(1.0);
    let (result, reference) = (DeviceMem::from_slice(&device, &halves).unwrap(), DeviceMem::from_slice(&device, &numbers).unwrap());
    let tolerance = Tolerance::rounding(DType::F16, DType::F32, 1);
    let untold = |report: &Report| report.to_string().lines().any(|line| line.starts_with("  zeros "));
    for (options, verdict, reason) in [
        (Options::default(), Verdict::Untrusted, "counted"),
        (Options::counts(), Verdict::Pass, "not counted"),
        (Options::counts().strict(Strict::Never), Verdict::Pass, "not counted, and nobody wants to know"),
        (Options::counts().strict(Strict::Always), Verdict::Untrusted, "strict"),
        (Options::counts().power(true), Verdict::Untrusted, "asked for"),
    ] {
        let report = gpu_verify_with(&result, &reference, &tolerance, &options).unwrap();
        let counted = verdict == Verdict::Untrusted;
        assert_eq!((report.verdict, report.counts_zeros(), untold(&report)), (verdict, counted, !counted), "{reason}: {report}");
        assert_eq!(report.into_result().is_err(), counted, "{reason}");
    }
    let mean = numbers.iter().sum::<f32>() / 100.0;
    for (options, verdict) in [(Options::counts(), Verdict::Pass), (Options::counts().strict(Strict::Always), Verdict::Untrusted)] {
        let mut plan = VerifyPlan::new(&device, &options).unwrap();
        plan.reserve(DType::F16, DType::F32, 100).unwrap();
        let pending = plan.enqueue(&Stream::new(&device).unwrap(), &result, &reference, &tolerance.at(mean.into())).unwrap();
        assert_eq!(pending.wait().unwrap().verdict, verdict, "a plan, {:?}", options.strict);
    }
    // A failure needs no trust, and of some tolerances it is known that zeros pass at no element.
    for (rtol, atol, by_binade, known) in [
        (0.0, 0.0, false, true),
        (0.0, 0.0, true, true),
        (0.49, 0.0, false, true),
        (0.5, 0.0, false, false),
        (0.49, 0.0, true, false),
        (0.0, 1e-45, false, false),
    ] {
        let given = Tolerance::new(rtol, atol).unwrap();
        let given = if by_binade { given.by_binade() } else { given };
        let [right, wrong] = [&reference, &DeviceMem::from_slice(&device, &[2.0; 100]).unwrap()]
            .map(|result| gpu_verify_with(result, &reference, &given, &Options::counts()).unwrap());
        assert_eq!((right.verdict, right.counts_zeros(), untold(&right)), (Verdict::Pass, known, !known), "{rtol} {atol} {by_binade}");
        assert!(!wrong.passed() && !untold(&wrong), "{rtol} {atol} {by_binade}");
        let subnormal = DeviceMem::from_slice(&device, &[f32::from_bits(1), f32::from_bits(3), 1.0, f32::MAX]).unwrap();
        let all = gpu_verify(&subnormal, &subnormal, &given).unwrap();
        assert!(!known || all.power.zero_passes == Some(0), "{rtol} {atol} {by_binade}");
    }
}

#[test]
fn a_pass_that_could_not_have_been_a_failure_is_untrusted() {
    let outlier: Vec<f32> = ramp(64).into_iter().chain([60000.0]).collect();
    let relu: Vec<f32> = ramp(90).iter().map(|x| x.max(0.0)).collect();
    let even: Vec<f32> = (0..64).map(|i| 1.0 + (i % 7) as f32 / 4096.0).collect();
    for (data, tolerance, on, verdict, reason) in [
        (&ramp(64), [1e-3, 1e-3], false, Verdict::Pass, "an ordinary tolerance"),
        (&ramp(64), [1.0, 0.0], false, Verdict::Untrusted, "zeros pass everywhere"),
        (&ramp(64), [0.0, 0.5], false, Verdict::Untrusted, "zeros pass at half of the elements"),
        (&ramp(64), [0.0, 0.49], false, Verdict::Pass, "at fewer"),
        (&outlier, [1e-3, 60.0], false, Verdict::Untrusted, "one outlier made the tolerance"),
        (&relu, [0.0, 0.0], false, Verdict::Pass, "zeros of the reference are right to be zero"),
        (&vec![0.0; 9], [0.0, 0.0], false, Verdict::Untrusted, "a reference of zeros"),
        (&even, [1e-2, 0.0], false, Verdict::Pass, "nothing follows from the values"),
        (&even, [1e-2, 0.0], true, Verdict::Untrusted, "the order of the elements does not matter"),
        (&vec![1.0; 64], [1e-2, 0.0], true, Verdict::Pass, "a constant has no order"),
    ] {
        for level in [Level::All, Level::Counts] {
            let options = Options::default().level(level).power(on);
            let found = power(data, &[data.len()], tolerance, &options).1;
            // Counts alone show what holds for all elements.
            let half = reason.contains("half") || reason.contains("outlier");
            let expected = if level == Level::Counts && half { Verdict::Pass } else { verdict };
            assert_eq!(found, expected, "{level:?}: {reason}");
        }
    }
}

/// What is decided by elements that nobody has counted, by sums that overflow, by f32's rounding.
#[test]
fn what_a_rule_allows_is_not_more_than_it_would() {
    let device = Device::host();
    let by_binade = Tolerance::new(0.3, 0.0).unwrap().by_binade();
    let one = Options::default().allow_mismatches(AllowedMismatches::new(0.0, 1).unwrap());
    let r = DeviceMem::from_slice(&device, &[1.0f64, 0.95, 0.95, 0.95, 0.95, 0.95, 0.95, 0.95]).unwrap();
    let power = gpu_verify_with(&r, &r, &by_binade, &one).unwrap().power;
    assert!(!power.missed.contains(&Mutation::Scaled(0.72)), "seven elements of the lower binade fail, of which one may: {power:?}");

    let thresholds = Options::default().thresholds(Thresholds::new(1.0, 1.0, 1.0).unwrap(), Judge::Thresholds);
    let zeros = DeviceMem::from_slice(&device, &[0.0f64; 4]).unwrap();
    let power = gpu_verify_with(&zeros, &zeros, &Tolerance::exact(), &thresholds).unwrap().power;
    assert_eq!(power.smallest_error, Some(f64::INFINITY), "zeros are never off");

    let tenth = Options::default().thresholds(Thresholds::new(f64::INFINITY, f64::INFINITY, 0.1).unwrap(), Judge::Thresholds);
    let r = DeviceMem::from_slice(&device, &[F16::from_f64(1060.0 / 1024.0)]).unwrap();
    let power = gpu_verify_with(&r, &r, &Tolerance::exact(), &tenth.power(true)).unwrap().power;
    assert_eq!(power.smallest_ulps, Some(106), "106 / 1060 is more than 0.1 in f32");
}
