//! The error budget: how much root mean square error roundings explain, and how much there is.
//!
//! A rounding to nearest in a format with unit roundoff u is off by up to u·|r|, evenly spread, so by u·rms(r)/sqrt(3) at most, root mean square. Roundings are
//! independent, so squares add:
//!
//! * the result's and the reference's: u²/3 each; below the least normal number m of a format roundings are as large as those of m, so that they add up to u²/3 · (1 + (m/rms(r))²) at most;
//! * an accumulator that is rounded at each of n steps, of terms without a common sign: the sum after k steps has the share k/n of the final variance, so that
//!   u²/3 · Σ k/n = u²·n/6;
//! * operands, each a factor of all terms: two times u²/3, whatever n is.
//!
//! * operands of which those below the least normal number m of a format are taken as zeros, uniform in [-range, range): with q = min(1, m / range), a share q of them is, with a share q³ of their
//!   squares. A product is lost when either operand is: 1 - (1 - q³)² of the squares of products, and so of sums.
//!
//! All are relative to the root mean square of the reference.

use super::Report;
use crate::dtype::DType;

/// What is expected of roundings, and what was measured, both relative to the root mean square of the reference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// By the result's rounding and the reference's.
    pub output: f64,
    /// By the accumulator's, see [`accumulated`](Budget::accumulated).
    pub accumulator: f64,
    /// By that of the operands, see [`operands`](Budget::operands).
    pub operands: f64,
    /// By operands that were taken as zeros, see [`flushed`](Budget::flushed).
    pub flushing: f64,
    /// What was measured.
    pub measured: f64,
}

impl Budget {
    /// The budget of a report; `None` where a format is one of integers, metrics were not measured, or are not finite.
    ///
    /// ```
    /// use hipverify::dtype::{DType, F16};
    /// use hipverify::verify::{Budget, Tolerance, gpu_verify};
    /// use hipverify::{Device, DeviceMem};
    /// let device = Device::host();
    /// let reference: Vec<f32> = (0..1000).map(|i| 1.0 + i as f32 / 999.0).collect();
    /// let result: Vec<F16> = reference.iter().map(|x| F16::from_f32(*x)).collect();
    /// let (result, reference) = (DeviceMem::from_slice(&device, &result)?, DeviceMem::from_slice(&device, &reference)?);
    /// let budget = Budget::of(&gpu_verify(&result, &reference, &Tolerance::exact())?).unwrap();
    /// assert!(budget.ratio() > 0.6 && budget.ratio() < 0.7);
    /// assert!(budget.accumulated(DType::F16, 256).ratio() < 0.1);
    /// # Ok::<(), hipverify::Error>(())
    /// ```
    pub fn of(report: &Report) -> Option<Budget> {
        let metrics = report.metrics.as_ref()?;
        let measured = metrics.relative_l2;
        // Of what is relative to the largest number and to the root mean square of the reference one is known in terms of the other.
        let root_mean_square = metrics.rms * report.result_max.max(report.reference_max) / measured;
        let rounding = |dtype: DType| {
            let format = dtype.float_format()?;
            let subnormal = if measured > 0.0 { format.min_normal() / root_mean_square } else { 0.0 };
            Some(format.unit_roundoff() * subnormal.hypot(1.0))
        };
        let output = rounding(report.result_dtype)?.hypot(rounding(report.reference_dtype)?) / 3f64.sqrt();
        measured.is_finite().then_some(Budget { output, accumulator: 0.0, operands: 0.0, flushing: 0.0, measured })
    }

    /// With an accumulator that is rounded at each of so many steps; no change for an integer format.
    pub fn accumulated(self, accumulator: DType, steps: usize) -> Budget {
        Budget { accumulator: accumulator.unit_roundoff() * (steps as f64 / 6.0).sqrt(), ..self }
    }

    /// With operands that were rounded to a format, which the reference's were not; no change for an integer format.
    pub fn operands(self, operands: DType) -> Budget {
        Budget { operands: operands.unit_roundoff() * (2.0f64 / 3.0).sqrt(), ..self }
    }

    /// With operands uniform in [-range, range) whose subnormal numbers were taken as zeros, as the matrix cores of MI200 take those of f16 and bf16; no change for an integer format.
    pub fn flushed(self, operands: DType, range: f64) -> Budget {
        let Some(format) = operands.float_format() else { return self };
        let q = (format.min_normal() / range.abs()).min(1.0);
        let kept = 1.0 - q * q * q;
        Budget { flushing: (1.0 - kept * kept).sqrt(), ..self }
    }

    /// What is expected of all parts.
    pub fn expected(self) -> f64 {
        let Budget { output, accumulator, operands, flushing, .. } = self;
        (output * output + accumulator * accumulator + operands * operands + flushing * flushing).sqrt()
    }

    /// What was measured over what is expected: up to 1 where the parts explain the error.
    pub fn ratio(self) -> f64 {
        self.measured / self.expected()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::F16;
    use crate::verify::{Tolerance, gpu_verify};
    use crate::{Device, DeviceMem};

    const N: usize = 256;

    fn round(x: f64, format: DType) -> f64 {
        format.rounded(x)
    }

    /// Sums of 256 products of uniform numbers, by `dot`.
    fn sums(dot: impl Fn(&[f64], &[f64]) -> f64) -> Vec<f64> {
        let next = |state: &mut u64, _| {
            *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            Some((*state >> 32) as f64 / (1u64 << 31) as f64 - 1.0)
        };
        let numbers: Vec<f64> = (0..2 * N * 1024).scan(5, next).collect();
        numbers.chunks(2 * N).map(|both| dot(&both[..N], &both[N..])).collect()
    }

    fn exact(a: &[f64], b: &[f64]) -> f64 {
        a.iter().zip(b).map(|(x, y)| x * y).sum()
    }

    /// The formulas against roundings that were made.
    #[test]
    fn each_part_predicts_the_error_that_it_makes() {
        let device = Device::host();
        let reference = DeviceMem::from_slice(&device, &sums(exact)).unwrap();
        let budget = |result: Vec<f64>| {
            let result = DeviceMem::from_slice(&device, &result).unwrap();
            Budget::of(&gpu_verify(&result, &reference, &Tolerance::exact()).unwrap()).unwrap()
        };
        let in_f16 = |a: &[f64], b: &[f64]| a.iter().zip(b).fold(0.0, |s, (x, y)| round(x * y + s, DType::F16));
        let of_bf16 = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| round(*x, DType::Bf16) * round(*y, DType::Bf16)).sum();
        // Numbers in [-1, 1) in the place of those in [-range, range), so that what is flushed is below min_normal / range.
        let least = 0.25 / DType::F16.float_format().unwrap().min_normal();
        let keep = |x: &f64| if x.abs() < 0.25 { 0.0 } else { *x };
        let flushed = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| keep(x) * keep(y)).sum();
        for (ratio, reason) in [
            (budget(sums(in_f16)).accumulated(DType::F16, N).ratio(), "an accumulator of f16"),
            (budget(sums(of_bf16)).operands(DType::Bf16).ratio(), "operands of bf16"),
            (budget(sums(flushed)).flushed(DType::F16, 1.0 / least).ratio(), "operands below a quarter of their range flushed"),
        ] {
            // Of flushing the mean is known, of roundings the most.
            assert!((0.5..1.02).contains(&ratio), "{reason}: {ratio}");
        }
        let exactly = budget(sums(exact));
        assert_eq!((exactly.measured, exactly.ratio()), (0.0, 0.0));
    }

    /// Their spacing does not depend on them.
    #[test]
    fn roundings_of_subnormal_numbers_are_as_large_as_that_of_the_least_normal_one() {
        let device = Device::host();
        let reference = sums(exact).iter().map(|x| x * 1e-7).collect::<Vec<f64>>();
        let rounded: Vec<f64> = reference.iter().map(|x| round(*x, DType::F16)).collect();
        let result = DeviceMem::from_slice(&device, &rounded.iter().map(|x| F16::from_f64(*x)).collect::<Vec<_>>()).unwrap();
        let reference = DeviceMem::from_slice(&device, &reference).unwrap();
        let budget = Budget::of(&gpu_verify(&result, &reference, &Tolerance::exact()).unwrap()).unwrap();
        assert!(budget.measured > 0.01 && (0.95..1.05).contains(&budget.ratio()), "{budget:?}");
    }

    #[test]
    fn integers_have_no_budget() {
        let x = DeviceMem::from_slice(&Device::host(), &[1i8, 2, 3]).unwrap();
        assert_eq!(Budget::of(&gpu_verify(&x, &x, &Tolerance::exact()).unwrap()), None);
    }
}
