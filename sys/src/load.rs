//! Finds and opens a HIP runtime.
//!
//! `HIPVERIFY_HIP_LIBRARY` names the library to use and nothing else is tried then (`off` uses none). Otherwise the places
//! are, in order: `ROCM_PATH/lib`, `HIP_PATH/lib`, the system's search path, `/opt/rocm/lib`; at each the SONAMEs of ROCm 7, 6
//! and 5 come before the bare name, which only development packages have. A library once opened is never closed: its
//! threads and its exit handlers outlive any owner.

use crate::bindings::hipError_t;
use crate::rtc::{Rtc, RtcError};
use crate::table::Api;
use core::ffi::{CStr, c_void};
use once_cell::sync::OnceCell;
use std::fmt;
use std::path::{Path, PathBuf};

/// The library under its versioned names, newest first, then the development link.
const NAMES: [&str; 4] = ["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"];

/// Whose GPUs a runtime drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Platform {
    /// AMD's, by `libamdhip64`.
    Amd,
    /// NVIDIA's, by the shim over CUDA's runtime.
    Nvidia,
}

/// One thing that was tried, and why it would not do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The name or path.
    pub candidate: String,
    /// Why it was not used.
    pub reason: String,
}

impl Attempt {
    pub(crate) fn new(candidate: impl fmt::Display, reason: impl Into<String>) -> Attempt {
        Attempt { candidate: candidate.to_string(), reason: reason.into() }
    }

    /// Whether there simply was no such file.
    fn is_absent(&self) -> bool {
        self.reason == ABSENT
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.candidate, self.reason)
    }
}

/// Why there is no runtime. `Display` is one line; `{:#}` adds every attempt on a line of its own.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum LoadError {
    /// No candidate would do.
    NotFound {
        /// What was tried, in order.
        attempts: Vec<Attempt>,
    },
    /// `HIPVERIFY_HIP_LIBRARY=off`.
    Off,
    /// This build has no CUDA shim.
    NoShim {
        /// Why not.
        reason: &'static str,
    },
}

impl std::error::Error for LoadError {}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let attempts = match self {
            LoadError::Off => return f.write_str("no HIP runtime used: HIPVERIFY_HIP_LIBRARY=off"),
            LoadError::NoShim { reason } => return write!(f, "no CUDA shim in this build: {reason}"),
            LoadError::NotFound { attempts } => attempts,
        };
        let broken: Vec<&Attempt> = attempts.iter().filter(|a| !a.is_absent()).collect();
        match (broken.as_slice(), attempts.as_slice()) {
            ([], [only]) => write!(f, "no HIP runtime found: {only}")?,
            ([], _) => f.write_str("no HIP runtime found: libamdhip64.so.7, .6, .5 not on the search path")?,
            (broken, _) => {
                f.write_str("no usable HIP runtime: ")?;
                for (i, attempt) in broken.iter().enumerate() {
                    write!(f, "{}{attempt}", if i > 0 { "; " } else { "" })?;
                }
            }
        }
        if f.alternate() {
            for attempt in attempts {
                write!(f, "\n  {attempt}")?;
            }
        }
        Ok(())
    }
}

const ABSENT: &str = "no such file";

/// An opened runtime. There is at most one of each [`Platform`]; it lives as long as the program.
#[derive(Debug)]
pub struct Runtime {
    platform: Platform,
    library: Library,
    path: PathBuf,
    api: Api,
    absent: Vec<&'static str>,
    rtc: OnceCell<Rtc>,
}

impl Runtime {
    fn new(platform: Platform, library: Library, path: PathBuf) -> Result<Runtime, Attempt> {
        // SAFETY: the library has the name of a HIP runtime (or is our shim) and is never closed.
        match unsafe { Api::fill(&mut |name| library.symbol(name)) } {
            Ok((api, absent)) => Ok(Runtime { platform, library, path, api, absent, rtc: OnceCell::new() }),
            Err(missing) => Err(Attempt::new(path.display(), format!("it has no {}", missing.join(", ")))),
        }
    }

    /// Whose GPUs it drives.
    pub fn platform(&self) -> Platform {
        self.platform
    }

    /// The file that was opened, as the system names it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The table of functions.
    pub fn api(&self) -> &Api {
        &self.api
    }

    /// Optional functions that this runtime does not have.
    pub fn absent(&self) -> &[&'static str] {
        &self.absent
    }

    /// The version as the runtime gives it: `(5, 2)`. `None` when it will not say, as some do without a GPU.
    pub fn version(&self) -> Option<(i32, i32)> {
        let mut version = 0;
        // SAFETY: the pointer is valid for a write.
        let error = unsafe { (self.api.hipRuntimeGetVersion)(&mut version) };
        let split = match self.platform {
            Platform::Amd => (version / 10_000_000, version / 100_000 % 100),
            Platform::Nvidia => (version / 1000, version / 10 % 100),
        };
        (error == hipError_t::hipSuccess && version > 0).then_some(split)
    }

    /// The runtime for people: `libamdhip64.so.5 (HIP 5.2)`.
    pub fn describe(&self) -> String {
        let file = self.path.file_name().map_or_else(|| self.path.display().to_string(), |f| f.to_string_lossy().into_owned());
        let name = match self.platform {
            Platform::Amd => "HIP",
            Platform::Nvidia => "CUDA",
        };
        self.version().map_or_else(|| file.clone(), |(major, minor)| format!("{file} ({name} {major}.{minor})"))
    }

    /// Number of devices.
    ///
    /// # Errors
    /// The runtime's code; a runtime without a device mostly says so by one, see [`no_device`].
    pub fn device_count(&self) -> Result<usize, hipError_t> {
        let mut count = 0;
        // SAFETY: the pointer is valid for a write.
        match unsafe { (self.api.hipGetDeviceCount)(&mut count) } {
            hipError_t::hipSuccess => Ok(usize::try_from(count).unwrap_or(0)),
            error => Err(error),
        }
    }

    /// The name of an error code: `hipErrorOutOfMemory`; `unknown error` for a code that the runtime does not know.
    pub fn error_name(&self, error: hipError_t) -> String {
        // SAFETY: the function takes any code and returns a static string or null.
        let name = unsafe { (self.api.hipGetErrorName)(error) };
        if name.is_null() {
            return "unknown error".to_owned();
        }
        // SAFETY: not null, so a static C string.
        unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
    }

    /// hipRTC for this runtime, opened on first use.
    ///
    /// # Errors
    /// [`RtcError::NotFound`]; always on NVIDIA, whose kernels are compiled ahead of time.
    pub fn rtc(&self) -> Result<&Rtc, RtcError> {
        self.rtc.get_or_try_init(|| match self.platform {
            Platform::Amd => Rtc::open(self),
            Platform::Nvidia => {
                Err(RtcError::NotFound { attempts: vec![Attempt::new("the CUDA shim", "it does not compile at run time")] })
            }
        })
    }

    pub(crate) fn symbol(&self, name: &CStr) -> *const c_void {
        self.library.symbol(name)
    }
}

/// Whether `error` means that there is no device: `hipErrorNoDevice` and, from `hipInit` of ROCm 5, `hipErrorInvalidDevice`.
pub fn no_device(error: hipError_t) -> bool {
    matches!(error, hipError_t::hipErrorNoDevice | hipError_t::hipErrorInvalidDevice)
}

/// AMD's runtime, opened on first use. A failure is not remembered: the next call tries again.
///
/// # Errors
/// [`LoadError`] with everything that was tried.
pub fn amd() -> Result<&'static Runtime, LoadError> {
    static AMD: OnceCell<Runtime> = OnceCell::new();
    AMD.get_or_try_init(|| load(&candidates(|name| std::env::var_os(name))?))
}

/// The CUDA shim of feature `nvidia`. It opens without a driver; it has no device then.
///
/// # Errors
/// [`LoadError::NoShim`] in a build without it.
pub fn nvidia() -> Result<&'static Runtime, LoadError> {
    #[cfg(hipverify_shim)]
    {
        static NVIDIA: OnceCell<Runtime> = OnceCell::new();
        NVIDIA.get_or_try_init(|| {
            Runtime::new(Platform::Nvidia, Library::Shim, PathBuf::from("cudart"))
                .map_err(|attempt| LoadError::NotFound { attempts: vec![attempt] })
        })
    }
    #[cfg(not(hipverify_shim))]
    {
        Err(LoadError::NoShim { reason: crate::kernels::NO_SHIM })
    }
}

/// Every name to try, in order.
fn candidates(env: impl Fn(&str) -> Option<std::ffi::OsString>) -> Result<Vec<PathBuf>, LoadError> {
    if let Some(library) = env("HIPVERIFY_HIP_LIBRARY").filter(|v| !v.is_empty()) {
        return if library == "off" { Err(LoadError::Off) } else { Ok(vec![library.into()]) };
    }
    let mut folders: Vec<PathBuf> = Vec::new();
    for root in ["ROCM_PATH", "HIP_PATH"].into_iter().filter_map(&env).filter(|v| !v.is_empty()) {
        folders.push(Path::new(&root).join("lib"));
    }
    folders.push(PathBuf::new()); // the system's search path
    folders.push(PathBuf::from("/opt/rocm/lib"));
    Ok(folders.iter().flat_map(|f| NAMES.map(|n| f.join(n))).collect())
}

fn load(candidates: &[PathBuf]) -> Result<Runtime, LoadError> {
    let mut attempts = Vec::new();
    for path in candidates {
        let library = match open(path) {
            Ok(library) => library,
            Err(reason) => {
                attempts.push(Attempt::new(path.display(), reason));
                continue;
            }
        };
        let file = library.file_of(c"hipGetDeviceCount").unwrap_or_else(|| path.clone());
        match Runtime::new(Platform::Amd, library, file) {
            Ok(runtime) => return Ok(runtime),
            Err(attempt) => attempts.push(attempt),
        }
    }
    Err(LoadError::NotFound { attempts })
}

/// Where functions come from. Never closed.
#[derive(Clone, Copy, Debug)]
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
        let mut info = core::mem::MaybeUninit::<libc::Dl_info>::zeroed();
        // SAFETY: any address may be asked for, and the struct is valid for a write.
        if unsafe { libc::dladdr(address, info.as_mut_ptr()) } == 0 {
            return None;
        }
        // SAFETY: dladdr succeeded, so it filled the struct (which is plain old data and was zeroed).
        let file = unsafe { info.assume_init() }.dli_fname;
        // SAFETY: the loader's own name of a library that is never closed; checked for null.
        let name = (!file.is_null()).then(|| unsafe { CStr::from_ptr(file) })?;
        Some(PathBuf::from(std::ffi::OsStr::from_bytes(name.to_bytes())))
    }

    /// The file that holds a function.
    #[cfg(not(unix))]
    pub(crate) fn file_of(&self, _: &CStr) -> Option<PathBuf> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(env: &[(&str, &str)]) -> Vec<String> {
        let get = |name: &str| env.iter().find(|(n, _)| *n == name).map(|(_, v)| v.into());
        candidates(get).unwrap().iter().map(|p| p.display().to_string()).collect()
    }

    #[test]
    fn order_of_candidates() {
        let plain = names(&[]);
        assert_eq!(plain[..4], NAMES);
        assert_eq!(plain[4], "/opt/rocm/lib/libamdhip64.so.7");
        let rocm = names(&[("ROCM_PATH", "/r"), ("HIP_PATH", "/h")]);
        assert_eq!(rocm[0], "/r/lib/libamdhip64.so.7");
        assert_eq!(rocm[4], "/h/lib/libamdhip64.so.7");
        assert_eq!(rocm[8], NAMES[0]);
        assert_eq!(names(&[("HIPVERIFY_HIP_LIBRARY", "/x.so"), ("ROCM_PATH", "/r")]), ["/x.so"]);
        assert_eq!(names(&[("HIPVERIFY_HIP_LIBRARY", ""), ("ROCM_PATH", "")]), plain);
    }

    #[test]
    fn off_means_off() {
        let error = candidates(|n| (n == "HIPVERIFY_HIP_LIBRARY").then(|| "off".into())).unwrap_err();
        assert_eq!(error.to_string(), "no HIP runtime used: HIPVERIFY_HIP_LIBRARY=off");
    }

    #[test]
    fn errors_tell_what_was_tried() {
        let absent = load(&["/nowhere/libamdhip64.so.7".into(), "libhipverify-absent.so.6".into()]).unwrap_err();
        assert_eq!(absent.to_string(), "no HIP runtime found: libamdhip64.so.7, .6, .5 not on the search path");
        let full = format!("{absent:#}");
        assert!(full.contains("\n  /nowhere/libamdhip64.so.7: no such file"), "{full}");
        assert!(full.contains("\n  libhipverify-absent.so.6: no such file"), "{full}");

        let named = load(&["/nowhere/x.so".into()]).unwrap_err();
        assert_eq!(named.to_string(), "no HIP runtime found: /nowhere/x.so: no such file");

        let text = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        let broken = load(std::slice::from_ref(&text)).unwrap_err().to_string();
        assert!(broken.starts_with("no usable HIP runtime: ") && broken.contains("Cargo.toml"), "{broken}");
    }

    #[test]
    fn another_library_is_no_runtime() {
        let Ok(error) = load(&["libc.so.6".into()]).map(|_| ()).map_err(|e| e.to_string()).map_or_else(Ok, |()| Err(())) else {
            panic!("libc was taken for a HIP runtime");
        };
        assert!(error.contains("it has no hipInit, hipDriverGetVersion"), "{error}");
    }
}
