//! Which unit a kernel may have added with: the one table from models of matrix cores to terms of a bound.

use crate::dtype::{DType, Specials};
use crate::error::{Error, Result};
use crate::matrix_core::{Accumulator, Arch, Input, Model, Rule};
use crate::verify::bound::Unit;

/// The unit of a model.
pub(super) fn of_model(model: Model) -> Unit {
    match model.rule() {
        Rule::Fma => Unit::F32,
        Rule::Exact { group } => Unit::exact(group),
        Rule::Tree { group } => Unit::tree(group),
        Rule::Fused { group, keep } => Unit::fused(group, keep),
        // Seven products a half are truncated, the smaller half's sum is rounded down once more, and so may be the accumulator: 16 times 2^-24.
        Rule::FusedHalves { keep } => Unit::fused(16, keep),
        Rule::Truncated { group, bits, accumulator: Accumulator::F32, .. } => Unit::truncated(group, bits, 23),
        Rule::Truncated { group, bits, accumulator: Accumulator::F32Bits13, .. } => Unit::truncated(group, bits, 13),
        Rule::Truncated { group, bits, accumulator: Accumulator::F16, .. } => Unit::truncated_to_f16(group, bits),
        Rule::Emulated { accumulator } => Unit::emulated(accumulator == Accumulator::F16),
    }
}

/// An accumulator of this format that takes one product at a time.
pub(super) fn of_format(dtype: DType) -> Result<Unit> {
    // A scale has no sign and no zero: nothing adds in it.
    let format = dtype.float_format().filter(|format| format.specials != Specials::E8m0).ok_or_else(|| Error::WrongDType {
        what: "an accumulator whose error is bounded".to_owned(),
        expected: "a floating-point format with a sign".to_owned(),
        found: dtype.to_string(),
    })?;
    Ok(Unit { roundoff: format.unit_roundoff(), underflow: format.min_positive(), ..Unit::F32 })
}

/// Whether a result in this format has every number of an accumulator in that one: it is not rounded again. Overflow apart, which the comparison knows of.
pub(super) fn holds(result: DType, accumulator: DType) -> bool {
    let (Some(result), Some(accumulator)) = (result.float_format(), accumulator.float_format()) else { return false };
    result.unit_roundoff() <= accumulator.unit_roundoff() && result.min_positive() <= accumulator.min_positive()
}

/// The models of an architecture that take operands of these formats as they are; for f16 and bf16 in groups of every size. Those that accumulate in f16 are
/// for kernels that are said to.
pub(super) fn models(arch: Arch, operands: [DType; 2], accumulator: Option<DType>) -> Result<Vec<Model>> {
    let [a, b] = operands;
    let allowed = |m: &Model| m.accumulator() == DType::F32 || accumulator == Some(m.accumulator());
    let found: Vec<Model> = Model::all().filter(|m| m.arch() == arch && m.input().dtypes() == (a, b) && allowed(m)).collect();
    if found.is_empty() {
        let known: Vec<String> = Model::formats(arch).map(|dtype| dtype.to_string()).collect();
        return Err(Error::Unsupported {
            what: format!("a check of {a} by {b} on the {} of {arch}", arch.units()),
            by: format!("the models here, which take {}; without a chip the accumulator's format decides", known.join(", ")),
        });
    }
    Ok(found)
}

/// Those that a bound allows: not the conversions, which a kernel does only where a library was told to.
pub(super) fn unconverted(models: &[Model]) -> impl Iterator<Item = Model> + '_ {
    models.iter().copied().filter(|m| !matches!(m.input(), Input::F16AsBf16 | Input::F16AsBf16Truncated))
}
