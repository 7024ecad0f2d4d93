//! The comparison gives the report of the host on every GPU, bit for bit.

use crate::compare::{facts, fields, same_fields};
use crate::suite::tests;
use crate::target::Target;
use crate::tensors::{Lcg, elements, encode, repeat, view};
use anyhow::{Context, Result, ensure};
use hipverify::device::{Device, DeviceKind, DeviceMem, Layout, Stream};
use hipverify::dtype::{DType, F8E4M3, Overflow, Rounding, next_up};
use hipverify::fill::{FillSpec, fill};
use hipverify::verify::{Explain, Level, NonFinite, Options, Tolerance, VerifyPlan, gpu_reduce_max, gpu_verify_with};

tests! {
    Gpus: every_pair_of_formats, formats_of_4_bits, formats_of_two_widths, kinds_of_data_by_several_tolerances,
        options_and_odd_addresses, reports_that_are_not_explained, infinite_elements, maxima_that_blocks_find_late,
        padded_transposed_and_reversed_layouts, rows_of_every_format, large_tensors_of_bytes, pairs_of_bytes_met_late;
    Sweeps: every_format_at_every_boundary, bytes_by_many_tolerances;
    RealGpus: long_tensors, long_tensors_of_many_kinds, more_than_2_to_33_elements;
}

/// A comparison: formats, size and what else decides the report. Explained whatever the verdict, so that everything a report may have is compared.
pub struct Case {
    dtypes: [DType; 2],
    n: usize,
    options: Options,
    /// Bytes before the data.
    shift: usize,
    tolerance: [f64; 2],
    by_binade: bool,
}

impl Case {
    pub fn new(dtypes: [DType; 2], n: usize) -> Case {
        Case { dtypes, n, options: Options::default().explain(Explain::Always), shift: 0, tolerance: [1e-3, 1e-3], by_binade: false }
    }

    pub fn options(self, options: Options) -> Case {
        Case { options: options.explain(Explain::Always), ..self }
    }

    fn explain(self, explain: Explain) -> Case {
        Case { options: self.options.explain(explain), ..self }
    }

    fn shift(self, shift: usize) -> Case {
        Case { shift, ..self }
    }

    pub fn tolerance(self, tolerance: [f64; 2]) -> Case {
        Case { tolerance, ..self }
    }

    pub fn by_binade(self) -> Case {
        Case { by_binade: true, ..self }
    }

    /// Compares on the host and on the target. `wild` in 1000 elements have any pattern, the others are near a common value.
    pub fn check(&self, target: &Target, wild: u64) -> Result<()> {
        let make = |dtype: DType, seed| repeat(dtype, self.n, &near_and_wild(dtype, self.n.min(MADE), seed, wild));
        let [da, dr] = self.dtypes;
        self.compare(target, [&make(da, 11), &make(dr, 12)], &format!("{wild} in 1000 wild"))
    }

    pub fn compare(&self, target: &Target, data: [&[u8]; 2], what: &str) -> Result<()> {
        let Case { dtypes: [da, dr], n, options, shift, tolerance: [rtol, atol], by_binade } = self;
        let (found, expected) = (self.on(&target.device, data)?, self.on(&Device::host(), data)?);
        same_fields(&found, &expected).with_context(|| {
            format!("{da} against {dr}, {n} elements, {what}, {shift} bytes shifted, rtol {rtol}, atol {atol}, by binade {by_binade}, {options:?}")
        })
    }

    /// What a device says.
    fn on(&self, device: &Device, [a, r]: [&[u8]; 2]) -> Result<String> {
        let upload = |bytes: &[u8]| {
            let padded: Vec<u8> = std::iter::repeat_n(0u8, self.shift).chain(bytes.iter().copied()).collect();
            DeviceMem::from_slice(device, &padded)
        };
        let (a, r) = (upload(a)?, upload(r)?);
        let [a, r] = [view(&a, self.dtypes[0], self.n, self.shift)?, view(&r, self.dtypes[1], self.n, self.shift)?];
        let tolerance = Tolerance::new(self.tolerance[0], self.tolerance[1])?;
        let tolerance = if self.by_binade { tolerance.by_binade() } else { tolerance };
        let report = gpu_verify_with(&a, &r, &tolerance, &self.options)?;
        Ok(facts(report) + "\n" + &fields(&gpu_reduce_max(&r)?))
    }
}

/// Elements that are made; longer tensors repeat them.
const MADE: usize = 200_003;

/// `wild` in 1000 elements have any bit pattern; of the others two thirds are a value that depends on the index alone, one is a step above it.
pub fn near_and_wild(dtype: DType, n: usize, seed: u64, wild: u64) -> Vec<u8> {
    let (mut common, mut own) = (Lcg::new(1), Lcg::new(seed));
    elements(dtype, n, |_| {
        let bits = encode(dtype, 4.0 * common.unit());
        match own.next() % 1000 {
            x if x < wild => own.pattern(dtype),
            x if x % 3 == 0 => next_up(dtype, bits),
            _ => bits,
        }
    })
}

/// Sizes around what kernels cut a tensor into: vectors of 16 bytes, what 32 lanes load at once, 16 of those (of which one sum is made), several.
fn boundaries(dtype: DType) -> Vec<usize> {
    let vector = 128 / dtype.bits();
    let row = 32 * vector;
    let around = [vector, 2 * vector, row, 2 * row, 16 * row].into_iter().flat_map(|size| [size - 1, size, size + 1]);
    let mut sizes: Vec<usize> = around.chain([1, 3 * 16 * row + 7]).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// More elements than all lanes of the device have vectors; never a whole number of anything.
fn beyond_the_grid(target: &Target, dtypes: [DType; 2]) -> usize {
    let vector = 128 / dtypes[0].bits().min(dtypes[1].bits());
    (target.device.multiprocessors() << 12) * vector + 7 * vector / 3
}

const COMMON: [[DType; 2]; 10] = {
    use DType::*;
    [[F64, F64], [F32, F32], [F16, F16], [Bf16, Bf16], [F8E4M3, F8E4M3], [F8E5M2, F8E5M2], [I8, I8], [F16, F32], [Bf16, F32], [F32, F64]]
};

fn every_pair_of_formats(target: &Target) -> Result<()> {
    for (i, da) in DType::ALL.into_iter().enumerate() {
        for (j, dr) in DType::ALL.into_iter().enumerate().filter(|(j, _)| target.takes(i + j)) {
            // On the stand-in, which takes long, not every two formats whose numbers are in the kernels' tables, nor every two that are exchanged, the reference being the narrower one.
            let exchanged = da.bits().max(8) > dr.bits().max(8);
            let left_out = (da.bits() <= 8 && dr.bits() <= 8 && i.abs_diff(j) > 3) || (exchanged && (i + j) % 3 != 0);
            if !(target.is_standin() && left_out) {
                // More than a tile of 64 bits, which has 1,024 elements.
                let n = if da.bits().min(dr.bits()) == 64 { 1_101 } else { 801 };
                Case::new([da, dr], target.size(n, 3001)).check(target, 20)?;
            }
        }
    }
    Ok(())
}

/// Pairs of patterns are counted there: all of them, aligned and not, by counts, metrics and histograms.
fn formats_of_4_bits(target: &Target) -> Result<()> {
    for dtypes in [[DType::F4E2M1, DType::I4], [DType::I4, DType::F4E2M1], [DType::F4E2M1; 2], [DType::I4; 2]] {
        for (options, n) in [
            (Options::counts(), 33),
            (Options::default(), target.size(16_384 + 1, 5_000_001)),
            (Options::default().histograms(true), target.size(8_191, 16_383)),
        ] {
            Case::new(dtypes, n).options(options.clone()).check(target, 500)?;
            Case::new(dtypes, n).options(options.clone()).tolerance([0.25, 0.5]).by_binade().shift(1).check(target, 500)?;
            // Bounds of 0, everywhere and at zeros.
            Case::new(dtypes, n).options(options.clone()).tolerance([0.0, 0.0]).check(target, 500)?;
            Case::new(dtypes, n).options(options).tolerance([0.25, 0.0]).check(target, 500)?;
        }
    }
    // What a lane loads is less than a word.
    for dtypes in [[DType::F4E2M1, DType::F64], [DType::I64, DType::I4]] {
        Case::new(dtypes, 3_001).check(target, 500)?;
        Case::new(dtypes, 3_001).shift(1).check(target, 500)?;
        Case::new(dtypes, 3_001).options(Options::counts()).check(target, 500)?;
    }
    Ok(())
}

/// Pairs that are compared in f64 or as whole numbers have kernels by both widths.
fn formats_of_two_widths(target: &Target) -> Result<()> {
    use DType::{F8E5M2, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
    let pairs = [
        [I8, I32],
        [U32, U8],
        [I16, I32],
        [F16, U32],
        [F8E5M2, F64],
        [F64, F16],
        [I32, F32],
        [I32, F64],
        [F32, I64],
        [I8, U64],
        [I64, U16],
        [I32, I64],
    ];
    for (i, dtypes) in pairs.into_iter().enumerate() {
        for options in [Options::counts(), Options::default(), Options::default().histograms(true)] {
            Case::new(dtypes, 333 + i).shift(i % 2).options(options).check(target, 20)?;
        }
        Case::new(dtypes, 1_101).check(target, 20)?;
        let rows = Layout::strided(&[11, 101], &[104, 1], 3)?;
        compare_rows(target, dtypes, &rows, &[Options::counts(), Options::default()])?;
    }
    Ok(())
}

fn every_format_at_every_boundary(target: &Target) -> Result<()> {
    // How far a kernel goes depends on widths alone, and on whether zero may stand for what is not there.
    let widths = [DType::F64, DType::I64, DType::U64, DType::I32, DType::F32, DType::F16, DType::F8E4M3, DType::F8E8M0, DType::F4E2M1];
    for dtype in if target.is_standin() { &widths[..] } else { &DType::ALL[..] } {
        for n in boundaries(*dtype) {
            Case::new([*dtype; 2], n).check(target, 1)?;
        }
        Case::new([*dtype; 2], 1).options(Options::counts()).check(target, 0)?;
    }
    for dtype in widths {
        let n = beyond_the_grid(target, [dtype; 2]);
        Case::new([dtype; 2], n).check(target, 1)?;
        Case::new([dtype; 2], n).options(Options::counts()).check(target, 0)?;
    }
    Ok(())
}

/// Bounds that 8-bit elements reach exactly, that no f16 number is near, and that are beyond f16.
fn bytes_by_many_tolerances(target: &Target) -> Result<()> {
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
            for (n, wild) in [(target.size(1001, 40_001), 2), (target.size(1001, 700_001), 1000), (target.size(5001, 700_001), 0)] {
                Case::new([dtype; 2], n).options(Options::counts()).tolerance(tolerance).check(target, wild)?;
            }
        }
    }
    Ok(())
}

/// Kinds of data as kernels have them, and what is hard about each.
const KINDS: [(&str, &str); 11] = [
    ("unrelated", "every element differs"),
    ("rounded otherwise", "small differences everywhere"),
    ("noise", "differences of one size, whatever the number"),
    ("a step away", "all distances in ulps tie"),
    ("two steps at most", "many ties"),
    ("halfway", "references halfway between two numbers of the result's format, which are rounded to the even one"),
    ("zeros", "all relative differences tie"),
    ("zero references", "epsilon differences to zero, by the least binade, are beyond what is held of a maximum"),
    ("little", "the least numbers that the result's format has"),
    ("small", "a step away from its least normal numbers: what divisions leave underflows"),
    ("extreme", "one element in a hundred far away"),
];

/// An element of the result and one of the reference.
fn element(kind: &str, [da, dr]: [DType; 2], rng: &mut Lcg) -> [u64; 2] {
    let scale = if da.is_int() { 100.0 } else { 1.0 };
    let (x, y) = (scale * rng.unit(), scale * rng.unit());
    let least = da.float_format().map_or(1.0 / scale, |f| f.min_positive());
    let [result, reference] = match kind {
        "unrelated" => [x, y],
        "a third unrelated" => [if rng.one_in(3) { x } else { y }, y],
        "rounded otherwise" => [y * (1.0 + x * 1e-4), y],
        "noise" => [y + x * 1e-2, y],
        "a step away" | "two steps at most" => [y, y],
        "halfway" => {
            let below = encode(da, y);
            [y, (da.decode(below) + da.decode(next_up(da, below))) / 2.0]
        }
        "zeros" => [0.0, y],
        "zero references" => [x, if rng.one_in(2) { 0.0 } else { y }],
        "little" => [x * 40.0 * least, y * 40.0 * least],
        "small" => {
            let normal = da.float_format().map_or(1.0, |f| f64::from(f.min_exponent()).exp2());
            [normal * (1.0 + y.abs() / scale); 2]
        }
        "extreme" => [if x > 0.98 * scale { -scale * y.signum() } else { y }, y],
        other => unreachable!("{other}"),
    };
    let steps = match kind {
        "a step away" | "small" => 1,
        "two steps at most" | "halfway" => rng.next() % 3,
        _ => 0,
    };
    [(0..steps).fold(encode(da, result), |bits, _| next_up(da, bits)), encode(dr, reference)]
}

/// Both tensors of a kind of data, of `n` elements that repeat themselves.
fn kind_of_data(kind: &str, dtypes: [DType; 2], n: usize) -> [Vec<u8>; 2] {
    let mut rng = Lcg::new(5);
    let pairs: Vec<[u64; 2]> = (0..n.min(MADE)).map(|_| element(kind, dtypes, &mut rng)).collect();
    [0, 1].map(|side| repeat(dtypes[side], n, &elements(dtypes[side], pairs.len(), |i| pairs[i][side])))
}

/// Data in which many elements tie with the worst, or come close to it.
fn kinds_of_data_by_several_tolerances(target: &Target) -> Result<()> {
    for (i, dtypes) in COMMON.into_iter().enumerate() {
        for (_, (kind, why)) in KINDS.into_iter().enumerate().filter(|(j, _)| target.takes(i + j)) {
            for (k, n) in [target.size(1_003, 20_003), target.size(5_001, 700_001)].into_iter().enumerate() {
                let [a, r] = kind_of_data(kind, dtypes, n);
                let case = |tolerance| Case::new(dtypes, n).tolerance(tolerance);
                let cases = [case([1e-3, 1e-3]), case([0.0625, 1e-5]).by_binade(), case([0.0, 1e-3]), case([1e-2, 0.0])];
                // The stand-in takes long: two of them with the small size, another one with the large size.
                let taken = match (target.is_standin(), k) {
                    (false, _) => 0..cases.len(),
                    (true, 0) => 1..3,
                    (true, _) => 0..1,
                };
                for case in &cases[taken] {
                    case.compare(target, [&a, &r], &format!("{kind}: {why}"))?;
                }
            }
        }
    }
    Ok(())
}

fn options_and_odd_addresses(target: &Target) -> Result<()> {
    let all = [DType::F64, DType::F32, DType::F16, DType::Bf16, DType::F8E4M3, DType::F8E5M2Fnuz, DType::I8, DType::I32, DType::F4E2M1];
    for (i, dtype) in all.into_iter().enumerate() {
        for (_, n) in [target.size(2_011, 20_011), target.size(9_001, 700_001)].into_iter().enumerate().filter(|(j, _)| target.takes(i + j))
        {
            let case = || Case::new([dtype; 2], n);
            case().options(Options::default().histograms(true)).check(target, 500)?;
            case().options(Options::default().nonfinite(NonFinite::EqualWhenSame).first(64)).check(target, 900)?;
            case().options(Options::default().level(Level::Counts).first(0)).check(target, 30)?;
            case().shift(dtype.unit_bytes()).check(target, 30)?;
        }
    }
    let mixed = [[DType::F16, DType::F32], [DType::Bf16, DType::F32], [DType::F16, DType::F64], [DType::I8, DType::I32]];
    for (i, dtypes) in mixed.into_iter().enumerate() {
        for (_, n) in
            [target.size(1_001, 50_001), target.size(17_001, 700_001)].into_iter().enumerate().filter(|(j, _)| target.takes(i + j))
        {
            Case::new(dtypes, n).check(target, 30)?;
            Case::new(dtypes, n).options(Options::counts()).check(target, 30)?;
            Case::new(dtypes, n).shift(8).check(target, 30)?;
        }
    }
    // Each pair of widths, formats that kernels for 8 bits leave to others, and exact integers of one width and of two.
    let others = [
        [DType::F64, DType::F32],
        [DType::F32, DType::F64],
        [DType::F64, DType::F16],
        [DType::F8E8M0, DType::F16],
        [DType::I4, DType::F8E5M2],
        [DType::I16, DType::F32],
        [DType::I16, DType::I8],
        [DType::F16, DType::Bf16],
        [DType::F32, DType::Tf32],
        [DType::F8E4M3Fnuz, DType::F8E4M3Fnuz],
        [DType::F32, DType::F16],
        [DType::F32, DType::F8E4M3],
        [DType::F8E4M3, DType::F16],
        [DType::I8, DType::F32],
        [DType::I64, DType::I64],
        [DType::U64, DType::U64],
        [DType::I64, DType::I32],
    ];
    for (i, dtypes) in others.into_iter().enumerate() {
        for (j, options) in [Options::counts(), Options::default(), Options::default().histograms(true)].into_iter().enumerate() {
            let plain = Case::new(dtypes, 2_011).options(options.clone());
            let by_binade = Case::new(dtypes, 2_011).options(options).tolerance([0.25, 1e-3]).by_binade();
            for (_, case) in [plain, by_binade].into_iter().enumerate().filter(|(k, _)| target.takes(i + j + k)) {
                case.check(target, 30)?;
            }
        }
    }
    Ok(())
}

/// By the verdict, which one tolerance makes a pass and the other a failure, or never.
fn reports_that_are_not_explained(target: &Target) -> Result<()> {
    for dtypes in COMMON {
        for (tolerance, explain) in [([1e9, 1e9], Explain::OnFailure), ([0.0, 0.0], Explain::OnFailure), ([0.0, 0.0], Explain::Never)] {
            for n in [100, target.size(9_001, 700_001)] {
                Case::new(dtypes, n).tolerance(tolerance).explain(explain).check(target, 0)?;
            }
        }
    }
    Ok(())
}

/// Infinite ones alone: random patterns of formats above 8 bits are NaN where they are not finite.
fn infinite_elements(target: &Target) -> Result<()> {
    use DType::*;
    for dtypes in [[F32, F32], [F16, F16], [F64, F64], [Bf16, F32], [F16, Bf16], [F16, I16], [I16, Bf16]] {
        // Hardly any, and so many that a thread has several at a time.
        for period in [97, 3] {
            let infinite = |dtype: DType, side| {
                let number =
                    |i: usize| if i % period == side && !dtype.is_int() { f64::INFINITY } else { 1.0 + ((i + side) % 11) as f64 / 16.0 };
                elements(dtype, 2_011, |i| dtype.encode(number(i), Rounding::NearestEven, Overflow::Ieee))
            };
            let [a, r] = [infinite(dtypes[0], 0), infinite(dtypes[1], 5 % period)];
            for options in [Options::counts(), Options::default()] {
                Case::new(dtypes, 2_011).options(options).compare(target, [&a, &r], &format!("one in {period} infinite"))?;
            }
        }
    }
    Ok(())
}

fn padded_transposed_and_reversed_layouts(target: &Target) -> Result<()> {
    let x: Vec<f32> = (0..40 * 50 * 6).map(|i| (i * 7 % 1013) as f32).collect();
    let layouts = [
        ("padded", Layout::strided(&[6, 40, 47], &[2000, 50, 1], 2)),
        ("rows swapped", Layout::strided(&[40, 6, 50], &[50, 2000, 1], 0)),
        ("transposed", Layout::strided(&[50, 40, 6], &[1, 50, 2000], 0)),
        ("reversed", Layout::strided(&[6, 40, 50], &[-2000, 50, -1], 5 * 2000 + 49)),
        ("repeated", Layout::strided(&[3, 40, 50], &[0, 50, 1], 0)),
    ];
    for (what, layout) in layouts {
        let layout = layout?;
        let on = |device: &Device| -> Result<String> {
            let a = DeviceMem::from_slice(device, &x)?;
            let dense: Vec<f32> = (0..layout.elements()).map(|i| x[layout.index(i)] + if i % 977 == 5 { 0.5 } else { 0.0 }).collect();
            let r = DeviceMem::from_slice(device, &dense)?;
            let (a, r) = (a.strided(layout.clone())?, r.tensor(layout.shape())?);
            let explained = Options::default().explain(Explain::Always);
            let [forward, backward] = [(&a, &r), (&r, &a)].map(|(x, y)| gpu_verify_with(x, y, &Tolerance::exact(), &explained));
            let largest = gpu_reduce_max(&a)?;
            Ok(facts(forward?) + "\n" + &facts(backward?) + "\n" + &fields(&largest))
        };
        let host = on(&Device::host())?;
        ensure!(host.contains("verdict: Fail"), "{what}: the data have no differences");
        same_fields(&on(&target.device)?, &host).with_context(|| format!("{what}, {layout:?}"))?;
    }
    Ok(())
}

/// Rows that begin anywhere, short and long; and rows whose elements lie apart.
fn rows_of_every_format(target: &Target) -> Result<()> {
    use DType::{Bf16, F4E2M1, F8E4M3, F16, F32, F64, I64};
    let formats = [[F64, F32], [I64, I64], [F32, F32], [F16, F16], [Bf16, F32], [F8E4M3, F16], [F8E4M3, F8E4M3], [F4E2M1, F4E2M1]];
    for (i, [da, dr]) in formats.into_iter().enumerate() {
        let tile = 16 * 32 * 128 / da.bits().min(dr.bits());
        let apart = 2 * tile + 5;
        // In the last of these, whole loads of two rows of a tile lie inside a row.
        let layouts = [
            ([37, 301], [307, 1], 3),
            ([90, 41], [43, 1], 1),
            ([11, 301], [304, 1], 0),
            ([9, apart], [1, 9], 0),
            ([13, 60], [1, 17], 2),
            ([5, 1_301], [1_303, 1], 1),
        ];
        for (_, (shape, strides, offset)) in layouts.into_iter().enumerate().filter(|(j, _)| target.takes(i + j)) {
            let options = [Options::counts(), Options::default().histograms(true)];
            compare_rows(target, [da, dr], &Layout::strided(&shape, &strides, offset)?, &options)?;
        }
    }
    Ok(())
}

/// A result in this layout against a dense reference, of which most elements are those of the result: other neighbours would differ.
fn compare_rows(target: &Target, [da, dr]: [DType; 2], layout: &Layout, options: &[Options]) -> Result<()> {
    let n = layout.elements();
    let (padded, other) = (near_and_wild(da, layout.end(), 3, 10), near_and_wild(dr, n, 4, 10));
    let dense = elements(dr, n, |i| match i % 13 {
        5 => dr.load_bits(&other, i),
        _ => encode(dr, da.decode(da.load_bits(&padded, layout.index(i)))),
    });
    let on = |device: &Device| -> Result<String> {
        let (a, r) = (DeviceMem::from_slice(device, &padded)?, DeviceMem::from_slice(device, &dense)?);
        let (a, r) = (view(&a, da, layout.end(), 0)?.view(layout.clone())?, view(&r, dr, n, 0)?.view(Layout::contiguous(layout.shape())?)?);
        let report = |options: &Options| {
            let options = options.clone().explain(Explain::Always);
            Ok(facts(gpu_verify_with(&a, &r, &Tolerance::new(1e-3, 1e-3)?, &options)?))
        };
        Ok(options.iter().map(report).collect::<Result<Vec<_>>>()?.join("\n"))
    };
    same_fields(&on(&target.device)?, &on(&Device::host())?).with_context(|| format!("{da} against {dr}, {layout:?}"))
}

/// From 16 elements a thread on, two formats of 8 bits have kernels of their own: with NaN everywhere and hardly anywhere, many kinds of data, rows.
fn large_tensors_of_bytes(target: &Target) -> Result<()> {
    use DType::{Bool, F6E2M3, F8E4M3, F8E5M2, F8E5M2Fnuz, I8, U8};
    let n = target.size(26_001, 5_000_001);
    let options = [Options::counts(), Options::default(), Options::default().nonfinite(NonFinite::EqualWhenSame)];
    for dtypes in [[F8E4M3, F8E4M3], [F8E4M3, F8E5M2], [I8, U8], [F8E5M2Fnuz, F6E2M3], [Bool, I8]] {
        for (i, options) in options.iter().enumerate() {
            Case::new(dtypes, n).options(options.clone()).check(target, [10, 1000, 1000][i])?;
            Case::new(dtypes, n).options(options.clone()).tolerance([0.0625, 1e-3]).by_binade().shift(1).check(target, 300)?;
        }
    }
    for (_, (kind, why)) in KINDS.into_iter().enumerate().filter(|(i, _)| target.takes(*i)) {
        let [a, r] = kind_of_data(kind, [F8E4M3; 2], n);
        for options in &options[..2] {
            Case::new([F8E4M3; 2], n).options(options.clone()).compare(target, [&a, &r], &format!("{kind}: {why}"))?;
        }
    }
    for (shape, strides, offset) in [([90, 301], [307, 1], 3), ([90, 304], [320, 1], 0), ([60, 450], [1, 61], 2)] {
        compare_rows(target, [F8E5M2; 2], &Layout::strided(&shape, &strides, offset)?, &options[..2])?;
    }
    Ok(())
}

/// Pairs of bytes that subgroups of a block meet at the same time, in turns after the first: the one that is first may be met last. Each pair is alone in what it has: a maximum, a distance, a class.
fn pairs_of_bytes_met_late(target: &Target) -> Result<()> {
    // What the stand-in's two blocks of 8 subgroups read in a turn, each a tile.
    let (tile, turn) = (8_192, 2 * 8 * 8_192);
    let n = target.size(turn + 12 * tile + 77, 4_000_000);
    let pairs = [
        // In both blocks' parts of the beginning, of 2,048 elements each; and in one, and later.
        (2_050, [1.75, 1.0]),
        (1_900, [1.75, 1.0]),
        (3_900, [-2.0, 1.0]),
        (4 * tile + 5, [-2.0, 1.0]),
        // Its block has given it a code when it meets it again, alone in a tile: among the first mismatches that are listed, and later.
        (3, [2.0, 1.0]),
        (tile + 9, [2.0, 1.0]),
        (turn + 6 * tile + 9, [2.0, 1.0]),
        (turn + 3 * tile + 1, [1.5, 1.0]),
        (turn + 7_900, [1.5, 1.0]),
        (turn + 5 * tile, [-448.0, 448.0]),
        (turn + tile + 4_097, [-448.0, 448.0]),
        (turn + 9 * tile + 2, [f64::NAN, 2.0]),
        (turn + 8 * tile + 8_191, [f64::NAN, 2.0]),
        (n - 1, [0.5, -0.5]),
    ];
    let [a, r] = [0, 1].map(|side| {
        elements(DType::F8E4M3, n, |i| encode(DType::F8E4M3, pairs.iter().find(|(at, _)| *at == i).map_or(1.0, |p| p.1[side])))
    });
    for options in [Options::default(), Options::counts()] {
        Case::new([DType::F8E4M3; 2], n).options(options).compare(target, [&a, &r], "met by several subgroups")?;
    }
    Ok(())
}

/// A maximum of one metric alone, of a small reference in its binade, when blocks know the others already; twice, each read by another of the stand-in's two blocks. Then maxima that
/// a block finds after its first step, which has decided its thresholds.
fn maxima_that_blocks_find_late(target: &Target) -> Result<()> {
    // What blocks of 8 subgroups read in a turn, each a tile of 2048 elements.
    let (block, turn) = (8 * 2_048, 2 * 8 * 2_048);
    let small = 2f64.powi(-6) * (1.0 + 2f64.powi(-7));
    let pair = |i: usize| match i {
        10 => [-1_000.0, 1_000.0],
        11 => [1.9 * small + 0.9, 1.9 * small],
        _ if i == 4 * turn + block + 7 || i == 5 * turn + 5 => [small + 0.5, small],
        _ => [1.0; 2],
    };
    let n = 5 * turn + 1_000;
    let [a, r] = [0, 1].map(|side| elements(DType::F32, n, |i| encode(DType::F32, pair(i)[side])));
    Case::new([DType::F32; 2], n).tolerance([1e-3, 1.0]).compare(target, [&a, &r], "two equal relative differences")?;
    // What a block knows from the first pairs of each tile, those at multiples of 4: of equal maxima the first one is in the tile before, and further
    // apart is a pair of opposite signs that differs less.
    for (what, pairs) in [
        (
            "equal in two tiles of a block",
            vec![
                (8, [-1_000.0, 1_000.0]),
                (12, [1.9 * small + 0.9, 1.9 * small]),
                (1_000, [small + 0.5, small]),
                (3 * 2_048, [small + 0.5, small]),
            ],
        ),
        ("opposite signs", vec![(0, [5_000.0, 1_000.0]), (4, [1.0, 1e-6]), (8, [-2e-3, 2e-3]), (1_000, [-0.5, 9e-4])]),
        // It has no maximum, and needs no larger rtol.
        ("a larger atol", vec![(0, [101.05, 100.0]), (1, [0.5011, 0.0011]), (2, [0.9, 1e-9]), (1_000, [1.9515, 1.0])]),
    ] {
        let pair = |i: usize| pairs.iter().find(|(at, _)| *at == i).map_or([1.0; 2], |(_, pair)| *pair);
        let [a, r] = [0, 1].map(|side| elements(DType::F32, 4 * 2_048, |i| encode(DType::F32, pair(i)[side])));
        Case::new([DType::F32; 2], 4 * 2_048).tolerance([1e-3, 1.0]).compare(target, [&a, &r], what)?;
    }
    Ok(())
}

/// So long that groups of threads take several parts of a tensor in a row, and that not all take as many.
fn long_tensors(target: &Target) -> Result<()> {
    for (dtype, n) in [
        (DType::F64, 1 << 23),
        (DType::F32, 1 << 24),
        (DType::F16, (1 << 25) + 12_345),
        (DType::F8E4M3, 1 << 26),
        (DType::F64, (1 << 25) + 999),
    ] {
        Case::new([dtype; 2], n).check(target, 0)?;
    }
    Case::new([DType::F32; 2], (1 << 24) + 4_321).check(target, 1)
}

/// So long that what a thread has found so far decides what it does with most of its elements.
fn long_tensors_of_many_kinds(target: &Target) -> Result<()> {
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
            let [a, r] = kind_of_data(kind, [dtype; 2], n + 77);
            Case::new([dtype; 2], n + 77).tolerance(tolerance).compare(target, [&a, &r], kind)?;
        }
    }
    for dtypes in [[DType::F16, DType::F32], [DType::F8E4M3, DType::F16], [DType::Bf16, DType::F64]] {
        for kind in ["halfway", "two steps at most", "rounded otherwise"] {
            let [a, r] = kind_of_data(kind, dtypes, (1 << 25) + 77);
            Case::new(dtypes, (1 << 25) + 77).compare(target, [&a, &r], kind)?;
        }
    }
    Ok(())
}

/// Indices need more than 32 bits, and so do counts. It takes 16 GiB on the GPU and as much on the host, one after the other; without them it says so.
fn more_than_2_to_33_elements(target: &Target) -> Result<()> {
    let n = (1usize << 33) + 1_000;
    let wrong = [5, (1 << 32) + 3, (1 << 33) + 7, n - 1];
    let (free, _) = target.device.memory_info()?;
    if free < 2 * n + (4 << 30) {
        eprintln!("{}: {free} bytes are free, too few for two tensors of {n}", target.device);
        return Ok(());
    }
    let report = |device: &Device| -> Result<(u64, String)> {
        let uniform: FillSpec = "uniform:-1,1/seed=3".parse()?;
        let (mut a, mut r) = (DeviceMem::<F8E4M3>::new(device, n)?, DeviceMem::<F8E4M3>::new(device, n)?);
        a.fill(&uniform)?;
        r.fill(&uniform)?;
        for at in wrong {
            fill(&mut a.strided_mut(Layout::strided(&[1], &[1], at)?)?, &"constant:96".parse::<FillSpec>()?)?;
        }
        let options = Options::default().explain(Explain::Always);
        let report = gpu_verify_with(&a, &r, &Tolerance::new(1e-3, 1e-3)?, &options)?;
        ensure!(report.first.iter().map(|f| f.index).eq(wrong), "the first mismatches are {:?}", report.first);
        let facts = facts(report);
        if device.kind() != DeviceKind::Host {
            // Several launches, in a graph, whose report has no cause.
            let stream = Stream::new(device)?;
            let options = options.cause(false);
            let mut plan = VerifyPlan::new(device, &options)?;
            plan.reserve(DType::F8E4M3, DType::F8E4M3, n)?;
            let (mut graph, recorded) = stream.capture(|capture| plan.record(capture, &a, &r, &Tolerance::new(1e-3, 1e-3)?))?;
            graph.launch(&stream)?;
            let expected = gpu_verify_with(&a, &r, &Tolerance::new(1e-3, 1e-3)?, &options)?;
            same_fields(&self::facts(recorded.report(&graph)?), &self::facts(expected)).context("in a graph")?;
        }
        Ok((a.hash()?, facts))
    };
    let (found, expected) = (report(&target.device)?, report(&Device::host())?);
    ensure!(found.0 == expected.0, "the hash is {:#x}, the host's {:#x}", found.0, expected.0);
    same_fields(&found.1, &expected.1)
}
