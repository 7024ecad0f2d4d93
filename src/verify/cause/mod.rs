//! Why a comparison failed: the likely cause, with its evidence.
//!
//! ```text
//! sample = elements of both tensors, on the host                       sample
//! region = the coordinates that hold all mismatches, if they are few   region
//! for each hypothesis, the one with the fewest assumptions first:
//!     if it explains at least 95 % of the mismatches: that is the cause
//! otherwise the region is all that is known, or nothing is
//! ```
//!
//! A hypothesis predicts what each mismatch should hold, and explains one that is within the tolerance, or one unit in the last place, of that and at least
//! four times closer to it than to the reference. Hypotheses that fit numbers ask for more elements than they fit numbers, and those that chance may
//! fulfil are held against chance. So data that are right, or unrelated, have no cause. `docs/causes.md` has each of them.
//!
//! Everything is computed on the host, one element after the other, so that every device gives the same cause.

mod earlier;
mod even;
mod factor;
mod order;
mod precision;
mod region;
mod render;
mod sample;
mod terms;
mod values;

#[cfg(test)]
mod tests;

pub use region::Region;

use super::Report;
use super::bound::Bound;
use super::options::{Explain, Request};
use super::values::Metric;
use crate::device::TensorRef;
use crate::dtype::{DType, Overflow};
use crate::error::Result;
use sample::{Criterion, Sample};

/// What is likely to have gone wrong. `docs/causes.md` has what each means, and what to check next.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Cause {
    /// No hypothesis explains the mismatches; where they lie may.
    Unknown,
    /// The reference has infinities or NaN where the result has numbers.
    ReferenceNotFinite,
    /// NaN.
    NotANumber,
    /// Infinities, or NaN that stands for them, and zeros beside.
    Overflowed,
    /// The largest number that there is, where the reference is larger.
    Saturated {
        /// That number.
        limit: f64,
        /// A format that has it.
        format: Option<DType>,
    },
    /// Zeros where the reference is below the normal numbers of a format.
    Flushed {
        /// That format.
        format: DType,
    },
    /// Zeros where the reference is negative, and nowhere else: a ReLU.
    Rectified {
        /// The largest result, where references beyond it became that.
        limit: Option<f64>,
    },
    /// One pattern everywhere.
    Unwritten {
        /// Its value.
        value: f64,
        /// The pattern.
        bits: u64,
    },
    /// What an earlier output holds.
    Stale,
    /// The sum of the reference and an earlier output.
    AddedToEarlier,
    /// The patterns are right in another format.
    ReadAs {
        /// That format.
        format: DType,
    },
    /// The patterns are right with their bytes in the opposite order.
    BytesSwapped,
    /// What the low bits of whole numbers are in a format that is too narrow for them.
    Wrapped {
        /// That format.
        format: DType,
    },
    /// Rounded toward zero.
    Truncated,
    /// Halves rounded to the odd neighbour.
    TiesOtherWay,
    /// Rounded to a coarser format first.
    Through {
        /// That format.
        format: DType,
    },
    /// Intermediate values rounded to a coarser format.
    IntermediateIn {
        /// That format.
        format: DType,
    },
    /// Sums rounded to a coarser format, or the result's own, at each step.
    AccumulatedIn {
        /// That format.
        format: DType,
    },
    /// The opposite sign.
    Negated,
    /// A factor too many.
    Scaled {
        /// The factor.
        by: f64,
        /// What is known to have it.
        name: Option<&'static str>,
    },
    /// A constant too many.
    Offset {
        /// The constant.
        by: f64,
    },
    /// Both.
    Affine {
        /// The factor.
        factor: f64,
        /// The constant.
        offset: f64,
    },
    /// A factor, a constant or both for each row, or for each column.
    BySlice {
        /// Whether for each row; otherwise for each column.
        rows: bool,
        /// Whether a factor.
        factor: bool,
        /// Whether a constant.
        offset: bool,
    },
    /// The last two dimensions exchanged.
    Transposed,
    /// Elements further on in a dimension.
    Shifted {
        /// The dimension.
        dimension: usize,
        /// By how many.
        by: isize,
    },
    /// Columns whose numbers differ in these bits, exchanged.
    Exchanged {
        /// The bits.
        mask: usize,
    },
    /// The opposite order.
    Reversed {
        /// Within each row; otherwise of the whole tensor.
        rows: bool,
    },
    /// The first row, or the first column, everywhere.
    Repeated {
        /// Whether the first row.
        rows: bool,
    },
    /// Another order.
    Permuted,
    /// The errors are a product of few terms.
    Terms {
        /// How many.
        rank: usize,
    },
    /// The errors have the statistics of a share of the terms.
    Share {
        /// The share.
        share: f64,
        /// Whether it was added twice; otherwise it is missing.
        twice: bool,
    },
    /// The errors are those of sums or operands with few bits.
    LowPrecision {
        /// Negative binary logarithm of the relative error, root mean square.
        bits: f64,
    },
}

/// The likely cause of a failure, and its evidence. `Display` says it in one line.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Diagnosis {
    /// The cause.
    pub cause: Cause,
    /// Where all mismatches that were looked at lie; `None` when they are spread.
    pub region: Option<Region>,
    /// Mismatches that were looked at: of large tensors some.
    pub mismatches: usize,
    /// Whether parts of the tensors were looked at, which are large: there may be more mismatches.
    pub sampled: bool,
    /// Whether the tolerance was derived from formats and the length of sums, so that it knows nothing of how much sums cancel.
    pub derived: bool,
    /// Whether there are others, which a rounding on each side explains: those were not looked at.
    pub beyond_rounding: bool,
    /// How many of them the cause explains; 0 where it is unknown, or a statement about all errors together.
    pub explained: usize,
    /// Format of the result.
    pub dtype: DType,
    /// Extents of the tensor.
    pub shape: Vec<usize>,
}

/// A cause that explains enough.
struct Hit {
    cause: Cause,
    /// Mismatches that it explains.
    explained: usize,
}

impl Hit {
    /// A cause that statistics of all errors tell.
    fn of_all(cause: Cause) -> Hit {
        Hit { cause, explained: 0 }
    }
}

/// Whether that is most of them: 95 %.
fn most(part: usize, of: usize) -> bool {
    of > 0 && 20 * part >= 19 * of
}

/// How many of these elements a condition holds for, if for most; it is asked no more once that is out of the question.
fn most_of(positions: &[usize], holds: impl Fn(usize) -> bool) -> Option<usize> {
    let mut missed = 0;
    for &i in positions {
        missed += usize::from(!holds(i));
        if missed > positions.len() / 20 {
            return None;
        }
    }
    (!positions.is_empty()).then_some(positions.len() - missed)
}

/// Whether chance does not do as well: twice as many are explained as by a chance of `chance` for each, and so many are by one of the alternatives that
/// were tried less than once in a thousand tensors, by Chernoff's bound exp(-n D(part/n || chance)) of each.
fn beyond_chance((part, of): (usize, usize), chance: f64, alternatives: usize) -> bool {
    let share = part as f64 / of as f64;
    let entropy = |x: f64, y: f64| if x > 0.0 { x * (x / y).ln() } else { 0.0 };
    let exponent = of as f64 * (entropy(share, chance) + entropy(1.0 - share, 1.0 - chance));
    2.0 * chance < share && alternatives as f64 * (-exponent).exp() < 1e-3
}

/// Hypotheses in the order of what they assume: the value alone, rounding, one number fitted, another index, many numbers fitted, statistics.
const HYPOTHESES: [fn(&Sample) -> Option<Hit>; 19] = [
    values::not_finite,
    values::saturated,
    values::flushed,
    values::rectified,
    values::unwritten,
    earlier::stale,
    earlier::added,
    values::read_as,
    values::wrapped,
    precision::truncated,
    precision::ties,
    precision::through,
    factor::negated,
    factor::uniform,
    order::displaced,
    factor::by_slice,
    order::permuted,
    terms::low_rank,
    terms_or_bits,
];

/// Statistics: of missing terms, or of rounding.
fn terms_or_bits(s: &Sample) -> Option<Hit> {
    terms::share(s).or_else(|| precision::few_bits(s))
}

impl Diagnosis {
    fn of(s: &Sample) -> Option<Diagnosis> {
        if s.wrong.is_empty() {
            return None;
        }
        let hit = HYPOTHESES.iter().find_map(|hypothesis| hypothesis(s)).unwrap_or(Hit::of_all(Cause::Unknown));
        let (cause, explained) = (hit.cause, hit.explained);
        Some(Diagnosis {
            cause,
            region: Region::of(s),
            mismatches: s.wrong.len(),
            sampled: !s.is_whole(),
            derived: s.derived,
            beyond_rounding: s.beyond_rounding,
            explained,
            dtype: s.dtypes[0],
            shape: s.shape.clone(),
        })
    }

    /// This one of a tensor some of whose dimensions were joined, with places as in `own`, which is that of the tensor as it is.
    pub(crate) fn placed(self, own: Diagnosis) -> Diagnosis {
        match self.cause {
            Cause::Unknown => own,
            Cause::Shifted { dimension, by } => {
                let elements = by * self.shape[dimension + 1..].iter().product::<usize>() as isize;
                let (dimension, by) = order::along(&own.shape, elements);
                Diagnosis { cause: Cause::Shifted { dimension, by }, region: own.region, shape: own.shape, ..self }
            }
            _ => Diagnosis { region: own.region, ..self },
        }
    }

    /// Whether the errors of all elements are meant, each of which may be small.
    pub(super) fn is_of_all_errors(&self) -> bool {
        use Cause::{AccumulatedIn, IntermediateIn, LowPrecision, Share, Terms, Through, TiesOtherWay, Truncated, Unknown};
        let rounding = matches!(self.cause, Truncated | TiesOtherWay | Through { .. } | AccumulatedIn { .. } | IntermediateIn { .. });
        let noise = matches!(self.cause, LowPrecision { .. } | Terms { .. } | Share { .. } | Unknown);
        self.region.is_none() && (rounding || noise)
    }

    /// The cause as a word for machines, such as `unwritten`.
    pub fn kind(&self) -> &'static str {
        match self.cause {
            Cause::Unknown if self.region.is_some() => "region",
            cause => cause.kind(),
        }
    }
}

/// The cause of what a report says, where it is a failure that is to be explained.
///
/// # Errors
/// Whatever the device reports when elements are copied.
pub(super) fn diagnose(
    both: [&TensorRef<'_>; 2],
    earlier: Option<&TensorRef<'_>>,
    request: &Request,
    report: &Report,
) -> Result<Option<Diagnosis>> {
    if report.passed() || !request.cause || request.explain == Explain::Never {
        return Ok(None);
    }
    let worst = [Metric::Ratio, Metric::Absolute].into_iter().find_map(|metric| report.worst(metric)?.at.as_ref());
    let interesting: Vec<usize> = report.first.first().into_iter().chain(worst).map(|at| at.index).collect();
    Ok(Diagnosis::of(&Sample::fetch(both, earlier, Criterion::Tolerance(request), &interesting)?))
}

/// The cause of what is beyond bounds of elements, for each of which a tensor has the magnitude; `None` where no element is that was looked at, which are those around `interesting` ones in large tensors.
///
/// # Errors
/// Whatever the device reports when elements are copied, and where the result's format has no bounds.
pub(crate) fn diagnose_by_bound(
    both: [&TensorRef<'_>; 2],
    earlier: Option<&TensorRef<'_>>,
    (magnitudes, bound, overflow): (&TensorRef<'_>, &Bound, Overflow),
    interesting: &[usize],
) -> Result<Option<Diagnosis>> {
    Ok(Diagnosis::of(&Sample::fetch(both, earlier, Criterion::Bound(magnitudes, bound, overflow), interesting)?))
}
