// Whole and normal numbers, sixteen bytes at a time: the elements that take 32 bits of data each, so that one block of Philox makes four of them. The
// definition is `integer`, `normal` and `plain_element` in fill_element.h; here its branches are taken outside the loop.
//
//   for each sixteen bytes:
//       for each of the 1, 2, 4 or 8 blocks of Philox in them:
//           four numbers, encoded and packed
//
// Preconditions, which `Launch::of` in `src/kernels/fill.rs` keeps: contiguous, no special values or sparsity, no period, at most 2^32 - 1 outcomes of a draw, and
// normal numbers that are computed in f32.
#pragma once
#include "fill_element.h"

// Formats that are known at run time only: F32 or TF32, a float of at most 8 bits, an integer.
enum : u32 { FLOAT_32 = 100, SMALL_FLOAT = 101, ANY_INTEGER = 102 };

// The parameters that a loop over blocks needs, in registers.
struct Drawn {
    Format format;
    u32 count, rejected; // a draw whose lower half is below `rejected` is drawn again
    u32 half, low;
    bool subnormal;
    float a, b, least, most;
};

__device__ inline Drawn drawn_of(const FillParams &p) {
    const u32 count = (u32)p.int_count;
    Drawn d;
    d.format = format_at(p.dtype);
    d.count = count;
    d.rejected = count ? (0 - count) % count : 0;
    d.half = p.flags & SIGNED ? count / 2 : 0xffffffffu; // never reached without SIGNED: draws are below `count`
    d.low = (u32)p.int_low;
    d.subnormal = p.kind == SUBNORMAL;
    d.a = (float)p.a, d.b = (float)p.b, d.least = (float)p.low, d.most = (float)p.high;
    return d;
}

// Four elements.
struct Four {
    u32 e[4];
};

// Finite numbers within the format's range.
template <u32 DTYPE> __device__ inline u32 encode_drawn(const Format &f, float x) {
    if constexpr (DTYPE == FLOAT_32) return f.pad_bits ? encode_in_range<TF32>(x) : bits_of(x);
    else if constexpr (DTYPE == ANY_INTEGER) return (u32)(i32)rintf(x);
    else if constexpr (DTYPE == SMALL_FLOAT) return f.specials == E8M0 ? (u32)encode_any(f, (double)x, false, true) : encode_within(f, x);
    else return encode_in_range<DTYPE>(x);
}

// Two neighbours of a normal distribution from 64 bits.
template <u32 DTYPE> __device__ inline void normal_pair(const Drawn &d, u32 magnitude, u32 turn, u32 &first, u32 &second) {
    const float u = fmaf((float)magnitude, 1.0f / 4294967296.0f, 1.0f / 8589934592.0f);
    const float radius = sqrt32(-2.0f * ln32(u));
    const SinCos32 angle = sin_cos32(turn);
    first = encode_drawn<DTYPE>(d.format, clamped(fmaf(radius * angle.cos, d.b, d.a), d.least, d.most));
    second = encode_drawn<DTYPE>(d.format, clamped(fmaf(radius * angle.sin, d.b, d.a), d.least, d.most));
}

// The whole number that one of `count` outcomes stands for. It fits 32 bits in every format that is handled here, including floats, which hold every
// whole number up to at most 2^24.
template <u32 DTYPE> __device__ inline u32 whole_number(const Drawn &d, u32 drawn) {
    const u32 value = drawn >= d.half ? 0 - (d.low + (drawn - d.half)) : d.low + drawn;
    if constexpr (DTYPE == ANY_INTEGER) return value;
    else return encode_drawn<DTYPE>(d.format, (float)(i32)value);
}

__device__ inline u32 subnormal_number(const Format &f, u32 drawn) {
    return ((drawn >> 1) + 1 | (drawn & 1) << (f.exponent_bits + f.mantissa_bits)) << f.pad_bits;
}

// Replaces the draws that are rejected. One copy of the loop over attempts; elements are selected, not indexed, so that they stay in registers.
__device__ inline void draw_again(const FillParams &p, const Drawn &d, u64 block, Four &four) {
    // Computed again, since this is rare: keeping the words for it would cost registers.
    const Words w = block_of(p, block, DATA);
#pragma unroll 1
    for (u32 k = 0; k < 4; k++) {
        const u32 word = k < 2 ? (k == 0 ? w.w[0] : w.w[1]) : (k == 2 ? w.w[2] : w.w[3]);
        u64 product = (u64)word * d.count;
        for (u32 attempt = 1; (u32)product < d.rejected && attempt <= LAST_ATTEMPT; attempt++) {
            product = (u64)block_of(p, block * 4 + k, DATA | attempt).w[0] * d.count;
        }
        if ((u32)product < d.rejected) product = 0;
#pragma unroll
        for (u32 j = 0; j < 4; j++) four.e[j] = j == k ? (u32)(product >> 32) : four.e[j];
    }
}

template <u32 DTYPE, bool IS_NORMAL> __device__ inline Four four_of(const FillParams &p, const Drawn &d, u64 block) {
    const Words w = block_of(p, block, DATA);
    Four four;
    if constexpr (IS_NORMAL) {
        normal_pair<DTYPE>(d, w.w[0], w.w[1], four.e[0], four.e[1]);
        normal_pair<DTYPE>(d, w.w[2], w.w[3], four.e[2], four.e[3]);
    } else {
        bool again = false;
#pragma unroll
        for (u32 k = 0; k < 4; k++) {
            const u64 product = (u64)w.w[k] * d.count;
            four.e[k] = (u32)(product >> 32);
            again |= (u32)product < d.rejected;
        }
        if (__builtin_expect(again, 0)) draw_again(p, d, block, four);
        if (DTYPE != ANY_INTEGER && d.subnormal) {
#pragma unroll
            for (u32 k = 0; k < 4; k++) four.e[k] = subnormal_number(d.format, four.e[k]);
        } else {
#pragma unroll
            for (u32 k = 0; k < 4; k++) four.e[k] = whole_number<DTYPE>(d, four.e[k]);
        }
    }
    return four;
}

// Sixteen bytes of numbers of BITS bits: vector number `vector`.
template <u32 BITS, u32 DTYPE, bool IS_NORMAL> __device__ inline uint4 drawn_vector(const FillParams &p, const Drawn &d, u64 vector) {
    if constexpr (BITS == 32) {
        const Four x = four_of<DTYPE, IS_NORMAL>(p, d, vector);
        return make_uint4(x.e[0], x.e[1], x.e[2], x.e[3]);
    } else {
        constexpr u32 mask = (1u << BITS) - 1, blocks = 32 / BITS;
        u64 low = 0, high = 0;
        // The four elements of a block are shifted in from above: after the last block, those of the first one are at the low end.
#pragma unroll 1
        for (u32 block = 0; block < blocks; block++) {
            const Four x = four_of<DTYPE, IS_NORMAL>(p, d, vector * blocks + block);
            u64 four = 0;
#pragma unroll
            for (u32 k = 0; k < 4; k++) four |= (u64)(x.e[k] & mask) << (k * BITS);
            low = (BITS == 16 ? 0 : low >> (4 * BITS % 64)) | high << (64 - 4 * BITS);
            if constexpr (BITS == 16) high = four;
            else high = high >> (4 * BITS % 64) | four << (64 - 4 * BITS);
        }
        return make_uint4((u32)low, (u32)(low >> 32), (u32)high, (u32)(high >> 32));
    }
}
