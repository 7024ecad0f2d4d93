// The comparison for pairs of formats that matter most: dense tensors, aligned to 16 bytes.
// Kernel names: verify_<result>_<reference>_<level>.
#include <hip/hip_runtime.h>
#include "verify_few.h"

VERIFY(f64_f64, F64, F64)
VERIFY(f32_f32, F32, F32)
VERIFY(f16_f16, F16, F16)
VERIFY(bf16_bf16, BF16, BF16)
VERIFY(f16_f32, F16, F32)
VERIFY(bf16_f32, BF16, F32)
