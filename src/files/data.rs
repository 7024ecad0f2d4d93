//! The data of a tensor: where they lie in the file, and a copy in our order where theirs is another.

use super::source::Source;
use super::{npz, safetensors};
use crate::device::{Layout, TensorRef};
use crate::dtype::DType;
use crate::error::Result;
use std::borrow::Cow;
use std::ops::Range;

/// What the data of a tensor mean: format, shape, order.
#[derive(Debug)]
pub(super) struct Numbers {
    pub(super) dtype: DType,
    pub(super) layout: Layout,
    pub(super) order: Order,
}

/// How the bytes of a file become ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// As they are.
    Ours,
    /// Numbers of so many bytes, the most significant byte first.
    BigEndian(usize),
    /// 4-bit elements, one a byte (as ml_dtypes writes them).
    OneAByte,
    /// 6-bit elements, four in three bytes.
    Packed6,
}

/// Where data lie.
#[derive(Debug)]
pub(super) enum Place {
    /// In the file, as they are.
    File(Source, Range<usize>),
    /// In an archive's member.
    Member(npz::Member),
}

/// A tensor's data, read: those of the file, or a copy.
#[derive(Debug)]
pub struct Loaded<'a> {
    bytes: Cow<'a, [u8]>,
    dtype: DType,
    layout: &'a Layout,
}

impl Loaded<'_> {
    /// The memory, which the layout indexes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The format of the elements.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Shape and strides.
    pub fn layout(&self) -> &Layout {
        self.layout
    }

    /// The tensor, on the host device.
    pub fn view(&self) -> Result<TensorRef<'_>> {
        TensorRef::from_host_bytes(&self.bytes, self.dtype, self.layout.clone())
    }
}

impl Numbers {
    /// Reads the data; a copy takes at most `max_memory` bytes. `checksums` says whether those of an archive are verified.
    pub(super) fn load<'a>(&'a self, place: &'a Place, max_memory: u64, checksums: bool) -> Result<Loaded<'a>, String> {
        let bytes = match place {
            Place::File(source, range) => Cow::Borrowed(&source.as_ref()[range.clone()]),
            Place::Member(member) => member.load(max_memory, checksums)?,
        };
        let copied = if self.order == Order::Packed6 { bytes.len() / 3 * 4 } else { bytes.len() };
        let bytes = match self.order {
            Order::Ours => bytes,
            _ if copied as u64 > max_memory => {
                return Err(format!(
                    "{copied} bytes in another order than ours need a copy, more than {max_memory}, the limit of --max-memory"
                ));
            }
            Order::BigEndian(width) => Cow::Owned(swap_bytes(bytes, width)?),
            Order::OneAByte => Cow::Owned(pack4(&bytes, self.dtype)?),
            Order::Packed6 => Cow::Owned(safetensors::unpack6(&bytes)),
        };
        Ok(Loaded { bytes, dtype: self.dtype, layout: &self.layout })
    }
}

/// Reverses the bytes of each number.
fn swap_bytes(data: Cow<'_, [u8]>, width: usize) -> Result<Vec<u8>, String> {
    let mut out = match data {
        Cow::Owned(bytes) => bytes,
        Cow::Borrowed(bytes) => {
            let mut copy = Vec::new();
            copy.try_reserve_exact(bytes.len()).map_err(|e| format!("{} bytes to reorder: {e}", bytes.len()))?;
            copy.extend_from_slice(bytes);
            copy
        }
    };
    for number in out.chunks_exact_mut(width) {
        number.reverse();
    }
    Ok(out)
}

/// Packs 4-bit elements that lie one a byte, two a byte.
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
