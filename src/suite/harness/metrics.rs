//! The numbers of a comparison by name, with the limits that a suite sets: those of its key `limits`, and the thresholds of a rule that judges by metrics.

use super::record::MetricValue;
use crate::verify::bound::BoundReport;
use crate::verify::{Judge, Metric, Report, grouped};

/// The metrics of a comparison. Of each, less is better.
pub(crate) const NAMES: [&str; 12] = [
    "mismatches",
    "max_abs",
    "max_rel",
    "max_rel_old",
    "max_eps",
    "max_ulp",
    "max_ratio",
    "mean_abs",
    "rms",
    "relative_l1",
    "relative_l2",
    "relative_linf",
];

/// The value of one of [`NAMES`]; `None` where the report has none, as [`Metric::Ulp`] of a pass that was not explained.
fn value(report: &Report, name: &str) -> Option<f64> {
    let worst = |metric| Some(report.worst(metric).map_or(0.0, |worst| worst.value));
    let metrics = report.metrics.as_ref();
    match name {
        "mismatches" => Some(report.mismatches as f64),
        "max_abs" => worst(Metric::Absolute),
        "max_rel" => worst(Metric::Relative),
        "max_rel_old" => worst(Metric::RelativeOld),
        "max_eps" => worst(Metric::Epsilon),
        "max_ulp" if report.explained => worst(Metric::Ulp),
        "max_ratio" => worst(Metric::Ratio),
        "mean_abs" => metrics.map(|m| m.mean_absolute),
        "rms" => metrics.map(|m| m.rms),
        "relative_l1" => metrics.map(|m| m.relative_l1),
        "relative_l2" => metrics.map(|m| m.relative_l2),
        "relative_linf" => metrics.map(|m| m.relative_linf),
        _ => None,
    }
}

/// Whether a limit is on a metric that only an explained report has.
pub(crate) fn ask_explanation(limits: &[(String, f64)]) -> bool {
    limits.iter().any(|(name, _)| name == "max_ulp")
}

/// The metrics of a report; of a limit and a threshold the smaller one counts.
pub(crate) fn of(report: &Report, limits: &[(String, f64)]) -> Vec<MetricValue> {
    let thresholds = thresholds(report);
    let found = NAMES.iter().filter_map(|name| value(report, name).map(|value| (*name, value)));
    let with_limit = |(name, value): (&str, f64)| {
        let threshold = thresholds.iter().find(|(n, _)| *n == name).map(|&(_, threshold)| threshold);
        let metric = limited(name, value, limits);
        MetricValue { limit: metric.limit.into_iter().chain(threshold).reduce(f64::min), ..metric }
    };
    found.map(with_limit).collect()
}

/// The metrics of a check: mismatches and their ratio are those of its bounds, the others those of the errors against the exact result.
pub(crate) fn of_check(check: &BoundReport, errors: &Report, limits: &[(String, f64)]) -> Vec<MetricValue> {
    let by_bounds = |metric: MetricValue| match metric.name.as_str() {
        "mismatches" => MetricValue { value: check.mismatches as f64, ..metric },
        "max_ratio" => MetricValue { value: check.worst.as_ref().map_or(0.0, |worst| worst.ratio), ..metric },
        _ => metric,
    };
    of(errors, limits).into_iter().map(by_bounds).collect()
}

/// What is wrong with the elements of a check that fails, in a sentence.
pub(crate) fn beyond_bounds(check: &BoundReport) -> Option<String> {
    (check.mismatches > 0)
        .then(|| format!("{} of {} elements are beyond their bounds", grouped(check.mismatches), grouped(check.elements as u64)))
}

/// The thresholds that the verdict of a report rests on, by the names of their metrics.
fn thresholds(report: &Report) -> Vec<(&'static str, f64)> {
    let Some(metrics) = report.metrics.as_ref().filter(|_| report.judge != Judge::Elements) else { return Vec::new() };
    let t = metrics.thresholds;
    let all = [
        ("rms", t.rms),
        ("max_abs", t.absolute),
        ("max_rel", t.relative),
        ("max_rel_old", t.relative_old),
        ("max_eps", t.epsilon),
        ("relative_l1", t.relative_l1),
        ("relative_l2", t.relative_l2),
    ];
    all.into_iter().filter(|(_, threshold)| threshold.is_finite()).collect()
}

/// What is wrong with the elements of a report that fails, in a sentence; metrics [tell themselves](beyond).
pub(crate) fn differ(report: &Report) -> Option<String> {
    let by_elements = report.judge != Judge::Thresholds && report.mismatches > report.allowed_mismatches;
    let [mismatches, elements, allowed] = [report.mismatches, report.elements as u64, report.allowed_mismatches].map(grouped);
    match (by_elements, report.nonfinite_pairs) {
        (true, _) if report.allowed_mismatches > 0 => Some(format!("{mismatches} of {elements} elements differ, {allowed} may")),
        (true, _) => Some(format!("{mismatches} of {elements} elements differ")),
        (false, 0) => None,
        (false, pairs) => Some(format!("{} of {elements} pairs of elements are not finite", grouped(pairs))),
    }
}

/// Whether a limit is on a metric that takes no account of pairs that are not finite: on any but the number of mismatches.
pub(crate) fn see_finite_pairs_only(limits: &[(String, f64)]) -> bool {
    limits.iter().any(|(name, _)| name != "mismatches")
}

/// What is wrong with a result whose metrics have limits, where pairs that are not finite differ: its metrics are those of the other pairs.
pub(crate) fn not_finite(report: &Report) -> String {
    format!(
        "{} of {} pairs of elements are not finite, and some of them differ: limits hold for finite ones",
        grouped(report.nonfinite_pairs),
        grouped(report.elements as u64)
    )
}

/// A metric with its limit, if it has one.
pub(crate) fn limited(name: &str, value: f64, limits: &[(String, f64)]) -> MetricValue {
    let limit = limits.iter().find(|(n, _)| n == name).map(|&(_, limit)| limit);
    MetricValue { name: name.to_owned(), value, limit }
}

/// What is wrong with metrics beyond their limits, in sentences. A limit on a metric that has no value is one that nothing was held against.
pub(crate) fn beyond(metrics: &[MetricValue], limits: &[(String, f64)]) -> Vec<String> {
    let sentence = |m: &MetricValue| format!("{} is {:e}, beyond its limit {:e}", m.name, m.value, m.limit.unwrap_or(f64::INFINITY));
    let missing = limits.iter().filter(|(name, _)| !metrics.iter().any(|m| m.name == *name));
    let missing = missing.map(|(name, limit)| format!("{name} has no value to be held against its limit {limit:e}"));
    metrics.iter().filter(|m| !m.passed()).map(sentence).chain(missing).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_limit_passes_unseen() {
        for (value, limit, words, reason) in [
            (Some(1.0), 1.0, vec![], "within"),
            (Some(1.5), 1.0, vec!["rms is 1.5e0, beyond its limit 1e0"], "beyond"),
            (Some(f64::NAN), 1.0, vec!["rms is NaN, beyond its limit 1e0"], "no number"),
            (None, 1.0, vec!["rms has no value to be held against its limit 1e0"], "no value"),
        ] {
            let limits = [("rms".to_owned(), limit)];
            let metrics: Vec<MetricValue> = value.map(|value| limited("rms", value, &limits)).into_iter().collect();
            assert_eq!(beyond(&metrics, &limits), words, "{reason}");
        }
    }
}
