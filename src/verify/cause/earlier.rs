//! Causes that an earlier output of the kernel shows: it is still there, or was added to.

use super::sample::Sample;
use super::{Cause, Hit, beyond_chance, most_of};

/// Fewest mismatches that tell an earlier output from others that happen to be alike.
const LEAST: usize = 4;

/// The mismatches hold the earlier output, bit for bit.
pub(super) fn stale(s: &Sample) -> Option<Hit> {
    let earlier = s.earlier.as_ref().filter(|_| s.wrong.len() >= LEAST)?;
    let explained = most_of(&s.wrong, |i| s.bits[i] == earlier[i])?;
    // Outputs of few different numbers are alike everywhere.
    let chance = s.chance(|i, other| s.bits[i] == earlier[other]);
    beyond_chance((explained, s.wrong.len()), chance, 1).then_some(Hit { cause: Cause::Stale, explained })
}

/// They hold the sum of the reference and the earlier output.
pub(super) fn added(s: &Sample) -> Option<Hit> {
    let earlier = s.earlier.as_ref().filter(|_| s.wrong.len() >= LEAST)?;
    let before = |i: usize| s.dtypes[0].decode(earlier[i]);
    let explained = s.explained(|i| s.reference[i] + before(i))?;
    let chance = s.chance(|i, other| s.explains(i, s.reference[i] + before(other)));
    beyond_chance((explained, s.wrong.len()), chance, 1).then_some(Hit { cause: Cause::AddedToEarlier, explained })
}
