//! What a case demanded in an old run and demands less of in a new one: limits of metrics, tolerances, thresholds and bounds of its rule, what it says of values that are not finite, the
//! expected outcome, that a second run gives the same bits.
//!
//! Limits: what a rule demands is seen where both runs have compared the case. An atol that follows the data (of mean |r|) counts like a given one. Of a tolerance and the bounds of a check
//! neither is known to be the looser one: that bounds judge no longer is told, that they judge now where equality did. What a check takes for right where the exact result overflows,
//! the largest number or an infinity, is told in both directions, as each passes what the other one fails.

use super::numbers::{Json, is_check};
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
    for (name, [was, is], loose) in
        [("repeatable", [old.repeatable, new.repeatable], false), ("equal_nonfinite", [old.equal_nonfinite, new.equal_nonfinite], true)]
    {
        if was != is && is == loose {
            let [old, new] = [was, is].map(|x| Demand::Word(x.to_string()));
            out.push(Loosened { name: name.to_owned(), old, new });
        }
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

/// The numbers that a rule judges elements by, and where they stand in a report; of rtol also what it multiplies. Those of metrics are the limits of these.
const OF_ELEMENTS: [(&str, &str); 3] = [("rtol", "/rtol"), ("atol", "/atol"), ("allowed mismatches", "/allowed_mismatches")];

/// The numbers that a check judges elements by.
const OF_BOUNDS: [(&str, &str); 3] =
    [("bound's gamma", "/report/bound/gamma"), ("bound's relative", "/report/bound/relative"), ("bound's floor", "/report/bound/floor")];

/// What two reports say of their rules: whether elements count no longer, or by which numbers they are judged.
fn rule(old: &Value, new: &Value) -> Vec<Loosened> {
    let judge = |report: &Value| report["judge"].as_str().unwrap_or("Elements").to_lowercase();
    let judges = [old, new].map(|report| if is_check(report) { "bounds".to_owned() } else { judge(report) });
    let value = |report: &Value, place: &str| report.pointer(place).and_then(|value| number::deserialize(value).ok());
    let number = |(name, place): &(&str, &str)| larger((*name).to_owned(), value(old, place)?, value(new, place)?);
    let other = || {
        let [old, new] = judges.clone().map(Demand::Word);
        vec![Loosened { name: "what is judged".to_owned(), old, new }]
    };
    // Equality is stricter than any bound but that of integers, which is equality too.
    let zero = |report: &Value, places: [(&str, &str); 3]| places.iter().all(|(_, place)| value(report, place) == Some(0.0));
    match [judges[0].as_str(), judges[1].as_str()] {
        ["bounds", "bounds"] => OF_BOUNDS.iter().filter_map(number).chain(saturates([old, new])).collect(),
        ["bounds", _] => other(),
        ["thresholds", _] => Vec::new(),
        [_, "bounds"] if zero(old, OF_ELEMENTS) && !zero(new, OF_BOUNDS) => other(),
        [_, "bounds"] => Vec::new(),
        [_, "thresholds"] => other(),
        _ => of_magnitude([old, new]).into_iter().chain(OF_ELEMENTS.iter().filter_map(number)).collect(),
    }
}

/// That rtol multiplies |r| where it multiplied the binade of |r|, up to half as much, and is more than half of what it was. (If it is more than that, it is told as a number as well.)
fn of_magnitude(reports: [&Value; 2]) -> Option<Loosened> {
    let [was, is] = reports.map(|report| report["by_binade"].as_bool().unwrap_or(false));
    let [old, new] = reports.map(|report| report.get("rtol").and_then(|rtol| number::deserialize(rtol).ok()));
    let (old, new): (f64, f64) = (old?, new?);
    let word = |rtol, of| Demand::Word(format!("{} {of}", short(rtol, 4)));
    (was && !is && 2.0 * new > old).then(|| Loosened { name: "rtol".to_owned(), old: word(old, "of the binade"), new: word(new, "of |r|") })
}

/// That one check takes a kernel for one that saturates, and the other one does not.
fn saturates(reports: [&Value; 2]) -> Option<Loosened> {
    // Earlier results do not say it: no kernel was taken for such a one.
    let [old, new] = reports.map(|report| report.pointer("/report/saturates").and_then(Value::as_bool).unwrap_or(false));
    let [old_demand, new_demand] = [old, new].map(|x| Demand::Word(x.to_string()));
    (old != new).then(|| Loosened { name: "saturate".to_owned(), old: old_demand, new: new_demand })
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
        let binade =
            |rtol: f64| case(None, Some(json!({ "judge": "Elements", "rtol": rtol, "atol": 0.0, "by_binade": true })), Expected::Pass);
        let check = |gamma: f64, floor: f64| {
            let bound = json!({ "gamma": gamma, "relative": 0.0, "floor": floor });
            case(None, Some(json!({ "report": { "bound": bound } })), Expected::Pass)
        };
        let saturate = |gamma: f64, saturates: bool| {
            let report = json!({ "bound": { "gamma": gamma, "relative": 0.0, "floor": 0.0 }, "saturates": saturates });
            case(None, Some(json!({ "report": report })), Expected::Pass)
        };
        let once = |repeatable, equal_nonfinite| CaseResult { repeatable, equal_nonfinite, ..plain(None) };
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
            (binade(1e-3), by("Elements", 9e-4, 0, 1.0), "rtol 0.001 of the binade -> 0.0009 of |r|"),
            (binade(1e-3), by("Elements", 5e-4, 0, 1.0), ""),
            (by("Elements", 1e-3, 0, 1.0), binade(1e-3), ""),
            // Thresholds are limits of the metrics; tolerances of elements count where these do.
            (by("Thresholds", 1e-3, 0, 1.0), by("Thresholds", 0.5, 0, 2.0), ""),
            (by("Both", 1e-3, 0, 1.0), by("Thresholds", 0.5, 0, 2.0), "what is judged both -> thresholds"),
            (by("Both", 1e-3, 0, 1.0), by("Elements", 1e-3, 0, 1.0), ""),
            (by("Thresholds", 1e-3, 0, 1.0), by("Elements", 1e-3, 0, 1.0), ""),
            (by("Elements", 1e-3, 0, 1.0), by("Both", 1e-3, 0, 1.0), ""),
            (by("Elements", 1e-3, 0, 1.0), plain(None), ""),
            (check(1e-6, 0.0), check(1e-5, 1e-9), "bound's gamma 1e-6 -> 1e-5; bound's floor 0 -> 1e-9"),
            (check(1e-5, 1e-9), check(1e-6, 0.0), ""),
            (saturate(1e-6, false), saturate(1e-5, true), "bound's gamma 1e-6 -> 1e-5; saturate false -> true"),
            (saturate(1e-6, true), saturate(1e-6, false), "saturate true -> false"),
            (check(1e-6, 0.0), saturate(1e-6, true), "saturate false -> true"),
            (check(1e-6, 0.0), saturate(1e-6, false), ""),
            (check(1e-6, 0.0), by("Elements", 0.0, 0, 1.0), "what is judged bounds -> elements"),
            (check(1e-6, 0.0), by("Thresholds", 0.0, 0, 1.0), "what is judged bounds -> thresholds"),
            (by("Elements", 1e-3, 0, 1.0), check(1e-6, 0.0), ""),
            (by("Thresholds", 0.0, 0, 1.0), check(1e-6, 0.0), ""),
            (by("Elements", 0.0, 0, 1.0), check(1e-6, 0.0), "what is judged elements -> bounds"),
            (by("Elements", 0.0, 0, 1.0), check(0.0, 0.0), ""),
            (once(true, false), once(false, true), "repeatable true -> false; equal_nonfinite false -> true"),
            (once(false, true), once(true, false), ""),
            (once(false, true), once(false, true), ""),
            (case(None, None, Expected::Pass), case(None, None, Expected::Fail), "expected pass -> fail"),
            (case(None, None, Expected::Fail), case(None, None, Expected::Any), "expected fail -> any"),
            (case(None, None, Expected::Any), case(None, None, Expected::Pass), ""),
        ] {
            let found: Vec<String> = loosened(&old, &new).iter().map(ToString::to_string).collect();
            assert_eq!(found.join("; "), said);
        }
    }
}
