//! What the runtime remembers, and what goes wrong on request.

use crate::launch::Launched;
use crate::library::Found;
use crate::module::Module;
use crate::version::version;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::c_int;
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};

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
    Launch(Arc<Launched>),
    /// hipFreeAsync.
    Free {
        ptr: usize,
    },
    /// An event, and which of its records this is: 1 is the first.
    Record(usize, u64),
    /// For that record of an event; 0 is none.
    Wait(usize, u64),
}

impl Op {
    fn touches(&self, start: usize, size: usize) -> bool {
        let overlaps = |at: usize, len: usize| at < start + size && start < at + len;
        match self {
            Op::Copy { to, from, size } => overlaps(*to, *size) || overlaps(*from, *size),
            Op::Set { to, size, .. } => overlaps(*to, *size),
            Op::Launch(launched) => launched.addresses().any(|at| overlaps(at, 1)),
            Op::Free { .. } | Op::Record(..) | Op::Wait(..) => false,
        }
    }
}

/// A block of device memory.
pub(crate) struct Block {
    pub(crate) size: usize,
    pub(crate) device: c_int,
}

/// How often an event was recorded, and the last of these records that its stream has reached.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Event {
    pub(crate) recorded: u64,
    pub(crate) reached: u64,
}

/// A call that is to fail.
struct Failure {
    /// Calls until then; 0 is every call.
    left: usize,
    code: c_int,
    /// Whether the device is lost by it.
    loses: bool,
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
    /// The kernel that a stream runs at the moment, on some thread of the host.
    running: HashMap<usize, Op>,
    /// The code of a kernel that has failed, until somebody waits for its stream.
    failed: HashMap<usize, c_int>,
    pub(crate) events: HashMap<usize, Event>,
    pub(crate) modules: HashMap<usize, Module>,
    /// Kernels, and the device of their module.
    pub(crate) functions: HashMap<usize, (Found, c_int)>,
    pub(crate) programs: HashMap<usize, Program>,
    /// Streams that are being captured, with what was recorded.
    pub(crate) captures: HashMap<usize, Vec<Op>>,
    pub(crate) graphs: HashMap<usize, Vec<Op>>,
    /// Graphs that can be launched.
    pub(crate) execs: HashMap<usize, Vec<Op>>,
    /// How often each function was called.
    pub(crate) calls: HashMap<&'static str, usize>,
    pub(crate) launches: usize,
    /// How often each kernel was launched on wavefronts of each size.
    pub(crate) kernels: BTreeMap<(String, usize), usize>,
    /// Whether kernels are run when they are launched.
    eager: bool,
    /// Freed while in use, freed twice, unknown handles, a copy between the wrong devices.
    pub(crate) violations: usize,
    failures: HashMap<String, Failure>,
    /// Devices that are lost, with the code of every call.
    lost: HashMap<c_int, c_int>,
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

    /// Counts a call of a thread with that device, and says whether it fails.
    pub(crate) fn called(&mut self, name: &'static str, device: c_int) -> Option<c_int> {
        *self.calls.entry(name).or_default() += 1;
        if let Some(code) = self.lost.get(&device) {
            return Some(*code);
        }
        let failure = self.failures.get_mut(name)?;
        if failure.left == 0 {
            return Some(failure.code);
        }
        failure.left -= 1;
        if failure.left > 0 {
            return None;
        }
        let Failure { code, loses, .. } = self.failures.remove(name)?;
        if loses {
            self.lost.insert(device, code);
        }
        Some(code)
    }

    /// The `nth` call of `name` from now on returns `code`; 0 is every call.
    pub(crate) fn fail(&mut self, name: &str, nth: usize, code: c_int) {
        self.failures.insert(name.to_owned(), Failure { left: nth, code, loses: false });
    }

    /// As [`fail`](State::fail), and the device is lost by it.
    pub(crate) fn lose(&mut self, name: &str, nth: usize, code: c_int) {
        self.failures.insert(name.to_owned(), Failure { left: nth, code, loses: true });
    }

    pub(crate) fn is_lost(&self, device: c_int) -> bool {
        self.lost.contains_key(&device)
    }

    pub(crate) fn restore(&mut self) {
        self.failures.clear();
        self.lost.clear();
    }

    pub(crate) fn in_use(&self, start: usize, size: usize) -> bool {
        self.streams.values().flatten().chain(self.running.values()).any(|op| op.touches(start, size))
    }

    /// Takes the next operation of a stream.
    fn next(&mut self, stream: usize) -> Option<Op> {
        let ops = self.streams.get_mut(&stream).filter(|ops| !ops.is_empty())?;
        Some(ops.remove(0))
    }

    /// Does an operation that takes no time.
    fn perform(&mut self, op: Op) {
        match op {
            // SAFETY: the tests copy between live blocks; a block that is freed before is a violation that was counted.
            Op::Copy { to, from, size } => unsafe { std::ptr::copy(from as *const u8, to as *mut u8, size) },
            // SAFETY: the tests set live blocks; a block that is freed before is a violation that was counted.
            Op::Set { to, value, size } => unsafe { std::ptr::write_bytes(to as *mut u8, value, size) },
            Op::Free { ptr } => {
                if let Some(block) = self.device.remove(&ptr) {
                    if self.in_use(ptr, block.size) {
                        self.violation("hipFreeAsync with work pending on other streams");
                    } else {
                        crate::memory_map::free(ptr);
                    }
                }
            }
            Op::Record(event, nth) => {
                // It may have been destroyed meanwhile.
                if let Some(event) = self.events.get_mut(&event) {
                    event.reached = event.reached.max(nth);
                }
            }
            Op::Launch(_) | Op::Wait(..) => {}
        }
    }
}

/// Wakes those who wait for a kernel that another thread of the host runs.
static ENDED: Condvar = Condvar::new();

/// Enqueues or records an operation.
pub(crate) fn push(stream: usize, op: Op) {
    let mut s = state();
    let launch = matches!(op, Op::Launch(_));
    if let Some(recorded) = s.captures.get_mut(&stream).filter(|_| !launch || version().captures_launches()) {
        return recorded.push(op);
    }
    let now = s.eager && launch;
    s.streams.entry(stream).or_default().push(op);
    drop(s);
    if now {
        run(stream);
    }
}

/// Waits for a stream, which one that is being captured does not allow. Says how its kernels have failed, once.
pub(crate) fn wait_for(stream: usize) -> c_int {
    let mut s = state();
    if s.captures.contains_key(&stream) {
        s.violation("a wait for a stream that is being captured");
        return CAPTURE_UNSUPPORTED;
    }
    drop(s);
    run(stream);
    state().failed.remove(&stream).unwrap_or(SUCCESS)
}

/// Does what `stream` has to do. Kernels run without the lock, so that other streams may go on.
pub(crate) fn run(stream: usize) {
    run_while(stream, |_| true);
}

/// The same, as long as a condition holds.
fn run_while(stream: usize, goes_on: impl Fn(&State) -> bool) {
    loop {
        let mut s = ENDED.wait_while(state(), |s| s.running.contains_key(&stream)).unwrap_or_else(PoisonError::into_inner);
        if !goes_on(&s) {
            return;
        }
        match s.next(stream) {
            None => return,
            Some(Op::Wait(event, nth)) => {
                drop(s);
                run_until(event, nth);
            }
            Some(Op::Launch(launched)) => {
                s.running.insert(stream, Op::Launch(Arc::clone(&launched)));
                drop(s);
                let code = launched.run();
                let mut s = state();
                s.running.remove(&stream);
                if code != SUCCESS {
                    s.failed.entry(stream).or_insert(code);
                }
                ENDED.notify_all();
            }
            Some(op) => s.perform(op),
        }
    }
}

/// Does the work before the nth record of an event, and no more, wherever it was recorded. Says how the kernels of that stream have failed, once.
pub(crate) fn run_until(event: usize, nth: u64) -> c_int {
    let has = |ops: &Vec<Op>| ops.iter().any(|op| matches!(op, Op::Record(e, n) if (*e, *n) == (event, nth)));
    let stream = state().streams.iter().find(|(_, ops)| has(ops)).map(|(s, _)| *s);
    let Some(stream) = stream else { return SUCCESS };
    run_while(stream, |s| s.events.get(&event).is_none_or(|event| event.reached < nth));
    state().failed.remove(&stream).unwrap_or(SUCCESS)
}

/// A program of hipRTC: its name, source and headers, then the compiler's log, then the library.
#[derive(Default)]
pub(crate) struct Program {
    pub(crate) name: String,
    pub(crate) source: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) log: String,
    pub(crate) code: Vec<u8>,
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
