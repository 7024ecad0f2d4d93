//! Number formats: exact decoding, correctly rounded encoding, ulp arithmetic.
//!
//! [`DType`] names a storage format at run time, [`Element`] ties a Rust type to it at compile time.
//! [`FloatFormat`] describes a floating-point format by its fields; its `decode` and `encode` are the
//! definition of every conversion in the crate, in its most readable form. Fast paths (vectorised host loops,
//! device code) are tested against it, pattern by pattern.
//!
//! Everything here is pure: no device, no I/O. Limits: formats are at most 64 bits wide, and every float format's numbers are f64
//! numbers, so conversions go through f64.
//!
//! ```
//! use hipverify::dtype::{DType, Overflow, Rounding, next_up, spacing, ulp_distance};
//!
//! let e4m3: DType = "f8e4m3".parse()?;
//! let bits = e4m3.encode(0.3, Rounding::NearestEven, Overflow::Ieee);
//! assert_eq!(e4m3.decode(bits), 0.3125);
//! assert_eq!(e4m3.decode(next_up(e4m3, bits)), 0.34375);
//! assert_eq!(spacing(e4m3, 0.3), 0.03125);
//! assert_eq!(ulp_distance(e4m3, bits, e4m3.encode(0.5, Rounding::NearestEven, Overflow::Ieee)), Some(6));
//! # Ok::<(), hipverify::Error>(())
//! ```

pub(crate) mod convert;
mod element;
mod float_format;
mod formats;
mod int;
pub mod mx;
mod pair;
mod ulp;

pub use element::{Bf16, Bool, Element, F4x2, F6E2M3, F6E3M2, F8E4M3, F8E4M3Fnuz, F8E5M2, F8E5M2Fnuz, F8E8M0, F16, I4x2, Scalar, Tf32};
pub(crate) use float_format::exp2;
pub use float_format::{FloatFormat, Overflow, Rounding, Specials};
pub use formats::DType;
pub use int::IntFormat;
pub(crate) use pair::PairArithmetic;
pub(crate) use ulp::from_ordinal;
pub use ulp::{next_down, next_up, ordinal, spacing, ulp_distance};

use crate::error::{Error, Result};
use formats::Kind;

/// The class of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Zero of either sign.
    Zero,
    /// Non-zero, below the least normal magnitude of its format.
    Subnormal,
    /// Finite and normal. Every non-zero integer is normal.
    Normal,
    /// An infinity of either sign.
    Infinite,
    /// Not a number.
    Nan,
}

impl DType {
    /// The name that files, flags and reports use, such as `f16` or `f8e4m3fnuz`.
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// NumPy's code without byte order, such as `f2`; `None` for formats that NumPy does not have.
    pub const fn numpy_code(self) -> Option<&'static str> {
        self.row().numpy
    }

    /// The name in .safetensors files, such as `BF16`; `None` for formats that they do not have.
    pub const fn safetensors_name(self) -> Option<&'static str> {
        self.row().safetensors
    }

    /// Bits that one element takes in memory.
    pub const fn bits(self) -> usize {
        self.row().bits
    }

    /// Elements that share one storage unit: 2 for the packed 4-bit formats, otherwise 1.
    pub const fn per_unit(self) -> usize {
        if self.bits() == 4 { 2 } else { 1 }
    }

    /// Bytes of one storage unit (a byte for packed formats).
    pub const fn unit_bytes(self) -> usize {
        if self.bits() < 8 { 1 } else { self.bits() / 8 }
    }

    /// Bytes that hold `elements` elements; an odd number of packed elements is rounded up to a byte.
    /// `None` when that overflows.
    pub const fn bytes_for(self, elements: usize) -> Option<usize> {
        if self.bits() == 4 { Some(elements.div_ceil(2)) } else { elements.checked_mul(self.bits() / 8) }
    }

    /// Whether this is one of the integer formats.
    pub const fn is_int(self) -> bool {
        self.int_format().is_some()
    }

    /// The description of a floating-point format; `None` for integers.
    pub const fn float_format(self) -> Option<&'static FloatFormat> {
        match &self.row().kind {
            Kind::Float(f) => Some(f),
            Kind::Int(_) => None,
        }
    }

    /// The description of an integer format; `None` for floats.
    pub const fn int_format(self) -> Option<IntFormat> {
        match self.row().kind {
            Kind::Float(_) => None,
            Kind::Int(int) => Some(int),
        }
    }

    /// Whether every number of the format is one of f32: f64 and integers of 32 bits and more are wider.
    pub(crate) const fn fits_f32(self) -> bool {
        match &self.row().kind {
            Kind::Float(f) => f.mantissa_bits <= 23,
            Kind::Int(int) => int.bits <= 24,
        }
    }

    /// Reads element `index` of `bytes` as raw bits, zero-extended.
    ///
    /// # Panics
    /// When the element lies outside `bytes`.
    pub fn load_bits(self, bytes: &[u8], index: usize) -> u64 {
        if self.bits() == 4 {
            return u64::from(bytes[index / 2] >> (4 * (index % 2)) & 0xf);
        }
        let w = self.unit_bytes();
        let mut raw = [0u8; 8];
        raw[..w].copy_from_slice(&bytes[index * w..index * w + w]);
        u64::from_le_bytes(raw)
    }

    /// Writes the low bits of `bits` as element `index` of `bytes`; a packed neighbour keeps its value.
    ///
    /// # Panics
    /// When the element lies outside `bytes`.
    pub fn store_bits(self, bytes: &mut [u8], index: usize, bits: u64) {
        if self.bits() == 4 {
            let shift = 4 * (index % 2);
            let byte = &mut bytes[index / 2];
            *byte = *byte & !(0xf << shift) | ((bits as u8 & 0xf) << shift);
            return;
        }
        let w = self.unit_bytes();
        bytes[index * w..index * w + w].copy_from_slice(&bits.to_le_bytes()[..w]);
    }

    /// The value of a bit pattern. Exact for every format except `i64` and `u64`, where magnitudes above 2^53 round to nearest even.
    pub fn decode(self, bits: u64) -> f64 {
        match &self.row().kind {
            Kind::Float(f) => f.decode(bits),
            Kind::Int(int) => int.decode(bits) as f64,
        }
    }

    /// The bit pattern of `value` in this format. Integers round as floats do and always saturate; NaN becomes 0 there.
    pub fn encode(self, value: f64, rounding: Rounding, overflow: Overflow) -> u64 {
        match &self.row().kind {
            Kind::Float(f) => f.encode(value, rounding, overflow),
            Kind::Int(int) => int.encode(value, rounding),
        }
    }

    /// The number of this format that stands for `x`: the nearest one, of two the even one, beyond the largest what IEEE 754 says ([`Overflow::Ieee`]).
    ///
    /// ```
    /// use hipverify::DType;
    ///
    /// assert_eq!([DType::F16, DType::F8E4M3, DType::I8].map(|dtype| dtype.rounded(0.3)), [0.300048828125, 0.3125, 0.0]);
    /// assert_eq!(DType::F16.rounded(65520.0), f64::INFINITY);
    /// ```
    pub fn rounded(self, x: f64) -> f64 {
        self.rounded_by(x, Rounding::NearestEven, Overflow::Ieee)
    }

    /// The number of this format that [`encode`](DType::encode) makes of `x`.
    pub(crate) fn rounded_by(self, x: f64, rounding: Rounding, overflow: Overflow) -> f64 {
        self.decode(self.encode(x, rounding, overflow))
    }

    /// Whether a finite number is one of this format.
    pub(crate) fn holds(self, x: f64) -> bool {
        x.is_finite() && self.rounded(x) == x
    }

    /// What rounding to nearest loses at most of a normal number, relative to it: [`FloatFormat::unit_roundoff`], and 0 of integers, which are not rounded relatively.
    ///
    /// ```
    /// use hipverify::DType;
    ///
    /// assert_eq!([DType::F16, DType::F64, DType::I32].map(DType::unit_roundoff), [2f64.powi(-11), f64::EPSILON / 2.0, 0.0]);
    /// ```
    pub fn unit_roundoff(self) -> f64 {
        self.float_format().map_or(0.0, FloatFormat::unit_roundoff)
    }

    /// The class of a bit pattern.
    pub fn classify(self, bits: u64) -> Class {
        let v = self.decode(bits);
        if v.is_nan() {
            Class::Nan
        } else if v.is_infinite() {
            Class::Infinite
        } else if v == 0.0 {
            Class::Zero
        } else {
            match self.float_format() {
                Some(f) if v.abs() < f.min_normal() => Class::Subnormal,
                _ => Class::Normal,
            }
        }
    }
}

impl std::fmt::Display for DType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

impl std::str::FromStr for DType {
    type Err = Error;

    /// Reads a name as [`DType::name`] prints it, or a usual alias (`half`, `float32`, `fp8_e4m3`, `xf32`, `int8` ...).
    fn from_str(s: &str) -> Result<DType> {
        let lower = s.to_ascii_lowercase();
        let named = |d: &DType| d.name() == lower || d.row().aliases.contains(&lower.as_str());
        DType::ALL
            .into_iter()
            .find(named)
            .ok_or_else(|| Error::UnknownDType { name: s.to_owned(), known: DType::ALL.map(DType::name).join(" ") })
    }
}
