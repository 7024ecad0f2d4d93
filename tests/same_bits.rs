//! The comparison gives the same bits on every device that opens: one host, and whatever GPUs there are.

use hipverify::device::{AsTensor, Device, DeviceKind, DeviceMem, Layout, TensorRef};
use hipverify::dtype::*;
use hipverify::verify::{Explain, Level, NonFinite, Options, Report, Tolerance, gpu_reduce_max, gpu_verify_with};

/// A small deterministic generator, so that this file needs no other part of the crate.
struct Lcg(u64);

impl Lcg {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 16
    }
}

/// `wild` in a thousand elements have any bit pattern; the others are near a common value.
fn bytes(dtype: DType, n: usize, seed: u64, wild: u64) -> Vec<u8> {
    let mut out = vec![0; dtype.bytes_for(n).expect("small")];
    let mut rng = Lcg(1);
    let mut own = Lcg(seed);
    for i in 0..n {
        let value = (rng.next() % 4001) as f64 / 500.0 - 4.0;
        let mut bits = dtype.encode(value, Rounding::NearestEven, Overflow::Saturate);
        let dice = own.next();
        if dice % 1000 < wild {
            bits = own.next() << 32 ^ own.next();
        } else if dice.is_multiple_of(3) {
            bits = next_up(dtype, bits);
        }
        dtype.store_bits(&mut out, i, bits & (u64::MAX >> (64 - dtype.bits())));
    }
    out
}

/// The report without what names the device, as text: every f64 to its last digit, and NaN equal to itself.
fn facts(mut report: Report) -> String {
    report.device.clear();
    report.why.clear();
    format!("{report:#?}")
}

/// Fails with the first line that differs.
fn assert_same(gpu: &str, host: &str, what: &str) {
    let differing = gpu.lines().zip(host.lines()).enumerate().find(|(_, (g, h))| g != h);
    assert!(gpu == host, "{what}: the GPU has, the host has: {differing:?}");
}

fn gpus() -> Vec<Device> {
    let gpus: Vec<Device> = Device::all().into_iter().skip(1).collect();
    if gpus.is_empty() {
        assert!(
            std::env::var_os("HIPVERIFY_REQUIRE").is_none(),
            "HIPVERIFY_REQUIRE is set and no GPU opens: {}",
            Device::best().map_or_else(|e| e.to_string(), |d| d.to_string())
        );
        println!("no GPU opens: the host is compared with itself");
        return vec![Device::host()];
    }
    gpus
}

/// Compares on the host and on every GPU, with `shift` bytes before the data.
fn check(da: DType, dr: DType, n: usize, wild: u64, options: &Options, shift: usize) {
    check_with(da, dr, n, wild, options, shift, [1e-3, 1e-3]);
}

/// Elements that are made; longer tensors repeat them.
const MADE: usize = 1_000_003;

fn check_with(da: DType, dr: DType, n: usize, wild: u64, options: &Options, shift: usize, tolerance: [f64; 2]) {
    let make = |dtype: DType, seed: u64| tile(dtype, n, bytes(dtype, n.min(MADE), seed, wild));
    compare([da, dr], n, [&make(da, 11), &make(dr, 12)], options, shift, tolerance, &format!("{wild} in 1000 wild"));
}

/// `made` again and again, up to `n` elements; of whole bytes.
fn tile(dtype: DType, n: usize, made: Vec<u8>) -> Vec<u8> {
    let size = dtype.bytes_for(n).expect("small");
    if size <= made.len() { made } else { made.iter().copied().cycle().take(size).collect() }
}

fn compare([da, dr]: [DType; 2], n: usize, [a, r]: [&[u8]; 2], options: &Options, shift: usize, [rtol, atol]: [f64; 2], what: &str) {
    let tolerance = Tolerance::new(rtol, atol).expect("valid");
    let on = |device: &Device| {
        let upload = |bytes: &[u8]| {
            let padded: Vec<u8> = std::iter::repeat_n(0u8, shift).chain(bytes.iter().copied()).collect();
            DeviceMem::<u8>::from_slice(device, &padded).expect("allocated")
        };
        let (ma, mr) = (upload(a), upload(r));
        let view = |m: &DeviceMem<u8>, dtype: DType| {
            let layout = Layout::contiguous(&[n]).expect("small");
            // SAFETY: the memory has `shift` bytes and then those of n elements, lives as long as the view is used, and is not written.
            unsafe { TensorRef::from_raw(device, m.as_tensor().as_ptr().add(shift), m.byte_size() - shift, dtype, layout).expect("inside") }
        };
        let of = |options: &Options| facts(gpu_verify_with(&view(&ma, da), &view(&mr, dr), &tolerance, options).expect("compared"));
        // Explained whatever the verdict, so that everything a report may have is compared.
        let explained = of(&options.clone().explain(Explain::Always));
        format!("{explained}\n{}\n{:?}", of(options), gpu_reduce_max(&view(&mr, dr)).expect("reduced"))
    };
    let host = on(&Device::host());
    for gpu in gpus() {
        let what = format!("{da} against {dr}, {n} elements, {what}, shifted by {shift}, rtol {rtol}, atol {atol}, {options:?}, on {gpu}");
        assert_same(&on(&gpu), &host, &what);
    }
}

#[test]
fn every_pair_of_formats() {
    for da in DType::ALL {
        for dr in DType::ALL {
            check(da, dr, 3001, 20, &Options::default(), 0);
        }
    }
}

/// More than any GPU compares by the kernels for small tensors, 2048 elements for each of up to 304 processors.
const LONG: usize = 700_001;

#[test]
fn every_format_at_many_sizes() {
    for dtype in DType::ALL {
        for n in [1, 2, 15, 16, 17, 1023, 4096, 4097, 70_001, LONG] {
            check(dtype, dtype, n, 1, &Options::default(), 0);
            check(dtype, dtype, n, 0, &Options::counts(), 0);
        }
    }
}

/// So long that groups of threads take several segments in a row, up to sixteen, and that not all take as many.
#[test]
fn long_tensors() {
    for (dtype, n) in [
        (DType::F64, 1 << 23),
        (DType::F32, 1 << 24),
        (DType::F16, (1 << 25) + 12_345),
        (DType::F8E4M3, 1 << 26),
        (DType::F64, (1 << 25) + 999),
    ] {
        check(dtype, dtype, n, 0, &Options::default(), 0);
    }
    check(DType::F32, DType::F32, (1 << 24) + 4_321, 1, &Options::default(), 0);
}

/// Bounds that 8-bit elements reach exactly, that no f16 number is near, and that are beyond f16.
#[test]
fn bytes_by_many_tolerances() {
    let tolerances = [
        [0.0, 0.0],
        [0.0, 1.0],
        [0.125, 0.0],
        [0.0, 0.25],
        [1e-6, 1e-7],
        [0.3, 0.007],
        [1.0, 1e-30],
        [600.0, 1.0],
        [0.0, 70_000.0],
        [1e30, 1e30],
    ];
    for dtype in [DType::F8E4M3, DType::F8E5M2, DType::F8E4M3Fnuz, DType::I8, DType::U8] {
        for tolerance in tolerances {
            for (n, wild) in [(40_001, 2), (LONG, 0), (LONG, 2), (LONG, 1000)] {
                check_with(dtype, dtype, n, wild, &Options::counts(), 0, tolerance);
            }
        }
    }
}

/// A kind of data as kernels have it: an element of the result and one of the reference.
fn element(kind: &str, da: DType, dr: DType, rng: &mut Lcg) -> [u64; 2] {
    let scale = if da.is_int() { 100.0 } else { 1.0 };
    let mut uniform = || scale * ((rng.next() % (1 << 24)) as f64 / f64::from(1 << 23) - 1.0);
    let (x, y) = (uniform(), uniform());
    // The least numbers that the result's format has.
    let little = da.float_format().map_or(1.0 / scale, |f| f.min_positive());
    let [result, reference] = match kind {
        "unrelated" => [x, y],
        "a third unrelated" => [if rng.next().is_multiple_of(3) { x } else { y }, y],
        "rounded otherwise" => [y * (1.0 + x * 1e-4), y],
        "noise" => [y + x * 1e-2, y],
        "a step away" | "two steps at most" => [y, y],
        "zeros" => [0.0, y],
        "little" => [x * 40.0 * little, y * 40.0 * little],
        "extreme" => [if x > 0.98 * scale { -scale * y.signum() } else { y }, y],
        other => unreachable!("{other}"),
    };
    let encode = |dtype: DType, v: f64| dtype.encode(v, Rounding::NearestEven, Overflow::Saturate);
    let mut bits = encode(da, result);
    for _ in 0..match kind {
        "a step away" => 1,
        "two steps at most" => rng.next() % 3,
        _ => 0,
    } {
        bits = next_up(da, bits);
    }
    [bits, encode(dr, reference)]
}

/// Both tensors of a kind of data, of `n` elements that repeat themselves.
fn tensors(kind: &str, [da, dr]: [DType; 2], n: usize) -> [Vec<u8>; 2] {
    let (made, mut rng) = (200_003, Lcg(5));
    let [mut a, mut r] = [da, dr].map(|d| vec![0; d.bytes_for(made).expect("small")]);
    for i in 0..made {
        let [x, y] = element(kind, da, dr, &mut rng);
        da.store_bits(&mut a, i, x);
        dr.store_bits(&mut r, i, y);
    }
    [tile(da, n, a), tile(dr, n, r)]
}

/// Data in which many elements tie with the worst, or come close to it: the kernels for long tensors look at few of them, those for small ones
/// search for few tolerances.
#[test]
fn kinds_of_data_by_some_tolerances() {
    let same = [DType::F64, DType::F32, DType::F16, DType::Bf16, DType::F8E4M3, DType::F8E5M2, DType::I8].map(|d| [d, d]);
    let mixed = [[DType::F16, DType::F32], [DType::Bf16, DType::F32]];
    let kinds = ["unrelated", "rounded otherwise", "noise", "a step away", "two steps at most", "zeros", "little", "extreme"];
    for [da, dr] in same.into_iter().chain(mixed) {
        for kind in kinds {
            for n in [20_003, LONG] {
                let [a, r] = tensors(kind, [da, dr], n);
                for tolerance in [[1e-3, 1e-3], [0.0, 1e-3], [1e-2, 0.0]] {
                    compare([da, dr], n, [&a, &r], &Options::default(), 0, tolerance, kind);
                }
            }
        }
    }
}

/// So long that blocks write their tables of what to look at again, once more is known, and that lines of short formats rise.
#[test]
fn tables_that_are_written_again() {
    if gpus()[0].kind() == DeviceKind::Host {
        println!("skipped: the host has no such tables");
        return;
    }
    for (dtype, n) in [
        (DType::F32, 1 << 24),
        (DType::F16, 1 << 25),
        (DType::Bf16, 1 << 25),
        (DType::F8E4M3, 1 << 26),
        (DType::F8E5M2, 1 << 26),
        (DType::I8, 1 << 26),
        (DType::U8, 1 << 26),
    ] {
        for (kind, tolerance) in [("a third unrelated", [1e-3, 1e-3]), ("a step away", [0.0, 1e-3]), ("extreme", [1e-2, 0.0])] {
            let [a, r] = tensors(kind, [dtype; 2], n + 77);
            compare([dtype; 2], n + 77, [&a, &r], &Options::default(), 0, tolerance, kind);
        }
    }
}

#[test]
fn options_and_odd_addresses() {
    let all = [DType::F64, DType::F32, DType::F16, DType::Bf16, DType::F8E4M3, DType::F8E5M2Fnuz, DType::I8, DType::I32, DType::F4E2M1];
    for dtype in all {
        for n in [20_011, LONG] {
            check(dtype, dtype, n, 500, &Options::default().histograms(true), 0);
            check(dtype, dtype, n, 900, &Options::default().nonfinite(NonFinite::EqualWhenSame).first(64), 0);
            check(dtype, dtype, n, 30, &Options::default().level(Level::Counts).first(0), 0);
            check(dtype, dtype, n, 30, &Options::default(), dtype.unit_bytes());
        }
    }
    for (da, dr) in [(DType::F16, DType::F32), (DType::Bf16, DType::F32), (DType::F16, DType::F64), (DType::I8, DType::I32)] {
        for n in [50_001, LONG] {
            check(da, dr, n, 30, &Options::default(), 0);
            check(da, dr, n, 30, &Options::default(), 8);
        }
    }
}

#[test]
fn padded_transposed_and_reversed_layouts() {
    let x: Vec<f32> = (0..40 * 50 * 6).map(|i| (i * 7 % 1013) as f32).collect();
    let layouts = [
        Layout::strided(&[6, 40, 47], &[2000, 50, 1], 2),
        Layout::strided(&[40, 6, 50], &[50, 2000, 1], 0),
        Layout::strided(&[50, 40, 6], &[1, 50, 2000], 0),
        Layout::strided(&[6, 40, 50], &[-2000, 50, -1], 5 * 2000 + 49),
        Layout::strided(&[3, 40, 50], &[0, 50, 1], 0),
    ];
    for layout in layouts.map(|l| l.expect("inside")) {
        let on = |device: &Device| {
            let a = DeviceMem::from_slice(device, &x).expect("allocated");
            let dense: Vec<f32> = (0..layout.elements()).map(|i| x[layout.index(i)] + if i % 977 == 5 { 0.5 } else { 0.0 }).collect();
            let r = DeviceMem::from_slice(device, &dense).expect("allocated");
            let (a, r) = (a.strided(layout.clone()).expect("inside"), r.tensor(layout.shape()).expect("fits"));
            facts(gpu_verify_with(&a, &r, &Tolerance::exact(), &Options::default()).expect("compared"))
        };
        let host = on(&Device::host());
        assert!(host.contains("passed: false"), "{layout:?} has differences");
        for gpu in gpus() {
            assert_same(&on(&gpu), &host, &format!("{layout:?} on {gpu}"));
        }
    }
}
