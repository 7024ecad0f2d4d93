//! AddressSanitizer, for kernels that are compiled for it: `HIPVERIFY_STANDIN_SANITIZE=address`.
//!
//! Its runtime has to be loaded before all other libraries, by `LD_PRELOAD`, since it answers `malloc` as well. [`preload`] says which file that
//! is. corosensei tells the runtime when a stack is left for another one; [`forbid`] and [`allow`] tell it which of the memory that the stand-in
//! divides is a kernel's. What it finds in a kernel fails the launch as any other finding does.

use crate::exec::address_error;
use libloading::os::unix::Library;
use std::env;
use std::ffi::{CStr, OsString, c_char, c_int};
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

/// Functions of the runtime, as in `sanitizer/asan_interface.h` and `sanitizer/common_interface_defs.h`.
struct Runtime {
    start_switch: unsafe extern "C" fn(*mut *mut u8, *const u8, usize),
    finish_switch: unsafe extern "C" fn(*mut u8, *mut *const u8, *mut usize),
    poison: unsafe extern "C" fn(*const u8, usize),
    unpoison: unsafe extern "C" fn(*const u8, usize),
    /// Of the error that is being reported: its address in the code, what it is, and which access it was.
    code: unsafe extern "C" fn() -> usize,
    description: unsafe extern "C" fn() -> *const c_char,
    address: unsafe extern "C" fn() -> usize,
    size: unsafe extern "C" fn() -> usize,
    is_write: unsafe extern "C" fn() -> c_int,
}

static RUNTIME: LazyLock<Option<Runtime>> = LazyLock::new(|| {
    let process = Library::this();
    // SAFETY: the functions have these types in the headers. The runtime is never unloaded.
    unsafe {
        let runtime = Runtime {
            start_switch: *process.get(b"__sanitizer_start_switch_fiber\0").ok()?,
            finish_switch: *process.get(b"__sanitizer_finish_switch_fiber\0").ok()?,
            poison: *process.get(b"__asan_poison_memory_region\0").ok()?,
            unpoison: *process.get(b"__asan_unpoison_memory_region\0").ok()?,
            code: *process.get(b"__asan_get_report_pc\0").ok()?,
            description: *process.get(b"__asan_get_report_description\0").ok()?,
            address: *process.get(b"__asan_get_report_address\0").ok()?,
            size: *process.get(b"__asan_get_report_access_size\0").ok()?,
            is_write: *process.get(b"__asan_get_report_access_type\0").ok()?,
        };
        let on_report = process.get::<unsafe extern "C" fn(extern "C" fn(*const c_char))>(b"__asan_set_error_report_callback\0").ok()?;
        on_report(report);
        Some(runtime)
    }
});

/// Whether kernels are compiled for AddressSanitizer.
pub(crate) fn asked() -> Result<bool, String> {
    match env::var("HIPVERIFY_STANDIN_SANITIZE").unwrap_or_default().as_str() {
        "" => Ok(false),
        "address" => Ok(true),
        other => Err(format!("HIPVERIFY_STANDIN_SANITIZE={other}: `address` is all there is")),
    }
}

/// Whether the process has the runtime.
pub(crate) fn loaded() -> bool {
    RUNTIME.is_some()
}

/// The file of the runtime, if it is asked for and the process does not have it. The error says that this compiler has none.
pub(crate) fn preload(compiler: &str) -> Result<Option<OsString>, String> {
    if !asked()? || loaded() {
        return Ok(None);
    }
    // g++ and clang++ have different names for it, and repeat a name that they do not know.
    let file = |name: &str| {
        let done = Command::new(compiler).arg(format!("-print-file-name={name}")).output().ok()?;
        let path = String::from_utf8(done.stdout).ok()?.trim().to_owned();
        Path::new(&path).is_absolute().then_some(path.into())
    };
    let found = ["libasan.so", "libclang_rt.asan-x86_64.so", "libclang_rt.asan.so"].into_iter().find_map(file);
    found.map(Some).ok_or_else(|| format!("{compiler} has no shared library of AddressSanitizer"))
}

/// From now on nobody may access this memory.
pub(crate) fn forbid(at: usize, size: usize) {
    if let Some(runtime) = &*RUNTIME {
        // SAFETY: the caller owns the memory, and gives it back to nobody but the allocator, which sets its state anew.
        unsafe { (runtime.poison)(at as *const u8, size) };
    }
}

/// From now on kernels may access this memory.
pub(crate) fn allow(at: usize, size: usize) {
    if let Some(runtime) = &*RUNTIME {
        // SAFETY: the caller owns the memory.
        unsafe { (runtime.unpoison)(at as *const u8, size) };
    }
}

/// The runtime calls it for each error, on the stack of who made it, after it has printed its report.
extern "C" fn report(_text: *const c_char) {
    let Some(runtime) = &*RUNTIME else { return };
    // SAFETY: these functions are about the error that is being reported; the description is a literal.
    let (code, found) = unsafe {
        let access = if (runtime.is_write)() == 0 { "reads" } else { "writes" };
        let description = CStr::from_ptr((runtime.description)()).to_string_lossy();
        let text = format!("{access} {} bytes at {:#x}: AddressSanitizer calls that {description}", (runtime.size)(), (runtime.address)());
        ((runtime.code)(), text)
    };
    if !address_error(found, code) {
        eprintln!("standin: AddressSanitizer has found an error outside of kernels");
        std::process::abort();
    }
}

/// corosensei calls these three, in every process.
#[unsafe(no_mangle)]
unsafe extern "C" fn __sanitizer_start_switch_fiber(save: *mut *mut u8, bottom: *const u8, size: usize) {
    if let Some(runtime) = &*RUNTIME {
        // SAFETY: the caller's arguments are those of the function.
        unsafe { (runtime.start_switch)(save, bottom, size) };
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __sanitizer_finish_switch_fiber(save: *mut u8, bottom: *mut *const u8, size: *mut usize) {
    if let Some(runtime) = &*RUNTIME {
        // SAFETY: the caller's arguments are those of the function.
        unsafe { (runtime.finish_switch)(save, bottom, size) };
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __asan_unpoison_memory_region(at: *const u8, size: usize) {
    allow(at as usize, size);
}
