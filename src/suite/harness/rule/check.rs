//! The rule `check`: each element of a GEMM or a convolution is judged by its own bound, from the operands alone, as [`Check`] does.
//!
//! What it needs is known when a suite is read: shapes, formats and factors decide whether there is a bound, and what its coefficients are. So a case that cannot be
//! checked is refused then, by a check of tensors of these shapes whose elements are all one: they take no memory.

use super::super::formats::Formats;
use super::super::kernel::Kernel;
use super::super::problem::{Method, Problem, Product};
use super::super::scales;
use super::keys::{number, pairs, parsed, set, unknown_of, wanted, whole, yes};
use crate::check::{Check, Checked};
use crate::device::{Device, DeviceBytes, Layout, TensorRef};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::matrix_core::Arch;
use crate::reference::Accumulate;
use crate::verify::bound::{Bound, Confidence};
use toml::Value;

/// What is known of the kernel, and how sure the bounds are.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct CheckRule {
    arch: Option<Arch>,
    accumulate: Option<DType>,
    split_k: Option<usize>,
    split_k_in: Option<DType>,
    confidence: Option<f64>,
    worst_case: Option<bool>,
    saturate: Option<bool>,
    /// Whether the chip is that of the model which is under test.
    of_model: bool,
}

/// Sets what a key is for.
type Set = fn(&mut CheckRule, &Value) -> Result<(), String>;

/// Every key: its name, the type of its values in a schema, and how it is set.
const KEYS: [(&str, &str, Set); 8] = [
    ("check", "boolean", |_, v| if yes(v)? { Ok(()) } else { Err(wanted("true", v)) }),
    ("arch", "string", |rule, v| set(&mut rule.arch, parsed(v))),
    ("accumulate", "string", |rule, v| set(&mut rule.accumulate, parsed(v))),
    ("split_k", "integer", |rule, v| match whole(v) {
        Err(_) | Ok(0) => Err(wanted("a whole number from 1", v)),
        // One part is no cut.
        Ok(1) => Ok(()),
        parts => set(&mut rule.split_k, parts),
    }),
    ("split_k_in", "string", |rule, v| set(&mut rule.split_k_in, parsed(v))),
    ("confidence", "number", |rule, v| set(&mut rule.confidence, number(v))),
    ("worst_case", "boolean", |rule, v| set(&mut rule.worst_case, yes(v))),
    ("saturate", "boolean", |rule, v| set(&mut rule.saturate, yes(v))),
];

/// Its keys with the types of their values.
pub(super) fn of_check() -> impl Iterator<Item = (&'static str, &'static str)> {
    KEYS.iter().map(|&(name, kind, _)| (name, kind))
}

/// Whether a text is such a rule: the word alone, or its key among others.
pub(super) fn names(text: &str) -> bool {
    text.split(',').any(|part| part.split('=').next().is_some_and(|key| key.trim() == "check"))
}

/// The tensors of a GEMM or a convolution by name, as a problem has them, and its result.
pub(crate) struct Checkable<'a> {
    pub(crate) inputs: &'a [(&'static str, TensorRef<'a>)],
    pub(crate) result: &'a TensorRef<'a>,
}

impl CheckRule {
    /// The rule for a kernel under test: where that is the model of a chip's matrix cores, and nothing else is said, it ran on that chip.
    pub(crate) fn for_kernel(self, kernel: &Kernel) -> CheckRule {
        let model = match kernel {
            Kernel::Arithmetic { method: Method::Products(arithmetic), .. } => match arithmetic.accumulate {
                Accumulate::MatrixCore(model) => Some(model),
                _ => None,
            },
            _ => None,
        };
        match model.filter(|_| self.arch.is_none() && self.accumulate.is_none()) {
            // Models whose sums are no f32 are among a chip's only where that is said.
            Some(model) => {
                let accumulate = Some(model.accumulator()).filter(|&sums| sums != DType::F32);
                CheckRule { arch: Some(model.arch()), accumulate, of_model: true, ..self }
            }
            None => self,
        }
    }

    /// Checks. Whether a model's result is bit-exact for the model's chip is asked only where the verdict depends on it: trying models and orders takes longer than all the rest.
    ///
    /// # Errors
    /// Those of [`check`](CheckRule::check) and of the check itself.
    pub(crate) fn checked(&self, problem: &Problem, tensors: &Checkable<'_>) -> Result<Checked> {
        let check = self.check(problem, tensors)?;
        if !self.of_model {
            return check.checked();
        }
        let plain = check.clone().bit_exact(false).checked()?;
        if plain.report.within_worst_case == Some(true) { check.checked() } else { Ok(plain) }
    }

    /// The check of a result.
    ///
    /// # Errors
    /// When keys do not go together, or the problem is none that can be checked.
    fn check<'a>(&self, problem: &Problem, tensors: &Checkable<'a>) -> Result<Check<'a>> {
        let Checkable { inputs, result } = *tensors;
        let none = || Error::Unsupported { what: problem.name(), by: "the rule check, which is for [[gemm]] and [[conv]]".to_owned() };
        let named = |name: &str| inputs.iter().find(|(input, _)| *input == name).map(|(_, tensor)| tensor);
        let check = match (problem, inputs) {
            (Problem::Gemm(product, epilogue), [(_, a), (_, b), ..]) => {
                let [first, second] = product.transposed;
                let check = Check::gemm(a, b, result).transpose_a(first).transpose_b(second).alpha(epilogue.alpha());
                let check = scaled(check, product, [0, 1].map(|which| named(scales::NAMES[which])));
                let check = named("c").into_iter().fold(check, |check, c| check.beta(epilogue.beta(), c));
                named("bias").into_iter().fold(check, Check::bias).epilogue(epilogue.activation())
            }
            (Problem::Conv(param, direction), [(_, a), (_, b)]) => Check::conv((**param).clone(), *direction, a, b, result),
            _ => return Err(none()),
        };
        let check = self.arch.into_iter().fold(check, Check::arch);
        let check = self.accumulate.into_iter().fold(check, Check::accumulator);
        let check = check.saturates(self.saturate == Some(true));
        Ok(check.split_k(self.split_k.unwrap_or(1), self.split_k_in).confidence(self.confidence()?))
    }

    fn confidence(&self) -> Result<Confidence> {
        match (self.confidence, self.worst_case) {
            (Some(_), Some(true)) => Err(together("confidence cannot be used with worst_case")),
            (Some(confidence), _) => Confidence::new(confidence),
            (None, Some(true)) => Ok(Confidence::WorstCase),
            (None, _) => Ok(Confidence::default()),
        }
    }

    /// The bound of a problem whose inputs and result have these formats, of scaled operands as far as formats say it; what is taken for granted of the kernel, and how sure the bound is, in words.
    ///
    /// # Errors
    /// When such a result cannot be checked.
    pub(crate) fn bound(&self, problem: &Problem, formats: Formats) -> Result<(Bound, String, Confidence)> {
        let host = Device::host();
        // One element in each place of the shape.
        let one = |dtype: DType| DeviceBytes::new(&host, dtype.unit_bytes());
        let of_inputs = problem.inputs();
        let memory = of_inputs.iter().map(|(name, _)| one(problem.input_dtype(name, formats))).collect::<Result<Vec<_>>>()?;
        let inputs = of_inputs
            .iter()
            .zip(&memory)
            .map(|((name, shape), memory)| Ok((*name, memory.tensor(problem.input_dtype(name, formats), everywhere(shape)?)?)));
        let (inputs, memory) = (inputs.collect::<Result<Vec<_>>>()?, one(formats.output)?);
        let result = memory.tensor(formats.output, everywhere(&problem.output())?)?;
        let check = self.check(problem, &Checkable { inputs: &inputs, result: &result })?;
        Ok((check.bound_of_formats()?, check.arithmetic(), self.confidence()?))
    }
}

/// The check of a product whose operands have these scales.
fn scaled<'a>(check: Check<'a>, product: &Product, [a, b]: [Option<&'a TensorRef<'a>>; 2]) -> Check<'a> {
    let [of_a, of_b] = product.scales.of();
    let check = a.zip(of_a).into_iter().fold(check, |check, (tensor, scales)| check.scale_a(tensor).scale_block_a(scales.block()));
    b.zip(of_b).into_iter().fold(check, |check, (tensor, scales)| check.scale_b(tensor).scale_block_b(scales.block()))
}

/// A layout whose elements are all the first one of the memory.
fn everywhere(shape: &[usize]) -> Result<Layout> {
    Layout::strided(shape, &vec![0; shape.len()], 0)
}

fn together(limit: &str) -> Error {
    Error::InvalidArgument { what: "keys of a rule", value: "combined so".to_owned(), limit: limit.to_owned() }
}

impl std::str::FromStr for CheckRule {
    type Err = Error;

    /// Reads `check` or `check=true,KEY=VALUE,...`.
    fn from_str(text: &str) -> Result<CheckRule> {
        let wrong = |limit: String| Error::InvalidArgument { what: "rule", value: text.to_owned(), limit };
        let mut rule = CheckRule::default();
        if text.trim() == "check" {
            return Ok(rule);
        }
        for (key, value) in pairs(text).map_err(wrong)? {
            let known = || unknown_of(key, &KEYS.map(|(name, ..)| name));
            let (.., set) = KEYS.iter().find(|(name, ..)| *name == key).ok_or_else(|| wrong(known()))?;
            set(&mut rule, &value).map_err(|e| wrong(format!("{key}: {e}")))?;
        }
        Ok(rule)
    }
}
