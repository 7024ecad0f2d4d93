// Pairs that f32 holds, including integers of up to 16 bits, by their widths: a format of up to 8 bits with any other.
#include "verify/kernels.h"
#include "verify/explain_bytes.h"
#include "verify/pair_counts.h"

VERIFY_VALUES(f32_8_8, 4, Pairs<InF32, 8, 8, 8>)
VERIFY_OTHERS(f32_8_8, Pairs<InF32, SPARE, SPARE, 8>)
VERIFY_VALUES(f32_8_16, 4, Pairs<InF32, 8, 16, 8>)
VERIFY_OTHERS(f32_8_16, Pairs<InF32, SPARE, 16, 8>)
VERIFY_VALUES(f32_8_32, 4, Pairs<InF32, 8, 32, 8>)
VERIFY_OTHERS(f32_8_32, Pairs<InF32, SPARE, 32, 8>)

// Faster kernels for formats without special cases.
VERIFY_VALUES(f32_byte_16, 4, Pairs<InF32, BYTE, 16, 8, 8, ROWS_LOADED>)

// Large tensors. AMD's GPUs, at 128 registers a thread, take fewer elements at a time.
constexpr int LOADED = LIKE_NVIDIA ? 16 : 8;
VERIFY_KERNEL(counts_f32_byte_byte, 3, (make_values_of_bytes<Pairs<InF32, ONE_COPY, ONE_COPY, 16, 16 * ROWS_LOADED, ROWS_LOADED>, false>))
VERIFY_KERNEL(all_f32_byte_byte, 2, (make_values_of_bytes<Pairs<InF32, BYTE, BYTE, LOADED, LOADED, 1, true>, true>))
VERIFY_KERNEL(explain_f32_byte_byte, 3, (explain_bytes<Pairs<InF32, ONE_COPY, ONE_COPY, LOADED>>))

// Two formats of 4 bits, for tensors of any size. Their explanations are those of all formats of up to 8 bits.
VERIFY_KERNEL(values_f32_4_4, 4, (make_values_by_counting<Pairs<InF32, 4, 4, 32>>))
