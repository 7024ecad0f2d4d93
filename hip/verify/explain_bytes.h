// Pass B of large tensors of two formats of 8 bits that have a zero (`BYTE`). All that is explained of an element follows from its two patterns and its index: so a launch, or several, find where each of the 65,536 pairs of
// patterns is first, and a last one examines these elements. The time depends on the data only by how many different pairs there are.
#pragma once
#include "verify/bytes.h"
#include "verify/explain.h"

// A block's search for pairs that it has not met. A pair that all of its subgroups may skip has the code PASSES or FAILS: it was met before, in a tile before all those that the block still reads. A pair that was met since then is
// FRESH: another subgroup may meet it at a smaller index, and must not skip it.
//
// In a first turn, the blocks that have tiles search the beginning of the tensor together, each a part of it, and publish the codes of the pairs that are there. All of this beginning is searched in this turn (they are the first blocks), so whatever a
// block reads afterwards comes after these pairs, or was searched by the block that has it in its part: every block may take over these codes.
template <class Pairs> struct FirstPairs {
    enum { E = Pairs::E };
    static_assert(Pairs::LOADS == 1 && Pairs::PARTS == 1, "E neighbours");
    typedef PairCodes<2> Codes;
    struct Shared {
        ExplainShared<float> found;
        u32 codes[Codes::WORDS];
        u32 fresh[2]; // 1 + the last even, and the last odd turn that had fresh pairs
    };
    const VerifyParams &p;
    const Pairs &pairs;
    Shared &s;
    const Rule<float> &rule;

    __device__ float result(u32 pattern) const { return pairs.x.decoder.number_of(pattern, 0); }
    __device__ float reference(u32 pattern) const { return pairs.y.decoder.number_of(pattern, 0); }
    __device__ bool passes(u32 of_a, u32 of_r) const {
        const float a = result(of_a), r = reference(of_r);
        return is_finite(a) && is_finite(r) ? within(distance(a, r), rule.bound(magnitude(r))) : nonfinite_passes(p, a, r);
    }
    // Notes an element of a pair without a code; returns whether it fails.
    __device__ bool add(u64 index, u32 of_a, u32 of_r, u32 turn) {
        u64 &first = p.firsts[of_a | of_r << 8];
        if (load_again(&first) < ~index) atomicMax(&first, ~index);
        atomicOr(&s.codes[Codes::word_of(of_a, of_r)], (u32)Codes::FRESH << Codes::shift_of(of_r));
        atomicMax(&s.fresh[turn % 2], turn + 1);
        return !passes(of_a, of_r);
    }
    // Steps of a subgroup's tile, `first` to `end`; returns whether an element of this lane fails.
    __device__ bool search(u64 tile, u32 first, u32 end, u32 turn) {
        const u32 lowest = Codes::template lowest<E>();
        bool mismatch = false;
        Loads<Pairs> loads(pairs, {}, tile, pairs.walk.steps);
        loads.taken = first;
        loads.template next<false>();
#pragma unroll 1
        for (u32 step = first; step < end; step++) {
            const u64 index = loads.start + pairs.walk.offset(step);
            u32 a[E / 4], r[E / 4];
            loads.shift();
            pairs.x.decoder.template patterns<E>(loads.words.x[0], a);
            pairs.y.decoder.template patterns<E>(loads.words.y[0], r);
            // The next load is on its way while the codes are found.
            if (step + 1 < end) loads.template next<false>();
            const u32 codes = Codes::template find<E>(s.codes, a, r);
            const u32 there = index < pairs.n ? (u32)(pairs.n - index < E ? pairs.n - index : E) : 0, present = there < E ? (1u << 2 * there) - 1 : ~0u;
            mismatch |= (codes >> 1 & ~codes & lowest & present) != 0;
            u32 unknown = ~(codes ^ codes >> 1) & lowest & present;
            while (unknown) {
                const u32 i = (u32)(__ffs((int)unknown) - 1) / 2;
                mismatch |= add(index + i, pick(a, i / 4) >> 8 * (i % 4) & 0xff, pick(r, i / 4) >> 8 * (i % 4) & 0xff, turn);
                unknown &= unknown - 1;
            }
            // By then most blocks have searched their parts of the beginning.
            if (turn == 1 && (step == 1 || step == 4)) take_over<Codes::WORDS>(p.workspace->codes, s.codes);
        }
        return mismatch;
    }
    // Ends a turn: everything that the block reads from now on comes after all that it has read, but for the beginning. After the first turn its codes are published. Called by all threads of a block.
    __device__ void end(u32 turn) {
        __syncthreads();
        if (s.fresh[turn % 2] != turn + 1) return;
#pragma unroll 1
        for (u32 word = threadIdx.x; word < Codes::WORDS; word += THREADS) {
            const u32 codes = s.codes[word];
            u32 coded = codes;
            for (u32 fresh = codes & codes >> 1 & 0x55555555u; fresh; fresh &= fresh - 1) {
                const u32 shift = __ffs((int)fresh) - 1;
                coded ^= (passes(Codes::result_of(word), Codes::reference_of(word, shift)) ? Codes::FAILS : Codes::PASSES) << shift;
            }
            if (coded != codes) s.codes[word] = coded;
            if (turn == 0 && coded) atomicOr(&p.workspace->codes[word], coded);
        }
        __syncthreads();
    }
    // Examines the first elements of 32 pairs. Called by all lanes of a subgroup.
    __device__ void examine_some(u32 pair) {
        u64 &first = p.firsts[pair];
        const u64 inverted = first;
        const float a = result(pair & 0xff), r = reference(pair >> 8);
        const bool there = inverted && is_finite(a) && is_finite(r);
        if (inverted) first = 0;
        if (!subgroup_votes(there)) return;
        const u64 ulps = load_again(&s.found.ulps);
        examine(p, pairs, s.found, rule, s.found.format.reach(ulps ? f64_of(ulps) : 1), there ? a : 0, there ? r : 0, ~inverted, there);
    }
};

template <class Pairs> __device__ inline void explain_bytes(const VerifyParams &p) {
    typedef FirstPairs<Pairs> Search;
    if (unwanted(p)) return;
    __shared__ typename Search::Shared s;
    __shared__ typename Pairs::Shared numbers;
    clear_shared(s);
    numbers.prepare(p);
    __syncthreads();
    const Pairs pairs(p, numbers);
    const Rule<float> rule(p);
    s.found.prepare(p, format_at(pairs.dtype_a));
    __syncthreads();
    Search search{p, pairs, s, rule};
    const u32 group = threadIdx.x / SUBGROUP;
    u32 turn = 0;
#pragma unroll 1
    for (u64 first = p.first_run + blockIdx.x * GROUPS; first < pairs.tiles; turn++) {
        // In the first turn each subgroup takes one step of the beginning.
        const u64 at = (u64)blockIdx.x * GROUPS + group;
        const u32 steps = pairs.walk.steps, from = turn ? 0 : at % steps;
        const u64 tile = turn ? first + group : p.first_run + at / steps;
        const bool mismatch = search.search(tile, from, turn ? steps : from + 1, turn);
        if (turn) note_mismatches(p, pairs, s.found, tile, mismatch), first += (u64)gridDim.x * GROUPS;
        search.end(turn);
    }
    if (!p.more)
#pragma unroll 1
        for (u32 pair = (blockIdx.x * GROUPS + group) * SUBGROUP; pair < 65536; pair += gridDim.x * GROUPS * SUBGROUP) search.examine_some(pair + lane_of());
    publish(p, s.found);
    if (!ends_last(p, s.found.last)) return;
    for (u32 word = threadIdx.x; word < Search::Codes::WORDS; word += THREADS) p.workspace->codes[word] = 0;
    write_explanation(p, s.found, pairs, rule);
}
