// Cross-lane operations, and how each platform counts and compares at the lowest cost. A subgroup is 32 neighbouring threads of a block: a wavefront on NVIDIA,
// half of one on AMD's CDNA. Results never depend on which it is.
#pragma once
#include "formats.h"

constexpr u32 SUBGROUP = 32;

__device__ inline u32 lane_of() { return threadIdx.x % SUBGROUP; }

// Orders what the lanes of a subgroup wrote to shared memory before what they read after it.
__device__ inline void subgroup_barrier() {
#if defined(__AMDGCN__)
    // The lanes of a wavefront run in lockstep: it is enough that the compiler does not reorder.
    __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront");
    __builtin_amdgcn_wave_barrier();
#else
    __syncwarp();
#endif
}

// Makes the compiler read shared memory again that other threads change. Not `volatile`: LLVM would no longer see that the address is one of shared memory.
__device__ inline void compiler_barrier() { asm volatile("" ::: "memory"); }

// Computes a number before the code that follows. LLVM would otherwise move the computation behind a branch that does not use the number, and keep its operands in registers meanwhile.
#if defined(__AMDGCN__)
__device__ inline void make_now(float &x) { asm volatile("" : "+v"(x)); }
__device__ inline void make_now(double &x) { asm volatile("" : "+v"(x)); }
// The same number in all lanes.
__device__ inline void make_now(u32 &x) { x = __builtin_amdgcn_readfirstlane(x); }
#else
template <typename T> __device__ inline void make_now(T &) {}
#endif

// The same number, made opaque to the compiler, which would otherwise keep conditions on it in registers, although hardly any thread needs them again.
#if defined(__CUDA_ARCH__)
__device__ inline float unknown(float x) { asm volatile("" : "+f"(x)); return x; }
#elif defined(__AMDGCN__)
__device__ inline float unknown(float x) { asm volatile("" : "+v"(x)); return x; }
#else
__device__ inline float unknown(float x) { return x; }
#endif
template <typename T> __device__ inline T unknown(T x) { return x; }

// Marks the contents of a register as unused. LLVM would otherwise keep them for the lanes that a branch leaves out.
#if defined(__AMDGCN__)
__device__ inline void discard(u32 &x) { asm volatile("" : "=v"(x)); }
#else
__device__ inline void discard(u32 &) {}
#endif

// The word that begins at bit `by` (its lowest five bits) of `low` with `high` above it.
#if defined(__CUDA_ARCH__)
__device__ inline u32 shift_down(u32 low, u32 high, u32 by) { return __funnelshift_r(low, high, by); }
#elif defined(__AMDGCN__)
__device__ inline u32 shift_down(u32 low, u32 high, u32 by) { return __builtin_amdgcn_alignbit(high, low, by); }
#else
__device__ inline u32 shift_down(u32 low, u32 high, u32 by) { return (u32)(((u64)high << 32 | low) >> (by & 31)); }
#endif

// The number of the wavefront's first lane, if it is not less than those of the others. Compilers know that it is the same in all lanes: otherwise branches by it would be taken by each lane on its own.
__device__ inline u32 same_in_wavefront(u32 x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    return __reduce_max_sync(0xffffffff, x);
#elif defined(__AMDGCN__)
    return __builtin_amdgcn_readfirstlane(x);
#else
    return __shfl(x, 0);
#endif
}

// Whether the condition holds in any lane of the wavefront. All of its lanes must be there.
__device__ inline bool wavefront_any(bool x) { return __any(x); }

// The votes of a subgroup, one bit per lane.
#if defined(__CUDA_ARCH__)
__device__ inline u32 subgroup_votes(bool x) { return (u32)__ballot(x); } // nvcc knows that it is the same in all lanes
#else
__device__ inline u32 subgroup_votes(bool x) { return (u32)((u64)__ballot(x) >> (threadIdx.x % warpSize / SUBGROUP * SUBGROUP)); }
#endif

// The sum and the maximum over a subgroup, in all of its lanes.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
// One instruction for 32 bits.
__device__ inline u32 subgroup_sum(u32 x) { return __reduce_add_sync(0xffffffff, x); }
__device__ inline u32 subgroup_max(u32 x) { return __reduce_max_sync(0xffffffff, x); }
__device__ inline u64 subgroup_max(u64 x) {
    const u32 high = (u32)(x >> 32), highest = subgroup_max(high);
    return (u64)highest << 32 | subgroup_max(high == highest ? (u32)x : 0);
}
#else
// Loops, since for each unrolled step clang keeps the address of the other lane in a register.
__device__ inline u32 subgroup_sum(u32 x) {
#pragma unroll 1
    for (u32 step = SUBGROUP / 2; step > 0; step /= 2) x += __shfl_xor(x, step, SUBGROUP);
    return x;
}
template <typename X> __device__ inline X subgroup_max(X x) {
#pragma unroll 1
    for (u32 step = SUBGROUP / 2; step > 0; step /= 2) {
        const X other = __shfl_xor(x, step, SUBGROUP);
        x = other > x ? other : x;
    }
    return x;
}
#endif

// Operations on words of two numbers of f16 or bf16 whose magnitudes have patterns below FINITE_HALF: there both are ordered as their patterns are.
constexpr u32 FINITE_HALF = 0x7c00;
// The larger magnitude in each half; FINITE_HALF or more if one of the three is.
__device__ inline u32 largest_halves(u32 x, u32 y, u32 z) {
#if defined(__CUDA_ARCH__)
    // One instruction, of f16.
    asm("{.reg .b32 a, b, c; abs.f16x2 a, %0; abs.f16x2 b, %1; abs.f16x2 c, %2; max.NaN.f16x2 a, a, b; max.NaN.f16x2 %0, a, c;}" : "+r"(x) : "r"(y), "r"(z));
    return x;
#else
    const auto larger = [](u32 a, u32 b) { return a > b ? a : b; };
    const auto largest = [&](u32 half) { return larger(larger(x & half, y & half), z & half); };
    return largest(0x7fff) | largest(0x7fff0000u);
#endif
}
// Adds 1 for each half that is zero to a sum, which `zero_halves` splits: as long as it has less than 2^16 for either.
__device__ inline u32 add_zero_halves(u32 sum, u32 x) {
#if defined(__CUDA_ARCH__)
    u32 minus; // in each half
    asm("set.eq.u32.f16x2 %0, %1, %2;" : "=r"(minus) : "r"(x), "r"(0));
    return sum + minus;
#else
    return sum + ((x & 0x7fff) == 0) + ((x & 0x7fff0000u) == 0 ? 0x10000 : 0);
#endif
}
__device__ inline u32 zero_halves(u32 sum) {
#if defined(__CUDA_ARCH__)
    // 65536 (low - high) - low
    const u32 low = -sum & 0xffff;
    return low + (low - (sum + low >> 16) & 0xffff);
#else
    return (sum & 0xffff) + (sum >> 16);
#endif
}

// Adds to a sum if two comparisons hold. nvcc would choose between the summand and 0 first, which is one instruction more.
#if defined(__CUDA_ARCH__)
__device__ inline void add_if_greater(u32 &sum, u32 x, float a, float b, float c, float d) { asm("{.reg .pred p; setp.gt.f32 p, %2, %3; setp.gt.and.f32 p, %4, %5, p; @p add.u32 %0, %0, %1;}" : "+r"(sum) : "r"(x), "f"(a), "f"(b), "f"(c), "f"(d)); }
__device__ inline void add_if_greater(u32 &sum, u32 x, float a, float b) { asm("{.reg .pred p; setp.gt.f32 p, %2, %3; @p add.u32 %0, %0, %1;}" : "+r"(sum) : "r"(x), "f"(a), "f"(b)); }
#endif
template <typename T> __device__ inline void add_if_greater(u32 &sum, u32 x, T a, T b) { sum += a > b ? x : 0; }
template <typename T> __device__ inline void add_if_greater(u32 &sum, u32 x, T a, T b, T c, T d) { sum += a > b && c > d ? x : 0; }

// x << BITS where a number is below zero, else x; for the same reason.
#if defined(__CUDA_ARCH__)
template <u32 BITS> __device__ inline u32 shift_if_negative(u32 x, float number) { asm("{.reg .pred p; setp.lt.f32 p, %1, 0f00000000; @p shl.b32 %0, %0, %2;}" : "+r"(x) : "f"(number), "n"(BITS)); return x; }
#endif
template <u32 BITS, typename T> __device__ inline u32 shift_if_negative(u32 x, T number) { return number < 0 ? x << BITS : x; }

#if defined(__CUDA_ARCH__)
// x - 2 y, by one instruction.
__device__ inline u32 minus_twice(u32 x, u32 y) { asm("mad.lo.u32 %0, %1, -2, %0;" : "+r"(x) : "r"(y)); return x; }
#endif

// 1 where a comparison of two numbers holds, else 0.
#if defined(__CUDA_ARCH__)
__device__ inline float one_if_greater(float x, float y) { float one; asm("set.gt.f32.f32 %0, %1, %2;" : "=f"(one) : "f"(x), "f"(y)); return one; }
__device__ inline float one_if_at_most(float x, float y) { float one; asm("set.le.f32.f32 %0, %1, %2;" : "=f"(one) : "f"(x), "f"(y)); return one; }
#endif

// Counts in how many threads conditions hold, up to MOST comparisons of f32 of each thread before `carry`, or 2^24 others. AMD's scalar unit counts the bits of a comparison's mask in parallel with the vector unit: there the count is that of the
// wavefront, all lanes of which must take part each time. On NVIDIA's GPUs one instruction compares two floats and gives 1.0, whose pattern is 127 x 2^23, and one instruction adds two such patterns: the sum
// distinguishes up to 511 of them. Other conditions are predicates, which add to a float.
struct LaneCount {
    enum { MOST = 511 };
    u32 count;
#if defined(__CUDA_ARCH__)
    u32 ones; // the sum of the patterns of 1.0
    float part;
    __device__ void clear() { count = ones = 0, part = 0; }
    __device__ void add(bool x) { if (x) part += 1.0f; }
    template <typename T> __device__ void add_greater(T x, T y) {
        if constexpr (sizeof(T) == 4) ones += bits_of(one_if_greater(x, y));
        else add(x > y);
    }
    template <typename T> __device__ void add_at_most(T x, T y) {
        if constexpr (sizeof(T) == 4) ones += bits_of(one_if_at_most(x, y));
        else add(x <= y);
    }
    // 127 x 383 = 1 modulo 512.
    __device__ void carry() { count += (u32)part + (ones * 383 >> 23), ones = 0, part = 0; }
    __device__ void keep() {}
    __device__ u32 own() const { return count; }
#else
    template <typename T> __device__ void add_greater(T x, T y) { add(x > y); }
    template <typename T> __device__ void add_at_most(T x, T y) { add(x <= y); }
    __device__ void carry() {}
#if defined(__AMDGCN__)
    __device__ void clear() { count = 0; }
    __device__ void add(bool x) { count += (u32)__popcll(__ballot(x)); }
    __device__ void keep() { make_now(count); }
    __device__ u32 own() const { return threadIdx.x % warpSize == 0 ? count : 0; }
#else
    __device__ void clear() { count = 0; }
    __device__ void add(bool x) { count += x; }
    __device__ void keep() {}
    __device__ u32 own() const { return count; }
#endif
#endif
};
