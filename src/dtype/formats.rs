//! Every number format, one row for each: the only list of formats in the Rust code.
//!
//! The device code has its own, `hip/formats_table.h`, which a test compares with this one. A new format is a row in both, its Rust type in
//! `element.rs`, its loops in `convert.rs` and, if it has more than 8 bits, its decoding in `hip/verify/decode.h`.

use super::{FloatFormat, IntFormat, Specials};

/// What a row says in addition to its variant and number.
pub(super) struct Row {
    pub name: &'static str,
    pub bits: usize,
    pub kind: Kind,
    pub numpy: Option<&'static str>,
    pub safetensors: Option<&'static str>,
    pub aliases: &'static [&'static str],
}

/// What the bits mean.
pub(super) enum Kind {
    Float(FloatFormat),
    Int(IntFormat),
}

macro_rules! formats {
    ($(
        $(#[$doc:meta])*
        $variant:ident = $number:literal, $name:literal, $bits:literal, $kind:expr, $numpy:expr, $safetensors:expr, $aliases:expr;
    )*) => {
        /// A storage format of tensor elements.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        #[repr(u32)]
        pub enum DType {
            $($(#[$doc])* $variant = $number,)*
        }

        /// By number.
        const ROWS: &[Row] = &[
            $(Row { name: $name, bits: $bits, kind: $kind, numpy: $numpy, safetensors: $safetensors, aliases: &$aliases },)*
        ];

        impl DType {
            /// Every format, in the order of the documentation.
            pub const ALL: [DType; ROWS.len()] = [$(DType::$variant),*];
        }
    };
}

impl DType {
    pub(super) const fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }
}

const _: () = {
    let mut i = 0;
    while i < ROWS.len() {
        assert!(DType::ALL[i] as usize == i, "rows are in the order of their numbers");
        i += 1;
    }
};

/// Biased by half of its exponents, with infinities and NaNs.
const fn ieee(exponent_bits: u32, mantissa_bits: u32) -> FloatFormat {
    FloatFormat { exponent_bits, mantissa_bits, bias: (1 << (exponent_bits - 1)) - 1, specials: Specials::Ieee, pad_bits: 0 }
}

const fn float(f: FloatFormat) -> Kind {
    Kind::Float(f)
}

/// Two's complement.
const fn signed(bits: u32) -> Kind {
    Kind::Int(IntFormat { bits, signed: true, truth: false })
}

const fn unsigned(bits: u32) -> Kind {
    Kind::Int(IntFormat { bits, signed: false, truth: false })
}

// Variant = number, name, bits in memory, meaning, NumPy's code, .safetensors' name, other names.
formats! {
    /// IEEE 754 binary64.
    F64 = 0, "f64", 64, float(ieee(11, 52)), Some("f8"), Some("F64"), ["float64", "double", "fp64"];
    /// IEEE 754 binary32.
    F32 = 1, "f32", 32, float(ieee(8, 23)), Some("f4"), Some("F32"), ["float32", "float", "fp32"];
    /// tf32 (NVIDIA), xf32 (AMD): 1-8-10 in the upper 19 bits of a 32-bit word; the low 13 bits are ignored.
    Tf32 = 2, "tf32", 32, float(FloatFormat { pad_bits: 13, ..ieee(8, 10) }), None, None, ["xf32", "tensorfloat32"];
    /// IEEE 754 binary16.
    F16 = 3, "f16", 16, float(ieee(5, 10)), Some("f2"), Some("F16"), ["float16", "half", "fp16"];
    /// bfloat16: the upper half of a binary32.
    Bf16 = 4, "bf16", 16, float(ieee(8, 7)), None, Some("BF16"), ["bfloat16"];
    /// OCP fp8 e4m3: no infinities, one NaN per sign, largest finite value 448.
    F8E4M3 = 5, "f8e4m3", 8, float(FloatFormat { specials: Specials::SingleNan, ..ieee(4, 3) }), None, Some("F8_E4M3"),
        ["fp8_e4m3", "float8_e4m3fn", "f8_e4m3", "e4m3", "fp8"];
    /// OCP fp8 e5m2: IEEE-like, largest finite value 57344.
    F8E5M2 = 6, "f8e5m2", 8, float(ieee(5, 2)), None, Some("F8_E5M2"), ["fp8_e5m2", "float8_e5m2", "f8_e5m2", "e5m2", "bf8"];
    /// fp8 e4m3 of MI300 ("fnuz"): bias 8, NaN is 0x80, no infinities, no negative zero, largest value 240.
    F8E4M3Fnuz = 7, "f8e4m3fnuz", 8, float(FloatFormat { specials: Specials::NegativeZeroNan, bias: 8, ..ieee(4, 3) }), None,
        Some("F8_E4M3FNUZ"), ["fp8_e4m3_fnuz", "float8_e4m3fnuz", "f8_e4m3fnuz"];
    /// fp8 e5m2 of MI300 ("fnuz"): bias 16, NaN is 0x80, no infinities, no negative zero, largest value 57344.
    F8E5M2Fnuz = 8, "f8e5m2fnuz", 8, float(FloatFormat { specials: Specials::NegativeZeroNan, bias: 16, ..ieee(5, 2) }), None,
        Some("F8_E5M2FNUZ"), ["fp8_e5m2_fnuz", "float8_e5m2fnuz", "f8_e5m2fnuz"];
    /// OCP fp6 e2m3, one element in the low 6 bits of a byte: finite values only, largest 7.5.
    F6E2M3 = 9, "f6e2m3", 8, float(FloatFormat { specials: Specials::None, ..ieee(2, 3) }), None, Some("F6_E2M3"),
        ["fp6_e2m3", "float6_e2m3fn", "f6_e2m3", "e2m3"];
    /// OCP fp6 e3m2, one element in the low 6 bits of a byte: finite values only, largest 28.
    F6E3M2 = 10, "f6e3m2", 8, float(FloatFormat { specials: Specials::None, ..ieee(3, 2) }), None, Some("F6_E3M2"),
        ["fp6_e3m2", "float6_e3m2fn", "f6_e3m2", "e3m2"];
    /// OCP fp4 e2m1, two elements per byte, the first in the low nibble: finite values only, largest 6.
    F4E2M1 = 11, "f4e2m1", 4, float(FloatFormat { specials: Specials::None, ..ieee(2, 1) }), None, Some("F4"),
        ["fp4", "f4", "fp4_e2m1", "float4_e2m1fn", "e2m1"];
    /// OCP e8m0: a power of two from 2^-127 to 2^127, or NaN (0xff); unsigned, without a zero.
    F8E8M0 = 12, "f8e8m0", 8, float(FloatFormat { specials: Specials::E8m0, ..ieee(8, 0) }), None, Some("F8_E8M0"),
        ["e8m0", "float8_e8m0fnu", "f8_e8m0"];
    /// Signed 8-bit integer.
    I8 = 13, "i8", 8, signed(8), Some("i1"), Some("I8"), ["int8"];
    /// Unsigned 8-bit integer.
    U8 = 14, "u8", 8, unsigned(8), Some("u1"), Some("U8"), ["uint8"];
    /// Signed 16-bit integer.
    I16 = 15, "i16", 16, signed(16), Some("i2"), Some("I16"), ["int16"];
    /// Signed 32-bit integer.
    I32 = 16, "i32", 32, signed(32), Some("i4"), Some("I32"), ["int32"];
    /// Signed 64-bit integer.
    I64 = 17, "i64", 64, signed(64), Some("i8"), Some("I64"), ["int64"];
    /// Signed 4-bit integer, two's complement, two elements per byte, the first in the low nibble.
    I4 = 18, "i4", 4, signed(4), None, None, ["int4"];
    /// A truth value in a byte: 0 is false and counts as 0, anything else is true and counts as 1.
    Bool = 19, "bool", 8, Kind::Int(IntFormat { bits: 8, signed: false, truth: true }), Some("b1"), Some("BOOL"), ["boolean", "bool_"];
    /// Unsigned 16-bit integer.
    U16 = 20, "u16", 16, unsigned(16), Some("u2"), Some("U16"), ["uint16"];
    /// Unsigned 32-bit integer.
    U32 = 21, "u32", 32, unsigned(32), Some("u4"), Some("U32"), ["uint32"];
    /// Unsigned 64-bit integer.
    U64 = 22, "u64", 64, unsigned(64), Some("u8"), Some("U64"), ["uint64"];
}
