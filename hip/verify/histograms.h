// Histograms: pairs that differ, by the relative difference, the epsilon difference and the ratio to the tolerance. What is done does not depend on the data.
//
//   for each of the three values d / x of a pair:
//       e = exponent of the value, by an approximate reciprocal
//       field = below[e] + whether d / x rounds to more than last[e]   no exponent has ends of two bins: the largest number of one
//       counter += 16^field                                            eight fields of 4 bits; every E pairs they are added to fields of 8 bits, and those rarely to the block's bins
//   pairs near the ends of the range: quotients and comparisons with all ends        (rare)
//
// The test of a quotient against the largest number of a bin is that of maxima.h against a maximum.
#pragma once
#include "platform.h"
#include "verify/maxima.h"

enum { BY_RELATIVE, BY_EPSILON, BY_RATIO, KINDS };
// The first bin of each with a field; bins of quotients that are 0 have none.
__device__ constexpr u32 first_bin(u32 h) { return h == BY_RELATIVE ? 1 : h == BY_EPSILON ? 10 : 16; }
__device__ constexpr u32 fields_of(u32 h) { return h == BY_RELATIVE ? 8 : h == BY_EPSILON ? 5 : 7; }
DEVICE_DATA const double ENDS[KINDS][7] = {{1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0}, {1.5, 2.5, 10.5, 100.5}, {0.1, 0.5, 1, 2, 10, 100}};

// The least number of the arithmetic that is at least x, and the largest that is at most x; x > 0.
template <typename T> __device__ inline T from(double x) {
    const T t = (T)x;
    return Real<T>::of(bits_of(t) + ((double)t < x));
}
template <typename T> __device__ inline T up_to(double x) {
    const T t = (T)x;
    return Real<T>::of(bits_of(t) - ((double)t > x));
}

// The bin of a pair that differs, by its exact value, in loops: nothing of it is worth registers where it is rare; of the relative difference for references that are not small.
template <typename T> __device__ inline u32 exact_bin(const Rule<T> &rule, u32 h, T d, T m) {
    u32 field = 0;
    if (h == BY_EPSILON) {
        // Below 1 the spacing and d are scaled, since a half of the least spacing underflows; above, a scaled spacing would overflow.
        const T scale = m < (T)1 ? Real<T>::scale_up() : (T)1, spacing = rule.binade(m) * (scale * (T)pow2(-rule.mantissa_bits));
#pragma unroll 1
        for (u32 k = 0; k < 4; k++) field += (T)ENDS[h][k] * spacing <= d * scale;
        return first_bin(h) + field;
    }
    const T quotient = Real<T>::quotient(d, h == BY_RELATIVE ? m : rule.bound(m));
#pragma unroll 1
    for (u32 k = 0; k + 1 < fields_of(h); k++) field += h == BY_RELATIVE ? quotient >= from<T>(ENDS[h][k]) : quotient > up_to<T>(ENDS[h][k]);
    return first_bin(h) + field - (quotient == 0);
}

// The largest number of the arithmetic in the bins up to the `k`th end.
template <typename T> __device__ inline T last_of(u32 h, u32 k) { return h == BY_RATIO ? up_to<T>(ENDS[h][k]) : Real<T>::of(bits_of(from<T>(ENDS[h][k])) - 1); }

// What the threads of a block share: by exponent of a value, the largest number of a bin that ends there, or infinity, and 4 x the bin's field.
template <typename T> struct HistogramsShared {
    T last[KINDS][256];
    u32 below[KINDS][256];
    u32 bins[HISTOGRAM_BINS];
};
enum : u32 { HALF_BINADE = 0x00400000u };

// The table by all threads. Exponents of quotients change at 1.5 x 2^e, those of epsilon differences, in units of 2^-mantissa_bits, at 2^e: so none has ends of two bins.
template <typename T> __device__ inline void prepare(HistogramsShared<T> &s, const Rule<T> &rule) {
    for (u32 i = threadIdx.x; i < KINDS * 256; i += blockDim.x) {
        const u32 h = i / 256, e = i % 256, half = h == BY_EPSILON ? 0 : HALF_BINADE, low = e ? (e << 23) - half : 0, high = (e << 23) - half + 0x00800000u;
        T last = Real<T>::of(Real<T>::EXPONENT);
        u32 below = 0;
#pragma unroll 1
        for (u32 k = 0; k + 1 < fields_of(h); k++) {
            const double unit = h == BY_EPSILON ? pow2(-rule.mantissa_bits) : 1;
            const u32 end = bits_of((float)(ENDS[h][k] * unit));
            below += end < low;
            if (end >= low && end < high) last = last_of<T>(h, k) * (T)unit;
        }
        s.last[h][e] = last, s.below[h][e] = 4 * below;
    }
}

// Whether the exponent of d / x is that of their approximate quotient in f32, and d - last x does not underflow.
__device__ inline bool fits(float, float x) { return bits_of(x) - 1 >= bits_of(exp2_f32(-70)) - 1; }
__device__ inline bool normal(float x) { return x >= exp2_f32(-126) && x <= Real<float>::max(); }
__device__ inline bool fits(double d, double x) { return normal((float)d) && (normal((float)x) || x == 0); }

// A thread's counters, if they are ON.
template <typename T, bool ON> struct Histograms {
    struct Shared {};
    __device__ Histograms(Shared &, const Rule<T> &) {}
    template <int E> __device__ void add(const Rule<T> &, const T (&)[E], const T (&)[E], const T (&)[E]) {}
    __device__ void publish(u64 *) {}
};
template <typename T> struct Histograms<T, true> {
    typedef HistogramsShared<T> Shared;
    enum { MOST = 31 }; // additions of up to 8 pairs to fields of 8 bits
    HistogramsShared<T> &s;
    u32 even[KINDS], odd[KINDS], added;
    // By all threads of a block.
    __device__ Histograms(HistogramsShared<T> &s_, const Rule<T> &rule) : s(s_), added(0) {
        prepare(s, rule);
        if (threadIdx.x < HISTOGRAM_BINS) s.bins[threadIdx.x] = 0;
#pragma unroll
        for (u32 h = 0; h < KINDS; h++) even[h] = odd[h] = 0;
    }

    // 4 x the field of d / x, which is about q.
    template <u32 H> __device__ u32 quotient_field(float q, T d, T x) const {
        const u32 bits = bits_of(q), e = (bits + bits + 2 * HALF_BINADE) >> 24;
        const T last = s.last[H][e], half = Real<T>::of((bits_of(last) & Real<T>::EXPONENT) - Real<T>::DIGITS * Real<T>::UNIT);
        return s.below[H][e] + (Real<T>::fused(-half, x, Real<T>::fused(-last, x, d)) > 0 ? 4 : 0);
    }
    // That of an exact value.
    __device__ u32 epsilon_field(T value) const {
        const u32 bits = bits_of((float)value), e = (bits + bits) >> 24;
        return s.below[BY_EPSILON][e] + (value > s.last[BY_EPSILON][e] ? 4 : 0);
    }

    // E finite pairs with these measures. All lanes of a wavefront.
    template <int E> __device__ void add(const Rule<T> &rule, const T (&d)[E], const T (&m)[E], const T (&bound)[E]) {
        static_assert(E <= 8, "fields of 4 bits");
        u32 some[KINDS] = {0, 0, 0};
        bool doubt = false;
#pragma unroll
        for (int i = 0; i < E; i++) {
            const bool differs = d[i] > 0, large = differs && m[i] > Real<T>::small();
            const float numerator = (float)d[i], relative = numerator * reciprocal((float)m[i]), ratio = numerator * reciprocal((float)bound[i]);
            // By 2^-e, which is subnormal for the largest e.
            const typename Real<T>::Bits inverse = (typename Real<T>::Bits)(2 * Real<T>::BIAS) * Real<T>::UNIT - bits_of(rule.binade(m[i]));
            const T epsilon = d[i] * Real<T>::of(inverse ? inverse : Real<T>::UNIT / 2);
            some[BY_RELATIVE] += (u32)large << quotient_field<BY_RELATIVE>(relative, d[i], m[i]);
            some[BY_RATIO] += (u32)differs << quotient_field<BY_RATIO>(ratio, d[i], bound[i]);
            some[BY_EPSILON] += (u32)differs << epsilon_field(epsilon);
            // Quotients may round to 0.
            doubt |= differs && !(ratio >= exp2_f32(-126) && fits(d[i], bound[i]));
            doubt |= large && !(relative >= exp2_f32(-126) && (sizeof(T) == 4 || fits(d[i], m[i])));
            // Few tables are read at once: each takes registers.
            if (i % 2) compiler_barrier();
        }
        if (wavefront_any(doubt)) {
            if (doubt) add_exact(rule, d, m);
#pragma unroll
            for (u32 h = 0; h < KINDS; h++) some[h] = doubt ? 0 : some[h];
        }
#pragma unroll
        for (u32 h = 0; h < KINDS; h++) even[h] += some[h] & 0x0f0f0f0fu, odd[h] += some[h] >> 4 & 0x0f0f0f0fu;
        if (++added == MOST) share();
    }
    template <int E> __device__ void add_exact(const Rule<T> &rule, const T (&d)[E], const T (&m)[E]) {
#pragma unroll 1
        for (u32 i = 0; i < KINDS * E; i++) {
            const u32 h = i / E;
            const T x = pick(d, i % E), y = pick(m, i % E);
            if (x > 0 && (h != BY_RELATIVE || y > Real<T>::small())) atomicAdd(&s.bins[exact_bin(rule, h, x, y)], 1u);
        }
    }

    // Adds the counters to the block's bins. All lanes of a subgroup.
    __device__ void share() {
#pragma unroll
        for (u32 h = 0; h < KINDS; h++) {
            share(first_bin(h), even[h]), share(first_bin(h) + 1, odd[h]);
            even[h] = odd[h] = 0;
        }
        added = 0;
    }
    // Four fields of 8 bits, every other one from bin `first` on.
    __device__ void share(u32 first, u32 fields) {
#pragma unroll 1
        for (u32 i = 0; i < 2; i++) {
            // Two of 16 bits: sums of up to 32 lanes.
            const u32 sums = subgroup_sum(fields >> (8 * i) & 0x00ff00ffu), bin = first + 2 * i;
            if (lane_of() == 0 && (sums & 0xffff)) atomicAdd(&s.bins[bin], sums & 0xffff);
            if (lane_of() == 0 && sums >> 16) atomicAdd(&s.bins[bin + 4], sums >> 16);
        }
    }

    // Adds all to the workspace's bins, by all threads of a block.
    __device__ void publish(u64 *bins) {
        share();
        __syncthreads();
        if (threadIdx.x < HISTOGRAM_BINS && s.bins[threadIdx.x]) atomicAdd(&bins[threadIdx.x], (u64)s.bins[threadIdx.x]);
    }
};
