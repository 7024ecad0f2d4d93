//! Files that a command reads and files that it writes: none is written over another.

use anyhow::{Result, bail};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Refuses to write a file over one that is read, or two over each other, or into a folder that is not there. Each is given with its flag; `-` is standard output.
pub(super) fn expect_apart(written: &[(&str, &Path)], read: &[PathBuf]) -> Result<()> {
    let read: Vec<PathBuf> = read.iter().filter_map(|path| path.canonicalize().ok()).collect();
    let mut seen: Vec<(&str, PathBuf)> = Vec::new();
    for &(flag, path) in written.iter().filter(|(_, path)| *path != Path::new("-")) {
        let Some(place) = place(path) else { bail!("{flag} {}: its folder is not there", path.display()) };
        if place.is_dir() {
            bail!("{flag} {}: a folder is no file", path.display());
        }
        if read.contains(&place) {
            bail!("{flag} {}: that file is read by this command", path.display());
        }
        if let Some((other, _)) = seen.iter().find(|(_, other)| *other == place) {
            bail!("{flag} {}: {other} is written to that file", path.display());
        }
        seen.push((flag, place));
    }
    Ok(())
}

/// Where a file is, or would be, from the root; nothing where its folder is not there.
fn place(path: &Path) -> Option<PathBuf> {
    if let Ok(whole) = path.canonicalize() {
        return Some(whole);
    }
    let folder = path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
    Some(folder.canonicalize().ok().filter(|folder| folder.is_dir())?.join(path.file_name()?))
}

/// Whether a file's name is that of a shard's results: `results-1-of-3.jsonl`.
pub(super) fn is_of_a_shard(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let numbers = name.strip_prefix("results-").and_then(|rest| rest.strip_suffix(".jsonl")).and_then(|rest| rest.split_once("-of-"));
    numbers.is_some_and(|(shard, of)| [shard, of].iter().all(|n| n.parse::<usize>().is_ok()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_written_over_something_else() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["s.toml", "old.xml"] {
            std::fs::write(at(name), "").unwrap();
        }
        for (written, words, reason) in [
            (vec!["old.xml", "new.jsonl"], "", "a file that is there already, and a new one"),
            (vec!["s.toml"], "that file is read by this command", "the suite"),
            (vec!["./s.toml"], "that file is read by this command", "the suite by another name"),
            (vec!["x", "./x"], "--0 is written to that file", "two that are not there yet"),
            (vec!["none/x"], "its folder is not there", "no folder"),
            (vec!["s.toml/x"], "its folder is not there", "a file as a folder"),
            (vec!["."], "a folder is no file", "a folder as a file"),
        ] {
            let flags = ["--0", "--1"];
            let paths: Vec<PathBuf> = written.iter().map(|name| at(name)).collect();
            let written: Vec<(&str, &Path)> = flags.into_iter().zip(paths.iter().map(PathBuf::as_path)).collect();
            match expect_apart(&written, &[at("s.toml"), at("lost")]) {
                Ok(()) => assert!(words.is_empty(), "{reason}: accepted"),
                Err(e) => assert!(!words.is_empty() && e.to_string().contains(words), "{reason}: {e}"),
            }
        }
        expect_apart(&[("--0", Path::new("-")), ("--1", Path::new("-"))], &[]).unwrap();
    }

    #[test]
    fn shards_are_known_by_the_names_of_their_files() {
        for (name, shard) in
            [("a/results-1-of-3.jsonl", true), ("results.jsonl", false), ("results-a-of-b.jsonl", false), ("all.jsonl", false)]
        {
            assert_eq!(is_of_a_shard(Path::new(name)), shard, "{name}");
        }
    }
}
