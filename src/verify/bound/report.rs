//! The report of a comparison by bounds: a function of the data and the bound alone, but for the device's name.

use super::{BINS, Bound, Comparison, failing, rule};
use crate::dtype::{DType, Overflow};
use crate::error::Result;
use crate::verify::render::{LABEL, grouped, short};
use crate::verify::{Mutation, Verdict, report_as_error};
use hipverify_sys::abi::{BoundCount, BoundTile};
use std::fmt;

/// Mismatches that a report lists.
const FIRST: usize = 8;

/// An element, its values and its bound.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct BoundedElement {
    /// Logical row-major index.
    pub index: usize,
    /// Coordinates, outermost dimension first.
    pub coordinates: Vec<usize>,
    /// The result's value.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::verify::render::json_number"))]
    pub result: f64,
    /// The reference's value.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::verify::render::json_number"))]
    pub reference: f64,
    /// How far they may lie apart.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::verify::render::json_number"))]
    pub bound: f64,
    /// How far they do, over that: up to 1 passes.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::verify::render::json_number"))]
    pub ratio: f64,
}

/// What a comparison by bounds found. `Display` draws it on one screen.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct BoundReport {
    /// Shape of the tensors.
    pub shape: Vec<usize>,
    /// Format of the result.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::verify::render::json_name"))]
    pub dtype: DType,
    /// The coefficients.
    pub bound: Bound,
    /// Whether the result was to saturate where it overflows.
    pub saturates: bool,
    /// The verdict. A pass is untrusted where at half of the elements of the reference that are not zero zeros would pass, or a result that overflows, or the sum is beyond a clamp, or the
    /// reference is not finite; where it is zero everywhere; and where an earlier output would pass that was given.
    pub verdict: Verdict,
    /// Elements compared.
    pub elements: usize,
    /// Elements beyond their bound.
    pub mismatches: u64,
    /// NaNs and infinities of the result.
    pub result: NonFiniteCounts,
    /// NaNs and infinities of the reference.
    pub reference: NonFiniteCounts,
    /// The first element with the largest ratio; `None` when no element differs.
    pub worst: Option<BoundedElement>,
    /// The first elements beyond their bound.
    pub first: Vec<BoundedElement>,
    /// Finite elements of the reference that are not zero.
    pub nonzero: u64,
    /// At how many of these a result of zero would pass.
    pub zero_passes: u64,
    /// At how many of the others |reference| and the bound reach beyond the largest number of the result's format: an infinite result of the right sign passes
    /// there whatever its size, or a saturated one in formats without infinity, and of results that are to saturate.
    pub overflows: u64,
    /// Elements that are a limit of a clamp other than 0, since the sum is beyond it: how far beyond is not checked. A [`Check`](crate::check::Check) counts them where the result passes.
    pub clamped: u64,
    /// The smallest e for which a result of (1 + e) times the reference fails: the least of bound over |reference|, where
    /// such a result does not overflow. Infinite when none does.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::verify::render::json_number"))]
    pub smallest_error: f64,
    /// Broken results that were tried in the place of one that passed, and would have failed.
    pub found: Vec<Mutation>,
    /// Those that would have passed.
    pub missed: Vec<Mutation>,
    /// How many elements have a ratio of 0, then in (2^(i - 33), 2^(i - 32)] for bin i; the outermost bins have all beyond.
    pub histogram: Vec<u64>,
    /// The device that compared.
    pub device: String,
    /// Why that device.
    pub why: String,
}

/// Values that are not finite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct NonFiniteCounts {
    /// NaNs.
    pub nans: u64,
    /// Infinities of either sign.
    pub infinities: u64,
}

impl NonFiniteCounts {
    /// All of them.
    fn total(&self) -> u64 {
        self.nans + self.infinities
    }
}

/// Compares.
pub(super) fn report(comparison: &Comparison<'_>, bound: &Bound) -> Result<BoundReport> {
    let [result, ..] = comparison.tensors;
    let (tiles, histogram) = comparison.tiles()?;
    let count = |what: u32| tiles.iter().map(|t| u64::from(t.counts[what as usize])).sum::<u64>();
    let largest = |of: fn(&BoundTile) -> f64| tiles.iter().map(of).fold(0.0, f64::max);
    let (ratio, power) = (largest(|t| t.ratio), largest(|t| t.power));
    let (mismatches, nonzero, zero_passes, overflows) = (
        count(BoundCount::BOUND_MISMATCHES),
        count(BoundCount::BOUND_NONZERO),
        count(BoundCount::BOUND_ZERO_PASSES),
        count(BoundCount::BOUND_OVERFLOWS),
    );
    let reference = NonFiniteCounts { nans: count(BoundCount::BOUND_NANS_R), infinities: count(BoundCount::BOUND_INFINITIES_R) };
    let verdict = if mismatches == 0 { Verdict::Pass } else { Verdict::Fail };
    let worst = tiles.iter().position(|t| t.ratio == ratio).filter(|_| ratio > 0.0);
    let worst = worst.map(|tile| found(comparison, tile, 1, |r| r == ratio)).transpose()?;
    let mut first = Vec::new();
    for tile in failing(&tiles) {
        if first.len() == FIRST {
            break;
        }
        first.extend(found(comparison, tile, FIRST - first.len(), |r| r > 1.0)?);
    }
    let report = BoundReport {
        shape: result.shape().to_vec(),
        dtype: result.dtype(),
        bound: *bound,
        saturates: comparison.overflow == Overflow::Saturate,
        verdict,
        elements: result.elements(),
        mismatches,
        result: NonFiniteCounts { nans: count(BoundCount::BOUND_NANS_A), infinities: count(BoundCount::BOUND_INFINITIES_A) },
        reference,
        worst: worst.and_then(|mut found| found.pop()),
        first,
        nonzero,
        zero_passes,
        overflows,
        clamped: 0,
        smallest_error: 1.0 / power,
        found: Vec::new(),
        missed: Vec::new(),
        histogram: histogram.to_vec(),
        device: result.device().name(),
        why: result.device().why().to_owned(),
    };
    Ok(report.trusted())
}

/// The first elements of a tile whose ratio is wanted.
fn found(comparison: &Comparison<'_>, tile: usize, most: usize, wanted: impl Fn(f64) -> bool) -> Result<Vec<BoundedElement>> {
    let element = |(index, ratio): (usize, f64)| -> Result<BoundedElement> {
        let [a, r, s] = comparison.values(index)?;
        let coordinates = comparison.tensors[0].layout().coordinates(index);
        Ok(BoundedElement { index, coordinates, result: a, reference: r, bound: rule::limits(&comparison.rule, r, s).after, ratio })
    };
    comparison.ratios(tile)?.filter(|(_, ratio)| wanted(*ratio)).take(most).map(element).collect()
}

report_as_error! {
    /// The report of a comparison by bounds that failed, or whose pass is not to be trusted. `Debug` prints the report as well: a `main` or a `#[test]` prints an error by it.
    BoundExceeded, BoundReport
}

impl BoundReport {
    /// The report, its pass untrusted if too few elements show an error.
    fn trusted(mut self) -> BoundReport {
        if self.verdict == Verdict::Pass && self.shows_nothing() {
            self.verdict = Verdict::Untrusted;
        }
        self
    }

    /// Whether at half of the elements that are not zero no error of theirs would show.
    fn shows_nothing(&self) -> bool {
        2 * (self.zero_passes + self.overflows + self.clamped + self.reference.total()) >= self.nonzero + self.reference.total()
    }

    /// Adds at how many elements the sum is beyond a clamp.
    pub(crate) fn with_clamped(self, clamped: u64) -> BoundReport {
        BoundReport { clamped, ..self }.trusted()
    }

    /// Adds what became of a broken result in the place of this one. A pass that the earlier output would share is not to be trusted.
    pub(crate) fn with_mutation(mut self, mutation: Mutation, passes: bool) -> BoundReport {
        if passes && mutation == Mutation::Earlier && self.verdict == Verdict::Pass {
            self.verdict = Verdict::Untrusted;
        }
        if passes {
            self.missed.push(mutation)
        } else {
            self.found.push(mutation)
        }
        self
    }

    /// Whether every element is within its bound; also where that could hardly have been otherwise.
    pub fn passed(&self) -> bool {
        self.verdict != Verdict::Fail
    }

    /// The report when it passes and that means something, else an error that prints as the report.
    ///
    /// # Errors
    /// [`BoundExceeded`].
    pub fn into_result(self) -> Result<BoundReport, BoundExceeded> {
        if self.verdict == Verdict::Pass { Ok(self) } else { Err(BoundExceeded(Box::new(self))) }
    }

    /// A power of two below which error over bound lies for this share of the elements, or 0: how tight the bound is.
    pub fn quantile(&self, share: f64) -> f64 {
        let wanted = share * self.elements as f64;
        let mut below = 0;
        let bin = self.histogram.iter().position(|n| {
            below += n;
            below as f64 >= wanted
        });
        match bin {
            Some(0) => 0.0,
            Some(i) if i + 1 < BINS => 2f64.powi(i as i32 - 32),
            _ => f64::INFINITY,
        }
    }
}

impl fmt::Display for BoundReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = grouped(self.elements as u64);
        let shape: Vec<String> = self.shape.iter().map(usize::to_string).collect();
        write!(f, "{}  ", self.verdict.word())?;
        match self.mismatches {
            0 if self.elements == 1 => write!(f, "1 element within its bound")?,
            0 => write!(f, "{total} elements within their bounds")?,
            n => write!(f, "{} of {total} elements beyond their bounds", grouped(n))?,
        }
        write!(f, "   {}[{}]", self.dtype, shape.join(","))?;
        self.warnings().iter().try_for_each(|warning| write!(f, "\n  {:<LABEL$}{warning}", "warning"))?;
        for (what, line) in [("overflow", self.overflow()), ("clamp", self.beyond_clamp())] {
            if let Some(line) = line.filter(|_| !self.is_blind()) {
                write!(f, "\n  {what:<LABEL$}{line}")?;
            }
        }
        write!(f, "\n  {:<LABEL$}{}   S = sum of |a||b|, r the reference", "bound", self.bound)?;
        if let Some(worst) = &self.worst {
            write!(f, "\n  {:<LABEL$}{worst}", "worst")?;
        }
        if !self.first.is_empty() {
            let coordinates: Vec<String> = self.first.iter().map(|e| format!("{:?}", e.coordinates)).collect();
            write!(f, "\n  {:<LABEL$}{}", "first", coordinates.join("  "))?;
        }
        // Beyond the last bin nothing is known.
        let below = [("half of the elements", 0.5), ("99 %", 0.99)].map(|(what, share)| (what, self.quantile(share)));
        let below = below.iter().filter(|(_, ratio)| ratio.is_finite()).map(|(what, ratio)| match *ratio {
            0.0 if self.exact_at_zero() => format!("{what} exact"),
            // What overflowed, is not finite or has no bound passes without an error that could be told.
            0.0 => format!("{what} at 0 x bound"),
            ratio => format!("{what} below {} x bound", short(ratio, 3)),
        });
        let below = below.collect::<Vec<_>>();
        if !below.is_empty() {
            write!(f, "\n  {:<LABEL$}{}", "ratios", below.join(", "))?;
        }
        match self.smallest_error {
            0.0 => write!(f, "\n  {:<LABEL$}any relative error everywhere fails", "power")?,
            e if e.is_finite() => write!(f, "\n  {:<LABEL$}a relative error of {} everywhere fails", "power", short(e, 3))?,
            _ => write!(f, "\n  {:<LABEL$}no relative error everywhere fails", "power")?,
        }
        if self.nonzero > 0 {
            write!(f, "; zeros would pass at {} of {} elements", grouped(self.zero_passes), grouped(self.nonzero))?;
        }
        for (mutations, what) in [(&self.found, "would fail"), (&self.missed, "would pass")] {
            mutations.iter().try_for_each(|mutation| write!(f, "; {mutation}: {what}"))?;
        }
        self.class_line(f)?;
        write!(f, "\n  {:<LABEL$}{} ({})", "device", self.device, self.why)
    }
}

impl BoundReport {
    /// Whether elements with a ratio of 0 are equal to the reference.
    fn exact_at_zero(&self) -> bool {
        let Bound { gamma, relative, floor, .. } = self.bound;
        self.overflows + self.result.nans + self.result.infinities == 0 && (gamma + relative + floor).is_finite()
    }

    /// Why a pass says nothing, in sentences; also what else its reader has to know.
    pub fn warnings(&self) -> Vec<String> {
        let earlier = "the earlier output would have passed as well: a kernel that writes nothing would not be found";
        let earlier = self.missed.contains(&Mutation::Earlier).then(|| earlier.to_owned());
        let nothing_else = self.overflows + self.clamped + self.reference.total() == 0;
        let zeros = (self.is_blind() && (nothing_else || self.zero_passes > 0 || self.nonzero == 0)).then(|| self.why_untrusted());
        let others = [self.overflow(), self.beyond_clamp(), self.not_finite()].into_iter().flatten();
        earlier.into_iter().chain(zeros).chain(others.filter(|_| self.is_blind())).collect()
    }

    /// Whether a pass is untrusted since too few elements could show an error.
    fn is_blind(&self) -> bool {
        self.verdict == Verdict::Untrusted && self.shows_nothing()
    }

    /// How many elements tell nothing since the exact result is no number there; where no element is a number other words say so.
    fn not_finite(&self) -> Option<String> {
        let (not_finite, all) = (self.reference.total(), self.nonzero + self.reference.total());
        let words = || format!("the exact result is NaN or infinite at {} of {} elements", grouped(not_finite), grouped(all));
        (not_finite > 0 && self.nonzero > 0).then(|| words() + " that are not zero: there is no size to check there")
    }

    /// How many elements tell nothing because results overflow there.
    fn overflow(&self) -> Option<String> {
        let (overflows, nonzero) = (grouped(self.overflows), grouped(self.nonzero));
        let reach = format!("reach beyond the largest number of {}: their size is not checked", self.dtype);
        (self.overflows > 0).then(|| format!("{overflows} of {nonzero} elements that are not zero {reach}"))
    }

    /// How many elements tell nothing because a clamp makes the same of all sums beyond it.
    fn beyond_clamp(&self) -> Option<String> {
        let (clamped, nonzero) = (grouped(self.clamped), grouped(self.nonzero));
        (self.clamped > 0)
            .then(|| format!("{clamped} of {nonzero} elements that are not zero are limits of the clamp: their sums are not checked"))
    }

    /// Why a pass says nothing, where zeros would pass too.
    fn why_untrusted(&self) -> String {
        let NonFiniteCounts { nans, infinities } = self.reference;
        match (self.nonzero, nans + infinities) {
            (0, 0) => "the exact result is zero everywhere: the check says nothing".to_owned(),
            (0, _) => "no element of the exact result is finite and not zero: the check says nothing".to_owned(),
            (nonzero, _) => {
                let (passes, nonzero) = (grouped(self.zero_passes), grouped(nonzero));
                format!("a result of zeros would have passed at {passes} of {nonzero} elements that are not zero")
            }
        }
    }

    fn class_line(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sides = [("result", self.result), ("reference", self.reference)];
        if sides.iter().all(|(_, c)| c.nans + c.infinities == 0) {
            return Ok(());
        }
        let texts = sides.map(|(name, c)| format!("{name}: {} NaN, {} infinite", grouped(c.nans), grouped(c.infinities)));
        write!(f, "\n  {:<LABEL$}{}", "non-finite", texts.join("   "))
    }
}

impl fmt::Display for BoundedElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [result, reference, bound, ratio] =
            [(self.result, 7), (self.reference, 7), (self.bound, 4), (self.ratio, 4)].map(|(x, digits)| short(x, digits));
        write!(f, "{:?}   result {result}   reference {reference}   bound {bound}   {ratio} x bound", self.coordinates)
    }
}
