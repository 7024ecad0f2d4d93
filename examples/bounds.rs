//! Do the bounds of `verify::bound` hold, and are they tight? Measured on random products.
//!
//! `cargo run --release --example bounds [-- SECONDS [DEVICE [SIDE]]]`: on the host, with results of 192 x 192, or on `gpu:0`, with as many rows and columns as are asked for.
//!
//! Correct results of many arithmetics, formats and ranges are checked as `hipverify check gemm` does: no element may lie beyond its bound. The bound is tight when the
//! largest ratio of error to bound in a tensor is not small: the median over tensors is printed. Each element beyond its bound is reported, then the totals; the last line has the
//! number of elements of the mode and range that had fewest.

use anyhow::{Result, ensure};
use hipverify::check::Check;
use hipverify::dtype::{Overflow, Rounding};
use hipverify::fill::FillUniformRand;
use hipverify::matrix_core::{Arch, Model};
use hipverify::reference::{Accumulate, Gemm};
use hipverify::suite::Guard;
use hipverify::verify::bound::Confidence;
use hipverify::{DType, Device, DeviceMem, Error};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Values of operands: uniform, powers of two whose exponents are uniform, or constant.
#[derive(Clone, Copy, Debug)]
enum Data {
    Uniform(f64, f64),
    Binades(f64),
    Constant,
}

const DATA: [Data; 5] = [Data::Uniform(-1.0, 1.0), Data::Uniform(0.0, 1.0), Data::Uniform(-24.0, 24.0), Data::Binades(6.0), Data::Constant];

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let seconds = arguments.first().map_or(Ok(20), |text| text.parse::<u64>())?;
    let device = Device::open(arguments.get(1).map_or("host", String::as_str))?;
    let side = arguments.get(2).map_or(Ok(192), |text| text.parse::<usize>())?;
    println!("{device}, results of {side} x {side}");
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut totals: BTreeMap<(&str, String), (u64, u64, Vec<f64>)> = BTreeMap::new();
    let mut cases = Vec::new();
    for case in all_cases()? {
        if runs_on(&device, &case)? {
            cases.push(case);
        } else {
            println!("left out: {} of {:?}, which this device has no code for", case.0, case.1);
        }
    }
    let mut seen = vec![[0_u64; DATA.len()]; cases.len()];
    let mut round = 0;
    while round == 0 || Instant::now() < end {
        for (number, &(accumulate, dtypes, arch)) in cases.iter().enumerate() {
            // One kind of data and one k a round, so that a short run sees something of all.
            let which = (number + round) % DATA.len();
            let data = DATA[which];
            let k = [16, 64, 256, 1024][(number / 3 + round) % 4];
            let a = operand(&device, data, dtypes[0], [side, k], 2 * round as u32)?;
            let b = operand(&device, data, dtypes[1], [k, side], 2 * round as u32 + 1)?;
            let (a, b) = (a.tensor()?, b.tensor()?);
            for output in [DType::F32, DType::F16, DType::Bf16] {
                let mut result = Guard::new(&device, output, &[side, side])?;
                Gemm::new(accumulate).run(&a, &b, &mut result.tensor_mut()?)?;
                let d = result.tensor()?;
                // Constant operands round one way: no mean of zero.
                let confidences: &[(&str, Confidence)] = match data {
                    Data::Constant => &[("worst case", Confidence::WorstCase)],
                    _ => &[("worst case", Confidence::WorstCase), ("probable", Confidence::Exceeded(1e-6))],
                };
                for &(name, confidence) in confidences {
                    let mut check = Check::gemm(&a, &b, &d).confidence(confidence).bit_exact(false);
                    if let Some(arch) = arch {
                        check = check.arch(arch);
                    }
                    let report = check.run()?.report;
                    let (elements, beyond, ratios) = totals.entry((name, output.to_string())).or_default();
                    *elements += report.elements as u64;
                    seen[number][which] += report.elements as u64;
                    *beyond += report.mismatches;
                    ratios.push(report.worst.as_ref().map_or(0.0, |w| w.ratio));
                    if report.mismatches > 0 {
                        println!("{accumulate} {dtypes:?} to {output} {data:?} k {k} {name}\n{report}");
                    }
                }
            }
        }
        round += 1;
    }
    let mut beyond = 0;
    for ((name, output), (elements, over, mut ratios)) in totals {
        ratios.sort_by(f64::total_cmp);
        let median = ratios[ratios.len() / 2];
        let tensors = ratios.len();
        println!(
            "{name:<11} {output:<5} {elements:>13} elements, {over} beyond their bounds; {tensors} tensors, median of the largest ratio {median:.3}"
        );
        beyond += over;
    }
    let fewest = seen.iter().flatten().min().unwrap_or(&0);
    println!("{} modes, {} ranges, {round} rounds: at least {fewest} elements of each mode in each range", cases.len(), DATA.len());
    ensure!(beyond == 0, "a bound does not hold");
    Ok(())
}

/// An arithmetic, formats of operands, and the chip that a check is told.
type Case = (Accumulate, [DType; 2], Option<Arch>);

fn all_cases() -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for model in Model::all().filter(|m| !m.input().name().contains("as_bf16")) {
        let (a, b) = model.input().dtypes();
        cases.push((Accumulate::MatrixCore(model), [a, b], Some(model.arch())));
    }
    for accumulate in Accumulate::PLAIN {
        for dtype in [DType::F32, DType::F16, DType::Bf16, DType::F8E4M3, DType::F8E5M2] {
            cases.push((accumulate, [dtype, dtype], None));
        }
    }
    Ok(cases)
}

/// Whether the device has code for an arithmetic and these formats.
fn runs_on(device: &Device, &(accumulate, dtypes, _): &Case) -> Result<bool> {
    let [a, b] = dtypes.map(|dtype| Guard::new(device, dtype, &[16, 16]));
    let mut d = Guard::new(device, DType::F32, &[16, 16])?;
    match Gemm::new(accumulate).run(&a?.tensor()?, &b?.tensor()?, &mut d.tensor_mut()?) {
        Err(Error::Unsupported { .. }) => Ok(false),
        ran => Ok(ran.map(|()| true)?),
    }
}

/// A matrix of these values.
fn operand(device: &Device, data: Data, dtype: DType, shape: [usize; 2], stream: u32) -> Result<Guard> {
    let n = shape[0] * shape[1];
    let (low, high) = match data {
        Data::Uniform(low, high) => (low, high),
        Data::Binades(_) | Data::Constant => (-1.0, 1.0),
    };
    let mut wide = DeviceMem::<f32>::new(&Device::host(), n)?;
    wide.fill(&FillUniformRand::new(low, high).seed(2026).stream(stream))?;
    let wide = wide.to_vec()?;
    let value = |i: usize| match data {
        Data::Uniform(..) => f64::from(wide[i]),
        // The sign and the significand from one draw, the exponent from its neighbour.
        Data::Binades(most) => f64::from(wide[i]) * (most * f64::from(wide[(i + 1) % n])).exp2(),
        Data::Constant => f64::from(wide[0]),
    };
    const PART: usize = 1 << 14;
    let mut bytes = vec![0; n * dtype.unit_bytes()];
    bytes.par_chunks_mut(PART * dtype.unit_bytes()).enumerate().for_each(|(part, bytes)| {
        for i in 0..bytes.len() / dtype.unit_bytes() {
            dtype.store_bits(bytes, i, dtype.encode(value(part * PART + i), Rounding::NearestEven, Overflow::Saturate));
        }
    });
    let mut matrix = Guard::new(device, dtype, &shape)?;
    matrix.copy_from_bytes(&bytes)?;
    Ok(matrix)
}
