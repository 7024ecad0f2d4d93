//! Where the bytes of a file come from: mapped where it is a regular file, else read, and then no further than what was read says is needed.

use super::ReadOptions;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

/// The bytes of a file, shared by its tensors.
#[derive(Clone, Debug)]
pub(super) struct Source(Arc<Bytes>);

#[derive(Debug)]
enum Bytes {
    Mapped(memmap2::Mmap),
    Read(Vec<u8>),
}

impl AsRef<[u8]> for Source {
    fn as_ref(&self) -> &[u8] {
        match &*self.0 {
            Bytes::Mapped(map) => map,
            Bytes::Read(bytes) => bytes,
        }
    }
}

impl Source {
    /// Opens a file; `-` is standard input. `wanted` is asked, with the bytes of a pipe so far, how many bytes there must be to know more.
    pub(super) fn open(path: &Path, options: &ReadOptions<'_>, wanted: impl Fn(&[u8]) -> u64) -> Result<Source, String> {
        if path == Path::new("-") {
            return read(io::stdin().lock(), options.max_memory, wanted).map(Source::of);
        }
        let file = File::open(path).map_err(|e| e.to_string())?;
        let metadata = file.metadata().map_err(|e| e.to_string())?;
        if !metadata.is_file() || metadata.len() == 0 {
            return read(file, options.max_memory, wanted).map(Source::of);
        }
        // SAFETY: the mapping is read-only and private to this process; that no other process changes the file
        // meanwhile is asked of the user (the help text says so), as no operating system can promise it.
        let map = unsafe { memmap2::Mmap::map(&file).map_err(|e| e.to_string())? };
        Ok(Source(Arc::new(Bytes::Mapped(map))))
    }

    fn of(bytes: Vec<u8>) -> Source {
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
    fn endless_pipes_are_read_as_far_as_needed() {
        let eight_then_a_hundred = |bytes: &[u8]| if bytes.len() < 8 { 8 } else { 100 };
        assert_eq!(read(io::repeat(7), 1000, eight_then_a_hundred), Ok(vec![7; 100]));
        assert_eq!(read(io::repeat(7), 100, eight_then_a_hundred).map(|b| b.len()), Ok(100), "the limit itself is allowed");
        assert_eq!(read(&[1u8; 20][..], 1000, eight_then_a_hundred), Ok(vec![1; 20]), "a pipe that ends early");
        assert!(read(io::repeat(7), 99, eight_then_a_hundred).unwrap_err().contains("more than 99 bytes"));
        assert!(read(io::repeat(7), 5000, |_| u64::MAX).unwrap_err().contains("more than 5000 bytes"));
    }
}
