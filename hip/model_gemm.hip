// C += A * B through the models of matrix_core.h: each element walks k upward in groups, as a chain of instructions does.
#include <hip/hip_runtime.h>

#include "matrix_core.h"

struct ModelGemm {
    const u16 *a; // m x k, row-major
    const u16 *b; // k x n, row-major
    float *c;     // m x n, row-major
    u32 m, n, k;
    u32 blocks_n; // tiles in a row of C
};

namespace {
constexpr int TILE = 128;   // rows and columns of C of a block
constexpr int DEPTH = 16;   // of k at a time; a multiple of every group
constexpr int THREADS = 256;
constexpr int EACH = 8;     // rows and columns of a thread

// Rows 4 apart in pairs of halves, so that the lanes of a wavefront read neighbouring words.
__device__ inline int place(int t, int i) { return i / 4 * (TILE / 2) + t * 4 + i % 4; }

template <typename RULE> __device__ inline void run(const ModelGemm &p) {
    __shared__ float a_tile[DEPTH][TILE + 4];
    __shared__ float b_tile[DEPTH][TILE];
    const int t = threadIdx.x, across = t % 16, down = t / 16;
    const u32 row0 = blockIdx.x / p.blocks_n * TILE, column0 = blockIdx.x % p.blocks_n * TILE;
    float acc[EACH][EACH];
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
#pragma unroll
        for (int j = 0; j < EACH; ++j) {
            const u32 r = row0 + place(down, i), c = column0 + place(across, j);
            acc[i][j] = RULE::accept(r < p.m && c < p.n ? p.c[(u64)r * p.n + c] : 0.0f);
        }
    }
    for (u32 k0 = 0; k0 < p.k; k0 += DEPTH) {
#pragma unroll
        for (int s = 0; s < DEPTH * TILE / THREADS; ++s) {
            const int x = s * THREADS + t;
            const u32 ka = k0 + x % DEPTH, r = row0 + x / DEPTH;
            a_tile[x % DEPTH][x / DEPTH] = r < p.m && ka < p.k ? RULE::prepare(RULE::widen(p.a[(u64)r * p.k + ka])) : 0.0f;
            const u32 kb = k0 + x / TILE, c = column0 + x % TILE;
            b_tile[x / TILE][x % TILE] = c < p.n && kb < p.k ? RULE::prepare(RULE::widen(p.b[(u64)kb * p.n + c])) : 0.0f;
        }
        __syncthreads();
        // Only as many groups as the last one, padded with zeros, needs: a group of zeros may change the sign of a zero.
        const int depth = p.k - k0 < DEPTH ? (int)(p.k - k0) : DEPTH;
        for (int g = 0; g < depth; g += RULE::GROUP) {
            float b[RULE::GROUP][EACH];
#pragma unroll
            for (int k = 0; k < RULE::GROUP; ++k) {
#pragma unroll
                for (int j = 0; j < EACH; ++j) b[k][j] = b_tile[g + k][place(across, j)];
            }
#pragma unroll
            for (int i = 0; i < EACH; ++i) {
                float a[RULE::GROUP];
#pragma unroll
                for (int k = 0; k < RULE::GROUP; ++k) a[k] = a_tile[g + k][place(down, i)];
                RULE::row(acc[i], a, b);
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
#pragma unroll
        for (int j = 0; j < EACH; ++j) {
            const u32 r = row0 + place(down, i), c = column0 + place(across, j);
            if (r < p.m && c < p.n) p.c[(u64)r * p.n + c] = MatrixCore::canonical(acc[i][j]);
        }
    }
}
} // namespace

#define MODEL_GEMM(NAME, ...) \
    extern "C" __global__ void __launch_bounds__(THREADS) model_gemm_##NAME(ModelGemm p) { run<__VA_ARGS__>(p); }

MODEL_GEMM(gfx908_f16, Gfx908<4>)
MODEL_GEMM(gfx908_bf16, Gfx908<2>)
MODEL_GEMM(gfx90a_f16, Gfx90aF16)
MODEL_GEMM(gfx90a_bf16, Gfx90aBf16<2>)
MODEL_GEMM(gfx90a_bf16_1k, Gfx90aBf16<4>)
