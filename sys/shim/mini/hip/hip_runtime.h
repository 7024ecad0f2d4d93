// Stands for HIP's header when nvcc compiles a kernel file: CUDA's own names, and the wavefront functions that HIP spells
// without a mask. Every lane of a wavefront must take part in those, as HIP asks.
#pragma once
#include <cuda_runtime.h>

#define HIPVERIFY_ALL_LANES 0xffffffffu

template <typename T> __device__ inline T __shfl(T value, int lane, int width = 32) {
    return __shfl_sync(HIPVERIFY_ALL_LANES, value, lane, width);
}
template <typename T> __device__ inline T __shfl_up(T value, unsigned delta, int width = 32) {
    return __shfl_up_sync(HIPVERIFY_ALL_LANES, value, delta, width);
}
template <typename T> __device__ inline T __shfl_down(T value, unsigned delta, int width = 32) {
    return __shfl_down_sync(HIPVERIFY_ALL_LANES, value, delta, width);
}
template <typename T> __device__ inline T __shfl_xor(T value, int mask, int width = 32) {
    return __shfl_xor_sync(HIPVERIFY_ALL_LANES, value, mask, width);
}
// Macros: CUDA still declares functions of these names.
#define __ballot(predicate) ((unsigned long long)__ballot_sync(HIPVERIFY_ALL_LANES, predicate))
#define __any(predicate) __any_sync(HIPVERIFY_ALL_LANES, predicate)
#define __all(predicate) __all_sync(HIPVERIFY_ALL_LANES, predicate)
