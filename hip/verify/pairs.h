// How a comparison traverses two tensors: the arithmetic of a pair, the path of a thread through a tile, and how the thread gets its next E pairs.
#pragma once
#include "any.h"
#include "verify/halves.h"
#include "verify/layout.h"
#include "verify/sums.h"

// N is the type that elements are decoded to, D that of their differences, T the type of the arithmetic. The difference of wide integers is exact (at most 2^64 - 1) before it becomes a T.
struct InF32 { typedef float N, D, T; static constexpr bool EXACT = false; };
struct InF64 { typedef double N, D, T; static constexpr bool EXACT = false; };
struct InWhole { typedef Whole N; typedef u64 D; typedef double T; static constexpr bool EXACT = true; };

// Selects an element of an array that is in registers, which have no addresses: by comparisons, not by a subscript. clang 19 would select between addresses, and put the array in memory for that; not for the result of an inline instruction.
template <typename X, int E> __device__ inline X pick(const X (&x)[E], u32 at) {
    X y = x[0];
#pragma unroll
    for (u32 i = 1; i < E; i++) {
        X other = x[i];
#if defined(__AMDGCN__) && __clang_major__ > 15
        asm("" : "+v"(other));
#endif
        y = i == at ? other : y;
    }
    return y;
}
// Structs are selected field by field, for the same reason.
template <int E> __device__ inline Whole pick(const Whole (&x)[E], u32 at) {
    Whole y = x[0];
#pragma unroll
    for (u32 i = 1; i < E; i++) y.size = i == at ? x[i].size : y.size, y.negative = i == at ? x[i].negative : y.negative;
    return y;
}

// Whether E numbers are finite, judged by their sum, which may also be infinite if the numbers are large.
template <typename T, int E> __device__ inline bool all_finite(const T (&x)[E]) {
    T sum = x[0];
#pragma unroll
    for (int i = 1; i < E; i++) sum += x[i];
    return Real<T>::abs(sum) <= Real<T>::max();
}
// The same; also updates `largest` by them (see `keep_larger`), which must not be used if the numbers are not all finite.
template <typename T, int E> __device__ inline bool max_if_finite(T &largest, const T (&x)[E]) {
#pragma unroll
    for (int i = 0; i < E; i++) keep_larger(largest, x[i]);
    return all_finite(x);
}
#if defined(__CUDA_ARCH__)
// By a maximum that is NaN if one of both numbers is: no further instruction for each number. Only the given numbers decide: `largest` may be infinite, since differences of finite numbers may be.
template <int E> __device__ inline bool max_if_finite(float &largest, const float (&x)[E]) {
    float most;
    asm("{.reg .f32 a, b; abs.f32 a, %1; abs.f32 b, %2; max.NaN.f32 %0, a, b;}" : "=f"(most) : "f"(x[0]), "f"(x[1]));
#pragma unroll
    for (int i = 2; i < E; i++) asm("{.reg .f32 a; abs.f32 a, %1; max.NaN.f32 %0, a, %0;}" : "+f"(most) : "f"(x[i]));
    largest = Real<float>::larger(most, largest);
    return most <= Real<float>::max();
}
#endif
template <int E> __device__ inline bool all_finite(const u64 (&)[E]) { return true; }
template <int E> __device__ inline bool max_if_finite(double &largest, const u64 (&x)[E]) {
#pragma unroll
    for (int i = 0; i < E; i++) keep_larger(largest, x[i]);
    return true;
}

constexpr u32 ROWS_LOG = 4; // of the sums
static_assert(TILE_ROWS == 1 << ROWS_LOG);

// A thread's path through a tile, N elements of each of LOADS rows of it at a time. Neighbouring lanes have neighbouring parts of a row: N elements each, so that the elements that a
// wavefront loads are contiguous; or, FOR_SUMS, the elements that the definition of the sums gives a lane, which are more than N if the widths of the formats differ.
template <int N, int LOADS, bool FOR_SUMS> struct Walk {
    u32 row, parts_log, steps;
    u32 size_log; // of a tile's elements
    __device__ Walk(u32 bits_x, u32 bits_y, u32 rows_log) {
        const u32 width = 128 / (bits_x < bits_y ? bits_x : bits_y);
        size_log = log_of(width * SUBGROUP) + rows_log, parts_log = FOR_SUMS ? log_of(width / N) : 0;
        row = N * SUBGROUP << parts_log, steps = (width << rows_log) / (N * LOADS);
    }
    static __device__ u32 log_of(u32 x) { return __ffs((int)x) - 1; }
    // Where a thread begins in a tile.
    __device__ u64 start(u64 tile) const { return (tile << size_log) + lane_of() * (row / SUBGROUP); }
    // The distance from there at which a load begins, counted from that tile on: the same for all threads.
    __device__ u32 offset(u32 load) const { return (load >> parts_log) * (LOADS * row) + (load & ((1u << parts_log) - 1)) * N; }
};

// The current rows of a thread in both tensors. The addresses are those that the thread's first element (`start`) would have in these rows; a load `until` or more elements after it leaves one of them.
struct Rows {
    u64 address_x, address_y;
    u32 until;
};

// Operands x and y are result and reference, the one with the narrower format first, so that one kernel serves both orders.
// A load has N neighbouring pairs; LOADS loads, one row of the tile apart, are issued together. E pairs are taken at a time: a part of one load, one load after the other, or all of several loads.
template <class Arith_, u32 X, u32 Y, int N_, int E_ = N_, int LOADS_ = 1, bool FOR_SUMS = false> struct Pairs {
    typedef Arith_ Arith;
    typedef typename Arith::N N;
    typedef typename Arith::D D;
    typedef typename Arith::T T;
    enum { E = E_, LOADED = N_, LOADS = LOADS_, FROM_LOAD = E < LOADED ? E : LOADED, PARTS = LOADED * LOADS / E, ACCUMULATORS = width_of(X) == 64 && width_of(Y) == 64 ? 2 : 4 };
    static_assert(LOADS == 1 || !FOR_SUMS || 128 / (width_of(X) < width_of(Y) ? width_of(X) : width_of(Y)) == LOADED, "loads go on in ascending order");
    static_assert((LOADS == 1 || E == LOADED || PARTS == 1) && E % ACCUMULATORS == 0, "an element's accumulator is that of its place in E");
    // Whether a format may have up to 8 bits.
    static constexpr bool SMALL_X = Decoder<X>::SMALL, SMALL_Y = Decoder<Y>::SMALL;
    // Of up to 8 bits with up to 16: numbers from tables in shared memory, and few bytes to load.
    static constexpr bool NARROW = width_of(X) == 8 && (width_of(Y) == 8 || width_of(Y) == 16);
    // The largest number of a lane's elements in a tile. If one format is known only at run time, the other one may be narrower.
    static constexpr u32 LEAST = Decoder<X>::LEAST < Decoder<Y>::LEAST ? Decoder<X>::LEAST : Decoder<Y>::LEAST, IN_TILE = 128 / LEAST * TILE_ROWS;
    // The number of pairs that the first pass takes at a time with all metrics, and the second pass. On AMD's GPUs, with two wavefronts per SIMD, a thread has 128 registers; formats that are
    // known only at run time, or that differ in width, need more of them for each pair.
    enum { AT_A_TIME = LIKE_NVIDIA || FROM_LOAD <= 4 ? FROM_LOAD : FROM_LOAD / 2 };
    typedef Pairs<Arith, X, Y, LOADED, LIKE_NVIDIA ? E : AT_A_TIME, LIKE_NVIDIA && PARTS == 1 ? LOADS : 1, true> All;
    typedef Pairs<Arith, X, Y, LOADED, AT_A_TIME> Explained;
    typedef Operand<X, LOADED> OfX;
    typedef Operand<Y, LOADED> OfY;
    const VerifyParams &params;
    const OfX x;
    const OfY y;
    const bool swapped; // whether x is the reference
    const u32 dtype_a, dtype_r; // of result and reference
    const Walk<LOADED, LOADS, FOR_SUMS> walk;
    const u64 n, tiles, runs;
    const bool vectors, dense, neighbours;
    // Whether an operand has 16 bits, and whether each that has is of a floating-point format. On AMD's GPUs the instructions for words of two numbers are more than those for single numbers.
    static constexpr bool HALF_X = LIKE_NVIDIA && FOR_SUMS && X == 16, HALF_Y = LIKE_NVIDIA && FOR_SUMS && Y == 16, HALVES = HALF_X || HALF_Y;
    const bool halves;
    const bool plain_halves; // bounds are plain, of two operands of 16 bits
    const bool with_f16, with_bf16; // bounds are plain, and both formats are among these (`with_f16` also if none has 16 bits). Two flags, since nvcc would turn a single variable into a jump table
    // The shared memory of a block. Only operands of up to 8 bits have numbers there.
    struct Shared {
        Numbers<(SMALL_X ? copies_of(X) : copies_of(Y))> numbers;
        static __device__ u32 first(const VerifyParams &p) { return p.operands[SMALL_X ? 0 : 1].dtype; }
        static __device__ u32 second(const VerifyParams &p) { return p.operands[SMALL_Y ? 1 : 0].dtype; }
        __device__ void prepare(const VerifyParams &p) {
            prepare(p, [](float x) { return x; });
        }
        template <class Entry> __device__ void prepare(const VerifyParams &p, Entry entry) { numbers.prepare(first(p), second(p), entry); }
        __device__ u32 copy(const VerifyParams &p, u32 operand) const { return numbers.copy(operand, first(p) == second(p)); }
    };
    __device__ Pairs(const VerifyParams &p, const Shared &s)
        : params(p), x(p.operands[0], s.numbers.table(0), s.copy(p, 0)), y(p.operands[1], s.numbers.table(1), s.copy(p, 1)), swapped(p.swapped != 0), dtype_a(p.operands[exchanged()].dtype), dtype_r(p.operands[!exchanged()].dtype), walk(x.decoder.bits, y.decoder.bits, FOR_SUMS ? ROWS_LOG : p.rows_log), n(p.n), tiles((p.n + (1ull << walk.size_log) - 1) >> walk.size_log),
          runs((tiles + (1ull << p.run_log) - 1) >> p.run_log), vectors(x.vectors() && y.vectors()), dense(vectors && p.operands[0].rank == 0 && p.operands[1].rank == 0), neighbours(x.neighbours() && y.neighbours()),
          halves(HALVES && (!HALF_X || half_x().valid()) && (!HALF_Y || half_y().valid())), plain_halves(HALF_X && HALF_Y && plain(p)),
          with_f16(plain(p) && both_among(WITH_F16)), with_bf16(HAS_16 && plain(p) && both_among(WITH_BF16)) {}

    // Whether common formats are decoded behind their own branch. On AMD's GPUs scalar branches cost no vector instruction, while another decoder would cost registers.
    enum { COMMON = LIKE_NVIDIA && !Arith::EXACT, HAS_16 = Decoder<X>::WIDTH == 16 || Decoder<Y>::WIDTH == 16 };
    // Whether bounds are one fma.
    __device__ bool plain(const VerifyParams &p) const { return COMMON && !(p.clamp | p.by_binade); }
    __device__ bool both_among(Formats formats) const { return x.decoder.among(formats) && y.decoder.among(formats); }

    __device__ HalfFormat half_x() const { return {x.decoder.dtype}; }
    __device__ HalfFormat half_y() const { return {y.decoder.dtype}; }

    // Whether x is the reference. Two formats of one width are in the order of result and reference.
    static constexpr bool IN_ORDER = X == Y && X != ANY;
    __device__ bool exchanged() const { return !IN_ORDER && swapped; }
    // The patterns of an element of x and of y.
    struct Patterns { u64 x, y; };
    // By one copy of the code for both operands: it is long, and only rare elements take this way.
    __device__ Patterns patterns_at(u64 index) const {
        u64 first = 0, second = 0;
#pragma unroll 1
        for (u32 k = 0; k < 2; k++) {
            u64 left;
            first = second;
            second = pattern_at(params.operands[k], k ? y.decoder.bits : x.decoder.bits, offset_of(params.operands[k], index, index + 1, left));
        }
        return {first, second};
    }
    // The patterns of an element.
    __device__ VerifyElement element_at(u64 index) const {
        const Patterns of = patterns_at(index);
        return {index, exchanged() ? of.y : of.x, exchanged() ? of.x : of.y};
    }

    // The number of loads of a thread in a run, given the first run of its wavefront: all of the run, or fewer if the tensor ends in it. All threads of a wavefront load as often.
    __device__ u32 loads_in(u64 run, u32 run_log) const {
        const u64 first = run << (run_log + walk.size_log), rows = (n - first + LOADS * walk.row - 1) >> walk.log_of(LOADS * walk.row), loads = rows << walk.parts_log;
        const u32 all = walk.steps << run_log;
        return loads < all ? (u32)loads : all;
    }
    // The number of elements that all wavefronts of all launches take, including absent elements and the zeros that a run begins with.
    __device__ u64 taken(u32 run_log, u32 before_a_run) const {
        const u64 together = warpSize / SUBGROUP, all = (runs + together - 1) / together, full = all - 1; // turns
        const u64 of_a_subgroup = (full << (run_log + walk.size_log)) + loads_in(full * together, run_log) * (LOADED * LOADS * SUBGROUP);
        return (of_a_subgroup + all * before_a_run) * together;
    }

    // Whether words may have to be shifted.
    enum { SHIFTED = OfX::SHIFTED || OfY::SHIFTED };
    // The words of all pairs of a thread's loads, read in ascending order; zeros at first.
    struct Words {
        typename OfX::Words x[LOADS] = {};
        typename OfY::Words y[LOADS] = {};
        u32 shifts[SHIFTED ? 2 * LOADS : 1] = {}; // see `shift`
        Rows rows;
        // A dense tensor is one row.
        __device__ Words(const Pairs &p, u64 start)
            : rows{p.x.advanced(p.x.address_of(p.x.p.offset), (i64)start), p.y.advanced(p.y.address_of(p.y.p.offset), (i64)start), p.dense ? until(p.n, start) : 0} {}
    };
    // The least distance from `start` at which a load ends after `end`.
    static __device__ u32 until(u64 end, u64 start) {
        const i64 loads = (i64)(end - start) - LOADED + 1;
        return loads <= 0 ? 0 : loads < 1u << 31 ? (u32)loads : 1u << 31;
    }
    // One load of a thread that begins at `start`. Called by all lanes of a wavefront, so that they take branches together. Without NOW, `shift` has to be called before pairs are taken.
    template <bool NOW> __device__ void load(u64 start, u32 load, Words &w) const {
        for (auto &row : w.x)
            for (u32 &x : row) discard(x);
        for (auto &row : w.y)
            for (u32 &x : row) discard(x);
        const u32 offset = walk.offset(load);
        // The shortest way, since all that is dense goes it.
        const bool leaves = wavefront_any(offset + (LOADS - 1) * walk.row >= w.rows.until);
        if (vectors && !leaves) {
#pragma unroll
            for (int k = 0; k < LOADS; k++) {
                x.load_vector(x.advanced(x.advanced(w.rows.address_x, offset), k * walk.row), w.x[k]);
                y.load_vector(y.advanced(y.advanced(w.rows.address_y, offset), k * walk.row), w.y[k]);
            }
            return;
        }
        if (LIKE_NVIDIA && !leaves && neighbours) {
            u64 at_x = x.advanced(w.rows.address_x, offset), at_y = y.advanced(w.rows.address_y, offset);
            const u32 by_x = x.align_down(at_x), by_y = y.align_down(at_y);
#pragma unroll
            for (int k = 0; k < LOADS; k++) {
                x.load_neighbours(x.advanced(at_x, k * walk.row), by_x, w.x[k]), y.load_neighbours(y.advanced(at_y, k * walk.row), by_y, w.y[k]);
                w.shifts[2 * k] = by_x, w.shifts[2 * k + 1] = by_y;
            }
            if (NOW) shift(w);
            return;
        }
#pragma unroll
        for (int k = 0; k < LOADS; k++) load_row(start, offset + k * walk.row, leaves, w, k);
        if (NOW) shift(w);
    }
    // Load k, which may be in another row, of any kind.
    __device__ void load_row(u64 start, u32 offset, bool leaves, Words &w, int k) const {
        const u64 index = start + offset;
        // Of lanes that are still in their rows, these are the same. (If such lanes did not compute them on AMD's GPUs, either, clang 19 would copy words in the loop.)
        if (leaves && (!LIKE_NVIDIA || offset >= w.rows.until) && index < n) w.rows = rows_of(index, start);
        const bool in_row = offset < w.rows.until;
        u32 shift_x = 0, shift_y = 0;
        if (in_row) shift_x = x.load(offset, w.rows.address_x, w.x[k]), shift_y = y.load(offset, w.rows.address_y, w.y[k]);
        else {
            x.clear(w.x[k]), y.clear(w.y[k]);
            if (!LIKE_NVIDIA) load_singly(index, w.x[k], w.y[k]);
        }
        if constexpr (SHIFTED) w.shifts[2 * k] = shift_x, w.shifts[2 * k + 1] = shift_y;
        if (LIKE_NVIDIA) load_apart(!in_row, index, w.x[k], w.y[k]);
    }
    __device__ Rows rows_of(u64 index, u64 start) const {
        i64 at_x = 0, at_y = 0;
        u64 left_x = 0, left_y = 0;
#pragma unroll 1
        for (u32 k = 0; k < 2; k++) {
            at_x = at_y, left_x = left_y;
            at_y = offset_of(params.operands[k], index, n, left_y);
        }
        const auto row_x = x.row_of(index, at_x, left_x, start);
        const auto row_y = y.row_of(index, at_y, left_y, start);
        return {row_x.address, row_y.address, until(row_x.end < row_y.end ? row_x.end : row_y.end, start)};
    }
    // Moves the first element of unaligned rows to the first bit; this waits for the loads.
    __device__ void shift(Words &w) const {
        if constexpr (SHIFTED)
            if (!vectors)
#pragma unroll
                for (int k = 0; k < LOADS; k++) x.shift(w.x[k], w.shifts[2 * k]), y.shift(w.y[k], w.shifts[2 * k + 1]);
    }
    // Pairs in more than one row, one after the other, to words of zeros, which stand for elements from n on.
    __device__ void load_singly(u64 index, typename OfX::Words &words_x, typename OfY::Words &words_y) const {
#pragma unroll 1
        for (u32 e = 0; e < LOADED && index + e < n; e++) {
            const Patterns of = patterns_at(index + e);
            x.put(e, of.x, words_x), y.put(e, of.y, words_y);
        }
    }
    // The same, for those lanes that have such pairs. Where rows are long, hardly any has: then other lanes load them, one each, so that nothing waits for one load after the other. Called by all lanes of a subgroup.
    // (On AMD's GPUs, clang would keep more words in registers for it.)
    __device__ void load_apart(bool this_lane, u64 index, typename OfX::Words &words_x, typename OfY::Words &words_y) const {
        u32 lanes = subgroup_votes(this_lane);
        if (__popc(lanes) > LOADED / 2) {
            if (this_lane) load_singly(index, words_x, words_y);
            return;
        }
#pragma unroll 1
        for (; lanes; lanes &= lanes - 1) {
            const u32 lane = lane_of(), of = __ffs((int)lanes) - 1;
            const u64 at = __shfl(index, of, SUBGROUP) + lane;
            Patterns pair = {0, 0};
            if (lane < LOADED && at < n) pair = patterns_at(at);
#pragma unroll 1
            for (u32 e = 0; e < LOADED; e++) {
                const u64 of_x = __shfl(pair.x, e, SUBGROUP), of_y = __shfl(pair.y, e, SUBGROUP);
                if (lane == of) x.put(e, of_x, words_x), y.put(e, of_y, words_y);
            }
        }
    }

    // Brings the next E to the front.
    __device__ void next_part(Words &w) const {
        if constexpr (PARTS == 1) return;
        else if constexpr (LOADS == 1) x.decoder.template skip<E>(w.x[0]), y.decoder.template skip<E>(w.y[0]);
        else
#pragma unroll
            for (int k = 0; k + 1 < LOADS; k++) {
                for (u32 i = 0; i < sizeof(w.x[0]) / 4; i++) w.x[k][i] = w.x[k + 1][i];
                for (u32 i = 0; i < sizeof(w.y[0]) / 4; i++) w.y[k][i] = w.y[k + 1][i];
            }
    }
    // The distance of the next E pairs from these.
    __device__ u32 part_step() const { return LOADS == 1 ? E : walk.row; }

    template <Formats FORMATS> __device__ void decode(const Words &w, u64 index, N (&x)[E], N (&y)[E]) const {
#pragma unroll
        for (int k = 0; k < E / FROM_LOAD; k++) {
            N of_x[FROM_LOAD], of_y[FROM_LOAD];
            this->x.decoder.template decode<FROM_LOAD, FORMATS>(w.x[k], of_x);
            this->y.decoder.template decode<FROM_LOAD, FORMATS>(w.y[k], of_y);
#pragma unroll
            for (int i = 0; i < FROM_LOAD; i++) x[k * FROM_LOAD + i] = of_x[i], y[k * FROM_LOAD + i] = of_y[i];
        }
        // F8E8M0 has no zero.
        if ((SMALL_X || SMALL_Y) && X != BYTE && Y != BYTE && index + E > n)
#pragma unroll
            for (u32 e = 0; e < E; e++)
                if (index + e >= n) x[e] = y[e] = 0;
    }
    // The references among numbers of x and y, and the bounds.
    template <bool PLAIN> __device__ void references(const Rule<T> &rule, const N (&x)[E], const N (&y)[E], N (&r)[E], T (&bound)[E]) const {
#pragma unroll
        for (int i = 0; i < E; i++) r[i] = exchanged() ? x[i] : y[i];
        rule.template bounds<PLAIN>(r, bound);
    }

    // Decodes the E pairs at `index`, the first ones in the words (which `shift` may have to shift): their references, bounds, and differences, by which `largest` is updated if LARGEST. `statistics` gets the numbers of x and y, apart from pairs that are
    // not finite, which zeros replace; these also stand for elements from n on. Called by all lanes of a wavefront.
    template <bool LARGEST, class Shift, class Statistics> __device__ void take(const Rule<T> &rule, u64 index, Words &w, Shift shift, N (&r)[E], D (&d)[E], T (&bound)[E], T &largest, Statistics &statistics) const {
        N x[E], in_y[E];
        N (&y)[E] = IN_ORDER ? r : in_y; // one array, where compilers would keep two
        shift();
        if (with_f16) decode<WITH_F16>(w, index, x, y), references<true>(rule, x, y, r, bound);
        else if (with_bf16) decode<WITH_BF16>(w, index, x, y), references<true>(rule, x, y, r, bound);
        else {
            decode<OTHERS>(w, index, x, y);
            if (plain_halves) references<true>(rule, x, y, r, bound);
            else references<false>(rule, x, y, r, bound);
        }
#pragma unroll
        for (int i = 0; i < E; i++) d[i] = difference(x[i], y[i]);
        if constexpr (Statistics::IN_WORDS) {
            static_assert(HALVES && LOADS == 1 && !LARGEST);
            // The first two imply the third; after the branches above they need no test.
            if (with_f16 || with_bf16 || halves) {
                if (statistics.add_words(w.x[0], w.y[0], x, y, Statistics::BOTH_HALVES || all_finite(d))) return;
                if constexpr (Statistics::BOTH_HALVES) {
                    replace<true>(w, x, y, r, d, bound, rule.bound(0), statistics);
                    if (!statistics.add_words(w.x[0], w.y[0], x, y, true)) statistics.add_numbers(x, y);
                    return;
                }
            }
        }
        const T before = largest;
        const bool finite = LARGEST ? max_if_finite(largest, d) : all_finite(d);
        if constexpr (!Arith::EXACT)
            if (wavefront_any(!finite)) {
                replace<false>(w, x, y, r, d, bound, rule.bound(0), statistics);
                largest = before;
                if (LARGEST) max_if_finite(largest, d);
            }
        statistics.add_numbers(x, y);
    }
    // With HALVES_TOO, of two 16-bit floating-point formats, also in the words.
    template <bool HALVES_TOO, class Statistics> __device__ void replace(Words &w, N (&x)[E], N (&y)[E], N (&r)[E], D (&d)[E], T (&bound)[E], T bound_of_zero, Statistics &statistics) const {
        const auto replace_if = [&](int i, bool replaced) {
            x[i] = replaced ? 0 : x[i], y[i] = replaced ? 0 : y[i], d[i] = replaced ? 0 : d[i];
            if (!IN_ORDER) r[i] = replaced ? 0 : r[i];
            bound[i] = replaced ? bound_of_zero : bound[i];
        };
        // One position after the other, since hardly any wavefront has two pairs that are not finite.
        if constexpr (sizeof(N) == 4) {
#pragma unroll
            for (int i = 0; i < E; i++) {
                // If a number is not finite, the difference is not either.
                if (!wavefront_any(!is_finite(d[i]))) continue;
                const bool nonfinite = !(is_finite(x[i]) && is_finite(y[i]));
                if constexpr (HALVES_TOO) {
                    u32 &of_x = w.x[0][i / 2], &of_y = w.y[0][i / 2];
                    statistics.set_aside(nonfinite, i % 2 ? of_x >> 16 | (of_y & 0xffff0000u) : (of_x & 0xffff) | of_y << 16);
                    of_x = nonfinite ? of_x & (i % 2 ? 0xffff : 0xffff0000u) : of_x, of_y = nonfinite ? of_y & (i % 2 ? 0xffff : 0xffff0000u) : of_y;
                } else if (nonfinite) statistics.add_nonfinite(x[i], y[i]);
                replace_if(i, nonfinite);
            }
        } else {
            // For wider numbers, which take more registers: each lane's first such pair in each turn.
            u32 odd;
            do {
                N of_x = 0, of_y = 0;
                odd = 0;
#pragma unroll
                for (int i = 0; i < E; i++) {
                    const bool nonfinite = !(is_finite(x[i]) && is_finite(y[i])), first = nonfinite && odd == 0;
                    odd += nonfinite;
                    of_x = first ? x[i] : of_x, of_y = first ? y[i] : of_y;
                    replace_if(i, first);
                }
                if (odd) statistics.add_nonfinite(of_x, of_y);
            } while (wavefront_any(odd > 1));
        }
    }
};

// The loads of a thread to registers, one after the other: `next` begins one, and nothing waits for it before its pairs are decoded. For kernels that compute much, `ring.h` has the loads of NVIDIA's GPUs.
template <class Pairs> struct Loads {
    const Pairs &pairs;
    const u64 start;
    const u32 count; // of loads
    u32 taken;
    typename Pairs::Words words;
    __device__ Loads(const Pairs &pairs_, SharedAddress, u64 tile, u32 count_) : pairs(pairs_), start(pairs.walk.start(tile)), count(count_), taken(0), words(pairs, start) {}
    template <bool NOW> __device__ void next() { pairs.template load<NOW>(start, taken++, words); }
    __device__ void shift() { pairs.shift(words); }
};

// Goes through a thread's parts of `tiles` tiles, as far as there are loads. For each part, `decode(index)` is called when the next E pairs, those at `index`, come first in the words; then `use(index)`; and after the last part
// of each tile `end_tile(i)`. AHEAD: the next words are being loaded while pairs are used, and zeros are decoded before the first ones, at `pairs.n`. LATER: `decode` shifts unaligned words,
// if all of a load are taken at once; this hides the latency of the loads and needs registers. Called by all lanes of a wavefront.
template <bool AHEAD, bool LATER, class Pairs, class Loads, class Decode, class Use, class EndTile>
__device__ inline void for_parts(const Pairs &pairs, Loads &loads, u32 tiles, Decode decode, Use use, EndTile end_tile) {
    enum { E = Pairs::E, PARTS = Pairs::PARTS, NOW = !(LATER && PARTS == 1) };
    u32 k = AHEAD ? PARTS - 1 : 0;
    u32 rest = loads.count; // of all tiles
    u32 turns = AHEAD ? 1 : 0;
#pragma unroll 1
    for (u32 i = 0; i < tiles; i++) {
        const u32 of_tile = rest < pairs.walk.steps ? rest : pairs.walk.steps;
        rest -= of_tile;
#pragma unroll 1
        for (turns += of_tile * PARTS; turns > 0; turns--) {
            if (!AHEAD && k == 0) loads.template next<NOW>();
            const u64 index = (AHEAD && loads.taken == 0 ? pairs.n : loads.start + pairs.walk.offset(loads.taken - 1)) + k * pairs.part_step();
            decode(index);
            pairs.next_part(loads.words);
            if (++k == PARTS) k = 0;
            if (AHEAD && k == 0) loads.template next<NOW>();
            use(index);
        }
        end_tile(i);
    }
}

// Calls `take(index, r, d, bound)` for E pairs at a time: their references, differences, by which `largest` is updated if LARGEST, and bounds. See `for_parts` and `Pairs::take`.
template <bool AHEAD, bool LATER, bool LARGEST, class Pairs, class Loads, class Statistics, class Take, class EndTile>
__device__ inline void for_pairs(const Pairs &pairs, Loads &loads, const Rule<typename Pairs::T> &rule, u32 tiles, typename Pairs::T &largest, Statistics &statistics, Take take, EndTile end_tile) {
    enum { E = Pairs::E };
    typename Pairs::N r[E];
    typename Pairs::D d[E];
    typename Pairs::T bound[E];
    const auto shift = [&] { if (LATER && Pairs::PARTS == 1) loads.shift(); };
    const auto decode = [&](u64 index) { pairs.template take<LARGEST>(rule, index, loads.words, shift, r, d, bound, largest, statistics); };
    for_parts<AHEAD, LATER>(pairs, loads, tiles, decode, [&](u64 index) { take(index, r, d, bound); }, end_tile);
}

// The runs of the first pass that a wavefront takes in a turn: one for each of its subgroups. Its first ones are fixed by its place in the grid. If it ASKS, later ones are those that no wavefront has taken
// yet, so that all wavefronts end together; otherwise they are fixed, too, which is better for loads that are hardly hidden by computation. Which wavefront takes a run changes no result.
template <bool ASKS> struct Turn {
    const VerifyParams &p;
    u64 first;
    u32 asked; // of the first lane
    static __device__ u32 runs() { return warpSize / SUBGROUP; }
    __device__ explicit Turn(const VerifyParams &p_) : p(p_), first(p_.first_run + blockIdx.x * GROUPS + same_in_wavefront(threadIdx.x / warpSize) * runs()), asked(0) {}
    // Called at the beginning of a turn, so that the answer is there at its end. `all`: where the runs end.
    __device__ void ask(u64 all) {
        if (ASKS && threadIdx.x % warpSize == 0 && after_first() < all) asked = atomicAdd(&p.workspace->next_run, runs());
    }
    __device__ void go_on() { first = ASKS ? after_first() + same_in_wavefront(asked) : first + gridDim.x * GROUPS; }
    __device__ u64 after_first() const { return p.first_run + gridDim.x * GROUPS; }
    // That of this thread's subgroup.
    __device__ u64 run() const { return first + threadIdx.x % warpSize / SUBGROUP; }
};

// Tells a block whether it is the last one of all launches of a pass. Everything that all blocks wrote before is then visible to it.
__device__ inline bool ends_last(const VerifyParams &p, u32 &shared) {
    u64 &done = p.workspace->blocks_done;
    if (!last_block(done, shared)) return false;
    if (p.more && threadIdx.x == 0) done = 0, p.workspace->next_run = 0;
    return !p.more;
}

// Whether a pair that is not finite passes.
__device__ inline bool nonfinite_passes(const VerifyParams &, Whole, Whole) { return true; }
template <typename T> __device__ inline bool nonfinite_passes(const VerifyParams &p, T a, T r) { return p.nonfinite_equal && (a == r || (a != a && r != r)); }
