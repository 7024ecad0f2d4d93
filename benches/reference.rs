//! Speed of the references: f64 GEMM beside `matrixmultiply`, convolutions through every chain of the replay, GEMMs on GPUs.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use hipverify::dtype::F16;
use hipverify::matrix_core::{Arch, Input, Model};
use hipverify::reference::{Accumulate, Conv, ConvParam, Direction, Gemm, Role};
use hipverify::{Device, DeviceMem};
use std::hint::black_box;

/// Numbers of a few exponents.
fn numbers(len: usize) -> impl Iterator<Item = f64> {
    (0..len).map(|i| ((i * 7919) % 2003) as f64 / 1001.5 - 1.0)
}

fn dgemm(c: &mut Criterion) {
    let n = 1024;
    let host = Device::host();
    let values: Vec<f64> = numbers(n * n).collect();
    let a = DeviceMem::from_slice(&host, &values).expect("memory");
    let mut d = DeviceMem::<f64>::new(&host, n * n).expect("memory");
    let mut group = c.benchmark_group("dgemm 1024, multiply-adds");
    group.sample_size(10).throughput(Throughput::Elements((n * n * n) as u64));
    // One thread each: matrixmultiply has no more by default.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("threads");
    group.bench_function("reference, one thread", |b| {
        pool.install(|| {
            b.iter(|| {
                let (x, mut to) = (a.tensor(&[n, n]).expect("shape"), d.tensor_mut(&[n, n]).expect("shape"));
                Gemm::new(Accumulate::F64).run(&x, &x, &mut to).expect("shapes fit");
            });
        });
    });
    let mut out = vec![0.0f64; n * n];
    group.bench_function("matrixmultiply", |b| {
        b.iter(|| {
            let (rows, x) = (n as isize, values.as_ptr());
            // SAFETY: all three matrices are n x n, row-major, and `out` overlaps neither operand.
            unsafe { matrixmultiply::dgemm(n, n, n, 1.0, x, rows, 1, x, rows, 1, 0.0, out.as_mut_ptr(), rows, 1) };
            black_box(&mut out);
        });
    });
    group.finish();
}

fn forward(c: &mut Criterion) {
    // A 3x3 layer of ResNet-50.
    let param: ConvParam = "2 1 8 128 128 3 3 28 28 1 1 1 1 1 1 1 1".parse().expect("a convolution");
    let host = Device::host();
    let tensor = |role| {
        let values: Vec<F16> = numbers(param.elements(role)).map(F16::from_f64).collect();
        DeviceMem::from_slice(&host, &values).expect("memory")
    };
    let (x, w) = (tensor(Role::Input), tensor(Role::Filter));
    let mut y = DeviceMem::<F16>::new(&host, param.elements(Role::Output)).expect("memory");
    let mut group = c.benchmark_group("forward convolution, multiply-adds, all threads");
    group.sample_size(10).throughput(Throughput::Elements(param.macs() as u64));
    let core = |arch| Accumulate::MatrixCore(Model::new(arch, Input::F16).expect("an f16 core"));
    for mode in Accumulate::PLAIN.into_iter().chain([core(Arch::Gfx90a), core(Arch::Gfx908)]) {
        let conv = Conv::new(param.clone(), Direction::Forward, mode);
        group.bench_function(BenchmarkId::from_parameter(mode), |b| {
            b.iter(|| {
                let mut to = y.tensor_mut(&param.shape(Role::Output)).expect("shape");
                conv.run(&x, &w, &mut to).expect("shapes fit");
            });
        });
    }
    group.finish();
}

/// A GEMM with everything on a GPU.
fn on_gpus(c: &mut Criterion) {
    let n = 4096;
    for device in Device::all().into_iter().skip(1) {
        let values: Vec<F16> = numbers(n * n).map(F16::from_f64).collect();
        let a = DeviceMem::from_slice(&device, &values).expect("memory");
        let mut d = DeviceMem::<F16>::new(&device, n * n).expect("memory");
        let mut group = c.benchmark_group(format!("f16 GEMM 4096 on {}, multiply-adds", device.name()));
        group.sample_size(10).throughput(Throughput::Elements((n * n * n) as u64));
        let core = |arch| Accumulate::MatrixCore(Model::new(arch, Input::F16).expect("an f16 core"));
        for mode in Accumulate::PLAIN.into_iter().chain([Arch::Gfx908, Arch::Gfx90a, Arch::Gfx942].map(core)) {
            group.bench_function(BenchmarkId::from_parameter(mode), |b| {
                b.iter(|| {
                    let (x, mut to) = (a.tensor(&[n, n]).expect("shape"), d.tensor_mut(&[n, n]).expect("shape"));
                    Gemm::new(mode).run(&x, &x, &mut to).expect("shapes fit");
                });
            });
        }
        group.finish();
    }
}

criterion_group!(benches, dgemm, forward, on_gpus);
criterion_main!(benches);
