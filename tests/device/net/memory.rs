//! Kernels that access the wrong memory.

use super::{CASE, Case, Shows, to_bytes};
use anyhow::Result;
use hipverify::device::AsTensor;
use hipverify::{Device, DeviceMem};

pub(super) const CASES: &[Case] = &[
    Case {
        name: "tail read past the end",
        body: "const u32 x = i < n ? in[i] : 0; if (i < n) out[i] = x;",
        broken: ["i < n ? in", "i <= n ? in"],
        shows: Shows::Finding("reads 4 bytes"),
        ..CASE
    },
    Case {
        name: "tail write past the end",
        body: "if (i < n) out[i] = 7 * (u32)i;",
        broken: ["i < n", "i <= n"],
        shows: Shows::Finding("writes 4 bytes"),
        expected: |input| (0..input.len() as u32).map(|i| 7 * i).collect(),
        ..CASE
    },
    Case {
        name: "last vector is not whole",
        body: "uint4 x = make_uint4(0, 0, 0, 0);
               if (i < n / 4) x = ((const uint4 *)in)[i];
               if (i < n / 4) ((uint4 *)out)[i] = x;
               if (i < n % 4) out[n / 4 * 4 + i] = in[n / 4 * 4 + i];",
        broken: ["i < n / 4) x", "i < (n + 3) / 4) x"],
        shows: Shows::Finding("beyond the end of 2808 bytes"),
        n: 702,
        ..CASE
    },
    Case {
        name: "vector load from an odd address",
        body: "if (i < n / 4) ((uint4 *)out)[i] = ((const uint4 *)(in + 0))[i];",
        broken: ["in + 0", "in + 1"],
        shows: Shows::Finding("aligned"),
        ..CASE
    },
    Case {
        name: "use after free",
        body: "if (i < n) out[i] = ((const u32 *const *)in)[0][i];",
        broken: ["[0][i]", "[1][i]"],
        shows: Shows::Finding("freed"),
        input: Form::Addresses,
        ..CASE
    },
    Case {
        name: "negative index in 32 bits",
        body: "if (i < n) out[i] = in[n - 1 + (u64)(-(long long)i)];",
        broken: ["(u64)(-(long long)i)", "(u32)(-(int)i)"],
        shows: Shows::Finding("reads 4 bytes"),
        expected: |input| input.iter().rev().copied().collect(),
        ..CASE
    },
    Case {
        name: "shared memory too small by one",
        // By way of an address, since an index of an array is checked for itself.
        body: "__shared__ u32 words[257];
               u32 *const s = words;
               s[t] = t < n ? in[t] : 0;
               if (t == 0) s[256] = in[0];
               __syncthreads();
               out[t] = s[t] ^ s[t + 1];",
        broken: ["words[257]", "words[256]"],
        shows: Shows::Finding("beyond the end of words"),
        blocks: 1,
        expected: |input| (0..256).map(|t| input[t] ^ input[if t == 255 { 0 } else { t + 1 }]).collect(),
        ..CASE
    },
    Case {
        name: "shared memory that nobody has set",
        body: "__shared__ u32 sum;
               if (t == 0) sum = 0;
               __syncthreads();
               if (i < n) atomicAdd(&sum, in[i]);
               __syncthreads();
               if (t == 0) atomicAdd(out, sum);",
        broken: ["if (t == 0) sum = 0;", ""],
        shows: Shows::Finding("nobody has written"),
        expected: |input| vec![input.iter().fold(0, |sum, x| sum.wrapping_add(*x))],
        ..CASE
    },
    Case {
        name: "register that nobody has set",
        body: "u32 sum = 0; for (u64 k = i; k < n; k += 100) sum += in[k]; if (i < 100) out[i] = sum;",
        broken: ["u32 sum = 0;", "u32 sum;"],
        shows: Shows::Result,
        expected: |input| (0..100).map(|i| input.iter().skip(i).step_by(100).fold(0u32, |sum, x| sum.wrapping_add(*x))).collect(),
        ..CASE
    },
    Case {
        name: "stale output",
        body: "if (i < n) out[i] = in[i] % 2 ? in[i] : 0;",
        broken: ["if (i < n) out[i] = in[i] % 2 ? in[i] : 0;", "if (i < n && in[i] % 2) out[i] = in[i];"],
        expected: |input| input.iter().map(|x| if x % 2 == 1 { *x } else { 0 }).collect(),
        ..CASE
    },
];

/// The input of a kernel.
pub(super) struct Input {
    words: Vec<u32>,
    memory: DeviceMem<u8>,
    /// What an address in the memory points to.
    _copy: Option<DeviceMem<u8>>,
}

/// What is in a kernel's input.
#[derive(Clone, Copy)]
pub(super) enum Form {
    Words,
    /// The address of the words, and the address where a copy of them has been.
    Addresses,
}

impl Input {
    /// Words with many bits set, of which some are even.
    pub(super) fn new(device: &Device, form: Form, n: usize) -> Result<Input> {
        let words: Vec<u32> = (1..=n as u32).map(|i| i.wrapping_mul(0x9e37_79b9) ^ i >> 3).collect();
        let memory = DeviceMem::from_slice(device, &to_bytes(&words))?;
        if matches!(form, Form::Words) {
            return Ok(Input { words, memory, _copy: None });
        }
        let freed = DeviceMem::from_slice(device, &to_bytes(&words))?;
        let addresses = [&memory, &freed].map(|m| (m.as_tensor().as_ptr() as u64).to_le_bytes());
        Ok(Input { words, memory: DeviceMem::from_slice(device, addresses.as_flattened())?, _copy: Some(memory) })
    }

    pub(super) fn words(&self) -> &[u32] {
        &self.words
    }

    pub(super) fn address(&self) -> u64 {
        self.memory.as_tensor().as_ptr() as u64
    }
}
