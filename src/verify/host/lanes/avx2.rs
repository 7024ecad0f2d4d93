//! AVX2 with FMA: 8 f32 or 4 f64.
use super::Lanes;
use std::arch::x86_64::*;

#[derive(Clone, Copy)]
pub(in super::super) struct F32x8(__m256);
#[derive(Clone, Copy)]
pub(in super::super) struct F64x4(__m256d);

// SAFETY: pointers are accessed for exactly 8 numbers by unaligned loads and stores.
unsafe impl Lanes for F32x8 {
    type Number = f32;
    type Integer = i32;
    type Integers = __m256i;
    type Mask = __m256;
    const N: usize = 8;

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the trait's contract: AVX2 is enabled and 8 numbers are readable.
        unsafe { F32x8(_mm256_loadu_ps(from)) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the trait's contract: AVX2 is enabled and 8 numbers are writable.
        unsafe { _mm256_storeu_ps(to, self.0) }
    }
    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        // SAFETY: the trait's contract: AVX2 is enabled.
        unsafe { F32x8(_mm256_set1_ps(x)) }
    }
    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        // SAFETY: as for `splat`.
        unsafe { F32x8(_mm256_sub_ps(self.0, other.0)) }
    }
    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        // SAFETY: as for `splat`.
        unsafe { F32x8(_mm256_mul_ps(self.0, other.0)) }
    }
    #[inline(always)]
    unsafe fn magnitude(self) -> Self {
        // SAFETY: as for `splat`.
        unsafe { F32x8(_mm256_andnot_ps(_mm256_set1_ps(-0.0), self.0)) }
    }
    #[inline(always)]
    unsafe fn fused(self, by: Self, plus: Self) -> Self {
        // SAFETY: as for `splat`, and FMA.
        unsafe { F32x8(_mm256_fmadd_ps(self.0, by.0, plus.0)) }
    }
    #[inline(always)]
    unsafe fn negated_fused(self, by: Self, plus: Self) -> Self {
        // SAFETY: as for `splat`, and FMA.
        unsafe { F32x8(_mm256_fnmadd_ps(self.0, by.0, plus.0)) }
    }
    #[inline(always)]
    unsafe fn at_most(self, limit: Self) -> Self {
        // SAFETY: as for `splat`. The instruction returns its second operand when either is NaN.
        unsafe { F32x8(_mm256_min_ps(self.0, limit.0)) }
    }
    #[inline(always)]
    unsafe fn at_least(self, floor: Self) -> Self {
        // SAFETY: as for `at_most`.
        unsafe { F32x8(_mm256_max_ps(self.0, floor.0)) }
    }
    #[inline(always)]
    unsafe fn binade(self) -> Self {
        // SAFETY: as for `splat`.
        unsafe { F32x8(_mm256_and_ps(self.0, _mm256_set1_ps(f32::INFINITY))) }
    }
    #[inline(always)]
    unsafe fn exceeds(self, other: Self) -> __m256 {
        // SAFETY: as for `splat`.
        unsafe { _mm256_cmp_ps::<_CMP_NLE_UQ>(self.0, other.0) }
    }
    #[inline(always)]
    unsafe fn above(self, other: Self) -> __m256 {
        // SAFETY: as for `splat`.
        unsafe { _mm256_cmp_ps::<_CMP_GT_OQ>(self.0, other.0) }
    }
    #[inline(always)]
    unsafe fn is_zero(self) -> __m256 {
        // SAFETY: as for `splat`.
        unsafe { _mm256_cmp_ps::<_CMP_EQ_OQ>(self.0, _mm256_setzero_ps()) }
    }
    #[inline(always)]
    unsafe fn ordinals(self) -> __m256i {
        // SAFETY: as for `splat`. (bits & MAX ^ sign) - sign negates the magnitude of negative numbers.
        unsafe {
            let bits = _mm256_castps_si256(self.0);
            let sign = _mm256_srai_epi32::<31>(bits);
            let magnitude = _mm256_and_si256(bits, _mm256_set1_epi32(i32::MAX));
            _mm256_sub_epi32(_mm256_xor_si256(magnitude, sign), sign)
        }
    }
    #[inline(always)]
    unsafe fn load_ordinals(from: *const i32) -> __m256i {
        // SAFETY: the trait's contract: AVX2 is enabled and 8 integers are readable.
        unsafe { _mm256_loadu_si256(from.cast()) }
    }
    #[inline(always)]
    unsafe fn splat_limit(limit: u64) -> __m256i {
        // SAFETY: as for `splat`.
        unsafe { _mm256_set1_epi32(u32::try_from(limit).unwrap_or(u32::MAX) as i32) }
    }
    #[inline(always)]
    unsafe fn apart(a: __m256i, b: __m256i, limit: __m256i) -> __m256 {
        // SAFETY: as for `splat`. max - min fits u32; unsigned x > limit is max(x, limit) != limit.
        unsafe {
            let distance = _mm256_sub_epi32(_mm256_max_epi32(a, b), _mm256_min_epi32(a, b));
            let within = _mm256_cmpeq_epi32(_mm256_max_epu32(distance, limit), limit);
            _mm256_castsi256_ps(_mm256_xor_si256(within, _mm256_set1_epi32(-1)))
        }
    }
    #[inline(always)]
    unsafe fn or(a: __m256, b: __m256) -> __m256 {
        // SAFETY: as for `splat`.
        unsafe { _mm256_or_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn and(a: __m256, b: __m256) -> __m256 {
        // SAFETY: as for `splat`.
        unsafe { _mm256_and_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn except(a: __m256, b: __m256) -> __m256 {
        // SAFETY: as for `splat`.
        unsafe { _mm256_andnot_ps(b, a) }
    }
    #[inline(always)]
    unsafe fn bits(mask: __m256) -> u32 {
        // SAFETY: as for `splat`.
        unsafe { _mm256_movemask_ps(mask) as u32 }
    }
    #[inline(always)]
    unsafe fn zeroed(self, mask: __m256) -> Self {
        // SAFETY: as for `splat`.
        unsafe { F32x8(_mm256_andnot_ps(mask, self.0)) }
    }
    #[inline(always)]
    unsafe fn no_counts() -> __m256i {
        // SAFETY: as for `splat`.
        unsafe { _mm256_setzero_si256() }
    }
    #[inline(always)]
    unsafe fn count(counts: __m256i, mask: __m256) -> __m256i {
        // SAFETY: as for `splat`. A set lane is -1.
        unsafe { _mm256_sub_epi32(counts, _mm256_castps_si256(mask)) }
    }
    #[inline(always)]
    unsafe fn total(counts: __m256i) -> u64 {
        let mut lanes = [0u32; 8];
        // SAFETY: as for `splat`; the array has the vector's size.
        unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), counts) };
        lanes.iter().map(|&n| u64::from(n)).sum()
    }
    #[inline(always)]
    unsafe fn largest(self) -> f32 {
        let mut lanes = [0f32; 8];
        // SAFETY: as for `splat`; the array has the vector's size.
        unsafe { _mm256_storeu_ps(lanes.as_mut_ptr(), self.0) };
        lanes.into_iter().fold(0.0, f32::max)
    }
}

// SAFETY: pointers are accessed for exactly 4 numbers by unaligned loads and stores.
unsafe impl Lanes for F64x4 {
    type Number = f64;
    type Integer = i64;
    type Integers = __m256i;
    type Mask = __m256d;
    const N: usize = 4;

    #[inline(always)]
    unsafe fn load(from: *const f64) -> Self {
        // SAFETY: the trait's contract: AVX2 is enabled and 4 numbers are readable.
        unsafe { F64x4(_mm256_loadu_pd(from)) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f64) {
        // SAFETY: the trait's contract: AVX2 is enabled and 4 numbers are writable.
        unsafe { _mm256_storeu_pd(to, self.0) }
    }
    #[inline(always)]
    unsafe fn splat(x: f64) -> Self {
        // SAFETY: the trait's contract: AVX2 is enabled.
        unsafe { F64x4(_mm256_set1_pd(x)) }
    }
    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        // SAFETY: as for `splat`.
        unsafe { F64x4(_mm256_sub_pd(self.0, other.0)) }
    }
    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        // SAFETY: as for `splat`.
        unsafe { F64x4(_mm256_mul_pd(self.0, other.0)) }
    }
    #[inline(always)]
    unsafe fn magnitude(self) -> Self {
        // SAFETY: as for `splat`.
        unsafe { F64x4(_mm256_andnot_pd(_mm256_set1_pd(-0.0), self.0)) }
    }
    #[inline(always)]
    unsafe fn fused(self, by: Self, plus: Self) -> Self {
        // SAFETY: as for `splat`, and FMA.
        unsafe { F64x4(_mm256_fmadd_pd(self.0, by.0, plus.0)) }
    }
    #[inline(always)]
    unsafe fn negated_fused(self, by: Self, plus: Self) -> Self {
        // SAFETY: as for `splat`, and FMA.
        unsafe { F64x4(_mm256_fnmadd_pd(self.0, by.0, plus.0)) }
    }
    #[inline(always)]
    unsafe fn at_most(self, limit: Self) -> Self {
        // SAFETY: as for `splat`. The instruction returns its second operand when either is NaN.
        unsafe { F64x4(_mm256_min_pd(self.0, limit.0)) }
    }
    #[inline(always)]
    unsafe fn at_least(self, floor: Self) -> Self {
        // SAFETY: as for `at_most`.
        unsafe { F64x4(_mm256_max_pd(self.0, floor.0)) }
    }
    #[inline(always)]
    unsafe fn binade(self) -> Self {
        // SAFETY: as for `splat`.
        unsafe { F64x4(_mm256_and_pd(self.0, _mm256_set1_pd(f64::INFINITY))) }
    }
    #[inline(always)]
    unsafe fn exceeds(self, other: Self) -> __m256d {
        // SAFETY: as for `splat`.
        unsafe { _mm256_cmp_pd::<_CMP_NLE_UQ>(self.0, other.0) }
    }
    #[inline(always)]
    unsafe fn above(self, other: Self) -> __m256d {
        // SAFETY: as for `splat`.
        unsafe { _mm256_cmp_pd::<_CMP_GT_OQ>(self.0, other.0) }
    }
    #[inline(always)]
    unsafe fn is_zero(self) -> __m256d {
        // SAFETY: as for `splat`.
        unsafe { _mm256_cmp_pd::<_CMP_EQ_OQ>(self.0, _mm256_setzero_pd()) }
    }
    #[inline(always)]
    unsafe fn ordinals(self) -> __m256i {
        // SAFETY: as for `splat`. AVX2 has no 64-bit arithmetic shift; a comparison gives the sign mask.
        unsafe {
            let bits = _mm256_castpd_si256(self.0);
            let sign = _mm256_cmpgt_epi64(_mm256_setzero_si256(), bits);
            let magnitude = _mm256_and_si256(bits, _mm256_set1_epi64x(i64::MAX));
            _mm256_sub_epi64(_mm256_xor_si256(magnitude, sign), sign)
        }
    }
    #[inline(always)]
    unsafe fn load_ordinals(from: *const i64) -> __m256i {
        // SAFETY: the trait's contract: AVX2 is enabled and 4 integers are readable.
        unsafe { _mm256_loadu_si256(from.cast()) }
    }
    #[inline(always)]
    unsafe fn splat_limit(limit: u64) -> __m256i {
        // SAFETY: as for `splat`.
        unsafe { _mm256_set1_epi64x(limit as i64) }
    }
    #[inline(always)]
    unsafe fn apart(a: __m256i, b: __m256i, limit: __m256i) -> __m256d {
        // SAFETY: as for `splat`. Distances of f64 ordinals fit u64; flipping the top bit makes the order signed.
        unsafe {
            let forward = _mm256_sub_epi64(a, b);
            let less = _mm256_cmpgt_epi64(b, a);
            let distance = _mm256_sub_epi64(_mm256_xor_si256(forward, less), less);
            let top = _mm256_set1_epi64x(i64::MIN);
            _mm256_castsi256_pd(_mm256_cmpgt_epi64(_mm256_xor_si256(distance, top), _mm256_xor_si256(limit, top)))
        }
    }
    #[inline(always)]
    unsafe fn or(a: __m256d, b: __m256d) -> __m256d {
        // SAFETY: as for `splat`.
        unsafe { _mm256_or_pd(a, b) }
    }
    #[inline(always)]
    unsafe fn and(a: __m256d, b: __m256d) -> __m256d {
        // SAFETY: as for `splat`.
        unsafe { _mm256_and_pd(a, b) }
    }
    #[inline(always)]
    unsafe fn except(a: __m256d, b: __m256d) -> __m256d {
        // SAFETY: as for `splat`.
        unsafe { _mm256_andnot_pd(b, a) }
    }
    #[inline(always)]
    unsafe fn bits(mask: __m256d) -> u32 {
        // SAFETY: as for `splat`.
        unsafe { _mm256_movemask_pd(mask) as u32 }
    }
    #[inline(always)]
    unsafe fn zeroed(self, mask: __m256d) -> Self {
        // SAFETY: as for `splat`.
        unsafe { F64x4(_mm256_andnot_pd(mask, self.0)) }
    }
    #[inline(always)]
    unsafe fn no_counts() -> __m256i {
        // SAFETY: as for `splat`.
        unsafe { _mm256_setzero_si256() }
    }
    #[inline(always)]
    unsafe fn count(counts: __m256i, mask: __m256d) -> __m256i {
        // SAFETY: as for `splat`. A set lane is -1.
        unsafe { _mm256_sub_epi64(counts, _mm256_castpd_si256(mask)) }
    }
    #[inline(always)]
    unsafe fn total(counts: __m256i) -> u64 {
        let mut lanes = [0u64; 4];
        // SAFETY: as for `splat`; the array has the vector's size.
        unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), counts) };
        lanes.iter().sum()
    }
    #[inline(always)]
    unsafe fn largest(self) -> f64 {
        let mut lanes = [0f64; 4];
        // SAFETY: as for `splat`; the array has the vector's size.
        unsafe { _mm256_storeu_pd(lanes.as_mut_ptr(), self.0) };
        lanes.into_iter().fold(0.0, f64::max)
    }
}
