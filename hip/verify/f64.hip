// Pairs that f32 does not hold, in f64.
#include "verify/kernels.h"

VERIFY(f64_64_64, Pairs<InF64, 64, 64, 2, 4, 2>)
VERIFY(f64_any, Pairs<InF64, ANY, ANY, 4>)
// Faster kernels; for histograms and explanations those of any width are used.
VERIFY_VALUES(f64_f32_f64, 3, Pairs<InF64, ONLY + F32, ONLY + F64, 4>)
VERIFY_VALUES(f64_16_f64, 4, Pairs<InF64, 16, ONLY + F64, 4>)
VERIFY_VALUES(f64_32_32, 4, Pairs<InF64, 32, 32, 4>)
