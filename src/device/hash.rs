//! A hash of a buffer's bytes, to tell whether two runs wrote the same bits without copying the data.
//!
//! The block is cut into 8-byte little-endian words, the last one padded with zeros. Word i becomes
//! `scramble(word ^ (i + 1) * 0x9e3779b97f4a7c15)`, where `scramble` is the finalizer of SplitMix64; the hash is the sum of
//! these modulo 2^64, plus the length, scrambled once more. A sum does not depend on the order, so threads and grids make no difference.
//! The hash detects accidental differences; it is not cryptographic.

use crate::parallel;

/// Bytes of one task, a multiple of a word.
const TASK: usize = 1 << 18;

/// The hash of bytes on the host.
pub(crate) fn hash_of(bytes: &[u8]) -> u64 {
    finish(sum(bytes), bytes.len())
}

/// The hash whose words sum to `sum`.
pub(crate) fn finish(sum: u64, bytes: usize) -> u64 {
    scramble(sum.wrapping_add(bytes as u64))
}

/// The sum over the words of `bytes`.
pub(crate) fn sum(bytes: &[u8]) -> u64 {
    let of_task = |task: usize| {
        let mut index = (task * (TASK / 8)) as u64;
        let mut sum = 0u64;
        let (words, rest) = bytes[task * TASK..bytes.len().min((task + 1) * TASK)].as_chunks::<8>();
        for word in words {
            index += 1;
            sum = sum.wrapping_add(term(u64::from_le_bytes(*word), index));
        }
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            sum = sum.wrapping_add(term(u64::from_le_bytes(last), index + 1));
        }
        sum
    };
    parallel::map(bytes.len().div_ceil(TASK), of_task).into_iter().fold(0, u64::wrapping_add)
}

/// The contribution of a word; `place` is its index, counted from 1.
fn term(word: u64, index: u64) -> u64 {
    scramble(word ^ index.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

fn scramble(z: u64) -> u64 {
    let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SplitMix64 seeded with 0: its finalizer of the first multiples of its increment, as its author publishes them.
    #[test]
    fn words_are_scrambled_as_splitmix64_does() {
        for (i, output) in [(1, 0xe220_a839_7b1d_cdaf), (2, 0x6e78_9e6a_a1b9_65f4), (3, 0x06c4_5d18_8009_454f)] {
            assert_eq!(scramble(0x9e37_79b9_7f4a_7c15u64.wrapping_mul(i)), output, "output {i}");
        }
    }

    #[test]
    fn hashes_follow_the_definition_and_tell_bytes_apart() {
        for bytes in [0usize, 1, 7, 8, 9, 15, 16, TASK - 1, TASK + 1, 3 * TASK + 12] {
            let data: Vec<u8> = (0..bytes).map(|i| (i * 7 + i / 251) as u8).collect();
            let mut expected = bytes as u64;
            for (i, word) in data.chunks(8).enumerate() {
                let value = word.iter().rev().fold(0u64, |v, &b| v << 8 | u64::from(b));
                expected = expected.wrapping_add(scramble(value ^ (i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)));
            }
            let hash = hash_of(&data);
            assert_eq!(hash, scramble(expected), "{bytes} bytes");
            for flipped in [0, bytes / 2, bytes.saturating_sub(1)].into_iter().filter(|&i| i < bytes) {
                let mut other = data.clone();
                other[flipped] ^= 0x10;
                assert_ne!(hash_of(&other), hash, "{bytes} bytes, byte {flipped} changed");
            }
        }
    }
}
