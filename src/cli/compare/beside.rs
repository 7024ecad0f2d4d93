//! Tensors that a comparison takes beside result and reference, from files of their own.

use crate::cli::input::InputArgs;
use crate::files::{Tensor, TensorFile};
use anyhow::{Result, bail};
use std::path::Path;

/// A file whose tensors belong to those that are compared.
#[derive(Debug)]
pub(super) struct Beside {
    flag: &'static str,
    file: TensorFile,
}

impl Beside {
    /// Opens the file of a flag, if it is given; raw data have format and shape of the result.
    pub(super) fn open(flag: &'static str, path: Option<&Path>, input: &InputArgs) -> Result<Option<Beside>> {
        path.map(|path| Ok(Beside { flag, file: input.open(path, 0, 2)? })).transpose()
    }

    /// The file.
    pub(super) fn file(&self) -> &TensorFile {
        &self.file
    }

    /// The tensor that belongs to the one of this name.
    pub(super) fn tensor(&self, name: &str) -> Result<&Tensor> {
        match self.file.tensors() {
            [tensor] if self.file.nameless() || tensor.name() == name || name.is_empty() => Ok(tensor),
            tensors => match tensors.iter().find(|tensor| tensor.name() == name) {
                Some(tensor) => Ok(tensor),
                None => bail!("{} {}: has no tensor `{name}`", self.flag, self.file.path().display()),
            },
        }
    }
}
