// Pairs of formats known at compile time, dense and aligned to 16 bytes: the fast paths of the comparison.
#pragma once
#include "verify.h"

#if defined(__CUDA_ARCH__)
__device__ inline uint4 load16(const u8 *at) { return __ldcs((const uint4 *)at); }
#else
typedef u32 Words4 __attribute__((ext_vector_type(4)));
__device__ inline uint4 load16(const u8 *at) {
    const Words4 x = __builtin_nontemporal_load((const Words4 *)at);
    return make_uint4(x.x, x.y, x.z, x.w);
}
#endif

__host__ __device__ constexpr bool has_tiny(u32 dtype) { return format_of(dtype).bias > 100; }

// The place of a pattern in the order of its format.
template <u32 DTYPE> __device__ inline i64 ordinal(u64 bits) {
    constexpr Format f = format_of(DTYPE);
    if constexpr (f.specials == INTEGER) return decode_int(f, bits);
    else if constexpr (f.specials == E8M0) return (i64)(bits & 0xff);
    else if constexpr (DTYPE == F64) {
        const i64 magnitude = (i64)(bits & 0x7fffffffffffffffull);
        return bits >> 63 ? -magnitude : magnitude;
    } else {
        constexpr u32 width = f.exponent_bits + f.mantissa_bits;
        const u32 word = (u32)bits >> f.pad_bits;
        const i32 magnitude = (i32)(word & ((1u << width) - 1));
        return word >> width & 1 ? -magnitude : magnitude;
    }
}

// The pattern nearest to a finite value, saturating.
template <u32 DTYPE, typename T> __device__ inline u64 nearest(T x) {
    if constexpr (sizeof(T) == 8) return encode_from_f64<DTYPE>(x);
    else if constexpr (DTYPE == F16) {
        const u32 bits = f32_to_f16(x);
        return (bits & 0x7fff) == 0x7c00 ? bits - 1 : bits;
    } else if constexpr (DTYPE == BF16) {
        const u32 bits = encode_in_range<BF16>(x);
        return (bits & 0x7fff) == 0x7f80 ? bits - 1 : bits;
    } else return encode_from_f32<DTYPE>(x);
}

template <bool WIDE> struct Either { typedef float type; };
template <> struct Either<true> { typedef double type; };

template <u32 A, u32 R> struct Dense {
    static constexpr u32 BITS_A = format_of(A).bits, BITS_R = format_of(R).bits;
    static constexpr bool WIDE = A == F64 || R == F64;
    static constexpr bool INTEGER = false;
    static constexpr bool SUBNORMAL = has_tiny(A) || has_tiny(R);
    enum { V = 128 / (BITS_A < BITS_R ? BITS_A : BITS_R), WORDS_A = V * BITS_A / 32, WORDS_R = V * BITS_R / 32, DEPTH = WORDS_A + WORDS_R > 8 ? 2 : 4 };
    typedef typename Either<WIDE>::type Number;
    struct Raw { u32 a[WORDS_A], r[WORDS_R]; };

    template <int WORDS> static __device__ void words(u32 (&out)[WORDS], const u8 *at) {
#pragma unroll
        for (int i = 0; i < WORDS; i += 4) {
            const uint4 x = load16(at + 4 * i);
            out[i] = x.x, out[i + 1] = x.y, out[i + 2] = x.z, out[i + 3] = x.w;
        }
    }
    template <u32 DTYPE, int WORDS> static __device__ void some(u32 (&out)[WORDS], const u8 *base, u64 index, u64 n) {
#pragma unroll
        for (int i = 0; i < WORDS; i++) out[i] = 0;
        constexpr u32 bits = format_of(DTYPE).bits;
#pragma unroll
        for (int v = 0; v < V; v++) {
            if (index + v >= n) continue;
            const u64 x = one<DTYPE>(base, index + v);
            if constexpr (bits == 64) out[2 * v] = (u32)x, out[2 * v + 1] = (u32)(x >> 32);
            else out[v * bits / 32] |= (u32)x << (v * bits % 32);
        }
    }
    // One element of memory.
    template <u32 DTYPE> static __device__ u64 one(const u8 *base, u64 index) {
        constexpr u32 bits = format_of(DTYPE).bits;
        if constexpr (bits == 64) return ((const u64 *)base)[index];
        else if constexpr (bits == 32) return ((const u32 *)base)[index];
        else if constexpr (bits == 16) return ((const u16 *)base)[index];
        else if constexpr (bits == 8) return base[index];
        else return base[index / 2] >> (4 * (index % 2)) & 0xf;
    }
    template <u32 DTYPE, int WORDS> static __device__ u64 pick(const u32 (&words)[WORDS], int v) {
        constexpr u32 bits = format_of(DTYPE).bits;
        if constexpr (bits == 64) return words[2 * v] | (u64)words[2 * v + 1] << 32;
        else if constexpr (bits == 32) return words[v];
        else return words[v * bits / 32] >> (v * bits % 32) & ((1u << bits) - 1);
    }
    template <u32 DTYPE> static __device__ Number decode(u64 bits) {
        if constexpr (WIDE) return decode_to_f64<DTYPE>(bits);
        else return decode_to_f32<DTYPE>(bits);
    }

    static __device__ Raw load(const VerifyParams &p, u64 index) {
        Raw raw;
        words(raw.a, p.a + index * BITS_A / 8);
        words(raw.r, p.r + index * BITS_R / 8);
        return raw;
    }
    static __device__ Raw load_some(const VerifyParams &p, u64 index, u64 n) {
        Raw raw;
        some<A>(raw.a, p.a, index, n);
        some<R>(raw.r, p.r, index, n);
        return raw;
    }
    static __device__ Number result(const VerifyParams &, const Raw &raw, int v) { return decode<A>(pick<A>(raw.a, v)); }
    static __device__ Number reference(const VerifyParams &, const Raw &raw, int v) { return decode<R>(pick<R>(raw.r, v)); }
    static __device__ u64 ulps(const VerifyParams &p, const Raw &raw, int v, Number, Number r) {
        return distance(p, pick<A>(raw.a, v), pick<R>(raw.r, v), r);
    }
    static __device__ u64 bits_a(const VerifyParams &p, u64 index) { return one<A>(p.a, index); }
    static __device__ u64 bits_r(const VerifyParams &p, u64 index) { return one<R>(p.r, index); }
    static __device__ Number decode_a(const VerifyParams &, u64 bits) { return decode<A>(bits); }
    static __device__ Number decode_r(const VerifyParams &, u64 bits) { return decode<R>(bits); }
    static __device__ u64 distance(const VerifyParams &, u64 a, u64 r, Number value) {
        const i64 x = ordinal<A>(a), y = ordinal<A>(A == R ? r : nearest<A>(value));
        return x > y ? (u64)(x - y) : (u64)(y - x);
    }
};
