//! The arithmetic that two formats have in common.

use super::DType;

/// The arithmetic in which numbers of two formats are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PairArithmetic {
    /// f32: both formats are exact in it, and differences of integers as well.
    F32,
    /// f64: one format is f64, or one is a float and the other a wide integer.
    F64,
    /// Exact integers: both formats are integers, and one of them is wide.
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
