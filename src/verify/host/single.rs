//! Pairs one by one, in ascending order: for lists and pictures of what a report counts.
//!
//! Blocks are decoded as in both passes. Of the rule for one element a vector loop computes the bounds, which need a fused operation; what follows from a
//! bound is computed where it is asked for, since the compiler drops the fields of a [`Pair`] that nobody reads.

use super::number::Number;
use super::side::{BLOCK, Side};
use crate::device::TensorRef;
use crate::device::reader::Reader;
use crate::dtype::{DType, PairArithmetic, convert};
use crate::simd::{InstructionSet, Task, each};
use crate::verify::options::Request;
use crate::verify::pairs::Pair;
use crate::verify::report::Value;
use crate::verify::rule::{AnyRule, Rule};
use std::ops::Range;

/// Shows the pairs of a range of two tensors of one shape, both on the host, to `take`.
pub(in crate::verify) fn each_pair(tensors: [&TensorRef<'_>; 2], request: &Request, range: Range<usize>, take: impl FnMut(Pair)) {
    match PairArithmetic::of(tensors[0].dtype(), tensors[1].dtype()) {
        PairArithmetic::F32 => floats::<f32>(tensors, request, range, take),
        PairArithmetic::F64 => floats::<f64>(tensors, request, range, take),
        PairArithmetic::I64 => integers(tensors, request, range, take),
    }
}

/// Begin and size of the blocks of a range.
fn blocks(range: Range<usize>) -> impl Iterator<Item = (usize, usize)> {
    let end = range.end;
    range.step_by(BLOCK).map(move |start| (start, BLOCK.min(end - start)))
}

fn floats<T: Number>(tensors: [&TensorRef<'_>; 2], request: &Request, range: Range<usize>, mut take: impl FnMut(Pair)) {
    let (set, rule) = (InstructionSet::best(), Rule::<T>::new(request, tensors[0].dtype()));
    let [mut result, mut reference] = tensors.map(Side::<T>::new);
    // T does not hold all integers of 64 bits.
    let [mut whole_a, mut whole_r] = tensors.map(|tensor| tensor.dtype().is_int().then(|| Whole::new(tensor)));
    let mut bounds = Box::new([T::ZERO; BLOCK]);
    for (start, count) in blocks(range) {
        let (a, r) = (result.block(start, count), reference.block(start, count));
        let [whole_a, whole_r] = [&mut whole_a, &mut whole_r].map(|side| side.as_mut().map(|whole| whole.read(start, count)));
        set.run(Bounds { reference: r, rule, out: &mut bounds });
        for i in 0..count {
            let (difference, ratio, mismatch) = judge(&rule, a[i], r[i], bounds[i]);
            let value = |whole: Option<&[i128; BLOCK]>, x: T| whole.map_or_else(|| Value::Float(x.wide()), |whole| Value::Int(whole[i]));
            let (result, reference) = (value(whole_a, a[i]), value(whole_r, r[i]));
            take(Pair { index: start + i, result, reference, difference, ratio, mismatch });
        }
    }
}

fn integers(tensors: [&TensorRef<'_>; 2], request: &Request, range: Range<usize>, mut take: impl FnMut(Pair)) {
    let rule = AnyRule::new(tensors.map(TensorRef::dtype), request);
    let [mut result, mut reference] = tensors.map(Whole::new);
    for (start, count) in blocks(range) {
        let (a, r) = (result.read(start, count), reference.read(start, count));
        for i in 0..count {
            let (result, reference) = (Value::Int(a[i]), Value::Int(r[i]));
            let (difference, ratio, mismatch) = rule.judge(result, reference);
            take(Pair { index: start + i, result, reference, difference, ratio, mismatch });
        }
    }
}

/// [`AnyRule::judge`] of a pair with this bound, all metrics asked for.
#[inline(always)]
fn judge<T: Number>(rule: &Rule<T>, a: T, r: T, bound: T) -> (f64, f64, bool) {
    let difference = a - r;
    let d = difference.magnitude();
    if a.finite() && r.finite() {
        return (difference.wide(), if d > T::ZERO { (d / bound).wide() } else { 0.0 }, d > bound);
    }
    let mismatch = rule.fails(a, r);
    (difference.wide(), if mismatch { f64::INFINITY } else { 0.0 }, mismatch)
}

/// The bound of each pair, from its reference.
struct Bounds<'a, T> {
    reference: &'a [T; BLOCK],
    rule: Rule<T>,
    out: &'a mut [T; BLOCK],
}

impl<T: Number> Task for Bounds<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        let rule = self.rule;
        each(self.out, self.reference, |bound, r| *bound = rule.bound(rule.rtol, r.magnitude(), rule.atol));
    }
}

/// A tensor of integers, block by block.
struct Whole<'a> {
    reader: Reader<'a>,
    dtype: DType,
    numbers: Box<[i128; BLOCK]>,
}

impl<'a> Whole<'a> {
    fn new(tensor: &TensorRef<'a>) -> Whole<'a> {
        Whole { reader: Reader::new(tensor), dtype: tensor.dtype(), numbers: Box::new([0; BLOCK]) }
    }

    fn read(&mut self, start: usize, count: usize) -> &[i128; BLOCK] {
        convert::decode_whole(self.dtype, self.reader.read(start, count), &mut self.numbers[..count]);
        &self.numbers
    }
}
