//! What a device's memory can do, measured: the ceilings that a speed should be quoted against.
//!
//! Numbers differ between machines of one kind and drift with clocks: take the ceiling in the same run as the speed.

use crate::device::host::HostAlloc;
use crate::device::{Backend, Device, DeviceBytes};
use crate::error::Result;
use crate::kernels::bandwidth as kernels;
use crate::parallel;
use crate::simd::{InstructionSet, Task, each};
use std::time::{Duration, Instant};

/// Runs of which the best counts, on the host.
const ROUNDS: usize = 7;
/// Words of one task on the host.
const PART: usize = 1 << 16;

/// Bytes per second at which `device` reads two blocks of `bytes` bytes each, by all cores or multiprocessors.
///
/// # Errors
/// No memory for the blocks, or a failed launch.
pub fn read(device: &Device, bytes: usize) -> Result<f64> {
    let took = match device.backend() {
        Backend::Host => read_on_host(bytes)?,
        Backend::Hip(gpu) => kernels::read_two(gpu, bytes)?,
    };
    Ok(2.0 * bytes as f64 / took.as_secs_f64())
}

fn read_on_host(bytes: usize) -> Result<Duration> {
    let (mut a, mut b) = (HostAlloc::new(bytes)?, HostAlloc::new(bytes)?);
    // Written, so that the pages exist.
    a.as_mut_slice().fill(1);
    b.as_mut_slice().fill(1);
    // A block is aligned to more than a word: what is no word is at its end.
    let [a, b] = [&a, &b].map(|block| bytemuck::pod_align_to::<u8, u64>(block.as_slice()).1);
    // With and without asking for memory ahead: which is faster depends on the processor.
    let set = InstructionSet::best();
    let read = |sum: &(dyn Fn(&[u64]) -> u64 + Sync)| {
        best(|| {
            parallel::for_each(a.len().min(b.len()).div_ceil(PART), &|part| {
                let of = |all: &[u64]| sum(&all[part * PART..all.len().min((part + 1) * PART)]);
                std::hint::black_box(of(a) ^ of(b));
            });
        })
    };
    Ok(read(&|words| set.run(Sum::<false>(words))).min(read(&|words| set.run(Sum::<true>(words)))))
}

/// Bytes per second at which `device` writes a block of `bytes` bytes.
///
/// # Errors
/// No memory for the block, or a failed launch.
pub fn write(device: &Device, bytes: usize) -> Result<f64> {
    let took = match device.backend() {
        Backend::Host => write_on_host(device, bytes)?,
        Backend::Hip(gpu) => kernels::write_one(gpu, bytes)?,
    };
    Ok(bytes as f64 / took.as_secs_f64())
}

fn write_on_host(device: &Device, bytes: usize) -> Result<Duration> {
    let mut block = DeviceBytes::new(device, bytes)?;
    // Written, so that the pages exist.
    block.set_zero()?;
    Ok(best(|| {
        // Whatever the block's size: set_zero writes all of it.
        let _ = block.set_zero();
    }))
}

/// The time of a launch that does nothing and a wait: the floor of every small operation. Zero on the host device.
///
/// # Errors
/// A failed launch.
pub fn empty_launch(device: &Device) -> Result<Duration> {
    let Backend::Hip(gpu) = device.backend() else { return Ok(Duration::ZERO) };
    let mut times = Vec::with_capacity(200);
    for _ in 0..200 {
        let start = Instant::now();
        gpu.blocking(|queue| kernels::nothing(queue))?;
        times.push(start.elapsed());
    }
    times.sort();
    Ok(times[times.len() / 2])
}

fn best(mut run: impl FnMut()) -> Duration {
    let once = |_| {
        let start = Instant::now();
        run();
        start.elapsed()
    };
    (0..ROUNDS).map(once).min().unwrap_or_default()
}

/// A reduction that costs next to nothing, so that memory is what is measured.
struct Sum<'a, const AHEAD: bool>(&'a [u64]);

impl<const AHEAD: bool> Task for Sum<'_, AHEAD> {
    type Output = u64;
    #[inline(always)]
    fn run(self) -> u64 {
        // One chain, of which the compiler makes several vectors.
        let sum = |words: &[u64]| {
            let mut sum = 0;
            for x in words {
                sum ^= x;
            }
            sum
        };
        if !AHEAD {
            return sum(self.0);
        }
        let (chunks, rest) = self.0.as_chunks::<16>();
        let mut lanes = [0u64; 16];
        for words in chunks {
            prefetch(words);
            each(&mut lanes, words, |lane, x| *lane ^= x);
        }
        sum(&lanes) ^ sum(rest)
    }
}

/// Asks for what lies 8 KiB behind two cache lines.
#[inline(always)]
fn prefetch(words: &[u64; 16]) {
    #[cfg(target_arch = "x86_64")]
    for line in [0, 8] {
        use std::arch::x86_64::_MM_HINT_T0;
        crate::simd::prefetch_line::<_MM_HINT_T0>(words.as_ptr().wrapping_add(1024 + line).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = words;
}
