//! What passes: the rules that a suite may name.

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::verify::{Computation, Limits, Profile, Tolerance};

/// A rule by which elements, or metrics, are judged.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Rule {
    /// What the rounding of a right kernel explains.
    Rounding,
    /// Equality.
    Exact,
    /// Tolerances as given.
    Given { rtol: f64, atol: f64 },
    /// Another project's.
    Profile(Profile),
}

impl Rule {
    /// The limits for a result of these formats.
    pub(crate) fn limits(self, result: DType, reference: DType, computation: &Computation) -> Result<Limits> {
        Ok(match self {
            Rule::Rounding => {
                let tolerance = Tolerance::rounding(result, reference, computation.accumulations.unwrap_or(1));
                Limits::elements(tolerance, "what rounding explains")
            }
            Rule::Exact => Limits::elements(Tolerance::exact(), "equality"),
            Rule::Given { rtol, atol } => Limits::elements(Tolerance::new(rtol, atol)?, "given"),
            Rule::Profile(profile) => profile.limits_for(result, reference, computation)?,
        })
    }
}

impl std::str::FromStr for Rule {
    type Err = Error;

    fn from_str(text: &str) -> Result<Rule> {
        match text {
            "rounding" => return Ok(Rule::Rounding),
            "exact" => return Ok(Rule::Exact),
            _ => {}
        }
        let wrong = || Error::InvalidArgument {
            what: "rule",
            value: text.to_owned(),
            limit: format!("known: rounding exact rtol=X,atol=Y {}", Profile::ALL.map(Profile::name).join(" ")),
        };
        if !text.contains('=') {
            return text.parse().map(Rule::Profile).map_err(|_| wrong());
        }
        let (mut rtol, mut atol) = (0.0, 0.0);
        for pair in text.split(',') {
            let (key, value) = pair.split_once('=').ok_or_else(wrong)?;
            let value: f64 = value.trim().parse().map_err(|_| wrong())?;
            match key.trim() {
                "rtol" => rtol = value,
                "atol" => atol = value,
                _ => return Err(wrong()),
            }
        }
        // A tolerance that is none is told where it stands, not when cases run.
        Tolerance::new(rtol, atol)?;
        Ok(Rule::Given { rtol, atol })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read() {
        for (text, rule) in [
            ("rounding", Rule::Rounding),
            ("exact", Rule::Exact),
            ("rtol=1e-3", Rule::Given { rtol: 1e-3, atol: 0.0 }),
            ("atol=0.5, rtol=0.25", Rule::Given { rtol: 0.25, atol: 0.5 }),
            ("torch", Rule::Profile(Profile::Torch)),
        ] {
            assert_eq!(text.parse::<Rule>().unwrap(), rule, "{text}");
        }
        for (text, words) in
            [("pytorch", "torch"), ("rtol=x", "rtol=X"), ("rtol=1,ztol=1", "rtol=X"), ("rtol=-1", "0 or larger"), ("=", "known")]
        {
            let message = text.parse::<Rule>().unwrap_err().to_string();
            assert!(message.contains(words), "{text}: {message}");
        }
    }
}
