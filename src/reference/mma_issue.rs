//! One of NVIDIA's matrix instructions on the real hardware.

use crate::device::{Device, DeviceBytes, DeviceKind};
use crate::error::{Error, Result};
use crate::kernels::issue::{MMA, issue};
use crate::matrix_core::{Arch, Mma, Operand};

/// D of a chain of `steps` instructions for each of several tiles, as the tensor cores of `device` compute it: what [`Mma::run_bytes`], which takes the same
/// matrices, computes by its model.
///
/// # Errors
/// When the device is not a GPU of the instruction's architecture, lengths do not fit each other, or the launch fails.
pub fn mma_issue(device: &Device, mma: Mma, steps: usize, a: &[u8], b: &[u8], c: &[u8]) -> Result<Vec<u8>> {
    let arch = device.arch().filter(|_| device.kind() == DeviceKind::Nvidia).and_then(|a| a.parse::<Arch>().ok());
    if arch != Some(mma.arch()) {
        return Err(Error::Unsupported { what: format!("{mma} of {}", mma.arch()), by: device.name() });
    }
    let tiles = mma.tiles(steps, a, b, c)?;
    let upload = |operand, matrices: &[u8]| DeviceBytes::from_slice(device, &registers(mma, operand, matrices));
    let (a, b, c) = (upload(Operand::A, a)?, upload(Operand::B, b)?, upload(Operand::C, c)?);
    let mut d = DeviceBytes::new(device, c.byte_size())?;
    // SAFETY: hip/mma.hip has a kernel of this name for each instruction of `Mma::all`; `tiles` has found so many matrices, whose register images have the
    // matrices' sizes, and D has the size of C.
    unsafe { issue(MMA, &mma.kernel(), [tiles, steps], [&a, &b, &c], &mut d)? };
    Ok(matrices(mma, Operand::D, &d.to_vec()?))
}

/// Where element `index` of a matrix lies in the image of its registers: bytes from the start.
fn byte_offset(mma: Mma, operand: Operand, index: usize) -> usize {
    let (_, columns) = mma.shape(operand);
    mma.slot(operand, index / columns, index % columns).map_or(0, |slot| (slot.register * 32 + slot.lane) * 4 + slot.bit / 8)
}

/// Moves the elements of each matrix between row-major order and the image of its registers, which have the same size.
fn moved(mma: Mma, operand: Operand, from: &[u8], to_registers: bool) -> Vec<u8> {
    let (rows, columns) = mma.shape(operand);
    let width = mma.dtype(operand).unit_bytes();
    let mut to = vec![0; from.len()];
    let offsets: Vec<usize> = (0..rows * columns).map(|index| byte_offset(mma, operand, index)).collect();
    for (from, to) in from.chunks_exact(rows * columns * width).zip(to.chunks_exact_mut(rows * columns * width)) {
        for (index, &offset) in offsets.iter().enumerate() {
            let (source, target) = if to_registers { (index * width, offset) } else { (offset, index * width) };
            to[target..][..width].copy_from_slice(&from[source..][..width]);
        }
    }
    to
}

/// The images of the registers that hold matrices.
fn registers(mma: Mma, operand: Operand, matrices: &[u8]) -> Vec<u8> {
    moved(mma, operand, matrices, true)
}

/// The inverse of [`registers`].
fn matrices(mma: Mma, operand: Operand, images: &[u8]) -> Vec<u8> {
    moved(mma, operand, images, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn register_images_are_reversible() {
        for mma in Arch::NVIDIA.into_iter().flat_map(Mma::all) {
            for operand in [Operand::A, Operand::B, Operand::C, Operand::D] {
                let bytes: Vec<u8> = (0..2 * mma.registers(operand) * 128).map(|i| (i * 7 + i / 256) as u8).collect();
                let images = registers(mma, operand, &bytes);
                assert_eq!(matrices(mma, operand, &images), bytes, "{mma} {operand:?}");
            }
        }
    }

    #[test]
    fn words_of_an_image_hold_neighbours() {
        let mma = Mma::by_name(Arch::Sm90, "m16n8k16.f32.f16.f16.f32").unwrap();
        let a: Vec<u8> = (0..256u16).flat_map(u16::to_le_bytes).collect();
        let images = registers(mma, Operand::A, &a);
        // Lane 5 of register 3: row 9, columns 10 and 11.
        assert_eq!(images[(3 * 32 + 5) * 4..][..4], [9 * 16 + 10, 0, 9 * 16 + 11, 0]);
    }

    #[test]
    fn only_the_right_gpu_measures() {
        let mma = Mma::by_name(Arch::Sm90, "m16n8k8.f32.f16.f16.f32").unwrap();
        let error = mma_issue(&Device::host(), mma, 1, &[], &[], &[]).unwrap_err().to_string();
        assert!(error.contains("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 of sm_90"), "{error}");
    }
}
