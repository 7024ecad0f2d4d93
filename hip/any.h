// Elements of a tensor whose format and layout are known at run time only.
#pragma once

#include "formats.h"

// Where the element with this logical index lies; rank 0 is dense.
__device__ inline i64 any_place(u64 index, u32 rank, i64 offset, const u64 *extents, const i64 *strides) {
    if (rank == 0) return offset + (i64)index;
    i64 at = offset;
    for (u32 i = rank; i-- > 0;) {
        at += (i64)(index % extents[i]) * strides[i];
        index /= extents[i];
    }
    return at;
}

// Byte by byte: nothing is promised about alignment.
__device__ inline u64 any_load(const u8 *base, u32 dtype, i64 at) {
    const u32 bits = format_at(dtype).bits;
    if (bits == 4) return base[at >> 1] >> (4 * (at & 1)) & 0xf;
    u64 word = 0;
    for (u32 i = bits / 8; i-- > 0;) word = word << 8 | base[at * (bits / 8) + i];
    return word;
}

__device__ inline double any_decode(u32 dtype, u64 bits) {
    const Format f = format_at(dtype);
    if (f.specials == INTEGER) return int_to_f64(f, bits);
    if (dtype == F64) return f64_of(bits);
    if (dtype == F32) return (double)f32_of((u32)bits);
    return (double)decode_small(f, (u32)bits);
}

// The number of an element as N.
template <typename N> __device__ inline N number(u32 dtype, u64 bits) { return (N)any_decode(dtype, bits); }
template <> __device__ inline Whole number<Whole>(u32 dtype, u64 bits) { return decode_whole(format_at(dtype), bits); }

__device__ inline i64 any_place(const AnyTensor &t, u64 index) { return any_place(index, t.rank, t.offset, t.extents, t.strides); }

// Not for formats of less than a byte.
__device__ inline void any_store(u8 *base, u32 dtype, i64 at, u64 word) {
    const u32 bytes = format_at(dtype).bits / 8;
    for (u32 i = 0; i < bytes; ++i) base[at * bytes + i] = (u8)(word >> 8 * i);
}
