// Pairs of two 64-bit formats, in f64.
#include "verify/kernels.h"

VERIFY(f64_64_64, 2, Pairs<InF64, 64, 64, 2, 4, 2>)
