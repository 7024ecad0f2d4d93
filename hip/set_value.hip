// Repeats one value of 1, 2, 4 or 8 bytes over a block of memory.
#include <hip/hip_runtime.h>
#include "abi.h"

extern "C" __global__ void __launch_bounds__(256) set_value(SetValue p) {
    const u64 first = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    const u64 step = (u64)gridDim.x * blockDim.x;
    const u64 whole = p.bytes / 16;
    const uint4 value = make_uint4(p.pattern[0], p.pattern[1], p.pattern[2], p.pattern[3]);
    uint4 *target = (uint4 *)p.target;
    for (u64 i = first; i < whole; i += step) target[i] = value;
    // The last bytes, at most 15, are written by one thread each.
    if (first < p.bytes % 16) p.target[whole * 16 + first] = (u8)(p.pattern[first / 4] >> (first % 4 * 8));
}
