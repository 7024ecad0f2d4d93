//! Whether a comparison could fail at all: which broken results would pass in the place of this one.
//!
//! A tolerance that passes zeros, or the reference with its sign turned round, says nothing about a kernel. What is tried are mutations of the
//! reference itself:
//!
//! * *errors of one size*, a = (1 + e)·r: e = -1 is a result of zeros, -2 a negated one. All that a verdict rests on follows from what the first pass
//!   found: |a - r| = |e|·|r| is within fma(rtol, |r|, atol) for every element if it is for the largest, or if |e| <= rtol; sums and maxima scale. So these cost nothing. Where
//!   binades count, when the largest element fails, so does the mutation; when it passes, so do the others where even numbers at the upper end of the binade below would.
//! * *displacements*: rows or columns shifted by one, transposed, reversed. They are views of the reference's memory, compared with it on its
//!   device by the same kernels ([`Options::power`](super::Options::power)); a part of the tensor first, of all displacements at once, which is mostly enough. They are left out
//!   where errors of one size have shown already that a pass is not to be trusted.
//! * *one element* off by so many numbers of the result's format, the largest: follows from its value.
//! * *an earlier output*, where [one is given](super::gpu_verify_with_earlier): a comparison more.

mod ulps;

#[cfg(test)]
mod tests;

use super::options::{AllowedMismatches, Explain, Judge, Judged, Request, Thresholds};
use super::rule::{NonFinite, Rule, least_near};
use super::values::{Maxima, Metric, Values};
use crate::device::{Layout, TensorRef};
use crate::dtype::{DType, PairArithmetic};
use crate::error::Result;
use std::fmt;

/// What is done to the reference to get a result that is wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Mutation {
    /// Zeros: what a kernel leaves that writes nothing.
    Zeros,
    /// The opposite sign everywhere.
    Negated,
    /// Each element times a constant.
    Scaled(f64),
    /// Each element off by the unit roundoff of a format coarser than the result's: the most that rounding to it changes.
    Rounded(DType),
    /// Row i + 1 in the place of row i, along the last dimension but one.
    RowsShifted,
    /// Element i + 1 in the place of element i, along the last dimension.
    ColumnsShifted,
    /// The last two dimensions exchanged, of equal extents.
    Transposed,
    /// The elements in the opposite order.
    Reversed,
    /// An earlier output of the kernel: what is there when it does not write.
    Earlier,
    /// The last products of each sum left out, so many.
    Shortened(usize),
}

impl fmt::Display for Mutation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mutation::Zeros => f.write_str("zeros"),
            Mutation::Negated => f.write_str("negated"),
            Mutation::Scaled(factor) => write!(f, "x{factor}"),
            Mutation::Rounded(dtype) => write!(f, "rounded to {dtype}"),
            Mutation::RowsShifted => f.write_str("rows shifted by one"),
            Mutation::ColumnsShifted => f.write_str("columns shifted by one"),
            Mutation::Transposed => f.write_str("transposed"),
            Mutation::Reversed => f.write_str("reversed"),
            Mutation::Earlier => f.write_str("the earlier output"),
            Mutation::Shortened(terms) => write!(f, "the last {terms} of k left out"),
        }
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Mutation {
    fn serialize<S: serde::Serializer>(&self, s: S) -> std::result::Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

/// What a comparison could tell from its reference.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Power {
    /// Finite pairs whose reference is not zero; `None` when only counts were asked for.
    pub nonzero: Option<u64>,
    /// How many of these a result of zero would pass at; `None` when only counts were asked for.
    pub zero_passes: Option<u64>,
    /// The smallest e for which a result of (1 + e) times the reference fails; infinite when none does. By [binade](super::Tolerance::by_binade) the smallest for which its largest
    /// element does, and likewise where the epsilon difference decides: smaller elements may fail from up to half of that on. `None` where [some elements may fail](super::Options::allow_mismatches), and how many would is not counted.
    #[cfg_attr(feature = "serde", serde(serialize_with = "super::render::json_optional_number"))]
    pub smallest_error: Option<f64>,
    /// By how many numbers of the result's format the reference's largest element has to be off, away from zero, for the comparison to fail; `None` where nothing
    /// that the format has does.
    pub smallest_ulps: Option<u64>,
    /// Mutations that would fail.
    pub found: Vec<Mutation>,
    /// Mutations that would pass.
    pub missed: Vec<Mutation>,
    /// Displacements that leave the reference as it is: a kernel that makes such a mistake would not be found by these data, whatever the tolerance.
    pub unchanged: Vec<Mutation>,
}

/// What a mutation of the reference does to the verdict.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Effect {
    Fails,
    Passes,
    /// It is the reference still.
    Nothing,
}

impl Effect {
    pub(super) fn of_pass(passes: bool) -> Effect {
        if passes { Effect::Passes } else { Effect::Fails }
    }
}

impl Power {
    /// What follows from the values of a comparison of a result and a reference of these formats.
    pub(super) fn of(values: &Values, request: &Request, [dtype, reference]: [DType; 2], elements: usize) -> Power {
        let finite = elements as u64 - values.nonfinite_pairs;
        let counted = |n: u64| request.all.then_some(n);
        let off_by = |error: f64| OffBy::of(error, values, request, dtype, finite);
        let finite_zeros = values.zeros[1] - values.nonfinite_zeros;
        let mut power = Power {
            nonzero: counted(finite.saturating_sub(finite_zeros)),
            zero_passes: counted(values.zero_passes.saturating_sub(finite_zeros)),
            smallest_error: smallest_error(expected_error(values, request, dtype, elements), |error| {
                off_by(error).largest_passes(request, elements)
            }),
            smallest_ulps: ulps::smallest(values, request, [dtype, reference], elements),
            found: Vec::new(),
            missed: Vec::new(),
            unchanged: Vec::new(),
        };
        // A reference of zeros is the same whatever it is multiplied by.
        if values.max_magnitude[1] > 0.0 {
            let rounded = coarser(dtype).and_then(|d| Some((Mutation::Rounded(d), d.float_format()?.unit_roundoff())));
            let errors =
                [(Mutation::Zeros, -1.0), (Mutation::Negated, -2.0), (Mutation::Scaled(1.05), 0.05), (Mutation::Scaled(0.72), -0.28)];
            for (mutation, error) in errors.into_iter().chain(rounded) {
                let passes = off_by(error).passes(request, elements);
                passes.into_iter().for_each(|passes| power.add(mutation, Effect::of_pass(passes)));
            }
        }
        power
    }

    pub(super) fn add(&mut self, mutation: Mutation, effect: Effect) {
        let of_effect = match effect {
            Effect::Fails => &mut self.found,
            Effect::Passes => &mut self.missed,
            Effect::Nothing => &mut self.unchanged,
        };
        of_effect.push(mutation);
    }
}

/// The smallest error that fails, which is expected near `expected`; `None` where of smaller ones nobody knows.
fn smallest_error(expected: f64, passes: impl Fn(f64) -> Option<bool>) -> Option<f64> {
    let fails = |error| passes(f64::from_bits(error)) == Some(false);
    let smallest = f64::from_bits(least_near(0, f64::INFINITY.to_bits(), expected.to_bits(), fails));
    (smallest == 0.0 || passes(smallest.next_down()).is_some()).then_some(smallest)
}

/// The largest error that passes, but for rounding and for elements that may fail: where the search for the smallest one that fails begins. What it says decides about the time of the search only.
fn expected_error(values: &Values, request: &Request, dtype: DType, elements: usize) -> f64 {
    let (max, [.., sum_rr]) = (values.max_magnitude[1], values.sums);
    let rule = Rule::<f64>::new(request, dtype);
    let by_elements = rule.bound(rule.rtol, max, rule.atol) / max;
    let Thresholds { rms, absolute, relative, relative_old, epsilon, relative_l1, relative_l2 } = request.thresholds;
    let of_rms = rms * max * (elements as f64 / sum_rr).sqrt();
    let of_epsilon = epsilon / rule.epsilons(rule.binades_apart(max, max, rule.binades()));
    let by_thresholds =
        [of_rms, absolute / max, relative, relative_old, of_epsilon, relative_l1, relative_l2].into_iter().fold(f64::INFINITY, f64::min);
    let expected = match request.judge {
        Judge::Elements => by_elements,
        Judge::Thresholds => by_thresholds,
        Judge::Both => by_elements.min(by_thresholds),
    };
    if expected >= 0.0 { expected } else { 0.0 }
}

/// Mismatches that nobody has counted: more than any rule allows.
const MANY: u64 = u64::MAX / 2;

/// What is known of a comparison of (1 + error)·r with r.
struct OffBy {
    /// Where the largest element decides alone.
    values: Values,
    /// How many more mismatches there may be than were counted.
    uncounted: u64,
    /// Where smaller elements do, which are further off in their binades.
    others: Values,
}

impl OffBy {
    /// Given the values of the comparison of another result with r. What is not finite in the reference stays so.
    fn of(error: f64, values: &Values, request: &Request, dtype: DType, finite: u64) -> OffBy {
        let (e, max) = (error.abs(), values.max_magnitude[1]);
        let [.., sum_r, sum_rr] = values.sums;
        let rule = Rule::<f64>::new(request, dtype);
        // What the largest element says of the others, or not.
        let within = e <= request.rtol && !request.by_binade || e * max <= rule.bound(rule.rtol, max, rule.atol);
        let zeros_fail = if request.all { finite.saturating_sub(values.zero_passes) } else { 0 };
        // Zeros were tried, but where only the result is not finite; errors of other sizes were tried nowhere.
        let counted = e == 1.0 && request.all;
        let uncounted = if counted { values.nonfinite_pairs - nonfinite(values) } else { MANY };
        let (finite_mismatches, uncounted) = match within {
            true if request.by_binade && e >= 1.0 => (zeros_fail, uncounted),
            true => (0, 0),
            false if e >= 1.0 => (zeros_fail.max(1), uncounted),
            false => (1, uncounted),
        };
        // Zeros are nowhere what is not finite, and below -1 infinities have the other sign.
        let changed = if request.nonfinite == NonFinite::Fail || error == -1.0 {
            nonfinite(values)
        } else if error < -1.0 {
            infinities(values)
        } else {
            0
        };
        // e² may be infinite.
        let squares = if sum_rr == 0.0 { 0.0 } else { e * e * sum_rr };
        let values = Values {
            mismatches: finite_mismatches + changed,
            nonfinite_pairs: nonfinite(values),
            nonfinite_mismatches: changed,
            max_magnitude: [(1.0 + error).abs() * max, max],
            maxima: maxima(e * max, e, max, &rule),
            sums: [e * sum_r, squares, sum_r, sum_rr],
            ..Values::EMPTY
        };
        // Nobody has counted the elements of that binade.
        let of_lower_binade = if !counted && lower_binade_fails(e, max, &rule) { MANY } else { 0 };
        let others = Values { mismatches: values.mismatches + of_lower_binade, ..values };
        OffBy { others: with_epsilon_of_lower_binade(others, e, max, &rule), values, uncounted }
    }

    /// Whether it passes where the largest element decides alone; `None` where that takes counting more mismatches, of which the rule lets some be.
    fn largest_passes(&self, request: &Request, elements: usize) -> Option<bool> {
        let with = |more: u64| Judged::of(&Values { mismatches: self.values.mismatches + more, ..self.values }, request, elements).passed;
        let passed = with(0);
        let decides_alone = request.allowed == AllowedMismatches::NONE || with(self.uncounted) == passed;
        decides_alone.then_some(passed)
    }

    /// Whether it passes; also `None` where another element than the largest may fail.
    fn passes(&self, request: &Request, elements: usize) -> Option<bool> {
        let holds_for_all = |passes: &bool| !passes || Judged::of(&self.others, request, elements).passed;
        self.largest_passes(request, elements).filter(holds_for_all)
    }
}

/// Whether a number at the upper end of the binade below that of `max` would fail, where rtol multiplies binades; of those below it none would then that it does not.
fn lower_binade_fails(e: f64, max: f64, rule: &Rule<f64>) -> bool {
    let [least, most] = rule.binades();
    let upper_end = rule.clamped_binade(max, [least, most]);
    rule.base.is_some() && upper_end > least && e * upper_end > rule.rtol * (upper_end / 2.0) + rule.atol
}

/// With the epsilon difference of such a number, if that is larger.
fn with_epsilon_of_lower_binade(mut values: Values, e: f64, max: f64, rule: &Rule<f64>) -> Values {
    let [least, most] = rule.binades();
    if rule.clamped_binade(max, [least, most]) > least {
        let epsilon = &mut values.maxima[Metric::Epsilon as usize];
        *epsilon = epsilon.max(rule.epsilons(2.0 * e));
    }
    values
}

/// Infinities of the reference.
fn infinities(values: &Values) -> u64 {
    values.positive_infinities[1] + values.negative_infinities[1]
}

/// Elements of the reference that are not finite.
fn nonfinite(values: &Values) -> u64 {
    values.nans[1] + infinities(values)
}

/// Maxima where the largest reference is `max` and `absolute` off.
fn maxima(absolute: f64, relative: f64, max: f64, rule: &Rule<f64>) -> Maxima {
    let above = |least: f64| if max > least { relative } else { 0.0 };
    let [_, _, _, epsilon, _] = rule.metrics(absolute, max);
    [absolute, above(0.0), above(1e-3), epsilon, 0.0]
}

/// The format that a result is rounded to by mistake.
fn coarser(dtype: DType) -> Option<DType> {
    match dtype {
        DType::F64 => Some(DType::F32),
        DType::F32 => Some(DType::F16),
        DType::F16 | DType::Tf32 => Some(DType::Bf16),
        DType::Bf16 => Some(DType::F8E4M3),
        _ => None,
    }
}

/// Elements that a displacement is tried on before the whole tensor is.
const SAMPLE: usize = 1 << 20;

/// A displaced reference and what it is compared with, both views of the reference.
pub(super) struct Displaced<'a> {
    pub mutation: Mutation,
    pub result: TensorRef<'a>,
    pub reference: TensorRef<'a>,
}

/// The displacements that a reference of this shape has, of results of format `result`.
pub(super) fn displacements<'a>(reference: &TensorRef<'a>, result: DType) -> Result<Vec<Displaced<'a>>> {
    let of = reference.dtype();
    if PairArithmetic::of(of, of) == PairArithmetic::I64 && PairArithmetic::of(result, of) != PairArithmetic::I64 {
        // Wide integers are compared as such, by which no spacing of floats can be told.
        return Ok(Vec::new());
    }
    let layout = reference.layout();
    let (shape, strides) = (layout.shape(), layout.strides());
    let rank = shape.len();
    let mut out = Vec::new();
    let mut add = |mutation, result: Layout, expected: Layout| -> Result<()> {
        out.push(Displaced { mutation, result: reference.view(result)?, reference: reference.view(expected)? });
        Ok(())
    };
    for (from_end, mutation) in [(2, Mutation::RowsShifted), (1, Mutation::ColumnsShifted)] {
        let Some(dimension) = rank.checked_sub(from_end).filter(|d| shape[*d] > 1) else { continue };
        let mut fewer = shape.to_vec();
        fewer[dimension] -= 1;
        let second = (layout.offset() as isize + strides[dimension]) as usize;
        add(mutation, Layout::strided(&fewer, strides, second)?, Layout::strided(&fewer, strides, layout.offset())?)?;
    }
    if rank > 1 && shape[rank - 1] == shape[rank - 2] && shape[rank - 1] > 1 {
        let mut exchanged = strides.to_vec();
        exchanged.swap(rank - 1, rank - 2);
        add(Mutation::Transposed, Layout::strided(shape, &exchanged, layout.offset())?, layout.clone())?;
    }
    if layout.elements() > 1 {
        // A dimension of one element may have any stride.
        let backwards: Vec<isize> = strides.iter().map(|s| s.wrapping_neg()).collect();
        add(Mutation::Reversed, Layout::strided(shape, &backwards, layout.index(layout.elements() - 1))?, layout.clone())?;
    }
    Ok(out)
}

impl<'a> Displaced<'a> {
    /// The leading part of both, of about [`SAMPLE`] elements, or all of them.
    pub(super) fn sample(&self) -> Result<Displaced<'a>> {
        let mut shape = self.reference.shape().to_vec();
        let mut elements = self.reference.elements();
        for extent in &mut shape {
            let rest = elements / *extent;
            *extent = (*extent).min((SAMPLE / rest.max(1)).max(1));
            elements = rest * *extent;
            if *extent > 1 {
                break;
            }
        }
        let part = |t: &TensorRef<'a>| t.view(Layout::strided(&shape, t.layout().strides(), t.layout().offset())?);
        Ok(Displaced { mutation: self.mutation, result: part(&self.result)?, reference: part(&self.reference)? })
    }

    /// What is asked of a displacement, for results of format `result` that are judged by `request`.
    pub(super) fn request(request: &Request, result: DType) -> Request {
        let all = request.judge != Judge::Elements;
        Request { explain: Explain::Never, histograms: false, all, spacing: Some(result), ..*request }
    }
}

/// What a displacement of so many elements does, given the values of its comparison with the reference.
pub(super) fn effect(values: &Values, request: &Request, elements: usize) -> Effect {
    if changes(values) { Effect::of_pass(Judged::of(values, request, elements).passed) } else { Effect::Nothing }
}

/// Whether a displacement is known to change an element.
pub(super) fn changes(values: &Values) -> bool {
    values.maxima[Metric::Absolute as usize] > 0.0 || values.mismatches > 0
}

/// Whether a displacement of so many elements fails whatever is behind a part of it that has the values `part`; `whole` are those of the comparison.
///
/// Counts, maxima and sums of differences are no smaller for more elements, and what they are divided by is no larger than that of the whole reference.
pub(super) fn fails_in_part(part: &Values, whole: &Values, request: &Request, elements: usize) -> bool {
    // Sums are rounded, those of a tile in f32.
    const ROUNDED: f64 = 0.999;
    let ([sum_d, sum_dd, ..], [.., sum_r, sum_rr]) = (part.sums, whole.sums);
    let least = Values { sums: [ROUNDED * sum_d, ROUNDED * sum_dd, sum_r, sum_rr], max_magnitude: [whole.max_magnitude[1]; 2], ..*part };
    changes(part) && !Judged::of(&least, request, elements).passed
}
