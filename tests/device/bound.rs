//! Comparisons by a bound of each element: GPUs give the host's report, in every format and layout.

use crate::suite::tests;
use crate::target::Target;
use crate::tensors::{Owned, elements, encode, numbers};
use anyhow::{Context, Result, ensure};
use hipverify::device::{Device, Layout};
use hipverify::dtype::{DType, Overflow, Rounding};
use hipverify::verify::bound::{Bound, BoundReport, gpu_verify_bound, gpu_verify_bound_with};

tests! {
    Gpus: every_format, every_layout, what_is_not_finite_and_many_mismatches, zeros_at_their_bound, overflow_at_the_edge,
        results_that_saturate;
}

/// The coefficients; the floor leaves some elements beyond, as the numbers of both tensors are unrelated.
const BOUND: Bound = Bound { gamma: 0.25, relative: 0.125, floor: 0.5, rounding: None };

/// The report of tensors of these formats and this layout, made of these seeds, without what names the device.
fn report(device: &Device, dtypes: [DType; 3], layout: &Layout, wild: bool, bound: &Bound) -> Result<BoundReport> {
    let owned = |i: usize, wild| Owned::numbers(device, dtypes[i], layout, i as u64, wild);
    let (a, r, s) = (owned(0, wild)?, owned(1, wild)?, owned(2, false)?);
    let mut report = gpu_verify_bound(&a.view(), &r.view(), &s.view(), bound)?;
    (report.device, report.why) = (String::new(), String::new());
    Ok(report)
}

/// By [`BOUND`], and where the result has a float format with a rounding to it as well; the report of the first.
fn same(target: &Target, dtypes: [DType; 3], layout: &Layout, wild: bool) -> Result<BoundReport> {
    let by = |bound: &Bound| -> Result<BoundReport> {
        let on = |device: &Device| report(device, dtypes, layout, wild, bound);
        let (found, expected) = (on(&target.device)?, on(&Device::host())?);
        // By their text: NaN differs from itself.
        ensure!(format!("{found:?}") == format!("{expected:?}"), "{dtypes:?} {layout:?}\n{found:?}\nexpected\n{expected:?}");
        Ok(expected)
    };
    let report = by(&BOUND)?;
    if dtypes[0].float_format().is_some() {
        let rounded = by(&BOUND.rounded_to(dtypes[0])?)?;
        ensure!(rounded.mismatches <= report.mismatches, "{dtypes:?}: a rounding more allows more\n{rounded}\n{report}");
    }
    Ok(report)
}

fn every_format(target: &Target) -> Result<()> {
    use DType::*;
    // More than a tile, and not a multiple of one.
    let layout = Layout::contiguous(&[2, 2500])?;
    let compared = |d: &DType| d.int_format().is_none_or(|f| f.bits <= 32);
    let mut overflows = 0;
    for (i, dtype) in DType::ALL.into_iter().filter(compared).enumerate() {
        let references = [F64, F32, F16, Bf16, F8E5M2];
        let report = same(target, [dtype, references[i % references.len()], [F64, F32][i % 2]], &layout, i % 3 == 0)?;
        ensure!(report.mismatches > 0 && report.zero_passes > 0, "{dtype}: nothing differs, or no zero passes");
        overflows += report.overflows;
    }
    ensure!(overflows > 0, "no bound reaches beyond a format");
    Ok(())
}

fn every_layout(target: &Target) -> Result<()> {
    for layout in [
        Layout::strided(&[70, 90], &[96, 1], 5)?,
        Layout::strided(&[70, 90], &[1, 70], 0)?,
        Layout::strided(&[5000], &[-1], 4999)?,
        Layout::contiguous(&[1])?,
        Layout::contiguous(&[3, 4096])?,
    ] {
        for dtype in [DType::F16, DType::F4E2M1] {
            same(target, [dtype, DType::F64, DType::F64], &layout, false).with_context(|| format!("{layout:?}"))?;
        }
    }
    Ok(())
}

/// More tiles with mismatches than are looked into, and more than one tile a block on small devices.
fn what_is_not_finite_and_many_mismatches(target: &Target) -> Result<()> {
    let layout = Layout::contiguous(&[target.size(40, 4000), 4096])?;
    let report = same(target, [DType::F16, DType::F8E5M2, DType::F32], &layout, true)?;
    ensure!(report.first.len() == 8 && report.result.nans > 0 && report.reference.infinities > 0, "{report}");
    // One element alone beyond its bound, in the last tile.
    let n = layout.elements();
    let one = numbers(DType::F16, n, 3, false);
    let mut other = one.clone();
    DType::F16.store_bits(&mut other, n - 2, encode(DType::F16, 500.0));
    let on = |device: &Device| -> Result<BoundReport> {
        let tensor = |bytes: &[u8]| Owned::new(device, DType::F16, &layout, bytes);
        let (a, r) = (tensor(&other)?, tensor(&one)?);
        Ok(gpu_verify_bound(&a.view(), &r.view(), &r.view(), &Bound { gamma: 0.0, ..BOUND })?)
    };
    let (found, expected) = (on(&target.device)?, on(&Device::host())?);
    ensure!((found.mismatches, &found.worst, &found.first) == (1, &expected.worst, &expected.first), "{found}\n{expected}");
    ensure!(found.first[0].index == n - 2 && found.histogram == expected.histogram, "{found}");
    Ok(())
}

/// Where a reference is as large as its bound, zero passes: equality counts on every device.
fn zeros_at_their_bound(target: &Target) -> Result<()> {
    let layout = Layout::contiguous(&[100])?;
    let on = |device: &Device| -> Result<u64> {
        let ones = Owned::new(device, DType::F16, &layout, &elements(DType::F16, 100, |_| encode(DType::F16, 0.5)))?;
        Ok(gpu_verify_bound(&ones.view(), &ones.view(), &ones.view(), &Bound { gamma: 1.0, ..Bound::EXACT })?.zero_passes)
    };
    let (found, expected) = (on(&target.device)?, on(&Device::host())?);
    ensure!((found, expected) == (100, 100), "zeros pass at {found} elements, on the host at {expected}");
    Ok(())
}

/// References of f16 that with their bounds reach 65520, which rounds to infinity, and the number below.
fn overflow_at_the_edge(target: &Target) -> Result<()> {
    let layout = Layout::contiguous(&[100])?;
    let on = |device: &Device| -> Result<[u64; 2]> {
        let whole = |dtype, value: f64| Owned::new(device, dtype, &layout, &elements(dtype, 100, |_| encode(dtype, value)));
        let (a, s) = (whole(DType::F16, f64::INFINITY)?, whole(DType::F64, 20.0)?);
        let counted = |r: f64| -> Result<u64> {
            let r = whole(DType::F64, r)?;
            Ok(gpu_verify_bound(&a.view(), &r.view(), &s.view(), &Bound { gamma: 1.0, ..Bound::EXACT })?.overflows)
        };
        Ok([counted(-65500.0)?, counted(65499.0)?])
    };
    let (found, expected) = (on(&target.device)?, on(&Device::host())?);
    ensure!((found, expected) == ([100, 0], [100, 0]), "{found:?} elements overflow, on the host {expected:?}");
    Ok(())
}

/// What passes beyond a format of a kernel that saturates, and what does of others: the largest number, infinity, NaN.
fn results_that_saturate(target: &Target) -> Result<()> {
    const INF: f64 = f64::INFINITY;
    const NAN: f64 = f64::NAN;
    let layout = Layout::contiguous(&[8])?;
    let references = [1e6, -1e6, 1e6, 1e6, INF, INF, INF, 1.0];
    for (dtype, largest, mismatches) in [
        // Of a kernel that saturates, and of one that does not.
        (DType::F16, 65504.0, [[false, false, true, true, false, false, true, false], [true, true, false, true, true, false, true, false]]),
        (
            DType::F8E5M2,
            57344.0,
            [[false, false, true, true, false, false, true, false], [true, true, false, true, true, false, true, false]],
        ),
        (DType::F8E4M3, 448.0, [[false, false, true, true, false, false, false, false], [false; 8]]),
    ] {
        let results = [largest, -largest, INF, NAN, largest, INF, NAN, 1.0];
        let of = |device: &Device, overflow| -> Result<BoundReport> {
            let tensor = |dtype, values: &[f64; 8]| {
                Owned::new(device, dtype, &layout, &elements(dtype, 8, |i| dtype.encode(values[i], Rounding::NearestEven, Overflow::Ieee)))
            };
            let (a, r) = (tensor(dtype, &results)?, tensor(DType::F64, &references)?);
            Ok(gpu_verify_bound_with(&a.view(), &r.view(), &r.view(), &Bound::EXACT, overflow)?)
        };
        for (overflow, mismatches) in [Overflow::Saturate, Overflow::Ieee].into_iter().zip(mismatches) {
            let expected: Vec<usize> = (0..8).filter(|&i| mismatches[i]).collect();
            for device in [&target.device, &Device::host()] {
                let report = of(device, overflow)?;
                let found: Vec<usize> = report.first.iter().map(|element| element.index).collect();
                ensure!(found == expected, "{dtype} {overflow:?} on {}: {found:?} for {expected:?}\n{report}", device.name());
            }
        }
    }
    Ok(())
}
