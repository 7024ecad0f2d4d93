//! Loops over many elements, each a [`Task`], and the decoding of binary16 by instruction.

use super::kernel::Raw;
use crate::simd::{InstructionSet, Task, each};
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{_mm256_cvtph_ps, _mm256_mul_ps, _mm256_set1_ps, _mm512_cvtph_ps, _mm512_mul_ps, _mm512_set1_ps};
use std::marker::PhantomData;

/// Defines a function that runs its body with the best instructions of the processor.
macro_rules! vectorized {
    ($(#[$doc:meta])* fn $name:ident = $task:ident<$($generic:ident: $bound:path),*>($($arg:ident: $ty:ty),*) $body:block) => {
        struct $task<'a, $($generic),*> {
            $($arg: $ty),*
        }
        impl<$($generic: $bound),*> Task for $task<'_, $($generic),*> {
            type Output = ();
            #[inline(always)]
            fn run(self) {
                let $task { $($arg),* } = self;
                $body
            }
        }
        $(#[$doc])*
        #[inline]
        pub(super) fn $name<'a, $($generic: $bound),*>($($arg: $ty),*) {
            InstructionSet::best().run($task { $($arg),* });
        }
    };
}

/// A function of one element.
pub(super) trait Map<In, Out>: Fn(In) -> Out + Copy {}
impl<In, Out, F: Fn(In) -> Out + Copy> Map<In, Out> for F {}

vectorized! {
    /// `out[i] = f(unit i of bytes)`.
    fn read = Read<R: Raw, Out: Copy, F: Map<u32, Out>>(bytes: &'a [u8], out: &'a mut [Out], f: F, _unit: PhantomData<R>) {
        each(out, R::units(bytes), |o, unit| *o = f(unit.get()));
    }
}

vectorized! {
    /// `unit i of out = f(values[i])`.
    fn write = Write<R: Raw, In: Copy, F: Map<In, u32>>(values: &'a [In], out: &'a mut [u8], f: F, _unit: PhantomData<R>) {
        each(R::units_mut(out), values, |unit, v| *unit = R::put(f(*v)));
    }
}

vectorized! {
    /// `out[i] = f(values[i])`.
    fn map = Each<In: Copy, Out: Copy, F: Map<In, Out>>(values: &'a [In], out: &'a mut [Out], f: F) {
        each(out, values, |o, v| *o = f(*v));
    }
}

vectorized! {
    /// `out[i] = f(4-bit element i of bytes)`, the low nibble first.
    fn read_packed = ReadPacked<Out: Copy, F: Map<u32, Out>>(bytes: &'a [u8], out: &'a mut [Out], f: F) {
        let (pairs, last) = out.as_chunks_mut::<2>();
        each(pairs, bytes, |pair, byte| *pair = [f(u32::from(byte & 0xf)), f(u32::from(byte >> 4))]);
        if let ([o], Some(&byte)) = (last, bytes.get(pairs.len())) {
            *o = f(u32::from(byte & 0xf));
        }
    }
}

vectorized! {
    /// `4-bit element i of out = f(values[i])`, the low nibble first; a spare nibble keeps its value.
    fn write_packed = WritePacked<In: Copy, F: Map<In, u32>>(values: &'a [In], out: &'a mut [u8], f: F) {
        let (pairs, last) = values.as_chunks::<2>();
        each(out, pairs, |byte, &[low, high]| *byte = (f(low) & 0xf | f(high) << 4) as u8);
        if let (&[v], Some(byte)) = (last, out.get_mut(pairs.len())) {
            *byte = *byte & 0xf0 | (f(v) & 0xf) as u8;
        }
    }
}

/// Decodes binary16 with the CPU's own instruction and multiplies by `scale`; returns how many elements it did: all whole
/// groups of 8, or none if the CPU has no such instruction.
pub(super) fn decode_f16(halves: &[[u8; 2]], out: &mut [f32], scale: f32) -> usize {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx,f16c")]
        fn f16c(halves: &[[u8; 2]], out: &mut [f32], scale: f32) -> usize {
            let (groups, _) = out.as_chunks_mut::<8>();
            let (packed, _) = halves.as_chunks::<8>();
            if scale == 1.0 {
                each(groups, packed, |o, p| *o = bytemuck::cast(_mm256_cvtph_ps(bytemuck::cast(*p))));
            } else {
                each(groups, packed, |o, p| *o = bytemuck::cast(_mm256_mul_ps(_mm256_cvtph_ps(bytemuck::cast(*p)), _mm256_set1_ps(scale))));
            }
            groups.len().min(packed.len()) * 8
        }
        #[target_feature(enable = "avx512f")]
        fn wide(halves: &[[u8; 2]], out: &mut [f32], scale: f32) -> usize {
            let (groups, _) = out.as_chunks_mut::<16>();
            let (packed, _) = halves.as_chunks::<16>();
            if scale == 1.0 {
                each(groups, packed, |o, p| *o = bytemuck::cast(_mm512_cvtph_ps(bytemuck::cast(*p))));
            } else {
                each(groups, packed, |o, p| *o = bytemuck::cast(_mm512_mul_ps(_mm512_cvtph_ps(bytemuck::cast(*p)), _mm512_set1_ps(scale))));
            }
            groups.len().min(packed.len()) * 16
        }
        if has_f16c() {
            // SAFETY: the CPU has AVX-512F, as just detected.
            let done = if is_x86_feature_detected!("avx512f") { unsafe { wide(halves, out, scale) } } else { 0 };
            // SAFETY: the CPU has AVX and F16C, as `has_f16c` has detected.
            return done + unsafe { f16c(&halves[done..], &mut out[done..], scale) };
        }
    }
    let _ = (halves, out, scale);
    0
}

/// Whether [`decode_f16`] does anything on this CPU.
#[inline]
pub(super) fn has_f16c() -> bool {
    #[cfg(target_arch = "x86_64")]
    return is_x86_feature_detected!("avx") && is_x86_feature_detected!("f16c");
    #[cfg(not(target_arch = "x86_64"))]
    false
}
