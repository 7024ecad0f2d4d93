//! Tensor files: .npy, .npz, .safetensors and raw data, memory-mapped.
//!
//! [`TensorFile::open`] finds the format by the first bytes (by the name where a format has no magic number) and yields
//! tensors that lie where the file lies. Data are copied only where their order in the file is not ours: big-endian numbers,
//! packed 6-bit elements, one-a-byte 4-bit elements, deflated archive members, and pipes.
//!
//! Limits: a file must not change while it is mapped. Unsigned integers of 64 bits, complex numbers and text are not read.

mod npy;
mod npz;
mod safetensors;
mod write;

pub use write::{Output, check, write, write_text};

use crate::device::{Layout, TensorRef};
use crate::dtype::DType;
use crate::error::{Error, Result};
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How to read a file.
#[derive(Clone, Debug, Default)]
pub struct Request<'a> {
    /// The format of raw data; elsewhere the format to read elements of the same width as.
    pub dtype: Option<DType>,
    /// The extents of raw data.
    pub shape: Option<&'a [usize]>,
    /// The one tensor that is wanted; all when absent.
    pub tensor: Option<&'a str>,
}

/// An open tensor file.
#[derive(Debug)]
pub struct TensorFile {
    path: PathBuf,
    kind: Kind,
    tensors: Vec<Tensor>,
}

/// The kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One array without a name.
    Npy,
    /// An archive of named arrays.
    Npz,
    /// Named tensors.
    Safetensors,
    /// Elements and nothing else.
    Raw,
}

/// One tensor of a file.
#[derive(Debug)]
pub struct Tensor {
    name: String,
    dtype: DType,
    layout: Layout,
    data: Data,
}

#[derive(Debug)]
enum Data {
    File(Arc<Source>, Range<usize>),
    Owned(Vec<u8>),
}

/// Where the bytes of something are.
enum Bytes {
    /// Inside the file (or archive member) at hand.
    Inside(Range<usize>),
    /// In a copy that had to be made.
    Copied(Vec<u8>),
}

/// The bytes of a file.
#[derive(Debug)]
enum Source {
    Mapped(memmap2::Mmap),
    Read(Vec<u8>),
}

impl Source {
    fn bytes(&self) -> &[u8] {
        match self {
            Source::Mapped(map) => map,
            Source::Read(bytes) => bytes,
        }
    }

    fn open(path: &Path) -> std::io::Result<Source> {
        let mut file = File::open(path)?;
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(std::io::Error::other("is a directory"));
        }
        if metadata.is_file() && metadata.len() > 0 {
            // SAFETY: the mapping is read-only and private to this process; that no other process changes the file
            // meanwhile is asked of the user (the help text says so), as no operating system can promise it.
            let map = unsafe { memmap2::Mmap::map(&file)? };
            return Ok(Source::Mapped(map));
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(Source::Read(bytes))
    }
}

impl Tensor {
    /// The name; empty in files that hold one nameless tensor.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The format of the elements.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Shape and strides.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The memory, which the layout indexes.
    pub fn bytes(&self) -> &[u8] {
        match &self.data {
            Data::File(source, range) => &source.bytes()[range.clone()],
            Data::Owned(bytes) => bytes,
        }
    }

    /// The tensor, on the host device.
    pub fn view(&self) -> Result<TensorRef<'_>> {
        TensorRef::from_host_bytes(self.bytes(), self.dtype, self.layout.clone())
    }
}

impl TensorFile {
    /// Opens a file.
    pub fn open(path: &Path, request: &Request<'_>) -> Result<TensorFile> {
        let fail = |reason: String| Error::File { path: path.display().to_string(), reason };
        let source = Arc::new(Source::open(path).map_err(|e| fail(e.to_string()))?);
        let bytes = source.bytes();
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default().to_ascii_lowercase();
        let (kind, tensors) = if bytes.starts_with(npy::MAGIC) || extension == "npy" {
            (Kind::Npy, read_npy(&source, 0..bytes.len(), String::new(), request.dtype).map(|t| vec![t]))
        } else if npz::MAGICS.iter().any(|m| bytes.starts_with(m)) || extension == "npz" {
            (Kind::Npz, read_npz(&source, request))
        } else if extension == "safetensors" || request.shape.is_none() && safetensors::looks_like(bytes) {
            (Kind::Safetensors, read_safetensors(&source, request))
        } else {
            (Kind::Raw, read_raw(&source, request).map(|t| vec![t]))
        };
        let tensors = tensors.map_err(fail)?;
        if kind != Kind::Raw && request.shape.is_some() {
            return Err(fail("has its own shape; --shape is for raw files".to_owned()));
        }
        if let Some(d) = request.dtype
            && !tensors.is_empty()
            && tensors.iter().all(|t| t.dtype != d)
        {
            let found: Vec<String> = tensors.iter().map(|t| t.dtype.to_string()).collect();
            let words = "has no elements of the width of";
            return Err(fail(format!("{words} {d}; it holds {} (give `-` to keep the file's own dtype)", enumerate(&found))));
        }
        Ok(TensorFile { path: path.to_owned(), kind, tensors })
    }

    /// The path as it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What kind of file it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// How to name one of the tensors in a message.
    pub fn label(&self, tensor: &Tensor) -> String {
        let path = self.path.display();
        if tensor.name.is_empty() { path.to_string() } else { format!("{path}, tensor `{}`", tensor.name) }
    }

    /// The tensors, in the order of the file.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Kind::Npy => "npy",
            Kind::Npz => "npz",
            Kind::Safetensors => "safetensors",
            Kind::Raw => "raw",
        })
    }
}

/// A list for a message: the first ten, and how many more.
fn enumerate(names: &[String]) -> String {
    let shown = names.iter().take(10).map(String::as_str).collect::<Vec<_>>().join(", ");
    match names.len() {
        0 => "none".to_owned(),
        1..=10 => shown,
        n => format!("{shown} and {} more", n - 10),
    }
}

fn read_npy(source: &Arc<Source>, place: Range<usize>, name: String, wanted: Option<DType>) -> Result<Tensor, String> {
    let file = &source.bytes()[place.clone()];
    let (dtype, layout, data) = describe_npy(file, wanted)?;
    let data = match data {
        Bytes::Inside(range) => Data::File(source.clone(), place.start + range.start..place.start + range.end),
        Bytes::Copied(copy) => Data::Owned(copy),
    };
    Ok(Tensor { name, dtype, layout, data })
}

/// Format and layout of an .npy file, and its data: where they lie, or a converted copy.
fn describe_npy(file: &[u8], wanted: Option<DType>) -> Result<(DType, Layout, Bytes), String> {
    let header = npy::Header::parse(file)?;
    let (layout, bytes) = header.layout()?;
    let found = file.len() - header.data;
    if found != bytes {
        let shape = format!("shape {:?} of {}-byte elements takes {bytes} bytes, the file holds {found}", header.shape, header.descr.bytes);
        return Err(if found < bytes { format!("truncated: {shape}") } else { format!("{shape} (several arrays in one .npy?)") });
    }
    let dtype = header.descr.resolve(wanted)?;
    let data = &file[header.data..];
    if dtype.bits() == 4 {
        return Ok((dtype, layout, Bytes::Copied(pack4(data, dtype)?)));
    }
    if header.descr.big_endian {
        return Ok((dtype, layout, Bytes::Copied(swap_bytes(data, header.descr.bytes)?)));
    }
    Ok((dtype, layout, Bytes::Inside(header.data..file.len())))
}

fn read_npz(source: &Arc<Source>, request: &Request<'_>) -> Result<Vec<Tensor>, String> {
    let file = source.bytes();
    let mut tensors = Vec::new();
    let mut names = Vec::new();
    for member in npz::members(file)? {
        names.push(member.name.clone());
        if request.tensor.is_some_and(|wanted| wanted != member.name) {
            continue;
        }
        let name = member.name.clone();
        let describe = |e: String| format!("npz member `{}`: {e}", member.name);
        tensors.push(match member.bytes(file)? {
            Bytes::Inside(place) => read_npy(source, place, name, request.dtype).map_err(describe)?,
            Bytes::Copied(mut bytes) => {
                let (dtype, layout, data) = describe_npy(&bytes, request.dtype).map_err(describe)?;
                let owned = match data {
                    Bytes::Inside(range) => bytes.split_off(range.start),
                    Bytes::Copied(copy) => copy,
                };
                Tensor { name, dtype, layout, data: Data::Owned(owned) }
            }
        });
    }
    absent(request, &tensors, &names)?;
    Ok(tensors)
}

fn read_safetensors(source: &Arc<Source>, request: &Request<'_>) -> Result<Vec<Tensor>, String> {
    let mut tensors = Vec::new();
    let mut names = Vec::new();
    for entry in safetensors::parse(source.bytes())? {
        names.push(entry.name.clone());
        if request.tensor.is_some_and(|wanted| wanted != entry.name) {
            continue;
        }
        let dtype = entry.resolve(request.dtype)?;
        let layout = Layout::contiguous(&entry.shape).map_err(|e| format!("tensor `{}`: {e}", entry.name))?;
        let data = if entry.bits == 6 {
            Data::Owned(safetensors::unpack6(&source.bytes()[entry.data]))
        } else {
            Data::File(source.clone(), entry.data)
        };
        tensors.push(Tensor { name: entry.name, dtype, layout, data });
    }
    absent(request, &tensors, &names)?;
    Ok(tensors)
}

fn absent(request: &Request<'_>, found: &[Tensor], names: &[String]) -> Result<(), String> {
    match request.tensor {
        Some(wanted) if found.is_empty() => Err(format!("no tensor `{wanted}`; there are: {}", enumerate(names))),
        _ => Ok(()),
    }
}

fn read_raw(source: &Arc<Source>, request: &Request<'_>) -> Result<Tensor, String> {
    let (Some(dtype), Some(shape)) = (request.dtype, request.shape) else {
        return Err("not an .npy, .npz or .safetensors file; raw data need --dtype and --shape".to_owned());
    };
    let layout = Layout::contiguous(shape).map_err(|e| e.to_string())?;
    let bytes = dtype.bytes_for(layout.elements()).filter(|&b| b <= isize::MAX as usize);
    let bytes = bytes.ok_or_else(|| format!("shape {shape:?} of {dtype} exceeds the address space"))?;
    let found = source.bytes().len();
    if found != bytes {
        return Err(format!("shape {shape:?} of {dtype} takes {bytes} bytes, the file holds {found}"));
    }
    Ok(Tensor { name: String::new(), dtype, layout, data: Data::File(source.clone(), 0..bytes) })
}

/// Reverses the bytes of each element.
fn swap_bytes(data: &[u8], width: usize) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    out.try_reserve_exact(data.len()).map_err(|e| format!("{} bytes to reorder: {e}", data.len()))?;
    out.extend_from_slice(data);
    for element in out.chunks_exact_mut(width) {
        element.reverse();
    }
    Ok(out)
}

/// Packs 4-bit elements that lie one a byte (as ml_dtypes writes them), two a byte.
fn pack4(data: &[u8], dtype: DType) -> Result<Vec<u8>, String> {
    let signed = dtype == DType::I4;
    let single = |b: u8| b < 16 || signed && b >= 0xf8;
    if let Some(at) = data.iter().position(|&b| !single(b)) {
        let byte = data[at];
        return Err(format!(
            "element {at} is {byte:#04x}, not one {dtype} a byte; packed data can be read as raw with --dtype and --shape"
        ));
    }
    Ok(data.chunks(2).map(|pair| pair[0] & 0xf | pair.get(1).map_or(0, |b| b << 4)).collect())
}

#[cfg(test)]
mod tests;
