//! Each `SAFETY:` note says why it holds at its place. A note that points to another one is not read again when that one changes.
#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::path::{Path, PathBuf};

/// The notes of a source file, each with its line, comment marks and line breaks taken out.
fn notes(text: &str) -> Vec<(usize, String)> {
    let lines: Vec<&str> = text.lines().map(str::trim_start).collect();
    let comment = |line: &str| line.strip_prefix("//").map(|rest| rest.trim_start_matches(['/', '!']).trim().to_owned());
    let begins = |i: usize| Some(comment(lines[i])?.strip_prefix("SAFETY:")?.trim().to_owned());
    let whole = |i: usize| {
        let rest = lines[i + 1..].iter().map_while(|line| comment(line));
        Some((i + 1, rest.fold(begins(i)?, |note, line| format!("{note} {line}"))))
    };
    (0..lines.len()).filter_map(whole).collect()
}

/// What a note says that gives no reason, if it is one of those.
fn points_elsewhere(note: &str) -> bool {
    let note = note.to_lowercase();
    let reason = note.trim_end_matches('.');
    reason.is_empty()
        || ["as above", "as before", "as there", "as below", "see above", "see below", "ditto"].iter().any(|p| reason.starts_with(p))
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        // Links lead to files that are found where they are.
        if path.is_symlink() || path.ends_with("target") {
            continue;
        }
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn safety_notes_say_why_they_hold() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for folder in ["src", "sys", "tests", "benches", "examples"] {
        sources(&root.join(folder), &mut files);
    }
    let mut count = 0;
    let mut empty = Vec::new();
    for file in files {
        let found = notes(&std::fs::read_to_string(&file).unwrap());
        count += found.len();
        empty.extend(found.into_iter().filter(|(_, n)| points_elsewhere(n)).map(|(line, n)| format!("{}:{line}: {n}", file.display())));
    }
    assert!(count > 100, "only {count} notes were found");
    assert!(empty.is_empty(), "say why it holds at that place:\n{}", empty.join("\n"));
}

#[test]
fn notes_are_found_and_judged() {
    let text = "fn f() {\n    // SAFETY: the pointer is valid,\n    // as above.\n    a();\n    // SAFETY: As above;\n    // and more.\n    b(); // SAFETY: beside code\n}";
    let found = notes(text);
    assert_eq!(found, [(2, "the pointer is valid, as above.".to_owned()), (5, "As above; and more.".to_owned())]);
    let judged: Vec<bool> = found.iter().map(|(_, note)| points_elsewhere(note)).collect();
    assert_eq!(judged, [false, true]);
    assert!(points_elsewhere("") && points_elsewhere("See above."));
}
