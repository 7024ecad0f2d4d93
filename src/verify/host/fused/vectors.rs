//! The AVX-512 registers that the fused loop is written over: numbers, and bit patterns of 8 to 64 bits.

use super::super::super::sums::LANES;
use super::super::block::Bits;
use super::super::lanes::Lanes;
use super::super::lanes::avx512::{F32x16, F64x8};
use std::arch::x86_64::*;

/// Bins of a screen: one for each binade of a window.
pub(in super::super) const BINS: usize = 32;

/// A vector of numbers, with what the fused loop needs beyond [`Lanes`].
///
/// # Safety
/// As for [`Lanes`].
pub(super) unsafe trait Numbers: Lanes<Number: Bits, Mask: Copy> {
    /// [`BINS`] numbers in registers.
    type Table: Copy;
    unsafe fn table(from: &[Self::Number; BINS]) -> Self::Table;
    /// The exponent field of each number, none of which is negative, at the bottom.
    unsafe fn exponents(self) -> __m512i;
    /// The entries at the lowest 5 bits of each index.
    unsafe fn look_up(table: Self::Table, at: __m512i) -> Self;
    unsafe fn all() -> Self::Mask;
    /// The lanes of `mask` where self <= limit; false for NaN.
    unsafe fn within(self, limit: Self, mask: Self::Mask) -> Self::Mask;
    /// Whether no lane is missing.
    fn complete(mask: Self::Mask) -> bool;
    unsafe fn plus(self, other: Self) -> Self;
    /// The four columns and their lanes in `to`.
    unsafe fn put(self, to: &mut [[Self::Number; LANES]]);
}

/// The `N` numbers of a vector.
#[inline(always)]
fn stored<V: Lanes, const N: usize>(x: V) -> [V::Number; N] {
    const { assert!(N == V::N) };
    let mut numbers = [V::Number::default(); N];
    // SAFETY: a vector exists, so that its instruction set is enabled; it has N numbers.
    unsafe { x.store(numbers.as_mut_ptr()) };
    numbers
}

/// Puts vectors into memory and gives the address to `read`, as something that only memory knows: an operation that widens part of a
/// vector is one step from memory, and two or three from a register.
///
/// # Safety
/// AVX-512 is enabled; `read` reads `N` vectors at most.
#[inline(always)]
pub(super) unsafe fn by_memory<V: Copy, R, const N: usize>(vectors: [V; N], read: impl FnOnce(*const u8) -> R) -> R {
    let mut memory = std::mem::MaybeUninit::<[V; N]>::uninit();
    memory.write(vectors);
    let address = memory.as_mut_ptr();
    // SAFETY: no instructions. That they might read and write what is at the address is what keeps the numbers in memory.
    unsafe { std::arch::asm!("/* {0} */", in(reg) address, options(nostack, preserves_flags)) };
    read(address.cast())
}

// SAFETY: no pointers but references to whole tables.
unsafe impl Numbers for F32x16 {
    type Table = [__m512; 2];
    #[inline(always)]
    unsafe fn table(from: &[f32; BINS]) -> [__m512; 2] {
        // SAFETY: AVX-512 is enabled; both loads are inside the table.
        unsafe { [_mm512_loadu_ps(from.as_ptr()), _mm512_loadu_ps(from.as_ptr().add(16))] }
    }
    #[inline(always)]
    unsafe fn exponents(self) -> __m512i {
        // SAFETY: AVX-512 is enabled.
        unsafe { _mm512_srli_epi32::<23>(_mm512_castps_si512(self.0)) }
    }
    #[inline(always)]
    unsafe fn look_up(table: [__m512; 2], at: __m512i) -> Self {
        // SAFETY: AVX-512 is enabled.
        unsafe { F32x16(_mm512_permutex2var_ps(table[0], at, table[1])) }
    }
    #[inline(always)]
    unsafe fn all() -> __mmask16 {
        !0
    }
    #[inline(always)]
    unsafe fn within(self, limit: Self, mask: __mmask16) -> __mmask16 {
        // SAFETY: AVX-512 is enabled.
        unsafe { _mm512_mask_cmp_ps_mask::<_CMP_LE_OQ>(mask, self.0, limit.0) }
    }
    #[inline(always)]
    fn complete(mask: __mmask16) -> bool {
        mask == !0
    }
    #[inline(always)]
    unsafe fn plus(self, other: Self) -> Self {
        // SAFETY: AVX-512 is enabled.
        unsafe { F32x16(_mm512_add_ps(self.0, other.0)) }
    }
    #[inline(always)]
    unsafe fn put(self, to: &mut [[Self::Number; LANES]]) {
        // Four lanes a column: all that there are.
        for (lanes, column) in stored::<Self, 16>(self).as_chunks::<LANES>().0.iter().zip(to) {
            *column = *lanes;
        }
    }
}

// SAFETY: no pointers but references to whole tables.
unsafe impl Numbers for F64x8 {
    type Table = [__m512d; 4];
    #[inline(always)]
    unsafe fn table(from: &[f64; BINS]) -> [__m512d; 4] {
        // SAFETY: AVX-512 is enabled; the loads are inside the table.
        unsafe { std::array::from_fn(|i| _mm512_loadu_pd(from.as_ptr().add(8 * i))) }
    }
    #[inline(always)]
    unsafe fn exponents(self) -> __m512i {
        // SAFETY: AVX-512 is enabled.
        unsafe { _mm512_srli_epi64::<52>(_mm512_castpd_si512(self.0)) }
    }
    #[inline(always)]
    unsafe fn look_up(table: [__m512d; 4], at: __m512i) -> Self {
        // SAFETY: AVX-512 is enabled.
        unsafe {
            let low = _mm512_permutex2var_pd(table[0], at, table[1]);
            let high = _mm512_permutex2var_pd(table[2], at, table[3]);
            F64x8(_mm512_mask_blend_pd(_mm512_test_epi64_mask(at, _mm512_set1_epi64(16)), low, high))
        }
    }
    #[inline(always)]
    unsafe fn all() -> __mmask8 {
        !0
    }
    #[inline(always)]
    unsafe fn within(self, limit: Self, mask: __mmask8) -> __mmask8 {
        // SAFETY: AVX-512 is enabled.
        unsafe { _mm512_mask_cmp_pd_mask::<_CMP_LE_OQ>(mask, self.0, limit.0) }
    }
    #[inline(always)]
    fn complete(mask: __mmask8) -> bool {
        mask == !0
    }
    #[inline(always)]
    unsafe fn plus(self, other: Self) -> Self {
        // SAFETY: AVX-512 is enabled.
        unsafe { F64x8(_mm512_add_pd(self.0, other.0)) }
    }
    #[inline(always)]
    unsafe fn put(self, to: &mut [[Self::Number; LANES]]) {
        // Two lanes a column.
        for (lanes, column) in stored::<Self, 8>(self).as_chunks::<2>().0.iter().zip(to) {
            column[..2].copy_from_slice(lanes);
        }
    }
}

/// Bit patterns of one width, as unsigned magnitudes under a sign.
///
/// # Safety
/// The methods may be called only where AVX-512 F and BW are enabled.
pub(super) unsafe trait Codes {
    /// All bits of a pattern.
    const MAX: u64;
    unsafe fn splat(code: u64) -> __m512i;
    unsafe fn magnitude(x: __m512i) -> __m512i;
    unsafe fn max(x: __m512i, y: __m512i) -> __m512i;
    /// How many are 0.
    unsafe fn zeros(x: __m512i) -> u64;
    /// How many are not above the limit.
    unsafe fn up_to(x: __m512i, limit: __m512i) -> u64;
    /// Whether any is above its limit.
    unsafe fn any_above(x: __m512i, limit: __m512i) -> bool;
    /// Whether any equals `code`.
    unsafe fn any_equal(x: __m512i, code: __m512i) -> bool;
    /// How many patterns x and y are apart, given their magnitudes.
    unsafe fn distance(x: __m512i, y: __m512i, magnitudes: [__m512i; 2]) -> __m512i;
    /// The largest.
    unsafe fn largest(x: __m512i) -> u64;
}

macro_rules! codes {
    ($(#[$doc:meta])* $name:ident, $int:ident, $lanes:literal, $splat:ident, $max:ident, $zeros:ident, $above:ident, $equal:ident, $sub:ident, $add:ident, $abs:ident, $signs:ident, |$x:ident| $magnitude:expr) => {
        $(#[$doc])*
        pub(super) struct $name;
        // SAFETY: no pointers.
        unsafe impl Codes for $name {
            const MAX: u64 = $int::MAX as u64;
            #[inline(always)]
            unsafe fn splat(code: u64) -> __m512i {
                // SAFETY: AVX-512 is enabled.
                unsafe { $splat(code as $int as _) }
            }
            #[inline(always)]
            #[allow(unused_unsafe, reason = "the magnitude of an unsigned integer takes no instruction")]
            unsafe fn magnitude($x: __m512i) -> __m512i {
                // SAFETY: AVX-512 is enabled.
                unsafe { $magnitude }
            }
            #[inline(always)]
            unsafe fn max(x: __m512i, y: __m512i) -> __m512i {
                // SAFETY: AVX-512 is enabled.
                unsafe { $max(x, y) }
            }
            #[inline(always)]
            unsafe fn zeros(x: __m512i) -> u64 {
                // SAFETY: AVX-512 is enabled.
                unsafe { u64::from($zeros(x, x).count_ones()) }
            }
            #[inline(always)]
            unsafe fn up_to(x: __m512i, limit: __m512i) -> u64 {
                // SAFETY: AVX-512 is enabled.
                unsafe { $lanes - u64::from($above(x, limit).count_ones()) }
            }
            #[inline(always)]
            unsafe fn any_above(x: __m512i, limit: __m512i) -> bool {
                // SAFETY: AVX-512 is enabled.
                unsafe { $above(x, limit) != 0 }
            }
            #[inline(always)]
            unsafe fn any_equal(x: __m512i, code: __m512i) -> bool {
                // SAFETY: AVX-512 is enabled.
                unsafe { $equal(x, code) != 0 }
            }
            #[inline(always)]
            unsafe fn distance(x: __m512i, y: __m512i, [mx, my]: [__m512i; 2]) -> __m512i {
                // SAFETY: AVX-512 is enabled. Magnitudes leave the sign bit free, so that differences and sums fit.
                unsafe {
                    let opposite = $signs(_mm512_xor_si512(x, y));
                    $add($abs($sub(mx, my)), opposite, mx, my)
                }
            }
            #[inline(always)]
            unsafe fn largest(x: __m512i) -> u64 {
                let mut lanes = [0 as $int; $lanes];
                // SAFETY: AVX-512 is enabled; the array has the vector's size.
                unsafe { _mm512_storeu_si512(lanes.as_mut_ptr().cast(), x) };
                lanes.into_iter().fold(0, $int::max).into()
            }
        }
    };
}

codes!(
    /// Sign and magnitude in 8 bits.
    C8, u8, 64, _mm512_set1_epi8, _mm512_max_epu8, _mm512_testn_epi8_mask, _mm512_cmpgt_epu8_mask, _mm512_cmpeq_epi8_mask,
    _mm512_sub_epi8, _mm512_mask_add_epi8, _mm512_abs_epi8, _mm512_movepi8_mask, |x| _mm512_and_si512(x, _mm512_set1_epi8(0x7f))
);
codes!(
    /// Two's complement in 8 bits. Distances are not defined: they are differences.
    Signed8, u8, 64, _mm512_set1_epi8, _mm512_max_epu8, _mm512_testn_epi8_mask, _mm512_cmpgt_epu8_mask, _mm512_cmpeq_epi8_mask,
    _mm512_sub_epi8, _mm512_mask_add_epi8, _mm512_abs_epi8, _mm512_movepi8_mask, |x| _mm512_abs_epi8(x)
);
codes!(
    /// Unsigned integers of 8 bits. Distances are not defined: they are differences.
    Unsigned8, u8, 64, _mm512_set1_epi8, _mm512_max_epu8, _mm512_testn_epi8_mask, _mm512_cmpgt_epu8_mask, _mm512_cmpeq_epi8_mask,
    _mm512_sub_epi8, _mm512_mask_add_epi8, _mm512_abs_epi8, _mm512_movepi8_mask, |x| x
);
codes!(
    /// Sign and magnitude in 16 bits.
    C16, u16, 32, _mm512_set1_epi16, _mm512_max_epu16, _mm512_testn_epi16_mask, _mm512_cmpgt_epu16_mask, _mm512_cmpeq_epi16_mask,
    _mm512_sub_epi16, _mm512_mask_add_epi16, _mm512_abs_epi16, _mm512_movepi16_mask, |x| _mm512_and_si512(x, _mm512_set1_epi16(0x7fff))
);
codes!(
    /// Sign and magnitude in 32 bits.
    C32, u32, 16, _mm512_set1_epi32, _mm512_max_epu32, _mm512_testn_epi32_mask, _mm512_cmpgt_epu32_mask, _mm512_cmpeq_epi32_mask,
    _mm512_sub_epi32, _mm512_mask_add_epi32, _mm512_abs_epi32, _mm512_movepi32_mask,
    |x| _mm512_and_si512(x, _mm512_set1_epi32(i32::MAX))
);
codes!(
    /// Sign and magnitude in 64 bits.
    C64, u64, 8, _mm512_set1_epi64, _mm512_max_epu64, _mm512_testn_epi64_mask, _mm512_cmpgt_epu64_mask, _mm512_cmpeq_epi64_mask,
    _mm512_sub_epi64, _mm512_mask_add_epi64, _mm512_abs_epi64, _mm512_movepi64_mask,
    |x| _mm512_and_si512(x, _mm512_set1_epi64(i64::MAX))
);
