//! The device code: sources, and images compiled ahead of time.
//!
//! What was compiled is data, never a `cfg`: a build without hipcc has the same API and an empty list of images, and
//! hipRTC compiles the [`SOURCES`] for the GPU at hand when the program runs.

use crate::{Platform, Rtc, RtcError};

/// A file of device code.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    /// The file name: `verify/f64.hip`.
    pub name: &'static str,
    /// Its text.
    pub text: &'static str,
}

/// A kernel file compiled ahead of time, as `hipModuleLoadData` takes it.
#[derive(Clone, Copy)]
pub struct Image {
    /// The source: `verify/f64.hip`.
    pub file: &'static str,
    /// Whose GPUs it is for.
    pub platform: Platform,
    /// The architectures inside: `gfx90a`, or `sm_90` and `compute_90`.
    pub archs: &'static [&'static str],
    /// The code object.
    pub bytes: &'static [u8],
}

impl core::fmt::Debug for Image {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} for {}, {} bytes", self.file, self.archs.join(" "), self.bytes.len())
    }
}

/// Runtimes map code objects page by page: aligned as hipcc aligns those that it puts into programs.
#[repr(C, align(4096))]
#[allow(dead_code)] // a build without hipcc has no images
struct Page<T: ?Sized>(T);

include!(concat!(env!("OUT_DIR"), "/kernels.rs"));

/// The image of `file` for a GPU whose architecture is `arch` (`gfx90a`, without features). On NVIDIA one image serves all.
pub fn image(platform: Platform, file: &str, arch: &str) -> Option<&'static Image> {
    let fits = |i: &&Image| i.file == file && i.platform == platform && (platform == Platform::Nvidia || i.archs.contains(&arch));
    IMAGES.iter().find(fits)
}

/// The source called `file`.
pub fn source(file: &str) -> Option<&'static Source> {
    SOURCES.iter().find(|s| s.name == file)
}

/// The compiler's options for `arch` (`gfx90a`, features allowed) at run time: those of ahead of time.
pub fn options(arch: &str) -> Vec<String> {
    let target = format!("--offload-arch={arch}");
    // As hipcc does: without early inlining, old compilers keep arrays in memory and run out of the local one.
    let inline = ["-mllvm", "-amdgpu-early-inline-all=true", "-mllvm", "-amdgpu-function-calls=false"];
    ["-std=c++17", "-O2", "-ffp-contract=off", &target].into_iter().chain(inline).map(str::to_owned).collect()
}

/// Names and texts of the headers that sources include, at run time.
pub fn headers() -> impl Iterator<Item = (&'static str, &'static str)> {
    // hipRTC declares HIP itself; old ones have no such header and new ones would declare everything twice.
    std::iter::once(("hip/hip_runtime.h", "// built in\n")).chain(HEADERS.iter().map(|h| (h.name, h.text)))
}

/// Compiles `source` (called `name` in messages) for `arch` at run time, with [`options`] and our headers.
///
/// # Errors
/// [`RtcError::Compile`] with the compiler's log, or the call that failed.
pub fn compile(rtc: &Rtc, name: &str, source: &str, arch: &str) -> Result<Vec<u8>, RtcError> {
    let headers: Vec<_> = headers().collect();
    let options = options(arch);
    rtc.compile(name, source, &headers, &options.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Compiles a source that is none of ours for `arch`, with these options, and without our headers but the one of HIP.
///
/// # Errors
/// As [`compile`].
pub fn compile_with(rtc: &Rtc, name: &str, source: &str, arch: &str, options: &[&str]) -> Result<Vec<u8>, RtcError> {
    let target = format!("--offload-arch={arch}");
    let headers: Vec<_> = headers().take(1).collect();
    rtc.compile(name, source, &headers, &[target.as_str()].into_iter().chain(options.iter().copied()).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_image_has_a_source_and_is_aligned() {
        for i in IMAGES {
            assert!(source(i.file).is_some(), "{i:?}");
            assert!(!i.bytes.is_empty() && !i.archs.is_empty(), "{i:?}");
            assert_eq!(i.bytes.as_ptr() as usize % 4096, 0, "{i:?}");
        }
    }

    #[test]
    fn images_of_one_platform_cover_all_sources() {
        // A target is dropped as a whole or kernels would be missing on some GPU only.
        for (platform, arch) in IMAGES.iter().flat_map(|i| i.archs.iter().map(move |a| (i.platform, *a))) {
            for source in SOURCES {
                assert!(image(platform, source.name, arch).is_some(), "{} lacks {arch}", source.name);
            }
        }
    }
}
