//! Dense copies of tensors on their device: some positions of an axis, zeros in some places, multiplied by a number, or rounded to a format.

use crate::device::host::zeros;
use crate::device::{Device, DeviceBytes, DeviceMem, Layout, TensorRef, reader};
use crate::dtype::{DType, FloatFormat, Overflow, Rounding};
use crate::error::{Error, Result};
use crate::reference::{Accumulate, Epilogue, Gemm};

/// A copy of some of a tensor's elements.
pub(super) struct Copied {
    bytes: DeviceBytes,
    dtype: DType,
    shape: Vec<usize>,
}

impl Copied {
    /// The elements at some positions of one axis, counted from the last axis, which is 1; in the order of these positions.
    pub(super) fn gathered(tensor: &TensorRef<'_>, from_last: usize, positions: &[usize]) -> Result<Copied> {
        let axis = tensor.shape().len() - from_last;
        let mut shape = tensor.shape().to_vec();
        let extent = std::mem::replace(&mut shape[axis], positions.len());
        let inner: usize = shape[axis + 1..].iter().product();
        let (dtype, outer) = (tensor.dtype(), shape[..axis].iter().product::<usize>());
        if dtype.bits() < 8 {
            let source = |i: usize| {
                let (outer, at) = (i / (inner * positions.len()), i / inner % positions.len());
                Some((outer * extent + positions[at]) * inner + i % inner)
            };
            return Copied::of(tensor, shape, source, |_, bits| bits);
        }
        let (from, row) = (reader::dense(tensor)?, inner * dtype.unit_bytes());
        let (mut bytes, mut to) = (zeros(outer * positions.len() * row)?, 0);
        for outer in 0..outer {
            // Neighbours are copied together: orders of k have long or short runs of them.
            for run in positions.chunk_by(|one, next| one + 1 == *next) {
                let (at, length) = ((outer * extent + run[0]) * row, run.len() * row);
                bytes[to..to + length].copy_from_slice(&from[at..at + length]);
                to += length;
            }
        }
        Ok(Copied { bytes: DeviceBytes::from_slice(tensor.device(), &bytes)?, dtype, shape })
    }

    /// The whole tensor.
    pub(super) fn whole(tensor: &TensorRef<'_>) -> Result<Copied> {
        let bytes = DeviceBytes::from_slice(tensor.device(), &reader::dense(tensor)?)?;
        Ok(Copied { bytes, dtype: tensor.dtype(), shape: tensor.shape().to_vec() })
    }

    /// The whole tensor, with zeros where `zero` says so of the logical index.
    pub(super) fn with_zeros(tensor: &TensorRef<'_>, zero: impl Fn(usize) -> bool) -> Result<Copied> {
        Copied::of(tensor, tensor.shape().to_vec(), |i| (!zero(i)).then_some(i), |_, bits| bits)
    }

    /// The whole tensor, with zeros in the place of the values that `zero` names.
    pub(super) fn without(tensor: &TensorRef<'_>, zero: impl Fn(f64) -> bool) -> Result<Copied> {
        let dtype = tensor.dtype();
        let kept = |_, bits| if zero(dtype.decode(bits)) { dtype.encode(0.0, Rounding::NearestEven, Overflow::Ieee) } else { bits };
        Copied::of(tensor, tensor.shape().to_vec(), Some, kept)
    }

    /// The whole tensor of f64, with other numbers where there are some for the logical index.
    pub(super) fn replaced(tensor: &TensorRef<'_>, by: impl Fn(usize) -> Option<f64>) -> Result<Copied> {
        Copied::of(tensor, tensor.shape().to_vec(), Some, |i, bits| by(i).map_or(bits, f64::to_bits))
    }

    /// A tensor of f64 with these values.
    pub(super) fn of_values(device: &Device, shape: &[usize], values: &[f64]) -> Result<Copied> {
        Ok(Copied { bytes: DeviceBytes::from_slice(device, bytemuck::cast_slice(values))?, dtype: DType::F64, shape: shape.to_vec() })
    }

    /// The whole tensor times a number: the product is rounded to f32, and then to the format.
    pub(super) fn scaled(tensor: &TensorRef<'_>, by: f32) -> Result<Copied> {
        let dtype = tensor.dtype();
        let times = |_, bits| dtype.encode(f64::from(dtype.decode(bits) as f32 * by), Rounding::NearestEven, Overflow::Ieee);
        Copied::of(tensor, tensor.shape().to_vec(), Some, times)
    }

    /// The whole tensor, rounded to nearest in a format; beyond its largest number that, or infinite where it has infinities.
    pub(super) fn rounded(values: &DeviceMem<f64>, shape: &[usize], dtype: DType, overflow: Overflow) -> Result<Copied> {
        let largest = dtype.float_format().filter(|_| overflow == Overflow::Saturate).map(FloatFormat::max_finite);
        Copied::computed(&values.tensor(&[1, values.len()])?, shape, dtype, largest)
    }

    /// A row of values in a format, within these limits of either sign. On the device: the matrix product of 1 with them.
    fn computed(values: &TensorRef<'_>, shape: &[usize], dtype: DType, largest: Option<f64>) -> Result<Copied> {
        let (device, elements) = (values.device(), values.elements());
        let size =
            dtype.bytes_for(elements).ok_or(Error::SizeOverflow { what: "a rounded result", elements, unit_bytes: dtype.unit_bytes() })?;
        let (one, flat) = (DeviceMem::from_slice(device, &[1.0])?, [1, elements]);
        let mut bytes = DeviceBytes::new(device, size)?;
        let mut to = bytes.tensor_mut(dtype, Layout::contiguous(&flat)?)?;
        let within = largest.map_or(Epilogue::None, |largest| Epilogue::Clamp { low: -largest, high: largest });
        Gemm::new(Accumulate::F64).epilogue(within).run(&one.tensor(&[1, 1])?, values, &mut to)?;
        Ok(Copied { bytes, dtype, shape: shape.to_vec() })
    }

    /// Element i is the tensor's element `source(i)` in logical order, changed, or zero.
    fn of(
        tensor: &TensorRef<'_>,
        shape: Vec<usize>,
        source: impl Fn(usize) -> Option<usize>,
        changed: impl Fn(usize, u64) -> u64,
    ) -> Result<Copied> {
        let (dtype, from) = (tensor.dtype(), reader::dense(tensor)?);
        let elements = shape.iter().product();
        let size = dtype.bytes_for(elements).ok_or(Error::SizeOverflow { what: "an operand", elements, unit_bytes: dtype.unit_bytes() })?;
        let mut bytes = zeros(size)?;
        for (i, index) in (0..elements).filter_map(|i| Some((i, source(i)?))) {
            dtype.store_bits(&mut bytes, i, changed(i, dtype.load_bits(&from, index)));
        }
        Ok(Copied { bytes: DeviceBytes::from_slice(tensor.device(), &bytes)?, dtype, shape })
    }

    /// The copy.
    pub(super) fn tensor(&self) -> Result<TensorRef<'_>> {
        self.bytes.tensor(self.dtype, Layout::contiguous(&self.shape)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gathered_positions_come_in_their_order() {
        let (host, shape) = (Device::host(), [2, 5, 3]);
        for dtype in [DType::F4E2M1, DType::F8E4M3, DType::F16, DType::F64] {
            let bytes: Vec<u8> = (0..dtype.bytes_for(30).unwrap()).map(|i| (i * 37 % 251) as u8).collect();
            let bytes = DeviceBytes::from_slice(&host, &bytes).unwrap();
            // As it lies, and with its planes and columns exchanged.
            for strides in [[15, 3, 1], [1, 6, 2]] {
                let tensor = bytes.tensor(dtype, Layout::strided(&shape, &strides, 0).unwrap()).unwrap();
                let bits = |t: &TensorRef<'_>, at: [usize; 3], shape: [usize; 3]| {
                    dtype.load_bits(t.host_bytes(), t.layout().index((at[0] * shape[1] + at[1]) * shape[2] + at[2]))
                };
                for positions in [&[0, 1, 2, 3, 4][..], &[3, 4, 0], &[4, 3, 2, 1, 0], &[1, 1], &[]] {
                    let copy = Copied::gathered(&tensor, 2, positions).unwrap();
                    let copy = copy.tensor().unwrap();
                    assert_eq!(copy.shape(), [2, positions.len(), 3]);
                    for (outer, (number, &position), inner) in
                        (0..2).flat_map(|o| positions.iter().enumerate().flat_map(move |p| (0..3).map(move |i| (o, p, i))))
                    {
                        let (found, from) =
                            (bits(&copy, [outer, number, inner], [2, positions.len(), 3]), bits(&tensor, [outer, position, inner], shape));
                        assert_eq!(found, from, "{dtype}, strides {strides:?}, positions {positions:?}");
                    }
                }
            }
        }
    }
}
