// Pass A: reads both tensors once and makes values: counts, largest magnitudes, maxima of the metrics, sums, histograms. README.md says why it is right.
#pragma once
#include "verify/limits.h"
#include "verify/steps.h"

// What the threads of a block share.
template <typename T> struct ValuesShared {
    SharedLimits<T> limits;
    u64 counts[COUNTS];
    u64 magnitudes[3];
    u64 steps[HISTOGRAM_STEPS];
    SumTree trees[FINAL_LANES / SUBGROUP];
    double lanes[SUMS][FINAL_LANES];
    u32 last;
};

// What a thread keeps.
template <class Arith> struct Values {
    typedef typename Arith::N N;
    typedef typename Arith::T T;
    LaneCount mismatches, zero_passes, zeros_a, zeros_r;
    T largest_a, largest_r, largest_d;
    __device__ void clear() {
        mismatches.clear(), zero_passes.clear(), zeros_a.clear(), zeros_r.clear();
        largest_a = largest_r = largest_d = 0;
    }
    __device__ void carry() { mismatches.carry(), zero_passes.carry(), zeros_a.carry(), zeros_r.carry(); }
    __device__ void add_passes(N a, N r, T d, T bound) {
        if constexpr (Arith::EXACT) mismatches.add(!within(distance(a, r), bound));
        else mismatches.add(d > bound);
    }
    __device__ void add_zero_passes(N r, T m, T bound) {
        if constexpr (Arith::EXACT) zero_passes.add(within(magnitude(r), bound));
        else zero_passes.add(m <= bound);
    }
};

template <typename T> __device__ inline void count_class(u64 *counts, u32 side, T x) {
    if (!is_finite(x)) atomicAdd(&counts[(x != x ? NANS_A : x > 0 ? PLUS_A : MINUS_A) + side], 1ull);
}

// A pair that is not finite.
template <class Arith> __device__ inline void count_nonfinite(const VerifyParams &p, u64 *counts, Values<Arith> &v, typename Arith::N a, typename Arith::N r) {
    typedef typename Arith::T T;
    count_class(counts, 0, a);
    count_class(counts, 1, r);
    atomicAdd(&counts[NONFINITE_PAIRS], 1ull);
    if (!nonfinite_passes(p, a, r)) atomicAdd(&counts[MISMATCHES], 1ull);
    if (a == 0) atomicAdd(&counts[ZEROS_A], 1ull);
    if (r == 0) atomicAdd(&counts[ZEROS_R], 1ull);
    if (is_finite(a)) v.largest_a = Real<T>::larger((T)magnitude(a), v.largest_a);
    if (is_finite(r)) v.largest_r = Real<T>::larger((T)magnitude(r), v.largest_r);
}

// E finite pairs.
template <class Arith, bool ALL, int LANES, int E>
__device__ inline void add(const VerifyParams &p, ValuesShared<typename Arith::T> &s, const Rule<typename Arith::T> &rule, const typename Arith::N (&a)[E],
                           const typename Arith::N (&r)[E], Values<Arith> &v, Sums<typename Arith::T, LANES> &sums) {
    typedef typename Arith::T T;
    T d[E], m[E], bound[E];
    rule.measure(a, r, d, m, bound);
#pragma unroll
    for (int i = 0; i < E; i++) {
        v.add_passes(a[i], r[i], d[i], bound[i]);
        v.largest_a = Real<T>::larger((T)magnitude(a[i]), v.largest_a);
        v.largest_r = Real<T>::larger(m[i], v.largest_r);
        v.largest_d = Real<T>::larger(d[i], v.largest_d);
    }
    if constexpr (ALL) {
        const Limits<T> limits(s.limits);
        T excess = 0;
#pragma unroll
        for (int i = 0; i < E; i++) {
            v.add_zero_passes(r[i], m[i], bound[i]);
            v.zeros_a.add(a[i] == 0);
            const bool zero = m[i] == 0;
            v.zeros_r.add(zero);
            sums.add(i % LANES, d[i], m[i]);
            excess = limits.excess(excess, rule, d[i], m[i], bound[i], zero);
        }
        if (wavefront_any(excess > 0)) raise(p.workspace->maxima, s.limits, limits, rule, d, m);
    }
}

// Adds E pairs to one sum in f64.
template <typename N, int E, class Sums> __device__ inline void add_wide(u32 sum, const N (&a)[E], const N (&r)[E], Sums &sums, int lanes) {
#pragma unroll
    for (int i = 0; i < E; i++) sums.add_wide(i % lanes, sum < 2 ? (double)distance(a[i], r[i]) : (double)magnitude(r[i]), sum % 2);
}

// A thread's part of a segment. Returns sum s of the segment in lane 8 s.
template <class Pairs, bool ALL, bool HISTOGRAMS>
__device__ inline double add_segment(const VerifyParams &p, const Pairs &pairs, ValuesShared<typename Pairs::T> &s, const Rule<typename Pairs::T> &rule, u64 segment,
                                     Values<typename Pairs::Arith> &v, Steps<typename Pairs::T> &steps) {
    typedef typename Pairs::Arith Arith;
    enum { E = Pairs::E, LANES = Pairs::LANES };
    constexpr bool NARROW = ALL && sizeof(typename Pairs::T) == 4;
    double total = 0;
    // Where f32 has no range for the squares all is read again for each sum, which is made in f64.
    u32 again = 0;
    bool more = false;
#pragma unroll 1
    do {
        Sums<typename Pairs::T, LANES> sums;
        sums.clear();
        u64 index = pairs.walk.start(segment);
        u32 part = 0;
#pragma unroll 1
        for (u32 step = 0; step < pairs.walk.steps; step++) {
            typename Pairs::N a[E], r[E];
            pairs.fetch(index, a, r, [&](typename Pairs::N x, typename Pairs::N y) {
                if (!again) count_nonfinite<Arith>(p, s.counts, v, x, y);
            });
            pairs.walk.next(index, part);
            if constexpr (NARROW)
                if (again) {
                    add_wide(again - 1, a, r, sums, LANES);
                    continue;
                }
            add<Arith, ALL>(p, s, rule, a, r, v, sums);
            if constexpr (HISTOGRAMS) steps.add(rule, a, r);
        }
        if constexpr (NARROW) {
            if (again) {
                const double x = sums.join_wide();
                if (lane_of() == 8 * (again - 1)) total = x;
                more = again < SUMS;
            } else {
                total = sums.join();
                more = wavefront_any(!sums.precise());
            }
            again += more;
        } else if (ALL) total = sums.join();
    } while (more);
    return total;
}

// Adds what a block has found to the workspace.
template <class Arith, bool HISTOGRAMS>
__device__ inline void publish(VerifyWorkspace &w, ValuesShared<typename Arith::T> &s, const Values<Arith> &v, const Steps<typename Arith::T> &steps, u64 seen) {
    typedef typename Arith::T T;
    const u32 counts[4] = {v.mismatches.own(), v.zero_passes.own(), v.zeros_a.own(), v.zeros_r.own()};
    const T largest[3] = {v.largest_a, v.largest_r, v.largest_d};
#pragma unroll
    for (int k = 0; k < 4; k++) {
        const u32 x = subgroup_sum(counts[k]);
        if (lane_of() == 0) atomicAdd(&s.counts[k], (u64)x);
    }
#pragma unroll
    for (int k = 0; k < 3; k++) {
        const u64 x = subgroup_max(bits_of((double)largest[k]));
        if (lane_of() == 0) atomicMax(&s.magnitudes[k], x);
    }
    if constexpr (HISTOGRAMS) steps.join(s.steps);
    __syncthreads();
    const u32 t = threadIdx.x;
    if (t < COUNTS && s.counts[t]) atomicAdd(&w.counts[t], s.counts[t]);
    if (t < 2 && s.magnitudes[t]) atomicMax(&w.magnitudes[t], s.magnitudes[t]);
    if (t == 2 && s.magnitudes[2]) atomicMax(&w.maxima[ABSOLUTE], s.magnitudes[2]);
    if (t < HISTOGRAM_STEPS && s.steps[t]) atomicAdd(&w.steps[t], s.steps[t]);
    if (t == 0) atomicAdd(&w.seen, seen);
}

// Writes the values, by the block that ends last.
template <bool ALL> __device__ inline void write_values(const VerifyParams &p, double (&lanes)[SUMS][FINAL_LANES], u64 runs) {
    VerifyWorkspace &w = *p.workspace;
    VerifyValues &out = w.values;
    const u32 t = threadIdx.x;
    // Zeros stood for what is not there and for pairs that are not finite.
    const u64 zeros = ALL ? w.seen - p.n + w.counts[NONFINITE_PAIRS] : 0;
    if (t < COUNTS) out.counts[t] = w.counts[t] - (t == ZERO_PASSES || t == ZEROS_A || t == ZEROS_R ? zeros : 0);
    if (t < 2) out.magnitudes[t] = f64_of(w.magnitudes[t]);
    if (t < MAXIMA) out.maxima[t] = f64_of(w.maxima[t]);
    if (t < HISTOGRAM_BINS) out.histograms[t] = bin_of_steps(w.steps, t);
    double total[SUMS] = {};
    if (ALL) join_runs(p.partials, runs, p.chunk_log, lanes, total);
    if (t == 0)
        for (u32 s = 0; s < SUMS; s++) out.sums[s] = total[s];
    __syncthreads();
    for (u32 i = t; i < sizeof(VerifyValues) / 8; i += blockDim.x) ((u64 *)&p.result->values)[i] = ((const u64 *)&out)[i];
    for (u32 i = t; i < __builtin_offsetof(VerifyWorkspace, values) / 8; i += blockDim.x) ((u64 *)&w)[i] = 0;
    // The host may be reading the result already.
    fence_system();
    __syncthreads();
    if (t == 0) p.result->valued = 1;
}

template <class Pairs, bool ALL, bool HISTOGRAMS> __device__ inline void make_values(const VerifyParams &p) {
    typedef typename Pairs::T T;
    __shared__ ValuesShared<T> s;
    for (u32 i = threadIdx.x; i < sizeof(s) / 4; i += blockDim.x) ((u32 *)&s)[i] = 0;
    __syncthreads();
    const Pairs pairs(p);
    const Rule<T> rule(p);
    const u32 groups = blockDim.x / SUBGROUP, group = threadIdx.x / SUBGROUP;
    Values<typename Pairs::Arith> v;
    v.clear();
    Steps<T> steps;
    steps.clear();
    u64 rounds = 0;
    // All lanes of a wavefront make every step: zeros stand for what lies beyond the end.
#pragma unroll 1
    for (u64 first = (u64)blockIdx.x * groups; first < pairs.runs; first += (u64)gridDim.x * groups, rounds++)
#pragma unroll 1
        for (u32 part = 0; part < 1u << p.chunk_log; part++) {
            const u64 run = first + group;
            const double x = add_segment<Pairs, ALL, HISTOGRAMS>(p, pairs, s, rule, (run << p.chunk_log) + part, v, steps);
            v.carry();
            if constexpr (HISTOGRAMS) steps.carry();
            if (ALL && run < pairs.runs) s.trees[group].add(part, p.chunk_log, x, p.partials + run * SUMS);
        }
    publish<typename Pairs::Arith, HISTOGRAMS>(*p.workspace, s, v, steps, (rounds * groups << p.chunk_log) * pairs.walk.size);
    if (last_block(p.workspace->blocks_done, s.last)) write_values<ALL>(p, s.lanes, pairs.runs);
}
