//! The host backend's memory: aligned, zeroed, and an error instead of an abort when there is none.

use crate::error::{Error, Result};
use crate::parallel;
use bytemuck::{Pod, Zeroable};
use std::fmt;

/// A cache line, whose alignment is more than any vector load needs.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// An owned block of host memory. Zero bytes allocate nothing.
pub(crate) struct HostAlloc {
    lines: Vec<Line>,
    bytes: usize,
}

/// A vector of this many zeros, or an error. A tensor may have more elements than any memory holds, if they all share one address.
pub(crate) fn zeros<T: Zeroable>(count: usize) -> Result<Vec<T>> {
    blocks(count, count.saturating_mul(size_of::<T>()))
}

/// The same, for this many bytes.
fn blocks<T: Zeroable>(count: usize, bytes: usize) -> Result<Vec<T>> {
    let fail = |()| Error::OutOfMemory { device: name(), bytes, reason: "the allocator has no such block".to_owned() };
    bytemuck::allocation::try_zeroed_vec(count).map_err(fail)
}

impl HostAlloc {
    /// Allocates `bytes` zeroed bytes.
    pub(crate) fn new(bytes: usize) -> Result<HostAlloc> {
        Ok(HostAlloc { lines: blocks(bytes.div_ceil(size_of::<Line>()), bytes)?, bytes })
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.lines)[..self.bytes]
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.lines)[..self.bytes]
    }
}

impl fmt::Debug for HostAlloc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostAlloc").field("address", &self.lines.as_ptr()).field("bytes", &self.bytes).finish()
    }
}

pub(crate) fn name() -> String {
    let threads = parallel::threads();
    format!("host, {threads} thread{}", if threads == 1 { "" } else { "s" })
}

pub(crate) fn memory_info() -> Result<(usize, usize)> {
    let path = "/proc/meminfo";
    let file = |reason: String| Error::File { path: path.to_owned(), reason };
    let text = std::fs::read_to_string(path).map_err(|e| file(e.to_string()))?;
    let field = |name: &str| -> Result<usize> {
        let line = text.lines().find(|l| l.starts_with(name));
        let kib = line.and_then(|l| l.split_whitespace().nth(1)).and_then(|v| v.parse::<usize>().ok());
        kib.map(|k| k * 1024).ok_or_else(|| file(format!("no field {name}")))
    };
    Ok((field("MemAvailable:")?, field("MemTotal:")?))
}
