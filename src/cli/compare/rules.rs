//! Rules for tensors by name: what passes, from flags, from `--rule GLOB:KEY=VALUE,...`, and from a file of `[[rule]]` tables.
//!
//! All three fill the same [`Rule`] by the same table of keys.

use crate::cli::input::{glob, magnitude};
use crate::dtype::DType;
use crate::verify::profile::Operation;
use crate::verify::{AllowedMismatches, Computation, Judge, Limits, NonFinite, Profile, Thresholds, Tolerance};
use anyhow::{Context, Result, bail};
use glob::Pattern;
use std::collections::BTreeMap;
use std::path::Path;
use toml::{Spanned, Value};

/// What decides about a tensor. What is not given has no say.
#[derive(Clone, Debug, Default)]
pub(in crate::cli) struct Rule {
    /// For tensors of these names; all, if none are given.
    pub names: Option<Pattern>,
    /// For results of this format.
    pub dtype: Option<DType>,
    pub rtol: Option<f64>,
    pub atol: Option<f64>,
    pub profile: Option<Profile>,
    pub accumulations: Option<usize>,
    pub range: Option<[f64; 2]>,
    pub operation: Option<Operation>,
    pub gradient: Option<bool>,
    pub baseline_error: Option<f64>,
    pub rms: Option<f64>,
    pub absolute: Option<f64>,
    pub relative: Option<f64>,
    pub relative_l1: Option<f64>,
    pub relative_l2: Option<f64>,
    pub allowed_share: Option<f64>,
    pub allowed_count: Option<u64>,
    pub equal_nonfinite: Option<bool>,
}

/// Sets what a key is for.
type Set = fn(&mut Rule, &Value) -> Result<(), String>;

/// Every key of a rule.
const KEYS: [(&str, Set); 18] = [
    ("name", |rule, v| set(&mut rule.names, word(v).and_then(glob))),
    ("dtype", |rule, v| set(&mut rule.dtype, parsed(v))),
    ("rtol", |rule, v| set(&mut rule.rtol, number(v))),
    ("atol", |rule, v| set(&mut rule.atol, number(v))),
    ("profile", |rule, v| set(&mut rule.profile, parsed(v))),
    ("accumulations", |rule, v| set(&mut rule.accumulations, whole(v))),
    ("range", |rule, v| set(&mut rule.range, range(v))),
    ("operation", |rule, v| set(&mut rule.operation, parsed(v))),
    ("gradient", |rule, v| set(&mut rule.gradient, yes(v))),
    ("baseline_error", |rule, v| set(&mut rule.baseline_error, number(v).and_then(|x| magnitude(&x.to_string())))),
    ("rms", |rule, v| set(&mut rule.rms, number(v))),
    ("max_abs", |rule, v| set(&mut rule.absolute, number(v))),
    ("max_rel", |rule, v| set(&mut rule.relative, number(v))),
    ("relative_l1", |rule, v| set(&mut rule.relative_l1, number(v))),
    ("relative_l2", |rule, v| set(&mut rule.relative_l2, number(v))),
    ("allowed_share", |rule, v| set(&mut rule.allowed_share, number(v))),
    ("allowed_count", |rule, v| set(&mut rule.allowed_count, whole(v))),
    ("equal_nonfinite", |rule, v| set(&mut rule.equal_nonfinite, yes(v))),
];

fn set<T>(field: &mut Option<T>, value: Result<T, String>) -> Result<(), String> {
    *field = Some(value?);
    Ok(())
}

fn wanted(what: &str, found: &Value) -> String {
    format!("{what} is wanted, not {found}")
}

fn number(value: &Value) -> Result<f64, String> {
    match value {
        Value::Float(x) => Ok(*x),
        Value::Integer(x) => Ok(*x as f64),
        other => Err(wanted("a number", other)),
    }
}

fn whole<T: TryFrom<i64>>(value: &Value) -> Result<T, String> {
    value.as_integer().and_then(|x| T::try_from(x).ok()).ok_or_else(|| wanted("a whole number from 0", value))
}

fn word(value: &Value) -> Result<&str, String> {
    value.as_str().ok_or_else(|| wanted("a string", value))
}

fn yes(value: &Value) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| wanted("true or false", value))
}

fn parsed<T: std::str::FromStr<Err = crate::Error>>(value: &Value) -> Result<T, String> {
    word(value)?.parse().map_err(|e: crate::Error| e.to_string())
}

fn range(value: &Value) -> Result<[f64; 2], String> {
    let numbers: Option<Vec<f64>> = value.as_array().map(|all| all.iter().filter_map(|x| number(x).ok()).collect());
    match numbers.as_deref() {
        Some(&[min, max]) if min <= max => Ok([min, max]),
        _ => Err(wanted("[min, max]", value)),
    }
}

impl Rule {
    /// Sets one key.
    fn put(&mut self, key: &str, value: &Value) -> Result<(), String> {
        let Some((_, set)) = KEYS.iter().find(|(name, _)| *name == key) else { return Err(unknown(key)) };
        set(self, value).map_err(|e| format!("{key}: {e}"))
    }

    /// Whether it is for a tensor.
    pub(in crate::cli) fn is_for(&self, name: &str, result: DType) -> bool {
        self.names.as_ref().is_none_or(|names| names.matches(name)) && self.dtype.is_none_or(|dtype| dtype == result)
    }

    /// Whether it asks for the error of a baseline that is a tensor.
    pub(super) fn wants_baseline(&self) -> bool {
        self.profile == Some(Profile::FlashAttention) && self.baseline_error.is_none()
    }

    /// What it demands of a result against a reference. `baseline` is the error of one that was compared.
    pub(in crate::cli) fn limits(&self, result: DType, reference: DType, baseline: Option<f64>) -> Result<Limits> {
        self.check()?;
        let limits = if let Some(profile) = self.profile {
            profile.limits_for(result, reference, &self.computation(baseline))?
        } else if self.rtol.is_some() || self.atol.is_some() {
            Limits::elements(Tolerance::new(self.rtol.unwrap_or(0.0), self.atol.unwrap_or(0.0))?, "given")
        } else {
            let tolerance = Tolerance::rounding(result, reference, self.accumulations.unwrap_or(1));
            Limits::elements(tolerance, "what rounding explains")
        };
        let mut limits = if self.has_metrics() { limits.with_thresholds(self.thresholds()?, self.judge()) } else { limits };
        if self.has_allowance() {
            limits.allowed = AllowedMismatches::new(self.allowed_share.unwrap_or(0.0), self.allowed_count.unwrap_or(0))?;
        }
        if self.equal_nonfinite == Some(true) {
            limits.nonfinite = NonFinite::EqualWhenSame;
        }
        Ok(limits)
    }

    /// That its keys go together.
    fn check(&self) -> Result<()> {
        let tolerance = self.rtol.is_some() || self.atol.is_some();
        if tolerance && (self.profile.is_some() || self.accumulations.is_some()) {
            bail!("rtol and atol cannot be used with profile and accumulations");
        }
        if self.profile.is_some() && (self.has_metrics() || self.has_allowance()) {
            bail!("a profile cannot be used with metrics, allowed_share and allowed_count: it has its own");
        }
        let asked = self.range.is_some() || self.operation.is_some() || self.gradient.is_some() || self.baseline_error.is_some();
        if asked && self.profile.is_none() {
            bail!("range, operation, gradient and baseline_error are for a profile");
        }
        Ok(())
    }

    fn computation(&self, baseline: Option<f64>) -> Computation {
        Computation {
            accumulations: self.accumulations,
            range: self.range,
            operation: self.operation,
            gradient: self.gradient.unwrap_or(false),
            baseline_error: self.baseline_error.or(baseline),
        }
    }

    fn has_metrics(&self) -> bool {
        [self.rms, self.absolute, self.relative, self.relative_l1, self.relative_l2].iter().any(Option::is_some)
    }

    fn has_allowance(&self) -> bool {
        self.allowed_share.is_some() || self.allowed_count.is_some()
    }

    /// Elements count beside metrics where something was said of elements.
    fn judge(&self) -> Judge {
        let elements = self.rtol.is_some() || self.atol.is_some() || self.has_allowance();
        if elements { Judge::Both } else { Judge::Thresholds }
    }

    fn thresholds(&self) -> Result<Thresholds> {
        let off = |threshold: Option<f64>| threshold.unwrap_or(f64::INFINITY);
        let study = Thresholds::new(off(self.rms), off(self.absolute), off(self.relative))?;
        Ok(study.with_norms(off(self.relative_l1), off(self.relative_l2))?)
    }

    /// Tells what is wrong with a rule before files are read. A baseline is not known yet.
    fn expect_limits(&self) -> Result<(), String> {
        self.limits(self.dtype.unwrap_or(DType::F32), DType::F32, Some(0.0)).map(drop).map_err(|e| e.to_string())
    }
}

/// What is wrong with a key, and what it may have been meant to be.
fn unknown(key: &str) -> String {
    let alike = KEYS.iter().map(|(name, _)| (strsim::jaro_winkler(name, key), *name)).max_by(|a, b| a.0.total_cmp(&b.0));
    match alike {
        Some((likeness, name)) if likeness > 0.8 => format!("unknown key `{key}`; did you mean `{name}`?"),
        _ => format!("unknown key `{key}`; known: {}", KEYS.map(|(name, _)| name).join(" ")),
    }
}

/// Reads `*.bias:rtol=1e-3,atol=1e-5`: values are those of TOML, but that a word needs no quotes.
pub(in crate::cli) fn named(text: &str) -> Result<Rule, String> {
    let (names, values) = text.rsplit_once(':').ok_or("GLOB:KEY=VALUE is wanted, such as `*.bias:rtol=1e-3,atol=1e-5`")?;
    let mut rule = Rule { names: Some(glob(names)?), ..Rule::default() };
    for pair in outside_brackets(values) {
        let (key, value) = pair.split_once('=').ok_or_else(|| format!("`{pair}` is not KEY=VALUE"))?;
        // `.5`, too, which TOML has not.
        let number = || value.parse().map(Value::Float);
        let value = value.parse().or_else(|_| number()).unwrap_or_else(|_| Value::String(value.to_owned()));
        rule.put(key, &value)?;
    }
    rule.expect_limits()?;
    Ok(rule)
}

/// The parts between commas that are in no brackets.
fn outside_brackets(text: &str) -> Vec<&str> {
    let mut depth = 0;
    let comma = |c: char| {
        depth += i32::from(c == '[') - i32::from(c == ']');
        c == ',' && depth == 0
    };
    text.split(comma).collect()
}

/// A file of rules.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    rule: Vec<Spanned<BTreeMap<Spanned<String>, Spanned<Value>>>>,
}

/// Reads a file of rules, in its order.
pub(super) fn read(path: &Path) -> Result<Vec<Rule>> {
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    from_toml(&text).map_err(|e| anyhow::anyhow!("{}: {e}", path.display()))
}

/// How many rules a file's text has, if it can be read.
pub(in crate::cli) fn count_rules(text: &str) -> Result<usize, String> {
    from_toml(text).map(|rules| rules.len())
}

fn from_toml(text: &str) -> Result<Vec<Rule>, String> {
    let line = |at: usize| 1 + text.bytes().take(at).filter(|byte| *byte == b'\n').count();
    let at = |start: usize, message: String| format!("line {}: {message}", line(start));
    let located = |e: toml::de::Error| at(e.span().map_or(0, |span| span.start), e.message().to_owned());
    let document: Document = toml::from_str(text).map_err(located)?;
    let mut rules = Vec::new();
    for table in document.rule {
        let mut rule = Rule::default();
        for (key, value) in table.get_ref() {
            rule.put(key.get_ref(), value.get_ref()).map_err(|e| at(key.span().start, e))?;
        }
        rule.expect_limits().map_err(|e| at(table.span().start, e))?;
        rules.push(rule);
    }
    Ok(rules)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tolerance(rule: &Rule) -> [f64; 2] {
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
            ("x?:profile=torch", "x1", Some([1.3e-6, 1e-5])),
            ("x:profile=hipdnn,range=[0, 0]", "x", Some([0.0, 0.0])),
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
            ("[:rtol=1", "`[`: Pattern syntax error"),
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
            ("[[rule]]\natol = 1\n\n[[rule]]\nrtol = 1\nprofile = 'ck'", "line 4: rtol and atol cannot be used"),
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
