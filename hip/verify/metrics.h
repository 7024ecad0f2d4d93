// The rule for one pair of elements: d = |a - r|, m = |r|, and the metrics of both. T is the arithmetic of d and m, float or double; N that of the elements, T or
// exact integers.
#pragma once
#include "formats.h"

template <typename T> struct Real;
template <> struct Real<float> {
    typedef u32 Bits;
    static constexpr u32 EXPONENT = 0x7f800000u, UNIT = 0x00800000u;
    enum { BIAS = 127, DIGITS = 24 };
    static __device__ float max() { return 3.402823466e38f; }
    static __device__ float small() { return 1e-3f; }
    static __device__ float least() { return f32_of(1); }
    static __device__ float fused(float a, float b, float c) { return __fmaf_rn(a, b, c); }
    static __device__ float abs(float x) { return fabsf(x); }
    static __device__ float larger(float x, float y) { return fmaxf(x, y); }
    static __device__ float smaller(float x, float y) { return fminf(x, y); }
    static __device__ float quotient(float a, float b) { return __fdiv_rn(a, b); }
    static __device__ float of(u32 x) { return f32_of(x); }
    // See `exact_bin`.
    static __device__ float scale_up() { return exp2_f32(48); }
};
template <> struct Real<double> {
    typedef u64 Bits;
    static constexpr u64 EXPONENT = 0x7ff0000000000000ull, UNIT = 0x0010000000000000ull;
    enum { BIAS = 1023, DIGITS = 53 };
    static __device__ double max() { return 1.7976931348623157e308; }
    static __device__ double small() { return 1e-3; }
    static __device__ double least() { return f64_of(1); }
    static __device__ double fused(double a, double b, double c) { return __fma_rn(a, b, c); }
    static __device__ double abs(double x) { return fabs(x); }
#if defined(__AMDGCN__)
    // One instruction.
    static __device__ double larger(double x, double y) { return fmax(x, y); }
    static __device__ double smaller(double x, double y) { return fmin(x, y); }
#else
    // NVIDIA's GPUs have no such instruction, and functions that care about NaN take longer.
    static __device__ double larger(double x, double y) { return x > y ? x : y; }
    static __device__ double smaller(double x, double y) { return x < y ? x : y; }
#endif
    static __device__ double quotient(double a, double b) { return __ddiv_rn(a, b); }
    static __device__ double of(u64 x) { return f64_of(x); }
    static __device__ double scale_up() { return exp2_f64(110); }
};

// The pattern of a limit that nothing exceeds: a NaN, which makes the result of every test a NaN without a sign. (Infinity minus infinity, or times 0, would be a NaN whose sign the processor chooses.)
template <typename T> constexpr typename Real<T>::Bits NO_LIMIT = Real<T>::EXPONENT | Real<T>::UNIT >> 1;

template <typename T> __device__ inline bool is_finite(T x) { return Real<T>::abs(x) <= Real<T>::max(); }
__device__ inline bool is_finite(Whole) { return true; }

// 2^e for -1074 <= e <= 1023.
#if defined(__AMDGCN__)
// One instruction.
__device__ inline double pow2(i32 e) { return __builtin_amdgcn_ldexp(1.0, e); }
#else
__device__ inline double pow2(i32 e) { return e >= -1022 ? exp2_f64(e) : f64_of(1ull << (e + 1074)); }
#endif

template <typename T> __device__ inline T magnitude(T x) { return Real<T>::abs(x); }
__device__ inline u64 magnitude(u64 x) { return x; }
__device__ inline u64 magnitude(Whole x) { return x.size; }
// Keeps the number of the largest magnitude; only the magnitude of what is kept may be used.
template <typename T> __device__ inline void keep_larger(T &largest, T x) { largest = Real<T>::larger(magnitude(x), largest); }
#if defined(__CUDA_ARCH__)
// A comparison takes magnitudes without an instruction for each, but a choice does not.
__device__ inline void keep_larger(double &largest, double x) { largest = magnitude(x) > magnitude(largest) ? x : largest; }
#endif
__device__ inline void keep_larger(double &largest, u64 x) { largest = Real<double>::larger((double)x, largest); }
__device__ inline void keep_larger(double &largest, Whole x) { keep_larger(largest, magnitude(x)); }
// A number whose magnitude is the distance.
template <typename T> __device__ inline T difference(T a, T r) { return a - r; }
// For a u64 and a negative number it may be beyond u64, and is then the largest u64.
__device__ inline u64 difference(Whole a, Whole r) {
    const u64 sum = a.size + r.size;
    return a.negative == r.negative ? (a.size > r.size ? a.size - r.size : r.size - a.size) : sum < a.size ? ~0ull : sum;
}
template <typename N> __device__ inline auto distance(N a, N r) { return magnitude(difference(a, r)); }
// Whether a distance is within the bound; for integers within floor(bound), at most 2^64 - 1.
template <typename T> __device__ inline bool within(T d, T bound) { return d <= bound; }
__device__ inline bool within(u64 d, double bound) { return bound >= 18446744073709551616.0 || d <= (u64)bound; }

template <typename T> struct Rule {
    typedef typename Real<T>::Bits Bits;
    T rtol, atol;
    Bits lowest, highest; // binades of the result's format
    i32 mantissa_bits;
    bool clamp; // whether a bound by the given tolerances may overflow; it is then MAX
    bool by_binade; // whether rtol multiplies the binade of m, and not m
    __device__ explicit Rule(const VerifyParams &p)
        : rtol(sizeof(T) == 4 ? (T)p.rtol_f32 : (T)p.rtol), atol(sizeof(T) == 4 ? (T)p.atol_f32 : (T)p.atol), lowest(bits_of((T)pow2(p.min_exponent))), highest(bits_of((T)pow2(p.max_exponent))),
          mantissa_bits(p.mantissa_bits), clamp(p.clamp != 0), by_binade(p.by_binade != 0) {}
    // What rtol multiplies.
    __device__ T base(T m) const { return by_binade ? binade(m) : m; }
    // By any tolerances: bounds by those that a search tries may overflow although bounds by the given ones do not.
    __device__ T bound(T rtol_, T m, T atol_) const { return Real<T>::smaller(Real<T>::fused(rtol_, base(m), atol_), Real<T>::max()); }
    __device__ T bound(T m) const { return bound(rtol, m, atol); }
    // The bounds of E finite pairs. PLAIN: they are neither by binade nor clamped.
    template <bool PLAIN = false, typename N, int E> __device__ void bounds(const N (&r)[E], T (&bound)[E]) const {
#pragma unroll
        for (int i = 0; i < E; i++) bound[i] = Real<T>::fused(rtol, (T)magnitude(r[i]), atol);
        // Tested here, since both are the same for all threads: the other rules pay one branch each for E elements.
        if (!PLAIN && by_binade)
#pragma unroll
            for (int i = 0; i < E; i++) bound[i] = Real<T>::fused(rtol, binade((T)magnitude(r[i])), atol);
        if (!PLAIN && clamp)
#pragma unroll
            for (int i = 0; i < E; i++) bound[i] = Real<T>::smaller(bound[i], Real<T>::max());
    }
    // Magnitudes of E finite pairs with these differences.
    template <typename D, typename N, int E> static __device__ void magnitudes(const D (&differences)[E], const N (&r)[E], T (&d)[E], T (&m)[E]) {
#pragma unroll
        for (int i = 0; i < E; i++) d[i] = (T)magnitude(differences[i]), m[i] = (T)magnitude(r[i]);
    }
    // 2^e, e the exponent of m held within the result's format; a sign is ignored.
    __device__ T binade(T m) const { return binade(m, lowest); }
    // Held above another lowest binade.
    __device__ T binade(T m, Bits lowest) const {
        Bits x = bits_of(m) & Real<T>::EXPONENT;
        x = x < lowest ? lowest : x;
        return Real<T>::of(x > highest ? highest : x);
    }
    // d by the spacing 2^(e - mantissa_bits): exact in f64 for f32 differences.
    __device__ double epsilons(T d, T m) const {
        const i32 e = (i32)(bits_of(binade(m)) / Real<T>::UNIT) - Real<T>::BIAS;
        // The shorter form if it is exact: a second factor, the same for all elements, would be kept in registers.
        return sizeof(T) == 4 ? (double)d * pow2(mantissa_bits - e) : (double)d * pow2(-e) * pow2(mantissa_bits);
    }
};
