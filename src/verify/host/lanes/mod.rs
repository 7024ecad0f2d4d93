//! Vectors of f32 and f64 that the scan's inner loop is written over, one implementation per instruction set.
//!
//! Every operation is the IEEE operation of its name, so that a vector of N elements gives what N scalars give.

#[cfg(target_arch = "x86_64")]
pub(super) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(super) mod avx512;

use super::super::rule::Real;

/// A vector of `N` numbers.
///
/// # Safety
/// * The methods may be called only where the instruction set of the implementation is enabled.
/// * `load`, `store` and `load_ordinals` access `N` numbers at their pointer, of any alignment.
pub(super) unsafe trait Lanes: Copy {
    /// One number.
    type Number: Real + Default;
    /// The integer of the same width.
    type Integer: Copy + Into<i64>;
    /// A vector of integers.
    type Integers: Copy;
    /// One truth value per number.
    type Mask: Copy;
    /// Numbers in a vector.
    const N: usize;

    unsafe fn load(from: *const Self::Number) -> Self;
    unsafe fn store(self, to: *mut Self::Number);
    unsafe fn splat(x: Self::Number) -> Self;
    unsafe fn sub(self, other: Self) -> Self;
    unsafe fn mul(self, other: Self) -> Self;
    unsafe fn magnitude(self) -> Self;
    unsafe fn fused(self, by: Self, plus: Self) -> Self;
    /// -(self · by) + plus
    unsafe fn negated_fused(self, by: Self, plus: Self) -> Self;
    /// The smaller; `limit` when self is NaN.
    unsafe fn at_most(self, limit: Self) -> Self;
    /// The larger; `floor` when self is NaN.
    unsafe fn at_least(self, floor: Self) -> Self;
    /// self with the fraction and sign cleared: 2^e, or 0 for subnormals.
    unsafe fn binade(self) -> Self;
    /// !(self <= other): true for NaN.
    unsafe fn exceeds(self, other: Self) -> Self::Mask;
    /// self > other: false for NaN.
    unsafe fn above(self, other: Self) -> Self::Mask;
    unsafe fn is_zero(self) -> Self::Mask;
    /// The place of each number in the order of its own format.
    unsafe fn ordinals(self) -> Self::Integers;
    unsafe fn load_ordinals(from: *const Self::Integer) -> Self::Integers;
    unsafe fn splat_limit(limit: u64) -> Self::Integers;
    /// |a - b| > limit, without overflow.
    unsafe fn apart(a: Self::Integers, b: Self::Integers, limit: Self::Integers) -> Self::Mask;
    unsafe fn or(a: Self::Mask, b: Self::Mask) -> Self::Mask;
    unsafe fn and(a: Self::Mask, b: Self::Mask) -> Self::Mask;
    /// a without b.
    unsafe fn except(a: Self::Mask, b: Self::Mask) -> Self::Mask;
    /// A bit per lane, the first lane lowest.
    unsafe fn bits(mask: Self::Mask) -> u32;
    /// self with zero where the mask is set.
    unsafe fn zeroed(self, mask: Self::Mask) -> Self;
    unsafe fn no_counts() -> Self::Integers;
    /// Adds 1 to the counter of each lane that is set.
    unsafe fn count(counts: Self::Integers, mask: Self::Mask) -> Self::Integers;
    unsafe fn total(counts: Self::Integers) -> u64;
    /// The largest of all lanes; none is NaN.
    unsafe fn largest(self) -> Self::Number;
}
