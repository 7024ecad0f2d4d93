//! Which devices there are, and how large: by the environment.

use std::env;
use std::ffi::c_int;
use std::sync::LazyLock;

/// A device.
pub(crate) struct Device {
    /// `gfx90a:sramecc+:xnack-`.
    pub(crate) arch: String,
    pub(crate) wavefront: usize,
}

impl Device {
    fn new(arch: &str) -> Device {
        // RDNA, from gfx1010 on.
        let rdna = arch.strip_prefix("gfx1").is_some_and(|rest| rest.split(':').next().is_some_and(|digits| digits.len() >= 3));
        Device { arch: arch.to_owned(), wavefront: if rdna { 32 } else { 64 } }
    }

    /// `gfx90a`.
    pub(crate) fn base_arch(&self) -> &str {
        self.arch.split(':').next().unwrap_or_default()
    }
}

static DEVICES: LazyLock<Vec<Device>> = LazyLock::new(|| {
    let arch = env::var("HIPVERIFY_STANDIN_ARCH").unwrap_or_else(|_| "gfx-standin:xnack-".to_owned());
    let asked = env::var("HIPVERIFY_STANDIN_DEVICES").unwrap_or_else(|_| "1".to_owned());
    match asked.parse::<usize>() {
        Ok(count) => (0..count).map(|_| Device::new(&arch)).collect(),
        Err(_) => asked.split(',').map(|arch| Device::new(arch.trim())).collect(),
    }
});

pub(crate) fn count() -> c_int {
    DEVICES.len() as c_int
}

/// The device of this number; the first for one that there is not.
pub(crate) fn get(device: c_int) -> &'static Device {
    let device = usize::try_from(device).ok().and_then(|device| DEVICES.get(device));
    device.unwrap_or_else(|| &DEVICES[0])
}

/// A number from the environment.
pub(crate) fn number(name: &str, otherwise: u64) -> u64 {
    env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(otherwise)
}

/// Few, so that small tensors reach what large ones do on a real GPU.
pub(crate) fn multiprocessors() -> u64 {
    number("HIPVERIFY_STANDIN_MULTIPROCESSORS", 3)
}

/// Blocks that a multiprocessor holds.
pub(crate) fn occupancy() -> u64 {
    number("HIPVERIFY_STANDIN_OCCUPANCY", 2)
}

#[cfg(test)]
mod tests {
    use super::Device;

    #[test]
    fn wavefronts_by_architecture() {
        for (arch, wavefront) in
            [("gfx-standin:xnack-", 64), ("gfx90a:sramecc+", 64), ("gfx942", 64), ("gfx1030", 32), ("gfx1100:x", 32), ("gfx1200", 32)]
        {
            assert_eq!(Device::new(arch).wavefront, wavefront, "{arch}");
        }
    }
}
