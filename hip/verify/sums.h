// Sums in the order that docs/numerics.md defines: of d, d², m and m².
#pragma once
#include "warp.h"
#include "verify/metrics.h"

constexpr u32 FINAL_LANES = 256;
static_assert(TILE_LANES == SUBGROUP);

// Whether squares were added in f32 without losing any to its range, given the sum of what was squared.
__device__ inline bool precise_sum(float plain, float squares) { return (squares >= 7.5231638e-37f && squares <= Real<float>::max()) || plain == 0; }
__device__ inline bool precise_sum(double, double) { return true; }

// A column's sum of its lanes.
template <typename T, int LANES> __device__ inline double join_lanes(const T (&x)[LANES]) {
    const double front = (double)x[0] + (double)x[1];
    if constexpr (LANES == 4) return front + ((double)x[2] + (double)x[3]);
    else return front;
}

// A thread's sums: those of its column of a segment, by lane.
template <typename T, int LANES> struct Sums {
    T sum[SUMS][LANES];
    __device__ void clear() {
#pragma unroll
        for (int s = 0; s < SUMS; s++)
#pragma unroll
            for (int j = 0; j < LANES; j++) sum[s][j] = 0;
    }
    __device__ void add(int lane, T d, T m) {
        sum[0][lane] = sum[0][lane] + d;
        sum[1][lane] = Real<T>::fused(d, d, sum[1][lane]);
        sum[2][lane] = sum[2][lane] + m;
        sum[3][lane] = Real<T>::fused(m, m, sum[3][lane]);
    }
    // One sum in f64 in place of all: of x², if `squared`, or of x. The words of a lane's number are those of two f32.
    __device__ double wide(int lane) const { return f64_of(bits_of(sum[0][lane]) | (u64)bits_of(sum[1][lane]) << 32); }
    __device__ void add_wide(int lane, double x, bool squared) {
        const u64 bits = bits_of(squared ? Real<double>::fused(x, x, wide(lane)) : wide(lane) + x);
        sum[0][lane] = Real<T>::of((u32)bits), sum[1][lane] = Real<T>::of((u32)(bits >> 32));
    }
    __device__ double join_wide() const {
        double lanes[LANES];
#pragma unroll
        for (int j = 0; j < LANES; j++) lanes[j] = wide(j);
        double x = join_lanes(lanes);
        for (u32 step = SUBGROUP / 2; step > 0; step /= 2) x += __shfl_xor(x, step, SUBGROUP);
        return x;
    }
    __device__ bool precise() const {
        bool all = true;
#pragma unroll
        for (int j = 0; j < LANES; j++) all &= precise_sum(sum[0][j], sum[1][j]) && precise_sum(sum[2][j], sum[3][j]);
        return all;
    }
    // Sum s of the segment in lane 8 s. Columns are joined by halving, four sums at once: in the first step each half of the subgroup keeps two of them, in the
    // second each quarter one.
    __device__ double join() const {
        double total[SUMS];
#pragma unroll
        for (int s = 0; s < SUMS; s++) total[s] = join_lanes(sum[s]);
        const bool upper = lane_of() & 16, odd = lane_of() & 8;
        const double keep0 = upper ? total[2] : total[0], keep1 = upper ? total[3] : total[1];
        const double send0 = upper ? total[0] : total[2], send1 = upper ? total[1] : total[3];
        const double x0 = keep0 + __shfl_xor(send0, 16, SUBGROUP), x1 = keep1 + __shfl_xor(send1, 16, SUBGROUP);
        double x = (odd ? x1 : x0) + __shfl_xor(odd ? x0 : x1, 8, SUBGROUP);
        for (u32 step = 4; step > 0; step /= 2) x += __shfl_xor(x, step, SUBGROUP);
        return x;
    }
};

// Joins the sums of a run of segments as a balanced tree, neighbours first, as they come.
struct SumTree {
    double level[4][SUMS];
    // Lane 8 s brings sum s of segment `part` of the run; the last of 2^log gives the run's.
    __device__ void add(u32 part, u32 log, double x, double *partial) {
        if (lane_of() % 8) return;
        const u32 s = lane_of() / 8;
        u32 k = 0;
        for (; part >> k & 1; k++) x = level[k][s] + x;
        if (part + 1 == 1u << log) {
            partial[s] = x;
            return;
        }
        level[k][s] = x;
        // Keeps LLVM from making one store to either memory of the two.
        compiler_barrier();
    }
};

// Joins the sums of all runs of 2^log segments; one block of FINAL_LANES threads. Neighbouring threads read the runs of an item and join them as a tree; item i is added to lane i mod
// FINAL_LANES, which has one thread for all its items; lanes are joined by halving.
__device__ inline void join_runs(const double *partials, u64 runs, u32 log, double (&lanes)[SUMS][FINAL_LANES], double (&total)[SUMS]) {
    // Several runs are under way together, two sums at a time. All threads take as many turns.
    enum { AHEAD = 8 };
    const u32 leaves = PARTIAL_TILES >> log, t = threadIdx.x;
    for (u32 i = t; i < SUMS * FINAL_LANES; i += blockDim.x) lanes[i / FINAL_LANES][i % FINAL_LANES] = 0;
    __syncthreads();
    for (u32 s = 0; s < SUMS; s += 2)
#pragma unroll 1
        for (u64 first = 0; first < runs; first += AHEAD * FINAL_LANES) {
            double2 x[AHEAD];
#pragma unroll
            for (u32 i = 0; i < AHEAD; i++) {
                const u64 run = first + i * FINAL_LANES + t;
                x[i] = make_double2(0, 0);
                if (run < runs) x[i] = *(const double2 *)(partials + run * SUMS + s);
            }
#pragma unroll
            for (u32 i = 0; i < AHEAD; i++) {
#pragma unroll 1
                for (u32 step = 1; step < leaves; step *= 2) {
                    x[i].x += __shfl_xor(x[i].x, step, SUBGROUP);
                    x[i].y += __shfl_xor(x[i].y, step, SUBGROUP);
                }
                if (t % leaves) continue;
                const u64 lane = (first + i * FINAL_LANES + t) / leaves % FINAL_LANES;
                lanes[s][lane] += x[i].x, lanes[s + 1][lane] += x[i].y;
            }
        }
    for (u32 half = FINAL_LANES / 2; half > 0; half /= 2) {
        __syncthreads();
        for (u32 i = t; i < SUMS * half; i += blockDim.x) lanes[i / half][i % half] += lanes[i / half][i % half + half];
    }
    __syncthreads();
#pragma unroll
    for (u32 s = 0; s < SUMS; s++) total[s] = lanes[s][0];
}
