//! What one tensor holds: range, classes of values, binary exponents.
//!
//! The result is a function of the elements in logical order alone: blocks have a fixed size, each is summed from its first
//! element to its last, and blocks are joined in order.

use crate::device::TensorRef;
use crate::device::reader::{self, Reader};
use crate::dtype::{DType, convert};
use crate::parallel;
use serde::Serialize;
use std::borrow::Cow;

/// Elements of a block; even, so that packed elements start at a byte.
const BLOCK: usize = 1 << 16;
/// Elements that a thread takes one after the other, at most.
const TASK: usize = 64 * BLOCK;

/// Exponents of f64: 2^-1074 to 2^1023.
const EXPONENTS: usize = 2098;
const LEAST_EXPONENT: i32 = -1074;

/// A value and the first logical index where it occurs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Extreme {
    /// The value; 64-bit integers beyond 2^53 rounded.
    pub(super) value: f64,
    /// The exact value of an integer.
    pub(super) integer: i128,
    /// The logical index.
    pub(super) index: usize,
}

/// Elements by class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Classes {
    /// Zeros of either sign.
    pub(super) zero: u64,
    /// Zeros with the sign bit set.
    pub(super) negative_zero: u64,
    /// Non-zero numbers below the least normal one.
    pub(super) subnormal: u64,
    /// Normal numbers.
    pub(super) normal: u64,
    /// Infinities above zero.
    pub(super) positive_infinity: u64,
    /// Infinities below zero.
    pub(super) negative_infinity: u64,
    /// NaNs.
    pub(super) nan: u64,
}

/// What a tensor holds.
#[derive(Clone, Debug)]
pub(super) struct Stats {
    /// Elements by class.
    pub(super) classes: Classes,
    /// Numbers below zero, minus infinity included.
    pub(super) negative: u64,
    /// The least finite value.
    pub(super) min: Option<Extreme>,
    /// The largest finite value.
    pub(super) max: Option<Extreme>,
    /// The least magnitude of non-zero finite values.
    pub(super) least: Option<Extreme>,
    /// The first infinity or NaN.
    pub(super) first_non_finite: Option<usize>,
    sum: f64,
    magnitudes: f64,
    squares: f64,
    exponents: Box<[u64; EXPONENTS]>,
}

impl Stats {
    fn new() -> Stats {
        Stats {
            classes: Classes::default(),
            negative: 0,
            min: None,
            max: None,
            least: None,
            first_non_finite: None,
            sum: 0.0,
            magnitudes: 0.0,
            squares: 0.0,
            exponents: Box::new([0; EXPONENTS]),
        }
    }

    /// Reads a tensor on the host device; `done` is told how many elements were read.
    pub(super) fn of(tensor: &TensorRef<'_>, done: impl Fn(usize) + Sync) -> Stats {
        let elements = tensor.elements();
        let task_size = (elements / parallel::threads()).next_multiple_of(BLOCK).clamp(BLOCK, TASK);
        let batch = task_size * parallel::threads();
        let mut all = Stats::new();
        // Some tasks at a time, so that memory does not grow with the tensor.
        for start in (0..elements).step_by(batch) {
            let end = elements.min(start + batch);
            let task = |first: usize| {
                let (mut reader, end) = (Reader::new(tensor), end.min(first + task_size));
                let blocks = (first..end).step_by(BLOCK);
                blocks.map(|at| Stats::block(tensor.dtype(), &mut reader, at, BLOCK.min(end - at))).collect::<Vec<_>>()
            };
            let parts = parallel::map((end - start).div_ceil(task_size), |i| task(start + i * task_size));
            parts.iter().flatten().for_each(|part| all.join(part));
            done(end - start);
        }
        all
    }

    fn block(dtype: DType, reader: &mut Reader<'_>, start: usize, length: usize) -> Stats {
        let bytes = reader.read(start, length);
        let mut values = vec![0.0; length];
        convert::decode_f64(dtype, bytes, &mut values);
        let least_normal = dtype.float_format().map_or(0.0, |f| f.min_normal());
        let mut s = Stats::new();
        for (i, &v) in values.iter().enumerate() {
            let integer = dtype.int_format().map_or(0, |int| int.decode(dtype.load_bits(bytes, i)));
            s.add(Extreme { value: v, integer, index: start + i }, least_normal);
        }
        s
    }

    fn add(&mut self, x: Extreme, least_normal: f64) {
        let v = x.value;
        self.negative += u64::from(v < 0.0);
        if !v.is_finite() {
            let class = if v.is_nan() {
                &mut self.classes.nan
            } else if v > 0.0 {
                &mut self.classes.positive_infinity
            } else {
                &mut self.classes.negative_infinity
            };
            *class += 1;
            self.first_non_finite.get_or_insert(x.index);
            return;
        }
        better(&mut self.min, x, |new, old| (new.value, new.integer) < (old.value, old.integer));
        better(&mut self.max, x, |new, old| (new.value, new.integer) > (old.value, old.integer));
        self.sum += v;
        self.magnitudes += v.abs();
        self.squares += v * v;
        if v == 0.0 {
            self.classes.zero += 1;
            self.classes.negative_zero += u64::from(v.is_sign_negative());
            return;
        }
        better(&mut self.least, x, |new, old| new.magnitude() < old.magnitude());
        let class = if v.abs() < least_normal { &mut self.classes.subnormal } else { &mut self.classes.normal };
        *class += 1;
        self.exponents[(x.exponent() - LEAST_EXPONENT) as usize] += 1;
    }

    fn join(&mut self, next: &Stats) {
        let (a, b) = (&mut self.classes, &next.classes);
        a.zero += b.zero;
        a.negative_zero += b.negative_zero;
        a.subnormal += b.subnormal;
        a.normal += b.normal;
        a.positive_infinity += b.positive_infinity;
        a.negative_infinity += b.negative_infinity;
        a.nan += b.nan;
        self.negative += next.negative;
        if let Some(x) = next.min {
            better(&mut self.min, x, |new, old| (new.value, new.integer) < (old.value, old.integer));
        }
        if let Some(x) = next.max {
            better(&mut self.max, x, |new, old| (new.value, new.integer) > (old.value, old.integer));
        }
        if let Some(x) = next.least {
            better(&mut self.least, x, |new, old| new.magnitude() < old.magnitude());
        }
        self.first_non_finite = self.first_non_finite.or(next.first_non_finite);
        self.sum += next.sum;
        self.magnitudes += next.magnitudes;
        self.squares += next.squares;
        self.exponents.iter_mut().zip(next.exponents.iter()).for_each(|(a, b)| *a += b);
    }

    /// Elements that are numbers other than infinities.
    pub(super) fn finite(&self) -> u64 {
        self.classes.zero + self.classes.subnormal + self.classes.normal
    }

    /// The mean of the finite elements.
    pub(super) fn mean(&self) -> Option<f64> {
        (self.finite() > 0).then(|| self.sum / self.finite() as f64)
    }

    /// The mean magnitude of the finite elements.
    pub(super) fn mean_abs(&self) -> Option<f64> {
        (self.finite() > 0).then(|| self.magnitudes / self.finite() as f64)
    }

    /// The root of the mean square of the finite elements.
    pub(super) fn rms(&self) -> Option<f64> {
        (self.finite() > 0).then(|| (self.squares / self.finite() as f64).sqrt())
    }

    /// Non-zero finite elements by floor(log2 |x|), ascending, without the empty ends.
    pub(super) fn exponents(&self) -> Vec<(i32, u64)> {
        let used = |&(_, &n): &(i32, &u64)| n > 0;
        let all = || (LEAST_EXPONENT..).zip(self.exponents.iter());
        let (Some((low, _)), Some((high, _))) = (all().find(used), all().filter(used).last()) else { return Vec::new() };
        all().filter(|(e, _)| (low..=high).contains(e)).map(|(e, &n)| (e, n)).collect()
    }
}

/// Takes `x` if there is nothing yet or `wins` says so; the first of equals stays.
fn better(extreme: &mut Option<Extreme>, x: Extreme, wins: impl Fn(&Extreme, &Extreme) -> bool) {
    if extreme.as_ref().is_none_or(|old| wins(&x, old)) {
        *extreme = Some(x);
    }
}

impl Extreme {
    /// |x|, which the exact value orders where f64 has one number for two integers.
    fn magnitude(&self) -> (f64, u128) {
        (self.value.abs(), self.integer.unsigned_abs())
    }

    /// floor(log2 |x|) of a finite non-zero value. f64 rounds some integers of 64 bits to the next power of two.
    fn exponent(&self) -> i32 {
        self.integer.unsigned_abs().checked_ilog2().map_or_else(|| exponent(self.value), |e| e as i32)
    }
}

/// floor(log2 |v|) of a finite non-zero value.
fn exponent(v: f64) -> i32 {
    let field = (v.to_bits() >> 52 & 0x7ff) as i32;
    if field > 0 { field - 1023 } else { -1011 - (v.to_bits() << 1 >> 1).leading_zeros() as i32 }
}

/// All elements in logical order: where they lie, if they lie so, else a copy of at most `max_memory` bytes.
pub(super) fn dense<'a>(tensor: &'a TensorRef<'_>, max_memory: u64) -> Result<Cow<'a, [u8]>, String> {
    let (dtype, elements) = (tensor.dtype(), tensor.elements());
    let what = || format!("shape {:?} of {dtype} in row-major order needs a copy", tensor.layout().shape());
    if !tensor.layout().is_contiguous() && dtype.bytes_for(elements).is_none_or(|bytes| bytes as u64 > max_memory) {
        return Err(format!("{} of more than {max_memory} bytes, the limit of --max-memory", what()));
    }
    reader::dense(tensor).map_err(|e| format!("{}: {e}", what()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Layout;
    use crate::dtype::DType;
    use crate::dtype::{Overflow, Rounding};

    fn bytes(dtype: DType, values: &[f64]) -> Vec<u8> {
        let mut out = vec![0; dtype.bytes_for(values.len()).unwrap()];
        convert::encode_from_f64(dtype, values, Rounding::NearestEven, Overflow::Ieee, &mut out);
        out
    }

    fn stats(dtype: DType, data: &[u8], layout: Layout) -> Stats {
        Stats::of(&TensorRef::from_host_bytes(data, dtype, layout).unwrap(), |_| ())
    }

    #[test]
    fn every_class_is_counted_in_every_float_format() {
        for dtype in [DType::F64, DType::F32, DType::Tf32, DType::F16, DType::Bf16, DType::F8E5M2] {
            let tiny = dtype.float_format().unwrap().min_normal() / 2.0;
            let values = [0.0, -0.0, tiny, 1.0, -2.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 3.0, -2.0];
            let s = stats(dtype, &bytes(dtype, &values), Layout::contiguous(&[10]).unwrap());
            let c = s.classes;
            assert_eq!((c.zero, c.negative_zero, c.subnormal, c.normal, c.nan), (2, 1, 1, 4, 1), "{dtype}");
            assert_eq!((c.positive_infinity, c.negative_infinity, s.negative, s.finite()), (1, 1, 3, 7), "{dtype}");
            let (min, max, least) = (s.min.unwrap(), s.max.unwrap(), s.least.unwrap());
            assert_eq!((min.value, min.index, max.value, max.index, least.value), (-2.0, 4, 3.0, 8, tiny), "{dtype}: the first of equals");
            assert_eq!(s.first_non_finite, Some(5));
        }
    }

    #[test]
    fn exponents_are_those_of_log2() {
        for (v, e) in [(1.0, 0), (-1.99, 0), (2.0, 1), (0.75, -1), (f64::MAX, 1023), (5e-324, -1074), (-f64::MIN_POSITIVE / 2.0, -1023)] {
            assert_eq!(exponent(v), e, "{v}");
        }
        let s = stats(DType::F32, &bytes(DType::F32, &[1.0, 1.5, 8.0, 0.0]), Layout::contiguous(&[4]).unwrap());
        assert_eq!(s.exponents(), [(0, 2), (1, 0), (2, 0), (3, 1)]);
    }

    #[test]
    fn integers_beyond_two_to_53_keep_their_order() {
        let data: Vec<u8> = [i64::MAX, i64::MAX - 1, i64::MIN + 1, i64::MIN].iter().flat_map(|v| v.to_le_bytes()).collect();
        let s = stats(DType::I64, &data, Layout::contiguous(&[4]).unwrap());
        assert_eq!((s.max.unwrap().integer, s.max.unwrap().index), (i64::MAX.into(), 0));
        assert_eq!((s.min.unwrap().integer, s.min.unwrap().index), (i64::MIN.into(), 3));
        assert_eq!((s.least.unwrap().integer, s.exponents()), ((i64::MAX - 1).into(), vec![(62, 3), (63, 1)]));
    }

    #[test]
    fn strided_tensors_count_in_logical_order_and_blocks_do_not_show() {
        let (rows, columns) = (300, 500); // more than two blocks
        let value = |r: usize, c: usize| ((r * 7919 + c * 104_729) % 4001) as f64 - 2000.0;
        let dense: Vec<f64> = (0..rows * columns).map(|i| value(i / columns, i % columns)).collect();
        let columns_first: Vec<f64> = (0..rows * columns).map(|i| value(i % rows, i / rows)).collect();
        for dtype in [DType::F32, DType::F16, DType::I16, DType::I4, DType::F4E2M1] {
            let a = stats(dtype, &bytes(dtype, &dense), Layout::contiguous(&[rows, columns]).unwrap());
            let layout = Layout::strided(&[rows, columns], &[1, rows as isize], 0).unwrap();
            let b = stats(dtype, &bytes(dtype, &columns_first), layout);
            assert_eq!((a.classes, a.min, a.max, a.least), (b.classes, b.min, b.max, b.least), "{dtype}");
            assert_eq!((a.sum.to_bits(), a.squares.to_bits()), (b.sum.to_bits(), b.squares.to_bits()), "{dtype}");
            let naive =
                (0..rows * columns).map(|i| dtype.decode(dtype.load_bits(&bytes(dtype, &dense[i..=i]), 0))).fold(f64::MIN, f64::max);
            assert_eq!(a.max.unwrap().value, naive, "{dtype}");
        }
    }

    #[test]
    fn nothing_and_scalars() {
        let s = stats(DType::F32, &[], Layout::contiguous(&[0, 3]).unwrap());
        assert_eq!((s.finite(), s.min, s.mean(), s.exponents()), (0, None, None, vec![]));
        let s = stats(DType::F32, &2f32.to_le_bytes(), Layout::contiguous(&[]).unwrap());
        assert_eq!((s.mean(), s.rms()), (Some(2.0), Some(2.0)));
    }
}
