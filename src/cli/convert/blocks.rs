//! The elements of a tensor as MX blocks, and how many of them the blocks could not hold.

use super::values::{Counts, by_task, numbers, overflows};
use crate::cli::output::zeros;
use crate::dtype::DType;
use crate::dtype::mx::{BLOCK, MxFormat, ScaleRule};
use crate::error::Result;
use crate::files::Loaded;

/// To what, and how.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quantisation {
    pub format: MxFormat,
    pub rule: ScaleRule,
}

/// What became of a tensor.
pub(super) struct Blocks {
    pub elements: Vec<u8>,
    /// A code of e8m0 for each block.
    pub scales: Vec<u8>,
    pub counts: Counts,
}

impl Quantisation {
    /// Blocks of 32 elements each, in row-major order, of a tensor whose rows are whole blocks.
    pub(super) fn run(&self, from: &Loaded<'_>) -> Result<Blocks> {
        let (layout, to) = (from.layout(), self.format.element());
        let mut elements = zeros(to, layout.shape())?;
        let found = by_task(from, to, &mut elements, |_, count, dense, out| self.encode(&numbers(from.dtype(), dense, count), out));
        let (mut scales, mut counts) = (Vec::new(), Counts::default());
        for part in found {
            let (codes, some) = part?;
            scales.extend(codes);
            counts.add(some);
        }
        Ok(Blocks { elements, scales, counts })
    }

    /// Encodes whole blocks: their scales, and what became of their values.
    fn encode(&self, values: &[f64], elements: &mut [u8]) -> Result<(Vec<u8>, Counts)> {
        let mut scales = vec![0; values.len() / BLOCK];
        self.format.encode_by(self.rule, values, elements, &mut scales)?;
        let mut after = vec![0.0; values.len()];
        self.format.decode(elements, &scales, &mut after)?;
        let mut counts = Counts { elements: values.len() as u64, ..Counts::default() };
        for (i, (before, after)) in values.iter().zip(&after).enumerate() {
            self.count(&mut counts, *before, *after, DType::F8E8M0.decode(u64::from(scales[i / BLOCK])));
        }
        Ok((scales, counts))
    }

    /// Counts an element that was `before` and is `after`, in a block of this scale. Blocks have whatever there is, as their own scale may be NaN: nothing is without a counterpart.
    fn count(&self, counts: &mut Counts, before: f64, after: f64, scale: f64) {
        if before == after || before.is_nan() {
        } else if after.is_nan() {
            counts.nan += 1;
        } else if after == 0.0 {
            counts.zero += 1;
        } else if self.overflows(before / scale) {
            counts.overflowed += 1;
        } else {
            counts.rounded += 1;
        }
    }

    /// Whether a value over its scale is beyond the largest element, also when it is rounded.
    fn overflows(&self, value: f64) -> bool {
        match self.format {
            // A tie at 127.5 goes to 128, which these blocks have no use for.
            MxFormat::INT8 => value.abs() * 64.0 >= 127.5,
            format => value.is_infinite() || overflows(format.element(), value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_blocks_cannot_hold_is_counted() {
        let (inf, nan) = (f64::INFINITY, f64::NAN);
        type Case<'a> = (MxFormat, ScaleRule, &'a [f64], [u64; 4], &'a str);
        // Rounded, overflowed, zero, NaN.
        let cases: &[Case] = &[
            (MxFormat::FP4, ScaleRule::Floor, &[7.5, -7.0, 6.5, 0.2, 1.0], [1, 2, 1, 0], "6 is the largest, a tie at 7 is beyond"),
            (MxFormat::FP4, ScaleRule::Rceil, &[7.5, -7.0, 6.5, 0.2, 1.0], [3, 0, 1, 0], "in twice the scale"),
            (MxFormat::FP8_E4M3, ScaleRule::Floor, &[465.0, 464.0, 448.0], [1, 1, 0, 0], "a tie at 464 goes to 448"),
            (MxFormat::INT8, ScaleRule::Floor, &[1.9999, 1.99, -1.99218, 0.001], [2, 1, 1, 0], "127.5 / 64 is 1.9921875"),
            (MxFormat::FP4, ScaleRule::Floor, &[1.0, inf, -2.0, nan], [0, 0, 0, 31], "a block of NaN: all but the one"),
            (MxFormat::FP4, ScaleRule::Even, &[1e300, 1.0, -1e-300], [0, 1, 2, 0], "beyond the largest scale, and below it"),
            (MxFormat::FP6_E3M2, ScaleRule::Even, &[0.0; 2], [0; 4], "zeros"),
        ];
        for &(format, rule, head, want, why) in cases {
            let values: Vec<f64> = (0..BLOCK).map(|i| head.get(i).copied().unwrap_or(0.0)).collect();
            let mut elements = vec![0; format.element().bytes_for(BLOCK).unwrap()];
            let (_, counts) = Quantisation { format, rule }.encode(&values, &mut elements).unwrap();
            let found = [counts.rounded, counts.overflowed, counts.zero, counts.nan];
            assert_eq!((found, counts.lost, counts.elements), (want, 0, 32), "{format} {rule} {head:?}: {why}");
        }
    }
}
