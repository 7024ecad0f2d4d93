//! Loops compiled three times: for the baseline of the target and, on x86-64, for AVX2 and AVX-512, chosen at run time; and the
//! decoding of binary16 by instruction.

use super::kernel::Raw;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{
    __m128i, __m256i, _mm_loadu_si128, _mm256_cvtph_ps, _mm256_loadu_si256, _mm256_mul_ps, _mm256_set1_ps, _mm256_storeu_ps,
    _mm512_cvtph_ps, _mm512_mul_ps, _mm512_set1_ps, _mm512_storeu_ps,
};

/// Defines a function with a body that is inlined into a baseline, an AVX2 and an AVX-512 version.
macro_rules! multiversion {
    ($(#[$doc:meta])* fn $name:ident<$($generic:ident: $bound:path),*>($($arg:ident: $ty:ty),*) $body:block) => {
        $(#[$doc])*
        #[inline]
        pub(super) fn $name<$($generic: $bound),*>($($arg: $ty),*) {
            #[inline(always)]
            fn body<$($generic: $bound),*>($($arg: $ty),*) $body
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2")]
                fn avx2<$($generic: $bound),*>($($arg: $ty),*) {
                    body($($arg),*)
                }
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
                fn avx512<$($generic: $bound),*>($($arg: $ty),*) {
                    body($($arg),*)
                }
                if has_avx512() {
                    // SAFETY: the CPU has these parts of AVX-512, as just detected.
                    return unsafe { avx512($($arg),*) };
                }
                if is_x86_feature_detected!("avx2") {
                    // SAFETY: the CPU has AVX2, as just detected.
                    return unsafe { avx2($($arg),*) };
                }
            }
            body($($arg),*)
        }
    };
}

/// Whether the CPU has AVX-512 with bytes, words and shorter vectors.
#[cfg(target_arch = "x86_64")]
fn has_avx512() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
}

/// A function of one element.
pub(super) trait Map<In, Out>: Fn(In) -> Out + Copy {}
impl<In, Out, F: Fn(In) -> Out + Copy> Map<In, Out> for F {}

multiversion! {
    /// `out[i] = f(unit i of bytes)`.
    fn read<R: Raw, Out: Copy, F: Map<u32, Out>>(bytes: &[u8], out: &mut [Out], f: F, _unit: std::marker::PhantomData<R>) {
        for (o, &unit) in out.iter_mut().zip(R::units(bytes)) {
            *o = f(unit.get());
        }
    }
}

multiversion! {
    /// `unit i of out = f(values[i])`.
    fn write<R: Raw, In: Copy, F: Map<In, u32>>(values: &[In], out: &mut [u8], f: F, _unit: std::marker::PhantomData<R>) {
        for (unit, &v) in R::units_mut(out).iter_mut().zip(values) {
            *unit = R::put(f(v));
        }
    }
}

multiversion! {
    /// `out[i] = f(values[i])`.
    fn map<In: Copy, Out: Copy, F: Map<In, Out>>(values: &[In], out: &mut [Out], f: F) {
        for (o, &v) in out.iter_mut().zip(values) {
            *o = f(v);
        }
    }
}

multiversion! {
    /// `out[i] = f(4-bit element i of bytes)`, the low nibble first.
    fn read_packed<Out: Copy, F: Map<u32, Out>>(bytes: &[u8], out: &mut [Out], f: F) {
        let (pairs, last) = out.as_chunks_mut::<2>();
        for (pair, &byte) in pairs.iter_mut().zip(bytes) {
            *pair = [f(u32::from(byte & 0xf)), f(u32::from(byte >> 4))];
        }
        if let ([o], Some(&byte)) = (last, bytes.get(pairs.len())) {
            *o = f(u32::from(byte & 0xf));
        }
    }
}

multiversion! {
    /// `4-bit element i of out = f(values[i])`, the low nibble first; a spare nibble keeps its value.
    fn write_packed<In: Copy, F: Map<In, u32>>(values: &[In], out: &mut [u8], f: F) {
        let (pairs, last) = values.as_chunks::<2>();
        for (byte, &[low, high]) in out.iter_mut().zip(pairs) {
            *byte = (f(low) & 0xf | f(high) << 4) as u8;
        }
        if let (&[v], Some(byte)) = (last, out.get_mut(pairs.len())) {
            *byte = *byte & 0xf0 | (f(v) & 0xf) as u8;
        }
    }
}

/// Decodes binary16 with the CPU's own instruction and multiplies by `scale`; returns how many elements it did: all whole
/// groups of 8, or none where the CPU has no such instruction.
pub(super) fn decode_f16(halves: &[[u8; 2]], out: &mut [f32], scale: f32) -> usize {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx,f16c")]
        fn f16c(halves: &[[u8; 2]], out: &mut [f32], scale: f32) -> usize {
            let (groups, _) = out.as_chunks_mut::<8>();
            let (packed, _) = halves.as_chunks::<8>();
            for (o, p) in groups.iter_mut().zip(packed) {
                // SAFETY: `p` is 16 readable bytes; the load needs no alignment.
                let p = unsafe { _mm_loadu_si128(p.as_ptr().cast::<__m128i>()) };
                let values = _mm256_mul_ps(_mm256_cvtph_ps(p), _mm256_set1_ps(scale));
                // SAFETY: `o` is 8 writable floats; the store needs no alignment.
                unsafe { _mm256_storeu_ps(o.as_mut_ptr(), values) };
            }
            groups.len().min(packed.len()) * 8
        }
        #[target_feature(enable = "avx512f")]
        fn wide(halves: &[[u8; 2]], out: &mut [f32], scale: f32) -> usize {
            let (groups, _) = out.as_chunks_mut::<16>();
            let (packed, _) = halves.as_chunks::<16>();
            for (o, p) in groups.iter_mut().zip(packed) {
                // SAFETY: `p` is 32 readable bytes; the load needs no alignment.
                let p = unsafe { _mm256_loadu_si256(p.as_ptr().cast::<__m256i>()) };
                let values = _mm512_mul_ps(_mm512_cvtph_ps(p), _mm512_set1_ps(scale));
                // SAFETY: `o` is 16 writable floats; the store needs no alignment.
                unsafe { _mm512_storeu_ps(o.as_mut_ptr(), values) };
            }
            groups.len().min(packed.len()) * 16
        }
        if has_avx512() {
            // SAFETY: the CPU has AVX-512, as just detected.
            let done = unsafe { wide(halves, out, scale) };
            // SAFETY: AVX-512 implies AVX and F16C.
            return done + unsafe { f16c(&halves[done..], &mut out[done..], scale) };
        }
        if has_f16c() {
            // SAFETY: the CPU has AVX and F16C, as just detected.
            return unsafe { f16c(halves, out, scale) };
        }
    }
    let _ = (halves, out, scale);
    0
}

/// Whether [`decode_f16`] does anything on this CPU.
pub(super) fn has_f16c() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_x86_feature_detected!("avx") && is_x86_feature_detected!("f16c");
    #[cfg(not(target_arch = "x86_64"))]
    false
}
