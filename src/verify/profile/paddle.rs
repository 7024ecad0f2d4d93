//! Paddle's rules for low-precision tests: an absolute tolerance forward, a relative one for gradients, by kind of operation.

use super::Limits;
use super::rules::Question;
use crate::dtype::DType;
use crate::error::{Error, Result};

/// Kinds of operations, as Paddle's rules tell them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operation {
    /// Moves numbers and computes none.
    Copy,
    /// Sums, differences, products and quotients of elements.
    Arithmetic,
    /// A mathematical function of each element.
    Function,
    /// Of those: exp, expm1, tan, cosh, sinh, reciprocal, square, stanh.
    SteepFunction,
    /// A sum of all inputs.
    Sum,
    /// Their mean.
    Mean,
    /// A norm.
    Norm,
    /// Softmax and its relatives.
    Softmax,
    /// Interpolation.
    Interpolation,
    /// A product of matrices.
    Matmul,
    /// Sums of all prefixes.
    CumulativeSum,
    /// Logarithm of a sum of exponentials.
    LogSum,
    /// The same of all prefixes.
    CumulativeLogSum,
}

/// Operation, name, largest relative error of a gradient in f16.
const OPERATIONS: [(Operation, &str, f64); 13] = [
    (Operation::Copy, "copy", 1e-3),
    (Operation::Arithmetic, "arithmetic", 1e-3),
    (Operation::Function, "function", 1e-2),
    (Operation::SteepFunction, "steep-function", 0.1),
    (Operation::Sum, "sum", 5e-3),
    (Operation::Mean, "mean", 5e-3),
    (Operation::Norm, "norm", 5e-3),
    (Operation::Softmax, "softmax", 1e-3),
    (Operation::Interpolation, "interpolation", 1e-2),
    (Operation::Matmul, "matmul", 5e-3),
    (Operation::CumulativeSum, "cumulative-sum", 1e-2),
    (Operation::LogSum, "log-sum", 1e-2),
    (Operation::CumulativeLogSum, "cumulative-log-sum", 0.5),
];

impl Operation {
    /// The name in flags, such as `steep-function`.
    pub fn name(self) -> &'static str {
        OPERATIONS.iter().find(|row| row.0 == self).map_or("", |row| row.1)
    }
}

impl std::fmt::Display for Operation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

impl std::str::FromStr for Operation {
    type Err = Error;

    /// Reads a [`name`](Operation::name).
    fn from_str(s: &str) -> Result<Operation> {
        OPERATIONS.iter().find(|row| row.1 == s).map(|row| row.0).ok_or_else(|| Error::InvalidArgument {
            what: "operation",
            value: s.to_owned(),
            limit: format!("known: {}", OPERATIONS.map(|row| row.1).join(" ")),
        })
    }
}

/// The limits of Paddle's tests.
pub(super) fn limits(q: &Question<'_>) -> Result<Limits> {
    if q.computation.gradient {
        return gradient(q);
    }
    // Fraction bits that E's exponent is lowered by, and the floor of both tolerances.
    let (bits, floor) = match q.dtype {
        DType::F64 => return q.given(1e-5, 0.0, "f64: relative only"),
        DType::F16 => (10, 1e-3),
        DType::Bf16 => (8, 1e-2),
        d if d == DType::F32 || d.is_int() => return q.given(1e-5, 1e-5, "formats other than f16 and bf16"),
        _ => return Err(q.lacks()),
    };
    let Some((expected, text)) = expected(q) else { return q.given(floor, floor, &format!("the floor of {}", q.dtype)) };
    let atol = match expected {
        0.0 => 0.0,
        e => 2f64.powf(e.log2().floor() - f64::from(bits)),
    };
    let text = format!("atol = max({floor:e}, 2^(floor(log2 E) - {bits})), E = |{text}| = {expected}; rtol = {floor:e}");
    q.given(floor, atol.max(floor), &text)
}

/// The expected magnitude of a sum or a mean of uniform inputs, and its formula.
fn expected(q: &Question<'_>) -> Option<(f64, String)> {
    let [min, max] = q.computation.range?;
    let mean = (max + min) / 2.0;
    match (q.computation.operation?, q.computation.accumulations) {
        (Operation::Sum, Some(n)) => Some(((mean * n as f64).abs(), format!("({max} + {min}) / 2 · {n}"))),
        (Operation::Mean, _) => Some((mean.abs(), format!("({max} + {min}) / 2"))),
        _ => None,
    }
}

fn gradient(q: &Question<'_>) -> Result<Limits> {
    let operation = q.computation.operation.ok_or_else(|| Error::InvalidArgument {
        what: "operation",
        value: "none".to_owned(),
        limit: "profile paddle judges gradients by the kind of operation".to_owned(),
    })?;
    // The largest error, and the magnitude below which it is absolute.
    let (error, least) = match q.dtype {
        DType::F16 => (OPERATIONS.iter().find(|row| row.0 == operation).map(|row| row.2), 1e-3),
        DType::Bf16 => (Some(1e-2), 1e-2),
        _ => (None, 0.0),
    };
    let error = error.ok_or_else(|| q.lacks())?;
    // At most error |r| where |r| >= least, and at most error least <= error below it; gradients that are next to zero may round.
    let text = format!(
        "a gradient's error is at most {error:e} |r|, below |r| = {least:e} at most {error:e}; 3/4 {error:e} |r| + 1/4 {error:e} {least:e} is stricter"
    );
    q.given(0.75 * error, 0.25 * error * least, &text)
}
