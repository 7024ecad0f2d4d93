//! What inputs of a case hold: a generator each, from the keys `data` and `seed` or from what is usual for their formats.

use super::cases::{Values, WANTED_SEED};
use super::formats::Formats;
use super::problem::Problem;
use super::scales;
use crate::device::Layout;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::fill::FillSpec;

/// What scales hold where a case says nothing: numbers around 1 without a sign, of f8e8m0 1/2, 1 and 2.
const SCALES: &str = "uniform:0.5,2";

/// What inputs of a format hold where a case says nothing: the ranges of the fp16 study's tests, whose integers without a sign begin at 0 here, where the
/// format has such numbers.
fn usual_data(dtype: DType) -> &'static str {
    match (dtype, dtype.int_format()) {
        // Powers of two, and nothing else.
        (DType::F8E8M0, _) => SCALES,
        (DType::Bool, _) => "int:0,1",
        (_, None) => "uniform:-1,1",
        (_, Some(format)) if format.signed => "int:-5,5",
        (_, Some(_)) => "int:0,5",
    }
}

/// The generators of a problem's inputs, on streams of their own, each of which can fill its tensor. Scales come last, and are what `data` need not speak of: no generator of operands, most of which
/// give zeros or a sign, becomes one of scales unless that is said.
pub(crate) fn data<'c>(of: &impl Fn(&str) -> Values<'c>, problem: &Problem, formats: Formats) -> Result<Vec<FillSpec>> {
    let inputs: Vec<_> = problem.inputs().into_iter().map(|(name, shape)| (name, problem.input_dtype(name, formats), shape)).collect();
    let seed: u64 = of("seed").number("1", WANTED_SEED)?;
    let unscaled = inputs.iter().filter(|(name, ..)| !scales::NAMES.contains(name)).count();
    let given: Option<Vec<&str>> = Some(of("data").text("")).filter(|text| !text.is_empty()).map(|t| t.split('|').map(str::trim).collect());
    if let Some(found) = given.as_ref().map(Vec::len).filter(|found| ![1, unscaled, inputs.len()].contains(found)) {
        let mut limit = format!("it takes one, or one for each of the {} inputs", inputs.len());
        if unscaled < inputs.len() {
            limit += &format!(" or of the {unscaled} that are no scales");
        }
        return Err(of("data").error(format!("data has {found} generators; {limit}")));
    }
    let text = |stream: usize, dtype: DType| match given.as_deref() {
        Some([one]) if stream < unscaled => one,
        Some(each) if stream < each.len() && each.len() > 1 => each[stream],
        _ if stream < unscaled => usual_data(dtype),
        _ => SCALES,
    };
    let spec = |(stream, (name, dtype, shape)): (usize, &(&str, DType, Vec<usize>))| -> Result<FillSpec> {
        let text = text(stream, *dtype);
        let spec: FillSpec = text.parse().map_err(|e: Error| of("data").error(e))?;
        let spec = if text.contains("/seed=") { spec } else { spec.seed(seed) };
        let spec = if text.contains("/stream=") { spec } else { spec.stream(stream as u32) };
        let fits = Layout::contiguous(shape).and_then(|layout| spec.check(*dtype, &layout));
        fits.map_err(|e| of("data").error(format!("data of `{name}`: {text}: {e}")))?;
        Ok(spec)
    };
    inputs.iter().enumerate().map(spec).collect()
}
