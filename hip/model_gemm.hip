// C += A * B through the models of matrix_core.h: each element takes the products in groups of ascending k, as a chain of instructions does.
#include <hip/hip_runtime.h>

#include "matrix_core.h"

namespace {
// How much of k is taken at a time: a multiple of the group.
template <typename RULE> constexpr int DEPTH_OF = RULE::GROUP > 16 ? RULE::GROUP : 16;
constexpr int THREADS = 256;

// Moves each row of accumulators to the position of the one before. So a loop over rows has its code once, and all subscripts are constant.
template <int EACH> __device__ inline void shift(float (&acc)[EACH][EACH]) {
#pragma unroll
    for (int i = 1; i < EACH; ++i) {
#pragma unroll
        for (int j = 0; j < EACH; ++j) acc[i - 1][j] = acc[i][j];
    }
}

// The same, and the first row goes to the end: after EACH times all rows are back at their positions.
template <int EACH> __device__ inline void rotate(float (&acc)[EACH][EACH]) {
    float first[EACH];
#pragma unroll
    for (int j = 0; j < EACH; ++j) first[j] = acc[0][j];
    shift(acc);
#pragma unroll
    for (int j = 0; j < EACH; ++j) acc[EACH - 1][j] = first[j];
}

// What a wavefront has seen of its part of a tile, each combined by the maximum: the least magnitude of A that is not zero
// (negated, so that a larger one is smaller; 0 for none), the largest, and both for B. Magnitudes order as their bits do.
struct Span {
    u32 word[4];
    __device__ inline void see(int first, float x) {
        const u32 magnitude = bits_of(x) & 0x7fffffffu;
        word[first] = most(word[first], 0u - magnitude);
        word[first + 1] = most(word[first + 1], magnitude);
    }
    __device__ inline void join(const Span &other) {
#pragma unroll
        for (int i = 0; i < 4; ++i) word[i] = most(word[i], other.word[i]);
    }
    static __device__ inline u32 most(u32 x, u32 y) { return x > y ? x : y; }
};

// The state of a thread's accumulators: all are multiples of 2^unit, and at most `bound` in magnitude.
struct Extent {
    i32 unit;
    double bound;

    // From the values of the accumulators: the largest magnitude, and the last bit of the smallest one's significand.
    template <int EACH> __device__ inline void measure(const float (&acc)[EACH][EACH]) {
        u32 most = 0, least = 0;
#pragma unroll
        for (int i = 0; i < EACH; ++i) {
#pragma unroll
            for (int j = 0; j < EACH; ++j) {
                const u32 magnitude = bits_of(acc[i][j]) & 0x7fffffffu;
                most = Span::most(most, magnitude);
                least = Span::most(least, 0u - magnitude);
            }
        }
        bound = (double)f32_of(most);
        const i32 field = (i32)((0u - least) >> 23);
        const i32 last = least == 0 ? 200 : (field ? field : 1) - 150;
        unit = last > unit ? last : unit;
    }
    // The first tile that needs `bound` computes it.
    template <int EACH> __device__ inline void start(float (&acc)[EACH][EACH]) {
        unit = 200;
        bound = (double)f32_of(0x7f800000u);
#pragma unroll 1
        for (int i = 0; i < EACH; ++i) {
#pragma unroll
            for (int j = 0; j < EACH; ++j) {
                const u32 bits = bits_of(acc[0][j]) & 0x7fffffffu;
                const i32 field = (i32)(bits >> 23);
                const u32 significand = (bits & 0x7fffffu) | (field ? 0x800000u : 0);
                const i32 last = (field ? field : 1) - 150 + (i32)__ffs((int)significand) - 1;
                if (significand != 0 && last < unit) unit = last;
            }
            rotate(acc);
        }
    }
    // Whether the next tile allows the short form; updates the state for the accumulators after that tile.
    template <typename RULE, int EACH> __device__ inline bool tame(const Span &span, const float (&acc)[EACH][EACH]) {
        const float most_a = f32_of(span.word[1]), most_b = f32_of(span.word[3]);
        const i32 now = RULE::quantum(0u - span.word[0]) + RULE::quantum(0u - span.word[2]);
        // A little more than the sum of all magnitudes, to include what rounding to f32 adds.
        const double added = (double)most_a * (double)most_b * DEPTH_OF<RULE>;
        bool short_form = RULE::tame(now < unit ? now : unit, (bound + added) * 1.00001, most_a, most_b);
        if (!short_form) {
            measure(acc);
            short_form = RULE::tame(now < unit ? now : unit, (bound + added) * 1.00001, most_a, most_b);
        }
        // Rounding keeps a multiple a multiple, in this tile and all that follow.
        unit = now < unit ? now : unit;
        bound = (bound + added) * 1.00001;
        return short_form;
    }
};

// Rows in parts that are 4 apart (2, if a thread has no more), so that the lanes of a wavefront read neighbouring words.
template <int EACH> __device__ inline int place(int t, int i) {
    constexpr int TOGETHER = EACH < 4 ? EACH : 4;
    return i / TOGETHER * (16 * TOGETHER) + t * TOGETHER + i % TOGETHER;
}

// One group of products into a row of accumulators: factors a[k] from `column` of the tile.
template <typename RULE, bool TAME, int EACH, int ROW>
__device__ inline void tile_row(const TensorCoreRule &rule, float (&acc)[EACH], const typename RULE::Input (*a_tile)[ROW], int column,
                                const typename RULE::Wide (&b)[RULE::GROUP][EACH]) {
    typename RULE::Wide a[RULE::GROUP];
#pragma unroll
    for (int k = 0; k < RULE::GROUP; ++k) a[k] = RULE::wide(a_tile[k][column]);
    RULE::template row<TAME>(rule, acc, a, b);
}

template <typename RULE, bool TAME, int EACH, int DEPTH, int ROW_A, int ROW_B>
__device__ inline void tile(const TensorCoreRule &rule, float (&acc)[EACH][EACH], const typename RULE::Input (&a_tile)[DEPTH][ROW_A],
                            const typename RULE::Input (&b_tile)[DEPTH][ROW_B], int down, int across, int depth) {
    for (int g = 0; g < depth; g += RULE::GROUP) {
        typename RULE::Wide b[RULE::GROUP][EACH];
#pragma unroll
        for (int k = 0; k < RULE::GROUP; ++k) {
#pragma unroll
            for (int j = 0; j < EACH; ++j) b[k][j] = RULE::wide(b_tile[g + k][place<EACH>(across, j)]);
        }
        if constexpr (RULE::LONG && !TAME) {
            // Each element takes many instructions; in comparison, those that move accumulators are few.
#pragma unroll 1
            for (int i = 0; i < EACH; ++i) {
                tile_row<RULE, TAME>(rule, acc[0], a_tile + g, place<EACH>(down, i), b);
                rotate(acc);
            }
        } else {
#pragma unroll
            for (int i = 0; i < EACH; ++i) tile_row<RULE, TAME>(rule, acc[i], a_tile + g, place<EACH>(down, i), b);
        }
    }
}

template <typename RULE> __device__ inline void run(const ModelGemm &p) {
    constexpr int EACH = RULE::EACH, TILE = 16 * EACH; // rows and columns of a thread, of a block
    constexpr int DEPTH = DEPTH_OF<RULE>;
    __shared__ typename RULE::Input a_tile[DEPTH][TILE + 4];
    __shared__ typename RULE::Input b_tile[DEPTH][TILE];
    __shared__ Span spans[THREADS / 32];
    const int t = threadIdx.x, across = t % 16, down = t / 16;
    const u32 row0 = blockIdx.x / p.blocks_n * TILE, column0 = blockIdx.x % p.blocks_n * TILE;
    float acc[EACH][EACH] = {};
#pragma unroll 1
    for (int i = 0; i < EACH; ++i) {
        shift(acc);
#pragma unroll
        for (int j = 0; j < EACH; ++j) {
            const u32 r = row0 + place<EACH>(down, i), c = column0 + place<EACH>(across, j);
            acc[EACH - 1][j] = RULE::accept(p.rule, r < p.m && c < p.n ? p.c[(u64)r * p.n + c] : 0.0f);
        }
    }
    Extent extent;
    if constexpr (RULE::WATCHES) extent.start(acc);
    for (u32 k0 = 0; k0 < p.k; k0 += DEPTH) {
        Span span = {{0, 0, 0, 0}};
        // If the format is known only at run time, loads wait for each other anyway.
#pragma unroll (RULE::EACH > 4 ? DEPTH * TILE / THREADS : 1)
        for (int s = 0; s < DEPTH * TILE / THREADS; ++s) {
            const int x = s * THREADS + t;
            const u32 ka = k0 + x % DEPTH, r = row0 + x / DEPTH;
            const float a = r < p.m && ka < p.k ? RULE::load(p.a, (u64)r * p.k + ka, p.dtype_a) : 0.0f;
            const u32 kb = k0 + x / TILE, c = column0 + x % TILE;
            const float b = c < p.n && kb < p.k ? RULE::load(p.b, (u64)kb * p.n + c, p.dtype_b) : 0.0f;
            const typename RULE::Input a_ready = RULE::prepare(a, p.dtype_a), b_ready = RULE::prepare(b, p.dtype_b);
            a_tile[x % DEPTH][x / DEPTH] = a_ready;
            b_tile[x / TILE][x % TILE] = b_ready;
            if constexpr (RULE::WATCHES) {
                span.see(0, a_ready);
                span.see(2, b_ready);
            }
        }
        if constexpr (RULE::WATCHES) {
            for (int d = warpSize / 2; d > 0; d /= 2) {
                Span other;
#pragma unroll
                for (int i = 0; i < 4; ++i) other.word[i] = (u32)__shfl_xor((int)span.word[i], d);
                span.join(other);
            }
            if (t % warpSize == 0) spans[t / warpSize] = span;
        }
        __syncthreads();
        // Only as many groups as the last one, padded with zeros, needs: a group of zeros may change the sign of a zero.
        const int depth = p.k - k0 < DEPTH ? (int)(p.k - k0) : DEPTH;
        if constexpr (RULE::WATCHES) {
            for (int w = 0; w < THREADS / warpSize; ++w) span.join(spans[w]);
            // If one lane needed the long form, its wavefront would have to execute both forms.
            if (__all(extent.tame<RULE>(span, acc))) {
                tile<RULE, true>(p.rule, acc, a_tile, b_tile, down, across, depth);
            } else {
                tile<RULE, false>(p.rule, acc, a_tile, b_tile, down, across, depth);
            }
        } else {
            tile<RULE, false>(p.rule, acc, a_tile, b_tile, down, across, depth);
        }
        __syncthreads();
    }
#pragma unroll 1
    for (int i = 0; i < EACH; ++i) {
#pragma unroll
        for (int j = 0; j < EACH; ++j) {
            const u32 r = row0 + place<EACH>(down, i), c = column0 + place<EACH>(across, j);
            if (r < p.m && c < p.n) p.c[(u64)r * p.n + c] = RULE::canonical(acc[0][j]);
        }
        shift(acc);
    }
}
} // namespace

#define MODEL_GEMM(NAME, ...) \
    extern "C" __global__ void __launch_bounds__(THREADS) model_gemm_##NAME(ModelGemm p) { run<__VA_ARGS__>(p); }

MODEL_GEMM(f32, MatrixCoreF32)
MODEL_GEMM(gfx908_f16, Gfx908<4>)
MODEL_GEMM(gfx908_bf16, Gfx908<2>)
MODEL_GEMM(gfx90a_f16, Gfx90aF16)
MODEL_GEMM(gfx90a_bf16, Gfx90aBf16<2>)
MODEL_GEMM(gfx90a_bf16_1k, Gfx90aBf16<4>)
MODEL_GEMM(gfx942_groups4, Gfx942<4, false>)
MODEL_GEMM(gfx942_groups8, Gfx942<8, false>)
MODEL_GEMM(gfx942_halves, Gfx942<16, true>)
MODEL_GEMM(tensor_core_groups4, TensorCore<4>)
MODEL_GEMM(tensor_core_groups8, TensorCore<8>)
MODEL_GEMM(tensor_core_groups16, TensorCore<16>)
MODEL_GEMM(tensor_core_groups32, TensorCore<32>)
MODEL_GEMM(tensor_core_emulated_fp8, EmulatedFp8)
