//! How much memory an execution holds at most: an allocator that counts, by thread.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Bytes that this thread has allocated and not freed, and the most since [`peak_of`] began.
    static HELD: Cell<(isize, isize)> = const { Cell::new((0, 0)) };
}

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count(bytes: isize) {
    // A thread that ends has no counter any more.
    let _ = HELD.try_with(|held| {
        let (now, peak) = held.get();
        held.set((now + bytes, peak.max(now + bytes)));
    });
}

// SAFETY: every call is handed on to the system's allocator as it is; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promise is the one that is asked for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promise is the one that is asked for.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller's promise is the one that is asked for.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as isize - layout.size() as isize);
        // SAFETY: the caller's promise is the one that is asked for.
        unsafe { System.realloc(ptr, layout, size) }
    }
}

/// The most bytes that this thread held during `work`, above what it held before.
pub(crate) fn peak_of<R>(work: impl FnOnce() -> R) -> (R, usize) {
    let (before, _) = HELD.get();
    HELD.set((before, before));
    let result = work();
    let (_, peak) = HELD.get();
    (result, usize::try_from(peak - before).unwrap_or(0))
}

/// What an input of so many bytes may hold: what the harnesses allow a copy of a tensor (1 MiB) and the workspaces of the reader, beside some words for each byte.
pub(crate) fn allowed(input: usize) -> usize {
    (4 << 20) + 256 * input
}
