//! The generators, one type each, under the names that HIP kernel authors know.

use super::spec::{FillSpec, Pattern, ProductOperand};
use crate::dtype::DType;

/// A source of tensor data: a function of (seed, stream, logical index) alone.
///
/// Implemented by the types of this module and by [`FillSpec`], which any of them becomes.
pub trait Generator {
    /// The generator as data.
    fn spec(&self) -> FillSpec;

    /// Replaces about `rate` (0 to 1) of the elements by special values. Zero, infinity and NaN with a random payload, as far as the format has them, are
    /// equally likely, each with a random sign if the format has signs.
    fn with_specials(&self, rate: f64) -> FillSpec {
        FillSpec { special_rate: rate, ..self.spec() }
    }

    /// Zeroes two of each four neighbours along the last dimension, the pair chosen at random for each four: 2:4 structured
    /// sparsity. It is applied after special values, so the pattern always holds.
    fn sparse_2_4(&self) -> FillSpec {
        FillSpec { sparse: true, ..self.spec() }
    }
}

impl Generator for FillSpec {
    fn spec(&self) -> FillSpec {
        self.clone()
    }
}

macro_rules! generator {
    (@methods random) => {
        /// Sets the seed (0 if never set).
        pub fn seed(mut self, seed: u64) -> Self {
            self.0.seed = seed;
            self
        }
        /// Sets the stream (0 if never set): other, independent data under the same seed. Give A and B different ones.
        pub fn stream(mut self, stream: u32) -> Self {
            self.0.stream = stream;
            self
        }
    };
    (@methods fixed) => {};
    ($($(#[$doc:meta])* $name:ident($kind:tt): $(#[$new:meta])* ($($arg:ident: $ty:ty),*) => $pattern:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name(FillSpec);
        #[allow(clippy::new_without_default, reason = "`new` is how every generator starts")]
        impl $name {
            $(#[$new])*
            pub fn new($($arg: $ty),*) -> Self {
                $name(FillSpec::new($pattern))
            }
            generator!(@methods $kind);
        }
        impl Generator for $name {
            fn spec(&self) -> FillSpec {
                self.0.clone()
            }
        }
        impl From<$name> for FillSpec {
            fn from(generator: $name) -> FillSpec {
                generator.0
            }
        }
    )*};
}

generator! {
    /// Uniform on a range, in every format.
    ///
    /// Integer formats: the whole numbers of [min, max], both ends included, each exactly as likely as the others.
    ///
    /// Float formats: min + u (max - min), where u is the middle of one of 2^n equal parts of [0, 1): n is 52 for f64, 23 for
    /// f32 and tf32, 16 for 16-bit formats and 8 for narrower ones. So no u is 0 or 1, but rounding to the format may
    /// give either end, never anything beyond: the range is closed. Zero appears only where rounding makes it.
    FillUniformRand(random):
        /// Uniform on [min, max].
        (min: f64, max: f64) => Pattern::Uniform { min, max };

    /// Whole numbers uniform on [min, max], both ends included and without modulo bias, in any format that holds each of
    /// them exactly.
    FillUniformRandInteger(random):
        /// Uniform on the whole numbers from `min` to `max`.
        (min: i64, max: i64) => Pattern::Integers { min, max };

    /// Normally distributed (Box-Muller, with tails to 6.7 sigma, in f64 8.5), saturating at the format's ends.
    FillNormalRand(random):
        /// Mean `mean`, standard deviation `sigma`.
        (mean: f64, sigma: f64) => Pattern::Normal { mean, sigma };

    /// The same value everywhere, rounded to the format.
    FillConstant(fixed):
        /// The value; infinities and NaN only where the format has them.
        (value: f64) => Pattern::Constant { value };

    /// A repeated list of n numbers: element i is number i mod n, rounded to the format. The host writes them, and a GPU gets a copy.
    FillValues(fixed):
        /// The numbers, at least one; infinities and NaN only where the format has them.
        (values: Vec<f64>) => Pattern::Values { values };

    /// Each element is its coordinate along one dimension, saturating at the format's largest value.
    FillSequential(fixed):
        /// Along dimension `dim`, counted from 0.
        (dim: usize) => Pattern::Sequential { dim };

    /// A value where the last two coordinates are equal, zero elsewhere: a batch of diagonal matrices.
    FillDiagonal(fixed):
        /// The value on the diagonal.
        (value: f64) => Pattern::Diagonal { value };

    /// `value` where the sum of the coordinates is even, `-value` where it is odd.
    FillCheckerboard(fixed):
        /// The value at the origin.
        (value: f64) => Pattern::Checkerboard { value };

    /// `init + index * step` (one rounding in f64, then one to the format), saturating at the format's ends.
    FillMonotonic(fixed):
        /// First value and increment by logical index.
        (init: f64, step: f64) => Pattern::Monotonic { init, step };

    /// sin(index), the logical index in radians, as BLAS testers fill matrix A.
    FillSin(fixed):
        /// The sine of the index.
        () => Pattern::Sin;

    /// cos(index), the logical index in radians, as BLAS testers fill matrix B.
    FillCos(fixed):
        /// The cosine of the index.
        () => Pattern::Cos;

    /// Uniform on [-0.5, 0.5], the data of the HPL benchmark. See [`FillUniformRand`].
    FillHpl(random):
        /// The range has no parameters.
        () => Pattern::Uniform { min: -0.5, max: 0.5 };

    /// Uniform away from zero: on [near, far] with a random sign. The ends are as for [`FillUniformRand`].
    FillBounce(random):
        /// Magnitudes from `near` to `far`, 0 < near <= far.
        (near: f64, far: f64) => Pattern::Bounce { near, far };

    /// Subnormal numbers only: every non-zero subnormal of the format, of either sign, is equally likely.
    FillSubnormal(random):
        /// The format gives the range.
        () => Pattern::Subnormal;

    /// Data for which a product of length K has no rounding error in the accumulator, in whatever order it is summed.
    ///
    /// Elements are whole numbers from -max to max without 0 (1 to max in formats without a sign). Where K products could
    /// exceed the 2^d (d the accumulator's digits, at most 24) that it counts to exactly, operand A holds zeros: it is
    /// non-zero only where the sum of its coordinates is a multiple of `period` = ceil(K / safe), with
    /// safe = floor(2^d / (max_a max_b)). Along any dimension of A that leaves at most ceil(K / period) <= safe products. Fill A with its real shape:
    /// in a flat buffer, only the last dimension of the data is guaranteed to keep the bound.
    FillExactProduct(random):
        /// A product of length `k` of operands up to `max_a` and `max_b`; `operand` says which of the two this tensor is.
        (k: u64, max_a: u64, max_b: u64, accumulator: DType, operand: ProductOperand) =>
            Pattern::Exact { k, max_a, max_b, accumulator, operand };

    /// The C library's `rand()` after `srand(seed)`, one call for each element in logical order, as published experiments used it.
    ///
    /// Element i is `(float)((max - min) * (double)rand() / 2147483647.0) + (float)min`, the sum in f32, truncated toward zero to
    /// formats narrower than f32. `srand(0)` is `srand(1)`. The stream is ignored; the seed must fit 32 bits.
    FillCRand(random):
        /// Numbers from `min` to `max`.
        (min: f64, max: f64) => Pattern::CRand { min, max };
}
