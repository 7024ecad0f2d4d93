//! What kernels call, by way of `cpp/glue.cpp`: each call is made on the stack of a fibre and may suspend it.

use super::across::{Operands, Operation, Request};
use super::block::{At, Place};
use super::lds::Access;
use super::state::State;
use super::{Event, Lane};
use crate::finding::Finding;
use corosensei::Yielder;
use std::cell::{Cell, RefCell};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

/// The executor's functions, as in `cpp/glue.cpp`.
#[repr(C)]
struct Table {
    access: extern "C" fn(usize, usize, usize, c_int, usize),
    pause: extern "C" fn(),
    across: extern "C" fn(c_int, u64, c_int, c_int, usize, *const c_char, c_int) -> u64,
    barrier: extern "C" fn(*const c_char, c_int),
    shared: extern "C" fn(usize, usize, usize, *const c_char) -> usize,
    trap: extern "C" fn(*const c_char, c_int),
    matrix: extern "C" fn(*const c_char, usize, usize, usize, usize, *const c_int, usize, *const c_char, c_int),
    undefined: extern "C" fn(*const c_char, *const c_char, c_int),
}

static TABLE: Table = Table { access, pause, across, barrier, shared, trap, matrix, undefined };

/// What runs on this thread of the host.
#[derive(Clone, Copy)]
pub(super) struct Running {
    /// The launch's state; its lifetime ends after `Scope`.
    state: *const RefCell<State<'static>>,
    /// Where the glue keeps the address of its lane.
    pub(super) lane: *mut *mut Lane,
    yielder: *const Yielder<(), Event>,
}

thread_local! {
    static RUNNING: Cell<Running> = const { Cell::new(Running { state: ptr::null(), lane: ptr::null_mut(), yielder: ptr::null() }) };
}

/// While it lives, callbacks on this thread of the host reach `state`.
pub(super) struct Scope {
    before: Running,
    idle: *mut Lane,
}

impl Scope {
    pub(super) fn enter(state: &RefCell<State<'_>>, lane: *mut *mut Lane) -> Scope {
        let before = RUNNING.replace(Running { state: ptr::from_ref(state).cast(), lane, yielder: ptr::null() });
        // SAFETY: the glue's variable of this thread.
        Scope { before, idle: unsafe { *lane } }
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        // SAFETY: the glue's variable of this thread, which outlives the launch.
        unsafe { *RUNNING.get().lane = self.idle };
        RUNNING.set(self.before);
    }
}

/// Called by a fibre when it begins.
pub(super) fn begin(yielder: &Yielder<(), Event>) {
    RUNNING.set(Running { yielder, ..RUNNING.get() });
}

/// Lets the scheduler run; returns when it has resumed the fibre, which it does on the same thread of the host.
fn suspend(event: Event) {
    let running = RUNNING.get();
    // SAFETY: the yielder of the fibre that runs, set when it began or went on.
    unsafe { (*running.yielder).suspend(event) };
    RUNNING.set(running);
}

/// Works with the state, and ends the fibre where that finds something.
fn with<R: Default>(work: impl FnOnce(&mut State<'_>) -> Result<R, Finding>) -> R {
    // SAFETY: kernels run inside of a `Scope` only, whose state outlives it. It is borrowed by nobody: the scheduler borrows it between
    // fibres, and no callback suspends while it does.
    let state = unsafe { &*RUNNING.get().state };
    let result = {
        let mut state = state.borrow_mut();
        let current = state.current;
        work(&mut state).map_err(|finding| state.found(current, finding))
    };
    result.unwrap_or_else(|()| {
        // Never resumed.
        suspend(Event::Failed);
        R::default()
    })
}

/// A name in the kernels' library, which is never unloaded.
fn text(from: *const c_char) -> &'static str {
    // SAFETY: string literals of the library.
    unsafe { CStr::from_ptr(from) }.to_str().unwrap_or("?")
}

fn place(file: *const c_char, line: c_int) -> Place {
    // SAFETY: string literals of the kernels' library, which is never unloaded.
    unsafe { Place::new(file, line) }
}

extern "C" fn access(at: usize, size: usize, align: usize, kind: c_int, from: usize) {
    let access = Access::of(kind);
    let wait = with(|state| {
        state.access(at, size, align, access).map_err(|finding| finding.at(&state.place_of(from)))?;
        Ok(access == Access::Write && state.interrupts())
    });
    if wait {
        suspend(Event::Pause);
    }
}

extern "C" fn pause() {
    let steps =
        with(|state| state.slice().ok_or_else(|| Finding::launch("runs, and the launch has not ended in its budget of steps".to_owned())));
    // SAFETY: the glue's variable points to the lane of the fibre that runs.
    unsafe { (**RUNNING.get().lane).steps = steps };
    suspend(Event::Pause);
}

extern "C" fn across(operation: c_int, value: u64, argument: c_int, width: c_int, site: usize, file: *const c_char, line: c_int) -> u64 {
    let request = Request { operation: Operation::of(operation), value, argument, width, site, place: place(file, line), matrix: None };
    wait_across(request)
}

fn wait_across(request: Request) -> u64 {
    with(|state| {
        request.check(state.launch.wavefront)?;
        state.wait(At::Across(request));
        Ok(())
    });
    suspend(Event::Across);
    with(|state| Ok(state.result()))
}

extern "C" fn barrier(file: *const c_char, line: c_int) {
    with(|state| {
        state.wait(At::Barrier(place(file, line)));
        Ok(())
    });
    suspend(Event::Barrier);
}

extern "C" fn shared(tag: usize, size: usize, align: usize, name: *const c_char) -> usize {
    with(|state| state.shared(tag, size, align, text(name)))
}

extern "C" fn trap(file: *const c_char, line: c_int) {
    with(|_| Err::<(), _>(Finding::launch(format!("stops at {}", place(file, line)))));
}

/// What AddressSanitizer says about the access at `code` of the kernel that runs: it ends at its next basic block. False where no kernel runs on
/// this thread of the host.
pub(crate) fn address_error(text: String, code: usize) -> bool {
    let running = RUNNING.get();
    // SAFETY: null, or the state of a launch whose `Scope` lives.
    let Some(mut state) = unsafe { running.state.as_ref() }.and_then(|state| state.try_borrow_mut().ok()) else { return false };
    let (current, place) = (state.current, state.place_of(code));
    state.found(current, Finding::memory(text).at(&place));
    // SAFETY: the glue's variable points to the lane of the fibre that runs.
    unsafe { (**running.lane).steps = 0 };
    true
}

/// What UndefinedBehaviorSanitizer has seen.
extern "C" fn undefined(what: *const c_char, file: *const c_char, line: c_int) {
    with(|_| Err::<(), _>(Finding::launch(format!("does what C++ leaves undefined: {}, at {}", text(what), place(file, line)))));
}

#[allow(clippy::too_many_arguments, reason = "the operands of an instruction")]
extern "C" fn matrix(
    name: *const c_char,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    modifiers: *const c_int,
    site: usize,
    file: *const c_char,
    line: c_int,
) {
    // SAFETY: the caller passes an array of three.
    let modifiers = unsafe { *modifiers.cast::<[c_int; 3]>() }.map(|m| m as u32);
    let operands = Operands { name: text(name), abc: [a, b, c], d, modifiers };
    let operation = Operation::Matrix;
    wait_across(Request { operation, value: 0, argument: 0, width: 0, site, place: place(file, line), matrix: Some(operands) });
}

/// The address of the table, for the function of a library that keeps it.
pub(crate) fn table() -> *const c_void {
    ptr::from_ref(&TABLE).cast()
}
