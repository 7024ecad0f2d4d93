//! A HIP runtime in host memory, for tests on machines without a GPU.
//!
//! It exports the functions that hipverify loads, and does their work only when somebody waits for it: a copy that nobody waits
//! for never happens, and memory that is freed while work on it is pending is counted as a violation. Failures are injected
//! through `HIPVERIFY_STANDIN_FAIL` or [`standin_fail`]; [`standin_count`] tells what is alive.
//!
//! Kernels are executed: `compile` makes shared libraries of them with the host's C++ compiler, `exec` runs each thread as a fibre and checks
//! what it does. What is wrong is a finding: a line on stderr and in [`standin_text`], and the stream fails with `hipErrorIllegalAddress` or
//! `hipErrorLaunchFailure`. README.md says what is found and what is not.
//!
//! | variable | meaning |
//! |---|---|
//! | `HIPVERIFY_STANDIN_DEVICES` | number of devices, 1 by default, or their architectures: `gfx90a,gfx1100` |
//! | `HIPVERIFY_STANDIN_ARCH` | the architecture where only a number is given, `gfx-standin:xnack-` by default, for which no image exists |
//! | `HIPVERIFY_STANDIN_MULTIPROCESSORS` | of each device, 3 by default |
//! | `HIPVERIFY_STANDIN_OCCUPANCY` | blocks that a multiprocessor holds, 2 by default |
//! | `HIPVERIFY_STANDIN_SEED` | another order in which threads run |
//! | `HIPVERIFY_STANDIN_BREAK`, `..._BREAK_FROM`, `..._BREAK_TO` | device code is broken on purpose: see `broken.rs` |
//! | `HIPVERIFY_STANDIN_SANITIZE` | `address`: AddressSanitizer checks memory instead of the executor, see `asan.rs` |
//! | `HIPVERIFY_STANDIN_EXECUTE` | `machine-code`: of kernels in images of hipcc the machine code is run, see `machine/mod.rs` |
//! | `HIPVERIFY_STANDIN_OBJECTS` | a folder with code objects for what hipRTC is given, by the names of the files (`verify/f64.hip`): their machine code is run |
//! | `HIPVERIFY_STANDIN_STEPS` | basic blocks after which a launch is taken for endless, 2 thousand millions by default |
//! | `HIPVERIFY_STANDIN_EAGER` | if it is set, kernels are executed when they are launched, and what comes before them on their stream |
//! | `HIPVERIFY_STANDIN_FAIL` | `NAME:NTH:CODE,...`: the nth call of a function returns that code, 0 every call; code -1: it never returns |
//! | `HIPVERIFY_STANDIN_VERSION` | the runtime to be like, `5.2.3`, `6` (default) or `7`: see `version.rs` |
#![allow(non_snake_case, clippy::missing_safety_doc)]

mod asan;
mod broken;
mod compile;
mod devices;
mod exec;
mod finding;
mod graph;
mod launch;
mod library;
mod machine;
mod memory;
mod memory_map;
mod module;
mod state;
mod transform;
mod version;

use state::{
    Event, INVALID_DEVICE, INVALID_HANDLE, INVALID_VALUE, NO_DEVICE, NOT_READY, Op, SUCCESS, State, push, run_until, state, wait_for,
};
use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use version::{Version, version};

/// Exports functions that return a code: each may be told to fail. One that ends the life of something does so all the same: runtimes return an
/// earlier fault from it, and what is freed is gone.
macro_rules! export {
    ($(fn $name:ident($($arg:ident: $ty:ty),*) $body:block)*) => {$(
        #[doc = concat!("`", stringify!($name), "`, as HIP has it.")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $ty),*) -> c_int {
            let told = $crate::state::state().called(stringify!($name), $crate::current());
            let work = || $body;
            let code = match told {
                None => work(),
                Some(code) => {
                    if $crate::ends_a_life(stringify!($name)) {
                        work();
                    }
                    $crate::fail(code)
                }
            };
            $crate::note(stringify!($name), code)
        }
    )*};
}
pub(crate) use export;

/// Whether the function frees, destroys or unloads.
pub(crate) fn ends_a_life(name: &str) -> bool {
    ["Free", "Destroy", "Unload"].iter().any(|verb| name.contains(verb))
}

/// In place of a code: the call never returns.
const HANG: c_int = -1;

/// What a call that was told to fail returns, if it returns.
pub(crate) fn fail(code: c_int) -> c_int {
    if code == HANG {
        loop {
            std::thread::park();
        }
    }
    code
}

thread_local! {
    static CURRENT: Cell<c_int> = const { Cell::new(0) };
    /// The error that `hipGetLastError` has not told yet, in a version that keeps it.
    static LAST: Cell<c_int> = const { Cell::new(SUCCESS) };
}

/// Keeps an error of HIP's for `hipGetLastError`.
pub(crate) fn note(name: &str, code: c_int) -> c_int {
    if version().keeps_errors() && !name.starts_with("hiprtc") && ![SUCCESS, NOT_READY].contains(&code) {
        LAST.set(code);
    }
    code
}

pub(crate) fn current() -> c_int {
    CURRENT.get()
}

/// Writes a result.
pub(crate) fn put<T>(to: *mut T, value: T) -> c_int {
    if to.is_null() {
        return INVALID_VALUE;
    }
    // SAFETY: callers pass addresses of variables of this type, as HIP asks.
    unsafe { to.write(value) };
    SUCCESS
}

/// Reads a C string.
pub(crate) fn text(from: *const c_char) -> String {
    // SAFETY: callers pass C strings, as HIP asks.
    unsafe { CStr::from_ptr(from) }.to_string_lossy().into_owned()
}

/// The `nth` call of `name` from now on returns `code`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn standin_fail(name: *const c_char, nth: usize, code: c_int) {
    state().fail(&text(name), nth, code);
}

/// The `nth` call of `name` from now on returns `code`, and so does every later call of a thread whose device is the one that was current then: it is lost.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn standin_lose(name: *const c_char, nth: usize, code: c_int) {
    state().lose(&text(name), nth, code);
}

/// No device is lost any more, and no call fails.
#[unsafe(no_mangle)]
pub extern "C" fn standin_restore() {
    state().restore();
}

/// How many there are of: `device` and `pinned` blocks, `streams` (but the null stream), `events`, `modules`, `programs`, `graphs`,
/// `launches`, `violations`, `pending` operations, `coherent` pinned blocks; the thread's `last error`; else how often the function of that name was called.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn standin_count(what: *const c_char) -> usize {
    let s = state();
    match text(what).as_str() {
        "device" => s.device.len(),
        "pinned" => s.pinned.len(),
        "streams" => s.streams.len() - 1,
        "events" => s.events.len(),
        "modules" => s.modules.len(),
        "programs" => s.programs.len(),
        "graphs" => s.graphs.len() + s.execs.len(),
        "launches" => s.launches,
        "violations" => s.violations,
        "coherent" => s.coherent.len(),
        "last error" => LAST.get() as usize,
        "findings" => finding::all().len(),
        "executed" => s.kernels.values().sum(),
        "pending" => s.streams.values().map(Vec::len).sum(),
        name => s.calls.get(name).copied().unwrap_or(0),
    }
}

/// Whether kernels are executed: whether there is a C++ compiler.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn standin_executes() -> c_int {
    c_int::from(module::compiler().is_ok())
}

/// Copies at most `size` bytes of a text to `to`, and says how long it is. `what` is `executes` for why no kernel is executed (empty when they
/// are), `preload` for the library with which the process has to be started first (empty if with none), `sanitizer` for the one that checks kernels (empty if none does), `findings` for what kernels did wrong, `launches` for each kernel that was executed (name, wavefront size and how often) or `kernels` for
/// those that there are in `hip/` (file and name), or `calls` for the functions that were called (name and how often); a line each.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn standin_text(what: *const c_char, to: *mut u8, size: usize) -> usize {
    let found = match text(what).as_str() {
        "executes" => module::compiler().err().unwrap_or_default(),
        "preload" => module::preload().unwrap_or_default(),
        "sanitizer" => if asan::loaded() { "address" } else { "" }.to_owned(),
        "findings" => finding::all().iter().map(|line| format!("{line}\n")).collect(),
        "launches" => state().kernels.iter().map(|((name, wavefront), count)| format!("{name} {wavefront} {count}\n")).collect(),
        "kernels" => module::kernels(),
        "calls" => state().calls.iter().map(|(name, count)| format!("{name} {count}\n")).collect(),
        _ => String::new(),
    };
    // SAFETY: the caller has so many bytes there.
    unsafe { to.copy_from(found.as_ptr(), found.len().min(size)) };
    found.len()
}

fn known_stream(s: &mut State, stream: *mut c_void) -> Result<usize, c_int> {
    let stream = stream as usize;
    if s.streams.contains_key(&stream) {
        return Ok(stream);
    }
    s.violation("an unknown stream");
    Err(INVALID_HANDLE)
}

/// Enqueues work.
pub(crate) fn enqueue(stream: *mut c_void, op: Op) -> c_int {
    let known = known_stream(&mut state(), stream);
    known.map_or_else(
        |code| code,
        |stream| {
            push(stream, op);
            SUCCESS
        },
    )
}

/// Fills a struct of properties: the name at 0 and the architecture further on.
fn properties(to: *mut u8, size: usize, arch_at: usize, device: c_int) -> c_int {
    if device < 0 || device >= devices::count() {
        return INVALID_DEVICE;
    }
    let arch = &devices::get(device).arch;
    // SAFETY: callers pass a struct of this size, as HIP asks; both texts fit.
    unsafe {
        to.write_bytes(0, size);
        to.copy_from("Stand-in GPU".as_ptr(), 12);
        to.add(arch_at).copy_from(arch.as_ptr(), arch.len().min(200));
    }
    SUCCESS
}

export! {
    fn hipInit(_flags: c_uint) {
        match version() {
            _ if devices::count() > 0 => SUCCESS,
            Version::V5 => INVALID_DEVICE,
            Version::V6 | Version::V7 => NO_DEVICE,
        }
    }
    fn hipDriverGetVersion(number: *mut c_int) { put(number, version().number()) }
    fn hipRuntimeGetVersion(number: *mut c_int) { put(number, version().number()) }
    fn hipGetDeviceCount(count: *mut c_int) { if devices::count() == 0 { NO_DEVICE } else { put(count, devices::count()) } }
    fn hipGetDevice(device: *mut c_int) { put(device, current()) }
    fn hipDeviceGetAttribute(value: *mut c_int, attribute: c_uint, device: c_int) {
        match attribute {
            63 => put(value, devices::multiprocessors() as c_int),
            56 => put(value, 1024), // threads of a block
            87 => put(value, devices::get(device).wavefront as c_int),
            88 => put(value, c_int::from(version().has_memory_pools())),
            _ => INVALID_VALUE,
        }
    }
    fn hipGetDeviceProperties(props: *mut u8, device: c_int) { properties(props, 792, 396, device) }
    fn hipGetDevicePropertiesR0600(props: *mut u8, device: c_int) { properties(props, 1472, 1160, device) }
    fn hipDeviceSynchronize() {
        let all: Vec<usize> = state().streams.keys().copied().collect();
        all.into_iter().map(wait_for).fold(SUCCESS, |first, code| if first == SUCCESS { code } else { first })
    }
    fn hipDeviceCanAccessPeer(can: *mut c_int, _device: c_int, _peer: c_int) { put(can, 1) }
    fn hipDeviceEnablePeerAccess(_peer: c_int, _flags: c_uint) { SUCCESS }
    fn hipStreamCreateWithFlags(stream: *mut usize, _flags: c_uint) {
        let mut s = state();
        let handle = s.handle();
        s.streams.insert(handle, Vec::new());
        put(stream, handle)
    }
    fn hipStreamDestroy(stream: *mut c_void) {
        let mut s = state();
        let Ok(stream) = known_stream(&mut s, stream) else { return INVALID_HANDLE };
        if s.streams.remove(&stream).is_some_and(|ops| ops.iter().any(|op| !matches!(op, Op::Record(..)))) {
            s.violation("a stream was destroyed with work pending");
        }
        if s.allocated_on.remove(&stream) {
            s.violation("hipStreamDestroy never returns: memory was allocated in the order of the stream");
        }
        SUCCESS
    }
    fn hipStreamQuery(stream: *mut c_void) {
        let s = state();
        if s.streams.get(&(stream as usize)).is_some_and(Vec::is_empty) { SUCCESS } else { NOT_READY }
    }
    fn hipStreamWaitEvent(stream: *mut c_void, event: usize, _flags: c_uint) { enqueue(stream, Op::Wait(event, recorded(event))) }

    fn hipEventCreateWithFlags(event: *mut usize, _flags: c_uint) {
        let mut s = state();
        let handle = s.handle();
        s.events.insert(handle, Event::default());
        put(event, handle)
    }
    fn hipEventDestroy(event: usize) {
        let mut s = state();
        if s.events.remove(&event).is_none() {
            s.violation("an event was destroyed twice");
            return INVALID_HANDLE;
        }
        SUCCESS
    }
    fn hipEventRecord(event: usize, stream: *mut c_void) {
        let mut s = state();
        let of_event = s.events.entry(event).or_default();
        of_event.recorded += 1;
        let nth = of_event.recorded;
        drop(s);
        enqueue(stream, Op::Record(event, nth))
    }
    fn hipEventQuery(event: usize) { if state().events.get(&event).is_some_and(|e| e.reached == e.recorded) { SUCCESS } else { NOT_READY } }
    fn hipEventElapsedTime(ms: *mut f32, _start: usize, _stop: usize) { put(ms, 1.5) }
}

/// `hipSetDevice`. A thread can turn to a device that is lost, and is told so.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipSetDevice(device: c_int) -> c_int {
    let mut s = state();
    let told = s.called("hipSetDevice", device);
    let known = (0..devices::count()).contains(&device);
    if known && (told.is_none() || s.is_lost(device)) {
        CURRENT.set(device);
    }
    drop(s);
    note("hipSetDevice", told.map_or(if known { SUCCESS } else { INVALID_DEVICE }, fail))
}

/// `hipGetLastError`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipGetLastError() -> c_int {
    LAST.replace(SUCCESS)
}

/// `hipStreamSynchronize`. A wait that is told to fail reports a fault of the work, which is over then as well.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipStreamSynchronize(stream: *mut c_void) -> c_int {
    let known = known_stream(&mut state(), stream);
    let code = known.map_or_else(|code| code, wait_for);
    let told = state().called("hipStreamSynchronize", current());
    note("hipStreamSynchronize", told.map_or(code, fail))
}

/// How often an event was recorded.
fn recorded(event: usize) -> u64 {
    state().events.get(&event).map_or(0, |event| event.recorded)
}

/// `hipEventSynchronize`, likewise.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipEventSynchronize(event: usize) -> c_int {
    let code = run_until(event, recorded(event));
    let told = state().called("hipEventSynchronize", current());
    note("hipEventSynchronize", told.map_or(code, fail))
}

/// `hipGetErrorName`, for the codes that the tests meet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipGetErrorName(code: c_int) -> *const c_char {
    let name = match code {
        0 => c"hipSuccess",
        1 => c"hipErrorInvalidValue",
        2 => c"hipErrorOutOfMemory",
        100 => c"hipErrorNoDevice",
        101 => c"hipErrorInvalidDevice",
        400 => c"hipErrorInvalidHandle",
        500 => c"hipErrorNotFound",
        700 => c"hipErrorIllegalAddress",
        719 => c"hipErrorLaunchFailure",
        900 => c"hipErrorStreamCaptureUnsupported",
        // A code of a later runtime.
        _ => return std::ptr::null(),
    };
    name.as_ptr()
}

/// `hipGetErrorString`: the name is enough here.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hipGetErrorString(code: c_int) -> *const c_char {
    // SAFETY: takes any number.
    unsafe { hipGetErrorName(code) }
}
