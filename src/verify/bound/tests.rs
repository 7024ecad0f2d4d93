use super::{BINS, Bound, Confidence, Sum, TILE, Unit, gpu_verify_bound, host, rule, some_mismatches};
use crate::device::{Device, DeviceMem, Layout, TensorRef};
use crate::dtype::{DType, F8E4M3, F16, Overflow, Rounding};
use crate::verify::Verdict;

const U: f64 = 1.0 / 16777216.0;

fn near(found: f64, expected: f64, what: &str) {
    assert!((found / expected - 1.0).abs() < 1e-3, "{what}: {found:e}, expected {expected:e}");
}

#[test]
fn gamma_of_each_unit() {
    let gamma = |sum: Sum, confidence| sum.bound(confidence, 1000).gamma;
    for (unit, terms, expected, reason) in [
        (Unit::F32, 1000, 1000.0 * U, "a rounding a product"),
        (Unit::F64, 1000, 1000.0 * f64::EPSILON / 2.0, "the same in f64"),
        (Unit::exact(4), 1000, 250.0 * U, "one rounding for four products"),
        (Unit::exact(4), 1001, 251.0 * U, "a last group that is not full"),
        (Unit::tree(4), 1000, 252.0 * U, "two more for the last group's tree"),
        (Unit::tree(2), 1000, 501.0 * U, "one more"),
        (
            Unit::fused(8, 32),
            1024,
            128.0 * U + 8.0 * U + 128.0 * 1.5 * 2f64.powi(-31),
            "eight truncated products, once; 31 and 32 bits a step",
        ),
        (Unit::fused(16, 52), 1024, 64.0 * U + 16.0 * U + 64.0 * 2f64.powi(-31), "nearly nothing lost by alignment"),
    ] {
        near(gamma(Sum::new(unit, terms), Confidence::WorstCase), expected, reason);
    }
    let sum = Sum::new(Unit::F32, 1000);
    for (sum, expected, reason) in [
        (Sum { parts: 4, ..sum }, 259.0 * U, "256 products a part, four tiles of 64; three additions"),
        (Sum { parts: 600, ..sum }, 663.0 * U, "no part is shorter than a tile"),
        (Sum { parts: 30, terms: 60, ..sum }, 89.0 * U, "all products in one part"),
        (Sum { after: 3, ..sum }, 1003.0 * U, "alpha, beta C and its addition"),
        (
            Sum { parts: 2, parts_roundoff: 2f64.powi(-11), ..sum },
            513.0 * U + 2.0 * 2f64.powi(-11) / (1.0 - 2f64.powi(-10)),
            "two parts stored in f16",
        ),
        (Sum { inputs: [2f64.powi(-8); 2], ..sum }, 2f64.powi(-7) + 2f64.powi(-16) + 1000.0 * U * 1.0078, "both operands rounded to bf16"),
    ] {
        assert!((gamma(sum, Confidence::WorstCase) / expected - 1.0).abs() < 1e-3, "{reason}");
    }
    // Two parts, of which each may be off by half the least number of f16 when it is stored; the errors of the sums are among what is rounded there.
    let stored = Sum { parts: 2, parts_roundoff: 2f64.powi(-11), parts_underflow: 2f64.powi(-25), ..sum }.bound(Confidence::WorstCase, 1);
    near(stored.floor, 2f64.powi(-24), "parts in f16");
    assert!(stored.floor > 2f64.powi(-24), "and what is lost before");
    assert_eq!(gamma(Sum::new(Unit { roundoff: 2f64.powi(-8), ..Unit::F32 }, 256), Confidence::WorstCase), f64::INFINITY, "n u = 1");
}

#[test]
fn the_probable_bound_grows_with_the_root() {
    let at = |terms, confidence| Sum::new(Unit::F32, terms).bound(confidence, 1 << 20).gamma;
    let probable = Confidence::default();
    assert_eq!(at(16, probable), at(16, Confidence::WorstCase), "a short sum: the worst case is the smaller one");
    // λ = sqrt(2 ln(2 · 2^20 / 1e-6)).
    near(at(1 << 14, probable), 128.0 * U * (2.0 * (2f64.powi(21) * 1e6).ln()).sqrt(), "λ √n u");
    assert!(at(1 << 14, Confidence::new(0.999).unwrap()) < at(1 << 14, probable), "less certain, so smaller");
    for wrong in [0.0, 1.0, -1.0, f64::NAN, 2.0] {
        assert!(Confidence::new(wrong).is_err(), "{wrong}");
        assert_eq!(at(1 << 14, Confidence::Exceeded(wrong)), at(1 << 14, Confidence::WorstCase), "{wrong} is no probability");
    }
    let drift = Sum::new(Unit::fused(8, 32), 1 << 20).bound(probable, 1).gamma
        - Sum::new(Unit { drift: 0.0, ..Unit::fused(8, 32) }, 1 << 20).bound(probable, 1).gamma;
    near(drift, 131_072.0 * 1.5 * 2f64.powi(-31) * (1.0 + 131_072.0 * U), "truncation counts in full");
}

#[test]
fn stages_join() {
    let rounded = Bound { gamma: 0.5, floor: 0.25, ..Bound::EXACT }.rounded_to(DType::F16).unwrap();
    let u = 2f64.powi(-11);
    assert_eq!(rounded, Bound { gamma: 0.5, floor: 0.25, rounding: Some(DType::F16), ..Bound::EXACT });
    let bound = rounded.by_coefficients();
    assert_eq!(bound, Bound { gamma: 0.5 + 0.5 * u, relative: u, floor: 0.25 + 0.25 * u + 2f64.powi(-25), rounding: None });
    let again = Bound { rounding: Some(DType::Bf16), ..bound };
    assert_eq!(rounded.rounded_to(DType::Bf16).unwrap(), again, "the first of two roundings counts by coefficients");
    let exact = bound.against(DType::F64, 0).unwrap();
    assert!(
        exact.gamma > bound.gamma && exact.gamma < bound.gamma * 1.001 && exact.relative > bound.relative && exact.floor >= bound.floor
    );
    let rounded = bound.against(DType::F32, 0).unwrap();
    near(rounded.relative - u, U * (1.0 + u), "the reference's own rounding");
    near(rounded.gamma, bound.gamma, "which S does not enter");
    assert!(bound.rounded_to(DType::I8).is_err() && bound.against(DType::I32, 1).is_err());
    assert_eq!(Bound { gamma: 2.0, relative: 0.5, floor: 0.25, rounding: None }.of(3.0, -4.0), 8.25);
}

/// Half of the spacing at |r| + E, whatever the binade, and of subnormal numbers.
#[test]
fn the_last_rounding_counts_by_binade() {
    let bound = |floor: f64| Bound { floor, ..Bound::EXACT }.rounded_to(DType::F8E4M3).unwrap();
    for (floor, r, expected, reason) in [
        (0.0, 1.0, 1.0 / 16.0, "1 to 2 has steps of 1/8"),
        (0.0, -1.99, 1.0 / 16.0, "up to its end"),
        (0.0, 2.0, 1.0 / 8.0, "2 to 4 has steps of 1/4"),
        (0.25, 1.75, 0.25 + 1.0 / 8.0, "the number that is rounded may be 2"),
        (0.25, 1.5, 0.25 + 1.0 / 16.0, "or 1.75 at most"),
        (0.0, 0.0, 2f64.powi(-10), "subnormal numbers are 2^-9 apart"),
        (0.0, 2f64.powi(-7), 2f64.powi(-10), "as are the first normal ones"),
        (0.0, 2f64.powi(-5), 2f64.powi(-9), "and the next twice as far"),
        (0.0, 448.0, 16.0, "256 to 448 has steps of 32"),
        (1e3, 1e6, 1016.0, "and what is rounded beyond has the step below the largest number"),
        (f64::INFINITY, 1.0, f64::INFINITY, "no bound"),
    ] {
        assert_eq!(bound(floor).of(0.0, r), expected, "{r} with {floor}: {reason}");
    }
    let scaled = Bound { gamma: f64::NAN, ..bound(0.0) };
    assert_eq!(scaled.of(1.0, 1.0), 0.0, "nothing but equality");
    assert_eq!(bound(0.0).to_string(), "0 S + 0 |r| + 0, and half a step of f8e4m3");
}

#[test]
fn one_element() {
    let bound = Bound { gamma: 0.5, relative: 0.25, floor: 0.125, rounding: None };
    const INF: f64 = f64::INFINITY;
    const NAN: f64 = f64::NAN;
    for (dtype, [a, r, s], expected, reason) in [
        (DType::F32, [1.0, 1.0, 0.0], 0.0, "equal"),
        // The bound is 0.5 · 2 + 0.25 · 4 + 0.125.
        (DType::F32, [4.0 + 2.125, 4.0, 2.0], 1.0, "at its bound"),
        (DType::F32, [-4.0 - 2.125, -4.0, 2.0], 1.0, "of either sign"),
        (DType::F32, [4.0 - 4.25, 4.0, 2.0], 2.0, "beyond"),
        (DType::F32, [NAN, 4.0, 2.0], INF, "NaN for a number"),
        (DType::F32, [4.0, NAN, NAN], INF, "a number for NaN"),
        (DType::F32, [NAN, NAN, NAN], 0.0, "both NaN"),
        (DType::F4E2M1, [0.0, NAN, NAN], 0.0, "a format without NaN"),
        (DType::F32, [INF, INF, INF], 0.0, "both infinite"),
        (DType::F32, [-INF, INF, INF], INF, "of the other sign"),
        (DType::F32, [1.0, INF, INF], INF, "a number for infinity"),
        (DType::F16, [INF, 4.0, 2.0], INF, "infinity for a number"),
        (DType::F16, [INF, 65520.0, 0.0], 0.0, "what rounds to infinity"),
        (DType::F16, [-INF, 65520.0, 0.0], INF, "not to the other one"),
        (DType::F16, [INF, 60000.0, 0.0], 0.0, "what may, within its bound of 15000"),
        (DType::F16, [INF, 40000.0, 0.0], INF, "what may not"),
        (DType::F16, [65504.0, 200_000.0, 0.0], (200_000.0 - 65504.0) / 50000.125, "f16 has infinity and must not saturate"),
        (DType::F8E4M3, [448.0, 2000.0, 0.0], 0.0, "e4m3 has none and may"),
        (DType::F8E4M3, [-448.0, 2000.0, 0.0], 2448.0 / 500.125, "at the number of the same sign"),
        (DType::F8E4M3, [NAN, 2000.0, 0.0], 0.0, "or give NaN"),
        (DType::F8E4M3, [NAN, 200.0, 0.0], INF, "where it overflows"),
        (DType::F8E4M3, [448.0, INF, INF], 0.0, "or where the reference does"),
        (DType::F32, [100.0, 1.0, -1000.0], INF, "a bound below 0 passes nothing"),
        (DType::F32, [100.0, 0.0, -0.25], INF, "nor one of 0"),
        (DType::F32, [1.0, 1.0, -1000.0], 0.0, "but what is equal"),
        (DType::F32, [1.0, 2.0, NAN], INF, "S is not a number"),
        (DType::I32, [2_147_483_647.0, 2_147_483_647.0, 0.0], 0.0, "the largest integer"),
        (DType::I8, [127.0, 2000.0, 0.0], 1873.0 / 500.125, "integers do not saturate"),
    ] {
        let found = rule::ratio(&rule::of(&bound, dtype, Overflow::Ieee).unwrap(), a, r, s);
        assert_eq!(found, expected, "{dtype} {a} {r} {s}: {reason}");
    }
    let none = Bound { gamma: -0.0, ..Bound::EXACT };
    let none = rule::of(&none, DType::F32, Overflow::Ieee).unwrap();
    let found = (rule::ratio(&none, 1.0, 0.0, 1.0), rule::limits(&none, 0.0, 1.0).after.is_sign_positive());
    assert_eq!(found, (INF, true), "by -0 errors would have the other sign");
    for bound in [Bound { gamma: INF, ..Bound::EXACT }, Bound { relative: INF, ..Bound::EXACT }] {
        for s in [0.0, 1.0, INF, NAN] {
            let rule = rule::of(&bound, DType::F32, Overflow::Ieee).unwrap();
            assert_eq!(
                (rule::ratio(&rule, 1.0, 0.0, s), rule::limits(&rule, 0.0, s).after),
                (0.0, INF),
                "no bound, also where the reference is 0 and S {s}"
            );
        }
    }
}

/// What a kernel that saturates gives beyond its format, and nothing else.
#[test]
fn one_element_that_saturates() {
    const INF: f64 = f64::INFINITY;
    const NAN: f64 = f64::NAN;
    let bound = Bound { floor: 100.0, ..Bound::EXACT };
    // Ratios with and without.
    for (dtype, [a, r], [saturating, otherwise], reason) in [
        (DType::F16, [65504.0, 1e6], [0.0, (1e6 - 65504.0) / 100.0], "the largest number"),
        (DType::F16, [-65504.0, -1e6], [0.0, (1e6 - 65504.0) / 100.0], "of the other sign"),
        (DType::F16, [-65504.0, 1e6], [(1e6 + 65504.0) / 100.0; 2], "of the wrong sign"),
        (DType::F16, [INF, 1e6], [INF, 0.0], "infinity"),
        (DType::F16, [NAN, 1e6], [INF, INF], "NaN"),
        (DType::F16, [65472.0, 1e6], [(1e6 - 65472.0) / 100.0; 2], "the number below it"),
        (DType::F16, [65504.0, 65400.0], [1.04, 1.04], "the largest number where the bound ends at 65500"),
        (DType::F16, [65504.0, 65450.0], [0.54, 0.54], "within its bound"),
        (DType::F16, [INF, 65450.0], [INF, 0.0], "what may overflow must not be infinite"),
        (DType::F16, [65504.0, INF], [0.0, INF], "of an infinity"),
        (DType::F16, [INF, INF], [0.0, 0.0], "which may stay one"),
        (DType::F16, [NAN, INF], [INF, INF], "NaN of an infinity"),
        (DType::F16, [NAN, NAN], [0.0, 0.0], "NaN of NaN"),
        (DType::F16, [65504.0, NAN], [INF, INF], "a number of NaN"),
        (DType::F8E5M2, [57344.0, 1e6], [0.0, (1e6 - 57344.0) / 100.0], "e5m2"),
        (DType::F8E4M3, [448.0, 1e6], [0.0, 0.0], "e4m3 has no infinity and may always"),
        (DType::F8E4M3, [NAN, 1e6], [INF, 0.0], "but must not give NaN"),
        (DType::F8E4M3, [NAN, INF], [0.0, 0.0], "save of an infinity"),
        (DType::F4E2M1, [6.0, 1e6], [0.0, 0.0], "a format that cannot do otherwise"),
    ] {
        let of = |overflow| rule::ratio(&rule::of(&bound, dtype, overflow).unwrap(), a, r, 0.0);
        assert_eq!([of(Overflow::Saturate), of(Overflow::Ieee)], [saturating, otherwise], "{dtype} {a} {r}: {reason}");
    }
    let e = rule::of(&bound, DType::I32, Overflow::Saturate).unwrap_err().to_string();
    assert!(e.contains("a result of i32 that saturates"), "{e}");
}

/// A number overflows before it is rounded: at half a step above the largest one, and no sooner.
#[test]
fn the_largest_number_is_right_up_to_where_rounding_overflows() {
    const INF: f64 = f64::INFINITY;
    const NAN: f64 = f64::NAN;
    for (dtype, r, [finite, infinite], reason) in [
        (DType::F16, 65504.0, [0.0, INF], "a number of the format"),
        (DType::F16, 65519.0, [15.0 / 16.25, INF], "rounds to the largest"),
        (DType::F16, 65519.75, [15.75 / 16.25, 0.0], "may be 65520"),
        (DType::F16, 65520.25, [1.0, 0.0], "or below"),
        (DType::F16, 65521.0, [17.0 / 16.25, 0.0], "is beyond"),
        (DType::F16, 65536.0, [32.0 / 16.25, 0.0], "though its own binade has larger steps"),
        (DType::F8E5M2, -57344.0, [0.0, INF], "negative"),
        (DType::F8E5M2, -65536.0, [8192.0 / 4096.25, 0.0], "beyond on that side"),
        (DType::F8E4M3, 448.0, [0.0, INF], "without infinity"),
        (DType::F8E4M3, 463.0, [15.0 / 16.25, INF], "rounds to the largest"),
        (DType::F8E4M3, 464.0, [16.0 / 16.25, 0.0], "may be NaN"),
        (DType::F8E4M3Fnuz, 240.0, [0.0, INF], "fnuz"),
        (DType::F8E5M2Fnuz, 57344.0, [0.0, INF], "fnuz"),
    ] {
        let rule = rule::of(&Bound { floor: 0.25, ..Bound::EXACT }.rounded_to(dtype).unwrap(), dtype, Overflow::Ieee).unwrap();
        let format = dtype.float_format().unwrap();
        let beyond = if format.has_infinity() { INF.copysign(r) } else { NAN };
        let found = [format.max_finite().copysign(r), beyond].map(|a| rule::ratio(&rule, a, r, 0.0));
        assert_eq!(found, [finite, infinite], "{dtype} {r}: {reason}");
    }
}

#[test]
fn bins_are_powers_of_two() {
    for (ratio, expected) in [
        (0.0, 0),
        (1e-300, 1),
        (0.5, 31),
        (0.500001, 32),
        (1.0, 32),
        (1.0000001, 33),
        (2.0, 33),
        (2000.0, BINS - 1),
        (f64::INFINITY, BINS - 1),
    ] {
        assert_eq!(host::bin(ratio), expected, "{ratio}");
    }
}

#[test]
fn a_report_names_the_worst_and_the_first() {
    let device = Device::host();
    let n = 3 * TILE + 17;
    let reference: Vec<f64> = (0..n).map(|i| 1.0 + (i % 7) as f64).collect();
    let mut result: Vec<F16> = reference.iter().map(|&r| F16::from_f64(r)).collect();
    // The largest ratio is in the last tile, an equal one follows; a smaller mismatch comes first.
    for (i, error) in [(5, 0.0625), (TILE + 1, 0.25), (3 * TILE + 3, 0.5), (3 * TILE + 10, 0.5)] {
        result[i] = F16::from_f64(reference[i] + error);
    }
    let [a, s] = [result, vec![F16::ONE; n]].map(|v| DeviceMem::from_slice(&device, &v).unwrap());
    let r = DeviceMem::from_slice(&device, &reference).unwrap();
    let bound = Bound { gamma: 0.125, ..Bound::EXACT };
    let report = gpu_verify_bound(&a, &r, &s, &bound).unwrap();
    let worst = report.worst.clone().unwrap();
    assert_eq!((report.verdict, report.mismatches, worst.index, worst.ratio, worst.bound), (Verdict::Fail, 3, 3 * TILE + 3, 4.0, 0.125));
    assert_eq!(report.first.iter().map(|e| e.index).collect::<Vec<_>>(), [TILE + 1, 3 * TILE + 3, 3 * TILE + 10]);
    assert_eq!((report.smallest_error, report.zero_passes, report.nonzero), (0.125 / 7.0, 0, n as u64));
    assert_eq!((report.histogram.iter().sum::<u64>(), report.histogram[31], report.histogram[34]), (n as u64, 1, 2));
    assert_eq!((report.quantile(0.5), report.quantile(1.0)), (0.0, 4.0));
    let text = report.to_string();
    assert!(text.starts_with("FAIL  3 of 12,305 elements beyond their bounds   f16[12305]\n"), "{text}");
    assert!(text.contains(&format!("worst      [{}]   result 7.5   reference 7   bound 0.125   4 x bound", 3 * TILE + 3)), "{text}");
}

#[test]
fn a_pass_that_zeros_would_share_is_untrusted() {
    let device = Device::host();
    let with = |reference: &[f64], gamma: f64| {
        let r = DeviceMem::from_slice(&device, reference).unwrap();
        let s = DeviceMem::from_slice(&device, &vec![1.0; reference.len()]).unwrap();
        gpu_verify_bound(&r, &r, &s, &Bound { gamma, ..Bound::EXACT }).unwrap().verdict
    };
    for (reference, gamma, verdict, reason) in [
        (&[1.0, -2.0, 4.0, 8.0][..], 0.5, Verdict::Pass, "zeros fail"),
        (&[1.0, -2.0, 4.0, 8.0], 1.0, Verdict::Pass, "zeros pass at one of four"),
        (&[1.0, -2.0, 4.0, 8.0], 2.0, Verdict::Untrusted, "at half of them"),
        (&[0.0, 0.0, 4.0], 1.0, Verdict::Pass, "zeros of the reference do not count"),
        (&[0.0], 1.0, Verdict::Untrusted, "nothing but zeros"),
        (&[f64::NAN], 1.0, Verdict::Untrusted, "nothing finite"),
        (&[8.0, f64::NAN], 0.5, Verdict::Untrusted, "no number at half of them"),
        (&[8.0, 0.0, f64::NEG_INFINITY], 0.5, Verdict::Untrusted, "no size at half of those that are not zero"),
        (&[8.0, 4.0, f64::NAN], 0.5, Verdict::Pass, "no number at one of three"),
        (&[8.0, 4.0, 0.5, f64::NAN], 0.5, Verdict::Untrusted, "no number at one of four, and zero passes at another"),
        (&[1.0], f64::INFINITY, Verdict::Untrusted, "no bound"),
        (&[0.0, 1.0], f64::INFINITY, Verdict::Untrusted, "no bound, at a zero either"),
    ] {
        assert_eq!(with(reference, gamma), verdict, "{reason}");
    }
}

/// Where |r| and its bound reach what rounds beyond the largest number, an infinite or saturated result passes whatever its size: at half of the elements a pass says nothing.
#[test]
fn a_pass_that_overflow_hides_is_untrusted() {
    let device = Device::host();
    // The bound is 2; f16 rounds to infinity from 65520 on, e4m3 beyond 448 from 464 on.
    let bound = Bound { gamma: 2.0, ..Bound::EXACT };
    let on = |dtype: DType, reference: &[f64], result: &[f64]| {
        let narrow: Vec<u8> = result
            .iter()
            .flat_map(|&x| {
                let bits = dtype.encode(x, Rounding::NearestEven, Overflow::Ieee);
                bits.to_le_bytes()[..dtype.unit_bytes()].to_vec()
            })
            .collect();
        let a = TensorRef::from_host_bytes(&narrow, dtype, Layout::contiguous(&[result.len()]).unwrap()).unwrap();
        let r = DeviceMem::from_slice(&device, reference).unwrap();
        let s = DeviceMem::from_slice(&device, &vec![1.0; reference.len()]).unwrap();
        gpu_verify_bound(&a, &r, &s, &bound).unwrap()
    };
    const INF: f64 = f64::INFINITY;
    const NAN: f64 = f64::NAN;
    for (dtype, reference, result, verdict, overflows, smallest, reason) in [
        (DType::F16, [3e5, 3e5], [INF, INF], Verdict::Untrusted, 2, INF, "all overflow"),
        (DType::F16, [3e5, -100.0], [INF, -100.0], Verdict::Untrusted, 1, 0.02, "half of them"),
        (DType::F16, [65518.0, 100.0], [65504.0 + 14.0, 100.0], Verdict::Fail, 1, 0.02, "the nearest number is too far away"),
        (DType::F16, [65517.9, 100.0], [65504.0, 100.0], Verdict::Fail, 0, 2.0 / 65517.9, "the bound ends below 65520"),
        (DType::F8E4M3, [1000.0, 1e6], [NAN, NAN], Verdict::Untrusted, 2, INF, "NaN for infinity"),
        (DType::F8E4M3, [1000.0, -1e6], [448.0, -448.0], Verdict::Untrusted, 2, INF, "saturated"),
        (DType::F8E4M3, [1.0, -1e6], [1.0, -448.0], Verdict::Untrusted, 1, 2.0, "one overflows, and zero passes at the other"),
        (DType::F8E5M2, [57344.0, 4.0], [57344.0, 4.0], Verdict::Pass, 0, 2.0 / 57344.0, "the largest number itself"),
    ] {
        let report = on(dtype, &reference, &result);
        assert_eq!(
            (report.verdict, report.overflows, report.smallest_error),
            (verdict, overflows, smallest),
            "{dtype}, {reason}\n{report}"
        );
        let text = report.to_string();
        assert_eq!(text.contains("largest number of"), overflows > 0, "{reason}\n{text}");
        assert!(overflows == 0 || !text.contains(" exact"), "{reason}\n{text}");
    }
    // One of three: trusted, and said.
    let report = on(DType::F16, &[3e5, 100.0, 200.0], &[INF, 100.0, 200.0]);
    assert_eq!((report.verdict, report.overflows, report.smallest_error), (Verdict::Pass, 1, 0.01), "{report}");
    assert!(
        report.to_string().contains("\n  overflow   1 of 3 elements that are not zero reach beyond the largest number of f16"),
        "{report}"
    );
}

/// A pass that says nothing names why.
#[test]
fn untrusted_passes_say_why() {
    let device = Device::host();
    for (reference, words) in [
        (&[0.0, 0.0][..], "warning    the exact result is zero everywhere: the check says nothing"),
        (&[0.0, f64::INFINITY], "warning    no element of the exact result is finite and not zero: the check says nothing"),
        (&[1.0, 4.0], "warning    a result of zeros would have passed at 1 of 2 elements that are not zero"),
        (
            &[4.0, f64::NAN],
            "warning    the exact result is NaN or infinite at 1 of 2 elements that are not zero: there is no size to check there",
        ),
    ] {
        let r = DeviceMem::from_slice(&device, reference).unwrap();
        let s = DeviceMem::from_slice(&device, &vec![1.0; reference.len()]).unwrap();
        let report = gpu_verify_bound(&r, &r, &s, &Bound { gamma: 1.0, ..Bound::EXACT }).unwrap();
        let text = report.to_string();
        assert!(report.verdict == Verdict::Untrusted && text.contains(words) && !text.contains("of 0 elements"), "{text}");
    }
}

#[test]
fn what_does_not_fit_is_an_error() {
    let device = Device::host();
    let one = DeviceMem::from_slice(&device, &[1.0f64]).unwrap();
    for wrong in [-1e-300, f64::NEG_INFINITY, f64::NAN] {
        for (what, bound) in [
            ("gamma", Bound { gamma: wrong, ..Bound::EXACT }),
            ("relative", Bound { relative: wrong, ..Bound::EXACT }),
            ("floor", Bound { floor: wrong, ..Bound::EXACT }),
        ] {
            let error = gpu_verify_bound(&one, &one, &one, &bound).unwrap_err().to_string();
            assert!(error.starts_with(what) && error.contains("at least 0"), "{error}");
        }
    }
    let three = DeviceMem::from_slice(&device, &[1.0f32; 3]).unwrap();
    let two = DeviceMem::from_slice(&device, &[1.0f32; 2]).unwrap();
    let none = DeviceMem::<f32>::new(&device, 0).unwrap();
    let integers = DeviceMem::from_slice(&device, &[1i64; 3]).unwrap();
    let eights = DeviceMem::from_slice(&device, &[F8E4M3(0x38); 3]).unwrap();
    let text = |r: crate::Result<super::BoundReport>| r.unwrap_err().to_string();
    assert!(text(gpu_verify_bound(&three, &two, &three, &Bound::EXACT)).starts_with("the reference: shape [2]"));
    assert!(text(gpu_verify_bound(&three, &three, &two, &Bound::EXACT)).starts_with("the magnitudes: shape [2]"));
    assert!(text(gpu_verify_bound(&none, &none, &none, &Bound::EXACT)).contains("elements cannot be 0"));
    assert!(text(gpu_verify_bound(&integers, &three, &three, &Bound::EXACT)).contains("found i64"));
    assert!(gpu_verify_bound(&eights, &three, &three, &Bound::EXACT).is_ok());
}

#[test]
fn softmax_is_within_its_bound() {
    let device = Device::host();
    let n = 128;
    // Numbers in [-40, 0], of which f32 keeps all bits: the largest is 0.
    let x: Vec<f32> = (0..64 * n)
        .map(|i: usize| -40.0 * (i.wrapping_mul(2_654_435_761) % 65536 * usize::from(!i.is_multiple_of(n))) as f32 / 65536.0)
        .collect();
    let exact: Vec<f64> = x
        .chunks(n)
        .flat_map(|x| {
            let sum: f64 = x.iter().map(|&x| f64::from(x).exp()).sum();
            x.iter().map(move |&x| f64::from(x).exp() / sum)
        })
        .collect();
    let magnitudes: Vec<f64> = x.iter().zip(&exact).map(|(&x, p)| f64::from(x).abs() * p).collect();
    let rounded = |through: fn(f32) -> f32| -> Vec<f32> {
        x.chunks(n)
            .flat_map(|x| {
                let e: Vec<f32> = x.iter().map(|&x| through(f64::from(x).exp() as f32)).collect();
                let sum: f32 = e.iter().sum();
                e.into_iter().map(move |e| e / sum).collect::<Vec<_>>()
            })
            .collect()
    };
    let [r, s] = [&exact, &magnitudes].map(|v| DeviceMem::from_slice(&device, v).unwrap());
    let bound = Bound::softmax(Unit::F32, n, U);
    let check = |result: Vec<f32>| gpu_verify_bound(&DeviceMem::from_slice(&device, &result).unwrap(), &r, &s, &bound).unwrap();
    let right = check(rounded(|e| e));
    assert!(right.verdict == Verdict::Pass && right.worst.as_ref().unwrap().ratio > 0.01, "{right}");
    let broken = check(rounded(|e| f32::from_bits(e.to_bits() & 0xffff_0000)));
    assert!(broken.mismatches > 1000, "exponentials in bf16\n{broken}");
    assert_eq!(Bound::softmax(Unit::F32, 1 << 24, U).relative, f64::INFINITY, "too long a sum for f32");
}

/// Uniform numbers in [low, high), of f32.
fn uniform(n: usize, [low, high]: [f64; 2], seed: u64) -> Vec<f64> {
    let next = |state: &mut u64, _| {
        *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        Some(f64::from((low + (high - low) * (*state >> 11) as f64 / (1u64 << 53) as f64) as f32))
    };
    (0..n).scan(seed, next).collect()
}

fn compared(result: &[f64], reference: &[f64], magnitudes: &[f64], bound: &Bound) -> (u64, f64) {
    let [a, r, s] = [result, reference, magnitudes].map(|values| DeviceMem::from_slice(&Device::host(), values).unwrap());
    let report = gpu_verify_bound(&a, &r, &s, bound).unwrap();
    (report.mismatches, report.worst.map_or(0.0, |worst| worst.ratio))
}

/// A norm of a row in f32, and exactly with its S: the mean is subtracted or not.
fn norm(x: &[f64], centred: bool) -> (Vec<f64>, Vec<f64>, f64) {
    let n = x.len();
    let x32: Vec<f32> = x.iter().map(|&x| x as f32).collect();
    let mean = if centred { x32.iter().fold(0.0f32, |s, x| s + x) / n as f32 } else { 0.0 };
    let differences: Vec<f32> = x32.iter().map(|x| x - mean).collect();
    let root = 1.0 / (differences.iter().fold(0.0f32, |s, d| d.mul_add(*d, s)) / n as f32 + 1e-5).sqrt();
    let result = differences.iter().map(|d| f64::from(d * root)).collect();
    let mean = if centred { x.iter().sum::<f64>() / n as f64 } else { 0.0 };
    let deviation = (x.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n as f64 + 1e-5).sqrt();
    let cancellation = if centred { x.iter().map(|x| x.abs()).sum::<f64>() / n as f64 / deviation } else { 0.0 };
    (result, x.iter().map(|x| (x - mean) / deviation).collect(), cancellation)
}

#[test]
fn norms_are_within_their_bounds() {
    for (range, centred, reason) in [
        ([-1.0, 1.0], true, "around 0"),
        ([9.0, 10.0], true, "a mean far above the deviation"),
        ([0.5, 0.5], true, "constant rows: epsilon decides"),
        ([-1e-4, 1e-4], true, "a variance far below epsilon"),
        ([-3.0, 5.0], false, "without a mean"),
    ] {
        for n in [8, 300, 4096] {
            let (result, reference, s) = norm(&uniform(n, range, n as u64), centred);
            // A root and a quotient, each rounded.
            let bound = Bound::norm(Unit::F32, n, 2.0 * U + U * U, s);
            let (beyond, ratio) = compared(&result, &reference, &vec![s; n], &bound);
            assert!(
                beyond == 0 && (n == 8 || !centred || range == [0.5, 0.5] || ratio > 1e-4),
                "{reason}, n = {n}: {beyond} beyond, {ratio}"
            );
            let scaled: Vec<f64> = reference.iter().map(|y| y * 1.05).collect();
            assert_eq!(compared(&scaled, &reference, &vec![s; n], &bound).0 > 0, range != [0.5, 0.5], "{reason}, n = {n}: 5 % too large");
        }
    }
    assert_eq!(Bound::norm(Unit::F32, 1 << 24, U, 1.0).gamma, f64::INFINITY, "too long for f32");
    assert_eq!(Bound::norm(Unit::F32, 1 << 10, U, 1e9).gamma, f64::INFINITY, "a mean that f32 does not see");
}

/// Probabilities of one row, rounded to a format, times values, in f32; and exactly, with S.
#[test]
fn attention_is_within_its_bound() {
    let (keys, width) = (192, 64);
    // Most probabilities of 192 keys are subnormal in fp8: values of both signs, which cancel, would show nothing.
    for (format, range) in [(DType::F8E4M3, [0.25, 1.0]), (DType::Bf16, [-1.0, 1.0]), (DType::F16, [-1.0, 1.0]), (DType::F32, [-1.0, 1.0])]
    {
        let round = |x: f64| format.rounded(x);
        let scores = uniform(keys, [-3.0, 3.0], 5);
        let values = uniform(keys * width, range, 6);
        let exponentials = |slip: f64| scores.iter().map(|s| (s + slip * s.signum()).exp()).collect::<Vec<f64>>();
        let exact = |exponentials: &[f64], j: usize, of: fn(f64) -> f64| {
            let sum: f64 = exponentials.iter().sum();
            (0..keys).map(|k| exponentials[k] / sum * of(values[k * width + j])).sum::<f64>()
        };
        let [reference, s] = [|v| v, f64::abs].map(|of| (0..width).map(|j| exact(&exponentials(0.0), j, of)).collect::<Vec<f64>>());
        // Exponents that are off by as much as the bound is told.
        let slip = 1e-4;
        let off: Vec<f32> = exponentials(slip).into_iter().map(|e| e as f32).collect();
        let sum = off.iter().fold(0.0f32, |s, e| s + e);
        let column =
            |j: usize| (0..keys).fold(0.0f32, |s, k| (round(f64::from(off[k] / sum)) as f32).mul_add(values[k * width + j] as f32, s));
        let result: Vec<f64> = (0..width).map(|j| f64::from(column(j))).collect();
        let product = Sum::new(Unit::F32, keys);
        let bound = Bound::attention(&product, [slip, U, 1.0], format, Confidence::default(), width).unwrap();
        let (beyond, ratio) = compared(&result, &reference, &s, &bound);
        assert!(beyond == 0 && ratio > 0.01, "{format}: {beyond} beyond, {ratio}");
        for (factor, reason) in [(0.0, "zeros"), (-1.0, "negated"), (0.72, "x 0.72")] {
            let broken: Vec<f64> = reference.iter().map(|r| r * factor).collect();
            // Half a least number of fp8 for each key is a third of this result.
            let seen = compared(&broken, &reference, &s, &bound).0 > 0;
            assert!(seen || format == DType::F8E4M3 && factor == 0.72, "{format}: {reason}");
        }
    }
    let product = Sum::new(Unit::F32, keys);
    assert!(Bound::attention(&product, [0.0, U, 1.0], DType::I8, Confidence::default(), 1).is_err(), "integers");
}

#[test]
fn some_mismatches_are_as_many_as_were_asked_for() {
    let device = Device::host();
    let memory = |x: f64| DeviceMem::from_slice(&device, &vec![x; 3 * TILE]).unwrap();
    let (result, reference) = (memory(2.0), memory(1.0));
    let shape = [3 * TILE];
    let (result, reference) = (result.tensor(&shape).unwrap(), reference.tensor(&shape).unwrap());
    let found = |most| some_mismatches([&result, &reference, &reference], (&Bound::EXACT, Overflow::Ieee), most).unwrap();
    assert_eq!(found(0), []);
    assert_eq!(found(1).iter().map(|(_, x)| *x).collect::<Vec<_>>(), [2.0; 3], "one a tile");
    let six = found(6);
    assert_eq!(six.len(), 6);
    assert!(six.windows(2).all(|pair| pair[0].0 < pair[1].0));
}

/// As `Report::into_result`: an error that prints the report, of passes that mean nothing as well.
#[test]
fn reports_are_results() {
    let host = Device::host();
    let memory = |values: &[f64]| DeviceMem::from_slice(&host, values).unwrap();
    let bound = Bound { gamma: 0.1, ..Bound::EXACT };
    let of =
        |result: f64, reference: f64| gpu_verify_bound(&memory(&[result]), &memory(&[reference]), &memory(&[reference]), &bound).unwrap();
    assert_eq!(of(1.0, 1.0).into_result().unwrap().verdict.to_string(), "PASS");
    for (report, verdict) in [(of(2.0, 1.0), "FAIL"), (of(0.0, 0.0), "UNTRUSTED")] {
        let error = report.clone().into_result().unwrap_err();
        assert_eq!((error.report(), format!("{error:?}")), (&report, report.to_string()));
        assert!(report.to_string().starts_with(verdict), "{report}");
        assert_eq!(error.into_report(), report);
    }
}
