// Histograms, as counts of the values that reach each threshold: comparisons that do not depend on the data. A bin is the difference of two counts.
#pragma once
#include "verify/limits.h"

// DIFFERING pairs, those of them with a LARGE reference, then the thresholds of the relative difference, the epsilon difference and the ratio.
enum { DIFFERING, LARGE, STEP_RELATIVE, STEP_EPSILON = STEP_RELATIVE + 8, STEP_RATIO = STEP_EPSILON + 4 };
static_assert(STEP_RATIO + 7 == HISTOGRAM_STEPS, "the thresholds of docs/numerics.md");

// The least number of the arithmetic that is at least x, and the largest that is at most x; x > 0.
template <typename T> __device__ inline T from(double x) {
    const T t = (T)x;
    return Real<T>::of(bits_of(t) + ((double)t < x));
}
template <typename T> __device__ inline T up_to(double x) {
    const T t = (T)x;
    return Real<T>::of(bits_of(t) - ((double)t > x));
}

template <typename T> struct Steps {
    LaneCount count[HISTOGRAM_STEPS];
    __device__ void clear() {
#pragma unroll
        for (u32 k = 0; k < HISTOGRAM_STEPS; k++) count[k].clear();
    }
    __device__ void carry() {
#pragma unroll
        for (u32 k = 0; k < HISTOGRAM_STEPS; k++) count[k].carry();
    }
    template <typename D, typename N, int E> __device__ void add(const Rule<T> &rule, const D (&differences)[E], const N (&r)[E]) {
        T d[E], m[E], bound[E];
        rule.measure(differences, r, d, m, bound);
        const T unit = (T)pow2(-rule.mantissa_bits);
#pragma unroll
        for (int i = 0; i < E; i++) {
            const bool differs = d[i] > 0, large = differs && m[i] > Real<T>::small();
            count[DIFFERING].add(differs);
            count[LARGE].add(large);
            const T relative = large ? Real<T>::quotient(d[i], m[i]) : 0;
            const double relative_ends[7] = {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0};
            count[STEP_RELATIVE].add(relative > (T)0);
#pragma unroll
            for (int k = 0; k < 7; k++) count[STEP_RELATIVE + 1 + k].add(from<T>(relative_ends[k]) <= relative);
            // Below 1 the spacing and d are scaled, since a half of the least spacing underflows; above, a scaled spacing would overflow.
            const T scale = m[i] < (T)1 ? Real<T>::scale_up() : (T)1;
            const T scaled = d[i] * scale, spacing = rule.binade(m[i]) * (scale * unit);
            const T epsilon_ends[4] = {1.5, 2.5, 10.5, 100.5};
#pragma unroll
            for (int k = 0; k < 4; k++) count[STEP_EPSILON + k].add(epsilon_ends[k] * spacing <= scaled);
            const T ratio = differs ? Real<T>::quotient(d[i], bound[i]) : 0;
            const double ratio_ends[6] = {0.1, 0.5, 1, 2, 10, 100};
            count[STEP_RATIO].add(ratio > (T)0);
#pragma unroll
            for (int k = 0; k < 6; k++) count[STEP_RATIO + 1 + k].add(ratio > up_to<T>(ratio_ends[k]));
        }
    }
    __device__ void join(u64 (&total)[HISTOGRAM_STEPS]) const {
#pragma unroll
        for (u32 k = 0; k < HISTOGRAM_STEPS; k++) {
            const u32 x = subgroup_sum(count[k].own());
            if (lane_of() == 0) atomicAdd(&total[k], (u64)x);
        }
    }
};

// A bin by the counts: 9 of the relative difference, 6 of the epsilon difference, 8 of the ratio. Pairs that do not differ are in none.
__device__ inline u64 bin_of_steps(const u64 *steps, u32 bin) {
    if (bin == 9) return 0;
    const bool relative = bin < 9, epsilon = !relative && bin < 15;
    const u32 first = relative ? STEP_RELATIVE : epsilon ? STEP_EPSILON : STEP_RATIO, count = relative ? 8 : epsilon ? 4 : 7;
    // The `k`th step ends this bin; below the first are all that differ.
    const u32 k = relative ? bin : epsilon ? bin - 10 : bin - 15;
    const u64 reached = k == 0 ? steps[relative ? LARGE : DIFFERING] : steps[first + k - 1];
    return reached - (k < count ? steps[first + k] : 0);
}
