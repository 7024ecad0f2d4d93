//! The memory of tensors for code that runs on the host: as it is where the host has it, copied where a GPU has.

use super::hip::{Source, Target};
use super::host::zeros;
use super::{Backend, TensorMut, TensorRef};
use crate::error::Result;
use std::borrow::Cow;
use std::ops::Range;

impl<'a> TensorRef<'a> {
    /// The memory that the layout indexes, from its beginning on.
    ///
    /// # Errors
    /// When the host has no memory for a copy, or the device reports an error.
    pub(crate) fn fetch(&self) -> Result<Cow<'a, [u8]>> {
        // That of a small view may be a part of a large buffer.
        let end = self.dtype().bytes_for(self.layout().end()).unwrap_or(usize::MAX);
        self.fetch_part(0..end.min(self.byte_size()))
    }

    /// These bytes of it.
    ///
    /// # Errors
    /// As [`fetch`](Self::fetch).
    ///
    /// # Panics
    /// When they are not all in the memory.
    pub(crate) fn fetch_part(&self, bytes: Range<usize>) -> Result<Cow<'a, [u8]>> {
        assert!(bytes.start <= bytes.end && bytes.end <= self.byte_size(), "bytes {bytes:?} of {}", self.byte_size());
        match self.device().backend() {
            Backend::Host => Ok(Cow::Borrowed(&self.host_bytes()[bytes])),
            Backend::Hip(gpu) => {
                let mut copy = zeros::<u8>(bytes.len())?;
                gpu.copy(&Target::host(&mut copy), &Source::tensor(self, bytes))?;
                Ok(Cow::Owned(copy))
            }
        }
    }
}

impl TensorMut<'_> {
    /// Changes the memory that the layout indexes. What `change` leaves as it is, padding between rows among it, stays.
    ///
    /// # Errors
    /// As [`TensorRef::fetch`].
    pub(crate) fn change(&mut self, change: impl FnOnce(&mut [u8])) -> Result<()> {
        let Backend::Hip(gpu) = *self.as_ref().device().backend() else {
            change(self.host_bytes_mut());
            return Ok(());
        };
        let mut bytes = self.as_ref().fetch()?.into_owned();
        change(&mut bytes);
        gpu.copy(&Target::tensor(self), &Source::host(&bytes))
    }
}
