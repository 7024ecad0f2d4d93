// Logarithm, sine and cosine from IEEE operations alone: the same as `src/fill/math.rs`, bit for bit.
#pragma once
#include "formats.h"

struct SinCos32 { float sin, cos; };
struct SinCos64 { double sin, cos; };

__device__ inline float ln32(float x) {
    const u32 bits = bits_of(x);
    i32 exponent = (i32)(bits >> 23) - 127;
    float m = f32_of((bits & 0x007fffffu) | 0x3f800000u);
    if (m > 1.41421356f) {
        m *= 0.5f;
        exponent += 1;
    }
    const float s = (m - 1.0f) / (m + 1.0f);
    const float z = s * s;
    float series = 1.0f / 9.0f;
    series = fmaf(series, z, 1.0f / 7.0f);
    series = fmaf(series, z, 1.0f / 5.0f);
    series = fmaf(series, z, 1.0f / 3.0f);
    series = series * z;
    const float twice = s + s;
    const float ln_m = fmaf(twice, series, twice);
    const float e = (float)exponent;
    return fmaf(e, 0.69314575f, fmaf(e, 1.4286068e-6f, ln_m));
}

__device__ inline double ln64(double x) {
    const u64 bits = bits_of(x);
    i32 exponent = (i32)(bits >> 52) - 1023;
    double m = f64_of((bits & 0x000fffffffffffffull) | 0x3ff0000000000000ull);
    if (m > 1.4142135623730951) {
        m *= 0.5;
        exponent += 1;
    }
    const double s = (m - 1.0) / (m + 1.0);
    const double z = s * s;
    double series = 1.0 / 23.0;
    series = fma(z, series, 1.0 / 21.0);
    series = fma(z, series, 1.0 / 19.0);
    series = fma(z, series, 1.0 / 17.0);
    series = fma(z, series, 1.0 / 15.0);
    series = fma(z, series, 1.0 / 13.0);
    series = fma(z, series, 1.0 / 11.0);
    series = fma(z, series, 1.0 / 9.0);
    series = fma(z, series, 1.0 / 7.0);
    series = fma(z, series, 1.0 / 5.0);
    series = fma(z, series, 1.0 / 3.0);
    const double twice = s + s;
    const double ln_m = fma(twice, series * z, twice);
    const double e = (double)exponent;
    return fma(e, 0.6931471803691238, fma(e, 1.9082149292705877e-10, ln_m));
}

// Correctly rounded. HIP's own function is not, when ROCm 5's hipRTC compiles it.
__device__ inline float sqrt32(float x) {
#if defined(__AMDGCN__)
    // The instruction is off by at most one unit in the last place. The products of the root with its two neighbours tell which of the three numbers is the rounded one, as in LLVM's expansion.
    const float root = __builtin_amdgcn_sqrtf(x), down = f32_of(bits_of(root) - 1), up = f32_of(bits_of(root) + 1);
    const float above_down = fmaf(-down, root, x), above_up = fmaf(-up, root, x);
    const float at_most = above_down <= 0 ? down : root;
    return above_up > 0 ? up : at_most;
#else
    return sqrtf(x);
#endif
}

__device__ inline SinCos32 sin_cos32(u32 turn) {
    const u32 shifted = turn + (1u << 29);
    const i32 t = (i32)(shifted & 0x3fffffffu) - (1 << 29);
    const float x = (float)t * (1.57079632679489661923f * (1.0f / 1073741824.0f));
    const float z = x * x;
    float s = 1.0f / 362880.0f;
    s = fmaf(s, z, -1.0f / 5040.0f);
    s = fmaf(s, z, 1.0f / 120.0f);
    s = fmaf(s, z, -1.0f / 6.0f);
    const float sin = fmaf(x, s * z, x);
    float c = -1.0f / 3628800.0f;
    c = fmaf(c, z, 1.0f / 40320.0f);
    c = fmaf(c, z, -1.0f / 720.0f);
    c = fmaf(c, z, 1.0f / 24.0f);
    c = fmaf(c, z, -0.5f);
    const float cos = fmaf(c, z, 1.0f);
    // By quadrant: (sin, cos), (cos, -sin), (-sin, -cos), (-cos, sin).
    const u32 quadrant = shifted >> 30;
    const u32 first = bits_of(quadrant & 1 ? cos : sin), second = bits_of(quadrant & 1 ? sin : cos);
    return {f32_of(first ^ (quadrant & 2) << 30), f32_of(second ^ ((quadrant + 1) & 2) << 30)};
}

__device__ inline SinCos64 sin_cos64(u64 turn) {
    const u64 shifted = turn + (1ull << 61);
    const i64 t = (i64)(shifted & 0x3fffffffffffffffull) - (1ll << 61);
    const double x = (double)t * (1.57079632679489661923 * (1.0 / 4611686018427387904.0));
    const double z = x * x;
    double s = 1.0 / 355687428096000.0;
    s = fma(z, s, -1.0 / 1307674368000.0);
    s = fma(z, s, 1.0 / 6227020800.0);
    s = fma(z, s, -1.0 / 39916800.0);
    s = fma(z, s, 1.0 / 362880.0);
    s = fma(z, s, -1.0 / 5040.0);
    s = fma(z, s, 1.0 / 120.0);
    s = fma(z, s, -1.0 / 6.0);
    const double sin = fma(x, s * z, x);
    double c = -1.0 / 6402373705728000.0;
    c = fma(z, c, 1.0 / 20922789888000.0);
    c = fma(z, c, -1.0 / 87178291200.0);
    c = fma(z, c, 1.0 / 479001600.0);
    c = fma(z, c, -1.0 / 3628800.0);
    c = fma(z, c, 1.0 / 40320.0);
    c = fma(z, c, -1.0 / 720.0);
    c = fma(z, c, 1.0 / 24.0);
    c = fma(z, c, -0.5);
    const double cos = fma(c, z, 1.0);
    const u32 quadrant = (u32)(shifted >> 62);
    if (quadrant == 0) return {sin, cos};
    if (quadrant == 1) return {cos, -sin};
    if (quadrant == 2) return {-sin, -cos};
    return {-cos, sin};
}

// The angle of `index` radians in units of 2^-64 turns.
__device__ inline u64 radians_to_turn(u64 index) {
    return index * 0x28be60db9391054aull + __umul64hi(index, 0x7f09d5f47d4d3770ull);
}
