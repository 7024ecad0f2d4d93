//! Loaded device code and its launch.

use super::cache::Entry;
use super::{HipDevice, HipStream, lock};
use crate::device::Address;
use crate::error::{Error, Result};
use bytemuck::Zeroable;
use hipverify_sys::bindings::{ihipModule_t, ihipModuleSymbol_t};
use hipverify_sys::{Platform, kernels};
use std::borrow::Cow;
use std::collections::HashMap;
use std::ffi::{CString, c_int, c_void};
use std::marker::PhantomData;
use std::ptr;
use std::sync::{Arc, Mutex};

/// Functions of kernels and how many of their blocks a multiprocessor holds at a time, by name and block size.
type Kernels = HashMap<(&'static str, u32), (Function, u32)>;

/// A loaded module and the functions that were looked up in it.
#[derive(Debug)]
pub(crate) struct Code {
    device: &'static HipDevice,
    module: Address<ihipModule_t>,
    /// AMD's runtime keeps the address and reads the image again when functions are looked up.
    image: Cow<'static, [u8]>,
    functions: Mutex<HashMap<String, Function>>,
    /// This crate's kernels that were looked up in it.
    kernels: Mutex<Kernels>,
}

/// A function of a module, which must outlive every launch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Function(Address<ihipModuleSymbol_t>);

impl Code {
    /// Loads a code object.
    ///
    /// # Safety
    /// `image` is a complete code object: the runtime gets no length, and reads as far as the image's headers say.
    pub(crate) unsafe fn load(device: &'static HipDevice, what: &str, image: Cow<'static, [u8]>) -> Result<Code> {
        device.enter()?;
        let mut module = ptr::null_mut();
        // SAFETY: the pointer is valid for a write, and the caller promises that what the headers lead to lies in the image, which `Drop`
        // keeps until the module is unloaded.
        let error = unsafe { (device.api().hipModuleLoadData)(&mut module, image.as_ptr().cast()) };
        device.check("hipModuleLoadData", error).map_err(|error| Error::Compile {
            kernel: what.to_owned(),
            arch: device.arch().to_owned(),
            log: format!("the image does not load: {error}"),
        })?;
        Ok(Code { device, module: Address::new(module), image, functions: Mutex::default(), kernels: Mutex::default() })
    }

    /// Compiles with hipRTC and loads.
    pub(crate) fn compile(device: &'static HipDevice, name: &str, source: &str) -> Result<Code> {
        device.enter()?;
        let image = Code::image(device, name, source)?;
        // SAFETY: hipRTC has just made the image and told its size.
        unsafe { Code::load(device, name, image.into()) }
    }

    /// As [`compile`](Code::compile), with only the caller's options.
    pub(crate) fn compile_with(device: &'static HipDevice, name: &str, source: &str, options: &[&str]) -> Result<Code> {
        device.enter()?;
        let image = device.runtime().rtc().and_then(|rtc| kernels::compile_with(rtc, name, source, device.arch(), options));
        let image = image.map_err(|e| Error::Compile { kernel: name.to_owned(), arch: device.arch().to_owned(), log: e.to_string() })?;
        // SAFETY: hipRTC has just made the image and told its size.
        unsafe { Code::load(device, name, image.into()) }
    }

    fn image(device: &'static HipDevice, name: &str, source: &str) -> Result<Vec<u8>> {
        let image = device.runtime().rtc().and_then(|rtc| kernels::compile(rtc, name, source, device.arch()));
        image.map_err(|e| Error::Compile { kernel: name.to_owned(), arch: device.arch().to_owned(), log: e.to_string() })
    }

    /// As [`compile`](Code::compile), for one of this crate's files: the compiled image is kept on disk, see [`cache`](super::cache).
    fn compile_once(device: &'static HipDevice, source: &kernels::Source) -> Result<Code> {
        device.enter()?;
        let Some(entry) = Entry::of(device, source) else { return Code::compile(device, source.name, source.text) };
        if let Some(image) = entry.read() {
            // SAFETY: the entry holds what hipRTC made of these texts: `read` has compared them, the lengths and a hash of the image.
            if let Ok(code) = unsafe { Code::load(device, source.name, image.into()) } {
                return Ok(code);
            }
        }
        let image = Code::image(device, source.name, source.text)?;
        // SAFETY: hipRTC has just made the image and told its size.
        let code = unsafe { Code::load(device, source.name, image.into())? };
        // Only what loads is kept.
        entry.write(&code.image);
        Ok(code)
    }

    pub(crate) fn function(&self, name: &str) -> Result<Function> {
        if let Some(&function) = lock(&self.functions).get(name) {
            return Ok(function);
        }
        let invalid = |_| Error::InvalidArgument { what: "kernel name", value: name.to_owned(), limit: "no zero byte".to_owned() };
        let c_name = CString::new(name).map_err(invalid)?;
        // ROCm 5 ends the process when another device is the current one.
        self.device.enter()?;
        let mut function = ptr::null_mut();
        // SAFETY: the module is loaded, the name ends in a zero byte, the pointer is valid for a write.
        let error = unsafe { (self.device.api().hipModuleGetFunction)(&mut function, self.module.get(), c_name.as_ptr()) };
        self.device.check("hipModuleGetFunction", error).map_err(|error| Error::Compile {
            kernel: name.to_owned(),
            arch: self.device.arch().to_owned(),
            log: format!("the module has no such kernel: {error}"),
        })?;
        let function = Function(Address::new(function));
        lock(&self.functions).insert(name.to_owned(), function);
        Ok(function)
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        self.device.defer(|| {
            let waited = self.device.wait_for_streams();
            // SAFETY: loaded by us and unloaded only here, with no launch left.
            waited.and(self.device.check("hipModuleUnload", unsafe { (self.device.api().hipModuleUnload)(self.module.get()) }))
        });
    }
}

impl HipDevice {
    /// The module of one of our kernel files: the image for this GPU's architecture, or compiled by hipRTC. Loaded once.
    pub(crate) fn code(&'static self, file: &'static str) -> Result<Arc<Code>> {
        let mut modules = lock(&self.modules);
        if let Some(code) = modules.get(file) {
            return Ok(Arc::clone(code));
        }
        let source = kernels::source(file).filter(|_| self.platform() == Platform::Amd);
        let code = match (kernels::image(self.platform(), file, self.arch()), source) {
            (Some(image), source) => {
                // SAFETY: the build has embedded the whole file that the compiler wrote.
                let loaded = unsafe { Code::load(self, file, image.bytes.into()) };
                or_compiled(loaded, source.map(|source| || Code::compile_once(self, source)))?
            }
            (None, Some(source)) => Code::compile_once(self, source)?,
            (None, None) => {
                let info = crate::build_info();
                let log = format!("this build has no image of it ({info}) and nothing compiles it at run time");
                return Err(Error::Compile { kernel: file.to_owned(), arch: self.arch().to_owned(), log });
            }
        };
        let code = Arc::new(code);
        modules.insert(file, Arc::clone(&code));
        Ok(code)
    }
}

/// The image compiled ahead of time or, if the runtime refuses it, one that is compiled now. If both fail, the error has both reasons.
fn or_compiled<T>(loaded: Result<T>, compile: Option<impl FnOnce() -> Result<T>>) -> Result<T> {
    // Any other error is not about the image.
    let (Err(Error::Compile { kernel, arch, log }), Some(compile)) = (&loaded, compile) else { return loaded };
    compile().map_err(|error| {
        let words = if let Error::Compile { log, .. } = &error { log.clone() } else { error.to_string() };
        Error::Compile { kernel: kernel.clone(), arch: arch.clone(), log: format!("{log}; compiled at run time: {words}") }
    })
}

/// One of this crate's kernels: its file and name, the struct of `hip/abi.h` that it takes by value, and its block size.
pub(crate) struct Kernel<P> {
    file: &'static str,
    name: &'static str,
    block: u32,
    /// Dynamic shared memory of a block on NVIDIA's GPUs, in bytes.
    shared: u32,
    params: PhantomData<fn(P)>,
}

impl<P: Zeroable> Kernel<P> {
    /// # Safety
    /// * `file` in `hip/` has an `extern "C"` kernel `name` whose only parameter is a `P`;
    /// * it is written for one-dimensional blocks of `block` threads (any number up to it if it says so).
    pub(crate) const unsafe fn new(file: &'static str, name: &'static str, block: u32) -> Kernel<P> {
        Kernel { file, name, block, shared: 0, params: PhantomData }
    }

    /// With `bytes` of dynamic shared memory for each block on NVIDIA's GPUs: `SHARED_ON_NVIDIA` in `hip/platform.h`.
    pub(crate) const fn shared_on_nvidia(self, bytes: u32) -> Kernel<P> {
        Kernel { shared: bytes, ..self }
    }

    /// The kernel on a device. The runtime is asked only once, since an answer takes as long as a short launch.
    pub(crate) fn load(&self, device: &'static HipDevice) -> Result<Loaded<P>> {
        let code = device.code(self.file)?;
        let key = (self.name, self.block);
        let known = lock(&code.kernels).get(&key).copied();
        let shared = if device.arch().starts_with("sm_") { self.shared } else { 0 };
        let (function, blocks) = match known {
            Some(known) => known,
            None => {
                let function = code.function(self.name)?;
                let found = (function, self.occupancy(device, function, shared)?);
                lock(&code.kernels).insert(key, found);
                found
            }
        };
        Ok(Loaded { code, function, block: self.block, shared, blocks, params: PhantomData })
    }

    /// Blocks of this kernel that one multiprocessor holds at a time; 1 where the runtime cannot tell.
    fn occupancy(&self, device: &'static HipDevice, function: Function, shared: u32) -> Result<u32> {
        let Some(ask) = device.api().hipModuleOccupancyMaxActiveBlocksPerMultiprocessor else { return Ok(1) };
        // Runtimes look for the function on the current device.
        device.enter()?;
        let mut blocks = 0;
        // SAFETY: the function belongs to a loaded module and the pointer is valid for a write.
        let error = unsafe { ask(&mut blocks, function.0.get(), self.block as c_int, shared as usize) };
        device.check("hipModuleOccupancyMaxActiveBlocksPerMultiprocessor", error)?;
        Ok(u32::try_from(blocks).unwrap_or(0).max(1))
    }

    /// As [`Loaded::launch`].
    ///
    /// # Safety
    /// As there.
    pub(crate) unsafe fn launch(&self, stream: &HipStream, grid: u32, params: &P) -> Result<()> {
        // SAFETY: the caller's promise.
        unsafe { self.load(stream.device())?.launch(stream, grid, params) }
    }

    /// As [`Loaded::grid_for`].
    pub(crate) fn grid_for(&self, device: &'static HipDevice, threads: u64) -> Result<u32> {
        Ok(self.load(device)?.grid_for(threads))
    }
}

/// A kernel on a device.
pub(crate) struct Loaded<P> {
    code: Arc<Code>,
    function: Function,
    block: u32,
    /// Dynamic shared memory of a block, in bytes.
    shared: u32,
    /// How many blocks one multiprocessor holds at a time.
    blocks: u32,
    params: PhantomData<fn(P)>,
}

impl<P: Zeroable> Loaded<P> {
    /// Enqueues the kernel with `grid` blocks. No blocks are no launch.
    ///
    /// # Safety
    /// * Every address in `params` is valid on the stream's device for what the kernel does with it, until the
    ///   stream has been waited for;
    /// * nothing else writes what the kernel reads, or touches what it writes, until then.
    pub(crate) unsafe fn launch(&self, stream: &HipStream, grid: u32, params: &P) -> Result<()> {
        // The runtime only reads it.
        let list = &mut [ptr::from_ref(params).cast_mut().cast()];
        // SAFETY: `Kernel::new` was promised that the kernel takes a `P`; the addresses inside are the caller's promise.
        unsafe { launch(&self.code, self.function, stream, [grid, 1, 1], [self.block, 1, 1], self.shared, list) }
    }

    /// Blocks for a grid-stride kernel over `threads` threads' worth of work: at most as many as fill the GPU once.
    pub(crate) fn grid_for(&self, threads: u64) -> u32 {
        let full = self.blocks.saturating_mul(self.code.device.multiprocessors());
        let needed = threads.div_ceil(u64::from(self.block));
        u32::try_from(needed).unwrap_or(u32::MAX).min(full)
    }
}

/// Enqueues a kernel. A grid without blocks is no launch.
///
/// # Safety
/// * `function` belongs to `code`, and `arguments` points to values of its parameters' types, in order;
/// * every address among them is valid on the device for what the kernel does, until the stream has been waited for.
pub(crate) unsafe fn launch(
    code: &Code,
    function: Function,
    stream: &HipStream,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    arguments: &mut [*mut c_void],
) -> Result<()> {
    let device = stream.device();
    if !ptr::eq(code.device, device) {
        return Err(Error::WrongDevice { what: "the kernel", expected: device.name(), found: code.device.name() });
    }
    let threads = block.iter().try_fold(1u32, |n, &b| n.checked_mul(b)).unwrap_or(u32::MAX);
    if threads == 0 || threads > device.max_block() {
        let limit = format!("1 to {} threads on {}", device.max_block(), device.name());
        return Err(Error::InvalidArgument { what: "block size", value: format!("{block:?}"), limit });
    }
    if grid.contains(&0) {
        return Ok(());
    }
    device.enter()?;
    let ([gx, gy, gz], [bx, by, bz]) = (grid, block);
    let list = arguments.as_mut_ptr();
    let call = device.api().hipModuleLaunchKernel;
    // SAFETY: the module is loaded and the stream alive; the arguments are the caller's promise.
    let error = stream.enqueue(|stream| unsafe { call(function.0.get(), gx, gy, gz, bx, by, bz, shared, stream, list, ptr::null_mut()) });
    device.check("hipModuleLaunchKernel", error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compile_error(log: &str) -> Error {
        Error::Compile { kernel: "hash.hip".to_owned(), arch: "gfx90a".to_owned(), log: log.to_owned() }
    }

    #[test]
    fn an_image_that_is_refused_is_compiled_anew() {
        let both = "kernel hash.hip could not be compiled for gfx90a: refused; compiled at run time: no hipRTC";
        let call = "kernel hash.hip could not be compiled for gfx90a: refused; compiled at run time: no gpu:0 device: lost";
        let lost = || Error::NoDevice { wanted: "gpu:0".to_owned(), reason: "lost".to_owned() };
        let deferred = || Error::Deferred(Box::new(lost()));
        let refused = || Err(compile_error("refused"));
        for (loaded, compiled, expected, reason) in [
            (Ok(1), Some(Ok(2)), Ok(1), "it loads"),
            (refused(), Some(Ok(2)), Ok(2), "refused"),
            (refused(), Some(Err(compile_error("no hipRTC"))), Err(both), "refused, and no compiler"),
            (refused(), Some(Err(lost())), Err(call), "refused, and another error"),
            (refused(), None, Err("kernel hash.hip could not be compiled for gfx90a: refused"), "refused, and no source"),
            (Err(deferred()), Some(Ok(2)), Err("an earlier operation failed: no gpu:0 device: lost"), "an error that is not the image's"),
        ] {
            let found = or_compiled(loaded, compiled.map(|result| || result)).map_err(|e| e.to_string());
            assert_eq!(found, expected.map_err(str::to_owned), "{reason}");
        }
    }
}
