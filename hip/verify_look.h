// The elements that the screens let through: which of them are visited, and how. Rows that are not finite, or not all there, element by
// element. And a glance at the first rows, so that little is let through from the beginning.
#pragma once
#include "dense.h"
#include "verify_screen.h"

// Visits one finite element of every thread of a group that wants to, element v of its load: raises what is known.
template <class Pair, bool ALL>
__device__ inline void visit(const VerifyParams &p, Shared &s, const Rule<typename Pair::Number> &rule, u64 segment, u64 index, const typename Pair::Raw &raw, u32 v, bool wanted) {
    typedef typename Pair::Number T;
    double value[MEASURES] = {0, 0, 0, 0, 0, 0}, hint[2] = {0, 0};
    if (wanted) {
        const T r = Pair::reference(raw, v), d = Real<T>::abs(Pair::result(raw, v) - r), m = Real<T>::abs(r);
        if constexpr (ALL) {
            measure<T>(p, rule, d, m, Pair::distance(raw, v), value);
            hints<T>(s, rule, d, m, hint);
        } else value[ABSOLUTE] = (double)d;
    }
    take<T, ALL>(s, segment, index + v, value);
    if (ALL) take_hints(s, hint);
}

// Whether an element may exceed what is known, by the table or, with counts only, by the largest difference.
template <class Pair, bool ALL> __device__ inline bool above(const char *lines, typename Pair::Number absolute, typename Pair::Number r, typename Pair::Number d) {
    typedef typename Pair::Number T;
    if (!ALL) return !(d <= absolute);
    const Line<T> line = *(const Line<T> *)(lines + line_offset(r));
    return !(Real<T>::fused(-line.slope, Real<T>::abs(r), d) <= line.base);
}

// A row in which an element may exceed what is known: visits those that do. Says no, and does nothing, if elements of the group are
// not finite, or too large.
template <class Pair, bool ALL>
__device__ inline bool look(const VerifyParams &p, Shared &s, typename Pair::Number absolute, u64 segment, u64 index, typename Pair::Raw raw) {
    typedef typename Pair::Number T;
    const Rule<T> rule(p);
    static_assert(sizeof(Limits<T>) <= sizeof(s.limits), "the limits fit");
    u32 pending = 0;
    bool finite = true;
    T most = 0;
#pragma unroll
    for (int v = 0; v < Pair::V; v++) {
        const T r = Pair::reference(raw, v), d = Real<T>::abs(Pair::result(raw, v) - r);
        const bool hot = above<Pair, ALL>((const char *)s.space, absolute, r, d);
        finite &= d <= (ALL ? Pair::large() : Real<T>::max());
        if (ALL && Pair::ODD_WHEN_LARGE) finite &= Real<T>::abs(r) <= Pair::large();
        if constexpr (ALL) pending |= hot ? 1u << v : 0;
        else if (hot && d > most) {
            // Of one measure the first of the largest is enough.
            most = d;
            pending = 1u << v;
        }
    }
    if (!__all(finite)) return false;
    Limits<T> limits;
    bool fresh = !ALL;
    if constexpr (ALL) {
        limits = *(const Limits<T> *)s.limits;
        // Data in which most elements tie with what is known: without branches.
        if (__any(__popc(pending) > 3)) {
#pragma unroll
            for (int v = 0; v < Pair::V; v++) {
                const T r = Pair::reference(raw, v), d = Real<T>::abs(Pair::result(raw, v) - r);
                const bool maybe = limits.perhaps(p, rule, d, Real<T>::abs(r)) | (Pair::distance(raw, v) > limits.ulp);
                pending &= d > 0 && maybe ? ~0u : ~(1u << v);
            }
        }
    }
#pragma unroll 1
    while (__any(pending != 0)) {
        const u32 v = pending ? (u32)__ffs((int)pending) - 1 : 0;
        const T r = Pair::reference(raw, v), d = Real<T>::abs(Pair::result(raw, v) - r);
        bool wanted = pending != 0;
        if constexpr (ALL) wanted = wanted && limits.may_exceed(p, rule, d, Real<T>::abs(r), [&] { return Pair::distance(raw, v); });
        if (__any(wanted)) {
            // More may be known since the table was written. A place in this row may come before one that was just found.
            const bool again = !fresh;
            if (fresh) visit<Pair, ALL>(p, s, rule, segment, index, raw, v, wanted);
            if constexpr (ALL) limits.take(p, s, (i64)segment - 1), fresh = true;
            if (again) continue;
        }
        pending &= pending - 1;
    }
    return true;
}

// A row in which an element is not finite or not there: counts and visits one element after the other.
template <class Pair, bool ALL>
__device__ inline Tally<typename Pair::Number> look_closely(const VerifyParams &p, Shared &s, u64 segment, u64 index, typename Pair::Raw raw) {
    typedef typename Pair::Number T;
    const Rule<T> rule(p);
    Tally<T> tally;
    tally.clear();
    // What was known before the row: equal values count in any order, and the first place wins.
    Limits<T> limits;
    if constexpr (ALL) limits.take(p, s, segment);
    else limits.take_absolute(s, segment);
#pragma unroll 1
    for (u32 v = 0; v < Pair::V; v++) {
        const T a = Pair::result(raw, v), r = Pair::reference(raw, v), d = Real<T>::abs(a - r), m = Real<T>::abs(r);
        bool wanted = false;
        if (index + v < p.n) {
            if (is_finite(a)) tally.largest_a = Real<T>::larger(tally.largest_a, Real<T>::abs(a));
            if (is_finite(r)) tally.largest_r = Real<T>::larger(tally.largest_r, m);
            if (ALL) tally.zeros_a += a == 0, tally.zeros_r += r == 0;
            if (is_finite(a) && is_finite(r)) {
                const T bound = rule.bound(m);
                tally.mismatches += d > bound;
                if constexpr (ALL) {
                    tally.zero_passes += m <= bound;
                    wanted = limits.may_exceed(p, rule, d, m, [&] { return Pair::distance(raw, v); });
                } else wanted = d > limits.absolute;
            } else observe_nonfinite(p, s, tally, a, r);
        }
        if (__any(wanted)) visit<Pair, ALL>(p, s, rule, segment, index, raw, v, wanted);
    }
    return tally;
}

// No more than x / y, and not much less where that matters.
template <typename T> __device__ inline T at_least(T x, T y) {
    const float divisor = (float)y;
    const T q = x * (T)(reciprocal(divisor) * (1 - 1e-6f));
    return divisor > 1e-36f ? Real<T>::smaller(q, Real<T>::max()) : 0;
}
// No tolerance below these lets a pair pass, whatever the rounding.
template <typename T> __device__ inline T rtol_beyond(const Rule<T> &rule, T d, T m) { return at_least(d * (T)(1 - 1e-6) - rule.atol, m); }
template <typename T> __device__ inline T atol_beyond(const Rule<T> &rule, T d, T m) { return Real<T>::fused(-rule.rtol, m, d * (T)(1 - 1e-6)) * (T)(1 - 1e-6); }

// What some elements of a thread come to, so that the first rows are screened already. All of it is reached by elements of the tensors,
// or a little less.
template <class Pair> struct Glance {
    typedef typename Pair::Number T;
    T worst[MEASURES], hint[2], largest;
    u64 ulps;
    __device__ Glance() : largest(0), ulps(0) {
        for (int k = 0; k < MEASURES; k++) worst[k] = 0;
        hint[0] = hint[1] = 0;
    }
    template <bool ALL> __device__ void take(const VerifyParams &p, const Rule<T> &rule, const typename Pair::Raw &raw) {
#pragma unroll
        for (int v = 0; v < Pair::V; v++) {
            const T r = Pair::reference(raw, v), x = Real<T>::abs(Pair::result(raw, v) - r), m = Real<T>::abs(r);
            const bool finite = x <= Real<T>::max();
            const T d = finite ? x : 0;
            worst[ABSOLUTE] = Real<T>::larger(worst[ABSOLUTE], d);
            if (!ALL) continue;
            largest = finite ? Real<T>::larger(largest, m) : largest;
            const T q = at_least(d, m);
            worst[RELATIVE] = Real<T>::larger(worst[RELATIVE], q);
            worst[RELATIVE_OLD] = Real<T>::larger(worst[RELATIVE_OLD], m > Real<T>::small() ? q : 0);
            // In units of the binade.
            const i32 e = Real<T>::exponent(m);
            const T unit = Real<T>::power(-(e < p.min_exponent ? p.min_exponent : e > p.max_exponent ? p.max_exponent : e));
            worst[EPSILON] = Real<T>::larger(worst[EPSILON], Real<T>::smaller(d * unit, Real<T>::max()));
            worst[RATIO] = Real<T>::larger(worst[RATIO], at_least(d, rule.bound(m)));
            const u64 ulp = finite ? Pair::distance(raw, v) : 0;
            ulps = ulp > ulps ? ulp : ulps;
            hint[0] = Real<T>::larger(hint[0], rtol_beyond(rule, d, m));
            hint[1] = Real<T>::larger(hint[1], atol_beyond(rule, d, m));
        }
    }
    // Makes it known to the block. That it lies in a later segment is a lie that makes equal values before it count.
    template <bool ALL> __device__ void tell(const VerifyParams &p, Shared &s, u64 segment) const {
        const u32 column = threadIdx.x % GROUP;
        double mine = 0;
#pragma unroll
        for (int k = 0; k < (ALL ? MEASURES : ABSOLUTE + 1); k++) {
            // Distances that f64 would round are rounded down.
            const double most = k == ULP ? (double)group_max(ulps >> 53 ? ulps & ~0x7ffull : ulps) : (double)group_max(worst[k]);
            if (column == (u32)k) mine = k == EPSILON ? most * pow2(p.mantissa_bits) : most;
        }
        if (ALL) {
#pragma unroll
            for (int k = 0; k < 2; k++) {
                const double most = (double)group_max(hint[k]);
                if (column == MEASURES + k) mine = most;
            }
            const double most = (double)group_max(largest);
            if (column == 0) raise(s.magnitudes[1], bits_of(most));
        }
        if (!(mine > 0)) return;
        if (column < MEASURES) raise(s.keys[column], column == ULP && sizeof(T) == 4 ? ulp_key_of(mine, segment) : key_of(mine, segment));
        else raise(s.hints[column - MEASURES], bits_of(mine));
    }
};

// Glances at the first rows of a group's first segment.
template <class Pair, bool ALL> __device__ inline void look_ahead(const VerifyParams &p, Shared &s, u64 segment, u64 index) {
    enum { AT_ONCE = Pair::V < 8 ? 8 / Pair::V : 1 };
    const Rule<typename Pair::Number> rule(p);
    Glance<Pair> glance;
    typename Pair::Raw raws[AT_ONCE];
#pragma unroll
    for (u32 i = 0; i < AT_ONCE; i++, index += GROUP * Pair::V) raws[i] = Pair::load(p, index, index + Pair::V <= p.n);
#pragma unroll
    for (u32 i = 0; i < AT_ONCE; i++) glance.template take<ALL>(p, rule, raws[i]);
    glance.template tell<ALL>(p, s, segment + 1);
}
