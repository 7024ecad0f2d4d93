//! Integer formats.

use super::Rounding;

/// An integer format: two's complement of `bits` bits, or unsigned, or a truth value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IntFormat {
    /// Width in bits.
    pub bits: u32,
    /// Whether the format has a sign.
    pub signed: bool,
    /// Whether it holds truth values: every pattern but 0 is 1.
    pub truth: bool,
}

impl IntFormat {
    /// The least value.
    pub const fn min(self) -> i128 {
        if self.signed { -1 << (self.bits - 1) } else { 0 }
    }

    /// The largest value.
    pub const fn max(self) -> i128 {
        match (self.truth, self.signed) {
            (true, _) => 1,
            (_, true) => (1 << (self.bits - 1)) - 1,
            (_, false) => (1 << self.bits) - 1,
        }
    }

    /// The value of a bit pattern; bits above the width are ignored.
    pub const fn decode(self, bits: u64) -> i128 {
        let shift = 64 - self.bits;
        match (self.truth, self.signed) {
            (true, _) => (bits << shift != 0) as i128,
            (_, true) => (((bits << shift) as i64) >> shift) as i128,
            (_, false) => ((bits << shift) >> shift) as i128,
        }
    }

    /// The bits of `value` rounded to an integer and saturated to the range; NaN becomes 0.
    pub fn encode(self, value: f64, rounding: Rounding) -> u64 {
        let whole = match rounding {
            Rounding::NearestEven => value.round_ties_even(),
            Rounding::TowardZero => value.trunc(),
        };
        // `as` saturates and sends NaN to 0.
        let clamped = (whole as i128).clamp(self.min(), self.max());
        clamped as u64 & (u64::MAX >> (64 - self.bits))
    }
}
