// The comparison on the device: one pass over two tensors, statistics only in the result.
//
// Its definition is the host's (`src/verify/rule.rs` for an element, `src/verify/sums.rs` for the order of sums), and it gives
// the same bits. How the work is laid out:
//
//   group    32 neighbouring threads, whatever the wavefront's size. A group takes one segment at a time: 16 rows, in which each
//            thread loads 16 bytes of the narrower tensor (V elements). It takes a chunk of 1 to 16 segments in a row, and joins
//            their sums without the others.
//   block    groups that share what is known of the worst elements.
//   grid     any number of blocks; it decides who does which chunks and nothing else.
//   finish   the block that ends last joins all sums, lists the first mismatches and writes the result. It leaves the workspace
//            as it found it: zeroed.
//
// Here: the rule for one element, and what a block knows. `verify_sums.h` and `verify_count.h` add, `verify_screen.h`
// decides which elements need a look at all and `verify_look.h` looks at them, `verify_end.h` finishes; `verify_dense.h`,
// `verify_few.h` (for small tensors) and `verify_any.hip` are the loops.
#pragma once
#include "formats.h"

enum { ROWS = 16, GROUP = 32, MOST_GROUPS = 16, ITEM_SEGMENTS = 16, FINAL_LANES = 256 };
#define NOWHERE (~0ull)

// ---- numbers ------------------------------------------------------------------------------------------------------------

template <typename T> struct Real;
template <> struct Real<float> {
    typedef u32 Bits;
    static __device__ float max() { return 3.402823466e38f; }
    static __device__ float small() { return 1e-3f; }
    static __device__ float tiny() { return 7.888609052e-31f; }
    static __device__ float fused(float a, float b, float c) { return __fmaf_rn(a, b, c); }
    static __device__ float abs(float x) { return fabsf(x); }
    static __device__ float larger(float x, float y) { return fmaxf(x, y); }
    static __device__ float smaller(float x, float y) { return fminf(x, y); }
    static __device__ float binade(float x) { return f32_of(bits_of(x) & 0x7f800000u); }
    // 2^e; 0 for the least e.
    static __device__ float power(i32 e) { return f32_of((u32)(e + 127) << 23); }
    static __device__ i32 exponent(float x) { return (i32)(bits_of(x) >> 23 & 0xff) - 127; }
    static __device__ float quotient(float a, float b) { return __fdiv_rn(a, b); }
    static __device__ float at(u64 place) { return f32_of((u32)place); }
    static __device__ u64 infinite() { return 0x7f800000u; }
};
template <> struct Real<double> {
    typedef u64 Bits;
    static __device__ double max() { return 1.7976931348623157e308; }
    static __device__ double small() { return 1e-3; }
    static __device__ double tiny() { return 1e-270; }
    static __device__ double fused(double a, double b, double c) { return __fma_rn(a, b, c); }
    static __device__ double abs(double x) { return fabs(x); }
    static __device__ double larger(double x, double y) { return x > y ? x : y; }
    static __device__ double smaller(double x, double y) { return x < y ? x : y; }
    static __device__ double binade(double x) { return f64_of(bits_of(x) & 0x7ff0000000000000ull); }
    static __device__ double power(i32 e) { return f64_of((u64)(e + 1023) << 52); }
    static __device__ i32 exponent(double x) { return (i32)(bits_of(x) >> 52 & 0x7ff) - 1023; }
    static __device__ double quotient(double a, double b) { return __ddiv_rn(a, b); }
    static __device__ double at(u64 place) { return f64_of(place); }
    static __device__ u64 infinite() { return 0x7ff0000000000000ull; }
};

// 1 for negative numbers, -0 and some NaN.
__device__ inline u32 sign_of(float x) { return bits_of(x) >> 31; }
__device__ inline u32 sign_of(double x) { return (u32)(bits_of(x) >> 63); }

template <typename T> __device__ inline bool is_finite(T x) { return Real<T>::abs(x) <= Real<T>::max(); }

// 2^e for -1074 <= e <= 1023.
__device__ inline double pow2(i32 e) { return e >= -1022 ? exp2_f64(e) : f64_of(1ull << (e + 1074)); }

// The rule's numbers in the arithmetic T.
template <typename T> struct Rule {
    T rtol, atol;
    __device__ explicit Rule(const VerifyParams &p) : rtol((T)p.rtol), atol((T)p.atol) {}
    // Keeps both in registers: compilers like to convert them again for every use.
    __device__ void keep() {
#if defined(__CUDA_ARCH__)
        if constexpr (sizeof(T) == 4) asm volatile("" : "+f"(rtol), "+f"(atol));
        else asm volatile("" : "+d"(rtol), "+d"(atol));
#endif
    }
    __device__ T bound(T rtol_, T m, T atol_) const {
        const T b = Real<T>::fused(rtol_, m, atol_);
        return b < Real<T>::max() ? b : Real<T>::max();
    }
    __device__ T bound(T m) const { return bound(rtol, m, atol); }
};

// d / 2^(e - mantissa_bits), e the binade of m clamped to the result's format: exact in f64 for f32 differences.
template <typename T> __device__ inline double epsilons(const VerifyParams &p, T d, T m) {
    i32 e = Real<T>::exponent(m);
    e = e < p.min_exponent ? p.min_exponent : e > p.max_exponent ? p.max_exponent : e;
    if (sizeof(T) == 4) return (double)d * pow2(p.mantissa_bits - e);
    return (double)d * pow2(-e) * pow2(p.mantissa_bits);
}

// The least non-negative number that passes; infinite when none does. Passing is monotone; `near` is where the search begins, and
// only decides how long it takes.
template <typename T, typename Bits, typename F> __device__ inline T least(T near, F passes) {
    Bits low = 0, high = (Bits)Real<T>::infinite();
    Bits at = near > 0 && near <= Real<T>::max() ? bits_of(near) : 0;
    for (Bits step = 1; low < high && step != 0; step *= 4) {
        if (passes(Real<T>::at(at))) {
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
        if (passes(Real<T>::at(middle))) high = middle;
        else low = middle + 1;
    }
    return Real<T>::at(low);
}

// The values of one differing finite pair by every measure.
template <typename T> __device__ inline void measure(const VerifyParams &p, const Rule<T> &rule, T d, T m, u64 ulps, double (&value)[MEASURES]) {
    const double relative = m > 0 ? (double)Real<T>::quotient(d, m) : 0;
    value[ABSOLUTE] = (double)d;
    value[RELATIVE] = relative;
    value[RELATIVE_OLD] = m > Real<T>::small() ? relative : 0;
    value[EPSILON] = epsilons<T>(p, d, m);
    value[ULP] = (double)ulps;
    value[RATIO] = (double)Real<T>::quotient(d, rule.bound(m));
}

// ---- what a block knows -------------------------------------------------------------------------------------------------

// What each group has counted, in the end: sums first, as in VerifyResult, then the largest of numbers that are not negative.
enum { LARGEST_A = ZEROS_R + 1, LARGEST_R, TALLIES };

struct Shared {
    u64 keys[MEASURES];
    u64 hints[2];
    u64 magnitudes[2];
    u64 counts[COUNTS];
    u64 histograms[HISTOGRAM_BINS];
    u64 first_segment; // inverted
    VerifyBest bests[MOST_GROUPS];
    u64 mismatches[MOST_GROUPS]; // of each group
    double tree[MOST_GROUPS][4][4]; // of each group: sums of 1, 2, 4 and 8 segments that wait for their neighbours
    // While elements are read: the table of screens. Then what groups have counted. At the end: the lanes of the last sums.
    union {
        alignas(16) double space[4 * FINAL_LANES];
        u64 tallies[TALLIES][MOST_GROUPS];
    };
    u64 limits[8]; // what the table was written for, as `Limits`
    // Rows looked at, and whether more is known, since the table was written.
    u32 hot, raised, rewrite, last;
};

// About 1 / x, to a few units in the last place; 0 where that would be subnormal.
__device__ inline float reciprocal(float x) {
#if defined(__CUDACC__)
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#elif defined(__HIP_DEVICE_COMPILE__)
    return __builtin_amdgcn_rcpf(x);
#else
    return 1 / x;
#endif
}

// Makes the compiler read shared memory again that other threads raise meanwhile. Not `volatile`: LLVM would then no longer see
// that the address is one of shared memory.
__device__ inline void forget() { asm volatile("" ::: "memory"); }

// Orders what the threads of a group read and write in shared memory. AMD's wavefronts go in step: no instruction comes of it.
__device__ inline void settle_group() {
#if defined(__CUDACC__)
    __syncwarp();
#else
    __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront");
    __builtin_amdgcn_wave_barrier();
#endif
}

__device__ inline void raise(u64 &known, u64 key) {
    forget();
    if (key > known) atomicMax(&known, key);
}

__device__ inline void begin(Shared &s) {
    // All but the space, which is written before it is read.
    constexpr u32 front = __builtin_offsetof(Shared, space) / 8, back = front + sizeof(s.space) / 8;
    for (u32 i = threadIdx.x; i < front; i += blockDim.x) ((u64 *)&s)[i] = 0;
    for (u32 i = back + threadIdx.x; i < sizeof(Shared) / 8; i += blockDim.x) ((u64 *)&s)[i] = 0;
    __syncthreads();
}

__device__ inline void count_class(Shared &s, int side, double x) {
    if (x != x) atomicAdd(&s.counts[NANS_A + side], 1ull);
    else atomicAdd(&s.counts[(x > 0 ? PLUS_A : MINUS_A) + side], 1ull);
}

// A thread's running counts. 32 bits are enough for one thread's share of 2^40 elements.
template <typename T> struct Tally {
    u32 mismatches, zero_passes, zeros_a, zeros_r;
    T largest_a, largest_r;
    __device__ void clear() {
        mismatches = zero_passes = zeros_a = zeros_r = 0;
        largest_a = largest_r = 0;
    }
    __device__ void add(const Tally &t) {
        mismatches += t.mismatches, zero_passes += t.zero_passes, zeros_a += t.zeros_a, zeros_r += t.zeros_r;
        largest_a = Real<T>::larger(largest_a, t.largest_a), largest_r = Real<T>::larger(largest_r, t.largest_r);
    }
};

// The thread's group, where a wavefront is one in a register that all its threads share.
__device__ inline u32 group_of(u32 thread) {
#if defined(__CUDACC__)
    return __shfl(thread / GROUP, 0);
#else
    return thread / GROUP;
#endif
}

__device__ inline u32 group_sum(u32 x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    return __reduce_add_sync(0xffffffffu, x);
#else
    for (int offset = GROUP / 2; offset > 0; offset /= 2) x += __shfl_xor(x, offset, GROUP);
    return x;
#endif
}
// The votes of a group: its part of a wavefront that may hold two.
__device__ inline u32 group_votes(bool x) { return (u32)((u64)__ballot(x) >> (threadIdx.x % warpSize / GROUP * GROUP)); }
__device__ inline bool group_all(bool x) { return group_votes(!x) == 0; }
__device__ inline u32 group_max(u32 x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    return __reduce_max_sync(0xffffffffu, x);
#else
    for (int offset = GROUP / 2; offset > 0; offset /= 2) {
        const u32 other = __shfl_xor(x, offset, GROUP);
        x = other > x ? other : x;
    }
    return x;
#endif
}
__device__ inline u64 group_max(u64 x) {
    const u32 high = group_max((u32)(x >> 32));
    return (u64)high << 32 | group_max(high == (u32)(x >> 32) ? (u32)x : 0);
}
// Of numbers that are not negative: their order is that of their patterns.
__device__ inline float group_max(float x) { return f32_of(group_max(bits_of(x))); }
__device__ inline double group_max(double x) { return f64_of(group_max(bits_of(x))); }

// Writes down what a group's threads have counted, after a barrier that ends the use of the table. Absent counts are 0.
template <bool ALL, typename T> __device__ inline void tally_up(Shared &s, const Tally<T> &t) {
    const u32 zero_passes = ALL ? group_sum(t.zero_passes) : 0, zeros_a = ALL ? group_sum(t.zeros_a) : 0, zeros_r = ALL ? group_sum(t.zeros_r) : 0;
    const T largest_a = group_max(t.largest_a), largest_r = group_max(t.largest_r);
    if (threadIdx.x % GROUP) return;
    const u32 group = threadIdx.x / GROUP;
    s.tallies[MISMATCHES][group] = s.mismatches[group];
    s.tallies[ZERO_PASSES][group] = zero_passes;
    s.tallies[ZEROS_A][group] = zeros_a;
    s.tallies[ZEROS_R][group] = zeros_r;
    s.tallies[LARGEST_A][group] = bits_of((double)largest_a);
    s.tallies[LARGEST_R][group] = bits_of((double)largest_r);
}

// Whether a value comes before the best, by size and then by place.
__device__ inline bool improves(const VerifyBest &best, int k, double value, u64 index) {
    return value > best.value[k] || (value == best.value[k] && value > 0 && index < best.index[k]);
}

// The largest value that threads of a group have, and the first index that has it: one thread gives them to `f`. Where all are 0 the
// index says nothing.
template <typename F> __device__ inline void group_worst(double value, u64 index, F f) {
    const double largest = group_max(value);
    const u64 first = ~group_max(value == largest ? ~index : 0);
    if (threadIdx.x % GROUP == 0) f(largest, first);
}

// The worst elements that a thread has seen, by the first KINDS measures.
struct Worst {
    double value[MEASURES];
    u64 index[MEASURES];
    __device__ void clear() {
        for (int k = 0; k < MEASURES; k++) value[k] = 0, index[k] = NOWHERE;
    }
    __device__ void take(int k, double x, u64 at) {
        if (x > value[k] || (x == value[k] && x > 0 && at < index[k])) value[k] = x, index[k] = at;
    }
    template <int KINDS> __device__ void take(const double (&x)[MEASURES], u64 at) {
#pragma unroll
        for (int k = 0; k < KINDS; k++) take(k, x[k], at);
    }
    // Those of a group.
    template <int KINDS> __device__ void join(VerifyBest &best) const {
        // All reductions are under way together. Usually upper halves tell whose the largest is.
        u32 top[KINDS], most[KINDS];
        bool ties = false;
#pragma unroll
        for (int k = 0; k < KINDS; k++) top[k] = (u32)(bits_of(value[k]) >> 32), most[k] = group_max(top[k]);
#pragma unroll
        for (int k = 0; k < KINDS; k++) {
            const u32 ahead = group_votes(top[k] == most[k]);
            const bool tie = (ahead & (ahead - 1)) != 0;
            ties |= tie;
            // One thread, so that no two write at once.
            if (!tie && top[k] == most[k]) best.value[k] = value[k], best.index[k] = index[k];
        }
        if (!ties) return;
        settle_group();
#pragma unroll
        for (int k = 0; k < KINDS; k++) group_worst(value[k], index[k], [&](double x, u64 at) { best.value[k] = x, best.index[k] = at; });
    }
};

// Counts one differing pair: the twin of `histogram::count`. Bins: 9 relative, 6 epsilon, 8 ratio.
__device__ inline void bin(Shared &s, bool has_relative, double relative, double epsilon, double ratio) {
    const double relative_ends[7] = {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0};
    const double epsilon_ends[5] = {0, 1.5, 2.5, 10.5, 100.5};
    const double ratio_ends[6] = {0.1, 0.5, 1, 2, 10, 100};
    int r = relative == 0 ? 0 : 1, e = 0, q = ratio == 0 ? 0 : 1;
    if (r) for (int i = 0; i < 7; i++) r += relative >= relative_ends[i];
    for (int i = 0; i < 5; i++) e += epsilon >= epsilon_ends[i];
    if (q) for (int i = 0; i < 6; i++) q += ratio > ratio_ends[i];
    if (has_relative) atomicAdd(&s.histograms[r], 1ull);
    atomicAdd(&s.histograms[9 + e], 1ull);
    atomicAdd(&s.histograms[15 + q], 1ull);
}

// Visits a pair in which a side is not finite; the finite side's magnitude is the caller's to count.
template <typename T> __device__ inline void observe_nonfinite(const VerifyParams &p, Shared &s, Tally<T> &tally, T a, T r) {
    if (!is_finite(a)) count_class(s, 0, (double)a);
    if (!is_finite(r)) count_class(s, 1, (double)r);
    atomicAdd(&s.counts[NONFINITE_PAIRS], 1ull);
    const bool same = a == r || (a != a && r != r);
    tally.mismatches += !p.nonfinite_equal || !same;
}

// The tolerances that would have let a differing finite pair pass, where they exceed those that are known.
template <typename T, typename Bits> __device__ inline void hints(const Rule<T> &rule, T rtol, T atol, T d, T m, double (&hint)[2]) {
    hint[0] = hint[1] = 0;
    if (!(d <= rule.bound(rtol, m, rule.atol)))
        hint[0] = (double)least<T, Bits>(Real<T>::quotient(d - rule.atol, m), [&](T t) { return d <= rule.bound(t, m, rule.atol); });
    if (!(d <= rule.bound(rule.rtol, m, atol)))
        hint[1] = (double)least<T, Bits>(d - rule.rtol * m, [&](T t) { return d <= rule.bound(rule.rtol, m, t); });
}
template <typename T> __device__ inline void hints(const Shared &s, const Rule<T> &rule, T d, T m, double (&hint)[2]) {
    forget();
    hints<T, u64>(rule, (T)f64_of(s.hints[0]), (T)f64_of(s.hints[1]), d, m, hint);
}

// ---- exact integers -----------------------------------------------------------------------------------------------------

// d <= floor(fma(rtol, m, atol)), saturated: the twin of `IntRule::passes`.
__device__ inline bool int_passes(u64 d, double rtol, double m, double atol) {
    const double bound = __fma_rn(rtol, m, atol);
    return bound >= 18446744073709551616.0 || d <= (u64)bound;
}
__device__ inline u64 apart(i64 a, i64 r) { return a > r ? (u64)a - (u64)r : (u64)r - (u64)a; }
__device__ inline u64 size_of(i64 x) { return x < 0 ? 0 - (u64)x : (u64)x; }

__device__ inline bool judge_int(const VerifyParams &p, i64 a, i64 r, double (&value)[MEASURES]) {
    const u64 d = apart(a, r);
    const double df = (double)d, m = (double)size_of(r);
    if (d > 0) {
        value[ABSOLUTE] = value[EPSILON] = value[ULP] = df;
        value[RELATIVE] = value[RELATIVE_OLD] = m > 0 ? __ddiv_rn(df, m) : 0;
        value[RATIO] = __ddiv_rn(df, __fma_rn(p.rtol, m, p.atol));
    }
    return int_passes(d, p.rtol, m, p.atol);
}
