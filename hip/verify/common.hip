// Common pairs of formats: they are fixed, and bounds do not overflow.
#include "verify/kernels.h"

VERIFY_VALUES(f32, Pairs<InF32, FIXED + F32, FIXED + F32, 4, 8, 2>)
VERIFY_VALUES(f16, Pairs<InF32, FIXED + F16, FIXED + F16, 8>)
VERIFY_VALUES(bf16, Pairs<InF32, FIXED + BF16, FIXED + BF16, 8>)
VERIFY_VALUES(f16_f32, Pairs<InF32, FIXED + F16, FIXED + F32, 8>)
VERIFY_VALUES(bf16_f32, Pairs<InF32, FIXED + BF16, FIXED + F32, 8>)
VERIFY_VALUES(f8e4m3, Pairs<InF32, FIXED + F8E4M3, FIXED + F8E4M3, 16, 8>)
VERIFY_VALUES(f8e4m3fnuz, Pairs<InF32, FIXED + F8E4M3FNUZ, FIXED + F8E4M3FNUZ, 16, 8>)
VERIFY_VALUES(i8, Pairs<InF32, FIXED + I8, FIXED + I8, 16, 8>)
