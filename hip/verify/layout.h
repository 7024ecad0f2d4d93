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
            const u8 *at = p.base + (DENSE ? index * (decoder.bits / 8) : index * decoder.bits / 8);
#pragma unroll
            for (int k = 0; k < PIECES; k++) aligned(at + k * apart * decoder.bits / 8, w, k * WORDS);
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
        if constexpr (DENSE) {
            // The last of a tensor.
#pragma unroll
            for (u32 e = 0; e < N; e++)
                if (index + e < n) w[to + e * bits / 32] |= (u32)element((i64)(index + e)) << (e * bits % 32);
            return;
        }
        if (index >= n) return;
        u64 left;
        const i64 first = offset(index, n, left);
        if (left >= N && !(bits == 4 && first & 1)) {
            together(p.base + first * (i64)bits / 8, w, to);
            return;
        }
#pragma unroll 1
        for (u32 e = 0; e < N && index + e < n; e++) {
            const u64 x = element(offset(index + e, n, left));
#pragma unroll
            for (u32 i = 0; i < WORDS; i++) {
                if (bits == 64) w[to + i] |= i / 2 == e ? (u32)(x >> (i % 2 * 32)) : 0;
                else w[to + i] |= i == e * bits / 32 ? (u32)x << (e * bits % 32) : 0;
            }
        }
    }

    // The place, from the base, of an element of n, and how many are left from there to the end of a dense row.
    __device__ i64 offset(u64 index, u64 n, u64 &left) const {
        left = n - index;
        if (DENSE || p.rank == 0) return p.offset + (i64)index;
        if (p.plane) return in_plane((u32)index, left);
        i64 at = p.offset;
#pragma unroll 1
        for (u32 d = p.rank; d-- > 0;) {
            // The reciprocal is rounded up: the quotient may be 1 too large.
            u64 quotient = __umul64hi(index, p.reciprocals[d]), rest = index - quotient * p.extents[d];
            if ((i64)rest < 0) quotient -= 1, rest += p.extents[d];
            at += (i64)rest * p.strides[d];
            if (d + 1 == p.rank) left = p.strides[d] == 1 ? p.extents[d] - rest : 0;
            index = quotient;
        }
        return at;
    }
    // The same for two dimensions, in 32 bits: a quarter of the instructions.
    __device__ i64 in_plane(u32 index, u64 &left) const {
        const u32 extent = (u32)p.extents[1];
        // The upper half of the reciprocal is rounded down: the quotient may be 1 too small.
        u32 row = (u32)((u64)index * (u32)(p.reciprocals[1] >> 32) >> 32), column = index - row * extent;
        if (column >= extent) row += 1, column -= extent;
        left = p.strides[1] == 1 ? extent - column : 0;
        return p.offset + (i64)row * p.strides[0] + (i64)column * p.strides[1];
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
        u64 left;
        return element(offset(index, index + 1, left));
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
