//! How things look on the screen: colours, numbers, tables, progress.

use anstyle::{AnsiColor, Style};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;

/// What failed.
pub(super) const BAD: Style = AnsiColor::Red.on_default().bold();
/// What passed.
pub(super) const GOOD: Style = AnsiColor::Green.on_default().bold();
/// What deserves a look.
pub(super) const WARN: Style = AnsiColor::Yellow.on_default().bold();
/// Headings and units, which the eye may skip.
pub(super) const DIM: Style = Style::new().dimmed();

/// A whole number with thousands separators.
pub(super) fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// A value with the digits that tell elements of `digits10` decimal digits apart: `0.1`, `-3.5`, `1e-7`, `nan`.
pub(super) fn number(v: f64, significant: usize) -> String {
    if v.is_nan() {
        return "nan".to_owned();
    }
    if v.is_infinite() || v == 0.0 {
        return format!("{v}");
    }
    let scientific = format!("{:.*e}", significant.saturating_sub(1), v);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-5..significant.max(7) as i32).contains(&exponent) {
        let decimals = (significant as i32 - 1 - exponent).max(0) as usize;
        return trimmed(&format!("{v:.decimals$}")).to_owned();
    }
    format!("{}e{exponent}", trimmed(mantissa))
}

/// Without zeros at the end of a fraction.
fn trimmed(s: &str) -> &str {
    if s.contains('.') { s.trim_end_matches('0').trim_end_matches('.') } else { s }
}

/// A share in percent that never shows 0 for some and never 100 for not all.
pub(super) fn percent(part: u64, whole: u64) -> String {
    if part == 0 || whole == 0 {
        return "0 %".to_owned();
    }
    if part == whole {
        return "100 %".to_owned();
    }
    let p = 100.0 * part as f64 / whole as f64;
    if p > 99.99 {
        return "99.99+ %".to_owned();
    }
    // Two significant digits, never in scientific notation.
    let decimals = if p < 0.01 { (1.0 - p.log10().floor()) as usize } else { 2 };
    let text = format!("{p:.decimals$}");
    if p < 0.01 { format!("{} %", trimmed(&text)) } else { format!("{text} %") }
}

/// A size in bytes for people.
pub(super) fn bytes(n: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut unit = 0;
    let mut v = n as f64;
    while v >= 1024.0 && unit + 1 < UNITS.len() {
        v /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{n} B") } else { format!("{v:.1} {}", UNITS[unit]) }
}

/// A shape as `[2,3]`.
pub(super) fn shape(extents: &[usize]) -> String {
    let inner: Vec<String> = extents.iter().map(ToString::to_string).collect();
    format!("[{}]", inner.join(","))
}

/// A place as `[17, 4080]`.
pub(super) fn place(coordinates: &[usize]) -> String {
    format!("{coordinates:?}")
}

/// A table whose columns are as wide as their widest cell; two spaces between them, no trailing space.
#[derive(Debug, Default)]
pub(super) struct Table {
    rows: Vec<Vec<String>>,
    right: Vec<bool>,
}

impl Table {
    /// A table with these headings; those that start with `>` are flush right.
    pub(super) fn new(headings: &[&str]) -> Table {
        let right = headings.iter().map(|h| h.starts_with('>')).collect();
        Table { rows: vec![headings.iter().map(|h| h.trim_start_matches('>').to_owned()).collect()], right }
    }

    /// Adds a row.
    pub(super) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// The lines, the headings first.
    pub(super) fn lines(&self) -> Vec<String> {
        let width = |column: usize| self.rows.iter().filter_map(|r| r.get(column)).map(|c| c.chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.right.len()).map(width).collect();
        let line = |row: &Vec<String>| {
            let cells = row.iter().zip(&widths).zip(&self.right);
            let padded = cells.map(|((cell, &w), &right)| if right { format!("{cell:>w$}") } else { format!("{cell:<w$}") });
            padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        self.rows.iter().map(line).collect()
    }
}

/// A bar of `length` characters, of which the share `part / whole` is full, in eighths of a character.
pub(super) fn bar(part: u64, whole: u64, length: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    if part == 0 || whole == 0 {
        return String::new();
    }
    let eighths = ((part as f64 / whole as f64 * (length * 8) as f64).round() as usize).clamp(1, length * 8);
    "█".repeat(eighths / 8) + EIGHTHS[eighths % 8]
}

/// A progress bar on stderr, if that is a terminal, that shows after a moment; `unit` is what is counted.
pub(super) fn progress(total: u64, what: &str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(total).with_message(what.to_owned());
    if let Ok(style) = ProgressStyle::with_template("{msg}  [{bar:32}] {percent:>3} %  {elapsed} (left: {eta})") {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people() {
        for (n, words) in [(0, "0"), (999, "999"), (1000, "1,000"), (16_777_216, "16,777,216")] {
            assert_eq!(count(n), words);
        }
        for (v, digits, words) in [
            (0.0, 6, "0"),
            (-0.0, 6, "-0"),
            (1.0, 6, "1"),
            (0.1, 6, "0.1"),
            (-3.140625, 6, "-3.14062"),
            (65504.0, 6, "65504"),
            (1e-7, 6, "1e-7"),
            (-1.5e30, 6, "-1.5e30"),
            (9_999_999.6, 6, "1e7"),
            (f64::INFINITY, 6, "inf"),
            (f64::NAN, 6, "nan"),
            (0.000_018, 2, "0.000018"),
        ] {
            assert_eq!(number(v, digits), words);
        }
        for (part, whole, words) in
            [(0, 5, "0 %"), (5, 5, "100 %"), (1, 3, "33.33 %"), (1, 16_777_216, "0.000006 %"), (16_777_215, 16_777_216, "99.99+ %")]
        {
            assert_eq!(percent(part, whole), words);
        }
        assert_eq!((bytes(1023), bytes(64 << 20)), ("1023 B".to_owned(), "64.0 MiB".to_owned()));
    }

    #[test]
    fn tables_line_up() {
        let mut t = Table::new(&["name", ">n"]);
        t.row(vec!["a".into(), "1".into()]);
        t.row(vec!["weight".into(), "12345".into()]);
        assert_eq!(t.lines(), ["name        n", "a           1", "weight  12345"]);
    }

    #[test]
    fn bars_show_even_the_smallest_share() {
        assert_eq!(bar(0, 10, 4), "");
        assert_eq!(bar(1, 1_000_000, 4), "▏");
        assert_eq!(bar(10, 10, 4), "████");
        assert_eq!(bar(5, 10, 3), "█▌");
    }
}
