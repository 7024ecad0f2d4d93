//! Embeds the device code of `hip/`, compiled ahead of time where a compiler is found.
//!
//! Nothing here fails a build: without hipcc the list of images is empty and hipRTC compiles at run time. Only
//! `HIPVERIFY_HIPCC=require` turns a missing compiler, or a kernel that does not compile, into an error.
//!
//! | variable | meaning |
//! |---|---|
//! | `HIPVERIFY_HIPCC` | a path, `off`, or `require` |
//! | `HIP_PATH`, `ROCM_PATH` | where `bin/hipcc` is looked for before `PATH` and `/opt/rocm` |
//! | `HIPVERIFY_OFFLOAD_ARCH` | AMD targets (`gfx90a`, `gfx90a:xnack-`), separated by commas, instead of the default ones, which are fewer in a debug build |
//! | `HIPVERIFY_NVCC`, `CUDA_PATH`, `CUDA_HOME` | the same for nvcc, with feature `nvidia` |
//! | `HIPVERIFY_CUDA_ARCH` | NVIDIA targets from 80 on, separated by commas; 90 by default |

#[path = "build/compile.rs"]
mod compile;
#[path = "build/shim.rs"]
mod shim;
#[path = "build/targets.rs"]
mod targets;
#[path = "build/tools.rs"]
mod tools;

use compile::{Image, Kernels};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

/// Compiled for even where nobody has tried whether the compiler knows them.
const TARGETS: [&str; 2] = ["gfx908", "gfx90a"];
/// Compiled for by builds with optimisation, where the compiler and its device library know them: a debug build should not take minutes.
const MORE_TARGETS: [&str; 5] = ["gfx942", "gfx950", "gfx1030", "gfx1100", "gfx1200"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rustc-check-cfg=cfg(hipverify_shim)");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-env-changed=DOCS_RS");
    let manifest = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let kernels = Kernels::read(&kernel_folder(&manifest), &manifest.join("shim/mini"))?;
    let docs = env::var_os("DOCS_RS").is_some();

    let mut images = Vec::new();
    let (mut hipcc, mut no_shim) = (String::new(), "it was not built with the feature `nvidia`".to_owned());
    if docs {
        hipcc.push_str("not looked for: DOCS_RS is set");
    } else {
        match amd(&kernels, &out) {
            Ok((compiler, compiled)) => {
                hipcc = compiler;
                images.extend(compiled);
            }
            Err(reason) if tools::required() => {
                println!("cargo::error=HIPVERIFY_HIPCC=require: {reason}");
                return Ok(());
            }
            Err(reason) => hipcc.push_str(&reason),
        }
        if env::var_os("CARGO_FEATURE_NVIDIA").is_some() {
            match nvidia(&kernels, &manifest, &out) {
                Ok(compiled) => {
                    images.extend(compiled);
                    no_shim.clear();
                }
                Err(reason) => {
                    println!("cargo::warning=feature `nvidia`: {reason}");
                    no_shim = reason;
                }
            }
        }
    }
    fs::write(out.join("kernels.rs"), generate(&kernels, &images, &no_shim)?)?;

    let targets = |prefix: &str| {
        let all: BTreeSet<&str> = images.iter().flat_map(|i| &i.archs).map(String::as_str).filter(|a| a.starts_with(prefix)).collect();
        Vec::from_iter(all).join(" ")
    };
    println!("cargo::metadata=hipcc={hipcc}");
    println!("cargo::metadata=targets={}", targets("gfx"));
    println!("cargo::metadata=cuda_targets={}", targets("sm_"));
    println!("cargo::metadata=kernels={}", kernels.sources.iter().map(|s| s.name.as_str()).collect::<Vec<_>>().join(" "));
    Ok(())
}

/// `hip/`, a link to `../hip` in the repository and a folder in the package. A checkout without symbolic links has a text
/// file of that name instead.
fn kernel_folder(manifest: &Path) -> PathBuf {
    let own = manifest.join("hip");
    if own.is_dir() { own } else { manifest.join("../hip") }
}

/// Compiles for AMD: a line that names the compiler, and the images.
fn amd(kernels: &Kernels, out: &Path) -> Result<(String, Vec<Image>), String> {
    println!("cargo::rerun-if-env-changed=HIPVERIFY_OFFLOAD_ARCH");
    let hipcc = tools::hipcc()?;
    let compiler = compile::Compiler::hipcc(&hipcc, &out.join("amd")).map_err(|e| e.to_string())?;
    let (asked, others) = targets::split(tools::list("HIPVERIFY_OFFLOAD_ARCH"));
    if !others.is_empty() {
        let reason = format!("HIPVERIFY_OFFLOAD_ARCH: no GPU is called {}, but gfx90a or gfx90a:xnack-", others.join(" or "));
        println!("cargo::warning={reason}");
        if asked.is_empty() || tools::required() {
            return Err(reason);
        }
    }
    let optimised = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let optional = if asked.is_empty() && optimised { MORE_TARGETS.map(str::to_owned).to_vec() } else { Vec::new() };
    let mut targets = if asked.is_empty() { TARGETS.map(str::to_owned).to_vec() } else { asked };
    targets.extend(compiler.known(optional));
    let images = finish(compiler.compile(kernels, &targets))?;
    Ok((compiler.version.clone(), images))
}

/// Builds the shim and compiles for NVIDIA.
fn nvidia(kernels: &Kernels, manifest: &Path, out: &Path) -> Result<Vec<Image>, String> {
    println!("cargo::rerun-if-env-changed=HIPVERIFY_CUDA_ARCH");
    let nvcc = tools::nvcc()?;
    let compiler = compile::Compiler::nvcc(&nvcc, &manifest.join("shim/mini"), &out.join("nvidia")).map_err(|e| e.to_string())?;
    let asked = tools::list("HIPVERIFY_CUDA_ARCH");
    let targets = if asked.is_empty() { vec!["90".to_owned()] } else { asked };
    if let Some(old) = targets.iter().find(|target| compile::is_before_cuda_80(target)) {
        return Err(format!("HIPVERIFY_CUDA_ARCH: {old}: the comparison copies to shared memory as GPUs from 80 on do"));
    }
    let images = finish(compiler.compile(kernels, &[targets.join(",")]))?;
    shim::build(&nvcc, manifest)?;
    Ok(images)
}

/// Drops each target for which a kernel did not compile, and says so; without any image left that is an error.
fn finish(results: Vec<(Image, Result<(), String>)>) -> Result<Vec<Image>, String> {
    let mut failed: Vec<(Vec<String>, String)> = Vec::new();
    let (mut images, some) = (Vec::new(), !results.is_empty());
    for (image, result) in results {
        match result {
            Ok(()) => images.push(image),
            Err(log) => failed.push((image.archs.clone(), format!("{} for {}: {log}", image.file, image.archs.join(" ")))),
        }
    }
    for (_, reason) in &failed {
        println!("cargo::warning=not compiled ahead of time: {reason}");
    }
    images.retain(|i| !failed.iter().any(|(archs, _)| *archs == i.archs));
    match failed.first() {
        Some((_, reason)) if some && (images.is_empty() || tools::required()) => Err(reason.clone()),
        _ => Ok(images),
    }
}

/// The text of `kernels.rs`.
fn generate(kernels: &Kernels, images: &[Image], no_shim: &str) -> io::Result<String> {
    let mut text = String::new();
    let mut put = |line: std::fmt::Arguments<'_>| writeln!(text, "{line}").map_err(io::Error::other);
    put(format_args!("/// Images compiled ahead of time.\npub static IMAGES: &[Image] = &["))?;
    for i in images {
        let platform = if i.archs.iter().any(|a| a.starts_with("gfx")) { "Amd" } else { "Nvidia" };
        let bytes = format!("&{{ static P: Page<[u8; {}]> = Page(*include_bytes!({:?})); &P }}.0", fs::metadata(&i.path)?.len(), i.path);
        put(format_args!("    Image {{ file: {:?}, platform: Platform::{platform}, archs: &{:?}, bytes: {bytes} }},", i.file, i.archs))?;
    }
    put(format_args!("];"))?;
    for (doc, name, files) in
        [("The kernel files.", "SOURCES", &kernels.sources), ("The headers that the kernel files include.", "HEADERS", &kernels.headers)]
    {
        put(format_args!("/// {doc}\npub static {name}: &[Source] = &["))?;
        for f in files {
            put(format_args!("    Source {{ name: {:?}, text: include_str!({:?}) }},", f.name, f.path))?;
        }
        put(format_args!("];"))?;
    }
    put(format_args!(
        "/// Why this build has no CUDA shim; empty when it has.\n#[allow(dead_code)]\npub(crate) const NO_SHIM: &str = {no_shim:?};"
    ))?;
    Ok(text)
}
