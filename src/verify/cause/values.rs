//! Causes that show in the value of a mismatch alone: constants, limits, what is not finite, patterns read in another format.

use super::region::Region;
use super::sample::Sample;
use super::{Cause, Hit, beyond_chance, most, most_of};
use crate::dtype::{DType, IntFormat, spacing};
use std::collections::BTreeSet;

/// Formats through which values pass on their way to a result, the coarsest first.
pub(super) const COARSE: [DType; 7] =
    [DType::F8E5M2, DType::F8E5M2Fnuz, DType::F8E4M3, DType::F8E4M3Fnuz, DType::Bf16, DType::F16, DType::F32];

/// A side is not finite.
pub(super) fn not_finite(s: &Sample) -> Option<Hit> {
    let count = |of: &dyn Fn(usize) -> bool| s.wrong.iter().filter(|&&i| of(i)).count();
    let nans = count(&|i| s.result[i].is_nan() && s.reference[i].is_finite());
    let infinities = count(&|i| s.result[i].is_infinite() && s.reference[i].is_finite());
    let found = nans + infinities;
    if found == 0 {
        let reference = count(&|i| !s.reference[i].is_finite());
        return most(reference, s.wrong.len()).then_some(Hit { cause: Cause::ReferenceNotFinite, explained: reference });
    }
    let zeros = zeros_beside(s);
    let limit = s.dtypes[0].float_format().map_or(f64::MAX, |f| f.max_finite());
    // A reference at the limit may have been clamped to it.
    let beyond = count(&|i| s.result[i].is_nan() && s.reference[i].abs() >= limit);
    let cause = if infinities > 0 || beyond == nans { Cause::Overflowed } else { Cause::NotANumber };
    most(found + zeros, s.wrong.len()).then_some(Hit { cause, explained: found + zeros })
}

/// Mismatches that are zeros on a line along one dimension, of several, with one that is not finite: finite numbers over an infinite sum are 0.
fn zeros_beside(s: &Sample) -> usize {
    let mut at = vec![0; s.shape.len()];
    let mut lines = |i: usize| -> Vec<(usize, usize)> {
        let index = s.index(i);
        s.coordinates(index, &mut at);
        let mut stride = 1;
        let starts = s.shape.iter().zip(&at).enumerate().rev().map(|(dimension, (&extent, &c))| {
            let start = index - c * stride;
            stride *= extent;
            (extent, (dimension, start))
        });
        starts.filter(|&(extent, _)| extent > 1 && extent < s.elements()).map(|(_, line)| line).collect()
    };
    let not_finite = s.wrong.iter().filter(|&&i| !s.result[i].is_finite() && s.reference[i].is_finite());
    let of: BTreeSet<(usize, usize)> = not_finite.flat_map(|&i| lines(i)).collect();
    s.wrong.iter().filter(|&&i| s.result[i] == 0.0 && lines(i).iter().any(|line| of.contains(line))).count()
}

/// Every mismatch has the largest magnitude that a format, or the whole result, has, and its reference is larger; or an end of an integer format, beyond which its reference is.
pub(super) fn saturated(s: &Sample) -> Option<Hit> {
    between_ends(s).or_else(|| at_largest(s))
}

/// Fewest mismatches that tell the limit of a format that is not the result's: few numbers may be any.
const AT_LIMIT: usize = 4;

/// Integer formats that quantized numbers have, whatever the format of the result.
const QUANTIZED: [DType; 4] = [DType::I8, DType::U8, DType::I16, DType::U16];

/// Clamped to an integer format, whose ends differ in magnitude: -128 and 127.
fn between_ends(s: &Sample) -> Option<Hit> {
    let formats = std::iter::once(s.dtypes[0]).chain(QUANTIZED);
    let mut hits = formats.filter_map(|format| {
        let int = format.int_format()?;
        let [low, high] = [int.min() as f64, int.max() as f64];
        let at_high = |i: usize| s.result[i] == high && s.reference[i] > high;
        let at_low = |i: usize| s.result[i] == low && s.reference[i] < low;
        let explained = most_of(&s.wrong, |i| at_high(i) || at_low(i))?;
        let [highs, lows] = [&at_high as &dyn Fn(usize) -> bool, &at_low].map(|at| s.wrong.iter().filter(|&&i| at(i)).count());
        // A clamp at an end leaves nothing beyond it.
        let clamped = s.result.iter().all(|&a| (highs == 0 || a <= high) && (lows == 0 || a >= low));
        let limit = if highs >= lows { high } else { low };
        // Zeros in place of negative numbers are something else in a format that has these.
        let meant = format == s.dtypes[0] || limit != 0.0 && explained >= AT_LIMIT;
        (clamped && meant).then_some(Hit { cause: Cause::Saturated { limit, format: Some(format) }, explained })
    });
    hits.next()
}

/// Clamped to [-limit, limit].
fn at_largest(s: &Sample) -> Option<Hit> {
    let limit = s.result.iter().filter(|a| a.is_finite()).fold(0.0, |m: f64, a| m.max(a.abs()));
    let at_limit = |i: usize| {
        let (a, r) = (s.result[i], s.reference[i]);
        a.abs() == limit && r.abs() > limit && a.is_sign_negative() == r.is_sign_negative()
    };
    let explained = most_of(&s.wrong, at_limit)?;
    let named = format_of_limit(limit, s);
    let enough = explained >= 8 && s.varies() || named.is_some_and(|format| format == s.dtypes[0] || explained >= AT_LIMIT);
    (enough && limit > 0.0).then_some(Hit { cause: Cause::Saturated { limit, format: named }, explained })
}

/// The format that has this limit, the result's own first. Integers pass through no float formats. The limits of formats below 8 bits are numbers as any
/// clamp may have, such as the 6 of ReLU6: they tell the format where all results are numbers of it.
fn format_of_limit(limit: f64, s: &Sample) -> Option<DType> {
    let result = s.dtypes[0];
    let narrow = [DType::F6E2M3, DType::F6E3M2, DType::F4E2M1].into_iter().filter(|&d| s.result.iter().all(|&x| d.holds(x)));
    let small = [DType::F16, DType::F8E4M3, DType::F8E4M3Fnuz, DType::F8E5M2].into_iter().chain(narrow);
    let largest = |d: DType| d.float_format().map_or_else(|| d.int_format().map_or(0.0, |i| i.max() as f64), |f| f.max_finite());
    let small = small.filter(|_| result.int_format().is_none());
    std::iter::once(result).chain(small).chain(QUANTIZED).find(|&d| largest(d) == limit)
}

/// Zeros where a format has subnormal numbers, and no such number in the result.
pub(super) fn flushed(s: &Sample) -> Option<Hit> {
    let zero = |i: usize| s.result[i] == 0.0 && s.reference[i] != 0.0;
    let explained = most_of(&s.wrong, zero)?;
    let largest = s.wrong.iter().filter(|&&i| zero(i)).fold(0.0, |m: f64, &i| m.max(s.reference[i].abs()));
    let flushes = |format: &DType| {
        let least = format.float_format().map_or(0.0, |f| f.min_normal());
        // Rounding may make the least normal number of a larger subnormal one.
        largest < least && s.result.iter().all(|a| *a == 0.0 || a.abs() >= least || a.is_nan())
    };
    let format = std::iter::once(s.dtypes[0]).chain([DType::F16, DType::F32]).find(flushes)?;
    // Where every result is 0, nothing was seen to survive.
    s.result.iter().any(|a| *a != 0.0).then_some(Hit { cause: Cause::Flushed { format }, explained })
}

/// The chance that all negative references, and no others, were hit by something that has nothing to do with their signs: below this it is a function.
const BY_SIGN: f64 = 1e-3;

/// Zeros where the reference is negative, and results at their largest where it is larger than that.
pub(super) fn rectified(s: &Sample) -> Option<Hit> {
    let largest = s.result.iter().fold(0.0, |m: f64, a| m.max(*a));
    let zero = |i: usize| s.result[i] == 0.0 && s.reference[i] < 0.0;
    let above = |i: usize| s.result[i] == largest && s.reference[i] > largest;
    let explained = most_of(&s.wrong, |i| zero(i) || above(i))?;
    let clamped = s.wrong.iter().filter(|&&i| above(i)).count();
    let lost = s.wrong.iter().any(|&i| s.result[i] == 0.0 && s.reference[i] > 0.0);
    let negative: Vec<usize> = (0..s.len()).filter(|&i| s.reference[i] < -s.slack(i, 0.0)).collect();
    most_of(&negative, zero)?;
    let limit = (clamped >= AT_LIMIT).then_some(largest);
    (!lost && clamped < explained && by_sign(s)).then_some(Hit { cause: Cause::Rectified { limit }, explained })
}

/// Whether so many negative references among the mismatches are no chance: a reference is negative with the share of these in all.
pub(super) fn by_sign(s: &Sample) -> bool {
    let negative = s.wrong.iter().filter(|&&i| s.reference[i] < 0.0).count();
    let share = (0..s.len()).filter(|&i| s.reference[i] < 0.0).count() as f64 / s.len() as f64;
    share < 1.0 && share.powf(negative as f64) < BY_SIGN
}

/// Every mismatch holds one pattern.
pub(super) fn unwritten(s: &Sample) -> Option<Hit> {
    if let Some(explained) = most_of(&s.wrong, |i| s.result[i] == 0.0) {
        // Among numbers of which many are 0, as those of a mask, a few wrong ones are 0 by chance, but hardly side by side.
        let zeros = s.reference.iter().filter(|r| **r == 0.0).count() as f64 / s.len() as f64;
        let telling = zeros.powf(explained as f64) < 1e-2 || explained > 1 && Region::of(s).is_some();
        return telling.then_some(Hit { cause: Cause::Unwritten { value: 0.0, bits: 0 }, explained });
    }
    let middle = *s.wrong.get(s.wrong.len() / 2)?;
    let (bits, value) = (s.bits[middle], s.result[middle]);
    let explained = most_of(&s.wrong, |i| s.bits[i] == bits)?;
    let bytes = &bits.to_le_bytes()[..s.dtypes[0].unit_bytes()];
    let poison = bytes.len() > 1 && bytes.windows(2).all(|pair| pair[0] == pair[1]);
    // A NaN of an operation says where it comes from no better than `not_finite` does.
    (poison && explained > 1 || explained > 3 && s.varies() && !value.is_nan())
        .then_some(Hit { cause: Cause::Unwritten { value, bits }, explained })
}

/// The patterns of the mismatches are right in another format of the same width, or with their bytes swapped.
pub(super) fn read_as(s: &Sample) -> Option<Hit> {
    let dtype = s.dtypes[0];
    let patterns: BTreeSet<u64> = s.wrong.iter().map(|&i| s.bits[i]).take(1 << 12).collect();
    if patterns.len() < 8 {
        return None;
    }
    let hit = |cause: Cause, format: DType, read: &dyn Fn(u64) -> u64| {
        let near = |i: usize| s.slack(i, s.reference[i]).max(spacing(format, s.reference[i]));
        let right = |i: usize| {
            let (x, r) = (format.decode(read(s.bits[i])), s.reference[i]);
            let off = (x - r).abs();
            off <= near(i) && off <= (s.result[i] - r).abs() / 2.0
        };
        // What is next to 0 says nothing: most patterns are, in a format of a wider range.
        let telling = s.wrong.iter().filter(|&&i| s.reference[i].abs() > 2.0 * near(i)).count();
        let explained = most_of(&s.wrong, right)?;
        (2 * telling > s.wrong.len()).then_some(Hit { cause, explained })
    };
    let others = DType::ALL.into_iter().filter(|&d| d != dtype && d.bits() == dtype.bits() && d != DType::F8E8M0 && d != DType::Bool);
    let bytes = dtype.unit_bytes();
    let swapped = |bits: u64| bits.swap_bytes() >> (64 - 8 * bytes);
    let mut hits = others.filter_map(|format| hit(Cause::ReadAs { format }, format, &|bits| bits));
    hits.next().or_else(|| if bytes > 1 { hit(Cause::BytesSwapped, dtype, &swapped) } else { None })
}

/// Mismatches are whole numbers modulo the numbers that an integer format has: that of the result, or a narrower one on the way.
pub(super) fn wrapped(s: &Sample) -> Option<Hit> {
    let own = s.dtypes[0];
    let formats: Vec<DType> = std::iter::once(own).chain(QUANTIZED).filter(|d| d.int_format().is_some_and(|int| !int.truth)).collect();
    let hits = formats.iter().enumerate().filter_map(|(before, &format)| {
        let int = format.int_format()?;
        let beyond = |r: f64| r < int.min() as f64 || r > int.max() as f64;
        let from = |i: usize, j: usize| beyond(s.reference[j]) && s.explains(i, wrap(int, s.reference[j]));
        let explained = most_of(&s.wrong, |i| from(i, i))?;
        let chance = s.chance(from);
        let clear = beyond_chance((explained, s.wrong.len()), chance, before + 1);
        clear.then_some(Hit { cause: Cause::Wrapped { format }, explained })
    });
    hits.max_by_key(|hit| hit.explained)
}

/// The number of this format whose distance from the nearest whole number is a multiple of how many numbers the format has.
fn wrap(int: IntFormat, x: f64) -> f64 {
    let numbers = 2f64.powi(int.bits as i32);
    let low = x.round().rem_euclid(numbers);
    if low > int.max() as f64 { low - numbers } else { low }
}
