//! The scan against its reference implementation, and the report against hand-made cases.

use super::histogram::{self, BINS};
use super::options::Request;
use super::rule::{IntRule, Rule};
use super::sums::{self, ACCUMULATORS, LANES, PARTIAL_TILES};
use super::values::{Explanation, Found, Maxima, Outcome, Values};
use super::*;
use crate::device::{Device, DeviceMem, Layout, Stream};
use crate::dtype::{DType, Overflow, PairArithmetic, Rounding, ulp_distance};

mod by_hand;
mod integers;
mod many;
mod screen;

/// A pair of elements by the rule.
struct Measured {
    d: f64,
    m: f64,
    metrics: Maxima,
    ulps: f64,
    passing: [f64; 2],
    /// Relative difference (none where |r| is small), epsilon difference and ratio, for the histograms.
    bins: (Option<f64>, f64, f64),
}

/// Takes an element into `values` and measures it.
fn measure([da, dr]: [DType; 2], [a, r]: [u64; 2], request: &Request, values: &mut Values) -> Measured {
    let rounded = if da == dr { r } else { da.encode(dr.decode(r), Rounding::NearestEven, Overflow::Saturate) };
    let (x, y) = (da.decode(a), dr.decode(r));
    let finite = x.is_finite() && y.is_finite();
    let ulps = if finite && x != y && request.all { ulp_distance(da, a, rounded).unwrap_or(0) as f64 } else { 0.0 };
    let relative = |d: f64, m: f64, small: bool| (!small).then_some(d / m);
    match PairArithmetic::of(da, dr) {
        PairArithmetic::F32 => {
            let rule = rule::<f32>(da, request);
            let (d, m) = values.observe(&rule, x as f32, y as f32);
            let ratio = f64::from(d / rule.bound(rule.rtol, m, rule.atol));
            let epsilon = f64::from(d) / spacing_of(da, f64::from(m));
            let bins = (relative(f64::from(d / m), 1.0, m <= 1e-3), epsilon, ratio);
            let passing = if request.all { rule.passing(d, m) } else { [0.0; 2] };
            Measured { d: f64::from(d), m: f64::from(m), metrics: rule.metrics(d, m), ulps, passing, bins }
        }
        PairArithmetic::F64 => {
            let rule = rule::<f64>(da, request);
            let (d, m) = values.observe(&rule, x, y);
            let bins = (relative(d, m, m <= 1e-3), d / spacing_of(da, m), d / rule.bound(rule.rtol, m, rule.atol));
            let passing = if request.all { rule.passing(d, m) } else { [0.0; 2] };
            Measured { d, m, metrics: rule.metrics(d, m), ulps, passing, bins }
        }
        PairArithmetic::I64 => {
            let rule = IntRule::new(request);
            let int = |d: DType, bits: u64| d.int_format().unwrap().decode(bits);
            let (a, r) = (int(da, a), int(dr, r));
            let (d, m) = values.observe_int(&rule, a, r);
            let bins = (relative(d, m, m == 0.0), d, d / rule.bound(m));
            let exact = u64::try_from(a.abs_diff(r)).unwrap_or(u64::MAX);
            let magnitude = r.unsigned_abs() as u64;
            let passing = if request.all { rule.passing(exact, magnitude) } else { [0.0; 2] };
            let ulps = if request.all { d } else { 0.0 };
            Measured { d, m, metrics: rule.metrics(exact, magnitude), ulps, passing, bins }
        }
    }
}

fn rule<T: rule::Real>(dtype: DType, request: &Request) -> Rule<T> {
    Rule::new(request, dtype)
}

/// The reference implementation: one element after the other by the rule, sums by the words of [`sums`].
fn naive(result: &TensorRef<'_>, reference: &TensorRef<'_>, request: &Request) -> Outcome {
    let dtypes @ [da, dr] = [result.dtype(), reference.dtype()];
    let mut values = Values::EMPTY;
    let mut counters = [0; BINS];
    let mut elements = Vec::with_capacity(result.elements());
    let mut first = Vec::new();
    for i in 0..result.elements() {
        let before = values.mismatches;
        let bits = [result, reference].map(|t| t.dtype().load_bits(t.host_bytes(), t.layout().index(i)));
        let measured = measure(dtypes, bits, request, &mut values);
        let found = Found { index: i as u64, bits };
        if measured.d > 0.0 {
            histogram::count(&mut counters, measured.bins.0, measured.bins.1, measured.bins.2);
        }
        if values.mismatches > before && first.len() < request.first {
            first.push(found);
        }
        elements.push((found, measured));
    }
    if request.all {
        let pairs: Vec<(f64, f64)> = elements.iter().map(|(_, e)| (e.d, e.m)).collect();
        values.sums = naive_sums(&pairs, sums::vector_width(da, dr), PairArithmetic::of(da, dr) == PairArithmetic::F32);
    }
    values.histograms = request.histograms.then_some(counters);
    let explanation = request.explains(&values, result).then(|| {
        let mut explanation = Explanation { first, ..Explanation::EMPTY };
        // From the last to the first: the order of elements is of no matter.
        elements.iter().rev().for_each(|(found, e)| explanation.observe(*found, &values.maxima, &e.metrics, e.ulps, e.passing));
        explanation
    });
    Outcome { values, explanation }
}

fn spacing_of(dtype: DType, magnitude: f64) -> f64 {
    crate::dtype::spacing(dtype, magnitude)
}

/// The sums of a tile by the words of [`sums`], with accumulators in f32 or f64: of a lane, accumulator by accumulator.
fn naive_tile(pairs: &[(f64, f64)], vector: usize, narrow: bool) -> (sums::Sums, bool) {
    let rounded = |x: f64| if narrow { f64::from(x as f32) } else { x };
    let fused = |x: f64, q: f64| if narrow { f64::from((x as f32).mul_add(x as f32, q as f32)) } else { x.mul_add(x, q) };
    let mut precise = true;
    let of = [|p: &(f64, f64)| p.0, |p: &(f64, f64)| p.1].map(|of| {
        let mut lanes = vec![[0.0; 2]; LANES];
        for (c, lane) in lanes.iter_mut().enumerate() {
            let mut accumulators = [[0.0; 2]; ACCUMULATORS];
            for (j, [s, q]) in accumulators.iter_mut().enumerate().take(vector) {
                for row in 0..sums::ROWS {
                    for v in (j..vector).step_by(ACCUMULATORS) {
                        let x = pairs.get((row * LANES + c) * vector + v).map_or(0.0, of);
                        *s = rounded(*s + x);
                        *q = fused(x, *q);
                    }
                }
                precise &= *s == 0.0 || (*q >= sums::LEAST && q.is_finite());
            }
            *lane = std::array::from_fn(|k| (accumulators[0][k] + accumulators[1][k]) + (accumulators[2][k] + accumulators[3][k]));
        }
        while lanes.len() > 1 {
            let half = lanes.len() / 2;
            lanes = (0..half).map(|c| std::array::from_fn(|k| lanes[c][k] + lanes[c + half][k])).collect();
        }
        lanes[0]
    });
    ([of[0][0], of[0][1], of[1][0], of[1][1]], precise || !narrow)
}

fn naive_sums(pairs: &[(f64, f64)], vector: usize, narrow: bool) -> sums::Sums {
    let one = |pairs: &[(f64, f64)]| match naive_tile(pairs, vector, narrow) {
        (sums, true) => sums,
        _ => naive_tile(pairs, vector, false).0,
    };
    let tiles: Vec<sums::Sums> = pairs.chunks(sums::tile_elements(vector)).map(one).collect();
    sums::join_partials(tiles.chunks(PARTIAL_TILES).map(|chunk| {
        let mut tree = chunk.to_vec();
        tree.resize(PARTIAL_TILES, [0.0; 4]);
        while tree.len() > 1 {
            tree = tree.chunks(2).map(|pair| std::array::from_fn(|k| pair[0][k] + pair[1][k])).collect();
        }
        tree[0]
    }))
}

/// A small deterministic generator for test data.
struct Lcg(u64);

impl Lcg {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 16
    }
}

/// Kinds of data that exercise every branch of the rule.
#[derive(Clone, Copy, Debug)]
enum Data {
    /// Every bit pattern is as likely as any other: all exponents, NaN and infinities included.
    Patterns,
    /// A reference near 1 and a result a few ulps away.
    Near,
    /// Mostly equal, with subnormals, zeros and a few wild elements.
    Sparse,
    /// Finite numbers in [-1, 1], both ends and zero more often than not; a third of the results is of other elements.
    Unit,
    /// Finite numbers of many magnitudes; results equal, a little off in proportion, or of other elements.
    Wide,
    /// Numbers up to this one, results of other elements.
    Little(f64),
}

fn make(dtype: DType, n: usize, data: Data, seed: u64, other: Option<&[f64]>) -> Vec<u8> {
    let mut bytes = vec![0; dtype.bytes_for(n).unwrap()];
    let mut rng = Lcg(seed);
    for i in 0..n {
        let random = rng.next();
        let unit = (random % 20011) as f64 / 10005.5 - 1.0;
        let bits = match (data, other) {
            (Data::Patterns, _) => rng.next() << 32 ^ rng.next(),
            (Data::Near, None) => dtype.encode(unit * 8.0, Rounding::NearestEven, Overflow::Saturate),
            (Data::Near, Some(o)) => {
                let mut bits = dtype.encode(o[i], Rounding::NearestEven, Overflow::Saturate);
                for _ in 0..random % 4 {
                    bits = crate::dtype::next_up(dtype, bits);
                }
                bits
            }
            (Data::Unit, o) => {
                let own = (unit * 1.25).clamp(-1.0, 1.0) * f64::from(u8::from(!random.is_multiple_of(101)));
                let value = o.filter(|_| !(random >> 8).is_multiple_of(3)).map_or(own, |o| o[i]);
                dtype.encode(value, Rounding::NearestEven, Overflow::Saturate)
            }
            (Data::Wide, o) => {
                let own = unit * 2f64.powi((random >> 16) as i32 % 41 - 30);
                let value = match (o, (random >> 8) % 3) {
                    (Some(o), 0) => o[i],
                    (Some(o), 1) => o[i] * (1.0 + unit / 64.0),
                    _ => own,
                };
                dtype.encode(value, Rounding::NearestEven, Overflow::Saturate)
            }
            (Data::Little(most), _) => dtype.encode(unit * most, Rounding::NearestEven, Overflow::Saturate),
            (Data::Sparse, o) => match (random >> 20) % 97 {
                0 => rng.next() << 32 ^ rng.next(),
                1 => 0,
                2 => dtype.encode(-0.0, Rounding::NearestEven, Overflow::Saturate),
                3..8 => rng.next() % 7,
                _ => dtype.encode(o.map_or(unit, |o| o[i]), Rounding::NearestEven, Overflow::Saturate),
            },
        };
        dtype.store_bits(&mut bytes, i, bits & (u64::MAX >> (64 - dtype.bits())));
    }
    bytes
}

fn check(da: DType, dr: DType, n: usize, data: Data, request: &Request) {
    let reference = make(dr, n, data, 7 + n as u64, None);
    let values: Vec<f64> = (0..n).map(|i| dr.decode(dr.load_bits(&reference, i))).collect();
    let result = make(da, n, data, 99 + n as u64, Some(&values));
    let layout = Layout::flat(n);
    let a = TensorRef::from_host_bytes(&result, da, layout.clone()).unwrap();
    let r = TensorRef::from_host_bytes(&reference, dr, layout).unwrap();
    let slow = naive(&a, &r, request);
    for set in InstructionSet::all() {
        let what = format!("{da} against {dr}, {n} elements, {data:?}, {set:?}, {request:?}");
        assert_same(&host::compare_by(*set, &a, &r, request, Meter::OFF), &slow, &what);
    }
}

fn assert_same(fast: &Outcome, slow: &Outcome, what: &str) {
    let sums = |o: &Outcome| o.values.sums.map(f64::to_bits);
    assert_eq!(sums(fast), sums(slow), "{what}: sums {:?} {:?}", fast.values.sums, slow.values.sums);
    assert_eq!(fast.values, slow.values, "{what}");
    assert_eq!(fast.explanation, slow.explanation, "{what}");
}

pub(super) const REQUEST: Request = Request {
    rtol: 1e-3,
    atol: 1e-3,
    by_binade: false,
    nonfinite: NonFinite::Fail,
    all: true,
    histograms: false,
    first: 5,
    explain: Explain::Always,
    thresholds: Thresholds { rms: 3e-5, absolute: 100.0, relative: 1e-6, ..Thresholds::OFF },
    allowed: AllowedMismatches::NONE,
    judge: Judge::Elements,
    power: false,
    cause: false,
    strict: false,
    derived: false,
    spacing: None,
};

#[test]
fn every_pair_of_formats_equals_its_reference_implementation() {
    for da in DType::ALL {
        for dr in DType::ALL {
            for data in [Data::Patterns, Data::Near, Data::Sparse] {
                check(da, dr, 1100, data, &Request { histograms: true, ..REQUEST });
                check(da, dr, 515, data, &Request { nonfinite: NonFinite::EqualWhenSame, ..REQUEST });
                check(da, dr, 515, data, &Request { all: false, explain: Explain::OnFailure, ..REQUEST });
            }
        }
    }
}

#[test]
fn tolerances_at_their_ends_equal_the_reference_implementation() {
    for (rtol, atol) in [(0.0, 0.0), (0.5, 0.0), (0.0, 2.0), (1e30, 0.0), (1e39, 0.0), (1e-300, 1e300), (0.0, 1e-45), (f64::MAX, f64::MAX)]
    {
        for dtype in [DType::F64, DType::F32, DType::F16, DType::Bf16, DType::F8E4M3, DType::I8, DType::I32, DType::I64] {
            for data in [Data::Patterns, Data::Near, Data::Sparse] {
                for by_binade in [false, true] {
                    check(dtype, dtype, 1500, data, &Request { rtol, atol, by_binade, histograms: true, ..REQUEST });
                }
            }
        }
    }
}

/// A relative tolerance holds nothing where the reference is 0, however large it is.
#[test]
fn tolerances_are_at_most_the_largest_number_of_the_arithmetic() {
    for rtol in [1.0, f64::from(f32::MAX), 1e39, f64::MAX] {
        let report = verify_f32(&[5.0, -7.0, 1.0], &[0.0, 0.0, 1.0], rtol, 0.0);
        assert_eq!((report.mismatches, report.rtol), (2, rtol), "{report}");
        assert_eq!(report.metrics.unwrap().passing_atol, Some(7.0), "{rtol}");
    }
    for atol in [7.0, f64::from(f32::MAX), 1e39, f64::MAX] {
        assert_eq!(verify_f32(&[5.0, -7.0, 1.0], &[0.0, 0.0, 1.0], 0.0, atol).mismatches, 0, "{atol}");
    }
}

#[test]
fn sizes_across_tiles_and_partial_sums_equal_the_reference_implementation() {
    for (dtype, tile) in [(DType::F64, 1024), (DType::F32, 2048), (DType::F16, 4096), (DType::I8, 8192), (DType::F4E2M1, 16384)] {
        for n in [1, 2, 7, tile - 1, tile, tile + 1, 16 * tile + 3, 37 * tile + 11] {
            check(dtype, dtype, n, Data::Near, &REQUEST);
        }
    }
}

#[test]
fn whole_tiles_equal_the_reference_implementation() {
    use DType::*;
    for (dtype, tile) in [
        (F64, 1024),
        (F32, 2048),
        (F16, 4096),
        (Bf16, 4096),
        (F8E4M3, 8192),
        (F8E5M2, 8192),
        (F8E4M3Fnuz, 8192),
        (F8E5M2Fnuz, 8192),
        (I8, 8192),
        (U8, 8192),
        (Bool, 8192),
        (U16, 4096),
    ] {
        for data in [Data::Patterns, Data::Near, Data::Sparse, Data::Unit, Data::Wide] {
            for (rtol, atol) in [(1e-3, 1e-3), (0.0, 0.0), (0.125, 1e-6), (1.0, 0.0)] {
                check(dtype, dtype, 4 * tile + 5, data, &Request { rtol, atol, ..REQUEST });
            }
            check(dtype, dtype, 3 * tile, data, &Request { all: false, explain: Explain::OnFailure, ..REQUEST });
        }
    }
}

/// References between two numbers of the result's format, among them some that round to zero.
#[test]
fn mixed_formats_equal_the_reference_implementation() {
    use DType::*;
    for (da, dr) in [(F16, F32), (Bf16, F32), (F8E4M3, F32), (F8E5M2, F16), (F32, F64), (F32, F16), (Bf16, F16)] {
        let little = 40.0 * da.float_format().unwrap().min_positive();
        for data in [Data::Near, Data::Unit, Data::Wide, Data::Little(little)] {
            for (rtol, atol, by_binade) in [(1e-3, 1e-3, false), (0.0, 1e-3, false), (0.125, 0.0, false), (0.125, 1e-4, true)] {
                check(da, dr, 3 * 8192 + 5, data, &Request { rtol, atol, by_binade, ..REQUEST });
            }
        }
    }
}

/// One element of a long tensor is unlike the others: found wherever it is, whatever it is.
#[test]
fn an_element_that_is_unlike_the_others_is_found() {
    for dtype in [DType::F64, DType::F32, DType::F16, DType::Bf16, DType::F8E4M3, DType::F8E5M2, DType::F8E4M3Fnuz, DType::I8, DType::U8] {
        let n = 3 * 8192;
        let reference = make(dtype, n, Data::Near, 1, None);
        let layout = Layout::flat(n);
        let r = TensorRef::from_host_bytes(&reference, dtype, layout.clone()).unwrap();
        let top = 1u64 << (dtype.bits() - 1);
        for (i, bits) in [0, 1, top, top - 1, top | 1, u64::MAX >> (64 - dtype.bits()), top / 2].into_iter().enumerate() {
            let at = 8192 + i * 2341;
            let mut result = reference.clone();
            dtype.store_bits(&mut result, at, bits);
            let a = TensorRef::from_host_bytes(&result, dtype, layout.clone()).unwrap();
            for all in [true, false] {
                let request = Request { all, ..REQUEST };
                assert_same(&host::compare(&a, &r, &request), &naive(&a, &r, &request), &format!("{dtype}: {bits:x} at {at}, {all}"));
            }
        }
    }
}

#[test]
fn the_number_of_threads_does_not_matter() {
    let n = 600_007;
    for data in [Data::Sparse, Data::Unit] {
        let reference = make(DType::F16, n, data, 1, None);
        let result = make(DType::F16, n, data, 2, None);
        let layout = Layout::flat(n);
        let a = TensorRef::from_host_bytes(&result, DType::F16, layout.clone()).unwrap();
        let r = TensorRef::from_host_bytes(&reference, DType::F16, layout).unwrap();
        let of = |threads, histograms| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| host::compare(&a, &r, &Request { histograms, ..REQUEST }))
        };
        for histograms in [true, false] {
            let one = of(1, histograms);
            for threads in [2, 3, 7] {
                assert_same(&of(threads, histograms), &one, &format!("{threads} threads"));
            }
        }
    }
}

#[test]
fn strided_tensors_compare_their_elements_and_never_the_padding() {
    for dtype in [DType::F32, DType::F16, DType::F64, DType::I8, DType::F4E2M1, DType::I32] {
        let dense = make(dtype, 6 * 5 * 33, Data::Near, 3, None);
        let shape = [6, 5, 33];
        // Rows padded to 40, planes to 7 rows, an offset of 3; padding holds other patterns.
        let (strides, offset) = ([280isize, 40, 1], 3usize);
        let layout = Layout::strided(&shape, &strides, offset).unwrap();
        let mut padded = make(dtype, 6 * 280 + 3, Data::Patterns, 5, None);
        for i in 0..6 * 5 * 33 {
            dtype.store_bits(&mut padded, layout.index(i), dtype.load_bits(&dense, i));
        }
        let a = TensorRef::from_host_bytes(&padded, dtype, layout.clone()).unwrap();
        let r = TensorRef::from_host_bytes(&dense, dtype, Layout::contiguous(&shape).unwrap()).unwrap();
        let report = gpu_verify(&a, &r, &Tolerance::exact()).unwrap();
        assert!(report.passed(), "{dtype}: {report}");
        // One element is changed: it and no other is found, at its coordinates.
        let at = layout.index(2 * 165 + 3 * 33 + 17);
        let mut changed = padded.clone();
        let old = dtype.load_bits(&changed, at);
        dtype.store_bits(&mut changed, at, old ^ 1);
        let a = TensorRef::from_host_bytes(&changed, dtype, layout).unwrap();
        let report = gpu_verify(&a, &r, &Tolerance::exact()).unwrap();
        assert_eq!((report.mismatches, &report.first[0].coordinates[..]), (1, &[2, 3, 17][..]), "{dtype}");
        assert_same(&host::compare(&a, &r, &REQUEST), &naive(&a, &r, &REQUEST), dtype.name());
    }
}

#[test]
fn reversed_and_transposed_layouts_are_read_in_logical_order() {
    let device = Device::host();
    let x = DeviceMem::<f32>::from_slice(&device, &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
    let transposed = DeviceMem::<f32>::from_slice(&device, &[0.0, 3.0, 1.0, 4.0, 2.0, 5.0]).unwrap();
    let a = transposed.strided(Layout::strided(&[2, 3], &[1, 2], 0).unwrap()).unwrap();
    assert!(gpu_verify(&a, &x.tensor(&[2, 3]).unwrap(), &Tolerance::exact()).unwrap().passed());
    let backwards = DeviceMem::<f32>::from_slice(&device, &[5.0, 4.0, 3.0, 2.0, 1.0, 0.0]).unwrap();
    let a = backwards.strided(Layout::strided(&[6], &[-1], 5).unwrap()).unwrap();
    assert!(gpu_verify(&a, &x, &Tolerance::exact()).unwrap().passed());
}

#[test]
fn unaligned_bytes_are_read_right() {
    let reference: Vec<f32> = (0..3000).map(|i| i as f32).collect();
    let mut shifted = vec![0xffu8; 12001];
    shifted[1..].copy_from_slice(bytemuck::cast_slice(&reference));
    let r = TensorRef::from_host_bytes(bytemuck::cast_slice(&reference), DType::F32, Layout::flat(3000)).unwrap();
    let a = TensorRef::from_host_bytes(&shifted[1..], DType::F32, Layout::flat(3000)).unwrap();
    assert!(gpu_verify(&a, &r, &Tolerance::exact()).unwrap().passed());
}

fn verify_f32(a: &[f32], r: &[f32], rtol: f64, atol: f64) -> Report {
    let device = Device::host();
    let a = DeviceMem::from_slice(&device, a).unwrap();
    let r = DeviceMem::from_slice(&device, r).unwrap();
    gpu_verify(&a, &r, &Tolerance::new(rtol, atol).unwrap()).unwrap()
}

/// Half the squared distance of the unit vectors, in f64 over the finite pairs: that keeps the digits near 1 as well.
#[test]
fn cosine_distance_is_that_of_the_unit_vectors() {
    use DType::*;
    let n = 5000;
    for (da, dr) in [(F32, F32), (F16, F32), (F32, Bf16), (F8E4M3, F16), (F64, F32), (I8, I8), (I32, I8), (I64, F32), (F4E2M1, F32)] {
        for data in [Data::Near, Data::Sparse, Data::Unit] {
            let reference = make(dr, n, data, 1, None);
            let number = |d: DType, bytes: &[u8], i: usize| d.decode(d.load_bits(bytes, i));
            let values: Vec<f64> = (0..n).map(|i| number(dr, &reference, i)).collect();
            let mut result = make(da, n, data, 2, Some(&values));
            // Beside pairs of NaN: a reference that is finite, and of floats one that is not.
            da.store_bits(&mut result, 7, da.encode(f64::NAN, Rounding::NearestEven, Overflow::Ieee));
            // Patterns of f64 have squares beyond f64.
            for i in 0..n {
                if number(da, &result, i).abs() > 1e100 {
                    da.store_bits(&mut result, i, 0);
                }
            }
            let layout = Layout::flat(n);
            let a = TensorRef::from_host_bytes(&result, da, layout.clone()).unwrap();
            let r = TensorRef::from_host_bytes(&reference, dr, layout).unwrap();
            let options = Options::default().cosine(true).level(Level::Counts);
            let report = gpu_verify_with(&a, &r, &Tolerance::exact(), &options).unwrap();
            let found = report.metrics.as_ref().and_then(|m| m.similarity).unwrap();
            let pairs = (0..n).map(|i| (number(da, &result, i), values[i]));
            let pairs: Vec<(f64, f64)> = pairs.filter(|(a, r)| a.is_finite() && r.is_finite()).collect();
            let norm = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(|p| of(p).powi(2)).sum::<f64>().sqrt();
            let (x, y) = (norm(|p| p.0), norm(|p| p.1));
            let expected = pairs.iter().map(|(a, r)| (a / x - r / y).powi(2)).sum::<f64>() / 2.0;
            // What rounded sums do to the difference of the norms.
            let error = 1e-6 * (expected + (x - y).abs() * (x + y) / (x * y));
            // Patterns of f32 may be so large that the other side's are nothing beside them.
            let known = !found.cosine_distance.is_nan();
            assert!(known || (x / y).max(y / x) > 1000.0, "{da} {dr} {data:?}: {found:?}, norms of {x:e} and {y:e}");
            let close = (found.cosine_distance - expected).abs() <= error;
            assert!(close || !known, "{da} {dr} {data:?}: {found:?}, expected {expected:e}");
            let squares: f64 = pairs.iter().map(|(a, r)| (a - r).powi(2)).sum();
            let expected = squares / (x * x + y * y);
            assert!((found.squared_difference - expected).abs() <= 1e-6 * expected, "{da} {dr} {data:?}: {found:?}, {expected:e}");
        }
    }
}

#[test]
fn non_finite_pairs_fail_unless_they_are_the_same_and_that_is_allowed() {
    let (nan, inf) = (f32::NAN, f32::INFINITY);
    let a = [nan, inf, -inf, nan, inf, 1.0];
    let r = [nan, inf, inf, 1.0, 2.0, inf];
    let report = verify_f32(&a, &r, 1e30, 1e30);
    assert_eq!((report.mismatches, report.nonfinite_pairs, report.passed()), (6, 6, false));
    assert_eq!((report.result.nans, report.result.positive_infinities, report.result.negative_infinities), (2, 2, 1));
    assert_eq!((report.reference.nans, report.reference.positive_infinities), (1, 3));
    let device = Device::host();
    let (a, r) = (DeviceMem::from_slice(&device, &a).unwrap(), DeviceMem::from_slice(&device, &r).unwrap());
    let options = Options::default().nonfinite(NonFinite::EqualWhenSame);
    assert_eq!(gpu_verify_with(&a, &r, &Tolerance::exact(), &options).unwrap().mismatches, 4);
}

#[test]
fn passing_tolerances_pass_and_one_step_less_fails() {
    let a: Vec<f32> = (0..4000).map(|i| 1.0 + i as f32 * 1.7e-4).collect();
    let r: Vec<f32> = (0..4000).map(|i| 1.0 + i as f32 * 1.7013e-4 + 1e-6).collect();
    let m = verify_f32(&a, &r, 1e-7, 1e-7).metrics.unwrap();
    let (rtol, atol) = (m.passing_rtol.unwrap(), m.passing_atol.unwrap());
    assert!(verify_f32(&a, &r, rtol, 1e-7).passed() && verify_f32(&a, &r, 1e-7, atol).passed());
    let less = |x: f64| f64::from((x as f32).next_down());
    assert!(!verify_f32(&a, &r, less(rtol), 1e-7).passed() && !verify_f32(&a, &r, 1e-7, less(atol)).passed());
    let text = render::rounded_up(rtol);
    assert!(verify_f32(&a, &r, text.parse().unwrap(), 1e-7).passed(), "{text}");
}

/// When the second pass runs, and that a report without it has no zero in the place of what was not measured.
#[test]
fn a_verdict_is_explained_when_it_is_a_failure_or_on_demand() {
    let device = Device::host();
    let of = |x: &[f32]| DeviceMem::from_slice(&device, x).unwrap();
    let (a, r) = (of(&[1.0, 2.5, 3.0]), of(&[1.0, 2.0, 3.0]));
    let strict = Thresholds::new(0.0, 0.0, 0.0).unwrap();
    for (atol, explain, judge, explained, reason) in [
        (0.0, Explain::OnFailure, Judge::Elements, true, "a failure"),
        (1.0, Explain::OnFailure, Judge::Elements, false, "a pass"),
        (1.0, Explain::Always, Judge::Elements, true, "a pass, on demand"),
        (0.0, Explain::Never, Judge::Elements, false, "a failure, not wanted"),
        (1.0, Explain::OnFailure, Judge::Thresholds, true, "all elements pass, the metrics that decide do not"),
        (1.0, Explain::OnFailure, Judge::Both, true, "all elements pass, the metrics do not"),
    ] {
        for level in [Level::All, Level::Counts] {
            let options = Options::default().explain(explain).thresholds(strict, judge).level(level);
            let report = gpu_verify_with(&a, &r, &Tolerance::new(0.0, atol).unwrap(), &options).unwrap();
            let worst = report.worst(Metric::Absolute).unwrap();
            assert_eq!((report.explained, worst.value, worst.at.is_some()), (explained, 0.5, explained), "{reason}");
            assert_eq!(report.first.len(), usize::from(explained && atol == 0.0), "{reason}");
            let metrics = report.metrics.as_ref();
            let second = metrics.map(|m| (m.worst_ulp.is_some(), m.passing_rtol.is_some(), m.passing_atol.is_some()));
            // Metrics that decide are made.
            let all = level == Level::All || judge != Judge::Elements;
            assert_eq!(second, all.then_some((explained, explained, explained)), "{reason}");
            let text = report.to_string();
            assert_eq!(text.contains("explained  no"), !explained, "{reason}: {text}");
            assert_eq!(text.contains("or atol"), explained && all, "{reason}: {text}");
        }
    }
}

#[test]
fn a_dead_kernel_and_a_hollow_tolerance_are_named() {
    let r: Vec<f32> = (1..=100).map(|i| i as f32 / 100.0).collect();
    let report = verify_f32(&vec![0.0; 100], &r, 0.0, 2.0);
    assert_eq!((report.passed(), report.verdict, report.warnings()), (true, Verdict::Untrusted, vec![Warning::ResultAllZero]));
    assert_eq!(verify_f32(&r, &r, 0.0, 2.0).warnings(), [Warning::ZerosWouldPass(100, 100)]);
    assert_eq!(verify_f32(&[0.0], &[-0.0], 0.0, 0.0).warnings(), [Warning::BothAllZero]);
    assert_eq!(verify_f32(&r, &r, 1e-3, 1e-3).warnings(), []);
}

#[test]
fn warnings_begin_at_their_limits() {
    const NAN: f32 = f32::NAN;
    let ramp: Vec<f32> = (1..=100).map(|i| i as f32 / 128.0).collect();
    for (result, reference, atol, expected, reason) in [
        (&ramp[..], &ramp[..], 50.0 / 128.0, &[Warning::ZerosWouldPass(50, 100)][..], "half of the elements"),
        (&ramp, &ramp, 49.0 / 128.0, &[], "less than half"),
        (&ramp[..99], &ramp[..99], 50.0 / 128.0, &[Warning::ZerosWouldPass(50, 99)], "just above half"),
        (&ramp[..99], &ramp[..99], 49.0 / 128.0, &[], "just below half"),
        (&ramp[..1], &ramp[..1], 0.0, &[], "nowhere"),
        (&[NAN], &[1.0], 0.0, &[Warning::NothingFinite], "no finite pair: zeros pass nowhere"),
        (&[NAN, 1.0], &[1.0, NAN], 0.0, &[Warning::NothingFinite], "each pair has one side that is not"),
        (&[NAN, 1.0], &[NAN, 1.0], 0.0, &[], "one finite pair"),
        (&[0.0, NAN], &[0.0, 0.0], 0.0, &[Warning::ReferenceAllZero], "a NaN was written: the result is not zero everywhere"),
        (&[0.0, 0.0], &[0.0, NAN], 0.0, &[Warning::ResultAllZero], "the reference is not zero everywhere"),
        (&[0.0, 1.0], &[0.0, 0.0], 0.0, &[Warning::ReferenceAllZero], "only the reference is zero everywhere"),
        (&[0.0, 0.0, 1.0], &[0.0, 0.0, 1.0], 0.0, &[], "zeros of the reference do not count"),
        (&[1.0, 0.0, 2.0], &[1.0, 0.0, 2.0], 1.0, &[Warning::ZerosWouldPass(1, 2)], "half of those that are not zero"),
    ] {
        assert_eq!(verify_f32(result, reference, 0.0, atol).warnings(), expected, "{reason}");
    }
}

/// Metrics beside elements that decide make no pass more trustworthy; where they decide alone, zeros at half of the elements say nothing of them.
#[test]
fn zeros_at_half_of_the_elements_count_wherever_elements_decide() {
    let device = Device::host();
    let of = |small: f32| {
        let values: Vec<f32> = [100.0; 2].into_iter().chain([small; 62]).collect();
        DeviceMem::from_slice(&device, &values).unwrap()
    };
    let (result, reference) = (of(0.0), of(0.001));
    let thresholds = Thresholds::new(1e-3, 1.0, 2.0).unwrap();
    for (judge, verdict) in [(Judge::Elements, Verdict::Untrusted), (Judge::Both, Verdict::Untrusted), (Judge::Thresholds, Verdict::Pass)] {
        let options = Options::default().thresholds(thresholds, judge).strict(Strict::Always);
        let report = gpu_verify_with(&result, &reference, &Tolerance::new(1e-3, 1e-2).unwrap(), &options).unwrap();
        assert_eq!(report.verdict, verdict, "{judge:?}");
        assert_eq!(report.into_result().is_ok(), verdict == Verdict::Pass, "{judge:?}");
    }
}

#[test]
fn equality_of_what_is_not_finite_is_no_trusted_pass() {
    let device = Device::host();
    let nothing = DeviceMem::from_slice(&device, &[f32::NAN, f32::INFINITY]).unwrap();
    let options = Options::default().nonfinite(NonFinite::EqualWhenSame);
    let report = gpu_verify_with(&nothing, &nothing, &Tolerance::exact(), &options).unwrap();
    assert_eq!((report.verdict, report.warnings()), (Verdict::Untrusted, vec![Warning::NothingFinite]));
}

/// Where f64 does not hold the scale, a saturated tolerance would pass everything.
#[test]
fn a_scale_beyond_f64_is_an_error() {
    let device = Device::host();
    let of = |x: &[f64]| DeviceMem::from_slice(&device, x).unwrap();
    let (large, wrong) = (of(&[1e160, 1e160]), of(&[1.0, 1.0]));
    for scale in [Scale::Rms, Scale::Mean] {
        let tolerance = Tolerance::scaled(0.0, 1e-3, scale).unwrap();
        let nothing = Tolerance::scaled(0.0, 0.0, scale).unwrap();
        assert!(gpu_verify(&large, &large, &nothing).unwrap().passed(), "no scale is needed");
        match (scale, gpu_verify(&wrong, &large, &tolerance)) {
            (Scale::Rms, Err(e)) => assert!(e.to_string().contains("scale of the reference cannot be inf"), "{e}"),
            (_, found) => assert_eq!(found.unwrap().verdict, Verdict::Fail, "{scale:?}: the sum is within the range"),
        }
    }
    let (most, zeros) = (of(&[f64::MAX, f64::MAX]), Tolerance::scaled(0.0, 0.0, Scale::Largest).unwrap());
    assert!(gpu_verify(&most, &most, &Tolerance::rounding(DType::F64, DType::F64, 1)).is_err(), "the sum is beyond it");
    assert_eq!((zeros.atol(f64::INFINITY), zeros.at(f64::NAN).atol(1.0)), (0.0, 0.0), "no multiple of nothing");
}

#[test]
fn a_derived_tolerance_stays_one_as_a_number() {
    let loose = Tolerance::gemm::<f32, f32, f32>(1 << 24);
    let ones = DeviceMem::from_slice(&Device::host(), &[1.0f32; 4]).unwrap();
    for tolerance in [loose, loose.at(1.0)] {
        assert!(gpu_verify(&ones, &ones, &tolerance).unwrap().into_result().is_err(), "{tolerance:?}");
    }
    let given = Tolerance::new(1.0, 1.0).unwrap();
    assert!(gpu_verify(&ones, &ones, &given).unwrap().into_result().is_ok());
}

#[test]
fn bad_input_is_a_clear_error() {
    let device = Device::host();
    let (two, three) = (DeviceMem::<f32>::new(&device, 2).unwrap(), DeviceMem::<f32>::new(&device, 3).unwrap());
    let empty = DeviceMem::<f32>::new(&device, 0).unwrap();
    let say = |e: Error| e.to_string();
    assert_eq!(say(gpu_verify(&two, &three, &Tolerance::exact()).unwrap_err()), "the result: shape [2] does not match [3]");
    assert!(say(gpu_verify(&empty, &empty, &Tolerance::exact()).unwrap_err()).contains("comparison of nothing"));
    for bad in [-1.0, f64::NAN, f64::INFINITY] {
        assert!(Tolerance::new(bad, 0.0).is_err() && Tolerance::new(0.0, bad).is_err());
    }
    let options = Options::default().first(65);
    assert!(say(gpu_verify_with(&two, &two, &Tolerance::exact(), &options).unwrap_err()).contains("at most 64"));
}

#[test]
fn reduce_max_reports_nan_and_infinity() {
    let device = Device::host();
    let x = DeviceMem::from_slice(&device, &[1.0f32, -3.5, f32::NAN, f32::NEG_INFINITY, 2.0]).unwrap();
    assert_eq!(gpu_reduce_max(&x).unwrap(), MaxAbs { value: 3.5, nans: 1, infinities: 1 });
    for dtype in DType::ALL {
        let n = 70_001;
        let bytes = make(dtype, n, Data::Patterns, 11, None);
        let mut naive = MaxAbs::default();
        (0..n).for_each(|i| naive.observe(dtype.decode(dtype.load_bits(&bytes, i))));
        let tensor = TensorRef::from_host_bytes(&bytes, dtype, Layout::flat(n)).unwrap();
        assert_eq!(gpu_reduce_max(&tensor).unwrap(), naive, "{dtype}");
    }
}
