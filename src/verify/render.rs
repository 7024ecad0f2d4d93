//! Reports as text for people and numbers for machines.

use super::budget::Budget;
use super::cause::Diagnosis;
use super::options::Judge;
use super::power::{Mutation, Power};
use super::report::{Classes, Location, Report, Value, Verdict, Warning, Worst};
use super::rule::NonFinite;
use super::values::Metric;
use std::fmt;

/// An integer with thousands separators.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3 + 1);
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// A measured number with `digits` significant digits, in plain notation where that is short.
pub fn short(x: f64, digits: usize) -> String {
    if x == 0.0 || !x.is_finite() {
        return format!("{x}");
    }
    let exponent = x.abs().log10().floor() as i32;
    if (-4..7).contains(&exponent) {
        let text = format!("{x:.*}", (digits as i32 - 1 - exponent).max(0) as usize);
        return match text.contains('.') {
            true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
            false => text,
        };
    }
    let text = format!("{x:.*e}", digits.saturating_sub(1));
    match text.split_once('e') {
        Some((m, e)) if m.contains('.') => format!("{}e{e}", m.trim_end_matches('0').trim_end_matches('.')),
        _ => text,
    }
}

/// Two numbers with as few digits as tell them apart, from `digits` on. 17 tell any two numbers of f64 apart.
pub fn apart(pair: [f64; 2], digits: usize) -> [String; 2] {
    let with = |digits| pair.map(|x| short(x, digits));
    (digits..17).map(with).find(|[a, b]| a != b).unwrap_or_else(|| with(17))
}

/// A share in percent: two decimals, of small shares two digits, without zeros at the end, and never 0 for some or 100 for not all.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    if part == 0 || whole == 0 {
        return "0 %".to_owned();
    }
    let share = 100.0 * part as f64 / whole as f64;
    let decimals = if share < 0.01 { (1.0 - share.log10().floor()) as usize } else { 2 };
    let text = |decimals: usize| format!("{share:.decimals$}").trim_end_matches('0').trim_end_matches('.').to_owned();
    let found = if part == whole { Some("100".to_owned()) } else { (decimals..=decimals + 2).map(text).find(|text| text != "100") };
    format!("{} %", found.unwrap_or_else(|| ">99.99".to_owned()))
}

/// The shortest decimal at least `x` with at most four digits: what one types to make a comparison pass.
pub fn rounded_up(x: f64) -> String {
    if x == 0.0 || !x.is_finite() {
        return format!("{x}");
    }
    let exponent = x.abs().log10().floor() as i32;
    for step in 0..3 {
        let unit = 10f64.powi(exponent - 2);
        let text = short((x / unit).ceil() * unit + f64::from(step) * unit, 4);
        // The text is what counts: it is read back by f64::from_str and rounded to f32.
        if text.parse::<f64>().is_ok_and(|v| v >= x && f64::from(v as f32) >= x) {
            return text;
        }
    }
    format!("{x:e}")
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&value(*self, DIGITS))
    }
}

/// Digits of a value that stands alone.
const DIGITS: usize = 7;

fn value(value: Value, digits: usize) -> String {
    match value {
        Value::Float(x) => short(x, digits),
        Value::Int(x) => x.to_string(),
    }
}

/// Both values of an element with as few digits as tell them apart, from seven on. 17 tell any two numbers of f64 apart.
fn values(at: &Location) -> [String; 2] {
    let with = |digits| [at.result, at.reference].map(|x| value(x, digits));
    let differ = at.result.to_f64() != at.reference.to_f64();
    (DIGITS..=17).map(with).find(|[a, r]| !differ || a != r).unwrap_or_else(|| with(17))
}

fn coordinates(at: &Location) -> String {
    format!("{:?}", at.coordinates)
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::ResultAllZero => write!(f, "the result is zero everywhere: did the kernel write anything?"),
            Warning::NothingFinite => write!(f, "no pair of elements is finite: no number was compared"),
            Warning::BothAllZero => write!(f, "both tensors are zero everywhere: this comparison says nothing"),
            Warning::ReferenceAllZero => write!(f, "the reference is zero everywhere: a kernel that wrote nothing would have passed"),
            Warning::ZerosWouldPass(0, _) => write!(f, "a result of zeros would have passed: the tolerance is too loose to trust"),
            Warning::ZerosWouldPass(n, nonzero) => write!(
                f,
                "a result of zeros would have passed at {} of {} elements that are not zero: the tolerance is too loose to trust",
                grouped(*n),
                grouped(*nonzero)
            ),
            Warning::EarlierWouldPass => {
                write!(f, "the earlier output would have passed: a kernel that does not write would not be found")
            }
            Warning::ReversedWouldPass => {
                write!(f, "the reference in the opposite order would have passed: the tolerance is wider than its elements differ")
            }
        }
    }
}

/// Width of the labels in every report that is drawn on a screen: one screen may show several of them.
pub(crate) const LABEL: usize = 11;

/// What else would pass where both sides are not finite.
const ALIKE: &str = "where NaN and infinities match their like (--equal-nonfinite, `NonFinite::EqualWhenSame`)";

/// That so many elements agree.
fn agree(elements: usize) -> String {
    match elements {
        1 => "1 element agrees".to_owned(),
        n => format!("{} elements agree", grouped(n as u64)),
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.headline(f)?;
        for warning in self.warnings() {
            write!(f, "\n  {:<LABEL$}{warning}", "warning")?;
        }
        if let Some(cause) = &self.cause {
            write!(f, "\n  {:<LABEL$}{cause}", "cause")?;
        }
        self.worst_lines(f)?;
        self.first_lines(f)?;
        self.metric_lines(f)?;
        self.budget_line(f)?;
        self.power_line(f)?;
        if self.verdict == Verdict::Pass && !self.counts_zeros() {
            write!(f, "\n  {:<LABEL$}where they would pass was not counted: Level::All tells whether this pass is to be trusted", "zeros")?;
        }
        self.class_line(f)?;
        if let Some(h) = &self.histograms {
            write!(f, "\n{}\n{}\n{}", h.relative, h.epsilon, h.ratio)?;
        }
        if !self.explained {
            write!(f, "\n  {:<LABEL$}no: Explain::Always adds indices, ulps and the smallest tolerances that pass", "explained")?;
        }
        write!(f, "\n  {:<LABEL$}{} ({})", "device", self.device, self.why)
    }
}

impl Report {
    fn headline(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = self.verdict.word();
        let total = grouped(self.elements as u64);
        let share = |n: u64| format!("{} of {total} elements", grouped(n));
        let percent = percent(self.mismatches, self.elements as u64);
        write!(f, "{verdict}  ")?;
        match (self.judge, self.mismatches) {
            (Judge::Elements, 0) => f.write_str(&agree(self.elements))?,
            (Judge::Elements, n) => write!(f, "{} differ ({percent})", share(n))?,
            (Judge::Thresholds | Judge::Both, n) => {
                let with = if self.judge == Judge::Both { "elements and " } else { "" };
                write!(f, "by {with}metrics {}", self.vector())?;
                for (name, value, limit) in self.metrics_beyond() {
                    let [value, limit] = apart([value, limit], 3);
                    write!(f, ", {name} {value} above {limit}")?;
                }
                if self.nonfinite_pairs > 0 && !self.passed() {
                    write!(f, ", {} not finite", share(self.nonfinite_pairs))?;
                }
                // Not "differ" in front of a PASS: the tolerance of elements was not what counted.
                match n {
                    0 => write!(f, "; {}", agree(self.elements))?,
                    n => write!(f, "; {} beyond the tolerance ({percent})", share(n))?,
                }
            }
        }
        if self.allowed_mismatches > 0 {
            write!(f, ", {} may", grouped(self.allowed_mismatches))?;
        }
        let shape: Vec<String> = self.shape.iter().map(usize::to_string).collect();
        write!(f, "   {}[{}]", self.result_dtype, shape.join(","))?;
        if self.reference_dtype != self.result_dtype {
            write!(f, " against {}", self.reference_dtype)?;
        }
        let comma = if self.by_binade { "," } else { "" };
        write!(f, "   rtol {}{}{comma} atol {}", short(self.rtol, 4), self.of_binade(), short(self.atol, 4))
    }

    /// The metrics beside the verdict vector that are above their thresholds: name, value, threshold.
    fn metrics_beyond(&self) -> impl Iterator<Item = (&'static str, f64, f64)> {
        let worst = |worst: &Option<Worst>| worst.as_ref().map_or(0.0, |worst| worst.value);
        let metrics = self.metrics.iter().flat_map(move |m| {
            [
                ("max rel (|r| > 1e-3)", worst(&m.worst_relative_old), m.thresholds.relative_old),
                ("max eps", worst(&m.worst_epsilon), m.thresholds.epsilon),
                ("relative L1", m.relative_l1, m.thresholds.relative_l1),
                ("relative L2", m.relative_l2, m.thresholds.relative_l2),
            ]
        });
        // A metric that is NaN is within no threshold.
        metrics.filter(|(_, value, limit)| value > limit || value.is_nan())
    }

    /// The verdict vector of the metrics: `[1 1 0]`.
    fn vector(&self) -> String {
        let [rms, absolute, relative] = self.metrics.as_ref().map_or([false; 3], |m| m.vector).map(u8::from);
        format!("[{rms} {absolute} {relative}]")
    }

    /// The maximum of each metric, and the element that has it where the verdict was explained.
    fn worst_lines(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = [
            (Metric::Ratio, "worst", " x tolerance"),
            (Metric::Absolute, "max abs", ""),
            (Metric::Relative, "max rel", ""),
            (Metric::Epsilon, "max eps", " eps"),
            (Metric::Ulp, "max ulp", " ulp"),
        ];
        let shown: Vec<(&str, &Worst, String)> = lines
            .into_iter()
            .filter_map(|(m, label, unit)| {
                let w = self.worst(m)?;
                Some((label, w, format!("{}{unit}", short(w.value, 4))))
            })
            .collect();
        let width = |text: &dyn Fn(&Location) -> String| {
            shown.iter().filter_map(|(_, w, _)| w.at.as_ref()).map(|l| text(l).len()).max().unwrap_or(0)
        };
        let at = width(&coordinates);
        let result = width(&|l| values(l)[0].clone());
        let reference = width(&|l| values(l)[1].clone());
        for (label, w, value) in &shown {
            write!(f, "\n  {label:<LABEL$}")?;
            if let Some(l) = &w.at {
                let [a, r] = values(l);
                write!(f, "{:<at$}   result {a:<result$}   reference {r:<reference$}   ", coordinates(l))?;
            }
            write!(f, "{value}")?;
        }
        Ok(())
    }

    /// The first mismatches.
    fn first_lines(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows: Vec<(String, [String; 2])> = self.first.iter().map(|at| (coordinates(at), values(at))).collect();
        let at_width = rows.iter().map(|(at, _)| at.len()).max().unwrap_or(0);
        let result_width = rows.iter().map(|(_, [result, _])| result.len()).max().unwrap_or(0);
        for (i, (at, [result, reference])) in rows.iter().enumerate() {
            let label = if i == 0 { "first" } else { "" };
            write!(f, "\n  {label:<LABEL$}{at:<at_width$}   result {result:<result_width$}   reference {reference}")?;
        }
        Ok(())
    }

    fn metric_lines(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(m) = &self.metrics else { return Ok(()) };
        let old = m.worst_relative_old.as_ref().map_or(0.0, |w| w.value);
        write!(
            f,
            "\n  {:<LABEL$}RMS {}   mean abs {}   max rel (|r| > 1e-3) {}   {}",
            "metrics",
            short(m.rms, 3),
            short(m.mean_absolute, 3),
            short(old, 3),
            self.vector()
        )?;
        write!(
            f,
            "\n  {:<LABEL$}relative L1 {}   L2 {}   Linf {}   SNR {} dB",
            "norms",
            short(m.relative_l1, 3),
            short(m.relative_l2, 3),
            short(m.relative_linf, 3),
            short(m.snr, 3)
        )?;
        if let Some(s) = &m.similarity {
            let [cosine, distance, squared] = [short(s.cosine, 7), short(s.cosine_distance, 3), short(s.squared_difference, 3)];
            let angle = match s.cosine.is_nan() {
                false => format!("{cosine}   1 - cosine {distance}"),
                true if s.squared_difference.is_finite() => "not known: the norms are too far apart for these sums".to_owned(),
                true => "not known: a difference overflowed".to_owned(),
            };
            write!(f, "\n  {:<LABEL$}{angle}   relative squared difference {squared}", "cosine")?;
        }
        match (m.passing_rtol, m.passing_atol) {
            (Some(rtol), Some(atol)) => self.passing_line(rtol, atol, f),
            _ => Ok(()),
        }
    }

    /// What rtol is a multiple of, where that is not |r|: a number of one of both is none of the other.
    fn of_binade(&self) -> &'static str {
        if self.by_binade { " of the binade" } else { "" }
    }

    /// The smallest tolerances that pass.
    fn passing_line(&self, rtol: f64, atol: f64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A tolerance is rounded to the pair's arithmetic, of which these are numbers: one that passes may be the larger number.
        let finite_mismatch = self.mismatches > 0 && (atol > self.atol || rtol > self.rtol);
        let options = [("rtol", rtol, self.of_binade(), "atol"), ("atol", atol, "", "rtol")];
        let (some, none): (Vec<_>, Vec<_>) = options.into_iter().partition(|(_, x, ..)| x.is_finite());
        let with = |(name, x, of, other): &(&str, f64, &str, &str)| format!("{name} {}{of} ({other} as it is)", rounded_up(*x));
        let some: Vec<String> = some.iter().map(with).collect();
        let none: Vec<String> = none.iter().map(|(name, .., other)| format!("not with any {name} ({other} as it is)")).collect();
        let found = if some.is_empty() { None } else { Some(format!("with {}", some.join(" or "))) };
        let text = found.into_iter().chain(none).collect::<Vec<_>>().join(", ");
        let (label, would) = match self.nonfinite_mismatch() {
            _ if finite_mismatch => ("would pass", ""),
            true => ("margin", "finite pairs would still pass "),
            false => ("margin", "would still pass "),
        };
        if !self.nonfinite_mismatch() {
            return write!(f, "\n  {label:<LABEL$}{would}{text}");
        }
        let fail = self.nonfinite == NonFinite::Fail;
        let only = if finite_mismatch { ", finite pairs only" } else { "" };
        match (self.are_alike(), self.are_of_one_class()) {
            (true, true) if fail && !finite_mismatch => write!(f, "\n  {:<LABEL$}{ALIKE}", "would pass"),
            (true, true) if fail => write!(f, "\n  {label:<LABEL$}{would}{text} {ALIKE}"),
            (true, true) => write!(f, "\n  {label:<LABEL$}{would}{text}"),
            (true, false) if fail => write!(f, "\n  {label:<LABEL$}{would}{text}{only}; the others may pass {ALIKE}"),
            _ => write!(f, "\n  {label:<LABEL$}{would}{text}{only}"),
        }
    }

    /// Whether pairs that are not finite may be among the mismatches.
    fn nonfinite_mismatch(&self) -> bool {
        self.nonfinite_pairs > 0 && self.mismatches > 0
    }

    /// Whether both sides have as many of each class that is not finite, in the same elements.
    fn are_alike(&self) -> bool {
        let classes = |c: &Classes| [c.nans, c.positive_infinities, c.negative_infinities];
        classes(&self.result) == classes(&self.reference) && self.result.nonfinite() == self.nonfinite_pairs
    }

    /// Whether that is one class: of several, other ones may stand beside each other.
    fn are_of_one_class(&self) -> bool {
        let c = &self.result;
        [c.nans, c.positive_infinities, c.negative_infinities].contains(&c.nonfinite())
    }

    /// What roundings explain of the error, where it is one of all elements.
    fn budget_line(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let everywhere = self.passed() || self.cause.as_ref().is_some_and(Diagnosis::is_of_all_errors);
        let Some(budget) = Budget::of(self).filter(|b| self.explained && everywhere && b.measured > 0.0) else { return Ok(()) };
        let (measured, ratio) = (short(budget.measured, 3), short(budget.ratio(), 2));
        write!(f, "\n  {:<LABEL$}RMS error {measured} of the RMS reference = {ratio} x what rounding to {}", "budget", self.result_dtype)?;
        if self.reference_dtype != self.result_dtype {
            write!(f, " and {}", self.reference_dtype)?;
        }
        write!(f, " gives at most")
    }

    /// What would have failed in the place of a result that passed, and what would not.
    fn power_line(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Power { smallest_error, smallest_ulps, found, missed, unchanged, .. } = &self.power;
        if !self.passed() || found.is_empty() && missed.is_empty() {
            return Ok(());
        }
        let names = |mutations: &[Mutation]| mutations.iter().map(Mutation::to_string).collect::<Vec<_>>().join(", ");
        write!(f, "\n  {:<LABEL$}", "power")?;
        match *smallest_error {
            Some(e) if e < f64::MIN_POSITIVE => write!(f, "any relative error everywhere fails")?,
            Some(e) if e.is_finite() => write!(f, "a relative error of {} everywhere fails", rounded_up(e))?,
            Some(_) => write!(f, "no relative error everywhere fails")?,
            None => write!(f, "which relative errors fail was not counted")?,
        }
        if let Some(ulps) = smallest_ulps {
            write!(f, ", the largest element {} ulp off", grouped(*ulps))?;
        }
        match (found.len(), missed.len()) {
            (1, 0) => write!(f, "; the broken result that was tried would fail"),
            (tried, 0) if smallest_error.is_some_and(f64::is_finite) => write!(f, ", so do all {tried} broken results that were tried"),
            (tried, 0) => write!(f, "; all {tried} broken results that were tried would fail"),
            (_, _) => write!(f, "; would have passed: {}", names(missed)),
        }?;
        match unchanged.is_empty() {
            true => Ok(()),
            false => write!(f, "\n  {:<LABEL$}these data cannot show, since the reference stays the same: {}", "", names(unchanged)),
        }
    }

    fn class_line(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sides = [("result", &self.result), ("reference", &self.reference)];
        if sides.iter().all(|(_, c)| c.nonfinite() == 0) {
            return Ok(());
        }
        write!(f, "\n  {:<LABEL$}", "non-finite")?;
        for (i, (name, c)) in sides.into_iter().enumerate() {
            let gap = if i > 0 { "   " } else { "" };
            write!(
                f,
                "{gap}{name}: {} NaN, {} +inf, {} -inf",
                grouped(c.nans),
                grouped(c.positive_infinities),
                grouped(c.negative_infinities)
            )?;
        }
        Ok(())
    }
}

/// Serializes infinities and NaN, which JSON lacks, as the strings "inf", "-inf" and "nan".
#[cfg(feature = "serde")]
pub(crate) fn json_number<S: serde::Serializer>(x: &f64, s: S) -> Result<S::Ok, S::Error> {
    match x {
        x if x.is_nan() => s.serialize_str("nan"),
        x if x.is_infinite() => s.serialize_str(if *x > 0.0 { "inf" } else { "-inf" }),
        x => s.serialize_f64(*x),
    }
}

/// [`json_name`] of a format that may be absent.
#[cfg(feature = "serde")]
pub(crate) fn json_optional_name<S: serde::Serializer>(dtype: &Option<crate::dtype::DType>, s: S) -> Result<S::Ok, S::Error> {
    match dtype {
        Some(dtype) => json_name(dtype, s),
        None => s.serialize_none(),
    }
}

/// [`json_number`] of a number that may be absent.
#[cfg(feature = "serde")]
pub(crate) fn json_optional_number<S: serde::Serializer>(x: &Option<f64>, s: S) -> Result<S::Ok, S::Error> {
    match x {
        Some(x) => json_number(x, s),
        None => s.serialize_none(),
    }
}

/// Serializes a format by its name.
#[cfg(feature = "serde")]
pub(crate) fn json_name<S: serde::Serializer>(dtype: &crate::dtype::DType, s: S) -> Result<S::Ok, S::Error> {
    s.serialize_str(dtype.name())
}

#[cfg(test)]
mod tests;
