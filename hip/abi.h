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
enum Prepare : u32 { AS_IT_IS = 0, AS_GFX90A_F16 = 1, AS_GFX90A_BF16 = 2, AS_WORDS = 3, AS_BF16_NEAREST = 4, AS_BF16_CUT = 5 };

// reference.hip: reference_widen, which makes dense arrays of what the sums compute with.
struct ReferenceWiden {
    AnyTensor tensor;
    const u8 *from;
    void *to; // f64 or 32-bit words, one after the other
    u64 count;
    double least;  // magnitudes below count as +0
    double raised; // what a magnitude that is not 0 counts at least
    u32 to_double; // f64 rather than f32
    u32 magnitude; // without sign
    u32 prepare;   // Prepare
    u32 unused;
};

// How tensor cores round; see matrix_core.h.
struct TensorCoreRule {
    i32 bits;     // fraction bits at which c and products are truncated
    i32 zero;     // the exponent of zeros
    i32 fraction; // fraction bits of an accumulator: f16 where these are 10
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
    TensorCoreRule rule;
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
    TensorCoreRule rule;
    u32 unused;
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

// bound.hip: elements of a tile, and bins of the histogram of error over bound.
constexpr u32 BOUND_TILE = 4096;
constexpr u32 BOUND_BINS = 44;
// What is counted of a tile, of the result a and the reference r.
enum BoundCount {
    BOUND_MISMATCHES, BOUND_NONZERO, BOUND_ZERO_PASSES, BOUND_NANS_A, BOUND_NANS_R, BOUND_INFINITIES_A, BOUND_INFINITIES_R, BOUND_OVERFLOWS, BOUND_COUNTS
};

// What may stand for a number beyond the result's format.
constexpr u32 BOUND_AS_INFINITY = 1;      // an infinity
constexpr u32 BOUND_AS_LARGEST = 2;       // the largest number; for an infinity as well
constexpr u32 BOUND_AS_NAN = 4;           // NaN
constexpr u32 BOUND_NAN_FOR_INFINITY = 8; // for an infinity NaN, which the format lacks

// An element passes when |a - r| <= E + half_step 2^e, with E = fma(gamma, s, fma(relative, |r|, floor)), and 2^e the binade of |r| + E, held within `least` and `most`.
// Where |r| + E is `overflow` or more, what is rounded may be beyond the result's format.
struct BoundRule {
    double gamma;
    double relative;
    double floor;
    // Of the format that results are rounded to: half of the spacing of its numbers in [1, 2), or 0, its least normal number, and its largest binade.
    double half_step;
    double least;
    double most;
    // Of the result's format: the largest number, and the least that rounds beyond it.
    double largest;
    double overflow;
    u32 beyond; // what may stand for a number beyond it, bits of BOUND_AS_INFINITY and the next
    u32 nan;    // whether it has NaN
};

// What a tile holds.
struct BoundTile {
    double ratio; // the largest error over bound
    double power; // the largest |r| over bound
    u32 counts[BOUND_COUNTS];
};

// Every kernel of bound.hip.
struct BoundParams {
    AnyTensor a; // the result
    AnyTensor r; // the reference
    AnyTensor s; // the magnitudes
    const u8 *a_at;
    const u8 *r_at;
    const u8 *s_at;
    BoundRule rule;
    u64 first; // elements from here
    u64 end;   // to here
    BoundTile *tiles; // bound_tiles
    u64 *bins;        // likewise; zeroed before the launch
    double *ratios;   // bound_ratios
};

// verify/: the error metrics of which a comparison takes the maximum, as Rust's `Metric`. All but ULP belong to the values.
enum VerifyMetric { ABSOLUTE, RELATIVE, RELATIVE_OLD, EPSILON, RATIO, ULP, METRICS, MAXIMA = ULP };
// What is counted.
enum VerifyCount {
    MISMATCHES, ZERO_PASSES, ZEROS_A, ZEROS_R, NANS_A, NANS_R, PLUS_A, PLUS_R, MINUS_A, MINUS_R, NONFINITE_PAIRS,
    NONFINITE_ZEROS_R,    // zeros of the reference among these pairs
    NONFINITE_MISMATCHES, // mismatches among them
    COUNTS
};
// When a comparison is explained.
enum VerifyExplain : u32 { EXPLAIN_NEVER = 0, EXPLAIN_ON_FAILURE = 1, EXPLAIN_ALWAYS = 2 };
// What a verdict rests on, as bits.
enum VerifyJudge : u32 { JUDGE_ELEMENTS = 1, JUDGE_THRESHOLDS = 2 };
// Bins of all histograms together, and how many thresholds part them.
constexpr u32 HISTOGRAM_BINS = 23;
// Sums of d, d², m and m².
constexpr u32 SUMS = 4;
// Mismatches that an explanation lists at most.
constexpr u32 MAX_LISTED = 64;
// Rows of a tile of the sums, see docs/numerics.md.
constexpr u32 TILE_ROWS = 16;
// Lanes of a row, each with as many elements as 16 bytes of the narrower format hold.
constexpr u32 TILE_LANES = 32;
// Bytes of shared memory that a launch gives to a block on NVIDIA's GPUs for loads that are on their way: of all kernels but counts in f32, except those of large tensors of bytes, and but two formats of 4 bits.
constexpr u32 RING_BYTES = 49152;
// Tiles of a partial sum.
constexpr u32 PARTIAL_TILES = 16;

// What the first pass finds.
struct VerifyValues {
    u64 counts[COUNTS];
    double magnitudes[2];
    double maxima[MAXIMA];
    u64 histograms[HISTOGRAM_BINS];
    double sums[SUMS];
};

// An element that is reported.
struct VerifyElement {
    u64 index; // ~0: none
    u64 bits_a;
    u64 bits_r;
};

// What the second pass finds.
struct VerifyExplanation {
    VerifyElement worst[METRICS];
    double ulps;
    double passing[2]; // rtol, atol
    u64 listed;
    VerifyElement first[MAX_LISTED];
};

// What a comparison writes for the host.
struct VerifyResult {
    VerifyValues values;
    VerifyExplanation explanation;
    u64 valued;    // 1 when the values are written
    u64 explained; // when the second pass is done: 1 with an explanation, 2 when none was wanted
};

// The largest distance in ulps that a block has met.
struct VerifyFarthest {
    u64 ulps;
    u64 index;
};

// Zeroed before the first launch; each pass leaves it zeroed but for `values`.
struct VerifyWorkspace {
    // The first pass. Of formats of 4 bits, how often each pair of patterns occurs: in cache lines of their own.
    u64 pairs[256];
    // What all blocks have found, in the order of `VerifyValues`. Numbers are patterns of f64, which are ordered as the numbers are.
    u64 counts[COUNTS];
    u64 magnitudes[2];
    u64 maxima[MAXIMA];
    u64 bins[HISTOGRAM_BINS];
    // The second pass. Indices are inverted, so that 0 is none.
    u64 first[MAXIMA];
    u64 ulps;
    u64 passing[2];
    u64 first_tile;
    u64 blocks_done;
    // Of the first pass: how many runs beyond each wavefront's first ones have been taken in this launch.
    u32 next_run;
    u32 unused;
    // What the first pass has found, for the second.
    VerifyValues values;
    // Of two formats of 8 bits, the codes of pairs that blocks have told others. See hip/verify/bytes.h.
    u32 codes[4096];
};

// A tensor as both passes read it.
struct VerifyOperand {
    const u8 *base;
    u64 extents[MAX_RANK];
    u64 reciprocals[MAX_RANK]; // of extents: 2^64 over each, rounded up
    i64 strides[MAX_RANK];
    i64 inner;     // the innermost of them
    i64 offset;    // of element 0 from the base
    const u8 *end; // behind the last byte of all elements
    u32 dtype;
    u32 rank;  // 0: dense
    u32 align; // bytes to which every row, if dense inside, is aligned: 1 to 16
    u32 unused;
};

// hip/verify/pack.hip, which has the words.
struct VerifyPack {
    VerifyOperand from;
    u64 first; // elements from here
    u64 end;   // to here
    u64 row;   // elements of a row
    u64 first_row; // rows that the range begins and ends in
    u64 last_row;
    u32 inner;       // extent of the last dimension
    u32 middles;     // row / inner
    u32 narrow;      // whether tiles have 16 columns
    u32 across;      // tiles along the last dimension
    u32 tiles;
    u32 unused;
    u8 *to; // aligned to 16 bytes
};

// Every kernel that compares, of verify/.
struct VerifyParams {
    VerifyOperand operands[2]; // result and reference, the narrower format first
    u64 n;           // elements, or where a range of them ends that has a launch of its own
    u64 first_run;   // where it begins: a multiple of 8
    double rtol;
    double atol;
    float rtol_f32; // both as they are where pairs are tested in f32
    float atol_f32;
    double thresholds[3]; // RMS, absolute, relative
    // Of the result's format.
    i32 min_exponent;
    i32 max_exponent;
    i32 mantissa_bits;
    u32 clamp; // whether a bound may overflow, and is the largest finite number then
    u32 nonfinite_equal;
    u32 all;       // whether the first pass makes all metrics
    u32 judge;     // VerifyJudge
    u32 explain;   // VerifyExplain
    u32 listed;    // mismatches to list
    u32 run_log;  // a subgroup takes 2^run_log tiles in a row, up to 16
    u32 rows_log; // a tile has 2^rows_log rows: TILE_ROWS, or fewer, but at least 2, in passes without sums over small tensors
    u32 by_binade; // whether rtol multiplies the binade of |r| in the result's format, and not |r|
    u32 more;      // whether a launch follows that goes on from here
    u32 blocks;    // of the first launch
    u32 swapped;   // whether the first operand is the reference
    u32 unused;
    double *partials; // [runs of tiles][SUMS]
    u32 *mismatches;  // [tiles]
    VerifyFarthest *farthest; // [blocks]
    u64 *firsts;      // [65536], of large tensors of two formats of 8 bits: the inverted index at which a pair of patterns is first, see hip/verify/explain_bytes.h; zeroed before the first launch, and left zeroed
    VerifyWorkspace *workspace;
    VerifyResult *result;
};

// Defined while the checks are made anew.
#if !defined(HIPVERIFY_REGEN)
#include "abi_layout.h"
#endif
