//! Backward weight on matrix cores: partial sums over slices of the batch, added in memory by float atomics.
//!
//! The order of the additions is not fixed; two runs on hardware differ. Partial sums are in f32, and every order of
//! `parts` of them starts from zero, so there are `parts - 1` rounded additions. Each partial total of any order lies between
//! the sum of the negative parts and the sum of the positive ones, and so does its rounding error by the spacing there: that
//! bounds the results of all orders without trying them.

use super::run::Side;
use crate::device::{Device, DeviceMem};
use crate::dtype::F16;
use crate::error::Result;
use crate::reference::{Accumulate, Conv, ConvParam, Direction, Role};
use half::slice::HalfFloatSliceExt;

/// The partial sums of every element of the filter.
#[derive(Debug)]
pub(super) struct Sums {
    parts: Vec<Vec<f32>>,
}

impl Sums {
    /// The sums over each of `parts` equal parts of the images.
    pub(super) fn new(device: &Device, param: &ConvParam, accumulate: Accumulate, sides: [&Side; 2], parts: usize) -> Result<Sums> {
        let images = param.batch() / parts;
        let slice = param.with_batch(images)?;
        let conv = Conv::new(slice.clone(), Direction::BackwardWeight, accumulate);
        let len = param.elements(Role::Filter);
        let part = |i: usize| -> Result<Vec<f32>> {
            let mut sums = DeviceMem::<f32>::new(device, len)?;
            let [a, b] = sides.map(|side| side.images(&slice, i * images));
            conv.run(&a?, &b?, &mut sums.tensor_mut(&[len])?)?;
            sums.to_vec()
        };
        Ok(Sums { parts: (0..parts).map(part).collect::<Result<_>>()? })
    }

    /// The results when the parts arrive in ascending order.
    pub(super) fn ascending(&self) -> Vec<F16> {
        let len = self.parts.first().map_or(0, Vec::len);
        let totals: Vec<f32> = (0..len).map(|i| self.parts.iter().fold(0.0, |sum, part| sum + part[i])).collect();
        narrow(&totals)
    }

    /// For each element the result nearest to `val`, and the one farthest from it, that the orders allow.
    pub(super) fn extremes(&self, val: &[F16]) -> (Vec<F16>, Vec<F16>) {
        let choose = |(i, &v): (usize, &F16)| {
            let (low, high) = self.bounds(i);
            let ends = narrow(&[low, high]);
            let (low, high) = (ends[0], ends[1]);
            let near = if v < low {
                low
            } else if v > high {
                high
            } else {
                v
            };
            let distance = |x: F16| (x.to_f32() - v.to_f32()).abs();
            (near, if distance(low) > distance(high) { low } else { high })
        };
        val.iter().enumerate().map(choose).unzip()
    }

    /// An interval with the f32 totals of all orders for element `i`.
    fn bounds(&self, i: usize) -> (f32, f32) {
        let values = || self.parts.iter().map(|part| f64::from(part[i]));
        let (positive, negative) = (values().filter(|v| *v > 0.0).sum::<f64>(), -values().filter(|v| *v < 0.0).sum::<f64>());
        let exact: f64 = values().sum();
        // Half a spacing of f32 at the largest partial total, plus a margin for the totals' own errors and for f64's.
        let half_spacing = (positive.max(negative) * (1.0 + 1e-5)).max(f64::from(f32::MIN_POSITIVE)) * f64::from(f32::EPSILON) / 2.0;
        let error = (self.parts.len() - 1) as f64 * half_spacing * (1.0 + 1e-9);
        ((exact - error) as f32, (exact + error) as f32)
    }
}

/// f32 to f16, nearest even.
fn narrow(from: &[f32]) -> Vec<F16> {
    let mut to = vec![F16::ZERO; from.len()];
    to.convert_from_f32_slice(from);
    to
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All orders of `rest` after `sum`.
    fn totals(sum: f32, rest: &[f32], found: &mut Vec<f32>) {
        if rest.is_empty() {
            found.push(sum);
        }
        for i in 0..rest.len() {
            let mut others = rest.to_vec();
            let next = others.swap_remove(i);
            totals(sum + next, &others, found);
        }
    }

    #[test]
    fn every_order_lies_inside_the_bounds() {
        let cases: [&[f32]; 5] = [
            &[1.0, 2.0, 3.0],
            &[1e8, 1.0, -1e8, 1.0, 0.3, -0.7],
            &[0.1, 0.2, 0.3, -0.6, 1e-9, 7.7],
            &[1e-40, -1e-40, 1e-45, 3e-42],
            &[33_554_432.0, 1.0, 1.0, 1.0, -33_554_432.0, 1.0],
        ];
        let mut varied = 0;
        for parts in cases {
            let sums = Sums { parts: parts.iter().map(|&p| vec![p]).collect() };
            let (low, high) = sums.bounds(0);
            let mut found = Vec::new();
            totals(0.0, parts, &mut found);
            assert!(found.iter().all(|t| (low..=high).contains(t)), "{parts:?}: [{low}, {high}]");
            varied += usize::from(found.iter().any(|&t| t != found[0]));
        }
        assert!(varied >= 3, "the order matters in {varied} cases only");
    }

    #[test]
    fn extremes_enclose_the_validator_where_they_can() {
        let sums = Sums { parts: vec![vec![1.0, 65530.0], vec![2.0, 1.0]] };
        let (near, far) = sums.extremes(&[F16::from_f32(3.0), F16::from_f32(1.0)]);
        assert_eq!((near[0].to_f32(), far[0].to_f32()), (3.0, 3.0));
        assert!(near[1].is_infinite() && far[1].is_infinite());
        assert_eq!(sums.ascending()[0].to_f32(), 3.0);
    }
}
