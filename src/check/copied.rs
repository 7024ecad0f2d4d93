//! Dense copies of tensors on their device: some positions of an axis, zeros in some places, multiplied by a number, or rounded to a format.

use crate::device::host::zeros;
use crate::device::{Device, DeviceBytes, DeviceMem, Layout, TensorRef};
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
        let source = |i: usize| {
            let (outer, at) = (i / (inner * positions.len()), i / inner % positions.len());
            Some((outer * extent + positions[at]) * inner + i % inner)
        };
        Copied::of(tensor, shape, source, |_, bits| bits)
    }

    /// The whole tensor.
    pub(super) fn whole(tensor: &TensorRef<'_>) -> Result<Copied> {
        Copied::of(tensor, tensor.shape().to_vec(), Some, |_, bits| bits)
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
        let (dtype, layout, from) = (tensor.dtype(), tensor.layout(), tensor.fetch()?);
        let elements = shape.iter().product();
        let size = dtype.bytes_for(elements).ok_or(Error::SizeOverflow { what: "an operand", elements, unit_bytes: dtype.unit_bytes() })?;
        let mut bytes = zeros(size)?;
        for (i, index) in (0..elements).filter_map(|i| Some((i, source(i)?))) {
            dtype.store_bits(&mut bytes, i, changed(i, dtype.load_bits(&from, layout.index(index))));
        }
        Ok(Copied { bytes: DeviceBytes::from_slice(tensor.device(), &bytes)?, dtype, shape })
    }

    /// The copy.
    pub(super) fn tensor(&self) -> Result<TensorRef<'_>> {
        self.bytes.tensor(self.dtype, Layout::contiguous(&self.shape)?)
    }
}
