//! How products are added to the accumulator.

use crate::dtype::DType;

/// How the products of a group are added to the accumulator c. `RN32` rounds to f32, nearest even.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Rule {
    /// Groups of one: `fma(a, b, c)` in f32.
    Fma,
    /// `RN32(c + p0 + p1 + ...)`: the exact sum, rounded once; nothing is flushed.
    Exact {
        /// Products in a group.
        group: usize,
    },
    /// Rounded additions, `FA(c, FA(p0, p1))` or `FA(c, FA(FA(p0, p1), FA(p2, p3)))`. Subnormal and zero inputs, and a
    /// subnormal or zero C of the instruction, become +0; f32-subnormal products and sums become zeros of their sign.
    Tree {
        /// Products in a group: 2 or 4.
        group: usize,
    },
    /// Products truncated at 24 fraction bits below the largest product exponent and added; c and that sum aligned and
    /// rounded down, added, normalised, rounded down at 31 fraction bits, rounded to f32.
    Fused {
        /// Products in a group: 4 or 8.
        group: usize,
        /// Fraction bits that the sum of products keeps when it is aligned to a larger c.
        keep: u32,
    },
    /// Groups of 16: the products with even and odd k each summed as in [`Rule::Fused`], both sums rounded down at 24 fraction
    /// bits below the larger exponent and added; then as in [`Rule::Fused`], but a c that lies too low counts as zero.
    FusedHalves {
        /// Fraction bits that the sum of products keeps when it is aligned to a larger c.
        keep: u32,
    },
    /// Tensor cores: c and the products of a group, each truncated toward zero at `bits` fraction bits below the largest exponent among them,
    /// added exactly and rounded as the accumulator says. The exponent of a product is the sum of its factors' exponents, which are not below those of their formats'
    /// least normal numbers; zeros have the exponent `zero`.
    Truncated {
        /// Products in a group: 4, 8, 16 or 32.
        group: usize,
        /// Fraction bits that a term keeps.
        bits: u32,
        /// The exponent of a zero.
        zero: i32,
        /// The format of c and the result, and the rounding to it.
        accumulator: Accumulator,
    },
    /// `mma.sync` of fp8 on Hopper, which has no such instruction: groups of 32 are converted to f16. The products with k mod 4 below 2, and then the
    /// others, are added by two chained sums of 16 from zero, as by [`Rule::Truncated`] for f16; c is added last, rounded to nearest even.
    Emulated {
        /// The format of c and the result, and the rounding to it.
        accumulator: Accumulator,
    },
}

/// What a tensor core accumulates in, and how it rounds a sum to that. Sums beyond the format's largest number become infinite in either rounding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Accumulator {
    /// f32, rounded toward zero.
    F32,
    /// f32 with 13 fraction bits, rounded toward zero. The C of an instruction may have more.
    F32Bits13,
    /// f16, rounded to nearest even.
    F16,
}

impl Accumulator {
    /// The format of C and D.
    pub const fn dtype(self) -> DType {
        match self {
            Accumulator::F32 | Accumulator::F32Bits13 => DType::F32,
            Accumulator::F16 => DType::F16,
        }
    }

    /// Fraction bits of a result.
    pub(crate) const fn fraction(self) -> i32 {
        match self {
            Accumulator::F32 => 23,
            Accumulator::F32Bits13 => 13,
            Accumulator::F16 => 10,
        }
    }

    /// The exponent of the least normal result.
    pub(crate) const fn least_exponent(self) -> i32 {
        match self {
            Accumulator::F32 | Accumulator::F32Bits13 => -126,
            Accumulator::F16 => -14,
        }
    }
}
