//! The arithmetic that two formats have in common.

use super::DType;

/// In which arithmetic numbers of two formats are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PairArithmetic {
    /// Both formats are exact in f32, and differences of integers as well.
    F32,
    /// One is f64, or a float meets a wide integer.
    F64,
    /// Both are integers, one of them wide.
    I64,
}

impl PairArithmetic {
    pub(crate) fn of(result: DType, reference: DType) -> PairArithmetic {
        let wide_int = |d: DType| d.is_int() && !d.fits_f32();
        if !wide_int(result) && !wide_int(reference) {
            return if result == DType::F64 || reference == DType::F64 { PairArithmetic::F64 } else { PairArithmetic::F32 };
        }
        if result.is_int() && reference.is_int() { PairArithmetic::I64 } else { PairArithmetic::F64 }
    }
}
