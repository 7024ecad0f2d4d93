// The end of a comparison: the block that finishes last joins what all blocks have found and writes the result.
#pragma once
#include "verify.h"

__device__ inline u64 fetch(u64 *x) { return atomicAdd(x, 0ull); }

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
            const u64 votes = __ballot(fails);
            // The group's part of a wavefront that may hold two.
            const u32 mine = (u32)(votes >> (threadIdx.x % warpSize / GROUP * GROUP));
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

// Joins the sums of all works, in shared memory.
__device__ inline void join_items(const VerifyParams &p, Shared &s, u64 segments, u64 works) {
    const u32 parts = ITEM_SEGMENTS * GROUP / blockDim.x;
    const u64 items = (segments + ITEM_SEGMENTS - 1) / ITEM_SEGMENTS;
    // A thread a lane and two of the four sums.
    for (u32 task = threadIdx.x; task < 2 * FINAL_LANES; task += blockDim.x) {
        const u32 lane = task % FINAL_LANES, pair = task / FINAL_LANES;
        double sum0 = 0, sum1 = 0;
        // Several items are fetched together; they are added one after the other.
        enum { AHEAD = 8 };
        for (u64 from = lane; from < items; from += AHEAD * FINAL_LANES) {
            double tree[AHEAD][2];
#pragma unroll
            for (u32 k = 0; k < AHEAD; k++) {
                const u64 item = from + (u64)k * FINAL_LANES;
                tree[k][0] = tree[k][1] = 0;
                if (item >= items || parts > 1) continue;
                const double2 x = *(const double2 *)(p.partials + item * 4 + 2 * pair);
                tree[k][0] = x.x, tree[k][1] = x.y;
            }
            if (parts > 1) {
#pragma unroll 1
                for (u32 k = 0; k < AHEAD; k++) {
                    const u64 item = from + (u64)k * FINAL_LANES;
                    if (item >= items) break;
                    // Absent parts are zeros behind the others, so the tree of eight is that of `parts`.
                    double2 x[ITEM_SEGMENTS / 2];
#pragma unroll
                    for (u32 i = 0; i < ITEM_SEGMENTS / 2; i++) {
                        const u64 work = item * parts + i;
                        x[i] = make_double2(0, 0);
                        if (i < parts && work < works) x[i] = *(const double2 *)(p.partials + work * 4 + 2 * pair);
                    }
#pragma unroll
                    for (u32 step = 1; step < ITEM_SEGMENTS / 2; step *= 2)
#pragma unroll
                        for (u32 i = 0; i < ITEM_SEGMENTS / 2; i += 2 * step) {
                            x[i].x = x[i].x + x[i + step].x;
                            x[i].y = x[i].y + x[i + step].y;
                        }
                    sum0 = sum0 + x[0].x;
                    sum1 = sum1 + x[0].y;
                }
            } else {
#pragma unroll
                for (u32 k = 0; k < AHEAD; k++) sum0 = sum0 + tree[k][0], sum1 = sum1 + tree[k][1];
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
template <class Pair, bool ALL> __device__ inline void finish(const VerifyParams &p, Shared &s, u64 size, u64 segments, u64 works) {
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

    VerifyResult &out = *p.result;
    if (t < COUNTS) out.counts[t] = s.counts[t] = fetch(&w.counts[t]);
    if (t < 23) out.histograms[t] = fetch(&w.histograms[t]);
    if (t < 2) out.hints[t] = f64_of(fetch(&w.hints[t])), out.magnitudes[t] = f64_of(fetch(&w.magnitudes[t]));
    if (t == 0) s.first_segment = fetch(&w.first_segment);
    // A group a measure: the worst of all blocks.
    const u32 groups = blockDim.x / GROUP, group = t / GROUP, column = t % GROUP;
    for (u32 k = group; k < (ALL ? MEASURES : ABSOLUTE + 1); k += groups) {
        double value = 0;
        u64 index = NOWHERE;
        for (u32 b = column; b < gridDim.x; b += GROUP) {
            const double v = p.bests[b].value[k];
            const u64 i = p.bests[b].index[k];
            if (v > value || (v == value && v > 0 && i < index)) value = v, index = i;
        }
        const double most = group_max(value);
        const u64 first = ~group_max(~(value == most && most > 0 ? index : NOWHERE));
        if (column == 0) {
            out.values[k] = most;
            out.places[k] = place<Pair>(p, first);
        }
    }
    if (!ALL && t > 0 && t < MEASURES) out.values[t] = 0, out.places[t].index = NOWHERE;
    __syncthreads();
    if (s.counts[MISMATCHES] && p.first) list<Pair>(p, s, size, ~s.first_segment, segments, s.counts[MISMATCHES]);
    else if (t == 0) out.listed = 0;
    if (ALL) join_items(p, s, segments, works);
    // Leave the workspace as it was.
    for (u32 i = t; i < sizeof(VerifyWorkspace) / 8; i += blockDim.x) ((u64 *)&w)[i] = 0;
}
