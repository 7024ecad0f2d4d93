// From words of memory to numbers, E elements at a time, by the width of their format; formats of one width are told apart by branches that all threads take
// together. Finite values are exact. Formats of more than 8 bits give NaN and infinities as such; in shorter floats `special` finds them in the words.
#pragma once
#include "formats.h"

// Widths of kernels: 8 holds all formats up to 8 bits, ANY every width. FIXED + a format is that format alone.
constexpr u32 ANY = 0, FIXED = 128;

__host__ __device__ constexpr bool is_fixed(u32 width) { return width >= FIXED; }
__host__ __device__ constexpr u32 width_of(u32 width) {
    if (!is_fixed(width)) return width;
    const u32 bits = format_of(width - FIXED).bits;
    return bits < 8 ? 8 : bits;
}

// Every float of 8 bits and fewer: the fields are moved to their places in an f32 (the shift to the right copies the sign, and the mask clears the copies), and
// one exact product corrects the bias, of subnormals too.
struct SmallFloat {
    u32 left, right, mask;
    float scale;
    __device__ explicit SmallFloat(Format f) {
        const u32 magnitude = f.exponent_bits + f.mantissa_bits;
        left = 7 - magnitude, right = 8 - f.exponent_bits;
        mask = 0x80000000u | ((1u << magnitude) - 1) << (23 - f.mantissa_bits);
        scale = exp2_f32(127 - f.bias);
    }
    __device__ float decode(u32 word, u32 byte) const { return f32_of((u32)((i32)(word << (24 - 8 * byte + left)) >> right) & mask) * scale; }
};

// Finds the bytes of a word that are no finite numbers of their format: their magnitudes carry into the top bit.
struct Special {
    u32 flip, add, keep;
    __device__ explicit Special(Format f) {
        const bool zero = f.specials == NEGATIVE_ZERO_NAN, whole = f.specials == E8M0;
        const bool none = f.bits < 8 || f.specials == FINITE || f.specials == INTEGER;
        const u32 first = f.specials == IEEE ? ((1u << f.exponent_bits) - 1) << f.mantissa_bits : 0x7f;
        flip = zero ? 0x7f7f7f7fu : 0, keep = zero || whole ? 0 : ~0u;
        add = none ? 0 : (0x80 - first) * 0x01010101u;
    }
    __device__ u32 find(u32 word) const { return (((word ^ flip) & 0x7f7f7f7fu) + add) & (word | keep) & 0x80808080u; }
};

// Four nibbles as four bytes.
__device__ inline u32 spread(u32 x) {
    x = (x | x << 8) & 0x00ff00ffu;
    return (x | x << 4) & 0x0f0f0f0fu;
}

// A byte of a word as a number.
__device__ inline float signed_byte(u32 word, u32 byte) {
#if defined(__CUDA_ARCH__)
    // It becomes the last of the fraction of 2^23, once 128 is added: conversions are slow there.
    return f32_of(__byte_perm(word ^ 0x80808080u, 0x4b000000u, 0x7650 + byte)) - 8388736.0f;
#else
    return (float)((i32)(word << (24 - 8 * byte)) >> 24);
#endif
}
__device__ inline float unsigned_byte(u32 word, u32 byte) {
#if defined(__CUDA_ARCH__)
    return f32_of(__byte_perm(word, 0x4b000000u, 0x7650 + byte)) - 8388608.0f;
#else
    return (float)(word >> (8 * byte) & 0xff);
#endif
}

struct Two { float x, y; };
// Whether this GPU has instructions for floats of 8 bits: OCP's from sm_89 on, those without infinities and negative zero on gfx940 to gfx942.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
constexpr u32 CONVERTED_E4M3 = F8E4M3, CONVERTED_E5M2 = F8E5M2;
template <u32 DTYPE> __device__ inline Two convert(u32 word, bool upper) {
    const u16 bytes = (u16)(upper ? word >> 16 : word);
    u32 halves;
    if (DTYPE == F8E4M3) asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(bytes));
    else asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(halves) : "h"(bytes));
    return {f16_to_f32(halves & 0xffff), f16_to_f32(halves >> 16)};
}
#elif defined(__AMDGCN__) && (defined(__gfx940__) || defined(__gfx941__) || defined(__gfx942__))
constexpr u32 CONVERTED_E4M3 = F8E4M3FNUZ, CONVERTED_E5M2 = F8E5M2FNUZ;
template <u32 DTYPE> __device__ inline Two convert(u32 word, bool upper) {
    // The half of the word is part of the instruction.
    const auto x = DTYPE == F8E4M3FNUZ ? (upper ? __builtin_amdgcn_cvt_pk_f32_fp8((int)word, true) : __builtin_amdgcn_cvt_pk_f32_fp8((int)word, false))
                                       : (upper ? __builtin_amdgcn_cvt_pk_f32_bf8((int)word, true) : __builtin_amdgcn_cvt_pk_f32_bf8((int)word, false));
    return {x[0], x[1]};
}
#else
// No format.
constexpr u32 CONVERTED_E4M3 = ~0u, CONVERTED_E5M2 = ~0u;
template <u32 DTYPE> __device__ inline Two convert(u32, bool) { return {0, 0}; }
#endif

// The format of an operand of a kernel for KIND, a width or a fixed format.
template <u32 KIND> struct Decoder {
    // ANY is 0; the bits of its formats lie between LEAST and MOST.
    static constexpr u32 WIDTH = width_of(KIND), LEAST = WIDTH > 8 ? WIDTH : 4, MOST = WIDTH ? WIDTH : 64;
    u32 dtype, bits;
    bool byte_float; // which `decode` gets wrong where it is not finite
    SmallFloat small;
    Special special_bytes;
    __device__ explicit Decoder(u32 run_time)
        : Decoder(is_fixed(KIND) ? KIND - FIXED : run_time, is_fixed(KIND) ? format_of(KIND - FIXED) : format_at(run_time)) {}
    __device__ Decoder(u32 dtype_, Format f) : dtype(dtype_), bits(LEAST == MOST ? MOST : f.bits), byte_float(f.bits == 8 && f.specials != INTEGER), small(byte_format(f)), special_bytes(byte_format(f)) {}
    // In place of a format of more than 8 bits, for which nothing reads `small` and `special_bytes`, U8: the fields of F64 do not fit their shifts.
    __device__ static Format byte_format(Format f) { return WIDTH == 8 || (WIDTH == ANY && f.bits <= 8) ? f : format_of(U8); }

    // Drops the first E elements: whole words, or with 4 bits the lower half of the only one.
    template <int E, int W> __device__ void skip(u32 (&w)[W]) const {
        const u32 by = E * bits;
        if (E * MOST >= 64 && by == 64)
#pragma unroll
            for (int i = 0; i + 2 < W; i++) w[i] = w[i + 2];
        else if (E * MOST >= 32 && by == 32)
#pragma unroll
            for (int i = 0; i + 1 < W; i++) w[i] = w[i + 1];
        else if (E * MOST >= 128 && by == 128)
#pragma unroll
            for (int i = 0; i + 4 < W; i++) w[i] = w[i + 4];
        else w[0] >>= by % 32;
    }

    // Whether one of E elements of a float of 8 bits is not finite.
    template <int E, int W> __device__ bool special(const u32 (&w)[W]) const {
        if (WIDTH > 8 || !byte_float) return false;
        u32 found = special_bytes.find(w[0]);
        if constexpr (E > 4) found |= special_bytes.find(w[1]);
        return found != 0;
    }

    // Whether element i, decoded as x, is finite.
    template <int W, typename N> __device__ bool finite(const u32 (&w)[W], N x, u32 i) const {
        if (byte_float) return !(special_bytes.find(i < 4 ? w[0] : w[1]) >> (i % 4 * 8) & 0x80);
        return x - x == 0;
    }

    template <int E, int W> __device__ void decode(const u32 (&w)[W], float (&x)[E]) const {
        if (WIDTH == 32 || (WIDTH == ANY && bits == 32)) {
            const u32 mask = dtype == TF32 ? ~0x1fffu : ~0u;
#pragma unroll
            for (int i = 0; i < E; i++) x[i] = f32_of(w[i % W] & mask);
        } else if (WIDTH == 16 || (WIDTH == ANY && bits == 16)) {
            if (dtype == F16)
#pragma unroll
                for (int i = 0; i < E; i++) x[i] = f16_to_f32(i % 2 ? w[i / 2] >> 16 : w[i / 2] & 0xffff);
            else if (dtype == BF16)
#pragma unroll
                for (int i = 0; i < E; i++) x[i] = f32_of(i % 2 ? w[i / 2] & 0xffff0000u : w[i / 2] << 16);
            else {
                // Extends the sign of I16; U16 has none.
                const u32 sign = dtype == I16 ? 0x8000u : 0;
#pragma unroll
                for (int i = 0; i < E; i++) x[i] = (float)(i32)(((i % 2 ? w[i / 2] >> 16 : w[i / 2] & 0xffff) ^ sign) - sign);
            }
        } else bytes<E>(w, x);
    }
    template <int E, int W> __device__ void bytes(const u32 (&word)[W], float (&x)[E]) const {
        u32 w[2] = {word[0], W > 1 ? word[1] : 0};
        if (bits == 4) {
            w[1] = spread(w[0] >> 16);
            w[0] = spread(w[0] & 0xffff);
            if (dtype == I4) w[0] = signs(w[0]), w[1] = signs(w[1]);
        }
        if (dtype == BOOL) w[0] = truths(w[0]), w[1] = truths(w[1]);
        if (dtype == I8 || dtype == I4)
#pragma unroll
            for (int i = 0; i < E; i++) x[i] = signed_byte(w[i / 4], i % 4);
        else if (dtype == U8 || dtype == BOOL)
#pragma unroll
            for (int i = 0; i < E; i++) x[i] = unsigned_byte(w[i / 4], i % 4);
        else if (dtype == F8E8M0)
#pragma unroll
            for (int i = 0; i < E; i++) x[i] = decode_to_f32<F8E8M0>(w[i / 4] >> (i % 4 * 8) & 0xff);
        else if (dtype == CONVERTED_E4M3) converted<CONVERTED_E4M3>(w, x);
        else if (dtype == CONVERTED_E5M2) converted<CONVERTED_E5M2>(w, x);
        else
#pragma unroll
            for (int i = 0; i < E; i++) x[i] = small.decode(w[i / 4], i % 4);
    }
    template <u32 DTYPE, int E> static __device__ void converted(const u32 (&w)[2], float (&x)[E]) {
#pragma unroll
        for (int i = 0; i < E; i += 2) {
            const Two two = convert<DTYPE>(w[i / 4], i % 4 != 0);
            x[i] = two.x, x[i + 1] = two.y;
        }
    }
    // Nibbles in bytes, with their signs copied into the upper halves.
    static __device__ u32 signs(u32 x) { return x | (x & 0x08080808u) * 0x1e; }
    // 1 for each byte that is not 0.
    static __device__ u32 truths(u32 x) { return (((x & 0x7f7f7f7fu) + 0x7f7f7f7fu) | x) >> 7 & 0x01010101u; }

    template <int E, int W> __device__ void decode(const u32 (&w)[W], double (&x)[E]) const {
        if (WIDTH == 64 || (WIDTH == ANY && bits == 64)) {
            if (dtype == F64)
#pragma unroll
                for (int i = 0; i < E; i++) x[i] = f64_of(w[2 * i] | (u64)w[2 * i + 1] << 32);
            else
#pragma unroll
                for (int i = 0; i < E; i++) {
                    const u64 bits = w[2 * i] | (u64)w[2 * i + 1] << 32;
                    x[i] = dtype == U64 ? (double)bits : (double)(i64)bits;
                }
        } else if (dtype == I32) {
#pragma unroll
            for (int i = 0; i < E; i++) x[i] = (double)(i32)w[i];
        } else if (dtype == U32) {
#pragma unroll
            for (int i = 0; i < E; i++) x[i] = (double)w[i];
        } else {
            float narrow[E];
            decode<E>(w, narrow);
#pragma unroll
            for (int i = 0; i < E; i++) x[i] = (double)narrow[i];
        }
    }

    // Integers only; up to 16 bits they are exact as f32.
    template <int E, int W> __device__ void decode(const u32 (&w)[W], i64 (&x)[E]) const {
        if (WIDTH == 64 || (WIDTH == ANY && bits == 64)) {
#pragma unroll
            for (int i = 0; i < E; i++) x[i] = (i64)(w[2 * i] | (u64)w[2 * i + 1] << 32);
        } else if (dtype == I32) {
#pragma unroll
            for (int i = 0; i < E; i++) x[i] = (i32)w[i];
        } else if (dtype == U32) {
#pragma unroll
            for (int i = 0; i < E; i++) x[i] = w[i];
        } else {
            float narrow[E];
            decode<E>(w, narrow);
#pragma unroll
            for (int i = 0; i < E; i++) x[i] = (i32)narrow[i];
        }
    }

    template <int E, int W> __device__ void decode(const u32 (&w)[W], Whole (&x)[E]) const {
        i64 narrow[E];
        decode<E>(w, narrow);
#pragma unroll
        for (int i = 0; i < E; i++) x[i] = dtype == U64 ? Whole((u64)narrow[i], false) : Whole(narrow[i]);
    }

    // Element i, decoded as x, also where it is not finite.
    template <int W, typename N> __device__ N exact(const u32 (&w)[W], N x, u32 i) const {
        return byte_float ? (N)decode_small(is_fixed(KIND) ? format_of(KIND - FIXED) : format_at(dtype), (i < 4 ? w[0] : w[1]) >> (i % 4 * 8) & 0xff) : x;
    }
};
