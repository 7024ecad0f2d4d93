// The largest magnitude of a tensor, with counts of NaN and infinities: bit for bit what `gpu_reduce_max` computes on the host.
//
// Dense tensors are reduced as patterns: the magnitude bits of a float format are ordered as its numbers are, with infinities and
// NaN on top. So integer maxima decide, and one check per load finds values that are not finite.
#include <hip/hip_runtime.h>
#include "any.h"
#include "platform.h"
#include "warp.h"

// The word for patterns.
template <bool LONG> struct WordOf { typedef u32 word; };
template <> struct WordOf<true> { typedef u64 word; };

// The description of a format, for patterns of at most 64 bits.
struct Patterns {
    u64 magnitude; // bits that order numbers of one sign
    u64 special;   // least magnitude that is not finite; ~0 when there is none
    u64 nan;       // fnuz: the pattern that is NaN; ~0 when there is none
    bool integer;
};

__device__ inline Patterns patterns_of(u32 dtype) {
    const Format f = format_at(dtype);
    Patterns p = {0, ~0ull, ~0ull, f.specials == INTEGER};
    if (p.integer) return p;
    p.magnitude = ((1ull << (f.exponent_bits + f.mantissa_bits)) - 1) << f.pad_bits;
    if (f.specials == IEEE) p.special = (((1ull << f.exponent_bits) - 1) << f.mantissa_bits) << f.pad_bits;
    if (f.specials == SINGLE_NAN || f.specials == E8M0) p.special = p.magnitude;
    if (f.specials == NEGATIVE_ZERO_NAN) p.nan = 1ull << (f.exponent_bits + f.mantissa_bits);
    return p;
}

struct MaxShared {
    u64 largest, nans, infinities;
    u32 last;
};

// One element that may be anything.
__device__ inline double take_element(MaxShared &s, u32 dtype, u64 bits) {
    const double x = fabs(any_decode(dtype, bits));
    if (x != x) atomicAdd(&s.nans, 1ull);
    else if (x > 1.7976931348623157e308) atomicAdd(&s.infinities, 1ull);
    else return x;
    return 0;
}

__device__ inline void end(const MaxParams &p, MaxShared &s, double largest) {
    const u64 bits = subgroup_max(bits_of(largest));
    if (lane_of() == 0 && bits) atomicMax(&s.largest, bits);
    __syncthreads();
    MaxWorkspace &w = *p.workspace;
    if (threadIdx.x == 0) {
        if (s.largest) atomicMax(&w.largest, s.largest);
        if (s.nans) atomicAdd(&w.nans, s.nans);
        if (s.infinities) atomicAdd(&w.infinities, s.infinities);
    }
    if (last_block(w.blocks_done, s.last) && threadIdx.x == 0) {
        p.result->largest = f64_of(atomicExch(&w.largest, 0ull));
        p.result->nans = atomicExch(&w.nans, 0ull);
        p.result->infinities = atomicExch(&w.infinities, 0ull);
        w.blocks_done = 0;
    }
}

__device__ inline void begin(MaxShared &s) {
    if (threadIdx.x == 0) s.largest = s.nans = s.infinities = 0;
    __syncthreads();
}

// How patterns are ordered: floats by their magnitude bits (fnuz floats too, except for the pattern that is NaN), integers by value.
enum Order { MAGNITUDE, FNUZ, SIGNED_INTEGERS, UNSIGNED_INTEGERS };

// Two 16-bit lanes in a word.
#if defined(__CUDACC__)
__device__ inline u32 max2(u32 a, u32 b) { return __vmaxu2(a, b); }
__device__ inline u32 most2(u32 a, u32 b) { return __vmaxs2(a, b); }
__device__ inline u32 least2(u32 a, u32 b) { return __vmins2(a, b); }
#else
typedef VECTOR(u16, 2) Unsigned2;
typedef VECTOR(short, 2) Signed2;
template <typename V> __device__ inline V as(u32 x) { return __builtin_bit_cast(V, x); }
__device__ inline u32 max2(u32 a, u32 b) { return __builtin_bit_cast(u32, __builtin_elementwise_max(as<Unsigned2>(a), as<Unsigned2>(b))); }
__device__ inline u32 most2(u32 a, u32 b) { return __builtin_bit_cast(u32, __builtin_elementwise_max(as<Signed2>(a), as<Signed2>(b))); }
__device__ inline u32 least2(u32 a, u32 b) { return __builtin_bit_cast(u32, __builtin_elementwise_min(as<Signed2>(a), as<Signed2>(b))); }
#endif
__device__ inline u32 larger_half(u32 x) { return x >> 16 > (x & 0xffff) ? x >> 16 : x & 0xffff; }

// The extremes of patterns of BITS bits, in words of their size or, if they are short, two to a word. `low` serves signed integers.
template <int BITS, Order ORDER> struct Lanes {
    typedef typename WordOf<BITS == 64>::word Word;
    Word top, low;
    bool nan;
    __device__ void clear() { top = low = 0, nan = false; }
    __device__ void one(Word x, Word mask) {
        if constexpr (ORDER == SIGNED_INTEGERS) {
            // |least| exceeds the largest by one: unsigned words hold it.
            const Word m = (x >> (BITS - 1)) ? 0 - x : x;
            top = m > top ? m : top;
        } else {
            const Word m = ORDER == UNSIGNED_INTEGERS ? x : x & mask;
            top = m > top ? m : top;
        }
    }
    // Two elements of 16 bits, or the upper bytes of two halves.
    __device__ void two(u32 x, u32 mask) {
        if constexpr (ORDER == SIGNED_INTEGERS) top = most2((u32)top, x), low = least2((u32)low, x);
        else if constexpr (ORDER == UNSIGNED_INTEGERS) top = max2((u32)top, x);
        else top = max2((u32)top, x & mask);
    }
    __device__ void take(uint4 x, Word mask) {
        if constexpr (BITS == 64) {
            one(x.x | (u64)x.y << 32, mask), one(x.z | (u64)x.w << 32, mask);
        } else if constexpr (BITS == 32) {
            one(x.x, mask), one(x.y, mask), one(x.z, mask), one(x.w, mask);
        } else {
            const u32 words[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const u32 w = words[i];
                if constexpr (BITS == 16) two(w, mask);
                else if constexpr (ORDER == SIGNED_INTEGERS || ORDER == UNSIGNED_INTEGERS) {
                    two(w & 0xff00ff00u, mask), two(w << 8 & 0xff00ff00u, mask);
                } else {
                    // Bytes in the lower halves.
                    two(w, mask), two(w >> 8, mask);
                    if constexpr (ORDER == FNUZ) {
                        // A byte of 0x80 becomes zero, and only a zero byte borrows from its top bit.
                        const u32 zero = w ^ 0x80808080u;
                        nan |= ((zero - 0x01010101u) & ~zero & 0x80808080u) != 0;
                    }
                }
            }
        }
    }
    // Whether a magnitude is above `limit`, or a pattern NaN.
    __device__ bool odd(Word limit) const {
        if constexpr (ORDER == SIGNED_INTEGERS || ORDER == UNSIGNED_INTEGERS) return false;
        else if constexpr (BITS >= 32) return top > limit;
        else return max2((u32)top, (u32)limit) != (u32)limit || nan;
    }
    __device__ void join(const Lanes &x) {
        if constexpr (BITS >= 32) top = x.top > top ? x.top : top;
        else if constexpr (ORDER == SIGNED_INTEGERS) top = most2((u32)top, (u32)x.top), low = least2((u32)low, (u32)x.low);
        else top = max2((u32)top, (u32)x.top);
    }
    // The largest magnitude, as a pattern or as an integer.
    __device__ u64 largest() const {
        if constexpr (BITS >= 32) return top;
        else if constexpr (ORDER == SIGNED_INTEGERS) {
            // Nothing is above 0 in `low` and below it in `top`.
            const u32 down = larger_half(((0 - low) & 0xffff) | ((0 - (low >> 16)) << 16)), up = larger_half((u32)top);
            return (down > up ? down : up) >> (BITS == 8 ? 8 : 0);
        } else return larger_half((u32)top) >> (BITS == 8 && ORDER == UNSIGNED_INTEGERS ? 8 : 0);
    }
};

template <int BITS, Order ORDER> __device__ inline void reduce(const MaxParams &p, MaxShared &s) {
    enum { PER = 128 / BITS, DEPTH = 4 };
    typedef Lanes<BITS, ORDER> Of;
    const Patterns f = patterns_of(p.tensor.dtype);
    const u32 copies = BITS < 32 ? 0x10001u : 1;
    const typename Of::Word mask = (typename Of::Word)f.magnitude * copies;
    // Everything up to here is finite.
    const typename Of::Word limit = (f.special == ~0ull ? (typename Of::Word)f.magnitude : (typename Of::Word)f.special - 1) * copies;
    Of all;
    all.clear();
    bool seen = false;
    double largest = 0;
    // A tile is DEPTH loads of every thread of a block, each row of them contiguous.
    const u64 whole = p.n / PER, tile = (u64)blockDim.x * DEPTH, tiles = whole / tile;
    for (u64 t = blockIdx.x; t < tiles; t += gridDim.x) {
        const u64 first = t * tile + threadIdx.x;
        uint4 x[DEPTH];
#pragma unroll
        for (int k = 0; k < DEPTH; k++) x[k] = load16(p.x + (first + (u64)k * blockDim.x) * 16);
        Of some;
        some.clear();
#pragma unroll
        for (int k = 0; k < DEPTH; k++) some.take(x[k], mask);
        if (!some.odd(limit)) {
            all.join(some);
            seen = true;
            continue;
        }
#pragma unroll 1
        for (u32 v = 0; v < DEPTH * PER; v++) {
            const double y = take_element(s, p.tensor.dtype, any_load(p.x, p.tensor.dtype, (i64)((first + (u64)(v / PER) * blockDim.x) * PER + v % PER)));
            largest = y > largest ? y : largest;
        }
    }
    // The rest, which is less than a tile.
    for (u64 i = tiles * tile * PER + (u64)blockIdx.x * blockDim.x + threadIdx.x; i < p.n; i += (u64)gridDim.x * blockDim.x) {
        const double y = take_element(s, p.tensor.dtype, any_load(p.x, p.tensor.dtype, (i64)i));
        largest = y > largest ? y : largest;
    }
    // Only values that occurred: e8m0 has no zero to begin with.
    double y = 0;
    if (seen) y = ORDER == SIGNED_INTEGERS ? (double)all.largest() : any_decode(p.tensor.dtype, all.largest());
    end(p, s, y > largest ? y : largest);
}

template <int BITS> __device__ inline void reduce(const MaxParams &p) {
    __shared__ MaxShared s;
    begin(s);
    const Format f = format_at(p.tensor.dtype);
    if (f.specials == INTEGER && f.mantissa_bits) reduce<BITS, SIGNED_INTEGERS>(p, s);
    else if (f.specials == INTEGER) reduce<BITS, UNSIGNED_INTEGERS>(p, s);
    else if (BITS == 8 && f.specials == NEGATIVE_ZERO_NAN) reduce<BITS, FNUZ>(p, s);
    else reduce<BITS, MAGNITUDE>(p, s);
}

// Registers for all loads of a tile at once: with the largest number of threads on a processor there would be too few.
extern "C" __global__ void BOUNDS(512, 3) reduce_max_8(MaxParams p) { reduce<8>(p); }
extern "C" __global__ void __launch_bounds__(512) reduce_max_16(MaxParams p) { reduce<16>(p); }
extern "C" __global__ void __launch_bounds__(512) reduce_max_32(MaxParams p) { reduce<32>(p); }
extern "C" __global__ void BOUNDS(512, 3) reduce_max_64(MaxParams p) { reduce<64>(p); }

// Any format and layout, element by element.
extern "C" __global__ void __launch_bounds__(512) reduce_max_any(MaxParams p) {
    __shared__ MaxShared s;
    begin(s);
    double largest = 0;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < p.n; i += (u64)gridDim.x * blockDim.x) {
        const double y = take_element(s, p.tensor.dtype, any_load(p.x, p.tensor.dtype, any_place(p.tensor, i)));
        largest = y > largest ? y : largest;
    }
    end(p, s, largest);
}
