// How a comparison goes through two tensors: the arithmetic of a pair, the way of a thread through a segment, and how it gets its next E pairs.
#pragma once
#include "verify/layout.h"
#include "verify/sums.h"

// N is what elements are decoded to, T what is computed with. A wide integer's difference is exact before it becomes a T.
struct InF32 { typedef float N, T; enum { E = 8 }; static constexpr bool EXACT = false; };
struct InF64 { typedef double N, T; enum { E = 4 }; static constexpr bool EXACT = false; };
struct InI64 { typedef i64 N; typedef double T; enum { E = 4 }; static constexpr bool EXACT = true; };

// An element of an array in registers, which have no addresses.
template <typename X, int E> __device__ inline X pick(const X (&x)[E], u32 at) {
    X y = x[0];
#pragma unroll
    for (u32 i = 1; i < E; i++) y = i == at ? x[i] : y;
    return y;
}

// A thread's way through its column of a segment, E elements at a time: parts of a row, or PIECES rows at once where a column has fewer.
template <int E, int PIECES> struct Walk {
    u32 row, parts, steps;
    u64 size; // elements of a segment
    __device__ Walk(u32 bits_a, u32 bits_r) {
        const u32 width = 128 / (bits_a < bits_r ? bits_a : bits_r);
        row = width * SUBGROUP, size = (u64)row * TILE_ROWS;
        parts = PIECES > 1 ? 1 : width / E, steps = TILE_ROWS * width / E;
    }
    __device__ u64 start(u64 segment) const { return segment * size + lane_of() * (row / SUBGROUP); }
    // The element that is `e`th of those at `index`.
    __device__ u64 element(u64 index, u32 e) const { return index + (e < E / PIECES ? e : row + e - E / PIECES); }
    // Goes on to the next E.
    __device__ void next(u64 &index, u32 &part) const {
        part += 1;
        const bool last = part == parts;
        index += last ? PIECES * row - (parts - 1) * E : E;
        part = last ? 0 : part;
    }
};

template <class Arith_, u32 A, u32 R, int PIECES> struct Pairs {
    typedef Arith_ Arith;
    typedef typename Arith::N N;
    typedef typename Arith::T T;
    enum { E = Arith::E, W = 8, LANES = PIECES == 2 && sizeof(N) == 8 ? 2 : 4 };
    const Operand<A, E, W, PIECES> a;
    const Operand<R, E, W, PIECES> r;
    const Walk<E, PIECES> walk;
    const u64 n, segments, runs;
    __device__ explicit Pairs(const VerifyParams &p)
        : a(p.a), r(p.r), walk(a.decoder.bits, r.decoder.bits), n(p.n), segments((p.n + walk.size - 1) / walk.size),
          runs((segments + (1ull << p.chunk_log) - 1) >> p.chunk_log) {}

    // The pairs at `index`. Those that are not finite go to `visit`; zeros stand for them, and for elements from n on. All lanes of a wavefront.
    template <class Visit> __device__ void fetch(u64 index, N (&x)[E], N (&y)[E], Visit visit) const {
        u32 wa[W], wr[W];
        a.load(index, walk.row, n, wa);
        r.load(index, walk.row, n, wr);
        a.decoder.template decode<E>(wa, x);
        r.decoder.template decode<E>(wr, y);
        // F8E8M0 has no zero.
        if (walk.element(index, E - 1) >= n)
#pragma unroll
            for (u32 e = 0; e < E; e++)
                if (walk.element(index, e) >= n) x[e] = y[e] = 0;
        if constexpr (!Arith::EXACT) {
            bool odd = a.decoder.template special<E>(wa) | r.decoder.template special<E>(wr);
            if (width_of(A) != 8 || width_of(R) != 8) {
                // 0 as long as all differences are finite.
                T probe = 0;
#pragma unroll
                for (int i = 0; i < E; i++) probe = Real<T>::fused(x[i] - y[i], 0, probe);
                odd |= !(probe == 0);
            }
            if (wavefront_any(odd)) replace(wa, wr, x, y, visit);
        }
    }
    template <class Visit> __device__ void replace(const u32 (&wa)[W], const u32 (&wr)[W], N (&x)[E], N (&y)[E], Visit visit) const {
        u32 odd = 0;
#pragma unroll
        for (int i = 0; i < E; i++) odd |= a.decoder.finite(wa, x[i], i) && r.decoder.finite(wr, y[i], i) ? 0 : 1u << i;
        // Few lanes have any, and few of those have more than one.
        while (odd) {
            const u32 e = __ffs((int)odd) - 1;
            odd &= odd - 1;
            visit(a.decoder.exact(wa, pick(x, e), e), r.decoder.exact(wr, pick(y, e), e));
#pragma unroll
            for (u32 i = 0; i < E; i++) {
                x[i] = i == e ? 0 : x[i];
                y[i] = i == e ? 0 : y[i];
            }
        }
    }
};

// Whether a pair that is not finite passes.
template <typename T> __device__ inline bool nonfinite_passes(const VerifyParams &p, T a, T r) { return p.nonfinite_equal && (a == r || (a != a && r != r)); }
