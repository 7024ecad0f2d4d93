//! Data for tests, and views of bytes in a device's memory.

use anyhow::Result;
use hipverify::device::{AsTensor, Layout, TensorMut, TensorRef};
use hipverify::dtype::{DType, Overflow, Rounding};
use hipverify::{Device, DeviceMem};

/// A small generator of its own, so that the data do not depend on what is tested.
pub struct Lcg(u64);

impl Lcg {
    pub fn new(seed: u64) -> Lcg {
        Lcg(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next 44 bits.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 20
    }

    /// Uniform on [-1, 1).
    pub fn unit(&mut self) -> f64 {
        self.next() as f64 / (1u64 << 43) as f64 - 1.0
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.next().is_multiple_of(n)
    }

    /// Any bit pattern of a format.
    pub fn pattern(&mut self, dtype: DType) -> u64 {
        (self.next() << 32 ^ self.next()) & (u64::MAX >> (64 - dtype.bits()))
    }
}

/// The nearest number of a format, by its bits.
pub fn encode(dtype: DType, value: f64) -> u64 {
    dtype.encode(value, Rounding::NearestEven, Overflow::Saturate)
}

/// `n` elements made one by one, as they lie in memory.
pub fn elements(dtype: DType, n: usize, mut bits: impl FnMut(usize) -> u64) -> Vec<u8> {
    let mut bytes = vec![0; dtype.bytes_for(n).unwrap()];
    (0..n).for_each(|i| dtype.store_bits(&mut bytes, i, bits(i)));
    bytes
}

/// `made` again and again, up to `n` elements of whole bytes; what is longer is cut.
pub fn repeat(dtype: DType, n: usize, made: &[u8]) -> Vec<u8> {
    made.iter().copied().cycle().take(dtype.bytes_for(n).unwrap()).collect()
}

/// Numbers of 16 binades around one, with zeros, subnormals and, where `wild`, any pattern once in 32 times; whole numbers for integers.
pub fn numbers(dtype: DType, n: usize, seed: u64, wild: bool) -> Vec<u8> {
    let mut rng = Lcg::new(seed);
    elements(dtype, n, |_| {
        let (kind, value) = (rng.next() % 32, rng.unit() * 2f64.powi((rng.next() % 8) as i32 - 4));
        match (kind, dtype.float_format()) {
            (0, _) => 0,
            (1, _) if wild => rng.pattern(dtype),
            (2, Some(format)) => encode(dtype, format.min_positive() * 3.0),
            (_, Some(_)) => encode(dtype, value),
            (_, None) => encode(dtype, (value * 50.0).trunc()),
        }
    })
}

/// Bytes in the memory of a device, viewed as `n` elements that begin after `shift` bytes.
pub fn view<'a>(memory: &'a DeviceMem<u8>, dtype: DType, n: usize, shift: usize) -> Result<TensorRef<'a>> {
    let address = memory.as_tensor().as_ptr().wrapping_add(shift);
    // SAFETY: `from_raw` checks that the layout lies in what is left of the memory, which is borrowed and so neither freed nor written.
    Ok(unsafe { TensorRef::from_raw(memory.device(), address, memory.byte_size() - shift, dtype, Layout::contiguous(&[n])?)? })
}

/// A tensor of any format and layout in memory of its own.
pub struct Owned {
    pub memory: DeviceMem<u8>,
    dtype: DType,
    layout: Layout,
}

impl Owned {
    pub fn new(device: &Device, dtype: DType, layout: &Layout, bytes: &[u8]) -> Result<Owned> {
        Ok(Owned { memory: DeviceMem::from_slice(device, bytes)?, dtype, layout: layout.clone() })
    }

    /// With [`numbers`].
    pub fn numbers(device: &Device, dtype: DType, layout: &Layout, seed: u64, wild: bool) -> Result<Owned> {
        Owned::new(device, dtype, layout, &numbers(dtype, layout.end(), seed, wild))
    }

    pub fn view(&self) -> TensorRef<'_> {
        let (device, at, size) = (self.memory.device(), self.memory.as_tensor().as_ptr(), self.memory.byte_size());
        // SAFETY: the memory has this size, and is borrowed for as long as the view lives, so that nothing frees or writes it.
        unsafe { TensorRef::from_raw(device, at, size, self.dtype, self.layout.clone()).unwrap() }
    }

    pub fn view_mut(&mut self) -> TensorMut<'_> {
        let (device, size) = (self.memory.device().clone(), self.memory.byte_size());
        let at = self.memory.tensor_mut(&[size]).unwrap().as_mut_ptr();
        // SAFETY: the memory has this size, and is borrowed exclusively for as long as the view lives.
        unsafe { TensorMut::from_raw(&device, at, size, self.dtype, self.layout.clone()).unwrap() }
    }
}
