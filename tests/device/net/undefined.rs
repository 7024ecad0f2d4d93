//! Kernels that do what C++ leaves undefined: compilers for GPUs may make anything of it.

use super::{CASE, Case, Shows};

pub(super) const CASES: &[Case] = &[
    Case {
        name: "a signed sum overflows",
        body: "if (i < n) out[i] = (u32)((int)0x7fffff00 + (int)(in[i] % 256));",
        broken: ["% 256", "% 300"],
        shows: Shows::Finding("an addition overflows"),
        expected: |input| input.iter().map(|x| 0x7fff_ff00 + x % 256).collect(),
        ..CASE
    },
    Case {
        name: "a signed product overflows",
        body: "if (i < n) out[i] = (u32)((long long)(int)(in[i] >> 8) * 300);",
        broken: ["(long long)(int)", "(int)"],
        shows: Shows::Finding("a multiplication overflows"),
        expected: |input| input.iter().map(|x| (x >> 8).wrapping_mul(300)).collect(),
        ..CASE
    },
    Case {
        name: "a shift by the width",
        // The upper bits of a word, none where their number is 0.
        body: "if (i < n) {
                   const u32 bits = in[i] % 32;
                   out[i] = bits ? in[i] >> (32 - bits) : 0;
               }",
        broken: ["bits ?", "true ?"],
        shows: Shows::Finding("a shift by a negative number, or by the width or more"),
        expected: |input| input.iter().map(|x| x.checked_shr(32 - x % 32).unwrap_or(0)).collect(),
        ..CASE
    },
    Case {
        name: "a number that the integer cannot hold",
        body: "if (i < n) out[i] = (u32)((float)in[i] * 0.25f);",
        broken: ["0.25f", "1.25f"],
        shows: Shows::Finding("a conversion of a number that the integer type cannot hold"),
        expected: |input| input.iter().map(|x| (*x as f32 * 0.25) as u32).collect(),
        ..CASE
    },
    Case {
        name: "a division by zero",
        body: "if (i < n) out[i] = in[i] / (in[i] % 5 + 1);",
        broken: [" + 1", ""],
        shows: Shows::Finding("a division by zero"),
        expected: |input| input.iter().map(|x| x / (x % 5 + 1)).collect(),
        ..CASE
    },
    Case {
        name: "an index outside of a local array",
        // Both arrays are on the stack, where the stand-in sees no access.
        body: "u32 digits[8], *all = digits;
               for (int k = 0; k < 8; k++) digits[k] = in[t] >> 4 * k & 15;
               if (i < n) out[i] = digits[in[i] % 8] + all[0];",
        broken: ["in[i] % 8", "in[i] % 9"],
        shows: Shows::Finding("an index outside of its array"),
        blocks: 1,
        n: 256,
        expected: |input| input.iter().map(|x| (x >> (4 * (x % 8)) & 15) + (x & 15)).collect(),
        ..CASE
    },
    Case {
        name: "a struct at an odd address",
        // Copied word by word, each of which is aligned.
        body: "struct alignas(16) Four { u32 x[4]; };
               if (i < n / 4 - 1) {
                   const Four four = ((const Four *)(in + 4))[i];
                   for (int k = 0; k < 4; k++) out[4 * i + k] = four.x[k];
               }",
        broken: ["in + 4", "in + 3"],
        shows: Shows::Finding("not aligned to its type"),
        expected: |input| input[4..].to_vec(),
        ..CASE
    },
];
