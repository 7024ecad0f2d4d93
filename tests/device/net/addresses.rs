//! Kernels that access memory which is not theirs, as AddressSanitizer sees them: it alone knows the variables on a stack.

use super::{CASE, Case, Shows};

pub(super) const CASES: &[Case] = &[
    Case {
        name: "read past a local array",
        // Not inlined: UndefinedBehaviorSanitizer would know which object it is.
        body: "struct Array { static __attribute__((noinline)) u32 at(const u32 *of, u32 k) { return of[k]; } };
               u32 digits[8];
               for (int k = 0; k < 8; k++) digits[k] = i < n ? in[i] >> 4 * k & 15 : 0;
               if (i < n) out[i] = Array::at(digits, in[i] % 8);",
        broken: ["in[i] % 8", "in[i] % 9"],
        shows: Shows::Finding("calls that stack-buffer-overflow, at net_read_past_a_local_array_broken.hip:8"),
        expected: |input| input.iter().map(|x| x >> (4 * (x % 8)) & 15).collect(),
        ..CASE
    },
    Case {
        name: "write before a local array",
        body: "struct Array { static __attribute__((noinline)) void set(u32 *of, int k) { of[k] = 1; } };
               u32 marks[4] = {0, 0, 0, 0};
               if (i < n) {
                   Array::set(marks, (int)(in[i] % 4) - 0);
                   out[i] = marks[0] + 2 * marks[1] + 3 * marks[2] + 4 * marks[3];
               }",
        broken: ["- 0", "- 1"],
        shows: Shows::Finding("calls that stack-buffer-underflow, at net_write_before_a_local_array_broken.hip:8"),
        expected: |input| input.iter().map(|x| x % 4 + 1).collect(),
        ..CASE
    },
    Case {
        name: "variable that is no more",
        body: "struct Value { static __attribute__((noinline)) u32 of(const u32 *at) { return *at; } };
               if (i < n) {
                   u32 outer = in[i], sum = 0;
                   const u32 *at;
                   {
                       u32 inner = in[i];
                       at = &outer;
                       sum = Value::of(&inner);
                   }
                   out[i] = sum ^ Value::of(at);
               }",
        broken: ["at = &outer", "at = &inner"],
        shows: Shows::Finding("calls that stack-use-after-scope, at net_variable_that_is_no_more_broken.hip:8"),
        expected: |input| vec![0; input.len()],
        ..CASE
    },
    Case {
        name: "tail read past the end",
        body: "const u32 x = i < n ? in[i] : 0; if (i < n) out[i] = x;",
        broken: ["i < n ? in", "i <= n ? in"],
        shows: Shows::Finding("reads 4 bytes"),
        ..CASE
    },
    Case {
        name: "use after free",
        body: "if (i < n) out[i] = ((const u32 *const *)in)[0][i];",
        broken: ["[0][i]", "[1][i]"],
        shows: Shows::Finding("calls that use-after-poison"),
        input: super::Form::Addresses,
        ..CASE
    },
    Case {
        name: "shared memory too small by one",
        body: "__shared__ u32 words[257];
               u32 *const s = words;
               s[t] = in[t];
               if (t == 0) s[256] = in[0];
               __syncthreads();
               out[t] = s[t] ^ s[t + 1];",
        broken: ["words[257]", "words[256]"],
        shows: Shows::Finding("writes 4 bytes"),
        blocks: 1,
        expected: |input| (0..256).map(|t| input[t] ^ input[if t == 255 { 0 } else { t + 1 }]).collect(),
        ..CASE
    },
];
