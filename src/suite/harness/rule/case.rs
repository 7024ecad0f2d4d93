//! By what a case of a suite is judged: a tolerance or metrics against a reference, or the bounds of a check.

use super::{CheckRule, Rule, check, keys, known};
use crate::error::{Error, Result};

/// A rule of a case.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum CaseRule {
    /// Against a reference.
    Reference(Rule),
    /// Without one.
    Check(CheckRule),
}

impl std::str::FromStr for CaseRule {
    type Err = Error;

    /// Reads `check`, with keys behind `check=true,` or without, and what a [`Rule`] reads.
    fn from_str(text: &str) -> Result<CaseRule> {
        if check::names(text) {
            return text.parse().map(CaseRule::Check);
        }
        text.parse().map(CaseRule::Reference).map_err(|e| match e {
            // A word that is none of a rule's may have been meant to be the one that only suites know.
            Error::InvalidArgument { what, value, .. } if !text.contains('=') => {
                Error::InvalidArgument { what, value, limit: known("check ") }
            }
            e => e,
        })
    }
}

/// What editors are told of a rule that is a table.
pub(crate) fn schema() -> serde_json::Value {
    serde_json::json!({ "anyOf": [keys::schema_of(keys::of_rule()), keys::schema_of(check::of_check())] })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_of_cases_are_read() {
        let rule = |text: &str| text.parse::<CaseRule>();
        assert_eq!(rule("rounding").unwrap(), CaseRule::Reference(Rule::default()));
        assert_eq!(rule("rtol=1e-3").unwrap(), CaseRule::Reference(Rule { rtol: Some(1e-3), ..Rule::default() }));
        for text in ["check", " check ", "check=true", "check=true,split_k=1"] {
            assert_eq!(rule(text).unwrap(), CaseRule::Check(CheckRule::default()), "{text}");
        }
        for (text, words) in [
            ("chek", "known: rounding exact check KEY=VALUE"),
            ("check,arch=gfx90a", "`check` is not KEY=VALUE"),
            ("rtol=1,check=true", "unknown key `rtol`; known: check arch accumulate split_k"),
            ("arch=gfx90a", "unknown key `arch`"),
            ("check=true,split_k=-2", "split_k: a whole number from 1 is wanted, not -2"),
        ] {
            let message = rule(text).unwrap_err().to_string();
            assert!(message.contains(words), "{text}: {message}");
        }
    }
}
