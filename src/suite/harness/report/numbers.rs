//! The numbers of a case that tables, comparisons and trends show.

use crate::suite::record::{CaseResult, number};
use serde::Serialize;
use serde_json::Value;

/// Where the largest ratio of an error and its tolerance stands in a report of a comparison, and that of one and its bound in the report of a check.
const RATIO: [&str; 2] = ["/metrics/worst_ratio/value", "/report/worst/ratio"];

/// Numbers of a report that every table may show, and where they stand there.
const OF_REPORTS: [(&str, &str); 6] = [
    ("mismatches", "/mismatches"),
    ("ratio", RATIO[0]),
    ("max_abs", "/worst_absolute/value"),
    ("max_rel", "/metrics/worst_relative/value"),
    ("max_eps", "/metrics/worst_epsilon/value"),
    ("rms", "/metrics/rms"),
];

/// A number of a case.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Number<'a> {
    pub(super) name: &'a str,
    pub(super) value: f64,
    /// The largest value that passes.
    pub(super) limit: Option<f64>,
}

/// The metrics that a case was asked for, then the numbers of its report that have no such name.
pub(super) fn numbers(case: &CaseResult) -> Vec<Number<'_>> {
    let mut all: Vec<Number<'_>> = case.metrics.iter().map(|m| Number { name: m.name.as_str(), value: m.value, limit: m.limit }).collect();
    let asked = all.len();
    for (name, place) in OF_REPORTS {
        let value = |report| if place == RATIO[0] { ratio(report) } else { of_report(report, place) };
        if let Some(value) = case.report.as_ref().and_then(value)
            && !all[..asked].iter().any(|number| number.name == name)
        {
            all.push(Number { name, value, limit: None });
        }
    }
    all
}

/// A number of a report. A maximum that is not there is that of no differences: 0, where the report has metrics at all.
fn of_report(report: &Value, place: &str) -> Option<f64> {
    let absent = place.starts_with("/metrics") && report["metrics"].is_null();
    match report.pointer(place) {
        Some(value) => number::deserialize(value).ok(),
        None if absent || !report.is_object() => None,
        None => Some(0.0),
    }
}

/// The largest ratio of an error and what is allowed there.
fn ratio(report: &Value) -> Option<f64> {
    if !is_check(report) {
        return of_report(report, RATIO[0]);
    }
    // Null where every element is exact.
    report.pointer(RATIO[1]).map_or(Some(0.0), |value| number::deserialize(value).ok())
}

/// Whether a report is that of a check: each element has a bound of its own.
pub(super) fn is_check(report: &Value) -> bool {
    report.pointer("/report/bound").is_some()
}

/// How much of what is allowed a case uses: the largest share of a metric's limit or of the tolerance of elements. Above 1 it fails; `None` where
/// nothing is limited.
pub(super) fn used(case: &CaseResult) -> Option<f64> {
    let limited = case.metrics.iter().filter_map(|m| {
        let limit = m.limit?;
        Some(if m.value == 0.0 { 0.0 } else { m.value / limit })
    });
    // A vector of thresholds alone says nothing about elements.
    let by_elements = case.report.as_ref().filter(|report| report["judge"] != "Thresholds");
    let ratio = by_elements.and_then(ratio);
    limited.chain(ratio).map(|x| if x.is_nan() { f64::INFINITY } else { x }).max_by(f64::total_cmp)
}

/// A number as JSON has it, for those that it has no word for, the strings `inf`, `-inf` and `nan`.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Json(#[serde(with = "number")] pub(super) f64);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::record::MetricValue;
    use crate::suite::report::samples;
    use serde_json::json;

    fn case(metrics: &[(&str, f64, Option<f64>)], report: Option<Value>) -> CaseResult {
        let metrics = metrics.iter().map(|&(name, value, limit)| MetricValue { name: name.to_owned(), value, limit }).collect();
        CaseResult { metrics, report, ..samples::case("c", 0) }
    }

    #[test]
    fn what_was_asked_for_comes_before_what_a_report_has() {
        let report =
            json!({"judge": "Elements", "mismatches": 2, "worst_absolute": {"value": "inf"}, "metrics": {"rms": 0.5, "worst_ratio": null}});
        let found = case(&[("rms", 0.25, Some(1.0))], Some(report));
        let found: Vec<(&str, f64)> = numbers(&found).into_iter().map(|n| (n.name, n.value)).collect();
        let rest = [("mismatches", 2.0), ("ratio", 0.0), ("max_abs", f64::INFINITY), ("max_rel", 0.0), ("max_eps", 0.0)];
        assert_eq!(found[0], ("rms", 0.25));
        assert_eq!(found[1..], rest);
        assert!(numbers(&case(&[], None)).is_empty());
    }

    #[test]
    fn the_share_of_what_is_allowed() {
        let elements = |ratio: Value| Some(json!({"judge": "Elements", "metrics": {"worst_ratio": {"value": ratio}}}));
        let check = |worst: Value| Some(json!({"report": {"bound": {"gamma": 1e-6}, "worst": worst}}));
        let thresholds = Some(json!({"judge": "Thresholds", "metrics": {"worst_ratio": {"value": 7.0}}}));
        for (metrics, report, expected, reason) in [
            (&[][..], None, None, "nothing is limited"),
            (&[("a", 3.0, None)], None, None, "a metric without a limit"),
            (&[("a", 3.0, Some(4.0)), ("b", 1.0, Some(4.0))], None, Some(0.75), "the largest share"),
            (&[("a", 0.0, Some(0.0))], None, Some(0.0), "nothing of a limit of nothing"),
            (&[("a", 1.0, Some(0.0))], None, Some(f64::INFINITY), "something of nothing"),
            (&[("a", f64::NAN, Some(1.0))], None, Some(f64::INFINITY), "NaN is within no limit"),
            (&[("a", 1.0, Some(4.0))], elements(json!(0.5)), Some(0.5), "elements count as well"),
            (&[("a", 1.0, Some(4.0))], elements(json!("inf")), Some(f64::INFINITY), "also where they are infinite"),
            (&[("a", 1.0, Some(4.0))], thresholds, Some(0.25), "but not where thresholds judge"),
            (&[], check(json!({"ratio": 0.5})), Some(0.5), "bounds of a check"),
            (&[], check(json!({"ratio": "inf"})), Some(f64::INFINITY), "bounds that are exceeded by what is not finite"),
            (&[], check(Value::Null), Some(0.0), "a check of an exact result"),
        ] {
            assert_eq!(used(&case(metrics, report)), expected, "{reason}");
        }
    }
}
