// Fill: every generator in every format. `src/fill/params.rs` makes the parameters and says which kernel takes them; results
// equal the host's bit for bit and do not depend on the grid.
//
//   fill_uniform_<dtype>  uniform floats without special values and sparsity, contiguous, not starting inside a byte; the fast one
//   fill_drawn_<bits>     whole, subnormal and normal numbers that take 32 bits of data each, under the same conditions; see fill_drawn.h
//   fill_general          everything but CRAND
//   fill_crand            CRAND
//
// Targets are aligned to their element; those aligned to 16 bytes get 16-byte stores.
#include <hip/hip_runtime.h>
#include "fill_drawn.h"

#define THREADS 256
// For the uniform kernels: threads of a block, and vectors of 16 bytes that each thread makes between two tests of the loop's end.
#define UNIFORM_THREADS 512
#define PER_THREAD 4

__device__ inline u64 grid_thread() { return (u64)blockIdx.x * blockDim.x + threadIdx.x; }
__device__ inline u64 grid_threads() { return (u64)gridDim.x * blockDim.x; }

// Stores the first `bytes` of 16 bytes, at an address aligned to `unit`.
__device__ inline void store_part(u8 *target, u64 low, u64 high, u64 bytes, u32 unit) {
    for (u32 at = 0; at < bytes; at += unit) {
        const u64 word = (at < 8 ? low : high) >> (at % 8 * 8);
        if (unit == 8) *(u64 *)(target + at) = word;
        else if (unit == 4) *(u32 *)(target + at) = (u32)word;
        else if (unit == 2) *(u16 *)(target + at) = (u16)word;
        else target[at] = (u8)word;
    }
}

// Two 16-bit numbers of a finite x and y within the format's range; the first in the low half.
template <u32 DTYPE> __device__ inline u32 encode_pair(float x, float y) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    u32 pair;
    if constexpr (DTYPE == F16) asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(y), "f"(x));
    else asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(y), "f"(x));
    return pair;
#else
    return encode_in_range<DTYPE>(x) | encode_in_range<DTYPE>(y) << 16;
#endif
}

// Whether the GPU has an instruction that encodes the 8-bit format DTYPE.
template <u32 DTYPE> __device__ constexpr bool encodes_bytes() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
    return DTYPE == F8E4M3 || DTYPE == F8E5M2;
#else
    return false;
#endif
}

// As `encode_pair`, two 8-bit numbers. Only where `encodes_bytes`.
template <u32 DTYPE> __device__ inline u32 encode_bytes(float x, float y) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
    u16 pair;
    if constexpr (DTYPE == F8E4M3) asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(y), "f"(x));
    else asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(y), "f"(x));
    return pair;
#else
    return encode_in_range<DTYPE>(x) | encode_in_range<DTYPE>(y) << 8;
#endif
}

// How a uniform number is computed from its draw: by the definition, which includes signs; the same in fewer instructions; and the latter
// without the clamps.
enum : u32 { GENERAL, CLAMPED, INSIDE };

// The shortest form that gives the same numbers. Results increase with the draw, so the first and the last one, u = `least` and
// u = 1 - `least`, tell whether any is clamped.
template <typename REAL> __device__ inline u32 form_of(const FillParams &p, REAL least) {
    const REAL a = (REAL)p.a, b = (REAL)p.b;
    // The product with 2^-16 must be exact.
    if ((p.flags & SIGNED) || b * (REAL)(1.0f / 65536.0f) * (REAL)65536.0f != b) return GENERAL;
    const REAL first = fma(least, b, a), last = fma((REAL)1 - least, b, a);
    return first >= (REAL)p.low && last <= (REAL)p.high ? INSIDE : CLAMPED;
}

// 2^16 u, exactly: 2^23 + draw, made in one instruction, minus (2^23 - 1/2).
__device__ inline float middle_of_16(u32 word, u32 place) {
    return f32_of(place ? (word >> 16) + 0x4b000000u : __byte_perm(word, 0x4b000000u, 0x7410u)) - 8388607.5f;
}

// 2^15 + 2^8 u, exactly, in one instruction.
__device__ inline float middle_of_8(u32 word, u32 place) { return f32_of(__byte_perm(word, 0x47000080u, 0x7504u | place << 4)); }

// Whether a draw of 8 bits needs no subtraction of 2^15: if a - 2^15 b / 2^8 is a float. One of the two differences
// is always exact and therefore decides.
__device__ inline bool shifts_exactly(float a, float b) {
    const double shifted = (double)a - 128.0 * (double)b;
    return (double)(float)shifted == shifted && shifted + 128.0 * (double)b == (double)a && (double)a - shifted == 128.0 * (double)b;
}

// A range in f32, for u as the short forms have it: 2^16 u in formats of 16 bits, 2^15 + 2^8 u in those of 8.
struct Range {
    float a, b, low, high;

    template <u32 FORM> __device__ inline float number(float u) const {
        const float x = fmaf(u, b, a);
        return FORM == INSIDE ? x : clamped(x, low, high);
    }
};

template <u32 DTYPE, u32 FORM> __device__ inline Range range_of(const FillParams &p) {
    constexpr u32 bits = format_of(DTYPE).bits;
    const float a = (float)p.a, b = (float)p.b, low = (float)p.low, high = (float)p.high;
    if constexpr (FORM != GENERAL && bits == 16) return {a, b * (1.0f / 65536.0f), low, high};
    else if constexpr (FORM != GENERAL && bits == 8) return {fmaf(-128.0f, b, a), b * (1.0f / 256.0f), low, high};
    else return {a, b, low, high};
}

// 16 bytes of uniform numbers: vector number high * 2^32 + low. `table` has every result of an 8-bit draw.
template <u32 DTYPE, u32 FORM> __device__ inline uint4 uniform_vector(const FillParams &p, const Range &range, u32 low, u32 high, const u8 *table) {
    constexpr u32 bits = format_of(DTYPE).bits;
    const u32 is_signed = p.flags & SIGNED;
    const u64 vector = (u64)high << 32 | low;
    uint4 out;
    [[maybe_unused]] u32 *o = (u32 *)&out;
    if constexpr (bits == 4) {
        for (u32 half = 0; half < 2; half++) {
            const Words w = block_of(p, 2 * vector + half, DATA);
            for (u32 i = 0; i < 2; i++) {
                u32 word = 0;
                for (u32 k = 0; k < 8; k++) word |= (u32)table[w.w[2 * i + k / 4] >> (k % 4 * 8) & 0xff] << (4 * k);
                o[2 * half + i] = word;
            }
        }
    } else if constexpr (bits == 64) {
        const Words w = block_of(p, vector, DATA);
        u64 x[2];
        for (u32 i = 0; i < 2; i++) {
            const u64 word = half_of(w, i == 1);
            const double u = f64_of(0x3ff0000000000000ull | word >> 12) - (1.0 - 1.0 / 9007199254740992.0);
            if constexpr (FORM == GENERAL) x[i] = bits_of(uniform64(word, is_signed, p.a, p.b, p.low, p.high));
            else if constexpr (FORM == CLAMPED) x[i] = bits_of(clamped(fma(u, p.b, p.a), p.low, p.high));
            else x[i] = bits_of(fma(u, p.b, p.a));
        }
        out = make_uint4((u32)x[0], (u32)(x[0] >> 32), (u32)x[1], (u32)(x[1] >> 32));
    } else {
        const Words w = block_of(p, vector, DATA);
#pragma unroll
        for (u32 i = 0; i < 4; i++) {
            [[maybe_unused]] const auto general = [&](u32 word, u32 width) {
                return uniform32(word, width, is_signed, range.a, range.b, range.low, range.high);
            };
            if constexpr (bits == 32) {
                float x;
                if constexpr (FORM == GENERAL) x = general(w.w[i], 32);
                else x = range.number<FORM>(f32_of(0x3f800000u | w.w[i] >> 9) - (1.0f - 1.0f / 16777216.0f));
                // Within the range, hence finite.
                o[i] = DTYPE == F32 ? bits_of(x) : encode_in_range<DTYPE>(x);
            } else if constexpr (bits == 16 && FORM == GENERAL) {
                o[i] = encode_pair<DTYPE>(general(w.w[i] & 0xffff, 16), general(w.w[i] >> 16, 16));
            } else if constexpr (bits == 16) {
                const float x = range.number<FORM>(middle_of_16(w.w[i], 0)), y = range.number<FORM>(middle_of_16(w.w[i], 1));
                o[i] = encode_pair<DTYPE>(x, y);
            } else if constexpr (FORM != GENERAL) {
                float x[4];
#pragma unroll
                for (u32 k = 0; k < 4; k++) x[k] = range.number<FORM>(middle_of_8(w.w[i], k));
                o[i] = encode_bytes<DTYPE>(x[0], x[1]) | encode_bytes<DTYPE>(x[2], x[3]) << 16;
            } else {
                u32 word = 0;
                for (u32 k = 0; k < 4; k++) word |= (u32)table[w.w[i] >> (8 * k) & 0xff] << (8 * k);
                o[i] = word;
            }
        }
    }
    return out;
}

// Fills contiguous elements of `bits` bits with vectors of 16 bytes, in blocks of `threads` threads; `make(low, high)` makes vector number
// high * 2^32 + low.
template <u32 bits, u32 threads, u32 per_thread, typename MAKE> __device__ inline void fill_vectors(const FillParams &p, u8 *target, const MAKE &make) {
    constexpr u32 unit = bits < 8 ? 1 : bits / 8;
    constexpr u32 tile_vectors = threads * per_thread;
    u8 *start = target + p.offset * bits / 8;
    const u64 bytes = (p.count * bits + 7) / 8;
    // The vectors that take whole stores are made in tiles without a test of the end, except if a thread makes a single vector, which takes so long that the test costs nothing in comparison. All vectors of a tile have
    // the same upper half of their numbers, and therefore share most of the first two rounds of Philox.
    const u64 whole = (u64)start % 16 == 0 ? (bits > 4 ? bytes / 16 : p.count / 32) : 0;
    const u64 tiles = per_thread == 1 ? 0 : whole / tile_vectors;
    for (u64 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const u64 first = tile * tile_vectors;
        const u32 low = (u32)first + threadIdx.x, high = (u32)(first >> 32);
        uint4 *at = (uint4 *)start + first + threadIdx.x;
#pragma unroll
        for (u32 k = 0; k < per_thread; k++) at[k * threads] = make(low + k * threads, high);
    }
    for (u64 vector = tiles * tile_vectors + grid_thread(); vector < (bytes + 15) / 16; vector += grid_threads()) {
        const uint4 out = make((u32)vector, (u32)(vector >> 32));
        if (vector < whole) {
            ((uint4 *)start)[vector] = out;
            continue;
        }
        const u64 low = (u64)out.y << 32 | out.x, high = (u64)out.w << 32 | out.z;
        u64 here = bytes - vector * 16;
        here = here > 16 ? 16 : here;
        if (bits == 4 && vector * 32 + here * 2 > p.count) {
            // The last byte is shared with an element that must not change.
            here -= 1;
            store(start, 4, p.count - 1, (here < 8 ? low : high) >> (here % 8 * 8) & 0xf);
        }
        store_part(start + vector * 16, low, high, here, unit);
    }
}

template <u32 DTYPE, u32 FORM> __device__ inline void fill_form(const FillParams &p, u8 *target, const u8 *table) {
    const Range range = range_of<DTYPE, FORM>(p);
    fill_vectors<format_of(DTYPE).bits, UNIFORM_THREADS, PER_THREAD>(p, target, [&](u32 low, u32 high) { return uniform_vector<DTYPE, FORM>(p, range, low, high, table); });
}

template <u32 DTYPE> __device__ inline void fill_uniform(const FillParams &p, u8 *target) {
    constexpr u32 bits = format_of(DTYPE).bits;
    if constexpr (bits <= 8) {
        if constexpr (encodes_bytes<DTYPE>()) {
            if (form_of(p, 1.0f / 512.0f) == INSIDE && shifts_exactly((float)p.a, (float)p.b)) {
                return fill_form<DTYPE, INSIDE>(p, target, nullptr);
            }
        }
        __shared__ u8 table[256];
        for (u32 i = threadIdx.x; i < 256; i += blockDim.x) {
            const float x = uniform32(i, 8, p.flags & SIGNED, (float)p.a, (float)p.b, (float)p.low, (float)p.high);
            table[i] = (u8)encode_from_f32<DTYPE>(x);
        }
        __syncthreads();
        fill_form<DTYPE, GENERAL>(p, target, table);
    } else {
        u32 form;
        if constexpr (bits == 64) form = form_of(p, 1.0 / 9007199254740992.0);
        else form = form_of(p, bits == 32 ? 1.0f / 16777216.0f : 1.0f / 131072.0f);
        if (form == INSIDE) fill_form<DTYPE, INSIDE>(p, target, nullptr);
        else if (form == CLAMPED) fill_form<DTYPE, CLAMPED>(p, target, nullptr);
        else fill_form<DTYPE, GENERAL>(p, target, nullptr);
    }
}

// Every launch has UNIFORM_THREADS threads in a block.
#define UNIFORM_KERNEL(name, dtype) \
    extern "C" __global__ void __launch_bounds__(UNIFORM_THREADS) fill_uniform_##name(Fill fill) { fill_uniform<dtype>(fill.params, fill.target); }

UNIFORM_KERNEL(f64, F64)
UNIFORM_KERNEL(f32, F32)
UNIFORM_KERNEL(tf32, TF32)
UNIFORM_KERNEL(f16, F16)
UNIFORM_KERNEL(bf16, BF16)
UNIFORM_KERNEL(f8e4m3, F8E4M3)
UNIFORM_KERNEL(f8e5m2, F8E5M2)
UNIFORM_KERNEL(f8e4m3fnuz, F8E4M3FNUZ)
UNIFORM_KERNEL(f8e5m2fnuz, F8E5M2FNUZ)
UNIFORM_KERNEL(f6e2m3, F6E2M3)
UNIFORM_KERNEL(f6e3m2, F6E3M2)
UNIFORM_KERNEL(f4e2m1, F4E2M1)
UNIFORM_KERNEL(f8e8m0, F8E8M0)

template <u32 BITS, u32 DTYPE, bool IS_NORMAL> __device__ inline void fill_drawn_as(const FillParams &p, u8 *target) {
    const Drawn drawn = drawn_of(p);
    const auto make = [&](u32 low, u32 high) { return drawn_vector<BITS, DTYPE, IS_NORMAL>(p, drawn, (u64)high << 32 | low); };
    fill_vectors<BITS, THREADS, BITS == 32 ? 2 : 1>(p, target, make);
}

template <u32 BITS, u32 DTYPE> __device__ inline void fill_drawn(const FillParams &p, u8 *target) {
    if (p.kind != NORMAL) fill_drawn_as<BITS, DTYPE, false>(p, target);
    // Normal numbers of wide integers are computed in f64, by `fill_general`.
    else if constexpr (BITS < 32 || DTYPE != ANY_INTEGER) fill_drawn_as<BITS, DTYPE, true>(p, target);
}

// Which of three kinds the format is.
template <u32 BITS, u32 FIRST, u32 SECOND> __device__ inline void fill_drawn_either(const Fill &fill) {
    const FillParams &p = fill.params;
    if (format_at(p.dtype).specials == INTEGER) return fill_drawn<BITS, ANY_INTEGER>(p, fill.target);
    if constexpr (FIRST != SECOND) {
        if (p.dtype == FIRST) return fill_drawn<BITS, FIRST>(p, fill.target);
    }
    fill_drawn<BITS, SECOND>(p, fill.target);
}

#define DRAWN_KERNEL(bits, first, second) \
    extern "C" __global__ void __launch_bounds__(THREADS) fill_drawn_##bits(Fill fill) { fill_drawn_either<bits, first, second>(fill); }

DRAWN_KERNEL(32, FLOAT_32, FLOAT_32)
DRAWN_KERNEL(16, F16, BF16)
DRAWN_KERNEL(8, SMALL_FLOAT, SMALL_FLOAT)
DRAWN_KERNEL(4, SMALL_FLOAT, SMALL_FLOAT)

__device__ inline u64 any_element(const FillParams &p, Format f, u64 index, Source &source) {
    u64 bits;
    return overlaid(p, f, index, bits) ? bits : plain_element(p, f, index, source);
}

// Elements `from` and following, packed.
__device__ inline void any_elements(const FillParams &p, Format f, u64 from, u32 elements, Source &source, u64 (&half)[2]) {
    u64 low = 0, high = 0;
#pragma unroll 1
    for (u32 i = 0; i < elements; i++) {
        const u64 bits = any_element(p, f, from + i, source);
        const u32 at = i * f.bits;
        if (at < 64) low |= bits << at;
        else high |= bits << (at - 64);
    }
    half[0] = low, half[1] = high;
}

// The generators are long and therefore in the code once. A unit of work is a vector of 16 bytes, or a single element if that lies apart or shares its
// byte with an element that must not change.
extern "C" __global__ void __launch_bounds__(THREADS) fill_general(Fill fill) {
    const FillParams &p = fill.params;
    u8 *const target = fill.target;
    const Format f = format_at(p.dtype);
    const bool contiguous = p.flags & CONTIGUOUS;
    Source source;
    source.valid = false;
    source.index = 0;
    // Packed: the first element may be the second of its byte, and the last the first of one.
    const u64 head = contiguous && f.bits == 4 ? p.offset & 1 : 0;
    const u64 body = !contiguous ? 0 : f.bits == 4 ? (p.count - head) / 2 * 2 : p.count;
    u8 *start = target + (p.offset + head) * f.bits / 8;
    const u64 bytes = body * f.bits / 8, vectors = (bytes + 15) / 16;
    const u32 per_vector = 128 / f.bits;
    const bool aligned = (u64)start % 16 == 0;
    for (u64 unit = grid_thread(); unit < vectors + (p.count - body); unit += grid_threads()) {
        const bool single = unit >= vectors;
        u64 from = head + unit * per_vector, here = bytes - unit * 16, at = 0, half[2];
        here = here > 16 ? 16 : here;
        if (single) {
            from = unit - vectors;
            if (contiguous && from >= head) from = p.count - 1;
            at = place_of(p, from);
            if ((p.flags & (EVEN | ODD)) && ((p.flags & ODD) != 0) != (at & 1)) continue;
        }
        any_elements(p, f, from, single ? 1 : (u32)here * 8 / f.bits, source, half);
        const u64 low = half[0], high = half[1];
        if (single) store(target, f.bits, at, low);
        else if (aligned && here == 16) *(uint4 *)(start + unit * 16) = make_uint4((u32)low, (u32)(low >> 32), (u32)high, (u32)(high >> 32));
        else store_part(start + unit * 16, low, high, here, f.bits < 8 ? 1 : f.bits / 8);
    }
}

// The C library's generator; see `src/fill/crand.rs`. One block makes CRAND_RUN outputs: it jumps to its position by
// x^n modulo x^31 - x^28 - 1, then steps 30 numbers at a time, since
// r(i) = r(i-31) + r(i-34) + ... + r(i-58) + r(i-30) reaches back at least 30.
enum : u32 { CRAND_RUN = 1u << 14, CRAND_SKIP = 341, CRAND_STEP = 30, CRAND_RING = 128 };

__device__ inline u64 crand_element(const FillParams &p, Format f, u32 output) {
    const float x = (float)(p.b * (double)output / 2147483647.0) + (float)p.a;
    return encode_any(f, (double)x, f.bits < 32 || p.dtype == TF32, true);
}

extern "C" __global__ void __launch_bounds__(64) fill_crand(FillCrand fill) {
    const FillParams &p = fill.params;
    __shared__ u32 power[CRAND_ORDER];
    __shared__ u32 square[2 * CRAND_ORDER];
    __shared__ u32 ring[CRAND_RING];
    const Format f = format_at(p.dtype);
    const u32 lane = threadIdx.x;
    for (u64 run = blockIdx.x; run * CRAND_RUN < p.count; run += gridDim.x) {
        const u64 from = run * CRAND_RUN;
        // The ring's first 62 numbers are those before output `from`, or those from the start.
        const u64 n = CRAND_SKIP + from - 2 * CRAND_ORDER;
        if (lane < CRAND_ORDER) power[lane] = lane == 0;
        __syncthreads();
        for (u32 bit = 64 - (u32)__clzll((i64)n); bit-- > 0;) {
            // Thread k makes the coefficient of x^k of the square, shifted by one where n has a bit.
            const u32 shift = (u32)(n >> bit & 1);
            if (lane < 2 * CRAND_ORDER) {
                u32 sum = 0;
                // An index below zero wraps around and is too large.
#pragma unroll 1
                for (u32 i = 0; i < CRAND_ORDER; i++) {
                    const u32 j = lane - shift - i;
                    sum += power[i] * (j < CRAND_ORDER ? power[j] : 0);
                }
                square[lane] = sum;
            }
            __syncthreads();
            if (lane == 0) {
#pragma unroll 1
                for (u32 k = 2 * CRAND_ORDER; k-- > CRAND_ORDER;) {
                    square[k - 3] += square[k];
                    square[k - CRAND_ORDER] += square[k];
                }
            }
            __syncthreads();
            if (lane < CRAND_ORDER) power[lane] = square[lane];
            __syncthreads();
        }
        if (lane == 0) {
            // Three runs: the numbers from the start, then the window n ahead, then what follows it.
            for (u32 i = 0; i < CRAND_ORDER; i++) square[i] = fill.first[i];
            for (u32 i = CRAND_ORDER; i < 2 * CRAND_ORDER; i++) square[i] = square[i - 3] + square[i - CRAND_ORDER];
        }
        __syncthreads();
        if (lane < CRAND_ORDER) {
            u32 sum = 0;
            for (u32 t = 0; t < CRAND_ORDER; t++) sum += power[t] * square[t + lane];
            ring[lane] = sum;
        }
        __syncthreads();
        if (lane == 0) {
            for (u32 i = CRAND_ORDER; i < 2 * CRAND_ORDER; i++) ring[i] = ring[i - 3] + ring[i - CRAND_ORDER];
        }
        __syncthreads();
        const u64 left = p.count - from;
        const u32 here = left < CRAND_RUN ? (u32)left : CRAND_RUN;
        for (u32 done = 0; done < here; done += CRAND_STEP) {
            const u32 at = 2 * CRAND_ORDER + done + lane;
            u32 value = 0;
            if (lane < CRAND_STEP) {
                value = ring[(at - 30) % CRAND_RING];
                for (u32 t = 31; t <= 58; t += 3) value += ring[(at - t) % CRAND_RING];
                ring[at % CRAND_RING] = value;
            }
            if (lane < CRAND_STEP && done + lane < here) {
                const u64 index = from + done + lane;
                const u64 place = place_of(p, index);
                if (!(p.flags & (EVEN | ODD)) || ((p.flags & ODD) != 0) == (place & 1)) {
                    u64 bits;
                    if (!overlaid(p, f, index, bits)) bits = crand_element(p, f, value >> 1);
                    store(fill.target, f.bits, place, bits);
                }
            }
            __syncthreads();
        }
    }
}
