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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Layout;

    #[test]
    fn elements_come_in_logical_order_from_wherever_reading_starts() {
        for (shape, strides, offset, reason) in [
            (&[60][..], &[1][..], 0, "dense"),
            (&[60], &[1], 5, "dense, of which nobody reads the beginning"),
            (&[60], &[-1], 59, "backwards"),
            (&[60], &[3], 1, "every third"),
            (&[5, 12], &[16, 1], 3, "rows with padding"),
            (&[5, 12], &[-15, 1], 60, "rows of odd length, the last first"),
            (&[5, 12], &[1, 7], 2, "transposed"),
            (&[5, 12], &[-1, -5], 63, "transposed, both backwards"),
            (&[3, 4, 5], &[5, 20, 1], 0, "rows of two dimensions, which are swapped"),
            (&[3, 4, 5], &[21, 5, -1], 4, "rows backwards in planes with padding"),
            (&[2, 3, 2, 5], &[70, 20, 11, 2], 7, "every second of rows of three dimensions"),
        ] {
            for dtype in [DType::F4E2M1, DType::I8, DType::F16, DType::F32, DType::F64] {
                let layout = Layout::strided(shape, strides, offset).unwrap();
                let bytes: Vec<u8> = (0..dtype.bytes_for(layout.end()).unwrap()).map(|i| (i * 37 % 251) as u8).collect();
                let tensor = TensorRef::from_host_bytes(&bytes, dtype, layout.clone()).unwrap();
                let mut reader = Reader::new(&tensor);
                for (start, count) in [(0, 60), (0, 1), (1, 59), (7, 13), (11, 2), (12, 24), (30, 30), (59, 1)] {
                    let read = reader.read(start, count);
                    for i in 0..count {
                        let expected = dtype.load_bits(&bytes, layout.index(start + i));
                        assert_eq!(dtype.load_bits(read, i), expected, "{reason}, {dtype}: element {i} of {count} from {start}");
                    }
                }
            }
        }
    }
}
