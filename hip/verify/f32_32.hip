// Pairs that f32 holds, integers of up to 16 bits included, by their widths: results of 32 bits.
#include "verify/kernels.h"

VERIFY_VALUES(f32_32_8, 4, Pairs<InF32, 32, 8, 8>)
VERIFY_OTHERS(f32_32_8, Pairs<InF32, 32, SPARE, 8>)
VERIFY(f32_32_16, Pairs<InF32, 32, 16, 8>)
VERIFY(f32_32_32, Pairs<InF32, 32, 32, 4, 8, 2>)
