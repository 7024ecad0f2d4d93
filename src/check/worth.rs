//! What a pass is worth: which results that are broken would have passed as well, and what the elements do not show.

use super::copied::Copied;
use super::{Check, shortened};
use crate::device::TensorRef;
use crate::dtype::Overflow;
use crate::error::Result;
use crate::reference::Arithmetic;
use crate::verify::bound::{Bound, BoundReport, each_mismatch, gpu_verify_bound_with};
use crate::verify::{Mutation, NonFinite, Options, Tolerance, Verdict, gpu_verify_with};

/// Products of the last step of a kernel's loop over k, the fewest that are usual: whether a result without them would pass is part of a report.
pub(super) const TILE: usize = 16;

impl Check<'_> {
    /// Adds to the report of a pass at how many elements the sum is beyond a clamp.
    pub(super) fn with_clamped(&self, report: BoundReport, reference: &TensorRef<'_>, reads: Arithmetic) -> Result<BoundReport> {
        let (shape, options) = (reference.shape(), Options::counts().nonfinite(NonFinite::EqualWhenSame));
        let mut clamped = 0;
        for open in if report.passed() { self.problem.without_limits() } else { Vec::new() } {
            let exact = open.exact(reads, shape)?;
            clamped += gpu_verify_with(&exact.tensor(shape)?, reference, &Tolerance::exact(), &options)?.mismatches;
        }
        Ok(report.with_clamped(clamped))
    }

    /// Adds to the report of a pass whether the earlier output would pass as well; of a failure, counts the elements beyond their bounds that hold it.
    pub(super) fn with_earlier(
        &self,
        report: BoundReport,
        exact: [&TensorRef<'_>; 2],
        bound: &Bound,
    ) -> Result<(BoundReport, Option<u64>)> {
        let Some(earlier) = &self.earlier else { return Ok((report, None)) };
        let [reference, magnitudes] = exact;
        if report.passed() {
            let passes = self.judged(earlier, exact, bound)?.passed();
            return Ok((report.with_mutation(Mutation::Earlier, passes), None));
        }
        let (result, old) = (self.result.fetch()?, earlier.fetch()?);
        let bits = |tensor: &TensorRef<'_>, bytes: &[u8], index| tensor.dtype().load_bits(bytes, tensor.layout().index(index));
        let mut stale = 0;
        each_mismatch([&self.result, reference, magnitudes], (bound, self.overflow), |i| {
            stale += u64::from(bits(&self.result, &result, i) == bits(earlier, &old, i));
        })?;
        Ok((report, Some(stale)))
    }

    /// Adds to the report of a pass whether a result without the last products of its sums would pass as well.
    pub(super) fn with_shortened(
        &self,
        report: BoundReport,
        against: [&TensorRef<'_>; 2],
        reads: Arithmetic,
        bound: &Bound,
    ) -> Result<BoundReport> {
        let by = match self.problem.terms() % TILE {
            0 => TILE,
            rest => rest,
        };
        if report.verdict != Verdict::Pass {
            return Ok(report);
        }
        let shape = against[0].shape();
        let Some(exact) = shortened::exact(&self.problem, by, reads, shape)? else { return Ok(report) };
        let [reference, magnitudes] = against;
        // Operands may have nothing but zeros there.
        if gpu_verify_bound_with(&exact.tensor(shape)?, reference, magnitudes, &Bound::EXACT, Overflow::Ieee)?.passed() {
            return Ok(report);
        }
        let rounded = Copied::rounded(&exact, shape, self.result.dtype(), self.overflow)?;
        let passes = self.judged(&rounded.tensor()?, against, bound)?.passed();
        Ok(report.with_mutation(Mutation::Shortened(by), passes))
    }
}
