// The current maxima: how an element is tested against them, and how they are updated.
//
// For a quotient d / x and its maximum M: d / x rounds to more than M when it exceeds M by more than h, half of the distance to the next number. d - M x is exact where d / x is within 2 h of M
// (the remainder of a division is), so the sign of fma(h, x, fma(M, x, -d)) decides. For equal quotients the test is never positive, so data in which all elements have the same error cost nothing. There are three steps, each
// for elements for which the step before was positive:
//
//   filter   M and h from a table by the binade of the reference, which has zeros where a remainder may underflow
//   test     d, M and h scaled by a power of two, so that no remainder underflows. In f64, for which a table would be too large, it is the first step
//   check    a division, and an update of the maxima
#pragma once
#include "verify/ring.h"

enum { QUOTIENTS = MAXIMA - RELATIVE };

// The limit that elements are tested against, from a maximum; both are patterns. Nothing exceeds an infinite maximum.
template <typename T> __device__ inline typename Real<T>::Bits limit_of(typename Real<T>::Bits maximum) { return maximum < Real<T>::EXPONENT ? maximum : NO_LIMIT<T>; }

// The largest number of the arithmetic that is at most x >= 0, as such a pattern.
template <typename T> __device__ inline typename Real<T>::Bits pattern_up_to(double x) {
    if (x > Real<double>::max()) return NO_LIMIT<T>;
    if (x > (double)Real<T>::max()) return bits_of(Real<T>::max());
    const T t = (T)x;
    return bits_of(t) - ((double)t > x);
}

// A maximum in the form in which elements are tested against it: that of the epsilon difference is by binade.
template <typename T> __device__ inline double by_binade(const Rule<T> &rule, u32 metric, double x) { return metric == EPSILON ? x * pow2(-rule.mantissa_bits) : x; }

// The maxima as the filter uses them, as patterns. They only grow, so an old one makes the filter positive more often, never less.
template <typename T> struct FilterTable {};
template <> struct FilterTable<float> {
    // By the exponent field of a reference: the maximum of its relative differences; and the largest difference that is neither a new maximum of the absolute nor of the epsilon difference.
    struct alignas(8) Allowed { u32 relative, difference; };
    Allowed allowed[256];
    u32 ratio, half_relative, half_ratio;
    u64 current[MAXIMA]; // the maxima in f64
    // Below it the remainder of a division may underflow: the product of two numbers is at most 2^48 times that of their last places.
    static __device__ float tiny() { return exp2_f32(48 - 149); }
    // Called by all lanes of a subgroup, after an update of `current`.
    __device__ void update(const Rule<float> &rule);
};

// Patterns of scaled maxima, from RELATIVE on, and of half of the distances to the next numbers. They only grow, one after the other: a test with an old maximum and a new half is
// positive for whatever exceeds the new maximum.
template <typename T> struct SharedMaxima : FilterTable<T> {
    typedef typename Real<T>::Bits Bits;
    alignas(16) Bits maximum[QUOTIENTS], half[QUOTIENTS];
    Bits absolute; // not scaled
    Bits least;    // see `ScaledMaxima::least`
    // 0 where half of the distance would underflow, which makes the test positive more often. Nothing exceeds an infinite maximum anyway.
    static __device__ Bits half_of(Bits maximum) {
        const Bits exponent = maximum & Real<T>::EXPONENT, down = (Bits)Real<T>::DIGITS * Real<T>::UNIT;
        return exponent > down && exponent < Real<T>::EXPONENT ? exponent - down : 0;
    }
};

__device__ inline OUT_OF_LINE void FilterTable<float>::update(const Rule<float> &rule) {
    const float all = (float)f64_of(current[RELATIVE]), old = (float)f64_of(current[RELATIVE_OLD]), most = (float)f64_of(current[RATIO]);
    const double absolute = f64_of(current[ABSOLUTE]), epsilon = by_binade(rule, EPSILON, f64_of(current[EPSILON]));
    const bool infinite = !(most <= Real<float>::max());
#pragma unroll 1
    for (u32 exponent = lane_of(); exponent < 256; exponent += SUBGROUP) {
        const float least = Real<float>::of(exponent * Real<float>::UNIT);
        // References above 1e-3 are compared with the smaller maximum, and so are the others of that binade. Subnormal references are compared with 0, which every difference exceeds.
        const float relative = exponent >= bits_of(Real<float>::small()) / Real<float>::UNIT ? old : exponent ? all : 0;
        // Where a remainder may underflow, every difference is positive, too.
        if ((exponent && relative * least < tiny()) || (!infinite && most * rule.bound(least) < tiny())) continue;
        atomicMax(&allowed[exponent].relative, limit_of<float>(bits_of(relative)));
        atomicMax(&allowed[exponent].difference, pattern_up_to<float>(Real<double>::smaller(epsilon * (double)rule.binade(least), absolute)));
    }
    if (lane_of() == 0) {
        atomicMax(&ratio, limit_of<float>(bits_of(most)));
        atomicMax(&half_relative, SharedMaxima<float>::half_of(bits_of(old)));
        atomicMax(&half_ratio, SharedMaxima<float>::half_of(bits_of(most)));
    }
    subgroup_barrier();
}

// Whether any of several numbers, such as a b + c, is negative: collects their signs in one word. The sign of a NaN (infinity times 0) may be either; at most it costs an exact check.
template <typename T> struct AnyNegative {
    u32 signs = 0;
    __device__ void add(T x) { signs |= (u32)(bits_of(x) >> (8 * sizeof(T) - 32)); }
    __device__ void add(T a, T b, T c) { add(Real<T>::fused(a, b, c)); }
    __device__ bool any() const { return (i32)signs < 0; }
};

// Differences may be so small that their remainders underflow, so everything is scaled.
template <typename T> struct ScaledMaxima {
    typedef typename Real<T>::Bits Bits;
    T maximum[QUOTIENTS], half[QUOTIENTS];
    T absolute; // not scaled
    // The least binade that the epsilon difference is tested by. If references are about zero and results are not, a scaled maximum overflows. It is then CAP, and CAP x `least` is the largest difference from such a
    // reference: exactly what other such differences have to exceed, and no more than what those of other binades have to exceed.
    Bits least;
    static constexpr Bits CAP = (Bits)(2 * Real<T>::BIAS) * Real<T>::UNIT; // 2^BIAS
    __device__ void read(const SharedMaxima<T> &s, const Rule<T> &rule) {
        // Other threads update them.
        compiler_barrier();
#pragma unroll
        for (int k = 0; k < QUOTIENTS; k++) maximum[k] = Real<T>::of(s.maximum[k]), half[k] = Real<T>::of(s.half[k]);
        absolute = Real<T>::of(s.absolute), least = s.least > rule.lowest ? s.least : rule.lowest;
    }
    __device__ void set(int k, Bits pattern) { maximum[k] = Real<T>::of(pattern), half[k] = Real<T>::of(SharedMaxima<T>::half_of(pattern)); }
    // The scaled pattern of a maximum, rounded down.
    __device__ static Bits pattern(double x) {
        if (x > Real<double>::max()) return NO_LIMIT<T>;
        const double scaled = x * (double)Real<T>::scale_up();
        return scaled > (double)Real<T>::max() ? bits_of(Real<T>::max()) : pattern_up_to<T>(scaled);
    }
    // The pattern for a quotient, with the least binade that belongs to it.
    __device__ static Bits pattern(const Rule<T> &rule, u32 metric, double x, Bits &least) {
        const Bits scaled = pattern(x);
        least = rule.lowest;
        if (metric != EPSILON || scaled < CAP || scaled == NO_LIMIT<T>) return scaled;
        least = bits_of((T)(x * (double)Real<T>::of(rule.lowest) * ((double)Real<T>::scale_up() * pow2(-Real<T>::BIAS))));
        return CAP;
    }
    // Tests an element against all maxima. The sign of the reference is ignored.
    __device__ void test(AnyNegative<T> &beyond, const Rule<T> &rule, T d, T reference, T bound, bool zero) const {
        const T m = Real<T>::abs(reference), scaled = -d * Real<T>::scale_up();
        // An element with a large reference is tested against the smaller of both relative maxima, which is the one of such elements. Its half distance serves both: with a smaller one the test is positive more often.
        const int old = RELATIVE_OLD - RELATIVE, ratio = RATIO - RELATIVE;
        const T relative = m > Real<T>::small() ? maximum[old] : maximum[0];
        if (!zero) beyond.add(half[old], m, Real<T>::fused(relative, m, scaled));
        beyond.add(half[ratio], bound, Real<T>::fused(maximum[ratio], bound, scaled));
        beyond.add(maximum[EPSILON - RELATIVE], rule.binade_from(least, reference), scaled);
        beyond.add(absolute - d);
    }
};

// What a thread tests every element with. If there is no table, these are the maxima themselves.
template <typename T> struct Filter : ScaledMaxima<T> {
    static constexpr bool TABLE = false;
    __device__ const ScaledMaxima<T> &scaled(const SharedMaxima<T> &, const Rule<T> &) const { return *this; }
    __device__ void test(AnyNegative<T> &beyond, const SharedMaxima<T> &, const Rule<T> &rule, T d, T reference, T bound, bool zero) const {
        ScaledMaxima<T>::test(beyond, rule, d, reference, bound, zero);
    }
};
template <> struct Filter<float> {
    static constexpr bool TABLE = true;
    static __device__ ScaledMaxima<float> scaled(const SharedMaxima<float> &s, const Rule<float> &rule) {
        ScaledMaxima<float> maxima;
        maxima.read(s, rule);
        return maxima;
    }
    float ratio, half_relative, half_ratio;
#if defined(__CUDA_ARCH__)
    u32 table; // its address in shared memory, which would otherwise be computed again for each E elements
    __device__ FilterTable<float>::Allowed allowed(const SharedMaxima<float> &, float reference) const {
        return *(const FilterTable<float>::Allowed *)shared_address(table + (bits_of(reference) >> 20 & 0x7f8));
    }
#else
    __device__ FilterTable<float>::Allowed allowed(const SharedMaxima<float> &s, float reference) const { return s.allowed[bits_of(reference) >> 23 & 0xff]; }
#endif
    __device__ void read(const SharedMaxima<float> &s, const Rule<float> &) {
        compiler_barrier();
#if defined(__CUDA_ARCH__)
        asm volatile("mov.u32 %0, %1;" : "=r"(table) : "r"(shared_offset(s.allowed)));
#endif
        ratio = Real<float>::of(s.ratio), half_relative = Real<float>::of(s.half_relative), half_ratio = Real<float>::of(s.half_ratio);
    }
    // The sign of a reference is ignored.
    __device__ void test(AnyNegative<float> &beyond, const SharedMaxima<float> &s, const Rule<float> &, float d, float reference, float bound, bool zero) const {
        const FilterTable<float>::Allowed x = allowed(s, reference);
        const float m = Real<float>::abs(reference);
        beyond.add(half_ratio, bound, Real<float>::fused(ratio, bound, -d));
        beyond.add(Real<float>::of(x.difference) - d);
        // No branch, so that all numbers of the table are requested before the first one arrives.
        const float rest = Real<float>::fused(half_relative, m, Real<float>::fused(Real<float>::of(x.relative), m, -d));
#if defined(__CUDA_ARCH__)
        // Uses the number that is counted as well, so no predicate is needed. For zero the rest is -d.
        beyond.add(one_if_at_most(m, 0), Real<float>::max(), rest);
#else
        beyond.add(zero ? 0 : rest);
#endif
    }
};

// The values of a pair that differs.
template <typename T> __device__ inline void metrics_of(const Rule<T> &rule, T d, T m, double (&value)[MAXIMA]) {
    const double relative = m > 0 ? (double)Real<T>::quotient(d, m) : 0;
    value[ABSOLUTE] = (double)d;
    value[RELATIVE] = relative;
    value[RELATIVE_OLD] = m > Real<T>::small() ? relative : 0;
    value[EPSILON] = rule.epsilons(d, m);
    value[RATIO] = (double)Real<T>::quotient(d, rule.bound(m));
}

// Updates the limits for elements by a maximum, a pattern of f64.
template <typename T> __device__ inline void update_maximum(SharedMaxima<T> &s, const Rule<T> &rule, u32 metric, u64 maximum) {
    if constexpr (Filter<T>::TABLE) atomicMax(&s.current[metric], maximum);
    if (metric == ABSOLUTE) {
        atomicMax(&s.absolute, limit_of<T>(bits_of((T)f64_of(maximum))));
        return;
    }
    typename Real<T>::Bits least;
    const typename Real<T>::Bits scaled = ScaledMaxima<T>::pattern(rule, metric, by_binade(rule, metric, f64_of(maximum)), least);
    atomicMax(&s.least, least);
    atomicMax(&s.maximum[metric - RELATIVE], scaled);
    atomicMax(&s.half[metric - RELATIVE], SharedMaxima<T>::half_of(scaled));
}

// Updates the maxima by E pairs for which the filter was positive, with atomic max. Called by all lanes of a wavefront.
template <typename T, typename N, int E>
__device__ inline void update_maxima(u64 *workspace, SharedMaxima<T> &s, const Filter<T> &filter, const Rule<T> &rule, const N (&a)[E], const N (&r)[E], const T (&d)[E], const T (&bound)[E]) {
    const auto &maxima = filter.scaled(s, rule);
    if constexpr (Filter<T>::TABLE) {
        AnyNegative<T> beyond;
#pragma unroll
        for (int i = 0; i < E; i++) {
            const T reference = unknown((T)r[i]);
            maxima.test(beyond, rule, d[i], reference, bound[i], reference == 0);
        }
        if (!wavefront_any(beyond.any())) return;
    }
    double most[MAXIMA] = {};
#pragma unroll 1
    for (u32 i = 0; i < E; i++) {
        const N x = pick(a, i), y = pick(r, i);
        const T difference = (T)distance(x, y), m = (T)magnitude(y);
        AnyNegative<T> beyond;
        maxima.test(beyond, rule, difference, m, rule.bound(m), m == 0);
        if (!beyond.any()) continue;
        double value[MAXIMA];
        metrics_of(rule, difference, m, value);
#pragma unroll
        for (int k = 0; k < MAXIMA; k++) most[k] = Real<double>::larger(value[k], most[k]);
    }
    const u32 lane = lane_of();
    u64 mine = 0;
#pragma unroll 1
    for (u32 k = 0; k < MAXIMA; k++) {
        const u64 x = subgroup_max(bits_of(pick(most, k)));
        mine = lane == k ? x : mine;
    }
    if (lane < MAXIMA) {
        // This returns what other blocks have found, so each block makes few exact checks.
        const u64 before = atomicMax(&workspace[lane], mine);
        update_maximum(s, rule, lane, before > mine ? before : mine);
    }
    subgroup_barrier();
    if constexpr (Filter<T>::TABLE) s.update(rule);
}
