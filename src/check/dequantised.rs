//! Operands times their scales: a product of scaled operands is one of these copies, which all that follows takes in their place.
//!
//! Copies are f64. An operand of up to 29 significant bits times a scale of f32 is exact there; what else is rounded adds 2^-53 a factor to what f64 loses of the reference, which the bound
//! counts generously ([`Bound::against`](crate::verify::bound::Bound::against)). What a kernel may lose by its scales is in [`Applied`].

use super::arithmetic::holds;
use super::cause::misscaled;
use super::copied::Copied;
use super::problem::{Kind, Problem, Product};
use super::products::Values;
use super::scales::Blocks;
use super::{Check, Checked};
use crate::device::TensorRef;
use crate::device::host::zeros;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::matrix_core::Model;
use crate::parallel;
use crate::reference::{Accumulate, Arithmetic};
use crate::verify::Verdict;
use crate::verify::bound::{Bound, Sum};

/// Elements of a task.
const TASK: usize = 1 << 14;

/// What the bound has to know of scales that operands are multiplied by already.
#[derive(Clone, Debug)]
pub(super) struct Applied {
    /// The formats of the operands as the kernel has them.
    pub stored: [DType; 2],
    /// The formats of their scales.
    formats: [Option<DType>; 2],
    /// Runs of k in which no scale changes, and the products of the longest.
    runs: usize,
    longest: usize,
    /// Beyond what the factors of one product multiply a loss in another: the product of the largest operands and scales, each of which counts as at least 1.
    pub largest: f64,
}

/// Operands times their scales, on their device.
pub(super) struct Dequantised {
    operands: [Copied; 2],
    applied: Applied,
}

impl Applied {
    /// What shapes and formats say of the scales of a product; `largest` is what its elements say.
    ///
    /// # Errors
    /// When shapes do not fit.
    fn of(problem: &Problem<'_>, product: &Product<'_>, largest: f64) -> Result<Applied> {
        let length = |which: usize| -> Result<Option<usize>> {
            let blocks = product.blocks(which, problem.operands[which].shape())?;
            Ok(blocks.map(|blocks| blocks.length(product.k_axis(which))))
        };
        let (runs, longest) = runs(problem.terms(), [length(0)?, length(1)?]);
        let formats = [0, 1].map(|which| product.scales[which].format());
        Ok(Applied { stored: problem.dtypes(), formats, runs, longest, largest })
    }

    /// What multiplications by scales may lose in an accumulator of this format, relative to a product: one rounding for each, and one where that format lacks the scale's numbers. Powers of two
    /// round nothing. Scales may be the same everywhere, so that this counts in full.
    pub(super) fn error(&self, accumulator: DType) -> f64 {
        let roundings = |scale: DType| match scale.float_format() {
            Some(format) if format.mantissa_bits > 0 => 1 + usize::from(!holds(accumulator, scale)),
            _ => 0,
        };
        let all: usize = self.formats.into_iter().flatten().map(roundings).sum();
        (1.0 + accumulator.unit_roundoff()).powi(all as i32) - 1.0
    }

    /// The sum where each run of k is summed apart, multiplied by its scales, and added to the others.
    pub(super) fn by_runs(&self, sum: Sum) -> Sum {
        let (parts, products) = (sum.parts.max(1), sum.longest_part());
        let terms = self.longest.min(products);
        // Each run of a part has a product at least.
        let runs = self.runs.min(products - terms + 1);
        Sum { terms, parts: 1, after: sum.after + runs - 1 + parts - 1, parts_roundoff: parts as f64 * sum.parts_roundoff, ..sum }
    }
}

impl Check<'_> {
    /// The check of a product whose operands have scales: of copies that are multiplied by them, and by a bound that knows of that.
    pub(super) fn checked_with_scales(&self, models: &[Model], reads: Arithmetic) -> Result<Checked> {
        let copies = Dequantised::of(&self.problem, reads)?;
        let (scaled, exact) = (copies.check(self)?, Arithmetic::from(Accumulate::F64));
        let magnitudes = match Dequantised::raised(&self.problem, reads)? {
            Some(raised) => raised.check(self)?.magnitudes(exact)?,
            None => scaled.magnitudes(exact)?,
        };
        let mut checked = scaled.held_against(models, exact, magnitudes)?;
        if self.cause && checked.report.verdict() == Verdict::Fail {
            checked.report.cause = misscaled::find(self, &checked, reads.exact().flush_subnormals)?.or(checked.report.cause);
        }
        Ok(checked)
    }
}

impl Check<'_> {
    /// The [bound](Check::bound) as shapes and formats say it, for those who want to know it before there are tensors. Of operands with scales its floor is that of numbers up to 1, since none is looked at;
    /// else it is the bound itself.
    ///
    /// # Errors
    /// Those of [`bound`](Check::bound).
    pub fn bound_of_formats(&self) -> Result<Bound> {
        let Some(product) = self.problem.product().filter(|product| product.is_scaled()) else { return self.bound() };
        let models = self.models()?;
        let applied = Applied::of(&self.problem, product, 1.0)?;
        let problem = self.problem.with(Product { applied: Some(applied), ..product.clone() });
        Check { problem, ..self.clone() }.bound_of(&models, self.confidence)
    }
}

impl<'a> Check<'a> {
    /// The check as causes are sought in: operands that are copies stand for themselves, and their formats are not those of the kernel's.
    pub(super) fn as_multiplied(&self) -> Check<'a> {
        match self.problem.product() {
            Some(product) if product.applied.is_some() => {
                let product = Product { scales: Default::default(), applied: None, ..product.clone() };
                Check {
                    problem: self.problem.with(product),
                    accumulator: Some(self.accumulator.unwrap_or(self.problem.accumulator())),
                    ..self.clone()
                }
            }
            _ => self.clone(),
        }
    }
}

impl Dequantised {
    /// The operands as this arithmetic reads them.
    ///
    /// # Errors
    /// When shapes do not fit, or memory does not suffice.
    pub(super) fn of(problem: &Problem<'_>, reads: Arithmetic) -> Result<Dequantised> {
        Dequantised::made(problem, reads, [0.0; 2])
    }

    /// The same of the magnitudes that elements count as in this arithmetic; `None` where these are the elements' own.
    fn raised(problem: &Problem<'_>, reads: Arithmetic) -> Result<Option<Dequantised>> {
        let least = problem.dtypes().map(|dtype| reads.least_magnitude(dtype));
        least.iter().any(|least| *least > 0.0).then(|| Dequantised::made(problem, reads, least)).transpose()
    }

    fn made(problem: &Problem<'_>, reads: Arithmetic, least: [f64; 2]) -> Result<Dequantised> {
        let Some(product) = problem.product() else {
            return Err(Error::Unsupported { what: "scales".to_owned(), by: "the check of a convolution".to_owned() });
        };
        let flush = reads.exact().flush_subnormals;
        let blocks = [product.blocks(0, problem.operands[0].shape())?, product.blocks(1, problem.operands[1].shape())?];
        let mut largest = 1.0;
        let mut copy = |which: usize| {
            let (operand, scales) = (&problem.operands[which], product.scales[which].values()?);
            largest *= scales.iter().fold(1.0, at_least);
            let (values, most) = multiplied(operand, blocks[which].as_ref().map(|blocks| (blocks, &*scales)), flush, least[which])?;
            largest *= most;
            Copied::of_values(operand.device(), operand.shape(), &values)
        };
        let operands = [copy(0)?, copy(1)?];
        Ok(Dequantised { operands, applied: Applied::of(problem, product, largest)? })
    }

    /// A check of these operands.
    pub(super) fn check<'a>(&'a self, check: &Check<'a>) -> Result<Check<'a>> {
        let operands = [self.operands[0].tensor()?, self.operands[1].tensor()?];
        let kind = match &check.problem.kind {
            Kind::Gemm(product) => Kind::Gemm(Product { applied: Some(self.applied.clone()), ..product.clone() }),
            other => other.clone(),
        };
        Ok(Check { problem: Problem { operands, kind }, ..check.clone() })
    }
}

/// The larger magnitude, of numbers.
fn at_least(most: f64, x: &f64) -> f64 {
    if x.is_finite() { most.max(x.abs()) } else { most }
}

/// The elements times their scales in logical order, and the largest magnitude of an element, at least 1.
fn multiplied(operand: &TensorRef<'_>, scales: Option<(&Blocks, &[f64])>, flush: bool, least: f64) -> Result<(Vec<f64>, f64)> {
    let values = Values::of(operand, flush)?;
    let mut out = zeros::<f64>(operand.elements())?;
    let element = |i: usize| {
        let x = values.at(i);
        if x != 0.0 && x.abs() < least { least.copysign(x) } else { x }
    };
    parallel::chunks_mut(&mut out, TASK, |task, part| (task * TASK..).zip(part).for_each(|(i, to)| *to = element(i)));
    let most = out.iter().fold(1.0, at_least);
    if let Some((blocks, scales)) = scales {
        let scale = |i: usize| scales[blocks.index(i)];
        parallel::chunks_mut(&mut out, TASK, |task, part| (task * TASK..).zip(part).for_each(|(i, to)| *to *= scale(i)));
    }
    Ok((out, most))
}

/// In how many runs blocks of these lengths cut k, and the products of the longest: the first, as no later one is longer than the shorter of the two.
fn runs(k: usize, [one, other]: [Option<usize>; 2]) -> (usize, usize) {
    let longest = [one, other].into_iter().flatten().fold(k, usize::min);
    // Multiples of a length inside k.
    let inside = |length: u128| (k.saturating_sub(1) as u128 / length.max(1)) as usize;
    let [first, second] = [one, other].map(|length| length.map(|length| length as u128));
    let cuts = [first, second].into_iter().flatten().map(inside).sum::<usize>();
    let both = first.zip(second).map_or(0, |(a, b)| inside(a / greatest_divisor(a, b).max(1) * b));
    (cuts - both + 1, longest)
}

/// The greatest number that divides both.
fn greatest_divisor(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_end_where_a_scale_changes() {
        for (k, lengths, expected) in [
            (256, [None, None], (1, 256)),
            (256, [Some(128), None], (2, 128)),
            (300, [Some(128), Some(128)], (3, 128)),
            (100, [Some(32), Some(16)], (7, 16)),
            (96, [Some(64), Some(48)], (3, 48)),
            (0, [Some(1), Some(1)], (1, 0)),
            (1 << 60, [Some(1 << 59), Some(usize::MAX)], (2, 1 << 59)),
        ] {
            assert_eq!(runs(k, lengths), expected, "{k} {lengths:?}");
        }
        for (k, a, b) in (0..40).flat_map(|k| (1..12).flat_map(move |a| (1..12).map(move |b| (k, a, b)))) {
            let ends: Vec<usize> = (1..=k).filter(|i: &usize| *i == k || i.is_multiple_of(a) || i.is_multiple_of(b)).collect();
            let longest = ends.iter().zip(std::iter::once(&0).chain(&ends)).map(|(end, start)| end - start).max();
            assert_eq!(runs(k, [Some(a), Some(b)]), (ends.len().max(1), longest.unwrap_or(0)), "{k} {a} {b}");
        }
    }
}
