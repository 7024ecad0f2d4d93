//! Cases that did not end as expected, kept as files: a folder for each with its tensors, `case.json`, `report.txt` and `command.txt`.
//!
//! Invariants: a case's folder is there whole or not at all, since it is made beside its place and renamed; what a folder of such cases holds is of one suite
//! and of the same files of kernels; all tensors of it together have at most as many bytes as were allowed, whichever processes write into it at a time.

use super::cases::{Case, Suite};
use super::guard::Guard;
use super::record::CaseResult;
use super::tensor_files::{description, write_inputs, write_tensor};
use super::{case_text, cases};
use crate::error::{Error, Result};
use serde_json::json;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// The file that says of which suite the cases of a folder are, and of which contents of the files that its kernels name.
const MARK: &str = "suite.json";

/// The file by which processes take turns.
const LOCK: &str = ".lock";

/// The most characters of a folder's name; systems take 255 bytes.
const LONGEST: usize = 150;

/// Where cases that fail are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saving {
    folder: PathBuf,
    /// The most bytes of all tensors together.
    limit: u64,
}

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
    /// [`Error::File`] when the folder cannot be made, or holds something else.
    pub fn begin(folder: &Path, limit: u64, suite: &Suite, resumed: bool) -> Result<Saving> {
        let fail = |reason: String| Error::File { path: folder.display().to_string(), reason };
        fs::create_dir_all(folder).map_err(|e| fail(e.to_string()))?;
        let folder = folder.canonicalize().map_err(|e| fail(e.to_string()))?;
        let mark = json!({ "suite": suite.name, "fingerprint": suite.fingerprint, "code": suite.code() });
        let mut entries = fs::read_dir(&folder).map_err(|e| fail(e.to_string()))?;
        // A run that did not begin has left its mark alone.
        let empty = entries.all(|entry| entry.is_ok_and(|entry| entry.file_name() == MARK));
        if !empty {
            let text = fs::read(folder.join(MARK)).unwrap_or_default();
            let found: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
            if !resumed || found != mark {
                return Err(fail(format!("{}; name a new folder", not_mixed(&found, &mark))));
            }
        }
        fs::write(folder.join(MARK), format!("{mark:#}\n")).map_err(|e| fail(e.to_string()))?;
        Ok(Saving { folder, limit })
    }

    /// A folder that another process has begun.
    #[must_use]
    pub fn within(folder: &Path, limit: u64) -> Saving {
        Saving { folder: folder.to_owned(), limit }
    }

    /// Keeps a case without tensors: its process is not there any more.
    ///
    /// # Errors
    /// [`Error::File`] when something cannot be written.
    pub fn save(&self, case: &Case, result: &CaseResult) -> Result<()> {
        self.save_with(case, result, &case_text::text(result, None, &result.command), None)
    }

    /// Keeps a case; `text` is what there is to say about it.
    pub(crate) fn save_with(&self, case: &Case, result: &CaseResult, text: &str, tensors: Option<&CaseTensors>) -> Result<()> {
        let fail = |e: io::Error| Error::File { path: self.folder.display().to_string(), reason: e.to_string() };
        let lock = File::create(self.folder.join(LOCK)).map_err(fail)?;
        // Where a file system has no locks, two processes may exceed the limit by a case each.
        let _ = lock.lock();
        let part = tempfile::Builder::new().prefix(PART).tempdir_in(&self.folder).map_err(fail)?;
        self.fill(part.path(), case, result, text, tensors)?;
        let target = self.folder.join(folder_name(&case.name));
        if target.exists() {
            // Of a run that was ended before it had written the case's line.
            fs::remove_dir_all(&target).map_err(fail)?;
        }
        fs::rename(part.keep(), target).map_err(fail)
    }

    fn fill(&self, folder: &Path, case: &Case, result: &CaseResult, text: &str, tensors: Option<&CaseTensors>) -> Result<()> {
        let put = |name: &str, text: String| {
            let path = folder.join(name);
            fs::write(&path, text).map_err(|e| Error::File { path: path.display().to_string(), reason: e.to_string() })
        };
        let mut more = json!({ "command": result.command, "outcome": result.outcome.word(), "reasons": result.reasons });
        let note = match tensors {
            None => "There are no tensors: the case gave no result, or its process ended.".to_owned(),
            Some(tensors) => match self.left()?.checked_sub(tensors.bytes()) {
                Some(_) => {
                    more["inputs"] = write_inputs(folder, &tensors.inputs)?.into();
                    for (name, guard) in [("result", &tensors.result), ("reference", &tensors.reference)] {
                        let file = write_tensor(folder, name, guard)?;
                        more[name] = json!({ "file": file, "dtype": guard.dtype().name(), "shape": guard.shape() });
                    }
                    String::new()
                }
                None => format!(
                    "Its tensors were not saved: they take {} bytes, and {} of {} are left. --save-limit allows more.",
                    tensors.bytes(),
                    self.left()?,
                    self.limit
                ),
            },
        };
        put("case.json", format!("{:#}\n", description(case, more)))?;
        put("command.txt", format!("{}\n", result.command))?;
        put("report.txt", format!("{text}{note}{}", if note.is_empty() { "" } else { "\n" }))
    }

    /// The bytes that may still be written.
    fn left(&self) -> Result<u64> {
        let used = used(&self.folder).map_err(|e| Error::File { path: self.folder.display().to_string(), reason: e.to_string() })?;
        Ok(self.limit.saturating_sub(used))
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
        if part || !path.is_dir() {
            continue;
        }
        for file in fs::read_dir(path)? {
            let file = file?;
            if file.path().extension().is_some_and(|e| e == "npy" || e == "safetensors") {
                sum += file.metadata()?.len();
            }
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
