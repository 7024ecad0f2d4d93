// Pairs that f32 holds, integers of up to 16 bits included, by their widths: results of up to 8 bits.
#include "verify/kernels.h"

VERIFY_VALUES(f32_8_8, Pairs<InF32, 8, 8, 8>)
VERIFY_OTHERS(f32_8_8, 3, Pairs<InF32, SPARE, SPARE, 8>)
VERIFY_VALUES(f32_8_16, Pairs<InF32, 8, 16, 8>)
VERIFY_OTHERS(f32_8_16, 3, Pairs<InF32, SPARE, 16, 8>)
VERIFY_VALUES(f32_8_32, Pairs<InF32, 8, 32, 8>)
VERIFY_OTHERS(f32_8_32, 3, Pairs<InF32, SPARE, 32, 8>)

// Faster, since nothing is special about their formats. Counts of two such are faster on NVIDIA's GPUs with three blocks a multiprocessor than with four.
VERIFY_KERNEL(counts_f32_byte_byte, 3, (make_values<Pairs<InF32, BYTE, BYTE, 16, 8>, false, false>))
VERIFY_KERNEL(all_f32_byte_byte, 2, (make_values<Pairs<InF32, BYTE, BYTE, 16, 8>::All, true, false>))
VERIFY_VALUES(f32_byte_16, Pairs<InF32, BYTE, 16, 8>)
