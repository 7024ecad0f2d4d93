// Elements against a bound of their own: the kernels of `verify::bound`, whose `host.rs` and `rule.rs` are the definition.
//
//   bound_tiles     a block takes a tile of elements: counts, the largest error over bound, a histogram
//   bound_ratios    error over bound of each of some elements, for those of a tile that are to be named
#include <hip/hip_runtime.h>

#include "any.h"
#include "platform.h"

namespace {
constexpr int THREADS = 256;

__device__ inline double infinity() { return f64_of(0x7ff0000000000000ull); }
__device__ inline bool is_nan(double x) { return x != x; }
__device__ inline bool is_infinite(double x) { return fabs(x) == infinity(); }

__device__ inline double element(const AnyTensor &t, const u8 *at, u64 index) { return any_decode(t.dtype, any_load(at, t.dtype, any_place(t, index))); }

// How far an element may lie from the reference: before it is rounded to its format, and after.
struct Limits { double before, after; };
__device__ inline Limits limits_of(const BoundParams &p, double r, u64 index) {
    const BoundRule &rule = p.rule;
    if (rule.floor == infinity()) return {infinity(), infinity()};
    const double before = fma(rule.gamma, element(p.s, p.s_at, index), fma(rule.relative, fabs(r), rule.floor));
    if (!(before >= 0.0)) return {0.0, 0.0};
    // Rounding is monotone, so the exponent is not too small.
    const double binade = f64_of(bits_of(fabs(r) + before) & 0x7ff0000000000000ull);
    const double held = binade < rule.least ? rule.least : binade > rule.most ? rule.most : binade;
    const double rounding = rule.half_step > 0.0 ? rule.half_step * held : 0.0;
    // Not -0 either: an error divided by it would be negative.
    return {before, before + rounding + 0.0};
}

// Error over bound of an element; up to 1 passes. If something is not finite, the ratio is 0 where the result is right, and otherwise infinite.
__device__ inline double ratio_of(const BoundRule &p, double a, double r, Limits limits) {
    const double limit = limits.after;
    const bool saturated = (p.beyond & BOUND_AS_LARGEST) && fabs(a) == p.largest && (a < 0.0) == (r < 0.0);
    if (is_nan(r)) return is_nan(a) || !p.nan ? 0.0 : infinity();
    if (is_infinite(r)) return a == r || saturated || (is_nan(a) && (p.beyond & BOUND_NAN_FOR_INFINITY)) ? 0.0 : infinity();
    const double d = fabs(a - r);
    if (d <= limit) return limit < infinity() && d > 0.0 ? d / limit : 0.0;
    const bool beyond = (a < 0.0 ? -r : r) + limits.before >= p.overflow || (is_nan(a) && fabs(r) + limits.before >= p.overflow);
    if (beyond && (saturated || (is_infinite(a) && (p.beyond & BOUND_AS_INFINITY)) || (is_nan(a) && (p.beyond & BOUND_AS_NAN)))) return 0.0;
    const double quotient = d / limit;
    return quotient < infinity() ? quotient : infinity();
}

// The bin of a ratio: 0 for 0, then (2^(i - 33), 2^(i - 32)] with all that is smaller or larger in the outermost.
__device__ inline u32 bin_of(double ratio) {
    if (ratio == 0.0) return 0;
    const i32 bin = (i32)((bits_of(ratio) - 1) >> 52) - 1023 + 33;
    return bin < 1 ? 1 : bin > (i32)BOUND_BINS - 1 ? BOUND_BINS - 1 : bin;
}

// The largest of what the threads of a block have.
struct Shared {
    u64 ratio, power; // patterns of f64, which are ordered as the numbers are
    u32 counts[BOUND_COUNTS];
    u32 bins[BOUND_BINS];
};

__device__ inline void observe(Shared &s, const BoundParams &p, u64 index) {
    const double a = element(p.a, p.a_at, index), r = element(p.r, p.r_at, index);
    const Limits limits = limits_of(p, r, index);
    const double ratio = ratio_of(p.rule, a, r, limits);
    const bool counts = !is_nan(r) && !is_infinite(r) && r != 0.0;
    // An infinite or saturated result passes: nothing is known about its size.
    const bool overflows = counts && fabs(r) + limits.before >= p.rule.overflow;
    const bool zero_passes = counts && fabs(r) <= limits.after;
    const bool conditions[] = {ratio > 1.0, counts, zero_passes, is_nan(a), is_nan(r), is_infinite(a), is_infinite(r), overflows && !zero_passes};
#pragma unroll
    for (u32 i = 0; i < BOUND_COUNTS; i++)
        if (conditions[i]) atomicAdd(&s.counts[i], 1u);
    atomicAdd(&s.bins[bin_of(ratio)], 1u);
    if (counts && !overflows) {
        const double power = fabs(r) / limits.after;
        if (power > 0.0) atomicMax(&s.power, bits_of(power));
    }
    if (ratio > 0.0) atomicMax(&s.ratio, bits_of(ratio));
}
} // namespace

extern "C" __global__ void __launch_bounds__(THREADS) bound_tiles(BoundParams p) {
    __shared__ Shared s;
    const u64 tiles = (p.end + BOUND_TILE - 1) / BOUND_TILE;
    for (u64 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        if (threadIdx.x == 0) s.ratio = s.power = 0;
        if (threadIdx.x < BOUND_COUNTS) s.counts[threadIdx.x] = 0;
        if (threadIdx.x < BOUND_BINS) s.bins[threadIdx.x] = 0;
        __syncthreads();
        for (u32 i = threadIdx.x; i < BOUND_TILE; i += THREADS)
            if (tile * BOUND_TILE + i < p.end) observe(s, p, tile * BOUND_TILE + i);
        __syncthreads();
        if (threadIdx.x == 0) p.tiles[tile].ratio = f64_of(s.ratio), p.tiles[tile].power = f64_of(s.power);
        if (threadIdx.x < BOUND_COUNTS) p.tiles[tile].counts[threadIdx.x] = s.counts[threadIdx.x];
        if (threadIdx.x < BOUND_BINS && s.bins[threadIdx.x]) atomicAdd(&p.bins[threadIdx.x], (u64)s.bins[threadIdx.x]);
        __syncthreads();
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) bound_ratios(BoundParams p) {
    const u64 grid = (u64)gridDim.x * THREADS;
    for (u64 i = p.first + (u64)blockIdx.x * THREADS + threadIdx.x; i < p.end; i += grid) {
        const double a = element(p.a, p.a_at, i), r = element(p.r, p.r_at, i);
        p.ratios[i - p.first] = ratio_of(p.rule, a, r, limits_of(p, r, i));
    }
}
