//! What the runtime remembers, and what goes wrong on request.

use crate::version::version;
use std::collections::{HashMap, HashSet};
use std::ffi::c_int;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// Codes of `hipError_t`.
pub(crate) const SUCCESS: c_int = 0;
pub(crate) const INVALID_VALUE: c_int = 1;
pub(crate) const OUT_OF_MEMORY: c_int = 2;
pub(crate) const NO_DEVICE: c_int = 100;
pub(crate) const INVALID_DEVICE: c_int = 101;
pub(crate) const INVALID_HANDLE: c_int = 400;
pub(crate) const NOT_FOUND: c_int = 500;
pub(crate) const NOT_READY: c_int = 600;
pub(crate) const CAPTURE_UNSUPPORTED: c_int = 900;

/// Work that a stream has not done yet. It is done when somebody waits, so that a missing wait shows.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Copy {
        to: usize,
        from: usize,
        size: usize,
    },
    Set {
        to: usize,
        value: u8,
        size: usize,
    },
    SetValue {
        to: usize,
        size: usize,
        pattern: [u8; 16],
    },
    /// A comparison: what it reads, and where in pinned memory its answer goes.
    Compare {
        reads: [usize; 2],
        answer: usize,
    },
    /// hipFreeAsync.
    Free {
        ptr: usize,
    },
    Record(usize),
    Wait(usize),
}

impl Op {
    fn touches(&self, start: usize, size: usize) -> bool {
        let overlaps = |at: usize, len: usize| at < start + size && start < at + len;
        match *self {
            Op::Copy { to, from, size } => overlaps(to, size) || overlaps(from, size),
            Op::Set { to, size, .. } | Op::SetValue { to, size, .. } => overlaps(to, size),
            Op::Compare { reads: [a, r], answer } => overlaps(a, 1) || overlaps(r, 1) || overlaps(answer, 1),
            Op::Free { .. } | Op::Record(_) | Op::Wait(_) => false,
        }
    }
}

/// A block of device memory.
pub(crate) struct Block {
    pub(crate) size: usize,
    pub(crate) device: c_int,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) next: usize,
    pub(crate) device: HashMap<usize, Block>,
    pub(crate) pinned: HashMap<usize, usize>,
    /// Those of them that are fine-grained.
    pub(crate) coherent: HashSet<usize>,
    /// Pending work by stream; 0 is the null stream.
    pub(crate) streams: HashMap<usize, Vec<Op>>,
    /// Streams in whose order memory was allocated, in a version that cannot destroy them any more.
    pub(crate) allocated_on: HashSet<usize>,
    /// Whether the event is done.
    pub(crate) events: HashMap<usize, bool>,
    /// The names that a module has; none are all.
    pub(crate) modules: HashMap<usize, Option<String>>,
    pub(crate) functions: HashMap<usize, String>,
    pub(crate) programs: HashMap<usize, (String, String)>,
    /// Streams that are being captured, with what was recorded.
    pub(crate) captures: HashMap<usize, Vec<Op>>,
    pub(crate) graphs: HashMap<usize, Vec<Op>>,
    /// Graphs that can be launched.
    pub(crate) execs: HashMap<usize, Vec<Op>>,
    /// How often each function was called.
    pub(crate) calls: HashMap<&'static str, usize>,
    pub(crate) launches: usize,
    /// Comparisons that were done.
    compared: u64,
    /// Whether they are done when they are launched.
    eager: bool,
    /// Freed while in use, freed twice, unknown handles, a copy between the wrong devices.
    pub(crate) violations: usize,
    failures: HashMap<String, (usize, c_int)>,
    loud: HashSet<String>,
}

impl State {
    /// A new handle or address that is nobody else's.
    pub(crate) fn handle(&mut self) -> usize {
        self.next += 64;
        0x1000 + self.next
    }

    pub(crate) fn violation(&mut self, what: &str) {
        self.violations += 1;
        if self.loud.insert(what.to_owned()) {
            eprintln!("standin: {what}");
        }
    }

    /// Counts a call and says whether it fails.
    pub(crate) fn called(&mut self, name: &'static str) -> Option<c_int> {
        *self.calls.entry(name).or_default() += 1;
        let (left, code) = self.failures.get_mut(name)?;
        if *left == 0 {
            return Some(*code);
        }
        *left = left.checked_sub(1)?;
        if *left > 0 {
            return None;
        }
        let code = *code;
        self.failures.remove(name);
        Some(code)
    }

    /// The `nth` call of `name` from now on returns `code`; 0 is every call.
    pub(crate) fn fail(&mut self, name: &str, nth: usize, code: c_int) {
        self.failures.insert(name.to_owned(), (nth, code));
    }

    /// Enqueues or records an operation.
    pub(crate) fn push(&mut self, stream: usize, op: Op) {
        let launch = matches!(op, Op::SetValue { .. } | Op::Compare { .. });
        if let Some(recorded) = self.captures.get_mut(&stream).filter(|_| !launch || version().captures_launches()) {
            return recorded.push(op);
        }
        let now = self.eager && matches!(op, Op::Compare { .. });
        self.streams.entry(stream).or_default().push(op);
        if now {
            self.run(stream);
        }
    }

    /// Waits for a stream, which one that is being captured does not allow.
    pub(crate) fn wait_for(&mut self, stream: usize) -> c_int {
        if self.captures.contains_key(&stream) {
            self.violation("a wait for a stream that is being captured");
            return CAPTURE_UNSUPPORTED;
        }
        self.run(stream);
        SUCCESS
    }

    pub(crate) fn in_use(&self, start: usize, size: usize) -> bool {
        self.streams.values().flatten().any(|op| op.touches(start, size))
    }

    /// Does what `stream` has to do.
    pub(crate) fn run(&mut self, stream: usize) {
        for op in self.streams.get_mut(&stream).map(std::mem::take).unwrap_or_default() {
            match op {
                // SAFETY: the tests copy between live blocks; a block that is freed before is a violation that was counted.
                Op::Copy { to, from, size } => unsafe { std::ptr::copy(from as *const u8, to as *mut u8, size) },
                // SAFETY: as above.
                Op::Set { to, value, size } => unsafe { std::ptr::write_bytes(to as *mut u8, value, size) },
                Op::SetValue { to, size, pattern } => {
                    for i in 0..size {
                        // SAFETY: as above.
                        unsafe { *((to + i) as *mut u8) = pattern[i % 16] }
                    }
                }
                Op::Compare { reads, answer } => {
                    if reads.iter().any(|at| !self.device.iter().any(|(p, b)| (*p..p + b.size).contains(at))) {
                        self.violation("a comparison of memory that is gone");
                    }
                    let Some(size) = self.pinned.get(&answer) else { continue };
                    self.compared += 1;
                    // SAFETY: pinned blocks have their size; that of an answer begins with the number of mismatches and ends with the word that says
                    // that it is there.
                    unsafe {
                        std::ptr::write_bytes(answer as *mut u8, 0, *size);
                        (answer as *mut u64).write(self.compared);
                        ((answer + *size - 8) as *mut u64).write(1);
                    }
                }
                Op::Free { ptr } => {
                    if let Some(block) = self.device.remove(&ptr) {
                        if self.in_use(ptr, block.size) {
                            self.violation("hipFreeAsync with work pending on other streams");
                        } else {
                            crate::memory::free(ptr, block.size);
                        }
                    }
                }
                Op::Record(event) => {
                    self.events.insert(event, true);
                }
                Op::Wait(event) => self.run_until(event),
            }
        }
    }

    /// Does the work before an event, wherever it was recorded.
    pub(crate) fn run_until(&mut self, event: usize) {
        let has = |ops: &Vec<Op>| ops.iter().any(|op| matches!(op, Op::Record(e) if *e == event));
        if let Some(stream) = self.streams.iter().find(|(_, ops)| has(ops)).map(|(s, _)| *s) {
            self.run(stream);
        }
    }
}

/// The one state of the process.
pub(crate) fn state() -> MutexGuard<'static, State> {
    static STATE: LazyLock<Mutex<State>> = LazyLock::new(|| {
        let mut state = State::default();
        state.streams.insert(0, Vec::new());
        state.eager = std::env::var_os("HIPVERIFY_STANDIN_EAGER").is_some();
        // NAME:NTH:CODE, separated by commas.
        for rule in std::env::var("HIPVERIFY_STANDIN_FAIL").unwrap_or_default().split(',').filter(|r| !r.is_empty()) {
            let mut parts = rule.split(':');
            let mut number = |_| parts.next().unwrap_or_default().to_owned();
            let (name, nth, code) = (number(0), number(1), number(2));
            state.fail(&name, nth.parse().unwrap_or(1), code.parse().unwrap_or(999));
        }
        Mutex::new(state)
    });
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}
