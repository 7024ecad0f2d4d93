// All other pairs that f32 does not hold, in f64.
#include "verify/kernels.h"

VERIFY(f64_any, Pairs<InF64, ANY, ANY, 4>)
