//! Flags that say how files are read, shared by the commands.

use crate::dtype::DType;
use crate::files::{Request, TensorFile};
use anyhow::{Result, bail};
use std::path::Path;

/// How to read files that do not describe themselves.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct InputArgs {
    /// The format of raw data, or another format to read elements of the same width as. For two files either one for both or two,
    /// `f16,f32`; `-` keeps a file's own
    #[arg(long, value_name = "DTYPE[,DTYPE]", value_delimiter = ',', value_parser = own_or_dtype, help_heading = "Input")]
    dtype: Vec<OwnOr>,
    /// The extents of raw data, outermost first, such as `128,256`
    #[arg(long, value_name = "N,N,...", value_parser = shape, help_heading = "Input")]
    shape: Option<Shape>,
    /// Only this tensor of the file (of each file)
    #[arg(long, value_name = "NAME", help_heading = "Input")]
    pub(super) tensor: Option<String>,
}

/// A format, or the file's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OwnOr {
    Own,
    DType(DType),
}

/// The extents of a tensor. A type of its own, as a `Vec` would mean a flag with many values to clap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shape(pub(super) Vec<usize>);

fn own_or_dtype(text: &str) -> Result<OwnOr, crate::Error> {
    if text == "-" { Ok(OwnOr::Own) } else { text.parse().map(OwnOr::DType) }
}

/// Reads `128,256`, `128x256`, or `[128, 256]`; `[]` is a scalar.
pub(super) fn shape(text: &str) -> Result<Shape, String> {
    let inner = text.strip_prefix(['[', '(']).and_then(|t| t.strip_suffix([']', ')'])).unwrap_or(text).trim();
    if inner.is_empty() && !text.is_empty() {
        return Ok(Shape(Vec::new()));
    }
    let extent = |t: &str| t.trim().parse::<usize>().map_err(|e| format!("extent `{}`: {e}", t.trim()));
    inner.split([',', 'x']).map(extent).collect::<Result<_, _>>().map(Shape)
}

impl InputArgs {
    /// Opens the `which`-th of `files` files; `tensor` overrides the flag.
    pub(super) fn open(&self, path: &Path, which: usize, files: usize, tensor: Option<&str>) -> Result<TensorFile> {
        if self.dtype.len() > files {
            bail!("--dtype has {} values; at most {files}, one a file", self.dtype.len());
        }
        let dtype = match self.dtype.get(which).or(self.dtype.last()) {
            Some(&OwnOr::DType(d)) => Some(d),
            Some(OwnOr::Own) | None => None,
        };
        let shape = self.shape.as_ref().map(|s| s.0.as_slice());
        Ok(TensorFile::open(path, &Request { dtype, shape, tensor: tensor.or(self.tensor.as_deref()) })?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_read_in_every_usual_spelling() {
        for (text, extents) in
            [("5", vec![5]), ("2,3", vec![2, 3]), ("2x3x4", vec![2, 3, 4]), ("[2, 3]", vec![2, 3]), ("(0)", vec![0]), ("[]", vec![])]
        {
            assert_eq!(shape(text).unwrap().0, extents, "{text}");
        }
        for text in ["", "2,,3", "-1", "a", "99999999999999999999"] {
            assert!(shape(text).is_err(), "{text}");
        }
    }
}
