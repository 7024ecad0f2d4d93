// Number formats on the device: decode and encode of every DType, equal bit for bit to `FloatFormat` and `IntFormat` of the
// Rust crate, which define them. Compiled by hipcc, hipRTC and nvcc; needs IEEE denormals and no contraction of a*b+c.
//
//   decode_to_f32<DTYPE>(bits)    exact; F64 and integers above 24 bits round to nearest even
//   encode_from_f32<DTYPE>(x)     nearest even, saturating
//   encode_any(dtype, x, ...)     from f64, with a format known at run time only; toward zero or to infinity if asked
//   encode_in_range, encode_within   short forms for generated numbers
//
// Bits are zero-extended. A NaN loses its payload, except in F64 and F32.
#pragma once

#include "abi.h"

// Every function is inlined: a call needs a stack in scratch memory, and registers for the largest callee. Up to ROCm 6.3 hipcc inlined all of them by itself.
#if defined(__AMDGCN__)
#undef __device__
#define __device__ __attribute__((device, always_inline))
#define DEVICE_DATA __attribute__((device))
#else
#define DEVICE_DATA __device__
#endif

// A vector of N numbers: clang's own kind where there is one, else that of other C++ compilers.
#if defined(__clang__)
#define VECTOR(T, N) T __attribute__((ext_vector_type(N)))
#else
#define VECTOR(T, N) T __attribute__((vector_size((N) * sizeof(T))))
#endif

// The numbering of Rust's `DType`.
#define FORMAT(name, number, ...) name = number,
enum : u32 {
#include "formats_table.h"
};
#undef FORMAT

// Which patterns are not finite numbers; see `Specials`. INTEGER marks formats that are not floats.
enum : u32 { IEEE = 0, SINGLE_NAN = 1, NEGATIVE_ZERO_NAN = 2, FINITE = 3, E8M0 = 4, INTEGER = 5 };

struct Format {
    u32 bits;          // in memory
    u32 exponent_bits; // of integers: 1 of truth values
    u32 mantissa_bits; // of integers: 1 when signed
    i32 bias;
    u32 specials;
    u32 pad_bits;
};

#define FORMAT(name, number, ...) case name: return {__VA_ARGS__};
__host__ __device__ constexpr Format format_of(u32 dtype) {
    switch (dtype) {
#include "formats_table.h"
    default: return {};
    }
}
#undef FORMAT

// The same of a format known at run time only: a table is shorter than branches, of which each caller has its own.
#define FORMAT(name, number, ...) {__VA_ARGS__},
DEVICE_DATA const Format FORMATS[] = {
#include "formats_table.h"
};
#undef FORMAT
__device__ inline Format format_at(u32 dtype) { return FORMATS[dtype]; }

__device__ inline u32 bits_of(float x) { return __float_as_uint(x); }
__device__ inline u64 bits_of(double x) { return (u64)__double_as_longlong(x); }
__device__ inline float f32_of(u32 bits) { return __uint_as_float(bits); }
__device__ inline double f64_of(u64 bits) { return __longlong_as_double((i64)bits); }

// 2^e, for normal results.
__device__ inline float exp2_f32(i32 e) { return f32_of((u32)(e + 127) << 23); }
__device__ inline double exp2_f64(i32 e) { return f64_of((u64)(e + 1023) << 52); }

// f16 by the instructions that every GPU has.
#if defined(__CUDA_ARCH__)
__device__ inline float f16_to_f32(u32 bits) {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"((u16)bits));
    return x;
}
__device__ inline u32 f32_to_f16(float x) {
    u16 bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
}
#else
__device__ inline float f16_to_f32(u32 bits) {
    union { u16 bits; _Float16 half; } u;
    u.bits = (u16)bits;
    return (float)u.half;
}
__device__ inline u32 f32_to_f16(float x) {
#if defined(__AMDGCN__)
    // Otherwise clang merges the conversion with an fma that computes x (v_fma_mixlo_f16), whatever -ffp-contract says, and GPUs may round that once.
    asm("" : "+v"(x));
#endif
    union { u16 bits; _Float16 half; } u;
    u.half = (_Float16)x;
    return u.bits;
}
#endif

// The value of a pattern of a float format no wider than f32: the fields are moved to their positions in an f32, and one exact
// multiplication corrects the bias, also for subnormals.
__device__ inline float decode_small(Format f, u32 bits) {
    bits >>= f.pad_bits;
    const u32 magnitude_bits = f.exponent_bits + f.mantissa_bits;
    const u32 magnitude = bits & ((1u << magnitude_bits) - 1);
    const float nan = f32_of(0x7fc00000u);
    if (f.specials == E8M0) return magnitude == 0xff ? nan : f32_of(magnitude == 0 ? 0x00400000u : magnitude << 23);
    const u32 sign = (bits >> magnitude_bits & 1) << 31;
    const float value = f32_of(sign | magnitude << (23 - f.mantissa_bits)) * exp2_f32(127 - f.bias);
    const u32 infinity = ((1u << f.exponent_bits) - 1) << f.mantissa_bits;
    if (f.specials == IEEE && magnitude >= infinity) return magnitude > infinity ? nan : f32_of(sign | 0x7f800000u);
    if (f.specials == SINGLE_NAN && magnitude == (1u << magnitude_bits) - 1) return nan;
    if (f.specials == NEGATIVE_ZERO_NAN && sign != 0 && magnitude == 0) return nan;
    return value;
}

__device__ inline i64 decode_int(Format f, u64 bits) {
    if (f.exponent_bits) return bits != 0;
    const u32 shift = 64 - f.bits;
    return f.mantissa_bits ? (i64)(bits << shift) >> shift : (i64)(bits << shift >> shift);
}

// The numbers of u64 have the patterns that `decode_int` returns.
__device__ constexpr bool is_u64(Format f) { return f.specials == INTEGER && f.bits == 64 && !f.mantissa_bits; }
__device__ inline double int_to_f64(Format f, u64 bits) { return is_u64(f) ? (double)bits : (double)decode_int(f, bits); }

// A number of any integer format. No integer type holds both i64 and u64.
struct Whole {
    u64 size;
    bool negative;
    Whole() = default;
    __device__ Whole(u64 size_, bool negative_) : size(size_), negative(negative_) {}
    // For any format except u64.
    __device__ Whole(i64 x) : size(x < 0 ? 0 - (u64)x : (u64)x), negative(x < 0) {}
    __device__ explicit operator double() const { return negative ? -(double)size : (double)size; }
};
__device__ inline Whole decode_whole(Format f, u64 bits) { return is_u64(f) ? Whole(bits, false) : Whole(decode_int(f, bits)); }

template <u32 DTYPE> __device__ inline float decode_to_f32(u64 bits) {
    constexpr Format f = format_of(DTYPE);
    if constexpr (DTYPE == F64) return (float)f64_of(bits);
    else if constexpr (DTYPE == F32) return f32_of((u32)bits);
    else if constexpr (DTYPE == TF32) return f32_of((u32)bits & ~0x1fffu);
    else if constexpr (DTYPE == F16) return f16_to_f32((u32)bits);
    else if constexpr (DTYPE == BF16) return f32_of((u32)bits << 16);
    else if constexpr (DTYPE == F8E5M2) return f16_to_f32((u32)bits << 8 & 0xffff);
    else if constexpr (f.specials == INTEGER && f.bits < 32 + f.mantissa_bits) return (float)(i32)decode_int(f, bits); // a number of i32
    else if constexpr (is_u64(f)) return (float)bits;
    else if constexpr (f.specials == INTEGER) return (float)decode_int(f, bits);
    else return decode_small(f, (u32)bits);
}

__device__ inline u64 largest_of(Format f) {
    const u64 ones = (1ull << (f.exponent_bits + f.mantissa_bits)) - 1;
    if (f.specials == IEEE) return ones - (1ull << f.mantissa_bits);
    return f.specials == SINGLE_NAN || f.specials == E8M0 ? ones - 1 : ones;
}

__device__ inline u64 nan_of(Format f) {
    const u64 width = f.exponent_bits + f.mantissa_bits;
    if (f.specials == IEEE) return (((1ull << f.exponent_bits) - 1) << f.mantissa_bits) | 1ull << (f.mantissa_bits - 1);
    if (f.specials == NEGATIVE_ZERO_NAN) return 1ull << width;
    return f.specials == FINITE ? 0 : (1ull << width) - 1;
}

// The pattern of |x| by sign, exponent and significand: |x| = significand * 2^(exponent - digits), x finite. WORD is wide enough
// for the significand.
template <typename WORD>
__device__ inline u64 round_to(Format f, WORD significand, i32 exponent, i32 digits, bool toward_zero, bool saturate) {
    if (significand == 0) return 0;
    const i32 least = f.specials == E8M0 ? -f.bias : 1 - f.bias;
    const i32 top = exponent > least ? exponent : least;
    i32 drop = top - (i32)f.mantissa_bits - (exponent - digits);
    const i32 most = 8 * (i32)sizeof(WORD) - 1;
    drop = drop < 0 ? 0 : drop > most ? most : drop;
    WORD quotient = significand >> drop;
    const WORD rest = significand & (((WORD)1 << drop) - 1);
    const WORD half = ((WORD)1 << drop) >> 1;
    if (!toward_zero && drop > 0 && (rest > half || (rest == half && (quotient & 1)))) quotient += 1;
    const i64 field = top - least;
    i64 bits = (i64)quotient + (field << f.mantissa_bits);
    if (f.specials == E8M0) bits = bits - 1 < 0 ? 0 : bits - 1;
    const u64 largest = largest_of(f);
    if ((u64)bits > largest) {
        if (toward_zero || saturate || f.specials == FINITE) return largest;
        return f.specials == IEEE ? ((1ull << f.exponent_bits) - 1) << f.mantissa_bits : nan_of(f);
    }
    return (u64)bits;
}

__device__ inline u64 with_sign(Format f, u64 magnitude, bool negative) {
    const bool unsigned_result = f.specials == E8M0 || (f.specials == NEGATIVE_ZERO_NAN && (magnitude == 0 || magnitude == nan_of(f)));
    const u64 sign = negative && !unsigned_result ? 1ull << (f.exponent_bits + f.mantissa_bits) : 0;
    return (magnitude | sign) << f.pad_bits;
}

__device__ inline u64 beyond(Format f, bool saturate) {
    if (saturate || f.specials == FINITE) return largest_of(f);
    return f.specials == IEEE ? ((1ull << f.exponent_bits) - 1) << f.mantissa_bits : nan_of(f);
}

__device__ inline u64 encode_float(Format f, double x, bool toward_zero, bool saturate) {
    const u64 bits = bits_of(x);
    const bool negative = bits >> 63;
    const u64 magnitude = bits & 0x7fffffffffffffffull;
    const u64 infinity = 0x7ffull << 52;
    if (f.mantissa_bits == 52) return saturate && magnitude == infinity ? bits - 1 : bits;
    if (magnitude > infinity) return f.specials == FINITE ? 0 : with_sign(f, nan_of(f), negative);
    if (magnitude == infinity) return with_sign(f, beyond(f, saturate), negative);
    // f64 subnormals are far below half of every other format's least number: they become 0 even without being normalised.
    const u64 fraction = magnitude & ((1ull << 52) - 1);
    const i32 field = (i32)(magnitude >> 52);
    const u64 significand = field ? fraction | 1ull << 52 : fraction;
    return with_sign(f, round_to<u64>(f, significand, field ? field - 1023 : -1022, 52, toward_zero, saturate), negative);
}

// The same from f32, in 32-bit words. Not for F64 and F8E8M0, which have numbers below f32's normal numbers.
__device__ inline u32 encode_float32(Format f, float x) {
    const u32 bits = bits_of(x);
    const bool negative = bits >> 31;
    const u32 magnitude = bits & 0x7fffffffu;
    const u32 infinity = 0xffu << 23;
    if (magnitude > infinity) return f.specials == FINITE ? 0 : (u32)with_sign(f, nan_of(f), negative);
    if (magnitude == infinity) return (u32)with_sign(f, beyond(f, true), negative);
    const i32 field = (i32)(magnitude >> 23);
    const u32 significand = field ? (magnitude & 0x7fffffu) | 0x800000u : magnitude;
    return (u32)with_sign(f, round_to<u32>(f, significand, field ? field - 127 : -126, 23, false, true), negative);
}

// Not for u64.
__device__ inline i64 largest_int(Format f) {
    if (f.exponent_bits) return 1;
    return f.mantissa_bits ? (i64)((1ull << (f.bits - 1)) - 1) : (i64)((1ull << f.bits) - 1);
}

__device__ inline u64 encode_int(Format f, double x, bool toward_zero) {
    const double whole = toward_zero ? trunc(x) : rint(x);
    if (is_u64(f)) return whole >= 18446744073709551616.0 ? ~0ull : whole > 0 ? (u64)whole : 0;
    const i64 most = largest_int(f);
    const i64 least = f.mantissa_bits ? -most - 1 : 0;
    i64 value;
    if (whole != whole) value = 0;
    else if (whole >= 9223372036854775808.0) value = most;
    else if (whole < -9223372036854775808.0) value = least;
    else value = (i64)whole;
    value = value < least ? least : value > most ? most : value;
    return (u64)value & (~0ull >> (64 - f.bits));
}

__device__ inline u64 encode_any(Format f, double x, bool toward_zero, bool saturate) {
    return f.specials == INTEGER ? encode_int(f, x, toward_zero) : encode_float(f, x, toward_zero, saturate);
}

__device__ inline u64 encode_any(u32 dtype, double x, bool toward_zero = false, bool saturate = true) {
    return encode_any(format_at(dtype), x, toward_zero, saturate);
}

template <u32 DTYPE> __device__ inline u64 encode_from_f32(float x) {
    constexpr Format f = format_of(DTYPE);
    if constexpr (DTYPE == F32) return (bits_of(x) & 0x7fffffffu) == 0x7f800000u ? bits_of(x) - 1 : bits_of(x);
    else if constexpr (f.specials == INTEGER || DTYPE == F64 || DTYPE == F8E8M0) return encode_any(f, (double)x, false, true);
    else return encode_float32(f, x);
}

// A finite x within the format's range, nearest even: the short form for generated numbers.
template <u32 DTYPE> __device__ inline u32 encode_in_range(float x) {
    if constexpr (DTYPE == F16) return f32_to_f16(x);
    else if constexpr (DTYPE == BF16) {
        const u32 bits = bits_of(x);
        return (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
    } else if constexpr (DTYPE == TF32) {
        const u32 bits = bits_of(x);
        return (bits + 0xfffu + (bits >> 13 & 1)) & ~0x1fffu;
    } else return (u32)encode_from_f32<DTYPE>(x);
}

// The same with a float format known at run time only, of at most 16 bits and not E8M0. Below its normal numbers, adding a power of two whose last bit
// is the format's least number rounds; above, rounding happens where the excess bits are cut off. Both carry into the next binade without further steps.
__device__ inline u32 encode_within(const Format &f, float x) {
    const u32 bits = bits_of(x), magnitude = bits & 0x7fffffffu, drop = 23 - f.mantissa_bits;
    const i32 least = 1 - f.bias; // of the normal numbers: 2^least
    const float power = exp2_f32(least + (i32)drop);
    const u32 below = bits_of(f32_of(magnitude) + power) - bits_of(power);
    const u32 above = (magnitude + ((1u << drop) / 2 - 1) + (magnitude >> drop & 1)) >> drop;
    const u32 pattern = f32_of(magnitude) < exp2_f32(least) ? below : above - ((u32)(127 - f.bias) << f.mantissa_bits);
    const u32 sign = f.specials == NEGATIVE_ZERO_NAN && pattern == 0 ? 0 : bits >> 31;
    return pattern | sign << (f.exponent_bits + f.mantissa_bits);
}
