//! The number formats of a case's tensors: of its operands, which may have one each, and of its result.

use super::cases::Values;
use super::problem::Problem;
use crate::dtype::DType;
use crate::error::{Error, Result};
use std::fmt;

/// What separates the formats of two operands, as it does generators.
const SEPARATOR: char = '|';

/// The formats of inputs and result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Formats {
    /// Of the first two inputs; an operator's inputs all have the first one.
    pub(crate) operands: [DType; 2],
    pub(crate) output: DType,
}

impl Formats {
    /// Reads the keys `type` and `output`.
    pub(crate) fn new<'c>(of: &impl Fn(&str) -> Values<'c>, problem: &Problem) -> Result<Formats> {
        let [first, second] = match problem {
            Problem::Gemm(..) | Problem::Conv(..) => operands(&of("type"))?,
            Problem::Operator(_) => [of_operator(of)?; 2],
        };
        if first != second && of("output").text("").is_empty() {
            return Err(of("output").error(format!("`output` is missing: inputs of two formats, {first} and {second}, need it")));
        }
        let output = of("output").parsed(problem.output_format(first).name())?;
        Ok(Formats { operands: [first, second], output })
    }
}

/// The formats that `type` names: one for both operands, or one each.
fn operands(key: &Values<'_>) -> Result<[DType; 2]> {
    let text = key.text("f16");
    let read = |part: &str| part.trim().parse::<DType>().map_err(|e: Error| key.error(format!("`type` = {text}: {e}")));
    match text.split(SEPARATOR).collect::<Vec<_>>().as_slice() {
        [both] => read(both).map(|dtype| [dtype; 2]),
        [first, second] => Ok([read(first)?, read(second)?]),
        more => {
            Err(key.error(format!("`type` = {text}: it names {} formats; it takes one, or one for each of the two operands", more.len())))
        }
    }
}

/// The format that `type` names for all inputs of an operator.
pub(crate) fn of_operator<'c>(of: &impl Fn(&str) -> Values<'c>) -> Result<DType> {
    let key = of("type");
    match key.text("f16") {
        text if text.contains(SEPARATOR) => Err(key.error(format!("`type` = {text}: inputs of an operator have one format"))),
        _ => key.parsed("f16"),
    }
}

impl fmt::Display for Formats {
    /// `f16 to f32`; `f8e4m3 by f8e5m2 to f16` where operands have two.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, second] = self.operands;
        match first == second {
            true => write!(f, "{first} to {}", self.output),
            false => write!(f, "{first} by {second} to {}", self.output),
        }
    }
}
