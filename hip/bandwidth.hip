// The memory bandwidth of a GPU: the ceilings to which the speeds of other kernels are compared.
#include <hip/hip_runtime.h>
#include "platform.h"

// Reads two blocks of `bytes` bytes each, 16 at a time, as the comparison does.
extern "C" __global__ void __launch_bounds__(512) read_two(ReadTwo p) {
    enum { DEPTH = 4 };
    const u64 whole = p.bytes / 16, step = (u64)gridDim.x * blockDim.x;
    u32 seen = 0;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < whole; i += step * DEPTH) {
        uint4 x[DEPTH], y[DEPTH];
#pragma unroll
        for (int k = 0; k < DEPTH; k++)
            if (i + k * step < whole) x[k] = load16(p.a + (i + k * step) * 16), y[k] = load16(p.b + (i + k * step) * 16);
#pragma unroll
        for (int k = 0; k < DEPTH; k++)
            if (i + k * step < whole) seen |= x[k].x ^ x[k].y ^ x[k].z ^ x[k].w ^ y[k].x ^ y[k].y ^ y[k].z ^ y[k].w;
    }
    // Both blocks hold zeros, so nothing is written, but compilers cannot know that.
    if (seen) *p.never = seen;
}

extern "C" __global__ void __launch_bounds__(512) write_one(WriteOne p) {
    const u64 whole = p.bytes / 16, step = (u64)gridDim.x * blockDim.x;
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < whole; i += step) ((uint4 *)p.a)[i] = make_uint4(p.value, p.value, p.value, p.value);
}

extern "C" __global__ void nothing(Nothing p) {
    if (p.never == 0) return;
}
