// The references of the Rust crate (`reference`): every element adds its products in the stated order, from zero. Each thread
// walks one element from its first product to its last, so the bits depend on nothing but the operands.
#include <hip/hip_runtime.h>

#include "matrix_core.h"

// A family of sums. The result has six dimensions; each product pairs an element of `other` with one of `source`, which lies
// at position (base + window * step) / divide of three spatial dimensions, or outside, where it is zero.
struct Reference {
    const void *source, *other;
    double *to;
    u64 count;
    u64 to_at[6], source_at[6], other_at[6]; // strides along the result's dimensions
    u64 source_space[3], other_space[3];     // strides along positions of the source, and of the window
    u64 source_channel, other_channel;
    u32 extent[6];      // of the result
    i32 base_step[3], base_add[3]; // base of the result's last three dimensions
    u32 window[3];
    i32 step[3];
    u32 divide[3];
    u32 positions[3];   // extents of the source
    u32 channels;
    u32 channels_last;  // whether channels vary fastest among the products, or slowest
    u32 inside, unused; // whether products outside are left out rather than added as zeros
};
static_assert(sizeof(Reference) == 352, "the layout of Rust's Reference");

namespace {
constexpr int THREADS = 256;

struct SumF64 {
    typedef double Element;
    double acc = 0.0;
    __device__ inline void add(double a, double b) { acc = fma(a, b, acc); }
    __device__ inline double result() { return acc; }
};
struct SumRounded {
    typedef double Element;
    double acc = 0.0;
    __device__ inline void add(double a, double b) { acc = (double)(float)fma(a, b, acc); }
    __device__ inline double result() { return acc; }
};
struct SumEvery4 {
    typedef double Element;
    double acc = 0.0;
    u32 count = 0;
    __device__ inline void add(double a, double b) {
        acc = fma(a, b, acc);
        if ((++count & 3) == 0) acc = (double)(float)acc;
    }
    __device__ inline double result() { return acc; }
};
struct SumGroups4 {
    typedef double Element;
    double group = 0.0;
    float acc = 0.0f;
    u32 count = 0;
    __device__ inline void join() {
        acc = acc + (float)group;
        group = 0.0;
    }
    __device__ inline void add(double a, double b) {
        group = fma(a, b, group);
        if ((++count & 3) == 0) join();
    }
    __device__ inline double result() {
        if (count & 3) join();
        return (double)acc;
    }
};
struct SumF32 {
    typedef float Element;
    float acc = 0.0f;
    __device__ inline void add(float a, float b) {
        const float product = a * b;
        acc = acc + product;
    }
    __device__ inline double result() { return (double)acc; }
};
struct SumF32Fma {
    typedef float Element;
    float acc = 0.0f;
    __device__ inline void add(float a, float b) { acc = fmaf(a, b, acc); }
    __device__ inline double result() { return (double)acc; }
};
// Groups of a matrix core; the last one is padded with zeros.
template <typename RULE> struct SumModel {
    typedef float Element;
    float acc[1] = {RULE::accept(0.0f)};
    typename RULE::Wide a[RULE::GROUP], b[RULE::GROUP][1];
    int count = 0;
    __device__ inline void put(float x, float y) {
        // Constant subscripts keep the group in registers.
#pragma unroll
        for (int i = 0; i < RULE::GROUP; ++i) {
            if (i == count) {
                a[i] = RULE::wide(RULE::prepare(x, 0));
                b[i][0] = RULE::wide(RULE::prepare(y, 0));
            }
        }
        if (++count == RULE::GROUP) {
            RULE::template row<false>(acc, a, b);
            count = 0;
        }
    }
    __device__ inline void add(float x, float y) { put(x, y); }
    __device__ inline double result() {
        while (count != 0) put(0.0f, 0.0f);
        return (double)MatrixCore::canonical(acc[0]);
    }
};

template <typename SUM, typename OPERAND> __device__ inline void run(const Reference &p) {
    typedef typename SUM::Element Element;
    const OPERAND *const sources = (const OPERAND *)p.source, *const others = (const OPERAND *)p.other;
    const u64 grid = (u64)gridDim.x * THREADS;
    for (u64 index = (u64)blockIdx.x * THREADS + threadIdx.x; index < p.count; index += grid) {
        u64 rest = index, to = 0, source0 = 0, other0 = 0;
        i32 base[3];
#pragma unroll
        for (int d = 5; d >= 0; --d) {
            const u64 at = rest % p.extent[d];
            rest /= p.extent[d];
            to += at * p.to_at[d];
            source0 += at * p.source_at[d];
            other0 += at * p.other_at[d];
            if (d >= 3) base[d - 3] = (i32)at * p.base_step[d - 3] + p.base_add[d - 3];
        }
        SUM sum;
        const u32 slow = p.channels_last ? 1 : p.channels, fast = p.channels_last ? p.channels : 1;
        for (u32 channel = 0; channel < slow; ++channel) {
            for (u32 z = 0; z < p.window[0]; ++z) {
                for (u32 y = 0; y < p.window[1]; ++y) {
                    for (u32 x = 0; x < p.window[2]; ++x) {
                        const u32 window[3] = {z, y, x};
                        u64 source = source0 + channel * p.source_channel, other = other0 + channel * p.other_channel;
                        bool within = true;
#pragma unroll
                        for (int d = 0; d < 3; ++d) {
                            const i32 scaled = base[d] + (i32)window[d] * p.step[d];
                            const u32 position = p.divide[d] == 1 ? (u32)scaled : (u32)scaled / p.divide[d];
                            within = within && scaled >= 0 && position < p.positions[d] && position * p.divide[d] == (u32)scaled;
                            source += position * p.source_space[d];
                            other += window[d] * p.other_space[d];
                        }
                        if (!within && p.inside) continue;
                        for (u32 c = 0; c < fast; ++c) {
                            const Element a = (Element)others[other + c * p.other_channel];
                            const Element b = within ? (Element)sources[source + c * p.source_channel] : (Element)0;
                            sum.add(a, b);
                        }
                    }
                }
            }
        }
        p.to[to] = sum.result();
    }
}
} // namespace

#define REFERENCE(NAME, OPERAND, ...) \
    extern "C" __global__ void __launch_bounds__(THREADS) reference_##NAME(Reference p) { run<__VA_ARGS__, OPERAND>(p); }

REFERENCE(f64_single, float, SumF64)
REFERENCE(f64_double, double, SumF64)
REFERENCE(rounded_single, float, SumRounded)
REFERENCE(rounded_double, double, SumRounded)
REFERENCE(every4_single, float, SumEvery4)
REFERENCE(every4_double, double, SumEvery4)
REFERENCE(groups4_single, float, SumGroups4)
REFERENCE(groups4_double, double, SumGroups4)
REFERENCE(f32_single, float, SumF32)
REFERENCE(f32_fma_single, float, SumF32Fma)
REFERENCE(gfx908_f16, float, SumModel<Gfx908<4>>)
REFERENCE(gfx908_bf16, float, SumModel<Gfx908<2>>)
REFERENCE(gfx90a_f16, float, SumModel<Gfx90aF16>)
REFERENCE(gfx90a_bf16, float, SumModel<Gfx90aBf16<2>>)
REFERENCE(gfx90a_bf16_1k, float, SumModel<Gfx90aBf16<4>>)
