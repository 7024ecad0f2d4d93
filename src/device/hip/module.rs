//! Loaded device code and its launch.

use super::cache::Entry;
use super::image::Image;
use super::kernel::Known;
use super::{HipDevice, HipStream, lock};
use crate::device::Address;
use crate::error::{Error, Result};
use hipverify_sys::bindings::{hipFunction_t, ihipModule_t, ihipModuleSymbol_t};
use hipverify_sys::{Platform, kernels};
use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::ptr;
use std::sync::{Arc, Mutex};

/// A loaded module and the functions that were looked up in it.
#[derive(Debug)]
pub(crate) struct Code {
    device: &'static HipDevice,
    module: Address<ihipModule_t>,
    /// AMD's runtime keeps the address and reads the image again when functions are looked up.
    image: Image,
    functions: Mutex<HashMap<String, Function>>,
    /// This crate's kernels that were looked up in it.
    pub(super) kernels: Mutex<HashMap<String, Known>>,
}

/// A function of a module, which must outlive every launch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Function(Address<ihipModuleSymbol_t>);

impl Function {
    pub(super) fn raw(self) -> hipFunction_t {
        self.0.get()
    }
}

impl Code {
    /// Loads a code object.
    pub(crate) fn load(device: &'static HipDevice, what: &str, image: Image) -> Result<Code> {
        device.enter()?;
        let mut module = ptr::null_mut();
        // SAFETY: the pointer is valid for a write, and the image is complete, so that what its headers lead to lies in it; `Drop` keeps it until the
        // module is unloaded.
        let error = unsafe { (device.api().hipModuleLoadData)(&mut module, image.bytes().as_ptr().cast()) };
        device.check("hipModuleLoadData", error).map_err(|error| Error::Compile {
            kernel: what.to_owned(),
            arch: device.arch().to_owned(),
            log: format!("the image does not load: {error}"),
        })?;
        Ok(Code { device, module: Address::new(module), image, functions: Mutex::default(), kernels: Mutex::default() })
    }

    /// Compiles with hipRTC and loads.
    pub(crate) fn compile(device: &'static HipDevice, name: &str, source: &str) -> Result<Code> {
        Code::load(device, name, Image::compiled(device, name, source, None)?)
    }

    /// As [`compile`](Code::compile), with only the caller's options.
    pub(crate) fn compile_with(device: &'static HipDevice, name: &str, source: &str, options: &[&str]) -> Result<Code> {
        Code::load(device, name, Image::compiled(device, name, source, Some(options))?)
    }

    /// As [`compile`](Code::compile), for one of this crate's files: the compiled image is kept on disk, see [`cache`](super::cache).
    fn compile_once(device: &'static HipDevice, source: &kernels::Source) -> Result<Code> {
        device.enter()?;
        let Some(entry) = Entry::of(device, source) else { return Code::compile(device, source.name, source.text) };
        if let Some(bytes) = entry.read() {
            // SAFETY: the entry holds what hipRTC made of these texts: `read` has compared them, the lengths and a hash of the image.
            let image = unsafe { Image::new(bytes) };
            if let Ok(code) = Code::load(device, source.name, image) {
                return Ok(code);
            }
        }
        let code = Code::compile(device, source.name, source.text)?;
        // Only what loads is kept.
        entry.write(code.image.bytes());
        Ok(code)
    }

    pub(super) fn device(&self) -> &'static HipDevice {
        self.device
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
        let code = match (Image::embedded(self.platform(), file, self.arch()), source) {
            (Some(image), source) => or_compiled(Code::load(self, file, image), source.map(|source| || Code::compile_once(self, source)))?,
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
    let error = stream.enqueue(|stream| unsafe { call(function.raw(), gx, gy, gz, bx, by, bz, shared, stream, list, ptr::null_mut()) });
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
