// Pass A: reads both tensors once and computes values: counts, largest magnitudes, maxima of the metrics, sums, histograms. README.md says why it is right.
#pragma once
#include "verify/maxima.h"
#include "verify/histograms.h"

// The classes of numbers that are counted in pairs that are not finite.
enum { ORDINARY, ZERO, NOT_A_NUMBER, PLUS, MINUS, CLASSES };
__device__ inline u32 class_of(Whole x) { return x.size == 0 ? ZERO : ORDINARY; }
template <typename T> __device__ inline u32 class_of(T x) { return is_finite(x) ? (x == 0 ? ZERO : ORDINARY) : x != x ? NOT_A_NUMBER : x > 0 ? PLUS : MINUS; }

// What a block shares for all metrics; ASIDE is what a kernel needs besides, until all runs are done.
template <typename T, bool ALL, class Aside> struct MetricsShared {
    SharedMaxima<T> maxima;
    union {
        double finals[SUMS][FINAL_ACCUMULATORS]; // of the last block, when all runs are done
        struct {
            TileSums tiles[FINAL_ACCUMULATORS / SUBGROUP];
            Aside aside;
        };
    };
};
// Counts need none of it: with less shared memory, more blocks fit on AMD's compute units.
template <typename T, class Aside> struct MetricsShared<T, false, Aside> { Aside aside; };

// The shared memory of a block.
template <typename T, bool ALL, class Aside> struct ValuesShared : MetricsShared<T, ALL, Aside> {
    // A launch has fewer than 2^32 elements, absent ones included.
    u32 counts[4];
    u32 classes[CLASSES * CLASSES]; // of result and reference
    typename Real<T>::Bits magnitudes[3]; // patterns: of results, references and differences
    u32 last;
};

// What a thread counts of finite pairs.
template <class Arith> struct Passes {
    typedef typename Arith::N N;
    typedef typename Arith::T T;
    LaneCount mismatches, zero_passes;
    __device__ Passes() { mismatches.clear(), zero_passes.clear(); }
    __device__ void keep() { mismatches.keep(), zero_passes.keep(); }
    __device__ void carry() { mismatches.carry(), zero_passes.carry(); }
    __device__ void add(typename Arith::D difference, T d, T bound) {
        if constexpr (Arith::EXACT) mismatches.add(!within(difference, bound));
        else mismatches.add_greater(d, bound);
    }
    // Whether a result of zero would pass.
    __device__ void add_zero(N r, T m, T bound) {
        if constexpr (Arith::EXACT) zero_passes.add(within(magnitude(r), bound));
        else zero_passes.add_at_most(m, bound);
    }
};

// What is kept of the numbers of operands x and y: the largest ones and, with all metrics, the number of zeros; and the classes of those in pairs that are not finite. `Pairs::take` adds the numbers.
template <class Pairs, bool ALL> struct Statistics {
    typedef typename Pairs::N N;
    typedef typename Pairs::T T;
    enum { E = Pairs::E };
    static constexpr bool HALF_X = ALL && Pairs::HALF_X, HALF_Y = ALL && Pairs::HALF_Y, IN_WORDS = HALF_X || HALF_Y, BOTH_HALVES = HALF_X && HALF_Y;
    const Pairs &pairs;
    u32 *classes; // of the block, by result and reference
    T largest_x = 0, largest_y = 0; // see `keep_larger`
    LaneCount zeros_x, zeros_y;
    Halves half_x, half_y; // of words
    u32 waiting = 0;        // patterns of two halves that are not both finite, x in the lower one, whose classes are still to be counted; or 0
    N last_x[E], last_y[E]; // not of words
    __device__ Statistics(const Pairs &pairs_, u32 *classes_) : pairs(pairs_), classes(classes_) { zeros_x.clear(), zeros_y.clear(), half_x.clear(), half_y.clear(); }

    // Adds finite pairs by the words of 16-bit floating-point formats, and returns true; or does nothing and returns false, if in the wavefront pairs are not finite, or words do not tell. Called by all lanes of a wavefront.
    __device__ bool add_words(const u32 *words_x, const u32 *words_y, const N (&x)[E], const N (&y)[E], bool finite) {
        const u32 most_x = HALF_X ? Halves::largest_of<E>(words_x) : 0, most_y = HALF_Y ? Halves::largest_of<E>(words_y) : 0;
        if (wavefront_any(!finite || is_large(HALF_X && HALF_Y ? largest_halves(most_x, most_y, 0) : most_x | most_y))) return false;
        if (HALF_X) half_x.template add<E>(words_x, most_x);
        else add(largest_x, zeros_x, x);
        if (HALF_Y) half_y.template add<E>(words_y, most_y);
        else add(largest_y, zeros_y, y);
        return true;
    }
    __device__ void add_numbers(const N (&x)[E], const N (&y)[E]) {
        if (IN_WORDS) add(largest_x, zeros_x, x), add(largest_y, zeros_y, y);
        else
#pragma unroll
            for (int i = 0; i < E; i++) {
                last_x[i] = x[i];
                if (!Pairs::IN_ORDER) last_y[i] = y[i];
            }
    }
    // Called when the last pairs, with references r, are used. Beside what else is done for them, compilers for AMD's GPUs need one instruction less for each number.
    __device__ void add_last(const N (&r)[E]) {
        if (!IN_WORDS) {
            add(largest_x, zeros_x, last_x);
            if (Pairs::IN_ORDER) add(largest_y, zeros_y, r);
            else add(largest_y, zeros_y, last_y);
        }
        if (ALL) zeros_x.keep(), zeros_y.keep(), make_now(largest_x), make_now(largest_y);
    }
    static __device__ void add(T &largest, LaneCount &zeros, const N (&x)[E]) {
#pragma unroll
        for (int i = 0; i < E; i++) {
            // Otherwise the magnitudes would be kept, after a branch that not all pairs take.
            const N number = IN_WORDS ? unknown(x[i]) : x[i];
            keep_larger(largest, number);
            if (ALL) zeros.add_at_most((T)magnitude(number), T(0));
        }
    }
    __device__ void add_nonfinite(N x, N y) {
        const bool exchanged = pairs.exchanged();
        atomicAdd(&classes[class_of(exchanged ? y : x) * CLASSES + class_of(exchanged ? x : y)], 1u);
        if (is_finite(x)) keep_larger(largest_x, x);
        if (is_finite(y)) keep_larger(largest_y, y);
    }
    // Counts such a pair of this lane later: hardly any step has more than one in a wavefront, and counting takes long. When a lane gets its second one, the wavefront counts those of all lanes. Called by all of them.
    __device__ void set_aside(bool there, u32 pair) {
        if (wavefront_any(there && waiting)) count_waiting();
        waiting = there ? pair : waiting;
    }
    __device__ void count_waiting() {
        if (waiting) add_nonfinite(pairs.half_x().number(waiting & 0xffff), pairs.half_y().number(waiting >> 16));
        waiting = 0;
    }
    __device__ void carry() {
        zeros_x.carry(), zeros_y.carry();
        if (HALF_X) half_x.carry();
        if (HALF_Y) half_y.carry();
    }
    // Writes the largest result and reference, and this thread's part of the zeros of both, as `publish` has them, when all pairs were added.
    __device__ void finish(T (&largest)[3], u32 (&counts)[4]) {
        if constexpr (BOTH_HALVES) count_waiting();
        if constexpr (HALF_X) largest_x = Real<T>::larger(magnitude(largest_x), half_x.number(pairs.half_x()));
        if constexpr (HALF_Y) largest_y = Real<T>::larger(magnitude(largest_y), half_y.number(pairs.half_y()));
        const bool exchanged = pairs.exchanged();
        const u32 x = zeros_x.own() + (HALF_X ? half_x.count : 0), y = zeros_y.own() + (HALF_Y ? half_y.count : 0);
        largest[0] = exchanged ? largest_y : largest_x, largest[1] = exchanged ? largest_x : largest_y;
        counts[2] = exchanged ? y : x, counts[3] = exchanged ? x : y;
    }
};
struct NoStatistics {
    static constexpr bool IN_WORDS = false, BOTH_HALVES = false;
    template <typename N> __device__ void add_nonfinite(N, N) {}
    template <class Numbers> __device__ void add_numbers(const Numbers &, const Numbers &) {}
};

// Adds the number of pairs of these classes to the counts.
__device__ inline void count_classes(u64 *counts, u32 a, u32 r, u64 pairs, bool nonfinite_equal) {
    // The counts of a class for results; those for references follow.
    const u32 count_of[CLASSES] = {COUNTS, ZEROS_A, NANS_A, PLUS_A, MINUS_A};
    if (a != ORDINARY) atomicAdd(&counts[count_of[a]], pairs);
    if (r != ORDINARY) atomicAdd(&counts[count_of[r] + 1], pairs);
    atomicAdd(&counts[NONFINITE_PAIRS], pairs);
    if (!nonfinite_equal || a != r) atomicAdd(&counts[MISMATCHES], pairs), atomicAdd(&counts[NONFINITE_MISMATCHES], pairs);
    if (r == ZERO) atomicAdd(&counts[NONFINITE_ZEROS_R], pairs);
}

// Takes E finite pairs. With counts, their largest difference is already known; with all metrics, it is found with the other maxima. The maxima of `filter` may be older than those of the block.
template <class Pairs, bool ALL, bool HISTOGRAMS, class Shared>
__device__ inline void add(const VerifyParams &p, Shared &s, const Rule<typename Pairs::T> &rule, const typename Pairs::N (&r)[Pairs::E], const typename Pairs::D (&differences)[Pairs::E],
                           typename Pairs::T (&bound)[Pairs::E], Passes<typename Pairs::Arith> &passes, Filter<typename Pairs::T> &filter, Histograms<typename Pairs::T, HISTOGRAMS> &histograms,
                           Sums<typename Pairs::T, Pairs::ACCUMULATORS> &sums) {
    typedef typename Pairs::T T;
    enum { E = Pairs::E };
    T d[E], m[E];
    rule.magnitudes(differences, r, d, m);
#pragma unroll
    for (int i = 0; i < E; i++) passes.add(differences[i], d[i], bound[i]);
    if constexpr (ALL) {
        // Histograms need the registers.
        if (HISTOGRAMS) filter.read(s.maxima);
        AnyNegative<T> beyond;
#pragma unroll
        for (int i = 0; i < E; i++) {
            passes.add_zero(r[i], m[i], bound[i]);
            sums.add(i % Pairs::ACCUMULATORS, d[i], m[i]);
        }
#pragma unroll
        for (int i = 0; i < E; i++) filter.test(beyond, s.maxima, d[i], m[i], bound[i]);
        passes.keep(), sums.keep();
        if (wavefront_any(beyond.any())) {
            update_maxima(p.workspace->maxima, s.maxima, filter, rule, differences, r, bound);
            filter.read(s.maxima);
        }
        histograms.add(rule, d, m, bound);
    }
    if constexpr (sizeof(T) == 4 && Pairs::IN_TILE + E > LaneCount::MOST) passes.carry();
}

// The sums of a tile in f64, for a tile whose squares are out of f32's range: everything is read again for each sum. Returns sum s in lane 8 s.
template <class Pairs> __device__ inline double wide_sums(const Pairs &pairs, const Rule<typename Pairs::T> &rule, u64 tile) {
    enum { E = Pairs::E };
    typedef typename Pairs::N N;
    typedef typename Pairs::D D;
    double total = 0;
#pragma unroll 1
    for (u32 sum = 0; sum < SUMS; sum++) {
        WideSum<Pairs::ACCUMULATORS> wide;
        wide.clear();
        typename Pairs::T unused = 0;
        NoStatistics nothing;
        const auto take = [&](u64, const N (&r)[E], const D (&d)[E], const auto &) {
#pragma unroll
            for (int i = 0; i < E; i++) wide.add(i % Pairs::ACCUMULATORS, (double)(sum < 2 ? magnitude(d[i]) : magnitude(r[i])), sum % 2);
        };
        Loads<Pairs> loads(pairs, {}, tile, pairs.walk.steps);
        for_pairs<false, false, false>(pairs, loads, rule, 1, unused, nothing, take, [](u32) {});
        const double x = wide.join();
        if (lane_of() == 8 * sum) total = x;
    }
    return total;
}

// Computes again the sums of those tiles of a run that are not precise (one bit for each tile), because squares may be out of f32's range. Done after the run, since it takes registers. Called by all lanes of a wavefront.
template <class Pairs> __device__ inline void replace_sums(const Pairs &pairs, const Rule<typename Pairs::T> &rule, u64 first_tile, u32 imprecise, TileSums &tiles) {
    while (wavefront_any(imprecise)) {
        // The other subgroup of a wavefront may have no such tile left.
        const u32 tile = imprecise ? __ffs((int)imprecise) - 1 : 0;
        const double x = wide_sums(pairs, rule, first_tile + tile);
        if (imprecise) tiles.set(tile, x);
        imprecise &= imprecise - 1;
    }
}

// Adds what a block has found to the workspace: a thread's part of the counts, and largest results, references and differences (see `keep_larger`).
template <typename T, class Shared, bool HISTOGRAMS>
__device__ inline void publish(VerifyWorkspace &w, Shared &s, const T (&largest)[3], const u32 (&counts)[4], Histograms<T, HISTOGRAMS> &histograms, bool nonfinite_equal) {
#pragma unroll
    for (int k = 0; k < 4; k++) {
        const u32 x = subgroup_sum(counts[k]);
        if (lane_of() == 0) atomicAdd(&s.counts[k], x);
    }
#pragma unroll
    for (int k = 0; k < 3; k++) {
        const auto x = subgroup_max(bits_of(magnitude(largest[k])));
        if (lane_of() == 0) atomicMax(&s.magnitudes[k], x);
    }
    histograms.publish(w.bins);
    __syncthreads();
    const u32 t = threadIdx.x;
    if (t < 4 && s.counts[t]) atomicAdd(&w.counts[t], (u64)s.counts[t]);
    if (t < CLASSES * CLASSES && s.classes[t]) count_classes(w.counts, t / CLASSES, t % CLASSES, s.classes[t], nonfinite_equal);
    if (t < 3 && s.magnitudes[t]) atomicMax(t < 2 ? &w.magnitudes[t] : &w.maxima[ABSOLUTE], bits_of((double)Real<T>::of(s.magnitudes[t])));
}

// Writes the values, one word for each thread, and zeroes the workspace; called by the block that ends last. `zeros`: the number of pairs of zeros that stood for absent elements and for pairs that are
// not finite. The first of the final accumulators are the sums.
template <bool ALL, class Shared> __device__ inline void write_values(const VerifyParams &p, u64 zeros, const Shared &s) {
    enum { WORDS = sizeof(VerifyValues) / 8, FIRST_SUM = __builtin_offsetof(VerifyValues, sums) / 8 };
    VerifyWorkspace &w = *p.workspace;
    static_assert(__builtin_offsetof(VerifyWorkspace, bins) - __builtin_offsetof(VerifyWorkspace, counts) == __builtin_offsetof(VerifyValues, histograms) && FIRST_SUM + SUMS == WORDS, "one order");
    const u32 t = threadIdx.x;
    if (t < WORDS) {
        u64 x = t < FIRST_SUM ? ((const u64 *)&w)[__builtin_offsetof(VerifyWorkspace, counts) / 8 + t] : 0;
        if constexpr (ALL)
            if (t >= FIRST_SUM) x = bits_of(s.finals[t - FIRST_SUM][0]);
        if (t == ZERO_PASSES || t == ZEROS_A || t == ZEROS_R) x -= zeros;
        ((u64 *)&w.values)[t] = ((u64 *)&p.result->values)[t] = x;
    }
    __syncthreads();
#pragma unroll 1
    for (u32 i = t; i < __builtin_offsetof(VerifyWorkspace, values) / 8; i += THREADS) ((u64 *)&w)[i] = 0;
    // The host may be reading the result already.
    show_host();
    if (t == 0) p.result->valued = 1;
}

// The end of pass A; called by the block that ends last. A run begins with `before_a_run` elements that do not exist.
template <bool ALL, class Pairs, class Shared> __device__ inline void finish(const VerifyParams &p, const Pairs &pairs, Shared &s, u32 before_a_run) {
    if constexpr (ALL) join_runs(p.partials, pairs.runs, p.run_log, s.finals);
    write_values<ALL>(p, ALL ? pairs.taken(p.run_log, before_a_run) - p.n + p.workspace->counts[NONFINITE_PAIRS] : 0, s);
}

template <class Pairs, bool ALL, bool HISTOGRAMS> __device__ inline void make_values(const VerifyParams &p) {
    typedef typename Pairs::T T;
    typedef typename Pairs::N N;
    typedef typename Pairs::D D;
    enum { E = Pairs::E, AHEAD = ALL && ONE_AHEAD };
    __shared__ ValuesShared<T, ALL, typename Histograms<T, HISTOGRAMS>::Shared> s;
    __shared__ typename Pairs::Shared numbers;
    SHARED_ON_NVIDIA(ring, RING_BYTES);
    clear_shared(s);
    numbers.prepare(p);
    const Pairs pairs(p, numbers);
    const Rule<T> rule(p);
    if (HISTOGRAMS) __syncthreads(); // their tables are written over the zeros
    Histograms<T, HISTOGRAMS> histograms(s.aside, rule);
    __syncthreads();
    const u32 group = threadIdx.x / SUBGROUP;
    Statistics<Pairs, ALL> statistics(pairs, s.classes);
    Passes<typename Pairs::Arith> passes;
    T largest_d = 0;
    // All lanes of a wavefront make every step: zeros stand for elements beyond the end.
#pragma unroll 1
    for (Turn<ALL> turn(p); turn.first < pairs.runs; turn.go_on()) {
        turn.ask(pairs.runs);
        const u64 run = turn.run();
        u32 imprecise = 0; // tiles of the run, see `replace_sums`
        Filter<T> filter;
        Sums<T, Pairs::ACCUMULATORS> sums;
        sums.clear();
        if constexpr (ALL) filter.read(s.maxima);
        const auto take = [&](u64, const N (&r)[E], const D (&d)[E], const T (&early)[E]) {
            statistics.add_last(r);
            // Bounds that are computed here, and not with the decoded pairs, take fewer registers but need their own branches.
            T bound[E];
            if (LIKE_NVIDIA && !HISTOGRAMS)
#pragma unroll
                for (int i = 0; i < E; i++) bound[i] = early[i];
            else rule.bounds(r, bound);
            add<Pairs, ALL>(p, s, rule, r, d, bound, passes, filter, histograms, sums);
        };
        const auto end_tile = [&](u32 i) {
            statistics.carry(), passes.carry();
            if constexpr (ALL) {
                s.tiles[group].set(i, sums.join());
                imprecise |= (u32)(subgroup_votes(!sums.precise()) != 0) << i;
                sums.clear(), filter.read(s.maxima);
            }
        };
        // If there is much to compute, words are loaded ahead (in f64, on NVIDIA's GPUs, there always is). Histograms need the registers that shifting later would take, and of narrow formats the shared memory's time that a ring would take.
        constexpr bool THROUGH_RING = (ALL && !(HISTOGRAMS && Pairs::NARROW)) || sizeof(T) == 8;
        typedef typename Choose<THROUGH_RING, LoadsAhead<Pairs>, Loads<Pairs>>::Type Loaded;
        Loaded loads(pairs, ring, run << p.run_log, pairs.loads_in(turn.first, p.run_log));
        for_pairs<AHEAD, AHEAD && !HISTOGRAMS, !ALL>(pairs, loads, rule, 1u << p.run_log, largest_d, statistics, take, end_tile);
        if constexpr (ALL) {
            if constexpr (sizeof(T) == 4) replace_sums(pairs, rule, run << p.run_log, imprecise, s.tiles[group]);
            s.tiles[group].join(p.run_log, run < pairs.runs, p.partials + run * SUMS);
        }
    }
    T largest[3];
    u32 counts[4];
    counts[0] = passes.mismatches.own(), counts[1] = passes.zero_passes.own(), largest[2] = largest_d;
    statistics.finish(largest, counts);
    publish(*p.workspace, s, largest, counts, histograms, p.nonfinite_equal != 0);
    if (ends_last(p, s.last)) finish<ALL>(p, pairs, s, AHEAD ? SUBGROUP * E : 0);
}
