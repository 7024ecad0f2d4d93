//! Kernels of `hip/` as a user has them, loaded and launched by the public functions: above all `set_value`.

use anyhow::{Context, Result};
use hipverify::device::{Device, DeviceKind, Grid, Module, Stream};
use hipverify_sys::abi::SetValue;
use hipverify_sys::{Platform, kernels};
use std::ffi::c_void;

/// A file of kernels, from the image that the build has for the device, else compiled for it now.
pub fn load(device: &Device, file: &str) -> Result<Module> {
    let platform = if device.kind() == DeviceKind::Amd { Platform::Amd } else { Platform::Nvidia };
    let arch = device.arch().and_then(|a| a.split(':').next()).context("a GPU")?;
    Ok(match kernels::image(platform, file, arch) {
        // SAFETY: a whole code object, made by the compiler.
        Some(image) => unsafe { Module::load(device, image.bytes)? },
        None => Module::compile(device, file, kernels::source(file).with_context(|| format!("no {file}"))?.text)?,
    })
}

pub struct OwnKernel {
    module: Module,
}

impl OwnKernel {
    pub fn new(device: &Device) -> Result<OwnKernel> {
        Ok(OwnKernel { module: load(device, "set_value.hip")? })
    }

    /// Enqueues kernel `name` of the module with the arguments of `set_value`: `value` goes to `count` elements at `target`.
    ///
    /// # Safety
    /// The device may write so many f32 at `target` until the stream has been waited for, or the graph that it records is gone, and nothing else
    /// touches them meanwhile.
    pub unsafe fn launch(&self, name: &str, stream: &Stream, target: *mut f32, count: usize, value: f32) -> hipverify::Result<()> {
        let mut argument = SetValue { target: target.cast(), bytes: 4 * count as u64, pattern: [value.to_bits(); 4] };
        let mut arguments = [(&raw mut argument).cast::<c_void>()];
        let grid = Grid { blocks: [4, 1, 1], threads: [256, 1, 1], shared_bytes: 0 };
        // SAFETY: the only kernel of the module takes this struct by value and writes what the caller has promised.
        unsafe { self.module.launch_raw(stream, name, grid, &mut arguments) }
    }

    /// As [`launch`](OwnKernel::launch), of `set_value`.
    ///
    /// # Safety
    /// As there.
    pub unsafe fn set(&self, stream: &Stream, target: *mut f32, count: usize, value: f32) -> hipverify::Result<()> {
        // SAFETY: the caller's promise is the same.
        unsafe { self.launch("set_value", stream, target, count, value) }
    }
}
