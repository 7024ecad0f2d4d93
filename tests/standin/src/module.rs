//! Modules, kernels and hipRTC.

use crate::compile::{Checks, Compiler};
use crate::devices;
use crate::launch::Launched;
use crate::library::{Found, Kernel, Library};
use crate::machine::{self, Object};
use crate::state::{INVALID_DEVICE, INVALID_HANDLE, INVALID_VALUE, NOT_FOUND, Op, Program, SUCCESS, state};
use crate::transform::Transformed;
use crate::{asan, broken, current, enqueue, export, put, text};
use hipverify_sys::kernels::{self, HEADERS, SOURCES};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// A kernel file of `hip/`, compiled ahead of time; the architecture "" is any other.
struct Built {
    arch: &'static str,
    file: &'static str,
    library: &'static str,
    kernels: &'static [&'static str],
}

include!(concat!(env!("OUT_DIR"), "/built.rs"));

/// Every kernel of `hip/`, for any architecture: a line each.
pub(crate) fn kernels() -> String {
    let names: BTreeSet<String> = BUILT.iter().flat_map(|b| b.kernels.iter().map(|name| format!("{} {name}\n", b.file))).collect();
    names.into_iter().collect()
}

/// What was compiled ahead of time for the architecture.
fn built(arch: &str) -> impl Iterator<Item = &'static Built> {
    let arch = if BUILT.iter().any(|b| b.arch == arch) { arch } else { "" }.to_owned();
    BUILT.iter().filter(move |b| b.arch == arch)
}

/// The compiler, or why no kernel can be run.
pub(crate) fn compiler() -> Result<Compiler, String> {
    let (program, version) = COMPILER?;
    let checks = if asan::asked()? { Checks::AddressSanitizer } else { Checks::Executor };
    if let Some(runtime) = asan::preload(program)? {
        return Err(format!("AddressSanitizer needs LD_PRELOAD={}", runtime.display()));
    }
    Compiler::new(program, version, Path::new(concat!(env!("OUT_DIR"), "/kernels")), checks)
}

/// The library that the process needs before all others and does not have.
pub(crate) fn preload() -> Option<String> {
    let (program, _) = COMPILER.ok()?;
    Some(asan::preload(program).ok()??.to_string_lossy().into_owned())
}

/// What follows the header of a code object of this runtime, an ELF object without sections; then come the size and the bytes of [`Source::to_bytes`].
const MAGIC: &[u8; 8] = b"STANDIN4";

/// Bytes of ELF's header.
const HEADER: usize = 64;

/// A file of kernels. Of one that is not compiled yet each kernel is when it is first asked for: tests that break a kernel launch few of its file. Variables of the file are not shared between
/// kernels then.
pub(crate) struct Source {
    name: String,
    cpp: Transformed,
}

impl Source {
    /// Three parts, of which the first two are a line each: the file's name, its kernels, its text.
    fn to_bytes(&self) -> Vec<u8> {
        format!("{}\n{}\n{}", self.name, self.cpp.kernels.join(" "), self.cpp.text).into_bytes()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Source> {
        let text = String::from_utf8_lossy(bytes);
        let (name, rest) = text.split_once('\n')?;
        let (kernels, text) = rest.split_once('\n')?;
        let kernels = kernels.split_whitespace().map(str::to_owned).collect();
        Some(Source { name: name.to_owned(), cpp: Transformed { text: text.to_owned(), kernels } })
    }

    /// The kernel of this name, if the file has it.
    fn kernel(&self, name: &String) -> Option<Found> {
        if !self.cpp.kernels.contains(name) {
            return None;
        }
        let library = compiler().and_then(|compiler| {
            // A run with AddressSanitizer launches all kernels, in one process, which may load some hundred libraries: each takes of the memory for variables of threads.
            let all = asan::loaded() || compiler.has_all(&self.name, &self.cpp);
            let kernels = if all { self.cpp.kernels.as_slice() } else { std::slice::from_ref(name) };
            Library::open(&compiler.library(&self.name, &self.cpp, kernels)?)
        });
        // Tests look for these words.
        let library = library.inspect_err(|log| eprintln!("{name} of {} could not be compiled: {log}", self.name)).ok()?;
        Some((library, library.kernel(name)?))
    }
}

/// What a module is made of.
#[derive(Clone)]
pub(crate) enum Code {
    Compiled(&'static Library),
    Source(Arc<Source>),
}

/// A loaded module. AMD's runtimes keep the address of the image and no copy.
#[derive(Clone)]
pub(crate) struct Module {
    code: Vec<Code>,
    /// Where its machine code is to be run.
    object: Option<&'static Object>,
    device: c_int,
    /// Where the image is, how many bytes of it are known, and a hash of them.
    image: (usize, usize, u64),
}

impl Module {
    fn new(image: *const u8) -> Option<Module> {
        let (at, size) = (image as usize, known_bytes(image));
        let code = code(image)?;
        let object = machine_code(image, &code).inspect_err(|reason| eprintln!("a code object cannot be run: {reason}")).ok()?;
        Some(Module { code, object, device: current(), image: (at, size, hash(at, size)) })
    }

    /// Whether the image is still what was loaded.
    fn is_whole(&self) -> bool {
        let (at, size, loaded) = self.image;
        hash(at, size) == loaded
    }
}

/// The bytes of an image that are known to be there: all of ours, the head of others.
fn known_bytes(image: *const u8) -> usize {
    // SAFETY: every image has at least 16 bytes, one of ours those of the header and what `hiprtcGetCode` wrote behind it.
    let bytes = |from: usize, size| unsafe { std::slice::from_raw_parts(image.add(from), size) };
    if !bytes(0, 16).starts_with(b"\x7fELF") || !bytes(HEADER, 16).starts_with(MAGIC) {
        return 16;
    }
    let size = bytes(HEADER + 8, 8).iter().rev().fold(0, |size, byte| size << 8 | usize::from(*byte));
    HEADER + 16 + size
}

fn hash(at: usize, size: usize) -> u64 {
    // SAFETY: the runtime's user keeps the image as long as the module; one that does not is what is looked for here.
    let bytes = unsafe { std::slice::from_raw_parts(at as *const u8, size) };
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

/// What an image stands for: the file that hipRTC was given, or for an image of hipcc all that have our kernels.
fn code(image: *const u8) -> Option<Vec<Code>> {
    // SAFETY: every image has at least 16 bytes: ours, and those of hipcc.
    let head = unsafe { std::slice::from_raw_parts(image, 16) };
    // SAFETY: an object of hipcc holds more than a header, and ours the head that is looked for.
    let after = head.starts_with(b"\x7fELF").then(|| unsafe { std::slice::from_raw_parts(image.add(HEADER), 16) });
    if let Some(after) = after.filter(|after| after.starts_with(MAGIC)) {
        let size = u64::from_le_bytes(after[8..].try_into().ok()?) as usize;
        // SAFETY: `hiprtcGetCode` wrote as many bytes after the head.
        let source = Source::from_bytes(unsafe { std::slice::from_raw_parts(image.add(HEADER + 16), size) })?;
        return Some(vec![Code::Source(Arc::new(source))]);
    }
    if !head.starts_with(b"\x7fELF") && !head.starts_with(b"__CLANG_OFFLOAD_") {
        return None;
    }
    let arch = devices::get(current()).base_arch();
    if asan::loaded() {
        // Nothing was compiled for it ahead of time.
        let (compiler, headers) = (compiler().ok()?, HEADERS.iter().map(|h| (h.name, h.text)).collect::<Vec<_>>());
        let source = |s: &kernels::Source| {
            let cpp = compiler.cpp((s.name, s.text), &headers, arch, &[]).ok()?;
            Some(Code::Source(Arc::new(Source { name: s.name.to_owned(), cpp })))
        };
        return SOURCES.iter().map(source).collect();
    }
    built(arch).map(|b| Some(Code::Compiled(Library::open(Path::new(b.library)).ok()?))).collect()
}

/// The same kernel, whose machine code is run.
fn with_object((library, kernel): Found, object: &'static Object) -> Found {
    let kernel = Kernel { name: kernel.name.clone(), entry: kernel.entry, sizes: kernel.sizes.clone(), object: Some(object) };
    (library, Box::leak(Box::new(kernel)))
}

/// The code object whose machine code is run in place of an image, where `HIPVERIFY_STANDIN_EXECUTE` asks for it: that of an image of hipcc; for a file that hipRTC was given, one that
/// another compiler has made of it. Each is loaded once.
fn machine_code(image: *const u8, code: &[Code]) -> Result<Option<&'static Object>, String> {
    static LOADED: Mutex<Vec<((u64, String), &'static Object)>> = Mutex::new(Vec::new());
    if !machine::is_asked() {
        return Ok(None);
    }
    // SAFETY: every image has at least 16 bytes.
    let head = unsafe { std::slice::from_raw_parts(image, 16) };
    let bytes = match code {
        // SAFETY: it is an image of hipcc, whose bundle has a head that says how long it is.
        _ if head.starts_with(b"__CLANG_OFFLOAD_") => Cow::Borrowed(unsafe { bundle(image) }),
        [Code::Source(source)] => match std::env::var_os("HIPVERIFY_STANDIN_OBJECTS") {
            Some(folder) => {
                let path = Path::new(&folder).join(&source.name);
                Cow::Owned(std::fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))?)
            }
            None => return Ok(None),
        },
        _ => return Ok(None),
    };
    let key = (hash(bytes.as_ptr() as usize, bytes.len()), devices::get(current()).base_arch().to_owned());
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, object)) = loaded.iter().find(|(known, _)| *known == key) {
        return Ok(Some(object));
    }
    let object: &'static Object = Box::leak(Box::new(Object::load(&bytes, &key.1)?));
    loaded.push((key, object));
    Ok(Some(object))
}

/// The bytes of a bundle.
///
/// # Safety
/// `image` is the address of a whole bundle.
unsafe fn bundle<'a>(image: *const u8) -> &'a [u8] {
    // SAFETY: the head and the table are there, and all objects that the table names.
    let number = |at: usize| unsafe { image.add(at).cast::<u64>().read_unaligned() } as usize;
    let (mut at, mut end) = (32, 32);
    for _ in 0..number(24) {
        (at, end) = (at + 24 + number(at + 16), end.max(number(at) + number(at + 8)));
    }
    // SAFETY: the table has said where the last object ends, and the caller promises the whole bundle.
    unsafe { std::slice::from_raw_parts(image, end.max(at)) }
}

export! {
    fn hipModuleLoadData(module: *mut usize, image: *const u8) {
        let Some(loaded) = Module::new(image) else { return 200 }; // hipErrorInvalidImage
        let mut s = state();
        let handle = s.handle();
        s.modules.insert(handle, loaded);
        put(module, handle)
    }
    fn hipModuleUnload(module: usize) {
        let mut s = state();
        let Some(unloaded) = s.modules.remove(&module) else {
            s.violation("a module was unloaded twice");
            return INVALID_HANDLE;
        };
        if !unloaded.is_whole() {
            s.violation("the image of a module was freed before the module was unloaded");
        }
        SUCCESS
    }
    fn hipModuleGetFunction(function: *mut usize, module: usize, name: *const c_char) {
        let name = text(name);
        let Some(loaded) = state().modules.get(&module).cloned() else { return INVALID_HANDLE };
        if loaded.device != current() {
            // ROCm 5 ends the process: "Device mismatch from where this module is loaded".
            state().violation("a function was looked up with another device than the module's current");
            return INVALID_DEVICE;
        }
        if !loaded.is_whole() {
            state().violation("the image of a module was freed before a function was looked up");
        }
        // Compilers take their time: without the lock.
        let found = loaded.code.iter().find_map(|code| match code {
            Code::Compiled(library) => Some((*library, library.kernel(&name)?)),
            Code::Source(source) => source.kernel(&name),
        });
        let Some(found) = found else { return NOT_FOUND };
        let found = loaded.object.filter(|object| object.has(&name)).map_or(found, |object| with_object(found, object));
        let mut s = state();
        let handle = s.handle();
        s.functions.insert(handle, (found, loaded.device));
        put(function, handle)
    }
    fn hipModuleLaunchKernel(
        f: usize, gx: c_uint, gy: c_uint, gz: c_uint, bx: c_uint, by: c_uint, bz: c_uint, shared: c_uint, stream: *mut c_void,
        params: *mut *mut c_void, _extra: *mut *mut c_void
    ) {
        let function = {
            let mut s = state();
            s.launches += 1;
            let Some((function, _)) = s.functions.get(&f).copied() else { return INVALID_HANDLE };
            function
        };
        let threads = [bx, by, bz].iter().map(|n| u64::from(*n)).product::<u64>();
        if gx == 0 || gy == 0 || gz == 0 || threads == 0 || threads > 1024 || (params.is_null() && !function.1.sizes.is_empty()) {
            return INVALID_VALUE;
        }
        // SAFETY: the caller passes the address of a value for each parameter, as HIP asks.
        let launched = unsafe {
            Launched::new(function, devices::get(current()), ([gx, gy, gz], [bx, by, bz], shared as usize), params.cast())
        };
        enqueue(stream, Op::Launch(Arc::new(launched)))
    }
    fn hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(blocks: *mut c_int, f: usize, _block: c_int, _shared: usize) {
        let mut s = state();
        let Some((_, device)) = s.functions.get(&f).copied() else { return INVALID_HANDLE };
        if device != current() {
            // ROCm looks for the function on the current device and reads from a null address.
            s.violation("the occupancy of a function was asked for with another device than the module's current");
            return INVALID_DEVICE;
        }
        put(blocks, devices::occupancy() as c_int)
    }

    fn hiprtcVersion(major: *mut c_int, minor: *mut c_int) { put(major, 6); put(minor, 2) }
    fn hiprtcCreateProgram(
        program: *mut usize, source: *const c_char, name: *const c_char, count: c_int, headers: *mut *const c_char,
        names: *mut *const c_char
    ) {
        // SAFETY: the caller passes arrays of so many strings, as hipRTC asks.
        let header = |i| unsafe { (text(*names.add(i)), text(*headers.add(i))) };
        let headers = (0..usize::try_from(count).unwrap_or(0)).map(header).collect();
        let mut s = state();
        let handle = s.handle();
        s.programs.insert(handle, Program { name: text(name), source: text(source), headers, ..Program::default() });
        put(program, handle)
    }
    fn hiprtcDestroyProgram(program: *mut usize) {
        // SAFETY: the caller passes the address of a handle.
        let handle = unsafe { *program };
        if state().programs.remove(&handle).is_none() {
            state().violation("a program was destroyed twice");
        }
        put(program, 0)
    }
    fn hiprtcCompileProgram(program: usize, count: c_int, options: *mut *const c_char) {
        // SAFETY: the caller passes an array of so many strings, as hipRTC asks.
        let option = |i| unsafe { text(*options.add(i)) };
        let options: Vec<String> = (0..usize::try_from(count).unwrap_or(0)).map(option).collect();
        let arch = options.iter().find_map(|o| o.strip_prefix("--offload-arch=")).unwrap_or_default();
        // Compilers take their time: without the lock.
        let Some(taken) = state().programs.remove(&program) else { return 4 };
        let preprocessor: Vec<&str> = options.iter().map(String::as_str).filter(|o| o.starts_with("-I") || o.starts_with("-D")).collect();
        let compiled = compile(taken, arch, &preprocessor);
        let code = if compiled.log.is_empty() { SUCCESS } else { 6 };
        state().programs.insert(program, compiled);
        code
    }
    fn hiprtcGetProgramLogSize(program: usize, size: *mut usize) {
        let length = state().programs.get(&program).map_or(0, |p| p.log.len() + 1);
        put(size, length)
    }
    fn hiprtcGetProgramLog(program: usize, log: *mut u8) {
        let words = state().programs.get(&program).map(|p| p.log.clone()).unwrap_or_default();
        // SAFETY: the caller has asked for the size, which counts the final zero.
        unsafe {
            log.copy_from(words.as_ptr(), words.len());
            log.add(words.len()).write(0);
        }
        SUCCESS
    }
    fn hiprtcGetCodeSize(program: usize, size: *mut usize) {
        let length = state().programs.get(&program).map_or(0, |p| p.code.len());
        put(size, length)
    }
    fn hiprtcGetCode(program: usize, code: *mut u8) {
        let bytes = state().programs.get(&program).map(|p| p.code.clone()).unwrap_or_default();
        // SAFETY: the caller has asked for the size.
        unsafe { code.copy_from(bytes.as_ptr(), bytes.len()) };
        SUCCESS
    }
}

/// Compiles a program: its log is empty unless that failed. Of several kernels each is compiled when it is first asked for.
fn compile(program: Program, arch: &str, options: &[&str]) -> Program {
    let files = std::iter::once((&program.name, &program.source)).chain(program.headers.iter().map(|(name, text)| (name, text)));
    let files: Result<Vec<_>, String> = files.map(|(name, text)| Ok((name, broken::text(name, text)?))).collect();
    let source = files.and_then(|files| {
        let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), &**text)).collect();
        let compiler = compiler()?;
        let source = Source { name: program.name.clone(), cpp: compiler.cpp(files[0], &files[1..], arch, options)? };
        if source.cpp.kernels.len() == 1 {
            compiler.library(&source.name, &source.cpp, &source.cpp.kernels)?;
        } else if !compiler.has_all(&source.name, &source.cpp) {
            compiler.check(&source.cpp)?;
        }
        Ok(source.to_bytes())
    });
    let (mut code, mut log) = (Vec::new(), String::new());
    match source {
        Ok(bytes) => {
            // 64 bits, little-endian, no tables.
            code.extend([0x7f, b'E', b'L', b'F', 2, 1]);
            code.resize(HEADER, 0);
            code.extend(MAGIC);
            code.extend((bytes.len() as u64).to_le_bytes());
            code.extend(bytes);
        }
        Err(reason) => log = reason,
    }
    Program { code, log, ..program }
}

/// `hiprtcGetErrorString`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hiprtcGetErrorString(code: c_int) -> *const c_char {
    let name = if code == 6 { c"HIPRTC_ERROR_COMPILATION" } else { c"HIPRTC_ERROR" };
    name.as_ptr()
}
