// The current maxima: how an element is tested against them, and how they are updated.
//
// For a quotient d / x, rounded to nearest, and its maximum M: the sign of fma(M, x, -d) says whether d / x exceeds M, before it is rounded. If M was rounded down, a quotient that is rounded to M may exceed it. The sign of
// fma(h, x, fma(M, x, -d)), with h half of the distance from M to the next number, says whether a quotient is rounded to more than M: data in which many elements have the same quotient cost nothing. There are two steps:
//
//   filter   limits from a table by the binade of the reference; with h for the ratio, whose remainder is exact where it does not underflow. Elsewhere the table has zeros, and every difference needs the exact check
//   check    if the filter was positive: divisions, and an update of the maxima if one of them is exceeded
#pragma once
#include "verify/ring.h"

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

// The binades that references are told apart by: their entries in a table. Entry 0 is that of zero alone, and binades without an entry have entry 1.
constexpr u32 ENTRIES = 256;
// Scaled by 2^24, so that subnormal numbers have entries of their own. The last entry is that of all from 2^104 on, and none has entry 1.
__device__ inline u32 entry_of(float m) { return bits_of(m * exp2_f32(24)) >> 23; }
// Of 2^-150 to 2^104, beyond all integers.
__device__ inline u32 entry_of(double m) {
    const u32 entry = (u32)(bits_of(m) >> 52) - (1023 - 152);
    return m == 0 ? 0 : entry - 2 < ENTRIES - 2 ? entry : 1;
}
// The least reference with an entry from 2 on.
template <typename T> __device__ inline T least_reference(u32 entry) { return (T)pow2((i32)entry - (sizeof(T) == 4 ? 127 + 24 : 152)); }

// The maxima of a block. They only grow, so an old one makes the filter positive more often, never less.
template <typename T> struct SharedMaxima {
    typedef typename Real<T>::Bits Bits;
    u64 current[MAXIMA]; // patterns of f64
    // For the references of a binade: the maximum of their relative differences; and the largest difference that is neither a new maximum of the absolute nor of the epsilon difference.
    struct alignas(2 * sizeof(T)) Allowed { Bits relative, difference; };
    Allowed allowed[ENTRIES]; // patterns
    Bits ratio, half_ratio;   // the maximum, and half of the distance to the next number
    // Computes the others from `current`. Called by all lanes of a subgroup.
    __device__ void update(Rule<T> rule);
};

// Half of the distance from a maximum to the next number, as patterns; 0 where it would underflow, which makes the test positive more often. Nothing exceeds an infinite maximum anyway.
template <typename T> __device__ inline typename Real<T>::Bits half_of(typename Real<T>::Bits maximum) {
    typedef typename Real<T>::Bits Bits;
    const Bits exponent = maximum & Real<T>::EXPONENT, down = (Bits)Real<T>::DIGITS * Real<T>::UNIT;
    return exponent > down && exponent < Real<T>::EXPONENT ? exponent - down : 0;
}

template <typename T> __device__ inline OUT_OF_LINE void SharedMaxima<T>::update(Rule<T> rule) {
    // Out of line, nvcc would not know that this is shared memory.
    SharedMaxima &s = shared_at<SharedMaxima>(shared_address_of(this));
    const Bits all = limit_of<T>(bits_of((T)f64_of(s.current[RELATIVE]))), old = limit_of<T>(bits_of((T)f64_of(s.current[RELATIVE_OLD])));
    const T most = (T)f64_of(s.current[RATIO]);
    const double absolute = f64_of(s.current[ABSOLUTE]), epsilon = by_binade(rule, EPSILON, f64_of(s.current[EPSILON]));
#pragma unroll(LIKE_NVIDIA ? 4 : 1)
    for (u32 entry = lane_of(); entry < ENTRIES; entry += SUBGROUP) {
        const T least = entry ? least_reference<T>(entry) : 0;
        // Every difference needs the exact check where references have no entry of their own; and where the remainder of a ratio may underflow: the product of two numbers is less than 2^(2 DIGITS) times that of their last places.
        // (A maximum that is infinite is not exceeded, whatever the bound.)
        const bool always = (entry == 1) | (most * rule.bound(least) < Real<T>::least() * (T)pow2(2 * Real<T>::DIGITS));
        // References above 1e-3 are compared with the smaller maximum, and so are the others of that binade. Zero has no relative difference.
        const Bits relative = entry == 0 ? NO_LIMIT<T> : 2 * least > Real<T>::small() ? old : all;
        atomicMax(&s.allowed[entry].relative, always ? 0 : relative);
        // A product that may have been rounded is left out.
        const double of_epsilon = epsilon * (double)rule.binade(least);
        const Bits difference = sizeof(T) == 4 || epsilon == 0 || of_epsilon > pow2(-960) ? pattern_up_to<T>(Real<double>::smaller(of_epsilon, absolute)) : 0;
        atomicMax(&s.allowed[entry].difference, always ? 0 : difference);
    }
    if (lane_of() == 0) {
        atomicMax(&s.ratio, limit_of<T>(bits_of(most)));
        atomicMax(&s.half_ratio, half_of<T>(bits_of(most)));
    }
    subgroup_barrier();
}

// Whether any of several numbers, such as a b + c, is negative: collects their signs in one word. The sign of a NaN (infinity times 0) may be either; at most it costs an exact check.
template <typename T> struct AnyNegative {
    u32 signs = 0;
    bool greater = false;
    __device__ void add_greater(T x, T y) { greater |= x > y; }
    __device__ void add(T x) { signs |= (u32)(bits_of(x) >> (8 * sizeof(T) - 32)); }
    __device__ void add(T a, T b, T c) { add(Real<T>::fused(a, b, c)); }
    __device__ bool any() const { return greater || (i32)signs < 0; }
};

// What a thread tests every element with.
template <typename T> struct Filter {
    typedef typename SharedMaxima<T>::Allowed Allowed;
    T ratio, half_ratio;
#if defined(__CUDA_ARCH__)
    u32 table; // its address in shared memory, which would otherwise be computed again for each E elements
    __device__ Allowed allowed(const SharedMaxima<T> &, T m) const { return *(const Allowed *)shared_address(table + (u32)sizeof(Allowed) * entry_of(m)); }
#else
    __device__ Allowed allowed(const SharedMaxima<T> &s, T m) const { return s.allowed[entry_of(m)]; }
#endif
    __device__ void read(const SharedMaxima<T> &s) {
        compiler_barrier();
#if defined(__CUDA_ARCH__)
        asm volatile("mov.u32 %0, %1;" : "=r"(table) : "r"(shared_offset(s.allowed)));
#endif
        ratio = Real<T>::of(s.ratio), half_ratio = Real<T>::of(s.half_ratio);
    }
    __device__ void test(AnyNegative<T> &beyond, const SharedMaxima<T> &s, T d, T m, T bound) const {
        const Allowed x = allowed(s, m);
        beyond.add(half_ratio, bound, Real<T>::fused(ratio, bound, -d));
        beyond.add(Real<T>::of(x.relative), m, -d);
        beyond.add_greater(d, Real<T>::of(x.difference));
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

// Updates the maxima by E pairs, for some of which the filter was positive, with atomic max. Called by all lanes of a wavefront.
template <typename T, typename D, typename N, int E>
__device__ inline void update_maxima(u64 *workspace, SharedMaxima<T> &s, const Filter<T> &filter, const Rule<T> &rule, const D (&differences)[E], const N (&r)[E], const T (&bound)[E]) {
    // A bit for each pair for which it was.
    u32 positive = 0;
#pragma unroll
    for (u32 i = 0; i < E; i++) {
        AnyNegative<T> beyond;
        // Opaque, since otherwise the magnitudes, which most instructions take without another one, would be computed before this branch.
        filter.test(beyond, s, (T)magnitude(unknown(differences[i])), (T)magnitude(unknown(r[i])), bound[i]);
        positive |= (u32)beyond.any() << i;
    }
    // Each lane's next one in each turn, by one copy of the code.
    T most[MAXIMA] = {};
    double most_epsilons = 0; // which T may not hold
    const auto pattern = [&](int k) { return bits_of(k == EPSILON ? most_epsilons : (double)most[k]); };
#pragma unroll 1
    for (; wavefront_any(positive); positive &= positive - 1) {
        if (!positive) continue;
        const u32 i = __ffs((int)positive) - 1;
        double value[MAXIMA];
        metrics_of(rule, (T)magnitude(pick(differences, i)), (T)magnitude(pick(r, i)), value);
#pragma unroll
        for (int k = 0; k < MAXIMA; k++)
            if (k == EPSILON) most_epsilons = Real<double>::larger(value[k], most_epsilons);
            else most[k] = Real<T>::larger((T)value[k], most[k]);
    }
    bool exceeds = false;
#pragma unroll
    for (int k = 0; k < MAXIMA; k++) {
        compiler_barrier(); // other threads update them, and all at once would take registers
        exceeds |= pattern(k) > s.current[k];
    }
    if (!wavefront_any(exceeds)) return;
    const u32 lane = lane_of();
    u64 mine = 0;
#pragma unroll
    for (u32 k = 0; k < MAXIMA; k++) {
        const u64 x = subgroup_max(pattern(k));
        mine = lane == k ? x : mine;
    }
    if (lane < MAXIMA) {
        // This returns what other blocks have found, so each block makes few exact checks. A single block doesn't wait for it.
        u64 before = 0;
        if (gridDim.x > 1) before = atomicMax(&workspace[lane], mine);
        else atomicMax(&workspace[lane], mine);
        atomicMax(&s.current[lane], before > mine ? before : mine);
    }
    subgroup_barrier();
    s.update(rule);
}
