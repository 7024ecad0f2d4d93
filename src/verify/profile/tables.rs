//! Tolerances that projects write as tables, by number format.

use crate::dtype::DType;

/// (rtol, atol) by format; formats that no row names have none.
pub(super) struct Table {
    pub rows: &'static [(&'static [DType], f64, f64)],
    /// For integers; `None` where the source has no rule for them.
    pub integers: Option<(f64, f64)>,
}

impl Table {
    pub(super) fn of(&self, dtype: DType) -> Option<(f64, f64)> {
        if dtype.is_int() {
            return self.integers;
        }
        self.rows.iter().find(|row| row.0.contains(&dtype)).map(|&(_, rtol, atol)| (rtol, atol))
    }
}

const E4M3: &[DType] = &[DType::F8E4M3, DType::F8E4M3Fnuz];
const E5M2: &[DType] = &[DType::F8E5M2, DType::F8E5M2Fnuz];
const FP8: &[DType] = &[DType::F8E4M3, DType::F8E4M3Fnuz, DType::F8E5M2, DType::F8E5M2Fnuz];
const EXACT: Option<(f64, f64)> = Some((0.0, 0.0));

pub(super) const CK: Table = Table {
    rows: &[
        (&[DType::F32, DType::F64], 1e-5, 3e-6),
        (&[DType::Tf32], 5e-4, 5e-4),
        (&[DType::F16], 1e-3, 1e-3),
        (&[DType::Bf16], 1e-1, 1e-3),
        (FP8, 1e-3, 1e-3),
        (&[DType::F4E2M1], 0.5, 0.5),
    ],
    integers: EXACT,
};

pub(super) const TORCH: Table = Table {
    rows: &[
        (&[DType::F64], 1e-7, 1e-7),
        (&[DType::F32], 1.3e-6, 1e-5),
        (&[DType::F16], 1e-3, 1e-5),
        (&[DType::Bf16], 1.6e-2, 1e-5),
        (FP8, 0.0, 0.0),
    ],
    integers: EXACT,
};

pub(super) const JAX: Table = Table {
    rows: &[
        (&[DType::F64], 1e-15, 1e-15),
        (&[DType::F32], 1e-6, 1e-6),
        (&[DType::F16], 1e-3, 1e-3),
        (&[DType::Bf16], 1e-2, 1e-2),
        (FP8, 0.1, 0.1),
        (&[DType::F4E2M1, DType::F8E8M0], 1.0, 1.0),
    ],
    integers: EXACT,
};

/// The absolute tolerance of one accumulation.
pub(super) const ROCBLAS: Table = Table {
    rows: &[
        (&[DType::F64], 0.0, f64::EPSILON),
        (&[DType::F32], 0.0, f32::EPSILON as f64),
        (&[DType::F16], 0.0, 1.0 / 900.0),
        (&[DType::Bf16], 0.0, 1.0 / 100.0),
        (E4M3, 0.0, 1.0 / 16.0),
        (E5M2, 0.0, 1.0 / 8.0),
    ],
    integers: EXACT,
};

pub(super) const ROCMLIR: Table = Table {
    rows: &[
        (&[DType::F64], 1e-7, 1e-7),
        (&[DType::F32], 1.3e-6, 1e-5),
        (&[DType::F16], 1e-3, 1e-5),
        (&[DType::Bf16], 1.6e-2, 1e-5),
        (E4M3, 0.125, 0.1),
        (E5M2, 0.25, 0.1),
        (&[DType::F4E2M1], 0.5, 1.0),
    ],
    integers: EXACT,
};

/// What each accumulation adds to the absolute tolerance, for random data.
pub(super) const ROCMLIR_PER_TERM: Table = Table {
    rows: &[
        (&[DType::F64], 0.0, 1e-15),
        (&[DType::F32], 0.0, 1e-5),
        (&[DType::F16], 0.0, 1.0 / 900.0),
        (&[DType::Bf16], 0.0, 1.0 / 100.0),
        (E4M3, 0.0, 0.125),
        (E5M2, 0.0, 0.25),
        (&[DType::F4E2M1], 0.0, 0.5),
    ],
    integers: EXACT,
};

/// The largest RMS: 1.5e-6 for f32 and integers, 8.2e-3 for f16, 8 times that for bf16, 37 times for fp8.
pub(super) const MIOPEN_RMS: Table = Table {
    rows: &[
        (&[DType::F32, DType::F64], 0.0, 1.5e-6),
        (&[DType::F16], 0.0, 8.2e-3),
        (&[DType::Bf16], 0.0, 8.0 * 8.2e-3),
        (FP8, 0.0, 37.0 * 8.2e-3),
    ],
    integers: Some((0.0, 1.5e-6)),
};

/// KernelBench: `get_tolerance_for_precision`.
pub(super) const KERNELBENCH: Table =
    Table { rows: &[(&[DType::F64, DType::F32], 1e-4, 1e-4), (&[DType::F16, DType::Bf16], 1e-2, 1e-2)], integers: Some((1e-4, 1e-4)) };
