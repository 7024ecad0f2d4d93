//! What additions lose: the units that add, and the factor of S that follows.
//!
//! Each addition gives (1 + δ) times the exact sum of what it was given, |δ| <= u. With n roundings on the longest path from a product to the result:
//!
//! * worst case: a product reaches the result times Π(1 + δ), which is off by n u / (1 - n u) at most (Higham, *Accuracy and Stability*, lemma 3.1), in any order of additions. Call it w.
//! * where the errors have mean zero, given those before: the error of the result is Σ δ_v t_v over all additions v, with t_v the exact sum of v's operands, and |t_v| <= (1 + w) S_v for
//!   the magnitudes S_v that v has below it. These are the differences of a martingale, so that |error| <= λ u (1 + w) √Σ S_v² but with a probability of 2 exp(-λ² / 2) (Azuma and Hoeffding; for
//!   sums Hallman and Ipsen, 2022). Each product is below n additions at most: Σ S_v² <= S Σ S_v <= n S². So gamma is λ √n u (1 + w), with λ such that it holds for all elements together:
//!   2 · elements · exp(-λ² / 2) = the probability that is asked for. Higham and Mary (2019) have the same √n, with a λ that also grows with the length of the sum.
//!
//! Truncation has no mean of zero: it counts in full in both.

use super::Bound;
use crate::error::{Error, Result};
use crate::verify::render::short;
use std::fmt;

/// The unit roundoff of f32.
const U32: f64 = 1.0 / (1u64 << 24) as f64;

/// How sure a bound is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Confidence {
    /// It holds whatever the signs of rounding errors: also for constant operands, whose errors all point one way.
    WorstCase,
    /// Some element exceeds it with at most this probability, above 0 and below 1, where errors of rounding to nearest have mean zero.
    Exceeded(f64),
}

impl fmt::Display for Confidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Confidence::WorstCase => f.write_str("worst case"),
            Confidence::Exceeded(probability) => write!(f, "exceeded by chance once in {} comparisons", short(1.0 / probability, 3)),
        }
    }
}

impl Default for Confidence {
    /// Once in a million comparisons.
    fn default() -> Confidence {
        Confidence::Exceeded(1e-6)
    }
}

impl Confidence {
    /// The bound that is exceeded with probability `1 - confidence`.
    ///
    /// # Errors
    /// When that is not between 0 and 1, both left out.
    pub fn new(confidence: f64) -> Result<Confidence> {
        let exceeded = 1.0 - confidence;
        if confidence > 0.0 && exceeded > 0.0 {
            return Ok(Confidence::Exceeded(exceeded));
        }
        let limit = "between 0 and 1, both left out".to_owned();
        Err(Error::InvalidArgument { what: "confidence", value: confidence.to_string(), limit })
    }

    /// That a probability is one.
    pub(crate) fn expect_valid(self) -> Result<()> {
        match self {
            Confidence::Exceeded(p) if !is_probability(p) => {
                let limit = "between 0 and 1, both left out".to_owned();
                Err(Error::InvalidArgument { what: "probability that a bound is exceeded", value: p.to_string(), limit })
            }
            _ => Ok(()),
        }
    }
}

/// Whether a bound can be exceeded with this probability.
fn is_probability(p: f64) -> bool {
    p > 0.0 && p < 1.0
}

/// A unit that adds products to an accumulator, as far as errors go. Products are taken in groups; each group joins the accumulator in a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unit {
    /// Unit roundoff of the accumulator's format: one rounding to nearest a step.
    pub roundoff: f64,
    /// Products of a group.
    pub group: usize,
    /// Roundings to nearest that a product passes inside its group.
    pub depth: usize,
    /// What truncation loses of a group, as a factor of its Σ|a||b|: once, however long the sum.
    pub truncation: f64,
    /// What truncation loses of the accumulator in each step, as a factor of the magnitudes added so far.
    pub drift: f64,
    /// What underflow loses, for each product.
    pub underflow: f64,
}

impl Unit {
    /// Additions in f32 in any order, one product at a time; products exact or rounded. 2^-149 covers half the least number for the product and for the sum.
    pub const F32: Unit =
        Unit { roundoff: U32, group: 1, depth: 0, truncation: 0.0, drift: 0.0, underflow: (f32::MIN_POSITIVE * f32::EPSILON) as f64 };

    /// Additions in f64.
    pub const F64: Unit = Unit { roundoff: f64::EPSILON / 2.0, underflow: f64::MIN_POSITIVE * f64::EPSILON, ..Unit::F32 };

    /// Groups whose exact sum with the accumulator is rounded once to f32. A group of 0 counts as 1, here and below.
    pub const fn exact(group: usize) -> Unit {
        Unit { group: at_least_one(group), ..Unit::F32 }
    }

    /// Groups added in a tree of f32 additions, results below the least normal f32 flushed: 2 `group` products and sums of a group, of which each may lose 2^-126.
    pub const fn tree(group: usize) -> Unit {
        let group = at_least_one(group);
        Unit { group, depth: group.ilog2() as usize, underflow: 2.0 * f32::MIN_POSITIVE as f64, ..Unit::F32 }
    }

    /// Groups truncated at 24 bits below their largest exponent, joined with an accumulator rounded down there, the sum rounded down at 31 bits and then to f32.
    ///
    /// Of a group with the largest exponent e, each product but the largest loses less than 2^(e - 24), and so does the accumulator where e is above its own
    /// exponent: `group` times 2^-24 of the group's largest product. Where the accumulator has the larger exponent, it is exact and the group's sum loses
    /// 2^-`keep` of it; rounding down at 31 bits loses 2^-31 of the sum. 2^e is at most a product's magnitude when subnormal factors count as the least normal number.
    pub fn fused(group: usize, keep: u32) -> Unit {
        let two_to_minus = |bits: u32| 1.0 / (1u64 << bits) as f64;
        let group = at_least_one(group);
        Unit { group, truncation: group as f64 * two_to_minus(24), drift: two_to_minus(31) + two_to_minus(keep.min(63)), ..Unit::F32 }
    }

    /// Groups of which each product, and the accumulator with them, is truncated at `bits` fraction bits below the largest exponent among all; the sum is rounded toward
    /// zero to f32 with `fraction` bits, of which f32 has 23.
    ///
    /// Of a group with the largest exponent e, each product but the largest loses less than 2^(e - `bits`), and so does the accumulator where a product has that
    /// exponent: `group` times 2^-`bits` of the group's largest product. Where the accumulator has it, each product may lose as much, in each step: `group` times
    /// 2^-`bits` of the accumulator. Rounding toward zero loses twice what rounding to nearest does. 2^e is at most a product's magnitude when subnormal factors
    /// count as the least normal number.
    pub fn truncated(group: usize, bits: u32, fraction: u32) -> Unit {
        let two_to_minus = |bits: u32| 1.0 / (1u64 << bits.min(63)) as f64;
        let group = at_least_one(group);
        let lost = group as f64 * two_to_minus(bits);
        let toward_zero = if fraction >= 23 { U32 } else { two_to_minus(fraction) };
        // A subnormal result loses less than the unit of its last bit, and what terms lose below that is less than another.
        let underflow = 2.0 * f64::from(f32::MIN_POSITIVE) * two_to_minus(fraction.min(23));
        // A C that the first instruction is given may have more bits than any later accumulator.
        let first = if fraction >= 23 { 0.0 } else { two_to_minus(bits) };
        Unit { group, truncation: lost + first, drift: lost + toward_zero, underflow, ..Unit::F32 }
    }

    /// The same with f16 accumulators, to which sums are rounded to nearest.
    pub fn truncated_to_f16(group: usize, bits: u32) -> Unit {
        let unit = Unit::truncated(group, bits, 23);
        Unit { drift: unit.truncation, roundoff: U16, underflow: LEAST_F16, ..unit }
    }

    /// Groups of 32 as two sums of 16, the second of which begins with the first, each truncated at 25 bits and rounded to f32 toward zero or (`f16`) to f16; the
    /// accumulator is added to that, rounded to nearest.
    ///
    /// The first sum loses 16 times 2^-25 of its largest product; the second 16 times 2^-25 of its own largest, or of the first sum: 32 times 2^-25 of the group's
    /// Σ|a||b|, and a little more, since the first sum may be larger by its own error. Each is rounded once.
    pub fn emulated(f16: bool) -> Unit {
        let lost = 33.0 / (1u64 << 25) as f64;
        let unit = Unit { group: 32, ..Unit::F32 };
        match f16 {
            true => Unit { depth: 2, truncation: lost, roundoff: U16, underflow: LEAST_F16, ..unit },
            false => Unit { truncation: lost + 4.0 * U32 * (1.0 + U32), ..unit },
        }
    }
}

/// The unit roundoff of f16, and its least number.
const U16: f64 = 1.0 / 2048.0;
const LEAST_F16: f64 = 1.0 / (1u64 << 24) as f64;

const fn at_least_one(group: usize) -> usize {
    if group == 0 { 1 } else { group }
}

/// A sum of products as a kernel forms it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sum {
    /// What adds.
    pub unit: Unit,
    /// Products.
    pub terms: usize,
    /// Parts that are summed apart and then added (split-k). The longest has `terms` / `parts` products, rounded up to a multiple of 64, as kernels cut at their tiles.
    pub parts: usize,
    /// Unit roundoff of the format that parts are stored and added in, where it is coarser than the accumulator's; else 0.
    pub parts_roundoff: f64,
    /// What underflow loses of a part that is stored so: half the least number of that format; else 0.
    pub parts_underflow: f64,
    /// Roundings after the sum, in the accumulator's format: alpha, beta C, bias.
    pub after: usize,
    /// Unit roundoffs of the formats that the operands are rounded to first, where that is not exact; else 0.
    pub inputs: [f64; 2],
}

impl Sum {
    /// A sum of `terms` products in one part, of exact operands, with nothing after it.
    pub const fn new(unit: Unit, terms: usize) -> Sum {
        Sum { unit, terms, parts: 1, parts_roundoff: 0.0, parts_underflow: 0.0, after: 0, inputs: [0.0; 2] }
    }

    /// Products of the longest part: kernels cut k at a multiple of their tile, of up to 64 products.
    pub(crate) fn longest_part(&self) -> usize {
        const TILE: usize = 64;
        match self.parts {
            0 | 1 => self.terms,
            parts => self.terms.min(self.terms.div_ceil(parts).next_multiple_of(TILE)),
        }
    }

    /// What such a sum may lose, in one of so many elements. Infinite where the arithmetic is too coarse for the length of the sum; the worst case where a confidence is none
    /// (a probability that is not between 0 and 1).
    pub fn bound(&self, confidence: Confidence, elements: usize) -> Bound {
        let Sum { unit, terms, .. } = *self;
        let parts = self.parts.max(1);
        let groups = self.longest_part().div_ceil(at_least_one(unit.group));
        let roundings = (groups + unit.depth + parts - 1 + self.after) as f64;
        let drift = groups as f64 * unit.drift;
        let worst = quotient(roundings * unit.roundoff + drift);
        let grown = match confidence {
            Confidence::Exceeded(probability) if is_probability(probability) => {
                let random = lambda(probability, elements as f64) * roundings.sqrt() * unit.roundoff;
                worst.min((random + drift) * (1.0 + worst))
            }
            _ => worst,
        };
        let stored = if self.parts_roundoff > 0.0 { quotient(parts as f64 * self.parts_roundoff) } else { 0.0 };
        if !(grown + stored).is_finite() {
            return Bound { gamma: f64::INFINITY, ..Bound::EXACT };
        }
        let sum = grown + unit.truncation * (1.0 + grown);
        let [a, b] = self.inputs;
        let floor = ((terms + parts) as f64 * unit.underflow * (1.0 + grown) + parts as f64 * self.parts_underflow) * (1.0 + stored);
        Bound { gamma: both(both(sum, stored), both(a, b)), floor, ..Bound::EXACT }
    }
}

/// (1 + x)(1 + y) - 1 without the cancellation.
pub(super) fn both(x: f64, y: f64) -> f64 {
    x + y + x * y
}

/// w / (1 - w), and no bound where w reaches 1.
pub(super) fn quotient(w: f64) -> f64 {
    if w < 1.0 { w / (1.0 - w) } else { f64::INFINITY }
}

/// The λ for which 2 · `events` · exp(-λ² / 2) is this probability.
fn lambda(probability: f64, events: f64) -> f64 {
    (2.0 * libm::log(2.0 * events / probability)).max(0.0).sqrt()
}
