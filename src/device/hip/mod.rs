//! The HIP backend: GPUs driven through `hipverify-sys`.
//!
//! A [`HipDevice`] is opened once and lives as long as the program, with its loaded modules and streams of its own, the
//! queues. Everything that blocks the caller (copies, `set_zero`, every operation without a stream) runs on the first one by
//! [`HipDevice::blocking`], or on all by [`HipDevice::blocking_until`], which first wait for all streams of this crate that
//! still have work: so a blocking operation comes after everything that was enqueued before it, on whatever stream, although
//! streams are created non-blocking and the runtime itself orders nothing.
//!
//! The runtime's functions may be called from any thread, also by several at once, except that those on a graph are called one at a time.

mod cache;
mod copy;
mod declared;
mod find;
mod graph;
mod image;
mod kernel;
mod memory;
mod module;
mod pinned;
mod pool;
mod progress;
mod queues;
mod registry;
mod stream;

pub(crate) use copy::{Source, Target};
#[cfg(feature = "cli")]
pub(crate) use find::runtimes;
pub(crate) use find::{all, also_tried, best, open};
pub(crate) use graph::HipGraph;
pub(crate) use image::Image;
pub(crate) use kernel::{Kernel, Loaded, Params};
pub(crate) use memory::HipAlloc;
pub(crate) use module::{Code, launch};
pub(crate) use pinned::{CoherentAlloc, PinnedAlloc};
pub(crate) use queues::Queues;
pub(crate) use stream::{HipEvent, HipStream};

use crate::error::{Error, Result};
use hipverify_sys::bindings::{hipDeviceAttribute_t, hipError_t};
use hipverify_sys::{Api, DeviceProps, Platform, Runtime};
use once_cell::sync::OnceCell;
use registry::Registry;
use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::c_int;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use stream::RawStream;

/// A GPU. There is exactly one value for each GPU, so its address is its identity.
#[derive(Debug)]
pub(crate) struct HipDevice {
    runtime: &'static Runtime,
    ordinal: c_int,
    props: DeviceProps,
    name: String,
    multiprocessors: u32,
    max_block: u32,
    warp: u32,
    /// Whether memory can be allocated and freed in the order of a stream.
    pub(super) memory_pools: bool,
    queues: [OnceCell<Arc<HipStream>>; queues::QUEUES],
    streams: Registry<RawStream>,
    modules: Mutex<HashMap<&'static str, Arc<Code>>>,
    workspaces: pool::Pool,
    deferred: Mutex<Option<Error>>,
}

thread_local! {
    /// The runtime and device that this thread has set before.
    static CURRENT: Cell<Option<(Platform, c_int)>> = const { Cell::new(None) };
}

impl HipDevice {
    fn new(runtime: &'static Runtime, ordinal: c_int, index: usize) -> Result<HipDevice> {
        let check = |call, error| check(runtime, call, error);
        check("hipSetDevice", (runtime.api().hipSetDevice)(ordinal))?;
        let props = DeviceProps::query(runtime.api(), ordinal);
        let props =
            props.or_else(|e| check("hipGetDeviceProperties", e).map(|()| DeviceProps { name: String::new(), arch: String::new() }))?;
        let attribute = |attribute| attribute_of(runtime, ordinal, attribute).map(|value| value.max(1));
        let maker = match runtime.platform() {
            Platform::Amd => "AMD GPU",
            Platform::Nvidia => "NVIDIA GPU",
        };
        let name = if props.name.is_empty() { maker } else { &props.name };
        let name = format!("gpu:{index} {name}, {}", props.base_arch());
        Ok(HipDevice {
            runtime,
            ordinal,
            props,
            name,
            multiprocessors: attribute(hipDeviceAttribute_t::hipDeviceAttributeMultiprocessorCount)?,
            max_block: attribute(hipDeviceAttribute_t::hipDeviceAttributeMaxThreadsPerBlock)?,
            warp: attribute(hipDeviceAttribute_t::hipDeviceAttributeWarpSize)?,
            memory_pools: has_memory_pools(runtime, ordinal)?,
            queues: [const { OnceCell::new() }; queues::QUEUES],
            streams: Registry::new(),
            modules: Mutex::default(),
            workspaces: pool::Pool::new(),
            deferred: Mutex::default(),
        })
    }

    pub(crate) fn runtime(&self) -> &'static Runtime {
        self.runtime
    }

    pub(crate) fn api(&self) -> &'static Api {
        self.runtime.api()
    }

    pub(crate) fn platform(&self) -> Platform {
        self.runtime.platform()
    }

    /// `gfx90a:sramecc+:xnack-`, `sm_90`.
    pub(crate) fn arch(&self) -> &str {
        &self.props.arch
    }

    /// `gpu:0 AMD Instinct MI210, gfx90a`.
    pub(crate) fn name(&self) -> String {
        self.name.clone()
    }

    pub(crate) fn multiprocessors(&self) -> u32 {
        self.multiprocessors
    }

    pub(crate) fn max_block(&self) -> u32 {
        self.max_block
    }

    pub(crate) fn warp_size(&self) -> u32 {
        self.warp
    }

    /// What operations have kept for later ones.
    pub(crate) fn workspaces(&self) -> &pool::Pool {
        &self.workspaces
    }

    /// Free and total bytes, on a device that was entered.
    pub(crate) fn memory_info(&self) -> Result<(usize, usize)> {
        let (mut free, mut total) = (0, 0);
        self.check("hipMemGetInfo", (self.api().hipMemGetInfo)(&mut free, &mut total))?;
        Ok((free, total))
    }

    /// Begins a fallible operation: reports what a `Drop` found earlier and makes the device current on this thread.
    pub(crate) fn enter(&self) -> Result<()> {
        if let Some(error) = lock(&self.deferred).take() {
            return Err(Error::Deferred(Box::new(error)));
        }
        self.make_current()
    }

    /// The runtime's current device belongs to the thread, and other code of the program may change it: asking costs a few
    /// nanoseconds, setting it on a thread that has it costs more.
    fn make_current(&self) -> Result<()> {
        let this = Some((self.platform(), self.ordinal));
        let mut now = -1;
        let error = (self.api().hipGetDevice)(&mut now);
        if error != hipError_t::hipSuccess {
            self.clear_last_error();
        } else if CURRENT.get() == this && now == self.ordinal {
            return Ok(());
        }
        self.check("hipSetDevice", (self.api().hipSetDevice)(self.ordinal))?;
        CURRENT.set(this);
        Ok(())
    }

    /// An operation of a `Drop`: its error is kept for the next fallible call on this device. It is tried also where the device cannot be made
    /// current, as one that is lost: what it frees would never be freed otherwise.
    pub(crate) fn defer(&self, operation: impl FnOnce() -> Result<()>) {
        if let Err(error) = self.make_current().and(operation()) {
            lock(&self.deferred).get_or_insert(error);
        }
    }

    pub(crate) fn check(&self, call: &'static str, error: hipError_t) -> Result<()> {
        check(self.runtime, call, error)
    }

    /// Called after an error that is expected and not reported.
    fn clear_last_error(&self) {
        clear_last_error(self.runtime);
    }

    /// The device's own stream of this number.
    fn queue(&'static self, number: usize) -> Result<&'static Arc<HipStream>> {
        self.queues[number].get_or_try_init(|| HipStream::new(self))
    }

    /// Runs `work` on the first queue after everything that was enqueued on any stream of this crate, and waits for it.
    pub(crate) fn blocking(&'static self, work: impl FnOnce(&Arc<HipStream>) -> Result<()>) -> Result<()> {
        self.enter()?;
        self.wait_for_streams()?;
        let queue = self.queue(0)?;
        let done = work(queue);
        // Wait even when `work` failed half-way: what it borrowed must not be in use when this returns.
        let waited = queue.synchronize_entered();
        done.and(waited)
    }

    /// As [`blocking`](Self::blocking), for work whose last operations, one of each queue, signal their ends themselves: `ready` is
    /// polled for a short time before the runtime is asked.
    pub(crate) fn blocking_until<S>(
        &'static self,
        state: &mut S,
        work: impl FnOnce(&mut S, &mut Queues) -> Result<()>,
        ready: impl Fn(&S) -> bool,
    ) -> Result<()> {
        self.enter()?;
        self.wait_for_streams()?;
        let mut queues = Queues::new(self);
        let done = work(state, &mut queues);
        // As above. Work that failed may never be ready.
        let waited = queues.wait(|| done.is_ok() && ready(state));
        done.and(waited)
    }

    /// Waits for every stream that has work, except those that are being captured.
    pub(crate) fn wait_for_streams(&self) -> Result<()> {
        self.wait_for_streams_where(RawStream::is_busy)
    }

    /// As [`wait_for_streams`](Self::wait_for_streams), for memory that only `stream` still needs.
    fn wait_for_other_streams(&self, stream: &RawStream) -> Result<()> {
        self.wait_for_streams_where(|s| !ptr::eq(s, stream) && s.is_busy())
    }

    /// Called before `stream` uses memory: waits for other streams that have just allocated some, which is rare.
    pub(crate) fn wait_for_allocations(&self, stream: &RawStream) -> Result<()> {
        self.wait_for_streams_where(|s| !ptr::eq(s, stream) && s.has_fresh_memory())
    }

    /// Waits for all of them, even if one has an error, because what they use may be freed next. Returns the first error.
    fn wait_for_streams_where(&self, chosen: impl Fn(&RawStream) -> bool) -> Result<()> {
        let mut waited = Ok(());
        for stream in self.streams.queues(chosen) {
            waited = waited.and(stream.synchronize_unless_captured());
        }
        waited
    }
}

/// A number that a device reports about itself; 0 if it reports a negative one.
fn attribute_of(runtime: &Runtime, ordinal: c_int, attribute: hipDeviceAttribute_t) -> Result<u32> {
    let mut value = 0;
    let error = (runtime.api().hipDeviceGetAttribute)(&mut value, attribute, ordinal);
    check(runtime, "hipDeviceGetAttribute", error).map(|()| u32::try_from(value).unwrap_or(0))
}

/// Whether a device allocates memory in the order of a stream. HIP 5.0 and 5.1, which cannot, do not know the attribute.
fn has_memory_pools(runtime: &Runtime, ordinal: c_int) -> Result<bool> {
    match attribute_of(runtime, ordinal, hipDeviceAttribute_t::hipDeviceAttributeMemoryPoolsSupported) {
        Err(Error::Hip { code, .. }) if code == hipError_t::hipErrorInvalidValue.0 as i32 => Ok(false),
        supported => Ok(supported? > 0),
    }
}

/// Clears the thread's last error, which is nobody else's business: the runtimes of ROCm 7 keep it until somebody asks.
fn clear_last_error(runtime: &Runtime) {
    let _ = (runtime.api().hipGetLastError)();
}

/// Turns an error code into an [`Error`]. Of the two codes that mean "no device" where devices are counted only one does anywhere:
/// `hipErrorInvalidDevice` of another call is about an argument, and that call is to be named.
fn check(runtime: &Runtime, call: &'static str, error: hipError_t) -> Result<()> {
    if error == hipError_t::hipSuccess {
        return Ok(());
    }
    clear_last_error(runtime);
    let name = runtime.error_name(error);
    if error == hipError_t::hipErrorNoDevice {
        return Err(Error::NoDevice { wanted: "GPU".to_owned(), reason: format!("{call} says {name}") });
    }
    Err(Error::Hip { call, name, code: error.0 as i32 })
}

/// A lock whose data stay usable after a panic elsewhere: each critical section here leaves them whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
