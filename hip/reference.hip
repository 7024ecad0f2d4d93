// The references of the Rust crate (`reference`): every element adds its products in the stated order, from zero. Each thread
// walks its elements from the first product to the last, so the bits depend on nothing but the operands.
//
//   reference_widen     operands of any format and layout become dense arrays of what the sums compute with
//   reference_<sum>     the sums, as f64
//   reference_finish    alpha, beta, bias, epilogue, and the one rounding to the format of the result
#include <hip/hip_runtime.h>

#include "any.h"
#include "reference_sums.h"

// What a matrix core does to an input before it multiplies; see `prepare` of the rules.
enum : u32 { AS_IT_IS = 0, AS_GFX90A_F16 = 1, AS_GFX90A_BF16 = 2, AS_GFX942 = 3, AS_BF16_NEAREST = 4, AS_BF16_CUT = 5 };

struct ReferenceWiden {
    AnyTensor tensor;
    const u8 *from;
    void *to;
    u64 count;
    double least;  // magnitudes below count as +0
    u32 to_double; // f64 rather than f32
    u32 magnitude; // without sign
    u32 prepare;
    u32 unused;
};

// A family of sums. The result has six dimensions; each product pairs an element of `other` with one of `source`, which lies
// at position (base + window * step) / divide of three spatial dimensions, or outside, where it is zero.
struct Reference {
    const void *source, *other;
    double *to;
    u64 count; // of threads with work
    u64 to_at[6], source_at[6], other_at[6]; // strides along the result's dimensions
    u64 source_space[3], other_space[3];     // strides along positions of the source, and of the window
    u64 source_channel, other_channel;
    u32 extent[6];                 // of the result
    i32 base_step[3], base_add[3]; // base of the result's last three dimensions
    u32 window[3];
    i32 step[3];
    u32 divide[3];
    u32 positions[3]; // extents of the source
    u32 channels;
    u32 channels_last;          // whether channels vary fastest among the products, or slowest
    u32 inside;                 // whether products outside are left out rather than added as zeros
    u32 rows;                   // the dimension (1 or 2) along which the source does not change: a thread takes several
    u32 source_dtype, unused;
};
static_assert(sizeof(Reference) == 360, "the layout of Rust's Reference");

struct ReferenceFinish {
    AnyTensor tensor;
    const double *sums;
    const double *c;    // or null
    const double *bias; // or null
    u8 *to;
    u64 count, area, columns; // element i adds c[i % area] and bias[i % columns]
    double alpha, beta, low, high;
    u32 epilogue; // 0 nothing, 1 relu, 2 clamp
    u32 scaled;   // whether alpha is applied
    u32 single;   // rounded to f32 first
    u32 unused;
};

namespace {
constexpr int THREADS = 256;

// The products of one element, one after the other. All lanes walk in step.
struct Walk {
    const Reference &p;
    u64 left, source, other; // products to come; offsets of the channel
    u64 source_offset[3], other_offset[3];
    u32 at[3], channel;
    i32 base[3];
    bool ok[3];

    __device__ inline Walk(const Reference &reference, const i32 (&start)[3]) : p(reference) {
        left = (u64)p.channels * p.window[0] * p.window[1] * p.window[2];
        source = other = 0;
        channel = 0;
#pragma unroll
        for (int d = 0; d < 3; ++d) base[d] = start[d];
        move<0>(0);
        move<1>(0);
        move<2>(0);
    }

    // Constant subscripts keep all this in registers.
    template <int d> __device__ inline void move(u32 to) {
        at[d] = to;
        const i32 scaled = base[d] + (i32)to * p.step[d];
        const u32 position = p.divide[d] == 1 ? (u32)scaled : (u32)scaled / p.divide[d];
        ok[d] = scaled >= 0 && position < p.positions[d] && position * p.divide[d] == (u32)scaled;
        source_offset[d] = position * p.source_space[d];
        other_offset[d] = to * p.other_space[d];
    }

    __device__ inline bool within() const { return ok[0] && ok[1] && ok[2]; }
    __device__ inline u64 source_at() const { return source + source_offset[0] + source_offset[1] + source_offset[2]; }
    __device__ inline u64 other_at() const { return other + other_offset[0] + other_offset[1] + other_offset[2]; }

    // One step along a dimension of the window, or back to its start: false.
    template <int d> __device__ inline bool advance() {
        if (at[d] + 1 < p.window[d]) {
            move<d>(at[d] + 1);
            return true;
        }
        if (at[d] != 0) move<d>(0);
        return false;
    }

    // The next position of the window; whether it begins again.
    __device__ inline bool turn() { return !(advance<2>() || advance<1>() || advance<0>()); }

    __device__ inline void next() {
        --left;
        const bool last = channel + 1 == p.channels;
        if (p.channels_last ? last : !turn()) {
            if (!p.channels_last) return;
            turn();
            channel = 0;
            source = other = 0;
            return;
        }
        ++channel;
        source += p.source_channel;
        other += p.other_channel;
    }
};

template <typename SUM, int N> __device__ inline void run(const Reference &p) {
    typedef typename SUM::Input Input;
    typedef typename SUM::Wide Wide;
    constexpr int GROUP = SUM::GROUP;
    const Wide zero = SUM::wide(SUM::zero(p.source_dtype));
    const u64 grid = (u64)gridDim.x * THREADS;
    for (u64 index = (u64)blockIdx.x * THREADS + threadIdx.x; index < p.count; index += grid) {
        u64 rest = index, to = 0, source0 = 0, other0 = 0;
        i32 base[3];
        u32 valid = 1;
#pragma unroll
        for (int d = 5; d >= 0; --d) {
            const bool rows = d == (int)p.rows;
            const u64 extent = rows ? (p.extent[d] + (N - 1)) / N : p.extent[d];
            const u64 at = rest % extent * (rows ? N : 1);
            rest /= extent;
            if (rows) valid = p.extent[d] - (u32)at < N ? p.extent[d] - (u32)at : N;
            to += at * p.to_at[d];
            source0 += at * p.source_at[d];
            other0 += at * p.other_at[d];
            if (d >= 3) base[d - 3] = (i32)at * p.base_step[d - 3] + p.base_add[d - 3];
        }
        const u64 other_step = p.rows == 1 ? p.other_at[1] : p.other_at[2], to_step = p.rows == 1 ? p.to_at[1] : p.to_at[2];
        const Input *const source = (const Input *)p.source + source0;
        const Input *other[N];
#pragma unroll
        for (int i = 0; i < N; ++i) other[i] = (const Input *)p.other + other0 + (i < (int)valid ? i : 0) * other_step;
        SUM sum;
        Walk walk(p, base);
        while (walk.left != 0) {
            if (GROUP == 1 && p.inside && !walk.within()) {
                walk.next();
                continue;
            }
            Wide a[GROUP], b[GROUP][N];
#pragma unroll
            for (int k = 0; k < GROUP; ++k) {
                const bool some = GROUP == 1 || walk.left != 0;
                a[k] = zero;
                if (some && walk.within()) a[k] = SUM::wide(source[walk.source_at()]);
#pragma unroll
                for (int i = 0; i < N; ++i) {
                    b[k][i] = zero;
                    if (some) b[k][i] = SUM::wide(other[i][walk.other_at()]);
                }
                if (some) walk.next();
            }
            sum.step(a, b);
        }
#pragma unroll
        for (int i = 0; i < N; ++i) {
            if (i < (int)valid) p.to[to + i * to_step] = sum.result(i);
        }
    }
}
} // namespace

// Two kernels: one element a thread, and several that share their source.
#define PLAIN(NAME, SUM) \
    extern "C" __global__ void __launch_bounds__(THREADS) reference_##NAME##_one(Reference p) { run<SUM<1>, 1>(p); } \
    extern "C" __global__ void __launch_bounds__(THREADS) reference_##NAME##_rows(Reference p) { run<SUM<8>, 8>(p); }
#define MODEL(NAME, ...) \
    extern "C" __global__ void __launch_bounds__(THREADS) reference_##NAME##_one(Reference p) { run<SumModel<__VA_ARGS__, 1>, 1>(p); } \
    extern "C" __global__ void __launch_bounds__(THREADS) reference_##NAME##_rows(Reference p) { run<SumModel<__VA_ARGS__, 4>, 4>(p); }

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

extern "C" __global__ void __launch_bounds__(THREADS) reference_widen(ReferenceWiden p) {
    const u64 grid = (u64)gridDim.x * THREADS;
    for (u64 i = (u64)blockIdx.x * THREADS + threadIdx.x; i < p.count; i += grid) {
        double x = p.tensor.decode(p.tensor.load(p.from, p.tensor.place(i)));
        if (fabs(x) < p.least) x = 0.0;
        if (p.magnitude) x = fabs(x);
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
        else if (p.prepare == AS_GFX942) word = Gfx942<8, false>::prepare(single, p.tensor.dtype);
        ((u32 *)p.to)[i] = word;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) reference_finish(ReferenceFinish p) {
    const u64 grid = (u64)gridDim.x * THREADS;
    for (u64 i = (u64)blockIdx.x * THREADS + threadIdx.x; i < p.count; i += grid) {
        double x = p.sums[i];
        if (p.single) x = (double)(float)x;
        if (p.scaled) x = x * p.alpha;
        if (p.c) {
            const double more = p.beta * p.c[i % p.area];
            x = x + more;
        }
        if (p.bias) x = x + p.bias[i % p.columns];
        if (p.epilogue == 1 && x < 0.0) x = 0.0;
        if (p.epilogue == 2) x = x < p.low ? p.low : x > p.high ? p.high : x;
        if (x != x) x = f64_of(0x7ff8000000000000ull);
        p.tensor.store(p.to, p.tensor.place(i), encode_any(p.tensor.dtype, x, false, false));
    }
}
