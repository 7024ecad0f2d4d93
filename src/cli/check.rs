//! `hipverify check`: a verdict on the result of a GEMM or a convolution, from its operands alone.

use super::compare::{on_device, painted};
use super::input::{InputArgs, Source, only};
use super::problem::{ConvFlags, GemmFlags};
use super::scales::ScaleFlags;
use super::{EXIT_CODES, Outcome, screen};
use crate::check::{Check, CheckReport, FreivaldsReport};
use crate::device::{Device, DeviceBytes, TensorRef};
use crate::dtype::DType;
use crate::error::Error;
use crate::matrix_core::{Arch, Model, Vendor};
use crate::verify::Verdict;
use crate::verify::bound::Confidence;
use anyhow::{Result, bail, ensure};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Vectors of Freivalds' check where nothing is said.
const VECTORS: &str = "8";

/// The flags of `check`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: hipverify check gemm a.npy b.npy result.npy --arch gfx90a")]
pub(super) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// RESULT = alpha A B + beta C + bias
    #[command(after_help = after(GEMM))]
    Gemm(Box<GemmArgs>),
    /// RESULT is a convolution, or one of its gradients
    #[command(after_help = after(CONV))]
    Conv(Box<ConvArgs>),
}

const AFTER: &str = "\
Element i passes when |result - r| <= E + h, with E = gamma * S + relative * |r| + floor, r the exact result and S = sum of |a||b|, both made from the \
operands, and h half of the spacing of the result's format at |r| + E, where the result was rounded to it; docs/tolerances.md derives the factors.";

const GEMM: &str = "\
Examples:
  hipverify check gemm a.npy b.npy result.npy --arch gfx90a
  hipverify check gemm a.npy b.npy result.npy --transpose-b --alpha 0.5 --c c.npy --bias bias.npy --relu
  hipverify check gemm a.safetensors b.safetensors result.npy --transpose-b --scale-a scales.safetensors:a --scale-b scales.safetensors:b
  hipverify check gemm a.bin b.bin result.bin --dtype bf16,bf16,f32 --shape 512,1024 --shape 1024,256 --shape 512,256";

const CONV: &str = "\
Examples, of 2 images of 8 x 8 with 4 channels, 16 filters of 3 x 3, padding 1:
  hipverify check conv input.npy filter.npy result.npy --param 2,1,2,16,4,3,3,8,8,1,1,1,1,1,1,1,1
  hipverify check conv output_gradient.npy filter.npy result.npy --param 2,1,2,16,4,3,3,8,8,1,1,1,1,1,1,1,1 \
--direction bwd_data --layouts ngchw,gkcyx,ngkhw";

/// What follows the flags in the help.
fn after(examples: &str) -> String {
    format!("{AFTER}\n\n{EXIT_CODES}\n\n{examples}")
}

#[derive(Debug, clap::Args)]
struct GemmArgs {
    #[command(flatten)]
    gemm: GemmFlags,
    #[command(flatten)]
    scales: ScaleFlags,
    /// What is to be judged, [batch x ...] m x n
    result: PathBuf,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, clap::Args)]
struct ConvArgs {
    #[command(flatten)]
    conv: ConvFlags,
    /// What is to be judged
    result: PathBuf,
    #[command(flatten)]
    common: Common,
}

/// What is known of the kernel, and flags of every check.
#[derive(Debug, clap::Args)]
struct Common {
    /// It ran on the matrix cores of this chip: gfx908 (MI100), gfx90a (MI200), gfx942 (MI300), sm_70 (V100), sm_75 (T4), sm_80 (A100), sm_89 (L40S), sm_90 (H100, H200) or sm_100 (B200); also says whether it is bit-exact
    #[arg(long, help_heading = "Kernel")]
    arch: Option<Arch>,
    /// The format of its accumulator, where that is not f32 (f64 for f64 operands, i32 for integers of up to 8 bits) or a matrix or tensor core's; f16 with --arch is also for tensor cores that accumulate in f16
    #[arg(long, value_name = "DTYPE", help_heading = "Kernel")]
    accumulate: Option<DType>,
    /// It cut K into so many parts
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..), help_heading = "Kernel")]
    split_k: u32,
    /// The format in which these are stored and added, where that is not the accumulator's; of one part: the format to which the sum is rounded before alpha, C and the bias
    #[arg(long, value_name = "DTYPE", help_heading = "Kernel")]
    split_k_in: Option<DType>,
    /// It gives the largest number of the result's format for what is beyond that, as conversions with __HIP_SATFINITE do; infinities are wrong then
    #[arg(long, help_heading = "Kernel")]
    saturate: bool,
    /// An earlier output of the kernel, from other operands or from its buffer. Reports whether it would pass too, and how much of a failure equals it
    #[arg(long, value_name = "FILE")]
    earlier: Option<PathBuf>,
    /// How sure the bound is, for all elements together
    #[arg(long, value_name = "P", default_value_t = 0.999_999, conflicts_with = "worst_case")]
    confidence: f64,
    /// Allow what rounding can do at worst
    #[arg(long)]
    worst_case: bool,
    /// Freivalds' check with so many random vectors, instead of making the product again
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024), num_args = 0..=1, default_missing_value = VECTORS)]
    freivalds: Option<u32>,
    /// Multiply-adds beyond which that is done where it is possible and less work
    #[arg(long, value_name = "N", default_value_t = 1 << 42)]
    max_work: u64,
    /// Where to compute: best (the first GPU, else the host), host, gpu, gpu:N
    #[arg(long, value_name = "DEVICE", default_value = "best")]
    device: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    input: InputArgs,
}

impl Args {
    /// Runs the command.
    pub(super) fn run(&self) -> Result<Outcome> {
        let (common, files) = match &self.what {
            What::Gemm(args) => (&args.common, args.files()),
            What::Conv(args) => (&args.common, [&args.conv.first, &args.conv.second, &args.result].map(|path| Source::of(path)).to_vec()),
        };
        let sources: Vec<Source<'_>> = files.into_iter().chain(common.earlier.as_deref().map(Source::of)).collect();
        let files: Vec<&Path> = sources.iter().map(|source| source.path).collect();
        let report = match self.report(common, &sources, &files) {
            Ok(report) => report,
            Err(e) => {
                if common.json {
                    screen::print_json(&Document::new(&files, Err(format!("{e:#}"))))?;
                }
                return Err(e);
            }
        };
        if common.json {
            screen::print_json(&Document::new(&files, Ok(&report)))?;
        } else {
            screen::print(&painted(&report.text(), report.verdict()))?;
        }
        Ok(match report.verdict() {
            Verdict::Pass => Outcome::Pass,
            Verdict::Untrusted => Outcome::Untrusted,
            Verdict::Fail => Outcome::Mismatch,
        })
    }

    fn report(&self, common: &Common, sources: &[Source<'_>], paths: &[&Path]) -> Result<Found> {
        let confidence = if common.worst_case { Confidence::WorstCase } else { Confidence::new(common.confidence)? };
        let device = Device::open(&common.device)?;
        let files = common.input.open_sources(sources)?;
        let loaded = files.iter().map(|file| Ok(only(file)?.load()?)).collect::<Result<Vec<_>>>()?;
        let mut copies: Vec<Option<DeviceBytes>> = files.iter().map(|_| None).collect();
        let tensors: Vec<TensorRef<'_>> =
            loaded.iter().zip(&mut copies).map(|(tensor, copy)| on_device(&device, tensor, copy)).collect::<Result<_>>()?;
        let progress = screen::spinner("check");
        let (earlier, tensors) = match tensors.split_last() {
            Some((last, rest)) if common.earlier.is_some() => (Some(last), rest),
            _ => (None, &*tensors),
        };
        let check = match &self.what {
            What::Gemm(args) => args.check(tensors),
            What::Conv(args) => args.check(tensors),
        }?;
        let check = earlier.into_iter().fold(check, Check::earlier);
        let check = common.described(check).confidence(confidence);
        let vectors = match common.freivalds {
            None => {
                let (most, vectors) = (u128::from(common.max_work), VECTORS.parse()?);
                // Not where it would be no less work, or is not possible.
                let cheaper = || check.sampled_work(vectors).is_some_and(|work| work < check.work());
                (check.work() > most && cheaper()).then_some(vectors)
            }
            vectors => vectors.map(|n| n as usize),
        };
        let found = match vectors {
            Some(vectors) => check.freivalds(vectors).map(|report| Found::Sampled(Box::new(report))),
            None => check.run().map(|report| Found::Whole(Box::new(report))),
        };
        progress.finish_and_clear();
        found.map_err(|e| common.told(e, paths, tensors))
    }
}

/// A report of either kind.
#[derive(Serialize)]
enum Found {
    #[serde(rename = "check")]
    Whole(Box<CheckReport>),
    #[serde(rename = "freivalds")]
    Sampled(Box<FreivaldsReport>),
}

impl Found {
    fn verdict(&self) -> Verdict {
        match self {
            Found::Whole(report) => report.verdict(),
            Found::Sampled(report) => report.verdict,
        }
    }

    fn text(&self) -> String {
        match self {
            Found::Whole(report) => report.to_string(),
            Found::Sampled(report) => report.to_string(),
        }
    }
}

impl Common {
    /// An error with the files that it is about, and a hint where a flag helps.
    fn told(&self, e: Error, paths: &[&Path], tensors: &[TensorRef<'_>]) -> anyhow::Error {
        let files = || paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
        match e {
            // A number of a flag, which is no file's fault.
            Error::InvalidArgument { .. } => e.into(),
            Error::Unsupported { .. } if self.may_mean_tf32(tensors) => {
                let dtypes: Vec<&str> = ["tf32", "tf32"].into_iter().chain(paths.iter().skip(2).map(|_| "-")).collect();
                let dtypes = dtypes.join(",");
                anyhow::anyhow!("{}: {e}; f32 words that tensor cores take as tf32 are read so by --dtype {dtypes}", files())
            }
            e => anyhow::Error::new(e).context(files()),
        }
    }

    /// Whether operands are f32 where tensor cores take such words as tf32 alone.
    fn may_mean_tf32(&self, tensors: &[TensorRef<'_>]) -> bool {
        let takes_tf32 = |arch: Arch| arch.vendor() == Vendor::Nvidia && Model::formats(arch).any(|dtype| dtype == DType::Tf32);
        self.arch.is_some_and(takes_tf32) && tensors.iter().take(2).all(|tensor| tensor.dtype() == DType::F32)
    }

    /// What is known of the kernel.
    fn described<'a>(&self, mut check: Check<'a>) -> Check<'a> {
        if let Some(arch) = self.arch {
            check = check.arch(arch);
        }
        if let Some(dtype) = self.accumulate {
            check = check.accumulator(dtype);
        }
        check.split_k(self.split_k as usize, self.split_k_in).saturates(self.saturate)
    }
}

impl GemmArgs {
    /// A, B, the result, then C, the bias and scales where they are given.
    fn files(&self) -> Vec<Source<'_>> {
        let operands = [&*self.gemm.a, &*self.gemm.b, &*self.result].into_iter();
        operands.chain(self.gemm.addends()).map(Source::of).chain(self.scales.sources()).collect()
    }

    fn check<'a>(&self, tensors: &'a [TensorRef<'a>]) -> Result<Check<'a>> {
        let ([a, b, result, rest @ ..], gemm) = (tensors, &self.gemm) else { bail!("A, B and RESULT are needed") };
        let (addends, scales) = rest.split_at(gemm.addends().count().min(rest.len()));
        let check = Check::gemm(a, b, result).transpose_a(gemm.transpose_a).transpose_b(gemm.transpose_b).alpha(gemm.alpha);
        let check = self.scales.of(check, scales);
        let (c, bias) = gemm.c_and_bias(addends);
        let check = c.into_iter().fold(check, |check, c| check.beta(gemm.beta, c));
        Ok(bias.into_iter().fold(check, Check::bias).epilogue(gemm.epilogue()))
    }
}

impl ConvArgs {
    fn check<'a>(&self, tensors: &'a [TensorRef<'a>]) -> Result<Check<'a>> {
        let [first, second, result] = tensors else { bail!("FIRST, SECOND and RESULT are needed") };
        let param = self.conv.param()?;
        ensure!(result.elements() > 0, "a result without elements: nothing to check");
        Ok(Check::conv(param, self.conv.direction, first, second, result))
    }
}

/// The JSON document.
#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    tool: &'static str,
    /// pass, untrusted, fail, error.
    verdict: String,
    passed: bool,
    /// Operands and result, then C, the bias, scales and the earlier output.
    files: Vec<String>,
    /// Why there is no verdict.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// `check` or `freivalds`.
    #[serde(flatten)]
    found: Option<&'a Found>,
}

impl<'a> Document<'a> {
    fn new(files: &[&Path], found: Result<&'a Found, String>) -> Document<'a> {
        let verdict = found.as_ref().map_or("error".to_owned(), |found| found.verdict().word().to_lowercase());
        let (found, error) = match found {
            Ok(found) => (Some(found), None),
            Err(error) => (None, Some(error)),
        };
        Document {
            schema: 1,
            tool: concat!("hipverify ", env!("CARGO_PKG_VERSION")),
            passed: verdict == "pass",
            verdict,
            files: files.iter().map(|path| path.display().to_string()).collect(),
            error,
            found,
        }
    }
}
