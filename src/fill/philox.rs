//! Philox4x32-10, the counter-based generator of Salmon, Moraes, Dror and Shaw ("Parallel random numbers: as easy as 1, 2, 3", 2011).
//!
//! [`block`] is the definition; [`batch`] computes 16 consecutive blocks in a form that the compiler vectorises: every
//! 32-bit word sits in a 64-bit lane, whose upper half may hold rubbish until the end because the 32x32 multiply ignores it.

const M0: u64 = 0xd251_1f53;
const M1: u64 = 0xcd9e_8d57;
const W0: u32 = 0x9e37_79b9;
const W1: u32 = 0xbb67_ae85;
const LOW: u64 = 0xffff_ffff;

/// Blocks of one [`batch`].
pub(super) const BATCH: usize = 16;

/// The words of [`BATCH`] blocks, in order.
pub(super) type Words = [u32; 4 * BATCH];

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

/// Blocks `first` to `first + 15` of the counter (block low, block high, `c2`, `c3`).
#[inline(always)]
pub(super) fn batch(first: u64, c2: u32, c3: u32, key: [u32; 2]) -> Words {
    let mut x0 = [0u64; BATCH];
    let mut x1 = [0u64; BATCH];
    let mut x2 = [u64::from(c2); BATCH];
    let mut x3 = [u64::from(c3); BATCH];
    for lane in 0..BATCH {
        let index = first.wrapping_add(lane as u64);
        x0[lane] = index;
        x1[lane] = index >> 32;
    }
    let [mut k0, mut k1] = key;
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
    let mut words = [0; 4 * BATCH];
    for lane in 0..BATCH {
        words[4 * lane] = x0[lane] as u32;
        words[4 * lane + 1] = x1[lane] as u32;
        words[4 * lane + 2] = x2[lane] as u32;
        words[4 * lane + 3] = x3[lane] as u32;
    }
    words
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
    fn batches_are_blocks() {
        // The second start carries from the low into the high counter word in mid-batch.
        for first in [0, u64::from(u32::MAX) - 4, u64::MAX - 7] {
            let words = batch(first, 5, 0x0100_0002, [7, 9]);
            for (lane, four) in words.chunks_exact(4).enumerate() {
                let index = first.wrapping_add(lane as u64);
                assert_eq!(four, block([index as u32, (index >> 32) as u32, 5, 0x0100_0002], [7, 9]), "block {index}");
            }
        }
    }
}
