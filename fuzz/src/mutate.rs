//! Changes to an input.

use fastrand::Rng;

/// No input is longer.
const LONGEST: usize = 8192;

/// Numbers at the edges of widths and signs, which lengths and offsets are mistaken for.
const EDGES: [u64; 14] =
    [0, 1, 2, 16, 64, 0x7f, 0x80, 0xff, 0xffff, 0x7fff_ffff, 0xffff_ffff, 0x7fff_ffff_ffff_ffff, 0x8000_0000_0000_0000, u64::MAX];

/// Changes `input` in one to eight places; `other` is another input to take pieces of.
pub(crate) fn mutate(input: &mut Vec<u8>, other: &[u8], tokens: &[&str], rng: &mut Rng) {
    for _ in 0..1 << rng.u32(0..4) {
        change(input, other, tokens, rng);
    }
    input.truncate(LONGEST);
}

fn change(input: &mut Vec<u8>, other: &[u8], tokens: &[&str], rng: &mut Rng) {
    let at = rng.usize(0..=input.len());
    // A short range, more often than a long one.
    let most = 1 << rng.u32(0..8);
    let length = rng.usize(0..=(input.len() - at).min(most));
    match rng.u32(0..10) {
        0 if at < input.len() => input[at] ^= 1 << rng.u32(0..8),
        1 if at < input.len() => input[at] = rng.u8(..),
        2 => input.insert(at, rng.u8(..)),
        3 => drop(input.drain(at..at + length)),
        4 => {
            let copy = input[at..at + length].to_vec();
            let to = rng.usize(0..=input.len());
            input.splice(to..to, copy);
        }
        5 => edge(input, at, rng),
        6 => decimal(input, at, rng),
        7 if !tokens.is_empty() => {
            let token = tokens[rng.usize(..tokens.len())].bytes();
            input.splice(at..at + length * rng.usize(0..2), token);
        }
        8 => {
            let from = rng.usize(0..=other.len());
            let piece = &other[from..from + rng.usize(0..=(other.len() - from).min(256))];
            input.splice(at..at + length, piece.iter().copied());
        }
        _ => input.truncate(at.max(1)),
    }
}

/// Overwrites a word of 1, 2, 4 or 8 bytes, little-endian, by an edge or something near it.
fn edge(input: &mut [u8], at: usize, rng: &mut Rng) {
    let width = (1 << rng.u32(0..4)).min(input.len() - at);
    let number = EDGES[rng.usize(..EDGES.len())].wrapping_add(rng.u64(0..5)).wrapping_sub(2);
    input[at..at + width].copy_from_slice(&number.to_le_bytes()[..width]);
}

/// Overwrites the decimal number at or behind `at` by another one.
fn decimal(input: &mut Vec<u8>, at: usize, rng: &mut Rng) {
    let Some(start) = input[at..].iter().position(u8::is_ascii_digit).map(|i| at + i) else { return };
    let end = input[start..].iter().position(|b| !b.is_ascii_digit()).map_or(input.len(), |i| start + i);
    let number = EDGES[rng.usize(..EDGES.len())].wrapping_add(rng.u64(0..5)).wrapping_sub(2);
    input.splice(start..end, number.to_string().into_bytes());
}
