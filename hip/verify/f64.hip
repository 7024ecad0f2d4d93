// Pairs that f32 does not hold, in f64: two formats of 64 bits, f64 with floats that are shorter, two formats of 32 bits.
#include "verify/kernels.h"

VERIFY(f64_64_64, Pairs<InF64, 64, 64, 2, 4, 2>)
// Histograms and explanations of the others are those of any width.
VERIFY_VALUES(f64_f64_f32, 3, Pairs<InF64, ONLY + F64, ONLY + F32, 4>)
VERIFY_VALUES(f64_f32_f64, 3, Pairs<InF64, ONLY + F32, ONLY + F64, 4>)
VERIFY_VALUES(f64_f64_16, 4, Pairs<InF64, ONLY + F64, 16, 4>)
VERIFY_VALUES(f64_16_f64, 4, Pairs<InF64, 16, ONLY + F64, 4>)
VERIFY_VALUES(f64_32_32, 4, Pairs<InF64, 32, 32, 4>)
