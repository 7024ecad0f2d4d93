// What lanes do together, and how each platform counts and compares at least cost. A subgroup is 32 neighbouring threads of a block: a wavefront on NVIDIA,
// half of one on AMD's CDNA. Results never depend on which it is.
#pragma once
#include "formats.h"

constexpr u32 SUBGROUP = 32;

__device__ inline u32 lane_of() { return threadIdx.x % SUBGROUP; }

// Orders what the lanes of a subgroup wrote to shared memory before what they read after it.
__device__ inline void subgroup_barrier() {
#if defined(__AMDGCN__)
    // Wavefronts go in step: only the compiler must not reorder.
    __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront");
    __builtin_amdgcn_wave_barrier();
#else
    __syncwarp();
#endif
}

// Makes the compiler read shared memory again that other threads change. Not `volatile`: LLVM would no longer see whose address it is.
__device__ inline void compiler_barrier() { asm volatile("" ::: "memory"); }

// Makes a number before what follows. LLVM would move it behind a branch that does not use it, and keep what it is made of in registers meanwhile.
#if defined(__AMDGCN__)
__device__ inline void make_now(float &x) { asm volatile("" : "+v"(x)); }
__device__ inline void make_now(double &x) { asm volatile("" : "+v"(x)); }
// The same number in all lanes.
__device__ inline void make_now(u32 &x) { x = __builtin_amdgcn_readfirstlane(x); }
#else
template <typename T> __device__ inline void make_now(T &) {}
#endif

// The same number, of which the compiler knows nothing: it would keep conditions on it, which hardly any thread needs again, in registers.
#if defined(__CUDA_ARCH__)
__device__ inline float unknown(float x) { asm volatile("" : "+f"(x)); return x; }
#elif defined(__AMDGCN__)
__device__ inline float unknown(float x) { asm volatile("" : "+v"(x)); return x; }
#else
__device__ inline float unknown(float x) { return x; }
#endif

// Nobody reads what a register holds. LLVM would keep it for the lanes that a branch leaves out.
#if defined(__AMDGCN__)
__device__ inline void discard(u32 &x) { asm volatile("" : "=v"(x)); }
#else
__device__ inline void discard(u32 &) {}
#endif

// Bits of `low`, and of `high` above them, from bit `by` on: by the lowest five bits of it.
#if defined(__CUDA_ARCH__)
__device__ inline u32 shift_down(u32 low, u32 high, u32 by) { return __funnelshift_r(low, high, by); }
#elif defined(__AMDGCN__)
__device__ inline u32 shift_down(u32 low, u32 high, u32 by) { return __builtin_amdgcn_alignbit(high, low, by); }
#else
__device__ inline u32 shift_down(u32 low, u32 high, u32 by) { return (u32)(((u64)high << 32 | low) >> (by & 31)); }
#endif

// Whether the condition holds in any lane of the wavefront. All of its lanes must be there.
__device__ inline bool wavefront_any(bool x) { return __any(x); }

// The votes of a subgroup, a bit a lane.
__device__ inline u32 subgroup_votes(bool x) { return (u32)((u64)__ballot(x) >> (threadIdx.x % warpSize / SUBGROUP * SUBGROUP)); }

__device__ inline u32 subgroup_sum(u32 x) {
    for (u32 step = SUBGROUP / 2; step > 0; step /= 2) x += __shfl_xor(x, step, SUBGROUP);
    return x;
}

__device__ inline u64 subgroup_max(u64 x) {
    for (u32 step = SUBGROUP / 2; step > 0; step /= 2) {
        const u64 other = __shfl_xor(x, step, SUBGROUP);
        x = other > x ? other : x;
    }
    return x;
}

// 1 where a comparison of two numbers holds, else 0.
#if defined(__CUDA_ARCH__)
__device__ inline float one_if_greater(float x, float y) { float one; asm("set.gt.f32.f32 %0, %1, %2;" : "=f"(one) : "f"(x), "f"(y)); return one; }
__device__ inline float one_if_at_most(float x, float y) { float one; asm("set.le.f32.f32 %0, %1, %2;" : "=f"(one) : "f"(x), "f"(y)); return one; }
#endif

// Counts in how many threads conditions hold, up to MOST comparisons of f32 of each thread before `carry`, or 2^24 others. AMD's scalar unit counts the bits of a comparison's mask beside the vector unit: there the count is the
// wavefront's, whose lanes must be there together each time. NVIDIA's comparison of two floats makes 1.0 in one instruction, whose pattern is 127 x 2^23, and an instruction adds two patterns: their sum
// tells up to 511 of them apart. Other conditions are predicates, which add to a float.
struct LaneCount {
    enum { MOST = 511 };
    u32 count;
#if defined(__CUDA_ARCH__)
    u32 ones; // the sum of their patterns
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
