//! `hipverify reference`: writes the result of a GEMM or a convolution, computed with a stated arithmetic.

use super::apart::expect_apart;
use super::compare::on_device;
use super::input::{InputArgs, only};
use super::output::OutputArgs;
use super::problem::{ConvFlags, GemmFlags};
use super::{Outcome, screen};
use crate::device::{Device, DeviceBytes, Layout, TensorRef};
use crate::dtype::DType;
use crate::error::Error;
use crate::files::Output;
use crate::reference::{Accumulate, Arithmetic, Conv, Gemm, KOrder};
use anyhow::{Context, Result, bail, ensure};
use std::path::Path;

/// The flags of `reference`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: hipverify reference gemm a.npy b.npy reference.npy --arithmetic gfx90a:f16")]
pub(super) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// OUT = alpha A B + beta C + bias
    #[command(after_help = AFTER)]
    Gemm(Box<GemmArgs>),
    /// OUT is a convolution, or one of its gradients
    #[command(after_help = AFTER)]
    Conv(Box<ConvArgs>),
}

const AFTER: &str = "\
Arithmetic:
  f64               f64, one fused multiply-add a product
  f64-rounded       f64, rounded to f32 after every product
  every4            f64, rounded to f32 after every fourth product
  groups4           every four products summed in f64, rounded to f32, added in f32
  f32               f32; product and sum rounded separately
  f32-fma or fma    f32, one fused multiply-add a product
  gfx90a:f16 ...    the matrix core of gfx908, gfx90a or gfx942 for an input format; gfx90a alone: for that of the operands
  sm_90:f16 ...     the tensor core of sm_70, sm_75, sm_80, sm_89, sm_90 or sm_100 likewise; sm_90:f16:in_f16 accumulates in f16, sm_90:e4m3:mma is by mma.sync
each with +flush where subnormal inputs count as 0. Products are added in ascending order of k; docs/reference.md has the definitions.

Exit codes: 0 the file is written, 2 it is not (bad input or usage, a device that failed).";

#[derive(Debug, clap::Args)]
struct GemmArgs {
    #[command(flatten)]
    gemm: GemmFlags,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, clap::Args)]
struct ConvArgs {
    #[command(flatten)]
    conv: ConvFlags,
    /// The order of the products of an element: channels-first or channels-last
    #[arg(long, default_value = "channels-first", value_parser = order)]
    order: KOrder,
    #[command(flatten)]
    common: Common,
}

fn order(name: &str) -> Result<KOrder, String> {
    name.parse().map_err(|error| match error {
        // The flag and its value are named already.
        Error::InvalidArgument { limit, .. } => limit,
        error => error.to_string(),
    })
}

/// How it is computed, and what is written.
#[derive(Debug, clap::Args)]
struct Common {
    #[command(flatten)]
    output: OutputArgs,
    /// How products are added: f64, f64-rounded, every4, groups4, f32, fma, gfx90a, gfx90a:bf16 ..., each with +flush or not
    #[arg(long, value_name = "NAME", default_value = "f64")]
    arithmetic: String,
    /// The format of the result, rounded to nearest even: f64 for the arithmetic f64 if nothing is said, f32 for others
    #[arg(long, value_name = "DTYPE")]
    to: Option<DType>,
    /// The tensor's name in formats that have names
    #[arg(long, value_name = "NAME", default_value = "tensor")]
    name: String,
    /// Where to compute: best (the first GPU, else the host), host, gpu, gpu:N
    #[arg(long, value_name = "DEVICE", default_value = "best")]
    device: String,
    #[command(flatten)]
    input: InputArgs,
}

impl Args {
    /// Runs the command.
    pub(super) fn run(&self) -> Result<Outcome> {
        let (common, paths) = match &self.what {
            What::Gemm(args) => (&args.common, [&*args.gemm.a, &*args.gemm.b].into_iter().chain(args.gemm.addends()).collect()),
            What::Conv(args) => (&args.common, vec![&*args.conv.first, &*args.conv.second]),
        };
        let paths: Vec<&Path> = paths;
        expect_apart([("OUT", &*common.output.out)], paths.iter().copied())?;
        let device = Device::open(&common.device)?;
        let files = common.input.open_each(&paths)?;
        let loaded = files.iter().map(|file| Ok(only(file)?.load()?)).collect::<Result<Vec<_>>>()?;
        let mut copies: Vec<Option<DeviceBytes>> = files.iter().map(|_| None).collect();
        let tensors: Vec<TensorRef<'_>> =
            loaded.iter().zip(&mut copies).map(|(tensor, copy)| on_device(&device, tensor, copy)).collect::<Result<_>>()?;
        let [a, b, addends @ ..] = &*tensors else { bail!("two operands are needed") };
        let arithmetic = Arithmetic::for_operands(&common.arithmetic, [a.dtype(), b.dtype()]).context("--arithmetic")?;
        let reference = match &self.what {
            What::Gemm(args) => args.reference(arithmetic, addends)?,
            What::Conv(args) => Reference::Conv(Conv::new(args.conv.param()?, args.conv.direction, arithmetic).order(args.order)),
        };
        let labels = || paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
        let shape = reference.shape(a, b).with_context(labels)?;
        let dtype = common.dtype(arithmetic);
        let mut result = common.output.memory(dtype, &shape)?;
        let progress = screen::spinner("reference");
        reference.run([a, b], dtype, &shape, &mut result).with_context(labels)?;
        common.output.write(&Output { name: &common.name, dtype, shape: &shape, bytes: &result })?;
        progress.finish_and_clear();
        Ok(Outcome::Pass)
    }
}

impl Common {
    /// The format of the result.
    fn dtype(&self, arithmetic: Arithmetic) -> DType {
        let widest = if arithmetic.accumulate == Accumulate::F64 { DType::F64 } else { DType::F32 };
        self.to.unwrap_or(widest)
    }
}

impl GemmArgs {
    fn reference<'a>(&self, arithmetic: Arithmetic, addends: &'a [TensorRef<'a>]) -> Result<Reference<'a>> {
        let flags = &self.gemm;
        for (what, value) in [("alpha", flags.alpha), ("beta", flags.beta)] {
            ensure!(value.is_finite(), "{what} cannot be {value}: it has to be finite");
        }
        let gemm = Gemm::new(arithmetic).transpose_a(flags.transpose_a).transpose_b(flags.transpose_b).alpha(flags.alpha);
        let (c, bias) = flags.c_and_bias(addends);
        let gemm = c.into_iter().fold(gemm, |gemm, c| gemm.beta(flags.beta, c));
        let gemm = bias.into_iter().fold(gemm, Gemm::bias).epilogue(flags.epilogue());
        Ok(Reference::Gemm { gemm, transposed: [flags.transpose_a, flags.transpose_b], c })
    }
}

/// What is computed.
enum Reference<'a> {
    Gemm { gemm: Gemm<'a>, transposed: [bool; 2], c: Option<&'a TensorRef<'a>> },
    Conv(Conv),
}

impl Reference<'_> {
    /// The extents of the result; whether the operands fit each other is seen where it is computed.
    fn shape(&self, a: &TensorRef<'_>, b: &TensorRef<'_>) -> Result<Vec<usize>> {
        let (transposed, c) = match self {
            Reference::Conv(conv) => return Ok(conv.param().named_shape(conv.roles()[2])),
            Reference::Gemm { transposed, c, .. } => (transposed, c),
        };
        let matrix = |name: &str, t: &TensorRef<'_>| match *t.shape() {
            [.., rows, columns] => Ok([rows, columns]),
            _ => bail!("operand {name}: shape {:?} is no matrix, nor a batch of them", t.shape()),
        };
        let (a_extents, b_extents) = (matrix("A", a)?, matrix("B", b)?);
        let (m, n) = (a_extents[usize::from(transposed[0])], b_extents[usize::from(!transposed[1])]);
        // One matrix serves a batch, whether it has dimensions of extent 1 or none.
        let batches =
            [Some(a), Some(b), *c].into_iter().flatten().filter_map(|t| t.shape().split_last_chunk::<2>()).map(|(batch, _)| batch);
        let batch = batches.max_by_key(|batch| (batch.iter().any(|&extent| extent != 1), batch.len()));
        Ok([batch.unwrap_or_default(), &[m, n]].concat())
    }

    /// Computes the result, as `dtype`, to the host's memory.
    fn run(&self, [a, b]: [&TensorRef<'_>; 2], dtype: DType, shape: &[usize], result: &mut [u8]) -> Result<()> {
        let layout = Layout::contiguous(shape)?;
        let mut memory = DeviceBytes::new(a.device(), result.len())?;
        let mut to = memory.tensor_mut(dtype, layout)?;
        match self {
            Reference::Gemm { gemm, .. } => gemm.run(a, b, &mut to)?,
            Reference::Conv(conv) => conv.run(a, b, &mut to)?,
        }
        Ok(memory.copy_to_slice(result)?)
    }
}
