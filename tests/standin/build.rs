//! Compiles the kernels of `hip/` for the stand-in GPU, so that tests need not wait for it. Without a C++ compiler nothing is compiled, and
//! the library says so when it is asked for a kernel. With `HIPVERIFY_STANDIN_KERNELS=later`, for builds that run nothing, each is compiled when it is first used.

#[path = "src/compile.rs"]
mod compile;
#[path = "src/transform.rs"]
mod transform;

use compile::{Checks, Compiler};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::{env, fs, io, thread};

/// Architectures for which the text of a kernel file may differ; "" are all others.
const ARCHS: [&str; 4] = ["", "gfx908", "gfx90a", "gfx942"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for changed in ["build.rs", "src/compile.rs", "src/transform.rs", "cpp", "../../hip"] {
        println!("cargo::rerun-if-changed={changed}");
    }
    println!("cargo::rerun-if-env-changed=CXX");
    println!("cargo::rerun-if-env-changed=HIPVERIFY_STANDIN_KERNELS");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let hip = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("../../hip");
    let (found, built) = match find() {
        Ok((program, version)) => {
            let compiler = Compiler::new(&program, &version, &out.join("kernels"), Checks::Executor)?;
            let later = env::var("HIPVERIFY_STANDIN_KERNELS").is_ok_and(|when| when == "later");
            let sources = if later { Vec::new() } else { read(&hip, "hip")? };
            (format!("Ok(({program:?}, {version:?}))"), compile_all(&compiler, &sources, &read(&hip, "h")?)?)
        }
        Err(reason) => (format!("Err({reason:?})"), String::new()),
    };
    let text = format!("const COMPILER: Result<(&str, &str), &str> = {found};\nconst BUILT: &[Built] = &[\n{built}];\n");
    fs::write(out.join("built.rs"), text)?;
    Ok(())
}

/// `$CXX`, else the first of g++ and clang++ that runs, and what it says it is.
fn find() -> Result<(String, String), String> {
    let asked = env::var("CXX").ok().filter(|name| !name.is_empty());
    let names: Vec<String> = asked.map_or_else(|| ["g++", "clang++"].map(str::to_owned).to_vec(), |name| vec![name]);
    let version = |name: &String| {
        let done = Command::new(name).arg("--version").output().ok().filter(|done| done.status.success())?;
        Some((name.clone(), String::from_utf8_lossy(&done.stdout).lines().next().unwrap_or_default().to_owned()))
    };
    names.iter().find_map(version).ok_or_else(|| format!("no C++ compiler: {} does not run", names.join(", ")))
}

/// Every file below `folder` with this extension: path below it, and text.
fn read(folder: &Path, extension: &str) -> io::Result<Vec<(String, String)>> {
    let (mut files, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(below) = folders.pop() {
        for entry in fs::read_dir(below)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == extension) {
                let name = path.strip_prefix(folder).map_err(io::Error::other)?.to_string_lossy().into_owned();
                files.push((name, fs::read_to_string(&path)?));
            }
        }
    }
    files.sort();
    Ok(files)
}

/// The rows of `BUILT`. A kernel that does not compile is reported when it is used, like any other.
fn compile_all(compiler: &Compiler, sources: &[(String, String)], headers: &[(String, String)]) -> io::Result<String> {
    fn borrow((name, text): &(String, String)) -> (&str, &str) {
        (name, text)
    }
    let headers: Vec<_> = headers.iter().map(borrow).collect();
    // One after the other for the architectures: where the text does not differ, the first has compiled it.
    let results = parallel(sources, |source| {
        ARCHS.map(|arch| {
            let cpp = compiler.cpp(borrow(source), &headers, arch, &[]);
            (arch, cpp.and_then(|cpp| Ok((compiler.library(&source.0, &cpp, &cpp.kernels)?, cpp.kernels))))
        })
    });
    let mut text = String::new();
    let named = sources.iter().zip(results).flat_map(|((file, _), results)| results.map(|(arch, result)| (file, arch, result)));
    for (file, arch, result) in named {
        match result {
            Ok((path, kernels)) => {
                writeln!(text, "    Built {{ arch: {arch:?}, file: {file:?}, library: {path:?}, kernels: &{kernels:?} }},")
                    .map_err(io::Error::other)?;
            }
            Err(log) => println!("cargo::warning={file} for the stand-in GPU: {}", log.lines().next().unwrap_or_default()),
        }
    }
    Ok(text)
}

/// `f` of every job, on as many threads as cargo allows.
fn parallel<T: Sync, R: Send>(jobs: &[T], f: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads = env::var("NUM_JOBS").ok().and_then(|n| n.parse().ok()).unwrap_or(1usize).clamp(1, jobs.len().max(1));
    let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = jobs.get(i) else { return };
                    let result = f(job);
                    results.lock().unwrap_or_else(PoisonError::into_inner).push((i, result));
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(i, _)| *i);
    results.into_iter().map(|(_, result)| result).collect()
}
