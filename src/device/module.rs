//! The caller's kernels, to be tested.

use super::code_object;
use super::hip::{Code, HipDevice, Image, launch};
use super::{Backend, Device, Stream};
use crate::error::{Error, Result};
use std::ffi::c_void;

/// A loaded code object: what `hipcc --genco` or hipRTC makes (a cubin or fatbin on NVIDIA).
#[derive(Debug)]
pub struct Module {
    device: Device,
    code: Code,
}

/// Blocks and threads of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Blocks in x, y and z.
    pub blocks: [u32; 3],
    /// Threads of a block in x, y and z.
    pub threads: [u32; 3],
    /// Dynamic shared memory of a block, in bytes.
    pub shared_bytes: u32,
}

impl Module {
    /// Loads a code object onto `device`.
    ///
    /// # Errors
    /// [`Error::Compile`] when the runtime refuses it; [`Error::Unsupported`] on the host device.
    ///
    /// # Safety
    /// `image` is a complete code object: the runtime reads as far as its headers say, and gets no length.
    pub unsafe fn load(device: &Device, image: &[u8]) -> Result<Module> {
        // SAFETY: the caller promises a whole code object.
        Module::of(device, |gpu| Code::load(gpu, "module", unsafe { Image::new(image.to_vec()) }))
    }

    /// Compiles HIP source (called `name` in messages) with hipRTC for `device` and loads it. Kernels are found by their
    /// linker names: declare them `extern "C"`.
    ///
    /// # Errors
    /// [`Error::Compile`] with the compiler's output; [`Error::Unsupported`] on the host device.
    pub fn compile(device: &Device, name: &str, source: &str) -> Result<Module> {
        Module::of(device, |gpu| Code::compile(gpu, name, source))
    }

    /// As [`compile`](Module::compile), with the compiler's options as given (`-O3`, `-DTILE=16`, `-I...`) and no others except the architecture.
    /// [`compile`](Module::compile) uses the options of this crate's own kernels, such as `-ffp-contract=off`.
    ///
    /// # Errors
    /// As there.
    pub fn compile_with(device: &Device, name: &str, source: &str, options: &[&str]) -> Result<Module> {
        Module::of(device, |gpu| Code::compile_with(gpu, name, source, options))
    }

    /// Loads a code object from a file (called `name` in messages) that may be of another kind, or truncated. Accepted are an ELF file, a bundle of clang or a fat binary of NVIDIA
    /// whose headers do not point outside the file.
    ///
    /// # Errors
    /// [`Error::File`] when it is none of these or is incomplete; those of [`load`](Module::load).
    ///
    /// # Safety
    /// If its headers are those of a code object, a compiler has made it: what its sections hold (symbols, notes, code) is not checked, and the runtime trusts it.
    pub unsafe fn from_image(device: &Device, name: &str, image: &[u8]) -> Result<Module> {
        code_object::check(image).map_err(|reason| Error::File { path: name.to_owned(), reason })?;
        // SAFETY: the headers have just been seen to lead nowhere outside of the image; the caller promises the rest.
        unsafe { Module::load(device, image) }
    }

    fn of(device: &Device, code: impl FnOnce(&'static HipDevice) -> Result<Code>) -> Result<Module> {
        match device.backend() {
            Backend::Host => Err(Error::Unsupported { what: "a module of GPU code".to_owned(), by: device.name() }),
            Backend::Hip(gpu) => Ok(Module { device: device.clone(), code: code(gpu)? }),
        }
    }

    /// The device that the module is loaded on.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Enqueues kernel `name` on `stream`. A grid without blocks is no launch.
    ///
    /// # Errors
    /// No such kernel, [`Error::WrongDevice`], too large a block, or a failed launch. Errors of the kernel itself come from
    /// the next wait.
    ///
    /// # Safety
    /// * `arguments` points to values of the kernel's parameter types, in order;
    /// * every address among them is valid on the device for what the kernel does, until the stream has been waited for;
    /// * nothing else writes what the kernel reads, or touches what it writes, until then;
    /// * the kernel stays inside its buffers for this grid;
    /// * on a stream that is being [captured](Stream::capture), all of this holds, and the module lives, until the last launch of the graph
    ///   is done.
    pub unsafe fn launch_raw(&self, stream: &Stream, name: &str, grid: Grid, arguments: &mut [*mut c_void]) -> Result<()> {
        let Some(queue) = stream.hip() else {
            return Err(Error::WrongDevice { what: "the stream", expected: self.device.name(), found: stream.device().name() });
        };
        let function = self.code.function(name)?;
        // SAFETY: the function belongs to the module; the rest is the caller's promise.
        unsafe { launch(&self.code, function, queue, grid.blocks, grid.threads, grid.shared_bytes, arguments) }
    }
}
