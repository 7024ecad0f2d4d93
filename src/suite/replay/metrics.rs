//! The study's metrics and its printed line.

use super::config::Variant;
use crate::dtype::F16;

/// Which spacing of f16 numbers an exact power of two has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spacing {
    /// That of the numbers below it, as in the study's runs.
    Below,
    /// That of the numbers above it, as usual and as in its later version.
    Above,
}

impl Spacing {
    /// The distance of f16 numbers at magnitude `v`: 2^-24 up to 2^-13; 0 at infinity.
    pub(crate) fn at(self, v: f32) -> f32 {
        if v.is_infinite() {
            return 0.0;
        }
        let exponent = (v.to_bits() >> 23) as i32 - 127;
        let power_of_two = v.to_bits() & 0x7f_ffff == 0;
        let e = if power_of_two && self == Spacing::Below { exponent - 1 } else { exponent };
        f32::from_bits(((e.max(-14) - 10 + 127) as u32) << 23)
    }
}

/// Relative differences that ignore small values start here.
const SMALL: f32 = 1e-3;

/// As [`SMALL`], for the largest one since the second set of runs: between the two lies no f16 number.
const SMALL_SINCE_SECOND: f32 = 1.0004e-3;

/// Buckets of relative differences: 0, below 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1, and the rest.
const RELATIVE: [f64; 7] = [1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0];

/// What one comparison of the study prints, with its histograms.
#[derive(Clone, Debug, PartialEq)]
pub struct StudyMetrics {
    /// Elements.
    pub elements: u64,
    /// Elements that are equal.
    pub exact: u64,
    /// Elements that differ by one spacing.
    pub one: u64,
    /// Elements that differ by more than one spacing.
    pub more: u64,
    /// Elements that cannot be compared (NaN).
    pub unknown: u64,
    /// Largest difference in spacings, with the validator's and the kernel's value. The first one wins.
    pub max_epsilon: (f32, f32, f32),
    /// Largest absolute difference.
    pub max_abs: f32,
    /// Mean absolute difference.
    pub mean_abs: f64,
    /// Largest relative difference.
    pub max_rel: f64,
    /// Largest relative difference where the validator's value is above 0.001 (in the first variant only positive ones count), with the
    /// validator's and the kernel's value. The first one wins.
    pub max_rel_old: (f64, f32, f32),
    /// Whether the line has the two values of `max_rel_old`: since the second set of runs.
    pub values_of_max_rel_old: bool,
    /// Mean relative difference.
    pub mean_rel: f64,
    /// Root mean square of the differences over the largest magnitude.
    pub rms: f64,
    /// The histograms.
    pub histograms: StudyHistograms,
}

/// The study's two histograms; spacings are the usual ones, and the relative one skips values of at most 0.001.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StudyHistograms {
    /// 0, (0, 1e-6), [1e-6, 1e-5) ... [0.1, 1), 1 and more.
    pub relative: [u64; 9],
    /// Unequal elements whose reference is zero.
    pub zero: u64,
    /// The largest relative difference, with the validator's and the kernel's value.
    pub max_relative: (f64, f32, f32),
    /// 0, 1, 2, 3 to 10, 11 to 100, more than 100 spacings.
    pub epsilon: [u64; 6],
    /// The largest difference in spacings, with the validator's and the kernel's value.
    pub max_epsilon: (f32, f32, f32),
}

/// Collects elements in memory order.
#[derive(Clone, Debug)]
pub(crate) struct Accumulator {
    variant: Variant,
    spacing: Spacing,
    metrics: StudyMetrics,
    largest: u16,
    sum_abs: f64,
    sum_rel: f64,
    sum_squares: f64,
}

impl Accumulator {
    pub(crate) fn new(variant: Variant) -> Accumulator {
        let spacing = match variant {
            Variant::First | Variant::Second => Spacing::Below,
            Variant::Accumulate4 | Variant::Later => Spacing::Above,
        };
        let metrics = StudyMetrics {
            elements: 0,
            exact: 0,
            one: 0,
            more: 0,
            unknown: 0,
            max_epsilon: (0.0, 0.0, 0.0),
            max_abs: 0.0,
            mean_abs: 0.0,
            max_rel: 0.0,
            max_rel_old: (0.0, 0.0, 0.0),
            values_of_max_rel_old: variant != Variant::First,
            mean_rel: 0.0,
            rms: 0.0,
            histograms: StudyHistograms::default(),
        };
        Accumulator { variant, spacing, metrics, largest: 0, sum_abs: 0.0, sum_rel: 0.0, sum_squares: 0.0 }
    }

    /// Adds the next elements: the validator's and the kernel's values.
    pub(crate) fn add(&mut self, val: &[F16], kern: &[F16]) {
        for (&v, &k) in val.iter().zip(kern) {
            // Magnitudes order like their bits; NaNs, which come last, take no part.
            let (a, b) = (v.to_bits() & 0x7fff, k.to_bits() & 0x7fff);
            self.largest = self.largest.max(if a <= 0x7c00 { a } else { 0 }).max(if b <= 0x7c00 { b } else { 0 });
            self.metrics.elements += 1;
            if v.to_bits() == k.to_bits() && a <= 0x7c00 || a == 0 && b == 0 {
                self.metrics.exact += 1;
            } else {
                self.differing(v.to_f32(), k.to_f32());
            }
        }
    }

    fn differing(&mut self, v: f32, k: f32) {
        let m = &mut self.metrics;
        let difference = (v - k).abs();
        if difference.is_nan() {
            m.unknown += 1;
            return;
        }
        let least = v.abs().min(k.abs());
        let epsilon = difference / self.spacing.at(least);
        *(if epsilon == 1.0 { &mut m.one } else { &mut m.more }) += 1;
        if epsilon > m.max_epsilon.0 {
            m.max_epsilon = (epsilon, v, k);
        }
        m.max_abs = m.max_abs.max(difference);
        self.sum_abs += f64::from(difference);
        self.sum_squares += f64::from(difference) * f64::from(difference);

        let h = &mut m.histograms;
        let usual = difference / Spacing::Above.at(least);
        let bucket = [1.0, 2.0, 10.0, 100.0].iter().position(|&limit| usual <= limit).map_or(5, |i| i + 1);
        h.epsilon[bucket] += 1;
        if usual > h.max_epsilon.0 {
            h.max_epsilon = (usual, v, k);
        }
        if v == 0.0 {
            h.zero += 1;
            return;
        }
        // A quotient in f64 of the f32 difference: one in f32 misses a measured line in its last digit.
        let relative = f64::from(difference) / f64::from(v.abs());
        self.sum_rel += relative;
        m.max_rel = m.max_rel.max(relative);
        let large = if self.variant == Variant::First { v > SMALL } else { v.abs() > SMALL_SINCE_SECOND };
        if large && relative > m.max_rel_old.0 {
            m.max_rel_old = (relative, v, k);
        }
        if v.abs() > SMALL {
            h.relative[RELATIVE.iter().position(|&limit| relative < limit).map_or(8, |i| i + 1)] += 1;
            if relative > h.max_relative.0 {
                h.max_relative = (relative, v, k);
            }
        }
    }

    pub(crate) fn finish(mut self) -> StudyMetrics {
        let n = self.metrics.elements as f64;
        let differ = self.metrics.exact < self.metrics.elements;
        self.metrics.mean_abs = self.sum_abs / n;
        self.metrics.mean_rel = self.sum_rel / n;
        let largest = f64::from(F16::from_bits(self.largest));
        self.metrics.rms = if differ { self.sum_squares.sqrt() / (largest * n.sqrt()) } else { 0.0 };
        self.metrics.histograms.relative[0] = self.metrics.exact;
        self.metrics.histograms.epsilon[0] = self.metrics.exact;
        self.metrics
    }
}

/// As C prints `%.Nf`.
fn fixed(value: f64, digits: usize) -> String {
    if value.is_nan() { "-nan".to_owned() } else { format!("{value:.digits$}") }
}

/// As C prints `%.1e`. A NaN has the sign that an invalid operation gives it on the study's CPU.
fn scientific(value: f64) -> String {
    if !value.is_finite() {
        return fixed(value, 0);
    }
    let text = format!("{value:.1e}");
    match text.split_once('e') {
        Some((digits, exponent)) => {
            let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |e| ('-', e));
            format!("{digits}e{sign}{exponent:0>2}")
        }
        None => text,
    }
}

impl std::fmt::Display for StudyMetrics {
    /// The study's line: elements, (equal, one, more, unknown), largest difference in spacings with both values,
    /// largest and mean absolute, largest relative (all, and above 0.001, since the second set of runs with both values), mean relative, RMS.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (epsilon, val, kern) = self.max_epsilon;
        let (relative, relative_val, relative_kern) = self.max_rel_old;
        let pair = |val: f32, kern: f32| format!("({} {})", fixed(f64::from(val), 10), fixed(f64::from(kern), 10));
        let values = if self.values_of_max_rel_old { format!(" {}", pair(relative_val, relative_kern)) } else { String::new() };
        write!(
            f,
            "{:<10} ({} {} {} {}) {} {} {} {} {} {}{values} {} {}",
            self.elements,
            self.exact,
            self.one,
            self.more,
            self.unknown,
            fixed(f64::from(epsilon), 1),
            pair(val, kern),
            fixed(f64::from(self.max_abs), 6),
            fixed(self.mean_abs, 6),
            scientific(self.max_rel),
            scientific(relative),
            scientific(self.mean_rel),
            scientific(self.rms),
        )
    }
}

impl StudyHistograms {
    /// Both tables as text, with shares of `elements`.
    pub fn table(&self, elements: u64) -> String {
        let names = ["0", "(0, 1e-6)", "[1e-6, 1e-5)", "[1e-5, 1e-4)", "[1e-4, 1e-3)", "[1e-3, 1e-2)", "[1e-2, 0.1)", "[0.1, 1)", ">= 1"];
        let mut text = String::new();
        let mut row = |name: &str, count: u64| {
            text += &format!("{name:<16}{count:>12}  {:.6} %\n", 100.0 * count as f64 / elements.max(1) as f64);
        };
        row("relative", elements);
        names.iter().zip(self.relative).for_each(|(name, count)| row(name, count));
        row("reference 0", self.zero);
        row("spacings", elements);
        ["0", "1", "2", "[3, 10]", "[11, 100]", "> 100"].iter().zip(self.epsilon).for_each(|(name, count)| row(name, count));
        let (relative, v, k) = self.max_relative;
        text += &format!("largest relative difference {relative} (val {v}, kern {k})\n");
        let (epsilon, v, k) = self.max_epsilon;
        text + &format!("largest difference {epsilon} spacings (val {v}, kern {k})\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_power_of_two_has_the_spacing_of_either_side() {
        let e = |n: i32| 2f32.powi(n);
        for (v, below, above) in [
            (0.0, e(-24), e(-24)),
            (e(-24), e(-24), e(-24)),
            (e(-14), e(-24), e(-24)),
            (e(-13), e(-24), e(-23)),
            (1.5 * e(-13), e(-23), e(-23)),
            (1.0, e(-11), e(-10)),
            (1.25, e(-10), e(-10)),
            (65504.0, e(5), e(5)),
            (f32::INFINITY, 0.0, 0.0),
        ] {
            assert_eq!((Spacing::Below.at(v), Spacing::Above.at(v)), (below, above), "{v}");
        }
    }

    #[test]
    fn the_line_has_the_studys_format() {
        let f = F16::from_f32;
        let mut accumulator = Accumulator::new(Variant::First);
        accumulator.add(&[f(1.0), f(2.0), f(-3.0), f(0.0)], &[f(1.0), f(2.002), f(-3.004), f(-0.0)]);
        let line = accumulator.finish().to_string();
        assert_eq!(line, "4          (2 0 2 0) 2.0 (2.0000000000 2.0019531250) 0.003906 0.001465 1.3e-03 9.8e-04 5.7e-04 7.3e-04");
    }

    /// Since the second set of runs the sign of the validator's value is of no matter, and both values are printed.
    #[test]
    fn the_largest_relative_difference_has_its_values_since_the_second_runs() {
        let f = F16::from_f32;
        let line = |variant| {
            let mut accumulator = Accumulator::new(variant);
            accumulator.add(&[f(2.0), f(-3.0), f(0.0009)], &[f(2.002), f(-3.008), f(0.0018)]);
            accumulator.finish().to_string()
        };
        let words = |variant| line(variant).split_whitespace().skip(10).map(str::to_owned).collect::<Vec<_>>().join(" ");
        assert_eq!(words(Variant::First), "1.0e+00 9.8e-04 3.3e-01 1.6e-03");
        assert_eq!(words(Variant::Second), "1.0e+00 2.6e-03 (-3.0000000000 -3.0078125000) 3.3e-01 1.6e-03");
        assert_eq!(words(Variant::Later), words(Variant::Second));
    }

    #[test]
    fn overflow_prints_as_on_the_studys_machine() {
        let mut accumulator = Accumulator::new(Variant::First);
        accumulator.add(&[F16::from_f32(65504.0), F16::NAN], &[F16::INFINITY, F16::ONE]);
        let line = accumulator.finish().to_string();
        assert_eq!(line, "2          (0 0 1 1) inf (65504.0000000000 inf) inf inf inf inf inf -nan");
    }
}
