//! Stacks of fibres, used again and again.

use corosensei::stack::{DefaultStack, Stack, StackPointer};
use std::cell::{Cell, RefCell};
use std::io;

/// Bytes of a stack. Only what is used becomes memory.
const SIZE: usize = 128 << 10;
/// Stacks begin at so many different offsets, of so many bytes each: beginnings that are alike in their low bits would share few lines of
/// the host's cache.
const OFFSETS: usize = 61;
const OFFSET: usize = 320;

thread_local! {
    static POOL: RefCell<Vec<FibreStack>> = const { RefCell::new(Vec::new()) };
    static MADE: Cell<usize> = const { Cell::new(0) };
}

pub(super) struct FibreStack {
    memory: DefaultStack,
    base: StackPointer,
}

impl FibreStack {
    /// One that was given back on this thread of the host, or a new one.
    pub(super) fn take() -> io::Result<FibreStack> {
        POOL.with_borrow_mut(Vec::pop).map_or_else(FibreStack::new, Ok)
    }

    fn new() -> io::Result<FibreStack> {
        let memory = DefaultStack::new(SIZE)?;
        let number = MADE.replace(MADE.get() + 1);
        let base = memory.base().get() - number % OFFSETS * OFFSET;
        let base = StackPointer::new(base).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(FibreStack { memory, base })
    }

    pub(super) fn give_back(self) {
        POOL.with_borrow_mut(|pool| pool.push(self));
    }
}

// SAFETY: the stack is that of `memory`, without less than 20 KiB at its beginning; offsets keep the alignment to 16 bytes. Its guard page is that of
// `memory`.
unsafe impl Stack for FibreStack {
    fn base(&self) -> StackPointer {
        self.base
    }

    fn limit(&self) -> StackPointer {
        self.memory.limit()
    }
}
