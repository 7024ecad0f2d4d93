//! The behaviour that users of Composable Kernel's `gpu_verify` rely on, case by case, and what its tests leave open.
//!
//! Two tables, one line a case with the reason for it. Random data depend on
//! `HIPVERIFY_TEST_SEED` (12345 if it is not set), so that other data can be tried without a rebuild.

use crate::suite::tests;
use crate::target::Target;
use anyhow::{Result, bail, ensure};
use hipverify::device::Layout;
use hipverify::dtype::{Bf16, DType, Element, F4x2, F8E4M3, F8E5M2, F16, I4x2, Scalar};
use hipverify::fill::FillUniformRand;
use hipverify::verify::{Explain, Judge, Metric, NonFinite, Options, Report, Thresholds, Tolerance, Value, Verdict, Warning};
use hipverify::verify::{absolute_threshold, gpu_reduce_max, gpu_verify, gpu_verify_with, relative_threshold};
use hipverify::{Device, DeviceMem, Error, Stream};

tests! {
    All: ported_cases, cases_that_were_open;
}

/// What is tested, why, and the test.
struct Case {
    name: &'static str,
    why: &'static str,
    run: fn(&Device) -> Result<()>,
}

fn case(name: &'static str, why: &'static str, run: fn(&Device) -> Result<()>) -> Case {
    Case { name, why, run }
}

/// More than one pass of any grid: 2^16 elements for each multiprocessor, which has 2048 threads or fewer that take up to 16 elements at a time.
fn large(device: &Device) -> usize {
    device.multiprocessors() << 16
}

#[rustfmt::skip] // one line a case
fn ported() -> Vec<Case> {
    use DType::{Bf16 as BF, F16 as H, F32 as F, I8, I16, I32};
    vec![
        // Basic.
        case("identical f32", "equal data pass at tolerance 0", |d| same::<f32>(d, 1024, 1.0)),
        case("unrelated f32", "other data fail", |d| expect(false, &random_pair::<f32>(d, 1024, 1.0, &Tolerance::exact())?)),
        case("1.01 for 1.0 at 0.02", "inside both tolerances", |d| constant(d, 1024, 1.01, 1.0, 0.02, 0.02, true)),
        case("1.1 for 1.0 at 0.01", "outside both tolerances", |d| constant(d, 1024, 1.1, 1.0, 0.01, 0.01, false)),
        // Types.
        case("identical f16", "a 16-bit float is read as what it is", |d| same::<F16>(d, 1024, 1.0)),
        case("identical bf16", "the other 16-bit float", |d| same::<Bf16>(d, 1024, 1.0)),
        case("identical i8", "integers take the same path", |d| same::<i8>(d, 1024, 100.0)),
        case("identical i16", "integers take the same path", |d| same::<i16>(d, 1024, 1e3)),
        case("identical i32", "integers take the same path", |d| same::<i32>(d, 1024, 1e4)),
        // Tolerances.
        case("rtol", "1 % off passes at 2 % and fails at 0.5 %", |d| both(d, 101.0, 100.0, (0.02, 0.0), (0.005, 0.0))),
        case("atol", "near zero only atol helps", |d| both(d, 0.001, 0.0, (0.0, 0.002), (0.0, 0.0005))),
        case("derived, f32", "a derived tolerance accepts equality", derived_same::<f32>),
        case("derived, f16", "a derived tolerance accepts equality", derived_same::<F16>),
        case("derived, 1 and 1000 sums", "rtol grows with the number of sums", accumulations_loosen),
        // Edges.
        case("one element", "less than any block", |d| constant(d, 1, 42.0, 42.0, 0.0, 0.0, true)),
        case("many elements", "more than one pass of any grid", |d| constant(d, large(d), 1.0, 1.0, 0.0, 0.0, true)),
        case("1e36", "no square overflows on the way to the verdict", |d| constant(d, 1024, 1e36, 1e36, 1e-5, 0.0, true)),
        case("1e-36", "nothing underflows on the way to the verdict", |d| constant(d, 1024, 1e-36, 1e-36, 1e-5, 1e-38, true)),
        case("alternating signs", "differences, not sums of magnitudes", alternating),
        // Largest magnitude.
        case("max f32", "exactly the host's", |d| reduce::<f32>(d, 1024, 1.0)),
        case("max f16", "exactly the host's", |d| reduce::<F16>(d, 1024, 1.0)),
        case("max bf16", "exactly the host's", |d| reduce::<Bf16>(d, 1024, 1.0)),
        case("max i8", "exactly the host's", |d| reduce::<i8>(d, 1024, 100.0)),
        case("max of one", "|-42.5| is 42.5", |d| max_is(d, &[-42.5], 42.5)),
        case("max of many", "more than one pass of any grid", |d| reduce::<f32>(d, large(d), 1.0)),
        case("max, all negative", "the start value is no candidate", |d| max_is(d, &[-5.0, -2.0, -7.5, -1.0], 7.5)),
        case("max, mixed signs", "magnitude, not value", |d| max_is(d, &[3.0, -8.25, 8.0, -0.5], 8.25)),
        // Derived rtol.
        case("rtol of integers", "integers are exact", |_| zero(&[(I8, I8, I32), (I16, I16, I16), (I32, I32, I32)])),
        case("rtol of f32", "neither nothing nor everything", |_| unit_range(F)),
        case("rtol of f16", "neither nothing nor everything", |_| unit_range(H)),
        case("rtol of bf16", "neither nothing nor everything", |_| unit_range(BF)),
        case("rtol grows with sums", "1, 10, 100, 1000 sums", |_| monotone(&[1, 10, 100, 1000])),
        case("rtol of mixed formats", "the coarsest decides", |_| check(relative_threshold(H, F, F, 1), 2f64.powi(-11))),
        // End to end.
        case("f32 256x256", "a result with small errors in some places", |d| sprinkled::<f32>(d, 256, 100, 1e-5)),
        case("f16 128x128", "a result with small errors in some places", |d| sprinkled::<F16>(d, 128, 50, 1e-3)),
        case("unrelated, derived", "a wrong kernel fails", |d| expect(false, &random_pair::<f32>(d, 1024, 1.0, &gemm::<f32>(1))?)),
    ]
}

#[rustfmt::skip] // one line a case
fn added() -> Vec<Case> {
    use DType::{F16 as H, F32 as F, F8E4M3 as E4, I4};
    const NAN: f64 = f64::NAN;
    const INF: f64 = f64::INFINITY;
    vec![
        // Not finite.
        case("NaN in the result", "a NaN is never close", |d| nonfinite(d, NAN, 1.0, [false, false])),
        case("NaN in the reference", "a NaN is never close", |d| nonfinite(d, 1.0, NAN, [false, false])),
        case("NaN in both", "passes only for whoever asks", |d| nonfinite(d, NAN, NAN, [false, true])),
        case("+inf in the result", "no finite tolerance covers it", |d| nonfinite(d, INF, 1.0, [false, false])),
        case("-inf in the result", "no finite tolerance covers it", |d| nonfinite(d, -INF, 1.0, [false, false])),
        case("inf in the reference", "rtol x inf must not admit all", |d| nonfinite(d, 1.0, INF, [false, false])),
        case("+inf in both", "passes only for whoever asks", |d| nonfinite(d, INF, INF, [false, true])),
        case("+inf for -inf", "the sign counts", |d| nonfinite(d, INF, -INF, [false, false])),
        case("NaN for inf", "the class counts", |d| nonfinite(d, NAN, INF, [false, false])),
        case("inf under a derived tolerance", "atol must not become infinite", infinite_reference_stays_local),
        case("max with NaN and inf", "counted, not swallowed", max_counts_nonfinite),
        // Zeros and subnormals.
        case("-0 for +0", "zeros are equal", |d| constant(d, 300, -0.0, 0.0, 0.0, 0.0, true)),
        case("least f32 for 0", "subnormals are not flushed", |d| pair::<f32>(d, 1e-45, 0.0, false)),
        case("f32 subnormals differ", "nor both flushed to one", |d| pair::<f32>(d, 3e-45, 1e-45, false)),
        case("f16 subnormals differ", "nor in 16 bits", |d| pair::<F16>(d, 1.2e-7, 6e-8, false)),
        case("all zero", "a kernel that wrote nothing is named", zeros_are_named),
        case("both zero", "says nothing, and says so", both_zero_is_named),
        case("vacuous tolerance", "f16 sums, K = 1000: zeros would pass", vacuous_tolerance_is_named),
        case("displaced references", "shifted, transposed and reversed views of the reference are compared as on the host", displaced_references),
        // Sizes.
        case("no elements", "a comparison of nothing is no pass", nothing_is_an_error),
        case("max of nothing", "0, no error", |d| max_is(d, &[], 0.0)),
        case("every tail", "1 to 4097: the last element counts", tails),
        case("padding", "what lies between rows is not compared", padding),
        case("other shape", "same elements in another shape are refused", other_shape),
        // What is reported.
        case("counts", "mismatches, share, first places", counts),
        case("largest difference on a pass", "headroom is visible", headroom),
        case("atol value", "largest magnitude x rtol", atol_value),
        case("atol of nothing large", "0 stays 0", |_| check(absolute_threshold(0.0, 0.5), 0.0)),
        case("rtol value, f16 sums", "1000 x 2^-11", |_| check(relative_threshold(H, H, H, 1000), 1000.0 * 2f64.powi(-11))),
        case("rtol value, fp8", "2^-4", |_| check(relative_threshold(E4, E4, F, 1), 2f64.powi(-4))),
        case("rtol value, int4", "integers are exact", |_| zero(&[(I4, F, F), (F, I4, F), (F, F, I4)])),
        // Formats.
        case("fp8 e4m3", "one step off is found", |d| pair::<F8E4M3>(d, 1.125, 1.0, false)),
        case("fp8 e4m3 near zero", "a derived atol keeps small numbers comparable", small_fp8_passes),
        case("bf8 e5m2", "one step off is found", |d| pair::<F8E5M2>(d, 1.25, 1.0, false)),
        case("fp4, packed", "each nibble is an element", |d| packed(d, F4x2::pack(2, 3), F4x2::pack(2, 2), 1.5, 1.0)),
        case("int4, packed", "each nibble is an element", |d| packed(d, I4x2::pack(0xf, 7), I4x2::pack(0xf, 6), 7.0, 6.0)),
        case("f64", "differences below f32", |d| pair::<f64>(d, 1.0 + f64::EPSILON, 1.0, false)),
        case("f16 for f64", "mixed formats", mixed),
        case("i32 beyond 2^24", "off by one where f32 has no odd numbers", |d| pair::<i32>(d, 16_777_217.0, 16_777_216.0, false)),
        case("i32 extremes", "the difference exceeds i32", |d| pair::<i32>(d, -2_147_483_648.0, 2_147_483_647.0, false)),
        case("i64 beyond 2^53", "off by one where f64 has no odd numbers", wide_integers),
        // Data and order.
        case("streams of data", "A and B of one seed differ", |d| expect(false, &random_pair::<f32>(d, 64, 1.0, &gemm::<f32>(1))?)),
        case("another stream of work", "fill, then compare, sees the filled data", after_a_stream),
    ]
}

fn ported_cases(target: &Target) -> Result<()> {
    let cases = ported();
    ensure!(cases.len() == 36, "{} cases, of 36", cases.len());
    run(&target.device, &cases)
}

fn cases_that_were_open(target: &Target) -> Result<()> {
    run(&target.device, &added())
}

/// Runs all cases and tells every failure at once.
fn run(device: &Device, cases: &[Case]) -> Result<()> {
    let failure = |Case { name, why, run }: &Case| run(device).err().map(|e| format!("{name} ({why}): {e:#}"));
    let failures: Vec<String> = cases.iter().filter_map(failure).collect();
    if !failures.is_empty() {
        bail!("seed {}\n{}", seed(), failures.join("\n"));
    }
    Ok(())
}

fn seed() -> u64 {
    std::env::var("HIPVERIFY_TEST_SEED").map_or(12345, |s| s.parse().expect("HIPVERIFY_TEST_SEED is a whole number"))
}

fn expect(passed: bool, report: &Report) -> Result<()> {
    ensure!(report.passed() == passed, "expected {}:\n{report}", if passed { "a pass" } else { "a failure" });
    Ok(())
}

fn check(found: f64, expected: f64) -> Result<()> {
    ensure!(found == expected, "expected {expected}, found {found}");
    Ok(())
}

fn gemm<T: Element>(accumulations: usize) -> Tolerance {
    Tolerance::gemm::<T, T, T>(accumulations)
}

/// Uniform on [-bound, bound].
fn random<T: Element>(device: &Device, n: usize, bound: f64, stream: u32) -> Result<DeviceMem<T>> {
    let mut mem = DeviceMem::new(device, n)?;
    mem.fill(&FillUniformRand::new(-bound, bound).seed(seed()).stream(stream))?;
    Ok(mem)
}

fn numbers<T: Scalar>(device: &Device, values: &[f64]) -> Result<DeviceMem<T>> {
    let values: Vec<T> = values.iter().map(|&v| T::from_f64(v)).collect();
    Ok(DeviceMem::from_slice(device, &values)?)
}

fn same<T: Element>(device: &Device, n: usize, bound: f64) -> Result<()> {
    let (a, r) = (random::<T>(device, n, bound, 0)?, random::<T>(device, n, bound, 0)?);
    ensure!(gpu_reduce_max(&r)?.value > 0.0, "the data are zero");
    expect(true, &gpu_verify(&a, &r, &Tolerance::exact())?)
}

fn random_pair<T: Element>(device: &Device, n: usize, bound: f64, tolerance: &Tolerance) -> Result<Report> {
    let (a, r) = (random::<T>(device, n, bound, 0)?, random::<T>(device, n, bound, 1)?);
    Ok(gpu_verify(&a, &r, tolerance)?)
}

fn constant(device: &Device, n: usize, a: f64, r: f64, rtol: f64, atol: f64, passed: bool) -> Result<()> {
    let (a, r) = (numbers::<f32>(device, &vec![a; n])?, numbers::<f32>(device, &vec![r; n])?);
    let report = gpu_verify(&a, &r, &Tolerance::new(rtol, atol)?)?;
    ensure!(report.elements == n && (passed || report.mismatches == n as u64), "{report}");
    expect(passed, &report)
}

/// One pair passes under the first (rtol, atol) and fails under the second.
fn both(device: &Device, a: f64, r: f64, passes: (f64, f64), fails: (f64, f64)) -> Result<()> {
    constant(device, 1024, a, r, passes.0, passes.1, true)?;
    constant(device, 1024, a, r, fails.0, fails.1, false)
}

fn pair<T: Scalar>(device: &Device, a: f64, r: f64, passed: bool) -> Result<()> {
    let (a, r) = (numbers::<T>(device, &[a])?, numbers::<T>(device, &[r])?);
    ensure!(a.to_vec()? != r.to_vec()? || passed, "the values are one number in {}", T::DTYPE);
    expect(passed, &gpu_verify(&a, &r, &Tolerance::exact())?)
}

fn derived_same<T: Element>(device: &Device) -> Result<()> {
    let (a, r) = (random::<T>(device, 1024, 1.0, 0)?, random::<T>(device, 1024, 1.0, 0)?);
    expect(true, &gpu_verify(&a, &r, &gemm::<T>(1))?)
}

/// 1e-6 on 1.0: below 1000 x 2^-23 (rtol and atol together), above 2^-23.
fn accumulations_loosen(device: &Device) -> Result<()> {
    let (a, r) = (numbers::<f32>(device, &[1.0 + 1e-6; 1024])?, numbers::<f32>(device, &[1.0; 1024])?);
    expect(true, &gpu_verify(&a, &r, &gemm::<f32>(1000))?)?;
    expect(false, &gpu_verify(&a, &r, &gemm::<f32>(1))?)
}

/// Alternating signs agree; shifted by one element, every sign is wrong and every magnitude right.
fn alternating(device: &Device) -> Result<()> {
    let values = |first: f64| numbers::<f32>(device, &(0..1024).map(|i| if i % 2 == 0 { first } else { -first }).collect::<Vec<_>>());
    let (result, reference, shifted) = (values(1.5)?, values(1.5)?, values(-1.5)?);
    expect(true, &gpu_verify(&result, &reference, &Tolerance::exact())?)?;
    let report = gpu_verify(&shifted, &reference, &Tolerance::new(0.5, 0.5)?)?;
    ensure!(report.mismatches == 1024, "{report}");
    Ok(())
}

/// The device's maximum against a plain loop over the same data.
fn reduce<T: Scalar>(device: &Device, n: usize, bound: f64) -> Result<()> {
    let mem = random::<T>(device, n, bound, 0)?;
    let expected = mem.to_vec()?.into_iter().map(|x| x.to_f64().abs()).fold(0.0, f64::max);
    let found = gpu_reduce_max(&mem)?;
    ensure!(found.nans == 0 && found.infinities == 0 && expected > 0.0, "{found:?}");
    check(found.value, expected)
}

fn max_is(device: &Device, values: &[f64], expected: f64) -> Result<()> {
    check(gpu_reduce_max(&numbers::<f32>(device, values)?)?.value, expected)
}

fn zero(formats: &[(DType, DType, DType)]) -> Result<()> {
    formats.iter().try_for_each(|&(c, o, a)| check(relative_threshold(c, o, a, 1000), 0.0))
}

fn unit_range(dtype: DType) -> Result<()> {
    let rtol = relative_threshold(dtype, dtype, dtype, 1);
    ensure!(0.0 < rtol && rtol < 1.0, "{rtol}");
    Ok(())
}

fn monotone(accumulations: &[usize]) -> Result<()> {
    let rtols: Vec<f64> = accumulations.iter().map(|&n| relative_threshold(DType::F32, DType::F32, DType::F32, n)).collect();
    ensure!(rtols.is_sorted_by(|a, b| a < b), "{rtols:?}");
    Ok(())
}

/// A square matrix with `error` added to every `step`-th element passes under the tolerance of 1000 sums.
fn sprinkled<T: Scalar>(device: &Device, edge: usize, step: usize, error: f64) -> Result<()> {
    let reference = random::<T>(device, edge * edge, 1.0, 0)?;
    let mut values = reference.to_vec()?;
    values.iter_mut().step_by(step).for_each(|v| *v = T::from_f64(v.to_f64() + error));
    let result = DeviceMem::from_slice(device, &values)?;
    let shape = [edge, edge];
    let report = gpu_verify(&result.tensor(&shape)?, &reference.tensor(&shape)?, &gemm::<T>(1000))?;
    ensure!(report.worst(Metric::Absolute).is_some(), "the errors were not seen\n{report}");
    expect(true, &report)
}

/// One such pair among 1000 equal ones, at a generous tolerance; under [`NonFinite::Fail`] and [`NonFinite::EqualWhenSame`].
fn nonfinite(device: &Device, a: f64, r: f64, passes: [bool; 2]) -> Result<()> {
    for at in [0, 999] {
        let [mut result, mut reference, mut others] = [1.0, 1.0, 2.0].map(|x| vec![x; 1000]);
        (result[at], reference[at], others[at]) = (a, r, r);
        let [result, reference, others] = [result, reference, others].map(|x| numbers::<f32>(device, &x));
        let (result, reference, others) = (result?, reference?, others?);
        for (policy, passed) in [NonFinite::Fail, NonFinite::EqualWhenSame].into_iter().zip(passes) {
            for options in [Options::default(), Options::counts()] {
                let options = options.nonfinite(policy);
                let report = gpu_verify_with(&result, &reference, &Tolerance::new(0.5, 100.0)?, &options)?;
                ensure!(report.nonfinite_pairs == 1 && report.mismatches == u64::from(!passed), "{report}");
                ensure!(report.result.nonfinite() == u64::from(!a.is_finite()), "{report}");
                ensure!(report.reference.nonfinite() == u64::from(!r.is_finite()), "{report}");
                expect(passed, &report)?;
            }
            // Where metrics decide, the pair decides as well, and finite mismatches do not: at no tolerance all others are.
            let by_metrics = Options::default().thresholds(Thresholds::OFF, Judge::Thresholds).nonfinite(policy);
            let report = gpu_verify_with(&result, &others, &Tolerance::exact(), &by_metrics)?;
            ensure!(report.mismatches == 999 + u64::from(!passed), "{report}");
            expect(passed, &report)?;
        }
    }
    Ok(())
}

fn infinite_reference_stays_local(device: &Device) -> Result<()> {
    let reference = numbers::<f32>(device, &[1.0, f64::INFINITY, 1.0])?;
    let result = numbers::<f32>(device, &[1.0, f64::INFINITY, 1.5])?;
    let report = gpu_verify(&result, &reference, &gemm::<f32>(1))?;
    ensure!(report.mismatches == 2 && report.atol == 2f64.powi(-24), "{report}");
    Ok(())
}

fn max_counts_nonfinite(device: &Device) -> Result<()> {
    let mem = numbers::<F16>(device, &[1.0, f64::NAN, f64::INFINITY, -3.0, f64::NEG_INFINITY])?;
    let found = gpu_reduce_max(&mem)?;
    ensure!((found.value, found.nans, found.infinities) == (3.0, 1, 2), "{found:?}");
    Ok(())
}

fn zeros_are_named(device: &Device) -> Result<()> {
    let mut result = DeviceMem::<f32>::new(device, 1000)?;
    result.set_zero()?;
    let report = gpu_verify(&result, &random::<f32>(device, 1000, 1.0, 0)?, &Tolerance::new(1.0, 1.0)?)?;
    ensure!(report.all_zero() && report.warnings() == [Warning::ResultAllZero] && report.to_string().contains("zero everywhere"));
    Ok(())
}

fn both_zero_is_named(device: &Device) -> Result<()> {
    let (mut a, mut r) = (DeviceMem::<f32>::new(device, 1000)?, DeviceMem::<f32>::new(device, 1000)?);
    a.set_zero()?;
    r.set_zero()?;
    let report = gpu_verify(&a, &r, &Tolerance::exact())?;
    ensure!(report.warnings() == [Warning::BothAllZero], "{report}");
    Ok(())
}

fn vacuous_tolerance_is_named(device: &Device) -> Result<()> {
    let report = random_pair::<F16>(device, 4096, 10.0, &gemm::<F16>(1000))?;
    ensure!(matches!(report.warnings()[..], [Warning::ZerosWouldPass(n, nonzero)] if 2 * n > nonzero), "{report}");
    let sharp = random_pair::<F16>(device, 4096, 10.0, &gemm::<F16>(1))?;
    ensure!(sharp.warnings().is_empty(), "{sharp}");
    Ok(())
}

fn nothing_is_an_error(device: &Device) -> Result<()> {
    let (a, r) = (DeviceMem::<f32>::new(device, 0)?, DeviceMem::<f32>::new(device, 0)?);
    let error = gpu_verify(&a, &r, &Tolerance::exact()).map(|r| r.passed());
    ensure!(matches!(error, Err(Error::InvalidArgument { what: "elements", .. })), "{error:?}");
    Ok(())
}

/// Sizes around every block, vector and segment: a wrong last element is the only mismatch and has its index.
fn tails(device: &Device) -> Result<()> {
    let sizes = [1, 3, 15, 16, 17, 31, 33, 63, 65, 127, 129, 255, 256, 257, 1023, 1025, 4095, 4097];
    for n in sizes.into_iter().chain([large(device) + 3]) {
        last_element::<f32>(device, n)?;
        last_element::<F16>(device, n)?;
        last_element::<i8>(device, n)?;
    }
    Ok(())
}

fn last_element<T: Scalar>(device: &Device, n: usize) -> Result<()> {
    let reference = random::<T>(device, n, 1.0, 0)?;
    let mut values = reference.to_vec()?;
    if let Some(last) = values.last_mut() {
        *last = T::from_f64(64.0);
    }
    let result = DeviceMem::from_slice(device, &values)?;
    let report = gpu_verify(&result, &reference, &Tolerance::new(0.0, 0.5)?)?;
    ensure!(report.mismatches == 1 && report.first[0].index == n - 1 && report.elements == n, "{} of {n}\n{report}", T::DTYPE);
    check(gpu_reduce_max(&result)?.value, 64.0)
}

fn padding(device: &Device) -> Result<()> {
    // 3 rows of 4 elements, 5 apart: every fifth number is padding.
    let layout = || Layout::strided(&[3, 4], &[5, 1], 0);
    let reference = numbers::<f32>(device, &[1.0; 15])?;
    let mut values = [1.0; 15];
    (values[4], values[9], values[14]) = (f64::NAN, 7.0, f64::INFINITY);
    let result = numbers::<f32>(device, &values)?;
    expect(true, &gpu_verify(&result.strided(layout()?)?, &reference.strided(layout()?)?, &Tolerance::exact())?)?;
    values[13] = 2.0;
    let result = numbers::<f32>(device, &values)?;
    let report = gpu_verify(&result.strided(layout()?)?, &reference.strided(layout()?)?, &Tolerance::exact())?;
    ensure!(report.mismatches == 1 && report.first[0].coordinates == [2, 3], "{report}");
    Ok(())
}

fn other_shape(device: &Device) -> Result<()> {
    let mem = DeviceMem::<f32>::new(device, 12)?;
    let outcome = gpu_verify(&mem.tensor(&[3, 4])?, &mem.tensor(&[4, 3])?, &Tolerance::exact()).map(|r| r.passed());
    ensure!(matches!(outcome, Err(Error::Shape { .. })), "{outcome:?}");
    Ok(())
}

fn counts(device: &Device) -> Result<()> {
    let reference = numbers::<f32>(device, &[1.0; 1000])?;
    let mut values = [1.0; 1000];
    for (i, at) in (0..1000).step_by(40).enumerate() {
        values[at] = 2.0 + i as f64;
    }
    let result = numbers::<f32>(device, &values)?;
    let report = gpu_verify_with(&result, &reference, &Tolerance::new(0.0, 0.5)?, &Options::default().first(3))?;
    ensure!((report.elements, report.mismatches, report.mismatch_percent()) == (1000, 25, 2.5), "{report}");
    ensure!(report.first.iter().map(|p| p.index).eq([0, 40, 80]), "{report}");
    let worst = report.worst(Metric::Absolute).and_then(|w| w.at.as_ref().map(|at| (w.value, at.index, at.result)));
    ensure!(worst == Some((25.0, 960, Value::Float(26.0))), "{worst:?}");
    Ok(())
}

fn headroom(device: &Device) -> Result<()> {
    let (result, reference) = (numbers::<f32>(device, &[1.0, 1.25, 1.0])?, numbers::<f32>(device, &[1.0; 3])?);
    let report = gpu_verify_with(&result, &reference, &Tolerance::new(0.0, 1.0)?, &Options::counts().explain(Explain::Always))?;
    let worst = report.worst(Metric::Absolute).and_then(|w| w.at.as_ref().map(|at| (w.value, at.index)));
    ensure!(report.passed() && worst == Some((0.25, 1)), "{report}");
    Ok(())
}

fn atol_value(device: &Device) -> Result<()> {
    let mem = numbers::<F16>(device, &[1.0, -10.0, 3.0])?;
    let report = gpu_verify(&mem, &mem, &Tolerance::gemm::<F16, F16, f32>(1000))?;
    check(report.rtol, 2f64.powi(-11))?;
    check(report.atol, 10.0 * 2f64.powi(-11))
}

fn small_fp8_passes(device: &Device) -> Result<()> {
    let least = 2f64.powi(-9);
    let (result, reference) = (numbers::<F8E4M3>(device, &[1.0, 0.0])?, numbers::<F8E4M3>(device, &[1.0, least])?);
    expect(true, &gpu_verify(&result, &reference, &Tolerance::gemm::<F8E4M3, F8E4M3, f32>(1))?)?;
    expect(false, &gpu_verify(&result, &reference, &Tolerance::new(0.1, 0.0)?)?)
}

/// 65 units whose last one differs in its second element.
fn packed<T: Element>(device: &Device, last: T, unit: T, a: f64, r: f64) -> Result<()> {
    let mut units = vec![unit; 65];
    let reference = DeviceMem::from_slice(device, &units)?;
    units[64] = last;
    let result = DeviceMem::from_slice(device, &units)?;
    let report = gpu_verify(&result, &reference, &Tolerance::exact())?;
    let first = &report.first[0];
    ensure!((report.elements, report.mismatches, first.index) == (130, 1, 129), "{report}");
    check(first.result.to_f64(), a)?;
    check(first.reference.to_f64(), r)
}

fn mixed(device: &Device) -> Result<()> {
    let reference = numbers::<f64>(device, &[0.1, 1.0, 1.0])?;
    let result = numbers::<F16>(device, &[0.1, 1.0, 1.001])?;
    expect(true, &gpu_verify(&result, &reference, &Tolerance::new(2f64.powi(-10), 0.0)?)?)?;
    let report = gpu_verify(&result, &reference, &Tolerance::new(2f64.powi(-11), 0.0)?)?;
    ensure!(report.mismatches == 1 && report.first[0].index == 2, "{report}");
    Ok(())
}

fn wide_integers(device: &Device) -> Result<()> {
    let big = 1i64 << 53;
    let (a, r) = (DeviceMem::from_slice(device, &[big + 1])?, DeviceMem::from_slice(device, &[big])?);
    expect(false, &gpu_verify(&a, &r, &Tolerance::exact())?)?;
    expect(true, &gpu_verify(&a, &r, &Tolerance::new(0.0, 1.0)?)?)
}

fn after_a_stream(device: &Device) -> Result<()> {
    let stream = Stream::new(device)?;
    let (mut a, r) = (random::<f32>(device, 100_000, 1.0, 1)?, random::<f32>(device, 100_000, 1.0, 0)?);
    expect(false, &gpu_verify(&a, &r, &Tolerance::exact())?)?;
    a.fill(&FillUniformRand::new(-1.0, 1.0).seed(seed()))?;
    stream.synchronize()?;
    ensure!(stream.device().same_as(device));
    expect(true, &gpu_verify(&a, &r, &Tolerance::exact())?)
}

fn displaced_references(device: &Device) -> Result<()> {
    // Shape, least element, tolerance, mutations that are found and missed: five are errors of one size.
    for (shape, least, tolerance, [found_of, missed_of]) in [
        ([40, 40], -1.0, 1e-3, [9, 0]),
        ([40, 40], 0.9, 0.15, [3, 6]),
        ([3, 1001], -1.0, 0.0, [8, 0]),
        ([1001, 3], 0.9, 0.15, [3, 5]),
        // Zeros pass: displacements are not tried.
        ([40, 40], -1.0, 2.5, [0, 5]),
    ] {
        let report = |device: &Device| -> Result<Report> {
            let mut x = DeviceMem::<F16>::new(device, shape.iter().product())?;
            x.fill(&FillUniformRand::new(least, 1.0).seed(seed()))?;
            let x = x.tensor(&shape)?;
            Ok(gpu_verify_with(&x, &x, &Tolerance::new(0.0, tolerance)?, &Options::default().power(true))?)
        };
        let (found, expected) = (report(device)?, report(&Device::host())?);
        ensure!(found.power == expected.power && found.verdict == expected.verdict, "{found}\n{expected}");
        ensure!([found.power.found.len(), found.power.missed.len()] == [found_of, missed_of], "{found}");
    }
    // Spacings of f64, whose binades f32 does not have, of zeros among others.
    let relu: Vec<f32> = (0..2000u16).map(|i| if i % 3 == 0 { f32::from(i) } else { 0.0 }).collect();
    let report = |device: &Device| -> Result<Report> {
        let (a, r) = (
            DeviceMem::from_slice(device, &relu.iter().map(|x| f64::from(*x)).collect::<Vec<_>>())?,
            DeviceMem::from_slice(device, &relu)?,
        );
        let options = Options::default().power(true).thresholds(Thresholds::OFF.with_epsilon(41.0)?, Judge::Thresholds);
        Ok(gpu_verify_with(&a, &r, &Tolerance::exact(), &options)?)
    };
    let (found, expected) = (report(device)?, report(&Device::host())?);
    ensure!(found.power == expected.power && found.verdict == Verdict::Pass && expected.verdict == Verdict::Pass, "{found}\n{expected}");
    Ok(())
}
