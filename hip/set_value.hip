// Repeats one value of 1, 2, 4 or 8 bytes over a block of memory.
#include <hip/hip_runtime.h>

struct SetValue {
    unsigned char *target;    // aligned to 16 bytes
    unsigned long long bytes; // any number
    unsigned pattern[4];      // the value, repeated over 16 bytes
};

extern "C" __global__ void __launch_bounds__(256) set_value(SetValue p) {
    const unsigned long long first = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned long long step = (unsigned long long)gridDim.x * blockDim.x;
    const unsigned long long whole = p.bytes / 16;
    const uint4 value = make_uint4(p.pattern[0], p.pattern[1], p.pattern[2], p.pattern[3]);
    uint4 *target = (uint4 *)p.target;
    for (unsigned long long i = first; i < whole; i += step) target[i] = value;
    // The last bytes, at most 15: one thread each.
    if (first < p.bytes % 16) p.target[whole * 16 + first] = (unsigned char)(p.pattern[first / 4] >> (first % 4 * 8));
}
