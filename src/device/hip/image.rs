//! Complete code objects.

use super::HipDevice;
use crate::error::{Error, Result};
use hipverify_sys::{Platform, kernels};
use std::borrow::Cow;

/// A complete code object: the runtime gets no length, and reads as far as the headers say.
#[derive(Debug)]
pub(crate) struct Image(Cow<'static, [u8]>);

impl Image {
    /// # Safety
    /// The bytes are a complete code object.
    pub(crate) unsafe fn new(bytes: Vec<u8>) -> Image {
        Image(bytes.into())
    }

    /// What the build has made of one of our kernel files: it has embedded the whole file that the compiler wrote.
    pub(super) fn embedded(platform: Platform, file: &str, arch: &str) -> Option<Image> {
        kernels::image(platform, file, arch).map(|image| Image(image.bytes.into()))
    }

    /// What hipRTC makes of a source, with our options and headers or with the caller's options alone: it tells the size of what it has made.
    pub(super) fn compiled(device: &HipDevice, name: &str, source: &str, options: Option<&[&str]>) -> Result<Image> {
        device.enter()?;
        let made = device.runtime().rtc().and_then(|rtc| match options {
            None => kernels::compile(rtc, name, source, device.arch()),
            Some(options) => kernels::compile_with(rtc, name, source, device.arch(), options),
        });
        let error =
            |e: hipverify_sys::RtcError| Error::Compile { kernel: name.to_owned(), arch: device.arch().to_owned(), log: e.to_string() };
        made.map(|bytes| Image(bytes.into())).map_err(error)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}
