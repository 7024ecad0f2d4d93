//! The report of the host, bit for bit, where numbers, bounds, quotients and sums are at the ends of their ranges.

use crate::same_bits::Case;
use crate::suite::tests;
use crate::target::Target;
use crate::tensors::{elements, encode};
use anyhow::{Context, Result};
use hipverify::dtype::DType;
use hipverify::verify::Options;

tests! {
    Gpus: bounds_beyond_the_largest_number, sums_without_range_beside_others, quotients_at_the_ends_of_the_range, histograms_at_all_scales, distances_next_to_half_an_ulp;
}

/// The largest number is the bound where it would overflow: a difference that overflows is beyond it. Of a reference of 0 no rtol makes a bound.
fn bounds_beyond_the_largest_number(target: &Target) -> Result<()> {
    for (dtype, tolerances) in [
        (DType::F32, [[2.0, 0.5], [1.0, 1e38], [0.0, 1e39], [1.0, 0.0], [1e39, 0.0]]),
        (DType::Bf16, [[2.0, 0.5], [1.0, 1e38], [0.0, 1e39], [1.0, 0.0], [1e39, 0.0]]),
        (DType::F64, [[2.0, 0.5], [1.0, 1e308], [1e-3, f64::MAX], [1.0, 0.0], [f64::MAX, 0.0]]),
    ] {
        let largest = dtype.float_format().context("a float")?.max_finite();
        let ends = [largest, -largest, largest / 2.0, -largest / 4.0, 1.0, -1e-3, 0.0];
        let n = ends.len() * ends.len();
        let [a, r] = [1, ends.len()].map(|step| elements(dtype, n, |i| encode(dtype, ends[i / step % ends.len()])));
        for tolerance in tolerances {
            Case::new([dtype; 2], n).tolerance(tolerance).compare(target, [&a, &r], "each end of the format with each")?;
        }
    }
    Ok(())
}

/// Squares of one tile underflow, and its sums are made again in f64; those of its neighbours, which may belong to the same wavefront, are not.
fn sums_without_range_beside_others(target: &Target) -> Result<()> {
    for (dtype, tile) in [(DType::F32, 2048), (DType::Bf16, 4096)] {
        for small in 0..4 {
            let value = |i: usize, seed: usize| {
                let x = 0.1 + 0.013 * ((i * 7 + seed) % 89) as f64;
                encode(dtype, if i / tile == small { x * 1e-25 } else { x })
            };
            let [a, r] = [3, 40].map(|seed| elements(dtype, 4 * tile, |i| value(i, seed)));
            Case::new([dtype; 2], 4 * tile).compare(target, [&a, &r], &format!("tile {small} is tiny"))?;
        }
    }
    // As many tiles as the stand-in takes two of in a row, of the first or the second of which the sums are made anew, or of both.
    let (tile, tiles) = (2048, 96);
    let value = |i: usize, seed: usize| {
        let x = 0.1 + 0.013 * ((i * 7 + seed) % 89) as f64;
        encode(DType::F32, if i / tile % 5 < 2 { x * 1e-25 } else { x })
    };
    let [a, r] = [3, 40].map(|seed| elements(DType::F32, tiles * tile, |i| value(i, seed)));
    Case::new([DType::F32; 2], tiles * tile).compare(target, [&a, &r], "tiny tiles in runs")?;
    Ok(())
}

/// Histograms of differences of the least numbers of f32 and f64, whose quotients by a tolerance of 8 round to 0, and of the largest numbers and zeros.
fn quotients_at_the_ends_of_the_range(target: &Target) -> Result<()> {
    let n = 3_001;
    for dtype in [DType::F32, DType::F64] {
        let zeros = |dtype| elements(dtype, n, |_| 0);
        let most = dtype.float_format().map_or(1.0, |f| f.max_finite());
        let least = elements(dtype, n, |i| i as u64 % 50);
        let largest = elements(dtype, n, |i| encode(dtype, most / (i % 9 + 1) as f64));
        let case = |dtypes| Case::new(dtypes, n).options(Options::default().histograms(true)).tolerance([1e-3, 8.0]);
        case([DType::F16, dtype]).compare(target, [&zeros(DType::F16), &least], "the least numbers")?;
        case([dtype; 2]).compare(target, [&largest, &zeros(dtype)], "the largest numbers")?;
        case([dtype; 2]).compare(target, [&largest, &least], "the largest and the least numbers")?;
        let case = Case::new([dtype; 2], n).tolerance([0.0, 1.5]);
        case.compare(target, [&least, &zeros(dtype)], "ratios that many differences are rounded to")?;
    }
    // The last ratio is the largest, by less than a remainder of such numbers tells; the first and third elements have all other maxima.
    let least = 2f64.powi(-149);
    let pair = |i: usize| match i {
        0 => [1.25, 1.0].map(|x| x * 2f64.powi(-100)),
        1 => [1_800_000.0, 800_000.0].map(|x| x * least),
        2 => [300_001.0, 1.0].map(|x| x * least),
        2_000 => [1_800_002.0, 800_001.0].map(|x| x * least),
        _ => [0.0; 2],
    };
    let [a, r] = [0, 1].map(|side| elements(DType::F32, n, |i| encode(DType::F32, pair(i)[side])));
    Case::new([DType::F32; 2], n).tolerance([1.0, 700_000.0 * least]).compare(target, [&a, &r], "ratios of subnormal numbers")?;
    // Bounds beyond f64.
    for dtypes in [[DType::I32; 2], [DType::I64, DType::U64]] {
        Case::new(dtypes, n).options(Options::default().histograms(true)).tolerance([1e305, 1.0]).check(target, 500)?;
    }
    Ok(())
}

/// Histograms at all scales, neighbours at about the same one: of differences, references, binades and bounds on both sides of the limits beyond which bins are found another way.
fn histograms_at_all_scales(target: &Target) -> Result<()> {
    let n = 3_001;
    let ends = [1e-6, 1e-4, 1e-3, 0.1, 0.5, 1.0, 2.0, 1e2, 1e4];
    for dtypes in [[DType::F32; 2], [DType::F16, DType::F32], [DType::Bf16; 2], [DType::F32, DType::F8E8M0], [DType::F64; 2]] {
        let wide = dtypes == [DType::F64; 2];
        let reference = |i: usize| {
            let scale = if wide { -1_060 + 9 * (i / 16 % 130) as i32 } else { -100 + (i / 16 % 150) as i32 };
            2f64.powi(scale) * (1.0 + (i * 37 % 101) as f64 / 101.0)
        };
        let result = |i: usize| match i % 8 {
            0 => 0.0,
            1 => 2f64.powi(i as i32 % 60 - 40) * reference(i),
            2 => -reference(i),
            _ => reference(i) * (1.0 + ends[i % ends.len()]),
        };
        let a = elements(dtypes[0], n, |i| encode(dtypes[0], result(i)));
        let r = elements(dtypes[1], n, |i| encode(dtypes[1], if i % 7 == 0 { 0.0 } else { reference(i) }));
        let least = if wide { -1_000 } else { -86 };
        for tolerance in
            [[1e-3, 2f64.powi(-39)], [1e-3, 2f64.powi(-41)], [0.0, 2f64.powi(least)], [0.0, 2f64.powi(least - 1)], [0.5, 4.0], [1e-3, 0.0]]
        {
            let case = Case::new(dtypes, n).options(Options::default().histograms(true)).tolerance(tolerance);
            case.compare(target, [&a, &r], "data of all scales")?;
        }
    }
    Ok(())
}

/// A reference just beyond half-way between two least numbers of the result's format, of which a wider format has more bits than are left when it is scaled; and references that are half-way.
fn distances_next_to_half_an_ulp(target: &Target) -> Result<()> {
    let (n, u) = (1_024, DType::F16.float_format().map_or(0.0, |f| f.min_positive()));
    // The first two are the largest of all other errors, 2 ulps; the third, in units of the least number, is read in a row of a tile of its own.
    let compare = |third: [f64; 2], why: &str| {
        let pair = |i: usize| match i {
            0 => [2.0 + 2f64.powi(-9), 2.0 - 2f64.powi(-10)],
            1 => [2.0 * u, u],
            256 => third.map(|x| x * u),
            _ => [1.0; 2],
        };
        let [a, r] = [(0, DType::F16), (1, DType::F32)].map(|(side, dtype)| elements(dtype, n, |i| encode(dtype, pair(i)[side])));
        Case::new([DType::F16, DType::F32], n).compare(target, [&a, &r], why)
    };
    compare([18.0, 20.5 + 2f64.powi(-18)], "one element 3 ulps away")?;
    // Half-way between two normal numbers, of which the even one is nearer to the result, or is not.
    for below in [1_040.0, 1_041.0] {
        compare([below + 3.0, below + 0.5], "a result above")?;
        compare([below - 2.0, below + 0.5], "a result below")?;
        compare([-below - 3.0, -below - 0.5], "negative numbers")?;
    }
    Ok(())
}
