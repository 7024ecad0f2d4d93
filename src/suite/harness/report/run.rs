//! A run as a file of results has it: the header and the cases that have ended.

use crate::error::{Error, Result};
use crate::suite::record::{CaseOutcome, CaseResult, RunHeader, SCHEMA};
use serde::Serialize;
use std::collections::HashMap;
use std::io::BufRead;
use std::path::Path;

/// A run of a suite.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Run {
    /// Where it comes from: the path of its file.
    pub source: String,
    /// Its first line.
    pub header: RunHeader,
    /// The cases that have ended, each name once.
    pub cases: Vec<CaseResult>,
    /// Whether its last line is cut: the run was ended while it wrote.
    pub truncated: bool,
}

/// A run in numbers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Summary<'a> {
    source: &'a str,
    #[serde(flatten)]
    header: &'a RunHeader,
    /// Cases that have ended.
    pub(super) ended: usize,
    /// Whether all cases that were to run have ended.
    pub(super) complete: bool,
    pub(super) truncated: bool,
    /// Whether all of them ended as expected.
    pub(super) ok: bool,
    /// Cases that did not end as expected.
    pub(super) unexpected: usize,
    /// Cases by outcome; outcomes that do not occur are left out.
    pub(super) outcomes: Vec<(&'static str, usize)>,
    /// The sum of the cases' times.
    pub(super) seconds: f64,
}

/// What the first line says before all of it is believed.
#[derive(serde::Deserialize)]
struct Version {
    schema: u32,
}

impl Run {
    /// Puts a run together.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for two cases of one name.
    pub fn new(source: &str, header: RunHeader, cases: Vec<CaseResult>) -> Result<Run> {
        let mut names = HashMap::new();
        for (i, case) in cases.iter().enumerate() {
            if let Some(first) = names.insert(case.case.as_str(), i) {
                let limit = format!("a case has one result, and this one has results {} and {}", first + 1, i + 1);
                return Err(Error::InvalidArgument { what: "case", value: format!("`{}`", case.case), limit });
            }
        }
        Ok(Run { source: source.to_owned(), header, cases, truncated: false })
    }

    /// Reads a file of results. A last line that was not written to its end is left out: [`truncated`](Run::truncated) says so.
    ///
    /// # Errors
    /// [`Error::File`] with the number of the line for everything that is no line of such a file, and for another version of it.
    pub fn read(path: &Path) -> Result<Run> {
        let fail = |reason: String| Error::File { path: path.display().to_string(), reason };
        let file = std::fs::File::open(path).map_err(|e| fail(e.to_string()))?;
        Run::read_from(&path.display().to_string(), std::io::BufReader::new(file)).map_err(fail)
    }

    /// [`read`](Run::read) from anything; errors are sentences.
    fn read_from(source: &str, mut lines: impl BufRead) -> Result<Run, String> {
        let mut line = Vec::new();
        let mut next = |line: &mut Vec<u8>| {
            line.clear();
            lines.read_until(b'\n', line).map_err(|e| e.to_string())
        };
        next(&mut line)?;
        let version: Version = serde_json::from_slice(&line).map_err(|e| format!("line 1 is no header of results: {e}"))?;
        if version.schema != SCHEMA {
            return Err(format!("line 1: schema {}; this program reads {SCHEMA}", version.schema));
        }
        let header: RunHeader = serde_json::from_slice(&line).map_err(|e| format!("line 1: {e}"))?;
        let (mut cases, mut truncated) = (Vec::new(), false);
        while next(&mut line)? > 0 {
            match serde_json::from_slice::<CaseResult>(&line) {
                Ok(case) => cases.push(case),
                Err(_) if line.last() != Some(&b'\n') => truncated = true,
                Err(e) => return Err(format!("line {}: {e}", cases.len() + 2)),
            }
        }
        let run = Run::new(source, header, cases).map_err(|e| e.to_string())?;
        Ok(Run { truncated, ..run })
    }

    /// Whether every case that was to run has ended.
    #[must_use]
    pub fn complete(&self) -> bool {
        !self.truncated && self.cases.len() as u64 >= self.header.selected
    }

    /// Whether every case that has ended did so as expected.
    #[must_use]
    pub fn ok(&self) -> bool {
        self.cases.iter().all(|case| case.ok)
    }

    /// The case of a name.
    pub(super) fn by_name(&self) -> HashMap<&str, &CaseResult> {
        self.cases.iter().map(|case| (case.case.as_str(), case)).collect()
    }

    pub(super) fn summary(&self) -> Summary<'_> {
        let count = |outcome| self.cases.iter().filter(|case| case.outcome == outcome).count();
        Summary {
            source: &self.source,
            header: &self.header,
            ended: self.cases.len(),
            complete: self.complete(),
            truncated: self.truncated,
            ok: self.ok(),
            unexpected: self.cases.iter().filter(|case| !case.ok).count(),
            outcomes: CaseOutcome::ALL.iter().rev().map(|&o| (o.word(), count(o))).filter(|&(_, n)| n > 0).collect(),
            // The sum of nothing would be -0.
            seconds: self.cases.iter().fold(0.0, |sum, case| sum + case.seconds),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::report::samples;

    #[test]
    fn files_are_read_as_they_were_written() {
        let run = samples::run("a", 3);
        let text = samples::lines(&run);
        let read = |text: &str| Run::read_from("a", text.as_bytes());
        assert_eq!(read(&text).unwrap(), run);
        let cut = read(&text[..text.len() - 40]).unwrap();
        assert_eq!((cut.cases.len(), cut.truncated, cut.complete()), (2, true, false), "the last line was not written to its end");
        let whole = read(text.trim_end()).unwrap();
        assert_eq!((whole.cases.len(), whole.truncated), (3, false), "a last line without its newline is a line all the same");
    }

    #[test]
    fn what_is_no_file_of_results_is_told_with_its_line() {
        let text = samples::lines(&samples::run("a", 3));
        let third = text.lines().nth(2).unwrap();
        for (text, words, reason) in [
            (String::new(), "line 1 is no header", "an empty file"),
            ("{}\n".to_owned(), "line 1 is no header of results: missing field `schema`", "another kind of file"),
            (text.replacen(r#""schema":1"#, r#""schema":2"#, 1), "line 1: schema 2; this program reads 1", "another version"),
            (text.replacen(r#""suite":"#, r#""sweet":"#, 1), "line 1: unknown field `sweet`", "a header with another field"),
            (text.replacen(third, "{]", 1), "line 3: ", "a broken line in the middle"),
            (format!("{text}{third}\n"), "this one has results 2 and 4", "one case twice"),
        ] {
            let error = Run::read_from("a", text.as_bytes()).unwrap_err();
            assert!(error.contains(words), "{reason}: {error}");
        }
        let error = Run::read(Path::new("/none/such")).unwrap_err().to_string();
        assert!(error.contains("/none/such"), "{error}");
    }

    #[test]
    fn no_case_takes_no_time() {
        assert_eq!(samples::run("a", 0).summary().seconds.to_bits(), 0);
    }

    #[test]
    fn cases_that_have_not_ended_are_missed() {
        let mut run = samples::run("a", 3);
        assert!(run.complete() && !run.ok());
        let summary = run.summary();
        assert_eq!((summary.outcomes, summary.unexpected), (vec![("fail", 1), ("pass", 2)], 1));
        run.header.selected = 4;
        assert!(!run.complete());
    }
}
