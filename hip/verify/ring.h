// Loads by way of shared memory, on NVIDIA's GPUs, which copy there without registers for what is on its way: as much as hides the memory's latency, which one load ahead in registers does not.
//
//   a ring has SLOTS slots; a thread reads only what it has copied itself, so that it waits for no other
//   each thread, a load at a time:
//       wait until the next is there, take it to registers
//       begin the load SLOTS - 1 ahead of it, to the slot of the one that was taken before
//
// AMD's GPUs hold more threads, and copy by way of registers: they load one ahead (`Loads`).
#pragma once
#include "abi.h"
#include "verify/pairs.h"

// Where loads go to.
template <class Pairs> struct Slot {
    enum : u32 {
        CHUNKS_A = Pairs::OfA::CHUNKS, CHUNKS = CHUNKS_A + Pairs::OfR::CHUNKS,
        // Words of 4 bytes after the chunks: two that are shifted into the last ones, and by how much.
        MORE = Pairs::OfA::SHORT || Pairs::OfR::SHORT ? 3 : 0, LOAD_BYTES = THREADS * (16 * CHUNKS + 4 * MORE), BYTES = Pairs::LOADS * LOAD_BYTES
    };
    SharedAddress chunks, words; // of a thread
    __device__ SharedAddress chunks_a(int k) const { return chunks + k * LOAD_BYTES; }
    __device__ SharedAddress chunks_r(int k) const { return chunks + k * LOAD_BYTES + CHUNKS_A * CHUNK_STEP; }
    __device__ SharedAddress word(int k, u32 i) const { return words + k * LOAD_BYTES + (16 * CHUNKS + 4 * i) * THREADS; }
};

template <class Pairs> struct RingLoads {
    enum : u32 { SLOTS = RING_BYTES / Slot<Pairs>::BYTES < 4 ? RING_BYTES / Slot<Pairs>::BYTES : 4, LAST = (SLOTS - 1) * Slot<Pairs>::BYTES };
    static_assert(SLOTS >= 2);
    enum { LOADS = Pairs::LOADS };
    typedef typename Pairs::Words Words;
    const Pairs &pairs;
    const u64 start;
    const SharedAddress ring, chunks; // the first slot: of the block, of the thread
    u32 next_slot, before; // distances of slots: of the next load, and of the one before
    u32 taken;
    const u32 end; // the distance from `start` at which the loads end
    const bool words_a, words_r; // rows that are copied by words, see `by_words`
    const bool copied; // whether rows are, as vectors or by words: both, or none
    u32 shift_a, shift_r; // how many bits before the elements of the rows words begin
    u32 vectors, copies; // loads nearer than this are vectors in the rows, or copied
    Words words;
    __device__ RingLoads(const Pairs &pairs_, SharedAddress ring_, u64 tile, u32 tiles)
        : pairs(pairs_), start(pairs.walk.start(tile)), ring(ring_), chunks(ring + 16 * threadIdx.x), next_slot(0), before(LAST), taken(0), end(pairs.walk.offset(tiles * pairs.walk.steps)),
          words_a(pairs.a.by_words()), words_r(pairs.r.by_words()), copied((words_a || pairs.a.vectors()) && (words_r || pairs.r.vectors())), words(pairs, start) {
        enter_rows();
        for (u32 i = 0; i + 1 < SLOTS; i++) begin(i, slot(i * Slot<Pairs>::BYTES));
    }
    __device__ Slot<Pairs> slot(u32 distance) const { return {chunks + distance, ring + 4 * threadIdx.x + distance}; }
    // After `words.rows` are others.
    __device__ void enter_rows() {
        const u32 last = (LOADS - 1) * pairs.walk.row, inside = words.rows.until > last ? words.rows.until - last : 0;
        copies = !copied ? 0 : inside < end ? inside : end;
        vectors = pairs.vectors ? copies : 0;
        shift_a = copied && words_a ? pairs.a.align_down(words.rows.address_a) : 0;
        shift_r = copied && words_r ? pairs.r.align_down(words.rows.address_r) : 0;
    }

    // All lanes of a wavefront.
    __device__ void begin(u32 load, const Slot<Pairs> &to) {
        const u32 offset = pairs.walk.offset(load);
        // The shortest way, since all that is dense goes it.
        if (!wavefront_any(offset >= vectors)) {
#pragma unroll
            for (int k = 0; k < LOADS; k++) {
                pairs.a.copy_vector(pairs.a.advanced(pairs.a.advanced(words.rows.address_a, offset), k * pairs.walk.row), to.chunks_a(k));
                pairs.r.copy_vector(pairs.r.advanced(pairs.r.advanced(words.rows.address_r, offset), k * pairs.walk.row), to.chunks_r(k));
            }
        } else if (!wavefront_any(offset >= copies)) {
#pragma unroll
            for (int k = 0; k < LOADS; k++) copy(offset + k * pairs.walk.row, k, to);
        } else if (offset < end) {
#pragma unroll
            for (int k = 0; k < LOADS; k++) begin_row(offset + k * pairs.walk.row, k, to);
        }
        end_copies();
    }
    // Load k, inside the rows.
    __device__ void copy(u32 offset, int k, const Slot<Pairs> &to) const {
        const u64 a = pairs.a.advanced(words.rows.address_a, offset), r = pairs.r.advanced(words.rows.address_r, offset);
        if (words_a) pairs.a.copy_words(a, shift_a, to.chunks_a(k), to.word(k, 0));
        else pairs.a.copy_vector(a, to.chunks_a(k));
        if (words_r) pairs.r.copy_words(r, shift_r, to.chunks_r(k), to.word(k, 1));
        else pairs.r.copy_vector(r, to.chunks_r(k));
        put_shifts(shift_a | shift_r << 8, k, to);
    }
    // Load k, whose row may be another one, of any kind.
    __device__ void begin_row(u32 offset, int k, const Slot<Pairs> &to) {
        const u64 index = start + offset;
        if (offset >= words.rows.until && index < pairs.n) words.rows = pairs.rows_of(index, start), enter_rows();
        const bool in_row = offset < words.rows.until;
        if (in_row && copied) return copy(offset, k, to);
        // Others are waited for.
        typename Pairs::OfA::Words a;
        typename Pairs::OfR::Words r;
        if (in_row) {
            const u32 by_a = pairs.a.load(offset, words.rows.address_a, a), by_r = pairs.r.load(offset, words.rows.address_r, r);
            pairs.a.shift(a, by_a), pairs.r.shift(r, by_r);
        } else pairs.load_singly(index, a, r);
        pairs.a.put_chunks(a, to.chunks_a(k)), pairs.r.put_chunks(r, to.chunks_r(k));
        put_shifts(0, k, to);
    }
    __device__ void put_shifts(u32 by, int k, const Slot<Pairs> &to) const {
        if (Slot<Pairs>::MORE > 0 && !pairs.vectors) shared_at<u32>(to.word(k, 2)) = by;
    }

    template <bool> __device__ void next() {
        wait_for_copies<SLOTS - 2>();
        const Slot<Pairs> from = slot(next_slot);
#pragma unroll
        for (int k = 0; k < LOADS; k++) pairs.a.take_chunks(words.a[k], from.chunks_a(k)), pairs.r.take_chunks(words.r[k], from.chunks_r(k));
        if (Slot<Pairs>::MORE > 0 && !pairs.vectors) shift(from);
        begin(taken++ + SLOTS - 1, slot(before));
        before = next_slot, next_slot = next_slot == LAST ? 0 : next_slot + Slot<Pairs>::BYTES;
    }
    // Moves the first element of unaligned rows to the first bit.
    __device__ void shift(const Slot<Pairs> &from) {
#pragma unroll
        for (int k = 0; k < LOADS; k++) {
            const u32 shifts = shared_at<u32>(from.word(k, 2));
            pairs.a.shift(words.a[k], shared_at<u32>(from.word(k, 0)), shifts & 0xff), pairs.r.shift(words.r[k], shared_at<u32>(from.word(k, 1)), shifts >> 8);
        }
    }
    __device__ void shift() {}
};

template <bool FIRST, class A, class B> struct Choose { typedef A Type; };
template <class A, class B> struct Choose<false, A, B> { typedef B Type; };
// Where there is much to compute: loads that are on their way meanwhile. In registers `for_parts` has to begin them one ahead.
template <class Pairs> using LoadsAhead = typename Choose<LIKE_NVIDIA, RingLoads<Pairs>, Loads<Pairs>>::Type;
constexpr bool ONE_AHEAD = !LIKE_NVIDIA;
