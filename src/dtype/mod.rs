//! Number formats: exact decoding, correctly rounded encoding, ulp arithmetic.
//!
//! [`DType`] names a storage format at run time, [`Element`] ties a Rust type to it at compile time.
//! [`FloatFormat`] describes a floating-point format by its fields; its `decode` and `encode` are the
//! definition of every conversion in the crate, written to be read. Fast paths (vectorised host loops,
//! device code) are tested against it, pattern by pattern.
//!
//! Everything here is pure: no device, no I/O. Limits: formats are at most 64 bits wide, and every float format's numbers are f64
//! numbers, which is why f64 is the currency of conversions.
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
mod int;
pub mod mx;
mod pair;
mod ulp;

pub use element::{Bf16, Element, F4x2, F6E2M3, F6E3M2, F8E4M3, F8E4M3Fnuz, F8E5M2, F8E5M2Fnuz, F8E8M0, F16, I4x2, Scalar, Tf32};
pub(crate) use float_format::exp2;
pub use float_format::{FloatFormat, Overflow, Rounding, Specials};
pub use int::IntFormat;
pub(crate) use pair::PairArithmetic;
pub use ulp::{next_down, next_up, ordinal, spacing, ulp_distance};

use crate::error::{Error, Result};

/// A storage format of tensor elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(u32)]
pub enum DType {
    /// IEEE 754 binary64.
    F64 = 0,
    /// IEEE 754 binary32.
    F32 = 1,
    /// tf32 (NVIDIA), xf32 (AMD): 1-8-10 in the upper 19 bits of a 32-bit word; the low 13 bits are ignored.
    Tf32 = 2,
    /// IEEE 754 binary16.
    F16 = 3,
    /// bfloat16: the upper half of a binary32.
    Bf16 = 4,
    /// OCP fp8 e4m3: no infinities, one NaN per sign, largest finite value 448.
    F8E4M3 = 5,
    /// OCP fp8 e5m2: IEEE-like, largest finite value 57344.
    F8E5M2 = 6,
    /// fp8 e4m3 of MI300 ("fnuz"): bias 8, NaN is 0x80, no infinities, no negative zero, largest value 240.
    F8E4M3Fnuz = 7,
    /// fp8 e5m2 of MI300 ("fnuz"): bias 16, NaN is 0x80, no infinities, no negative zero, largest value 57344.
    F8E5M2Fnuz = 8,
    /// OCP fp6 e2m3, one element in the low 6 bits of a byte: finite values only, largest 7.5.
    F6E2M3 = 9,
    /// OCP fp6 e3m2, one element in the low 6 bits of a byte: finite values only, largest 28.
    F6E3M2 = 10,
    /// OCP fp4 e2m1, two elements a byte, the first in the low nibble: finite values only, largest 6.
    F4E2M1 = 11,
    /// OCP e8m0: a power of two from 2^-127 to 2^127, or NaN (0xff); unsigned, without a zero.
    F8E8M0 = 12,
    /// Signed 8-bit integer.
    I8 = 13,
    /// Unsigned 8-bit integer.
    U8 = 14,
    /// Signed 16-bit integer.
    I16 = 15,
    /// Signed 32-bit integer.
    I32 = 16,
    /// Signed 64-bit integer.
    I64 = 17,
    /// Signed 4-bit integer, two's complement, two elements a byte, the first in the low nibble.
    I4 = 18,
}

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
    /// Every format, in the order of the documentation.
    pub const ALL: [DType; 19] = [
        DType::F64,
        DType::F32,
        DType::Tf32,
        DType::F16,
        DType::Bf16,
        DType::F8E4M3,
        DType::F8E5M2,
        DType::F8E4M3Fnuz,
        DType::F8E5M2Fnuz,
        DType::F6E2M3,
        DType::F6E3M2,
        DType::F4E2M1,
        DType::F8E8M0,
        DType::I8,
        DType::U8,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::I4,
    ];

    /// The name that files, flags and reports use, such as `f16` or `f8e4m3fnuz`.
    pub const fn name(self) -> &'static str {
        match self {
            DType::F64 => "f64",
            DType::F32 => "f32",
            DType::Tf32 => "tf32",
            DType::F16 => "f16",
            DType::Bf16 => "bf16",
            DType::F8E4M3 => "f8e4m3",
            DType::F8E5M2 => "f8e5m2",
            DType::F8E4M3Fnuz => "f8e4m3fnuz",
            DType::F8E5M2Fnuz => "f8e5m2fnuz",
            DType::F6E2M3 => "f6e2m3",
            DType::F6E3M2 => "f6e3m2",
            DType::F4E2M1 => "f4e2m1",
            DType::F8E8M0 => "f8e8m0",
            DType::I8 => "i8",
            DType::U8 => "u8",
            DType::I16 => "i16",
            DType::I32 => "i32",
            DType::I64 => "i64",
            DType::I4 => "i4",
        }
    }

    /// Bits that one element takes in memory.
    pub const fn bits(self) -> usize {
        match self {
            DType::F64 | DType::I64 => 64,
            DType::F32 | DType::Tf32 | DType::I32 => 32,
            DType::F16 | DType::Bf16 | DType::I16 => 16,
            DType::F4E2M1 | DType::I4 => 4,
            _ => 8,
        }
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
        FloatFormat::of(self)
    }

    /// The description of an integer format; `None` for floats.
    pub const fn int_format(self) -> Option<IntFormat> {
        IntFormat::of(self)
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

    /// The value of a bit pattern. Exact for every format but `i64`, where magnitudes above 2^53 round to nearest even.
    pub fn decode(self, bits: u64) -> f64 {
        match (self.float_format(), self.int_format()) {
            (Some(f), _) => f.decode(bits),
            (None, Some(i)) => i.decode(bits) as f64,
            (None, None) => f64::NAN,
        }
    }

    /// The bit pattern of `value` in this format. Integers round as floats do and always saturate; NaN becomes 0 there.
    pub fn encode(self, value: f64, rounding: Rounding, overflow: Overflow) -> u64 {
        match (self.float_format(), self.int_format()) {
            (Some(f), _) => f.encode(value, rounding, overflow),
            (None, Some(i)) => i.encode(value, rounding),
            (None, None) => 0,
        }
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
        let alias = match lower.as_str() {
            "float64" | "double" | "fp64" => "f64",
            "float32" | "float" | "fp32" => "f32",
            "xf32" | "tensorfloat32" => "tf32",
            "float16" | "half" | "fp16" => "f16",
            "bfloat16" => "bf16",
            "fp8_e4m3" | "float8_e4m3fn" | "f8_e4m3" | "e4m3" | "fp8" => "f8e4m3",
            "fp8_e5m2" | "float8_e5m2" | "f8_e5m2" | "e5m2" | "bf8" => "f8e5m2",
            "fp8_e4m3_fnuz" | "float8_e4m3fnuz" | "f8_e4m3fnuz" => "f8e4m3fnuz",
            "fp8_e5m2_fnuz" | "float8_e5m2fnuz" | "f8_e5m2fnuz" => "f8e5m2fnuz",
            "fp6_e2m3" | "float6_e2m3fn" | "f6_e2m3" | "e2m3" => "f6e2m3",
            "fp6_e3m2" | "float6_e3m2fn" | "f6_e3m2" | "e3m2" => "f6e3m2",
            "fp4" | "f4" | "fp4_e2m1" | "float4_e2m1fn" | "e2m1" => "f4e2m1",
            "e8m0" | "float8_e8m0fnu" | "f8_e8m0" => "f8e8m0",
            "int8" => "i8",
            "uint8" => "u8",
            "int16" => "i16",
            "int32" => "i32",
            "int64" => "i64",
            "int4" => "i4",
            other => other,
        };
        DType::ALL.into_iter().find(|d| d.name() == alias).ok_or_else(|| Error::UnknownDType { name: s.to_owned() })
    }
}
