//! What this build holds; `hipverify devices` prints it.

/// The device code in this build.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BuildInfo {
    /// The version of this crate.
    pub version: &'static str,
    /// The compiler that made AMD's images, or why there are none: `hipcc 5.2.21153-0, clang 15.0.6`, `no hipcc found`.
    pub hipcc: &'static str,
    /// AMD targets compiled ahead of time; every other GPU is compiled for at run time.
    pub targets: Vec<&'static str>,
    /// NVIDIA targets compiled ahead of time; none without feature `nvidia`.
    pub cuda_targets: Vec<&'static str>,
    /// The kernel files.
    pub kernels: Vec<&'static str>,
}

/// What this build holds.
pub fn build_info() -> BuildInfo {
    BuildInfo {
        version: env!("CARGO_PKG_VERSION"),
        hipcc: env!("HIPVERIFY_BUILD_HIPCC"),
        targets: env!("HIPVERIFY_BUILD_TARGETS").split_whitespace().collect(),
        cuda_targets: env!("HIPVERIFY_BUILD_CUDA_TARGETS").split_whitespace().collect(),
        kernels: env!("HIPVERIFY_BUILD_KERNELS").split_whitespace().collect(),
    }
}

impl std::fmt::Display for BuildInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let list = |targets: &[&str]| if targets.is_empty() { "none".to_owned() } else { targets.join(" ") };
        write!(f, "hipverify {}, kernels ahead of time: {} ({})", self.version, list(&self.targets), self.hipcc)?;
        if cfg!(feature = "nvidia") {
            write!(f, ", CUDA {}", list(&self.cuda_targets))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn agrees_with_the_images() {
        let info = super::build_info();
        for target in info.targets.iter().chain(&info.cuda_targets) {
            assert!(hipverify_sys::kernels::IMAGES.iter().any(|i| i.archs.contains(target)), "{target}");
        }
        assert_eq!(info.kernels.len(), hipverify_sys::kernels::SOURCES.len());
        assert!(info.to_string().contains(info.hipcc));
    }
}
