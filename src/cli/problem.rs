//! Flags that describe a GEMM or a convolution and name its operands: what `check` judges and `reference` computes.

use crate::device::TensorRef;
use crate::reference::{ConvParam, Direction, Epilogue};
use anyhow::{Result, bail};
use std::path::{Path, PathBuf};

/// A GEMM: alpha A B + beta C + bias.
#[derive(Debug, clap::Args)]
pub(super) struct GemmFlags {
    /// A, [batch x ...] m x k
    pub(super) a: PathBuf,
    /// B, [batch x ...] k x n
    pub(super) b: PathBuf,
    /// A is k x m
    #[arg(long)]
    pub(super) transpose_a: bool,
    /// B is n x k
    #[arg(long)]
    pub(super) transpose_b: bool,
    /// The factor of A B
    #[arg(long, value_name = "X", default_value_t = 1.0, allow_negative_numbers = true)]
    pub(super) alpha: f64,
    /// C, of the result's shape or m x n
    #[arg(long, value_name = "FILE")]
    c: Option<PathBuf>,
    /// The factor of C
    #[arg(long, value_name = "X", default_value_t = 1.0, allow_negative_numbers = true, requires = "c")]
    pub(super) beta: f64,
    /// A vector of n that is added to every row
    #[arg(long, value_name = "FILE")]
    bias: Option<PathBuf>,
    /// Negative results become 0
    #[arg(long)]
    relu: bool,
}

impl GemmFlags {
    /// C and the bias, where they are given.
    pub(super) fn addends(&self) -> impl Iterator<Item = &Path> {
        [&self.c, &self.bias].into_iter().flatten().map(PathBuf::as_path)
    }

    /// Which of the tensors of [`addends`](GemmFlags::addends) is C, and which the bias.
    pub(super) fn c_and_bias<'t, 'a>(&self, addends: &'t [TensorRef<'a>]) -> (Option<&'t TensorRef<'a>>, Option<&'t TensorRef<'a>>) {
        let mut addends = addends.iter();
        let c = self.c.as_ref().and_then(|_| addends.next());
        (c, addends.next())
    }

    /// What happens last.
    pub(super) fn epilogue(&self) -> Epilogue {
        if self.relu { Epilogue::Relu } else { Epilogue::None }
    }
}

/// A convolution, or one of its gradients.
#[derive(Debug, clap::Args)]
pub(super) struct ConvFlags {
    /// The input; of the gradient of the input, the output's gradient
    pub(super) first: PathBuf,
    /// The filter; of the gradient of the filter, the output's gradient
    pub(super) second: PathBuf,
    /// Dimensions, G, N, K, C of a group, then filter, input, strides, dilations, left and right pads: 2,1,128,256,192,3,3,71,71,2,2,1,1,1,1,1,1
    #[arg(long, value_name = "NUMBERS", required = true)]
    param: ConvParam,
    /// fwd, bwd_data or bwd_weight
    #[arg(long, default_value = "fwd")]
    pub(super) direction: Direction,
    /// Layouts of input, filter and output, such as nhwgc,gkyxc,nhwgk [default: gnhwc,gkyxc,gnhwk; in 1 or 3 dimensions accordingly]
    #[arg(long, value_name = "IN,FIL,OUT", value_delimiter = ',')]
    layouts: Vec<String>,
}

impl ConvFlags {
    /// The sizes, with the layouts.
    pub(super) fn param(&self) -> Result<ConvParam> {
        match self.layouts.as_slice() {
            [] => Ok(self.param.clone()),
            [input, filter, output] => Ok(self.param.clone().with_layouts(input, filter, output)?),
            other => bail!("--layouts has {} names; it takes 3: those of input, filter and output", other.len()),
        }
    }
}
