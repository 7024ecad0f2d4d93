// What the screens of `hip/verify_screen.h` let through is lost to the report. Here they are compiled as plain C++ and asked about elements of
// many kinds, after other elements have become known: none that would raise a measure or a hint may pass.
//
// Arguments: how many times each pair of formats is tried, with tolerances and data of its own. Prints what passed wrongly, and for each pair
// how many elements were asked about, had to be stopped and were stopped. Exits with 1 if some passed wrongly.
#include <hip/hip_runtime.h>
#include "verify_dense.h"

static u64 state = 88172645463325252ull;
static u64 random_bits() {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state * 0x2545f4914f6cdd1dull >> 16;
}
static u32 below(u32 n) { return (u32)(random_bits() % n); }
static double uniform() { return (double)(i64)(random_bits() % (1 << 24)) / (1 << 23) - 1; }

template <u32 DTYPE> static u64 encode(double x) {
    if constexpr (DTYPE == F64) return bits_of(x);
    else if constexpr (DTYPE == F32) return bits_of((float)x);
    else if constexpr (format_of(DTYPE).specials == INTEGER) return (u64)(i64)nearbyint(DTYPE == U8 ? fmin(fmax(x, 0), 255) : fmin(fmax(x, -128), 127)) & 0xff;
    else return encode_from_f32<DTYPE>((float)x);
}

// One kind of data: unrelated numbers, relative noise, absolute noise, a few steps, zeros, a wide range, or unrelated numbers about as small as
// the result's format has them.
template <u32 A, u32 R> struct Data {
    static constexpr Format f = format_of(A);
    static constexpr bool INTEGERS = f.specials == INTEGER;
    u32 kind = below(7);
    double scale = INTEGERS ? pow2((i32)below(9)) : kind == 6 ? pow2(1 - f.bias - (i32)f.mantissa_bits + (i32)below(8)) : pow2((i32)below(12) - 6), noise = pow2(-(i32)below(14));
    void next(u64 &a, u64 &r) const {
        double y = uniform() * scale, x = y;
        if (kind == 5) y *= pow2(-(i32)below(30));
        switch (kind) {
        case 0:
        case 6: x = uniform() * scale; break;
        case 2: x = y + uniform() * noise * scale; break;
        case 3: break;
        case 4: x = below(2) ? 0 : y; break;
        default: x = y * (1 + uniform() * noise);
        }
        a = encode<A>(x);
        r = encode<R>(y);
        if (kind == 3) a = INTEGERS ? encode<A>(y + below(5) - 2.0) : a + below(5) - 2;
        // Extreme results, and references that are powers of two.
        if (below(64) == 0) a = encode<A>(below(2) ? scale : -scale);
        if (below(64) == 0) r = encode<R>(scale * pow2(-(i32)below(5)));
    }
};

static Shared shared;
static u64 asked, stopped, had_to, wrong;

template <u32 A, u32 R> static void attempt() {
    typedef Dense<A, R> Pair;
    typedef typename Pair::Number T;
    constexpr Format f = format_of(A);
    const double tolerances[] = {0, 1e-5, 3e-4, 1e-3, 0.016, 0.25, 1, 1e38, 1e39, 1e306};
    VerifyParams p;
    memset(&p, 0, sizeof p);
    p.rtol = tolerances[below(10)], p.atol = below(4) ? tolerances[below(10)] : p.rtol;
    p.n = 1 << 20, p.dtype_a = A, p.dtype_r = R;
    if (!Pair::INTEGERS) p.min_exponent = 1 - f.bias, p.max_exponent = f.specials == SINGLE_NAN ? f.bias + 1 : f.bias, p.mantissa_bits = f.mantissa_bits;
    const Rule<T> rule(p);
    const Data<A, R> data;
    const u64 segment = 5, known_segment = below(10);
    // What is left out here is looked at closely.
    auto fits = [](T x, T y) { return is_finite(x) && is_finite(y) && Real<T>::abs(x - y) <= Pair::large() && Real<T>::abs(y) <= Pair::large(); };
    auto values = [&](u64 a, u64 r, T d, T m, double(&value)[MEASURES]) {
        for (double &x : value) x = 0;
        if (d > 0) measure<T>(p, rule, d, m, Pair::apart(a, r), value);
    };

    memset(&shared, 0, sizeof shared);
    double worst[MEASURES] = {0};
    T largest = 0;
    for (u32 i = 1u << below(12); i > 0; i--) {
        u64 a, r;
        data.next(a, r);
        const T x = Pair::decode_a(p, a), y = Pair::decode_r(p, r), d = Real<T>::abs(x - y), m = Real<T>::abs(y);
        if (!fits(x, y)) continue;
        double value[MEASURES], hint[2];
        values(a, r, d, m, value);
        for (int k = 0; k < MEASURES; k++) worst[k] = Real<double>::larger(worst[k], value[k]);
        hints<T>(shared, rule, d, m, hint);
        for (int k = 0; k < 2; k++)
            if (hint[k] > 0) shared.hints[k] = bits_of(hint[k]);
        largest = Real<T>::larger(largest, m);
    }
    for (int k = 0; k < MEASURES; k++) shared.keys[k] = k == ULP && sizeof(T) == 4 ? ulp_key_of(worst[k], known_segment) : key_of(worst[k], known_segment);
    shared.magnitudes[1] = bits_of((double)largest);
    screen<Pair>(p, shared, segment, below(8) == 0);
    Limits<T> known;
    known.take(p, shared, segment);

    auto ask = [&](u64 a, u64 r) {
        const T x = Pair::decode_a(p, a), y = Pair::decode_r(p, r), d = Real<T>::abs(x - y), m = Real<T>::abs(y);
        if (!fits(x, y)) return;
        double value[MEASURES];
        values(a, r, d, m, value);
        bool raises = d > rule.bound((T)f64_of(shared.hints[0]), m, rule.atol) || d > rule.bound(rule.rtol, m, (T)f64_of(shared.hints[1]));
        for (int k = 0; k < MEASURES; k++) {
            const double known = k == ULP && sizeof(T) == 4 ? ulp_key_value(shared.keys[k]) : key_value(shared.keys[k]);
            raises |= value[k] > known || (value[k] == known && known > 0 && segment < known_segment);
        }
        const bool stops = above<Pair, true>((const char *)shared.space, 0, y, d);
        asked++, stopped += stops, had_to += raises;
        // What is stopped is tested again, measure by measure.
        if (!raises || (stops && known.may_exceed(p, rule, d, m, [&] { return Pair::apart(a, r); }))) return;
        if (wrong++ < 20) printf("passed wrongly: %.9g against %.9g, formats %u and %u, rtol %g, atol %g, kind %u\n", (double)x, (double)y, A, R, p.rtol, p.atol, data.kind);
    };
    for (u32 i = 0; i < 100000; i++) {
        u64 a, r;
        data.next(a, r);
        ask(a, r);
    }
    // Every reference of a short format with every result (8 bits) or results near it.
    if constexpr (f.bits <= 16 && Pair::SAME) {
        const u64 patterns = 1ull << f.bits;
        const i32 reach = f.bits == 8 ? 128 : 3;
        for (u64 r = 0; r < patterns; r++)
            for (i32 k = -reach; k <= reach; k++) ask((r + (u64)(i64)k) & (patterns - 1), r);
    }
}

template <u32 A, u32 R> static void try_pair(const char *name, int times) {
    asked = stopped = had_to = 0;
    for (int i = 0; i < times; i++) attempt<A, R>();
    printf("%s: %llu elements, %llu had to be stopped, %llu were\n", name, asked, had_to, stopped);
}

int main(int count, char **arguments) {
    const int times = count > 1 ? atoi(arguments[1]) : 20;
    try_pair<F64, F64>("f64 f64", times);
    try_pair<F32, F32>("f32 f32", times);
    try_pair<F16, F16>("f16 f16", times);
    try_pair<BF16, BF16>("bf16 bf16", times);
    try_pair<F16, F32>("f16 f32", times);
    try_pair<BF16, F32>("bf16 f32", times);
    try_pair<F8E4M3, F8E4M3>("f8e4m3 f8e4m3", times);
    try_pair<F8E5M2, F8E5M2>("f8e5m2 f8e5m2", times);
    try_pair<F8E4M3, F32>("f8e4m3 f32", times);
    try_pair<I8, I8>("i8 i8", times);
    try_pair<U8, U8>("u8 u8", times);
    return wrong > 0;
}
