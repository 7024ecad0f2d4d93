//! Files of results: written line by line, continued, joined. [`Run`] reads them.

use super::cases::Suite;
use super::record::{CaseResult, RunHeader};
use super::report::Run;
use crate::error::{Error, Result};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
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
        let file = File::create(path).map_err(|e| fail(path, e))?;
        let mut out = ResultFile { path: path.to_owned(), file };
        out.add(header)?;
        Ok(out)
    }

    /// Goes on with the file of a run that did not end, and gives what it holds; a new file where there is none.
    ///
    /// # Errors
    /// [`Error::File`] when it cannot be read, or is of another suite or another selection.
    pub fn resume(path: &Path, suite: &Suite, header: &RunHeader) -> Result<(ResultFile, Vec<CaseResult>)> {
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(path).map_err(|e| fail(path, e))?;
        let complete = complete_lines(&mut file).map_err(|e| fail(path, e))?;
        if complete == 0 {
            return Ok((ResultFile::create(path, header)?, Vec::new()));
        }
        let run = Run::read(path)?;
        suite.expect(&run)?;
        if run.header.selection != header.selection {
            let (theirs, ours) = (&run.header.selection, &header.selection);
            return Err(fail(path, format!("was begun with the selection `{theirs}`, which is not `{ours}`")));
        }
        // What a killed run has left of a line would spoil the next one, and its case is run again.
        file.set_len(complete).map_err(|e| fail(path, e))?;
        let run = Run::read(path)?;
        Ok((ResultFile { path: path.to_owned(), file }, run.cases))
    }

    /// Adds a line with its end, in one call.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn add(&mut self, message: &impl serde::Serialize) -> Result<()> {
        line(message).and_then(|bytes| self.file.write_all(&bytes)).map_err(|e| fail(&self.path, e))
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
    /// Joins runs of parts of one suite into one, case after case.
    ///
    /// # Errors
    /// [`Error::File`] when they are not of one suite, or two have the same case; [`Error::InvalidArgument`] for no run.
    pub fn join(parts: &[Run]) -> Result<Run> {
        let Some(first) = parts.first() else {
            return Err(Error::InvalidArgument {
                what: "runs to join",
                value: "none".to_owned(),
                limit: "at least one is needed".to_owned(),
            });
        };
        let mut found: HashMap<&str, &Run> = HashMap::new();
        for part in parts {
            if part.header.fingerprint != first.header.fingerprint {
                let [theirs, ours] = [part, first].map(|run| format!("{} {}", run.header.suite, run.header.fingerprint));
                return Err(fail(&part.source, format!("holds results of another suite than {}: {theirs}, not {ours}", first.source)));
            }
            for case in &part.cases {
                if let Some(other) = found.insert(&case.case, part) {
                    return Err(fail(&part.source, format!("has case `{}`, and so has {}", case.case, other.source)));
                }
            }
        }
        let mut devices: Vec<String> = parts.iter().flat_map(|part| part.header.devices.clone()).collect();
        devices.sort();
        devices.dedup();
        let header = RunHeader {
            selection: without_shard(&first.header.selection),
            selected: parts.iter().map(|part| part.header.selected).sum(),
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

/// A selection without the shard at its end.
fn without_shard(selection: &str) -> String {
    selection.rfind("--shard ").map_or(selection, |at| &selection[..at]).trim_end().to_owned()
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
