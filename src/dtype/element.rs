//! Rust types whose memory is a [`DType`].

use super::{DType, Overflow, Rounding};
use bytemuck::{Pod, Zeroable};

/// binary16.
pub type F16 = half::f16;
/// bfloat16.
pub type Bf16 = half::bf16;

mod sealed {
    pub trait Sealed {}
}

/// A storage unit of a tensor: one element, or two if the format is packed.
///
/// Sealed: the device code supports only these types.
pub trait Element: Pod + Send + Sync + std::fmt::Debug + PartialEq + sealed::Sealed + 'static {
    /// The format of the elements.
    const DTYPE: DType;
    /// Elements in one unit: 2 for packed 4-bit formats, else 1.
    const PER_UNIT: usize = Self::DTYPE.per_unit();
}

/// An [`Element`] that holds exactly one number.
pub trait Scalar: Element {
    /// The raw bits, zero-extended.
    fn to_bits64(self) -> u64;
    /// The unit of the low bits of `bits`.
    fn from_bits64(bits: u64) -> Self;
    /// The value; see [`DType::decode`].
    fn to_f64(self) -> f64 {
        Self::DTYPE.decode(self.to_bits64())
    }
    /// The nearest element, ties to even, IEEE overflow; see [`DType::encode`].
    fn from_f64(value: f64) -> Self {
        Self::from_f64_with(value, Rounding::NearestEven, Overflow::Ieee)
    }
    /// The element for `value` under the given rules.
    fn from_f64_with(value: f64, rounding: Rounding, overflow: Overflow) -> Self {
        Self::from_bits64(Self::DTYPE.encode(value, rounding, overflow))
    }
}

macro_rules! newtypes {
    ($($(#[$doc:meta])* $name:ident($inner:ty) = $dtype:ident, $scalar:tt;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Pod, Zeroable)]
        #[repr(transparent)]
        pub struct $name(pub $inner);
        impl sealed::Sealed for $name {}
        impl Element for $name {
            const DTYPE: DType = DType::$dtype;
        }
        newtypes!(@$scalar $name, $inner);
    )*};
    (@scalar $name:ident, $inner:ty) => {
        impl Scalar for $name {
            fn to_bits64(self) -> u64 {
                u64::from(self.0)
            }
            fn from_bits64(bits: u64) -> Self {
                $name(bits as $inner)
            }
        }
    };
    (@packed $name:ident, $inner:ty) => {
        impl $name {
            /// Packs two elements given as raw 4-bit patterns; `first` goes to the low nibble.
            pub const fn pack(first: u8, second: u8) -> $name {
                $name(first & 0xf | second << 4)
            }
            /// The two raw 4-bit patterns, the first element first.
            pub const fn unpack(self) -> [u8; 2] {
                [self.0 & 0xf, self.0 >> 4]
            }
        }
    };
}

newtypes! {
    /// The raw word of a tf32/xf32 number; the low 13 bits are ignored.
    Tf32(u32) = Tf32, scalar;
    /// The raw byte of an OCP fp8 e4m3 number.
    F8E4M3(u8) = F8E4M3, scalar;
    /// The raw byte of an OCP fp8 e5m2 number.
    F8E5M2(u8) = F8E5M2, scalar;
    /// The raw byte of an fp8 e4m3 fnuz number.
    F8E4M3Fnuz(u8) = F8E4M3Fnuz, scalar;
    /// The raw byte of an fp8 e5m2 fnuz number.
    F8E5M2Fnuz(u8) = F8E5M2Fnuz, scalar;
    /// An fp6 e2m3 number in the low 6 bits.
    F6E2M3(u8) = F6E2M3, scalar;
    /// An fp6 e3m2 number in the low 6 bits.
    F6E3M2(u8) = F6E3M2, scalar;
    /// Two fp4 e2m1 numbers, the first in the low nibble.
    F4x2(u8) = F4E2M1, packed;
    /// The raw byte of an e8m0 scale.
    F8E8M0(u8) = F8E8M0, scalar;
    /// Two signed 4-bit integers, the first in the low nibble.
    I4x2(u8) = I4, packed;
    /// The raw byte of a truth value: true unless 0. Rust's `bool` is not plain data.
    Bool(u8) = Bool, scalar;
}

macro_rules! primitives {
    ($($ty:ty = $dtype:ident, |$v:ident| $to:expr, |$b:ident| $from:expr;)*) => {$(
        impl sealed::Sealed for $ty {}
        impl Element for $ty {
            const DTYPE: DType = DType::$dtype;
        }
        impl Scalar for $ty {
            fn to_bits64(self) -> u64 {
                let $v = self;
                $to
            }
            fn from_bits64($b: u64) -> Self {
                $from
            }
        }
    )*};
}

primitives! {
    f64 = F64, |v| v.to_bits(), |b| f64::from_bits(b);
    f32 = F32, |v| u64::from(v.to_bits()), |b| f32::from_bits(b as u32);
    F16 = F16, |v| u64::from(v.to_bits()), |b| F16::from_bits(b as u16);
    Bf16 = Bf16, |v| u64::from(v.to_bits()), |b| Bf16::from_bits(b as u16);
    i8 = I8, |v| u64::from(v as u8), |b| b as i8;
    u8 = U8, |v| u64::from(v), |b| b as u8;
    u16 = U16, |v| u64::from(v), |b| b as u16;
    u32 = U32, |v| u64::from(v), |b| b as u32;
    i16 = I16, |v| u64::from(v as u16), |b| b as i16;
    i32 = I32, |v| u64::from(v as u32), |b| b as i32;
    i64 = I64, |v| v as u64, |b| b as i64;
    u64 = U64, |v| v, |b| b;
}
