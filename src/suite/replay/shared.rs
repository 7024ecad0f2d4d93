//! What several runs have in common, computed once.
//!
//! Inputs are a function of convolution, range and seed, a result of these and of an arithmetic with its order. Of the study's six runs of a configuration and a range, two chips with
//! two kernels and two validators, the twelve results are five different ones. What one run has computed is kept for the runs that follow, up to a number of bytes; what was used
//! longest ago goes first. A run's outcome is the same whatever is kept: a key holds everything that determines the bits, the device as well, so that none vouches for another.

use super::config::{Configuration, Range};
use super::run::Side;
use super::split::Sums;
use crate::device::Device;
use crate::dtype::F16;
use crate::error::Result;
use crate::reference::{Arithmetic, KOrder, Role};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of results that are kept, and of inputs.
const LIMIT: usize = 512 << 20;

/// Runs that follow each other share two validators and a kernel. A result of more than this part of the limit would be gone before it is asked for again.
const PART: usize = 4;

/// What the inputs of a run are made from, and where they are.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub configuration: Configuration,
    pub range: Range,
    pub seed: u32,
    pub device: Device,
}

impl PartialEq for Source {
    fn eq(&self, other: &Source) -> bool {
        self.configuration == other.configuration
            && self.range == other.range
            && self.seed == other.seed
            && self.device.same_as(&other.device)
    }
}

/// A result: of which arithmetic, for how many images from which one on.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Computed {
    pub source: Source,
    pub arithmetic: Arithmetic,
    pub order: KOrder,
    pub images: (usize, usize),
}

/// What is kept.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(super) inputs: Memo<(Source, Role), Side>,
    pub(super) results: Memo<Computed, Vec<F16>>,
    pub(super) sums: Memo<(Source, Arithmetic), Sums>,
}

impl Shared {
    /// Keeps nothing, for a run alone.
    pub(super) fn nothing() -> Shared {
        Shared::up_to(0)
    }

    fn up_to(limit: usize) -> Shared {
        Shared { inputs: Memo::up_to(limit), results: Memo::up_to(limit), sums: Memo::up_to(limit) }
    }
}

impl Default for Shared {
    fn default() -> Shared {
        Shared::up_to(LIMIT)
    }
}

/// Values by key, up to a number of bytes.
#[derive(Debug)]
pub(super) struct Memo<K, V> {
    limit: usize,
    kept: Mutex<VecDeque<Kept<K, V>>>,
}

#[derive(Debug)]
struct Kept<K, V> {
    key: K,
    value: Arc<V>,
    bytes: usize,
}

impl<K: PartialEq, V> Memo<K, V> {
    fn up_to(limit: usize) -> Memo<K, V> {
        Memo { limit, kept: Mutex::default() }
    }

    /// The value of a key: what was kept, or what is made. It has so many bytes, of those that its run asks for one after the other.
    pub(super) fn get(&self, key: K, [bytes, of]: [usize; 2], make: impl FnOnce() -> Result<V>) -> Result<Arc<V>> {
        if of > self.limit / PART {
            return make().map(Arc::new);
        }
        let lock = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let mut kept = lock();
        if let Some(found) = kept.iter().position(|kept| kept.key == key).and_then(|at| kept.remove(at)) {
            let value = Arc::clone(&found.value);
            kept.push_back(found);
            return Ok(value);
        }
        // Others need not wait for it: at worst two threads make the same.
        drop(kept);
        let value = Arc::new(make()?);
        let mut kept = lock();
        kept.push_back(Kept { key, value: Arc::clone(&value), bytes });
        while kept.iter().map(|kept| kept.bytes).sum::<usize>() > self.limit {
            kept.pop_front();
        }
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Kernel, Replay, Validator, Variant};
    use super::*;
    use crate::matrix_core::Arch;

    #[test]
    fn values_are_kept_up_to_the_limit() {
        let memo = Memo::up_to(100);
        let made = std::cell::RefCell::new(String::new());
        let ask = |name: char, sizes: [usize; 2]| {
            let value = memo.get(name, sizes, || {
                made.borrow_mut().push(name);
                Ok(name.to_ascii_uppercase())
            });
            assert_eq!(*value.unwrap(), name.to_ascii_uppercase());
        };
        for (name, sizes, all, reason) in [
            ('a', [25, 25], "a", "made"),
            ('a', [25, 25], "a", "kept"),
            ('b', [25, 25], "ab", "another one"),
            ('c', [26, 26], "abc", "made; too large to be kept"),
            ('c', [26, 26], "abcc", "made again"),
            ('c', [2, 26], "abccc", "small, but its run asks for too many"),
            ('d', [25, 25], "abcccd", ""),
            ('e', [25, 25], "abcccde", "a hundred bytes"),
            ('a', [25, 25], "abcccde", "kept, and now used last"),
            ('f', [1, 1], "abcccdef", "b goes"),
            ('a', [25, 25], "abcccdef", "still there"),
            ('b', [25, 25], "abcccdefb", "gone"),
        ] {
            ask(name, sizes);
            assert_eq!(*made.borrow(), all, "{name}: {reason}");
        }
        let failed = memo.get('x', [1, 1], || Err(crate::Error::Unsupported { what: "x".to_owned(), by: "a test".to_owned() }));
        assert!(failed.is_err() && !memo.kept.lock().unwrap().iter().any(|kept| kept.key == 'x'));
    }

    /// In whatever order runs come, each has the outcome that it has alone; and of twelve results of six runs five are computed, for backward weight three, and two partial sums.
    #[test]
    fn an_outcome_does_not_depend_on_what_is_kept() {
        let shared = Shared::default();
        let (mut results, mut sums) = (0, 0);
        for (name, other, computed, partial, with_other) in [
            ("conv2d_host_validation_f16_fwd_CHECK_PADDING3_f16", Variant::Later, 5, 0, 7),
            ("conv2d_host_validation_f16_bwd_CHECK_BWD_WEIGHT1", Variant::Second, 3, 2, 3),
        ] {
            let configuration = Configuration::named(name).unwrap();
            for (range, seed, variant, computed) in [
                ("r0", 1, Variant::First, computed),
                ("r5", 1, Variant::First, computed),
                ("r0", 2, Variant::First, computed),
                // Kernels and the validator on the GPU are those of the first variant.
                ("r0", 1, other, with_other - computed),
            ] {
                for (arch, kernel, validator) in [
                    (Arch::Gfx908, Kernel::Xdlops, Validator::Cpu),
                    (Arch::Gfx90a, Kernel::Xdlops, Validator::Gpu),
                    (Arch::Gfx908, Kernel::Xdlops, Validator::Gpu),
                    (Arch::Gfx90a, Kernel::Xdlops, Validator::Cpu),
                    (Arch::Gfx908, Kernel::NonXdlops, Validator::Cpu),
                    (Arch::Gfx90a, Kernel::NonXdlops, Validator::Cpu),
                ] {
                    let (configuration, range, device) = (configuration.clone(), range.parse().unwrap(), Device::host());
                    let replay = Replay { configuration, range, seed, arch, kernel, validator, variant, device };
                    let (alone, with) = (replay.run().unwrap(), replay.run_with(&shared).unwrap());
                    assert_eq!(format!("{with:?}"), format!("{alone:?}"), "{replay:?}");
                }
                results += computed;
                assert_eq!(shared.results.kept.lock().unwrap().len(), results, "{name} {range} {seed} {variant}");
                sums += if variant == Variant::First { partial } else { 0 };
                assert_eq!(shared.sums.kept.lock().unwrap().len(), sums, "{name} {range} {seed} {variant}");
            }
        }
    }
}
