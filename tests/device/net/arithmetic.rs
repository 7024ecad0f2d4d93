//! Kernels that compute something else.

use super::{CASE, Case};

/// Numbers of both signs near one, and where wanted below the least normal one, as the kernels make them of words.
fn number(word: u32) -> f32 {
    f32::from_bits(word & 0x807f_ffff | 0x3f80_0000)
}

pub(super) const CASES: &[Case] = &[
    Case {
        name: "product and sum fused",
        body: "if (i < n) {
                   const float x = __uint_as_float(in[i] & 0x807fffff | 0x3f800000);
                   out[i] = __float_as_uint(x * x - 1.25f);
               }",
        broken: ["x * x - 1.25f", "__fmaf_rn(x, x, -1.25f)"],
        expected: |input| input.iter().map(|w| (number(*w) * number(*w) - 1.25).to_bits()).collect(),
        ..CASE
    },
    Case {
        name: "subnormal numbers flushed",
        body: "if (i < n) {
                   const float x = __uint_as_float(in[i] & 0x007fffff) * 0.5f;
                   out[i] = __float_as_uint(x);
               }",
        broken: ["__float_as_uint(x)", "__float_as_uint(x < 1.17549435e-38f ? 0.0f : x)"],
        expected: |input| input.iter().map(|w| (f32::from_bits(w & 0x007f_ffff) * 0.5).to_bits()).collect(),
        ..CASE
    },
    Case {
        name: "strict comparison made non-strict",
        // The first of the largest.
        body: "if (i < 7) {
                   u32 best = 0, at = 0;
                   for (u32 k = 0; k < 100; k++) {
                       const u32 x = in[i * 100 + k] >> 28;
                       if (x > best) best = x, at = k;
                   }
                   out[i] = at;
               }",
        broken: ["x > best", "x >= best"],
        expected: |input| {
            let first = |row: &[u32]| (0..100).rev().max_by_key(|&k| row[k] >> 28).unwrap_or(0) as u32;
            input.chunks(100).map(first).collect()
        },
        ..CASE
    },
    Case {
        name: "packed counter overflows",
        body: "if (i < 2) {
                   unsigned char some = 0;
                   u32 all = 0;
                   for (u64 k = 0; k < n; k++) {
                       some += in[k] % 4 != 0;
                       if (some == 255) all += some, some = 0;
                   }
                   out[i] = all + some;
               }",
        broken: ["some == 255", "some == 256"],
        expected: |input| vec![input.iter().filter(|x| *x % 4 != 0).count() as u32; 2],
        ..CASE
    },
    Case {
        name: "index of 16 bits",
        body: "for (u64 k = i; k < 70000; k += 768) {
                   const u32 at = k;
                   if (at % 10007 == 3) atomicAdd(&out[0], at ^ in[k % n]);
               }",
        broken: ["const u32 at", "const unsigned short at"],
        expected: |input| {
            let term = |k: u32| k ^ input[k as usize % input.len()];
            vec![(0..70_000).filter(|k| k % 10_007 == 3).map(term).fold(0, u32::wrapping_add)]
        },
        ..CASE
    },
    Case {
        name: "sum in an order that depends on the grid",
        // One thread adds what all have made, in the order of their numbers.
        body: "__shared__ float s[64];
               s[t] = __uint_as_float(in[t] & 0x87ffffff | 0x38000000);
               __syncthreads();
               if (t == 0) {
                   float sum = 0;
                   for (u32 k = 0; k < 64; k++) sum += s[k];
                   out[1] = __float_as_uint(sum);
               }",
        broken: ["s[k]", "s[63 - k]"],
        blocks: 1,
        threads: 64,
        expected: |input| vec![0, input[..64].iter().fold(0f32, |sum, w| sum + f32::from_bits(w & 0x87ff_ffff | 0x3800_0000)).to_bits()],
        ..CASE
    },
];
