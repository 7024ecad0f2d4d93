//! `hipverify fill`: writes a tensor file from any generator.

use super::input::{Shape, shape, whole};
use super::output::OutputArgs;
use super::{Outcome, screen};
use crate::device::{Layout, TensorMut};
use crate::dtype::DType;
use crate::error::Error;
use crate::files::Output;
use crate::fill::{FillSpec, fill};
use anyhow::{Context, Result, anyhow, ensure};
use std::time::{SystemTime, UNIX_EPOCH};

/// The flags of `fill`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub(super) struct Args {
    #[command(flatten)]
    output: OutputArgs,
    /// The number format
    #[arg(long, value_name = "DTYPE", value_parser = clap::value_parser!(DType))]
    dtype: DType,
    /// The extents, outermost first, such as `128,256`
    #[arg(long, value_name = "N,N,...", allow_hyphen_values = true, value_parser = shape)]
    shape: Shape,
    /// The generator
    #[arg(long = "gen", value_name = "SPEC", default_value = "uniform:-1,1", allow_hyphen_values = true)]
    generator: String,
    /// The seed; the same seed gives the same bits everywhere. `time` takes the seconds of the clock, and says on stderr how many they were
    #[arg(long, value_name = "N|time", value_parser = seed)]
    seed: Option<Seed>,
    /// The stream: other, independent data under the same seed
    #[arg(long, value_name = "N")]
    stream: Option<u32>,
    /// The tensor's name in formats that have names
    #[arg(long, value_name = "NAME", default_value = "tensor")]
    name: String,
}

const AFTER: &str = "\
Generators:
  uniform:MIN,MAX   uniform:RANGE   RANGE     RANGE is r0 (-1,1), r1 (-10,10), r4 (1,5) or r5 (5,10)
  int:MIN,MAX                                 whole numbers, both ends included
  normal:MEAN,SIGMA   constant:V   sequential:DIM   diagonal:V   checkerboard:V   monotonic:INIT,STEP
  sin   cos   hpl (uniform on -0.5,0.5)   bounce:NEAR,FAR   subnormal
  exact:K,MAX_A,MAX_B,ACCUMULATOR,a|b         operands of a product of length K without rounding
  crand:MIN,MAX   crand:RANGE                 the C library's rand() after srand(seed)
  values:V,V,...                              these numbers, again and again
each followed by any of /seed=N /stream=N /special=RATE /sparse24

Example: hipverify fill a.npy --dtype f16 --shape 128,256 --gen uniform:-1,1/special=0.001 --seed 7";

/// Where the seed comes from.
#[derive(Clone, Copy, Debug)]
enum Seed {
    Given(u64),
    Time,
}

fn seed(text: &str) -> Result<Seed, String> {
    if text == "time" { Ok(Seed::Time) } else { whole(text).map(Seed::Given).map_err(|e| format!("{e}, or `time`")) }
}

impl Seed {
    /// The seed; one that the clock gives is told, as nothing else could repeat the data.
    fn number(self) -> Result<u64> {
        match self {
            Seed::Given(number) => Ok(number),
            Seed::Time => {
                let number = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock stands before 1970")?.as_secs();
                screen::note(&format!("seed {number}   (--seed {number} makes the same data)"));
                Ok(number)
            }
        }
    }
}

impl std::fmt::Display for Seed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Seed::Given(number) => number.fmt(f),
            Seed::Time => f.write_str("time"),
        }
    }
}

impl Args {
    /// Runs the command.
    pub(super) fn run(&self) -> Result<Outcome> {
        let (dtype, extents) = (self.dtype, &self.shape.0);
        let generator = self.generator()?;
        let mut data = self.output.memory(dtype, extents)?;
        let progress = screen::spinner("fill");
        fill(&mut TensorMut::from_host_bytes(&mut data, dtype, Layout::contiguous(extents)?)?, &generator)
            .map_err(|error| self.with_hint(error))?;
        self.output.write(&Output { name: &self.name, dtype, shape: extents, bytes: &data })?;
        progress.finish_and_clear();
        Ok(Outcome::Pass)
    }

    /// An error of the generator. For formats without negative numbers, which the default has, it says what fits.
    fn with_hint(&self, error: Error) -> anyhow::Error {
        let fits = match (self.dtype, self.dtype.int_format()) {
            (DType::F8E8M0, _) => "int:1,2".to_owned(),
            (_, Some(int)) if int.min() == 0 => format!("int:0,{}", int.max().min(255)),
            _ => return error.into(),
        };
        if matches!(error, Error::InvalidArgument { .. }) { anyhow!("{error}; `--gen {fits}` fits {}", self.dtype) } else { error.into() }
    }

    /// The generator, with seed and stream from its own text or from flags.
    fn generator(&self) -> Result<FillSpec> {
        let mut generator: FillSpec = self.generator.parse()?;
        let has = |option: &str| self.generator.split('/').any(|part| part.starts_with(option));
        if let Some(seed) = self.seed {
            ensure!(!has("seed="), "--seed {seed} and /seed= of --gen: give one of them");
            generator = generator.seed(seed.number()?);
        }
        if let Some(stream) = self.stream {
            ensure!(!has("stream="), "--stream {stream} and /stream= of --gen: give one of them");
            generator = generator.stream(stream);
        }
        Ok(generator)
    }
}
