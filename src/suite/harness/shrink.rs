//! The smallest size at which a case still fails in the same way.
//!
//! A size is a text with whole numbers, whatever stands between them. Each number in turn, the largest first, is made smaller while the case fails as it did: to 0, to
//! 1, then by steps that halve when one is too much; and again until none gets smaller. What comes out is a size of which no number alone can be one less. Which
//! sizes there are is not known here: one that is none costs nothing. The same answers give the same size.

use super::cases::{Case, Suite};
use super::file::SuiteFile;
use super::record::{CaseOutcome, CaseResult, FindingKind};
use crate::error::{Error, Result};
use std::collections::HashMap;

/// What a smaller size came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trial {
    /// The case fails as it did.
    Fails,
    /// It does not, or in another way.
    Differs,
    /// There is no such size; nothing ran.
    NoSize,
}

/// The end of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Smallest {
    /// The smallest size that was found.
    pub size: String,
    /// How many sizes ran.
    pub trials: usize,
    /// Whether no number of it can be one less; else the limit on trials ended the search.
    pub complete: bool,
}

/// How a case fails: what makes two failures the same one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    outcome: CaseOutcome,
    findings: Vec<(FindingKind, String)>,
    /// Of an error its words, without numbers.
    words: String,
}

impl Failure {
    /// How a case failed; `None` for one that did not.
    #[must_use]
    pub fn of(result: &CaseResult) -> Option<Failure> {
        let passed = matches!(result.outcome, CaseOutcome::Pass | CaseOutcome::Untrusted);
        if passed && result.ok {
            return None;
        }
        let mut findings: Vec<_> = result.findings.iter().map(|f| (f.kind, f.buffer.clone())).collect();
        findings.sort_by_key(|(kind, buffer)| (format!("{kind:?}"), buffer.clone()));
        findings.dedup();
        let error = result.reasons.concat();
        let words = error.split(|c: char| c.is_ascii_digit()).collect();
        Some(Failure { outcome: result.outcome, findings, words: if result.outcome == CaseOutcome::Error { words } else { String::new() } })
    }
}

/// A case with another size: the suite that has it, of which nothing else is left but its table and the fingerprint of the whole.
///
/// # Errors
/// When the table has no key for a size, or there is no such size.
pub fn with_size(file: &SuiteFile, source: &str, case: &Case, size: &str) -> Result<(Suite, Case)> {
    let missing = || Error::InvalidArgument { what: "size", value: size.to_owned(), limit: format!("no case like `{}` has it", case.name) };
    let (key, _) = case.size().ok_or_else(missing)?;
    let mut file = file.clone();
    file.set(&format!("{}.{key}={size}", case.table))?;
    // By this a process that reads the whole suite is known to have read the same one.
    let fingerprint = Suite::new(&file, source, Default::default())?.fingerprint;
    file.tables.retain(|table| table.name == case.table);
    let mut suite = Suite::new(&file, source, Default::default())?;
    suite.fingerprint = fingerprint;
    let others = |case: &Case| case.axes.iter().filter(|(name, _)| name != key).cloned().collect::<Vec<_>>();
    let found = suite.cases.iter().find(|c| others(c) == others(case)).cloned();
    Ok((suite, found.ok_or_else(missing)?))
}

/// Searches from a size at which the case fails. `run` tries a size; at most `most` of them run.
///
/// # Errors
/// Those of `run`.
pub fn smallest(size: &str, most: usize, run: &mut dyn FnMut(&str) -> Result<Trial>) -> Result<Smallest> {
    let (texts, numbers) = parts(size);
    let mut search = Search { texts, numbers, tried: HashMap::new(), trials: 0, most, run };
    let mut complete = false;
    while !complete && search.trials < most {
        complete = !search.round()?;
    }
    Ok(Smallest { size: search.text(&search.numbers), trials: search.trials, complete })
}

/// The numbers of a text, and what stands before each and after the last.
fn parts(size: &str) -> (Vec<String>, Vec<u64>) {
    let (mut texts, mut numbers) = (vec![String::new()], Vec::new());
    let mut rest = size;
    while let Some(c) = rest.chars().next() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        match rest[..digits].parse() {
            Ok(number) => {
                numbers.push(number);
                texts.push(String::new());
                rest = &rest[digits..];
            }
            Err(_) => {
                texts.iter_mut().last().into_iter().for_each(|text| text.push(c));
                rest = &rest[c.len_utf8()..];
            }
        }
    }
    (texts, numbers)
}

struct Search<'a> {
    texts: Vec<String>,
    numbers: Vec<u64>,
    tried: HashMap<String, Trial>,
    trials: usize,
    most: usize,
    run: &'a mut dyn FnMut(&str) -> Result<Trial>,
}

impl Search<'_> {
    fn text(&self, numbers: &[u64]) -> String {
        let numbers = numbers.iter().map(u64::to_string).chain([String::new()]);
        self.texts.iter().zip(numbers).map(|(text, number)| text.clone() + &number).collect()
    }

    /// Makes each number smaller, the largest first. Whether one got smaller.
    fn round(&mut self) -> Result<bool> {
        let mut order: Vec<usize> = (0..self.numbers.len()).collect();
        order.sort_by_key(|&i| std::cmp::Reverse(self.numbers[i]));
        let before = self.numbers.clone();
        for i in order {
            for least in [0, 1] {
                if self.numbers[i] > least && self.fails(i, least)? {
                    self.numbers[i] = least;
                }
            }
            let mut step = self.numbers[i] / 2;
            while step > 0 {
                if step <= self.numbers[i] && self.fails(i, self.numbers[i] - step)? {
                    self.numbers[i] -= step;
                } else {
                    step /= 2;
                }
            }
        }
        Ok(self.numbers != before)
    }

    /// Whether the case fails as it did with this number. Nothing does when the limit is reached.
    fn fails(&mut self, index: usize, number: u64) -> Result<bool> {
        let mut numbers = self.numbers.clone();
        numbers[index] = number;
        let text = self.text(&numbers);
        if let Some(known) = self.tried.get(&text) {
            return Ok(*known == Trial::Fails);
        }
        if self.trials >= self.most {
            return Ok(false);
        }
        let trial = (self.run)(&text)?;
        self.trials += usize::from(trial != Trial::NoSize);
        self.tried.insert(text, trial);
        Ok(trial == Trial::Fails)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A search with cases that fail where `fails` says so; no number may be 0.
    fn search(size: &str, most: usize, fails: impl Fn(&[u64]) -> bool) -> Smallest {
        let mut run = |text: &str| {
            let numbers = parts(text).1;
            Ok(match numbers.contains(&0) {
                true => Trial::NoSize,
                false if fails(&numbers) => Trial::Fails,
                false => Trial::Differs,
            })
        };
        smallest(size, most, &mut run).unwrap()
    }

    type Fails = fn(&[u64]) -> bool;

    #[test]
    fn numbers_shrink_until_none_can_be_one_less() {
        let cases: [(&str, Fails, &str); 6] = [
            ("64x64x256", |_| true, "1x1x1"),
            ("64x64x256", |n| n[0] > 16, "17x1x1"),
            ("64x64x256", |n| n[2] % 4 == 0, "1x1x4"),
            ("130x70x250", |n| n[0] > 64 && n[1] > 64, "65x65x1"),
            ("2 1 8 [16,16]", |n| n[3] * n[4] >= 30, "1 1 1 [2,15]"),
            ("no numbers", |_| true, "no numbers"),
        ];
        for (size, fails, expected) in cases {
            let found = search(size, 1000, fails);
            assert_eq!((found.size.as_str(), found.complete), (expected, true), "{size}: {found:?}");
            assert!(found.trials <= 60, "{size}: {found:?}");
        }
    }

    #[test]
    fn trials_are_limited_and_what_was_found_is_kept() {
        let found = search("1000x1000", 3, |n| n[0] > 700);
        assert_eq!((found.trials, found.complete), (3, false));
        let found = search("1000x1000", 12, |n| n[0] > 700);
        assert!(!found.complete && parts(&found.size).1[0] > 700, "{found:?}");
    }
}
