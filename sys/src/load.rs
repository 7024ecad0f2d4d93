//! Finds and opens a HIP runtime.
//!
//! `HIPVERIFY_HIP_LIBRARY` names the library to use and nothing else is tried then (`off` uses none). Otherwise a runtime that the process has
//! loaded already comes first, since its addresses and streams are to be used together with ours. The places
//! are then, in order: `ROCM_PATH/lib`, `HIP_PATH/lib`, the system's search path, `lib` of `/opt/rocm`, `/opt/rocm/core` and `/opt/rocm/core-<version>`; at each the SONAMEs of ROCm 7, 6
//! and 5 come before the bare name, which only development packages have. The first library that counts a device is used: a newer
//! ROCm may have dropped a GPU, or lack its driver's version, where an older one beside it works.

use crate::bindings::hipError_t;
use crate::library::{ABSENT, Library, is_loaded, open};
use crate::rtc::{Rtc, RtcError};
use crate::table::Api;
use core::ffi::CStr;
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

/// An opened runtime. There is at most one of each [`Platform`]; it lives as long as the program.
#[derive(Debug)]
pub struct Runtime {
    platform: Platform,
    library: Library,
    path: PathBuf,
    api: Api,
    absent: Vec<&'static str>,
    tried: Vec<Attempt>,
    rtc: OnceCell<Rtc>,
}

impl Runtime {
    fn new(platform: Platform, library: Library, path: PathBuf) -> Result<Runtime, Attempt> {
        match Api::fill(library) {
            Ok((api, absent)) => Ok(Runtime { platform, library, path, api, absent, tried: Vec::new(), rtc: OnceCell::new() }),
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

    /// Other libraries that are there and were not used, and why.
    pub fn tried(&self) -> &[Attempt] {
        &self.tried
    }

    /// The version as the runtime gives it: `(5, 2)`. `None` when it will not say, as some do without a GPU.
    pub fn version(&self) -> Option<(i32, i32)> {
        let mut version = 0;
        let error = (self.api.hipRuntimeGetVersion)(&mut version);
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
        let error = (self.api.hipGetDeviceCount)(&mut count);
        if error == hipError_t::hipSuccess {
            return Ok(usize::try_from(count).unwrap_or(0));
        }
        // Clears the thread's last error, which the caller is told instead.
        let _ = (self.api.hipGetLastError)();
        Err(error)
    }

    /// Why a [`device_count`](Self::device_count) is no device: `it has no device (hipErrorNoDevice)`.
    pub fn no_device_reason(&self, counted: Result<usize, hipError_t>) -> String {
        match counted {
            Ok(count) => format!("it has no device (it counts {count})"),
            Err(error) if no_device(error) => format!("it has no device ({})", self.error_name(error)),
            Err(error) => format!("hipGetDeviceCount failed: {} ({})", self.error_name(error), error.0),
        }
    }

    /// The name of an error code: `hipErrorOutOfMemory`; `unknown error` for a code that the runtime does not know.
    pub fn error_name(&self, error: hipError_t) -> String {
        let name = (self.api.hipGetErrorName)(error);
        if name.is_null() {
            return "unknown error".to_owned();
        }
        // SAFETY: the function returns a static C string or null, which this is not.
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

    pub(crate) fn library(&self) -> Library {
        self.library
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
    AMD.get_or_try_init(|| load(&candidates(|name| std::env::var_os(name), is_loaded)?))
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
fn candidates(env: impl Fn(&str) -> Option<std::ffi::OsString>, is_loaded: impl Fn(&str) -> bool) -> Result<Vec<PathBuf>, LoadError> {
    if let Some(library) = env("HIPVERIFY_HIP_LIBRARY").filter(|v| !v.is_empty()) {
        return if library == "off" { Err(LoadError::Off) } else { Ok(vec![library.into()]) };
    }
    let mut folders: Vec<PathBuf> = Vec::new();
    for root in ["ROCM_PATH", "HIP_PATH"].into_iter().filter_map(&env).filter(|v| !v.is_empty()) {
        folders.push(Path::new(&root).join("lib"));
    }
    folders.push(PathBuf::new()); // the system's search path
    folders.extend(installed(Path::new("/opt/rocm")).into_iter().map(|root| root.join("lib")));
    let loaded = NAMES.into_iter().filter(|name| is_loaded(name)).map(PathBuf::from);
    Ok(loaded.chain(folders.iter().flat_map(|f| NAMES.map(|n| f.join(n)))).collect())
}

/// Where ROCm is installed in a folder: itself, and what ROCm has there from 7.14 on, `core` and `core-<version>`, the newest first.
fn installed(folder: &Path) -> Vec<PathBuf> {
    let version = |name: &str| name.strip_prefix("core-").and_then(|v| v.split('.').map(|n| n.parse().ok()).collect::<Option<Vec<u64>>>());
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut versions: Vec<_> = entries.filter_map(|entry| Some((version(entry.file_name().to_str()?)?, entry.path()))).collect();
    versions.sort();
    let named = [folder.to_owned(), folder.join("core")].into_iter();
    named.chain(versions.into_iter().rev().map(|(_, path)| path)).collect()
}

/// Opens the first library that counts a device. Where none does, the first that opens, which says why; a count that fails is no device.
fn load(candidates: &[PathBuf]) -> Result<Runtime, LoadError> {
    let mut attempts = Vec::new();
    let mut opened = Vec::new();
    let mut without: Option<Runtime> = None;
    for path in candidates {
        let library = match open(path) {
            Ok(library) if opened.contains(&library) => continue,
            Ok(library) => library,
            Err(reason) => {
                attempts.push(Attempt::new(path.display(), reason));
                continue;
            }
        };
        opened.push(library);
        let file = library.file_of(c"hipGetDeviceCount").unwrap_or_else(|| path.clone());
        let tried = Runtime::new(Platform::Amd, library, file).and_then(|runtime| match runtime.device_count() {
            Ok(count) if count > 0 => Ok(runtime),
            counted => {
                let attempt = Attempt::new(runtime.path.display(), runtime.no_device_reason(counted));
                without.get_or_insert(runtime);
                Err(attempt)
            }
        });
        match tried {
            Ok(runtime) => return Ok(Runtime { tried: others(attempts, &runtime), ..runtime }),
            Err(attempt) => attempts.push(attempt),
        }
    }
    match without {
        Some(runtime) => Ok(Runtime { tried: others(attempts, &runtime), ..runtime }),
        None => Err(LoadError::NotFound { attempts }),
    }
}

/// The attempts that met a library, but for that of `runtime`.
fn others(mut attempts: Vec<Attempt>, runtime: &Runtime) -> Vec<Attempt> {
    let own = runtime.path.display().to_string();
    attempts.retain(|attempt| !attempt.is_absent() && attempt.candidate != own);
    attempts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(env: &[(&str, &str)]) -> Vec<String> {
        let get = |name: &str| env.iter().find(|(n, _)| *n == name).map(|(_, v)| v.into());
        candidates(get, |_| false).unwrap().iter().map(|p| p.display().to_string()).collect()
    }

    #[test]
    fn a_runtime_that_is_loaded_comes_first() {
        let env = |named: &'static str| move |name: &str| (name == "HIPVERIFY_HIP_LIBRARY").then(|| named.into());
        let names = |named, loaded: &[&str]| candidates(env(named), |name| loaded.contains(&name)).unwrap();
        let found = names("", &["libamdhip64.so.5", "libamdhip64.so.6"]);
        assert_eq!(found[..2], [Path::new("libamdhip64.so.6"), Path::new("libamdhip64.so.5")]);
        assert_eq!(found[2..], names("", &[]));
        assert_eq!(names("/x.so", &["libamdhip64.so.6"]), [Path::new("/x.so")]);
        assert!(is_loaded("libc.so.6"));
        assert!(!is_loaded("libhipverify-absent.so.6"));
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
    fn versions_of_rocm_are_ordered_by_number() {
        let folder = std::env::temp_dir().join(format!("hipverify-rocm-{}", std::process::id()));
        for name in ["core-7.14", "core-10.0", "core-9.2.1", "core-next", "lib"] {
            std::fs::create_dir_all(folder.join(name)).unwrap();
        }
        let found = installed(&folder);
        std::fs::remove_dir_all(&folder).unwrap();
        let names: Vec<_> = found.iter().map(|path| path.strip_prefix(&folder).unwrap().to_str().unwrap()).collect();
        assert_eq!(names, ["", "core", "core-10.0", "core-9.2.1", "core-7.14"]);
        assert_eq!(installed(Path::new("/nowhere")).len(), 2);
    }

    #[test]
    fn off_means_off() {
        let error = candidates(|n| (n == "HIPVERIFY_HIP_LIBRARY").then(|| "off".into()), |_| true).unwrap_err();
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
