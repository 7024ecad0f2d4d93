//! Files that a command reads and files that it writes: none is written over another.

use crate::files::is_tensor_file;
use anyhow::{Result, bail, ensure};
use std::path::{Path, PathBuf};

/// Refuses to write a file over one that is read, by any name, or that is part of what is read: a tensor file below a folder, or beside an index of shards. Also two outputs to one file, of
/// which one would be lost, a folder as a file, and a file in a folder that is not there. Each output is given with its flag. Standard output, devices and pipes take several.
pub(super) fn expect_apart<'f, 'a>(
    written: impl IntoIterator<Item = (&'f str, &'a Path)>,
    read: impl IntoIterator<Item = &'a Path>,
) -> Result<()> {
    let read: Vec<(&Path, PathBuf)> = read.into_iter().filter_map(|path| Some((path, path.canonicalize().ok()?))).collect();
    let mut earlier: Vec<(&str, &Path, PathBuf)> = Vec::new();
    for (flag, path) in written.into_iter().filter(|(_, path)| *path != Path::new("-")) {
        ensure!(!path.is_dir(), "{flag} {}: a folder is no file", path.display());
        let Some(resolved) = absolute(path) else { bail!("{flag} {}: its folder is not there", path.display()) };
        if let Some((name, whole)) = read.iter().find(|(_, whole)| *whole == resolved || is_part(&resolved, whole)) {
            let part = if *whole == resolved { "" } else { "part of " };
            let by = if part.is_empty() && *name == path { String::new() } else { format!(", as {part}{}", name.display()) };
            bail!("{flag} {}: that file is read by this command{by}", path.display());
        }
        if path.exists() && !path.is_file() {
            continue;
        }
        if let Some((other, of_other, _)) = earlier.iter().find(|(.., other)| *other == resolved) {
            bail!("{other} {} and {flag} {}: one file cannot be both", of_other.display(), path.display());
        }
        earlier.push((flag, path, resolved));
    }
    Ok(())
}

/// The most links that lead from one to the next; Linux follows as many.
const MOST_LINKS: usize = 40;

/// Where a file is, or would be, from the root; nothing where its folder is not there. A link whose target is not there yet is that target, which some outputs are written to.
fn absolute(path: &Path) -> Option<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        if let Ok(whole) = path.canonicalize() {
            return Some(whole);
        }
        let folder = path.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
        let folder = folder.canonicalize().ok().filter(|folder| folder.is_dir())?;
        match path.read_link() {
            Ok(target) => path = folder.join(target),
            Err(_) => return Some(folder.join(path.file_name()?)),
        }
    }
    // Links in a circle, which the system refuses to write to.
    Some(path)
}

/// Whether a file is among the tensor files that come with what is read: a folder, or an index of shards. What is not there yet is not read.
fn is_part(path: &Path, read: &Path) -> bool {
    let index = read.extension().is_some_and(|e| e == "json");
    let folder = if index { read.parent().unwrap_or(read) } else { read };
    folder.is_dir() && path.starts_with(folder) && path.exists() && is_tensor_file(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_written_over_something_else() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["tree", "shards"] {
            std::fs::create_dir(at(name)).unwrap();
        }
        for name in ["s.toml", "old.xml", "tree/w.npy", "tree/notes.xml", "shards/m.safetensors.index.json", "shards/one.safetensors"] {
            std::fs::write(at(name), "").unwrap();
        }
        for (written, words, reason) in [
            (vec!["old.xml", "new.jsonl"], "", "a file that is there already, and a new one"),
            (vec!["s.toml"], "--0 {s.toml}: that file is read by this command", "the suite"),
            (vec!["tree/../s.toml"], "--0 {tree/../s.toml}: that file is read by this command, as {s.toml}", "the suite by another name"),
            (vec!["tree/w.npy"], "--0 {tree/w.npy}: that file is read by this command, as part of {tree}", "below a folder"),
            (vec!["tree/notes.xml", "tree/new.npy"], "", "no tensor file, and one that is not there yet"),
            (
                vec!["old.xml", "shards/one.safetensors"],
                "--1 {shards/one.safetensors}: that file is read by this command, as part of {shards/m.safetensors.index.json}",
                "beside an index",
            ),
            (vec!["x", "./x"], "--0 {x} and --1 {./x}: one file cannot be both", "two that are not there yet"),
            (vec!["none/x"], "--0 {none/x}: its folder is not there", "no folder"),
            (vec!["s.toml/x"], "--0 {s.toml/x}: its folder is not there", "a file as a folder"),
            (vec!["tree"], "--0 {tree}: a folder is no file", "a folder as a file"),
        ] {
            let paths: Vec<PathBuf> = written.iter().map(|name| at(name)).collect();
            let written = ["--0", "--1"].into_iter().zip(paths.iter().map(PathBuf::as_path));
            let read = ["s.toml", "lost", "tree", "shards/m.safetensors.index.json"].map(at);
            let found = expect_apart(written, read.iter().map(PathBuf::as_path)).map_or_else(|e| e.to_string(), |()| String::new());
            let words = words.replace('{', &format!("{}/", folder.path().display())).replace('}', "");
            assert_eq!(found, words, "{reason}");
        }
        #[cfg(unix)]
        for (links, written, words) in [
            (&[("l", "new")][..], ["l", "new"], "--0 {l} and --1 {new}: one file cannot be both"),
            (&[("r", "tree/../new")], ["new", "r"], "--0 {new} and --1 {r}: one file cannot be both"),
            (&[("l1", "l2"), ("l2", "tree/n"), ("l3", "{tree/n}")], ["l1", "l3"], "--0 {l1} and --1 {l3}: one file cannot be both"),
            (&[("o1", "a"), ("o2", "b")], ["o1", "o2"], ""),
            (&[("lost", "none/x")], ["lost", "x"], "--0 {lost}: its folder is not there"),
            (&[("c1", "c2"), ("c2", "c1")], ["c1", "x"], ""),
        ] {
            let whole = |text: &str| text.replace('{', &format!("{}/", folder.path().display())).replace('}', "");
            links.iter().for_each(|(link, target)| std::os::unix::fs::symlink(whole(target), at(link)).unwrap());
            let paths = written.map(at);
            let found = expect_apart(["--0", "--1"].into_iter().zip(paths.iter().map(PathBuf::as_path)), []);
            assert_eq!(found.map_or_else(|e| e.to_string(), |()| String::new()), whole(words), "{links:?}");
        }
        let outputs = |name: &'static str| ["--0", "--1"].map(|flag| (flag, Path::new(name)));
        expect_apart(outputs("-"), []).unwrap();
        #[cfg(unix)]
        expect_apart(outputs("/dev/null"), []).unwrap();
    }
}
