// The current maxima of the quotient metrics: how an element is tested against them, and how they are updated.
//
// An element needs the exact check when it exceeds a maximum; near the ends of the range others need it, too. For a quotient d / x and its maximum M: d / x
// rounds to more than M when it exceeds M by more than h, half of the distance to the next number. d - M x is exact where d / x is within 2 h of M (the remainder of a division is), so that the
// sign of fma(h, x, fma(M, x, -d)) tells. All of d, M and h are scaled by a power of two first, so that no remainder underflows. Equal quotients never fire, so data in
// which all elements have the same error cost nothing.
#pragma once
#include "verify/pairs.h"

enum { QUOTIENTS = MAXIMA - RELATIVE };

// Patterns of scaled maxima, from RELATIVE on, and of half of the distances to the next numbers. They only grow, one after the other: a test with an old maximum and a new half is
// positive for whatever exceeds the new maximum.
template <typename T> struct SharedMaxima {
    typedef typename Real<T>::Bits Bits;
    alignas(16) Bits maximum[QUOTIENTS], half[QUOTIENTS];
    Bits least; // see `ScaledMaxima::least`
    // 0 where half of the distance would underflow: a test that is positive more often. Nothing is beyond an infinite maximum anyway.
    static __device__ Bits half_of(Bits maximum) {
        const Bits exponent = maximum & Real<T>::EXPONENT, down = (Bits)Real<T>::DIGITS * Real<T>::UNIT;
        return exponent > down && exponent < Real<T>::EXPONENT ? exponent - down : 0;
    }
};

// Whether any of several numbers, a b + c among them, is negative: their signs, in one word. That of a NaN (infinity times 0) may be either: it costs a check at most.
template <typename T> struct AnyNegative {
    u32 signs = 0;
    __device__ void add(T x) { signs |= (u32)(bits_of(x) >> (8 * sizeof(T) - 32)); }
    __device__ void add(T a, T b, T c) { add(Real<T>::fused(a, b, c)); }
    __device__ bool any() const { return (i32)signs < 0; }
};

// TINY: differences may be so small that their remainders underflow. All is scaled then.
template <typename T, bool TINY = true> struct ScaledMaxima {
    typedef typename Real<T>::Bits Bits;
    T maximum[QUOTIENTS], half[QUOTIENTS];
    // The least binade that the epsilon difference is tested by. Where references are about zero and results are not, a scaled maximum overflows. It is CAP then, and CAP x `least` is the largest difference from such a
    // reference: exactly what others like it have to exceed, and no more than what those of other binades have to.
    Bits least;
    static constexpr Bits CAP = (Bits)(2 * Real<T>::BIAS) * Real<T>::UNIT; // 2^BIAS
    __device__ void read(const SharedMaxima<T> &s, const Rule<T> &rule) {
        // Other threads update them.
        compiler_barrier();
#pragma unroll
        for (int k = 0; k < QUOTIENTS; k++) maximum[k] = Real<T>::of(s.maximum[k]), half[k] = Real<T>::of(s.half[k]);
        least = TINY && s.least > rule.lowest ? s.least : rule.lowest;
    }
    __device__ void set(int k, Bits pattern) { maximum[k] = Real<T>::of(pattern), half[k] = Real<T>::of(SharedMaxima<T>::half_of(pattern)); }
    static __device__ T scale() { return TINY ? Real<T>::scale_up() : (T)1; }
    // The scaled pattern of a maximum, rounded down.
    __device__ static Bits pattern(double x) {
        if (x > Real<double>::max()) return Real<T>::EXPONENT;
        const double scaled = x * (double)scale();
        if (scaled > (double)Real<T>::max()) return bits_of(Real<T>::max());
        const T t = (T)scaled;
        return bits_of(t) - ((double)t > scaled);
    }
    // That of metric k, with the least binade that goes with it.
    __device__ static Bits pattern(const Rule<T> &rule, u32 k, double x, Bits &least) {
        const Bits scaled = pattern(x);
        least = rule.lowest;
        if (!TINY || k != EPSILON - RELATIVE || scaled < CAP || scaled == Real<T>::EXPONENT) return scaled;
        least = bits_of((T)(x * (double)Real<T>::of(rule.lowest) * ((double)scale() * pow2(-Real<T>::BIAS))));
        return CAP;
    }
    // Tests an element against all maxima. The sign of the reference is ignored.
    __device__ void test(AnyNegative<T> &beyond, const Rule<T> &rule, T d, T reference, T bound, bool zero) const {
        const T m = Real<T>::abs(reference), scaled = -d * scale();
        // An element with a large reference is tested against the smaller of both relative maxima, which is that of such elements. Its half serves both: with a smaller one the test is positive more often.
        const int old = RELATIVE_OLD - RELATIVE, ratio = RATIO - RELATIVE;
        const T relative = m > Real<T>::small() ? maximum[old] : maximum[0];
        if (!zero) beyond.add(half[old], m, Real<T>::fused(relative, m, scaled));
        beyond.add(half[ratio], bound, Real<T>::fused(maximum[ratio], bound, scaled));
        beyond.add(maximum[EPSILON - RELATIVE], rule.binade_from(TINY ? least : rule.lowest, reference), scaled);
    }
};

// The values of a pair that differs by the metrics from RELATIVE on.
template <typename T> __device__ inline void quotients(const Rule<T> &rule, T d, T m, double (&value)[QUOTIENTS]) {
    const double relative = m > 0 ? (double)Real<T>::quotient(d, m) : 0;
    value[0] = relative;
    value[RELATIVE_OLD - RELATIVE] = m > Real<T>::small() ? relative : 0;
    value[EPSILON - RELATIVE] = rule.epsilons(d, m);
    value[RATIO - RELATIVE] = (double)Real<T>::quotient(d, rule.bound(m));
}

// A maximum as it is tested against: that of the epsilon difference by binade.
template <typename T> __device__ inline double by_binade(const Rule<T> &rule, u32 k, double x) { return k == EPSILON - RELATIVE ? x * pow2(-rule.mantissa_bits) : x; }

// Updates the maxima by E pairs, with atomic max. All lanes of a subgroup.
template <typename T, bool TINY, typename N, int E>
__device__ inline void update_maxima(u64 *workspace, SharedMaxima<T> &s, const ScaledMaxima<T, TINY> &maxima, const Rule<T> &rule, const N (&a)[E], const N (&r)[E]) {
    double most[QUOTIENTS] = {};
#pragma unroll 1
    for (u32 i = 0; i < E; i++) {
        const N x = pick(a, i), y = pick(r, i);
        const T d = (T)distance(x, y), m = (T)magnitude(y);
        AnyNegative<T> beyond;
        maxima.test(beyond, rule, d, m, rule.bound(m), m == 0);
        if (!beyond.any()) continue;
        double value[QUOTIENTS];
        quotients(rule, d, m, value);
#pragma unroll
        for (int k = 0; k < QUOTIENTS; k++) most[k] = Real<double>::larger(value[k], most[k]);
    }
    const u32 lane = lane_of();
    u64 mine = 0;
#pragma unroll 1
    for (u32 k = 0; k < QUOTIENTS; k++) {
        const u64 x = subgroup_max(bits_of(pick(most, k)));
        mine = lane == k ? x : mine;
    }
    if (lane < QUOTIENTS) {
        // What other blocks have found comes back, so that each checks some elements only.
        const u64 before = atomicMax(&workspace[RELATIVE + lane], mine);
        typename Real<T>::Bits least;
        const typename Real<T>::Bits scaled = ScaledMaxima<T, TINY>::pattern(rule, lane, by_binade(rule, lane, f64_of(before > mine ? before : mine)), least);
        atomicMax(&s.least, least);
        atomicMax(&s.maximum[lane], scaled);
        atomicMax(&s.half[lane], SharedMaxima<T>::half_of(scaled));
    }
    subgroup_barrier();
}
