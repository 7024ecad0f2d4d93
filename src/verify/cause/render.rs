//! Causes in words, for people and for machines.

use super::region::dimension_name;
use super::{Cause, Diagnosis};
use crate::verify::{grouped, short};
use std::fmt;

impl Cause {
    /// A word for machines.
    pub(super) fn kind(self) -> &'static str {
        match self {
            Cause::Unknown => "unknown",
            Cause::ReferenceNotFinite => "reference_not_finite",
            Cause::NotANumber => "nan",
            Cause::Overflowed => "overflowed",
            Cause::Saturated { .. } => "saturated",
            Cause::Flushed { .. } => "flushed",
            Cause::Rectified { .. } => "epilogue",
            Cause::Unwritten { .. } => "unwritten",
            Cause::Stale => "stale",
            Cause::AddedToEarlier => "added_to_earlier",
            Cause::ReadAs { .. } => "read_as",
            Cause::BytesSwapped => "bytes_swapped",
            Cause::Wrapped { .. } => "wrapped",
            Cause::Truncated => "truncated",
            Cause::TiesOtherWay => "ties",
            Cause::Through { .. } => "through",
            Cause::IntermediateIn { .. } => "intermediate_in",
            Cause::AccumulatedIn { .. } => "accumulated_in",
            Cause::Negated => "negated",
            Cause::Scaled { .. } => "scaled",
            Cause::Offset { .. } => "offset",
            Cause::Affine { .. } => "affine",
            Cause::BySlice { .. } => "by_slice",
            Cause::Transposed => "transposed",
            Cause::Shifted { .. } => "shifted",
            Cause::Exchanged { .. } => "exchanged",
            Cause::Reversed { .. } => "reversed",
            Cause::Repeated { .. } => "repeated",
            Cause::Permuted => "permuted",
            Cause::Terms { .. } => "terms",
            Cause::Share { .. } => "share",
            Cause::LowPrecision { .. } => "low_precision",
        }
    }

    /// Whether values, or places that no mistake in the operands has, show it by themselves: what was multiplied could tell less of it.
    /// Columns in another order are not among these, as the gradient of a filter that is flipped has them.
    pub(crate) fn needs_no_operands(self) -> bool {
        match self {
            Cause::ReferenceNotFinite
            | Cause::NotANumber
            | Cause::Overflowed
            | Cause::Saturated { .. }
            | Cause::Flushed { .. }
            | Cause::Rectified { .. }
            | Cause::Unwritten { .. }
            | Cause::Stale
            | Cause::AddedToEarlier
            | Cause::ReadAs { .. }
            | Cause::BytesSwapped
            | Cause::Wrapped { .. }
            | Cause::Truncated
            | Cause::TiesOtherWay
            | Cause::Through { .. }
            | Cause::Negated
            | Cause::Transposed
            | Cause::Repeated { .. } => true,
            Cause::Unknown
            | Cause::IntermediateIn { .. }
            | Cause::AccumulatedIn { .. }
            | Cause::Scaled { .. }
            | Cause::Offset { .. }
            | Cause::Affine { .. }
            | Cause::BySlice { .. }
            | Cause::Shifted { .. }
            | Cause::Exchanged { .. }
            | Cause::Reversed { .. }
            | Cause::Permuted
            | Cause::Terms { .. }
            | Cause::Share { .. }
            | Cause::LowPrecision { .. } => false,
        }
    }
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.what(f)?;
        let all = grouped(self.mismatches as u64);
        let beyond = match (self.beyond_rounding, self.sampled) {
            (false, false) => "",
            (true, false) => " beyond rounding",
            (false, true) => " that were sampled",
            (true, true) => " beyond rounding that were sampled",
        };
        if self.explained > 0 {
            write!(f, ": {} of {all} mismatches{beyond}", grouped(self.explained as u64))?;
        }
        match (&self.region, self.cause, self.mismatches) {
            (None, ..) => Ok(()),
            (Some(region), Cause::Unknown, 1) if !self.sampled => write!(f, ": the only mismatch{beyond} lies in {region}"),
            (Some(region), Cause::Unknown, _) => write!(f, ": all {all} mismatches{beyond} lie in {region}"),
            (Some(region), ..) if self.explained == 0 => write!(f, ", all mismatches{beyond} in {region}"),
            (Some(region), ..) => write!(f, ", all in {region}"),
        }
    }
}

/// A factor with five digits; where these are a whole number and the factor is not, with its distance from that.
fn factor(by: f64) -> String {
    let (whole, text) = (by.round(), short(by, 5));
    if by == whole || text != short(whole, 5) {
        return text;
    }
    let sign = if by < whole { '-' } else { '+' };
    format!("{text} {sign} {}", short((by - whole).abs(), 1))
}

fn rectified(limit: Option<f64>) -> String {
    let beyond = limit.map_or(String::new(), |limit| format!(", and {} where it is larger", short(limit, 7)));
    format!("zeros where the reference is negative{beyond}: a ReLU that the reference does not have")
}

fn slice(rows: bool) -> &'static str {
    if rows { "row" } else { "column" }
}

fn fitted(factor: bool, offset: bool) -> &'static str {
    match (factor, offset) {
        (true, true) => "a factor and an offset",
        (false, true) => "an offset",
        _ => "a factor",
    }
}

impl Diagnosis {
    fn what(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cause {
            Cause::Unknown => write!(f, "unknown"),
            Cause::ReferenceNotFinite => write!(f, "the reference is not finite"),
            Cause::NotANumber => write!(f, "NaN: 0/0, inf - inf, or memory that was not written"),
            Cause::Overflowed => write!(f, "overflow: infinities, and what follows from them"),
            Cause::Saturated { limit, format: Some(format) } => write!(f, "saturated at {}, the limit of {format}", short(limit, 7)),
            Cause::Saturated { limit, format: None } => write!(f, "clamped at {}", short(limit, 7)),
            Cause::Flushed { format } => write!(f, "subnormal numbers of {format} flushed to zero"),
            Cause::Rectified { limit } => f.write_str(&rectified(limit)),
            Cause::Unwritten { value: 0.0, .. } => write!(f, "zeros: not written, or products with zeros"),
            Cause::Unwritten { value, bits } => write!(f, "not written, or one value for all: {}", self.pattern(value, bits)),
            Cause::Stale => write!(f, "the earlier output: not written"),
            Cause::AddedToEarlier => write!(f, "added to the earlier output"),
            Cause::ReadAs { format } => write!(f, "patterns of {format}, read as {}", self.dtype),
            Cause::BytesSwapped => write!(f, "bytes in the opposite order"),
            Cause::Wrapped { format } => {
                write!(f, "wrapped around in {format}: the low {} bits of whole numbers beyond its ends", format.bits())
            }
            Cause::Truncated => write!(f, "truncated to {}, not rounded", self.dtype),
            Cause::TiesOtherWay => write!(f, "halves rounded to the odd neighbour"),
            Cause::Through { format } => {
                write!(f, "rounded to {format} first: results are numbers of {format}, within one unit in its last place")
            }
            Cause::IntermediateIn { format } => {
                write!(f, "an intermediate value in {format}: relative errors reach the unit roundoff of {format}, and not more")
            }
            Cause::AccumulatedIn { format } => {
                let results = format!("results are numbers of {format}, with the errors");
                let seen = if format == self.dtype { "errors of the size and the spread of those" } else { &results };
                write!(f, "accumulated in {format}: {seen} of a running sum that is rounded to it")
            }
            Cause::Negated => write!(f, "negated"),
            Cause::Scaled { by, name: Some(name) } => write!(f, "scaled by {} ({name})", short(by, 5)),
            Cause::Scaled { by, name: None } => write!(f, "scaled by {}", factor(by)),
            Cause::Offset { by } => write!(f, "{} added to each element", short(by, 5)),
            Cause::Affine { factor: by, offset } => write!(f, "{} times the reference, plus {}", factor(by), short(offset, 5)),
            Cause::BySlice { rows, factor, offset } => {
                write!(f, "{} for each {}: a sum, a mean, a scale or a bias is wrong", fitted(factor, offset), slice(rows))
            }
            Cause::Transposed => write!(f, "the last two dimensions exchanged"),
            Cause::Shifted { dimension, by } => write!(f, "shifted by {}", self.distance(dimension, by.unsigned_abs())),
            Cause::Exchanged { mask: 1 } => write!(f, "neighbouring columns exchanged"),
            Cause::Exchanged { mask } => write!(f, "columns j and j ^ {mask} exchanged"),
            Cause::Reversed { rows: false } => write!(f, "the opposite order, of all elements"),
            Cause::Reversed { rows: true } => write!(f, "the opposite order, within each row"),
            Cause::Repeated { rows } => write!(f, "the first {} everywhere", slice(rows)),
            Cause::Permuted => write!(f, "the right values in another order"),
            Cause::Terms { rank } => {
                let terms = if rank == 1 { "1 term of the sums is" } else { &format!("{rank} terms of the sums are") };
                write!(f, "{terms} missing, added twice or wrong: the errors are a matrix of rank {rank}")
            }
            Cause::Share { share, twice } => {
                let what = if twice { "added twice" } else { "missing" };
                write!(f, "{} % of the terms of the sums {what}, by the variance of the errors", short(100.0 * share, 2))
            }
            Cause::LowPrecision { bits } => f.write_str(&self.noise(bits)),
        }
    }

    fn noise(&self, bits: f64) -> String {
        // Errors of right sums scale with their magnitudes, and such a tolerance with what is left of them.
        let or = if self.derived { ", or sums that cancel (`check`, from the operands, tells which)" } else { "" };
        format!("sums or operands of few bits{or}: errors like noise of 2^-{} of the reference, root mean square", short(bits, 3))
    }

    /// A value with the bits that stand for it in memory.
    fn pattern(&self, value: f64, bits: u64) -> String {
        format!("{} (0x{bits:0digits$x})", short(value, 7), digits = self.dtype.unit_bytes() * 2)
    }

    /// In elements where it leads out of the dimension.
    fn distance(&self, dimension: usize, by: usize) -> String {
        let rank = self.shape.len();
        if by >= self.shape[dimension] {
            return format!("{} elements", by * self.shape[dimension + 1..].iter().product::<usize>());
        }
        let name = if rank > 2 { format!("in dimension {dimension}") } else { dimension_name(rank, dimension, by > 1) };
        format!("{by} {name}")
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Diagnosis {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;
        let mut out = s.serialize_struct("Diagnosis", 5)?;
        out.serialize_field("kind", self.kind())?;
        out.serialize_field("evidence", &self.to_string())?;
        out.serialize_field("mismatches", &self.mismatches)?;
        out.serialize_field("explained", &self.explained)?;
        out.serialize_field("region", &self.region.as_ref().map(ToString::to_string))?;
        out.end()
    }
}
