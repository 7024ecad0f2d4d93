//! The coefficients of a bound, and how one stage of a computation joins the next.

use super::{expect_float, rule};
use crate::dtype::DType;
use crate::error::Result;
use crate::verify::render::short;
use std::fmt;

/// |a - r| <= E + h(|r| + E), with E = fma(gamma, S, fma(relative, |r|, floor)) and h(x) half of the spacing of `rounding`'s numbers at x, or 0 without. Coefficients are at least 0: no comparison
/// takes others. An infinite one is no bound, which everything passes, untrusted; where E is negative or not a number, as S may make it, nothing but equality passes.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Bound {
    /// Factor of S, the magnitudes that were added.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::verify::render::json_number"))]
    pub gamma: f64,
    /// Factor of the reference.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::verify::render::json_number"))]
    pub relative: f64,
    /// What is left where both are zero.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::verify::render::json_number"))]
    pub floor: f64,
    /// The format that the result was rounded to at last, to nearest: see [`rounded_to`](Bound::rounded_to).
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::verify::render::json_optional_name"))]
    pub rounding: Option<DType>,
}

/// `0.001 S + 0 |r| + 1e-8, and half a step of f16`.
impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [gamma, relative, floor] = [self.gamma, self.relative, self.floor].map(|x| short(x, 4));
        write!(f, "{gamma} S + {relative} |r| + {floor}")?;
        self.rounding.iter().try_for_each(|format| write!(f, ", and half a step of {format}"))
    }
}

impl Bound {
    /// Nothing but equality.
    pub const EXACT: Bound = Bound { gamma: 0.0, relative: 0.0, floor: 0.0, rounding: None };

    /// After a rounding to nearest of the result to `dtype`: |fl(y) - y| <= h(y), half of the spacing at y, which grows with |y|, and |y| <= |r| + E. Of several roundings the last is told so, which
    /// counts in full, and those before it by the coefficients ([`by_coefficients`](Bound::by_coefficients)).
    ///
    /// # Errors
    /// When it is an integer format.
    pub fn rounded_to(self, dtype: DType) -> Result<Bound> {
        expect_float(dtype, "the result of a bound")?;
        Ok(Bound { rounding: Some(dtype), ..self.by_coefficients() })
    }

    /// A looser bound without `rounding`: with u its unit roundoff and η its least number, h(y) <= u |y| + η / 2. Up to twice h(y), at the upper end of a binade; but linear in S and |r|.
    pub fn by_coefficients(self) -> Bound {
        let Some(format) = self.rounding.and_then(DType::float_format) else { return self };
        let u = format.unit_roundoff();
        let grown = |x: f64| x + u * x;
        Bound {
            gamma: grown(self.gamma),
            relative: grown(self.relative) + u,
            floor: grown(self.floor) + format.min_positive() / 2.0,
            rounding: None,
        }
    }

    /// Against a reference that is itself a sum of so many products in f64, rounded to `dtype`, rather than the exact number. S in f64 may be as much too small.
    ///
    /// # Errors
    /// When it is an integer format.
    pub fn against(self, dtype: DType, terms: usize) -> Result<Bound> {
        let format = expect_float(dtype, "the reference of a bound")?;
        let (u, half) = (format.unit_roundoff(), format.min_positive() / 2.0);
        // Of n additions, alpha, beta, C and bias included; doubled, as S is rounded too.
        let sum = (terms + 8) as f64 * f64::EPSILON;
        let more = 1.0 + self.relative;
        Ok(Bound {
            gamma: (self.gamma + more * sum) * (1.0 + sum),
            relative: self.relative + more * u,
            floor: self.floor + more * (half + f64::MIN_POSITIVE),
            rounding: self.rounding,
        })
    }

    /// The bound of an element.
    pub fn of(&self, magnitude: f64, reference: f64) -> f64 {
        rule::limit_of(self, reference, magnitude)
    }
}
