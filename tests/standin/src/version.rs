//! Which of AMD's runtimes this one is like: `HIPVERIFY_STANDIN_VERSION`.
//!
//! | | 5.2.3 | 6 (the default) | 7 |
//! |---|---|---|---|
//! | says it has memory pools | no, and `hipMallocAsync` succeeds all the same | yes | yes |
//! | `hipStreamDestroy` after `hipMallocAsync` on the stream | does not return; here a violation | returns | returns |
//! | `hipModuleLaunchKernel` on a stream that is captured | runs at once | is recorded | is recorded |
//! | the thread's last error | that of the last call | that of the last call | kept until `hipGetLastError` |
//!
//! Functions that a version lacks (`hipGetDevicePropertiesR0600` in 5, hipRTC's in 7) are taken out of a copy of the library by the tests.

use std::ffi::c_int;
use std::sync::LazyLock;

/// A version to be like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    V5,
    V6,
    V7,
}

/// The version of this process.
pub(crate) fn version() -> Version {
    static VERSION: LazyLock<Version> = LazyLock::new(|| match std::env::var("HIPVERIFY_STANDIN_VERSION").as_deref() {
        Ok("5.2.3") => Version::V5,
        Ok("7") => Version::V7,
        _ => Version::V6,
    });
    *VERSION
}

impl Version {
    /// What `hipRuntimeGetVersion` says.
    pub(crate) fn number(self) -> c_int {
        match self {
            Version::V5 => 50_221_153,
            Version::V6 => 60_200_000,
            Version::V7 => 70_000_000,
        }
    }

    pub(crate) fn has_memory_pools(self) -> bool {
        self != Version::V5
    }

    pub(crate) fn captures_launches(self) -> bool {
        self != Version::V5
    }

    pub(crate) fn keeps_errors(self) -> bool {
        self == Version::V7
    }
}
