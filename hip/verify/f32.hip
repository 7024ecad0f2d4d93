// The comparison in f32: every pair of formats that it holds, integers of up to 16 bits included, by the widths of result and reference.
#include <hip/hip_runtime.h>
#include "verify/explain.h"
#include "verify/values.h"

// `blocks`: of the counts, for which NVIDIA's compiler may save registers.
#define VERIFY(a, r, pieces, blocks)                                                                                                                                      \
    extern "C" __global__ void BOUNDS(256, blocks) verify_counts_f32_##a##_##r(VerifyParams p) { make_values<Pairs<InF32, a, r, pieces>, false, false>(PARAMETER(p)); }             \
    extern "C" __global__ void BOUNDS(256, 2) verify_all_f32_##a##_##r(VerifyParams p) { make_values<Pairs<InF32, a, r, pieces>, true, false>(PARAMETER(p)); }                 \
    extern "C" __global__ void BOUNDS(256, 2) verify_histograms_f32_##a##_##r(VerifyParams p) { make_values<Pairs<InF32, a, r, pieces>, true, true>(PARAMETER(p)); }           \
    extern "C" __global__ void BOUNDS(256, 3) verify_explain_f32_##a##_##r(VerifyParams p) { explain<Pairs<InF32, a, r, pieces>>(PARAMETER(p)); }
VERIFY(8, 8, 1, 4)
VERIFY(8, 16, 1, 4)
VERIFY(16, 8, 1, 4)
VERIFY(8, 32, 1, 4)
VERIFY(32, 8, 1, 4)
VERIFY(16, 16, 1, 5)
VERIFY(16, 32, 1, 5)
VERIFY(32, 16, 1, 5)
VERIFY(32, 32, 2, 4)
