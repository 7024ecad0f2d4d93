//! Products of integers: additions modulo 2^32 are exact in any order, so that a result in 32 bits is right where it is equal, and nowhere else. Of results in floats, as dequantised ones are,
//! only what follows the sum is rounded.

use super::copied::Copied;
use super::problem::{Problem, Product};
use super::{Check, CheckReport, Checked};
use crate::device::{DeviceMem, TensorRef};
use crate::dtype::{DType, Overflow};
use crate::error::{Error, Result};
use crate::reference::{Accumulate, Arithmetic, Epilogue};
use crate::verify::Verdict;
use crate::verify::bound::{Bound, Confidence, gpu_verify_bound};

/// From here on f64 lacks integers.
const INEXACT: f64 = (1u64 << 53) as f64;
/// From here on i32 has none.
const BEYOND: f64 = (1u64 << 31) as f64;

/// Whether operands and result are integers, the result's of 32 bits.
pub(super) fn applies(problem: &Problem<'_>, result: &TensorRef<'_>) -> bool {
    problem.dtypes().iter().all(|dtype| dtype.int_format().is_some()) && matches!(result.dtype(), DType::I32 | DType::U32)
}

/// Checks.
///
/// # Errors
/// As [`Check::run`]; also where alpha, beta, C or the bias are no integers, sums are beyond 2^53, or an epilogue follows those that may wrap around.
pub(super) fn run(check: &Check<'_>) -> Result<Checked> {
    let (problem, shape, reads) = (&check.problem, check.result.shape(), Arithmetic::from(Accumulate::F64));
    expect_exact(problem, check.result.dtype(), check.overflow)?;
    let wraps = wraps(check)?;
    let exact = problem.exact(reads, shape)?;
    let exact = if wraps { wrapped(&exact, check.result.dtype())? } else { exact };
    let reference = Copied::rounded(&exact, shape, check.result.dtype(), Overflow::Ieee)?;
    let reference = reference.tensor()?;
    // By this bound S is not read.
    let (against, bound) = ([&reference, &reference], Bound::EXACT);
    let report = gpu_verify_bound(&check.result, &reference, &reference, &bound)?;
    let report = if wraps { report } else { check.with_shortened(report, against, reads, &bound)? };
    let (report, stale) = check.with_earlier(report, against, &bound)?;
    let cause = match report.verdict {
        Verdict::Fail if check.cause => check.find_cause(&report, against, reads, &bound, false)?,
        _ => None,
    };
    let report = CheckReport {
        problem: problem.name(shape),
        arithmetic: arithmetic(problem),
        confidence: Confidence::WorstCase,
        report,
        within_worst_case: None,
        beyond_probable: None,
        stale,
        cause,
        exactness: None,
    };
    // Nor is it by who looks for the mismatches again.
    let magnitudes = DeviceMem::from_slice(problem.device(), &vec![0.0; exact.len()])?;
    Ok(Checked { report, exact, magnitudes, overflow: check.overflow })
}

/// What is rounded of a sum that is exact in i32, for each element: |alpha Σab| + |beta C| + |bias|.
///
/// # Errors
/// When a sum is beyond i32: it has wrapped around before it became a float.
pub(super) fn magnitudes_of_sums(problem: &Problem<'_>, shape: &[usize]) -> Result<DeviceMem<f64>> {
    let made = |problem: &Problem<'_>| problem.exact(Accumulate::F64.into(), shape)?.to_vec();
    let Some(product) = problem.product() else {
        let sums = within_i32(made(problem)?)?;
        return DeviceMem::from_slice(problem.device(), &sums.into_iter().map(f64::abs).collect::<Vec<_>>());
    };
    let alone = Product { alpha: 1.0, beta: 0.0, c: None, bias: None, epilogue: Epilogue::None, ..product.clone() };
    // An alpha of 0 takes nothing of the operands.
    let mut sums = if product.alpha == 0.0 { vec![0.0; shape.iter().product()] } else { within_i32(made(&problem.with(alone.clone()))?)? };
    sums.iter_mut().for_each(|sum| *sum = (product.alpha * *sum).abs());
    for added in
        [Product { beta: product.beta, c: product.c.clone(), ..alone.clone() }, Product { bias: product.bias.clone(), ..alone.clone() }]
    {
        if added.c.is_some() || added.bias.is_some() {
            let with = made(&problem.with(Product { alpha: 0.0, ..added }))?;
            sums.iter_mut().zip(with).for_each(|(sum, x)| *sum += x.abs());
        }
    }
    DeviceMem::from_slice(problem.device(), &sums)
}

fn within_i32(sums: Vec<f64>) -> Result<Vec<f64>> {
    match sums.iter().find(|sum| !(-BEYOND..BEYOND).contains(*sum)) {
        Some(sum) => Err(Error::Unsupported {
            what: format!("a sum of {sum} in an accumulator of i32, which it is beyond"),
            by: "a check".to_owned(),
        }),
        None => Ok(sums),
    }
}

/// What is taken for granted, in words.
pub(super) fn arithmetic(problem: &Problem<'_>) -> String {
    let [a, b] = problem.dtypes();
    format!("{a} by {b}, sums modulo 2^32")
}

/// That what follows the sum is made of integers, so that it is exact as well, and that it is told what wraps around: as far as formats and factors say so.
/// The values say whether there is an epilogue of sums that do.
pub(super) fn expect_exact(problem: &Problem<'_>, result: DType, overflow: Overflow) -> Result<()> {
    if overflow == Overflow::Saturate {
        return Err(Error::Unsupported { what: "a product of integers that saturates".to_owned(), by: "a check".to_owned() });
    }
    let Some(product) = problem.product() else { return Ok(()) };
    if product.epilogue != Epilogue::None && result != DType::I32 {
        return Err(epilogue_of_wrapped());
    }
    for (what, value) in [("alpha of integers", product.alpha), ("beta of integers", product.beta)] {
        if value.fract() != 0.0 {
            return Err(Error::InvalidArgument { what, value: value.to_string(), limit: "it has to be a whole number".to_owned() });
        }
    }
    for (what, tensor) in [("C", &product.c), ("the bias", &product.bias)] {
        if let Some(found) = tensor.as_ref().map(|t| t.dtype()).filter(|dtype| dtype.int_format().is_none()) {
            let (what, expected) = (format!("{what} of a product of integers"), "an integer format".to_owned());
            return Err(Error::WrongDType { what, expected, found: found.to_string() });
        }
    }
    Ok(())
}

/// Whether a sum of numbers of these formats may be beyond those of the result's.
fn may_wrap(problem: &Problem<'_>, result: DType) -> bool {
    let largest = |dtype: DType| dtype.int_format().map_or(f64::INFINITY, |f| 2f64.powi(f.bits as i32 - i32::from(f.signed)));
    let [a, b] = problem.dtypes().map(largest);
    let products = problem.terms() as f64 * a * b;
    let sum = problem.product().map_or(products, |p| {
        let added = |t: &Option<TensorRef<'_>>| t.as_ref().map_or(0.0, |t| largest(t.dtype()));
        p.alpha.abs() * products + p.beta.abs() * added(&p.c) + added(&p.bias)
    });
    result != DType::I32 || sum >= f64::from(i32::MAX)
}

/// Which comes first, the epilogue or wrapping around, is not told.
fn epilogue_of_wrapped() -> Error {
    let what = "an epilogue of integers that may be beyond 32 bits".to_owned();
    Error::Unsupported { what, by: "a check: where sums wrap around, it is not told whether that comes first".to_owned() }
}

/// Whether a sum may be beyond the result's numbers: by the formats, and if these say so, by the values.
fn wraps(check: &Check<'_>) -> Result<bool> {
    let (problem, result) = (&check.problem, check.result.dtype());
    if !may_wrap(problem, result) {
        return Ok(false);
    }
    let magnitudes = problem.magnitudes(Accumulate::F64.into(), check.result.shape())?.to_vec()?;
    let largest = magnitudes.into_iter().fold(0.0, f64::max);
    if largest >= INEXACT {
        let what = "sums of integers whose magnitudes add up to 2^53 or more".to_owned();
        return Err(Error::Unsupported { what, by: "a check, which makes them in f64".to_owned() });
    }
    let wraps = result != DType::I32 || largest >= BEYOND;
    match problem.product() {
        Some(product) if wraps && product.epilogue != Epilogue::None => Err(epilogue_of_wrapped()),
        _ => Ok(wraps),
    }
}

/// Exact sums modulo 2^32, made on the host.
fn wrapped(exact: &DeviceMem<f64>, result: DType) -> Result<DeviceMem<f64>> {
    let wrap = |x: f64| if result == DType::I32 { f64::from(x as i64 as i32) } else { f64::from(x as i64 as u32) };
    DeviceMem::from_slice(exact.device(), &exact.to_vec()?.into_iter().map(wrap).collect::<Vec<_>>())
}
