// How a comparison goes through two tensors: the arithmetic of a pair, the way of a thread through a tile, and how it gets its next E pairs.
#pragma once
#include "any.h"
#include "verify/layout.h"
#include "verify/sums.h"

// N is what elements are decoded to, D what their differences are, T what is computed with. A wide integer's difference is exact before it becomes a T.
struct InF32 { typedef float N, D, T; enum { E = 8 }; static constexpr bool EXACT = false; };
struct InF64 { typedef double N, D, T; enum { E = 4 }; static constexpr bool EXACT = false; };
struct InI64 { typedef i64 N; typedef u64 D; typedef double T; enum { E = 4 }; static constexpr bool EXACT = true; };
struct InWhole { typedef Whole N; typedef u64 D; typedef double T; enum { E = 4 }; static constexpr bool EXACT = true; };

// An element of an array in registers, which have no addresses.
template <typename X, int E> __device__ inline X pick(const X (&x)[E], u32 at) {
    X y = x[0];
#pragma unroll
    for (u32 i = 1; i < E; i++) y = i == at ? x[i] : y;
    return y;
}
// Field by field: clang would choose between addresses of structs, and give them some.
template <int E> __device__ inline Whole pick(const Whole (&x)[E], u32 at) {
    Whole y = x[0];
#pragma unroll
    for (u32 i = 1; i < E; i++) y.size = i == at ? x[i].size : y.size, y.negative = i == at ? x[i].negative : y.negative;
    return y;
}

// A thread's way through its lane of a tile, E elements at a time: parts of a row, or PIECES rows at once where a lane has fewer.
template <int E, int PIECES> struct Walk {
    u32 row, parts, steps;
    u64 size; // elements of a tile
    __device__ Walk(u32 bits_a, u32 bits_r) {
        const u32 width = 128 / (bits_a < bits_r ? bits_a : bits_r);
        row = width * SUBGROUP, size = (u64)row * TILE_ROWS;
        parts = PIECES > 1 ? 1 : width / E, steps = TILE_ROWS * width / E;
    }
    __device__ u64 start(u64 tile) const { return tile * size + lane_of() * (row / SUBGROUP); }
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

// The rows of both tensors that a thread is in, up to where the first of the two ends; see `Operand::Row`. In registers, or where those are short in memory that a block shares.
struct RegisterRows {
    struct Shared {};
    u64 end;
    i64 shift_a, shift_r;
    __device__ RegisterRows(Shared &, u64 end_, i64 a, i64 r) { set(end_, a, r); }
    __device__ void set(u64 end_, i64 a, i64 r) { end = end_, shift_a = a, shift_r = r; }
};
struct SharedRows {
    enum { THREADS = 256 };
    struct Shared {
        u64 end[THREADS];
        i64 shift_a[THREADS], shift_r[THREADS];
    };
    u64 &end;
    i64 &shift_a, &shift_r;
    __device__ SharedRows(Shared &s, u64 end_, i64 a, i64 r) : end(s.end[threadIdx.x]), shift_a(s.shift_a[threadIdx.x]), shift_r(s.shift_r[threadIdx.x]) { set(end_, a, r); }
    __device__ void set(u64 end_, i64 a, i64 r) { end = end_, shift_a = a, shift_r = r; }
};
template <bool SHARED> struct RowsIn { typedef RegisterRows Rows; };
template <> struct RowsIn<true> { typedef SharedRows Rows; };

// PARTS times E pairs are loaded at once, in PIECES, and taken E at a time.
template <class Arith_, u32 A, u32 R, int PIECES, int PARTS_ = 1> struct Pairs {
    typedef Arith_ Arith;
    typedef typename Arith::N N;
    typedef typename Arith::D D;
    typedef typename Arith::T T;
    enum { E = Arith::E, PARTS = PARTS_, W = 8, ACCUMULATORS = PIECES == 2 && sizeof(T) == 8 ? 2 : 4 };
    // Whether differences may be so small that their remainders underflow: not between formats of few exponents.
    static constexpr bool TINY = !is_fixed(A) || !is_fixed(R) || format_of(A - FIXED).bias > 16 || format_of(R - FIXED).bias > 16;
    // Whether bounds may overflow: the host takes kernels for fixed formats only where they cannot.
    static constexpr bool CLAMP = !is_fixed(A);
    // Whether a reference may be above the binades of the result's format.
    static constexpr bool WIDER = !is_fixed(A) || A != R || format_of(A - FIXED).specials == INTEGER;
    const Operand<A, E * PARTS, W, PIECES> a;
    const Operand<R, E * PARTS, W, PIECES> r;
    const Walk<E * PARTS, PIECES> walk;
    const u64 n, tiles, runs;
    const u64 abreast;
    const bool vectors, dense;
    typedef typename RowsIn<A == ANY>::Rows Rows;
    typename Rows::Shared &shared;
    __device__ Pairs(const VerifyParams &p, typename Rows::Shared &shared_)
        : a(p.a), r(p.r), walk(a.decoder.bits, r.decoder.bits), n(p.n), tiles((p.n + walk.size - 1) / walk.size),
          runs((tiles + (1ull << p.run_log) - 1) >> p.run_log), abreast(p.abreast), vectors(a.vectors() && r.vectors()), dense(vectors && p.a.rank == 0 && p.r.rank == 0), shared(shared_) {}

    // The run that is taken as the `turn`th. Where elements that are neighbours in memory are a row apart, the subgroups of a block take runs of neighbouring rows, so that they
    // share what they load: of 8 x `abreast` runs, which are 8 rows, first the first ones of all rows. A subgroup still takes its runs in ascending order.
    __device__ u64 run_of(u64 turn) const {
        enum { ROWS = 8 };
        if (abreast == 0) return turn;
        const u64 some = ROWS * abreast, at = turn % some;
        const u64 first = turn - at;
        return first + some > runs ? turn : first + at % ROWS * abreast + at / ROWS;
    }

    // What E pairs are in memory, read in ascending order.
    struct Words {
        u32 a[W], r[W];
        Rows rows;
        // A dense tensor is one row.
        __device__ explicit Words(const Pairs &p) : rows(p.shared, p.dense ? p.n : 0, p.a.p.offset, p.r.p.offset) {}
    };
    // All lanes of a wavefront, so that they take branches together.
    __device__ void load(u64 index, Words &w) const {
        const u64 last = index + (PIECES - 1) * walk.row + E * PARTS / PIECES;
        if (wavefront_any(last > w.rows.end)) {
            const auto row_a = a.load_any(index, walk.row, n, w.a);
            const auto row_r = r.load_any(index, walk.row, n, w.r);
            if (!dense) w.rows.set(row_a.end < row_r.end ? row_a.end : row_r.end, row_a.shift, row_r.shift);
        } else if (vectors) {
            a.load_vectors(index, walk.row, w.rows.shift_a, w.a);
            r.load_vectors(index, walk.row, w.rows.shift_r, w.r);
        } else {
            a.load(index, walk.row, w.rows.shift_a, w.a);
            r.load(index, walk.row, w.rows.shift_r, w.r);
        }
    }

    // Brings the next part to the front.
    __device__ void next_part(Words &w) const {
        if constexpr (PARTS > 1) {
            enum { FROM_A = E * width_of(A) / 32, FROM_R = E * width_of(R) / 32 };
#pragma unroll
            for (u32 i = 0; i + FROM_A < W; i++) w.a[i] = w.a[i + FROM_A];
#pragma unroll
            for (u32 i = 0; i + FROM_R < W; i++) w.r[i] = w.r[i + FROM_R];
        }
    }

    // The E pairs at `index`, the first of the words, and their differences. `on_nonfinite` gets those that are not finite; zeros stand for them, and for elements from n on. All
    // lanes of a wavefront.
    template <class OnNonfinite> __device__ void take(u64 index, const Words &w, N (&x)[E], N (&y)[E], D (&d)[E], OnNonfinite on_nonfinite) const {
        a.decoder.template decode<E>(w.a, x);
        r.decoder.template decode<E>(w.r, y);
        // F8E8M0 has no zero.
        if (!is_fixed(A) && walk.element(index, E - 1) >= n)
#pragma unroll
            for (u32 e = 0; e < E; e++)
                if (walk.element(index, e) >= n) x[e] = y[e] = 0;
#pragma unroll
        for (int i = 0; i < E; i++) d[i] = difference(x[i], y[i]);
        if constexpr (!Arith::EXACT) {
            bool odd = a.decoder.template special<E>(w.a) | r.decoder.template special<E>(w.r);
            if (width_of(A) != 8 || width_of(R) != 8) {
                // 0 as long as all differences are finite.
                T probe = 0;
#pragma unroll
                for (int i = 0; i < E; i++) probe = Real<T>::fused(d[i], 0, probe);
                odd |= !(probe == 0);
            }
            if (wavefront_any(odd)) replace(w, x, y, d, on_nonfinite);
        }
    }
    template <class OnNonfinite> __device__ void replace(const Words &w, N (&x)[E], N (&y)[E], D (&d)[E], OnNonfinite on_nonfinite) const {
        u32 odd = 0;
#pragma unroll
        for (u32 i = 0; i < E; i++) odd |= a.decoder.finite(w.a, x[i], i) && r.decoder.finite(w.r, y[i], i) ? 0 : 1u << i;
        // Few lanes have any, and few of those have more than one.
        for (u32 left = odd; left; left &= left - 1) {
            const u32 i = __ffs((int)left) - 1;
            on_nonfinite(a.decoder.exact(w.a, pick(x, i), i), r.decoder.exact(w.r, pick(y, i), i));
        }
#pragma unroll
        for (u32 i = 0; i < E; i++)
            if (odd >> i & 1) x[i] = y[i] = 0, d[i] = 0;
    }
    __device__ u64 result_bits(u64 index) const { return a.bits_at(index); }
    __device__ u64 reference_bits(u64 index) const { return r.bits_at(index); }
};

// Whether a pair that is not finite passes.
__device__ inline bool nonfinite_passes(const VerifyParams &, Whole, Whole) { return true; }
template <typename T> __device__ inline bool nonfinite_passes(const VerifyParams &p, T a, T r) { return p.nonfinite_equal && (a == r || (a != a && r != r)); }
