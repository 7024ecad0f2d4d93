//! Names of files of results.

use std::ffi::OsStr;
use std::path::Path;

/// Whether a file's name is that of a shard's results: `results-1-of-3.jsonl`.
pub(super) fn is_of_a_shard(path: &Path) -> bool {
    let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
    let numbers = name.strip_prefix("results-").and_then(|rest| rest.strip_suffix(".jsonl")).and_then(|rest| rest.split_once("-of-"));
    numbers.is_some_and(|(shard, of)| [shard, of].iter().all(|n| n.parse::<usize>().is_ok()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_known_by_the_names_of_their_files() {
        for (name, shard) in
            [("a/results-1-of-3.jsonl", true), ("results.jsonl", false), ("results-a-of-b.jsonl", false), ("all.jsonl", false)]
        {
            assert_eq!(is_of_a_shard(Path::new(name)), shard, "{name}");
        }
    }
}
