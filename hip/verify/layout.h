// Where the elements of an operand lie, and how E of them are loaded.
//
//   dense     vectors of up to 16 bytes
//   rows      dense along the innermost dimension: as dense where E elements lie in one row, at the alignment that all rows have
//   others    one element after the other
#pragma once
#include "platform.h"
#include "verify/decode.h"


// E elements, in PIECES that lie apart. W words hold them at the width of the arithmetic.
template <u32 KIND, int E, int W, int PIECES> struct Operand {
    enum { N = E / PIECES, WORDS = W / PIECES };
    // Kernels for a fixed format are for dense tensors that are aligned to 16 bytes.
    static constexpr bool DENSE = is_fixed(KIND);
    const VerifyOperand &p;
    Decoder<KIND> decoder;
    __device__ explicit Operand(const VerifyOperand &p_) : p(p_), decoder(p_.dtype) {}

    // The elements from `index` on, and of the second piece from `index + apart` on; 0 stands for those from n on.
    __device__ void load(u64 index, u32 apart, u64 n, u32 (&w)[W]) const {
        if ((DENSE || (p.rank == 0 && p.align >= 16)) && index + (PIECES - 1) * apart + N <= n) {
#pragma unroll
            for (int k = 0; k < PIECES; k++) aligned(p.base + (index + k * apart) * decoder.bits / 8, w, k * WORDS);
            return;
        }
#pragma unroll
        for (int k = 0; k < PIECES; k++) piece(index + k * apart, n, w, k * WORDS);
    }

    // N elements from anywhere.
    __device__ void piece(u64 index, u64 n, u32 (&w)[W], int to) const {
        const u32 bits = decoder.bits;
#pragma unroll
        for (int i = 0; i < WORDS; i++) w[to + i] = 0;
#pragma unroll 1
        for (u32 e = 0; e < N && index + e < n; e++) {
            u64 column;
            const i64 at = offset(index + e, column);
            // How many elements follow each other in memory.
            const u64 run = p.rank == 0 ? n : p.strides[p.rank - 1] == 1 ? p.extents[p.rank - 1] : 0;
            if (!DENSE && e == 0 && column + N <= run && !(bits == 4 && at & 1)) {
                together(p.base + at * (i64)bits / 8, w, to);
                break;
            }
            const u64 x = element(at);
#pragma unroll
            for (u32 i = 0; i < WORDS; i++) {
                if (bits == 64) w[to + i] |= i / 2 == e ? (u32)(x >> (i % 2 * 32)) : 0;
                else w[to + i] |= i == e * bits / 32 ? (u32)x << (e * bits % 32) : 0;
            }
        }
    }

    // The element's place from the base, and its coordinate in the innermost dimension.
    __device__ i64 offset(u64 index, u64 &column) const {
        i64 at = p.offset;
        if (DENSE || p.rank == 0) {
            column = index;
            return at + (i64)index;
        }
#pragma unroll 1
        for (u32 d = p.rank; d-- > 0;) {
            // The reciprocal is rounded up: the quotient may be 1 too large.
            u64 quotient = __umul64hi(index, p.reciprocals[d]);
            u64 rest = index - quotient * p.extents[d];
            if ((i64)rest < 0) quotient -= 1, rest += p.extents[d];
            at += (i64)rest * p.strides[d];
            if (d + 1 == p.rank) column = rest;
            index = quotient;
        }
        return at;
    }

    // N elements that lie together, at an address that is aligned to as many bytes, at most 16.
    __device__ void aligned(const u8 *at, u32 (&w)[W], int to) const {
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
    static __device__ void vector(const u8 *at, u32 (&w)[W], int to) {
        const uint4 x = load16(at);
        w[to] = x.x, w[to + 1] = x.y, w[to + 2] = x.z, w[to + 3] = x.w;
    }

    // N elements that lie together, at the alignment that the host promises.
    __device__ void together(const u8 *at, u32 (&w)[W], int to) const {
        const u32 bytes = N * decoder.bits / 8;
        if (p.align >= (bytes < 16 ? bytes : 16)) {
            aligned(at, w, to);
            return;
        }
#pragma unroll
        for (u32 i = 0; i < WORDS; i++) {
            if (4 * i >= bytes) break;
            const u8 *from = at + 4 * i;
            if (p.align >= 4) w[to + i] = *(const u32 *)from;
            else if (p.align == 2) w[to + i] = *(const u16 *)from | (bytes > 2 ? (u32)((const u16 *)from)[1] << 16 : 0);
            else w[to + i] = from[0] | (u32)from[1] << 8 | (bytes > 2 ? (u32)from[2] << 16 | (u32)from[3] << 24 : 0);
        }
    }

    __device__ u64 bits_at(u64 index) const {
        u64 column;
        return element(offset(index, column));
    }

    // The bits of the element at a place.
    __device__ u64 element(i64 at) const {
        if (decoder.bits == 4) return p.base[at >> 1] >> (4 * (at & 1)) & 0xf;
        const u32 size = decoder.bits / 8;
        const u8 *from = p.base + at * size;
        if (DENSE || p.align >= size) {
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
