// Formats of 4 bits. Their explanations are those of all up to 8 bits.
#include "verify/kernels.h"
#include "verify/pair_counts.h"

VERIFY_KERNEL(values_f32_4_4, 4, (make_values_by_counting<Pairs<InF32, 4, 4, 32>>))
