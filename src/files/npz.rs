//! The .npz format: a zip archive of .npy files. Stored members are used where they lie; deflated ones are inflated.
//!
//! The checksums of stored members are not computed: that would read the data once more than the comparison does.

use super::Bytes;
use std::io::{Cursor, Read};
use std::ops::Range;
use zip::{CompressionMethod, ZipArchive};

/// The first bytes of an archive with members, and of an empty one.
pub(super) const MAGICS: [&[u8]; 2] = [b"PK\x03\x04", b"PK\x05\x06"];

/// One .npy file of an archive.
pub(super) struct Member {
    /// Its name without `.npy`.
    pub(super) name: String,
    place: Place,
}

enum Place {
    Stored(Range<usize>),
    Deflated { index: usize, size: u64 },
}

/// Lists the members of an archive.
pub(super) fn members(file: &[u8]) -> Result<Vec<Member>, String> {
    let mut archive = open(file)?;
    let mut members = Vec::with_capacity(archive.len());
    for index in 0..archive.len() {
        let entry = archive.by_index_raw(index).map_err(|e| format!("npz member {index}: {e}"))?;
        let full = entry.name().map(|n| n.into_owned()).unwrap_or_else(|_| entry.name_raw().escape_ascii().to_string());
        let Some(name) = full.strip_suffix(".npy") else {
            return Err(format!("npz member `{full}` is not an .npy file"));
        };
        let place = match entry.compression() {
            _ if entry.encrypted() => return Err(format!("npz member `{full}` is encrypted")),
            CompressionMethod::Stored => {
                let start = entry.data_start().and_then(|s| usize::try_from(s).ok());
                let range = start.and_then(|s| Some(s..s.checked_add(usize::try_from(entry.size()).ok()?)?));
                let range = range.filter(|r| r.end <= file.len());
                Place::Stored(range.ok_or_else(|| format!("npz member `{full}`: its {} bytes exceed the file", entry.size()))?)
            }
            CompressionMethod::Deflated => Place::Deflated { index, size: entry.size() },
            other => return Err(format!("npz member `{full}`: compression {other:?} is not supported; supported: stored, deflated")),
        };
        members.push(Member { name: name.to_owned(), place });
    }
    Ok(members)
}

impl Member {
    /// The bytes of the member.
    pub(super) fn bytes(&self, file: &[u8]) -> Result<Bytes, String> {
        match &self.place {
            Place::Stored(range) => Ok(Bytes::Inside(range.clone())),
            &Place::Deflated { index, size } => self.inflate(file, index, size).map(Bytes::Copied),
        }
    }

    /// Inflates a member. The size that the archive claims is a limit, and is not believed before the bytes are there.
    fn inflate(&self, file: &[u8], index: usize, size: u64) -> Result<Vec<u8>, String> {
        // Deflate cannot shrink by more than 1032 to 1.
        if size / 1032 > file.len() as u64 {
            return Err(format!("npz member `{}` claims {size} bytes, more than {} compressed bytes can hold", self.name, file.len()));
        }
        let mut archive = open(file)?;
        let fail = |e: &dyn std::fmt::Display| format!("npz member `{}`: {e}", self.name);
        let entry = archive.by_index(index).map_err(|e| fail(&e))?;
        let mut out = Vec::new();
        out.try_reserve_exact(size as usize).map_err(|e| fail(&e))?;
        entry.take(size + 1).read_to_end(&mut out).map_err(|e| fail(&e))?;
        if out.len() as u64 != size {
            return Err(format!("npz member `{}` claims {size} bytes and holds {}", self.name, out.len()));
        }
        Ok(out)
    }
}

fn open(file: &[u8]) -> Result<ZipArchive<Cursor<&[u8]>>, String> {
    ZipArchive::new(Cursor::new(file)).map_err(|e| format!("not a readable .npz archive (truncated?): {e}"))
}
