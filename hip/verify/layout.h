// Where the elements of an operand lie, and how N neighbours of them are loaded.
//
//   rows      dense along the innermost dimension, like all of a dense tensor: by vectors of up to 16 bytes, or by words that are shifted together
//   strided   the elements of a row at equal distances: one load for each
//   others    elements in more than one row, or beyond the end of the tensor: one after the other
#pragma once
#include "platform.h"
#include "verify/decode.h"

// Divides a number below 2^63, by means of 2^64 / divisor, rounded up.
struct Division { u64 quotient, rest; };
__device__ inline Division divide(u64 x, u64 divisor, u64 reciprocal) {
    const u64 quotient = __umul64hi(x, reciprocal), rest = x - quotient * divisor;
    // It may be 1 too large.
    const bool above = (i64)rest < 0;
    return {quotient - above, above ? rest + divisor : rest};
}

// The distance of element n from the base, in elements, and how many elements remain from there to the end of its row.
__device__ inline i64 offset_of(const VerifyOperand &operand, u64 index, u64 n, u64 &left) {
    const VerifyOperand &p = read_here(operand);
    left = n - index;
    if (p.rank == 0) return p.offset + (i64)index;
    i64 at = p.offset;
#pragma unroll 1
    for (u32 d = p.rank; d-- > 0;) {
        const Division by = divide(index, p.extents[d], p.reciprocals[d]);
        at += (i64)by.rest * p.strides[d];
        if (d + 1 == p.rank) left = p.extents[d] - by.rest;
        index = by.quotient;
    }
    return at;
}

// The pattern of an element of `bits`, whose distance from the base is `at`.
__device__ inline u64 pattern_at(const VerifyOperand &operand, u32 bits, i64 at) {
    const VerifyOperand &p = read_here(operand);
    if (bits == 4) return p.base[at >> 1] >> (4 * (at & 1)) & 0xf;
    const u32 size = bits / 8;
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

constexpr u32 QUAD_STEP = 16 * THREADS; // the distance between the quads of a thread in shared memory

template <u32 KIND, int N> struct Operand {
    // Words that N elements of the widest format take, and one more if they may have to be shifted.
    enum { WORDS = N * Decoder<KIND>::MOST / 32, SHIFTED = LIKE_NVIDIA || Decoder<KIND>::LEAST == 4, LOADED_WORDS = WORDS + SHIFTED };
    typedef u32 Words[LOADED_WORDS];
    // Formats of 32 bits and more hardly ever lie at addresses other than multiples of 4.
    static constexpr bool SHORT = Decoder<KIND>::LEAST < 32;
    const VerifyOperand &p;
    Decoder<KIND> decoder;
    __device__ Operand(const VerifyOperand &p_, const float *table, u32 copy) : p(p_), decoder(table, copy, p_.dtype) {}

    // A row: element `start` + i lies i x `inner` elements from `address`, and N elements that end at `end` or before are loaded at once. Addresses of 4-bit elements count halves of a byte.
    struct Row {
        u64 end, address;
    };
    // The row of the element at `index`, which lies at a position `at`, with `left` elements from there to the end of its row.
    __device__ Row row_of(u64 index, i64 at, u64 left, u64 start) const {
        const VerifyOperand &p = read_here(this->p);
        const u32 bits = decoder.bits;
        const i64 shift = (i64)((u64)at - index * (u64)p.inner);
        const u64 end = index + left, address = address_of((i64)((u64)shift + start * (u64)p.inner));
        if (p.inner != 1) return {bits >= 8 && p.align >= bits / 8 ? end : 0, address};
        if (vectors()) return {end, address};
        // One word more than the elements take.
        const u32 log = __ffs((int)bits) - 1;
        const i64 safe = ((p.end - p.base) * 8 >> log) - (64 >> log) - shift;
        return {safe < (i64)end ? (u64)(safe > 0 ? safe : 0) : end, address};
    }

    __device__ bool nibbles() const { return Decoder<KIND>::LEAST == 4 && decoder.bits == 4; }
    // The address at a distance of `elements` from an address, or from the base.
    __device__ u64 advanced(u64 address, i64 elements) const { return address + (u64)(nibbles() ? elements : elements * (i64)(decoder.bits / 8)); }
    __device__ u64 address_of(i64 elements) const { return advanced(nibbles() ? 2 * (u64)p.base : (u64)p.base, elements); }

    // Whether every row is dense and N elements, 4 bytes or more, are loaded at once. NVIDIA's GPUs need rows that are aligned to the size of the N elements, up to 16 bytes.
    __device__ bool vectors() const {
        const VerifyOperand &p = read_here(this->p);
        const u32 bytes = N * decoder.bits / 8;
        return p.inner == 1 && bytes >= 4 && ((!LIKE_NVIDIA && !nibbles()) || p.align >= (bytes < 16 ? bytes : 16));
    }

    // N elements that lie together, by loads of up to 16 bytes.
    __device__ void together(const u8 *at, Words &w) const {
        const u32 bytes = N * decoder.bits / 8;
        if (bytes == 4) w[0] = ::load<u32>(at);
        if constexpr (WORDS >= 2)
            if (bytes == 8) {
                const u64 x = ::load<u64>(at);
                w[0] = (u32)x, w[1] = (u32)(x >> 32);
            }
#pragma unroll
        for (int i = 0; i + 4 <= WORDS; i += 4)
            if (bytes >= 16 && 4 * i < bytes) {
                const uint4 x = load16(at + 4 * i);
                w[i] = x.x, w[i + 1] = x.y, w[i + 2] = x.z, w[i + 3] = x.w;
            }
    }

    __device__ const u8 *vector_at(u64 address) const { return (const u8 *)(nibbles() ? address / 2 : address); }
    __device__ void load_vector(u64 address, Words &w) const { together(vector_at(address), w); }

    // Loads N elements of a row, beginning `offset` elements after the element at the address, and returns by how many bits they have to be shifted. Nothing waits for the loads.
    __device__ u32 load(u32 offset, u64 address, Words &w) const {
        const i64 inner = read_here(p).inner;
        forget_last(w);
        if (vectors()) load_vector(advanced(address, offset), w);
        else if (inner != 1) strided((const u8 *)advanced(address, offset * inner), inner, w);
        else if (SHIFTED) {
            address = advanced(address, offset);
            const u32 by = align_down(address);
            load_words(address, by, w);
            return by;
        }
        return 0;
    }
    // What an earlier load has left in the last word, which not every load writes, would otherwise be kept for `shift`.
    static __device__ void forget_last(Words &w) {
        if (SHIFTED) w[LOADED_WORDS - 1] = 0;
    }
    // Moves the address of neighbours back to a multiple of 4 bytes, from where words are loaded, and returns by how many bits.
    __device__ u32 align_down(u64 &address) const {
        const u32 unit = nibbles() ? 4 : 8, by = (u32)address * unit % 32;
        address -= by / unit;
        return by;
    }
    // Words from such an address on, with one more that `shift` moves down. It may be loaded for nothing: rows end early enough.
    __device__ void load_words(u64 address, u32 by, Words &w) const {
        const u8 *at = vector_at(address);
        const u32 bits = N * decoder.bits + (SHORT || by ? 32 : 0);
#pragma unroll
        for (u32 i = 0; i < LOADED_WORDS; i++)
            if (32 * i < bits) w[i] = ::load<u32>(at + 4 * i);
    }
    // Whether the elements of a row are neighbours, and such an operand's load inside a row.
    __device__ bool neighbours() const { return read_here(p).inner == 1; }
    __device__ void load_neighbours(u64 address, u32 by, Words &w) const {
        forget_last(w);
        if (vectors()) load_vector(address, w);
        else load_words(address, by, w);
    }

    // Copies to shared memory (`ring.h`), where N elements take QUADS of 16 bytes, and one more word if they may have to be shifted: not for formats of 32 bits and more.
    static constexpr u32 QUADS = (WORDS + 3) / 4;
    static __device__ constexpr u32 word_at(u32 i) { return i / 4 * QUAD_STEP + i % 4 * 4; }
    // As `load_vector`.
    __device__ void copy_vector(u64 address, SharedAddress quads) const {
        const u8 *at = vector_at(address);
        const u32 bytes = N * decoder.bits / 8;
        if (bytes == 4) copy_async<4>(quads, at);
        if (bytes == 8) copy_async<8>(quads, at);
#pragma unroll
        for (u32 i = 0; i + 4 <= WORDS; i += 4)
            if (bytes >= 16 && 4 * i < bytes) copy_async<16>(quads + word_at(i), at + 4 * i);
    }
    // As `load_words`; `more` is the destination of the word that is shifted into the last one.
    __device__ void copy_words(u64 address, SharedAddress quads, SharedAddress more) const {
        const u8 *at = vector_at(address);
        const u32 bits = N * decoder.bits;
#pragma unroll
        for (u32 i = 0; i < WORDS; i++)
            if (32 * i < bits) copy_async<4>(quads + word_at(i), at + 4 * i);
        if (SHORT) copy_async<4>(bits == 32 * WORDS ? more : quads + word_at(bits / 32), at + bits / 8);
    }
    // Whether the elements of a row are copied this way. Not if a load is less than a word: it would begin inside a word.
    __device__ bool by_words() const { return neighbours() && !vectors() && N * decoder.bits >= 32 && (SHORT || read_here(p).align >= 4); }
    static __device__ void put_quads(const Words &w, SharedAddress quads) {
#pragma unroll
        for (u32 i = 0; i < WORDS; i++) shared_at<u32>(quads + word_at(i)) = w[i];
    }
    static __device__ void take_quads(Words &w, SharedAddress quads) {
#pragma unroll
        for (u32 i = 0; i < WORDS; i += 4) {
            const uint4 x = shared_at<const uint4>(quads + word_at(i));
            const u32 of[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
            for (u32 j = 0; j < 4 && i + j < WORDS; j++) w[i + j] = of[j];
        }
    }

    // Moves the first element to the first bit; `last` is shifted into the last word.
    static __device__ void shift(Words &w, u32 last, u32 by) {
        if constexpr (SHIFTED) w[WORDS] = last;
        shift(w, by);
    }
    static __device__ void shift(Words &w, u32 by) {
        if constexpr (SHIFTED)
#pragma unroll
            for (u32 i = 0; i < WORDS; i++) w[i] = shift_down(w[i], w[i + 1], by);
    }

    // N elements of a row with a distance of `inner` between them.
    __device__ void strided(const u8 *at, i64 inner, Words &w) const {
        const u32 bits = decoder.bits;
        const i64 step = inner * (i64)(bits / 8);
        enum { LEAST = Decoder<KIND>::LEAST, MOST = Decoder<KIND>::MOST };
        if constexpr (MOST >= 64)
            if (bits == 64) gather<u64>(at, step, w);
        if constexpr (MOST >= 32 && LEAST <= 32)
            if (bits == 32) gather<u32>(at, step, w);
        if constexpr (MOST >= 16 && LEAST <= 16)
            if (bits == 16) gather<u16>(at, step, w);
        if constexpr (LEAST <= 8)
            if (bits == 8) gather<u8>(at, step, w);
    }
    template <typename X> static __device__ void gather(const u8 *at, i64 step, Words &w) {
#pragma unroll
        for (u32 e = 0; e < N; e++) {
            const u64 x = ::load<X>(at + e * step);
            const u32 bit = e * 8 * sizeof(X), word = bit / 32;
            w[word] = bit % 32 ? w[word] | (u32)x << bit % 32 : (u32)x;
            if constexpr (sizeof(X) == 8) w[word + 1] = (u32)(x >> 32);
        }
    }

    static __device__ void clear(Words &w) {
        for (u32 &x : w) x = 0;
    }
    // Puts the bits of element e in their position in words of zeros.
    __device__ void put(u32 e, u64 x, Words &w) const {
        const u32 bit = e * decoder.bits, word = bit / 32;
#pragma unroll
        for (u32 k = 0; k < WORDS; k++) {
            w[k] |= k == word ? (u32)x << bit % 32 : 0;
            if (decoder.bits == 64) w[k] |= k == word + 1 ? (u32)(x >> 32) : 0;
        }
    }
};
