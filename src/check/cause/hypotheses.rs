//! Mistakes that kernels make, and what each gives: in the order of what they assume.

use super::CheckCause;
use super::sample::{Element, Sample};
use crate::check::problem::Kind;
use crate::check::products::{Products, Read};
use crate::device::Layout;
use crate::dtype::{DType, Overflow, Rounding, spacing};
use crate::parallel;
use crate::reference::{Direction, Epilogue, Lattice};

/// The first hypothesis that explains the sample.
pub(super) fn first(s: &Sample<'_>) -> Option<CheckCause> {
    follows(s)
        .or_else(|| terms(s))
        .or_else(|| window(s))
        .or_else(|| flipped_gradient(s))
        .or_else(|| parameters(s))
        .or_else(|| reads(s))
        .or_else(|| formats(s))
        .or_else(|| flushed(s))
        .or_else(|| stale_tiles(s))
        .or_else(|| ranges(s))
        .or_else(|| accumulators(s))
}

/// What a mistake gives.
type Formula<'a> = &'a dyn Fn(&Element) -> f64;

/// What follows the sum: something is missing, is there twice, or comes at the wrong place.
fn follows(s: &Sample<'_>) -> Option<CheckCause> {
    let product = s.problem.product()?;
    let (alpha, beta) = (s.alpha, s.beta);
    let (with_c, with_bias, last) = (product.c.is_some(), product.bias.is_some(), s.last != Epilogue::None);
    let mistakes: [(bool, &'static str, &str, Formula<'_>); 13] = [
        (with_bias, "bias", "the bias is missing", &|e| s.last_of(alpha * e.total() + beta * e.c)),
        (with_bias, "bias", "the bias is added twice", &|e| s.last_of(alpha * e.total() + beta * e.c + 2.0 * e.bias)),
        (with_c, "c", "C is missing", &|e| s.last_of(alpha * e.total() + e.bias)),
        (with_c && beta != 1.0, "c", "C is added without beta", &|e| s.last_of(alpha * e.total() + e.c + e.bias)),
        (with_c, "c", "beta C is added twice", &|e| s.last_of(alpha * e.total() + 2.0 * beta * e.c + e.bias)),
        (alpha != 1.0, "alpha", "alpha is missing", &|e| s.last_of(e.total() + beta * e.c + e.bias)),
        (alpha != 1.0, "alpha", "alpha is applied twice", &|e| s.last_of(alpha * alpha * e.total() + beta * e.c + e.bias)),
        (with_c && alpha != beta, "alpha", "alpha and beta are exchanged", &|e| s.last_of(beta * e.total() + alpha * e.c + e.bias)),
        (with_c && alpha != 1.0, "alpha", "alpha is applied to beta C as well", &|e| s.last_of(alpha * (e.total() + beta * e.c) + e.bias)),
        (with_bias && alpha != 1.0, "alpha", "alpha is applied to the bias as well", &|e| {
            s.last_of(alpha * (e.total() + e.bias) + beta * e.c)
        }),
        (last, "epilogue", "the last function is missing", &|e| alpha * e.total() + beta * e.c + e.bias),
        (last && with_bias, "epilogue", "the last function comes before the bias", &|e| s.last_of(alpha * e.total() + beta * e.c) + e.bias),
        (last && with_c, "epilogue", "the last function comes before C", &|e| s.last_of(alpha * e.total()) + beta * e.c + e.bias),
    ];
    mistakes
        .iter()
        .filter(|(applies, ..)| *applies)
        .find_map(|(_, kind, words, formula)| s.explained(kind, || (*words).to_owned(), formula))
        .or_else(|| bias_of_rows(s))
        .or_else(|| rounded_before(s))
}

/// The sum, rounded to the result's format before anything else: what is stored, and read by the next kernel, or of one part of k.
fn rounded_before(s: &Sample<'_>) -> Option<CheckCause> {
    let format = s.bound.rounding.filter(|_| is_followed(s) || s.last != Epilogue::None)?;
    let words = || {
        format!(
            "the sum is rounded to {format} before alpha, C, the bias or the last function (--split-k-in {format}, `Check::split_k`, or `split_k_in` in a suite's rule allows that)"
        )
    };
    s.explained("intermediate_in", words, |e| s.follows(e, s.rounded(e.total())))
}

/// The bias, added by rows. Of more rows than columns only the first have one: in the others a kernel adds what lies behind the bias, which says nothing.
fn bias_of_rows(s: &Sample<'_>) -> Option<CheckCause> {
    let numbers = s.problem.product()?.bias.as_ref()?.elements();
    let row = |e: &Element| s.source.row_and_column(e.index).0;
    let expected = |e: &Element| s.last_of(s.alpha * e.total() + s.beta * e.c + s.source.bias(row(e)));
    let found = s.explained_in("bias", |e| row(e) < numbers, |_, e| expected(e))?;
    let part = if s.elements.iter().all(|e| row(e) < numbers) { String::new() } else { format!(", in the first {numbers} rows") };
    Some(CheckCause { evidence: format!("the bias is that of rows, not of columns{part}: {}", found.evidence), ..found })
}

/// Depths of tiles of k.
const TILES: [usize; 10] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];

/// Runs of products that may be wrong at either end.
fn runs(s: &Sample<'_>) -> Vec<usize> {
    let k = s.problem.terms();
    let mut runs: Vec<usize> = TILES.into_iter().chain(TILES.map(|tile| k % tile)).chain(s.window()).collect();
    runs.retain(|&run| run > 0 && run < k);
    runs.sort_unstable();
    runs.dedup();
    runs
}

/// Products that are missing, or added twice.
fn terms(s: &Sample<'_>) -> Option<CheckCause> {
    let k = s.problem.terms();
    let products = |n: usize| if n == 1 { "product".to_owned() } else { format!("{n} products") };
    let hypothesis = |words: &dyn Fn() -> String, sum: &dyn Fn(&Element) -> f64| s.explained("terms", words, |e| s.follows(e, sum(e)));
    for run in runs(s) {
        let of = products(run);
        let are = if run == 1 { "is" } else { "are" };
        let found = hypothesis(&|| format!("the last {of} of each sum {are} missing"), &|e| e.up_to[k - run])
            .or_else(|| hypothesis(&|| format!("the first {of} of each sum {are} missing"), &|e| e.total() - e.up_to[run]))
            .or_else(|| hypothesis(&|| format!("nothing but the last {of} of each sum"), &|e| e.total() - e.up_to[k - run]))
            .or_else(|| hypothesis(&|| format!("nothing but the first {of} of each sum"), &|e| e.up_to[run]))
            .or_else(|| hypothesis(&|| format!("the first {of} of each sum {are} added twice"), &|e| e.total() + e.up_to[run]))
            .or_else(|| hypothesis(&|| format!("the last {of} of each sum {are} added twice"), &|e| 2.0 * e.total() - e.up_to[k - run]));
        if found.is_some() {
            return found;
        }
    }
    for parts in [2, 3, 4, 6, 8, 16].into_iter().filter(|&parts| parts <= k) {
        let length = k.div_ceil(parts);
        for part in 0..k.div_ceil(length) {
            let of = |e: &Element| e.up_to[k.min((part + 1) * length)] - e.up_to[part * length];
            let name = format!("part {} of {parts} of k", part + 1);
            let found = hypothesis(&|| format!("{name} is missing"), &|e| e.total() - of(e))
                .or_else(|| hypothesis(&|| format!("{name} is added twice"), &|e| e.total() + of(e)))
                .or_else(|| hypothesis(&|| format!("nothing but {name}"), &of));
            if found.is_some() {
                return found;
            }
        }
    }
    None
}

/// Fewest mismatches that tell one range of so many.
const LEAST_FOR_RANGES: usize = 16;
/// Cuts of k that are tried, at most: half a million ranges.
const CUTS: usize = 1024;

/// A range of products that begins and ends at any multiple of 16, as stream-K cuts k, is missing or added twice. Of several that explain the elements the one that leaves the least.
fn ranges(s: &Sample<'_>) -> Option<CheckCause> {
    let k = s.problem.terms();
    let tile = 16 * k.div_ceil(16 * CUTS).max(1).next_power_of_two();
    if s.elements.len() < LEAST_FOR_RANGES || k <= tile {
        return None;
    }
    let cuts: Vec<usize> = (0..k).step_by(tile).chain([k]).collect();
    let least = |found: Vec<(f64, CheckCause)>| found.into_iter().min_by(|one, other| one.0.total_cmp(&other.0));
    let that_begin = |first: usize| {
        // All of k is a factor of 0 or 2.
        let ends = cuts[first + 1..].iter().filter(|&&to| first > 0 || to < k);
        let ranges = ends.flat_map(|&to| [(to, -1.0, "missing"), (to, 1.0, "added twice")]);
        let found = |(to, times, what): (usize, f64, &str)| {
            let from = cuts[first];
            let expected = |e: &Element| s.follows(e, e.total() + times * (e.up_to[to] - e.up_to[from]));
            let found = s.explained("terms", || format!("products {from} to {} of each sum are {what}", to - 1), expected)?;
            Some((s.left_by(expected), found))
        };
        least(ranges.filter_map(found).collect())
    };
    let found = parallel::map(cuts.len() - 1, that_begin).into_iter().flatten().collect();
    least(found).map(|(_, cause)| cause)
}

/// The sum of products with changed factors.
fn sum(p: &Products, change: impl Fn(usize, f64, f64) -> f64) -> f64 {
    p.a.iter().zip(&p.b).enumerate().map(|(i, (&a, &b))| change(i, a, b)).sum()
}

/// The window of a convolution: flipped, or a position missing.
fn window(s: &Sample<'_>) -> Option<CheckCause> {
    let window = s.window().filter(|&window| window > 1)?;
    let flipped = |e: &Element| sum(&e.products, |i, a, _| a * e.products.b[i / window * window + (window - 1 - i % window)]);
    s.explained("filter", || "the filter is flipped".to_owned(), flipped).or_else(|| missing_position(s, window))
}

/// A position of the filter that is missing in every channel.
fn missing_position(s: &Sample<'_>, window: usize) -> Option<CheckCause> {
    let Kind::Conv(param, _) = &s.problem.kind else { return None };
    let filter = Layout::contiguous(param.filter_space()).ok()?;
    // What all channels add at each position, so that a position takes one subtraction.
    let at_positions = |e: &Element| {
        let mut sums = vec![0.0; window];
        e.products.a.iter().zip(&e.products.b).enumerate().for_each(|(i, (a, b))| sums[i % window] += a * b);
        sums
    };
    let sums: Vec<Vec<f64>> = s.elements.iter().map(at_positions).collect();
    // The ends first: loops miss these.
    [window - 1, 0].into_iter().chain(1..window - 1).find_map(|position| {
        let found = s.explained_by("terms", |i, e| e.total() - sums[i][position])?;
        let name = match position {
            0 => "the first position".to_owned(),
            last if last == window - 1 => "the last position".to_owned(),
            _ => format!("position {:?}", filter.coordinates(position)),
        };
        Some(CheckCause { evidence: format!("{name} of the filter is missing: {}", found.evidence), ..found })
    })
}

/// The gradient of a filter, with the positions of the filter in the opposite order.
fn flipped_gradient(s: &Sample<'_>) -> Option<CheckCause> {
    let Kind::Conv(param, direction @ Direction::BackwardWeight) = &s.problem.kind else { return None };
    let lattice = param.lattice();
    let (strides, extents) = (lattice.filter_at.space, lattice.filter);
    if extents.iter().product::<usize>() < 2 {
        return None;
    }
    let opposite = |index: usize| {
        (0..3).fold(index, |at, d| {
            let position = index / strides[d].max(1) % extents[d];
            at + (extents[d] - 1 - position) * strides[d] - position * strides[d]
        })
    };
    let of = |e: &Element| sum(&s.source.of_conv(opposite(e.index), &lattice, *direction), |_, a, b| a * b);
    s.explained("filter", || "the gradient of the filter is flipped".to_owned(), of)
}

/// A convolution of other parameters.
fn parameters(s: &Sample<'_>) -> Option<CheckCause> {
    let Kind::Conv(param, direction) = &s.problem.kind else { return None };
    let right = param.lattice();
    let mut other = right.clone();
    let pads = param.right_pads();
    let first = 3 - pads.len();
    other.padding[first..].copy_from_slice(pads);
    let hypothesis = |words: &str, lattice: &Lattice| {
        let of = |e: &Element| sum(&s.source.of_conv(e.index, lattice, *direction), |_, a, b| a * b);
        s.explained("parameters", || words.to_owned(), of)
    };
    let unpadded = Lattice { padding: [0; 3], ..right.clone() };
    let dense = Lattice { dilation: [1; 3], ..right.clone() };
    let exchanged = (other.padding != right.padding).then(|| hypothesis("left and right padding are exchanged", &other)).flatten();
    exchanged
        .or_else(|| (right.padding != [0; 3]).then(|| hypothesis("the image begins without its padding", &unpadded)).flatten())
        .or_else(|| (right.dilation != [1; 3]).then(|| hypothesis("the filter is not dilated", &dense)).flatten())
}

/// Operands of a matrix product that are read as if they were stored otherwise, or one k further.
fn reads(s: &Sample<'_>) -> Option<CheckCause> {
    let shifted = |of_a: bool| {
        let k = s.problem.terms();
        let words = if of_a { "factors of A are one k further than those of B" } else { "factors of B are one k further than those of A" };
        let of = move |e: &Element| {
            let Products { a, b } = &e.products;
            let (a, b) = if of_a { (&a[1..], &b[..k - 1]) } else { (&a[..k - 1], &b[1..]) };
            a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>()
        };
        s.explained("terms", || words.to_owned(), move |e| s.follows(e, of(e)))
    };
    otherwise_read(s).or_else(|| shifted(true)).or_else(|| shifted(false)).or_else(|| exchanged_factors(s))
}

/// Matrices of which one is read as another one, or another one of its batch.
fn otherwise_read(s: &Sample<'_>) -> Option<CheckCause> {
    const READS: [(Read, &str, &str); 5] = [
        (Read::AsTransposed, "", " is read as transposed"),
        (Read::Transposed, "", " is stored as transposed"),
        (Read::FirstMatrix, "all of the batch take the first matrix of ", ""),
        (Read::NextMatrix, "each of the batch takes the next matrix of ", ""),
        (Read::MatrixBefore, "each of the batch takes the matrix before its own of ", ""),
    ];
    s.problem.product()?;
    let is_batch = |which: usize| match s.problem.operands[which].shape() {
        [batch @ .., _, _] => batch.iter().product::<usize>() > 1,
        _ => false,
    };
    [(1, "B"), (0, "A")].into_iter().find_map(|(which, name)| {
        let reads = if is_batch(which) { &READS[..] } else { &READS[..2] };
        reads.iter().find_map(|(read, before, after)| {
            let mut reads = [Read::Right; 2];
            reads[which] = *read;
            let of = |e: &Element| s.follows(e, sum(&s.source.of_gemm(e.index, reads), |_, a, b| a * b));
            s.explained("operand", || format!("{before}{name}{after}"), of)
        })
    })
}

/// The factors of one operand in pairs, or runs of 2, 4 or 8 of them: the same sums whichever operand it is.
fn exchanged_factors(s: &Sample<'_>) -> Option<CheckCause> {
    s.problem.product()?;
    let k = s.problem.terms();
    [1, 2, 4, 8].into_iter().filter(|run| k.is_multiple_of(2 * run)).find_map(|run| {
        let words = || match run {
            1 => "factors of one operand are exchanged with their neighbours along k, as halves of bytes or words may be".to_owned(),
            run => format!("runs of {run} factors of one operand are exchanged with their neighbours along k"),
        };
        s.explained("operand", words, |e| s.follows(e, sum(&e.products, |i, a, _| a * e.products.b[i ^ run])))
    })
}

/// How factors become numbers of a format.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Conversion {
    /// To the nearest one, and to the even one of two.
    Rounded,
    /// The same, but to the one farther from zero of two.
    RoundedAway,
    /// Toward zero: low bits are cut off.
    Truncated,
}

impl Conversion {
    fn of(self, format: DType, x: f64) -> f64 {
        let to = |way: Rounding| format.rounded_by(x, way, Overflow::Saturate);
        match self {
            Conversion::Rounded => to(Rounding::NearestEven),
            Conversion::Truncated => to(Rounding::TowardZero),
            Conversion::RoundedAway => {
                let (nearest, below) = (to(Rounding::NearestEven), to(Rounding::TowardZero));
                if nearest == below && 2.0 * (x - below).abs() == spacing(format, x) { 2.0 * x - below } else { nearest }
            }
        }
    }

    fn words(self) -> &'static str {
        if self == Conversion::Truncated { "truncated" } else { "rounded" }
    }
}

/// What units and kernels make of operands: tf32 and bf16 are the upper bits of f32, which some of them cut off.
const CONVERSIONS: [(DType, Conversion); 10] = [
    (DType::F16, Conversion::Rounded),
    (DType::Tf32, Conversion::Rounded),
    (DType::Tf32, Conversion::RoundedAway),
    (DType::Tf32, Conversion::Truncated),
    (DType::Bf16, Conversion::Rounded),
    (DType::Bf16, Conversion::Truncated),
    (DType::F8E4M3, Conversion::Rounded),
    (DType::F8E5M2, Conversion::Rounded),
    (DType::F8E4M3Fnuz, Conversion::Rounded),
    (DType::F8E5M2Fnuz, Conversion::Rounded),
];

/// Which operands are converted.
const SIDES: [&str; 3] = ["operands are", "A is", "B is"];

/// Operands in another format, and how well that explains the elements.
struct Converted {
    format: DType,
    how: Conversion,
    side: usize,
    /// The cause, if it explains most elements one by one.
    found: Option<CheckCause>,
    /// The share of the root mean square error that is left.
    left: f64,
    /// The same of what no constant and no factor explains.
    left_beside_line: f64,
}

/// Each way to convert operands that have more digits.
fn converted(s: &Sample<'_>) -> Vec<Converted> {
    let digits = |d: DType| d.float_format().map_or(0, |f| f.mantissa_bits);
    let finest = s.problem.dtypes().map(digits).into_iter().max().unwrap_or(0);
    let coarser = CONVERSIONS.into_iter().filter(|&(format, _)| digits(format) < finest);
    let of_conversion = |(format, how): (DType, Conversion)| {
        let sums: Vec<[f64; 3]> = s.elements.iter().map(|e| sums_of_converted(&e.products, |x| how.of(format, x))).collect();
        let expected: Vec<[f64; 3]> = s.elements.iter().zip(sums).map(|(e, of)| of.map(|sum| s.follows(e, sum))).collect();
        [0, 1, 2].map(|side| {
            let numbers: Vec<f64> = expected.iter().map(|of| of[side]).collect();
            let found = s.explained_by("operands_in", |i, _| numbers[i]);
            Converted { format, how, side, found, left: s.left_of(&numbers), left_beside_line: s.left_beside_line(&numbers) }
        })
    };
    coarser.flat_map(of_conversion).collect()
}

/// The sums of products with both factors converted, those of A alone, and those of B alone.
fn sums_of_converted(p: &Products, convert: impl Fn(f64) -> f64) -> [f64; 3] {
    p.a.iter().zip(&p.b).fold([0.0; 3], |[both, first, second], (&a, &b)| {
        let (x, y) = (convert(a), convert(b));
        [both + x * y, first + x * b, second + a * y]
    })
}

/// How much more of the errors may be left by formats that are named beside the best one.
const ALIKE: f64 = 1.05;

/// How much of the errors may be left by a format that is the cause.
const MOST_LEFT: f64 = 0.5;

/// Operands in another format: of all that explain the elements, the one that leaves least of the errors, and those that cannot be told from it, as f16 and
/// tf32 have the same digits.
fn formats(s: &Sample<'_>) -> Option<CheckCause> {
    let mut candidates = converted(s);
    if candidates.iter().any(|c| c.found.is_some()) {
        candidates.retain(|c| c.found.is_some());
    }
    // The first of equal ones: where B has the format's numbers already, both operands are named and not A alone.
    let best = candidates.iter().min_by(|a, b| a.left.total_cmp(&b.left))?;
    // Low bits that are cut off take nearly the same from every sum of one sign. So does a bias, and a factor.
    if best.left_beside_line > MOST_LEFT {
        return None;
    }
    let words = format!("{} {} first", SIDES[best.side], names(&candidates, best));
    if let Some(found) = &best.found {
        return Some(CheckCause { evidence: format!("{words}: {}", found.evidence), ..found.clone() });
    }
    // Where the result's own rounding hides what single elements would show.
    let evidence = format!("{words}: that leaves {:.2} of the root mean square error", best.left);
    let most_is_gone = best.left <= MOST_LEFT && s.elements.len() >= 64;
    most_is_gone.then_some(CheckCause { kind: "operands_in", evidence, mismatches: s.elements.len(), explained: 0, compared: None })
}

/// What became of the operands, and everything that does nearly as well, such as `rounded to f16 or tf32`.
fn names(candidates: &[Converted], best: &Converted) -> String {
    let explained = |c: &Converted| c.found.as_ref().map_or(0, |found| found.explained);
    let is_alike = |c: &&Converted| c.side == best.side && c.left <= ALIKE * best.left && 100 * explained(c) >= 99 * explained(best);
    let mut alike: Vec<(&str, DType)> = candidates.iter().filter(is_alike).map(|c| (c.how.words(), c.format)).collect();
    alike.sort_by_key(|(how, _)| *how != best.how.words());
    alike.dedup();
    let mut text = String::new();
    let mut before = "";
    for (how, format) in alike {
        let joint = if text.is_empty() { "" } else { " or " };
        text += &if how == before { format!("{joint}{format}") } else { format!("{joint}{how} to {format}") };
        before = how;
    }
    text
}

/// Subnormal operands as zeros.
fn flushed(s: &Sample<'_>) -> Option<CheckCause> {
    let least = s.problem.dtypes().map(|d| d.float_format().map_or(0.0, |f| f.min_normal()));
    let keep = |least: f64, x: f64| if x.abs() < least { 0.0 } else { x };
    let flushed = |e: &Element| s.follows(e, sum(&e.products, |_, a, b| keep(least[0], a) * keep(least[1], b)));
    s.explained("operands_flushed", || "subnormal operands are taken as zeros".to_owned(), flushed)
}

/// The last tile of k with the factors of another one on one side: a barrier is missing.
fn stale_tiles(s: &Sample<'_>) -> Option<CheckCause> {
    let k = s.problem.terms();
    for tile in [8, 16, 32, 64, 128].into_iter().filter(|tile| 2 * tile <= k) {
        let kept = k - tile;
        for (from, which_tile) in [(kept - tile, "the tile before it"), (0, "the first tile")] {
            for (of_a, name) in [(true, "A"), (false, "B")] {
                let of = |e: &Element| {
                    let Products { a, b } = &e.products;
                    let (a, b) = if of_a { (&a[from..from + tile], &b[kept..]) } else { (&a[kept..], &b[from..from + tile]) };
                    s.follows(e, e.up_to[kept] + a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>())
                };
                let words = || format!("the last {tile} factors of {name} are those of {which_tile}");
                let found = s.explained("stale_tile", words, of);
                if found.is_some() {
                    return found;
                }
            }
        }
    }
    None
}

/// Sums in few bits: bit for bit where products are taken in ascending k, else by the size of the errors.
fn accumulators(s: &Sample<'_>) -> Option<CheckCause> {
    [DType::Bf16, DType::F16].into_iter().find_map(|format| rounded_in_tiles(s, format).or_else(|| by_size(s, format)))
}

/// Sums that are rounded to this format after each product, or after each tile of k, whose own sum may be rounded before it is added.
fn rounded_in_tiles(s: &Sample<'_>, format: DType) -> Option<CheckCause> {
    let k = s.problem.terms();
    TILES.into_iter().filter(|&tile| tile == 1 || tile < k).find_map(|tile| {
        let sum = |e: &Element, rounded: bool| {
            let tiles = e.products.a.chunks(tile).zip(e.products.b.chunks(tile));
            tiles.fold(0.0, |sum, (a, b)| {
                let part = a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
                format.rounded(sum + if rounded { format.rounded(part) } else { part })
            })
        };
        let words = || format!("sums are in {format}, rounded at each of {} steps", k.div_ceil(tile));
        [false, true].into_iter().find_map(|rounded| s.explained("accumulated_in", words, |e| s.follows(e, sum(e, rounded))))
    })
}

/// Errors as large as those of sums that are rounded to this format at each step.
fn by_size(s: &Sample<'_>, format: DType) -> Option<CheckCause> {
    let ratio = size_of_errors(s, format).filter(|ratio| (0.8..1.25).contains(ratio))?;
    // Fewer roundings to a coarser format make as large errors. Its numbers tell, where they show.
    let or_coarser = match format {
        DType::F16 if !shows_digits(s, DType::Bf16) => ", or in bf16 with fewer roundings",
        DType::F16 if holds(s, DType::Bf16) => return None,
        _ => "",
    };
    if is_followed(s) || holds(s, format) {
        let evidence = format!(
            "errors as sums in {format} make them{or_coarser}: their root mean square is {ratio:.2} of what its roundings add up to"
        );
        return Some(CheckCause { kind: "accumulated_in", evidence, mismatches: s.elements.len(), explained: 0, compared: None });
    }
    None
}

/// Whether anything follows the sums, so that results are no numbers of the accumulator.
fn is_followed(s: &Sample<'_>) -> bool {
    s.alpha != 1.0 || s.elements.iter().any(|e| e.bias != 0.0 || s.beta * e.c != 0.0)
}

/// Whether results that are sums in more digits than this format's are no numbers of it: nothing follows, and the last rounding leaves more.
fn shows_digits(s: &Sample<'_>, format: DType) -> bool {
    let digits = |d: DType| d.float_format().map_or(0, |f| f.mantissa_bits);
    !is_followed(s) && s.bound.rounding.is_none_or(|last| digits(last) > digits(format))
}

/// Whether results are numbers of this format.
fn holds(s: &Sample<'_>, format: DType) -> bool {
    let held = s.elements.iter().filter(|e| format.rounded(e.result) == e.result).count();
    20 * held >= 19 * s.elements.len()
}

/// The errors of elements, and their references, over the root mean square error that sums have which are rounded to this format at each step.
pub(super) fn in_steps(s: &Sample<'_>, format: DType) -> (Vec<f64>, Vec<f64>) {
    let ulp = |x: f64| if x == 0.0 { 0.0 } else { spacing(format, x) };
    // Evenly spread over a unit in the last place of each partial sum.
    let expected = |e: &Element| s.alpha.abs() * (e.up_to.iter().map(|x| ulp(*x) * ulp(*x)).sum::<f64>() / 12.0).sqrt();
    s.elements.iter().map(|e| ((e.result - e.reference) / expected(e), e.reference / expected(e))).unzip()
}

/// The root mean square error over that of sums that are rounded to this format at each step; `None` where errors have a sign, follow the result, or most elements have none to speak of.
fn size_of_errors(s: &Sample<'_>, format: DType) -> Option<f64> {
    let n = s.elements.len();
    if n < 64 || s.share < 0.75 || s.alpha == 0.0 || s.last != Epilogue::None {
        return None;
    }
    let (scaled, references) = in_steps(s, format);
    let mean = |x: &[f64]| x.iter().sum::<f64>() / n as f64;
    let square = |x: &[f64]| x.iter().map(|x| x * x).sum::<f64>() / n as f64;
    let common = scaled.iter().zip(&references).map(|(e, r)| e * r).sum::<f64>() / n as f64;
    let rms = square(&scaled).sqrt();
    let chance = 4.0 / (n as f64).sqrt();
    let none = mean(&scaled).abs() < chance * rms && common.abs() < chance * rms * square(&references).sqrt();
    (rms.is_finite() && none).then_some(rms)
}
