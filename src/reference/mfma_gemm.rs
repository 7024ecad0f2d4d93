//! A GEMM on the real matrix cores of an AMD GPU.

use crate::device::{DeviceKind, DeviceMem};
use crate::dtype::{DType, Scalar};
use crate::error::{Error, Result};
use crate::kernels;
use crate::matrix_core::{Arch, Mfma};

/// The instruction that [`mfma_gemm`] chains on `arch` for A and B of `dtype`; its [`model`](Mfma::model) describes the result.
///
/// # Errors
/// When `dtype` is neither f16 nor bf16.
pub fn mfma_gemm_instruction(arch: Arch, dtype: DType) -> Result<Mfma> {
    match (dtype, arch) {
        (DType::F16, _) => Ok(Mfma::f32_32x32x8f16(arch)),
        (DType::Bf16, Arch::Gfx908) => Ok(Mfma::f32_32x32x4bf16(arch)),
        (DType::Bf16, _) => Ok(Mfma::f32_32x32x8bf16_1k(arch)),
        _ => Err(Error::WrongDType {
            what: "operands of a GEMM on matrix cores".to_owned(),
            expected: "f16 or bf16".to_owned(),
            found: dtype.to_string(),
        }),
    }
}

/// C (m x n) += A (m x k) * B (k x n), row-major, by the matrix cores of the GPU that holds the buffers: every element is one
/// chain of the instruction that [`mfma_gemm_instruction`] names, k ascending, the last one padded with zeros.
///
/// It is for comparison with [`model_gemm`](super::model_gemm), which gives the same bits on any device if the model is
/// right (except for the sign of zeros, which may depend on where a chain is cut). It is written for that, not for speed.
///
/// # Errors
/// On anything but a gfx908, gfx90a or gfx942; for formats, lengths or devices that do not fit; a failed launch.
///
/// ```no_run
/// use hipverify::reference::{mfma_gemm, mfma_gemm_instruction, model_gemm};
/// use hipverify::{Device, DeviceMem, dtype::F16, matrix_core::Arch};
/// let gpu = Device::open("gpu")?;
/// let a = DeviceMem::from_slice(&gpu, &[F16::ONE; 64 * 64])?;
/// let mut hardware = DeviceMem::from_slice(&gpu, &[0.0f32; 64 * 64])?;
/// let mut model = DeviceMem::from_slice(&gpu, &[0.0f32; 64 * 64])?;
/// mfma_gemm((64, 64, 64), &a, &a, &mut hardware)?;
/// let arch: Arch = gpu.arch().unwrap_or_default().parse()?;
/// if let Some(arithmetic) = mfma_gemm_instruction(arch, a.dtype())?.model() {
///     model_gemm(arithmetic, (64, 64, 64), &a, &a, &mut model)?;
///     assert_eq!(hardware.to_vec()?, model.to_vec()?);
/// }
/// # Ok::<(), hipverify::Error>(())
/// ```
pub fn mfma_gemm<T: Scalar>((m, n, k): (usize, usize, usize), a: &DeviceMem<T>, b: &DeviceMem<T>, c: &mut DeviceMem<f32>) -> Result<()> {
    let device = c.device().clone();
    let arch = device.arch().filter(|_| device.kind() == DeviceKind::Amd).and_then(|name| name.parse::<Arch>().ok());
    let Some(arch) = arch else {
        return Err(Error::Unsupported {
            what: "a GEMM on AMD's matrix cores".to_owned(),
            by: format!(
                "{} (it takes an AMD GPU of {}; reference::model_gemm computes what it would give on any device)",
                device.name(),
                Arch::names(Arch::AMD, ", ")
            ),
        });
    };
    mfma_gemm_instruction(arch, T::DTYPE)?;
    super::model_gemm::check_lengths((m, n, k), a, b, c)?;
    kernels::mfma::gemm(T::DTYPE == DType::Bf16, [m, n, k], a.bytes(), b.bytes(), c.bytes_mut())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_architecture_names_its_instruction() {
        for (arch, dtype, name) in [
            (Arch::Gfx908, DType::F16, "v_mfma_f32_32x32x8f16"),
            (Arch::Gfx908, DType::Bf16, "v_mfma_f32_32x32x4bf16"),
            (Arch::Gfx90a, DType::Bf16, "v_mfma_f32_32x32x8bf16_1k"),
            (Arch::Gfx942, DType::F16, "v_mfma_f32_32x32x8_f16"),
            (Arch::Gfx942, DType::Bf16, "v_mfma_f32_32x32x8_bf16"),
        ] {
            let mfma = mfma_gemm_instruction(arch, dtype).unwrap();
            assert_eq!(mfma.name(), name, "{arch}");
            assert!(Mfma::by_name(arch, name).is_ok() && mfma.model().is_some(), "{arch} has {name}");
        }
        assert!(mfma_gemm_instruction(Arch::Gfx90a, DType::F32).unwrap_err().to_string().contains("f16 or bf16"));
    }
}
