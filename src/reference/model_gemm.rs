//! GEMM through a matrix-core model, on any device.

use super::plan;
use crate::device::{Device, DeviceKind, DeviceMem};
use crate::dtype::{DType, Scalar};
use crate::error::{Error, Result};
use crate::kernels::model_gemm as kernels;
use crate::matrix_core::{Input, Model, gemm_tile};
use crate::parallel;

/// Rows of C that one task computes.
const ROWS: usize = 16;

/// C (m x n) += A (m x k) * B (k x n) by the arithmetic of `model`, row-major; see [`gemm_tile`], whose bits this gives on
/// every device.
///
/// On a GPU the model runs as plain device code, on any GPU. The device code has all models, but for gfx942
/// only those that keep 32 bits. The host runs every model, on all cores.
///
/// # Errors
/// Wrong formats or lengths, buffers on different devices, a model that the device code lacks, or a failed launch.
pub fn model_gemm<A: Scalar, B: Scalar>(
    model: Model,
    (m, n, k): (usize, usize, usize),
    a: &DeviceMem<A>,
    b: &DeviceMem<B>,
    c: &mut DeviceMem<f32>,
) -> Result<()> {
    let (ta, tb) = model.input().dtypes();
    for (what, expected, found) in [("A", ta, A::DTYPE), ("B", tb, B::DTYPE)] {
        let xf32 = (expected, found) == (DType::Tf32, DType::F32);
        if found != expected && !xf32 {
            let what = format!("{what} of {model}");
            return Err(Error::WrongDType { what, expected: expected.to_string(), found: found.to_string() });
        }
    }
    check_lengths((m, n, k), a, b, c)?;
    let device: Device = a.device().clone();
    if device.kind() == DeviceKind::Host {
        // By the model's format: of an f32 word only what xf32 and tf32 have.
        fn widen<T: Scalar>(x: &DeviceMem<T>, dtype: DType) -> Result<Vec<f32>> {
            Ok(x.to_vec()?.iter().map(|x| dtype.decode(x.to_bits64()) as f32).collect())
        }
        let (mut a, mut b, mut sum) = (widen(a, ta)?, widen(b, tb)?, c.to_vec()?);
        model.prepare(&mut a);
        model.prepare(&mut b);
        parallel::chunks_mut(&mut sum, (ROWS * n).max(1), |tile, c| {
            let rows = c.len() / n.max(1);
            gemm_tile(model, rows, n, k, &a[tile * ROWS * k..][..rows * k], k, &b, n, c, n);
        });
        return c.copy_from_slice(&sum);
    }
    if m == 0 || n == 0 {
        return Ok(());
    }
    let (_, kernel) = plan::model(model).ok_or_else(|| Error::Unsupported {
        what: format!("the model {model}"),
        by: format!("the device code on {} (it has every model but the variants of gfx942 that keep 52 or 31 bits)", device.name()),
    })?;
    let cut = if model.input() == Input::F16AsBf16Truncated { hipverify_sys::abi::CUT } else { 0 };
    // SAFETY: the kernel is the one of this model; formats and lengths were checked, and all three buffers are on one device.
    unsafe { kernels::model_gemm(kernel, (ta as u32 | cut, tb as u32 | cut), [m, n, k], a.bytes(), b.bytes(), c.bytes_mut()) }
}

/// Checks that the buffers hold matrices of these sizes and are on one device.
pub(super) fn check_lengths<A: Scalar, B: Scalar>(
    (m, n, k): (usize, usize, usize),
    a: &DeviceMem<A>,
    b: &DeviceMem<B>,
    c: &DeviceMem<f32>,
) -> Result<()> {
    let length = |what, rows: usize, columns: usize, found: usize| {
        let expected = rows.checked_mul(columns).ok_or(Error::SizeOverflow { what, elements: rows, unit_bytes: columns })?;
        if found == expected { Ok(()) } else { Err(Error::Length { what, expected, found }) }
    };
    length("elements of A", m, k, a.len())?;
    length("elements of B", k, n, b.len())?;
    length("elements of C", m, n, c.len())?;
    b.device().expect_same(a.device(), "B")?;
    c.device().expect_same(a.device(), "C")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix_core::Arch;
    use half::f16;

    #[test]
    fn what_does_not_fit_is_an_error() {
        let host = Device::host();
        let model = Model::new(Arch::Gfx90a, Input::F16).unwrap();
        let a = DeviceMem::from_slice(&host, &[f16::ONE; 8]).unwrap();
        let mut c = DeviceMem::from_slice(&host, &[0.0f32; 4]).unwrap();
        let text = |r: Result<()>| r.unwrap_err().to_string();
        assert!(text(model_gemm(model, (2, 2, 3), &a, &a, &mut c)).contains("elements of A: expected 6, found 8"));
        assert!(text(model_gemm(model, (2, 3, 4), &a, &a, &mut c)).contains("elements of B: expected 12, found 8"));
        assert!(
            text(model_gemm(Model::new(Arch::Gfx90a, Input::Bf16).unwrap(), (2, 2, 4), &a, &a, &mut c)).contains("expected dtype bf16")
        );
    }
}
