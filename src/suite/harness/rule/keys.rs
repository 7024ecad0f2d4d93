//! The keys of a rule by name: one table, from which readers, their messages and the schema for editors follow.

use super::Rule;
use crate::error::Error;
use toml::Value;

/// Sets what a key is for.
type Set = fn(&mut Rule, &Value) -> Result<(), String>;

/// Every key of a rule: its name, the type of its values in a schema, and how it is set.
const KEYS: [(&str, &str, Set); 18] = [
    ("rtol", "number", |rule, v| set(&mut rule.rtol, number(v))),
    ("atol", "number", |rule, v| set(&mut rule.atol, number(v))),
    ("profile", "string", |rule, v| set(&mut rule.profile, parsed(v))),
    ("accumulations", "integer", |rule, v| set(&mut rule.accumulations, whole(v))),
    ("range", "array", |rule, v| set(&mut rule.range, range(v))),
    ("operation", "string", |rule, v| set(&mut rule.operation, parsed(v))),
    ("gradient", "boolean", |rule, v| set(&mut rule.gradient, yes(v))),
    ("baseline_error", "number", |rule, v| set(&mut rule.baseline_error, magnitude(v))),
    ("rms", "number", |rule, v| set(&mut rule.rms, number(v))),
    ("max_abs", "number", |rule, v| set(&mut rule.absolute, number(v))),
    ("max_rel", "number", |rule, v| set(&mut rule.relative, number(v))),
    ("max_rel_old", "number", |rule, v| set(&mut rule.relative_old, number(v))),
    ("max_eps", "number", |rule, v| set(&mut rule.epsilon, number(v))),
    ("relative_l1", "number", |rule, v| set(&mut rule.relative_l1, number(v))),
    ("relative_l2", "number", |rule, v| set(&mut rule.relative_l2, number(v))),
    ("allowed_share", "number", |rule, v| set(&mut rule.allowed_share, number(v))),
    ("allowed_count", "integer", |rule, v| set(&mut rule.allowed_count, whole(v))),
    ("equal_nonfinite", "boolean", |rule, v| set(&mut rule.equal_nonfinite, yes(v))),
];

pub(super) fn set<T>(field: &mut Option<T>, value: Result<T, String>) -> Result<(), String> {
    *field = Some(value?);
    Ok(())
}

pub(super) fn wanted(what: &str, found: &Value) -> String {
    format!("{what} is wanted, not {found}")
}

pub(super) fn number(value: &Value) -> Result<f64, String> {
    match value {
        Value::Float(x) => Ok(*x),
        Value::Integer(x) => Ok(*x as f64),
        other => Err(wanted("a number", other)),
    }
}

fn magnitude(value: &Value) -> Result<f64, String> {
    number(value).ok().filter(|x| x.is_finite() && *x >= 0.0).ok_or_else(|| wanted("a number from 0", value))
}

pub(super) fn whole<T: TryFrom<i64>>(value: &Value) -> Result<T, String> {
    value.as_integer().and_then(|x| T::try_from(x).ok()).ok_or_else(|| wanted("a whole number from 0", value))
}

pub(super) fn yes(value: &Value) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| wanted("true or false", value))
}

pub(super) fn parsed<T: std::str::FromStr<Err = Error>>(value: &Value) -> Result<T, String> {
    let word = value.as_str().ok_or_else(|| wanted("a string", value))?;
    word.parse().map_err(|e: Error| e.to_string())
}

fn range(value: &Value) -> Result<[f64; 2], String> {
    let numbers: Option<Vec<f64>> = value.as_array().map(|all| all.iter().filter_map(|x| number(x).ok()).collect());
    match numbers.as_deref() {
        Some(&[min, max]) if min <= max => Ok([min, max]),
        _ => Err(wanted("[min, max]", value)),
    }
}

impl Rule {
    /// Sets one key; false where there is no such key.
    ///
    /// # Errors
    /// When the value is none of the key's.
    pub(crate) fn put(&mut self, key: &str, value: &Value) -> Result<bool, String> {
        let Some((.., set)) = KEYS.iter().find(|(name, ..)| *name == key) else { return Ok(false) };
        set(self, value).map_err(|e| format!("{key}: {e}"))?;
        Ok(true)
    }
}

/// What is wrong with a key, and what it may have been meant to be; `others` are keys that are known beside those of a rule.
pub(crate) fn unknown(key: &str, others: &[&'static str]) -> String {
    let known: Vec<&str> = others.iter().copied().chain(KEYS.iter().map(|(name, ..)| *name)).collect();
    unknown_of(key, &known)
}

/// What is wrong with a key that is none of the known ones.
pub(super) fn unknown_of(key: &str, known: &[&str]) -> String {
    let alike = known.iter().map(|name| (strsim::jaro_winkler(name, key), *name)).max_by(|a, b| a.0.total_cmp(&b.0));
    match alike {
        Some((likeness, name)) if likeness > 0.8 => format!("unknown key `{key}`; did you mean `{name}`?"),
        _ => format!("unknown key `{key}`; known: {}", known.join(" ")),
    }
}

/// Reads `rtol=1e-3,range=[0, 1]`: values are those of TOML, but that a word needs no quotes.
///
/// # Errors
/// When a part is no pair, or a key is there twice.
pub(crate) fn pairs(text: &str) -> Result<Vec<(&str, Value)>, String> {
    let mut out: Vec<(&str, Value)> = Vec::new();
    for pair in outside_brackets(text) {
        let beside = || format!("`{pair}` is not KEY=VALUE; a profile beside other keys is profile=NAME");
        let (key, value) = pair.split_once('=').map(|(key, value)| (key.trim(), value.trim())).ok_or_else(beside)?;
        if out.iter().any(|(known, _)| *known == key) {
            return Err(format!("`{key}` is given twice"));
        }
        // `.5`, too, which TOML has not.
        let number = || value.parse().map(Value::Float);
        out.push((key, value.parse().or_else(|_| number()).unwrap_or_else(|_| Value::String(value.to_owned()))));
    }
    Ok(out)
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

/// What editors are told of a rule that is a table of these keys, with the types of their values.
pub(super) fn schema_of<'a>(keys: impl Iterator<Item = (&'a str, &'a str)>) -> serde_json::Value {
    use serde_json::{Map, Value as Json, json};
    let property = |(name, kind): (&str, &str)| {
        let pair = json!({ "type": "array", "items": { "type": "number" }, "minItems": 2, "maxItems": 2 });
        (name.to_owned(), if kind == "array" { pair } else { json!({ "type": kind }) })
    };
    let properties: Map<String, Json> = keys.map(property).collect();
    json!({ "type": "object", "additionalProperties": false, "minProperties": 1, "properties": properties })
}

/// The keys of a rule with the types of their values.
pub(super) fn of_rule() -> impl Iterator<Item = (&'static str, &'static str)> {
    KEYS.iter().map(|&(name, kind, _)| (name, kind))
}
