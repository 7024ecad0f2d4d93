//! Shared libraries, opened for the rest of the program.
//!
//! A library once opened is never closed: its threads and its exit handlers outlive any owner.

use core::ffi::{CStr, c_void};
use std::path::{Path, PathBuf};

/// Why there is no library, when there simply is no such file.
pub(crate) const ABSENT: &str = "no such file";

/// Where functions come from. Two values are equal when they are the same library, whatever names it was opened by.
///
/// What it has under the name of one of HIP's functions is that function: it bears the name of one of HIP's libraries, the user has named it as
/// one, or it is our shim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Library {
    /// A library that was opened by name, as dlopen's handle.
    #[cfg(unix)]
    Opened(usize),
    /// The shim that is linked into this program.
    #[cfg(hipverify_shim)]
    Shim,
}

#[cfg(hipverify_shim)]
unsafe extern "C" {
    /// The shim's function of a name, or null.
    fn hipverify_nv_symbol(name: *const core::ffi::c_char) -> *const c_void;
}

/// Opens a library, for the rest of the program.
#[cfg(unix)]
pub(crate) fn open(path: &Path) -> Result<Library, String> {
    use libloading::os::unix;
    if path.components().count() > 1 && !path.exists() {
        return Err(ABSENT.to_owned());
    }
    // SAFETY: opening runs the initialisers of a library that has the name of AMD's runtime or that the user named.
    let library = unsafe { unix::Library::open(Some(path), unix::RTLD_NOW | unix::RTLD_LOCAL) };
    match library {
        Ok(library) => Ok(Library::Opened(library.into_raw() as usize)),
        Err(error) => {
            let reason = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
            // dlopen names the library that it misses first: this one, or one that this one needs.
            let own = path.to_string_lossy();
            let absent = reason.starts_with(&*own) && reason.contains("No such file");
            Err(if absent { ABSENT.to_owned() } else { reason })
        }
    }
}

/// Whether a library of this name is loaded in the process already, from any path.
#[cfg(unix)]
pub(crate) fn is_loaded(name: &str) -> bool {
    use libloading::os::unix;
    // SAFETY: nothing is loaded, so that nothing is initialised.
    unsafe { unix::Library::open(Some(name), unix::RTLD_LAZY | unix::RTLD_LOCAL | libc::RTLD_NOLOAD) }.is_ok()
}

/// As above: nothing is loaded here.
#[cfg(not(unix))]
pub(crate) fn is_loaded(_: &str) -> bool {
    false
}

/// Opens a library, for the rest of the program.
#[cfg(not(unix))]
pub(crate) fn open(_: &Path) -> Result<Library, String> {
    Err("hipverify opens the HIP runtime on Unix systems only".to_owned())
}

impl Library {
    /// A function's address, or null.
    pub(crate) fn symbol(&self, name: &CStr) -> *const c_void {
        match *self {
            #[cfg(unix)]
            Library::Opened(handle) => {
                // SAFETY: the handle came from dlopen and is never closed; the name ends in a zero byte.
                unsafe { libc::dlsym(handle as *mut c_void, name.as_ptr()) }
            }
            #[cfg(hipverify_shim)]
            Library::Shim => {
                // SAFETY: the name ends in a zero byte.
                unsafe { hipverify_nv_symbol(name.as_ptr()) }
            }
            #[cfg(not(any(unix, hipverify_shim)))]
            _ => core::ptr::null(),
        }
    }

    /// The file that holds a function.
    #[cfg(unix)]
    pub(crate) fn file_of(&self, name: &CStr) -> Option<PathBuf> {
        use std::os::unix::ffi::OsStrExt;
        let address = self.symbol(name);
        if address.is_null() {
            return None;
        }
        let (null, null_name) = (core::ptr::null_mut(), core::ptr::null());
        let mut info = libc::Dl_info { dli_fname: null_name, dli_fbase: null, dli_sname: null_name, dli_saddr: null };
        // SAFETY: any address may be asked for, and the struct is valid for a write. The name, if one is found, is the loader's own of a library
        // that is never closed.
        let name = unsafe {
            let found = libc::dladdr(address, &mut info) != 0 && !info.dli_fname.is_null();
            found.then(|| CStr::from_ptr(info.dli_fname))?
        };
        Some(PathBuf::from(std::ffi::OsStr::from_bytes(name.to_bytes())))
    }

    /// The file that holds a function.
    #[cfg(not(unix))]
    pub(crate) fn file_of(&self, _: &CStr) -> Option<PathBuf> {
        None
    }
}
