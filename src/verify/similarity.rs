//! How alike two tensors are as vectors: metrics of a few sums, [`Options::cosine`](super::Options::cosine).

use super::options::quotient;
use super::sums::Sums;

/// Both tensors as vectors of their finite pairs.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Similarity {
    /// The cosine of the angle between them, 1 - [`cosine_distance`](Similarity::cosine_distance); NaN where that is.
    #[cfg_attr(feature = "serde", serde(serialize_with = "super::render::json_number"))]
    pub cosine: f64,
    /// 1 - cosine, from 0 to 2, with the digits that the cosine loses near 1. Of two vectors of zeros 0, of one 1. NaN where it is not known:
    /// where a difference overflowed, or where rounding may have changed the distance by more than 0.01, since the lengths of the vectors are too far apart for the sums.
    #[cfg_attr(feature = "serde", serde(serialize_with = "super::render::json_number"))]
    pub cosine_distance: f64,
    /// Σ(a-r)² / (Σa² + Σr²), which is 1 - 2Σar / (Σa² + Σr²): 0 for equal tensors, 1 for orthogonal ones.
    #[cfg_attr(feature = "serde", serde(serialize_with = "super::render::json_number"))]
    pub squared_difference: f64,
}

/// What rounding may change a cosine distance by, at most.
const LARGEST_ERROR: f64 = 0.01;

impl Similarity {
    /// Of the sums of a comparison, and those with result and reference exchanged: there Σr² is Σa². `error` is that of
    /// [`squares_error`](super::sums::squares_error).
    pub(crate) fn of([_, sum_dd, _, sum_rr]: Sums, [.., sum_aa]: Sums, error: f64) -> Similarity {
        let (a, r) = (sum_aa.sqrt(), sum_rr.sqrt());
        let cosine_distance = if sum_dd == f64::INFINITY {
            // A difference overflowed, and nothing is known of the angle.
            f64::NAN
        } else if a == 0.0 || r == 0.0 {
            f64::from(u8::from(a != r))
        } else if error * (sum_dd / (2.0 * a) / r + (a - r).abs() / (2.0 * a) * ((a + r) / r)) > LARGEST_ERROR {
            f64::NAN
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
    use crate::device::{Device, DeviceMem};
    use crate::verify::{Options, Tolerance, gpu_verify_with};

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
            let found = Similarity::of([0.0, sum_dd, 0.0, sum_rr], [0.0, sum_dd, 0.0, sum_aa], 1e-6);
            assert_eq!(found.cosine_distance, distance, "{reason}");
            assert_eq!(found.cosine, 1.0 - distance, "{reason}");
            assert!((found.squared_difference - squared).abs() <= 1e-15 * squared, "{reason}: {}", found.squared_difference);
        }
        let overflow = Similarity::of([0.0, f64::INFINITY, 0.0, f64::INFINITY], [0.0, f64::INFINITY, 0.0, 1.0], 1e-6);
        let difference = Similarity::of([0.0, f64::INFINITY, 0.0, 4.0], [0.0, f64::INFINITY, 0.0, 4.0], 1e-6);
        assert!(
            difference.cosine.is_nan() && difference.cosine_distance.is_nan(),
            "an overflow of one difference tells no angle: {difference:?}"
        );
        assert!(overflow.cosine.is_nan() && overflow.squared_difference == f64::INFINITY, "no threshold is met: {overflow:?}");
    }

    /// A result that is `by` times the reference: sums as they are, and what they say of the angle.
    #[test]
    fn lengths_too_far_apart_leave_the_angle_unknown() {
        for (by, error, known, reason) in [
            (1e3, 1e-6, true, "off by a thousandth at most"),
            (0.99e4, 1e-6, true, "just known"),
            (1.01e4, 1e-6, false, "just not known"),
            (1.0 / 1.01e4, 1e-6, false, "nor is it where the reference is the longer one"),
            (1e8, 1e-6, false, "any angle is possible"),
            (1e8, 1e-15, true, "sums in f64"),
            (f64::MAX.sqrt(), 1e-6, false, "squares at the end of f64"),
        ] {
            let distance: f64 = 0.5;
            let (a, r) = (f64::max(by, 1.0), f64::max(1.0 / by, 1.0));
            let squares = [a * a, r * r];
            let sum_dd = (a - r) * (a - r) + 2.0 * a * r * distance;
            let found = Similarity::of([0.0, sum_dd, 0.0, squares[1]], [0.0, sum_dd, 0.0, squares[0]], error);
            assert_eq!(found.cosine_distance.is_nan(), !known, "{reason}: {found:?}");
            assert_eq!(found.cosine.is_nan(), !known, "{reason}: {found:?}");
            assert!(!known || (found.cosine_distance - distance).abs() < 0.01, "{reason}: {found:?}");
            assert!(found.squared_difference.is_finite(), "{reason}: {found:?}");
        }
    }

    /// Small integers, whose directions have nothing to do with each other, and a reference that vanishes beside them.
    #[test]
    fn what_sums_of_narrow_formats_have_lost_is_not_reported() {
        let device = Device::host();
        let n = 1 << 15;
        let sign = |i: usize, bit: u32| if i >> bit & 1 == 0 { 1.0 } else { -1.0 };
        for (length, known) in [(1.0, true), (1e-2, true), (1e-9, false), (1e-30, false)] {
            let result: Vec<f32> = (0..n).map(|i| sign(i, 0) * 7.0).collect();
            let reference: Vec<f32> = (0..n).map(|i| sign(i, 1) * length).collect();
            let (result, reference) =
                (DeviceMem::from_slice(&device, &result).unwrap(), DeviceMem::from_slice(&device, &reference).unwrap());
            let report = gpu_verify_with(&result, &reference, &Tolerance::exact(), &Options::default().cosine(true)).unwrap();
            let found = report.metrics.as_ref().and_then(|m| m.similarity).unwrap();
            assert_eq!(found.cosine_distance.is_nan(), !known, "{length}: {found:?}");
            assert!(!known || found.cosine.abs() < 1e-3, "orthogonal, {length}: {found:?}");
            assert_eq!(report.to_string().contains("not known"), !known, "{report}");
        }
    }
}
