//! What users write in TOML: rules for tensors, golden results, suites of cases.

use super::kind;
use hipverify::suite::{Kernels, KeyValue, Suite, SuiteFile};

/// The most cases of a suite that are made: the limit on memory is meant for what is read.
const CASES: usize = 256;

/// A file for `--rules`.
pub(super) fn rules(input: &[u8]) -> u64 {
    kind(&hipverify::cli::count_rules(&String::from_utf8_lossy(input)), |rules| 1 + (*rules).min(4) as u64)
}

/// A file of golden results: what is read is written, and read again.
pub(super) fn golden(input: &[u8]) -> u64 {
    // The names of tables and tensors that come first are no kinds of errors.
    let read =
        hipverify::cli::count_golden(&String::from_utf8_lossy(input)).map_err(|e| e.rsplit(": ").next().unwrap_or_default().to_owned());
    kind(&read, |results| 1 + (*results).min(8) as u64)
}

/// A file of a suite, and its cases: each is found by its name and says what it does. Files that others include are not read, so that no input leads to files of this machine.
pub(super) fn suites(input: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(input);
    if text.contains("include") {
        return 0;
    }
    let file = SuiteFile::parse("suite.toml", &text);
    let read = kind(&file, |file| 1 + file.tables.len().min(4) as u64);
    let Ok(file) = file else { return read };
    if cases(&file).is_none_or(|cases| cases > CASES) {
        return read ^ 1 << 32;
    }
    let suite = Suite::new(&file, "suite.toml", Kernels::default());
    read.rotate_left(7)
        ^ kind(&suite, |suite| {
            for case in &suite.cases {
                assert_eq!(suite.case(&case.name).map(|found| &found.name), Some(&case.name));
                assert!(!case.about().is_empty() && suite.command(case).contains("--filter"));
            }
            16 + suite.cases.len().min(16) as u64
        })
}

/// How many cases the tables make; each of the study's configurations counts. `None` where that overflows.
fn cases(file: &SuiteFile) -> Option<usize> {
    let values = |value: &KeyValue| match value {
        KeyValue::One(word) if word == "all" => 128,
        KeyValue::List(list) => list.len(),
        KeyValue::One(_) | KeyValue::Numbers(_) | KeyValue::Texts(_) | KeyValue::Tables(_) => 1,
    };
    let of_table = |table: &hipverify::suite::Table| {
        let axes = table.settings.iter().filter(|setting| setting.key.name != "groups");
        axes.map(|setting| values(&setting.value)).try_fold(1usize, usize::checked_mul)
    };
    file.tables.iter().map(of_table).try_fold(0usize, |sum, cases| sum.checked_add(cases?))
}
