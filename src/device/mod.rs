//! Devices and the memory that lives on them.
//!
//! A [`Device`] is the host (this machine's cores, always there) or a GPU driven through the HIP runtime. Every type of this
//! module works the same on both; the differences are in [`Device::name`] and [`Device::why`], not in the behaviour:
//! the same operation on the same data gives the same bits.

mod address;
mod code_object;
mod event;
mod graph;
pub(crate) mod hash;
pub(crate) mod hip;
pub(crate) mod host;
mod layout;
mod mem;
mod module;
mod on_host;
mod pinned;
pub(crate) mod reader;
mod recording;
mod slice;
mod stream;
pub(crate) mod sync;
mod tensor;
mod transfer;

pub(crate) use address::Address;
pub use event::Event;
pub(crate) use graph::RecordingId;
pub use graph::{Capture, Graph};
pub use layout::Layout;
pub(crate) use layout::coordinates_from_last;
pub(crate) use mem::Alloc;
pub use mem::{DeviceBytes, DeviceMem};
pub use module::{Grid, Module};
pub use pinned::PinnedMem;
pub use slice::DeviceSlice;
pub use stream::Stream;
pub(crate) use stream::captured;
pub use tensor::{AsTensor, IntoTensor, TensorMut, TensorRef};
pub use transfer::{Scope, Transfer};

use crate::error::{Error, Result};
use crate::parallel;
use std::sync::{Arc, OnceLock};

/// Threads may share these, since they may share what each consists of.
const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<(Device, DeviceBytes, PinnedMem<f32>, TensorRef<'_>, TensorMut<'_>, Stream, Event, Graph<'_>, Module)>();
};

/// What drives a device. Closed and private: a public trait would allow other backends, which could not guarantee
/// equal bits.
#[derive(Debug)]
pub(crate) enum Backend {
    /// The cores of this machine.
    Host,
    /// A GPU, through the HIP runtime or the CUDA shim.
    Hip(&'static hip::HipDevice),
}

#[derive(Debug)]
struct Inner {
    backend: Backend,
    why: String,
}

/// A place where data live and kernels run. Cheap to clone; clones are the same device.
///
/// Operations on a GPU, including drops of objects there, make it the current device of the calling thread (`hipSetDevice`), and it stays so. Code of
/// the same thread that relies on the current device has to set its own again afterwards.
#[derive(Clone, Debug)]
pub struct Device(Arc<Inner>);

/// The kind of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeviceKind {
    /// The cores of this machine.
    Host,
    /// An AMD GPU, through the HIP runtime.
    Amd,
    /// An NVIDIA GPU, through the CUDA shim (feature `nvidia`).
    Nvidia,
}

impl DeviceKind {
    /// `host`, `amd` or `nvidia`.
    pub const fn name(self) -> &'static str {
        match self {
            DeviceKind::Host => "host",
            DeviceKind::Amd => "amd",
            DeviceKind::Nvidia => "nvidia",
        }
    }
}

impl std::fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

impl Device {
    /// The host device: all cores, no GPU. Always there, always the same one.
    pub fn host() -> Device {
        static HOST: OnceLock<Device> = OnceLock::new();
        HOST.get_or_init(|| Device(Arc::new(Inner { backend: Backend::Host, why: "asked for".to_owned() }))).clone()
    }

    /// The first GPU (AMD's come before NVIDIA's), or the host if there is none. [`why`](Device::why) says why it was chosen.
    ///
    /// # Errors
    /// A GPU that is found but fails to start is an error, not a reason to fall back; so is a runtime that fails to count its devices, if no other has a GPU.
    pub fn best() -> Result<Device> {
        Ok(match hip::best()? {
            Ok(gpu) => Device::gpu(gpu, "the first GPU"),
            Err(reason) => Device(Arc::new(Inner { backend: Backend::Host, why: reason })),
        })
    }

    /// Every device that opens: the host first, then AMD's GPUs in the runtime's order, then NVIDIA's.
    pub fn all() -> Vec<Device> {
        let gpus = hip::all().into_iter().map(|gpu| Device::gpu(gpu, "asked for"));
        std::iter::once(Device::host()).chain(gpus).collect()
    }

    /// Opens a device by name: `host`, `best`, `gpu` (the first one), `gpu:N`.
    ///
    /// # Errors
    /// [`Error::NoDevice`] when there is no such device, with the reason; [`Error::InvalidArgument`] for another name.
    pub fn open(name: &str) -> Result<Device> {
        let index = match name {
            "host" => return Ok(Device::host()),
            "best" => return Device::best(),
            "gpu" => Some(0),
            other => other.strip_prefix("gpu:").and_then(|n| n.parse().ok()),
        };
        let index = index.ok_or_else(|| Error::InvalidArgument {
            what: "device",
            value: name.to_owned(),
            limit: "it must be host, best, gpu or gpu:N".to_owned(),
        })?;
        Ok(Device::gpu(hip::open(index)?, "asked for"))
    }

    fn gpu(gpu: &'static hip::HipDevice, why: &str) -> Device {
        let why = format!("{why}{}", hip::also_tried(gpu.runtime()));
        Device(Arc::new(Inner { backend: Backend::Hip(gpu), why }))
    }

    /// The kind of this device.
    pub fn kind(&self) -> DeviceKind {
        match self.backend() {
            Backend::Host => DeviceKind::Host,
            Backend::Hip(gpu) => match gpu.platform() {
                hipverify_sys::Platform::Amd => DeviceKind::Amd,
                hipverify_sys::Platform::Nvidia => DeviceKind::Nvidia,
            },
        }
    }

    /// A descriptive name: `host, 2 threads`, or the GPU's number, name and architecture.
    pub fn name(&self) -> String {
        match self.backend() {
            Backend::Host => host::name(),
            Backend::Hip(gpu) => gpu.name(),
        }
    }

    /// The GPU's architecture with its features, `gfx90a:sramecc+:xnack-` or `sm_90`; `None` on the host.
    pub fn arch(&self) -> Option<&str> {
        match self.backend() {
            Backend::Host => None,
            Backend::Hip(gpu) => Some(gpu.arch()),
        }
    }

    /// Units that run blocks of a kernel independently: compute units, multiprocessors, or the host's threads.
    pub fn multiprocessors(&self) -> usize {
        match self.backend() {
            Backend::Host => parallel::threads(),
            Backend::Hip(gpu) => gpu.multiprocessors() as usize,
        }
    }

    /// Lanes of a wavefront: 64 on AMD's CDNA, 32 on RDNA and NVIDIA; 1 on the host.
    pub fn wavefront(&self) -> usize {
        match self.backend() {
            Backend::Host => 1,
            Backend::Hip(gpu) => gpu.warp_size() as usize,
        }
    }

    /// The runtime that drives the device: `libamdhip64.so.5 (HIP 5.2)`; `None` on the host.
    pub fn runtime(&self) -> Option<String> {
        match self.backend() {
            Backend::Host => None,
            Backend::Hip(gpu) => Some(gpu.runtime().describe()),
        }
    }

    /// Why this device was chosen: `asked for`, or what prevented a better one; and which runtimes were found and could not be used.
    pub fn why(&self) -> &str {
        &self.0.why
    }

    /// Free and total bytes of the device's memory.
    ///
    /// # Errors
    /// When the runtime cannot tell.
    pub fn memory_info(&self) -> Result<(usize, usize)> {
        match self.backend() {
            Backend::Host => host::memory_info(),
            Backend::Hip(gpu) => gpu.enter().and_then(|()| gpu.memory_info()),
        }
    }

    pub(crate) fn backend(&self) -> &Backend {
        &self.0.backend
    }

    /// Whether `other` is the same device, so that a kernel can read both buffers.
    pub fn same_as(&self, other: &Device) -> bool {
        match (self.backend(), other.backend()) {
            (Backend::Host, Backend::Host) => true,
            (Backend::Hip(a), Backend::Hip(b)) => std::ptr::eq(*a, *b),
            (Backend::Host, Backend::Hip(_)) | (Backend::Hip(_), Backend::Host) => false,
        }
    }

    pub(crate) fn expect_same(&self, other: &Device, what: &'static str) -> Result<()> {
        if self.same_as(other) {
            return Ok(());
        }
        Err(Error::WrongDevice { what, expected: self.name(), found: other.name() })
    }
}

impl std::fmt::Display for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.name(), self.why())
    }
}
