//! Numbers of an operator's own: their names, and what holds where a case says nothing. Steps take them rounded to their format, as a kernel holds them.
//!
//! The ends of `clip` become numbers of the inputs' format when they are read, for reference and kernels alike. Paddle's kernels hold them in it; PyTorch's compare with them in f32 and round the result, which
//! gives the same numbers. An end between two numbers of the format would be none that a kernel can write.

use super::steps::Steps;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::suite::harness::rule::pairs;

/// Names with their defaults; an operator without parameters has none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parameters(pub &'static [(&'static str, Option<f64>)]);

impl Parameters {
    /// The names of the parameters.
    pub(super) fn names(self) -> impl Iterator<Item = &'static str> {
        self.0.iter().map(|(name, _)| *name)
    }

    /// Reads `slope=0.1`, `min=-1,max=1`, in the order of the names, for inputs of this format.
    ///
    /// # Errors
    /// When a name is none of the operator's, a value is no finite number, one is missing that has no default, or a value is none that its operator takes.
    pub(super) fn read(self, text: &str, input: DType) -> Result<Vec<f64>> {
        let value = || if text.is_empty() { "none" } else { text }.to_owned();
        let wrong = |limit: String| Error::InvalidArgument { what: "parameters of an operator", value: value(), limit };
        let given = if text.is_empty() { Vec::new() } else { pairs(text).map_err(wrong)? };
        let names = || self.names().collect::<Vec<_>>().join(" ");
        if let Some((name, _)) = given.iter().find(|(name, _)| self.names().all(|known| known != *name)) {
            return Err(wrong(format!("`{name}` is none of its parameters: {}", names())));
        }
        let number = |(name, default): &(&str, Option<f64>)| match given.iter().find(|(given, _)| given == name) {
            None => default.ok_or_else(|| wrong(format!("`{name}` is missing; it takes {}", names()))),
            Some((_, value)) => value
                .as_float()
                .or(value.as_integer().map(|x| x as f64))
                .filter(|x| x.is_finite())
                .ok_or_else(|| wrong(format!("{name}: a finite number is wanted, not {value}"))),
        };
        let values = self.0.iter().map(number).collect::<Result<Vec<f64>>>()?;
        match (self.0, values.as_slice()) {
            ([("min", _), ("max", _)], [min, max]) if min > max => Err(wrong("min must not be above max".to_owned())),
            // Above, an error of x grows p times in the gradient, beyond what tolerances for sums allow.
            ([("p", _)], [p]) if !(1.0..=16.0).contains(p) => Err(wrong("p must be 1 to 16".to_owned())),
            ([("diagonal", _)], [diagonal]) if diagonal.fract() != 0.0 => Err(wrong("diagonal must be a whole number".to_owned())),
            ([("min", _), ("max", _)], ends) => {
                let held = |&end: &f64| match (Steps { format: input, fault: None }).round(end) {
                    held if held.is_finite() => Ok(held),
                    _ => Err(wrong(format!("{end:e} is beyond the numbers of {input}"))),
                };
                ends.iter().map(held).collect()
            }
            _ => Ok(values),
        }
    }
}
