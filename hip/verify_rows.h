// How rows come from memory while those before are compared.
#pragma once
#include "dense.h"

// The rows of a group on their way from memory, two batches of rows. The group goes through chunks of `chunk` elements, which begin at
// `first` and are `stride` elements apart.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
// Copied to shared memory by the processor's copy engine, a batch at a time: rows follow each other in memory. Comparing keeps its
// registers, and one thread asks for all.
template <class Pair, u32 THREADS> struct Pipe {
    enum { GROUPS = THREADS / GROUP, ROW_A = GROUP * Pair::V * Pair::BITS_A / 8, ROW_R = GROUP * Pair::V * Pair::BITS_R / 8 };
    // Together with the rest less than the 48 KiB that a block has without asking, and enough to keep memory busy.
    enum { FIT = 32768 / (2 * GROUPS * (ROW_A + ROW_R)), BATCH = FIT >= 4 ? 4 : FIT >= 2 ? 2 : 1, BYTES = BATCH * (ROW_A + ROW_R), ELEMENTS = BATCH * GROUP * Pair::V };
    struct alignas(128) Space { u8 rows[GROUPS][2][BYTES]; u64 barriers[GROUPS][2]; };
    u32 rows, barriers; // addresses of this group's in shared memory
    u32 turn;           // how many batches were taken, less one
    const u8 *a, *r;    // the batch that is asked for next
    u32 whole;          // whole batches up to the end of the chunk or of the tensor
    bool rest;          // whether a batch follows them that is not whole
    u64 first, chunk, stride;
    __device__ Pipe(Space &space, u32 group, const VerifyParams &p, u64 first_, u64 chunk_, u64 stride_) : turn(~0u), first(first_), chunk(chunk_), stride(stride_) {
        rows = (u32)__cvta_generic_to_shared(space.rows[group]);
        barriers = (u32)__cvta_generic_to_shared(space.barriers[group]);
        if (threadIdx.x % GROUP == 0)
#pragma unroll
            for (u32 i = 0; i < 2; i++) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barriers + 8 * i) : "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        enter(p);
    }
    // Goes to the chunk at `first`.
    __device__ void enter(const VerifyParams &p) {
        const u64 left = first < p.n ? (p.n - first < chunk ? p.n - first : chunk) : 0;
        whole = (u32)(left / ELEMENTS);
        rest = left % ELEMENTS != 0;
        a = p.a + first * Pair::BITS_A / 8;
        r = p.r + first * Pair::BITS_R / 8;
    }
    // Asks for the batch after the next. All threads of the group.
    __device__ void ask(const VerifyParams &p) {
        const u32 place = (turn + 1) & 1, to = rows + place * BYTES, barrier = barriers + 8 * place;
        // Nobody reads the batch before last any more.
        __syncwarp();
        if (whole == 0) {
            if (!rest) {
                first += stride;
                enter(p);
            }
            if (whole == 0) {
                if (rest) ask_for_rest(p, to, barrier);
                rest = false;
                return;
            }
        }
        // One thread that the compiler knows to be one.
        asm volatile("{\n\t.reg .pred p;\n\telect.sync _|p, 0xffffffff;\n\t"
                     "@p mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n\t"
                     "@p cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%2], [%3], %4, [%0];\n\t"
                     "@p cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%5], [%6], %7, [%0];\n\t}" ::"r"(barrier),
                     "r"((u32)BYTES), "r"(to), "l"(a), "r"((u32)(BATCH * ROW_A)), "r"(to + BATCH * ROW_A), "l"(r), "r"((u32)(BATCH * ROW_R))
                     : "memory");
        a += BATCH * ROW_A;
        r += BATCH * ROW_R;
        whole -= 1;
    }
    // A batch that the tensor ends in: all but one thread have whole loads, or nothing. Unrolled, so that they are under way together.
    __device__ void ask_for_rest(const VerifyParams &p, u32 to, u32 barrier) {
        const u32 lane = threadIdx.x % GROUP;
        const u64 index = p.n - p.n % ELEMENTS;
        typename Pair::Raw raws[BATCH];
#pragma unroll
        for (u32 row = 0; row < BATCH; row++) {
            const u64 mine = index + row * GROUP * Pair::V + lane * Pair::V;
            raws[row] = Pair::load(p, mine, mine + Pair::V <= p.n);
        }
#pragma unroll
        for (u32 row = 0; row < BATCH; row++) {
            store(to + row * ROW_A + lane * (ROW_A / GROUP), raws[row].a);
            store(to + BATCH * ROW_A + row * ROW_R + lane * (ROW_R / GROUP), raws[row].r);
        }
        __syncwarp();
        if (lane == 0) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
    }
    template <int WORDS> static __device__ void store(u32 to, const u32 (&x)[WORDS]) {
#pragma unroll
        for (int i = 0; i < WORDS; i += 4)
            asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to + 4 * i), "r"(x[i]), "r"(x[i + 1]), "r"(x[i + 2]), "r"(x[i + 3]) : "memory");
    }
    template <int WORDS> static __device__ void fetch(u32 (&x)[WORDS], u32 from) {
#pragma unroll
        for (int i = 0; i < WORDS; i += 4)
            asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(x[i]), "=r"(x[i + 1]), "=r"(x[i + 2]), "=r"(x[i + 3]) : "r"(from + 4 * i) : "memory");
    }
    // Goes on to the next batch, which was asked for.
    __device__ void next() { turn += 1; }
    // Waits until this batch is there. Its place is used every other time: half the turn tells the phase of its barrier.
    __device__ void wait() {
        asm volatile("{\n\t.reg .pred p;\n\tagain:\n\tmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n\t@!p bra again;\n\t}" ::"r"(barriers + 8 * (turn & 1)),
                     "r"(turn / 2 & 1)
                     : "memory");
    }
    __device__ typename Pair::Raw take(u32 row) {
        typename Pair::Raw raw;
        const u32 from = rows + (turn & 1) * BYTES, lane = threadIdx.x % GROUP;
        fetch(raw.a, from + row * ROW_A + lane * (ROW_A / GROUP));
        fetch(raw.r, from + BATCH * ROW_A + row * ROW_R + lane * (ROW_R / GROUP));
        return raw;
    }
};
#else
// In registers: a row is asked for while the one before is compared.
template <class Pair, u32 THREADS> struct Pipe {
    enum { BATCH = 1, ROW = GROUP * Pair::V };
    struct Space {};
    typename Pair::Raw now, later;
    u64 ahead, jump;
    u32 togo, chunk; // rows
    __device__ Pipe(Space &, u32, const VerifyParams &, u64 first, u64 chunk_, u64 stride) : ahead(first), jump(stride - chunk_), togo((u32)(chunk_ / ROW)), chunk((u32)(chunk_ / ROW)) {}
    __device__ void ask(const VerifyParams &p) {
        now = later;
        const u64 mine = ahead + threadIdx.x % GROUP * Pair::V;
        later = Pair::load(p, mine, mine + Pair::V <= p.n);
        ahead += ROW;
        if (--togo == 0) ahead += jump, togo = chunk;
    }
    __device__ void next() {}
    __device__ void wait() {}
    __device__ typename Pair::Raw take(u32) { return now; }
};
#endif
