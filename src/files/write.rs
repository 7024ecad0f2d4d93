//! Tensors as files.

use super::target::{Unfinished, direct, fail, replace};
use super::{npy, safetensors};
use crate::dtype::DType;
use crate::error::{Error, Result};
use std::fs::File;
use std::io::{BufWriter, Seek, Write};
use std::path::Path;

/// A dense row-major tensor to write.
#[derive(Clone, Copy, Debug)]
pub struct Output<'a> {
    /// The name in formats that have names.
    pub name: &'a str,
    /// The format of the elements.
    pub dtype: DType,
    /// The extents.
    pub shape: &'a [usize],
    /// The elements.
    pub bytes: &'a [u8],
}

/// A format that tensors are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One array.
    Npy,
    /// An archive with one array.
    Npz,
    /// A file with one named tensor.
    Safetensors,
    /// The elements alone.
    Raw,
}

impl Format {
    /// The format that a file's extension names: .npy, .npz, .safetensors; .bin and .raw for the elements alone. `-`, standard output, is .npy.
    ///
    /// # Errors
    /// [`Error::File`] for any other name.
    pub fn of(path: &Path) -> Result<Format> {
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default().to_ascii_lowercase();
        match extension.as_str() {
            "" if path == Path::new("-") => Ok(Format::Npy),
            other => other.parse().map_err(|reason| Error::File { path: path.display().to_string(), reason }),
        }
    }
}

impl std::str::FromStr for Format {
    type Err = String;

    fn from_str(extension: &str) -> Result<Format, String> {
        match extension {
            "npy" => Ok(Format::Npy),
            "npz" => Ok(Format::Npz),
            "safetensors" => Ok(Format::Safetensors),
            "bin" | "raw" => Ok(Format::Raw),
            other => Err(format!("`{other}` names no format to write; known: npy, npz, safetensors, bin and raw")),
        }
    }
}

/// Writes a tensor. An existing file is replaced, and only by a complete one; `-` is standard output.
///
/// # Errors
/// [`Error::File`] when the format has no name for the dtype, or the file cannot be written.
pub fn write(path: &Path, format: Format, tensor: &Output<'_>) -> Result<()> {
    let failed = |reason: String| Error::File { path: path.display().to_string(), reason };
    let parts = parts(format, tensor).map_err(failed)?;
    if format != Format::Npz {
        return replace(path, |out| parts.iter().try_for_each(|part| out.write_all(part)));
    }
    if direct(path).is_some() {
        return Err(failed("an .npz archive can only be written to a regular file".to_owned()));
    }
    let unfinished = Unfinished::beside(path).map_err(|e| fail(path, &e))?;
    archive(unfinished.file(), tensor.name, &parts).map_err(failed)?;
    unfinished.finish().map_err(|e| fail(path, &e))
}

/// Whether a file can hold such a tensor: to be asked before the data are made.
///
/// # Errors
/// [`Error::File`] when it cannot.
pub fn check(path: &Path, format: Format, dtype: DType, shape: &[usize]) -> Result<()> {
    let failed = |reason: String| Error::File { path: path.display().to_string(), reason };
    header(format, "tensor", dtype, shape, 0).map(drop).map_err(failed)
}

/// The bytes before the data.
fn header(format: Format, name: &str, dtype: DType, shape: &[usize], bytes: usize) -> Result<Vec<u8>, String> {
    let elements = shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d)).unwrap_or(0);
    match format {
        Format::Npy | Format::Npz => npy::Header::write(dtype, shape).ok_or_else(|| {
            let names = supported(DType::numpy_code);
            format!("the npy format has no name for {dtype}; it has: {names}; write .safetensors (or .raw) instead")
        }),
        Format::Safetensors => {
            if name == safetensors::METADATA {
                return Err(format!("a tensor cannot be called `{name}`: .safetensors has its metadata by that name"));
            }
            if dtype.bits() == 4 && elements % 2 != 0 || is_fp6(dtype) && elements % 4 != 0 {
                return Err(format!("{elements} elements of {dtype} do not fill whole bytes, as .safetensors wants; write .raw instead"));
            }
            safetensors::header(name, dtype, shape, bytes).ok_or_else(|| {
                let names = supported(DType::safetensors_name);
                format!("the safetensors format has no name for {dtype}; it has: {names}; write .raw instead")
            })
        }
        Format::Raw => Ok(Vec::new()),
    }
}

/// The formats that a file has a name for.
fn supported(name: impl Fn(DType) -> Option<&'static str>) -> String {
    DType::ALL.into_iter().filter(|d| name(*d).is_some()).map(DType::name).collect::<Vec<_>>().join(" ")
}

fn is_fp6(dtype: DType) -> bool {
    matches!(dtype, DType::F6E2M3 | DType::F6E3M2)
}

fn parts<'a>(format: Format, tensor: &Output<'a>) -> Result<[std::borrow::Cow<'a, [u8]>; 2], String> {
    let packed = if format == Format::Safetensors && is_fp6(tensor.dtype) { safetensors::pack6(tensor.bytes) } else { None };
    let data = packed.map_or(std::borrow::Cow::Borrowed(tensor.bytes), std::borrow::Cow::Owned);
    let header = header(format, tensor.name, tensor.dtype, tensor.shape, data.len())?;
    Ok([std::borrow::Cow::Owned(header), data])
}

fn archive(file: &File, name: &str, parts: &[std::borrow::Cow<'_, [u8]>]) -> Result<(), String> {
    let size: usize = parts.iter().map(|p| p.len()).sum();
    let options = zip::write::SimpleFileOptions::default()
        .compression_method(zip::CompressionMethod::Stored)
        .large_file(u32::try_from(size).is_err());
    let mut out = BufWriter::new(file);
    out.seek(std::io::SeekFrom::Start(0)).map_err(|e| e.to_string())?;
    let mut zip = zip::ZipWriter::new(out);
    zip.start_file(format!("{name}.npy"), options).map_err(|e| e.to_string())?;
    parts.iter().try_for_each(|p| zip.write_all(p)).map_err(|e| e.to_string())?;
    zip.finish().map_err(|e| e.to_string())?.flush().map_err(|e| e.to_string())
}
