// The end of a comparison: the block that finishes last joins what all blocks have found and writes the result.
#pragma once
#include "verify.h"

// Whether element `index` passes.
template <class Pair> __device__ inline bool passes(const VerifyParams &p, u64 index) {
    typedef typename Pair::Number T;
    const u64 bits_a = Pair::bits_a(p, index), bits_r = Pair::bits_r(p, index);
    if constexpr (Pair::EXACT_INTEGERS) {
        const i64 a = decode_int(format_of(p.dtype_a), bits_a), r = decode_int(format_of(p.dtype_r), bits_r);
        return int_passes(apart(a, r), p.rtol, (double)size_of(r), p.atol);
    } else {
        const Rule<T> rule(p);
        const T a = Pair::decode_a(p, bits_a), r = Pair::decode_r(p, bits_r);
        if (!is_finite(a) || !is_finite(r)) return p.nonfinite_equal && (a == r || (a != a && r != r));
        return !(Real<T>::abs(a - r) > rule.bound(Real<T>::abs(r)));
    }
}

template <class Pair> __device__ inline VerifyPlace place(const VerifyParams &p, u64 index) {
    VerifyPlace at = {index, 0, 0};
    if (index != NOWHERE) at.bits_a = Pair::bits_a(p, index), at.bits_r = Pair::bits_r(p, index);
    return at;
}

// Lists the first mismatches in the order of their indices; the whole block. `segment` is the first that has some.
template <class Pair> __device__ inline void list(const VerifyParams &p, Shared &s, u64 size, u64 segment, u64 segments, u64 mismatches) {
    const u32 groups = blockDim.x / GROUP, group = threadIdx.x / GROUP, column = threadIdx.x % GROUP;
    const u64 wanted = mismatches < p.first ? mismatches : p.first;
    u64 listed = 0;
    while (listed < wanted) {
        const u64 end = (segment + 1) * size < p.n ? (segment + 1) * size : p.n;
        for (u64 from = segment * size; from < end && listed < wanted; from += blockDim.x) {
            const u64 index = from + threadIdx.x;
            const bool fails = index < end && !passes<Pair>(p, index);
            const u32 mine = group_votes(fails);
            if (column == 0) s.found[group] = __popc(mine);
            __syncthreads();
            u64 rank = listed + __popc(mine & ((1u << column) - 1));
            for (u32 g = 0; g < groups; g++) {
                if (g < group) rank += s.found[g];
                listed += s.found[g];
            }
            if (fails && rank < wanted) p.result->first[rank] = place<Pair>(p, index);
            __syncthreads();
        }
        if (listed >= wanted) break;
        // The next segment that has some. There is one: not all mismatches are listed.
        for (u64 from = segment + 1;; from += blockDim.x) {
            const u64 at = from + threadIdx.x;
            if (threadIdx.x == 0) s.first_segment = 0;
            __syncthreads();
            if (at < segments && p.mismatches[at]) atomicMax(&s.first_segment, ~at);
            __syncthreads();
            segment = ~s.first_segment;
            __syncthreads();
            if (segment != NOWHERE || from + blockDim.x >= segments) break;
        }
        if (segment == NOWHERE) break;
    }
    if (threadIdx.x == 0) p.result->listed = listed < wanted ? listed : wanted;
}

// Joins the sums of all chunks, in shared memory.
__device__ inline void join_items(const VerifyParams &p, Shared &s, u64 segments) {
    const u32 parts = ITEM_SEGMENTS >> p.chunk_log;
    const u64 items = (segments + ITEM_SEGMENTS - 1) / ITEM_SEGMENTS, chunks = (segments + (1ull << p.chunk_log) - 1) >> p.chunk_log;
    // A thread a lane and two of the four sums.
    for (u32 task = threadIdx.x; task < 2 * FINAL_LANES; task += blockDim.x) {
        const u32 lane = task / 2, pair = task % 2;
        const double2 *const from = (const double2 *)p.partials + pair;
        double sum0 = 0, sum1 = 0;
        if (parts == 1) {
            // Several items are fetched together; they are added one after the other.
            enum { AHEAD = 16 };
            for (u64 first = lane; first < items; first += AHEAD * FINAL_LANES) {
                double2 x[AHEAD];
#pragma unroll
                for (u32 k = 0; k < AHEAD; k++) {
                    const u64 item = first + (u64)k * FINAL_LANES;
                    x[k] = make_double2(0, 0);
                    if (item < items) x[k] = from[item * 2];
                }
#pragma unroll
                for (u32 k = 0; k < AHEAD; k++) sum0 = sum0 + x[k].x, sum1 = sum1 + x[k].y;
            }
        } else {
#pragma unroll 1
            for (u64 item = lane; item < items; item += FINAL_LANES) {
                // Absent parts are zeros behind the others, so the tree of sixteen is that of `parts`.
                double2 x[ITEM_SEGMENTS];
#pragma unroll
                for (u32 i = 0; i < ITEM_SEGMENTS; i++) {
                    const u64 chunk = item * parts + i;
                    x[i] = make_double2(0, 0);
                    if (i < parts && chunk < chunks) x[i] = from[chunk * 2];
                }
#pragma unroll
                for (u32 step = 1; step < ITEM_SEGMENTS; step *= 2)
#pragma unroll
                    for (u32 i = 0; i < ITEM_SEGMENTS; i += 2 * step) {
                        x[i].x = x[i].x + x[i + step].x;
                        x[i].y = x[i].y + x[i + step].y;
                    }
                sum0 = sum0 + x[0].x;
                sum1 = sum1 + x[0].y;
            }
        }
        s.space[(2 * pair) * FINAL_LANES + lane] = sum0;
        s.space[(2 * pair + 1) * FINAL_LANES + lane] = sum1;
    }
    for (u32 half = FINAL_LANES / 2; half > 0; half /= 2) {
        __syncthreads();
        for (u32 i = threadIdx.x; i < half * 4; i += blockDim.x) {
            double *x = s.space + i / half * FINAL_LANES;
            x[i % half] = x[i % half] + x[i % half + half];
        }
    }
    __syncthreads();
    if (threadIdx.x < 4) p.result->sums[threadIdx.x] = s.space[threadIdx.x * FINAL_LANES];
}

// s.bests[0] is the block's best. SIZE: elements of a segment.
template <class Pair, bool ALL> __device__ inline void finish(const VerifyParams &p, Shared &s, u64 size, u64 segments) {
    VerifyWorkspace &w = *p.workspace;
    const u32 t = threadIdx.x;
    // This block's share, into global memory.
    if (t < MEASURES) {
        p.bests[blockIdx.x].value[t] = s.bests[0].value[t];
        p.bests[blockIdx.x].index[t] = s.bests[0].index[t];
    }
    if (t < COUNTS && s.counts[t]) atomicAdd(&w.counts[t], s.counts[t]);
    if (t < 23 && s.histograms[t]) atomicAdd(&w.histograms[t], s.histograms[t]);
    if (t < 2) {
        if (s.hints[t]) atomicMax(&w.hints[t], s.hints[t]);
        if (s.magnitudes[t]) atomicMax(&w.magnitudes[t], s.magnitudes[t]);
    }
    if (t == 0 && s.first_segment) atomicMax(&w.first_segment, s.first_segment);
    __threadfence();
    __syncthreads();
    if (t == 0) s.last = atomicAdd(&w.blocks_done, 1ull) == gridDim.x - 1;
    __syncthreads();
    if (!s.last) return;
    __threadfence();

    // Read first and used later, so that all is under way at once.
    VerifyResult &out = *p.result;
    const u64 count = w.counts[t < COUNTS ? t : 0], histogram = w.histograms[t < 23 ? t : 0], first_segment = w.first_segment;
    const double hint = f64_of(w.hints[t & 1]), magnitude = f64_of(w.magnitudes[t & 1]);
    // The worst of all blocks: each thread takes some blocks, each group joins its threads, then a thread a measure joins the groups.
    enum { KINDS = ALL ? MEASURES : ABSOLUTE + 1 };
    double value[KINDS];
    u64 index[KINDS];
#pragma unroll
    for (int k = 0; k < KINDS; k++) value[k] = 0, index[k] = NOWHERE;
#pragma unroll 1
    for (u32 b = t; b < gridDim.x; b += blockDim.x) {
        const VerifyBest best = p.bests[b];
#pragma unroll
        for (int k = 0; k < KINDS; k++)
            if (best.value[k] > value[k] || (best.value[k] == value[k] && best.value[k] > 0 && best.index[k] < index[k])) value[k] = best.value[k], index[k] = best.index[k];
    }
#pragma unroll
    for (int k = 0; k < KINDS; k++) {
        const double most = group_max(value[k]);
        const u64 first = ~group_max(~(value[k] == most && most > 0 ? index[k] : NOWHERE));
        if (t % GROUP == 0) s.bests[t / GROUP].value[k] = most, s.bests[t / GROUP].index[k] = first;
    }
    join_bests(s);
    if (t < KINDS) {
        out.values[t] = s.bests[0].value[t];
        out.places[t] = place<Pair>(p, s.bests[0].value[t] > 0 ? s.bests[0].index[t] : NOWHERE);
    }
    if (t < COUNTS) out.counts[t] = s.counts[t] = count;
    if (t < 23) out.histograms[t] = histogram;
    if (t < 2) out.hints[t] = hint, out.magnitudes[t] = magnitude;
    if (!ALL && t > 0 && t < MEASURES) out.values[t] = 0, out.places[t].index = NOWHERE;
    __syncthreads();
    if (s.counts[MISMATCHES] && p.first) list<Pair>(p, s, size, ~first_segment, segments, s.counts[MISMATCHES]);
    else if (t == 0) out.listed = 0;
    if (ALL) join_items(p, s, segments);
    // Leave the workspace as it was.
    for (u32 i = t; i < sizeof(VerifyWorkspace) / 8; i += blockDim.x) ((u64 *)&w)[i] = 0;
    // The host may be looking at the result already.
    __threadfence_system();
    __syncthreads();
    if (t == 0) out.done = 1;
}
