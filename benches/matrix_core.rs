//! Multiply-adds per second of the matrix-core models on one core, beside the f32 fma ceiling of the same run.

use hipverify::dtype::{Bf16, DType, F8E4M3Fnuz, F16, Overflow, Rounding, Scalar};
use hipverify::matrix_core::{Arch, Input, Model, gemm_tile};
use hipverify::reference::model_gemm;
use hipverify::{Device, DeviceMem};
use std::hint::black_box;
use std::time::Instant;

const M: usize = 192;
const N: usize = 256;
const K: usize = 512;

fn main() {
    // `cargo test --benches` runs this too; once is enough there.
    let rounds = if std::env::args().any(|a| a == "--bench") { 20 } else { 1 };
    let ceiling = fma_ceiling(rounds);
    println!("one core, C = {M} x {N}, K = {K}, best of {rounds}");
    println!("{:<44} {:>8.2} G multiply-adds/s", "f32 fma in registers, nothing else", ceiling);
    let uniform = |scale: f64| move |i: usize| (mix(i) as f64 / (1u64 << 63) as f64 - 1.0) * scale;
    for (arch, input) in [
        (Arch::Gfx908, Input::F16),
        (Arch::Gfx908, Input::Bf16),
        (Arch::Gfx90a, Input::F16),
        (Arch::Gfx90a, Input::Bf16),
        (Arch::Gfx90a, Input::Bf16K),
        (Arch::Gfx90a, Input::F32),
        (Arch::Gfx942, Input::F16),
        (Arch::Gfx942, Input::Bf16),
        (Arch::Gfx942, Input::Xf32),
        (Arch::Gfx942, Input::Fp8Fp8),
        (Arch::Sm80, Input::F16),
        (Arch::Sm90, Input::F16),
        (Arch::Sm90, Input::Fp8Fp8),
    ] {
        let Ok(model) = Model::new(arch, input) else { continue };
        report(model, "uniform in [-1, 1]", rounds, ceiling, uniform(1.0));
    }
    for (arch, input) in [(Arch::Gfx908, Input::F16), (Arch::Gfx90a, Input::F16), (Arch::Gfx90a, Input::Bf16K)] {
        let Ok(model) = Model::new(arch, input) else { continue };
        report(model, "uniform in [-1000, 1000]", rounds, ceiling, uniform(1000.0));
        report(model, "integers from -2 to 2, and 2^-14", rounds, ceiling, |i| {
            if i % 97 == 0 { 2f64.powi(-14) } else { (mix(i) % 5) as f64 - 2.0 }
        });
    }
    for device in Device::all().into_iter().filter(|d| d.kind() != hipverify::device::DeviceKind::Host) {
        for (arch, input) in [
            (Arch::Gfx908, Input::F16),
            (Arch::Gfx908, Input::Bf16),
            (Arch::Gfx90a, Input::F16),
            (Arch::Gfx90a, Input::Bf16),
            (Arch::Gfx90a, Input::Bf16K),
            (Arch::Gfx942, Input::F16),
            (Arch::Gfx942, Input::Bf16),
            (Arch::Gfx942, Input::Xf32),
            (Arch::Gfx942, Input::Fp8Fp8),
        ] {
            // Numbers for which the short forms are right, and numbers over so many binades that they are not.
            for (data, spread) in [("[-1, 1]", 0), ("27 binades", 13)] {
                let done = Model::new(arch, input).and_then(|model| match model.input().dtypes().0 {
                    DType::F16 => report_gpu::<F16>(&device, model, data, spread, rounds),
                    DType::Bf16 => report_gpu::<Bf16>(&device, model, data, spread, rounds),
                    DType::Tf32 => report_gpu::<f32>(&device, model, data, spread, rounds),
                    _ => report_gpu::<F8E4M3Fnuz>(&device, model, data, spread, rounds),
                });
                if let Err(e) = done {
                    println!("{arch} {input} on {}: {e}", device.name());
                }
            }
        }
    }
}

/// The model GEMM at 4096^3 on a GPU.
fn report_gpu<T: Scalar>(device: &Device, model: Model, data: &str, spread: i32, rounds: usize) -> hipverify::Result<()> {
    const SIDE: usize = 4096;
    let number = |i: usize| {
        let scale = 2f64.powi(if spread > 0 { (mix(i + 7) % (2 * spread as u64 + 1)) as i32 - spread } else { 0 });
        let x = (mix(i) as f64 / (1u64 << 63) as f64 - 1.0) * scale;
        T::from_bits64(T::DTYPE.encode(x, Rounding::NearestEven, Overflow::Saturate))
    };
    let mut c = DeviceMem::<f32>::new(device, SIDE * SIDE)?;
    let a = DeviceMem::from_slice(device, &(0..SIDE * SIDE).map(number).collect::<Vec<T>>())?;
    let mut best = f64::INFINITY;
    for _ in 0..rounds.min(5) {
        c.set_zero()?;
        let start = Instant::now();
        model_gemm(model, (SIDE, SIDE, SIDE), &a, &a, &mut c)?;
        best = best.min(start.elapsed().as_secs_f64());
    }
    let rate = (SIDE * SIDE * SIDE) as f64 / best / 1e9;
    println!("{:<44} {rate:>8.0} G multiply-adds/s", format!("{model}, {data}, 4096^3 on {}", device.name()));
    Ok(())
}

fn report(model: Model, data: &str, rounds: usize, ceiling: f64, value: impl Fn(usize) -> f64) {
    let (ta, tb) = model.input().dtypes();
    let tensor = |t: DType, count: usize, from: usize| -> Vec<f32> {
        (from..from + count).map(|i| t.decode(t.encode(value(i), Rounding::NearestEven, Overflow::Saturate)) as f32).collect()
    };
    let (a, b) = (tensor(ta, M * K, 0), tensor(tb, K * N, M * K));
    let mut best = f64::INFINITY;
    for _ in 0..rounds {
        let mut c = vec![0.0; M * N];
        let start = Instant::now();
        gemm_tile(model, M, N, K, &a, K, &b, N, &mut c, N);
        best = best.min(start.elapsed().as_secs_f64());
        black_box(c);
    }
    let rate = (M * N * K) as f64 / best / 1e9;
    println!("{:<44} {rate:>8.2} G multiply-adds/s {:>6.1} % of the ceiling", format!("{model}, {data}"), rate / ceiling * 100.0);
}

/// splitmix64.
fn mix(i: usize) -> u64 {
    let z = (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// Independent chains of fused multiply-adds in registers.
fn fma_ceiling(rounds: usize) -> f64 {
    const LANES: usize = 128;
    const STEPS: usize = 200_000;
    #[inline(always)]
    fn chains(x: f32) -> [f32; LANES] {
        let mut acc = [x; LANES];
        for _ in 0..STEPS {
            for a in &mut acc {
                *a = a.mul_add(x, x);
            }
        }
        acc
    }
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,fma")]
    fn avx512(x: f32) -> [f32; LANES] {
        chains(x)
    }
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    fn avx2(x: f32) -> [f32; LANES] {
        chains(x)
    }
    let run = |x: f32| {
        #[cfg(target_arch = "x86_64")]
        {
            if std::arch::is_x86_feature_detected!("avx512f") && std::arch::is_x86_feature_detected!("fma") {
                // SAFETY: the features that the function is compiled for were just found on this machine.
                return unsafe { avx512(x) };
            }
            if std::arch::is_x86_feature_detected!("avx2") && std::arch::is_x86_feature_detected!("fma") {
                // SAFETY: the features that the function is compiled for were just found on this machine.
                return unsafe { avx2(x) };
            }
        }
        chains(x)
    };
    let mut best = f64::INFINITY;
    for _ in 0..rounds {
        let start = Instant::now();
        black_box(run(black_box(0.999)));
        best = best.min(start.elapsed().as_secs_f64());
    }
    (LANES * STEPS) as f64 / best / 1e9
}
