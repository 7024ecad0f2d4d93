// The comparison of common pairs of formats: they are fixed, and bounds do not overflow.
#include <hip/hip_runtime.h>
#include "verify/values.h"

// `blocks`: of the counts, for which NVIDIA's compiler may save registers.
#define VERIFY(name, arithmetic, a, r, pieces, parts, blocks)                                                                                                                                   \
    extern "C" __global__ void BOUNDS(256, blocks) verify_counts_##name(VerifyParams p) { make_values<Pairs<arithmetic, FIXED + a, FIXED + r, pieces, parts>, false, false>(PARAMETER(p)); }              \
    extern "C" __global__ void BOUNDS(256, 2) verify_all_##name(VerifyParams p) { make_values<Pairs<arithmetic, FIXED + a, FIXED + r, pieces, parts>, true, false>(PARAMETER(p)); }
VERIFY(f32, InF32, F32, F32, 2, 1, 4)
VERIFY(f16, InF32, F16, F16, 1, 1, 5)
VERIFY(bf16, InF32, BF16, BF16, 1, 1, 4)
VERIFY(f16_f32, InF32, F16, F32, 1, 1, 5)
VERIFY(bf16_f32, InF32, BF16, F32, 1, 1, 4)
VERIFY(f8e4m3, InF32, F8E4M3, F8E4M3, 1, 2, 4)
VERIFY(f8e4m3fnuz, InF32, F8E4M3FNUZ, F8E4M3FNUZ, 1, 2, 4)
VERIFY(i8, InF32, I8, I8, 1, 2, 4)
