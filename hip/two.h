// Two 16-bit floats in a word: what both platforms do with one instruction.
#pragma once
#include "formats.h"

template <u32 DTYPE> struct Two {
#if defined(__CUDACC__)
#define HIPVERIFY_TWO(text, ...)                                     \
    do {                                                             \
        if constexpr (DTYPE == F16) asm(text("f16x2") __VA_ARGS__);  \
        else asm(text("bf16x2") __VA_ARGS__);                        \
    } while (0)
#define HIPVERIFY_MAX(type) "{\n\t.reg .b32 t;\n\tabs." type " t, %1;\n\tmax." type " %0, %0, t;\n\t}"
#define HIPVERIFY_MIN(type) "{\n\t.reg .b32 t;\n\tabs." type " t, %1;\n\tmin." type " %0, %0, t;\n\t}"
#define HIPVERIFY_LE(type) "{\n\t.reg .b32 t;\n\tabs." type " t, %1;\n\tset.le.u32." type " %0, t, %2;\n\t}"
    static __device__ void raise(u32 &most, u32 x) { HIPVERIFY_TWO(HIPVERIFY_MAX, : "+r"(most) : "r"(x)); }
    static __device__ void lower(u32 &least, u32 x) { HIPVERIFY_TWO(HIPVERIFY_MIN, : "+r"(least) : "r"(x)); }
    // All ones in each half whose magnitude is at most that of `limit`.
    static __device__ u32 up_to(u32 x, u32 limit) {
        u32 mask;
        HIPVERIFY_TWO(HIPVERIFY_LE, : "=r"(mask) : "r"(x), "r"(limit));
        return mask;
    }
#define HIPVERIFY_ANY(type) \
    "{\n\t.reg .pred p, q;\n\tsetp.le." type " p|q, %1, %2;\n\tor.pred p, p, q;\n\tsetp.le.or." type " p|q, %3, %4, p;\n\tor.pred p, p, q;\n\tselp.u32 %0, 1, 0, p;\n\t}"
    // Whether a half of x is at most that of `least`, or one of y at most that of `gate`.
    static __device__ bool any_up_to(u32 x, u32 least, u32 y, u32 gate) {
        u32 any;
        HIPVERIFY_TWO(HIPVERIFY_ANY, : "=r"(any) : "r"(x), "r"(least), "r"(y), "r"(gate));
        return any;
    }
#undef HIPVERIFY_ANY
#define HIPVERIFY_PLUS(type) "add.rn." type " %0, %1, %2;"
#define HIPVERIFY_MINUS(type) "sub.rn." type " %0, %1, %2;"
#define HIPVERIFY_FUSED(type) "fma.rn." type " %0, %1, %2, %3;"
#define HIPVERIFY_GT(type) "set.gt." type "." type " %0, %1, %2;"
#define HIPVERIFY_ABS(type) "abs." type " %0, %1;"
#define HIPVERIFY_NE(type) "set.neu.u32." type " %0, %1, %2;"
#define HIPVERIFY_LARGER(type) "max.NaN." type " %0, %1, %2;"
#define HIPVERIFY_ABOVE(type) "{\n\t.reg .pred p, q;\n\tsetp.geu." type " p|q, %1, %2;\n\tor.pred p, p, q;\n\tselp.u32 %0, 1, 0, p;\n\t}"
    static __device__ u32 plus(u32 x, u32 y) {
        u32 z;
        HIPVERIFY_TWO(HIPVERIFY_PLUS, : "=r"(z) : "r"(x), "r"(y));
        return z;
    }
    static __device__ u32 minus(u32 x, u32 y) {
        u32 z;
        HIPVERIFY_TWO(HIPVERIFY_MINUS, : "=r"(z) : "r"(x), "r"(y));
        return z;
    }
    static __device__ u32 fused(u32 x, u32 y, u32 z) {
        u32 w;
        HIPVERIFY_TWO(HIPVERIFY_FUSED, : "=r"(w) : "r"(x), "r"(y), "r"(z));
        return w;
    }
    static __device__ u32 magnitude(u32 x) {
        u32 y;
        HIPVERIFY_TWO(HIPVERIFY_ABS, : "=r"(y) : "r"(x));
        return y;
    }
    // All ones in each half in which they differ.
    static __device__ u32 differ(u32 x, u32 y) {
        u32 mask;
        HIPVERIFY_TWO(HIPVERIFY_NE, : "=r"(mask) : "r"(x), "r"(y));
        return mask;
    }
    // 1 in each half that is above 0, and 0 in the others.
    static __device__ u32 positive(u32 x) {
        u32 z;
        HIPVERIFY_TWO(HIPVERIFY_GT, : "=r"(z) : "r"(x), "r"(0u));
        return z;
    }
    static __device__ u32 larger_or_nan(u32 x, u32 y) {
        u32 z;
        HIPVERIFY_TWO(HIPVERIFY_LARGER, : "=r"(z) : "r"(x), "r"(y));
        return z;
    }
    // Whether a half of x is that of y, or above it, or NaN.
    static __device__ bool any_reaches(u32 x, u32 y) {
        u32 any;
        HIPVERIFY_TWO(HIPVERIFY_ABOVE, : "=r"(any) : "r"(x), "r"(y));
        return any;
    }
#undef HIPVERIFY_PLUS
#undef HIPVERIFY_MINUS
#undef HIPVERIFY_FUSED
#undef HIPVERIFY_GT
#undef HIPVERIFY_ABS
#undef HIPVERIFY_NE
#undef HIPVERIFY_LARGER
#undef HIPVERIFY_ABOVE
#undef HIPVERIFY_TWO
#undef HIPVERIFY_MAX
#undef HIPVERIFY_MIN
#undef HIPVERIFY_LE
#else
    // Magnitudes are ordered as their patterns.
    typedef u16 Vector __attribute__((ext_vector_type(2)));
    static __device__ Vector magnitudes(u32 x) { return __builtin_bit_cast(Vector, x & 0x7fff7fffu); }
    static __device__ void raise(u32 &most, u32 x) { most = __builtin_bit_cast(u32, __builtin_elementwise_max(__builtin_bit_cast(Vector, most), magnitudes(x))); }
    static __device__ void lower(u32 &least, u32 x) { least = __builtin_bit_cast(u32, __builtin_elementwise_min(__builtin_bit_cast(Vector, least), magnitudes(x))); }
    static __device__ bool any_up_to(u32 x, u32 least, u32 y, u32 gate) {
        return (x & 0xffff) <= (least & 0xffff) || x >> 16 <= least >> 16 || (y & 0xffff) <= (gate & 0xffff) || y >> 16 <= gate >> 16;
    }
    static __device__ u32 up_to(u32 x, u32 limit) { return __builtin_bit_cast(u32, magnitudes(x) <= __builtin_bit_cast(Vector, limit)); }
#endif
};

