//! The kernels that measure a device's memory read and write all of it.

use crate::own_kernel;
use crate::suite::tests;
use crate::target::Target;
use anyhow::{Result, ensure};
use hipverify::DeviceMem;
use hipverify::bandwidth;
use hipverify::device::{AsTensor, Grid, Stream};
use hipverify_sys::abi::{ReadTwo, WriteOne};

tests! {
    All: speeds_are_bytes_by_time;
    Gpus: every_vector_of_both_blocks_is_read, every_vector_is_written;
}

/// Launches between two events, whose time the stand-in always says to be this.
const LAUNCHES: f64 = 8.0;
const STANDIN_SECONDS: f64 = 1.5e-3;

fn speeds_are_bytes_by_time(target: &Target) -> Result<()> {
    let (device, bytes) = (&target.device, target.size(1 << 12, 1 << 22));
    let (read, write) = (bandwidth::read(device, bytes)?, bandwidth::write(device, bytes)?);
    ensure!(read > 0.0 && read.is_finite() && write > 0.0 && write.is_finite(), "read {read}, write {write} bytes a second");
    if target.is_standin() {
        let written = bytes as f64 * LAUNCHES / STANDIN_SECONDS;
        ensure!([read, write] == [2.0 * written, written], "read {read}, write {write} instead of {written} bytes a second");
    }
    let empty = bandwidth::empty_launch(device)?;
    ensure!(empty.is_zero() != target.is_gpu(), "an empty launch takes {empty:?}");
    Ok(())
}

const GRID: Grid = Grid { blocks: [3, 1, 1], threads: [512, 1, 1], shared_bytes: 0 };

/// Vectors that three blocks take in four loads at once, and then some.
const VECTORS: usize = 3 * 512 * 4 + 700;

/// The sum of differences is not zero wherever the one byte that is not zero lies.
fn every_vector_of_both_blocks_is_read(Target { device, .. }: &Target) -> Result<()> {
    let (module, stream) = (own_kernel::load(device, "bandwidth.hip")?, Stream::new(device)?);
    for vector in [0, 1, 511, 512, 1536, 3 * 1536, 4 * 1536 - 1, 4 * 1536, VECTORS - 1] {
        for side in 0..2 {
            let mut blocks = [vec![0u8; VECTORS * 16], vec![0u8; VECTORS * 16]];
            blocks[side][vector * 16 + vector % 16] = 1;
            let [first, second] = blocks.map(|block| DeviceMem::from_slice(device, &block));
            let (first, second, mut seen) = (first?, second?, DeviceMem::from_slice(device, &[0i32])?);
            let [a, b] = [&first, &second].map(|block| block.as_tensor().as_ptr());
            let never = seen.tensor_mut(&[1])?.as_mut_ptr().cast();
            let mut argument = ReadTwo { a, b, bytes: VECTORS as u64 * 16, never };
            // SAFETY: the kernel takes this struct; both blocks have so many bytes, and all three live until the copy below, which comes after
            // the launch.
            unsafe { module.launch_raw(&stream, "read_two", GRID, &mut [(&raw mut argument).cast()])? };
            ensure!(seen.to_vec()? != [0], "vector {vector} of block {side} was not read");
        }
    }
    Ok(())
}

fn every_vector_is_written(Target { device, .. }: &Target) -> Result<()> {
    let (module, stream) = (own_kernel::load(device, "bandwidth.hip")?, Stream::new(device)?);
    // A tail of less than a vector stays.
    let before = vec![-1i32; VECTORS * 4 + 3];
    let mut memory = DeviceMem::from_slice(device, &before)?;
    let a = memory.tensor_mut(&[before.len()])?.as_mut_ptr();
    let mut argument = WriteOne { a, bytes: before.len() as u64 * 4, value: 7, unused: 0 };
    // SAFETY: the kernel takes this struct; the block has so many bytes and lives until the copy below, which comes after the launch.
    unsafe { module.launch_raw(&stream, "write_one", GRID, &mut [(&raw mut argument).cast()])? };
    let (found, end) = (memory.to_vec()?, VECTORS * 4);
    let wrong = (0..before.len()).find(|&i| found[i] != if i < end { 7 } else { before[i] });
    ensure!(wrong.is_none(), "word {wrong:?} of {}", before.len());
    Ok(())
}
