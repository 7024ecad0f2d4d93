//! The tables of the fp16 study of 2022 from a run, each figure beside the published one with the difference.
//!
//! A run has a case a test: axes `configuration`, `range`, `kernel`, `validator`, `arch`, `variant`, and the metrics of the study's line. Where the text does not say what a
//! figure is a mean of, the table's note does; that was found with the lines that the study kept, and with a run of all tests of r0. Four things follow the study's figures
//! rather than its text: a figure is made of numbers as the lines print them, relative ones with two digits; a test whose metric is infinite is left out of means and maxima; the largest maxEpsilonDiff of r4 and r5, and whether it is at most 1, are in the spacing
//! above a power of two, where the line has the one below.
//!
//! The histograms of sections 2.5 and 3 are computed anew, from the replay.

mod published;

use super::record::CaseResult;
use super::report::Run;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::matrix_core::Arch;
use crate::suite::replay::{Configuration, Kernel, Range, Replay, StudyHistograms, Validator, Variant};
use published::{BETTER, Combination, Printed, RANGES, TABLES, WORST};
use std::fmt::Write as _;

/// A published table of means.
struct Table {
    title: &'static str,
    /// What a figure is a mean of.
    note: &'static str,
    columns: &'static [Column],
    rows: &'static [Row],
}

/// A column is a mean over its ranges and combinations.
struct Column {
    name: &'static str,
    arch: &'static str,
    ranges: &'static [&'static str],
    combinations: &'static [Combination],
}

struct Row {
    metric: Metric,
    statistic: Statistic,
    /// As printed, one a column.
    figures: &'static [&'static str],
}

/// The study's metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Metric {
    Epsilon,
    Absolute,
    Relative,
    RelativeOld,
    Rms,
}

/// What is made of the tests of one range and combination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Statistic {
    Mean,
    Most,
    PassRate,
}

/// In which order partial sums are added, where float atomics add them in any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// Ascending, as a run has them.
    Ascending,
    /// Each element in the order that brings it nearest to the validator's.
    Nearest,
    /// Each element in the order that brings it farthest from it.
    Farthest,
}

impl Order {
    const fn prefix(self) -> &'static str {
        match self {
            Order::Ascending => "",
            Order::Nearest => "nearest_",
            Order::Farthest => "farthest_",
        }
    }
}

impl Metric {
    /// A number as the study's lines print it.
    fn printed(self, x: f64) -> f64 {
        let text = match self {
            Metric::Epsilon => format!("{x:.1}"),
            Metric::Absolute => format!("{x:.6}"),
            Metric::Relative | Metric::RelativeOld | Metric::Rms => format!("{x:.1e}"),
        };
        text.parse().unwrap_or(x)
    }

    /// The name in the study, and that of a case's metric.
    const fn names(self) -> (&'static str, &'static str) {
        match self {
            Metric::Epsilon => ("maxEpsilonDiff", "max_eps"),
            Metric::Absolute => ("maxAbsDiff", "max_abs"),
            Metric::Relative => ("maxRelDiff", "max_rel"),
            Metric::RelativeOld => ("maxRelDiff old", "max_rel_old"),
            Metric::Rms => ("RMS", "rms"),
        }
    }
}

impl Statistic {
    const fn word(self) -> &'static str {
        match self {
            Statistic::Mean => "ave",
            Statistic::Most => "max",
            Statistic::PassRate => "pass rate",
        }
    }
}

/// The tests of a run.
struct Tests<'a>(Vec<Test<'a>>);

/// A test with the values of its axes.
struct Test<'a> {
    arch: &'a str,
    range: &'a str,
    combination: (&'a str, &'a str),
    case: &'a CaseResult,
}

impl<'a> Tests<'a> {
    /// Those of the study's first set of runs.
    fn of(run: &'a Run) -> Tests<'a> {
        let test = |case: &'a CaseResult| {
            let axis = |name: &str| case.axes.iter().find(|(axis, _)| axis == name).map(|(_, value)| value.as_str());
            let first = axis("variant").is_none_or(|variant| variant == Variant::First.name());
            axis("configuration").filter(|_| first && case.metrics.iter().any(|m| m.name == "max_eps"))?;
            Some(Test { arch: axis("arch")?, range: axis("range")?, combination: (axis("kernel")?, axis("validator")?), case })
        };
        Tests(run.cases.iter().filter_map(test).collect())
    }

    fn group(&self, arch: &str, range: &str, combination: Combination) -> impl Iterator<Item = &'a CaseResult> {
        let tests = self.0.iter().filter(move |test| test.arch == arch && test.range == range && test.combination == combination);
        tests.map(|test| test.case)
    }

    /// The figure of a column; `None` where a group that it is a mean of has no test.
    fn figure(&self, column: &Column, row: &Row, order: Order) -> Option<f64> {
        let groups = column.ranges.iter().flat_map(|range| column.combinations.iter().map(move |&combination| (*range, combination)));
        let values: Option<Vec<Vec<f64>>> = groups
            .map(|(range, combination)| {
                let tests = self.group(column.arch, range, combination);
                let values: Vec<f64> = tests.filter_map(|case| value(case, row, range, order)).collect();
                (!values.is_empty()).then_some(values)
            })
            .collect();
        let values = values?;
        if row.statistic == Statistic::PassRate {
            let all = values.concat();
            return Some(100.0 * all.iter().filter(|&&epsilon| epsilon <= 1.0).count() as f64 / all.len() as f64);
        }
        let of_group = |values: &Vec<f64>| {
            let finite: Vec<f64> = values.iter().copied().filter(|x| x.is_finite()).collect();
            match row.statistic {
                Statistic::Most => finite.iter().copied().fold(0.0, f64::max),
                _ => finite.iter().sum::<f64>() / finite.len().max(1) as f64,
            }
        };
        Some(values.iter().map(of_group).sum::<f64>() / values.len() as f64)
    }

    /// The largest finite value of a metric in a range, of all combinations on both chips.
    fn largest(&self, metric: Metric, range: &str) -> Option<f64> {
        let values = self.0.iter().filter(|test| test.range == range).filter_map(|test| named(test.case, metric.names().1));
        values.filter(|x| x.is_finite()).reduce(f64::max)
    }

    /// How many tests of a range have a metric of at most `limit`, and how many there are.
    fn within(&self, metric: Metric, range: &str, limit: f64) -> (usize, usize) {
        let values = self.0.iter().filter(|test| test.range == range).filter_map(|test| named(test.case, metric.names().1));
        values.fold((0, 0), |(within, all), x| (within + usize::from(x <= limit), all + 1))
    }
}

fn named(case: &CaseResult, name: &str) -> Option<f64> {
    case.metrics.iter().find(|metric| metric.name == name).map(|metric| metric.value)
}

/// A metric by its name in an order of partial sums; tests without partial sums have one value for all.
fn in_order(case: &CaseResult, name: &str, order: Order) -> Option<f64> {
    named(case, &format!("{}{name}", order.prefix())).or_else(|| named(case, name))
}

/// The value of a test for a row.
fn value(case: &CaseResult, row: &Row, range: &str, order: Order) -> Option<f64> {
    let printed = row.metric.printed(in_order(case, row.metric.names().1, order)?);
    let away_from_zero = row.statistic == Statistic::Most && (range == "r4" || range == "r5");
    let usual = row.metric == Metric::Epsilon && (row.statistic == Statistic::PassRate || away_from_zero);
    Some(if usual { in_usual_spacing(case, printed, order) } else { printed })
}

/// maxEpsilonDiff in the spacing of f16 above a power of two: half of what the line has where the smaller value is one.
fn in_usual_spacing(case: &CaseResult, printed: f64, order: Order) -> f64 {
    let (Some(val), Some(kern)) = (in_order(case, "max_eps_val", order), in_order(case, "max_eps_kern", order)) else { return printed };
    let least = val.abs().min(kern.abs());
    // Up to 2^-14 all spacings are the same.
    let power_of_two = least > 2f64.powi(-14) && least.is_finite() && least.to_bits() & ((1 << 52) - 1) == 0;
    if power_of_two { printed / 2.0 } else { printed }
}

/// The tables of a run as text: a published figure, this run's, and the difference.
///
/// # Errors
/// [`Error::InvalidArgument`] for a run without a test of the study.
pub fn tables(run: &Run) -> Result<String> {
    let tests = Tests::of(run);
    if tests.0.is_empty() {
        return Err(Error::InvalidArgument {
            what: "run",
            value: run.source.clone(),
            limit: "tests of the study have axes configuration, range, kernel, validator and arch, and the metric max_eps; no case has"
                .to_owned(),
        });
    }
    let mut out = format!("{}: {} tests of the study\n", run.source, tests.0.len());
    for table in &TABLES {
        out += &drawn(table, &tests);
    }
    Ok(out + &thresholds(&tests))
}

/// Width of the first column, and of the others.
const FIRST: usize = 26;
const WIDTH: usize = 14;

fn line(first: &str, cells: impl IntoIterator<Item = String>) -> String {
    let cells: String = cells.into_iter().map(|cell| format!("{cell:>WIDTH$}")).collect();
    format!("  {first:<FIRST$}{cells}").trim_end().to_owned() + "\n"
}

fn drawn(table: &Table, tests: &Tests<'_>) -> String {
    let count = |column: &Column| {
        let groups =
            column.ranges.iter().flat_map(|range| column.combinations.iter().map(move |&c| tests.group(column.arch, range, c).count()));
        let (least, most) = groups.fold((usize::MAX, 0), |(least, most), n| (least.min(n), most.max(n)));
        if least == most { most.to_string() } else { format!("{least} to {most}") }
    };
    let mut out = format!("\n{}\n  {}\n", table.title, table.note);
    out += &line("", table.columns.iter().map(|column| column.name.to_owned()));
    out += &line("tests a group, of 107", table.columns.iter().map(count));
    for row in table.rows {
        let figures = |order| -> Vec<Option<f64>> { table.columns.iter().map(|column| tests.figure(column, row, order)).collect() };
        let found = figures(Order::Ascending);
        let name = format!("{} {}", row.metric.names().0, row.statistic.word());
        out += &line(&name, row.figures.iter().map(|&figure| figure.to_owned()));
        let pairs = || found.iter().zip(row.figures);
        out += &line("  this run", pairs().map(|(x, figure)| x.map_or("-".to_owned(), |x| like(x, figure))));
        out += &line("  difference", pairs().map(|(x, figure)| x.map_or("-".to_owned(), |x| difference(x, figure))));
        for (name, order) in [("  nearest order", Order::Nearest), ("  farthest order", Order::Farthest)] {
            let other = figures(order);
            // Rows that no order changes need none.
            if other != found {
                out += &line(name, other.iter().zip(row.figures).map(|(x, figure)| x.map_or("-".to_owned(), |x| like(x, figure))));
            }
        }
    }
    out
}

/// Ties go up, as in the published tables: 20.125 is 20.13 there, where formatting takes the even 20.12.
fn half_up(x: f64, decimals: usize) -> f64 {
    let unit = 10_f64.powi(decimals as i32);
    (x * unit).round() / unit
}

/// A value with the digits of a published figure.
fn like(x: f64, figure: &str) -> String {
    let decimals = |text: &str| text.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    if let Some(share) = figure.strip_suffix('%') {
        return format!("{x:.*}%", decimals(share));
    }
    let Some((digits, _)) = figure.split_once('E') else {
        let text = format!("{:.*}", decimals(figure), half_up(x, decimals(figure)));
        let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
        let whole = whole.parse().map_or(whole.to_owned(), crate::verify::grouped);
        return if fraction.is_empty() { whole } else { format!("{whole}.{fraction}") };
    };
    let text = format!("{x:.*e}", decimals(digits));
    match text.split_once('e') {
        Some((digits, exponent)) => {
            let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |exponent| ('-', exponent));
            format!("{digits}E{sign}{exponent:0>2}")
        }
        None => text,
    }
}

/// `=` where a value prints as the published figure, else the difference in percent of that; in points for shares.
fn difference(x: f64, figure: &str) -> String {
    let published: f64 = figure.trim_end_matches('%').replace(',', "").parse().unwrap_or(f64::NAN);
    if like(x, figure).replace(',', "") == figure.replace(',', "") {
        "=".to_owned()
    } else if figure.ends_with('%') {
        format!("{:+.2}", x - published)
    } else {
        format!("{:+.1} %", 100.0 * (x - published) / published)
    }
}

/// What thresholds would separate: with all kernels right, the smallest that pass each test, and what those of the text do.
fn thresholds(tests: &Tests<'_>) -> String {
    let mut out = "\nThresholds (both chips, all combinations)\n  Every kernel of the study is right. First the smallest threshold with which every test passes, \
         overflow left out;\n  then the tests that pass thresholds of the text: those of its test driver, of its proposals for f32 and f16.\n"
        .to_owned();
    out += &line("", RANGES.map(str::to_owned));
    for metric in [Metric::Rms, Metric::Absolute, Metric::Relative, Metric::RelativeOld, Metric::Epsilon] {
        let largest = RANGES.map(|range| tests.largest(metric, range).map_or("-".to_owned(), |x| crate::verify::short(x, 4)));
        out += &line(&format!("{} <=", metric.names().0), largest);
    }
    for (metric, limit) in [(Metric::RelativeOld, 0.25), (Metric::Relative, 1e-3), (Metric::Rms, 1e-5)] {
        let passing = RANGES.map(|range| match tests.within(metric, range, limit) {
            (_, 0) => "-".to_owned(),
            (within, all) => format!("{within} of {all}"),
        });
        out += &line(&format!("{} <= {limit}", metric.names().0), passing);
    }
    out
}

/// The configuration of sections 2.5 and 3.
const CONFIGURATION: &str = "padding_kernel_gemmK_CHECK_RESNET50_F16_CONFIG1";

/// The histograms of section 3, computed, beside the published ones: 802,816 elements, three validators. With `worst` those of section 2.5 come first: 205,520,896
/// elements, which takes minutes on a host.
///
/// # Errors
/// Whatever the device reports.
pub fn histograms(device: &Device, worst: bool) -> Result<String> {
    let batch = |batch: usize| Ok(Configuration { batch, ..Configuration::named(CONFIGURATION)? });
    let mut out = String::new();
    if worst {
        out += "\n2.5 The worst test on MI200, r0: histograms of relDiff old and epsilonDiff\n";
        out += &histogram(&WORST, &computed(batch(256)?, Variant::First, device)?);
    }
    out += "\n3 A better validation function: the configuration of 2.5 with a batch of 1, which the text does not say\n";
    for (printed, variant) in BETTER.iter().zip([Variant::First, Variant::Accumulate4, Variant::Later]) {
        out += &histogram(printed, &computed(batch(1)?, variant, device)?);
    }
    Ok(out)
}

fn computed(configuration: Configuration, variant: Variant, device: &Device) -> Result<StudyHistograms> {
    let range = "r0".parse::<Range>()?;
    let (arch, kernel, validator) = (Arch::Gfx90a, Kernel::Xdlops, Validator::Cpu);
    Ok(Replay { configuration, range, seed: 1, arch, kernel, validator, variant, device: device.clone() }.run()?.metrics.histograms)
}

fn histogram(printed: &Printed, found: &StudyHistograms) -> String {
    let mut out = line(printed.name, ["published", "computed", "difference"].map(str::to_owned));
    let mut count = |name: &str, published: u64, found: u64| {
        let difference = if published == found { "=".to_owned() } else { format!("{:+}", i128::from(found) - i128::from(published)) };
        out += &line(name, [crate::verify::grouped(published), crate::verify::grouped(found), difference]);
    };
    let bins = ["0", "(0, 1e-6)", "[1e-6, 1e-5)", "[1e-5, 1e-4)", "[1e-4, 1e-3)", "[1e-3, 1e-2)", "[1e-2, 0.1)", "[0.1, 1)", ">= 1"];
    for (i, name) in bins.iter().enumerate() {
        count(&format!("relDiff old {name}"), printed.relative[i], found.relative[i]);
    }
    for (i, name) in ["0", "1", "2", "[3, 10]", "[11, 100]", "> 100"].iter().enumerate() {
        count(&format!("epsilonDiff {name}"), printed.epsilon[i], found.epsilon[i]);
    }
    let (relative, v, k) = found.max_relative;
    let (epsilon, ev, ek) = found.max_epsilon;
    let largest = [
        ("relDiff old", printed.largest_relative, [relative, v.into(), k.into()]),
        ("epsilonDiff", printed.largest_epsilon, [epsilon.into(), ev.into(), ek.into()]),
    ];
    for (name, figures, values) in largest {
        for (part, (figure, x)) in ["max", "val", "kern"].iter().zip(figures.iter().zip(values)) {
            let digits =
                figure.trim_start_matches(['-', '0', '.']).split('E').next().map_or(1, |d| d.chars().filter(char::is_ascii_digit).count());
            let text = crate::verify::short(x, digits.max(1));
            let same = figure.parse::<f64>() == text.parse::<f64>();
            let _ =
                write!(out, "{}", line(&format!("{name} {part}"), [(*figure).to_owned(), text, if same { "=" } else { "" }.to_owned()]));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::published::ALL;
    use super::*;
    use crate::suite::record::{CaseOutcome, Expected, MetricValue, RunHeader, SCHEMA};

    fn test(arch: &str, range: &str, (kernel, validator): Combination, metrics: &[(&str, f64)]) -> CaseResult {
        let axes =
            [("configuration", "c"), ("range", range), ("kernel", kernel), ("validator", validator), ("arch", arch), ("variant", "first")];
        CaseResult {
            case: String::new(),
            groups: Vec::new(),
            axes: axes.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
            command: String::new(),
            device: "host".to_owned(),
            expected: Expected::Any,
            outcome: CaseOutcome::Pass,
            ok: true,
            reasons: Vec::new(),
            findings: Vec::new(),
            metrics: metrics.iter().map(|&(name, value)| MetricValue { name: name.to_owned(), value, limit: None }).collect(),
            report: None,
            warnings: Vec::new(),
            details: None,
            repeatable: true,
            equal_nonfinite: false,
            seconds: 0.0,
        }
    }

    fn run(cases: Vec<CaseResult>) -> Run {
        let header = RunHeader {
            schema: SCHEMA,
            tool: String::new(),
            suite: "fp16-study".to_owned(),
            fingerprint: String::new(),
            code: String::new(),
            cases: cases.len() as u64,
            selection: String::new(),
            selected: cases.len() as u64,
            before_shard: cases.len() as u64,
            devices: Vec::new(),
            started: 0,
        };
        let cases = cases.into_iter().enumerate().map(|(i, case)| CaseResult { case: i.to_string(), ..case });
        Run::new("r.jsonl", header, cases.collect()).unwrap()
    }

    const COLUMN: Column = Column { name: "r5", arch: "gfx90a", ranges: &["r5"], combinations: &ALL };

    /// The means of three combinations, then their mean; infinite values count for the pass rate alone.
    #[test]
    fn a_figure_is_a_mean_of_groups() {
        let eps = |combination, value: f64, val: f64| {
            test("gfx90a", "r5", combination, &[("max_eps", value), ("max_eps_val", val), ("max_eps_kern", 2.0 * val)])
        };
        let cases = vec![
            eps(ALL[0], 1.0, 1.5),
            eps(ALL[0], 2.0, 4.0),
            eps(ALL[0], 3.0, 1.5),
            eps(ALL[1], 2.0, 4.0),
            eps(ALL[2], 0.0, 0.0),
            eps(ALL[2], f64::INFINITY, 65504.0),
            test("gfx908", "r5", ALL[0], &[("max_eps", 1e6)]),
            test("gfx90a", "r1", ALL[0], &[("max_eps", 1e6)]),
        ];
        let run = run(cases);
        let tests = Tests::of(&run);
        for (statistic, expected, reason) in [
            (Statistic::Mean, (2.0 + 2.0 + 0.0) / 3.0, "of what the lines have"),
            (Statistic::Most, (3.0 + 1.0 + 0.0) / 3.0, "in the usual spacing: 2 at a power of two is 1"),
            (Statistic::PassRate, 100.0 * 4.0 / 6.0, "of all six tests; overflow does not pass"),
        ] {
            let row = Row { metric: Metric::Epsilon, statistic, figures: &[] };
            assert_eq!(tests.figure(&COLUMN, &row, Order::Ascending), Some(expected), "{reason}");
        }
        let row = Row { metric: Metric::Rms, statistic: Statistic::Mean, figures: &[] };
        assert_eq!(tests.figure(&COLUMN, &row, Order::Ascending), None, "no test has that metric");
        assert_eq!(tests.within(Metric::Epsilon, "r5", 2.0), (4, 7));
        assert_eq!((tests.largest(Metric::Epsilon, "r5"), tests.largest(Metric::Epsilon, "r4")), (Some(1e6), None));
    }

    /// The largest maxRelDiff of r0 on MI200: 226.5, 85.7 and 17.5 are printed with two digits, of which the text has the mean.
    #[test]
    fn figures_are_of_printed_numbers_and_orders_bound_them() {
        let relative = |combination, value: f64, more: &[(&str, f64)]| {
            let metrics: Vec<(&str, f64)> = [("max_rel", value), ("max_eps", 1.0)].into_iter().chain(more.iter().copied()).collect();
            test("gfx90a", "r5", combination, &metrics)
        };
        let orders = [("nearest_max_rel", 12.34), ("farthest_max_rel", 300.0)];
        let run = run(vec![relative(ALL[0], 226.5, &[]), relative(ALL[1], 85.714, &orders), relative(ALL[2], 17.5, &[])]);
        let row = Row { metric: Metric::Relative, statistic: Statistic::Most, figures: &["111.33"] };
        for (order, expected) in [
            (Order::Ascending, (230.0 + 86.0 + 18.0) / 3.0),
            (Order::Nearest, (230.0 + 12.0 + 18.0) / 3.0),
            (Order::Farthest, (230.0 + 300.0 + 18.0) / 3.0),
        ] {
            assert_eq!(Tests::of(&run).figure(&COLUMN, &row, order), Some(expected), "{order:?}");
        }
        for (metric, x, printed) in [
            (Metric::Rms, 1.3533e-5, 1.4e-5),
            (Metric::Absolute, 0.0390625, 0.039062),
            (Metric::Epsilon, 2780.0, 2780.0),
            (Metric::Rms, f64::INFINITY, f64::INFINITY),
        ] {
            assert_eq!(metric.printed(x), printed, "{metric:?}");
        }
        let text = tables(&run).unwrap();
        let rows: Vec<String> = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        let shown = |row: &str| rows.iter().any(|found| found == row);
        assert!(shown("nearest order - - 8.67E+01") && shown("farthest order - - 1.83E+02"), "{text}");
    }

    #[test]
    fn values_are_printed_as_the_study_prints_them() {
        for (x, figure, text, difference) in [
            (314.2391, "314.24", "314.24", "="),
            (23_316.334, "23,316.33", "23,316.33", "="),
            (2.9999, "3", "3", "="),
            (20.125, "20.13", "20.13", "="),
            (5.6412e-4, "5.64E-04", "5.64E-04", "="),
            (5.6499e-4, "5.64E-04", "5.65E-04", "+0.2 %"),
            (27.7259, "27.73%", "27.73%", "="),
            (28.0, "27.73%", "28.00%", "+0.27"),
            (100.0, "100%", "100%", "="),
            (157.12, "314.24", "157.12", "-50.0 %"),
        ] {
            assert_eq!((like(x, figure), self::difference(x, figure)), (text.to_owned(), difference.to_owned()), "{x}");
        }
    }

    /// Pass rates of 321 tests, which is what three combinations of 107 configurations have.
    #[test]
    fn published_pass_rates_are_those_of_three_combinations() {
        for (passing, figure) in [(89.0, "27.73%"), (321.0, "100%"), (314.0, "97.82%")] {
            assert_eq!(difference(100.0 * passing / 321.0, figure), "=");
        }
    }

    #[test]
    fn every_row_has_a_figure_for_every_column() {
        for table in &TABLES {
            for row in table.rows {
                assert_eq!(row.figures.len(), table.columns.len(), "{}: {:?} {:?}", table.title, row.metric, row.statistic);
            }
        }
        for printed in BETTER.iter().chain([&WORST]) {
            assert!(printed.epsilon.iter().sum::<u64>() >= printed.relative.iter().sum(), "{}", printed.name);
        }
    }

    #[test]
    fn a_table_has_published_found_and_difference() {
        let text = tables(&run(vec![test("gfx90a", "r0", ALL[0], &[("max_eps", 314.24), ("rms", 1e-5)])])).unwrap();
        assert!(text.starts_with("r.jsonl: 1 tests of the study\n"), "{text}");
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let lines: Vec<String> = text.lines().map(words).collect();
        let first = ["r0 r1", "tests a group, of 107 0 to 1 0", "maxEpsilonDiff ave 314.24 1,627.64", "this run - -", "difference - -"];
        assert_eq!(lines[4..9], first, "two of three combinations have no test");
        assert!(lines.contains(&"RMS <= 0.00001 1 of 1 - - -".to_owned()), "{text}");
        let error = tables(&run(Vec::new())).unwrap_err().to_string();
        assert!(error.contains("r.jsonl") && error.contains("max_eps"), "{error}");
    }
}
