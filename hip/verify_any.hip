// The comparison for every pair of formats and every layout: formats and strides are read at run time, element by element.
// Slower than the fast paths by an order of magnitude and more; kernel names: verify_any_<arithmetic>.
#include <hip/hip_runtime.h>
#include "verify.h"

__device__ inline u64 load_any(const u8 *base, u32 dtype, i64 index) {
    switch (format_of(dtype).bits) {
    // Byte by byte: nothing is promised about alignment.
    case 64: { u64 x = 0; for (int i = 7; i >= 0; i--) x = x << 8 | base[index * 8 + i]; return x; }
    case 32: { u32 x = 0; for (int i = 3; i >= 0; i--) x = x << 8 | base[index * 4 + i]; return x; }
    case 16: return base[index * 2] | (u32)base[index * 2 + 1] << 8;
    case 8: return base[index];
    default: return base[index >> 1] >> (4 * (index & 1)) & 0xf;
    }
}

__device__ inline i64 place_of(u64 index, u32 rank, i64 offset, const u64 *extents, const i64 *strides) {
    if (rank == 0) return offset + (i64)index;
    i64 at = offset;
    for (u32 i = rank; i-- > 0;) {
        at += (i64)(index % extents[i]) * strides[i];
        index /= extents[i];
    }
    return at;
}

__device__ inline double decode_any(u32 dtype, u64 bits) {
    const Format f = format_of(dtype);
    if (f.specials == INTEGER) return (double)decode_int(f, bits);
    if (dtype == F64) return f64_of(bits);
    if (dtype == F32) return (double)f32_of((u32)bits);
    return (double)decode_small(f, (u32)bits);
}

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
    static constexpr bool INTEGER = INT;
    static __device__ u32 width(const VerifyParams &p) {
        const u32 a = format_of(p.dtype_a).bits, r = format_of(p.dtype_r).bits;
        return 128 / (a < r ? a : r);
    }
    static __device__ u64 bits_a(const VerifyParams &p, u64 index) {
        return load_any(p.a, p.dtype_a, place_of(index, p.rank_a, p.offset_a, p.extents_a, p.strides_a));
    }
    static __device__ u64 bits_r(const VerifyParams &p, u64 index) {
        return load_any(p.r, p.dtype_r, place_of(index, p.rank_r, p.offset_r, p.extents_r, p.strides_r));
    }
    static __device__ T decode_a(const VerifyParams &p, u64 bits) { return (T)decode_any(p.dtype_a, bits); }
    static __device__ T decode_r(const VerifyParams &p, u64 bits) { return (T)decode_any(p.dtype_r, bits); }
    static __device__ u64 distance(const VerifyParams &p, u64 a, u64 r, T value) {
        const i64 x = ordinal_any(p.dtype_a, a);
        const i64 y = ordinal_any(p.dtype_a, p.dtype_a == p.dtype_r ? r : encode_any(p.dtype_a, (double)value));
        return x > y ? (u64)x - (u64)y : (u64)y - (u64)x;
    }
};

// Every element by the rule, one after the other: lanes outside, then rows, then the groups of four of a row. The code of an
// element stands here once, so that compilers are quick with it.
template <class Pair> __device__ inline void verify_each(const VerifyParams &p) {
    typedef typename Pair::Number T;
    __shared__ Shared s;
    const u32 groups = blockDim.x / GROUP, group = threadIdx.x / GROUP, column = threadIdx.x % GROUP;
    const u32 width = Pair::width(p), lanes = width < 4 ? width : 4;
    const u64 size = (u64)ROWS * GROUP * width;
    const u64 segments = (p.n + size - 1) / size, works = (segments + groups - 1) / groups;
    begin(s);
    Tally<T> tally = {0, 0, 0, 0, 0, 0};
    Best<T> best;
    best.clear();
    u32 flip = 0;
    for (u64 work = blockIdx.x; work < works; work += gridDim.x, flip ^= 1) {
        const u64 segment = work * groups + group;
        exchange(s, *p.workspace);
        tally.mismatches = 0;
        // Lanes 0 and 1 are joined first, then 2 and 3, then both.
        double front[4] = {0, 0, 0, 0}, back[4] = {0, 0, 0, 0};
#pragma unroll 1
        for (u32 lane = 0; lane < lanes; lane++) {
            double acc[4] = {0, 0, 0, 0};
#pragma unroll 1
            for (u32 row = 0; row < ROWS; row++) {
                const u64 base = segment * size + ((u64)row * GROUP + column) * width;
                // A balanced tree of up to eight groups as a binary counter with three digits.
                double one[4], two[4], four[4], x[4];
                for (int k = 0; k < 4; k++) one[k] = two[k] = four[k] = x[k] = 0;
#pragma unroll 1
                for (u32 g = 0; g < width / lanes; g++) {
                    const u64 index = base + g * lanes + lane;
                    double d = 0, m = 0;
                    if (index < p.n) look<Pair>(p, s, tally, best, segment, index, d, m);
                    x[0] = d, x[1] = d * d, x[2] = m, x[3] = m * m;
#pragma unroll
                    for (int k = 0; k < 4; k++) {
                        if (!(g & 1)) { one[k] = x[k]; continue; }
                        x[k] = one[k] + x[k];
                        if (!(g & 2)) { two[k] = x[k]; continue; }
                        x[k] = two[k] + x[k];
                        if (!(g & 4)) { four[k] = x[k]; continue; }
                        x[k] = four[k] + x[k];
                    }
                }
                for (int k = 0; k < 4; k++) acc[k] = acc[k] + x[k];
            }
            for (int k = 0; k < 4; k++) {
                if (lane < 2) front[k] = lane == 0 ? acc[k] : front[k] + acc[k];
                else back[k] = lane == 2 ? acc[k] : back[k] + acc[k];
            }
        }
        double sums[4];
        for (int k = 0; k < 4; k++) sums[k] = front[k] + back[k];
        join<true>(p, s, segment, segments, work, flip, tally.mismatches, sums);
    }
    tally_up(s, tally);
    __syncthreads();
    finish<Pair, true>(p, s, best, size, segments, groups, works);
}

extern "C" __global__ void __launch_bounds__(512) verify_any_f32(VerifyParams p) { verify_each<Any<float, false>>(p); }
extern "C" __global__ void __launch_bounds__(512) verify_any_f64(VerifyParams p) { verify_each<Any<double, false>>(p); }
extern "C" __global__ void __launch_bounds__(512) verify_any_i64(VerifyParams p) { verify_each<Any<double, true>>(p); }
