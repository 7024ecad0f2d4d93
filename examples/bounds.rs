//! Do the bounds of `verify::bound` hold, and are they tight? Measured on random products.
//!
//! `cargo run --release --example bounds [-- SECONDS]`
//!
//! Correct results of many arithmetics, formats and ranges are checked as `hipverify check gemm` does: no element may lie beyond its bound. The bound is tight when the
//! largest ratio of error to bound in a tensor is not small: the median over tensors is printed. One line a combination, and the totals.

use anyhow::{Result, ensure};
use hipverify::check::Check;
use hipverify::device::{Layout, TensorMut};
use hipverify::dtype::{Overflow, Rounding};
use hipverify::fill::FillUniformRand;
use hipverify::matrix_core::{Arch, Model};
use hipverify::reference::{Accumulate, Gemm};
use hipverify::verify::bound::Confidence;
use hipverify::{DType, Device, DeviceMem, TensorRef};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Rows and columns of a result.
const SIDE: usize = 192;

/// Values of operands: uniform, powers of two whose exponents are uniform, or constant.
#[derive(Clone, Copy, Debug)]
enum Data {
    Uniform(f64, f64),
    Binades(f64),
    Constant,
}

const DATA: [Data; 5] = [Data::Uniform(-1.0, 1.0), Data::Uniform(0.0, 1.0), Data::Uniform(-24.0, 24.0), Data::Binades(6.0), Data::Constant];

fn main() -> Result<()> {
    let seconds = std::env::args().nth(1).map_or(Ok(20), |text| text.parse::<u64>())?;
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut totals: BTreeMap<(&str, String), (u64, u64, Vec<f64>)> = BTreeMap::new();
    let cases = cases()?;
    let mut round = 0;
    while round == 0 || Instant::now() < end {
        for (number, &(accumulate, dtypes, arch)) in cases.iter().enumerate() {
            // One kind of data and one k a round, so that a short run sees something of all.
            let data = DATA[(number + round) % DATA.len()];
            let k = [16, 64, 256, 1024][(number / 3 + round) % 4];
            let [a, b] = [0, 1].map(|which| operand(data, dtypes[which], SIDE * k, (2 * round + which) as u32));
            let [a, b] = [a?, b?];
            let tensor = |bytes, dtype, shape: [usize; 2]| TensorRef::from_host_bytes(bytes, dtype, Layout::contiguous(&shape)?);
            let (a, b) = (tensor(&a, dtypes[0], [SIDE, k])?, tensor(&b, dtypes[1], [k, SIDE])?);
            for output in [DType::F32, DType::F16, DType::Bf16] {
                let mut bytes = vec![0; SIDE * SIDE * output.unit_bytes()];
                let layout = Layout::contiguous(&[SIDE, SIDE])?;
                let mut d = TensorMut::from_host_bytes(&mut bytes, output, layout.clone())?;
                Gemm::new(accumulate).run(&a, &b, &mut d)?;
                let d = TensorRef::from_host_bytes(&bytes, output, layout)?;
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
    ensure!(beyond == 0, "a bound does not hold");
    Ok(())
}

/// An arithmetic, formats of operands, and the chip that a check is told.
type Case = (Accumulate, [DType; 2], Option<Arch>);

fn cases() -> Result<Vec<Case>> {
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

/// Values of a format, as bytes.
fn operand(data: Data, dtype: DType, n: usize, stream: u32) -> Result<Vec<u8>> {
    let (low, high) = match data {
        Data::Uniform(low, high) => (low, high),
        Data::Binades(_) | Data::Constant => (-1.0, 1.0),
    };
    let mut wide = DeviceMem::<f32>::new(&Device::host(), n)?;
    wide.fill(&FillUniformRand::new(low, high).seed(2026).stream(stream))?;
    let mut bytes = vec![0; n * dtype.unit_bytes()];
    let wide = wide.to_vec()?;
    for (i, &x) in wide.iter().enumerate() {
        let value = match data {
            Data::Uniform(..) => f64::from(x),
            // The sign and the significand from one draw, the exponent from its neighbour.
            Data::Binades(most) => f64::from(x) * (most * f64::from(wide[(i + 1) % n])).exp2(),
            Data::Constant => f64::from(wide[0]),
        };
        dtype.store_bits(&mut bytes, i, dtype.encode(value, Rounding::NearestEven, Overflow::Saturate));
    }
    Ok(bytes)
}
