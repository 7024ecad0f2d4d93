// Which elements the rule must look at to find the extremes: few, once large values are known.
//
// Every measure of a pair grows with its difference d, for a given reference. So what is known of all measures together is one limit
// of d, a function of m = |reference|, and an element with d at or below it cannot raise any. The function is kept in shared
// memory as a straight line for every half binade of m: an element costs one look into that table. Between the differences that elements
// can have, the lines lie at or below the function; what they let through is tested again, measure by measure, and what is left goes to the
// rule. Screens decide how long a comparison takes, never what it says: `tests/screens.rs` asks them about many elements.
//
// What is known is a key per measure in shared memory, exchanged with the other blocks through global memory now and then: the value's
// upper 34 bits over the segment's number, inverted, since the first of equal values wins. A value in f32 arithmetic has no more
// bits than that; in f64 arithmetic the screens know it a little too low.
#pragma once
#include "verify.h"

#define KEY_SEGMENT_BITS 30
#define KEY_SEGMENTS ((1ull << KEY_SEGMENT_BITS) - 1)

__device__ inline u64 key_of(double value, u64 segment) { return (bits_of(value) >> 29) << KEY_SEGMENT_BITS | (KEY_SEGMENTS - segment); }
__device__ inline double key_value(u64 key) { return f64_of((key >> KEY_SEGMENT_BITS) << 29); }
// In f32 arithmetic a distance in ulps is an integer of up to 33 bits, which is its own upper part.
__device__ inline u64 ulp_key_of(double value, u64 segment) { return (u64)value << KEY_SEGMENT_BITS | (KEY_SEGMENTS - segment); }
__device__ inline double ulp_key_value(u64 key) { return (double)(key >> KEY_SEGMENT_BITS); }
__device__ inline u64 key_segment(u64 key) { return KEY_SEGMENTS - (key & KEY_SEGMENTS); }

// The screens of one segment, as numbers.
template <typename T> struct Limits {
    T absolute, relative, relative_old, epsilon, ratio, rtol, atol;
    u64 ulp;

    static __device__ T below(T x) { return Real<T>::at((u64)bits_of(x) - 1); }
    // The largest T that only exceeds what is known when the value does; where the known place comes later, equal values count too.
    static __device__ T limit(double known, u64 key, i64 segment) {
        T x = known < (double)Real<T>::max() ? (T)known : Real<T>::max();
        if ((double)x > known && x > 0) x = below(x);
        if (segment < (i64)key_segment(key) && x > 0) x = below(x);
        return x;
    }
    __device__ void take_absolute(const Shared &s, i64 segment) {
        forget();
        const u64 key = s.keys[ABSOLUTE];
        absolute = limit(key_value(key), key, segment);
    }
    // For a segment; for the one before if equal values in this one shall count too.
    __device__ void take(const VerifyParams &p, const Shared &s, i64 segment) {
        take_absolute(s, segment);
        const u64 b = s.keys[RELATIVE], c = s.keys[RELATIVE_OLD], e = s.keys[EPSILON], q = s.keys[RATIO], u = s.keys[ULP];
        relative = limit(key_value(b), b, segment);
        relative_old = limit(key_value(c), c, segment);
        // An infinite epsilon difference (f64 only) is one of 2^1024 spacings and more.
        const i32 beyond = p.mantissa_bits > 0 ? 1024 - p.mantissa_bits : 1023;
        const double epsilons = key_value(e);
        epsilon = limit(epsilons <= Real<double>::max() ? epsilons * pow2(-p.mantissa_bits) : pow2(beyond), e, segment);
        ratio = limit(key_value(q), q, segment);
        rtol = (T)f64_of(s.hints[0]);
        atol = (T)f64_of(s.hints[1]);
        const double known = sizeof(T) == 4 ? ulp_key_value(u) : key_value(u);
        ulp = known < 18446744073709551616.0 ? (u64)known : ~0ull;
        if (segment < (i64)key_segment(u) && ulp > 0) ulp -= 1;
    }
    // Whether a difference d exceeds what is known by a measure that is no quotient, but for its distance.
    __device__ bool exceeds(const VerifyParams &p, const Rule<T> &rule, T d, T m) const {
        const T lowest = (T)pow2(p.min_exponent), highest = (T)pow2(p.max_exponent);
        T b = Real<T>::binade(m);
        b = b < lowest ? lowest : b > highest ? highest : b;
        // Products of so little may round up to the difference.
        return !(d <= absolute) | (d > epsilon * b) | (d < Real<T>::tiny()) | (d > Real<T>::fused(rtol, m, rule.atol)) | (d > Real<T>::fused(rule.rtol, m, atol));
    }
    // Whether it may exceed by any but its distance. Quotients are replaced by products, of which none says no where it should say yes.
    __device__ bool perhaps(const VerifyParams &p, const Rule<T> &rule, T d, T m) const {
        bool look = exceeds(p, rule, d, m);
        look |= Real<T>::fused(-relative, m, d) > 0;
        look |= m > Real<T>::small() && Real<T>::fused(-relative_old, m, d) > 0;
        return look || Real<T>::fused(-ratio, rule.bound(m), d) > 0;
    }
    // Whether a finite pair may exceed what is known by some measure; `ulps` is asked for last.
    template <typename F> __device__ bool may_exceed(const VerifyParams &p, const Rule<T> &rule, T d, T m, F ulps) const {
        if (!(d > 0)) return false;
        if (!perhaps(p, rule, d, m)) return ulps() > ulp;
        if (exceeds(p, rule, d, m)) return true;
        // What is left are quotients. A zero reference has no relative difference.
        if (m > 0) {
            const T quotient = Real<T>::quotient(d, m);
            if (quotient > relative || (m > Real<T>::small() && quotient > relative_old)) return true;
        }
        return Real<T>::quotient(d, rule.bound(m)) > ratio || ulps() > ulp;
    }
};

// An element may exceed what is known when !(d - slope * m <= base); so written, NaN and infinities always do.
template <typename T> struct alignas(2 * sizeof(T)) Line { T slope, base; };

// f32: half binades by the exponent's and the first fraction bit. f64: binades from 2^-255 to 2^255, what lies outside
// in the first and last.
enum { LINES = 512 };
// Where the line for |r| stands in the table, in bytes.
__device__ inline u32 line_offset(float r) { return (bits_of(r) & 0x7fc00000u) >> 19; }
__device__ inline u32 line_offset(double r) {
    const i32 e = (i32)(bits_of(r) >> 52 & 0x7ff) - (1023 - 256);
    return (u32)(e < 0 ? 0 : e > LINES - 1 ? LINES - 1 : e) * (u32)sizeof(Line<double>);
}
__device__ inline float beginning_of(u32 line, float) { return f32_of(line << 22); }
__device__ inline double beginning_of(u32 line, double) { return line == 0 ? 0 : exp2_f64((i32)line - 256); }
// How many lines numbers have, without the infinities.
__device__ inline u32 lines_of(float) { return LINES - 2; }
__device__ inline u32 lines_of(double) { return LINES; }

// The references of a line: from the first to the last that their format has, or may have.
template <class Pair, typename T> __device__ inline void ends_of(u32 line, T &from, T &to) {
    from = beginning_of(line, (T)0);
    to = Real<T>::max();
    if (line + 1 >= lines_of((T)0)) return;
    const T next = beginning_of(line + 1, (T)0);
    to = next - Pair::spacing(Real<T>::at((u64)bits_of(next) - 1));
    if (to < from) to = from < next && !Pair::INTEGERS ? Real<T>::at((u64)bits_of(next) - 1) : from;
}

// Half the distance to the next number.
template <typename T> __device__ inline T half_spacing(T x) { return x < Real<T>::max() ? (Real<T>::at((u64)bits_of(x) + 1) - x) / 2 : 0; }

// A little less than 1: by more than a few roundings of f32.
#define LESS (1 - 5e-7)

// The least of several functions of m between `from` and `to`, as one straight line below it. All are concave.
template <typename T> struct Envelope {
    // Between what a function is at a reference, which rounding leaves open.
    struct Value {
        T least, most;
        __device__ Value(T x = Real<T>::max()) : Value(x, x) {}
        __device__ Value(T x, T y) : least(Real<T>::smaller(x, Real<T>::max())), most(Real<T>::smaller(y, Real<T>::max())) {}
        __device__ void lower(const Value &x) { least = Real<T>::smaller(least, x.least), most = Real<T>::smaller(most, x.most); }
    };
    T from, to;
    Value at_from, at_to;
    Line<T> line;
    bool one; // the line is least at both ends, so between them
    __device__ Envelope(T f, T t) : from(f), to(t), line{0, Real<T>::max()}, one(true) {}
    __device__ void add(const Value &x, const Value &y, bool straight, Line<T> l) {
        if (x.most <= at_from.least && y.most <= at_to.least) line = l, one = straight;
        else if (x.least < at_from.most || y.least < at_to.most) one = false;
        at_from.lower(x);
        at_to.lower(y);
    }
    // The line slope * m + base. One that does not decide a test exactly lies a little lower. Where two lines are that close, rounding leaves
    // open which is the lower one.
    __device__ void straight(T slope, T base, bool exact) {
        slope = Real<T>::smaller(slope, Real<T>::max());
        const Line<T> low = {slope * (T)LESS, base * (T)LESS}, x = {exact ? slope : low.slope, exact ? base : low.base};
        const bool open = !exact || (slope != 0 && base != 0);
        auto at = [&](T m) {
            const T most = Real<T>::fused(slope, m, base);
            return Value(open ? Real<T>::fused(low.slope, m, low.base) : most, exact && open ? most * (T)(2 - LESS) : most);
        };
        add(at(from), at(to), true, x);
    }
    // Any other concave function by its ends.
    __device__ void curve(T x, T y) { add(x, y, false, {0, 0}); }
    __device__ Line<T> result() const {
        const T x = at_from.least, y = at_to.least;
        // Differences so small are better looked at: products with them may round up from nothing.
        if (x < Real<T>::tiny()) return {0, 0};
        if (!(y < Real<T>::max())) return {0, x};
        if (one) return line;
        if (!(from < to)) return {0, x};
        // The chord of a concave function lies below it; lowered by more than its rounding.
        const T a = (y - x) / (to - from) * (T)LESS;
        return {a, (x - a * from) - y * (T)(1 - LESS)};
    }
};

// Adds the least difference by which a result can be more than `ulps` places from a reference. Towards zero is the shorter way.
template <class Pair, typename T> __device__ inline void add_ulps(Envelope<T> &envelope, u64 ulps) {
    if constexpr (Pair::INTEGERS) envelope.straight(0, ulps < 1ull << 24 ? (T)ulps : Real<T>::max(), true);
    else {
        const u64 top = Pair::largest_ordinal();
        if (ulps >= 2 * top) return;
        const u64 low = Pair::ordinal_of(envelope.from), high = Pair::ordinal_of(envelope.to), steps = ulps + 1;
        // A reference between two numbers of the result's format is up to half a spacing from the nearest.
        const T spacing = Pair::SAME ? 0 : high < top ? Pair::value_of(high > 0 ? high : 1) - Pair::value_of(high > 0 ? high - 1 : 0) : Real<T>::max();
        // Between equal formats differences are multiples of half a step as long as the result's binade is the reference's or the one below.
        const T half = Pair::spacing(envelope.from) / 2, binade = Real<T>::binade(envelope.from);
        auto between = [&](T way) {
            if (Pair::SAME && way < binade / 2) return way - half / 4;
            return way > spacing / 2 ? (way - spacing / 2) * (T)LESS : 0;
        };
        if (high <= steps) {
            // Zero lies on the way: m, and the way beyond zero, which is shortest for the largest m. The difference may have lost that
            // way in its rounding.
            if (steps - high > top) return;
            // References between places may be up to half a spacing closer to a result that is farther from zero: that way is shortest for the
            // smallest m.
            if (!Pair::SAME && low + steps <= top) {
                const T away = Pair::value_of(low + steps) - Pair::value_of(low);
                envelope.straight(0, away > spacing / 2 ? away - spacing / 2 : 0, false);
            }
            // The whole way is a convex function. Where the way beyond is as long as m, the line that touches it at the first reference lies
            // closer than m and the shortest way beyond.
            if (Pair::SAME && steps - low <= top) {
                const T far = Pair::value_of(steps - low), slope = 1 - (far - Pair::value_of(steps - low - 1)) / Pair::spacing(envelope.from);
                if (far >= envelope.from / 2 && slope >= 0) return envelope.straight(slope, envelope.from + far - slope * envelope.from, false);
            }
            // A little less than that way, but not less than m, which is the difference of a result that is zero.
            const T beyond = Pair::value_of(steps - high), little = 4 * half_spacing(envelope.to + beyond);
            if (Pair::SAME && beyond > 2 * little) envelope.straight(1, beyond - little, true);
            else envelope.straight(1, beyond, false);
        } else if (low >= steps) {
            // In a binade's first places part of the way lies in the one below: the way grows there, and is even behind. With references
            // between places it grows in steps, below the chord by the chord's rise over one of them.
            const u64 next = Pair::SAME ? low : low + 1;
            const T first = Pair::value_of(next) - Pair::value_of(next - steps), at_from = Pair::SAME ? first * (T)LESS : between(first);
            const T at_to = between(Pair::value_of(high) - Pair::value_of(high - steps));
            const T rise = (at_to - at_from) / (envelope.to - envelope.from) * spacing;
            envelope.curve(rise > 0 ? at_from - rise : at_from, at_to);
        } else {
            // The way is shortest where zero lies in its middle.
            u64 at = steps / 2;
            at = at < low ? low : at;
            envelope.straight(0, between(Pair::value_of(at) + Pair::value_of(steps - at)), true);
        }
    }
}

// The largest number of which the quotient by y rounds to no more than `limit`; 0 where any of them is very small.
template <typename T> __device__ inline T dividend(T limit, T y) {
    T x = Real<T>::smaller(limit * y, Real<T>::max());
    if (!(limit > Real<T>::tiny() && x > Real<T>::tiny())) return 0;
    while (x < Real<T>::max() && Real<T>::quotient(Real<T>::at((u64)bits_of(x) + 1), y) <= limit) x = Real<T>::at((u64)bits_of(x) + 1);
    while (Real<T>::quotient(x, y) > limit) x = Limits<T>::below(x);
    return x;
}

// How far a line may rise at the reference m and still let nothing more through: to the next difference that may exceed what is known.
template <class Pair, typename T> __device__ inline T room(const VerifyParams &p, const Limits<T> &known, const Rule<T> &rule, Line<T> line, T m) {
    const T step = Pair::step(m), limit = Real<T>::fused(line.slope, m, line.base), b = Real<T>::binade(m) / 2;
    // Multiples of `step` have a T.
    if (!(limit > 0 && limit < step * 1048576)) return 0;
    // The first that the line lets through.
    auto over = [&](T d) { return Real<T>::fused(-line.slope, m, d) - line.base; };
    T d = (T)(u32)(limit / step) * step;
    while (!(over(d) > 0)) d += step;
    // Smaller results have other differences.
    if (!Pair::INTEGERS && d - step < m + b && d + step > m - b) return 0;
    const bool exceeds = known.may_exceed(p, rule, d, m, [&] {
        if constexpr (Pair::INTEGERS) return (u64)d;
        else {
            const u64 below = Pair::steps(m - d, m), above = Pair::steps(m + d, m);
            return below > above ? below : above;
        }
    });
    const T rise = over(exceeds ? d : d + step);
    return rise > limit * (T)1e-5 ? rise : 0;
}

// Between equal formats of few digits differences are multiples of a step, for floats half the references' (see `add_ulps`), and many elements
// reach what is known. Raises the lines of most references to the middle between what lets them pass and what would let more pass.
template <class Pair, typename T> __device__ inline void lift(const VerifyParams &p, const Limits<T> &known, const Rule<T> &rule, Line<T> *lines, u32 seen) {
    // Of integers those of all references, with that of zero for the last.
    enum { LINES_BELOW = Pair::INTEGERS ? 19 : 16 };
    // Threads a line.
    const u32 together = blockDim.x < 8 ? 1 : 8, member = threadIdx.x % together;
    // All threads as often: they shuffle.
#pragma unroll 1
    for (u32 at = 0; at < LINES_BELOW; at += blockDim.x / together) {
        const u32 k = at + threadIdx.x / together;
        const bool zero = Pair::INTEGERS && k == LINES_BELOW - 1;
        const u32 i = zero ? 0 : seen + 2 - k;
        T from, to;
        ends_of<Pair>(i, from, to);
        const bool there = zero || (k < LINES_BELOW && i <= seen + 2 && i < lines_of((T)0) && from >= (T)pow2(p.min_exponent));
        const Line<T> line = there ? lines[i] : Line<T>{0, 0};
        T least = there ? Real<T>::max() : 0;
        if (there)
#pragma unroll 1
            for (u32 place = member; place < Pair::PLACES; place += together) {
                const T m = from + place * Pair::spacing(from);
                least = Real<T>::smaller(least, m <= to ? room<Pair>(p, known, rule, line, m) : least);
            }
        for (u32 step = 1; step < together; step *= 2) least = Real<T>::smaller(least, __shfl_xor(least, step, GROUP));
        settle_group();
        if (there && member == 0) lines[i].base = line.base + least / 2;
    }
}

// Writes the table for what is known now. The whole block; a barrier before and after. At first only the lines of references like those
// that were seen: the others let everything through.
template <class Pair> __device__ inline void screen(const VerifyParams &p, Shared &s, u64 segment, bool first) {
    typedef typename Pair::Number T;
    static_assert(LINES * sizeof(Line<T>) <= sizeof(s.space), "the table fits");
    __syncthreads();
    Limits<T> known;
    known.take(p, s, segment);
    const Rule<T> rule(p);
    if (threadIdx.x == 0) *(Limits<T> *)s.limits = known;
    Line<T> *lines = (Line<T> *)s.space;
    const u32 seen = line_offset((T)f64_of(s.magnitudes[1])) / sizeof(Line<T>);
    for (u32 i = threadIdx.x; i < LINES; i += blockDim.x) {
        T from, to;
        ends_of<Pair>(i, from, to);
        // Infinities and NaN, which are in no line; large references; those that no element has.
        if (i >= lines_of((T)0) || from >= Pair::large() || (first && i != 0 && (i > seen + 2 || i + blockDim.x <= seen + 3)) || (i > 0 && to < Pair::spacing(0))) {
            lines[i] = {0, -1};
            continue;
        }
        Envelope<T> envelope(from, to);
        // Between equal formats differences are multiples of half a step, see `add_ulps`: a limit lies best between two.
        auto at_most = [&](T limit) {
            if constexpr (Pair::SAME && !Pair::INTEGERS) {
                const T step = Pair::step(from);
                if (Real<T>::binade(from) == Real<T>::binade(to) && limit + step < Real<T>::binade(from) / 2) limit = ((T)(u64)(limit / step) + (T)0.75) * step;
            }
            envelope.straight(0, limit, true);
        };
        // Quotients round to nearest: half a spacing more changes nothing. By a power of two they do not round.
        auto times = [&](T limit) { envelope.straight(limit, limit == Real<T>::binade(limit) ? 0 : half_spacing(limit) * from * (T)LESS, true); };
        at_most(known.absolute);
        if (Pair::ODD_WHEN_LARGE) envelope.straight(0, Pair::large(), true);
        // No difference is relative to zero.
        if (to > 0) times(known.relative);
        // Half binades that begin below the threshold may hold numbers above it.
        if (to > Real<T>::small()) times(known.relative_old);
        T b = Real<T>::binade(from);
        const T lowest = (T)pow2(p.min_exponent), highest = (T)pow2(p.max_exponent);
        b = b < lowest ? lowest : b > highest ? highest : b;
        at_most(known.epsilon * b);
        add_ulps<Pair, T>(envelope, known.ulp);
        // Without rtol the ratio and the least atol grow as the difference does, and there is no least rtol.
        if (rule.rtol > 0 || rule.atol == 0) {
            envelope.straight(known.ratio * rule.rtol, known.ratio * rule.atol, false);
            // No bound is larger.
            envelope.straight(0, known.ratio * Real<T>::max(), false);
            envelope.straight(rule.rtol, known.atol, false);
        } else at_most(dividend(known.ratio, rule.bound(0)));
        // No rtol is larger than one that zero references want.
        if (known.rtol <= Real<T>::max()) envelope.straight(known.rtol, rule.atol, false);
        lines[i] = envelope.result();
    }
    if constexpr (Pair::PLACES > 0) {
        __syncthreads();
        lift<Pair>(p, known, rule, lines, seen);
    }
    if (threadIdx.x == 0) s.hot = s.raised = 0;
    __syncthreads();
}

// Takes one element of every thread of a group, 0 where it has none: the group's best, and what the block knows. Indices ascend with
// the threads.
template <typename T, bool ALL> __device__ inline void take(Shared &s, u64 segment, u64 index, const double (&value)[MEASURES]) {
    const u32 group = threadIdx.x / GROUP, column = threadIdx.x % GROUP;
    VerifyBest &best = s.bests[group];
    forget();
#pragma unroll
    for (int k = 0; k < (ALL ? MEASURES : ABSOLUTE + 1); k++) {
        const bool places = k == ULP && sizeof(T) == 4;
        const u64 key = places ? ulp_key_of(value[k], segment) : key_of(value[k], segment);
        const bool wanted = (key >> KEY_SEGMENT_BITS) >= (s.keys[k] >> KEY_SEGMENT_BITS) && improves(best, k, value[k], index);
        if (!__any(wanted)) continue;
        const double most = group_max(wanted ? value[k] : 0);
        const u32 winners = group_votes(wanted && value[k] == most);
        settle_group();
        if (winners && column == (u32)__ffs((int)winners) - 1) {
            best.value[k] = most;
            best.index[k] = index;
            raise(s.keys[k], key);
            atomicOr(&s.raised, 1u);
        }
        settle_group();
    }
}

// Raises the least tolerances that would have passed by those of a group's threads.
__device__ inline void take_hints(Shared &s, const double (&hint)[2]) {
#pragma unroll
    for (int k = 0; k < 2; k++) {
        if (!__any(hint[k] > 0)) continue;
        const double most = group_max(hint[k]);
        if (threadIdx.x % GROUP == 0) raise(s.hints[k], bits_of(most));
    }
}
