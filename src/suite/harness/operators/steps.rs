//! The arithmetic of an operator: which format each step is rounded to, and what a kernel that is broken on purpose does wrong.
//!
//! Every operator is written once, in terms of [`Steps`]. A step is one sum, difference, product, quotient, square root or function of a library. It is computed in f64 and
//! rounded to the format of the steps, to nearest even. For formats of at most 24 significand bits that is the rounding of the exact sum, difference, product, quotient or
//! root: 53 bits are more than twice as many plus two, so that rounding twice does no harm (Figueroa, "When is double rounding innocuous?", 1995). Functions are those of
//! `libm`, the same bits on every machine.

use crate::dtype::{DType, Overflow, Rounding};
use crate::error::{Error, Result};

/// What a broken kernel does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Sums over an axis leave out their last term.
    Short,
    /// Exponentials of inputs without the maximum subtracted first: they overflow.
    Unshifted,
    /// A gradient takes what was summed over the axis for a constant.
    Detached,
    /// Each element has the value of the next one, the last one that of the first.
    Neighbour,
    /// Zeros.
    Zeros,
}

impl Fault {
    pub(crate) const ALL: [(Fault, &'static str); 5] = [
        (Fault::Short, "short"),
        (Fault::Unshifted, "unshifted"),
        (Fault::Detached, "detached"),
        (Fault::Neighbour, "neighbour"),
        (Fault::Zeros, "zeros"),
    ];
}

/// An arithmetic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Steps {
    /// What each step is rounded to.
    pub format: DType,
    /// What is wrong with the kernel.
    pub fault: Option<Fault>,
}

impl Steps {
    /// The arithmetic of references.
    pub(crate) const F64: Steps = Steps { format: DType::F64, fault: None };

    /// Reads `f64`, `f32` or `native`, which is the format of the result, with a fault behind `+` or without one.
    pub(crate) fn parse(text: &str, result: DType) -> Result<Steps> {
        let wrong = || Error::InvalidArgument {
            what: "kernel of an operator",
            value: text.to_owned(),
            limit: format!(
                "it must be f32, native, f64, one of them with +{}, or a name of [kernels]",
                Fault::ALL.map(|row| row.1).join(" +")
            ),
        };
        let (name, fault) = text.split_once('+').map_or((text, None), |(name, fault)| (name, Some(fault)));
        let format = match name {
            "f64" => DType::F64,
            "f32" => DType::F32,
            "native" => result,
            _ => return Err(wrong()),
        };
        let fault = match fault {
            None => None,
            Some(fault) => Some(Fault::ALL.iter().find(|row| row.1 == fault).ok_or_else(wrong)?.0),
        };
        Ok(Steps { format, fault })
    }

    pub(super) fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    /// `x` as a number of the format.
    pub(super) fn round(&self, x: f64) -> f64 {
        match self.format {
            DType::F64 => x,
            DType::F32 => f64::from(x as f32),
            format => format.decode(format.encode(x, Rounding::NearestEven, Overflow::Ieee)),
        }
    }

    pub(super) fn add(&self, a: f64, b: f64) -> f64 {
        self.round(a + b)
    }

    pub(super) fn sub(&self, a: f64, b: f64) -> f64 {
        self.round(a - b)
    }

    pub(super) fn mul(&self, a: f64, b: f64) -> f64 {
        self.round(a * b)
    }

    pub(super) fn div(&self, a: f64, b: f64) -> f64 {
        self.round(a / b)
    }

    pub(super) fn sqrt(&self, x: f64) -> f64 {
        self.round(x.sqrt())
    }

    pub(super) fn exp(&self, x: f64) -> f64 {
        self.round(libm::exp(x))
    }

    /// e^x - 1.
    pub(super) fn expm1(&self, x: f64) -> f64 {
        self.round(libm::expm1(x))
    }

    /// log(1 + x).
    pub(super) fn log1p(&self, x: f64) -> f64 {
        self.round(libm::log1p(x))
    }

    pub(super) fn log(&self, x: f64) -> f64 {
        self.round(libm::log(x))
    }

    pub(super) fn pow(&self, a: f64, b: f64) -> f64 {
        self.round(libm::pow(a, b))
    }

    pub(super) fn cosh(&self, x: f64) -> f64 {
        self.round(libm::cosh(x))
    }

    pub(super) fn tanh(&self, x: f64) -> f64 {
        self.round(libm::tanh(x))
    }

    /// The sum over an axis: from 0, one term after the other, in their order.
    pub(super) fn sum(&self, terms: impl ExactSizeIterator<Item = f64>) -> f64 {
        let short = usize::from(self.has(Fault::Short));
        let count = terms.len() - short.min(terms.len());
        terms.take(count).fold(0.0, |sum, term| self.add(sum, term))
    }

    /// The mean over an axis: the sum, then a division by the number of terms.
    pub(super) fn mean(&self, terms: impl ExactSizeIterator<Item = f64>) -> f64 {
        let count = terms.len() as f64;
        self.div(self.sum(terms), count)
    }
}

impl std::fmt::Display for Steps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "steps in {}", self.format)?;
        match self.fault.and_then(|fault| Fault::ALL.iter().find(|row| row.0 == fault)) {
            Some((_, name)) => write!(f, " ({name})"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_is_rounded() {
        let [f16, f32, f64] = [DType::F16, DType::F32, DType::F64].map(|format| Steps { format, fault: None });
        assert_eq!((f16.add(2048.0, 1.0), f32.add(2048.0, 1.0)), (2048.0, 2049.0), "an even significand");
        assert_eq!((f16.exp(12.0), f32.exp(89.0)), (f64::INFINITY, f64::INFINITY), "beyond 65504 and 2^128");
        assert!(f64.exp(89.0).is_finite());
        // A million ones stop at the number whose successor is two away.
        assert_eq!(f16.sum((0..4096).map(|_| 1.0)), 2048.0);
        assert_eq!(f32.mean([1.0, 2.0, 6.0].into_iter()), 3.0);
        let short = Steps { fault: Some(Fault::Short), ..f64 };
        assert_eq!((short.sum([1.0, 2.0, 6.0].into_iter()), short.sum([].into_iter())), (3.0, 0.0));
    }

    #[test]
    fn arithmetics_are_read() {
        for (text, format, fault) in [
            ("f32", DType::F32, None),
            ("f64", DType::F64, None),
            ("native", DType::Bf16, None),
            ("native+short", DType::Bf16, Some(Fault::Short)),
            ("f32+zeros", DType::F32, Some(Fault::Zeros)),
        ] {
            assert_eq!(Steps::parse(text, DType::Bf16).unwrap(), Steps { format, fault }, "{text}");
        }
        for text in ["", "fma", "f32+", "f32+broken", "+short", "f16"] {
            let message = Steps::parse(text, DType::Bf16).unwrap_err().to_string();
            assert!(message.contains("f32, native, f64") && message.contains("+unshifted"), "{text}: {message}");
        }
    }
}
