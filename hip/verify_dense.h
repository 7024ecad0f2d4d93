// The comparison of two dense tensors aligned to 16 bytes: the fast paths.
#pragma once
#include "verify_count.h"
#include "verify_end.h"
#include "verify_look.h"
#include "verify_rows.h"
#include "verify_sums.h"

// The sums of a column again, from memory, with accumulators in S: without what is not finite, or with more range.
template <class Pair, typename S> __device__ inline Column<S, Pair::V> sum_again(const VerifyParams &p, u64 index) {
    typedef typename Pair::Number T;
    enum { V = Pair::V };
    Column<S, V> sums;
    sums.clear();
#pragma unroll 1
    for (u32 row = 0; row < ROWS; row++, index += GROUP * V) {
        const typename Pair::Raw raw = Pair::load(p, index, index + V <= p.n);
        S d[V], r[V];
#pragma unroll
        for (int v = 0; v < V; v++) {
            const T x = Pair::result(raw, v), y = Pair::reference(raw, v);
            const bool finite = is_finite(x) && is_finite(y);
            d[v] = finite ? (S)(x - y) : 0;
            r[v] = finite ? (S)y : 0;
        }
        sums.add(d, r);
    }
    return sums;
}

// Exchanges what is known with the other blocks: a thread a measure. What others know was read early and may be old.
struct Exchange {
    u64 theirs;
    __device__ bool mine() const { return threadIdx.x < MEASURES + 2; }
    __device__ u64 *here(Shared &s) const { return threadIdx.x < MEASURES ? &s.keys[threadIdx.x] : &s.hints[threadIdx.x - MEASURES]; }
    __device__ u64 *there(VerifyWorkspace &w) const { return threadIdx.x < MEASURES ? &w.keys[threadIdx.x] : &w.hints[threadIdx.x - MEASURES]; }
    __device__ void ask(VerifyWorkspace &w) {
        if (mine()) theirs = *(volatile u64 *)there(w);
    }
    __device__ void settle(Shared &s, VerifyWorkspace &w) {
        if (!mine()) return;
        forget();
        const u64 ours = *here(s);
        if (theirs > ours) {
            atomicMax(here(s), theirs);
            atomicOr(&s.raised, 1u);
        } else if (ours > theirs) atomicMax(there(w), ours);
    }
};

// The comparison of two dense tensors aligned to 16 bytes, by blocks of up to THREADS.
template <class Pair, bool ALL, u32 THREADS> __device__ inline void verify(const VerifyParams &p) {
    typedef typename Pair::Number T;
    typedef typename Pair::Raw Raw;
    typedef Pipe<Pair, THREADS> Rows;
    enum { V = Pair::V, ROW = GROUP * V, SEGMENT = ROWS * ROW, BATCH = Rows::BATCH, PATIENCE = 2 };
    // Rows that are compared together: few elements leave an instruction waiting for the one before.
    enum { AT_ONCE = BATCH > 1 && V <= 8 ? 2 : 1 };
    __shared__ Shared s;
    __shared__ typename Rows::Space space;
    Rule<T> rule(p);
    rule.keep();
    VerifyWorkspace &w = *p.workspace;
    const u32 groups = blockDim.x / GROUP, group = group_of(threadIdx.x), column = threadIdx.x % GROUP, chunk = 1u << p.chunk_log;
    const u64 segments = (p.n + SEGMENT - 1) / SEGMENT, stride = (u64)gridDim.x * groups << p.chunk_log;
    u64 first = (u64)blockIdx.x * groups << p.chunk_log;
    Rows rows(space, group, p, (first + group * chunk) * SEGMENT, (u64)chunk * SEGMENT, stride * SEGMENT);
    rows.ask(p);
    begin(s);
    Tally<T> tally;
    tally.clear();
    const Small<Pair, Pair::PACKED> small(rule);
    Extent<Pair, KEPT<Pair, ALL>> extent;
#if defined(__CUDACC__)
    Counter<Pair> counter(rule);
#endif
    Exchange exchange;
    exchange.ask(w);
    look_ahead<Pair, ALL>(p, s, first + group * chunk, (first + group * chunk) * SEGMENT + column * V);
    __syncthreads();
    exchange.settle(s, w);
    // Many blocks have begun at once and looked at as many elements: worth a moment.
    if (gridDim.x > 64) {
        fence_device();
        exchange.ask(w);
        exchange.settle(s, w);
    }
    if (ALL) screen<Pair>(p, s, first, true);
    else __syncthreads();
    // Segments that the group has been through.
    u32 turn = 0;
    for (; first < segments; first += stride)
#pragma unroll 1
        for (u32 part = 0; part < chunk; part++, turn++) {
            // Whether the table is worth writing again: asked at times that are known to all, ever more seldom. Two segments tell little more
            // than one.
            if (ALL && turn > 0 && turn != 2 && ((turn & (turn - 1)) == 0 || turn % 64 == 0)) {
                __syncthreads();
                if (threadIdx.x == 0) s.rewrite = s.raised && s.hot > PATIENCE * groups, s.hot = 0;
                __syncthreads();
                if (s.rewrite) screen<Pair>(p, s, first + part, false);
            }
            exchange.ask(w);
            const u64 segment = first + group * chunk + part, begins = segment * SEGMENT;
            if (first + group * chunk < segments) {
                const u32 left = p.n > begins ? (u32)(p.n - begins < SEGMENT ? p.n - begins : SEGMENT) : 0, batches = (left + BATCH * ROW - 1) / (BATCH * ROW);
                T absolute = 0;
                Column<T, V> sums;
                sums.clear();
                bool gaps = false;
                tally.mismatches = 0;
#pragma unroll 1
                for (u32 batch = 0; batch < batches; batch++) {
                    rows.next();
                    rows.ask(p);
                    rows.wait();
                    // In the beginning more is known from batch to batch.
                    if (!ALL && (turn == 0 || batch == 0)) {
                        Limits<T> limits;
                        limits.take_absolute(s, segment);
                        absolute = limits.absolute;
#if defined(__CUDACC__)
                        if constexpr (Pair::HALVES) counter.set_limit(absolute);
#endif
                    }
#pragma unroll 1
                    for (u32 k = 0; k < BATCH; k += AT_ONCE) {
                        const u32 row = batch * BATCH + k;
                        // Rows that are not all there are looked at closely.
                        const bool cut = (row + AT_ONCE) * ROW > left;
                        const auto extent_before = extent;
                        const Tally<T> tally_before = tally;
#if defined(__CUDACC__)
                        if constexpr (!ALL && Pair::HALVES) {
                            static_assert(AT_ONCE == 1, "a row at a time");
                            const Raw raw = rows.take(k);
                            u32 mismatches;
                            extent.raise(raw, counter.magic);
                            const bool sure = counter.count(mismatches, extent.r, raw) && !cut;
                            if (__all(sure)) {
                                tally.mismatches += mismatches;
                                continue;
                            }
                            extent = extent_before;
                        }
#endif
                        bool hot[AT_ONCE];
#pragma unroll
                        for (u32 j = 0; j < AT_ONCE; j++) {
                            const Raw raw = rows.take(k + j);
                            // Signs go where they are used: instructions take magnitudes.
                            T d[V], r[V];
                            hot[j] = cut;
#pragma unroll
                            for (int v = 0; v < V; v++) {
                                r[v] = Pair::reference(raw, v);
                                d[v] = Pair::result(raw, v) - r[v];
                                hot[j] |= above<Pair, ALL>((const char *)s.space, absolute, r[v], Real<T>::abs(d[v]));
                                count_above(tally.mismatches, Real<T>::abs(d[v]), Real<T>::fused(rule.rtol, Real<T>::abs(r[v]), rule.atol));
                            }
                            if (ALL) sums.add(d, r);
                            extent.raise(raw);
                            if constexpr (ALL) {
                                const Least<Pair> least(raw);
                                if (least.any(small.gate)) small.count(tally, rule, least, raw);
                            }
                        }
                        u32 hots = 0;
#pragma unroll
                        for (u32 j = 0; j < AT_ONCE; j++) hots |= hot[j] ? 1u << j : 0;
                        if (__any(hots)) {
                            if (ALL && column == 0) atomicAdd(&s.hot, 1u);
                            bool fine = !cut;
#pragma unroll 1
                            for (u32 j = 0; j < AT_ONCE && fine; j++)
                                if (__any(hots >> j & 1)) fine = look<Pair, ALL>(p, s, absolute, segment, begins + (row + j) * ROW + column * V, rows.take(k + j));
                            if (!fine) {
                                // Counted again, and what was added may have spoilt the sums.
                                extent = extent_before;
                                tally = tally_before;
                                gaps = true;
#pragma unroll 1
                                for (u32 j = 0; j < AT_ONCE; j++)
                                    tally.add(look_closely<Pair, ALL>(p, s, segment, begins + (row + j) * ROW + column * V, rows.take(k + j)));
                            }
                        }
                    }
                }
                double totals[4] = {0, 0, 0, 0};
                if constexpr (ALL) {
                    if (gaps) sums = sum_again<Pair, T>(p, begins + column * V);
                    if (Pair::SQUARES_FIT || group_all(sums.precise())) sums.totals(totals);
                    else sum_again<Pair, double>(p, begins + column * V).totals(totals);
                }
                join<ALL>(p, s, segment, segments, part, tally.mismatches, totals);
            }
            exchange.settle(s, w);
        }
    __syncthreads();
    tally.largest_a = Real<T>::larger(tally.largest_a, extent.largest_a());
    tally.largest_r = Real<T>::larger(tally.largest_r, extent.largest_r());
    tally_up<ALL>(s, tally);
    __syncthreads();
    finish<Pair, ALL, false>(p, s, SEGMENT, segments, segments);
}
