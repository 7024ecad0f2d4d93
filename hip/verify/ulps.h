// Distances in ulps: exact, and a test of whether one can be as large as the current maxima.
#pragma once
#include "any.h"
#include "verify/maxima.h"

// A pattern's place in the order of its format.
__device__ inline i64 ordinal(u32 dtype, u64 bits) {
    const Format f = format_of(dtype);
    // Half of the numbers of u64 are below 0 here: only distances matter.
    if (f.specials == INTEGER) return is_u64(f) ? (i64)(bits ^ 1ull << 63) : decode_int(f, bits);
    if (f.specials == E8M0) return (i64)(bits & 0xff);
    const u32 width = f.exponent_bits + f.mantissa_bits;
    bits >>= f.pad_bits;
    const i64 magnitude = (i64)(bits & ((1ull << width) - 1));
    return bits >> width & 1 ? -magnitude : magnitude;
}

__device__ inline bool wide_integers(const VerifyParams &p) {
    const Format a = format_of(p.a.dtype), r = format_of(p.r.dtype);
    return a.specials == INTEGER && r.specials == INTEGER && (a.bits >= 32 || r.bits >= 32);
}

// Steps of the result's format from a to r; a wide integer's distance is that of the numbers.
template <class Arith> __device__ inline double ulps_between(const VerifyParams &p, u64 bits_a, u64 bits_r, typename Arith::N a, typename Arith::N r) {
    if (Arith::EXACT || wide_integers(p)) return (double)distance(a, r);
    const i64 x = ordinal(p.a.dtype, bits_a), y = ordinal(p.a.dtype, p.a.dtype == p.r.dtype ? bits_r : encode_any(p.a.dtype, (double)r));
    return (double)(x > y ? (u64)x - (u64)y : (u64)y - (u64)x);
}

// Tests whether a pair is further apart than the maximum of the subgroup, and at least as far as that of all. Numbers are scaled so that those of the result's format, least
// subnormal included, have patterns of T that are evenly spaced: the distance of patterns is then that in ulps, but for the rounding of the reference to the result's format. A
// pair is k ulps apart when its patterns are more than k - 1/2 ulps apart, or just as far and the reference, between two numbers, is rounded to the further one: to the even one.
template <typename T> struct UlpTest {
    typedef typename Real<T>::Bits Bits;
    bool integers;
    T low, high, limit; // integers
    T scale;
    Bits largest, steps;
    // Where the last bit of a result's number is in its pattern, and what it is in those for which a tie is rounded away. Where nothing is rounded, the sign, which patterns do not have.
    u32 last, away;
    __device__ UlpTest(const VerifyParams &p, u64 own, u64 elsewhere) {
        const Format f = format_of(p.a.dtype);
        const double mine = f64_of(own), others = f64_of(elsewhere), reach = (mine >= others ? mine + 1 : others) - 0.5;
        integers = f.specials == INTEGER;
        const bool exact = wide_integers(p);
        // Wide integers are not exact in f64.
        limit = (T)(f.bits == 64 && !exact ? reach - 4096 : reach);
        high = exact ? Real<T>::max() : (T)(is_u64(f) ? 18446744073709551616.0 : (double)largest_int(f));
        low = exact ? -Real<T>::max() : f.mantissa_bits ? (T)-pow2(f.bits - 1) : 0;
        const i32 own_least = 1 - Real<T>::BIAS, least = 1 - f.bias;
        scale = integers ? 1 : (T)pow2(f.specials == E8M0 ? 0 : own_least - least);
        const double unit = integers ? 1 : pow2(Real<T>::DIGITS - 1 - f.mantissa_bits);
        largest = integers ? 0 : bits_of(number<T>(p.a.dtype, largest_of(f) << f.pad_bits) * scale);
        const double many = ceil(reach * unit);
        // The least number of F8E8M0 is half a step from the next.
        steps = integers ? 0 : many < 4294967296.0 || sizeof(T) == 8 ? (Bits)many - (f.specials == E8M0 ? (Bits)(unit / 2) : 0) : ~(Bits)1;
        const bool rounds = !integers && f.specials != E8M0 && unit > 1;
        last = rounds ? Real<T>::DIGITS - 1 - f.mantissa_bits : 8 * sizeof(T) - 1, away = rounds ? (u32)(u64)(reach + 0.5) & 1 : 0;
    }
    __device__ Bits place(T x) const {
        const Bits place = bits_of(Real<T>::abs(x) * scale);
        return place < largest ? place : largest;
    }
    __device__ bool reached(T a, T r) const {
        if (integers) return Real<T>::abs(a - (r < low ? low : r > high ? high : r)) >= limit;
        const Bits x = place(a), y = place(r), least = steps + (((u32)(x >> last) ^ away) & 1);
        return ((a < 0) != (r < 0) ? x + y : x > y ? x - y : y - x) >= least;
    }
    __device__ bool reached(i64 a, i64 r) const { return (T)distance(a, r) >= limit; }
    __device__ bool reached(Whole a, Whole r) const { return (T)distance(a, r) >= limit; }
};
