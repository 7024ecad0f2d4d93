// Pairs that f32 holds, integers of up to 16 bits included, by their widths: results of 16 bits.
#include "verify/kernels.h"

VERIFY_VALUES(f32_16_8, 4, Pairs<InF32, 16, 8, 8>)
VERIFY_OTHERS(f32_16_8, Pairs<InF32, 16, SPARE, 8>)
VERIFY(f32_16_16, Pairs<InF32, 16, 16, 8, 8, ROWS_LOADED>)
VERIFY(f32_16_32, Pairs<InF32, 16, 32, 8>)
