//! Several files as one: the index of a sharded .safetensors file, all tensor files below a folder, and a list of files.
//!
//! An index says which file has which tensor. In a folder a tensor is called as its file, without the extension, and behind a `/` by its own name, if it has one; those of an index
//! as the folder that the index lies in. In a list, where shards of one model may come in other cuts, a tensor keeps its own
//! name, and only one that has none is called as its file. A name that two tensors have is an error.

use super::npz::MAGICS;
use super::safetensors::Pairs;
use super::{ReadOptions, Tensor, TensorFile};
use std::collections::{BTreeMap, HashSet, btree_map};
use std::fs::File;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

/// How deep folders are read: links may make circles.
const MAX_DEPTH: usize = 16;

/// Whether a file of a folder is one of its tensor files, by its name.
pub(crate) fn is_tensor_file(path: &Path) -> bool {
    let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default().to_ascii_lowercase();
    matches!(extension.as_str(), "npy" | "npz" | "safetensors" | "pt" | "pth") || is_index(path)
}

/// Whether a file of a folder is a zip archive by another name, as PyTorch's checkpoints are by .bin and .ckpt.
fn is_checkpoint(path: &Path) -> bool {
    let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default().to_ascii_lowercase();
    // A pipe would have to be waited for.
    if !matches!(extension.as_str(), "bin" | "ckpt") || !path.is_file() {
        return false;
    }
    let mut start = [0; 4];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && MAGICS.contains(&&start[..])
}

/// How the name of an index of shards ends.
const INDEX: &str = ".safetensors.index.json";

/// Whether a file is an index of shards.
pub(super) fn is_index(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(INDEX))
}

/// The tensors of the shards that an index names, in the order of their names; then those that it does not name but its shards have.
pub(super) fn read_index(path: &Path, options: &ReadOptions<'_>) -> Result<Vec<Tensor>, String> {
    read_indexed(path, options).map(|(tensors, _)| tensors)
}

/// As [`read_index`], with the files of the shards.
fn read_indexed(path: &Path, options: &ReadOptions<'_>) -> Result<(Vec<Tensor>, Vec<PathBuf>), String> {
    #[derive(serde::Deserialize)]
    struct Index {
        weight_map: Pairs,
    }
    let text = std::fs::read(path).map_err(|e| e.to_string())?;
    let Index { weight_map: Pairs(mut files_of) } = serde_json::from_slice(&text).map_err(|e| format!("index of shards: {e}"))?;
    files_of.sort_by(|a, b| a.0.cmp(&b.0));
    let folder = path.parent().unwrap_or(Path::new(""));
    // In the order of names, of files and of tensors, for what is left in the end.
    let mut shards: BTreeMap<&Path, BTreeMap<String, Tensor>> = BTreeMap::new();
    let mut tensors = Vec::with_capacity(files_of.len());
    for (name, file) in &files_of {
        let file = file.as_str().map(Path::new).ok_or_else(|| format!("index of shards: the file of `{name}` is {file}"))?;
        let shard = match shards.entry(file) {
            btree_map::Entry::Occupied(shard) => shard.into_mut(),
            btree_map::Entry::Vacant(vacant) => vacant.insert(read_shard(folder, file, options)?),
        };
        tensors.push(shard.remove(name).ok_or_else(|| format!("tensor `{name}` is not in {}, where the index says", file.display()))?);
    }
    let files = shards.keys().map(|file| folder.join(file)).collect();
    // A second copy of one that the index has elsewhere is none of the model's.
    let unnamed = |(name, _): &(String, Tensor)| files_of.binary_search_by(|(of, _)| of.cmp(name)).is_err();
    tensors.extend(shards.into_values().flatten().filter(unnamed).map(|(_, tensor)| tensor));
    super::distinct(&tensors)?;
    Ok((tensors, files))
}

/// The tensors of a shard by name. An index may name files beside it and below, nothing else.
fn read_shard(folder: &Path, file: &Path, options: &ReadOptions<'_>) -> Result<BTreeMap<String, Tensor>, String> {
    if file.components().any(|c| !matches!(c, Component::Normal(_))) {
        return Err(format!("the index names {}, which is not a file beside it", file.display()));
    }
    let (_, tensors) = super::read(&folder.join(file), options).map_err(|e| format!("{}: {e}", file.display()))?;
    Ok(tensors.into_iter().map(|t| (t.name.clone(), t)).collect())
}

/// The tensors of all files below a folder, by the files' names. An index stands for its shards.
pub(super) fn read(folder: &Path, options: &ReadOptions<'_>) -> Result<Vec<Tensor>, String> {
    let mut files = Vec::new();
    list(folder, 0, is_tensor_file, &mut files)?;
    if files.is_empty() {
        // Not beside others: published models often have the same tensors once more in such files.
        list(folder, 0, is_checkpoint, &mut files)?;
    }
    files.sort();
    let (indices, mut files): (Vec<PathBuf>, Vec<PathBuf>) = files.into_iter().partition(|path| is_index(path));
    let mut tensors = Vec::new();
    let mut shards = HashSet::new();
    for path in &indices {
        let (found, files) = read_indexed(path, options)?;
        let prefix = prefix_of(path, folder, &indices);
        tensors.extend(found.into_iter().map(|tensor| named(&prefix, tensor)));
        shards.extend(files);
    }
    files.retain(|path| !shards.contains(path));
    for path in &files {
        let stem = path.strip_prefix(folder).unwrap_or(path).with_extension("").to_string_lossy().into_owned();
        // A file that is damaged concerns no other one.
        let found = super::read(path, options).map_or_else(|e| vec![Tensor::unreadable(path, String::new(), e)], |(_, found)| found);
        tensors.extend(found.into_iter().map(|tensor| named(&stem, tensor)));
    }
    if tensors.is_empty() {
        return Err("a folder without tensors: .npy, .npz, .safetensors, .pt, .pth, or zip archives called .bin or .ckpt".to_owned());
    }
    super::distinct(&tensors)?;
    Ok(tensors)
}

/// What is before the names of an index's tensors: where it lies below the folder, and if there are several what it is called.
fn prefix_of(index: &Path, folder: &Path, indices: &[PathBuf]) -> String {
    let below = index.parent().and_then(|parent| parent.strip_prefix(folder).ok()).unwrap_or(Path::new(""));
    let several = indices.iter().filter(|other| other.parent() == index.parent()).count() > 1;
    let name = index.file_name().unwrap_or_default().to_string_lossy();
    let stem = name.strip_suffix(INDEX).unwrap_or(&name);
    let path = if several { below.join(stem) } else { below.to_owned() };
    path.to_string_lossy().into_owned()
}

/// A tensor of the file, or the index, that is called so.
fn named(of: &str, tensor: Tensor) -> Tensor {
    let name = match (of, tensor.name.as_str()) {
        (of, "") => of.to_owned(),
        ("", own) => own.to_owned(),
        (of, own) => format!("{of}/{own}"),
    };
    Tensor { name, ..tensor }
}

/// The tensors of a list of files, in its order.
pub(super) fn join(files: Vec<TensorFile>) -> Result<Vec<Tensor>, String> {
    let mut tensors = Vec::new();
    for TensorFile { path, tensors: found, .. } in files {
        let stem = path.file_stem().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        tensors.extend(
            found.into_iter().map(|tensor| Tensor { name: if tensor.name.is_empty() { stem.clone() } else { tensor.name }, ..tensor }),
        );
    }
    super::distinct(&tensors)?;
    Ok(tensors)
}

/// The files below a folder that are wanted.
fn list(folder: &Path, depth: usize, wanted: fn(&Path) -> bool, files: &mut Vec<PathBuf>) -> Result<(), String> {
    if depth > MAX_DEPTH {
        return Err(format!("{}: more than {MAX_DEPTH} folders deep", folder.display()));
    }
    let fail = |e: std::io::Error| format!("{}: {e}", folder.display());
    for entry in std::fs::read_dir(folder).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        if path.is_dir() {
            list(&path, depth + 1, wanted, files)?;
        } else if wanted(&path) {
            files.push(path);
        }
    }
    Ok(())
}
