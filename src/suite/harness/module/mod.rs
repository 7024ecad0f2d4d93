//! Kernels of a code object or of HIP source, by a launch line.
//!
//! What goes in: where the code is and a [plan] of [launches](line), both from `[kernels.NAME]`; the buffers of a case. What comes out: the launches, enqueued on the
//! case's stream. The code is compiled or loaded once a device and suite, for all cases of the process.
//!
//! A kernel runs in the process that computes the case, as the suite's author asked: red zones and hashes tell afterwards what it touched near its buffers. A wild
//! address that a GPU does not refuse may hit memory of the same process.

mod expression;
mod line;
mod plan;

pub(crate) use expression::Expression;
pub(crate) use line::{Buffer, LaunchLine};
pub(crate) use plan::{FittedPlan, Initial, LaunchPlan};

use super::entry::{Code, ModuleEntry};
use super::kernel::{KernelError, Launch};
use crate::device::{Device, DeviceKind, Module, Stream};
use crate::error::{Error, Result};
use line::{Argument, Fitted};
use std::ffi::c_void;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes that a kernel may take as parameters: no runtime has more (CUDA 12.1: 32,764; ROCm: 4 KiB), and none takes less than a byte.
const PARAMETERS: usize = 1 << 15;

/// Bytes of an argument's own: none that a line names is larger.
const SLOT: usize = 16;

/// A module, or why it did not load.
type Loaded = Result<Arc<Module>, String>;

/// A kernel of a suite, loaded where it is first asked for.
#[derive(Debug)]
pub(crate) struct ModuleKernel {
    name: String,
    entry: ModuleEntry,
    /// What came of loading it, by device: what does not compile is not tried again for each case.
    loaded: Mutex<Vec<(Device, Loaded)>>,
}

impl ModuleKernel {
    pub(crate) fn new(name: &str, entry: ModuleEntry) -> ModuleKernel {
        ModuleKernel { name: name.to_owned(), entry, loaded: Mutex::default() }
    }

    pub(crate) fn entry(&self) -> &ModuleEntry {
        &self.entry
    }

    /// Enqueues the kernel's launches on a case's buffers.
    pub(crate) fn run(&self, plan: &FittedPlan, launch: &mut Launch<'_>, stream: &Stream) -> Result<(), KernelError> {
        let module = self.module(stream.device())?;
        if self.entry.plan.initial == Initial::Zero {
            launch.zero_output()?;
        }
        let workspace = match plan.workspace_bytes {
            Some(bytes) => launch.workspace(bytes)?.as_mut_ptr().expose_provenance() as u64,
            None => 0,
        };
        plan.launches.iter().try_for_each(|fitted| enqueue(&module, fitted, launch, workspace, stream))
    }

    /// The code on a device.
    fn module(&self, device: &Device) -> Result<Arc<Module>, KernelError> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, module)) = loaded.iter().find(|(known, _)| known.same_as(device)) {
            return Ok(module.clone()?);
        }
        let module = self.load(device).map(Arc::new).map_err(|e| e.to_string());
        loaded.push((device.clone(), module.clone()));
        Ok(module?)
    }

    fn load(&self, device: &Device) -> Result<Module> {
        if device.kind() == DeviceKind::Host {
            let what = format!("the kernel `{}`, which is GPU code ({}),", self.name, self.entry.code);
            return Err(Error::Unsupported { what, by: format!("{} ({}); it needs a GPU", device.name(), device.why()) });
        }
        let path = self.entry.folder.join(self.file(device)?);
        let fail = |e: std::io::Error| Error::File { path: path.display().to_string(), reason: e.to_string() };
        match self.entry.code {
            Code::Source(_) => {
                let text = std::fs::read_to_string(&path).map_err(fail)?;
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                // Headers are looked for beside the source; a compiler that runs elsewhere needs the whole path.
                let folder = path.canonicalize().map_err(fail)?;
                let include = format!("-I{}", folder.parent().unwrap_or(Path::new("/")).display());
                let options: Vec<&str> = std::iter::once(include.as_str()).chain(self.entry.options.iter().map(String::as_str)).collect();
                Module::compile_with(device, &name, &text, &options)
            }
            Code::Object(_) | Code::Objects(_) => {
                let image = std::fs::read(&path).map_err(fail)?;
                // SAFETY: the suite's author names the file as a kernel to be run here: whoever runs a suite trusts its programs and its code objects alike.
                unsafe { Module::from_image(device, &path.display().to_string(), &image) }
            }
        }
    }

    /// The file for a device.
    fn file(&self, device: &Device) -> Result<&str> {
        let objects = match &self.entry.code {
            Code::Source(path) | Code::Object(path) => return Ok(path),
            Code::Objects(objects) => objects,
        };
        let whole = device.arch().unwrap_or_default();
        let base = whole.split(':').next().unwrap_or_default();
        let of = |arch: &str| objects.iter().find(|(name, _)| name == arch).map(|(_, path)| path.as_str());
        of(whole).or_else(|| of(base)).ok_or_else(|| {
            let archs: Vec<&str> = objects.iter().map(|(name, _)| name.as_str()).collect();
            let what = format!("the kernel `{}`, whose code objects are for {},", self.name, archs.join(" "));
            Error::Unsupported { what, by: device.name() }
        })
    }
}

/// Enqueues one launch.
fn enqueue(module: &Module, fitted: &Fitted, launch: &mut Launch<'_>, workspace: u64, stream: &Stream) -> Result<(), KernelError> {
    let mut values = vec![0u8; SLOT * fitted.arguments.len() + PARAMETERS];
    for (slot, argument) in values.chunks_exact_mut(SLOT).zip(&fitted.arguments) {
        let bits = match *argument {
            Argument::Input(number) => launch.input(number).tensor()?.as_ptr().expose_provenance() as u64,
            Argument::Result => launch.output()?.as_mut_ptr().expose_provenance() as u64,
            Argument::Workspace => workspace,
            Argument::Null => 0,
            Argument::Bits(bits) => bits,
        };
        slot[..8].copy_from_slice(&bits.to_le_bytes());
    }
    // A kernel with more parameters than the line has arguments reads zeros, and one with larger ones what follows.
    let slots = (0..fitted.arguments.len()).map(|number| SLOT * number);
    let start = values.as_mut_ptr();
    let mut pointers: Vec<*mut c_void> =
        slots.chain(std::iter::repeat_n(SLOT * fitted.arguments.len(), PARAMETERS)).map(|at| start.wrapping_add(at).cast()).collect();
    // SAFETY: the runtime reads a pointer for each parameter and as many bytes from each as the parameter has. All parameters together have at most PARAMETERS
    // bytes; so many pointers follow those of the arguments, and so many bytes the last argument. The addresses are those of the case's buffers and workspace,
    // which live until the stream has been waited for, and which nothing else touches. What the kernel does with them is what is under test: the suite's author
    // asked for it to be run here, as for a program.
    unsafe { module.launch_raw(stream, &fitted.function, fitted.grid, &mut pointers)? };
    Ok(())
}
