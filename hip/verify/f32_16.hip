// Pairs that f32 holds, integers of up to 16 bits included, by their widths: 16 bits, and 32.
#include "verify/kernels.h"

VERIFY(f32_16_16, Pairs<InF32, 16, 16, 8, 8, ROWS_LOADED>)
VERIFY(f32_16_32, Pairs<InF32, 16, 32, 8>)
VERIFY(f32_32_32, Pairs<InF32, 32, 32, 4, 8, 2>)
