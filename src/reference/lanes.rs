//! Vectors of the host's SIMD units, as far as the accumulation chains need them.
//!
//! Every operation is the IEEE one in every lane, so all implementations give the same bits. The scalar one
//! is the definition and the fallback; the others exist where the CPU has FMA.

/// An element type of a chain: `f32` or `f64`.
pub(crate) trait Number: Copy + Default + PartialEq + Send + Sync + std::fmt::Debug + Lanes<Element = Self> + 'static {
    /// Its vectors where the CPU has AVX2 and FMA.
    #[cfg(target_arch = "x86_64")]
    type Avx2: Lanes<Element = Self>;
    /// Its vectors where the CPU has AVX-512F.
    #[cfg(target_arch = "x86_64")]
    type Avx512: Lanes<Element = Self>;
    /// `|self|`.
    fn magnitude(self) -> Self;
    /// The value as f64, exactly.
    fn widened(self) -> f64;
}

impl Number for f32 {
    #[cfg(target_arch = "x86_64")]
    type Avx2 = std::arch::x86_64::__m256;
    #[cfg(target_arch = "x86_64")]
    type Avx512 = std::arch::x86_64::__m512;
    fn magnitude(self) -> f32 {
        self.abs()
    }
    fn widened(self) -> f64 {
        f64::from(self)
    }
}

impl Number for f64 {
    #[cfg(target_arch = "x86_64")]
    type Avx2 = std::arch::x86_64::__m256d;
    #[cfg(target_arch = "x86_64")]
    type Avx512 = std::arch::x86_64::__m512d;
    fn magnitude(self) -> f64 {
        self.abs()
    }
    fn widened(self) -> f64 {
        self
    }
}

/// A vector of [`LANES`](Lanes::LANES) elements.
///
/// # Safety
/// Every method needs a CPU with the instructions of the implementing type; `load` and `store` also need a pointer
/// that is valid for `LANES` elements.
pub(crate) trait Lanes: Copy {
    type Element: Number;
    const LANES: usize;
    unsafe fn splat(value: Self::Element) -> Self;
    unsafe fn load(from: *const Self::Element) -> Self;
    unsafe fn store(self, to: *mut Self::Element);
    /// `self * b + c`, rounded once.
    unsafe fn fma(self, b: Self, c: Self) -> Self;
    unsafe fn mul(self, b: Self) -> Self;
    unsafe fn add(self, b: Self) -> Self;
    /// Each lane rounded to f32, nearest even. The identity for f32.
    unsafe fn to_single(self) -> Self;
}

macro_rules! scalar {
    ($ty:ty, $single:expr) => {
        impl Lanes for $ty {
            type Element = $ty;
            const LANES: usize = 1;
            #[inline(always)]
            unsafe fn splat(value: $ty) -> $ty {
                value
            }
            #[inline(always)]
            unsafe fn load(from: *const $ty) -> $ty {
                // SAFETY: the caller promises a pointer valid for one element.
                unsafe { from.read() }
            }
            #[inline(always)]
            unsafe fn store(self, to: *mut $ty) {
                // SAFETY: the caller promises a pointer valid for one element.
                unsafe { to.write(self) }
            }
            #[inline(always)]
            unsafe fn fma(self, b: $ty, c: $ty) -> $ty {
                self.mul_add(b, c)
            }
            #[inline(always)]
            unsafe fn mul(self, b: $ty) -> $ty {
                self * b
            }
            #[inline(always)]
            unsafe fn add(self, b: $ty) -> $ty {
                self + b
            }
            #[inline(always)]
            unsafe fn to_single(self) -> $ty {
                $single(self)
            }
        }
    };
}

scalar!(f32, |v: f32| v);
scalar!(f64, |v: f64| f64::from(v as f32));

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Lanes;
    use std::arch::x86_64::*;

    macro_rules! vector {
        ($ty:ty, $element:ty, $lanes:literal, $splat:ident, $load:ident, $store:ident, $fma:ident, $mul:ident, $add:ident, |$v:ident| $single:expr) => {
            impl Lanes for $ty {
                type Element = $element;
                const LANES: usize = $lanes;
                #[inline(always)]
                unsafe fn splat(value: $element) -> $ty {
                    // SAFETY: the caller promises a CPU with these instructions.
                    unsafe { $splat(value) }
                }
                #[inline(always)]
                unsafe fn load(from: *const $element) -> $ty {
                    // SAFETY: the caller promises a CPU with these instructions and lanes to read; no alignment is assumed.
                    unsafe { $load(from) }
                }
                #[inline(always)]
                unsafe fn store(self, to: *mut $element) {
                    // SAFETY: the caller promises a CPU with these instructions and lanes to write; no alignment is assumed.
                    unsafe { $store(to, self) }
                }
                #[inline(always)]
                unsafe fn fma(self, b: $ty, c: $ty) -> $ty {
                    // SAFETY: the caller promises a CPU with these instructions.
                    unsafe { $fma(self, b, c) }
                }
                #[inline(always)]
                unsafe fn mul(self, b: $ty) -> $ty {
                    // SAFETY: the caller promises a CPU with these instructions.
                    unsafe { $mul(self, b) }
                }
                #[inline(always)]
                unsafe fn add(self, b: $ty) -> $ty {
                    // SAFETY: the caller promises a CPU with these instructions.
                    unsafe { $add(self, b) }
                }
                #[inline(always)]
                unsafe fn to_single(self) -> $ty {
                    let $v = self;
                    // SAFETY: the caller promises a CPU with these instructions.
                    #[allow(unused_unsafe)]
                    unsafe {
                        $single
                    }
                }
            }
        };
    }

    vector!(__m256d, f64, 4, _mm256_set1_pd, _mm256_loadu_pd, _mm256_storeu_pd, _mm256_fmadd_pd, _mm256_mul_pd, _mm256_add_pd, |v| {
        _mm256_cvtps_pd(_mm256_cvtpd_ps(v))
    });
    vector!(__m256, f32, 8, _mm256_set1_ps, _mm256_loadu_ps, _mm256_storeu_ps, _mm256_fmadd_ps, _mm256_mul_ps, _mm256_add_ps, |v| v);
    vector!(__m512d, f64, 8, _mm512_set1_pd, _mm512_loadu_pd, _mm512_storeu_pd, _mm512_fmadd_pd, _mm512_mul_pd, _mm512_add_pd, |v| {
        _mm512_cvtps_pd(_mm512_cvtpd_ps(v))
    });
    vector!(__m512, f32, 16, _mm512_set1_ps, _mm512_loadu_ps, _mm512_storeu_ps, _mm512_fmadd_ps, _mm512_mul_ps, _mm512_add_ps, |v| v);
}
