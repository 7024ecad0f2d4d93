//! Writing tensor files: to a temporary file beside the target, renamed when it is complete.

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

#[derive(Clone, Copy, PartialEq, Eq)]
enum Target {
    Npy,
    Npz,
    Safetensors,
    Raw,
}

/// Writes a file in the format that its extension names: .npy, .npz, .safetensors; .bin and .raw for the elements alone.
/// An existing file is replaced, and only by a complete one.
pub fn write(path: &Path, tensor: &Output<'_>) -> Result<()> {
    let fail = |reason: String| Error::File { path: path.display().to_string(), reason };
    let target = target(path).map_err(fail)?;
    let parts = parts(target, tensor).map_err(fail)?;
    let io = |e: std::io::Error| fail(e.to_string());
    if std::fs::metadata(path).is_ok_and(|m| !m.is_file()) {
        // A device or a pipe cannot be replaced; a directory fails here with the system's words.
        if target == Target::Npz {
            return Err(fail("an .npz archive can only be written to a regular file".to_owned()));
        }
        let mut file = File::options().write(true).open(path).map_err(io)?;
        return parts.iter().try_for_each(|p| file.write_all(p)).map_err(io);
    }
    let temporary = beside(path).map_err(io)?;
    if target == Target::Npz {
        archive(temporary.as_file(), tensor.name, &parts).map_err(fail)?;
    } else {
        let mut file = temporary.as_file();
        parts.iter().try_for_each(|p| file.write_all(p)).map_err(io)?;
    }
    temporary.persist(path).map_err(|e| io(e.error))?;
    Ok(())
}

/// Writes a text file; an existing one is replaced, and only by a complete one.
pub fn write_text(path: &Path, text: &str) -> Result<()> {
    let io = |e: std::io::Error| Error::File { path: path.display().to_string(), reason: e.to_string() };
    if std::fs::metadata(path).is_ok_and(|m| !m.is_file()) {
        return File::options().write(true).open(path).and_then(|mut file| file.write_all(text.as_bytes())).map_err(io);
    }
    let temporary = beside(path).map_err(io)?;
    temporary.as_file().write_all(text.as_bytes()).map_err(io)?;
    temporary.persist(path).map_err(|e| io(e.error))?;
    Ok(())
}

/// A temporary file in the folder of `path`.
fn beside(path: &Path) -> std::io::Result<tempfile::NamedTempFile> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    {
        // What open(2) would give a new file; the umask still applies.
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    builder.prefix(".hipverify-").tempfile_in(folder)
}

fn target(path: &Path) -> Result<Target, String> {
    let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default().to_ascii_lowercase();
    match extension.as_str() {
        "npy" => Ok(Target::Npy),
        "npz" => Ok(Target::Npz),
        "safetensors" => Ok(Target::Safetensors),
        "bin" | "raw" => Ok(Target::Raw),
        other => Err(format!("extension `{other}` names no format to write; known: npy, npz, safetensors, bin and raw")),
    }
}

/// Whether a file of this name can hold this format: to be asked before the data are made.
pub fn check(path: &Path, dtype: DType, shape: &[usize]) -> Result<()> {
    let fail = |reason: String| Error::File { path: path.display().to_string(), reason };
    target(path).and_then(|t| header(t, "tensor", dtype, shape, 0).map(|_| ())).map_err(fail)
}

/// The bytes before the data.
fn header(target: Target, name: &str, dtype: DType, shape: &[usize], bytes: usize) -> Result<Vec<u8>, String> {
    let elements = shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d)).unwrap_or(0);
    match target {
        Target::Npy | Target::Npz => npy::Header::write(dtype, shape)
            .ok_or_else(|| format!("the npy format has no name for {dtype}; write .safetensors (or .raw) instead")),
        Target::Safetensors => {
            if dtype.bits() == 4 && elements % 2 != 0 || is_fp6(dtype) && elements % 4 != 0 {
                return Err(format!("{elements} elements of {dtype} do not fill whole bytes, as .safetensors wants; write .raw instead"));
            }
            safetensors::header(name, dtype, shape, bytes)
                .ok_or_else(|| format!("the safetensors format has no name for {dtype}; write .raw instead"))
        }
        Target::Raw => Ok(Vec::new()),
    }
}

fn is_fp6(dtype: DType) -> bool {
    matches!(dtype, DType::F6E2M3 | DType::F6E3M2)
}

fn parts<'a>(target: Target, tensor: &Output<'a>) -> Result<[std::borrow::Cow<'a, [u8]>; 2], String> {
    let packed = if target == Target::Safetensors && is_fp6(tensor.dtype) { safetensors::pack6(tensor.bytes) } else { None };
    let data = packed.map_or(std::borrow::Cow::Borrowed(tensor.bytes), std::borrow::Cow::Owned);
    let header = header(target, tensor.name, tensor.dtype, tensor.shape, data.len())?;
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
