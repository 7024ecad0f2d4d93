//! Files of results: written line by line, continued, joined. [`Run`] reads them.

use super::cases::Suite;
use super::record::{CaseResult, RunHeader};
use super::report::Run;
use super::select::Shard;
use crate::error::{Error, Result};
use std::collections::{BTreeSet, HashMap};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// An error about a file.
fn fail(path: impl AsRef<Path>, reason: impl std::fmt::Display) -> Error {
    Error::File { path: path.as_ref().display().to_string(), reason: reason.to_string() }
}

fn line(message: &impl serde::Serialize) -> std::io::Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec(message)?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// A file that a run writes, a line as soon as a case has ended.
#[derive(Debug)]
pub struct ResultFile {
    path: PathBuf,
    file: File,
}

impl ResultFile {
    /// A new file.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn create(path: &Path, header: &RunHeader) -> Result<ResultFile> {
        // Not emptied before it is known that nobody writes to it.
        let file = OpenOptions::new().write(true).create(true).truncate(false).open(path).map_err(|e| fail(path, e))?;
        held(path, &file)?;
        ResultFile::begin(path, file, header)
    }

    /// Begins anew with a file that may have contents.
    fn begin(path: &Path, file: File, header: &RunHeader) -> Result<ResultFile> {
        file.set_len(0).map_err(|e| fail(path, e))?;
        let mut out = ResultFile { path: path.to_owned(), file };
        out.add(header)?;
        Ok(out)
    }

    /// Goes on with the file of a run that did not end, and gives what it holds; a new file where there is none.
    ///
    /// # Errors
    /// [`Error::File`] when it cannot be read, or is of another suite, another selection, other files of kernels, another version of the program or other devices.
    pub fn resume(path: &Path, suite: &Suite, header: &RunHeader) -> Result<(ResultFile, Vec<CaseResult>)> {
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(path).map_err(|e| fail(path, e))?;
        held(path, &file)?;
        let complete = complete_lines(&mut file).map_err(|e| fail(path, e))?;
        if complete == 0 {
            return Ok((ResultFile::begin(path, file, header)?, Vec::new()));
        }
        let run = Run::read(path)?;
        suite.expect(&run)?;
        if run.header.selection != header.selection {
            let (theirs, ours) = (&run.header.selection, &header.selection);
            return Err(fail(path, format!("was begun with the selection `{theirs}`, which is not `{ours}`")));
        }
        if run.header.code != header.code {
            return Err(fail(path, "was begun with other contents of the files that kernels name: a new file of results is needed"));
        }
        expect_same_origin(path, &run.header, header)?;
        // What a killed run has left of a line would spoil the next one, and its case is run again.
        file.set_len(complete).map_err(|e| fail(path, e))?;
        let run = Run::read(path)?;
        Ok((ResultFile { path: path.to_owned(), file }, run.cases))
    }

    /// Removes a file of an earlier run, before anything keeps the new one from its beginning: it would be taken for the new one's.
    ///
    /// # Errors
    /// [`Error::File`] when another run writes to it, or it cannot be removed.
    #[cfg(feature = "cli")]
    pub(crate) fn discard(path: &Path) -> Result<()> {
        if !path.is_file() {
            return Ok(());
        }
        let file = OpenOptions::new().write(true).open(path).map_err(|e| fail(path, e))?;
        held(path, &file)?;
        std::fs::remove_file(path).map_err(|e| fail(path, e))
    }

    /// Adds a line with its end, in one call.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn add(&mut self, message: &impl serde::Serialize) -> Result<()> {
        line(message).and_then(|bytes| self.file.write_all(&bytes)).map_err(|e| fail(&self.path, e))
    }
}

/// Refuses to go on with what other devices or another version of the program have computed.
fn expect_same_origin(path: &Path, theirs: &RunHeader, ours: &RunHeader) -> Result<()> {
    if theirs.tool != ours.tool {
        return Err(fail(path, format!("was begun by {}, and this is {}: a new file of results is needed", theirs.tool, ours.tool)));
    }
    let [before, now] = [theirs, ours].map(|header| header.devices.iter().map(|device| kind(device)).collect::<BTreeSet<&str>>());
    if before != now {
        let [before, now] = [theirs, ours].map(|header| header.devices.join("; "));
        return Err(fail(path, format!("was computed on {before}, and this run is on {now}: a new file of results is needed")));
    }
    Ok(())
}

/// What computes by a device's name. Of the host its threads, which do not change results, are no part of it.
fn kind(device: &str) -> &str {
    if device.starts_with("host, ") { "host" } else { device }
}

/// Holds a file for this process until it is closed. Where a file system has no locks, two processes may write to it.
pub(crate) fn held(path: &Path, file: &File) -> Result<()> {
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Err(fail(path, "another run writes to it")),
        Ok(()) | Err(TryLockError::Error(_)) => Ok(()),
    }
}

/// Bytes up to the end of the last line that has one.
fn complete_lines(file: &mut File) -> std::io::Result<u64> {
    const PIECE: u64 = 1 << 16;
    let mut end = file.seek(SeekFrom::End(0))?;
    let mut piece = Vec::new();
    while end > 0 {
        let start = end.saturating_sub(PIECE);
        piece.clear();
        file.seek(SeekFrom::Start(start))?;
        file.take(end - start).read_to_end(&mut piece)?;
        if let Some(at) = piece.iter().rposition(|&byte| byte == b'\n') {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

impl Run {
    /// Joins runs of parts of one suite into one, case after case. Shards of one selection are to run all that it chooses, whichever of them are there.
    ///
    /// # Errors
    /// [`Error::File`] when they are not of one suite or one state of its kernels' files, two have the same case, or shards are not of one division; [`Error::InvalidArgument`] for no run.
    pub fn join(parts: &[Run]) -> Result<Run> {
        let Some(first) = parts.first() else {
            return Err(Error::InvalidArgument {
                what: "runs to join",
                value: "none".to_owned(),
                limit: "at least one is needed".to_owned(),
            });
        };
        parts.iter().try_for_each(|part| same_suite(part, first))?;
        let selections = selections(parts)?;
        let mut found: HashMap<&str, &Run> = HashMap::new();
        for part in parts {
            for case in &part.cases {
                if let Some(other) = found.insert(&case.case, part) {
                    return Err(fail(&part.source, format!("has case `{}`, and so has {}", case.case, other.source)));
                }
            }
        }
        let mut devices: Vec<String> = parts.iter().flat_map(|part| part.header.devices.clone()).collect();
        devices.sort();
        devices.dedup();
        let texts: Vec<&str> = selections.iter().map(|(selection, _)| *selection).collect();
        // What was joined before has selections of its own; no selection is every case, and there are no more than all.
        let joined = |text: &str| texts.iter().any(|other| *other != text && other.split("; ").any(|part| part == text));
        let counted = selections.iter().filter(|(text, _)| if texts.contains(&"") { text.is_empty() } else { !joined(text) });
        let selected = counted.map(|(_, part)| part.header.before_shard).sum::<u64>().min(first.header.cases);
        let header = RunHeader {
            // No selection at all is every case.
            selection: if texts.contains(&"") { String::new() } else { texts.join("; ") },
            selected,
            before_shard: selected,
            devices,
            started: parts.iter().map(|part| part.header.started).min().unwrap_or(first.header.started),
            ..first.header.clone()
        };
        Run::new(&first.source, header, parts.iter().flat_map(|part| part.cases.clone()).collect())
    }
}

impl Suite {
    /// Joins runs of parts of this suite into the one that would have run them all, in the order of the suite.
    ///
    /// # Errors
    /// As [`Run::join`], and [`Error::File`] when one is of another suite or has a case that this one has not.
    pub fn join(&self, parts: &[Run]) -> Result<Run> {
        parts.iter().try_for_each(|part| self.expect(part))?;
        let mut all = Run::join(parts)?;
        let order: HashMap<&str, usize> = self.cases.iter().enumerate().map(|(i, case)| (case.name.as_str(), i)).collect();
        let place = |case: &CaseResult| order.get(case.case.as_str()).copied();
        if let Some((part, case)) =
            parts.iter().flat_map(|part| part.cases.iter().map(move |case| (part, case))).find(|(_, case)| place(case).is_none())
        {
            return Err(fail(&part.source, format!("has case `{}`, which {} has not", case.case, self.name)));
        }
        all.cases.sort_by_key(place);
        Ok(all)
    }

    /// Refuses runs of another suite.
    fn expect(&self, run: &Run) -> Result<()> {
        let header = &run.header;
        if header.fingerprint == self.fingerprint {
            return Ok(());
        }
        let theirs = format!("{} {}", header.suite, header.fingerprint);
        Err(fail(&run.source, format!("holds results of another suite: {theirs}, not {} {}", self.name, self.fingerprint)))
    }
}

/// Refuses a run of another suite than the first, or of other files of its kernels.
fn same_suite(run: &Run, first: &Run) -> Result<()> {
    if run.header.fingerprint != first.header.fingerprint {
        let [theirs, ours] = [run, first].map(|run| format!("{} {}", run.header.suite, run.header.fingerprint));
        return Err(fail(&run.source, format!("holds results of another suite than {}: {theirs}, not {ours}", first.source)));
    }
    if run.header.code != first.header.code {
        let reason = format!("was computed with other contents of the files that kernels name than {}", first.source);
        return Err(fail(&run.source, reason));
    }
    Ok(())
}

/// The selections of the parts without their shards, each once, with the first part that has it.
fn selections(parts: &[Run]) -> Result<Vec<(&str, &Run)>> {
    let mut found: Vec<(&str, &Run)> = Vec::new();
    let mut divided: HashMap<&str, (usize, &Run)> = HashMap::new();
    for part in parts {
        let (selection, shard) = without_shard(&part.header.selection);
        if let Some(count) = shard.map(Shard::count) {
            let (others, other) = *divided.entry(selection).or_insert((count, part));
            if count != others {
                return Err(fail(&part.source, format!("is one of {count} shards, and {} is one of {others}", other.source)));
            }
        }
        let Some((_, other)) = found.iter().find(|(known, _)| *known == selection) else {
            found.push((selection, part));
            continue;
        };
        let [ours, theirs] = [part, other].map(|run| run.header.before_shard);
        if ours != theirs {
            return Err(fail(&part.source, format!("has a share of {ours} cases, and {} has one of {theirs}", other.source)));
        }
    }
    Ok(found)
}

/// A selection without the shard at its end, and the shard.
fn without_shard(selection: &str) -> (&str, Option<Shard>) {
    let parts = selection.rfind("--shard ").map(|at| (selection[..at].trim_end(), &selection[at + "--shard ".len()..]));
    // A filter may have these words too.
    match parts.map(|(before, shard)| (before, Shard::numbers(shard))) {
        Some((before, Ok(shard))) => (before, Some(shard)),
        _ => (selection, None),
    }
}

/// Writes a run as it was written, case by case.
///
/// # Errors
/// [`Error::File`] when the file cannot be written.
pub fn write_results(path: &Path, run: &Run) -> Result<()> {
    crate::files::replace(path, |out| {
        out.write_all(&line(&run.header)?)?;
        run.cases.iter().try_for_each(|case| out.write_all(&line(case)?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::record::SCHEMA;
    use crate::suite::{Kernels, SuiteFile};

    fn part(source: &str, selection: &str, before_shard: u64) -> Run {
        let header = RunHeader {
            schema: SCHEMA,
            tool: String::new(),
            suite: "s".to_owned(),
            fingerprint: "0".to_owned(),
            code: String::new(),
            cases: 10,
            selection: selection.to_owned(),
            selected: before_shard / 2,
            before_shard,
            devices: Vec::new(),
            started: 0,
        };
        Run::new(source, header, Vec::new()).unwrap()
    }

    #[test]
    fn shards_of_one_selection_are_to_run_all_of_it() {
        for (parts, expected, reason) in [
            (vec![("--shard 1/2", 10)], ("", 10), "the other shard is missing"),
            (vec![("--shard 1/2", 10), ("--shard 2/2", 10)], ("", 10), "both"),
            (vec![("", 10), ("--shard 2/2", 10)], ("", 10), "joined before, with another shard"),
            (vec![("--group a", 4), ("--group b", 3)], ("--group a; --group b", 7), "two selections"),
            (
                vec![("--group a --shard 1/3", 4), ("--group b", 3), ("--group a --shard 2/3", 4)],
                ("--group a; --group b", 7),
                "shards of one of them",
            ),
            (vec![("--group a; --group b", 7), ("--group c", 1)], ("--group a; --group b; --group c", 8), "joined before"),
            (
                vec![("--group a; --group b", 7), ("--group a --shard 3/3", 4)],
                ("--group a; --group b; --group a", 7),
                "a part that was joined before",
            ),
            (vec![("--shard 1/2", 10), ("--filter =x", 1)], ("", 10), "one case apart"),
            (vec![("--group a", 6), ("--group b", 6)], ("--group a; --group b", 10), "groups that share cases"),
            (vec![("--filter a--shard b", 2)], ("--filter a--shard b", 2), "a filter with these words"),
        ] {
            let runs: Vec<Run> = parts.iter().map(|(selection, before_shard)| part("r", selection, *before_shard)).collect();
            let header = Run::join(&runs).unwrap().header;
            assert_eq!((header.selection.as_str(), header.selected, header.before_shard), (expected.0, expected.1, expected.1), "{reason}");
        }
    }

    #[test]
    fn one_run_writes_to_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.jsonl");
        let header = part("r", "", 1).header;
        let suite = Suite::new(&SuiteFile::parse("s.toml", "[[gemm]]\nsize = '1x1x1'").unwrap(), "s.toml", Kernels::default()).unwrap();
        let first = ResultFile::create(&path, &header).unwrap();
        for second in [ResultFile::create(&path, &header).map(drop), ResultFile::resume(&path, &suite, &header).map(drop)] {
            assert!(second.unwrap_err().to_string().ends_with("r.jsonl: another run writes to it"));
        }
        drop(first);
        assert!(Run::read(&path).is_ok(), "nothing was lost");
        std::fs::write(&path, "{").unwrap();
        let (second, cases) = ResultFile::resume(&path, &suite, &header).unwrap();
        assert!(cases.is_empty() && ResultFile::create(&path, &header).is_err(), "a line that was cut");
        drop(second);
        ResultFile::create(&path, &header).unwrap();
    }

    #[test]
    fn runs_go_on_where_they_began() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.jsonl");
        let suite = Suite::new(&SuiteFile::parse("s.toml", "[[gemm]]\nsize = '1x1x1'").unwrap(), "s.toml", Kernels::default()).unwrap();
        let by = |tool: &str, devices: &[&str]| RunHeader {
            tool: tool.to_owned(),
            fingerprint: suite.fingerprint.clone(),
            devices: devices.iter().map(|&device| device.to_owned()).collect(),
            ..part("r", "", 1).header
        };
        for (before, now, words) in [
            (by("v 1", &["host, 2 threads"]), by("v 1", &["host, 1 thread"]), ""),
            (by("v 1", &["MI210", "MI210"]), by("v 1", &["MI210"]), ""),
            (by("v 1", &["host, 2 threads"]), by("v 2", &["host, 2 threads"]), "was begun by v 1, and this is v 2: "),
            (by("v 1", &["host, 2 threads"]), by("v 1", &["MI210"]), "was computed on host, 2 threads, and this run is on MI210: "),
            (by("v 1", &["MI210"]), by("v 1", &["MI210", "MI250"]), "was computed on MI210, and this run is on MI210; MI250: "),
        ] {
            drop(ResultFile::create(&path, &before).unwrap());
            let found = ResultFile::resume(&path, &suite, &now).map_or_else(|e| e.to_string(), |_| String::new());
            assert!(found.is_empty() == words.is_empty() && found.contains(words), "{before:?} {now:?}: {found}");
        }
    }

    #[test]
    fn results_of_two_builds_are_not_joined() {
        let [one, mut two] = ["one", "two"].map(|source| part(source, source, 4));
        two.header.code = "00ff".to_owned();
        let error = Run::join(&[one, two]).unwrap_err().to_string();
        assert!(error.contains("two: was computed with other contents of the files that kernels name than one"), "{error}");
    }

    #[test]
    fn shards_of_two_divisions_are_not_joined() {
        for (one, other, words) in [
            (("--shard 1/2", 10), ("--shard 2/3", 10), "two: is one of 3 shards, and one is one of 2"),
            (("--shard 1/2", 10), ("--shard 2/2", 9), "two: has a share of 9 cases, and one has one of 10"),
        ] {
            let error = Run::join(&[part("one", one.0, one.1), part("two", other.0, other.1)]).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
