//! Do the bounds of `verify::bound` hold, and are they tight? Measured on random products.
//!
//! `cargo run --release --example bounds [-- SECONDS [DEVICE [SIDE]]]`: on the host, with results of 192 x 192, or on `gpu:0`, with as many rows and columns as are asked for.
//!
//! Correct results of many arithmetics, formats and ranges are held against the bounds of `hipverify check gemm`: no element may lie beyond its bound. The bound is tight when the
//! largest ratio of error to bound in a tensor is not small: the median over tensors is printed. Each element beyond its bound is reported, then the totals; the last line has the
//! number of elements of the arithmetic and range, and of the bound, range and format of results, that had fewest.

use anyhow::{Result, ensure};
use hipverify::check::Check;
use hipverify::dtype::{Overflow, Rounding};
use hipverify::fill::FillUniformRand;
use hipverify::matrix_core::{Arch, Model};
use hipverify::reference::{Accumulate, Arithmetic, Gemm};
use hipverify::suite::Guard;
use hipverify::verify::bound::{Confidence, gpu_verify_bound};
use hipverify::{DType, Device, DeviceMem, Error, TensorRef};
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

/// The turns of the kinds of data. Constant operands have one bound where others have two, so that they come twice.
const TURNS: [usize; 6] = [0, 4, 1, 2, 4, 3];

/// The turns of the lengths of sums, longer ones less often as they cost more; their number has no factor in common with that of the data's turns, so that each kind of data meets each length.
const LENGTHS: [usize; 11] = [16, 256, 64, 1024, 16, 64, 256, 16, 64, 256, 64];

/// Formats of results.
const OUTPUTS: [DType; 3] = [DType::F32, DType::F16, DType::Bf16];

/// Bounds that are checked, and what the report calls them. Rounding errors of constant operands all point one way, so that they have no mean of zero: the first only.
const CONFIDENCES: [(&str, Confidence); 2] = [("worst case", Confidence::WorstCase), ("probable", Confidence::Exceeded(1e-6))];

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let seconds = arguments.first().map_or(Ok(20), |text| text.parse::<u64>())?;
    let device = Device::open(arguments.get(1).map_or("host", String::as_str))?;
    let side = arguments.get(2).map_or(Ok(192), |text| text.parse::<usize>())?;
    println!("{device}, results of {side} x {side}");
    let end = Instant::now() + Duration::from_secs(seconds);
    let cases = all_cases(&device)?;
    let mut bench = Bench::new(&device, side)?;
    let mut totals = Totals::default();
    let mut round = 0;
    while round == 0 || Instant::now() < end {
        for (number, (dtypes, cases)) in cases.iter().enumerate() {
            // One kind of data and one k a round, so that a short run sees something of all.
            let (which, k) = (TURNS[(number + round) % TURNS.len()], LENGTHS[(number + round) % LENGTHS.len()]);
            let a = operand(&device, DATA[which], dtypes[0], [side, k], 2 * round as u32)?;
            let b = operand(&device, DATA[which], dtypes[1], [k, side], 2 * round as u32 + 1)?;
            bench.check([&a.tensor()?, &b.tensor()?], cases, which, &mut totals)?;
        }
        round += 1;
    }
    let beyond = totals.print();
    let modes: usize = cases.iter().map(|(_, cases)| cases.len()).sum();
    // What was never seen has no entry, and counts 0.
    let fewest = |counts: Vec<u64>, of: usize| if counts.len() < of { 0 } else { counts.into_iter().min().unwrap_or(0) };
    let of_mode = fewest(totals.modes.into_values().collect(), modes * DATA.len());
    // Constant operands have one bound only.
    let of_bound = fewest(totals.bounds.into_values().collect(), (CONFIDENCES.len() * DATA.len() - 1) * OUTPUTS.len());
    println!(
        "{modes} arithmetics, {} ranges, {round} rounds: at least {of_mode} elements of each arithmetic in each range, {of_bound} of each bound in each range and format of results",
        DATA.len()
    );
    ensure!(beyond == 0, "a bound does not hold");
    Ok(())
}

/// An arithmetic, and the chip that a check is told.
type Case = (Accumulate, Option<Arch>);

/// What was checked.
#[derive(Default)]
struct Totals {
    /// By bound and format of results: elements beyond their bounds, and the largest ratio of each tensor.
    tensors: BTreeMap<(&'static str, usize), (u64, Vec<f64>)>,
    /// Elements by arithmetic, chip and formats of operands, and kind of data.
    modes: BTreeMap<(String, usize), u64>,
    /// Elements by bound, kind of data and format of results.
    bounds: BTreeMap<(&'static str, usize, usize), u64>,
}

impl Totals {
    /// Prints the totals by bound and format, and returns how many elements lie beyond their bounds.
    fn print(&mut self) -> u64 {
        let mut beyond = 0;
        for (&(name, output), (over, ratios)) in &mut self.tensors {
            ratios.sort_by(f64::total_cmp);
            let (tensors, median) = (ratios.len(), ratios[ratios.len() / 2]);
            let elements = DATA.iter().enumerate().filter_map(|(which, _)| self.bounds.get(&(name, which, output))).sum::<u64>();
            println!(
                "{name:<11} {:<5} {elements:>13} elements, {over} beyond their bounds; {tensors} tensors, median of the largest ratio {median:.3}",
                OUTPUTS[output].to_string()
            );
            beyond += *over;
        }
        beyond
    }
}

/// Memory that every check uses again.
struct Bench {
    device: Device,
    shape: [usize; 2],
    results: Vec<Guard>,
    reference: DeviceMem<f64>,
    magnitudes: DeviceMem<f64>,
}

impl Bench {
    fn new(device: &Device, side: usize) -> Result<Bench> {
        let shape = [side, side];
        let results = OUTPUTS.iter().map(|&output| Guard::new(device, output, &shape)).collect::<hipverify::Result<_>>()?;
        let exact = || DeviceMem::<f64>::new(device, side * side);
        Ok(Bench { device: device.clone(), shape, results, reference: exact()?, magnitudes: exact()? })
    }

    /// Holds the results of these arithmetics against their bounds. What is exact is made once for all that read operands alike.
    fn check(&mut self, [a, b]: [&TensorRef<'_>; 2], cases: &[Case], which: usize, totals: &mut Totals) -> Result<()> {
        let k = a.shape()[1];
        let mut made = None;
        for &(accumulate, arch) in cases {
            // Models of one chip and format read operands alike.
            if made != Some(arch) {
                Gemm::new(Arithmetic::from(accumulate).exact()).run(a, b, &mut self.reference.tensor_mut(&self.shape)?)?;
                Gemm::new(accumulate).magnitudes(a, b, &mut self.magnitudes.tensor_mut(&self.shape)?)?;
                made = Some(arch);
            }
            let (reference, magnitudes) = (self.reference.tensor(&self.shape)?, self.magnitudes.tensor(&self.shape)?);
            for (output, result) in self.results.iter_mut().enumerate() {
                Gemm::new(accumulate).run(a, b, &mut result.tensor_mut()?)?;
                let d = result.tensor()?;
                let confidences = if matches!(DATA[which], Data::Constant) { &CONFIDENCES[..1] } else { &CONFIDENCES[..] };
                for &(name, confidence) in confidences {
                    let check = Check::gemm(a, b, &d).confidence(confidence);
                    let bound = arch.into_iter().fold(check, Check::arch).bound()?;
                    let report = gpu_verify_bound(&d, &reference, &magnitudes, &bound)?;
                    let elements = report.elements as u64;
                    let (beyond, ratios) = totals.tensors.entry((name, output)).or_default();
                    *beyond += report.mismatches;
                    ratios.push(report.worst.as_ref().map_or(0.0, |w| w.ratio));
                    *totals.modes.entry((format!("{accumulate} {arch:?} {} {}", a.dtype(), b.dtype()), which)).or_default() += elements;
                    *totals.bounds.entry((name, which, output)).or_default() += elements;
                    if report.mismatches > 0 {
                        println!(
                            "{accumulate} of {} to {} on {}, {:?}, k {k}, {name}\n{report}",
                            a.dtype(),
                            d.dtype(),
                            self.device,
                            DATA[which]
                        );
                    }
                }
            }
        }
        Ok(())
    }
}

/// The arithmetics that the device has code for, by the formats of their operands, those of a chip one after the other.
fn all_cases(device: &Device) -> Result<Vec<([DType; 2], Vec<Case>)>> {
    // Accumulators of f16 overflow with some of the data.
    let models = Model::all().filter(|m| !m.input().name().contains("as_bf16") && m.accumulator() == DType::F32);
    let of_models = models.map(|m| (<[DType; 2]>::from(m.input().dtypes()), (Accumulate::MatrixCore(m), Some(m.arch()))));
    let formats = [DType::F32, DType::F16, DType::Bf16, DType::F8E4M3, DType::F8E5M2];
    let plain = formats.into_iter().flat_map(|dtype| Accumulate::PLAIN.map(|accumulate| ([dtype; 2], (accumulate, None))));
    let mut cases: Vec<([DType; 2], Vec<Case>)> = Vec::new();
    for (dtypes, case) in of_models.chain(plain) {
        if !runs_on(device, case.0, dtypes)? {
            println!("left out: {} of {dtypes:?}, which this device has no code for", case.0);
            continue;
        }
        match cases.iter_mut().find(|(of, _)| *of == dtypes) {
            Some((_, cases)) => cases.push(case),
            None => cases.push((dtypes, vec![case])),
        }
    }
    Ok(cases)
}

/// Whether the device has code for an arithmetic and these formats.
fn runs_on(device: &Device, accumulate: Accumulate, dtypes: [DType; 2]) -> Result<bool> {
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
