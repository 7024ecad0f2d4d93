//! Cases that did not end as expected, kept as files: a folder for each with its tensors, `case.json`, `report.txt` and `command.txt`.
//!
//! Invariants: a case's folder is there whole or not at all, since it is made beside its place and renamed; what a folder of such cases holds is of one suite
//! and of the same files of kernels, and of one run at a time; all tensors of it together have at most as many bytes as were allowed, whichever processes of the run
//! write into it at a time. Their sum stands in a file, since it costs more with each case to look at all of them; a process that ends at any point leaves it right or too
//! large, until the next run begins.

use super::cases::{Case, Suite};
use super::guard::Guard;
use super::record::CaseResult;
use super::results::held;
use super::tensor_files::{description, write_inputs, write_tensor};
use super::{case_text, cases};
use crate::error::{Error, Result};
use serde_json::json;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The file that says of which suite the cases of a folder are, and of which contents of the files that its kernels name.
const MARK: &str = "suite.json";

/// The file by which processes take [turns](Turn).
const LOCK: &str = ".lock";

/// The file that a run holds from its beginning to its end.
const RUN: &str = ".run";

/// Why a case has none.
const NO_TENSORS: &str = "There are no tensors: the case gave no result, or its process ended.";

/// The most characters of a folder's name; systems take 255 bytes.
const LONGEST: usize = 150;

/// Where cases that fail are kept. The run that [begins](Saving::begin) with a folder holds it until the last copy of this is dropped.
#[derive(Debug, Clone)]
pub struct Saving {
    folder: PathBuf,
    /// The most bytes of all tensors together.
    limit: u64,
    /// Nothing in a process that computes for a run.
    _run: Option<Arc<File>>,
}

impl PartialEq for Saving {
    fn eq(&self, other: &Saving) -> bool {
        (&self.folder, self.limit) == (&other.folder, other.limit)
    }
}

impl Eq for Saving {}

/// The tensors of a case that was computed.
#[derive(Debug)]
pub(crate) struct CaseTensors {
    pub(crate) inputs: Vec<(&'static str, Guard)>,
    pub(crate) result: Guard,
    pub(crate) reference: Guard,
}

impl Saving {
    /// Begins a run's folder, which is made where it does not exist. `resumed` says that an earlier part of the same run may have left cases there.
    ///
    /// # Errors
    /// [`Error::File`] when the folder cannot be made, holds something else, or is another run's now.
    pub fn begin(folder: &Path, limit: u64, suite: &Suite, resumed: bool) -> Result<Saving> {
        let fail = |e: io::Error| Error::File { path: folder.display().to_string(), reason: e.to_string() };
        fs::create_dir_all(folder).map_err(fail)?;
        let whole = folder.canonicalize().map_err(fail)?;
        let mark = json!({ "suite": suite.name, "fingerprint": suite.fingerprint, "code": suite.code() });
        if !whole.join(RUN).exists() {
            // Nothing is put into a folder of something else.
            expect_own(folder, &mark, resumed)?;
        }
        let run = OpenOptions::new().write(true).create(true).truncate(false).open(whole.join(RUN)).map_err(fail)?;
        held(folder, &run)?;
        expect_own(folder, &mark, resumed)?;
        fs::write(whole.join(MARK), format!("{mark:#}\n")).map_err(fail)?;
        Turn::take(&whole).and_then(|mut turn| turn.record(used(&whole)?)).map_err(fail)?;
        Ok(Saving { folder: whole, limit, _run: Some(Arc::new(run)) })
    }

    /// A folder that another process has begun.
    #[must_use]
    pub fn within(folder: &Path, limit: u64) -> Saving {
        Saving { folder: folder.to_owned(), limit, _run: None }
    }

    /// Keeps a case without tensors: its process is not there any more.
    ///
    /// # Errors
    /// [`Error::File`] when something cannot be written.
    pub fn save(&self, case: &Case, result: &CaseResult) -> Result<()> {
        self.put(case, result, &case_text::text(result, None, &result.command), Err(NO_TENSORS))
    }

    /// Keeps a case; `text` is what there is to say about it. A sentence about what could not be kept: where tensors find no place, texts may.
    pub(crate) fn keep(&self, case: &Case, result: &CaseResult, text: &str, tensors: Option<&CaseTensors>) -> Option<String> {
        let e = self.put(case, result, text, tensors.ok_or(NO_TENSORS)).err()?;
        let note = format!("Its tensors were not saved: {e}");
        match tensors.map(|_| self.put(case, result, text, Err(&note))) {
            Some(Ok(())) => Some(format!("its tensors were not saved: {e}")),
            Some(Err(_)) | None => Some(format!("its files were not saved: {e}")),
        }
    }

    /// Puts a case's files where they belong: with its tensors, or with a note why they are not there.
    fn put(&self, case: &Case, result: &CaseResult, text: &str, tensors: Result<&CaseTensors, &str>) -> Result<()> {
        let fail = |e: io::Error| Error::File { path: self.folder.display().to_string(), reason: e.to_string() };
        let mut turn = Turn::take(&self.folder).map_err(fail)?;
        let target = self.folder.join(folder_name(&case.name));
        if target.exists() {
            // Of a run that was ended before it had written the case's line.
            turn.used = turn.used.saturating_sub(bytes_of_tensors(&target).map_err(fail)?);
            fs::remove_dir_all(&target).map_err(fail)?;
        }
        let part = tempfile::Builder::new().prefix(PART).tempdir_in(&self.folder).map_err(fail)?;
        // The part's name is another one each time, and it is gone when somebody reads of it.
        let named = |e| match e {
            Error::File { path, reason } => {
                Error::File { path: Path::new(&path).file_name().map_or(path.clone(), |name| name.to_string_lossy().into_owned()), reason }
            }
            e => e,
        };
        self.fill(part.path(), case, result, text, (tensors, self.limit.saturating_sub(turn.used))).map_err(named)?;
        // Before the folder is there, so that no moment has more bytes than are recorded.
        bytes_of_tensors(part.path()).and_then(|bytes| turn.record(turn.used.saturating_add(bytes))).map_err(fail)?;
        fs::rename(part.keep(), target).map_err(fail)
    }

    /// Writes a case's files, its tensors where they have no more bytes than are left.
    fn fill(
        &self,
        folder: &Path,
        case: &Case,
        result: &CaseResult,
        text: &str,
        (tensors, left): (Result<&CaseTensors, &str>, u64),
    ) -> Result<()> {
        let put = |name: &str, text: String| {
            let path = folder.join(name);
            fs::write(&path, text).map_err(|e| Error::File { path: path.display().to_string(), reason: e.to_string() })
        };
        let mut more = json!({ "command": result.command, "outcome": result.outcome.word(), "reasons": result.reasons });
        let note = match tensors {
            Err(note) => note.to_owned(),
            Ok(tensors) if tensors.bytes() > left => format!(
                "Its tensors were not saved: they take {} bytes, and {left} of {} are left. --save-limit allows more.",
                tensors.bytes(),
                self.limit
            ),
            Ok(tensors) => {
                more["inputs"] = write_inputs(folder, &tensors.inputs)?.into();
                for (name, guard) in [("result", &tensors.result), ("reference", &tensors.reference)] {
                    let file = write_tensor(folder, name, guard)?;
                    more[name] = json!({ "file": file, "dtype": guard.dtype().name(), "shape": guard.shape() });
                }
                String::new()
            }
        };
        put("case.json", format!("{:#}\n", description(case, more)))?;
        put("command.txt", format!("{}\n", result.command))?;
        put("report.txt", format!("{text}{note}{}", if note.is_empty() { "" } else { "\n" }))
    }

    /// The folder, from the root, for another process that keeps cases [`within`](Saving::within) it.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The most bytes of all tensors together.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limit
    }
}

impl CaseTensors {
    fn bytes(&self) -> u64 {
        let guards = self.inputs.iter().map(|(_, guard)| guard).chain([&self.result, &self.reference]);
        let bytes = |guard: &Guard| guard.dtype().bytes_for(guard.shape().iter().product()).unwrap_or(usize::MAX) as u64;
        guards.map(bytes).fold(0, u64::saturating_add)
    }
}

/// A process's turn to write into a folder, until it is dropped. Where a file system has no locks, two processes may exceed the limit by a case each.
struct Turn {
    lock: File,
    /// The bytes of all tensors in folders of cases.
    used: u64,
}

impl Turn {
    /// Waits for it.
    fn take(folder: &Path) -> io::Result<Turn> {
        let mut lock = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(folder.join(LOCK))?;
        let _ = lock.lock();
        let mut text = Vec::new();
        lock.read_to_end(&mut text)?;
        let recorded = std::str::from_utf8(&text).ok().filter(|text| text.ends_with('\n')).and_then(|text| text.trim().parse().ok());
        Ok(Turn { lock, used: recorded.map_or_else(|| used(folder), Ok)? })
    }

    /// Has the next turn begin with so many bytes. In one call and always of one length, so that no number is half one and half another.
    fn record(&mut self, used: u64) -> io::Result<()> {
        self.used = used;
        self.lock.rewind()?;
        self.lock.write_all(format!("{used:>20}\n").as_bytes())
    }
}

/// Refuses a folder that holds anything else than cases of the run with this mark, an earlier part of which may have been there.
fn expect_own(folder: &Path, mark: &serde_json::Value, resumed: bool) -> Result<()> {
    let fail = |reason: String| Error::File { path: folder.display().to_string(), reason };
    let mut entries = fs::read_dir(folder).map_err(|e| fail(e.to_string()))?;
    // A run that kept no case has left nothing else.
    if entries.all(|entry| entry.is_ok_and(|entry| [MARK, LOCK, RUN].iter().any(|own| entry.file_name() == *own))) {
        return Ok(());
    }
    let text = fs::read(folder.join(MARK)).unwrap_or_default();
    let found: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
    if resumed && found == *mark {
        return Ok(());
    }
    Err(fail(format!("{}; name a new folder", not_mixed(&found, mark))))
}

/// Why failed cases are not put beside what a folder holds, whose mark is `found`.
fn not_mixed(found: &serde_json::Value, mark: &serde_json::Value) -> &'static str {
    if found == mark {
        return "holds failed cases of an earlier run; --resume goes on with them";
    }
    match (found["fingerprint"].as_str(), found["fingerprint"] == mark["fingerprint"]) {
        (Some(_), true) => "holds failed cases of other contents of the files that kernels name: a kernel was changed since",
        (Some(_), false) => "holds failed cases of another suite",
        (None, _) => "is not empty, and failed cases are not mixed with what is there",
    }
}

/// How names of folders begin that are not whole.
const PART: &str = ".part-";

/// The bytes of the tensor files in the folders of cases. What a process that was ended has left half made is no case.
fn used(folder: &Path) -> io::Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let part = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(PART.as_bytes()));
        if !part && path.is_dir() {
            sum += bytes_of_tensors(&path)?;
        }
    }
    Ok(sum)
}

/// The bytes of the tensor files in a folder.
fn bytes_of_tensors(folder: &Path) -> io::Result<u64> {
    let mut sum = 0;
    for file in fs::read_dir(folder)? {
        let file = file?;
        if file.path().extension().is_some_and(|e| e == "npy" || e == "safetensors") {
            sum += file.metadata()?.len();
        }
    }
    Ok(sum)
}

/// A case's name as the name of a folder. `/` becomes `+`; where more has to change, a hash of the name keeps two cases apart.
fn folder_name(case: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/_-=.,".contains(c);
    let name: String = case
        .chars()
        .map(|c| {
            if c == '/' {
                '+'
            } else if plain(c) {
                c
            } else {
                '_'
            }
        })
        .take(LONGEST)
        .collect();
    if case.chars().all(plain) && case.len() <= LONGEST && !case.starts_with('.') {
        return name;
    }
    format!("{}~{}", name.trim_start_matches('.'), cases::hash_of(case))
}

#[cfg(test)]
mod tests {
    use super::super::{file::SuiteFile, kernel::Kernels};
    use super::*;

    #[test]
    fn cases_of_two_builds_of_a_kernel_are_not_mixed() {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        put("s.toml", "[kernels.mine]\ncommand = ['k']\n[[gemm]]\nsize = '4x4x4'\nkernel = 'mine'\n");
        put("k", "one build");
        let suite = Suite::new(&SuiteFile::open(&folder.path().join("s.toml")).unwrap(), "s.toml", Kernels::default()).unwrap();
        let begin = |resumed| Saving::begin(&folder.path().join("kept"), 0, &suite, resumed);
        begin(false).unwrap();
        put("kept/case", "of that build");
        begin(true).unwrap();
        put("k", "another build");
        let words = "holds failed cases of other contents of the files that kernels name";
        assert!(begin(true).unwrap_err().to_string().contains(words));
        put("k", "one build");
        begin(true).unwrap();
        assert!(begin(false).unwrap_err().to_string().contains("--resume goes on with them"));
        put("kept/suite.json", r#"{"fingerprint": "0"}"#);
        assert!(begin(true).unwrap_err().to_string().contains("holds failed cases of another suite"));
        fs::remove_file(folder.path().join("kept/suite.json")).unwrap();
        assert!(begin(true).unwrap_err().to_string().contains("is not empty, and failed cases are not mixed"));
    }

    #[test]
    fn one_run_writes_to_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let suite = Suite::new(&SuiteFile::parse("s.toml", "[[gemm]]\nsize = '1x1x1'").unwrap(), "s.toml", Kernels::default()).unwrap();
        let begin = |resumed| Saving::begin(&folder.path().join("kept"), 0, &suite, resumed);
        let first = begin(false).unwrap();
        let copy = suite.clone().saving(first.clone());
        for resumed in [false, true] {
            assert!(begin(resumed).unwrap_err().to_string().ends_with("kept: another run writes to it"));
        }
        drop(first);
        assert!(begin(false).is_err(), "a copy is there");
        drop(copy);
        begin(false).unwrap();
        fs::write(folder.path().join("thesis.txt"), "").unwrap();
        Saving::begin(folder.path(), 0, &suite, false).unwrap_err();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "nothing is left in a folder of something else");
    }

    /// Inputs, result and reference have 16, 16, 4 and 8 bytes, and headers of 128.
    const WHOLE: u64 = 16 + 16 + 4 + 8 + 4 * 128;

    #[test]
    fn bytes_are_counted_as_cases_come() {
        let folder = tempfile::tempdir().unwrap();
        let text = "[[gemm]]\nsize = '1x1x4'\nseed = [1, 2, 3]\ntype = 'f32'\ndata = 'constant:0.1'\nrule = 'rtol=1e-30'";
        let suite = Suite::new(&SuiteFile::parse("s.toml", text).unwrap(), "s.toml", Kernels::default()).unwrap();
        let suite = suite.clone().saving(Saving::begin(folder.path(), 1 << 20, &suite, false).unwrap());
        let run = |case: usize| suite.execute(&suite.cases[case], &crate::device::Device::host());
        let recorded = || fs::read_to_string(folder.path().join(LOCK)).unwrap();
        assert_eq!(recorded(), format!("{:>20}\n", 0));
        for (case, expected, reason) in [(0, 1, "the first"), (1, 2, "another one"), (0, 2, "one that is there already")] {
            assert!(!run(case).ok);
            assert_eq!(recorded(), format!("{:>20}\n", expected * WHOLE), "{reason}");
            assert_eq!(used(folder.path()).unwrap(), expected * WHOLE, "{reason}");
        }
        // What is in other cases' folders is not looked at again, but where the number cannot be read.
        fs::write(folder.path().join("gemm+1/more.npy"), [0; 5]).unwrap();
        run(2);
        assert_eq!(recorded().trim(), (3 * WHOLE).to_string());
        fs::write(folder.path().join(LOCK), "12").unwrap();
        run(2);
        assert_eq!(recorded().trim(), (3 * WHOLE + 5).to_string());
    }

    /// Neither kind of file has tf32.
    #[test]
    fn texts_are_kept_where_tensors_cannot_be() {
        let folder = tempfile::tempdir().unwrap();
        let text = "[[gemm]]\nsize = '4x4x64'\ntype = 'tf32'\noutput = 'f32'\ndata = 'uniform:0.1,1'\nrule = 'rtol=1e-30'";
        let suite = Suite::new(&SuiteFile::parse("s.toml", text).unwrap(), "s.toml", Kernels::default()).unwrap();
        let suite = suite.clone().saving(Saving::begin(folder.path(), 1 << 20, &suite, false).unwrap());
        let reasons = suite.execute(&suite.cases[0], &crate::device::Device::host()).reasons;
        let said = reasons.iter().find_map(|reason| reason.strip_prefix("its tensors were not saved: ")).unwrap();
        let mut names: Vec<_> = fs::read_dir(folder.path().join("gemm")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["case.json", "command.txt", "report.txt"]);
        let report = fs::read_to_string(folder.path().join("gemm/report.txt")).unwrap();
        assert!(report.contains("elements differ") && report.ends_with(&format!("Its tensors were not saved: {said}\n")), "{report}");
        assert!(said.starts_with("a.safetensors: "), "{said}");
    }

    #[test]
    fn folders_that_are_not_whole_count_for_nothing() {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in [("case", 3), (".part-Ab1", 50)] {
            fs::create_dir(folder.path().join(name)).unwrap();
            fs::write(folder.path().join(name).join("a.npy"), vec![0; bytes]).unwrap();
        }
        assert_eq!(used(folder.path()).unwrap(), 3);
    }

    #[test]
    fn names_of_folders_are_plain_and_differ() {
        assert_eq!(folder_name("gemm/64x64x256/f16"), "gemm+64x64x256+f16");
        let long = "x".repeat(300);
        let names = ["a/b", "a+b", "a b", "a:b", "a_b", "../x", "..", long.as_str(), &long[1..]].map(folder_name);
        let mut different = names.to_vec();
        different.sort_unstable();
        different.dedup();
        assert_eq!(different.len(), names.len(), "{names:?}");
        for name in &names {
            assert!(name.len() < 200 && !name.starts_with('.') && !name.contains('/'), "{name}");
        }
    }
}
