//! Floating-point formats described by their fields, with the conversions that define all others.

/// How a value that lies between two neighbours of a format is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Rounding {
    /// To the nearer neighbour, a tie to the one with an even significand (IEEE 754 roundTiesToEven). In e8m0 the
    /// significand is always 1, so both are odd; there a tie goes to the larger one, as IEEE 754 says for one-digit precision.
    #[default]
    NearestEven,
    /// Toward zero, that is, by truncation.
    TowardZero,
}

/// What becomes of a value beyond the largest finite one, after rounding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Overflow {
    /// IEEE 754: infinity where the format has one, else NaN where it has one, else the largest finite value.
    /// Toward-zero rounding of a finite value gives the largest finite value, as IEEE 754 says.
    #[default]
    Ieee,
    /// The largest finite value of the same sign; infinities saturate too. NaN stays NaN where the format has one.
    Saturate,
}

/// The bit patterns that do not stand for finite numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Specials {
    /// The largest exponent holds infinities and NaNs.
    Ieee,
    /// Only the all-ones pattern of each sign is NaN; no infinities (OCP e4m3).
    SingleNan,
    /// The pattern of minus zero is the one NaN; no infinities (fnuz).
    NegativeZeroNan,
    /// Every pattern is a finite number (fp6, fp4).
    None,
    /// e8m0: no sign, no zero, all-ones is NaN.
    E8m0,
}

/// A binary floating-point format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FloatFormat {
    /// Exponent field width in bits.
    pub exponent_bits: u32,
    /// Explicit fraction field width in bits.
    pub mantissa_bits: u32,
    /// Exponent bias.
    pub bias: i32,
    /// Which patterns are special.
    pub specials: Specials,
    /// Unused bits below the fraction (13 for tf32, whose word is 32 bits wide).
    pub pad_bits: u32,
}

impl FloatFormat {
    /// Exponent of the least normal number: 1 - bias (e8m0, whose field 0 is a normal number: -bias).
    pub const fn min_exponent(&self) -> i32 {
        match self.specials {
            Specials::E8m0 => -self.bias,
            _ => 1 - self.bias,
        }
    }

    /// Exponent of the largest finite number.
    pub const fn max_exponent(&self) -> i32 {
        let top = (1 << self.exponent_bits) - 1 - self.bias;
        match self.specials {
            Specials::Ieee | Specials::E8m0 => top - 1,
            // At most the all-ones fraction of the top exponent is NaN: the other fractions are numbers.
            Specials::SingleNan | Specials::NegativeZeroNan | Specials::None => top,
        }
    }

    /// The least positive normal number.
    pub fn min_normal(&self) -> f64 {
        exp2(self.min_exponent())
    }

    /// The least positive number: 2^(min_exponent - mantissa_bits).
    pub fn min_positive(&self) -> f64 {
        exp2(self.min_exponent() - self.mantissa_bits as i32)
    }

    /// The largest finite number.
    pub fn max_finite(&self) -> f64 {
        self.decode(self.max_bits())
    }

    /// Unit roundoff of nearest rounding, 2^-(mantissa_bits + 1).
    pub fn unit_roundoff(&self) -> f64 {
        exp2(-(self.mantissa_bits as i32) - 1)
    }

    /// Whether the format has infinities.
    pub const fn has_infinity(&self) -> bool {
        matches!(self.specials, Specials::Ieee)
    }

    /// Whether the format has a NaN.
    pub const fn has_nan(&self) -> bool {
        !matches!(self.specials, Specials::None)
    }

    pub(super) const fn sign_bit(&self) -> u64 {
        match self.specials {
            Specials::E8m0 => 0,
            _ => 1 << (self.exponent_bits + self.mantissa_bits),
        }
    }

    pub(super) const fn max_bits(&self) -> u64 {
        let ones = (1u64 << (self.exponent_bits + self.mantissa_bits)) - 1;
        (match self.specials {
            Specials::Ieee => ones - (1 << self.mantissa_bits),
            Specials::SingleNan | Specials::E8m0 => ones - 1,
            Specials::NegativeZeroNan | Specials::None => ones,
        }) << self.pad_bits
    }

    pub(super) const fn infinity_bits(&self) -> u64 {
        ((1u64 << self.exponent_bits) - 1) << self.mantissa_bits
    }

    pub(super) const fn nan_bits(&self) -> u64 {
        match self.specials {
            // Quiet: the top fraction bit is set.
            Specials::Ieee => self.infinity_bits() | 1 << (self.mantissa_bits - 1),
            Specials::SingleNan | Specials::E8m0 => (1 << (self.exponent_bits + self.mantissa_bits)) - 1,
            Specials::NegativeZeroNan => self.sign_bit(),
            Specials::None => 0,
        }
    }

    /// The exact value of a bit pattern; bits outside the format are ignored. Only f64 keeps the payload of a NaN.
    pub fn decode(&self, bits: u64) -> f64 {
        if self.mantissa_bits == 52 {
            return f64::from_bits(bits);
        }
        let bits = bits >> self.pad_bits;
        let magnitude = bits & ((1 << (self.exponent_bits + self.mantissa_bits)) - 1);
        let negative = bits & self.sign_bit() != 0;
        let fraction = magnitude & ((1 << self.mantissa_bits) - 1);
        let field = (magnitude >> self.mantissa_bits) as i32;
        let nan = match self.specials {
            Specials::Ieee => magnitude > self.infinity_bits(),
            Specials::SingleNan | Specials::E8m0 => magnitude == self.nan_bits(),
            Specials::NegativeZeroNan => negative && magnitude == 0,
            Specials::None => false,
        };
        let value = if nan {
            f64::NAN
        } else if self.has_infinity() && magnitude == self.infinity_bits() {
            f64::INFINITY
        } else if self.specials == Specials::E8m0 {
            exp2(field - self.bias)
        } else if field == 0 {
            fraction as f64 * exp2(self.min_exponent() - self.mantissa_bits as i32)
        } else {
            (fraction | 1 << self.mantissa_bits) as f64 * exp2(field - self.bias - self.mantissa_bits as i32)
        };
        if negative { -value } else { value }
    }

    /// The bit pattern of `value`, rounded once. Subnormals are rounded as IEEE 754 says (gradual underflow).
    ///
    /// A NaN becomes the format's quiet NaN without payload (with its sign if the format's NaN has one); f64 keeps the NaN
    /// unchanged; formats without NaN give +0 for it. A value that rounds to zero keeps its sign where the format has a negative
    /// zero. e8m0 has neither sign nor zero: it encodes |value|, and values below 2^-127, including zero, become 2^-127.
    pub fn encode(&self, value: f64, rounding: Rounding, overflow: Overflow) -> u64 {
        if self.mantissa_bits == 52 {
            return encode_f64(value, overflow);
        }
        let sign = if value.is_sign_negative() { self.sign_bit() } else { 0 };
        let unsigned = self.encode_magnitude(value.abs(), rounding, overflow);
        let bits = match self.specials {
            // Here a sign on zero would spell NaN, and the NaN carries its own.
            Specials::NegativeZeroNan if unsigned == 0 || unsigned == self.nan_bits() => unsigned,
            Specials::None if value.is_nan() => 0,
            _ => unsigned | sign,
        };
        bits << self.pad_bits
    }

    fn encode_magnitude(&self, value: f64, rounding: Rounding, overflow: Overflow) -> u64 {
        let max = self.max_bits() >> self.pad_bits;
        let beyond = match (overflow, self.specials) {
            (Overflow::Saturate, _) | (_, Specials::None) => max,
            (Overflow::Ieee, Specials::Ieee) => self.infinity_bits(),
            (Overflow::Ieee, _) => self.nan_bits(),
        };
        if value.is_nan() {
            return self.nan_bits();
        }
        if value.is_infinite() {
            return beyond;
        }
        if value == 0.0 {
            return 0;
        }
        // value = significand * 2^(exponent - 52), 2^52 <= significand < 2^53: exact for f64 subnormals as well.
        let (significand, exponent) = split(value);
        // The grid: multiples of 2^step, where subnormals share the step of the least normal binade.
        let step = exponent.max(self.min_exponent()) - self.mantissa_bits as i32;
        let drop = (step - (exponent - 52)).clamp(0, 63) as u32;
        let mut quotient = significand >> drop;
        let rest = significand & ((1u64 << drop) - 1);
        let half = (1u64 << drop) >> 1;
        if rounding == Rounding::NearestEven && drop > 0 && (rest > half || rest == half && quotient & 1 == 1) {
            quotient += 1;
        }
        // In this encoding the integer quotient plus the exponent field's offset is the pattern itself: a carry out of
        // the fraction moves into the exponent field, as it must.
        let field = i64::from(exponent.max(self.min_exponent()) - self.min_exponent());
        let bits = if self.specials == Specials::E8m0 {
            // No fraction and no subnormals: the quotient is 0 (too small), 1, or 2 after a carry.
            (field + quotient as i64 - 1).max(0) as u64
        } else {
            (quotient as i64 + (field << self.mantissa_bits)) as u64
        };
        if bits > max {
            // IEEE 754: toward zero never overflows to infinity.
            return if rounding == Rounding::TowardZero { max } else { beyond };
        }
        bits
    }
}

fn encode_f64(value: f64, overflow: Overflow) -> u64 {
    match overflow {
        Overflow::Saturate if value.is_infinite() => f64::MAX.copysign(value).to_bits(),
        _ => value.to_bits(),
    }
}

/// (significand, exponent) of a finite positive value: value = significand * 2^(exponent - 52), 2^52 <= significand < 2^53.
/// The exponent of infinity is above that of every number, 0's below.
pub(super) fn split(value: f64) -> (u64, i32) {
    let bits = value.to_bits();
    let field = (bits >> 52) as i32;
    let fraction = bits & ((1 << 52) - 1);
    if field == 0 {
        let shift = fraction.leading_zeros() - 11;
        (fraction << shift, -1022 - shift as i32)
    } else {
        (fraction | 1 << 52, field - 1023)
    }
}

/// 2^e exactly, for -1074 <= e <= 1023.
pub(crate) fn exp2(e: i32) -> f64 {
    if e >= -1022 { f64::from_bits(((e + 1023) as u64) << 52) } else { f64::from_bits(1 << (e + 1074)) }
}
