//! `hipverify inspect`: what a tensor file holds.

use super::Outcome;
use super::input::InputArgs;
use super::screen::{self, DIM, Table, WARN};
use super::stats::{Extreme, Stats};
use crate::device::Layout;
use crate::dtype::DType;
use crate::files::{Kind, Tensor, TensorFile};
use anyhow::{Result, bail};
use serde::Serialize;
use std::path::PathBuf;

/// Rows of the histogram: one screen, together with the rest.
const ROWS: usize = 16;

/// Width of the first column.
const LABEL: usize = 17;

/// The flags of `inspect`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A .npy, .npz or .safetensors file, or raw data
    file: PathBuf,
    #[command(flatten)]
    input: InputArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Args {
    /// Runs the command.
    pub(super) fn run(&self) -> Result<Outcome> {
        let file = self.input.open(&self.file, 0, 1, None)?;
        if let (Some(name), Kind::Npy | Kind::Raw) = (&self.input.tensor, file.kind()) {
            bail!("--tensor {name}: {} does not name its tensor", file.path().display());
        }
        let total = file.tensors().iter().map(|t| t.layout().elements() as u64).sum();
        let progress = screen::Progress::new(total, "inspect");
        let mut stats = Vec::with_capacity(file.tensors().len());
        for tensor in file.tensors() {
            stats.push(Stats::of(&tensor.view()?, |n| progress.add(n as u64)));
        }
        progress.end();
        match (file.tensors(), stats.as_slice()) {
            _ if self.json => screen::print_json(&document(&file, &stats))?,
            ([tensor], [stats]) => screen::print(&one(&file, tensor, stats))?,
            _ => screen::print(&table(&file, &stats))?,
        }
        Ok(Outcome::Pass)
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
fn one(file: &TensorFile, tensor: &Tensor, stats: &Stats) -> String {
    let (dtype, layout) = (tensor.dtype(), tensor.layout());
    let elements = layout.elements() as u64;
    let name = if tensor.name().is_empty() { String::new() } else { format!("  tensor {}", screen::plain(tensor.name())) };
    let mut lines = vec![format!(
        "{}  {}{name}  {dtype}{}  {} elements  {}{}",
        file.path().display(),
        file.kind(),
        screen::shape(layout.shape()),
        screen::count(elements),
        screen::bytes(dtype.bytes_for(layout.elements()).unwrap_or(usize::MAX) as u64),
        if layout.is_contiguous() { "" } else { "  Fortran order" },
    )];
    if elements == 0 {
        lines.push("  no elements: nothing to inspect".to_owned());
        return lines.join("\n") + "\n";
    }
    let range = [("min", stats.min), ("max", stats.max), ("least |x|", stats.least.map(magnitude))];
    let shown: Vec<(&str, String, String)> =
        range.iter().filter_map(|&(what, x)| x.map(|x| (what, value(x, dtype), place(layout, x.index)))).collect();
    let width = shown.iter().map(|s| s.1.len()).max().unwrap_or(0);
    lines.extend(shown.iter().map(|(what, value, place)| format!("  {what:<LABEL$}{value:>width$}  {DIM}at{DIM:#} {place}")));
    if let (Some(mean), Some(rms)) = (stats.mean(), stats.rms()) {
        let of = if stats.finite() < elements { "  (finite elements)" } else { "" };
        lines.push(format!("  {:<LABEL$}{}   RMS {}{of}", "mean", screen::number(mean, 6), screen::number(rms, 6)));
    }
    lines.extend(classes(stats, elements));
    if let Some(index) = stats.first_non_finite {
        lines.push(format!("  {WARN}first non-finite at {}{WARN:#}", place(layout, index)));
    }
    lines.extend(histogram(stats, elements));
    lines.join("\n") + "\n"
}

/// Without the sign.
fn magnitude(x: Extreme) -> Extreme {
    Extreme { value: x.value.abs(), integer: x.integer.saturating_abs(), index: x.index }
}

fn place(layout: &Layout, index: usize) -> String {
    screen::place(&layout.coordinates(index))
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
fn table(file: &TensorFile, stats: &[Stats]) -> String {
    let tensors = file.tensors();
    let bytes: u64 = tensors.iter().map(|t| t.dtype().bytes_for(t.layout().elements()).unwrap_or(usize::MAX) as u64).sum();
    let head = format!("{}  {}  {} tensors  {}\n", file.path().display(), file.kind(), tensors.len(), screen::bytes(bytes));
    if tensors.is_empty() {
        return head;
    }
    let mut table = Table::new(&["name", "dtype", "shape", ">min", ">max", ">RMS", ">zeros", ">subnormals", ">inf", ">nan"]);
    for (t, s) in tensors.iter().zip(stats) {
        let extreme = |x: Option<Extreme>| x.map_or("-".to_owned(), |x| value(x, t.dtype()));
        table.row(vec![
            t.name().to_owned(),
            t.dtype().to_string(),
            screen::shape(t.layout().shape()),
            extreme(s.min),
            extreme(s.max),
            s.rms().map_or("-".to_owned(), |v| screen::number(v, 4)),
            screen::count(s.classes.zero),
            screen::count(s.classes.subnormal),
            screen::count(s.classes.positive_infinity + s.classes.negative_infinity),
            screen::count(s.classes.nan),
        ]);
    }
    let bad = |i: usize| i > 0 && stats[i - 1].first_non_finite.is_some();
    let mut out = head;
    for (i, line) in table.lines().iter().enumerate() {
        let style = if i == 0 { DIM } else { if bad(i) { WARN } else { anstyle::Style::new() } };
        out += &format!("  {style}{line}{style:#}\n");
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
    dtype: &'static str,
    shape: &'a [usize],
    elements: usize,
    min: Option<Placed>,
    max: Option<Placed>,
    least_magnitude: Option<Placed>,
    mean: Option<f64>,
    rms: Option<f64>,
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

fn document<'a>(file: &'a TensorFile, stats: &[Stats]) -> Document<'a> {
    let describe = |(t, s): (&'a Tensor, &Stats)| {
        let placed = |x: Option<Extreme>| {
            x.map(|x| Placed {
                value: if t.dtype().is_int() { x.integer.into() } else { x.value.into() },
                at: t.layout().coordinates(x.index),
            })
        };
        Described {
            name: t.name(),
            dtype: t.dtype().name(),
            shape: t.layout().shape(),
            elements: t.layout().elements(),
            min: placed(s.min),
            max: placed(s.max),
            least_magnitude: placed(s.least.map(magnitude)),
            mean: s.mean(),
            rms: s.rms(),
            negative: s.negative,
            classes: s.classes,
            first_non_finite: s.first_non_finite.map(|i| t.layout().coordinates(i)),
            exponents: s.exponents(),
        }
    };
    Document {
        file: file.path().display().to_string(),
        format: file.kind().to_string(),
        tensors: file.tensors().iter().zip(stats).map(describe).collect(),
    }
}
