// Pass A of two formats of 4 bits: everything follows from how often each of the 256 pairs of patterns occurs. All sums are exact, so their order does not matter: differences are
// multiples of 1/2 up to 15.
#pragma once
#include "any.h"
#include "verify/histograms.h"
#include "verify/values.h"

constexpr u32 PATTERN_PAIRS = 256;

struct PairCountsShared {
    union {
        // Each lane has its own counters, in its own bank: lanes never wait for each other, whatever the data.
        u32 counts[PATTERN_PAIRS][SUBGROUP];
        // When all is counted.
        struct {
            double finals[SUMS][FINAL_ACCUMULATORS];
            u32 last;
        };
    };
};
static_assert(sizeof(PairCountsShared) <= 32768, "two blocks on a compute unit");

// Counts four pairs, each a byte with the result's pattern in the lower half and the reference's in the upper. The byte and the lane are the bits of the counter's offset.
__device__ inline void count(PairCountsShared &s, u32 pairs) {
    static_assert(sizeof(s.counts[0]) == 1 << 7, "the bits of a byte come after those of a lane");
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const u32 byte = (i ? pairs >> (8 * i - 7) : pairs << 7) & 0xff << 7;
        atomicAdd((u32 *)((u8 *)s.counts + (byte | lane_of() * sizeof(u32))), 1u);
    }
}

// Counts a thread's part of `tiles` tiles, in so many loads.
template <class Pairs> __device__ inline void count_tiles(const Pairs &pairs, PairCountsShared &s, u64 tile, u32 tiles, u32 loads_of_thread) {
    enum { WORDS = Pairs::LOADED / 8 };
    u32 a[WORDS], r[WORDS];
    static_assert(Pairs::PARTS == 1, "words are shifted once");
    Loads<Pairs> loads(pairs, {}, tile, loads_of_thread);
    const auto decode = [&](u64) {
        loads.shift();
#pragma unroll
        for (int i = 0; i < WORDS; i++) a[i] = loads.words.x[0][i], r[i] = loads.words.y[0][i];
    };
    const auto use = [&](u64) {
        const u32 low = 0x0f0f0f0fu;
#pragma unroll
        for (int i = 0; i < WORDS; i++) {
            count(s, (a[i] & low) | (r[i] & low) << 4);
            count(s, (a[i] >> 4 & low) | (r[i] & ~low));
        }
    };
    for_parts<true, true>(pairs, loads, tiles, decode, use, [](u32) {});
}

// Adds `count` pairs of these numbers to the workspace, and their sums to the final accumulators of a thread.
__device__ inline void add_pairs(const VerifyParams &p, PairCountsShared &s, const Rule<float> &rule, u64 count, float a, float r) {
    VerifyWorkspace &w = *p.workspace;
    const float difference[1] = {a - r}, reference[1] = {r};
    float d[1], m[1], bound[1];
    rule.magnitudes(difference, reference, d, m), rule.bounds(reference, bound);
    if (d[0] > bound[0]) atomicAdd(&w.counts[MISMATCHES], count);
    atomicMax(&w.magnitudes[0], bits_of((double)magnitude(a)));
    atomicMax(&w.magnitudes[1], bits_of((double)m[0]));
    atomicMax(&w.maxima[ABSOLUTE], bits_of((double)d[0]));
    if (!p.all) return;
    if (m[0] <= bound[0]) atomicAdd(&w.counts[ZERO_PASSES], count);
    if (a == 0) atomicAdd(&w.counts[ZEROS_A], count);
    if (r == 0) atomicAdd(&w.counts[ZEROS_R], count);
    if (d[0] > 0) {
        double value[MAXIMA];
        metrics_of(rule, d[0], m[0], value);
#pragma unroll
        for (int k = 0; k < MAXIMA; k++) atomicMax(&w.maxima[k], bits_of(value[k]));
#pragma unroll 1
        for (u32 h = 0; h < KINDS; h++)
            if (h != BY_RELATIVE || m[0] > Real<float>::small()) atomicAdd(&w.bins[exact_bin(rule, h, d[0], m[0])], count);
    }
    const double x = d[0], y = m[0], times = (double)count;
    s.finals[0][threadIdx.x] = times * x, s.finals[1][threadIdx.x] = times * (x * x);
    s.finals[2][threadIdx.x] = times * y, s.finals[3][threadIdx.x] = times * (y * y);
}

// For blocks with as many threads as there are pairs of patterns.
template <class Pairs> __device__ inline void make_values_by_counting(const VerifyParams &p) {
    __shared__ PairCountsShared s;
    const u32 t = threadIdx.x;
    VerifyWorkspace &w = *p.workspace;
    for (u32 i = t; i < PATTERN_PAIRS * SUBGROUP; i += THREADS) s.counts[i / SUBGROUP][i % SUBGROUP] = 0;
    __syncthreads();
    const typename Pairs::Shared none;
    const Pairs pairs(p, none);
#pragma unroll 1
    for (Turn<true> turn(p); turn.first < pairs.runs; turn.go_on()) {
        turn.ask(pairs.runs);
        count_tiles(pairs, s, turn.run() << p.run_log, 1u << p.run_log, pairs.loads_in(turn.first, p.run_log));
    }
    __syncthreads();
    // A launch has fewer than 2^32 elements. Threads begin in different banks.
    u32 sum = 0;
#pragma unroll 1
    for (u32 i = 0; i < SUBGROUP; i++) sum += s.counts[t][(t + i) % SUBGROUP];
    if (sum) atomicAdd(&w.pairs[t], (u64)sum);
    if (!ends_last(p, s.last)) return;
    // Zeros stood for elements that do not exist.
    const u64 count = w.pairs[t] - (t == 0 ? pairs.taken(p.run_log, SUBGROUP * Pairs::LOADED) - p.n : 0);
    for (u32 i = 0; i < SUMS; i++) s.finals[i][t] = 0;
    if (count) add_pairs(p, s, Rule<float>(p), count, number<float>(p.operands[0].dtype, t % 16), number<float>(p.operands[1].dtype, t / 16));
    join_finals(s.finals, FINAL_ACCUMULATORS);
    write_values<true>(p, 0, s);
}
