// 64-bit integers with integers, compared exactly.
#include "verify/kernels.h"

VERIFY(whole_64_64, Pairs<InWhole, 64, 64, 2, 4, 2>)
VERIFY(whole_any, Pairs<InWhole, ANY, ANY, 4>)
