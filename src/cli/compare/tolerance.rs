//! Flags that say what passes, for all tensors or for those of some names.

use super::rules::{self, NamedRule};
use crate::cli::input::whole;
use crate::dtype::DType;
use crate::suite::Rule;
use crate::verify::{NonFinite, Options, Profile, Strict};
use anyhow::{Result, bail};
use std::path::PathBuf;

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
    /// For tensors of these names instead of the flags above; the first that matches counts. KEY is one of those of --rules
    #[arg(long = "rule", help_heading = "Tolerance", value_name = "GLOB:KEY=VALUE,...", value_parser = rules::named)]
    named: Vec<NamedRule>,
    /// The same from a TOML file, after those of --rule: `[[rule]]` tables with name, dtype, rtol, atol, profile, accumulations, rms, max_abs,
    /// max_rel, max_rel_old, max_eps, relative_l1, relative_l2, allowed_share, allowed_count, equal_nonfinite
    #[arg(long, help_heading = "Tolerance", value_name = "FILE")]
    pub(super) rules: Option<PathBuf>,
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
    /// Judge by the largest difference in spacings of the result's format at the reference (epsilons), as by --thresholds
    #[arg(long, help_heading = "Tolerance", value_name = "X", conflicts_with = "profile")]
    max_eps: Option<f64>,
    /// Judge by the largest relative difference where |reference| > 1e-3, as by --thresholds
    #[arg(long, help_heading = "Tolerance", value_name = "X", conflicts_with = "profile")]
    max_rel_old: Option<f64>,
    /// Judge by the sum of |result - reference| over that of |reference|, as by --thresholds
    #[arg(long, help_heading = "Tolerance", value_name = "X", conflicts_with = "profile")]
    relative_l1: Option<f64>,
    /// Judge by the root of the sum of squares of result - reference over that of the reference, as by --thresholds
    #[arg(long, help_heading = "Tolerance", value_name = "X", conflicts_with = "profile")]
    relative_l2: Option<f64>,
    /// This share of the elements may be beyond the tolerance, such as 0.05
    #[arg(long, help_heading = "Tolerance", value_name = "X", conflicts_with = "profile")]
    allowed_share: Option<f64>,
    /// So many elements may be beyond the tolerance, beside that share
    #[arg(long, help_heading = "Tolerance", value_name = "N", value_parser = whole::<u64>, conflicts_with = "profile")]
    allowed_count: Option<u64>,
    /// A result of the same format that is taken for right: profile flash-attention allows twice its largest error
    #[arg(long, help_heading = "Tolerance", value_name = "FILE")]
    pub(super) baseline: Option<PathBuf>,
    /// Let NaN match NaN, and infinity match infinity of the same sign
    #[arg(long, help_heading = "Tolerance")]
    equal_nonfinite: bool,
    /// Write an untrusted pass into the JUnit file as a failure also where what decides was given; where a tolerance that was derived from formats decides, it always is one
    #[arg(long, help_heading = "Tolerance")]
    strict: bool,
}

/// The rules of a run.
#[derive(Debug)]
pub(super) struct Rules {
    /// Of several the first that is for a tensor counts.
    named: Vec<NamedRule>,
    /// For all others.
    others: NamedRule,
}

impl Rules {
    /// The rule for a tensor whose result has this format.
    pub(super) fn of(&self, name: &str, result: DType) -> &NamedRule {
        self.named.iter().find(|rule| rule.is_for(name, result)).unwrap_or(&self.others)
    }
}

impl ToleranceArgs {
    /// The rules, none of which is wrong in itself.
    pub(super) fn rules(&self) -> Result<Rules> {
        let mut named = self.named.clone();
        if let Some(path) = &self.rules {
            named.extend(rules::read(path)?);
        }
        let others = self.others()?;
        if let Some((profile, key)) = others.rule.unasked() {
            bail!("profile {profile} does not depend on --{key}");
        }
        // The error of a baseline is not known yet, only whether there is one.
        others.expect_limits(self.baseline.as_ref().map(|_| 0.0))?;
        if self.baseline.is_some() && !named.iter().chain([&others]).any(NamedRule::wants_baseline) {
            bail!("--baseline is for profile flash-attention");
        }
        Ok(Rules { named, others })
    }

    /// The rule that the flags make.
    fn others(&self) -> Result<NamedRule> {
        let [rms, absolute, relative] = match self.thresholds.as_slice() {
            [] => [None; 3],
            &[rms, absolute, relative] => [rms, absolute, relative].map(Some),
            other => bail!("--thresholds has {} numbers; it takes 3: RMS,ABS,REL", other.len()),
        };
        let rule = Rule {
            rtol: self.rtol,
            atol: self.atol,
            profile: self.profile,
            accumulations: self.accumulations,
            rms,
            absolute,
            relative,
            relative_old: self.max_rel_old,
            epsilon: self.max_eps,
            relative_l1: self.relative_l1,
            relative_l2: self.relative_l2,
            allowed_share: self.allowed_share,
            allowed_count: self.allowed_count,
            ..Rule::default()
        };
        Ok(NamedRule { rule, ..NamedRule::default() })
    }

    /// What happens to pairs that are not finite where no rule of names says it, by a flag or the profile.
    pub(super) fn nonfinite(&self) -> NonFinite {
        let same =
            |dtype, rule: &NamedRule| rule.limits(dtype, DType::F32, Some(0.0)).is_ok_and(|l| l.nonfinite == NonFinite::EqualWhenSame);
        let by_profile = |rule: NamedRule| DType::ALL.into_iter().any(|dtype| same(dtype, &rule));
        if self.equal_nonfinite || self.others().is_ok_and(by_profile) { NonFinite::EqualWhenSame } else { NonFinite::Fail }
    }

    /// Tells of rules of the command line that are for none of these tensors: others judge in their place. A file of rules may be for many models.
    pub(super) fn unused<'a>(&self, tensors: impl Iterator<Item = &'a str> + Clone) {
        rules::unused(&self.named, tensors);
    }

    /// Options with these flags.
    pub(super) fn options(&self, options: Options) -> Options {
        let options = if self.strict { options.strict(Strict::Always) } else { options };
        if self.equal_nonfinite { options.nonfinite(NonFinite::EqualWhenSame) } else { options }
    }
}
