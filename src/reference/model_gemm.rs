//! GEMM through a matrix-core model, on any device.

use crate::device::{Device, DeviceKind, DeviceMem};
use crate::dtype::{DType, Scalar};
use crate::error::{Error, Result};
use crate::matrix_core::{Input, Model, gemm_tile};
use rayon::prelude::*;

/// Rows of C that one task computes.
const ROWS: usize = 16;

/// C (m x n) += A (m x k) * B (k x n) by the arithmetic of `model`, row-major; see [`gemm_tile`], whose bits this gives on
/// every device.
///
/// On a GPU the model runs as plain device code, so that any GPU will do; it has the f16 and bf16 models of gfx908 and gfx90a.
/// The host runs every model, on all cores.
///
/// # Errors
/// Wrong formats or lengths, buffers on different devices, a model that the device code lacks, or a failed launch.
pub fn model_gemm<T: Scalar>(
    model: Model,
    (m, n, k): (usize, usize, usize),
    a: &DeviceMem<T>,
    b: &DeviceMem<T>,
    c: &mut DeviceMem<f32>,
) -> Result<()> {
    let (ta, tb) = model.input().dtypes();
    for (what, expected) in [("A", ta), ("B", tb)] {
        let xf32 = (expected, T::DTYPE) == (DType::Tf32, DType::F32);
        if T::DTYPE != expected && !xf32 {
            let what = format!("{what} of {model}");
            return Err(Error::WrongDType { what, expected: expected.to_string(), found: T::DTYPE.to_string() });
        }
    }
    let length = |what, rows: usize, columns: usize, found: usize| {
        let expected = rows.checked_mul(columns).ok_or(Error::SizeOverflow { what, elements: rows, unit_bytes: columns })?;
        if found == expected { Ok(()) } else { Err(Error::Length { what, expected, found }) }
    };
    length("elements of A", m, k, a.len())?;
    length("elements of B", k, n, b.len())?;
    length("elements of C", m, n, c.len())?;
    b.device().expect_same(a.device(), "B")?;
    c.device().expect_same(a.device(), "C")?;
    let device: Device = a.device().clone();
    if device.kind() == DeviceKind::Host {
        let widen = |x: &DeviceMem<T>| -> Result<Vec<f32>> { Ok(x.to_vec()?.iter().map(|x| x.to_f64() as f32).collect()) };
        let (mut a, mut b, mut sum) = (widen(a)?, widen(b)?, c.to_vec()?);
        model.prepare(&mut a);
        model.prepare(&mut b);
        sum.par_chunks_mut((ROWS * n).max(1)).enumerate().for_each(|(tile, c)| {
            let rows = c.len() / n.max(1);
            gemm_tile(model, rows, n, k, &a[tile * ROWS * k..][..rows * k], k, &b, n, c, n);
        });
        return c.copy_from_slice(&sum);
    }
    if m == 0 || n == 0 {
        return Ok(());
    }
    let kernel = kernel(model).ok_or_else(|| Error::Unsupported {
        what: format!("the model {model}"),
        by: format!("the device code on {} (it has f16 and bf16 of gfx908, f16, bf16 and bf16_1k of gfx90a)", device.name()),
    })?;
    crate::device::hip::model_gemm(kernel, [m, n, k], a.bytes(), b.bytes(), c.bytes_mut())
}

/// The device code of a model.
fn kernel(model: Model) -> Option<crate::device::hip::ModelKernel> {
    use crate::device::hip::ModelKernel as K;
    use crate::matrix_core::Arch::{Gfx90a, Gfx908};
    Some(match (model.arch(), model.input()) {
        (Gfx908, Input::F16) => K::Gfx908F16,
        (Gfx908, Input::Bf16) => K::Gfx908Bf16,
        (Gfx90a, Input::F16) => K::Gfx90aF16,
        (Gfx90a, Input::Bf16) => K::Gfx90aBf16,
        (Gfx90a, Input::Bf16K) => K::Gfx90aBf16K,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix_core::{Arch, naive};
    use half::{bf16, f16};

    /// Patterns of every kind: subnormals, infinities, NaN, and ordinary numbers whose sums round.
    fn patterns(count: usize, seed: u64, tame: bool) -> Vec<u16> {
        let mut state = seed;
        let mut roll = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 40) as u32
        };
        (0..count)
            .map(|_| {
                let (kind, x) = (roll() % 64, roll());
                let near_one = |one: u16| one ^ (x as u16 & 0x83ff) ^ ((x >> 12) as u16 & 0x0c00);
                match kind {
                    0 if !tame => x as u16,
                    1 => x as u16 & 0x83ff,
                    2..=9 => 0x3c00,
                    _ => near_one(0x3c00),
                }
            })
            .collect()
    }

    fn check<T: Scalar>(device: &Device, model: Model, m: usize, n: usize, k: usize, tame: bool) {
        let elements = |count, seed| patterns(count, seed, tame).iter().map(|x| T::from_bits64(u64::from(*x))).collect::<Vec<T>>();
        let (a, b) = (elements(m * k, 1), elements(k * n, 2));
        let c: Vec<f32> = (0..m * n).map(|i| [0.0, -0.0, 1e-40, 16777216.0, -3.5][i % 5]).collect();
        let wide = |x: &[T]| x.iter().map(|x| x.to_f64() as f32).collect::<Vec<f32>>();
        let mut expected = c.clone();
        naive::gemm(model, m, n, k, &wide(&a), k, &wide(&b), n, &mut expected, n);
        let a = DeviceMem::from_slice(device, &a).unwrap();
        let b = DeviceMem::from_slice(device, &b).unwrap();
        let mut d = DeviceMem::from_slice(device, &c).unwrap();
        model_gemm(model, (m, n, k), &a, &b, &mut d).unwrap();
        for (i, (found, expected)) in d.to_vec().unwrap().iter().zip(&expected).enumerate() {
            let same = found.to_bits() == expected.to_bits();
            assert!(same, "{model} on {}, [{}, {}]: {found:e}, naive {expected:e}", device.name(), i / n, i % n);
        }
    }

    #[test]
    fn every_device_gives_the_naive_bits() {
        for device in Device::all() {
            for (m, n, k) in [(1, 1, 1), (5, 7, 18), (130, 140, 37), (40, 129, 64)] {
                for tame in [true, false] {
                    for (arch, input) in [(Arch::Gfx908, Input::F16), (Arch::Gfx90a, Input::F16)] {
                        check::<f16>(&device, Model::new(arch, input).unwrap(), m, n, k, tame);
                    }
                    for (arch, input) in [(Arch::Gfx908, Input::Bf16), (Arch::Gfx90a, Input::Bf16), (Arch::Gfx90a, Input::Bf16K)] {
                        check::<bf16>(&device, Model::new(arch, input).unwrap(), m, n, k, tame);
                    }
                }
            }
        }
    }

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
