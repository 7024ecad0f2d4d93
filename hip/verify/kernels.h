// The kernels of a pair of formats, or of widths: a file of kernels names its pairs.
#pragma once
#include <hip/hip_runtime.h>
#include "verify/explain.h"
#include "verify/values.h"

#define VERIFY_KERNEL(name, blocks, body) \
    extern "C" __global__ void BOUNDS(256, blocks) VECTOR_REGISTERS(128) verify_##name(VerifyParams p) { body(PARAMETER(p)); }

#define VERIFY_COUNTS(name, blocks, ...) VERIFY_KERNEL(counts_##name, blocks, (make_values<__VA_ARGS__, false, false>))
#define VERIFY_ALL(name, ...) VERIFY_KERNEL(all_##name, 2, (make_values<__VA_ARGS__::All, true, false>))

// Counts; all metrics. `blocks`: of the counts, for which NVIDIA's compiler may save registers. Last the `Pairs`.
#define VERIFY_VALUES(name, blocks, ...)      \
    VERIFY_COUNTS(name, blocks, __VA_ARGS__)  \
    VERIFY_ALL(name, __VA_ARGS__)

// And with histograms, and explanations; `blocks_explain` of these.
#define VERIFY(name, blocks, blocks_explain, ...)                                          \
    VERIFY_VALUES(name, blocks, __VA_ARGS__)                                               \
    VERIFY_KERNEL(histograms_##name, 2, (make_values<__VA_ARGS__::All, true, true>))       \
    VERIFY_KERNEL(explain_##name, blocks_explain, (explain<__VA_ARGS__::Explained>))
