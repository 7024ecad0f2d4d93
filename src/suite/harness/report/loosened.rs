//! What a case demanded in an old run and demands less of in a new one: limits of metrics, tolerances and thresholds of its rule, the expected outcome.
//!
//! Limits: both runs must have compared the case; that `repeatable` became false is in no result. An atol that follows the data (of mean |r|) counts like a given one.

use super::numbers::Json;
use crate::suite::record::{CaseResult, Expected, MetricValue, number};
use crate::verify::short;
use serde::Serialize;
use serde_json::Value;

/// A demand that became looser.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Loosened {
    /// `limit of rms`, `rtol`, `expected`.
    pub(super) name: String,
    pub(super) old: Demand,
    pub(super) new: Demand,
}

/// A number, infinite where nothing is demanded; or a word.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub(super) enum Demand {
    Number(Json),
    Word(String),
}

impl PartialEq for Demand {
    fn eq(&self, other: &Demand) -> bool {
        self.to_string() == other.to_string()
    }
}

impl std::fmt::Display for Demand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Demand::Number(Json(x)) if *x == f64::INFINITY => f.write_str("none"),
            Demand::Number(Json(x)) => f.write_str(&short(*x, 4)),
            Demand::Word(word) => f.write_str(word),
        }
    }
}

impl std::fmt::Display for Loosened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} -> {}", self.name, self.old, self.new)
    }
}

/// The demands of a case that are looser in the new run.
pub(super) fn loosened(old: &CaseResult, new: &CaseResult) -> Vec<Loosened> {
    let mut out = Vec::new();
    let word = |expected: Expected| Demand::Word(format!("{expected:?}").to_lowercase());
    if old.expected != new.expected && (old.expected == Expected::Pass || new.expected == Expected::Any) {
        out.push(Loosened { name: "expected".to_owned(), old: word(old.expected), new: word(new.expected) });
    }
    // A case that ended without a result has no metrics, and says nothing of their limits.
    if !new.metrics.is_empty() {
        out.extend(old.metrics.iter().filter_map(|metric| limit(metric, &new.metrics)));
    }
    if let (Some(old), Some(new)) = (&old.report, &new.report) {
        out.extend(rule(old, new));
    }
    out
}

fn larger(name: String, old: f64, new: f64) -> Option<Loosened> {
    let [old_demand, new_demand] = [old, new].map(|x| Demand::Number(Json(x)));
    // Tolerances may be sums over the data, and differ in digits that nobody reads.
    (new > old && old_demand != new_demand).then_some(Loosened { name, old: old_demand, new: new_demand })
}

fn limit(old: &MetricValue, new: &[MetricValue]) -> Option<Loosened> {
    let now = new.iter().find(|metric| metric.name == old.name).and_then(|metric| metric.limit);
    larger(format!("limit of {}", old.name), old.limit?, now.unwrap_or(f64::INFINITY))
}

/// The numbers that a rule judges elements by, and where they stand in a report. Those of metrics are the limits of these.
const OF_ELEMENTS: [(&str, &str); 3] = [("rtol", "/rtol"), ("atol", "/atol"), ("allowed mismatches", "/allowed_mismatches")];

/// What two reports say of their rules: whether elements count no longer, or by which numbers they are judged.
fn rule(old: &Value, new: &Value) -> Vec<Loosened> {
    let judges = [old, new].map(|report| report["judge"].as_str().unwrap_or("Elements"));
    let value = |report: &Value, place: &str| report.pointer(place).and_then(|value| number::deserialize(value).ok());
    let number = |(name, place): &(&str, &str)| larger((*name).to_owned(), value(old, place)?, value(new, place)?);
    match judges.map(|judge| judge == "Thresholds") {
        [false, true] => {
            let [old, new] = judges.map(|judge| Demand::Word(judge.to_lowercase()));
            vec![Loosened { name: "what is judged".to_owned(), old, new }]
        }
        [false, false] => OF_ELEMENTS.iter().filter_map(number).collect(),
        [true, _] => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::report::samples;
    use serde_json::json;

    fn case(limit: Option<f64>, report: Option<Value>, expected: Expected) -> CaseResult {
        let metrics = vec![MetricValue { name: "rms".to_owned(), value: 0.5, limit }];
        CaseResult { metrics, report, expected, ..samples::case("c", 0) }
    }

    fn report(judge: &str, rtol: f64, allowed: u64, rms: f64) -> Option<Value> {
        Some(
            json!({ "judge": judge, "rtol": rtol, "atol": 0.0, "allowed_mismatches": allowed, "metrics": { "thresholds": { "rms": rms, "absolute": "inf" } } }),
        )
    }

    #[test]
    fn what_is_demanded_less_is_named_with_both_values() {
        let plain = |limit| case(limit, None, Expected::Pass);
        let by = |judge, rtol, allowed, rms| case(None, report(judge, rtol, allowed, rms), Expected::Pass);
        let mut ended = plain(None);
        ended.metrics.clear();
        for (old, new, said) in [
            (plain(Some(1e-3)), plain(Some(1.0)), "limit of rms 0.001 -> 1"),
            (plain(Some(1e-3)), plain(None), "limit of rms 0.001 -> none"),
            (plain(Some(1.0)), plain(Some(1e-3)), ""),
            (plain(None), plain(Some(1.0)), ""),
            (plain(Some(1.0)), ended, ""),
            (by("Elements", 1e-3, 0, 1.0), by("Elements", 0.5, 7, 2.0), "rtol 0.001 -> 0.5; allowed mismatches 0 -> 7"),
            (by("Elements", 1e-3, 0, 1.0), by("Elements", 1e-3 * (1.0 + 1e-12), 0, 1.0), ""),
            (by("Elements", 0.5, 0, 1.0), by("Elements", 1e-3, 0, 1.0), ""),
            // Thresholds are limits of the metrics; tolerances of elements count where these do.
            (by("Thresholds", 1e-3, 0, 1.0), by("Thresholds", 0.5, 0, 2.0), ""),
            (by("Both", 1e-3, 0, 1.0), by("Thresholds", 0.5, 0, 2.0), "what is judged both -> thresholds"),
            (by("Both", 1e-3, 0, 1.0), by("Elements", 1e-3, 0, 1.0), ""),
            (by("Thresholds", 1e-3, 0, 1.0), by("Elements", 1e-3, 0, 1.0), ""),
            (by("Elements", 1e-3, 0, 1.0), by("Both", 1e-3, 0, 1.0), ""),
            (by("Elements", 1e-3, 0, 1.0), plain(None), ""),
            (case(None, None, Expected::Pass), case(None, None, Expected::Fail), "expected pass -> fail"),
            (case(None, None, Expected::Fail), case(None, None, Expected::Any), "expected fail -> any"),
            (case(None, None, Expected::Any), case(None, None, Expected::Pass), ""),
        ] {
            let found: Vec<String> = loosened(&old, &new).iter().map(ToString::to_string).collect();
            assert_eq!(found.join("; "), said);
        }
    }
}
