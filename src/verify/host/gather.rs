//! Elements of a tensor in logical order, whatever its layout.

use crate::device::TensorRef;
use crate::dtype::DType;

/// Reads runs of consecutive logical elements as dense bytes.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    dtype: DType,
    offset: usize,
    /// Extents and strides, outermost first; one dimension of stride 1 when dense.
    dims: Vec<(usize, isize)>,
    scratch: Vec<u8>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(tensor: &TensorRef<'a>) -> Reader<'a> {
        let layout = tensor.layout();
        let dims = layout.collapsed();
        Reader { bytes: tensor.host_bytes(), dtype: tensor.dtype(), offset: layout.offset(), dims, scratch: Vec::new() }
    }

    /// The bytes of `count` elements from logical element `start`; both inside the tensor. Packed elements start at a low nibble.
    pub(crate) fn read(&mut self, start: usize, count: usize) -> &[u8] {
        let bits = self.dtype.bits();
        if let [(_, 1)] = self.dims[..] {
            let first = self.offset + start;
            if bits >= 8 {
                return &self.bytes[first * bits / 8..(first + count) * bits / 8];
            }
            if first.is_multiple_of(2) {
                return &self.bytes[first / 2..(first + count).div_ceil(2)];
            }
        }
        self.gather(start, count)
    }

    fn gather(&mut self, start: usize, count: usize) -> &[u8] {
        let unit = self.dtype.unit_bytes();
        self.scratch.resize((count * self.dtype.bits()).div_ceil(8), 0);
        let Some((&(inner, stride), outer)) = self.dims.split_last() else { return &[] };
        let mut done = 0;
        while done < count {
            // One run along the innermost dimension.
            let (mut row, column) = ((start + done) / inner, (start + done) % inner);
            let mut at = self.offset as isize + column as isize * stride;
            for &(extent, step) in outer.iter().rev() {
                at += (row % extent) as isize * step;
                row /= extent;
            }
            let run = (inner - column).min(count - done);
            if self.dtype.bits() < 8 {
                for k in 0..run {
                    let bits = self.dtype.load_bits(self.bytes, (at + k as isize * stride) as usize);
                    self.dtype.store_bits(&mut self.scratch, done + k, bits);
                }
            } else if stride == 1 {
                let from = at as usize * unit;
                self.scratch[done * unit..(done + run) * unit].copy_from_slice(&self.bytes[from..from + run * unit]);
            } else {
                for (k, out) in self.scratch[done * unit..(done + run) * unit].chunks_exact_mut(unit).enumerate() {
                    let from = (at + k as isize * stride) as usize * unit;
                    out.copy_from_slice(&self.bytes[from..from + unit]);
                }
            }
            done += run;
        }
        &self.scratch
    }
}
