//! `hipverify compare`: the verdict on two tensors, or on all tensors of two files, or of two lists of files.
//!
//! Two files with one tensor each give one screen. Tensors of files with several are matched by name: a line each and a summary; a name
//! that only one side has is a failure, as a tensor that was not written is what a comparison is for.

mod beside;
mod extra;
mod html;
mod output;
mod picture;
mod progress;
pub(super) mod rules;
mod tolerance;

pub(super) use output::painted;
#[cfg(feature = "fuzzing")]
pub(super) use rules::count_rules;

use super::apart::expect_apart;
use super::input::{InputArgs, NthFile, named, whole};
use super::{EXIT_CODES, Outcome, screen};
use crate::device::{Device, DeviceBytes, DeviceKind, TensorRef};
use crate::dtype::DType;
use crate::error::Error;
use crate::files::{Loaded, Tensor, TensorFile, label};
use crate::suite::record::Details;
use crate::verify::{Explain, NonFinite, Options, Profile, Report, Tolerance, Verdict, gpu_verify_with, gpu_verify_with_earlier};
use anyhow::{Context, Result, bail, ensure};
use beside::Beside;
use extra::ExtraArgs;
use progress::{Watch, bytes};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tolerance::{Rules, ToleranceArgs};

/// The flags of `compare`.
#[derive(Debug, clap::Args)]
#[command(after_help = after(), override_usage = USAGE)]
pub(super) struct Args {
    /// What is to be judged, and what it should be, in any number format: .npy, .npz, .safetensors, .pt, an index of shards, a folder of these, raw
    /// data; `-` is standard input. With --reference all are to be judged, as one
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// What the results should be: one file or several, as one
    #[arg(long, value_name = "FILE", num_args = 1..)]
    reference: Vec<PathBuf>,
    #[command(flatten)]
    tolerance: ToleranceArgs,
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    extra: ExtraArgs,
    /// The tensor of REFERENCE, where its name is not that of --tensor
    #[arg(long, value_name = "NAME", requires = "tensor", help_heading = "Input")]
    reference_tensor: Option<String>,
    /// An earlier output of the kernel, from other inputs or from its buffer. Reports whether it would pass too, and whether a failure equals it
    #[arg(long, value_name = "FILE")]
    earlier: Option<PathBuf>,
    /// Show histograms of relative difference, of difference in epsilons, and of difference to tolerance
    #[arg(long)]
    histogram: bool,
    /// Measure cosine similarity, which reads the tensors once more
    #[arg(long)]
    cosine: bool,
    /// How many of the first mismatches to list, at most 64
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = first)]
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
    /// Also write one page of HTML that needs no network: histograms, errors by magnitude, where mismatches lie
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

const USAGE: &str = "\
hipverify compare [OPTIONS] <RESULT> <REFERENCE>
       hipverify compare [OPTIONS] <RESULT>... --reference <REFERENCE>...";

const RULE: &str = "\
Element i passes when |result - reference| <= rtol * |reference| + atol. Without tolerance flags they are \
what rounding explains: rtol = u(result) + u(reference) + 16 u(A) with u half an epsilon and A the accumulator, f32 (f64 for results of f64), times the \
binade of |reference| (for results of f32 and f64 8 u(A), times |reference|), atol = max(N, 1024) * u(A) * mean|reference| plus half the least positive number \
of the reference's format (for results of f32 and f64 of theirs as well), for N of --accumulations; integers must be equal. docs/tolerances.md has what that catches.";

const EXAMPLES: &str = "\
Examples:
  hipverify compare result.npy reference.npy
  hipverify compare result.safetensors reference.safetensors --include '*.weight' --rule '*.norm.*:rtol=1e-2' --junit junit.xml
  hipverify compare rank0.safetensors rank1.safetensors --reference model-*.safetensors
  hipverify compare result.bin reference.npy --dtype f16,- --shape 128,256 --accumulations 4096
  hipverify compare result.bin reference.bin --dtype f16,f32 --shape 128,256";

/// What follows the flags in the help.
fn after() -> String {
    format!("{RULE}\n\n{EXIT_CODES}\n\n{EXAMPLES}")
}

/// What a run compares with, the same for all tensors.
struct Setting {
    device: Device,
    rules: Rules,
    baseline: Option<Beside>,
    earlier: Option<Beside>,
}

impl Setting {
    /// Compares, with the earlier output of a tensor where there is one.
    fn verify(&self, name: &str, [result, reference]: [&TensorRef<'_>; 2], tolerance: &Tolerance, options: &Options) -> Result<Report> {
        let Some(earlier) = &self.earlier else { return Ok(gpu_verify_with(result, reference, tolerance, options)?) };
        let file = earlier.tensor(name)?;
        let tensor = file.load()?;
        let mut copy = None;
        let tensor = on_device(&self.device, &tensor, &mut copy)?;
        let report = gpu_verify_with_earlier(result, reference, &tensor, tolerance, options);
        // Result and reference have one shape already: what does not fit is the earlier output.
        report.map_err(|e| if is_unfit(&e) { anyhow::Error::new(e).context(file.label()) } else { e.into() })
    }

    /// The largest error of the baseline of a tensor, a result of such a format, where there is one.
    fn baseline_error(&self, name: &str, result: DType, reference: &TensorRef<'_>, nonfinite: NonFinite) -> Result<Option<f64>> {
        let Some(baseline) = &self.baseline else { return Ok(None) };
        let file = baseline.tensor(name)?;
        let (tensor, label) = (file.load()?, file.label());
        // Its error is a measure for what another kernel does in the same format; of a coarser one it would pass nearly anything.
        ensure!(
            tensor.dtype() == result,
            "the baseline, {label}: is {}, and the result {result}: a baseline has the format of the result",
            tensor.dtype()
        );
        let mut copy = None;
        let tensor = on_device(&self.device, &tensor, &mut copy)?;
        let options = Options::counts().explain(Explain::Never).nonfinite(nonfinite);
        let baseline = || format!("the baseline, {label}");
        // Finite pairs pass, whatever they are: the others are the mismatches.
        let anything = Tolerance::new(0.0, f64::from(f32::MAX))?;
        let report = gpu_verify_with(&tensor, reference, &anything, &options).with_context(baseline)?;
        ensure!(
            report.mismatches == 0,
            "{}: {} pairs are not finite, or further apart than f32 has numbers",
            baseline(),
            report.mismatches
        );
        Ok(Some(report.worst_absolute.map_or(0.0, |worst| worst.value)))
    }
}

/// What became of one tensor.
struct Case {
    name: String,
    verdict: CaseVerdict,
    /// What happened to pairs that are not finite, where tensors were compared.
    nonfinite: NonFinite,
    /// What of the rule is to be told beside the report.
    told: Told,
    /// Pictures for a page.
    details: Option<Details>,
    time: Duration,
}

impl Case {
    /// A tensor that was not compared.
    fn new(name: &str, verdict: CaseVerdict) -> Case {
        let (nonfinite, told) = (NonFinite::Fail, Told::default());
        Case { name: name.to_owned(), verdict, nonfinite, told, details: None, time: Duration::ZERO }
    }
}

/// What of a rule is to be told beside the report of a tensor that was judged by it.
#[derive(Debug, Default)]
struct Told {
    /// The threshold that a baseline made, with its error.
    baseline: Option<String>,
    /// The profile that took 1 for the length of sums, which nobody gave.
    one_term: Option<Profile>,
}

/// What one comparison gives: the report, a picture for the screen, pictures for a page.
struct Compared {
    report: Report,
    nonfinite: NonFinite,
    told: Told,
    picture: String,
    details: Option<Details>,
}

/// A side of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Result,
    Reference,
}

enum CaseVerdict {
    /// Compared, with any verdict.
    Compared(Box<Report>),
    /// Neither side has an element: they are equal, which says nothing.
    Empty,
    /// Only a file of this side has the tensor.
    Only(Side, PathBuf),
    /// It could not be compared.
    Failed(String),
}

impl CaseVerdict {
    /// Whether it passed, and that means something.
    fn passed(&self) -> bool {
        match self {
            CaseVerdict::Compared(report) => report.verdict == Verdict::Pass,
            CaseVerdict::Empty => true,
            CaseVerdict::Only(..) | CaseVerdict::Failed(_) => false,
        }
    }
}

impl Args {
    /// Runs the command.
    pub(super) fn run(&self) -> Result<Outcome> {
        self.check_files()?;
        self.check_outputs()?;
        output::begin(self)?;
        let mut pair = None;
        match self.judge(&mut pair) {
            Ok((cases, picture)) => {
                self.tolerance.unused(cases.iter().map(|case| case.name.as_str()));
                tell_one_term(&cases);
                if !self.outputs().any(|(_, path)| path.as_os_str() == "-") {
                    output::show(self, &cases, &picture)?;
                }
                output::write_cases(self, &cases)?;
                html::write(self, &cases)?;
                Ok(outcome(&cases))
            }
            Err(e) => {
                // Machines are told as well; an old JUnit file or page would be taken for this run's.
                output::failure(self, &e, pair.as_deref())?;
                html::write(self, &[Case::new("compare", CaseVerdict::Failed(format!("{e:#}")))])?;
                Err(e)
            }
        }
    }

    /// The files of a side.
    fn side(&self, side: Side) -> &[PathBuf] {
        match (side, self.reference.is_empty()) {
            (Side::Result, false) => &self.files,
            (Side::Result, true) => &self.files[..self.files.len().min(1)],
            (Side::Reference, false) => &self.reference,
            (Side::Reference, true) => &self.files[self.files.len().min(1)..],
        }
    }

    /// All tensor files that are read.
    fn inputs(&self) -> impl Iterator<Item = &Path> {
        let beside = self.tolerance.baseline.iter().chain(&self.earlier);
        self.files.iter().chain(&self.reference).chain(beside).map(PathBuf::as_path)
    }

    /// What is compared, in words.
    fn title(&self) -> String {
        format!("{} against {}", label(self.side(Side::Result)), label(self.side(Side::Reference)))
    }

    /// Refuses other numbers of files than there are sides.
    fn check_files(&self) -> Result<()> {
        if self.reference.is_empty() && self.files.len() != 2 {
            let given = match self.files.len() {
                1 => "1 file is".to_owned(),
                n => format!("{n} files are"),
            };
            bail!(
                "{given} given; compare takes RESULT and REFERENCE, or any number of results and --reference with any number of references"
            );
        }
        if self.inputs().filter(|path| path.as_os_str() == "-").count() > 1 {
            bail!("several files are `-`: standard input can be read once");
        }
        Ok(())
    }

    /// The files that are to be written.
    fn outputs(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let files = [("--junit", &self.junit), ("--html", &self.html)];
        self.extra.files().chain(files.into_iter().filter_map(|(flag, path)| Some((flag, path.as_deref()?))))
    }

    /// Refuses to write over what is read, or several things to standard output.
    fn check_outputs(&self) -> Result<()> {
        let dashes = self.outputs().filter(|(_, path)| path.as_os_str() == "-").count();
        if dashes + usize::from(self.json) > 1 {
            bail!("{} outputs are for standard output; give files for all but one", dashes + usize::from(self.json));
        }
        expect_apart(self.outputs(), self.inputs().chain(self.tolerance.rules.as_deref()))
    }

    /// Opens the files and compares; with a picture, if one is asked for. `pair` gets the name of the tensor, once it is known, where there is one on each side.
    fn judge(&self, pair: &mut Option<String>) -> Result<(Vec<Case>, String)> {
        // Before the files are read: a tolerance that is none, a device that is not there.
        let rules = self.tolerance.rules()?;
        let device = Device::open(&self.device)?;
        let reference_name = self.reference_tensor.as_deref().or(self.input.tensor.as_deref());
        let noun = if self.reference.is_empty() { "file" } else { "side" };
        let result = self.input.open_all(self.side(Side::Result), NthFile { which: 0, of: 2, noun }, None)?;
        let reference = self.input.open_all(self.side(Side::Reference), NthFile { which: 1, of: 2, noun }, reference_name)?;
        let baseline = Beside::open("--baseline", self.tolerance.baseline.as_deref(), &self.input)?;
        let earlier = Beside::open("--earlier", self.earlier.as_deref(), &self.input)?;
        let beside = baseline.iter().chain(&earlier).map(Beside::file);
        self.input.check_used(&[&result, &reference].into_iter().chain(beside).collect::<Vec<_>>())?;
        if let (Some(of_result), Some(of_reference)) = (&self.input.tensor, &self.reference_tensor) {
            named("--tensor", of_result, &[&result])?;
            named("--reference-tensor", of_reference, &[&reference])?;
        }
        let setting = Setting { device, rules, baseline, earlier };
        let Some((a, b)) = self.one_pair(&result, &reference)? else {
            self.extra.none()?;
            return Ok((self.compare_all(&result, &reference, &setting)?, String::new()));
        };
        ensure!(!both_empty(a, b), "{}: no elements; a comparison of nothing is not a pass", self.title());
        let started = Instant::now();
        let watch = Watch::new(bytes(a) + bytes(b));
        let name = if a.name().is_empty() { b.name() } else { a.name() }.to_owned();
        *pair = Some(name.clone());
        let report = self.compare(&name, a, b, &setting, &watch);
        drop(watch);
        let Compared { report, nonfinite, told, picture, details } = report?;
        let verdict = CaseVerdict::Compared(Box::new(report));
        Ok((vec![Case { name, verdict, nonfinite, told, details, time: started.elapsed() }], picture))
    }

    /// The two tensors to compare, where there is no choice; `None` where tensors are to be matched by name.
    fn one_pair<'a>(&self, result: &'a TensorFile, reference: &'a TensorFile) -> Result<Option<(&'a Tensor, &'a Tensor)>> {
        let nameless = result.nameless() || reference.nameless();
        match (result.tensors(), reference.tensors()) {
            ([a], [b]) if self.input.tensor.is_some() || nameless || a.name() == b.name() => Ok(Some((a, b))),
            _ if nameless => {
                let [result_label, reference_label] = [Side::Result, Side::Reference].map(|side| label(self.side(side)));
                let (many, of_many, of_one) = match result.nameless() {
                    true => (reference, reference_label, result_label),
                    false => (result, result_label, reference_label),
                };
                let count = many.tensors().len();
                bail!("{of_many} has {count} tensors, {of_one} has one without a name; choose one with --tensor")
            }
            ([], []) => bail!("{}: neither side holds tensors, there is nothing to compare", self.title()),
            _ => Ok(None),
        }
    }

    /// Every tensor of either side, in the order of the reference, then what only the result has.
    fn compare_all(&self, result: &TensorFile, reference: &TensorFile, setting: &Setting) -> Result<Vec<Case>> {
        let results: HashMap<&str, &Tensor> = result.tensors().iter().map(|a| (a.name(), a)).collect();
        let references: HashMap<&str, &Tensor> = reference.tensors().iter().map(|b| (b.name(), b)).collect();
        let pairs = reference.tensors().iter().filter_map(|b| Some((*results.get(b.name())?, b)));
        let watch = Watch::new(pairs.map(|(a, b)| bytes(a) + bytes(b)).sum());
        let mut cases = Vec::new();
        for b in reference.tensors() {
            let started = Instant::now();
            let (mut details, mut nonfinite, mut told) = (None, NonFinite::Fail, Told::default());
            let verdict = match results.get(b.name()) {
                None => CaseVerdict::Only(Side::Reference, b.path().to_owned()),
                Some(a) if both_empty(a, b) => CaseVerdict::Empty,
                Some(a) => match self.compare(b.name(), a, b, setting, &watch) {
                    Ok(compared) => {
                        (details, nonfinite, told) = (compared.details, compared.nonfinite, compared.told);
                        CaseVerdict::Compared(Box::new(compared.report))
                    }
                    Err(e) => CaseVerdict::Failed(format!("{e:#}")),
                },
            };
            cases.push(Case { told, nonfinite, details, time: started.elapsed(), ..Case::new(b.name(), verdict) });
        }
        for a in result.tensors().iter().filter(|a| !references.contains_key(a.name())) {
            let verdict = CaseVerdict::Only(Side::Result, a.path().to_owned());
            cases.push(Case::new(a.name(), verdict));
        }
        drop(watch);
        if cases.iter().all(|case| matches!(case.verdict, CaseVerdict::Empty)) {
            bail!("{}: no tensor has an element, there is nothing to compare", self.title());
        }
        Ok(cases)
    }

    /// The report, and pictures if they are asked for.
    fn compare(&self, name: &str, result: &Tensor, reference: &Tensor, setting: &Setting, watch: &Watch) -> Result<Compared> {
        let progress = watch.begin(bytes(result) + bytes(reference));
        // Shapes first: what a comparison refuses need not be read.
        if let (Some(a), Some(b)) = (result.layout(), reference.layout())
            && a.shape() != b.shape()
        {
            let what = format!("{} against {}", result.label(), reference.label());
            return Err(Error::Shape { what, expected: b.shape().to_vec(), found: a.shape().to_vec() }.into());
        }
        let (result, reference) = (result.load()?, reference.load()?);
        let device = &setting.device;
        let (mut a, mut b) = (None, None);
        let (a, b) = (on_device(device, &result, &mut a)?, on_device(device, &reference, &mut b)?);
        let rule = setting.rules.of(name, result.dtype());
        let baseline = if rule.wants_baseline() {
            // Whatever the error is, what happens to pairs that are not finite is the same.
            let any = rule.limits(result.dtype(), reference.dtype(), Some(0.0))?;
            setting.baseline_error(name, result.dtype(), &b, self.tolerance.options(any.options(Options::counts())).nonfinite)?
        } else {
            None
        };
        let limits = rule.limits(result.dtype(), reference.dtype(), baseline)?;
        let options = Options::default().explain(Explain::Always).power(true);
        let options = limits.options(options.histograms(self.histogram || self.html.is_some()).cosine(self.cosine).first(self.first));
        let options = self.tolerance.options(options).progress(&progress);
        let report = setting.verify(name, [&a, &b], &limits.tolerance, &options)?;
        let picture = self.extra.write(&result, &reference, &report, options.nonfinite)?;
        let details = || Details::new(&result.view()?, &reference.view()?, &report, options.nonfinite);
        let details = self.html.as_ref().map(|_| details()).transpose()?;
        let one_term = rule.takes_one_term().filter(|_| result.dtype().float_format().is_some());
        let told = Told { baseline: baseline.map(|_| limits.derivation), one_term };
        Ok(Compared { report, nonfinite: options.nonfinite, told, picture, details })
    }
}

/// Tells that sums were taken to have one term, where a tolerance grows with their length and no length was given: it is far too narrow for others.
fn tell_one_term(cases: &[Case]) {
    let mut profiles: Vec<Profile> = cases.iter().filter_map(|case| case.told.one_term).collect();
    profiles.sort_by_key(|profile| profile.name());
    profiles.dedup();
    for profile in profiles {
        screen::note(&format!("note: profile {profile}: K = 1 was taken for the length of sums; --accumulations gives it"));
    }
}

/// Whether both have the same shape, without an element.
fn both_empty(a: &Tensor, b: &Tensor) -> bool {
    a.layout().zip(b.layout()).is_some_and(|(a, b)| a.shape() == b.shape() && a.elements() == 0)
}

/// Whether tensors do not fit each other.
fn is_unfit(error: &Error) -> bool {
    matches!(error, Error::Shape { .. } | Error::WrongDType { .. })
}

/// How many mismatches to list.
fn first(text: &str) -> Result<usize, String> {
    let n = whole(text)?;
    if n > Options::MAX_FIRST { Err(format!("at most {} are listed", Options::MAX_FIRST)) } else { Ok(n) }
}

/// What the cases amount to: what could not be compared outweighs a mismatch, and that a pass which is not to be trusted.
fn outcome(cases: &[Case]) -> Outcome {
    cases.iter().map(outcome_of).max().unwrap_or(Outcome::Pass)
}

fn outcome_of(case: &Case) -> Outcome {
    match &case.verdict {
        CaseVerdict::Failed(_) => Outcome::NoVerdict,
        CaseVerdict::Only(..) => Outcome::Mismatch,
        CaseVerdict::Empty => Outcome::Pass,
        CaseVerdict::Compared(report) => match report.verdict {
            Verdict::Fail => Outcome::Mismatch,
            Verdict::Untrusted => Outcome::Untrusted,
            Verdict::Pass => Outcome::Pass,
        },
    }
}

/// The tensor on the device: where it lies for the host, else copied into `copy`.
pub(super) fn on_device<'a>(device: &Device, tensor: &'a Loaded<'_>, copy: &'a mut Option<DeviceBytes>) -> Result<TensorRef<'a>> {
    let (bytes, dtype, layout) = (tensor.bytes(), tensor.dtype(), tensor.layout().clone());
    if device.kind() == DeviceKind::Host {
        // `device` knows why it was chosen, which reports tell.
        return Ok(TensorRef::from_bytes_on(device, bytes, dtype, layout)?);
    }
    let copy = copy.insert(DeviceBytes::new(device, bytes.len())?);
    copy.copy_from_slice(bytes)?;
    Ok(copy.tensor(dtype, layout)?)
}
