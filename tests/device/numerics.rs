//! The definitions of `docs/numerics.md`, followed word by word with plain loops, against the report of every device.

use crate::suite::tests;
use crate::target::Target;
use anyhow::{Context, Result, ensure};
use hipverify::dtype::{Bf16, DType, F8E4M3, F16, Overflow, Rounding, Scalar};
use hipverify::fill::{FillNormalRand, FillUniformRand, Generator};
use hipverify::verify::{Explain, Options, Report, Tolerance, gpu_verify_with};
use hipverify::{Device, DeviceMem};
use std::fmt::Debug;

tests! {
    All: reports_follow_the_definitions;
}

/// Fraction bits, least and largest exponent of normal numbers.
fn exponents(dtype: DType) -> (i32, i32, i32) {
    match dtype {
        DType::F64 => (52, -1022, 1023),
        DType::F32 => (23, -126, 127),
        DType::F16 => (10, -14, 15),
        DType::Bf16 => (7, -126, 127),
        DType::F8E4M3 => (3, -6, 8),
        other => panic!("{other} is not in this table"),
    }
}

/// The exponent of `x` within those of the format.
fn exponent(dtype: DType, x: f64) -> i32 {
    let (_, least, largest) = exponents(dtype);
    let exponent = if x == 0.0 { least } else { x.log2().floor() as i32 };
    // log2 is rounded: set it right where x is close to a power of two.
    let exponent = exponent + i32::from(2f64.powi(exponent + 1) <= x) - i32::from(x < 2f64.powi(exponent) && x > 0.0);
    exponent.clamp(least, largest)
}

/// d in units of the format's spacing at `x`.
fn epsilons(dtype: DType, d: f64, x: f64) -> f64 {
    d / 2f64.powi(exponent(dtype, x)) * 2f64.powi(exponents(dtype).0)
}

/// The place of a number of a sign-magnitude format, both zeros at 0.
fn place<T: Scalar>(x: T) -> i64 {
    let sign = 1 << (T::DTYPE.bits() - 1);
    let magnitude = (x.to_bits64() & (sign - 1)) as i64;
    if x.to_bits64() & sign == 0 { magnitude } else { -magnitude }
}

/// What the loops find. The worst elements are (value, index).
#[derive(Default)]
struct Expected {
    mismatches: u64,
    nonfinite: u64,
    zero_passes: u64,
    max: [f64; 2],
    worst: [Option<(f64, usize)>; 6],
    histograms: [Vec<u64>; 3],
    /// d, |r|, |a|, and what rtol multiplies, of every pair; zeros where a side is not finite.
    terms: Vec<[f64; 4]>,
}

impl Expected {
    fn worst(&mut self, measure: usize, value: f64, index: usize) {
        if value > 0.0 && self.worst[measure].is_none_or(|(w, _)| value > w) {
            self.worst[measure] = Some((value, index));
        }
    }
}

fn bin(ends: &[f64], x: f64, inclusive: bool) -> usize {
    ends.iter().filter(|&&e| if inclusive { x >= e } else { x > e }).count()
}

macro_rules! follow {
    ($name:ident, $t:ty) => {
        /// The rule and the metrics in one arithmetic.
        fn $name<T: Scalar, R: Scalar>(result: &[T], reference: &[R], tolerance: Tolerance) -> Expected {
            let (rtol, atol) = (tolerance.rtol() as $t, tolerance.atol(0.0) as $t);
            let mut e = Expected { histograms: [vec![0; 9], vec![0; 6], vec![0; 8]], ..Expected::default() };
            for (i, (a, r)) in result.iter().zip(reference).enumerate() {
                let rounded = T::from_f64_with(r.to_f64(), Rounding::NearestEven, Overflow::Saturate);
                let ulps = place(*a).abs_diff(place(rounded));
                let (a, r) = (a.to_f64() as $t, r.to_f64() as $t);
                for (side, x) in [a, r].into_iter().enumerate() {
                    if x.is_finite() {
                        e.max[side] = e.max[side].max(f64::from(x.abs()));
                    }
                }
                if !a.is_finite() || !r.is_finite() {
                    (e.nonfinite, e.mismatches) = (e.nonfinite + 1, e.mismatches + 1);
                    e.terms.push([0.0; 4]);
                    continue;
                }
                let (d, m) = ((a - r).abs(), r.abs());
                let base = if tolerance.is_by_binade() { 2f64.powi(exponent(T::DTYPE, f64::from(m))) as $t } else { m };
                let bound = rtol.mul_add(base, atol).min(<$t>::MAX);
                e.mismatches += u64::from(d > bound);
                e.zero_passes += u64::from(m <= bound);
                e.terms.push([d, m, a.abs(), base].map(f64::from));
                let epsilons = epsilons(T::DTYPE, f64::from(d), f64::from(m));
                e.worst(0, f64::from(d), i);
                if m > 0.0 {
                    e.worst(1, f64::from(d / m), i);
                }
                if m > 1e-3 {
                    e.worst(2, f64::from(d / m), i);
                }
                e.worst(3, epsilons, i);
                e.worst(4, ulps as f64, i);
                if d > 0.0 {
                    e.worst(5, f64::from(d / bound), i);
                }
                if d == 0.0 || m > 1e-3 {
                    let x = if d == 0.0 { 0.0 } else { f64::from(d / m) };
                    e.histograms[0][if x == 0.0 { 0 } else { 1 + bin(&[1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0], x, true) }] += 1;
                }
                let whole = if d == 0.0 { 0.0 } else { (epsilons + 0.5).floor().max(1.0) };
                e.histograms[1][bin(&[1.0, 2.0, 3.0, 11.0, 101.0], whole, true)] += 1;
                let ratio = if d == 0.0 { 0.0 } else { f64::from(d / bound) };
                e.histograms[2][if ratio == 0.0 { 0 } else { 1 + bin(&[0.1, 0.5, 1.0, 2.0, 10.0, 100.0], ratio, false) }] += 1;
            }
            e
        }
    };
}
follow!(in_f32, f32);
follow!(in_f64, f64);

/// The sum of terms and the sum of their squares in the order that the page gives, accumulated in f32 or in f64; `width` is V.
fn ordered_sums(terms: &[f64], width: usize, narrow: bool) -> [f64; 2] {
    let tile = |part: &[f64], narrow: bool| -> ([f64; 2], bool) {
        let mut lanes = [[[0.0; 2]; 4]; 32];
        let mut precise = true;
        for (group, values) in part.chunks(width).enumerate() {
            for (v, &x) in values.iter().enumerate() {
                let [s, q] = &mut lanes[group % 32][v % width.min(4)];
                if narrow {
                    (*s, *q) = (f64::from(*s as f32 + x as f32), f64::from((x as f32).mul_add(x as f32, *q as f32)));
                } else {
                    (*s, *q) = (*s + x, x.mul_add(x, *q));
                }
            }
        }
        let mut sums = [0.0; 2];
        for (k, sum) in sums.iter_mut().enumerate() {
            *sum = halve(&mut lanes.map(|c| (c[0][k] + c[1][k]) + (c[2][k] + c[3][k])));
        }
        for [s, q] in lanes.as_flattened() {
            precise &= *s == 0.0 || (*q >= 2f64.powi(-120) && q.is_finite());
        }
        (sums, precise)
    };
    let tiles: Vec<[f64; 2]> = terms
        .chunks(16 * 32 * width)
        .map(|part| match tile(part, narrow) {
            (_, false) if narrow => tile(part, false).0,
            (sums, _) => sums,
        })
        .collect();
    std::array::from_fn(|k| {
        let mut last = [0.0; 256];
        for (i, part) in tiles.chunks(16).enumerate() {
            last[i % 256] += tree(part.iter().map(|sums| sums[k]).collect());
        }
        halve(&mut last)
    })
}

/// A balanced tree, neighbours first; what is missing counts as 0.
fn tree(mut values: Vec<f64>) -> f64 {
    while values.len() > 1 {
        values = values.chunks(2).map(|pair| pair.iter().sum()).collect();
    }
    values[0]
}

fn halve(values: &mut [f64]) -> f64 {
    let mut half = values.len() / 2;
    while half > 0 {
        for i in 0..half {
            values[i] += values[i + half];
        }
        half /= 2;
    }
    values[0]
}

/// Fails where a field is not what the definitions say.
fn same<V: PartialEq + Debug>(field: &str, found: V, expected: V) -> Result<()> {
    ensure!(found == expected, "{field} is {found:?}, the definition gives {expected:?}");
    Ok(())
}

fn check<T: Scalar, R: Scalar>(report: &Report, e: &Expected) -> Result<()> {
    let (rtol, atol) = (report.rtol, report.atol);
    let m = report.metrics.as_ref().expect("all metrics");
    same("mismatches", report.mismatches, e.mismatches)?;
    same("nonfinite_pairs", report.nonfinite_pairs, e.nonfinite)?;
    same("result_max and reference_max", [report.result_max, report.reference_max], e.max)?;
    same("zero_passes", m.zero_passes, e.zero_passes)?;
    let worst = [
        ("worst_absolute", &report.worst_absolute),
        ("worst_relative", &m.worst_relative),
        ("worst_relative_old", &m.worst_relative_old),
        ("worst_epsilon", &m.worst_epsilon),
        ("worst_ulp", &m.worst_ulp),
        ("worst_ratio", &m.worst_ratio),
    ];
    for ((field, found), expected) in worst.into_iter().zip(e.worst) {
        same(field, found.as_ref().and_then(|w| Some((w.value, w.at.as_ref()?.index))), expected)?;
    }
    let width = 128 / T::DTYPE.bits().min(R::DTYPE.bits());
    let f32s = T::DTYPE != DType::F64 && R::DTYPE != DType::F64;
    let [[d, dd], [r, rr], [_, aa]] =
        [0, 1, 2].map(|side: usize| ordered_sums(&e.terms.iter().map(|t| t[side]).collect::<Vec<_>>(), width, f32s));
    let n = e.terms.len() as f64;
    same("mean_absolute", m.mean_absolute, d / n)?;
    same("rms", m.rms, dd.sqrt() / (n.sqrt() * e.max[0].max(e.max[1])))?;
    same("relative_l1 and relative_l2", (m.relative_l1, m.relative_l2), (d / r, (dd / rr).sqrt()))?;
    same("relative_linf", m.relative_linf, e.worst[0].map_or(0.0, |w| w.0) / e.max[1])?;
    ensure!((m.snr - 10.0 * (rr / dd).log10()).abs() < 1e-12 * m.snr.abs(), "snr is {}, of {rr} over {dd}", m.snr);
    let s = m.similarity.as_ref().context("no similarity")?;
    let (norm_a, norm_r) = (aa.sqrt(), rr.sqrt());
    let distance = ((dd - (norm_a - norm_r) * (norm_a - norm_r)) / (2.0 * norm_a) / norm_r).clamp(0.0, 2.0);
    same("similarity", [s.cosine_distance, s.cosine, s.squared_difference], [distance, 1.0 - distance, dd / (aa + rr)])?;
    let thresholds = [m.rms <= 3e-5, true, e.worst[1].is_none_or(|w| w.0 <= m.thresholds.relative)];
    same("vector", m.vector, thresholds)?;
    let h = report.histograms.as_ref().expect("histograms");
    same("histograms", [&h.relative.counts, &h.epsilon.counts, &h.ratio.counts], e.histograms.each_ref())?;
    // The smallest tolerances pass every finite pair; the next smaller ones do not.
    let passes = |rtol: f64, atol: f64| {
        e.terms.iter().all(|&[d, _, _, base]| match f32s {
            true => d as f32 <= (rtol as f32).mul_add(base as f32, atol as f32).min(f32::MAX),
            false => d <= rtol.mul_add(base, atol).min(f64::MAX),
        })
    };
    let below = |x: f64| if f32s { f64::from((x as f32).next_down()) } else { x.next_down() };
    let (least_rtol, least_atol) = (m.passing_rtol.context("no passing_rtol")?, m.passing_atol.context("no passing_atol")?);
    ensure!(passes(least_rtol, atol), "passing_rtol {least_rtol} is too small");
    ensure!(passes(rtol, least_atol), "passing_atol {least_atol} is too small");
    ensure!(least_rtol == 0.0 || !passes(below(least_rtol), atol), "passing_rtol {least_rtol} is not the smallest");
    ensure!(least_atol == 0.0 || !passes(rtol, below(least_atol)), "passing_atol {least_atol} is not the smallest");
    Ok(())
}

/// A result that differs from its reference by relative `noise`, with zeros, infinities and NaN on both sides, compared on a device with
/// tolerances that some pairs fail.
struct Case {
    noise: f64,
    rtol: f64,
    atol: f64,
    by_binade: bool,
}

impl Case {
    fn check<T: Scalar, R: Scalar>(&self, target: &Target) -> Result<()> {
        let Case { noise, rtol, atol, by_binade } = *self;
        let tolerance = Tolerance::new(rtol, atol)?;
        let tolerance = if by_binade { tolerance.by_binade() } else { tolerance };
        // Several sums of every vector width, and a tail.
        let n = target.size(40_007, 300_007);
        let host = Device::host();
        let mut reference = DeviceMem::<R>::new(&host, n)?;
        reference.fill(&FillNormalRand::new(0.0, 1.0).seed(5).with_specials(0.01))?;
        let mut factor = DeviceMem::<f64>::new(&host, n)?;
        factor.fill(&FillUniformRand::new(1.0 - noise, 1.0 + noise).seed(6).with_specials(0.005))?;
        let (reference, factor) = (reference.to_vec()?, factor.to_vec()?);
        let result: Vec<T> = reference.iter().zip(factor).map(|(r, f)| T::from_f64(r.to_f64() * f)).collect();
        let wide = T::DTYPE == DType::F64 || R::DTYPE == DType::F64;
        let expected = if wide { in_f64(&result, &reference, tolerance) } else { in_f32(&result, &reference, tolerance) };
        ensure!(expected.nonfinite > 100 && expected.mismatches > expected.nonfinite, "the data reach no branch");

        let (result, reference) = (DeviceMem::from_slice(&target.device, &result)?, DeviceMem::from_slice(&target.device, &reference)?);
        let options = Options::default().explain(Explain::Always).histograms(true).cosine(true);
        let report = gpu_verify_with(&result, &reference, &tolerance, &options)?;
        check::<T, R>(&report, &expected).with_context(|| format!("{} against {}, {n} elements", T::DTYPE, R::DTYPE))
    }
}

#[rustfmt::skip] // one line a case
fn reports_follow_the_definitions(target: &Target) -> Result<()> {
    Case { noise: 1e-6, rtol: 1e-6, atol: 1e-9, by_binade: false }.check::<f32, f32>(target)?;
    Case { noise: 1e-3, rtol: 1e-3, atol: 1e-7, by_binade: false }.check::<F16, f32>(target)?;
    Case { noise: 2e-3, rtol: 1e-3, atol: 0.0, by_binade: false }.check::<F16, F16>(target)?;
    Case { noise: 1e-2, rtol: 5e-3, atol: 1e-3, by_binade: false }.check::<Bf16, f32>(target)?;
    Case { noise: 0.1, rtol: 0.0625, atol: 1e-3, by_binade: false }.check::<F8E4M3, f32>(target)?;
    Case { noise: 1e-12, rtol: 1e-12, atol: 1e-15, by_binade: false }.check::<f64, f64>(target)?;
    Case { noise: 1e-3, rtol: 0.0, atol: 5e-4, by_binade: false }.check::<F16, f64>(target)?;
    Case { noise: 1e-3, rtol: 5e-4, atol: 1e-6, by_binade: false }.check::<f32, Bf16>(target)?;
    Case { noise: 1e-3, rtol: 5e-4, atol: 1e-7, by_binade: true }.check::<F16, f32>(target)?;
    Case { noise: 0.1, rtol: 0.0625, atol: 1e-3, by_binade: true }.check::<F8E4M3, f32>(target)?;
    Case { noise: 0.1, rtol: 0.0625, atol: 0.0, by_binade: true }.check::<F8E4M3, F8E4M3>(target)?;
    Case { noise: 1e-3, rtol: 5e-4, atol: 1e-6, by_binade: true }.check::<F16, f64>(target)
}
