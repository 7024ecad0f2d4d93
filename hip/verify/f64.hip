// Pairs of 64 and 32 bits that f32 does not hold, in f64.
#include "verify/kernels.h"

VERIFY(f64_64_64, 2, Pairs<InF64, 64, 64, 2, 4, 2>)
// Histograms and explanations of the others are those of any width.
VERIFY_VALUES(f64_f64_32, Pairs<InF64, ONLY + F64, 32, 4>)
VERIFY_VALUES(f64_32_f64, Pairs<InF64, 32, ONLY + F64, 4>)
VERIFY_VALUES(f64_32_32, Pairs<InF64, 32, 32, 4>)
