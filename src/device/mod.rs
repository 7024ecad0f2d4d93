//! Devices and the memory that lives on them.
//!
//! A [`Device`] is the host (this machine's cores, always there) or a GPU driven through the HIP runtime. Every type of this
//! module works the same on both; what differs is told by [`Device::name`] and [`Device::why`], never by behaviour:
//! the same operation on the same data gives the same bits.

mod event;
pub(crate) mod host;
mod layout;
mod mem;
mod stream;
mod tensor;

pub use event::Event;
pub use layout::Layout;
pub use mem::{DeviceBytes, DeviceMem};
pub use stream::Stream;
pub use tensor::{AsTensor, TensorMut, TensorRef};

use crate::error::{Error, Result};
use std::sync::{Arc, OnceLock};

/// What drives a device. Closed and private: a public trait would promise backends from outside, which could not keep the
/// promise of equal bits.
#[derive(Debug)]
pub(crate) enum Backend {
    /// The cores of this machine.
    Host,
}

#[derive(Debug)]
struct Inner {
    backend: Backend,
    why: String,
}

/// A place where data live and kernels run. Cheap to clone; clones are the same device.
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

impl Device {
    /// The host device: all cores, no GPU. Always there, always the same one.
    pub fn host() -> Device {
        static HOST: OnceLock<Device> = OnceLock::new();
        HOST.get_or_init(|| Device(Arc::new(Inner { backend: Backend::Host, why: "asked for".to_owned() }))).clone()
    }

    /// The first GPU that opens, else the host. [`why`](Device::why) tells how that came about.
    ///
    /// # Errors
    /// A GPU that is there but fails to start is an error, not a reason to fall back.
    pub fn best() -> Result<Device> {
        Ok(Device(Arc::new(Inner { backend: Backend::Host, why: "no HIP runtime found".to_owned() })))
    }

    /// Every device that opens: the host first, then the GPUs in the runtime's order.
    pub fn all() -> Vec<Device> {
        vec![Device::host()]
    }

    /// Opens a device by name: `host`, `best`, `gpu` (the first one), `gpu:N`.
    ///
    /// # Errors
    /// [`Error::NoDevice`] when there is no such device, with the reason; [`Error::InvalidArgument`] for another name.
    pub fn open(name: &str) -> Result<Device> {
        match name {
            "host" => Ok(Device::host()),
            "best" => Device::best(),
            gpu if gpu == "gpu" || gpu.starts_with("gpu:") => {
                Err(Error::NoDevice { wanted: gpu.to_owned(), reason: "no HIP runtime found".to_owned() })
            }
            other => Err(Error::InvalidArgument {
                what: "device",
                value: other.to_owned(),
                limit: "it must be host, best, gpu or gpu:N".to_owned(),
            }),
        }
    }

    /// The kind of this device.
    pub fn kind(&self) -> DeviceKind {
        match self.backend() {
            Backend::Host => DeviceKind::Host,
        }
    }

    /// A name for people: `host, 2 threads`, or the GPU's name and architecture.
    pub fn name(&self) -> String {
        match self.backend() {
            Backend::Host => host::name(),
        }
    }

    /// Why this device was chosen: `asked for`, or what stood in the way of a better one.
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
        }
    }

    pub(crate) fn backend(&self) -> &Backend {
        &self.0.backend
    }

    /// Whether `other` is the same device, so that a kernel can read both buffers.
    pub fn same_as(&self, other: &Device) -> bool {
        match (self.backend(), other.backend()) {
            (Backend::Host, Backend::Host) => true,
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
