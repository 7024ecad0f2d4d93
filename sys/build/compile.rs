//! Compiles kernel files, several at a time, and keeps what has not changed.
//!
//! An image's file name holds a hash of everything that it depends on (sources, headers, flags, the compiler's version), so
//! that a touched kernel costs its own compilation and no other.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs, thread};

/// A file of device code.
pub(crate) struct File {
    /// Its path below the folder: `verify/f64.hip`.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    text: String,
}

/// Everything in `hip/` and the folders in it, sorted by name.
pub(crate) struct Kernels {
    /// Where headers are looked for.
    folder: PathBuf,
    pub(crate) sources: Vec<File>,
    pub(crate) headers: Vec<File>,
    /// Hash of all headers, those of the shim included.
    headers_hash: u64,
}

impl Kernels {
    pub(crate) fn read(folder: &Path, mini: &Path) -> io::Result<Kernels> {
        // The real folder: cargo looks at the dates of a link, not of what it points to.
        println!("cargo::rerun-if-changed={}", fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned()).display());
        println!("cargo::rerun-if-changed={}", mini.display());
        let (sources, headers) = (files(folder, "hip")?, files(folder, "h")?);
        let texts = headers.iter().chain(&files(&mini.join("hip"), "h")?).map(|f| f.text.clone()).collect::<Vec<_>>();
        Ok(Kernels { folder: folder.to_owned(), sources, headers, headers_hash: hash(texts.iter().map(String::as_str)) })
    }
}

fn files(folder: &Path, extension: &str) -> io::Result<Vec<File>> {
    let (mut all, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(below) = folders.pop() {
        for entry in fs::read_dir(below).into_iter().flatten() {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == extension) {
                let name = path.strip_prefix(folder).map_err(io::Error::other)?.to_string_lossy().replace('\\', "/");
                let path = fs::canonicalize(&path)?;
                all.push(File { name, text: fs::read_to_string(&path)?, path });
            }
        }
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(all)
}

/// A compiled kernel file.
pub(crate) struct Image {
    pub(crate) file: String,
    pub(crate) archs: Vec<String>,
    pub(crate) path: PathBuf,
}

/// Device code is compiled by one of these.
enum Kind {
    Hipcc,
    /// With the folder of the header that stands for HIP's.
    Nvcc(PathBuf),
}

pub(crate) struct Compiler {
    kind: Kind,
    program: PathBuf,
    folder: PathBuf,
    pub(crate) version: String,
}

impl Compiler {
    pub(crate) fn hipcc(program: &Path, folder: &Path) -> io::Result<Compiler> {
        let words = version(program)?;
        let field = |name: &str| words.lines().find_map(|l| Some(l.split_once(name)?.1.split_whitespace().next()?.to_owned()));
        let (hip, clang) = (field("HIP version: ").unwrap_or_default(), field("clang version ").unwrap_or_default());
        Compiler::new(Kind::Hipcc, program, folder, format!("hipcc {hip}, clang {clang}"))
    }

    pub(crate) fn nvcc(program: &Path, mini: &Path, folder: &Path) -> io::Result<Compiler> {
        let words = version(program)?;
        let release = words.lines().find(|l| l.contains("release")).unwrap_or(&words).trim().to_owned();
        Compiler::new(Kind::Nvcc(mini.to_owned()), program, folder, release)
    }

    fn new(kind: Kind, program: &Path, folder: &Path, version: String) -> io::Result<Compiler> {
        fs::create_dir_all(folder)?;
        Ok(Compiler { kind, program: program.to_owned(), folder: folder.to_owned(), version })
    }

    /// Those of `targets` that the compiler and its device library know: found by compiling an empty kernel, once. A failure is tried again by the
    /// next build: it may be another one, as a full disk, or a device library that is installed later.
    pub(crate) fn known(&self, targets: Vec<String>) -> Vec<String> {
        let text = "#include <hip/hip_runtime.h>\nextern \"C\" __global__ void probe(int *x) { *x = 1; }\n";
        let path = self.folder.join("probe.hip");
        if fs::write(&path, text).is_err() {
            return Vec::new();
        }
        let key = hash([self.version.as_str(), &self.program.to_string_lossy()]);
        let knows = |target: &String| {
            let answer = self.folder.join(format!("probe-{target}-{key:016x}"));
            if fs::read_to_string(&answer).is_ok_and(|known| known == "yes") {
                return true;
            }
            let known = self.run(&path, &self.folder, target, &self.folder.join(format!("probe-{target}.out"))).is_ok();
            if known {
                // A marker that cannot be written is probed again by the next build.
                let _ = fs::write(&answer, "yes");
            }
            known
        };
        let answers = parallel(&targets, knows);
        targets.into_iter().zip(answers).filter_map(|(target, known)| known.then_some(target)).collect()
    }

    /// Compiles every kernel file for every target.
    pub(crate) fn compile(&self, kernels: &Kernels, targets: &[String]) -> Vec<(Image, Result<(), String>)> {
        let jobs: Vec<(&File, &String)> = kernels.sources.iter().flat_map(|s| targets.iter().map(move |t| (s, t))).collect();
        let results = parallel(&jobs, |&(source, target)| {
            let flags = self.flags(target).join(" ");
            let key = hash([source.text.as_str(), &self.version, &flags]) ^ kernels.headers_hash.rotate_left(1);
            let stem = source.name.trim_end_matches(".hip").replace('/', "-");
            let path = self.folder.join(format!("{stem}-{}-{key:016x}.image", target.replace(',', "-")));
            let result = if path.exists() { Ok(()) } else { self.run(&source.path, &kernels.folder, target, &path) };
            let archs = match self.kind {
                Kind::Hipcc => vec![target.clone()],
                Kind::Nvcc(_) => cuda_archs(target).iter().flat_map(|a| [format!("sm_{a}"), format!("compute_{a}")]).collect(),
            };
            (Image { file: source.name.clone(), archs, path }, result)
        });
        self.forget_all_but(&results);
        results
    }

    fn flags(&self, target: &str) -> Vec<String> {
        match &self.kind {
            Kind::Hipcc => ["--genco", "-std=c++17", "-O2", "-ffp-contract=off"]
                .map(str::to_owned)
                .into_iter()
                .chain([format!("--offload-arch={target}")])
                .collect(),
            Kind::Nvcc(mini) => {
                let mut flags = ["-x", "cu", "-std=c++17", "-O3", "-fmad=false", "-fatbin", "-I"].map(str::to_owned).to_vec();
                flags.push(mini.display().to_string());
                for arch in cuda_archs(target) {
                    flags.extend(["-gencode".to_owned(), format!("arch=compute_{arch},code=[sm_{arch},compute_{arch}]")]);
                }
                flags
            }
        }
    }

    /// Compiles one file, with the headers in `include`. The result appears under its name only when it is complete.
    fn run(&self, source: &Path, include: &Path, target: &str, output: &Path) -> Result<(), String> {
        let part = output.with_extension("part");
        let mut command = Command::new(&self.program);
        command.args(self.flags(target)).arg("-I").arg(include).arg("-o").arg(&part).arg(source);
        if matches!(self.kind, Kind::Hipcc) {
            // hipcc leaves a folder with each image that it makes, in the folder for temporary files.
            let temporary = output.with_extension("tmp");
            let _ = fs::create_dir(&temporary);
            command.env("HIP_PLATFORM", "amd").env("TMPDIR", &temporary);
        }
        let done = command.output().map_err(|e| format!("{}: {e}", self.program.display()))?;
        let _ = fs::remove_dir_all(output.with_extension("tmp"));
        let log = String::from_utf8_lossy(&done.stderr).into_owned() + &String::from_utf8_lossy(&done.stdout);
        let kept = output.with_extension("log");
        // The log is a convenience: the first error is in the warning anyway.
        let _ = fs::write(&kept, &log);
        if !done.status.success() || !part.exists() {
            let first = log.lines().find(|l| l.contains("error")).or_else(|| log.lines().next()).unwrap_or("no output");
            return Err(format!("{first} (all in {})", kept.display()));
        }
        fs::rename(&part, output).map_err(|e| format!("{}: {e}", output.display()))
    }

    /// Removes images of earlier sources.
    fn forget_all_but(&self, keep: &[(Image, Result<(), String>)]) {
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|e| e == "image") && !keep.iter().any(|(i, _)| i.path == path) {
                // Another build may have removed it first.
                let _ = fs::remove_file(&path);
            }
        }
    }
}

/// Whether a target of CUDA, `75` or `sm_75`, has no `cp.async`.
pub(crate) fn is_before_cuda_80(target: &str) -> bool {
    let digits: String = target.trim_start_matches("sm_").trim_start_matches("compute_").chars().take_while(char::is_ascii_digit).collect();
    digits.parse().is_ok_and(|number: u32| number < 80)
}

fn cuda_archs(target: &str) -> Vec<&str> {
    target.split(',').map(|t| t.trim_start_matches("sm_").trim_start_matches("compute_")).collect()
}

fn version(program: &Path) -> io::Result<String> {
    // hipcc would ask nvcc for its version where CUDA_PATH is set.
    let output = Command::new(program).arg("--version").env("HIP_PLATFORM", "amd").output()?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs `f` on every item with as many threads as cargo allows; results in order.
fn parallel<T: Sync, R: Send>(items: &[T], f: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads = env::var("NUM_JOBS").ok().and_then(|n| n.parse().ok()).unwrap_or(1).clamp(1, items.len().max(1));
    let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let next_item = || {
        let i = next.fetch_add(1, Ordering::Relaxed);
        (i, items.get(i))
    };
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let (i, Some(item)) = next_item() {
                    let result = f(item);
                    results.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((i, result));
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    results.sort_by_key(|r| r.0);
    results.into_iter().map(|r| r.1).collect()
}

/// FNV-1a: stable between builds, which std's hasher does not promise.
fn hash<'a>(texts: impl IntoIterator<Item = &'a str>) -> u64 {
    let bytes = texts.into_iter().flat_map(|t| t.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3))
}
