// NVIDIA's matrix instructions, as PTX: what tensor cores compute. Elsewhere this file is empty.
//
// mma_<shape>_<C>_<A>_<B>: the one warp of a block issues a chain of the instruction. A, B, C and D are images of the register file, word r * 32 + lane: register r of
// each lane. `matrix_core::Mma` in the Rust crate says which element lies where.
#include <hip/hip_runtime.h>

#include "formats.h"

#if defined(__CUDACC__)
namespace {
// The registers of an operand in one lane.
template <int N> struct Fragment {
    u32 word[N];
    __device__ inline void load(const u32 *image, u32 number) {
#pragma unroll
        for (int r = 0; r < N; ++r) word[r] = image[((u64)number * N + r) * 32 + threadIdx.x];
    }
    __device__ inline void store(u32 *image, u32 number) const {
#pragma unroll
        for (int r = 0; r < N; ++r) image[((u64)number * N + r) * 32 + threadIdx.x] = word[r];
    }
};
} // namespace

// Accumulators of f32 are registers of that type in PTX.
#define ACCUMULATOR_F32(C) "+f"(C[0]), "+f"(C[1]), "+f"(C[2]), "+f"(C[3])
// The statement for the given numbers of registers of A, B, and C and D.
#define ISSUE_4_2_4(PTX)                                                                                                                      \
    asm volatile(PTX " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"                                                                 \
                 : ACCUMULATOR_F32(f)                                                                                                         \
                 : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]), "r"(b.word[0]), "r"(b.word[1]))
#define ISSUE_2_1_4(PTX)                                                                                                                      \
    asm volatile(PTX " {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"                                                                          \
                 : ACCUMULATOR_F32(f)                                                                                                         \
                 : "r"(a.word[0]), "r"(a.word[1]), "r"(b.word[0]))
#define ISSUE_4_2_2(PTX)                                                                                                                      \
    asm volatile(PTX " {%0,%1}, {%2,%3,%4,%5}, {%6,%7}, {%0,%1};"                                                                             \
                 : "+r"(c.word[0]), "+r"(c.word[1])                                                                                           \
                 : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]), "r"(b.word[0]), "r"(b.word[1]))
#define ISSUE_2_1_2(PTX)                                                                                                                      \
    asm volatile(PTX " {%0,%1}, {%2,%3}, {%4}, {%0,%1};" : "+r"(c.word[0]), "+r"(c.word[1]) : "r"(a.word[0]), "r"(a.word[1]), "r"(b.word[0]))

// C is SHAPE's result, f32 or f16; REGISTERS_A, _B and _C are those of an operand in a lane.
#define MMA(SHAPE, C, A, B, REGISTERS_A, REGISTERS_B, REGISTERS_C)                                                                            \
    extern "C" __global__ void __launch_bounds__(32) mma_##SHAPE##_##C##_##A##_##B(MfmaIssue p) {                                             \
        Fragment<REGISTERS_A> a;                                                                                                              \
        Fragment<REGISTERS_B> b;                                                                                                              \
        Fragment<REGISTERS_C> c;                                                                                                              \
        c.load(p.c, blockIdx.x);                                                                                                              \
        for (u32 s = 0; s < p.steps; ++s) {                                                                                                   \
            a.load(p.a, blockIdx.x * p.steps + s);                                                                                            \
            b.load(p.b, blockIdx.x * p.steps + s);                                                                                            \
            float f[REGISTERS_C];                                                                                                             \
            for (int r = 0; r < REGISTERS_C; ++r) f[r] = f32_of(c.word[r]);                                                                   \
            ISSUE_##REGISTERS_A##_##REGISTERS_B##_##REGISTERS_C("mma.sync.aligned." #SHAPE ".row.col." #C "." #A "." #B "." #C);              \
            if (REGISTERS_C == 4) {                                                                                                           \
                for (int r = 0; r < REGISTERS_C; ++r) c.word[r] = bits_of(f[r]);                                                              \
            }                                                                                                                                 \
        }                                                                                                                                     \
        c.store(p.d, blockIdx.x);                                                                                                             \
    }

// nvcc's pass for the host, which makes no code here, sees all of them.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 750
MMA(m16n8k8, f32, f16, f16, 2, 1, 4)
MMA(m16n8k8, f16, f16, f16, 2, 1, 2)
#endif
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
MMA(m16n8k16, f32, f16, f16, 4, 2, 4)
MMA(m16n8k16, f16, f16, f16, 4, 2, 2)
MMA(m16n8k8, f32, bf16, bf16, 2, 1, 4)
MMA(m16n8k16, f32, bf16, bf16, 4, 2, 4)
MMA(m16n8k4, f32, tf32, tf32, 2, 1, 4)
MMA(m16n8k8, f32, tf32, tf32, 4, 2, 4)
#endif
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 890
MMA(m16n8k32, f32, e4m3, e4m3, 4, 2, 4)
MMA(m16n8k32, f32, e4m3, e5m2, 4, 2, 4)
MMA(m16n8k32, f32, e5m2, e4m3, 4, 2, 4)
MMA(m16n8k32, f32, e5m2, e5m2, 4, 2, 4)
MMA(m16n8k32, f16, e4m3, e4m3, 4, 2, 2)
MMA(m16n8k32, f16, e4m3, e5m2, 4, 2, 2)
MMA(m16n8k32, f16, e5m2, e4m3, 4, 2, 2)
MMA(m16n8k32, f16, e5m2, e5m2, 4, 2, 2)
#endif
#endif
