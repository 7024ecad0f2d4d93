//! Flags that say how files are read, shared by the commands.

use crate::dtype::DType;
use crate::files::{ReadOptions, TensorFile, is_tensor_file};
use anyhow::{Result, bail};
use glob::Pattern;
use std::path::{Path, PathBuf};

/// How to read files that do not describe themselves.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct InputArgs {
    /// The format of raw data, or another format to read elements of the same width as. For two files either one for both or two,
    /// `f16,f32`; `-` keeps a file's own
    #[arg(long, value_name = "DTYPE[,DTYPE]", value_delimiter = ',', value_parser = own_or_dtype, help_heading = "Input")]
    dtype: Vec<OwnOr>,
    /// The extents of raw data, outermost first, such as `128,256`
    #[arg(long, value_name = "N,N,...", allow_hyphen_values = true, value_parser = shape, help_heading = "Input")]
    shape: Option<Shape>,
    /// Only this tensor of the file (of each file)
    #[arg(long, value_name = "NAME", help_heading = "Input")]
    pub(super) tensor: Option<String>,
    /// Only tensors whose name matches, such as `*.attn.*`; may be given several times
    #[arg(long, value_name = "GLOB", value_parser = glob, help_heading = "Input")]
    include: Vec<Pattern>,
    /// No tensors whose name matches; may be given several times
    #[arg(long, value_name = "GLOB", value_parser = glob, help_heading = "Input")]
    exclude: Vec<Pattern>,
    /// Do not verify the checksums of .npz members that are not compressed
    #[arg(long, help_heading = "Input")]
    no_crc: bool,
    /// The most that a copy of a tensor may take: one that was compressed, has another byte order, or comes from a pipe; and the elements of one that shows
    /// the same memory several times. Such as 500M or 16G
    #[arg(long, value_name = "BYTES", default_value = "4G", value_parser = size, help_heading = "Input")]
    pub(super) max_memory: u64,
}

/// A whole number. The type is `usize` or `u64`, whose own messages speak of digits.
pub(super) fn whole<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("a whole number from 0 is wanted, below 2^{}", 8 * size_of::<T>()))
}

/// A pattern of names; `*` matches any characters.
pub(super) fn glob(text: &str) -> Result<Pattern, String> {
    Pattern::new(text).map_err(|e| format!("`{text}`: {e}"))
}

/// Reads a number of bytes: `1000`, `64K`, `500M`, `16G`, `1T`, in powers of 1024.
pub(super) fn size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let shift = match &text[digits.len()..] {
        "" => 0,
        "K" | "KiB" => 10,
        "M" | "MiB" => 20,
        "G" | "GiB" => 30,
        "T" | "TiB" => 40,
        unit => return Err(format!("unit `{unit}`; known: K M G T")),
    };
    let number = digits.parse::<u64>().map_err(|e| format!("`{digits}`: {e}"))?;
    number.checked_mul(1 << shift).ok_or_else(|| "more than 2^64 bytes".to_owned())
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
    let extent = |t: &str| t.trim().parse::<usize>().map_err(|_| format!("extent `{}` is not a whole number from 0", t.trim()));
    inner.split([',', 'x']).map(extent).collect::<Result<_, _>>().map(Shape)
}

/// Refuses an output that would replace what is read: a file, by any name, or a tensor file below a folder.
pub(super) fn never_over<'a>(flag: &str, output: &Path, read: impl IntoIterator<Item = &'a Path>) -> Result<()> {
    // What is not there yet replaces nothing.
    let Ok(target) = output.canonicalize() else { return Ok(()) };
    let below = |folder: &Path| folder.is_dir() && target.starts_with(folder) && is_tensor_file(&target);
    if read.into_iter().filter_map(|path| path.canonicalize().ok()).any(|path| path == target || below(&path)) {
        bail!("{flag} {}: that file is read by this command", output.display());
    }
    Ok(())
}

impl InputArgs {
    /// Opens the `which`-th of `files` files; `tensor` overrides the flag.
    pub(super) fn open(&self, path: &Path, which: usize, files: usize, tensor: Option<&str>) -> Result<TensorFile> {
        self.open_all(&[path.to_owned()], which, files, tensor)
    }

    /// Opens several files in the place of the `which`-th of `files`.
    pub(super) fn open_all(&self, paths: &[PathBuf], which: usize, files: usize, tensor: Option<&str>) -> Result<TensorFile> {
        if self.dtype.len() > files {
            bail!("--dtype has {} values; at most {files}, one a file", self.dtype.len());
        }
        let dtype = match self.dtype.get(which).or(self.dtype.last()) {
            Some(&OwnOr::DType(d)) => Some(d),
            Some(OwnOr::Own) | None => None,
        };
        let shape = self.shape.as_ref().map(|s| s.0.as_slice());
        let tensor = tensor.or(self.tensor.as_deref());
        let options = ReadOptions { dtype, shape, tensor, checksums: !self.no_crc, max_memory: self.max_memory };
        let mut file = TensorFile::open_all(paths, &options)?;
        if !file.nameless() {
            file.retain(|name| self.wants(name));
        }
        Ok(file)
    }

    /// Whether a tensor of this name is to be read.
    pub(super) fn wants(&self, name: &str) -> bool {
        let any = |globs: &[Pattern]| globs.iter().any(|g| g.matches(name));
        (self.include.is_empty() || any(&self.include)) && !any(&self.exclude)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_powers_of_1024() {
        for (text, bytes) in [("0", 0), ("1000", 1000), ("64K", 65536), ("1MiB", 1 << 20), ("3G", 3 << 30), ("2T", 2 << 40)] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in ["", "G", "-1", "1X", "1.5G", "99999999T"] {
            assert!(size(text).is_err(), "{text}");
        }
    }

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
