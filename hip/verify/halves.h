// Pairs of two 16-bit floating-point formats, f16 or bf16, in words of two numbers: one instruction tests or counts both.
#pragma once
#include "verify/metrics.h"
#include "warp.h"

// A 16-bit floating-point format.
struct HalfFormat {
    u32 dtype;
    __device__ bool valid() const { return dtype == F16 || dtype == BF16; }
    __device__ float number(u32 pattern) const { return dtype == F16 ? f16_to_f32(pattern) : f32_of(pattern << 16); }
};

// The largest magnitude and the number of zeros of an operand.
struct Halves {
    u32 largest; // patterns of both halves
    u32 zeros;   // of a tile, see `add_zero_halves`
    u32 count;
    __device__ void clear() { largest = zeros = count = 0; }
    __device__ void carry() { count += zero_halves(zeros), zeros = 0; }
    // The largest magnitudes in the words of E numbers, as patterns of both halves.
    template <u32 E> static __device__ u32 largest_of(const u32 *words) {
        static_assert(E % 4 == 0);
        u32 most = 0;
#pragma unroll
        for (u32 i = 0; i < E / 2; i += 2) most = largest_halves(words[i], words[i + 1], most);
        return most;
    }
    // Adds the words of E numbers whose largest ones are `most`.
    template <u32 E> __device__ void add(const u32 *words, u32 most) {
        largest = largest_halves(most, largest, 0);
#pragma unroll
        for (u32 i = 0; i < E / 2; i++) zeros = add_zero_halves(zeros, words[i]);
    }
    __device__ float number(HalfFormat format) const { return Real<float>::larger(format.number(largest & 0xffff), format.number(largest >> 16)); }
};
// Whether one of these patterns is FINITE_HALF or more: then it does not tell whether the numbers are finite.
__device__ inline bool is_large(u32 most) { return most + (0x8000 - FINITE_HALF) * 0x10001u & 0x80008000u; }
