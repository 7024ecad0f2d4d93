//! Kernels whose threads do not wait for each other, or not for the right ones.

use super::{CASE, Case, Shows};

fn sum(input: &[u32]) -> u32 {
    input.iter().fold(0, |sum, x| sum.wrapping_add(*x))
}

const RACE: Shows = Shows::Finding("without a synchronisation");

pub(super) const CASES: &[Case] = &[
    Case {
        name: "barrier left out",
        body: "__shared__ u32 s[256];
               s[t] = in[t];
               __syncthreads();
               out[t] = s[255 - t];",
        broken: ["__syncthreads();", ""],
        // A race, or a read before the first write.
        shows: Shows::Finding("of s, which"),
        blocks: 1,
        expected: |input| input[..256].iter().rev().copied().collect(),
        ..CASE
    },
    Case {
        name: "lanes believed to go in step",
        body: "__shared__ volatile u32 s[32];
               s[t] = in[t];
               __builtin_amdgcn_wave_barrier();
               for (u32 half = 16; half > 0; half /= 2) {
                   const u32 x = t < half ? s[t] + s[t + half] : 0;
                   __builtin_amdgcn_wave_barrier();
                   if (t < half) s[t] = x;
                   __builtin_amdgcn_wave_barrier();
               }
               if (t == 0) out[0] = s[0];",
        broken: ["if (t < half) s[t] = x;\n                   __builtin_amdgcn_wave_barrier();", "if (t < half) s[t] = x;"],
        shows: RACE,
        blocks: 1,
        threads: 32,
        expected: |input| vec![sum(&input[..32])],
        ..CASE
    },
    Case {
        name: "two threads write one word",
        body: "__shared__ u32 s;
               if (t == 0) s = in[t];
               __syncthreads();
               out[t] = s;",
        broken: ["t == 0", "t % 128 == 0"],
        shows: RACE,
        blocks: 1,
        expected: |input| vec![input[0]; 256],
        ..CASE
    },
    Case {
        name: "wavefronts race in global memory",
        body: "if (t == 0) out[1] = in[0];
               __syncthreads();
               if (t == 64) out[2] = out[1];",
        broken: ["__syncthreads();", ""],
        shows: Shows::Schedule,
        blocks: 1,
        threads: 128,
        expected: |input| vec![0, input[0], input[0]],
        ..CASE
    },
    Case {
        name: "shuffle from the wrong lane",
        body: "u32 x = i < n ? in[i] : 0;
               for (int d = 16; d > 0; d /= 2) x += __shfl_xor(x, d, 32);
               if (t % 32 == 0) atomicAdd(out, x);",
        broken: ["__shfl_xor(x, d, 32)", "__shfl_xor(x, 16, 32)"],
        expected: |input| vec![sum(input)],
        ..CASE
    },
    Case {
        name: "shuffle from a lane that is not there",
        body: "if (t < 24) out[t] = __shfl_xor(in[t], 4, 32);",
        broken: ["in[t], 4", "in[t], 16"],
        shows: Shows::Finding("lane"),
        blocks: 1,
        threads: 24,
        expected: |input| (0..24).map(|t| input[t ^ 4]).collect(),
        ..CASE
    },
    Case {
        name: "shuffle over more lanes than there are",
        body: "const u32 x = __shfl_xor(in[t], 16, 32); out[t] = x;",
        broken: ["16, 32", "16, 64"],
        shows: Shows::Finding("width"),
        wavefronts: &[32],
        blocks: 1,
        threads: 64,
        expected: |input| (0..64).map(|t| input[t ^ 16]).collect(),
        ..CASE
    },
    Case {
        name: "wavefront of 32 in a sum",
        body: "u32 x = i < n ? in[i] : 0;
               for (int d = warpSize / 2; d > 0; d /= 2) x += __shfl_xor(x, d);
               if (t % warpSize == 0) atomicAdd(out, x);",
        broken: ["warpSize / 2", "16"],
        wavefronts: &[64],
        expected: |input| vec![sum(input)],
        ..CASE
    },
    Case {
        name: "wavefront of 32 in a vote",
        // The votes of 32 lanes: their bits begin at bit 32 in the upper half of a wavefront.
        body: "const u64 votes = __ballot(i < n && in[i] % 2);
               const u32 own = votes >> t % warpSize / 32 * 32;
               if (t % 32 == 0) atomicAdd(out, __popc(own));",
        broken: [" >> t % warpSize / 32 * 32", ""],
        wavefronts: &[64],
        expected: |input| vec![input.iter().map(|x| x % 2).sum()],
        ..CASE
    },
    Case {
        name: "barrier in divergent flow",
        body: "__shared__ u32 s[256];
               s[t] = in[t];
               __syncthreads();
               if (t < 128) out[t] = s[t] ^ s[t + 128];",
        broken: ["__syncthreads();", "if (t < 128) __syncthreads();"],
        shows: Shows::Finding("barrier"),
        blocks: 1,
        expected: |input| (0..128).map(|t| input[t] ^ input[t + 128]).collect(),
        ..CASE
    },
    Case {
        name: "return before a barrier",
        body: "__shared__ u32 s[256];
               const bool inside = i < n;
               if (inside) s[t] = in[i];
               __syncthreads();
               if (inside) out[i] = s[t];",
        broken: ["const bool inside = i < n;", "if (i >= n) return; const bool inside = true;"],
        shows: Shows::Finding("barrier"),
        ..CASE
    },
    Case {
        name: "shuffle in divergent flow",
        body: "u32 y = __shfl_xor(in[t], 1, 32);
               if (t % 2) y = 0;
               out[t] = y;",
        broken: [
            "u32 y = __shfl_xor(in[t], 1, 32);\n               if (t % 2) y = 0;",
            "u32 y = 0; if (t % 2 == 0) y = __shfl_xor(in[t], 1, 32);",
        ],
        shows: Shows::Finding("lane"),
        blocks: 1,
        expected: |input| (0..256).map(|t| if t % 2 == 0 { input[t + 1] } else { 0 }).collect(),
        ..CASE
    },
    Case {
        name: "endless loop",
        body: "u32 sum = 0;
               for (u64 k = t; k < n; k += blockDim.x) sum += in[k];
               atomicAdd(out, sum);",
        broken: ["k += blockDim.x", "k += blockDim.y - 1"],
        shows: Shows::Finding("budget"),
        blocks: 1,
        threads: 64,
        expected: |input| vec![sum(input)],
        ..CASE
    },
    Case {
        name: "stride of a block instead of the grid's",
        body: "for (u64 k = i; k < n; k += (u64)gridDim.x * blockDim.x) atomicAdd(out, in[k]);",
        broken: ["(u64)gridDim.x * blockDim.x", "blockDim.x"],
        expected: |input| vec![sum(input)],
        ..CASE
    },
    Case {
        name: "sum without an atomic",
        body: "if (i < n) atomicAdd(out, in[i]);",
        broken: ["atomicAdd(out, in[i])", "out[0] += in[i]"],
        expected: |input| vec![sum(input)],
        ..CASE
    },
    Case {
        name: "counter of blocks not set back",
        body: "if (t == 0) {
                   atomicAdd(&out[0], in[blockIdx.x]);
                   const u32 first = STALE;
                   if (atomicAdd(&out[1], 1) - first == gridDim.x - 1) {
                       out[2] = atomicExch(&out[0], 0);
                       out[1] = first;
                   }
               }",
        broken: ["out[1] = first;", ""],
        launches: 2,
        expected: |input| vec![0, super::STALE, sum(&input[..3])],
        ..CASE
    },
    Case {
        name: "block counted before its threads are done",
        body: "if (i < n) atomicAdd(&out[0], in[i]);
               __syncthreads();
               if (t == 0 && atomicAdd(&out[1], 1) - STALE == gridDim.x - 1) out[2] = atomicAdd(&out[0], 0);",
        broken: ["__syncthreads();", ""],
        shows: Shows::Schedule,
        blocks: 2,
        threads: 64,
        n: 70,
        expected: |input| vec![sum(input), super::STALE + 2, sum(input)],
        ..CASE
    },
];
