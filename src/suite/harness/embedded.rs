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

    /// A file, or where there is none the suite of that name that comes with the crate. A folder is no file: one may be called like the suite whose results it has.
    ///
    /// # Errors
    /// As [`open`](SuiteFile::open); when there is neither.
    pub fn find(name: &str) -> Result<SuiteFile> {
        let path = Path::new(name);
        match SuiteFile::coming_with(name) {
            Some(suite) if path.is_dir() || !path.exists() => suite,
            None if !path.exists() => {
                let known = SuiteFile::embedded().collect::<Vec<_>>().join(" ");
                Err(Error::File {
                    path: name.to_owned(),
                    reason: format!("no such file, and no suite that comes with hipverify; those are {known}"),
                })
            }
            Some(_) | None => SuiteFile::open(path),
        }
    }

    /// The suite of that name that comes with the crate, whatever files there are.
    pub(crate) fn coming_with(name: &str) -> Option<Result<SuiteFile>> {
        let (name, text) = SUITES.iter().find(|(own, _)| *own == name)?;
        Some(SuiteFile::parse(&format!("{name}.toml"), text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_suite_that_comes_with_the_crate_is_found() {
        for name in SuiteFile::embedded() {
            assert!(!SuiteFile::find(name).unwrap().tables.is_empty(), "{name}");
        }
    }
}
