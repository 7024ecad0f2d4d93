// The current maxima of the quotient metrics: how an element is tested against them, and how they rise.
//
// The test passes an element on exactly when a maximum rises, but for numbers near the ends of the range, where it may pass on more. For a quotient d / x and its
// maximum M: d / x rounds to more than M when it exceeds M by more than half of the distance h' to the next number. d - M x is exact where d / x is within that distance
// (the remainder of a division is), so that the sign of fma(-h, x, fma(-M, x, d)) tells. All of d, M and h are scaled by a power of two first, so that no remainder
// underflows. Equal quotients never pass, so data in which all elements have the same error cost nothing.
#pragma once
#include "verify/pairs.h"

enum { LIMITS = MAXIMA - RELATIVE };

// Patterns of scaled maxima, from RELATIVE on, which only rise.
template <typename T> struct SharedLimits {
    alignas(16) typename Real<T>::Bits pattern[LIMITS];
};

template <typename T> struct Limits {
    typedef typename Real<T>::Bits Bits;
    T limit[LIMITS], half[LIMITS];
    __device__ explicit Limits(const SharedLimits<T> &s) {
        // Other threads raise them.
        compiler_barrier();
#pragma unroll
        for (int k = 0; k < LIMITS; k++) set(k, s.pattern[k]);
    }
    __device__ void set(int k, Bits pattern) {
        limit[k] = Real<T>::of(pattern);
        // 0 where half of the distance would underflow: a test that passes on more.
        const Bits exponent = pattern & Real<T>::EXPONENT, down = (Bits)Real<T>::DIGITS * Real<T>::UNIT;
        half[k] = Real<T>::of(exponent > down ? exponent - down : 0);
    }
    // The scaled pattern of a maximum, rounded down.
    __device__ static Bits pattern(double x) {
        if (x > Real<double>::max()) return Real<T>::EXPONENT;
        const double scaled = x * (double)Real<T>::scale_up();
        if (scaled > (double)Real<T>::max()) return bits_of(Real<T>::max());
        const T t = (T)scaled;
        return bits_of(t) - ((double)t > scaled);
    }
    __device__ static T beyond(T limit, T half, T x, T scaled) { return Real<T>::fused(-half, x, Real<T>::fused(-limit, x, scaled)); }
    // The larger of `before` and this element's excess, which is positive when it is beyond a maximum.
    __device__ T excess(T before, const Rule<T> &rule, T d, T m, T bound, bool zero) const {
        const T scaled = d * Real<T>::scale_up();
        // An element with a large reference is tested against the smaller of both relative maxima, which is that of such elements.
        const bool large = m > Real<T>::small();
        const int old = RELATIVE_OLD - RELATIVE;
        const T relative = beyond(large ? limit[old] : limit[0], large ? half[old] : half[0], m, scaled);
        const T ratio = beyond(limit[RATIO - RELATIVE], half[RATIO - RELATIVE], bound, scaled);
        const T epsilon = Real<T>::fused(-limit[EPSILON - RELATIVE], rule.binade(m), scaled);
        before = Real<T>::larger(zero ? 0 : relative, before);
        before = Real<T>::larger(ratio, before);
        return Real<T>::larger(epsilon, before);
    }
};

// The values of a pair that differs by the metrics from RELATIVE on.
template <typename T> __device__ inline void quotients(const Rule<T> &rule, T d, T m, double (&value)[LIMITS]) {
    const double relative = m > 0 ? (double)Real<T>::quotient(d, m) : 0;
    value[0] = relative;
    value[RELATIVE_OLD - RELATIVE] = m > Real<T>::small() ? relative : 0;
    value[EPSILON - RELATIVE] = rule.epsilons(d, m);
    value[RATIO - RELATIVE] = (double)Real<T>::quotient(d, rule.bound(m));
}

// The limit of a maximum of an epsilon difference is by binade.
template <typename T> __device__ inline double limited(const Rule<T> &rule, u32 k, double x) { return k == EPSILON - RELATIVE ? x * pow2(-rule.mantissa_bits) : x; }

// Raises the maxima by E pairs. All lanes of a subgroup.
template <typename T, int E>
__device__ inline void raise(u64 *maxima, SharedLimits<T> &s, const Limits<T> &limits, const Rule<T> &rule, const T (&d)[E], const T (&m)[E]) {
    double most[LIMITS] = {};
#pragma unroll 1
    for (u32 i = 0; i < E; i++) {
        const T x = pick(d, i), y = pick(m, i);
        if (!(limits.excess(0, rule, x, y, rule.bound(y), y == 0) > 0)) continue;
        double value[LIMITS];
        quotients(rule, x, y, value);
#pragma unroll
        for (int k = 0; k < LIMITS; k++) most[k] = Real<double>::larger(value[k], most[k]);
    }
    const u32 lane = lane_of();
    u64 mine = 0;
#pragma unroll 1
    for (u32 k = 0; k < LIMITS; k++) {
        const u64 x = subgroup_max(bits_of(pick(most, k)));
        mine = lane == k ? x : mine;
    }
    if (lane < LIMITS) {
        // What other blocks have found comes back, so that each passes on a few elements only.
        const u64 before = atomicMax(&maxima[RELATIVE + lane], mine);
        atomicMax(&s.pattern[lane], Limits<T>::pattern(limited(rule, lane, f64_of(before > mine ? before : mine))));
    }
    subgroup_barrier();
}
