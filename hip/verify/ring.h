// Loads through shared memory on NVIDIA's GPUs, which copy to it without registers for outstanding loads. So enough loads are outstanding to hide the memory's latency; one load ahead in registers is not enough.
//
//   a ring has STAGES stages; a thread reads only what it has copied itself, so it waits for no other thread
//   each thread, for one load after the other:
//       wait until the load has arrived, take it to registers
//       begin the load that is STAGES - 1 ahead of it, to the stage of the load taken before
//
// AMD's GPUs hold more threads, and copy through registers: they load one ahead (`Loads`).
#pragma once
#include "abi.h"
#include "verify/pairs.h"

// The destination of a load.
template <class Pairs> struct Stage {
    enum : u32 {
        QUADS_X = Pairs::OfX::QUADS, QUADS = QUADS_X + Pairs::OfY::QUADS,
        // A last quad has the words that are shifted into the last ones of x and y, and the numbers of bits.
        MORE = Pairs::OfX::SHORT || Pairs::OfY::SHORT, LOAD_BYTES = (QUADS + MORE) * QUAD_STEP, BYTES = Pairs::LOADS * LOAD_BYTES
    };
    SharedAddress quads; // of a thread
    __device__ SharedAddress quads_x(int k) const { return quads + k * LOAD_BYTES; }
    __device__ SharedAddress quads_y(int k) const { return quads + k * LOAD_BYTES + QUADS_X * QUAD_STEP; }
    __device__ SharedAddress more(int k) const { return quads + k * LOAD_BYTES + QUADS * QUAD_STEP; }
};

template <class Pairs> struct RingLoads {
    enum : u32 { STAGES = RING_BYTES / Stage<Pairs>::BYTES < 4 ? RING_BYTES / Stage<Pairs>::BYTES : 4, LAST = (STAGES - 1) * Stage<Pairs>::BYTES };
    static_assert(STAGES >= 2);
    enum { LOADS = Pairs::LOADS };
    typedef typename Pairs::Words Words;
    const Pairs &pairs;
    const u64 start;
    const SharedAddress quads; // of the first stage
    u32 next_stage, before; // distances of stages: of the next load, and of the one before
    const u32 count; // of loads
    u32 taken;
    const u32 end; // the distance from `start` at which the loads end
    const bool words_x, words_y; // rows that are copied by words, see `by_words`
    const bool copied; // whether rows are copied, as vectors or by words: those of both operands, or none
    u32 shift_x, shift_y; // the number of bits by which the words of the rows begin before their elements
    u32 vectors, copies; // loads nearer than this are vectors inside the rows; are copied
    Words words;
    __device__ RingLoads(const Pairs &pairs_, SharedAddress ring, u64 tile, u32 count_)
        : pairs(pairs_), start(pairs.walk.start(tile)), quads(ring + 16 * threadIdx.x), next_stage(0), before(LAST), count(count_), taken(0), end(pairs.walk.offset(count)),
          words_x(pairs.x.by_words()), words_y(pairs.y.by_words()), copied((words_x || pairs.x.vectors()) && (words_y || pairs.y.vectors())), words(pairs, start) {
        enter_rows();
        for (u32 i = 0; i + 1 < STAGES; i++) begin(i, stage(i * Stage<Pairs>::BYTES));
    }
    __device__ Stage<Pairs> stage(u32 distance) const { return {quads + distance}; }
    // Called after `words.rows` has changed.
    __device__ void enter_rows() {
        const u32 last = (LOADS - 1) * pairs.walk.row, inside = words.rows.until > last ? words.rows.until - last : 0;
        copies = !copied ? 0 : inside < end ? inside : end;
        vectors = pairs.vectors ? copies : 0;
        shift_x = copied && words_x ? pairs.x.align_down(words.rows.address_x) : 0;
        shift_y = copied && words_y ? pairs.y.align_down(words.rows.address_y) : 0;
    }

    // All lanes of a wavefront.
    __device__ void begin(u32 load, const Stage<Pairs> &to) {
        const u32 offset = pairs.walk.offset(load);
        // The shortest way, since all that is dense goes it.
        if (!wavefront_any(offset >= vectors)) {
#pragma unroll
            for (int k = 0; k < LOADS; k++) {
                pairs.x.copy_vector(pairs.x.advanced(pairs.x.advanced(words.rows.address_x, offset), k * pairs.walk.row), to.quads_x(k));
                pairs.y.copy_vector(pairs.y.advanced(pairs.y.advanced(words.rows.address_y, offset), k * pairs.walk.row), to.quads_y(k));
            }
            return end_copies();
        }
        if (!wavefront_any(offset >= copies)) {
#pragma unroll
            for (int k = 0; k < LOADS; k++) copy(offset + k * pairs.walk.row, k, to);
        } else if (offset < end) {
#pragma unroll
            for (int k = 0; k < LOADS; k++) begin_row(offset + k * pairs.walk.row, k, to);
        }
        end_copies();
    }
    // Load k, inside the rows.
    __device__ void copy(u32 offset, int k, const Stage<Pairs> &to) const {
        const u64 x = pairs.x.advanced(words.rows.address_x, offset), y = pairs.y.advanced(words.rows.address_y, offset);
        // Copies in one block take fewer instructions than in several.
        if (words_x && words_y) pairs.x.copy_words(x, to.quads_x(k), to.more(k)), pairs.y.copy_words(y, to.quads_y(k), to.more(k) + 4);
        else if (words_x) pairs.x.copy_words(x, to.quads_x(k), to.more(k)), pairs.y.copy_vector(y, to.quads_y(k));
        else if (words_y) pairs.x.copy_vector(x, to.quads_x(k)), pairs.y.copy_words(y, to.quads_y(k), to.more(k) + 4);
        else pairs.x.copy_vector(x, to.quads_x(k)), pairs.y.copy_vector(y, to.quads_y(k));
        put_shifts(shift_x | shift_y << 8, k, to);
    }
    // Load k, which may be in another row, of any kind.
    __device__ void begin_row(u32 offset, int k, const Stage<Pairs> &to) {
        const u64 index = start + offset;
        if (offset >= words.rows.until && index < pairs.n) words.rows = pairs.rows_of(index, start), enter_rows();
        const bool in_row = offset < words.rows.until;
        if (in_row && copied) copy(offset, k, to);
        if (!wavefront_any(!(in_row && copied))) return;
        // Others are waited for.
        typename Pairs::OfX::Words x;
        typename Pairs::OfY::Words y;
        if (in_row && !copied) {
            const u32 by_x = pairs.x.load(offset, words.rows.address_x, x), by_y = pairs.y.load(offset, words.rows.address_y, y);
            pairs.x.shift(x, by_x), pairs.y.shift(y, by_y);
        } else pairs.x.clear(x), pairs.y.clear(y);
        pairs.load_apart(!in_row, index, x, y);
        if (in_row && copied) return;
        pairs.x.put_quads(x, to.quads_x(k)), pairs.y.put_quads(y, to.quads_y(k));
        put_shifts(0, k, to);
    }
    __device__ void put_shifts(u32 by, int k, const Stage<Pairs> &to) const {
        if (Stage<Pairs>::MORE > 0 && !pairs.vectors) shared_at<u32>(to.more(k) + 8) = by;
    }

    template <bool> __device__ void next() {
        wait_for_copies<STAGES - 2>();
        const Stage<Pairs> from = stage(next_stage);
#pragma unroll
        for (int k = 0; k < LOADS; k++) pairs.x.take_quads(words.x[k], from.quads_x(k)), pairs.y.take_quads(words.y[k], from.quads_y(k));
        if (Stage<Pairs>::MORE > 0 && !pairs.vectors) shift(from);
        begin(taken++ + STAGES - 1, stage(before));
        before = next_stage, next_stage = next_stage == LAST ? 0 : next_stage + Stage<Pairs>::BYTES;
    }
    // Moves the first element of unaligned rows to the first bit.
    __device__ void shift(const Stage<Pairs> &from) {
#pragma unroll
        for (int k = 0; k < LOADS; k++) {
            const uint4 more = shared_at<const uint4>(from.more(k));
            pairs.x.shift(words.x[k], more.x, more.z & 0xff), pairs.y.shift(words.y[k], more.y, more.z >> 8);
        }
    }
    __device__ void shift() {}
};

template <bool FIRST, class A, class B> struct Choose { typedef A Type; };
template <class A, class B> struct Choose<false, A, B> { typedef B Type; };
// The loads for kernels that compute much: they arrive during the computation. With loads to registers, `for_parts` has to begin them one ahead.
template <class Pairs> using LoadsAhead = typename Choose<LIKE_NVIDIA, RingLoads<Pairs>, Loads<Pairs>>::Type;
constexpr bool ONE_AHEAD = !LIKE_NVIDIA;
