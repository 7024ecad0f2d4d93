//! What follows the sum of a GEMM, bit for bit: alpha, C, the bias and the last function, in each order of roundings that kernels are known to have.
//!
//! | order | kernels |
//! |---|---|
//! | in f32, a rounding each, or alpha or beta in a fused multiply-add | Tensile (`KernelWriterConversion.py`; what the compiler fuses of `alpha * accum + beta * C` is its choice), CUTLASS (`linear_combination.h`) |
//! | the sum is rounded to the result's format first | Composable Kernel with a `CShuffleDataType` of the result's format: `Bilinear` of bf16 |
//! | the same, and alpha, beta and what is done with them are in that format as well | `Bilinear` and `Scale` of f16 (`binary_element_wise_operation.hpp`) |
//! | accumulators start with beta / alpha C, and are multiplied by alpha | CUDA samples (`cudaTensorCoreGemm.cu`) |
//! | beta C is written first, then each part of k, times alpha, is added to it in memory | Tensile's split-k in a single buffer (`KernelWriterBetaOnly.py`, then atomic additions) |
//! | an operand is multiplied by alpha first, and rounded to its format | attention in Triton (`06-fused-attention.py`: `q = (q * qk_scale).to(...)`) |

use super::piece::Piece;
use super::problem::{Product, values};
use crate::device::TensorRef;
use crate::dtype::DType;
use crate::error::Result;
use crate::reference::Epilogue;
use std::fmt;

/// What follows the sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    /// There is nothing.
    Nothing,
    /// alpha, C and the bias.
    Then(Held, Fused),
    /// No addition of C: accumulators start with beta / alpha times C.
    Started {
        /// Whether alpha is not 1.
        scaled: bool,
    },
    /// beta times C, to which each part of k is added, times alpha.
    Added,
}

/// In which format it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held {
    /// f32.
    Single,
    /// f32, of sums that were rounded to this format.
    Rounded(DType),
    /// This one, with alpha and beta.
    Narrow(DType),
}

/// Which operations are one rounding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fused {
    /// None: alpha times the sum, beta times C, and each addition are rounded.
    Nothing,
    /// alpha times the sum with what is added to it first: C, or the bias where there is no C.
    Sum,
    /// beta times C with its addition.
    C,
}

impl fmt::Display for After {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (held, fused) = match *self {
            After::Nothing => return Ok(()),
            After::Started { scaled: false } => return f.write_str(", in accumulators that start with beta C, then bias"),
            After::Started { scaled: true } => return f.write_str(", in accumulators that start with beta / alpha C, then alpha and bias"),
            After::Added => return f.write_str(", each part times alpha added to beta C"),
            After::Then(held, fused) => (held, fused),
        };
        if let Held::Rounded(dtype) | Held::Narrow(dtype) = held {
            write!(f, ", rounded to {dtype}")?;
        }
        f.write_str(match fused {
            Fused::Nothing => ", then alpha, C and bias with a rounding each",
            Fused::Sum => ", then alpha in an fma, C and bias",
            Fused::C => ", then alpha, beta C in an fma, and bias",
        })?;
        if let Held::Narrow(dtype) = held { write!(f, ", in {dtype}") } else { Ok(()) }
    }
}

/// The operands of an epilogue, on the host.
pub(super) struct Operands {
    alpha: f32,
    beta: f32,
    c: Option<Vec<f32>>,
    bias: Option<Vec<f32>>,
    last: Epilogue,
    /// Whether the values of C and the bias are some of f16.
    in_f16: bool,
}

impl Operands {
    /// Those of a product; of a convolution there are none.
    pub(super) fn of(product: Option<&Product<'_>>) -> Result<Operands> {
        let Some(p) = product else {
            return Ok(Operands { alpha: 1.0, beta: 0.0, c: None, bias: None, last: Epilogue::None, in_f16: true });
        };
        let read = |tensor: &Option<TensorRef<'_>>| tensor.as_ref().map(values).transpose();
        let in_f16 = [&p.c, &p.bias].into_iter().flatten().all(|t| t.dtype() == DType::F16);
        Ok(Operands { alpha: p.alpha as f32, beta: p.beta as f32, c: read(&p.c)?, bias: read(&p.bias)?, last: p.epilogue, in_f16 })
    }

    /// The factor of an operand that is multiplied by alpha first, where that shows: a power of two changes no digits.
    pub(super) fn scale(&self) -> Option<f32> {
        let digits = self.alpha.to_bits() & ((1 << 23) - 1);
        (self.alpha.is_normal() && digits != 0).then_some(self.alpha)
    }

    /// The same where an operand was multiplied by alpha.
    pub(super) fn without_alpha(self) -> Operands {
        Operands { alpha: 1.0, ..self }
    }

    /// The orders in which these may be applied to sums of one part or several, for a result of this format; of several that are the same the first.
    pub(super) fn orders(&self, parts: bool, result: DType) -> Vec<After> {
        let scaled = self.alpha != 1.0;
        if !scaled && self.c.is_none() && self.bias.is_none() {
            return vec![After::Nothing];
        }
        let mut fused = vec![Fused::Nothing];
        fused.extend((scaled && (self.c.is_some() || self.bias.is_some())).then_some(Fused::Sum));
        fused.extend((self.c.is_some() && self.beta != 1.0).then_some(Fused::C));
        let mut held = vec![Held::Single];
        held.extend(result.float_format().filter(|f| f.mantissa_bits < 23).map(|_| Held::Rounded(result)));
        held.extend((result == DType::F16 && self.in_f16).then_some(Held::Narrow(result)));
        let mut orders: Vec<After> = held.into_iter().flat_map(|held| fused.iter().map(move |&fused| After::Then(held, fused))).collect();
        orders.extend((self.c.is_some() && self.alpha != 0.0).then_some(After::Started { scaled }));
        orders.extend((parts && result == DType::F32 && self.bias.is_none()).then_some(After::Added));
        orders
    }

    /// What accumulators, or memory to which parts are added, start with, at each element of a piece of the result; zeros where there is no C.
    pub(super) fn start(&self, after: After, piece: &Piece<'_>) -> Vec<f32> {
        let factor = if after == (After::Started { scaled: true }) { self.beta / self.alpha } else { self.beta };
        let value = |i: usize| self.c.as_ref().map_or(0.0, |c| factor * c[piece.index_of(i) % c.len()]);
        (0..piece.elements()).map(value).collect()
    }

    /// alpha times a part of k.
    pub(super) fn times_alpha(&self, part: f32) -> f32 {
        if self.alpha == 1.0 { part } else { self.alpha * part }
    }

    /// What a sum becomes at an index of a result with so many columns, before it is rounded to the result's format.
    pub(super) fn apply(&self, after: After, sum: f32, index: usize, columns: usize) -> f32 {
        let bias = self.bias.as_ref().map(|bias| bias[index % columns]);
        // A matrix of C serves every matrix of a batch.
        let c = self.c.as_ref().map(|c| c[index % c.len()]);
        let x = match after {
            After::Nothing | After::Added => sum,
            After::Started { .. } => bias.map_or(self.times_alpha(sum), |y| self.times_alpha(sum) + y),
            After::Then(Held::Single, fused) => Terms { sum, c, bias, alpha: self.alpha, beta: self.beta }.in_f32(fused),
            After::Then(Held::Rounded(dtype), fused) => {
                Terms { sum: dtype.rounded(sum.into()) as f32, c, bias, alpha: self.alpha, beta: self.beta }.in_f32(fused)
            }
            After::Then(Held::Narrow(dtype), fused) => {
                let [sum, alpha, beta] = [sum, self.alpha, self.beta].map(|x| dtype.rounded(x.into()) as f32);
                Terms { sum, c, bias, alpha, beta }.narrow(fused, dtype)
            }
        };
        self.last.apply(x.into()) as f32
    }
}

/// One element of what is added.
struct Terms {
    sum: f32,
    c: Option<f32>,
    bias: Option<f32>,
    alpha: f32,
    beta: f32,
}

impl Terms {
    fn in_f32(&self, fused: Fused) -> f32 {
        let &Terms { sum, c, bias, alpha, beta } = self;
        let scaled = if alpha == 1.0 { sum } else { alpha * sum };
        let plus = |x: f32, y: Option<f32>| y.map_or(x, |y| x + y);
        match (fused, c) {
            (Fused::Nothing, c) => plus(plus(scaled, c.map(|c| beta * c)), bias),
            (Fused::Sum, Some(c)) => plus(alpha.mul_add(sum, beta * c), bias),
            (Fused::Sum, None) => alpha.mul_add(sum, bias.unwrap_or(0.0)),
            (Fused::C, c) => plus(c.map_or(scaled, |c| beta.mul_add(c, scaled)), bias),
        }
    }

    /// In a format of up to 11 bits: f64 holds its products, and a product with what is added to it as far as one rounding can show.
    fn narrow(&self, fused: Fused, dtype: DType) -> f32 {
        let &Terms { sum, c, bias, alpha, beta } = self;
        let [sum, alpha, beta] = [sum, alpha, beta].map(f64::from);
        let (c, bias) = (c.map(f64::from), bias.map(f64::from));
        let near = |x: f64| dtype.rounded(x);
        let plus = |x: f64, y: Option<f64>| y.map_or(x, |y| near(x + y));
        let x = match (fused, c) {
            (Fused::Nothing, c) => plus(plus(near(alpha * sum), c.map(|c| near(beta * c))), bias),
            (Fused::Sum, Some(c)) => plus(near(alpha * sum + near(beta * c)), bias),
            (Fused::Sum, None) => near(alpha * sum + bias.unwrap_or(0.0)),
            (Fused::C, c) => plus(c.map_or(near(alpha * sum), |c| near(beta * c + near(alpha * sum))), bias),
        };
        x as f32
    }
}
