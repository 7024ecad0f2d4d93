// Distances in ulps: exact, and a test of whether one can be as large as the current maxima.
#pragma once
#include "any.h"
#include "verify/maxima.h"

// A pattern's ordinal in its format.
__device__ inline i64 ordinal(Format f, u64 bits) {
    // Half of the numbers of u64 are below 0 here, which is right because only distances matter.
    if (f.specials == INTEGER) return is_u64(f) ? (i64)(bits ^ 1ull << 63) : decode_int(f, bits);
    if (f.specials == E8M0) return (i64)(bits & 0xff);
    const u32 width = f.exponent_bits + f.mantissa_bits;
    bits >>= f.pad_bits;
    const i64 magnitude = (i64)(bits & ((1ull << width) - 1));
    return bits >> width & 1 ? -magnitude : magnitude;
}

__device__ inline bool wide_integers(const VerifyParams &p) {
    const Format a = format_at(p.operands[0].dtype), r = format_at(p.operands[1].dtype);
    return a.specials == INTEGER && r.specials == INTEGER && (a.bits >= 32 || r.bits >= 32);
}

// Steps of the result's format from a to r; for wide integers the difference of the numbers. `pattern` says that of a: f64 does not hold all integers, while any number that f32 holds has its pattern.
template <class Arith, class Pattern> __device__ inline double ulps_between(const VerifyParams &p, Format f, typename Arith::N a, typename Arith::N r, Pattern pattern) {
    if (Arith::EXACT || wide_integers(p)) return (double)distance(a, r);
    i64 x = sizeof(a) == 4 ? 0 : ordinal(f, pattern()), y = x;
    // By one copy of the code.
#pragma unroll 1
    for (u32 k = sizeof(a) == 4 ? 0 : 1; k < 2; k++) x = y, y = ordinal(f, encode_any(f, (double)(k ? r : a), false, true));
    return (double)(x > y ? (u64)x - (u64)y : (u64)y - (u64)x);
}

// What distances in ulps take in the arithmetic T. Numbers are scaled so that those of the result's format, including the least subnormal, have patterns of T that are evenly spaced: the distance of patterns is then
// that in ulps, except for the rounding of the reference to the result's format. A pair that is k ulps apart has patterns that are at least k - 1/2 ulps apart, also if a scaled reference is subnormal and rounded to a
// point half-way between two numbers.
template <typename T> struct Ulps {
    typedef typename Real<T>::Bits Bits;
    bool integers, exact; // `exact`: wide integers, whose distance is the difference of the numbers
    bool whole_words, half_step; // of 64 bits; whether the least number is half a step from the next
    i32 shift; // the position of the last bit of a result's number in its pattern
    T scale;
    Bits largest;
    T low, high; // of integers
    __device__ void prepare(const VerifyParams &p, Format f) {
        integers = f.specials == INTEGER, exact = wide_integers(p), whole_words = f.bits == 64, half_step = f.specials == E8M0;
        shift = integers ? 0 : Real<T>::DIGITS - 1 - (i32)f.mantissa_bits;
        scale = integers ? (T)1 : (T)pow2(f.bias - Real<T>::BIAS), largest = integers ? 0 : (Bits)largest_of(f) << shift;
        high = exact ? Real<T>::max() : (T)(is_u64(f) ? 18446744073709551616.0 : (double)largest_int(f));
        low = exact ? -Real<T>::max() : f.mantissa_bits ? (T)-pow2(f.bits - 1) : 0;
    }
    // What a pair that is `ulps` apart reaches at least: a difference of integers, or of patterns. `ties`: whether patterns show halves of an ulp; `odd`: whether that many ulps are odd.
    struct Reach {
        T difference;
        Bits steps;
        bool ties, odd;
    };
    __device__ Reach reach(double ulps) const {
        const double half_less = ulps - 0.5, steps = ceil(half_less * pow2(shift));
        const bool fits = steps < 4294967296.0 || sizeof(T) == 8, ties = fits && shift > 0 && !half_step;
        // Wide integers are not exact in f64.
        return {(T)(whole_words && !exact ? half_less - 4096 : half_less), integers ? 0 : fits ? (Bits)steps - (half_step ? (Bits)1 << (shift - 1) : 0) : ~(Bits)1, ties, ties && ((u64)ulps & 1)};
    }
    // Whether a pair may be so far apart. A result is not beyond the largest number of its format. A reference half-way between two numbers is rounded to the even one, which is k ulps from the result if that is even as k is; it is
    // known to be half-way unless it may have been rounded when it was scaled.
    __device__ bool reached_patterns(const Reach &reach, T a, T r) const {
        const Bits x = bits_of(Real<T>::abs(a) * scale), y = capped(bits_of(Real<T>::abs(r) * scale)), apart = x > y ? x - y : y - x;
        const bool opposite = (bits_of(a) ^ bits_of(r)) >> (8 * sizeof(T) - 1);
        const bool nearer = reach.ties && y >= Real<T>::UNIT && ((x >> shift ^ (Bits)reach.odd) & 1);
        return (opposite ? x + y : apart) >= reach.steps + nearer;
    }
    // Those of E pairs, a bit each.
    template <int E> __device__ u32 reached(const Reach &reach, const T (&a)[E], const T (&r)[E]) const {
        u32 pairs = 0;
        if (integers)
#pragma unroll
            for (int i = 0; i < E; i++) pairs |= (u32)(Real<T>::abs(a[i] - Real<T>::smaller(Real<T>::larger(r[i], low), high)) >= reach.difference) << i;
        else
#pragma unroll
            for (int i = 0; i < E; i++) pairs |= (u32)reached_patterns(reach, a[i], r[i]) << i;
        return pairs;
    }
    template <typename N, int E> __device__ u32 reached(const Reach &reach, const N (&a)[E], const N (&r)[E]) const {
        u32 pairs = 0;
#pragma unroll
        for (int i = 0; i < E; i++) pairs |= (u32)((T)distance(a[i], r[i]) >= reach.difference) << i;
        return pairs;
    }
    // At most the difference of a pair that reaches so much, with a reference from `low` to `high` and a result up to `largest_a`, all without a sign. As a function of patterns numbers are convex: the numbers `steps` apart that differ least
    // are those next to y = steps / 2, of opposite signs for y < steps. That a scaled reference is rounded changes it by less than the number of pattern 1.
    __device__ double least_difference(const Reach &reach, T low, T high, T largest_a) const {
        if (integers) return reach.difference > 0 ? (double)reach.difference : 0;
        const Bits steps = reach.steps, top = bits_of(largest_a * scale), most = capped(bits_of(high * scale)), from_low = capped(bits_of(low * scale));
        // Smaller references are not so far from any result; a step less, since a scaled reference may be rounded.
        const Bits needed = steps > top ? steps - top : 0, least = from_low + 1 < needed ? needed - 1 : from_low;
        if (least > most) return f64_of(Real<double>::EXPONENT);
        const Bits half = steps / 2, y = half < least ? least : half > most ? most : half, x = y > steps ? y - steps : steps - y;
        if (x >= Real<T>::EXPONENT) return f64_of(Real<double>::EXPONENT);
        const double of_x = (double)Real<T>::of(x), of_y = (double)Real<T>::of(y), d = (y > steps ? of_y - of_x : of_y + of_x) - (double)Real<T>::of(1);
        return d > 0 ? d / (double)scale : 0;
    }
    __device__ Bits capped(Bits x) const { return x < largest ? x : largest; }
};
