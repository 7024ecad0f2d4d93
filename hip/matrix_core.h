// The arithmetic of CDNA1's and CDNA2's matrix cores in plain device code, which any GPU runs; equal bit for bit to the
// models of the Rust crate (`matrix_core`), which say where the rules come from. Needs IEEE denormals and no contraction.
//
// A rule is a struct: GROUP products join the accumulator together; `prepare` is what the hardware does to an input,
// `accept` what it does to the C of an instruction, and `row` adds one group to N accumulators c[j] += a[k] * b[k][j].
#pragma once

#include "formats.h"

struct MatrixCore {
    // f32-subnormal numbers become zeros of their sign.
    static __device__ inline float flush(float x) { return fabsf(x) < 1.17549435e-38f ? copysignf(0.0f, x) : x; }
    // Numbers below `least`, zeros included, become +0.
    static __device__ inline float drop(float x, float least) { return fabsf(x) < least ? 0.0f : x; }
    static __device__ inline float f32_from_bf16(u32 bits) { return f32_of(bits << 16); }
    static __device__ inline float canonical(float x) { return x != x ? f32_of(0x7fc00000u) : x; }
};

// gfx90a, f16: FA(c, FA(FA(p0, p1), FA(p2, p3))). Products of flushed f16 numbers are multiples of 2^-48, so that no product
// or sum can be subnormal; being exact, they may come fused with the first addition.
struct Gfx90aF16 : MatrixCore {
    static constexpr int GROUP = 4;
    static __device__ inline float widen(u32 bits) { return f16_to_f32(bits); }
    static __device__ inline float prepare(float x) { return drop(x, 6.10351562e-05f); }
    static __device__ inline float accept(float c) { return drop(c, 1.17549435e-38f); }
    template <int N> static __device__ inline void row(float (&c)[N], const float *a, const float (*b)[N]) {
#pragma unroll
        for (int j = 0; j < N; ++j) {
            const float low = fmaf(a[0], b[0][j], a[1] * b[1][j]);
            const float high = fmaf(a[2], b[2][j], a[3] * b[3][j]);
            c[j] = c[j] + (low + high);
        }
    }
};

// gfx90a, bf16_1k and bf16: the same tree over four or two products, each step flushed.
template <int PRODUCTS> struct Gfx90aBf16 : MatrixCore {
    static constexpr int GROUP = PRODUCTS;
    static __device__ inline float widen(u32 bits) { return f32_from_bf16(bits); }
    static __device__ inline float prepare(float x) { return drop(x, 1.17549435e-38f); }
    static __device__ inline float accept(float c) { return drop(c, 1.17549435e-38f); }
    template <int N> static __device__ inline void row(float (&c)[N], const float *a, const float (*b)[N]) {
#pragma unroll
        for (int j = 0; j < N; ++j) {
            float sum = flush(flush(a[0] * b[0][j]) + flush(a[1] * b[1][j]));
            if (PRODUCTS == 4) sum = flush(sum + flush(flush(a[PRODUCTS - 2] * b[PRODUCTS - 2][j]) + flush(a[PRODUCTS - 1] * b[PRODUCTS - 1][j])));
            c[j] = flush(c[j] + sum);
        }
    }
};

// gfx908: the exact sum of c and four f16 (two bf16) products, rounded once.
template <int PRODUCTS> struct Gfx908 : MatrixCore {
    static constexpr int GROUP = PRODUCTS;
    static __device__ inline float widen(u32 bits) { return PRODUCTS == 4 ? f16_to_f32(bits) : f32_from_bf16(bits); }
    static __device__ inline float prepare(float x) { return x; }
    static __device__ inline float accept(float c) { return c; }

    // s + e = a + b exactly.
    static __device__ inline void two_sum(double a, double b, double &s, double &e) {
        s = a + b;
        const double part = s - a;
        e = (a - (s - part)) + (b - part);
    }

    // The exact sum of products as a double and its error.
    static __device__ inline void products(const double *a, const double *b, double &sum, double &error) {
        if (PRODUCTS == 2) {
            two_sum(a[0] * b[0], a[1] * b[1], sum, error);
            return;
        }
        // Products of f16 numbers are multiples of 2^-48 below 2^33: cut at 2^-10, both parts of four of them add exactly.
        const double cut = 6597069766656.0; // 1.5 * 2^42
        double high[PRODUCTS], low[PRODUCTS];
#pragma unroll
        for (int k = 0; k < PRODUCTS; ++k) {
            const double p = a[k] * b[k];
            high[k] = (p + cut) - cut;
            low[k] = p - high[k];
        }
        const double upper = (high[0] + high[1]) + (high[PRODUCTS - 2] + high[PRODUCTS - 1]);
        const double lower = (low[0] + low[1]) + (low[PRODUCTS - 2] + low[PRODUCTS - 1]);
        sum = upper + lower;
        error = lower - (sum - upper);
    }

    // Always right, and slow: error-free sums, then rounding to odd before the conversion to f32. `plain` is the same sum
    // rounded at each step, for the NaN or infinity that it may be.
    static __device__ inline float exactly(float c, const double *a, const double *b, double plain) {
        if (!(fabs(plain) < 8.9e307)) return (float)plain;
        double sum, error, high, l, lowest;
        products(a, b, sum, error);
        two_sum(sum, (double)c, high, l);
        two_sum(l, error, l, lowest);
        const double top = high + l;
        const double rest = (l - (top - high)) + lowest;
        const u64 bits = bits_of(top);
        const u64 odd = (bits_of(rest) ^ bits) >> 63 ? bits - 1 : bits + 1;
        return (float)((rest != 0.0 && (bits & 1) == 0 ? f64_of(odd) : top) + 0.0);
    }

    template <int N> static __device__ inline void row(float (&c)[N], const float *a, const float (*b)[N]) {
        double wide[PRODUCTS];
        float most = 0.0f;
#pragma unroll
        for (int k = 0; k < PRODUCTS; ++k) {
            wide[k] = (double)a[k];
            most = fmaxf(most, fabsf(a[k]));
        }
#pragma unroll
        for (int j = 0; j < N; ++j) {
            double column[PRODUCTS], plain = (double)c[j];
            float reach = 0.0f;
#pragma unroll
            for (int k = 0; k < PRODUCTS; ++k) {
                column[k] = (double)b[k][j];
                plain = fma(wide[k], column[k], plain);
                reach += fabsf(b[k][j]);
            }
            float rounded = (float)plain + 0.0f;
            // The sum of all magnitudes, within a few roundings. While it is less than 2^12 times the result, the error of
            // `plain` is below 2^15 of its own spacings, and matters only that close to a tie of f32. Subnormal results round
            // elsewhere; NaN fails the comparisons.
            reach = fmaf(most, reach, fabsf(c[j]));
            const u32 tail = (u32)bits_of(plain) & 0x1fffffffu;
            const bool sure = reach <= 4096.0f * fabsf(rounded) && fabsf(rounded) >= 1.17549435e-38f && tail - 0x0fff0000u > 0x20000u;
            if (!sure) rounded = exactly(c[j], wide, column, plain);
            c[j] = rounded;
        }
    }
};
