//! Which causes the reports of broken kernels name, and whether they are right.

use super::broken;
use super::correct::{self, mean_factor};
use super::problem::{Formats, Input, Operation, Problem};
use hipverify::check::Check;
use hipverify::device::Layout;
use hipverify::dtype::{Overflow, Rounding};
use hipverify::reference::Direction;
use hipverify::verify::{Options, Tolerance, gpu_verify_with_earlier};
use hipverify::{DType, Result, TensorRef};
use std::collections::BTreeMap;

/// Defects, and the causes that describe them. Of the others no cause is known to the library, and any that it names is wrong.
const RIGHT: &[(&[&str], &[&str])] = &[
    (
        &["zeros", "last row not written", "last column not written", "last vector of a row not written", "one tile not written"],
        &["unwritten"],
    ),
    (&["negated"], &["negated"]),
    (
        &[
            "times 1.05",
            "times 0.72",
            "fp8 scale of 240 for 224",
            "fp8 scale of 448 for 240",
            "fnuz read as OCP",
            "every 7th element doubled",
        ],
        &["scaled"],
    ),
    (&["mean over one too many", "mean over the padded count", "GELU without its half"], &["scaled"]),
    (&["truncated, not rounded"], &["truncated"]),
    // What underflows on the way is zero.
    (&["through a coarser format", "through fp8"], &["through", "unwritten"]),
    (&["intermediate in bf16", "softmax with exp in bf16"], &["intermediate_in", "through", "unwritten"]),
    // A sum in few bits stops growing.
    (&["accumulated in f16", "accumulated in bf16"], &["accumulated_in", "low_precision", "saturated", "unwritten"]),
    (&["inputs through bf16", "inputs through fp8"], &["operands_in", "low_precision", "unwritten", "nan"]),
    (&["subnormal inputs flushed"], &["operands_flushed", "low_precision", "unwritten", "nan"]),
    // Told by operands alone.
    (&["first tile of A read again for the last"], &["stale_tile"]),
    (&["B read as transposed"], &["operand"]),
    (&["filter flipped"], &["filter"]),
    (&["first 256 terms only"], &["terms"]),
    (&["one NaN", "NaN over a row", "softmax without the maximum"], &["nan", "overflowed"]),
    (&["one element with a flipped bit"], &["region"]),
    // Of a column of equal numbers nothing is where it was.
    (&["an earlier output", "one tile of an earlier output"], &["stale"]),
    (&["added to what was there"], &["added_to_earlier"]),
    (&["one tile from its neighbour", "shifted by one row", "shifted by one column"], &["shifted"]),
    // Of a column of numbers the first row is one value.
    (&["first row everywhere"], &["repeated", "unwritten"]),
    (&["neighbouring columns exchanged"], &["exchanged", "permuted"]),
    (&["transposed"], &["transposed"]),
    (
        &[
            "last tile of K missing",
            "last tile of K only",
            "last term missing",
            "tail of K missing",
            "first term twice",
            "a part of split-k dropped",
            "a part of split-k added twice",
            "first tile of A read again for the last",
            "last tap of the filter missing",
            "last channel missing",
        ],
        &["terms", "share"],
    ),
    (&["accumulator starts at 1"], &["offset"]),
    (
        &[
            "online softmax that is not rescaled",
            "softmax sum with padding",
            "softmax sum without the last element",
            "norm without epsilon",
            "norm without the root",
            "norm with epsilon outside the root",
            "norm over one too few",
            "norm without the mean",
            "norm by squares in bf16",
        ],
        &["by_slice", "scaled", "overflowed"],
    ),
    // Near 0 each side of the argument's sign is a straight line.
    (&["steeper where negative"], &["scaled"]),
];

/// Reports of one defect by what they name.
#[derive(Clone, Copy, Debug, Default)]
struct Named {
    right: u64,
    unknown: u64,
    wrong: u64,
}

/// Seeds of the data: limits of statistics were chosen with the first in view, and never with the second.
pub const SEEDS: [u64; 2] = [2026, 77];

/// Who looks for causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// A comparison with a reference, by the library's default.
    Comparison,
    /// A check of products, which has their operands.
    Check,
}

/// What the reports of failing results name, in words: of all problems, or of a sample in one pair of formats and of one kind of input.
pub fn measured(by: By, sample: bool, seed: u64) -> Result<String> {
    let mut by_defect: BTreeMap<&'static str, Named> = BTreeMap::new();
    let (formats, inputs) = if sample { (&Formats::ALL[..1], &Input::ALL[..1]) } else { (&Formats::ALL[..], &Input::ALL[..]) };
    for &formats in formats {
        for &input in inputs {
            for operation in Operation::ALL.into_iter().filter(|operation| by == By::Comparison || operation.is_product()) {
                problem(by, &Problem::new(operation, input, formats, seed)?, &mut by_defect)?;
            }
        }
    }
    Ok(if sample { summary(&by_defect) } else { summary(&by_defect) + &lists(&by_defect) })
}

fn problem(by: By, p: &Problem, by_defect: &mut BTreeMap<&'static str, Named>) -> Result<()> {
    let exact: Vec<f32> = correct::exact(p).into_iter().map(|x| x as f32).collect();
    for result in correct::all(p)? {
        if let Some(kind) = kind(by, p, &p.store(&result, Rounding::NearestEven), &exact)? {
            by_defect.entry("correct kernels").or_default().wrong += u64::from(kind != "unknown");
        }
    }
    for defect in broken::all() {
        let Some(result) = defect.run(p)? else { continue };
        let Some(kind) = kind(by, p, &result, &exact)? else { continue };
        let named = by_defect.entry(defect.name).or_default();
        let describes = |(defects, kinds): &(&[&str], &[&str])| defects.contains(&defect.name) && kinds.contains(&kind);
        match kind {
            _ if RIGHT.iter().any(describes) => named.right += 1,
            // A region is where, and right: the cause stays unknown.
            "unknown" | "region" => named.unknown += 1,
            _ => named.wrong += 1,
        }
    }
    Ok(())
}

fn summary(by_defect: &BTreeMap<&'static str, Named>) -> String {
    let sum = |of: fn(&Named) -> u64| by_defect.values().map(of).sum::<u64>();
    let (right, unknown, wrong) = (sum(|n| n.right), sum(|n| n.unknown), sum(|n| n.wrong));
    let all = right + unknown + wrong;
    let percent = |n: u64| format!("{:.1} %", 100.0 * n as f64 / all as f64);
    format!(
        "Of {all} failing results of broken kernels the report names a right cause for {right} ({}), none for {unknown} ({}), a wrong one for \
         {wrong} ({}).\n",
        percent(right),
        percent(unknown),
        percent(wrong),
    )
}

/// The defects without a cause, and those with a wrong one.
fn lists(by_defect: &BTreeMap<&'static str, Named>) -> String {
    let list = |of: fn(&Named) -> u64| {
        let named: Vec<String> = by_defect.iter().filter(|(_, n)| of(n) > 0).map(|(name, n)| format!("{name} ({})", of(n))).collect();
        named.join(", ")
    };
    format!("\n* None: {}.\n* A wrong one: {}.\n", list(|n| n.unknown), list(|n| n.wrong))
}

/// The cause that the report of a failure names, as a word.
fn kind(by: By, p: &Problem, result: &[u8], exact: &[f32]) -> Result<Option<&'static str>> {
    let layout = || Layout::contiguous(&[p.rows, p.columns]);
    let result = TensorRef::from_host_bytes(result, p.formats.output, layout()?)?;
    let earlier = p.store(&p.stale, Rounding::NearestEven);
    let earlier = TensorRef::from_host_bytes(&earlier, p.formats.output, layout()?)?;
    if by == By::Check {
        return checked(p, &result, &earlier);
    }
    let reference = TensorRef::from_host_bytes(bytemuck::cast_slice(exact), DType::F32, layout()?)?;
    let tolerance = Tolerance::rounding(p.formats.output, DType::F32, p.k);
    let report = gpu_verify_with_earlier(&result, &reference, &earlier, &tolerance, &Options::default())?;
    Ok(report.cause.map(|cause| cause.kind()))
}

/// That of a check, where it fails.
fn checked(p: &Problem, result: &TensorRef<'_>, earlier: &TensorRef<'_>) -> Result<Option<&'static str>> {
    let dtype = p.formats.input;
    let bytes = |values: &[f32]| {
        let mut bytes = vec![0; values.len() * dtype.unit_bytes()];
        for (i, &x) in values.iter().enumerate() {
            dtype.store_bits(&mut bytes, i, dtype.encode(f64::from(x), Rounding::NearestEven, Overflow::Ieee));
        }
        bytes
    };
    let tensor = |bytes, shape: &[usize]| TensorRef::from_host_bytes(bytes, dtype, Layout::contiguous(shape)?);
    let report = if p.operation == Operation::Convolution {
        let (image, filter) = (bytes(&p.pixels), bytes(&p.a));
        let (image, filter) = (tensor(&image, &[p.pixels.len()])?, tensor(&filter, &[p.a.len()])?);
        let flat = || Layout::contiguous(&[p.rows * p.columns]);
        let (result, earlier) = (result.view(flat()?)?, earlier.view(flat()?)?);
        Check::conv(p.convolution()?, Direction::Forward, &image, &filter, &result).earlier(&earlier).run()?
    } else {
        let (a, b) = (bytes(&p.a), bytes(&p.b));
        let (a, b) = (tensor(&a, &[p.rows, p.k])?, tensor(&b, &[p.columns, p.k])?);
        Check::gemm(&a, &b, result).transpose_b(true).alpha(mean_factor(p)).earlier(earlier).run()?
    };
    Ok(if report.passed() { None } else { Some(report.cause.map_or("unknown", |cause| cause.kind)) })
}
