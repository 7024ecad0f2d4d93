//! Memory that tells what a kernel did to it: red zones on both sides of a tensor, and a poison for what the kernel should write.
//!
//! A [`Guard`] is a block `zone | tensor | zone`. Both zones hold bytes that depend on their position, so that a copy of a neighbour shows; they are
//! compared where they lie, and a verdict with the first difference is all that leaves the device. A [`Poison`] is written before the kernel runs. Two runs,
//! each on a block of its own and after another poison, tell unwritten elements from written ones: an element is unwritten when it holds the first poison after
//! the first run and the second after the second. A value that a kernel computes cannot do that, unless it computes another one each time.
//!
//! Limits: what lies beyond a zone is not watched, and a write that puts the very same byte into a zone is not seen.

use super::record::Side;
use crate::device::{Device, DeviceMem, Layout, TensorMut, TensorRef};
use crate::dtype::{DType, Element, Overflow, Rounding};
use crate::error::{Error, Result};
use crate::fill::{FillConstant, FillUniformRandInteger, fill};
use crate::verify::{Options, Tolerance, gpu_verify_with};

/// Bytes of a zone: a multiple of every alignment that a kernel may ask for.
pub const ZONE: usize = 1 << 14;

/// A tensor between two red zones.
///
/// ```
/// use hipverify::suite::{Guard, Poison};
/// use hipverify::{DType, Device};
/// let mut guard = Guard::new(&Device::host(), DType::F16, &[4, 8])?;
/// guard.poison(Poison::Nan)?;
/// // ... a kernel writes `guard.tensor_mut()?` ...
/// assert_eq!(guard.check()?, None);
/// # Ok::<(), hipverify::Error>(())
/// ```
#[derive(Debug)]
pub struct Guard {
    memory: DeviceMem<u8>,
    /// What both zones hold.
    pattern: DeviceMem<u8>,
    dtype: DType,
    layout: Layout,
    bytes: usize,
    /// What messages call it.
    name: &'static str,
}

/// Bytes of a red zone that were written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RedZone {
    /// Which zone.
    pub side: Side,
    /// From the tensor's first byte to the first one that was written; negative before the tensor.
    pub offset: i64,
    /// Bytes of the zone that changed.
    pub bytes: u64,
}

/// Elements that a kernel left as they were.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unwritten {
    /// How many.
    pub elements: u64,
    /// The first one in memory order.
    pub first: usize,
}

/// What a result holds before a kernel writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Poison {
    /// Bytes 0x55: finite numbers in every format.
    Finite,
    /// NaN where the format has it, else bytes 0xaa.
    Nan,
}

impl Poison {
    /// What every byte of a workspace holds, whose format only the kernel knows: 0x55 is finite in every format, 0xff NaN in those that have it.
    pub(crate) fn byte(self) -> u8 {
        match self {
            Poison::Finite => 0x55,
            Poison::Nan => 0xff,
        }
    }

    /// The bits of an element.
    #[must_use]
    pub fn bits(self, dtype: DType) -> u64 {
        let bytes = |byte: u64| (byte * 0x0101_0101_0101_0101) & (u64::MAX >> (64 - dtype.bits()));
        let nan = dtype.encode(f64::NAN, Rounding::NearestEven, Overflow::Ieee);
        match self {
            Poison::Finite => bytes(0x55),
            Poison::Nan if dtype.decode(nan).is_nan() => nan,
            Poison::Nan => bytes(0xaa),
        }
    }
}

impl Guard {
    /// A dense tensor; its elements are not initialised.
    ///
    /// # Errors
    /// When memory does not suffice.
    pub fn new(device: &Device, dtype: DType, shape: &[usize]) -> Result<Guard> {
        let layout = Layout::contiguous(shape)?;
        let too_large = || Error::SizeOverflow { what: "a guarded tensor", elements: layout.elements(), unit_bytes: dtype.unit_bytes() };
        let bytes = dtype.bytes_for(layout.elements()).ok_or_else(too_large)?;
        let whole = bytes.checked_add(2 * ZONE).ok_or_else(too_large)?;
        let mut guard =
            Guard { memory: DeviceMem::new(device, whole)?, pattern: DeviceMem::new(device, ZONE)?, dtype, layout, bytes, name: "guard" };
        let random = FillUniformRandInteger::new(0, 255).seed(0x7ed);
        guard.pattern.fill(&random)?;
        for at in [0, ZONE + guard.bytes] {
            fill(&mut guard.memory.strided_mut(Layout::strided(&[ZONE], &[1], at)?)?, &random)?;
        }
        Ok(guard)
    }

    /// The same with the name that messages call it by.
    pub(crate) fn named(self, name: &'static str) -> Guard {
        Guard { name, ..self }
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> &Device {
        self.memory.device()
    }

    /// The format of the elements.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The extents.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        self.layout.shape()
    }

    /// The tensor.
    ///
    /// # Errors
    /// None that a guard can have.
    pub fn tensor(&self) -> Result<TensorRef<'_>> {
        let start = self.memory.strided(Layout::strided(&[self.bytes], &[1], ZONE)?)?.as_ptr().wrapping_add(ZONE);
        // SAFETY: `bytes` bytes begin `ZONE` bytes into the block, which has `ZONE` more; `&self` keeps them valid and unwritten.
        unsafe { TensorRef::from_raw(self.device(), start, self.bytes, self.dtype, self.layout.clone()) }
    }

    /// The tensor, to be written.
    ///
    /// # Errors
    /// None that a guard can have.
    pub fn tensor_mut(&mut self) -> Result<TensorMut<'_>> {
        self.view_mut(self.dtype, self.layout.clone())
    }

    /// The tensor's bytes as a tensor of another format.
    fn view_mut(&mut self, dtype: DType, layout: Layout) -> Result<TensorMut<'_>> {
        let device = self.device().clone();
        let start = self.memory.tensor_mut(&[2 * ZONE + self.bytes])?.as_mut_ptr().wrapping_add(ZONE);
        // SAFETY: `bytes` bytes begin `ZONE` bytes into the block, which has `ZONE` more; `&mut self` keeps them valid and ours alone.
        unsafe { TensorMut::from_raw(&device, start, self.bytes, dtype, layout) }
    }

    /// Writes a poison over the tensor.
    ///
    /// # Errors
    /// A failed launch.
    pub fn poison(&mut self, poison: Poison) -> Result<()> {
        let bits = poison.bits(self.dtype);
        if self.dtype.decode(bits).is_nan() {
            return fill(&mut self.tensor_mut()?, &FillConstant::new(f64::NAN));
        }
        self.fill_bytes(if poison == Poison::Finite { 0x55 } else { 0xaa })
    }

    /// Writes a byte over the whole tensor.
    pub(crate) fn fill_bytes(&mut self, byte: u8) -> Result<()> {
        let bytes = Layout::contiguous(&[self.bytes])?;
        fill(&mut self.view_mut(DType::U8, bytes)?, &FillConstant::new(f64::from(byte)))
    }

    /// What was written beside the tensor, if anything: in the zone before it, else in the one after it.
    ///
    /// # Errors
    /// A failed comparison.
    pub fn check(&self) -> Result<Option<RedZone>> {
        Ok(self.written()?.into_iter().next())
    }

    /// Each zone that was written, the one before the tensor first.
    pub(crate) fn written(&self) -> Result<Vec<RedZone>> {
        let expected = self.pattern.tensor(&[ZONE])?;
        let options = Options::counts().first(1).cause(false);
        let mut written = Vec::new();
        for (side, at, start) in [(Side::Before, 0, -(ZONE as i64)), (Side::After, ZONE + self.bytes, self.bytes as i64)] {
            let zone = self.memory.strided(Layout::strided(&[ZONE], &[1], at)?)?;
            let report = gpu_verify_with(&zone, &expected, &Tolerance::exact(), &options)?;
            if let Some(first) = report.first.first() {
                written.push(RedZone { side, offset: start + first.index as i64, bytes: report.mismatches });
            }
        }
        Ok(written)
    }

    /// A hash of the tensor with its zones: equal for equal contents.
    ///
    /// # Errors
    /// A failed launch.
    pub fn hash(&self) -> Result<u64> {
        self.memory.hash()
    }

    /// Elements that hold [`Poison::Finite`] here and [`Poison::Nan`] in `second`: `None` if there are none.
    ///
    /// # Errors
    /// When formats or shapes differ, or a transfer fails.
    pub fn unwritten(&self, second: &Guard) -> Result<Option<Unwritten>> {
        if (self.dtype, self.shape()) != (second.dtype, second.shape()) {
            let what = format!("the second result, {} where the first is {}", second.dtype, self.dtype);
            return Err(Error::Shape { what, expected: self.shape().to_vec(), found: second.shape().to_vec() });
        }
        let (one, two) = (self.to_bytes()?, second.to_bytes()?);
        let poisons = [Poison::Finite, Poison::Nan].map(|poison| poison.bits(self.dtype));
        let mut found = (0..self.layout.elements()).filter(|&i| [&one, &two].map(|bytes| self.dtype.load_bits(bytes, i)) == poisons);
        let Some(first) = found.next() else { return Ok(None) };
        Ok(Some(Unwritten { elements: 1 + found.count() as u64, first }))
    }

    /// The first byte at which the elements of both tensors differ. The bits behind an odd number of packed elements belong to none: kernels may leave them as
    /// they are.
    pub(crate) fn first_difference(&self, second: &Guard) -> Result<Option<usize>> {
        if self.hash()? == second.hash()? {
            return Ok(None);
        }
        let (one, two) = (self.element_bytes()?, second.element_bytes()?);
        Ok(one.iter().zip(&two).position(|(one, two)| one != two))
    }

    /// The tensor's bytes with zeros behind its last element.
    fn element_bytes(&self) -> Result<Vec<u8>> {
        let (mut bytes, elements) = (self.to_bytes()?, self.layout.elements());
        (elements..elements.next_multiple_of(self.dtype.per_unit())).for_each(|i| self.dtype.store_bits(&mut bytes, i, 0));
        Ok(bytes)
    }

    /// The tensor's bytes, copied to the host.
    ///
    /// # Errors
    /// A failed transfer.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let mut bytes = self.memory.to_vec()?;
        bytes.truncate(ZONE + self.bytes);
        Ok(bytes.split_off(ZONE))
    }

    /// Writes the tensor's bytes.
    ///
    /// # Errors
    /// When there are more or fewer, or a transfer fails.
    pub fn copy_from_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        if bytes.len() != self.bytes {
            return Err(self.of_another_size("number of bytes", bytes.len()));
        }
        let mut whole = self.memory.to_vec()?;
        whole[ZONE..ZONE + bytes.len()].copy_from_slice(bytes);
        self.memory.copy_from_slice(&whole)
    }

    /// The values of the elements, whatever their format.
    pub(crate) fn values(&self) -> Result<Vec<f64>> {
        let (bytes, dtype) = (self.to_bytes()?, self.dtype);
        Ok((0..self.layout.elements()).map(|i| dtype.decode(dtype.load_bits(&bytes, i))).collect())
    }

    /// The elements, copied to the host.
    ///
    /// # Errors
    /// When `T` is another format, or a transfer fails.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        self.expect::<T>()?;
        let bytes = self.to_bytes()?;
        let mut out = vec![T::zeroed(); bytes.len() / size_of::<T>()];
        bytemuck::cast_slice_mut(&mut out).copy_from_slice(&bytes);
        Ok(out)
    }

    /// Writes the elements.
    ///
    /// # Errors
    /// When `T` is another format, there are more or fewer, or a transfer fails.
    pub fn copy_from_slice<T: Element>(&mut self, elements: &[T]) -> Result<()> {
        self.expect::<T>()?;
        let bytes = bytemuck::cast_slice(elements);
        if bytes.len() != self.bytes {
            return Err(self.of_another_size("number of elements", elements.len() * self.dtype.per_unit()));
        }
        self.copy_from_bytes(bytes)
    }

    /// That so many bytes or elements are not as many as it has.
    fn of_another_size(&self, what: &'static str, found: usize) -> Error {
        let Guard { name, dtype, bytes, .. } = self;
        let (shape, elements) = (self.shape(), self.layout.elements());
        let limit = format!("`{name}`, {dtype}{shape:?}, has {elements} elements in {bytes} bytes");
        Error::InvalidArgument { what, value: found.to_string(), limit }
    }

    fn expect<T: Element>(&self) -> Result<()> {
        if T::DTYPE == self.dtype {
            return Ok(());
        }
        Err(Error::WrongDType {
            what: format!("the elements of `{}`", self.name),
            expected: self.dtype.to_string(),
            found: T::DTYPE.to_string(),
        })
    }

    /// The same tensor on another device.
    pub(crate) fn copy_to(&self, device: &Device) -> Result<Guard> {
        let mut copy = Guard::new(device, self.dtype, self.shape())?;
        copy.copy_from(self)?;
        Ok(copy)
    }

    /// Takes contents and zones of a tensor like this one, from any device.
    pub(crate) fn copy_from(&mut self, other: &Guard) -> Result<()> {
        self.memory.copy_from(&other.memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a kernel does to the block: byte from the tensor's start, and value.
    fn written(dtype: DType, shape: &[usize], at: &[i64]) -> Guard {
        let mut guard = Guard::new(&Device::host(), dtype, shape).unwrap();
        guard.poison(Poison::Finite).unwrap();
        let mut whole = guard.memory.to_vec().unwrap();
        at.iter().for_each(|&at| whole[(ZONE as i64 + at) as usize] ^= 1);
        guard.memory.copy_from_slice(&whole).unwrap();
        guard
    }

    #[test]
    fn writes_beside_a_tensor_are_found_with_their_offset() {
        let zone = ZONE as i64;
        for (at, found, reason) in [
            (vec![], None, "nothing"),
            (vec![0, 5], None, "the tensor itself"),
            (vec![-1], Some((Side::Before, -1, 1)), "one below"),
            (vec![-zone], Some((Side::Before, -zone, 1)), "the first byte of the zone"),
            (vec![6], Some((Side::After, 6, 1)), "one above: three elements of two bytes"),
            (vec![6 + zone - 1], Some((Side::After, 6 + zone - 1, 1)), "the last byte of the zone"),
            (vec![-3, -2, 7], Some((Side::Before, -3, 2)), "both sides: the lower one is told"),
        ] {
            let red = written(DType::F16, &[3], &at).check().unwrap();
            assert_eq!(red, found.map(|(side, offset, bytes)| RedZone { side, offset, bytes }), "{reason}");
        }
    }

    #[test]
    fn unwritten_elements_are_found_in_every_format() {
        for dtype in DType::ALL {
            let [mut one, mut two] = [(); 2].map(|()| Guard::new(&Device::host(), dtype, &[4]).unwrap());
            one.poison(Poison::Finite).unwrap();
            two.poison(Poison::Nan).unwrap();
            assert_eq!(one.unwritten(&two).unwrap(), Some(Unwritten { elements: 4, first: 0 }), "{dtype}: none is written");
            for guard in [&mut one, &mut two] {
                let mut bytes = guard.to_bytes().unwrap();
                dtype.store_bits(&mut bytes, 0, 0);
                dtype.store_bits(&mut bytes, 2, 1);
                guard.copy_from_bytes(&bytes).unwrap();
            }
            assert_eq!(one.unwritten(&two).unwrap(), Some(Unwritten { elements: 2, first: 1 }), "{dtype}: 1 and 3 are not written");
            two.copy_from(&one).unwrap();
            assert_eq!(one.unwritten(&two).unwrap(), None, "{dtype}: a kernel that computes what the poison is, each time");
            assert_eq!(one.hash().unwrap(), two.hash().unwrap());
        }
    }

    #[test]
    fn elements_differ_and_what_lies_behind_them_does_not() {
        for (dtype, at, difference, reason) in [
            (DType::F4E2M1, None, None, "three elements of the same, and one half byte of two poisons"),
            (DType::F4E2M1, Some(2), Some(1), "the last element"),
            (DType::F16, Some(1), Some(2), "whole bytes"),
        ] {
            let [mut one, mut two] = [(); 2].map(|()| Guard::new(&Device::host(), dtype, &[3]).unwrap());
            for (guard, poison, other) in [(&mut one, Poison::Finite, None), (&mut two, Poison::Nan, at)] {
                guard.poison(poison).unwrap();
                let mut bytes = guard.to_bytes().unwrap();
                (0..3).for_each(|i| dtype.store_bits(&mut bytes, i, u64::from(other == Some(i))));
                guard.copy_from_bytes(&bytes).unwrap();
            }
            assert_eq!(one.first_difference(&two).unwrap(), difference, "{dtype}: {reason}");
        }
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        let mut guard = Guard::new(&Device::host(), DType::F16, &[3]).unwrap();
        let other = Guard::new(&Device::host(), DType::F16, &[2]).unwrap();
        for (error, words) in [
            (guard.copy_from_bytes(&[0; 5]).unwrap_err(), "number of bytes cannot be 5: `guard`, f16[3], has 3 elements in 6 bytes"),
            (guard.to_vec::<f32>().unwrap_err(), "expected dtype f16, found f32"),
            (guard.unwritten(&other).unwrap_err(), "[2]"),
            (Guard::new(&Device::host(), DType::F64, &[usize::MAX, 2]).unwrap_err(), "overflows"),
        ] {
            assert!(error.to_string().contains(words), "{error}");
        }
    }
}
