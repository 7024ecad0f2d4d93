// Sums in the order that `src/verify/sums.rs` defines: Σ|d|, Σd², Σ|r|, Σr².
#pragma once
#include "verify.h"

// Whether squares were added in f32 without losing any to its range, given the sum of what was squared.
__device__ inline bool precise_enough(float plain, float squares) {
    return (squares >= 7.5231638e-37f && squares <= Real<float>::max()) || plain == 0;
}
__device__ inline bool precise_enough(double, double) { return true; }

// The accumulators of one thread (a column of its segment) by lane, in the arithmetic of the pair.
template <typename T, int V> struct Column {
    enum { LANES = V < 4 ? V : 4 };
    T acc[4][LANES];
    __device__ void clear() {
        for (int s = 0; s < 4; s++)
            for (int j = 0; j < LANES; j++) acc[s][j] = 0;
    }
    // The elements of a row, of either sign; each lane takes its own in their order.
    __device__ void add(const T (&d)[V], const T (&r)[V]) {
#pragma unroll
        for (int v = 0; v < V; v++) {
            const int j = v % LANES;
            acc[0][j] = acc[0][j] + Real<T>::abs(d[v]);
            acc[1][j] = Real<T>::fused(d[v], d[v], acc[1][j]);
            acc[2][j] = acc[2][j] + Real<T>::abs(r[v]);
            acc[3][j] = Real<T>::fused(r[v], r[v], acc[3][j]);
        }
    }
    __device__ bool precise() const {
        bool all = true;
#pragma unroll
        for (int j = 0; j < LANES; j++) all &= precise_enough(acc[0][j], acc[1][j]) && precise_enough(acc[2][j], acc[3][j]);
        return all;
    }
    __device__ void totals(double (&total)[4]) const {
#pragma unroll
        for (int s = 0; s < 4; s++) {
            total[s] = (double)acc[s][0] + (double)acc[s][1];
            if constexpr (LANES == 4) total[s] = total[s] + ((double)acc[s][2] + (double)acc[s][3]);
        }
    }
};

// The same sums with accumulators in S, element after element, a lane at a time. visit(index, d, m) gives an element, or leaves zeros
// where there is none; `first` is the column's first element and `row` the distance of its rows. Returns whether they are precise.
template <typename S, typename F> __device__ inline bool sum_column(u64 first, u64 row, u32 width, double (&totals)[4], F visit) {
    const u32 lanes = width < 4 ? width : 4;
    // Lanes 0 and 1 are joined first, then 2 and 3, then both.
    double front[4] = {0, 0, 0, 0}, back[4] = {0, 0, 0, 0};
    bool precise = true;
#pragma unroll 1
    for (u32 lane = 0; lane < lanes; lane++) {
        S acc[4] = {0, 0, 0, 0};
#pragma unroll 1
        for (u32 r = 0; r < ROWS; r++)
#pragma unroll 1
            for (u32 v = lane; v < width; v += lanes) {
                double d = 0, m = 0;
                visit(first + r * row + v, d, m);
                acc[0] = acc[0] + (S)d;
                acc[1] = Real<S>::fused((S)d, (S)d, acc[1]);
                acc[2] = acc[2] + (S)m;
                acc[3] = Real<S>::fused((S)m, (S)m, acc[3]);
            }
        precise &= precise_enough(acc[0], acc[1]) && precise_enough(acc[2], acc[3]);
#pragma unroll
        for (int k = 0; k < 4; k++) {
            const double x = (double)acc[k];
            if (lane < 2) front[k] = lane == 0 ? x : front[k] + x;
            else back[k] = lane == 2 ? x : back[k] + x;
        }
    }
#pragma unroll
    for (int k = 0; k < 4; k++) totals[k] = front[k] + back[k];
    return precise;
}

// Columns joined by halving, four sums at once: the upper half of a group takes two of them over in the first step, every quarter
// one in the second. Sum k ends in column 8k.
__device__ inline double join_columns(const double (&sums)[4]) {
    const u32 column = threadIdx.x % GROUP;
    const bool upper = column & 16, odd = column & 8;
    // Each sends what the other keeps.
    const double keep0 = upper ? sums[2] : sums[0], keep1 = upper ? sums[3] : sums[1];
    const double send0 = upper ? sums[0] : sums[2], send1 = upper ? sums[1] : sums[3];
    const double x0 = keep0 + __shfl_xor(send0, 16, GROUP), x1 = keep1 + __shfl_xor(send1, 16, GROUP);
    double x = (odd ? x1 : x0) + __shfl_xor(odd ? x0 : x1, 8, GROUP);
    x += __shfl_xor(x, 4, GROUP);
    x += __shfl_xor(x, 2, GROUP);
    x += __shfl_xor(x, 1, GROUP);
    return x;
}

// Ends a part of a tensor: the mismatches of a group's threads.
__device__ inline void join_mismatches(const VerifyParams &p, Shared &s, u64 part, u32 mismatches) {
    mismatches = group_sum(mismatches);
    if (threadIdx.x % GROUP) return;
    p.mismatches[part] = mismatches;
    if (!mismatches) return;
    s.mismatches[threadIdx.x / GROUP] += mismatches;
    raise(s.first_segment, ~part);
}

// Ends a segment: its mismatches, and its sums by column. `part` is its place in the group's chunk. Segments of a chunk that are not there
// end too, as zeros.
template <bool ALL>
__device__ inline void join(const VerifyParams &p, Shared &s, u64 segment, u64 segments, u32 part, u32 mismatches, const double (&sums)[4]) {
    const u32 group = threadIdx.x / GROUP, column = threadIdx.x % GROUP;
    if (segment < segments) join_mismatches(p, s, segment, mismatches);
    if (!ALL) return;
    double x = join_columns(sums);
    if (column % 8) return;
    // A balanced tree, neighbours first: as many joins as `part` ends in ones. Each sum has a thread of its own.
    const u32 sum = column / 8;
    u32 level = 0;
    for (; part >> level & 1; level++) x = s.tree[group][level][sum] + x;
    if (part + 1 == 1u << p.chunk_log) p.partials[(segment >> p.chunk_log) * 4 + sum] = x;
    else {
        s.tree[group][level][sum] = x;
        // Keeps LLVM from making one store to either memory of the two.
        forget();
    }
}
