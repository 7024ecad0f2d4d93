//! `hipverify compare`: the verdict on two tensors, or on all tensors of two files.
//!
//! Two files with one tensor each give one screen. Files with several are matched by name: a line each and a summary; a name
//! that only one file has is a failure, as a tensor that was not written is what a comparison is for.

mod output;

use super::input::InputArgs;
use super::{Outcome, screen};
use crate::device::{Device, DeviceBytes, DeviceKind, TensorRef};
use crate::dtype::DType;
use crate::files::{Kind, Tensor, TensorFile};
use crate::verify::{Explain, Judge, Limits, NonFinite, Options, Profile, Report, Strict, Thresholds, Tolerance, Verdict, gpu_verify_with};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The flags of `compare`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub(super) struct Args {
    /// What is to be judged: .npy, .npz, .safetensors, or raw data
    result: PathBuf,
    /// What it should be, in any number format
    reference: PathBuf,
    #[command(flatten)]
    tolerance: ToleranceArgs,
    #[command(flatten)]
    input: InputArgs,
    /// The tensor of REFERENCE, where its name is not that of --tensor
    #[arg(long, value_name = "NAME", requires = "tensor", help_heading = "Input")]
    reference_tensor: Option<String>,
    /// Show histograms of relative difference, of difference in epsilons, and of difference to tolerance
    #[arg(long)]
    histogram: bool,
    /// Measure cosine similarity, which reads the tensors once more
    #[arg(long)]
    cosine: bool,
    /// How many of the first mismatches to list
    #[arg(long, value_name = "N", default_value_t = 8)]
    first: usize,
    /// Where to compare: best (the first GPU, else the host), host, gpu, gpu:N
    #[arg(long, value_name = "DEVICE", default_value = "best")]
    device: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Also write a JUnit file, one test case a tensor
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
}

const AFTER: &str = "\
Element i passes when |result - reference| <= rtol * |reference| + atol. Without tolerance flags they are \
what rounding explains: rtol = u(result) + u(reference) + 8 u(f32) with u half an epsilon, atol = max(N, 1024) * u(f32) * mean|reference| \
plus half the least number of both formats, for N of --accumulations; integers must be equal. docs/tolerances.md has what that catches.

Exit codes: 0 pass, 1 mismatch, 2 no verdict (bad input or usage, a device that failed), 3 a pass that is not to be trusted.";

#[derive(Debug, clap::Args)]
struct ToleranceArgs {
    /// Relative tolerance (0 where only --atol is given)
    #[arg(long, help_heading = "Tolerance", value_name = "X", allow_negative_numbers = true, conflicts_with = "profile")]
    rtol: Option<f64>,
    /// Absolute tolerance (0 where only --rtol is given)
    #[arg(long, help_heading = "Tolerance", value_name = "X", allow_negative_numbers = true, conflicts_with = "profile")]
    atol: Option<f64>,
    /// The rule of another project; `hipverify tolerance --list` has their names
    #[arg(long, help_heading = "Tolerance", value_name = "NAME", value_parser = clap::value_parser!(Profile))]
    profile: Option<Profile>,
    /// Length of the sums behind each element: K of a GEMM, C*Y*X of a convolution
    #[arg(long, help_heading = "Tolerance", value_name = "N", conflicts_with_all = ["rtol", "atol"])]
    accumulations: Option<usize>,
    /// Judge by the metrics RMS, largest absolute and largest relative difference (`inf` switches one off); with --rtol or
    /// --atol the elements must pass as well
    #[arg(
        long,
        help_heading = "Tolerance",
        value_name = "RMS,ABS,REL",
        value_delimiter = ',',
        allow_negative_numbers = true,
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

/// What became of one tensor.
struct Case {
    name: String,
    verdict: CaseVerdict,
    time: Duration,
}

enum CaseVerdict {
    /// Compared, with any verdict.
    Compared(Box<Report>),
    /// Only the file named here has the tensor.
    Only(PathBuf),
    /// It could not be compared.
    Failed(String),
}

impl CaseVerdict {
    /// Whether it passed, and that means something.
    fn passed(&self) -> bool {
        matches!(self, CaseVerdict::Compared(report) if report.verdict == Verdict::Pass)
    }
}

impl Args {
    /// Runs the command.
    pub(super) fn run(&self) -> Result<Outcome> {
        if let Some(path) = &self.junit {
            self.is_no_input(path)?;
        }
        match self.judge() {
            Ok(cases) => {
                output::show(self, &cases)?;
                output::junit(self, &cases)?;
                Ok(outcome(&cases))
            }
            Err(e) => {
                // Machines are told as well; an old JUnit file would be taken for this run's.
                output::failure(self, &e)?;
                Err(e)
            }
        }
    }

    /// Refuses to write over a tensor file.
    fn is_no_input(&self, path: &Path) -> Result<()> {
        let Ok(target) = path.canonicalize() else { return Ok(()) };
        if [&self.result, &self.reference].into_iter().any(|input| input.canonicalize().is_ok_and(|input| input == target)) {
            bail!("--junit {}: that file is one of those to be compared", path.display());
        }
        Ok(())
    }

    /// Opens the files and compares.
    fn judge(&self) -> Result<Vec<Case>> {
        // Before the files are read: a tolerance that is none, a device that is not there.
        self.tolerance.of(DType::F32, DType::F32)?;
        let device = Device::open(&self.device)?;
        let reference_name = self.reference_tensor.as_deref().or(self.input.tensor.as_deref());
        let result = self.input.open(&self.result, 0, 2, None)?;
        let reference = self.input.open(&self.reference, 1, 2, reference_name)?;
        match self.one_pair(&result, &reference)? {
            Some((a, b)) => {
                let started = Instant::now();
                let progress = screen::spinner("compare");
                let report = self.compare(a, b, &device);
                progress.finish_and_clear();
                let report = report.with_context(|| format!("{} against {}", result.label(a), reference.label(b)))?;
                let name = if a.name().is_empty() { b.name() } else { a.name() }.to_owned();
                Ok(vec![Case { name, verdict: CaseVerdict::Compared(Box::new(report)), time: started.elapsed() }])
            }
            None => self.compare_all(&result, &reference, &device),
        }
    }

    /// The two tensors to compare, where there is no choice; `None` where tensors are to be matched by name.
    fn one_pair<'a>(&self, result: &'a TensorFile, reference: &'a TensorFile) -> Result<Option<(&'a Tensor, &'a Tensor)>> {
        let nameless = |f: &TensorFile| matches!(f.kind(), Kind::Npy | Kind::Raw);
        if let (Some(name), true) = (&self.input.tensor, nameless(result) && nameless(reference)) {
            bail!("--tensor {name}: neither file names its tensor");
        }
        match (result.tensors(), reference.tensors()) {
            ([a], [b]) if self.input.tensor.is_some() || nameless(result) || nameless(reference) || a.name() == b.name() => {
                Ok(Some((a, b)))
            }
            _ if nameless(result) || nameless(reference) => {
                let (many, one) = if nameless(result) { (reference, result) } else { (result, reference) };
                bail!(
                    "{} has {} tensors, {} has one without a name; choose one with --tensor",
                    many.path().display(),
                    many.tensors().len(),
                    one.path().display()
                )
            }
            ([], []) => bail!("{} and {} hold no tensors: nothing to compare", result.path().display(), reference.path().display()),
            _ => Ok(None),
        }
    }

    /// Every tensor of either file, in the order of the reference, then what only the result has.
    fn compare_all(&self, result: &TensorFile, reference: &TensorFile, device: &Device) -> Result<Vec<Case>> {
        let total = reference.tensors().iter().map(|t| t.layout().elements() as u64).sum();
        let progress = screen::Progress::new(total, "compare");
        let mut cases = Vec::new();
        for b in reference.tensors() {
            let started = Instant::now();
            let verdict = match result.tensors().iter().find(|a| a.name() == b.name()) {
                None => CaseVerdict::Only(reference.path().to_owned()),
                Some(a) => match self.compare(a, b, device) {
                    Ok(report) => CaseVerdict::Compared(Box::new(report)),
                    Err(e) => CaseVerdict::Failed(format!("{e:#}")),
                },
            };
            progress.add(b.layout().elements() as u64);
            cases.push(Case { name: b.name().to_owned(), verdict, time: started.elapsed() });
        }
        for a in result.tensors() {
            if !reference.tensors().iter().any(|b| a.name() == b.name()) {
                let verdict = CaseVerdict::Only(result.path().to_owned());
                cases.push(Case { name: a.name().to_owned(), verdict, time: Duration::ZERO });
            }
        }
        progress.end();
        Ok(cases)
    }

    fn compare(&self, result: &Tensor, reference: &Tensor, device: &Device) -> Result<Report> {
        let limits = self.tolerance.of(result.dtype(), reference.dtype())?;
        let options = Options::default().explain(Explain::Always).power(true);
        let mut options = limits.options(options.histograms(self.histogram).cosine(self.cosine).first(self.first));
        if self.tolerance.strict {
            options = options.strict(Strict::Always);
        }
        if self.tolerance.equal_nonfinite {
            options = options.nonfinite(NonFinite::EqualWhenSame);
        }
        let (mut a, mut b) = (None, None);
        Ok(gpu_verify_with(&place(device, result, &mut a)?, &place(device, reference, &mut b)?, &limits.tolerance, &options)?)
    }
}

impl ToleranceArgs {
    /// The limits for a pair of formats.
    fn of(&self, result: DType, reference: DType) -> Result<Limits> {
        if let Some(profile) = self.profile {
            return Ok(profile.limits(result, reference, self.accumulations)?);
        }
        let given = self.rtol.is_some() || self.atol.is_some();
        let limits = if given {
            Limits::elements(Tolerance::new(self.rtol.unwrap_or(0.0), self.atol.unwrap_or(0.0))?, "given")
        } else {
            let tolerance = Tolerance::rounding(result, reference, self.accumulations.unwrap_or(1));
            Limits::elements(tolerance, "what rounding explains")
        };
        match self.thresholds.as_slice() {
            [] => Ok(limits),
            &[rms, absolute, relative] => {
                let judge = if given { Judge::Both } else { Judge::Thresholds };
                Ok(limits.with_thresholds(Thresholds::new(rms, absolute, relative)?, judge))
            }
            other => bail!("--thresholds has {} numbers; it takes 3: RMS,ABS,REL", other.len()),
        }
    }
}

/// What the cases amount to: what could not be compared outweighs a mismatch, and that a pass which is not to be trusted.
fn outcome(cases: &[Case]) -> Outcome {
    let of = |case: &Case| match &case.verdict {
        CaseVerdict::Failed(_) => Outcome::NoVerdict,
        CaseVerdict::Only(_) => Outcome::Mismatch,
        CaseVerdict::Compared(report) => match report.verdict {
            Verdict::Fail => Outcome::Mismatch,
            Verdict::Untrusted => Outcome::Untrusted,
            Verdict::Pass => Outcome::Pass,
        },
    };
    cases.iter().map(of).max().unwrap_or(Outcome::Pass)
}

/// The tensor on the device: where it lies for the host, else copied into `copy`.
fn place<'a>(device: &Device, tensor: &'a Tensor, copy: &'a mut Option<DeviceBytes>) -> Result<TensorRef<'a>> {
    let bytes = tensor.bytes();
    let ptr = if device.kind() == DeviceKind::Host {
        bytes.as_ptr()
    } else {
        let copy = copy.insert(DeviceBytes::new(device, bytes.len())?);
        copy.copy_from_slice(bytes)?;
        copy.ptr()
    };
    // SAFETY: `ptr` is either the host slice or a device block of the same size that was just filled; both are borrowed for
    // 'a, so that nothing frees or writes them.
    Ok(unsafe { TensorRef::from_raw(device, ptr, bytes.len(), tensor.dtype(), tensor.layout().clone())? })
}
