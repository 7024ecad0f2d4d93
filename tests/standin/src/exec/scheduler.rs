//! The scheduler of a launch.

use super::across::Operation;
use super::block::{At, Block, SUBGROUP};
use super::callbacks::{Scope, begin};
use super::lds::Lds;
use super::stack::FibreStack;
use super::state::{State, addresses, lane_of};
use super::{Event, Lane, Launch, split};
use crate::finding::Finding;
use corosensei::stack::Stack;
use corosensei::{Coroutine, CoroutineResult};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::c_void;

/// Fibres at a time: each stack takes two of the mappings that a process may have.
const FIBRES: usize = 8192;
/// A wavefront runs on with all but one of so many choices: the stacks of its threads are in the host's cache.
const STAYS: u32 = 64;

type Routine = Coroutine<(), Event, (), FibreStack>;

/// A thread of a kernel.
struct Fibre {
    routine: Routine,
    lane: Box<Lane>,
}

/// Lanes that wait at one place: block, first thread, one behind the last.
type Unit = (usize, usize, usize);

/// What a wavefront can do.
#[derive(Default)]
struct Wavefront {
    /// Threads that can go on: block and thread.
    runnable: Vec<(usize, usize)>,
    /// Operations that can be done, unless that has changed since.
    ready: Vec<Unit>,
    /// Whether the scheduler's list of able wavefronts has it.
    listed: bool,
}

impl Wavefront {
    fn choices(&self) -> usize {
        self.runnable.len() + self.ready.len()
    }
}

struct Scheduler<'a> {
    launch: &'a Launch<'a>,
    state: &'a RefCell<State<'a>>,
    lane: *mut *mut Lane,
    arguments: Vec<*mut c_void>,
    /// By block and thread; the state's blocks in the same order.
    fibres: Vec<Vec<Option<Fibre>>>,
    /// By block and wavefront.
    wavefronts: Vec<Wavefront>,
    /// Those that can do something, and others that could until they did it.
    able: Vec<usize>,
    /// The one that runs.
    chosen: usize,
    /// Whether a vote waits for all lanes of its wavefront that can come, as where its subgroups have not diverged, or for a subgroup.
    votes_together: bool,
    /// Blocks that have begun, and how many have not ended.
    begun: u64,
    active: usize,
}

/// Runs a kernel from the first thread to the last.
pub(crate) fn run(launch: &Launch<'_>) -> Result<(), Finding> {
    let state = RefCell::new(State::new(launch));
    // SAFETY: the library's function, which takes nothing.
    let lane = unsafe { (launch.lane)() };
    let _scope = Scope::enter(&state, lane);
    let votes_together = state.borrow_mut().rng.bool();
    let mut scheduler = Scheduler {
        launch,
        state: &state,
        lane,
        arguments: addresses(launch.arguments),
        fibres: Vec::new(),
        wavefronts: Vec::new(),
        able: Vec::new(),
        chosen: 0,
        votes_together,
        begun: 0,
        active: 0,
    };
    let result = scheduler.go();
    scheduler.abandon();
    result
}

impl<'a> Scheduler<'a> {
    fn go(&mut self) -> Result<(), Finding> {
        let total = self.launch.blocks.iter().map(|n| u64::from(*n)).product::<u64>();
        let threads = self.launch.threads_of_a_block();
        let resident = self.launch.resident.clamp(1, (FIBRES / threads).max(1));
        loop {
            while self.active < resident && self.begun < total {
                self.start(threads)?;
            }
            let Some(choice) = self.choose() else {
                if self.active == 0 {
                    return Ok(());
                }
                self.split_wide()?;
                continue;
            };
            let wavefront = &mut self.wavefronts[self.chosen];
            if choice < wavefront.runnable.len() {
                let thread = wavefront.runnable.swap_remove(choice);
                self.resume(thread)?;
            } else {
                let unit = wavefront.ready.swap_remove(choice - wavefront.runnable.len());
                self.run_across(unit)?;
            }
        }
    }

    /// Chooses a wavefront, and one of the things that it can do. None when no wavefront can do anything.
    fn choose(&mut self) -> Option<usize> {
        let rng = &mut self.state.borrow_mut().rng;
        if self.wavefronts.get(self.chosen).is_none_or(|w| w.choices() == 0) || rng.u32(0..STAYS) == 0 {
            let wavefronts = &mut self.wavefronts;
            self.able.retain(|number| {
                wavefronts[*number].listed = wavefronts[*number].choices() > 0;
                wavefronts[*number].listed
            });
            self.chosen = *self.able.get(rng.usize(0..self.able.len().max(1)))?;
        }
        Some(rng.usize(0..self.wavefronts[self.chosen].choices()))
    }

    /// The wavefront of a thread, which is about to be able to do something.
    fn wakes(&mut self, slot: usize, thread: usize) -> &mut Wavefront {
        let number = slot * self.wavefronts_of_a_block() + thread / self.launch.wavefront;
        let wavefront = &mut self.wavefronts[number];
        if !std::mem::replace(&mut wavefront.listed, true) {
            self.able.push(number);
        }
        wavefront
    }

    fn goes_on(&mut self, slot: usize, thread: usize) {
        self.wakes(slot, thread).runnable.push((slot, thread));
    }

    fn wavefronts_of_a_block(&self) -> usize {
        self.launch.threads_of_a_block().div_ceil(self.launch.wavefront)
    }

    /// Begins the next block.
    fn start(&mut self, threads: usize) -> Result<(), Finding> {
        let index = split(self.begun, self.launch.blocks);
        self.begun += 1;
        self.active += 1;
        let slot = self.fibres.iter().position(Vec::is_empty).unwrap_or(self.fibres.len());
        let mut state = self.state.borrow_mut();
        if slot == self.fibres.len() {
            self.fibres.push(Vec::new());
            state.blocks.push(None);
            let wavefronts = self.wavefronts.len() + self.wavefronts_of_a_block();
            self.wavefronts.resize_with(wavefronts, Wavefront::default);
        }
        let mut lds = state.blocks[slot].take().map_or_else(Lds::take, |block| block.lds);
        lds.clear();
        state.blocks[slot] = Some(Block::new(index, threads, self.launch.wavefront, lds));
        drop(state);
        for thread in 0..threads {
            let fibre = self.fibre(index, thread)?;
            self.fibres[slot].push(Some(fibre));
            self.goes_on(slot, thread);
        }
        Ok(())
    }

    fn fibre(&self, block: [u32; 3], thread: usize) -> Result<Fibre, Finding> {
        let stack = FibreStack::take().map_err(|e| Finding::launch(format!("{}: no stack for a thread: {e}", self.launch.name)))?;
        let lane = lane_of(self.launch, block, thread, (stack.limit().get(), stack.base().get()));
        let (entry, mut arguments) = (self.launch.entry, self.arguments.clone());
        let routine = Coroutine::with_stack(stack, move |yielder, ()| {
            begin(yielder);
            // SAFETY: the library's entry for this kernel; the arguments have its parameters' sizes, and live until the launch has ended.
            unsafe { entry(arguments.as_mut_ptr()) };
        });
        Ok(Fibre { routine, lane: Box::new(lane) })
    }

    fn resume(&mut self, (slot, thread): (usize, usize)) -> Result<(), Finding> {
        let Some(mut fibre) = self.fibres[slot][thread].take() else { return Ok(()) };
        self.state.borrow_mut().current = (slot, thread);
        // SAFETY: the glue's variable of this thread of the host; the lane lives until the fibre stops.
        unsafe { *self.lane = &raw mut *fibre.lane };
        match fibre.routine.resume(()) {
            CoroutineResult::Return(()) => {
                fibre.routine.into_stack().give_back();
                return self.ended(slot, thread);
            }
            CoroutineResult::Yield(event) => {
                self.fibres[slot][thread] = Some(fibre);
                match event {
                    Event::Pause => self.goes_on(slot, thread),
                    Event::Across => self.waits(slot, thread),
                    Event::Barrier => {
                        self.block(slot, |block| block.at_barrier += 1);
                        self.release(slot)?;
                    }
                    Event::Failed => {}
                }
            }
        }
        self.check()
    }

    /// What a callback, or an operation of lanes, has found.
    fn check(&self) -> Result<(), Finding> {
        self.state.borrow_mut().finding.take().map_or(Ok(()), Err)
    }

    fn block<R>(&self, slot: usize, f: impl FnOnce(&mut Block) -> R) -> Option<R> {
        self.state.borrow_mut().blocks[slot].as_mut().map(f)
    }

    /// A thread has come to an operation of lanes.
    fn waits(&mut self, slot: usize, thread: usize) {
        let wavefront = self.launch.wavefront;
        let unit = self.block(slot, |block| {
            let At::Across(request) = &block.at[thread] else { return None };
            let unit = request.unit(wavefront, self.votes_together);
            let first = thread / unit * unit;
            block.complete(first, first + unit).then_some((slot, first, first + unit))
        });
        if let Some(unit) = unit.flatten() {
            self.wakes(slot, thread).ready.push(unit);
        }
    }

    /// Runs what a unit waits for; nothing if it has done so with another unit since it was ready, and waits for more lanes now.
    fn run_across(&mut self, (slot, first, end): Unit) -> Result<(), Finding> {
        let (wavefront, together) = (self.launch.wavefront, self.votes_together);
        let unit = self.block(slot, |block| block.waiting(first, end).next().map(|(_, request)| request.unit(wavefront, together)));
        if unit.flatten() == Some(end - first) { self.run_waiting((slot, first, end)) } else { Ok(()) }
    }

    fn run_waiting(&mut self, (slot, first, end): Unit) -> Result<(), Finding> {
        if self.block(slot, |block| block.complete(first, end)) == Some(true) {
            let threads = self.state.borrow_mut().run_across(slot, first, end);
            threads.into_iter().for_each(|thread| self.goes_on(slot, thread));
        }
        self.check()
    }

    /// A thread has ended: others wait for it no longer.
    fn ended(&mut self, slot: usize, thread: usize) -> Result<(), Finding> {
        let wavefront = thread / self.launch.wavefront * self.launch.wavefront;
        let size = self.launch.wavefront;
        let waiting = self.block(slot, |block| {
            block.at[thread] = At::Done;
            block.done += 1;
            block.waiting(wavefront, wavefront + size).map(|(thread, _)| thread).collect::<Vec<_>>()
        });
        waiting.into_iter().flatten().for_each(|thread| self.waits(slot, thread));
        if self.block(slot, |block| block.done == block.at.len()) == Some(true) {
            self.fibres[slot].clear();
            self.active -= 1;
        }
        self.release(slot)
    }

    /// Lets the threads go on that wait at a barrier, if all do.
    fn release(&mut self, slot: usize) -> Result<(), Finding> {
        let verdict = self.block(slot, |block| {
            if block.at_barrier == 0 || block.at_barrier + block.done < block.at.len() {
                return Ok(0);
            }
            let mut places = block.at.iter().enumerate().filter_map(|(t, at)| if let At::Barrier(p) = at { Some((t, *p)) } else { None });
            let Some((thread, place)) = places.next() else { return Ok(0) };
            if block.done > 0 {
                return Err((thread, format!("waits at the barrier {place}, and {} threads of its block have ended", block.done)));
            }
            if let Some((_, other)) = places.find(|(_, p)| *p != place) {
                return Err((thread, format!("waits at the barrier {place}, and others of its block at {other}")));
            }
            block.at.iter_mut().for_each(|at| *at = At::Running);
            block.at_barrier = 0;
            block.clocks.barrier();
            Ok(block.at.len())
        });
        match verdict {
            Some(Ok(threads)) => (0..threads).for_each(|thread| self.goes_on(slot, thread)),
            Some(Err((thread, text))) => self.state.borrow_mut().found((slot, thread), Finding::launch(text)),
            None => {}
        }
        self.check()
    }

    /// Nothing can go on. Shuffles and votes of more lanes than a subgroup may still be done by one that came alone; else nothing ever will.
    fn split_wide(&mut self) -> Result<(), Finding> {
        for slot in 0..self.fibres.len() {
            let threads = self.launch.threads_of_a_block();
            for first in (0..threads).step_by(SUBGROUP) {
                let wide = self.block(slot, |block| {
                    block.complete(first, first + SUBGROUP)
                        && block.waiting(first, first + SUBGROUP).all(|(_, r)| r.operation != Operation::Matrix)
                });
                if wide == Some(true) {
                    return self.run_waiting((slot, first, first + SUBGROUP));
                }
            }
        }
        self.stuck();
        self.check()
    }

    /// Says where the threads of a block wait for others that never come.
    fn stuck(&mut self) {
        let mut state = self.state.borrow_mut();
        let Some((slot, block)) =
            state.blocks.iter().enumerate().find_map(|(slot, b)| Some((slot, b.as_ref().filter(|b| b.done < b.at.len())?)))
        else {
            return;
        };
        let mut places: BTreeMap<String, usize> = BTreeMap::new();
        for at in &block.at {
            let place = match at {
                At::Across(request) => format!("at {} for lanes", request.place),
                At::Barrier(place) => format!("at the barrier {place}"),
                At::Running | At::Done => continue,
            };
            *places.entry(place).or_default() += 1;
        }
        let words: Vec<String> = places.iter().map(|(place, count)| format!("{count} threads wait {place}")).collect();
        let thread = block.at.iter().position(|at| matches!(at, At::Across(_))).unwrap_or(0);
        let finding =
            Finding::launch(format!("waits for lanes that do not come: of its block {}, {} have ended", words.join(", "), block.done));
        state.found((slot, thread), finding);
    }

    /// Ends the fibres that are left after a finding, and keeps what the next launch can use.
    fn abandon(&mut self) {
        for mut fibre in self.fibres.drain(..).flatten().flatten() {
            if !fibre.routine.done() {
                // SAFETY: the frames on the stack are those of a kernel, of the glue and of callbacks, all of which own nothing.
                unsafe { fibre.routine.force_reset() };
            }
            fibre.routine.into_stack().give_back();
        }
        self.state.borrow_mut().blocks.drain(..).flatten().for_each(|block| block.lds.give_back());
    }
}
