// The end of a comparison: the block that finishes last joins what all blocks have found and writes the result.
#pragma once
#include "platform.h"
#include "verify.h"

// Whether a pair of elements passes.
template <class Pair> __device__ inline bool passes(const VerifyParams &p, u64 bits_a, u64 bits_r) {
    typedef typename Pair::Number T;
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

// Lists the first mismatches in the order of their indices; one group. They were counted by `parts` parts of `size` elements, of which
// `part` is the first that has some.
template <class Pair> __device__ inline void list(const VerifyParams &p, u64 size, u64 part, u64 parts, u64 mismatches) {
    enum { AHEAD = 4 };
    const u32 column = threadIdx.x % GROUP;
    const u64 wanted = mismatches < p.first ? mismatches : p.first;
    u64 listed = 0;
    while (part < parts) {
        const u64 end = (part + 1) * size < p.n ? (part + 1) * size : p.n;
#pragma unroll 1
        for (u64 from = part * size; from < end && listed < wanted; from += AHEAD * GROUP) {
            u64 bits_a[AHEAD], bits_r[AHEAD];
#pragma unroll
            for (u32 k = 0; k < AHEAD; k++) {
                const u64 index = from + k * GROUP + column;
                bits_a[k] = bits_r[k] = 0;
                if (index < end) bits_a[k] = Pair::bits_a(p, index), bits_r[k] = Pair::bits_r(p, index);
            }
#pragma unroll
            for (u32 k = 0; k < AHEAD; k++) {
                const u64 index = from + k * GROUP + column;
                const bool fails = index < end && !passes<Pair>(p, bits_a[k], bits_r[k]);
                const u32 mine = group_votes(fails);
                const u64 rank = listed + __popc(mine & ((1u << column) - 1));
                if (fails && rank < wanted) p.result->first[rank] = {index, bits_a[k], bits_r[k]};
                listed += __popc(mine);
            }
        }
        if (listed >= wanted) break;
        // The next part that has some.
        u64 from = part + 1;
        for (part = NOWHERE; part == NOWHERE && from < parts; from += AHEAD * GROUP) {
            u32 some[AHEAD];
#pragma unroll
            for (u32 k = 0; k < AHEAD; k++) some[k] = from + k * GROUP + column < parts ? p.mismatches[from + k * GROUP + column] : 0;
#pragma unroll
            for (u32 k = AHEAD; k-- > 0;) {
                const u32 here = group_votes(some[k] != 0);
                if (here) part = from + k * GROUP + (u32)__ffs((int)here) - 1;
            }
        }
    }
    if (column == 0) p.result->listed = listed < wanted ? listed : wanted;
}

// Joins the sums of all chunks, in shared memory: the whole block, or one group ALONE while others do something else. Lanes without an item would
// add zeros.
template <bool ALONE> __device__ inline void join_items(const VerifyParams &p, Shared &s, u64 segments) {
    const u32 parts = ITEM_SEGMENTS >> p.chunk_log;
    const u64 items = (segments + ITEM_SEGMENTS - 1) / ITEM_SEGMENTS, chunks = (segments + (1ull << p.chunk_log) - 1) >> p.chunk_log;
    // Of the block, from its middle on: its first groups may be busy.
    const u32 threads = ALONE ? GROUP : blockDim.x, rank = (threadIdx.x + (ALONE ? 0 : threads / 2)) % threads;
    auto settle = [] {
        if (ALONE) settle_group();
        else __syncthreads();
    };
    // A thread a lane and two of the four sums.
    u32 lanes = FINAL_LANES;
    while (lanes / 2 >= items && lanes > 1) lanes /= 2;
    for (u32 task = rank; task < 2 * lanes; task += threads) {
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
    for (u32 half = lanes / 2; half > 0; half /= 2) {
        settle();
        for (u32 i = rank; i < half * 4; i += threads) {
            double *x = s.space + i / half * FINAL_LANES;
            x[i % half] = x[i % half] + x[i % half + half];
        }
    }
    settle();
    if (rank < 4) p.result->sums[rank] = s.space[rank * FINAL_LANES];
}

// What all blocks have counted, and the worst of their worst elements: a group a measure.
template <class Pair, int KINDS> __device__ inline void gather(const VerifyParams &p, const double *values, const u64 *indices) {
    enum { AHEAD = 8 };
    const VerifyWorkspace &w = *p.workspace;
    VerifyResult &out = *p.result;
    const u32 t = threadIdx.x, column = t % GROUP;
    // Read first and used later, so that all is under way at once.
    const u64 count = w.counts[t < COUNTS ? t : 0], histogram = w.histograms[t < HISTOGRAM_BINS ? t : 0];
    const double hint = f64_of(w.hints[t & 1]), magnitude = f64_of(w.magnitudes[t & 1]);
#pragma unroll 1
    for (u32 k = t / GROUP; k < KINDS; k += blockDim.x / GROUP) {
        double worst = 0;
        u64 where = NOWHERE;
#pragma unroll 1
        for (u32 from = column; from < gridDim.x; from += AHEAD * GROUP) {
            double value[AHEAD];
            u64 index[AHEAD];
#pragma unroll
            for (u32 i = 0; i < AHEAD; i++) {
                const u32 b = from + i * GROUP;
                value[i] = 0, index[i] = NOWHERE;
                if (b < gridDim.x) value[i] = values[k * gridDim.x + b], index[i] = indices[k * gridDim.x + b];
            }
#pragma unroll
            for (u32 i = 0; i < AHEAD; i++)
                if (value[i] > worst || (value[i] == worst && value[i] > 0 && index[i] < where)) worst = value[i], where = index[i];
        }
        group_worst(worst, where, [&](double value, u64 index) {
            out.values[k] = value;
            out.places[k] = place<Pair>(p, value > 0 ? index : NOWHERE);
        });
    }
    if (t < COUNTS) out.counts[t] = count;
    if (t < HISTOGRAM_BINS) out.histograms[t] = histogram;
    if (t < 2) out.hints[t] = hint, out.magnitudes[t] = magnitude;
    // Measures that were not asked for.
    if (t >= KINDS && t < MEASURES) out.values[t] = 0, out.places[t].index = NOWHERE;
}

// The last of a block's work, after its last `Worst::join` and `tally_up` and a barrier. Mismatches were counted by `parts` parts of `size`
// elements, sums by segments, few or many. A block has four groups at least; with FEW four more than measures.
template <class Pair, bool ALL, bool FEW> __device__ inline void finish(const VerifyParams &p, Shared &s, u64 size, u64 parts, u64 segments) {
    VerifyWorkspace &w = *p.workspace;
    const u32 groups = blockDim.x / GROUP, group = threadIdx.x / GROUP, column = threadIdx.x % GROUP;
    enum { KINDS = ALL ? MEASURES : ABSOLUTE + 1 };
    // This block's share, into global memory: a group a measure, a thread a count. With FEW beside each other.
    double *const values = p.bests;
    u64 *const indices = (u64 *)(values + MEASURES * gridDim.x);
#pragma unroll 1
    for (u32 k = group; k < KINDS; k += groups) {
        const bool there = column < MOST_GROUPS;
        const VerifyBest &best = s.bests[there ? column : 0];
        group_worst(there ? best.value[k] : 0, best.index[k], [&](double value, u64 index) {
            values[k * gridDim.x + blockIdx.x] = value;
            indices[k * gridDim.x + blockIdx.x] = index;
        });
    }
    const u32 counter = FEW ? group - KINDS : group;
    if (counter == 0 && column < COUNTS) {
        u64 count = s.counts[column];
        if (column < LARGEST_A)
#pragma unroll
            for (u32 g = 0; g < MOST_GROUPS; g++) count += g < groups ? s.tallies[column][g] : 0;
        if (count) atomicAdd(&w.counts[column], count);
    } else if (counter == 1 && column < TALLIES - LARGEST_A) {
        u64 most = s.magnitudes[column];
#pragma unroll
        for (u32 g = 0; g < MOST_GROUPS; g++) {
            const u64 x = g < groups ? s.tallies[LARGEST_A + column][g] : 0;
            most = x > most ? x : most;
        }
        if (most) atomicMax(&w.magnitudes[column], most);
    } else if (counter == 2 && column < HISTOGRAM_BINS && s.histograms[column]) atomicAdd(&w.histograms[column], s.histograms[column]);
    else if (counter == 3 && column < 2 && s.hints[column]) atomicMax(&w.hints[column], s.hints[column]);
    else if (counter == 3 && column == 2 && s.first_segment) atomicMax(&w.first_segment, s.first_segment);
    if (!last_block(w.blocks_done, s.last)) return;

    // Beside each other where there are groups for all of it: the list and the sums have wavefronts of their own.
    const bool lists = group == groups - 1;
    if (FEW && lists) list<Pair>(p, size, ~w.first_segment, parts, w.counts[MISMATCHES]);
    else if (FEW && ALL && group == groups - 3) join_items<true>(p, s, segments);
    else gather<Pair, KINDS>(p, values, indices);
    if (!FEW && lists) list<Pair>(p, size, ~w.first_segment, parts, w.counts[MISMATCHES]);
    if constexpr (ALL && !FEW) join_items<false>(p, s, segments);
    __syncthreads();
    // Leave the workspace as it was.
    for (u32 i = threadIdx.x; i < sizeof(VerifyWorkspace) / 8; i += blockDim.x) ((u64 *)&w)[i] = 0;
    // The host may be looking at the result already.
    fence_system();
    __syncthreads();
    if (threadIdx.x == 0) p.result->done = 1;
}
