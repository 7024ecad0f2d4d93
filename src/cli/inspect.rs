//! `hipverify inspect`: what a tensor file holds.

use super::Outcome;
use super::input::InputArgs;
use super::screen::{self, BAD, DIM, Table, WARN};
use super::stats::{Extreme, Stats};
use crate::device::Layout;
use crate::dtype::DType;
use crate::error::Error;
use crate::files::{Tensor, TensorFile};
use anyhow::Result;
use serde::Serialize;
use std::path::PathBuf;

/// Rows of the histogram: one screen, together with the rest.
const ROWS: usize = 16;

/// Width of the first column.
const LABEL: usize = 17;

/// The flags of `inspect`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example: hipverify inspect model.safetensors --include '*.weight'")]
pub(super) struct Args {
    /// A .npy, .npz, .safetensors or .pt file, an index of shards, a folder of these, or raw data; `-` is standard input
    file: PathBuf,
    #[command(flatten)]
    input: InputArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A tensor and what it holds, or why it cannot be read.
struct Inspected<'a> {
    tensor: &'a Tensor,
    held: Result<Held, String>,
}

/// What a tensor holds, as it was read.
struct Held {
    dtype: DType,
    layout: Layout,
    stats: Stats,
}

impl Held {
    fn of(tensor: &Tensor, progress: &screen::Progress) -> crate::Result<Held> {
        let loaded = tensor.load()?;
        let stats = Stats::of(&loaded.view()?, |n| progress.add(n as u64));
        Ok(Held { dtype: loaded.dtype(), layout: loaded.layout().clone(), stats })
    }

    fn bytes(&self) -> u64 {
        self.dtype.bytes_for(self.layout.elements()).unwrap_or(usize::MAX) as u64
    }
}

/// Why, without the file's name.
fn reason(error: Error) -> String {
    match error {
        Error::File { reason, .. } => reason,
        other => other.to_string(),
    }
}

impl Args {
    /// Runs the command.
    pub(super) fn run(&self) -> Result<Outcome> {
        let file = self.input.open(&self.file, 0, 1)?;
        self.input.check_used(&[&file])?;
        let elements = |t: &Tensor| t.layout().map_or(0, |l| l.elements() as u64);
        let progress = screen::Progress::new(file.tensors().iter().map(elements).sum(), "inspect");
        let inspect = |tensor| Inspected { tensor, held: Held::of(tensor, &progress).map_err(reason) };
        let all: Vec<Inspected<'_>> = file.tensors().iter().map(inspect).collect();
        progress.end();
        match all.as_slice() {
            _ if self.json => screen::print_json(&document(&file, &all))?,
            [Inspected { tensor, held: Ok(held) }] => screen::print(&one(&file, tensor, held))?,
            _ => screen::print(&table(&file, &all))?,
        }
        Ok(if all.iter().all(|i| i.held.is_ok()) { Outcome::Pass } else { Outcome::NoVerdict })
    }
}

/// A value with the digits that tell it from its neighbours.
fn value(x: Extreme, dtype: DType) -> String {
    let v = x.value;
    let plain = v == 0.0 || (1e-5..1e9).contains(&v.abs());
    match dtype {
        _ if dtype.is_int() => x.integer.to_string(),
        // Rust prints the shortest text that reads back as the same number.
        DType::F64 if plain => format!("{v}"),
        DType::F64 => format!("{v:e}"),
        DType::F32 | DType::Tf32 if plain => format!("{}", v as f32),
        DType::F32 | DType::Tf32 => format!("{:e}", v as f32),
        _ => screen::number(v, 5),
    }
}

/// The screen for one tensor.
fn one(file: &TensorFile, tensor: &Tensor, held: &Held) -> String {
    let Held { dtype, layout, stats } = held;
    let elements = layout.elements() as u64;
    let name = if tensor.name().is_empty() { String::new() } else { format!("  tensor {}", screen::plain(tensor.name())) };
    let mut lines = vec![format!(
        "{}  {}{name}  {dtype}{}  {}  {}{}",
        file.path().display(),
        file.kind(),
        screen::shape(layout.shape()),
        screen::counted(elements, "element"),
        screen::bytes(held.bytes()),
        if layout.is_contiguous() { "" } else { "  Fortran order" },
    )];
    if elements == 0 {
        lines.push("  no elements: nothing to inspect".to_owned());
        return lines.join("\n") + "\n";
    }
    let range = [("min", stats.min), ("max", stats.max), ("least |x|", stats.least.map(magnitude))];
    let shown: Vec<(&str, String, String)> =
        range.iter().filter_map(|&(what, x)| x.map(|x| (what, value(x, *dtype), coordinates(layout, x.index)))).collect();
    let width = shown.iter().map(|s| s.1.len()).max().unwrap_or(0);
    lines.extend(shown.iter().map(|(what, value, at)| format!("  {what:<LABEL$}{value:>width$}  {DIM}at{DIM:#} {at}")));
    if let (Some(mean), Some(rms)) = (stats.mean(), stats.rms()) {
        let of = if stats.finite() < elements { "  (finite elements)" } else { "" };
        lines.push(format!("  {:<LABEL$}{}   RMS {}{of}", "mean", screen::number(mean, 6), screen::number(rms, 6)));
    }
    lines.extend(classes(stats, elements));
    if let Some(index) = stats.first_non_finite {
        lines.push(format!("  {WARN}first non-finite at {}{WARN:#}", coordinates(layout, index)));
    }
    lines.extend(histogram(stats, elements));
    lines.join("\n") + "\n"
}

/// Without the sign.
fn magnitude(x: Extreme) -> Extreme {
    Extreme { value: x.value.abs(), integer: x.integer.abs(), index: x.index }
}

fn coordinates(layout: &Layout, index: usize) -> String {
    screen::coordinates(&layout.coordinates(index))
}

fn classes(stats: &Stats, elements: u64) -> Vec<String> {
    let c = stats.classes;
    let note = |what: &str, n: u64| if n > 0 { format!("   {} {what}", screen::count(n)) } else { String::new() };
    let rows = [
        ("zero", c.zero, note("with sign", c.negative_zero)),
        ("subnormal", c.subnormal, String::new()),
        ("normal", c.normal, String::new()),
        ("inf", c.positive_infinity + c.negative_infinity, note("negative", c.negative_infinity)),
        ("nan", c.nan, String::new()),
        ("below zero", stats.negative, String::new()),
    ];
    let width = screen::count(elements).len();
    let line = |(name, n, note): &(&str, u64, String)| {
        let style = if matches!(*name, "inf" | "nan") && *n > 0 { WARN } else { anstyle::Style::new() };
        format!("  {style}{name:<LABEL$}{:>width$}  {:>10}{note}{style:#}", screen::count(*n), screen::percent(*n, elements))
    };
    rows.iter().map(|row| line(row).trim_end().to_owned()).collect()
}

/// Bars by binary exponent; several exponents a row where there are too many.
fn histogram(stats: &Stats, elements: u64) -> Vec<String> {
    let exponents = stats.exponents();
    let (Some(first), Some(last)) = (exponents.first(), exponents.last()) else { return Vec::new() };
    let mut step = 1;
    while (last.0.div_euclid(step) - first.0.div_euclid(step)) as usize >= ROWS {
        step *= 2;
    }
    let mut rows: Vec<(i32, u64)> = Vec::new();
    for &(e, n) in &exponents {
        let low = e.div_euclid(step) * step;
        match rows.last_mut() {
            Some(row) if row.0 == low => row.1 += n,
            _ => rows.push((low, n)),
        }
    }
    let most = rows.iter().map(|r| r.1).max().unwrap_or(0);
    let width = screen::count(elements).len();
    let mut lines = vec![format!("  {DIM}|x| by binary exponent, zeros apart{DIM:#}")];
    for (low, n) in rows {
        let label = format!("[2^{low}, 2^{})", low + step);
        let line =
            format!("  {label:<LABEL$}{:>width$}  {:>10}  {}", screen::count(n), screen::percent(n, elements), screen::bar(n, most, 40));
        lines.push(line.trim_end().to_owned());
    }
    lines
}

/// The screen for several tensors.
fn table(file: &TensorFile, all: &[Inspected<'_>]) -> String {
    let bytes = all.iter().filter_map(|i| i.held.as_ref().ok()).map(Held::bytes).sum();
    let mut out =
        format!("{}  {}  {}  {}\n", file.path().display(), file.kind(), screen::counted(all.len() as u64, "tensor"), screen::bytes(bytes));
    if all.is_empty() {
        return out;
    }
    let mut table = Table::new(&["name", "dtype", "shape", ">min", ">max", ">RMS", ">zeros", ">subnormals", ">inf", ">nan"]);
    for Inspected { tensor, held } in all {
        let mut row = vec![tensor.name().to_owned(), tensor.stored_type().to_owned(), screen::shape(tensor.shape())];
        if let Ok(Held { dtype, layout, stats: s }) = held {
            let extreme = |x: Option<Extreme>| x.map_or("-".to_owned(), |x| value(x, *dtype));
            row[1] = dtype.to_string();
            row[2] = screen::shape(layout.shape());
            row.extend([
                extreme(s.min),
                extreme(s.max),
                s.rms().map_or("-".to_owned(), |v| screen::number(v, 4)),
                screen::count(s.classes.zero),
                screen::count(s.classes.subnormal),
                screen::count(s.classes.positive_infinity + s.classes.negative_infinity),
                screen::count(s.classes.nan),
            ]);
        }
        table.row(row);
    }
    for (i, line) in table.lines().iter().enumerate() {
        let (style, reason) = match i.checked_sub(1).map(|i| &all[i].held) {
            None => (DIM, String::new()),
            Some(Err(reason)) => (BAD, format!("  {}", screen::plain(reason))),
            Some(Ok(held)) if held.stats.first_non_finite.is_some() => (WARN, String::new()),
            Some(Ok(_)) => (anstyle::Style::new(), String::new()),
        };
        out += &format!("  {style}{line}{reason}{style:#}\n");
    }
    out
}

/// The JSON document.
#[derive(Serialize)]
struct Document<'a> {
    file: String,
    format: String,
    tensors: Vec<Described<'a>>,
}

#[derive(Serialize)]
struct Described<'a> {
    name: &'a str,
    /// The format that it is read as, or the file's own words.
    dtype: &'a str,
    shape: &'a [usize],
    /// Why it cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    #[serde(flatten)]
    values: Option<Values>,
}

#[derive(Serialize)]
struct Values {
    elements: usize,
    min: Option<Placed>,
    max: Option<Placed>,
    least_magnitude: Option<Placed>,
    mean: Option<f64>,
    rms: Option<serde_json::Value>,
    negative: u64,
    classes: super::stats::Classes,
    first_non_finite: Option<Vec<usize>>,
    exponents: Vec<(i32, u64)>,
}

#[derive(Serialize)]
struct Placed {
    value: serde_json::Value,
    at: Vec<usize>,
}

impl Values {
    fn of(Held { dtype, layout, stats: s }: &Held) -> Values {
        let placed = |x: Option<Extreme>| {
            x.map(|x| Placed { value: if dtype.is_int() { whole(x.integer) } else { x.value.into() }, at: layout.coordinates(x.index) })
        };
        Values {
            elements: layout.elements(),
            min: placed(s.min),
            max: placed(s.max),
            least_magnitude: placed(s.least.map(magnitude)),
            mean: s.mean(),
            // JSON has no infinities: squares may be beyond f64.
            rms: s.rms().map(|x| if x.is_finite() { x.into() } else { x.to_string().into() }),
            negative: s.negative,
            classes: s.classes,
            first_non_finite: s.first_non_finite.map(|i| layout.coordinates(i)),
            exponents: s.exponents(),
        }
    }
}

fn document<'a>(file: &'a TensorFile, all: &'a [Inspected<'_>]) -> Document<'a> {
    let describe = |Inspected { tensor, held }: &'a Inspected<'_>| Described {
        name: tensor.name(),
        dtype: held.as_ref().map_or(tensor.stored_type(), |held| held.dtype.name()),
        shape: held.as_ref().map_or(tensor.shape(), |held| held.layout.shape()),
        error: held.as_ref().err().map(String::as_str),
        values: held.as_ref().ok().map(Values::of),
    };
    Document { file: file.path().display().to_string(), format: file.kind().to_string(), tensors: all.iter().map(describe).collect() }
}
/// A number of an integer format: one of u64 or of i64.
fn whole(x: i128) -> serde_json::Value {
    u64::try_from(x).map_or_else(|_| serde_json::Value::from(x as i64), serde_json::Value::from)
}
