//! The elements of a tensor in another format, and how many of them the format could not hold.

use crate::cli::output::zeros;
use crate::dtype::convert::{decode_f64, decode_whole, encode_from_f64};
use crate::dtype::mx::{BLOCK, MxFormat};
use crate::dtype::{DType, Overflow, Rounding, spacing};
use crate::error::Result;
use crate::files::Loaded;
use crate::parallel;
use std::sync::{Mutex, PoisonError};

/// Elements of one task: whole bytes, and whole blocks of MX formats.
const TASK: usize = 1 << 14;

/// The most elements that are copied at once where they do not lie one after the other: several rows that share cache lines.
const RUN: usize = 64 * TASK;

/// Calls `task` on all cores with the elements of a tensor in row-major order, [`TASK`] of them at a time: with the number of the first, how many there are, their bytes, and the part of
/// `out` that they become. Returns what it returned, in this order.
pub(super) fn by_task<T: Send>(
    from: &Loaded<'_>,
    to: DType,
    out: &mut [u8],
    task: impl Fn(usize, usize, &[u8], &mut [u8]) -> T + Sync,
) -> Vec<T> {
    let elements = from.layout().elements();
    let run = (elements / (8 * parallel::threads())).next_multiple_of(TASK).clamp(TASK, RUN);
    let bytes = |dtype: DType, elements| dtype.bytes_for(elements).unwrap_or(usize::MAX);
    let parts: Vec<Mutex<&mut [u8]>> = out.chunks_mut(bytes(to, run)).map(Mutex::new).collect();
    let found = parallel::map(parts.len(), |number| {
        let (first, end) = (number * run, elements.min((number + 1) * run));
        let dense = from.dense(first..end);
        let mut out = parts[number].lock().unwrap_or_else(PoisonError::into_inner);
        let pairs = dense.chunks(bytes(from.dtype(), TASK)).zip(out.chunks_mut(bytes(to, TASK)));
        let starts = (first..end).step_by(TASK);
        starts.zip(pairs).map(|(start, (dense, out))| task(start, TASK.min(end - start), dense, out)).collect::<Vec<T>>()
    });
    found.into_iter().flatten().collect()
}

/// What became of the elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub elements: u64,
    /// Those that are another number than before.
    pub rounded: u64,
    /// Beyond the largest number: infinity, NaN or the largest number, as the overflow rule says.
    pub overflowed: u64,
    /// Not 0 before.
    pub zero: u64,
    /// Infinities of which NaN was made.
    pub nan: u64,
    /// NaN, 0 or a negative number that the format lacks: some number in its place.
    pub lost: u64,
}

impl Counts {
    /// Whether the format held all elements, apart from rounding.
    pub(super) fn harmless(&self) -> bool {
        self.overflowed + self.zero + self.nan + self.lost == 0
    }

    pub(super) fn add(&mut self, other: Counts) {
        self.elements += other.elements;
        self.rounded += other.rounded;
        self.overflowed += other.overflowed;
        self.zero += other.zero;
        self.nan += other.nan;
        self.lost += other.lost;
    }

    /// One number that a format is too small for, or that has a sign which the format lacks.
    fn beyond(to: DType, negative: bool) -> Counts {
        let lost = negative && (to == DType::F8E8M0 || to.int_format().is_some_and(|int| int.min() == 0));
        if lost { Counts { lost: 1, ..Counts::default() } } else { Counts { overflowed: 1, ..Counts::default() } }
    }

    /// Counts one element that was `before` and is `after`, in `to`.
    fn count(&mut self, to: DType, before: f64, after: f64) {
        self.elements += 1;
        // The largest number of a 64-bit integer format rounds, in f64, to what is beyond it.
        if before == after && !overflows(to, before) {
            return;
        }
        if before.is_nan() {
            self.lost += u64::from(!after.is_nan());
        } else if overflows(to, before) || before.is_infinite() && after.is_finite() {
            self.add(Counts::beyond(to, before < 0.0));
        } else if after.is_nan() {
            self.nan += 1;
        } else if after == 0.0 {
            self.zero += 1;
        } else if before == 0.0 || (before < 0.0) != (after < 0.0) {
            self.lost += 1;
        } else {
            self.rounded += 1;
        }
    }
}

/// Whether a finite number is beyond the largest one of a format also when it is rounded to it.
pub(super) fn overflows(to: DType, value: f64) -> bool {
    if !value.is_finite() {
        return false;
    }
    if let Some(int) = to.int_format() {
        let whole = value.round_ties_even() as i128;
        return whole < int.min() || whole > int.max();
    }
    let Some(format) = to.float_format() else { return false };
    // Most are not; e8m0 has no negative number.
    if value.abs() <= format.max_finite() && (value >= 0.0 || to != DType::F8E8M0) {
        return false;
    }
    if format.has_infinity() || format.has_nan() {
        return !to.rounded(value).is_finite();
    }
    // The last digit of their largest numbers is odd: a tie is beyond.
    let largest = format.max_finite();
    value.abs() - largest >= spacing(to, largest) / 2.0
}

/// Puts the largest number of their format in the place of infinities, and counts them; all else keeps its bits, NaN too.
fn saturate(dtype: DType, elements: usize, bytes: &mut [u8]) -> u64 {
    if !dtype.float_format().is_some_and(|format| format.has_infinity()) {
        return 0;
    }
    let mut infinities = 0;
    for i in 0..elements {
        let x = dtype.decode(dtype.load_bits(bytes, i));
        if x.is_infinite() {
            dtype.store_bits(bytes, i, dtype.encode(x, Rounding::NearestEven, Overflow::Saturate));
            infinities += 1;
        }
    }
    infinities
}

/// From what and to what.
#[derive(Clone, Copy, Debug)]
pub(super) struct Conversion<'a> {
    /// The scales of an MX tensor, one a block.
    pub scales: Option<&'a [u8]>,
    pub to: DType,
    pub overflow: Overflow,
}

impl Conversion<'_> {
    /// The elements of a tensor in row-major order, rounded to nearest even.
    pub(super) fn run(&self, from: &Loaded<'_>) -> Result<(Vec<u8>, Counts)> {
        let (dtype, layout) = (from.dtype(), from.layout());
        let mx = self.scales.map(|scales| Ok((MxFormat::new(dtype)?, scales))).transpose()?;
        let mut out = zeros(self.to, layout.shape())?;
        let found = by_task(from, self.to, &mut out, |first, elements, dense, out| match mx {
            None => Ok(self.encode(dtype, dense, elements, out)),
            Some((format, scales)) => self.decode_mx(format, dense, &scales[first / BLOCK..][..elements / BLOCK], out),
        });
        let mut total = Counts::default();
        for counts in found {
            total.add(counts?);
        }
        Ok((out, total))
    }

    /// Encodes elements that lie one after the other.
    fn encode(&self, from: DType, dense: &[u8], elements: usize, out: &mut [u8]) -> Counts {
        if from == self.to {
            out.copy_from_slice(dense);
            if from == DType::Bool {
                // Every pattern but 0 is true.
                out.iter_mut().for_each(|byte| *byte = u8::from(*byte != 0));
            }
            let overflowed = if self.overflow == Overflow::Saturate { saturate(from, elements, out) } else { 0 };
            return Counts { elements: elements as u64, overflowed, ..Counts::default() };
        }
        if matches!(from, DType::I64 | DType::U64) {
            let mut whole = vec![0; elements];
            decode_whole(from, dense, &mut whole);
            return self.encode_whole(&whole, out);
        }
        self.encode_values(&numbers(from, dense, elements), out)
    }

    fn encode_values(&self, values: &[f64], out: &mut [u8]) -> Counts {
        encode_from_f64(self.to, values, Rounding::NearestEven, self.overflow, out);
        let mut after = vec![0.0; values.len()];
        decode_f64(self.to, out, &mut after);
        let mut counts = Counts::default();
        values.iter().zip(&after).for_each(|(before, after)| counts.count(self.to, *before, *after));
        counts
    }

    /// 64-bit integers, not all of which f64 holds.
    fn encode_whole(&self, values: &[i128], out: &mut [u8]) -> Counts {
        let mut counts = Counts { elements: values.len() as u64, ..Counts::default() };
        for (i, &value) in values.iter().enumerate() {
            let bits = match self.to.int_format() {
                Some(int) => {
                    let held = value.clamp(int.min(), int.max());
                    if held != value {
                        counts.add(Counts::beyond(self.to, value < 0));
                    }
                    held as u64 & (u64::MAX >> (64 - int.bits))
                }
                None => {
                    let near = if self.to == DType::F64 { value as f64 } else { odd(value) };
                    let bits = self.to.encode(near, Rounding::NearestEven, self.overflow);
                    let mut one = Counts::default();
                    one.count(self.to, near, self.to.decode(bits));
                    let rounded = u64::from(one.harmless() && self.to.decode(bits) as i128 != value);
                    counts.add(Counts { elements: 0, rounded, ..one });
                    bits
                }
            };
            self.to.store_bits(out, i, bits);
        }
        counts
    }

    fn decode_mx(&self, format: MxFormat, dense: &[u8], scales: &[u8], out: &mut [u8]) -> Result<Counts> {
        let mut values = vec![0.0; scales.len() * BLOCK];
        format.decode(dense, scales, &mut values)?;
        Ok(self.encode_values(&values, out))
    }
}

/// So many elements that lie one after the other, as f64; 64-bit integers that it does not hold so that rounding them to fewer bits is as if rounded once.
pub(super) fn numbers(from: DType, dense: &[u8], elements: usize) -> Vec<f64> {
    if matches!(from, DType::I64 | DType::U64) {
        let mut whole = vec![0; elements];
        decode_whole(from, dense, &mut whole);
        return whole.into_iter().map(odd).collect();
    }
    let mut values = vec![0.0; elements];
    decode_f64(from, dense, &mut values);
    values
}

/// A whole number as f64, toward zero with the last bit set where something is cut off: rounded again to fewer bits it is as if rounded once.
fn odd(value: i128) -> f64 {
    let magnitude = value.unsigned_abs();
    let drop = (128 - magnitude.leading_zeros()).saturating_sub(53);
    let kept = magnitude >> drop;
    let sticky = u128::from(kept << drop != magnitude);
    let near = ((kept | sticky) << drop) as f64;
    if value < 0 { -near } else { near }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn converted(from: DType, values: &[f64], to: DType, overflow: Overflow) -> (Vec<f64>, Counts) {
        let mut dense = vec![0; from.bytes_for(values.len()).unwrap()];
        encode_from_f64(from, values, Rounding::NearestEven, Overflow::Ieee, &mut dense);
        let mut out = vec![0; to.bytes_for(values.len()).unwrap()];
        let counts = Conversion { scales: None, to, overflow }.encode(from, &dense, values.len(), &mut out);
        ((0..values.len()).map(|i| to.decode(to.load_bits(&out, i))).collect(), counts)
    }

    #[test]
    fn every_element_that_a_format_cannot_hold_is_counted() {
        type Case<'a> = (DType, &'a [f64], Overflow, [u64; 5], &'a str);
        let (inf, nan) = (f64::INFINITY, f64::NAN);
        // Rounded, overflowed, zero, NaN, lost.
        let cases: [Case; 12] = [
            (DType::F16, &[1.0, 65519.0, 65520.0, 1e-9, nan, inf], Overflow::Ieee, [1, 1, 1, 0, 0], "65519 rounds to the largest"),
            (DType::F16, &[65519.0, 65520.0, inf, -inf], Overflow::Saturate, [1, 3, 0, 0, 0], "infinities saturate"),
            (DType::F8E4M3, &[464.0, 465.0, inf, nan, 0.3], Overflow::Ieee, [2, 1, 0, 1, 0], "a tie at 464"),
            (DType::F8E4M3, &[464.0, 465.0, inf], Overflow::Saturate, [1, 2, 0, 0, 0], "saturated"),
            (DType::F8E4M3Fnuz, &[-0.0, 1e-9, 248.0], Overflow::Ieee, [0, 1, 1, 0, 0], "no -0, which is equal"),
            (DType::F4E2M1, &[6.9, 7.0, -7.0, 0.25, nan], Overflow::Ieee, [1, 2, 1, 0, 1], "no NaN"),
            (DType::F8E8M0, &[1.0, 0.0, -2.0, 3.0], Overflow::Ieee, [1, 0, 0, 0, 2], "no zero, no sign"),
            (DType::I8, &[127.4, 127.5, -128.5, -129.0, nan, 0.5, 1.5], Overflow::Ieee, [3, 2, 1, 0, 1], "integers saturate"),
            (DType::U8, &[-1.0, 255.0, 256.0, -inf, inf, -0.5, -300.0], Overflow::Ieee, [0, 2, 1, 0, 3], "negative numbers"),
            (DType::Bool, &[0.0, 1.0, 2.0], Overflow::Ieee, [0, 1, 0, 0, 0], "truth values"),
            (DType::F64, &[0.1, nan, inf], Overflow::Ieee, [0; 5], "f64 holds all"),
            (DType::I64, &[9.3e18, 9.2e18], Overflow::Ieee, [0, 1, 0, 0, 0], "beyond 2^63"),
        ];
        for (to, values, overflow, found, why) in cases {
            let (_, counts) = converted(DType::F64, values, to, overflow);
            let of = [counts.rounded, counts.overflowed, counts.zero, counts.nan, counts.lost];
            assert_eq!((of, counts.elements), (found, values.len() as u64), "{to} {values:?}: {why}");
        }
    }

    #[test]
    fn wide_integers_are_rounded_once() {
        let run = |to: DType, values: &[i128]| {
            let mut out = vec![0; to.bytes_for(values.len()).unwrap()];
            let counts = Conversion { scales: None, to, overflow: Overflow::Ieee }.encode_whole(values, &mut out);
            ((0..values.len()).map(|i| to.decode(to.load_bits(&out, i))).collect::<Vec<_>>(), counts)
        };
        // Just above the middle of two f32 numbers; f64 has no place for the 1.
        let above = (1i128 << 62) + (1 << 38) + 1;
        let up = 2f64.powi(62) + 2f64.powi(39);
        assert_eq!(run(DType::F32, &[above, -above, above - 1]).0, [up, -up, 2f64.powi(62)]);
        assert_eq!(run(DType::F64, &[(1 << 53) + 1]).1.rounded, 1);
        let (values, counts) = run(DType::I32, &[1 << 40, -5, i128::from(i32::MIN)]);
        assert_eq!((values.as_slice(), counts.overflowed), (&[2147483647.0, -5.0, -2147483648.0][..], 1));
        let (values, counts) = run(DType::U64, &[1 << 40, -5, i128::from(i64::MIN)]);
        assert_eq!((values.as_slice(), counts.overflowed, counts.lost), (&[2f64.powi(40), 0.0, 0.0][..], 0, 2), "no sign");
        assert_eq!(run(DType::F16, &[1 << 20, 3, 2049]).1, Counts { elements: 3, rounded: 1, overflowed: 1, ..Counts::default() });
    }

    #[test]
    fn the_same_format_keeps_its_bits() {
        let bits = [0x7e01u16, 0xfc00, 0x8001];
        let dense: Vec<u8> = bits.iter().flat_map(|b| b.to_le_bytes()).collect();
        let mut out = vec![0; 6];
        let counts = Conversion { scales: None, to: DType::F16, overflow: Overflow::Ieee }.encode(DType::F16, &dense, 3, &mut out);
        assert_eq!((&out, counts.rounded, counts.harmless()), (&dense, 0, true));
        // But for truth values, of which those that are true are one number.
        let counts =
            Conversion { scales: None, to: DType::Bool, overflow: Overflow::Ieee }.encode(DType::Bool, &[0, 1, 0x36], 3, &mut out[..3]);
        assert_eq!((&out[..3], counts), (&[0, 1, 1][..], Counts { elements: 3, ..Counts::default() }));
        // And for infinities that are to be the largest number.
        let counts = Conversion { scales: None, to: DType::F16, overflow: Overflow::Saturate }.encode(DType::F16, &dense, 3, &mut out);
        let saturated: Vec<u8> = [0x7e01u16, 0xfbff, 0x8001].iter().flat_map(|b| b.to_le_bytes()).collect();
        assert_eq!((out, counts), (saturated, Counts { elements: 3, overflowed: 1, ..Counts::default() }));
    }

    /// Also where f64 tells the largest number from nothing beyond it.
    #[test]
    fn whole_numbers_of_64_bits_overflow() {
        for (to, values) in
            [(DType::I64, [2f64.powi(63), 2f64.powi(65), -2f64.powi(64)]), (DType::U64, [2f64.powi(64), 2f64.powi(65), f64::MAX])]
        {
            let mut out = vec![0; 24];
            let counts = Conversion { scales: None, to, overflow: Overflow::Ieee }.encode_values(&values, &mut out);
            assert_eq!((counts.overflowed, counts.rounded), (3, 0), "{to}");
        }
    }
}
