//! What has to hold of every file of golden results that can be read, for the fuzzer.

use super::check::{self, State};
use super::file::Golden;
use crate::verify::{Limits, Tolerance};

/// How many results a file of golden results has, which are the same when they are written and read again, and agree with themselves.
pub(in crate::cli) fn count(text: &str) -> Result<usize, String> {
    let golden = Golden::parse(text).map_err(|e| format!("{e:#}"))?;
    let written = golden.text();
    assert_eq!(Golden::parse(&written).map_err(|e| format!("{e:#}")).as_ref(), Ok(&golden), "{written}");
    let (mut count, exact) = (0, Limits::elements(Tolerance::exact(), "the same"));
    for recorded in golden.0.values() {
        count += recorded.tensors.len();
        for other in golden.0.values() {
            for limits in [None, Some(&exact)] {
                let states = check::compare(recorded, &other.tensors, &|_, _| Ok(limits.cloned())).map_err(|e| format!("{e:#}"))?;
                assert!(!std::ptr::eq(recorded, other) || states.iter().all(|(_, state)| *state == State::Same), "{states:?}");
            }
        }
    }
    Ok(count)
}
