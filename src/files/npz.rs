//! Zip archives: the container of .npz files. Stored members are used where they lie; deflated ones are inflated when they are asked for, one
//! after the other, into memory of their own size. What several tensors are views of is checked and inflated once.
//!
//! Nothing that an archive claims is believed: sizes are limits, and memory is used as data come.

use super::source::Source;
use std::borrow::Cow;
use std::io::{Cursor, Read};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use zip::{CompressionMethod, ZipArchive};

/// The first bytes of an archive with members, and of an empty one.
pub(super) const MAGICS: [&[u8]; 2] = [b"PK\x03\x04", b"PK\x05\x06"];

/// Deflate cannot shrink by more than this.
const MOST_SHRUNK: u64 = 1032;

/// A zip archive.
#[derive(Clone)]
pub(super) struct Archive {
    source: Source,
    zip: ZipArchive<Cursor<Source>>,
    /// Bytes of members that were inflated and are kept.
    kept: Arc<AtomicU64>,
}

/// A member of an archive. Tensors that are views of it share it.
#[derive(Debug)]
pub(super) struct Member {
    archive: Archive,
    index: usize,
    /// How long it is, as it claims.
    size: usize,
    /// Where it lies in the file, if it is stored.
    stored: Option<Range<usize>>,
    /// The checksum of what lies there, once it was computed.
    checksum: OnceLock<u32>,
    /// What was inflated and is kept, as there are other tensors that want it.
    inflated: OnceLock<Vec<u8>>,
}

impl Archive {
    pub(super) fn open(source: Source) -> Result<Archive, String> {
        let zip = ZipArchive::new(Cursor::new(source.clone())).map_err(|e| format!("not a readable zip archive (truncated?): {e}"))?;
        // Of several only the last one could be asked for.
        if zip.has_duplicate_names() {
            return Err("two members of the archive have the same name".to_owned());
        }
        Ok(Archive { source, zip, kept: Arc::default() })
    }

    pub(super) fn len(&self) -> usize {
        self.zip.len()
    }

    /// The name of a member.
    pub(super) fn name(&mut self, index: usize) -> Result<String, String> {
        let entry = self.zip.by_index_raw(index).map_err(|e| format!("member {index}: {e}"))?;
        Ok(entry.name().map(|n| n.into_owned()).unwrap_or_else(|_| entry.name_raw().escape_ascii().to_string()))
    }

    /// What a member holds, as it claims, and its first bytes: as many as `enough` wants, which is asked with those there are.
    pub(super) fn start(&mut self, index: usize, enough: impl Fn(&[u8]) -> u64) -> Result<(u64, Cow<'_, [u8]>), String> {
        if let Some(range) = self.stored(index)? {
            return Ok((range.len() as u64, Cow::Borrowed(&self.source.as_ref()[range])));
        }
        let mut entry = self.zip.by_index(index).map_err(|e| e.to_string())?;
        let size = entry.size();
        let mut start = Vec::new();
        loop {
            let missing = enough(&start).min(size).saturating_sub(start.len() as u64);
            if entry.by_ref().take(missing).read_to_end(&mut start).map_err(|e| e.to_string())? == 0 {
                return Ok((size, Cow::Owned(start)));
            }
        }
    }

    /// A member, to load parts of it.
    pub(super) fn member(&mut self, index: usize) -> Result<Arc<Member>, String> {
        let (size, _) = self.start(index, |_| 0)?;
        let (size, stored) = (size as usize, self.stored(index)?);
        Ok(Arc::new(Member { archive: self.clone(), index, size, stored, checksum: OnceLock::new(), inflated: OnceLock::new() }))
    }

    /// Where a member lies; `None` where it is deflated.
    fn stored(&mut self, index: usize) -> Result<Option<Range<usize>>, String> {
        let file = self.source.as_ref().len();
        let entry = self.zip.by_index_raw(index).map_err(|e| e.to_string())?;
        match entry.compression() {
            _ if entry.encrypted() => Err("it is encrypted".to_owned()),
            CompressionMethod::Stored => {
                let start = entry.data_start().and_then(|s| usize::try_from(s).ok());
                let range = start.and_then(|s| Some(s..s.checked_add(usize::try_from(entry.size()).ok()?)?));
                let range = range.filter(|r| r.end <= file);
                Ok(Some(range.ok_or_else(|| format!("its {} bytes exceed the file", entry.size()))?))
            }
            CompressionMethod::Deflated if entry.size() / MOST_SHRUNK > entry.compressed_size().min(file as u64) => {
                Err(format!("it claims {} bytes, more than {} compressed bytes can hold", entry.size(), entry.compressed_size()))
            }
            CompressionMethod::Deflated => Ok(None),
            other => Err(format!("compression {} is not supported; supported: stored, deflated", method(other))),
        }
    }
}

/// What a method of compression is called, of those that writers of archives use.
fn method(found: CompressionMethod) -> String {
    match found {
        CompressionMethod::DEFLATE64 => "Deflate64".to_owned(),
        CompressionMethod::BZIP2 => "bzip2".to_owned(),
        CompressionMethod::LZMA => "LZMA".to_owned(),
        CompressionMethod::ZSTD => "Zstandard".to_owned(),
        CompressionMethod::XZ => "XZ".to_owned(),
        other => other.to_string(),
    }
}

impl std::fmt::Debug for Archive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Archive of {} members", self.zip.len())
    }
}

impl Member {
    /// How long it is, as it claims.
    #[cfg(feature = "torch")]
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// A part of the data: where they lie, or inflated. A checksum is that of the whole member; inflating always verifies it.
    pub(super) fn load(self: &Arc<Member>, part: Range<usize>, max_memory: u64, checksums: bool) -> Result<Cow<'_, [u8]>, String> {
        let mut zip = self.archive.zip.clone();
        let Some(stored) = &self.stored else { return self.inflated(&mut zip, part, max_memory) };
        let bytes = &self.archive.source.as_ref()[stored.clone()];
        if checksums {
            let expected = zip.by_index_raw(self.index).map_err(|e| e.to_string())?.crc32();
            let found = *self.checksum.get_or_init(|| crc32fast::hash(bytes));
            if found != expected {
                return Err(format!("its checksum is {found:08x}, the archive says {expected:08x}: damaged (--no-crc reads it as it is)"));
            }
        }
        let needed = part.end;
        bytes.get(part).map(Cow::Borrowed).ok_or_else(|| format!("it holds {} bytes, {needed} are needed", bytes.len()))
    }

    /// A part of a deflated member. The whole is kept while other tensors are views of it, as long as the archive keeps no more than `max_memory`.
    fn inflated(
        self: &Arc<Member>,
        zip: &mut ZipArchive<Cursor<Source>>,
        part: Range<usize>,
        max_memory: u64,
    ) -> Result<Cow<'_, [u8]>, String> {
        let more = |kept: u64| kept.checked_add(self.size as u64).filter(|&kept| kept <= max_memory);
        let kept = &self.archive.kept;
        let keep = self.inflated.get().is_none()
            && Arc::strong_count(self) > 1
            && kept.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok();
        if keep {
            let whole = self.inflate(zip, 0..self.size, max_memory)?;
            // Another thread may have been faster; its copy is the same.
            let _ = self.inflated.set(whole);
        }
        match self.inflated.get() {
            Some(whole) => whole.get(part).map(Cow::Borrowed).ok_or_else(|| format!("it holds {} bytes only", self.size)),
            None => self.inflate(zip, part, max_memory).map(Cow::Owned),
        }
    }

    fn inflate(&self, zip: &mut ZipArchive<Cursor<Source>>, part: Range<usize>, max_memory: u64) -> Result<Vec<u8>, String> {
        let (bytes, behind) = (part.len(), self.size.saturating_sub(part.end) as u64);
        if bytes as u64 > max_memory {
            return Err(format!("{bytes} bytes to inflate, more than {max_memory}, the limit of --max-memory"));
        }
        let mut entry = zip.by_index(self.index).map_err(|e| e.to_string())?;
        let skip = |entry: &mut dyn Read, bytes| std::io::copy(&mut entry.take(bytes), &mut std::io::sink()).map_err(|e| e.to_string());
        let before = skip(&mut entry, part.start as u64)?;
        // Address space for what is claimed, which the limit allows; memory is used as data come.
        let mut out = Vec::new();
        out.try_reserve_exact(bytes).map_err(|e| format!("{bytes} bytes to inflate: {e}"))?;
        entry.by_ref().take(bytes as u64).read_to_end(&mut out).map_err(|e| e.to_string())?;
        // A byte more than there should be, to see the end and with it the checksum.
        let found = before + out.len() as u64 + skip(&mut entry, behind + 1)?;
        if found != self.size as u64 || out.len() != bytes {
            return Err(format!("it claims {} bytes and holds {found}", self.size));
        }
        Ok(out)
    }
}
