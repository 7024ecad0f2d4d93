//! hipRTC: device code compiled at run time.
//!
//! Up to ROCm 6 the functions are inside `libamdhip64` too; from 7 only `libhiprtc` has them. Compiler and runtime are to belong together, since
//! a runtime may refuse what a newer compiler makes: first comes the library of the runtime's major version in its own folder, then the runtime
//! itself, then older versions, and newer ones only where there is nothing else. Loaded on first use only.

use crate::bindings::*;
use crate::library::{Library, open};
use crate::load::{Attempt, Runtime};
use crate::table::{declared, field, note, pointer, table, value};
use core::ffi::{CStr, c_char, c_int, c_void};
use std::ffi::CString;
use std::path::{Path, PathBuf};

table! {
    /// The functions of hipRTC.
    pub struct RtcApi {
        safe fn hiprtcVersion(major: &mut c_int, minor: &mut c_int) -> hiprtcResult;
        safe fn hiprtcGetErrorString(error: hiprtcResult) -> *const c_char;
        required fn hiprtcCreateProgram(program: *mut hiprtcProgram, source: *const c_char, name: *const c_char, count: c_int, headers: *mut *const c_char, names: *mut *const c_char) -> hiprtcResult;
        required fn hiprtcDestroyProgram(program: *mut hiprtcProgram) -> hiprtcResult;
        required fn hiprtcCompileProgram(program: hiprtcProgram, count: c_int, options: *mut *const c_char) -> hiprtcResult;
        required fn hiprtcGetProgramLogSize(program: hiprtcProgram, size: *mut usize) -> hiprtcResult;
        required fn hiprtcGetProgramLog(program: hiprtcProgram, log: *mut c_char) -> hiprtcResult;
        required fn hiprtcGetCodeSize(program: hiprtcProgram, size: *mut usize) -> hiprtcResult;
        required fn hiprtcGetCode(program: hiprtcProgram, code: *mut c_char) -> hiprtcResult;
        optional fn hiprtcAddNameExpression(program: hiprtcProgram, name: *const c_char) -> hiprtcResult;
        optional fn hiprtcGetLoweredName(program: hiprtcProgram, name: *const c_char, lowered: *mut *const c_char) -> hiprtcResult;
    }
}

/// The major versions of ROCm that there are, newest first.
const MAJORS: [i32; 3] = [7, 6, 5];

/// Why a kernel could not be compiled at run time.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RtcError {
    /// No library with the functions of hipRTC.
    #[error("no hipRTC found: {}", list(attempts))]
    NotFound {
        /// What was tried.
        attempts: Vec<Attempt>,
    },
    /// A call failed.
    #[error("{call} failed: {reason}")]
    Call {
        /// The function.
        call: &'static str,
        /// hipRTC's words for the code.
        reason: String,
    },
    /// The source does not compile.
    #[error("{log}")]
    Compile {
        /// The compiler's words.
        log: String,
    },
    /// A name, option or source with a zero byte in it.
    #[error("{what} holds a zero byte")]
    ZeroByte {
        /// What holds it.
        what: &'static str,
    },
}

/// hipRTC, ready to compile.
#[derive(Debug)]
pub struct Rtc {
    api: RtcApi,
    path: PathBuf,
}

impl Rtc {
    /// Opens hipRTC for `runtime`.
    ///
    /// # Errors
    /// [`RtcError::NotFound`] with everything that was tried.
    pub(crate) fn open(runtime: &Runtime) -> Result<Rtc, RtcError> {
        let folder = runtime.path().parent().filter(|p| !p.as_os_str().is_empty());
        let major = major(runtime.path()).or_else(|| Some(runtime.version()?.0));
        let mut attempts = Vec::new();
        let own = folder.into_iter().flat_map(|folder| own_names(major).into_iter().map(|name| folder.join(name)));
        for path in own.filter(|p| p.exists()) {
            if let Some(rtc) = try_open(&path, &mut attempts) {
                return Ok(rtc);
            }
        }
        if let Some(rtc) = try_fill(runtime.library(), runtime.path(), &mut attempts) {
            return Ok(rtc);
        }
        let beside = |name: &String| folder.map(|folder| folder.join(name)).filter(|path| path.exists());
        let others = names(major).into_iter().flat_map(|name| beside(&name).into_iter().chain([PathBuf::from(name)]));
        let found = others.into_iter().find_map(|path| try_open(&path, &mut attempts));
        found.ok_or(RtcError::NotFound { attempts })
    }

    /// The library in use.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The table of functions.
    pub fn api(&self) -> &RtcApi {
        &self.api
    }

    /// Major and minor version.
    ///
    /// # Errors
    /// A failed call.
    pub fn version(&self) -> Result<(i32, i32), RtcError> {
        let (mut major, mut minor) = (0, 0);
        self.check("hiprtcVersion", (self.api.hiprtcVersion)(&mut major, &mut minor))?;
        Ok((major, minor))
    }

    /// Compiles `source` (called `name` in messages) with named headers, given as (name, text), to a code object.
    ///
    /// # Errors
    /// [`RtcError::Compile`] with the compiler's log when the source is wrong, else the call that failed.
    pub fn compile(&self, name: &str, source: &str, headers: &[(&str, &str)], options: &[&str]) -> Result<Vec<u8>, RtcError> {
        let c = |what: &'static str, text: &str| CString::new(text).map_err(|_| RtcError::ZeroByte { what });
        let (name, source) = (c("the name", name)?, c("the source", source)?);
        let header_names = headers.iter().map(|h| c("a header's name", h.0)).collect::<Result<Vec<_>, _>>()?;
        let header_texts = headers.iter().map(|h| c("a header", h.1)).collect::<Result<Vec<_>, _>>()?;
        let options = options.iter().map(|o| c("an option", o)).collect::<Result<Vec<_>, _>>()?;
        let pointers = |list: &[CString]| list.iter().map(|s| s.as_ptr()).collect::<Vec<*const c_char>>();
        let (mut names, mut texts, mut flags) = (pointers(&header_names), pointers(&header_texts), pointers(&options));

        let mut program = Program { rtc: self, handle: core::ptr::null_mut() };
        let count = names.len() as c_int;
        // SAFETY: all strings end in a zero byte and live until the end of this function; the arrays have `count` entries.
        let code = unsafe {
            let (texts, names) = (texts.as_mut_ptr(), names.as_mut_ptr());
            (self.api.hiprtcCreateProgram)(&mut program.handle, source.as_ptr(), name.as_ptr(), count, texts, names)
        };
        self.check("hiprtcCreateProgram", code)?;
        // SAFETY: the program was created above; the array has as many entries as said.
        let code = unsafe { (self.api.hiprtcCompileProgram)(program.handle, flags.len() as c_int, flags.as_mut_ptr()) };
        if code != hiprtcResult::HIPRTC_SUCCESS {
            return match program.log() {
                Some(log) => Err(RtcError::Compile { log }),
                None => self.check("hiprtcCompileProgram", code).map(|()| Vec::new()),
            };
        }
        program.output(Output::Code)
    }

    fn check(&self, call: &'static str, code: hiprtcResult) -> Result<(), RtcError> {
        if code == hiprtcResult::HIPRTC_SUCCESS { Ok(()) } else { Err(RtcError::Call { call, reason: self.words(code) }) }
    }

    fn words(&self, code: hiprtcResult) -> String {
        let words = (self.api.hiprtcGetErrorString)(code);
        if words.is_null() {
            return format!("code {}", code.0);
        }
        // SAFETY: the function returns a static C string or null, which this is not.
        format!("{} ({})", unsafe { CStr::from_ptr(words) }.to_string_lossy(), code.0)
    }
}

/// The major version in the name of a library: `libamdhip64.so.6`, `libamdhip64.so.6.2.60200`.
fn major(path: &Path) -> Option<i32> {
    let name = path.file_name()?.to_str()?;
    name.split_once(".so.")?.1.split('.').next()?.parse().ok()
}

/// What hipRTC of this version is called; the bare name, which only development packages have, says nothing of the version.
fn own_names(major: Option<i32>) -> Vec<String> {
    major.map(|major| format!("libhiprtc.so.{major}")).into_iter().chain(["libhiprtc.so".to_owned()]).collect()
}

/// Every name of hipRTC, in the order in which a runtime of this version takes them.
fn names(major: Option<i32>) -> Vec<String> {
    let major_or_newest = major.unwrap_or(MAJORS[0]);
    let older = MAJORS.into_iter().filter(|&other| other < major_or_newest);
    let newer = MAJORS.into_iter().rev().filter(|&other| other > major_or_newest);
    let versioned = |other| format!("libhiprtc.so.{other}");
    let mut names: Vec<String> = std::iter::once(major_or_newest).chain(older).map(versioned).collect();
    names.push("libhiprtc.so".to_owned());
    names.extend(newer.map(versioned));
    names
}

fn try_open(path: &Path, attempts: &mut Vec<Attempt>) -> Option<Rtc> {
    let library = open(path).map_err(|reason| attempts.push(Attempt::new(path.display(), reason))).ok()?;
    let rtc = try_fill(library, path, attempts)?;
    Some(Rtc { path: library.file_of(c"hiprtcVersion").unwrap_or(rtc.path), ..rtc })
}

/// hipRTC of a library that is loaded, if it has all of its functions.
fn try_fill(library: Library, path: &Path, attempts: &mut Vec<Attempt>) -> Option<Rtc> {
    match RtcApi::fill(library) {
        Ok((api, _)) => Some(Rtc { api, path: path.to_owned() }),
        Err(missing) => {
            attempts.push(Attempt::new(path.display(), format!("it has no {}", missing[0])));
            None
        }
    }
}

fn list(attempts: &[Attempt]) -> String {
    attempts.iter().map(Attempt::to_string).collect::<Vec<_>>().join("; ")
}

/// A program that is destroyed in the end.
struct Program<'a> {
    rtc: &'a Rtc,
    handle: hiprtcProgram,
}

/// What a compilation leaves.
#[derive(Clone, Copy)]
enum Output {
    Code,
    Log,
}

impl Program<'_> {
    /// The compiler's words; `None` if there are none.
    fn log(&self) -> Option<String> {
        let log = self.output(Output::Log).ok()?;
        let text = String::from_utf8_lossy(&log);
        Some(text.trim_end_matches(['\0', '\n']).to_owned()).filter(|text| !text.is_empty())
    }

    fn output(&self, which: Output) -> Result<Vec<u8>, RtcError> {
        let api = &self.rtc.api;
        let (size_call, get_size, call, get) = match which {
            Output::Code => ("hiprtcGetCodeSize", api.hiprtcGetCodeSize, "hiprtcGetCode", api.hiprtcGetCode),
            Output::Log => ("hiprtcGetProgramLogSize", api.hiprtcGetProgramLogSize, "hiprtcGetProgramLog", api.hiprtcGetProgramLog),
        };
        let mut size = 0;
        // SAFETY: the program was created; the pointer is valid for a write.
        self.rtc.check(size_call, unsafe { get_size(self.handle, &mut size) })?;
        let mut bytes = vec![0u8; size];
        if size > 0 {
            // SAFETY: the program was created; the buffer has the size that hipRTC asked for.
            self.rtc.check(call, unsafe { get(self.handle, bytes.as_mut_ptr().cast()) })?;
        }
        Ok(bytes)
    }
}

impl Drop for Program<'_> {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            // SAFETY: created by hiprtcCreateProgram and destroyed only here. A failure leaks the program, nothing worse.
            let _ = unsafe { (self.rtc.api.hiprtcDestroyProgram)(&mut self.handle) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runtime_has_its_version_in_its_name() {
        for (path, expected) in [
            ("/opt/rocm/lib/libamdhip64.so.6", Some(6)),
            ("/usr/lib/x86_64-linux-gnu/libamdhip64.so.5.2.21153", Some(5)),
            ("/opt/rocm.so.7/lib/libamdhip64.so", None),
            ("libamdhip64.so.x", None),
        ] {
            assert_eq!(major(Path::new(path)), expected, "{path}");
        }
    }

    #[test]
    fn newer_compilers_come_last() {
        for (major, own, all) in [
            (Some(5), &["5", ""][..], &["5", "", "6", "7"][..]),
            (Some(6), &["6", ""], &["6", "5", "", "7"]),
            (Some(7), &["7", ""], &["7", "6", "5", ""]),
            (Some(8), &["8", ""], &["8", "7", "6", "5", ""]),
            (None, &[""], &["7", "6", "5", ""]),
        ] {
            let name = |version: &&str| format!("libhiprtc.so.{version}").trim_end_matches('.').to_owned();
            assert_eq!(own_names(major), own.iter().map(name).collect::<Vec<_>>(), "{major:?}");
            assert_eq!(names(major), all.iter().map(name).collect::<Vec<_>>(), "{major:?}");
        }
    }
}
