//! `hipverify tolerance`: the numbers of a profile, where they come from, and the rules that there are.

use super::Outcome;
use super::input::{magnitude, whole};
use super::screen::{self, number};
use crate::dtype::DType;
use crate::suite::Rule;
use crate::verify::profile::Operation;
use crate::verify::{AllowedMismatches, Computation, Judge, Limits, Profile, Scale};
use anyhow::{Result, bail};
use std::fmt::Write;

/// The flags of `tolerance`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub(super) struct Args {
    /// The profile
    #[arg(long, value_name = "NAME", required_unless_present = "list", value_parser = clap::value_parser!(Profile))]
    profile: Option<Profile>,
    /// Lists the profiles and their sources
    #[arg(long, conflicts_with = "profile")]
    list: bool,
    /// Format of the result
    #[arg(long, value_name = "DTYPE", default_value = "f16", value_parser = clap::value_parser!(DType))]
    result: DType,
    /// Format of the reference
    #[arg(long, value_name = "DTYPE", default_value = "f32", value_parser = clap::value_parser!(DType))]
    reference: DType,
    /// Length of the sums behind each element: K of a GEMM, C*Y*X of a convolution
    #[arg(long, value_name = "N", value_parser = whole::<usize>)]
    accumulations: Option<usize>,
    /// The range that the inputs are from (paddle, hipdnn)
    #[arg(long, value_name = "MIN,MAX", value_delimiter = ',', allow_hyphen_values = true)]
    range: Vec<f64>,
    /// The kind of operation (paddle): copy arithmetic function steep-function sum mean norm softmax interpolation matmul
    /// cumulative-sum log-sum cumulative-log-sum
    #[arg(long, value_name = "KIND", value_parser = clap::value_parser!(Operation))]
    operation: Option<Operation>,
    /// The result is a gradient (paddle)
    #[arg(long)]
    gradient: bool,
    /// The largest error of a baseline in the result's format (flash-attention)
    #[arg(long, value_name = "X", value_parser = magnitude)]
    baseline_error: Option<f64>,
}

const AFTER: &str = "\
Example, a sum of 1,000 numbers from [0, 0.1) in f16:
  hipverify tolerance --profile paddle --operation sum --accumulations 1000 --range 0,0.1";

impl Args {
    /// Runs the command.
    pub(super) fn run(&self) -> Result<Outcome> {
        let text = match self.profile {
            Some(profile) => self.limits(profile)?,
            None => Profile::ALL.iter().map(|p| format!("{:<17}{}\n", p.name(), p.source())).collect(),
        };
        screen::print(&text)?;
        Ok(Outcome::Pass)
    }

    fn limits(&self, profile: Profile) -> Result<String> {
        let range = match self.range.as_slice() {
            [] => None,
            &[min, max] if min <= max => Some([min, max]),
            &[min, max] => bail!("--range {min},{max}: the first number is the smaller one"),
            other => bail!("--range has {} numbers; it takes 2: MIN,MAX", other.len()),
        };
        let rule = Rule {
            profile: Some(profile),
            accumulations: self.accumulations,
            range,
            operation: self.operation,
            gradient: Some(self.gradient),
            baseline_error: self.baseline_error,
            ..Rule::default()
        };
        if let Some((_, key)) = rule.unasked() {
            bail!("profile {profile} does not depend on --{}", key.replace('_', "-"));
        }
        let limits = rule.limits(self.result, self.reference, &Computation::default())?;
        let mut text = format!("{profile}   {} against {}\n", self.result, self.reference);
        for (label, value) in lines(&limits) {
            writeln!(text, "  {label:<11}{value}")?;
        }
        writeln!(text, "  {:<11}{}\n  {:<11}{}", "derived", limits.derivation, "source", profile.source())?;
        Ok(text)
    }
}

/// Labels and values of limits.
pub(super) fn lines(limits: &Limits) -> Vec<(&'static str, String)> {
    let scale = match limits.tolerance.scale() {
        None => "",
        Some(Scale::Largest) => "max|r|",
        Some(Scale::LargestBinade) => "2^floor(log2 max|r|)",
        Some(Scale::Mean) => "mean|r|",
        Some(Scale::Rms) => "rms r",
    };
    lines_with(limits, scale)
}

/// The same, of limits whose absolute tolerance is a multiple of `scale`.
pub(super) fn lines_with(limits: &Limits, scale: &str) -> Vec<(&'static str, String)> {
    let tolerance = limits.tolerance;
    let atol = number(tolerance.atol(1.0), 4);
    let scale = if scale.is_empty() { String::new() } else { format!(" {scale}") };
    let bound = if tolerance.is_by_binade() { "|a-r| <= rtol 2^floor(log2 |r|) + atol" } else { "|a-r| <= rtol |r| + atol" };
    let decides = match limits.judge {
        Judge::Elements => format!("elements: {bound}"),
        Judge::Thresholds => "metrics".to_owned(),
        Judge::Both => format!("elements, {bound}, and metrics"),
    };
    let mut lines = vec![("decides", decides), ("rtol", number(tolerance.rtol(), 4)), ("atol", format!("{atol}{scale}"))];
    if limits.allowed != AllowedMismatches::NONE {
        lines.push(("may fail", format!("{} of 1,000,000 elements", screen::count(limits.allowed.of(1_000_000)))));
    }
    if let Some(t) = limits.thresholds {
        let all = [
            ("RMS", t.rms),
            ("max abs", t.absolute),
            ("max rel", t.relative),
            ("max rel (|r| > 1e-3)", t.relative_old),
            ("max eps", t.epsilon),
            ("relative L1", t.relative_l1),
            ("relative L2", t.relative_l2),
        ];
        let on = all.iter().filter(|(_, limit)| limit.is_finite());
        lines.push(("metrics", on.map(|(name, limit)| format!("{name} <= {}", number(*limit, 4))).collect::<Vec<_>>().join(", ")));
    }
    lines
}
