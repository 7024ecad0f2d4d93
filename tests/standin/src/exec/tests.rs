//! Each finding, and what is none.

use super::{Launch, run};
use crate::compile::Compiler;
use crate::devices::number;
use crate::finding::Finding;
use crate::library::Library;
use crate::memory_map::{self, Place};
use crate::module;
use std::collections::BTreeSet;

/// A case: what it shows, the source of a kernel `k(unsigned *x)` for which x has 256 words, and what is found.
struct Case {
    what: &'static str,
    source: &'static str,
    blocks: u32,
    threads: u32,
    wavefront: usize,
    finds: &'static str,
}

const fn case(what: &'static str, threads: u32, source: &'static str, finds: &'static str) -> Case {
    Case { what, source, blocks: 1, threads, wavefront: 64, finds }
}

fn library(compiler: &Compiler, what: &str, body: &str) -> &'static Library {
    let source = format!("#include <hip/hip_runtime.h>\nextern \"C\" __global__ void k(unsigned *x) {{\n{body}\n}}\n");
    let cpp = compiler.cpp(("case.hip", &source), &[], "gfx90a", &[]).unwrap_or_else(|log| panic!("{what}: {log}"));
    let path = compiler.library("case.hip", &cpp, &cpp.kernels).unwrap_or_else(|log| panic!("{what}: {log}"));
    Library::open(&path).unwrap_or_else(|e| panic!("{what}: {e}"))
}

fn compiler() -> Option<Compiler> {
    module::compiler().map_err(|reason| println!("skipped: {reason}")).ok()
}

/// Runs `k` and returns x.
fn execute(library: &'static Library, case: &Case, seed: u64) -> Result<Vec<u32>, Finding> {
    let kernel = library.kernel("k").expect("the kernel");
    let x = memory_map::allocate(1024, Place::Device).expect("memory");
    // SAFETY: just allocated with so many bytes.
    let words = unsafe { std::slice::from_raw_parts_mut(x as *mut u32, 256) };
    words.fill(0);
    let launch = Launch {
        name: &kernel.name,
        entry: kernel.entry,
        lane: library.lane,
        own: library.own,
        path: &library.path,
        arguments: &[vec![x as u128]],
        sizes: &[8],
        blocks: [case.blocks, 1, 1],
        threads: [case.threads, 1, 1],
        dynamic_shared: 64,
        wavefront: case.wavefront,
        arch: "gfx90a",
        resident: 3,
        seed,
        steps: 10_000_000,
    };
    let result = run(&launch).map(|()| words.to_vec());
    memory_map::free(x);
    result
}

/// That each of these kernels is stopped, whatever the order of its threads, with these words.
fn found(cases: &[Case]) {
    let Some(compiler) = compiler() else { return };
    for case in cases {
        let library = library(&compiler, case.what, case.source);
        for seed in 0..number("HIPVERIFY_STANDIN_TEST_SEEDS", 5) {
            let found = execute(library, case, seed).expect_err(case.what).text;
            assert!(matches(&found, case.finds), "{}, seed {seed}:\n{found}\n{}", case.what, case.finds);
        }
    }
}

#[test]
fn findings_in_memory_and_arithmetic() {
    found(&[
        case("a write behind the end", 1, "x[256] = 1;", "writes 4 bytes at 0x.*: 4 bytes beyond the end of 1024 bytes of device memory"),
        case("a read before the beginning", 1, "x[0] = x[-1];", "reads 4 bytes .* 4 bytes before 1024 bytes"),
        case("a long read across the end", 1, "*(uint4 *)x = ((uint4 *)x)[64];", "reads 16 bytes .* 16 bytes beyond the end"),
        case("no memory at all", 1, "*(int *)64 = 1;", "writes 4 bytes at 0x40: no memory is near"),
        case(
            "a misaligned access",
            1,
            "*(unsigned long long *)((char *)x + 4) = 1;",
            "an access that is not aligned to its type, .*, at case.hip:3",
        ),
        case("a misaligned atomic", 1, "atomicAdd((unsigned *)((char *)x + 2), 1u);", "updates 4 bytes at 0x.*, which is not aligned to 4"),
        case(
            "an overflow",
            1,
            "int power = (int)blockDim.x; for (int k = 0; k < 31; k++) power *= 2; x[0] = (unsigned)power;",
            "a multiplication overflows, at case.hip:3",
        ),
        case("an atomic beyond the end", 64, "atomicAdd(x + 250 + threadIdx.x, 1u);", "updates 4 bytes .* beyond the end"),
    ]);
}

#[test]
fn findings_in_shared_memory() {
    found(&[
        case(
            "shared memory out of bounds",
            1,
            "__shared__ unsigned s[4]; unsigned *const at = s; x[0] = at[4];",
            "reads 4 bytes of shared memory, 4 bytes beyond the end of s of 16 bytes",
        ),
        case(
            "shared memory before a variable",
            1,
            "__shared__ unsigned s[4]; unsigned *const at = s; at[-1] = 1;",
            "writes 4 bytes of shared memory, 4 bytes before s",
        ),
        case(
            "shared memory that nobody wrote",
            1,
            "__shared__ unsigned s[4]; s[0] = 1; x[0] = s[1];",
            "reads byte 4 of s, which nobody has written",
        ),
        case(
            "an atomic on what nobody wrote",
            1,
            "__shared__ unsigned s; atomicAdd(&s, 1u);",
            "updates byte 0 of s, which nobody has written",
        ),
        case("too much shared memory", 1, "__shared__ char s[65537]; s[0] = 1;", "65537 bytes of shared memory with s, a block has 65536"),
        case("two writers", 2, "__shared__ unsigned s; s = threadIdx.x;", "writes byte 0 of s, which thread . wrote without"),
        case(
            "a reader without a barrier",
            128,
            "__shared__ unsigned s[128]; s[threadIdx.x] = 1; x[threadIdx.x] = s[threadIdx.x ^ 64];",
            "of s, which",
        ),
        case(
            "a writer after readers",
            64,
            "__shared__ unsigned s[64]; s[threadIdx.x] = 1; __syncthreads(); x[threadIdx.x] = s[threadIdx.x ^ 1]; s[threadIdx.x] = 2;",
            "without a synchronisation",
        ),
        case(
            "a wavefront's barrier is not the block's",
            128,
            "__shared__ unsigned s[128]; s[threadIdx.x] = 1; __syncwarp(); x[threadIdx.x] = s[threadIdx.x ^ 64];",
            "of s, which",
        ),
        case(
            "a plain write beside atomics",
            64,
            "__shared__ unsigned s; if (threadIdx.x == 0) s = 0; __syncthreads(); if (threadIdx.x) atomicAdd(&s, 1u); else s = 5;",
            "of s, which thread",
        ),
    ]);
}

#[test]
fn findings_where_threads_wait() {
    found(&[
        case(
            "a barrier that not all reach",
            64,
            "if (threadIdx.x > 3) __syncthreads();",
            "waits at the barrier case.hip:3, and 4 threads of its block have ended",
        ),
        case(
            "two barriers",
            64,
            "if (threadIdx.x > 3) {\n__syncthreads();\n} else {\n__syncthreads();\n}",
            "waits at the barrier case.hip:., and others of its block at case.hip:.",
        ),
        case(
            "lanes that diverge",
            64,
            "x[threadIdx.x] = threadIdx.x & 1 ?\n__shfl(1u, 0) :\n__shfl(2u, 0);",
            "waits for lanes that do not come: of its block 32 threads wait at case.hip:4 for lanes, 32 threads wait at case.hip:5 for lanes, 0 have ended",
        ),
        case(
            "a lane that is not there",
            40,
            "x[threadIdx.x] = __shfl_xor(threadIdx.x, 8);",
            "lane .* shuffles from lane .*, which does not take part, at case.hip:3",
        ),
        case(
            "half a wavefront alone",
            64,
            "if (threadIdx.x < 32) x[threadIdx.x] = __shfl_xor(threadIdx.x, 32);",
            "which does not take part",
        ),
        case(
            "a width that there is not",
            64,
            "x[threadIdx.x] = __shfl(threadIdx.x, 1, 48);",
            "shuffles over a width of 48 at case.hip:3, of 64 lanes",
        ),
        case("a loop without an end", 64, "for (volatile bool on = true; on;) {}", "the launch has not ended in its budget of steps"),
        case("a wait for what nobody does", 64, "while (atomicAdd(x, 0u) == 0) {}", "the launch has not ended in its budget of steps"),
        case("a trap", 64, "if (threadIdx.x == 63) __trap();", "thread \\(63,0,0\\) stops at case.hip:3"),
        case(
            "a matrix instruction of half a wavefront",
            32,
            "typedef float F4 __attribute__((vector_size(16))); F4 c = {}; c = __builtin_amdgcn_mfma_f32_4x4x1f32(1.0f, 1.0f, c, 0, 0, 0); x[threadIdx.x] = c[0];",
            "32 of 64 lanes take part",
        ),
        case(
            "a matrix instruction that there is not",
            64,
            "typedef float F4 __attribute__((vector_size(16))); F4 c = {}; c = __builtin_amdgcn_mfma_f32_16x16x8_xf32(1.0f, 1.0f, c, 0, 0, 0); x[threadIdx.x] = c[0];",
            "multiplies with f32_16x16x8_xf32 at case.hip:3",
        ),
    ]);
}

/// Whether the words between `.*` occur in this order; a single `.` is any character and `\\` nothing.
fn matches(found: &str, pattern: &str) -> bool {
    let mut rest = found;
    pattern.replace('\\', "").split(".*").all(|part| {
        let same = |at: usize| part.bytes().zip(rest[at..].bytes()).filter(|(p, b)| p == b || *p == b'.').count() == part.len();
        let at = (0..rest.len()).find(|at| same(*at));
        rest = at.map_or("", |at| &rest[at + part.len()..]);
        at.is_some()
    })
}

fn ramp(threads: u32, f: fn(u32) -> u32) -> Vec<u32> {
    (0..threads).map(f).collect()
}

/// That a kernel ends with these words, whatever the order of its threads.
fn sound(case: Case, expected: Vec<u32>) {
    let Some(compiler) = compiler() else { return };
    let library = library(&compiler, case.what, case.source);
    for seed in 0..number("HIPVERIFY_STANDIN_TEST_SEEDS", 5) {
        let found = execute(library, &case, seed).unwrap_or_else(|e| panic!("{}, seed {seed}: {}", case.what, e.text));
        assert_eq!(found[..expected.len()], expected, "{}, seed {seed}", case.what);
    }
}

#[test]
fn sound_kernels_of_lanes() {
    sound(case("indices", 100, "x[threadIdx.x] = threadIdx.x + blockDim.x + gridDim.x;", ""), ramp(100, |i| i + 101));
    let grid = Case { blocks: 7, ..case("a grid", 32, "atomicAdd(x + blockIdx.x, threadIdx.x);", "") };
    sound(grid, vec![496; 7]);
    sound(
        case(
            "a sum by shuffles",
            64,
            "unsigned v = threadIdx.x; for (int d = 16; d; d /= 2) v += __shfl_xor(v, d, 32); x[threadIdx.x] = v;",
            "",
        ),
        ramp(64, |i| if i < 32 { 496 } else { 496 + 1024 }),
    );
    sound(case("a whole wavefront", 64, "x[threadIdx.x] = __shfl_xor(threadIdx.x, 32);", ""), ramp(64, |i| i ^ 32));
    sound(
        case(
            "a subgroup that goes its own way",
            64,
            "if (threadIdx.x < 32) x[threadIdx.x] = __shfl(threadIdx.x + 7, 3, 32); else x[threadIdx.x] = 1;",
            "",
        ),
        ramp(64, |i| if i < 32 { 10 } else { 1 }),
    );
    sound(
        case("lanes that have ended", 64, "if (threadIdx.x % 2) return; x[threadIdx.x] = 5 + __any(threadIdx.x == 63);", ""),
        ramp(64, |i| if i % 2 == 0 { 5 } else { 0 }),
    );
    let narrow = Case { wavefront: 32, ..case("wavefronts of 32", 64, "x[threadIdx.x] = warpSize + (unsigned)__popcll(__ballot(1));", "") };
    sound(narrow, ramp(64, |_| 64));
    sound(
        case(
            "a matrix instruction",
            64,
            "typedef float F4 __attribute__((vector_size(16))); F4 c = {}; c = __builtin_amdgcn_mfma_f32_4x4x1f32(2.0f, (float)(threadIdx.x % 4), c, 0, 0, 0); x[threadIdx.x] = (unsigned)c[0];",
            "",
        ),
        ramp(64, |i| 2 * (i % 4)),
    );
}

#[test]
fn sound_kernels_that_share_memory() {
    sound(
        case(
            "a sum by barriers",
            256,
            "__shared__ unsigned s[256]; const unsigned t = threadIdx.x; s[t] = t; __syncthreads();\n\
              for (unsigned half = 128; half; half /= 2) { if (t < half) s[t] += s[t + half]; __syncthreads(); }\n\
              if (t == 0) x[0] = s[0];",
            "",
        ),
        vec![255 * 128],
    );
    sound(
        case(
            "neighbours after a wavefront's barrier",
            64,
            "__shared__ unsigned s[64]; s[threadIdx.x] = threadIdx.x; __builtin_amdgcn_wave_barrier(); x[threadIdx.x] = s[threadIdx.x ^ 1];",
            "",
        ),
        ramp(64, |i| i ^ 1),
    );
    sound(
        case(
            "reads beside atomics",
            256,
            "__shared__ unsigned s; if (threadIdx.x == 0) s = 0; __syncthreads(); if (s < threadIdx.x) atomicMax(&s, threadIdx.x); __syncthreads(); x[threadIdx.x] = s;",
            "",
        ),
        ramp(256, |_| 255),
    );
    sound(
        case(
            "dynamic shared memory",
            16,
            "extern __shared__ unsigned s[]; s[threadIdx.x] = threadIdx.x; __syncthreads(); x[threadIdx.x] = s[15 - threadIdx.x];",
            "",
        ),
        ramp(16, |i| 15 - i),
    );
    sound(case("floats by atomics", 64, "atomicAdd((float *)x, 0.5f);", ""), vec![32f32.to_bits()]);
    let flag = Case {
        blocks: 2,
        ..case(
            "a block that waits for another",
            1,
            "if (blockIdx.x == 0) while (atomicAdd(x + 1, 0u) == 0) {} else { x[0] = 3; __threadfence(); atomicExch(x + 1, 1u); }",
            "",
        )
    };
    sound(flag, vec![3, 1]);
}

/// A vote is the wavefront's in some launches and a subgroup's in others; without the subgroup that went another way it is always the other's.
#[test]
fn votes_of_a_wavefront() {
    let Some(compiler) = compiler() else { return };
    let together = case("votes", 64, "x[threadIdx.x] = __any(threadIdx.x == 40);", "");
    let apart = case("votes apart", 64, "if (threadIdx.x < 32) x[threadIdx.x] = __any(threadIdx.x < 32); else x[threadIdx.x] = 2;", "");
    let results = |case: &Case| -> BTreeSet<Vec<u32>> {
        let library = library(&compiler, case.what, case.source);
        (0..16).map(|seed| execute(library, case, seed).unwrap_or_else(|e| panic!("{}", e.text))[..64].to_vec()).collect()
    };
    let halves = |low: u32, high: u32| (0..64).map(|i| if i < 32 { low } else { high }).collect::<Vec<_>>();
    assert_eq!(results(&together), BTreeSet::from([halves(0, 1), halves(1, 1)]));
    assert_eq!(results(&apart), BTreeSet::from([halves(1, 2)]));
}

/// Subgroups wait at a barrier each, alone or with the other, and then for all lanes of the wavefront.
#[test]
fn shuffles_of_a_wavefront_after_barriers_of_subgroups() {
    let Some(compiler) = compiler() else { return };
    let code = "unsigned sum = 0; for (unsigned i = 0; i < 32; i++) { __syncwarp(); if (i % 3) __syncwarp(); sum += __shfl(threadIdx.x + i, 1); } x[threadIdx.x] = sum;";
    let case = case("shuffles after barriers", 64, code, "");
    let library = library(&compiler, case.what, case.source);
    for seed in 0..100 {
        let found = execute(library, &case, seed).unwrap_or_else(|e| panic!("seed {seed}: {}", e.text));
        assert_eq!(found[..64], [32 + 31 * 16; 64], "seed {seed}");
    }
}

#[test]
fn what_does_not_compile() {
    let Some(compiler) = compiler() else { return };
    for (source, words) in [
        ("#error no", "no"),
        ("extern \"C\" __global__ void k() { int x = y; }", "case.hip:1"),
        ("#include <hip/hip_runtime.h>\nextern \"C\" __global__ void k() { __shared__ int a, b; }", "one variable"),
    ] {
        let log = compiler
            .cpp(("case.hip", source), &[], "", &[])
            .and_then(|cpp| compiler.library("case.hip", &cpp, &cpp.kernels))
            .expect_err(source);
        assert!(log.contains(words), "{source}: {log}");
    }
}
