//! A program as a kernel under test: inputs and result are tensor files in a folder of its own.

use super::entry::ProgramEntry;
use super::kernel::{KernelError, Launch};
use super::process;
use super::tensor_files::{description, file_name, write_inputs};
use crate::dtype::DType;
use crate::files::{ReadOptions, TensorFile};
use std::path::Path;
use std::process::{Command, Stdio};

/// The most of what a program says that is repeated.
const WORDS: usize = 600;

/// Runs the program in a new folder with the inputs and `case.json`, and reads `result.npy` or `result.safetensors`.
pub(crate) fn run(entry: &ProgramEntry, launch: &mut Launch<'_>) -> Result<(), KernelError> {
    let folder = tempfile::Builder::new().prefix("hipverify-case-").tempdir()?;
    let files = write_inputs(folder.path(), launch.inputs())?;
    let (result, _) = file_name("result", launch.output_dtype());
    let more = serde_json::json!({
        "inputs": files,
        "result": { "file": result, "dtype": launch.output_dtype().name(), "shape": launch.output_shape() },
    });
    let case = description(launch.case(), more);
    std::fs::write(folder.path().join("case.json"), serde_json::to_vec_pretty(&case)?)?;
    execute(entry, folder.path())?;
    read(&folder.path().join(&result), launch)
}

fn execute(entry: &ProgramEntry, folder: &Path) -> Result<(), KernelError> {
    // What is there relative to the suite is meant so: the program itself, and arguments that are files. Links stay as they are: the Python of a virtual environment is one.
    let local = |word: &String| match std::path::absolute(entry.folder.join(word)) {
        Ok(path) if path.is_file() => path.into_os_string(),
        _ => word.into(),
    };
    let words: Vec<_> = entry.command.iter().map(local).collect();
    let shown = entry.command.join(" ");
    let mut command = Command::new(&words[0]);
    process::follow(&mut command);
    let output = command.args(&words[1..]).current_dir(folder).stdin(Stdio::null()).output();
    let output = output.map_err(|e| format!("`{shown}` did not start: {e}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.trim();
    let start = said.char_indices().rev().take(WORDS).last().map_or(0, |(at, _)| at);
    Err(format!("`{shown}` ended with {}: {}", output.status, &said[start..]).into())
}

fn read(path: &Path, launch: &mut Launch<'_>) -> Result<(), KernelError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if !path.is_file() {
        return Err(format!("the program wrote no {name}").into());
    }
    let file = TensorFile::open(path, &ReadOptions::default())?;
    let [tensor] = file.tensors() else { return Err(format!("{name} has {} tensors, not one", file.tensors().len()).into()) };
    let loaded = tensor.load()?;
    if loaded.dtype() != launch.output_dtype() || loaded.layout().shape() != launch.output_shape() {
        let (found, wanted) = (loaded.dtype(), launch.output_dtype());
        let (shape, expected) = (loaded.layout().shape(), launch.output_shape());
        return Err(format!("{name} is {found}{shape:?} where {wanted}{expected:?} is wanted").into());
    }
    let layout = loaded.layout();
    if layout.is_contiguous() {
        let start = wanted_bytes(loaded.dtype(), layout.offset());
        let end = start + wanted_bytes(loaded.dtype(), layout.elements());
        return Ok(launch.write_bytes(&loaded.bytes()[start..end])?);
    }
    // NumPy's transposed arrays: elements in their logical order.
    let mut bytes = vec![0; wanted_bytes(loaded.dtype(), layout.elements())];
    for i in 0..layout.elements() {
        loaded.dtype().store_bits(&mut bytes, i, loaded.dtype().load_bits(loaded.bytes(), layout.index(i)));
    }
    Ok(launch.write_bytes(&bytes)?)
}

/// Bytes of so many elements of a tensor that fits memory.
fn wanted_bytes(dtype: DType, elements: usize) -> usize {
    dtype.bytes_for(elements).unwrap_or(usize::MAX)
}
