//! Causes that lie in rounding: truncation, ties, a coarser format on the way, sums or operands of fewer bits.

use super::even::is_even;
use super::sample::Sample;
use super::values::COARSE;
use super::{Cause, Hit, most, most_of};
use crate::dtype::{DType, Overflow, Rounding, spacing};

/// Fewest elements that tell a way of rounding, or a format.
const LEAST: usize = 16;

/// Results are the references rounded toward zero, where that is not the nearest number.
pub(super) fn truncated(s: &Sample) -> Option<Hit> {
    let dtype = finer_reference(s)?;
    let rounded = |i: usize, way: Rounding| dtype.rounded_by(s.reference[i], way, Overflow::Ieee);
    let explained = most_of(&s.wrong, |i| s.result[i] == rounded(i, Rounding::TowardZero))?;
    // All elements are asked, not only those that a tolerance caught.
    let (mut telling, mut toward_zero) = (0, 0);
    for i in (0..s.len()).filter(|&i| s.reference[i].is_finite()) {
        let cut = rounded(i, Rounding::TowardZero);
        if cut != rounded(i, Rounding::NearestEven) {
            telling += 1;
            toward_zero += usize::from(s.result[i] == cut);
        }
    }
    (telling >= LEAST && most(toward_zero, telling)).then_some(Hit { cause: Cause::Truncated, explained })
}

/// References that lie between two numbers of the result's format are rounded to the odd one.
pub(super) fn ties(s: &Sample) -> Option<Hit> {
    let dtype = finer_reference(s)?;
    let other = |i: usize| {
        let r = s.reference[i];
        let even = dtype.rounded(r);
        s.result[i] != even && s.result[i] - r == r - even
    };
    let explained = most_of(&s.wrong, other)?;
    (explained > 1).then_some(Hit { cause: Cause::TiesOtherWay, explained })
}

/// The result's format, where the reference's has more digits.
fn finer_reference(s: &Sample) -> Option<DType> {
    let digits = |dtype: DType| dtype.float_format().map(|f| f.mantissa_bits);
    (digits(s.dtypes[1])? > digits(s.dtypes[0])?).then_some(s.dtypes[0])
}

/// Results are numbers of a coarser format, as their references are not: its nearest numbers, or sums that were rounded to it.
pub(super) fn through(s: &Sample) -> Option<Hit> {
    let digits = s.dtypes[0].float_format()?.mantissa_bits;
    let coarser = COARSE.into_iter().filter(|d| d.float_format().is_some_and(|f| f.mantissa_bits < digits));
    let finite: Vec<usize> = s.wrong.iter().copied().filter(|&i| s.result[i].is_finite() && s.result[i] != 0.0).collect();
    // A few values may be numbers of any format.
    let mut distinct: Vec<u64> = finite.iter().map(|&i| s.bits[i]).collect();
    distinct.sort_unstable();
    distinct.dedup();
    if distinct.len() < LEAST / 2 || finite.len() < LEAST || !most(finite.len(), s.wrong.len()) {
        return None;
    }
    let format = coarser.into_iter().find(|&d| finite.iter().all(|&i| d.holds(s.result[i])))?;
    // Numbers of fewer bits, such as whole numbers, are none that were rounded to it: half of those are odd in their last place.
    let odd = finite.iter().filter(|&&i| format.encode(s.result[i], Rounding::NearestEven, Overflow::Saturate) & 1 == 1);
    if odd.count() * 8 < finite.len() {
        return None;
    }
    let others = (0..s.len()).filter(|&i| s.result[i].is_finite());
    let references = finite.iter().filter(|&&i| format.holds(s.reference[i])).count();
    if 2 * references > finite.len() || others.clone().filter(|&i| !format.holds(s.result[i])).count() * 20 > s.len() {
        return None;
    }
    let limit = format.float_format()?.max_finite();
    let near = |&&i: &&usize| {
        let (a, r) = (s.result[i], s.reference[i]);
        (a - r).abs() <= spacing(format, r) || a.abs() == limit && r.abs() > limit
    };
    let explained = finite.iter().filter(near).count();
    if most(explained, s.wrong.len()) {
        return Some(Hit { cause: Cause::Through { format }, explained });
    }
    let noise = Noise::of(s)?;
    let small = noise.relative < 1.0 / 8.0 && noise.correlation.abs() < 0.25;
    (small && noise.fits_sums_in(format) && is_even(s)).then_some(Hit::of_all(Cause::AccumulatedIn { format }))
}

/// Errors that look like the rounding of intermediate values: of each result, of a running sum, of many operands.
pub(super) fn few_bits(s: &Sample) -> Option<Hit> {
    let noise = Noise::of(s)?;
    if !noise.is_random() {
        return None;
    }
    if let Some(format) = intermediate(s) {
        return Some(Hit::of_all(Cause::IntermediateIn { format }));
    }
    // Numbers that all have an even last place were not rounded to this format.
    let odd = s.wrong.iter().filter(|&&i| s.bits[i] & 1 == 1).count();
    let narrow = s.dtypes[0].float_format().is_some_and(|f| f.mantissa_bits <= 10) && odd * 8 >= s.wrong.len();
    let of_sums = || narrow && noise.is_of_sums() && noise.fits_sums_in(s.dtypes[0]) && is_even(s);
    match () {
        _ if !noise.is_small() => None,
        _ if noise.is_normal() => Some(Hit::of_all(Cause::LowPrecision { bits: -libm::log2(noise.relative) })),
        _ if of_sums() => Some(Hit::of_all(Cause::AccumulatedIn { format: s.dtypes[0] })),
        _ => None,
    }
}

/// The coarser format whose unit roundoff relative errors reach and do not exceed.
fn intermediate(s: &Sample) -> Option<DType> {
    let own = s.dtypes[0].float_format()?;
    let least = 2.0 * own.min_normal();
    let errors = (0..s.len()).filter(|&i| s.reference[i].abs() >= least).map(|i| ((s.result[i] - s.reference[i]) / s.reference[i]).abs());
    let (mut largest, mut squares, mut fourth, mut n) = (0.0f64, 0.0, 0.0, 0.0);
    for e in errors {
        (largest, squares, fourth, n) = (largest.max(e), squares + e * e, fourth + square(e * e), n + 1.0);
    }
    let rms = (squares / n).sqrt();
    // That of errors that are evenly spread over a unit in the last place is 1.8, over a binade 2.1; that of a normal distribution 3.
    let kurtosis = fourth / n / square(squares / n);
    if kurtosis > 2.6 {
        return None;
    }
    let fits = |d: &DType| {
        let Some(f) = d.float_format() else { return false };
        let u = f.unit_roundoff();
        // One rounding has a root mean square relative error of 0.41 u on average over a binade; the result's own adds to the largest.
        f.mantissa_bits < own.mantissa_bits
            && (0.8 * u..1.1 * u + own.unit_roundoff()).contains(&largest)
            && (0.3 * u..0.6 * u).contains(&rms)
    };
    COARSE.into_iter().find(fits)
}

fn square(x: f64) -> f64 {
    x * x
}

/// Statistics of the errors.
#[derive(Clone, Copy, Debug)]
struct Noise {
    /// Root mean square of the errors over that of the references.
    relative: f64,
    /// The same over the deviation of the references, which sums of one sign have less of.
    of_spread: f64,
    /// Mean error over the root mean square error.
    bias: f64,
    /// Correlation of the errors with the references.
    correlation: f64,
    /// Mean fourth power over the square of the mean square: 3 for a normal distribution.
    kurtosis: f64,
    /// Root mean square error at the smaller half of the references, over that at the larger half.
    halves: f64,
    elements: f64,
}

impl Noise {
    /// Of all elements with finite sides, where there are enough.
    fn of(s: &Sample) -> Option<Noise> {
        let all: Vec<(f64, f64)> =
            (0..s.len()).map(|i| (s.result[i] - s.reference[i], s.reference[i])).filter(|(e, r)| (e * r).is_finite()).collect();
        if all.len() < 256 || s.dtypes[0].float_format().is_none() || s.wrong.len() * 16 < all.len() {
            return None;
        }
        let n = all.len() as f64;
        let mean = |of: &dyn Fn(f64, f64) -> f64| all.iter().map(|&(e, r)| of(e, r)).sum::<f64>() / n;
        let (e1, r1, e2, r2) = (mean(&|e, _| e), mean(&|_, r| r), mean(&|e, _| e * e), mean(&|_, r| r * r));
        let (spread, reference_spread) = ((e2 - e1 * e1).sqrt(), (r2 - r1 * r1).sqrt());
        let mut magnitudes: Vec<f64> = all.iter().map(|(_, r)| r.abs()).collect();
        let middle = *magnitudes.select_nth_unstable_by(all.len() / 2, f64::total_cmp).1;
        let half = |larger: bool| {
            let part: Vec<f64> = all.iter().filter(|(_, r)| (r.abs() > middle) == larger).map(|(e, _)| e * e).collect();
            (part.iter().sum::<f64>() / part.len() as f64).sqrt()
        };
        Some(Noise {
            relative: (e2 / r2).sqrt(),
            of_spread: e2.sqrt() / reference_spread,
            bias: e1 / e2.sqrt(),
            correlation: mean(&|e, r| (e - e1) * (r - r1)) / (spread * reference_spread),
            kurtosis: mean(&|e, _| square(square(e - e1))) / square(square(spread)),
            halves: half(false) / half(true),
            elements: n,
        })
    }

    /// Whether errors neither have a sign nor follow the reference.
    fn is_random(&self) -> bool {
        let chance = (5.0 / self.elements.sqrt()).max(0.1);
        self.bias.abs() < chance && self.correlation.abs() < chance
    }

    /// Whether errors are spread like a sum of many independent ones, whatever the reference is.
    fn is_normal(&self) -> bool {
        (2.4..4.5).contains(&self.kurtosis) && (0.7..1.4).contains(&self.halves)
    }

    /// Whether they are spread like those of running sums that are rounded: larger sums make larger errors, and a few of them most.
    fn is_of_sums(&self) -> bool {
        (4.5..12.0).contains(&self.kurtosis) && (0.4..0.65).contains(&self.halves)
    }

    /// Whether they are as large as those of running sums of 16 to 16,384 terms that are rounded to a format: its unit roundoff times the root of a sixth of
    /// the number, `Budget::accumulated`. The last rounding of sums in more bits makes errors as of 2 terms, and these bits add to them.
    fn fits_sums_in(&self, format: DType) -> bool {
        let of = |terms: f64| format.unit_roundoff() * (terms / 6.0).sqrt();
        (of(16.0)..of(16384.0)).contains(&self.relative)
    }

    /// Whether they can be called rounding.
    fn is_small(&self) -> bool {
        self.of_spread > 0.0 && self.of_spread < 1.0 / 16.0
    }
}
