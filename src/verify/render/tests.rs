//! Screens, and numbers as text.

use super::*;
use crate::verify::{Explain, NonFinite, Options, Thresholds, Tolerance, gpu_verify_with};
use crate::{Device, DeviceMem};

#[test]
fn numbers_are_as_short_as_they_can_be() {
    for (n, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (12_345, "12,345"), (123_456, "123,456"), (1_234_567, "1,234,567")] {
        assert_eq!(grouped(n), text);
    }
    assert_eq!(grouped(u64::MAX), "18,446,744,073,709,551,615");
    for (x, digits, text) in [
        (0.0, 3, "0"),
        (f64::INFINITY, 3, "inf"),
        (f64::NAN, 3, "NaN"),
        (1.0, 3, "1"),
        (-2.5, 3, "-2.5"),
        (1.2345, 3, "1.23"),
        (12.345, 3, "12.3"),
        (9.9999, 3, "10"),
        (100.0, 3, "100"),
        (1234.5, 2, "1234"),
        (9_999_999.0, 4, "9999999"),
        (10_000_000.0, 4, "1e7"),
        (12_345_678.0, 4, "1.235e7"),
        (1e-4, 3, "0.0001"),
        (1.2345e-4, 3, "0.000123"),
        (9.9e-5, 3, "9.9e-5"),
        (-1e-9, 3, "-1e-9"),
        (3.7, 1, "4"),
        (3.7e-9, 1, "4e-9"),
    ] {
        assert_eq!(short(x, digits), text, "{x:e} to {digits} digits");
    }
}

#[test]
fn tolerances_are_rounded_up() {
    for (x, text, reason) in [
        (0.0, "0", ""),
        (f64::INFINITY, "inf", ""),
        (0.5, "0.5", "a number of f32 with one digit"),
        (0.0012341, "0.00124", "three digits, upward"),
        (1234.1, "1240", "also before the point"),
        (0.7, "0.701", "the nearest f32 of 0.7 is below it"),
        (f64::from(0.1f32), "0.101", "0.1 itself would be too small"),
        (2.345e-9, "2.35e-9", "with an exponent"),
        (1e-50, "1e-50", "f32 has nothing so small: the number itself"),
    ] {
        assert_eq!(rounded_up(x), text, "{x:e}: {reason}");
    }
}

/// The headline says what was judged, so that a verdict never contradicts what stands beside it.
#[test]
fn the_headline_says_what_was_judged() {
    let verdict = |result: &[f32], limit: f64, judge: Judge| {
        let (a, r) = (
            DeviceMem::from_slice(&Device::host(), result),
            DeviceMem::from_slice(&Device::host(), &[1.0f32, 2.0, 4.0, 8.0][..result.len()]),
        );
        let thresholds = Thresholds::new(f64::INFINITY, limit, f64::INFINITY).unwrap();
        let options = Options::default().thresholds(thresholds, judge);
        let report = gpu_verify_with(&a.unwrap(), &r.unwrap(), &Tolerance::exact(), &options).unwrap().to_string();
        report.split("   ").next().unwrap().to_owned()
    };
    let same = &[1.0, 2.0, 4.0, 8.0][..];
    let near = &[1.0, 2.0, 4.0, 8.5][..];
    let infinite = &[1.0, 2.0, f32::INFINITY, 8.0][..];
    for (result, limit, judge, expected) in [
        (same, 1.0, Judge::Elements, "PASS  4 elements agree"),
        (&same[..1], 1.0, Judge::Elements, "PASS  1 element agrees"),
        (near, 1.0, Judge::Elements, "FAIL  1 of 4 elements differ (25 %)"),
        (same, 1.0, Judge::Thresholds, "PASS  by metrics [1 1 1]; 4 elements agree"),
        (near, 1.0, Judge::Thresholds, "PASS  by metrics [1 1 1]; 1 of 4 elements beyond the tolerance (25 %)"),
        (near, 0.25, Judge::Thresholds, "FAIL  by metrics [1 0 1]; 1 of 4 elements beyond the tolerance (25 %)"),
        (
            infinite,
            1.0,
            Judge::Thresholds,
            "FAIL  by metrics [1 1 1], 1 of 4 elements not finite; 1 of 4 elements beyond the tolerance (25 %)",
        ),
        (same, 1.0, Judge::Both, "PASS  by elements and metrics [1 1 1]; 4 elements agree"),
        (near, 1.0, Judge::Both, "FAIL  by elements and metrics [1 1 1]; 1 of 4 elements beyond the tolerance (25 %)"),
    ] {
        assert_eq!(verdict(result, limit, judge), expected);
    }
}

#[test]
fn shares_are_100_percent_only_where_they_are_all() {
    for (part, whole, text) in [
        (1, 4, "25 %"),
        (3, 98_304, "0.0031 %"),
        (996, 1000, "99.6 %"),
        (99_996, 100_000, "99.996 %"),
        (4, 4, "100 %"),
        (0, 4, "0 %"),
        (0, 0, "0 %"),
        (1, 3, "33.33 %"),
        (1, 8, "12.5 %"),
        (1, 16_777_216, "0.000006 %"),
        (999_999_999, 1_000_000_000, ">99.99 %"),
    ] {
        assert_eq!(percent(part, whole), text, "{part} of {whole}");
    }
}

#[test]
fn first_mismatches_have_both_values() {
    let text = report(&[1.0, 22.5, 3.0, 5.0], &[1.0, 2.0, 3.0, 4.0], 0.0, &Options::default()).to_string();
    let lines = "  first      [1]   result 22.5   reference 2\n             [3]   result 5      reference 4\n";
    assert!(text.contains(lines), "{text}");
}

/// The report of f32 numbers on the host.
fn report(result: &[f32], reference: &[f32], atol: f64, options: &Options) -> Report {
    let [a, r] = [result, reference].map(|x| DeviceMem::from_slice(&Device::host(), x).unwrap());
    gpu_verify_with(&a, &r, &Tolerance::new(0.0, atol).unwrap(), options).unwrap()
}

/// What the screen of a report says after a label.
fn after(report: &Report, label: &str) -> Option<String> {
    let text = report.to_string();
    text.lines().find_map(|line| Some(line.strip_prefix("  ")?.strip_prefix(label)?.trim_start().to_owned()))
}

/// Result, reference, atol, options, the label of a line, what stands there, and why.
type Row<'o> = ([f32; 2], [f32; 2], f64, &'o Options, &'static str, &'static str, &'static str);

fn say(rows: &[Row<'_>]) {
    for &(result, reference, atol, options, label, text, reason) in rows {
        assert_eq!(after(&report(&result, &reference, atol, options), label).as_deref(), Some(text), "{reason}");
    }
}

#[test]
fn passing_tolerances_say_whether_they_are_needed() {
    let always = Options::default().explain(Explain::Always);
    say(&[
        ([8.5, 1.0], [8.0, 1.0], 0.0, &always, "would pass", "with rtol 0.0625 (atol as it is) or atol 0.5 (rtol as it is)", "a mismatch"),
        (
            [8.5, 1.0],
            [8.0, 1.0],
            0.5,
            &always,
            "margin",
            "would still pass with rtol 0 (atol as it is) or atol 0.5 (rtol as it is)",
            "the bound",
        ),
        (
            [0.5, 1.0],
            [0.0, 1.0],
            0.0,
            &always,
            "would pass",
            "with atol 0.5 (rtol as it is), not with any rtol (atol as it is)",
            "no multiple of 0",
        ),
    ]);
}

#[test]
fn passing_tolerances_are_those_of_finite_pairs() {
    const NAN: f32 = f32::NAN;
    let always = Options::default().explain(Explain::Always);
    say(&[
        (
            [8.5, NAN],
            [8.0, 1.0],
            0.0,
            &always,
            "would pass",
            "with rtol 0.0625 (atol as it is) or atol 0.5 (rtol as it is), finite pairs only",
            "no tolerance passes a NaN",
        ),
        (
            [8.0, NAN],
            [8.0, NAN],
            0.0,
            &always,
            "would pass",
            "where NaN and infinities match their like (--equal-nonfinite, `NonFinite::EqualWhenSame`)",
            "two NaN that fail",
        ),
        (
            [8.5, f32::INFINITY],
            [8.0, f32::INFINITY],
            0.0,
            &always,
            "would pass",
            "with rtol 0.0625 (atol as it is) or atol 0.5 (rtol as it is) where NaN and infinities match their like (--equal-nonfinite, `NonFinite::EqualWhenSame`)",
            "two infinities that fail, and a mismatch",
        ),
    ]);
}

#[test]
fn margins_are_those_of_finite_pairs() {
    const NAN: f32 = f32::NAN;
    let always = Options::default().explain(Explain::Always);
    let same = always.clone().nonfinite(NonFinite::EqualWhenSame);
    say(&[
        (
            [8.0, f32::INFINITY],
            [8.0, f32::NEG_INFINITY],
            0.0,
            &always,
            "margin",
            "finite pairs would still pass with rtol 0 (atol as it is) or atol 0 (rtol as it is)",
            "two infinities that are not the same",
        ),
        (
            [NAN, 1.0],
            [1.0, NAN],
            0.0,
            &always,
            "margin",
            "finite pairs would still pass with rtol 0 (atol as it is) or atol 0 (rtol as it is)",
            "as many NaN, in other elements",
        ),
        (
            [NAN, f32::INFINITY],
            [NAN, f32::INFINITY],
            0.0,
            &always,
            "margin",
            "finite pairs would still pass with rtol 0 (atol as it is) or atol 0 (rtol as it is); the others may pass where NaN and infinities match their like (--equal-nonfinite, `NonFinite::EqualWhenSame`)",
            "of two classes, one may be in the place of the other",
        ),
        (
            [8.5, NAN],
            [8.0, NAN],
            1.0,
            &same,
            "margin",
            "would still pass with rtol 0 (atol as it is) or atol 0.5 (rtol as it is)",
            "two NaN that pass",
        ),
    ]);
}

#[test]
fn numbers_that_are_not_finite_are_counted_by_class() {
    const NAN: f32 = f32::NAN;
    const INF: f32 = f32::INFINITY;
    for (result, reference, expected, reason) in [
        ([1.0; 4], [1.0; 4], None, "none"),
        (
            [NAN, INF, -INF, -INF],
            [1.0, 1.0, NAN, 1.0],
            Some("result: 1 NaN, 1 +inf, 2 -inf   reference: 1 NaN, 0 +inf, 0 -inf"),
            "both sides, whichever has some",
        ),
        ([1.0; 4], [1.0, 1.0, 1.0, INF], Some("result: 0 NaN, 0 +inf, 0 -inf   reference: 0 NaN, 1 +inf, 0 -inf"), "the reference only"),
    ] {
        assert_eq!(after(&report(&result, &reference, 0.0, &Options::default()), "non-finite").as_deref(), expected, "{reason}");
    }
}

/// JSON has no infinities.
#[test]
#[cfg(feature = "cli")]
fn numbers_that_json_lacks_are_texts() {
    let result = [f32::NEG_INFINITY, f32::NAN, f32::INFINITY, 1.5];
    let json = |explain| serde_json::to_value(report(&result, &[0.0; 4], 0.0, &Options::default().explain(explain))).unwrap();
    let failed = json(Explain::OnFailure);
    let first = [0, 1, 2, 3].map(|i| failed["first"][i]["result"].clone());
    assert_eq!(first, ["-inf".into(), "nan".into(), "inf".into(), serde_json::Value::from(1.5)]);
    assert_eq!(failed["metrics"]["passing_rtol"], "inf", "no multiple of 0 is enough");
    assert_eq!(failed["metrics"]["passing_atol"], 1.5);
    assert_eq!(failed["result_dtype"], "f32");
    assert_eq!(failed["metrics"]["thresholds"]["relative_l1"], "inf", "a metric switched off");
    assert!(json(Explain::Never)["metrics"]["passing_atol"].is_null(), "not looked for");
    let unbounded = Report { rtol: f64::INFINITY, atol: f64::NAN, ..report(&result, &[0.0; 4], 0.0, &Options::default()) };
    let json = serde_json::to_value(unbounded).unwrap();
    assert_eq!([&json["rtol"], &json["atol"]], ["inf", "nan"], "fields that a caller has set");
}

/// A tolerance that the pair's arithmetic holds as a larger number.
#[test]
fn a_pass_has_a_margin() {
    let options = Options::default().explain(Explain::Always);
    let text = |atol| report(&[0.1], &[0.0], atol, &options).to_string();
    assert!(text(0.1).contains("  margin     would still pass with"), "{}", text(0.1));
    assert!(text(0.09).contains("  would pass with"), "{}", text(0.09));
}

/// By binade rtol is another number than that of |r|, which a flag takes: whoever passes this one back must see that.
#[test]
fn tolerances_by_binade_say_so() {
    let host = Device::host();
    let [a, r] = [[1.0f32, 3.5], [1.0f32, 3.0]].map(|x| DeviceMem::from_slice(&host, &x).unwrap());
    let text = |rtol: f64| gpu_verify_with(&a, &r, &Tolerance::new(rtol, 1e-5).unwrap().by_binade(), &always()).unwrap().to_string();
    for (rtol, headline, line) in [
        (0.125, "   rtol 0.125 of the binade, atol 1e-5\n", "  would pass with rtol 0.25 of the binade (atol as it is) or atol "),
        (
            0.5,
            "   rtol 0.5 of the binade, atol 1e-5\n",
            "  margin     would still pass with rtol 0.25 of the binade (atol as it is) or atol 0 ",
        ),
    ] {
        assert!(text(rtol).contains(headline) && text(rtol).contains(line), "{}", text(rtol));
    }
    let of_magnitude = gpu_verify_with(&a, &r, &Tolerance::new(0.125, 1e-5).unwrap(), &always()).unwrap().to_string();
    assert!(of_magnitude.contains("   rtol 0.125 atol 1e-5\n") && !of_magnitude.contains("binade"), "{of_magnitude}");
}

fn always() -> Options {
    Options::default().explain(Explain::Always)
}
