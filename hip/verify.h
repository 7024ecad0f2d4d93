// The comparison on the device: one pass over two tensors, statistics only in the result.
//
// Its definition is the host's (`src/verify/rule.rs` for an element, `src/verify/sums.rs` for the order of sums), and it gives
// the same bits. How the work is laid out:
//
//   group    32 neighbouring threads, whatever the wavefront's size. A group takes one segment at a time: 16 rows, in which each
//            thread loads 16 bytes of the narrower tensor (V elements).
//   block    2 to 16 groups, a power of two. A block takes as many neighbouring segments and joins their sums in shared memory.
//   grid     any number of blocks; it decides who does which segments and nothing else.
//   finish   the block that ends last joins all sums, finds the places of the worst elements, lists the first mismatches and
//            writes the result. It leaves the workspace as it found it: zeroed.
//
// Extremes are screened as on the host: an element is looked at by the rule only when it could exceed what is known. What is known
// is a key per measure in shared memory, exchanged with the other blocks through global memory now and then: the value's upper 34
// bits over the segment's number, inverted. The value of a measure in f32 arithmetic has no more than those bits, so keys alone
// name the worst segment; in f64 arithmetic each thread keeps its exact best beside.
#pragma once
#include "formats.h"

enum { ABSOLUTE, RELATIVE, RELATIVE_OLD, EPSILON, ULP, RATIO, MEASURES };

struct VerifyParams {
    const u8 *a, *r;  // result and reference
    u64 n;            // elements
    double rtol, atol;
    u32 dtype_a, dtype_r;
    u32 nonfinite_equal;
    u32 first;        // mismatches to list
    i32 min_exponent, max_exponent, mantissa_bits; // of the result's format
    u32 histograms;
    u32 rank_a, rank_r; // 0: dense
    i64 offset_a, offset_r;
    u64 extents_a[8], extents_r[8];
    i64 strides_a[8], strides_r[8];
    double *partials; // [works][4]
    u32 *mismatches;  // [segments]
    struct VerifyWorkspace *workspace;
    struct VerifyBest *bests; // [grid], f64 arithmetic only
    struct VerifyResult *result;
};

struct VerifyBest {
    double value[MEASURES];
    u64 segment[MEASURES];
};

struct VerifyWorkspace {
    u64 keys[MEASURES];
    u64 hints[2];      // patterns of f64
    u64 magnitudes[2]; // patterns of f64
    u64 counts[11];    // as in VerifyResult
    u64 histograms[23];
    u64 blocks_done;
};

enum { MISMATCHES, ZERO_PASSES, ZEROS_A, ZEROS_R, NANS_A, NANS_R, PLUS_A, PLUS_R, MINUS_A, MINUS_R, NONFINITE_PAIRS, COUNTS };

struct VerifyPlace {
    u64 index; // ~0: none
    u64 bits_a, bits_r;
};

struct VerifyResult {
    u64 counts[COUNTS];
    double magnitudes[2];
    double values[MEASURES];
    VerifyPlace places[MEASURES];
    double hints[2];
    double sums[4];
    u64 histograms[23];
    u64 listed;
    VerifyPlace first[64];
};

enum { ROWS = 16, GROUP = 32, MOST_GROUPS = 16, ITEM_SEGMENTS = 16, FINAL_LANES = 256 };
#define NOWHERE (~0ull)
#define KEY_SEGMENT_BITS 30
#define KEY_SEGMENTS ((1ull << KEY_SEGMENT_BITS) - 1)

// ---- numbers ------------------------------------------------------------------------------------------------------------

template <typename T> struct Real;
template <> struct Real<float> {
    static __device__ float max() { return 3.402823466e38f; }
    static __device__ float small() { return 1e-3f; }
    static __device__ float tiny() { return 7.888609052e-31f; }
    static __device__ float fused(float a, float b, float c) { return __fmaf_rn(a, b, c); }
    static __device__ float abs(float x) { return fabsf(x); }
    static __device__ float binade(float x) { return f32_of(bits_of(x) & 0x7f800000u); }
    static __device__ i32 exponent(float x) { return (i32)(bits_of(x) >> 23 & 0xff) - 127; }
    static __device__ float quotient(float a, float b) { return __fdiv_rn(a, b); }
    static __device__ float at(u64 place) { return f32_of((u32)place); }
    static __device__ u64 infinite() { return 0x7f800000u; }
};
template <> struct Real<double> {
    static __device__ double max() { return 1.7976931348623157e308; }
    static __device__ double small() { return 1e-3; }
    static __device__ double tiny() { return 1e-270; }
    static __device__ double fused(double a, double b, double c) { return __fma_rn(a, b, c); }
    static __device__ double abs(double x) { return fabs(x); }
    static __device__ double binade(double x) { return f64_of(bits_of(x) & 0x7ff0000000000000ull); }
    static __device__ i32 exponent(double x) { return (i32)(bits_of(x) >> 52 & 0x7ff) - 1023; }
    static __device__ double quotient(double a, double b) { return __ddiv_rn(a, b); }
    static __device__ double at(u64 place) { return f64_of(place); }
    static __device__ u64 infinite() { return 0x7ff0000000000000ull; }
};

template <typename T> __device__ inline bool is_finite(T x) { return Real<T>::abs(x) <= Real<T>::max(); }

// 2^e for -1074 <= e <= 1023.
__device__ inline double pow2(i32 e) { return e >= -1022 ? exp2_f64(e) : f64_of(1ull << (e + 1074)); }

__device__ inline u64 key_of(double value, u64 segment) { return (bits_of(value) >> 29) << KEY_SEGMENT_BITS | (KEY_SEGMENTS - segment); }
__device__ inline double key_value(u64 key) { return f64_of((key >> KEY_SEGMENT_BITS) << 29); }
// In f32 arithmetic a distance in ulps is an integer of up to 33 bits, which is its own upper part.
__device__ inline u64 ulp_key_of(double value, u64 segment) { return (u64)value << KEY_SEGMENT_BITS | (KEY_SEGMENTS - segment); }
__device__ inline double ulp_key_value(u64 key) { return (double)(key >> KEY_SEGMENT_BITS); }
__device__ inline u64 key_segment(u64 key) { return KEY_SEGMENTS - (key & KEY_SEGMENTS); }

// The rule's numbers in the arithmetic T.
template <typename T> struct Rule {
    T rtol, atol;
    __device__ explicit Rule(const VerifyParams &p) : rtol((T)p.rtol), atol((T)p.atol) {}
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

// The least non-negative number that passes, by bisection over the ordered patterns; infinite when none does.
template <typename T, typename F> __device__ inline T least(F passes) {
    u64 low = 0, high = Real<T>::infinite();
    while (low < high) {
        const u64 middle = low + (high - low) / 2;
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

struct Shared {
    u64 keys[MEASURES];
    u64 hints[2];
    u64 magnitudes[2];
    u64 counts[COUNTS];
    u64 histograms[23];
    double tree[2][4][MOST_GROUPS];
    double lanes[4][FINAL_LANES];
    u64 bests[MEASURES];
    u64 segments[MEASURES];
    u64 indices[MEASURES];
    u64 found[64];
    u32 listed, last;
};

// Makes the compiler read shared memory again that other threads raise meanwhile. Not `volatile`: LLVM would then no longer see
// that the address is one of shared memory.
__device__ inline void forget() { asm volatile("" ::: "memory"); }

// The screens of one segment, as numbers.
template <typename T> struct Limits {
    T absolute, relative, relative_old, epsilon, ratio, rtol, atol;
    u64 ulp;

    // The largest T that only exceeds what is known when the value does; where the known place comes later, equal values count too.
    static __device__ T limit(double known, u64 key, u64 segment) {
        T x = known < (double)Real<T>::max() ? (T)known : Real<T>::max();
        if ((double)x > known && x > 0) x = Real<T>::at((sizeof(T) == 4 ? (u64)bits_of((float)x) : bits_of((double)x)) - 1);
        if (segment < key_segment(key) && x > 0) x = Real<T>::at((sizeof(T) == 4 ? (u64)bits_of((float)x) : bits_of((double)x)) - 1);
        return x;
    }

    __device__ void take(const VerifyParams &p, const Shared &s, u64 segment) {
        forget();
        const u64 a = s.keys[ABSOLUTE], b = s.keys[RELATIVE], c = s.keys[RELATIVE_OLD], e = s.keys[EPSILON], q = s.keys[RATIO], u = s.keys[ULP];
        absolute = limit(key_value(a), a, segment);
        relative = limit(key_value(b), b, segment);
        relative_old = limit(key_value(c), c, segment);
        // An infinite epsilon difference (f64 only) is one of 2^1024 spacings and more.
        const i32 beyond = p.mantissa_bits > 0 ? 1024 - p.mantissa_bits : 1023;
        const double epsilons = key_value(e);
        epsilon = limit(epsilons <= Real<double>::max() ? epsilons * pow2(-p.mantissa_bits) : pow2(beyond), e, segment);
        ratio = limit(key_value(q), q, segment);
        rtol = (T)f64_of(s.hints[0]);
        atol = (T)f64_of(s.hints[1]);
        const double known = sizeof(T) == 4 ? ulp_key_value(u) : key_value(u);
        ulp = known < 1.8e19 ? (u64)known : ~0ull;
        if (segment < key_segment(u) && ulp > 0) ulp -= 1;
    }
};

template <typename T> struct Best {
    double value[MEASURES];
    u64 segment[MEASURES];
    __device__ void clear() {
#pragma unroll
        for (int k = 0; k < MEASURES; k++) value[k] = 0, segment[k] = NOWHERE;
    }
};

__device__ inline void raise(u64 &known, u64 key) {
    forget();
    if (key > known) atomicMax(&known, key);
}

__device__ inline void count_class(Shared &s, int side, double x) {
    if (x != x) atomicAdd(&s.counts[NANS_A + side], 1ull);
    else atomicAdd(&s.counts[(x > 0 ? PLUS_A : MINUS_A) + side], 1ull);
}

// A thread's running counts. 32 bits are enough for one thread's share of 2^40 elements.
template <typename T> struct Tally {
    u32 mismatches, zero_passes, zeros_a, zeros_r;
    T largest_a, largest_r;
};

// ---- histograms ---------------------------------------------------------------------------------------------------------

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

// Visits one element by the rule: the twin of `Stats::observe`.
template <typename T, bool EXACT, bool ALL>
__device__ inline void observe(const VerifyParams &p, Shared &s, Tally<T> &tally, Best<T> &best, u64 segment, T a, T r, u64 ulps) {
    const Rule<T> rule(p);
    if (ALL) {
        tally.zeros_a += a == 0;
        tally.zeros_r += r == 0;
    }
    const bool finite_a = is_finite(a), finite_r = is_finite(r);
    if (finite_a) tally.largest_a = Real<T>::abs(a) > tally.largest_a ? Real<T>::abs(a) : tally.largest_a;
    else count_class(s, 0, (double)a);
    if (finite_r) tally.largest_r = Real<T>::abs(r) > tally.largest_r ? Real<T>::abs(r) : tally.largest_r;
    else count_class(s, 1, (double)r);
    if (!finite_a || !finite_r) {
        atomicAdd(&s.counts[NONFINITE_PAIRS], 1ull);
        const bool same = a == r || (a != a && r != r);
        tally.mismatches += !p.nonfinite_equal || !same;
        return;
    }
    const T d = Real<T>::abs(a - r), m = Real<T>::abs(r);
    const T bound = rule.bound(m);
    tally.mismatches += d > bound;
    if (ALL) tally.zero_passes += m <= bound;
    if (!(d > 0)) return;
    double value[MEASURES];
    measure<T>(p, rule, d, m, ulps, value);
    if (p.histograms) bin(s, m > Real<T>::small(), value[RELATIVE], value[EPSILON], value[RATIO]);
#pragma unroll
    for (int k = 0; k < (ALL ? MEASURES : ABSOLUTE + 1); k++) {
        if (!(value[k] > 0)) continue;
        raise(s.keys[k], k == ULP && !EXACT ? ulp_key_of(value[k], segment) : key_of(value[k], segment));
        if (EXACT && value[k] > best.value[k]) {
            best.value[k] = value[k];
            best.segment[k] = segment;
        }
    }
    if (!ALL) return;
    const T rtol = (T)f64_of(s.hints[0]), atol = (T)f64_of(s.hints[1]);
    if (!(d <= rule.bound(rtol, m, rule.atol)))
        atomicMax(&s.hints[0], bits_of((double)least<T>([&](T t) { return d <= rule.bound(t, m, rule.atol); })));
    if (!(d <= rule.bound(rule.rtol, m, atol)))
        atomicMax(&s.hints[1], bits_of((double)least<T>([&](T t) { return d <= rule.bound(rule.rtol, m, t); })));
}

// ---- sums ---------------------------------------------------------------------------------------------------------------

// The accumulators of one thread (a column of its segment): Σ|d|, Σd², Σ|r|, Σr² by lane.
template <int V> struct Column {
    enum { LANES = V < 4 ? V : 4 };
    double acc[4][LANES];
    __device__ void clear() {
        for (int s = 0; s < 4; s++)
            for (int j = 0; j < LANES; j++) acc[s][j] = 0;
    }
    // Adds the elements of a row: groups of LANES joined as a balanced tree, neighbours first.
    template <typename T> __device__ void add(const T (&d)[V], const T (&m)[V]) {
#pragma unroll
        for (int j = 0; j < LANES; j++) {
            double sums[4] = {0, 0, 0, 0}, stack[4][6];
            // A binary counter: after group g, as many finished trees as g + 1 has ones are on the stack.
            int depth = 0;
#pragma unroll
            for (int g = 0; g < V / LANES; g++) {
                const double x = (double)d[g * LANES + j], y = (double)m[g * LANES + j];
                sums[0] = x, sums[1] = x * x, sums[2] = y, sums[3] = y * y;
#pragma unroll
                for (int full = g; full & 1; full >>= 1) {
                    depth -= 1;
                    for (int s = 0; s < 4; s++) sums[s] = stack[s][depth] + sums[s];
                }
                for (int s = 0; s < 4; s++) stack[s][depth] = sums[s];
                depth += 1;
            }
            for (int s = 0; s < 4; s++) acc[s][j] = acc[s][j] + sums[s];
        }
    }
    __device__ double total(int s) const {
        if constexpr (LANES == 2) return acc[s][0] + acc[s][1];
        else return (acc[s][0] + acc[s][1]) + (acc[s][2] + acc[s][3]);
    }
};

template <typename T> __device__ inline T group_sum(T x) {
    for (int offset = GROUP / 2; offset > 0; offset /= 2) x += __shfl_xor(x, offset, GROUP);
    return x;
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

// The twin of `Stats::observe_int`.
__device__ inline void observe_int(const VerifyParams &p, Shared &s, Tally<double> &tally, Best<double> &best, u64 segment, i64 a, i64 r) {
    double value[MEASURES] = {0, 0, 0, 0, 0, 0};
    tally.mismatches += !judge_int(p, a, r, value);
    const double d = (double)apart(a, r), m = (double)size_of(r), size = (double)size_of(a);
    tally.largest_a = size > tally.largest_a ? size : tally.largest_a;
    tally.largest_r = m > tally.largest_r ? m : tally.largest_r;
    tally.zeros_a += a == 0;
    tally.zeros_r += r == 0;
    tally.zero_passes += int_passes(size_of(r), p.rtol, m, p.atol);
    if (a == r) return;
    if (p.histograms) bin(s, m > 0, m > 0 ? value[RELATIVE] : 0, d, value[RATIO]);
#pragma unroll
    for (int k = 0; k < MEASURES; k++)
        if (value[k] > best.value[k]) best.value[k] = value[k], best.segment[k] = segment;
    const u64 off = apart(a, r);
    const double rtol = f64_of(s.hints[0]), atol = f64_of(s.hints[1]);
    if (!int_passes(off, rtol, m, p.atol)) atomicMax(&s.hints[0], bits_of(least<double>([&](double t) { return int_passes(off, t, m, p.atol); })));
    if (!int_passes(off, p.rtol, m, atol)) atomicMax(&s.hints[1], bits_of(least<double>([&](double t) { return int_passes(off, p.rtol, m, t); })));
}

// ---- the end ------------------------------------------------------------------------------------------------------------

__device__ inline u64 fetch(u64 *x) { return atomicAdd(x, 0ull); }

// Whether element `index` passes; its values by every measure, 0 where it is equal or not finite.
template <class Pair> __device__ inline bool judge(const VerifyParams &p, u64 index, double (&value)[MEASURES]) {
    typedef typename Pair::Number T;
    for (int k = 0; k < MEASURES; k++) value[k] = 0;
    const u64 bits_a = Pair::bits_a(p, index), bits_r = Pair::bits_r(p, index);
    if constexpr (Pair::INTEGER) return judge_int(p, decode_int(format_of(p.dtype_a), bits_a), decode_int(format_of(p.dtype_r), bits_r), value);
    const Rule<T> rule(p);
    const T a = Pair::decode_a(p, bits_a), r = Pair::decode_r(p, bits_r);
    if (!is_finite(a) || !is_finite(r)) return p.nonfinite_equal && (a == r || (a != a && r != r));
    const T d = Real<T>::abs(a - r), m = Real<T>::abs(r);
    if (d > 0) measure<T>(p, rule, d, m, Pair::distance(p, bits_a, bits_r, r), value);
    return !(d > rule.bound(m));
}

// The least index >= from in [from, to) for which `wanted` holds, found by the whole block; NOWHERE when none.
template <typename F> __device__ inline u64 first_of(Shared &s, u64 from, u64 to, F wanted) {
    if (threadIdx.x == 0) s.found[0] = NOWHERE;
    __syncthreads();
    for (u64 i = from + threadIdx.x; i < to; i += blockDim.x)
        if (wanted(i)) {
            atomicMin(&s.found[0], i);
            break;
        }
    __syncthreads();
    const u64 least = s.found[0];
    __syncthreads();
    return least;
}

template <class Pair> __device__ inline VerifyPlace place(const VerifyParams &p, u64 index) {
    VerifyPlace at = {index, 0, 0};
    if (index != NOWHERE) at.bits_a = Pair::bits_a(p, index), at.bits_r = Pair::bits_r(p, index);
    return at;
}

template <class Pair, bool ALL>
__device__ inline void finish(const VerifyParams &p, Shared &s, const Best<typename Pair::Number> &best, u64 size, u64 segments, u32 groups,
                              u64 works) {
    constexpr bool EXACT = sizeof(typename Pair::Number) == 8;
    VerifyWorkspace &w = *p.workspace;
    const u32 t = threadIdx.x;
    // This block's share, into global memory.
    if (EXACT) {
        if (t < MEASURES) s.bests[t] = 0, s.segments[t] = NOWHERE;
        __syncthreads();
#pragma unroll
        for (int k = 0; k < MEASURES; k++)
            if (best.value[k] > 0) atomicMax(&s.bests[k], bits_of(best.value[k]));
        __syncthreads();
#pragma unroll
        for (int k = 0; k < MEASURES; k++)
            if (best.value[k] > 0 && bits_of(best.value[k]) == s.bests[k]) atomicMin(&s.segments[k], best.segment[k]);
        __syncthreads();
        if (t < MEASURES) p.bests[blockIdx.x].value[t] = f64_of(s.bests[t]), p.bests[blockIdx.x].segment[t] = s.segments[t];
    }
    for (u32 i = t; i < COUNTS; i += blockDim.x)
        if (s.counts[i]) atomicAdd(&w.counts[i], s.counts[i]);
    for (u32 i = t; i < 23; i += blockDim.x)
        if (s.histograms[i]) atomicAdd(&w.histograms[i], s.histograms[i]);
    if (t < MEASURES && s.keys[t]) atomicMax(&w.keys[t], s.keys[t]);
    if (t < 2) {
        if (s.hints[t]) atomicMax(&w.hints[t], s.hints[t]);
        if (s.magnitudes[t]) atomicMax(&w.magnitudes[t], s.magnitudes[t]);
    }
    __threadfence();
    __syncthreads();
    if (t == 0) s.last = atomicAdd(&w.blocks_done, 1ull) == gridDim.x - 1;
    __syncthreads();
    if (!s.last) return;
    __threadfence();

    VerifyResult &out = *p.result;
    for (u32 i = t; i < COUNTS; i += blockDim.x) out.counts[i] = s.counts[i] = fetch(&w.counts[i]);
    for (u32 i = t; i < 23; i += blockDim.x) out.histograms[i] = fetch(&w.histograms[i]);
    if (t < 2) out.hints[t] = f64_of(fetch(&w.hints[t])), out.magnitudes[t] = f64_of(fetch(&w.magnitudes[t]));

    // The worst elements: which segments, then where in them.
    if (t < MEASURES) {
        const u64 key = fetch(&w.keys[t]);
        s.bests[t] = EXACT || key == 0 ? 0 : bits_of(t == ULP ? ulp_key_value(key) : key_value(key));
        s.segments[t] = EXACT || key == 0 ? NOWHERE : key_segment(key);
        s.indices[t] = NOWHERE;
    }
    __syncthreads();
    if (EXACT) {
        for (u32 b = t; b < gridDim.x; b += blockDim.x)
            for (int k = 0; k < MEASURES; k++) atomicMax(&s.bests[k], bits_of(p.bests[b].value[k]));
        __syncthreads();
        for (u32 b = t; b < gridDim.x; b += blockDim.x)
            for (int k = 0; k < MEASURES; k++)
                if (s.bests[k] && bits_of(p.bests[b].value[k]) == s.bests[k]) atomicMin(&s.segments[k], p.bests[b].segment[k]);
        __syncthreads();
    }
    // Measures often share a segment: each segment is looked at once, for all that have their worst element there.
    for (int k = 0; k < MEASURES; k++) {
        const u64 segment = s.segments[k];
        bool done = segment == NOWHERE;
        for (int j = 0; j < k; j++) done |= s.segments[j] == segment;
        if (done) continue;
        const u64 from = segment * size, to = from + size < p.n ? from + size : p.n;
#pragma unroll 1
        for (u64 i = from + t; i < to; i += blockDim.x) {
            double value[MEASURES];
            judge<Pair>(p, i, value);
#pragma unroll
            for (int j = 0; j < MEASURES; j++)
                if (s.segments[j] == segment && bits_of(value[j]) == s.bests[j]) atomicMin(&s.indices[j], i);
        }
    }
    __syncthreads();
    if (t < MEASURES) {
        out.values[t] = f64_of(s.bests[t]);
        out.places[t] = place<Pair>(p, s.indices[t]);
    }

    // The first mismatches: the next segment that has some, then one after the other.
    u64 listed = 0;
    if (s.counts[MISMATCHES])
        for (u64 segment = 0; listed < p.first && segment < segments; segment++) {
            segment = first_of(s, segment, segments, [&](u64 i) { return p.mismatches[i] > 0; });
            if (segment == NOWHERE) break;
            u64 at = segment * size;
            const u64 to = at + size < p.n ? at + size : p.n;
            for (u32 left = p.mismatches[segment]; left > 0 && listed < p.first; left--, listed++) {
                at = first_of(s, at, to, [&](u64 i) {
                    double value[MEASURES];
                    return !judge<Pair>(p, i, value);
                });
                if (t == 0) out.first[listed] = place<Pair>(p, at);
                at += 1;
            }
        }
    if (t == 0) out.listed = listed;

    if (ALL) {
        const u32 parts = ITEM_SEGMENTS / groups;
        const u64 items = (segments + ITEM_SEGMENTS - 1) / ITEM_SEGMENTS;
        for (u32 lane = t; lane < FINAL_LANES; lane += blockDim.x)
            for (int k = 0; k < 4; k++) {
                double sum = 0;
                for (u64 item = lane; item < items; item += FINAL_LANES) {
                    double tree[ITEM_SEGMENTS / 2];
#pragma unroll
                    for (u32 i = 0; i < ITEM_SEGMENTS / 2; i++) {
                        const u64 work = item * parts + i;
                        tree[i] = i < parts && work < works ? p.partials[work * 4 + k] : 0;
                    }
                    // Absent parts are zeros behind the others, so the tree of eight is that of `parts`.
#pragma unroll
                    for (u32 step = 1; step < ITEM_SEGMENTS / 2; step *= 2)
#pragma unroll
                        for (u32 i = 0; i < ITEM_SEGMENTS / 2; i += 2 * step) tree[i] = tree[i] + tree[i + step];
                    sum = sum + tree[0];
                }
                s.lanes[k][lane] = sum;
            }
        for (u32 half = FINAL_LANES / 2; half > 0; half /= 2) {
            __syncthreads();
            for (u32 i = t; i < half * 4; i += blockDim.x) {
                double *x = s.lanes[i / half];
                x[i % half] = x[i % half] + x[i % half + half];
            }
        }
        __syncthreads();
        if (t < 4) out.sums[t] = s.lanes[t][0];
    }
    // Leave the workspace as it was.
    for (u32 i = t; i < sizeof(VerifyWorkspace) / 8; i += blockDim.x) ((u64 *)&w)[i] = 0;
    __threadfence_system();
}

// ---- the kernel ---------------------------------------------------------------------------------------------------------

// Joins what threads have counted; the shared counters are zero before.
template <typename T> __device__ inline void tally_up(Shared &s, const Tally<T> &t) {
    if (t.zero_passes) atomicAdd(&s.counts[ZERO_PASSES], (u64)t.zero_passes);
    if (t.zeros_a) atomicAdd(&s.counts[ZEROS_A], (u64)t.zeros_a);
    if (t.zeros_r) atomicAdd(&s.counts[ZEROS_R], (u64)t.zeros_r);
    raise(s.magnitudes[0], bits_of((double)t.largest_a));
    raise(s.magnitudes[1], bits_of((double)t.largest_r));
}

__device__ inline void begin(Shared &s) {
    for (u32 i = threadIdx.x; i < sizeof(Shared) / 8; i += blockDim.x) ((u64 *)&s)[i] = 0;
    __syncthreads();
}

// Exchanges what is known with the other blocks: a thread a measure.
__device__ inline void exchange(Shared &s, VerifyWorkspace &w) {
    if (threadIdx.x >= MEASURES + 2) return;
    u64 *mine = threadIdx.x < MEASURES ? &s.keys[threadIdx.x] : &s.hints[threadIdx.x - MEASURES];
    u64 *ours = threadIdx.x < MEASURES ? &w.keys[threadIdx.x] : &w.hints[threadIdx.x - MEASURES];
    forget();
    const u64 here = *mine, there = atomicMax(ours, 0ull);
    if (there > here) atomicMax(mine, there);
    else if (here > there) atomicMax(ours, here);
}

// Visits one element from memory; d and m are for the sums.
template <class Pair>
__device__ inline void look(const VerifyParams &p, Shared &s, Tally<typename Pair::Number> &tally, Best<typename Pair::Number> &best, u64 segment, u64 index, double &d, double &m) {
    typedef typename Pair::Number T;
    const u64 bits_a = Pair::bits_a(p, index), bits_r = Pair::bits_r(p, index);
    if constexpr (Pair::INTEGER) {
        const i64 a = decode_int(format_of(p.dtype_a), bits_a), r = decode_int(format_of(p.dtype_r), bits_r);
        observe_int(p, s, tally, best, segment, a, r);
        d = (double)apart(a, r), m = (double)size_of(r);
    } else {
        const T a = Pair::decode_a(p, bits_a), r = Pair::decode_r(p, bits_r);
        observe<T, sizeof(T) == 8, true>(p, s, tally, best, segment, a, r, Pair::distance(p, bits_a, bits_r, r));
        if (is_finite(a) && is_finite(r)) d = (double)Real<T>::abs(a - r), m = (double)Real<T>::abs(r);
    }
}

// Ends a segment: its mismatches, and the block's sums of its segments.
template <bool ALL>
__device__ inline void join(const VerifyParams &p, Shared &s, u64 segment, u64 segments, u64 work, u32 flip, u32 mismatches, const double (&sums)[4]) {
    const u32 groups = blockDim.x / GROUP, group = threadIdx.x / GROUP, column = threadIdx.x % GROUP;
    mismatches = group_sum(mismatches);
    if (column == 0 && segment < segments) {
        p.mismatches[segment] = mismatches;
        if (mismatches) atomicAdd(&s.counts[MISMATCHES], (u64)mismatches);
    }
    if (!ALL) return;
#pragma unroll
    for (int k = 0; k < 4; k++) {
        const double x = group_sum(sums[k]);
        if (column == 0) s.tree[flip][k][group] = x;
    }
    // One barrier is enough: the next work uses the other half of the tree.
    __syncthreads();
    if (threadIdx.x < 4) {
        double *t = s.tree[flip][threadIdx.x];
        for (u32 step = 1; step < groups; step *= 2)
            for (u32 i = 0; i < groups; i += 2 * step) t[i] = t[i] + t[i + step];
        p.partials[work * 4 + threadIdx.x] = t[0];
    }
}

// The fast paths. Pair: how elements are loaded.
//   Number, V, Raw, DEPTH        arithmetic, elements per load, what a load holds, loads in flight
//   SUBNORMAL                    whether differences below Real::tiny() occur
//   load(p, index)               V elements from index, all inside; load_some: those below n
//   result(p, raw, v)            an element's value, likewise reference; ulps(p, raw, v, a, r) the distance of their ordinals
//   bits_a(p, index), decode_a   one element; distance(p, bits_a, bits_r, r) of its ordinals
template <class Pair, bool ALL> __device__ inline void verify(const VerifyParams &p) {
    typedef typename Pair::Number T;
#if defined(__CUDA_ARCH__)
    enum { V = Pair::V, SEGMENT = ROWS * GROUP * V, DEPTH = Pair::DEPTH };
#else
    // clang interleaves the rows: with 16 elements a row and all metrics, more than one spills registers to memory.
    enum { V = Pair::V, SEGMENT = ROWS * GROUP * V, DEPTH = ALL && V >= 16 ? 1 : Pair::DEPTH };
#endif
    constexpr bool EXACT = sizeof(T) == 8;
    __shared__ Shared s;
    const Rule<T> rule(p);
    const u32 groups = blockDim.x / GROUP, group = threadIdx.x / GROUP, column = threadIdx.x % GROUP;
    begin(s);
    const u64 segments = (p.n + SEGMENT - 1) / SEGMENT, works = (segments + groups - 1) / groups;
    Tally<T> tally = {0, 0, 0, 0, 0, 0};
    Best<T> best;
    best.clear();
    u32 flip = 0;
    const T lowest = (T)pow2(p.min_exponent), highest = (T)pow2(p.max_exponent);
    for (u64 work = blockIdx.x; work < works; work += gridDim.x, flip ^= 1) {
        const u64 segment = work * groups + group;
        exchange(s, *p.workspace);
        Limits<T> limits;
        limits.take(p, s, segment);
        Column<V> sums;
        sums.clear();
        tally.mismatches = 0;
        const u64 base = segment * SEGMENT + (u64)column * V;
        const bool whole = (segment + 1) * SEGMENT <= p.n;
        for (int row = 0; row < ROWS; row += DEPTH) {
            typename Pair::Raw raw[DEPTH];
            u64 pending = 0; // a bit an element of all rows in flight
#pragma unroll
            for (int k = 0; k < DEPTH; k++) {
                const u64 index = base + (u64)(row + k) * GROUP * V;
                if (whole) raw[k] = Pair::load(p, index);
                else raw[k] = Pair::load_some(p, index, p.n);
            }
#pragma unroll
            for (int k = 0; k < DEPTH; k++) {
                const u64 index = base + (u64)(row + k) * GROUP * V;
                T d[V], m[V];
                u32 rare = 0; // a bit an element
#pragma unroll
                for (int v = 0; v < V; v++) {
                    const T a = Pair::result(p, raw[k], v), r = Pair::reference(p, raw[k], v);
                    d[v] = Real<T>::abs(a - r);
                    m[v] = Real<T>::abs(r);
                    const T bound = Real<T>::fused(rule.rtol, m[v], rule.atol);
                    bool look = !whole || !(d[v] <= limits.absolute);
                    if (ALL) {
                        // A zero reference has no relative difference.
                        look |= Real<T>::fused(-limits.relative, m[v], d[v]) > 0 && m[v] > 0;
                        look |= Real<T>::fused(-limits.relative_old, m[v], d[v]) > 0 && m[v] > Real<T>::small();
                        look |= Real<T>::fused(-limits.ratio, bound, d[v]) > 0;
                        T b = Real<T>::binade(m[v]);
                        b = b < lowest ? lowest : b > highest ? highest : b;
                        look |= d[v] > limits.epsilon * b;
                        look |= d[v] > Real<T>::fused(limits.rtol, m[v], rule.atol);
                        look |= d[v] > Real<T>::fused(rule.rtol, m[v], limits.atol);
                        if (Pair::SUBNORMAL) look |= d[v] > 0 && d[v] < Real<T>::tiny();
                        look |= Pair::ulps(p, raw[k], v, a, r) > limits.ulp;
                    }
                    if (look) {
                        rare |= 1u << v;
                    } else {
                        tally.mismatches += d[v] > bound;
                        tally.largest_a = Real<T>::abs(a) > tally.largest_a ? Real<T>::abs(a) : tally.largest_a;
                        tally.largest_r = m[v] > tally.largest_r ? m[v] : tally.largest_r;
                        if (ALL) {
                            tally.zero_passes += !(m[v] > bound);
                            tally.zeros_a += a == 0;
                            tally.zeros_r += m[v] == 0;
                        }
                    }
                }
                pending |= (u64)rare << (k * V);
                if (ALL) {
#if defined(__AMDGCN__)
                    // A row of 16 with all metrics does not fit gfx908's registers beside its screens: decode it again instead of
                    // keeping it. The empty instruction hides from the compiler that the words are the same.
                    if (V >= 16) {
                        for (u32 &word : raw[k].a) asm volatile("" : "+v"(word));
                        for (u32 &word : raw[k].r) asm volatile("" : "+v"(word));
#pragma unroll
                        for (int v = 0; v < V; v++) {
                            const T a = Pair::result(p, raw[k], v), r = Pair::reference(p, raw[k], v);
                            d[v] = Real<T>::abs(a - r);
                            m[v] = Real<T>::abs(r);
                        }
                    }
#endif
                    // What is not finite, or not there, adds nothing. Every such element has asked for a look.
                    if (rare) {
#pragma unroll
                        for (int v = 0; v < V; v++) {
                            const T a = Pair::result(p, raw[k], v), r = Pair::reference(p, raw[k], v);
                            const bool counts = index + v < p.n && is_finite(a) && is_finite(r);
                            d[v] = counts ? d[v] : 0;
                            m[v] = counts ? m[v] : 0;
                        }
                    }
                    sums.add(d, m);
                }
            }
            // The elements that asked for a closer look get it from memory again, one of each thread at a time.
            if (!__any(pending != 0)) continue;
#pragma unroll 1
            for (; pending; pending &= pending - 1) {
                const u32 element = (u32)__ffsll((long long)pending) - 1;
                const u64 index = base + (u64)(row + element / V) * GROUP * V + element % V;
                if (index >= p.n) continue;
                const u64 bits_a = Pair::bits_a(p, index), bits_r = Pair::bits_r(p, index);
                const T a = Pair::decode_a(p, bits_a), r = Pair::decode_r(p, bits_r);
                observe<T, EXACT, ALL>(p, s, tally, best, segment, a, r, ALL ? Pair::distance(p, bits_a, bits_r, r) : 0);
            }
            limits.take(p, s, segment);
        }
        const double totals[4] = {sums.total(0), sums.total(1), sums.total(2), sums.total(3)};
        join<ALL>(p, s, segment, segments, work, flip, tally.mismatches, totals);
    }
    tally_up(s, tally);
    __syncthreads();
    finish<Pair, ALL>(p, s, best, SEGMENT, segments, groups, works);
}
