//! What passes: the rules of a suite's cases, of `compare --rule` and `--rules`, and of `golden check --rule`.
//!
//! Cases of suites may be judged by a [`CheckRule`] as well, without a reference: a [`CaseRule`] is either.
//!
//! A [`Rule`] is a set of [keys](keys) with values. What no key says comes from what is known of the [`Computation`], and what neither says has no say: without any
//! key a rule is what rounding explains, and with metrics alone elements do not count.

mod case;
mod check;
mod keys;

pub(crate) use case::{CaseRule, schema};
pub(crate) use check::{CheckRule, Checkable};
pub(crate) use keys::{pairs, unknown};

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::verify::profile::Operation;
use crate::verify::{AllowedMismatches, Computation, Judge, Limits, NonFinite, Profile, Thresholds, Tolerance};

/// A rule by which elements, or metrics, are judged.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Rule {
    pub(crate) rtol: Option<f64>,
    pub(crate) atol: Option<f64>,
    pub(crate) profile: Option<Profile>,
    pub(crate) accumulations: Option<usize>,
    pub(crate) range: Option<[f64; 2]>,
    pub(crate) operation: Option<Operation>,
    pub(crate) gradient: Option<bool>,
    pub(crate) baseline_error: Option<f64>,
    pub(crate) rms: Option<f64>,
    pub(crate) absolute: Option<f64>,
    pub(crate) relative: Option<f64>,
    pub(crate) relative_old: Option<f64>,
    pub(crate) epsilon: Option<f64>,
    pub(crate) relative_l1: Option<f64>,
    pub(crate) relative_l2: Option<f64>,
    pub(crate) allowed_share: Option<f64>,
    pub(crate) allowed_count: Option<u64>,
    pub(crate) equal_nonfinite: Option<bool>,
}

impl Rule {
    /// What it demands of a result against a reference, where this much is known of the computation.
    ///
    /// # Errors
    /// When keys do not go together, a value is none of its key's, or the profile has no tolerance for the formats.
    pub(crate) fn limits(&self, result: DType, reference: DType, known: &Computation) -> Result<Limits> {
        self.check()?;
        let computation = self.computation(known);
        let mut limits = if let Some(profile) = self.profile {
            profile.limits_for(result, reference, &computation)?
        } else if self.has_tolerance() {
            Limits::elements(Tolerance::new(self.rtol.unwrap_or(0.0), self.atol.unwrap_or(0.0))?, "given")
        } else {
            let tolerance = Tolerance::rounding(result, reference, computation.accumulations.unwrap_or(1));
            Limits::elements(tolerance, "what rounding explains")
        };
        if self.has_metrics() {
            limits = limits.with_thresholds(self.thresholds()?, self.judge());
        }
        if self.has_allowance() {
            limits.allowed = AllowedMismatches::new(self.allowed_share.unwrap_or(0.0), self.allowed_count.unwrap_or(0))?;
        }
        if self.equal_nonfinite == Some(true) {
            limits.nonfinite = NonFinite::EqualWhenSame;
        }
        Ok(limits)
    }

    /// The same of a result whose elements are products of so many factors.
    ///
    /// # Errors
    /// Those of [`limits`](Rule::limits).
    pub(crate) fn limits_of_products(&self, result: DType, reference: DType, known: &Computation, factors: usize) -> Result<Limits> {
        let mut limits = self.limits(result, reference, known)?;
        if self.is_rounding() {
            let accumulations = self.computation(known).accumulations.unwrap_or(1);
            limits.tolerance = Tolerance::rounding_of_products(result, reference, accumulations, factors);
        }
        Ok(limits)
    }

    /// That the rule makes limits for a result of this format, or, where none is given, of some format: a profile need not have all of them.
    ///
    /// # Errors
    /// Those of [`limits`](Rule::limits).
    #[cfg(feature = "cli")]
    pub(crate) fn expect_limits(&self, result: Option<DType>, known: &Computation) -> Result<()> {
        let first = self.limits(result.unwrap_or(DType::F32), DType::F32, known).map(drop);
        if result.is_some() || !matches!(first, Err(Error::Unsupported { .. })) {
            return first;
        }
        let others = DType::ALL.map(|dtype| self.limits(dtype, dtype, known).map(drop));
        // What is wrong whatever the format is says more than a format that the profile lacks.
        let says = |found: &Result<()>| !matches!(found, Err(Error::Unsupported { .. }));
        match others.iter().any(Result::is_ok) {
            true => Ok(()),
            false => others.into_iter().find(says).unwrap_or(first),
        }
    }

    /// Whether the tolerance is the one that rounding explains, by which elements are judged or, where metrics decide, shown.
    pub(crate) fn is_rounding(&self) -> bool {
        self.profile.is_none() && !self.has_tolerance()
    }

    /// That its keys go together.
    fn check(&self) -> Result<()> {
        let wrong =
            |limit: &str| Err(Error::InvalidArgument { what: "keys of a rule", value: "combined so".to_owned(), limit: limit.to_owned() });
        if self.has_tolerance() && (self.profile.is_some() || self.accumulations.is_some()) {
            return wrong("rtol and atol cannot be used with profile and accumulations");
        }
        if self.profile.is_some() && (self.has_metrics() || self.has_allowance()) {
            return wrong("a profile cannot be used with metrics, allowed_share and allowed_count: it has its own");
        }
        let asked = self.range.is_some() || self.operation.is_some() || self.gradient.is_some() || self.baseline_error.is_some();
        if asked && self.profile.is_none() {
            return wrong("range, operation, gradient and baseline_error are for a profile");
        }
        if let Some((profile, key)) = self.unasked() {
            return wrong(&format!("profile {profile} does not depend on {key}"));
        }
        Ok(())
    }

    /// The profile, and a key that is given and that it does not depend on, if there is one. What is known of a computation beside the keys may be more than a profile asks for.
    pub(crate) fn unasked(&self) -> Option<(Profile, &'static str)> {
        let profile = self.profile?;
        let given = [
            ("accumulations", self.accumulations.is_some()),
            ("range", self.range.is_some()),
            ("operation", self.operation.is_some()),
            ("gradient", self.gradient == Some(true)),
            ("baseline_error", self.baseline_error.is_some()),
        ];
        given.into_iter().find(|(key, is)| *is && !asked_by(profile).contains(key)).map(|(key, _)| (profile, key))
    }

    fn computation(&self, known: &Computation) -> Computation {
        Computation {
            accumulations: self.accumulations.or(known.accumulations),
            range: self.range.or(known.range),
            operation: self.operation.or(known.operation),
            gradient: self.gradient.unwrap_or(known.gradient),
            baseline_error: self.baseline_error.or(known.baseline_error),
        }
    }

    fn has_tolerance(&self) -> bool {
        self.rtol.is_some() || self.atol.is_some()
    }

    fn has_metrics(&self) -> bool {
        let differences = [self.absolute, self.relative, self.relative_old, self.epsilon];
        differences.iter().chain(&[self.rms, self.relative_l1, self.relative_l2]).any(Option::is_some)
    }

    fn has_allowance(&self) -> bool {
        self.allowed_share.is_some() || self.allowed_count.is_some()
    }

    /// Elements count beside metrics where something was said of elements.
    fn judge(&self) -> Judge {
        if self.has_tolerance() || self.has_allowance() { Judge::Both } else { Judge::Thresholds }
    }

    fn thresholds(&self) -> Result<Thresholds> {
        let off = |threshold: Option<f64>| threshold.unwrap_or(f64::INFINITY);
        let study = Thresholds::new(off(self.rms), off(self.absolute), off(self.relative))?;
        let study = study.with_relative_old(off(self.relative_old))?.with_epsilon(off(self.epsilon))?;
        study.with_norms(off(self.relative_l1), off(self.relative_l2))
    }
}

/// What of a computation a profile depends on.
fn asked_by(profile: Profile) -> &'static [&'static str] {
    match profile {
        Profile::Ck | Profile::Ck2026 | Profile::RocBlas | Profile::RocMlir | Profile::BenchDnn | Profile::LlamaCpp => &["accumulations"],
        Profile::HipDnn => &["accumulations", "range"],
        Profile::Paddle => &["accumulations", "range", "operation", "gradient"],
        Profile::FlashAttention => &["baseline_error"],
        _ => &[],
    }
}

/// What a rule may be; `more` are words that some readers know beside those of all.
fn known(more: &str) -> String {
    let profiles = Profile::ALL.map(Profile::name).join(" ");
    format!("known: rounding exact {more}KEY=VALUE,... (such as rtol=1e-3 or rms=1e-5) {profiles}")
}

impl std::str::FromStr for Rule {
    type Err = Error;

    /// Reads `rounding`, `exact`, the name of a profile, or `KEY=VALUE,...`.
    fn from_str(text: &str) -> Result<Rule> {
        let wrong = |limit: String| Error::InvalidArgument { what: "rule", value: text.to_owned(), limit };
        match text.trim() {
            "rounding" => return Ok(Rule::default()),
            "exact" => return Ok(Rule { rtol: Some(0.0), atol: Some(0.0), ..Rule::default() }),
            word if !word.contains('=') => {
                let known = || wrong(known(""));
                return word.parse().map(|profile| Rule { profile: Some(profile), ..Rule::default() }).map_err(|_| known());
            }
            _ => {}
        }
        let mut rule = Rule::default();
        for (key, value) in pairs(text).map_err(wrong)? {
            if !rule.put(key, &value).map_err(wrong)? {
                return Err(wrong(unknown(key, &[])));
            }
        }
        Ok(rule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Computation = Computation { accumulations: None, range: None, operation: None, gradient: false, baseline_error: None };

    #[test]
    fn rules_are_read() {
        for (text, rule) in [
            ("rounding", Rule::default()),
            ("exact", Rule { rtol: Some(0.0), atol: Some(0.0), ..Rule::default() }),
            ("rtol=1e-3", Rule { rtol: Some(1e-3), ..Rule::default() }),
            ("atol=.5, rtol=0.25", Rule { rtol: Some(0.25), atol: Some(0.5), ..Rule::default() }),
            ("torch", Rule { profile: Some(Profile::Torch), ..Rule::default() }),
            ("rms=1e-5", Rule { rms: Some(1e-5), ..Rule::default() }),
            (
                "rtol=1,allowed_share=0.1,allowed_count=3",
                Rule { rtol: Some(1.0), allowed_share: Some(0.1), allowed_count: Some(3), ..Rule::default() },
            ),
            (
                "profile=hipdnn,range=[-1, 2],equal_nonfinite=true",
                Rule { profile: Some(Profile::HipDnn), range: Some([-1.0, 2.0]), equal_nonfinite: Some(true), ..Rule::default() },
            ),
        ] {
            assert_eq!(text.parse::<Rule>().unwrap(), rule, "{text}");
        }
        for (text, words) in [
            ("pytorch", "torch"),
            ("", "known: rounding exact KEY=VALUE"),
            ("=", "unknown key ``"),
            ("rtol=x", "rtol: a number is wanted, not \"x\""),
            ("rtol=1,rmss=1", "unknown key `rmss`; did you mean `rms`?"),
            ("dtype=f16", "unknown key `dtype`"),
            ("rms=1,rms=2", "`rms` is given twice"),
            ("paddle,gradient=true", "`paddle` is not KEY=VALUE; a profile beside other keys is profile=NAME"),
            ("allowed_count=1.5", "allowed_count: a whole number from 0 is wanted"),
        ] {
            let message = text.parse::<Rule>().unwrap_err().to_string();
            assert!(message.contains(words), "{text}: {message}");
        }
    }

    #[test]
    fn values_that_make_no_limits_are_errors() {
        for (text, words) in [
            ("rtol=-1", "0 or larger"),
            ("rms=nan", "RMS threshold cannot be NaN"),
            ("relative_l1=-1", "relative L1 threshold cannot be -1"),
            ("max_eps=-1", "epsilon threshold cannot be -1"),
            ("profile=ck,max_rel_old=1", "a profile cannot be used with metrics"),
            ("allowed_share=2", "a share is between 0 and 1"),
            ("atol=1,profile=ck", "keys of a rule cannot be combined so: rtol and atol cannot be used with profile"),
            ("profile=ck,rms=1", "a profile cannot be used with metrics"),
            ("gradient=true", "are for a profile"),
            ("profile=torch,accumulations=9", "profile torch does not depend on accumulations"),
            ("profile=ck,range=[0, 1]", "profile ck does not depend on range"),
            ("profile=hipdnn,baseline_error=0", "profile hipdnn does not depend on baseline_error"),
        ] {
            let message = text.parse::<Rule>().unwrap().limits(DType::F16, DType::F64, &NOTHING).unwrap_err().to_string();
            assert!(message.contains(words), "{text}: {message}");
        }
    }

    #[test]
    fn profiles_ask_for_what_they_depend_on() {
        let sum = Computation { accumulations: Some(9), range: Some([2.0, 4.0]), operation: Some(Operation::Sum), ..NOTHING };
        let gradient = Computation { gradient: true, operation: Some(Operation::Copy), ..NOTHING };
        for profile in Profile::ALL {
            let limits = |known: Computation| format!("{:?}", profile.limits_for(DType::F16, DType::F32, &known));
            let changes = |change: &dyn Fn(Computation) -> Computation| {
                [NOTHING, sum, gradient].into_iter().any(|known| limits(known) != limits(change(known)))
            };
            let depends = [
                ("accumulations", changes(&|known| Computation { accumulations: Some(4096), ..known })),
                ("range", changes(&|known| Computation { range: Some([64.0, 128.0]), ..known })),
                ("operation", changes(&|known| Computation { operation: Some(Operation::Mean), ..known })),
                ("gradient", changes(&|known| Computation { gradient: true, ..known })),
                ("baseline_error", changes(&|known| Computation { baseline_error: Some(0.5), ..known })),
            ];
            let depends: Vec<&str> = depends.into_iter().filter(|(_, depends)| *depends).map(|(key, _)| key).collect();
            assert_eq!(asked_by(profile), depends, "{profile}");
        }
    }

    /// The rule's own keys come before what is known.
    #[test]
    fn what_is_known_of_a_computation_fills_in() {
        let known = Computation { accumulations: Some(4096), ..NOTHING };
        let limits = |text: &str, known: &Computation| text.parse::<Rule>().unwrap().limits(DType::F16, DType::F64, known).unwrap();
        assert_eq!(limits("rounding", &known).tolerance, Tolerance::rounding(DType::F16, DType::F64, 4096));
        assert_eq!(limits("accumulations=8192", &known).tolerance, Tolerance::rounding(DType::F16, DType::F64, 8192));
        assert_eq!(limits("profile=ck,accumulations=4096", &NOTHING), limits("ck", &known));
        assert_eq!(limits("rms=1", &known).judge, Judge::Thresholds);
        assert_eq!(limits("rms=1,rtol=1", &known).judge, Judge::Both);
    }

    #[cfg(feature = "cli")]
    #[test]
    fn a_rule_for_some_format_is_one() {
        let expect = |text: &str, dtype| text.parse::<Rule>().unwrap().expect_limits(dtype, &NOTHING).map_err(|e| e.to_string());
        let gradient = "profile=paddle,gradient=true,operation=arithmetic";
        assert_eq!(expect(gradient, None), Ok(()));
        assert_eq!(expect(gradient, Some(DType::F16)), Ok(()));
        let unsupported = expect(gradient, Some(DType::F32)).unwrap_err();
        assert!(unsupported.contains("not supported by profile paddle"), "{unsupported}");
        for (text, words) in
            [("profile=paddle,gradient=true", "judges gradients by the kind of operation"), ("rtol=-1", "rtol cannot be -1")]
        {
            let message = expect(text, None).unwrap_err();
            assert!(message.contains(words), "{text}: {message}");
        }
    }
}
