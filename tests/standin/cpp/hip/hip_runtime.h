// HIP's device functions for a host's C++ compiler: kernels run as fibres, see README.md.
//
// `__global__` and `__shared__` stay in the text as markers, which the stand-in replaces after preprocessing. Memory accesses reach it
// through the compiler's instrumentation, everything that lanes do together through the functions below.
#pragma once
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <type_traits>
#include <utility>

#define __device__
#define __host__
#define __forceinline__ inline
#define __constant__ static const
#define __launch_bounds__(...)
#define __global__ standin_mark_global
#define __shared__ standin_mark_shared
#define __HIP_PLATFORM_AMD__ 1

struct standin_index { unsigned x, y, z; };
struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

// What lanes do together. The calls by which a lane came there tell one operation from another.
enum standin_operation { STANDIN_SHUFFLE, STANDIN_SHUFFLE_XOR, STANDIN_SHUFFLE_UP, STANDIN_SHUFFLE_DOWN, STANDIN_BALLOT, STANDIN_WAVE_BARRIER };

extern "C" {
#if defined(__clang__)
// No copies of calls: they are told apart by where they stand.
#define STANDIN_RUNTIME __attribute__((visibility("hidden"), noinline, convergent))
#else
#define STANDIN_RUNTIME __attribute__((visibility("hidden"), noinline))
#endif
STANDIN_RUNTIME __attribute__((const)) standin_index standin_thread(), standin_block(), standin_threads(), standin_blocks();
STANDIN_RUNTIME __attribute__((const)) int standin_wavefront();
STANDIN_RUNTIME unsigned long long standin_across(int operation, unsigned long long value, int argument, int width, const char *file, int line);
STANDIN_RUNTIME void standin_barrier(const char *file, int line);
// A variable of shared memory: the address of `tag` is its identity. Without a tag, the block's dynamic shared memory.
STANDIN_RUNTIME void *standin_shared(const void *tag, size_t size, size_t align, const char *name);
STANDIN_RUNTIME void standin_trap(const char *file, int line);
STANDIN_RUNTIME void standin_matrix(const char *name, const void *a, const void *b, const void *c, void *d, const int *modifiers, const char *file, int line);
#undef STANDIN_RUNTIME
}

#define threadIdx (standin_thread())
#define blockIdx (standin_block())
#define blockDim (standin_threads())
#define gridDim (standin_blocks())
#define warpSize (standin_wavefront())

// The place in the text is for messages.
#define STANDIN_INLINE __attribute__((always_inline)) inline
#define STANDIN_PLACE const char *file = __builtin_FILE(), int line = __builtin_LINE()

template <class T> STANDIN_INLINE unsigned long long standin_word(T value) {
    static_assert(sizeof(T) <= 8 && std::is_trivially_copyable<T>::value, "registers of up to 64 bits");
    unsigned long long word = 0;
    __builtin_memcpy(&word, &value, sizeof(T));
    return word;
}
template <class T> STANDIN_INLINE T standin_value(unsigned long long word) {
    T value;
    __builtin_memcpy(&value, &word, sizeof(T));
    return value;
}

#define STANDIN_SHUFFLE_OF(name, operation)                                                                                    \
    template <class T> STANDIN_INLINE T name(T value, int argument, int width = warpSize, STANDIN_PLACE) {                     \
        return standin_value<T>(standin_across(operation, standin_word(value), argument, width, file, line));                  \
    }                                                                                                                          \
    template <class T> STANDIN_INLINE T name##_sync(unsigned long long, T value, int argument, int width = warpSize, STANDIN_PLACE) { \
        return standin_value<T>(standin_across(operation, standin_word(value), argument, width, file, line));                  \
    }
STANDIN_SHUFFLE_OF(__shfl, STANDIN_SHUFFLE)
STANDIN_SHUFFLE_OF(__shfl_xor, STANDIN_SHUFFLE_XOR)
STANDIN_SHUFFLE_OF(__shfl_up, STANDIN_SHUFFLE_UP)
STANDIN_SHUFFLE_OF(__shfl_down, STANDIN_SHUFFLE_DOWN)
#undef STANDIN_SHUFFLE_OF

// Of the lanes that take part: bit 0 is lane 0 of the wavefront.
STANDIN_INLINE unsigned long long __ballot(int x, STANDIN_PLACE) { return standin_across(STANDIN_BALLOT, x != 0, 0, 0, file, line); }
STANDIN_INLINE int __any(int x, STANDIN_PLACE) { return standin_across(STANDIN_BALLOT, x != 0, 0, 0, file, line) != 0; }
STANDIN_INLINE int __all(int x, STANDIN_PLACE) { return standin_across(STANDIN_BALLOT, x == 0, 0, 0, file, line) == 0; }
STANDIN_INLINE void __builtin_amdgcn_wave_barrier(STANDIN_PLACE) { standin_across(STANDIN_WAVE_BARRIER, 0, 0, 0, file, line); }
STANDIN_INLINE void __syncwarp(STANDIN_PLACE) { standin_across(STANDIN_WAVE_BARRIER, 0, 0, 0, file, line); }
STANDIN_INLINE void __syncthreads(STANDIN_PLACE) { standin_barrier(file, line); }
STANDIN_INLINE void standin_stop(STANDIN_PLACE) { standin_trap(file, line); }
#define abort() standin_stop()
#define __trap() standin_stop()
#define __builtin_trap() standin_stop()

// Memory is one for all threads: fences order nothing more, but compilers keep to them.
#define __builtin_amdgcn_fence(order, scope) __asm__ volatile("" ::: "memory")
STANDIN_INLINE void __threadfence() { __asm__ volatile("" ::: "memory"); }
STANDIN_INLINE void __threadfence_block() { __asm__ volatile("" ::: "memory"); }
STANDIN_INLINE void __threadfence_system() { __asm__ volatile("" ::: "memory"); }

// Atomics. Numbers that are no integers by compare and swap.
template <class T, class F> STANDIN_INLINE T standin_update(T *at, F f) {
    typedef std::conditional_t<sizeof(T) == 8, unsigned long long, std::conditional_t<sizeof(T) == 4, unsigned, unsigned short>> Word;
    Word before = __atomic_load_n((Word *)at, __ATOMIC_RELAXED), after;
    do after = standin_word(f(standin_value<T>(before)));
    while (!__atomic_compare_exchange_n((Word *)at, &before, after, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return standin_value<T>(before);
}
template <class T> struct standin_same { typedef T type; };
template <class T> using standin_like = typename standin_same<T>::type;
template <class T> STANDIN_INLINE T atomicAdd(T *at, standin_like<T> x) {
    if constexpr (std::is_integral<T>::value) return __atomic_fetch_add(at, x, __ATOMIC_RELAXED);
    else return standin_update(at, [=](T y) { return (T)(y + x); });
}
template <class T> STANDIN_INLINE T atomicSub(T *at, standin_like<T> x) { return __atomic_fetch_sub(at, x, __ATOMIC_RELAXED); }
template <class T> STANDIN_INLINE T atomicAnd(T *at, standin_like<T> x) { return __atomic_fetch_and(at, x, __ATOMIC_RELAXED); }
template <class T> STANDIN_INLINE T atomicOr(T *at, standin_like<T> x) { return __atomic_fetch_or(at, x, __ATOMIC_RELAXED); }
template <class T> STANDIN_INLINE T atomicXor(T *at, standin_like<T> x) { return __atomic_fetch_xor(at, x, __ATOMIC_RELAXED); }
template <class T> STANDIN_INLINE T atomicMax(T *at, standin_like<T> x) { return standin_update(at, [=](T y) { return x > y ? x : y; }); }
template <class T> STANDIN_INLINE T atomicMin(T *at, standin_like<T> x) { return standin_update(at, [=](T y) { return x < y ? x : y; }); }
template <class T> STANDIN_INLINE T atomicExch(T *at, standin_like<T> x) { return standin_update(at, [=](T) { return x; }); }
template <class T> STANDIN_INLINE T atomicCAS(T *at, standin_like<T> expected, standin_like<T> x) {
    __atomic_compare_exchange_n(at, &expected, x, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
    return expected;
}

// Arithmetic: IEEE, one rounding each.
STANDIN_INLINE float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
STANDIN_INLINE double __fma_rn(double a, double b, double c) { return __builtin_fma(a, b, c); }
STANDIN_INLINE float __fdiv_rn(float a, float b) { return a / b; }
STANDIN_INLINE double __ddiv_rn(double a, double b) { return a / b; }
STANDIN_INLINE unsigned __float_as_uint(float x) { return standin_value<unsigned>(standin_word(x)); }
STANDIN_INLINE float __uint_as_float(unsigned x) { return standin_value<float>(x); }
STANDIN_INLINE int __float_as_int(float x) { return standin_value<int>(standin_word(x)); }
STANDIN_INLINE float __int_as_float(int x) { return standin_value<float>(standin_word(x)); }
STANDIN_INLINE long long __double_as_longlong(double x) { return standin_value<long long>(standin_word(x)); }
STANDIN_INLINE double __longlong_as_double(long long x) { return standin_value<double>(standin_word(x)); }
STANDIN_INLINE int __popc(unsigned x) { return __builtin_popcount(x); }
STANDIN_INLINE int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
STANDIN_INLINE int __ffs(int x) { return __builtin_ffs(x); }
STANDIN_INLINE int __ffsll(long long x) { return __builtin_ffsll(x); }
STANDIN_INLINE int __clz(int x) { return x ? __builtin_clz(x) : 32; }
STANDIN_INLINE int __clzll(long long x) { return x ? __builtin_clzll(x) : 64; }
STANDIN_INLINE unsigned __umulhi(unsigned x, unsigned y) { return (unsigned)((unsigned long long)x * y >> 32); }
STANDIN_INLINE unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
    return (unsigned long long)((unsigned __int128)x * y >> 64);
}
// Byte i of the result is the byte of y:x that the i-th hexadecimal digit of `selector` names.
STANDIN_INLINE unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
    const unsigned long long both = (unsigned long long)y << 32 | x;
    unsigned result = 0;
    for (int i = 0; i < 4; i++) result |= (unsigned)(both >> 8 * (selector >> 4 * i & 7) & 0xff) << 8 * i;
    return result;
}

// Vectors with the alignment that they have on a GPU.
struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(8) uint2 { unsigned x, y; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(16) double2 { double x, y; };
struct alignas(16) ulonglong2 { unsigned long long x, y; };
STANDIN_INLINE uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
STANDIN_INLINE double2 make_double2(double x, double y) { return {x, y}; }

#if !defined(__clang__)
// What clang has as builtins.
template <class V> STANDIN_INLINE V __builtin_elementwise_max(V x, V y) { return x > y ? x : y; }
template <class V> STANDIN_INLINE V __builtin_elementwise_min(V x, V y) { return x < y ? x : y; }
#endif

// The builtins of the matrix cores, of which only the names are many: the stand-in writes `standin_mfma("f32_32x32x8f16", a, ...`.
template <class A, class B, class C> STANDIN_INLINE C standin_mfma(const char *name, A a, B b, C c, int cbsz, int abid, int blgp, STANDIN_PLACE) {
    const int modifiers[3] = {cbsz, abid, blgp};
    C d;
    standin_matrix(name, &a, &b, &c, &d, modifiers, file, line);
    return d;
}

// The parameters of a kernel, from its type.
template <auto F> struct standin_kernel;
template <class... A, void (*F)(A...)> struct standin_kernel<F> {
    template <size_t... I> __attribute__((no_sanitize_thread)) static void call(void **p, std::index_sequence<I...>) {
        F(*static_cast<A *>(p[I])...);
    }
    __attribute__((no_sanitize_thread)) static void run(void **p) { call(p, std::index_sequence_for<A...>()); }
    static constexpr size_t sizes[sizeof...(A) + 1] = {sizeof(A)...};
    static constexpr size_t count = sizeof...(A);
};
struct standin_entry {
    const char *name;
    void (*run)(void **);
    const size_t *sizes;
    size_t count;
};
