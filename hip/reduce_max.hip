// The largest magnitude of a tensor, with counts of NaN and infinities: the twin of `gpu_reduce_max` on the host.
//
// Dense tensors are reduced as patterns: the magnitude bits of a float format are ordered as its numbers are, with infinities and
// NaN on top, so that integer maxima decide and one check per load finds what is not finite.
#include <hip/hip_runtime.h>
#include "verify_dense.h"

struct MaxParams {
    const u8 *x;
    u64 n;
    u32 dtype, rank;
    i64 offset;
    u64 extents[8];
    i64 strides[8];
    struct MaxWorkspace *workspace; // zeroed; the kernel leaves it so
    struct MaxResult *result;
};

struct MaxWorkspace {
    u64 largest; // pattern of an f64
    u64 nans, infinities, blocks_done;
};

struct MaxResult {
    u64 largest, nans, infinities;
};

// What makes up a format, in patterns of 64 bits at most.
struct Patterns {
    u64 magnitude; // bits that order numbers of one sign
    u64 special;   // least magnitude that is not finite; ~0 when there is none
    u64 nan;       // fnuz: the pattern that is NaN; ~0 when there is none
    bool integer;
};

__device__ inline Patterns patterns_of(u32 dtype) {
    const Format f = format_of(dtype);
    Patterns p = {0, ~0ull, ~0ull, f.specials == INTEGER};
    if (p.integer) return p;
    p.magnitude = ((1ull << (f.exponent_bits + f.mantissa_bits)) - 1) << f.pad_bits;
    if (f.specials == IEEE) p.special = (((1ull << f.exponent_bits) - 1) << f.mantissa_bits) << f.pad_bits;
    if (f.specials == SINGLE_NAN || f.specials == E8M0) p.special = p.magnitude;
    if (f.specials == NEGATIVE_ZERO_NAN) p.nan = 1ull << (f.exponent_bits + f.mantissa_bits);
    return p;
}

__device__ inline double value_of(u32 dtype, u64 bits) {
    const Format f = format_of(dtype);
    if (f.specials == INTEGER) return (double)decode_int(f, bits);
    if (dtype == F64) return f64_of(bits);
    if (dtype == F32) return (double)f32_of((u32)bits);
    return (double)decode_small(f, (u32)bits);
}

struct MaxShared { u64 largest, nans, infinities; u32 last; };

// One element that may be anything.
__device__ inline double visit(MaxShared &s, u32 dtype, u64 bits) {
    const double x = fabs(value_of(dtype, bits));
    if (x != x) atomicAdd(&s.nans, 1ull);
    else if (x > 1.7976931348623157e308) atomicAdd(&s.infinities, 1ull);
    else return x;
    return 0;
}

__device__ inline void end(const MaxParams &p, MaxShared &s, double largest) {
    u64 bits = bits_of(largest);
    for (int offset = 16; offset > 0; offset /= 2) {
        const u64 other = __shfl_xor(bits, offset, 32);
        bits = other > bits ? other : bits;
    }
    if (threadIdx.x % 32 == 0 && bits) atomicMax(&s.largest, bits);
    __syncthreads();
    MaxWorkspace &w = *p.workspace;
    if (threadIdx.x == 0) {
        if (s.largest) atomicMax(&w.largest, s.largest);
        if (s.nans) atomicAdd(&w.nans, s.nans);
        if (s.infinities) atomicAdd(&w.infinities, s.infinities);
        __threadfence();
        if (atomicAdd(&w.blocks_done, 1ull) == gridDim.x - 1) {
            __threadfence();
            p.result->largest = atomicExch(&w.largest, 0ull);
            p.result->nans = atomicExch(&w.nans, 0ull);
            p.result->infinities = atomicExch(&w.infinities, 0ull);
            w.blocks_done = 0;
            __threadfence_system();
        }
    }
}

__device__ inline void begin(MaxShared &s) {
    if (threadIdx.x == 0) s.largest = s.nans = s.infinities = 0;
    __syncthreads();
}

// BITS of an element; patterns are kept in words of that size, two at a time where they are short.
template <int BITS> struct Lanes;
template <> struct Lanes<64> {
    u64 top;
    __device__ void clear() { top = 0; }
    __device__ void take(const Patterns &f, uint4 x, bool &odd) {
        const u64 a = (x.x | (u64)x.y << 32), b = (x.z | (u64)x.w << 32);
        take(f, a, odd), take(f, b, odd);
    }
    __device__ void take(const Patterns &f, u64 x, bool &odd) {
        const u64 m = f.integer ? ((i64)x < 0 ? 0 - x : x) : x & f.magnitude;
        odd |= !f.integer && m >= f.special;
        top = m > top ? m : top;
    }
    __device__ u64 largest() const { return top; }
};
template <> struct Lanes<32> {
    u32 top;
    __device__ void clear() { top = 0; }
    __device__ void take(const Patterns &f, uint4 x, bool &odd) { one(f, x.x, odd), one(f, x.y, odd), one(f, x.z, odd), one(f, x.w, odd); }
    __device__ void one(const Patterns &f, u32 x, bool &odd) {
        const u32 m = f.integer ? ((i32)x < 0 ? 0 - x : x) : x & (u32)f.magnitude;
        odd |= !f.integer && m >= (u32)f.special;
        top = m > top ? m : top;
    }
    __device__ u64 largest() const { return top; }
};

// Two 16-bit lanes in a word.
#if defined(__CUDA_ARCH__)
__device__ inline u32 max2(u32 a, u32 b) { return __vmaxu2(a, b); }
__device__ inline u32 abs2(u32 a) { return __vabs2(a); }
#else
typedef u16 Two __attribute__((ext_vector_type(2)));
typedef short TwoSigned __attribute__((ext_vector_type(2)));
__device__ inline u32 max2(u32 a, u32 b) {
    const Two x = __builtin_bit_cast(Two, a), y = __builtin_bit_cast(Two, b);
    return __builtin_bit_cast(u32, __builtin_elementwise_max(x, y));
}
__device__ inline u32 abs2(u32 a) {
    const TwoSigned x = __builtin_bit_cast(TwoSigned, a), none = {0, 0};
    return __builtin_bit_cast(u32, __builtin_elementwise_max(x, (TwoSigned)(none - x)));
}
#endif
template <> struct Lanes<16> {
    u32 top;
    __device__ void clear() { top = 0; }
    __device__ void take(const Patterns &f, uint4 x, bool &odd) {
        u32 most = 0;
        const u32 mask = (u32)f.magnitude * 0x10001u;
        const u32 words[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
        for (int i = 0; i < 4; i++) most = max2(most, f.integer ? abs2(words[i]) : words[i] & mask);
        const u32 larger = most >> 16 > (most & 0xffff) ? most >> 16 : most & 0xffff;
        odd |= !f.integer && larger >= (u32)f.special;
        top = max2(top, most);
    }
    __device__ u64 largest() const { return top >> 16 > (top & 0xffff) ? top >> 16 : top & 0xffff; }
};
template <> struct Lanes<8> {
    u32 top;
    __device__ void clear() { top = 0; }
    __device__ void take(const Patterns &f, uint4 x, bool &odd) {
        u32 most = 0, nan = 0;
        const u32 mask = (u32)f.magnitude * 0x10001u;
        const u32 words[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const u32 w = words[i];
            if (f.integer) {
                // Bytes in the upper halves, sign-extended on the way down; u8 has no sign.
                const u32 even = w << 8 & 0xff00ff00u, odd_bytes = w & 0xff00ff00u;
                most = max2(most, f.magnitude ? abs2(even) : even);
                most = max2(most, f.magnitude ? abs2(odd_bytes) : odd_bytes);
            } else {
                most = max2(most, w & mask);
                most = max2(most, w >> 8 & mask);
                if (f.nan != ~0ull) {
                    // A byte of 0x80 becomes zero, and only a zero byte borrows from its top bit.
                    const u32 zero = w ^ 0x80808080u;
                    nan |= (zero - 0x01010101u) & ~zero & 0x80808080u;
                }
            }
        }
        const u32 larger = most >> 16 > (most & 0xffff) ? most >> 16 : most & 0xffff;
        odd |= !f.integer && (larger >= (u32)f.special || nan);
        top = max2(top, most);
    }
    __device__ u64 largest() const { return top >> 16 > (top & 0xffff) ? top >> 16 : top & 0xffff; }
};

template <int BITS> __device__ inline void reduce(const MaxParams &p) {
    enum { PER = 128 / BITS, DEPTH = 4 };
    __shared__ MaxShared s;
    begin(s);
    Patterns f = patterns_of(p.dtype);
    // For bytes: whether they have a sign.
    if (BITS == 8 && f.integer) f.magnitude = p.dtype == I8;
    Lanes<BITS> lanes;
    lanes.clear();
    double largest = 0;
    const u64 whole = p.n / PER, step = (u64)gridDim.x * blockDim.x;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < whole; i += step * DEPTH) {
        uint4 x[DEPTH];
#pragma unroll
        for (int k = 0; k < DEPTH; k++) x[k] = i + k * step < whole ? load16(p.x + (i + k * step) * 16) : make_uint4(0, 0, 0, 0);
#pragma unroll
        for (int k = 0; k < DEPTH; k++) {
            Lanes<BITS> before = lanes;
            bool odd = false;
            lanes.take(f, x[k], odd);
            if (odd && i + k * step < whole) {
                lanes = before;
                for (int v = 0; v < PER; v++) {
                    const u8 *at = p.x + (i + k * step) * 16 + v * (BITS / 8);
                    u64 bits = 0;
                    for (int b = BITS / 8 - 1; b >= 0; b--) bits = bits << 8 | at[b];
                    const double y = visit(s, p.dtype, bits);
                    largest = y > largest ? y : largest;
                }
            }
        }
    }
    // The rest, at most PER - 1 elements.
    for (u64 i = whole * PER + (u64)blockIdx.x * blockDim.x + threadIdx.x; i < p.n; i += step) {
        u64 bits = 0;
        for (int b = BITS / 8 - 1; b >= 0; b--) bits = bits << 8 | p.x[i * (BITS / 8) + b];
        const double y = visit(s, p.dtype, bits);
        largest = y > largest ? y : largest;
    }
    const u64 top = lanes.largest();
    double y = 0;
    if (!f.integer) y = value_of(p.dtype, top);
    else if (BITS == 8) y = (double)(top >> 8);
    else y = (double)top;
    // e8m0 has no zero: "nothing seen" must not count as its least number.
    if (p.dtype == F8E8M0 && whole == 0) y = 0;
    end(p, s, y > largest ? y : largest);
}

extern "C" __global__ void __launch_bounds__(512) reduce_max_8(MaxParams p) { reduce<8>(p); }
extern "C" __global__ void __launch_bounds__(512) reduce_max_16(MaxParams p) { reduce<16>(p); }
extern "C" __global__ void __launch_bounds__(512) reduce_max_32(MaxParams p) { reduce<32>(p); }
extern "C" __global__ void __launch_bounds__(512) reduce_max_64(MaxParams p) { reduce<64>(p); }

// Any format and layout, element by element.
extern "C" __global__ void __launch_bounds__(512) reduce_max_any(MaxParams p) {
    __shared__ MaxShared s;
    begin(s);
    double largest = 0;
    const Format f = format_of(p.dtype);
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < p.n; i += (u64)gridDim.x * blockDim.x) {
        i64 at = p.offset;
        if (p.rank == 0) at += (i64)i;
        u64 rest = i;
        for (u32 d = p.rank; d-- > 0;) {
            at += (i64)(rest % p.extents[d]) * p.strides[d];
            rest /= p.extents[d];
        }
        u64 bits = 0;
        if (f.bits < 8) bits = p.x[at >> 1] >> (4 * (at & 1)) & 0xf;
        else
            for (int b = (int)f.bits / 8 - 1; b >= 0; b--) bits = bits << 8 | p.x[at * (f.bits / 8) + b];
        const double y = visit(s, p.dtype, bits);
        largest = y > largest ? y : largest;
    }
    end(p, s, largest);
}
