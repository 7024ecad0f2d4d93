//! What a comparison of two tensors writes beside its verdict: all mismatches, the difference, pictures.

use super::picture::{Grid, Strip};
use crate::cli::screen;
use crate::device::TensorRef;
use crate::dtype::DType;
use crate::files::{Format, Loaded, Output, check, replace, write};
use crate::verify::{NonFinite, Pair, Report, Value, fold_pairs};
use anyhow::{Result, bail};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// The most blocks of a picture, down and across.
const PICTURE: [usize; 2] = [512, 512];
const SCREEN: [usize; 2] = [16, 48];

#[derive(Debug, clap::Args)]
pub(super) struct ExtraArgs {
    /// Write all mismatches, a line each: index, coordinates, both values, difference, times the tolerance
    #[arg(long, value_name = "FILE", help_heading = "Of one tensor")]
    mismatches: Option<PathBuf>,
    /// Write result - reference as a tensor file
    #[arg(long, value_name = "FILE", help_heading = "Of one tensor")]
    diff: Option<PathBuf>,
    /// Draw where the differences are, by their ratio to the tolerance
    #[arg(long, value_name = "FILE.png", help_heading = "Of one tensor")]
    heatmap: Option<PathBuf>,
    /// Draw that on the screen
    #[arg(long, help_heading = "Of one tensor")]
    map: bool,
}

impl ExtraArgs {
    /// The files that are to be written.
    pub(super) fn files(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let files = [("--mismatches", &self.mismatches), ("--diff", &self.diff), ("--heatmap", &self.heatmap)];
        files.into_iter().filter_map(|(flag, path)| Some((flag, path.as_deref()?)))
    }

    /// Refuses tensors of which there are several.
    pub(super) fn none(&self) -> Result<()> {
        let flag = self.files().next().map(|(flag, _)| flag).or(self.map.then_some("--map"));
        if let Some(flag) = flag {
            bail!("{flag} is for one tensor; choose one with --tensor");
        }
        Ok(())
    }

    /// Writes what is asked for; the picture for the screen is returned.
    pub(super) fn write(&self, result: &Loaded<'_>, reference: &Loaded<'_>, report: &Report, nonfinite: NonFinite) -> Result<String> {
        let pairs = Pairs { result: &result.view()?, reference: &reference.view()?, report, nonfinite };
        if let Some(path) = &self.mismatches {
            list(path, &pairs)?;
        }
        if let Some(path) = &self.diff {
            difference(path, &pairs)?;
        }
        if let Some(path) = &self.heatmap {
            let grid = draw(&pairs, PICTURE)?;
            replace(path, |out| grid.png(out))?;
        }
        if self.map { Ok(draw(&pairs, SCREEN)?.text()) } else { Ok(String::new()) }
    }
}

/// The pairs of a comparison.
struct Pairs<'a> {
    result: &'a TensorRef<'a>,
    reference: &'a TensorRef<'a>,
    report: &'a Report,
    nonfinite: NonFinite,
}

impl Pairs<'_> {
    /// [`fold_pairs`].
    fn fold<S: Send>(
        &self,
        begin: impl Fn(usize) -> S + Sync,
        take: impl Fn(&mut S, Pair) + Sync,
        join: impl FnMut(S) -> Result<()>,
    ) -> Result<()> {
        fold_pairs(self.result, self.reference, self.report, self.nonfinite, begin, take, join)
    }
}

fn draw(pairs: &Pairs<'_>, most: [usize; 2]) -> Result<Grid> {
    let empty = Grid::new(&pairs.report.shape, most);
    let mut grid = Grid::new(&pairs.report.shape, most);
    let add = |strip: &mut Strip, pair: Pair| {
        let finite = [pair.result, pair.reference].iter().all(|x| x.to_f64().is_finite());
        strip.add(pair.index, (finite || !pair.mismatch).then_some(pair.ratio));
    };
    pairs.fold(
        |start| empty.strip(start),
        add,
        |strip| {
            grid.join(&strip);
            Ok(())
        },
    )?;
    Ok(grid)
}

fn list(path: &Path, pairs: &Pairs<'_>) -> Result<()> {
    let layout = pairs.result.layout();
    let add = |lines: &mut String, pair: Pair| {
        if pair.mismatch {
            let at = screen::shape(&layout.coordinates(pair.index));
            let _ = write!(lines, "{}\t{at}\t", pair.index);
            [pair.result, pair.reference].iter().for_each(|value| number(lines, *value));
            let _ = writeln!(lines, "{:?}\t{:?}", pair.difference, pair.ratio);
        }
    };
    let written = replace(path, |out| {
        writeln!(out, "index\tcoordinates\tresult\treference\tdifference\tratio")?;
        pairs
            .fold(|_| String::new(), add, |lines| Ok(out.write_all(lines.as_bytes())?))
            .map_err(|e| e.downcast::<std::io::Error>().unwrap_or_else(std::io::Error::other))
    });
    Ok(written?)
}

/// A number, in the fewest digits that tell it from all others, and a tab.
fn number(line: &mut String, value: Value) {
    let _ = match value {
        Value::Float(x) => write!(line, "{x:?}\t"),
        Value::Int(x) => write!(line, "{x}\t"),
    };
}

/// Writes the difference in f32, or in f64 where a format is wider.
fn difference(path: &Path, pairs: &Pairs<'_>) -> Result<()> {
    let report = pairs.report;
    let wide = |d: DType| d == DType::F64 || matches!(d, DType::I32 | DType::U32 | DType::I64 | DType::U64);
    let dtype = if wide(report.result_dtype) || wide(report.reference_dtype) { DType::F64 } else { DType::F32 };
    let format = Format::of(path)?;
    check(path, format, dtype, &report.shape)?;
    let mut bytes = Vec::new();
    let add = |part: &mut Vec<u8>, pair: Pair| match dtype {
        DType::F64 => part.extend(pair.difference.to_le_bytes()),
        _ => part.extend((pair.difference as f32).to_le_bytes()),
    };
    pairs.fold(
        |_| Vec::new(),
        add,
        |part| {
            bytes.extend(part);
            Ok(())
        },
    )?;
    Ok(write(path, format, &Output { name: "difference", dtype, shape: &report.shape, bytes: &bytes })?)
}
