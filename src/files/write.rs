//! Tensors as files.

use super::target::{Unfinished, direct, fail, replace};
use super::{npy, safetensors};
use crate::device::Layout;
use crate::dtype::DType;
use crate::error::{Error, Result};
use std::borrow::Cow;
use std::fs::File;
use std::io::{BufWriter, Write};
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
    /// The elements in whole storage units: as many bytes as the shape takes.
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

impl std::fmt::Display for Format {
    /// The extension that names it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Format::Npy => "npy",
            Format::Npz => "npz",
            Format::Safetensors => "safetensors",
            Format::Raw => "raw",
        })
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
/// [`Error::File`] when the bytes are not as many as the shape takes, the format has no name for the dtype, or the file cannot be written.
pub fn write(path: &Path, format: Format, tensor: &Output<'_>) -> Result<()> {
    let Output { name, dtype, shape, bytes } = *tensor;
    let heading = Heading { name, dtype, shape };
    let failed = |reason: String| Error::File { path: path.display().to_string(), reason };
    // Before the file is touched: a pipe would have the header of a tensor that does not follow.
    let ((_, needed), given) = (heading.size().map_err(failed)?, bytes.len());
    if given != needed {
        return Err(failed(format!("shape {shape:?} of {dtype} takes {needed} bytes, {given} are given")));
    }
    write_each(path, format, &[heading], &mut |_| Ok(Cow::Borrowed(bytes)))
}

/// A tensor among those to write: all but its elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Heading<'a> {
    /// The name in formats that have names.
    pub name: &'a str,
    /// The format of the elements.
    pub dtype: DType,
    /// The extents.
    pub shape: &'a [usize],
}

impl Heading<'_> {
    /// How many elements there are, and how many bytes they take.
    fn size(&self) -> Result<(usize, usize), String> {
        let Heading { dtype, shape, .. } = *self;
        let elements = Layout::contiguous(shape).map_err(|e| e.to_string())?.elements();
        let bytes = dtype.bytes_for(elements).filter(|&bytes| bytes <= isize::MAX as usize);
        bytes.map(|bytes| (elements, bytes)).ok_or_else(|| format!("shape {shape:?} of {dtype} exceeds the address space"))
    }
}

/// Writes several tensors to a file, as [`write()`] does; `bytes` gives the elements of the one of that number, when they are written.
///
/// # Errors
/// As for [`write()`]; what `bytes` gives; for several tensors of a format that holds one.
pub(crate) fn write_each<'b>(
    path: &Path,
    format: Format,
    tensors: &[Heading<'_>],
    bytes: &mut dyn FnMut(usize) -> Result<Cow<'b, [u8]>>,
) -> Result<()> {
    let failed = |reason: String| Error::File { path: path.display().to_string(), reason };
    let header = file_header(format, tensors).map_err(failed)?;
    if format == Format::Npz {
        if direct(path).is_some() {
            return Err(failed("an .npz archive can only be written to a regular file".to_owned()));
        }
        let unfinished = Unfinished::beside(path).map_err(|e| fail(path, &e))?;
        archive(unfinished.file(), tensors, bytes)?.map_err(failed)?;
        return unfinished.finish().map_err(|e| fail(path, &e));
    }
    let mut no_elements = None;
    let written = replace(path, |out| {
        out.write_all(&header)?;
        for (i, tensor) in tensors.iter().enumerate() {
            match bytes(i) {
                Ok(bytes) => out.write_all(&stored(format, tensor.dtype, bytes))?,
                Err(e) => {
                    no_elements = Some(e);
                    return Err(std::io::ErrorKind::Other.into());
                }
            }
        }
        Ok(())
    });
    no_elements.map_or(written, Err)
}

/// Whether a file can hold such a tensor: to be asked before the data are made.
///
/// # Errors
/// [`Error::File`] when it cannot.
pub fn check(path: &Path, format: Format, dtype: DType, shape: &[usize]) -> Result<()> {
    check_each(path, format, &[Heading { name: "tensor", dtype, shape }])
}

/// The same for several tensors.
///
/// # Errors
/// [`Error::File`] when it cannot.
pub(crate) fn check_each(path: &Path, format: Format, tensors: &[Heading<'_>]) -> Result<()> {
    file_header(format, tensors).map(drop).map_err(|reason| Error::File { path: path.display().to_string(), reason })
}

/// The bytes before the data of all tensors; of an archive, whose members have their own, nothing.
fn file_header(format: Format, tensors: &[Heading<'_>]) -> Result<Vec<u8>, String> {
    tensors.iter().try_for_each(|tensor| tensor.size().map(drop))?;
    match (format, tensors) {
        (Format::Npy, [one]) => npy_header(one),
        (Format::Raw, [_]) => Ok(Vec::new()),
        (Format::Npy | Format::Raw, _) => {
            Err(format!("it holds one tensor, not {}: name one, or write .safetensors or .npz", tensors.len()))
        }
        (Format::Npz, _) => tensors.iter().try_for_each(|tensor| npy_header(tensor).map(drop)).map(|()| Vec::new()),
        (Format::Safetensors, _) => safetensors_header(tensors),
    }
}

fn npy_header(tensor: &Heading<'_>) -> Result<Vec<u8>, String> {
    npy::Header::write(tensor.dtype, tensor.shape).ok_or_else(|| {
        let names = supported(DType::numpy_code);
        format!("the npy format has no name for {}; it has: {names}; write .safetensors (or .raw) instead", tensor.dtype)
    })
}

fn safetensors_header(tensors: &[Heading<'_>]) -> Result<Vec<u8>, String> {
    let mut entries = Vec::new();
    for tensor in tensors {
        let &Heading { name, dtype, shape } = tensor;
        let (elements, unpacked) = tensor.size()?;
        if name == safetensors::METADATA {
            return Err(format!("a tensor cannot be called `{name}`: .safetensors has its metadata by that name"));
        }
        if dtype.bits() == 4 && elements % 2 != 0 || is_fp6(dtype) && elements % 4 != 0 {
            return Err(format!("{elements} elements of {dtype} do not fill whole bytes, as .safetensors wants; write .raw instead"));
        }
        let label = dtype.safetensors_name().ok_or_else(|| {
            let names = supported(DType::safetensors_name);
            format!("the safetensors format has no name for {dtype}; it has: {names}; write .raw instead")
        })?;
        let bytes = if is_fp6(dtype) { elements / 4 * 3 } else { unpacked };
        entries.push((name, label, shape, bytes));
    }
    Ok(safetensors::header(&entries))
}

/// The formats that a file has a name for.
fn supported(name: impl Fn(DType) -> Option<&'static str>) -> String {
    DType::ALL.into_iter().filter(|d| name(*d).is_some()).map(DType::name).collect::<Vec<_>>().join(" ")
}

fn is_fp6(dtype: DType) -> bool {
    matches!(dtype, DType::F6E2M3 | DType::F6E3M2)
}

/// The elements as the file has them: packed ones of 6 bits in .safetensors.
fn stored<'b>(format: Format, dtype: DType, bytes: Cow<'b, [u8]>) -> Cow<'b, [u8]> {
    let packed = if format == Format::Safetensors && is_fp6(dtype) { safetensors::pack6(&bytes) } else { None };
    packed.map_or(bytes, Cow::Owned)
}

/// Writes an archive. The outer error is of the elements.
fn archive<'b>(file: &File, tensors: &[Heading<'_>], bytes: &mut dyn FnMut(usize) -> Result<Cow<'b, [u8]>>) -> Result<Result<(), String>> {
    let mut zip = zip::ZipWriter::new(BufWriter::new(file));
    for (i, tensor) in tensors.iter().enumerate() {
        let bytes = bytes(i)?;
        if let Err(reason) = member(&mut zip, tensor, &bytes) {
            return Ok(Err(reason));
        }
    }
    Ok(zip.finish().map_err(|e| e.to_string()).and_then(|mut out| out.flush().map_err(|e| e.to_string())))
}

fn member(zip: &mut zip::ZipWriter<BufWriter<&File>>, tensor: &Heading<'_>, bytes: &[u8]) -> Result<(), String> {
    let header = npy_header(tensor)?;
    let options = zip::write::SimpleFileOptions::default()
        .compression_method(zip::CompressionMethod::Stored)
        .large_file(u32::try_from(header.len() + bytes.len()).is_err());
    zip.start_file(format!("{}.npy", tensor.name), options).map_err(|e| e.to_string())?;
    [&header, bytes].iter().try_for_each(|part| zip.write_all(part)).map_err(|e| e.to_string())
}
