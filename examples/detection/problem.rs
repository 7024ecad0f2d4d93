//! A problem: what kernels are given, of one kind of operation, formats and input.

use hipverify::dtype::{Overflow, Rounding};
use hipverify::fill::FillUniformRand;
use hipverify::reference::ConvParam;
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
    /// Uniform in [-1, 1), sums of 4,096 terms and few of them.
    Long,
}

impl Input {
    pub const ALL: [Input; 7] =
        [Input::Default, Input::Boundary, Input::Small, Input::Subnormal, Input::Large, Input::OneSigned, Input::Long];

    pub fn name(self) -> &'static str {
        match self {
            Input::Default => "default",
            Input::Boundary => "boundary shapes",
            Input::Small => "small",
            Input::Subnormal => "subnormal",
            Input::Large => "large",
            Input::OneSigned => "one-signed",
            Input::Long => "4,096 terms",
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

    /// Formats of 8 bits, of inputs and of results, and integers.
    pub const NARROW: [Formats; 7] = [
        Formats { input: DType::F8E4M3, output: DType::F8E4M3 },
        Formats { input: DType::F8E5M2, output: DType::F8E5M2 },
        Formats { input: DType::F8E4M3Fnuz, output: DType::F8E4M3Fnuz },
        Formats { input: DType::F8E5M2Fnuz, output: DType::F8E5M2Fnuz },
        Formats { input: DType::F8E4M3, output: DType::F16 },
        Formats { input: DType::F8E4M3Fnuz, output: DType::F32 },
        Formats { input: DType::I8, output: DType::I32 },
    ];

    /// What is computed in them. Of integers sums alone.
    pub fn operations(self) -> &'static [Operation] {
        if self.input.is_int() { &[Operation::Gemm, Operation::Convolution] } else { &Operation::ALL }
    }

    /// The format of the reference: what the exact result is rounded to.
    pub fn reference(self) -> DType {
        if self.output.is_int() { self.output } else { DType::F32 }
    }

    pub fn name(self) -> String {
        format!("{} to {}", self.input, self.output)
    }
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
    /// Of a convolution: the image that B's patches are of.
    pub pixels: Vec<f32>,
    /// The range of the inputs.
    pub range: [f64; 2],
    /// What the result's memory held before.
    pub stale: Vec<f32>,
}

/// Images of convolutions.
fn image(input: Input) -> Image {
    match input {
        Input::Boundary => Image { channels: 5, side: 13 },
        Input::Long => Image { channels: 456, side: 6 },
        _ => Image { channels: 16, side: 10 },
    }
}

/// Rows, columns and k.
fn extents(operation: Operation, input: Input) -> (usize, usize, usize) {
    let Image { channels, side } = image(input);
    match (operation, input) {
        (Operation::Gemm, Input::Boundary) => (67, 45, 131),
        (Operation::Gemm, Input::Long) => (32, 32, 4096),
        (Operation::Gemm, _) => (64, 64, 256),
        (Operation::Convolution, Input::Boundary) => (19, (side - 2) * (side - 2), 9 * channels),
        (Operation::Convolution, _) => (32, (side - 2) * (side - 2), 9 * channels),
        (Operation::Reduction, Input::Boundary) => (67, 1, 1001),
        (Operation::Reduction, Input::Long) => (64, 1, 4096),
        (Operation::Reduction, _) => (64, 1, 1024),
        (_, Input::Boundary) => (67, 131, 131),
        (_, Input::Long) => (16, 4096, 4096),
        (..) => (64, 128, 128),
    }
}

impl Problem {
    pub fn new(operation: Operation, input: Input, formats: Formats, seed: u64) -> Result<Problem> {
        let ((rows, columns, k), image) = (extents(operation, input), image(input));
        let (left, right) = ranges(operation, input, formats.input);
        let values = |n: usize, range: [f64; 2], stream: u32| values(n, range, formats.input, (seed, stream));
        let a = values(rows * k, left, 0)?;
        let pixels = match operation {
            Operation::Convolution => values(image.channels * image.side * image.side, right, 1)?,
            _ => Vec::new(),
        };
        let b = match operation {
            Operation::Gemm => values(columns * k, right, 1)?,
            Operation::Convolution => patches(&pixels, image),
            Operation::Reduction => vec![1.0; k],
            _ => values(rows * columns, right, 1)?,
        };
        let mut problem = Problem { operation, input, formats, rows, columns, k, a, b, pixels, range: left, stale: Vec::new() };
        let earlier = Problem { a: values(rows * k, left, 2)?, ..problem.clone() };
        problem.stale = super::correct::exact(&earlier).into_iter().map(|x| x as f32).collect();
        Ok(problem)
    }

    /// The parameters of a convolution.
    pub fn convolution(&self) -> Result<ConvParam> {
        let Image { channels, side } = image(self.input);
        let param: ConvParam = format!("2 1 1 {} {channels} 3 3 {side} {side} 1 1 1 1 0 0 0 0", self.rows).parse()?;
        param.with_layouts("nchw", "kcyx", "nkhw")
    }

    /// For lists of results.
    pub fn name(&self) -> String {
        let Formats { input, output } = self.formats;
        format!("{:?} {} {input} to {output}", self.operation, self.input.name()).to_lowercase()
    }

    /// The exact result, rounded to the reference's format, as bytes.
    pub fn reference(&self, exact: &[f64]) -> Vec<u8> {
        let dtype = self.formats.reference();
        let mut bytes = vec![0; exact.len() * dtype.unit_bytes()];
        for (i, &x) in exact.iter().enumerate() {
            dtype.store_bits(&mut bytes, i, dtype.encode(x, Rounding::NearestEven, Overflow::Ieee));
        }
        bytes
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
        // Their sums are whole numbers that f32, in which kernels of the zoo compute, holds.
        _ if format.is_int() => (around(8.0), around(8.0)),
        Input::Default | Input::Boundary | Input::Long => (around(1.0), around(1.0)),
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
fn values(n: usize, [min, max]: [f64; 2], format: DType, (seed, stream): (u64, u32)) -> Result<Vec<f32>> {
    let device = Device::host();
    let mut wide = DeviceMem::<f32>::new(&device, n)?;
    // Scaled afterwards: a generator rounds to f32, which cannot hold all subnormal numbers of bf16.
    wide.fill(&FillUniformRand::new(0.0, 1.0).seed(seed).stream(stream))?;
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
