//! Uniform data, 32-bit integers and constants at nearly the speed of memory, with AVX-512: random bits, numbers and their encoding
//! stay in registers, and whole cache lines are written past the caches.
//!
//! All of it works on streams of blocks: a block's 16 random bytes become 16 bytes of the tensor, in place. So a format is a
//! function from a vector of 4 blocks to a vector, and [`stream`] is the loop around it. What does not fit this pattern
//! (4-bit formats, other generators, the last few elements) is done by `blocks.rs`. The definition of both is `element.rs`.

use super::element::{element, uniform_from};
use super::params::{FillParams, flag, kind};
use super::philox::{M0, M1, W0, W1};
use crate::dtype::DType;
use crate::simd::{InstructionSet, array};
use std::arch::asm;
use std::arch::x86_64::*;

/// Bytes that one turn of the loop makes: four vectors of 8 blocks, enough to hide the latency of a multiplication.
const TURN: usize = 4 * 8 * 16;

/// One in 2^32 / `count` draws may have to be rejected; above this count there are too many to repair one by one.
const MOST_INTEGERS: u64 = 1 << 20;

/// How a uniform number is computed from u: without a test of the ends, if no draw exceeds them; clamped; clamped, with a sign.
type Form = u8;
const PLAIN: Form = 0;
const CLAMPED: Form = 1;
const SIGNED: Form = 2;

/// The fills that this module can do.
pub(super) enum Stream {
    F64(Form),
    F32(Form),
    F16(Form),
    Bf16(Form),
    /// Formats of one byte: the results of all 256 draws.
    Byte(Box<[u8; 256]>),
    I32,
    /// The same everywhere.
    Constant([u8; 64]),
}

impl Stream {
    /// How to fill, if this module can.
    pub(super) fn new(set: InstructionSet, p: &FillParams, dtype: DType) -> Option<Stream> {
        if !set.has_vbmi() || p.special_below > 0 || p.flags & flag::SPARSE != 0 {
            return None;
        }
        match (p.kind, dtype) {
            (kind::UNIFORM, DType::F64) => Some(Stream::F64(form(p, dtype))),
            (kind::UNIFORM, DType::F32) => Some(Stream::F32(form(p, dtype))),
            (kind::UNIFORM, DType::F16) => Some(Stream::F16(form(p, dtype))),
            (kind::UNIFORM, DType::Bf16) => Some(Stream::Bf16(form(p, dtype))),
            (kind::UNIFORM, _) if dtype.bits() == 8 => {
                Some(Stream::Byte(Box::new(std::array::from_fn(|draw| uniform_from(p, dtype, draw as u64) as u8))))
            }
            (kind::INTEGERS, DType::I32) if p.flags & flag::SIGNED == 0 && p.period <= 1 && (1..=MOST_INTEGERS).contains(&p.int_count) => {
                Some(Stream::I32)
            }
            (kind::CONSTANT, _) => {
                let mut line = [0; 64];
                (0..512 / dtype.bits()).for_each(|i| dtype.store_bits(&mut line, i, element(p, dtype, 0)));
                Some(Stream::Constant(line))
            }
            _ => None,
        }
    }

    /// Fills from block `first`, a multiple of 32, on, and returns how many bytes: whole turns only. `past_caches`
    /// is for data larger than the caches. `repair` is given the byte of each element that must be computed singly.
    ///
    /// The blocks of one call agree in the upper half of their numbers.
    pub(super) fn fill(
        &self,
        p: &FillParams,
        first: u64,
        out: &mut [u8],
        past_caches: bool,
        repair: impl FnMut(usize, &mut [u8]),
    ) -> usize {
        let whole = out.len() / TURN * TURN;
        let out = &mut out[..whole];
        // SAFETY: `new` gives a `Stream` only for a set with VBMI, which has these features.
        unsafe {
            if past_caches && (out.as_ptr() as usize).is_multiple_of(64) {
                self.fill_with::<true>(p, first, out, repair);
            } else {
                self.fill_with::<false>(p, first, out, repair);
            }
        }
        whole
    }

    #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx512vbmi,fma")]
    fn fill_with<const PAST: bool>(&self, p: &FillParams, first: u64, out: &mut [u8], repair: impl FnMut(usize, &mut [u8])) {
        match self {
            Stream::F64(PLAIN) => f64s::<PAST, PLAIN>(p, first, out),
            Stream::F64(CLAMPED) => f64s::<PAST, CLAMPED>(p, first, out),
            Stream::F64(_) => f64s::<PAST, SIGNED>(p, first, out),
            Stream::F32(PLAIN) => f32s::<PAST, PLAIN>(p, first, out),
            Stream::F32(CLAMPED) => f32s::<PAST, CLAMPED>(p, first, out),
            Stream::F32(_) => f32s::<PAST, SIGNED>(p, first, out),
            Stream::F16(PLAIN) => f16s::<PAST, PLAIN>(p, first, out),
            Stream::F16(CLAMPED) => f16s::<PAST, CLAMPED>(p, first, out),
            Stream::F16(_) => f16s::<PAST, SIGNED>(p, first, out),
            Stream::Bf16(PLAIN) => bf16s::<PAST, PLAIN>(p, first, out),
            Stream::Bf16(CLAMPED) => bf16s::<PAST, CLAMPED>(p, first, out),
            Stream::Bf16(_) => bf16s::<PAST, SIGNED>(p, first, out),
            Stream::Byte(table) => bytes::<PAST>(p, first, out, table),
            Stream::I32 => i32s::<PAST>(p, first, out, repair),
            Stream::Constant(line) => repeat::<PAST>(line, out),
        }
    }
}

/// The cheapest form that gives the numbers of the definition. They rise with the draw, so the first and the last one tell
/// whether any is clamped.
fn form(p: &FillParams, dtype: DType) -> Form {
    if p.flags & flag::SIGNED != 0 {
        return SIGNED;
    }
    let inside = if dtype == DType::F64 {
        let half = 1.0 / (1u64 << 53) as f64;
        half.mul_add(p.b, p.a) >= p.low && (1.0 - half).mul_add(p.b, p.a) <= p.high
    } else {
        let half: f32 = if dtype == DType::F32 { 1.0 / 16_777_216.0 } else { 1.0 / 131_072.0 };
        let (a, b) = (p.a as f32, p.b as f32);
        half.mul_add(b, a) >= p.low as f32 && (1.0 - half).mul_add(b, a) <= p.high as f32
    };
    if inside { PLAIN } else { CLAMPED }
}

/// The words of blocks `first`, a multiple of 32, and following; whole turns.
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx512vbmi,fma")]
pub(super) fn words(p: &FillParams, purpose: u32, first: u64, out: &mut [u32]) {
    stream::<false>(p, purpose, first, bytemuck::cast_slice_mut(out), |words| words);
}

/// Philox, `map` and the stores: `out` is whole turns, aligned to a cache line if they go `PAST` the caches.
///
/// A vector holds 8 blocks as two halves of 64 bits a block, (word 1, word 0) and (word 3, word 2) with the first in the low
/// half. A round multiplies word 0 and word 2; of each product the low half is the new word 1 or 3, and the high half with the
/// old word 1 or 3 and the key makes the new word 0 or 2: one exchange of halves, one multiplication and one masked logic
/// instruction for each half block. In the first two rounds most of that is the same for all blocks, whose numbers differ
/// in the lower half only.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx512vbmi,fma")]
fn stream<const PAST: bool>(p: &FillParams, purpose: u32, first: u64, out: &mut [u8], mut map: impl FnMut(__m512i) -> __m512i) {
    const EXCHANGE: i32 = 0b10_11_00_01;
    const UPPER: __mmask16 = 0xaaaa;
    const XOR: i32 = 0x96;
    let keys = |half: usize, w: u32| -> [__m512i; 10] {
        array(|round| _mm512_set1_epi32(p.key[half].wrapping_add(w.wrapping_mul(round as u32)) as i32))
    };
    let key = |half: usize, w: u32, round: u32| p.key[half].wrapping_add(w.wrapping_mul(round));
    let (k0, k1) = (keys(0, W0), keys(1, W1));
    let upper = |x: u32| u64::from(x) << 32;
    let splat = |x: u64| _mm512_set1_epi64(x as i64);
    let (m0, m1) = (splat(M0), splat(M1));
    // Round 1: the product of word 2, the stream, and hence words 0 and 1. Round 2: that of word 0.
    let product = M1 * u64::from(p.stream);
    let word_0 = (product >> 32) as u32 ^ (first >> 32) as u32 ^ key(0, W0, 0);
    let round_1 = splat(upper(purpose ^ key(1, W1, 0)));
    let round_2 = (splat(upper(product as u32 ^ key(0, W0, 1))), splat((M0 * u64::from(word_0)) ^ upper(key(1, W1, 1))));
    let upper_half = splat(upper(u32::MAX));
    let low_blocks = _mm512_setr_epi32(1, 0, 17, 16, 3, 2, 19, 18, 5, 4, 21, 20, 7, 6, 23, 22);
    let high_blocks = _mm512_setr_epi32(9, 8, 25, 24, 11, 10, 27, 26, 13, 12, 29, 28, 15, 14, 31, 30);
    let mut block = _mm512_add_epi64(splat(first & 0xffff_ffff), _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7));
    for turn in out.as_chunks_mut::<TURN>().0 {
        let mut a = [_mm512_setzero_si512(); 4];
        let mut b = a;
        for i in 0..4 {
            let exchanged = _mm512_shuffle_epi32::<EXCHANGE>(_mm512_xor_si512(_mm512_mul_epu32(block, m0), round_1));
            block = _mm512_add_epi64(block, splat(8));
            a[i] = _mm512_xor_si512(_mm512_mul_epu32(exchanged, m1), round_2.0);
            // round_2.1 ^ (exchanged & upper_half)
            b[i] = _mm512_ternarylogic_epi32::<0x78>(round_2.1, exchanged, upper_half);
        }
        for round in 2..10 {
            for i in 0..4 {
                let (word_0, word_2) = (_mm512_shuffle_epi32::<EXCHANGE>(a[i]), _mm512_shuffle_epi32::<EXCHANGE>(b[i]));
                a[i] = _mm512_mask_ternarylogic_epi32::<XOR>(_mm512_mul_epu32(word_2, m1), UPPER, word_0, k0[round]);
                b[i] = _mm512_mask_ternarylogic_epi32::<XOR>(_mm512_mul_epu32(word_0, m0), UPPER, word_2, k1[round]);
            }
            in_registers(&mut a, &mut b);
        }
        let lines = turn.as_chunks_mut::<64>().0;
        for i in 0..4 {
            let low = map(_mm512_permutex2var_epi32(a[i], low_blocks, b[i]));
            let high = map(_mm512_permutex2var_epi32(a[i], high_blocks, b[i]));
            store::<PAST>(&mut lines[2 * i], low);
            store::<PAST>(&mut lines[2 * i + 1], high);
        }
    }
    if PAST {
        // Other threads see what was written, as after any store.
        _mm_sfence();
    }
}

/// Vectors that the compiler has to compute before what follows, and knows nothing of. Left alone it computes one vector after the
/// other, whose multiplications then wait for each other, and turns the exchange into a slower permutation.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx512vbmi,fma")]
fn in_registers([a0, a1, a2, a3]: &mut [__m512i; 4], [b0, b1, b2, b3]: &mut [__m512i; 4]) {
    // SAFETY: no instruction.
    unsafe {
        asm!(
            "/* {} {} {} {} {} {} {} {} */",
            inout(zmm_reg) * a0,
            inout(zmm_reg) * a1,
            inout(zmm_reg) * a2,
            inout(zmm_reg) * a3,
            inout(zmm_reg) * b0,
            inout(zmm_reg) * b1,
            inout(zmm_reg) * b2,
            inout(zmm_reg) * b3,
            options(nomem, nostack, preserves_flags)
        );
    }
}

/// Writes 64 bytes, aligned to a cache line if they go `PAST` the caches.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx512vbmi,fma")]
fn store<const PAST: bool>(target: &mut [u8; 64], vector: __m512i) {
    if PAST {
        // SAFETY: 64 exclusive bytes; `Stream::fill` chooses this only for aligned ones.
        unsafe { _mm512_stream_si512(target.as_mut_ptr().cast(), vector) };
    } else {
        *target = bytemuck::cast(vector);
    }
}

#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx512vbmi,fma")]
fn repeat<const PAST: bool>(line: &[u8; 64], out: &mut [u8]) {
    let line = bytemuck::cast(*line);
    out.as_chunks_mut::<64>().0.iter_mut().for_each(|target| store::<PAST>(target, line));
    if PAST {
        _mm_sfence();
    }
}

#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx512vbmi,fma")]
fn f64s<const PAST: bool, const FORM: Form>(p: &FillParams, first: u64, out: &mut [u8]) {
    let (a, b, low, high) = (_mm512_set1_pd(p.a), _mm512_set1_pd(p.b), _mm512_set1_pd(p.low), _mm512_set1_pd(p.high));
    let (kept, middle) = (_mm512_set1_epi64(!0xfff), _mm512_set1_epi64(0x800));
    let scale = _mm512_set1_pd(1.0 / (1u64 << 32) as f64 / (1u64 << 32) as f64);
    stream::<PAST>(p, 0, first, out, |word| {
        // (word & kept) | middle has 53 bits: it is a double.
        let k = _mm512_cvtepu64_pd(_mm512_ternarylogic_epi64::<0xea>(word, kept, middle));
        let x = _mm512_fmadd_pd(_mm512_mul_pd(k, scale), b, a);
        // The operand that comes second wins among equals, as in `clamp64`.
        let x = if FORM == PLAIN { x } else { _mm512_min_pd(high, _mm512_max_pd(low, x)) };
        let x = _mm512_castpd_si512(x);
        if FORM == SIGNED { _mm512_xor_si512(x, _mm512_slli_epi64::<63>(word)) } else { x }
    });
}

#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx512vbmi,fma")]
fn f32s<const PAST: bool, const FORM: Form>(p: &FillParams, first: u64, out: &mut [u8]) {
    let uniform = Uniform32::new(p);
    let (kept, middle) = (_mm512_set1_epi32(!0x1ff), _mm512_set1_epi32(0x100));
    let scale = _mm512_set1_ps(1.0 / (1u64 << 32) as f32);
    stream::<PAST>(p, 0, first, out, |word| {
        // (word & kept) | middle has 24 bits: it is a float.
        let k = _mm512_cvtepu32_ps(_mm512_ternarylogic_epi32::<0xea>(word, kept, middle));
        uniform.number::<FORM>(_mm512_mul_ps(k, scale), word)
    });
}

/// A range in f32.
struct Uniform32 {
    a: __m512,
    b: __m512,
    low: __m512,
    high: __m512,
}

impl Uniform32 {
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx512vbmi,fma")]
    fn new(p: &FillParams) -> Uniform32 {
        let splat = |x: f64| _mm512_set1_ps(x as f32);
        Uniform32 { a: splat(p.a), b: splat(p.b), low: splat(p.low), high: splat(p.high) }
    }

    /// The number for `u`, as bits; the lowest bit of `word` is its sign if it has one.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx512vbmi,fma")]
    fn number<const FORM: Form>(&self, u: __m512, word: __m512i) -> __m512i {
        let x = _mm512_fmadd_ps(u, self.b, self.a);
        // The operand that comes second wins among equals, as in `clamp32`.
        let x = if FORM == PLAIN { x } else { _mm512_min_ps(self.high, _mm512_max_ps(self.low, x)) };
        let x = _mm512_castps_si512(x);
        if FORM == SIGNED { _mm512_xor_si512(x, _mm512_slli_epi32::<31>(word)) } else { x }
    }

    /// The number for a draw of 16 bits.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx512vbmi,fma")]
    fn number_of_16<const FORM: Form>(&self, draw: __m512i) -> __m512i {
        let scale = _mm512_set1_ps(1.0 / 65_536.0);
        let u = if FORM == SIGNED {
            _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_or_si512(draw, _mm512_set1_epi32(1))), scale)
        } else {
            // (2 draw + 1) / 2^17, exactly.
            _mm512_fmadd_ps(_mm512_cvtepi32_ps(draw), scale, _mm512_set1_ps(1.0 / 131_072.0))
        };
        self.number::<FORM>(u, draw)
    }
}

#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx512vbmi,fma")]
fn f16s<const PAST: bool, const FORM: Form>(p: &FillParams, first: u64, out: &mut [u8]) {
    let uniform = Uniform32::new(p);
    stream::<PAST>(p, 0, first, out, |words| {
        let low = uniform.number_of_16::<FORM>(_mm512_cvtepu16_epi32(_mm512_castsi512_si256(words)));
        let high = uniform.number_of_16::<FORM>(_mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64::<1>(words)));
        let half = |x| _mm512_cvtps_ph::<{ _MM_FROUND_TO_NEAREST_INT }>(_mm512_castsi512_ps(x));
        _mm512_inserti64x4::<1>(_mm512_castsi256_si512(half(low)), half(high))
    });
}

#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx512vbmi,fma")]
fn bf16s<const PAST: bool, const FORM: Form>(p: &FillParams, first: u64, out: &mut [u8]) {
    let uniform = Uniform32::new(p);
    let low_half = _mm512_set1_epi32(0xffff);
    // To nearest even in the upper half; all numbers are finite. (The processor's instruction flushes subnormals.)
    let rounded = |x: __m512i| {
        let sum = _mm512_add_epi32(x, _mm512_set1_epi32(0x7fff));
        _mm512_mask_add_epi32(sum, _mm512_test_epi32_mask(x, _mm512_set1_epi32(0x10000)), sum, _mm512_set1_epi32(1))
    };
    stream::<PAST>(p, 0, first, out, |words| {
        let even = rounded(uniform.number_of_16::<FORM>(_mm512_and_si512(words, low_half)));
        let odd = rounded(uniform.number_of_16::<FORM>(_mm512_srli_epi32::<16>(words)));
        // low_half ? even >> 16 : odd
        _mm512_ternarylogic_epi32::<0xca>(low_half, _mm512_srli_epi32::<16>(even), odd)
    });
}

#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx512vbmi,fma")]
fn bytes<const PAST: bool>(p: &FillParams, first: u64, out: &mut [u8], table: &[u8; 256]) {
    let [t0, t1, t2, t3]: [__m512i; 4] = bytemuck::cast(*table);
    stream::<PAST>(p, 0, first, out, |draws| {
        let below_128 = _mm512_permutex2var_epi8(t0, draws, t1);
        let others = _mm512_permutex2var_epi8(t2, draws, t3);
        _mm512_mask_blend_epi8(_mm512_movepi8_mask(draws), below_128, others)
    });
}

/// Integers: the upper half of draw times count, plus the least. Where the lower half is below the count the draw may be one
/// too many, and the element is left to `repair`.
#[target_feature(enable = "avx512f,avx512dq,avx512bw,avx512vl,avx512vbmi,fma")]
fn i32s<const PAST: bool>(p: &FillParams, first: u64, out: &mut [u8], mut repair: impl FnMut(usize, &mut [u8])) {
    const ODD: __mmask16 = 0xaaaa;
    // Vectors whose doubtful lanes are noted before they are repaired.
    const PART: usize = 8 * TURN;
    let count = _mm512_set1_epi32(p.int_count as u32 as i32);
    let least = _mm512_set1_epi32(p.int_low as i32);
    for (part, out) in out.chunks_mut(PART).enumerate() {
        let mut doubtful = [0u16; PART / 64];
        let mut vector = 0;
        stream::<PAST>(p, 0, first + (part * PART / 16) as u64, out, |word| {
            let even = _mm512_mul_epu32(word, count);
            let odd = _mm512_mul_epu32(_mm512_srli_epi64::<32>(word), count);
            let value = _mm512_mask_mov_epi32(_mm512_srli_epi64::<32>(even), ODD, odd);
            let rest = _mm512_mask_mov_epi32(even, ODD, _mm512_slli_epi64::<32>(odd));
            doubtful[vector] = _mm512_cmplt_epu32_mask(rest, count);
            vector += 1;
            _mm512_add_epi32(value, least)
        });
        for (vector, mut lanes) in doubtful.into_iter().enumerate() {
            while lanes != 0 {
                let byte = vector * 64 + 4 * lanes.trailing_zeros() as usize;
                repair(part * PART + byte, &mut out[byte..byte + 4]);
                lanes &= lanes - 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Layout;
    use crate::fill::params::kernel_params;

    /// Which draws pass an end: of f32 only the first or the last of 2^24, too few for data to tell.
    #[test]
    fn numbers_are_clamped_where_a_draw_passes_an_end() {
        use DType::*;
        for (text, dtype, expected, reason) in [
            ("uniform:0,1", F32, PLAIN, "both ends are numbers"),
            ("uniform:2.6,3.51", F32, CLAMPED, "the first draw is below 2.6"),
            ("uniform:2.9,2.982", F32, CLAMPED, "the last draw is above 2.982"),
            ("uniform:2.3,2.99", F32, CLAMPED, "both are"),
            ("bounce:1,3", F32, SIGNED, "there are two ranges"),
            ("uniform:0,1", F16, PLAIN, "both ends are numbers"),
            ("uniform:1.1,4", F16, CLAMPED, "the least number of the format is above 1.1"),
            ("uniform:1,3.9", F16, CLAMPED, "the largest number of the format is below 3.9"),
            ("uniform:0,1", Bf16, PLAIN, "both ends are numbers"),
            ("uniform:0,1", F64, PLAIN, "both ends are numbers"),
            ("uniform:2.9,2.982", F64, PLAIN, "f64 rounds to its own ends"),
            ("uniform:-0.9,3.8", F64, PLAIN, "the end would be passed by u = 1 only"),
            ("bounce:1,3", F64, SIGNED, "there are two ranges"),
        ] {
            let p = kernel_params(&text.parse().unwrap(), dtype, &Layout::flat(1)).unwrap();
            assert_eq!(form(&p, dtype), expected, "{text} {dtype}: {reason}");
        }
    }
}
