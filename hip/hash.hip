// A 64-bit hash of a block of memory; `src/device/hash.rs` has the definition and the host's implementation.
//
// A sum modulo 2^64 of one scrambled term for each 8-byte word: the order of summation, and so the grid, does not matter.
#include <hip/hip_runtime.h>
#include "abi.h"

__device__ inline u64 term(u64 word, u64 index) {
    u64 z = word ^ (index + 1) * 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

extern "C" __global__ void __launch_bounds__(256) hash_bytes(Hash p) {
    __shared__ u64 sums[256];
    const u64 first = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    const u64 step = (u64)gridDim.x * blockDim.x;
    u64 sum = 0;
    u64 from = 0; // the first word that single threads take
    if ((u64)p.source % 16 == 0) {
        const ulonglong2 *pairs = (const ulonglong2 *)p.source;
        for (u64 i = first; i < p.bytes / 16; i += step) {
            const ulonglong2 pair = pairs[i];
            sum += term(pair.x, 2 * i) + term(pair.y, 2 * i + 1);
        }
        from = p.bytes / 16 * 2;
    }
    for (u64 i = from + first; i < (p.bytes + 7) / 8; i += step) {
        u64 word = 0;
        for (u64 k = i * 8; k < i * 8 + 8 && k < p.bytes; k++) word |= (u64)p.source[k] << (k % 8 * 8);
        sum += term(word, i);
    }
    sums[threadIdx.x] = sum;
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) atomicAdd(p.sum, sums[0]);
}
