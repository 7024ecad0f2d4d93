// Sums in the order that docs/numerics.md defines: of d, d², m and m².
#pragma once
#include "warp.h"
#include "verify/metrics.h"

constexpr u32 FINAL_ACCUMULATORS = 256, PARTIAL_LOG = 4;
static_assert(TILE_LANES == SUBGROUP && PARTIAL_TILES == 1 << PARTIAL_LOG);

// Whether squares were added in f32 without underflow or overflow, given the sum of the numbers that were squared.
__device__ inline bool precise_sum(float plain, float squares) { return (squares >= 7.5231638e-37f && squares <= Real<float>::max()) || plain == 0; }
__device__ inline bool precise_sum(double, double) { return true; }

// A lane's sum of its accumulators.
template <typename T, int ACCUMULATORS> __device__ inline double join_accumulators(const T (&x)[ACCUMULATORS]) {
    const double front = (double)x[0] + (double)x[1];
    if constexpr (ACCUMULATORS == 4) return front + ((double)x[2] + (double)x[3]);
    else return front;
}

// A thread's sums: those of its lane of a tile, by accumulator.
template <typename T, int ACCUMULATORS> struct Sums {
    T sum[SUMS][ACCUMULATORS];
    __device__ void clear() {
#pragma unroll
        for (int s = 0; s < SUMS; s++)
#pragma unroll
            for (int j = 0; j < ACCUMULATORS; j++) sum[s][j] = 0;
    }
    __device__ void add(int j, T d, T m) {
        sum[0][j] = sum[0][j] + d;
        sum[1][j] = Real<T>::fused(d, d, sum[1][j]);
        sum[2][j] = sum[2][j] + m;
        sum[3][j] = Real<T>::fused(m, m, sum[3][j]);
    }
    __device__ void keep() {
#pragma unroll
        for (int s = 0; s < SUMS; s++)
#pragma unroll
            for (int j = 0; j < ACCUMULATORS; j++) make_now(sum[s][j]);
    }
    __device__ bool precise() const {
        bool all = true;
#pragma unroll
        for (int j = 0; j < ACCUMULATORS; j++) all &= precise_sum(sum[0][j], sum[1][j]) && precise_sum(sum[2][j], sum[3][j]);
        return all;
    }
    // Sum s of the tile in lane 8 s. Lanes are joined by halving, four sums at once: in the first step each half of the subgroup keeps two of them, in the
    // second each quarter keeps one.
    __device__ double join() const {
        double total[SUMS];
#pragma unroll
        for (int s = 0; s < SUMS; s++) total[s] = join_accumulators(sum[s]);
        const bool upper = lane_of() & 16, odd = lane_of() & 8;
        const double keep0 = upper ? total[2] : total[0], keep1 = upper ? total[3] : total[1];
        const double send0 = upper ? total[0] : total[2], send1 = upper ? total[1] : total[3];
        const double x0 = keep0 + __shfl_xor(send0, 16, SUBGROUP), x1 = keep1 + __shfl_xor(send1, 16, SUBGROUP);
        double x = (odd ? x1 : x0) + __shfl_xor(odd ? x0 : x1, 8, SUBGROUP);
        for (u32 step = 4; step > 0; step /= 2) x += __shfl_xor(x, step, SUBGROUP);
        return x;
    }
};

// One of a thread's sums in f64.
template <int ACCUMULATORS> struct WideSum {
    double sum[ACCUMULATORS];
    __device__ void clear() {
#pragma unroll
        for (int j = 0; j < ACCUMULATORS; j++) sum[j] = 0;
    }
    // The sum of x² if `squared`, otherwise of x.
    __device__ void add(int j, double x, bool squared) { sum[j] = squared ? Real<double>::fused(x, x, sum[j]) : sum[j] + x; }
    // The sum of the tile, in all lanes.
    __device__ double join() const {
        double x = join_accumulators(sum);
        for (u32 step = SUBGROUP / 2; step > 0; step /= 2) x += __shfl_xor(x, step, SUBGROUP);
        return x;
    }
};

// The sums of the tiles of a subgroup's run, which are joined as a balanced tree, neighbours first. All lanes of the subgroup.
struct TileSums {
    double of[PARTIAL_TILES][SUMS];
    // Lane 8 s brings sum s of a tile of the run.
    __device__ void set(u32 tile, double x) {
        if (lane_of() % 8 == 0) of[tile][lane_of() / 8] = x;
    }
    // Joins the sums of 2^log tiles, all of which are set, and writes them to `partial` if the run exists. Called by all lanes of a wavefront.
    __device__ void join(u32 log, bool there, double *partial) {
        const u32 sum = lane_of() % SUMS, pair = lane_of() / SUMS;
        subgroup_barrier();
#pragma unroll 1
        for (u32 k = 1; k <= log; k++) {
            const u32 tile = pair << k;
            if (tile < 1u << log) of[tile][sum] += of[tile + (1u << (k - 1))][sum];
            subgroup_barrier();
        }
        if (there && pair == 0) partial[sum] = of[0][sum];
        subgroup_barrier();
    }
};

// Joins the final accumulators by halving, into the first one of each sum. Those from `used` on are zeros, which change no sum, so a step that would add only these is left out. Called by all threads of a block.
__device__ inline void join_finals(double (&finals)[SUMS][FINAL_ACCUMULATORS], u64 used) {
    const u32 t = threadIdx.x;
#pragma unroll 1
    for (u32 half = FINAL_ACCUMULATORS / 2; half > 0; half /= 2) {
        if (half >= used) continue;
        __syncthreads();
#pragma unroll 1
        for (u32 i = t; i < SUMS * half; i += THREADS) finals[i / half][i % half] += finals[i / half][i % half + half];
    }
    __syncthreads();
}

// Joins the sums of all runs of 2^log tiles; one block of FINAL_ACCUMULATORS threads. Neighbouring threads read the runs of a partial sum and join them as a tree; partial sum i is added
// to final accumulator i mod FINAL_ACCUMULATORS, which has one thread; these are joined by halving.
__device__ inline void join_runs(const double *partials, u64 runs, u32 log, double (&finals)[SUMS][FINAL_ACCUMULATORS]) {
    // A thread reads several runs at once, since nothing else hides the latency: the other blocks have ended.
    enum { AHEAD = 8 };
    const u32 leaves_log = PARTIAL_LOG - log, leaves = 1u << leaves_log, t = threadIdx.x;
#pragma unroll 1
    for (u32 i = t; i < SUMS * FINAL_ACCUMULATORS; i += THREADS) finals[i / FINAL_ACCUMULATORS][i % FINAL_ACCUMULATORS] = 0;
    __syncthreads();
#pragma unroll 1
    for (u64 first = 0; first < runs; first += AHEAD * FINAL_ACCUMULATORS) {
        double2 d[AHEAD], m[AHEAD];
#pragma unroll
        for (u32 i = 0; i < AHEAD; i++) {
            const u64 run = first + i * FINAL_ACCUMULATORS + t;
            d[i] = m[i] = make_double2(0, 0);
            if (run < runs) d[i] = ((const double2 *)partials)[2 * run], m[i] = ((const double2 *)partials)[2 * run + 1];
        }
        // In each step as many as there are, the same for all threads.
        const u64 rest = (runs - first + FINAL_ACCUMULATORS - 1) / FINAL_ACCUMULATORS;
        const u32 used = rest < AHEAD ? (u32)rest : AHEAD;
#pragma unroll 1
        for (u32 step = 1; step < leaves; step *= 2)
#pragma unroll
            for (u32 i = 0; i < AHEAD; i++) {
                if (i >= used) continue;
                d[i].x += __shfl_xor(d[i].x, step, SUBGROUP), d[i].y += __shfl_xor(d[i].y, step, SUBGROUP);
                m[i].x += __shfl_xor(m[i].x, step, SUBGROUP), m[i].y += __shfl_xor(m[i].y, step, SUBGROUP);
            }
        if (t & (leaves - 1)) continue;
#pragma unroll
        for (u32 i = 0; i < AHEAD; i++) {
            if (i >= used) continue;
            const u32 j = (u32)((first + i * FINAL_ACCUMULATORS + t) >> leaves_log) % FINAL_ACCUMULATORS;
            finals[0][j] += d[i].x, finals[1][j] += d[i].y, finals[2][j] += m[i].x, finals[3][j] += m[i].y;
        }
    }
    join_finals(finals, (runs + leaves - 1) >> leaves_log);
}
