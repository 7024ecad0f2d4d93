//! What differs between two values that should be the same, named by the field.

use anyhow::{Result, bail};
use hipverify::verify::Report;
use std::fmt::Debug;

/// The report without what names the device, as text: every number to its last digit, and NaN equal to itself.
pub fn facts(mut report: Report) -> String {
    report.device.clear();
    report.why.clear();
    fields(&report)
}

/// A value as lines, a field a line.
pub fn fields(value: &impl Debug) -> String {
    format!("{value:#?}")
}

/// Compares two values as [`fields`] writes them.
///
/// # Errors
/// The first field that differs: `metrics.worst_ulp.value is 3.0, expected 4.0`.
pub fn same_fields(found: &str, expected: &str) -> Result<()> {
    // The names of the structs and lists around the line, empty where one has no name.
    let mut path = Vec::new();
    let mut lines = expected.lines();
    for line in found.lines() {
        let other = lines.next().unwrap_or_default();
        let (name, value) = split(line);
        if line != other {
            let (other_name, other_value) = split(other);
            path.push(if name.is_empty() { other_name } else { name });
            path.retain(|name| !name.is_empty());
            bail!("{} is {value}, expected {other_value}", path.join("."));
        }
        if line.ends_with(['{', '[', '(']) {
            path.push(name);
        } else if line.trim_start().starts_with(['}', ']', ')']) {
            path.pop();
        }
    }
    match lines.next() {
        None => Ok(()),
        Some(line) => bail!("expected {} as well", line.trim()),
    }
}

/// A line's field, which may have no name, and its value.
fn split(line: &str) -> (&str, &str) {
    let line = line.trim().trim_end_matches(',');
    line.split_once(": ").unwrap_or(("", line))
}

/// Compares bytes.
///
/// # Errors
/// The first byte that differs and how many do.
pub fn same_bytes(found: &[u8], expected: &[u8]) -> Result<()> {
    let differing: Vec<usize> = (0..found.len().max(expected.len())).filter(|&i| found.get(i) != expected.get(i)).collect();
    let Some(&first) = differing.first() else { return Ok(()) };
    bail!(
        "byte {first} of {} is {:02x?}, expected {:02x?}; {} differ",
        expected.len(),
        found.get(first),
        expected.get(first),
        differing.len()
    )
}
