// Pairs of formats known at compile time, dense and aligned to 16 bytes: the fast paths of the comparison.
#pragma once
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

// A row in which an element may exceed what is known: visits those that do.
template <class Pair, bool ALL>
__device__ inline void look(const VerifyParams &p, Shared &s, typename Pair::Number absolute, u64 segment, u64 index, typename Pair::Raw raw) {
    typedef typename Pair::Number T;
    const Rule<T> rule(p);
    u32 pending = 0;
    T most = 0;
#pragma unroll
    for (int v = 0; v < Pair::V; v++) {
        const T r = Pair::reference(raw, v), d = Real<T>::abs(Pair::result(raw, v) - r);
        const bool hot = above<Pair, ALL>((const char *)s.space, absolute, r, d);
        if constexpr (ALL) pending |= hot ? 1u << v : 0;
        else if (hot && d > most) {
            // Of one measure the first of the largest is enough.
            most = d;
            pending = 1u << v;
        }
    }
    const Limits<T> &limits = *(const Limits<T> *)s.limits;
    static_assert(sizeof(Limits<T>) <= sizeof(s.limits), "the limits fit");
#pragma unroll 1
    while (__any(pending != 0)) {
        const u32 v = pending ? (u32)__ffs((int)pending) - 1 : 0;
        const T r = Pair::reference(raw, v), d = Real<T>::abs(Pair::result(raw, v) - r);
        bool wanted = pending != 0;
        if constexpr (ALL) wanted = wanted && limits.may_exceed(p, rule, d, Real<T>::abs(r), [&] { return Pair::distance(raw, v); });
        if (__any(wanted)) visit<Pair, ALL>(p, s, rule, segment, index, raw, v, wanted);
        pending &= pending - 1;
    }
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

// A first element of every thread, so that the first rows are screened already. That its place lies in the next segment is a lie
// that makes equal values before it count.
template <class Pair> __device__ inline void look_ahead(const VerifyParams &p, Shared &s, u64 segment, u64 index) {
    typedef typename Pair::Number T;
    const typename Pair::Raw raw = Pair::load(p, index, index + Pair::V <= p.n);
    const T a = Pair::result(raw, 0), r = Pair::reference(raw, 0);
    const bool wanted = index < p.n && is_finite(a) && is_finite(r) && a != r;
    visit<Pair, true>(p, s, Rule<T>(p), segment + 1, index, raw, 0, wanted);
}

// The sums of a segment that f32 has no range for.
struct Totals { double of[4]; };
template <class Pair> __device__ inline Totals sum_widely(const VerifyParams &p, u64 first) {
    typedef typename Pair::Number T;
    Totals totals;
    sum_column<double>(first, GROUP * Pair::V, Pair::V, totals.of, [&](u64 index, double &d, double &m) {
        if (index >= p.n) return;
        const T a = Pair::decode_a(p, Pair::bits_a(p, index)), r = Pair::decode_r(p, Pair::bits_r(p, index));
        if (is_finite(a) && is_finite(r)) d = (double)Real<T>::abs(a - r), m = (double)Real<T>::abs(r);
    });
    return totals;
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

// Counts the zeros of a load, and the references that a zero result would pass for, none of which exceeds `limit`. Few are so small.
template <class Pair> __device__ inline void count_small(Tally<typename Pair::Number> &tally, const Rule<typename Pair::Number> &rule, typename Pair::Number limit, const typename Pair::Raw &raw) {
    typedef typename Pair::Number T;
    u32 pending = 0;
#pragma unroll
    for (int v = 0; v < Pair::V; v++) pending |= Pair::result(raw, v) == 0 || Real<T>::abs(Pair::reference(raw, v)) <= limit ? 1u << v : 0;
#pragma unroll 1
    for (; pending; pending &= pending - 1) {
        const u32 v = (u32)__ffs((int)pending) - 1;
        const T m = Real<T>::abs(Pair::reference(raw, v));
        tally.zero_passes += m <= rule.bound(m);
        tally.zeros_a += Pair::result(raw, v) == 0;
        tally.zeros_r += m == 0;
    }
}

// Adds 1 where x > y.
template <typename T> __device__ inline void count_above(u32 &count, T x, T y) {
#if defined(__CUDACC__)
    // Without a select between the count and its successor, which the compiler would make of it.
    if constexpr (sizeof(T) == 4) asm("{\n\t.reg .pred p;\n\tsetp.gt.f32 p, %1, %2;\n\t@p add.u32 %0, %0, 1;\n\t}" : "+r"(count) : "f"(x), "f"(y));
    else asm("{\n\t.reg .pred p;\n\tsetp.gt.f64 p, %1, %2;\n\t@p add.u32 %0, %0, 1;\n\t}" : "+r"(count) : "d"(x), "d"(y));
#else
    count += x > y;
#endif
}

// Two 16-bit magnitudes in a word.
template <u32 DTYPE> struct Two {
#if defined(__CUDACC__)
    static __device__ void raise(u32 &most, u32 x) {
        if constexpr (DTYPE == F16) asm("{\n\t.reg .b32 t;\n\tabs.f16x2 t, %1;\n\tmax.f16x2 %0, %0, t;\n\t}" : "+r"(most) : "r"(x));
        else asm("{\n\t.reg .b32 t;\n\tabs.bf16x2 t, %1;\n\tmax.bf16x2 %0, %0, t;\n\t}" : "+r"(most) : "r"(x));
    }
    static __device__ void lower(u32 &least, u32 x) {
        if constexpr (DTYPE == F16) asm("{\n\t.reg .b32 t;\n\tabs.f16x2 t, %1;\n\tmin.f16x2 %0, %0, t;\n\t}" : "+r"(least) : "r"(x));
        else asm("{\n\t.reg .b32 t;\n\tabs.bf16x2 t, %1;\n\tmin.bf16x2 %0, %0, t;\n\t}" : "+r"(least) : "r"(x));
    }
#else
    // Magnitudes are ordered as their patterns.
    typedef u16 Vector __attribute__((ext_vector_type(2)));
    static __device__ Vector magnitudes(u32 x) { return __builtin_bit_cast(Vector, x & 0x7fff7fffu); }
    static __device__ void raise(u32 &most, u32 x) { most = __builtin_bit_cast(u32, __builtin_elementwise_max(__builtin_bit_cast(Vector, most), magnitudes(x))); }
    static __device__ void lower(u32 &least, u32 x) { least = __builtin_bit_cast(u32, __builtin_elementwise_min(__builtin_bit_cast(Vector, least), magnitudes(x))); }
#endif
};

// The largest magnitudes of finite elements, and whether a row has results that are zero or references that a zero result would pass
// for. 16-bit pairs are kept two at a time, as patterns.
template <class Pair, bool PACKED> struct Extent {
    typedef typename Pair::Number T;
    T a, r, gate;
    __device__ explicit Extent(T g) : a(0), r(0), gate(g) {}
    __device__ void raise(const typename Pair::Raw &raw) {
#pragma unroll
        for (int v = 0; v < Pair::V; v++) {
            a = Real<T>::larger(a, Real<T>::abs(Pair::result(raw, v)));
            r = Real<T>::larger(r, Real<T>::abs(Pair::reference(raw, v)));
        }
    }
    __device__ bool small(const typename Pair::Raw &raw) const {
        T a = Real<T>::max(), r = Real<T>::max();
#pragma unroll
        for (int v = 0; v < Pair::V; v++) {
            a = Real<T>::smaller(a, Real<T>::abs(Pair::result(raw, v)));
            r = Real<T>::smaller(r, Real<T>::abs(Pair::reference(raw, v)));
        }
        return a == 0 || r <= gate;
    }
    __device__ T limit() const { return gate; }
    __device__ T largest_a() const { return a; }
    __device__ T largest_r() const { return r; }
};
template <class Pair> struct Extent<Pair, true> {
    typedef typename Pair::Number T;
    typedef Two<Pair::DTYPE_A> Words;
    u32 a, r, gate;
    __device__ explicit Extent(T g) : a(0), r(0) {
        gate = (u32)Pair::ordinal_of(g);
        if (Pair::value_of(gate) > g) gate -= 1;
    }
    __device__ void raise(const typename Pair::Raw &raw) {
#pragma unroll
        for (int i = 0; i < Pair::WORDS_A; i++) Words::raise(a, raw.a[i]), Words::raise(r, raw.r[i]);
    }
    __device__ bool small(const typename Pair::Raw &raw) const {
        u32 a = (u32)Pair::largest_ordinal() * 0x10001u, r = a;
#pragma unroll
        for (int i = 0; i < Pair::WORDS_A; i++) Words::lower(a, raw.a[i]), Words::lower(r, raw.r[i]);
        return (a & 0xffff) == 0 || a >> 16 == 0 || (r & 0xffff) <= gate || r >> 16 <= gate;
    }
    __device__ T limit() const { return Pair::value_of(gate); }
    static __device__ T larger(u32 most) { return Pair::value_of(most >> 16 > (most & 0xffff) ? most >> 16 : most & 0xffff); }
    __device__ T largest_a() const { return larger(a); }
    __device__ T largest_r() const { return larger(r); }
};

// The thread's group, where a wavefront is one in a register that all its threads share.
__device__ inline u32 group_of(u32 thread) {
#if defined(__CUDACC__)
    return __shfl(thread / GROUP, 0);
#else
    return thread / GROUP;
#endif
}

// The rows of a group on their way from memory, a ring of batches of rows.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
// Copied to shared memory by the processor's copy engine, a batch at a time: rows follow each other in memory. Comparing keeps its
// registers, and one thread asks for all.
template <class Pair, u32 THREADS> struct Pipe {
    enum { GROUPS = THREADS / GROUP, ROW_A = GROUP * Pair::V * Pair::BITS_A / 8, ROW_R = GROUP * Pair::V * Pair::BITS_R / 8 };
    // Together with the rest less than the 48 KiB that a block has without asking, and enough to keep memory busy.
    enum { RING = 2, FIT = 32768 / (RING * GROUPS * (ROW_A + ROW_R)), BATCH = FIT >= 4 ? 4 : FIT >= 2 ? 2 : 1, BYTES = BATCH * (ROW_A + ROW_R) };
    struct alignas(128) Space { u8 rows[GROUPS][RING][BYTES]; u64 barriers[GROUPS][RING]; };
    u32 rows, barriers; // addresses of this group's in shared memory
    __device__ Pipe(Space &space, u32 group) {
        rows = (u32)__cvta_generic_to_shared(space.rows[group]);
        barriers = (u32)__cvta_generic_to_shared(space.barriers[group]);
        if (threadIdx.x % GROUP == 0)
#pragma unroll
            for (u32 i = 0; i < RING; i++) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barriers + 8 * i) : "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncwarp();
    }
    // Asks for a batch whose rows begin at `index`; `inside` says that they are all there. All threads of the group.
    __device__ void ask(u32 place, u64 index, bool inside, const VerifyParams &p) {
        const u32 to = rows + place * BYTES, barrier = barriers + 8 * place, lane = threadIdx.x % GROUP;
        // Nobody reads the batch before last any more.
        __syncwarp();
        if (inside) {
            if (lane == 0) {
                asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"((u32)BYTES) : "memory");
                copy(to, p.a + index * Pair::BITS_A / 8, BATCH * ROW_A, barrier);
                copy(to + BATCH * ROW_A, p.r + index * Pair::BITS_R / 8, BATCH * ROW_R, barrier);
            }
        } else {
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
    static __device__ void copy(u32 to, const u8 *from, u32 bytes, u32 barrier) {
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "l"(from), "r"(bytes), "r"(barrier) : "memory");
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
    // Waits until a batch is there. Places are used alternately, each an even number of times a segment, so that the batch tells
    // the phase of its barrier.
    __device__ void wait(u32 batch) {
        static_assert(ROWS / BATCH % (2 * RING) == 0, "a segment leaves barriers in the phase that it finds");
        const u32 place = batch % RING;
        asm volatile("{\n\t.reg .pred p;\n\tagain:\n\tmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n\t@!p bra again;\n\t}" ::"r"(barriers + 8 * place),
                     "r"(batch / RING & 1)
                     : "memory");
    }
    __device__ typename Pair::Raw take(u32 place, u32 row) {
        typename Pair::Raw raw;
        const u32 from = rows + place * BYTES, lane = threadIdx.x % GROUP;
        fetch(raw.a, from + row * ROW_A + lane * (ROW_A / GROUP));
        fetch(raw.r, from + BATCH * ROW_A + row * ROW_R + lane * (ROW_R / GROUP));
        return raw;
    }
};
#else
// In registers: a row is asked for while the one before is compared.
template <class Pair, u32 THREADS> struct Pipe {
    enum { BATCH = 1, RING = 2 };
    struct Space {};
    typename Pair::Raw now, next;
    __device__ Pipe(Space &, u32) {}
    __device__ void ask(u32, u64 index, bool inside, const VerifyParams &p) {
        now = next;
        const u64 mine = index + threadIdx.x % GROUP * Pair::V;
        next = Pair::load(p, mine, inside || mine + Pair::V <= p.n);
    }
    __device__ void wait(u32) {}
    __device__ typename Pair::Raw take(u32, u32) { return now; }
};
#endif

// The comparison of two dense tensors aligned to 16 bytes, by blocks of up to THREADS.
template <class Pair, bool ALL, u32 THREADS> __device__ inline void verify(const VerifyParams &p) {
    typedef typename Pair::Number T;
    typedef typename Pair::Raw Raw;
    typedef Pipe<Pair, THREADS> Rows;
    enum { V = Pair::V, ROW = GROUP * V, SEGMENT = ROWS * ROW, BATCH = Rows::BATCH, RING = Rows::RING, BATCHES = ROWS / BATCH, PATIENCE = 4 };
    // Rows that are compared together: few elements leave an instruction waiting for the one before.
    enum { AT_ONCE = BATCH > 1 && V <= (ALL ? 4 : 8) ? 2 : 1 };
    __shared__ Shared s;
    __shared__ typename Rows::Space space;
    Rule<T> rule(p);
    rule.keep();
    VerifyWorkspace &w = *p.workspace;
    const u32 groups = blockDim.x / GROUP, group = group_of(threadIdx.x), column = threadIdx.x % GROUP;
    const u64 segments = (p.n + SEGMENT - 1) / SEGMENT, works = (segments + groups - 1) / groups;
    Rows rows(space, group);
    // Where the batch begins that is asked for next.
    u64 ahead = ((u64)blockIdx.x * groups + group) * SEGMENT;
    bool ahead_whole = ahead + SEGMENT <= p.n;
    auto ask = [&](u32 batch) {
        rows.ask(batch % RING, ahead, ahead_whole, p);
        ahead += BATCH * ROW;
        if (batch == BATCHES - 1) {
            ahead += ((u64)gridDim.x * groups - 1) * SEGMENT;
            ahead_whole = ahead + SEGMENT <= p.n;
        }
    };
#pragma unroll
    for (u32 batch = 0; batch < RING - 1; batch++) ask(batch);
    begin(s);
    Tally<T> tally;
    tally.clear();
    // No number above it passes as a zero result would.
    Extent<Pair, Pair::PACKED> extent(rule.rtol < (T)0.99 ? rule.atol / (1 - rule.rtol) * (T)(1 + 1e-5) + Real<T>::tiny() : Real<T>::max());
    Exchange exchange;
    u64 work = blockIdx.x;
    if (ALL) {
        exchange.ask(w);
        look_ahead<Pair>(p, s, work * groups + group, (work * groups + group) * SEGMENT + column * V);
        __syncthreads();
        exchange.settle(s, w);
        // Many blocks have begun at once and looked at as many elements: worth a moment.
        if (gridDim.x > 64) {
            __threadfence();
            exchange.ask(w);
            exchange.settle(s, w);
        }
        screen<Pair>(p, s, work * groups);
    }
    u32 flip = 0, rewrite = 0;
    for (; work < works; work += gridDim.x, flip ^= 1) {
        const u64 segment = work * groups + group;
        const u64 left = segment * SEGMENT < p.n ? p.n - segment * SEGMENT : 0;
        const u32 batches = left >= SEGMENT ? BATCHES : ((u32)left + BATCH * ROW - 1) / (BATCH * ROW);
        const bool ragged = left < SEGMENT;
        if (ALL && rewrite) screen<Pair>(p, s, work * groups);
        exchange.ask(w);
        T absolute = 0;
        Column<T, V> sums;
        sums.clear();
        tally.mismatches = 0;
#pragma unroll 1
        for (u32 batch = 0; batch < BATCHES; batch++) {
            if (batch >= batches) break;
            ask((batch + RING - 1) % BATCHES);
            rows.wait(batch);
            if (!ALL) {
                Limits<T> limits;
                limits.take_absolute(s, segment);
                absolute = limits.absolute;
                // In the beginning everybody learns most from the others.
                if (work == blockIdx.x && gridDim.x > 64) {
                    exchange.settle(s, w);
                    exchange.ask(w);
                }
            }
#pragma unroll 1
            for (u32 k = 0; k < BATCH; k += AT_ONCE) {
                const u64 at = segment * SEGMENT + (batch * BATCH + k) * ROW + column * V;
                Raw raws[AT_ONCE];
                // Signs go where they are used: instructions take magnitudes.
                T d[AT_ONCE][V], r[AT_ONCE][V];
                // Rows that are not all there are looked at closely.
                const bool cut = ragged && (batch * BATCH + k + AT_ONCE) * ROW > (u32)left;
                bool hot = cut;
#pragma unroll
                for (u32 j = 0; j < AT_ONCE; j++) {
                    raws[j] = rows.take(batch % RING, k + j);
#pragma unroll
                    for (int v = 0; v < V; v++) {
                        r[j][v] = Pair::reference(raws[j], v);
                        d[j][v] = Pair::result(raws[j], v) - r[j][v];
                        hot |= above<Pair, ALL>((const char *)s.space, absolute, r[j][v], Real<T>::abs(d[j][v]));
                    }
                }
                if (__any(hot)) {
                    if (ALL && column == 0) atomicAdd(&s.hot, 1u);
                    bool odd = cut;
#pragma unroll
                    for (u32 j = 0; j < AT_ONCE; j++)
#pragma unroll
                        for (int v = 0; v < V; v++) odd |= !is_finite(d[j][v]);
                    if (__any(odd)) {
#pragma unroll 1
                        for (u32 j = 0; j < AT_ONCE; j++) {
                            const Raw raw = rows.take(batch % RING, k + j);
                            tally.add(look_closely<Pair, ALL>(p, s, segment, at + j * ROW, raw));
                            // What is not finite, or not there and so zero, adds nothing.
                            T x[V], y[V];
#pragma unroll
                            for (int v = 0; v < V; v++) {
                                const T a = Pair::result(raw, v);
                                y[v] = Pair::reference(raw, v);
                                x[v] = a - y[v];
                                if (!is_finite(a) || !is_finite(y[v])) x[v] = y[v] = 0;
                            }
                            if (ALL) sums.add(x, y);
                        }
                        continue;
                    }
#pragma unroll 1
                    for (u32 j = 0; j < AT_ONCE; j++) look<Pair, ALL>(p, s, absolute, segment, at + j * ROW, rows.take(batch % RING, k + j));
                }
                bool small = false;
#pragma unroll
                for (u32 j = 0; j < AT_ONCE; j++) {
                    if (ALL) sums.add(d[j], r[j]);
                    extent.raise(raws[j]);
                    if (ALL) small |= extent.small(raws[j]);
#pragma unroll
                    for (int v = 0; v < V; v++) count_above(tally.mismatches, Real<T>::abs(d[j][v]), Real<T>::fused(rule.rtol, Real<T>::abs(r[j][v]), rule.atol));
                }
                if (ALL && small) {
#pragma unroll 1
                    for (u32 j = 0; j < AT_ONCE; j++) count_small<Pair>(tally, rule, extent.limit(), rows.take(batch % RING, k + j));
                }
            }
        }
        exchange.settle(s, w);
        Totals totals = {{0, 0, 0, 0}};
        if constexpr (ALL) {
            if (Pair::SQUARES_FIT || group_all(sums.precise())) {
#pragma unroll
                for (int k = 0; k < 4; k++) totals.of[k] = sums.total(k);
            } else totals = sum_widely<Pair>(p, segment * SEGMENT + column * V);
        }
        // One thread says for all whether the table is worth writing again: groups go on at different times.
        if (ALL && threadIdx.x == 0) s.rewrite[flip] = atomicOr(&s.raised, 0u) && atomicAdd(&s.hot, 0u) > PATIENCE * groups;
        join<ALL>(p, s, segment, segments, work, flip, tally.mismatches, totals.of);
        if (ALL) rewrite = s.rewrite[flip];
    }
    tally.largest_a = Real<T>::larger(tally.largest_a, extent.largest_a());
    tally.largest_r = Real<T>::larger(tally.largest_r, extent.largest_r());
    tally_up(s, tally);
    join_bests(s);
    finish<Pair, ALL>(p, s, SEGMENT, segments, works);
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
    extern "C" __global__ void BOUNDS(256, 2) verify_##name##_all(VerifyParams p) { verify<Dense<A, R>, true, 256>(p); }
