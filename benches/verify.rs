//! Speed of the comparison on every device that opens, as a share of the read ceiling of that device, measured in the same run.
//!
//! `cargo bench --bench verify [ELEMENTS] [DEVICE] [PAIR ...] [LEVEL ...] [KIND ...] [--quick] [--single] [--pairs | --small]`: a device is `host` or `gpu:0`, without one it is all; a pair is `f16` or `f16:f32`; a level is `counts`, `all`, `histograms` or `explained`; a kind of data is `Nan1In1000`.
//! The default is 2^26 elements on the host and 2^30 (2^28 on a small one) on a GPU. Every pair is measured with every kind of data, and a line tells the slowest kind first, then the others; `--quick` has two
//! kinds. On a GPU eight comparisons are made in one call, and the end of one may overlap the beginning of the next; with `--single` each is a call of its own. Then, unless `--pairs`, layouts, small calls (with `--small` only these), what it costs to ask whether the comparison could fail, and PyTorch and NumPy where they are installed. Runs repeat and the best counts.

use hipverify::bandwidth;
use hipverify::device::{AsTensor, DeviceKind, Layout};
use hipverify::dtype::{Overflow, Rounding, next_up};
use hipverify::verify::{Explain, Options, Tolerance, gpu_reduce_max, gpu_verify_many};
use hipverify::{DType, Device, DeviceMem, Error, TensorRef};
use std::process::Command;
use std::time::{Duration, Instant};

/// Elements that are made; longer tensors repeat them.
const MADE: usize = 1 << 20;

const PAIRS: [(DType, DType); 18] = [
    (DType::F64, DType::F64),
    (DType::F32, DType::F32),
    (DType::F16, DType::F16),
    (DType::Bf16, DType::Bf16),
    (DType::F32, DType::F64),
    (DType::F16, DType::F64),
    (DType::F16, DType::F32),
    (DType::Bf16, DType::F32),
    (DType::F16, DType::Bf16),
    (DType::F8E4M3, DType::F32),
    (DType::F8E4M3, DType::F16),
    (DType::F8E4M3, DType::F8E4M3),
    (DType::F8E5M2, DType::F8E5M2),
    (DType::F4E2M1, DType::F4E2M1),
    (DType::I8, DType::I8),
    (DType::I32, DType::I32),
    (DType::I8, DType::I32),
    (DType::I32, DType::I64),
];

/// Kinds of data.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Uniform,
    ThirdUnrelated,
    GemmNoise,
    ReluZeros,
    Identical,
    OneStep,
    ZeroResult,
    /// Half of the references are zero, and few results are.
    UnrelatedToZeros,
    Nan1In1000,
}

const KINDS: [Kind; 9] = [
    Kind::Uniform,
    Kind::ThirdUnrelated,
    Kind::GemmNoise,
    Kind::ReluZeros,
    Kind::Identical,
    Kind::OneStep,
    Kind::ZeroResult,
    Kind::UnrelatedToZeros,
    Kind::Nan1In1000,
];

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let wanted = arguments.iter().find_map(|a| a.parse::<usize>().ok());
    let asked: Vec<(DType, DType)> = arguments.iter().filter_map(|a| pair(a)).collect();
    let of_kind: Vec<Kind> = KINDS.into_iter().filter(|kind| arguments.contains(&format!("{kind:?}"))).collect();
    let kinds = if arguments.iter().any(|a| a == "--quick") { &KINDS[1..3] } else { &KINDS[..] };
    let kinds = if of_kind.is_empty() { kinds } else { &of_kind };
    let chosen: Vec<&str> = LEVELS.into_iter().filter(|level| arguments.iter().any(|a| a == level)).collect();
    let levels = if chosen.is_empty() { LEVELS.to_vec() } else { chosen };
    let only_pairs = arguments.iter().any(|a| a == "--pairs");
    let only_small = arguments.iter().any(|a| a == "--small");
    let named: Vec<Device> = arguments.iter().filter_map(|a| Device::open(a).ok()).collect();
    for device in if named.is_empty() { Device::all() } else { named } {
        let gpu = device.kind() != DeviceKind::Host;
        // Large enough that beginning and ending count for little; on a small GPU less.
        let n = wanted.unwrap_or(match gpu {
            true if device.memory_info()?.0 >= 24 << 30 => 1 << 30,
            true => 1 << 28,
            false => 1 << 26,
        });
        let ceiling = bandwidth::read(&device, 4 * n)?;
        println!("{device}\n{:34} {:8.1} GB/s", "read ceiling", ceiling / 1e9);
        if only_small {
            small(&device)?;
            continue;
        }
        for (a, r) in if asked.is_empty() { PAIRS.to_vec() } else { asked.clone() } {
            compare(&device, (a, r), n, ceiling, kinds, &levels)?;
        }
        if only_pairs {
            continue;
        }
        layouts(&device, n, ceiling)?;
        power(&device, n)?;
        println!("{:34} {:8.1} GB/s", "read ceiling, again", bandwidth::read(&device, 4 * n)? / 1e9);
        small(&device)?;
    }
    if !only_pairs && !only_small {
        others();
    }
    Ok(())
}

fn pair(text: &str) -> Option<(DType, DType)> {
    let (a, r) = text.split_once(':').unwrap_or((text, text));
    Some((a.parse().ok()?, r.parse().ok()?))
}

/// The bytes of both tensors.
fn make(kind: Kind, [da, dr]: [DType; 2]) -> [Vec<u8>; 2] {
    let mut random = 1u64;
    let mut next = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        random >> 33
    };
    let mut unit = move || next() as f64 / (1u64 << 30) as f64 - 1.0;
    let scale = if dr.is_int() { 100.0 } else { 1.0 };
    let encode = |dtype: DType, x: f64| dtype.encode(x * scale, Rounding::NearestEven, Overflow::Saturate);
    let mut out = [da, dr].map(|d| vec![0; d.bytes_for(MADE).unwrap_or(0)]);
    for i in 0..MADE {
        let own = unit();
        let r = if [Kind::ReluZeros, Kind::UnrelatedToZeros].contains(&kind) { own.max(0.0) } else { own };
        let noise = (0..4).map(|_| unit()).sum::<f64>() * 1e-4;
        let reference = encode(dr, r);
        let same = encode(da, dr.decode(reference) / scale);
        let result = match kind {
            Kind::Uniform | Kind::UnrelatedToZeros => encode(da, unit()),
            Kind::ThirdUnrelated if i % 3 == 0 => encode(da, unit()),
            Kind::GemmNoise => encode(da, r + noise),
            Kind::ReluZeros => encode(da, (own + noise).max(0.0)),
            Kind::OneStep => next_up(da, same),
            Kind::ZeroResult => encode(da, 0.0),
            Kind::Nan1In1000 if i % 1000 == 7 && !da.is_int() => da.encode(f64::NAN, Rounding::NearestEven, Overflow::Ieee),
            _ => same,
        };
        da.store_bits(&mut out[0], i, result);
        dr.store_bits(&mut out[1], i, reference);
    }
    out
}

/// A tensor on the device that repeats `made` up to `n` elements.
fn upload(device: &Device, dtype: DType, made: &[u8], n: usize) -> Result<DeviceMem<u8>, Error> {
    let mut bytes = vec![0; dtype.bytes_for(n).unwrap_or(0)];
    bytes.chunks_mut(made.len()).for_each(|part| part.copy_from_slice(&made[..part.len()]));
    DeviceMem::from_slice(device, &bytes)
}

fn view(memory: &DeviceMem<u8>, dtype: DType, layout: Layout) -> Result<TensorRef<'_>, Error> {
    // SAFETY: `from_raw` checks that the layout lies in the buffer, which is borrowed and not written.
    unsafe { TensorRef::from_raw(memory.device(), memory.as_tensor().as_ptr(), memory.byte_size(), dtype, layout) }
}

const LEVELS: [&str; 4] = ["counts", "all", "histograms", "explained"];

/// What is asked of a comparison. Nothing is explained, but for the last: its time includes the second pass.
fn asked() -> [(&'static str, Options); 4] {
    let never = || Options::default().explain(Explain::Never);
    [
        ("counts and maxima", Options::counts().explain(Explain::Never)),
        ("all metrics", never()),
        ("with histograms", never().histograms(true)),
        ("all metrics, explained", Options::default().explain(Explain::Always).cause(false)),
    ]
}

fn compare(device: &Device, (a, r): (DType, DType), n: usize, ceiling: f64, kinds: &[Kind], levels: &[&str]) -> Result<(), Error> {
    let asked: Vec<(&str, Options)> =
        LEVELS.iter().zip(asked()).filter(|(level, _)| levels.contains(level)).map(|(_, asked)| asked).collect();
    let mut shares: Vec<Vec<(f64, Kind)>> = vec![Vec::new(); asked.len()];
    for &kind in kinds {
        let [result, reference] = make(kind, [a, r]);
        let (result, reference) = (upload(device, a, &result, n)?, upload(device, r, &reference, n)?);
        let pair = [view(&result, a, Layout::contiguous(&[n])?)?, view(&reference, r, Layout::contiguous(&[n])?)?];
        for ((_, options), shares) in asked.iter().zip(&mut shares) {
            shares.push((speed(device, &pair, options)? / ceiling, kind));
        }
    }
    for ((what, _), mut shares) in asked.into_iter().zip(shares) {
        shares.sort_by(|x, y| x.0.total_cmp(&y.0));
        let [slowest, others @ ..] = &shares[..] else { continue };
        let others: Vec<String> = others.iter().map(|(share, kind)| format!("{kind:?} {share:.2}")).collect();
        println!("{:34} {:.3} {:?}; {}", format!("{a} {r} {what}"), slowest.0, slowest.1, others.join(", "));
    }
    Ok(())
}

/// Bytes per second of a comparison.
fn speed(device: &Device, [result, reference]: &[TensorRef<'_>; 2], options: &Options) -> Result<f64, Error> {
    // On a GPU several comparisons in one call, so that launching and waiting do not count.
    let single = device.kind() == DeviceKind::Host || std::env::args().any(|a| a == "--single");
    let times = if single { 1 } else { 8 };
    let pairs = vec![(result.clone(), reference.clone(), Tolerance::new(1e-3, 1e-3)?); times];
    let took = best(device, || gpu_verify_many(&pairs, options).map(|_| ()))? / times as u32;
    let bytes = result.elements() * (result.dtype().bits() + reference.dtype().bits()) / 8;
    Ok(bytes as f64 / took.as_secs_f64())
}

/// Rows of a matrix that is part of a larger one, transposed, and the largest magnitude.
fn layouts(device: &Device, n: usize, ceiling: f64) -> Result<(), Error> {
    for dtype in [DType::F32, DType::F16] {
        let [result, reference] = make(Kind::GemmNoise, [dtype; 2]);
        let (result, reference) = (upload(device, dtype, &result, n)?, upload(device, dtype, &reference, n)?);
        let side = n.isqrt() / 8 * 8;
        // Rows a power of two apart, which may send all accesses to few channels of the memory, or few sets of a cache.
        let even = 1 << side.ilog2();
        let padded = Layout::strided(&[side, side - 8], &[side as isize, 1], 0)?;
        // Rows that are not aligned; in the second of these layouts neighbours also lie in two rows where a row ends.
        let apart = Layout::strided(&[side, side - 8], &[side as isize - 1, 1], 3)?;
        let odd = Layout::strided(&[side, side - 7], &[side as isize, 1], 3)?;
        let dense = Layout::contiguous(&[side, side - 8])?;
        let transposed = |side: usize| Layout::strided(&[side, side], &[1, side as isize], 0);
        let square = |side: usize| Layout::contiguous(&[side, side]);
        for (what, a, r) in [
            ("dense", &dense, &dense),
            ("rows padded by 8", &padded, &dense),
            ("both padded by 8", &padded, &padded),
            ("both padded by 7, a multiple of 8 long", &apart, &apart),
            ("both padded by 7", &odd, &odd),
            ("transposed result", &transposed(even)?, &square(even)?),
            ("transposed result, 8 elements less a row", &transposed(side - 8)?, &square(side - 8)?),
        ] {
            let pair = [view(&result, dtype, a.clone())?, view(&reference, dtype, r.clone())?];
            for (level, options) in &asked()[..2] {
                println!("{:34} {:.3} {level}", format!("{dtype} {what}"), speed(device, &pair, options)? / ceiling);
            }
        }
        let all = view(&reference, dtype, Layout::contiguous(&[n])?)?;
        let took = best(device, || gpu_reduce_max(&all).map(|_| ()))?;
        println!("{:34} {:.3}", format!("{dtype} reduce_max"), reference.byte_size() as f64 / took.as_secs_f64() / ceiling);
    }
    Ok(())
}

/// How many times as long a passing comparison of square matrices takes when it also says which broken results would have passed: the slowest kind of
/// data first, for a sharp tolerance, and for one that some broken results pass.
fn power(device: &Device, n: usize) -> Result<(), Error> {
    let side = n.isqrt();
    for (dtype, rtol) in [(DType::F32, 1e-6), (DType::F32, 0.3), (DType::F16, 1e-3), (DType::F16, 0.3)] {
        let mut times = Vec::new();
        for kind in ["Uniform", "ReluZeros", "nearly constant"] {
            let [_, mut reference] = make(if kind == "ReluZeros" { Kind::ReluZeros } else { Kind::Uniform }, [dtype; 2]);
            if kind == "nearly constant" {
                // Ones, of which every other has its last bit set.
                let one = dtype.encode(1.0, Rounding::NearestEven, Overflow::Saturate);
                (0..MADE).for_each(|i| dtype.store_bits(&mut reference, i, one + i as u64 % 2));
            }
            let reference = upload(device, dtype, &reference, side * side)?;
            let of = || view(&reference, dtype, Layout::contiguous(&[side, side])?);
            let pair = [(of()?, of()?, Tolerance::new(rtol, 0.0)?)];
            let [plain, asked] =
                [false, true].map(|power| best(device, || gpu_verify_many(&pair, &Options::default().power(power)).map(|_| ())));
            times.push((asked?.as_secs_f64() / plain?.as_secs_f64(), kind));
        }
        times.sort_by(|x, y| y.0.total_cmp(&x.0));
        let times: Vec<String> = times.iter().map(|(ratio, kind)| format!("{ratio:.2} {kind}")).collect();
        println!("{:34} {} of a plain comparison", format!("{dtype} power, rtol {rtol}"), times.join(", "));
    }
    Ok(())
}

/// Of some runs the fastest. A GPU rests before, for longer than it works: at its power limit, where it is after a second or so of this work, its
/// clock falls by up to a fifth, and what was measured last would look slow.
fn best(device: &Device, mut run: impl FnMut() -> Result<(), Error>) -> Result<Duration, Error> {
    if device.kind() != DeviceKind::Host {
        std::thread::sleep(Duration::from_millis(500));
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

/// Small calls, result included, on a GPU against an empty launch and wait.
fn small(device: &Device) -> Result<(), Error> {
    let floor = bandwidth::empty_launch(device)?;
    if !floor.is_zero() {
        println!("{:28} {:8.1} us", "empty launch and wait", floor.as_secs_f64() * 1e6);
    }
    for n in [1 << 10, 1 << 13, 1 << 16, 1 << 20] {
        let [result, reference] = make(Kind::ThirdUnrelated, [DType::F32; 2]);
        let (result, reference) = (upload(device, DType::F32, &result, n)?, upload(device, DType::F32, &reference, n)?);
        let flat = || Layout::contiguous(&[n]);
        let pairs = [(view(&result, DType::F32, flat()?)?, view(&reference, DType::F32, flat()?)?, Tolerance::new(1e-3, 1e-3)?)];
        for (what, options) in asked() {
            let mut times: Vec<Duration> = Vec::new();
            for _ in 0..300 {
                let start = Instant::now();
                let reports = gpu_verify_many(&pairs, &options)?;
                times.push(start.elapsed());
                drop(reports);
            }
            times.sort();
            let median = times[times.len() / 2].as_secs_f64();
            let launches =
                if floor.is_zero() { String::new() } else { format!("   {:.2} of an empty launch", median / floor.as_secs_f64()) };
            println!("{:28} {:8.1} us{launches}", format!("f32 {n} {what}"), median * 1e6);
        }
    }
    Ok(())
}

/// The same question to PyTorch (on its GPU if it has one) and NumPy, where Python has them.
fn others() {
    let torch = "import torch, time
device = 'cuda' if torch.cuda.is_available() else 'cpu'
def wait():
    if device == 'cuda': torch.cuda.synchronize()
for dtype in (torch.float32, torch.float16):
    r = torch.rand(1 << 26, device=device).to(dtype); a = r.clone(); best = 1e9
    for _ in range(5):
        wait(); t = time.perf_counter(); torch.allclose(a, r, 1e-3, 1e-3); wait(); best = min(best, time.perf_counter() - t)
    print(f'torch.allclose {dtype} on {device}: {2 * r.nbytes / best / 1e9:.1f} GB/s')";
    let numpy = "import numpy as np, time
for dtype in (np.float32, np.float16):
    r = np.random.rand(1 << 26).astype(dtype); a = r.copy(); best = 1e9
    for _ in range(3):
        t = time.perf_counter(); np.allclose(a, r, 1e-3, 1e-3); best = min(best, time.perf_counter() - t)
    print(f'numpy.allclose {np.dtype(dtype)}: {2 * r.nbytes / best / 1e9:.1f} GB/s')";
    for (name, script) in [("torch", torch), ("numpy", numpy)] {
        match Command::new("python3").args(["-c", script]).output() {
            Ok(done) if done.status.success() => print!("{}", String::from_utf8_lossy(&done.stdout)),
            _ => println!("{name} is not installed"),
        }
    }
}
