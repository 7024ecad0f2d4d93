// Pairs of formats known at compile time, dense and aligned to 16 bytes: how their elements are loaded and decoded.
#pragma once
#include "platform.h"
#include "two.h"
#include "verify.h"

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
    // Elements beyond these are looked at closely, where all metrics are wanted. bf16 patterns below 2^120 are ordered as those of f16, for
    // which NVIDIA's instructions take magnitudes; above, some are what f16 has for NaN.
    static constexpr bool ODD_WHEN_LARGE = PACKED && A == BF16;
    static __device__ auto large() { return ODD_WHEN_LARGE ? Real<float>::power(119) : Real<typename Either<WIDE>::type>::max(); }
    // Whether elements are counted two at a time as f16, which has all their values: where the conversion is an instruction.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
    static constexpr bool HALVES = SAME && (A == F8E4M3 || A == F8E5M2 || A == I8 || A == U8);
#else
    static constexpr bool HALVES = false;
#endif
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
    // Selects instead of an index that is not known: registers have no addresses. Every index here is a constant from the beginning.
    template <int WORDS, int LAST = WORDS - 1> static __device__ u32 word(const u32 (&words)[WORDS], u32 at) {
        const u32 last = words[LAST];
        if constexpr (LAST == 0) return last;
        else {
            const u32 before = word<WORDS, LAST - 1>(words, at);
            return at == LAST ? last : before;
        }
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
        if constexpr (DTYPE == F8E5M2 || (DTYPE == F8E4M3 && __CUDA_ARCH__ >= 890)) {
            const u32 two = halves<DTYPE>(word(words, v / 4), v / 2 & 1, 0);
            return f16_to_f32(v & 1 ? two >> 16 : two & 0xffff);
        }
#endif
        return decode<DTYPE>(pick<DTYPE>(words, v));
    }
    // Two bytes of a word, the lower or the upper, as f16; e4m3 from architecture 8.9 on. `magic` is what `magic_of_halves` returns, for integers.
    template <u32 DTYPE> static __device__ u32 halves(u32 word, u32 upper, u32 magic) {
        u32 x = 0;
#if defined(__CUDA_ARCH__)
        if constexpr (DTYPE == F8E4M3) asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(x) : "h"((u16)(word >> 16 * upper)));
        else if constexpr (DTYPE == F8E5M2) x = __byte_perm(word, 0, upper ? 0x3424 : 0x1404);
        // A byte becomes the last of the fraction of 1024; for signed ones 128 is added first.
        else x = Two<F16>::minus(__byte_perm(DTYPE == I8 ? word ^ 0x80808080u : word, magic, upper ? 0x4342 : 0x4140), DTYPE == I8 ? 0x64806480u : 0x64006400u);
#endif
        return x;
    }
    // Upper bytes of halves, in a register: compilers would copy a constant there for every word.
    static __device__ u32 magic_of_halves() {
        u32 magic = 0x64646464u;
#if defined(__CUDA_ARCH__)
        asm volatile("" : "+r"(magic));
#endif
        return magic;
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
    // How many steps of the result's format two elements are apart.
    static __device__ u64 apart(u64 a, u64 r) {
        const i64 x = ordinal<A>(a), y = ordinal<A>(SAME ? r : nearest<A>(decode<R>(r)));
        return x > y ? (u64)(x - y) : (u64)(y - x);
    }
    static __device__ u64 distance(const Raw &raw, u32 v) { return apart(pick<A>(raw.a, v), pick<R>(raw.r, v)); }
    static __device__ u64 bits_a(const VerifyParams &p, u64 index) { return one<A>(p.a, index); }
    static __device__ u64 bits_r(const VerifyParams &p, u64 index) { return one<R>(p.r, index); }
    static __device__ Number decode_a(const VerifyParams &, u64 bits) { return decode<A>(bits); }
    static __device__ Number decode_r(const VerifyParams &, u64 bits) { return decode<R>(bits); }

    // The result's format as a row of numbers from zero up.
    static __device__ u64 largest_ordinal() { return largest_of(format_of(A)); }
    static __device__ u64 ordinal_of(Number x) { return (u64)ordinal<A>(nearest<A>(x)); }
    static __device__ Number value_of(u64 place) { return decode<A>(place << format_of(A).pad_bits); }
    // How many steps of it a number of the format is from the nearest to x, where both formats are equal.
    static __device__ u64 steps(Number x, Number r) { return apart(nearest<A>(x), nearest<A>(r)); }
    // How many references half a binade has at most, where those are few and both formats are equal.
    enum { PLACES = INTEGERS ? 1 << (BITS_A - 2) : SAME && format_of(A).mantissa_bits > 0 && format_of(A).mantissa_bits < 8 ? 1 << (format_of(A).mantissa_bits - 1) : 0 };
    // Differences from a reference to results of its binade or the one below are multiples of this, where both formats are equal.
    static __device__ Number step(Number r) { return INTEGERS ? 1 : spacing(r) / 2; }
    // The distance of a reference to the next in its format.
    static __device__ Number spacing(Number r) {
        if (INTEGERS) return 1;
        constexpr Format f = format_of(R);
        constexpr i32 lowest = 1 - f.bias;
        const i32 e = Real<Number>::exponent(r);
        return (Number)pow2((e < lowest ? lowest : e) - (i32)f.mantissa_bits);
    }
};
