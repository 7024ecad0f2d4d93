// Stands for HIP's header where the kernels' headers are compiled as plain C++: one thread, which is a block and a group of its own.
#pragma once
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define __device__
#define __host__
#define __global__
#define __shared__ static
#define __launch_bounds__(...)

struct Three { unsigned x, y, z; };
static const Three threadIdx = {0, 0, 0}, blockIdx = {0, 0, 0}, blockDim = {1, 1, 1}, gridDim = {1, 1, 1};
static const int warpSize = 1;

static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline double __ddiv_rn(double a, double b) { return a / b; }
static inline unsigned __float_as_uint(float x) { return __builtin_bit_cast(unsigned, x); }
static inline float __uint_as_float(unsigned x) { return __builtin_bit_cast(float, x); }
static inline long long __double_as_longlong(double x) { return __builtin_bit_cast(long long, x); }
static inline double __longlong_as_double(long long x) { return __builtin_bit_cast(double, x); }

struct uint4 { unsigned x, y, z, w; };
struct double2 { double x, y; };
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
static inline double2 make_double2(double x, double y) { return {x, y}; }

template <class T> static inline T __shfl(T value, int, int = 32) { return value; }
template <class T> static inline T __shfl_xor(T value, int, int = 32) { return value; }
static inline unsigned long long __ballot(bool x) { return x; }
static inline bool __any(bool x) { return x; }
static inline bool __all(bool x) { return x; }
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }
static inline int __clzll(long long x) { return x ? __builtin_clzll(x) : 64; }
static inline void __syncthreads() {}
static inline void __threadfence() {}
#define __builtin_amdgcn_fence(order, scope) ((void)0)
#define __builtin_amdgcn_wave_barrier() ((void)0)
static inline void __threadfence_system() {}
template <class T> static inline T atomicMax(T *at, T x) { const T before = *at; if (x > before) *at = x; return before; }
template <class T> static inline T atomicAdd(T *at, T x) { const T before = *at; *at += x; return before; }
template <class T> static inline T atomicOr(T *at, T x) { const T before = *at; *at |= x; return before; }
