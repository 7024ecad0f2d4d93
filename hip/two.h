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
#define HIPVERIFY_OF_TWO(name, text)                                 \
    static __device__ u32 name(u32 x, u32 y) {                       \
        u32 z;                                                       \
        HIPVERIFY_TWO(text, : "=r"(z) : "r"(x), "r"(y));             \
        return z;                                                    \
    }
    // Magnitudes.
#define HIPVERIFY_ABS(type) "abs." type " %0, %1;"
#define HIPVERIFY_MAX(type) "{\n\t.reg .b32 t;\n\tabs." type " t, %1;\n\tmax." type " %0, %0, t;\n\t}"
#define HIPVERIFY_MIN(type) "{\n\t.reg .b32 t;\n\tabs." type " t, %1;\n\tmin." type " %0, %0, t;\n\t}"
    static __device__ u32 magnitude(u32 x) {
        u32 y;
        HIPVERIFY_TWO(HIPVERIFY_ABS, : "=r"(y) : "r"(x));
        return y;
    }
    static __device__ void raise(u32 &most, u32 x) { HIPVERIFY_TWO(HIPVERIFY_MAX, : "+r"(most) : "r"(x)); }
    static __device__ void lower(u32 &least, u32 x) { HIPVERIFY_TWO(HIPVERIFY_MIN, : "+r"(least) : "r"(x)); }
    // All ones in each half whose magnitude is at most that of the limit.
#define HIPVERIFY_LE(type) "{\n\t.reg .b32 t;\n\tabs." type " t, %1;\n\tset.le.u32." type " %0, t, %2;\n\t}"
    HIPVERIFY_OF_TWO(up_to, HIPVERIFY_LE)
    // Whether a half of x is at most that of `least`, or one of y at most that of `gate`.
#define HIPVERIFY_ANY(type) \
    "{\n\t.reg .pred p, q;\n\tsetp.le." type " p|q, %1, %2;\n\tor.pred p, p, q;\n\tsetp.le.or." type " p|q, %3, %4, p;\n\tor.pred p, p, q;\n\tselp.u32 %0, 1, 0, p;\n\t}"
    static __device__ bool any_up_to(u32 x, u32 least, u32 y, u32 gate) {
        u32 any;
        HIPVERIFY_TWO(HIPVERIFY_ANY, : "=r"(any) : "r"(x), "r"(least), "r"(y), "r"(gate));
        return any;
    }
    // Numbers with their signs, rounded to nearest.
#define HIPVERIFY_PLUS(type) "add.rn." type " %0, %1, %2;"
#define HIPVERIFY_MINUS(type) "sub.rn." type " %0, %1, %2;"
#define HIPVERIFY_FUSED(type) "fma.rn." type " %0, %1, %2, %3;"
#define HIPVERIFY_LARGER(type) "max.NaN." type " %0, %1, %2;"
    HIPVERIFY_OF_TWO(plus, HIPVERIFY_PLUS)
    HIPVERIFY_OF_TWO(minus, HIPVERIFY_MINUS)
    HIPVERIFY_OF_TWO(larger_or_nan, HIPVERIFY_LARGER)
    static __device__ u32 fused(u32 x, u32 y, u32 z) {
        u32 w;
        HIPVERIFY_TWO(HIPVERIFY_FUSED, : "=r"(w) : "r"(x), "r"(y), "r"(z));
        return w;
    }
    // The number 1 in each half of x that is above that of y, and 0 in the others.
#define HIPVERIFY_GT(type) "set.gt." type "." type " %0, %1, %2;"
    HIPVERIFY_OF_TWO(above, HIPVERIFY_GT)
    // All ones in each half in which they differ.
#define HIPVERIFY_NE(type) "set.neu.u32." type " %0, %1, %2;"
    HIPVERIFY_OF_TWO(differ, HIPVERIFY_NE)
    // Not zero if a half of x is that of y, or above it, or NaN.
#define HIPVERIFY_ABOVE(type) "{\n\t.reg .pred p, q;\n\tsetp.geu." type " p|q, %1, %2;\n\tor.pred p, p, q;\n\tselp.u32 %0, 1, 0, p;\n\t}"
    HIPVERIFY_OF_TWO(any_reaches, HIPVERIFY_ABOVE)
#undef HIPVERIFY_TWO
#undef HIPVERIFY_OF_TWO
#undef HIPVERIFY_ABS
#undef HIPVERIFY_MAX
#undef HIPVERIFY_MIN
#undef HIPVERIFY_LE
#undef HIPVERIFY_ANY
#undef HIPVERIFY_PLUS
#undef HIPVERIFY_MINUS
#undef HIPVERIFY_FUSED
#undef HIPVERIFY_LARGER
#undef HIPVERIFY_GT
#undef HIPVERIFY_NE
#undef HIPVERIFY_ABOVE
#else
    // Magnitudes are ordered as their patterns.
    typedef VECTOR(u16, 2) Vector;
    static __device__ Vector magnitudes(u32 x) { return __builtin_bit_cast(Vector, x & 0x7fff7fffu); }
    static __device__ void raise(u32 &most, u32 x) { most = __builtin_bit_cast(u32, __builtin_elementwise_max(__builtin_bit_cast(Vector, most), magnitudes(x))); }
    static __device__ void lower(u32 &least, u32 x) { least = __builtin_bit_cast(u32, __builtin_elementwise_min(__builtin_bit_cast(Vector, least), magnitudes(x))); }
    static __device__ bool any_up_to(u32 x, u32 least, u32 y, u32 gate) {
        return (x & 0xffff) <= (least & 0xffff) || x >> 16 <= least >> 16 || (y & 0xffff) <= (gate & 0xffff) || y >> 16 <= gate >> 16;
    }
    static __device__ u32 up_to(u32 x, u32 limit) { return __builtin_bit_cast(u32, magnitudes(x) <= __builtin_bit_cast(Vector, limit)); }
#endif
};
