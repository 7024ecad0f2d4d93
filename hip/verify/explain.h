// Pass B: reads both tensors again, given the values: where each maximum is first, the largest distance in ulps, the smallest tolerances that would pass, and the first
// mismatches. README.md has the algorithm, and why no pair is missed.
#pragma once
#include "any.h"
#include "verify/ulps.h"

constexpr u64 NOWHERE = ~0ull;

// Whether an explanation is wanted, given the values: the verdict of `src/verify/options.rs`.
__device__ inline bool wanted(const VerifyParams &p) {
    if (p.explain != EXPLAIN_ON_FAILURE) return p.explain == EXPLAIN_ALWAYS;
    const VerifyValues &v = p.workspace->values;
    const bool elements = v.counts[MISMATCHES] == 0;
    const double largest = v.magnitudes[0] > v.magnitudes[1] ? v.magnitudes[0] : v.magnitudes[1];
    const double root = sqrt(v.sums[1]), rms = root == 0 ? 0 : __ddiv_rn(root, sqrt((double)p.n) * largest);
    const bool within = rms <= p.thresholds[0] && v.maxima[ABSOLUTE] <= p.thresholds[1] && v.maxima[RELATIVE] <= p.thresholds[2];
    const bool sound = v.counts[NONFINITE_MISMATCHES] == 0;
    const bool thresholds = sound && within;
    return ((p.judge & JUDGE_ELEMENTS) && !elements) || ((p.judge & JUDGE_THRESHOLDS) && !thresholds);
}

// What a block searches for, and what it has found: in shared memory.
template <typename T> struct ExplainShared {
    double maxima[MAXIMA];  // that are searched for; -1 for those that are 0
    T largest_a, largest_r; // magnitudes, as the first pass has found them
    Ulps<T> format;         // of the result
    typename Ulps<T>::Reach reach; // of pairs that are further apart than those found so far, or as far
    // Found by all blocks, as far as this one knows. Indices are inverted, so that 0 is none.
    u64 first[MAXIMA];
    u64 passing[2]; // patterns of f64
    u64 ulps;
    alignas(16) VerifyFarthest farthest[GROUPS]; // by each subgroup; a compiler may write both numbers together
    u64 first_tile;        // the first one with mismatches
    u64 worst[MAXIMA + 1]; // indices
    u64 next_tile;         // the next one with mismatches, inverted
    u32 fails[2][GROUPS];  // mismatches of each subgroup among the elements that the block lists from, in turns
    u32 last;

    // Called by all threads of a block, before a barrier.
    __device__ void prepare(const VerifyParams &p, Format format_a) {
        const u32 t = threadIdx.x;
        if (t < MAXIMA) maxima[t] = p.workspace->values.maxima[t] > 0 ? p.workspace->values.maxima[t] : -1;
        if (t == 0) largest_a = (T)p.workspace->values.magnitudes[0], largest_r = (T)p.workspace->values.magnitudes[1], format.prepare(p, format_a), reach = format.reach(1);
    }
    // Tells other blocks what this one has found, and takes over what they have. Called by all threads of a block, between barriers.
    __device__ void share(VerifyWorkspace &w) {
        const u32 t = threadIdx.x;
        if (t >= 3 + MAXIMA) return;
        u64 &own = t < 2 ? passing[t] : t == 2 ? ulps : first[t - 3], &all = t < 2 ? w.passing[t] : t == 2 ? w.ulps : w.first[t - 3];
        const u64 before = atomicMax(&all, own);
        if (before > own) own = before;
    }
    // The most ulps that this block has found itself, before this element.
    __device__ u64 own_ulps(u64 begin) const {
        u64 most = 0;
#pragma unroll 1
        for (const VerifyFarthest &x : farthest) most = x.ulps > most && ~x.index < begin ? x.ulps : most;
        return most;
    }
};

// The smallest tolerances that pass all pairs examined so far.
template <typename T> struct Passing {
    T rtol, of_rtol, atol; // `of_rtol`: the atol that belongs to that rtol; no limit once no rtol is enough
    __device__ Passing(const ExplainShared<T> &s, const Rule<T> &rule) {
        compiler_barrier();
        const T found = (T)f64_of(s.passing[0]);
        const bool enough = found <= Real<T>::max();
        rtol = enough ? found : 0, of_rtol = enough ? rule.atol : Real<T>::of(NO_LIMIT<T>);
        atol = (T)f64_of(s.passing[1]);
    }
    // Whether a pair needs larger ones.
    template <typename N> __device__ bool needs_more(const Rule<T> &rule, N a, N r, T m) const {
        return !within(distance(a, r), rule.bound(rtol, m, of_rtol)) || !within(distance(a, r), rule.bound(rule.rtol, m, atol));
    }
};

// For each binade of references, the largest differences that can be nothing that the search is for: a conservative filter, which hardly any pair passes. The search only ends or demands more, so an old threshold is a small one.
//
// Each metric, and each tolerance, demands a difference that is a constant or linear in the reference m. The least of these demands is a concave function of m, and so above the line from its value at the least m of a binade to
// that at the largest: this line is the threshold. A distance in ulps demands a constant for the whole binade, which may be small, since numbers of opposite signs can be many ulps apart, and differ little. So there are lines without
// it as well. A power of two belongs to the binade below it, whose numbers are as far from each other as that below is from it; zero is apart.
template <class Arith> struct DifferenceFilter {
    typedef typename Arith::T T;
    typedef typename Real<T>::Bits Bits;
    // All exponents of f32, and as many of f64 around 0: others have no threshold.
    enum : i32 { ENTRIES = 256, FIRST = sizeof(T) == 4 ? 0 : Real<T>::BIAS - ENTRIES / 2 };
    struct alignas(2 * sizeof(T)) Line { T slope, constant; };
    Line all[ENTRIES], without_ulps[ENTRIES];
    // The exponent of the power of two that m is at most; 0 for zero, and 1 for those that have no threshold.
    static __device__ u32 entry_of(float m) { return (bits_of(m) + (u32)(Real<T>::UNIT - 1)) / (u32)Real<T>::UNIT; }
    static __device__ u32 entry_of(double m) {
        const u32 entry = (u32)((bits_of(m) + (Real<T>::UNIT - 1)) / Real<T>::UNIT) - FIRST;
        return m == 0 ? 0 : entry - 2 < ENTRIES - 2 ? entry : 1;
    }

    // Called by all threads of a block, between barriers. The block reads only elements from `begin` on until the next update.
    __device__ void update(const VerifyParams &p, ExplainShared<T> &s, const Rule<T> &rule, Format reference, u64 begin) {
        const Passing<T> passing(s, rule);
        const double own = f64_of(s.own_ulps(begin)), others = f64_of(s.ulps);
        const auto reach = s.format.reach(own >= others ? own + 1 : others);
        if (threadIdx.x == 0) s.reach = reach;
        // The first number after a power of two, as a multiple of it.
        const T next = (T)(1 + pow2(-(reference.specials == INTEGER || reference.mantissa_bits >= Real<T>::DIGITS ? Real<T>::DIGITS - 1 : (i32)reference.mantissa_bits)));
#pragma unroll 1
        for (u32 i = threadIdx.x; i < ENTRIES; i += THREADS) {
            // The power of two before the binade. No reference is larger than the largest one.
            const T power = i == 0 ? 0 : Real<T>::of((Bits)(i - 1 + FIRST) * Real<T>::UNIT), high = i == 0 ? 0 : Real<T>::smaller(Real<T>::of((Bits)(i + FIRST) * Real<T>::UNIT), s.largest_r);
            const T low = Real<T>::smaller(power > 0 ? power * next : Real<T>::of(1), high), before = Real<T>::larger(high - power * (next - 1), low);
            const Line bound = p.all && i != 1 ? line_of_tolerances(rule, passing, low, before, high) : Line{0, Real<T>::of(NO_LIMIT<T>)};
            // The demands of both ends, by one copy of the code, and without a subscript: the arrays are in registers.
            double metrics[2], tolerances[2];
#pragma unroll 1
            for (u32 end = 0; end < 2; end++) {
                const T m = end ? high : low;
                const double of_metrics = demand_of_metrics(s, rule, begin, low, high, m), of_tolerances = p.all ? demand_of_tolerances(rule, passing, low, m) : Real<double>::of(Real<double>::EXPONENT);
                metrics[0] = end ? metrics[0] : of_metrics, metrics[1] = of_metrics;
                tolerances[0] = end ? tolerances[0] : of_tolerances, tolerances[1] = of_tolerances;
            }
            const double further = p.all ? s.format.least_difference(reach, low, high, s.largest_a) : Real<double>::of(Real<double>::EXPONENT);
#pragma unroll 1
            for (u32 without = 0; without < 2; without++) {
                const double ulps = without ? Real<double>::of(Real<double>::EXPONENT) : further, of_low = Real<double>::smaller(metrics[0], ulps), of_high = Real<double>::smaller(metrics[1], ulps);
                Line line = line_between(low, high, of_low, of_high);
                const bool tightest = at(bound, high) <= Real<T>::max() && !(at(bound, low) > at(line, low)) && !(at(bound, high) > at(line, high));
                if (!tightest) line = line_between(low, high, Real<double>::smaller(tolerances[0], of_low), Real<double>::smaller(tolerances[1], of_high));
                const bool outside = FIRST > 0 && i == 1;
                (without ? without_ulps : all)[i] = {outside ? 0 : tightest ? bound.slope : line.slope, outside ? 0 : tightest ? bound.constant : line.constant};
            }
        }
    }
    static __device__ T at(const Line &line, T m) { return Real<T>::fused(line.slope, m, line.constant); }
    // The bound by the smallest tolerances so far, the lesser of two, exactly as the rule rounds it: pairs that need just these tolerances, of which there may be many, do not exceed it. No limit, if neither is the lesser one for
    // all references from `low` to `high`, none of which is between `before` and `high`; or if differences are rounded, but not before they are compared.
    static __device__ Line line_of_tolerances(const Rule<T> &rule, const Passing<T> &passing, T low, T before, T high) {
        const auto line = [&](T rtol, T atol) { return rule.by_binade ? Line{0, Real<T>::fused(rtol, rule.base(low), atol)} : Line{rtol, atol}; };
        const Line by_rtol = line(passing.rtol, passing.of_rtol), by_atol = line(rule.rtol, passing.atol);
        // Lines that are rounded to different numbers are different there. At `high` both are equal if one pair needs both tolerances.
        const auto is_less = [&](const Line &x, const Line &y) { return at(x, high) <= at(y, high) && (low == high || (at(x, low) < at(y, low) && at(x, before) < at(y, before))); };
        if (Arith::EXACT) return {0, Real<T>::of(NO_LIMIT<T>)};
        if (is_less(by_rtol, by_atol)) return by_rtol;
        return is_less(by_atol, by_rtol) || !is_finite(passing.of_rtol) ? by_atol : Line{0, Real<T>::of(NO_LIMIT<T>)};
    }
    // A line that is below `of_low` and `of_high` at these places, also where its values and theirs are rounded: by a part of them, or, if they are subnormal, by half of the least number.
    static __device__ Line line_between(T low, T high, double of_low, double of_high) {
        if (!(of_low <= Real<double>::max())) return {0, Real<T>::of(NO_LIMIT<T>)};
        const double less = 1 - pow2((sizeof(T) == 4 ? 2 : 5) - Real<T>::DIGITS), most = (double)Real<T>::max(), least = (double)Real<T>::of(2);
        // Where the line is constant, equal pairs never exceed it, and so no absent ones.
        const double x = Real<double>::larger(Real<double>::smaller(of_low, most) * less - least, 0), y = Real<double>::larger(Real<double>::smaller(of_high, most) * less - least, 0);
        const T slope = high > low ? (T)((y - x) / ((double)high - (double)low)) : 0;
        const double constant = Real<double>::smaller(x - (double)slope * (double)low, y - (double)slope * (double)high);
        const T rounded = (T)constant;
        return {slope, (double)rounded > constant ? Real<T>::of(bits_of(rounded) + (rounded > 0 ? -1 : 1)) : rounded};
    }
    // The number before x > 0, from somewhere above which a quotient is rounded to x.
    static __device__ double below(double x) { return (double)Real<T>::of(bits_of((T)x) - 1); }
    // The differences that have a maximum which is searched for, from a reference m from `low` to `high`, are at least so large. What goes by binades demands least at `low`, and is constant before a power of two.
    static __device__ double demand_of_metrics(const ExplainShared<T> &s, const Rule<T> &rule, u64 begin, T low, T high, T m) {
        double least = Real<double>::of(Real<double>::EXPONENT);
        const auto is_for = [&](u32 metric, double unit) {
            compiler_barrier(); // otherwise all maxima are kept in registers, through the loop
            const double maximum = s.maxima[metric];
            const bool found = s.first[metric] && ~s.first[metric] < begin;
            // Infinity is above the largest number.
            if (maximum > 0 && !found) least = Real<double>::smaller((metric == EPSILON ? Real<double>::smaller(maximum, Real<double>::max()) : below(maximum)) * unit, least);
        };
        is_for(ABSOLUTE, 1);
        if (high > 0) is_for(RELATIVE, (double)m);
        if (high > Real<T>::small()) is_for(RELATIVE_OLD, (double)m);
        is_for(EPSILON, (double)rule.binade(low) * pow2(-rule.mantissa_bits));
        is_for(RATIO, (double)rule.bound(rule.by_binade ? low : m));
        return least;
    }
    // The same of those that need larger tolerances: they exceed the bound. That of wide integers does before it is rounded.
    static __device__ double demand_of_tolerances(const Rule<T> &rule, const Passing<T> &passing, T low, T m) {
        const T of_base = rule.by_binade ? low : m;
        const double by_atol = (double)rule.bound(rule.rtol, of_base, passing.atol);
        return is_finite(passing.of_rtol) ? Real<double>::smaller((double)rule.bound(passing.rtol, of_base, passing.of_rtol), by_atol) : by_atol;
    }
};

// A thread's access to its lines.
template <class Arith> struct Thresholds {
    typedef typename Arith::T T;
    typedef DifferenceFilter<Arith> Table;
    typedef typename Table::Line Line;
#if defined(__CUDA_ARCH__)
    const SharedAddress table;
    __device__ explicit Thresholds(const Line *lines) : table(shared_address_of(lines)) {}
    __device__ Line line(T m) const { return shared_at<const Line>(table + (u32)sizeof(Line) * Table::entry_of(m)); }
#else
    const Line *table;
    __device__ explicit Thresholds(const Line *lines) : table(lines) {}
    __device__ Line line(T m) const { return table[Table::entry_of(m)]; }
#endif
    // Negative if the difference exceeds the threshold.
    __device__ T rest(T d, T m) const {
        const Line x = line(m);
        return Real<T>::fused(x.slope, m, x.constant) - d;
    }
};

// Reads what was written, field by field: a struct may have bytes between them.
template <typename N> __device__ inline N read_fields(const N &x) { return x; }
__device__ inline Whole read_fields(const Whole &x) { return Whole(x.size, x.negative); }

// Pairs of a subgroup that exceed their thresholds, until there are as many as it has lanes: then each lane examines one. In shared memory.
template <typename N> struct Queue {
    N a[2 * SUBGROUP], r[2 * SUBGROUP];
    u32 offset[2 * SUBGROUP]; // from the beginning of the tile
    // Appends the candidates of the lanes to `count` others, and returns the new number. Called by all lanes of a subgroup.
    __device__ u32 put(bool candidate, u32 count, N of_a, N of_r, u32 offset_) {
        const u32 votes = subgroup_votes(candidate), at = count + __popc(votes & ((1u << lane_of()) - 1));
        if (candidate) a[at] = of_a, r[at] = of_r, offset[at] = offset_;
        return count + __popc(votes);
    }
};

// The least non-negative number that passes; infinite when none does. Passing is monotone; `near` is where the search begins.
template <typename T, class F> __device__ inline T least(T near, F passes) {
    typedef typename Real<T>::Bits Bits;
    Bits low = 0, high = Real<T>::EXPONENT, at = near > 0 && near <= Real<T>::max() ? bits_of(near) : 0;
    for (Bits step = 1; low < high && step != 0; step *= 4) {
        if (passes(Real<T>::of(at))) {
            high = at;
            if (low + step >= high) break;
            at = high - step;
        } else {
            low = at + 1;
            if (low + step >= high) break;
            at = low + step;
        }
    }
    while (low < high) {
        const Bits middle = low + (high - low) / 2;
        if (passes(Real<T>::of(middle))) high = middle;
        else low = middle + 1;
    }
    return Real<T>::of(low);
}

// The smallest rtol and atol that pass a pair.
template <class Arith> __device__ inline void passing_tolerances(const Rule<typename Arith::T> &rule, typename Arith::N a, typename Arith::N r, double (&least_of)[2]) {
    typedef typename Arith::T T;
    const T d = (T)distance(a, r), m = (T)magnitude(r);
    least_of[0] = (double)least(Real<T>::quotient(d - rule.atol, rule.base(m)), [&](T t) { return within(distance(a, r), rule.bound(t, m, rule.atol)); });
    least_of[1] = (double)least(d - rule.rtol * rule.base(m), [&](T t) { return within(distance(a, r), rule.bound(rule.rtol, m, t)); });
}

// Examines one pair of each lane, if it is there; `reach`: of those that are further apart than all before, or as far. Called by all lanes of a subgroup.
template <class Pairs>
__device__ inline void examine(const VerifyParams &p, const Pairs &pairs, ExplainShared<typename Pairs::T> &s, const Rule<typename Pairs::T> &rule, const typename Ulps<typename Pairs::T>::Reach &reach, typename Pairs::N a, typename Pairs::N r, u64 index, bool there) {
    typedef typename Pairs::T T;
    const u32 lane = lane_of();
    const T d = (T)distance(a, r), m = (T)magnitude(r);
    double value[MAXIMA];
    metrics_of(rule, d, m, value);
#pragma unroll
    for (u32 k = 0; k < MAXIMA; k++)
        if (there && value[k] == s.maxima[k] && ~index > s.first[k]) atomicMax(&s.first[k], ~index);
    if (p.all) {
        const typename Pairs::N of_a[1] = {a}, of_r[1] = {r};
        const bool far = there && s.format.reached(reach, of_a, of_r);
        if (subgroup_votes(far)) {
            const u64 mine = far ? bits_of(ulps_between<typename Pairs::Arith>(p, format_at(pairs.dtype_a), a, r, [&] { return pairs.element_at(index).bits_a; })) : 0;
            const u64 ulps = subgroup_max(mine), inverted = subgroup_max(mine == ulps ? ~index : 0);
            VerifyFarthest &own = s.farthest[threadIdx.x / SUBGROUP];
            if (lane == 0 && ulps && (ulps > own.ulps || (ulps == own.ulps && inverted > own.index))) own = {ulps, inverted}, atomicMax(&s.ulps, ulps);
        }
        const Passing<T> passing(s, rule);
        if (there && passing.needs_more(rule, a, r, m)) {
            double mine[2];
            passing_tolerances<typename Pairs::Arith>(rule, a, r, mine);
#pragma unroll
            for (int k = 0; k < 2; k++) atomicMax(&s.passing[k], bits_of(mine[k]));
        }
    }
}

// Notes whether a tile has mismatches. Called by all lanes of a subgroup.
template <class Pairs> __device__ inline void note_mismatches(const VerifyParams &p, const Pairs &pairs, ExplainShared<typename Pairs::T> &s, u64 tile, bool mismatch) {
    const bool any = subgroup_votes(mismatch) != 0;
    if (lane_of() || tile >= pairs.tiles) return;
    p.mismatches[tile] = any;
    if (any) atomicMax(&s.first_tile, ~tile);
}

// What the search needs of the numbers that `Pairs::take` adds: the last results, and whether a pair that is not finite is a mismatch.
template <class Pairs> struct ExplainStatistics {
    typedef typename Pairs::N N;
    enum { E = Pairs::E };
    static constexpr bool IN_WORDS = false, BOTH_HALVES = false;
    const VerifyParams &p;
    const Pairs &pairs;
    N (&a)[E];
    bool &mismatch;
    __device__ void add_nonfinite(N x, N y) { mismatch |= !nonfinite_passes(p, x, y); }
    __device__ void add_numbers(const N (&x)[E], const N (&y)[E]) {
#pragma unroll
        for (int i = 0; i < E; i++) a[i] = pairs.exchanged() ? y[i] : x[i];
    }
};

// Searches the first `count` loads of a subgroup's tile, and notes whether it has mismatches. SAMPLING, which begins a block's search while all thresholds are 0, takes one step only, and examines at most SUBGROUP pairs of it, among them the first E: with
// what they demand, most of the others are no candidates.
template <class Pairs>
__device__ inline void explain_tile(const VerifyParams &p, const Pairs &pairs, SharedAddress ring, ExplainShared<typename Pairs::T> &s, const DifferenceFilter<typename Pairs::Arith> &filter, Queue<typename Pairs::N> &queue,
                                    const Rule<typename Pairs::T> &rule, u64 tile, u32 count, bool sampling) {
    typedef typename Pairs::T T;
    typedef typename Pairs::N N;
    enum { E = Pairs::E, PARTS = Pairs::PARTS };
    static_assert(Pairs::LOADS == 1, "the E pairs are neighbours");
    const Thresholds<typename Pairs::Arith> thresholds(filter.all), others(filter.without_ulps);
    const u64 start = tile << pairs.walk.size_log;
    const u32 steps = sampling ? 1 : count * PARTS;
    bool mismatch = false;
    u32 queued = 0; // the same in all lanes of a subgroup
    N a[E], r[E];
    ExplainStatistics<Pairs> statistics{p, pairs, a, mismatch};
    LoadsAhead<Pairs> loads(pairs, ring, tile, count);
    // Once more after the last step: for what is left in the queue.
#pragma unroll 1
    for (u32 step = 0; step <= steps; step++) {
        u64 index = start;
        u32 candidates = 0;
        if (step < steps) {
            if (step % PARTS == 0) loads.template next<true>();
            index = loads.start + pairs.walk.offset(loads.taken - 1) + step % PARTS * pairs.part_step();
            typename Pairs::D differences[E];
            T d[E], m[E], bound[E], largest = 0;
            pairs.template take<false>(rule, index, loads.words, [] {}, r, differences, bound, largest, statistics);
            pairs.next_part(loads.words);
            AnyNegative<T> beyond;
            rule.magnitudes(differences, r, d, m);
#pragma unroll
            for (int i = 0; i < E; i++) {
                mismatch |= !within((typename Pairs::D)magnitude(differences[i]), bound[i]);
                beyond.add(thresholds.rest(d[i], m[i]));
            }
            if (!wavefront_any(beyond.any())) continue;
            const u32 far = p.all ? s.format.reached(s.reach, a, r) : 0;
#pragma unroll
            for (int i = 0; i < E; i++) candidates |= (u32)(d[i] > 0 && ((far >> i & 1) || others.rest(d[i], m[i]) < 0)) << i;
            // All of the first lane, the first of the next lanes.
            if (sampling && lane_of() > 0) candidates &= lane_of() <= SUBGROUP - E ? 1 : 0;
        }
        // Each lane's first candidate, then its next one. After the last step there are none, but the queue may have some.
        while (wavefront_any(candidates || (step == steps && queued))) {
            const u32 i = candidates ? __ffs((int)candidates) - 1 : 0;
            queued = queue.put(candidates != 0, queued, pick(a, i), pick(r, i), (u32)(index + i - start));
            candidates &= candidates - 1;
            if (queued < (step < steps ? SUBGROUP : 1)) continue;
            const u32 n = queued < SUBGROUP ? queued : SUBGROUP;
            queued -= n;
            // On NVIDIA's GPUs the loop has the rule in registers.
            const VerifyParams &again = read_here(p);
            const u32 lane = lane_of(), from = queued + (lane < n ? lane : 0);
            subgroup_barrier();
            examine(again, pairs, s, LIKE_NVIDIA ? rule : Rule<T>(again), s.reach, read_fields(queue.a[from]), read_fields(queue.r[from]), start + queue.offset[from], lane < n);
            subgroup_barrier();
        }
    }
    if (!sampling) note_mismatches(p, pairs, s, tile, mismatch);
}

// Adds what a block has found to what all have found. Called by all threads of a block.
template <typename T> __device__ inline void publish(const VerifyParams &p, ExplainShared<T> &s) {
    __syncthreads();
    s.share(*p.workspace);
    if (threadIdx.x) return;
    if (s.first_tile) atomicMax(&p.workspace->first_tile, s.first_tile);
    VerifyFarthest most = {0, 0};
    if (p.first_run) most = p.farthest[blockIdx.x];
#pragma unroll 1
    for (const VerifyFarthest &x : s.farthest)
        if (x.ulps > most.ulps || (x.ulps == most.ulps && x.index > most.index)) most = x;
    p.farthest[blockIdx.x] = most;
}

// Whether an element is a mismatch.
template <class Pairs> __device__ inline bool fails(const VerifyParams &p, const Pairs &pairs, const Rule<typename Pairs::T> &rule, const VerifyElement &element) {
    const typename Pairs::N x = number<typename Pairs::N>(pairs.dtype_a, element.bits_a), y = number<typename Pairs::N>(pairs.dtype_r, element.bits_r);
    if (is_finite(x) && is_finite(y)) return !within(distance(x, y), rule.bound((typename Pairs::T)magnitude(y)));
    return !nonfinite_passes(p, x, y);
}

// The first tile from `tile` on that has mismatches, or NOWHERE. Called by all threads of a block.
__device__ inline u64 tile_with_mismatches(const VerifyParams &p, u64 &shared, u64 tile, u64 tiles) {
    enum { AT_ONCE = LIKE_NVIDIA ? 8 : 4 };
    for (; tile < tiles; tile += AT_ONCE * THREADS) {
        if (threadIdx.x == 0) shared = 0;
        u32 any[AT_ONCE];
#pragma unroll
        for (u32 k = 0; k < AT_ONCE; k++) any[k] = tile + k * THREADS + threadIdx.x < tiles ? p.mismatches[tile + k * THREADS + threadIdx.x] : 0;
        u64 inverted = 0;
#pragma unroll
        for (u32 k = AT_ONCE; k-- > 0;) inverted = any[k] ? ~(tile + k * THREADS + threadIdx.x) : inverted;
        __syncthreads();
        if (inverted) atomicMax(&shared, inverted);
        __syncthreads();
        inverted = shared;
        __syncthreads();
        if (inverted) return ~inverted;
    }
    return NOWHERE;
}

// Lists the first mismatches in the order of their indices. Called by all threads of a block, which take one element each at a time.
template <class Pairs> __device__ inline void list_mismatches(const VerifyParams &p, const Pairs &pairs, ExplainShared<typename Pairs::T> &s, const Rule<typename Pairs::T> &rule) {
    const u64 all = p.workspace->values.counts[MISMATCHES], count = all < p.listed ? all : p.listed;
    const u32 group = threadIdx.x / SUBGROUP;
    VerifyExplanation &out = p.result->explanation;
    u64 listed = 0, tile = ~p.workspace->first_tile;
    u32 turn = 0;
    // There are that many, unless the tensors were written after they were counted.
    for (; listed < count; tile++) {
        tile = tile_with_mismatches(p, s.next_tile, tile, pairs.tiles);
        if (tile == NOWHERE) break;
        const u64 end = (tile + 1) << pairs.walk.size_log;
        for (u64 from = tile << pairs.walk.size_log; from < end && listed < count; from += THREADS, turn ^= 1) {
            const u64 index = from + threadIdx.x;
            const bool there = index < end && index < p.n;
            VerifyElement element = {NOWHERE, 0, 0};
            if (there) element = pairs.element_at(index);
            const bool listing = there && fails(p, pairs, rule, element);
            const u32 votes = subgroup_votes(listing);
            if (lane_of() == 0) s.fails[turn][group] = __popc(votes);
            // The numbers of the turn before are read until here.
            __syncthreads();
            u64 rank = listed + __popc(votes & ((1u << lane_of()) - 1));
#pragma unroll(LIKE_NVIDIA ? GROUPS : 1)
            for (u32 g = 0; g < GROUPS; g++) {
                rank += g < group ? s.fails[turn][g] : 0;
                listed += s.fails[turn][g];
            }
            if (listing && rank < count) out.first[rank] = element;
        }
    }
    if (threadIdx.x == 0) out.listed = listed < count ? listed : count;
}

// Writes the explanation; called by the block that ends last.
template <class Pairs> __device__ inline void write_explanation(const VerifyParams &p, ExplainShared<typename Pairs::T> &s, const Pairs &pairs, const Rule<typename Pairs::T> &rule) {
    VerifyWorkspace &w = *p.workspace;
    VerifyExplanation &out = p.result->explanation;
    const u32 t = threadIdx.x;
    if (t < MAXIMA) s.worst[t] = ~w.first[t];
    if (t < 2) out.passing[t] = f64_of(w.passing[t]);
    if (t < SUBGROUP) {
        VerifyFarthest mine = {0, 0};
        for (u32 b = t; b < p.blocks; b += SUBGROUP) {
            const VerifyFarthest x = p.farthest[b];
            if (x.ulps > mine.ulps || (x.ulps == mine.ulps && x.index > mine.index)) mine = x;
        }
        const u64 ulps = subgroup_max(mine.ulps), index = subgroup_max(mine.ulps == ulps ? mine.index : 0);
        if (t == 0) out.ulps = f64_of(ulps), s.worst[ULP] = ulps ? ~index : NOWHERE;
    }
    __syncthreads();
    if (t <= MAXIMA) out.worst[t] = s.worst[t] == NOWHERE ? VerifyElement{NOWHERE, 0, 0} : pairs.element_at(s.worst[t]);
    list_mismatches(p, pairs, s, rule);
    __syncthreads();
#pragma unroll 1
    for (u32 i = t; i < __builtin_offsetof(VerifyWorkspace, values) / 8; i += THREADS) ((u64 *)&w)[i] = 0;
    show_host();
    if (t == 0) p.result->explained = 1;
}

// Whether there is nothing to do, which the last launch then says.
__device__ inline bool unwanted(const VerifyParams &p) {
    if (wanted(p)) return false;
    if (!p.more && blockIdx.x == 0 && threadIdx.x == 0) p.result->explained = 2;
    return true;
}

template <class Pairs> __device__ inline void explain(const VerifyParams &p) {
    typedef typename Pairs::T T;
    if (unwanted(p)) return;
    __shared__ ExplainShared<T> s;
    clear_shared(s);
    __shared__ DifferenceFilter<typename Pairs::Arith> filter;
    clear_shared(filter);
    __shared__ Queue<typename Pairs::N> queues[GROUPS];
    __shared__ typename Pairs::Shared numbers;
    SHARED_ON_NVIDIA(ring, RING_BYTES);
    numbers.prepare(p);
    __syncthreads();
    const Pairs pairs(p, numbers);
    const Rule<T> rule(p);
    const u32 group = threadIdx.x / SUBGROUP;
    s.prepare(p, format_at(pairs.dtype_a));
    __syncthreads();
    u32 turn = 0;
    // A run is a tile.
#pragma unroll 1
    for (u64 first = p.first_run + blockIdx.x * GROUPS; first < pairs.tiles; turn++) {
        // In turns 1, 2, 4, ...: what is found becomes rare.
        if (turn && (turn & (turn - 1)) == 0) {
            const VerifyParams &again = read_here(p);
            __syncthreads();
            s.share(*again.workspace);
            __syncthreads();
            // The sample has had the first pairs.
            filter.update(again, s, Rule<T>(again), format_at(pairs.dtype_r), (first << pairs.walk.size_log) + (turn == 1 ? Pairs::E : 0));
            __syncthreads();
        }
        explain_tile(p, pairs, ring, s, filter, queues[group], rule, first + group, turn ? pairs.loads_in(first, 0) : 1, turn == 0);
        if (turn) first += (u64)gridDim.x * GROUPS;
    }
    publish(p, s);
    if (ends_last(p, s.last)) write_explanation(p, s, pairs, rule);
}
