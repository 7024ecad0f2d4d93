//! Tensor files: .npy, .npz, .safetensors with shards, PyTorch's .pt (feature `torch`), folders and lists of them, and raw data.
//!
//! [`TensorFile::open`] finds the format by the first bytes (by the name where a format has no magic number) and lists the tensors: name, type,
//! shape. [`Tensor::load`] gives the data, which lie where the file lies. They are copied only where their order in the file is not ours: big-endian
//! numbers, packed 6-bit elements, one-a-byte 4-bit elements, deflated archive members, and pipes.
//!
//! ```
//! use hipverify::files::{Format, Output, ReadOptions, TensorFile, write};
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("x.npy");
//! write(&path, Format::Npy, &Output { name: "", dtype: hipverify::DType::U8, shape: &[2, 3], bytes: &[1, 2, 3, 4, 5, 6] })?;
//! let file = TensorFile::open(&path, &ReadOptions::default())?;
//! let tensor = &file.tensors()[0];
//! assert_eq!((tensor.shape(), tensor.load()?.bytes()), (&[2, 3][..], &[1, 2, 3, 4, 5, 6][..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Files may come from anybody: nothing that they claim is believed before it is there, and whatever they hold is an error or a tensor. A tensor
//! of a type that no format here has is listed, and an error when it is loaded; the others of its file are not concerned. Messages call the options as
//! the program's flags are called.
//!
//! Limits: a file must not change while it is mapped; [`changed`] says whether one did. Text and objects are not read. Complex numbers are pairs of real ones.

mod data;
mod descr;
mod folder;
mod npy;
mod npz;
mod safetensors;
mod source;
mod target;
#[cfg(feature = "torch")]
mod torch;
mod write;

pub use data::Loaded;
#[cfg(feature = "cli")]
pub(crate) use folder::is_tensor_file;
pub use source::changed;
pub use target::{remove_unfinished, replace};
pub use write::{Format, Output, check, write};
#[cfg(feature = "cli")]
pub(crate) use write::{Heading, check_each, write_each};

use crate::device::Layout;
use crate::dtype::DType;
use crate::error::{Error, Result};
use data::{DataRange, Numbers, Order};
use source::Source;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How to read a file.
#[derive(Clone, Debug)]
pub struct ReadOptions<'a> {
    /// The format of raw data; elsewhere the format to read elements of the same width as.
    pub dtype: Option<DType>,
    /// The extents of raw data; other files have their own.
    pub shape: Option<&'a [usize]>,
    /// The one tensor that is wanted; all when absent.
    pub tensor: Option<&'a str>,
    /// Whether the checksums of stored archive members are verified, which reads them once more.
    pub checksums: bool,
    /// The most bytes that a copy of a tensor, or of a pipe, may take, and the elements of a tensor that shows the same memory several times.
    pub max_memory: u64,
}

impl Default for ReadOptions<'_> {
    fn default() -> Self {
        ReadOptions { dtype: None, shape: None, tensor: None, checksums: true, max_memory: 4 << 30 }
    }
}

/// An open tensor file, or several as one.
#[derive(Debug)]
pub struct TensorFile {
    path: PathBuf,
    kind: FileKind,
    /// Whether one of the files is raw data.
    raw: bool,
    tensors: Vec<Tensor>,
    /// Names of tensors that were not wanted.
    left_out: Vec<String>,
}

/// The kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileKind {
    /// One array without a name.
    Npy,
    /// An archive of named arrays.
    Npz,
    /// Named tensors.
    Safetensors,
    /// Tensors of PyTorch.
    Torch,
    /// Elements and nothing else.
    Raw,
    /// An index of .safetensors files that make one.
    Sharded,
    /// All tensor files below a folder.
    Folder,
    /// A list of files.
    Several,
}

/// One tensor of a file.
#[derive(Debug)]
pub struct Tensor {
    file: Arc<Path>,
    name: String,
    stored: String,
    shape: Vec<usize>,
    /// What it is and where, or why it cannot be read.
    content: Result<(Numbers, DataRange), String>,
    checksums: bool,
    max_memory: u64,
}

impl Tensor {
    /// What should be a tensor, and is not.
    fn unreadable(file: &Path, name: String, reason: String) -> Tensor {
        let (stored, shape, content) = ("?".to_owned(), Vec::new(), Err(reason));
        Tensor { file: file.into(), name, stored, shape, content, checksums: false, max_memory: 0 }
    }

    /// The name; empty in files that hold one nameless tensor.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The file that has it.
    pub fn path(&self) -> &Path {
        &self.file
    }

    /// The extents, as the file has them.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The type of the elements in the file's own words.
    pub fn stored_type(&self) -> &str {
        &self.stored
    }

    /// The format that the data are read as; `None` for a tensor that cannot be read.
    pub fn dtype(&self) -> Option<DType> {
        self.content.as_ref().ok().map(|(numbers, _)| numbers.dtype)
    }

    /// Shape and strides of what is read; `None` for a tensor that cannot be read.
    pub fn layout(&self) -> Option<&Layout> {
        self.content.as_ref().ok().map(|(numbers, _)| &numbers.layout)
    }

    /// How to name the tensor in a message: its file and its name.
    pub fn label(&self) -> String {
        let path = self.file.display();
        if self.name.is_empty() { path.to_string() } else { format!("{path}, tensor `{}`", self.name) }
    }

    /// The data. A copy that has to be made lives as long as what is returned, one of compressed memory that tensors share as long as the tensors.
    ///
    /// # Errors
    /// [`Error::File`] where the type is not supported, the data are damaged, or a copy exceeds [`ReadOptions::max_memory`].
    pub fn load(&self) -> Result<Loaded<'_>> {
        let loaded = match &self.content {
            Ok((numbers, place)) => numbers.load(place, self.max_memory, self.checksums),
            Err(reason) => Err(reason.clone()),
        };
        loaded.map_err(|reason| Error::File { path: self.label(), reason })
    }
}

impl TensorFile {
    /// Opens a file, or a folder. `-` is standard input.
    ///
    /// # Errors
    /// [`Error::File`] when it cannot be opened, is damaged as a whole, has two tensors of one name, or nothing that the options ask for.
    pub fn open(path: &Path, options: &ReadOptions<'_>) -> Result<TensorFile> {
        TensorFile::list(path, options)?.chosen(options).map_err(|reason| failed(path.display(), reason))
    }

    /// Opens several files as one: a tensor is called by its own name, or as its file, without the extension, if it has none. One path is opened as
    /// [`open`](TensorFile::open) does.
    ///
    /// # Errors
    /// As for `open`; and [`Error::InvalidArgument`] for no paths.
    pub fn open_all(paths: &[PathBuf], options: &ReadOptions<'_>) -> Result<TensorFile> {
        let Some((first, rest)) = paths.split_first() else {
            let limit = "at least one file is needed".to_owned();
            return Err(Error::InvalidArgument { what: "files", value: "none".to_owned(), limit });
        };
        if rest.is_empty() {
            return TensorFile::open(first, options);
        }
        let files = paths.iter().map(|path| TensorFile::list(path, options)).collect::<Result<Vec<_>>>()?;
        let raw = files.iter().any(TensorFile::has_raw);
        let tensors = folder::join(files).map_err(|reason| failed(label(paths), reason))?;
        let file = TensorFile { path: first.clone(), kind: FileKind::Several, raw, tensors, left_out: Vec::new() };
        file.chosen(options).map_err(|reason| failed(label(paths), reason))
    }

    /// The tensors of a file or a folder, all of them.
    fn list(path: &Path, options: &ReadOptions<'_>) -> Result<TensorFile> {
        let found = if path.is_dir() {
            folder::read(path, options).map(|tensors| (FileKind::Folder, tensors))
        } else if folder::is_index(path) {
            folder::read_index(path, options).map(|tensors| (FileKind::Sharded, tensors))
        } else {
            read(path, options)
        };
        found.map(|found| TensorFile::new(path, found)).map_err(|reason| failed(path.display(), reason))
    }

    /// A file with these tensors.
    fn new(path: &Path, (kind, tensors): (FileKind, Vec<Tensor>)) -> TensorFile {
        TensorFile { path: path.to_owned(), kind, raw: kind == FileKind::Raw, tensors, left_out: Vec::new() }
    }

    /// Reads bytes in memory as [`open`](TensorFile::open) reads a file of that name. The file need not exist.
    ///
    /// # Errors
    /// As for `open`.
    pub fn from_bytes(name: &Path, bytes: Vec<u8>, options: &ReadOptions<'_>) -> Result<TensorFile> {
        let found = read_source(name, Source::of(bytes), options);
        let file = found.and_then(|found| TensorFile::new(name, found).chosen(options));
        file.map_err(|reason| failed(name.display(), reason))
    }

    /// The tensor that was asked for by name, in the format that was asked for.
    fn chosen(mut self, options: &ReadOptions<'_>) -> Result<TensorFile, String> {
        if let (Some(wanted), false) = (options.tensor, self.nameless()) {
            let names: Vec<String> = self.tensors.iter().map(|t| t.name.clone()).collect();
            self.tensors.retain(|t| t.name == wanted);
            if self.tensors.is_empty() {
                return Err(format!("no tensor `{wanted}`; there are: {}", enumerate(&names)));
            }
        }
        if let Some(d) = options.dtype
            && !self.tensors.is_empty()
            && self.tensors.iter().all(|t| t.dtype() != Some(d))
        {
            let found: Vec<String> = self.tensors.iter().map(|t| t.dtype().map_or(t.stored.clone(), |d| d.to_string())).collect();
            let words = "has no elements of the width of";
            return Err(format!("{words} {d}; it holds {} (give `-` to keep the file's own dtype)", enumerate(&found)));
        }
        Ok(self)
    }

    /// The path as it was given; of several files the first.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What kind of file it is.
    pub fn kind(&self) -> FileKind {
        self.kind
    }

    /// Whether the file holds one tensor without a name.
    pub fn nameless(&self) -> bool {
        matches!(&self.tensors[..], [one] if one.name.is_empty())
    }

    /// Whether it is raw data, or one of several files is: what the options' shape is for.
    pub fn has_raw(&self) -> bool {
        self.raw
    }

    /// The tensors, in the order of the file.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// Keeps the tensors whose name is wanted.
    pub fn retain(&mut self, wanted: impl Fn(&str) -> bool) {
        let (kept, left_out): (Vec<Tensor>, Vec<Tensor>) = std::mem::take(&mut self.tensors).into_iter().partition(|t| wanted(&t.name));
        self.tensors = kept;
        self.left_out.extend(left_out.into_iter().map(|t| t.name));
    }

    /// The names of tensors that [`retain`](TensorFile::retain) did not keep.
    #[cfg(feature = "cli")]
    pub(crate) fn left_out(&self) -> &[String] {
        &self.left_out
    }
}

impl std::fmt::Display for FileKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            FileKind::Npy => "npy",
            FileKind::Npz => "npz",
            FileKind::Safetensors => "safetensors",
            FileKind::Torch => "PyTorch",
            FileKind::Raw => "raw",
            FileKind::Sharded => "sharded safetensors",
            FileKind::Folder => "folder",
            FileKind::Several => "several files",
        })
    }
}

/// How to name files in a message: the first, and how many more.
#[must_use]
pub fn label(paths: &[PathBuf]) -> String {
    let first = paths.first().map_or(String::new(), |path| path.display().to_string());
    match paths.len() {
        0 | 1 => first,
        2 => format!("{first} and 1 more file"),
        n => format!("{first} and {} more files", n - 1),
    }
}

fn failed(path: impl std::fmt::Display, reason: String) -> Error {
    Error::File { path: path.to_string(), reason }
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

/// The kind of a single file, by its first bytes and its name.
fn kind(bytes: &[u8], path: &Path, options: &ReadOptions<'_>) -> FileKind {
    let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default().to_ascii_lowercase();
    if bytes.starts_with(npy::MAGIC) || extension == "npy" {
        FileKind::Npy
    } else if npz::MAGICS.iter().any(|m| bytes.starts_with(m)) || matches!(extension.as_str(), "npz" | "pt" | "pth") {
        FileKind::Npz
    } else if extension == "safetensors" || options.shape.is_none() && safetensors::looks_like(bytes) {
        FileKind::Safetensors
    } else {
        FileKind::Raw
    }
}

/// Bytes that tell the formats apart.
const MAGIC: u64 = 9;

/// How many bytes of a pipe there must be to know more than these first ones tell.
fn wanted(bytes: &[u8], path: &Path, options: &ReadOptions<'_>) -> u64 {
    if (bytes.len() as u64) < MAGIC {
        return MAGIC;
    }
    match kind(bytes, path, options) {
        FileKind::Npy => npy::Header::wanted(bytes),
        FileKind::Safetensors => safetensors::wanted(bytes),
        // The list of members is at the end.
        FileKind::Npz => u64::MAX,
        _ => raw_size(options).map_or(0, |bytes| bytes as u64 + 1),
    }
}

/// Reads a single file.
fn read(path: &Path, options: &ReadOptions<'_>) -> Result<(FileKind, Vec<Tensor>), String> {
    let source = Source::open(path, options, |bytes| wanted(bytes, path, options))?;
    read_source(path, source, options)
}

fn read_source(path: &Path, source: Source, options: &ReadOptions<'_>) -> Result<(FileKind, Vec<Tensor>), String> {
    let kind = kind(source.as_ref(), path, options);
    let file = File { path: path.into(), source, options };
    let (kind, tensors) = match kind {
        FileKind::Npy => (kind, vec![file.npy()?]),
        FileKind::Npz => file.archive()?,
        FileKind::Safetensors => (kind, file.safetensors()?),
        _ => (kind, vec![file.raw()?]),
    };
    distinct(&tensors)?;
    Ok((kind, tensors))
}

/// Refuses two tensors of one name: they are matched by it, and one of the two would never be looked at.
fn distinct(tensors: &[Tensor]) -> Result<(), String> {
    let mut files: HashMap<&str, &Path> = HashMap::with_capacity(tensors.len());
    for tensor in tensors {
        let (name, file) = (tensor.name(), tensor.path());
        let Some(other) = files.insert(name, file) else { continue };
        let places = if other == file { "both".to_owned() } else { format!("one in {}, one", other.display()) };
        return Err(format!("two tensors are called `{name}`, {places} in {}", file.display()));
    }
    Ok(())
}

/// A file that is being read.
struct File<'a> {
    path: Arc<Path>,
    source: Source,
    options: &'a ReadOptions<'a>,
}

impl File<'_> {
    fn tensor(&self, name: String, stored: String, shape: Vec<usize>, content: Result<(Numbers, DataRange), String>) -> Tensor {
        let ReadOptions { checksums, max_memory, .. } = *self.options;
        Tensor { file: self.path.clone(), name, stored, shape, content, checksums, max_memory }
    }

    fn npy(&self) -> Result<Tensor, String> {
        let bytes = self.source.as_ref();
        let header = npy::Header::parse(bytes)?;
        let found = bytes.len() - header.data;
        header.check(found as u64, &self.source.at_least(found))?;
        let stored = DataRange::File(self.source.clone(), header.data..bytes.len());
        let content = header.numbers(self.options.dtype).map(|numbers| (numbers, stored));
        Ok(self.tensor(String::new(), header.descr.text, header.shape, content))
    }

    /// A zip archive: of arrays, or PyTorch's.
    fn archive(&self) -> Result<(FileKind, Vec<Tensor>), String> {
        let of_torch = self.path.extension().is_some_and(|e| e.eq_ignore_ascii_case("pt") || e.eq_ignore_ascii_case("pth"));
        if of_torch && !npz::MAGICS.iter().any(|m| self.source.as_ref().starts_with(m)) {
            return Err(NO_TORCH.to_owned());
        }
        let mut archive = npz::Archive::open(self.source.clone())?;
        #[cfg(feature = "torch")]
        {
            let names = (0..archive.len()).map(|index| archive.name(index)).collect::<Result<Vec<_>, _>>()?;
            if torch::folder(&names).is_some() {
                return Ok((FileKind::Torch, torch::read(self, &mut archive, &names)?));
            }
        }
        let mut tensors = Vec::with_capacity(archive.len());
        for index in 0..archive.len() {
            tensors.extend(self.member(&mut archive, index)?);
        }
        Ok((FileKind::Npz, tensors))
    }

    /// One array of an archive; none for a folder, which archives made of folders have beside its files. What is wrong with it concerns no other one.
    /// As in NumPy its first bytes tell that it is one; its name is that of the file, without `.npy`.
    fn member(&self, archive: &mut npz::Archive, index: usize) -> Result<Option<Tensor>, String> {
        let full = archive.name(index)?;
        if full.ends_with('/') {
            return Ok(None);
        }
        let name = full.strip_suffix(".npy").unwrap_or(&full).to_owned();
        let unreadable = |reason: String| Some(Tensor::unreadable(&self.path, name.clone(), reason));
        let header = archive.start(index, npy::Header::header_wanted).and_then(|(size, start)| {
            let header = npy::Header::parse(&start)?;
            let found = size.saturating_sub(header.data as u64);
            header.check(found, &found.to_string())?;
            Ok((header, size as usize))
        });
        let (header, size) = match header {
            Ok(found) => found,
            Err(reason) => return Ok(unreadable(reason)),
        };
        let content = header
            .numbers(self.options.dtype)
            .and_then(|numbers| Ok((numbers, DataRange::Member(archive.member(index)?, header.data..size))));
        Ok(Some(self.tensor(name, header.descr.text, header.shape, content)))
    }

    fn safetensors(&self) -> Result<Vec<Tensor>, String> {
        let entries = safetensors::parse(self.source.as_ref())?;
        let tensor = |entry: safetensors::Entry| {
            let content = entry.numbers(self.options.dtype).map(|n| (n, DataRange::File(self.source.clone(), entry.data.clone())));
            self.tensor(entry.name, entry.label, entry.shape, content)
        };
        Ok(entries.into_iter().map(tensor).collect())
    }

    fn raw(&self) -> Result<Tensor, String> {
        let bytes = raw_size(self.options)?;
        let (Some(dtype), Some(shape)) = (self.options.dtype, self.options.shape) else { return Err(lacking(self.options)) };
        let found = self.source.as_ref().len();
        if found != bytes {
            return Err(format!("shape {shape:?} of {dtype} takes {bytes} bytes, the file holds {}", self.source.at_least(found)));
        }
        let layout = Layout::contiguous(shape).map_err(|e| e.to_string())?;
        let content = (Numbers { dtype, layout, order: Order::Ours }, DataRange::File(self.source.clone(), 0..bytes));
        Ok(self.tensor(String::new(), dtype.to_string(), shape.to_vec(), Ok(content)))
    }
}

/// What raw data need that the options lack.
fn lacking(options: &ReadOptions<'_>) -> String {
    let needed = match (options.dtype, options.shape) {
        (Some(_), None) => "--shape as well as --dtype",
        (None, Some(_)) => "--dtype as well as --shape",
        _ => "--dtype and --shape",
    };
    format!("not an .npy, .npz, .safetensors or .pt file; raw data need {needed}")
}

/// What a .pt file is that is no archive.
const NO_TORCH: &str = "not a zip archive, which PyTorch writes since 1.6: truncated, or older (`torch.save` writes it anew)";

/// Bytes of a raw file.
fn raw_size(options: &ReadOptions<'_>) -> Result<usize, String> {
    let (Some(dtype), Some(shape)) = (options.dtype, options.shape) else { return Err(lacking(options)) };
    let layout = Layout::contiguous(shape).map_err(|e| e.to_string())?;
    let bytes = dtype.bytes_for(layout.elements()).filter(|&b| b <= isize::MAX as usize);
    bytes.ok_or_else(|| format!("shape {shape:?} of {dtype} exceeds the address space"))
}

#[cfg(test)]
mod tests;
