// The definition of every generator, element by element: the same as `src/fill/element.rs`, and the parameters of
// `src/fill/params.rs`.
#pragma once
#include "any.h"
#include "fill_math.h"
#include "philox.h"

enum : u32 { DATA = 0, FOR_SPECIAL = 1u << 24, FOR_SPARSE = 2u << 24, LAST_ATTEMPT = (1u << 24) - 1 };

// The block of data that was computed last: neighbours often share it.
struct Source {
    Words words;
    u64 index;
    bool valid;
};

__device__ inline Words block_of(const FillParams &p, u64 index, u32 purpose) {
    return philox(index, p.stream, purpose, p.key[0], p.key[1]);
}

__device__ inline const Words &data_block(const FillParams &p, u64 index, Source &source) {
    if (!source.valid || source.index != index) {
        source.words = block_of(p, index, DATA);
        source.index = index;
        source.valid = true;
    }
    return source.words;
}

// 64 of a block's bits; selected, not indexed, so that the block stays in registers.
__device__ inline u64 half_of(const Words &w, bool upper) {
    const u32 low = upper ? w.w[2] : w.w[0], high = upper ? w.w[3] : w.w[1];
    return (u64)high << 32 | low;
}

__device__ inline u64 bits_from(const Words &w, u64 index, u32 width) {
    const u32 bit = (u32)(index % (128 / width)) * width;
    return half_of(w, bit >= 64) >> (bit % 64) & (~0ull >> (64 - width));
}

__device__ inline u64 draw(const FillParams &p, u64 index, u32 width, Source &source) {
    return bits_from(data_block(p, index / (128 / width), source), index, width);
}

__device__ inline bool is_wide(u32 dtype) { return dtype == F64 || (format_at(dtype).specials == INTEGER && format_at(dtype).bits >= 32); }

// Never called with a NaN, or with zeros of different signs, for which the comparisons in Rust would keep x.
__device__ inline float clamped(float x, float low, float high) { return fminf(fmaxf(x, low), high); }

__device__ inline double clamped(double x, double low, double high) {
    x = x < low ? low : x;
    return x > high ? high : x;
}

// A uniform float of `width` random bits in f32 arithmetic. Integers become floats by way of the fraction field of a number in
// [1, 2): conversion instructions are slow, and these subtractions are exact.
__device__ inline float uniform32(u32 word, u32 width, u32 is_signed, float a, float b, float low, float high) {
    float u;
    if (width == 32) u = f32_of(0x3f800000u | word >> 9) - (1.0f - 1.0f / 16777216.0f);
    else if (width == 16) u = is_signed ? f32_of(0x3f800000u | (word | 1) << 7) - 1.0f : f32_of(0x3f800000u | word << 7) - (1.0f - 1.0f / 131072.0f);
    else u = is_signed ? f32_of(0x3f800000u | (word | 1) << 15) - 1.0f : f32_of(0x3f800000u | word << 15) - (1.0f - 1.0f / 512.0f);
    const float x = clamped(fmaf(u, b, a), low, high);
    return f32_of(bits_of(x) ^ (word & is_signed) << 31);
}

__device__ inline double uniform64(u64 word, u32 is_signed, double a, double b, double low, double high) {
    const double u = f64_of(0x3ff0000000000000ull | word >> 12) - (1.0 - 1.0 / 9007199254740992.0);
    const double x = clamped(fma(u, b, a), low, high);
    return f64_of(bits_of(x) ^ (word & is_signed) << 63);
}

__device__ inline u64 below(const FillParams &p, u64 index, Source &source) {
    const u64 count = p.int_count;
    const bool narrow = count != 0 && count <= 0xffffffffull;
    u64 word = draw(p, index, narrow ? 32 : 64, source);
    if (count == 0) return word;
    for (u32 attempt = 1; attempt <= LAST_ATTEMPT; attempt++) {
        u64 value, rest;
        if (narrow) {
            const u64 product = (word & 0xffffffffull) * count;
            value = product >> 32;
            rest = product & 0xffffffffull;
        } else {
            value = __umul64hi(word, count);
            rest = word * count;
        }
        // The division is only for the few words that may be rejected.
        if (rest >= count) return value;
        if (rest >= (narrow ? (1ull << 32) % count : (0 - count) % count)) return value;
        word = half_of(block_of(p, index, DATA | attempt), false);
    }
    return 0;
}

__device__ inline u64 coordinate_sum(const FillParams &p, u64 index) {
    u64 sum = 0;
    for (u32 d = p.rank; d-- > 0;) {
        sum += index % p.shape[d];
        index /= p.shape[d];
    }
    return sum;
}

__device__ inline u64 coordinate(const FillParams &p, u64 index, u32 dim) {
    for (u32 d = p.rank; --d > dim;) index /= p.shape[d];
    return index % p.shape[dim];
}

// The whole number that a draw stands for.
__device__ inline u64 integer(const FillParams &p, u64 drawn) {
    const u64 half = p.int_count / 2;
    const bool upper = (p.flags & SIGNED) && drawn >= half;
    const u64 magnitude = (u64)p.int_low + (upper ? drawn - half : drawn);
    return upper ? 0 - magnitude : magnitude;
}

__device__ inline double normal(const FillParams &p, u64 index, Source &source) {
    if (is_wide(p.dtype)) {
        const Words &w = data_block(p, index / 2, source);
        const double u = (double)(i64)(half_of(w, false) >> 11 | 1) * (1.0 / 9007199254740992.0);
        const double radius = sqrt(-2.0 * ln64(u));
        const SinCos64 angle = sin_cos64(half_of(w, true));
        const double z = radius * (index % 2 == 0 ? angle.cos : angle.sin);
        return clamped(fma(z, p.b, p.a), p.low, p.high);
    }
    const u64 pair = half_of(data_block(p, index / 4, source), (index & 2) != 0);
    const float u = fmaf((float)(u32)pair, 1.0f / 4294967296.0f, 1.0f / 8589934592.0f);
    const float radius = sqrt32(-2.0f * ln32(u));
    const SinCos32 angle = sin_cos32((u32)(pair >> 32));
    const float z = radius * (index % 2 == 0 ? angle.cos : angle.sin);
    return (double)clamped(fmaf(z, (float)p.b, (float)p.a), (float)p.low, (float)p.high);
}

__device__ inline double fixed(const FillParams &p, u64 index) {
    switch (p.kind) {
    case CONSTANT: return p.a;
    case SEQUENTIAL: return (double)coordinate(p, index, p.dim);
    case DIAGONAL: return coordinate(p, index, p.rank - 1) == coordinate(p, index, p.rank - 2) ? p.a : 0.0;
    case CHECKERBOARD: return coordinate_sum(p, index) % 2 == 0 ? p.a : -p.a;
    case MONOTONIC: return fma((double)index, p.b, p.a);
    default: {
        const SinCos64 angle = sin_cos64(radians_to_turn(index));
        return p.kind == SIN ? angle.sin : angle.cos;
    }
    }
}

__device__ inline u64 special(u32 flags, Format f, u32 word) {
    const u32 zeros = (flags & HAS_ZERO) != 0, infinities = (flags & HAS_INFINITE) != 0, nans = (flags & HAS_NAN) != 0;
    const u32 choice = ((word & 0xffffu) * (zeros + infinities + nans)) >> 16;
    const u64 payload = word >> 17;
    const u32 width = f.exponent_bits + f.mantissa_bits;
    const u64 sign = (u64)(word >> 16 & 1) << width;
    const u64 infinity = ((1ull << f.exponent_bits) - 1) << f.mantissa_bits;
    u64 bits;
    if (zeros && choice == 0) bits = f.specials == NEGATIVE_ZERO_NAN ? 0 : sign;
    else if (infinities && choice == zeros) bits = sign | infinity;
    else if (f.specials == NEGATIVE_ZERO_NAN) bits = 1ull << width;
    else if (f.specials == SINGLE_NAN) bits = sign | ((1ull << width) - 1);
    else if (f.specials == E8M0) bits = (1ull << width) - 1;
    else if (f.mantissa_bits > 15) bits = sign | infinity | payload << (f.mantissa_bits - 15) | 1;
    else bits = sign | infinity | (1 + (payload * ((1ull << f.mantissa_bits) - 1) >> 15));
    return bits << f.pad_bits;
}

// The bits of an element that is neither of CRAND nor a special or sparse one. The long parts are in the code once: drawing an outcome, and encoding.
__device__ inline u64 plain_element(const FillParams &p, Format f, u64 index, Source &source) {
    double x;
    switch (p.kind) {
    case UNIFORM: {
        const u32 width = f.bits < 8 ? 8 : f.bits;
        const u64 word = draw(p, index, width, source);
        if (p.dtype == F64) return bits_of(uniform64(word, p.flags & SIGNED, p.a, p.b, p.low, p.high));
        x = (double)uniform32((u32)word, width, p.flags & SIGNED, (float)p.a, (float)p.b, (float)p.low, (float)p.high);
        break;
    }
    case INTEGERS:
    case SUBNORMAL: {
        const bool whole = p.kind == INTEGERS;
        if (whole && p.period > 1 && coordinate_sum(p, index) % p.period != 0) return 0;
        const u64 drawn = below(p, index, source);
        if (!whole) return ((drawn >> 1) + 1 | (drawn & 1) << (f.exponent_bits + f.mantissa_bits)) << f.pad_bits;
        const u64 value = integer(p, drawn);
        if (f.specials == INTEGER) return value & (~0ull >> (64 - f.bits));
        x = (double)(i64)value;
        break;
    }
    case NORMAL: x = normal(p, index, source); break;
    default: x = fixed(p, index);
    }
    // An infinity that the caller requested stays infinite.
    return encode_any(f, x, false, p.kind != CONSTANT && p.kind != DIAGONAL && p.kind != CHECKERBOARD);
}

// Whether a special value or sparsity replaces the element, and by what.
__device__ inline bool overlaid(const FillParams &p, Format f, u64 index, u64 &bits) {
    if (p.flags & SPARSE) {
        const u64 group = index / 4;
        const u64 word = bits_from(block_of(p, group / 4, FOR_SPARSE), group, 32);
        // The six pairs of four, four bits each.
        const u32 kept = 0xca9653u >> (4 * (u32)(word * 6 >> 32)) & 15;
        if (!(kept >> (index % 4) & 1)) {
            bits = 0;
            return true;
        }
    }
    if (p.special_below > 0) {
        const u64 word = bits_from(block_of(p, index / 2, FOR_SPECIAL), index, 64);
        if ((word & 0xffffffffull) < p.special_below) {
            bits = special(p.flags, f, (u32)(word >> 32));
            return true;
        }
    }
    return false;
}

// The memory index of an element.
__device__ inline u64 place_of(const FillParams &p, u64 index) {
    return (u64)any_place(index, p.flags & CONTIGUOUS ? 0 : p.rank, (i64)p.offset, p.shape, p.strides);
}

// Writes one element. In passes over EVEN and ODD indices no other thread writes to a packed element's byte.
__device__ inline void store(u8 *target, u32 width, u64 at, u64 bits) {
    switch (width) {
    case 64: ((u64 *)target)[at] = bits; break;
    case 32: ((u32 *)target)[at] = (u32)bits; break;
    case 16: ((u16 *)target)[at] = (u16)bits; break;
    case 8: target[at] = (u8)bits; break;
    default: {
        const u32 shift = 4 * (u32)(at & 1);
        target[at / 2] = (u8)((target[at / 2] & ~(0xfu << shift)) | (u32)bits << shift);
    }
    }
}
