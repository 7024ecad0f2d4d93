// The arithmetic of matrix cores and tensor cores in plain device code, which any GPU runs; equal bit for bit to the models of the Rust
// crate (`matrix_core`), which say where the rules come from. Needs IEEE denormals and no contraction.
//
// A rule is a struct of static functions:
//   `load`              element `index` of an operand as f32; rules of one format ignore the one that is given
//   Input               a prepared input: `prepare` does what the hardware does to it first
//   Wide, `wide`        the type that inputs are computed in, and the conversion to it
//   `accept`            what the hardware does to the C of an instruction; for tensor cores, whose widths are known at run time, `rule` decides here and in `row`
//   `canonical`         a result, with the one NaN of the hardware
//   GROUP, `row`        GROUP products are added to an accumulator at once: `row` adds one group to N accumulators,
//                       c[j] += a[k] * b[k][j]
//   EACH                rows and columns of C that a thread of a GEMM should hold
//   LONG                whether row<false> takes many instructions for each accumulator
//   WATCHES, `tame`     whether inputs and accumulators of known range allow the short form, row<true>
#pragma once

#include "formats.h"

struct MatrixCore {
    static constexpr bool WATCHES = false, LONG = false;
    static constexpr int EACH = 8;
    // f32-subnormal numbers become zeros of their sign.
    static __device__ inline float flush(float x) { return fabsf(x) < 1.17549435e-38f ? copysignf(0.0f, x) : x; }
    // Numbers below `least`, zeros included, become +0.
    static __device__ inline float drop(float x, float least) { return fabsf(x) < least ? 0.0f : x; }
    static __device__ inline float canonical(float x) { return x != x ? f32_of(0x7fc00000u) : x; }
};

// Both operands 16-bit floats, computed with as f32.
template <u32 DTYPE> struct MatrixCore16 : MatrixCore {
    typedef float Input;
    static __device__ inline float load(const void *from, u64 index, u32) { return decode_to_f32<DTYPE>(((const u16 *)from)[index]); }
    // The exponent of a power of two of which every number with these bits of a magnitude, or a larger one, is a multiple.
    static __device__ inline i32 quantum(u32 least) {
        if (least == 0) return 200; // all are zeros
        const i32 exponent = (i32)(least >> 23) - 127;
        const i32 last = DTYPE == F16 ? exponent - 10 : exponent - 7, lowest = DTYPE == F16 ? -24 : -133;
        return last > lowest ? last : lowest;
    }
};

// All chips, f32: a chain of fused multiply-adds.
struct MatrixCoreF32 : MatrixCore {
    static constexpr int GROUP = 1;
    typedef float Input;
    typedef float Wide;
    static __device__ inline float load(const void *from, u64 index, u32) { return ((const float *)from)[index]; }
    static __device__ inline float prepare(float x, u32) { return x; }
    static __device__ inline float wide(float x) { return x; }
    static __device__ inline float accept(const TensorCoreRule &, float c) { return c; }
    template <bool TAME, int N> static __device__ inline void row(const TensorCoreRule &, float (&c)[N], const float *a, const float (*b)[N]) {
#pragma unroll
        for (int j = 0; j < N; ++j) c[j] = fmaf(a[0], b[0][j], c[j]);
    }
};

// gfx90a, f16: FA(c, FA(FA(p0, p1), FA(p2, p3))). Products of flushed f16 numbers are multiples of 2^-48, so no product
// or sum can be subnormal; since they are exact, they may be fused with the first addition.
struct Gfx90aF16 : MatrixCore16<F16> {
    static constexpr int GROUP = 4;
    typedef float Wide;
    static __device__ inline float wide(float x) { return x; }
    static __device__ inline float prepare(float x, u32) { return drop(x, 6.10351562e-05f); }
    static __device__ inline float accept(const TensorCoreRule &, float c) { return drop(c, 1.17549435e-38f); }
    template <bool TAME, int N> static __device__ inline void row(const TensorCoreRule &, float (&c)[N], const float *a, const float (*b)[N]) {
#pragma unroll
        for (int j = 0; j < N; ++j) {
            const float low = fmaf(a[0], b[0][j], a[1] * b[1][j]);
            const float high = fmaf(a[2], b[2][j], a[3] * b[3][j]);
            c[j] = c[j] + (low + high);
        }
    }
};

// gfx90a, bf16_1k and bf16: the same tree over four or two products, each step flushed. Where all products and accumulators
// are multiples of a normal number, nothing can be subnormal; if no product overflows, they may be fused. f16 inputs are
// converted first, to nearest (F16) or by truncation (F16_CUT).
enum : u32 { F16_CUT = CUT | F16 };
template <int PRODUCTS> struct Gfx90aBf16 : MatrixCore16<BF16> {
    static constexpr int GROUP = PRODUCTS;
    static constexpr bool WATCHES = true, LONG = PRODUCTS == 4;
    typedef float Wide;
    static __device__ inline float wide(float x) { return x; }
    static __device__ inline float load(const void *from, u64 index, u32 dtype) {
        const u32 bits = ((const u16 *)from)[index];
        return dtype == BF16 ? decode_to_f32<BF16>(bits) : f16_to_f32(bits);
    }
    static __device__ inline float prepare(float x, u32 dtype) {
        const u32 bits = bits_of(x);
        if (dtype != BF16 && x == x) x = f32_of((dtype == F16 ? bits + 0x7fff + (bits >> 16 & 1) : bits) & 0xffff0000u);
        return drop(x, 1.17549435e-38f);
    }
    static __device__ inline float accept(const TensorCoreRule &, float c) { return drop(c, 1.17549435e-38f); }
    // All are multiples of 2^unit; no product is above most_a * most_b.
    static __device__ inline bool tame(i32 unit, double, float most_a, float most_b) {
        return unit >= -126 && most_a * most_b < 1.70141183e+38f;
    }
    template <bool TAME, int N> static __device__ inline void row(const TensorCoreRule &, float (&c)[N], const float *a, const float (*b)[N]) {
        constexpr int Y = PRODUCTS - 2, Z = PRODUCTS - 1;
#pragma unroll
        for (int j = 0; j < N; ++j) {
            if (TAME) {
                float sum = fmaf(a[0], b[0][j], a[1] * b[1][j]);
                if (PRODUCTS == 4) sum = sum + fmaf(a[Y], b[Y][j], a[Z] * b[Z][j]);
                c[j] = c[j] + sum;
            } else {
                float sum = flush(flush(a[0] * b[0][j]) + flush(a[1] * b[1][j]));
                if (PRODUCTS == 4) sum = flush(sum + flush(flush(a[Y] * b[Y][j]) + flush(a[Z] * b[Z][j])));
                c[j] = flush(c[j] + sum);
            }
        }
    }
};

// gfx908: the exact sum of c and four f16 (two bf16) products, rounded once.
template <int PRODUCTS> struct Gfx908 : MatrixCore16<PRODUCTS == 4 ? F16 : BF16> {
    static constexpr int GROUP = PRODUCTS;
    static constexpr bool WATCHES = true, LONG = true;
    typedef double Wide;
    static __device__ inline double wide(float x) { return (double)x; }
    static __device__ inline float prepare(float x, u32) { return x; }
    static __device__ inline float accept(const TensorCoreRule &, float c) { return c; }

    // Whether every sum is exact in f64: all are multiples of 2^unit, and none reaches 2^53 of it.
    static __device__ inline bool tame(i32 unit, double reach, float, float) { return reach < exp2_f64(unit + 53); }

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
            high[k] = fma(a[k], b[k], cut) - cut;
            low[k] = fma(a[k], b[k], -high[k]);
        }
        const double upper = (high[0] + high[1]) + (high[PRODUCTS - 2] + high[PRODUCTS - 1]);
        const double lower = (low[0] + low[1]) + (low[PRODUCTS - 2] + low[PRODUCTS - 1]);
        sum = upper + lower;
        error = lower - (sum - upper);
    }

    // c and the products, rounded at each step: right if each sum is exact, and for infinities and NaN.
    static __device__ inline double plainly(float c, const double *a, const double *b) {
        double sum = (double)c;
#pragma unroll
        for (int k = 0; k < PRODUCTS; ++k) sum = fma(a[k], b[k], sum);
        return sum;
    }

    // Always right: error-free sums, then rounding to odd before the conversion to f32.
    static __device__ inline float exactly(float c, const double *a, const double *b) {
        double sum, error, high, l, lowest;
        products(a, b, sum, error);
        two_sum(sum, (double)c, high, l);
        if (!(fabs(high) < 8.9e307)) return (float)plainly(c, a, b);
        two_sum(l, error, l, lowest);
        const double top = high + l;
        const double rest = (l - (top - high)) + lowest;
        const u64 bits = bits_of(top);
        const u64 odd = (bits_of(rest) ^ bits) >> 63 ? bits - 1 : bits + 1;
        return (float)((rest != 0.0 && (bits & 1) == 0 ? f64_of(odd) : top) + 0.0);
    }

    template <bool TAME, int N> static __device__ inline void row(const TensorCoreRule &, float (&c)[N], const double *a, const double (*b)[N]) {
#pragma unroll
        for (int j = 0; j < N; ++j) {
            double column[PRODUCTS];
#pragma unroll
            for (int k = 0; k < PRODUCTS; ++k) column[k] = b[k][j];
            // An exact zero is +0. A negative sum of bf16 products below f32's least number is not an exact zero.
            if (!TAME) c[j] = exactly(c[j], a, column);
            else if (PRODUCTS == 4) c[j] = (float)plainly(c[j], a, column) + 0.0f;
            else c[j] = (float)(plainly(c[j], a, column) + 0.0);
        }
    }
};

// Factors of sums that are aligned by exponents. One rule serves all formats, which are known at run time: they differ only in the preparation.
//
// An input is a word: sign in bit 31, a significand with 12 fraction bits (two more than any format has) in bits 16 to 30, and
// a biased exponent below; the sum of two such exponents alone tells whether there is a zero, an infinity or a NaN.
struct MatrixCoreWords : MatrixCore {
    static constexpr bool LONG = true;
    static constexpr int EACH = 4;
    typedef u32 Input;
    typedef u32 Wide;
    static constexpr i32 BIAS = 2048, ZERO = -600, INFINITE = 3000, NOT_A_NUMBER = 8000;

    static __device__ inline u32 wide(u32 x) { return x; }
    static __device__ inline float accept(const TensorCoreRule &, float c) { return c; }
    static __device__ inline float load(const void *from, u64 index, u32 dtype) {
        switch (dtype) {
        case F16: return decode_to_f32<F16>(((const u16 *)from)[index]);
        case BF16: return decode_to_f32<BF16>(((const u16 *)from)[index]);
        case F8E4M3FNUZ: return decode_to_f32<F8E4M3FNUZ>(((const u8 *)from)[index]);
        case F8E4M3: return decode_to_f32<F8E4M3>(((const u8 *)from)[index]);
        case F8E5M2: return decode_to_f32<F8E5M2>(((const u8 *)from)[index]);
        case F8E5M2FNUZ: return decode_to_f32<F8E5M2FNUZ>(((const u8 *)from)[index]);
        default: return ((const float *)from)[index];
        }
    }
    static __device__ inline u32 prepare(float x, u32 dtype) {
        // The least normal exponent of the format; xf32 and tf32 lose their low bits by the shift.
        const i32 least = dtype == F16 || dtype == F8E5M2 ? -14 : dtype == F8E4M3 ? -6 : dtype == F8E4M3FNUZ ? -7 : dtype == F8E5M2FNUZ ? -15 : -126;
        const u32 bits = bits_of(x);
        const i32 field = (i32)(bits >> 23 & 0xff);
        u32 significand = (bits >> 13 & 0x3ff) | (field ? 0x400u : 0);
        i32 exponent = field ? field - 127 : -126;
        if (exponent < least) {
            significand = least - exponent < 31 ? significand >> (least - exponent) : 0;
            exponent = least;
        }
        if (field == 0xff) exponent = significand != 0x400 ? NOT_A_NUMBER : INFINITE;
        else if (significand == 0) exponent = ZERO;
        return (bits & 0x80000000u) | significand << 18 | (u32)(exponent + BIAS);
    }

    static __device__ inline i32 least_of(i32 x, i32 y) { return x < y ? x : y; }
    static __device__ inline i32 larger(i32 x, i32 y) { return x > y ? x : y; }
    static __device__ inline i32 exponent_sum(u32 a, u32 b) { return (i32)((a & 0xffff) + (b & 0xffff)) - 2 * BIAS; }
    static __device__ inline u32 magnitude(u32 a, u32 b) { return (a >> 16 & 0x7fff) * (b >> 16 & 0x7fff); }
};

// gfx942: products truncated at 24 fraction bits below the largest exponent among them, c and their sum rounded down, the
// total normalised and rounded down at 31 fraction bits, then rounded. HALVES: even and odd products are summed separately first.
template <int PRODUCTS, bool HALVES> struct Gfx942 : MatrixCoreWords {
    static constexpr int GROUP = PRODUCTS;
    // Sums of two exponents: below NOTHING a factor is zero, from LARGE on a product may be infinite or NaN.
    static constexpr i32 NOTHING = -300, LARGE = 127;
    // Fraction bits: of truncated products, and of their sum when c is larger.
    static constexpr i32 F = 24, KEEP = 32;

    // Whether something is infinite (a product of 2^128 or more is) or NaN; then `sum` is the IEEE sum of all such values.
    template <int N> static __device__ inline bool special(float c, const u32 *a, const u32 (*b)[N], int j, float &sum) {
        bool nan = false, above = false, below = false;
#pragma unroll
        for (int k = 0; k < PRODUCTS; ++k) {
            const i32 e = exponent_sum(a[k], b[k][j]);
            nan = nan || e >= NOT_A_NUMBER - 1000 || e == INFINITE + ZERO;
            const bool infinite = e > LARGE || (e == LARGE && magnitude(a[k], b[k][j]) >> 25 != 0);
            const bool negative = (a[k] ^ b[k][j]) >> 31;
            above = above || (infinite && !negative);
            below = below || (infinite && negative);
        }
        if (!HALVES) {
            nan = nan || c != c;
            above = above || c > 3.40282347e+38f;
            below = below || c < -3.40282347e+38f;
        }
        sum = f32_of(nan || (above && below) ? 0x7fc00000u : above ? 0x7f800000u : 0xff800000u);
        return nan || above || below;
    }

    // The sum of products plus c: aligned, rounded down, added, normalised, rounded down, rounded to f32.
    static __device__ inline float add(i32 units, i32 top, float c) {
        if (top < NOTHING) return c + 0.0f;
        const u32 bits = bits_of(c);
        const i32 field = (i32)(bits >> 23 & 0xff);
        const bool finite = field != 0xff;
        const i32 e_c = finite ? larger(field, 1) - 127 : HALVES ? -1 : 128;
        const i32 e = larger(top, e_c);
        i32 significand = (i32)((bits & 0x7fffff) | (field ? 0x800000u : 0));
        if (bits >> 31) significand = -significand;
        if (HALVES && e_c < e - 25) significand = 0;
        else if (!finite) return c;
        // A multiplication in place of a left shift, which C++17 does not define for negative numbers.
        constexpr i64 SCALE = (i64)1 << (KEEP - F);
        const i64 c_units = (significand * 2 >> least_of(e - e_c, 31)) * SCALE;
        const i64 total = (units * SCALE >> least_of(e - top, 63)) + c_units;
        const i32 excess = larger(32 - (i32)__clzll(total < 0 ? -total : total), 0);
        return (float)((double)(total >> excess) * exp2_f64(excess + e - KEEP));
    }

    template <bool TAME, int N> static __device__ inline void row(const TensorCoreRule &, float (&c)[N], const u32 *a, const u32 (*b)[N]) {
        constexpr int PARTS = HALVES ? 2 : 1;
#pragma unroll
        for (int j = 0; j < N; ++j) {
            i32 e[PRODUCTS], top[2] = {-4096, -4096}, units[2] = {0, 0};
#pragma unroll
            for (int k = 0; k < PRODUCTS; ++k) {
                e[k] = exponent_sum(a[k], b[k][j]);
                top[k % PARTS] = larger(top[k % PARTS], e[k]);
            }
            const i32 most = larger(top[0], top[1]);
            if (most >= LARGE || !(fabsf(c[j]) <= 3.40282347e+38f)) {
                float sum;
                if (special<N>(c[j], a, b, j, sum)) {
                    c[j] = sum;
                    continue;
                }
            }
#pragma unroll
            for (int k = 0; k < PRODUCTS; ++k) {
                const i32 size = (i32)(magnitude(a[k], b[k][j]) >> least_of(top[k % PARTS] - e[k], 31));
                const i32 sign = (i32)(a[k] ^ b[k][j]) >> 31;
                units[k % PARTS] += (size ^ sign) - sign;
            }
            if (HALVES) units[0] = (units[0] >> least_of(most - top[0], 31)) + (units[1] >> least_of(most - top[1], 31));
            c[j] = add(units[0], most, c[j]);
        }
    }
};

// Tensor cores: c and the products of a group truncated at `bits` fraction bits below the largest exponent among them, added and rounded toward zero
// to f32 with `fraction` bits; if these are 10, to f16 and to nearest even. Zeros have the exponent `zero`.
template <int PRODUCTS> struct TensorCore : MatrixCoreWords {
    static constexpr int GROUP = PRODUCTS;
    // The factors of a large group fill the registers, so the sum for an element is in the code once.
    static constexpr int EACH = PRODUCTS > 16 ? 1 : PRODUCTS > 8 ? 2 : 4;
    // From the first number on, a sum of two exponents contains an infinity or a NaN, and from the second on a NaN.
    static constexpr i32 SPECIAL = 2000, NANS = 7000;

    static __device__ inline bool in_f16(const TensorCoreRule &rule) { return rule.fraction == 10; }
    static __device__ inline float canonical(float x) { return x != x ? f32_of(0x7fffffffu) : x; }
    static __device__ inline float accept(const TensorCoreRule &rule, float c) { return in_f16(rule) ? f16_to_f32(f32_to_f16(c)) : c; }
    // A significand with FROM fraction bits, truncated to `bits` fraction bits and by `down` more.
    template <int FROM> static __device__ inline u32 cut(i32 bits, u32 significand, i32 down) {
        return (significand << larger(bits - FROM, 0)) >> least_of(down + larger(FROM - bits, 0), 31);
    }
    // `size` without its last bits.
    static __device__ inline u64 rounded(const TensorCoreRule &rule, u64 size, i32 down) {
        const u64 kept = size >> least_of(down, 63);
        if (!in_f16(rule) || down == 0) return kept;
        const u64 rest = size - (kept << down), tie = (u64)1 << (down - 1);
        return kept + (rest > tie || (rest == tie && (kept & 1)));
    }

    // The IEEE sum of the values that are infinite or NaN.
    template <int N> static __device__ inline float special(float c, const u32 *a, const u32 (*b)[N], int j, int first, int step) {
        bool nan = c != c, above = c > 3.40282347e+38f, below = c < -3.40282347e+38f;
#pragma unroll
        for (int i = 0; i < PRODUCTS; ++i) {
            const int k = first + (i & 1) + (i >> 1) * step;
            const i32 e = exponent_sum(a[k], b[k][j]);
            const bool negative = (a[k] ^ b[k][j]) >> 31;
            nan = nan || e >= NANS || e == INFINITE + ZERO;
            above = above || (e >= SPECIAL && !negative);
            below = below || (e >= SPECIAL && negative);
        }
        return f32_of(nan || (above && below) ? 0x7fffffffu : above ? 0x7f800000u : 0xff800000u);
    }

    // c and the products with k = first, first + 1, first + step, first + step + 1 ...
    template <int N> static __device__ inline float sum(const TensorCoreRule &rule, float c, const u32 *a, const u32 (*b)[N], int j, int first, int step) {
        const i32 lowest = in_f16(rule) ? -14 : -126; // the exponent of the least normal accumulator
        const u32 bits = bits_of(c);
        const i32 field = (i32)(bits >> 23 & 0xff);
        u32 significand = (bits & 0x7fffff) | (field ? 0x800000u : 0);
        i32 e_c = significand ? larger(field, 1) - 127 : rule.zero;
        if (significand && e_c < lowest) { // subnormal as f16: nothing is shifted out
            significand >>= lowest - e_c;
            e_c = lowest;
        }
        i32 top = e_c;
#pragma unroll
        for (int i = 0; i < PRODUCTS; ++i) {
            const int k = first + (i & 1) + (i >> 1) * step;
            top = larger(top, exponent_sum(a[k], b[k][j]));
        }
        if (top >= SPECIAL || field == 0xff) return special<N>(c, a, b, j, first, step);
        const i64 c_units = (i64)cut<23>(rule.bits, significand, top - e_c);
        i64 units = bits >> 31 ? -c_units : c_units;
#pragma unroll
        for (int i = 0; i < PRODUCTS; ++i) {
            const int k = first + (i & 1) + (i >> 1) * step;
            const i32 size = (i32)cut<24>(rule.bits, magnitude(a[k], b[k][j]), top - exponent_sum(a[k], b[k][j]));
            const i32 sign = (i32)(a[k] ^ b[k][j]) >> 31;
            units += (size ^ sign) - sign;
        }
        // A result that is zero after rounding is +0, and one beyond the accumulator's format is infinite.
        const u64 size = (u64)(units < 0 ? -units : units);
        const i32 unit = top - rule.bits, last = larger(63 - (i32)__clzll((i64)(size | 1)) + unit, lowest) - rule.fraction;
        const i32 down = larger(last - unit, 0);
        const float value = (float)((double)rounded(rule, size, down) * exp2_f64(unit + down));
        const float x = in_f16(rule) && value >= 65536.0f ? f32_of(0x7f800000u) : value;
        return units < 0 && x != 0.0f ? -x : x;
    }

    template <bool TAME, int N> static __device__ inline void row(const TensorCoreRule &rule, float (&c)[N], const u32 *a, const u32 (*b)[N]) {
#pragma unroll
        for (int j = 0; j < N; ++j) c[j] = sum<N>(rule, c[j], a, b, j, 0, 2);
    }
};

// mma.sync of fp8 on Hopper: two chained sums of f16 products from zero, the first one over the first two of each four products; then c is added.
struct EmulatedFp8 : TensorCore<16> {
    static constexpr int GROUP = 32;
    static constexpr int EACH = 1;
    // As an f16 number: subnormal e4m3 numbers are normal there.
    static __device__ inline u32 wide(u32 x) {
        const i32 exponent = (i32)(x & 0xffff) - BIAS;
        const u32 significand = x >> 16 & 0x7fff;
        if (exponent < -14 || exponent > 127 || significand == 0) return x;
        const i32 up = least_of((i32)__clzll((i64)significand) - 51, exponent + 14);
        if (up <= 0) return x;
        return (x & 0x80000000u) | significand << (16 + up) | (u32)(exponent - up + BIAS);
    }
    template <bool TAME, int N> static __device__ inline void row(const TensorCoreRule &rule_, float (&c)[N], const u32 *a, const u32 (*b)[N]) {
        // The rule for f16 products: as a constant it saves registers.
        TensorCoreRule rule = rule_;
        rule.bits = 25;
#pragma unroll
        for (int j = 0; j < N; ++j) {
            const float products = sum<N>(rule, 0.0f, a, b, j, 0, 4);
            c[j] = accept(rule, sum<N>(rule, products, a, b, j, 2, 4) + c[j]);
        }
    }
};
