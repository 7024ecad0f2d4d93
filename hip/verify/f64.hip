// Pairs that f32 does not hold, in f64, by their widths: 32-bit integers with formats of up to 32 bits, f64 with any, 64-bit integers with floats.
#include "verify/kernels.h"

VERIFY_VALUES(f64_byte_32, 3, Pairs<InF64, BYTE, 32, 8, 4>)
VERIFY_VALUES(f64_16_32, 3, Pairs<InF64, 16, 32, 8, 4>)
VERIFY(f64_32_32, 3, Pairs<InF64, 32, 32, 4>)
VERIFY_VALUES(f64_byte_64, 3, Pairs<InF64, BYTE, 64, 4>)
VERIFY_VALUES(f64_16_64, 3, Pairs<InF64, 16, 64, 4>)
VERIFY_VALUES(f64_32_64, 3, Pairs<InF64, 32, 64, 4>)
VERIFY(f64_64_64, 3, Pairs<InF64, 64, 64, 2, 4, 2>)

// Histograms and explanations of two widths; everything for formats of 4 bits, or without a zero.
VERIFY_OTHERS(f64_any, Pairs<InF64, ANY, ANY, 4>)
