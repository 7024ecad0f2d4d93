//! Flags that say how files are read, shared by the commands.

use super::pattern::Pattern;
use super::screen;
use crate::dtype::DType;
use crate::files::{ReadOptions, Tensor, TensorFile, label};
use anyhow::{Result, bail, ensure};
use std::path::{Path, PathBuf};

/// How to read files that do not describe themselves.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct InputArgs {
    /// The format of raw data, or another format to read elements of the same width as: one for all files, or one for each, such as `f16,-`; `-` keeps a
    /// file's own
    #[arg(
        long,
        value_name = "DTYPE[,DTYPE]",
        value_delimiter = ',',
        allow_hyphen_values = true,
        value_parser = own_or_dtype,
        help_heading = "Input"
    )]
    dtype: Vec<OwnOr<DType>>,
    /// The extents of raw data, outermost first, such as `128,256`: once for all raw files, or once for each file, such as `--shape 128,256 --shape -`; `-`
    /// is for a file that has its own, `[]` a scalar
    #[arg(long, value_name = "N,N,...", allow_hyphen_values = true, value_parser = own_or_shape, help_heading = "Input")]
    shape: Vec<OwnOr<Shape>>,
    /// Only this tensor of the file (of each file)
    #[arg(long, value_name = "NAME", help_heading = "Input")]
    pub(super) tensor: Option<String>,
    /// Only tensors whose name matches, such as `*.attn.*`: `*` stands for any characters, `?` for one; may be given several times
    #[arg(long, value_name = "GLOB", help_heading = "Input")]
    include: Vec<Pattern>,
    /// No tensors whose name matches; may be given several times
    #[arg(long, value_name = "GLOB", help_heading = "Input")]
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

/// An error that something has: finite, and not negative.
pub(super) fn magnitude(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|x: &f64| x.is_finite() && *x >= 0.0).ok_or_else(|| "a number from 0 is wanted".to_owned())
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

/// What is given for a file, or that it has its own.
#[derive(Clone, Debug, PartialEq, Eq)]
enum OwnOr<T> {
    Own,
    Given(T),
}

/// The extents of a tensor. A type of its own, as a `Vec` would mean a flag with many values to clap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shape(pub(super) Vec<usize>);

fn own_or_dtype(text: &str) -> Result<OwnOr<DType>, crate::Error> {
    if text == "-" { Ok(OwnOr::Own) } else { text.parse().map(OwnOr::Given) }
}

fn own_or_shape(text: &str) -> Result<OwnOr<Shape>, String> {
    if text == "-" { Ok(OwnOr::Own) } else { shape(text).map(OwnOr::Given) }
}

/// One of the files of a command, or of the sides of a comparison, which may be several files each.
#[derive(Clone, Copy, Debug)]
pub(super) struct NthFile {
    /// Which one, from 0.
    pub which: usize,
    /// Of so many.
    pub of: usize,
    /// What there are several of: `file` or `side`.
    pub noun: &'static str,
}

/// A file of which a command reads one tensor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source<'a> {
    pub path: &'a Path,
    /// The tensor's name, where it is given with the file.
    pub tensor: Option<&'a str>,
    /// Whether it is no operand or result: a lone --dtype is not for it.
    pub beside: bool,
}

impl<'a> Source<'a> {
    pub(super) fn of(path: &'a Path) -> Source<'a> {
        Source { path, tensor: None, beside: false }
    }

    /// `FILE[:TENSOR]`, beside the operands.
    pub(super) fn beside(text: &'a str) -> Source<'a> {
        let (path, tensor) = file_and_tensor(text);
        Source { path, tensor, beside: true }
    }
}

/// A file, and the tensor behind the last colon: unless there is a file of the whole name.
pub(super) fn file_and_tensor(text: &str) -> (&Path, Option<&str>) {
    match text.rsplit_once(':') {
        Some((path, tensor)) if !Path::new(text).exists() && !path.is_empty() => (Path::new(path), Some(tensor)),
        _ => (Path::new(text), None),
    }
}

/// What a flag gives for a file: one value is for all, else there is one for each.
fn of_file<'a, T>(flag: &str, values: &'a [OwnOr<T>], NthFile { which, of, noun }: NthFile) -> Result<Option<&'a T>> {
    let value = match values.len() {
        0 | 1 => values.first(),
        n if n == of => values.get(which),
        n => bail!("{flag} has {n} values for {of} {noun}{}; it takes one for all, or one for each", if of == 1 { "" } else { "s" }),
    };
    Ok(value.and_then(|value| if let OwnOr::Given(value) = value { Some(value) } else { None }))
}

/// Reads `128,256`, `128x256`, or `[128, 256]`; `[]` is a scalar.
pub(super) fn shape(text: &str) -> Result<Shape, String> {
    let inner = text.strip_prefix(['[', '(']).and_then(|t| t.strip_suffix([']', ')'])).unwrap_or(text).trim();
    if inner.is_empty() && !text.is_empty() {
        return Ok(Shape(Vec::new()));
    }
    if text.is_empty() {
        return Err("no extent is given; `[]` is a scalar".to_owned());
    }
    let extent = |t: &str| t.trim().parse::<usize>().map_err(|_| format!("extent `{}` is not a whole number from 0", t.trim()));
    inner.split([',', 'x']).map(extent).collect::<Result<_, _>>().map(Shape)
}

/// The tensor of a file that has one.
pub(super) fn only(file: &TensorFile) -> Result<&Tensor> {
    let [tensor] = file.tensors() else {
        bail!("{} holds {} tensors: name one with --tensor", file.path().display(), file.tensors().len());
    };
    Ok(tensor)
}

/// Tells that a pattern fits no tensor, which is often a mistake and changes what is compared.
pub(super) fn fits_none(flag: &str, pattern: &Pattern) {
    screen::note(&format!("note: {flag} {}: no tensor has such a name", screen::plain(pattern.as_str())));
}

/// Refuses a flag that chooses by name, where none of the files has names.
pub(super) fn named(flag: &str, name: &str, files: &[&TensorFile]) -> Result<()> {
    ensure!(!files.iter().all(|file| file.nameless()), "{flag} {name}: no tensor of {} has a name", paths(files));
    Ok(())
}

fn paths(files: &[&TensorFile]) -> String {
    files.iter().map(|file| file.path().display().to_string()).collect::<Vec<_>>().join(", ")
}

impl InputArgs {
    /// Opens the `which`-th of `files` files.
    pub(super) fn open(&self, path: &Path, which: usize, files: usize) -> Result<TensorFile> {
        self.open_all(&[path.to_owned()], NthFile { which, of: files, noun: "file" }, None)
    }

    /// As [`open`](Self::open), of the second file, which lies beside the one that patterns and a lone --dtype are for: where its tensor is named with it, patterns have no part in that.
    pub(super) fn open_beside(&self, path: &Path, tensor: Option<&str>) -> Result<TensorFile> {
        self.open_source(Source { path, tensor, beside: true }, NthFile { which: 1, of: 2, noun: "file" })
    }

    fn open_source(&self, source: Source<'_>, nth: NthFile) -> Result<TensorFile> {
        let dtype = if source.beside && self.dtype.len() == 1 { None } else { of_file("--dtype", &self.dtype, nth)?.copied() };
        let mut file = self.read(&[source.path.to_owned()], nth, dtype, source.tensor)?;
        match source.tensor {
            Some(name) => named("the tensor", name, &[&file])?,
            None => self.choose(&mut file),
        }
        Ok(file)
    }

    /// Opens several files that stand for one.
    pub(super) fn open_all(&self, paths: &[PathBuf], nth: NthFile, tensor: Option<&str>) -> Result<TensorFile> {
        let mut file = self.read(paths, nth, of_file("--dtype", &self.dtype, nth)?.copied(), tensor)?;
        self.choose(&mut file);
        Ok(file)
    }

    /// Leaves the tensors that patterns choose.
    fn choose(&self, file: &mut TensorFile) {
        if !file.nameless() {
            file.retain(|name| self.wants(name));
        }
    }

    /// Opens files as ones of a format, if it is given, with all tensors of them or the one that is named.
    fn read(&self, paths: &[PathBuf], nth: NthFile, dtype: Option<DType>, tensor: Option<&str>) -> Result<TensorFile> {
        let shape = of_file("--shape", &self.shape, nth)?.map(|s| s.0.as_slice());
        let tensor = tensor.or(self.tensor.as_deref());
        let options = ReadOptions { dtype, shape, tensor, checksums: !self.no_crc, max_memory: self.max_memory };
        let file = TensorFile::open_all(paths, &options)?;
        if self.shape.len() > 1 && shape.is_some() && !file.has_raw() {
            bail!("{}: has its own shape; --shape is for raw files, `-` for others", label(paths));
        }
        Ok(file)
    }

    /// Opens each of several files that the command reads one tensor of.
    pub(super) fn open_each(&self, paths: &[&Path]) -> Result<Vec<TensorFile>> {
        self.open_sources(&paths.iter().map(|path| Source::of(path)).collect::<Vec<_>>())
    }

    /// The same of files that may name their tensor, and of some that lie beside the operands.
    pub(super) fn open_sources(&self, sources: &[Source<'_>]) -> Result<Vec<TensorFile>> {
        let nth = |which| NthFile { which, of: sources.len(), noun: "file" };
        let open = |(which, source): (usize, &Source<'_>)| self.open_source(*source, nth(which));
        let files: Vec<TensorFile> = sources.iter().enumerate().map(open).collect::<Result<_>>()?;
        self.check_used(&files.iter().collect::<Vec<_>>())?;
        Ok(files)
    }

    /// Refuses what would be ignored, with all files open: a shape where none of them is raw, a name where no tensor has one, patterns that leave nothing. Tells of patterns that fit
    /// nothing.
    pub(super) fn check_used(&self, files: &[&TensorFile]) -> Result<()> {
        if !self.shape.is_empty() && !files.iter().any(|file| file.has_raw()) {
            bail!("{}: --shape is for raw files", paths(files));
        }
        let globs = || {
            [("--include", &self.include), ("--exclude", &self.exclude)]
                .into_iter()
                .flat_map(|(flag, all)| all.iter().map(move |glob| (flag, glob)))
        };
        let chosen = globs().map(|(flag, glob)| (flag, glob.as_str()));
        self.tensor.iter().map(|name| ("--tensor", name.as_str())).chain(chosen).try_for_each(|(flag, name)| named(flag, name, files))?;
        let left_out: usize = files.iter().map(|file| file.left_out().len()).sum();
        if left_out > 0 && files.iter().all(|file| !file.nameless() && file.tensors().is_empty()) {
            bail!("{}: --include and --exclude leave no tensor of {left_out}", paths(files));
        }
        let names = || {
            files
                .iter()
                .filter(|file| !file.nameless())
                .flat_map(|file| file.tensors().iter().map(Tensor::name).chain(file.left_out().iter().map(String::as_str)))
        };
        globs().filter(|(_, glob)| !names().any(|name| glob.matches(name))).for_each(|(flag, glob)| fits_none(flag, glob));
        Ok(())
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

    #[test]
    fn a_flag_has_one_value_for_all_files_or_one_for_each() {
        let (own, f16, f32) = (OwnOr::Own, OwnOr::Given(DType::F16), OwnOr::Given(DType::F32));
        for (values, which, found) in [
            (vec![], 1, None),
            (vec![f16.clone()], 2, Some(DType::F16)),
            (vec![own.clone()], 0, None),
            (vec![f16.clone(), own.clone(), f32.clone()], 1, None),
            (vec![f16.clone(), own, f32.clone()], 2, Some(DType::F32)),
        ] {
            assert_eq!(of_file("--dtype", &values, NthFile { which, of: 3, noun: "file" }).unwrap().copied(), found, "{values:?} {which}");
        }
        let e = of_file("--dtype", &[f16, f32], NthFile { which: 2, of: 3, noun: "file" }).unwrap_err().to_string();
        assert_eq!(e, "--dtype has 2 values for 3 files; it takes one for all, or one for each");
    }
}
