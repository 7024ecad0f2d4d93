//! Flags that say where a tensor is written, and in what container.

use crate::device::{Layout, host};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::files::{Format, Output, check, write};
use std::path::PathBuf;

/// The file to write.
#[derive(Debug, clap::Args)]
pub(super) struct OutputArgs {
    /// The file to write: .npy, .npz, .safetensors, or .bin and .raw for the elements alone. An existing file is replaced; `-` is standard output
    pub(super) out: PathBuf,
    /// What to write, where the file's name does not say: npy, npz, safetensors, raw. Standard output is npy otherwise
    #[arg(long, value_name = "FORMAT", value_parser = clap::value_parser!(Format))]
    format: Option<Format>,
}

impl OutputArgs {
    /// The container, from the flag or the file's name.
    pub(super) fn format(&self) -> Result<Format> {
        self.format.map_or_else(|| Format::of(&self.out), Ok)
    }

    /// Memory for a tensor that is to be written, of zeros: an error before anything is computed if the file cannot hold it.
    pub(super) fn memory(&self, dtype: DType, shape: &[usize]) -> Result<Vec<u8>> {
        check(&self.out, self.format()?, dtype, shape)?;
        zeros(dtype, shape)
    }

    /// Writes a tensor.
    pub(super) fn write(&self, tensor: &Output<'_>) -> Result<()> {
        write(&self.out, self.format()?, tensor)
    }
}

/// The bytes of a tensor of zeros.
pub(super) fn zeros(dtype: DType, shape: &[usize]) -> Result<Vec<u8>> {
    let elements = Layout::contiguous(shape)?.elements();
    let bytes = dtype.bytes_for(elements).filter(|&b| b <= isize::MAX as usize);
    host::zeros(bytes.ok_or(Error::SizeOverflow { what: "tensor", elements, unit_bytes: dtype.unit_bytes() })?)
}
