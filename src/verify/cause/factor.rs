//! Causes that change every element alike: a factor, an offset, both, of the tensor or of each of its rows or columns.

use super::sample::Sample;
use super::values::by_sign;
use super::{Cause, Hit, most};
use crate::dtype::{DType, spacing};
use std::collections::BTreeMap;

/// Fewest mismatches from which a number may be fitted.
const FITTED: usize = 8;

/// Least factor of a line: results that follow their references less are others.
const LEAST_FACTOR: f64 = 0.05;

/// Factors that formats of 8 bits make, of operands on the way to floats of at most 32 bits.
const OF_FP8: [(f64, &str); 8] = [
    (240.0 / 224.0, "240/224: limits of fp8"),
    (224.0 / 240.0, "224/240: limits of fp8"),
    (448.0 / 240.0, "448/240: limits of OCP and fnuz e4m3"),
    (240.0 / 448.0, "240/448: limits of fnuz and OCP e4m3"),
    (2.0, "fnuz patterns read as OCP, or a term added twice"),
    (0.5, "OCP patterns read as fnuz, or a factor of 1/2 too many"),
    (4.0, "both operands fnuz, read as OCP"),
    (0.25, "both operands OCP, read as fnuz"),
];

/// Factors that other mistakes are known to make.
const NAMES: [(f64, &str); 13] = [
    (2.0, "a term added twice"),
    (0.5, "a factor of 1/2 too many"),
    (8.0, "sqrt(64), or 2^3"),
    (0.125, "1/sqrt(64), or 2^-3"),
    (16.0, "sqrt(256), or 2^4"),
    (0.0625, "1/sqrt(256), or 2^-4"),
    (127.0, "the limit of i8"),
    (1.0 / 127.0, "1 over the limit of i8"),
    (std::f64::consts::LOG2_E, "log2(e): exp for exp2"),
    (std::f64::consts::LN_2, "ln 2: exp2 for exp"),
    (std::f64::consts::SQRT_2, "sqrt(2)"),
    (std::f64::consts::FRAC_1_SQRT_2, "1/sqrt(2)"),
    (11.313708498984761, "sqrt(128)"),
];

/// The opposite sign.
pub(super) fn negated(s: &Sample) -> Option<Hit> {
    let explained = s.explained(|i| -s.reference[i])?;
    (explained > 2).then_some(Hit { cause: Cause::Negated, explained })
}

/// One factor, one offset, or both for all mismatches.
pub(super) fn uniform(s: &Sample) -> Option<Hit> {
    // Any factor, and any constant, fits references that are all the same.
    if s.wrong.len() < FITTED || !s.varies() {
        return None;
    }
    let hit = |line: Line, cause: Cause| {
        let explained = s.explained(|i| line.at(s.reference[i]))?;
        is_followed(s, explained, |_| Some(line)).then_some(Hit { cause, explained })
    };
    let factor = median(ratios(s));
    let scaled = || {
        let line = Line { factor, offset: 0.0 };
        match of_negative(factor, s) {
            None => hit(line, Cause::Scaled { by: factor, name: name(factor, s) }),
            name => {
                let explained = s.explained(|i| line.at(s.reference[i]))?;
                let followed = is_followed(s, explained, |i| Some(line).filter(|_| s.reference[i] < 0.0));
                followed.then_some(Hit { cause: Cause::Scaled { by: factor, name }, explained })
            }
        }
    };
    let by = median(s.wrong.iter().map(|&i| s.result[i] - s.reference[i]).collect());
    let offset = || hit(Line { factor: 1.0, offset: by }, Cause::Offset { by });
    let affine = || {
        let line @ Line { factor, offset } = Line::through(s, &s.wrong)?;
        if is_factor(s, factor) && factor.abs() > LEAST_FACTOR && levels(s) > 3 {
            hit(line, Cause::Affine { factor, offset })
        } else {
            None
        }
    };
    let scaled = if is_factor(s, factor) { scaled() } else { None };
    scaled.or_else(offset).or_else(affine)
}

/// Whether elements that pass follow their line, where one is claimed for them, as the mismatches do of which so many are explained: the largest of many errors of one sign
/// are alike as well. Those tell that the line moves beyond the tolerance and out of reach of one rounding, but not beyond the numbers that there are.
fn is_followed(s: &Sample, explained: usize, line: impl Fn(usize) -> Option<Line>) -> bool {
    let largest = largest(s.dtypes[0]);
    let (mut telling, mut follow) = (0, 0);
    for i in s.passing() {
        let Some(line) = line(i) else { continue };
        let (a, r) = (s.result[i], s.reference[i]);
        let expected = line.at(r);
        let least = s.allowed(i, r).max(spacing(s.dtypes[0], r) / 2.0);
        if (expected - r).abs() > least && expected.abs() <= largest {
            telling += 1;
            follow += usize::from((a - expected).abs() < (a - r).abs());
        }
    }
    most(explained + follow, s.wrong.len() + telling)
}

/// The largest magnitude that a format has on both sides of 0.
fn largest(dtype: DType) -> f64 {
    match dtype.int_format() {
        Some(int) => int.max() as f64,
        None => dtype.float_format().map_or(f64::INFINITY, |f| f.max_finite()),
    }
}

/// Whether a factor is more than biased rounding makes, a few steps of the result's format.
fn is_factor(s: &Sample, factor: f64) -> bool {
    let steps = 4.0 * s.dtypes[0].unit_roundoff();
    (factor - 1.0).abs() > steps && factor != 0.0
}

/// Different references of the mismatches, up to 4: a line goes through any two.
fn levels(s: &Sample) -> usize {
    let mut found: Vec<f64> = Vec::new();
    for r in s.wrong.iter().map(|&i| s.reference[i]) {
        if found.len() < 4 && !found.contains(&r) {
            found.push(r);
        }
    }
    found.len()
}

/// The quotients at the larger half of the references, where rounding changes them least.
fn ratios(s: &Sample) -> Vec<f64> {
    let typical = median(s.wrong.iter().map(|&i| s.reference[i].abs()).collect());
    let large = s.wrong.iter().filter(|&&i| s.reference[i].abs() >= typical && s.reference[i] != 0.0);
    large.map(|&i| s.result[i] / s.reference[i]).collect()
}

/// The middle of the finite numbers; NaN, which explains nothing, where there are none.
fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.retain(|x| x.is_finite());
    let middle = numbers.len() / 2;
    if numbers.is_empty() { f64::NAN } else { *numbers.select_nth_unstable_by(middle, f64::total_cmp).1 }
}

/// That a factor is one of negative elements alone, as a function with another slope there makes it.
fn of_negative(factor: f64, s: &Sample) -> Option<&'static str> {
    let negative = s.wrong.iter().filter(|&&i| s.reference[i] < 0.0).count();
    let all = (0..s.len()).filter(|&i| s.reference[i] < -s.slack(i, 0.0)).count();
    // A factor next to 0 or 1 leaves the smallest within the tolerance.
    let named = most(negative, s.wrong.len()) && 2 * negative > all && by_sign(s);
    let leaky = factor > 0.0 && factor < 1.0;
    named.then_some(if leaky { "negative elements only, as by a leaky ReLU" } else { "negative elements only" })
}

/// The name of a factor, which rounding may have changed a little.
fn name(factor: f64, s: &Sample) -> Option<&'static str> {
    let unit = |dtype: DType| dtype.float_format().map_or(1e-3, |f| f.unit_roundoff());
    let near = (4.0 * unit(s.dtypes[0]).max(unit(s.dtypes[1]))).min(1e-3);
    let fp8 = s.dtypes[0].float_format().is_some_and(|f| f.mantissa_bits <= 23);
    let names = OF_FP8.iter().filter(|_| fp8).chain(&NAMES);
    names.into_iter().find(|(known, _)| (factor.abs() / known - 1.0).abs() <= near).map(|(_, name)| *name)
}

/// A straight line.
#[derive(Clone, Copy, Debug)]
struct Line {
    factor: f64,
    offset: f64,
}

impl Line {
    fn at(self, x: f64) -> f64 {
        self.factor * x + self.offset
    }

    /// The line of least squares through results over references; `None` where all references are equal, or one is not finite.
    fn through(s: &Sample, positions: &[usize]) -> Option<Line> {
        let n = positions.len() as f64;
        let mean = |of: &[f64]| positions.iter().map(|&i| of[i]).sum::<f64>() / n;
        let (a, r) = (mean(&s.result), mean(&s.reference));
        let (mut products, mut squares) = (0.0, 0.0);
        for &i in positions {
            let x = s.reference[i] - r;
            products += x * (s.result[i] - a);
            squares += x * x;
        }
        let factor = products / squares;
        factor.is_finite().then_some(Line { factor, offset: a - factor * r })
    }

    /// The same without an offset.
    fn through_zero(s: &Sample, positions: &[usize]) -> Line {
        let sum = |of: &dyn Fn(usize) -> f64| positions.iter().map(|&i| of(i)).sum::<f64>();
        Line { factor: sum(&|i| s.result[i] * s.reference[i]) / sum(&|i| s.reference[i] * s.reference[i]), offset: 0.0 }
    }

    /// The same with a factor of 1.
    fn parallel(s: &Sample, positions: &[usize]) -> Line {
        Line { factor: 1.0, offset: positions.iter().map(|&i| s.result[i] - s.reference[i]).sum::<f64>() / positions.len() as f64 }
    }
}

/// A factor, an offset, or both for each row, or for each column.
pub(super) fn by_slice(s: &Sample) -> Option<Hit> {
    let columns = s.columns();
    if columns < 2 || columns > s.len() || s.elements() < 2 * columns || !s.varies() {
        return None;
    }
    let (of_rows, of_columns) = slices(s, columns);
    for (factor, offset) in [(true, false), (false, true), (true, true)] {
        for rows in [true, false] {
            let slices = if rows { &of_rows } else { &of_columns };
            let slice = |i: usize| if rows { s.index(i) / columns } else { s.index(i) % columns };
            if let Some(explained) = fitted(s, slices, slice, (factor, offset)) {
                return Some(Hit { cause: Cause::BySlice { rows, factor, offset }, explained });
            }
        }
    }
    None
}

/// How many mismatches a line for each slice explains, if most, and if the others of these slices follow it; `number` is that of an element's slice.
fn fitted(s: &Sample, slices: &[Vec<usize>], number: impl Fn(usize) -> usize, (factor, offset): (bool, bool)) -> Option<usize> {
    // Where slices have hardly more elements than numbers are fitted, a fit says nothing.
    let least = if factor && offset { 8 } else { 4 };
    let judged: Vec<&Vec<usize>> = slices.iter().filter(|slice| slice.len() >= least).collect();
    let elements: usize = judged.iter().map(|slice| slice.len()).sum();
    if judged.len() < 2 || !most(elements, s.wrong.len()) {
        return None;
    }
    let line = |slice: &Vec<usize>| match (factor, offset) {
        // Where results do not follow their references, they are one value.
        (true, true) => Line::through(s, slice).filter(|line| line.factor.abs() > LEAST_FACTOR),
        (false, _) => Some(Line::parallel(s, slice)),
        (true, false) => Some(Line::through_zero(s, slice)).filter(|line| is_factor(s, line.factor)),
    };
    let (mut explained, mut missed, mut lines) = (0, 0, BTreeMap::new());
    for slice in judged {
        let line = line(slice)?;
        lines.insert(number(slice[0]), line);
        let of_slice = slice.iter().filter(|&&i| s.explains(i, line.at(s.reference[i]))).count();
        (explained, missed) = (explained + of_slice, missed + slice.len() - of_slice);
        if missed > s.wrong.len() / 20 {
            return None;
        }
    }
    let right = most(explained, s.wrong.len()) && is_followed(s, explained, |i| lines.get(&number(i)).copied());
    right.then_some(explained)
}

/// The mismatches of each row and of each column.
fn slices(s: &Sample, columns: usize) -> (Vec<Vec<usize>>, Vec<Vec<usize>>) {
    let of_rows = s.wrong.chunk_by(|&i, &j| s.index(i) / columns == s.index(j) / columns).map(<[usize]>::to_vec).collect();
    let mut of_columns = vec![Vec::new(); columns];
    s.wrong.iter().for_each(|&i| of_columns[s.index(i) % columns].push(i));
    (of_rows, of_columns)
}
