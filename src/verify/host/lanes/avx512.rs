//! AVX-512 (F, BW, DQ and VL): 16 f32 or 8 f64.
use super::Lanes;
use std::arch::x86_64::*;

#[derive(Clone, Copy)]
pub(in super::super) struct F32x16(pub(in super::super) __m512);
#[derive(Clone, Copy)]
pub(in super::super) struct F64x8(pub(in super::super) __m512d);

// SAFETY: pointers are accessed for exactly 16 numbers by unaligned loads and stores.
unsafe impl Lanes for F32x16 {
    type Number = f32;
    type Integer = i32;
    type Integers = __m512i;
    type Mask = __mmask16;
    const N: usize = 16;

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the trait's contract: AVX-512 is enabled and 16 numbers are readable.
        unsafe { F32x16(_mm512_loadu_ps(from)) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the trait's contract: AVX-512 is enabled and 16 numbers are writable.
        unsafe { _mm512_storeu_ps(to, self.0) }
    }
    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        // SAFETY: the trait's contract: AVX-512 is enabled.
        unsafe { F32x16(_mm512_set1_ps(x)) }
    }
    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        // SAFETY: as for `splat`.
        unsafe { F32x16(_mm512_sub_ps(self.0, other.0)) }
    }
    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        // SAFETY: as for `splat`.
        unsafe { F32x16(_mm512_mul_ps(self.0, other.0)) }
    }
    #[inline(always)]
    unsafe fn magnitude(self) -> Self {
        // SAFETY: as for `splat`.
        unsafe { F32x16(_mm512_abs_ps(self.0)) }
    }
    #[inline(always)]
    unsafe fn fused(self, by: Self, plus: Self) -> Self {
        // SAFETY: as for `splat`.
        unsafe { F32x16(_mm512_fmadd_ps(self.0, by.0, plus.0)) }
    }
    #[inline(always)]
    unsafe fn negated_fused(self, by: Self, plus: Self) -> Self {
        // SAFETY: as for `splat`.
        unsafe { F32x16(_mm512_fnmadd_ps(self.0, by.0, plus.0)) }
    }
    #[inline(always)]
    unsafe fn at_most(self, limit: Self) -> Self {
        // SAFETY: as for `splat`. The instruction returns its second operand when either is NaN.
        unsafe { F32x16(_mm512_min_ps(self.0, limit.0)) }
    }
    #[inline(always)]
    unsafe fn at_least(self, floor: Self) -> Self {
        // SAFETY: as for `at_most`.
        unsafe { F32x16(_mm512_max_ps(self.0, floor.0)) }
    }
    #[inline(always)]
    unsafe fn binade(self) -> Self {
        // SAFETY: as for `splat`.
        unsafe {
            F32x16(_mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(self.0), _mm512_set1_epi32(f32::INFINITY.to_bits() as i32))))
        }
    }
    #[inline(always)]
    unsafe fn exceeds(self, other: Self) -> __mmask16 {
        // SAFETY: as for `splat`.
        unsafe { _mm512_cmp_ps_mask::<_CMP_NLE_UQ>(self.0, other.0) }
    }
    #[inline(always)]
    unsafe fn above(self, other: Self) -> __mmask16 {
        // SAFETY: as for `splat`.
        unsafe { _mm512_cmp_ps_mask::<_CMP_GT_OQ>(self.0, other.0) }
    }
    #[inline(always)]
    unsafe fn is_zero(self) -> __mmask16 {
        // SAFETY: as for `splat`.
        unsafe { _mm512_cmp_ps_mask::<_CMP_EQ_OQ>(self.0, _mm512_setzero_ps()) }
    }
    #[inline(always)]
    unsafe fn ordinals(self) -> __m512i {
        // SAFETY: as for `splat`. (bits & MAX ^ sign) - sign negates the magnitude of negative numbers.
        unsafe {
            let bits = _mm512_castps_si512(self.0);
            let sign = _mm512_srai_epi32::<31>(bits);
            let magnitude = _mm512_and_si512(bits, _mm512_set1_epi32(i32::MAX));
            _mm512_sub_epi32(_mm512_xor_si512(magnitude, sign), sign)
        }
    }
    #[inline(always)]
    unsafe fn load_ordinals(from: *const i32) -> __m512i {
        // SAFETY: the trait's contract: AVX-512 is enabled and 16 integers are readable.
        unsafe { _mm512_loadu_epi32(from) }
    }
    #[inline(always)]
    unsafe fn splat_limit(limit: u64) -> __m512i {
        // SAFETY: as for `splat`.
        unsafe { _mm512_set1_epi32(u32::try_from(limit).unwrap_or(u32::MAX) as i32) }
    }
    #[inline(always)]
    unsafe fn apart(a: __m512i, b: __m512i, limit: __m512i) -> __mmask16 {
        // SAFETY: as for `splat`. max - min fits the unsigned integer of this width.
        unsafe {
            let distance = _mm512_sub_epi32(_mm512_max_epi32(a, b), _mm512_min_epi32(a, b));
            _mm512_cmpgt_epu32_mask(distance, limit)
        }
    }
    #[inline(always)]
    unsafe fn or(a: __mmask16, b: __mmask16) -> __mmask16 {
        a | b
    }
    #[inline(always)]
    unsafe fn and(a: __mmask16, b: __mmask16) -> __mmask16 {
        a & b
    }
    #[inline(always)]
    unsafe fn except(a: __mmask16, b: __mmask16) -> __mmask16 {
        a & !b
    }
    #[inline(always)]
    unsafe fn bits(mask: __mmask16) -> u32 {
        u32::from(mask)
    }
    #[inline(always)]
    unsafe fn zeroed(self, mask: __mmask16) -> Self {
        // SAFETY: as for `splat`.
        unsafe { F32x16(_mm512_maskz_mov_ps(!mask, self.0)) }
    }
    #[inline(always)]
    unsafe fn no_counts() -> __m512i {
        // SAFETY: as for `splat`.
        unsafe { _mm512_setzero_si512() }
    }
    #[inline(always)]
    unsafe fn count(counts: __m512i, mask: __mmask16) -> __m512i {
        // SAFETY: as for `splat`.
        unsafe { _mm512_mask_add_epi32(counts, mask, counts, _mm512_set1_epi32(1)) }
    }
    #[inline(always)]
    unsafe fn total(counts: __m512i) -> u64 {
        let mut lanes = [0u32; 16];
        // SAFETY: as for `splat`; the array has the vector's size.
        unsafe { _mm512_storeu_epi32(lanes.as_mut_ptr().cast(), counts) };
        lanes.iter().map(|&n| u64::from(n)).sum()
    }
    #[inline(always)]
    unsafe fn largest(self) -> f32 {
        // SAFETY: as for `splat`.
        unsafe { _mm512_reduce_max_ps(self.0) }
    }
}

// SAFETY: pointers are accessed for exactly 8 numbers by unaligned loads and stores.
unsafe impl Lanes for F64x8 {
    type Number = f64;
    type Integer = i64;
    type Integers = __m512i;
    type Mask = __mmask8;
    const N: usize = 8;

    #[inline(always)]
    unsafe fn load(from: *const f64) -> Self {
        // SAFETY: the trait's contract: AVX-512 is enabled and 8 numbers are readable.
        unsafe { F64x8(_mm512_loadu_pd(from)) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f64) {
        // SAFETY: the trait's contract: AVX-512 is enabled and 8 numbers are writable.
        unsafe { _mm512_storeu_pd(to, self.0) }
    }
    #[inline(always)]
    unsafe fn splat(x: f64) -> Self {
        // SAFETY: the trait's contract: AVX-512 is enabled.
        unsafe { F64x8(_mm512_set1_pd(x)) }
    }
    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        // SAFETY: as for `splat`.
        unsafe { F64x8(_mm512_sub_pd(self.0, other.0)) }
    }
    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        // SAFETY: as for `splat`.
        unsafe { F64x8(_mm512_mul_pd(self.0, other.0)) }
    }
    #[inline(always)]
    unsafe fn magnitude(self) -> Self {
        // SAFETY: as for `splat`.
        unsafe { F64x8(_mm512_abs_pd(self.0)) }
    }
    #[inline(always)]
    unsafe fn fused(self, by: Self, plus: Self) -> Self {
        // SAFETY: as for `splat`.
        unsafe { F64x8(_mm512_fmadd_pd(self.0, by.0, plus.0)) }
    }
    #[inline(always)]
    unsafe fn negated_fused(self, by: Self, plus: Self) -> Self {
        // SAFETY: as for `splat`.
        unsafe { F64x8(_mm512_fnmadd_pd(self.0, by.0, plus.0)) }
    }
    #[inline(always)]
    unsafe fn at_most(self, limit: Self) -> Self {
        // SAFETY: as for `splat`. The instruction returns its second operand when either is NaN.
        unsafe { F64x8(_mm512_min_pd(self.0, limit.0)) }
    }
    #[inline(always)]
    unsafe fn at_least(self, floor: Self) -> Self {
        // SAFETY: as for `at_most`.
        unsafe { F64x8(_mm512_max_pd(self.0, floor.0)) }
    }
    #[inline(always)]
    unsafe fn binade(self) -> Self {
        // SAFETY: as for `splat`.
        unsafe {
            F64x8(_mm512_castsi512_pd(_mm512_and_si512(_mm512_castpd_si512(self.0), _mm512_set1_epi64(f64::INFINITY.to_bits() as i64))))
        }
    }
    #[inline(always)]
    unsafe fn exceeds(self, other: Self) -> __mmask8 {
        // SAFETY: as for `splat`.
        unsafe { _mm512_cmp_pd_mask::<_CMP_NLE_UQ>(self.0, other.0) }
    }
    #[inline(always)]
    unsafe fn above(self, other: Self) -> __mmask8 {
        // SAFETY: as for `splat`.
        unsafe { _mm512_cmp_pd_mask::<_CMP_GT_OQ>(self.0, other.0) }
    }
    #[inline(always)]
    unsafe fn is_zero(self) -> __mmask8 {
        // SAFETY: as for `splat`.
        unsafe { _mm512_cmp_pd_mask::<_CMP_EQ_OQ>(self.0, _mm512_setzero_pd()) }
    }
    #[inline(always)]
    unsafe fn ordinals(self) -> __m512i {
        // SAFETY: as for `splat`. (bits & MAX ^ sign) - sign negates the magnitude of negative numbers.
        unsafe {
            let bits = _mm512_castpd_si512(self.0);
            let sign = _mm512_srai_epi64::<63>(bits);
            let magnitude = _mm512_and_si512(bits, _mm512_set1_epi64(i64::MAX));
            _mm512_sub_epi64(_mm512_xor_si512(magnitude, sign), sign)
        }
    }
    #[inline(always)]
    unsafe fn load_ordinals(from: *const i64) -> __m512i {
        // SAFETY: the trait's contract: AVX-512 is enabled and 8 integers are readable.
        unsafe { _mm512_loadu_epi64(from) }
    }
    #[inline(always)]
    unsafe fn splat_limit(limit: u64) -> __m512i {
        // SAFETY: as for `splat`.
        unsafe { _mm512_set1_epi64(limit as i64) }
    }
    #[inline(always)]
    unsafe fn apart(a: __m512i, b: __m512i, limit: __m512i) -> __mmask8 {
        // SAFETY: as for `splat`. max - min fits the unsigned integer of this width.
        unsafe {
            let distance = _mm512_sub_epi64(_mm512_max_epi64(a, b), _mm512_min_epi64(a, b));
            _mm512_cmpgt_epu64_mask(distance, limit)
        }
    }
    #[inline(always)]
    unsafe fn or(a: __mmask8, b: __mmask8) -> __mmask8 {
        a | b
    }
    #[inline(always)]
    unsafe fn and(a: __mmask8, b: __mmask8) -> __mmask8 {
        a & b
    }
    #[inline(always)]
    unsafe fn except(a: __mmask8, b: __mmask8) -> __mmask8 {
        a & !b
    }
    #[inline(always)]
    unsafe fn bits(mask: __mmask8) -> u32 {
        u32::from(mask)
    }
    #[inline(always)]
    unsafe fn zeroed(self, mask: __mmask8) -> Self {
        // SAFETY: as for `splat`.
        unsafe { F64x8(_mm512_maskz_mov_pd(!mask, self.0)) }
    }
    #[inline(always)]
    unsafe fn no_counts() -> __m512i {
        // SAFETY: as for `splat`.
        unsafe { _mm512_setzero_si512() }
    }
    #[inline(always)]
    unsafe fn count(counts: __m512i, mask: __mmask8) -> __m512i {
        // SAFETY: as for `splat`.
        unsafe { _mm512_mask_add_epi64(counts, mask, counts, _mm512_set1_epi64(1)) }
    }
    #[inline(always)]
    unsafe fn total(counts: __m512i) -> u64 {
        let mut lanes = [0u64; 8];
        // SAFETY: as for `splat`; the array has the vector's size.
        unsafe { _mm512_storeu_epi64(lanes.as_mut_ptr().cast(), counts) };
        lanes.iter().sum()
    }
    #[inline(always)]
    unsafe fn largest(self) -> f64 {
        // SAFETY: as for `splat`.
        unsafe { _mm512_reduce_max_pd(self.0) }
    }
}
