//! The comparison on the host device: all cores, vectors where the processor has them, any pair of formats, any layout.
//!
//! ```text
//! first pass, by all workers, for each partial sum, tile, block of 1024 elements:
//!     a, r = the block as numbers of the pair's arithmetic        side
//!     d = |a - r|, m = |r|, zeros where d is not finite
//!     pairs whose d is not finite, one by one                     first_pass, rule
//!     counts; may a quotient exceed its maximum?                  measure or plain, filter
//!     if so: the maxima of the block, with divisions
//!     add d, d^2, m, m^2 to the accumulators of the tile
//!     histograms, if asked for                                    bins
//! second pass, if the verdict is to be explained:                 second_pass
//!     read again, and take one by one what may be an answer
//! ```
//!
//! Invariant of the first pass: after a block each maximum is that of all elements the worker has taken, since a block without one that may exceed
//! it is the only kind that is not measured with divisions; the proof is in [`filter`]. Workers are joined by rules that do not depend on how elements
//! were shared out ([`Values::join`], [`Explanation::join`], and the partial sums in their order), so the number of threads changes no bit.
//!
//! What differs between formats is how bytes become numbers, and nothing else: there is one set of loops for f32, one for f64, and one for exact
//! integers, each compiled for every instruction set. The reference implementation is `rule.rs`, one element after the other.

mod bins;
mod filter;
mod first_pass;
mod integers;
mod max;
mod measure;
mod number;
mod plain;
mod second_pass;
mod side;
mod single;

pub(crate) use max::reduce_max;
pub(super) use single::each_pair;

use super::options::{Explain, Request};
use super::progress::Meter;
use super::sums::{self, Sums};
use super::values::{Explanation, Outcome, Values};
use crate::device::TensorRef;
use crate::dtype::PairArithmetic;
use crate::parallel;
use crate::simd::InstructionSet;
use second_pass::found;
use side::BLOCK;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Compares two tensors of one shape, both on the host device.
pub(crate) fn compare(result: &TensorRef<'_>, reference: &TensorRef<'_>, request: &Request) -> Outcome {
    compare_by(InstructionSet::best(), result, reference, request, Meter::OFF)
}

/// [`compare`] with one of the processor's instruction sets, which counts what it reads.
pub(crate) fn compare_by(
    set: InstructionSet,
    result: &TensorRef<'_>,
    reference: &TensorRef<'_>,
    request: &Request,
    meter: Meter<'_>,
) -> Outcome {
    let partials = Partials::of(result, reference, meter);
    let tensors = [result.clone(), reference.clone()];
    macro_rules! both_passes {
        ($first:expr, $second:expr) => {{
            let (values, mismatches) = first_pass(&partials, || $first);
            let explain = || {
                if request.explain == Explain::OnFailure {
                    meter.plan(partials.elements);
                }
                second_pass(&partials, &tensors, request.first, &mismatches, || $second(&values))
            };
            let explanation = request.explains(&values, result).then(explain);
            Outcome { values, explanation }
        }};
    }
    // f64 holds integers of up to 32 bits and their differences: whole numbers are exact in its loops as well.
    let wider = |t: &TensorRef<'_>| t.dtype().bits() > 32;
    match PairArithmetic::of(result.dtype(), reference.dtype()) {
        PairArithmetic::I64 if wider(result) || wider(reference) => {
            both_passes!(integers::Integers::new(result, reference, request, set), |values| second_pass::Integers::new(
                tensors.clone(),
                request,
                values,
                set
            ))
        }
        PairArithmetic::F32 => {
            both_passes!(first_pass::Floats::<f32>::new(result, reference, request, set), |values| second_pass::Floats::<f32>::new(
                tensors.clone(),
                request,
                values,
                set
            ))
        }
        PairArithmetic::F64 | PairArithmetic::I64 => {
            both_passes!(first_pass::Floats::<f64>::new(result, reference, request, set), |values| second_pass::Floats::<f64>::new(
                tensors.clone(),
                request,
                values,
                set
            ))
        }
    }
}

/// How the elements are shared out.
struct Partials<'a> {
    elements: usize,
    tile: usize,
    meter: Meter<'a>,
}

impl<'a> Partials<'a> {
    fn of(result: &TensorRef<'_>, reference: &TensorRef<'_>, meter: Meter<'a>) -> Partials<'a> {
        let vector = sums::vector_width(result.dtype(), reference.dtype());
        Partials { elements: result.elements(), tile: sums::tile_elements(vector), meter }
    }

    fn count(&self) -> usize {
        self.elements.div_ceil(self.tile * sums::PARTIAL_TILES)
    }

    /// Begin and size of the parts of `size` elements of a partial sum; the last part of a tensor may be smaller.
    fn parts(&self, partial: usize, size: usize) -> impl Iterator<Item = (usize, usize)> {
        let all = self.tile * sums::PARTIAL_TILES;
        let end = self.elements.min((partial + 1) * all);
        (partial * all..end).step_by(size).map(move |start| (start, size.min(end - start)))
    }

    /// Gives all partial sums to as many workers as there are threads. Each takes runs of consecutive partials, always the first that nobody has, so that
    /// it sees elements in ascending order.
    fn share<W, R: Send>(&self, worker: impl Fn() -> W + Sync, take: impl Fn(&mut W, usize) + Sync, end: impl Fn(W) -> R + Sync) -> Vec<R> {
        let partials = self.count();
        let workers = parallel::threads().min(partials);
        // Long runs keep workers out of each other's pages, and panels of rows whole (see `device::reader`); short ones even out the load.
        let run = (partials / (16 * workers)).clamp(1, 64);
        let next = AtomicUsize::new(0);
        let work = |_: usize| {
            let mut worker = worker();
            loop {
                let first = next.fetch_add(run, Ordering::Relaxed);
                if first >= partials {
                    return end(worker);
                }
                let end = partials.min(first + run);
                (first..end).for_each(|partial| take(&mut worker, partial));
                let elements = |partial: usize| self.elements.min(partial * self.tile * sums::PARTIAL_TILES);
                self.meter.add(elements(end) - elements(first));
            }
        };
        parallel::map(workers, work)
    }
}

/// Values, and the mismatches in each partial sum.
fn first_pass<W: first_pass::Worker>(partials: &Partials<'_>, worker: impl Fn() -> W + Sync) -> (Values, Vec<u64>) {
    struct Taken<W> {
        worker: W,
        partials: Vec<(usize, Sums, u64)>,
    }
    let take = |taken: &mut Taken<W>, partial: usize| {
        let before = taken.worker.values().mismatches;
        let tiles: Vec<Sums> = partials.parts(partial, partials.tile).map(|(start, count)| taken.worker.tile(start, count)).collect();
        taken.partials.push((partial, sums::partial_sums(&tiles), taken.worker.values().mismatches - before));
    };
    let parts = partials.share(|| Taken { worker: worker(), partials: Vec::new() }, take, |taken| (taken.worker.values(), taken.partials));
    let mut values = Values::EMPTY;
    parts.iter().for_each(|(theirs, _)| values.join(theirs));
    let mut in_order: Vec<_> = parts.into_iter().flat_map(|(_, partials)| partials).collect();
    in_order.sort_unstable_by_key(|(partial, ..)| *partial);
    values.sums = sums::join_partials(in_order.iter().map(|(_, sums, _)| *sums));
    (values, in_order.into_iter().map(|(.., mismatches)| mismatches).collect())
}

/// The explanation; `mismatches` has their number in each partial sum.
fn second_pass<W: second_pass::Worker>(
    partials: &Partials<'_>,
    tensors: &[TensorRef<'_>; 2],
    first: usize,
    mismatches: &[u64],
    worker: impl Fn() -> W + Sync,
) -> Explanation {
    let take = |worker: &mut W, partial: usize| partials.parts(partial, BLOCK).for_each(|(start, count)| worker.block(start, count));
    let parts = partials.share(&worker, take, W::explanation);
    let mut explanation = Explanation::EMPTY;
    parts.iter().for_each(|theirs| explanation.join(theirs));
    let mut worker = worker();
    let failing = mismatches.iter().enumerate().filter(|(_, n)| **n > 0).map(|(partial, _)| partial);
    let blocks = failing.flat_map(|partial| partials.parts(partial, BLOCK));
    explanation.first =
        blocks.flat_map(|(start, count)| worker.mismatches(start, count)).take(first).map(|index| found(tensors, index)).collect();
    explanation
}
