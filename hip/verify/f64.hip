// The comparison in f64 and, where a 64-bit integer meets an integer, exact: every pair of formats that f32 does not hold. Those of two 64-bit formats have
// kernels of their own.
#include <hip/hip_runtime.h>
#include "verify/explain.h"
#include "verify/values.h"

#define VERIFY(name, arithmetic, width, pieces)                                                                                                                                      \
    extern "C" __global__ void BOUNDS(256, 4) verify_counts_##name(VerifyParams p) { make_values<Pairs<arithmetic, width, width, pieces>, false, false>(PARAMETER(p)); }             \
    extern "C" __global__ void BOUNDS(256, 2) verify_all_##name(VerifyParams p) { make_values<Pairs<arithmetic, width, width, pieces>, true, false>(PARAMETER(p)); }                 \
    extern "C" __global__ void BOUNDS(256, 2) verify_histograms_##name(VerifyParams p) { make_values<Pairs<arithmetic, width, width, pieces>, true, true>(PARAMETER(p)); }           \
    extern "C" __global__ void BOUNDS(256, 2) verify_explain_##name(VerifyParams p) { explain<Pairs<arithmetic, width, width, pieces>>(PARAMETER(p)); }
VERIFY(f64_64_64, InF64, 64, 2)
VERIFY(f64_any, InF64, ANY, 1)
VERIFY(i64_64_64, InI64, 64, 2)
VERIFY(whole_64_64, InWhole, 64, 2)
VERIFY(whole_any, InWhole, ANY, 1)
