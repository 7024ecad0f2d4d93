//! The inner loops of `blocks.rs`, compiled for each [`InstructionSet`]; the compiler vectorises them.

use super::element::{clamp32, clamp64, crand_number, kept, normal_pair32, normal_pair64};
use super::math::sin_cos64;
use super::params::{FillParams, flag};
use crate::simd::{InstructionSet, Task, array, each};

/// Makes a [`Task`] of a function: `$name` takes the instruction set, then the arguments of `$body`, which must always be inlined.
macro_rules! for_each_set {
    ($(#[$doc:meta])* fn $name:ident = $body:ident($($arg:ident: $ty:ty),*)) => {
        $(#[$doc])*
        pub(super) fn $name<'a>(set: InstructionSet, $($arg: $ty),*) {
            struct Loop<'a> {
                $($arg: $ty),*
            }
            impl Task for Loop<'_> {
                type Output = ();
                #[inline(always)]
                fn run(self) {
                    $body($(self.$arg),*)
                }
            }
            set.run(Loop { $($arg),* });
        }
    };
}
pub(super) use for_each_set;

for_each_set! {
    /// Uniform numbers from 64 bits each.
    fn uniform_f64 = uniform_f64_body(p: &'a FillParams, words: &'a [u32], out: &'a mut [f64])
}

#[inline(always)]
fn uniform_f64_body(p: &FillParams, words: &[u32], out: &mut [f64]) {
    let (a, b, low, high) = (p.a, p.b, p.low, p.high);
    let sign = u64::from(p.flags & flag::SIGNED);
    each(out, words.as_chunks().0, |out, [first, second]| {
        let word = u64::from(*first) | u64::from(*second) << 32;
        let u = (word >> 11 | 1) as i64 as f64 * (1.0 / (1u64 << 53) as f64);
        let x = clamp64(u.mul_add(b, a), low, high);
        *out = f64::from_bits(x.to_bits() ^ (word & sign) << 63);
    });
}

for_each_set! {
    /// Uniform numbers from 32, 16 or 8 bits each.
    fn uniform_f32 = uniform_f32_body(p: &'a FillParams, width: u32, words: &'a [u32], out: &'a mut [f32])
}

#[inline(always)]
fn uniform_f32_body(p: &FillParams, width: u32, words: &[u32], out: &mut [f32]) {
    // As i32 the numbers convert in one vector instruction.
    match (width, p.flags & flag::SIGNED != 0) {
        (32, _) => scale::<1>(p, width, words, out, |word| (word >> 8 | 1) as i32 as f32 * (1.0 / 16_777_216.0)),
        (16, false) => scale::<2>(p, width, words, out, |word| (2 * word + 1) as i32 as f32 * (1.0 / 131_072.0)),
        (16, true) => scale::<2>(p, width, words, out, |word| (word | 1) as i32 as f32 * (1.0 / 65_536.0)),
        (_, false) => scale::<4>(p, width, words, out, |word| (2 * word + 1) as i32 as f32 * (1.0 / 512.0)),
        (_, true) => scale::<4>(p, width, words, out, |word| (word | 1) as i32 as f32 * (1.0 / 256.0)),
    }
}

/// Takes `PER` numbers of `width` bits from each word.
#[inline(always)]
fn scale<const PER: usize>(p: &FillParams, width: u32, words: &[u32], out: &mut [f32], u: impl Fn(u32) -> f32) {
    let (a, b, low, high) = (p.a as f32, p.b as f32, p.low as f32, p.high as f32);
    let sign = p.flags & flag::SIGNED;
    each(out.as_chunks_mut::<PER>().0, words, |out, word| {
        for (i, out) in out.iter_mut().enumerate() {
            let draw = word >> (width * i as u32) & (u32::MAX >> (32 - width));
            let x = clamp32(u(draw).mul_add(b, a), low, high);
            *out = f32::from_bits(x.to_bits() ^ (draw & sign) << 31);
        }
    });
}

for_each_set! {
    /// Normal numbers, two from two words.
    fn normal_f32 = normal_f32_body(p: &'a FillParams, words: &'a [u32], out: &'a mut [f32])
}

#[inline(always)]
fn normal_f32_body(p: &FillParams, words: &[u32], out: &mut [f32]) {
    let (mean, sigma, low, high) = (p.a as f32, p.b as f32, p.low as f32, p.high as f32);
    each(out.as_chunks_mut::<2>().0, words.as_chunks().0, |out, words| {
        let z = normal_pair32(*words);
        *out = array(|i| clamp32(z[i].mul_add(sigma, mean), low, high));
    });
}

for_each_set! {
    /// Normal numbers, two from four words.
    fn normal_f64 = normal_f64_body(p: &'a FillParams, words: &'a [u32], out: &'a mut [f64])
}

#[inline(always)]
fn normal_f64_body(p: &FillParams, words: &[u32], out: &mut [f64]) {
    let (mean, sigma, low, high) = (p.a, p.b, p.low, p.high);
    each(out.as_chunks_mut::<2>().0, words.as_chunks().0, |out, words| {
        let z = normal_pair64(*words);
        *out = array(|i| clamp64(z[i].mul_add(sigma, mean), low, high));
    });
}

/// The product of draw `i` and `count`, as (upper half: the number, lower half: the remainder).
#[inline(always)]
fn product(count: u64, words: &[u32], i: usize) -> (u64, u64) {
    let word = u64::from(words[2 * i]) | u64::from(words[2 * i + 1]) << 32;
    let product = u128::from(word) * u128::from(count);
    if count == 0 { (word, u64::MAX) } else { ((product >> 64) as u64, product as u64) }
}

for_each_set! {
    /// Numbers below `count` from 32 bits each or, beyond 2^32, from 64; returns whether any draw may have to be rejected.
    fn below = below_body(count: u64, words: &'a [u32], out: &'a mut [u64], doubtful: &'a mut bool)
}

#[inline(always)]
fn below_body(count: u64, words: &[u32], out: &mut [u64], doubtful: &mut bool) {
    let mut least = u64::MAX;
    if words.len() == out.len() {
        each(out, words, |out, word| {
            let product = u64::from(*word) * count;
            *out = product >> 32;
            least = least.min(product & 0xffff_ffff);
        });
    } else {
        for (i, out) in out.iter_mut().enumerate() {
            let (value, rest) = product(count, words, i);
            *out = value;
            least = least.min(rest);
        }
    }
    *doubtful = least < count;
}

/// Whether draw `i` may have to be rejected.
pub(super) fn is_doubtful(count: u64, words: &[u32], i: usize) -> bool {
    if count != 0 && count <= 0xffff_ffff {
        (u64::from(words[i]) * count) & 0xffff_ffff < count
    } else {
        product(count, words, i).1 < count
    }
}

for_each_set! {
    /// From numbers below `int_count` to integers in two's complement.
    fn integers = integers_body(p: &'a FillParams, values: &'a mut [u64])
}

#[inline(always)]
fn integers_body(p: &FillParams, values: &mut [u64]) {
    let least = p.int_low as u64;
    if p.flags & flag::SIGNED == 0 {
        values.iter_mut().for_each(|value| *value = value.wrapping_add(least));
        return;
    }
    let half = p.int_count / 2;
    for value in values {
        let upper = *value >= half;
        let magnitude = least.wrapping_add(if upper { *value - half } else { *value });
        *value = if upper { magnitude.wrapping_neg() } else { magnitude };
    }
}

for_each_set! {
    /// From numbers below `int_count` to subnormals, `format` being the place of the sign and the unused bits below.
    fn subnormal = subnormal_body(format: [u32; 2], values: &'a mut [u64])
}

#[inline(always)]
fn subnormal_body([sign, pad]: [u32; 2], values: &mut [u64]) {
    values.iter_mut().for_each(|value| *value = (((*value >> 1) + 1) | ((*value & 1) << sign)) << pad);
}

for_each_set! {
    /// Integers in two's complement as f32.
    fn to_f32 = to_f32_body(values: &'a [u64], out: &'a mut [f32])
}

#[inline(always)]
fn to_f32_body(values: &[u64], out: &mut [f32]) {
    // They fit i32, which converts in one instruction everywhere.
    each(out, values, |out, value| *out = *value as i32 as f32);
}

for_each_set! {
    /// Integers in two's complement as f64.
    fn to_f64 = to_f64_body(values: &'a [u64], out: &'a mut [f64])
}

#[inline(always)]
fn to_f64_body(values: &[u64], out: &mut [f64]) {
    each(out, values, |out, value| *out = *value as i64 as f64);
}

for_each_set! {
    /// The numbers of the C library's outputs.
    fn crand = crand_body(p: &'a FillParams, outputs: &'a [u32], out: &'a mut [f32])
}

#[inline(always)]
fn crand_body(p: &FillParams, outputs: &[u32], out: &mut [f32]) {
    each(out, outputs, |out, output| *out = crand_number(p, *output));
}

for_each_set! {
    /// init + index step.
    fn monotonic = monotonic_body(p: &'a FillParams, start: u64, out: &'a mut [f64])
}

#[inline(always)]
fn monotonic_body(p: &FillParams, start: u64, out: &mut [f64]) {
    for (i, out) in out.iter_mut().enumerate() {
        *out = ((start + i as u64) as f64).mul_add(p.b, p.a);
    }
}

for_each_set! {
    /// Sine or cosine of turns in units of 2^-64.
    fn sin_or_cos = sin_or_cos_body(sine: bool, turns: &'a [u64], out: &'a mut [f64])
}

#[inline(always)]
fn sin_or_cos_body(sine: bool, turns: &[u64], out: &mut [f64]) {
    each(out, turns, |out, turn| {
        let (sin, cos) = sin_cos64(*turn);
        *out = if sine { sin } else { cos };
    });
}

for_each_set! {
    /// The low bits of each value as an element of so many bits.
    fn store = store_body(bits: usize, values: &'a [u64], out: &'a mut [u8])
}

#[inline(always)]
fn store_body(bits: usize, values: &[u64], out: &mut [u8]) {
    match bits {
        4 => each(out, values.as_chunks().0, |out, [low, high]| *out = (low & 0xf | high << 4) as u8),
        8 => each(out, values, |out, value| *out = *value as u8),
        16 => each(out.as_chunks_mut().0, values, |out, value| *out = (*value as u16).to_le_bytes()),
        32 => each(out.as_chunks_mut().0, values, |out, value| *out = (*value as u32).to_le_bytes()),
        _ => each(out.as_chunks_mut().0, values, |out, value| *out = value.to_le_bytes()),
    }
}

for_each_set! {
    /// Zeroes two of each four elements of so many bits, by a word each.
    fn sparsify = sparsify_body(bits: usize, words: &'a [u32], out: &'a mut [u8])
}

#[inline(always)]
fn sparsify_body(bits: usize, words: &[u32], out: &mut [u8]) {
    // 4 elements of type $t: those without a bit are multiplied by 0.
    macro_rules! sparsify {
        ($t:ty) => {
            each(out.as_chunks_mut::<{ 4 * size_of::<$t>() }>().0, words, |four, word| {
                let kept = kept(*word);
                for (i, element) in four.as_chunks_mut().0.iter_mut().enumerate() {
                    *element = (<$t>::from_le_bytes(*element) * (kept >> i & 1) as $t).to_le_bytes();
                }
            })
        };
    }
    match bits {
        4 => each(out.as_chunks_mut::<2>().0, words, |four, word| {
            let kept = kept(*word);
            let keep = |pair: u32| (((pair & 1) * 0x0f) | ((pair >> 1 & 1) * 0xf0)) as u8;
            *four = [four[0] & keep(kept), four[1] & keep(kept >> 2)];
        }),
        8 => sparsify!(u8),
        16 => sparsify!(u16),
        32 => sparsify!(u32),
        _ => sparsify!(u64),
    }
}
