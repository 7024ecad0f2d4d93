//! Philox4x32-10, the counter-based generator of Salmon, Moraes, Dror and Shaw ("Parallel random numbers: as easy as 1, 2, 3", 2011).
//!
//! [`block`] is the definition; [`words`] computes many consecutive blocks: by `avx512.rs` if the processor has it, otherwise 16 at a time in
//! a form that the compiler vectorises: every 32-bit word sits in a 64-bit lane, whose upper half may hold any bits until the
//! end because the 32x32 multiply ignores it.

#[cfg(target_arch = "x86_64")]
use super::avx512;
use super::loops::for_each_set;
use super::params::FillParams;
use crate::simd::{InstructionSet, Task};

pub(super) const M0: u64 = 0xd251_1f53;
pub(super) const M1: u64 = 0xcd9e_8d57;
pub(super) const W0: u32 = 0x9e37_79b9;
pub(super) const W1: u32 = 0xbb67_ae85;
const LOW: u64 = 0xffff_ffff;

/// Blocks that the portable loop computes at once.
const BATCH: usize = 16;

/// One block: 128 random bits, word 0 the least significant.
pub(super) fn block(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let [mut c0, mut c1, mut c2, mut c3] = counter;
    let [mut k0, mut k1] = key;
    for _ in 0..10 {
        let p0 = M0 * u64::from(c0);
        let p1 = M1 * u64::from(c2);
        (c0, c1, c2, c3) = ((p1 >> 32) as u32 ^ c1 ^ k0, p1 as u32, (p0 >> 32) as u32 ^ c3 ^ k1, p0 as u32);
        k0 = k0.wrapping_add(W0);
        k1 = k1.wrapping_add(W1);
    }
    [c0, c1, c2, c3]
}

/// The words of block `first`, a multiple of 32, and of the blocks after it, for `purpose`: whole runs of 32 blocks, whose numbers agree in
/// the upper half.
pub(super) fn words(set: InstructionSet, p: &FillParams, purpose: u32, first: u64, out: &mut [u32]) {
    #[cfg(target_arch = "x86_64")]
    if set.has_vbmi() {
        // SAFETY: a set with VBMI has the features that the function names.
        return unsafe { avx512::words(p, purpose, first, out) };
    }
    batches(set, p, purpose, first, out);
}

for_each_set! {
    fn batches = batches_body(p: &'a FillParams, purpose: u32, first: u64, out: &'a mut [u32])
}

#[inline(always)]
fn batches_body(p: &FillParams, purpose: u32, first: u64, out: &mut [u32]) {
    for (i, words) in out.as_chunks_mut().0.iter_mut().enumerate() {
        batch(first + (i * BATCH) as u64, [p.stream, purpose], p.key, words);
    }
}

#[inline(always)]
fn batch(first: u64, [c2, c3]: [u32; 2], [mut k0, mut k1]: [u32; 2], words: &mut [u32; 4 * BATCH]) {
    let mut x0 = [0u64; BATCH];
    let mut x1 = [0u64; BATCH];
    let mut x2 = [u64::from(c2); BATCH];
    let mut x3 = [u64::from(c3); BATCH];
    for lane in 0..BATCH {
        let index = first + lane as u64;
        x0[lane] = index;
        x1[lane] = index >> 32;
    }
    for _ in 0..10 {
        for lane in 0..BATCH {
            let p0 = M0 * (x0[lane] & LOW);
            let p1 = M1 * (x2[lane] & LOW);
            x0[lane] = (p1 >> 32) ^ x1[lane] ^ u64::from(k0);
            x1[lane] = p1;
            x2[lane] = (p0 >> 32) ^ x3[lane] ^ u64::from(k1);
            x3[lane] = p0;
        }
        k0 = k0.wrapping_add(W0);
        k1 = k1.wrapping_add(W1);
    }
    for lane in 0..BATCH {
        words[4 * lane] = x0[lane] as u32;
        words[4 * lane + 1] = x1[lane] as u32;
        words[4 * lane + 2] = x2[lane] as u32;
        words[4 * lane + 3] = x3[lane] as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers() {
        // Counter, key and answer from the vectors published with the generator.
        let pi = [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344];
        let cases = [
            ([0; 4], [0; 2], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
            ([u32::MAX; 4], [u32::MAX; 2], [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]),
            (pi, [0xa409_3822, 0x299f_31d0], [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]),
        ];
        for (counter, key, answer) in cases {
            assert_eq!(block(counter, key), answer, "counter {counter:x?}");
        }
    }

    #[test]
    fn many_blocks_are_single_ones() {
        // The key, the stream and the purpose have bits in common.
        let p = FillParams { key: [0x8000_0007, 0x0300_0009], stream: 77, ..bytemuck::Zeroable::zeroed() };
        for &set in InstructionSet::all() {
            // Up to the last block before the upper half of the number changes, and after it.
            for (first, purpose) in [(0, 0), ((1 << 32) - 64, 1 << 24), (1 << 32, 2 << 24), ((1 << 55) + 32, 0)] {
                let mut out = [0; 256];
                words(set, &p, purpose, first, &mut out);
                for (i, four) in out.chunks_exact(4).enumerate() {
                    let index = first + i as u64;
                    let counter = [index as u32, (index >> 32) as u32, p.stream, purpose];
                    assert_eq!(four, block(counter, p.key), "{set:?} block {index} purpose {purpose}");
                }
            }
        }
    }
}
