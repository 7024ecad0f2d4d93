// Pairs of formats known at compile time, dense and aligned to 16 bytes: the fast paths of the comparison.
#pragma once
#include "two.h"
#include "verify_end.h"
#include "verify_screen.h"
#include "verify_sums.h"

#if defined(__CUDACC__)
__device__ inline uint4 load16(const u8 *at) { return __ldcs((const uint4 *)at); }
#else
typedef u32 Words4 __attribute__((ext_vector_type(4)));
__device__ inline uint4 load16(const u8 *at) {
    const Words4 x = __builtin_nontemporal_load((const Words4 *)at);
    return make_uint4(x.x, x.y, x.z, x.w);
}
#endif

// The place of a pattern in the order of its format.
template <u32 DTYPE> __device__ inline i64 ordinal(u64 bits) {
    constexpr Format f = format_of(DTYPE);
    if constexpr (f.specials == INTEGER) return decode_int(f, bits);
    else if constexpr (f.specials == E8M0) return (i64)(bits & 0xff);
    else if constexpr (DTYPE == F64) {
        const i64 magnitude = (i64)(bits & 0x7fffffffffffffffull);
        return bits >> 63 ? -magnitude : magnitude;
    } else {
        constexpr u32 width = f.exponent_bits + f.mantissa_bits;
        const u32 word = (u32)bits >> f.pad_bits;
        const i32 magnitude = (i32)(word & ((1u << width) - 1));
        return word >> width & 1 ? -magnitude : magnitude;
    }
}

// The pattern nearest to a finite value, saturating.
template <u32 DTYPE, typename T> __device__ inline u64 nearest(T x) {
    if constexpr (sizeof(T) == 8) return encode_from_f64<DTYPE>(x);
    else if constexpr (DTYPE == F16) {
        const u32 bits = f32_to_f16(x);
        return (bits & 0x7fff) == 0x7c00 ? bits - 1 : bits;
    } else if constexpr (DTYPE == BF16) {
        const u32 bits = encode_in_range<BF16>(x);
        return (bits & 0x7fff) == 0x7f80 ? bits - 1 : bits;
    } else return encode_from_f32<DTYPE>(x);
}

template <bool WIDE> struct Either { typedef float type; };
template <> struct Either<true> { typedef double type; };

__host__ __device__ constexpr bool narrow(u32 dtype) { return format_of(dtype).exponent_bits < 8; }

// A pair of formats: how elements are loaded and decoded.
template <u32 A, u32 R> struct Dense {
    static constexpr u32 BITS_A = format_of(A).bits, BITS_R = format_of(R).bits;
    static constexpr bool WIDE = A == F64 || R == F64;
    static constexpr bool EXACT_INTEGERS = false;
    static constexpr bool INTEGERS = format_of(A).specials == INTEGER, SAME = A == R;
    // Whether squares of differences and references neither vanish nor overflow in the arithmetic.
    static constexpr bool SQUARES_FIT = narrow(A) && narrow(R);
    static constexpr bool PACKED = SAME && (A == F16 || A == BF16);
    static constexpr u32 DTYPE_A = A;
    enum { V = 128 / (BITS_A < BITS_R ? BITS_A : BITS_R), WORDS_A = V * BITS_A / 32, WORDS_R = V * BITS_R / 32 };
    typedef typename Either<WIDE>::type Number;
    // What one thread loads at once: V elements of both tensors.
    struct Raw { u32 a[WORDS_A], r[WORDS_R]; };

    template <int WORDS> static __device__ void words(u32 (&out)[WORDS], const u8 *at) {
#pragma unroll
        for (int i = 0; i < WORDS; i += 4) {
            const uint4 x = load16(at + 4 * i);
            out[i] = x.x, out[i + 1] = x.y, out[i + 2] = x.z, out[i + 3] = x.w;
        }
    }
    // Element after element: only the last load of a tensor is not whole.
    template <u32 DTYPE, int WORDS> static __device__ void some(u32 (&out)[WORDS], const u8 *base, u64 index, u64 n) {
        constexpr u32 bits = format_of(DTYPE).bits;
#pragma unroll
        for (int i = 0; i < WORDS; i++) out[i] = 0;
#pragma unroll 1
        for (u32 v = 0; v < V && index + v < n; v++) {
            const u64 x = one<DTYPE>(base, index + v);
#pragma unroll
            for (u32 i = 0; i < WORDS; i++) {
                if constexpr (bits == 64) out[i] |= i / 2 == v ? (u32)(x >> (i % 2 * 32)) : 0;
                else out[i] |= i == v * bits / 32 ? (u32)x << (v * bits % 32) : 0;
            }
        }
    }
    // One element of memory.
    template <u32 DTYPE> static __device__ u64 one(const u8 *base, u64 index) {
        constexpr u32 bits = format_of(DTYPE).bits;
        if constexpr (bits == 64) return ((const u64 *)base)[index];
        else if constexpr (bits == 32) return ((const u32 *)base)[index];
        else if constexpr (bits == 16) return ((const u16 *)base)[index];
        else if constexpr (bits == 8) return base[index];
        else return base[index / 2] >> (4 * (index % 2)) & 0xf;
    }
    // One element of a load, known at compile time or not.
    template <u32 DTYPE, int WORDS> static __device__ u64 pick(const u32 (&words)[WORDS], u32 v) {
        constexpr u32 bits = format_of(DTYPE).bits;
        if constexpr (bits == 64) return word(words, 2 * v) | (u64)word(words, 2 * v + 1) << 32;
        else if constexpr (bits == 32) return word(words, v);
        else return word(words, v * bits / 32) >> (v * bits % 32) & ((1u << bits) - 1);
    }
    // Selects instead of an index that is not known: registers have no addresses.
    template <int WORDS> static __device__ u32 word(const u32 (&words)[WORDS], u32 at) {
        u32 x = words[0];
#pragma unroll
        for (u32 i = 1; i < WORDS; i++) x = at == i ? words[i] : x;
        return x;
    }
    // The number of one element of a load.
    template <u32 DTYPE, int WORDS> static __device__ Number number(const u32 (&words)[WORDS], u32 v) {
#if defined(__CUDA_ARCH__)
        // Bytes by what NVIDIA has for them: the same numbers.
        if constexpr (DTYPE == I8 || DTYPE == U8) {
            // A byte becomes the last of the fraction of 2^23; for signed ones 128 is added first.
            const u32 w = word(words, v / 4) ^ (DTYPE == I8 ? 0x80808080u : 0);
            return f32_of(__byte_perm(w, 0x4b000000u, 0x7650 + v % 4)) - (DTYPE == I8 ? 8388736.0f : 8388608.0f);
        }
        if constexpr (DTYPE == BF16) {
            // Opaque: where its exponent serves as an address, compilers would begin again with the word.
            float x = f32_of(v % 2 ? word(words, v / 2) & 0xffff0000u : word(words, v / 2) << 16);
            asm("" : "+f"(x));
            return x;
        }
        if constexpr (DTYPE == F8E5M2) {
            const u32 halves = __byte_perm(word(words, v / 4), 0, v & 2 ? 0x3424 : 0x1404);
            return f16_to_f32(v & 1 ? halves >> 16 : halves & 0xffff);
        }
#if __CUDA_ARCH__ >= 890
        if constexpr (DTYPE == F8E4M3) {
            u32 halves;
            asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"((u16)(word(words, v / 4) >> (v & 2) * 8)));
            return f16_to_f32(v & 1 ? halves >> 16 : halves & 0xffff);
        }
#endif
#endif
        return decode<DTYPE>(pick<DTYPE>(words, v));
    }
    template <u32 DTYPE> static __device__ Number decode(u64 bits) {
        if constexpr (WIDE) return decode_to_f64<DTYPE>(bits);
        else return decode_to_f32<DTYPE>(bits);
    }

    // V elements from `index`; with `inside` they are all there, else those below n count and the others are zeros.
    static __device__ Raw load(const VerifyParams &p, u64 index, bool inside) {
        Raw raw;
        if (inside) {
            words(raw.a, p.a + index * BITS_A / 8);
            words(raw.r, p.r + index * BITS_R / 8);
        } else {
            some<A>(raw.a, p.a, index, p.n);
            some<R>(raw.r, p.r, index, p.n);
        }
        return raw;
    }
    static __device__ Number result(const Raw &raw, int v) { return number<A>(raw.a, v); }
    static __device__ Number reference(const Raw &raw, int v) { return number<R>(raw.r, v); }
    static __device__ u64 distance(const Raw &raw, u32 v) {
        const u64 r = pick<R>(raw.r, v);
        const i64 x = ordinal<A>(pick<A>(raw.a, v)), y = ordinal<A>(SAME ? r : nearest<A>(decode<R>(r)));
        return x > y ? (u64)(x - y) : (u64)(y - x);
    }
    static __device__ u64 bits_a(const VerifyParams &p, u64 index) { return one<A>(p.a, index); }
    static __device__ u64 bits_r(const VerifyParams &p, u64 index) { return one<R>(p.r, index); }
    static __device__ Number decode_a(const VerifyParams &, u64 bits) { return decode<A>(bits); }
    static __device__ Number decode_r(const VerifyParams &, u64 bits) { return decode<R>(bits); }

    // The result's format as a row of numbers from zero up.
    static __device__ u64 largest_ordinal() { return largest_of(format_of(A)); }
    static __device__ u64 ordinal_of(Number x) { return (u64)ordinal<A>(nearest<A>(x)); }
    static __device__ Number value_of(u64 place) { return decode<A>(place << format_of(A).pad_bits); }
    // The distance of a reference to the next in its format.
    static __device__ Number spacing(Number r) {
        constexpr Format f = format_of(R);
        constexpr i32 lowest = 1 - f.bias;
        const i32 e = Real<Number>::exponent(r);
        return (Number)pow2((e < lowest ? lowest : e) - (i32)f.mantissa_bits);
    }
};

// Visits one finite element of every thread of a group that wants to, element v of its load: raises what is known.
template <class Pair, bool ALL>
__device__ inline void visit(const VerifyParams &p, Shared &s, const Rule<typename Pair::Number> &rule, u64 segment, u64 index, const typename Pair::Raw &raw, u32 v, bool wanted) {
    typedef typename Pair::Number T;
    double value[MEASURES] = {0, 0, 0, 0, 0, 0}, hint[2] = {0, 0};
    if (wanted) {
        const T r = Pair::reference(raw, v), d = Real<T>::abs(Pair::result(raw, v) - r), m = Real<T>::abs(r);
        if constexpr (ALL) {
            measure<T>(p, rule, d, m, Pair::distance(raw, v), value);
            hints<T>(p, s, rule, d, m, hint);
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
// not finite.
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
        finite &= d <= Real<T>::max();
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
    // No more than x / y, and not much less where that matters.
    static __device__ T at_least(T x, T y) {
        const float divisor = (float)y;
        const T q = x * (T)(reciprocal(divisor) * (1 - 1e-6f));
        return divisor > 1e-36f ? Real<T>::smaller(q, Real<T>::max()) : 0;
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
            // No tolerance below these passes, whatever the rounding.
            const T less = d * (T)(1 - 1e-6);
            hint[0] = Real<T>::larger(hint[0], at_least(less - rule.atol, m));
            hint[1] = Real<T>::larger(hint[1], Real<T>::fused(-rule.rtol, m, less) * (T)(1 - 1e-6));
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

// Glances at the first rows of a group's first segment; at all if that is all it has.
template <class Pair, bool ALL> __device__ inline void look_ahead(const VerifyParams &p, Shared &s, u64 segment, u64 index, bool only) {
    typedef typename Pair::Number T;
    enum { AT_ONCE = Pair::V < 8 ? 8 / Pair::V : 1 };
    const Rule<T> rule(p);
    Glance<Pair> glance;
#pragma unroll 1
    for (u32 row = 0; row < (only ? ROWS : AT_ONCE) && index - threadIdx.x % GROUP * Pair::V < p.n; row += AT_ONCE) {
        typename Pair::Raw raws[AT_ONCE];
#pragma unroll
        for (u32 i = 0; i < AT_ONCE; i++, index += GROUP * Pair::V) raws[i] = Pair::load(p, index, index + Pair::V <= p.n);
#pragma unroll
        for (u32 i = 0; i < AT_ONCE; i++) glance.template take<ALL>(p, rule, raws[i]);
    }
    glance.template tell<ALL>(p, s, segment + 1);
}

// The sums of a column again, from memory, with accumulators in S: without what is not finite, or with more range.
template <class Pair, typename S> __device__ inline Column<S, Pair::V> sum_again(const VerifyParams &p, u64 index) {
    typedef typename Pair::Number T;
    enum { V = Pair::V };
    Column<S, V> sums;
    sums.clear();
#pragma unroll 1
    for (u32 row = 0; row < ROWS; row++, index += GROUP * V) {
        const typename Pair::Raw raw = Pair::load(p, index, index + V <= p.n);
        S d[V], r[V];
#pragma unroll
        for (int v = 0; v < V; v++) {
            const T x = Pair::result(raw, v), y = Pair::reference(raw, v);
            const bool finite = is_finite(x) && is_finite(y);
            d[v] = finite ? (S)(x - y) : 0;
            r[v] = finite ? (S)y : 0;
        }
        sums.add(d, r);
    }
    return sums;
}

// Exchanges what is known with the other blocks: a thread a measure. What others know was read early and may be old.
struct Exchange {
    u64 theirs;
    __device__ bool mine() const { return threadIdx.x < MEASURES + 2; }
    __device__ u64 *here(Shared &s) const { return threadIdx.x < MEASURES ? &s.keys[threadIdx.x] : &s.hints[threadIdx.x - MEASURES]; }
    __device__ u64 *there(VerifyWorkspace &w) const { return threadIdx.x < MEASURES ? &w.keys[threadIdx.x] : &w.hints[threadIdx.x - MEASURES]; }
    __device__ void ask(VerifyWorkspace &w) {
        if (mine()) theirs = *(volatile u64 *)there(w);
    }
    __device__ void settle(Shared &s, VerifyWorkspace &w) {
        if (!mine()) return;
        forget();
        const u64 ours = *here(s);
        if (theirs > ours) {
            atomicMax(here(s), theirs);
            atomicOr(&s.raised, 1u);
        } else if (ours > theirs) atomicMax(there(w), ours);
    }
};

// Adds 1 where x > y, both finite: the sign of their difference is exact.
template <typename T> __device__ inline void count_above(u32 &count, T x, T y) { count += sign_of(y - x); }

// The largest magnitudes of finite elements. 16-bit pairs are kept two at a time, as patterns.
template <class Pair, bool PACKED> struct Extent {
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
template <class Pair> struct Extent<Pair, true> {
    typedef typename Pair::Number T;
    typedef Two<Pair::DTYPE_A> Words;
    u32 a = 0, r = 0;
    __device__ void raise(const typename Pair::Raw &raw) {
#pragma unroll
        for (int i = 0; i < Pair::WORDS_A; i++) Words::raise(a, raw.a[i]), Words::raise(r, raw.r[i]);
    }
    static __device__ T larger(u32 most) { return Pair::value_of(most >> 16 > (most & 0xffff) ? most >> 16 : most & 0xffff); }
    __device__ T largest_a() const { return larger(a); }
    __device__ T largest_r() const { return larger(r); }
};

// Results that are zero, and references that are or for which a zero result would pass: few rows have some. No reference above `gate`
// is one.
template <class Pair, bool PACKED> struct Small {
    typedef typename Pair::Number T;
    T gate;
    __device__ explicit Small(const Rule<T> &rule) : gate(rule.rtol < (T)0.99 ? rule.atol / (1 - rule.rtol) * (T)(1 + 1e-5) + Real<T>::tiny() : Real<T>::max()) {}
    __device__ bool any(const typename Pair::Raw &raw) const {
        T a = Real<T>::max(), r = Real<T>::max();
#pragma unroll
        for (int v = 0; v < Pair::V; v++) {
            a = Real<T>::smaller(a, Real<T>::abs(Pair::result(raw, v)));
            r = Real<T>::smaller(r, Real<T>::abs(Pair::reference(raw, v)));
        }
        return a == 0 || r <= gate;
    }
    __device__ void count(Tally<T> &tally, const Rule<T> &rule, const typename Pair::Raw &raw) const {
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
    typedef Two<Pair::DTYPE_A> Words;
    u32 gate;
    bool exact; // references pass up to the gate and no further
    __device__ explicit Small(const Rule<T> &rule) : exact(rule.rtol < (T)0.99) {
        const Small<Pair, false> wide(rule);
        gate = (u32)Pair::ordinal_of(wide.gate);
        // Of numbers as far apart as these none passes above one that does not: passing takes m * (1 - rtol) <= atol.
        while (exact && gate > 0 && !(Pair::value_of(gate) <= rule.bound(Pair::value_of(gate)))) gate -= 1;
    }
    __device__ bool any(const typename Pair::Raw &raw) const {
        u32 a = (u32)Pair::largest_ordinal() * 0x10001u, r = a;
#pragma unroll
        for (int i = 0; i < Pair::WORDS_A; i++) Words::lower(a, raw.a[i]), Words::lower(r, raw.r[i]);
        return (a & 0xffff) == 0 || a >> 16 == 0 || (r & 0xffff) <= gate || r >> 16 <= gate;
    }
    __device__ void count(Tally<T> &tally, const Rule<T> &rule, const typename Pair::Raw &raw) const {
        static_assert(Pair::WORDS_A <= 16, "a bit of each half for every word");
        u32 a = 0, r = 0, passes = 0;
#pragma unroll
        for (int i = 0; i < Pair::WORDS_A; i++) {
            const u32 bit = 0x10001u << i;
            a |= Words::up_to(raw.a[i], 0) & bit;
            r |= Words::up_to(raw.r[i], 0) & bit;
            passes |= Words::up_to(raw.r[i], gate * 0x10001u) & bit;
        }
        tally.zeros_a += __popc(a);
        tally.zeros_r += __popc(r);
        if (exact) tally.zero_passes += __popc(passes);
        else {
#pragma unroll
            for (int v = 0; v < Pair::V; v++) {
                const T m = Real<T>::abs(Pair::reference(raw, v));
                tally.zero_passes += m <= rule.bound(m);
            }
        }
    }
};

// The thread's group, where a wavefront is one in a register that all its threads share.
__device__ inline u32 group_of(u32 thread) {
#if defined(__CUDACC__)
    return __shfl(thread / GROUP, 0);
#else
    return thread / GROUP;
#endif
}

// The rows of a group on their way from memory, two batches of rows.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
// Copied to shared memory by the processor's copy engine, a batch at a time: rows follow each other in memory. Comparing keeps its
// registers, and one thread asks for all.
template <class Pair, u32 THREADS> struct Pipe {
    enum { GROUPS = THREADS / GROUP, ROW_A = GROUP * Pair::V * Pair::BITS_A / 8, ROW_R = GROUP * Pair::V * Pair::BITS_R / 8 };
    // Together with the rest less than the 48 KiB that a block has without asking, and enough to keep memory busy.
    enum { FIT = 32768 / (2 * GROUPS * (ROW_A + ROW_R)), BATCH = FIT >= 4 ? 4 : FIT >= 2 ? 2 : 1, BYTES = BATCH * (ROW_A + ROW_R) };
    struct alignas(128) Space { u8 rows[GROUPS][2][BYTES]; u64 barriers[GROUPS][2]; };
    u32 rows, barriers; // addresses of this group's in shared memory
    u32 turn;           // how many batches were taken, less one
    __device__ Pipe(Space &space, u32 group) : turn(~0u) {
        rows = (u32)__cvta_generic_to_shared(space.rows[group]);
        barriers = (u32)__cvta_generic_to_shared(space.barriers[group]);
        if (threadIdx.x % GROUP == 0)
#pragma unroll
            for (u32 i = 0; i < 2; i++) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barriers + 8 * i) : "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncwarp();
    }
    // Asks for the batch after the next, whose rows begin at `index`. All threads of the group.
    __device__ void ask(u64 index, const VerifyParams &p) {
        const u32 place = (turn + 1) & 1, to = rows + place * BYTES, barrier = barriers + 8 * place, lane = threadIdx.x % GROUP;
        // Nobody reads the batch before last any more.
        __syncwarp();
        if (index + BATCH * GROUP * Pair::V <= p.n) {
            // One thread that the compiler knows to be one.
            asm volatile("{\n\t.reg .pred p;\n\telect.sync _|p, 0xffffffff;\n\t"
                         "@p mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n\t"
                         "@p cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%2], [%3], %4, [%0];\n\t"
                         "@p cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%5], [%6], %7, [%0];\n\t}" ::"r"(barrier),
                         "r"((u32)BYTES), "r"(to), "l"(p.a + index * Pair::BITS_A / 8), "r"((u32)(BATCH * ROW_A)), "r"(to + BATCH * ROW_A), "l"(p.r + index * Pair::BITS_R / 8),
                         "r"((u32)(BATCH * ROW_R))
                         : "memory");
        } else if (index < p.n) {
            // All but one thread have whole loads, or nothing. Unrolled, so that they are under way together.
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
    enum { BATCH = 1 };
    struct Space {};
    typename Pair::Raw now, later;
    __device__ Pipe(Space &, u32) {}
    __device__ void ask(u64 index, const VerifyParams &p) {
        now = later;
        const u64 mine = index + threadIdx.x % GROUP * Pair::V;
        later = Pair::load(p, mine, mine + Pair::V <= p.n);
    }
    __device__ void next() {}
    __device__ void wait() {}
    __device__ typename Pair::Raw take(u32) { return now; }
};
#endif

// The comparison of two dense tensors aligned to 16 bytes, by blocks of up to THREADS.
template <class Pair, bool ALL, u32 THREADS> __device__ inline void verify(const VerifyParams &p) {
    typedef typename Pair::Number T;
    typedef typename Pair::Raw Raw;
    typedef Pipe<Pair, THREADS> Rows;
    enum { V = Pair::V, ROW = GROUP * V, SEGMENT = ROWS * ROW, BATCH = Rows::BATCH, BATCHES = ROWS / BATCH, PATIENCE = 4 };
    // Rows that are compared together: few elements leave an instruction waiting for the one before.
    enum { AT_ONCE = BATCH > 1 && V <= 8 ? 2 : 1 };
    __shared__ Shared s;
    __shared__ typename Rows::Space space;
    Rule<T> rule(p);
    rule.keep();
    VerifyWorkspace &w = *p.workspace;
    const u32 groups = blockDim.x / GROUP, group = group_of(threadIdx.x), column = threadIdx.x % GROUP, chunk = 1u << p.chunk_log;
    const u64 segments = (p.n + SEGMENT - 1) / SEGMENT, stride = (u64)gridDim.x * groups << p.chunk_log;
    u64 first = (u64)blockIdx.x * groups << p.chunk_log;
    Rows rows(space, group);
    // Where the batch begins that is asked for next.
    u64 ahead = (first + group * chunk) * SEGMENT;
    u32 togo = chunk * BATCHES;
    auto ask = [&] {
        rows.ask(ahead, p);
        ahead += BATCH * ROW;
        if (--togo == 0) ahead += (stride - chunk) * SEGMENT, togo = chunk * BATCHES;
    };
    ask();
    begin(s);
    Tally<T> tally;
    tally.clear();
    Small<Pair, Pair::PACKED> small(rule);
    Extent<Pair, Pair::PACKED> extent;
    Exchange exchange;
    exchange.ask(w);
    look_ahead<Pair, ALL>(p, s, first + group * chunk, (first + group * chunk) * SEGMENT + column * V, chunk == 1 && stride >= segments);
    __syncthreads();
    exchange.settle(s, w);
    // Many blocks have begun at once and looked at as many elements: worth a moment.
    if (gridDim.x > 64) {
        __threadfence();
        exchange.ask(w);
        exchange.settle(s, w);
    }
    if (ALL) screen<Pair>(p, s, first, true);
    else __syncthreads();
    // Segments that the group has been through.
    u32 turn = 0;
    for (; first < segments; first += stride)
#pragma unroll 1
        for (u32 part = 0; part < chunk; part++, turn++) {
            // Whether the table is worth writing again: asked at times that are known to all, ever more seldom.
            if (ALL && turn > 0 && ((turn & (turn - 1)) == 0 || turn % 64 == 0)) {
                __syncthreads();
                if (threadIdx.x == 0) s.rewrite = s.raised && s.hot > PATIENCE * groups, s.hot = 0;
                __syncthreads();
                if (s.rewrite) screen<Pair>(p, s, first + part, false);
            }
            exchange.ask(w);
            const u64 segment = first + group * chunk + part, begins = segment * SEGMENT;
            if (first + group * chunk < segments) {
                const u32 left = p.n > begins ? (u32)(p.n - begins < SEGMENT ? p.n - begins : SEGMENT) : 0, batches = (left + BATCH * ROW - 1) / (BATCH * ROW);
                T absolute = 0;
                Column<T, V> sums;
                sums.clear();
                bool gaps = false;
                tally.mismatches = 0;
#pragma unroll 1
                for (u32 batch = 0; batch < batches; batch++) {
                    rows.next();
                    ask();
                    rows.wait();
                    if (!ALL) {
                        Limits<T> limits;
                        limits.take_absolute(s, segment);
                        absolute = limits.absolute;
                    }
#pragma unroll 1
                    for (u32 k = 0; k < BATCH; k += AT_ONCE) {
                        const u32 row = batch * BATCH + k;
                        // Rows that are not all there are looked at closely.
                        const bool cut = (row + AT_ONCE) * ROW > left;
                        const Extent<Pair, Pair::PACKED> extent_before = extent;
                        const Tally<T> tally_before = tally;
                        bool hot[AT_ONCE];
#pragma unroll
                        for (u32 j = 0; j < AT_ONCE; j++) {
                            const Raw raw = rows.take(k + j);
                            // Signs go where they are used: instructions take magnitudes.
                            T d[V], r[V];
                            hot[j] = cut;
#pragma unroll
                            for (int v = 0; v < V; v++) {
                                r[v] = Pair::reference(raw, v);
                                d[v] = Pair::result(raw, v) - r[v];
                                hot[j] |= above<Pair, ALL>((const char *)s.space, absolute, r[v], Real<T>::abs(d[v]));
                                count_above(tally.mismatches, Real<T>::abs(d[v]), Real<T>::fused(rule.rtol, Real<T>::abs(r[v]), rule.atol));
                            }
                            if (ALL) sums.add(d, r);
                            extent.raise(raw);
                            if (ALL && small.any(raw)) small.count(tally, rule, raw);
                        }
                        u32 hots = 0;
#pragma unroll
                        for (u32 j = 0; j < AT_ONCE; j++) hots |= hot[j] ? 1u << j : 0;
                        if (__any(hots)) {
                            if (ALL && column == 0) atomicAdd(&s.hot, 1u);
                            bool fine = !cut;
#pragma unroll 1
                            for (u32 j = 0; j < AT_ONCE && fine; j++)
                                if (__any(hots >> j & 1)) fine = look<Pair, ALL>(p, s, absolute, segment, begins + (row + j) * ROW + column * V, rows.take(k + j));
                            if (!fine) {
                                // Counted again, and what was added may have spoilt the sums.
                                extent = extent_before;
                                tally = tally_before;
                                gaps = true;
#pragma unroll 1
                                for (u32 j = 0; j < AT_ONCE; j++)
                                    tally.add(look_closely<Pair, ALL>(p, s, segment, begins + (row + j) * ROW + column * V, rows.take(k + j)));
                            }
                        }
                    }
                }
                double totals[4] = {0, 0, 0, 0};
                if constexpr (ALL) {
                    if (gaps) sums = sum_again<Pair, T>(p, begins + column * V);
                    if (Pair::SQUARES_FIT || group_all(sums.precise())) sums.totals(totals);
                    else sum_again<Pair, double>(p, begins + column * V).totals(totals);
                }
                join<ALL>(p, s, segment, segments, part, tally.mismatches, totals);
            }
            exchange.settle(s, w);
        }
    __syncthreads();
    tally.largest_a = Real<T>::larger(tally.largest_a, extent.largest_a());
    tally.largest_r = Real<T>::larger(tally.largest_r, extent.largest_r());
    tally_up(s, tally);
    join_bests(s);
    finish<Pair, ALL>(p, s, SEGMENT, segments);
}

// The kernels of a pair: verify_<name>_counts and verify_<name>_all. The second number asks NVIDIA's compiler for so many blocks a
// processor; AMD's reads it otherwise.
#if defined(__CUDACC__)
#define BOUNDS(threads, blocks) __launch_bounds__(threads, blocks)
#else
#define BOUNDS(threads, blocks) __launch_bounds__(threads)
#endif
#define VERIFY(name, A, R)                                                                                                          \
    extern "C" __global__ void BOUNDS(128, (format_of(A).bits == 8 ? 4 : 5)) verify_##name##_counts(VerifyParams p) { verify<Dense<A, R>, false, 128>(p); } \
    extern "C" __global__ void BOUNDS(128, 4) verify_##name##_all(VerifyParams p) { verify<Dense<A, R>, true, 128>(p); }
