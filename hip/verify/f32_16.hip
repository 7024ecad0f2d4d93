// Pairs that f32 holds, including integers of up to 16 bits, by their widths: 16 and 32 bits.
#include "verify/kernels.h"

VERIFY(f32_16_16, 4, Pairs<InF32, 16, 16, 8, 8, ROWS_LOADED>)
VERIFY(f32_16_32, 4, Pairs<InF32, 16, 32, 8>)
VERIFY(f32_32_32, 4, Pairs<InF32, 32, 32, 4, 8, 2>)
