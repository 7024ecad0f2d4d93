//! Speed of fill on every device that opens, against the write ceiling of that device, measured in the same run.
//!
//! `cargo bench --bench fill [MEBIBYTES]`; the default, 1024 MiB on the host and 4096 on a GPU, is far beyond any cache. The host's ceiling is
//! the best of plain and of non-temporal stores by all threads, a GPU's that of a kernel that only writes; the best of several runs counts.

use hipverify::bandwidth;
use hipverify::device::DeviceKind;
use hipverify::dtype::{Bf16, Element, F8E4M3, F16};
use hipverify::fill::{FillCRand, FillNormalRand, FillSpec, FillUniformRand, FillUniformRandInteger, Generator};
use hipverify::{Device, DeviceMem, Error};
use rayon::prelude::*;
use std::time::Instant;

const ROUNDS: usize = 5;

fn main() -> Result<(), Error> {
    let wanted: Option<usize> = std::env::args().skip(1).find_map(|a| a.parse().ok());
    for device in Device::all() {
        let host = device.kind() == DeviceKind::Host;
        let mebibytes = wanted.unwrap_or(if host { 1024 } else { 4096 });
        let bytes = mebibytes << 20;
        println!("{mebibytes} MiB, {device}, best of {ROUNDS} runs");
        let ceiling = if host { ceiling(bytes) } else { bandwidth::write(&device, bytes)? / 1e9 };
        println!("{:34} {:8.2} GB/s", "write ceiling", ceiling);
        let uniform = FillUniformRand::new(-1.0, 1.0).seed(1).spec();
        fill::<f32>(&device, "uniform f32", &uniform, bytes, ceiling)?;
        fill::<f64>(&device, "uniform f64", &uniform, bytes, ceiling)?;
        fill::<F16>(&device, "uniform f16", &uniform, bytes, ceiling)?;
        fill::<Bf16>(&device, "uniform bf16", &uniform, bytes, ceiling)?;
        fill::<F8E4M3>(&device, "uniform f8e4m3", &uniform, bytes, ceiling)?;
        // The slower ones: a smaller buffer, still beyond the caches, tells as much.
        let less = bytes / 4;
        let integers = FillUniformRandInteger::new(-6, 6).spec();
        fill::<i32>(&device, "integers i32", &integers, less, ceiling)?;
        fill::<f32>(&device, "integers f32", &integers, less, ceiling)?;
        fill::<F16>(&device, "integers f16", &integers, less, ceiling)?;
        fill::<i8>(&device, "integers i8", &integers, less, ceiling)?;
        fill::<F8E4M3>(&device, "integers f8e4m3", &integers, less, ceiling)?;
        let normal = FillNormalRand::new(0.0, 1.0).spec();
        fill::<f32>(&device, "normal f32", &normal, less, ceiling)?;
        fill::<F16>(&device, "normal f16", &normal, less, ceiling)?;
        fill::<F8E4M3>(&device, "normal f8e4m3", &normal, less, ceiling)?;
        fill::<f32>(&device, "crand f32", &FillCRand::new(-1.0, 1.0).spec(), less, ceiling)?;
    }
    Ok(())
}

fn fill<T: Element>(device: &Device, what: &str, spec: &FillSpec, bytes: usize, ceiling: f64) -> Result<(), Error> {
    let mut memory = DeviceMem::<T>::new(device, bytes / size_of::<T>())?;
    memory.fill(spec)?;
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        memory.fill(spec)?;
        best = best.min(start.elapsed().as_secs_f64());
    }
    let speed = bytes as f64 / best / 1e9;
    println!("{what:34} {speed:8.2} GB/s   {:.2} of the ceiling", speed / ceiling);
    Ok(())
}

/// GB/s of the fastest way to write `bytes` bytes.
fn ceiling(bytes: usize) -> f64 {
    let mut memory = vec![0u64; bytes / 8];
    let mut best = f64::INFINITY;
    for round in 0..ROUNDS as u64 {
        for write in [plain as fn(&mut [u64], u64), streaming] {
            let start = Instant::now();
            memory.par_chunks_mut(1 << 17).for_each(|chunk| write(chunk, round));
            best = best.min(start.elapsed().as_secs_f64());
        }
    }
    std::hint::black_box(&memory);
    bytes as f64 / best / 1e9
}

fn plain(chunk: &mut [u64], value: u64) {
    chunk.fill(value);
}

#[cfg(target_arch = "x86_64")]
fn streaming(chunk: &mut [u64], value: u64) {
    for word in chunk {
        // SAFETY: SSE2 belongs to every x86-64, and the address is that of an exclusive borrow.
        unsafe { std::arch::x86_64::_mm_stream_si64(std::ptr::from_mut(word).cast(), value as i64) };
    }
    // SAFETY: SSE belongs to every x86-64; the fence takes no address.
    unsafe { std::arch::x86_64::_mm_sfence() };
}

#[cfg(not(target_arch = "x86_64"))]
fn streaming(chunk: &mut [u64], value: u64) {
    plain(chunk, value);
}
