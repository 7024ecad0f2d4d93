// Pass B: reads both tensors again, given the values: where each maximum is first, the largest distance in ulps, the smallest tolerances that would pass, and the first
// mismatches. Each subgroup takes tiles in ascending order, so the first element that it finds is the first one among its elements.
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

// What a subgroup searches for: in shared memory, since hardly any pair is tested for it. Its first lane changes it.
template <typename T> struct Search {
    ScaledMaxima<T> maxima;  // just below the maxima; no limit for a maximum that was found
    UlpTest<T> ulps;
    alignas(16) VerifyFarthest farthest; // inverted index; a compiler may write both numbers together
    u64 row;                 // of a tile, the last one with a pair that was tested
    u32 pending;             // metrics whose maximum this row has
    __device__ Search(const VerifyParams &p, const Rule<T> &rule, Format format_a) : maxima{}, ulps(p, format_a), farthest{0, 0}, row(NOWHERE), pending(0) {
#pragma unroll
        for (u32 k = 0; k < QUOTIENTS; k++) {
            const u32 metric = RELATIVE + k;
            const double m = p.workspace->values.maxima[metric];
            typename Real<T>::Bits least, pattern = ScaledMaxima<T>::pattern(rule, metric, by_binade(rule, metric, m), least);
            // A quotient may be subnormal; if it is not scaled, the number before it is then far below it.
            if (metric != EPSILON) pattern = ScaledMaxima<T>::pattern((double)below(m));
            else maxima.least = least, pattern = pattern == NO_LIMIT<T> ? bits_of(Real<T>::max()) : pattern - (pattern > 0);
            if (m > 0) maxima.set(k, pattern);
            else found(metric);
        }
        maxima.absolute = below(p.workspace->values.maxima[ABSOLUTE]);
        if (!(maxima.absolute >= 0)) found(ABSOLUTE);
    }
    static __device__ T below(double x) { return x > 0 ? Real<T>::of(bits_of((T)x) - 1) : (T)-1; }
    __device__ void found(u32 k) {
        if (k == ABSOLUTE) maxima.absolute = Real<T>::of(NO_LIMIT<T>);
        else maxima.set(k - RELATIVE, NO_LIMIT<T>);
    }
    // Begins to test pairs of another row, whose parts are not read in the order of their elements: the search for a maximum ends with the row that has it. `elsewhere`: the most ulps that were found.
    __device__ void enter_row(u64 now, u64 elsewhere) {
#pragma unroll
        for (u32 k = 0; k < MAXIMA; k++)
            if (pending >> k & 1) found(k);
        row = now, pending = 0;
        ulps.set(farthest.ulps, elsewhere);
    }
};

// The shared memory of a block.
template <typename T> struct ExplainShared {
    u64 passing[2]; // patterns of f64
    u64 ulps, own_ulps; // of all blocks, as far as this one knows; of this one
    u64 first[MAXIMA]; // inverted
    u64 worst[MAXIMA + 1]; // indices
    u64 first_tile; // the first one with mismatches, inverted
    u32 last;
    alignas(16) u32 searches[THREADS / SUBGROUP][sizeof(Search<T>) / 4]; // those of the subgroups

    __device__ Search<T> &search(u32 subgroup) { return *(Search<T> *)searches[subgroup]; }
    __device__ Search<T> &search() { return search(threadIdx.x / SUBGROUP); }
    // Takes over what other blocks have found: the maxima that grow, and the first of the others if it is before all that this block reads next, from element `begin` on. Called by all threads of a block, between barriers.
    __device__ void learn(const VerifyWorkspace &w, u64 begin) {
        const u32 t = threadIdx.x;
        if (t >= 3 + MAXIMA) return;
        u64 &own = t < 2 ? passing[t] : t == 2 ? ulps : first[t - 3];
        const u64 found = load_again(t < 2 ? &w.passing[t] : t == 2 ? &w.ulps : &w.first[t - 3]);
        if (found > own && (t < 3 || ~found < begin)) own = found;
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
    // The same for E pairs; true if any of them may need larger ones. The sign of the difference of two numbers is exact. Bounds that overflow pass all differences except infinite ones: the first infinite difference is a maximum, which is
    // examined anyway, and no tolerance is enough for infinite differences.
    template <int E> __device__ void test(AnyNegative<T> &more, const Rule<T> &rule, const T (&d)[E], const T (&m)[E]) const {
        T base[E];
#pragma unroll
        for (int i = 0; i < E; i++) base[i] = m[i];
        if (rule.by_binade)
#pragma unroll
            for (int i = 0; i < E; i++) base[i] = rule.binade(m[i]);
#pragma unroll
        for (int i = 0; i < E; i++) {
            more.add(Real<T>::fused(rtol, base[i], of_rtol) - d[i]);
            more.add(Real<T>::fused(rule.rtol, base[i], atol) - d[i]);
        }
    }
};

// For each binade of references, the largest difference that can be nothing that the search is for: a conservative filter, which hardly any pair passes. The search only ends or demands more, so an old threshold is a small one.
// Zero is apart. So are, in f32, powers of two: two numbers below one are as far from it as one number above.
template <class Arith> struct DifferenceFilter {
    typedef typename Arith::T T;
    typedef typename Real<T>::Bits Bits;
    static constexpr u32 EXPONENTS = Real<T>::EXPONENT / Real<T>::UNIT + 1;
    static constexpr bool POWERS = sizeof(T) == 4;
    T threshold[POWERS ? 2 * EXPONENTS : EXPONENTS];
    // Twice the exponent, and one more between powers of two; or the exponent, and for zero the last one, which no finite number has.
    static __device__ u32 binade_of(float m) { return bits_of(m) / Real<T>::UNIT + (bits_of(m) + (u32)(Real<T>::UNIT - 1)) / (u32)Real<T>::UNIT; }
    static __device__ u32 binade_of(double m) { return m == 0 ? EXPONENTS - 1 : (u32)(bits_of(m) / Real<T>::UNIT); }
    // Products are rounded, and what is found may be equal to its maximum.
    static __device__ double just_below(double x) { return bits_of(x) > 8 ? f64_of(bits_of(x) - 8) : 0; }

    // Called by all threads of a block, between barriers: what the block has found lies before all that it reads next.
    __device__ void update(const VerifyParams &p, ExplainShared<T> &s, const Rule<T> &rule) {
        const Passing<T> passing(s, rule);
        UlpTest<T> ulps = s.search().ulps;
        ulps.set(s.own_ulps, s.ulps);
#pragma unroll 1
        for (u32 i = threadIdx.x; i < sizeof(threshold) / sizeof(T); i += blockDim.x) {
            const Bits power = (Bits)(POWERS ? i / 2 : i) * Real<T>::UNIT, first = POWERS ? power + i % 2 : power ? power : 1, last = POWERS && i % 2 == 0 ? power : power + (Real<T>::UNIT - 1);
            const bool zero = !POWERS && i == EXPONENTS - 1;
            threshold[i] = Real<T>::of(pattern_up_to<T>(threshold_between(p, s, rule, passing, ulps, zero ? 0 : Real<T>::of(first), zero ? 0 : Real<T>::of(last))));
        }
    }
    // All differences that the search is for, from references from `low` to `high`, are larger. What a difference is compared with grows with the reference, but for distances in ulps.
    static __device__ double threshold_between(const VerifyParams &p, const ExplainShared<T> &s, const Rule<T> &rule, const Passing<T> &passing, const UlpTest<T> &ulps, T low, T high) {
        double least = f64_of(Real<double>::EXPONENT);
        const auto is_for = [&](u32 metric, T unit, double times = 1) {
            compiler_barrier(); // otherwise all maxima are kept in registers, through the loop
            // A quotient is rounded to its maximum from somewhere above the number before it. (That of infinity is MAX.)
            const double maximum = p.workspace->values.maxima[metric], from = metric == EPSILON ? Real<double>::smaller(maximum, Real<double>::max()) : (double)Search<T>::below(maximum);
            if (maximum > 0 && !s.first[metric]) least = Real<double>::smaller(just_below(from * ((double)unit * times)), least);
        };
        is_for(ABSOLUTE, 1);
        if (high > 0) is_for(RELATIVE, low);
        if (high > Real<T>::small()) is_for(RELATIVE_OLD, Real<T>::larger(low, Real<T>::small()));
        is_for(EPSILON, rule.binade(low), pow2(-rule.mantissa_bits));
        is_for(RATIO, rule.bound(low));
        if (!p.all) return least;
        // A difference that needs larger tolerances exceeds the bound. That of wide integers does before it is rounded.
        const auto exceeds = [&](T bound) { least = Real<double>::smaller(Arith::EXACT ? just_below((double)bound) : (double)bound, least); };
        if (is_finite(passing.of_rtol)) exceeds(rule.bound(passing.rtol, low, passing.of_rtol));
        exceeds(rule.bound(rule.rtol, low, passing.atol));
        return Real<double>::smaller(just_below(ulps.least_difference(low, high)), least);
    }
};

// A thread's access to it.
template <class Arith> struct Thresholds {
    typedef typename Arith::T T;
    typedef DifferenceFilter<Arith> Table;
#if defined(__CUDA_ARCH__)
    const SharedAddress table;
    __device__ explicit Thresholds(const Table &filter) : table(shared_address_of(filter.threshold)) {}
    __device__ T of(T m) const { return shared_at<const T>(table + (u32)sizeof(T) * Table::binade_of(m)); }
#else
    const Table &table;
    __device__ explicit Thresholds(const Table &filter) : table(filter) {}
    __device__ T of(T m) const { return table.threshold[Table::binade_of(m)]; }
#endif
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

// Passes on what a lane has found to its subgroup and block. Called by all lanes of a subgroup.
template <typename T>
__device__ inline void join_found(const VerifyParams &p, ExplainShared<T> &s, const u64 (&first)[MAXIMA], VerifyFarthest farthest, const double (&passing)[2]) {
    const u32 lane = lane_of();
    Search<T> &search = s.search();
#pragma unroll
    for (u32 k = 0; k < MAXIMA; k++) {
        const u64 x = subgroup_max(first[k]);
        if (x && lane == 0) search.pending |= 1u << k, atomicMax(&s.first[k], x), atomicMax(&p.workspace->first[k], x);
    }
    const u64 ulps = subgroup_max(farthest.ulps), index = subgroup_max(farthest.ulps == ulps ? farthest.index : 0);
    if (lane == 0 && (ulps > search.farthest.ulps || (ulps == search.farthest.ulps && index > search.farthest.index))) {
        search.farthest = {ulps, index};
        const u64 before = atomicMax(&p.workspace->ulps, ulps);
        atomicMax(&s.ulps, before > ulps ? before : ulps);
        atomicMax(&s.own_ulps, ulps);
    }
#pragma unroll
    for (int k = 0; k < 2; k++) {
        const u64 x = subgroup_max(bits_of(passing[k]));
        if (x && lane == 0) {
            const u64 before = atomicMax(&p.workspace->passing[k], x);
            atomicMax(&s.passing[k], before > x ? before : x);
        }
    }
    subgroup_barrier();
}

// Examines E pairs, some of which may be what the search is for.
template <class Pairs>
__device__ inline void examine(const VerifyParams &p, const Pairs &pairs, ExplainShared<typename Pairs::T> &s, const Passing<typename Pairs::T> &current, const Rule<typename Pairs::T> &rule, u64 index,
                               const typename Pairs::N (&a)[Pairs::E], const typename Pairs::N (&r)[Pairs::E]) {
    typedef typename Pairs::T T;
    u64 first[MAXIMA] = {};
    VerifyFarthest farthest = {0, 0};
    double passing[2] = {0, 0};
#pragma unroll 1
    for (u32 e = 0; e < Pairs::E; e++) {
        const typename Pairs::N x = pick(a, e), y = pick(r, e);
        const T d = (T)distance(x, y), m = (T)magnitude(y);
        if (!(d > 0)) continue;
        const u64 at = ~(index + e);
        double value[MAXIMA];
        metrics_of(rule, d, m, value);
#pragma unroll
        for (u32 k = 0; k < MAXIMA; k++)
            if (value[k] > 0 && value[k] == p.workspace->values.maxima[k] && !first[k]) first[k] = at;
        if (!p.all) continue;
        const u64 ulps = bits_of(ulps_between<typename Pairs::Arith>(p, format_at(pairs.dtype_a), pairs.element_at(~at).bits_a, x, y));
        if (ulps > farthest.ulps) farthest = {ulps, at};
        if (!current.needs_more(rule, x, y, m)) continue;
        double mine[2];
        passing_tolerances<typename Pairs::Arith>(rule, x, y, mine);
#pragma unroll
        for (int k = 0; k < 2; k++) passing[k] = Real<double>::larger(mine[k], passing[k]);
    }
    join_found(p, s, first, farthest, passing);
}

// Tests E pairs of which at least one of the wavefront exceeds its threshold, and examines them if need be. Called by all lanes of a wavefront.
template <class Pairs>
__device__ inline void test(const VerifyParams &p, const Pairs &pairs, ExplainShared<typename Pairs::T> &s, const Rule<typename Pairs::T> &rule, u64 index, const typename Pairs::N (&a)[Pairs::E],
                            const typename Pairs::N (&r)[Pairs::E], const typename Pairs::T (&d)[Pairs::E], const typename Pairs::T (&m)[Pairs::E], const typename Pairs::T (&bound)[Pairs::E]) {
    typedef typename Pairs::T T;
    enum { E = Pairs::E };
    Search<T> &search = s.search();
    const Passing<T> passing(s, rule);
    const u64 row = index / (SUBGROUP * Pairs::LOADED);
    const bool another = row != search.row;
    if (wavefront_any(another)) {
        subgroup_barrier();
        if (another && lane_of() == 0) search.enter_row(row, s.ulps);
        subgroup_barrier();
    }
    AnyNegative<T> beyond;
    bool further = false;
#pragma unroll
    for (int i = 0; i < E; i++) {
        const T reference = unknown((T)r[i]);
        search.maxima.test(beyond, rule, d[i], reference, bound[i], reference == 0);
    }
    if (p.all) {
        further = search.ulps.any_reached(a, r);
        if constexpr (Pairs::Arith::EXACT)
#pragma unroll
            for (int i = 0; i < E; i++) further |= passing.needs_more(rule, a[i], r[i], m[i]);
        else passing.test(beyond, rule, d, m);
    }
    if (wavefront_any(further || beyond.any())) examine(p, pairs, s, passing, rule, index, a, r);
}

// A thread's part of a run of tiles, and whether each tile has mismatches.
template <class Pairs>
__device__ inline void explain_run(const VerifyParams &p, const Pairs &pairs, SharedAddress ring, ExplainShared<typename Pairs::T> &s, const DifferenceFilter<typename Pairs::Arith> &filter, const Rule<typename Pairs::T> &rule, u64 run) {
    typedef typename Pairs::T T;
    typedef typename Pairs::N N;
    enum { E = Pairs::E };
    static_assert(Pairs::LOADS == 1, "the E pairs are neighbours");
    bool mismatch = false;
    T largest = 0;
    const Thresholds<typename Pairs::Arith> thresholds(filter);
    const auto take = [&](u64 index, const N (&a)[E], const N (&r)[E], const typename Pairs::D (&differences)[E], const T (&bound)[E]) {
        T d[E], m[E];
        AnyNegative<T> beyond;
        rule.magnitudes(differences, r, d, m);
#pragma unroll
        for (int i = 0; i < E; i++) {
            mismatch |= !within((typename Pairs::D)magnitude(differences[i]), bound[i]);
            beyond.add(thresholds.of(m[i]) - d[i]);
        }
        if (!wavefront_any(beyond.any())) return;
        // On NVIDIA's GPUs the loop has the rule in registers.
        const VerifyParams &again = read_here(p);
        test(again, pairs, s, LIKE_NVIDIA ? rule : Rule<T>(again), index, a, r, d, m, bound);
    };
    const auto end_tile = [&](u32 i) {
        const u64 tile = (run << p.run_log) + i;
        const bool any = subgroup_votes(mismatch) != 0;
        mismatch = false;
        if (lane_of() || tile >= pairs.tiles) return;
        p.mismatches[tile] = any;
        if (any) atomicMax(&s.first_tile, ~tile);
    };
    LoadsAhead<Pairs> loads(pairs, ring, run << p.run_log, 1u << p.run_log);
    for_pairs<false, false, false>(pairs, loads, rule, 1u << p.run_log, largest, [&](N x, N y) { mismatch |= !nonfinite_passes(p, x, y); }, take, end_tile);
}

// Lists the first mismatches in the order of their indices, by one subgroup.
template <class Pairs> __device__ inline void list_mismatches(const VerifyParams &p, const Pairs &pairs, const Rule<typename Pairs::T> &rule) {
    const u64 all = p.workspace->values.counts[MISMATCHES], count = all < p.listed ? all : p.listed;
    VerifyExplanation &out = p.result->explanation;
    u64 listed = 0;
    // There are that many, unless the tensors were written after they were counted.
    for (u64 tile = ~p.workspace->first_tile; listed < count && tile < pairs.tiles; tile++) {
        // The next tile that has mismatches.
        const u32 ahead = subgroup_votes(tile + lane_of() < pairs.tiles && p.mismatches[tile + lane_of()]);
        if (!ahead) {
            tile += SUBGROUP - 1;
            continue;
        }
        tile += __ffs((int)ahead) - 1;
        for (u64 from = tile << pairs.walk.size_log; from < (tile + 1) << pairs.walk.size_log && listed < count; from += SUBGROUP) {
            const u64 index = from + lane_of();
            bool fails = false;
            VerifyElement element = {NOWHERE, 0, 0};
            if (index < p.n) {
                element = pairs.element_at(index);
                const typename Pairs::N x = number<typename Pairs::N>(pairs.dtype_a, element.bits_a), y = number<typename Pairs::N>(pairs.dtype_r, element.bits_r);
                const bool finite = is_finite(x) && is_finite(y);
                fails = finite ? !within(distance(x, y), rule.bound((typename Pairs::T)magnitude(y))) : !nonfinite_passes(p, x, y);
            }
            const u32 votes = subgroup_votes(fails);
            const u64 rank = listed + __popc(votes & ((1u << lane_of()) - 1));
            if (fails && rank < count) out.first[rank] = element;
            listed += __popc(votes);
        }
    }
    if (lane_of() == 0) out.listed = listed < count ? listed : count;
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
    if (t < SUBGROUP) list_mismatches(p, pairs, rule);
    __syncthreads();
    for (u32 i = t; i < __builtin_offsetof(VerifyWorkspace, values) / 8; i += blockDim.x) ((u64 *)&w)[i] = 0;
    fence_system();
    __syncthreads();
    if (t == 0) p.result->explained = 1;
}

template <class Pairs> __device__ inline void explain(const VerifyParams &p) {
    typedef typename Pairs::T T;
    if (!wanted(p)) {
        if (blockIdx.x == 0 && threadIdx.x == 0) p.result->explained = 2;
        return;
    }
    __shared__ ExplainShared<T> s;
    for (u32 i = threadIdx.x; i < sizeof(s) / 4; i += blockDim.x) ((u32 *)&s)[i] = 0;
    __shared__ DifferenceFilter<typename Pairs::Arith> filter;
    __shared__ typename Pairs::Shared numbers;
    SHARED_ON_NVIDIA(ring, RING_BYTES);
    numbers.prepare(p);
    __syncthreads();
    const Pairs pairs(p, numbers);
    const Rule<T> rule(p);
    const u32 groups = blockDim.x / SUBGROUP, group = threadIdx.x / SUBGROUP;
    if (lane_of() == 0) s.search() = Search<T>(p, rule, format_at(pairs.dtype_a));
    u32 turn = 1;
#pragma unroll 1
    for (u64 first = p.first_run + blockIdx.x * groups; first < pairs.runs; first += (u64)gridDim.x * groups, turn++) {
        // In turns 1, 2, 4, ...: what is found becomes rare.
        if ((turn & (turn - 1)) == 0) {
            __syncthreads();
            s.learn(*p.workspace, first << p.run_log << pairs.walk.size_log);
            __syncthreads();
            const VerifyParams &again = read_here(p);
            filter.update(again, s, Rule<T>(again));
            __syncthreads();
        }
        explain_run(p, pairs, ring, s, filter, rule, first + group);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        if (s.first_tile) atomicMax(&p.workspace->first_tile, s.first_tile);
        VerifyFarthest most = {0, 0};
        if (p.first_run) most = p.farthest[blockIdx.x];
        for (u32 g = 0; g < groups; g++) {
            const VerifyFarthest x = s.search(g).farthest;
            if (x.ulps > most.ulps || (x.ulps == most.ulps && x.index > most.index)) most = x;
        }
        p.farthest[blockIdx.x] = most;
    }
    if (ends_last(p, s.last)) write_explanation(p, s, pairs, rule);
}
