// How the products of N results are added up, all from zero. A sum takes GROUP products at a time: factor a[k] of each
// is multiplied by b[k][i] for result i. If the last group is short, it is filled up with zeros.
#pragma once

#include "matrix_core.h"

// The common part of plain sums, which take one product at a time.
template <typename T, int N> struct PlainSum {
    static constexpr int GROUP = 1;
    typedef T Input;
    typedef T Wide;
    static __device__ inline T wide(T x) { return x; }
    static __device__ inline T zero(u32) { return (T)0; }
    T acc[N];
    __device__ inline PlainSum(const ReferenceSums &) {
#pragma unroll
        for (int i = 0; i < N; ++i) acc[i] = (T)0;
    }
    __device__ inline double result(int i) { return (double)acc[i]; }
};

template <int N> struct SumF64 : PlainSum<double, N> {
    using PlainSum<double, N>::PlainSum;
    __device__ inline void step(const double *a, const double (*b)[N]) {
#pragma unroll
        for (int i = 0; i < N; ++i) this->acc[i] = fma(a[0], b[0][i], this->acc[i]);
    }
};

template <int N> struct SumRounded : PlainSum<double, N> {
    using PlainSum<double, N>::PlainSum;
    __device__ inline void step(const double *a, const double (*b)[N]) {
#pragma unroll
        for (int i = 0; i < N; ++i) this->acc[i] = (double)(float)fma(a[0], b[0][i], this->acc[i]);
    }
};

template <int N> struct SumEvery4 : PlainSum<double, N> {
    using PlainSum<double, N>::PlainSum;
    u32 count = 0;
    __device__ inline void step(const double *a, const double (*b)[N]) {
        const bool fourth = (++count & 3) == 0;
#pragma unroll
        for (int i = 0; i < N; ++i) {
            const double sum = fma(a[0], b[0][i], this->acc[i]);
            this->acc[i] = fourth ? (double)(float)sum : sum;
        }
    }
};

template <int N> struct SumGroups4 : PlainSum<double, N> {
    double group[N];
    u32 count = 0;
    __device__ inline SumGroups4(const ReferenceSums &p) : PlainSum<double, N>(p) {
#pragma unroll
        for (int i = 0; i < N; ++i) group[i] = 0.0;
    }
    // Rounding the sum of two f32 numbers first to f64 and then to f32 gives the f32 sum.
    __device__ inline void join(int i) {
        this->acc[i] = (double)(float)(this->acc[i] + (double)(float)group[i]);
        group[i] = 0.0;
    }
    __device__ inline void step(const double *a, const double (*b)[N]) {
        const bool fourth = (++count & 3) == 0;
#pragma unroll
        for (int i = 0; i < N; ++i) {
            group[i] = fma(a[0], b[0][i], group[i]);
            if (fourth) join(i);
        }
    }
    __device__ inline double result(int i) {
        if (count & 3) join(i);
        return this->acc[i];
    }
};

template <int N> struct SumF32 : PlainSum<float, N> {
    using PlainSum<float, N>::PlainSum;
    __device__ inline void step(const float *a, const float (*b)[N]) {
#pragma unroll
        for (int i = 0; i < N; ++i) {
            const float product = a[0] * b[0][i];
            this->acc[i] = this->acc[i] + product;
        }
    }
};

template <int N> struct SumF32Fma : PlainSum<float, N> {
    using PlainSum<float, N>::PlainSum;
    __device__ inline void step(const float *a, const float (*b)[N]) {
#pragma unroll
        for (int i = 0; i < N; ++i) this->acc[i] = fmaf(a[0], b[0][i], this->acc[i]);
    }
};

// The groups of a matrix core.
template <typename RULE, int N> struct SumModel {
    static constexpr int GROUP = RULE::GROUP;
    typedef typename RULE::Input Input;
    typedef typename RULE::Wide Wide;
    static __device__ inline Wide wide(Input x) { return RULE::wide(x); }
    static __device__ inline Input zero(u32 dtype) { return RULE::prepare(0.0f, dtype); }
    const TensorCoreRule &rule;
    float acc[N];
    __device__ inline SumModel(const ReferenceSums &p) : rule(p.rule) {
#pragma unroll
        for (int i = 0; i < N; ++i) acc[i] = RULE::accept(rule, 0.0f);
    }
    __device__ inline void step(const Wide *a, const Wide (*b)[N]) { RULE::template row<false>(rule, acc, a, b); }
    __device__ inline double result(int i) { return (double)RULE::canonical(acc[i]); }
};
