//! [`Lanes`] of AVX-512 and of AVX2.

use super::lanes::Lanes;
use super::{Avx2, Avx512};
use std::arch::x86_64::*;
use std::hint::black_box;

#[derive(Clone, Copy)]
pub(crate) struct F32x16(__m512);
#[derive(Clone, Copy)]
pub(crate) struct F64x8(__m512d);
#[derive(Clone, Copy)]
pub(crate) struct F32x8(__m256);
#[derive(Clone, Copy)]
pub(crate) struct F64x4(__m256d);

/// Counters of AVX-512, and what is added to them: 1, of which the compiler must not know, else it makes two instructions of an addition under a mask.
#[derive(Clone, Copy)]
pub(crate) struct Counters {
    sums: __m512i,
    one: __m512i,
}

/// Conditions or counters of AVX2: a type that nobody else makes, since it proves that the processor has the set.
#[derive(Clone, Copy)]
pub(crate) struct Register<V>(V);

/// A function of a trait by intrinsics.
macro_rules! intrinsics {
    ($(fn $name:ident($($arg:ident: $type:ty),*) -> $out:ty { $($value:tt)* })*) => {$(
        #[inline(always)]
        fn $name($($arg: $type),*) -> $out {
            // SAFETY: the arguments prove that the processor has these instructions (see `lanes`), and pointers are to as many elements of a slice as are read or written.
            unsafe { $($value)* }
        }
    )*};
}

/// A pointer to the first n elements of a slice, which is at least as long.
#[inline(always)]
fn first<T, P>(from: &[T], n: usize) -> *const P {
    from[..n].as_ptr().cast()
}
#[inline(always)]
fn first_mut<T, P>(to: &mut [T], n: usize) -> *mut P {
    to[..n].as_mut_ptr().cast()
}

impl Lanes for F32x16 {
    type Number = f32;
    type Set = Avx512;
    type Mask = __mmask16;
    type Counts = Counters;
    const N: usize = 16;
    const REGISTERS: usize = 32;
    const LOOKUPS: bool = true;
    #[inline(always)]
    fn to_f32(x: Self) -> Self {
        x
    }
    #[inline(always)]
    fn bits(mask: __mmask16) -> u32 {
        u32::from(mask)
    }
    intrinsics! {
        fn splat(_set: Avx512, x: f32) -> Self { F32x16(_mm512_set1_ps(x)) }
        fn load(_set: Avx512, from: &[f32]) -> Self { F32x16(_mm512_loadu_ps(first(from, 16))) }
        fn from_f32(_set: Avx512, from: &[[u8; 4]]) -> Self { F32x16(_mm512_loadu_ps(first(from, 16))) }
        fn from_f16(_set: Avx512, from: &[[u8; 2]]) -> Self { F32x16(_mm512_cvtph_ps(_mm256_loadu_si256(first(from, 16)))) }
        fn from_bf16(_set: Avx512, from: &[[u8; 2]]) -> Self {
            F32x16(_mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(_mm256_loadu_si256(first(from, 16))))))
        }
        fn from_i8(_set: Avx512, from: &[[u8; 1]]) -> Self { F32x16(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(first(from, 16))))) }
        fn from_u8(_set: Avx512, from: &[[u8; 1]]) -> Self { F32x16(_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(first(from, 16))))) }
        fn from_i16(_set: Avx512, from: &[[u8; 2]]) -> Self { F32x16(_mm512_cvtepi32_ps(_mm512_cvtepi16_epi32(_mm256_loadu_si256(first(from, 16))))) }
        fn from_u16(_set: Avx512, from: &[[u8; 2]]) -> Self { F32x16(_mm512_cvtepi32_ps(_mm512_cvtepu16_epi32(_mm256_loadu_si256(first(from, 16))))) }
        fn from_i32(_set: Avx512, from: &[[u8; 4]]) -> Self { F32x16(_mm512_cvtepi32_ps(_mm512_loadu_si512(first(from, 16)))) }
        fn store(x: Self, to: &mut [f32]) -> () { _mm512_storeu_ps(first_mut(to, 16), x.0) }
        fn add(x: Self, y: Self) -> Self { F32x16(_mm512_add_ps(x.0, y.0)) }
        fn sub(x: Self, y: Self) -> Self { F32x16(_mm512_sub_ps(x.0, y.0)) }
        fn mul(x: Self, y: Self) -> Self { F32x16(_mm512_mul_ps(x.0, y.0)) }
        fn div(x: Self, y: Self) -> Self { F32x16(_mm512_div_ps(x.0, y.0)) }
        fn fused(x: Self, y: Self, z: Self) -> Self { F32x16(_mm512_fmadd_ps(x.0, y.0, z.0)) }
        fn magnitude(x: Self) -> Self { F32x16(_mm512_abs_ps(x.0)) }
        fn smaller(x: Self, y: Self) -> Self { F32x16(_mm512_min_ps(x.0, y.0)) }
        fn larger(x: Self, y: Self) -> Self { F32x16(_mm512_max_ps(x.0, y.0)) }
        fn larger_bits(x: Self, y: Self) -> Self { F32x16(_mm512_castsi512_ps(_mm512_max_epi32(_mm512_castps_si512(x.0), _mm512_castps_si512(y.0)))) }
        fn and(x: Self, y: Self) -> Self { F32x16(_mm512_and_ps(x.0, y.0)) }
        fn or(x: Self, y: Self) -> Self { F32x16(_mm512_or_ps(x.0, y.0)) }
        fn add_bits(x: Self, y: Self) -> Self { F32x16(_mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(x.0), _mm512_castps_si512(y.0)))) }
        fn shift_bits(x: Self, by: u32) -> Self { F32x16(_mm512_castsi512_ps(_mm512_srl_epi32(_mm512_castps_si512(x.0), _mm_cvtsi32_si128(by as i32)))) }
        fn lookup(table: &[f32; 16], indices: Self) -> Self { F32x16(_mm512_permutexvar_ps(_mm512_castps_si512(indices.0), _mm512_loadu_ps(first(table, 16)))) }
        fn unzip_fours(x: Self, y: Self) -> (Self, Self) { (F32x16(_mm512_shuffle_f32x4::<0b10_00_10_00>(x.0, y.0)), F32x16(_mm512_shuffle_f32x4::<0b11_01_11_01>(x.0, y.0))) }
        fn less(x: Self, y: Self) -> __mmask16 { _mm512_cmp_ps_mask::<_CMP_LT_OQ>(x.0, y.0) }
        fn keep(mask: __mmask16, x: Self) -> Self { F32x16(_mm512_maskz_mov_ps(mask, x.0)) }
        fn select(mask: __mmask16, x: Self, y: Self) -> Self { F32x16(_mm512_mask_blend_ps(mask, y.0, x.0)) }
        fn no_counts(_set: Avx512) -> Counters { Counters { sums: _mm512_setzero_si512(), one: _mm512_set1_epi32(black_box(1)) } }
        fn count(counts: Counters, mask: __mmask16) -> Counters { Counters { sums: _mm512_mask_add_epi32(counts.sums, mask, counts.sums, counts.one), ..counts } }
        fn total(counts: Counters) -> u64 { _mm512_reduce_add_epi32(counts.sums) as u64 }
        fn largest(x: Self) -> f32 { f32::from_bits(_mm512_reduce_max_epi32(_mm512_castps_si512(x.0)) as u32) }
        fn joined(x: Self) -> f32 { f32::from_bits(_mm512_reduce_or_epi32(_mm512_castps_si512(x.0)) as u32) }
    }
}

impl Lanes for F64x8 {
    type Number = f64;
    type Set = Avx512;
    type Mask = __mmask8;
    type Counts = Counters;
    const N: usize = 8;
    const REGISTERS: usize = 32;
    const LOOKUPS: bool = true;
    #[inline(always)]
    fn bits(mask: __mmask8) -> u32 {
        u32::from(mask)
    }
    intrinsics! {
        fn splat(_set: Avx512, x: f64) -> Self { F64x8(_mm512_set1_pd(x)) }
        fn load(_set: Avx512, from: &[f64]) -> Self { F64x8(_mm512_loadu_pd(first(from, 8))) }
        fn from_f32(_set: Avx512, from: &[[u8; 4]]) -> Self { F64x8(_mm512_cvtps_pd(_mm256_loadu_ps(first(from, 8)))) }
        fn from_f16(_set: Avx512, from: &[[u8; 2]]) -> Self { F64x8(_mm512_cvtps_pd(_mm256_cvtph_ps(_mm_loadu_si128(first(from, 8))))) }
        fn from_bf16(_set: Avx512, from: &[[u8; 2]]) -> Self {
            F64x8(_mm512_cvtps_pd(_mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(_mm_loadu_si128(first(from, 8)))))))
        }
        fn from_i8(_set: Avx512, from: &[[u8; 1]]) -> Self { F64x8(_mm512_cvtepi32_pd(_mm256_cvtepi8_epi32(_mm_loadu_si64(first(from, 8))))) }
        fn from_u8(_set: Avx512, from: &[[u8; 1]]) -> Self { F64x8(_mm512_cvtepi32_pd(_mm256_cvtepu8_epi32(_mm_loadu_si64(first(from, 8))))) }
        fn from_i16(_set: Avx512, from: &[[u8; 2]]) -> Self { F64x8(_mm512_cvtepi32_pd(_mm256_cvtepi16_epi32(_mm_loadu_si128(first(from, 8))))) }
        fn from_u16(_set: Avx512, from: &[[u8; 2]]) -> Self { F64x8(_mm512_cvtepi32_pd(_mm256_cvtepu16_epi32(_mm_loadu_si128(first(from, 8))))) }
        fn from_i32(_set: Avx512, from: &[[u8; 4]]) -> Self { F64x8(_mm512_cvtepi32_pd(_mm256_loadu_si256(first(from, 8)))) }
        fn store(x: Self, to: &mut [f64]) -> () { _mm512_storeu_pd(first_mut(to, 8), x.0) }
        fn add(x: Self, y: Self) -> Self { F64x8(_mm512_add_pd(x.0, y.0)) }
        fn sub(x: Self, y: Self) -> Self { F64x8(_mm512_sub_pd(x.0, y.0)) }
        fn mul(x: Self, y: Self) -> Self { F64x8(_mm512_mul_pd(x.0, y.0)) }
        fn div(x: Self, y: Self) -> Self { F64x8(_mm512_div_pd(x.0, y.0)) }
        fn fused(x: Self, y: Self, z: Self) -> Self { F64x8(_mm512_fmadd_pd(x.0, y.0, z.0)) }
        fn to_f32(x: Self) -> Self { F64x8(_mm512_cvtps_pd(_mm512_cvtpd_ps(x.0))) }
        fn magnitude(x: Self) -> Self { F64x8(_mm512_abs_pd(x.0)) }
        fn smaller(x: Self, y: Self) -> Self { F64x8(_mm512_min_pd(x.0, y.0)) }
        fn larger(x: Self, y: Self) -> Self { F64x8(_mm512_max_pd(x.0, y.0)) }
        fn larger_bits(x: Self, y: Self) -> Self { F64x8(_mm512_castsi512_pd(_mm512_max_epi64(_mm512_castpd_si512(x.0), _mm512_castpd_si512(y.0)))) }
        fn and(x: Self, y: Self) -> Self { F64x8(_mm512_and_pd(x.0, y.0)) }
        fn or(x: Self, y: Self) -> Self { F64x8(_mm512_or_pd(x.0, y.0)) }
        fn add_bits(x: Self, y: Self) -> Self { F64x8(_mm512_castsi512_pd(_mm512_add_epi64(_mm512_castpd_si512(x.0), _mm512_castpd_si512(y.0)))) }
        fn shift_bits(x: Self, by: u32) -> Self { F64x8(_mm512_castsi512_pd(_mm512_srl_epi64(_mm512_castpd_si512(x.0), _mm_cvtsi32_si128(by as i32)))) }
        fn lookup(table: &[f64; 16], indices: Self) -> Self {
            F64x8(_mm512_permutex2var_pd(_mm512_loadu_pd(first(table, 8)), _mm512_castpd_si512(indices.0), _mm512_loadu_pd(first(&table[8..], 8))))
        }
        fn unzip_fours(x: Self, y: Self) -> (Self, Self) { (F64x8(_mm512_shuffle_f64x2::<0b01_00_01_00>(x.0, y.0)), F64x8(_mm512_shuffle_f64x2::<0b11_10_11_10>(x.0, y.0))) }
        fn less(x: Self, y: Self) -> __mmask8 { _mm512_cmp_pd_mask::<_CMP_LT_OQ>(x.0, y.0) }
        fn keep(mask: __mmask8, x: Self) -> Self { F64x8(_mm512_maskz_mov_pd(mask, x.0)) }
        fn select(mask: __mmask8, x: Self, y: Self) -> Self { F64x8(_mm512_mask_blend_pd(mask, y.0, x.0)) }
        fn no_counts(_set: Avx512) -> Counters { Counters { sums: _mm512_setzero_si512(), one: _mm512_set1_epi64(black_box(1)) } }
        fn count(counts: Counters, mask: __mmask8) -> Counters { Counters { sums: _mm512_mask_add_epi64(counts.sums, mask, counts.sums, counts.one), ..counts } }
        fn total(counts: Counters) -> u64 { _mm512_reduce_add_epi64(counts.sums) as u64 }
        fn largest(x: Self) -> f64 { f64::from_bits(_mm512_reduce_max_epi64(_mm512_castpd_si512(x.0)) as u64) }
        fn joined(x: Self) -> f64 { f64::from_bits(_mm512_reduce_or_epi64(_mm512_castpd_si512(x.0)) as u64) }
    }
}

impl Lanes for F32x8 {
    type Number = f32;
    type Set = Avx2;
    type Mask = Register<__m256>;
    type Counts = Register<__m256i>;
    const N: usize = 8;
    const REGISTERS: usize = 16;
    const LOOKUPS: bool = false;
    #[inline(always)]
    fn to_f32(x: Self) -> Self {
        x
    }
    intrinsics! {
        fn splat(_set: Avx2, x: f32) -> Self { F32x8(_mm256_set1_ps(x)) }
        fn load(_set: Avx2, from: &[f32]) -> Self { F32x8(_mm256_loadu_ps(first(from, 8))) }
        fn from_f32(_set: Avx2, from: &[[u8; 4]]) -> Self { F32x8(_mm256_loadu_ps(first(from, 8))) }
        fn from_f16(_set: Avx2, from: &[[u8; 2]]) -> Self { F32x8(_mm256_cvtph_ps(_mm_loadu_si128(first(from, 8)))) }
        fn from_bf16(_set: Avx2, from: &[[u8; 2]]) -> Self {
            F32x8(_mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(_mm_loadu_si128(first(from, 8))))))
        }
        fn from_i8(_set: Avx2, from: &[[u8; 1]]) -> Self { F32x8(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadu_si64(first(from, 8))))) }
        fn from_u8(_set: Avx2, from: &[[u8; 1]]) -> Self { F32x8(_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadu_si64(first(from, 8))))) }
        fn from_i16(_set: Avx2, from: &[[u8; 2]]) -> Self { F32x8(_mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(_mm_loadu_si128(first(from, 8))))) }
        fn from_u16(_set: Avx2, from: &[[u8; 2]]) -> Self { F32x8(_mm256_cvtepi32_ps(_mm256_cvtepu16_epi32(_mm_loadu_si128(first(from, 8))))) }
        fn from_i32(_set: Avx2, from: &[[u8; 4]]) -> Self { F32x8(_mm256_cvtepi32_ps(_mm256_loadu_si256(first(from, 8)))) }
        fn store(x: Self, to: &mut [f32]) -> () { _mm256_storeu_ps(first_mut(to, 8), x.0) }
        fn add(x: Self, y: Self) -> Self { F32x8(_mm256_add_ps(x.0, y.0)) }
        fn sub(x: Self, y: Self) -> Self { F32x8(_mm256_sub_ps(x.0, y.0)) }
        fn mul(x: Self, y: Self) -> Self { F32x8(_mm256_mul_ps(x.0, y.0)) }
        fn div(x: Self, y: Self) -> Self { F32x8(_mm256_div_ps(x.0, y.0)) }
        fn fused(x: Self, y: Self, z: Self) -> Self { F32x8(_mm256_fmadd_ps(x.0, y.0, z.0)) }
        fn magnitude(x: Self) -> Self { F32x8(_mm256_andnot_ps(_mm256_set1_ps(-0.0), x.0)) }
        fn smaller(x: Self, y: Self) -> Self { F32x8(_mm256_min_ps(x.0, y.0)) }
        fn larger(x: Self, y: Self) -> Self { F32x8(_mm256_max_ps(x.0, y.0)) }
        fn larger_bits(x: Self, y: Self) -> Self { F32x8(_mm256_castsi256_ps(_mm256_max_epi32(_mm256_castps_si256(x.0), _mm256_castps_si256(y.0)))) }
        fn and(x: Self, y: Self) -> Self { F32x8(_mm256_and_ps(x.0, y.0)) }
        fn or(x: Self, y: Self) -> Self { F32x8(_mm256_or_ps(x.0, y.0)) }
        fn add_bits(x: Self, y: Self) -> Self { F32x8(_mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(x.0), _mm256_castps_si256(y.0)))) }
        fn shift_bits(x: Self, by: u32) -> Self { F32x8(_mm256_castsi256_ps(_mm256_srl_epi32(_mm256_castps_si256(x.0), _mm_cvtsi32_si128(by as i32)))) }
        fn lookup(table: &[f32; 16], indices: Self) -> Self {
            let indices = _mm256_and_si256(_mm256_castps_si256(indices.0), _mm256_set1_epi32(15));
            F32x8(_mm256_i32gather_ps::<4>(first(table, 16), indices))
        }
        fn unzip_fours(x: Self, y: Self) -> (Self, Self) { (F32x8(_mm256_permute2f128_ps::<0x20>(x.0, y.0)), F32x8(_mm256_permute2f128_ps::<0x31>(x.0, y.0))) }
        fn less(x: Self, y: Self) -> Register<__m256> { Register(_mm256_cmp_ps::<_CMP_LT_OQ>(x.0, y.0)) }
        fn keep(mask: Register<__m256>, x: Self) -> Self { F32x8(_mm256_and_ps(mask.0, x.0)) }
        fn select(mask: Register<__m256>, x: Self, y: Self) -> Self { F32x8(_mm256_blendv_ps(y.0, x.0, mask.0)) }
        fn bits(mask: Register<__m256>) -> u32 { _mm256_movemask_ps(mask.0) as u32 }
        fn no_counts(_set: Avx2) -> Register<__m256i> { Register(_mm256_setzero_si256()) }
        fn count(counts: Register<__m256i>, mask: Register<__m256>) -> Register<__m256i> { Register(_mm256_sub_epi32(counts.0, _mm256_castps_si256(mask.0))) }
        fn total(counts: Register<__m256i>) -> u64 {
            let sums = _mm_add_epi32(_mm256_castsi256_si128(counts.0), _mm256_extracti128_si256::<1>(counts.0));
            let sums = _mm_add_epi32(sums, _mm_shuffle_epi32::<0b00_00_11_10>(sums));
            _mm_cvtsi128_si32(_mm_add_epi32(sums, _mm_shuffle_epi32::<1>(sums))) as u64
        }
        fn largest(x: Self) -> f32 {
            let x = _mm256_castps_si256(x.0);
            let x = _mm_max_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256::<1>(x));
            let x = _mm_max_epi32(x, _mm_shuffle_epi32::<0b00_00_11_10>(x));
            f32::from_bits(_mm_cvtsi128_si32(_mm_max_epi32(x, _mm_shuffle_epi32::<1>(x))) as u32)
        }
        fn joined(x: Self) -> f32 {
            let x = _mm256_castps_si256(x.0);
            let x = _mm_or_si128(_mm256_castsi256_si128(x), _mm256_extracti128_si256::<1>(x));
            let x = _mm_or_si128(x, _mm_shuffle_epi32::<0b00_00_11_10>(x));
            f32::from_bits(_mm_cvtsi128_si32(_mm_or_si128(x, _mm_shuffle_epi32::<1>(x))) as u32)
        }
    }
}

impl Lanes for F64x4 {
    type Number = f64;
    type Set = Avx2;
    type Mask = Register<__m256d>;
    type Counts = Register<__m256i>;
    const N: usize = 4;
    const REGISTERS: usize = 16;
    const LOOKUPS: bool = false;
    #[inline(always)]
    fn unzip_fours(x: Self, y: Self) -> (Self, Self) {
        (x, y)
    }
    intrinsics! {
        fn splat(_set: Avx2, x: f64) -> Self { F64x4(_mm256_set1_pd(x)) }
        fn load(_set: Avx2, from: &[f64]) -> Self { F64x4(_mm256_loadu_pd(first(from, 4))) }
        fn from_f32(_set: Avx2, from: &[[u8; 4]]) -> Self { F64x4(_mm256_cvtps_pd(_mm_loadu_ps(first(from, 4)))) }
        fn from_f16(_set: Avx2, from: &[[u8; 2]]) -> Self { F64x4(_mm256_cvtps_pd(_mm_cvtph_ps(_mm_loadu_si64(first(from, 4))))) }
        fn from_bf16(_set: Avx2, from: &[[u8; 2]]) -> Self {
            F64x4(_mm256_cvtps_pd(_mm_castsi128_ps(_mm_slli_epi32::<16>(_mm_cvtepu16_epi32(_mm_loadu_si64(first(from, 4)))))))
        }
        fn from_i8(_set: Avx2, from: &[[u8; 1]]) -> Self { F64x4(_mm256_cvtepi32_pd(_mm_cvtepi8_epi32(_mm_loadu_si32(first(from, 4))))) }
        fn from_u8(_set: Avx2, from: &[[u8; 1]]) -> Self { F64x4(_mm256_cvtepi32_pd(_mm_cvtepu8_epi32(_mm_loadu_si32(first(from, 4))))) }
        fn from_i16(_set: Avx2, from: &[[u8; 2]]) -> Self { F64x4(_mm256_cvtepi32_pd(_mm_cvtepi16_epi32(_mm_loadu_si64(first(from, 4))))) }
        fn from_u16(_set: Avx2, from: &[[u8; 2]]) -> Self { F64x4(_mm256_cvtepi32_pd(_mm_cvtepu16_epi32(_mm_loadu_si64(first(from, 4))))) }
        fn from_i32(_set: Avx2, from: &[[u8; 4]]) -> Self { F64x4(_mm256_cvtepi32_pd(_mm_loadu_si128(first(from, 4)))) }
        fn store(x: Self, to: &mut [f64]) -> () { _mm256_storeu_pd(first_mut(to, 4), x.0) }
        fn add(x: Self, y: Self) -> Self { F64x4(_mm256_add_pd(x.0, y.0)) }
        fn sub(x: Self, y: Self) -> Self { F64x4(_mm256_sub_pd(x.0, y.0)) }
        fn mul(x: Self, y: Self) -> Self { F64x4(_mm256_mul_pd(x.0, y.0)) }
        fn div(x: Self, y: Self) -> Self { F64x4(_mm256_div_pd(x.0, y.0)) }
        fn fused(x: Self, y: Self, z: Self) -> Self { F64x4(_mm256_fmadd_pd(x.0, y.0, z.0)) }
        fn to_f32(x: Self) -> Self { F64x4(_mm256_cvtps_pd(_mm256_cvtpd_ps(x.0))) }
        fn magnitude(x: Self) -> Self { F64x4(_mm256_andnot_pd(_mm256_set1_pd(-0.0), x.0)) }
        fn smaller(x: Self, y: Self) -> Self { F64x4(_mm256_min_pd(x.0, y.0)) }
        fn larger(x: Self, y: Self) -> Self { F64x4(_mm256_max_pd(x.0, y.0)) }
        fn larger_bits(x: Self, y: Self) -> Self {
            let above = _mm256_cmpgt_epi64(_mm256_castpd_si256(x.0), _mm256_castpd_si256(y.0));
            F64x4(_mm256_blendv_pd(y.0, x.0, _mm256_castsi256_pd(above)))
        }
        fn and(x: Self, y: Self) -> Self { F64x4(_mm256_and_pd(x.0, y.0)) }
        fn or(x: Self, y: Self) -> Self { F64x4(_mm256_or_pd(x.0, y.0)) }
        fn add_bits(x: Self, y: Self) -> Self { F64x4(_mm256_castsi256_pd(_mm256_add_epi64(_mm256_castpd_si256(x.0), _mm256_castpd_si256(y.0)))) }
        fn shift_bits(x: Self, by: u32) -> Self { F64x4(_mm256_castsi256_pd(_mm256_srl_epi64(_mm256_castpd_si256(x.0), _mm_cvtsi32_si128(by as i32)))) }
        fn lookup(table: &[f64; 16], indices: Self) -> Self {
            let indices = _mm256_and_si256(_mm256_castpd_si256(indices.0), _mm256_set1_epi64x(15));
            F64x4(_mm256_i64gather_pd::<8>(first(table, 16), indices))
        }
        fn less(x: Self, y: Self) -> Register<__m256d> { Register(_mm256_cmp_pd::<_CMP_LT_OQ>(x.0, y.0)) }
        fn keep(mask: Register<__m256d>, x: Self) -> Self { F64x4(_mm256_and_pd(mask.0, x.0)) }
        fn select(mask: Register<__m256d>, x: Self, y: Self) -> Self { F64x4(_mm256_blendv_pd(y.0, x.0, mask.0)) }
        fn bits(mask: Register<__m256d>) -> u32 { _mm256_movemask_pd(mask.0) as u32 }
        fn no_counts(_set: Avx2) -> Register<__m256i> { Register(_mm256_setzero_si256()) }
        fn count(counts: Register<__m256i>, mask: Register<__m256d>) -> Register<__m256i> { Register(_mm256_sub_epi64(counts.0, _mm256_castpd_si256(mask.0))) }
        fn total(counts: Register<__m256i>) -> u64 {
            let sums = _mm_add_epi64(_mm256_castsi256_si128(counts.0), _mm256_extracti128_si256::<1>(counts.0));
            _mm_cvtsi128_si64(_mm_add_epi64(sums, _mm_unpackhi_epi64(sums, sums))) as u64
        }
        fn largest(x: Self) -> f64 {
            let high = F64x4(_mm256_permute4x64_pd::<0b00_00_11_10>(x.0));
            let x = F64x4::larger_bits(x, high);
            let second = F64x4(_mm256_permute_pd::<1>(x.0));
            _mm256_cvtsd_f64(F64x4::larger_bits(x, second).0)
        }
        fn joined(x: Self) -> f64 {
            let x = _mm256_or_pd(x.0, _mm256_permute4x64_pd::<0b00_00_11_10>(x.0));
            _mm256_cvtsd_f64(_mm256_or_pd(x, _mm256_permute_pd::<1>(x)))
        }
    }
}
