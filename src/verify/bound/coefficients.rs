//! The coefficients of a bound, and how one stage of a computation joins the next.

use super::{expect_float, rule};
use crate::dtype::DType;
use crate::error::Result;

/// |a - r| <= fma(gamma, S, fma(relative, |r|, floor)). Coefficients are at least 0: no comparison takes others. An infinite one is no bound, which everything passes, untrusted; where the
/// bound is negative or not a number, as S may make it, nothing but equality passes.
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
}

impl Bound {
    /// Nothing but equality.
    pub const EXACT: Bound = Bound { gamma: 0.0, relative: 0.0, floor: 0.0 };

    /// After a rounding to nearest of the result to `dtype`: with u its unit roundoff and η its least number, |fl(y) - y| <= u |y| + η / 2 and
    /// |y| <= |x| + the error so far.
    ///
    /// # Errors
    /// When it is an integer format.
    pub fn rounded_to(self, dtype: DType) -> Result<Bound> {
        let format = expect_float(dtype, "the result of a bound")?;
        let u = format.unit_roundoff();
        let grown = |x: f64| x + u * x;
        Ok(Bound { gamma: grown(self.gamma), relative: grown(self.relative) + u, floor: grown(self.floor) + format.min_positive() / 2.0 })
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
        })
    }

    /// The bound of an element.
    pub fn of(&self, magnitude: f64, reference: f64) -> f64 {
        rule::limit([self.gamma, self.relative, self.floor], reference, magnitude)
    }
}
