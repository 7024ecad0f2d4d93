//! Rules for tensors by name: from `--rule GLOB:KEY=VALUE,...`, and from a file of `[[rule]]` tables.
//!
//! Both have the keys of a suite's rules, and `name` and `dtype`, which say for which tensors a rule is.

use crate::cli::input::fits_none;
use crate::cli::pattern::Pattern;
use crate::dtype::DType;
use crate::suite::{Rule, pairs, unknown};
use crate::verify::{Computation, Limits, Profile};
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::path::Path;
use toml::{Spanned, Value};

/// What decides about tensors of some names.
#[derive(Clone, Debug, Default)]
pub(in crate::cli) struct NamedRule {
    /// For tensors of these names; all, if none are given.
    pub names: Option<Pattern>,
    /// For results of this format.
    pub dtype: Option<DType>,
    /// What decides.
    pub rule: Rule,
}

/// The keys that only a rule for some tensors has.
const OWN: [&str; 2] = ["name", "dtype"];

/// What is known of a computation of which files tell nothing; `baseline` is the error of one that was compared.
fn computation(baseline: Option<f64>) -> Computation {
    Computation { baseline_error: baseline, ..Computation::default() }
}

impl NamedRule {
    /// Sets one key.
    fn put(&mut self, key: &str, value: &Value) -> Result<(), String> {
        let word = || value.as_str().ok_or_else(|| format!("{key}: a string is wanted, not {value}"));
        match key {
            "name" => self.names = Some(Pattern::from(word()?)),
            "dtype" => self.dtype = Some(word()?.parse().map_err(|e| format!("{key}: {e}"))?),
            _ if self.rule.put(key, value)? => {}
            _ => return Err(unknown(key, &OWN)),
        }
        Ok(())
    }

    /// Whether it is for a tensor.
    pub(in crate::cli) fn is_for(&self, name: &str, result: DType) -> bool {
        self.names.as_ref().is_none_or(|names| names.matches(name)) && self.dtype.is_none_or(|dtype| dtype == result)
    }

    /// Whether it asks for the error of a baseline that is a tensor.
    pub(super) fn wants_baseline(&self) -> bool {
        self.rule.profile == Some(Profile::FlashAttention) && self.rule.baseline_error.is_none()
    }

    /// The profile, where its tolerance grows with the length of sums, takes 1 for that, and none is given.
    pub(super) fn takes_one_term(&self) -> Option<Profile> {
        let one = |profile: &Profile| matches!(profile, Profile::RocBlas | Profile::HipDnn | Profile::BenchDnn | Profile::Ck2026);
        self.rule.profile.filter(one).filter(|_| self.rule.accumulations.is_none())
    }

    /// What it demands of a result against a reference. `baseline` is the error of one that was compared.
    pub(in crate::cli) fn limits(&self, result: DType, reference: DType, baseline: Option<f64>) -> crate::Result<Limits> {
        self.rule.limits(result, reference, &computation(baseline))
    }

    /// Tells what is wrong with a rule before files are read: of their formats only what the rule itself says is known. `baseline` as in [`limits`](NamedRule::limits).
    pub(super) fn expect_limits(&self, baseline: Option<f64>) -> crate::Result<()> {
        self.rule.expect_limits(self.dtype, &computation(baseline))
    }
}

/// Reads `*.bias:rtol=1e-3,atol=1e-5`: values are those of TOML, but that a word needs no quotes.
pub(in crate::cli) fn named(text: &str) -> Result<NamedRule, String> {
    let (names, values) = text.rsplit_once(':').ok_or("GLOB:KEY=VALUE is wanted, such as `*.bias:rtol=1e-3,atol=1e-5`")?;
    let mut rule = NamedRule { names: Some(Pattern::from(names)), ..NamedRule::default() };
    for (key, value) in pairs(values)? {
        rule.put(key, &value)?;
    }
    // A baseline is not known yet.
    rule.expect_limits(Some(0.0)).map_err(|e| e.to_string())?;
    Ok(rule)
}

/// Tells of the rules of `--rule` whose pattern fits none of these names.
pub(in crate::cli) fn unused<'a>(rules: &[NamedRule], names: impl Iterator<Item = &'a str> + Clone) {
    let patterns = rules.iter().filter_map(|rule| rule.names.as_ref());
    patterns.filter(|pattern| !names.clone().any(|name| pattern.matches(name))).for_each(|pattern| fits_none("--rule", pattern));
}

/// A file of rules.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    rule: Vec<Spanned<BTreeMap<Spanned<String>, Spanned<Value>>>>,
}

/// Reads a file of rules, in its order.
pub(super) fn read(path: &Path) -> Result<Vec<NamedRule>> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    from_toml(&text).map_err(|e| anyhow::anyhow!("{}: {e}", path.display()))
}

/// How many rules a file's text has, if it can be read.
#[cfg(feature = "fuzzing")]
pub(in crate::cli) fn count_rules(text: &str) -> Result<usize, String> {
    from_toml(text).map(|rules| rules.len())
}

fn from_toml(text: &str) -> Result<Vec<NamedRule>, String> {
    let line = |at: usize| 1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count();
    let at = |start: usize, message: String| format!("line {}: {message}", line(start));
    let located = |e: toml::de::Error| at(e.span().map_or(0, |span| span.start), e.message().to_owned());
    let document: Document = toml::from_str(text).map_err(located)?;
    let mut rules = Vec::new();
    for table in document.rule {
        let mut rule = NamedRule::default();
        for (key, value) in table.get_ref() {
            rule.put(key.get_ref(), value.get_ref()).map_err(|e| at(key.span().start, e))?;
        }
        rule.expect_limits(Some(0.0)).map_err(|e| at(table.span().start, e.to_string()))?;
        rules.push(rule);
    }
    Ok(rules)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::{Judge, NonFinite, Thresholds};

    fn tolerance(rule: &NamedRule) -> [f64; 2] {
        let limits = rule.limits(DType::F32, DType::F32, None).unwrap().tolerance;
        [limits.rtol(), limits.atol(0.0)]
    }

    #[test]
    fn rules_of_names_are_read() {
        for (text, name, expected) in [
            ("*.bias:rtol=1e-3,atol=1e-5", "layer.bias", Some([1e-3, 1e-5])),
            ("*.bias:atol=0.5", "bias", None),
            ("w:atol=0.5", "w", Some([0.0, 0.5])),
            ("a:b:rtol=.5", "a:b", Some([0.5, 0.0])),
            ("layers[0].w:rtol=.5", "layers[0].w", Some([0.5, 0.0])),
            ("x?:profile=torch", "x1", Some([1.3e-6, 1e-5])),
            ("x:profile=hipdnn,range=[0, 0]", "x", Some([0.0, 0.0])),
            // No tolerance for f32, but for f16.
            ("y:profile=paddle,gradient=true,operation=arithmetic", "x", None),
        ] {
            let rule = named(text).unwrap();
            assert_eq!(rule.is_for(name, DType::F32).then(|| tolerance(&rule)), expected, "{text}");
        }
        for (text, words) in [
            ("*.bias", "GLOB:KEY=VALUE"),
            ("*:rtol", "`rtol` is not KEY=VALUE"),
            ("*:rtol=x", "rtol: a number is wanted, not \"x\""),
            ("*:rtol=-1", "-1"),
            ("*:rtl=1", "unknown key `rtl`; did you mean `rtol`?"),
            ("*:zzz=1", "unknown key `zzz`; known: name dtype rtol"),
            ("*:profile=pytorch", "known: ck"),
            ("*:rtol=1,profile=ck", "cannot be used with"),
            ("*:profile=ck,rms=1", "a profile cannot be used with metrics"),
            ("*:gradient=true", "are for a profile"),
            ("*:accumulations=-1", "a whole number from 0"),
            ("*:allowed_share=2", "a share is between 0 and 1"),
            ("*:relative_l2=-1", "relative L2 threshold cannot be -1"),
            ("*:profile=paddle,range=[1,0]", "[min, max] is wanted"),
            ("*:dtype=f32,profile=paddle,gradient=true,operation=arithmetic", "dtype f32 is not supported by profile paddle"),
            ("*:rtol=1,rtol=2", "`rtol` is given twice"),
        ] {
            let found = named(text).unwrap_err();
            assert!(found.contains(words), "{text}: {found}");
        }
    }

    #[test]
    fn a_file_says_the_same_at_length() {
        let text = "[[rule]]\nname = '*.bias'\nrtol = 1e-3\natol = 1e-5\n\n[[rule]]\ndtype = 'f16'\nrms = 1e-5\n\n[[rule]]\nrelative_l1 = 0.5\nallowed_share = 0.25\nallowed_count = 2\nequal_nonfinite = true\n";
        let rules = from_toml(text).unwrap();
        assert_eq!(tolerance(&rules[0]), [1e-3, 1e-5]);
        for (name, dtype, expected) in
            [("a.bias", DType::F16, [true; 3]), ("a", DType::F16, [false, true, true]), ("a", DType::F32, [false, false, true])]
        {
            assert_eq!([0, 1, 2].map(|i| rules[i].is_for(name, dtype)), expected, "{name}, {dtype}");
        }
        let [study, norms] = [1, 2].map(|i| rules[i].limits(DType::F16, DType::F32, None).unwrap());
        assert_eq!((study.judge, study.thresholds), (Judge::Thresholds, Some(Thresholds { rms: 1e-5, ..Thresholds::OFF })));
        assert_eq!((norms.judge, norms.thresholds), (Judge::Both, Some(Thresholds { relative_l1: 0.5, ..Thresholds::OFF })));
        assert_eq!((norms.allowed.of(100), norms.nonfinite, study.nonfinite), (27, NonFinite::EqualWhenSame, NonFinite::Fail));
    }

    #[test]
    fn errors_of_a_file_name_the_line() {
        for (text, words) in [
            ("[[rule]]\nname = 'a'\nalowed_share = 0.1", "line 3: unknown key `alowed_share`; did you mean `allowed_share`?"),
            ("[[rule]]\natol = 1\n[[rule]]\nrtol = 'x'", "line 4: rtol: a number is wanted"),
            (
                "[[rule]]\natol = 1\n\n[[rule]]\nrtol = 1\nprofile = 'ck'",
                "line 4: keys of a rule cannot be combined so: rtol and atol cannot be used",
            ),
            ("[[rules]]\natol = 1", "line 1: unknown field `rules`, expected `rule`"),
            ("[[rule]]\natol = 1\natol = 2", "line 3: duplicate key"),
            ("", "line 1: missing field `rule`"),
        ] {
            let found = from_toml(text).unwrap_err();
            assert!(found.contains(words), "{text}: {found}");
        }
    }

    /// The error of a baseline is a part of one profile's rule.
    #[test]
    fn a_baseline_makes_the_tolerance() {
        let rule = named("*:profile=flash-attention").unwrap();
        let absolute = |baseline| rule.limits(DType::F16, DType::F32, baseline).map(|limits| limits.thresholds.unwrap().absolute);
        assert!(rule.wants_baseline() && absolute(None).is_err());
        assert_eq!(absolute(Some(0.5)).unwrap() - absolute(Some(0.0)).unwrap(), 1.0);
        assert!(!named("*:profile=flash-attention,baseline_error=0.5").unwrap().wants_baseline());
    }
}
