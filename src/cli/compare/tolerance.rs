//! Flags that say what passes, for all tensors or for those of some names.

use crate::cli::input::{glob, whole};
use crate::dtype::DType;
use crate::verify::{Judge, Limits, NonFinite, Options, Profile, Strict, Thresholds, Tolerance};
use anyhow::{Result, bail};
use globset::GlobMatcher;

#[derive(Debug, clap::Args)]
pub(super) struct ToleranceArgs {
    /// Relative tolerance (0 where only --atol is given)
    #[arg(long, help_heading = "Tolerance", value_name = "X", conflicts_with = "profile")]
    rtol: Option<f64>,
    /// Absolute tolerance (0 where only --rtol is given)
    #[arg(long, help_heading = "Tolerance", value_name = "X", conflicts_with = "profile")]
    atol: Option<f64>,
    /// The rule of another project; `hipverify tolerance --list` has their names
    #[arg(long, help_heading = "Tolerance", value_name = "NAME", value_parser = clap::value_parser!(Profile))]
    profile: Option<Profile>,
    /// Length of the sums behind each element: K of a GEMM, C*Y*X of a convolution
    #[arg(long, help_heading = "Tolerance", value_name = "N", value_parser = whole::<usize>, conflicts_with_all = ["rtol", "atol"])]
    accumulations: Option<usize>,
    /// For tensors of these names instead of the flags above; the first that matches counts. KEY is rtol, atol, profile, accumulations
    #[arg(long = "rule", help_heading = "Tolerance", value_name = "GLOB:KEY=VALUE,...", value_parser = named_rule)]
    rules: Vec<NamedRule>,
    /// Judge by the metrics RMS, largest absolute and largest relative difference (`inf` switches one off); with --rtol or
    /// --atol the elements must pass as well
    #[arg(
        long,
        help_heading = "Tolerance",
        value_name = "RMS,ABS,REL",
        value_delimiter = ',',
        allow_hyphen_values = true,
        conflicts_with = "profile"
    )]
    thresholds: Vec<f64>,
    /// Let NaN match NaN, and infinity match infinity of the same sign
    #[arg(long, help_heading = "Tolerance")]
    equal_nonfinite: bool,
    /// Write an untrusted pass into the JUnit file as a failure also where the tolerance was given; where it was derived, it always is one
    #[arg(long, help_heading = "Tolerance")]
    strict: bool,
}

/// A choice of tolerance for the tensors whose name matches.
#[derive(Clone, Debug)]
struct NamedRule {
    names: GlobMatcher,
    choice: Choice,
}

/// Which tolerance.
#[derive(Clone, Copy, Debug, Default)]
struct Choice {
    rtol: Option<f64>,
    atol: Option<f64>,
    profile: Option<Profile>,
    accumulations: Option<usize>,
}

/// Reads `*.bias:rtol=1e-3,atol=1e-5`.
fn named_rule(text: &str) -> Result<NamedRule, String> {
    let (names, values) = text.rsplit_once(':').ok_or("GLOB:KEY=VALUE is wanted, such as `*.bias:rtol=1e-3,atol=1e-5`")?;
    let mut choice = Choice::default();
    for pair in values.split(',') {
        let (key, value) = pair.split_once('=').ok_or_else(|| format!("`{pair}` is not KEY=VALUE"))?;
        let number = || value.parse::<f64>().map_err(|e| format!("{key} `{value}`: {e}"));
        match key {
            "rtol" => choice.rtol = Some(number()?),
            "atol" => choice.atol = Some(number()?),
            "profile" => choice.profile = Some(value.parse().map_err(|e: crate::Error| e.to_string())?),
            "accumulations" => choice.accumulations = Some(value.parse().map_err(|e| format!("{key} `{value}`: {e}"))?),
            _ => return Err(format!("unknown key `{key}`; known: rtol atol profile accumulations")),
        }
    }
    if (choice.rtol.is_some() || choice.atol.is_some()) && (choice.profile.is_some() || choice.accumulations.is_some()) {
        return Err("rtol and atol cannot be used with profile and accumulations".to_owned());
    }
    // A tolerance that is none is told before files are read.
    choice.limits(DType::F32, DType::F32).map_err(|e| e.to_string())?;
    Ok(NamedRule { names: glob(names)?, choice })
}

impl Choice {
    fn limits(&self, result: DType, reference: DType) -> Result<Limits> {
        if let Some(profile) = self.profile {
            return Ok(profile.limits(result, reference, self.accumulations)?);
        }
        Ok(if self.rtol.is_some() || self.atol.is_some() {
            Limits::elements(Tolerance::new(self.rtol.unwrap_or(0.0), self.atol.unwrap_or(0.0))?, "given")
        } else {
            let tolerance = Tolerance::rounding(result, reference, self.accumulations.unwrap_or(1));
            Limits::elements(tolerance, "what rounding explains")
        })
    }
}

impl ToleranceArgs {
    /// Tells what is wrong with the flags.
    pub(super) fn check(&self) -> Result<()> {
        self.of("", DType::F32, DType::F32).map(drop)
    }

    /// The limits for a tensor of a pair of formats.
    pub(super) fn of(&self, name: &str, result: DType, reference: DType) -> Result<Limits> {
        if let Some(rule) = self.rules.iter().find(|rule| rule.names.is_match(name)) {
            return rule.choice.limits(result, reference);
        }
        let choice = Choice { rtol: self.rtol, atol: self.atol, profile: self.profile, accumulations: self.accumulations };
        let limits = choice.limits(result, reference)?;
        match self.thresholds.as_slice() {
            [] => Ok(limits),
            &[rms, absolute, relative] => {
                let judge = if self.rtol.is_some() || self.atol.is_some() { Judge::Both } else { Judge::Thresholds };
                Ok(limits.with_thresholds(Thresholds::new(rms, absolute, relative)?, judge))
            }
            other => bail!("--thresholds has {} numbers; it takes 3: RMS,ABS,REL", other.len()),
        }
    }

    /// Whether NaN matches NaN, by a flag or the profile.
    pub(super) fn equal_nonfinite(&self) -> bool {
        let profile = || self.of("", DType::F32, DType::F32).is_ok_and(|limits| limits.nonfinite == NonFinite::EqualWhenSame);
        self.equal_nonfinite || profile()
    }

    /// Options with these flags.
    pub(super) fn options(&self, options: Options) -> Options {
        let options = if self.strict { options.strict(Strict::Always) } else { options };
        if self.equal_nonfinite { options.nonfinite(NonFinite::EqualWhenSame) } else { options }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_of_names_are_read() {
        for (text, name, expected) in [
            ("*.bias:rtol=1e-3,atol=1e-5", "layer.bias", Some([1e-3, 1e-5])),
            ("*.bias:atol=0.5", "bias", None),
            ("w:atol=0.5", "w", Some([0.0, 0.5])),
            ("a:b:rtol=0.5", "a:b", Some([0.5, 0.0])),
            ("x?:profile=torch", "x1", Some([1.3e-6, 1e-5])),
        ] {
            let rule = named_rule(text).unwrap();
            let limits = rule.choice.limits(DType::F32, DType::F32).unwrap().tolerance;
            assert_eq!(rule.names.is_match(name).then_some([limits.rtol(), limits.atol(0.0)]), expected, "{text}");
        }
        for (text, words) in [
            ("*.bias", "GLOB:KEY=VALUE"),
            ("*:rtol", "`rtol` is not KEY=VALUE"),
            ("*:rtol=x", "rtol `x`"),
            ("*:rtol=-1", "-1"),
            ("*:rtl=1", "unknown key `rtl`"),
            ("*:profile=pytorch", "known: ck"),
            ("*:rtol=1,profile=ck", "cannot be used with"),
            ("[:rtol=1", "["),
        ] {
            let found = named_rule(text).unwrap_err();
            assert!(found.contains(words), "{text}: {found}");
        }
    }
}
