//! From the text of a kernel file to a shared library: preprocess, [transform](crate::transform), compile with instrumentation and link with
//! `cpp/glue.cpp`, which answers it. The build script compiles all kernels of `hip/` ahead of time by this very code; what it has compiled is
//! found again by the hash of the preprocessed text.

use crate::transform::{Transformed, transform};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::{fs, io};

const RUNTIME_HEADER: &str = include_str!("../cpp/hip/hip_runtime.h");
const GLUE: &str = include_str!("../cpp/glue.cpp");

/// A file of device code: name and text.
pub(crate) type Source<'a> = (&'a str, &'a str);

/// The instrumentation of kernels: who checks what they do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Checks {
    /// The executor: every access to memory but those to the stack, and undefined behaviour.
    Executor,
    /// AddressSanitizer's runtime: every access to memory, those to the stack too.
    #[allow(dead_code, reason = "the build script compiles for the executor")]
    AddressSanitizer,
}

/// The host's C++ compiler.
pub(crate) struct Compiler {
    program: String,
    version: String,
    /// Where libraries are kept.
    folder: PathBuf,
    checks: Checks,
}

impl Compiler {
    /// The compiler of this name, and what it says it is. Libraries are kept in `folder`.
    pub(crate) fn new(program: &str, version: &str, folder: &Path, checks: Checks) -> Result<Compiler, String> {
        fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        Ok(Compiler { program: program.to_owned(), version: version.to_owned(), folder: folder.to_owned(), checks })
    }

    /// The C++ of `source` for `arch` (`gfx90a`) with these options of the preprocessor. The error is the preprocessor's log.
    pub(crate) fn cpp(&self, source: Source<'_>, headers: &[Source<'_>], arch: &str, options: &[&str]) -> Result<Transformed, String> {
        transform(&self.preprocess(source, headers, arch, options)?)
    }

    /// What is wrong with the text of a file of kernels, as far as it can be told without instances of its templates, which take a compiler most of its time.
    #[allow(dead_code, reason = "the build script compiles all kernels")]
    pub(crate) fn check(&self, cpp: &Transformed) -> Result<(), String> {
        let mut command = Command::new(&self.program);
        command.args(self.flags()).args(["-x", "c++", "-fsyntax-only", "-"]);
        run(command, &cpp.with_table(&cpp.kernels)).map(|_| ())
    }

    /// Compiles these kernels of the file of this name, unless they were before: the library's path. The error is the compiler's log.
    pub(crate) fn library(&self, name: &str, cpp: &Transformed, kernels: &[String]) -> Result<PathBuf, String> {
        let text = cpp.with_table(kernels);
        let path = self.path(name, &text);
        once(&path, || self.build(&text, &path))?;
        Ok(path)
    }

    /// Whether all kernels of a file were compiled before.
    #[allow(dead_code, reason = "the build script compiles all kernels")]
    pub(crate) fn has_all(&self, name: &str, cpp: &Transformed) -> bool {
        self.path(name, &cpp.with_table(&cpp.kernels)).exists()
    }

    fn path(&self, name: &str, text: &str) -> PathBuf {
        let key = hash([text, GLUE, self.version.as_str(), &self.flags().join(" ")]);
        let stem = name.split('.').next().unwrap_or_default().replace(|c: char| !c.is_ascii_alphanumeric(), "_");
        self.folder.join(format!("{stem}-{key:016x}.so"))
    }

    /// With HIP declared, as by hipRTC. In the folder of the headers, so that places in the text have short names and the text does not depend on where it was built.
    fn preprocess(&self, (name, text): Source<'_>, headers: &[Source<'_>], arch: &str, options: &[&str]) -> Result<String, String> {
        let folder = self.header_folder(headers).map_err(|e| format!("the headers of {name}: {e}"))?;
        let mut command = Command::new(&self.program);
        command.args(["-x", "c++", "-std=c++17", "-E", "-w", "-I.", "-include", "hip/hip_runtime.h", "-"]).current_dir(folder);
        let arch = arch.split(':').next().unwrap_or_default();
        if !arch.is_empty() && arch.chars().all(|c| c.is_ascii_alphanumeric()) {
            command.arg(format!("-D__{arch}__=1"));
        }
        if self.checks == Checks::AddressSanitizer {
            // It defines a macro.
            command.arg("-fsanitize=address");
        }
        command.args(options);
        run(command, &format!("#line 1 \"{name}\"\n{text}\n"))
    }

    fn header_folder(&self, headers: &[Source<'_>]) -> io::Result<PathBuf> {
        let ours = ("hip/hip_runtime.h", RUNTIME_HEADER);
        let all: Vec<Source<'_>> = headers.iter().copied().filter(|(name, _)| *name != ours.0).chain([ours]).collect();
        let key = hash(all.iter().flat_map(|(name, text)| [*name, *text]));
        let folder = self.folder.join(format!("headers-{key:016x}"));
        if folder.is_dir() {
            return Ok(folder);
        }
        let part = self.part("headers");
        for (name, text) in all {
            let path = part.join(name);
            fs::create_dir_all(path.parent().unwrap_or(&part))?;
            fs::write(path, text)?;
        }
        // Another process may have been faster.
        fs::rename(&part, &folder).or_else(|e| if folder.is_dir() { fs::remove_dir_all(&part) } else { Err(e) })?;
        Ok(folder)
    }

    fn build(&self, text: &str, path: &Path) -> Result<(), String> {
        let (object, library, glue) = (self.part("kernels.o"), self.part("so"), self.glue()?);
        let mut compile = Command::new(&self.program);
        compile.args(self.flags()).args(["-x", "c++", "-c", "-o"]).arg(&object).arg("-");
        let mut link = Command::new(&self.program);
        link.args(["-shared", "-Wl,-Bsymbolic", "-o"]).arg(&library).arg(&object).arg(&glue);
        let linked = run(compile, text).and_then(|_| run(link, ""));
        // What is left of a failure is of no use.
        let _ = fs::remove_file(&object);
        linked.and_then(|_| fs::rename(&library, path).map_err(|e| format!("{}: {e}", path.display())))
    }

    /// The object file of the glue.
    fn glue(&self) -> Result<PathBuf, String> {
        let path = self.folder.join(format!("glue-{:016x}.o", hash([GLUE, self.version.as_str()])));
        if !path.exists() {
            let part = self.part("glue.o");
            let mut command = Command::new(&self.program);
            command.args(["-std=c++17", "-O2", "-fPIC", "-fno-omit-frame-pointer", "-x", "c++", "-c", "-o"]).arg(&part).arg("-");
            run(command, GLUE)?;
            fs::rename(&part, &path).map_err(|e| format!("{}: {e}", path.display()))?;
        }
        Ok(path)
    }

    fn flags(&self) -> Vec<String> {
        let checks: &[&str] = match self.checks {
            // Null is an address like others to the executor, and kernels have no virtual functions.
            Checks::Executor => &[
                "-fsanitize=thread,undefined,float-cast-overflow",
                "-fno-sanitize=null,vptr",
                "-fno-sanitize-recover=undefined,float-cast-overflow",
            ],
            // The executor stops the kernel.
            Checks::AddressSanitizer => &["-fsanitize=address", "-fsanitize-recover=address"],
        };
        // Frame pointers and no sibling calls: operations of lanes are told apart by the calls that lead there.
        let frames = ["-fno-omit-frame-pointer", "-fno-optimize-sibling-calls", "-fno-thread-jumps"];
        // addr2line of binutils 2.40 takes files of DWARF 5 for others.
        let all = [
            "-std=c++17",
            "-O1",
            "-g1",
            "-gdwarf-4",
            "-w",
            "-fPIC",
            "-ffp-contract=off",
            "-fno-exceptions",
            "-ftrivial-auto-var-init=pattern",
        ];
        all.iter().chain(&frames).chain(&["-fsanitize-coverage=trace-pc"]).chain(checks).map(|flag| (*flag).to_owned()).collect()
    }

    /// A name that nobody else uses.
    fn part(&self, what: &str) -> PathBuf {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        self.folder.join(format!("part-{}-{}.{what}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)))
    }
}

/// Makes the file of this path, unless it exists. Where another thread is making it, waits for that one.
fn once(path: &Path, make: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    static UNDER_WAY: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    static DONE: Condvar = Condvar::new();
    let lock = || UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner);
    let mut under_way = DONE.wait_while(lock(), |paths| paths.contains(path)).unwrap_or_else(PoisonError::into_inner);
    if path.exists() {
        return Ok(());
    }
    under_way.insert(path.to_owned());
    drop(under_way);
    let made = make();
    lock().remove(path);
    DONE.notify_all();
    made
}

/// Runs a command on `input`. The error is what it says.
fn run(mut command: Command, input: &str) -> Result<String, String> {
    // The sanitizer is for this process alone.
    command.env_remove("LD_PRELOAD");
    let name = command.get_program().to_string_lossy().into_owned();
    let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = spawned.map_err(|e| format!("{name}: {e}"))?;
    let stdin = child.stdin.take();
    let done = std::thread::scope(|scope| {
        // A compiler that fails early does not read to the end.
        scope.spawn(move || stdin.map(|mut stdin| io::Write::write_all(&mut stdin, input.as_bytes())));
        child.wait_with_output()
    });
    let done = done.map_err(|e| format!("{name}: {e}"))?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
    }
    let log = String::from_utf8_lossy(&done.stderr).into_owned();
    Err(if log.trim().is_empty() { format!("{name}: {}", done.status) } else { log })
}

/// FNV-1a of texts with their lengths.
fn hash<'a>(texts: impl IntoIterator<Item = &'a str>) -> u64 {
    let step = |h: u64, byte: u8| (h ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    texts.into_iter().fold(0xcbf2_9ce4_8422_2325, |h, text| {
        let h = text.len().to_le_bytes().into_iter().fold(h, step);
        text.bytes().fold(h, step)
    })
}
