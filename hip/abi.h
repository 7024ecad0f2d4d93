// Every struct that crosses between Rust and a kernel, with the numbers that size its arrays or that its fields take; nothing else.
//
// A kernel takes one of these structs by value, and no other argument; it reads and writes others by the addresses inside.
// `cargo run -p hipverify-sys --features bindgen --example regen` makes two files of this one, both checked in: sys/src/abi.rs for Rust, and
// abi_layout.h, by which each compiler of this file checks that it lays the structs out as Rust does.
//
// Plain C++17 for any compiler: no device syntax, no methods. Padding is written out as a field `unused`.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int i32;
typedef long long i64;

// Dimensions of a layout, once those that continue each other are merged.
constexpr u32 MAX_RANK = 8;

// A tensor whose format and layout are known at run time only; any.h reads it.
struct AnyTensor {
    u64 extents[MAX_RANK];
    i64 strides[MAX_RANK];
    i64 offset;
    u32 rank; // 0: dense
    u32 dtype;
};

// bandwidth.hip: read_two.
struct ReadTwo {
    const u8 *a; // `bytes` zeros, aligned to 16 bytes
    const u8 *b; // likewise
    u64 bytes;
    u32 *never; // not written while there are only zeros
};

// bandwidth.hip: write_one.
struct WriteOne {
    u8 *a; // aligned to 16 bytes
    u64 bytes;
    u32 value;
    u32 unused;
};

// bandwidth.hip: nothing.
struct Nothing {
    u32 *never;
};

// set_value.hip.
struct SetValue {
    u8 *target;     // aligned to 16 bytes
    u64 bytes;      // any number
    u32 pattern[4]; // the value, repeated over 16 bytes
};

// hash.hip.
struct Hash {
    const u8 *source; // any alignment
    u64 bytes;
    u64 *sum; // zeroed before the launch
};

// fill.hip: what kind of number an element is.
enum FillKind : u32 {
    UNIFORM = 0, INTEGERS = 1, SUBNORMAL = 2, NORMAL = 3, CONSTANT = 4, SEQUENTIAL = 5, DIAGONAL = 6, CHECKERBOARD = 7,
    MONOTONIC = 8, SIN = 9, COS = 10, CRAND = 11,
};

// Bits of FillParams::flags.
enum FillFlag : u32 {
    // A random sign: magnitudes are drawn, one random bit negates.
    SIGNED = 1,
    // 2:4 sparsity over everything else.
    SPARSE = 2,
    // The classes of special values that the format has.
    HAS_ZERO = 4, HAS_INFINITE = 8, HAS_NAN = 16,
    // Element i lies at `offset + i`.
    CONTIGUOUS = 32,
    // Write only elements with an even (odd) memory index: packed elements that share a byte must not be written at once, so kernels take two
    // passes over a strided packed tensor.
    EVEN = 64, ODD = 128,
};

// A checked fill, as the host's loops and the kernels read it.
struct FillParams {
    u64 count;
    // Memory index of logical element 0, in elements.
    u64 offset;
    // INTEGERS: the least value (SIGNED: the least magnitude). SUBNORMAL: 1.
    i64 int_low;
    // INTEGERS, SUBNORMAL: how many different outcomes a draw has, both signs counted; 0 stands for 2^64.
    u64 int_count;
    // INTEGERS: zero where the coordinate sum is no multiple of this; 0 or 1: nowhere.
    u64 period;
    // An element is special when its 32-bit draw is below this (up to 2^32).
    u64 special_below;
    // UNIFORM: low end. NORMAL: mean. CONSTANT, DIAGONAL, CHECKERBOARD: value. MONOTONIC: init. CRAND: low end. Already rounded to f32 where the
    // arithmetic is f32.
    double a;
    // UNIFORM, CRAND: high end - low end. NORMAL: sigma. MONOTONIC: step.
    double b;
    // UNIFORM, NORMAL: results are clamped to [low, high] before they are rounded to the format.
    double low;
    double high;
    // Philox's key: the low and the high half of the seed.
    u32 key[2];
    u32 stream;
    u32 kind; // FillKind
    u32 dtype;
    u32 flags; // FillFlag
    // SEQUENTIAL: the dimension.
    u32 dim;
    // Dimensions in use.
    u32 rank;
    u64 shape[MAX_RANK];
    i64 strides[MAX_RANK];
};

// Every kernel of fill.hip but fill_crand.
struct Fill {
    FillParams params;
    u8 *target; // aligned to an element
};

// How many numbers of the C library's generator determine all that follow.
constexpr u32 CRAND_ORDER = 31;

// fill.hip: fill_crand.
struct FillCrand {
    FillParams params;
    u8 *target;
    u32 first[CRAND_ORDER]; // the first numbers of the recurrence
    u32 unused;
};

// What a matrix core does to an input before it multiplies; see `prepare` of the rules in matrix_core.h.
enum Prepare : u32 { AS_IT_IS = 0, AS_GFX90A_F16 = 1, AS_GFX90A_BF16 = 2, AS_GFX942 = 3, AS_BF16_NEAREST = 4, AS_BF16_CUT = 5 };

// reference.hip: reference_widen, which makes dense arrays of what the sums compute with.
struct ReferenceWiden {
    AnyTensor tensor;
    const u8 *from;
    void *to; // f64 or 32-bit words, one after the other
    u64 count;
    double least;  // magnitudes below count as +0
    u32 to_double; // f64 rather than f32
    u32 magnitude; // without sign
    u32 prepare;   // Prepare
    u32 unused;
};

// reference.hip: reference_<sum>. The result has six dimensions; each product pairs an element of `other` with one of `source`, which lies at position
// (base + window * step) / divide of three spatial dimensions, or outside, where it is zero.
struct ReferenceSums {
    const void *source;
    const void *other;
    double *to;
    u64 count; // threads with work
    // Strides along the result's dimensions.
    u64 to_at[6];
    u64 source_at[6];
    u64 other_at[6];
    // Strides along positions of the source, and of the window.
    u64 source_space[3];
    u64 other_space[3];
    u64 source_channel;
    u64 other_channel;
    // Of the result.
    u32 extent[6];
    // The base of the result's last three dimensions.
    i32 base_step[3];
    i32 base_add[3];
    u32 window[3];
    i32 step[3];
    u32 divide[3];
    // Extents of the source.
    u32 positions[3];
    u32 channels;
    u32 channels_last; // whether channels vary fastest among the products, or slowest
    u32 inside;        // whether products outside are left out rather than added as zeros
    u32 rows;          // the dimension (1 or 2) along which the source does not change: a thread takes several
    u32 source_dtype;
    u32 unused;
};

// What happens to a sum before it is rounded.
enum Epilogue : u32 { NO_EPILOGUE = 0, RELU = 1, CLAMP = 2 };

// reference.hip: reference_finish.
struct ReferenceFinish {
    AnyTensor tensor;
    const double *sums;
    const double *c;    // or null
    const double *bias; // or null
    u8 *to;
    u64 count;
    // Element i adds c[i % area] and bias[i % columns].
    u64 area;
    u64 columns;
    double alpha;
    double beta;
    double low;
    double high;
    u32 epilogue; // Epilogue
    u32 scaled;   // whether alpha is applied
    u32 single;   // rounded to f32 first
    u32 unused;
};

// Beside the number of F16 as a format of A or B: converted to bf16 by cutting off bits, where F16 alone means to nearest.
constexpr u32 CUT = 0x100;

// model_gemm.hip.
struct ModelGemm {
    const void *a; // m x k, row-major
    const void *b; // k x n, row-major
    float *c;      // m x n, row-major
    u32 m;
    u32 n;
    u32 k;
    u32 blocks_n; // tiles in a row of C
    // For the rules that serve several.
    u32 dtype_a;
    u32 dtype_b;
};

// mfma.hip: mfma_<instruction>.
struct MfmaIssue {
    const u32 *a; // per wavefront: `steps` images of A
    const u32 *b; // likewise
    const u32 *c; // per wavefront: one image
    u32 *d;       // likewise
    u32 steps;
    u32 unused;
};

// mfma.hip: mfma_gemm_<format>.
struct MfmaGemm {
    const u16 *a; // m x k
    const u16 *b; // k x n
    float *c;     // m x n
    u32 m;
    u32 n;
    u32 k;
    u32 tiles_n; // tiles in a row of C
};

// reduce_max.hip. Zeroed before the launch; the kernel leaves it so.
struct MaxWorkspace {
    u64 largest; // pattern of an f64
    u64 nans;
    u64 infinities;
    u64 blocks_done;
};

// What reduce_max.hip finds.
struct MaxResult {
    double largest;
    u64 nans;
    u64 infinities;
};

// Every kernel of reduce_max.hip.
struct MaxParams {
    AnyTensor tensor;
    const u8 *x;
    u64 n;
    MaxWorkspace *workspace;
    MaxResult *result;
};

// verify*.hip: by what an element is judged.
enum VerifyMeasure { ABSOLUTE, RELATIVE, RELATIVE_OLD, EPSILON, ULP, RATIO, MEASURES };
// What is counted.
enum VerifyCount {
    MISMATCHES, ZERO_PASSES, ZEROS_A, ZEROS_R, NANS_A, NANS_R, PLUS_A, PLUS_R, MINUS_A, MINUS_R, NONFINITE_PAIRS, COUNTS
};
// Bins of all histograms together.
constexpr u32 HISTOGRAM_BINS = 23;
// Sums of each chunk.
constexpr u32 PARTIAL_SUMS = 4;
// Mismatches that a result lists at most.
constexpr u32 MAX_LISTED = 64;

// The worst elements of a block.
struct VerifyBest {
    double value[MEASURES];
    u64 index[MEASURES];
};

// Zeroed before the launch; the kernel leaves it so.
struct VerifyWorkspace {
    u64 keys[MEASURES];
    u64 hints[2];      // patterns of f64
    u64 magnitudes[2]; // patterns of f64
    u64 counts[COUNTS];
    u64 histograms[HISTOGRAM_BINS];
    u64 first_segment; // the first segment with a mismatch, inverted
    u64 blocks_done;
};

// An element that is reported.
struct VerifyPlace {
    u64 index; // ~0: none
    u64 bits_a;
    u64 bits_r;
};

// What a comparison writes.
struct VerifyResult {
    u64 counts[COUNTS];
    double magnitudes[2];
    double values[MEASURES];
    VerifyPlace places[MEASURES];
    double hints[2];
    double sums[PARTIAL_SUMS];
    u64 histograms[HISTOGRAM_BINS];
    u64 listed;
    VerifyPlace first[MAX_LISTED];
    u64 done; // 1 when everything else is written and the workspace is free
};

// Every kernel of verify*.hip.
struct VerifyParams {
    const u8 *a; // the result
    const u8 *r; // the reference
    u64 n;       // elements
    double rtol;
    double atol;
    u32 dtype_a;
    u32 dtype_r;
    u32 nonfinite_equal;
    u32 first; // mismatches to list
    // Of the result's format.
    i32 min_exponent;
    i32 max_exponent;
    i32 mantissa_bits;
    u32 histograms;
    u32 rank_a; // 0: dense
    u32 rank_r;
    u32 chunk_log; // a group takes 2^chunk_log segments in a row, up to ITEM_SEGMENTS
    u32 unused;
    i64 offset_a;
    i64 offset_r;
    u64 extents_a[MAX_RANK];
    u64 extents_r[MAX_RANK];
    i64 strides_a[MAX_RANK];
    i64 strides_r[MAX_RANK];
    double *partials; // [chunks][PARTIAL_SUMS]
    u32 *mismatches;  // [segments]; of small tensors one for each group's elements
    VerifyWorkspace *workspace;
    double *bests; // [MEASURES][grid], then indices of as many
    VerifyResult *result;
};

// Defined while the checks are made anew.
#if !defined(HIPVERIFY_REGEN)
#include "abi_layout.h"
#endif
