// Histograms: pairs that differ, by the relative difference, the epsilon difference and the ratio to the tolerance. The work does not depend on the data.
//
//   for each of the three values d / x of a pair:
//       e = about log2 (d / x), the difference of their patterns: linear between powers of two, so that it is off by up to 0.087
//       bin = that below or that above last[e], by whether d / x rounds to more   no e has the ends of two bins: last[e] is the largest number of the one below
//       counter += 16^(field of the bin)                                          eight fields of 4 bits; these are added to fields of 8 bits before they overflow, and those, rarely, to the block's bins
//   pairs near the ends of the range: quotients and comparisons with all ends        (rare)
//
// A quotient is tested against the largest number of a bin as maxima.h tests it against a maximum.
#pragma once
#include "platform.h"
#include "verify/maxima.h"

enum { BY_RELATIVE, BY_EPSILON, BY_RATIO, KINDS };
// The first bin of each histogram that has a field; bins of quotients that are 0 have none.
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

// The bin of a pair that differs, by its exact value. It loops, since rare code should not take registers; for the relative difference the reference is not small.
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

// Outside these limits the logarithms of d and x decide nothing: entries are used again, remainders may underflow, and quotients may round to 0. A smaller d counts as `least_d`, which is in the same bins if x is `plain` or more. A smaller
// binade or bound counts as `least_x`: both are so far below `least_d` that the quotient is in the last bin.
template <typename T> struct HistogramRange;
template <> struct HistogramRange<float> {
    static __device__ float least_d() { return exp2_f32(-78); }
    static __device__ float least_x() { return exp2_f32(-86); }
    static __device__ float plain() { return exp2_f32(-40); }
    static __device__ float most() { return exp2_f32(40); }
};
template <> struct HistogramRange<double> {
    static __device__ double least_d() { return exp2_f64(-900); }
    static __device__ double least_x() { return exp2_f64(-1000); }
    static __device__ double plain() { return exp2_f64(-800); }
    static __device__ double most() { return exp2_f64(60); }
};

// The largest number of the bin that ends where a quotient may be, and what quotients up to it add to the counter; those above it add 16 times as much. Where no bin ends, either none is above `last`, or all are.
// Half of the distance from `last` to the next number follows from its exponent. NVIDIA's GPUs take fewer instructions if it is in the table, too; on AMD's, fewer blocks would fit a compute unit.
template <typename T, bool WITH_HALF> struct alignas(2 * sizeof(T)) HistogramEntry {
    T last;
    u32 below;
    HistogramEntry() = default;
    __device__ HistogramEntry(T last_, u32 below_) : last(last_), below(below_) {}
    // last x - d, and half of the distance times x more.
    __device__ T rest(T d, T x) const { return Real<T>::fused(last, x, -d); }
    __device__ T rest_and_half(T d, T x) const {
        const T binade = Real<T>::of(bits_of(last) & Real<T>::EXPONENT), digits = Real<T>::of((typename Real<T>::Bits)(Real<T>::BIAS - Real<T>::DIGITS) * Real<T>::UNIT);
        return Real<T>::fused(binade, x * digits, rest(d, x));
    }
};
template <typename T> struct alignas(16) HistogramEntry<T, true> {
    T last, half;
    u32 below;
    HistogramEntry() = default;
    __device__ HistogramEntry(T last_, u32 below_) : last(last_), half(Real<T>::of(half_of<T>(bits_of(last_)))), below(below_) {}
    __device__ T rest(T d, T x) const { return Real<T>::fused(last, x, -d); }
    __device__ T rest_and_half(T d, T x) const { return Real<T>::fused(half, x, rest(d, x)); }
};

// What the threads of a block share; entries by e modulo ENTRIES.
template <typename T> struct HistogramsShared {
    enum : i32 { ENTRIES = sizeof(T) == 4 ? 256 : 64 };
    typedef HistogramEntry<T, LIKE_NVIDIA> Entry;
    Entry entries[KINDS][ENTRIES];
    u32 bins[HISTOGRAM_BINS];
    // That of d / x. Of f64, whose table has entries for the binades around 1 only, the unit of epsilon differences is one.
    template <u32 H> __device__ const Entry &entry(float d, float x, const Rule<T> &) const {
#if defined(__CUDA_ARCH__)
        // One instruction takes the exponent to an address. Twice a pattern is without its sign.
        const u32 of_d = bits_of(Real<T>::larger(d, HistogramRange<T>::least_d()));
        return *(const Entry *)shared_address(__dp4a(minus_twice(2 * (of_d + HALF_BINADE), bits_of(x)), (u32)sizeof(Entry) << 24, shared_offset(entries[H])));
#else
        // Of patterns, since clang would make d a canonical number first.
        const u32 least = bits_of(HistogramRange<T>::least_d()), of_d = bits_of(d) < least ? least : bits_of(d);
        return entries[H][(of_d - bits_of(x) + HALF_BINADE) >> 23 & (ENTRIES - 1)];
#endif
    }
    template <u32 H> __device__ const Entry &entry(double d, double x, const Rule<T> &rule) const {
        const i32 e = ((i32)((u32)(bits_of(d) >> 32) - (u32)(bits_of(x) >> 32) + HALF_BINADE / 8) >> 20) + (H == BY_EPSILON ? rule.mantissa_bits : 0);
        return entries[H][(e < -ENTRIES / 2 ? -ENTRIES / 2 : e >= ENTRIES / 2 ? ENTRIES / 2 - 1 : e) & (ENTRIES - 1)];
    }
    enum : i32 { HALF_BINADE = 0x00400000 };
    // By all threads of a block. Quotients of an entry are between 2^(e - 1/2) and 2^(e + 1/2), about; epsilon differences, whose x is a power of two, between 0.75 and 1.5 times 2^e. So no entry has two ends.
    __device__ void prepare(const Rule<T> &rule) {
        for (u32 i = threadIdx.x; i < KINDS * ENTRIES; i += THREADS) {
            const i32 h = i / ENTRIES, at = i % ENTRIES;
            const double unit = h == BY_EPSILON ? pow2(-rule.mantissa_bits) : 1, power = pow2(at < ENTRIES / 2 ? at : at - ENTRIES) * (sizeof(T) == 4 ? 1 : unit);
            const double low = (h == BY_EPSILON ? 0.75 : 0.66) * power, high = (h == BY_EPSILON ? 1.5 : 1.51) * power;
            T last = 0;
            u32 field = 0;
#pragma unroll 1
            for (u32 k = 0; k + 1 < fields_of(h); k++) {
                const double end = ENDS[h][k] * unit;
                field += end <= low;
                if (end > low && end < high) last = last_of<T>(h, k) * (T)unit;
            }
            const u32 below = 1u << 4 * field;
            entries[h][at] = last > 0 ? Entry(last, below) : field > 0 ? Entry(0, below >> 4) : Entry(Real<T>::max(), below);
        }
    }
};

// A thread's counters, present if ON.
template <typename T, bool ON> struct Histograms {
    struct Shared {};
    __device__ Histograms(Shared &, const Rule<T> &) {}
    template <int E> __device__ void add(const Rule<T> &, T (&)[E], const T (&)[E], T (&)[E]) {}
    __device__ void publish(u64 *) {}
};
template <typename T> struct Histograms<T, true> {
    typedef HistogramsShared<T> Shared;
    typedef HistogramRange<T> Range;
    enum { MOST = 255 / 15 }; // sums of fields of 4 bits that fields of 8 bits hold
    Shared &s;
    const bool small; // whether binades or bounds may be small, or bounds of small references so large that quotients round to 0
    const typename Real<T>::Bits lowest; // of the binades
    u32 fields[KINDS], added; // of 4 bits, and how often E pairs were added to them
    u32 even[KINDS], odd[KINDS], carried; // of 8 bits
    // By all threads of a block.
    __device__ Histograms(Shared &s_, const Rule<T> &rule) : s(s_), small(!(rule.atol >= Range::plain() && rule.bound(0) <= 1) || Real<T>::of(rule.lowest) < Range::plain()), lowest(bits_of(Real<T>::larger(Real<T>::of(rule.lowest), Range::least_x()))), added(0), carried(0) {
        s.prepare(rule);
        if (threadIdx.x < HISTOGRAM_BINS) s.bins[threadIdx.x] = 0;
#pragma unroll
        for (u32 h = 0; h < KINDS; h++) fields[h] = even[h] = odd[h] = 0;
    }
    // What d / x adds to its counter. Epsilon differences are exact.
    template <u32 H> __device__ u32 counted(const Rule<T> &rule, T d, T x) const {
        const typename Shared::Entry entry = s.template entry<H>(d, x, rule);
        return shift_if_negative<4>(entry.below, H == BY_EPSILON ? entry.rest(d, x) : entry.rest_and_half(d, x));
    }
    // Whether a number is below `least`, and not 0.
    static __device__ bool below(T x, T least) { return bits_of(x) - 1 < bits_of(least) - 1; }
    // Counts E finite pairs with these values. Zeros replace differences whose bins are found another way, and the least bound in the range those below it. Called by all lanes of a wavefront.
    template <int E> __device__ void add(const Rule<T> &rule, T (&d)[E], const T (&m)[E], T (&bound)[E]) {
        static_assert(E <= 15, "fields of 4 bits");
        // No number is above the sum of all, nor its bound above that of the sum.
        T sums[E];
#pragma unroll
        for (int i = 0; i < E; i++) sums[i] = d[i] + m[i];
#pragma unroll
        for (int half = E / 2; half > 0; half /= 2)
#pragma unroll
            for (int i = 0; i < half; i++) sums[i] += sums[half + i];
        bool doubt = !(sums[0] <= Range::most() && rule.bound(sums[0]) <= Range::most());
        if (small)
#pragma unroll
            for (int i = 0; i < E; i++) doubt |= below(d[i], Range::least_d()), bound[i] = Real<T>::larger(bound[i], Range::least_x());
        if (wavefront_any(doubt)) {
            add_exact(rule, d, m, doubt);
#pragma unroll
            for (int i = 0; i < E; i++) d[i] = doubt ? 0 : d[i];
        }
#pragma unroll
        for (int i = 0; i < E; i++) {
            // A reference that is small has no relative difference here.
            add_if_greater(fields[BY_RELATIVE], counted<BY_RELATIVE>(rule, d[i], m[i]), d[i], T(0), m[i], Real<T>::small());
            add_if_greater(fields[BY_EPSILON], counted<BY_EPSILON>(rule, d[i], rule.binade(m[i], lowest)), d[i], T(0));
            add_if_greater(fields[BY_RATIO], counted<BY_RATIO>(rule, d[i], bound[i]), d[i], T(0));
            // Only a few tables are read at once, because each takes registers.
            if (i % 2) compiler_barrier();
        }
        enum { STEPS = 15 / E };
        if (STEPS == 1 || ++added == STEPS) carry();
    }
    __device__ void carry() {
#pragma unroll
        for (u32 h = 0; h < KINDS; h++) even[h] += fields[h] & 0x0f0f0f0fu, odd[h] += fields[h] >> 4 & 0x0f0f0f0fu, fields[h] = 0;
        added = 0;
        if (++carried == MOST) share();
    }
    // Counts the pairs of a lane if it is in doubt. All lanes of a wavefront stay together: nvcc would otherwise not know that they do afterwards.
    template <int E> __device__ void add_exact(const Rule<T> &rule, const T (&d)[E], const T (&m)[E], bool in_doubt) {
#pragma unroll 1
        for (u32 i = 0; i < KINDS * E; i++) {
            const u32 h = i / E;
            const T x = pick(d, i % E), y = pick(m, i % E);
            const u32 bin = exact_bin(rule, h, x, y);
            if (in_doubt && x > 0 && (h != BY_RELATIVE || y > Real<T>::small())) atomicAdd(&s.bins[bin], 1u);
        }
    }

    // Adds the counters to the block's bins. Called by all lanes of a subgroup.
    __device__ void share() {
#pragma unroll
        for (u32 h = 0; h < KINDS; h++) {
            share(first_bin(h), even[h]), share(first_bin(h) + 1, odd[h]);
            even[h] = odd[h] = 0;
        }
        carried = 0;
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

    // Adds the block's bins to those of the workspace. Called by all threads of a block.
    __device__ void publish(u64 *bins) {
        carry(), share();
        __syncthreads();
        if (threadIdx.x < HISTOGRAM_BINS && s.bins[threadIdx.x]) atomicAdd(&bins[threadIdx.x], (u64)s.bins[threadIdx.x]);
    }
};
