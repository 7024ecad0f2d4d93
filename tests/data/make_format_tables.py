#!/usr/bin/env python3
"""Writes format_tables.txt: the small number formats as ml_dtypes (PyPI) decodes and encodes them.

    pip install ml_dtypes numpy && python make_format_tables.py > format_tables.txt

decode NAME  one f32 pattern (hex) for each code, in order
encode NAME  f32 pattern, colon, code: every value halfway between two neighbours (and half a step beyond the largest)
             with its two f32 neighbours, in both signs, and special values
"""

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

# MX blocks: 32 inputs a row, then for each element format the scale's code and the 32 element codes of every row.
rng = np.random.default_rng(1)
BLOCKS = np.stack(
    [
        rng.normal(size=32),
        rng.normal(size=32) * 10.0 ** rng.uniform(-6, 6, size=32),
        np.arange(-16, 16) / 16 * 1.96875,  # just below 2: elements saturate
        rng.normal(size=32) * 2.0**-130,  # the scale's lower end
        rng.uniform(-1, 1, size=32) * 2.0**127,
        np.zeros(32),
    ]
).astype(np.float32)

table("mx", "inputs", hexes(BLOCKS.ravel()))
for name, emax in [("f8e4m3", 8), ("f8e5m2", 15), ("f6e2m3", 2), ("f6e3m2", 4), ("f4e2m1", 2), ("i8", 0)]:
    words = []
    for row in BLOCKS.astype(np.float64):
        largest = np.abs(row).max()
        exponent = np.frexp(largest)[1] - 1 - emax if largest > 0 else -127
        exponent = int(np.clip(exponent, -127, 127))
        scaled = np.ldexp(row, -exponent)
        if name == "i8":
            codes = np.clip(np.rint(scaled * 64), -127, 127).astype(np.int8).view(np.uint8)
        else:
            dtype = FLOATS[name][0]
            limit = float(ml_dtypes.finfo(dtype).max)
            codes = np.clip(scaled, -limit, limit).astype(np.float32).astype(dtype).view(np.uint8)
        words += [f"{exponent + 127:02x}"] + [f"{c:02x}" for c in codes]
    table("mx", name, words)
