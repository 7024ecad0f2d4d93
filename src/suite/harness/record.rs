//! What a run of a suite leaves behind: lines of JSON, a [`RunHeader`] first, then a [`CaseResult`] for each case that has ended.
//!
//! Invariants:
//! - A line is complete or absent: it is written with its newline in one call, so that a killed run loses at most the case that was running.
//! - A case's line is a function of suite, device and kernel alone, but for `seconds`. Reports read nothing else: whatever made the lines, one run or many,
//!   the same lines give the same report.

use serde::{Deserialize, Serialize};

/// The version of both kinds of lines; `docs/suite-report.schema.json` has their fields, under `runs` and `cases`.
///
/// It stays 1 until a version of the program has been released: fields that came since the first commit need no number, as a line that lacks one of them, or has one that is not known, is an error
/// that names the field. A release raises it with what it changes, so that the error names the version.
pub const SCHEMA: u32 = 1;

/// The first line: which suite ran, and how much of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunHeader {
    /// [`SCHEMA`] of the program that wrote the line.
    pub schema: u32,
    /// Name and version of that program.
    pub tool: String,
    /// The suite's name.
    pub suite: String,
    /// Hash of all cases of the suite, in hexadecimal: two runs are comparable case by case where it is the same.
    pub fingerprint: String,
    /// Hash of the files that its kernels name, as [`Suite::code`](super::Suite::code) has it: results of one run are of the same files.
    pub code: String,
    /// Cases of the whole suite, whatever was selected.
    pub cases: u64,
    /// Which cases were to run: filters, groups and shard as they were given; empty for all.
    pub selection: String,
    /// The cases that were to run.
    pub selected: u64,
    /// The cases that filters and groups leave before a shard takes its share: without a shard as many as `selected`.
    pub before_shard: u64,
    /// Names of the devices that they ran on.
    pub devices: Vec<String>,
    /// When the run began, in seconds since 1970.
    pub started: u64,
}

/// What came out of one case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseResult {
    /// The case's name, the same in every run: the suite's table and the values of its axes, separated by `/`.
    pub case: String,
    /// The groups that it belongs to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// The values of its axes, in the order of the suite.
    pub axes: Vec<(String, String)>,
    /// The command line that runs this case alone; of a closure a comment that says that no other program can.
    pub command: String,
    /// The device that computed it.
    pub device: String,
    /// What the suite expects.
    pub expected: Expected,
    /// What happened.
    pub outcome: CaseOutcome,
    /// Whether the outcome is the expected one and nothing was found: what counts for the run's exit code.
    pub ok: bool,
    /// Why the outcome is what it is, in sentences, those of findings and of the likely cause among them; empty after a pass.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    /// What the kernel did beside its result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings: Vec<Finding>,
    /// Numbers, with their limits where the suite sets some.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<MetricValue>,
    /// The report of the comparison as in `compare --json`, or of the check as in `check --json` (`check`), where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report: Option<serde_json::Value>,
    /// Warnings of that report.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Pictures of the errors, made for failures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Details>,
    /// Whether a second run had to give the same bits.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub repeatable: bool,
    /// Whether values that are not finite passed where the reference has the same.
    #[serde(default, skip_serializing_if = "is_no")]
    pub equal_nonfinite: bool,
    /// How long it took.
    pub seconds: f64,
}

fn yes() -> bool {
    true
}

// A reference is what serde hands over.
fn is_yes(x: &bool) -> bool {
    *x
}

fn is_no(x: &bool) -> bool {
    !*x
}

impl CaseResult {
    /// Why the outcome is what it is, and what was expected where it is another one: of a pass that is not to be trusted the warnings, else the reasons.
    #[must_use]
    pub fn why(&self) -> Vec<String> {
        let passed = matches!(self.outcome, CaseOutcome::Pass | CaseOutcome::Untrusted);
        let warnings: &[String] = if self.outcome == CaseOutcome::Untrusted { &self.warnings } else { &[] };
        let expected = (!self.expected.accepts(self.outcome) && (passed || self.expected != Expected::Pass))
            .then(|| format!("{} was expected", self.expected.words()));
        // First what is a surprise: of a pass that it is one, of an outcome that is the expected one what was found beside the result, else how it came.
        let [first, last] = if passed && self.expected != Expected::Pass { [expected, None] } else { [None, expected] };
        let beside = |reason: &&String| self.expected.accepts(self.outcome) && self.findings.iter().any(|f| f.message == **reason);
        let (found, others): (Vec<&String>, Vec<&String>) = self.reasons.iter().partition(beside);
        first.iter().chain(found).chain(warnings).chain(others).chain(&last).cloned().collect()
    }
}

/// The outcome that a suite expects of a case.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expected {
    /// A pass that can be trusted.
    #[default]
    Pass,
    /// A pass by a tolerance that hardly anything could fail.
    Untrusted,
    /// A failure: the suite holds a kernel that is known to be broken.
    Fail,
    /// Whatever comes out; the case is there for its numbers.
    Any,
}

/// How a case ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CaseOutcome {
    /// The comparison passed.
    Pass,
    /// It passed by a tolerance that is too loose to trust.
    Untrusted,
    /// It failed, or a metric is beyond its limit, or the kernel touched what is not its own.
    Fail,
    /// The case could not be computed.
    Error,
    /// The process that computed it died.
    Crash,
    /// It did not end in time.
    Timeout,
}

impl CaseOutcome {
    /// Every outcome, the best first.
    pub const ALL: [CaseOutcome; 6] = [Self::Pass, Self::Untrusted, Self::Fail, Self::Error, Self::Timeout, Self::Crash];

    /// The word for the outcome, as files of results have it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Untrusted => "untrusted",
            Self::Fail => "fail",
            Self::Error => "error",
            Self::Crash => "crash",
            Self::Timeout => "timeout",
        }
    }
}

impl Expected {
    /// What it is, for people.
    fn words(self) -> &'static str {
        match self {
            Self::Pass => "a pass that can be trusted",
            Self::Untrusted => "a pass that is not to be trusted",
            Self::Fail => "a failure",
            Self::Any => "a verdict",
        }
    }

    /// Whether `outcome` is the expected one. No error, crash or timeout ever is, and [`Expected::Any`] accepts every verdict.
    #[must_use]
    pub fn accepts(self, outcome: CaseOutcome) -> bool {
        matches!(
            (self, outcome),
            (Self::Pass, CaseOutcome::Pass)
                | (Self::Untrusted, CaseOutcome::Untrusted)
                | (Self::Fail, CaseOutcome::Fail)
                | (Self::Any, CaseOutcome::Pass | CaseOutcome::Untrusted | CaseOutcome::Fail)
        )
    }
}

/// A number that a case was asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetricValue {
    /// Its name, such as `rms` or `max_abs`.
    pub name: String,
    /// Its value.
    #[serde(with = "number")]
    pub value: f64,
    /// The largest value that passes.
    #[serde(default, with = "optional_number", skip_serializing_if = "Option::is_none")]
    pub limit: Option<f64>,
}

impl MetricValue {
    /// Whether the value is within its limit; NaN is within none.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.limit.is_none_or(|limit| self.value <= limit)
    }
}

/// Something that a kernel did beside its result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finding {
    /// What it did.
    pub kind: FindingKind,
    /// The buffer's name.
    pub buffer: String,
    /// For red zones: on which side of the buffer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub side: Option<Side>,
    /// Bytes from the buffer's first byte to the first one concerned; negative before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<i64>,
    /// A sentence for people.
    pub message: String,
}

/// What a kernel can do beside its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// It wrote beside a buffer.
    RedZone,
    /// It left elements of its output unwritten.
    Unwritten,
    /// It changed an input.
    InputChanged,
    /// A second run gave other bits.
    NotRepeatable,
}

/// A side of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// Below its first byte.
    Before,
    /// Above its last byte.
    After,
}

/// Where and at which magnitudes errors lie.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Details {
    /// Errors by the magnitude of the reference, ascending.
    pub magnitudes: Vec<Band>,
    /// Share of mismatches by place, where the tensor has at least two dimensions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub map: Option<HeatMap>,
}

/// Elements whose reference has one binary exponent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Band {
    /// 2^exponent <= |reference| < 2^(exponent + 1); absent for zeros.
    pub exponent: Option<i32>,
    /// How many.
    pub elements: u64,
    /// Those that fail.
    pub mismatches: u64,
    /// Their largest absolute error.
    #[serde(with = "number")]
    pub max: f64,
    /// Their mean absolute error.
    #[serde(with = "number")]
    pub mean: f64,
}

/// Mismatches by blocks of the last two dimensions, all outer ones together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeatMap {
    /// Blocks down and across.
    pub blocks: [u32; 2],
    /// Elements that a block covers down and across; the last ones may be cut.
    pub block: [u64; 2],
    /// Row by row: the share of each block's elements that fail, 0 to 1.
    pub shares: Vec<f32>,
}

/// Numbers that JSON has no word for are the strings `inf`, `-inf` and `nan`, as in `compare --json`.
pub(crate) mod number {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    #[derive(Deserialize)]
    #[serde(untagged)]
    pub(super) enum Number {
        Plain(f64),
        Word(String),
    }

    impl Number {
        pub(super) fn value<E: Error>(self) -> Result<f64, E> {
            match self {
                Self::Plain(x) => Ok(x),
                Self::Word(word) => match word.as_str() {
                    "inf" => Ok(f64::INFINITY),
                    "-inf" => Ok(f64::NEG_INFINITY),
                    "nan" => Ok(f64::NAN),
                    _ => Err(E::custom(format!("`{word}` is no number: a number, \"inf\", \"-inf\" or \"nan\" is expected"))),
                },
            }
        }
    }

    pub(crate) fn serialize<S: Serializer>(x: &f64, s: S) -> Result<S::Ok, S::Error> {
        match *x {
            x if x.is_nan() => s.serialize_str("nan"),
            f64::INFINITY => s.serialize_str("inf"),
            f64::NEG_INFINITY => s.serialize_str("-inf"),
            x => s.serialize_f64(x),
        }
    }

    pub(crate) fn deserialize<'d, D: Deserializer<'d>>(d: D) -> Result<f64, D::Error> {
        Number::deserialize(d)?.value()
    }
}

mod optional_number {
    use super::number::{self, Number};
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(x: &Option<f64>, s: S) -> Result<S::Ok, S::Error> {
        match x {
            Some(x) => number::serialize(x, s),
            None => s.serialize_none(),
        }
    }

    pub(super) fn deserialize<'d, D: Deserializer<'d>>(d: D) -> Result<Option<f64>, D::Error> {
        Option::<Number>::deserialize(d)?.map(Number::value).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case() -> CaseResult {
        let metric = |name: &str, value, limit| MetricValue { name: name.to_owned(), value, limit };
        CaseResult {
            case: "gemm/f16/64x64x64".to_owned(),
            groups: vec!["nightly".to_owned()],
            axes: vec![("type".to_owned(), "f16".to_owned())],
            command: "hipverify suite run smoke.toml --filter =gemm/f16/64x64x64".to_owned(),
            device: "host, 2 threads".to_owned(),
            expected: Expected::Pass,
            outcome: CaseOutcome::Fail,
            ok: false,
            reasons: vec!["1 of 4,096 elements differs".to_owned()],
            findings: vec![Finding {
                kind: FindingKind::RedZone,
                buffer: "output".to_owned(),
                side: Some(Side::Before),
                offset: Some(-2),
                message: "byte 2 before `output` was written".to_owned(),
            }],
            metrics: vec![metric("rms", f64::INFINITY, Some(3e-5)), metric("max_abs", 0.1 + 0.2, None)],
            report: Some(serde_json::json!({"mismatches": 1})),
            warnings: Vec::new(),
            details: Some(Details {
                magnitudes: vec![Band { exponent: Some(-3), elements: 4096, mismatches: 1, max: f64::NEG_INFINITY, mean: 0.5 }],
                map: Some(HeatMap { blocks: [1, 2], block: [64, 32], shares: vec![0.0, 1.0 / 2048.0] }),
            }),
            repeatable: false,
            equal_nonfinite: true,
            seconds: 0.25,
        }
    }

    #[test]
    fn what_is_a_surprise_is_told_first() {
        let found = case().findings[0].message.clone();
        for (expected, first) in
            [(Expected::Fail, found.as_str()), (Expected::Any, &found), (Expected::Pass, "1 of 4,096 elements differs")]
        {
            let reasons = vec!["1 of 4,096 elements differs".to_owned(), "cause: one element".to_owned(), found.clone()];
            let why = CaseResult { expected, reasons, ..case() }.why();
            assert_eq!((why[0].as_str(), why.len()), (first, 3), "{expected:?}: {why:?}");
        }
    }

    #[test]
    fn a_line_is_read_back_as_it_was() {
        let line = serde_json::to_string(&case()).unwrap();
        assert!(!line.contains('\n'));
        assert_eq!(serde_json::from_str::<CaseResult>(&line).unwrap(), case());
        let plain = serde_json::to_string(&CaseResult { repeatable: true, equal_nonfinite: false, ..case() }).unwrap();
        assert!(!plain.contains("repeatable") && !plain.contains("equal_nonfinite"), "what most cases have is not written");
        let read = serde_json::from_str::<CaseResult>(&plain).unwrap();
        assert!(read.repeatable && !read.equal_nonfinite, "nor had it been by earlier versions");
        let nan = MetricValue { name: "rms".to_owned(), value: f64::NAN, limit: None };
        assert!(serde_json::from_str::<MetricValue>(&serde_json::to_string(&nan).unwrap()).unwrap().value.is_nan());
    }

    #[test]
    fn lines_of_another_kind_are_refused() {
        for (line, what) in [
            (r#"{"name":"rms","value":"large"}"#, "`large` is no number"),
            (r#"{"name":"rms","value":1,"colour":2}"#, "unknown field `colour`"),
            (r#"{"name":"rms"}"#, "missing field `value`"),
        ] {
            let error = serde_json::from_str::<MetricValue>(line).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
    }

    #[test]
    fn a_limit_is_the_largest_value_that_passes() {
        for (value, limit, passed) in [
            (1.0, Some(1.0), true),
            (1.1, Some(1.0), false),
            (f64::NAN, Some(1.0), false),
            (f64::INFINITY, None, true),
            (f64::NAN, None, true),
        ] {
            assert_eq!(MetricValue { name: String::new(), value, limit }.passed(), passed, "{value} {limit:?}");
        }
    }

    #[test]
    fn the_word_of_an_outcome_is_that_of_the_file() {
        for outcome in CaseOutcome::ALL {
            assert_eq!(serde_json::to_string(&outcome).unwrap(), format!("{:?}", outcome.word()));
            assert_eq!(CaseOutcome::ALL.iter().filter(|o| **o == outcome).count(), 1, "{outcome:?}");
        }
    }

    #[test]
    fn every_outcome_that_was_not_expected_has_a_reason() {
        use CaseOutcome as O;
        let loose = "1 of 8 elements could fail";
        for (outcome, expected, reasons, why) in [
            (O::Pass, Expected::Fail, vec![], vec!["a failure was expected"]),
            (O::Pass, Expected::Fail, vec!["its files were not saved"], vec!["a failure was expected", "its files were not saved"]),
            (O::Pass, Expected::Untrusted, vec![], vec!["a pass that is not to be trusted was expected"]),
            (O::Untrusted, Expected::Pass, vec![], vec![loose, "a pass that can be trusted was expected"]),
            (O::Untrusted, Expected::Untrusted, vec![], vec![loose]),
            (O::Fail, Expected::Pass, vec!["2 differ"], vec!["2 differ"]),
            (O::Fail, Expected::Untrusted, vec!["2 differ"], vec!["2 differ", "a pass that is not to be trusted was expected"]),
            (O::Error, Expected::Any, vec!["no GPU"], vec!["no GPU", "a verdict was expected"]),
            (O::Pass, Expected::Pass, vec![], vec![]),
        ] {
            let reasons = reasons.into_iter().map(str::to_owned).collect();
            let result = CaseResult { outcome, expected, reasons, warnings: vec![loose.to_owned()], ..case() };
            assert_eq!(result.why(), why, "{outcome:?} {expected:?}");
        }
    }

    #[test]
    fn what_is_expected() {
        use CaseOutcome as O;
        for (expected, accepted) in [
            (Expected::Pass, vec![O::Pass]),
            (Expected::Untrusted, vec![O::Untrusted]),
            (Expected::Fail, vec![O::Fail]),
            (Expected::Any, vec![O::Pass, O::Untrusted, O::Fail]),
        ] {
            for outcome in O::ALL {
                assert_eq!(expected.accepts(outcome), accepted.contains(&outcome), "{expected:?} {outcome:?}");
            }
        }
    }
}
