//! This crate's kernels.

use super::module::{Function, launch};
use super::{Code, HipDevice, HipStream, declared, lock};
use crate::error::{Error, Result};
use bytemuck::Zeroable;
use std::ffi::c_int;
use std::marker::PhantomData;
use std::ptr;
use std::sync::Arc;

/// A struct that kernels take by value.
///
/// # Safety
/// It is laid out like the struct `NAME` of the kernels' headers.
pub(crate) unsafe trait Params: Zeroable {
    const NAME: &'static str;
}

/// One of this crate's kernels: its file and name, the struct that it takes, and its block size. Whether `hip/` has such a kernel is checked when it is loaded.
pub(crate) struct Kernel<'n, P> {
    file: &'static str,
    name: &'n str,
    block: u32,
    /// Dynamic shared memory of a block on NVIDIA's GPUs, in bytes.
    shared: u32,
    params: PhantomData<fn(P)>,
}

/// What is known of a kernel that was looked up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    params: &'static str,
    block: u32,
    function: Function,
    /// How many blocks one multiprocessor holds at a time.
    blocks: u32,
}

impl<'n, P: Params> Kernel<'n, P> {
    /// The kernel `name` of a file in `hip/` for one-dimensional blocks of `block` threads.
    pub(crate) const fn new(file: &'static str, name: &'n str, block: u32) -> Kernel<'n, P> {
        Kernel { file, name, block, shared: 0, params: PhantomData }
    }

    /// With `bytes` of dynamic shared memory for each block on NVIDIA's GPUs: `SHARED_ON_NVIDIA` in `hip/platform.h`.
    pub(crate) const fn shared_on_nvidia(self, bytes: u32) -> Kernel<'n, P> {
        Kernel { shared: bytes, ..self }
    }

    /// The kernel on a device. The runtime is asked only once, since an answer takes as long as a short launch.
    pub(crate) fn load(&self, device: &'static HipDevice) -> Result<Loaded<P>> {
        let code = device.code(self.file)?;
        let shared = if device.arch().starts_with("sm_") { self.shared } else { 0 };
        let known = lock(&code.kernels).get(self.name).copied().filter(|known| (known.params, known.block) == (P::NAME, self.block));
        let Known { function, blocks, .. } = match known {
            Some(known) => known,
            None => {
                let found = self.look_up(device, &code, shared)?;
                lock(&code.kernels).insert(self.name.to_owned(), found);
                found
            }
        };
        Ok(Loaded { code, function, block: self.block, shared, blocks, params: PhantomData })
    }

    fn look_up(&self, device: &'static HipDevice, code: &Code, shared: u32) -> Result<Known> {
        if !declared::takes(self.file, self.name, P::NAME, self.block) {
            let log = format!("hip/{} has no kernel of this name that takes {} in blocks of {} threads", self.file, P::NAME, self.block);
            return Err(Error::Compile { kernel: self.name.to_owned(), arch: device.arch().to_owned(), log });
        }
        let function = code.function(self.name)?;
        Ok(Known { params: P::NAME, block: self.block, function, blocks: self.occupancy(device, function, shared)? })
    }

    /// Blocks of this kernel that one multiprocessor holds at a time; 1 where the runtime cannot tell.
    fn occupancy(&self, device: &'static HipDevice, function: Function, shared: u32) -> Result<u32> {
        let Some(ask) = device.api().hipModuleOccupancyMaxActiveBlocksPerMultiprocessor else { return Ok(1) };
        // Runtimes look for the function on the current device.
        device.enter()?;
        let mut blocks = 0;
        // SAFETY: the function belongs to a loaded module and the pointer is valid for a write.
        let error = unsafe { ask(&mut blocks, function.raw(), self.block as c_int, shared as usize) };
        device.check("hipModuleOccupancyMaxActiveBlocksPerMultiprocessor", error)?;
        Ok(u32::try_from(blocks).unwrap_or(0).max(1))
    }

    /// Enqueues the kernel with a [grid for](Loaded::grid_for) this many threads.
    ///
    /// # Safety
    /// As [`Loaded::launch`].
    pub(crate) unsafe fn launch_for(&self, stream: &HipStream, threads: u64, params: &P) -> Result<()> {
        let kernel = self.load(stream.device())?;
        // SAFETY: the caller's promise.
        unsafe { kernel.launch(stream, kernel.grid_for(threads), params) }
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

impl<P: Params> Loaded<P> {
    /// Enqueues the kernel with `grid` blocks. No blocks are no launch.
    ///
    /// # Safety
    /// * Every address in `params` is valid on the stream's device for what the kernel does with it, until the
    ///   stream has been waited for;
    /// * nothing else writes what the kernel reads, or touches what it writes, until then.
    pub(crate) unsafe fn launch(&self, stream: &HipStream, grid: u32, params: &P) -> Result<()> {
        // The runtime only reads it.
        let list = &mut [ptr::from_ref(params).cast_mut().cast()];
        // SAFETY: `Kernel::load` has found that the kernel takes a `P`; the addresses inside are the caller's promise.
        unsafe { launch(&self.code, self.function, stream, [grid, 1, 1], [self.block, 1, 1], self.shared, list) }
    }

    /// Of the device.
    pub(crate) fn multiprocessors(&self) -> u32 {
        self.code.device().multiprocessors()
    }

    /// Blocks for a grid-stride kernel over `threads` threads' worth of work: at most as many as fill the GPU once.
    pub(crate) fn grid_for(&self, threads: u64) -> u32 {
        let full = self.blocks.saturating_mul(self.multiprocessors());
        let needed = threads.div_ceil(u64::from(self.block));
        u32::try_from(needed).unwrap_or(u32::MAX).min(full)
    }
}
