//! A block of threads: where each of them is, and when they last synchronised.

use super::across::Request;
use super::lds::Lds;
use std::ffi::{CStr, c_char, c_int};

/// Lanes that wait for each other at least, whatever the wavefront's size.
pub(super) const SUBGROUP: usize = 32;

/// A place in the source text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// A string of the kernels' library.
    file: *const c_char,
    line: c_int,
}

impl Place {
    /// # Safety
    /// `file` is a string that is never freed.
    pub(super) unsafe fn new(file: *const c_char, line: c_int) -> Place {
        Place { file, line }
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // SAFETY: a string that is never freed, as `new` asks.
        let file = unsafe { CStr::from_ptr(self.file) }.to_string_lossy();
        write!(f, "{}:{}", file.trim_start_matches("./"), self.line)
    }
}

/// What a thread is doing.
pub(super) enum At {
    /// It can go on.
    Running,
    /// It waits for other lanes of its wavefront.
    Across(Request),
    /// It waits for the block.
    Barrier(Place),
    Done,
}

/// When threads of a block last synchronised, by a clock that advances with each synchronisation.
pub(super) struct Clocks {
    now: u32,
    barrier: u32,
    wavefront_size: usize,
    wavefronts: Vec<u32>,
    subgroups: Vec<u32>,
}

impl Clocks {
    pub(super) fn new(threads: usize, wavefront_size: usize) -> Clocks {
        let (wavefronts, subgroups) = (vec![0; threads.div_ceil(wavefront_size)], vec![0; threads.div_ceil(SUBGROUP)]);
        Clocks { now: 1, barrier: 0, wavefront_size, wavefronts, subgroups }
    }

    pub(super) fn now(&self) -> u32 {
        self.now
    }

    /// All threads of the block.
    pub(super) fn barrier(&mut self) {
        self.now += 1;
        self.barrier = self.now;
    }

    /// The subgroups from `first` to before `end`, threads of one wavefront.
    pub(super) fn subgroups(&mut self, first: usize, end: usize) {
        self.now += 1;
        for subgroup in first / SUBGROUP..end.div_ceil(SUBGROUP).min(self.subgroups.len()) {
            self.subgroups[subgroup] = self.now;
        }
        if end - first >= self.wavefront_size {
            self.wavefronts[first / self.wavefront_size] = self.now;
        }
    }

    pub(super) fn same_subgroup(&self, a: usize, b: usize) -> bool {
        a / SUBGROUP == b / SUBGROUP
    }

    /// Whether something that `before` did at this time comes before what `after` does now.
    pub(super) fn ordered(&self, time: u32, before: usize, after: usize) -> bool {
        let wavefront = |thread: usize| thread / self.wavefront_size;
        time < self.barrier
            || (self.same_subgroup(before, after) && time < self.subgroups[after / SUBGROUP])
            || (wavefront(before) == wavefront(after) && time < self.wavefronts[wavefront(after)])
    }
}

/// A block that has begun.
pub(super) struct Block {
    pub(super) index: [u32; 3],
    pub(super) at: Vec<At>,
    /// What the last operation gave each thread.
    pub(super) results: Vec<u64>,
    pub(super) lds: Lds,
    pub(super) clocks: Clocks,
    pub(super) done: usize,
    pub(super) at_barrier: usize,
}

impl Block {
    pub(super) fn new(index: [u32; 3], threads: usize, wavefront: usize, lds: Lds) -> Block {
        let at = (0..threads).map(|_| At::Running).collect();
        Block { index, at, results: vec![0; threads], lds, clocks: Clocks::new(threads, wavefront), done: 0, at_barrier: 0 }
    }

    /// Whether all threads of a unit that have not ended wait at one place, and some do: threads `first` to before `end`.
    pub(super) fn complete(&self, first: usize, end: usize) -> bool {
        let mut site = None;
        // The last wavefront may have fewer threads than lanes.
        for at in self.at.get(first..end.min(self.at.len())).unwrap_or_default() {
            match at {
                At::Done => {}
                At::Across(request) if site.is_none_or(|s| s == request.site) => site = Some(request.site),
                _ => return false,
            }
        }
        site.is_some()
    }

    /// The threads of `first` to before `end` that wait for other lanes.
    pub(super) fn waiting(&self, first: usize, end: usize) -> impl Iterator<Item = (usize, &Request)> {
        let end = end.min(self.at.len());
        (first..end).filter_map(|thread| if let At::Across(request) = &self.at[thread] { Some((thread, request)) } else { None })
    }
}
