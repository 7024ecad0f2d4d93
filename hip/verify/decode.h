// Decodes words of memory to numbers, E elements at a time, by the width of their format; formats of one width are told apart by branches that all threads take
// together. Values are exact; NaN and infinities stay what they are.
#pragma once
#include "any.h"
#include "warp.h"

constexpr u32 THREADS = 256, GROUPS = THREADS / SUBGROUP; // of a block

// Makes what a block shares zero. Called by all of its threads; a barrier has to follow.
template <class Shared> __device__ inline void clear_shared(Shared &s) {
    static_assert(sizeof(s) % 4 == 0);
#pragma unroll 1
    for (u32 i = threadIdx.x; i < sizeof(s) / 4; i += THREADS) ((u32 *)&s)[i] = 0;
}

// The formats that an operand of a kernel may have, its KIND: those of a width in bits, where 8 includes all up to 8; the same if shared memory is scarce (SPARE); those of 8 bits that have a zero
// (BYTE; with one copy of their numbers, ONE_COPY); or any.
constexpr u32 BYTE = 9, SPARE = 10, ONE_COPY = 11, ANY = 0;
__host__ __device__ constexpr u32 width_of(u32 kind) { return kind == BYTE || kind == SPARE || kind == ONE_COPY ? 8 : kind; }

// The tables in shared memory for a kernel's operands of up to 8 bits: the numbers of all patterns of their formats, so that one load decodes an element. With one copy, each operand has its own
// table. With several copies, which are interleaved so that each has its own banks, both operands share one table: operands of one format share all copies, and operands of two formats have half of the copies each.
__host__ __device__ constexpr u32 copies_of(u32 kind) { return kind == ANY || kind == ONE_COPY ? 1 : kind == SPARE ? (TABLE_COPIES + 1) / 2 : width_of(kind) == 8 ? TABLE_COPIES : 0; }
template <u32 COPIES> struct Numbers {
    enum { TABLES = COPIES == 1 ? 2 : 1 };
    float of[TABLES][256][COPIES];
    // Writes `entry(x)` for each number x. Called by all threads of a block; a barrier has to follow.
    template <class Entry> __device__ void prepare(u32 first, u32 second, Entry entry) {
        const bool of_first = format_at(first).bits <= 8, of_second = format_at(second).bits <= 8;
        for (u32 i = threadIdx.x; i < 256; i += THREADS) {
            const float x = of_first ? entry(number<float>(first, i)) : 0, y = of_second ? entry(number<float>(second, i)) : 0;
            // Threads begin in different banks.
#pragma unroll 1
            for (u32 k = i; k < i + COPIES; k++) of[0][i][k % COPIES] = 2 * (k % COPIES) < COPIES ? x : y;
            if (TABLES == 2) of[TABLES - 1][i][0] = y;
        }
    }
    __device__ const float *table(u32 operand) const { return of[TABLES == 2 ? operand : 0][0]; }
    // The copy that a lane reads.
    __device__ u32 copy(u32 operand, bool same) const { return same || TABLES == 2 ? lane_of() % COPIES : (COPIES * operand + lane_of() % COPIES) / 2; }
};
template <> struct Numbers<0> {
    template <class Entry> __device__ void prepare(u32, u32, Entry) {}
    __device__ const float *table(u32) const { return nullptr; }
    __device__ u32 copy(u32, bool) const { return 0; }
};

// Four nibbles as four bytes.
__device__ inline u32 spread(u32 x) {
    x = (x | x << 8) & 0x00ff00ffu;
    return (x | x << 4) & 0x0f0f0f0fu;
}

// The formats of both operands, as far as one branch for E pairs tells them: all 16-bit numbers are of one format, and those of 32 and 64 bits are floats. Other formats need a branch for each operand.
enum Formats : u32 { WITH_F16, WITH_BF16, OTHERS };

// An operand's format, of KIND.
template <u32 KIND> struct Decoder {
    // The smallest and the largest number of bits that it has.
    static constexpr u32 WIDTH = width_of(KIND), LEAST = WIDTH > 8 || KIND == BYTE || KIND == ONE_COPY ? WIDTH : 4, MOST = WIDTH ? WIDTH : 64;
    static constexpr bool SMALL = WIDTH == 8 || WIDTH == ANY;
    const float *table; // see `Numbers`
    u32 copy, dtype, bits;
    __device__ Decoder(const float *table_, u32 copy_, u32 run_time)
        : table(table_), copy(copy_), dtype(run_time), bits(LEAST == MOST ? MOST : format_at(run_time).bits) {}

    // Whether the format is among these.
    __device__ bool among(Formats formats) const { return dtype == (WIDTH == 16 ? (formats == WITH_F16 ? F16 : BF16) : WIDTH == 32 ? F32 : WIDTH == 64 ? F64 : dtype) && WIDTH != ANY; }
    // The format, which is known when a kernel is compiled unless it may be one of OTHERS.
    template <Formats FORMATS> __device__ u32 format() const {
        if (FORMATS == OTHERS || SMALL) return dtype;
        return WIDTH == 16 ? (FORMATS == WITH_F16 ? F16 : BF16) : WIDTH == 32 ? F32 : F64;
    }

    // The number of the pattern in a byte of a word.
    __device__ float number_of(u32 word, u32 byte) const {
        enum { COPIES = copies_of(KIND) };
#if defined(__CUDA_ARCH__)
        // 4 COPIES x byte + the offset of the copy, by one instruction.
        return *(const float *)shared_address(__dp4a(word, (u32)(4 * COPIES) << (8 * byte), shared_offset(table + copy)));
#else
        return table[(word >> (8 * byte) & 0xff) * COPIES + copy];
#endif
    }

    // The patterns of E elements of up to 8 bits, a byte each.
    template <int E, int W> __device__ void patterns(const u32 (&w)[W], u32 (&bytes)[E / 4]) const {
#pragma unroll
        for (int k = 0; k < E / 4; k++) bytes[k] = w[k];
        if (bits == 4) {
            compiler_barrier(); // otherwise it would be computed for all formats
#pragma unroll
            for (int k = 0; k < E / 4; k++) bytes[k] = spread(w[k / 2] >> (16 * (k % 2)) & 0xffff);
        }
    }

    // Drops the first E elements: whole words, or with 4 bits the lower half of the only word.
    template <int E, int W> __device__ void skip(u32 (&w)[W]) const {
        const u32 by = E * bits;
#pragma unroll
        for (int words = 1; 32 * words <= E * MOST; words *= 2)
            if (32 * words >= E * LEAST && by == 32 * words)
#pragma unroll
                for (int i = 0; i + words < W; i++) w[i] = w[i + words];
        if (E * LEAST < 32 && by < 32) w[0] >>= by;
    }

    template <int E, Formats FORMATS = OTHERS, int W> __device__ void decode(const u32 (&w)[W], float (&x)[E]) const {
        const u32 dtype = format<FORMATS>();
        if (WIDTH == 32 || (WIDTH == ANY && bits == 32)) {
#pragma unroll
            for (int i = 0; i < E; i++) x[i] = f32_of(w[i % W]);
            if (dtype == TF32) {
                compiler_barrier(); // otherwise it would be computed for all formats
#pragma unroll
                for (int i = 0; i < E; i++) x[i] = f32_of(w[i % W] & ~0x1fffu);
            }
        } else if (WIDTH == 16 || (WIDTH == ANY && bits == 16)) {
            if (dtype == F16)
#pragma unroll
                for (int i = 0; i < E; i++) x[i] = f16_to_f32(i % 2 ? w[i / 2] >> 16 : w[i / 2] & 0xffff);
            else if (dtype == BF16)
#pragma unroll
                for (int i = 0; i < E; i++) x[i] = f32_of(i % 2 ? w[i / 2] & 0xffff0000u : w[i / 2] << 16);
            else {
                // Extends the sign of I16; U16 has none.
                const u32 sign = dtype == I16 ? 0x8000u : 0;
#pragma unroll
                for (int i = 0; i < E; i++) x[i] = (float)(i32)(((i % 2 ? w[i / 2] >> 16 : w[i / 2] & 0xffff) ^ sign) - sign);
            }
        } else if constexpr (SMALL) {
            u32 bytes[E / 4];
            patterns<E>(w, bytes);
#pragma unroll
            for (int i = 0; i < E; i++) x[i] = number_of(bytes[i / 4], i % 4);
        }
    }
    template <int E, Formats FORMATS = OTHERS, int W> __device__ void decode(const u32 (&w)[W], double (&x)[E]) const {
        const u32 dtype = format<FORMATS>();
        if (WIDTH == 64 || (WIDTH == ANY && bits == 64)) {
            if (dtype == F64)
#pragma unroll
                for (int i = 0; i < E; i++) x[i] = f64_of(w[2 * i] | (u64)w[2 * i + 1] << 32);
            else
#pragma unroll
                for (int i = 0; i < E; i++) {
                    const u64 bits = w[2 * i] | (u64)w[2 * i + 1] << 32;
                    x[i] = dtype == U64 ? (double)bits : (double)(i64)bits;
                }
        } else if (dtype == I32) {
#pragma unroll
            for (int i = 0; i < E; i++) x[i] = (double)(i32)w[i];
        } else if (dtype == U32) {
#pragma unroll
            for (int i = 0; i < E; i++) x[i] = (double)w[i];
        } else {
            float narrow[E];
            decode<E, FORMATS>(w, narrow);
#pragma unroll
            for (int i = 0; i < E; i++) x[i] = (double)narrow[i];
        }
    }

    // Integers only; up to 16 bits they are exact as f32.
    template <int E, Formats FORMATS = OTHERS, int W> __device__ void decode(const u32 (&w)[W], i64 (&x)[E]) const {
        if (WIDTH == 64 || (WIDTH == ANY && bits == 64)) {
#pragma unroll
            for (int i = 0; i < E; i++) x[i] = (i64)(w[2 * i] | (u64)w[2 * i + 1] << 32);
        } else if (dtype == I32) {
#pragma unroll
            for (int i = 0; i < E; i++) x[i] = (i32)w[i];
        } else if (dtype == U32) {
#pragma unroll
            for (int i = 0; i < E; i++) x[i] = w[i];
        } else {
            float narrow[E];
            decode<E>(w, narrow);
#pragma unroll
            for (int i = 0; i < E; i++) x[i] = (i32)narrow[i];
        }
    }

    template <int E, Formats FORMATS = OTHERS, int W> __device__ void decode(const u32 (&w)[W], Whole (&x)[E]) const {
        i64 narrow[E];
        decode<E>(w, narrow);
#pragma unroll
        for (int i = 0; i < E; i++) x[i] = dtype == U64 ? Whole((u64)narrow[i], false) : Whole(narrow[i]);
    }
};
