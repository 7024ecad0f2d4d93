//! The shared memory of a block: its variables with red zones between them, and who accessed each byte.
//!
//! Two accesses by different threads are ordered when a synchronisation lies between them in which both took part: a barrier of the block, or
//! one of their wavefront or of its subgroup. Each synchronisation advances the block's clock; each byte keeps the clock of its last plain
//! write, of its last atomic access and of its last readers in two subgroups. A plain write that is not ordered after one of these by another
//! thread, and any access that is not ordered after a plain write by another thread, is a race. A plain read beside an atomic access is allowed.

use super::block::Clocks;
use crate::asan;
use crate::finding::Finding;
use std::cell::RefCell;

/// What a block has, in bytes: on AMD's GPUs, and on those of NVIDIA's that kernels for AddressSanitizer are made for (`LIKE_NVIDIA`).
fn capacity() -> usize {
    if asan::loaded() { 227 << 10 } else { 64 << 10 }
}
/// Between variables.
const RED_ZONE: usize = 64;

/// How memory is accessed; the numbers of `cpp/glue.cpp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
    Atomic,
}

impl Access {
    pub(crate) fn of(number: i32) -> Access {
        match number {
            0 => Access::Read,
            1 => Access::Write,
            _ => Access::Atomic,
        }
    }

    pub(crate) fn words(self) -> &'static str {
        match self {
            Access::Read => "reads",
            Access::Write => "writes",
            Access::Atomic => "updates",
        }
    }
}

/// A thread, and the block's clock when it accessed a byte; clock 0 is never.
#[derive(Clone, Copy, Default)]
struct Mark {
    clock: u32,
    thread: u16,
}

#[derive(Clone, Copy, Default)]
struct Byte {
    write: Mark,
    atomic: Mark,
    reads: [Mark; 2],
}

struct Variable {
    tag: usize,
    name: String,
    from: usize,
    size: usize,
}

/// The shared memory of one block.
pub(super) struct Lds {
    memory: Box<[Aligned]>,
    bytes: Vec<Byte>,
    variables: Vec<Variable>,
    /// Where the next variable may begin, and how many bytes those that exist have.
    end: usize,
    used: usize,
}

/// As far as a kernel may ask for variables to be aligned.
const ALIGN: usize = 1024;

#[derive(Clone, Copy)]
#[repr(align(1024))]
struct Aligned([u8; ALIGN]);

thread_local! {
    /// What blocks of earlier launches had: marks take many times the bytes of the memory, and AddressSanitizer as long for them as for all else that a short launch does.
    static POOL: RefCell<Vec<Lds>> = const { RefCell::new(Vec::new()) };
}

impl Lds {
    /// One that was given back on this thread of the host, or a new one; for its first block it is cleared as for any other.
    pub(super) fn take() -> Lds {
        let new = || Lds { memory: Vec::new().into_boxed_slice(), bytes: Vec::new(), variables: Vec::new(), end: RED_ZONE, used: 0 };
        POOL.with_borrow_mut(Vec::pop).unwrap_or_else(new)
    }

    pub(super) fn give_back(self) {
        POOL.with_borrow_mut(|pool| pool.push(self));
    }

    /// As new, for another block.
    pub(super) fn clear(&mut self) {
        self.variables.clear();
        asan::forbid(self.base(), self.end.min(ALIGN * self.memory.len()));
        (self.end, self.used) = (RED_ZONE, 0);
    }

    fn base(&self) -> usize {
        self.memory.as_ptr() as usize
    }

    /// Whether the address belongs to this memory, red zones included.
    pub(super) fn contains(&self, at: usize) -> bool {
        at.wrapping_sub(self.base()) < self.memory.len() * ALIGN
    }

    /// The address of the variable with this tag, which is made when it is asked for first.
    pub(super) fn variable(&mut self, tag: usize, size: usize, align: usize, name: &str) -> Result<usize, Finding> {
        if let Some(variable) = self.variables.iter().find(|v| v.tag == tag) {
            return Ok(self.base() + variable.from);
        }
        let capacity = capacity();
        if self.memory.is_empty() {
            // Room for red zones, which a real GPU does not have.
            self.memory = vec![Aligned([0; ALIGN]); 2 * capacity / ALIGN].into_boxed_slice();
            self.bytes = vec![Byte::default(); 2 * capacity];
            asan::forbid(self.base(), 2 * capacity);
        }
        let from = self.end.next_multiple_of(align.max(16));
        self.used += size;
        if self.used > capacity || from + size + RED_ZONE > 2 * capacity {
            return Err(Finding::launch(format!("{} bytes of shared memory with {name}, a block has {capacity}", self.used)));
        }
        self.bytes[from..from + size].fill(Byte::default());
        asan::allow(self.base() + from, size);
        self.poison(from, size);
        self.variables.push(Variable { tag, name: name.to_owned(), from, size });
        self.end = from + size + RED_ZONE;
        Ok(self.base() + from)
    }

    fn poison(&mut self, from: usize, size: usize) {
        for at in from..from + size {
            self.memory[at / ALIGN].0[at % ALIGN] = 0xa5;
        }
    }

    /// Checks an access by a thread, and keeps it in mind.
    pub(super) fn access(&mut self, at: usize, size: usize, access: Access, thread: usize, clocks: &Clocks) -> Result<(), Finding> {
        let from = at - self.base();
        let Some(variable) = self.variables.iter().find(|v| v.from <= from && from + size <= v.from + v.size) else {
            return Err(Finding::memory(self.outside(from, size, access)));
        };
        let name = |byte: usize| format!("byte {} of {}", byte - variable.from, variable.name);
        let mark = Mark { clock: clocks.now(), thread: thread as u16 };
        for (i, byte) in self.bytes[from..from + size].iter_mut().enumerate() {
            let race = |other: Mark, did: &str| {
                let ordered = other.clock == 0 || other.thread == mark.thread || clocks.ordered(other.clock, other.thread.into(), thread);
                if ordered {
                    return Ok(());
                }
                let text = format!(
                    "{} {}, which thread {} {did} without a synchronisation in between",
                    access.words(),
                    name(from + i),
                    other.thread
                );
                Err(Finding::launch(text))
            };
            race(byte.write, "wrote")?;
            if access != Access::Write && byte.write.clock == 0 && byte.atomic.clock == 0 {
                return Err(Finding::launch(format!("{} {}, which nobody has written", access.words(), name(from + i))));
            }
            match access {
                Access::Read => byte.read_by(mark, clocks),
                Access::Atomic => byte.atomic = mark,
                Access::Write => {
                    race(byte.atomic, "updated")?;
                    race(byte.reads[0], "read")?;
                    race(byte.reads[1], "read")?;
                    byte.write = mark;
                }
            }
        }
        Ok(())
    }

    fn outside(&self, from: usize, size: usize, access: Access) -> String {
        let distance = |v: &&Variable| if from < v.from { v.from - from } else { (from + size).saturating_sub(v.from + v.size) };
        let access = access.words();
        match self.variables.iter().min_by_key(distance) {
            None => format!("{access} {size} bytes of shared memory, of which the block has none"),
            Some(v) if from < v.from => {
                format!("{access} {size} bytes of shared memory, {} bytes before {} of {} bytes", distance(&v), v.name, v.size)
            }
            Some(v) => {
                format!("{access} {size} bytes of shared memory, {} bytes beyond the end of {} of {} bytes", distance(&v), v.name, v.size)
            }
        }
    }
}

impl Byte {
    /// The last reader, and the last one of another subgroup.
    fn read_by(&mut self, mark: Mark, clocks: &Clocks) {
        if !clocks.same_subgroup(self.reads[0].thread.into(), mark.thread.into()) {
            self.reads[1] = self.reads[0];
        }
        self.reads[0] = mark;
    }
}
