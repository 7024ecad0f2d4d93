//! The verdict as a screen, as JSON, as a JUnit file.

use super::super::screen::{self, BAD, DIM, GOOD, Table, WARN};
use super::super::{Outcome, junit};
use super::{Args, Case, CaseVerdict, Side};
use crate::files::label;
use crate::verify::{Budget, Classes, LABEL, Metric, NonFinite, Report, Verdict};
use anyhow::Result;
use quick_junit::{NonSuccessKind, TestCase, TestCaseStatus, TestSuite};
use serde::Serialize;
use std::fmt::Write as _;
use std::path::Path;

/// Prints the verdicts, and the picture of one.
pub(super) fn show(args: &Args, cases: &[Case], picture: &str) -> Result<()> {
    if args.json {
        return screen::print_json(&document(args, cases, None));
    }
    let mut text = match cases {
        [Case { verdict: CaseVerdict::Compared(report), told, .. }] => {
            let baseline = told.baseline.as_ref().map_or(String::new(), |text| format!("\n  baseline   {text}"));
            painted(&(report.to_string() + &baseline), report.verdict)
        }
        _ => table(args, cases),
    };
    text += picture;
    if let Some(note) = same_files(args) {
        text += &format!("  {WARN}note       {note}: this says nothing about what made it{WARN:#}\n");
    }
    Ok(screen::print(&text)?)
}

/// Which files stand on both sides, by whatever name.
fn same_files(args: &Args) -> Option<String> {
    let identities = |side| args.side(side).iter().filter_map(|path| identity(path)).collect::<Vec<_>>();
    let (results, references) = (identities(Side::Result), identities(Side::Reference));
    let same = results.iter().filter(|file| references.contains(file)).count();
    match (same, results.len() + references.len()) {
        (0, _) => None,
        (_, 2) => Some("both are one file".to_owned()),
        (1, _) => Some("a file is among the results and among the references".to_owned()),
        (n, _) => Some(format!("{n} files are among the results and among the references")),
    }
}

/// What a file is, by whatever name.
#[cfg(unix)]
fn identity(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).ok().map(|m| (m.dev(), m.ino()))
}

#[cfg(not(unix))]
fn identity(path: &Path) -> Option<std::path::PathBuf> {
    path.canonicalize().ok()
}

/// Where the text behind a label begins: labels of a report are indented by two.
const TEXT: usize = 2 + LABEL;

/// A report as wide as the screen, with colours: the verdict, warnings, and labels that the eye may skip.
pub(in crate::cli) fn painted(report: &str, verdict: Verdict) -> String {
    let text = screen::width().map_or(report.to_owned(), |width| screen::wrapped(report, width, TEXT));
    let mut out = String::new();
    for (i, line) in text.lines().enumerate() {
        let (style, end) = match line.get(..TEXT) {
            _ if i == 0 => (style(verdict), line.find(' ').unwrap_or(line.len())),
            Some(label) if label.starts_with("  warning") => (WARN, line.len()),
            Some(label) if label.ends_with(' ') && !label.starts_with("   ") => (DIM, TEXT),
            _ => (anstyle::Style::new(), 0),
        };
        let (front, rest) = line.split_at_checked(end).unwrap_or((line, ""));
        out += &format!("{style}{front}{style:#}{rest}\n");
    }
    out
}

fn style(verdict: Verdict) -> anstyle::Style {
    match verdict {
        Verdict::Pass => GOOD,
        Verdict::Untrusted => WARN,
        Verdict::Fail => BAD,
    }
}

/// One line a tensor, and a summary.
fn table(args: &Args, cases: &[Case]) -> String {
    let mut table =
        Table::new(&["", "tensor", "dtype", "shape", ">differ", ">share", ">max abs", ">max rel", ">RMS", ">x tolerance", "at"]);
    let shown = shown(cases);
    shown.iter().for_each(|case| table.row(row(case)));
    if let Some(width) = screen::width() {
        LEAST_WANTED.iter().for_each(|column| table.narrow(width, column));
    }
    let mut out = String::new();
    for (i, line) in table.lines().into_iter().enumerate() {
        let Some(case) = i.checked_sub(1).map(|i| shown[i]) else {
            out += &format!("{DIM}{line}{DIM:#}\n");
            continue;
        };
        let style = style(of(&case.verdict));
        let verdict = word(&case.verdict);
        out += &format!("{style}{verdict}{style:#}{}{}\n", &line[verdict.len()..], notes(case));
    }
    let hidden = cases.len() - shown.len();
    if hidden > 0 {
        let fail = failing(cases) - failing(shown.iter().copied());
        out += &format!(
            "{DIM}and {} more, {} of which do not pass; --include chooses some, --json and --html have all{DIM:#}\n",
            screen::count(hidden as u64),
            screen::count(fail as u64)
        );
    }
    out + &summary(args, cases)
}

/// The cells of a tensor: only its verdict and name where it was not compared.
fn row(case: &Case) -> Vec<String> {
    let mut row = vec![word(&case.verdict).to_owned(), screen::shortened(&screen::plain(&case.name), LONGEST_NAME)];
    if let CaseVerdict::Compared(r) = &case.verdict {
        let worst = |m: Metric| r.worst(m).map_or("0".to_owned(), |w| screen::number(w.value, 3));
        let dtypes = if r.result_dtype == r.reference_dtype {
            r.result_dtype.to_string()
        } else {
            format!("{} against {}", r.result_dtype, r.reference_dtype)
        };
        row.extend([
            dtypes,
            screen::shape(&r.shape),
            screen::count(r.mismatches),
            screen::percent(r.mismatches, r.elements as u64),
            worst(Metric::Absolute),
            worst(Metric::Relative),
            r.metrics.as_ref().map_or("-".to_owned(), |m| screen::number(m.rms, 3)),
            worst(Metric::Ratio),
            r.worst(Metric::Ratio)
                .filter(|_| r.mismatches > 0)
                .and_then(|w| w.at.as_ref())
                .map_or(String::new(), |l| screen::coordinates(&l.coordinates)),
        ]);
    }
    row
}

/// What follows the cells of a tensor: why it was not compared, or lines of their own.
fn notes(case: &Case) -> String {
    let report = match &case.verdict {
        CaseVerdict::Only(_, path) => return format!("  only in {}", screen::plain(&path.display().to_string())),
        CaseVerdict::Empty => return "  no elements".to_owned(),
        CaseVerdict::Failed(reason) => return format!("  {}", screen::plain(reason)),
        CaseVerdict::Compared(report) => report,
    };
    let mut out = String::new();
    let warning = report.warnings().first().map(|warning| format!("warning: {warning}"));
    for note in warning.into_iter().chain(not_finite(report)) {
        out += &format!("\n{WARN}      {note}{WARN:#}");
    }
    if let Some(cause) = &report.cause {
        out += &format!("\n      cause: {cause}");
    }
    if let Some(baseline) = &case.told.baseline {
        out += &format!("\n      baseline: {baseline}");
    }
    out
}

/// What has a row: all, or of many first those that decide the exit code.
fn shown(cases: &[Case]) -> Vec<&Case> {
    let mut shown: Vec<&Case> = cases.iter().collect();
    if shown.len() > screen::MOST_ROWS {
        shown.sort_by_key(|case| std::cmp::Reverse(super::outcome_of(case)));
        shown.truncate(screen::MOST_ROWS);
    }
    shown
}

fn failing<'a>(cases: impl IntoIterator<Item = &'a Case>) -> usize {
    cases.into_iter().filter(|case| !case.verdict.passed()).count()
}

/// Longer names lose their middle.
const LONGEST_NAME: usize = 48;

/// Columns that a narrow screen does without, in this order.
const LEAST_WANTED: [&str; 6] = ["RMS", "max rel", "shape", "at", "max abs", "dtype"];

/// What is not finite in a tensor that fails.
fn not_finite(report: &Report) -> Option<String> {
    if report.passed() || report.nonfinite_pairs == 0 {
        return None;
    }
    let side = |c: &Classes| match (c.nans, c.positive_infinities + c.negative_infinities) {
        (0, 0) => "all finite".to_owned(),
        (nans, 0) => format!("{} NaN", screen::count(nans)),
        (0, infinities) => format!("{} inf", screen::count(infinities)),
        (nans, infinities) => format!("{} NaN, {} inf", screen::count(nans), screen::count(infinities)),
    };
    Some(format!("not finite: result {}; reference {}", side(&report.result), side(&report.reference)))
}

/// The verdict on a tensor; one that could not be compared fails.
fn of(verdict: &CaseVerdict) -> Verdict {
    match verdict {
        CaseVerdict::Compared(report) => report.verdict,
        CaseVerdict::Empty => Verdict::Pass,
        CaseVerdict::Only(..) | CaseVerdict::Failed(_) => Verdict::Fail,
    }
}

fn word(verdict: &CaseVerdict) -> &'static str {
    match verdict {
        CaseVerdict::Failed(_) => "ERROR",
        verdict => of(verdict).word(),
    }
}

fn summary(args: &Args, cases: &[Case]) -> String {
    let number = |f: &dyn Fn(&CaseVerdict) -> bool| cases.iter().filter(|c| f(&c.verdict)).count();
    let passed = number(&|v| v.passed());
    let only =
        |side: Side| (number(&|v| matches!(v, CaseVerdict::Only(s, _) if *s == side)), format!("only in {}", label(args.side(side))));
    let parts = [
        (number(&|v| matches!(v, CaseVerdict::Compared(r) if r.verdict == Verdict::Fail)), "differ".to_owned()),
        (number(&|v| of(v) == Verdict::Untrusted), "untrusted (see warnings)".to_owned()),
        only(Side::Reference),
        only(Side::Result),
        (number(&|v| matches!(v, CaseVerdict::Failed(_))), "could not be compared".to_owned()),
    ];
    // The worst of all.
    let verdict = cases.iter().map(|c| of(&c.verdict)).max_by_key(|v| *v as u8).unwrap_or(Verdict::Pass);
    let failed = cases.iter().any(|c| matches!(c.verdict, CaseVerdict::Failed(_)));
    let word = if failed { "ERROR" } else { verdict.word() };
    let mut out = format!("{word}  {passed} of {} tensors agree", cases.len());
    for (n, what) in parts.iter().filter(|p| p.0 > 0) {
        let _ = write!(out, ", {n} {what}");
    }
    let device = cases.iter().find_map(|c| match &c.verdict {
        CaseVerdict::Compared(r) => Some(format!("\n  device     {} ({})", r.device, r.why)),
        _ => None,
    });
    "\n".to_owned() + &painted(&(out + &device.unwrap_or_default()), verdict)
}

/// Of the JSON document; `docs/compare.schema.json` describes it.
const SCHEMA: u32 = 1;

/// The JSON document.
#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    tool: String,
    /// pass, untrusted, fail, error.
    verdict: &'static str,
    passed: bool,
    result: String,
    reference: String,
    /// All files of a side that has several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    results: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    references: Vec<String>,
    /// Why there is no verdict at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// What happens to pairs that are not finite where no rule says otherwise: fail, equal_when_same.
    nonfinite: &'static str,
    tensors: Vec<Entry<'a>>,
}

#[derive(Serialize)]
struct Entry<'a> {
    name: &'a str,
    /// pass, untrusted, fail, missing (only one file has it), error.
    verdict: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    report: Option<Comparison<'a>>,
}

/// A report, and what belongs to it.
#[derive(Serialize)]
struct Comparison<'a> {
    #[serde(flatten)]
    report: &'a Report,
    /// What happened to pairs that are not finite.
    nonfinite: &'static str,
    budget: Option<ErrorBudget>,
}

/// [`Budget`], relative to the root mean square of the reference.
#[derive(Serialize)]
struct ErrorBudget {
    /// By rounding to both formats.
    expected: f64,
    measured: f64,
    ratio: f64,
}

impl Comparison<'_> {
    fn new(report: &Report, nonfinite: NonFinite) -> Comparison<'_> {
        let budget = Budget::of(report).map(|b| ErrorBudget { expected: b.output, measured: b.measured, ratio: b.ratio() });
        Comparison { report, nonfinite: nonfinite_word(nonfinite), budget }
    }
}

fn nonfinite_word(nonfinite: NonFinite) -> &'static str {
    if nonfinite == NonFinite::EqualWhenSame { "equal_when_same" } else { "fail" }
}

fn json_word(verdict: &CaseVerdict) -> &'static str {
    match verdict {
        CaseVerdict::Only(..) => "missing",
        CaseVerdict::Failed(_) => "error",
        CaseVerdict::Empty => "pass",
        CaseVerdict::Compared(report) => match report.verdict {
            Verdict::Pass => "pass",
            Verdict::Untrusted => "untrusted",
            Verdict::Fail => "fail",
        },
    }
}

fn document<'a>(args: &Args, cases: &'a [Case], error: Option<String>) -> Document<'a> {
    let entry = |case: &'a Case| {
        let (reason, report) = match &case.verdict {
            CaseVerdict::Compared(r) => (None, Some(&**r)),
            CaseVerdict::Only(_, path) => (Some(format!("only in {}", path.display())), None),
            CaseVerdict::Failed(reason) => (Some(reason.clone()), None),
            CaseVerdict::Empty => (Some("no elements".to_owned()), None),
        };
        let warnings = report.map_or(Vec::new(), |r: &Report| r.warnings().iter().map(ToString::to_string).collect());
        let report = report.map(|report| Comparison::new(report, case.nonfinite));
        Entry { name: &case.name, verdict: json_word(&case.verdict), reason, warnings, report }
    };
    let verdict = match super::outcome(cases) {
        _ if error.is_some() => "error",
        Outcome::Pass => "pass",
        Outcome::Untrusted => "untrusted",
        Outcome::Mismatch => "fail",
        Outcome::NoVerdict => "error",
    };
    Document {
        schema: SCHEMA,
        tool: concat!("hipverify ", env!("CARGO_PKG_VERSION")).to_owned(),
        verdict,
        passed: verdict == "pass",
        result: label(args.side(Side::Result)),
        reference: label(args.side(Side::Reference)),
        results: several(args, Side::Result),
        references: several(args, Side::Reference),
        error,
        nonfinite: nonfinite_word(args.tolerance.nonfinite()),
        tensors: cases.iter().map(entry).collect(),
    }
}

/// The files of a side, if there are several.
fn several(args: &Args, side: Side) -> Vec<String> {
    let files = args.side(side);
    if files.len() > 1 { files.iter().map(|path| path.display().to_string()).collect() } else { Vec::new() }
}

/// The command's name in a JUnit file, and the class of its tests.
const COMMAND: [&str; 2] = ["compare", "hipverify.compare"];

/// Has no JUnit file of an earlier run be taken for this one's, however this one ends.
pub(super) fn begin(args: &Args) -> Result<()> {
    args.junit.as_deref().map_or(Ok(()), |path| junit::begin(path, &args.title(), COMMAND))
}

/// Tells machines that there is no verdict; `pair` is the name of the tensor, where the error is that of the only one.
pub(super) fn failure(args: &Args, error: &anyhow::Error, pair: Option<&str>) -> Result<()> {
    let reason = format!("{error:#}");
    if let Some(path) = &args.junit {
        junit::failure(path, &args.title(), COMMAND, &reason)?;
    }
    let cases: Vec<Case> = pair.map(|name| Case::new(name, CaseVerdict::Failed(reason.clone()))).into_iter().collect();
    if args.json { screen::print_json(&document(args, &cases, Some(reason))) } else { Ok(()) }
}

/// Whether a tensor is a failure for a test: an untrusted pass only is where that was asked for, or the tolerance was not given.
fn fails(verdict: &CaseVerdict) -> bool {
    match verdict {
        CaseVerdict::Compared(report) if report.verdict == Verdict::Untrusted => report.strict,
        verdict => !verdict.passed(),
    }
}

/// Writes the JUnit file, where one is asked for: one test case a tensor.
pub(super) fn write_cases(args: &Args, cases: &[Case]) -> Result<()> {
    let mut suite = TestSuite::new(junit::name(&args.title()));
    for case in cases {
        let mut status = match &case.verdict {
            v if !fails(v) => TestCaseStatus::success(),
            CaseVerdict::Failed(_) => TestCaseStatus::non_success(NonSuccessKind::Error),
            _ => TestCaseStatus::non_success(NonSuccessKind::Failure),
        };
        let text = match &case.verdict {
            CaseVerdict::Compared(report) => report.to_string(),
            CaseVerdict::Only(_, path) => format!("only in {}", path.display()),
            CaseVerdict::Failed(reason) => reason.clone(),
            CaseVerdict::Empty => "no elements".to_owned(),
        };
        let text = junit::text(&text);
        let fails = fails(&case.verdict);
        if fails {
            let verdict = text.lines().next().unwrap_or_default();
            let message = match &case.verdict {
                CaseVerdict::Compared(report) if let Some(cause) = &report.cause => junit::text(&format!("{verdict}; cause: {cause}")),
                _ => verdict.to_owned(),
            };
            status.set_message(message).set_description(text.as_str());
        }
        let name = if case.name.is_empty() { "tensor" } else { &case.name };
        let mut entry = TestCase::new(junit::name(name), status);
        entry.set_classname(COMMAND[1]).set_time(case.time);
        if !fails {
            entry.set_system_out(text);
        }
        suite.add_test_case(entry);
    }
    args.junit.as_deref().map_or(Ok(()), |path| junit::write(path, suite))
}
