//! The definition of every generator: the bits of one element from its logical index.
//!
//! Everything is integer arithmetic or single IEEE operations, so kernels compute the same bits. The loops of `blocks.rs` and
//! `avx512.rs` are tested against this.
//!
//! Random numbers: the counter of Philox is (block low, block high, stream, purpose), the key is the seed. For data
//! (purpose 0) an element of `w` bits of randomness takes bits `[w l, w l + w)` of block `i / (128 / w)`, `l = i % (128 / w)`.

use super::math::{ln32, ln64, radians_to_turn, sin_cos32, sin_cos64};
use super::params::{FillParams, crand_state, flag, is_wide, kind};
use super::philox;
use crate::dtype::{DType, FloatFormat, Overflow, Rounding, Specials};

/// The last counter word, by purpose. The low 24 bits number further attempts at an unbiased integer; these use the
/// element's index as block number.
pub(super) const DATA: u32 = 0;
pub(super) const SPECIAL: u32 = 1 << 24;
pub(super) const SPARSE: u32 = 2 << 24;
const LAST_ATTEMPT: u32 = (1 << 24) - 1;

/// Which two of four elements 2:4 sparsity keeps: the six possible pairs, as four bits each.
#[inline(always)]
pub(super) fn kept(word: u32) -> u32 {
    let pair = (u64::from(word) * 6) >> 32;
    0xca_9653 >> (4 * pair) & 15
}

/// The bits of element `index`.
pub(super) fn element(p: &FillParams, dtype: DType, index: u64) -> u64 {
    if let Some(bits) = overlaid(p, dtype, index) {
        return bits;
    }
    match p.kind {
        kind::UNIFORM => uniform(p, dtype, random_bits(dtype), index),
        kind::INTEGERS => integer(p, dtype, index),
        kind::SUBNORMAL => subnormal(p, dtype, index),
        kind::NORMAL => nearest(dtype, normal(p, dtype, index)),
        kind::CRAND => crand(p, dtype, crand_state(p).outputs_from(index).next_output()),
        _ => dtype.encode(fixed(p, index), Rounding::NearestEven, overflow(p.kind)),
    }
}

/// What replaces element `index`: a zero of 2:4 sparsity, or a special value.
pub(super) fn overlaid(p: &FillParams, dtype: DType, index: u64) -> Option<u64> {
    if p.flags & flag::SPARSE != 0 && kept(draw(p, index / 4, 32, SPARSE) as u32) >> (index % 4) & 1 == 0 {
        return Some(0);
    }
    if p.special_below > 0 {
        let word = draw(p, index, 64, SPECIAL);
        if word & 0xffff_ffff < p.special_below
            && let Some(f) = dtype.float_format()
        {
            return Some(special(p.flags, f, (word >> 32) as u32));
        }
    }
    None
}

/// How generated infinities are handled: one that arises saturates, one that the caller requested stays infinite. Requested numbers are otherwise never beyond the format.
pub(super) fn overflow(kind: u32) -> Overflow {
    let asked = matches!(kind, kind::CONSTANT | kind::DIAGONAL | kind::CHECKERBOARD);
    if asked { Overflow::Ieee } else { Overflow::Saturate }
}

pub(super) fn nearest(dtype: DType, value: f64) -> u64 {
    dtype.encode(value, Rounding::NearestEven, Overflow::Saturate)
}

/// Block `index` for `purpose`.
fn block(p: &FillParams, index: u64, purpose: u32) -> [u32; 4] {
    philox::block([index as u32, (index >> 32) as u32, p.stream, purpose], p.key)
}

/// `width` random bits for `index`.
fn draw(p: &FillParams, index: u64, width: u32, purpose: u32) -> u64 {
    let lanes = u64::from(128 / width);
    let words = block(p, index / lanes, purpose);
    let bit = (index % lanes) as u32 * width;
    let half = (bit / 64) as usize * 2;
    let word = u64::from(words[half]) | u64::from(words[half + 1]) << 32;
    word >> (bit % 64) & (u64::MAX >> (64 - width))
}

/// Bits of randomness that a uniform float takes.
pub(super) const fn random_bits(dtype: DType) -> u32 {
    let bits = dtype.bits() as u32;
    if bits < 8 { 8 } else { bits }
}

fn uniform(p: &FillParams, dtype: DType, width: u32, index: u64) -> u64 {
    uniform_from(p, dtype, draw(p, index, width, DATA))
}

/// A uniform float from its random bits.
pub(super) fn uniform_from(p: &FillParams, dtype: DType, word: u64) -> u64 {
    let signed = p.flags & flag::SIGNED != 0;
    let negate = signed && word & 1 == 1;
    let x = if is_wide(dtype) {
        let u = (word >> 11 | 1) as f64 * (1.0 / (1u64 << 53) as f64);
        clamp64(u.mul_add(p.b, p.a), p.low, p.high)
    } else {
        // With a random sign, its bit gives way to the one that marks the middle of the part.
        let u = match (random_bits(dtype), signed) {
            (32, _) => (word >> 8 | 1) as f32 * (1.0 / 16_777_216.0),
            (16, false) => (2 * word + 1) as f32 * (1.0 / 131_072.0),
            (16, true) => (word | 1) as f32 * (1.0 / 65_536.0),
            (_, false) => (2 * word + 1) as f32 * (1.0 / 512.0),
            (_, true) => (word | 1) as f32 * (1.0 / 256.0),
        };
        f64::from(clamp32(u.mul_add(p.b as f32, p.a as f32), p.low as f32, p.high as f32))
    };
    nearest(dtype, if negate { -x } else { x })
}

#[inline(always)]
pub(super) fn clamp32(x: f32, low: f32, high: f32) -> f32 {
    let x = if x < low { low } else { x };
    if x > high { high } else { x }
}

#[inline(always)]
pub(super) fn clamp64(x: f64, low: f64, high: f64) -> f64 {
    let x = if x < low { low } else { x };
    if x > high { high } else { x }
}

/// An unbiased number from 0 to `int_count` - 1: the high half of the product of a random word and the count, drawn again
/// if the low half says that the word has to be rejected (Lemire's method).
pub(super) fn below(p: &FillParams, index: u64) -> u64 {
    let count = p.int_count;
    let narrow = count != 0 && count <= 0xffff_ffff;
    let mut word = draw(p, index, if narrow { 32 } else { 64 }, DATA);
    if count == 0 {
        return word;
    }
    for attempt in 1..=LAST_ATTEMPT {
        let (value, rest, excess) = if narrow {
            let product = (word & 0xffff_ffff) * count;
            (product >> 32, product & 0xffff_ffff, (1u64 << 32) % count)
        } else {
            let product = u128::from(word) * u128::from(count);
            ((product >> 64) as u64, product as u64, count.wrapping_neg() % count)
        };
        if rest >= excess {
            return value;
        }
        let words = block(p, index, DATA | attempt);
        word = u64::from(words[0]) | u64::from(words[1]) << 32;
    }
    0
}

fn integer(p: &FillParams, dtype: DType, index: u64) -> u64 {
    if p.period > 1 && !coordinate_sum(p, index).is_multiple_of(p.period) {
        return 0;
    }
    let draw = below(p, index);
    let signed = p.flags & flag::SIGNED != 0;
    let half = p.int_count / 2;
    let magnitude = p.int_low.wrapping_add(if signed && draw >= half { draw - half } else { draw } as i64);
    let value = if signed && draw >= half { -magnitude } else { magnitude };
    match dtype.int_format() {
        Some(int) => value as u64 & (u64::MAX >> (64 - int.bits)),
        None => nearest(dtype, value as f64),
    }
}

fn subnormal(p: &FillParams, dtype: DType, index: u64) -> u64 {
    let draw = below(p, index);
    dtype.float_format().map_or(0, |f| (((draw >> 1) + 1) | ((draw & 1) << (f.exponent_bits + f.mantissa_bits))) << f.pad_bits)
}

fn normal(p: &FillParams, dtype: DType, index: u64) -> f64 {
    let which = (index % 2) as usize;
    if is_wide(dtype) {
        let z = normal_pair64(block(p, index / 2, DATA))[which];
        return clamp64(z.mul_add(p.b, p.a), p.low, p.high);
    }
    let [a, b, c, d] = block(p, index / 4, DATA);
    let z = normal_pair32(if index % 4 < 2 { [a, b] } else { [c, d] })[which];
    f64::from(clamp32(z.mul_add(p.b as f32, p.a as f32), p.low as f32, p.high as f32))
}

/// Two independent numbers of the standard normal distribution (Box-Muller).
#[inline(always)]
pub(super) fn normal_pair32([distance, angle]: [u32; 2]) -> [f32; 2] {
    let u = (distance as f32).mul_add(1.0 / 4_294_967_296.0, 1.0 / 8_589_934_592.0);
    let radius = (-2.0 * ln32(u)).sqrt();
    let (sin, cos) = sin_cos32(angle);
    [radius * cos, radius * sin]
}

/// The same in f64.
#[inline(always)]
pub(super) fn normal_pair64([a, b, c, d]: [u32; 4]) -> [f64; 2] {
    let distance = u64::from(a) | u64::from(b) << 32;
    let radius = (-2.0 * ln64((distance >> 11 | 1) as i64 as f64 * (1.0 / (1u64 << 53) as f64))).sqrt();
    let (sin, cos) = sin_cos64(u64::from(c) | u64::from(d) << 32);
    [radius * cos, radius * sin]
}

fn crand(p: &FillParams, dtype: DType, output: u32) -> u64 {
    dtype.encode(f64::from(crand_number(p, output)), crand_rounding(dtype), Overflow::Saturate)
}

/// The number that published experiments made of an output of the C library.
#[inline(always)]
pub(super) fn crand_number(p: &FillParams, output: u32) -> f32 {
    (p.b * f64::from(output) / 2_147_483_647.0) as f32 + p.a as f32
}

pub(super) fn crand_rounding(dtype: DType) -> Rounding {
    if dtype.bits() < 32 || dtype == DType::Tf32 { Rounding::TowardZero } else { Rounding::NearestEven }
}

/// The generators without randomness.
fn fixed(p: &FillParams, index: u64) -> f64 {
    match p.kind {
        kind::CONSTANT => p.a,
        kind::SEQUENTIAL => coordinate(p, index, p.dim as usize) as f64,
        kind::DIAGONAL => {
            let rank = p.rank as usize;
            if coordinate(p, index, rank - 1) == coordinate(p, index, rank - 2) { p.a } else { 0.0 }
        }
        kind::CHECKERBOARD => {
            if coordinate_sum(p, index).is_multiple_of(2) {
                p.a
            } else {
                -p.a
            }
        }
        kind::MONOTONIC => (index as f64).mul_add(p.b, p.a),
        kind::SIN => sin_cos64(radians_to_turn(index)).0,
        _ => sin_cos64(radians_to_turn(index)).1,
    }
}

fn coordinate(p: &FillParams, mut index: u64, dim: usize) -> u64 {
    for extent in p.shape[dim + 1..p.rank as usize].iter().rev() {
        index /= extent;
    }
    index % p.shape[dim]
}

pub(super) fn coordinate_sum(p: &FillParams, mut index: u64) -> u64 {
    let mut sum = 0;
    for extent in p.shape[..p.rank as usize].iter().rev() {
        sum += index % extent;
        index /= extent;
    }
    sum
}

pub(super) fn special(flags: u32, f: &FloatFormat, word: u32) -> u64 {
    let classes = flags & (flag::HAS_ZERO | flag::HAS_INFINITE | flag::HAS_NAN);
    let choice = ((word & 0xffff) * classes.count_ones()) >> 16;
    // The choice-th class that there is.
    let class = [flag::HAS_ZERO, flag::HAS_INFINITE, flag::HAS_NAN].into_iter().filter(|c| classes & c != 0).nth(choice as usize);
    let payload = u64::from(word >> 17);
    let magnitude = f.exponent_bits + f.mantissa_bits;
    let sign = u64::from(word >> 16 & 1) << magnitude;
    let infinity = ((1u64 << f.exponent_bits) - 1) << f.mantissa_bits;
    let bits = match (class.unwrap_or(0), f.specials) {
        (flag::HAS_ZERO, Specials::NegativeZeroNan) => 0,
        (flag::HAS_ZERO, _) => sign,
        (flag::HAS_INFINITE, _) => sign | infinity,
        (_, Specials::NegativeZeroNan) => 1 << magnitude,
        (_, Specials::SingleNan) => sign | ((1 << magnitude) - 1),
        (_, Specials::E8m0) => (1 << magnitude) - 1,
        // Any fraction but 0: quiet and signalling ones.
        (_, _) if f.mantissa_bits > 15 => sign | infinity | payload << (f.mantissa_bits - 15) | 1,
        (_, _) => sign | infinity | (1 + ((payload * ((1 << f.mantissa_bits) - 1)) >> 15)),
    };
    bits << f.pad_bits
}
