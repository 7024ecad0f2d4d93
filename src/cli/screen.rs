//! How things look on the screen: colours, numbers, tables, progress.

pub(super) use crate::suite::report::{plain, shortened};

use crate::suite::report::{is_format, lined_up};
pub(super) use crate::verify::{grouped as count, percent, short as number};
use anstyle::{AnsiColor, Style};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use std::fmt::Write as _;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Rows of a table of tensors, at most.
pub(super) const MOST_ROWS: usize = 100;

/// What failed.
pub(super) const BAD: Style = AnsiColor::Red.on_default().bold();
/// What passed.
pub(super) const GOOD: Style = AnsiColor::Green.on_default().bold();
/// What deserves a look.
pub(super) const WARN: Style = AnsiColor::Yellow.on_default().bold();
/// Headings and units, which the eye may skip.
pub(super) const DIM: Style = Style::new().dimmed();

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

/// `1 tensor`, `2,000 tensors`.
pub(super) fn counted(n: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(n), if n == 1 { "" } else { "s" })
}

/// Prints on stdout. That somebody stopped reading, `head` say, is no failure: the exit code still tells the verdict.
pub(super) fn print(text: &str) -> std::io::Result<()> {
    print_to_reader(text).map(drop)
}

/// As [`print`]; whether somebody still reads, for a command that has more to compute only if that is so.
pub(super) fn print_to_reader(text: &str) -> std::io::Result<bool> {
    write_out(&visible(text))
}

fn write_out(text: &str) -> std::io::Result<bool> {
    write_to(anstream::stdout().lock(), text)
}

/// Writes to standard output.
fn write_to(mut out: impl Write, text: &str) -> std::io::Result<bool> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(e) => Err(std::io::Error::new(e.kind(), format!("standard output: {e}"))),
        Ok(()) => Ok(true),
    }
}

/// Prints a line on stderr. What is said there beside the verdict changes nothing about it, so that nothing can fail.
pub(super) fn note(line: &str) {
    let _ = writeln!(anstream::stderr(), "{}", visible(line));
}

/// With escapes for characters that show as nothing or turn the direction of a line: names come from files, and must not make it say something else.
fn visible(text: &str) -> String {
    text.chars().flat_map(|c| if is_format(c) { c.escape_unicode().collect::<Vec<_>>() } else { vec![c] }).collect()
}

/// Prints JSON on stdout, as it is: what takes escapes of colours away takes characters of names with them.
pub(super) fn print_json(document: &impl serde::Serialize) -> anyhow::Result<()> {
    write_to(std::io::stdout().lock(), &(serde_json::to_string_pretty(document)? + "\n"))?;
    Ok(())
}

/// Columns of the screen: those of the terminal, or of the variable COLUMNS; `None` where lines may have any length.
pub(super) fn width() -> Option<usize> {
    let asked = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    asked.or_else(|| terminal_size::terminal_size_of(std::io::stdout()).map(|(terminal_size::Width(w), _)| usize::from(w)))
}

/// Lines no longer than `width` where they have spaces to be broken at; what follows a break is indented by `indent`.
pub(super) fn wrapped(text: &str, width: usize, indent: usize) -> String {
    let mut lines = Vec::new();
    for line in text.lines() {
        let mut rest = line.to_owned();
        // A word that is longer than the screen stays whole.
        while let Some(at) = (rest.chars().count() > width).then(|| break_at(&rest, width, indent)).flatten() {
            let next = format!("{}{}", " ".repeat(indent), rest[at..].trim_start());
            rest.truncate(at);
            lines.push(rest.trim_end().to_owned());
            rest = next;
        }
        lines.push(rest);
    }
    lines.join("\n")
}

/// The last space up to column `width`, else the first behind it; behind the indentation and at least one word.
fn break_at(line: &str, width: usize, indent: usize) -> Option<usize> {
    let spaces = || {
        let columns = line.char_indices().enumerate().skip(indent + 1);
        columns.filter(|&(_, (at, c))| c == ' ' && !line[..at].trim().is_empty())
    };
    let last = spaces().take_while(|&(column, _)| column <= width).last();
    last.or_else(|| spaces().next()).map(|(_, (at, _))| at)
}

/// A shape as `[2,3]`.
pub(super) fn shape(extents: &[usize]) -> String {
    // One string for all extents: a list of mismatches has millions of lines.
    let mut text = String::from("[");
    for (i, extent) in extents.iter().enumerate() {
        let _ = write!(text, "{}{extent}", if i == 0 { "" } else { "," });
    }
    text + "]"
}

/// A place as `[17, 4080]`.
pub(super) fn coordinates(coordinates: &[usize]) -> String {
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
        self.rows.push(cells.iter().map(|c| plain(c)).collect());
    }

    /// Leaves out a column, if the table is wider than `width`.
    pub(super) fn narrow(&mut self, width: usize, heading: &str) {
        let column = self.rows.first().and_then(|headings| headings.iter().position(|h| h == heading));
        let widest = self.lines().iter().map(|line| line.chars().count()).max();
        if let (Some(column), true) = (column, widest > Some(width)) {
            self.right.remove(column);
            self.rows.iter_mut().filter(|row| row.len() > column).for_each(|row| drop(row.remove(column)));
        }
    }

    /// The lines, the headings first.
    pub(super) fn lines(&self) -> Vec<String> {
        lined_up(&self.rows, &self.right)
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

/// A progress bar on stderr, if that is a terminal, for work that can be counted. It shows only when the work takes long.
pub(super) struct Progress {
    bar: ProgressBar,
    started: Instant,
}

impl Progress {
    /// A bar for `total` steps.
    pub(super) fn new(total: u64, what: &'static str) -> Progress {
        let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden()).with_message(what);
        if let Ok(style) = ProgressStyle::with_template("{msg}  [{bar:20}] {percent:>3} %  {rate}  {eta} left") {
            let rate = |state: &ProgressState, out: &mut dyn std::fmt::Write| {
                // A rate that cannot be shown is no failure.
                let _ = write!(out, "{} M elements/s", number(state.per_sec() / 1e6, 3));
            };
            bar.set_style(style.with_key("rate", rate).progress_chars("=> "));
        }
        Progress { bar, started: Instant::now() }
    }

    /// Counts `steps` more.
    pub(super) fn add(&self, steps: u64) {
        if self.bar.is_hidden() && self.started.elapsed() > PATIENCE && std::io::stderr().is_terminal() {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.inc(steps);
    }

    /// Takes the bar off the screen.
    pub(super) fn end(self) {
        self.bar.finish_and_clear();
    }
}

/// How long nothing is shown.
const PATIENCE: Duration = Duration::from_millis(500);

/// A sign of life on stderr, if that is a terminal, for work that cannot be counted.
pub(super) fn spinner(what: &str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new_spinner().with_message(what.to_owned());
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}  {elapsed}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(120));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_sizes_for_people() {
        assert_eq!([0, 1, 2000].map(|n| counted(n, "tensor")), ["0 tensors", "1 tensor", "2,000 tensors"]);
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
    fn lines_are_broken_at_spaces() {
        for (text, broken) in [
            ("  label  one two", "  label  one two"),
            ("  label  one two three four", "  label  one two\n         three\n         four"),
            ("  label  onetwothreefour five", "  label  onetwothreefour\n         five"),
            ("onetwothreefourfivesix", "onetwothreefourfivesix"),
        ] {
            assert_eq!(wrapped(text, 16, 9), broken);
        }
    }

    #[test]
    fn names_cannot_break_lines() {
        assert_eq!(plain("a\nb\u{1b}[31m \u{e4}\u{9b}"), "a\\nb\\u{1b}[31m \u{e4}\\u{9b}");
    }

    #[test]
    fn what_is_not_seen_is_escaped() {
        for (text, shown) in [
            ("w\u{202e}ssap", "w\\u{202e}ssap"),
            ("a\u{2066}b\u{2069}\u{200b}\u{feff}\u{e0041}", "a\\u{2066}b\\u{2069}\\u{200b}\\u{feff}\\u{e0041}"),
            ("\u{1b}[1mä → ▏\u{1b}[0m\n", "\u{1b}[1mä → ▏\u{1b}[0m\n"),
            (
                "\u{600}\u{6dd} \u{645}\u{6cc}\u{200c}\u{62e}\u{648}\u{627}\u{647}\u{645}",
                "\u{600}\u{6dd} \u{645}\u{6cc}\u{200c}\u{62e}\u{648}\u{627}\u{647}\u{645}",
            ),
        ] {
            assert_eq!(visible(text), shown);
        }
    }

    #[test]
    fn bars_show_even_the_smallest_share() {
        assert_eq!(bar(0, 10, 4), "");
        assert_eq!(bar(1, 1_000_000, 4), "▏");
        assert_eq!(bar(10, 10, 4), "████");
        assert_eq!(bar(5, 10, 3), "█▌");
    }
}
