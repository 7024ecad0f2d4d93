//! What hypotheses are tested on: elements of both tensors on the host, as numbers.
//!
//! Of up to [`WHOLE`] elements all are taken. Of larger tensors four windows are: the leading one, those around the first mismatch and around the worst
//! element, and the last one. Which they are depends on the shape and the report alone.

use super::most_of;
use super::region::Region;
use crate::device::{TensorRef, coordinates_from_last};
use crate::dtype::{DType, Overflow, spacing};
use crate::error::Result;
use crate::verify::bound::{Bound, ElementRule};
use crate::verify::options::Request;
use crate::verify::rule::{Rule, mismatches};

/// Tensors of up to so many elements are looked at as a whole.
pub(super) const WHOLE: usize = 1 << 20;
/// Elements of a window of a larger one.
const WINDOW: usize = 1 << 17;
/// The memory of a window that is not contiguous may span so many bytes; a window that spans more is left out.
const SPAN: usize = 1 << 26;

/// Mismatches that are held against chance, and positions of each.
const DRAWS: usize = 64;

/// What elements are judged by.
#[derive(Clone, Copy, Debug)]
pub(super) enum Criterion<'a> {
    /// The tolerance of a comparison.
    Tolerance(&'a Request),
    /// Bounds of their own, which scale with these magnitudes, of a kernel that does this where it overflows.
    Bound(&'a TensorRef<'a>, &'a Bound, Overflow),
}

/// How far an element may lie from a number.
#[derive(Clone, Debug)]
enum Allowance {
    Tolerance(Rule<f64>),
    /// With the magnitude of each element.
    Bound(ElementRule, Vec<f64>),
}

/// Elements of a result and its reference.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    /// Extents of the tensors; `[1]` for a scalar.
    pub shape: Vec<usize>,
    /// Formats of the result and the reference.
    pub dtypes: [DType; 2],
    /// Begin of each run of consecutive elements: its index in the tensor, and its position here.
    runs: Vec<(usize, usize)>,
    pub result: Vec<f64>,
    pub reference: Vec<f64>,
    /// Patterns of the result.
    pub bits: Vec<u64>,
    /// Patterns of an earlier output in the result's format, where one is known.
    pub earlier: Option<Vec<u64>>,
    /// Positions of the elements to be explained.
    pub wrong: Vec<usize>,
    /// Whether there are other mismatches, which rounding explains.
    pub beyond_rounding: bool,
    /// Whether the tolerance was derived from formats and the length of sums.
    pub derived: bool,
    allowance: Allowance,
}

impl Sample {
    /// Elements of result and reference, and of an earlier output, around `interesting` ones where there are too many for all.
    pub(super) fn fetch(
        [result, reference]: [&TensorRef<'_>; 2],
        earlier: Option<&TensorRef<'_>>,
        criterion: Criterion<'_>,
        interesting: &[usize],
    ) -> Result<Sample> {
        let allowance = match criterion {
            Criterion::Tolerance(request) => Allowance::Tolerance(Rule::new(request, result.dtype())),
            Criterion::Bound(_, bound, overflow) => Allowance::Bound(ElementRule::new(bound, result.dtype(), overflow)?, Vec::new()),
        };
        let mut sample = Sample {
            shape: if result.shape().is_empty() { vec![1] } else { result.shape().to_vec() },
            dtypes: [result.dtype(), reference.dtype()],
            runs: Vec::new(),
            result: Vec::new(),
            reference: Vec::new(),
            bits: Vec::new(),
            earlier: earlier.map(|_| Vec::new()),
            wrong: Vec::new(),
            beyond_rounding: false,
            derived: matches!(criterion, Criterion::Tolerance(request) if request.derived),
            allowance,
        };
        let mut reference_bits = Vec::new();
        for (start, end) in windows(result.elements(), interesting) {
            let (Some(a), Some(r)) = (read(result, start, end)?, read(reference, start, end)?) else { continue };
            let before = earlier.map(|tensor| read(tensor, start, end)).transpose()?;
            let scales = match criterion {
                Criterion::Tolerance(_) => Some(Vec::new()),
                Criterion::Bound(tensor, ..) => {
                    read(tensor, start, end)?.map(|bits| bits.iter().map(|&x| tensor.dtype().decode(x)).collect())
                }
            };
            let (Some(scales), false) = (scales, before == Some(None)) else { continue };
            if let Allowance::Bound(_, magnitudes) = &mut sample.allowance {
                magnitudes.extend(scales);
            }
            if let (Some(Some(found)), Some(patterns)) = (before, &mut sample.earlier) {
                patterns.extend(found);
            }
            sample.runs.push((start, sample.bits.len()));
            sample.bits.extend(a);
            reference_bits.extend(r);
        }
        sample.result = sample.bits.iter().map(|&bits| result.dtype().decode(bits)).collect();
        sample.reference = reference_bits.iter().map(|&bits| reference.dtype().decode(bits)).collect();
        (sample.wrong, sample.beyond_rounding) = match (criterion, &sample.allowance) {
            (Criterion::Tolerance(request), _) => sample.wrong(&reference_bits, request),
            (_, Allowance::Bound(rule, magnitudes)) => {
                let fails = |&i: &usize| rule.ratio(sample.result[i], sample.reference[i], magnitudes[i]) > 1.0;
                ((0..sample.len()).filter(fails).collect(), false)
            }
            (Criterion::Bound(..), Allowance::Tolerance(_)) => (Vec::new(), false),
        };
        Ok(sample)
    }

    /// Mismatches; of these the ones that a rounding on each side does not explain, where there are such: with a tolerance of 0 every rounded
    /// element is a mismatch. And whether such were left out.
    fn wrong(&self, reference_bits: &[u64], request: &Request) -> (Vec<usize>, bool) {
        let mismatch = mismatches(self.dtypes, request);
        let mismatches: Vec<usize> = (0..self.len()).filter(|&i| mismatch([self.bits[i], reference_bits[i]])).collect();
        let unit = self.dtypes[0].unit_roundoff() + self.dtypes[1].unit_roundoff();
        let least = self.dtypes[0].float_format().map_or(0.0, |f| f.min_positive());
        let rounded = |i: usize| {
            let (a, r) = (self.result[i], self.reference[i]);
            // Whatever the result is, an infinite reference allows it.
            r.is_finite() && (a - r).abs() <= unit * r.abs() + least
        };
        let beyond: Vec<usize> = mismatches.iter().copied().filter(|&i| !rounded(i)).collect();
        let fewer = !beyond.is_empty() && beyond.len() < mismatches.len();
        (if fewer { beyond } else { mismatches }, fewer)
    }

    pub(super) fn len(&self) -> usize {
        self.result.len()
    }

    /// Elements of the tensor.
    pub(super) fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    pub(super) fn is_whole(&self) -> bool {
        self.len() == self.elements()
    }

    /// The index in the tensor of what is at `position` here.
    pub(super) fn index(&self, position: usize) -> usize {
        let run = self.runs.partition_point(|&(_, at)| at <= position).saturating_sub(1);
        self.runs.get(run).map_or(position, |&(start, at)| start + position - at)
    }

    /// Where an element of the tensor is here.
    pub(super) fn position(&self, index: usize) -> Option<usize> {
        let run = self.runs.partition_point(|&(start, _)| start <= index).checked_sub(1)?;
        let (start, at) = self.runs[run];
        let end = self.runs.get(run + 1).map_or(self.len(), |&(_, at)| at);
        Some(at + index - start).filter(|&position| position < end)
    }

    /// The coordinates of an element of the tensor, into `out`.
    pub(super) fn coordinates(&self, index: usize, out: &mut [usize]) {
        let from_last = coordinates_from_last(index, self.shape.iter().rev().copied());
        out.iter_mut().rev().zip(from_last).for_each(|(out, coordinate)| *out = coordinate);
    }

    /// The extent of the last dimension.
    pub(super) fn columns(&self) -> usize {
        self.shape.last().copied().unwrap_or(1)
    }

    /// How far the result at a position, if it should be `x`, may be from it: what the tolerance or its bound allows, and a unit in the last place of the result's format.
    pub(super) fn slack(&self, position: usize, x: f64) -> f64 {
        let rounding = spacing(self.dtypes[0], x) + self.dtypes[1].unit_roundoff() * x.abs();
        self.allowed(position, x).max(rounding)
    }

    /// What the tolerance or its bound alone allows.
    pub(super) fn allowed(&self, position: usize, x: f64) -> f64 {
        match &self.allowance {
            Allowance::Tolerance(rule) => rule.bound(rule.rtol, x.abs(), rule.atol),
            Allowance::Bound(rule, magnitudes) => rule.bound(x, magnitudes[position]),
        }
    }

    /// Elements that pass, or that rounding explains, of those among which the mismatches lie; finite ones.
    pub(super) fn passing(&self) -> Vec<usize> {
        let (region, mut at) = (Region::around(self), vec![0; self.shape.len()]);
        let mut wrong = self.wrong.iter().peekable();
        let passes = |i: &usize| wrong.next_if(|&w| w == i).is_none();
        let finite = |i: &usize| self.result[*i].is_finite() && self.reference[*i].is_finite();
        (0..self.len()).filter(passes).filter(finite).filter(|&i| region.holds(self, i, &mut at)).collect()
    }

    /// Whether the references of the mismatches differ by more than rounding does. Of a constant, hypotheses that fit numbers are all true.
    pub(super) fn varies(&self) -> bool {
        let Some(&middle) = self.wrong.get(self.wrong.len() / 2) else { return false };
        let r = self.reference[middle];
        let slack = 8.0 * self.slack(middle, r);
        self.wrong.iter().any(|&i| (self.reference[i] - r).abs() > slack)
    }

    /// Whether `expected` explains the result at a position, and much better than its reference does.
    pub(super) fn explains(&self, position: usize, expected: f64) -> bool {
        let a = self.result[position];
        let off = (a - expected).abs();
        off <= self.slack(position, expected) && off <= (a - self.reference[position]).abs() / 4.0
    }

    /// The chance that something holds for a mismatch and a position that has nothing to do with it: for how many of some positions it does, the geometric
    /// mean over some mismatches, as each has a chance of its own. One position at least, since rarer events do not show.
    pub(super) fn chance(&self, holds: impl Fn(usize, usize) -> bool) -> f64 {
        let elsewhere = |i: usize, draw: usize| ((i + draw) * 7919 + self.len() / 3) % self.len();
        let of = |i: usize| (0..DRAWS).filter(|&draw| holds(i, elsewhere(i, draw))).count();
        let step = self.wrong.len().div_ceil(DRAWS) | 1;
        let logarithms: Vec<f64> = self.wrong.iter().step_by(step).map(|&i| ((1 + of(i)) as f64 / (1 + DRAWS) as f64).ln()).collect();
        (logarithms.iter().sum::<f64>() / logarithms.len() as f64).exp()
    }

    /// How many mismatches are explained by what `expected` says of a position, if most are.
    pub(super) fn explained(&self, expected: impl Fn(usize) -> f64) -> Option<usize> {
        most_of(&self.wrong, |i| self.explains(i, expected(i)))
    }
}

/// Runs of elements to examine, in ascending order, none of which meet.
fn windows(elements: usize, interesting: &[usize]) -> Vec<(usize, usize)> {
    if elements <= WHOLE {
        return vec![(0, elements)];
    }
    let last = elements - WINDOW;
    let mut starts: Vec<usize> = interesting.iter().map(|i| i.saturating_sub(WINDOW / 2).min(last)).chain([0, last]).collect();
    starts.sort_unstable();
    let mut windows: Vec<(usize, usize)> = Vec::new();
    for start in starts {
        match windows.last_mut() {
            Some((_, end)) if start <= *end => *end = start + WINDOW,
            _ => windows.push((start, start + WINDOW)),
        }
    }
    windows
}

/// The patterns of consecutive elements; `None` where they lie too far apart to be copied.
fn read(tensor: &TensorRef<'_>, start: usize, end: usize) -> Result<Option<Vec<u64>>> {
    let (layout, dtype) = (tensor.layout(), tensor.dtype());
    let patterns = |bytes: &[u8], first: usize| -> Vec<u64> {
        let contiguous = layout.is_contiguous();
        let at = |i: usize| if contiguous { layout.offset() + i } else { layout.index(i) };
        (start..end).map(|i| dtype.load_bits(bytes, at(i) - first)).collect()
    };
    let (low, high) = span(tensor, start, end);
    // Packed elements share bytes: from a whole one on.
    let low = low - low % dtype.per_unit();
    let [from, to] = [low, high + 1].map(|elements| dtype.bytes_for(elements).unwrap_or(usize::MAX).min(tensor.byte_size()));
    // On the host as well, whose reports are those of a GPU.
    if to - from > SPAN {
        return Ok(None);
    }
    Ok(Some(patterns(&tensor.fetch_part(from..to)?, low)))
}

/// The least and the largest memory index of a run of elements, or a range that holds them.
fn span(tensor: &TensorRef<'_>, start: usize, end: usize) -> (usize, usize) {
    let layout = tensor.layout();
    let (first, last) = (layout.coordinates(start), layout.coordinates(end - 1));
    let (mut low, mut high) = (layout.offset() as isize, layout.offset() as isize);
    let mut free = false;
    for (d, (&extent, &stride)) in layout.shape().iter().zip(layout.strides()).enumerate() {
        // Behind the first dimension in which the run advances any coordinate may occur.
        let [from, to] = if free { [0, extent - 1] } else { [first[d], last[d]] }.map(|c| c as isize * stride);
        (low, high) = (low + from.min(to), high + from.max(to));
        free |= first[d] != last[d];
    }
    (low as usize, high as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{Device, Layout};
    use crate::verify::Options;

    #[test]
    fn large_tensors_are_seen_through_windows() {
        let w = WINDOW;
        let n = 64 * w;
        for (elements, interesting, expected, reason) in [
            (WHOLE, vec![5], vec![(0, WHOLE)], "all of them"),
            (WHOLE + 1, vec![], vec![(0, w), (WHOLE + 1 - w, WHOLE + 1)], "the two ends"),
            (n, vec![20 * w, 40 * w], vec![(0, w), (19 * w + w / 2, 20 * w + w / 2), (39 * w + w / 2, 40 * w + w / 2), (n - w, n)], "four"),
            (n, vec![3, w], vec![(0, w + w / 2), (n - w, n)], "windows that meet are one"),
            (n, vec![n - 1], vec![(0, w), (n - w, n)], "none beyond the end"),
        ] {
            assert_eq!(windows(elements, &interesting), expected, "{reason}");
        }
    }

    #[test]
    fn positions_and_indices_belong_together() {
        let elements = WHOLE + 4 * WINDOW;
        let bytes: Vec<u8> = (0..elements).map(|i| (i % 251) as u8).collect();
        let tensor = TensorRef::from_host_bytes(&bytes, DType::U8, Layout::contiguous(&[elements]).unwrap()).unwrap();
        let request = Request::new(&Options::default(), DType::U8, &crate::verify::Tolerance::exact(), 0.0);
        let sample = Sample::fetch([&tensor, &tensor], None, Criterion::Tolerance(&request), &[elements / 2]).unwrap();
        assert_eq!(sample.len(), 3 * WINDOW);
        for position in [0, 1, WINDOW - 1, WINDOW, 2 * WINDOW - 1, 2 * WINDOW, 3 * WINDOW - 1] {
            let index = sample.index(position);
            assert_eq!((sample.result[position], sample.position(index)), ((index % 251) as f64, Some(position)));
        }
        assert_eq!(
            [WINDOW, elements / 2 + WINDOW, elements].map(|index| sample.position(index)),
            [None; 3],
            "between and behind the windows"
        );
    }

    #[test]
    fn the_memory_of_a_run_lies_within_its_span() {
        for (shape, strides, offset, reason) in [
            (&[5, 12][..], &[12, 1][..], 0, "dense"),
            (&[5, 12], &[-15, 1], 60, "padding, the last row first"),
            (&[5, 12], &[1, 7], 2, "transposed"),
            (&[3, 4, 5], &[5, 20, -1], 4, "exchanged and backwards"),
        ] {
            let layout = Layout::strided(shape, strides, offset).unwrap();
            let bytes = vec![0; layout.end()];
            let tensor = TensorRef::from_host_bytes(&bytes, DType::U8, layout.clone()).unwrap();
            assert_eq!(tensor.device().kind(), Device::host().kind());
            for (start, end) in [(0, 60), (0, 1), (7, 13), (11, 25), (59, 60)] {
                let (low, high) = span(&tensor, start, end);
                assert!((start..end).all(|i| (low..=high).contains(&layout.index(i))), "{reason}, {start}..{end}");
                assert!(end - start > 1 || low == high, "{reason}: one element is where it is");
                assert!(high < layout.end(), "{reason}: inside the memory");
            }
        }
    }
}
