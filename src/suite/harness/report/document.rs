//! What text and Markdown show alike: a headline, facts, lists of cases, tables; and how either draws them.
//!
//! Names, reasons and commands come from files: in text their control characters are escaped, in Markdown they cannot mark up, link, mention, refer to an issue or
//! end a cell.

use std::fmt::Write as _;

/// A piece of a document.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Block {
    /// A verdict and what it is about.
    Headline(&'static str, String),
    /// Labels and values.
    Facts(Vec<(&'static str, String)>),
    /// Cases with what is to be said about each, and how many more there are.
    Entries(&'static str, Vec<Entry>, usize),
    /// Headings, of which those that begin with `>` stand over numbers, rows, and how many more there are.
    Table(&'static str, Vec<String>, Vec<Vec<String>>, usize),
}

/// A case of a list.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    /// What became of it.
    pub(super) word: &'static str,
    pub(super) name: String,
    /// Sentences.
    pub(super) why: Vec<String>,
    /// How to see it again.
    pub(super) command: String,
}

/// The most that one entry says.
const SENTENCES: usize = 4;

/// The longest name or command of a Markdown document, in characters.
const LONGEST: usize = 240;

/// The longest sentence or cell.
const SENTENCE: usize = 120;

/// Width of labels in text: as in the reports of `verify`, whose constant is not public.
const LABEL: usize = 11;

/// The document as text for a terminal.
pub(super) fn text(blocks: &[Block]) -> String {
    let mut out = String::new();
    for block in blocks {
        match block {
            Block::Headline(word, title) => out += &format!("{word}  {}\n", plain(title)),
            Block::Facts(facts) => facts.iter().for_each(|(label, value)| out += &format!("  {label:<LABEL$}{}\n", plain(value))),
            Block::Entries(title, entries, more) => text_entries(&mut out, title, entries, *more),
            Block::Table(title, headings, rows, more) => text_table(&mut out, title, headings, rows, *more),
        }
    }
    out
}

fn text_entries(out: &mut String, title: &str, entries: &[Entry], more: usize) {
    let _ = writeln!(out, "\n  {title}");
    for entry in entries {
        let _ = writeln!(out, "    {:<LABEL$}{}", entry.word, plain(&entry.name));
        for line in entry.why.iter().take(SENTENCES) {
            let _ = writeln!(out, "    {:<LABEL$}{}", "", plain(line));
        }
        if !entry.command.is_empty() {
            let _ = writeln!(out, "    {:<LABEL$}$ {}", "", plain(&entry.command));
        }
    }
    if more > 0 {
        let _ = writeln!(out, "    and {more} more");
    }
}

fn text_table(out: &mut String, title: &str, headings: &[String], rows: &[Vec<String>], more: usize) {
    let bare = headings.iter().map(|h| h.trim_start_matches('>').to_owned()).collect();
    let rows: Vec<Vec<String>> = std::iter::once(bare).chain(rows.iter().map(|row| row.iter().map(|cell| plain(cell)).collect())).collect();
    let right: Vec<bool> = headings.iter().map(|heading| heading.starts_with('>')).collect();
    let _ = writeln!(out, "\n  {title}");
    for line in lined_up(&rows, &right) {
        let _ = writeln!(out, "    {line}");
    }
    if more > 0 {
        let _ = writeln!(out, "    and {more} more");
    }
}

/// The lines of a table whose columns are as wide as their widest cell, flush right where that is said: two spaces between them, no trailing space.
pub(crate) fn lined_up(rows: &[Vec<String>], right: &[bool]) -> Vec<String> {
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..right.len()).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).zip(right);
        let padded = cells.map(|((cell, &w), &right)| if right { format!("{cell:>w$}") } else { format!("{cell:<w$}") });
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

/// The document as Markdown, as GitHub and GitLab draw it.
pub(super) fn markdown(blocks: &[Block]) -> String {
    let mut out = String::new();
    for block in blocks {
        match block {
            Block::Headline(word, title) => out += &format!("## {word}: {}\n\n", escaped(title)),
            Block::Facts(facts) => {
                facts.iter().for_each(|(label, value)| out += &format!("- {label}: {}\n", escaped(value)));
                out.push('\n');
            }
            Block::Entries(title, entries, more) => markdown_entries(&mut out, title, entries, *more),
            Block::Table(title, headings, rows, more) => markdown_table(&mut out, title, headings, rows, *more),
        }
    }
    out.truncate(out.trim_end().len());
    out + "\n"
}

fn markdown_entries(out: &mut String, title: &str, entries: &[Entry], more: usize) {
    let _ = writeln!(out, "### {}\n", capital(title));
    for entry in entries {
        let _ = writeln!(out, "- **{}** {}", entry.word, code(&entry.name));
        for line in entry.why.iter().take(SENTENCES) {
            let _ = writeln!(out, "  - {}", escaped(line));
        }
        if !entry.command.is_empty() {
            let _ = writeln!(out, "  - {}", code(&entry.command));
        }
    }
    if more > 0 {
        let _ = writeln!(out, "- and {more} more");
    }
    out.push('\n');
}

fn markdown_table(out: &mut String, title: &str, headings: &[String], rows: &[Vec<String>], more: usize) {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    *out += &format!("### {}\n\n", capital(title));
    *out += &line(headings.iter().map(|h| escaped(h.trim_start_matches('>'))).collect());
    *out += &line(headings.iter().map(|h| if h.starts_with('>') { "---:" } else { "---" }.to_owned()).collect());
    rows.iter().for_each(|row| *out += &line(row.iter().map(|cell| escaped(cell)).collect()));
    if more > 0 {
        *out += &format!("\nand {more} more\n");
    }
    out.push('\n');
}

/// Text from a file with escapes for control characters, so that it can neither break a line nor paint, and for those that are not seen or turn a line's direction.
pub(crate) fn plain(text: &str) -> String {
    let escaped = |c: char| match c {
        c if c.is_control() => c.escape_debug().collect::<Vec<_>>(),
        c if is_format(c) => c.escape_unicode().collect(),
        c => vec![c],
    };
    text.chars().flat_map(escaped).collect()
}

/// Characters that show as nothing and belong to no script's spelling, that turn the direction of what follows, or end a line. Joiners stay: Persian and emoji need them.
pub(crate) fn is_format(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'
            | '\u{200e}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e007f}'
    )
}

/// At most `most` characters, at least one: what is longer loses its middle.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    let length = text.chars().count();
    if length <= most {
        return text.to_owned();
    }
    let kept = most.saturating_sub(1);
    let front = kept / 2;
    text.chars().take(front).chain(['…']).chain(text.chars().skip(length - (kept - front))).collect()
}

/// Text that Markdown shows as it is. A space without width keeps `@name` from being a mention. What GitHub and GitLab make links of by themselves is parted: in
/// addresses by a backslash; in `#1` and `GH-1`, which are looked for in what Markdown has become, by code.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    let text = plain(&shortened(text, SENTENCE));
    for (at, c) in text.char_indices() {
        let (before, next) = (&text[..at], text[at + c.len_utf8()..].chars().next().unwrap_or(' '));
        match c {
            '#' | '-' if next.is_ascii_digit() && (c == '#' || ends_with(before, "gh")) => out += &format!("`{c}`"),
            '@' => out += "\\@\u{200b}",
            ':' if next == '/' || next.is_alphanumeric() => out += "\\:",
            '.' if ends_with(before, "www") => out += "\\.",
            _ if c.is_ascii_punctuation() && !".,:;%/='\"?-+".contains(c) => out.extend(['\\', c]),
            _ => out.push(c),
        }
    }
    out
}

/// Whether a text ends with these ASCII letters, large or small.
fn ends_with(text: &str, letters: &str) -> bool {
    let parts = text.len().checked_sub(letters.len()).and_then(|at| text.split_at_checked(at));
    parts.is_some_and(|(before, end)| end.eq_ignore_ascii_case(letters) && !before.ends_with(char::is_alphanumeric))
}

/// Text as code, between more backticks than it has in a row.
fn code(text: &str) -> String {
    let text = plain(&shortened(text, LONGEST));
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let space = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{fence}{space}{text}{space}{fence}")
}

fn capital(title: &str) -> String {
    let mut chars = title.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn document() -> Vec<Block> {
        let entry = Entry { word: "fail", name: "a|b".to_owned(), why: vec!["1 of *2*".to_owned()], command: "run a|b".to_owned() };
        let headings = ["case", ">value"].map(str::to_owned).to_vec();
        let rows = [["long name", "1"], ["x", "10"]].map(|row| row.map(str::to_owned).to_vec()).to_vec();
        vec![
            Block::Headline("FAIL", "suite s".to_owned()),
            Block::Facts(vec![("devices", "host".to_owned())]),
            Block::Entries("not as expected", vec![entry], 2),
            Block::Table("slowest", headings, rows, 1),
        ]
    }

    #[test]
    fn text_lines_up() {
        assert_eq!(
            text(&document()),
            "FAIL  suite s\n  devices    host\n\n  not as expected\n    fail       a|b\n               1 of *2*\n               $ run a|b\n    and 2 more\n\n  \
             slowest\n    case       value\n    long name      1\n    x             10\n    and 1 more\n"
        );
    }

    #[test]
    fn markdown_has_headings_lists_and_tables() {
        assert_eq!(
            markdown(&document()),
            "## FAIL: suite s\n\n- devices: host\n\n### Not as expected\n\n- **fail** `a|b`\n  - 1 of \\*2\\*\n  - `run a|b`\n- and 2 more\n\n\
             ### Slowest\n\n| case | value |\n| --- | ---: |\n| long name | 1 |\n| x | 10 |\n\nand 1 more\n"
        );
    }

    #[test]
    fn long_names_lose_their_middle() {
        for (name, most, text) in [
            ("weight", 10, "weight"),
            ("0123456789", 10, "0123456789"),
            ("0123456789a", 10, "0123…6789a"),
            ("0123456789", 9, "0123…6789"),
            ("ääääääääääää", 10, "ääää…äääää"),
            ("ab", 1, "…"),
        ] {
            assert_eq!(shortened(name, most), text);
        }
    }

    #[test]
    fn names_mark_up_nothing() {
        for (name, text, as_code, reason) in [
            ("a|b", "a\\|b", "`a|b`", "a cell of a table"),
            ("<img src=x>", "\\<img src=x\\>", "`<img src=x>`", "HTML"),
            ("[a](b)", "\\[a\\]\\(b\\)", "`[a](b)`", "a link"),
            ("a\n# b", "a\\\\n\\# b", "`a\\n# b`", "a line of its own"),
            ("@all", "\\@\u{200b}all", "`@all`", "a mention"),
            ("https://a.b/c", "https\\://a.b/c", "`https://a.b/c`", "an address"),
            ("WWW.a.b", "WWW\\.a.b", "`WWW.a.b`", "an address without a scheme"),
            ("mailto:a@b.c", "mailto\\:a\\@\u{200b}b.c", "`mailto:a@b.c`", "a letter box"),
            ("see #12, a/b#3", "see `#`12, a/b`#`3", "`see #12, a/b#3`", "an issue"),
            ("gh-12 GH-x", "gh`-`12 GH-x", "`gh-12 GH-x`", "an issue by its other name"),
            ("high-16", "high-16", "`high-16`", "no issue"),
            ("max: 1.5e-3, 1-2", "max: 1.5e-3, 1-2", "`max: 1.5e-3, 1-2`", "numbers stay as they are"),
            ("`a``b`", "\\`a\\`\\`b\\`", "``` `a``b` ```", "the end of code"),
        ] {
            assert_eq!((escaped(name), code(name)), (text.to_owned(), as_code.to_owned()), "{reason}");
        }
        assert_eq!(plain("\u{1b}[31m"), "\\u{1b}[31m", "colours of a terminal");
        assert_eq!(code("a\u{202e}b"), "`a\\u{202e}b`", "a line that runs backwards");
        assert_eq!(code(&"x".repeat(1000)).chars().count(), LONGEST + 2, "a name has a longest length");
    }
}
