// The comparison for every pair of formats and every layout: formats and strides are read at run time, element by element.
// Slower than the fast paths by an order of magnitude and more; kernel names: verify_any_<arithmetic>.
#include <hip/hip_runtime.h>
#include "any.h"
#include "verify_end.h"
#include "verify_sums.h"

__device__ inline i64 ordinal_any(u32 dtype, u64 bits) {
    const Format f = format_of(dtype);
    if (f.specials == INTEGER) return decode_int(f, bits);
    if (f.specials == E8M0) return (i64)(bits & 0xff);
    const u32 width = f.exponent_bits + f.mantissa_bits;
    bits >>= f.pad_bits;
    const i64 magnitude = (i64)(bits & ((1ull << width) - 1));
    return bits >> width & 1 ? -magnitude : magnitude;
}

template <typename T, bool INT> struct Any {
    typedef T Number;
    static constexpr bool EXACT_INTEGERS = INT;
    static __device__ u32 width(const VerifyParams &p) {
        const u32 a = format_of(p.dtype_a).bits, r = format_of(p.dtype_r).bits;
        return 128 / (a < r ? a : r);
    }
    static __device__ u64 bits_a(const VerifyParams &p, u64 index) {
        return any_load(p.a, p.dtype_a, any_place(index, p.rank_a, p.offset_a, p.extents_a, p.strides_a));
    }
    static __device__ u64 bits_r(const VerifyParams &p, u64 index) {
        return any_load(p.r, p.dtype_r, any_place(index, p.rank_r, p.offset_r, p.extents_r, p.strides_r));
    }
    static __device__ T decode_a(const VerifyParams &p, u64 bits) { return (T)any_decode(p.dtype_a, bits); }
    static __device__ T decode_r(const VerifyParams &p, u64 bits) { return (T)any_decode(p.dtype_r, bits); }
    static __device__ u64 distance(const VerifyParams &p, u64 a, u64 r, T value) {
        const i64 x = ordinal_any(p.dtype_a, a);
        const i64 y = ordinal_any(p.dtype_a, p.dtype_a == p.dtype_r ? r : encode_any(p.dtype_a, (double)value));
        return x > y ? (u64)x - (u64)y : (u64)y - (u64)x;
    }
};

// Visits one element by the rule: the twin of `Stats::observe` and `Stats::observe_int`. d and m are for the sums.
template <class Pair>
__device__ inline void observe(const VerifyParams &p, Shared &s, Tally<typename Pair::Number> &tally, Worst &worst, u64 index, double &d, double &m) {
    typedef typename Pair::Number T;
    const u64 bits_a = Pair::bits_a(p, index), bits_r = Pair::bits_r(p, index);
    double value[MEASURES] = {0, 0, 0, 0, 0, 0}, hint[2] = {0, 0};
    if constexpr (Pair::EXACT_INTEGERS) {
        const i64 a = decode_int(format_of(p.dtype_a), bits_a), r = decode_int(format_of(p.dtype_r), bits_r);
        const double size = (double)size_of(a);
        const u64 off = apart(a, r);
        tally.mismatches += !judge_int(p, a, r, value);
        d = (double)off, m = (double)size_of(r);
        tally.largest_a = size > tally.largest_a ? size : tally.largest_a;
        tally.largest_r = m > tally.largest_r ? m : tally.largest_r;
        tally.zeros_a += a == 0;
        tally.zeros_r += r == 0;
        tally.zero_passes += int_passes(size_of(r), p.rtol, m, p.atol);
        if (a == r) return;
        if (p.histograms) bin(s, m > 0, value[RELATIVE], d, value[RATIO]);
        const double rtol = f64_of(s.hints[0]), atol = f64_of(s.hints[1]);
        if (!int_passes(off, rtol, m, p.atol)) hint[0] = least<double, u64>((d - p.atol) / m, [&](double t) { return int_passes(off, t, m, p.atol); });
        if (!int_passes(off, p.rtol, m, atol)) hint[1] = least<double, u64>(d - p.rtol * m, [&](double t) { return int_passes(off, p.rtol, m, t); });
    } else {
        const Rule<T> rule(p);
        const T a = Pair::decode_a(p, bits_a), r = Pair::decode_r(p, bits_r);
        tally.zeros_a += a == 0;
        tally.zeros_r += r == 0;
        if (is_finite(a)) tally.largest_a = Real<T>::larger(tally.largest_a, Real<T>::abs(a));
        if (is_finite(r)) tally.largest_r = Real<T>::larger(tally.largest_r, Real<T>::abs(r));
        if (!is_finite(a) || !is_finite(r)) {
            observe_nonfinite(p, s, tally, a, r);
            return;
        }
        const T off = Real<T>::abs(a - r), size = Real<T>::abs(r), bound = rule.bound(size);
        d = (double)off, m = (double)size;
        tally.mismatches += off > bound;
        tally.zero_passes += size <= bound;
        if (!(off > 0)) return;
        measure<T>(p, rule, off, size, Pair::distance(p, bits_a, bits_r, r), value);
        if (p.histograms) bin(s, size > Real<T>::small(), value[RELATIVE], value[EPSILON], value[RATIO]);
        hints<T>(s, rule, off, size, hint);
    }
    worst.take<MEASURES>(value, index);
    for (int k = 0; k < 2; k++)
        if (hint[k] > 0) raise(s.hints[k], bits_of(hint[k]));
}

// Every element by the rule, one after the other. The code of an element stands here once, so that compilers are quick with it.
template <class Pair> __device__ inline void verify_each(const VerifyParams &p) {
    typedef typename Pair::Number T;
    __shared__ Shared s;
    const u32 groups = blockDim.x / GROUP, group = threadIdx.x / GROUP, column = threadIdx.x % GROUP;
    const u32 width = Pair::width(p);
    const u64 row = (u64)GROUP * width, size = ROWS * row;
    const u64 segments = (p.n + size - 1) / size, chunks = (segments + (1ull << p.chunk_log) - 1) >> p.chunk_log;
    begin(s);
    Tally<T> tally;
    tally.clear();
    Worst worst;
    worst.clear();
#pragma unroll 1
    for (u64 chunk = (u64)blockIdx.x * groups + group; chunk < chunks; chunk += (u64)gridDim.x * groups)
#pragma unroll 1
        for (u32 part = 0; part < 1u << p.chunk_log; part++) {
            const u64 segment = (chunk << p.chunk_log) + part, first = segment * size + column * width;
            tally.mismatches = 0;
            double totals[4] = {0, 0, 0, 0};
            const bool precise = sum_column<T>(first, row, width, totals, [&](u64 index, double &d, double &m) {
                if (index < p.n) observe<Pair>(p, s, tally, worst, index, d, m);
            });
            if (!group_all(precise))
                sum_column<double>(first, row, width, totals, [&](u64 index, double &d, double &m) {
                    if (index >= p.n) return;
                    const T a = Pair::decode_a(p, Pair::bits_a(p, index)), r = Pair::decode_r(p, Pair::bits_r(p, index));
                    if (is_finite(a) && is_finite(r)) d = (double)Real<T>::abs(a - r), m = (double)Real<T>::abs(r);
                });
            join<true>(p, s, segment, segments, part, tally.mismatches, totals);
        }
    __syncthreads();
    tally_up<true>(s, tally);
    worst.join<MEASURES>(s.bests[group]);
    __syncthreads();
    finish<Pair, true, false>(p, s, size, segments, segments);
}

extern "C" __global__ void __launch_bounds__(512) verify_any_f32(VerifyParams p) { verify_each<Any<float, false>>(p); }
extern "C" __global__ void __launch_bounds__(512) verify_any_f64(VerifyParams p) { verify_each<Any<double, false>>(p); }
extern "C" __global__ void __launch_bounds__(512) verify_any_i64(VerifyParams p) { verify_each<Any<double, true>>(p); }
