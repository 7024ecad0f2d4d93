//! A problem: what kernels are given, of one kind of operation, formats and input.

use hipverify::dtype::{Overflow, Rounding};
use hipverify::fill::FillUniformRand;
use hipverify::{DType, Device, DeviceMem, Result};

/// Kinds of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Rows of A times columns of B.
    Gemm,
    /// Filters times patches of an image: a GEMM whose B is gathered.
    Convolution,
    /// The mean of each row.
    Reduction,
    /// Of each row.
    Softmax,
    /// Layer normalization of each row.
    Norm,
    /// The GELU of x, times y.
    Elementwise,
}

impl Operation {
    pub const ALL: [Operation; 6] =
        [Operation::Gemm, Operation::Convolution, Operation::Reduction, Operation::Softmax, Operation::Norm, Operation::Elementwise];

    /// Whether elements are sums of products, A·B.
    pub fn is_product(self) -> bool {
        matches!(self, Operation::Gemm | Operation::Convolution | Operation::Reduction)
    }
}

/// Kinds of input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// Uniform in [-1, 1).
    Default,
    /// The same, shapes that no tile divides.
    Boundary,
    /// Uniform in [-2^-9, 2^-9).
    Small,
    /// Subnormal numbers of the format; the other operand of a product is large.
    Subnormal,
    /// Uniform in [-24, 24), of softmax in [-128, 128).
    Large,
    /// Uniform in [0, 1).
    OneSigned,
}

impl Input {
    pub const ALL: [Input; 6] = [Input::Default, Input::Boundary, Input::Small, Input::Subnormal, Input::Large, Input::OneSigned];

    pub fn name(self) -> &'static str {
        match self {
            Input::Default => "default",
            Input::Boundary => "boundary shapes",
            Input::Small => "small",
            Input::Subnormal => "subnormal",
            Input::Large => "large",
            Input::OneSigned => "one-signed",
        }
    }
}

/// Formats of the inputs and of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Formats {
    pub input: DType,
    pub output: DType,
}

impl Formats {
    pub const ALL: [Formats; 3] = [
        Formats { input: DType::F16, output: DType::F16 },
        Formats { input: DType::Bf16, output: DType::Bf16 },
        Formats { input: DType::F16, output: DType::F32 },
    ];
}

/// An image of a convolution: channels of H x W, and a filter of 3 x 3 without padding.
#[derive(Clone, Copy, Debug)]
pub struct Image {
    pub channels: usize,
    pub side: usize,
}

/// Operands and what is to be computed. A product is `rows` x `columns` with A `[rows][k]` and B `[columns][k]`; the other operations have
/// x in A and y in B, both `[rows][columns]`.
#[derive(Clone, Debug)]
pub struct Problem {
    pub operation: Operation,
    pub input: Input,
    pub formats: Formats,
    pub rows: usize,
    pub columns: usize,
    pub k: usize,
    pub a: Vec<f32>,
    pub b: Vec<f32>,
    /// The range of the inputs.
    pub range: [f64; 2],
    /// What the result's memory held before.
    pub stale: Vec<f32>,
}

impl Problem {
    pub fn new(operation: Operation, input: Input, formats: Formats) -> Result<Problem> {
        let odd = input == Input::Boundary;
        let image = if odd { Image { channels: 5, side: 13 } } else { Image { channels: 16, side: 10 } };
        let (rows, columns, k) = match operation {
            Operation::Gemm => {
                if odd {
                    (67, 45, 131)
                } else {
                    (64, 64, 256)
                }
            }
            Operation::Convolution => (if odd { 19 } else { 32 }, (image.side - 2) * (image.side - 2), 9 * image.channels),
            Operation::Reduction => {
                if odd {
                    (67, 1, 1001)
                } else {
                    (64, 1, 1024)
                }
            }
            _ => {
                if odd {
                    (67, 131, 131)
                } else {
                    (64, 128, 128)
                }
            }
        };
        let (left, right) = ranges(operation, input, formats.input);
        let a = values(rows * k, left, formats.input, 0)?;
        let b = match operation {
            Operation::Gemm => values(columns * k, right, formats.input, 1)?,
            Operation::Convolution => {
                let pixels = values(image.channels * image.side * image.side, right, formats.input, 1)?;
                patches(&pixels, image)
            }
            Operation::Reduction => vec![1.0; k],
            _ => values(rows * columns, right, formats.input, 1)?,
        };
        let mut problem = Problem { operation, input, formats, rows, columns, k, a, b, range: left, stale: Vec::new() };
        let earlier = Problem { a: values(rows * k, left, formats.input, 2)?, ..problem.clone() };
        problem.stale = super::correct::exact(&earlier).into_iter().map(|x| x as f32).collect();
        Ok(problem)
    }

    /// For lists of results.
    pub fn name(&self) -> String {
        let Formats { input, output } = self.formats;
        format!("{:?} {} {input} to {output}", self.operation, self.input.name()).to_lowercase()
    }

    /// Rounds values to the result's format, as bytes.
    pub fn store(&self, values: &[f32], rounding: Rounding) -> Vec<u8> {
        let dtype = self.formats.output;
        let mut bytes = vec![0; values.len() * dtype.unit_bytes()];
        for (i, &x) in values.iter().enumerate() {
            dtype.store_bits(&mut bytes, i, dtype.encode(f64::from(x), rounding, Overflow::Ieee));
        }
        bytes
    }
}

/// Ranges of both operands.
fn ranges(operation: Operation, input: Input, format: DType) -> ([f64; 2], [f64; 2]) {
    let around = |x: f64| [-x, x];
    match input {
        Input::Default | Input::Boundary => (around(1.0), around(1.0)),
        Input::Small => (around(2f64.powi(-9)), around(2f64.powi(-9))),
        // The exponentials of softmax overflow if they are not shifted.
        Input::Large if operation == Operation::Softmax => (around(128.0), around(128.0)),
        Input::Large => (around(24.0), around(24.0)),
        Input::OneSigned => ([0.0, 1.0], [0.0, 1.0]),
        Input::Subnormal => {
            let least = format.float_format().map_or(0.0, |f| f.min_normal());
            // Products with a large operand are no subnormals of the result.
            let other = if operation.is_product() { 2f64.powi(14) } else { 1.0 };
            (around(least), around(other))
        }
    }
}

/// Uniform numbers of a format, as f32.
fn values(n: usize, [min, max]: [f64; 2], format: DType, stream: u32) -> Result<Vec<f32>> {
    let device = Device::host();
    let mut wide = DeviceMem::<f32>::new(&device, n)?;
    // Scaled afterwards: a generator rounds to f32, which cannot hold all subnormal numbers of bf16.
    wide.fill(&FillUniformRand::new(0.0, 1.0).seed(2026).stream(stream))?;
    let round = |x: f64| format.decode(format.encode(x, Rounding::NearestEven, Overflow::Saturate)) as f32;
    Ok(wide.to_vec()?.into_iter().map(|x| round(min + (max - min) * f64::from(x))).collect())
}

/// The patches of an image, one for each output pixel: `[pixel][channel, dy, dx]`.
pub fn patches(pixels: &[f32], Image { channels, side }: Image) -> Vec<f32> {
    let out = side - 2;
    let mut b = Vec::with_capacity(out * out * channels * 9);
    for (y, x) in (0..out * out).map(|p| (p / out, p % out)) {
        for c in 0..channels {
            for (dy, dx) in (0..9).map(|t| (t / 3, t % 3)) {
                b.push(pixels[(c * side + y + dy) * side + x + dx]);
            }
        }
    }
    b
}
