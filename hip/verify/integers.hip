// 64-bit integers with integers, compared exactly, by the width of the other one.
#include "verify/kernels.h"

VERIFY_VALUES(whole_byte_64, 3, Pairs<InWhole, BYTE, 64, 4>)
VERIFY_VALUES(whole_16_64, 3, Pairs<InWhole, 16, 64, 4>)
VERIFY_VALUES(whole_32_64, 3, Pairs<InWhole, 32, 64, 4>)
VERIFY(whole_64_64, 3, Pairs<InWhole, 64, 64, 2, 4, 2>)

// Histograms and explanations of two widths.
VERIFY_OTHERS(whole_any, Pairs<InWhole, ANY, ANY, 4>)
