//! What the tests on every device share.

use anyhow::{Context, Result};
use hipverify::Device;
use hipverify::device::{DeviceKind, Module};
/// The argument of `set_value`, which stands for a kernel of the user's.
pub use hipverify_sys::abi::SetValue;

/// Runs a test on every device and says which one failed.
pub fn on_all(test: impl Fn(&Device) -> Result<()>) -> Result<()> {
    Device::all().iter().try_for_each(|d| test(d).with_context(|| d.to_string()))
}

/// The module with `set_value`, which every build with a compiler has; none on the host and where there is no image.
pub fn set_value_module(device: &Device) -> Result<Option<Module>> {
    let Some(arch) = device.arch() else { return Ok(None) };
    let platform = if device.kind() == DeviceKind::Amd { hipverify_sys::Platform::Amd } else { hipverify_sys::Platform::Nvidia };
    let base = arch.split(':').next().unwrap_or(arch);
    let Some(image) = hipverify_sys::kernels::image(platform, "set_value.hip", base) else {
        println!("skipped on {device}: no image");
        return Ok(None);
    };
    // SAFETY: a whole code object, made by the compiler.
    Ok(Some(unsafe { Module::load(device, image.bytes)? }))
}
