//! Speed of the comparison on every device that opens, against the read ceiling of that device, measured in the same run.
//!
//! `cargo bench --bench verify [ELEMENTS] [FORMAT]`; the default is 2^26 elements on the host and 2^30 (2^28 on a small one) on a
//! GPU, where 16-bit formats get twice and 8-bit ones four times as many. Both tensors differ in a third of their elements; runs
//! repeat and the best counts.

use hipverify::device::{AsTensor, TensorMut, bandwidth};
use hipverify::fill::{FillUniformRand, Generator, fill};
use hipverify::verify::{Options, Tolerance, gpu_reduce_max, gpu_verify_many};
use hipverify::{DType, Device, DeviceMem, Error};
use std::time::{Duration, Instant};

fn main() -> Result<(), Error> {
    let wanted = std::env::args().skip(1).find_map(|a| a.parse::<usize>().ok());
    let only: Option<DType> = std::env::args().skip(1).find_map(|a| a.parse().ok());
    for device in Device::all() {
        let gpu = device.kind() != hipverify::device::DeviceKind::Host;
        // Large enough that beginning and ending count for little; on a small GPU less.
        let n = wanted.unwrap_or(match gpu {
            true if device.memory_info()?.0 >= 24 << 30 => 1 << 30,
            true => 1 << 28,
            false => 1 << 26,
        });
        let ceiling = bandwidth::read(&device, 4 * n)?;
        println!("{device}\n{:28} {:8.1} GB/s", "read ceiling", ceiling / 1e9);
        let pairs = [
            (DType::F64, DType::F64),
            (DType::F32, DType::F32),
            (DType::F16, DType::F16),
            (DType::Bf16, DType::Bf16),
            (DType::F16, DType::F32),
            (DType::F8E4M3, DType::F8E4M3),
            (DType::F8E5M2, DType::F8E5M2),
            (DType::I8, DType::I8),
        ];
        for (a, r) in pairs.into_iter().filter(|(a, _)| only.is_none_or(|o| o == *a)) {
            // On a GPU as many bytes of short formats as of f32: beginning and ending count less.
            let n = if gpu { n * (32 / a.bits()).max(1) } else { n };
            compare(&device, a, r, n, ceiling)?;
        }
        println!("{:28} {:8.1} GB/s", "read ceiling, again", bandwidth::read(&device, 4 * n)? / 1e9);
        if gpu {
            small(&device)?;
        }
    }
    Ok(())
}

/// A tensor of `n` elements in [-1, 1], every third of stream 1 and the others of stream 0.
fn make(device: &Device, dtype: DType, n: usize, mixed: bool) -> Result<DeviceMem<u8>, Error> {
    let mut bytes = DeviceMem::<u8>::new(device, dtype.bytes_for(n).unwrap_or(usize::MAX))?;
    let range = if dtype.is_int() { FillUniformRand::new(-100.0, 100.0) } else { FillUniformRand::new(-1.0, 1.0) };
    let size = bytes.byte_size();
    // From an exclusive borrow: this memory is about to be written.
    let address = bytes.tensor_mut(&[size])?.as_mut_ptr();
    let all = hipverify::device::Layout::contiguous(&[n])?;
    // SAFETY: the buffer is exclusively ours, has this size, and is zeroed or written before it is read.
    fill(&mut unsafe { TensorMut::from_raw(device, address, size, dtype, all)? }, &range.clone().seed(1).spec())?;
    if mixed {
        let third = hipverify::device::Layout::strided(&[n / 3], &[3], 0)?;
        // SAFETY: the first tensor is gone, so that the buffer is exclusively ours again; the layout spans a third of its elements by steps of three.
        fill(&mut unsafe { TensorMut::from_raw(device, address, size, dtype, third)? }, &range.seed(1).stream(1).spec())?;
    }
    Ok(bytes)
}

fn compare(device: &Device, a: DType, r: DType, n: usize, ceiling: f64) -> Result<(), Error> {
    let (result, reference) = (make(device, a, n, true)?, make(device, r, n, false)?);
    let view = |m: &DeviceMem<u8>, dtype| {
        let layout = hipverify::device::Layout::contiguous(&[n])?;
        // SAFETY: the buffer has n elements of this format and is not written while the view lives.
        unsafe { hipverify::TensorRef::from_raw(device, m.as_tensor().as_ptr(), m.byte_size(), dtype, layout) }
    };
    let bytes = (result.byte_size() + reference.byte_size()) as f64;
    // On a GPU several comparisons in one call, so that launching and waiting do not count.
    let times = if device.kind() == hipverify::device::DeviceKind::Host { 1 } else { 8 };
    let pair = (view(&result, a)?, view(&reference, r)?, Tolerance::new(1e-3, 1e-3)?);
    let pairs = vec![pair; times];
    for (what, options) in [("counts and maxima", Options::counts()), ("all metrics", Options::default())] {
        let took = best(device, || gpu_verify_many(&pairs, &options).map(|_| ()))? / times as u32;
        let speed = bytes / took.as_secs_f64();
        println!("{:28} {:8.1} GB/s   {:.3} of the ceiling", format!("{a} {r} {what}"), speed / 1e9, speed / ceiling);
    }
    if a == r {
        let took = best(device, || gpu_reduce_max(&view(&reference, r)?).map(|_| ()))?;
        let speed = reference.byte_size() as f64 / took.as_secs_f64();
        println!("{:28} {:8.1} GB/s   {:.3} of the ceiling", format!("{r} reduce_max"), speed / 1e9, speed / ceiling);
    }
    Ok(())
}

/// Of some runs the fastest. A GPU rests before: at its power limit, where it is after a second or so of this work, its clock falls by up to
/// a fifth, and what was measured last would look slow.
fn best(device: &Device, mut run: impl FnMut() -> Result<(), Error>) -> Result<Duration, Error> {
    if device.kind() != hipverify::device::DeviceKind::Host {
        std::thread::sleep(Duration::from_secs(2));
    }
    run()?;
    let mut least = Duration::MAX;
    for _ in 0..7 {
        let start = Instant::now();
        run()?;
        least = least.min(start.elapsed());
    }
    Ok(least)
}

/// Small calls, result included, against an empty launch and wait.
fn small(device: &Device) -> Result<(), Error> {
    let floor = bandwidth::empty_launch(device)?;
    println!("{:28} {:8.1} us", "empty launch and wait", floor.as_secs_f64() * 1e6);
    for n in [1 << 10, 1 << 13, 1 << 16, 1 << 20] {
        let (a, r) = (make(device, DType::F32, n, true)?, make(device, DType::F32, n, false)?);
        let layout = hipverify::device::Layout::contiguous(&[n])?;
        // SAFETY: both buffers have n f32 elements and are not written while the views live.
        let view = |m: &DeviceMem<u8>| unsafe {
            hipverify::TensorRef::from_raw(device, m.as_tensor().as_ptr(), m.byte_size(), DType::F32, layout.clone())
        };
        let pairs = [(view(&a)?, view(&r)?, Tolerance::new(1e-3, 1e-3)?)];
        for (what, options) in [("counts", Options::counts().first(0)), ("all metrics", Options::default())] {
            let mut times: Vec<Duration> = Vec::new();
            for _ in 0..300 {
                let start = Instant::now();
                let reports = gpu_verify_many(&pairs, &options)?;
                times.push(start.elapsed());
                drop(reports);
            }
            times.sort();
            let median = times[times.len() / 2].as_secs_f64();
            println!("{:28} {:8.1} us   {:.2} of an empty launch", format!("f32 {n} {what}"), median * 1e6, median / floor.as_secs_f64());
        }
    }
    Ok(())
}
