//! The rules of the table: every profile, the library's default, candidates, and exact forms of rules that a profile is near to.

use super::correct::mean_factor;
use super::problem::Problem;
use hipverify::check::Check;
use hipverify::device::Layout;
use hipverify::dtype::{Overflow, Rounding};
use hipverify::verify::{Computation, Explain, Judge, Limits, Options, Profile, Report, Scale, Thresholds, Tolerance, gpu_verify_with};
use hipverify::{DType, Result, TensorRef};

/// A row of the table.
pub struct Rule {
    pub name: String,
    verdict: Verdict,
}

enum Verdict {
    Profile(Profile),
    /// Limits for a problem.
    Limits(fn(&Problem) -> Result<Limits>),
    /// A verdict on the metrics of a report.
    Metrics(fn(&Report) -> bool),
    /// The bound of each element, from the operands of products.
    Bounds,
}

/// Every row.
pub fn all() -> Vec<Rule> {
    let profiles = Profile::ALL.into_iter().map(|p| Rule { name: p.name().to_owned(), verdict: Verdict::Profile(p) });
    let named = |name: &str, verdict| Rule { name: name.to_owned(), verdict };
    let exact = [
        named("cosine similarity of 0.99, exact", Verdict::Metrics(|r| similarity(r).is_some_and(|(cosine, _)| cosine <= 0.01))),
        named("DeepGEMM's difference, exact", Verdict::Metrics(|r| similarity(r).is_some_and(|(_, difference)| difference < 1e-3))),
    ];
    let limits = CANDIDATES.iter().map(|&(name, f)| named(name, Verdict::Limits(f)));
    profiles.chain(exact).chain(limits).chain([named(BOUNDS, Verdict::Bounds)]).collect()
}

fn similarity(report: &Report) -> Option<(f64, f64)> {
    let s = report.metrics.as_ref()?.similarity?;
    (report.nonfinite_pairs == 0).then_some((s.cosine_distance, s.squared_difference))
}

impl Rule {
    /// Whether a result passes; `None` where the rule has no tolerance for the formats. FlashAttention's rule takes the error of a baseline.
    pub fn passes(&self, p: &Problem, baseline_error: f64, result: &TensorRef<'_>, reference: &TensorRef<'_>) -> Result<Option<bool>> {
        let options = Options::default().explain(Explain::Never);
        let limits = match self.verdict {
            Verdict::Metrics(passes) => {
                let report = gpu_verify_with(result, reference, &Tolerance::exact(), &options.cosine(true))?;
                return Ok(Some(passes(&report)));
            }
            Verdict::Bounds if p.operation.is_product() && !p.formats.output.is_int() => return checked(p, result, None).map(Some),
            Verdict::Bounds => return Ok(None),
            Verdict::Limits(f) => f(p)?,
            Verdict::Profile(profile) => {
                let computation = Computation {
                    accumulations: p.operation.is_product().then_some(p.k),
                    range: Some(p.range),
                    baseline_error: Some(baseline_error),
                    ..Computation::default()
                };
                match profile.limits_for(p.formats.output, p.formats.reference(), &computation) {
                    Err(hipverify::Error::Unsupported { .. }) => return Ok(None),
                    limits => limits?,
                }
            }
        };
        Ok(Some(gpu_verify_with(result, reference, &limits.tolerance, &limits.options(options))?.passed()))
    }
}

/// Whether a product passes by the bound of each element, of which nothing is known but the accumulator: f32 if nothing is said.
pub fn checked(p: &Problem, result: &TensorRef<'_>, accumulator: Option<DType>) -> Result<bool> {
    let dtype = p.formats.input;
    let [a, b] = [&p.a, &p.b].map(|values| {
        let mut bytes = vec![0; values.len() * dtype.unit_bytes()];
        for (i, &x) in values.iter().enumerate() {
            dtype.store_bits(&mut bytes, i, dtype.encode(f64::from(x), Rounding::NearestEven, Overflow::Ieee));
        }
        bytes
    });
    let a = TensorRef::from_host_bytes(&a, dtype, Layout::contiguous(&[p.rows, p.k])?)?;
    let b = TensorRef::from_host_bytes(&b, dtype, Layout::contiguous(&[p.columns, p.k])?)?;
    let check = Check::gemm(&a, &b, result).transpose_b(true).alpha(mean_factor(p));
    let check = accumulator.into_iter().fold(check, Check::accumulator);
    Ok(check.cause(false).run()?.passed())
}

type Candidate = (&'static str, fn(&Problem) -> Result<Limits>);

/// The rules of the library, whose misses are listed.
pub const BEST: &str = "`Tolerance::rounding`";
pub const BOUNDS: &str = "`check`, products only";
pub const LISTED: [&str; 2] = [BEST, BOUNDS];

/// The library's rules, and what was weighed against them.
const CANDIDATES: &[Candidate] = &[
    ("`Tolerance::derived`, n = 1", |p| Ok(elements(Tolerance::derived(DType::F32, p.formats.output, DType::F32, 1)))),
    (BEST, |p| Ok(elements(rounding(p)))),
    ("the same and relative L2 of 0.6 u", |p| {
        let thresholds = Thresholds { relative_l2: 0.6 * unit(p) + 64.0 * U32, ..Thresholds::OFF };
        Ok(elements(rounding(p)).with_thresholds(thresholds, Judge::Both))
    }),
    ("one ulp, and of the mean", |p| mean(p).map(elements)),
    ("one ulp, and of the mean; relative L2 of 0.6 u", |p| {
        let thresholds = Thresholds { relative_l2: 0.6 * unit(p) + 64.0 * U32, ..Thresholds::OFF };
        Ok(elements(mean(p)?).with_thresholds(thresholds, Judge::Both))
    }),
    ("relative L1 and L2 of 0.6 u alone", |p| {
        let limit = 0.6 * unit(p) + 64.0 * U32;
        let thresholds = Thresholds { relative_l1: limit, relative_l2: limit, ..Thresholds::OFF };
        Ok(elements(Tolerance::exact()).with_thresholds(thresholds, Judge::Thresholds))
    }),
];

/// u(f32).
const U32: f64 = 1.0 / (1 << 24) as f64;

/// u of the output's format.
fn unit(p: &Problem) -> f64 {
    p.formats.output.unit_roundoff()
}

fn elements(tolerance: Tolerance) -> Limits {
    Limits::elements(tolerance, "")
}

fn rounding(p: &Problem) -> Tolerance {
    Tolerance::rounding(p.formats.output, p.formats.reference(), p.k)
}

/// An ulp of each element and of their mean.
fn mean(p: &Problem) -> Result<Tolerance> {
    let ulp = 2.0 * unit(p).max(4.0 * U32);
    Tolerance::scaled(ulp, ulp, Scale::Mean)
}
