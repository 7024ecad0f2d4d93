//! One matrix instruction on the real hardware.

use crate::device::{Device, DeviceBytes, DeviceKind};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::kernels::issue::{MFMA, issue};
use crate::matrix_core::{Arch, Coordinate, Mfma, Operand};

/// D of one instruction, as the matrix cores of `device` compute it: what [`Mfma::run_bytes`] computes by its model.
///
/// A is M x K, B is K x N, C and D are M x N; row-major, block after block, in the instruction's formats.
///
/// # Errors
/// When the device is not a GPU of the instruction's architecture, a matrix has another length, or the launch fails.
pub fn mfma_issue(device: &Device, mfma: Mfma, a: &[u8], b: &[u8], c: &[u8]) -> Result<Vec<u8>> {
    let arch = device.arch().filter(|_| device.kind() == DeviceKind::Amd).and_then(|a| a.parse::<Arch>().ok());
    if arch != Some(mfma.arch()) {
        return Err(Error::Unsupported { what: format!("{mfma} of {}", mfma.arch()), by: device.name() });
    }
    let (ta, tb, tc) = mfma.dtypes();
    let upload = |operand, t, matrix: &[u8], what| -> Result<DeviceBytes> {
        let expected = mfma.registers(operand) * WORDS * 4;
        if matrix.len() != expected {
            return Err(Error::Length { what, expected, found: matrix.len() });
        }
        DeviceBytes::from_slice(device, &registers(mfma, operand, t, matrix))
    };
    let (a, b) = (upload(Operand::A, ta, a, "bytes of A")?, upload(Operand::B, tb, b, "bytes of B")?);
    let c = upload(Operand::C, tc, c, "bytes of C")?;
    let mut d = DeviceBytes::new(device, c.byte_size())?;
    let name = mfma.builtin().replace("__builtin_amdgcn_", "");
    // SAFETY: hip/mfma.hip has a kernel of this name for each instruction of the device's architecture; A, B and C are its register images for
    // one step, and D has the size of C.
    unsafe { issue(MFMA, &name, [1, 1], [&a, &b, &c], &mut d)? };
    Ok(matrix(mfma, Operand::D, tc, &d.to_vec()?))
}

/// 32-bit words of a register: one for each lane.
const WORDS: usize = 64;

/// Where element `index` (row-major, block after block) of an operand lies in the image of its registers: bytes from the start.
fn byte_offset(mfma: Mfma, operand: Operand, index: usize) -> usize {
    let (rows, columns) = mfma.shape(operand);
    let at = Coordinate { block: index / (rows * columns), row: index / columns % rows, column: index % columns };
    mfma.slot(operand, at).map_or(0, |slot| (slot.register * WORDS + slot.lane) * 4 + slot.bit / 8)
}

/// The image of the registers that hold a matrix. The halves of a 64-bit element lie in consecutive registers.
fn registers(mfma: Mfma, operand: Operand, t: DType, matrix: &[u8]) -> Vec<u8> {
    let mut image = vec![0; mfma.registers(operand) * WORDS * 4];
    for (index, element) in matrix.chunks_exact(t.unit_bytes()).enumerate() {
        for (part, bytes) in element.chunks(4).enumerate() {
            image[byte_offset(mfma, operand, index) + part * WORDS * 4..][..bytes.len()].copy_from_slice(bytes);
        }
    }
    image
}

/// The inverse of [`registers`].
fn matrix(mfma: Mfma, operand: Operand, t: DType, image: &[u8]) -> Vec<u8> {
    let mut matrix = vec![0; image.len()];
    for (index, element) in matrix.chunks_exact_mut(t.unit_bytes()).enumerate() {
        for (part, bytes) in element.chunks_mut(4).enumerate() {
            let width = bytes.len();
            bytes.copy_from_slice(&image[byte_offset(mfma, operand, index) + part * WORDS * 4..][..width]);
        }
    }
    matrix
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn register_images_are_reversible() {
        for mfma in Arch::AMD.into_iter().flat_map(Mfma::all) {
            let (ta, tb, tc) = mfma.dtypes();
            for (operand, t) in [(Operand::A, ta), (Operand::B, tb), (Operand::C, tc)] {
                let bytes: Vec<u8> = (0..mfma.registers(operand) * WORDS * 4).map(|i| (i * 7 + i / 256) as u8).collect();
                assert_eq!(matrix(mfma, operand, t, &registers(mfma, operand, t, &bytes)), bytes, "{mfma} {operand:?}");
            }
        }
    }
}
