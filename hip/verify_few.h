// The comparison of two dense tensors that are too small to fill a GPU: what takes long there is waiting, not work. So every element goes
// through the whole rule at once, without screens, spread over as many processors as there are.
#pragma once
#include "verify_dense.h"

// Groups of a block that measure, an element a thread. Mismatches are counted by the elements of a group.
enum { FEW_GROUPS = MOST_GROUPS };

// One element of both tensors, if there is one.
template <class Pair> struct One {
    u64 index, bits_a = 0, bits_r = 0;
    __device__ One(const VerifyParams &p, u64 i) : index(i) {
        if (there(p)) bits_a = Pair::bits_a(p, i), bits_r = Pair::bits_r(p, i);
    }
    __device__ bool there(const VerifyParams &p) const { return index < p.n; }
};

// Counts one element of every thread of a group, and takes it where it is worst.
template <class Pair, bool ALL>
__device__ inline void measure_one(const VerifyParams &p, Shared &s, const Rule<typename Pair::Number> &rule, const One<Pair> &one, Tally<typename Pair::Number> &tally, Worst &worst) {
    typedef typename Pair::Number T;
    const bool there = one.there(p);
    const T a = Pair::decode_a(p, one.bits_a), r = Pair::decode_r(p, one.bits_r);
    const bool finite = is_finite(a) && is_finite(r);
    const T d = finite ? Real<T>::abs(a - r) : 0, m = finite ? Real<T>::abs(r) : 0, bound = rule.bound(m);
    if (is_finite(a)) tally.largest_a = Real<T>::larger(tally.largest_a, Real<T>::abs(a));
    if (is_finite(r)) tally.largest_r = Real<T>::larger(tally.largest_r, Real<T>::abs(r));
    tally.mismatches += d > bound;
    if (ALL) {
        tally.zeros_a += there && a == 0, tally.zeros_r += there && r == 0;
        tally.zero_passes += there && finite && m <= bound;
    }
    if (!finite) observe_nonfinite(p, s, tally, a, r);
    double value[MEASURES] = {(double)d, 0, 0, 0, 0, 0};
    if constexpr (ALL) {
        if (d > 0) measure<T>(p, rule, d, m, Pair::apart(one.bits_a, one.bits_r), value);
        // The least tolerances that pass take a search: only for what is close to the largest that the block knows of.
        // Not -0, whose pattern is more than any number's: a maximum with 0 may be either zero.
        auto positive = [](T x) { return sign_of(x) ? 0 : x; };
        const T rtol = group_max(positive(rtol_beyond(rule, d, m))), atol = group_max(positive(atol_beyond(rule, d, m)));
        const u32 column = threadIdx.x % GROUP;
        if (column < 2) raise(s.hints[column], bits_of((double)(column ? atol : rtol)));
        settle_group();
        forget();
        double hint[2];
        hints<T, typename Real<T>::Bits>(rule, (T)f64_of(s.hints[0]), (T)f64_of(s.hints[1]), d, m, hint);
        for (int k = 0; k < 2; k++)
            if (hint[k] > 0) raise(s.hints[k], bits_of(hint[k]));
    }
    worst.template take<ALL ? MEASURES : ABSOLUTE + 1>(value, one.index);
}

// The sums of a segment by column, as `Column` has them, a thread for each lane of a column. Returns whether they are precise.
template <class Pair> __device__ inline bool sum_lane(const VerifyParams &p, u64 begin, u32 thread, double (&columns)[4][GROUP]) {
    typedef typename Pair::Number T;
    enum { V = Pair::V, LANES = Column<T, V>::LANES, AT_ONCE = 16 };
    const u32 column = thread / LANES, lane = thread % LANES;
    T acc[4] = {0, 0, 0, 0};
#pragma unroll 1
    for (u32 first = 0; first < ROWS * V / LANES; first += AT_ONCE) {
        u64 bits_a[AT_ONCE], bits_r[AT_ONCE];
#pragma unroll
        for (u32 i = 0; i < AT_ONCE; i++) {
            const u32 k = first + i, row = k / (V / LANES), v = k % (V / LANES) * LANES + lane;
            const u64 index = begin + (row * GROUP + column) * V + v;
            bits_a[i] = bits_r[i] = 0;
            if (index < p.n) bits_a[i] = Pair::bits_a(p, index), bits_r[i] = Pair::bits_r(p, index);
        }
#pragma unroll
        for (u32 i = 0; i < AT_ONCE; i++) {
            const T x = Pair::decode_a(p, bits_a[i]), y = Pair::decode_r(p, bits_r[i]);
            const bool finite = is_finite(x) && is_finite(y);
            const T d = finite ? Real<T>::abs(x - y) : 0, r = finite ? Real<T>::abs(y) : 0;
            acc[0] = acc[0] + d;
            acc[1] = Real<T>::fused(d, d, acc[1]);
            acc[2] = acc[2] + r;
            acc[3] = Real<T>::fused(r, r, acc[3]);
        }
    }
#pragma unroll
    for (int k = 0; k < 4; k++) {
        double x = (double)acc[k];
        for (u32 step = 1; step < LANES; step *= 2) x += __shfl_xor(x, step, GROUP);
        if (lane == 0) columns[k][column] = x;
    }
    return precise_enough(acc[0], acc[1]) && precise_enough(acc[2], acc[3]);
}

// Sixteen groups of a block measure and, for all metrics, up to four add. There is a block for every segment at least.
template <class Pair, bool ALL> __device__ inline void verify_few(const VerifyParams &p) {
    typedef typename Pair::Number T;
    enum { V = Pair::V, SEGMENT = ROWS * GROUP * V };
    static_assert(FEW_GROUPS * GROUP <= SEGMENT, "a block for every segment");
    __shared__ Shared s;
    __shared__ double columns[4][GROUP];
    __shared__ u32 imprecise;
    const Rule<T> rule(p);
    const u32 group = threadIdx.x / GROUP, column = threadIdx.x % GROUP;
    const u64 segments = (p.n + SEGMENT - 1) / SEGMENT, parts = (p.n + GROUP - 1) / GROUP, segment = blockIdx.x;
    const bool adds = ALL && segment < segments;
    u64 part = (u64)blockIdx.x * FEW_GROUPS + group;
    // Under way before anything else.
    One<Pair> one(p, group < FEW_GROUPS ? part * GROUP + column : NOWHERE);
    if (threadIdx.x == 0) imprecise = 0;
    begin(s);
    Tally<T> tally;
    tally.clear();
    if (group < FEW_GROUPS) {
        Worst worst;
        worst.clear();
#pragma unroll 1
        while (part < parts) {
            tally.mismatches = 0;
            measure_one<Pair, ALL>(p, s, rule, one, tally, worst);
            join_mismatches(p, s, part, tally.mismatches);
            part += (u64)gridDim.x * FEW_GROUPS;
            one = One<Pair>(p, part * GROUP + column);
        }
        worst.template join<ALL ? MEASURES : ABSOLUTE + 1>(s.bests[group]);
        tally_up<ALL>(s, tally);
    } else if (adds && threadIdx.x - FEW_GROUPS * GROUP < GROUP * Column<T, V>::LANES) {
        if (!sum_lane<Pair>(p, segment * SEGMENT, threadIdx.x - FEW_GROUPS * GROUP, columns)) atomicOr(&imprecise, 1u);
    }
    __syncthreads();
    if (adds && group == FEW_GROUPS) {
        double totals[4] = {columns[0][column], columns[1][column], columns[2][column], columns[3][column]};
        if (!Pair::SQUARES_FIT && imprecise) sum_again<Pair, double>(p, segment * SEGMENT + column * V).totals(totals);
        const double x = join_columns(totals);
        if (column % 8 == 0) p.partials[segment * 4 + column / 8] = x;
    }
    finish<Pair, ALL, true>(p, s, GROUP, parts, segments);
}

// The kernels of a pair: verify_<name>_counts and verify_<name>_all, and the same for small tensors.
#define VERIFY(name, A, R)                                                                                                          \
    extern "C" __global__ void BOUNDS(128, 5) verify_##name##_counts(VerifyParams p) { verify<Dense<A, R>, false, 128>(p); }        \
    extern "C" __global__ void BOUNDS(128, 4) verify_##name##_all(VerifyParams p) { verify<Dense<A, R>, true, 128>(p); }            \
    extern "C" __global__ void BOUNDS(512, 1) verify_##name##_few_counts(VerifyParams p) { verify_few<Dense<A, R>, false>(p); }     \
    extern "C" __global__ void BOUNDS(640, 1) verify_##name##_few_all(VerifyParams p) { verify_few<Dense<A, R>, true>(p); }
