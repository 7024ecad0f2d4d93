// Pass B: reads both tensors again, given the values: where each maximum is first, the largest distance in ulps, the smallest tolerances that would pass, and the first
// mismatches. Each subgroup takes tiles in ascending order, so the first element that it finds is the first one among its elements.
#pragma once
#include "any.h"
#include "verify/ulps.h"

constexpr u64 NOWHERE = ~0ull;

// Whether an explanation is wanted, given the values: the verdict of `src/verify/options.rs`.
__device__ inline bool wanted(const VerifyParams &p) {
    if (p.explain != EXPLAIN_ON_FAILURE) return p.explain == EXPLAIN_ALWAYS;
    const VerifyValues &v = p.workspace->values;
    const bool elements = v.counts[MISMATCHES] == 0;
    const double largest = v.magnitudes[0] > v.magnitudes[1] ? v.magnitudes[0] : v.magnitudes[1];
    const double root = sqrt(v.sums[1]), rms = root == 0 ? 0 : __ddiv_rn(root, sqrt((double)p.n) * largest);
    const bool within = rms <= p.thresholds[0] && v.maxima[ABSOLUTE] <= p.thresholds[1] && v.maxima[RELATIVE] <= p.thresholds[2];
    const bool sound = v.counts[NONFINITE_MISMATCHES] == 0;
    const bool thresholds = sound && within;
    return ((p.judge & JUDGE_ELEMENTS) && !elements) || ((p.judge & JUDGE_THRESHOLDS) && !thresholds);
}

// The shared memory of a block.
struct ExplainShared {
    u64 passing[2]; // patterns of f64
    u64 ulps;
    u64 first[MAXIMA]; // inverted
    alignas(16) VerifyFarthest farthest[8]; // a compiler may write both numbers of one together
    u64 worst[MAXIMA + 1]; // indices
    u64 first_tile; // the first one with mismatches, inverted
    u32 last;
};

// What a subgroup searches for; the same in all of its lanes.
template <typename T> struct Search {
    ScaledMaxima<T> maxima; // just below the maxima; no limit for a maximum that was found
    T passing[2], atol;      // smallest tolerances so far, and the atol that belongs to that rtol: no limit once no rtol is enough
    VerifyFarthest farthest; // inverted index
    u32 pending;             // metrics whose maximum the row that is being read has
    __device__ explicit Search(const VerifyParams &p, const Rule<T> &rule) : maxima{}, passing{0, 0}, atol(rule.atol), farthest{0, 0}, pending(0) {
#pragma unroll
        for (u32 k = 0; k < QUOTIENTS; k++) {
            const u32 metric = RELATIVE + k;
            const double m = p.workspace->values.maxima[metric];
            typename Real<T>::Bits least, pattern = ScaledMaxima<T>::pattern(rule, metric, by_binade(rule, metric, m), least);
            // A quotient may be subnormal; if it is not scaled, the number before it is then far below it.
            if (metric != EPSILON) pattern = ScaledMaxima<T>::pattern((double)below(m));
            else maxima.least = least, pattern = pattern == NO_LIMIT<T> ? bits_of(Real<T>::max()) : pattern - (pattern > 0);
            if (m > 0) maxima.set(k, pattern);
            else found(metric);
        }
        maxima.absolute = below(p.workspace->values.maxima[ABSOLUTE]);
        if (!(maxima.absolute >= 0)) found(ABSOLUTE);
    }
    __device__ static T below(double x) { return x > 0 ? Real<T>::of(bits_of((T)x) - 1) : (T)-1; }
    __device__ void found(u32 k) {
        if (k == ABSOLUTE) maxima.absolute = Real<T>::of(NO_LIMIT<T>);
        else maxima.set(k - RELATIVE, NO_LIMIT<T>);
    }
    // Ends a row: its parts are not read in the order of their elements, so the search for a maximum continues up to the end of the row.
    __device__ void end_row() {
#pragma unroll
        for (u32 k = 0; k < MAXIMA; k++)
            if (pending >> k & 1) found(k);
        pending = 0;
    }
    // Whether a pair needs larger tolerances than those found so far.
    template <typename N> __device__ bool needs_more(const Rule<T> &rule, N a, N r, T m) const {
        return !within(distance(a, r), rule.bound(passing[0], m, atol)) || !within(distance(a, r), rule.bound(rule.rtol, m, passing[1]));
    }
    // The same for E pairs; true if any of them may need larger ones. The sign of the difference of two numbers is exact. Bounds that overflow pass all differences except infinite ones: the first infinite difference is a maximum, which is
    // examined anyway, and no tolerance is enough for infinite differences.
    template <int E> __device__ void test(AnyNegative<T> &more, const Rule<T> &rule, const T (&d)[E], const T (&m)[E]) const {
        T base[E];
#pragma unroll
        for (int i = 0; i < E; i++) base[i] = m[i];
        if (rule.by_binade)
#pragma unroll
            for (int i = 0; i < E; i++) base[i] = rule.binade(m[i]);
#pragma unroll
        for (int i = 0; i < E; i++) {
            more.add(Real<T>::fused(passing[0], base[i], atol) - d[i]);
            more.add(Real<T>::fused(rule.rtol, base[i], passing[1]) - d[i]);
        }
    }
    // Takes over what other subgroups have found for the maxima that grow.
    __device__ void refresh(const ExplainShared &s, const Rule<T> &rule) {
        compiler_barrier();
        const T rtol = (T)f64_of(s.passing[0]);
        const bool enough = rtol <= Real<T>::max();
        passing[0] = enough ? rtol : 0, atol = enough ? rule.atol : Real<T>::of(NO_LIMIT<T>);
        passing[1] = (T)f64_of(s.passing[1]);
    }
};

// The least non-negative number that passes; infinite when none does. Passing is monotone; `near` is where the search begins.
template <typename T, class F> __device__ inline T least(T near, F passes) {
    typedef typename Real<T>::Bits Bits;
    Bits low = 0, high = Real<T>::EXPONENT, at = near > 0 && near <= Real<T>::max() ? bits_of(near) : 0;
    for (Bits step = 1; low < high && step != 0; step *= 4) {
        if (passes(Real<T>::of(at))) {
            high = at;
            if (low + step >= high) break;
            at = high - step;
        } else {
            low = at + 1;
            if (low + step >= high) break;
            at = low + step;
        }
    }
    while (low < high) {
        const Bits middle = low + (high - low) / 2;
        if (passes(Real<T>::of(middle))) high = middle;
        else low = middle + 1;
    }
    return Real<T>::of(low);
}

// The smallest rtol and atol that pass a pair.
template <class Arith> __device__ inline void passing_tolerances(const Rule<typename Arith::T> &rule, typename Arith::N a, typename Arith::N r, double (&least_of)[2]) {
    typedef typename Arith::T T;
    const T d = (T)distance(a, r), m = (T)magnitude(r);
    least_of[0] = (double)least(Real<T>::quotient(d - rule.atol, rule.base(m)), [&](T t) { return within(distance(a, r), rule.bound(t, m, rule.atol)); });
    least_of[1] = (double)least(d - rule.rtol * rule.base(m), [&](T t) { return within(distance(a, r), rule.bound(rule.rtol, m, t)); });
}

// Passes on what a lane has found to its subgroup and block. Called by all lanes of a subgroup.
template <typename T>
__device__ inline void join_found(const VerifyParams &p, ExplainShared &s, Search<T> &search, const u64 (&first)[MAXIMA], VerifyFarthest farthest, const double (&passing)[2]) {
    const u32 lane = lane_of();
#pragma unroll
    for (u32 k = 0; k < MAXIMA; k++) {
        const u64 x = subgroup_max(first[k]);
        if (x) search.pending |= 1u << k;
        if (x && lane == 0) atomicMax(&s.first[k], x);
    }
    const u64 ulps = subgroup_max(farthest.ulps), index = subgroup_max(farthest.ulps == ulps ? farthest.index : 0);
    if (ulps > search.farthest.ulps || (ulps == search.farthest.ulps && index > search.farthest.index)) {
        search.farthest = {ulps, index};
        if (lane == 0) {
            const u64 before = atomicMax(&p.workspace->ulps, ulps);
            atomicMax(&s.ulps, before > ulps ? before : ulps);
        }
    }
#pragma unroll
    for (int k = 0; k < 2; k++) {
        const u64 x = subgroup_max(bits_of(passing[k]));
        if (x && lane == 0) {
            const u64 before = atomicMax(&p.workspace->passing[k], x);
            atomicMax(&s.passing[k], before > x ? before : x);
        }
    }
    subgroup_barrier();
}

// Examines E pairs, some of which may be what the search is for.
template <class Pairs>
__device__ inline void examine(const VerifyParams &p, const Pairs &pairs, ExplainShared &s, Search<typename Pairs::T> &search, const Rule<typename Pairs::T> &rule, u64 index,
                               const typename Pairs::N (&a)[Pairs::E], const typename Pairs::N (&r)[Pairs::E]) {
    typedef typename Pairs::T T;
    u64 first[MAXIMA] = {};
    VerifyFarthest farthest = {0, 0};
    double passing[2] = {0, 0};
#pragma unroll 1
    for (u32 e = 0; e < Pairs::E; e++) {
        const typename Pairs::N x = pick(a, e), y = pick(r, e);
        const T d = (T)distance(x, y), m = (T)magnitude(y);
        if (!(d > 0)) continue;
        const u64 at = ~(index + e);
        double value[MAXIMA];
        metrics_of(rule, d, m, value);
#pragma unroll
        for (u32 k = 0; k < MAXIMA; k++)
            if (value[k] > 0 && value[k] == p.workspace->values.maxima[k] && !first[k]) first[k] = at;
        if (!p.all) continue;
        const u64 ulps = bits_of(ulps_between<typename Pairs::Arith>(p, format_at(pairs.dtype_a), pairs.element_at(~at).bits_a, x, y));
        if (ulps > farthest.ulps) farthest = {ulps, at};
        if (!search.needs_more(rule, x, y, m)) continue;
        double mine[2];
        passing_tolerances<typename Pairs::Arith>(rule, x, y, mine);
#pragma unroll
        for (int k = 0; k < 2; k++) passing[k] = Real<double>::larger(mine[k], passing[k]);
    }
    join_found(p, s, search, first, farthest, passing);
    search.refresh(s, rule);
}

// A thread's part of a run of tiles, and whether each tile has mismatches.
template <class Pairs>
__device__ inline void explain_run(const VerifyParams &p, const Pairs &pairs, SharedAddress ring, ExplainShared &s, Search<typename Pairs::T> &search, const Rule<typename Pairs::T> &rule, UlpTest<typename Pairs::T> &ulps, u64 run) {
    typedef typename Pairs::T T;
    typedef typename Pairs::N N;
    enum { E = Pairs::E };
    static_assert(Pairs::LOADS == 1, "the E pairs are neighbours");
    const u32 in_row = pairs.walk.row / SUBGROUP;
    bool mismatch = false;
    T largest = 0;
    search.refresh(s, rule);
    bool examined = true;
    const auto take = [&](u64 index, const N (&a)[E], const N (&r)[E], const typename Pairs::D (&differences)[E], const T (&bound)[E]) {
        // At the beginning of a row of the tile.
        if (index % in_row == 0 && examined) {
            search.end_row();
            ulps.set(search.farthest.ulps, s.ulps);
            examined = false;
        }
        T d[E], m[E];
        AnyNegative<T> beyond;
        rule.magnitudes(differences, r, d, m);
        bool hot = false;
#pragma unroll
        for (int i = 0; i < E; i++) {
            mismatch |= !within((typename Pairs::D)magnitude(differences[i]), bound[i]);
            search.maxima.test(beyond, rule, d[i], (T)r[i], bound[i], m[i] == 0);
        }
        if (p.all) {
            hot = ulps.any_reached(a, r);
            if constexpr (Pairs::Arith::EXACT)
#pragma unroll
                for (int i = 0; i < E; i++) hot |= search.needs_more(rule, a[i], r[i], m[i]);
            else search.test(beyond, rule, d, m);
        }
        if (wavefront_any(hot || beyond.any())) {
            examine(p, pairs, s, search, rule, index, a, r);
            examined = true;
        }
    };
    const auto end_tile = [&](u32 i) {
        const u64 tile = (run << p.run_log) + i;
        const bool any = subgroup_votes(mismatch) != 0;
        mismatch = false;
        search.refresh(s, rule);
        if (lane_of() || tile >= pairs.tiles) return;
        p.mismatches[tile] = any;
        if (any) atomicMax(&s.first_tile, ~tile);
    };
    LoadsAhead<Pairs> loads(pairs, ring, run << p.run_log, 1u << p.run_log);
    for_pairs<false, false, false>(pairs, loads, rule, 1u << p.run_log, largest, [&](N x, N y) { mismatch |= !nonfinite_passes(p, x, y); }, take, end_tile);
}

// Lists the first mismatches in the order of their indices, by one subgroup.
template <class Pairs> __device__ inline void list_mismatches(const VerifyParams &p, const Pairs &pairs, const Rule<typename Pairs::T> &rule) {
    const u64 all = p.workspace->values.counts[MISMATCHES], count = all < p.listed ? all : p.listed;
    VerifyExplanation &out = p.result->explanation;
    u64 listed = 0;
    // There are that many, unless the tensors were written after they were counted.
    for (u64 tile = ~p.workspace->first_tile; listed < count && tile < pairs.tiles; tile++) {
        // The next tile that has mismatches.
        const u32 ahead = subgroup_votes(tile + lane_of() < pairs.tiles && p.mismatches[tile + lane_of()]);
        if (!ahead) {
            tile += SUBGROUP - 1;
            continue;
        }
        tile += __ffs((int)ahead) - 1;
        for (u64 from = tile << pairs.walk.size_log; from < (tile + 1) << pairs.walk.size_log && listed < count; from += SUBGROUP) {
            const u64 index = from + lane_of();
            bool fails = false;
            VerifyElement element = {NOWHERE, 0, 0};
            if (index < p.n) {
                element = pairs.element_at(index);
                const typename Pairs::N x = number<typename Pairs::N>(pairs.dtype_a, element.bits_a), y = number<typename Pairs::N>(pairs.dtype_r, element.bits_r);
                const bool finite = is_finite(x) && is_finite(y);
                fails = finite ? !within(distance(x, y), rule.bound((typename Pairs::T)magnitude(y))) : !nonfinite_passes(p, x, y);
            }
            const u32 votes = subgroup_votes(fails);
            const u64 rank = listed + __popc(votes & ((1u << lane_of()) - 1));
            if (fails && rank < count) out.first[rank] = element;
            listed += __popc(votes);
        }
    }
    if (lane_of() == 0) out.listed = listed < count ? listed : count;
}

// Writes the explanation; called by the block that ends last.
template <class Pairs> __device__ inline void write_explanation(const VerifyParams &p, ExplainShared &s, const Pairs &pairs, const Rule<typename Pairs::T> &rule) {
    VerifyWorkspace &w = *p.workspace;
    VerifyExplanation &out = p.result->explanation;
    const u32 t = threadIdx.x;
    if (t < MAXIMA) s.worst[t] = ~w.first[t];
    if (t < 2) out.passing[t] = f64_of(w.passing[t]);
    if (t < SUBGROUP) {
        VerifyFarthest mine = {0, 0};
        for (u32 b = t; b < p.blocks; b += SUBGROUP) {
            const VerifyFarthest x = p.farthest[b];
            if (x.ulps > mine.ulps || (x.ulps == mine.ulps && x.index > mine.index)) mine = x;
        }
        const u64 ulps = subgroup_max(mine.ulps), index = subgroup_max(mine.ulps == ulps ? mine.index : 0);
        if (t == 0) out.ulps = f64_of(ulps), s.worst[ULP] = ulps ? ~index : NOWHERE;
    }
    __syncthreads();
    if (t <= MAXIMA) out.worst[t] = s.worst[t] == NOWHERE ? VerifyElement{NOWHERE, 0, 0} : pairs.element_at(s.worst[t]);
    if (t < SUBGROUP) list_mismatches(p, pairs, rule);
    __syncthreads();
    for (u32 i = t; i < __builtin_offsetof(VerifyWorkspace, values) / 8; i += blockDim.x) ((u64 *)&w)[i] = 0;
    fence_system();
    __syncthreads();
    if (t == 0) p.result->explained = 1;
}

template <class Pairs> __device__ inline void explain(const VerifyParams &p) {
    typedef typename Pairs::T T;
    if (!wanted(p)) {
        if (blockIdx.x == 0 && threadIdx.x == 0) p.result->explained = 2;
        return;
    }
    __shared__ ExplainShared s;
    for (u32 i = threadIdx.x; i < sizeof(s) / 4; i += blockDim.x) ((u32 *)&s)[i] = 0;
    __shared__ typename Pairs::Shared numbers;
    SHARED_ON_NVIDIA(ring, RING_BYTES);
    numbers.prepare(p);
    __syncthreads();
    const Pairs pairs(p, numbers);
    const Rule<T> rule(p);
    const u32 groups = blockDim.x / SUBGROUP, group = threadIdx.x / SUBGROUP;
    Search<T> search(p, rule);
    UlpTest<T> ulps(p, format_at(pairs.dtype_a));
#pragma unroll 1
    for (u64 first = p.first_run + blockIdx.x * groups; first < pairs.runs; first += (u64)gridDim.x * groups) explain_run(p, pairs, ring, s, search, rule, ulps, first + group);
    if (lane_of() == 0) s.farthest[group] = search.farthest;
    __syncthreads();
    if (threadIdx.x < MAXIMA && s.first[threadIdx.x]) atomicMax(&p.workspace->first[threadIdx.x], s.first[threadIdx.x]);
    if (threadIdx.x == 0) {
        if (s.first_tile) atomicMax(&p.workspace->first_tile, s.first_tile);
        VerifyFarthest most = {0, 0};
        if (p.first_run) most = p.farthest[blockIdx.x];
        for (u32 g = 0; g < groups; g++)
            if (s.farthest[g].ulps > most.ulps || (s.farthest[g].ulps == most.ulps && s.farthest[g].index > most.index)) most = s.farthest[g];
        p.farthest[blockIdx.x] = most;
    }
    if (ends_last(p, s.last)) write_explanation(p, s, pairs, rule);
}
