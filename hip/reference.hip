// The references of the Rust crate (`reference`): every element adds its products in the stated order, from zero. Each thread
// takes its elements' products from the first to the last, so the bits depend only on the operands.
//
//   reference_widen     operands of any format and layout become dense arrays of what the sums compute with
//   reference_<sum>     the sums, as f64
//   reference_finish    alpha, beta, bias, epilogue, and the one rounding to the format of the result
#include <hip/hip_runtime.h>

#include "any.h"
#include "reference_sums.h"

namespace {
constexpr int THREADS = 256;

// The products of one element, one after the other. All lanes advance together.
struct Walk {
    const ReferenceSums &p;
    u64 left, source, other; // remaining products; offsets of the channel
    u64 source_offset[3], other_offset[3];
    u32 at[3], channel;
    i32 base[3];
    bool ok[3];
    u64 source_place, other_place; // sums of the offsets: most steps keep them, as they keep whether all are `ok`
    bool within;

    __device__ inline Walk(const ReferenceSums &reference, const i32 (&start)[3]) : p(reference) {
        left = (u64)p.channels * p.window[0] * p.window[1] * p.window[2];
        source = other = 0;
        channel = 0;
#pragma unroll
        for (int d = 0; d < 3; ++d) base[d] = start[d];
        move<0>(0);
        move<1>(0);
        move<2>(0);
        update_places();
    }

    // With constant subscripts all of this stays in registers.
    template <int d> __device__ inline void move(u32 to) {
        at[d] = to;
        const i32 scaled = base[d] + (i32)to * p.step[d];
        const u32 position = p.divide[d] == 1 ? (u32)scaled : (u32)scaled / p.divide[d];
        ok[d] = scaled >= 0 && position < p.positions[d] && position * p.divide[d] == (u32)scaled;
        source_offset[d] = position * p.source_space[d];
        other_offset[d] = to * p.other_space[d];
    }

    __device__ inline void update_places() {
        within = ok[0] && ok[1] && ok[2];
        source_place = source_offset[0] + source_offset[1] + source_offset[2];
        other_place = other_offset[0] + other_offset[1] + other_offset[2];
    }

    __device__ inline u64 source_at() const { return source + source_place; }
    __device__ inline u64 other_at() const { return other + other_place; }

    // One step along a dimension of the window; returns false after stepping back to its start.
    template <int d> __device__ inline bool advance() {
        const bool more = at[d] + 1 < p.window[d];
        if (more || at[d] != 0) move<d>(more ? at[d] + 1 : 0);
        return more;
    }

    // Advances to the next position of the window; returns whether the window begins again.
    __device__ inline bool turn() {
        const bool again = !(advance<2>() || advance<1>() || advance<0>());
        update_places();
        return again;
    }

    // Each call is in the code once: GROUP steps are inlined.
    __device__ inline void next() {
        --left;
        bool next_channel = p.channels_last && channel + 1 < p.channels;
        if (!next_channel) {
            const bool again = turn();
            if (p.channels_last) channel = 0, source = other = 0;
            else next_channel = again;
        }
        if (!next_channel) return;
        ++channel;
        source += p.source_channel;
        other += p.other_channel;
    }
};

// What a thread sums up: N elements along the dimension `rows`, `valid` of which exist, with the offsets of the first one.
template <int N> struct Part {
    u64 to = 0, source = 0, other = 0;
    i32 base[3] = {0, 0, 0};
    u32 valid = 1;

    // The divisions are long, so there is one copy of them. `base` moves up by one each time, so its subscripts are constant.
    __device__ inline Part(const ReferenceSums &p, u64 index) {
#pragma unroll 1
        for (int d = 5; d >= 0; --d) {
            const bool rows = d == (int)p.rows;
            const u64 extent = rows ? (p.extent[d] + (N - 1)) / N : p.extent[d];
            const u64 at = index % extent * (rows ? N : 1);
            index /= extent;
            if (rows) valid = p.extent[d] - (u32)at < N ? p.extent[d] - (u32)at : N;
            to += at * p.to_at[d];
            source += at * p.source_at[d];
            other += at * p.other_at[d];
            if (d < 3) continue;
            base[2] = base[1];
            base[1] = base[0];
            base[0] = (i32)at * p.base_step[d - 3] + p.base_add[d - 3];
        }
    }
};

// Products are loaded into the last positions of a group, a few at a time: the code that advances is long and therefore exists for only those few, and all
// subscripts are constant. Before the next products are loaded, those already there move down as a binary counter carries: SIZE of them, if
// `loaded` is an odd multiple of SIZE.
template <int SIZE, typename WIDE, int GROUP, int N> __device__ inline void move_down(int loaded, WIDE (&a)[GROUP], WIDE (&b)[GROUP][N]) {
    if constexpr (SIZE < GROUP) {
        if (loaded % (2 * SIZE) == SIZE) {
#pragma unroll
            for (int k = GROUP - 2 * SIZE; k < GROUP - SIZE; ++k) {
                a[k] = a[k + SIZE];
#pragma unroll
                for (int i = 0; i < N; ++i) b[k][i] = b[k + SIZE][i];
            }
        }
        move_down<2 * SIZE>(loaded, a, b);
    }
}

template <typename SUM, int N> __device__ inline void run(const ReferenceSums &p) {
    typedef typename SUM::Input Input;
    typedef typename SUM::Wide Wide;
    constexpr int GROUP = SUM::GROUP, AT_A_TIME = GROUP < 4 ? GROUP : 4;
    const Wide zero = SUM::wide(SUM::zero(p.source_dtype));
    const u64 other_step = p.rows == 1 ? p.other_at[1] : p.other_at[2], to_step = p.rows == 1 ? p.to_at[1] : p.to_at[2];
    const u64 grid = (u64)gridDim.x * THREADS;
    for (u64 index = (u64)blockIdx.x * THREADS + threadIdx.x; index < p.count; index += grid) {
        const Part<N> part(p, index);
        const Input *const source = (const Input *)p.source + part.source;
        const Input *other[N];
#pragma unroll
        for (int i = 0; i < N; ++i) other[i] = (const Input *)p.other + part.other + (i < (int)part.valid ? i : 0) * other_step;
        SUM sum(p);
        Walk walk(p, part.base);
        while (walk.left != 0) {
            const bool left_out = GROUP == 1 && p.inside && !walk.within;
            Wide a[GROUP], b[GROUP][N];
#pragma unroll 1
            for (int loaded = 0; loaded < GROUP; loaded += AT_A_TIME) {
                move_down<AT_A_TIME>(loaded, a, b);
#pragma unroll
                for (int k = GROUP - AT_A_TIME; k < GROUP; ++k) {
                    const bool some = GROUP == 1 || walk.left != 0;
                    a[k] = some && walk.within ? SUM::wide(source[walk.source_at()]) : zero;
#pragma unroll
                    for (int i = 0; i < N; ++i) b[k][i] = some ? SUM::wide(other[i][walk.other_at()]) : zero;
                    if (some) walk.next();
                }
            }
            if (!left_out) sum.step(a, b);
        }
#pragma unroll
        for (int i = 0; i < N; ++i) {
            if (i < (int)part.valid) p.to[part.to + i * to_step] = sum.result(i);
        }
    }
}
} // namespace

// Two kernels: one element per thread, and several elements that share their source. Tensor cores, whose rules take long to compile, have only the first.
#define PLAIN(NAME, SUM) \
    extern "C" __global__ void __launch_bounds__(THREADS) reference_##NAME##_one(ReferenceSums p) { run<SUM<1>, 1>(p); } \
    extern "C" __global__ void __launch_bounds__(THREADS) reference_##NAME##_rows(ReferenceSums p) { run<SUM<8>, 8>(p); }
#define TENSOR_CORE(NAME, ...) \
    extern "C" __global__ void __launch_bounds__(THREADS) reference_##NAME##_one(ReferenceSums p) { run<SumModel<__VA_ARGS__, 1>, 1>(p); }
#define MODEL(NAME, ...) \
    TENSOR_CORE(NAME, __VA_ARGS__) \
    extern "C" __global__ void __launch_bounds__(THREADS) reference_##NAME##_rows(ReferenceSums p) { run<SumModel<__VA_ARGS__, 4>, 4>(p); }

PLAIN(f64, SumF64)
PLAIN(rounded, SumRounded)
PLAIN(every4, SumEvery4)
PLAIN(groups4, SumGroups4)
PLAIN(f32, SumF32)
PLAIN(f32_fma, SumF32Fma)
MODEL(gfx908_f16, Gfx908<4>)
MODEL(gfx908_bf16, Gfx908<2>)
MODEL(gfx90a_f16, Gfx90aF16)
MODEL(gfx90a_bf16, Gfx90aBf16<2>)
MODEL(gfx90a_bf16_1k, Gfx90aBf16<4>)
MODEL(gfx942_groups4, Gfx942<4, false>)
MODEL(gfx942_groups8, Gfx942<8, false>)
MODEL(gfx942_halves, Gfx942<16, true>)
TENSOR_CORE(tensor_core_groups4, TensorCore<4>)
TENSOR_CORE(tensor_core_groups8, TensorCore<8>)
TENSOR_CORE(tensor_core_groups16, TensorCore<16>)
TENSOR_CORE(tensor_core_groups32, TensorCore<32>)
TENSOR_CORE(tensor_core_emulated_fp8, EmulatedFp8)

extern "C" __global__ void __launch_bounds__(THREADS) reference_widen(ReferenceWiden p) {
    const u64 grid = (u64)gridDim.x * THREADS;
    for (u64 i = (u64)blockIdx.x * THREADS + threadIdx.x; i < p.count; i += grid) {
        double x = any_decode(p.tensor.dtype, any_load(p.from, p.tensor.dtype, any_place(p.tensor, i)));
        if (fabs(x) < p.least) x = 0.0;
        if (p.magnitude) x = fabs(x);
        if (p.magnitude && x > 0.0 && x < p.raised) x = p.raised;
        if (p.to_double) {
            ((double *)p.to)[i] = x;
            continue;
        }
        const float single = (float)x;
        u32 word = bits_of(single);
        if (p.prepare == AS_GFX90A_F16) word = bits_of(Gfx90aF16::prepare(single, 0));
        else if (p.prepare == AS_GFX90A_BF16) word = bits_of(Gfx90aBf16<4>::prepare(single, BF16));
        else if (p.prepare == AS_BF16_NEAREST) word = bits_of(Gfx90aBf16<4>::prepare(single, F16));
        else if (p.prepare == AS_BF16_CUT) word = bits_of(Gfx90aBf16<4>::prepare(single, F16_CUT));
        else if (p.prepare == AS_WORDS) word = MatrixCoreWords::prepare(single, p.tensor.dtype);
        ((u32 *)p.to)[i] = word;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) reference_finish(ReferenceFinish p) {
    const u64 grid = (u64)gridDim.x * THREADS;
    for (u64 i = (u64)blockIdx.x * THREADS + threadIdx.x; i < p.count; i += grid) {
        double x = p.sums[i];
        if (p.single) x = (double)(float)x;
        // As in BLAS, with an alpha of 0 nothing of A and B counts, not even infinities.
        if (p.scaled) x = p.alpha == 0 ? 0 : x * p.alpha;
        if (p.c) {
            const double more = p.beta * p.c[i % p.area];
            x = x + more;
        }
        if (p.bias) x = x + p.bias[i % p.columns];
        if (p.epilogue == RELU && x < 0.0) x = 0.0;
        if (p.epilogue == CLAMP) x = x < p.low ? p.low : x > p.high ? p.high : x;
        if (x != x) x = f64_of(0x7ff8000000000000ull);
        any_store(p.to, p.tensor.dtype, any_place(p.tensor, i), encode_any(p.tensor.dtype, x, false, false));
    }
}
