//! How alike two tensors are as vectors: metrics of a few sums, [`Options::cosine`](super::Options::cosine).

use super::options::quotient;
use super::sums::Sums;

/// Both tensors as vectors of their finite pairs.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Similarity {
    /// The cosine of the angle between them, 1 - [`cosine_distance`](Similarity::cosine_distance).
    #[cfg_attr(feature = "serde", serde(serialize_with = "super::render::json_number"))]
    pub cosine: f64,
    /// 1 - cosine, from 0 to 2, with the digits that the cosine loses near 1. Of two vectors of zeros 0, of one 1.
    #[cfg_attr(feature = "serde", serde(serialize_with = "super::render::json_number"))]
    pub cosine_distance: f64,
    /// Σ(a-r)² / (Σa² + Σr²), which is 1 - 2Σar / (Σa² + Σr²): 0 for equal tensors, 1 for orthogonal ones.
    #[cfg_attr(feature = "serde", serde(serialize_with = "super::render::json_number"))]
    pub squared_difference: f64,
}

impl Similarity {
    /// Of the sums of a comparison, and those with result and reference exchanged: there Σr² is Σa².
    pub(crate) fn of([_, sum_dd, _, sum_rr]: Sums, [.., sum_aa]: Sums) -> Similarity {
        let (a, r) = (sum_aa.sqrt(), sum_rr.sqrt());
        let cosine_distance = if sum_dd == f64::INFINITY {
            // A difference overflowed, and nothing is known of the angle.
            f64::NAN
        } else if a == 0.0 || r == 0.0 {
            f64::from(u8::from(a != r))
        } else {
            // |a - r|² = (|a| - |r|)² + 2 |a| |r| (1 - cos).
            ((sum_dd - (a - r) * (a - r)) / (2.0 * a) / r).clamp(0.0, 2.0)
        };
        Similarity { cosine: 1.0 - cosine_distance, cosine_distance, squared_difference: quotient(sum_dd, sum_aa + sum_rr) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_of_known_angles() {
        for (sum_aa, sum_dd, sum_rr, distance, squared, reason) in [
            (25.0, 0.0, 25.0, 0.0, 0.0, "equal"),
            (100.0, 25.0, 25.0, 0.0, 0.2, "parallel, twice as long"),
            (25.0, 50.0, 25.0, 1.0, 1.0, "orthogonal"),
            (25.0, 100.0, 25.0, 2.0, 2.0, "opposite"),
            (4.0, 12.0, 4.0, 1.5, 1.5, "120 degrees"),
            (0.0, 0.0, 0.0, 0.0, 0.0, "zeros on both sides"),
            (0.0, 9.0, 9.0, 1.0, 1.0, "a result of zeros has no direction"),
            (9.0, 9.0, 0.0, 1.0, 1.0, "a reference of zeros has no direction"),
            (1.0, 2f64.powi(-60), 1.0, 2f64.powi(-61), 2f64.powi(-61), "an angle whose cosine rounds to 1"),
            (4.0, 1.0f64.next_down(), 1.0, 0.0, 0.2, "rounded sums give no distance below 0"),
        ] {
            let found = Similarity::of([0.0, sum_dd, 0.0, sum_rr], [0.0, sum_dd, 0.0, sum_aa]);
            assert_eq!(found.cosine_distance, distance, "{reason}");
            assert_eq!(found.cosine, 1.0 - distance, "{reason}");
            assert!((found.squared_difference - squared).abs() <= 1e-15 * squared, "{reason}: {}", found.squared_difference);
        }
        let overflow = Similarity::of([0.0, f64::INFINITY, 0.0, f64::INFINITY], [0.0, f64::INFINITY, 0.0, 1.0]);
        let difference = Similarity::of([0.0, f64::INFINITY, 0.0, 4.0], [0.0, f64::INFINITY, 0.0, 4.0]);
        assert!(
            difference.cosine.is_nan() && difference.cosine_distance.is_nan(),
            "an overflow of one difference tells no angle: {difference:?}"
        );
        assert!(overflow.cosine.is_nan() && overflow.squared_difference == f64::INFINITY, "no threshold is met: {overflow:?}");
    }
}
