//! What follows the sum of a GEMM, bit for bit: alpha, C, the bias and the last function in f32, in each order of roundings that kernels have.

use super::problem::{Product, values};
use crate::device::TensorRef;
use crate::error::Result;
use crate::reference::Epilogue;
use std::fmt;

/// Which operations are one rounding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    /// There are none.
    Nothing,
    /// alpha times the sum, beta times C, and each addition.
    Separate,
    /// alpha times the sum with what is added to it first: C, or the bias where there is no C.
    FusedSum,
    /// beta times C with its addition.
    FusedC,
    /// No addition of C: accumulators start with beta times C. Where alpha is 1.
    Started,
}

impl fmt::Display for After {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            After::Nothing => "",
            After::Separate => ", then alpha, C and bias with a rounding each",
            After::FusedSum => ", then alpha in an fma, C and bias",
            After::FusedC => ", then alpha, beta C in an fma, and bias",
            After::Started => ", in accumulators that start with beta C, then bias",
        })
    }
}

/// The operands of an epilogue, on the host.
pub(super) struct Operands {
    alpha: f32,
    beta: f32,
    c: Option<Vec<f32>>,
    bias: Option<Vec<f32>>,
    last: Epilogue,
}

impl Operands {
    /// Those of a product; of a convolution there are none.
    pub(super) fn of(product: Option<&Product<'_>>) -> Result<Operands> {
        let Some(p) = product else { return Ok(Operands { alpha: 1.0, beta: 0.0, c: None, bias: None, last: Epilogue::None }) };
        let read = |tensor: &Option<TensorRef<'_>>| tensor.as_ref().map(values).transpose();
        Ok(Operands { alpha: p.alpha as f32, beta: p.beta as f32, c: read(&p.c)?, bias: read(&p.bias)?, last: p.epilogue })
    }

    /// The orders in which these may be applied; of several that are the same the first.
    pub(super) fn orders(&self) -> Vec<After> {
        let scaled = self.alpha != 1.0;
        match (&self.c, &self.bias) {
            (None, None) if !scaled => vec![After::Nothing],
            (None, bias) if bias.is_none() || !scaled => vec![After::Separate],
            (None, _) => vec![After::Separate, After::FusedSum],
            (Some(_), _) if scaled => vec![After::Separate, After::FusedSum, After::FusedC],
            (Some(_), _) => vec![After::Separate, After::FusedSum, After::FusedC, After::Started],
        }
    }

    /// beta times C, rounded to f32, at each element of the leading part of this shape of a result with so many columns; zeros where there is no C.
    pub(super) fn start(&self, shape: &[usize], all: usize) -> Vec<f32> {
        let columns = shape.last().copied().unwrap_or(1);
        let at = |i: usize| i / columns * all + i % columns;
        let value = |i: usize| self.c.as_ref().map_or(0.0, |c| self.beta * c[at(i) % c.len()]);
        (0..shape.iter().product()).map(value).collect()
    }

    /// What a sum becomes at an index of a result with so many columns, before it is rounded to the result's format.
    pub(super) fn apply(&self, after: After, sum: f32, index: usize, columns: usize) -> f32 {
        let bias = self.bias.as_ref().map(|bias| bias[index % columns]);
        // A matrix of C serves every matrix of a batch.
        let c = self.c.as_ref().map(|c| c[index % c.len()]);
        let scaled = if self.alpha == 1.0 { sum } else { self.alpha * sum };
        let plus = |x: f32, y: Option<f32>| y.map_or(x, |y| x + y);
        let x = match (after, c) {
            (After::Nothing, _) => sum,
            (After::Started, _) => plus(sum, bias),
            (After::Separate, c) => plus(plus(scaled, c.map(|c| self.beta * c)), bias),
            (After::FusedSum, Some(c)) => plus(self.alpha.mul_add(sum, self.beta * c), bias),
            (After::FusedSum, None) => self.alpha.mul_add(sum, bias.unwrap_or(0.0)),
            (After::FusedC, c) => plus(c.map_or(scaled, |c| self.beta.mul_add(c, scaled)), bias),
        };
        match self.last {
            Epilogue::None => x,
            Epilogue::Relu if x < 0.0 => 0.0,
            Epilogue::Relu => x,
            Epilogue::Clamp { low, .. } if x < low as f32 => low as f32,
            Epilogue::Clamp { high, .. } if x > high as f32 => high as f32,
            Epilogue::Clamp { .. } => x,
        }
    }
}
