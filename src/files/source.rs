//! Where the bytes of a file come from: mapped where it is a regular file, else read, and then no further than what was read says is needed.
//!
//! Invariant: a mapped file that is not today what it was when it was mapped is told by [`changed`] as long as the process lives.

use super::ReadOptions;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::SystemTime;

/// The bytes of a file, shared by its tensors.
#[derive(Clone, Debug)]
pub(super) struct Source(Arc<Bytes>);

#[derive(Debug)]
enum Bytes {
    Mapped(Arc<Mapped>),
    Read(Vec<u8>),
    /// The beginning of a pipe, which may have more.
    Beginning(Vec<u8>),
}

/// A file in memory as it lies on the disk. It stays open, so that it can be asked whether it has changed.
#[derive(Debug)]
struct Mapped {
    path: PathBuf,
    file: File,
    state: State,
    map: memmap2::Mmap,
}

/// Length and time of the last change.
type State = (u64, Option<SystemTime>);

fn state(metadata: &Metadata) -> State {
    (metadata.len(), metadata.modified().ok())
}

impl Mapped {
    fn has_changed(&self) -> bool {
        // A file that cannot even be asked is no proof of a change.
        self.file.metadata().is_ok_and(|now| state(&now) != self.state)
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        if self.has_changed() {
            let path = std::mem::take(&mut self.path);
            mappings().changed.push(path);
        }
    }
}

/// The files that were mapped.
struct Mappings {
    open: Vec<Weak<Mapped>>,
    /// Those that had changed when they were closed.
    changed: Vec<PathBuf>,
}

fn mappings() -> MutexGuard<'static, Mappings> {
    static MAPPINGS: Mutex<Mappings> = Mutex::new(Mappings { open: Vec::new(), changed: Vec::new() });
    MAPPINGS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The first mapped file whose length or time of change is not what it was when it was opened: what was read of it may be neither the old data nor
/// the new ones.
///
/// A file that was cut has no memory behind its new end: reading there ends a process by SIGBUS, unless it does as the program does, which handles that
/// signal and tells this path.
pub fn changed() -> Option<PathBuf> {
    let (open, closed) = {
        let mappings = mappings();
        (mappings.open.clone(), mappings.changed.first().cloned())
    };
    // Without the lock: the last owner of a mapping takes it.
    closed.or_else(|| open.iter().filter_map(Weak::upgrade).find(|mapped| mapped.has_changed()).map(|mapped| mapped.path.clone()))
}

impl AsRef<[u8]> for Source {
    fn as_ref(&self) -> &[u8] {
        match &*self.0 {
            Bytes::Mapped(mapped) => &mapped.map,
            Bytes::Read(bytes) | Bytes::Beginning(bytes) => bytes,
        }
    }
}

impl Source {
    /// Opens a file; `-` is standard input. `wanted` is asked, with the bytes of a pipe so far, how many bytes there must be to know more.
    pub(super) fn open(path: &Path, options: &ReadOptions<'_>, wanted: impl Fn(&[u8]) -> u64) -> Result<Source, String> {
        if path == Path::new("-") {
            return Source::of_pipe(io::stdin().lock(), options.max_memory, wanted);
        }
        let file = File::open(path).map_err(|e| e.to_string())?;
        let metadata = file.metadata().map_err(|e| e.to_string())?;
        if !metadata.is_file() || metadata.len() == 0 {
            return Source::of_pipe(file, options.max_memory, wanted);
        }
        // SAFETY: the mapping is read-only and private to this process; that no other process changes the file
        // meanwhile is asked of the user (the help text says so), as no operating system can promise it.
        let map = unsafe { memmap2::Mmap::map(&file).map_err(|e| e.to_string())? };
        let mapped = Arc::new(Mapped { path: path.to_owned(), state: state(&metadata), file, map });
        let mut mappings = mappings();
        mappings.open.retain(|other| other.strong_count() > 0);
        mappings.open.push(Arc::downgrade(&mapped));
        drop(mappings);
        Ok(Source(Arc::new(Bytes::Mapped(mapped))))
    }

    fn of_pipe(from: impl Read, limit: u64, wanted: impl Fn(&[u8]) -> u64) -> Result<Source, String> {
        let bytes = read(from, limit, &wanted)?;
        let whole = (bytes.len() as u64) < wanted(&bytes);
        Ok(Source(Arc::new(if whole { Bytes::Read(bytes) } else { Bytes::Beginning(bytes) })))
    }

    /// A number of these bytes for a message: of a pipe that was not read to its end there may be more.
    pub(super) fn at_least(&self, bytes: usize) -> String {
        format!("{bytes}{}", if matches!(*self.0, Bytes::Beginning(_)) { " or more" } else { "" })
    }

    /// Bytes that are there already.
    pub(super) fn of(bytes: Vec<u8>) -> Source {
        Source(Arc::new(Bytes::Read(bytes)))
    }
}

/// Reads a pipe until nothing more is wanted or there.
fn read(mut from: impl Read, limit: u64, wanted: impl Fn(&[u8]) -> u64) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    loop {
        let missing = wanted(&bytes).min(limit.saturating_add(1)).saturating_sub(bytes.len() as u64);
        let found = from.by_ref().take(missing).read_to_end(&mut bytes).map_err(|e| e.to_string())?;
        if bytes.len() as u64 > limit {
            return Err(format!("a pipe of more than {limit} bytes, the limit of --max-memory"));
        }
        if found == 0 {
            return Ok(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapped_file_that_changes_is_told_after_it_was_closed_as_well() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.npy");
        std::fs::write(&path, [7; 100]).unwrap();
        let source = Source::open(&path, &ReadOptions::default(), |_| 0).unwrap();
        let told = || changed().is_some_and(|changed| changed == path);
        assert!(!told(), "as it was");
        // A byte less: the page is still there, and its end reads as zero.
        File::options().write(true).open(&path).unwrap().set_len(99).unwrap();
        assert!(told(), "while it is open");
        drop(source);
        assert!(told(), "closed");
    }

    #[test]
    fn endless_pipes_are_read_as_far_as_needed() {
        let eight_then_a_hundred = |bytes: &[u8]| if bytes.len() < 8 { 8 } else { 100 };
        assert_eq!(read(io::repeat(7), 1000, eight_then_a_hundred), Ok(vec![7; 100]));
        assert_eq!(read(io::repeat(7), 100, eight_then_a_hundred).map(|b| b.len()), Ok(100), "the limit itself is allowed");
        assert_eq!(read(&[1u8; 20][..], 1000, eight_then_a_hundred), Ok(vec![1; 20]), "a pipe that ends early");
        assert!(read(io::repeat(7), 99, eight_then_a_hundred).unwrap_err().contains("more than 99 bytes"));
        assert!(read(io::repeat(7), 5000, |_| u64::MAX).unwrap_err().contains("more than 5000 bytes"));
    }
}
