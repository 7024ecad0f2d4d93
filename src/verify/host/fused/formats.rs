//! How a line of 64 bytes of each format becomes numbers in registers, arranged for the sums.
//!
//! A line is four columns of [`sums`](super::super::super::sums): 16 bytes each, in V/4 groups of four elements. A lane of sums takes
//! the elements at one place of the groups, one group after the other: so each vector holds one group of all four columns, and sums are vertical.

use super::super::lanes::avx512::{F32x16, F64x8};
use super::vectors::{C8, C16, C32, C64, Codes, Numbers, Signed8, Unsigned8, by_memory};
use std::arch::x86_64::*;

/// One format of both sides.
///
/// # Safety
/// The methods may be called only where AVX-512 F, BW, DQ and VL are enabled.
pub(super) unsafe trait Format {
    type Vector: Numbers;
    type Codes: Codes;
    /// Vectors in a line.
    const VECTORS: usize;
    /// Whether distances in patterns are measured; else they equal differences.
    const ULPS: bool = true;
    /// Whether the pattern of minus zero is NaN.
    const MINUS_ZERO_IS_NAN: bool = false;
    /// The line with its elements in the order in which [`decode`](Format::decode) gives a group of all four columns in each vector,
    /// the groups in ascending order.
    #[inline(always)]
    unsafe fn arranged(line: __m512i) -> __m512i {
        line
    }
    unsafe fn decode(line: __m512i) -> [Self::Vector; 4];
}

/// The four columns' groups of four 16-bit elements: first those of group 0, then those of group 1.
#[inline(always)]
unsafe fn groups_of_words(line: __m512i) -> __m512i {
    // SAFETY: AVX-512 is enabled.
    unsafe { _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), line) }
}

/// The four columns' groups of four bytes, group by group.
#[inline(always)]
unsafe fn groups_of_bytes(line: __m512i) -> __m512i {
    // SAFETY: AVX-512 is enabled.
    unsafe { _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), line) }
}

/// Groups 0 and 1 of the four columns in the even bytes, 2 and 3 in the odd.
#[inline(always)]
unsafe fn interleaved_groups_of_bytes(line: __m512i) -> __m512i {
    // SAFETY: AVX-512 is enabled.
    unsafe {
        let groups = _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15), line);
        let order = _mm_setr_epi8(0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15);
        _mm512_shuffle_epi8(groups, _mm512_broadcast_i32x4(order))
    }
}

pub(super) struct F64;
// SAFETY: no pointers.
unsafe impl Format for F64 {
    type Vector = F64x8;
    type Codes = C64;
    const VECTORS: usize = 1;
    #[inline(always)]
    unsafe fn decode(line: __m512i) -> [F64x8; 4] {
        // SAFETY: AVX-512 is enabled.
        unsafe { [F64x8(_mm512_castsi512_pd(line)); 4] }
    }
}

pub(super) struct F32;
// SAFETY: no pointers.
unsafe impl Format for F32 {
    type Vector = F32x16;
    type Codes = C32;
    const VECTORS: usize = 1;
    #[inline(always)]
    unsafe fn decode(line: __m512i) -> [F32x16; 4] {
        // SAFETY: AVX-512 is enabled.
        unsafe { [F32x16(_mm512_castsi512_ps(line)); 4] }
    }
}

/// The binary16 numbers of both halves of a line.
#[inline(always)]
unsafe fn halves_of(line: __m512i) -> [F32x16; 2] {
    // SAFETY: AVX-512 is enabled.
    unsafe { [F32x16(_mm512_cvtph_ps(_mm512_castsi512_si256(line))), F32x16(_mm512_cvtph_ps(_mm512_extracti64x4_epi64::<1>(line)))] }
}

pub(super) struct F16;
// SAFETY: no pointers.
unsafe impl Format for F16 {
    type Vector = F32x16;
    type Codes = C16;
    const VECTORS: usize = 2;
    #[inline(always)]
    unsafe fn arranged(line: __m512i) -> __m512i {
        // SAFETY: AVX-512 is enabled.
        unsafe { groups_of_words(line) }
    }
    #[inline(always)]
    unsafe fn decode(line: __m512i) -> [F32x16; 4] {
        // SAFETY: AVX-512 is enabled.
        unsafe {
            let [low, high] = halves_of(line);
            [low, high, low, high]
        }
    }
}

pub(super) struct Bf16;
// SAFETY: no pointers.
unsafe impl Format for Bf16 {
    type Vector = F32x16;
    type Codes = C16;
    const VECTORS: usize = 2;
    #[inline(always)]
    unsafe fn arranged(line: __m512i) -> __m512i {
        // SAFETY: AVX-512 is enabled.
        unsafe {
            // Elements 0 to 3 of each column in the even words, 4 to 7 in the odd.
            let order = _mm_setr_epi8(0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15);
            _mm512_shuffle_epi8(line, _mm512_broadcast_i32x4(order))
        }
    }
    #[inline(always)]
    unsafe fn decode(line: __m512i) -> [F32x16; 4] {
        // SAFETY: AVX-512 is enabled.
        unsafe {
            let even = F32x16(_mm512_castsi512_ps(_mm512_slli_epi32::<16>(line)));
            let odd = F32x16(_mm512_castsi512_ps(_mm512_and_si512(line, _mm512_set1_epi32(0xffff_0000_u32 as i32))));
            [even, odd, even, odd]
        }
    }
}

/// Bytes that become binary16: even elements, odd elements, and by what the numbers are multiplied.
macro_rules! bytes {
    ($($name:ident, nan $nan:literal, scale $scale:expr, |$line:ident, $sign:ident| $even:expr, $odd:expr;)*) => {$(
        pub(super) struct $name;
        // SAFETY: no pointers.
        unsafe impl Format for $name {
            type Vector = F32x16;
            type Codes = C8;
            const VECTORS: usize = 4;
            const MINUS_ZERO_IS_NAN: bool = $nan;
            #[inline(always)]
            unsafe fn arranged(line: __m512i) -> __m512i {
                // SAFETY: AVX-512 is enabled.
                unsafe { interleaved_groups_of_bytes(line) }
            }
            #[inline(always)]
            unsafe fn decode($line: __m512i) -> [F32x16; 4] {
                // SAFETY: AVX-512 is enabled.
                unsafe {
                    let $sign = _mm512_set1_epi16(i16::MIN);
                    let ([a, b], [c, d]) = (halves_of($even), halves_of($odd));
                    if $scale == 1.0 { [a, b, c, d] } else { [a, b, c, d].map(|x| F32x16(_mm512_mul_ps(x.0, _mm512_set1_ps($scale)))) }
                }
            }
        }
    )*};
}

/// Bits of `a` where `mask` is set, else of `b`.
#[inline(always)]
unsafe fn select(mask: __m512i, a: __m512i, b: __m512i) -> __m512i {
    // SAFETY: AVX-512 is enabled.
    unsafe { _mm512_ternarylogic_epi32::<0xca>(mask, a, b) }
}

bytes! {
    // The patterns of e5m2 are those of binary16, cut.
    F8E5M2, nan false, scale 1.0, |line, _sign|
        _mm512_slli_epi16::<8>(line),
        _mm512_and_si512(line, _mm512_set1_epi16(0xff00_u16 as i16));
    // One exponent bit less: the magnitude is shifted down, which divides by 2^8, the difference of the biases.
    F8E4M3, nan false, scale 256.0, |line, sign|
        select(sign, _mm512_slli_epi16::<8>(line), _mm512_and_si512(_mm512_slli_epi16::<7>(line), _mm512_set1_epi16(0x3f80))),
        select(sign, line, _mm512_and_si512(_mm512_srli_epi16::<1>(line), _mm512_set1_epi16(0x3f80)));
    // Bias 8 instead of 7.
    F8E4M3Fnuz, nan true, scale 128.0, |line, sign|
        select(sign, _mm512_slli_epi16::<8>(line), _mm512_and_si512(_mm512_slli_epi16::<7>(line), _mm512_set1_epi16(0x3f80))),
        select(sign, line, _mm512_and_si512(_mm512_srli_epi16::<1>(line), _mm512_set1_epi16(0x3f80)));
}

/// Bytes that are integers.
macro_rules! integers {
    ($($name:ident, $codes:ident, $widen:ident;)*) => {$(
        pub(super) struct $name;
        // SAFETY: no pointers.
        unsafe impl Format for $name {
            type Vector = F32x16;
            type Codes = $codes;
            const VECTORS: usize = 4;
            const ULPS: bool = false;
            #[inline(always)]
            unsafe fn arranged(line: __m512i) -> __m512i {
                // SAFETY: AVX-512 is enabled.
                unsafe { groups_of_bytes(line) }
            }
            #[inline(always)]
            unsafe fn decode(line: __m512i) -> [F32x16; 4] {
                // SAFETY: AVX-512 is enabled.
                unsafe {
                    let quarter = |at: *const u8| F32x16(_mm512_cvtepi32_ps($widen(_mm_loadu_si128(at.cast()))));
                    by_memory([line], |at| [0, 16, 32, 48].map(|offset| quarter(at.add(offset))))
                }
            }
        }
    )*};
}
integers! {
    I8, Signed8, _mm512_cvtepi8_epi32;
    U8, Unsigned8, _mm512_cvtepu8_epi32;
}
