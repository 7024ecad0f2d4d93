// Where the elements of an operand lie, and how E of them are loaded.
//
//   rows      dense along the innermost dimension, as all of a dense tensor is: by vectors of up to 16 bytes, or by words of 4 that are shifted together
//   strided   the elements of a row at equal distances: one load each
//   others    E elements in more rows than they have pieces, or at the end of the tensor: one after the other
#pragma once
#include "platform.h"
#include "verify/decode.h"

// E elements, in PIECES that lie apart. W words hold them at the width of the arithmetic.
template <u32 KIND, int E, int W, int PIECES> struct Operand {
    enum { N = E / PIECES, WORDS = W / PIECES };
    const VerifyOperand &p;
    Decoder<KIND> decoder;
    __device__ explicit Operand(const VerifyOperand &p_) : p(p_), decoder(p_.dtype) {}

    // A row: element i lies `shift` + i x `inner` elements from the base, and N elements that end at `end` or before are loaded at once.
    struct Row {
        u64 end;
        i64 shift;
    };
    // That of an element of n.
    __device__ Row row_of(u64 index, u64 n) const {
        const u32 bits = decoder.bits;
        u64 left;
        const i64 shift = offset(index, n, left) - (i64)index * p.inner;
        const u64 end = index + left;
        if (p.inner != 1) return {bits >= 8 && p.align >= bits / 8 ? end : 0, shift};
        if (vectors()) return {end, shift};
        // Words: one more than the elements take.
        const i64 safe = (p.end - p.base) * 8 / (i64)bits - 64 / bits - shift;
        return {safe < (i64)end ? (u64)(safe > 0 ? safe : 0) : end, shift};
    }

    // Whether every row is dense, and as aligned as N elements are large, up to 16 bytes.
    __device__ bool vectors() const {
        const u32 bytes = N * decoder.bits / 8;
        return p.inner == 1 && decoder.bits >= 8 && p.align >= (bytes < 16 ? bytes : 16);
    }

    // The elements of such a row from `index` on, and of its second piece from `index + apart` on.
    __device__ void load_vectors(u64 index, u32 apart, i64 shift, u32 (&w)[W]) const {
        const u8 *at = p.base + (i64)(index + shift) * (i64)(decoder.bits / 8);
#pragma unroll
        for (int k = 0; k < PIECES; k++) aligned(at + k * apart * decoder.bits / 8, w, k * WORDS);
    }
    // Those of any row.
    __device__ void load(u64 index, u32 apart, i64 shift, u32 (&w)[W]) const {
#pragma unroll
        for (int k = 0; k < PIECES; k++) load(shift + (i64)(index + k * apart) * p.inner, w, k * WORDS);
    }
    // Those of any rows; 0 stands for elements from n on. Returns the row that the last piece begins in.
    __device__ Row load_any(u64 index, u32 apart, u64 n, u32 (&w)[W]) const {
        Row row = {0, 0};
#pragma unroll
        for (u32 k = 0; k < PIECES; k++) {
            const u64 first = index + k * apart;
            u32 piece[WORDS];
#pragma unroll
            for (int i = 0; i < WORDS; i++) piece[i] = 0;
            if (first < n) {
                row = row_of(first, n);
                if (first + N <= row.end) load(row.shift + (i64)first * p.inner, piece, 0);
                else one_by_one(first, n, piece);
            }
#pragma unroll
            for (u32 i = 0; i < W; i++) w[i] = i / WORDS == k ? piece[i % WORDS] : w[i];
        }
        return row;
    }

    // The place, from the base, of an element of n, and how many are left from there to the end of its row.
    __device__ i64 offset(u64 index, u64 n, u64 &left) const {
        left = n - index;
        if (p.rank == 0) return p.offset + (i64)index;
        i64 at = p.offset;
#pragma unroll 1
        for (u32 d = p.rank; d-- > 0;) {
            // The reciprocal is rounded up: the quotient may be 1 too large.
            u64 quotient = __umul64hi(index, p.reciprocals[d]), rest = index - quotient * p.extents[d];
            if ((i64)rest < 0) quotient -= 1, rest += p.extents[d];
            at += (i64)rest * p.strides[d];
            if (d + 1 == p.rank) left = p.extents[d] - rest;
            index = quotient;
        }
        return at;
    }
    // N elements that lie together, at an address that is aligned to as many bytes, at most 16.
    template <int M> __device__ void aligned(const u8 *at, u32 (&w)[M], int to) const {
        switch (N * decoder.bits / 8) {
        case 2: w[to] = *(const u16 *)at; break;
        case 4: w[to] = *(const u32 *)at; break;
        case 8: {
            const uint2 x = *(const uint2 *)at;
            w[to] = x.x, w[to + 1] = x.y;
            break;
        }
        case 16: vector(at, w, to); break;
        default:
            vector(at, w, to);
            if constexpr (WORDS > 4) vector(at + 16, w, to + 4);
        }
    }
    template <int M> static __device__ void vector(const u8 *at, u32 (&w)[M], int to) {
        const uint4 x = load16(at);
        w[to] = x.x, w[to + 1] = x.y, w[to + 2] = x.z, w[to + 3] = x.w;
    }

    // N elements of a row, from the first's place on.
    template <int M> __device__ void load(i64 first, u32 (&w)[M], int to) const { p.inner == 1 ? together(first, w, to) : strided(first, w, to); }
    template <int M> __device__ void together(i64 first, u32 (&w)[M], int to) const {
        const u32 bits = N * decoder.bits;
        if (vectors()) {
            aligned(p.base + first * (i64)(decoder.bits / 8), w, to);
            return;
        }
        if (p.align >= 4 && bits >= 32) {
            const u32 *at = (const u32 *)(p.base + first * (i64)decoder.bits / 8);
#pragma unroll
            for (u32 i = 0; i < WORDS; i++)
                if (32 * i < bits) w[to + i] = at[i];
            return;
        }
        const u64 place = (u64)p.base * 8 + (u64)(first * (i64)decoder.bits);
        const u32 *at = (const u32 *)(place / 32 * 4), shift = place % 32;
        u32 low = *at;
#pragma unroll
        for (u32 i = 0; i < WORDS; i++) {
            if (32 * i >= bits) break;
            const u32 high = at[i + 1];
            w[to + i] = (u32)(((u64)high << 32 | low) >> shift);
            low = high;
        }
    }

    // N elements of a row whose elements are `inner` apart.
    template <int M> __device__ void strided(i64 first, u32 (&w)[M], int to) const {
        const u32 bits = decoder.bits;
        const u8 *at = p.base + first * (i64)(bits / 8);
        const i64 step = p.inner * (i64)(bits / 8);
        if constexpr (Decoder<KIND>::MOST >= 64)
            if (bits == 64) {
#pragma unroll
                for (u32 e = 0; e < N; e++) {
                    const uint2 x = *(const uint2 *)(at + e * step);
                    w[to + 2 * e] = x.x, w[to + 2 * e + 1] = x.y;
                }
            }
        if constexpr (Decoder<KIND>::MOST >= 32 && Decoder<KIND>::LEAST <= 32)
            if (bits == 32) {
#pragma unroll
                for (u32 e = 0; e < N; e++) w[to + e] = *(const u32 *)(at + e * step);
            }
        if constexpr (Decoder<KIND>::MOST >= 16 && Decoder<KIND>::LEAST <= 16)
            if (bits == 16) {
#pragma unroll
                for (u32 e = 0; e < N; e += 2) w[to + e / 2] = *(const u16 *)(at + e * step) | (u32)*(const u16 *)(at + (e + 1) * step) << 16;
            }
        if constexpr (Decoder<KIND>::LEAST <= 8)
            if (bits == 8) {
#pragma unroll
                for (u32 e = 0; e < N; e += 4) {
                    u32 x = 0;
#pragma unroll
                    for (u32 i = 0; i < 4 && e + i < N; i++) x |= (u32)at[(e + i) * step] << (8 * i);
                    w[to + e / 4] = x;
                }
            }
    }

    // N elements from anywhere, at their places in the words.
    __device__ void one_by_one(u64 index, u64 n, u32 (&w)[WORDS]) const {
        const u32 bits = decoder.bits;
#pragma unroll 1
        for (u32 e = 0; e < N; e++) {
            if (index + e >= n) break;
            const u64 x = bits_at(index + e);
            const u32 bit = e * bits;
#pragma unroll
            for (u32 k = 0; k < WORDS; k++) {
                if (bits == 64) w[k] |= k / 2 == e ? (u32)(x >> (k % 2 * 32)) : 0;
                else w[k] |= k == bit / 32 ? (u32)x << (bit % 32) : 0;
            }
        }
    }

    __device__ u64 bits_at(u64 index) const {
        u64 left;
        return element(offset(index, index + 1, left));
    }

    // The bits of the element at a place.
    __device__ u64 element(i64 at) const {
        if (decoder.bits == 4) return p.base[at >> 1] >> (4 * (at & 1)) & 0xf;
        const u32 size = decoder.bits / 8;
        const u8 *from = p.base + at * size;
        if (p.align >= size) {
            if (size == 8) return *(const u64 *)from;
            if (size == 4) return *(const u32 *)from;
            if (size == 2) return *(const u16 *)from;
        }
        u64 x = 0;
#pragma unroll 1
        for (u32 i = size; i-- > 0;) x = x << 8 | from[i];
        return x;
    }
};
