//! What a failure is told with: its likely cause.

use super::copied::Copied;
use super::products::Values;
use super::{Check, CheckCause, cause};
use crate::device::{Layout, TensorRef};
use crate::dtype::Overflow;
use crate::error::Result;
use crate::reference::Arithmetic;
use crate::verify::bound::{Bound, BoundReport, each_mismatch, some_mismatches};
use crate::verify::diagnose_by_bound;

impl<'a> Check<'a> {
    /// Whether every element beyond its bound is the largest number of a format with infinity, where the exact result is, or may be, beyond it.
    fn would_saturate(&self, exact: [&TensorRef<'_>; 2], bound: &Bound) -> Result<bool> {
        let may = self.overflow == Overflow::Ieee && self.result.dtype().float_format().is_some_and(|format| format.has_infinity());
        let saturating = || Check { overflow: Overflow::Saturate, ..self.clone() }.judged(&self.result, exact, bound);
        Ok(may && saturating()?.passed())
    }

    /// Whether nearly all elements beyond their bounds are no numbers, in the result or in the exact one: of a result that is bit-exact that is what the chip makes of these operands.
    pub(super) fn chip_differs(&self, report: &BoundReport, [reference, magnitudes]: [&TensorRef<'_>; 2], bound: &Bound) -> Result<bool> {
        let (result, exact) = (Values::of(&self.result, false)?, Values::of(reference, false)?);
        let mut numbers = 0;
        each_mismatch([&self.result, reference, magnitudes], (bound, self.overflow), |i| {
            numbers += u64::from(result.at(i).is_finite() && exact.at(i).is_finite());
        })?;
        Ok(20 * numbers <= report.mismatches)
    }

    /// The likely cause of a failure: what single values and places tell, else what the operands do, else statistics.
    /// None where the worst case explains it and sums do lose as much: products that are lost in rounding look like missing ones.
    pub(super) fn find_cause(
        &self,
        report: &BoundReport,
        [reference, magnitudes]: [&TensorRef<'_>; 2],
        reads: Arithmetic,
        bound: &Bound,
        explained: bool,
    ) -> Result<Option<CheckCause>> {
        if self.would_saturate([reference, magnitudes], bound)? {
            return Ok(Some(cause::saturated(&self.result, report.mismatches)));
        }
        let some = || some_mismatches([&self.result, reference, magnitudes], (bound, self.overflow), cause::SAMPLE);
        let accumulator = self.accumulator.unwrap_or(self.problem.accumulator());
        if explained
            && !self.sums_in_i32()
            && cause::lost_in_rounding(&self.problem, self.result.shape(), reads, (*bound, self.overflow), &some()?, accumulator)?
        {
            return Ok(None);
        }
        let compared = self.compared(report, [reference, magnitudes], bound)?;
        if compared.as_ref().is_some_and(CheckCause::needs_no_operands) {
            return Ok(compared);
        }
        let share = report.mismatches as f64 / report.elements as f64;
        cause::find(&self.problem, self.result.shape(), reads, (*bound, self.overflow), (&some()?, share), compared)
    }

    /// The cause that a comparison with the exact result names, each element by its bound.
    fn compared(&self, report: &BoundReport, exact: [&TensorRef<'_>; 2], bound: &Bound) -> Result<Option<CheckCause>> {
        let interesting: Vec<usize> = report.first.first().into_iter().chain(&report.worst).map(|element| element.index).collect();
        let reference = self.where_it_differs(exact, bound)?;
        let reference = reference.as_ref().map_or(Ok(exact[0].clone()), Copied::tensor)?;
        let diagnosed = |result: &TensorRef<'_>, earlier: Option<&TensorRef<'_>>| {
            let [reference, magnitudes] = [&reference, exact[1]].map(|tensor| tensor.view(Layout::contiguous(result.shape())?));
            diagnose_by_bound([result, &reference?], earlier, (&magnitudes?, bound, self.overflow), &interesting)
        };
        let shape = self.problem.matrices(self.result.shape());
        let view = |tensor: &TensorRef<'a>| match tensor.layout().is_contiguous() {
            true => tensor.view(Layout::strided(&shape, Layout::contiguous(&shape)?.strides(), tensor.layout().offset())?),
            false => Ok(tensor.clone()),
        };
        let result = view(&self.result)?;
        let alike = self.earlier.as_ref().filter(|earlier| earlier.layout().is_contiguous() == self.result.layout().is_contiguous());
        let Some(found) = diagnosed(&result, alike.map(view).transpose()?.as_ref())? else { return Ok(None) };
        if result.shape() == self.result.shape() {
            return Ok(Some(cause::from(&found)));
        }
        // Places are those of the result as it is: what lies along its own dimensions, and where.
        let placed = match diagnosed(&self.result, None)? {
            Some(own) => found.placed(own),
            None => found,
        };
        Ok(Some(cause::from(&placed)))
    }

    /// The exact result, with the result's own numbers where these are infinite, or NaN, or the largest, and rightly so; `None` where there are none.
    fn where_it_differs(&self, [reference, magnitudes]: [&TensorRef<'_>; 2], bound: &Bound) -> Result<Option<Copied>> {
        let values = Values::of(&self.result, false)?;
        let largest = self.result.dtype().float_format().map_or(f64::INFINITY, |format| format.max_finite());
        let beyond = |x: f64| !x.is_finite() || self.overflow == Overflow::Saturate && x.abs() == largest;
        let mut right: Vec<bool> = (0..self.result.elements()).map(|i| beyond(values.at(i))).collect();
        if !right.contains(&true) {
            return Ok(None);
        }
        each_mismatch([&self.result, reference, magnitudes], (bound, self.overflow), |i| right[i] = false)?;
        Copied::replaced(reference, |i| right[i].then(|| values.at(i))).map(Some)
    }
}
