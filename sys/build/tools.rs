//! Finds hipcc and nvcc.

use std::env;
use std::path::{Path, PathBuf};

/// Whether a missing compiler, or a kernel that does not compile, is an error.
pub(crate) fn required() -> bool {
    env::var_os("HIPVERIFY_HIPCC").is_some_and(|v| v == "require")
}

/// hipcc, or why there is none.
pub(crate) fn hipcc() -> Result<PathBuf, String> {
    // From ROCm 7.14 on: `core`, `core-10.0`.
    let cores = folders(Path::new("/opt/rocm"))
        .into_iter()
        .rev()
        .filter(|p| p.file_name().is_some_and(|n| n.to_string_lossy().starts_with("core")));
    let more: Vec<PathBuf> = [PathBuf::from("/opt/rocm")].into_iter().chain(cores).map(|p| p.join("bin")).collect();
    find("HIPVERIFY_HIPCC", "hipcc", &["HIP_PATH", "ROCM_PATH"], &more)
}

/// nvcc, or why there is none.
pub(crate) fn nvcc() -> Result<PathBuf, String> {
    let mut more = vec![PathBuf::from("/usr/local/cuda/bin")];
    println!("cargo::rerun-if-env-changed=VIRTUAL_ENV");
    if let Some(venv) = env::var_os("VIRTUAL_ENV") {
        // The PyPI wheels: lib/python3.N/site-packages/nvidia/cuNN/bin.
        for python in folders(&Path::new(&venv).join("lib")) {
            more.extend(folders(&python.join("site-packages/nvidia")).into_iter().map(|p| p.join("bin")));
        }
    }
    find("HIPVERIFY_NVCC", "nvcc", &["CUDA_PATH", "CUDA_HOME"], &more)
}

/// The entries of a list in an environment variable.
pub(crate) fn list(variable: &str) -> Vec<String> {
    let value = env::var(variable).unwrap_or_default();
    value.split([',', ';', ' ']).filter(|t| !t.is_empty()).map(str::to_owned).collect()
}

/// Finds a program; another one in its place is a reason to build again.
fn find(variable: &str, program: &str, roots: &[&str], more: &[PathBuf]) -> Result<PathBuf, String> {
    let found = search(variable, program, roots, more)?;
    // The file itself: cargo looks at the dates of a link, not of what it points to.
    println!("cargo::rerun-if-changed={}", std::fs::canonicalize(&found).unwrap_or_else(|_| found.clone()).display());
    Ok(found)
}

fn search(variable: &str, program: &str, roots: &[&str], more: &[PathBuf]) -> Result<PathBuf, String> {
    for name in roots.iter().chain([&variable, &"PATH"]) {
        println!("cargo::rerun-if-env-changed={name}");
    }
    match env::var(variable).unwrap_or_default().as_str() {
        "" | "require" => {}
        "off" => return Err(format!("{variable}=off")),
        path if Path::new(path).is_file() => return Ok(path.into()),
        path => {
            let reason = format!("{variable}={path}: no such file");
            println!("cargo::warning={reason}");
            return Err(reason);
        }
    }
    let roots = roots.iter().filter_map(env::var_os).map(|r| Path::new(&r).join("bin"));
    let path = env::var_os("PATH").unwrap_or_default();
    let mut all = roots.chain(env::split_paths(&path)).chain(more.iter().cloned());
    all.find_map(|folder| Some(folder.join(program)).filter(|p| p.is_file())).ok_or_else(|| format!("no {program} found"))
}

fn folders(parent: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = std::fs::read_dir(parent).into_iter().flatten().flatten().map(|e| e.path()).collect();
    all.sort();
    all
}
