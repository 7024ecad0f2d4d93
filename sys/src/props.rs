//! Device properties, whichever of HIP's two layouts the runtime fills.
//!
//! ROCm 5 fills 792 bytes; ROCm 6 and later fill 1472 through a versioned symbol while the old symbol keeps the old layout.
//! Only the name and the architecture are read from the struct: everything else comes through attributes, whose numbers
//! have not changed.

use crate::bindings::{hipDeviceProp_t, hipError_t};
use crate::table::Api;
use core::ffi::{CStr, c_int, c_void};
use core::mem::{offset_of, size_of};

/// Offset of `gcnArchName` in the 1472-byte layout (`hipDeviceProp_tR0600`); the name is at 0 in both.
const ARCH_R0600: usize = 1160;
/// Offset of `gcnArchName` in the 792-byte layout.
const ARCH_LEGACY: usize = offset_of!(hipDeviceProp_t, gcnArchName);
const _: () = assert!(size_of::<hipDeviceProp_t>() == 792 && ARCH_LEGACY == 396 && offset_of!(hipDeviceProp_t, name) == 0);

/// The longest of both names, in bytes with the final zero.
const NAME_LEN: usize = 256;

/// Larger than any known layout, so that a longer struct of a later runtime cannot overrun it.
#[repr(C, align(64))]
struct Buffer([u8; 8192]);

/// What a device calls itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceProps {
    /// The name for people: `AMD Instinct MI210`.
    pub name: String,
    /// The architecture with its features: `gfx90a:sramecc+:xnack-`; on NVIDIA `sm_90`.
    pub arch: String,
}

impl DeviceProps {
    /// Asks the runtime for the properties of device `ordinal`.
    ///
    /// # Errors
    /// The runtime's error code; `hipErrorNotSupported` when it has neither property function.
    pub fn query(api: &Api, ordinal: c_int) -> Result<DeviceProps, hipError_t> {
        let mut buffer = Buffer([0; 8192]);
        // SAFETY: the buffer is aligned for and larger than either struct, of which each function fills its own.
        let (error, arch_at) = unsafe {
            match (api.hipGetDevicePropertiesR0600, api.hipGetDeviceProperties) {
                (Some(get), _) => (get((&raw mut buffer).cast::<c_void>(), ordinal), ARCH_R0600),
                (None, Some(get)) => (get((&raw mut buffer).cast::<hipDeviceProp_t>(), ordinal), ARCH_LEGACY),
                (None, None) => (hipError_t::hipErrorNotSupported, 0),
            }
        };
        if error != hipError_t::hipSuccess {
            return Err(error);
        }
        Ok(DeviceProps { name: text(&buffer.0[..NAME_LEN]), arch: text(&buffer.0[arch_at..arch_at + NAME_LEN]) })
    }

    /// The architecture without its features: `gfx90a`.
    pub fn base_arch(&self) -> &str {
        self.arch.split(':').next().unwrap_or(&self.arch)
    }
}

/// The bytes up to the first zero.
fn text(bytes: &[u8]) -> String {
    CStr::from_bytes_until_nul(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), CStr::to_string_lossy).trim().to_owned()
}
