#!/usr/bin/env python3
"""Writes tensor_core_sums.txt: sums of tensor cores, from exact fractions and independent of the crate.

    python3 make_tensor_core_sums.py [ROUNDS [SEED]] > tensor_core_sums.txt

A line is a model as `reference --accumulate` names it, the bits of c, the products as pairs of bits, and the bits of the result. Bits are those of the operand's
format (tf32 and accumulators of f32: of f32).
"""
import random
import sys
from fractions import Fraction as Q

# name: exponent bits, fraction bits, has infinities, fraction bits that are stored and ignored
FORMATS = {"f16": (5, 10, True, 0), "bf16": (8, 7, True, 0), "tf32": (8, 10, True, 13), "e4m3": (4, 3, False, 0), "e5m2": (5, 2, True, 0), "f32": (8, 23, True, 0)}


def two(e):
    return Q(2) ** e


class Number:
    """What hardware sees of a number: its value, and an exponent not below that of the least normal number."""

    def __init__(self, fmt, bits):
        eb, fb, inf, ignored = FORMATS[fmt]
        bits >>= ignored
        bias = 2 ** (eb - 1) - 1
        negative, field, fraction = bits >> (eb + fb), bits >> fb & (2**eb - 1), bits & (2**fb - 1)
        top = field == 2**eb - 1
        self.nan = top and (fraction != 0 if inf else fraction == 2**fb - 1)
        self.inf = top and inf and fraction == 0
        self.sign = -1 if negative else 1
        self.exponent = max(field, 1) - bias
        self.value = self.sign * Q(fraction + (2**fb if field else 0), 2**fb) * two(self.exponent)


def floor_log2(q):
    """Of a positive fraction."""
    e = q.numerator.bit_length() - q.denominator.bit_length()
    while two(e) > q:
        e -= 1
    while two(e + 1) <= q:
        e += 1
    return e


def toward_zero(q, unit):
    n = abs(q) / unit
    return (1 if q > 0 else -1) * (n.numerator // n.denominator) * unit


def nearest(q, unit):
    n = q / unit
    low = n.numerator // n.denominator
    rest = n - low
    up = rest > Q(1, 2) or (rest == Q(1, 2) and low % 2 == 1)
    return (low + up) * unit


def encode(q, fb, eb):
    """The bits of a number that the format has, or of an infinity beyond it; zeros are positive."""
    bias = 2 ** (eb - 1) - 1
    if q == 0:
        return 0
    sign = 1 << (eb + fb) if q < 0 else 0
    q = abs(q)
    if q >= two(bias + 1):
        return sign | (2**eb - 1) << fb
    e = max(floor_log2(q), 1 - bias)
    digits = q / two(e - fb)
    assert digits.denominator == 1
    digits = digits.numerator
    return sign | (digits if digits < 2**fb else (e + bias) << fb | digits - 2**fb)


class Accumulator:
    """What sums are rounded to."""

    def __init__(self, name):
        self.f16 = name == "f16"
        self.fmt = "f16" if self.f16 else "f32"
        self.eb, self.fb = (5, 10) if self.f16 else (8, 23)
        self.kept = {"f16": 10, "f32": 23, "e8m13": 13}[name]
        self.nan = 0x7FFF if self.f16 else 0x7FFFFFFF

    def unit(self, q, digits):
        least = -14 if self.f16 else -126
        return two(max(floor_log2(abs(q)) if q else least, least) - digits)

    def round(self, q):
        unit = self.unit(q, self.kept)
        return encode(nearest(q, unit) if self.f16 else toward_zero(q, unit), self.fb, self.eb)

    def add(self, x, y):
        """IEEE 754 addition to nearest of numbers of the format, but for NaN, which is one, and the sign of a zero, never both of whose terms are -0."""
        a, b = Number(self.fmt, x), Number(self.fmt, y)
        if a.nan or b.nan or (a.inf and b.inf and a.sign != b.sign):
            return self.nan
        if a.inf or b.inf:
            return x if a.inf else y
        sum = a.value + b.value
        return encode(nearest(sum, self.unit(sum, self.fb)), self.fb, self.eb)


def fused(acc, c, products, bits, zero):
    """c plus products of numbers, truncated, summed and rounded."""
    n = Number(acc.fmt, c)
    nan = n.nan
    infinities = [n.sign] if n.inf else []
    terms = [(n.value, n.exponent if n.value else zero)]
    for a, b in products:
        nan = nan or a.nan or b.nan or (a.inf and not b.inf and b.value == 0) or (b.inf and not a.inf and a.value == 0)
        if a.inf or b.inf:
            infinities.append(a.sign * b.sign)
        p = a.value * b.value
        terms.append((p, a.exponent + b.exponent if p else zero))
    if nan or (1 in infinities and -1 in infinities):
        return acc.nan
    if infinities:
        return (0 if infinities[0] > 0 else 1 << (acc.eb + acc.fb)) | (2**acc.eb - 1) << acc.fb
    top = max(e for _, e in terms)
    return acc.round(sum(toward_zero(v, two(top - bits)) for v, _ in terms))


def chain(acc, c, pairs, formats, group, bits, zero):
    for k in range(0, len(pairs), group):
        numbers = [(Number(formats[0], a), Number(formats[1], b)) for a, b in pairs[k : k + group]]
        c = fused(acc, c, numbers, bits, zero)
    return c


def as_f16(fmt, bits):
    """An fp8 number as f16 holds it: its subnormal numbers may be normal ones there."""
    n = Number(fmt, bits)
    if n.nan:
        return Number("f16", 0x7FFF)
    sign = 0 if n.sign > 0 else 0x8000
    return Number("f16", sign | (0x7C00 if n.inf else encode(abs(n.value), 10, 5)))


def emulated(acc, c, pairs, formats):
    for k in range(0, len(pairs), 32):
        part = pairs[k : k + 32] + [(0, 0)] * (32 - len(pairs[k : k + 32]))
        sum = 0
        for order in [i for i in range(32) if i % 4 < 2], [i for i in range(32) if i % 4 >= 2]:
            numbers = [(as_f16(formats[0], part[i][0]), as_f16(formats[1], part[i][1])) for i in order]
            sum = fused(acc, sum, numbers, 25, -21 if acc.f16 else -133)
        c = acc.add(sum, c)
    return c


def models():
    """name, formats, accumulator, group, bits, exponent of a zero."""
    for name, group, bits, zero in [("sm_70", 4, 23, -131), ("sm_75", 8, 24, -132), ("sm_75:group4", 4, 23, -131), ("sm_80", 8, 24, -132), ("sm_89", 8, 24, -132),
                                    ("sm_90", 16, 25, -133), ("sm_90:group8", 8, 25, -133), ("sm_100", 16, 25, -133), ("sm_100:group8", 8, 25, -133)]:
        arch, *variant = name.split(":")
        model = ":".join([arch, "f16", *variant])
        yield model, ("f16", "f16"), "f32", group, bits, zero
        yield model + ":in_f16", ("f16", "f16"), "f16", group, bits, zero + 112
        if arch not in ("sm_70", "sm_75"):
            yield ":".join([arch, "bf16", *variant]), ("bf16", "bf16"), "f32", group, bits, zero
        if arch in ("sm_80", "sm_89", "sm_90", "sm_100"):
            yield ":".join([arch, "tf32", *(v.replace("8", "4") for v in variant)]), ("tf32", "tf32"), "f32", group // 2, bits, zero
    for a in "e4m3", "e5m2":
        for b in "e4m3", "e5m2":
            for arch, group, zero in ("sm_89", 16, -132), ("sm_90", 32, -133):
                yield f"{arch}:{a}_{b}", (a, b), "e8m13", group, 13, zero
                yield f"{arch}:{a}_{b}:in_f16", (a, b), "f16", group, 13, zero + 112
            yield f"sm_90:{a}_{b}:mma", (a, b), "f32", 32, None, None
            yield f"sm_90:{a}_{b}:mma:in_f16", (a, b), "f16", 32, None, None


def draw(rng, fmt, kind):
    """Bits of a number: of any magnitude, near one, subnormal, or special."""
    eb, fb, _, ignored = FORMATS[fmt]
    bias = 2 ** (eb - 1) - 1
    sign, fraction, low = rng.getrandbits(1) << (eb + fb), rng.getrandbits(fb), rng.getrandbits(ignored) if ignored else 0
    special = [0, 0, (2**eb - 1) << fb, (2**eb - 1) << fb | (2**fb - 1), (2**eb - 2) << fb | (2**fb - 1)]
    fields = {
        "any": rng.randrange(2**eb - 1),
        "near": bias + rng.randrange(-2, 3),
        "wide": min(max(bias + (rng.randrange(-14, 15) if eb == 8 else rng.randrange(-7, 6)), 0), 2**eb - 2),
        "low": rng.choice([0, 0, 1, 2]),
        "lowish": max(bias - rng.randrange(60, 70), 0) if eb == 8 else 0,
        "high": 2**eb - 2 - rng.randrange(3),
    }
    if kind == "special" and rng.random() < 0.12:
        bits, low = sign | rng.choice(special), 0
    else:
        bits = sign | fields["near" if kind == "special" else kind] << fb | fraction
    if rng.random() < 0.05:
        bits, low = sign, 0
    return bits << ignored | low


def main():
    print("# Written by make_tensor_core_sums.py.")
    rounds, seed = (int(x) for x in (sys.argv[1:] + [1, 20261126][len(sys.argv) - 1 :]))
    rng = random.Random(seed)
    for name, formats, into, group, bits, zero in models():
        acc = Accumulator(into)
        kinds = ["near", "wide", "wide", "any", "low", "lowish", "high", "special", "near", "wide", "special"]
        for case, kind in enumerate(kinds * rounds):
            other = rng.choice(["near", "wide", kind])
            k = rng.choice([1, 3, group, group, group + 1, 2 * group]) if group < 32 else rng.choice([1, 7, 30, 32, 32, 37])
            pairs = [(draw(rng, formats[0], kind), draw(rng, formats[1], other)) for _ in range(k)]
            c = draw(rng, acc.fmt, rng.choice(["near", "wide", "low", "special", kind]))
            if case % 3 == 0:
                c = 0
            if case % 4 == 1 and k > 2:
                # A product that another cancels, so that what is truncated decides.
                flip = 1 << (sum(FORMATS[formats[0]][:2]) + FORMATS[formats[0]][3])
                pairs[1] = (pairs[0][0] ^ flip, pairs[0][1])
            if bits is None:
                result = emulated(acc, c, pairs, formats)
            else:
                result = chain(acc, c, pairs, formats, group, bits, zero)
            print(name, f"{c:x}", " ".join(f"{a:x},{b:x}" for a, b in pairs), "=", f"{result:x}")


main()
