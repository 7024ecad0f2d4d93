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
    /// The architectures inside: `gfx90a` or `gfx90a:xnack-`, or `sm_90` and `compute_90`.
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

/// The image of `file` for a GPU whose architecture is `arch` (`gfx90a:sramecc+:xnack-`; of one without features, `gfx90a`, those images alone that
/// name none). Of several that run there it is the one that names most features. On NVIDIA one image serves all.
pub fn image(platform: Platform, file: &str, arch: &str) -> Option<&'static Image> {
    let images = IMAGES.iter().filter(|i| i.file == file && i.platform == platform);
    if platform == Platform::Nvidia {
        return images.into_iter().next();
    }
    let features = |i: &Image| i.archs.iter().filter_map(|target| features_of(target, arch)).max();
    images.filter_map(|i| Some((features(i)?, i))).max_by_key(|(features, _)| *features).map(|(_, i)| i)
}

/// How many features `target` (`gfx90a:xnack-`) names, if a GPU of this architecture runs it: one with all of these features.
fn features_of(target: &str, arch: &str) -> Option<usize> {
    let mut parts = target.split(':');
    let has = |feature: &str| arch.split(':').skip(1).any(|own| own == feature);
    let same = parts.next() == arch.split(':').next();
    (same && parts.clone().all(has)).then(|| parts.count())
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
    fn targets_run_where_their_features_are() {
        let mi200 = "gfx90a:sramecc+:xnack-";
        for (target, arch, expected, reason) in [
            ("gfx90a", mi200, Some(0), "whatever the features"),
            ("gfx90a", "gfx90a", Some(0), "none on either side"),
            ("gfx90a:xnack-", mi200, Some(1), "one of two"),
            ("gfx90a:sramecc+:xnack-", mi200, Some(2), "the same"),
            ("gfx90a:xnack-:sramecc+", mi200, Some(2), "in another order"),
            ("gfx90a:xnack+", mi200, None, "the opposite"),
            ("gfx90a:xnack-", "gfx90a", None, "of a device that does not say"),
            ("gfx908", mi200, None, "another GPU"),
            ("gfx90", mi200, None, "the beginning of a name"),
            ("gfx9-generic", mi200, None, "a family"),
            ("gfx908:xnack-", mi200, None, "another GPU with the same feature"),
        ] {
            assert_eq!(features_of(target, arch), expected, "{target} on {arch}: {reason}");
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
