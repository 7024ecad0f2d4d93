//! The comparison on the host device: all cores, vectors where the processor has them, any layout.
//!
//! Items of [`sums`](super::sums) are the unit of work: each worker takes runs of consecutive items, always the first that nobody has,
//! so that it sees elements in ascending order and its extremes sharpen the screens of all that it does later. Whole segments go through
//! the loop of `fused` where there is one for their format; the rest is decoded block by block into numbers in the L1 cache, and scanned
//! there. Workers are joined by rules that do not depend on how items were shared out.

mod block;
mod fold;
#[cfg(target_arch = "x86_64")]
mod fused;
mod gather;
mod lanes;
mod max;

pub(crate) use max::reduce_max;

use super::histogram::{BINS, Counters};
use super::options::Request;
use super::rule::{Arithmetic, Grid, IntRule, Real, Rule};
use super::stats::Stats;
use super::sums::{self, Accumulators, Sums};
use super::values::{Found, Outcome};
use crate::device::TensorRef;
use crate::dtype::{DType, Overflow, Rounding, convert, ordinal};
use block::{BLOCK, Bits, Block, Ordinals, Sink};
#[cfg(target_arch = "x86_64")]
use fused::Segments;
use gather::Reader;
use rayon::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What one worker brings home.
struct Part {
    stats: Stats,
    histograms: Counters,
    /// Number, sums and mismatches of each item.
    items: Vec<(usize, Sums, u64)>,
}

impl Part {
    fn new() -> Part {
        Part { stats: Stats::EMPTY, histograms: [0; BINS], items: Vec::new() }
    }
}

/// Compares two tensors of one shape, both on the host device.
pub(crate) fn compare(result: &TensorRef<'_>, reference: &TensorRef<'_>, request: &Request) -> Outcome {
    compare_with(Vectors::best(), result, reference, request)
}

/// [`compare`] with an instruction set that the processor has.
pub(crate) fn compare_with(vectors: Vectors, result: &TensorRef<'_>, reference: &TensorRef<'_>, request: &Request) -> Outcome {
    match Arithmetic::of(result.dtype(), reference.dtype()) {
        Arithmetic::F32 => run::<Floats<f32>>(vectors, result, reference, request),
        Arithmetic::F64 => run::<Floats<f64>>(vectors, result, reference, request),
        Arithmetic::I64 => run::<Integers>(vectors, result, reference, request),
    }
}

/// One arithmetic's way to scan; holds the scratch memory of a worker.
trait Scanner {
    /// The arithmetic of sums.
    type Number: Real;
    fn new(vectors: Vectors, result: DType, reference: DType, request: &Request) -> Self;
    /// Scans a whole segment with its sums if there is a fast way to do that, else does nothing and says so. `stats` must be of
    /// elements that come before the segment.
    fn scan_segment(
        &mut self,
        _start: u64,
        _result: &[u8],
        _reference: &[u8],
        _stats: &mut Stats,
        _acc: &mut Accumulators<Self::Number>,
    ) -> bool {
        false
    }
    /// Scans a block of raw elements, the first of which has logical index `start`.
    fn scan(
        &mut self,
        start: u64,
        n: usize,
        result: &[u8],
        reference: &[u8],
        part: &mut Part,
        acc: Option<(&mut Accumulators<Self::Number>, usize, usize)>,
    );
    /// The sums of a block for which [`Scanner::Number`] has no range: adds to `acc` in f64.
    fn sum_widely(&mut self, n: usize, result: &[u8], reference: &[u8], acc: (&mut Accumulators<f64>, usize, usize));
}

fn run<S: Scanner>(vectors: Vectors, result: &TensorRef<'_>, reference: &TensorRef<'_>, request: &Request) -> Outcome {
    let n = result.elements();
    let vector = sums::vector_width(result.dtype(), reference.dtype());
    let segment = sums::segment_elements(vector);
    let item = segment * sums::SEGMENTS_PER_ITEM;
    let items = n.div_ceil(item);
    let scan_item = |scanner: &mut S, part: &mut Part, readers: &mut (Reader<'_>, Reader<'_>), i: usize| {
        let end = n.min((i + 1) * item);
        let before = part.stats.mismatches;
        let mut acc = sums::empty();
        let mut segment_sums = Vec::with_capacity(sums::SEGMENTS_PER_ITEM);
        for start in (i * item..end).step_by(segment) {
            let count = segment.min(end - start);
            let whole = count == segment && {
                let (a, r) = (readers.0.read(start, count), readers.1.read(start, count));
                scanner.scan_segment(start as u64, a, r, &mut part.stats, &mut acc)
            };
            if !whole {
                acc = sums::empty();
                for offset in (0..count).step_by(BLOCK) {
                    let (at, count) = (start + offset, BLOCK.min(count - offset));
                    let sink = request.all.then_some((&mut acc, vector, offset));
                    scanner.scan(at as u64, count, readers.0.read(at, count), readers.1.read(at, count), part, sink);
                }
            }
            if request.all {
                segment_sums.push(sums::segment_sums(&acc).unwrap_or_else(|| {
                    let mut acc = sums::empty::<f64>();
                    for offset in (0..count).step_by(BLOCK) {
                        let (at, count) = (start + offset, BLOCK.min(count - offset));
                        scanner.sum_widely(count, readers.0.read(at, count), readers.1.read(at, count), (&mut acc, vector, offset));
                    }
                    sums::segment_sums(&acc).unwrap_or_default()
                }));
            }
        }
        part.items.push((i, sums::item_sums(&segment_sums), part.stats.mismatches - before));
    };
    let workers = rayon::current_num_threads().min(items);
    // Runs of 1 MiB or so of each side keep workers out of each other's pages; short ones even out the load.
    let run = (items / (16 * workers)).clamp(1, 8);
    let next = AtomicUsize::new(0);
    let work = |_| {
        let mut scanner = S::new(vectors, result.dtype(), reference.dtype(), request);
        let mut readers = (Reader::new(result), Reader::new(reference));
        let mut part = Part::new();
        loop {
            let first = next.fetch_add(run, Ordering::Relaxed);
            if first >= items {
                return part;
            }
            for i in first..items.min(first + run) {
                scan_item(&mut scanner, &mut part, &mut readers, i);
            }
        }
    };
    let parts: Vec<Part> = (0..workers).into_par_iter().with_max_len(1).map(work).collect();

    let mut stats = Stats::EMPTY;
    let mut histograms = [0; BINS];
    for part in &parts {
        stats.join(&part.stats);
        histograms.iter_mut().zip(part.histograms).for_each(|(mine, theirs)| *mine += theirs);
    }
    let mut in_order: Vec<_> = parts.iter().flat_map(|p| &p.items).collect();
    in_order.sort_unstable_by_key(|(i, ..)| *i);
    let sums = sums::join_items(in_order.iter().map(|(_, sums, _)| *sums));
    let values = stats.values(sums, request.histograms.then_some(histograms));
    if !request.explains(&values, result) {
        return Outcome { values, explanation: None };
    }
    // The first mismatches: only items that have some are scanned again, block by block, and only such blocks element by element.
    let mut first = Vec::new();
    let mut scanner = S::new(vectors, result.dtype(), reference.dtype(), request);
    let mut readers = (Reader::new(result), Reader::new(reference));
    let mut mismatches = |start: usize, count: usize| {
        let mut probe = Part::new();
        scanner.scan(start as u64, count, readers.0.read(start, count), readers.1.read(start, count), &mut probe, None);
        probe.stats.mismatches
    };
    let mismatching = in_order.iter().filter(|(.., m)| *m > 0).map(|(i, ..)| *i);
    'found: for start in mismatching.flat_map(|i| (i * item..n.min((i + 1) * item)).step_by(BLOCK)) {
        if first.len() == request.first {
            break;
        }
        let end = n.min(start + BLOCK);
        if mismatches(start, end - start) == 0 {
            continue;
        }
        for element in start..end {
            if first.len() == request.first {
                break 'found;
            }
            if mismatches(element, 1) > 0 {
                first.push(element as u64);
            }
        }
    }
    let bits = |index: u64| {
        let of = |t: &TensorRef<'_>| t.dtype().load_bits(t.host_bytes(), t.layout().index(index as usize));
        [of(result), of(reference)]
    };
    let first = first.into_iter().map(|index| Found { index, bits: bits(index) }).collect();
    Outcome { values, explanation: Some(stats.explanation(bits, first)) }
}

/// The scanner of f32 and f64.
struct Floats<T: Bits> {
    dtypes: [DType; 2],
    rule: Rule<T>,
    histograms: bool,
    vectors: Vectors,
    #[cfg(target_arch = "x86_64")]
    fused: Option<fused::Fused<T>>,
    /// Scale and shift of [`Ordinals::Numbers`].
    tell: Option<(T, u32)>,
    numbers: [Vec<T>; 2],
    ordinals: [Vec<T::Ordinal>; 2],
    differences: Vec<T>,
    magnitudes: Vec<T>,
}

/// No fused loops elsewhere.
#[cfg(not(target_arch = "x86_64"))]
trait Segments {}
#[cfg(not(target_arch = "x86_64"))]
impl<T> Segments for T {}

/// What the scanner needs of f32 and f64 beyond the rule.
trait Decode: Bits + Segments + bytemuck::Pod {
    /// The format whose memory is this type.
    const DTYPE: DType;
    fn decode(dtype: DType, bytes: &[u8], out: &mut [Self]);
    fn ordinals(dtype: DType, bytes: &[u8], out: &mut [Self::Ordinal]);
    /// Ordinals in `dtype` of numbers rounded to it.
    fn rounded_ordinals(dtype: DType, values: &[Self], out: &mut [Self::Ordinal]);
    /// Scale and shift of [`Ordinals::Numbers`] for a float format whose patterns are those of scaled numbers of this type.
    fn numbers_tell(dtype: DType) -> Option<(Self, u32)> {
        let (f, own) = (dtype.float_format()?, Self::DTYPE.float_format()?);
        if dtype == DType::F8E8M0 || f.exponent_bits > own.exponent_bits {
            return None;
        }
        // From the least normal number of the format to that of the type; a difference of 0 leaves numbers alone.
        let scale = crate::dtype::exp2(own.min_exponent() - f.min_exponent());
        Some((Self::from_f64(scale), own.mantissa_bits - f.mantissa_bits))
    }
    /// Scans in vectors where `vectors` says that the processor can.
    fn scan(block: &Block<'_, Self, Self::Ordinal>, vectors: Vectors, rule: &Rule<Self>, sink: &mut Sink<'_, Self>);
}

macro_rules! decode {
    ($t:ty, $dtype:ident, $ordinal:ty, $decode:path, $avx2:path, $avx512:path, |$d:ident, $bytes:ident, $o:ident| $ordinals:expr, |$d2:ident, $v:ident, $o2:ident| $rounded:expr) => {
        impl Decode for $t {
            const DTYPE: DType = DType::$dtype;
            fn decode(dtype: DType, bytes: &[u8], out: &mut [$t]) {
                $decode(dtype, bytes, out)
            }
            fn ordinals($d: DType, $bytes: &[u8], $o: &mut [$ordinal]) {
                $ordinals
            }
            fn rounded_ordinals($d2: DType, $v: &[$t], $o2: &mut [$ordinal]) {
                $rounded
            }
            fn scan(block: &Block<'_, $t, $ordinal>, vectors: Vectors, rule: &Rule<$t>, sink: &mut Sink<'_, $t>) {
                match vectors {
                    // SAFETY: this level is given only where the instruction set was detected.
                    #[cfg(target_arch = "x86_64")]
                    Vectors::Avx512 => unsafe { $avx512(block, rule, sink) },
                    // SAFETY: as above.
                    #[cfg(target_arch = "x86_64")]
                    Vectors::Avx2 => unsafe { $avx2(block, rule, sink) },
                    Vectors::None => block.scan_scalar(rule, sink),
                }
            }
        }
    };
}

decode!(
    f32,
    F32,
    i32,
    convert::decode_f32,
    block::scan_f32_avx2,
    block::scan_f32_avx512,
    |d, bytes, o| convert::ordinals_i32(d, bytes, o),
    |d, v, o| convert::ordinals_from_f32(d, v, o)
);
decode!(
    f64,
    F64,
    i64,
    convert::decode_f64,
    block::scan_f64_avx2,
    block::scan_f64_avx512,
    |d, bytes, o| wide_ordinals(d, bytes, o),
    |d, v, o| rounded_wide_ordinals(d, v, o)
);

/// Ordinals of any format; NaN counts as 0, as it is never measured.
fn wide_ordinals(dtype: DType, bytes: &[u8], out: &mut [i64]) {
    for (i, o) in out.iter_mut().enumerate() {
        *o = ordinal(dtype, dtype.load_bits(bytes, i)).unwrap_or(0);
    }
}

/// Ordinals in `dtype` of numbers rounded to it.
fn rounded_wide_ordinals(dtype: DType, values: &[f64], out: &mut [i64]) {
    for (o, &v) in out.iter_mut().zip(values) {
        *o = ordinal(dtype, dtype.encode(v, Rounding::NearestEven, Overflow::Saturate)).unwrap_or(0);
    }
}

/// The instruction sets that the vector loops are written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Vectors {
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    None,
}

impl Vectors {
    /// Those that this processor has, best first, and none.
    pub(crate) fn all() -> Vec<Vectors> {
        #[allow(unused_mut, reason = "other architectures add nothing")]
        let mut found = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            // No processor has the one without the other, but the loops are compiled for both.
            let f = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("popcnt");
            let bw = is_x86_feature_detected!("avx512bw");
            if f && bw && is_x86_feature_detected!("avx512dq") && is_x86_feature_detected!("avx512vl") {
                found.push(Vectors::Avx512);
            }
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                found.push(Vectors::Avx2);
            }
        }
        found.push(Vectors::None);
        found
    }

    fn best() -> Vectors {
        Vectors::all()[0]
    }
}

impl<T: Decode> Scanner for Floats<T>
where
    T::Ordinal: Default,
{
    type Number = T;

    fn new(vectors: Vectors, result: DType, reference: DType, request: &Request) -> Self {
        let numbers = T::numbers_tell(result).filter(|_| result == reference);
        let ordinals = if numbers.is_some() || !request.all { 0 } else { BLOCK };
        let rule = Rule {
            rtol: T::from_f64(request.rtol),
            atol: T::from_f64(request.atol),
            nonfinite: request.nonfinite,
            grid: Grid::of(result),
            all: request.all,
        };
        Floats {
            #[cfg(target_arch = "x86_64")]
            fused: (vectors == Vectors::Avx512 && !request.histograms).then(|| fused::Fused::new(result, reference, &rule)).flatten(),
            dtypes: [result, reference],
            rule,
            histograms: request.histograms,
            vectors,
            tell: numbers,
            numbers: std::array::from_fn(|_| vec![T::default(); BLOCK]),
            ordinals: std::array::from_fn(|_| vec![T::Ordinal::default(); ordinals]),
            differences: vec![T::default(); BLOCK],
            magnitudes: vec![T::default(); BLOCK],
        }
    }

    #[cfg(target_arch = "x86_64")]
    fn scan_segment(&mut self, start: u64, result: &[u8], reference: &[u8], stats: &mut Stats, acc: &mut Accumulators<T>) -> bool {
        let Some(fused) = &mut self.fused else { return false };
        let Some(hot) = fused.scan(result, reference, &self.rule, stats, acc) else { return false };
        // What the fast way left over are extremes; it did the counts.
        let bits = self.dtypes[0].bits();
        let mut probe = Part { stats: *stats, ..Part::new() };
        for (at, bytes) in hot.runs() {
            let first = start + (at * 8 / bits) as u64;
            self.scan(first, bytes * 8 / bits, &result[at..at + bytes], &reference[at..at + bytes], &mut probe, None);
        }
        let Stats { worst, passing_rtol, passing_atol, .. } = probe.stats;
        *stats = Stats { worst, passing_rtol, passing_atol, ..*stats };
        true
    }

    fn scan(
        &mut self,
        start: u64,
        n: usize,
        result: &[u8],
        reference: &[u8],
        part: &mut Part,
        acc: Option<(&mut Accumulators<T>, usize, usize)>,
    ) {
        let [da, dr] = self.dtypes;
        let [na, nr] = &mut self.numbers;
        let a = numbers(da, result, &mut na[..n]);
        let r = numbers(dr, reference, &mut nr[..n]);
        let [oa, or] = &mut self.ordinals;
        let ordinals = if let Some((scale, shift)) = self.tell {
            Ordinals::Numbers { scale, shift }
        } else if oa.is_empty() {
            Ordinals::Numbers { scale: T::from_f64(1.0), shift: 0 }
        } else {
            T::ordinals(da, result, &mut oa[..n]);
            if da == dr {
                T::ordinals(dr, reference, &mut or[..n]);
            } else {
                T::rounded_ordinals(da, r, &mut or[..n]);
            }
            Ordinals::Given(&oa[..n], &or[..n])
        };
        let block = Block { start, result: a, reference: r, ordinals };
        let mut sink = Sink {
            stats: &mut part.stats,
            histograms: self.histograms.then_some(&mut part.histograms),
            differences: &mut self.differences,
            magnitudes: &mut self.magnitudes,
        };
        T::scan(&block, self.vectors, &self.rule, &mut sink);
        if let Some((acc, vector, offset)) = acc {
            fold::block(acc, vector, offset, &mut self.differences, &mut self.magnitudes, n, self.vectors);
        }
    }

    fn sum_widely(&mut self, n: usize, result: &[u8], reference: &[u8], (acc, vector, offset): (&mut Accumulators<f64>, usize, usize)) {
        let [na, nr] = &mut self.numbers;
        let a = numbers(self.dtypes[0], result, &mut na[..n]);
        let r = numbers(self.dtypes[1], reference, &mut nr[..n]);
        let (mut d, mut m) = ([0.0; BLOCK], [0.0; BLOCK]);
        for (i, (&a, &r)) in a.iter().zip(r).enumerate() {
            if a.finite() && r.finite() {
                (d[i], m[i]) = ((a - r).magnitude().wide(), r.magnitude().wide());
            }
        }
        fold::block(acc, vector, offset, &mut d, &mut m, n, self.vectors);
    }
}

/// `bytes` as numbers: in place where they are aligned numbers already, else decoded into `scratch`.
fn numbers<'a, T: Decode>(dtype: DType, bytes: &'a [u8], scratch: &'a mut [T]) -> &'a [T] {
    if dtype == T::DTYPE
        && let Ok(numbers) = bytemuck::try_cast_slice(bytes)
    {
        return numbers;
    }
    T::decode(dtype, bytes, scratch);
    scratch
}

/// The scanner of wide integers, exact.
struct Integers {
    dtypes: [DType; 2],
    rule: IntRule,
    histograms: bool,
    numbers: [Vec<i64>; 2],
    differences: Vec<f64>,
    magnitudes: Vec<f64>,
}

impl Scanner for Integers {
    type Number = f64;

    fn new(_: Vectors, result: DType, reference: DType, request: &Request) -> Integers {
        Integers {
            dtypes: [result, reference],
            rule: IntRule { rtol: request.rtol, atol: request.atol, all: request.all },
            histograms: request.histograms,
            numbers: std::array::from_fn(|_| vec![0; BLOCK]),
            differences: vec![0.0; BLOCK],
            magnitudes: vec![0.0; BLOCK],
        }
    }

    fn scan(
        &mut self,
        start: u64,
        n: usize,
        result: &[u8],
        reference: &[u8],
        part: &mut Part,
        acc: Option<(&mut Accumulators<f64>, usize, usize)>,
    ) {
        let [a, r] = &mut self.numbers;
        convert::decode_i64(self.dtypes[0], result, &mut a[..n]);
        convert::decode_i64(self.dtypes[1], reference, &mut r[..n]);
        for i in 0..n {
            let (d, m) = part.stats.observe_int(&self.rule, start + i as u64, a[i], r[i]);
            self.differences[i] = d;
            self.magnitudes[i] = m;
            if self.histograms && d > 0.0 {
                let relative = (m > 0.0).then(|| d / m);
                super::histogram::count(&mut part.histograms, relative, d, d / self.rule.rtol.mul_add(m, self.rule.atol));
            }
        }
        if let Some((acc, vector, offset)) = acc {
            fold::block(acc, vector, offset, &mut self.differences, &mut self.magnitudes, n, Vectors::best());
        }
    }

    fn sum_widely(&mut self, _: usize, _: &[u8], _: &[u8], _: (&mut Accumulators<f64>, usize, usize)) {
        // Sums are in f64 to begin with.
    }
}
