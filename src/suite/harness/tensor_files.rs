//! The tensors of a case as files: what programs under test read, and what failed cases leave behind.

use super::cases::Case;
use super::guard::Guard;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::files::{Format, Output, check, write};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::{Component, Path};

/// That files of tensors can have a tensor: tf32 and integers of 4 bits are in neither kind, and packed elements have to fill whole bytes.
pub(crate) fn expect_file(dtype: DType, shape: &[usize]) -> Result<()> {
    let by = || ".npy and .safetensors files, by which programs get their tensors".to_owned();
    if dtype.numpy_code().or(dtype.safetensors_name()).is_none() {
        return Err(Error::Unsupported { what: format!("the format {dtype}"), by: by() });
    }
    let elements: usize = shape.iter().product();
    let (file, format) = file_name("tensor", dtype);
    if check(Path::new(&file), format, dtype, shape).is_err() {
        return Err(Error::Unsupported {
            what: format!("a tensor of {elements} elements of {dtype}, which do not fill whole bytes,"),
            by: by(),
        });
    }
    Ok(())
}

/// Whether a word of a command is a file in the case's own folder: `case.json`, or the file of one of these tensors.
pub(crate) fn names_a_file_of_the_case(word: &str, tensors: &[&str]) -> bool {
    let mut parts = Path::new(word).components().filter(|part| *part != Component::CurDir);
    let (Some(Component::Normal(name)), None) = (parts.next(), parts.next()) else { return false };
    let is = |tensor: &&str| name == format!("{tensor}.npy").as_str() || name == format!("{tensor}.safetensors").as_str();
    name == "case.json" || tensors.iter().any(is)
}

/// The name of a tensor's file: .npy where NumPy has the format, else .safetensors.
pub(crate) fn file_name(tensor: &str, dtype: DType) -> (String, Format) {
    match dtype.numpy_code() {
        Some(_) => (format!("{tensor}.npy"), Format::Npy),
        None => (format!("{tensor}.safetensors"), Format::Safetensors),
    }
}

/// Writes a tensor into a folder. The name of its file.
pub(crate) fn write_tensor(folder: &Path, name: &str, guard: &Guard) -> Result<String> {
    let (file, format) = file_name(name, guard.dtype());
    let output = Output { name, dtype: guard.dtype(), shape: guard.shape(), bytes: &guard.to_bytes()? };
    write(&folder.join(&file), format, &output)?;
    Ok(file)
}

/// Writes inputs into a folder: the names of their files by their own.
pub(crate) fn write_inputs(folder: &Path, inputs: &[(&'static str, Guard)]) -> Result<Map<String, Value>> {
    inputs.iter().map(|(name, guard)| Ok(((*name).to_owned(), write_tensor(folder, name, guard)?.into()))).collect()
}

/// What `case.json` says of a case; `more` are keys beside those of every case.
pub(crate) fn description(case: &Case, more: Value) -> Value {
    let axes: BTreeMap<&String, &String> = case.axes.iter().map(|(key, value)| (key, value)).collect();
    let mut out = json!({ "case": case.name, "axes": axes });
    if let Some(problem) = case.problem() {
        out["problem"] = problem.described();
    }
    if let Some(operator) = case.operator() {
        out["operator"] = operator.described();
    }
    if let Some(epilogue) = case.gemm() {
        out["gemm"] = epilogue.described();
        for (name, scales) in case.problem().into_iter().flat_map(|problem| problem.scales().described()) {
            out["gemm"][name] = scales;
        }
    }
    if let (Value::Object(out), Value::Object(more)) = (&mut out, more) {
        out.extend(more);
    }
    out
}
