//! The definition of every generator: the bits of one element from its logical index.
//!
//! Everything is integer arithmetic or single IEEE operations, so kernels compute the same bits. The vectorised loops of
//! `host.rs` are tested against this.
//!
//! Random numbers: the counter of Philox is (block low, block high, stream, purpose), the key is the seed. For data
//! (purpose 0) an element of `w` bits of randomness takes bits `[w l, w l + w)` of block `i / (128 / w)`, `l = i % (128 / w)`.

use super::crand::Outputs;
use super::math::{ln32, ln64, radians_to_turn, sin_cos32, sin_cos64};
use super::params::{FillParams, flag, is_wide, kind};
use super::philox;
use crate::dtype::{DType, FloatFormat, Overflow, Rounding, Specials};

/// The last counter word, by purpose. The low 24 bits number further attempts at an unbiased integer; these use the
/// element's index as block number.
const DATA: u32 = 0;
const SPECIAL: u32 = 1 << 24;
const SPARSE: u32 = 2 << 24;
const LAST_ATTEMPT: u32 = (1 << 24) - 1;

/// Which two of four elements 2:4 sparsity keeps.
const KEPT: [u32; 6] = [0b0011, 0b0101, 0b0110, 0b1001, 0b1010, 0b1100];

/// Where random words come from.
pub(super) trait Source {
    /// Block `index` for `purpose`.
    fn block(&mut self, p: &FillParams, index: u64, purpose: u32) -> [u32; 4];
    /// Output `index` of the C library's generator.
    fn crand(&mut self, p: &FillParams, index: u64) -> u32;
}

/// Computes what is asked for, and nothing else.
pub(super) struct Direct;

impl Source for Direct {
    fn block(&mut self, p: &FillParams, index: u64, purpose: u32) -> [u32; 4] {
        philox::block([index as u32, (index >> 32) as u32, p.stream, purpose], p.key)
    }

    fn crand(&mut self, p: &FillParams, index: u64) -> u32 {
        p.crand_state().outputs_from(index).next_output()
    }
}

/// Computes ahead, for elements visited in order.
pub(super) struct Ahead {
    batches: [Option<(u64, philox::Words)>; 3],
    crand: Option<(u64, Outputs)>,
}

impl Ahead {
    pub(super) fn new() -> Ahead {
        Ahead { batches: [None; 3], crand: None }
    }
}

impl Source for Ahead {
    fn block(&mut self, p: &FillParams, index: u64, purpose: u32) -> [u32; 4] {
        if purpose & LAST_ATTEMPT != 0 {
            return Direct.block(p, index, purpose);
        }
        let size = philox::BATCH as u64;
        let slot = &mut self.batches[(purpose >> 24) as usize % 3];
        let first = index / size * size;
        let words = match slot {
            Some((at, words)) if *at == first => words,
            _ => {
                let mut words = [0; 4 * philox::BATCH];
                super::host::batch(first, p, purpose, &mut words);
                &mut slot.insert((first, words)).1
            }
        };
        let at = 4 * (index - first) as usize;
        [words[at], words[at + 1], words[at + 2], words[at + 3]]
    }

    fn crand(&mut self, p: &FillParams, index: u64) -> u32 {
        match &mut self.crand {
            Some((next, outputs)) if *next == index => {
                *next += 1;
                outputs.next_output()
            }
            slot => {
                let mut outputs = p.crand_state().outputs_from(index);
                let first = outputs.next_output();
                *slot = Some((index + 1, outputs));
                first
            }
        }
    }
}

/// The bits of element `index`.
pub(super) fn element(p: &FillParams, dtype: DType, index: u64, source: &mut impl Source) -> u64 {
    if p.flags & flag::SPARSE != 0 {
        let word = draw(p, index / 4, 32, SPARSE, source);
        if KEPT[((word * 6) >> 32) as usize] >> (index % 4) & 1 == 0 {
            return 0;
        }
    }
    if p.special_below > 0 {
        let word = draw(p, index, 64, SPECIAL, source);
        if word & 0xffff_ffff < p.special_below
            && let Some(f) = dtype.float_format()
        {
            return special(p.flags, f, (word >> 32) as u32);
        }
    }
    match p.kind {
        kind::UNIFORM => uniform(p, dtype, random_bits(dtype), index, source),
        kind::INTEGERS => integer(p, dtype, index, source),
        kind::SUBNORMAL => subnormal(p, dtype, index, source),
        kind::NORMAL => nearest(dtype, normal(p, dtype, index, source)),
        kind::CRAND => crand(p, dtype, source.crand(p, index)),
        _ => nearest(dtype, fixed(p, index)),
    }
}

fn nearest(dtype: DType, value: f64) -> u64 {
    // An infinity that arises saturates; one that the user asked for is a constant.
    dtype.encode(value, Rounding::NearestEven, Overflow::Saturate)
}

/// `width` random bits for `index`.
fn draw(p: &FillParams, index: u64, width: u32, purpose: u32, source: &mut impl Source) -> u64 {
    let lanes = u64::from(128 / width);
    let words = source.block(p, index / lanes, purpose);
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

fn uniform(p: &FillParams, dtype: DType, width: u32, index: u64, source: &mut impl Source) -> u64 {
    uniform_from(p, dtype, draw(p, index, width, DATA, source))
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
/// where the low half says that the word is one of the few too many (Lemire's method).
fn below(p: &FillParams, index: u64, source: &mut impl Source) -> u64 {
    let count = p.int_count;
    let narrow = count != 0 && count <= 0xffff_ffff;
    let mut word = draw(p, index, if narrow { 32 } else { 64 }, DATA, source);
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
        let words = source.block(p, index, DATA | attempt);
        word = u64::from(words[0]) | u64::from(words[1]) << 32;
    }
    0
}

fn integer(p: &FillParams, dtype: DType, index: u64, source: &mut impl Source) -> u64 {
    if p.period > 1 && !coordinate_sum(p, index).is_multiple_of(p.period) {
        return 0;
    }
    let draw = below(p, index, source);
    let signed = p.flags & flag::SIGNED != 0;
    let half = p.int_count / 2;
    let magnitude = p.int_low.wrapping_add(if signed && draw >= half { draw - half } else { draw } as i64);
    let value = if signed && draw >= half { -magnitude } else { magnitude };
    match dtype.int_format() {
        Some(int) => value as u64 & (u64::MAX >> (64 - int.bits)),
        None => nearest(dtype, value as f64),
    }
}

fn subnormal(p: &FillParams, dtype: DType, index: u64, source: &mut impl Source) -> u64 {
    let draw = below(p, index, source);
    dtype.float_format().map_or(0, |f| (((draw >> 1) + 1) | ((draw & 1) << (f.exponent_bits + f.mantissa_bits))) << f.pad_bits)
}

fn normal(p: &FillParams, dtype: DType, index: u64, source: &mut impl Source) -> f64 {
    if is_wide(dtype) {
        let [a, b, c, d] = source.block(p, index / 2, DATA);
        let first = u64::from(a) | u64::from(b) << 32;
        let radius = (-2.0 * ln64((first >> 11 | 1) as f64 * (1.0 / (1u64 << 53) as f64))).sqrt();
        let (sin, cos) = sin_cos64(u64::from(c) | u64::from(d) << 32);
        let z = radius * if index.is_multiple_of(2) { cos } else { sin };
        return clamp64(z.mul_add(p.b, p.a), p.low, p.high);
    }
    let words = source.block(p, index / 4, DATA);
    let pair = ((index % 4) & 2) as usize;
    let u = (words[pair] as f32).mul_add(1.0 / 4_294_967_296.0, 1.0 / 8_589_934_592.0);
    let radius = (-2.0 * ln32(u)).sqrt();
    let (sin, cos) = sin_cos32(words[pair + 1]);
    let z = radius * if index.is_multiple_of(2) { cos } else { sin };
    f64::from(clamp32(z.mul_add(p.b as f32, p.a as f32), p.low as f32, p.high as f32))
}

fn crand(p: &FillParams, dtype: DType, output: u32) -> u64 {
    let x = (p.b * f64::from(output) / 2_147_483_647.0) as f32 + p.a as f32;
    let rounding = if dtype.bits() < 32 || dtype == DType::Tf32 { Rounding::TowardZero } else { Rounding::NearestEven };
    dtype.encode(f64::from(x), rounding, Overflow::Saturate)
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

fn coordinate_sum(p: &FillParams, mut index: u64) -> u64 {
    let mut sum = 0;
    for extent in p.shape[..p.rank as usize].iter().rev() {
        sum += index % extent;
        index /= extent;
    }
    sum
}

fn special(flags: u32, f: &FloatFormat, word: u32) -> u64 {
    let classes = flags & (flag::ZERO | flag::INFINITE | flag::NAN);
    let choice = ((word & 0xffff) * classes.count_ones()) >> 16;
    // The choice-th class that there is.
    let class = [flag::ZERO, flag::INFINITE, flag::NAN].into_iter().filter(|c| classes & c != 0).nth(choice as usize);
    let payload = u64::from(word >> 17);
    let magnitude = f.exponent_bits + f.mantissa_bits;
    let sign = u64::from(word >> 16 & 1) << magnitude;
    let infinity = ((1u64 << f.exponent_bits) - 1) << f.mantissa_bits;
    let bits = match (class.unwrap_or(0), f.specials) {
        (flag::ZERO, Specials::NegativeZeroNan) => 0,
        (flag::ZERO, _) => sign,
        (flag::INFINITE, _) => sign | infinity,
        (_, Specials::NegativeZeroNan) => 1 << magnitude,
        (_, Specials::SingleNan) => sign | ((1 << magnitude) - 1),
        (_, Specials::E8m0) => (1 << magnitude) - 1,
        // Any fraction but 0: quiet and signalling ones.
        (_, _) if f.mantissa_bits > 15 => sign | infinity | payload << (f.mantissa_bits - 15) | 1,
        (_, _) => sign | infinity | (1 + ((payload * ((1 << f.mantissa_bits) - 1)) >> 15)),
    };
    bits << f.pad_bits
}
