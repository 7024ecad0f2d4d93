//! What a comparison of two tensors writes beside its verdict: all mismatches, the difference, pictures.

use super::picture::Grid;
use crate::cli::screen;
use crate::dtype::DType;
use crate::files::{Format, Loaded, Output, check, replace, write};
use crate::verify::{NonFinite, Pair, Report, Value, each_pair};
use anyhow::{Result, bail};
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
        let (a, r) = (result.view()?, reference.view()?);
        let each = |take: &mut dyn FnMut(Pair) -> Result<()>| each_pair(&a, &r, report, nonfinite, take);
        if let Some(path) = &self.mismatches {
            list(path, |take| each(take), |index| result.layout().coordinates(index))?;
        }
        if let Some(path) = &self.diff {
            difference(path, report, |take| each(take))?;
        }
        let draw = |most| -> Result<Grid> {
            let mut grid = Grid::new(&report.shape, most);
            each(&mut |pair| {
                let finite = [pair.result, pair.reference].iter().all(|x| x.to_f64().is_finite());
                grid.add(pair.index, (finite || !pair.mismatch).then_some(pair.ratio));
                Ok(())
            })?;
            Ok(grid)
        };
        if let Some(path) = &self.heatmap {
            let grid = draw(PICTURE)?;
            replace(path, |out| grid.png(out))?;
        }
        if self.map { Ok(draw(SCREEN)?.text()) } else { Ok(String::new()) }
    }
}

/// Shows every pair.
type Take<'a> = &'a mut dyn FnMut(Pair) -> Result<()>;

fn list(path: &Path, each: impl Fn(Take<'_>) -> Result<()>, coordinates: impl Fn(usize) -> Vec<usize>) -> Result<()> {
    // The numbers in the fewest digits that tell them from all others.
    let number = |value: Value| match value {
        Value::Float(x) => format!("{x:?}"),
        Value::Int(x) => x.to_string(),
    };
    let written = replace(path, |out| {
        writeln!(out, "index\tcoordinates\tresult\treference\tdifference\tratio")?;
        each(&mut |pair: Pair| {
            if pair.mismatch {
                let (at, a, r) = (screen::shape(&coordinates(pair.index)), number(pair.result), number(pair.reference));
                writeln!(out, "{}\t{at}\t{a}\t{r}\t{:?}\t{:?}", pair.index, pair.difference, pair.ratio)?;
            }
            Ok(())
        })
        .map_err(|e| e.downcast::<std::io::Error>().unwrap_or_else(std::io::Error::other))
    });
    Ok(written?)
}

/// Writes the difference in f32, or in f64 where a format is wider.
fn difference(path: &Path, report: &Report, each: impl Fn(Take<'_>) -> Result<()>) -> Result<()> {
    let wide = |d: DType| d == DType::F64 || matches!(d, DType::I32 | DType::U32 | DType::I64 | DType::U64);
    let dtype = if wide(report.result_dtype) || wide(report.reference_dtype) { DType::F64 } else { DType::F32 };
    let format = Format::of(path)?;
    check(path, format, dtype, &report.shape)?;
    let mut bytes = Vec::new();
    each(&mut |pair: Pair| {
        match dtype {
            DType::F64 => bytes.extend(pair.difference.to_le_bytes()),
            _ => bytes.extend((pair.difference as f32).to_le_bytes()),
        }
        Ok(())
    })?;
    Ok(write(path, format, &Output { name: "difference", dtype, shape: &report.shape, bytes: &bytes })?)
}
