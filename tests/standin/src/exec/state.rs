//! What a launch's callbacks and its scheduler share: the blocks that have begun, which thread runs, and what was found.

use super::across::Request;
use super::block::{At, Block};
use super::lds::Access;
use super::matrix;
use super::{Lane, Launch};
use crate::finding::Finding;
use crate::memory_map;
use fastrand::Rng;
use std::ffi::c_void;
use std::process::Command;

/// Basic blocks that a thread runs at most before another one does.
const SLICE: i64 = 400;

/// Live global memory that was accessed last, so that the map is asked seldom.
#[derive(Default)]
struct Recent {
    generation: u64,
    blocks: [(usize, usize); 8],
    next: usize,
}

impl Recent {
    fn contains(&mut self, at: usize, size: usize) -> bool {
        let generation = memory_map::generation();
        if generation != self.generation {
            *self = Recent { generation, ..Recent::default() };
        }
        if self.blocks.iter().any(|(from, to)| *from <= at && at + size <= *to) {
            return true;
        }
        let Some(block) = memory_map::block_of(at).filter(|(_, to)| at + size <= *to) else { return false };
        self.blocks[self.next % self.blocks.len()] = block;
        self.next += 1;
        true
    }
}

pub(super) struct State<'a> {
    pub(super) launch: &'a Launch<'a>,
    pub(super) blocks: Vec<Option<Block>>,
    /// Index of the block among those that have begun, and of the thread.
    pub(super) current: (usize, usize),
    pub(super) rng: Rng,
    /// Basic blocks that may still be run.
    pub(super) steps: u64,
    pub(super) finding: Option<Finding>,
    recent: Recent,
}

impl<'a> State<'a> {
    pub(super) fn new(launch: &'a Launch<'a>) -> State<'a> {
        let rng = Rng::with_seed(launch.seed);
        State { launch, blocks: Vec::new(), current: (0, 0), rng, steps: launch.steps, finding: None, recent: Recent::default() }
    }

    fn block(&mut self) -> &mut Block {
        self.blocks[self.current.0].as_mut().expect("the current block has begun")
    }

    /// Keeps a finding, with the thread that it is about. The first one counts.
    pub(super) fn found(&mut self, (slot, thread): (usize, usize), finding: Finding) {
        let Some(block) = &self.blocks[slot] else { return };
        let [bx, by, bz] = block.index;
        let [tx, ty, tz] = self.launch.index_of(thread);
        let text = format!("kernel {}, block ({bx},{by},{bz}), thread ({tx},{ty},{tz}) {}", self.launch.name, finding.text);
        self.finding.get_or_insert(Finding { text, ..finding });
    }

    /// The place in the source text of an address in the kernels' code, where there is a program that knows: the calls that were inlined,
    /// innermost first.
    pub(super) fn place_of(&self, code: usize) -> String {
        let (from, to) = self.launch.own;
        if !(from..to).contains(&code) {
            return String::new();
        }
        // The call itself, not what follows it.
        let offset = format!("{:#x}", code - from - 1);
        let done = Command::new("addr2line").env_remove("LD_PRELOAD").args(["-s", "-i", "-e"]).arg(self.launch.path).arg(offset).output();
        let said = done.map(|done| String::from_utf8_lossy(&done.stdout).into_owned()).unwrap_or_default();
        let places: Vec<&str> = said.lines().map(|line| line.split(" (").next().unwrap_or(line)).filter(|l| !l.starts_with('?')).collect();
        places.join(" from ")
    }

    /// How many basic blocks the thread may run now; none when the launch has taken too many.
    pub(super) fn slice(&mut self) -> Option<i64> {
        let slice = self.rng.i64(1..SLICE);
        self.steps = self.steps.checked_sub(slice as u64)?;
        Some(slice)
    }

    pub(super) fn access(&mut self, at: usize, size: usize, align: usize, access: Access) -> Result<(), Finding> {
        if !at.is_multiple_of(align) {
            return Err(Finding::memory(format!("{} {size} bytes at {at:#x}, which is not aligned to {align}", access.words())));
        }
        let thread = self.current.1;
        let block = self.block();
        if block.lds.contains(at) {
            return block.lds.access(at, size, access, thread, &block.clocks);
        }
        let (from, to) = self.launch.own;
        if (from <= at && at + size <= to) || self.recent.contains(at, size) {
            return Ok(());
        }
        let others = self.blocks.iter().flatten().any(|block| block.lds.contains(at));
        let nearest = if others { "in the shared memory of another block".to_owned() } else { memory_map::describe(at, size) };
        Err(Finding::memory(format!("{} {size} bytes at {at:#x}: {nearest}", access.words())))
    }

    /// Whether others run before a write, so that what was read in the same basic block may be old by then: seldom, since it takes time.
    pub(super) fn interrupts(&mut self) -> bool {
        self.rng.u8(..) < 8
    }

    /// The address of a variable of shared memory.
    pub(super) fn shared(&mut self, tag: usize, size: usize, align: usize, name: &str) -> Result<usize, Finding> {
        let size = if tag == 0 { self.launch.dynamic_shared } else { size };
        self.block().lds.variable(tag, size, align, name)
    }

    pub(super) fn wait(&mut self, at: At) {
        let thread = self.current.1;
        self.block().at[thread] = at;
    }

    pub(super) fn result(&mut self) -> u64 {
        let thread = self.current.1;
        self.block().results[thread]
    }

    /// Runs an operation of lanes: threads `first` to before `end`, and those other subgroups of the wavefront that have come to the same place and,
    /// by chance, join. Returns the threads that can go on.
    pub(super) fn run_across(&mut self, slot: usize, first: usize, end: usize) -> Vec<usize> {
        let size = self.launch.wavefront;
        let wavefront = first / size * size;
        let Some(block) = &self.blocks[slot] else { return Vec::new() };
        let Some(request) = block.waiting(first, end).next().map(|(_, r)| *r) else { return Vec::new() };
        let unit = end - first;
        let joins = |other: usize, rng: &mut Rng| {
            let same = || block.waiting(other, other + unit).next().is_some_and(|(_, r)| r.site == request.site);
            other == first || (block.complete(other, other + unit) && same() && rng.bool())
        };
        let units: Vec<usize> = (wavefront..wavefront + size).step_by(unit).filter(|u| joins(*u, &mut self.rng)).collect();
        let lanes: Vec<(usize, Request)> =
            units.iter().flat_map(|u| block.waiting(*u, u + unit)).map(|(thread, r)| (thread - wavefront, *r)).collect();
        let results = match request.matrix {
            Some(_) => matrix::run(self.launch.arch, &lanes).map_err(|finding| (0, finding)),
            None => super::across::results(&lanes),
        };
        match results {
            Err((lane, finding)) => {
                self.found((slot, wavefront + lanes[lane].0), finding);
                Vec::new()
            }
            Ok(results) => {
                let Some(block) = &mut self.blocks[slot] else { return Vec::new() };
                if request.operation == super::across::Operation::WaveBarrier {
                    let all = units.len() * unit == size;
                    let spans = if all { vec![(wavefront, wavefront + size)] } else { units.iter().map(|u| (*u, u + unit)).collect() };
                    spans.into_iter().for_each(|(from, to)| block.clocks.subgroups(from, to));
                }
                lanes.iter().zip(results).for_each(|((lane, _), result)| {
                    block.at[wavefront + lane] = At::Running;
                    block.results[wavefront + lane] = result;
                });
                lanes.iter().map(|(lane, _)| wavefront + lane).collect()
            }
        }
    }
}

/// The lane that `cpp/glue.cpp` reads.
pub(super) fn lane_of(launch: &Launch<'_>, block: [u32; 3], thread: usize, stack: (usize, usize)) -> Lane {
    Lane {
        thread: launch.index_of(thread),
        block,
        threads: launch.threads,
        blocks: launch.blocks,
        wavefront: launch.wavefront as i32,
        unused: 0,
        steps: 0,
        stack: stack.0,
        stack_bytes: stack.1 - stack.0,
    }
}

/// Addresses of a kernel's arguments.
pub(super) fn addresses(arguments: &[Vec<u128>]) -> Vec<*mut c_void> {
    arguments.iter().map(|a| a.as_ptr().cast_mut().cast()).collect()
}
