//! Runs kernels: each thread is a fibre, and all that threads do together, or to memory, is checked.
//!
//! Several blocks are under way at a time. The scheduler chooses a wavefront at random, and now and then another one; of it, a thread that can go on or
//! an operation of lanes that can be done. A thread runs until it waits for others, or for a random number of basic blocks.
//!
//! An operation of lanes is done when all lanes that have not ended of an aligned unit wait at the same call: a subgroup of 32 for barriers of a
//! wavefront, the width for shuffles, the wavefront for matrix instructions, one or the other for votes: in half of the launches, by their seeds, a
//! vote is the whole wavefront's unless a subgroup went another way, in the others a subgroup's. Other units of the wavefront that wait at the same
//! call join or do not, at random: nothing may depend on it. Where nothing can go on, that is a finding.

mod across;
mod block;
mod callbacks;
mod lds;
mod matrix;
mod scheduler;
mod stack;
mod state;
#[cfg(test)]
mod tests;

pub(crate) use callbacks::{address_error, table};
pub(crate) use matrix::multiply;
pub(crate) use scheduler::run;

use std::ffi::c_void;
use std::path::Path;

/// A kernel of a loaded library.
pub(crate) type Entry = unsafe extern "C" fn(*mut *mut c_void);

/// What is to be run.
pub(crate) struct Launch<'a> {
    pub(crate) name: &'a str,
    pub(crate) entry: Entry,
    /// Gives the address of the glue's variable for the lane that runs, one for each thread of the host.
    pub(crate) lane: unsafe extern "C" fn() -> *mut *mut Lane,
    /// The library's file.
    pub(crate) path: &'a Path,
    /// The library's own memory: code, constants and variables.
    pub(crate) own: (usize, usize),
    /// Arguments, in memory that is aligned for all of them, and how many bytes each has.
    pub(crate) arguments: &'a [Vec<u128>],
    pub(crate) sizes: &'a [usize],
    pub(crate) blocks: [u32; 3],
    pub(crate) threads: [u32; 3],
    pub(crate) dynamic_shared: usize,
    pub(crate) wavefront: usize,
    /// `gfx90a`: whose matrix instructions there are.
    pub(crate) arch: &'a str,
    /// Blocks under way at a time.
    pub(crate) resident: usize,
    pub(crate) seed: u64,
    /// Basic blocks that all threads may run together.
    pub(crate) steps: u64,
}

impl Launch<'_> {
    fn threads_of_a_block(&self) -> usize {
        self.threads.iter().map(|n| *n as usize).product()
    }

    fn index_of(&self, thread: usize) -> [u32; 3] {
        split(thread as u64, self.threads)
    }
}

/// The index in three dimensions of a number that counts x first.
pub(crate) fn split(number: u64, extents: [u32; 3]) -> [u32; 3] {
    let [x, y] = [u64::from(extents[0]), u64::from(extents[1])];
    [(number % x) as u32, (number / x % y) as u32, (number / x / y) as u32]
}

/// The thread that runs, as in `cpp/glue.cpp`.
#[repr(C)]
pub(crate) struct Lane {
    thread: [u32; 3],
    block: [u32; 3],
    threads: [u32; 3],
    blocks: [u32; 3],
    wavefront: i32,
    unused: u32,
    /// Basic blocks that it may run before the executor is asked.
    steps: i64,
    stack: usize,
    stack_bytes: usize,
}

/// Why a fibre stopped.
#[derive(Clone, Copy, Debug)]
enum Event {
    Pause,
    Across,
    Barrier,
    Failed,
}
