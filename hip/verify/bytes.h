// Pass A of large tensors of two formats of 8 bits that have a zero (`BYTE`), without histograms. What a pair adds to counts and maxima follows from its two patterns, of which there are 65,536 pairs: once a pair was examined, it has a code in
// shared memory and is not examined again.
#pragma once
#include "verify/values.h"

// The codes of pairs, of BITS bits: a code says that a pair is finite and exceeds none of the maxima; with two bits also whether it passes. (FRESH: see explain_bytes.h.) A word has the codes of one pattern of the result and of all patterns of the
// reference that have the same lowest bits. Neighbouring lanes read different banks whether they share the result's pattern or the reference's.
template <u32 BITS> struct PairCodes {
    enum { PASSES = 1, FAILS = 2, FRESH = PASSES | FAILS, IN_WORD = 32 / BITS, LOW = BITS + 2, TURN = 2, WORDS = 256 << LOW, SHIFTS = 32 - BITS };
    static constexpr u32 LOWEST = ((1 << LOW) - 1) * 0x01010101u;
    static __device__ u32 word_of(u32 a, u32 r) {
        const u32 low = r & LOWEST & 0xff;
        return (a ^ low << TURN) | low << 8;
    }
    static __device__ u32 shift_of(u32 r) { return r >> 3 & SHIFTS; }
    // The pair of the code in a word at a shift.
    static __device__ u32 result_of(u32 word) { return (word & 0xff) ^ word >> 8 << TURN; }
    static __device__ u32 reference_of(u32 word, u32 shift) { return shift << 3 | word >> 8; }

    // The codes of E pairs, the first in the lowest bits, from their patterns, a byte each.
    template <int E> static __device__ u32 find(const u32 *codes, const u32 (&a)[E / 4], const u32 (&r)[E / 4]) {
        u32 found = 0;
#pragma unroll
        for (int k = 0; k < E / 4; k++) {
            const u32 low = r[k] & LOWEST, column = a[k] ^ low << TURN, shifts = BITS == 1 ? r[k] >> 3 : r[k] >> 3 & 0x1e1e1e1eu;
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const u32 word = *at(codes, column, low, i);
                found = shift_down(found, shift_down(word, word, shifts >> 8 * i), BITS);
            }
        }
        return found >> (32 - BITS * E);
    }
    // The word in column and row i of four, a byte each.
    static __device__ const u32 *at(const u32 *codes, u32 columns, u32 rows, u32 i) {
#if defined(__CUDA_ARCH__)
        // 4 x the 16-bit number, by one instruction; two elements share the instruction before.
        return (const u32 *)shared_address(__dp2a_lo(__byte_perm(columns, rows, i < 2 ? 0x5140 : 0x7362), i % 2 ? 0x400u : 4u, shared_offset(codes)));
#elif defined(__AMDGCN__)
        return codes + __builtin_amdgcn_perm(rows, columns, 0x0c0c0400 + 0x101 * i);
#else
        return codes + ((columns >> 8 * i & 0xff) | (rows >> 8 * i & 0xff) << 8);
#endif
    }
    // The lowest bits of E codes.
    template <int E> static __device__ u32 lowest() { return (BITS == 2 ? 0x55555555u : ~0u) >> (32 - BITS * E); }
    // The lowest bits of those that are missing.
    template <int E> static __device__ u32 missing(u32 codes) { return ~(BITS == 2 ? codes | codes >> 1 : codes) & lowest<E>(); }
};

// Each thread takes over its part of the codes that blocks have published.
template <u32 WORDS> __device__ inline void take_over(const u32 *published, u32 *codes) {
    enum { AT_ONCE = 8 };
    static_assert(WORDS % (AT_ONCE * THREADS) == 0);
#pragma unroll 1
    for (u32 first = threadIdx.x; first < WORDS; first += AT_ONCE * THREADS) {
        u32 others[AT_ONCE];
#pragma unroll
        for (u32 i = 0; i < AT_ONCE; i++) others[i] = load_again(&published[first + i * THREADS]);
#pragma unroll
        for (u32 i = 0; i < AT_ONCE; i++)
            if (others[i] & ~codes[first + i * THREADS]) atomicOr(&codes[first + i * THREADS], others[i]);
    }
}

// What is counted of an element is in the lower half of its number in the table, which is zero for a number of 8 bits: one addition counts both.
struct Counted {
    enum : u32 { ZERO = 1, ZERO_PASSES = 1 << 8, ALL = 0xffff };
    // The entry of a number.
    static __device__ float entry(const Rule<float> &rule, float x) {
        const float m = magnitude(x);
        return is_finite(x) ? f32_of(bits_of(x) | (m == 0 ? ZERO : 0) | (m <= rule.bound(m) ? ZERO_PASSES : 0)) : x;
    }
    static __device__ float number(float x) { return f32_of(bits_of(x) & ~ALL); }
};

// The codes of a block, and how it obtains them. Any block may give a code, whether the pair occurs or not: the maxima with which it compares the pair go to the workspace, so the final maxima are not
// smaller.
template <class Pairs, bool ALL> struct KnownPairs {
    enum { E = Pairs::FROM_LOAD, BITS = ALL ? 1 : 2 };
    typedef PairCodes<BITS> Codes;
    struct Aside {
        u32 codes[Codes::WORDS];
        u32 largest[3]; // patterns of the largest |a|, |r| and d
    };
    typedef ValuesShared<float, ALL, Aside> Shared;
    const VerifyParams &p;
    const Pairs &pairs;
    Shared &s;
    const Rule<float> &rule;
    u32 examined = 0; // how often this subgroup has examined a pair
    u32 waiting = 0;  // patterns of a pair that is not finite, whose classes are still to be counted, and WAITS; or 0
    enum : u32 { WAITS = 1 << 16 };

    // A finite pair.
    struct Pair {
        float a, r, d, m, bound;
        __device__ Pair(const Rule<float> &rule, float a_, float r_) : a(a_), r(r_), d(distance(a_, r_)), m(magnitude(r_)), bound(rule.bound(m)) {}
    };
    __device__ float result(u32 pattern) const { return Counted::number(pairs.x.decoder.number_of(pattern, 0)); }
    __device__ float reference(u32 pattern) const { return Counted::number(pairs.y.decoder.number_of(pattern, 0)); }
    // Whether one of the block's maxima is below the pair's.
    __device__ bool is_beyond(const Pair &x) const {
        const float largest[3] = {magnitude(x.a), x.m, x.d};
        bool beyond = false;
#pragma unroll
        for (int k = 0; k < 3; k++) beyond |= largest[k] > f32_of(s.aside.largest[k]);
        if constexpr (ALL) {
            Filter<float> filter;
            AnyNegative<float> quotients;
            filter.read(s.maxima);
            filter.test(quotients, s.maxima, x.d, x.m, x.bound);
            beyond |= quotients.any();
        }
        return beyond;
    }
    // Updates the block's maxima by one pair of each lane, and by the maxima that other blocks have found. Called by all lanes of a wavefront.
    __device__ void update(const Pair &x) {
        if (!wavefront_any(is_beyond(x))) return;
        VerifyWorkspace &w = *p.workspace;
        const u32 a = subgroup_max(bits_of(magnitude(x.a))), m = subgroup_max(bits_of(x.m)), d = subgroup_max(bits_of(x.d));
        const u32 lane = lane_of(), mine = lane == 0 ? a : lane == 1 ? m : d;
        if (lane < 3 && mine > s.aside.largest[lane]) {
            const u64 before = atomicMax(lane < 2 ? &w.magnitudes[lane] : &w.maxima[ABSOLUTE], bits_of((double)f32_of(mine)));
            const u32 others = bits_of((float)f64_of(before));
            atomicMax(&s.aside.largest[lane], others > mine ? others : mine);
        }
        if constexpr (ALL) {
            const float d[1] = {x.d}, r[1] = {x.r}, bound[1] = {x.bound};
            Filter<float> filter;
            filter.read(s.maxima);
            update_maxima(w.maxima, s.maxima, filter, rule, d, r, bound);
        }
    }
    __device__ static u32 code_of(const Pair &x) { return BITS == 1 || x.d <= x.bound ? Codes::PASSES : Codes::FAILS; }

    // Examines those of E pairs from `index` on that have no code: updates the maxima by them, and gives them codes. Zeros, which pass, replace pairs that are absent or not finite. Called by all lanes
    // of a wavefront, for one pair of each lane at a time.
    __device__ void examine(u64 index, u32 (&a)[E / 4], u32 (&r)[E / 4], u32 &codes) {
        const u32 there = index < pairs.n ? (u32)(pairs.n - index < E ? pairs.n - index : E) : 0;
        u32 replaced = there < E ? Codes::template lowest<E>() << BITS * there : 0;
        u32 pending = Codes::template missing<E>(codes) & ~replaced;
#pragma unroll 1
        while (wavefront_any(pending)) {
            const u32 at = pending ? __ffs((int)pending) - 1 : 0, i = at / BITS;
            const u32 of_a = pick(a, i / 4) >> 8 * (i % 4) & 0xff, of_r = pick(r, i / 4) >> 8 * (i % 4) & 0xff;
            const float x = result(of_a), y = reference(of_r);
            const bool finite = is_finite(x) && is_finite(y), taken = pending && finite;
            const bool apart = pending && !finite;
            // Hardly any step has more than one in a wavefront, and counting takes long: when a lane gets its second one, the wavefront counts those of all lanes.
            if (wavefront_any(apart && waiting)) count_waiting();
            waiting = apart ? of_a | of_r << 8 | WAITS : waiting;
            replaced |= (u32)apart << at;
            pending &= pending - 1;
            if (!wavefront_any(taken)) continue;
            const Pair pair(rule, taken ? x : 0, taken ? y : 0);
            update(pair);
            if (taken) {
                atomicOr(&s.aside.codes[Codes::word_of(of_a, of_r)], code_of(pair) << Codes::shift_of(of_r));
                codes |= code_of(pair) << at;
            }
            // After 1, 2, 4, ... examinations. After the first one, hardly any block has published codes yet.
            examined += 1;
            make_now(examined);
            if (examined & (examined - 1)) continue;
            tell();
            if (examined == 1) continue;
            learn();
            const u32 known = Codes::template find<E>(s.aside.codes, a, r);
            codes |= known;
            pending &= Codes::template missing<E>(known);
        }
        codes = (codes & ~(replaced * (2 * BITS - 1))) | replaced;
        if (ALL)
#pragma unroll
            for (int k = 0; k < E / 4; k++) {
                // Four bits, each widened to a byte. In all formats of `BYTE` the pattern 0 is zero.
                const u32 keep = ~(((replaced >> 4 * k & 0xf) * 0x00204081u & 0x01010101u) * 0xff);
                a[k] &= keep, r[k] &= keep;
            }
    }

    // Counts the classes of the pair that waits in this lane, if there is one, and updates the largest numbers by its finite one.
    __device__ void count_waiting() {
        if (waiting) {
            const float x = result(waiting & 0xff), y = reference(waiting >> 8 & 0xff);
            atomicAdd(&s.classes[class_of(x) * CLASSES + class_of(y)], 1u);
            if (is_finite(x)) atomicMax(&s.aside.largest[0], bits_of(magnitude(x)));
            if (is_finite(y)) atomicMax(&s.aside.largest[1], bits_of(magnitude(y)));
        }
        waiting = 0;
    }

    // The codes of E pairs from `index` on, and with all metrics their numbers. Called by all lanes of a wavefront.
    template <int WA, int WR> __device__ u32 take(u64 index, const u32 (&words_a)[WA], const u32 (&words_r)[WR], float (&a)[E], float (&r)[E]) {
        u32 of_a[E / 4], of_r[E / 4];
        pairs.x.decoder.template patterns<E>(words_a, of_a);
        pairs.y.decoder.template patterns<E>(words_r, of_r);
        u32 codes = Codes::template find<E>(s.aside.codes, of_a, of_r);
        if (wavefront_any(Codes::template missing<E>(codes) || index + E > pairs.n)) examine(index, of_a, of_r, codes);
        if (ALL)
#pragma unroll
            for (int i = 0; i < E; i++) a[i] = pairs.x.decoder.number_of(of_a[i / 4], i % 4), r[i] = pairs.y.decoder.number_of(of_r[i / 4], i % 4);
        return codes;
    }

    // A subgroup gives codes to its own share of the pairs, 32 of each part that all subgroups take together, and publishes them to all blocks. A large grid takes all pairs in one turn.
    __device__ void tell() {
        const u32 groups = gridDim.x * GROUPS, group = blockIdx.x * GROUPS + threadIdx.x / SUBGROUP;
#pragma unroll 1
        for (u32 k = 0, first = group * SUBGROUP; k < 4 && first < 65536; k++, first += groups * SUBGROUP) {
            const u32 i = first + lane_of(), word = i / Codes::IN_WORD, shift = i % Codes::IN_WORD * BITS;
            const float x = result(Codes::result_of(word)), y = reference(Codes::reference_of(word, shift));
            if (is_finite(x) && is_finite(y)) {
                const Pair pair(rule, x, y);
                if (!is_beyond(pair)) atomicOr(&s.aside.codes[word], code_of(pair) << shift);
            }
            subgroup_barrier();
            if (shift == 0) atomicOr(&p.workspace->codes[word], s.aside.codes[word]);
        }
    }
    __device__ void learn() { take_over<Codes::WORDS>(p.workspace->codes, s.aside.codes); }
};

// Adds to counts and sums, which all metrics except the maxima are made of; the numbers include what is `Counted`.
template <int E, int ACCUMULATORS>
__device__ inline void add_counted(const Rule<float> &rule, float (&a)[E], float (&r)[E], u32 (&counts)[4], LaneCount &mismatches, Sums<float, ACCUMULATORS> &sums) {
    float differences[E], d[E], m[E], bound[E];
    u32 of_a = 0, of_r = 0;
#pragma unroll
    for (int i = 0; i < E; i++) {
        of_a += bits_of(a[i]), of_r += bits_of(r[i]);
        a[i] = Counted::number(a[i]), r[i] = Counted::number(r[i]);
        differences[i] = difference(a[i], r[i]);
    }
    counts[1] += of_r >> 8 & 0xff, counts[2] += of_a & 0xff, counts[3] += of_r & 0xff;
    rule.magnitudes(differences, r, d, m), rule.bounds(r, bound);
#pragma unroll
    for (int i = 0; i < E; i++) {
        mismatches.add_greater(d[i], bound[i]);
        sums.add(i % ACCUMULATORS, d[i], m[i]);
    }
    mismatches.keep(), sums.keep();
}

// By blocks of FINAL_ACCUMULATORS threads.
template <class Pairs, bool ALL> __device__ inline void make_values_of_bytes(const VerifyParams &p) {
    enum { E = Pairs::FROM_LOAD, LOADS = Pairs::LOADS };
    static_assert(LOADS == 1 || !ALL, "neighbours are added to sums");
    typedef KnownPairs<Pairs, ALL> Known;
    typedef typename Known::Codes Codes;
    __shared__ typename Known::Shared s;
    __shared__ typename Pairs::Shared numbers;
    SHARED_ON_NVIDIA(ring, RING_BYTES);
    clear_shared(s);
    const Rule<float> rule(p);
    numbers.prepare(p, [&](float x) { return ALL ? Counted::entry(rule, x) : x; });
    const Pairs pairs(p, numbers);
    __syncthreads();
    static_assert(Pairs::IN_TILE + E <= LaneCount::MOST);
    const u32 group = threadIdx.x / SUBGROUP;
    Known known{p, pairs, s, rule};
    LaneCount mismatches;
    mismatches.clear();
    u32 counts[4] = {}; // as `publish` has them
#pragma unroll 1
    for (Turn<true> turn(p); turn.first < pairs.runs; turn.go_on()) {
        turn.ask(pairs.runs);
        const u64 run = turn.run();
        float a[E], r[E];
        u32 codes[LOADS];
        Sums<float, Pairs::ACCUMULATORS> sums;
        sums.clear();
        static_assert(Pairs::PARTS == 1, "words are shifted once");
        // Counts load to registers: a ring in shared memory would slow down the loads of codes there (README.md has values).
        typename Choose<ALL, LoadsAhead<Pairs>, Loads<Pairs>>::Type loads(pairs, ring, run << p.run_log, pairs.loads_in(turn.first, p.run_log));
        const auto decode = [&](u64 index) {
            loads.shift();
#pragma unroll
            for (int k = 0; k < LOADS; k++) codes[k] = known.take(index + k * pairs.walk.row, loads.words.x[k], loads.words.y[k], a, r);
        };
        const auto use = [&](u64) {
            if constexpr (ALL) add_counted(rule, a, r, counts, mismatches, sums);
            else
#pragma unroll
                for (int k = 0; k < LOADS; k++) counts[0] += __popc(codes[k] & Codes::FAILS * Codes::template lowest<E>());
        };
        const auto end_tile = [&](u32 i) {
            if constexpr (ALL) {
                s.tiles[group].set(i, sums.join());
                sums.clear(), mismatches.carry();
            }
        };
        for_parts<ONE_AHEAD, true>(pairs, loads, 1u << p.run_log, decode, use, end_tile);
        if constexpr (ALL) s.tiles[group].join(p.run_log, run < pairs.runs, p.partials + run * SUMS);
    }
    known.count_waiting();
    __syncthreads();
    const float largest[3] = {f32_of(s.aside.largest[0]), f32_of(s.aside.largest[1]), f32_of(s.aside.largest[2])};
    counts[0] += mismatches.own();
    typename Histograms<float, false>::Shared bins;
    Histograms<float, false> none(bins, rule);
    publish(*p.workspace, s, largest, counts, none, p.nonfinite_equal != 0);
    if (!ends_last(p, s.last)) return;
    // Before the values are written, which tells the host that nothing writes the workspace any more.
    for (u32 i = threadIdx.x; i < Codes::WORDS; i += THREADS) p.workspace->codes[i] = 0;
    finish<ALL>(p, pairs, s, ONE_AHEAD ? SUBGROUP * E : 0);
}
