//! Loops over many elements, each a [`Task`], and the decoding of binary16 by instruction.

use super::kernel::Raw;
use crate::simd::{InstructionSet, Lanes, LanesTask, Task, each};
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
/// vectors, or none if the CPU has no such instruction.
pub(super) fn decode_f16(halves: &[[u8; 2]], out: &mut [f32], scale: f32) -> usize {
    if has_f16c() { InstructionSet::best().run_lanes(Halves { halves, out, scale }) } else { 0 }
}

/// Whether [`decode_f16`] does anything on this CPU.
#[inline]
pub(super) fn has_f16c() -> bool {
    !InstructionSet::best().is_plain()
}

struct Halves<'a> {
    halves: &'a [[u8; 2]],
    out: &'a mut [f32],
    scale: f32,
}

impl LanesTask<f32> for Halves<'_> {
    type Output = usize;
    #[inline(always)]
    fn run<L: Lanes<Number = f32>>(self, set: L::Set) -> usize {
        let scale = L::splat(set, self.scale);
        let n = self.halves.len().min(self.out.len()) / L::N * L::N;
        let (halves, out) = (&self.halves[..n], &mut self.out[..n]);
        let mut at = 0;
        while at < n {
            let x = L::from_f16(set, &halves[at..]);
            L::store(if self.scale == 1.0 { x } else { L::mul(x, scale) }, &mut out[at..]);
            at += L::N;
        }
        n
    }
}
