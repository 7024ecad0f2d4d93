#!/usr/bin/env python3
"""Writes format_tables.txt: the small number formats as ml_dtypes (PyPI) decodes and encodes them.

    pip install ml_dtypes numpy && python make_format_tables.py > format_tables.txt

decode NAME  one f32 pattern (hex) for each code, in order
encode NAME  f32 pattern, colon, code: every value halfway between two neighbours (and half a step beyond the largest)
             with its two f32 neighbours, in both signs, and special values
mx inputs    f32 patterns, 32 a block
mx RULE NAME for each of these blocks the code of its scale, then of its elements
"""

from fractions import Fraction

import ml_dtypes
import numpy as np

print(f"# Written by make_format_tables.py with ml_dtypes {ml_dtypes.__version__}.")

FLOATS = {
    "f8e4m3": (ml_dtypes.float8_e4m3fn, 256),
    "f8e5m2": (ml_dtypes.float8_e5m2, 256),
    "f8e4m3fnuz": (ml_dtypes.float8_e4m3fnuz, 256),
    "f8e5m2fnuz": (ml_dtypes.float8_e5m2fnuz, 256),
    "f6e2m3": (ml_dtypes.float6_e2m3fn, 64),
    "f6e3m2": (ml_dtypes.float6_e3m2fn, 64),
    "f4e2m1": (ml_dtypes.float4_e2m1fn, 16),
    "f8e8m0": (ml_dtypes.float8_e8m0fnu, 256),
}


def table(kind, name, words):
    print(kind, name)
    for i in range(0, len(words), 12):
        print(" ".join(words[i : i + 12]))


def hexes(values):
    return [f"{b:08x}" for b in values.view(np.uint32)]


def halfway(values):
    """Halfway points of the sorted finite values >= 0, and the one beyond the largest; each with its f32 neighbours."""
    v = np.unique(values[np.isfinite(values) & (values >= 0)]).astype(np.float64)
    mid = (v[1:] + v[:-1]) / 2
    beyond = v[-1] + (v[-1] - v[-2]) / 2
    mid = np.append(mid, beyond).astype(np.float32)
    up, down = np.float32(np.inf), np.float32(0)
    return np.concatenate([mid, np.nextafter(mid, down), np.nextafter(mid, up)])


SPECIAL = np.array([0, np.inf, np.nan, 2.0**-149, 2.0**-126, 2.0**-127, 1, 3.4028235e38, 1e30, 1e-30, 1 / 3], np.float32)

for name, (dtype, codes) in FLOATS.items():
    decoded = np.arange(codes, dtype=np.uint8).view(dtype).astype(np.float32)
    table("decode", name, hexes(decoded))
    inputs = np.concatenate([SPECIAL, halfway(decoded)])
    if name != "f8e8m0":  # which has no sign
        inputs = np.concatenate([inputs, -inputs])
    codes_out = inputs.astype(dtype).view(np.uint8)
    table("encode", name, [f"{h}:{c:02x}" for h, c in zip(hexes(inputs), codes_out)])

table("decode", "i4", hexes(np.arange(16, dtype=np.uint8).view(ml_dtypes.int4).astype(np.float32)))

# MX blocks: 32 inputs a row, then for each rule of scales and element format the scale's code and the 32 element codes of every row.
MX = [("f8e4m3", 8, 3), ("f8e5m2", 15, 2), ("f6e2m3", 2, 3), ("f6e3m2", 4, 2), ("f4e2m1", 2, 1), ("i8", 0, 6)]


def largest_of(name):
    return 127 / 64 if name == "i8" else float(ml_dtypes.finfo(FLOATS[name][0]).max)


rng = np.random.default_rng(1)


def below(largest):
    """A row whose largest magnitude is this one."""
    row = rng.uniform(-1, 1, size=32) * largest
    row[rng.integers(32)] = largest * rng.choice([-1, 1])
    return row


ROWS = [
    rng.normal(size=32),
    rng.normal(size=32) * 10.0 ** rng.uniform(-6, 6, size=32),
    np.arange(-16, 16) / 16 * 1.96875,  # just below 2: elements saturate
    rng.normal(size=32) * 2.0**-130,  # the scale's lower end
    rng.uniform(-1, 1, size=32) * 2.0**127,
    np.zeros(32),
]
# Where a rule goes on to the next scale: at the largest element value, halfway from the last number of as many fraction bits to the
# next power of two, and at that; each with its two f32 neighbours.
for name, emax, fraction_bits in MX:
    for edge in [largest_of(name) * 2.0**-emax, 2 - 2.0 ** -(fraction_bits + 1), 2.0]:
        edge = np.float32(edge * 0.125)
        ROWS += [below(x) for x in [np.nextafter(edge, np.float32(0)), edge, np.nextafter(edge, np.float32(1))]]
BLOCKS = np.stack(ROWS).astype(np.float32)


def floor_log2(x):
    """Of a fraction above 0."""
    e = x.numerator.bit_length() - x.denominator.bit_length()
    return e if x >= Fraction(2) ** e else e - 1


def exponent_of(rule, largest, name, emax, fraction_bits):
    if largest == 0:
        return -127
    m = Fraction(float(largest))
    if rule == "rceil":
        e = -floor_log2(Fraction(largest_of(name)) / m)  # ceil(log2(m / M))
    elif rule == "even":
        step = Fraction(2) ** (floor_log2(m) - fraction_bits)
        e = floor_log2((m / step + Fraction(1, 2)).__floor__() * step) - emax
    else:
        e = floor_log2(m) - emax
    return min(max(e, -127), 127)


table("mx", "inputs", hexes(BLOCKS.ravel()))
for rule in ["floor", "rceil", "even"]:
    for name, emax, fraction_bits in MX:
        words = []
        for row in BLOCKS.astype(np.float64):
            exponent = exponent_of(rule, np.abs(row).max(), name, emax, fraction_bits)
            scaled = np.ldexp(row, -exponent)
            if name == "i8":
                codes = np.clip(np.rint(scaled * 64), -127, 127).astype(np.int8).view(np.uint8)
            else:
                limit = largest_of(name)
                codes = np.clip(scaled, -limit, limit).astype(np.float32).astype(FLOATS[name][0]).view(np.uint8)
            words += [f"{exponent + 127:02x}"] + [f"{c:02x}" for c in codes]
        table("mx", f"{rule} {name}", words)
