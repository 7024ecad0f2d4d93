//! Suites that come with the crate, so that they run without its sources.

use super::file::SuiteFile;
use crate::error::{Error, Result};
use std::path::Path;

/// Name and text of each.
const SUITES: [(&str, &str); 4] = [
    ("smoke", include_str!("../../../suites/smoke.toml")),
    ("ck", include_str!("../../../suites/ck.toml")),
    ("paddle", include_str!("../../../suites/paddle.toml")),
    ("fp16-study", include_str!("../../../suites/fp16-study.toml")),
];

impl SuiteFile {
    /// The suites that come with the crate: their names.
    pub fn embedded() -> impl Iterator<Item = &'static str> {
        SUITES.iter().map(|(name, _)| *name)
    }

    /// A file, or where there is none the suite of that name that comes with the crate.
    ///
    /// # Errors
    /// As [`open`](SuiteFile::open); when there is neither.
    pub fn find(name: &str) -> Result<SuiteFile> {
        let path = Path::new(name);
        if path.exists() {
            return SuiteFile::open(path);
        }
        match SUITES.iter().find(|(own, _)| *own == name) {
            Some((name, text)) => SuiteFile::parse(&format!("{name}.toml"), text),
            None => {
                let known = SuiteFile::embedded().collect::<Vec<_>>().join(" ");
                Err(Error::File {
                    path: name.to_owned(),
                    reason: format!("no such file, and no suite that comes with hipverify; those are {known}"),
                })
            }
        }
    }
}
