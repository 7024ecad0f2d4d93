// The real matrix instructions, through the compiler's builtins: gfx908, gfx90a and gfx942. Elsewhere this file is empty.
//
// mfma_<instruction>: the one wavefront of a block issues a chain of the instruction. A, B, C and D are images of the register file,
// word r * 64 + lane: register r of each lane. `matrix_core` in the Rust crate says which element lies where.
//
// mfma_gemm_*: C += A * B, row-major, by chains of one instruction; a wavefront computes a tile of C.
#include <hip/hip_runtime.h>

#include "formats.h"

#if defined(__gfx942__) || defined(__gfx941__) || defined(__gfx940__)
#define CDNA 3
#elif defined(__gfx90a__)
#define CDNA 2
#elif defined(__gfx908__)
#define CDNA 1
#else
#define CDNA 0
#endif

#if CDNA
namespace {
template <typename T> union Words {
    T value;
    u32 words[sizeof(T) / 4];
};

template <typename T> __device__ inline T load(const u32 *image, u32 number) {
    constexpr u32 count = sizeof(T) / 4;
    Words<T> x;
#pragma unroll
    for (u32 r = 0; r < count; ++r) x.words[r] = image[((u64)number * count + r) * 64 + threadIdx.x];
    return x.value;
}

template <typename T> __device__ inline void store(u32 *image, u32 number, T value) {
    constexpr u32 count = sizeof(T) / 4;
    Words<T> x;
    x.value = value;
#pragma unroll
    for (u32 r = 0; r < count; ++r) image[((u64)number * count + r) * 64 + threadIdx.x] = x.words[r];
}
} // namespace

// NAME, the types of A and B, the type of C and D.
#define MFMA(NAME, AB, CD)                                                                                               \
    extern "C" __global__ void __launch_bounds__(64) mfma_##NAME(MfmaIssue p) {                                              \
        CD c = load<CD>(p.c, blockIdx.x);                                                                                \
        for (u32 s = 0; s < p.steps; ++s) {                                                                              \
            const u32 number = blockIdx.x * p.steps + s;                                                                 \
            c = __builtin_amdgcn_mfma_##NAME(load<AB>(p.a, number), load<AB>(p.b, number), c, 0, 0, 0);                   \
        }                                                                                                                \
        store<CD>(p.d, blockIdx.x, c);                                                                                   \
    }

typedef VECTOR(float, 4) F4;
typedef VECTOR(float, 16) F16x;
typedef VECTOR(float, 32) F32x;
typedef VECTOR(int, 4) I4x;
typedef VECTOR(int, 16) I16x;
typedef VECTOR(int, 32) I32x;
typedef VECTOR(_Float16, 4) H4;
typedef VECTOR(short, 2) B2;
typedef VECTOR(short, 4) B4;
typedef VECTOR(float, 2) X2;
typedef VECTOR(double, 4) D4;

MFMA(f32_32x32x1f32, float, F32x)
MFMA(f32_16x16x1f32, float, F16x)
MFMA(f32_4x4x1f32, float, F4)
MFMA(f32_32x32x2f32, float, F16x)
MFMA(f32_16x16x4f32, float, F4)
MFMA(f32_32x32x4f16, H4, F32x)
MFMA(f32_16x16x4f16, H4, F16x)
MFMA(f32_4x4x4f16, H4, F4)
MFMA(f32_32x32x8f16, H4, F16x)
MFMA(f32_16x16x16f16, H4, F4)
MFMA(i32_32x32x4i8, int, I32x)
MFMA(i32_16x16x4i8, int, I16x)
MFMA(i32_4x4x4i8, int, I4x)
#if CDNA < 3
MFMA(f32_32x32x2bf16, B2, F32x)
MFMA(f32_16x16x2bf16, B2, F16x)
MFMA(f32_4x4x2bf16, B2, F4)
MFMA(f32_32x32x4bf16, B2, F16x)
MFMA(f32_16x16x8bf16, B2, F4)
MFMA(i32_32x32x8i8, int, I16x)
MFMA(i32_16x16x16i8, int, I4x)
#endif
#if CDNA > 1
MFMA(f32_32x32x4bf16_1k, B4, F32x)
MFMA(f32_16x16x4bf16_1k, B4, F16x)
MFMA(f32_4x4x4bf16_1k, B4, F4)
MFMA(f32_32x32x8bf16_1k, B4, F16x)
MFMA(f32_16x16x16bf16_1k, B4, F4)
MFMA(f64_16x16x4f64, double, D4)
MFMA(f64_4x4x4f64, double, double)
#endif
#if CDNA == 3
MFMA(f32_16x16x8_xf32, X2, F4)
MFMA(f32_32x32x4_xf32, X2, F16x)
MFMA(f32_16x16x32_fp8_fp8, long, F4)
MFMA(f32_16x16x32_fp8_bf8, long, F4)
MFMA(f32_16x16x32_bf8_fp8, long, F4)
MFMA(f32_16x16x32_bf8_bf8, long, F4)
MFMA(f32_32x32x16_fp8_fp8, long, F16x)
MFMA(f32_32x32x16_fp8_bf8, long, F16x)
MFMA(f32_32x32x16_bf8_fp8, long, F16x)
MFMA(f32_32x32x16_bf8_bf8, long, F16x)
MFMA(i32_16x16x32_i8, long, I4x)
MFMA(i32_32x32x16_i8, long, I16x)
#endif

namespace {
// 16-bit elements of A or B for one lane: element (outer, k + i) for i below N, zero outside.
template <typename T, int N> __device__ inline T gather(const u16 *from, u32 outer, u32 outers, u64 outer_step, u32 k, u32 depth, u64 k_step) {
    union {
        T value;
        u16 halves[N];
    } x;
#pragma unroll
    for (u32 i = 0; i < N; ++i) x.halves[i] = outer < outers && k + i < depth ? from[outer * outer_step + (k + i) * k_step] : 0;
    return x.value;
}

// The C of a 32 x 32 tile: lane l has column l % 32 and rows 8 * (r / 4) + 4 * (l / 32) + r % 4 in registers r.
__device__ inline u32 row_of(u32 r, u32 lane) { return r / 4 * 8 + lane / 32 * 4 + r % 4; }

struct MfmaF16 {
    typedef H4 T;
    static constexpr int EACH = 4;
    static __device__ inline F16x issue(T a, T b, F16x c) { return __builtin_amdgcn_mfma_f32_32x32x8f16(a, b, c, 0, 0, 0); }
};
#if CDNA > 1
struct MfmaBf16 {
    typedef B4 T;
    static constexpr int EACH = 4;
    static __device__ inline F16x issue(T a, T b, F16x c) { return __builtin_amdgcn_mfma_f32_32x32x8bf16_1k(a, b, c, 0, 0, 0); }
};
#else
struct MfmaBf16 {
    typedef B2 T;
    static constexpr int EACH = 2;
    static __device__ inline F16x issue(T a, T b, F16x c) { return __builtin_amdgcn_mfma_f32_32x32x4bf16(a, b, c, 0, 0, 0); }
};
#endif

template <typename RULE> __device__ inline void gemm(const MfmaGemm &p) {
    const u32 lane = threadIdx.x % 64, outer = lane % 32, half = lane / 32;
    const u32 row0 = blockIdx.x / p.tiles_n * 32, column0 = blockIdx.x % p.tiles_n * 32;
    F16x c;
#pragma unroll
    for (u32 r = 0; r < 16; ++r) {
        const u32 row = row0 + row_of(r, lane), column = column0 + outer;
        c[r] = row < p.m && column < p.n ? p.c[(u64)row * p.n + column] : 0.0f;
    }
    for (u32 k = 0; k < p.k; k += 2 * RULE::EACH) {
        const u32 mine = k + half * RULE::EACH;
        typedef typename RULE::T T;
        const T a = gather<T, RULE::EACH>(p.a, row0 + outer, p.m, p.k, mine, p.k, 1);
        const T b = gather<T, RULE::EACH>(p.b, column0 + outer, p.n, 1, mine, p.k, p.n);
        c = RULE::issue(a, b, c);
    }
#pragma unroll
    for (u32 r = 0; r < 16; ++r) {
        const u32 row = row0 + row_of(r, lane), column = column0 + outer;
        if (row < p.m && column < p.n) p.c[(u64)row * p.n + column] = c[r];
    }
}
} // namespace

extern "C" __global__ void __launch_bounds__(64) mfma_gemm_f16(MfmaGemm p) { gemm<MfmaF16>(p); }
extern "C" __global__ void __launch_bounds__(64) mfma_gemm_bf16(MfmaGemm p) { gemm<MfmaBf16>(p); }
#endif
