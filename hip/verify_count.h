// What every row adds to: mismatches, the largest magnitudes, zeros.
#pragma once
#include "dense.h"

// Adds 1 where x > y, both finite: the sign of their difference is exact.
template <typename T> __device__ inline void count_above(u32 &count, T x, T y) { count += sign_of(y - x); }

// The least magnitudes of a row's elements in one thread. 16-bit pairs keep two at a time, as patterns; NaN are left out.
template <class Pair, bool PACKED = Pair::PACKED> struct Least {
    typedef typename Pair::Number T;
    T a = Real<T>::max(), r = Real<T>::max();
    __device__ explicit Least(const typename Pair::Raw &raw) {
#pragma unroll
        for (int v = 0; v < Pair::V; v++) {
            a = Real<T>::smaller(a, Real<T>::abs(Pair::result(raw, v)));
            r = Real<T>::smaller(r, Real<T>::abs(Pair::reference(raw, v)));
        }
    }
    // Whether a result is zero or a reference at most `gate`.
    __device__ bool any(T gate) const { return a == 0 || r <= gate; }
};
template <class Pair> struct Least<Pair, true> {
    typedef Two<F16> Words;
    u32 a = 0x7bff7bff, r = a;
    __device__ explicit Least(const typename Pair::Raw &raw) {
#pragma unroll
        for (int i = 0; i < Pair::WORDS_A; i++) Words::lower(a, raw.a[i]), Words::lower(r, raw.r[i]);
    }
    __device__ bool any(u32 gate) const { return Words::any_up_to(a, 0, r, gate); }
};

// The largest magnitudes of finite elements. 16-bit pairs and halves are kept two at a time, as patterns.
enum Kept { ONES, PATTERNS, LITTLE_PATTERNS, HALVES };
template <class Pair, bool ALL> constexpr Kept KEPT = Pair::PACKED ? (Pair::ODD_WHEN_LARGE && ALL ? LITTLE_PATTERNS : PATTERNS) : Pair::HALVES ? HALVES : ONES;
template <class Pair, Kept> struct Extent {
    typedef typename Pair::Number T;
    T a = 0, r = 0;
    __device__ void raise(const typename Pair::Raw &raw) {
#pragma unroll
        for (int v = 0; v < Pair::V; v++) {
            a = Real<T>::larger(a, Real<T>::abs(Pair::result(raw, v)));
            r = Real<T>::larger(r, Real<T>::abs(Pair::reference(raw, v)));
        }
    }
    __device__ T largest_a() const { return a; }
    __device__ T largest_r() const { return r; }
};
template <class Pair> struct Extent<Pair, HALVES> {
    typedef typename Pair::Number T;
    u32 a = 0, r = 0;
    __device__ void raise(const typename Pair::Raw &raw) { raise(raw, 0x64646464u); }
    __device__ void raise(const typename Pair::Raw &raw, u32 magic) {
#pragma unroll
        for (int i = 0; i < 2 * Pair::WORDS_A; i++) {
            Two<F16>::raise(a, Pair::template halves<Pair::DTYPE_A>(raw.a[i / 2], i % 2, magic));
            Two<F16>::raise(r, Pair::template halves<Pair::DTYPE_A>(raw.r[i / 2], i % 2, magic));
        }
    }
    static __device__ T larger(u32 most) { return f16_to_f32(most >> 16 > (most & 0xffff) ? most >> 16 : most & 0xffff); }
    __device__ T largest_a() const { return larger(a); }
    __device__ T largest_r() const { return larger(r); }
};
template <class Pair, u32 DTYPE> struct PackedExtent {
    typedef typename Pair::Number T;
    typedef Two<DTYPE> Words;
    u32 a = 0, r = 0;
    __device__ void raise(const typename Pair::Raw &raw) {
#pragma unroll
        for (int i = 0; i < Pair::WORDS_A; i++) Words::raise(a, raw.a[i]), Words::raise(r, raw.r[i]);
    }
    static __device__ T larger(u32 most) { return Pair::value_of(most >> 16 > (most & 0xffff) ? most >> 16 : most & 0xffff); }
    __device__ T largest_a() const { return larger(a); }
    __device__ T largest_r() const { return larger(r); }
};
template <class Pair> struct Extent<Pair, PATTERNS> : PackedExtent<Pair, Pair::DTYPE_A> {};
template <class Pair> struct Extent<Pair, LITTLE_PATTERNS> : PackedExtent<Pair, F16> {};

// Results that are zero, and references that are or for which a zero result would pass: few rows have some. No reference above `gate`
// is one.
template <class Pair, bool PACKED> struct Small {
    typedef typename Pair::Number T;
    T gate;
    __device__ explicit Small(const Rule<T> &rule) : gate(rule.rtol < (T)0.99 ? rule.atol / (1 - rule.rtol) * (T)(1 + 1e-5) + Real<T>::tiny() : Real<T>::max()) {}
    __device__ void count(Tally<T> &tally, const Rule<T> &rule, const Least<Pair> &, const typename Pair::Raw &raw) const {
#pragma unroll
        for (int v = 0; v < Pair::V; v++) {
            const T a = Pair::result(raw, v), r = Pair::reference(raw, v), m = Real<T>::abs(r);
            tally.zeros_a += a == 0;
            tally.zeros_r += r == 0;
            tally.zero_passes += m <= rule.bound(m);
        }
    }
};
template <class Pair> struct Small<Pair, true> {
    typedef typename Pair::Number T;
    typedef Two<F16> Words;
    u32 gate;   // in both halves
    bool exact; // references pass up to the gate and no further
    __device__ explicit Small(const Rule<T> &rule) : exact(rule.rtol < (T)0.99) {
        const Small<Pair, false> wide(rule);
        gate = (u32)Pair::ordinal_of(Real<T>::smaller(wide.gate, Pair::large()));
        // Of numbers as far apart as these none passes above one that does not: passing takes m * (1 - rtol) <= atol.
        while (exact && gate > 0 && !(Pair::value_of(gate) <= rule.bound(Pair::value_of(gate)))) gate -= 1;
        gate *= 0x10001u;
    }
    static __device__ u32 count_up_to(const u32 (&words)[Pair::WORDS_A], u32 limit) {
        static_assert(Pair::WORDS_A <= 16, "a bit of each half for every word");
        u32 bits = 0;
#pragma unroll
        for (int i = 0; i < Pair::WORDS_A; i++) bits |= Words::up_to(words[i], limit) & 0x10001u << i;
        return __popc(bits);
    }
    __device__ void count(Tally<T> &tally, const Rule<T> &rule, const Least<Pair> &least, const typename Pair::Raw &raw) const {
        if (least.any(0)) {
            tally.zeros_a += count_up_to(raw.a, 0);
            tally.zeros_r += count_up_to(raw.r, 0);
        }
        if (exact) tally.zero_passes += count_up_to(raw.r, gate);
        else {
#pragma unroll
            for (int v = 0; v < Pair::V; v++) {
                const T m = Real<T>::abs(Pair::reference(raw, v));
                tally.zero_passes += m <= rule.bound(m);
            }
        }
    }
};

#if defined(__CUDACC__)
// Counts rows of halves by f16 arithmetic, and says of which rows that is not sure: |d| and the bound are rounded, so elements near their
// bound are not, nor are those that may be the worst.
template <class Pair> struct Counter {
    typedef typename Pair::Number T;
    typedef Two<F16> Words;
    u32 rtol, atol, width_rtol, width_atol, limit, magic;
    bool exact;
    static __device__ u32 both(u32 x) { return x * 0x10001u; }
    static __device__ u32 up(float x) {
        const u32 h = f32_to_f16(x);
        return f16_to_f32(h) < x ? h + 1 : h;
    }
    static __device__ u32 down(float x) {
        const u32 h = f32_to_f16(x);
        return f16_to_f32(h) > x ? h - 1 : h;
    }
    __device__ explicit Counter(const Rule<T> &rule) : limit(0), magic(Pair::magic_of_halves()), exact(true) {
        // Differences of integers are exact: one bound for all lies best between two of them.
        const bool between = Pair::INTEGERS && rule.rtol == 0;
        const float last = between ? (rule.atol < 1000 ? floorf(rule.atol) : 1000.0f) + 0.5f : rule.atol;
        const u32 r = f32_to_f16(rule.rtol), a = f32_to_f16(last);
        rtol = both(r), atol = both(a);
        // What the bound and the difference are off by, of which f16 rounds both to 11 bits or 2^-24.
        const float some = 1.5f / 1024;
        width_rtol = both(between ? 0 : up(fabsf(f16_to_f32(r) - rule.rtol) + some * rule.rtol));
        width_atol = both(between ? 0 : up(fabsf(f16_to_f32(a) - last) + some * last + 2.4e-7f));
        // Tolerances beyond f16 leave everything unsure.
        if (!(rule.rtol < 512 && last < 16384)) width_atol = both(0x7c00);
    }
    __device__ void set_limit(T absolute) {
        constexpr Format f = format_of(Pair::DTYPE_A);
        // Smaller differences are exact, being multiples of this.
        const T unit = Pair::INTEGERS ? 1 : Real<T>::power(1 - f.bias - (i32)f.mantissa_bits);
        // The least that is unsure; of larger differences also what is as large, which may have been rounded down.
        const u32 h = down(absolute);
        exact = h == 0 || absolute < 2048 * unit;
        limit = both(exact ? h + 1 : h);
    }
    // Returns whether the row is sure. `largest` is at least its largest reference.
    __device__ bool count(u32 &mismatches, u32 largest, const typename Pair::Raw &raw) const {
        // From 512 each: the sum of both has the number of mismatches for its last bits.
        u32 found = both(0x6000), most = 0, least = both(0x7c00);
#pragma unroll
        for (int i = 0; i < 2 * Pair::WORDS_A; i++) {
            const u32 r = Pair::template halves<Pair::DTYPE_A>(raw.r[i / 2], i % 2, magic), d = Words::magnitude(Words::minus(Pair::template halves<Pair::DTYPE_A>(raw.a[i / 2], i % 2, magic), r));
            const u32 beyond = Words::minus(d, Words::fused(rtol, r & 0x7fff7fffu, atol));
            found = Words::plus(found, Words::above(beyond, 0));
            most = Words::larger_or_nan(most, d);
            Words::lower(least, beyond);
        }
        mismatches = (Words::plus(found, found >> 16) & 0xffff) - 0x6400;
        if (Words::any_reaches(Words::fused(width_rtol, largest, width_atol), least)) return false;
        return !Words::any_reaches(most, limit) || (!exact && !surpasses(raw));
    }
    // Whether a row that reaches the limit surpasses what is known: by more, or by what was rounded away.
    __device__ bool surpasses(const typename Pair::Raw &raw) const {
        u32 bad = 0;
#pragma unroll
        for (int i = 0; i < 2 * Pair::WORDS_A; i++) {
            const u32 a = Pair::template halves<Pair::DTYPE_A>(raw.a[i / 2], i % 2, magic), r = Pair::template halves<Pair::DTYPE_A>(raw.r[i / 2], i % 2, magic), d = Words::minus(a, r);
            const u32 equal = ~Words::differ(Words::magnitude(d), limit), below = Words::above(limit, Words::magnitude(d));
            // Of the larger operand a rounded difference takes away something else than the smaller.
            const u32 rounded = Words::differ(Words::minus(a, d), r) | Words::differ(Words::plus(d, r), a);
            bad |= (equal & rounded) | ~(equal | Words::differ(below, 0));
        }
        return bad != 0;
    }
};
#endif
