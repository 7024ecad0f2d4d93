//! The stand-in GPU's library, and what it tells beside the functions of HIP.

use anyhow::{Context, Result, ensure};
use libloading::Library;
use std::collections::{BTreeMap, BTreeSet};
use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::ffi::{CStr, c_char};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

/// The library that cargo built beside this program.
fn library() -> Result<PathBuf> {
    let program = std::env::current_exe()?;
    let path = program.parent().context("a program without a folder")?.join(format!("{DLL_PREFIX}hipverify_standin{DLL_SUFFIX}"));
    ensure!(path.exists(), "{} is missing", path.display());
    Ok(path)
}

/// How AddressSanitizer reports what kernels do.
const ASAN_OPTIONS: &[&str] = &[
    // A kernel allocates nothing, and libraries of kernels and devices are kept until the process ends.
    "detect_leaks=0",
    // A launch fails; other trials go on.
    "halt_on_error=0",
    // Each launch fails that makes an error, not the first alone.
    "suppress_equal_pcs=0",
    // Each library of kernels has a table of the same name, which nobody else sees.
    "detect_odr_violation=0",
    // Variables would move from the stack of their thread to memory of the runtime's, MiBs for each of thousands of threads.
    "detect_stack_use_after_return=0",
    // Freed blocks of the host need not be kept: kernels have theirs from the stand-in, which keeps them itself.
    "quarantine_size_mb=0",
    "thread_local_quarantine_size_kb=0",
    // What the host allocates is not what is looked for: who allocated it need not be known, nor what it holds.
    "malloc_context_size=0",
    "max_malloc_fill_size=0",
    // Tests ask for more memory than there is.
    "allocator_may_return_null=1",
];

pub struct StandIn {
    text: unsafe extern "C" fn(*const c_char, *mut u8, usize) -> usize,
    seed: unsafe extern "C" fn(u64),
}

impl StandIn {
    /// Makes the stand-in the HIP runtime of this process, with devices of these architectures, others where AddressSanitizer checks kernels, or machine code is run.
    ///
    /// # Safety
    /// The process has one thread.
    pub unsafe fn choose(devices: &str, sanitized: &str, machine_code: &str) -> Result<StandIn> {
        if let Ok(how) = std::env::var("HIPVERIFY_STANDIN_EXECUTE") {
            ensure!(
                ["source", "machine-code"].contains(&how.as_str()),
                "HIPVERIFY_STANDIN_EXECUTE={how} is neither source nor machine-code"
            );
        }
        let (path, standin) = (library()?, StandIn::open()?);
        standin.preload()?;
        let devices = match () {
            _ if StandIn::runs_machine_code() => machine_code,
            _ if standin.sanitized() => sanitized,
            _ => devices,
        };
        let settings = [
            ("HIPVERIFY_HIP_LIBRARY", path.as_os_str()),
            // What is compiled for the stand-in is of no use to other runs.
            ("HIPVERIFY_CACHE_DIR", "off".as_ref()),
            ("HIPVERIFY_STANDIN_DEVICES", devices.as_ref()),
            // A small grid, so that tensors of a size that takes little time are larger.
            ("HIPVERIFY_STANDIN_MULTIPROCESSORS", "2".as_ref()),
            ("HIPVERIFY_STANDIN_OCCUPANCY", "1".as_ref()),
            // Enough for every launch of the suite, while an endless one ends soon.
            ("HIPVERIFY_STANDIN_STEPS", "100000000".as_ref()),
        ];
        for (name, value) in settings.into_iter().filter(|(name, _)| std::env::var_os(name).is_none()) {
            // SAFETY: the caller promises that no other thread reads the environment.
            unsafe { std::env::set_var(name, value) };
        }
        Ok(standin)
    }

    /// Starts this program again with the library that the stand-in needs before all others, if that is missing.
    fn preload(&self) -> Result<()> {
        let library = self.text(c"preload");
        if library.is_empty() {
            return Ok(());
        }
        ensure!(std::env::var("LD_PRELOAD").ok().as_ref() != Some(&library), "{library} was not loaded, though LD_PRELOAD names it");
        let mut again = Command::new(std::env::current_exe()?);
        again.args(std::env::args_os().skip(1)).env("LD_PRELOAD", &library).env("ASAN_OPTIONS", ASAN_OPTIONS.join(":"));
        Err(again.exec()).with_context(|| format!("with LD_PRELOAD={library}"))
    }

    /// Whether AddressSanitizer checks kernels.
    pub fn sanitized(&self) -> bool {
        !self.text(c"sanitizer").is_empty()
    }

    /// Whether the machine code of images is run, not what the host's compiler makes of their source.
    pub fn runs_machine_code() -> bool {
        std::env::var("HIPVERIFY_STANDIN_EXECUTE").is_ok_and(|how| how == "machine-code")
    }

    /// The functions of the library.
    pub fn open() -> Result<StandIn> {
        // SAFETY: our own library, without initialisers. It is never closed: the process keeps it as its HIP runtime.
        let library: &'static Library = Box::leak(Box::new(unsafe { Library::new(library()?)? }));
        // SAFETY: the functions have these types in tests/standin/src.
        unsafe { Ok(StandIn { text: *library.get(b"standin_text\0")?, seed: *library.get(b"standin_seed\0")? }) }
    }

    /// Why it executes no kernels, if it does not.
    pub fn obstacle(&self) -> Option<String> {
        Some(self.text(c"executes")).filter(|reason| !reason.is_empty())
    }

    /// The kernels of `hip/`.
    pub fn kernels(&self) -> BTreeSet<String> {
        self.text(c"kernels").lines().filter_map(|line| line.split_whitespace().nth(1)).map(str::to_owned).collect()
    }

    /// How often each kernel was launched, by its name and the wavefront's size.
    pub fn launches(&self) -> BTreeMap<(String, usize), usize> {
        let line = |line: &str| {
            let mut words = line.split_whitespace();
            Some(((words.next()?.to_owned(), words.next()?.parse().ok()?), words.next()?.parse().ok()?))
        };
        self.text(c"launches").lines().filter_map(line).collect()
    }

    /// What was found in kernels so far, a line each.
    pub fn findings(&self) -> Vec<String> {
        self.text(c"findings").lines().map(str::to_owned).collect()
    }

    /// From now on launches that this thread waits for run by another schedule.
    pub fn seed(&self, seed: u64) {
        // SAFETY: the function takes any number.
        unsafe { (self.seed)(seed) };
    }

    fn text(&self, what: &CStr) -> String {
        let mut bytes = Vec::new();
        loop {
            // SAFETY: the name ends in a zero byte, and so many bytes may be written.
            let length = unsafe { (self.text)(what.as_ptr(), bytes.as_mut_ptr(), bytes.len()) };
            if length <= bytes.len() {
                bytes.truncate(length);
                return String::from_utf8_lossy(&bytes).into_owned();
            }
            bytes.resize(length, 0);
        }
    }
}
