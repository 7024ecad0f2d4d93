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
    static __device__ u32 up_to(u32 x, u32 limit) { return __builtin_bit_cast(u32, magnitudes(x) <= __builtin_bit_cast(Vector, limit)); }
#endif
};

