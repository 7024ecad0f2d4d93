//! The stand-in GPU's library, and what it tells beside the functions of HIP.

use anyhow::{Context, Result, ensure};
use libloading::Library;
use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::path::PathBuf;

/// The library that cargo built beside this program.
fn library() -> Result<PathBuf> {
    let program = std::env::current_exe()?;
    let path = program.parent().context("a program without a folder")?.join(format!("{DLL_PREFIX}hipverify_standin{DLL_SUFFIX}"));
    ensure!(path.exists(), "{} is missing", path.display());
    Ok(path)
}

pub struct StandIn(Library);

impl StandIn {
    /// Makes the stand-in the HIP runtime of this process, with devices of these architectures.
    ///
    /// # Safety
    /// The process has one thread.
    pub unsafe fn choose(devices: &str) -> Result<StandIn> {
        let path = library()?;
        // What is compiled for the stand-in is of no use to other runs.
        for (name, value) in [("HIPVERIFY_HIP_LIBRARY", path.as_os_str()), ("HIPVERIFY_CACHE_DIR", "off".as_ref())] {
            // SAFETY: the caller promises that no other thread reads the environment.
            unsafe { std::env::set_var(name, value) };
        }
        // SAFETY: the caller promises that no other thread reads the environment.
        unsafe { std::env::set_var("HIPVERIFY_STANDIN_DEVICES", devices) };
        // SAFETY: our own library, without initialisers.
        Ok(StandIn(unsafe { Library::new(path)? }))
    }

    /// Why it executes no kernels, if it does not.
    pub fn why_not(&self) -> Option<String> {
        // SAFETY: the symbol is looked up and not used.
        let executes = unsafe { self.0.get::<unsafe extern "C" fn()>(b"standin_executes\0") };
        executes.is_err().then(|| "the stand-in GPU executes no kernels".to_owned())
    }
}
