// The kernels of a pair of formats, or of widths: a file of kernels names its pairs.
#pragma once
#include <hip/hip_runtime.h>
#include "verify/explain.h"
#include "verify/values.h"

// Rows of a tile that are loaded together on NVIDIA's GPUs, so that enough loads are outstanding: for counts of 16 bits, or 8 (`BYTE`), against 16, and of two formats of 8. AMD's GPUs hold more threads of these kernels.
constexpr int ROWS_LOADED = LIKE_NVIDIA ? 2 : 1;

#define VERIFY_KERNEL(name, blocks, body) \
    extern "C" __global__ void BOUNDS(256, blocks) VECTOR_REGISTERS(128) verify_##name(VerifyParams p) { body(PARAMETER(p)); }

// Counts, of which NVIDIA's compiler has to fit `blocks` blocks on a processor, 3 with a ring; and all metrics. The `Pairs` come last.
#define VERIFY_VALUES(name, blocks, ...)                                            \
    VERIFY_KERNEL(counts_##name, blocks, (make_values<__VA_ARGS__, false, false>))  \
    VERIFY_KERNEL(all_##name, 2, (make_values<__VA_ARGS__::All, true, false>))

// Histograms, and explanations.
#define VERIFY_OTHERS(name, ...)                                                      \
    VERIFY_KERNEL(histograms_##name, 2, (make_values<__VA_ARGS__::All, true, true>))  \
    VERIFY_KERNEL(explain_##name, 2, (explain<__VA_ARGS__::Explained>))
#define VERIFY(name, blocks, ...)             \
    VERIFY_VALUES(name, blocks, __VA_ARGS__)  \
    VERIFY_OTHERS(name, __VA_ARGS__)
